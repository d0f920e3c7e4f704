/* Measures limits. A limit is the best rate of several shapes: one thread or all, ordinary or huge pages, several
 * prefetch distances, reads prefetched into the L1 or the L2 cache. If a table operation seems faster than its limit, a
 * shape is missing here. Memory comes from the system directly, because the page size is part of the shape. The memory
 * goes back before the call returns. */
#define _GNU_SOURCE
#include "machines/cpu/core/cpu_limits.h"
#include "core/error.h"
#include "core/portable.h"
#include "machines/cpu/core/cpu_memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    RING = 128, /* a power of two above the largest prefetch distance */
    LEAST_NANOSECONDS = 20000000,
    REPETITIONS = 3,
    TOUCH = 4096 /* every page is written before measuring starts */
};

static const uint32_t distances[] = {8, 16, 32, 64};

typedef struct shape {
    loom_limit_kind kind;
    uint32_t access_bytes;
    uint32_t threads, distance;
    int huge, far; /* far: prefetches go into the L2 cache, past the few fill buffers of the L1 cache */
    unsigned char *memory;
    uint64_t bytes;
    uint64_t accesses; /* accesses of each thread */
    uint64_t round;    /* number of the run: no two runs visit the same places in the same sequence */
    _Atomic uint64_t sink;
} shape;

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The i-th place of a random sequence. Its multiplications cost next to nothing beside the access. */
LOOM_LANE unsigned char *place(const shape *run, uint64_t start, uint64_t i, uint32_t width)
{
    uint64_t x = (start + i) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    uint64_t places = run->bytes / width;
    return run->memory + (uint64_t)(((unsigned __int128)x * places) >> 64) * width;
}

LOOM_LANE uint64_t read_place(const unsigned char *at, uint32_t width)
{
    uint64_t sum = 0;
    for (uint32_t offset = 0; offset < width; offset += 8) {
        uint64_t word;
        memcpy(&word, at + offset, 8);
        sum ^= word;
    }
    return sum;
}

LOOM_LANE unsigned char *prefetch_place(const shape *run, uint64_t start, uint64_t i, uint32_t width, int swaps,
                                        int far)
{
    unsigned char *at = place(run, start, i, width);
    if (swaps)
        __builtin_prefetch(at, 1, 3);
    else if (far)
        __builtin_prefetch(at, 0, 2);
    else
        __builtin_prefetch(at, 0, 3);
    if (width > 64 && far)
        __builtin_prefetch(at + 64, 0, 2);
    else if (width > 64)
        __builtin_prefetch(at + 64, 0, 3);
    return at;
}

/* Reads, or compares and swaps, at places that were prefetched `distance` accesses before. */
LOOM_LANE void random_accesses(shape *run, uint64_t start, uint32_t width, int swaps, int far)
{
    unsigned char *ring[RING];
    const uint32_t distance = run->distance;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < distance; i++)
        ring[i % RING] = prefetch_place(run, start, i, width, swaps, far);
    for (uint64_t i = 0; i < run->accesses; i++) {
        ring[(i + distance) % RING] = prefetch_place(run, start, i + distance, width, swaps, far);
        if (swaps) {
            uint64_t *word = (uint64_t *)ring[i % RING], seen = __atomic_load_n(word, __ATOMIC_RELAXED);
            __atomic_compare_exchange_n(word, &seen, seen + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        } else {
            sum += read_place(ring[i % RING], width);
        }
    }
    run->sink += sum;
}

static void copy_share(shape *run, uint64_t thread)
{
    uint64_t half = run->bytes / 2, share = half / run->threads / 64 * 64;
    unsigned char *from = run->memory + thread * share, *to = from + half;
    for (uint64_t round = 0; round < run->accesses; round++)
        memcpy(to, from, share);
}

