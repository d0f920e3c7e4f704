/* Inserts any batch in order (LOOM_IN_ORDER). The insertion sorts the keys together with their positions in the batch,
 * chooses one *winner* for each run of equal keys, inserts the winners, and reports a status for every record.
 *
 * The sort is stable: the records of a run keep the order of the batch. A winner has the key of its run, with the value
 * of the first record (keep) or of the last record (overwrite). Winners have different keys, so they may go to the
 * table in any order. If the key was stored as new, the first record gets OK and the others get EXISTS. If the table
 * had the key before, all records get EXISTS. If the key was refused, all get FULL. A sequential insertion gives the
 * same statuses. If the batch does not fit, the refused keys may differ from those that a sequential insertion would
 * refuse. Insertions into filters have an array `added` in place of statuses: 1 for OK, 0 for EXISTS.
 *
 * Bytes moved for n records with m different keys, keys of k bytes and values of v bytes:
 *   copy     2 k n + 4 n; copies the keys, since the sort needs memory of its own, and writes the positions
 *   sort     k n + k * 2 (k + 4) n; one pass for each byte of a key
 *   choose   k n + (k + v + 8) m sequentially, and one random read of a value for each winner
 *   insert   as a direct insertion of m keys
 *   tell     (2 k + 8) n, and one random write of a byte for each record; nothing if the call has no status array and
 *            no key was refused
 * Estimate for 10^8 pairs of 4 + 4 bytes, all different, on an H200: 2 ms for sequential accesses, 2.5 ms for random
 * reads of values, 8 ms for the insertion, 3 ms more with statuses. The estimate comes from the rates in
 * docs/performance.md; it has not been measured. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_sort.cuh"

namespace
{

const unsigned ALL_LANES = 0xffffffffu;

enum {
    THREADS = 256,
    BLOCKS = 8, /* on one multiprocessor */
    AT_ONCE = 8 /* records per lane that a warp numbers by one atomic addition */
};

/* The beginning of the workspace; zero when a slice begins. */
struct order_counters {
    cuda_counts inserted[COUNT_COPIES]; /* outcomes of the winners */
    uint32_t winners;
};

unsigned blocks_for(const cuda_state *cuda, uint64_t n, uint32_t at_once)
{
    const uint64_t most = (uint64_t)cuda->multiprocessors * BLOCKS, per_block = THREADS * at_once;
    const uint64_t wanted = (n + per_block - 1) / per_block;
    return (unsigned)(wanted < most ? wanted : most);
}

/* ---- winners ---- */

template <class key> struct order_work {
    const key *keys;           /* [n] sorted */
    const uint32_t *positions; /* [n] their positions in the batch */
    uint64_t n;
    uint32_t *numbers; /* [n] at the first place of a run: the number of its winner */
    order_counters *counters;
    key *chosen;            /* [winners] */
    void *chosen_values;    /* [winners] */
    uint8_t *chosen_status; /* [winners] */
    const void *values;     /* [n] of the batch; NULL for sets */
    uint32_t value_bytes;
    uint8_t *status;     /* [n] of the batch; NULL: not wanted */
    uint8_t *added;      /* the same; status and added are not both wanted */
    cuda_counts *counts; /* of the call */
};

/* Numbers the winners, in no particular order, and copies each winner to its place in the list. A warp reads
 * 32 * AT_ONCE places at a time. */
template <class key>
__global__ void __launch_bounds__(THREADS) choose_kernel(const order_work<key> work, bool overwrite)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS * AT_ONCE;
    for (uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x - lane) * AT_ONCE; first < work.n;
         first += stride) {
        uint32_t begun[AT_ONCE], all = 0, number = 0;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const uint64_t i = first + 32 * k + lane;
            begun[k] = __ballot_sync(ALL_LANES, i < work.n && begins_run(work.keys, i));
            all += __popc(begun[k]);
        }
        if (lane == 0 && all > 0)
            number = atomicAdd(&work.counters->winners, all);
        number = __shfl_sync(ALL_LANES, number, 0);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (begun[k] >> lane & 1) {
                const uint64_t i = first + 32 * k + lane, winner = overwrite ? last_of_run(work.keys, work.n, i) : i;
                const uint32_t own = number + __popc(begun[k] & ((1u << lane) - 1));
                work.numbers[i] = own;
                work.chosen[own] = work.keys[i];
                if (work.value_bytes == 4)
                    ((uint32_t *)work.chosen_values)[own] = ((const uint32_t *)work.values)[work.positions[winner]];
                else if (work.value_bytes == 8)
                    ((uint64_t *)work.chosen_values)[own] = ((const uint64_t *)work.values)[work.positions[winner]];
            }
            number += __popc(begun[k]);
        }
    }
}

/* ---- statuses ---- */

