/* Temporary memory of one call that reaches rows in host memory, and its bound (loom_map_set_row_staging). */
#ifndef LOOM_CUDA_ROW_STAGING_CUH
#define LOOM_CUDA_ROW_STAGING_CUH

#include "machines/cuda/core/cuda_call.cuh"

struct cuda_row_staging {
    cuda_state *cuda;
    uint64_t most;        /* bytes at once; UINT64_MAX: there is no bound */
    uint64_t taken, peak; /* bytes now, and at most so far */

    bool bounded() const
    {
        return most != UINT64_MAX;
    }
    uint64_t left() const
    {
        return most - taken;
    }
    /* Counts bytes that others allocate, at most left(). */
    void count(uint64_t bytes)
    {
        taken += bytes;
        peak = peak < taken ? taken : peak;
    }
    void uncount(uint64_t bytes)
    {
        taken -= bytes;
    }
    /* `at` is NULL if the bound forbids so many bytes or they could not be had. */
    cuda_workspace take(uint64_t bytes, cudaStream_t stream)
    {
        if (bytes > left())
            return {};
        const cuda_workspace own = cuda_take_workspace(&cuda->base, bytes, (loom_stream)stream, NULL);
        if (own.at != NULL)
            count(bytes);
        return own;
    }
    void give(const cuda_workspace &own, cudaStream_t stream)
    {
        if (own.at == NULL)
            return;
        uncount(own.bytes);
        cuda_give_workspace(&cuda->base, &own, (loom_stream)stream);
    }
};

/* bound: bytes; 0: none. */
inline cuda_row_staging cuda_row_staging_of(cuda_state *cuda, uint64_t bound)
{
    return {cuda, bound > 0 ? bound : UINT64_MAX, 0, 0};
}

#endif
