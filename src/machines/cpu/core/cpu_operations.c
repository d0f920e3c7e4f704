/* Batches of operations (core/operations.h). Threads share the rows in pieces, at most MOST_PIECES of them: what each
 * piece counts lies on the stack. */
#include "machines/cpu/core/cpu_operations.h"

#include "core/memory.h"
#include "machines/cpu/core/cpu_arrays.h"

#include <stdatomic.h>
#include <string.h>

enum { LEAST_PIECE = 1 << 14, MOST_PIECES = 256 };

typedef struct pieces {
    uint64_t n, each, count;
} pieces;

static pieces cut(uint64_t n)
{
    uint64_t each = n / MOST_PIECES + 1;
    each = each < LEAST_PIECE ? LEAST_PIECE : each;
    return (pieces){n, each, (n + each - 1) / each};
}

static uint64_t begin_of(const pieces *all, uint64_t piece)
{
    const uint64_t begin = piece * all->each;
    return begin < all->n ? begin : all->n;
}

/* ---- rows by kind ---- */

/* Whole blocks, so that no two threads count in one. */
static pieces cut_at_blocks(uint64_t n)
{
    pieces all = cut(n);
    all.each = loom__kind_blocks(all.each) * LOOM__KIND_BLOCK;
    all.count = (n + all.each - 1) / all.each;
    return all;
}

typedef struct kind_count {
    pieces all;
    loom__kind_order order; /* places may be NULL */
    uint64_t counts[MOST_PIECES][LOOM__KINDS];
} kind_count;

static uint64_t end_of_block(uint64_t begin, uint64_t n)
{
    return n - begin < LOOM__KIND_BLOCK ? n : begin + LOOM__KIND_BLOCK;
}

static void count_kinds(void *argument, uint64_t piece)
{
    kind_count *all = argument;
    const uint64_t n = all->order.n, blocks = loom__kind_blocks(n), end = begin_of(&all->all, piece + 1);
    uint64_t sum[LOOM__KINDS] = {0};
    for (uint64_t begin = begin_of(&all->all, piece); begin < end; begin += LOOM__KIND_BLOCK) {
        uint32_t counts[LOOM__KINDS] = {0};
        for (uint64_t i = begin, last = end_of_block(begin, n); i < last; i++)
            counts[loom__kind_of(all->order.operations[i])]++;
        for (uint32_t kind = 0; kind < LOOM__KINDS; kind++) {
            sum[kind] += counts[kind];
            if (all->order.places != NULL)
                all->order.places[kind * blocks + begin / LOOM__KIND_BLOCK] = counts[kind];
        }
    }
    memcpy(all->counts[piece], sum, sizeof sum);
}

loom_status loom__cpu_count_operations(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *places,
                                       uint64_t counts[LOOM__KINDS], loom_stream stream)
{
    kind_count all = {.all = cut_at_blocks(n), .order = {.operations = operations, .n = n, .places = places}};
    (void)stream;
    machine->ops->host_parallel(machine, all.all.count, count_kinds, &all);
    for (uint32_t kind = 0; counts != NULL && kind < LOOM__KINDS; kind++) {
        counts[kind] = 0;
        for (uint64_t piece = 0; piece < all.all.count; piece++)
            counts[kind] += all.counts[piece][kind];
    }
    uint32_t before = 0;
    for (uint64_t i = 0; places != NULL && i < loom__kind_places(n); i++) {
        const uint32_t count = places[i];
        places[i] = before;
        before += count;
    }
    return LOOM_OK;
}

typedef struct kind_move {
    pieces all;
    const loom__kind_order *order;
    const loom__kind_column *columns;
    uint32_t count;
    int put;
} kind_move;

static void copy_element(unsigned char *to, const unsigned char *from, uint32_t width)
{
    if (width == 4) /* lengths that the compiler knows */
        memcpy(to, from, 4);
    else if (width == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, width);
}

/* homes[i]: where row begin + i goes. */
static void move_block(const kind_move *move, const loom__kind_column *column, uint64_t begin, uint64_t end,
                       const uint8_t *kinds, const uint64_t *homes)
{
    const uint64_t width = column->width;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t home = homes[i - begin], to = move->put ? i : home, from = move->put ? home : i;
        if (column->kinds >> kinds[i - begin] & 1)
            copy_element((unsigned char *)column->to + to * width, (const unsigned char *)column->from + from * width,
                         column->width);
    }
}

