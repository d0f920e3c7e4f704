/* Partitions as ranges of hashes: how many a table needs, and which keys fall into none of them but one. For every engine. */
#ifndef LOOM_CORE_PARTITIONS_H
#define LOOM_CORE_PARTITIONS_H

#include "core/hash.h"

/* The fewest partitions of `slots` slots for `keys` keys, give or take 1/256, at a load of at most `max_load`, such that none gets
 * more than `usable` keys, except with a probability below 10^-9 for all of them together; as a double, since the answer may be
 * absurd (beyond `most`, for a tiny max_load).
 *
 * With a mean of m keys per partition, Chernoff's bound for more than s of them is
 *     exp(-(s' ln(s' / m) - (s' - m))),  s' = s + 1,
 * and for all partitions at most that times their number. We ask for 10^-10. A partition that can take all keys cannot fail at
 * all; that is how the smallest tables are made. */
double loom__partitions_needed(double keys, double max_load, double slots, double usable, double least, double most);

/* The same, and fewer: exactly as many as a sharper bound asks for. That s of n keys fall into a partition is less likely than
 * Chernoff's bound by sqrt(2 pi s (1 - s / n)) (Stirling), and each further key less likely than the one before by m / (s + 1) or
 * less, so s or more of them are at most 1 / (1 - m / (s + 1)) times as likely as s. With thousands of keys to a partition this is
 * worth a twentieth. */
double loom__fewest_partitions(double keys, double max_load, double slots, double usable, double least, double most);

/* Two patterns of a key, from `from` on: one that hashes to partition *exception, and so serves all others as a key that none of
 * them can hold, and a second one for that partition. Returns where to go on from for patterns that differ from these. There are
 * at least two partitions. */
uint64_t loom__choose_patterns(loom__seed seed, uint32_t key_bytes, uint32_t partitions, uint64_t from,
                               uint64_t patterns[2], uint32_t *exception);

#endif
