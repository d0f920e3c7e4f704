/* Mixed batches (loom_map_apply) against a reference: in order row by row, and otherwise by looking for an order of the
 * rows of each key that explains every status, every value and what the table holds afterwards. */
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"

#include "api/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 64, MOST_OF_KEY = 6 /* rows of a key, if any order may explain them */ };

/* A table and its reference. Keys and values follow from numbers. Key k holds `held[k]` if it is present. */
typedef struct applied {
    test_run *t;
    loom_context *context;
    loom_map *map;
    uint32_t key_bytes, value_bytes;
    uint64_t universe;
    uint8_t *present;
    uint64_t *held;
    /* the batch */
    uint64_t n;
    uint8_t *operations, *status;
    uint64_t *of, *given; /* numbers of keys and values */
    unsigned char *keys, *values, *found;
    int asks_status, asks_found, may_refuse;
    /* which arrays lie in the machine's memory */
    uint32_t on_machine;
} applied;

static void make_bytes(unsigned char *to, uint32_t bytes, uint64_t number)
{
    if (bytes == 4 || bytes == 8)
        memcpy(to, &number, bytes);
    else
        for (uint32_t i = 0; i < bytes; i++)
            to[i] = (unsigned char)(i < 4 ? number >> 8 * i : mix_u64(number + i / 8) >> i % 8 * 8);
}

/* The first two keys are all zeros and all ones. */
static void make_key(const applied *a, unsigned char *to, uint64_t key)
{
    const int words = a->key_bytes == 4 || a->key_bytes == 8;
    make_bytes(to, a->key_bytes, words && key > 1 ? distinct_key(a->key_bytes, 7, key) : words ? 0 - key : key);
}

/* What a value of the table is of which this number is known. */
static uint64_t cut_value(const applied *a, uint64_t number)
{
    return a->value_bytes == 4 || a->value_bytes == 8 ? cut_word(number, a->value_bytes) : number;
}

static applied make_applied(test_run *t, loom_context *context, loom_map *map, uint32_t key_bytes, uint32_t value_bytes,
                            uint64_t universe)
{
    applied a = {.t = t,
                 .context = context,
                 .map = map,
                 .key_bytes = key_bytes,
                 .value_bytes = value_bytes,
                 .universe = universe};
    a.present = test_allocate(universe);
    a.held = test_allocate(universe * sizeof *a.held);
    memset(a.present, 0, universe);
    return a;
}

static void free_applied(applied *a)
{
    free(a->present);
    free(a->held);
}

static void make_batch_arrays(applied *a, uint64_t n)
{
    a->n = n;
    a->operations = test_allocate(n + 1);
    a->status = test_allocate(n + 1);
    a->of = test_allocate((n + 1) * sizeof *a->of);
    a->given = test_allocate((n + 1) * sizeof *a->given);
    a->keys = test_allocate((n + 1) * a->key_bytes);
    a->values = test_allocate((n + 1) * a->value_bytes + 1);
    a->found = test_allocate((n + 1) * a->value_bytes + 1);
    memset(a->status, 0xa5, n);
    memset(a->found, 0xa5, n * a->value_bytes);
}

static void free_batch_arrays(applied *a)
{
    free(a->operations);
    free(a->status);
    free(a->of);
    free(a->given);
    free(a->keys);
    free(a->values);
    free(a->found);
}

static uint8_t random_operation(const applied *a)
{
    static const uint8_t of_sets[] = {LOOM_APPLY_FIND, LOOM_APPLY_INSERT, LOOM_APPLY_OVERWRITE, LOOM_APPLY_ERASE};
    const int numbers = a->value_bytes == 4 || a->value_bytes == 8;
    if (a->value_bytes == 0)
        return of_sets[random_below(&a->t->random, 4)];
    return (uint8_t)random_below(&a->t->random, numbers ? 6 : 5);
}

