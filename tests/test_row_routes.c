/* Rows in host memory: the plan that chooses how a batch reaches them, on every machine; and each way to reach them, on
 * a machine with a GPU. test_rows_widths.c draws ways at random, with arrays in host memory. Here arrays lie on the
 * device, as they must for rows to be gathered. */
#include "core/row_plan.h"
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

/* ---- The plan -------------------------------------------------------------------------------------------- */

static loom_row_route plan_of(uint64_t rows, uint64_t table_bytes, int writes, int reads)
{
    const loom__row_rates rates = LOOM__USUAL_ROW_RATES;
    const loom__row_work work = {rows, 16, table_bytes, reads, writes, !writes, 1};
    double seconds[LOOM__ROW_ROUTES];
    loom__row_estimate(&rates, &work, seconds);
    CHECK_EQ(seconds[LOOM_ROW_ROUTE_NONE] == 0, 1);
    CHECK_EQ(seconds[LOOM_ROW_ROUTE_GATHERED] > 0, !writes);
    for (int i = LOOM_ROW_ROUTE_DIRECT; i < LOOM__ROW_ROUTES; i++)
        CHECK(seconds[i] >= 0 && (seconds[i] > 0 || i == LOOM_ROW_ROUTE_GATHERED));
    return loom__row_choose(seconds);
}

TEST(test_row_plan_choices)
{
    const uint64_t table = (uint64_t)32 << 30;
    CHECK_EQ(plan_of(1000, table, 0, 1), LOOM_ROW_ROUTE_DIRECT);
    CHECK_EQ(plan_of(100000000, table, 0, 1), LOOM_ROW_ROUTE_GATHERED);
    CHECK_EQ(plan_of(1000000000, table, 0, 1), LOOM_ROW_ROUTE_STREAMED); /* half of its rows */
    CHECK_EQ(plan_of(1000, table, 1, 1), LOOM_ROW_ROUTE_DIRECT);
    CHECK_EQ(plan_of(100000000, table, 1, 1), LOOM_ROW_ROUTE_ORDERED);
    CHECK_EQ(plan_of(1000000000, table, 1, 1), LOOM_ROW_ROUTE_STREAMED);
    CHECK_EQ(plan_of(600000000, table, 1, 0), LOOM_ROW_ROUTE_STREAMED); /* nothing comes over */
    CHECK_EQ(plan_of(0, table, 0, 1), LOOM_ROW_ROUTE_DIRECT);
}

/* Without the host's threads, or over a slow link, other routes win. */
TEST(test_row_plan_follows_the_rates)
{
    loom__row_rates rates = LOOM__USUAL_ROW_RATES;
    loom__row_work work = {100000000, 16, (uint64_t)32 << 30, 1, 0, 1, 1};
    double seconds[LOOM__ROW_ROUTES];
    rates.gathered = 100e6;
    loom__row_estimate(&rates, &work, seconds);
    CHECK_EQ(loom__row_choose(seconds), LOOM_ROW_ROUTE_ORDERED);
    rates.ordered = 50e6;
    loom__row_estimate(&rates, &work, seconds);
    CHECK_EQ(loom__row_choose(seconds), LOOM_ROW_ROUTE_STREAMED);
    work.streams = 0;
    loom__row_estimate(&rates, &work, seconds);
    CHECK_EQ(loom__row_choose(seconds), LOOM_ROW_ROUTE_GATHERED);
}

