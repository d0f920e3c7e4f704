/* How many partitions and buckets a table gets.
 *
 * A table for n keys must hold any n keys except with a probability below 10^-9. Keys fall into partitions like balls
 * into bins, and a partition takes keys until its last slot is used (chains visit every bucket), so the table fails
 * exactly when some partition gets more keys than it has slots. With a mean of m keys per partition, Chernoff's bound
 * for more than s of them is
 *     exp(-(s' ln(s' / m) - (s' - m))),  s' = s + 1,
 * and the partitions together at most that times their number. We ask for 10^-10. A partition that can take all n keys
 * cannot fail at all; that is how the smallest tables are made.
 *
 * What follows for packed pairs: partitions of 1747 buckets (12,229 slots) are good up to load 0.92 or so; at 0.95 they
 * would fail once in ten thousand builds of 10^8 keys, so such tables get partitions of up to 3499 buckets. With values outside
 * the line partitions have fewer buckets, so that they, too, fit the shared memory of a GPU (OPEN_MOST_BYTES).
 */
#include "core/error.h"
#include "engines/open/open_layout.h"

#include <math.h>

#define LARGEST_FAILURE_LOG (-23.03) /* ln 10^-10 */

int loom__open_is_prime(uint32_t number)
{
    if (number < 2)
        return 0;
    for (uint32_t divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

static int surely_fits(double keys, double partitions, double slots)
{
    if (slots >= keys)
        return 1;
    /* A partition gets at most this share of the 2^32 upper halves: the shares differ by one hash value. */
    double share = ceil(0x1p32 / partitions) / 0x1p32;
    double mean = keys * share, more = slots + 1;
    if (more <= mean)
        return 0;
    return log(partitions) - (more * log(more / mean) - (more - mean)) <= LARGEST_FAILURE_LOG;
}

/* The fewest partitions of `slots` slots for `keys` keys, give or take 1/256; as a double, since the answer may be absurd
 * (infinite, for a tiny max_load). */
static double partitions_needed(double keys, double max_load, double slots)
{
    double partitions = fmax(OPEN_LEAST_PARTITIONS, ceil(keys / (slots * max_load)));
    double step = 1;
    /* Growing by 1/256 a round, this passes the most partitions after some thousand rounds at the latest. */
    while (partitions <= OPEN_MOST_PARTITIONS && !surely_fits(keys, partitions, slots)) {
        partitions += step;
        step = fmax(1, floor(partitions / 256));
    }
    return partitions;
}

loom_status loom__open_choose_shape(const loom_map_config *config, loom__open_shape *shape)
{
    loom__slot_kind kind = slot_kind_of(config->key_bytes, config->value_bytes);
    double keys = (double)config->capacity, best_buckets = 0, best_partitions = 0;
    uint32_t slots = open_slots(kind);
    uint32_t first = 2, last = config->max_load > 0.92 ? OPEN_MOST_BUCKETS : OPEN_PREFERRED_BUCKETS;
    uint32_t fitting = OPEN_MOST_BYTES / (uint32_t)open_partition_bytes(kind, 2) * 2;
    last = fitting < last ? fitting : last;
    if (config->buckets_per_partition != 0) {
        first = last = config->buckets_per_partition;
        RETURN_ERROR_IF(first > OPEN_MOST_BUCKETS || !loom__open_is_prime(first), LOOM_INVALID_ARGUMENT,
                        "buckets_per_partition = %u: it is 0 or a prime up to %d", first, OPEN_MOST_BUCKETS);
    }

    /* Of those within 2 % of the smallest table, the largest partitions: fewer pieces, the same bytes. But a table of fewer than
     * OPEN_WANTED_PARTITIONS has the smallest that do not make it more: then there is a partition for every block that a GPU
     * can run at once. Small tables have large partitions: they hold more, and nobody builds them in bulk. */
    double all_buckets = keys / config->max_load / slots, least = INFINITY;
    double wanted =
        all_buckets < OPEN_FEW_BUCKETS ? last : fmax(all_buckets / OPEN_WANTED_PARTITIONS, OPEN_LEAST_WANTED);
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
    shape->kind = kind;
    shape->partitions = (uint32_t)best_partitions;
    shape->buckets = (uint32_t)best_buckets;
    shape->slots = (uint64_t)shape->partitions * shape->buckets * slots;
    shape->table_bytes = shape->partitions * open_partition_bytes(kind, shape->buckets);
    return LOOM_OK;
}

static uint32_t partition_of(const loom__open_view *view, uint64_t key)
{
    uint32_t key_bytes = slot_key_bytes((loom__slot_kind)view->kind);
    return loom__hash_partition(loom__hash_key(key, key_bytes, view->seed), view->partitions);
}

/* A pattern for all partitions but one, and another for that one; both from `from` on. Returns where to go on from for
 * patterns that differ from these.
 * There are at least two partitions, so about every second key ends the search; the hash is a bijection of 64-bit words,
 * narrow keys are spread as evenly, and among 2^32 of them one falls elsewhere at once. */
static uint64_t choose_patterns(const loom__open_view *view, uint64_t from, uint64_t patterns[2], uint32_t *exception)
{
    uint64_t key_mask = slot_key_bytes((loom__slot_kind)view->kind) == 4 ? 0xffffffffu : UINT64_MAX;
    patterns[0] = patterns[1] = from & key_mask;
    *exception = partition_of(view, patterns[0]);
    do {
        patterns[1] = (patterns[1] + 1) & key_mask;
    } while (partition_of(view, patterns[1]) == *exception);
    return patterns[1] + 1;
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

    uint64_t from = loom__mix64(seed + 3 * 0x9e3779b97f4a7c15u);
    from = choose_patterns(&view, from, view.empty, &view.empty_exception);
    choose_patterns(&view, from, view.retired, &view.retired_exception);
    return view;
}