/* Sometimes all rows do the same. At most `most` rows have the same key. */
static void draw_rows(applied *a, uint64_t n, uint64_t most)
{
    test_random *random = &a->t->random;
    n = most <= MOST_OF_KEY && n > most * a->universe ? most * a->universe : n;
    make_batch_arrays(a, n);
    const int uniform = random_below(random, 8) == 0;
    const uint8_t same = random_operation(a);
    const uint64_t start = random_below(random, a->universe), range = n / most + 1;
    for (uint64_t i = 0; i < n; i++) {
        a->of[i] = (start + (most <= MOST_OF_KEY ? i / most : random_below(random, range))) % a->universe;
        a->operations[i] = uniform ? same : random_operation(a);
        a->given[i] = random_below(random, 4) ? cut_value(a, random_u64(random)) : 0;
    }
    for (uint64_t i = n; i > 1; i--) {
        const uint64_t j = random_below(random, i), other = a->of[i - 1];
        a->of[i - 1] = a->of[j];
        a->of[j] = other;
    }
    for (uint64_t i = 0; i < n; i++) {
        make_key(a, a->keys + i * a->key_bytes, a->of[i]);
        make_bytes(a->values + i * a->value_bytes, a->value_bytes, a->given[i]);
    }
    a->asks_status = random_below(random, 4) > 0;
    a->asks_found = a->value_bytes > 0 && random_below(random, 4) > 0;
    a->on_machine = (uint32_t)random_below(random, 2) ? 31 : (uint32_t)random_below(random, 32);
}

/* ---- the call ---- */

/* The array, or a copy of it in the machine's memory. */
static void *placed(const applied *a, int which, void *array, uint64_t bytes)
{
    void *copy;
    if (!(a->on_machine >> which & 1) || bytes == 0)
        return array;
    CHECK_OK(loom_array_create(a->context, LOOM_ARRAY_MACHINE, bytes, &copy));
    CHECK_OK(loom_array_copy(a->context, copy, array, bytes, NULL));
    return copy;
}

static void fetch(const applied *a, void *array, void *copy, uint64_t bytes)
{
    if (copy == array)
        return;
    CHECK_OK(loom_array_copy(a->context, array, copy, bytes, NULL));
    loom_array_destroy(a->context, LOOM_ARRAY_MACHINE, copy, bytes);
}

static loom_status call(applied *a, uint32_t flags, loom_result *result)
{
    const uint64_t n = a->n, value_bytes = n * a->value_bytes;
    uint8_t *operations = placed(a, 0, a->operations, n), *status = placed(a, 1, a->status, n);
    void *keys = placed(a, 2, a->keys, n * a->key_bytes), *values = placed(a, 3, a->values, value_bytes);
    void *found = placed(a, 4, a->found, value_bytes);
    const loom_status outcome =
        loom_map_apply(a->map, operations, keys, a->value_bytes > 0 ? values : NULL, n, flags,
                       a->asks_found ? found : NULL, a->asks_status ? status : NULL, result, NULL);
    fetch(a, a->operations, operations, n);
    fetch(a, a->status, status, n);
    fetch(a, a->keys, keys, n * a->key_bytes);
    fetch(a, a->values, values, value_bytes);
    fetch(a, a->found, found, value_bytes);
    return outcome;
}

/* ---- what rows do ---- */

typedef struct state {
    int there;
    uint64_t value;
} state;

static int stores(uint8_t operation)
{
    return operation == LOOM_APPLY_INSERT || operation == LOOM_APPLY_OVERWRITE || operation == LOOM_APPLY_ADD;
}

static state after_row(const applied *a, uint64_t i, state s)
{
    const uint8_t operation = a->operations[i];
    if (operation == LOOM_APPLY_ERASE)
        return (state){0, 0};
    if (!s.there)
        return stores(operation) ? (state){1, a->given[i]} : s;
    if (operation == LOOM_APPLY_OVERWRITE || operation == LOOM_APPLY_UPDATE)
        s.value = a->given[i];
    if (operation == LOOM_APPLY_ADD)
        s.value = cut_value(a, s.value + a->given[i]);
    return s;
}

static uint8_t status_of(uint8_t operation, state s)
{
    if (stores(operation))
        return s.there ? LOOM_EXISTS : LOOM_OK;
    return s.there ? LOOM_OK : LOOM_NOT_FOUND;
}

static int found_is(const applied *a, uint64_t i, state s)
{
    unsigned char wanted[WIDEST] = {0};
    if (s.there)
        make_bytes(wanted, a->value_bytes, s.value);
    return memcmp(a->found + i * a->value_bytes, wanted, a->value_bytes) == 0;
}

