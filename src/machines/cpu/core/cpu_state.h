/* The cpu machine's state, and the counts that all of its engines keep. */
#ifndef LOOM_CPU_STATE_H
#define LOOM_CPU_STATE_H

#include "core/batch.h"
#include "core/machine.h"
#include "machines/cpu/core/cpu_pool.h"

typedef struct loom__cpu_machine_state {
    loom__machine base;
    loom__pool *pool;
    uint32_t threads;
    loom_simd simd;
    const struct loom__cpu_map_simd *open_simd, *perfect_simd, *rows_simd, *strings_simd;
    const struct loom__cpu_filter_simd *filter_simd;
} loom__cpu_machine_state;

typedef struct loom__cpu_counts {
    uint64_t ok, exists, not_found, full, too_long;
    loom__no_bytes no_bytes; /* of those that are full */
    uint64_t accesses;       /* buckets read; used by count_accesses only */
} loom__cpu_counts;

/* Adds one task's counts to the counts of its call. Many threads may do so at once. */
void loom__cpu_add_counts(loom__cpu_counts *total, const loom__cpu_counts *part);
void loom__cpu_write_result(loom_result *result, uint64_t n, const loom__cpu_counts *counts);

/* Raises *field to at least `mine`. Many threads may do so at once. */
void loom__cpu_keep_larger(uint64_t *field, uint64_t mine);

#endif
