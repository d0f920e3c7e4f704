/* Lookups and writes in tables with a board of tickets. A lane works on one key, a ticket at a time (ticket_ops.h), and
 * takes the next key of its warp's tile when it is done, so a key that lies deep does not hold up the other lanes: the
 * collaborative lanes of "Stadium Hashing: Scalable and Flexible Hashing on GPUs" (Khorasani, Belviranli, Gupta,
 * Bhuyan, PACT 2015).
 *
 * What must move: at load factor 0.8 a lookup reads 2.0 tickets of a present key and 5.0 of an absent one, each of them
 * a random sector of 32 bytes unless the board lies in the L2 cache, and a present key its row. An insertion reads the 5.0
 * tickets, and then claims one, stores the row and sets the access bit.
 *
 * A row is stored and read by its key's lane alone, 8 bytes at a time. Several lanes would do that faster where values
 * are wide, as they do for the rows engine (cuda_rows_write.cuh).
 *
 * A lane whose key waits for a busy ticket takes another turn. The lane that holds the ticket may belong to the same
 * warp: its turn ends before the warp's vote, with the ticket ready. So no lane waits for ever. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/tickets/ticket_ops.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/rows/cuda_rows_order.cuh"
#include "machines/cuda/tickets/cuda_board.cuh"

namespace
{

enum {
    THREADS = 128,
    SMALL = 1 << 15 /* keys of a batch that has one for each lane */
};

struct status_tile {
    __align__(16) uint8_t status[TILE_ITEMS];
};

__device__ __forceinline__ uint64_t address_of(const void *array, uint64_t width, uint64_t i)
{
    return array != NULL ? (uint64_t)(uintptr_t)((const unsigned char *)array + i * width) : 0;
}

__device__ __forceinline__ const unsigned char *key_at(const loom__ticket_view &view, const void *keys, uint64_t i)
{
    return (const unsigned char *)keys + i * view.key_bytes;
}

__device__ __forceinline__ uint8_t status_of(ticket_outcome outcome)
{
    return outcome == TICKET_DONE        ? LOOM_OK
           : outcome == TICKET_WAS_THERE ? LOOM_EXISTS
           : outcome == TICKET_NOT_THERE ? LOOM_NOT_FOUND
                                         : LOOM_FULL;
}

/* The value of an absent key. Arrays of values of 4 and 8 bytes are aligned. */
__device__ __forceinline__ void put_absent(unsigned char *to, uint32_t value_bytes, uint64_t absent)
{
    if (value_bytes == 8)
        *(uint64_t *)to = absent;
    else if (value_bytes == 4)
        *(uint32_t *)to = (uint32_t)absent;
    else
        for (uint32_t i = 0; i < value_bytes; i++)
            to[i] = i < sizeof absent ? (unsigned char)(absent >> 8 * i) : 0;
}

/* ---- turns ---- */

/* One turn of a lookup. Nobody writes beside lookups. */
__device__ __forceinline__ ticket_outcome find_turn(const loom__ticket_view &view, const cuda_batch &batch,
                                                    ticket_walk *walk, uint64_t index)
{
    unsigned char *to = (unsigned char *)(uintptr_t)address_of(batch.found_values, view.value_bytes, index);
    const ticket_outcome outcome = ticket_find_turn(TICKET_ALONE, 0, &view, walk, view.value_bytes > 0 ? to : NULL);
    if (outcome == TICKET_NOT_THERE && to != NULL)
        put_absent(to, view.value_bytes, batch.absent);
    return outcome;
}

