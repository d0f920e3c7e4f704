/* How many lines of tags a lookup in a table with rows reads, and how many rows it reads in vain. The engine's opening
 * comment, the guide and docs/performance.md promise these numbers. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "harness/map_fixture.h"

#include "api/map.h"
#include "engines/open/open_ops.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 200000, KEY = 16, VALUE = 8 };

static void make_keys(uint64_t first, uint64_t n, uint64_t *keys)
{
    for (uint64_t i = 0; i < n; i++) {
        keys[2 * i] = mix_u64(first + i);
        keys[2 * i + 1] = mix_u64(~(first + i));
    }
}

/* The rows that a lookup of an absent key reads: those whose slots have its tag, on its probe sequence. */
static uint64_t rows_read_in_vain(const loom__open_view *view, const void *key)
{
    const lane_group alone = {0};
    uint64_t rows = 0;
    lane_truth further = 1;
    for (open_walk walk = open_start(SLOT_TAG, view, (uint64_t)(uintptr_t)key); further; open_advance(view, &walk)) {
        lane_line line;
        lane_take(alone, &line, open_line(SLOT_TAG, &walk, walk.bucket), OPEN_ALONE, 1, open_span(SLOT_TAG));
        lane_slots tagged =
            lane_match(&line, slot_key_bytes(SLOT_TAG), slot_stride(SLOT_TAG), open_slots(SLOT_TAG), walk.tag);
        for (; lane_any(tagged); tagged = lane_rest(tagged, slot_stride(SLOT_TAG)))
            rows++;
        further = walk.depth + 1 < view->buckets &&
                  lane_filter(alone, &line, OPEN_WORD_OFFSET, open_filter_bit(SLOT_TAG, walk.lower));
    }
    return rows;
}

TEST(test_rows_reads_of_lookups)
{
    static const struct {
        double load, hit, miss; /* lines, simulated */
    } wanted[] = {{0.8, 1.02, 1.01}, {0.9, 1.06, 1.04}, {0.95, 1.11, 1.09}};
    uint64_t *keys = test_allocate(KEYS * KEY), *values = test_allocate(KEYS * VALUE);
    memset(values, 0, KEYS * VALUE);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        loom_context *context = make_context(t);
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = KEY;
        config.value_bytes = VALUE;
        config.capacity = KEYS;
        config.max_load = wanted[i].load;
        loom_map *map = make_map_from(context, &config);
        make_keys(0, KEYS, keys);
        CHECK_OK(loom_map_insert(map, keys, values, KEYS, LOOM_KEEP, NULL, NULL, NULL));
        const loom_stats stats = map_stats(map);
        test_note("load %g of %g: %g lines per hit, %g per miss", (double)KEYS / (double)stats.slots, wanted[i].load,
                  stats.accesses_per_hit, stats.accesses_per_miss);
        CHECK(stats.accesses_per_hit < wanted[i].hit + 0.01 && stats.accesses_per_miss < wanted[i].miss + 0.01);
        /* A table may be a little less full than it may be. */
        CHECK(stats.accesses_per_hit > 1 + (wanted[i].hit - 1) / 2);

        const loom__open_view *view = (const loom__open_view *)(const void *)map->handle.table->view;
        uint64_t rows = 0;
        make_keys(KEYS, KEYS, keys);
        for (uint64_t k = 0; k < KEYS; k++)
            rows += rows_read_in_vain(view, keys + 2 * k);
        const double in_vain = (double)rows / KEYS;
        test_note("load %g: %g rows read in vain per miss", wanted[i].load, in_vain);
        CHECK(in_vain > 0.0002 && in_vain < 0.0008);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    free(keys);
    free(values);
}
