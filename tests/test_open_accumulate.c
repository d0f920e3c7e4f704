/* find_or_insert, update and accumulate: the values afterwards, the statuses, and what is refused. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST_EACH(test_open_find_or_insert_half_present, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 6000;
    model m = make_model(t, make_map(t, context, n), n);
    batch half = make_batch(t, n / 2), all = make_batch(t, n);
    fill_distinct(&half, 5, 0);
    fill_distinct(&all, 5, 0);
    model_insert(&m, &half, LOOM_KEEP);
    for (uint64_t i = 0; i < n; i++)
        set_word(all.values, all.value_bytes, i, ~batch_value(&all, i));
    model_find_or_insert(&m, &all);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(all.status[i], i < n / 2 ? LOOM_EXISTS : LOOM_OK);
    model_compare(&m);
    /* Without the optional arrays the call inserts like LOOM_KEEP. */
    loom_result result;
    CHECK_OK(loom_map_find_or_insert(m.map, all.keys, all.values, n, NULL, NULL, &result, NULL));
    CHECK_EQ(result.exists, n);
    CHECK_OK(loom_map_find_or_insert(m.map, all.keys, all.values, n, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_find_or_insert(m.map, NULL, NULL, 0, NULL, NULL, NULL, NULL));
    model_compare(&m);
    free_batch(&half);
    free_batch(&all);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* All entries with one key return the same value: that of the entry that stored the key. */
TEST_EACH(test_open_find_or_insert_equal_keys, .threads = 1)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 20000);
    model m = make_model(t, make_map(t, context, 100), 100);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 3, i % 100), i + 1);
    model_find_or_insert(&m, &b);
    CHECK_EQ(map_size(m.map), 100);
    model_compare(&m);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_update_touches_only_what_is_there, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 6000;
    model m = make_model(t, make_map(t, context, n), n);
    batch half = make_batch(t, n / 2), all = make_batch(t, n);
    fill_distinct(&half, 5, 0);
    fill_distinct(&all, 5, 0);
    model_update(&m, &all); /* an update of an empty table */
    CHECK_EQ(map_size(m.map), 0);
    model_insert(&m, &half, LOOM_KEEP);
    for (uint64_t i = 0; i < n; i++)
        set_word(all.values, all.value_bytes, i, i * 3);
    model_update(&m, &all);
    model_compare(&m);
    CHECK_OK(loom_map_update(m.map, all.keys, all.values, n, NULL, NULL, NULL)); /* absent keys are no failure */
    CHECK_OK(loom_map_update(m.map, NULL, NULL, 0, NULL, NULL, NULL));
    for (uint64_t i = 0; i < n; i++) /* equal keys: any of the values may stay */
        set_pair(&all, i, distinct_key(all.key_bytes, 5, i % 10), i);
    model_update(&m, &all);
    model_compare(&m);
    free_batch(&half);
    free_batch(&all);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* Every entry of a key is added, however many threads or lanes work on the key. */
TEST_EACH(test_open_accumulate_counts)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 200000, 30000);
    model m = make_model(t, make_map(t, context, 5000), 5000);
    batch b = make_batch(t, n);
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < n; i++) { /* half of the entries have the same key */
            uint64_t which = i & 1 ? 0 : random_below(&t->random, 5000);
            set_pair(&b, i, distinct_key(b.key_bytes, 3, which), 1);
        }
        model_accumulate(&m, &b, LOOM_COMBINE_ADD, 0);
    }
    model_compare(&m);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_accumulate_integers, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    uint64_t n = test_scaled(t, 40000, 8000);
    for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_MAX; combine++)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            model m = make_model(t, make_map(t, context, 1000), 1000);
            batch b = make_batch(t, n);
            test_note("combine %d, signed %d", combine, is_signed);
            for (int round = 0; round < 3; round++) {
                for (uint64_t i = 0; i < n; i++) { /* numbers near both ends, so that sums wrap and signs matter */
                    uint64_t value = random_below(&t->random, 100);
                    value = random_below(&t->random, 3) ? value : 0 - value;
                    value ^= random_below(&t->random, 2) << (b.value_bytes * 8 - 1);
                    set_pair(&b, i, distinct_key(b.key_bytes, 3, random_below(&t->random, 1000)), value);
                }
                model_accumulate(&m, &b, (loom_combine)combine, is_signed);
            }
            model_compare(&m);
            free_batch(&b);
            loom_map_destroy(m.map);
            free_model(&m);
        }
    loom_context_destroy(context);
}

/* Few keys have all rows, so that threads keep sums of their own. Also where the table has no room for some of the
 * keys. */
