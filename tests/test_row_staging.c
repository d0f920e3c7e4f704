/* Temporary memory of calls that reach rows in host memory (loom_map_set_row_staging): which bounds are accepted and
 * who keeps them, on every machine; and that calls keep to them, on a machine with a GPU. test_row_routes.c checks the
 * answers of all calls with the least bound. */
#include "api/map.h"
#include "core/row_plan.h"
#include "engines/open/open_rows.h"
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which bounds there are ------------------------------------------------------------------------------ */

/* With the least bound, and with any larger one, each quarter has room for what it is for. */
TEST(test_row_staging_shares)
{
    static const uint32_t keys[] = {1, 4, 8, 16, 256}, values[] = {0, 1, 8, 100, 4096, 65536};
    for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (uint32_t v = 0; v < sizeof values / sizeof *values; v++) {
            const uint64_t item = loom__row_item_bytes(keys[k], values[v]), step = loom__row_least_step(item),
                           least = loom__row_least_staging(keys[k], values[v]);
            test_note("%u + %u bytes", keys[k], values[v]);
            CHECK(step >= 1 && step <= LOOM__LEAST_STEP_ROWS);
            CHECK(step == LOOM__LEAST_STEP_ROWS || (step + 1) * item > LOOM__LEAST_STEP_BYTES);
            CHECK(least >= 8 << 20 && least <= 13 << 20); /* as the header says */
            for (uint64_t bound = least; bound < (uint64_t)1 << 40; bound = bound * 3 / 2 + 1) {
                const uint64_t listed = loom__row_listed(bound);
                CHECK_LE(LOOM__ROW_SETS * step * item, bound / 4);
                CHECK(listed >= LOOM__LEAST_LISTED);
                CHECK_LE(LOOM__LISTS_BYTES + listed * LOOM__LISTED_BYTES, bound / 2);
            }
        }
}

static loom_map_config host_config(uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    return config;
}

/* The bound of a table, of its copy in the engine's view too. */
static uint64_t bound_of(const loom_map *map)
{
    const loom__table *table = map->handle.table;
    const loom__rows_view *view = (const loom__rows_view *)(const void *)table->view;
    if (table->engine->id == LOOM_ENGINE_ROWS)
        CHECK_EQ(view->staging_bytes, table->row_staging);
    return table->row_staging;
}

