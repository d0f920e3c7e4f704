/* Selects, takes and puts back rows of arrays (core/machine.h). Growing tables need these functions: after a table has
 * grown, some rows of a batch go to the table again.
 *
 * Rows are selected in ascending order. Each warp counts its rows, one block sums the counts up, and each warp then
 * knows where its rows go. A status array in host memory is copied into temporary memory. For other arrays in host
 * memory, the host moves the rows through a staging buffer: reporting results must not fail for lack of memory.
 *
 * Rows have any width and any alignment. They are moved in the widest words that divide the width and both addresses.
 * One lane moves a row of one word; several neighbouring lanes, a warp at most, move a wider row. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_call.cuh"

#include <cub/block/block_scan.cuh>
#include <string.h>

namespace
{

enum {
    WARP_ROWS = 1024, /* statuses that a warp reads */
    THREADS = 256,
    MOST_BLOCKS = 1 << 20, /* of a kernel with a grid-stride loop */
    SUM_THREADS = 1024
};

uint64_t warps_for(uint64_t n)
{
    return (n + WARP_ROWS - 1) / WARP_ROWS;
}

unsigned blocks_for(uint64_t threads)
{
    return (unsigned)((threads + THREADS - 1) / THREADS);
}

/* Without `rows`, stores in counts[w] how many rows warp w has. With `rows`, counts[w] is the place of warp w's first
 * row, and the warp writes its row numbers from there on. */
__global__ void select_kernel(const uint8_t *status, uint8_t wanted, uint64_t n, uint64_t *counts, uint64_t *rows,
                              uint64_t room)
{
    const uint64_t warp = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / 32, first = warp * WARP_ROWS;
    const uint32_t lane = threadIdx.x % 32;
    if (first >= n)
        return;
    uint64_t at = rows != NULL ? counts[warp] : 0;
    for (uint32_t i = 0; i < WARP_ROWS; i += 32) {
        const uint64_t row = first + i + lane;
        const bool mine = row < n && status[row] == wanted;
        const uint32_t all = __ballot_sync(0xffffffffu, mine);
        const uint64_t place = at + __popc(all & ((1u << lane) - 1));
        if (rows != NULL && mine && place < room)
            rows[place] = row;
        at += __popc(all);
    }
    if (rows == NULL && lane == 0)
        counts[warp] = at;
}

/* One thread block runs this. Each count becomes the sum of the counts before it, and counts[n] becomes the sum of
 * all. */
__global__ void __launch_bounds__(SUM_THREADS) sum_kernel(uint64_t *counts, uint64_t n)
{
    typedef cub::BlockScan<uint64_t, SUM_THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    uint64_t before = 0;
    for (uint64_t first = 0; first < n; first += SUM_THREADS) {
        const uint64_t i = first + threadIdx.x;
        uint64_t sum, all;
        scan(storage).ExclusiveSum(i < n ? counts[i] : 0, sum, all);
        if (i < n)
            counts[i] = before + sum;
        before += all;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        counts[n] = before;
}

template <class element, bool put, class number>
__global__ void move_kernel(element *to, const element *from, const number *rows, uint64_t count)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    if (put)
        to[rows[i]] = from[i];
    else
        to[i] = from[rows[i]];
}

/* Moves rows of `words` words each by 1 << shift lanes. Row i begins rows[i] * unit words behind the first row. */
template <class word, bool put, class number>
__global__ void __launch_bounds__(THREADS)
    move_words_kernel(word *__restrict__ to, const word *__restrict__ from, uint64_t words, uint64_t unit,
                      const number *__restrict__ rows, uint64_t count, uint32_t shift)
{
    const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x, stride = (uint64_t)gridDim.x * THREADS;
    const uint32_t lanes = 1u << shift, lane = (uint32_t)thread & (lanes - 1);
    for (uint64_t i = thread >> shift; i < count; i += stride >> shift) {
        word *there = to + (put ? rows[i] * unit : i * words);
        const word *here = from + (put ? i * words : rows[i] * unit);
#pragma unroll 4
        for (uint64_t w = lane; w < words; w += lanes)
            there[w] = here[w];
    }
}