TEST_EACH(test_open_accumulate_few_keys, .long_tier = 1, .every_engine = 1)
{
    static const uint64_t counts[] = {1, 60, 400};
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    const uint64_t n = test_scaled(t, 100000, 20000);
    batch b = make_batch(t, n);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_MAX; combine++) {
            const uint64_t keys = counts[i], room = combine == LOOM_COMBINE_ADD ? 20 : keys;
            model m = make_model(t, make_map(t, context, room), room);
            test_note("%llu keys, combine %d", (unsigned long long)keys, combine);
            for (int round = 0; round < 2; round++) {
                for (uint64_t j = 0; j < n; j++)
                    set_pair(&b, j, distinct_key(b.key_bytes, 5, random_below(&t->random, keys)),
                             random_u64(&t->random));
                model_accumulate(&m, &b, (loom_combine)combine, round);
            }
            model_compare(&m);
            loom_map_destroy(m.map);
            free_model(&m);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

static uint64_t float_bits(double number, uint32_t bytes)
{
    float narrow = (float)number;
    uint64_t bits = 0;
    if (bytes == 4)
        memcpy(&bits, &narrow, 4);
    else
        memcpy(&bits, &number, 8);
    return bits;
}

static double number_of(uint64_t bits, uint32_t bytes)
{
    float narrow;
    double number;
    memcpy(&narrow, &bits, 4);
    memcpy(&number, &bits, 8);
    return bytes == 4 ? narrow : number;
}

/* Whole numbers that are small enough for every sum to be exact in any order. */
TEST_EACH(test_open_accumulate_floats)
{
    enum { KEYS = 50 };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 20000, 4000);
    loom_number number = t->value_bytes == 4 ? LOOM_NUMBER_F32 : LOOM_NUMBER_F64;
    for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_MAX; combine++) {
        loom_map *map = make_map(t, context, KEYS);
        batch b = make_batch(t, n), got = make_batch(t, KEYS);
        double wanted[KEYS];
        test_note("combine %d", combine);
        for (uint64_t i = 0; i < n; i++) {
            double value = (double)random_below(&t->random, 401) - 200;
            double *w = &wanted[i % KEYS];
            *w = i < KEYS                      ? value
                 : combine == LOOM_COMBINE_ADD ? *w + value
                 : combine == LOOM_COMBINE_MIN ? fmin(*w, value)
                                               : fmax(*w, value);
            set_pair(&b, i, distinct_key(b.key_bytes, 9, i % KEYS), float_bits(value, b.value_bytes));
        }
        CHECK_EQ(checked_accumulate(map, &b, (loom_combine)combine, number).ok, KEYS);
        for (uint64_t i = 0; i < KEYS; i++)
            set_pair(&got, i, distinct_key(b.key_bytes, 9, i), 0);
        CHECK_EQ(checked_find(map, &got).ok, KEYS);
        for (uint64_t i = 0; i < KEYS; i++)
            CHECK(number_of(batch_value(&got, i), got.value_bytes) == wanted[i]);
        checked_verify(map);
        free_batch(&b);
        free_batch(&got);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* A NaN in the batch is ignored. A NaN in the table stays. */
TEST_EACH(test_open_accumulate_not_a_number)
{
    loom_context *context = make_context(t);
    loom_number number = t->value_bytes == 4 ? LOOM_NUMBER_F32 : LOOM_NUMBER_F64;
    for (int combine = LOOM_COMBINE_MIN; combine <= LOOM_COMBINE_MAX; combine++) {
        loom_map *map = make_map(t, context, 10);
        batch b = make_batch(t, 1);
        set_pair(&b, 0, 7, float_bits(1, b.value_bytes));
        checked_accumulate(map, &b, (loom_combine)combine, number);
        set_pair(&b, 0, 7, float_bits(NAN, b.value_bytes));
        checked_accumulate(map, &b, (loom_combine)combine, number);
        checked_find(map, &b);
        CHECK(number_of(batch_value(&b, 0), b.value_bytes) == 1);
        set_pair(&b, 0, 8, float_bits(NAN, b.value_bytes));
        checked_accumulate(map, &b, (loom_combine)combine, number);
        set_pair(&b, 0, 8, float_bits(1, b.value_bytes));
        checked_accumulate(map, &b, (loom_combine)combine, number);
        checked_find(map, &b);
        CHECK(isnan(number_of(batch_value(&b, 0), b.value_bytes)));
        /* A NaN does not hide a number of the same batch, nor in one that is long enough for sums of the threads. */
        batch both = make_batch(t, 4096);
        double best = combine == LOOM_COMBINE_MIN ? -5 : 5;
        for (uint64_t i = 0; i < both.n; i++)
            set_pair(&both, i, 7, float_bits(i == 3000 ? best : NAN, both.value_bytes));
        checked_accumulate(map, &both, (loom_combine)combine, number);
        set_pair(&b, 0, 7, 0);
        checked_find(map, &b);
        CHECK(number_of(batch_value(&b, 0), b.value_bytes) == best);
        free_batch(&both);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* A batch that does not fit: stored keys have the right values, and all other keys get LOOM_FULL. */
TEST_EACH(test_open_accumulate_full)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 60000, 6000);
    model m = make_model(t, make_map(t, context, 1000), 1000);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 3, i % 4000), i);
    model_accumulate(&m, &b, LOOM_COMBINE_ADD, 0);
    CHECK_GE(map_size(m.map), 1000);
    CHECK_REFUSED(loom_map_accumulate(m.map, b.keys, b.values, n, LOOM_COMBINE_MAX,
                                      b.value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, NULL, NULL),
                  LOOM_FULL);
    checked_verify(m.map);
    free_model(&m);
    m = make_model(t, m.map, 1000); /* find_or_insert returns no value for refused keys */
    model_clear(&m);
    model_find_or_insert(&m, &b);
    CHECK_GE(map_size(m.map), 1000);
    model_find_or_insert(&m, &b);
    model_compare(&m);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* Numbers of 4 bytes for values of 8. The numbers are near both ends of the range: sums exceed 32 bits, and signs
 * matter. */
