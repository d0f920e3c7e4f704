#include "core/partitions.h"

#include <math.h>

#define LARGEST_FAILURE_LOG (-23.03) /* ln 10^-10 */

static int surely_fits(double keys, double partitions, double usable, int sharply)
{
    if (usable >= keys)
        return 1;
    /* A partition gets at most this share of the 2^32 upper halves: shares differ by one hash value. */
    double share = ceil(0x1p32 / partitions) / 0x1p32;
    double mean = keys * share, more = usable + 1;
    if (more <= mean)
        return 0;
    double bound = log(partitions) - (more * log(more / mean) - (more - mean));
    if (sharply) {
        const double two_pi = 6.283;
        bound -= fmax(0, log(two_pi * more * (1 - more / keys)) / 2 + log(1 - mean / (more + 1)));
    }
    return bound <= LARGEST_FAILURE_LOG;
}

double loom__partitions_needed(double keys, double max_load, double slots, double usable, double least, double most)
{
    double partitions = fmax(least, ceil(keys / (slots * max_load)));
    double step = 1;
    /* Growing by 1/256 a round, this passes `most` after a few thousand rounds at the latest. */
    while (partitions <= most && !surely_fits(keys, partitions, usable, 0)) {
        partitions += step;
        step = fmax(1, floor(partitions / 256));
    }
    return partitions;
}

double loom__fewest_partitions(double keys, double max_load, double slots, double usable, double least, double most)
{
    double too_few = fmax(least, ceil(keys / (slots * max_load)));
    double partitions = loom__partitions_needed(keys, max_load, slots, usable, least, most);
    if (surely_fits(keys, too_few, usable, 1))
        return too_few;
    while (partitions - too_few > 1) {
        double between = floor((partitions + too_few) / 2);
        if (surely_fits(keys, between, usable, 1))
            partitions = between;
        else
            too_few = between;
    }
    return partitions;
}

/* The search ends. With at least two partitions, at least about every second key falls into another partition than the
 * first pattern. The hash is a bijection of 64-bit words, so 8-byte keys fill all partitions. 4-byte keys are spread as
 * evenly, and there are 2^32 of them. */
uint64_t loom__choose_patterns(loom__seed seed, uint32_t key_bytes, uint32_t partitions, uint64_t from,
                               uint64_t patterns[2], uint32_t *exception)
{
    const uint64_t key_mask = key_bytes == 4 ? 0xffffffffu : UINT64_MAX;
    patterns[0] = patterns[1] = from & key_mask;
    *exception = loom__hash_partition(loom__hash_key(patterns[0], key_bytes, seed), partitions);
    do {
        patterns[1] = (patterns[1] + 1) & key_mask;
    } while (loom__hash_partition(loom__hash_key(patterns[1], key_bytes, seed), partitions) == *exception);
    return patterns[1] + 1;
}
