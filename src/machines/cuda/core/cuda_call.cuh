/* The arrays of a bulk call, for any engine: where they lie, and how host arrays pass through the staging buffers. Also
 * the temporary memory of a call, and its result. */
#ifndef LOOM_CUDA_CALL_CUH
#define LOOM_CUDA_CALL_CUH

#include "machines/cuda/core/cuda_state.cuh"

enum { CALL_KEYS, CALL_VALUES, CALL_FOUND_VALUES, CALL_FOUND, CALL_STATUS, CALL_ARRAYS };

/* One array of a call. Its elements may have any width. Element i belongs to item i. `count` may be larger than the
 * number n of items, as in offsets[n + 1]: work on some items then also reaches the count - n elements behind theirs.
 * The elements of a `whole` array, as in values[room], belong to no item: all work reaches the whole array. */
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

/* Finds out where the arrays lie, and sets `place` and `staged`. The caller has set the other members. */
loom_status cuda_locate_all(const cuda_state *cuda, cuda_call_arrays *arrays);

/* Lists the arrays of a batch and finds out where they lie. `value_bytes` is the width of the table's values, or 0 if
 * the table has none. Changes nothing but *arrays. */
loom_status cuda_locate_arrays(const cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes,
                               const loom__batch *batch, cuda_call_arrays *arrays);

/* Items of a call as kernels see them. `at`: as in cuda_chunk_work. */
cuda_batch cuda_batch_of(const cuda_state *cuda, void *const at[CALL_ARRAYS], uint64_t n, const loom__batch *batch,
                         cuda_counts *counts);

/* Keys per warp: TILE_ITEMS, or fewer if that would leave multiprocessors without work. */
uint32_t cuda_tile_of(const cuda_state *cuda, uint64_t n);

/* ---- Host arrays ---- */

/* Launches the work on items first .. first + count - 1 of a call, count > 0. at[i] is the device address of the first
 * item's element of array i; if array i is whole, the address of its beginning; if the call has no array i, NULL. */
typedef cudaError_t cuda_chunk_work(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                                    cudaStream_t stream);

/* Runs `work` on all items of a call: once, or in chunks if any array is staged. With chunks:
 * - Each chunk runs in one of several streams, which start after the earlier calls in `stream`. Two chunks may run at
 *   the same time. With `one_at_a_time` the work of two chunks does not overlap; the copies of one chunk still overlap
 *   with the work of another.
 * - With `writes_back`, staged arrays that the work writes are copied back to the host. Elements behind the last item's
 *   element come from the last chunk. Staged whole arrays are first copied to temporary memory.
 * - cuda_run_arrays waits for the last chunk. It returns UNSUPPORTED if one item is wider than the staging buffer. */
loom_status cuda_run_arrays(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool one_at_a_time = false);

/* ---- Results ---- */

/* Launches a kernel that turns the counts into the result. */
cudaError_t cuda_launch_finish(const cuda_finish &finish, cudaStream_t stream);

/* The last step of a call, after cuda_launch_finish. `place` is where the caller's result lies. Waits if arrays are
 * staged or if the device cannot write to the caller's result; in the second case, then copies the result to the
 * caller. */
loom_status cuda_hand_over(const loom__batch *batch, const cuda_call_arrays *arrays, const cuda_ticket *ticket,
                           cuda_place place);

/* ---- Workspaces ---- */

/* Memory that a call needs besides the table. `at` is NULL if the allocation failed. */
struct cuda_workspace {
    unsigned char *at;
    uint64_t bytes;
    bool callers; /* the caller's memory, which is not released */
};

/* Returns the caller's workspace if `batch` has one of at least `bytes` bytes, otherwise temporary memory. `batch` may
 * be NULL. */
cuda_workspace cuda_take_workspace(loom__machine *machine, uint64_t bytes, loom_stream stream,
                                   const loom__batch *batch);
void cuda_give_workspace(loom__machine *machine, const cuda_workspace *given, loom_stream stream);

#endif
