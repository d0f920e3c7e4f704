/* A bulk call's arrays, for any engine: where they lie, host ones on their way through the staging buffers, the memory that a
 * call works with, and its result's way home. */
#ifndef LOOM_CUDA_CALL_CUH
#define LOOM_CUDA_CALL_CUH

#include "machines/cuda/core/cuda_state.cuh"

enum { CALL_KEYS, CALL_VALUES, CALL_FOUND_VALUES, CALL_FOUND, CALL_STATUS, CALL_ARRAYS };

/* One array of a call. Its elements have any width and lie at multiples of `alignment`. Element i belongs to item i, and `count` may
 * be larger than the number of items, as of offsets[n + 1]: whoever works on items first .. first + k - 1 then reaches the elements
 * behind those, too. Or the array is `whole`, as values[room]: its elements belong to no item, and all work reaches all of it. */
struct cuda_call_array {
    const char *name;
    void *at;
    uint32_t width;
    uint64_t count;
    bool written, whole;
    cuda_place place;
    uint32_t alignment; /* of elements where kernels reach them: 16, 8, 4, 2 or 1 */

    bool staged() const
    {
        return place == PLACE_PINNED || place == PLACE_PAGEABLE;
    }
};

struct cuda_call_arrays {
    cuda_call_array all[CALL_ARRAYS];
    bool staged;

    /* As cuda_chunk_work takes them, of a call without staged ones. */
    void addresses(void *at[CALL_ARRAYS]) const
    {
        for (int i = 0; i < CALL_ARRAYS; i++)
            at[i] = all[i].at;
    }
    /* Of n items, `items` from `first` on. */
    cuda_call_arrays part(uint64_t n, uint64_t first, uint64_t items) const
    {
        cuda_call_arrays some = *this;
        for (cuda_call_array &array : some.all)
            if (array.at != NULL && !array.whole) {
                array.at = (unsigned char *)array.at + first * array.width;
                array.count -= n - items;
            }
        return some;
    }
};

/* Finds out where arrays lie whose other members are set, `alignment` excepted. */
loom_status cuda_locate_all(const cuda_state *cuda, cuda_call_arrays *arrays);

/* `value_bytes`: of the table's values; 0: it has none. Changes nothing. */
loom_status cuda_locate_arrays(const cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes,
                               const loom__batch *batch, cuda_call_arrays *arrays);

/* Items of a call as kernels see them; `at`: as cuda_chunk_work has it. */
cuda_batch cuda_batch_of(const cuda_state *cuda, void *const at[CALL_ARRAYS], uint64_t n, const loom__batch *batch,
                         cuda_counts *counts);

/* Warps take TILE_ITEMS keys each, fewer where that would leave multiprocessors without work. */
uint32_t cuda_tile_of(const cuda_state *cuda, uint64_t n);

/* ---- Host arrays ---- */

/* Launches what is done to items first .. first + count - 1 of a call, count > 0. at[i] is where the first one's element of
 * array i lies on the device, or the beginning of an array that is whole; NULL: the call has no such array. */
typedef cudaError_t cuda_chunk_work(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                                    cudaStream_t stream);

/* A call with staged arrays, in chunks: `work` is launched for each, in streams that go on from `stream`; two chunks may run at
 * the same time, unless they go `one_at_a_time`: then only their copies overlap with others' work. `writes_back`: staged arrays that are
 * written are copied to the host; elements behind those of the items come home from the last chunk alone. Staged arrays that are whole
 * are copied to temporary memory first. Waits for the end. UNSUPPORTED if one item is wider than the staging buffer. */
loom_status cuda_run_staged(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool one_at_a_time = false);

/* All items of a call, wherever its arrays lie: `work` once, or in chunks if any is staged; the call then waits. */
loom_status cuda_run_arrays(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool one_at_a_time = false);

/* ---- Results ---- */

/* What was counted becomes the result. */
cudaError_t cuda_launch_finish(const cuda_finish &finish, cudaStream_t stream);

/* The result has been launched, and is the caller's if it lies where the device can write; `place` is where. Otherwise waits. */
loom_status cuda_hand_over(const loom__batch *batch, const cuda_call_arrays *arrays, const cuda_ticket *ticket,
                           cuda_place place);

/* ---- Workspaces ---- */

/* What a call works with besides the table; `at` is NULL if it could not be had. */
struct cuda_workspace {
    unsigned char *at;
    uint64_t bytes;
    bool callers;
};

/* The caller's, if a batch is given that has one, and it is large enough; otherwise temporary memory. */
cuda_workspace cuda_take_workspace(loom__machine *machine, uint64_t bytes, loom_stream stream,
                                   const loom__batch *batch);
void cuda_give_workspace(loom__machine *machine, const cuda_workspace *given, loom_stream stream);

#endif
