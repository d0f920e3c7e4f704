/* Functions for tests only: failures, small slices, and single steps of calls on arrays and tables of any width. */
#include "machines/cuda/core/cuda_trial.h"

#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_split_passes.cuh"
#include "machines/cuda/core/cuda_state.cuh"

#define FOR_TESTS extern "C" __attribute__((visibility("default")))

FOR_TESTS void loom__cuda_lose_device(uint64_t steps)
{
    cuda_steps_until_lost = steps;
}

FOR_TESTS void loom__cuda_set_slice(loom__machine *machine, uint64_t keys)
{
    ((cuda_state *)machine)->slice_keys = keys > 0 && keys < LOOM__SPLIT_MOST_RECORDS ? keys : LOOM__SPLIT_MOST_RECORDS;
}

FOR_TESTS void loom__cuda_set_row_buffers(loom__machine *machine, uint64_t bytes, uint64_t keys)
{
    ((cuda_state *)machine)->row_staging_bytes = bytes > 0 ? bytes : (uint64_t)1 << 30;
    ((cuda_state *)machine)->row_chunk = keys > 0 ? keys : UINT64_MAX;
}

/* Numbers of the call's arrays. */
enum { TRIAL_FROM, TRIAL_OFFSETS, TRIAL_TO, TRIAL_TO_OFFSETS, TRIAL_WHOLE };

static cudaError_t copy(void *to, const void *from, uint64_t bytes, cudaStream_t stream)
{
    return to == NULL || bytes == 0 ? cudaSuccess : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

static cudaError_t copy_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                              cudaStream_t stream)
{
    const cuda_trial_call *call = (const cuda_trial_call *)argument;
    const uint64_t left = call->room > first ? call->room - first : 0, kept = left < count ? left : count;
    unsigned char *whole = (unsigned char *)at[TRIAL_WHOLE];
    RETURN_IF_CUDA_FAILED(copy(at[TRIAL_TO], at[TRIAL_FROM], count * call->width, stream));
    RETURN_IF_CUDA_FAILED(copy(at[TRIAL_TO_OFFSETS], at[TRIAL_OFFSETS], (count + 1) * sizeof(uint64_t), stream));
    return copy(whole != NULL ? whole + first * call->width : NULL, at[TRIAL_FROM], kept * call->width, stream);
}

FOR_TESTS loom_status loom__cuda_trial_stage(loom__machine *machine, const cuda_trial_call *call, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    cuda_call_arrays arrays = {
        {{"from", (void *)call->from, call->width, call->n, false, false, PLACE_NONE},
         {"offsets", (void *)call->offsets, sizeof(uint64_t), call->n + 1, false, false, PLACE_NONE},
         {"to", call->to, call->width, call->n, true, false, PLACE_NONE},
         {"to_offsets", call->to_offsets, sizeof(uint64_t), call->n + 1, true, false, PLACE_NONE},
         {"whole", call->whole, call->width, call->room, true, true, PLACE_NONE}},
        false};
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate_all(cuda, &arrays));
    RETURN_IF_FAILED(cuda_run_arrays(cuda, &arrays, call->n, copy_chunk, (void *)call, true, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

FOR_TESTS loom_status loom__cuda_trial_retrieve(loom__machine *machine, const loom__table_slots *table,
                                                loom__position *position, void *keys, void *values, uint64_t room,
                                                uint64_t *got, loom_stream stream)
{
    return cuda_retrieve((cuda_state *)machine, table, position, keys, values, room, got, (cudaStream_t)stream);
}
