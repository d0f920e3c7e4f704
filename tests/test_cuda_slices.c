/* Batches that go by partition, or in order, in several slices on the cuda machine. Here a slice has a few thousand
 * keys, and the results are those of one slice. Without the test's setting, batches have several slices from 2^32 keys
 * on (test_cuda_many_keys.c). */
#include "harness/cuda_driver.h"
#include "harness/filter_fixture.h"
#include "harness/placed_batch.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 30011, KEYS = 20000 };

static const uint32_t widths[6][2] = {{4, 4}, {4, 8}, {8, 4}, {8, 8}, {4, 0}, {8, 0}};
static const uint64_t slices[] = {ROWS, ROWS - 1, 7001, 512, 300};
enum { SLICES = sizeof slices / sizeof *slices };

static loom_map *map_for(loom_context *context, loom_engine engine, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.engine = engine;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = KEYS;
    config.growth = 0;
    return make_map_from(context, &config);
}

/* Rows with keys number 0 .. KEYS - 1, most of them several times, and values that tell the rows apart. */
typedef struct slice_rows {
    batch rows;
    uint32_t *which;      /* [ROWS] */
    uint64_t first[KEYS]; /* row of each key, plus one; 0: none */
    uint64_t last[KEYS];
    uint64_t different;
} slice_rows;

static uint64_t value_of_row(uint64_t base, uint64_t row)
{
    return base + row + 1;
}

static slice_rows *make_rows(test_run *t, uint32_t key_bytes, uint32_t value_bytes, uint64_t salt, uint64_t base)
{
    slice_rows *made = test_allocate(sizeof *made);
    memset(made, 0, sizeof *made);
    made->rows = make_batch_of(key_bytes, value_bytes, ROWS);
    made->which = test_allocate(ROWS * sizeof *made->which);
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint32_t key = (uint32_t)random_below(&t->random, KEYS);
        made->which[i] = key;
        set_pair(&made->rows, i, distinct_key(key_bytes, salt, key), value_of_row(base, i));
        made->different += made->first[key] == 0;
        made->first[key] = made->first[key] == 0 ? i + 1 : made->first[key];
        made->last[key] = i + 1;
    }
    return made;
}

static void free_rows(slice_rows *made)
{
    free_batch(&made->rows);
    free(made->which);
    free(made);
}

/* The table holds the keys of the rows, each with the value of one of its rows. After a call in order, the test knows
 * which row. */
static void check_values(loom_map *map, const slice_rows *made, uint32_t flags, uint64_t base)
{
    batch got = copy_batch(&made->rows);
    CHECK_EQ(checked_find(map, &got).ok, ROWS);
    for (uint64_t i = 0; i < ROWS && got.value_bytes > 0; i++) {
        const uint64_t row = batch_value(&got, i) - base - 1, key = made->which[i];
        CHECK_LT(row, ROWS);
        CHECK_EQ(made->which[row], key);
        if (flags & LOOM_IN_ORDER)
            CHECK_EQ(row + 1, flags & LOOM_OVERWRITE ? made->last[key] : made->first[key]);
    }
    free_batch(&got);
}

/* Exactly one row of each key has LOOM_OK. After a call in order, it is the first row of the key. */
static void check_status(const slice_rows *made, uint32_t flags)
{
    uint8_t *seen = test_allocate(KEYS);
    memset(seen, 0, KEYS);
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint8_t status = made->rows.status[i];
        CHECK(status == LOOM_OK || status == LOOM_EXISTS);
        CHECK(status != LOOM_OK || !seen[made->which[i]]);
        seen[made->which[i]] |= status == LOOM_OK;
        if (flags & LOOM_IN_ORDER)
            CHECK_EQ(status == LOOM_OK, made->first[made->which[i]] == i + 1);
    }
    free(seen);
}