TEST_EACH(test_open_accumulate_narrow_integers, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    uint64_t n = test_scaled(t, 40000, 8000);
    for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_ADD_AND_COUNT && t->value_bytes == 8; combine++)
        for (int is_signed = 0; is_signed < (combine == LOOM_COMBINE_ADD_AND_COUNT ? 1 : 2); is_signed++) {
            model m = make_model(t, make_map(t, context, 1000), 1000);
            batch b = make_batch_of(t->key_bytes, 4, n);
            test_note("combine %d, signed %d", combine, is_signed);
            for (int round = 0; round < 3; round++) {
                for (uint64_t i = 0; i < n; i++) {
                    uint64_t number = random_below(&t->random, 100);
                    number = random_below(&t->random, 3) ? number : 0 - number;
                    number ^= random_below(&t->random, 2) << 31;
                    set_pair(&b, i, distinct_key(b.key_bytes, 3, random_below(&t->random, 1000)), number);
                }
                model_accumulate_narrow(&m, &b, (loom_combine)combine, is_signed);
            }
            model_compare(&m);
            free_batch(&b);
            loom_map_destroy(m.map);
            free_model(&m);
        }
    loom_context_destroy(context);
}

TEST_EACH(test_open_accumulate_narrow_full, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 12000, 6000);
    for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_ADD_AND_COUNT && t->value_bytes == 8; combine++) {
        model m = make_model(t, make_map(t, context, 1000), 1000);
        batch b = make_batch_of(t->key_bytes, 4, n);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, distinct_key(b.key_bytes, 3, i % 4000), i);
        model_accumulate_narrow(&m, &b, (loom_combine)combine, 0);
        CHECK_GE(map_size(m.map), 1000);
        CHECK_REFUSED(
            loom_map_accumulate(m.map, b.keys, b.values, n, (loom_combine)combine, LOOM_NUMBER_U32, NULL, NULL, NULL),
            LOOM_FULL);
        checked_verify(m.map);
        free_batch(&b);
        loom_map_destroy(m.map);
        free_model(&m);
    }
    loom_context_destroy(context);
}

