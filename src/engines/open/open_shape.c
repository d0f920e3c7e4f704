/* How many partitions and buckets a table gets.
 *
 * Keys fall into partitions like balls into bins (core/partitions.h). A partition accepts keys until its last slot is
 * used, because probe sequences visit every bucket. Hence a table refuses keys exactly when some partition gets more
 * keys than it has slots.
 *
 * Consequences for packed pairs: partitions of 1747 buckets (12,229 slots) suffice up to a load of about 0.92. At 0.95,
 * one in ten thousand builds of 10^8 keys would fail with them. Therefore partitions have up to 3499 buckets above
 * 0.92. With a row of values behind each line, partitions have fewer buckets so that they, too, fit the shared
 * memory of a GPU (OPEN_MOST_BYTES).
 */
#include "core/error.h"
#include "core/partitions.h"
#include "core/table.h"
#include "engines/open/open.h"
#include "engines/open/open_layout.h"
#include "engines/open/open_rows.h"

#include <math.h>

int loom__open_is_prime(uint32_t number)
{
    if (number < 2)
        return 0;
    for (uint32_t divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

static double partitions_needed(double keys, double max_load, double slots)
{
    return loom__partitions_needed(keys, max_load, slots, slots, OPEN_LEAST_PARTITIONS, OPEN_MOST_PARTITIONS);
}

loom_status loom__open_choose_sized(const loom_map_config *config, loom__slot_kind kind, uint32_t fitting,
                                    uint32_t preferred, loom__description *is)
{
    double keys = (double)config->capacity, best_buckets = 0, best_partitions = 0;
    uint32_t slots = open_slots(kind);
    uint32_t first = 2, last = config->max_load > 0.92 ? OPEN_MOST_BUCKETS : OPEN_PREFERRED_BUCKETS;
    last = fitting < last ? fitting : last;
    if (config->buckets_per_partition != 0) {
        first = last = config->buckets_per_partition;
        RETURN_ERROR_IF(first > OPEN_MOST_BUCKETS || !loom__open_is_prime(first), LOOM_INVALID_ARGUMENT,
                        "buckets_per_partition = %u: it is 0 or a prime up to %d", first, OPEN_MOST_BUCKETS);
    }

    /* Candidates are the partition sizes whose table is within 2 % of the smallest. A large table takes the largest
     * candidate: fewer partitions for the same bytes. A table that would have fewer than OPEN_WANTED_PARTITIONS takes
     * the smallest candidate that does not give it more partitions than OPEN_WANTED_PARTITIONS. A GPU then has a
     * partition for every thread block that it runs at once. A table of fewer than OPEN_FEW_BUCKETS takes the largest
     * candidate: large partitions can be filled further, and nobody builds small tables in bulk. If a size is
     * preferred, a table takes the smallest candidate from that size on, unless it would take a smaller one anyway. */
    double all_buckets = keys / config->max_load / slots, least = INFINITY;
    double wanted =
        all_buckets < OPEN_FEW_BUCKETS ? last : fmax(all_buckets / OPEN_WANTED_PARTITIONS, OPEN_LEAST_WANTED);
    if (preferred > 0)
        wanted = fmin(wanted, preferred);
    for (uint32_t buckets = first; buckets <= last; buckets++)
        if (loom__open_is_prime(buckets))
            least = fmin(least, buckets * partitions_needed(keys, config->max_load, buckets * slots));
    for (uint32_t buckets = last; buckets >= first; buckets--) {
        if (!loom__open_is_prime(buckets) || (best_buckets > 0 && buckets < wanted))
            continue;
        double partitions = partitions_needed(keys, config->max_load, buckets * slots);
        if (buckets * partitions <= least * 1.02) {
            best_buckets = buckets;
            best_partitions = partitions;
        }
    }
    RETURN_ERROR_IF(best_partitions > OPEN_MOST_PARTITIONS, LOOM_INVALID_ARGUMENT,
                    "capacity %llu is beyond what an open table can address; split the keys over several tables",
                    (unsigned long long)config->capacity);
    is->partitions = (uint32_t)best_partitions;
    is->buckets = (uint32_t)best_buckets;
    return LOOM_OK;
}

loom_status loom__open_choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const loom__slot_kind kind = slot_kind_of(config->key_bytes, config->value_bytes);
    (void)machine;
    return loom__open_choose_sized(config, kind, OPEN_MOST_BYTES / (uint32_t)open_partition_bytes(kind, 2) * 2, 0, is);
}

loom__open_view loom__open_view_make(const loom__open_shape *shape, uint64_t seed)
{
    loom__open_view view = {0};
    view.partition_bytes = (uint32_t)open_partition_bytes(shape->kind, shape->buckets);
    view.partitions = shape->partitions;
    view.buckets = shape->buckets;
    view.seed = loom__seed_expand(seed);
    view.kind = shape->kind;
    view.eager_depth = shape->buckets / OPEN_EAGER_SHARE;

    if (slot_has_tag(shape->kind)) { /* free slots have tag 0 */
        view.retired[0] = view.retired[1] = OPEN_RETIRED_TAG;
        return view;
    }
    uint64_t from = loom__mix64(seed + 3 * 0x9e3779b97f4a7c15u);
    const uint32_t key_bytes = slot_key_bytes(shape->kind);
    from = loom__choose_patterns(view.seed, key_bytes, view.partitions, from, view.empty, &view.empty_exception);
    loom__choose_patterns(view.seed, key_bytes, view.partitions, from, view.retired, &view.retired_exception);
    return view;
}