TEST(test_row_staging_arguments)
{
    static const struct {
        loom_engine engine;
        uint32_t key_bytes, value_bytes;
    } tables[] = {{LOOM_ENGINE_ROWS, 8, 8},
                  {LOOM_ENGINE_ROWS, 256, 65536},
                  {LOOM_ENGINE_ROWS, LOOM_VARIABLE, 8},
                  {LOOM_ENGINE_TICKETS, 16, 48}};
    loom_context *context = make_context(t);
    CHECK_REFUSED(loom_map_set_row_staging(NULL, 0), LOOM_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        loom_map_config config = host_config(tables[i].key_bytes, tables[i].value_bytes);
        config.engine = tables[i].engine;
        const uint64_t least = loom__row_least_staging(loom__row_width(config.key_bytes), config.value_bytes);
        char text[32];
        test_note("%u + %u bytes", tables[i].key_bytes, tables[i].value_bytes);
        snprintf(text, sizeof text, " %llu,", (unsigned long long)least);
        loom_map *map = make_map_from(context, &config);
        CHECK_EQ(bound_of(map), 0);
        CHECK_OK(loom_map_set_row_staging(map, least + 1));
        const uint64_t refused[] = {1, 4096, least - 1};
        for (uint32_t r = 0; r < sizeof refused / sizeof *refused; r++) {
            CHECK_REFUSED(loom_map_set_row_staging(map, refused[r]), LOOM_INVALID_ARGUMENT);
            CHECK(strstr(loom_last_error(), text) != NULL); /* both sizes */
            CHECK_EQ(bound_of(map), least + 1);
        }
        CHECK_OK(loom_map_set_row_staging(map, UINT64_MAX));
        CHECK_EQ(bound_of(map), UINT64_MAX);
        CHECK_OK(loom_map_set_row_staging(map, least));
        CHECK_EQ(bound_of(map), least);
        CHECK_OK(loom_map_set_row_staging(map, 0));
        CHECK_EQ(bound_of(map), 0);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

TEST(test_row_staging_is_for_rows_in_host_memory)
{
    static const struct {
        loom_engine engine;
        loom_type type;
    } others[] = {{LOOM_ENGINE_ROWS, LOOM_TYPE_MAP},
                  {LOOM_ENGINE_OPEN, LOOM_TYPE_MAP},
                  {LOOM_ENGINE_PERFECT, LOOM_TYPE_MAP},
                  {LOOM_ENGINE_TICKETS, LOOM_TYPE_MAP},
                  {LOOM_ENGINE_CHAIN, LOOM_TYPE_MULTIMAP}};
    loom_context *context = make_context(t);
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = config.value_bytes = 8;
        config.engine = others[i].engine;
        config.type = others[i].type;
        loom_map *map = make_map_from(context, &config);
        CHECK_REFUSED(loom_map_set_row_staging(map, 1 << 30), LOOM_UNSUPPORTED);
        CHECK(strstr(loom_last_error(), "LOOM_ROWS_IN_HOST_MEMORY") != NULL);
        CHECK_OK(loom_map_set_row_staging(map, 0));
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* Growth, shrinking and clones keep a bound. Files do not store it. */
TEST(test_row_staging_is_kept)
{
    enum { PAIRS = 3000, BOUND = 20 << 20 };
    loom_context *context = make_context(t);
    loom_map_config config = host_config(8, 8);
    loom_map *map = make_map_from(context, &config), *other;
    batch b = make_batch_of(8, 8, PAIRS);
    fill_distinct(&b, 1, 0);
    CHECK_OK(loom_map_set_row_staging(map, BOUND));
    CHECK_OK(loom_map_build(map, b.keys, b.values, PAIRS / 2, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_insert(map, b.keys, b.values, PAIRS, LOOM_KEEP, NULL, NULL, NULL)); /* grows */
    CHECK_EQ(bound_of(map), BOUND);
    CHECK_OK(loom_map_reserve(map, 4 * PAIRS, NULL));
    CHECK_EQ(bound_of(map), BOUND);
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_EQ(bound_of(map), BOUND);
    CHECK_OK(loom_map_clone(map, &other, NULL));
    CHECK_EQ(bound_of(other), BOUND);
    CHECK_OK(loom_map_set_row_staging(other, 0));
    CHECK_EQ(bound_of(map), BOUND);
    loom_map_destroy(other);
    CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
    CHECK_OK(loom_map_load(context, test_path(t, "saved"), &other, NULL));
    CHECK_EQ(bound_of(other), 0);
    CHECK_EQ(map_size(other), PAIRS);
    checked_verify(map);
    loom_map_destroy(other);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- Calls keep to their bound --------------------------------------------------------------------------- */

/* Counts temporary memory on the device. */
typedef struct temporary_counter {
    uint64_t out, peak;
} temporary_counter;

static int is_on_device(loom_memory_kind kind)
{
    return kind != LOOM_MEMORY_HOST && kind != LOOM_MEMORY_PINNED;
}

static void *counted_allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    temporary_counter *c = user;
    (void)stream;
    if (kind == LOOM_MEMORY_TEMPORARY) {
        c->out += bytes;
        c->peak = c->out > c->peak ? c->out : c->peak;
    }
    if (kind == LOOM_MEMORY_HOST)
        return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    return cuda_memory_create(is_on_device(kind) ? CUDA_DEVICE : CUDA_PINNED, bytes);
}

static void counted_release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    temporary_counter *c = user;
    if (kind == LOOM_MEMORY_TEMPORARY) {
        c->out -= bytes;
        cuda_stream_wait(stream); /* it may still be in use */
    }
    if (kind == LOOM_MEMORY_HOST)
        free(memory);
    else
        cuda_memory_destroy(is_on_device(kind) ? CUDA_DEVICE : CUDA_PINNED, memory);
}

/* A table of pairs 8 + 8. Pair i has key and value that follow from i. Arrays are on the device. */
typedef struct staged_table {
    temporary_counter counter;
    loom_context *context;
    loom_map *map;
    uint64_t bound, n, before; /* the last: temporary memory before a call */
    uint64_t *far_keys, *far_values;
    uint8_t *far_status;
    void *keys, *values, *found, *status;
} staged_table;

static void *on_device(staged_table *s, uint64_t bytes)
{
    void *array;
    CHECK_OK(loom_array_create(s->context, LOOM_ARRAY_MACHINE, bytes, &array));
    return array;
}

static void make_table(test_run *t, staged_table *s, uint64_t n, uint64_t capacity)
{
    loom_context_config context = LOOM_CONTEXT_CONFIG_INIT;
    loom_map_config config = host_config(8, 8);
    context.machine = LOOM_MACHINE_CUDA;
    context.fixed_seed = 1;
    context.seed = random_u64(&t->random);
    context.allocator = (loom_allocator){counted_allocate, counted_release, &s->counter};
    CHECK_OK(loom_context_create(&context, &s->context));
    config.capacity = capacity;
    config.growth = 0; /* calls that estimate how many keys are new take other memory */
    s->map = make_map_from(s->context, &config);
    s->n = n;
    s->far_keys = test_allocate(n * 8);
    s->far_values = test_allocate(n * 8);
    s->far_status = test_allocate(n);
    s->keys = on_device(s, n * 8);
    s->values = on_device(s, n * 8);
    s->found = on_device(s, n * 8);
    s->status = on_device(s, n);
}

static void free_table(staged_table *s)
{
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, s->keys, s->n * 8);
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, s->values, s->n * 8);
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, s->found, s->n * 8);
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, s->status, s->n);
    free(s->far_keys);
    free(s->far_values);
    free(s->far_status);
    loom_map_destroy(s->map);
    loom_context_destroy(s->context);
}

