/* What one insertion into an open table costs where keys go in directly: the turns that GPUs take, by lanes that count.
 * docs/notes/open.md shows these figures, and derives from them how fast insertions could be. */
#define LOOM_LANES_HEADER "harness/counting_lanes.h"
#include "harness/map_fixture.h"

#include "api/map.h"
#include "engines/open/open.h"
#include "engines/open/open_items.h"

#include <math.h>

/* Per key. Beside these, each key costs one compare-and-swap; where values lie apart from keys also one store of the
 * value, one fence, and one OR that sets the ready bit. */
typedef struct insert_costs {
    double lines;         /* lines read */
    double bits;          /* filter bits set: for each, a load of the partition's mark and an OR */
    double shared_fences; /* before the key is stored, if lookups may run beside the insertions; */
    double unread_fences; /*   and if not */
} insert_costs;

/* Counted in tables for 10^8 pairs of 4 + 4 bytes, fences for 3 * 10^7. Fourth row: 3 * 10^7 pairs of 8 + 8 bytes. Where
 * a load factor of 0.95 is asked for, they come to 0.928 (open_shape.c). */
static const struct {
    double load;
    insert_costs all;  /* from the empty table on */
    insert_costs last; /* the last 0.99 % of the keys */
} wanted[] = {
    {0.53, {1.0167, 0.0166, 0.0159, 0.00001}, {1.0949, 0.0938, 0.0862, 0.0001}},
    {0.80, {1.1235, 0.1213, 0.0900, 0.0009}, {1.7636, 0.7452, 0.4335, 0.0154}},
    {0.90, {1.2524, 0.2462, 0.1413, 0.0073}, {2.9618, 1.8920, 0.6607, 0.1273}},
    {0.928, {1.3216, 0.3112, 0.1585, 0.0128}, {3.8821, 2.7342, 0.7398, 0.2224}},
    {0.95, {1.3981, 0.3854, 0.1728, 0.0192}, {5.1420, 3.9440, 0.8026, 0.3369}},
};

enum { LOADS = sizeof wanted / sizeof wanted[0] };

typedef struct counts {
    uint64_t keys, lines, words;
    lane_writes writes;
} counts;

static counts counts_after(uint64_t keys)
{
    return (counts){keys, lines_taken, words_loaded, writes};
}

static void insert_up_to(const loom__open_view *view, int shared, const batch *b, uint64_t *keys, uint64_t end)
{
    const lane_group alone = {0};
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    for (; *keys < end; (*keys)++) {
        open_walk walk = open_start(kind, view, batch_key(b, *keys));
        uint64_t value = batch_value(b, *keys);
        open_answer answer;
        do
            answer = open_insert_item(kind, SLOT_KEEP, LOOM__ADD, shared, alone, view, &walk, &value, 1);
        while (answer.outcome == OPEN_GO_ON);
        CHECK_EQ(answer.outcome, OPEN_DONE);
    }
}

/* How far a count per key may be from what is wanted: by 1 %, and by four standard deviations of the mean of so many
 * keys, with as much variance as the number of full buckets that a key meets. */
static double tolerance(double expected, uint64_t keys)
{
    return 0.01 * expected + 4 * sqrt(expected * (1 + expected) / (double)keys);
}

static void check_costs(const loom__open_view *view, int shared, const counts *from, const counts *to,
                        const insert_costs *expected)
{
    const uint64_t keys = to->keys - from->keys, apart = slot_values_apart((loom__slot_kind)view->kind) ? keys : 0;
    const double lines = (double)(to->lines - from->lines) / (double)keys;
    const double bits = (double)(to->writes.ors - from->writes.ors - apart) / (double)keys;
    const double fences = (double)(to->writes.fences - from->writes.fences - apart) / (double)keys;
    const double marks = (double)(to->words - from->words) / (double)keys;
    const double expected_fences = shared == OPEN_UNREAD ? expected->unread_fences : expected->shared_fences;
    CHECK_NEAR(lines, expected->lines, tolerance(expected->lines - 1, keys)); /* each key reads one at least */
    CHECK_NEAR(bits, expected->bits, tolerance(expected->bits, keys));
    CHECK_NEAR(marks, expected->bits, tolerance(expected->bits, keys));
    CHECK_NEAR(fences, expected_fences, tolerance(expected_fences, keys));
    CHECK_EQ(to->writes.stores - from->writes.stores, apart);
    CHECK_EQ(to->writes.lost_swaps, 0);
    /* In partitions marked OPEN_CROWDED, which takes one swap, a few insertions set bits that are set already. */
    CHECK_GE(to->writes.swaps - from->writes.swaps, keys);
    CHECK_LE(to->writes.swaps - from->writes.swaps, keys + view->partitions);
    CHECK_LE(to->writes.idle_ors - from->writes.idle_ors, keys / 50);
}

/* Fills one table up to the first `loads` load factors of the list. Its partitions are as large as those of a table for
 * 10^8 keys with the highest of all. */
static void check_table(test_run *t, uint32_t bytes, int loads, int shared)
{
    loom_context *context = make_context_with(t, 1, 20);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = bytes;
    config.capacity = 100000000;
    config.max_load = wanted[LOADS - 1].load;
    config.growth = 0;
    loom__description large = {0};
    CHECK_OK(loom__open_choose(NULL, &config, &large));
    config.capacity = test_scaled(t, 600000, 300000);
    config.buckets_per_partition = large.buckets;
    loom_map *map = make_map_from(context, &config);
    const loom__open_view *view = (const loom__open_view *)(const void *)map->handle.table->view;
    const double slots = (double)view->partitions * view->buckets * open_slots((loom__slot_kind)view->kind);

    batch b = make_batch_of(bytes, bytes, (uint64_t)(slots * wanted[loads - 1].load));
    fill_distinct(&b, 20, 0);
    uint64_t keys = 0;
    const counts none = counts_after(keys);
    for (int i = 0; i < loads; i++) {
        const uint64_t end = (uint64_t)(slots * wanted[i].load);
        test_note("load factor %g, shared = %d", wanted[i].load, shared);
        insert_up_to(view, shared, &b, &keys, end - (uint64_t)(0.0099 * (double)end));
        const counts before = counts_after(keys);
        insert_up_to(view, shared, &b, &keys, end);
        const counts now = counts_after(keys);
        check_costs(view, shared, &none, &now, &wanted[i].all);
        check_costs(view, shared, &before, &now, &wanted[i].last);
    }
    check_all_found(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_open_insert_costs_of_packed_pairs)
{
    check_table(t, 4, LOADS, OPEN_SHARED);
    check_table(t, 4, LOADS, OPEN_UNREAD);
}

TEST(test_open_insert_costs_of_pairs_apart)
{
    check_table(t, 8, LOADS - 1, OPEN_SHARED);
    check_table(t, 8, LOADS - 1, OPEN_UNREAD);
}
