#define _GNU_SOURCE
#include "machines/cpu/core/cpu_memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LEAST_FOR_PAGES = 1 << 20 };

uint64_t loom__cpu_huge_page_bytes(void)
{
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file == NULL)
        return 0;
    int got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return got && strstr(line, "[never]") == NULL ? HUGE_PAGE : 0;
}

static size_t round_up(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *loom__cpu_map_pages(size_t bytes, int huge)
{
    /* Maps one huge page more than needed, so that the mapping contains an aligned start. Then unmaps both ends. */
    if (bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE)
        return NULL;
    size_t wanted = round_up(bytes);
    unsigned char *mapped = mmap(NULL, wanted + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)mapped % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(mapped, before);
    munmap(mapped + before + wanted, HUGE_PAGE - before);
    madvise(mapped + before, wanted, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return mapped + before;
}

void loom__cpu_unmap_pages(void *memory, size_t bytes)
{
    munmap(memory, round_up(bytes));
}

static int takes_pages(size_t bytes, loom_memory_kind kind)
{
    return kind != LOOM_MEMORY_HOST && bytes >= LEAST_FOR_PAGES;
}

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    (void)user;
    (void)stream;
    if (takes_pages(bytes, kind))
        return loom__cpu_map_pages(bytes, 1);
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user;
    (void)stream;
    if (takes_pages(bytes, kind))
        loom__cpu_unmap_pages(memory, bytes);
    else
        free(memory);
}

const loom_allocator loom__cpu_allocator = {allocate, release, NULL};