/* One turn of a write. *number: what an accumulation adds. */
template <cuda_op op>
__device__ __forceinline__ ticket_outcome write_turn(const loom__ticket_view &view, const cuda_batch &batch,
                                                     ticket_walk *walk, uint64_t index, const uint64_t *number)
{
    constexpr slot_mode mode = op == OP_OVERWRITE ? SLOT_OVERWRITE
                               : op == OP_FETCH   ? SLOT_FETCH
                               : op == OP_COMBINE ? SLOT_COMBINE
                                                  : SLOT_KEEP;
    uint64_t value[2] = {0, 0}; /* addresses; ticket_meet */
    if (op == OP_ERASE)
        return ticket_erase_turn(TICKET_SHARED, 0, &view, walk);
    value[0] = op == OP_COMBINE ? (uint64_t)(uintptr_t)number : address_of(batch.values, view.value_bytes, index);
    if (op == OP_FETCH)
        value[1] = address_of(batch.found_values, view.value_bytes, index);
    if (op == OP_UPDATE)
        return ticket_update_turn(TICKET_SHARED, &view, walk, value);
    const ticket_outcome outcome = ticket_insert_turn(mode, batch.rule, TICKET_SHARED, &view, walk, value);
    if (op == OP_FETCH && outcome != TICKET_GO_ON)
        slot_tell_fetched(view.value_bytes, outcome == TICKET_DONE, outcome == TICKET_NO_ROOM, value);
    return outcome;
}

/* ---- batches ---- */

template <cuda_op op>
__global__ void __launch_bounds__(THREADS)
    batch_kernel(const __grid_constant__ loom__ticket_view view, const __grid_constant__ cuda_batch batch,
                 const cuda_finish finish)
{
    __shared__ status_tile tiles[THREADS / 32];
    status_tile *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile);
    const lane_group group = lane_own_group();
    item_queue queue;
    uint32_t item = queue.first();
    ticket_walk walk;
    uint64_t number = 0;
    bool begins = true;
    for (bool active; lane_going(group, active = item < range.count);) {
        const uint64_t index = range.first + item;
        if (active && begins) {
            walk = ticket_start(&view, key_at(view, batch.keys, index));
            if (op == OP_COMBINE)
                number = slot_number_at(view.value_bytes, batch.values, batch.widening, index);
        }
        begins = false;
        if (active) {
            const ticket_outcome outcome = op == OP_FIND ? find_turn(view, batch, &walk, index)
                                                         : write_turn<op>(view, batch, &walk, index, &number);
            begins = outcome != TICKET_GO_ON;
            if (begins)
                tile->status[item] = status_of(outcome);
        }
        item = queue.next(group, item, begins);
    }
    __syncwarp();
    lane_counts counts = {0, 0, 0};
    if (op == OP_FIND) {
        counts.ok = tell_statuses(tile, range, batch);
    } else {
        if (batch.status != NULL)
            tile_write(tile->status, range, batch.status);
        counts.ok = tile_count(tile->status, range, LOOM_OK);
        counts.exists_or_not_found =
            tile_count(tile->status, range, counts_not_found(op) ? LOOM_NOT_FOUND : LOOM_EXISTS);
        counts.full = counts_not_found(op) ? 0 : tile_count(tile->status, range, LOOM_FULL);
    }
    count_and_finish<op>(batch, finish, counts);
}

/* ---- single keys ---- */

/* Searches for a key. Nobody writes meanwhile. */
__device__ __forceinline__ ticket_outcome seek(const loom__ticket_view &view, const unsigned char *key,
                                               ticket_walk *walk)
{
    ticket_outcome outcome;
    *walk = ticket_start(&view, key);
    do { /* at most `slots` turns */
        outcome = ticket_find_turn(TICKET_ALONE, 0, &view, walk, NULL);
    } while (outcome == TICKET_GO_ON);
    return outcome;
}

__global__ void __launch_bounds__(THREADS)
    locate_kernel(const __grid_constant__ loom__ticket_view view, const void *keys, uint64_t n, uint64_t *slots)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    ticket_walk walk;
    const bool found = seek(view, key_at(view, keys, i), &walk) == TICKET_DONE;
    slots[i] = found ? loom__multiply_wide(walk.partition, view.slots) + walk.slot : CUDA_NO_SLOT;
}