static void move_kinds(void *argument, uint64_t piece)
{
    const kind_move *move = argument;
    const loom__kind_order *order = move->order;
    for (uint64_t begin = begin_of(&move->all, piece), end = begin_of(&move->all, piece + 1); begin < end;
         begin += LOOM__KIND_BLOCK) {
        const uint64_t last = end_of_block(begin, order->n);
        uint8_t kinds[LOOM__KIND_BLOCK];
        uint64_t homes[LOOM__KIND_BLOCK], next[LOOM__KINDS];
        for (uint32_t kind = 0; kind < LOOM__KINDS; kind++)
            next[kind] = loom__kind_home(order, kind, begin / LOOM__KIND_BLOCK);
        for (uint64_t i = begin; i < last; i++) {
            kinds[i - begin] = (uint8_t)loom__kind_of(order->operations[i]);
            homes[i - begin] = next[kinds[i - begin]]++;
        }
        for (uint32_t c = 0; c < move->count; c++)
            move_block(move, &move->columns[c], begin, last, kinds, homes);
    }
}

loom_status loom__cpu_move_by_kind(loom__machine *machine, const loom__kind_order *order,
                                   const loom__kind_column *columns, uint32_t count, int put, loom_stream stream)
{
    kind_move move = {cut_at_blocks(order->n), order, columns, count, put};
    (void)stream;
    machine->ops->host_parallel(machine, move.all.count, move_kinds, &move);
    return LOOM_OK;
}

/* ---- rows by hash ---- */

/* The rows go to parts by the upper bits of their hashes, and each part is then sorted by itself. Both steps keep the
 * order of equal hashes. */
enum { PART_BITS = 8, PARTS = 1 << PART_BITS, DIGITS = 256 };

typedef struct hashed_row {
    uint64_t hash;
    uint32_t row;
} hashed_row;

typedef struct hash_sort {
    pieces all;
    uint64_t *hashes;
    uint32_t *rows;
    hashed_row *from, *to;
    uint64_t *counts; /* [MOST_PIECES][PARTS] of each piece; then where its rows go */
    uint64_t parts[PARTS + 1];
} hash_sort;

static void count_parts(void *argument, uint64_t piece)
{
    hash_sort *sort = argument;
    uint64_t *counts = sort->counts + piece * PARTS;
    for (uint64_t i = begin_of(&sort->all, piece), end = begin_of(&sort->all, piece + 1); i < end; i++)
        counts[sort->hashes[i] >> (64 - PART_BITS)]++;
}

static void place_parts(void *argument, uint64_t piece)
{
    hash_sort *sort = argument;
    uint64_t *to = sort->counts + piece * PARTS;
    for (uint64_t i = begin_of(&sort->all, piece), end = begin_of(&sort->all, piece + 1); i < end; i++)
        sort->from[to[sort->hashes[i] >> (64 - PART_BITS)]++] = (hashed_row){sort->hashes[i], (uint32_t)i};
}

/* Sorts by the bits from `shift` on, byte after byte, and keeps the order of rows that are equal there. */
static hashed_row *sort_bytes(hashed_row *from, hashed_row *to, uint64_t n, uint32_t shift)
{
    for (; shift < 64 - PART_BITS; shift += 8) {
        uint64_t places[DIGITS] = {0}, at = 0;
        for (uint64_t i = 0; i < n; i++)
            places[from[i].hash >> shift & (DIGITS - 1)]++;
        if (places[from[0].hash >> shift & (DIGITS - 1)] == n) /* a frequent key, or few rows */
            continue;
        for (uint32_t digit = 0; digit < DIGITS; digit++) {
            const uint64_t count = places[digit];
            places[digit] = at;
            at += count;
        }
        for (uint64_t i = 0; i < n; i++)
            to[places[from[i].hash >> shift & (DIGITS - 1)]++] = from[i];
        hashed_row *const last = from;
        from = to;
        to = last;
    }
    return from;
}