template <class word, bool put, class number>
void launch_words(void *to, const void *from, uint32_t width, uint32_t unit, const number *rows, uint64_t count,
                  cudaStream_t stream)
{
    const uint64_t words = width / sizeof(word);
    if (words == 1 && unit == width) {
        move_kernel<word, put, number>
            <<<blocks_for(count), THREADS, 0, stream>>>((word *)to, (const word *)from, rows, count);
        return;
    }
    const uint32_t lanes = loom__row_lanes(words);
    uint32_t shift = 0;
    while (1u << shift < lanes)
        shift++;
    const uint64_t all = count > UINT64_MAX / lanes ? UINT64_MAX : count * lanes;
    const unsigned blocks = all / THREADS < MOST_BLOCKS ? blocks_for(all) : (unsigned)MOST_BLOCKS;
    move_words_kernel<word, put, number><<<blocks, THREADS, 0, stream>>>((word *)to, (const word *)from, words,
                                                                         unit / sizeof(word), rows, count, shift);
}

/* Row i begins rows[i] * unit bytes behind the first row. */
template <bool put, class number>
void launch_move(void *to, const void *from, uint32_t width, uint32_t unit, const number *rows, uint64_t count,
                 cudaStream_t stream)
{
    const uint32_t word = loom__widest_word((uintptr_t)to | (uintptr_t)from | width | unit);
    auto launch = word == 1   ? launch_words<uint8_t, put, number>
                  : word == 2 ? launch_words<uint16_t, put, number>
                  : word == 4 ? launch_words<uint32_t, put, number>
                  : word == 8 ? launch_words<uint64_t, put, number>
                              : launch_words<uint4, put, number>;
    launch(to, from, width, unit, rows, count, stream);
}

struct row_numbers {
    const void *at; /* on the device */
    uint32_t bytes; /* of a number: 4 or 8 */
};

/* Moves rows first .. first + count - 1 of the selection, between an array in host memory and one on the device. */
template <bool put>
cudaError_t move_on_host(const cuda_stage *stage, unsigned char *to, const unsigned char *from, uint32_t width,
                         const row_numbers &rows, uint64_t first, uint64_t count, cudaStream_t stream)
{
    unsigned char *numbers = stage->pinned[0], *moved = numbers + count * rows.bytes;
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(numbers, (const unsigned char *)rows.at + first * rows.bytes,
                                          count * rows.bytes, cudaMemcpyDeviceToHost, stream));
    if (put)
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(moved, from + first * width, count * width, cudaMemcpyDefault, stream));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = rows.bytes == 4 ? ((const uint32_t *)numbers)[i] : ((const uint64_t *)numbers)[i];
        memcpy(put ? to + row * width : moved + i * width, put ? moved + i * width : from + row * width, width);
    }
    if (!put)
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(to + first * width, moved, count * width, cudaMemcpyDefault, stream));
    return cudaStreamSynchronize(stream);
}

/* Moves row i of the selection, which is wider than the staging buffer, by a direct copy. */
template <bool put>
cudaError_t move_one(const cuda_stage *stage, unsigned char *to, const unsigned char *from, uint64_t width,
                     const row_numbers &rows, uint64_t i, cudaStream_t stream)
{
    uint64_t *number = (uint64_t *)stage->pinned[0];
    *number = 0; /* little-endian: a number of 4 bytes fills the lower half */
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(number, (const unsigned char *)rows.at + i * rows.bytes, rows.bytes,
                                          cudaMemcpyDeviceToHost, stream));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
    unsigned char *there = to + (put ? *number : i) * width;
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(there, from + (put ? i : *number) * width, width, cudaMemcpyDefault, stream));
    return cudaStreamSynchronize(stream);
}

template <bool put>
loom_status move_staged(cuda_state *cuda, void *to, const void *from, uint32_t width, const row_numbers &rows,
                        uint64_t count, cudaStream_t stream)
{
    const uint64_t fit = STAGE_BYTES / (rows.bytes + (uint64_t)width), at_once = fit > 0 ? fit : 1;
    unsigned char *there = (unsigned char *)to;
    const unsigned char *here = (const unsigned char *)from;
    cudaError_t error = cudaSuccess;
    ON_STAGE(cuda);
    for (uint64_t first = 0; first < count && error == cudaSuccess; first += at_once)
        error = cuda_step(fit == 0 ? move_one<put>(stage, there, here, width, rows, first, stream)
                                   : move_on_host<put>(stage, there, here, width, rows, first,
                                                       count - first < at_once ? count - first : at_once, stream));
    return cuda_status(error, "moving rows of a batch");
}

