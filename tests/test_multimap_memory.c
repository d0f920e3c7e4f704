/* Memory of multimaps: what is taken, calls that take none, and a refusal of the n-th request. */
#include "harness/counting_allocator.h"
#include "harness/multimap_model.h"

#include <stdlib.h>

enum { KEYS = 60, ROWS = 900 };

/* Rows of a few keys: as many as a table of make_small has room for. */
static batch make_rows(test_run *t, uint64_t first_key)
{
    batch b = make_batch(t, ROWS);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 4, first_key + random_below(&t->random, KEYS)), i);
    return b;
}

static multimap_model make_small(test_run *t, loom_context *context, double growth)
{
    loom_map_config config = make_multimap_config(t, KEYS, ROWS);
    config.growth = growth;
    return make_multimap_model(t, context, &config);
}

TEST_EACH_MULTIMAP(test_multimap_memory_is_what_is_told, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 3);
    const uint64_t before = counting_bytes(counter);
    multimap_model m = make_small(t, context, 2);
    batch b = make_rows(t, 0), others = make_rows(t, KEYS);
    uint64_t used = 0;
    for (int step = 0; step < 5; step++) {
        test_note("step %d", step);
        if (step == 1)
            multimap_build(&m, &b, LOOM_KEEP);
        if (step == 2)
            multimap_insert(&m, &others, LOOM_KEEP); /* the table moves */
        if (step == 3)
            multimap_erase_pairs(&m, &b);
        if (step == 4)
            CHECK_OK(loom_map_shrink(m.map, NULL));
        CHECK_OK(loom_map_memory_used(m.map, &used));
        CHECK_EQ(counting_bytes(counter) - before, used);
        CHECK_EQ(map_stats(m.map).memory_bytes, used);
    }
    multimap_compare(&m);
    free_batch(&b);
    free_batch(&others);
    end_multimap_model(&m);
    CHECK_EQ(counting_bytes(counter), before);
    loom_context_destroy(context);
    counting_destroy(counter);
}

TEST_EACH_MULTIMAP(test_multimap_memory_calls_that_do_not_allocate, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 3);
    multimap_model m = make_small(t, context, 0);
    batch b = make_rows(t, 0);
    multimap_build(&m, &b, LOOM_KEEP);
    const uint64_t requests = counting_requests(counter);
    multimap_find(&m, &b);
    multimap_find_all(&m, &b, 0);
    uint64_t pairs, keys;
    CHECK_OK(loom_map_size(m.map, &pairs, NULL));
    CHECK_OK(loom_map_distinct(m.map, &keys, NULL));
    CHECK_EQ(pairs, b.n);
    CHECK_OK(loom_map_clear(m.map, NULL, NULL));
    CHECK_EQ(counting_requests(counter), requests);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* ---- The n-th request is refused ---------------------------------------------------------------------------- */

/* A call on a table that holds `stored`, with `others` as its rows. A call that fails leaves the table as it is. An
 * insertion may also refuse rows, since the table could not grow. */
typedef struct trial {
    multimap_model m;
    loom_context *context;
    batch stored, others;
    uint64_t refused_rows;
} trial;

typedef loom_status (*trial_call)(trial *x);

static loom_status try_insert(trial *x)
{
    loom_result result = {0};
    const loom_status status = multimap_try_insert(&x->m, &x->others, LOOM_KEEP, &result);
    x->refused_rows = status == LOOM_OK ? result.full : 0;
    return status;
}

static loom_status try_build(trial *x)
{
    loom_result result = {0};
    const loom_status status = multimap_try_build(&x->m, &x->others, LOOM_KEEP, &result);
    x->refused_rows = status == LOOM_OK ? result.full : 0;
    return status;
}

static loom_status try_erase_pairs(trial *x)
{
    loom_result result = {0};
    const loom_status status = multimap_try_erase_pairs(&x->m, &x->stored, &result);
    if (status == LOOM_OK)
        CHECK_EQ(result.ok, ROWS);
    return status;
}

