/* How many partitions, buckets and cells a table gets.
 *
 * A table for n keys must hold any n keys; the probability that it does not is below 10^-9. Keys can fill a partition
 * up to a share of its slots. This share depends on the number of slots per cell; beyond it the partition may refuse
 * keys. A table gets enough partitions that, with the same bound on the probability, none gets more keys than its share
 * (core/partitions.h).
 *
 * With fewer keys per cell a partition can be fuller, but codes take more memory: 8 bytes for 15 cells. With 8 slots
 * per bucket and 4 keys per cell, codes take 1.07 bits a key, 13.3 MB for 10^8 keys; with 3 keys per cell 17.8 MB. Both
 * stay in the L2 cache of a large GPU. A table made for a load below 0.9 can have larger cells. Their codes are found
 * in caches more often, and the cells are placed sooner. Buckets of 16 slots fill more evenly, so their tables can have
 * larger cells, too.
 *
 * Codes should stay in the L2 cache. On an H200, with 60 MB of L2 cache, lookups are slower from about 20 MB of codes
 * on, which is 2 · 10^8 keys. So larger tables get more keys per cell, until a third of the cache holds the codes, or
 * the load leaves no room for larger cells. With 4 · 10^8 keys, larger cells raised lookups from 26.5 to 31.1 G/s at
 * load 0.53 (8.25 instead of 6 keys per cell), and from 23.8 to 25.4 G/s at load 0.8 (5.375 instead of 4.5 keys per
 * cell). The price: insertions near the table's maximum load are slower, 1.1 G/s at 0.8. At load 0.9 larger cells need
 * partitions twice as large. Lookups with 4.75 keys per cell ran at 24.3 G/s instead of 22.9. But insertions with 4.875
 * keys per cell ran at only 0.055 G/s, most likely because a few of 16,000 partitions must be reseeded while they fill,
 * which takes 30 ms and more. So above 0.8 cells are larger only if the config asks for it (keys_per_cell).
 *
 * The size of partitions limits the load. In the fullest of thousands of partitions, the number of keys exceeds the
 * mean by 8 times the root of the mean. With 1729 buckets of 8 slots the excess is 0.065 of the slots. Partitions of
 * this size fully reach a load of 0.9, and at most 0.93. For higher loads partitions are twice as large. For a load of
 * 0.95 they reach 0.948 with 10^8 keys, and 0.947 with 10^9. Partitions with values outside the lines are smaller,
 * since a partition must fit a GPU's shared memory. Tables with these partitions reach 0.93 (8 + 8 bytes) to 0.94. */
#include "core/error.h"
#include "core/partitions.h"
#include "engines/perfect/perfect_layout.h"

#include <math.h>

#define MODERATE_LOAD     0.9
#define LARGEST_CELLS     12.0 /* keys per cell, on average */
#define LARGER_CELLS_LOAD 0.8  /* up to this load the library enlarges cells to keep codes in a cache */

/* A piecewise linear function through some points, constant before the first and behind the last. */
typedef struct point {
    double x, y;
} point;

static double on_line(const point *points, int count, double x)
{
    int i = 1;
    while (i < count - 1 && x > points[i].x)
        i++;
    const point *from = &points[i - 1], *to = &points[i];
    double way = fmin(fmax((x - from->x) / (to->x - from->x), 0), 1);
    return from->y + way * (to->y - from->y);
}

#define ON_LINE(points, x) on_line(points, sizeof(points) / sizeof *(points), x)

/* With 16 slots per bucket, cells are larger by this factor. */
static double wider(loom__slot_kind kind)
{
    return perfect_slots(kind) == 16 ? 5.5 / 4 : 1;
}

static double keys_per_cell(loom__slot_kind kind, double max_load)
{
    static const point eight[] = {{0.55, 6}, {0.8, 4.5}, {0.9, 4}, {0.95, 3}};
    return ON_LINE(eight, max_load) * wider(kind);
}

/* The share of a partition's slots that the shape relies on. In measurements, at most 3 partitions in 1,000 refused a
 * key before they were that full (docs/performance.md). A partition that refuses a key is reseeded, up to three times
 * (perfect_room.h). test_perfect_insert_load_reached prints the loads reached. */