/* `copy`: memory for the statuses if they are on the host, otherwise NULL. */
cudaError_t select_all(const uint8_t *status, uint8_t *copy, uint8_t wanted, uint64_t n, uint64_t *counts,
                       uint64_t *rows, uint64_t room, uint64_t *count, cudaStream_t stream)
{
    const uint64_t warps = warps_for(n);
    const unsigned blocks = blocks_for(warps * 32);
    if (copy != NULL) {
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(copy, status, n, cudaMemcpyDefault, stream));
        status = copy;
    }
    select_kernel<<<blocks, THREADS, 0, stream>>>(status, wanted, n, counts, NULL, 0);
    sum_kernel<<<1, SUM_THREADS, 0, stream>>>(counts, warps);
    select_kernel<<<blocks, THREADS, 0, stream>>>(status, wanted, n, counts, rows, room);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(count, counts + warps, sizeof *count, cudaMemcpyDefault, stream));
    return cudaStreamSynchronize(stream);
}

} // namespace

cudaError_t cuda_gather_rows(void *to, const void *from, uint32_t width, uint32_t unit, const uint64_t *rows,
                             uint64_t count, cudaStream_t stream)
{
    if (count > 0 && width > 0) /* a grid needs at least one block */
        launch_move<false>(to, from, width, unit, rows, count, stream);
    return cudaGetLastError();
}

template <bool put>
cudaError_t cuda_move_items(void *to, const void *from, uint32_t width, const uint32_t *items, uint64_t count,
                            cudaStream_t stream)
{
    if (to != NULL && from != NULL && count > 0 && width > 0)
        launch_move<put>(to, from, width, width, items, count, stream);
    return cudaGetLastError();
}

template cudaError_t cuda_move_items<false>(void *, const void *, uint32_t, const uint32_t *, uint64_t, cudaStream_t);
template cudaError_t cuda_move_items<true>(void *, const void *, uint32_t, const uint32_t *, uint64_t, cudaStream_t);

loom_status cuda_select_rows(loom__machine *machine, const uint8_t *status, uint8_t wanted, uint64_t n, uint64_t *rows,
                             uint64_t room, uint64_t *count, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cuda_place place;
    *count = 0;
    if (n == 0)
        return LOOM_OK;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "status", status, &place));
    const bool staged = place != PLACE_DEVICE;
    if (staged) /* allocated now, since reporting results through a staging buffer must not fail */
        RETURN_IF_FAILED(cuda_stage_scope(cuda).status);
    const uint64_t copy_at = cuda_aligned((warps_for(n) + 1) * sizeof(uint64_t)), bytes = copy_at + (staged ? n : 0);
    const cuda_workspace own = cuda_take_workspace(machine, bytes, given, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY, "%llu bytes of temporary memory could not be had",
                    (unsigned long long)bytes);
    const cudaError_t error = cuda_step(select_all(status, staged ? own.at + copy_at : NULL, wanted, n,
                                                   (uint64_t *)own.at, rows, room, count, (cudaStream_t)given));
    cuda_give_workspace(machine, &own, given);
    return cuda_status(error, "selecting rows of a batch");
}

template <bool put>
loom_status cuda_move_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                           uint32_t number_bytes, uint64_t count, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    cuda_place place;
    if (count == 0 || width == 0)
        return LOOM_OK;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "an array", put ? to : from, &place));
    if (place != PLACE_DEVICE)
        return move_staged<put>(cuda, to, from, width, {rows, number_bytes}, count, stream);
    if (number_bytes == 4)
        launch_move<put>(to, from, width, width, (const uint32_t *)rows, count, stream);
    else
        launch_move<put>(to, from, width, width, (const uint64_t *)rows, count, stream);
    return cuda_status(cuda_step(cudaGetLastError()), "moving rows of a batch");
}

template loom_status cuda_move_rows<false>(loom__machine *, void *, const void *, uint32_t, const void *, uint32_t,
                                           uint64_t, loom_stream);
template loom_status cuda_move_rows<true>(loom__machine *, void *, const void *, uint32_t, const void *, uint32_t,
                                          uint64_t, loom_stream);
