/* Lists in the lane simulator become LARGE (core/list_handle.h) when they have more than simt_large_from values, since
 * a simulated heap has room for a few hundred. Include this header first. It also renames the cpu machine's kernels for
 * multimaps: loom_simt has a copy of them with the same limit, which sets tables up and surveys them. */
#ifndef LOOM_SIMT_LISTS_H
#define LOOM_SIMT_LISTS_H

#ifdef LOOM_CORE_LIST_HANDLE_H
#error "simt_lists.h comes before core/list_handle.h"
#endif

#include <stdint.h>

#define LOOM_SIMULATED_LISTS
enum { SIMT_LARGE_UNIT = 4, SIMT_LARGE_BUCKET = 6, SIMT_SMALL_BUCKET = 5, SIMT_NEVER_LARGE = 1 << 19 };
extern uint64_t simt_large_from; /* set before a run; SIMT_NEVER_LARGE: as in the library */
extern uint64_t simt_most_fill;  /* set before a run: the largest bucket whose handle has a fill */

#define loom__cpu_multi_kernels     simt_cpu_multi_kernels
#define loom__cpu_multi_insert      simt_cpu_multi_insert
#define loom__cpu_multi_bulk_bytes  simt_cpu_multi_bulk_bytes
#define loom__cpu_multi_erase       simt_cpu_multi_erase
#define loom__cpu_multi_erase_pairs simt_cpu_multi_erase_pairs
#define loom__cpu_multi_erase_if    simt_cpu_multi_erase_if
#define loom__cpu_multi_take        simt_cpu_multi_take
#define loom__cpu_lists_add         simt_cpu_lists_add
#define loom__cpu_lists_begin       simt_cpu_lists_begin
#define loom__cpu_lists_count       simt_cpu_lists_count
#define loom__cpu_lists_end         simt_cpu_lists_end
#define loom__cpu_lists_enter       simt_cpu_lists_enter
#define loom__cpu_lists_leave       simt_cpu_lists_leave
#define loom__cpu_lists_part        simt_cpu_lists_part
#define loom__cpu_lists_run         simt_cpu_lists_run

#endif