/* Whether this state explains what the row found. */
static int explains_found(const applied *a, uint64_t i, state s)
{
    return !a->asks_found || a->operations[i] != LOOM_APPLY_FIND || found_is(a, i, s);
}

/* ---- what the table holds ---- */

typedef struct lookup {
    uint8_t status;
    _Alignas(8) unsigned char value[WIDEST];
} lookup;

static lookup look_up(const applied *a, uint64_t key)
{
    _Alignas(8) unsigned char bytes[WIDEST];
    lookup l = {0};
    make_key(a, bytes, key);
    CHECK_OK(loom_map_find(a->map, bytes, 1, a->value_bytes > 0 ? l.value : NULL, NULL, &l.status, NULL, NULL));
    return l;
}

static int is_state(const applied *a, const lookup *l, state s)
{
    unsigned char wanted[WIDEST];
    make_bytes(wanted, a->value_bytes, s.value);
    return s.there ? l->status == LOOM_OK && memcmp(wanted, l->value, a->value_bytes) == 0
                   : l->status == LOOM_NOT_FOUND;
}

/* The table holds what the reference says about the batch's keys. */
static void check_held(const applied *a)
{
    for (uint64_t i = 0; i < a->n; i++) {
        const uint64_t key = a->of[i];
        const lookup l = look_up(a, key);
        CHECK(is_state(a, &l, (state){a->present[key], a->held[key]}));
    }
}

static void check_counts(const applied *a, const loom_result *result)
{
    uint64_t counts[256] = {0};
    CHECK_EQ(result->keys, a->n);
    CHECK_EQ(result->ok + result->exists + result->not_found + result->full, a->n);
    CHECK_EQ(result->status, result->full > 0 ? LOOM_FULL : LOOM_OK);
    for (uint64_t i = 0; i < a->n; i++)
        counts[a->status[i]]++;
    if (a->asks_status) {
        CHECK_EQ(result->ok, counts[LOOM_OK]);
        CHECK_EQ(result->exists, counts[LOOM_EXISTS]);
        CHECK_EQ(result->not_found, counts[LOOM_NOT_FOUND]);
        CHECK_EQ(result->full, counts[LOOM_FULL]);
    }
    for (uint64_t i = 0; i < a->n; i++) /* what nobody asked for is not written */
        for (uint32_t b = 0; b < a->value_bytes; b++)
            if (!a->asks_found || a->operations[i] != LOOM_APPLY_FIND)
                CHECK_EQ(a->found[i * a->value_bytes + b], 0xa5);
}

/* ---- in order ---- */

static void check_in_order(applied *a)
{
    uint8_t *refused = test_allocate(a->universe);
    memset(refused, 0, a->universe);
    for (uint64_t i = 0; i < a->n; i++)
        refused[a->of[i]] |= a->status[i] == LOOM_FULL;
    for (uint64_t i = 0; i < a->n; i++) {
        const uint64_t key = a->of[i];
        state s = {a->present[key], a->held[key]};
        test_note("row %llu of %llu, key %llu, operation %d, refused %d", (unsigned long long)i,
                  (unsigned long long)a->n, (unsigned long long)key, a->operations[i], refused[key]);
        if (refused[key]) {
            CHECK(!s.there);
            CHECK_EQ(a->status[i], stores(a->operations[i]) ? LOOM_FULL : LOOM_NOT_FOUND);
            CHECK(!a->asks_found || a->operations[i] != LOOM_APPLY_FIND || found_is(a, i, s));
            continue;
        }
        if (a->asks_status)
            CHECK_EQ(a->status[i], status_of(a->operations[i], s));
        CHECK(explains_found(a, i, s));
        s = after_row(a, i, s);
        a->present[key] = (uint8_t)s.there;
        a->held[key] = s.value;
    }
    check_held(a);
    free(refused);
}

/* ---- in any order ---- */

/* Whether this state explains the row's status. Of several OVERWRITE rows, any one may be told that it stored the key:
 * *owed counts rows that were told so wrongly, less those that should have been told and were not. */