/* Numbers of 4 bytes for values of 8: sums that need more than 24 bits are exact, and so are the smallest numbers. */
TEST_EACH(test_open_accumulate_narrow_floats)
{
    enum { KEYS = 50 };
    static const double special[] = {16777215, -16777216, 0x1p-149, -0x1p-149, 0x1p127, INFINITY, -0.0, NAN};
    enum { SPECIAL = sizeof special / sizeof *special };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 20000, 4000);
    for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_MAX && t->value_bytes == 8; combine++) {
        loom_map *map = make_map(t, context, KEYS + SPECIAL);
        batch b = make_batch_of(t->key_bytes, 4, n), got = make_batch(t, KEYS);
        double wanted[KEYS];
        test_note("combine %d", combine);
        for (uint64_t i = 0; i < n; i++) {
            double value = (double)random_below(&t->random, 401) - 200 + (i % 2 ? 16777015 : 0);
            double *w = &wanted[i % KEYS];
            *w = i < KEYS                      ? value
                 : combine == LOOM_COMBINE_ADD ? *w + value
                 : combine == LOOM_COMBINE_MIN ? fmin(*w, value)
                                               : fmax(*w, value);
            set_pair(&b, i, distinct_key(b.key_bytes, 9, i % KEYS), float_bits(value, 4));
        }
        CHECK_EQ(checked_accumulate(map, &b, (loom_combine)combine, LOOM_NUMBER_F32).ok, KEYS);
        for (uint64_t i = 0; i < KEYS; i++)
            set_pair(&got, i, distinct_key(b.key_bytes, 9, i), 0);
        CHECK_EQ(checked_find(map, &got).ok, KEYS);
        for (uint64_t i = 0; i < KEYS; i++)
            CHECK(number_of(batch_value(&got, i), 8) == wanted[i]);
        free_batch(&b);
        free_batch(&got);
        b = make_batch_of(t->key_bytes, 4, SPECIAL); /* one entry per key: stored as it is */
        got = make_batch(t, SPECIAL);
        for (uint64_t i = 0; i < SPECIAL; i++) {
            set_pair(&b, i, distinct_key(b.key_bytes, 9, KEYS + i), float_bits(special[i], 4));
            set_pair(&got, i, distinct_key(b.key_bytes, 9, KEYS + i), 0);
        }
        CHECK_EQ(checked_accumulate(map, &b, (loom_combine)combine, LOOM_NUMBER_F32).ok, SPECIAL);
        CHECK_EQ(checked_find(map, &got).ok, SPECIAL);
        for (uint64_t i = 0; i < SPECIAL; i++) {
            if (isnan(special[i]))
                CHECK(isnan(number_of(batch_value(&got, i), 8)));
            else
                CHECK_EQ(batch_value(&got, i), float_bits(special[i], 8));
        }
        checked_verify(map);
        free_batch(&b);
        free_batch(&got);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* LOOM_COMBINE_ADD_AND_COUNT: sum and count up to their largest values, and the macros that read both from a value. */
TEST_EACH(test_open_accumulate_add_and_count)
{
    if (t->value_bytes != 8)
        return;
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 10);
    batch b = make_batch_of(t->key_bytes, 4, 300), got = make_batch(t, 1);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b.n; i++) {
        uint64_t number = i < 200 ? UINT32_MAX : i;
        sum += number;
        set_pair(&b, i, 7, number);
    }
    checked_accumulate(map, &b, LOOM_COMBINE_ADD_AND_COUNT, LOOM_NUMBER_U32);
    set_pair(&got, 0, 7, 0);
    checked_find(map, &got);
    CHECK_EQ(LOOM_SUM_OF(batch_value(&got, 0)), sum);
    CHECK_EQ(LOOM_COUNT_OF(batch_value(&got, 0)), b.n);
    CHECK_EQ(LOOM_SUM_OF(LOOM_COUNTED(UINT32_MAX)), UINT32_MAX);
    CHECK_EQ(LOOM_COUNT_OF(LOOM_COUNTED(UINT32_MAX)), 1);
    /* The stored value is one row below the largest sum and count. */
    set_pair(&got, 0, 7, UINT64_MAX - LOOM_COUNTED(5));
    checked_insert(map, &got, LOOM_OVERWRITE);
    set_pair(&b, 0, 7, 5);
    b.n = 1;
    checked_accumulate(map, &b, LOOM_COMBINE_ADD_AND_COUNT, LOOM_NUMBER_U32);
    checked_find(map, &got);
    CHECK_EQ(LOOM_SUM_OF(batch_value(&got, 0)), (UINT64_C(1) << 40) - 1);
    CHECK_EQ(LOOM_COUNT_OF(batch_value(&got, 0)), (1 << 24) - 1);
    free_batch(&b);
    free_batch(&got);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH(test_open_accumulate_wrong_types)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 10);
    batch b = make_batch(t, 1);
    set_pair(&b, 0, 1, 1);
    for (int number = -1; number <= LOOM_NUMBER_F64 + 1; number++) {
        int fits = number >= 0 && number <= (b.value_bytes == 8 ? LOOM_NUMBER_F64 : LOOM_NUMBER_F32);
        int counts = b.value_bytes == 8 && number == LOOM_NUMBER_U32;
        loom_status status =
            loom_map_accumulate(map, b.keys, b.values, 1, LOOM_COMBINE_ADD, (loom_number)number, NULL, NULL, NULL);
        CHECK_EQ(status, fits ? LOOM_OK : LOOM_INVALID_ARGUMENT);
        status = loom_map_accumulate(map, b.keys, b.values, 1, LOOM_COMBINE_ADD_AND_COUNT, (loom_number)number, NULL,
                                     NULL, NULL);
        CHECK_EQ(status, counts ? LOOM_OK : LOOM_INVALID_ARGUMENT);
    }
    loom_number right = b.value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32;
    CHECK_REFUSED(loom_map_accumulate(map, b.keys, b.values, 1, (loom_combine)4, right, NULL, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_accumulate(map, b.keys, b.values, 1, (loom_combine)-1, right, NULL, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK_EQ(map_size(map), 1);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
