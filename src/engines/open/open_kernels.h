/* The bulk work on an open table that a machine supplies. Arguments are checked, the handle's lock is held. */
#ifndef LOOM_OPEN_KERNELS_H
#define LOOM_OPEN_KERNELS_H

#include "core/machine.h"
#include "core/map_engine.h"
#include "engines/open/open_layout.h"

typedef struct loom__open_kernels {
    /* Sets the totals, removes all marks, takes no filter bit for stale and no slot for retired; the partitions were written
     * by other means. */
    loom_status (*reset_totals)(loom__machine *machine, const loom__open_view *view, const loom__open_totals *totals,
                                loom_stream stream);

    /* Every slot empty, every word zero; totals, marks and counts of what is stale or retired too. */
    loom_status (*clear)(loom__machine *machine, const loom__open_view *view, loom_stream stream);

    loom_status (*find)(loom__machine *machine, const loom__open_view *view, const loom__batch *batch);
    loom_status (*write)(loom__machine *machine, const loom__open_view *view, const loom__batch *batch);

    /* Insert by partition, after splitting the batch, unless the flags or the machine say directly; in order where that is
     * asked for, or UNSUPPORTED. Allocates: OUT_OF_MEMORY leaves the table as it was. `bulk_bytes` tells how much a
     * build takes with these flags, arrays where the machine works; 0: nothing, or the batch cannot go that way. */
    loom_status (*insert_bulk)(loom__machine *machine, const loom__open_view *view, const loom__batch *batch);
    uint64_t (*bulk_bytes)(loom__machine *machine, const loom__open_view *view, uint64_t n, uint32_t flags,
                           int with_status);

    /* Is inserting so many keys by partition faster, where counters do it? NULL: it never is. */
    int (*bulk_pays)(loom__machine *machine, const loom__open_view *view, uint64_t n);

    /* Fills the partitions of `to`, whatever is in them, with the keys of `from`, and waits; totals, marks and the like are the
     * caller's. *refused: keys for which their partition had no room; then `to` is not to be used. UNSUPPORTED where partitions of
     * that size cannot be filled so. */
    loom_status (*refill)(loom__machine *machine, const loom__open_view *from, const loom__open_view *to,
                          uint64_t *refused, loom_stream stream);

    /* Copies pairs out from `position` on, at most `room`, and moves the position; *got is 0 at the end. */
    loom_status (*retrieve)(loom__machine *machine, const loom__open_view *view, loom__position *position, void *keys,
                            void *values, uint64_t room, uint64_t *got, loom_stream stream);

    /* Reads the whole table, measures it and checks I1 to I5 of open_ops.h. */
    loom_status (*survey)(loom__machine *machine, const loom__open_view *view, loom__survey *survey,
                          loom_stream stream);

    /* Puts partitions in order whose filters are worn (open_upkeep.h); with `sweep` retired keys become
     * free slots, everywhere. Does not wait. */
    loom_status (*upkeep)(loom__machine *machine, const loom__open_view *view, int sweep, loom_stream stream);

    /* Adds to the table's size what kernels of users have added; NULL where there are none. Does not wait. */
    loom_status (*fold_size)(loom__machine *machine, const loom__open_view *view, loom_stream stream);

    loom_status (*count_accesses)(loom__machine *machine, const loom__open_view *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream);
} loom__open_kernels;

#endif
