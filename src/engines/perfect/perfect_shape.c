/* How many partitions, buckets and cells a table gets.
 *
 * A table for n keys must hold any n keys except with a probability below 10^-9. A partition can be filled up to some share of
 * its slots that depends on how many keys a cell has (perfect_room.h has the loads measured; here stands what is counted on);
 * beyond that keys may be refused. Partitions are so many that none gets more, with that probability (core/partitions.h). A table
 * that is made for a low load has few cells for its slots, and refuses its first key earlier, at 0.90 of a partition's slots if it
 * is made for 0.5: far above what its partitions get.
 *
 * Fewer keys to a cell let a partition be fuller, and cost codes: 8 bytes for 15 cells. With 8 slots to a bucket and 4 keys to a
 * cell they are 1.07 bits a key, 13.3 MB for 10^8 keys, with 3.1 keys 17.2 MB: both stay in the L2 cache of a large GPU. Buckets
 * of 16 slots fill more evenly, and do with larger cells.
 *
 * Cells are counted by the keys that a table is made for, not by its slots: a table at half its load has no more codes than a
 * full one of as many keys. */
#include "core/error.h"
#include "core/partitions.h"
#include "engines/perfect/perfect_layout.h"

#include <math.h>

typedef struct cell_plan {
    double cell_keys; /* in a partition that holds its share of the capacity */
    double usable;    /* share of its slots that can be filled, if the table is made for about max_load */
} cell_plan;

#define MODERATE_LOAD 0.9

static cell_plan plan_cells(loom__slot_kind kind, double max_load)
{
    if (perfect_slots(kind) == 16)
        return max_load <= MODERATE_LOAD ? (cell_plan){5.5, 0.97} : (cell_plan){4, 0.985};
    return max_load <= MODERATE_LOAD ? (cell_plan){4, 0.955} : (cell_plan){3.1, 0.98};
}

static double partitions_needed(double keys, double max_load, double usable, double slots)
{
    return loom__partitions_needed(keys, max_load, slots, floor(slots * usable), PERFECT_LEAST_PARTITIONS,
                                   PERFECT_MOST_PARTITIONS);
}

/* Words with cells for so many keys. */
static uint32_t words_for(double keys, double cell_keys)
{
    return (uint32_t)fmin(fmax(ceil(keys / cell_keys / PERFECT_CELLS_PER_WORD), 1), PERFECT_MOST_WORDS);
}

/* A subrange whose partitions fit a GPU's shared memory, values and all: the stash is counted eight times, so that it is a tenth
 * below the largest. */
static uint32_t largest_subrange(loom__slot_kind kind, double max_load)
{
    uint32_t wanted = max_load <= MODERATE_LOAD ? PERFECT_PREFERRED_SUBRANGE : PERFECT_MOST_SUBRANGE;
    uint32_t fitting = (uint32_t)(PERFECT_MOST_BYTES / perfect_partition_bytes(kind, 1));
    return fitting < wanted ? fitting : wanted;
}

loom_status loom__perfect_choose_shape(const loom_map_config *config, loom__perfect_shape *shape)
{
    loom__slot_kind kind = slot_kind_of(config->key_bytes, config->value_bytes);
    const double keys = (double)config->capacity, slots = perfect_slots(kind);
    const cell_plan cells = plan_cells(kind, config->max_load);
    uint32_t first = 1, last = largest_subrange(kind, config->max_load);
    if (config->buckets_per_partition != 0) {
        RETURN_ERROR_IF(
            config->buckets_per_partition % PERFECT_SUBRANGES != 1 || config->buckets_per_partition < 9 ||
                config->buckets_per_partition > perfect_buckets(PERFECT_MOST_SUBRANGE),
            LOOM_INVALID_ARGUMENT,
            "buckets_per_partition = %u: in a perfect table it is 0, or one more than a multiple of %d, from 9 to %u",
            config->buckets_per_partition, PERFECT_SUBRANGES, perfect_buckets(PERFECT_MOST_SUBRANGE));
        first = last = config->buckets_per_partition / PERFECT_SUBRANGES;
    }
    /* Of those within 2 % of the smallest table, the largest partitions. */
    double least = INFINITY, partitions = 0;
    uint32_t subrange = 0;
    for (uint32_t size = first; size <= last; size++)
        least = fmin(least, perfect_buckets(size) *
                                partitions_needed(keys, config->max_load, cells.usable, perfect_buckets(size) * slots));
    for (uint32_t size = last; size >= first && subrange == 0; size--) {
        partitions = partitions_needed(keys, config->max_load, cells.usable, perfect_buckets(size) * slots);
        if (perfect_buckets(size) * partitions <= least * 1.02)
            subrange = size;
    }
    RETURN_ERROR_IF(subrange == 0 || partitions > PERFECT_MOST_PARTITIONS, LOOM_INVALID_ARGUMENT,
                    "capacity %llu is beyond what a perfect table can address; split the keys over several tables",
                    (unsigned long long)config->capacity);
    shape->kind = kind;
    shape->partitions = (uint32_t)partitions;
    shape->subrange = subrange;
    shape->words = words_for(keys / partitions, cells.cell_keys);
    shape->slots = (uint64_t)shape->partitions * perfect_buckets(subrange) * perfect_slots(kind);
    const uint64_t bytes = perfect_partition_bytes(kind, subrange);
    shape->table_bytes = (shape->partitions + perfect_code_pieces(bytes, shape->partitions, shape->words)) * bytes;
    return LOOM_OK;
}

loom__perfect_view loom__perfect_view_make(const loom__perfect_shape *shape, uint64_t seed)
{
    loom__perfect_view view = {0};
    view.partition_bytes = (uint32_t)perfect_partition_bytes(shape->kind, shape->subrange);
    view.partitions = shape->partitions;
    view.subrange = shape->subrange;
    view.words = shape->words;
    view.seed = loom__seed_expand(seed);
    view.kind = shape->kind;
    loom__choose_patterns(view.seed, slot_key_bytes(shape->kind), view.partitions,
                          loom__mix64(seed + 3 * 0x9e3779b97f4a7c15u), view.empty, &view.empty_exception);
    return view;
}
