/* Tables with byte strings whose n-th request for memory is refused, n = 1, 2, ... until a call succeeds. */
#include "harness/counting_allocator.h"
#include "harness/strings_fixture.h"

enum { MOST_KEY = 40, MOST_VALUE = 30, KEYS = 700, STORED = 100, MOST_REQUESTS = 500 };

/* One operation on a table that holds some keys of `u`. */
typedef struct trial {
    test_run *t;
    counting_allocator *counter;
    loom_context *context;
    loom_map *map;
    universe u;
    rows r; /* the batch of the call: all keys */
    const char *saved;
} trial;

typedef loom_status (*trial_call)(trial *x);

/* A call that stores returns OK, TOO_LONG because of the keys that are, FULL if the table could not grow, or
 * OUT_OF_MEMORY. After the last one it has stored nothing; otherwise `status` tells what it stored. */
static loom_status note_stored(trial *x, loom_status status)
{
    uint64_t full = 0;
    if (status == LOOM_OUT_OF_MEMORY)
        return status;
    for (uint64_t i = 0; i < x->r.n; i++) {
        const uint64_t key = x->r.of[i];
        CHECK_EQ(x->r.status[i] == LOOM_TOO_LONG, is_too_long(&x->u, key));
        CHECK(x->r.status[i] != LOOM_EXISTS || x->u.present[key]);
        full += x->r.status[i] == LOOM_FULL;
        if (x->r.status[i] == LOOM_OK) {
            CHECK(!x->u.present[key]);
            x->u.present[key] = 1;
            x->u.numbers[key] = x->r.numbers[i];
        }
    }
    CHECK_EQ(status, full > 0 ? LOOM_FULL : LOOM_TOO_LONG);
    return full > 0 ? LOOM_FULL : LOOM_OK;
}

static loom_status try_create(trial *x)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    loom_map_config config = config_of(&x->u, 1000);
    config.string_bytes = 20000;
    const loom_status status = loom_map_create(x->context, &config, &map);
    if (status == LOOM_OK)
        loom_map_destroy(map);
    else
        CHECK(map == untouched);
    return status;
}

/* The table has room for a few keys only: it grows, or refuses what does not fit. */
static loom_status try_insert_with(trial *x, uint32_t flags)
{
    return note_stored(x, loom_map_insert(x->map, argument_of(&x->r.keys), argument_of(&x->r.values), x->r.n, flags,
                                          x->r.status, NULL, NULL));
}

static loom_status try_insert(trial *x)
{
    return try_insert_with(x, LOOM_KEEP);
}

static loom_status try_insert_in_order(trial *x)
{
    return try_insert_with(x, LOOM_KEEP | LOOM_IN_ORDER);
}

static loom_status try_insert_by_partition(trial *x)
{
    return try_insert_with(x, LOOM_KEEP | LOOM_BY_PARTITION);
}

