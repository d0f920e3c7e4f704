/* Multimaps on the cpu machine: lookups and whole tables. */
#include "machines/cpu/multi/cpu_multi.h"
#include "core/error.h"
#include "core/memory.h"
#include "engines/chain/chain_check.h"
#include "machines/cpu/core/cpu_lists.h"
#include "machines/cpu/core/cpu_retrieve.h"

#include <string.h>

/* What a range of keys is looked up with. */
typedef struct lookup {
    const loom__cpu_map_simd *simd;
    const loom__multi_view *view;
} lookup;

static lookup lookup_in(const loom__machine *machine, const void *view)
{
    return (lookup){loom__cpu_directory_simd(machine, view), view};
}

static const void *key_at(const loom__multi_view *view, const void *keys, uint64_t index)
{
    return (const unsigned char *)keys + index * multi_key_bytes(view);
}

/* Writes the handles of `count` keys, and 0 for absent ones. */
static void find_handles(const lookup *in, const void *keys, uint64_t first, uint64_t count, uint64_t *handles,
                         uint8_t *status, uint8_t *found, loom__cpu_counts *counts)
{
    const loom__batch look = {.keys = key_at(in->view, keys, first),
                              .found_values = handles,
                              .status = status != NULL ? status + first : NULL,
                              .found = found != NULL ? found + first : NULL,
                              .n = count};
    in->simd->find(multi_directory(in->view), &look, 0, count, 0, counts);
}

/* ---- one value per key ---- */

/* first_values for values that are no numbers. An absent key has zeros, unless the call has a value of at most 8 bytes
 * for it. */
static void first_wide_values(const loom__multi_view *view, const loom__batch *batch, uint64_t first, uint64_t count,
                              const uint64_t *handles)
{
    unsigned char *to = (unsigned char *)batch->found_values + first * view->value_bytes;
    for (uint64_t i = 0; i < count; i++, to += view->value_bytes) {
        if (list_count(handles[i]) > 0)
            memcpy(to, multi_value_at(view, list_first(handles[i])), view->value_bytes);
        else if (view->value_bytes <= sizeof batch->absent)
            memcpy(to, &batch->absent, view->value_bytes);
        else
            memset(to, 0, view->value_bytes);
    }
}

/* Of a chain, the first value of the newest piece, which its handle knows. */
static void first_values(const loom__multi_view *view, const loom__batch *batch, uint64_t first, uint64_t count,
                         const uint64_t *handles)
{
    unsigned char *to = (unsigned char *)batch->found_values + first * view->value_bytes;
    for (uint64_t i = 0; i < count; i++, to += view->value_bytes) {
        const uint64_t handle = handles[i], one = list_one_value(handle);
        const void *from = list_count(handle) == 0 ? (const void *)&batch->absent
                           : list_in_heap(handle)  ? (const void *)multi_value_at(view, list_first(handle))
                                                   : (const void *)&one;
        memcpy(to, from, view->value_bytes);
    }
}

static void find_range(const void *any, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                       loom__cpu_counts *counts)
{
    const lookup *in = any;
    uint64_t handles[MULTI_CHUNK];
    (void)shared;
    for (uint64_t first = begin; first < end; first += MULTI_CHUNK) {
        const uint64_t count = end - first < MULTI_CHUNK ? end - first : MULTI_CHUNK;
        const int values = batch->found_values != NULL;
        find_handles(in, batch->keys, first, count, values ? handles : NULL, batch->status, batch->found, counts);
        if (values && multi_has_numbers(in->view))
            first_values(in->view, batch, first, count, handles);
        else if (values)
            first_wide_values(in->view, batch, first, count, handles);
    }
}

static loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    const lookup in = lookup_in(machine, view);
    const loom__cpu_counts counts = loom__cpu_run_ranges(machine, find_range, &in, batch);
    loom__cpu_write_result(batch->result, batch->n, &counts);
    return LOOM_OK;
}

/* ---- all values of each key ----
 *
 * First the handles of all keys are written to the array of counts or offsets, whose elements have as many bytes. Then
 * handles become counts or offsets in place. So no key is looked up twice, and nothing is allocated. */

enum {
    QUERY_PARTS = 1024,   /* at most; their sums are on the stack */
    LONG_LIST = 1 << 20,  /* bytes: such lists are copied by all threads together */
    LIST_PIECE = 1 << 18, /* bytes of a long list that a thread copies at a time */
    LISTS_AHEAD = 16,     /* handles between prefetch and copy */
    CHAINS_AT_ONCE = 32   /* chains whose pieces are copied by turns */
};