static double usable_share(loom__slot_kind kind, double slots_per_cell)
{
    static const point eight[] = {{3.2, 0.9925}, {4.5, 0.967}, {5.65, 0.94}, {8, 0.77},
                                  {11, 0.67},    {20, 0.5},    {40, 0.3}};
    static const point sixteen[] = {{3.2, 0.995}, {4.5, 0.982}, {5.65, 0.967}, {8, 0.93},
                                    {11, 0.88},   {20, 0.68},   {40, 0.4}};
    const double x = slots_per_cell / wider(kind);
    const double share = perfect_slots(kind) == 16 ? ON_LINE(sixteen, x) : ON_LINE(eight, x);
    return x > 40 ? share * 40 / x : share;
}

/* Words of codes for `keys` keys. */
static uint32_t words_for(double keys, double cell_keys)
{
    const double rounding = 1e-9; /* a table made again with its own keys_per_cell gets the same words */
    return (uint32_t)fmin(fmax(ceil(keys / cell_keys / PERFECT_CELLS_PER_WORD - rounding), 1), PERFECT_MOST_WORDS);
}

/* The largest subrange whose partition fits a GPU's shared memory, values included. */
static uint32_t largest_subrange(loom__slot_kind kind)
{
    uint32_t subrange = PERFECT_MOST_SUBRANGE;
    while (perfect_partition_bytes(kind, subrange) > PERFECT_MOST_BYTES)
        subrange--;
    return subrange;
}

static double slots_in(loom__slot_kind kind, uint32_t subrange)
{
    return perfect_buckets(subrange) * (double)perfect_slots(kind);
}

/* Keys that a partition holds, by usable_share. */
static double made_for(loom__slot_kind kind, uint32_t subrange, uint32_t words)
{
    const double slots = slots_in(kind, subrange);
    return floor(slots * usable_share(kind, slots / ((double)words * PERFECT_CELLS_PER_WORD)));
}

static double partitions_needed(loom__slot_kind kind, double keys, double max_load, double cell_keys, uint32_t subrange)
{
    const double slots = slots_in(kind, subrange);
    return loom__fewest_partitions(keys, max_load, slots,
                                   made_for(kind, subrange, words_for(slots * max_load, cell_keys)),
                                   PERFECT_LEAST_PARTITIONS, PERFECT_MOST_PARTITIONS);
}

/* Do partitions of this size reach the load? */
static int reaches(loom__slot_kind kind, double keys, double max_load, double cell_keys, uint32_t subrange)
{
    return slots_in(kind, subrange) * partitions_needed(kind, keys, max_load, cell_keys, subrange) * max_load <
           keys * 1.002;
}

/* The largest subrange that tables usually get: a GPU builds larger partitions more slowly. */
static uint32_t usual_subrange(loom__slot_kind kind)
{
    const uint32_t largest = largest_subrange(kind);
    return largest < PERFECT_PREFERRED_SUBRANGE ? largest : (uint32_t)PERFECT_PREFERRED_SUBRANGE;
}

/* The average number of keys per cell, if the config leaves the choice to the library. Cells are larger than usual
 * while the codes need more than a third of the cache and partitions of this size still reach the load. */
static double choose_cells(loom__slot_kind kind, double keys, double max_load, uint32_t subrange, uint64_t cache_bytes)
{
    const double step = 0.125, most_cells = (double)cache_bytes / 3 / 8 * PERFECT_CELLS_PER_WORD;
    double cell_keys = keys_per_cell(kind, max_load);
    while (cache_bytes != 0 && max_load <= LARGER_CELLS_LOAD && keys / cell_keys > most_cells &&
           cell_keys + step <= LARGEST_CELLS && reaches(kind, keys, max_load, cell_keys + step, subrange))
        cell_keys += step;
    return cell_keys;
}

/* The largest partitions to consider. */
static uint32_t last_subrange(loom__slot_kind kind, double keys, double max_load, double cell_keys)
{
    const int as_usual = max_load <= MODERATE_LOAD && cell_keys <= keys_per_cell(kind, max_load);
    const uint32_t usual = usual_subrange(kind);
    return as_usual || reaches(kind, keys, max_load, cell_keys, usual) ? usual : largest_subrange(kind);
}