static_assert(COUNT_COPIES == 32, "a warp reads one of them with each lane");

template <class key> __global__ void __launch_bounds__(THREADS) tell_kernel(const order_work<key> work)
{
    const cuda_counts *inserted = &work.counters->inserted[threadIdx.x % 32];
    const bool refused = __any_sync(ALL_LANES, inserted->full > 0);
    const bool told_apart = work.status != NULL || work.added != NULL;
    if (!told_apart && !refused) { /* OK for each key that was stored as new, EXISTS for all other records */
        if (blockIdx.x == 0 && threadIdx.x < 32) {
            cuda_counts *to = &work.counts[threadIdx.x];
            atomicAdd(&to->ok, inserted->ok);
            atomicAdd(&to->exists,
                      (threadIdx.x == 0 ? work.n : 0) - inserted->ok); /* one copy may wrap; the sum does not */
        }
        return;
    }
    outcome_counts counts = {};
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < work.n; i += (uint64_t)gridDim.x * THREADS) {
        const bool first = begins_run(work.keys, i);
        uint8_t told = LOOM_EXISTS;
        if (first || refused) { /* without refusals, a record that is not the first of its run gets EXISTS */
            told = work.chosen_status[work.numbers[first ? i : first_of_run(work.keys, i)]];
            told = !first && told == LOOM_OK ? (uint8_t)LOOM_EXISTS : told;
        }
        counts.ok += told == LOOM_OK;
        counts.exists += told == LOOM_EXISTS;
        counts.full += told == LOOM_FULL;
        if (work.status != NULL)
            work.status[work.positions[i]] = told;
        if (work.added != NULL)
            work.added[work.positions[i]] = told == LOOM_OK;
    }
    tell_counts(work.counts, counts);
}

/* ---- slices ---- */

/* The array that tells the outcome of each record. */
const cuda_call_array *answers_of(const cuda_map_call *call)
{
    return &call->arrays.all[call->batch.added != NULL ? CALL_FOUND : CALL_STATUS];
}

/* Inserts one slice. Keys may lie anywhere. Values and answers lie on the device, unless the plan stages them. Waits
 * only for copies of pageable memory. */
template <class key>
loom_status insert_sorted(const cuda_map_call *slice, const cuda_in_order_table *table, const cuda_in_order_plan *plan,
                          unsigned char *workspace)
{
    const cuda_state *cuda = slice->cuda;
    cudaStream_t stream = slice->stream;
    const cuda_batch whole = slice->whole(), *batch = &whole;
    const uint64_t n = batch->n;
    const uint32_t value_bytes = slot_value_bytes(slice->kind);
    unsigned char *scratch = workspace + plan->scratch_at;
    order_counters *counters = (order_counters *)workspace;
    const cuda_sort_buffers<key, uint32_t> buffers = {
        {(key *)(workspace + plan->keys_at[0]), (key *)(workspace + plan->keys_at[1])},
        {(uint32_t *)(workspace + plan->positions_at[0]), (uint32_t *)(workspace + plan->positions_at[1])},
        scratch,
        (size_t)plan->sort_bytes};
    cuda_sorted<key, uint32_t> sorted;
    const void *values = batch->values;
    uint8_t *home = (uint8_t *)answers_of(slice)->at, *answers = home;
    const bool adds = slice->batch.added != NULL;
    CUDA_TRY(cudaMemsetAsync(counters, 0, sizeof *counters, stream));
    if (plan->values_staged) {
        values = workspace + plan->values_at;
        CUDA_TRY(
            cudaMemcpyAsync(workspace + plan->values_at, batch->values, n * value_bytes, cudaMemcpyDefault, stream));
    }
    if (plan->answers_staged)
        answers = workspace + plan->answers_at;
    const unsigned blocks = blocks_for(cuda, n, 1), choosing = blocks_for(cuda, n, AT_ONCE);
    RETURN_IF_FAILED(cuda_sort_keys(batch->keys, NULL, n, buffers, stream, &sorted));
    /* The other buffers and the sort's scratch memory are free now: winners go there. */
    const order_work<key> work = {sorted.keys,
                                  sorted.mates,
                                  n,
                                  sorted.free_mates,
                                  counters,
                                  sorted.free_keys,
                                  scratch,
                                  workspace + plan->chosen_status_at,
                                  values,
                                  value_bytes,
                                  adds ? NULL : answers,
                                  adds ? answers : NULL,
                                  batch->counts};
    choose_kernel<<<choosing, THREADS, 0, stream>>>(work, slice->overwrites());
    CUDA_TRY(cudaGetLastError());
    if (slice->batch.replace) /* no step before has touched the table */
        RETURN_IF_FAILED(table->clear(&slice->cuda->base, slice->view, stream));
    cuda_batch chosen = *batch;
    chosen.found = NULL;
    chosen.status = work.chosen_status;
    chosen.counts = counters->inserted;
    const cuda_spill winners = {&counters->winners, (uint32_t)n, work.chosen,
                                value_bytes != 0 ? work.chosen_values : NULL};
    RETURN_IF_FAILED(table->insert(table->argument, &chosen, &winners, slice->overwrites(), stream));
    tell_kernel<<<blocks, THREADS, 0, stream>>>(work);
    CUDA_TRY(cudaGetLastError());
    if (plan->answers_staged)
        CUDA_TRY(cudaMemcpyAsync(home, answers, n, cudaMemcpyDefault, stream));
    return LOOM_OK;
}

