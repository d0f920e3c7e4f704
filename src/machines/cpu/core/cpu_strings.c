/* Copies strings one behind the other. Threads share the strings in pieces. */
#include "machines/cpu/core/cpu_strings.h"

#include <string.h>

enum {
    PIECE = 1 << 12,
    AHEAD = 16 /* strings between prefetch and copy: those of a table lie anywhere in its heap */
};

typedef struct copying {
    const loom__string *strings;
    uint64_t n;
    const uint64_t *offsets;
    unsigned char *to;
} copying;

static void copy_piece(void *argument, uint64_t piece)
{
    const copying *all = argument;
    const uint64_t begin = piece * PIECE, end = all->n - begin < PIECE ? all->n : begin + PIECE;
    for (uint64_t i = begin; i < end; i++) {
        const loom__string *string = &all->strings[i];
        if (i + AHEAD < end)
            __builtin_prefetch((const void *)(uintptr_t)all->strings[i + AHEAD].at);
        if (string->length > 0)
            memcpy(all->to + all->offsets[i], (const void *)(uintptr_t)string->at, string->length);
    }
}

loom_status loom__cpu_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n,
                                   const uint64_t *offsets, void *to, loom_stream stream)
{
    copying all = {strings, n, offsets, to};
    (void)stream;
    machine->ops->host_parallel(machine, (n + PIECE - 1) / PIECE, copy_piece, &all);
    return LOOM_OK;
}
