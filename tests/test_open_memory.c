/* Memory: requests, releases, and a refusal of the n-th request. */
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Bytes ---------------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_memory_required_is_what_is_taken, .every_engine = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 3);
    uint64_t context_bytes = counting_bytes(counter);
    CHECK_GT(context_bytes, 0); /* the context itself is allocated by the callbacks */
    static const uint64_t capacities[] = {0, 1, 7, 100, 5000, 100000};
    for (size_t i = 0; i < test_scaled(t, 6, 5); i++)
        for (double load = 0.5; load < 1; load += 0.45) {
            loom_map_config config = make_config(t, capacities[i]);
            loom_memory memory = LOOM_MEMORY_INIT;
            uint64_t used = 0;
            config.max_load = load;
            test_note("capacity %llu, load %g", (unsigned long long)capacities[i], load);
            uint64_t requests = counting_requests(counter);
            CHECK_OK(loom_map_memory_required(context, &config, &memory));
            CHECK_EQ(counting_requests(counter), requests); /* does not allocate */
            loom_map *map = make_map_from(context, &config);
            CHECK_EQ(counting_bytes(counter) - context_bytes, memory.table_bytes + memory.host_bytes);
            CHECK_OK(loom_map_memory_used(map, &used));
            CHECK_EQ(used, memory.table_bytes);
            CHECK_EQ(map_stats(map).memory_bytes, used);
            CHECK_EQ(map_stats(map).host_bytes, memory.host_bytes);
            used += memory.host_bytes;

            /* A build takes at most the bytes that memory_required named, and releases them. */
            batch b = make_batch(t, capacities[i]);
            fill_distinct(&b, 6, 0);
            counting_reset_peak(counter);
            CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
            CHECK_LE(counting_peak(counter) - context_bytes - used, memory.build_bytes);
            counting_reset_peak(counter);
            CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, b.status, NULL, NULL));
            CHECK_LE(counting_peak(counter) - context_bytes - used, memory.status_bytes);
            counting_reset_peak(counter);
            CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP | LOOM_IN_ORDER, b.status, NULL, NULL));
            CHECK_EQ(counting_peak(counter) - context_bytes - used, memory.order_bytes);
            counting_reset_peak(counter);
            CHECK_OK(loom_map_insert(map, b.keys, b.values, b.n, LOOM_OVERWRITE | LOOM_IN_ORDER, b.status, NULL, NULL));
            CHECK_EQ(counting_peak(counter) - context_bytes - used, memory.order_bytes);
            CHECK_EQ(counting_bytes(counter) - context_bytes, used);
            check_contents(map, &b);
            CHECK_EQ(counting_bytes(counter) - context_bytes, used);

            /* A clone takes as much again. */
            loom_map *clone = NULL;
            CHECK_OK(loom_map_clone(map, &clone, NULL));
            CHECK_EQ(counting_bytes(counter) - context_bytes, 2 * used);
            loom_map_destroy(map);
            CHECK_EQ(counting_bytes(counter) - context_bytes, used);
            loom_map_destroy(clone);
            CHECK_EQ(counting_bytes(counter), context_bytes);
            free_batch(&b);
        }
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* LOOM_IN_ORDER takes n * (key + value + 8) bytes, and at most 64 KiB more. */
TEST_EACH_KIND(test_open_memory_in_order_cost)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    uint64_t n = 200000;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    fill_distinct(&b, 6, 0);
    counting_reset_peak(counter);
    uint64_t before = counting_bytes(counter);
    CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_KEEP | LOOM_IN_ORDER, b.status, NULL, NULL));
    CHECK_LE(counting_peak(counter) - before, n * (t->key_bytes + t->value_bytes + 8) + 65536);
    CHECK_GT(counting_peak(counter), before);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* Calls that do not allocate, according to the header. */
