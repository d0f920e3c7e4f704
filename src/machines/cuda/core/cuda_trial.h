/* Functions of the cuda machine for tests only. Tests find them in the module by name. This header is in C, because the
 * tests are. */
#ifndef LOOM_CUDA_TRIAL_H
#define LOOM_CUDA_TRIAL_H

#include "core/batch.h"
#include "core/machine.h"
#include "core/table_slots.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on, the `steps`-th step and all later steps fail, as if the device were lost. 0: the device is usable
 * again. */
typedef void cuda_lose_device_function(uint64_t steps);

/* Sets the most keys of a slice, at least 1, for batches that go by partition. 0: as many as the machine can take. */
typedef void cuda_set_slice_function(loom__machine *machine, uint64_t keys);

/* Tables with rows in host memory: sets the bytes of buffers for rows on their way, and how many keys' rows the host
 * gathers at a time. 0: as usual. */
typedef void cuda_set_row_buffers_function(loom__machine *machine, uint64_t bytes, uint64_t keys);

/* A call that copies its arrays chunk by chunk, as calls with host arrays do. The arrays lie in any memory. */
typedef struct cuda_trial_call {
    uint32_t width;
    uint64_t n;
    const void *from;        /* [n] of `width` bytes each */
    void *to;                /* [n] the same elements */
    const uint64_t *offsets; /* [n + 1] */
    uint64_t *to_offsets;    /* [n + 1] the same numbers */
    void *whole;             /* [room] the first elements of `from`; elements behind them stay unchanged */
    uint64_t room;
} cuda_trial_call;
typedef loom_status cuda_trial_stage_function(loom__machine *machine, const cuda_trial_call *call, loom_stream stream);

/* `retrieve` of the engines' kernels, for a table made by a test. `table` is on the host, its `base` on the device. */
typedef loom_status cuda_trial_retrieve_function(loom__machine *machine, const loom__table_slots *table,
                                                 loom__position *position, void *keys, void *values, uint64_t room,
                                                 uint64_t *got, loom_stream stream);

#define CUDA_LOSE_DEVICE     "loom__cuda_lose_device"
#define CUDA_SET_SLICE       "loom__cuda_set_slice"
#define CUDA_SET_ROW_BUFFERS "loom__cuda_set_row_buffers"
#define CUDA_TRIAL_STAGE     "loom__cuda_trial_stage"
#define CUDA_TRIAL_RETRIEVE  "loom__cuda_trial_retrieve"

#ifdef __cplusplus
}
#endif

#endif