static int explains_status(const applied *a, uint64_t i, state s, int *owed)
{
    const uint8_t status = status_of(a->operations[i], s);
    if (!a->asks_status || a->status[i] == status)
        return 1;
    *owed += a->status[i] == LOOM_OK ? 1 : -1;
    return a->operations[i] == LOOM_APPLY_OVERWRITE && (a->status[i] == LOOM_OK || a->status[i] == LOOM_EXISTS);
}

/* Whether rows of a key that are not in `done` have an order that explains them and ends with *end. Refused rows change
 * nothing, and come while the key is absent. *last: the state in the end. */
static int has_order(const applied *a, const uint64_t *rows, uint32_t count, uint32_t done, state s, int owed,
                     const lookup *end, state *last)
{
    *last = s;
    if (done == (1u << count) - 1)
        return owed == 0 && is_state(a, end, s);
    for (uint32_t k = 0; k < count; k++) {
        const uint64_t i = rows[k];
        int owed_then = owed;
        if (done >> k & 1)
            continue;
        const int refused = a->asks_status && a->status[i] == LOOM_FULL && stores(a->operations[i]) && !s.there;
        if (!refused && !(explains_status(a, i, s, &owed_then) && explains_found(a, i, s)))
            continue;
        if (has_order(a, rows, count, done | 1u << k, refused ? s : after_row(a, i, s), owed_then, end, last))
            return 1;
    }
    return 0;
}

/* Shows the rows of a key if the check that follows fails. */
static void note_key(const applied *a, uint64_t key, const uint64_t *rows, uint32_t count, const lookup *end)
{
    char text[400];
    int at = snprintf(text, sizeof text, "key %llu, before %d (%llx), after: status %d;", (unsigned long long)key,
                      a->present[key], (unsigned long long)a->held[key], end->status);
    for (uint32_t k = 0; k < count && at < (int)sizeof text; k++)
        at += snprintf(text + at, sizeof text - (size_t)at, " operation %d value %llx status %d;",
                       a->operations[rows[k]], (unsigned long long)a->given[rows[k]], a->status[rows[k]]);
    test_note("%s", text);
}

static void check_any_order(applied *a)
{
    uint64_t *next = test_allocate((a->n + 1) * sizeof *next), *newest = test_allocate(a->universe * sizeof *newest);
    memset(newest, 0xff, a->universe * sizeof *newest); /* none */
    for (uint64_t i = 0; i < a->n; i++) {
        next[i] = newest[a->of[i]];
        newest[a->of[i]] = i;
    }
    for (uint64_t key = 0; key < a->universe; key++) {
        uint64_t rows[MOST_OF_KEY];
        uint32_t count = 0;
        for (uint64_t i = newest[key]; i != UINT64_MAX; i = next[i])
            rows[count++] = i;
        if (count == 0)
            continue;
        const lookup end = look_up(a, key);
        state last;
        note_key(a, key, rows, count, &end);
        CHECK(has_order(a, rows, count, 0, (state){a->present[key], a->held[key]}, 0, &end, &last));
        a->present[key] = (uint8_t)last.there;
        a->held[key] = last.value;
    }
    free(next);
    free(newest);
}

/* ---- both ---- */

static loom_result apply_and_check(applied *a, uint64_t n, int in_order)
{
    loom_result result;
    memset(&result, 0xee, sizeof result);
    draw_rows(a, n, in_order ? 1 + random_below(&a->t->random, 40) : 1 + random_below(&a->t->random, MOST_OF_KEY));
    a->asks_status |= in_order || a->may_refuse; /* refused keys are known by them */
    test_note("%llu rows, in order %d, status %d, found %d", (unsigned long long)a->n, in_order, a->asks_status,
              a->asks_found);
    CHECK_OK(call(a, in_order ? LOOM_IN_ORDER : 0, &result));
    if (result.full > 0 && !a->asks_status)
        FAIL("rows were refused");
    check_counts(a, &result);
    if (in_order)
        check_in_order(a);
    else
        check_any_order(a);
    uint64_t present = 0;
    for (uint64_t key = 0; key < a->universe; key++)
        present += a->present[key];
    CHECK_EQ(map_size(a->map), present);
    checked_verify(a->map);
    free_batch_arrays(a);
    return result;
}

static int has_apply(const test_run *t, loom_context *context, loom_type type)
{
    return loom_supports(context, type, t->table->engine, LOOM_FEATURE_APPLY) == LOOM_OK;
}