TEST_EACH_KIND(test_open_memory_calls_that_do_not_allocate)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 3);
    uint64_t n = 20000, number = 0;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    loom_cursor *cursor = NULL;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    fill_distinct(&b, 6, 0);
    CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
    uint64_t requests = counting_requests(counter);
    CHECK_OK(loom_cursor_next(cursor, b.keys, b.values, n, &number, NULL));
    CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_OVERWRITE, b.status, NULL, NULL));
    if (t->value_bytes) {
        CHECK_OK(loom_map_count(map, b.keys, n, b.status, NULL, NULL));
        CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_OVERWRITE, NULL, NULL, NULL));
    }
    check_all_found(map, &b);
    checked_verify(map);
    map_stats(map);
    CHECK_EQ(map_size(map), n);
    CHECK_OK(loom_map_count_accesses(map, b.keys, n, &number, NULL));
    CHECK_OK(loom_map_memory_used(map, &number));
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_OK(loom_context_describe(context, &info));
    CHECK_STATUS(loom_map_insert(map, NULL, b.values, n, LOOM_KEEP, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(counting_requests(counter), requests);
    /* Upkeep may follow an erasure, and allocates. */
    uint64_t bytes = counting_bytes(counter);
    CHECK_EQ(checked_erase(map, &b).ok, n);
    CHECK_EQ(counting_bytes(counter), bytes);
    requests = counting_requests(counter);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    CHECK_EQ(counting_requests(counter), requests);
    loom_cursor_close(cursor);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* ---- The n-th request is refused --------------------------------------------------------------------------- */

/* One operation. The test repeats it with the 1st, 2nd, 3rd, ... request refused until it succeeds. */
typedef struct trial {
    test_run *t;
    counting_allocator *counter;
    loom_context *context;
    loom_type type;
    loom_map *map; /* holds `stored` */
    batch stored;
    batch b; /* for the operation */
    const char *path;
} trial;

typedef loom_status (*trial_call)(trial *x, int *changed);

static loom_map *make_trial_map(trial *x, uint64_t capacity)
{
    loom_map_config config = make_config(x->t, capacity);
    config.type = x->type;
    return make_map_from(x->context, &config);
}

static loom_status try_create(trial *x, int *changed)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    loom_map_config config = make_config(x->t, 1000);
    config.type = x->type;
    loom_status status = loom_map_create(x->context, &config, &map);
    (void)changed;
    if (status == LOOM_OK)
        loom_map_destroy(map);
    else
        CHECK(map == untouched);
    return status;
}

static loom_status try_clone(trial *x, int *changed)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    loom_status status = loom_map_clone(x->map, &map, NULL);
    (void)changed;
    if (status == LOOM_OK) {
        CHECK_EQ(map_stats(map).type, x->type);
        check_contents(map, &x->stored);
        loom_map_destroy(map);
    } else {
        CHECK(map == untouched);
    }
    return status;
}

static loom_status try_load(trial *x, int *changed)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    loom_status status = loom_map_load(x->context, x->path, &map, NULL);
    (void)changed;
    if (status == LOOM_OK) {
        CHECK_EQ(map_stats(map).type, x->type);
        check_contents(map, &x->stored);
        loom_map_destroy(map);
    } else {
        CHECK(map == untouched);
    }
    return status;
}

static loom_status try_save(trial *x, int *changed)
{
    size_t before = 0, after = 0;
    void *old = test_read_file(x->path, &before);
    size_t entries = test_count_entries(x->t->directory);
    loom_status status = loom_map_save(x->map, x->path, NULL);
    void *new = test_read_file(x->path, &after);
    (void)changed;
    CHECK_EQ(test_count_entries(x->t->directory), entries); /* no temporary file stays */
    CHECK_EQ(before, after);
    CHECK_BYTES(new, old, before);
    free(old);
    free(new);
    return status;
}

static loom_status try_build(trial *x, int *changed)
{
    *changed = 1;
    return loom_map_build(x->map, x->b.keys, x->b.values, x->b.n, LOOM_KEEP, NULL, NULL, NULL);
}

static loom_status try_build_in_order(trial *x, int *changed)
{
    *changed = 1;
    return loom_map_build(x->map, x->b.keys, x->b.values, x->b.n, LOOM_OVERWRITE | LOOM_IN_ORDER, x->b.status, NULL,
                          NULL);
}

static loom_status try_build_with_result(trial *x, int *changed)
{
    loom_result result;
    memset(&result, 0, sizeof result);
    *changed = 1;
    loom_status status = loom_map_build(x->map, x->b.keys, x->b.values, x->b.n, LOOM_KEEP, x->b.status, &result, NULL);
    return status == LOOM_OK ? (loom_status)result.status : status;
}