/* Fills the batch with pairs first to first + different - 1, again and again. */
static void fill(staged_table *s, uint64_t first, uint64_t different)
{
    for (uint64_t i = 0; i < s->n; i++) {
        s->far_keys[i] = mix_u64(first + i % different);
        s->far_values[i] = mix_u64(~(first + i % different));
    }
    CHECK_OK(loom_array_copy(s->context, s->keys, s->far_keys, s->n * 8, NULL));
    CHECK_OK(loom_array_copy(s->context, s->values, s->far_values, s->n * 8, NULL));
}

static void begin(staged_table *s)
{
    s->before = s->counter.peak = s->counter.out;
}

/* The memory of the call since begin() was within the bound. */
static void check_memory(const staged_table *s)
{
    CHECK_EQ(s->counter.out, s->before);
    CHECK_LE(s->counter.peak - s->before, s->bound);
}

/* The same, and the call went this way and tells its memory. */
static void check_call(const staged_table *s, loom_row_route route)
{
    loom_explanation told = LOOM_EXPLANATION_INIT;
    check_memory(s);
    CHECK_OK(loom_map_explain(s->map, &told));
    CHECK_EQ(told.route, route);
    CHECK_EQ(told.keys, s->n);
    CHECK_LE(told.staging_bytes, s->bound);
    CHECK_LE(s->counter.peak - s->before, told.staging_bytes);
    if (route != LOOM_ROW_ROUTE_DIRECT)
        CHECK_GT(told.staging_bytes, 0);
}

