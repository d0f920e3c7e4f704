/* The open engine on the cpu machine: declarations that its files share.
 *
 *   cpu_open_simd.h    ranges of keys through the lane algorithms; compiled once for each kind of SIMD
 *   cpu_open_*.c       those compilations
 *   cpu_open.c         bulk calls: distribute ranges to threads (cpu_bulk.h)
 *   cpu_open_bulk.c    split by partition, then one thread per partition
 *   cpu_open_scan.c    reads or writes whole tables: clear, retrieve, survey
 *   cpu_open_upkeep.c  upkeep of partitions
 *   cpu_open_refill.c  fills a table with the keys of another one
 */
#ifndef LOOM_CPU_OPEN_H
#define LOOM_CPU_OPEN_H

#include "core/kernels.h"
#include "engines/open/open_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

struct open_sums; /* open_survey.h */

typedef struct loom__cpu_open_simd {
    loom__cpu_ranges ranges;
    /* One after the other, by a thread that owns every partition concerned. */
    void (*insert_in_order)(const loom__open_view *view, const loom__cpu_records *records, int overwrite,
                            loom__cpu_counts *counts);
    void (*survey_partition)(const loom__open_view *view, uint32_t partition, struct open_sums *sums);
} loom__cpu_open_simd;

extern const loom__cpu_open_simd loom__cpu_open_scalar;
#if defined(__aarch64__)
extern const loom__cpu_open_simd loom__cpu_open_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_open_simd loom__cpu_open_avx2;
#endif

extern const loom__map_kernels loom__cpu_open_kernels;

void loom__cpu_open_clear_partition(const loom__open_view *view, uint64_t partition);

loom_status loom__cpu_open_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                        loom_stream stream);
loom_status loom__cpu_open_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status loom__cpu_open_write(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status loom__cpu_open_insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch);
uint64_t loom__cpu_open_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                                   int with_status);
loom_status loom__cpu_open_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                    void *values, uint64_t room, uint64_t *got, loom_stream stream);
loom_status loom__cpu_open_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                  loom_stream stream);
loom_status loom__cpu_open_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream);
loom_status loom__cpu_open_survey(loom__machine *machine, const void *any_view, loom__survey *survey,
                                  loom_stream stream);

#endif
