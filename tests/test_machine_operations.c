/* What mixed batches need of a machine (core/machine.h): rows by kind, rows by hash, rows by key; on every machine.
 * The effects of operations (core/operations.h). */
#include "harness/map_fixture.h"

#include "api/context.h"
#include "core/operations.h"

#include <stdlib.h>
#include <string.h>

static void *in_machine(loom_context *context, const void *from, size_t bytes)
{
    void *array;
    CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, bytes + 16, &array));
    if (from != NULL)
        CHECK_OK(loom_array_copy(context, array, from, bytes, NULL));
    return array;
}

static void out_of_machine(loom_context *context, void *array, void *to, size_t bytes)
{
    if (to != NULL)
        CHECK_OK(loom_array_copy(context, to, array, bytes, NULL));
    loom_array_destroy(context, LOOM_ARRAY_MACHINE, array, bytes + 16);
}

/* A column of rows whose elements tell their rows, and where the elements go. */
typedef struct column {
    uint32_t width, kinds;
    unsigned char *given, *moved, *back; /* `moved` has `room` elements, the others n */
} column;

enum { FILL = 0xa5, GAP = 5 /* most places between the rows of two kinds */ };

static column make_column(test_run *t, uint64_t n, uint64_t room, uint32_t width)
{
    column c = {width, (uint32_t)random_below(&t->random, 1 << LOOM__KINDS), test_allocate(n * width),
                test_allocate(room * width), test_allocate(n * width)};
    for (uint64_t i = 0; i < n * width; i++)
        c.given[i] = (unsigned char)(mix_u64(i / width) >> i % width % 8 * 8);
    memset(c.moved, FILL, room * width);
    memset(c.back, FILL, n * width);
    return c;
}

/* Moves both columns between arrays in the machine's memory, and fetches what was written. */
static void move_columns(loom_context *context, loom__kind_order order, const column *columns, uint64_t room, int put)
{
    loom__machine *machine = context->machine;
    loom__kind_column given[LOOM__KIND_COLUMNS];
    for (int c = 0; c < LOOM__KIND_COLUMNS; c++) {
        const uint64_t all = order.n * columns[c].width, moved = room * columns[c].width;
        given[c] = (loom__kind_column){
            in_machine(context, put ? columns[c].back : columns[c].moved, put ? all : moved),
            in_machine(context, put ? columns[c].moved : columns[c].given, put ? moved : all),
            columns[c].width,
            columns[c].kinds,
        };
    }
    CHECK_OK(machine->ops->move_by_kind(machine, &order, given, LOOM__KIND_COLUMNS, put, NULL));
    for (int c = 0; c < LOOM__KIND_COLUMNS; c++) {
        const uint64_t all = order.n * columns[c].width, moved = room * columns[c].width;
        out_of_machine(context, given[c].to, put ? columns[c].back : columns[c].moved, put ? all : moved);
        out_of_machine(context, (void *)(uintptr_t)given[c].from, NULL, put ? moved : all);
    }
}

/* `moved` has the elements of the column's kinds in order, `back` the same where they were; nothing else is written. */
static void check_column(const column *c, const uint8_t *operations, const loom__kind_order *order, uint64_t room)
{
    unsigned char *moved = test_allocate(room * c->width), *back = test_allocate(order->n * c->width);
    uint64_t next[LOOM__KINDS];
    memset(moved, FILL, room * c->width);
    memset(back, FILL, order->n * c->width);
    memcpy(next, order->firsts, sizeof next);
    for (uint64_t i = 0; i < order->n; i++) {
        const uint32_t kind = operations[i] < LOOM__OPERATIONS ? operations[i] : LOOM__OPERATIONS;
        const uint64_t home = next[kind]++;
        if (!(c->kinds >> kind & 1))
            continue;
        memcpy(moved + home * c->width, c->given + i * c->width, c->width);
        memcpy(back + i * c->width, c->given + i * c->width, c->width);
    }
    CHECK_BYTES(c->moved, moved, room * c->width);
    CHECK_BYTES(c->back, back, order->n * c->width);
    free(moved);
    free(back);
}

