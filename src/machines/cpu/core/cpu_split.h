#ifndef LOOM_CPU_SPLIT_H
#define LOOM_CPU_SPLIT_H

#include "core/hash.h"
#include "core/split.h"
#include "machines/cpu/core/cpu_pool.h"

/* Scatters a batch into one bin for each partition, on all threads. The caller has laid out the split. Keys have 4 or 8
 * bytes; values have 0, 4 or 8. */
void loom__cpu_split(loom__pool *pool, const loom__split *split, loom__seed seed, uint32_t key_bytes,
                     uint32_t value_bytes);

#endif