TEST(test_row_route_is_for_rows_in_host_memory)
{
    loom_context *context = make_context(t);
    loom_explanation explanation = LOOM_EXPLANATION_INIT;
    for (int place = 0; place < 2; place++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = config.value_bytes = 8;
        config.engine = LOOM_ENGINE_ROWS;
        config.row_place = (loom_row_place)place;
        loom_map *map = make_map_from(context, &config);
        CHECK_REFUSED(loom_map_explain(map, &explanation), LOOM_UNSUPPORTED);
        CHECK_REFUSED(loom_map_set_row_route(map, LOOM_ROW_ROUTE_DIRECT), LOOM_UNSUPPORTED);
        loom_map_destroy(map);
    }
    CHECK_REFUSED(loom_map_explain(NULL, &explanation), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_row_route(NULL, LOOM_ROW_ROUTE_NONE), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

/* ---- Routes ---------------------------------------------------------------------------------------------- */

typedef struct route_form {
    uint32_t key_bytes, value_bytes;
    loom_layout layout;
} route_form;

static const route_form forms[] = {{8, 8, LOOM_LAYOUT_TOGETHER},
                                   {8, 8, LOOM_LAYOUT_APART},
                                   {16, 0, 0},
                                   {5, 3, 0},
                                   {5, 8, LOOM_LAYOUT_APART},
                                   {32, 128, 0},
                                   {12, 4, 0}};

/* A table and a reference: key i has bytes that follow from i, and value numbers[i] if it is present. Arrays are on the
 * device; `far` are their copies on the host. */
typedef struct routes {
    loom_context *context;
    loom_map *map;
    route_form form;
    uint64_t universe, *numbers;
    uint8_t *present;
    /* the batch: item i has key of[i] */
    uint64_t n, *of, *given;
    unsigned char *far_keys, *far_values, *far_found;
    uint8_t *far_status;
    void *keys, *values, *found, *status;
} routes;

static void make_bytes(unsigned char *to, uint32_t bytes, uint64_t number)
{
    if (bytes == 4 || bytes == 8)
        memcpy(to, &number, bytes);
    else
        for (uint32_t i = 0; i < bytes; i++)
            to[i] = (unsigned char)(i < 4 ? number >> 8 * i : mix_u64(number + i / 8) >> i % 8 * 8);
}

static void *on_device(routes *r, uint64_t bytes)
{
    void *array;
    CHECK_OK(loom_array_create(r->context, LOOM_ARRAY_MACHINE, bytes, &array));
    return array;
}

static void copy(routes *r, void *to, const void *from, uint64_t bytes)
{
    if (bytes > 0)
        CHECK_OK(loom_array_copy(r->context, to, from, bytes, NULL));
}

/* Draws n keys out of the universe, each at most once, or any number of times. */
static void draw(test_run *t, routes *r, uint64_t n, int repeats)
{
    const uint64_t first = random_below(&t->random, r->universe);
    r->n = n;
    for (uint64_t i = 0; i < n; i++) {
        r->of[i] = repeats ? random_below(&t->random, r->universe) : (first + i) % r->universe;
        r->given[i] = random_u64(&t->random);
        make_bytes(r->far_keys + i * r->form.key_bytes, r->form.key_bytes, r->of[i] * 0x10001);
        make_bytes(r->far_values + i * r->form.value_bytes, r->form.value_bytes, r->given[i]);
    }
    copy(r, r->keys, r->far_keys, n * r->form.key_bytes);
    copy(r, r->values, r->far_values, n * r->form.value_bytes);
}

static void fetch_answers(routes *r, int values)
{
    copy(r, r->far_status, r->status, r->n);
    if (values)
        copy(r, r->far_found, r->found, r->n * r->form.value_bytes);
}

static void check_found_value(const routes *r, uint64_t i, uint64_t number)
{
    unsigned char wanted[128];
    make_bytes(wanted, r->form.value_bytes, number);
    CHECK_BYTES(r->far_found + i * r->form.value_bytes, wanted, r->form.value_bytes);
}

static void *values_of(const routes *r)
{
    return r->form.value_bytes > 0 ? r->values : NULL;
}

static void check_lookups(test_run *t, routes *r, uint64_t n)
{
    loom_result result = {0};
    uint64_t present = 0;
    draw(t, r, n, 1);
    CHECK_OK(
        loom_map_find(r->map, r->keys, n, r->form.value_bytes > 0 ? r->found : NULL, NULL, r->status, &result, NULL));
    fetch_answers(r, r->form.value_bytes > 0);
    for (uint64_t i = 0; i < n; i++) {
        const int is_there = r->present[r->of[i]];
        CHECK_EQ(r->far_status[i], is_there ? LOOM_OK : LOOM_NOT_FOUND);
        present += (uint64_t)is_there;
        if (r->form.value_bytes > 0 && is_there)
            check_found_value(r, i, r->numbers[r->of[i]]);
        else
            for (uint32_t b = 0; b < r->form.value_bytes; b++)
                CHECK_EQ(r->far_found[i * r->form.value_bytes + b], 0);
    }
    loom_result told;
    copy(r, &told, &result, sizeof told);
    CHECK_EQ(told.ok, present);
    CHECK_EQ(told.not_found, n - present);
    CHECK_OK(loom_map_contains(r->map, r->keys, n, r->status, NULL, NULL, NULL));
    fetch_answers(r, 0);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(r->far_status[i], r->present[r->of[i]]);
}

static void check_insert(test_run *t, routes *r, uint64_t n, uint32_t flags, int builds)
{
    draw(t, r, n, 0);
    if (builds)
        memset(r->present, 0, r->universe);
    CHECK_OK(
        (builds ? loom_map_build : loom_map_insert)(r->map, r->keys, values_of(r), n, flags, r->status, NULL, NULL));
    fetch_answers(r, 0);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key = r->of[i];
        CHECK_EQ(r->far_status[i], r->present[key] ? LOOM_EXISTS : LOOM_OK);
        if (!r->present[key] || flags & LOOM_OVERWRITE)
            r->numbers[key] = r->given[i];
        r->present[key] = 1;
    }
}

static void check_fetch(test_run *t, routes *r, uint64_t n)
{
    draw(t, r, n, 0);
    CHECK_OK(loom_map_find_or_insert(r->map, r->keys, r->values, n, r->found, r->status, NULL, NULL));
    fetch_answers(r, 1);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key = r->of[i];
        CHECK_EQ(r->far_status[i], r->present[key] ? LOOM_EXISTS : LOOM_OK);
        if (!r->present[key])
            r->numbers[key] = r->given[i];
        r->present[key] = 1;
        check_found_value(r, i, r->numbers[key]);
    }
}