TEST_EACH_KIND(test_open_apply_random_batches, .every_engine = 1, .timeout_seconds = 180, .leak_check = 1)
{
    const uint64_t tables = test_scaled(t, 6, 2), steps = test_scaled(t, 20, 8);
    for (uint64_t table = 0; table < tables; table++) {
        loom_context *context = make_context(t);
        if (!has_apply(t, context, t->type)) {
            loom_context_destroy(context);
            return;
        }
        loom_map_config config = make_config(t, 1 + random_below(&t->random, 800));
        config.growth = table % 2 ? 2.0 : 0; /* what does not fit is refused, or makes the table grow */
        config.buckets_per_partition = table_case_partition_size(t->table, table % 3 ? 0 : 3);
        applied a = make_applied(t, context, make_map_from(context, &config), t->key_bytes, t->value_bytes, 2000);
        a.may_refuse = config.growth == 0;
        for (uint64_t step = 0; step < steps; step++) {
            const uint64_t n = random_below(&t->random, step % 4 ? 1500 : 20);
            const loom_result result = apply_and_check(&a, n, (int)(step % 2));
            if (config.growth > 0)
                CHECK_EQ(result.full, 0);
        }
        loom_map_destroy(a.map);
        free_applied(&a);
        loom_context_destroy(context);
    }
}

/* Rows of other widths than 4 and 8 bytes, with several threads. */
TEST(test_apply_rows_of_any_width, .every_machine = 1, .threads = 1, .timeout_seconds = 180)
{
    static const uint32_t forms[][2] = {{16, 24}, {5, 3}, {33, 0}, {16, 8}, {12, 64}, {1, 4}};
    for (uint32_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        loom_context *context = make_context_with(t, 3, random_u64(&t->random));
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = forms[form][0];
        config.value_bytes = forms[form][1];
        config.type = config.value_bytes > 0 ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
        config.row_place = form % 2 && config.key_bytes > 1 ? LOOM_ROWS_IN_HOST_MEMORY : LOOM_ROWS_ON_DEVICE;
        config.capacity = 100;
        test_note("%u + %u bytes", config.key_bytes, config.value_bytes);
        applied a = make_applied(t, context, make_map_from(context, &config), config.key_bytes, config.value_bytes,
                                 config.key_bytes == 1 ? 200 : 3000);
        for (int step = 0; step < 8; step++)
            apply_and_check(&a, 300 + (uint64_t)step * 200, step % 2);
        loom_map_destroy(a.map);
        free_applied(&a);
        loom_context_destroy(context);
    }
}

/* Large batches, which threads share and which go by partition; a key that half of the rows have. */
TEST_EACH_KIND(test_open_apply_large_batches, .long_tier = 1, .threads = 1, .every_engine = 1, .timeout_seconds = 180)
{
    const uint64_t n = test_scaled(t, 100000, 60000);
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    if (!has_apply(t, context, t->type)) {
        loom_context_destroy(context);
        return;
    }
    loom_map_config config = make_config(t, n / 2);
    config.growth = 2.0;
    applied a = make_applied(t, context, make_map_from(context, &config), t->key_bytes, t->value_bytes, n);
    for (int step = 0; step < 4; step++) {
        loom_result result;
        draw_rows(&a, n, step % 2 ? 3 : MOST_OF_KEY);
        if (step % 2) {
            for (uint64_t i = 0; i < n; i += 2) {
                a.of[i] = 77;
                make_key(&a, a.keys + i * a.key_bytes, 77);
            }
            a.asks_status = 1;
        }
        CHECK_OK(call(&a, step % 2 ? LOOM_IN_ORDER : 0, &result));
        CHECK_EQ(result.full, 0);
        check_counts(&a, &result);
        if (step % 2)
            check_in_order(&a);
        else
            check_any_order(&a);
        checked_verify(a.map);
        free_batch_arrays(&a);
    }
    loom_map_destroy(a.map);
    free_applied(&a);
    loom_context_destroy(context);
}

static loom_status reaches_nothing(loom__machine *machine, const char *name, const void *array, int *reached)
{
    (void)machine, (void)name, (void)array;
    *reached = 0;
    return LOOM_OK;
}