static loom_status try_insert_in_order(trial *x, int *changed)
{
    *changed = 1;
    return loom_map_insert(x->map, x->b.keys, x->b.values, x->b.n, LOOM_KEEP | LOOM_IN_ORDER, x->b.status, NULL, NULL);
}

static loom_status try_cursor(trial *x, int *changed)
{
    loom_cursor *const untouched = (loom_cursor *)(uintptr_t)0x1234;
    loom_cursor *cursor = untouched;
    uint64_t count = 0;
    loom_status status = loom_map_cursor_open(x->map, &cursor, &count, NULL);
    (void)changed;
    if (status == LOOM_OK) {
        CHECK_EQ(count, x->stored.n);
        loom_cursor_close(cursor);
    } else {
        CHECK(cursor == untouched);
    }
    return status;
}

static loom_status try_retrieve(trial *x, int *changed)
{
    uint64_t count = 0;
    batch all = make_batch(x->t, x->stored.n);
    loom_status status = loom_map_retrieve_all(x->map, all.keys, all.values, all.n, &count, NULL, NULL);
    (void)changed;
    if (status == LOOM_OK)
        CHECK_EQ(count, x->stored.n);
    free_batch(&all);
    return status;
}

static int count_pairs(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)keys, (void)values;
    *(uint64_t *)user += n;
    return 0;
}

static loom_status try_for_each(trial *x, int *changed)
{
    uint64_t pairs = 0;
    loom_status status = loom_map_for_each(x->map, count_pairs, &pairs, NULL, NULL);
    (void)changed;
    CHECK_EQ(pairs, status == LOOM_OK ? x->stored.n : 0);
    return status;
}

/* Returns how many requests could be refused. */
static uint64_t try_type(test_run *t, trial_call call, uint64_t batch_size, uint32_t threads, loom_type type)
{
    trial x;
    memset(&x, 0, sizeof x);
    x.t = t;
    x.type = type;
    x.counter = counting_create();
    x.context = make_counting_context(t, x.counter, threads);
    x.map = make_trial_map(&x, 20000);
    x.stored = make_batch(t, 5000);
    x.b = make_batch(t, batch_size);
    x.path = test_path(t, "table.loom");
    fill_distinct(&x.stored, 1, 0);
    fill_distinct(&x.b, 1, 3000); /* 2000 of them are stored */
    checked_insert(x.map, &x.stored, LOOM_KEEP);
    CHECK_OK(loom_map_save(x.map, x.path, NULL));
    uint64_t bytes = counting_bytes(x.counter), pieces = counting_pieces(x.counter), refused = 0;
    for (;;) {
        int changed = 0;
        test_note("request %llu refused", (unsigned long long)(refused + 1));
        test_poison_last_error();
        counting_fail_at(x.counter, refused + 1);
        loom_status status = call(&x, &changed);
        counting_fail_at(x.counter, 0);
        CHECK_EQ(counting_bytes(x.counter), bytes); /* no leak, whatever the outcome */
        CHECK_EQ(counting_pieces(x.counter), pieces);
        if (status == LOOM_OK) {
            if (!changed)
                check_contents(x.map, &x.stored);
            else
                check_all_found(x.map, &x.b);
            checked_verify(x.map);
            break;
        }
        test_check_refused(__FILE__, __LINE__, "call with a refused request", status, LOOM_OUT_OF_MEMORY,
                           LOOM_OUT_OF_MEMORY);
        check_contents(x.map, &x.stored); /* the table is as it was */
        refused++;
        CHECK_LT(refused, 1000);
    }
    free_batch(&x.stored);
    free_batch(&x.b);
    loom_map_destroy(x.map);
    loom_context_destroy(x.context);
    counting_destroy(x.counter);
    return refused;
}

static uint64_t try_until_it_succeeds(test_run *t, trial_call call, uint64_t batch_size, uint32_t threads)
{
    return try_type(t, call, batch_size, threads, t->value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET);
}

TEST_EACH_KIND(test_open_create_nth_allocation_fails, .every_engine = 1)
{
    CHECK_GE(try_until_it_succeeds(t, try_create, 1, 1), 1);
}

