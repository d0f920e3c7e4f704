/* The arrays of a bulk call, for any engine: where they lie, and how host arrays pass through the staging buffers. Also
 * the temporary memory of a call, and its result. */
#ifndef LOOM_CUDA_CALL_CUH
#define LOOM_CUDA_CALL_CUH

#include "machines/cuda/core/cuda_state.cuh"

enum { CALL_KEYS, CALL_VALUES, CALL_FOUND_VALUES, CALL_FOUND, CALL_STATUS, CALL_ARRAYS };

/* One array of a call. Its elements have any width. Element i belongs to item i. `count` may be larger than the number
 * of items, as in offsets[n + 1]: work on items first .. first + k - 1 then also reaches the elements behind them. The
 * elements of a `whole` array, as in values[room], belong to no item: all work reaches the whole array. */
struct cuda_call_array {
    const char *name;
    void *at;
    uint32_t width;
    uint64_t count;
    bool written, whole;
    cuda_place place;

    bool staged() const
    {
        return place == PLACE_PINNED || place == PLACE_PAGEABLE;
    }
};

struct cuda_call_arrays {
    cuda_call_array all[CALL_ARRAYS];
    bool staged;

    /* The addresses for cuda_chunk_work, if no array is staged. */
    void addresses(void *at[CALL_ARRAYS]) const
    {
        for (int i = 0; i < CALL_ARRAYS; i++)
            at[i] = all[i].at;
    }
    /* The arrays of `items` items from `first` on, out of n. */
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

/* Finds out where the arrays lie. Their other members are set. */
loom_status cuda_locate_all(const cuda_state *cuda, cuda_call_arrays *arrays);

/* The arrays of a batch, located. `value_bytes`: width of the table's values; 0: the table has none. Changes
 * nothing. */
loom_status cuda_locate_arrays(const cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes,
                               const loom__batch *batch, cuda_call_arrays *arrays);

/* Items of a call as kernels see them. `at`: as in cuda_chunk_work. */
cuda_batch cuda_batch_of(const cuda_state *cuda, void *const at[CALL_ARRAYS], uint64_t n, const loom__batch *batch,
                         cuda_counts *counts);

/* Keys per warp: TILE_ITEMS, or fewer if that would leave multiprocessors without work. */
uint32_t cuda_tile_of(const cuda_state *cuda, uint64_t n);

/* ---- Host arrays ---- */

/* Launches the work on items first .. first + count - 1 of a call, count > 0. at[i] is the device address of the first
 * item's element of array i, or of the beginning of a whole array; NULL: the call has no such array. */
typedef cudaError_t cuda_chunk_work(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                                    cudaStream_t stream);

/* Runs `work` on all items of a call: once, or in chunks if any array is staged. With chunks:
 * - Each chunk runs in one of several streams, which start after the calls in `stream`. Two chunks may run at the same
 *   time. With `one_at_a_time` only the copies of a chunk overlap with the work of another.
 * - With `writes_back`, staged arrays that are written are copied to the host. Elements behind those of the items come
 *   from the last chunk. Staged arrays that are whole are copied to temporary memory first.
 * - The call waits for the end. It is UNSUPPORTED if one item is wider than the staging buffer. */
loom_status cuda_run_arrays(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool one_at_a_time = false);

/* ---- Results ---- */

/* Launches a kernel that turns the counts into the result. */
cudaError_t cuda_launch_finish(const cuda_finish &finish, cudaStream_t stream);

/* The last step of a call whose result has been launched. Waits if the device cannot write to the result, which lies in
 * `place`, or if arrays are staged. */
loom_status cuda_hand_over(const loom__batch *batch, const cuda_call_arrays *arrays, const cuda_ticket *ticket,
                           cuda_place place);

/* ---- Workspaces ---- */

/* Memory that a call needs besides the table. `at` is NULL if the allocation failed. */
struct cuda_workspace {
    unsigned char *at;
    uint64_t bytes;
    bool callers; /* the caller's memory, which is not released */
};

/* The caller's workspace, if a batch is given that has one of this size; otherwise temporary memory. */
cuda_workspace cuda_take_workspace(loom__machine *machine, uint64_t bytes, loom_stream stream,
                                   const loom__batch *batch);
void cuda_give_workspace(loom__machine *machine, const cuda_workspace *given, loom_stream stream);

#endif