static loom_status try_find(trial *x)
{
    uint64_t needed = 0, *offsets = test_allocate((x->r.n + 1) * sizeof *offsets);
    unsigned char *found = test_allocate(x->r.n * MOST_VALUE + 1);
    loom_status status;
    if (x->u.value_bytes == LOOM_VARIABLE)
        status = loom_map_find_strings(x->map, argument_of(&x->r.keys), x->r.n, offsets, found, x->r.n * MOST_VALUE,
                                       &needed, x->r.status, NULL, NULL);
    else
        status = loom_map_find(x->map, argument_of(&x->r.keys), x->r.n, found, NULL, x->r.status, NULL, NULL);
    for (uint64_t i = 0; i < x->r.n && status == LOOM_OK; i++)
        CHECK_EQ(x->r.status[i], x->u.present[x->r.of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
    free(offsets);
    free(found);
    return status;
}

static loom_status try_erase(trial *x)
{
    const loom_status status = loom_map_erase(x->map, argument_of(&x->r.keys), x->r.n, x->r.status, NULL, NULL);
    for (uint64_t i = 0; i < x->r.n && status == LOOM_OK; i++)
        x->u.present[x->r.of[i]] = 0;
    return status;
}

static loom_status try_retrieve(trial *x)
{
    const uint64_t n = x->u.keys.n;
    const int string_values = x->u.value_bytes == LOOM_VARIABLE;
    uint64_t count = 0;
    loom_strings_out keys = {.offsets = test_allocate((n + 1) * 8), .bytes = test_allocate(n * (MOST_KEY + 1) + 1)},
                     values = {.offsets = test_allocate((n + 1) * 8), .bytes = test_allocate(n * MOST_VALUE + 8)};
    keys.byte_room = n * (MOST_KEY + 1);
    values.byte_room = n * MOST_VALUE;
    const loom_status status =
        loom_map_retrieve_all(x->map, &keys, string_values ? (void *)&values : values.bytes, n, &count, NULL, NULL);
    if (status == LOOM_OK)
        CHECK_EQ(count, present_keys(&x->u));
    free(keys.offsets);
    free(keys.bytes);
    free(values.offsets);
    free(values.bytes);
    return status;
}

static loom_status try_for_each(trial *x)
{
    seen s = {.u = &x->u, .times = test_allocate(x->u.keys.n)};
    memset(s.times, 0, x->u.keys.n);
    const loom_status status = loom_map_for_each(x->map, visit, &s, NULL, NULL);
    if (status == LOOM_OK)
        check_seen(&x->u, &s);
    else /* each visit is preceded by requests: some may have been made */
        CHECK_LE(s.in_all, present_keys(&x->u));
    free(s.times);
    return status;
}

static loom_status try_reserve(trial *x)
{
    return loom_map_reserve(x->map, 3 * KEYS, NULL);
}

static loom_status try_reserve_strings(trial *x)
{
    return loom_map_reserve_strings(x->map, 100000, NULL);
}

static loom_status try_clone(trial *x)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    const loom_status status = loom_map_clone(x->map, &map, NULL);
    if (status == LOOM_OK)
        loom_map_destroy(map);
    else
        CHECK(map == untouched);
    return status;
}

static loom_status try_save(trial *x)
{
    const size_t entries = test_count_entries(x->t->directory);
    const loom_status status = loom_map_save(x->map, x->saved, NULL);
    CHECK_EQ(test_count_entries(x->t->directory), entries); /* no temporary file stays */
    return status;
}

static loom_status try_load(trial *x)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    const loom_status status = loom_map_load(x->context, x->saved, &map, NULL);
    counting_fail_at(x->counter, 0);
    if (status == LOOM_OK) {
        check_all(x->t, map, &x->u);
        loom_map_destroy(map);
    } else {
        CHECK(map == untouched);
    }
    return status;
}

/* A table with a few keys, which most batches outgrow. */
static void set_up(trial *x)
{
    loom_map_config config = config_of(&x->u, STORED);
    x->map = make_map_from(x->context, &config);
    memset(x->u.present, 0, x->u.keys.n);
    rows few = draw_rows(x->t, &x->u, STORED, 0);
    insert_rows(x->map, &x->u, &few, LOOM_KEEP, 0);
    free_rows(&few);
    CHECK_OK(loom_map_save(x->map, x->saved, NULL));
}

/* Returns how many requests could be refused. */
static uint64_t try_call(trial *x, const char *name, trial_call call)
{
    const uint64_t bytes = counting_bytes(x->counter), pieces = counting_pieces(x->counter);
    for (uint64_t refused = 0; refused < MOST_REQUESTS; refused++) {
        set_up(x);
        test_note("%s, request %llu refused", name, (unsigned long long)(refused + 1));
        test_poison_last_error();
        const uint64_t before = counting_requests(x->counter);
        counting_fail_at(x->counter, refused + 1);
        const loom_status status = call(x);
        counting_fail_at(x->counter, 0);
        const int failed = counting_requests(x->counter) - before > refused;
        CHECK(failed || status == LOOM_OK);
        if (status != LOOM_OK)
            test_check_refused(__FILE__, __LINE__, "call with a refused request", status, LOOM_OUT_OF_MEMORY,
                               LOOM_FULL);
        check_all(x->t, x->map, &x->u); /* whatever happened, the table answers */
        check_retrieve_all(x->map, &x->u);
        insert_rows(x->map, &x->u, &x->r, LOOM_OVERWRITE, 0); /* and takes all keys */
        check_all(x->t, x->map, &x->u);
        loom_map_destroy(x->map);
        CHECK_EQ(counting_bytes(x->counter), bytes); /* no leak */
        CHECK_EQ(counting_pieces(x->counter), pieces);
        if (!failed)
            return refused;
    }
    FAIL("the call does not succeed although no request is refused");
    return 0;
}

