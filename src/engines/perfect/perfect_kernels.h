/* The bulk work on a perfect table that a machine supplies. Arguments are checked, the handle's lock is held. */
#ifndef LOOM_PERFECT_KERNELS_H
#define LOOM_PERFECT_KERNELS_H

#include "core/machine.h"
#include "core/map_engine.h"
#include "engines/perfect/perfect_layout.h"

typedef struct loom__perfect_kernels {
    /* Sets the totals and removes all marks; the partitions were written by other means. Waits. */
    loom_status (*reset_totals)(loom__machine *machine, const loom__perfect_view *view,
                                const loom__perfect_totals *totals, loom_stream stream);

    /* Every slot empty, every word zero; the size and the marks too. */
    loom_status (*clear)(loom__machine *machine, const loom__perfect_view *view, loom_stream stream);

    loom_status (*find)(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch);

    /* Whatever writes, builds included (batch->replace). The table is the call's alone. Builds may allocate; OUT_OF_MEMORY leaves
     * the table as it was. Insertions do so, too, but make do with less, on the cpu machine with none. `bulk_bytes` tells how much a build of n keys takes, arrays where the machine works. */
    loom_status (*write)(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch);
    uint64_t (*bulk_bytes)(loom__machine *machine, const loom__perfect_view *view, uint64_t n, uint32_t flags,
                           int with_status);

    /* Fills the partitions of `to`, whatever is in them, with the keys of `from`, and waits; totals and marks are the caller's.
     * *refused: keys for which there was no room; then `to` is not to be used. */
    loom_status (*refill)(loom__machine *machine, const loom__perfect_view *from, const loom__perfect_view *to,
                          uint64_t *refused, loom_stream stream);

    /* Copies pairs out from `position` on, at most `room`, and moves the position; *got is 0 at the end. */
    loom_status (*retrieve)(loom__machine *machine, const loom__perfect_view *view, loom__position *position,
                            void *keys, void *values, uint64_t room, uint64_t *got, loom_stream stream);

    /* Reads the whole table, measures it and checks P1 to P3 of perfect_ops.h. */
    loom_status (*survey)(loom__machine *machine, const loom__perfect_view *view, loom__survey *survey,
                          loom_stream stream);

    /* Buckets that looking the keys up reads. */
    loom_status (*count_accesses)(loom__machine *machine, const loom__perfect_view *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream);
} loom__perfect_kernels;

#endif
