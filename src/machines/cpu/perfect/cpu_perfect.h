/* The perfect engine on the cpu machine: declarations that its files share.
 *
 *   cpu_perfect_simd.h   loops over keys, through the lane algorithms; compiled once for each kind of SIMD
 *                        (cpu_perfect_*.c)
 *   cpu_perfect.c        the calls (cpu_map_calls.h)
 *   cpu_perfect_room.c   makes room in full buckets */
#ifndef LOOM_CPU_PERFECT_H
#define LOOM_CPU_PERFECT_H

#include "core/kernels.h"
#include "engines/perfect/perfect_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

/* Working memory for making room, on a thread's stack: 14 KB, laid out when room is first needed. A thread opens it for
 * one call and a range of the table's partitions. */
typedef struct loom__cpu_perfect_scratch {
    _Alignas(64) unsigned char memory[13824]; /* a perfect_scratch (perfect_cells.h) */
    const loom_allocator *allocator;
    const loom__perfect_view *view;
    uint32_t first, end; /* the range of partitions */
    int laid_out;
    int short_of_memory; /* a partition is marked PERFECT_SHORT_OF_MEMORY */
} loom__cpu_perfect_scratch;

extern const loom__cpu_map_simd loom__cpu_perfect_scalar;
#if defined(__aarch64__)
extern const loom__cpu_map_simd loom__cpu_perfect_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_map_simd loom__cpu_perfect_avx2;
#endif

extern const loom__map_kernels loom__cpu_perfect_kernels;

/* The calling thread owns partitions first .. end - 1. */
void loom__cpu_perfect_scratch_open(loom__cpu_perfect_scratch *scratch, const loom_allocator *allocator,
                                    const loom__perfect_view *view, uint32_t first, uint32_t end);
void loom__cpu_perfect_scratch_close(loom__cpu_perfect_scratch *scratch);

/* Makes room for a key that is not in the table and whose bucket is full. True: the next attempt will store the key. */
int loom__cpu_perfect_make_room(loom__cpu_perfect_scratch *scratch, uint64_t key);

void loom__cpu_perfect_clear_partition(const loom__perfect_view *view, uint32_t partition);

#endif
