/* The rows engine on the cpu machine: declarations that its files share.
 *
 *   cpu_rows_simd.h   loops over keys, through the lane algorithms; compiled once for each kind of SIMD (cpu_rows_*.c)
 *   cpu_strings_simd.h  the same loops for tables with byte strings
 *   cpu_rows_calls.c  the calls (cpu_open_calls.h)
 *
 * Upkeep is that of open tables: cpu_open_upkeep.c. */
#ifndef LOOM_CPU_ROWS_ENGINE_H
#define LOOM_CPU_ROWS_ENGINE_H

#include "core/kernels.h"
#include "engines/open/open_layout.h"
#include "machines/cpu/core/cpu_bulk.h"

extern const loom__cpu_map_simd loom__cpu_rows_scalar, loom__cpu_strings_scalar;
#if defined(__aarch64__)
extern const loom__cpu_map_simd loom__cpu_rows_neon, loom__cpu_strings_neon;
#endif
#if defined(__x86_64__)
extern const loom__cpu_map_simd loom__cpu_rows_avx2, loom__cpu_strings_avx2;
#endif

extern const loom__map_kernels loom__cpu_rows_kernels;

/* `view` is the first member of a loom__rows_view. */
void loom__cpu_rows_clear_partition(const loom__open_view *view, uint32_t partition);

#endif
