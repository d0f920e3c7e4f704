/* The bulk kernels of a machine: one of these structs for each engine that the machine offers. `view` is the engine's
 * view struct, through which its kernels see a table, for example loom__open_view. A member marked optional may be
 * NULL. */
#ifndef LOOM_CORE_KERNELS_H
#define LOOM_CORE_KERNELS_H

#include "core/batch.h"
#include "core/machine.h"
#include "core/totals.h"
#include "core/value_range.h"

/* Machines know the kernels of an engine by its id. Multimaps with lists in one piece have the id of the open engine,
 * like open maps, so their kernels have a number of their own. */
enum { LOOM__KERNELS_MULTI = 1 << 16 };

typedef struct loom__map_kernels {
    /* Empties every slot. Zeroes all other words of the table, and all state except the generation and the count of
     * stashed cells. Does not wait. */
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);

    /* Sets the totals and resets all other state: no partition is marked. The caller has written the contents by other
     * means. Waits. Optional for engines whose only state is the totals: the core writes them. */
    loom_status (*reset_totals)(loom__machine *machine, const void *view, const loom__totals *totals,
                                loom_stream stream);

    loom_status (*find)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Does what batch->write says. Without `insert_bulk` this function also gets builds (batch->replace) and insertions
     * in order or by partition (batch->flags). OUT_OF_MEMORY leaves the table unchanged. Returns UNSUPPORTED and a
     * sentence for a kind of write that the engine does not have. */
    loom_status (*write)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Splits the batch and inserts by partition, unless the flags or the machine choose direct insertion. If the flags
     * ask for LOOM_IN_ORDER, keeps the order of equal keys or returns UNSUPPORTED. Also builds. Allocates:
     * OUT_OF_MEMORY leaves the table unchanged. Optional. */
    loom_status (*insert_bulk)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Bytes of temporary memory that a build of n keys with these flags takes, if the arrays lie where the machine
     * works; 0: none. Optional. */
    uint64_t (*bulk_bytes)(loom__machine *machine, const void *view, uint64_t n, uint32_t flags, int with_status);

    /* Whether `insert_bulk` is faster than `write` for n keys into a table that surely has slots for them. Optional:
     * never. */
    int (*bulk_pays)(loom__machine *machine, const void *view, uint64_t n);

    /* Replaces the contents of `to` by the keys of `from`. Fills whole partitions, and waits. The caller sets the
     * totals; only stashed cells are counted here. *refused is 0 if all keys found room; otherwise `to` must not be
     * used. A lack of room is reported by *refused, never as FULL. UNSUPPORTED: these partitions cannot be filled
     * whole. Optional. */
    loom_status (*refill)(loom__machine *machine, const void *from, const void *to, uint64_t *refused,
                          loom_stream stream);

    /* Copies out pairs from `position` on, at most `room`, and advances the position; *got is 0 at the end. Waits. */
    loom_status (*retrieve)(loom__machine *machine, const void *view, loom__position *position, void *keys,
                            void *values, uint64_t room, uint64_t *got, loom_stream stream);

    /* Reads the whole table, measures it and checks the engine's invariants. Waits. */
    loom_status (*survey)(loom__machine *machine, const void *view, loom__survey *survey, loom_stream stream);

    /* Repairs worn partitions. With `sweep`, also frees the slots that a mixed device view retired. Does not wait.
     * Optional: nothing wears out. */
    loom_status (*upkeep)(loom__machine *machine, const void *view, int sweep, loom_stream stream);

    /* Adds to the table's size the number of keys that users' kernels added. Multimaps: adds to all totals, and erases
     * keys without values. Does not wait. Optional: users' kernels cannot write. */
    loom_status (*fold_size)(loom__machine *machine, const void *view, loom_stream stream);

    /* Counts the buckets that a lookup of the keys reads. Optional. */
    loom_status (*count_accesses)(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream);

    /* Erases the pairs whose values lie in the range. The table has values, and the caller has it alone. Counts in
     * *result: ok (erased), exists (the others), keys (all). Waits only if the machine cannot write *result in stream
     * order. Optional: the core copies pairs out and erases their keys, in multimaps the pairs. */
    loom_status (*erase_if)(loom__machine *machine, const void *view, const loom__value_range *range,
                            loom_result *result, loom_stream stream);

    /* Multimaps only. Counts or copies out lists; waits if query->needed is not NULL. */
    loom_status (*find_all)(loom__machine *machine, const void *view, const loom__list_query *query);

    /* Multimaps only. Erases for each row of batch->keys and batch->values one pair that is equal to it. The caller has
     * the table alone. OUT_OF_MEMORY leaves the table unchanged. */
    loom_status (*erase_pairs)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Multimaps only. A build that refuses keys costs no more than any other. So a table that has a capacity is built
     * without an estimate of its keys, and again if it refuses some. */
    int tries_builds;

    /* Bytes of temporary memory for copies of a batch of n keys whose arrays lie in host memory, beyond what bulk_bytes
     * tells, at most. Optional: none. */
    uint64_t (*host_array_bytes)(loom__machine *machine, const void *view, uint64_t n);

    /* Zeroes the memory that users' kernels may take: they do not fill all of it, and files hold it. The caller has the
     * table alone. Does not wait. Optional: kernels take no memory. */
    loom_status (*zero_free)(loom__machine *machine, const void *view, loom_stream stream);
} loom__map_kernels;

typedef struct loom__filter_kernels {
    /* Zeroes all bits. Does not wait. */
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);

    /* Both use these members of the batch: keys, n, found, added, flags, by_partition, result, stream. `outcome` is the
     * status code that `insert` writes to the result. With batch->by_partition no other call sets bits meanwhile. If
     * the batch cannot be split, it is inserted directly, unless the flags demand LOOM_BY_PARTITION. With batch->added
     * the batch is never split, `ok` and `exists` of the result count new keys and others, and the flags may demand
     * LOOM_IN_ORDER. */
    loom_status (*insert)(loom__machine *machine, const void *view, const loom__batch *batch, loom_status outcome);
    loom_status (*contains)(loom__machine *machine, const void *view, const loom__batch *batch);

    /* Whether inserting n keys by partition is faster, and how many bytes of temporary memory it takes; 0 bytes: not
     * possible. */
    int (*bulk_pays)(loom__machine *machine, const void *view, uint64_t n);
    uint64_t (*bulk_bytes)(loom__machine *machine, const void *view, uint64_t n);
    /* Optional: bytes of temporary memory that inserting n keys in order takes. NULL: none. */
    uint64_t (*order_bytes)(loom__machine *machine, const void *view, uint64_t n);

    /* `to` becomes the union of both filters. They have the same shape, and no other call sets bits in `to`. Does not
     * wait. */
    loom_status (*merge)(loom__machine *machine, const void *to, const void *from, loom_stream stream);

    /* Reads the whole filter and waits. */
    loom_status (*survey)(loom__machine *machine, const void *view, loom__filter_survey *survey, loom_stream stream);
} loom__filter_kernels;

#endif
