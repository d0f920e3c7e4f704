/* Sorts the keys of a batch together with their positions in the batch, or with their values. Equal keys then lie side
 * by side, as a *run*, in the order of the batch: the sort is stable. CUB's radix sort moves keys and what goes with
 * them from one buffer to another and back, once for each byte of a key. */
#ifndef LOOM_CUDA_SORT_CUH
#define LOOM_CUDA_SORT_CUH

#include "machines/cuda/core/cuda_state.cuh"

/* Positions have 32 bits. */
#define CUDA_SORT_MOST (((uint64_t)1 << 32) - 1)

/* `mate`: what goes with a key, of 4 or 8 bytes. */
template <class key, class mate> struct cuda_sort_buffers {
    key *keys[2];   /* [n] each */
    mate *mates[2]; /* [n] each */
    void *scratch;
    size_t scratch_bytes; /* of cuda_sort_bytes */
};

template <class key, class mate> struct cuda_sorted {
    key *keys;      /* [n] */
    mate *mates;    /* [n] */
    key *free_keys; /* the other buffers */
    mate *free_mates;
};

cudaError_t cuda_sort_bytes(uint32_t key_bytes, uint32_t mate_bytes, uint64_t n, size_t *bytes);

/* Sorts 1 to CUDA_SORT_MOST keys. Keys and mates may lie anywhere. If `mates` is NULL, they are the positions of the
 * keys. Waits only for a copy of pageable memory. */
template <class key, class mate>
loom_status cuda_sort_keys(const void *keys, const void *mates, uint64_t n, const cuda_sort_buffers<key, mate> &buffers,
                           cudaStream_t stream, cuda_sorted<key, mate> *sorted);

/* ---- Runs of equal keys ---- */

template <class key> __device__ __forceinline__ bool begins_run(const key *keys, uint64_t i)
{
    return i == 0 || keys[i - 1] != keys[i];
}

/* Finds the last place of the run that contains `at`: searches in steps that double, then in steps that halve. Compares
 * at most 64 keys. */
template <class key> __device__ __forceinline__ uint64_t last_of_run(const key *keys, uint64_t n, uint64_t at)
{
    const key own = keys[at];
    uint64_t step = 1;
    for (; step < n - at && keys[at + step] == own; step *= 2)
        at += step;
    for (step /= 2; step > 0; step /= 2)
        if (step < n - at && keys[at + step] == own)
            at += step;
    return at;
}

template <class key> __device__ __forceinline__ uint64_t first_of_run(const key *keys, uint64_t at)
{
    const key own = keys[at];
    uint64_t step = 1;
    for (; step <= at && keys[at - step] == own; step *= 2)
        at -= step;
    for (step /= 2; step > 0; step /= 2)
        if (step <= at && keys[at - step] == own)
            at -= step;
    return at;
}

#endif