static loom_status reaches_operations(loom__machine *machine, const char *name, const void *array, int *reached)
{
    (void)machine, (void)array;
    *reached = strcmp(name, "operations") == 0;
    return LOOM_OK;
}

/* A full table: rows that go in some order are refused one by one. */
TEST(test_apply_refuses_rows, .every_machine = 1)
{
    enum { KEYS = 3000 };
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = 500;
    config.growth = 0;
    applied a = make_applied(t, context, make_map_from(context, &config), 8, 8, KEYS);
    uint64_t full[2] = {0};
    a.may_refuse = 1;
    for (int step = 0; step < 8; step++)
        full[step % 2] += apply_and_check(&a, 2500, step % 2).full;
    CHECK(full[0] > 0 && full[1] > 0);
    loom_map_destroy(a.map);
    free_applied(&a);
    loom_context_destroy(context);
}

/* A machine that must be brought most arrays. */
TEST(test_apply_brings_arrays)
{
    for (uint32_t value_bytes = 0; value_bytes <= 24; value_bytes += 8) {
        loom_context *context = make_context_with(t, 1, random_u64(&t->random));
        loom__machine_ops ops = *context->machine->ops;
        ops.reaches = value_bytes % 16 ? reaches_nothing : reaches_operations;
        context->machine->ops = &ops;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = 8;
        config.value_bytes = value_bytes;
        config.type = value_bytes > 0 ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
        config.capacity = 100;
        applied a = make_applied(t, context, make_map_from(context, &config), 8, value_bytes, 1000);
        for (int step = 0; step < 8; step++)
            apply_and_check(&a, 100 + (uint64_t)step * 50, step % 2);
        loom_map_destroy(a.map);
        free_applied(&a);
        loom_context_destroy(context);
    }
}

/* Each request for memory fails in turn, and the call goes on in smaller parts. Without any memory it fails, and the
 * table is as before. Nothing leaks. */
TEST(test_apply_short_of_memory, .timeout_seconds = 120)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        counting_allocator *counting = counting_create();
        loom_context *context = make_counting_context(t, counting, 1);
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = config.value_bytes = 8;
        config.capacity = 4000;
        config.growth = 0;
        applied a = make_applied(t, context, make_map_from(context, &config), 8, 8, 1000);
        for (uint64_t request = 1; request < 24; request++) {
            loom_result result = {0};
            draw_rows(&a, 900, in_order ? 30 : 4);
            a.asks_status = 1;
            a.on_machine = 0;
            counting_fail_at(counting, request);
            const loom_status status = call(&a, in_order ? LOOM_IN_ORDER : 0, &result);
            counting_fail_at(counting, 0);
            test_note("in order %d, request %llu", in_order, (unsigned long long)request);
            CHECK_OK(status); /* one failure makes parts smaller */
            check_counts(&a, &result);
            if (in_order)
                check_in_order(&a);
            else
                check_any_order(&a);
            free_batch_arrays(&a);
        }
        /* Rows of one kind, in any order, need no memory: they go to the table as they are. Others need some for a
         * single row, too: nothing is done. */
        for (int one_kind = 0; one_kind < 2; one_kind++) {
            loom_result result = {0};
            draw_rows(&a, 900, 4);
            a.asks_status = 1;
            a.on_machine = 0;
            for (uint64_t i = 0; i < a.n; i++) /* draw_rows may have drawn one kind for all */
                if (one_kind || i == 0)
                    a.operations[i] = LOOM_APPLY_OVERWRITE;
                else if (i == 1)
                    a.operations[i] = LOOM_APPLY_ERASE;
            test_note("in order %d, one kind %d", in_order, one_kind);
            counting_limit(counting, counting_bytes(counting));
            const loom_status status = call(&a, in_order ? LOOM_IN_ORDER : 0, &result);
            counting_limit(counting, 0);
            CHECK_STATUS(status, one_kind && !in_order ? LOOM_OK : LOOM_OUT_OF_MEMORY);
            if (status == LOOM_OK) {
                check_counts(&a, &result);
                check_any_order(&a);
            } else {
                check_held(&a);
            }
            free_batch_arrays(&a);
        }
        loom_map_destroy(a.map);
        free_applied(&a);
        loom_context_destroy(context);
        counting_destroy(counting);
    }
}