typedef struct query_work {
    lookup in;
    const loom__list_query *query;
    uint64_t *handles; /* [n]: the caller's counts or offsets */
    uint64_t keys_per_part, parts;
    int copies;
    uint64_t at[QUERY_PARTS]; /* values of each part; then where its first value goes */
    uint64_t long_lists;
    loom__cpu_counts counts;
} query_work;

static uint64_t part_end(const query_work *work, uint64_t part)
{
    const uint64_t end = (part + 1) * work->keys_per_part;
    return end < work->query->n ? end : work->query->n;
}

static uint64_t asked_count(const query_work *work, uint64_t handle)
{
    const uint64_t count = list_count(handle);
    return count < work->query->limit ? count : work->query->limit;
}

static void find_part(void *argument, uint64_t part)
{
    query_work *work = argument;
    const loom__list_query *query = work->query;
    const uint64_t begin = part * work->keys_per_part, end = part_end(work, part);
    uint64_t sum = 0;
    find_handles(&work->in, query->keys, begin, end - begin, work->handles + begin, query->status, NULL, &work->counts);
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t count = asked_count(work, work->handles[i]);
        sum += count;
        if (query->offsets == NULL)
            work->handles[i] = count;
    }
    work->at[part] = sum;
}

/* Copies the first `count` values of a list in one piece. Short lists are copied value by value: a call of memcpy would
 * cost more. */
LOOM_LANE void copy_values(uint64_t bytes, const loom__multi_view *view, uint64_t handle, uint64_t count,
                           unsigned char *to)
{
    enum { FEW = 8 };
    const uint32_t one = list_one_value(handle);
    const unsigned char *from =
        list_in_heap(handle) ? multi_value_at(view, list_first(handle)) : (const unsigned char *)&one;
    if (count > FEW)
        memcpy(to, from, count * bytes);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + i * bytes, from + i * bytes, bytes);
}

/* A chain that is being copied: the piece that comes next. */
typedef struct chain_copy {
    uint64_t place; /* of the piece */
    uint64_t end;   /* values of the piece and of all older ones */
    uint64_t count; /* values that are asked for */
    int linked;
    unsigned char *to; /* of the list's first value */
} chain_copy;

/* Copies chains, a piece of each in turn. So the next pieces of all chains are on their way from memory at the same
 * time. On two cores of a Neoverse V1 this is 2.4 times as fast as one chain after the other with 8 values per key in 2
 * pieces, and 3.6 times with 64 in 6. */
static void copy_chains(const loom__multi_view *view, chain_copy *chains, uint32_t count)
{
    const uint64_t bytes = view->value_bytes;
    while (count > 0) { /* as often as the longest chain has pieces */
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++) {
            const chain_copy chain = chains[i];
            const uint64_t link = chain.linked ? list_link_at(view->heap, bytes, chain.place) : 0;
            const uint64_t before = list_link_before(link), end = chain.end < chain.count ? chain.end : chain.count;
            if (before < end)
                memcpy(chain.to + before * bytes, multi_value_at(view, chain.place), (end - before) * bytes);
            if (!chain.linked)
                continue;
            chains[left] = (chain_copy){list_link_place(link), before, chain.count, list_link_linked(link), chain.to};
            __builtin_prefetch(multi_value_at(view, chains[left++].place) - LIST_LINK_BYTES);
        }
        count = left;
    }
}

LOOM_LANE void copy_part_of(uint64_t bytes, query_work *work, uint64_t part)
{
    const loom__multi_view *view = work->in.view;
    const uint64_t begin = part * work->keys_per_part, end = part_end(work, part);
    uint64_t at = work->at[part], long_lists = 0;
    chain_copy chains[CHAINS_AT_ONCE];
    uint32_t chain_count = 0;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t handle = work->handles[i], count = asked_count(work, handle);
        const int is_long = count * bytes >= LONG_LIST;
        unsigned char *const to = (unsigned char *)work->query->values + at * bytes;
        if (work->copies && i + LISTS_AHEAD < end)
            __builtin_prefetch(multi_value_at(view, list_first(work->handles[i + LISTS_AHEAD])));
        work->handles[i] = at;
        if (work->copies && !is_long && list_in_heap(handle) && list_is_linked(handle))
            chains[chain_count++] = (chain_copy){list_first(handle), list_count(handle), count, 1, to};
        else if (work->copies && !is_long)
            copy_values(bytes, view, handle, count, to);
        if (chain_count == CHAINS_AT_ONCE) {
            copy_chains(view, chains, chain_count);
            chain_count = 0;
        }
        long_lists += (uint64_t)is_long;
        at += count;
    }
    copy_chains(view, chains, chain_count);
    if (long_lists > 0)
        __atomic_fetch_add(&work->long_lists, long_lists, __ATOMIC_RELAXED);
}