static void check_update(test_run *t, routes *r, uint64_t n)
{
    draw(t, r, n, 0);
    CHECK_OK(loom_map_update(r->map, r->keys, r->values, n, r->status, NULL, NULL));
    fetch_answers(r, 0);
    for (uint64_t i = 0; i < n; i++) {
        CHECK_EQ(r->far_status[i], r->present[r->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        if (r->present[r->of[i]])
            r->numbers[r->of[i]] = r->given[i];
    }
}

static void check_accumulate(test_run *t, routes *r, uint64_t n)
{
    draw(t, r, n, 1);
    CHECK_OK(loom_map_accumulate(r->map, r->keys, r->values, n, LOOM_COMBINE_ADD,
                                 r->form.value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, NULL, NULL));
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key = r->of[i];
        r->numbers[key] = (r->present[key] ? r->numbers[key] : 0) + r->given[i];
        r->present[key] = 1;
    }
}

static void check_erase(test_run *t, routes *r, uint64_t n)
{
    draw(t, r, n, 0);
    CHECK_OK(loom_map_erase(r->map, r->keys, n, r->status, NULL, NULL));
    fetch_answers(r, 0);
    for (uint64_t i = 0; i < n; i++) {
        CHECK_EQ(r->far_status[i], r->present[r->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        r->present[r->of[i]] = 0;
    }
}

/* The last call, of n keys, went this way, if it could. */
static void check_explanation(const routes *r, loom_row_route route, uint64_t n, int is_lookup)
{
    loom_explanation told = LOOM_EXPLANATION_INIT;
    CHECK_OK(loom_map_explain(r->map, &told));
    const int gathers = route != LOOM_ROW_ROUTE_GATHERED || is_lookup;
    CHECK_EQ(told.route, gathers ? route : LOOM_ROW_ROUTE_DIRECT);
    CHECK_EQ(told.keys, n);
    CHECK_LE(told.rows, n);
    CHECK(told.route == LOOM_ROW_ROUTE_DIRECT || (told.seconds > 0 && told.estimate[told.route] > 0));
}

/* bound: of all temporary memory; 0: there is none */
static void run_form(test_run *t, route_form form, loom_row_route route, uint64_t buffer_bytes, uint64_t bound)
{
    const uint64_t universe = 20000, n = 9000;
    routes r = {.context = make_context(t), .form = form, .universe = universe};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = form.key_bytes;
    config.value_bytes = form.value_bytes;
    config.layout = form.layout;
    config.type = form.value_bytes > 0 ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    config.capacity = universe;
    config.buckets_per_partition = 11;
    test_note("%u + %u bytes, layout %d, route %d, buffers of %llu bytes, at most %llu", form.key_bytes,
              form.value_bytes, (int)form.layout, (int)route, (unsigned long long)buffer_bytes,
              (unsigned long long)bound);
    r.map = make_map_from(r.context, &config);
    CHECK_OK(loom_map_set_row_route(r.map, route));
    CHECK_OK(loom_map_set_row_staging(r.map, bound));
    cuda_set_row_buffers(r.context, buffer_bytes, 1000);
    r.numbers = test_allocate(universe * sizeof *r.numbers);
    r.present = test_allocate(universe);
    memset(r.present, 0, universe);
    r.of = test_allocate(n * sizeof *r.of);
    r.given = test_allocate(n * sizeof *r.given);
    r.far_keys = test_allocate(n * form.key_bytes);
    r.far_values = test_allocate(n * form.value_bytes + 1);
    r.far_found = test_allocate(n * form.value_bytes + 1);
    r.far_status = test_allocate(n);
    r.keys = on_device(&r, n * form.key_bytes);
    r.values = on_device(&r, n * form.value_bytes + 1);
    r.found = on_device(&r, n * form.value_bytes + 1);
    r.status = on_device(&r, n);

    check_insert(t, &r, n, LOOM_KEEP, 1);
    check_explanation(&r, route, n, 0);
    check_lookups(t, &r, n);
    check_explanation(&r, route, n, 1);
    check_insert(t, &r, n, LOOM_KEEP, 0);
    check_insert(t, &r, n, LOOM_OVERWRITE, 0);
    if (form.value_bytes > 0) {
        check_fetch(t, &r, n);
        check_update(t, &r, n);
    }
    if (form.value_bytes == 8)
        check_accumulate(t, &r, n);
    check_lookups(t, &r, n);
    check_erase(t, &r, n);
    check_insert(t, &r, n / 3, LOOM_KEEP, 0);
    check_lookups(t, &r, n);
    checked_verify(r.map);
    check_insert(t, &r, n, LOOM_KEEP, 1); /* replaces what is there */
    check_lookups(t, &r, n);
    checked_verify(r.map);

    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.keys, n * form.key_bytes);
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.values, n * form.value_bytes + 1);
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.found, n * form.value_bytes + 1);
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.status, n);
    free(r.numbers);
    free(r.present);
    free(r.of);
    free(r.given);
    free(r.far_keys);
    free(r.far_values);
    free(r.far_found);
    free(r.far_status);
    loom_map_destroy(r.map);
    loom_context_destroy(r.context);
}