static loom_status check_config(const loom_map_config *config)
{
    const uint32_t buckets = config->buckets_per_partition;
    RETURN_ERROR_IF(
        buckets != 0 && (buckets % PERFECT_SUBRANGES != 1 || buckets < perfect_buckets(1) ||
                         buckets > perfect_buckets(PERFECT_MOST_SUBRANGE)),
        LOOM_INVALID_ARGUMENT,
        "buckets_per_partition = %u: in a perfect table it is 0, or one more than a multiple of %d, from %u to %u",
        buckets, PERFECT_SUBRANGES, perfect_buckets(1), perfect_buckets(PERFECT_MOST_SUBRANGE));
    RETURN_ERROR_IF(!(config->keys_per_cell >= 0 && config->keys_per_cell <= LARGEST_CELLS), LOOM_INVALID_ARGUMENT,
                    "keys_per_cell = %g: it is above 0 and at most %g, or 0, for the library to choose",
                    config->keys_per_cell, LARGEST_CELLS);
    return LOOM_OK;
}

loom_status loom__perfect_choose_shape(const loom_map_config *config, uint64_t cache_bytes, loom__perfect_shape *shape)
{
    RETURN_IF_FAILED(check_config(config));
    const loom__slot_kind kind = slot_kind_of(config->key_bytes, config->value_bytes);
    const double keys = (double)config->capacity, load = config->max_load;
    const uint32_t asked = config->buckets_per_partition / PERFECT_SUBRANGES;
    const double cell_keys =
        config->keys_per_cell != 0
            ? config->keys_per_cell
            : choose_cells(kind, keys, load, asked != 0 ? asked : usual_subrange(kind), cache_bytes);
    const uint32_t first = asked != 0 ? asked : 1,
                   last = asked != 0 ? asked : last_subrange(kind, keys, load, cell_keys);
    /* Takes the largest partitions whose table is within 1 % of the smallest table. */
    double least = INFINITY, partitions = 0;
    uint32_t subrange = 0;
    for (uint32_t size = first; size <= last; size++)
        least = fmin(least, perfect_buckets(size) * partitions_needed(kind, keys, load, cell_keys, size));
    for (uint32_t size = last; size >= first && subrange == 0; size--) {
        partitions = partitions_needed(kind, keys, load, cell_keys, size);
        if (perfect_buckets(size) * partitions <= least * 1.01)
            subrange = size;
    }
    RETURN_ERROR_IF(subrange == 0 || partitions > PERFECT_MOST_PARTITIONS, LOOM_INVALID_ARGUMENT,
                    "capacity %llu is beyond what a perfect table can address; split the keys over several tables",
                    (unsigned long long)config->capacity);
    shape->kind = kind;
    shape->partitions = (uint32_t)partitions;
    shape->subrange = subrange;
    shape->words = words_for(slots_in(kind, subrange) * load, cell_keys);
    shape->slots = (uint64_t)shape->partitions * perfect_buckets(subrange) * perfect_slots(kind);
    shape->table_bytes = shape->partitions * (perfect_partition_bytes(kind, subrange) + shape->words * 8ull);
    return LOOM_OK;
}

double loom__perfect_keys_per_cell(const loom__perfect_shape *shape, double load)
{
    return slots_in(shape->kind, shape->subrange) * load / ((double)shape->words * PERFECT_CELLS_PER_WORD);
}

loom__perfect_view loom__perfect_view_make(const loom__perfect_shape *shape, uint64_t seed)
{
    loom__perfect_view view = {0};
    view.partition_bytes = (uint32_t)perfect_partition_bytes(shape->kind, shape->subrange);
    view.partitions = shape->partitions;
    view.subrange = shape->subrange;
    view.words = shape->words;
    view.made_for = (uint32_t)made_for(shape->kind, shape->subrange, shape->words);
    view.seed = loom__seed_expand(seed);
    view.kind = shape->kind;
    loom__choose_patterns(view.seed, slot_key_bytes(shape->kind), view.partitions,
                          loom__mix64(seed + 3 * 0x9e3779b97f4a7c15u), view.empty, &view.empty_exception);
    return view;
}
