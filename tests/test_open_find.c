/* The value that loom_map_find writes for absent keys: zeros, or the caller's. Stored values may be equal to either. */
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { UNWRITTEN = 0xee };

/* ---- Arrays ------------------------------------------------------------------------------------------- */

/* A copy of `from` that begins `shift` bytes into an array, on the host or where the machine works. */
typedef struct array_at {
    loom_context *context;
    int of_machine;
    void *memory, *at;
    size_t bytes, shift;
} array_at;

static array_at place(loom_context *context, int of_machine, const void *from, size_t bytes, size_t shift)
{
    array_at a = {context, of_machine, NULL, NULL, bytes, shift};
    if (of_machine)
        CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, bytes + shift + 1, &a.memory));
    else
        a.memory = test_allocate(bytes + shift + 1);
    a.at = (unsigned char *)a.memory + shift;
    CHECK_OK(loom_array_copy(context, a.at, from, bytes, NULL));
    return a;
}

static void take_back(array_at *a, void *to)
{
    CHECK_OK(loom_array_copy(a->context, to, a->at, a->bytes, NULL));
    if (a->of_machine)
        loom_array_destroy(a->context, LOOM_ARRAY_MACHINE, a->memory, a->bytes + a->shift + 1);
    else
        free(a->memory);
}

/* ---- Lookups ------------------------------------------------------------------------------------------ */

/* Keys of a table and as many that are absent, and what a lookup must answer. */
typedef struct lookups {
    loom_context *context;
    loom_map *map;
    batch b;          /* its values and statuses are what a call wrote */
    uint64_t *wanted; /* [b.n]: stored values; of absent keys nothing */
    uint8_t *there;   /* [b.n] */
} lookups;

/* Every third stored value is 0, every third is all ones. */
static uint64_t stored_value(const test_run *t, uint64_t i)
{
    return cut_word(i % 3 == 0 ? 0 : i % 3 == 1 ? UINT64_MAX : mix_u64(i), t->value_bytes);
}

/* Stores `size` keys and prepares n lookups, of stored and absent keys in turn. */
static lookups make_lookups(test_run *t, loom_context *context, const loom_map_config *config, uint64_t size,
                            uint64_t n)
{
    lookups l = {.context = context, .map = make_map_from(context, config), .b = make_batch(t, n)};
    const uint64_t salt = random_u64(&t->random);
    batch stored = make_batch(t, size);
    fill_distinct(&stored, salt, 0);
    for (uint64_t i = 0; i < size; i++)
        set_word(stored.values, stored.value_bytes, i, stored_value(t, i));
    CHECK_EQ(checked_build(l.map, &stored, LOOM_KEEP).ok, size);
    l.wanted = test_allocate(n * sizeof *l.wanted);
    l.there = test_allocate(n);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t number = random_below(&t->random, 2 * size + 2);
        l.there[i] = number < size;
        l.wanted[i] = number < size ? stored_value(t, number) : 0;
        set_word(l.b.keys, l.b.key_bytes, i, distinct_key(t->key_bytes, salt, number));
    }
    free_batch(&stored);
    return l;
}

static void free_lookups(lookups *l)
{
    loom_map_destroy(l->map);
    free_batch(&l->b);
    free(l->wanted);
    free(l->there);
}

/* Checks what a call wrote. `absent` is what it had to write for absent keys. */
static void check_answers(const lookups *l, uint64_t absent, int with_status, const loom_result *result)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < l->b.n; i++) {
        const uint64_t wanted = l->there[i] ? l->wanted[i] : absent;
        if (batch_value(&l->b, i) != wanted)
            FAIL("the value of key %llu of %llu, which is %s, is 0x%llx and not 0x%llx", (unsigned long long)i,
                 (unsigned long long)l->b.n, l->there[i] ? "stored" : "absent",
                 (unsigned long long)batch_value(&l->b, i), (unsigned long long)wanted);
        CHECK_EQ(l->b.status[i], !with_status ? UNWRITTEN : l->there[i] ? LOOM_OK : LOOM_NOT_FOUND);
        found += l->there[i];
    }
    if (result) {
        CHECK_EQ(result->ok, found);
        CHECK_EQ(result->not_found, l->b.n - found);
    }
}

/* Which outputs and arrays a call has. */
typedef struct way {
    int with_status, with_result;
    int of_machine; /* arrays, except the value for absent keys */
    int shifted;    /* arrays begin behind an aligned address */
} way;

/* Looks up with this value for absent keys; NULL: without one. */
static void look_up(lookups *l, const uint64_t *value, const way *how)
{
    const batch *b = &l->b;
    const size_t keys_shift = how->shifted ? b->key_bytes : 0, values_shift = how->shifted ? b->value_bytes : 0;
    loom_result result;
    unsigned char absent[9]; /* one byte behind an aligned address: the call takes any */
    if (value)
        memcpy(absent + 1, value, b->value_bytes);
    memset(b->values, UNWRITTEN, b->n * b->value_bytes);
    memset(b->status, UNWRITTEN, b->n);
    memset(&result, UNWRITTEN, sizeof result);
    array_at keys = place(l->context, how->of_machine, b->keys, b->n * b->key_bytes, keys_shift);
    array_at values = place(l->context, how->of_machine, b->values, b->n * b->value_bytes, values_shift);
    array_at status = place(l->context, how->of_machine, b->status, b->n, (size_t)how->shifted);
    array_at told = place(l->context, how->of_machine, &result, sizeof result, 0);
    CHECK_OK(loom_map_find(l->map, keys.at, b->n, values.at, value ? absent + 1 : NULL,
                           how->with_status ? status.at : NULL, how->with_result ? told.at : NULL, NULL));
    memset(absent, 0x55, sizeof absent); /* the call has read it, even if it still runs */
    take_back(&keys, b->keys);
    take_back(&values, b->values);
    take_back(&status, b->status);
    take_back(&told, &result);
    check_answers(l, value ? cut_word(*value, b->value_bytes) : 0, how->with_status, how->with_result ? &result : NULL);
}

