/* Bulk calls on maps and sets, whichever the engine: one struct that a call's steps pass on, and the steps that all engines share.
 * An engine adds the kernels. */
#ifndef LOOM_CUDA_MAP_CALL_CUH
#define LOOM_CUDA_MAP_CALL_CUH

#include "machines/cuda/core/cuda_bulk.cuh"
#include "machines/cuda/core/cuda_call.cuh"

struct cuda_map_call;

/* Launches what the call does to the items of `batch`, which has at least one. Arrays are on the device. */
typedef cudaError_t cuda_map_launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream);

struct cuda_map_call {
    cuda_state *cuda;
    const void *view; /* the engine's */
    loom__slot_kind kind;
    uint64_t *size; /* of the table */
    cuda_map_launch *launch;
    uint64_t most;     /* items of one launch */
    loom__batch batch; /* a slice has a part of its call's */
    cuda_op op;
    cudaStream_t stream;
    cuda_call_arrays arrays;
    cuda_place place;    /* of the result */
    cuda_ticket *ticket; /* NULL: nobody counts */

    /* All items, of a call whose arrays are on the device. */
    cuda_batch whole() const
    {
        void *at[CALL_ARRAYS];
        arrays.addresses(at);
        return cuda_batch_of(cuda, at, batch.n, &batch, ticket != NULL ? ticket->counts : NULL);
    }
    bool asks(uint32_t flags) const
    {
        return (batch.flags & flags) != 0;
    }
    bool overwrites() const
    {
        return op == OP_OVERWRITE;
    }
    bool has_staged_status() const
    {
        return batch.status != NULL && arrays.all[CALL_STATUS].staged();
    }
    /* Do equal keys make a difference for the order? Of a set, only statuses tell. */
    bool goes_in_order() const
    {
        return asks(LOOM_IN_ORDER) && (batch.values != NULL || batch.status != NULL);
    }
};

/* A call before its first step. */
template <class view_type>
cuda_map_call cuda_map_call_on(loom__machine *machine, const view_type *view, const loom__batch *batch, cuda_op op,
                               cuda_map_launch *launch)
{
    return {(cuda_state *)machine,
            view,
            (loom__slot_kind)view->kind,
            &view->totals->size,
            launch,
            UINT64_MAX,
            *batch,
            op,
            (cudaStream_t)batch->stream,
            {},
            PLACE_NONE,
            NULL};
}

/* The first step: finds out where arrays and result lie. Changes nothing. */
loom_status cuda_locate_call(cuda_map_call *call);

/* What may fail in staging fails here, before a build clears its table. */
loom_status cuda_try_stage(const cuda_map_call *call);

/* Items first .. first + each - 1, or up to the end: a call of its own, of which only the first slice replaces the table's contents. */
cuda_map_call cuda_slice_of(const cuda_map_call *call, uint64_t first, uint64_t each);

/* Launches the work on all items, in chunks if arrays are staged; those go `one_at_a_time` if their work may not overlap. Counts, if there is
 * a ticket. Waits if arrays are staged. */
loom_status cuda_run_items(const cuda_map_call *call, bool one_at_a_time = false);

/* Splits all items by partition; waits if arrays are staged. */
loom_status cuda_split_items(const cuda_map_call *call, const bulk_target *target, const bulk_plan *plan,
                             unsigned char *workspace);

/* What was counted becomes the result, where the caller wants it; waits if it must. `replaced`: the table has no other keys. */
cuda_finish cuda_finish_of(const cuda_map_call *call, bool replaced);
loom_status cuda_finish_call(const cuda_map_call *call, bool replaced = false);

/* Runs all items and finishes: a ticket is taken, unless nobody wants counts. */
loom_status cuda_run_call(cuda_map_call *call);

/* Counts go into ticket->counts from here on: after a step that is done again. */
loom_status cuda_clear_counts(const cuda_map_call *call);

/* Memory for a way by partition, or none: own->at is NULL. OUT_OF_MEMORY only if the flags insist on that way. */
loom_status cuda_take_for_partitions(const cuda_map_call *call, uint64_t bytes, cuda_workspace *own);

/* Does body() with a ticket, and gives the workspace back. */
template <class body_type> loom_status cuda_with_ticket(cuda_map_call *call, const cuda_workspace *own, body_type body)
{
    loom_status status = cuda_take_ticket(call->cuda, call->stream, &call->ticket);
    if (status == LOOM_OK) {
        status = body();
        cuda_give_ticket(call->cuda, call->stream, call->ticket, status == LOOM_OK);
    }
    if (status != LOOM_OK && call->arrays.staged)
        cudaStreamSynchronize(call->stream); /* a copy of the caller's arrays may be under way */
    cuda_give_workspace(&call->cuda->base, own, call->stream);
    return status;
}

/* ---- In order (cuda_in_order.cu) ---- */

/* What lies where in the workspace. Keys and positions are sorted from one buffer to the other and back; the sort's scratch serves the
 * winners afterwards. */
typedef struct cuda_in_order_plan {
    uint64_t each; /* keys of a slice, the last one excepted */
    uint64_t keys_at[2], positions_at[2];
    uint64_t scratch_at, sort_bytes, chosen_status_at;
    uint64_t values_at, status_at; /* for arrays on the host */
    bool values_staged, status_staged;
    uint64_t bytes; /* a multiple of 256 */
} cuda_in_order_plan;

/* What an engine does for records that are inserted in order. */
typedef struct cuda_in_order_table {
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);
    /* Inserts keys that are all different; the device knows how many. `batch` has all but them: counts and statuses are wanted. */
    loom_status (*insert)(const void *argument, const cuda_batch *batch, const cuda_spill *winners, bool overwrite,
                          cudaStream_t stream);
    /* A faster way for the first slice of a build; *gave_up: the table has no keys, and the slice is to be sorted. NULL: there is none. */
    loom_status (*build)(const void *argument, const cuda_map_call *slice, bool *gave_up);
    const void *argument;
} cuda_in_order_table;

/* Keys of a slice, of a call with n: positions have fewer bits than in other slices. */
uint64_t cuda_in_order_slice(const cuda_state *cuda, uint64_t n);

/* For a call that has keys, with its arrays located. Asks the device, changes nothing. */
loom_status cuda_plan_in_order(const cuda_map_call *call, cuda_in_order_plan *plan);

/* The plan's bytes for n keys in arrays on the device; 0 if the device cannot be asked. */
uint64_t cuda_in_order_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n);

/* All slices, and the result. Takes a ticket and gives the workspace back; it begins with the plan's memory. If it fails before its first
 * insertion is launched the table is as it was. */
loom_status cuda_insert_in_order(cuda_map_call *call, const cuda_in_order_table *table, const cuda_in_order_plan *plan,
                                 const cuda_workspace *own);

#endif