__global__ void __launch_bounds__(THREADS) accesses_kernel(const __grid_constant__ loom__ticket_view view,
                                                           const void *keys, uint64_t n, unsigned long long *sum)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t accesses = 0;
    if (i < n) {
        ticket_walk walk;
        (void)seek(view, key_at(view, keys, i), &walk);
        accesses = walk.depth + 1;
    }
    add_count(sum, accesses);
}

/* ---- moving ---- */

/* A lane moves the row of one slot, if it holds a key. All keys are different, so no lane waits long: only for keys with
 * the same info. */
__global__ void __launch_bounds__(THREADS)
    move_kernel(const __grid_constant__ loom__ticket_view from, const __grid_constant__ loom__ticket_view to,
                unsigned long long *refused)
{
    const uint64_t number = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint32_t partition = (uint32_t)(number / from.slots), slot = (uint32_t)(number % from.slots);
    const lane_group group = lane_own_group();
    bool going = false;
    ticket_walk walk;
    uint64_t value[2] = {0, 0};
    if (partition < from.partitions) {
        uint32_t shift;
        const uint64_t *word = ticket_word(&from, partition, slot, &shift);
        going = (ticket_in(&from, lane_load_8(word), shift) & TICKET_STATE) == TICKET_ACCESS;
    }
    if (going) {
        const open_row_place row = ticket_row(&from, partition, slot);
        walk = ticket_start(&to, row.key);
        value[0] = (uint64_t)(uintptr_t)row.value;
    }
    bool full = false;
    while (lane_going(group, going)) {
        if (!going)
            continue;
        const ticket_outcome outcome = ticket_insert_turn(SLOT_KEEP, LOOM__ADD, TICKET_SHARED, &to, &walk, value);
        going = outcome == TICKET_GO_ON;
        full = outcome == TICKET_NO_ROOM;
    }
    add_count(refused, (uint32_t)full);
}

unsigned blocks_for(uint64_t threads)
{
    return (unsigned)((threads + THREADS - 1) / THREADS);
}

} // namespace

cudaError_t cuda_board_run(const loom__ticket_view *view, const cuda_batch *batch, cuda_op op,
                           const cuda_finish *finish, cudaStream_t stream)
{
    cuda_batch own = *batch;
    own.tile = own.n <= SMALL ? 32u : own.tile;
    const uint64_t items = own.tile * (THREADS / 32);
    auto kernel = op == OP_FIND        ? batch_kernel<OP_FIND>
                  : op == OP_OVERWRITE ? batch_kernel<OP_OVERWRITE>
                  : op == OP_FETCH     ? batch_kernel<OP_FETCH>
                  : op == OP_COMBINE   ? batch_kernel<OP_COMBINE>
                  : op == OP_UPDATE    ? batch_kernel<OP_UPDATE>
                  : op == OP_ERASE     ? batch_kernel<OP_ERASE>
                                       : batch_kernel<OP_KEEP>;
    kernel<<<(unsigned)((own.n + items - 1) / items), THREADS, 0, stream>>>(*view, own,
                                                                            finish != NULL ? *finish : cuda_finish{});
    return cudaGetLastError();
}

cudaError_t cuda_board_locate(const loom__ticket_view *view, const void *keys, uint64_t n, uint64_t *slots,
                              cudaStream_t stream)
{
    locate_kernel<<<blocks_for(n), THREADS, 0, stream>>>(*view, keys, n, slots);
    return cudaGetLastError();
}

cudaError_t cuda_board_accesses(const loom__ticket_view *view, const void *keys, uint64_t n, unsigned long long *sum,
                                cudaStream_t stream)
{
    accesses_kernel<<<blocks_for(n), THREADS, 0, stream>>>(*view, keys, n, sum);
    return cudaGetLastError();
}

cudaError_t cuda_board_move(const loom__ticket_view *from, const loom__ticket_view *to, unsigned long long *refused,
                            cudaStream_t stream)
{
    const uint64_t slots = (uint64_t)from->partitions * from->slots;
    move_kernel<<<blocks_for(slots), THREADS, 0, stream>>>(*from, *to, refused);
    return cudaGetLastError();
}
