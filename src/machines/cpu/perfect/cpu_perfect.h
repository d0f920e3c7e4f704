/* The perfect engine on the cpu machine: declarations that its files share.
 *
 *   cpu_perfect_simd.h   ranges of keys through the lane algorithms; compiled once for each kind of SIMD
 *   cpu_perfect_*.c      those compilations
 *   cpu_perfect.c        bulk calls: distribute ranges to threads; split insertions, one thread per partition
 *   cpu_perfect_room.c   makes room in full buckets
 *   cpu_perfect_whole.c  reads or writes whole tables: clear, retrieve, survey, refill
 */
#ifndef LOOM_CPU_PERFECT_H
#define LOOM_CPU_PERFECT_H

#include "core/kernels.h"
#include "engines/perfect/perfect_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

struct perfect_sums; /* perfect_survey.h */

/* Working memory for making room, on a thread's stack: 14 KB, laid out when room is first needed. Opened for one call
 * and a range of the table's partitions. */
typedef struct loom__cpu_perfect_scratch {
    _Alignas(64) unsigned char memory[13824]; /* a perfect_scratch (perfect_cells.h) */
    const loom_allocator *allocator;
    const loom__perfect_view *view;
    uint32_t first, end; /* the range of partitions */
    int laid_out;
    int short_of_memory; /* a partition is marked PERFECT_SHORT_OF_MEMORY */
} loom__cpu_perfect_scratch;

typedef struct loom__cpu_perfect_simd {
    loom__cpu_ranges ranges; /* write: erase and update */
    /* As batch->write says, one after the other, by a thread that owns every partition concerned. */
    void (*insert)(const loom__perfect_view *view, const loom__batch *batch, const loom__cpu_records *records,
                   loom__cpu_perfect_scratch *scratch, loom__cpu_counts *counts);
    void (*survey_partition)(const loom__perfect_view *view, uint32_t partition, struct perfect_sums *sums);
} loom__cpu_perfect_simd;

extern const loom__cpu_perfect_simd loom__cpu_perfect_scalar;
#if defined(__aarch64__)
extern const loom__cpu_perfect_simd loom__cpu_perfect_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_perfect_simd loom__cpu_perfect_avx2;
#endif

extern const loom__map_kernels loom__cpu_perfect_kernels;

/* The calling thread owns partitions first .. end - 1. */
void loom__cpu_perfect_scratch_open(loom__cpu_perfect_scratch *scratch, const loom_allocator *allocator,
                                    const loom__perfect_view *view, uint32_t first, uint32_t end);
void loom__cpu_perfect_scratch_close(loom__cpu_perfect_scratch *scratch);

/* Makes room for a key that is not in the table and whose bucket is full: the next attempt will store it. False: there
 * is no room. */
int loom__cpu_perfect_make_room(loom__cpu_perfect_scratch *scratch, uint64_t key);

void loom__cpu_perfect_clear_partition(const loom__perfect_view *view, uint32_t partition);

loom_status loom__cpu_perfect_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                           loom_stream stream);
loom_status loom__cpu_perfect_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status loom__cpu_perfect_retrieve(loom__machine *machine, const void *any_view, loom__position *position,
                                       void *keys, void *values, uint64_t room, uint64_t *got, loom_stream stream);
loom_status loom__cpu_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to,
                                     uint64_t *refused, loom_stream stream);
loom_status loom__cpu_perfect_survey(loom__machine *machine, const void *any_view, loom__survey *survey,
                                     loom_stream stream);

#endif
