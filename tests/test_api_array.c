/* loom_array_create, loom_array_copy and loom_array_destroy: arrays in the memory where the machine works. */
#include "harness/map_fixture.h"

#include <string.h>

TEST_EACH(test_open_array_round_trip)
{
    loom_context *context = make_context(t);
    uint64_t n = 10000;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n), got = make_batch(t, n);
    void *keys = NULL, *values = NULL, *found = NULL;
    fill_distinct(&b, 1, 0);
    CHECK_OK(loom_array_create(context, n * b.key_bytes, &keys));
    CHECK_OK(loom_array_create(context, n * b.value_bytes, &values));
    CHECK_OK(loom_array_create(context, n * b.value_bytes, &found));
    CHECK_OK(loom_array_copy(context, keys, b.keys, n * b.key_bytes, NULL));
    CHECK_OK(loom_array_copy(context, values, b.values, n * b.value_bytes, NULL));
    CHECK_OK(loom_map_insert(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_find(map, keys, n, found, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_array_copy(context, got.values, found, n * b.value_bytes, NULL));
    CHECK_BYTES(got.values, b.values, n * b.value_bytes);
    CHECK_OK(loom_array_copy(context, NULL, NULL, 0, NULL));
    CHECK_REFUSED(loom_array_copy(context, NULL, keys, 1, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_copy(NULL, found, keys, 1, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(context, 0, &keys), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_array_create(context, 8, NULL), LOOM_INVALID_ARGUMENT);
    loom_array_destroy(context, keys, n * b.key_bytes);
    loom_array_destroy(context, values, n * b.value_bytes);
    loom_array_destroy(context, found, n * b.value_bytes);
    loom_array_destroy(context, NULL, 8);
    free_batch(&b);
    free_batch(&got);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