/* Turns handles into offsets, and copies the lists. */
static void copy_part(void *argument, uint64_t part)
{
    query_work *work = argument;
    if (work->in.view->value_bytes == 4)
        copy_part_of(4, work, part);
    else if (work->in.view->value_bytes == 8)
        copy_part_of(8, work, part);
    else
        copy_part_of(work->in.view->value_bytes, work, part);
}

typedef struct long_copy {
    unsigned char *to;
    const unsigned char *from;
    uint64_t bytes;
} long_copy;

static void copy_piece(void *argument, uint64_t index)
{
    const long_copy *copy = argument;
    const uint64_t at = index * LIST_PIECE, left = copy->bytes - at;
    memcpy(copy->to + at, copy->from + at, left < LIST_PIECE ? left : LIST_PIECE);
}

/* Copies the first `count` values of a list, each piece of it by all threads. */
static void copy_long_list(const loom__multi_view *view, uint64_t handle, uint64_t count, unsigned char *to,
                           loom__pool *pool)
{
    const uint64_t bytes = view->value_bytes;
    loom__list_piece piece = list_newest_piece(view->heap, bytes, handle);
    for (;; piece = list_older_piece(view->heap, bytes, &piece)) { /* ends at the oldest one */
        const uint64_t left = count > piece.before ? count - piece.before : 0;
        long_copy copy = {.to = to + piece.before * bytes,
                          .from = multi_value_at(view, piece.place),
                          .bytes = (left < piece.count ? left : piece.count) * bytes};
        loom__pool_run(pool, (copy.bytes + LIST_PIECE - 1) / LIST_PIECE, copy_piece, &copy);
        if (!piece.linked)
            return;
    }
}

/* Copies the lists that copy_part left out. */
static void copy_long_lists(query_work *work, loom__pool *pool)
{
    const loom__list_query *query = work->query;
    const loom__multi_view *view = work->in.view;
    for (uint64_t i = 0; i < query->n && work->long_lists > 0; i++) {
        const uint64_t count = query->offsets[i + 1] - query->offsets[i];
        uint64_t handle;
        if (count * view->value_bytes < LONG_LIST)
            continue;
        find_handles(&work->in, query->keys, i, 1, &handle, NULL, NULL, &(loom__cpu_counts){0});
        copy_long_list(view, handle, count, (unsigned char *)query->values + query->offsets[i] * view->value_bytes,
                       pool);
        work->long_lists--;
    }
}

static uint64_t sum_up(query_work *work)
{
    uint64_t at = 0;
    for (uint64_t part = 0; part < work->parts; part++) {
        const uint64_t count = work->at[part];
        work->at[part] = at;
        at += count;
    }
    return at;
}

static loom_status find_all(loom__machine *machine, const void *view, const loom__list_query *query)
{
    loom__pool *pool = ((loom__cpu_machine_state *)machine)->pool;
    query_work work = {.in = lookup_in(machine, view), .query = query};
    work.handles = query->offsets != NULL ? query->offsets : query->counts;
    work.keys_per_part = (query->n / QUERY_PARTS / MULTI_CHUNK + 1) * MULTI_CHUNK;
    work.parts = (query->n + work.keys_per_part - 1) / work.keys_per_part;
    loom__pool_run(pool, work.parts, find_part, &work);
    const uint64_t needed = sum_up(&work);
    if (query->needed != NULL)
        *query->needed = needed;
    loom__cpu_write_result(query->result, query->n, &work.counts);
    if (query->offsets == NULL)
        return LOOM_OK;
    work.copies = query->values != NULL && query->room >= needed;
    if (query->values != NULL && !work.copies)
        query->result->status = LOOM_TOO_SMALL;
    loom__pool_run(pool, work.parts, copy_part, &work);
    query->offsets[query->n] = needed;
    if (work.copies)
        copy_long_lists(&work, pool);
    return LOOM_OK;
}

/* ---- whole tables ---- */

static loom_status clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__multi_view *view = any_view;
    *view->lists = (loom__multi_totals){0};
    return loom__cpu_directory_kernels(view)->clear(machine, multi_directory(view), stream);
}

static loom_status reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                loom_stream stream)
{
    const loom__multi_view *view = any_view;
    return loom__cpu_directory_kernels(view)->reset_totals(machine, multi_directory(view), totals, stream);
}