TEST(test_cuda_row_routes, .timeout_seconds = 240)
{
    if (loom_machine_present(LOOM_MACHINE_CUDA) != LOOM_OK)
        test_skip("there is no machine with a GPU here");
    t->machine = LOOM_MACHINE_CUDA;
    t->quick = 1;
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (loom_row_route route = LOOM_ROW_ROUTE_DIRECT; route <= LOOM_ROW_ROUTE_STREAMED; route++) {
            run_form(t, forms[i], route, 0, 0);
            run_form(t, forms[i], route, 1 << 16, 0);
            run_form(t, forms[i], route, 0, loom__row_least_staging(forms[i].key_bytes, forms[i].value_bytes));
        }
}

/* The limits of the link. No test depends on how fast the machine is. */
TEST(test_cuda_limits_of_the_link, .long_tier = 1, .timeout_seconds = 180)
{
    static const struct {
        loom_limit_kind kind;
        uint32_t access_bytes;
    } cases[] = {{LOOM_LIMIT_HOST_COPY, 0},
                 {LOOM_LIMIT_TO_HOST_COPY, 0},
                 {LOOM_LIMIT_HOST_RANDOM_READ, 16},
                 {LOOM_LIMIT_HOST_ORDERED_READ, 16},
                 {LOOM_LIMIT_HOST_GATHER, 64}};
    if (loom_machine_present(LOOM_MACHINE_CUDA) != LOOM_OK)
        test_skip("there is no machine with a GPU here");
    t->machine = LOOM_MACHINE_CUDA;
    loom_context *context = make_context(t);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        loom_limit limit = LOOM_LIMIT_INIT;
        limit.kind = cases[i].kind;
        limit.access_bytes = cases[i].access_bytes;
        limit.footprint_bytes = 16 << 20;
        test_note("kind %d", (int)limit.kind);
        CHECK_OK(loom_measure_limit(context, &limit));
        CHECK(limit.rate > 1000 && limit.rate < 1e15);
        CHECK(limit.shape[0] != 0);
    }
    loom_context_destroy(context);
}

