/* Mixed batches (loom_map_apply) on multimaps, against lists: in order row by row, and otherwise by looking for an
 * order of the rows of each key that explains every status, every value and the list afterwards. */
#include "harness/counting_allocator.h"
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

enum { UNIVERSE = 150, MOST_VALUES = 400, MOST_OF_KEY = 6 };

typedef struct values {
    uint64_t count, at[MOST_VALUES];
} values;

typedef struct lists {
    test_run *t;
    loom_map *map;
    values of[UNIVERSE];
    uint64_t next; /* no two pairs have the same value */
    uint64_t n;
    uint64_t *keys; /* [n] numbers */
    uint8_t *operations;
    batch b, found;
    int in_parts; /* a lookup then finds any value of a part before its own */
} lists;

static void draw_rows(lists *l, uint64_t n, uint64_t most)
{
    test_run *t = l->t;
    const uint64_t start = random_below(&t->random, UNIVERSE);
    l->n = n;
    l->keys = test_allocate((n + 1) * sizeof *l->keys);
    l->operations = test_allocate(n + 1);
    l->b = make_batch(t, n);
    l->found = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++) {
        static const uint8_t all[] = {LOOM_APPLY_FIND, LOOM_APPLY_INSERT, LOOM_APPLY_INSERT, LOOM_APPLY_ERASE};
        l->keys[i] = (start + i / most) % UNIVERSE;
        l->operations[i] = all[random_below(&t->random, 4)];
    }
    for (uint64_t i = n; i > 1; i--) {
        const uint64_t j = random_below(&t->random, i), other = l->keys[i - 1];
        l->keys[i - 1] = l->keys[j];
        l->keys[j] = other;
    }
    for (uint64_t i = 0; i < n; i++)
        set_pair(&l->b, i, distinct_key(t->key_bytes, 5, l->keys[i]), cut_word(++l->next, t->value_bytes));
}

static void free_rows(lists *l)
{
    free(l->keys);
    free(l->operations);
    free_batch(&l->b);
    free_batch(&l->found);
}

static loom_status call(lists *l, uint32_t flags, loom_result *result)
{
    memset(l->b.status, 0xa5, l->n);
    return loom_map_apply(l->map, l->operations, l->b.keys, l->b.values, l->n, flags, l->found.values, l->b.status,
                          result, NULL);
}

static loom_result apply(lists *l, uint32_t flags)
{
    loom_result result;
    uint64_t counts[16] = {0};
    CHECK_OK(call(l, flags, &result));
    for (uint64_t i = 0; i < l->n; i++) {
        CHECK_LT(l->b.status[i], 16);
        counts[l->b.status[i]]++;
    }
    CHECK_EQ(result.keys, l->n);
    CHECK_EQ(result.ok, counts[LOOM_OK]);
    CHECK_EQ(result.not_found, counts[LOOM_NOT_FOUND]);
    CHECK_EQ(result.full, counts[LOOM_FULL]);
    return result;
}

