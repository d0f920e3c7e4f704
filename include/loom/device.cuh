/* The tables and filters of loom/loom.h inside your own kernels, with the same algorithms that the
 * library's kernels use.
 *
 *   loom_map_view view;                                                          // host
 *   loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(view, rows, n);
 *   loom_map_view_end(map, &view, stream);
 *
 *   __global__ void my_kernel(const loom_map_view view, const row *rows, uint64_t n)
 *   {
 *       loom::table<uint32_t, uint32_t, LOOM_VIEW_INSERT> table(view);
 *       uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
 *       bool wanted = i < n && rows[i].price > 100;
 *       // by whole warps: no early return above
 *       table.insert(wanted ? rows[i].key : 0, wanted ? rows[i].price : 0, wanted);
 *   }
 *
 * This header includes one for each type; each can also be included alone:
 *   loom/device_map.cuh       loom::table<key, value, access>   open tables
 *   loom/device_perfect.cuh   loom::perfect_table<key, value>   perfect tables
 *                             (LOOM_ENGINE_PERFECT)
 *   loom/device_rows.cuh      loom::row_table<key, value, access>
 *                             tables with rows (LOOM_ENGINE_ROWS)
 *   loom/device_multi.cuh     loom::multi_table<key, value>     multimaps: lookups
 *                             loom::multi_table<key, value, LOOM_VIEW_INSERT>
 *                                                               chain multimaps: appends
 *   loom/device_filter.cuh    loom::filter<key>                 Bloom filters
 * All of them also have loom::hash(key, seed), the hash that loom_hash (loom/base.h) computes.
 *
 * Thread blocks and grids may have any shape. Check each launch yourself, with cudaGetLastError
 * after <<<>>>: the library does not see whether a launch failed.
 *
 * TWO FORMS. Every function exists for a whole warp and for one lane group.
 *   table.f(key, ..., active)
 *     - All 32 lanes of the warp call it, converged: thread blocks are multiples of 32 threads, and
 *       no lane has returned.
 *     - Each lane brings its own key and gets its own answer. Keys of one warp may be equal. A lane
 *       with active = false brings no key and only helps the others.
 *     - This is the fast form: the groups of the warp work at the same time.
 *   table.group_f(key, ...)
 *     - The LOOM_LANES lanes of one group call it, all with the same key. Group k of a warp has
 *       LOOM_LANES lanes, the first of which is lane k * LOOM_LANES. Lanes are numbered as by the
 *       hardware, threadIdx.x first. Other groups may be elsewhere in the code, or have returned.
 *     - All lanes of the group get the answer.
 *     - The hardware runs divergent groups one after the other. docs/performance.md has the cost.
 * A map has insert(key, value, active), a set has insert(key, active). The compiler keeps the two
 * apart: no function takes a bool as a value, and `active` of a set must be a bool.
 *
 * LANES. LOOM_LANES is the number of lanes that probe a bucket together. #define it as 1, 2, 4 or 8
 * before the include. The default, 2, is best for open tables, in memory and in the L2 cache. The
 * library itself takes 4 lanes to query a filter, 8 to insert into a filter, and 4 to look up in a
 * perfect table. With 1 lane to a group, divergent code needs no care.
 *
 * ACCESS. A view has one access. The access is part of the types loom::table, loom::row_table and
 * loom::multi_table, so the compiler refuses functions that the access does not offer. All
 * functions of an access may run at the same time, in one kernel or in several:
 *   LOOM_VIEW_FIND         find, contains, for_each; uses read-only loads. Perfect tables and
 *                          multimaps of LOOM_ENGINE_OPEN have only this; multimaps also count and
 *                          for_each_of.
 *   LOOM_VIEW_INSERT       insert, insert_or_assign, find_or_insert; find, contains.
 *                          Multimaps of LOOM_ENGINE_CHAIN: insert, which appends a value to those
 *                          of the key; contains, count. Values are not read while others are
 *                          appended: a place that is reserved may not be written yet.
 *   LOOM_VIEW_ACCUMULATE   accumulate; find, contains
 *   LOOM_VIEW_ERASE        erase, erase_if; find, contains
 *   LOOM_VIEW_MIXED        insert, find_or_insert, erase, erase_if; find, contains. A freed slot is
 *                          not reused before the view ends (loom/view.h has the numbers).
 * for_each and erase_if visit the whole table. All threads of a grid call them together, in any
 * shape, and share the buckets: a thread that does not call them leaves its buckets out.
 * Operations on one key are linearizable: each takes effect at one moment between the begin and the
 * end of its function. Nothing is stored twice, lost or torn. A function finds what an earlier
 * function of the same thread stored. A thread that learns through memory of yours what another
 * thread stored needs the usual fences for that memory. The lane simulator (docs/simulator.md) runs
 * the algorithms in these combinations, two or three operations at a time.
 *
 * STATUSES are those of loom/base.h.
 *   - insert, insert_or_assign, find_or_insert, accumulate: OK (stored as new), EXISTS or FULL.
 *     insert into multimaps: OK, or FULL if there is no room for the key or the value, or the key
 *     has most_values_per_key values. A key whose values were all refused is absent.
 *   - find, erase: OK or NOT_FOUND. contains: true or false.
 *   - Lanes that are not active get OK: read the status of active lanes only.
 *   - INVALID_ARGUMENT: the view does not fit the type in the kernel. Its engine, widths or access
 *     differ, or it comes from another version of the library. contains returns false, count
 *     returns 0, for_each, for_each_of and erase_if visit nothing, and the table is not touched.
 *     table.status() and filter.status() tell beforehand. Each of loom::table, loom::perfect_table,
 *     loom::row_table and loom::multi_table refuses the views of the others.
 *   - CHANGED: a view was used after its end, and its memory now holds another table, since the
 *     table has grown, shrunk or been destroyed. A table does not move while a view of it is lent.
 *     Functions do nothing, as with INVALID_ARGUMENT. This error is not always detected, since the
 *     memory may be free.
 *
 * NOTHING HANGS. Every search ends after at most as many steps as a partition has slots. Visits end
 * after the values of the key (for_each_of) or the table (for_each, erase_if). Three loops wait for
 * other lanes:
 *   - Values are apart from keys except in pairs of 4 + 4 bytes and in sets. There, a lane may meet
 *     a key that another lane is storing or retiring. It waits for a few instructions of that lane.
 *     The other lane can run: sm_80 and later schedule lanes independently.
 *   - Floats are combined by compare-and-swap in a loop. A swap fails only if the swap of another
 *     lane has succeeded.
 *   - An append to a chain reserves its place by compare-and-swap, as above. While another lane
 *     takes a bucket for the same list, it tries again. Many lanes that append to one key at the
 *     same time are slow: one of them succeeds at a time.
 *
 * COMPILING. nvcc 12.4 or newer, C++17, -I <prefix>/include -I <prefix>/include/loom/inner.
 *   CMake: hashloom::device, and hashloom::loom for the calls of the host.
 *   pkg-config --variable=device_cflags hashloom
 * The header takes the namespaces loom and loom_inner, and macros that begin with LOOM_,
 * CUDA_LANES, OPEN_, MULTI_, CHAIN_, LIST_ or FILTER_. */
#ifndef LOOM_DEVICE_CUH
#define LOOM_DEVICE_CUH

#include <loom/device_base.cuh>
#include <loom/device_filter.cuh>
#include <loom/device_map.cuh>
#include <loom/device_multi.cuh>
#include <loom/device_perfect.cuh>
#include <loom/device_rows.cuh>

#endif
