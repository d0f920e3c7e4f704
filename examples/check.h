/* For the examples and bench/device_bench.cu: CUDA(call) and LOOM(call) end the program if the call fails. They print
 * the messages of the library and of CUDA. */
#ifndef LOOM_EXAMPLES_CHECK_H
#define LOOM_EXAMPLES_CHECK_H

#include <loom/loom.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static inline void stop(const char *what)
{
    fprintf(stderr, "%s: %s; %s\n", what, loom_last_error(), cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

#define CUDA(call)                 \
    do {                           \
        if ((call) != cudaSuccess) \
            stop(#call);           \
    } while (0)
#define LOOM(call)             \
    do {                       \
        if ((call) != LOOM_OK) \
            stop(#call);       \
    } while (0)

#endif
