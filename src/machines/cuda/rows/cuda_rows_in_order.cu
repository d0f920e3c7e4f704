/* Inserts a batch into a table with rows in order (LOOM_IN_ORDER): of equal keys the first one counts (keep) or the
 * last one (overwrite), and the first one of a new key is told OK.
 *
 * Keys of any width are not sorted. Instead the batch is inserted directly, in any order, and then put right:
 *   1. insert   Each key is stored with the value of some item that has it.
 *   2. locate   Each item looks up the slot of its key.
 *   3. rank     The items of a slot find out which of them comes first, and which comes last. The item that stored the
 *               key says that the key is new.
 *   4. settle   Of the items of a new key, or of any key that is overwritten, one stores its value; all get their
 *               statuses.
 * Nobody else uses the table meanwhile. Memory: 9 bytes for each item and 8.1 for each slot of the table. */
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

namespace
{

enum { THREADS = 256, BLOCKS = 1 << 16 /* of a kernel with a grid-stride loop, at most */ };

struct order_memory {
    uint64_t *slots;                    /* [n] of the items' keys */
    uint8_t *status;                    /* [n] of step 1 */
    uint32_t *before_first, *last_plus; /* [slots of the table] UINT32_MAX - number of the first item; last item + 1 */
    uint32_t *is_new;                   /* one bit for each slot of the table */
    uint64_t zeroed;                    /* bytes from before_first on that are zero at first */
    uint64_t bytes;
};

order_memory lay_out(const loom__rows_view *view, uint64_t n, unsigned char *memory)
{
    const uint64_t slots = (uint64_t)view->lines.partitions * view->lines.buckets * open_slots(SLOT_TAG);
    cuda_layout all = {0};
    order_memory order;
    order.slots = (uint64_t *)(memory + all.add(n * sizeof *order.slots));
    order.status = memory + all.add(n);
    const uint64_t begin = all.bytes;
    order.before_first = (uint32_t *)(memory + all.add(slots * sizeof(uint32_t)));
    order.last_plus = (uint32_t *)(memory + all.add(slots * sizeof(uint32_t)));
    order.is_new = (uint32_t *)(memory + all.add(slots / 8 + sizeof(uint32_t)));
    order.zeroed = all.bytes - begin;
    order.bytes = all.bytes;
    return order;
}

__global__ void __launch_bounds__(THREADS) rank_kernel(const order_memory order, uint64_t n)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t slot = order.slots[i];
        if (slot == CUDA_NO_SLOT)
            continue;
        atomicMax(&order.before_first[slot], UINT32_MAX - (uint32_t)i);
        atomicMax(&order.last_plus[slot], (uint32_t)i + 1);
        if (order.status[i] == LOOM_OK)
            atomicOr(&order.is_new[slot / 32], 1u << slot % 32);
    }
}

__global__ void __launch_bounds__(THREADS)
    settle_kernel(const loom__rows_view view, const cuda_batch batch, const order_memory order, bool overwrite)
{
    outcome_counts counts = {};
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < batch.n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t slot = order.slots[i];
        uint8_t told = LOOM_FULL;
        if (slot != CUDA_NO_SLOT) {
            const bool is_new = order.is_new[slot / 32] >> slot % 32 & 1;
            const bool first = order.before_first[slot] == UINT32_MAX - (uint32_t)i;
            const bool stores = overwrite ? order.last_plus[slot] == (uint32_t)i + 1 : is_new && first;
            told = is_new && first ? LOOM_OK : LOOM_EXISTS;
            if (stores && batch.values != NULL) {
                const unsigned char *from = (const unsigned char *)batch.values + i * view.value_bytes;
                unsigned char *to = open_row_of_number(&view, slot).value;
                for (uint32_t b = 0; b < view.value_bytes; b++)
                    to[b] = from[b];
            }
        }
        counts.ok += told == LOOM_OK;
        counts.exists += told == LOOM_EXISTS;
        counts.full += told == LOOM_FULL;
        if (batch.status != NULL)
            batch.status[i] = told;
    }
    if (batch.counts != NULL)
        tell_counts(batch.counts, counts);
}

} // namespace

uint64_t cuda_rows_order_bytes(const loom__rows_view *view, uint64_t n)
{
    return lay_out(view, n, NULL).bytes;
}

cudaError_t cuda_rows_in_order(const loom__rows_view *view, const cuda_batch *batch, bool overwrite,
                               unsigned char *memory, cudaStream_t stream)
{
    const order_memory order = lay_out(view, batch->n, memory);
    const uint64_t wanted = (batch->n + THREADS - 1) / THREADS;
    const unsigned blocks = wanted < BLOCKS ? (unsigned)wanted : (unsigned)BLOCKS;
    cuda_batch directly = *batch;
    directly.status = order.status;
    directly.counts = NULL;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(order.before_first, 0, order.zeroed, stream));
    RETURN_IF_CUDA_FAILED(cuda_rows_write(view, &directly, OP_KEEP, NULL, stream));
    RETURN_IF_CUDA_FAILED(cuda_rows_locate(view, batch->keys, batch->n, order.slots, stream));
    rank_kernel<<<blocks, THREADS, 0, stream>>>(order, batch->n);
    settle_kernel<<<blocks, THREADS, 0, stream>>>(*view, *batch, order, overwrite);
    return cudaGetLastError();
}
