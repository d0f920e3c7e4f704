/* loom_array_create, loom_array_copy and loom_array_destroy: arrays in the memory where the machine works, and in
 * pinned memory. */
#include "harness/map_fixture.h"

#include <string.h>

static void check_round_trip(test_run *t, loom_array_place place)
{
    loom_context *context = make_context(t);
    uint64_t n = 10000;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n), got = make_batch(t, n);
    void *keys = NULL, *values = NULL, *found = NULL;
    fill_distinct(&b, 1, 0);
    CHECK_OK(loom_array_create(context, place, n * b.key_bytes, &keys));
    CHECK_OK(loom_array_create(context, place, n * b.value_bytes, &values));
    CHECK_OK(loom_array_create(context, place, n * b.value_bytes, &found));
    CHECK_OK(loom_array_copy(context, keys, b.keys, n * b.key_bytes, NULL));
    CHECK_OK(loom_array_copy(context, values, b.values, n * b.value_bytes, NULL));
    CHECK_OK(loom_map_insert(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_find(map, keys, n, found, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_array_copy(context, got.values, found, n * b.value_bytes, NULL));
    CHECK_BYTES(got.values, b.values, n * b.value_bytes);
    CHECK_OK(loom_array_copy(context, NULL, NULL, 0, NULL));
    CHECK_REFUSED(loom_array_copy(context, NULL, keys, 1, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_copy(NULL, found, keys, 1, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(context, place, 0, &keys), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(context, place, 8, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(context, (loom_array_place)2, 8, &keys), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(NULL, place, 8, &keys), LOOM_INVALID_ARGUMENT);
    loom_array_destroy(context, place, keys, n * b.key_bytes);
    loom_array_destroy(context, place, values, n * b.value_bytes);
    loom_array_destroy(context, place, found, n * b.value_bytes);
    loom_array_destroy(context, place, NULL, 8);
    free_batch(&b);
    free_batch(&got);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH(test_open_array_round_trip)
{
    check_round_trip(t, LOOM_ARRAY_MACHINE);
}

/* The host reads and writes a pinned array itself. */
TEST_EACH(test_open_array_pinned)
{
    loom_context *context = make_context(t);
    void *array = NULL;
    check_round_trip(t, LOOM_ARRAY_PINNED);
    CHECK_OK(loom_array_create(context, LOOM_ARRAY_PINNED, 1000, &array));
    memset(array, 7, 1000);
    CHECK_EQ(((unsigned char *)array)[999], 7);
    loom_array_destroy(context, LOOM_ARRAY_PINNED, array, 1000);
    loom_context_destroy(context);
}