static void look_up_every_way(test_run *t, lookups *l)
{
    const uint64_t values[] = {0, UINT64_MAX, 1, UINT64_C(0x8000000080000000), random_u64(&t->random)};
    for (int i = 0; i < 16; i++) {
        const way how = {i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1};
        test_note("%llu lookups, way %d", (unsigned long long)l->b.n, i);
        look_up(l, NULL, &how);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
            look_up(l, &values[v], &how);
    }
}

/* ---- Tests -------------------------------------------------------------------------------------------- */

/* Full tables, in which many keys lie outside of their home bucket; lookups of one key, of a few more than the loops
 * take at once, and of enough for several threads. */
TEST_EACH(test_open_find_absent_value, .every_engine = 1)
{
    static const uint64_t sizes[] = {0, 1, 7, 300, 2000}, counts[] = {1, 9, 63, 700, 17000};
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        loom_map_config config = make_config(t, sizes[i]);
        config.max_load = t->table->largest_load;
        lookups l = make_lookups(t, context, &config, sizes[i], counts[i]);
        look_up_every_way(t, &l);
        free_lookups(&l);
    }
    loom_context_destroy(context);
}

/* Lookups that may overlap with writers take other paths. */
TEST_EACH(test_open_find_absent_value_with_concurrent_reads)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 5000);
    config.max_load = 0.9;
    config.concurrent_reads = 1;
    if (loom_supports(context, LOOM_TYPE_MAP, t->engine, LOOM_FEATURE_CONCURRENT_READS) == LOOM_OK) {
        lookups l = make_lookups(t, context, &config, 5000, 12345);
        look_up_every_way(t, &l);
        free_lookups(&l);
    }
    loom_context_destroy(context);
}

/* The value is for absent keys of lookups alone. */
TEST_EACH(test_open_find_absent_value_changes_nothing_else, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 1000);
    batch b = make_batch(t, 1000), none = make_batch(t, 1000), found = make_batch(t, 1000);
    const uint64_t absent = UINT64_MAX;
    fill_distinct(&b, 1, 0);
    fill_distinct(&none, 1, 1000);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    CHECK_OK(loom_map_find(map, none.keys, none.n, found.values, &absent, NULL, NULL, NULL));
    check_contents(map, &b);
    checked_verify(map);
    CHECK_OK(loom_map_find(map, NULL, 0, NULL, &absent, NULL, NULL, NULL));
    check_none_found(map, &none); /* without a value: zeros again */
    free_batch(&b);
    free_batch(&none);
    free_batch(&found);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A counter: keys that were never counted have the given value. */
TEST_EACH(test_open_find_absent_value_of_counters, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 100);
    config.type = LOOM_TYPE_COUNTER;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, 60);
    const uint64_t absent = UINT64_C(0x7766554433221100);
    fill_distinct(&b, 1, 0);
    CHECK_OK(loom_map_count(map, b.keys, 30, NULL, NULL, NULL));
    CHECK_OK(loom_map_find(map, b.keys, 60, b.values, &absent, NULL, NULL, NULL));
    for (uint64_t i = 0; i < 60; i++)
        CHECK_EQ(batch_value(&b, i), i < 30 ? 1 : cut_word(absent, b.value_bytes));
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_SET(test_open_find_absent_value_of_sets_refused, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *set = make_map(t, context, 100);
    batch b = make_batch(t, 50);
    const uint64_t absent = 1;
    fill_distinct(&b, 1, 0);
    memset(b.status, UNWRITTEN, b.n);
    CHECK_REFUSED(loom_map_find(set, b.keys, 50, NULL, &absent, b.status, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), "absent") != NULL);
    CHECK_REFUSED(loom_map_find(set, NULL, 0, NULL, &absent, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    for (uint64_t i = 0; i < b.n; i++)
        CHECK_EQ(b.status[i], UNWRITTEN);
    CHECK_OK(loom_map_find(set, b.keys, 50, NULL, NULL, b.status, NULL, NULL));
    free_batch(&b);
    loom_map_destroy(set);
    loom_context_destroy(context);
}

/* On the cuda machine each number of lanes has a kernel of its own. */
TEST(test_cuda_find_absent_value_with_all_lanes)
{
    static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_PERFECT};
    need_cuda();
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 2)
        for (uint32_t i = 0; i < 8; i++) {
            loom_context *context = cuda_context_create(t, lanes);
            t->key_bytes = i & 1 ? 8 : 4;
            t->value_bytes = i & 2 ? 8 : 4;
            t->engine = engines[i >> 2];
            loom_map_config config = make_config(t, 5000);
            config.max_load = 0.9;
            lookups l = make_lookups(t, context, &config, 5000, 12345);
            test_note("%u lanes, %u + %u bytes, engine %d", lanes, t->key_bytes, t->value_bytes, (int)t->engine);
            look_up_every_way(t, &l);
            free_lookups(&l);
            loom_context_destroy(context);
        }
}