TEST(test_apply_refusals, .every_machine = 1)
{
    const uint8_t all[] = {LOOM_APPLY_FIND,   LOOM_APPLY_INSERT, LOOM_APPLY_OVERWRITE,
                           LOOM_APPLY_UPDATE, LOOM_APPLY_ERASE,  LOOM_APPLY_ADD};
    uint8_t wrong[] = {LOOM_APPLY_FIND, 6, 255}, status[8];
    const uint64_t keys[8] = {1, 2, 3, 4, 5, 6, 7, 8}, values[8] = {10, 20, 30, 40, 50, 60, 70, 80};
    uint64_t found[8];
    loom_context *context = make_context(t);
    for (int engine = 0; engine < 4; engine++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = 8;
        config.value_bytes = engine == 2 ? 0 : 8;
        config.type = engine == 2 ? LOOM_TYPE_SET : engine == 3 ? LOOM_TYPE_MULTIMAP : LOOM_TYPE_MAP;
        config.engine = engine == 1 ? LOOM_ENGINE_PERFECT : LOOM_ENGINE_DEFAULT;
        loom_map *map = make_map_from(context, &config);
        const void *given = engine == 2 ? NULL : values;
        void *finds = engine == 2 ? NULL : found;
        test_note("table %d", engine);
        CHECK_STATUS(loom_supports(context, config.type, config.engine, LOOM_FEATURE_APPLY),
                     engine == 1 ? LOOM_UNSUPPORTED : LOOM_OK);
        if (engine > 0) {
            CHECK_REFUSED(loom_map_apply(map, all, keys, given, 6, 0, finds, status, NULL, NULL), LOOM_UNSUPPORTED);
        } else {
            CHECK_REFUSED(loom_map_apply(map, wrong, keys, given, 3, 0, finds, status, NULL, NULL),
                          LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom_map_apply(map, all, keys, NULL, 6, 0, finds, status, NULL, NULL), LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom_map_apply(map, NULL, keys, given, 6, 0, finds, status, NULL, NULL),
                          LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom_map_apply(map, all, keys, given, 6, LOOM_OVERWRITE, finds, status, NULL, NULL),
                          LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom_map_apply(map, status, keys, given, 6, 0, finds, status, NULL, NULL),
                          LOOM_INVALID_ARGUMENT);
            CHECK_OK(loom_map_apply(map, all, keys, NULL, 1, 0, finds, status, NULL, NULL)); /* a lookup alone */
            CHECK_OK(loom_map_apply(map, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL));
        }
        CHECK_EQ(map_size(map), 0);
        loom_map_destroy(map);
    }
    CHECK_REFUSED(loom_map_apply(NULL, all, keys, values, 6, 0, found, status, NULL, NULL), LOOM_INVALID_ARGUMENT);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 8;
    config.value_bytes = 16; /* no numbers */
    loom_map *map = make_map_from(context, &config);
    unsigned char wide[6 * 16] = {0};
    CHECK_REFUSED(loom_map_apply(map, all, keys, wide, 6, 0, NULL, status, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_OK(loom_map_apply(map, all, keys, wide, 5, LOOM_IN_ORDER, NULL, status, NULL, NULL));
    CHECK_EQ(map_size(map), 2);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A batch without a result reports refused keys as its status. */
TEST(test_apply_tells_refused_keys, .every_machine = 1)
{
    enum { N = 5000 };
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 1000;
    config.growth = 0;
    uint8_t *operations = test_allocate(N);
    uint32_t *keys = test_allocate(N * sizeof *keys);
    memset(operations, LOOM_APPLY_INSERT, N);
    for (uint32_t i = 0; i < N; i++)
        keys[i] = i;
    for (uint32_t flags = 0; flags <= LOOM_IN_ORDER; flags += LOOM_IN_ORDER) {
        loom_map *map = make_map_from(context, &config);
        CHECK_REFUSED(loom_map_apply(map, operations, keys, keys, N, flags, NULL, NULL, NULL, NULL), LOOM_FULL);
        CHECK_GE(map_size(map), 1000);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free(operations);
    free(keys);
    loom_context_destroy(context);
}
