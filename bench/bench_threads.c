/* For sched_getaffinity. */
#define _GNU_SOURCE
#include "bench_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { MOST_THREADS = 256 };

/* A huge page: if two threads touch one first, both clear it, one of them in vain. */
#define FILL_GRAIN (UINT64_C(2) << 20)

typedef struct job {
    bench_range_function function;
    void *work;
    uint64_t n, grain;
    _Atomic uint64_t next; /* where the first free range begins */
} job;

/* A thread that is done takes the next range: on a shared machine threads are not equally fast. */
static void *take_ranges(void *argument)
{
    job *at = argument;
    for (;;) { /* ends: every round takes a range, and n is finite */
        const uint64_t begin = atomic_fetch_add_explicit(&at->next, at->grain, memory_order_relaxed);
        if (begin >= at->n)
            return NULL;
        at->function(at->work, begin, at->n - begin < at->grain ? at->n : begin + at->grain);
    }
}

static uint64_t core_count(void)
{
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : (uint64_t)count;
}

void bench_in_parallel(uint64_t n, uint64_t grain, bench_range_function function, void *work)
{
    job at = {.function = function, .work = work, .n = n, .grain = grain};
    pthread_t threads[MOST_THREADS];
    const uint64_t ranges = n / grain + (n % grain != 0), cores = core_count();
    const uint64_t wanted = ranges < cores ? ranges : cores;
    uint64_t started = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, take_ranges, &at) == 0)
        started++;
    take_ranges(&at);
    for (uint64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

typedef struct fill {
    char *array;
    uint8_t byte;
} fill;

static void fill_range(void *work, uint64_t begin, uint64_t end)
{
    const fill *at = work;
    memset(at->array + begin, at->byte, (size_t)(end - begin));
}

void bench_fill(void *array, uint8_t byte, uint64_t bytes)
{
    fill at = {array, byte};
    if (array)
        bench_in_parallel(bytes, FILL_GRAIN, fill_range, &at);
}
