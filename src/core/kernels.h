/* The bulk work on tables that a machine supplies: one of these structs for each engine that it offers. `view` is the engine's own
 * struct, with which its kernels see a table (loom__open_view, for instance). A member that is marked optional may be NULL. */
#ifndef LOOM_CORE_KERNELS_H
#define LOOM_CORE_KERNELS_H

#include "core/batch.h"
#include "core/machine.h"
#include "core/totals.h"

typedef struct loom__map_kernels {
    /* Every slot empty, every word zero, all state zero except the generation. Does not wait. */
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);

    /* Sets the totals; all other state becomes that of a table without marks. The contents were written by other means. Waits.
     * Optional where the totals are all the state: the core writes them. */
    loom_status (*reset_totals)(loom__machine *machine, const void *view, const loom__totals *totals,
                                loom_stream stream);

    loom_status (*find)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Whatever batch->write says. Without `insert_bulk` builds come here too (batch->replace), and insertions in order or by partition
     * (batch->flags). OUT_OF_MEMORY leaves the table as it was. UNSUPPORTED and a sentence for a kind of write that the engine does not
     * have. */
    loom_status (*write)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Insert by partition, after splitting the batch, unless the flags or the machine say directly; in order where that is asked for,
     * or UNSUPPORTED. Builds too. Allocates: OUT_OF_MEMORY leaves the table as it was. Optional. */
    loom_status (*insert_bulk)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Temporary memory of a build of n keys with these flags, arrays where the machine works; 0: none. Optional. */
    uint64_t (*bulk_bytes)(loom__machine *machine, const void *view, uint64_t n, uint32_t flags, int with_status);

    /* Is `insert_bulk` faster than `write` for n keys into a table that surely has slots for them? Optional: it never is. */
    int (*bulk_pays)(loom__machine *machine, const void *view, uint64_t n);

    /* Fills the partitions of `to`, whatever is in them, with the keys of `from`, and waits; the caller sets the totals. *refused: keys
     * for which there was no room; then `to` is not to be used. UNSUPPORTED: these partitions cannot be filled whole. Optional. */
    loom_status (*refill)(loom__machine *machine, const void *from, const void *to, uint64_t *refused,
                          loom_stream stream);

    /* Copies pairs out from `position` on, at most `room`, and moves the position; *got is 0 at the end. Waits. */
    loom_status (*retrieve)(loom__machine *machine, const void *view, loom__position *position, void *keys,
                            void *values, uint64_t room, uint64_t *got, loom_stream stream);

    /* Reads the whole table, measures it and checks the engine's invariants. Waits. */
    loom_status (*survey)(loom__machine *machine, const void *view, loom__survey *survey, loom_stream stream);

    /* Puts worn partitions in order; with `sweep`, slots that a mixed view retired become free. Does not wait. Optional: nothing
     * wears out. */
    loom_status (*upkeep)(loom__machine *machine, const void *view, int sweep, loom_stream stream);

    /* Adds to the table's size what kernels of users have added. Does not wait. Optional: such kernels cannot write. */
    loom_status (*fold_size)(loom__machine *machine, const void *view, loom_stream stream);

    /* Buckets that looking the keys up reads. Optional. */
    loom_status (*count_accesses)(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream);
} loom__map_kernels;

typedef struct loom__filter_kernels {
    /* All bits zero. Does not wait. */
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);

    /* Of the batch: keys, n, found, flags, by_partition, result, stream. `outcome` is the status that the result gets. With
     * batch->by_partition nobody else sets bits meanwhile; keys still go directly if they cannot be split and the flags do not insist
     * (LOOM_BY_PARTITION). */
    loom_status (*insert)(loom__machine *machine, const void *view, const loom__batch *batch, loom_status outcome);
    loom_status (*contains)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Is inserting n keys by partition faster? And the temporary memory that it takes; 0: it cannot be done. */
    int (*bulk_pays)(loom__machine *machine, const void *view, uint64_t n);
    uint64_t (*bulk_bytes)(loom__machine *machine, const void *view, uint64_t n);

    /* `to` becomes the union of both, which have the same shape. Nobody else sets bits there. Does not wait. */
    loom_status (*merge)(loom__machine *machine, const void *to, const void *from, loom_stream stream);

    /* Waits. */
    loom_status (*survey)(loom__machine *machine, const void *view, loom__filter_survey *survey, loom_stream stream);
} loom__filter_kernels;

#endif