static void build_and_insert(test_run *t, loom_context *context, loom_engine engine, uint32_t key_bytes,
                             uint32_t value_bytes, uint32_t flags, const placement *where)
{
    loom_map *map = map_for(context, engine, key_bytes, value_bytes);
    const uint64_t salt = random_u64(&t->random), bases[2] = {0, 100000};
    slice_rows *built = make_rows(t, key_bytes, value_bytes, salt, bases[0]);
    slice_rows *more = make_rows(t, key_bytes, value_bytes, salt, bases[1]);
    placed_batch p = place_batch(context, &built->rows, where);
    CHECK_OK(loom_map_build(map, p.keys, p.values, ROWS, flags | LOOM_BY_PARTITION, p.status, p.result, NULL));
    loom_result result = take_back_batch(&p, &built->rows);
    CHECK_EQ(result.keys, ROWS);
    CHECK_EQ(result.ok, built->different);
    CHECK_EQ(result.exists, ROWS - built->different);
    CHECK_EQ(map_size(map), built->different);
    check_values(map, built, flags, bases[0]);
    if (where->status)
        check_status(built, flags);
    checked_verify(map);
    /* Inserts further rows that overwrite, some of them with keys of the build. */
    uint64_t added = 0;
    for (uint64_t i = 0; i < KEYS; i++)
        added += more->first[i] > 0 && built->first[i] == 0;
    const uint32_t way = engine == LOOM_ENGINE_OPEN ? LOOM_BY_PARTITION : 0;
    p = place_batch(context, &more->rows, where);
    CHECK_OK(loom_map_insert(map, p.keys, p.values, ROWS, flags | LOOM_OVERWRITE | way, p.status, p.result, NULL));
    result = take_back_batch(&p, &more->rows);
    CHECK_EQ(result.keys, ROWS);
    CHECK_EQ(result.ok, added);
    CHECK_EQ(result.exists, ROWS - added);
    CHECK_EQ(map_size(map), built->different + added);
    check_values(map, more, flags | LOOM_OVERWRITE, bases[1]);
    checked_verify(map);
    /* A build replaces all earlier keys. */
    p = place_batch(context, &built->rows, where);
    CHECK_OK(loom_map_build(map, p.keys, p.values, ROWS, flags | LOOM_BY_PARTITION, p.status, p.result, NULL));
    CHECK_EQ(take_back_batch(&p, &built->rows).ok, built->different);
    CHECK_EQ(map_size(map), built->different);
    free_rows(built);
    free_rows(more);
    loom_map_destroy(map);
}

static void run_all(test_run *t, loom_engine engine)
{
    static const uint32_t ways[] = {LOOM_KEEP, LOOM_OVERWRITE, LOOM_IN_ORDER, LOOM_IN_ORDER | LOOM_OVERWRITE};
    uint32_t first, end;
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    test_sample(t, SLICES, &first, &end);
    for (uint32_t slice = first; slice < end; slice++)
        for (int w = 0; w < 6; w++)
            for (uint32_t way = 0; way < 4; way++)
                for (uint32_t where = 0; where < PLACEMENTS; where++) {
                    cuda_set_slice(context, slices[slice]);
                    test_note("slices of %llu, %u + %u bytes, flags %u, %s", (unsigned long long)slices[slice],
                              widths[w][0], widths[w][1], ways[way], placements[where].name);
                    build_and_insert(t, context, engine, widths[w][0], widths[w][1], ways[way], &placements[where]);
                }
    loom_context_destroy(context);
}

TEST(test_cuda_slices_of_open_tables, .timeout_seconds = 300)
{
    run_all(t, LOOM_ENGINE_OPEN);
}

/* The first slice of a build goes by partition. The keys of later slices are inserted. */
TEST(test_cuda_slices_of_perfect_tables, .timeout_seconds = 300)
{
    run_all(t, LOOM_ENGINE_PERFECT);
}

/* A batch that does not fit: if one slice refuses a key, all rows of this key in later slices are refused. */
TEST(test_cuda_slices_of_too_many_keys)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    const uint64_t n = 3 * KEYS;
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        loom_map *map = map_for(context, LOOM_ENGINE_OPEN, 4, 4);
        batch b = make_batch_of(4, 4, n);
        for (uint64_t i = 0; i < n; i++) /* each key twice, far apart */
            set_pair(&b, i, distinct_key(4, 7, i % (n / 2)), i);
        cuda_set_slice(context, slices[slice]);
        placed_batch p = place_batch(context, &b, &placements[PLACED_STATUS]);
        CHECK_OK(loom_map_build(map, p.keys, p.values, n, LOOM_BY_PARTITION, p.status, p.result, NULL));
        loom_result result = take_back_batch(&p, &b);
        CHECK_EQ(result.status, LOOM_FULL);
        CHECK_EQ(result.ok, map_size(map));
        CHECK_EQ(result.ok + result.exists + result.full, n);
        for (uint64_t i = 0; i < n / 2; i++)
            CHECK_EQ(b.status[i] == LOOM_FULL, b.status[i + n / 2] == LOOM_FULL);
        checked_verify(map);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* A workspace of the caller with the bytes for one slice is enough for all slices. */