static loom_status retrieve(loom__machine *machine, const void *view, loom__position *position, void *keys,
                            void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__table_slots slots = multi_table_slots(view);
    (void)stream;
    loom__cpu_retrieve(((loom__cpu_machine_state *)machine)->pool, &slots, position, keys, values, room, got);
    return LOOM_OK;
}

static loom_status upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    const loom__multi_view *view = any_view;
    return loom__cpu_open_upkeep(machine, multi_directory(view), sweep, stream);
}

static loom_status count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream)
{
    const loom__multi_view *view = any_view;
    return loom__cpu_directory_kernels(view)->count_accesses(machine, multi_directory(view), keys, n, accesses, stream);
}

static loom_status write_batch(loom__machine *machine, const void *view, const loom__batch *batch)
{
    switch (batch->write) {
    case LOOM__WRITE_KEEP:
        return loom__cpu_multi_insert(machine, view, batch);
    case LOOM__WRITE_ERASE:
        return loom__cpu_multi_erase(machine, view, batch);
    default:
        return loom__fail(LOOM_UNSUPPORTED,
                          "a key of a multimap has many values, and the call is about one; use a map");
    }
}

/* ---- survey ---- */

typedef struct survey_work {
    const loom__multi_view *view;
    loom__table_slots slots;
    uint64_t *taken; /* a bit for each value of the heap that belongs to a list; NULL: lists may overlap */
    loom__survey sums;
    uint64_t lowest_bad_inverted;
} survey_work;

/* Marks values as taken. False: one of them was taken before. */
static int take_values(uint64_t *taken, uint64_t first, uint64_t count)
{
    uint64_t before = 0;
    for (uint64_t at = first, left = count; left > 0;) {
        const uint64_t bit = at % 64, here = 64 - bit < left ? 64 - bit : left;
        const uint64_t mask = (here == 64 ? UINT64_MAX : ((uint64_t)1 << here) - 1) << bit;
        before |= __atomic_fetch_or(&taken[at / 64], mask, __ATOMIC_RELAXED) & mask;
        at += here;
        left -= here;
    }
    return before == 0;
}

/* Follows the pieces of a chain. Returns whether it is sound. */
static int survey_chain(const survey_work *work, uint64_t handle, loom__survey *sums)
{
    const loom__multi_view *view = work->view;
    chain_check walk = chain_check_begin(handle);
    int sound = list_count(handle) <= view->most;
    while (sound && walk.end > 0) { /* which becomes smaller with each piece */
        uint64_t first, count;
        sound = chain_check_piece(view, view->lists->used, handle, &walk, &first, &count) &&
                (work->taken == NULL || take_values(work->taken, first, count));
        if (sound && first + count > sums->heap_end)
            sums->heap_end = first + count;
    }
    return sound;
}

/* Adds a list to the sums of its partition. Returns whether it is sound. */
static int survey_list(const survey_work *work, uint64_t handle, loom__survey *sums)
{
    const loom__multi_view *view = work->view;
    const uint64_t count = list_count(handle);
    const int chain = multi_is_chain(view) && list_in_heap(handle);
    if (chain ? !multi_is_sound_kind(view, handle) : !multi_is_sound(view, view->lists->used, handle))
        return 0;
    sums->pairs += count;
    sums->longest_list = count > sums->longest_list ? count : sums->longest_list;
    sums->in_heap += list_in_heap(handle) ? count : 0;
    if (!list_in_heap(handle))
        return 1;
    if (chain)
        return survey_chain(work, handle, sums);
    const uint64_t first = list_first(handle), capacity = list_capacity(handle, count);
    sums->heap_end = first + capacity > sums->heap_end ? first + capacity : sums->heap_end;
    return work->taken == NULL || take_values(work->taken, first, capacity);
}

static void survey_part(void *argument, uint64_t partition)
{
    survey_work *work = argument;
    const loom__table_slots *slots = &work->slots;
    loom__survey own = {0};
    uint64_t key, handle;
    for (uint32_t bucket = 0; bucket < slots->buckets; bucket++)
        for (uint32_t slot = 0; slot < slots->slots; slot++)
            if (loom__slot_holds(slots, (uint32_t)partition, bucket, slot, &key, &handle) &&
                !survey_list(work, handle, &own))
                loom__cpu_keep_larger(&work->lowest_bad_inverted, ~(partition * slots->buckets + bucket));
    __atomic_fetch_add(&work->sums.pairs, own.pairs, __ATOMIC_RELAXED);
    __atomic_fetch_add(&work->sums.in_heap, own.in_heap, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&work->sums.heap_end, own.heap_end);
    loom__cpu_keep_larger(&work->sums.longest_list, own.longest_list);
}

