/* Perfect tables that get no memory to reseed a partition. */
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"

#include "engines/perfect/perfect_layout.h"

/* Keys of one cell with equal rotations, one more than a bucket has slots. No code places all of them until the
 * partition gets another salt. */
static batch make_crowd(test_run *t, const loom_map_config *config, uint64_t seed)
{
    loom__perfect_shape shape;
    CHECK_OK(loom__perfect_choose_shape(config, 0, &shape));
    const loom__perfect_view view = loom__perfect_view_make(&shape, seed);
    batch b = make_batch(t, perfect_slots(shape.kind) + 1);
    const uint64_t salt = random_u64(&t->random);
    for (uint64_t i = 0, used = 0; used < b.n; i++) {
        const uint64_t key = distinct_key(t->key_bytes, salt, i);
        const uint64_t hash = loom__hash_key(key, t->key_bytes, view.seed);
        const perfect_place place = perfect_place_of((uint32_t)hash, view.words);
        if (loom__hash_partition(hash, view.partitions) == 0 && perfect_cell(place) == 3 &&
            perfect_rotation(place.remainder, 0, 0) == 5 && perfect_rotation(place.remainder, 0, 1) == 2)
            set_pair(&b, used++, key, value_for(key, t->value_bytes));
    }
    return b;
}

static batch part_of(const batch *b, uint64_t first, uint64_t n)
{
    batch part = make_batch_of(b->key_bytes, b->value_bytes, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&part, i, batch_key(b, first + i), batch_value(b, first + i));
    return part;
}

/* The key that does not fit is refused, and so is its copy in the same call. The next call gets memory and stores the
 * key. */
TEST_EACH_KIND(test_perfect_insert_without_spare_memory, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 1);
    t->engine = LOOM_ENGINE_PERFECT;
    loom_map_config config = make_config(t, 100);
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    batch crowd = make_crowd(t, &config, map_stats(map).seed);
    batch first = part_of(&crowd, 0, crowd.n - 1), last = part_of(&crowd, crowd.n - 1, 1), twice = make_batch(t, 2);
    for (uint64_t i = 0; i < 2; i++)
        set_pair(&twice, i, batch_key(&last, 0), batch_value(&last, 0));

    uint64_t requests = counting_requests(counter);
    CHECK_EQ(checked_insert(map, &first, LOOM_DIRECTLY).ok, first.n);
    CHECK_EQ(counting_requests(counter), requests); /* nothing was needed so far */
    counting_limit(counter, 1);
    /* The stash does not help: it is as large as a bucket, and the cell has one key more. */
    CHECK_EQ(checked_insert(map, &twice, LOOM_DIRECTLY).full, 2);
    CHECK_GT(counting_requests(counter), requests);
    check_contents(map, &first);
    counting_limit(counter, 0);
    CHECK_EQ(checked_insert(map, &last, LOOM_DIRECTLY).ok, 1);
    check_contents(map, &crowd);
    checked_verify(map);

    free_batch(&crowd);
    free_batch(&first);
    free_batch(&last);
    free_batch(&twice);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(counter);
}