/* The pairs of the batch are in the table if i % each is at least `erased`. */
static void check_pairs(staged_table *s, loom_row_route route, uint64_t each, uint64_t erased)
{
    uint64_t *found = test_allocate(s->n * sizeof *found);
    begin(s);
    CHECK_OK(loom_map_find(s->map, s->keys, s->n, s->found, NULL, s->status, NULL, NULL));
    check_call(s, route);
    CHECK_OK(loom_array_copy(s->context, s->far_status, s->status, s->n, NULL));
    CHECK_OK(loom_array_copy(s->context, found, s->found, s->n * 8, NULL));
    for (uint64_t i = 0; i < s->n; i++) {
        const int present = i % each >= erased;
        CHECK_EQ(s->far_status[i], present ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(found[i], present ? s->far_values[i] : 0);
    }
    free(found);
}

static void check_status(staged_table *s, loom_status wanted)
{
    CHECK_OK(loom_array_copy(s->context, s->far_status, s->status, s->n, NULL));
    for (uint64_t i = 0; i < s->n; i++)
        CHECK_EQ(s->far_status[i], wanted);
}

/* All calls, by each route. With the least bound a lookup goes in a hundred parts, and a build in several. */
TEST(test_cuda_row_staging_of_routes, .timeout_seconds = 240)
{
    enum { N = 400000 };
    need_cuda();
    const uint64_t bounds[] = {loom__row_least_staging(8, 8), 24 << 20, 200 << 20};
    for (uint32_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (loom_row_route route = LOOM_ROW_ROUTE_DIRECT; route <= LOOM_ROW_ROUTE_STREAMED; route++) {
            const loom_row_route writes = route == LOOM_ROW_ROUTE_GATHERED ? LOOM_ROW_ROUTE_DIRECT : route;
            staged_table s = {.bound = bounds[b]};
            test_note("%llu bytes, route %d", (unsigned long long)bounds[b], (int)route);
            make_table(t, &s, N, 2 * N);
            CHECK_OK(loom_map_set_row_staging(s.map, s.bound));
            CHECK_OK(loom_map_set_row_route(s.map, route));
            for (int round = 0; round < 2; round++) { /* the second build replaces the first one */
                fill(&s, (uint64_t)round * N / 2, N);
                begin(&s);
                CHECK_OK(loom_map_build(s.map, s.keys, s.values, N, LOOM_KEEP, s.status, NULL, NULL));
                check_call(&s, writes);
                check_status(&s, LOOM_OK);
                CHECK_EQ(map_size(s.map), N);
                check_pairs(&s, route, 1, 0);
            }
            fill(&s, N, N); /* half of them are new */
            begin(&s);
            CHECK_OK(loom_map_insert(s.map, s.keys, s.values, N, LOOM_OVERWRITE, NULL, NULL, NULL));
            check_call(&s, writes);
            CHECK_EQ(map_size(s.map), 3 * N / 2);
            check_pairs(&s, route, 1, 0);
            checked_verify(s.map);
            begin(&s);
            CHECK_OK(loom_map_update(s.map, s.keys, s.values, N, s.status, NULL, NULL));
            check_call(&s, writes);
            check_status(&s, LOOM_OK);
            begin(&s);
            CHECK_OK(loom_map_erase(s.map, s.keys, N, s.status, NULL, NULL));
            check_call(&s, writes);
            check_status(&s, LOOM_OK);
            check_pairs(&s, route, 1, 1);
            fill(&s, N / 2, N); /* the second half was erased */
            begin(&s);
            CHECK_OK(loom_map_contains(s.map, s.keys, N, s.status, NULL, NULL, NULL));
            check_call(&s, route);
            CHECK_OK(loom_array_copy(s.context, s.far_status, s.status, N, NULL));
            for (uint64_t i = 0; i < N; i++)
                CHECK_EQ(s.far_status[i], i < N / 2);
            CHECK_EQ(map_size(s.map), N / 2);
            checked_verify(s.map);
            free_table(&s);
        }
}

/* The whole batch falls into one window: its parts become smaller until they can be sorted. */
TEST(test_cuda_row_staging_of_repeated_keys, .timeout_seconds = 120)
{
    enum { N = 1000000, KEYS = 20000 };
    need_cuda();
    staged_table s = {.bound = 16 << 20};
    make_table(t, &s, N, KEYS);
    CHECK_OK(loom_map_set_row_staging(s.map, s.bound));
    for (loom_row_route route = LOOM_ROW_ROUTE_DIRECT; route <= LOOM_ROW_ROUTE_STREAMED; route++) {
        const loom_row_route writes = route == LOOM_ROW_ROUTE_GATHERED ? LOOM_ROW_ROUTE_DIRECT : route;
        test_note("route %d", (int)route);
        CHECK_OK(loom_map_set_row_route(s.map, route));
        fill(&s, (uint64_t)route * KEYS, KEYS);
        begin(&s);
        CHECK_OK(loom_map_build(s.map, s.keys, s.values, N, LOOM_KEEP, NULL, NULL, NULL));
        check_call(&s, writes);
        CHECK_EQ(map_size(s.map), KEYS);
        check_pairs(&s, route, 1, 0);
        begin(&s);
        CHECK_OK(loom_map_count(s.map, s.keys, N, NULL, NULL, NULL));
        check_call(&s, writes);
        for (uint64_t i = 0; i < N; i++)
            s.far_values[i] += N / KEYS;
        check_pairs(&s, route, 1, 0);
        checked_verify(s.map);
    }
    free_table(&s);
}

/* Growth and shrinking keep to the bound, too: a window of the smaller table comes from a larger one. */
TEST(test_cuda_row_staging_of_growth, .timeout_seconds = 120)
{
    enum { N = 300000 };
    need_cuda();
    const uint64_t bounds[] = {loom__row_least_staging(8, 8), 64 << 20};
    for (uint32_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        staged_table s = {.bound = bounds[b]};
        test_note("%llu bytes", (unsigned long long)bounds[b]);
        make_table(t, &s, N, N);
        CHECK_OK(loom_map_set_row_staging(s.map, s.bound));
        CHECK_OK(loom_map_set_row_route(s.map, LOOM_ROW_ROUTE_STREAMED));
        fill(&s, 0, N);
        CHECK_OK(loom_map_build(s.map, s.keys, s.values, N, LOOM_KEEP, NULL, NULL, NULL));
        begin(&s);
        CHECK_OK(loom_map_reserve(s.map, 16 * (uint64_t)N, NULL));
        check_memory(&s);
        check_pairs(&s, LOOM_ROW_ROUTE_STREAMED, 1, 0);
        checked_verify(s.map);
        begin(&s);
        CHECK_OK(loom_map_shrink(s.map, NULL));
        check_memory(&s);
        check_pairs(&s, LOOM_ROW_ROUTE_STREAMED, 1, 0);
        CHECK_EQ(map_size(s.map), N);
        checked_verify(s.map);
        free_table(&s);
    }
}
