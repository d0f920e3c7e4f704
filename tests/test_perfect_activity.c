/* What loom_map_activity tells about the stashes of a perfect table. */
#include "harness/map_fixture.h"

enum { CAPACITY = 20000 };

static uint64_t stashed_cells(loom_map *map)
{
    loom_activity activity = LOOM_ACTIVITY_INIT;
    CHECK_OK(loom_map_activity(map, &activity, NULL));
    return activity.stashed_cells;
}

/* Fills a table that may not grow until it refuses keys. Its stashes are then in use. */
static loom_map *make_overfull(test_run *t, loom_context *context, batch *b)
{
    t->engine = LOOM_ENGINE_PERFECT;
    loom_map_config config = make_config(t, CAPACITY);
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    batch few = copy_batch(b);
    few.n = CAPACITY / 2;
    checked_insert(map, &few, LOOM_KEEP);
    CHECK_EQ(map_stats(map).stashed, 0);
    CHECK_EQ(stashed_cells(map), 0);
    CHECK_GT(checked_insert(map, b, LOOM_KEEP).full, 0);
    free_batch(&few);
    return map;
}

TEST_EACH_KIND(test_perfect_activity_counts_stashed_cells, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    batch b = make_batch(t, 2 * CAPACITY);
    loom_map *clone, *loaded;
    fill_distinct(&b, random_u64(&t->random), 0);
    loom_map *map = make_overfull(t, context, &b);
    const loom_stats stats = map_stats(map);
    const uint64_t cells = stashed_cells(map);
    CHECK_GT(stats.stashed, 0);
    CHECK_GT(cells, 0);
    CHECK_LE(stats.stashed, cells * stats.slots_per_bucket); /* a stash is one bucket */
    CHECK_LE(cells, b.n);

    /* Clones and loaded tables have the same stashes, and count from 0. */
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    CHECK_EQ(map_stats(clone).stashed, stats.stashed);
    CHECK_EQ(stashed_cells(clone), 0);
    CHECK_OK(loom_map_save(map, test_path(t, "file"), NULL));
    CHECK_OK(loom_map_load(context, test_path(t, "file"), &loaded, NULL));
    CHECK_EQ(map_stats(loaded).stashed, stats.stashed);
    CHECK_EQ(stashed_cells(loaded), 0);
    loom_map_destroy(loaded);
    loom_map_destroy(clone);

    /* A larger table needs no stash. The count stays. */
    CHECK_OK(loom_map_reserve(map, 4 * CAPACITY, NULL));
    CHECK_EQ(map_stats(map).stashed, 0);
    CHECK_EQ(stashed_cells(map), cells);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    CHECK_EQ(stashed_cells(map), cells);
    checked_build(map, &b, LOOM_KEEP);
    CHECK_EQ(map_stats(map).stashed, 0);
    CHECK_EQ(stashed_cells(map), cells);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    CHECK_OK(loom_map_shrink(map, NULL)); /* without keys to move */
    CHECK_EQ(stashed_cells(map), cells);
    CHECK_OK(loom_map_set_growth(map, 2));
    CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_GE(stashed_cells(map), cells);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}
