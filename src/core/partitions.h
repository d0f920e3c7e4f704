/* Partitions as ranges of hashes, for every engine: how many a table needs, and which keys mark its empty slots. */
#ifndef LOOM_CORE_PARTITIONS_H
#define LOOM_CORE_PARTITIONS_H

#include "core/hash.h"

/* The fewest partitions of `slots` slots for `keys` keys, give or take 1/256, at a load of at most `max_load`. No
 * partition gets more than `usable` keys, with a probability of more than 1 - 10^-9. The result is a double because a
 * tiny max_load may ask for far more than `most`.
 *
 * With a mean of m keys per partition, Chernoff's bound for more than s keys is
 *     exp(-(s' ln(s' / m) - (s' - m))),  s' = s + 1,
 * and for all partitions at most that times their number. We ask for 10^-10. A partition that can take all keys cannot
 * fail: the smallest tables are made this way. */
double loom__partitions_needed(double keys, double max_load, double slots, double usable, double least, double most);

/* The same with a sharper bound: fewer partitions, and exactly as many as the bound asks for. The probability that s of
 * n keys fall into a partition is below Chernoff's bound by a factor of sqrt(2 pi s (1 - s / n)) (Stirling). Each
 * further key is less likely than the one before by m / (s + 1) or less, so s or more keys are at most
 * 1 / (1 - m / (s + 1)) times as likely as s. With thousands of keys per partition the bound falls to a twentieth. */
double loom__fewest_partitions(double keys, double max_load, double slots, double usable, double least, double most);

/* Two key patterns, from `from` on. The first hashes to partition *exception, so no other partition can hold it, and it
 * marks their empty slots. The second marks the empty slots of *exception. Returns where to continue for patterns that
 * differ from these. There are at least two partitions. */
uint64_t loom__choose_patterns(loom__seed seed, uint32_t key_bytes, uint32_t partitions, uint64_t from,
                               uint64_t patterns[2], uint32_t *exception);

#endif