/* Finishes rows that are sorted by the upper halves of their hashes. Returns 0 if too many rows with equal upper halves
 * are out of order; then nothing is lost. */
static int insert_by_lower_halves(hashed_row *rows, uint64_t n)
{
    uint64_t moves = 0;
    for (uint64_t i = 1; i < n; i++) {
        const hashed_row one = rows[i];
        uint64_t at = i;
        for (; at > 0 && rows[at - 1].hash > one.hash; at--)
            rows[at] = rows[at - 1];
        rows[at] = one;
        moves += i - at;
        if (moves > n)
            return 0;
    }
    return 1;
}

/* The upper halves of hashes tell nearly all keys of a part apart. */
static void sort_part(void *argument, uint64_t part)
{
    hash_sort *sort = argument;
    const uint64_t begin = sort->parts[part], n = sort->parts[part + 1] - begin;
    hashed_row *from = sort->from + begin, *to = sort->to + begin;
    if (n > 1) {
        from = sort_bytes(from, to, n, 32);
        to = from == to ? sort->from + begin : to;
        if (!insert_by_lower_halves(from, n))
            from = sort_bytes(from, to, n, 0);
    }
    for (uint64_t i = 0; i < n; i++) {
        sort->hashes[begin + i] = from[i].hash;
        sort->rows[begin + i] = from[i].row;
    }
}

loom_status loom__cpu_sort_hashes(loom__machine *machine, uint64_t *hashes, uint64_t n, uint32_t *rows,
                                  loom_stream stream)
{
    hash_sort sort = {.all = cut(n), .hashes = hashes, .rows = rows};
    const uint64_t counts = sort.all.count * PARTS * sizeof *sort.counts, bytes = counts + 2 * n * sizeof *sort.from;
    unsigned char *memory = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    uint64_t at = 0;
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    sort.counts = (uint64_t *)(void *)memory;
    sort.from = (hashed_row *)(void *)(memory + counts);
    sort.to = sort.from + n;
    memset(sort.counts, 0, counts);
    machine->ops->host_parallel(machine, sort.all.count, count_parts, &sort);
    for (uint32_t part = 0; part < PARTS; part++) {
        sort.parts[part] = at;
        for (uint64_t piece = 0; piece < sort.all.count; piece++) {
            const uint64_t count = sort.counts[piece * PARTS + part];
            sort.counts[piece * PARTS + part] = at;
            at += count;
        }
    }
    sort.parts[PARTS] = at;
    machine->ops->host_parallel(machine, sort.all.count, place_parts, &sort);
    machine->ops->host_parallel(machine, PARTS, sort_part, &sort);
    loom__release(&machine->allocator, memory, bytes, LOOM_MEMORY_TEMPORARY, stream);
    return LOOM_OK;
}

/* ---- rows by key ---- */

typedef struct grouping {
    pieces all;
    const uint64_t *hashes;
    const uint32_t *rows;
    const unsigned char *keys;
    uint32_t key_bytes;
    uint32_t *groups, *firsts;
    uint64_t counts[MOST_PIECES]; /* keys that begin in each piece; then the keys before it */
    atomic_int collide;
} grouping;

/* groups[i] = whether a key begins at place i. */
static void find_keys(void *argument, uint64_t piece)
{
    grouping *all = argument;
    uint64_t count = 0;
    for (uint64_t i = begin_of(&all->all, piece), end = begin_of(&all->all, piece + 1); i < end; i++) {
        const int same_hash = i > 0 && all->hashes[i - 1] == all->hashes[i];
        if (same_hash && memcmp(all->keys + (uint64_t)all->rows[i - 1] * all->key_bytes,
                                all->keys + (uint64_t)all->rows[i] * all->key_bytes, all->key_bytes) != 0)
            atomic_store_explicit(&all->collide, 1, memory_order_relaxed);
        all->groups[i] = (uint32_t)!same_hash;
        count += (uint64_t)!same_hash;
    }
    all->counts[piece] = count;
}

static void number_keys(void *argument, uint64_t piece)
{
    grouping *all = argument;
    uint64_t before = all->counts[piece];
    for (uint64_t i = begin_of(&all->all, piece), end = begin_of(&all->all, piece + 1); i < end; i++) {
        if (all->groups[i])
            all->firsts[before++] = all->rows[i];
        all->groups[i] = (uint32_t)(before - 1);
    }
}

