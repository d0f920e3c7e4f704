/* Filters on the cpu machine.
 *
 *   cpu_filter_simd.h   ranges of keys through filter_ops.h; compiled once for each kind of SIMD, by cpu_filter_*.c
 *   cpu_filter_neon.h   two keys at once, with NEON
 *   cpu_filter.c        calls: distribute ranges to threads, insert by partition, write results */
#ifndef LOOM_CPU_FILTER_H
#define LOOM_CPU_FILTER_H

#include "core/kernels.h"
#include "engines/filter/filter_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

/* Some keys of a batch, replaced by their stand-ins (filter_layout.h): a batch of its own. */
enum { LOOM__CPU_STAND_INS = 2048 }; /* at most: 16 KiB on the stack */
typedef struct loom__cpu_stand_ins {
    loom__filter_view view;
    loom__batch batch; /* n is the number of keys */
    uint64_t keys[LOOM__CPU_STAND_INS];
} loom__cpu_stand_ins;

/* Replaces keys begin .. end - 1, or as many of them as have room. The arrays for answers begin at the first of
 * them. */
void loom__cpu_take_stand_ins(const loom__filter_view *view, const loom__batch *batch, uint64_t begin, uint64_t end,
                              loom__cpu_stand_ins *some);

typedef struct loom__cpu_filter_simd {
    /* `find` is contains. `write` inserts. It counts only if batch->added is set. If batch->by_partition is set and
     * `shared` is not, the thread owns every block of the keys. */
    loom__cpu_range *find, *write;
    /* Inserts those keys of the batch that belong to blocks first .. end - 1, in the order of the batch. Fills in their
     * elements of batch->added, and counts them. */
    void (*add_in_order)(const loom__filter_view *view, const loom__batch *batch, uint32_t first, uint32_t end,
                         loom__cpu_counts *counts);
    /* Surveys the blocks of one partition. */
    void (*survey)(const loom__filter_view *view, uint64_t partition, loom__filter_survey *survey);
} loom__cpu_filter_simd;

extern const loom__cpu_filter_simd loom__cpu_filter_scalar;
#if defined(__aarch64__)
extern const loom__cpu_filter_simd loom__cpu_filter_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_filter_simd loom__cpu_filter_avx2;
#endif

extern const loom__filter_kernels loom__cpu_filter_kernels;

#endif
