/* hashloom inside your own kernels. The tables and filters of loom/loom.h, with the same algorithms
 * that the library's kernels use.
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
 *   loom/device_filter.cuh    loom::filter<key>                 Bloom filters
 *
 * Thread blocks and grids may have any shape. Check the launch yourself (cudaGetLastError after
 * <<<>>>): the library cannot see it fail.
 *
 * TWO FORMS. Every function exists for a whole warp and for one lane group.
 *   table.f(key, ..., active)
 *     - All 32 lanes of the warp call it, converged: thread blocks are multiples of 32 threads, and
 *       no lane has returned.
 *     - Each lane brings its own key and gets its own answer. Keys of one warp may be equal. Lanes
 *       with active = false only help.
 *     - This is the fast form: the groups of the warp work at the same time.
 *   table.group_f(key, ...)
 *     - The LOOM_LANES lanes of one group call it, all with the same key: lanes k * LOOM_LANES to k
 *       * LOOM_LANES + LOOM_LANES - 1 of a warp. Lanes are counted as the hardware does,
 *       threadIdx.x first. Other groups may be elsewhere, or have returned.
 *     - All lanes of the group get the answer.
 *     - The hardware runs divergent groups one after the other. docs/performance.md has the cost.
 * The insert of a map is insert(key, value, active), that of a set insert(key, active). The
 * compiler keeps them apart: no function takes a bool as a value, and `active` of a set must be a
 * bool.
 *
 * LANES. #define LOOM_LANES as 1, 2, 4 or 8 before the include: the number of lanes that probe a
 * bucket together. The default, 2, is best for open tables, in memory and in the L2 cache. For
 * filters the library itself takes 4 lanes to query and 8 to insert, for lookups in perfect tables
 * 4. With 1 a group is a lane, and divergent code needs no care.
 *
 * ACCESS. A view has one access. It is part of the type loom::table, so the compiler refuses
 * functions that the access does not offer. All functions of an access may run at the same time, in
 * one kernel or in several:
 *   LOOM_VIEW_FIND         find, contains, for_each; uses read-only loads. Perfect tables have only
 *                          this.
 *   LOOM_VIEW_INSERT       insert, insert_or_assign, find_or_insert; find, contains
 *   LOOM_VIEW_ACCUMULATE   accumulate; find, contains
 *   LOOM_VIEW_ERASE        erase; find, contains
 *   LOOM_VIEW_MIXED        insert, find_or_insert, erase; find, contains. A freed slot is not
 *                          reused before the view ends (loom/view.h has the numbers).
 * Operations on one key are linearizable: each takes effect at one moment between begin and end of
 * its function. Nothing is stored twice, lost or torn. A later function of the same thread finds
 * what a function has stored. Another thread that learns of it through its own memory needs the
 * usual fences for that memory. The lane simulator (docs/simulator.md) runs the algorithms in these
 * combinations, two or three operations at a time.
 *
 * STATUSES are those of loom/base.h.
 *   - insert, insert_or_assign, find_or_insert, accumulate: OK (stored as new), EXISTS or FULL.
 *   - find, erase: OK or NOT_FOUND. contains: true or false.
 *   - Lanes that are not active get OK, so look only at active lanes.
 *   - INVALID_ARGUMENT: the view does not fit: other engine, widths or access, or another version
 *     of the library. contains returns false, for_each visits nothing, and the table is not
 *     touched. table.status() and filter.status() tell it beforehand. loom::table does not take the
 *     view of a perfect table, nor loom::perfect_table that of an open one.
 *   - CHANGED: the memory of the view holds another table now; otherwise as INVALID_ARGUMENT. A
 *     table does not move while a view of it is lent. So this means that a view was used after its
 *     end: the table has grown or shrunk since, or is destroyed. It is not detected for certain,
 *     since the memory may be free.
 *
 * NOTHING HANGS. Every loop ends after at most as many steps as a partition has slots, with two
 * exceptions:
 *   - If values are apart from keys (neither 4 + 4 bytes nor a set), a lane that meets a key which
 *     another lane is storing or retiring waits for a few instructions of that lane. That lane can
 *     run: sm_80 and later schedule lanes independently.
 *   - Floats are combined by compare-and-swap, which fails only if that of another lane has
 *     succeeded.
 *
 * COMPILING. nvcc 12.4 or newer, C++17, -I <prefix>/include -I <prefix>/include/loom/inner.
 *   CMake: hashloom::device, and hashloom::loom for the calls of the host.
 *   pkg-config --variable=device_cflags hashloom
 * The namespaces loom and loom_inner are taken, and macros that begin with LOOM_, CUDA_LANES, OPEN_
 * or FILTER_. */
#ifndef LOOM_DEVICE_CUH
#define LOOM_DEVICE_CUH

#include <loom/device_base.cuh>
#include <loom/device_filter.cuh>
#include <loom/device_map.cuh>
#include <loom/device_perfect.cuh>

#endif
