/* Insertions and builds in order. Among equal keys of a batch, exactly the first wins with LOOM_KEEP, and the last with
 * LOOM_OVERWRITE. Every record gets the status that it would get if the records came one by one. The reference takes
 * the records one by one. If a batch does not fit, the table chooses the keys that it refuses, and the test asks the
 * table for them. */
#include "harness/map_model.h"
#include "harness/placed_batch.h"

#include <stdlib.h>

typedef struct subject {
    model m; /* the map, and its contents */
    loom_context *context;
    uint64_t salt, round;
} subject;

static subject make_subject(test_run *t, loom_context *context, uint64_t capacity)
{
    subject s = {.context = context, .salt = random_u64(&t->random)};
    s.m = make_model(t, make_map(t, context, capacity), capacity);
    return s;
}

static void free_subject(subject *s)
{
    loom_map_destroy(s->m.map);
    free_model(&s->m);
}

static uint64_t nth_key(const subject *s, uint64_t i)
{
    return distinct_key(s->m.key_bytes, s->salt, i);
}

/* No two records of a subject have equal values. */
static void fill_values(subject *s, batch *b)
{
    s->round++;
    for (uint64_t i = 0; i < b->n; i++)
        set_word(b->values, b->value_bytes, i, (s->round << 20) + i + 1);
}

/* Applies the batch to the reference, record by record, and compares statuses and counts. */
static void replay(subject *s, const batch *b, uint32_t flags, int with_status, const loom_result *result)
{
    batch got = copy_batch(b);
    uint64_t counts[4] = {0, 0, 0, 0};
    checked_find(s->m.map, &got);
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t key = batch_key(b, i);
        int was = reference_get(s->m.reference, key, NULL), is = got.status[i] == LOOM_OK;
        uint8_t told = was ? LOOM_EXISTS : is ? LOOM_OK : LOOM_FULL;
        CHECK(is || !was);
        if (with_status && b->status[i] != told)
            FAIL("status[%llu] of %llu is %d instead of %d", (unsigned long long)i, (unsigned long long)b->n,
                 b->status[i], told);
        if (is && (!was || flags & LOOM_OVERWRITE))
            reference_put(s->m.reference, key, batch_value(b, i));
        counts[told]++;
    }
    CHECK_EQ(result->ok, counts[LOOM_OK]);
    CHECK_EQ(result->exists, counts[LOOM_EXISTS]);
    CHECK_EQ(result->full, counts[LOOM_FULL]);
    free_batch(&got);
}

/* Builds or inserts the keys of the batch in order, with new values. */
static loom_result run_in_order(subject *s, batch *b, int builds, uint32_t flags, const placement *where)
{
    fill_values(s, b);
    placed_batch p = place_batch(s->context, b, where);
    CHECK_OK((builds ? loom_map_build : loom_map_insert)(s->m.map, p.keys, p.values, b->n, flags | LOOM_IN_ORDER,
                                                         p.status, p.result, NULL));
    loom_result result = take_back_batch(&p, b);
    if (builds)
        reference_clear(s->m.reference);
    replay(s, b, flags, where->status, &result);
    model_compare(&s->m);
    if (result.full)
        CHECK_GE(map_size(s->m.map), s->m.capacity);
    return result;
}

/* ---- How equal keys lie in a batch ---------------------------------------------------------------------------- */

enum { DISTINCT, THREE_TIMES, FAR_APART, HALF_OF_ONE, ALL_OF_ONE, FEW, RANDOM, PATTERNS };

static const char *const pattern_names[PATTERNS] = {
    "all different", "each three times", "each twice, far apart", "half of them one", "all of them one", "few",
    "random"};

static void fill_pattern(test_run *t, const subject *s, batch *b, int pattern, uint64_t first)
{
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t which = i;
        switch (pattern) {
        case THREE_TIMES:
            which = i / 3;
            break;
        case FAR_APART:
            which = i % (b->n / 2 + 1);
            break;
        case HALF_OF_ONE:
            which = i % 2 ? 0 : i;
            break;
        case ALL_OF_ONE:
            which = 0;
            break;
        case FEW:
            which = random_below(&t->random, 7);
            break;
        case RANDOM:
            which = random_below(&t->random, b->n);
            break;
        }
        set_pair(b, i, nth_key(s, first + which), 0);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_order_patterns, .long_tier = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = 3001;
    subject s = make_subject(t, context, 2 * n);
    batch b = make_batch(t, n);
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (int w = 0; w < PLACEMENTS; w++)
            for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
                test_note("%s, flags %u, %s", pattern_names[pattern], flags, placements[w].name);
                fill_pattern(t, &s, &b, pattern, 0);
                run_in_order(&s, &b, 1, flags, &placements[w]);
                CHECK_EQ(run_in_order(&s, &b, 0, flags, &placements[w]).exists, n);
                fill_pattern(t, &s, &b, pattern, n / 2); /* some keys are in the table */
                run_in_order(&s, &b, 0, flags, &placements[w]);
            }
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_order_batch_lengths)
{
    static const uint64_t lengths[] = {0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        subject s = make_subject(t, context, 2 * lengths[i]);
        batch b = make_batch(t, lengths[i]), before = make_batch(t, lengths[i]);
        fill_pattern(t, &s, &before, DISTINCT, lengths[i] / 2);
        for (int w = 0; w < PLACEMENTS; w++) {
            uint32_t flags = w % 2 ? LOOM_OVERWRITE : LOOM_KEEP;
            test_note("%llu keys, %s", (unsigned long long)b.n, placements[w].name);
            run_in_order(&s, &before, 1, LOOM_KEEP, &placements[w]);
            for (int pattern = THREE_TIMES; pattern <= ALL_OF_ONE; pattern++) {
                fill_pattern(t, &s, &b, pattern, 0);
                run_in_order(&s, &b, 0, flags, &placements[w]);
            }
            run_in_order(&s, &b, 1, flags, &placements[w]);
        }
        free_batch(&b);
        free_batch(&before);
        free_subject(&s);
    }
    loom_context_destroy(context);
}

