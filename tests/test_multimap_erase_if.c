/* Pairs erased by their value: lists of several lengths and pieces, and the way of machines without a kernel for it. */
#include "api/map.h"
#include "harness/multimap_model.h"

static number_range up_to(const test_run *t, uint64_t most)
{
    return (number_range){t->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32, 0, 1, 0, most};
}

static number_range only(const test_run *t, uint64_t value)
{
    number_range range = up_to(t, value);
    range.has_least = 1;
    range.least = value;
    return range;
}

/* Key i gets i values, in several calls, so that lists have room, and chains several buckets. The values of a key are
 * 0, 1, 2 … in a scattered order. */
static void fill(multimap_model *m, uint64_t keys, uint64_t calls)
{
    for (uint64_t call = 0; call < calls; call++) {
        batch b = make_batch(m->t, keys * keys);
        uint64_t rows = 0;
        for (uint64_t key = 0; key < keys; key++)
            for (uint64_t i = call; i < key; i += calls)
                set_pair(&b, rows++, key, i * 7919 % key);
        b.n = rows;
        CHECK_EQ(multimap_insert(m, &b, LOOM_KEEP).ok, rows);
        free_batch(&b);
    }
}

static multimap_model make_filled(test_run *t, loom_context *context, uint64_t keys, uint64_t calls)
{
    loom_map_config config = make_multimap_config(t, 0, 0);
    config.growth = 2;
    if (t->engine == LOOM_ENGINE_CHAIN) {
        config.first_bucket = 1 + random_below(&t->random, 4);
        config.bucket_growth = 1 + (double)random_below(&t->random, 3) / 2;
    }
    multimap_model m = make_multimap_model(t, context, &config);
    fill(&m, keys, calls);
    return m;
}

/* Single values, the first half of all, none, what the values of one key are, and all. Lists grow again afterwards. */
static void erase_ranges(multimap_model *m, uint64_t keys)
{
    const uint64_t size = m->size;
    for (uint64_t i = 0; i < 5; i++) {
        const number_range one = only(m->t, i * i);
        CHECK_EQ(multimap_erase_if(m, &one).ok, keys - 1 > i * i ? keys - 1 - i * i : 0);
    }
    multimap_compare(m);
    const number_range few = up_to(m->t, keys / 3), none = only(m->t, keys), all = up_to(m->t, keys);
    CHECK(multimap_erase_if(m, &few).ok > 0);
    multimap_compare(m);
    CHECK_EQ(multimap_erase_if(m, &none).exists, m->size);
    fill(m, keys, 3);
    multimap_compare(m);
    const number_range again = up_to(m->t, 0);
    CHECK_EQ(multimap_erase_if(m, &again).ok, keys - 1);
    multimap_compare(m);
    CHECK_EQ(multimap_erase_if(m, &all).exists, 0);
    CHECK_EQ(map_distinct(m->map), 0);
    fill(m, keys, 1);
    CHECK_EQ(m->size, size);
    multimap_compare(m);
}

TEST_EACH_MULTIMAP(test_multimap_erase_if_lists)
{
    const uint64_t keys = test_scaled(t, 120, 40);
    for (uint64_t calls = 1; calls < 30; calls += 9) {
        loom_context *context = make_multimap_context(t);
        if (!multimap_form_has_ranges(t, context))
            return;
        test_note("lists made by %llu calls", (unsigned long long)calls);
        multimap_model m = make_filled(t, context, keys, calls);
        erase_ranges(&m, keys);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* A set of values that is empty, a wrong number and a NaN are refused or erase nothing, as with maps. */
TEST_EACH_MULTIMAP(test_multimap_erase_if_arguments)
{
    const uint64_t nan = UINT64_MAX, keys = 20;
    loom_context *context = make_multimap_context(t);
    if (!multimap_form_has_ranges(t, context))
        return;
    multimap_model m = make_filled(t, context, keys, 2);
    const loom_number wide = t->value_bytes == 8 ? LOOM_NUMBER_F64 : LOOM_NUMBER_F32;
    const loom_number other = t->value_bytes == 8 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64;
    CHECK_REFUSED(loom_map_erase_if(m.map, wide, &nan, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_if(m.map, other, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    number_range empty = only(t, 5);
    empty.least = 6;
    CHECK_EQ(multimap_erase_if(&m, &empty).ok, 0);
    multimap_compare(&m);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* The core's way, for machines without a kernel: it copies pairs out, some at a time, and erases them. A list is longer
 * than what it copies at once. */
TEST_EACH_MULTIMAP(test_multimap_erase_if_without_kernel, .cpu_only = 1)
{
    const uint64_t keys = 30, n = 70000;
    loom_context *context = make_multimap_context(t);
    if (!multimap_form_has_ranges(t, context))
        return;
    multimap_model m = make_filled(t, context, keys, 3);
    loom__map_kernels kernels = *(const loom__map_kernels *)m.map->handle.table->kernels;
    kernels.erase_if = NULL;
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, UINT64_MAX, n - i);
    CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, n);
    m.map->handle.table->kernels = &kernels;
    number_range range = up_to(t, n - 5);
    range.has_least = 1;
    range.least = n - n / 50;
    CHECK_EQ(multimap_erase_if(&m, &range).ok, n / 50 - 4);
    multimap_compare(&m);
    range = up_to(t, keys / 2);
    CHECK(multimap_erase_if(&m, &range).ok > keys);
    multimap_compare(&m);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}