cudaError_t lay_out(loom__slot_kind kind, uint64_t n, bool values_staged, bool answers_staged, cuda_in_order_plan *plan)
{
    const uint32_t key_bytes = slot_key_bytes(kind), value_bytes = slot_value_bytes(kind);
    size_t sort = 0;
    cudaError_t error = cuda_sort_bytes(key_bytes, sizeof(uint32_t), n, &sort);
    cuda_layout all = {0};
    all.add(sizeof(order_counters));
    *plan = cuda_in_order_plan{};
    plan->each = n;
    plan->values_staged = values_staged;
    plan->answers_staged = answers_staged;
    for (int i = 0; i < 2; i++) {
        plan->keys_at[i] = all.add(n * key_bytes);
        plan->positions_at[i] = all.add(n * sizeof(uint32_t));
    }
    const uint64_t chosen_values = cuda_aligned(n * value_bytes), chosen = chosen_values + n;
    plan->sort_bytes = sort;
    plan->scratch_at = all.add(sort > chosen ? sort : chosen);
    plan->chosen_status_at = plan->scratch_at + chosen_values;
    plan->values_at = all.add(values_staged ? chosen_values : 0);
    plan->answers_at = all.add(answers_staged ? n : 0);
    plan->bytes = all.bytes;
    return error;
}

/* Inserts the slices one after the other. A key of a later slice finds an equal key of an earlier slice in the table,
 * and keeps or overwrites it: the order of the batch is kept. */
loom_status run_slices(const cuda_map_call *call, const cuda_in_order_table *table, const cuda_in_order_plan *plan,
                       unsigned char *workspace)
{
    bool built = false;
    for (uint64_t first = 0; first < call->batch.n; first += plan->each) {
        const cuda_map_call slice = cuda_slice_of(call, first, plan->each);
        if (first == 0 && table->build != NULL) {
            bool gave_up = false;
            RETURN_IF_FAILED(table->build(table->argument, &slice, &gave_up));
            built = !gave_up;
            if (built)
                continue;
            RETURN_IF_FAILED(cuda_clear_counts(call)); /* the keys are counted again */
        }
        RETURN_IF_FAILED(slot_key_bytes(call->kind) == 4 ? insert_sorted<uint32_t>(&slice, table, plan, workspace)
                                                         : insert_sorted<uint64_t>(&slice, table, plan, workspace));
    }
    return cuda_finish_call(call, built);
}

} // namespace

uint64_t cuda_in_order_slice(const cuda_state *cuda, uint64_t n)
{
    const uint64_t most = (uint64_t)1 << 31; /* positions have 32 bits */
    return loom__slice_items(n, cuda->slice_keys < most ? cuda->slice_keys : most);
}

loom_status cuda_plan_in_order(const cuda_map_call *call, cuda_in_order_plan *plan)
{
    CUDA_TRY(lay_out(call->kind, cuda_in_order_slice(call->cuda, call->batch.n), call->arrays.all[CALL_VALUES].staged(),
                     answers_of(call)->staged(), plan));
    return LOOM_OK;
}

static uint64_t plan_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n, bool staged)
{
    const cuda_device_scope scope(cuda);
    cuda_in_order_plan plan;
    if (scope.status != LOOM_OK || n == 0)
        return 0;
    if (lay_out(kind, cuda_in_order_slice(cuda, n), staged, staged, &plan) != cudaSuccess)
        cudaGetLastError(); /* the call that needs the memory will report the error */
    return plan.bytes;
}

uint64_t cuda_in_order_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n)
{
    return plan_bytes(cuda, kind, n, false);
}

uint64_t cuda_in_order_host_bytes(const cuda_state *cuda, loom__slot_kind kind, uint64_t n)
{
    return plan_bytes(cuda, kind, n, true) - plan_bytes(cuda, kind, n, false);
}

loom_status cuda_insert_in_order(cuda_map_call *call, const cuda_in_order_table *table, const cuda_in_order_plan *plan,
                                 const cuda_workspace *own)
{
    return cuda_with_ticket(call, own, [&] { return run_slices(call, table, plan, own->at); });
}