/* Literal widths specialise the loops. */
LOOM_LANE void random_reads(shape *run, uint64_t start, int far)
{
    if (run->access_bytes == 8) /* the caller refuses all other widths */
        random_accesses(run, start, 8, 0, far);
    else if (run->access_bytes == 16)
        random_accesses(run, start, 16, 0, far);
    else if (run->access_bytes == 32)
        random_accesses(run, start, 32, 0, far);
    else if (run->access_bytes == 64)
        random_accesses(run, start, 64, 0, far);
    else
        random_accesses(run, start, 128, 0, far);
}

static void run_thread(void *argument, uint64_t thread)
{
    shape *run = argument;
    uint64_t start = (run->round * 64 + thread) << 36;
    if (run->kind == LOOM_LIMIT_COPY)
        copy_share(run, thread);
    else if (run->kind == LOOM_LIMIT_RANDOM_CAS)
        random_accesses(run, start, 8, 1, 0);
    else if (run->far) /* LOOM_LIMIT_RANDOM_READ: the caller refuses all other kinds */
        random_reads(run, start, 1);
    else
        random_reads(run, start, 0);
}

static double seconds_of(loom__pool *pool, shape *run)
{
    run->round++;
    uint64_t begin = nanoseconds();
    loom__pool_run(pool, run->threads, run_thread, run);
    return (double)(nanoseconds() - begin) * 1e-9;
}

static double rate_of(loom__pool *pool, shape *run)
{
    int copies = run->kind == LOOM_LIMIT_COPY;
    double best = 0;
    run->accesses = copies ? 1 : 1 << 14;
    while (seconds_of(pool, run) * 1e9 < LEAST_NANOSECONDS) /* ends: the work doubles each time */
        run->accesses *= 2;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        double work = (double)run->accesses * run->threads;
        if (copies)
            work *= 2.0 * (double)(run->bytes / 2 / run->threads / 64 * 64);
        double rate = work / seconds_of(pool, run);
        best = rate > best ? rate : best;
    }
    return best;
}

static void touch_page(void *argument, uint64_t page)
{
    shape *run = argument;
    memset(run->memory + page * TOUCH, (int)(page | 1) & 0xff, TOUCH);
}

static void try_shape(loom__pool *pool, shape *run, loom_limit *limit)
{
    double rate = rate_of(pool, run);
    if (rate <= limit->rate)
        return;
    limit->rate = rate;
    char distance[24] = "";
    if (run->kind != LOOM_LIMIT_COPY)
        snprintf(distance, sizeof distance, ", distance %u", run->distance);
    snprintf(limit->shape, sizeof limit->shape, "%u thread%s%s%s, %s pages", run->threads, run->threads > 1 ? "s" : "",
             distance, run->far ? ", into L2" : "", run->huge ? "huge" : "4 KiB");
}

loom_status loom__cpu_measure_limit(loom__pool *pool, uint32_t threads, loom_limit *limit)
{
    shape run = {.kind = limit->kind, .access_bytes = limit->access_bytes};
    run.bytes = limit->footprint_bytes / TOUCH * TOUCH;
    limit->rate = 0;
    limit->shape[0] = 0;
    for (run.huge = 0; run.huge <= (loom__cpu_huge_page_bytes() > 0); run.huge++) {
        run.memory = loom__cpu_map_pages(run.bytes, run.huge);
        RETURN_ERROR_IF(run.memory == NULL, LOOM_OUT_OF_MEMORY,
                        "%llu bytes to measure on could not be had; ask for a smaller footprint",
                        (unsigned long long)run.bytes);
        loom__pool_run(pool, run.bytes / TOUCH, touch_page, &run);
        for (run.threads = 1; run.threads <= threads;
             run.threads = run.threads == 1 && threads > 1 ? threads : threads + 1) {
            size_t several = run.kind == LOOM_LIMIT_COPY ? 1 : sizeof distances / sizeof *distances;
            for (run.far = 0; run.far <= (run.kind == LOOM_LIMIT_RANDOM_READ); run.far++)
                for (size_t i = 0; i < several; i++) {
                    run.distance = distances[i];
                    try_shape(pool, &run, limit);
                }
        }
        loom__cpu_unmap_pages(run.memory, run.bytes);
    }
    return LOOM_OK;
}
