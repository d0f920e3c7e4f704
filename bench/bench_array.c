/* For madvise and MADV_HUGEPAGE, which POSIX does not have. */
#define _DEFAULT_SOURCE
#include "bench_array.h"

#include "bench_threads.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, CACHE_LINE = 64 };

void *bench_array_new(uint64_t n, uint64_t bytes)
{
    if (n == 0)
        n = 1;
    if (n > (SIZE_MAX - HUGE_PAGE) / bytes)
        return NULL;
    const size_t unit = n * bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    const size_t size = ((size_t)(n * bytes) + unit - 1) / unit * unit;
    void *array = aligned_alloc(unit, size);
    if (!array)
        return NULL;
    if (unit == HUGE_PAGE)
        (void)madvise(array, size, MADV_HUGEPAGE); /* if the kernel refuses: ordinary pages */
    bench_fill(array, 0, size);
    return array;
}

void bench_array_free(void *array)
{
    free(array);
}