/* `skewed`: nearly all rows have the same operation. */
static void sort_operations(test_run *t, loom_context *context, uint64_t n, int skewed, int on_host)
{
    static const uint32_t widths[] = {1, 3, 4, 8, 12, 16, 80};
    loom__machine *machine = context->machine;
    uint8_t *operations = test_allocate(n);
    const uint64_t places_bytes = loom__kind_places(n) * sizeof(uint32_t);
    uint64_t counts[LOOM__KINDS], again[LOOM__KINDS], expected[LOOM__KINDS] = {0}, room = 0;
    column columns[LOOM__KIND_COLUMNS];
    test_note("%llu rows, skewed %d, on host %d", (unsigned long long)n, skewed, on_host);
    for (uint64_t i = 0; i < n; i++) {
        operations[i] = (uint8_t)(skewed && random_below(&t->random, 1000) ? 3 : random_below(&t->random, 9));
        expected[operations[i] < LOOM__OPERATIONS ? operations[i] : LOOM__OPERATIONS]++;
    }
    uint8_t *there = in_machine(context, operations, n);
    loom__kind_order order = {.operations = there, .n = n, .places = in_machine(context, NULL, places_bytes)};
    CHECK_OK(machine->ops->count_operations(machine, on_host ? operations : there, n, NULL, counts, NULL));
    CHECK_OK(machine->ops->count_operations(machine, there, n, order.places, again, NULL));
    CHECK_BYTES(counts, expected, sizeof counts);
    CHECK_BYTES(again, expected, sizeof counts);
    memset(again, 0, sizeof again);
    CHECK_OK(machine->ops->count_operations(machine, there, n, order.places, NULL, NULL));
    for (uint32_t kind = 0; kind < LOOM__KINDS; kind++) {
        order.firsts[kind] = room + random_below(&t->random, GAP);
        room = order.firsts[kind] + counts[kind];
    }
    for (int c = 0; c < LOOM__KIND_COLUMNS; c++)
        columns[c] = make_column(t, n, room, widths[random_below(&t->random, sizeof widths / sizeof *widths)]);
    move_columns(context, order, columns, room, 0);
    move_columns(context, order, columns, room, 1);
    for (int c = 0; c < LOOM__KIND_COLUMNS; c++) {
        check_column(&columns[c], operations, &order, room);
        free(columns[c].given);
        free(columns[c].moved);
        free(columns[c].back);
    }
    out_of_machine(context, there, NULL, n);
    out_of_machine(context, order.places, NULL, places_bytes);
    free(operations);
}

/* Statuses may take the place of operations. */
static void replace_operations(test_run *t, loom_context *context, uint64_t n)
{
    loom__machine *machine = context->machine;
    const uint64_t places_bytes = loom__kind_places(n) * sizeof(uint32_t);
    uint8_t *operations = test_allocate(n), *statuses = test_allocate(n), *got = test_allocate(n);
    uint64_t next[LOOM__KINDS] = {0}, before = 0;
    for (uint64_t i = 0; i < n; i++) {
        operations[i] = (uint8_t)random_below(&t->random, 9);
        statuses[i] = (uint8_t)random_u64(&t->random);
    }
    loom__kind_order order = {.n = n, .places = in_machine(context, NULL, places_bytes)};
    uint8_t *there = in_machine(context, operations, n), *from = in_machine(context, statuses, n);
    order.operations = there;
    CHECK_OK(machine->ops->count_operations(machine, there, n, order.places, next, NULL));
    for (uint32_t kind = 0; kind < LOOM__KINDS; kind++) {
        order.firsts[kind] = before;
        before += next[kind];
        next[kind] = order.firsts[kind];
    }
    const loom__kind_column statuses_back = {there, from, 1, (1u << LOOM__OPERATIONS) - 1};
    CHECK_OK(machine->ops->move_by_kind(machine, &order, &statuses_back, 1, 1, NULL));
    out_of_machine(context, there, got, n);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(got[i], operations[i] < LOOM__OPERATIONS ? statuses[next[operations[i]]++] : operations[i]);
    out_of_machine(context, from, NULL, n);
    out_of_machine(context, order.places, NULL, places_bytes);
    free(operations);
    free(statuses);
    free(got);
}

TEST(test_machine_sorts_operations, .every_machine = 1)
{
    static const uint64_t sizes[] = {1, 2, 31, 33, 1000, 1023, 1024, 1025, 8193, 70000, 300001};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int skewed = 0; skewed < 2; skewed++)
            for (int on_host = 0; on_host < 2; on_host++)
                sort_operations(t, context, sizes[i], skewed, on_host);
        replace_operations(t, context, sizes[i]);
    }
    loom_context_destroy(context);
}