TEST_EACH_KIND(test_open_clone_nth_allocation_fails, .every_engine = 1)
{
    CHECK_GE(try_until_it_succeeds(t, try_clone, 1, 2), 1);
}

TEST_EACH_KIND(test_open_build_nth_allocation_fails, .every_engine = 1)
{
    CHECK_GE(try_until_it_succeeds(t, try_build, 15000, 3), 1);
    CHECK_GE(try_until_it_succeeds(t, try_build_in_order, 15000, 2), 1);
    CHECK_GE(try_until_it_succeeds(t, try_build_with_result, 15000, 1), 1);
    try_until_it_succeeds(t, try_build, 10, 2);
}

TEST_EACH_KIND(test_open_insert_nth_allocation_fails, .every_engine = 1)
{
    uint64_t failed = try_until_it_succeeds(t, try_insert_in_order, 15000, 2);
    CHECK_EQ(failed == 0, t->table->order_without_memory);
    try_until_it_succeeds(t, try_insert_in_order, 10, 2);
}

TEST_EACH_KIND(test_open_cursor_nth_allocation_fails)
{
    CHECK_GE(try_until_it_succeeds(t, try_cursor, 1, 1), 1);
}

TEST_EACH_KIND(test_open_retrieve_nth_allocation_fails)
{
    try_until_it_succeeds(t, try_retrieve, 1, 2);
}

TEST_EACH_KIND(test_open_for_each_nth_allocation_fails)
{
    CHECK_EQ(try_until_it_succeeds(t, try_for_each, 1, 2), t->value_bytes > 0 ? 3 : 2); /* the cursor, and columns */
}

TEST_EACH(test_open_counter_nth_allocation_fails)
{
    static const trial_call calls[] = {try_create, try_clone, try_build, try_cursor, try_for_each, try_save, try_load};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        CHECK_GE(try_type(t, calls[i], 15000, 2, LOOM_TYPE_COUNTER), 1);
}

TEST_EACH_KIND(test_open_save_nth_allocation_fails, .every_engine = 1)
{
    CHECK_GE(try_until_it_succeeds(t, try_save, 1, 1), 1);
}

TEST_EACH_KIND(test_open_load_nth_allocation_fails, .every_engine = 1)
{
    CHECK_GE(try_until_it_succeeds(t, try_load, 1, 2), 2);
}

TEST(test_api_context_nth_allocation_fails, .leak_check = 1)
{
    counting_allocator *counter = counting_create();
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *const untouched = (loom_context *)(uintptr_t)0x1234;
    uint64_t refused = 0;
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 4;
    config.allocator = counting_callbacks(counter);
    for (;; refused++) {
        loom_context *context = untouched;
        test_note("request %llu refused", (unsigned long long)(refused + 1));
        counting_fail_at(counter, refused + 1);
        test_poison_last_error();
        loom_status status = loom_context_create(&config, &context);
        counting_fail_at(counter, 0);
        if (status == LOOM_OK) {
            loom_context_destroy(context);
            break;
        }
        test_check_refused(__FILE__, __LINE__, "loom_context_create", status, LOOM_OUT_OF_MEMORY, LOOM_OUT_OF_MEMORY);
        CHECK(context == untouched || context == NULL);
        CHECK_EQ(counting_pieces(counter), 0);
        CHECK_LT(refused, 1000);
    }
    CHECK_GE(refused, 1);
    counting_destroy(counter);
}

/* A table that does not fit the memory is refused, and the context continues to work. */
TEST_EACH_KIND(test_open_create_memory_limit)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 1);
    counting_limit(counter, 1 << 20);
    for (uint64_t capacity = 1; capacity < UINT64_C(1) << 40; capacity *= 2) {
        loom_map_config config = make_config(t, capacity);
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_map *map = NULL;
        uint64_t before = counting_bytes(counter);
        test_note("capacity %llu", (unsigned long long)capacity);
        CHECK_OK(loom_map_memory_required(context, &config, &memory));
        if (before + memory.table_bytes <= 1 << 20) {
            CHECK_OK(loom_map_create(context, &config, &map));
            loom_map_destroy(map);
        } else {
            CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
            CHECK(map == NULL);
        }
        CHECK_EQ(counting_bytes(counter), before);
    }
    loom_context_destroy(context);
    counting_destroy(counter);
}
