/* What mixed batches need of a machine (core/machine.h): rows by operation, rows by hash, rows by key; on every machine.
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

/* `skewed`: nearly all rows have the same operation. */
static void sort_operations(test_run *t, loom_context *context, uint64_t n, int skewed, int on_host)
{
    loom__machine *machine = context->machine;
    uint8_t *operations = test_allocate(n);
    uint32_t *rows = test_allocate(n * sizeof *rows), *next = test_allocate(n * sizeof *next);
    uint64_t counts[LOOM__OPERATIONS + 1], again[LOOM__OPERATIONS + 1], at = 0;
    test_note("%llu rows, skewed %d, on host %d", (unsigned long long)n, skewed, on_host);
    for (uint64_t i = 0; i < n; i++)
        operations[i] = (uint8_t)(skewed && random_below(&t->random, 1000) ? 3 : random_below(&t->random, 9));
    uint8_t *given = on_host ? operations : in_machine(context, operations, n);
    uint32_t *sorted = in_machine(context, NULL, n * sizeof *rows);
    CHECK_OK(machine->ops->sort_operations(machine, given, n, sorted, counts, NULL));
    CHECK_OK(machine->ops->sort_operations(machine, given, n, NULL, again, NULL));
    CHECK_BYTES(again, counts, sizeof counts);
    out_of_machine(context, sorted, rows, n * sizeof *rows);
    if (!on_host)
        out_of_machine(context, given, NULL, n);
    for (uint32_t kind = 0; kind <= LOOM__OPERATIONS; kind++) {
        const uint64_t first = at;
        for (uint64_t i = 0; i < n; i++)
            if (operations[i] == kind || (kind == LOOM__OPERATIONS && operations[i] > kind))
                CHECK_EQ(rows[at++], i);
        CHECK_EQ(counts[kind], at - first);
    }
    CHECK_EQ(at, n);
    free(operations);
    free(rows);
    free(next);
}

TEST(test_machine_sorts_operations, .every_machine = 1)
{
    static const uint64_t sizes[] = {1, 2, 31, 33, 1000, 4095, 4096, 4097, 70000, 300001};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int skewed = 0; skewed < 2; skewed++)
            for (int on_host = 0; on_host < 2; on_host++)
                sort_operations(t, context, sizes[i], skewed, on_host);
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
    if (collides) /* the last byte of one of two keys differs */
        keys[(n - 1) * key_bytes + key_bytes - 1] ^= 1,
            given[n - 1] = given[0], memcpy(keys, keys + (n - 1) * key_bytes, key_bytes), keys[key_bytes - 1] ^= 1;
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
