/* The open engine on the cpu machine: declarations that its files share.
 *
 *   cpu_open_simd.h    loops over keys, through the lane algorithms; compiled once for each kind of SIMD (cpu_open_*.c)
 *   cpu_open_stream.h  the loop of lookups of more than a few keys
 *   cpu_open_avx2.h, cpu_open_neon.h   its steps for four keys at a time
 *   cpu_open_refill.h  growth: fills partitions from another table
 *   cpu_open_calls.h   what calls on open tables have in common, with and without rows (cpu_map_calls.h)
 *   cpu_open.c         the calls
 *   cpu_open_upkeep.c  upkeep of partitions */
#ifndef LOOM_CPU_OPEN_H
#define LOOM_CPU_OPEN_H

#include "core/kernels.h"
#include "engines/open/open_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

extern const loom__cpu_map_simd loom__cpu_open_scalar;
#if defined(__aarch64__)
extern const loom__cpu_map_simd loom__cpu_open_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_map_simd loom__cpu_open_avx2;
#endif

extern const loom__map_kernels loom__cpu_open_kernels;

void loom__cpu_open_clear_partition(const loom__open_view *view, uint32_t partition);
loom_status loom__cpu_open_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream);

#endif