/* Rows whose hashes take few values, so that many are equal. */
static void sort_and_group(test_run *t, loom_context *context, uint64_t n, uint64_t hashes, uint32_t key_bytes,
                           int collides)
{
    loom__machine *machine = context->machine;
    uint64_t *given = test_allocate(n * sizeof *given), *got = test_allocate(n * sizeof *got), distinct = 0;
    uint32_t *rows = test_allocate(n * sizeof *rows), *groups = test_allocate(n * sizeof *groups);
    uint32_t *firsts = test_allocate(n * sizeof *firsts);
    unsigned char *keys = test_allocate(n * key_bytes);
    int collide = 2;
    test_note("%llu rows, %llu hashes, keys of %u bytes, collide %d", (unsigned long long)n, (unsigned long long)hashes,
              key_bytes, collides);
    memset(keys, 0, n * key_bytes);
    for (uint64_t i = 0; i < n; i++) {
        given[i] = random_below(&t->random, hashes) * (random_below(&t->random, 2) ? 1 : 1 + (UINT64_MAX >> 8));
        memcpy(keys + i * key_bytes, &given[i], key_bytes < 8 ? key_bytes : 8);
        keys[i * key_bytes] = (unsigned char)(given[i] * 7);
    }
    if (collides) { /* the last byte of one of two keys differs */
        given[n - 1] = given[0];
        memcpy(keys, keys + (n - 1) * key_bytes, key_bytes);
        keys[key_bytes - 1] ^= 1;
    }
    uint64_t *sorted = in_machine(context, given, n * sizeof *given);
    uint32_t *at = in_machine(context, NULL, n * sizeof *rows), *of = in_machine(context, NULL, n * sizeof *groups);
    uint32_t *first = in_machine(context, NULL, n * sizeof *firsts);
    unsigned char *there = in_machine(context, keys, n * key_bytes);
    CHECK_OK(machine->ops->sort_hashes(machine, sorted, n, at, NULL));
    CHECK_OK(machine->ops->group_rows(machine, sorted, at, there, key_bytes, n, of, first, &distinct, &collide, NULL));
    CHECK_EQ(collide, collides);
    out_of_machine(context, sorted, got, n * sizeof *got);
    out_of_machine(context, at, rows, n * sizeof *rows);
    out_of_machine(context, of, groups, n * sizeof *groups);
    out_of_machine(context, first, firsts, n * sizeof *firsts);
    out_of_machine(context, there, NULL, n * key_bytes);
    for (uint64_t i = 0, group = 0; i < n; i++) {
        CHECK_EQ(got[i], given[rows[i]]);
        const int same = i > 0 && got[i] == got[i - 1];
        if (i > 0)
            CHECK(same ? rows[i - 1] < rows[i] : got[i - 1] < got[i]);
        group += i > 0 && !same;
        if (collides)
            continue;
        CHECK_EQ(groups[i], group);
        if (!same)
            CHECK_EQ(firsts[group], rows[i]);
        if (i + 1 == n)
            CHECK_EQ(distinct, group + 1);
    }
    free(given);
    free(got);
    free(rows);
    free(groups);
    free(firsts);
    free(keys);
}

TEST(test_machine_sorts_and_groups_rows, .every_machine = 1, .timeout_seconds = 120)
{
    static const uint64_t sizes[] = {1, 2, 33, 1000, 4097, 150000};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t hashes = 1; hashes <= 1000000; hashes *= 1000)
            for (uint32_t key_bytes = 4; key_bytes <= 16; key_bytes += 6)
                for (int collides = 0; collides <= (sizes[i] > 1); collides++)
                    sort_and_group(t, context, sizes[i], hashes, key_bytes, collides);
    loom_context_destroy(context);
}

/* Effects joined in any grouping do what the rows do one by one. */
TEST(test_effects_join_in_any_grouping)
{
    enum { ROWS = 7 };
    for (int multimap = 0; multimap < 2; multimap++)
        for (uint64_t round = 0; round < test_scaled(t, 40000, 4000); round++) {
            loom__effect effects[ROWS];
            const uint32_t count = 1 + (uint32_t)random_below(&t->random, ROWS);
            loom__holding held = loom__holding_of((uint32_t)random_below(&t->random, 2), LOOM__TABLES_VALUE, 0),
                          begin = held;
            for (uint32_t i = 0; i < count; i++) {
                effects[i] = random_below(&t->random, 8)
                                 ? loom__effect_of((uint32_t)random_below(&t->random, LOOM__OPERATIONS), i,
                                                   random_u64(&t->random), multimap)
                                 : loom__no_effect();
                held = loom__effect_on(&effects[i], held);
            }
            for (uint32_t left = count; left > 1; left--) { /* joins two neighbours at random */
                const uint32_t at = (uint32_t)random_below(&t->random, left - 1);
                effects[at] = loom__join_effects(&effects[at], &effects[at + 1]);
                memmove(&effects[at + 1], &effects[at + 2], (left - at - 2) * sizeof *effects);
            }
            const loom__holding joined = loom__effect_on(&effects[0], begin);
            CHECK_EQ(joined.there, held.there);
            if (!held.there)
                continue;
            CHECK_EQ(joined.row, held.row);
            CHECK_EQ(joined.more, held.more);
        }
}
