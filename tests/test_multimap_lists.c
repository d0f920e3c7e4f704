/* Lists of values of every length: how they grow, what find_all returns of them, and what erasures leave. */
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

#include "engines/open/open_layout.h"

/* ---- What the tests share ------------------------------------------------------------------------------- */

static multimap_model make_growing(test_run *t, loom_context *context, uint64_t capacity, uint64_t values)
{
    loom_map_config config = make_multimap_config(t, capacity, values);
    config.growth = 2;
    return make_multimap_model(t, context, &config);
}

static uint64_t sum_of(const uint64_t *lengths, uint64_t keys)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < keys; i++)
        sum += lengths[i];
    return sum;
}

static void shuffle(test_run *t, batch *b)
{
    for (uint64_t i = b->n; i > 1; i--) {
        const uint64_t j = random_below(&t->random, i), key = batch_key(b, i - 1), value = batch_value(b, i - 1);
        set_pair(b, i - 1, batch_key(b, j), batch_value(b, j));
        set_pair(b, j, key, value);
    }
}

/* Key i has lengths[i] values. The rows are shuffled. */
static batch rows_of(test_run *t, uint64_t salt, const uint64_t *lengths, uint64_t keys)
{
    batch b = make_batch(t, sum_of(lengths, keys));
    uint64_t at = 0;
    for (uint64_t i = 0; i < keys; i++)
        for (uint64_t j = 0; j < lengths[i]; j++, at++)
            set_pair(&b, at, distinct_key(b.key_bytes, salt, i), mix_u64(salt + at));
    shuffle(t, &b);
    return b;
}

/* Rows `first` to `end` - 1 as a batch of their own. */
static batch part_of(const batch *b, uint64_t first, uint64_t end)
{
    batch part = make_batch_of(b->key_bytes, b->value_bytes, end - first);
    for (uint64_t i = first; i < end; i++)
        set_pair(&part, i - first, batch_key(b, i), batch_value(b, i));
    return part;
}

static void insert_in_parts(multimap_model *m, const batch *b, uint64_t rows)
{
    for (uint64_t first = 0; first < b->n; first += rows) {
        batch part = part_of(b, first, first + rows < b->n ? first + rows : b->n);
        CHECK_EQ(multimap_insert(m, &part, LOOM_KEEP).ok, part.n);
        free_batch(&part);
    }
}

/* Rows of one key with different values. */
static batch rows_of_key(const test_run *t, uint64_t key, uint64_t n, uint64_t first_value)
{
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, key, first_value + i);
    return b;
}

/* ---- Lengths -------------------------------------------------------------------------------------------- */

/* Lengths around every class of room that lists have: powers of two, and three times a power of two. */
static uint64_t *lengths_around_classes(uint64_t most, uint64_t *count)
{
    uint64_t *lengths = test_allocate((200 + 6 * 20) * sizeof *lengths);
    *count = 0;
    for (uint64_t i = 0; i <= 70; i++)
        lengths[(*count)++] = i;
    for (uint64_t power = 64; 2 * power + 1 <= most; power *= 2)
        for (uint64_t class = power / 2 * 3; class <= 2 * power; class += power / 2)
            for (uint64_t i = class - 1; i <= class + 1; i++)
                lengths[(*count)++] = i;
    return lengths;
}

/* Built, inserted at once, and inserted in many calls. Then every list shrinks pair by pair and grows again. */
TEST_EACH_MULTIMAP(test_multimap_lists_of_every_length, .long_tier = 1, .timeout_seconds = 120)
{
    static const uint64_t rows_per_call[] = {0, 0, 1000, 33};
    uint64_t keys;
    uint64_t *lengths = lengths_around_classes(test_scaled(t, 8193, 513), &keys);
    for (int way = 0; way < 4; way++) {
        loom_context *context = make_multimap_context(t);
        batch b = rows_of(t, random_u64(&t->random), lengths, keys);
        multimap_model m = make_growing(t, context, way % 2 ? keys : 0, way % 2 ? b.n : 0);
        test_note("way %d", way);
        if (way == 0)
            CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
        else if (way == 1)
            CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP | LOOM_IN_ORDER).ok, b.n);
        else
            insert_in_parts(&m, &b, rows_per_call[way]);
        multimap_compare(&m);
        batch half = part_of(&b, 0, b.n / 2);
        shuffle(t, &half);
        CHECK_EQ(multimap_erase_pairs(&m, &half).ok, half.n);
        multimap_compare(&m);
        CHECK_EQ(multimap_insert(&m, &half, LOOM_KEEP).ok, half.n);
        multimap_compare(&m);
        CHECK_EQ(multimap_erase_pairs(&m, &b).ok, b.n);
        CHECK_EQ(map_size(m.map), 0);
        multimap_compare(&m);
        free_batch(&half);
        free_batch(&b);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
    free(lengths);
}