TEST(test_cuda_slices_share_one_workspace)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    cuda_set_slice(context, 7001);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = ROWS;
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_memory_required(context, &config, &memory));
    CHECK_GT(memory.build_bytes, 0);
    loom_map *map = make_map_from(context, &config);
    void *workspace = NULL;
    CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, memory.build_bytes, &workspace));
    CHECK_OK(loom_map_set_workspace(map, workspace, memory.build_bytes));
    batch b = make_batch_of(4, 4, ROWS);
    fill_distinct(&b, 3, 0);
    placed_batch p = place_batch(context, &b, &placements[1]);
    CHECK_OK(loom_map_build(map, p.keys, p.values, ROWS, LOOM_BY_PARTITION, NULL, p.result, NULL));
    CHECK_EQ(take_back_batch(&p, &b).ok, ROWS);
    check_contents(map, &b);
    loom_map_destroy(map);
    loom_array_destroy(context, LOOM_ARRAY_MACHINE, workspace, memory.build_bytes);
    free_batch(&b);
    loom_context_destroy(context);
}

TEST(test_cuda_slices_of_filters)
{
    need_cuda();
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4) {
        loom_context *context = cuda_context_create(t, 0);
        loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
        config.key_bytes = key_bytes;
        config.capacity = ROWS;
        batch b = make_batch_of(key_bytes, 0, ROWS);
        fill_distinct(&b, 1, 0);
        loom_filter *one = make_filter_from(context, &config);
        checked_filter_insert(context, one, &b, LOOM_BY_PARTITION);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            for (int here = 0; here < 2; here++) {
                loom_filter *several = make_filter_from(context, &config);
                cuda_set_slice(context, slices[slice]);
                checked_filter_insert(here ? context : NULL, several, &b, LOOM_BY_PARTITION);
                cuda_set_slice(context, 0);
                check_same_bits(t, one, several);
                loom_filter_destroy(several);
            }
        loom_filter_destroy(one);
        free_batch(&b);
        loom_context_destroy(context);
    }
}

/* Equal keys lie in different slices. Only the first of them is new. The filter is so large that there are no false
 * positives. */
TEST(test_cuda_slices_of_filters_in_order)
{
    need_cuda();
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4) {
        loom_context *context = cuda_context_create(t, 0);
        loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
        loom_memory memory = LOOM_MEMORY_INIT;
        const uint64_t keys = ROWS / 3;
        config.key_bytes = key_bytes;
        config.capacity = ROWS;
        config.bits_per_key = 512;
        CHECK_OK(loom_filter_memory_required(context, &config, &memory));
        CHECK_GE(memory.order_bytes, ROWS * 2 * (key_bytes + 4));
        batch b = make_batch_of(key_bytes, 0, ROWS);
        for (uint64_t i = 0; i < ROWS; i++)
            set_pair(&b, i, distinct_key(key_bytes, 1, i * 7 % keys), 0);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            for (int here = 0; here < 2; here++) {
                loom_filter *filter = make_filter_from(context, &config);
                uint8_t *seen = test_allocate(keys);
                memset(seen, 0, keys);
                cuda_set_slice(context, slices[slice]);
                checked_filter_add(here ? context : NULL, filter, &b, LOOM_IN_ORDER);
                cuda_set_slice(context, 0);
                for (uint64_t i = 0; i < ROWS; i++) {
                    CHECK_EQ(b.found[i], !seen[i * 7 % keys]);
                    seen[i * 7 % keys] = 1;
                }
                check_all_in(filter, &b);
                free(seen);
                loom_filter_destroy(filter);
            }
        free_batch(&b);
        loom_context_destroy(context);
    }
}

/* Batches with many equal keys, which the machine combines first: few keys, which need no split, and more keys, which
 * do. */
TEST(test_cuda_slices_of_counts)
{
    static const uint64_t keys[] = {1000, 15000};
    need_cuda();
    for (int k = 0; k < 2; k++) {
        loom_context *context = cuda_context_create(t, 0);
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        const uint64_t n = 400003;
        config.key_bytes = 4;
        config.value_bytes = 8;
        config.type = LOOM_TYPE_COUNTER;
        config.capacity = keys[k];
        loom_map *map = make_map_from(context, &config);
        batch b = make_batch_of(4, 8, n), each = make_batch_of(4, 8, keys[k]);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, distinct_key(4, 5, i % keys[k]), 0);
        for (uint64_t i = 0; i < keys[k]; i++)
            set_pair(&each, i, distinct_key(4, 5, i), n / keys[k] + (i < n % keys[k]));
        cuda_set_slice(context, 110000);
        placed_batch p = place_batch(context, &b, &placements[1]);
        CHECK_OK(loom_map_count(map, p.keys, n, NULL, p.result, NULL));
        loom_result result = take_back_batch(&p, &b);
        CHECK_EQ(result.keys, n);
        CHECK_EQ(result.ok, keys[k]);
        CHECK_EQ(result.exists, n - keys[k]);
        check_contents(map, &each);
        loom_map_destroy(map);
        free_batch(&b);
        free_batch(&each);
        loom_context_destroy(context);
    }
}
