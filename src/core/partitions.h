/* Partitions as ranges of hashes, for every engine: how many a table needs, and which keys mark its empty slots. */
#ifndef LOOM_CORE_PARTITIONS_H
#define LOOM_CORE_PARTITIONS_H

#include "core/hash.h"

/* The fewest partitions of `slots` slots for `keys` keys at a load factor of at most `max_load`, within 1/256. With a
 * probability of more than 1 - 10^-9, no partition gets more than `usable` keys. The result is a double because a tiny
 * max_load may ask for far more than `most`.
 *
 * With a mean of m keys per partition, Chernoff's bound for the probability of more than s keys in one partition is
 *     exp(-(s' ln(s' / m) - (s' - m))),  s' = s + 1.
 * For all partitions the probability is at most this bound times their number. We ask for 10^-10. A partition that has
 * room for all keys cannot fail: the smallest tables are made this way. */
double loom__partitions_needed(double keys, double max_load, double slots, double usable, double least, double most);

/* The same with a sharper bound: fewer partitions, and exactly as many as the bound asks for. The probability that s of
 * n keys fall into a partition is below Chernoff's bound by a factor of sqrt(2 pi s (1 - s / n)) (Stirling). Each
 * further key multiplies this probability by m / (s + 1) or less, so s or more keys are at most 1 / (1 - m / (s + 1))
 * times as likely as exactly s. With thousands of keys per partition the bound falls to a twentieth. */
double loom__fewest_partitions(double keys, double max_load, double slots, double usable, double least, double most);

/* Chooses two key patterns, from `from` on, that mark empty slots. The first pattern hashes to partition *exception. No
 * other partition can hold it as a key, so it marks the empty slots of all others. The second pattern marks the empty
 * slots of *exception. Returns where to continue for patterns that differ from these two. There are at least two
 * partitions. */
uint64_t loom__choose_patterns(loom__seed seed, uint32_t key_bytes, uint32_t partitions, uint64_t from,
                               uint64_t patterns[2], uint32_t *exception);

#endif