static int compare_words(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The values of a key, as they lie. */
static values stored(const lists *l, uint64_t key)
{
    values v = {0};
    uint64_t offsets[2], key_bytes[32] = {0}, needed = 0;
    unsigned char *got = test_allocate(MOST_VALUES * (size_t)l->t->value_bytes);
    set_word(key_bytes, l->t->key_bytes, 0, distinct_key(l->t->key_bytes, 5, key));
    CHECK_OK(loom_map_find_all(l->map, key_bytes, 1, 0, offsets, got, MOST_VALUES, &needed, NULL, NULL));
    v.count = needed;
    for (uint64_t i = 0; i < needed; i++)
        v.at[i] = get_word(got, l->t->value_bytes, i);
    free(got);
    return v;
}

/* Whether both have the same values, in any order. */
static int are_equal(const values *a, const values *b)
{
    values x = *a, y = *b;
    qsort(x.at, x.count, sizeof *x.at, compare_words);
    qsort(y.at, y.count, sizeof *y.at, compare_words);
    return x.count == y.count && memcmp(x.at, y.at, x.count * sizeof *x.at) == 0;
}

static int has_value(const values *v, uint64_t value)
{
    for (uint64_t i = 0; i < v->count; i++)
        if (v->at[i] == value)
            return 1;
    return 0;
}

/* Lists lie in the order in which values came, batches in any order included: these were looked up afterwards. */
static void check_stored(lists *l)
{
    uint64_t pairs = 0;
    for (uint64_t key = 0; key < UNIVERSE; key++) {
        const values got = stored(l, key);
        test_note("key %llu", (unsigned long long)key);
        CHECK_EQ(got.count, l->of[key].count);
        CHECK_BYTES(got.at, l->of[key].at, got.count * sizeof *got.at);
        pairs += got.count;
    }
    CHECK_EQ(map_size(l->map), pairs);
    checked_verify(l->map);
}

/* ---- in order ---- */

/* Refused rows change nothing. */
static void check_in_order(lists *l)
{
    uint64_t newest[UNIVERSE] = {0}; /* of this batch; values begin with 1 */
    for (uint64_t i = 0; i < l->n; i++) {
        values *v = &l->of[l->keys[i]];
        const uint8_t operation = l->operations[i], status = l->b.status[i];
        const uint64_t value = get_word(l->b.values, l->t->value_bytes, i);
        const uint64_t found = get_word(l->found.values, l->t->value_bytes, i);
        test_note("row %llu of %llu, operation %d", (unsigned long long)i, (unsigned long long)l->n, operation);
        if (operation == LOOM_APPLY_INSERT) {
            CHECK(status == LOOM_OK || status == LOOM_FULL);
            if (status == LOOM_FULL)
                continue;
            CHECK_LT(v->count, MOST_VALUES);
            v->at[v->count++] = newest[l->keys[i]] = value;
            continue;
        }
        CHECK_EQ(status, v->count > 0 ? LOOM_OK : LOOM_NOT_FOUND);
        if (operation == LOOM_APPLY_ERASE)
            v->count = newest[l->keys[i]] = 0;
        else if (v->count == 0)
            CHECK_EQ(found, 0);
        else if (newest[l->keys[i]] != 0 && !l->in_parts)
            CHECK_EQ(found, newest[l->keys[i]]);
        else
            CHECK(has_value(v, found));
    }
    check_stored(l);
}

/* ---- in any order ---- */

static int has_order(const lists *l, const uint64_t *rows, uint32_t count, uint32_t done, const values *now,
                     const values *end)
{
    if (done == (1u << count) - 1)
        return are_equal(now, end);
    for (uint32_t k = 0; k < count; k++) {
        const uint64_t i = rows[k];
        values next = *now;
        int explained = !(done >> k & 1);
        if (l->operations[i] == LOOM_APPLY_INSERT) {
            next.at[next.count++] = get_word(l->b.values, l->t->value_bytes, i);
            explained &= l->b.status[i] == LOOM_OK;
        } else {
            explained &= l->b.status[i] == (now->count > 0 ? LOOM_OK : LOOM_NOT_FOUND);
        }
        if (l->operations[i] == LOOM_APPLY_FIND && now->count > 0)
            explained &= has_value(now, get_word(l->found.values, l->t->value_bytes, i));
        if (l->operations[i] == LOOM_APPLY_ERASE)
            next.count = 0;
        if (explained && has_order(l, rows, count, done | 1u << k, &next, end))
            return 1;
    }
    return 0;
}

static void check_any_order(lists *l)
{
    for (uint64_t key = 0; key < UNIVERSE; key++) {
        uint64_t rows[MOST_OF_KEY];
        uint32_t count = 0;
        for (uint64_t i = 0; i < l->n; i++)
            if (l->keys[i] == key)
                rows[count++] = i;
        const values end = stored(l, key);
        test_note("key %llu, %u rows", (unsigned long long)key, count);
        CHECK(has_order(l, rows, count, 0, &l->of[key], &end));
        l->of[key] = end;
    }
    check_stored(l);
}

/* Keeps lists short: values of a key that has many are erased. */
static void shorten(lists *l)
{
    for (uint64_t key = 0; key < UNIVERSE; key++)
        if (l->of[key].count > MOST_VALUES / 2) {
            uint64_t key_bytes[32] = {0};
            set_word(key_bytes, l->t->key_bytes, 0, distinct_key(l->t->key_bytes, 5, key));
            CHECK_OK(loom_map_erase(l->map, key_bytes, 1, NULL, NULL, NULL));
            l->of[key].count = 0;
        }
}

TEST_EACH_MULTIMAP(test_multimap_apply_random_batches, .timeout_seconds = 120, .leak_check = 1)
{
    const uint64_t tables = test_scaled(t, 4, 2), steps = test_scaled(t, 24, 10);
    for (uint64_t table = 0; table < tables; table++) {
        loom_context *context = make_multimap_context(t);
        loom_map_config config = make_multimap_config(t, UNIVERSE * 2, table % 2 ? 4000 : 150);
        config.growth = table % 2 ? 2.0 : 0; /* without growth some values find no room */
        lists l = {.t = t, .map = make_map_from(context, &config)};
        int refused = 0;
        for (uint64_t step = 0; step < steps; step++) {
            const int in_order = (int)(step % 2) || config.growth == 0;
            const uint64_t most = 1 + random_below(&t->random, in_order ? 30 : MOST_OF_KEY);
            draw_rows(&l, random_below(&t->random, 1 + UNIVERSE * most), most);
            const loom_result result = apply(&l, in_order ? LOOM_IN_ORDER : 0);
            refused |= result.full > 0;
            if (in_order)
                check_in_order(&l);
            else
                check_any_order(&l);
            free_rows(&l);
            shorten(&l);
        }
        CHECK(config.growth == 0 || !refused);
        loom_map_destroy(l.map);
        loom_context_destroy(context);
    }
}

/* The lists become what the table holds. */
static void adopt(lists *l)
{
    for (uint64_t key = 0; key < UNIVERSE; key++)
        l->of[key] = stored(l, key);
    checked_verify(l->map);
}

/* Each request for memory fails in turn. The call goes on in smaller parts, and no row is answered as if it had run
 * twice. */
TEST_EACH_MULTIMAP(test_multimap_apply_short_of_memory, .cpu_only = 1, .timeout_seconds = 120)
{
    const uint64_t requests = test_scaled(t, 60, 30);
    uint64_t checked = 0;
    for (uint64_t request = 1; request < requests; request++) {
        counting_allocator *counting = counting_create();
        loom_context *context = make_counting_context(t, counting, 1);
        loom_map_config config = make_multimap_config(t, UNIVERSE * 2, 4000);
        config.growth = 2.0;
        lists l = {.t = t, .map = make_map_from(context, &config), .in_parts = 1};
        for (int step = 0; step < 4; step++) {
            loom_result result = {0};
            draw_rows(&l, 1000, 12);
            counting_fail_at(counting, step > 0 ? request : 0);
            test_note("request %llu, step %d", (unsigned long long)request, step);
            const loom_status status = call(&l, step % 2 ? LOOM_IN_ORDER : 0, &result);
            counting_fail_at(counting, 0);
            CHECK_OK(status);
            if (step % 2) {
                check_in_order(&l);
                checked++;
            } else {
                adopt(&l);
            }
            free_rows(&l);
            shorten(&l);
        }
        loom_map_destroy(l.map);
        loom_context_destroy(context);
        counting_destroy(counting);
    }
    CHECK_GT(checked, requests);
}

/* Two requests in a row fail while two values go to a list that must move. The rows of the part are then all of one
 * kind, and its statuses lie where the operations were: they must not be taken for operations. */
TEST_EACH_MULTIMAP(test_multimap_apply_short_twice, .cpu_only = 1)
{
    uint64_t failed = 0;
    for (uint64_t request = 1; request < 40; request++) {
        counting_allocator *counting = counting_create();
        loom_context *context = make_counting_context(t, counting, 1);
        loom_map_config config = make_multimap_config(t, UNIVERSE, 5);
        config.growth = request % 2 ? 2.0 : 0.0;
        lists l = {.t = t, .map = make_map_from(context, &config), .in_parts = 1};
        for (int step = 0; step < 3; step++) {
            loom_result result = {0};
            draw_rows(&l, 2, 2);
            memset(l.operations, LOOM_APPLY_INSERT, l.n);
            if (step == 2)
                counting_fail_at_both(counting, request, request + 1);
            test_note("request %llu, step %d", (unsigned long long)request, step);
            const loom_status status = call(&l, LOOM_IN_ORDER, &result);
            counting_fail_at(counting, 0);
            if (status != LOOM_OK)
                CHECK_STATUS(status, LOOM_OUT_OF_MEMORY);
            failed += status != LOOM_OK;
            adopt(&l);
            free_rows(&l);
        }
        loom_map_destroy(l.map);
        loom_context_destroy(context);
        counting_destroy(counting);
    }
    CHECK_GT(failed, 0);
}