/* Batches so long that every thread and thread block gets records, and runs of equal keys cross their borders. */
TEST_EACH_KIND(test_open_order_many_keys, .threads = 1, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    const uint64_t n = test_scaled(t, 300000, 30011);
    subject s = make_subject(t, context, n);
    batch b = make_batch(t, n);
    for (int pattern = THREE_TIMES; pattern < PATTERNS; pattern++) {
        uint32_t flags = pattern % 2 ? LOOM_OVERWRITE : LOOM_KEEP;
        test_note("%s", pattern_names[pattern]);
        fill_pattern(t, &s, &b, pattern, 0);
        run_in_order(&s, &b, 1, flags, &placements[1]);
        run_in_order(&s, &b, 0, flags ^ LOOM_OVERWRITE, &placements[PLACED_STATUS]);
    }
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}

/* A batch with more different keys than the table holds: all records of a key are refused, or none. */
TEST_EACH_KIND(test_open_order_overfull, .long_tier = 1)
{
    static const uint64_t capacities[] = {0, 1, 100, 2000};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        for (uint64_t times = 1; times <= 3; times++) {
            subject s = make_subject(t, context, capacities[i]);
            uint64_t slots = map_stats(s.m.map).slots;
            batch some = make_batch(t, capacities[i] / 2), b = make_batch(t, times * (slots + slots / 4 + 100));
            fill_pattern(t, &s, &some, DISTINCT, 0);
            for (uint64_t row = 0; row < b.n; row++) /* keys of the table, and one key that repeats */
                set_pair(&b, row, nth_key(&s, row % 5 == 4 ? slots : row % (b.n / times)), 0);
            for (int w = 0; w < PLACEMENTS; w++) {
                uint32_t flags = w % 2 ? LOOM_OVERWRITE : LOOM_KEEP;
                test_note("capacity %llu, each key %llu times, %s", (unsigned long long)capacities[i],
                          (unsigned long long)times, placements[w].name);
                CHECK_GT(run_in_order(&s, &b, 1, flags, &placements[w]).full, 0);
                CHECK_EQ(run_in_order(&s, &some, 1, flags, &placements[w]).ok, some.n);
                CHECK_GT(run_in_order(&s, &b, 0, flags, &placements[w]).full, 0);
                CHECK_EQ(run_in_order(&s, &b, 0, flags ^ LOOM_OVERWRITE, &placements[w]).ok, 0);
            }
            free_batch(&some);
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* Erased keys are inserted again in order. Calls in order mix with the other ways to insert. */
TEST_EACH_KIND(test_open_order_after_erasures)
{
    loom_context *context = make_context(t);
    const uint64_t n = 4000;
    subject s = make_subject(t, context, n);
    batch b = make_batch(t, n), gone = make_batch(t, n / 2);
    for (int w = 0; w < PLACEMENTS; w++)
        for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
            test_note("flags %u, %s", flags, placements[w].name);
            fill_pattern(t, &s, &b, DISTINCT, 0);
            run_in_order(&s, &b, 1, flags, &placements[w]);
            for (uint64_t i = 0; i < gone.n; i++)
                set_pair(&gone, i, nth_key(&s, 2 * i + 1), 0);
            model_erase(&s.m, &gone);
            fill_pattern(t, &s, &b, FAR_APART, 0);
            CHECK_EQ(run_in_order(&s, &b, 0, flags, &placements[w]).ok, n / 4);
            fill_pattern(t, &s, &b, RANDOM, 0);
            fill_values(&s, &b);
            model_insert(&s.m, &b, flags);
            fill_pattern(t, &s, &b, RANDOM, 0);
            run_in_order(&s, &b, 0, flags, &placements[w]);
        }
    free_batch(&b);
    free_batch(&gone);
    free_subject(&s);
    loom_context_destroy(context);
}

/* LOOM_BY_PARTITION together with LOOM_IN_ORDER is accepted, wherever the statuses lie. */
TEST_EACH_KIND(test_open_order_by_partition)
{
    loom_context *context = make_context(t);
    const uint64_t n = 2000;
    subject s = make_subject(t, context, n);
    batch b = make_batch(t, n);
    for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
        fill_pattern(t, &s, &b, RANDOM, 0);
        for (int w = 0; w < PLACEMENTS; w++) {
            run_in_order(&s, &b, 1, flags | LOOM_BY_PARTITION, &placements[w]);
            run_in_order(&s, &b, 0, flags | LOOM_BY_PARTITION, &placements[w]);
        }
        fill_values(&s, &b);
        model_build(&s.m, &b, flags | LOOM_BY_PARTITION | LOOM_IN_ORDER);
        fill_values(&s, &b);
        model_insert(&s.m, &b, flags | LOOM_BY_PARTITION | LOOM_IN_ORDER);
    }
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}

/* Growth divides a batch into parts. Calls in order stay in order across the parts. */
TEST_EACH_KIND(test_open_order_growing)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 500);
    config.growth = 1.5;
    subject s = {.context = context, .salt = random_u64(&t->random)};
    s.m = make_model(t, make_map_from(context, &config), 500);
    batch b = make_batch(t, 6000);
    for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
        fill_pattern(t, &s, &b, RANDOM, flags * 2000);
        CHECK_EQ(run_in_order(&s, &b, 0, flags, &placements[PLACED_STATUS]).full, 0);
    }
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}