static void try_calls(test_run *t, uint32_t value_bytes, uint32_t threads)
{
    static const struct {
        const char *name;
        trial_call call;
        uint64_t least; /* requests */
    } calls[] = {
        {"create", try_create, 2},
        {"insert", try_insert, 2},
        {"insert in order", try_insert_in_order, 2},
        {"insert by partition", try_insert_by_partition, 2},
        {"find", try_find, 0},
        {"erase", try_erase, 0},
        {"retrieve", try_retrieve, 1},
        {"for_each", try_for_each, 2},
        {"reserve", try_reserve, 1},
        {"reserve_strings", try_reserve_strings, 1},
        {"clone", try_clone, 2},
        {"save", try_save, 1},
        {"load", try_load, 3},
    };
    trial x = {.t = t, .counter = counting_create(), .saved = test_path(t, "saved")};
    x.context = make_counting_context(t, x.counter, threads);
    x.u = make_universe(LOOM_VARIABLE, value_bytes, MOST_KEY, MOST_VALUE, KEYS);
    x.r = draw_rows(t, &x.u, KEYS, 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        CHECK_GE(try_call(&x, calls[i].name, calls[i].call), calls[i].least);
    free_rows(&x.r);
    free_universe(&x.u);
    loom_context_destroy(x.context);
    counting_destroy(x.counter);
}

TEST(test_rows_strings_nth_allocation_fails)
{
    try_calls(t, 8, 1);
    try_calls(t, LOOM_VARIABLE, 2);
}

/* Bytes that a build takes beside its table, if the allocator has at most `limit` more (0: any). */
static uint64_t bytes_of_build(loom_map *map, counting_allocator *counter, universe *u, rows *r, uint64_t limit)
{
    const uint64_t before = counting_bytes(counter);
    counting_reset_peak(counter);
    counting_limit(counter, limit != 0 ? before + limit : 0);
    insert_rows(map, u, r, LOOM_KEEP | LOOM_IN_ORDER, 1);
    counting_limit(counter, 0);
    check_find(map, u, r);
    return counting_peak(counter) - before;
}

/* Builds copy their strings while they split them. A build without memory for the copies goes on without them. */
static void build_with_less_memory(test_run *t, uint32_t value_bytes, uint32_t threads)
{
    const uint64_t n = 6000;
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, threads);
    universe u = make_universe(LOOM_VARIABLE, value_bytes, MOST_KEY, MOST_VALUE, n);
    loom_map_config config = config_of(&u, n);
    loom_memory memory = LOOM_MEMORY_INIT;
    config.string_bytes = n * (MOST_KEY + MOST_VALUE + 16);
    CHECK_OK(loom_map_memory_required(context, &config, &memory));
    loom_map *map = make_map_from(context, &config);
    rows r = draw_rows(t, &u, n, 1);
    const uint64_t most = bytes_of_build(map, counter, &u, &r, 0),
                   less = bytes_of_build(map, counter, &u, &r, most - 1);
    CHECK_LE(most, memory.status_bytes);
    CHECK_LE(less, most - n); /* most keys have a copy, of 8 bytes or more */
    free_rows(&r);
    loom_map_destroy(map);
    free_universe(&u);
    loom_context_destroy(context);
    counting_destroy(counter);
}

TEST(test_rows_strings_builds_with_less_memory)
{
    for (uint32_t threads = 1; threads <= 3; threads++) {
        build_with_less_memory(t, 8, threads);
        build_with_less_memory(t, LOOM_VARIABLE, threads);
    }
}
