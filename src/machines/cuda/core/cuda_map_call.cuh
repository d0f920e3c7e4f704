/* Bulk calls on tables: a struct that the steps of a call pass on, and the steps that all engines share. An engine adds
 * the kernels. */
#ifndef LOOM_CUDA_MAP_CALL_CUH
#define LOOM_CUDA_MAP_CALL_CUH

#include "machines/cuda/core/cuda_bulk.cuh"
#include "machines/cuda/core/cuda_call.cuh"

struct cuda_map_call;

/* Launches the call's work on the items of `batch`, at least one. The arrays are on the device. */
typedef cudaError_t cuda_map_launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream);

/* Launches several lookups in the table of `call`, each of at least one key. Places the parts. */
typedef cudaError_t cuda_map_launch_parts(const cuda_map_call *call, cuda_parts *parts, cudaStream_t stream);

struct cuda_map_call {
    cuda_state *cuda;
    const void *view; /* the engine's view struct */
    loom__slot_kind kind;
    uint64_t *size; /* of the table; NULL: it keeps no size */
    cuda_map_launch *launch;
    cuda_map_launch_parts *launch_parts; /* NULL: each lookup has a launch of its own */
    bool one_at_a_time;                  /* the work of two chunks of host arrays must not overlap */
    bool may_finish; /* if `finish` is set, the kernel that `launch` launches also finishes the call */
    const cuda_finish *finish;
    uint64_t most;     /* most items of one launch */
    loom__batch batch; /* in a slice, n and `replace` are the slice's */
    cuda_op op;
    cudaStream_t stream;
    cuda_call_arrays arrays;
    cuda_place place;                        /* of the result */
    cuda_ticket *ticket;                     /* NULL: outcomes are not counted */
    loom_status outcome;                     /* the status of the result, unless a key is refused */
    uint32_t row_key_bytes, row_value_bytes; /* of tables with rows; otherwise 0, and `kind` tells the widths */