static loom_status survey(loom__machine *machine, const void *any_view, loom__survey *found, loom_stream stream)
{
    const loom__multi_view *view = any_view;
    const uint64_t bytes = (view->lists->used / 64 + 1) * sizeof(uint64_t);
    survey_work work = {.view = view, .slots = multi_table_slots(view)};
    RETURN_IF_FAILED(loom__cpu_directory_kernels(view)->survey(machine, multi_directory(view), found, stream));
    work.taken = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (work.taken != NULL)
        memset(work.taken, 0, bytes);
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->directory.partitions, survey_part, &work);
    loom__release(&machine->allocator, work.taken, bytes, LOOM_MEMORY_HOST, NULL);
    found->overlaps_unknown = work.taken == NULL;
    found->pairs = work.sums.pairs;
    found->in_heap = work.sums.in_heap;
    found->heap_used = view->lists->used;
    found->heap_end = work.sums.heap_end;
    found->longest_list = work.sums.longest_list;
    if (~work.lowest_bad_inverted < found->first_bad)
        found->first_bad = ~work.lowest_bad_inverted;
    if (found->in_heap != view->lists->in_heap) /* counted wrong: no bucket in particular */
        found->first_bad = 0;
    return LOOM_OK;
}

/* ---- refill ---- */

typedef struct pack_work {
    const loom__multi_view *from, *to;
    uint64_t refused;
} pack_work;

/* Packs the lists of one partition of the new directory: counts their values, takes a place for short ones together,
 * and copies each into one piece. Its handles are still those of the old table. */
static void pack_part(void *argument, uint64_t partition)
{
    pack_work *work = argument;
    const loom__multi_view *from = work->from, *to = work->to;
    const loom__table_slots slots = multi_table_slots(to);
    const uint64_t bytes = to->value_bytes;
    uint64_t key, handle, together = 0;
    for (uint32_t bucket = 0; bucket < slots.buckets; bucket++)
        for (uint32_t slot = 0; slot < slots.slots; slot++)
            if (loom__slot_holds(&slots, (uint32_t)partition, bucket, slot, &key, &handle) && list_in_heap(handle) &&
                list_kind_for(list_count(handle)) == LIST_SHORT)
                together += list_count(handle);
    uint64_t place = together > 0 ? loom__cpu_multi_take(to, LIST_SHORT, 0, together, &together) : 0;
    for (uint32_t bucket = 0; bucket < slots.buckets; bucket++)
        for (uint32_t slot = 0; slot < slots.slots; slot++) {
            if (!loom__slot_holds(&slots, (uint32_t)partition, bucket, slot, &key, &handle) || !list_in_heap(handle))
                continue;
            uint64_t count = list_count(handle);
            const loom__list_kind kind = list_kind_for(count);
            const uint64_t first = kind == LIST_SHORT ? place : loom__cpu_multi_take(to, kind, 0, count, &count);
            if (first == MULTI_NO_PLACE) {
                __atomic_fetch_add(&work->refused, 1, __ATOMIC_RELAXED);
                continue; /* the new table is not used, and no further short list has a place */
            }
            place += kind == LIST_SHORT ? count : 0;
            loom__cpu_copy_list(from->heap, bytes, handle, 0, count, multi_value_at(to, first));
            loom__slot_put(loom__slot_value_at(&slots, (uint32_t)partition, bucket, slot), sizeof handle,
                           list_make(kind, first, count, 1));
        }
}

static loom_status refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                          loom_stream stream)
{
    const loom__multi_view *from = any_from, *to = any_to;
    pack_work work = {from, to, 0};
    RETURN_IF_FAILED(
        loom__cpu_directory_kernels(to)->refill(machine, multi_directory(from), multi_directory(to), refused, stream));
    if (*refused > 0)
        return LOOM_OK;
    *to->lists = (loom__multi_totals){.pairs = from->lists->pairs, .in_heap = from->lists->in_heap};
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, to->directory.partitions, pack_part, &work);
    *refused = work.refused;
    return LOOM_OK;
}

const loom__map_kernels loom__cpu_multi_kernels = {
    .clear = clear,
    .reset_totals = reset_totals,
    .find = find,
    .write = write_batch,
    .insert_bulk = write_batch,
    .bulk_bytes = loom__cpu_multi_bulk_bytes,
    .refill = refill,
    .retrieve = retrieve,
    .survey = survey,
    .upkeep = upkeep,
    .count_accesses = count_accesses,
    .find_all = find_all,
    .erase_if = loom__cpu_multi_erase_if,
    .erase_pairs = loom__cpu_multi_erase_pairs,
};
