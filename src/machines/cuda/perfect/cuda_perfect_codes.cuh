/* Size of the thread blocks that find or repair the codes of a partition in shared memory (perfect_codes.h). */
#ifndef LOOM_CUDA_PERFECT_CODES_CUH
#define LOOM_CUDA_PERFECT_CODES_CUH

#include <stdint.h>

enum {
    CODES_THREADS = 256,          /* per block … */
    CODES_LARGE_BYTES = 76 << 10, /* … and twice as many with more shared memory than this: few blocks fit then */
    CODES_REGISTERS = 48          /* per thread, so that five blocks fit on a multiprocessor */
};

inline uint32_t codes_threads(uint32_t shared_bytes)
{
    return shared_bytes > CODES_LARGE_BYTES ? 2 * CODES_THREADS : CODES_THREADS;
}

#endif