    uint32_t key_bytes() const
    {
        return row_key_bytes != 0 ? row_key_bytes : slot_key_bytes(kind);
    }
    uint32_t value_bytes() const
    {
        return row_key_bytes != 0 ? row_value_bytes : slot_value_bytes(kind);
    }
    cuda_counts *counts() const
    {
        return ticket != NULL ? ticket->counts : NULL;
    }
    /* All items. The arrays are on the device. */
    cuda_batch whole() const
    {
        void *at[CALL_ARRAYS];
        arrays.addresses(at);
        return cuda_batch_of(cuda, at, batch.n, &batch, counts());
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
    /* Whether the order of equal keys makes a difference. In a set, only statuses depend on the order. */
    bool goes_in_order() const
    {
        return asks(LOOM_IN_ORDER) && (batch.values != NULL || batch.status != NULL);
    }
};

/* A call before its first step. `totals` are the table's. */
inline cuda_map_call cuda_map_call_of(loom__machine *machine, const void *view, loom__slot_kind kind,
                                      loom__totals *totals, const loom__batch *batch, cuda_op op,
                                      cuda_map_launch *launch)
{
    return {(cuda_state *)machine,
            view,
            kind,
            &totals->size,
            launch,
            NULL,
            false,
            false,
            NULL,
            UINT64_MAX,
            *batch,
            op,
            (cudaStream_t)batch->stream,
            {},
            PLACE_NONE,
            NULL,
            LOOM_OK,
            0,
            0};
}

template <class view_type>
cuda_map_call cuda_map_call_on(loom__machine *machine, const view_type *view, const loom__batch *batch, cuda_op op,
                               cuda_map_launch *launch)
{
    return cuda_map_call_of(machine, view, (loom__slot_kind)view->kind, view->totals, batch, op, launch);
}

/* The first step: finds out where arrays and result lie. Changes nothing. */
loom_status cuda_locate_call(cuda_map_call *call);

/* Allocates the staging memory that a build needs, before the build clears its table. */
loom_status cuda_try_stage(const cuda_map_call *call);

/* Returns a slice as a call of its own: items first .. first + each - 1, or up to the end. Only the first slice of a
 * build replaces the contents of the table. */
cuda_map_call cuda_slice_of(const cuda_map_call *call, uint64_t first, uint64_t each);

/* Launches the work on all items. Counts outcomes if there is a ticket. If arrays are staged, works chunk by chunk and
 * waits. With `one_at_a_time` the work of two chunks does not overlap. */
loom_status cuda_run_items(const cuda_map_call *call, bool one_at_a_time = false);

/* Splits all items by partition. Waits if arrays are staged. */
loom_status cuda_split_items(const cuda_map_call *call, const bulk_target *target, const bulk_plan *plan,
                             unsigned char *workspace);

/* Runs a lookup whose counts nobody reads, and waits for it (cuda_together.cu). */
loom_status cuda_find_and_wait(cuda_map_call *call);

/* Turns the counts into the caller's result. cuda_finish_of returns the arguments of the kernel. cuda_finish_call
 * launches the kernel, and waits if cuda_hand_over must. `replaced`: the call's keys are the table's only keys. */
cuda_finish cuda_finish_of(const cuda_map_call *call, bool replaced);
loom_status cuda_finish_call(const cuda_map_call *call, bool replaced = false);

/* Runs all items and finishes the call. Takes a ticket, except for a lookup whose counts nobody reads. */
loom_status cuda_run_call(cuda_map_call *call);

/* Sets the counts to zero, before a step is repeated. */
loom_status cuda_clear_counts(const cuda_map_call *call);

/* Takes temporary memory for a call that goes by partition. If the allocation fails, own->at is NULL; the status is
 * OUT_OF_MEMORY only if the flags ask for LOOM_BY_PARTITION. */
loom_status cuda_take_for_partitions(const cuda_map_call *call, uint64_t bytes, cuda_workspace *own);

/* Runs body() with a ticket. Afterwards gives back the ticket and the workspace. */
template <class body_type> loom_status cuda_with_ticket(cuda_map_call *call, const cuda_workspace *own, body_type body)
{
    loom_status status = cuda_take_ticket(call->cuda, call->stream, &call->ticket);
    if (status == LOOM_OK) {
        status = body();
        cuda_give_ticket(call->cuda, call->stream, call->ticket, status == LOOM_OK);
    }
    if (status != LOOM_OK && call->arrays.staged)
        cudaStreamSynchronize(call->stream); /* a copy of the caller's arrays may still run */
    cuda_give_workspace(&call->cuda->base, own, call->stream);
    return status;
}

/* ---- In order (cuda_in_order.cu) ---- */

/* The layout of the workspace. The sort moves keys and positions from one buffer to the other and back. After the sort,
 * its scratch memory holds the values and statuses of the winners. */
typedef struct cuda_in_order_plan {
    uint64_t each; /* keys of a slice; the last slice may have fewer */
    uint64_t keys_at[2], positions_at[2];
    uint64_t scratch_at, sort_bytes, chosen_status_at;
    uint64_t values_at, answers_at; /* for arrays on the host */
    bool values_staged, answers_staged;
    uint64_t bytes; /* a multiple of 256 */
} cuda_in_order_plan;

/* An engine's part of an insertion in order. */
typedef struct cuda_in_order_table {
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);
    /* Inserts the winners, whose keys are all different. Only the device knows their number. The winners replace the
     * keys and values of `batch`; its other members apply. Outcomes are counted, and statuses written: OK, EXISTS or
     * FULL, in filters too. */
    loom_status (*insert)(const void *argument, const cuda_batch *batch, const cuda_spill *winners, bool overwrite,
                          cudaStream_t stream);
    /* Builds the table from the first slice without a sort. If *gave_up is set, the table has no keys and the slice
     * must be sorted. If `build` is NULL, every slice is sorted. */
    loom_status (*build)(const void *argument, const cuda_map_call *slice, bool *gave_up);
    const void *argument;
} cuda_in_order_table;

/* Keys per slice of a call with n keys. A slice has at most 2^31 keys here, since positions have 32 bits. */
uint64_t cuda_in_order_slice(const cuda_state *cuda, uint64_t n);

/* Plans a call that has keys and whose arrays are located. Changes nothing but *plan. */
loom_status cuda_plan_in_order(const cuda_map_call *call, cuda_in_order_plan *plan);

/* Bytes of a plan for n keys in arrays on the device; 0 if n is 0 or the device is not usable. */
uint64_t cuda_in_order_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n);
/* What the workspace needs in addition if the arrays lie in host memory. */
uint64_t cuda_in_order_host_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n);

/* Inserts all slices and finishes the call. Takes a ticket. Gives the workspace back, which begins with the plan's
 * memory. A failure leaves the table unchanged if nothing that clears, builds or inserts has been launched yet. */
loom_status cuda_insert_in_order(cuda_map_call *call, const cuda_in_order_table *table, const cuda_in_order_plan *plan,
                                 const cuda_workspace *own);

#endif