/* A list grows by one value in each call, beside another one that does the same. */
TEST_EACH_MULTIMAP(test_multimap_lists_growing_one_by_one)
{
    const uint64_t n = test_scaled(t, 400, 150);
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_growing(t, context, 0, 0);
    batch b = make_batch(t, 2);
    for (uint64_t i = 0; i < n; i++) {
        set_pair(&b, 0, 0, i);
        set_pair(&b, 1, UINT64_MAX, random_u64(&t->random));
        CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, 2);
        multimap_find_all(&m, &b, 0);
    }
    for (uint64_t i = n; i-- > 0;) { /* the last value goes first */
        set_pair(&b, 0, 0, i);
        b.n = 1;
        CHECK_EQ(multimap_erase_pairs(&m, &b).ok, 1);
        b.n = 2;
        multimap_find_all(&m, &b, 0);
    }
    CHECK_EQ(map_distinct(m.map), 1);
    multimap_compare(&m);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* Lengths at which counts change their number of bits: three keys in one build, and in an insertion. */
TEST_EACH_MULTIMAP(test_multimap_lists_very_long, .long_tier = 1, .threads = 1, .timeout_seconds = 300)
{
    static const uint64_t middles[] = {UINT64_C(1) << 16, UINT64_C(1) << 19, UINT64_C(1) << 20};
    for (uint64_t i = 0; i < test_scaled(t, 3, 1); i++) {
        const uint64_t lengths[] = {middles[i] - 1, middles[i], middles[i] + 1, 1, 2};
        loom_context *context = make_multimap_context(t);
        batch b = rows_of(t, random_u64(&t->random), lengths, 5);
        multimap_model m = make_growing(t, context, 5, 0);
        test_note("lists of about %llu values", (unsigned long long)middles[i]);
        CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
        multimap_compare(&m);
        multimap_clear(&m);
        CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
        multimap_compare(&m);
        CHECK_OK(loom_map_shrink(m.map, NULL));
        multimap_compare(&m);
        free_batch(&b);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* One key gets many values on top of those that it has. The sums cross the same limits. */
TEST_EACH_MULTIMAP(test_multimap_lists_long_in_two_calls, .long_tier = 1, .threads = 1, .timeout_seconds = 300)
{
    static const uint64_t parts[][2] = {
        {1, 70000},         {65535, 1},         {65536, 65536},           {1, 1 << 20},
        {1 << 19, 1},       {(1 << 19) - 1, 2}, {1 << 19, (1 << 19) - 1}, {1 << 19, 1 << 19},
        {1 << 19, 1 << 20}, {(1 << 20) + 1, 1}, {(1 << 20) - 1, 1},       {3, (1 << 21) + 1}};
    for (uint64_t i = 0; i < test_scaled(t, 12, 3); i++) {
        loom_context *context = make_multimap_context(t);
        multimap_model m = make_growing(t, context, 0, 0);
        test_note("%llu values, then %llu", (unsigned long long)parts[i][0], (unsigned long long)parts[i][1]);
        for (int j = 0; j < 2; j++) {
            batch b = rows_of_key(t, 77, parts[i][j], (uint64_t)j << 24);
            CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
            multimap_compare(&m);
            free_batch(&b);
        }
        batch ends = make_batch(t, 2); /* the first value and the last one */
        set_pair(&ends, 0, 77, 0);
        set_pair(&ends, 1, 77, (UINT64_C(1) << 24) + parts[i][1] - 1);
        CHECK_EQ(multimap_erase_pairs(&m, &ends).ok, 2);
        multimap_compare(&m);
        free_batch(&ends);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

TEST_EACH_MULTIMAP(test_multimap_lists_all_pairs_have_one_key, .threads = 1)
{
    const uint64_t n = test_scaled(t, 50000, 20000);
    for (int grows = 0; grows < 2; grows++) {
        loom_context *context = make_multimap_context(t);
        loom_map_config config = make_multimap_config(t, 1, n);
        config.growth = grows ? 2 : 0;
        multimap_model m = make_multimap_model(t, context, &config);
        batch b = rows_of_key(t, UINT64_MAX, n, 0);
        CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, n);
        CHECK_EQ(map_distinct(m.map), 1);
        multimap_compare(&m);
        multimap_compare_cursor(&m, 999);
        multimap_compare_visits(&m);
        b.n = 10;
        CHECK_EQ(multimap_erase(&m, &b).ok, 1); /* of equal keys one gets OK */
        CHECK_EQ(map_size(m.map), 0);
        multimap_compare(&m);
        free_batch(&b);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* ---- Keys and values ------------------------------------------------------------------------------------ */

/* Special keys, and keys equal to the patterns of empty and retired slots, with values that look special, too. */
TEST_EACH_MULTIMAP(test_multimap_lists_special_keys)
{
    static const uint64_t values[] = {0, UINT64_MAX, 1, UINT64_C(0x8000000080000000), 0, UINT64_MAX};
    for (uint64_t seed = 0; seed < test_scaled(t, 50, 10); seed++) {
        loom_context *context = make_multimap_context(t);
        loom_context_destroy(context);
        context = make_context_with(t, 1, seed);
        multimap_model m = make_growing(t, context, 30, 100);
        const loom_stats stats = map_stats(m.map);
        const loom__open_shape shape = {slot_kind_of(t->key_bytes, 8), (uint32_t)stats.partitions,
                                        (uint32_t)stats.buckets_per_partition};
        const loom__open_view view = loom__open_view_make(&shape, seed);
        const uint64_t keys[] = {0, UINT64_MAX, view.empty[0], view.empty[1], view.retired[0], view.retired[1]};
        for (uint64_t length = 1; length <= 6; length++) {
            batch b = make_batch(t, 6 * length);
            for (uint64_t i = 0; i < b.n; i++)
                set_pair(&b, i, keys[i % 6], values[(i + i / 6) % 6]);
            CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
            multimap_find(&m, &b);
            multimap_compare(&m);
            CHECK_EQ(multimap_erase_pairs(&m, &b).ok, b.n);
            multimap_compare(&m);
            CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
            CHECK_GT(multimap_erase(&m, &b).ok, 1);
            CHECK_EQ(map_size(m.map), 0);
            free_batch(&b);
        }
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* A pair that comes several times is kept as often. Each row of erase_pairs erases one of them. */
TEST_EACH_MULTIMAP(test_multimap_lists_equal_pairs)
{
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_growing(t, context, 10, 10);
    batch b = make_batch(t, 100), one = make_batch(t, 1), many = make_batch(t, 150);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, 5, 7);
    for (uint64_t i = 0; i < many.n; i++)
        set_pair(&many, i, 5, 7);
    CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, 100);
    multimap_compare(&m);
    set_pair(&one, 0, 5, 8); /* another value: nothing is erased */
    CHECK_EQ(multimap_erase_pairs(&m, &one).not_found, 1);
    set_pair(&one, 0, 6, 7); /* another key */
    CHECK_EQ(multimap_erase_pairs(&m, &one).not_found, 1);
    set_pair(&one, 0, 5, 7);
    CHECK_EQ(multimap_erase_pairs(&m, &one).ok, 1);
    CHECK_EQ(map_size(m.map), 99);
    loom_result result = multimap_erase_pairs(&m, &many);
    CHECK_EQ(result.ok, 99);
    CHECK_EQ(result.not_found, 51);
    CHECK_EQ(map_distinct(m.map), 0);
    multimap_compare(&m);
    free_batch(&b);
    free_batch(&one);
    free_batch(&many);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* ---- find_all ------------------------------------------------------------------------------------------- */

TEST_EACH_MULTIMAP(test_multimap_find_all_absent_repeated_and_limited)
{
    static const uint64_t lengths[] = {1, 2, 3, 0, 17, 100, 5, 0, 1, 64};
    static const uint64_t limits[] = {0, 1, 2, 5, 64, 99, 100, 101, UINT64_MAX};
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_growing(t, context, 10, 200);
    const uint64_t salt = random_u64(&t->random);
    batch b = rows_of(t, salt, lengths, 10), asked = make_batch(t, 300);
    for (uint64_t i = 0; i < asked.n; i++) /* keys 3 and 7, and half of those drawn, are absent */
        set_pair(&asked, i, distinct_key(asked.key_bytes, salt, random_below(&t->random, 20)), 0);
    multimap_find_all(&m, &asked, 0); /* an empty table */
    multimap_insert(&m, &b, LOOM_KEEP);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        test_note("limit %llu", (unsigned long long)limits[i]);
        multimap_find_all(&m, &asked, limits[i]);
        for (uint64_t key = 0; key < 10; key++) { /* one key, twice the same key, an absent key */
            batch few = make_batch(t, 2);
            for (uint64_t j = 0; j < 2; j++)
                set_pair(&few, j, distinct_key(few.key_bytes, salt, key), 0);
            multimap_find_all(&m, &few, limits[i]);
            few.n = 1;
            multimap_find_all(&m, &few, limits[i]);
            free_batch(&few);
        }
    }
    free_batch(&b);
    free_batch(&asked);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* With n = 0 arrays may be NULL, except for the one offset. Missing arrays are refused otherwise. */
TEST_EACH_MULTIMAP(test_multimap_find_all_no_keys_and_wrong_arguments)
{
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_growing(t, context, 10, 10);
    batch b = rows_of_key(t, 3, 4, 0);
    uint64_t offsets[5] = {99, 99, 99, 99, 99}, needed = 99, count = 99;
    multimap_insert(&m, &b, LOOM_KEEP);
    CHECK_OK(loom_map_find_all(m.map, NULL, 0, 0, offsets, NULL, 0, &needed, NULL, NULL));
    CHECK_EQ(offsets[0], 0);
    CHECK_EQ(needed, 0);
    CHECK_EQ(offsets[1], 99);
    CHECK_OK(loom_map_find_counts(m.map, NULL, 0, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase_pairs(m.map, NULL, NULL, 0, NULL, NULL, NULL));
    CHECK_REFUSED(loom_map_find_all(NULL, b.keys, 1, 0, offsets, NULL, 0, &needed, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_all(m.map, NULL, 1, 0, offsets, NULL, 0, &needed, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_all(m.map, b.keys, 1, 0, NULL, NULL, 0, &needed, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_all(m.map, b.keys, 1, 0, offsets, NULL, 4, &needed, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_counts(m.map, NULL, 1, &count, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_counts(m.map, b.keys, 1, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_counts(NULL, b.keys, 1, &count, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_pairs(m.map, NULL, b.values, 1, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_pairs(m.map, b.keys, NULL, 1, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_pairs(NULL, b.keys, b.values, 1, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_distinct(NULL, &count, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_distinct(m.map, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_reserve_values(NULL, 5, NULL), LOOM_INVALID_ARGUMENT);
    multimap_compare(&m);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* ---- Erase ---------------------------------------------------------------------------------------------- */

/* Every value of a list in turn: the others keep their order. */
TEST_EACH_MULTIMAP(test_multimap_erase_pairs_at_every_place)
{
    for (uint64_t length = 1; length <= test_scaled(t, 40, 18); length++)
        for (uint64_t step = 1; step <= 3; step += 2) {
            loom_context *context = make_multimap_context(t);
            multimap_model m = make_growing(t, context, 4, 40);
            batch list = rows_of_key(t, 1, length, 1000), other = rows_of_key(t, 2, 3, 1000), one = make_batch(t, 1);
            multimap_build(&m, &list, LOOM_KEEP);
            multimap_insert(&m, &other, LOOM_KEEP);
            for (uint64_t i = 0; i < length; i++) { /* in steps around the list, since 3 may divide its length */
                const uint64_t at = (i * step + i * step / length * (length % step == 0)) % length;
                set_pair(&one, 0, 1, 1000 + at);
                CHECK_EQ(multimap_erase_pairs(&m, &one).ok, 1);
                multimap_find_all(&m, &one, 0);
                CHECK_EQ(multimap_erase_pairs(&m, &one).not_found, 1);
            }
            check_none_found(m.map, &one); /* without its last value the key is absent */
            CHECK_EQ(map_distinct(m.map), 1);
            multimap_find_all(&m, &other, 0);
            CHECK_EQ(multimap_insert(&m, &list, LOOM_KEEP).ok, length);
            multimap_compare(&m);
            free_batch(&list);
            free_batch(&other);
            free_batch(&one);
            end_multimap_model(&m);
            loom_context_destroy(context);
        }
}

/* Without statuses and result, the call returns the outcome. Absent pairs are no failure. */
TEST_EACH_MULTIMAP(test_multimap_erase_without_statuses)
{
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_growing(t, context, 10, 100);
    batch b = rows_of_key(t, 9, 20, 0);
    multimap_insert(&m, &b, LOOM_KEEP);
    CHECK_OK(loom_map_erase_pairs(m.map, b.keys, b.values, 5, NULL, NULL, NULL));
    CHECK_EQ(map_size(m.map), 15);
    CHECK_OK(loom_map_erase_pairs(m.map, b.keys, b.values, 5, NULL, NULL, NULL));
    CHECK_EQ(map_size(m.map), 15);
    CHECK_OK(loom_map_erase(m.map, b.keys, b.n, NULL, NULL, NULL));
    CHECK_EQ(map_size(m.map), 0);
    CHECK_EQ(map_distinct(m.map), 0);
    checked_verify(m.map);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* Calls that write end cursors, even if they erase nothing. */
TEST_EACH_MULTIMAP(test_multimap_writes_end_cursors)
{
    loom_context *context = make_multimap_context(t);
    for (int writer = 0; writer < 5; writer++) {
        multimap_model m = make_growing(t, context, 10, 100);
        batch b = rows_of_key(t, 9, 50, 0), none = rows_of_key(t, 9, 1, 50), chunk = make_batch(t, 7);
        loom_cursor *cursor = NULL;
        uint64_t got = 0;
        multimap_insert(&m, &b, LOOM_KEEP);
        CHECK_OK(loom_map_cursor_open(m.map, &cursor, NULL, NULL));
        CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, 7, &got, NULL));
        CHECK_GT(got, 0);
        multimap_find_all(&m, &b, 1);
        CHECK_OK(loom_map_erase_pairs(m.map, NULL, NULL, 0, NULL, NULL, NULL));
        CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, 7, &got, NULL));
        test_note("writer %d", writer);
        if (writer == 0)
            multimap_erase_pairs(&m, &b);
        if (writer == 1)
            CHECK_EQ(multimap_erase_pairs(&m, &none).ok, 0);
        if (writer == 2)
            multimap_insert(&m, &b, LOOM_KEEP);
        if (writer == 3)
            multimap_erase(&m, &b);
        if (writer == 4)
            CHECK_OK(loom_map_reserve_values(m.map, 1000000, NULL));
        CHECK_REFUSED(loom_cursor_next(cursor, chunk.keys, chunk.values, 7, &got, NULL), LOOM_CHANGED);
        loom_cursor_close(cursor);
        free_batch(&b);
        free_batch(&none);
        free_batch(&chunk);
        end_multimap_model(&m);
    }
    loom_context_destroy(context);
}

/* ---- Most values per key ---------------------------------------------------------------------------------- */

/* Exactly the values beyond the limit are refused, within a batch and over several. */
TEST_EACH_MULTIMAP(test_multimap_most_values_per_key)
{
    static const uint64_t limits[] = {1, 2, 3, 4, 5, 16, 17, 100};
    static const uint64_t lengths[] = {0, 1, 2, 3, 4, 5, 6, 15, 16, 17, 18, 99, 100, 101, 250};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int way = 0; way < 3; way++) {
            loom_context *context = make_multimap_context(t);
            loom_map_config config = make_multimap_config(t, 20, 50);
            uint64_t stored = 0;
            config.growth = 2;
            config.most_values_per_key = limits[i];
            multimap_model m = make_multimap_model(t, context, &config);
            batch b = rows_of(t, random_u64(&t->random), lengths, 15);
            test_note("at most %llu values, way %d", (unsigned long long)limits[i], way);
            for (int j = 0; j < 15; j++)
                stored += lengths[j] < limits[i] ? lengths[j] : limits[i];
            if (way == 0)
                CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).full, b.n - stored);
            for (uint64_t first = 0; way > 0 && first < b.n; first += way == 1 ? b.n : 50) {
                batch part = part_of(&b, first, way == 1 || first + 50 > b.n ? b.n : first + 50);
                multimap_insert(&m, &part, LOOM_KEEP);
                free_batch(&part);
            }
            CHECK_EQ(map_size(m.map), stored);
            multimap_compare(&m);
            CHECK_STATUS(loom_map_insert(m.map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL), LOOM_FULL);
            CHECK_GE(map_size(m.map), stored);
            multimap_clear(&m);
            multimap_build(&m, &b, LOOM_KEEP | LOOM_IN_ORDER);
            multimap_clone(&m); /* copies keep the limit */
            CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok + stored, map_size(m.map));
            b.n = b.n / 3;
            const uint64_t erased = multimap_erase_pairs(&m, &b).ok; /* makes room for as many others */
            CHECK_GT(erased, 0);
            CHECK_GE(multimap_insert(&m, &b, LOOM_KEEP).ok, erased);
            multimap_compare(&m);
            free_batch(&b);
            end_multimap_model(&m);
            loom_context_destroy(context);
        }
}