static loom_status try_reserve(trial *x)
{
    return loom_map_reserve(x->m.map, 10 * KEYS, NULL);
}

static loom_status try_reserve_values(trial *x)
{
    return loom_map_reserve_values(x->m.map, 10 * ROWS, NULL);
}

static loom_status try_shrink(trial *x)
{
    return loom_map_shrink(x->m.map, NULL);
}

/* Replaces the map by a copy. */
static loom_status try_clone(trial *x)
{
    loom_map *clone = NULL;
    const loom_status status = loom_map_clone(x->m.map, &clone, NULL);
    CHECK((clone != NULL) == (status == LOOM_OK));
    if (status == LOOM_OK) {
        loom_map_destroy(x->m.map);
        x->m.map = clone;
    }
    return status;
}

static loom_status try_save_and_load(trial *x)
{
    const char *path = test_path(x->m.t, "table.loom");
    loom_map *loaded = NULL;
    loom_status status = loom_map_save(x->m.map, path, NULL);
    if (status == LOOM_OK)
        status = loom_map_load(x->context, path, &loaded, NULL);
    CHECK((loaded != NULL) == (status == LOOM_OK));
    if (status == LOOM_OK) {
        loom_map_destroy(x->m.map);
        x->m.map = loaded;
    }
    return status;
}

/* Refuses request n, n = 1, 2, ..., until the call makes fewer requests. Returns the number of its requests. */
static uint64_t try_all(test_run *t, trial_call call)
{
    for (uint64_t n = 1;; n++) {
        counting_allocator *counter = counting_create();
        trial x = {.context = make_counting_context(t, counter, 2), .stored = make_rows(t, 0)};
        x.others = make_rows(t, KEYS / 2);
        x.m = make_small(t, x.context, 2);
        x.m.grows = 0; /* without memory it does not */
        x.m.refusing = counter;
        CHECK_EQ(multimap_build(&x.m, &x.stored, LOOM_KEEP).ok, ROWS);
        if (call == try_shrink) {
            batch most = make_rows(t, 0);
            multimap_erase(&x.m, &most);
            free_batch(&most);
        }
        test_note("request %llu refused", (unsigned long long)n);
        const uint64_t before = counting_requests(counter);
        test_poison_last_error();
        counting_fail_at(counter, n);
        const loom_status status = call(&x);
        const uint64_t requests = counting_requests(counter) - before;
        counting_fail_at(counter, 0);
        if (requests < n) { /* none was refused */
            CHECK_OK(status);
            CHECK_EQ(x.refused_rows, 0);
        } else if (status != LOOM_OK) {
            test_check_refused(__FILE__, __LINE__, "call with a refused request", status, LOOM_OUT_OF_MEMORY,
                               LOOM_OUT_OF_MEMORY);
        }
        multimap_compare(&x.m);
        CHECK_OK(loom_map_set_growth(x.m.map, 2));
        CHECK_EQ(multimap_insert(&x.m, &x.others, LOOM_KEEP).ok, ROWS); /* with memory all is well again */
        multimap_compare(&x.m);
        free_batch(&x.stored);
        free_batch(&x.others);
        end_multimap_model(&x.m);
        loom_context_destroy(x.context);
        counting_destroy(counter);
        if (requests < n)
            return requests;
        CHECK_LT(n, 1000);
    }
}

TEST_EACH_MULTIMAP(test_multimap_memory_nth_request_of_writes_refused, .cpu_only = 1)
{
    CHECK_GT(try_all(t, try_insert), 0); /* the table grows */
    try_all(t, try_build);
    try_all(t, try_erase_pairs);
}

TEST_EACH_MULTIMAP(test_multimap_memory_nth_request_of_moves_refused, .cpu_only = 1)
{
    CHECK_GT(try_all(t, try_reserve), 0);
    CHECK_GT(try_all(t, try_reserve_values), 0);
    CHECK_GT(try_all(t, try_shrink), 0);
    CHECK_GT(try_all(t, try_clone), 0);
    CHECK_GT(try_all(t, try_save_and_load), 0);
}
