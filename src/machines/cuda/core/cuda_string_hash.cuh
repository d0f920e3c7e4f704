/* The hash of a byte string. One lane hashes a string, and loads its words (core/word_loads.h). A function that is
 * called: its code is long, and registers of the kernels around it are few. */
#ifndef LOOM_CUDA_STRING_HASH_CUH
#define LOOM_CUDA_STRING_HASH_CUH

#include "core/hash_bytes.h"
#include "core/strings.h"

static __device__ __noinline__ uint64_t hash_string(loom__string string, loom__seed seed)
{
    return loom__hash_bytes((const void *)string.at, string.length, seed);
}

#endif