/* Full partitions of two lines, in which hardly any search for an absent key ends early: keys that meet the tags of
 * others go once through all lines, and no further. */
TEST(test_cuda_row_routes_of_full_partitions, .timeout_seconds = 120)
{
    enum { KEYS = 400, ABSENT = 300000 };
    if (loom_machine_present(LOOM_MACHINE_CUDA) != LOOM_OK)
        test_skip("there is no machine with a GPU here");
    t->machine = LOOM_MACHINE_CUDA;
    routes r = {.context = make_context(t), .form = {8, 8, LOOM_LAYOUT_TOGETHER}};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    config.capacity = 100;
    config.max_load = 0.95;
    config.buckets_per_partition = 2;
    config.growth = 0;
    r.map = make_map_from(r.context, &config);
    uint64_t *keys = test_allocate(ABSENT * sizeof *keys);
    uint8_t *status = test_allocate(ABSENT);
    for (uint64_t i = 0; i < ABSENT; i++)
        keys[i] = mix_u64(i);
    loom_result result = {0};
    CHECK_OK(loom_map_insert(r.map, keys, keys, KEYS, LOOM_KEEP, status, &result, NULL)); /* more than there is room */
    CHECK_GT(result.full, 0);
    r.keys = on_device(&r, ABSENT * sizeof *keys);
    r.found = on_device(&r, ABSENT * sizeof *keys);
    r.status = on_device(&r, ABSENT);
    copy(&r, r.keys, keys, ABSENT * sizeof *keys);
    uint8_t *answers = test_allocate(ABSENT);
    uint64_t *found = test_allocate(ABSENT * sizeof *found);
    for (loom_row_route route = LOOM_ROW_ROUTE_DIRECT; route <= LOOM_ROW_ROUTE_STREAMED; route++) {
        test_note("route %d", (int)route);
        CHECK_OK(loom_map_set_row_route(r.map, route));
        CHECK_OK(loom_map_find(r.map, r.keys, ABSENT, r.found, NULL, r.status, NULL, NULL));
        copy(&r, answers, r.status, ABSENT);
        copy(&r, found, r.found, ABSENT * sizeof *found);
        for (uint64_t i = 0; i < ABSENT; i++) {
            const int present = i < KEYS && status[i] == LOOM_OK;
            CHECK_EQ(answers[i], present ? LOOM_OK : LOOM_NOT_FOUND);
            CHECK_EQ(found[i], present ? keys[i] : 0);
        }
    }
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.keys, ABSENT * sizeof *keys);
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.found, ABSENT * sizeof *keys);
    loom_array_destroy(r.context, LOOM_ARRAY_MACHINE, r.status, ABSENT);
    free(keys);
    free(status);
    free(answers);
    free(found);
    loom_map_destroy(r.map);
    loom_context_destroy(r.context);
}