loom_status loom__cpu_group_rows(loom__machine *machine, const uint64_t *hashes, const uint32_t *rows, const void *keys,
                                 uint32_t key_bytes, uint64_t n, uint32_t *groups, uint32_t *firsts, uint64_t *distinct,
                                 int *collide, loom_stream stream)
{
    grouping all = {.all = cut(n),
                    .hashes = hashes,
                    .rows = rows,
                    .keys = keys,
                    .key_bytes = key_bytes,
                    .groups = groups,
                    .firsts = firsts};
    (void)stream;
    *distinct = 0;
    machine->ops->host_parallel(machine, all.all.count, find_keys, &all);
    for (uint64_t piece = 0; piece < all.all.count; piece++) {
        const uint64_t count = all.counts[piece];
        all.counts[piece] = *distinct;
        *distinct += count;
    }
    machine->ops->host_parallel(machine, all.all.count, number_keys, &all);
    *collide = atomic_load_explicit(&all.collide, memory_order_relaxed);
    return LOOM_OK;
}

/* ---- sequences ---- */

typedef struct sequence_run {
    pieces all;
    const loom__sequences *sequences;
    uint64_t counts[MOST_PIECES][LOOM__APPLIED_STATUSES];
} sequence_run;

enum { ROWS_AHEAD = 24 };

/* Rows come in the order of their hashes, so each of their elements lies in another line of memory. */
static void prefetch_row(const loom__sequences *all, uint64_t i)
{
    if (i >= all->n)
        return;
    const uint32_t row = all->rows[i];
    prefetch_to_read(all->operations, row, 1);
    if (all->values != NULL)
        prefetch_to_read(all->values, row, all->value_bytes);
    prefetch_to_write(all->status, row, 1);
    prefetch_to_write(all->found, row, all->value_bytes);
}

/* Runs the rows of the key that begins at place i, and returns the place behind them. */
static uint64_t run_key(const loom__sequences *all, uint64_t i, uint64_t *counts)
{
    const uint64_t begin = i;
    const uint32_t group = all->groups[i];
    loom__holding held = loom__held_before(all, group);
    if (all->multimap)
        all->erased[group] = 0;
    for (; i < all->n && all->groups[i] == group; i++) {
        const loom__effect effect = loom__effect_at(all, i);
        prefetch_row(all, i + ROWS_AHEAD);
        counts[loom__answer_row(all, i, held)]++;
        held = loom__effect_on(&effect, held);
        if (all->multimap && all->operations[all->rows[i]] == LOOM_APPLY_ERASE)
            all->erased[group] = (uint32_t)(i + 1);
    }
    loom__settle_key(all, group, held);
    for (uint64_t k = begin; all->multimap && k < i; k++)
        loom__settle_row(all, k);
    return i;
}

/* The keys that begin in a piece, to the end of their rows. */
static void run_piece(void *argument, uint64_t piece)
{
    sequence_run *run = argument;
    const loom__sequences *all = run->sequences;
    const uint64_t end = begin_of(&run->all, piece + 1);
    uint64_t counts[LOOM__APPLIED_STATUSES] = {0}, i = begin_of(&run->all, piece);
    while (i > 0 && i < end && all->groups[i] == all->groups[i - 1])
        i++;
    while (i < end)
        i = run_key(all, i, counts);
    memcpy(run->counts[piece], counts, sizeof counts);
}

loom_status loom__cpu_run_sequences(loom__machine *machine, const loom__sequences *sequences,
                                    uint64_t counts[LOOM__APPLIED_STATUSES], loom_stream stream)
{
    sequence_run run = {.all = cut(sequences->n), .sequences = sequences};
    (void)stream;
    machine->ops->host_parallel(machine, run.all.count, run_piece, &run);
    memset(counts, 0, LOOM__APPLIED_STATUSES * sizeof *counts);
    for (uint64_t piece = 0; piece < run.all.count; piece++)
        for (uint32_t status = 0; status < LOOM__APPLIED_STATUSES; status++)
            counts[status] += run.counts[piece][status];
    return LOOM_OK;
}
