/* Makes references to strings, and copies strings one behind the other. Threads share the strings in pieces. */
#include "machines/cpu/core/cpu_strings.h"

#include <stdatomic.h>
#include <string.h>

/* ---- references ---- */

enum { REFERRED = 1 << 14 /* strings of a piece */ };

typedef struct referring {
    const uint64_t *offsets;
    uint64_t base, n, most;
    loom__string *to;
    atomic_uint_least64_t bytes, falling;
} referring;

static void refer_piece(void *argument, uint64_t piece)
{
    referring *all = argument;
    const uint64_t begin = piece * REFERRED, end = all->n - begin < REFERRED ? all->n : begin + REFERRED;
    const uint64_t *offsets = all->offsets;
    uint64_t bytes = 0, falling = UINT64_MAX;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t length = offsets[i + 1] - offsets[i];
        if (offsets[i + 1] < offsets[i] && falling == UINT64_MAX)
            falling = i;
        if (all->to != NULL)
            all->to[i] = (loom__string){all->base + offsets[i], length};
        bytes += length <= all->most ? (length + 7) / 8 * 8 : 0;
    }
    atomic_fetch_add_explicit(&all->bytes, bytes, memory_order_relaxed);
    uint64_t seen = atomic_load_explicit(&all->falling, memory_order_relaxed);
    while (falling < seen && !atomic_compare_exchange_weak_explicit(&all->falling, &seen, falling, memory_order_relaxed,
                                                                    memory_order_relaxed))
        continue; /* ends: each failure means that another thread made it less */
}

loom_status loom__cpu_refer_strings(loom__machine *machine, const uint64_t *offsets, uint64_t base, uint64_t n,
                                    uint64_t most, loom__string *to, loom__strings_told *told, loom_stream stream)
{
    referring all = {.offsets = offsets, .base = base, .n = n, .most = most, .to = to};
    (void)stream;
    atomic_init(&all.bytes, 0);
    atomic_init(&all.falling, UINT64_MAX);
    if (n <= REFERRED)
        refer_piece(&all, 0);
    else
        machine->ops->host_parallel(machine, (n + REFERRED - 1) / REFERRED, refer_piece, &all);
    *told = (loom__strings_told){atomic_load(&all.bytes), atomic_load(&all.falling), offsets[0], offsets[n]};
    return LOOM_OK;
}

/* ---- places and copies ---- */

loom_status loom__cpu_place_strings(loom__machine *machine, const loom__string *strings, uint64_t n, uint64_t at,
                                    uint64_t room, uint64_t *places, loom__places_told *told, loom_stream stream)
{
    (void)machine, (void)stream;
    told->fitting = 0;
    for (uint64_t i = 0; i < n; i++) {
        places[i] = at;
        at += strings[i].length;
        told->fitting += at <= room;
    }
    places[n] = told->end = at;
    return LOOM_OK;
}

enum {
    PIECE = 1 << 12,
    AHEAD = 16 /* strings between prefetch and copy: those of a table lie anywhere in its heap */
};

typedef struct copying {
    const loom__string *strings;
    uint64_t n;
    const uint64_t *places;
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
            memcpy(all->to + all->places[i], (const void *)(uintptr_t)string->at, string->length);
    }
}

loom_status loom__cpu_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n,
                                   const uint64_t *places, void *to, loom_stream stream)
{
    copying all = {strings, n, places, to};
    (void)stream;
    machine->ops->host_parallel(machine, (n + PIECE - 1) / PIECE, copy_piece, &all);
    return LOOM_OK;
}
