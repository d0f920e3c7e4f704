/* The bytes of a toy table: one partition of three arrays. Its buckets are slots for one key each.
 *
 *   keys     [slots] key_bytes
 *   values   [slots] value_bytes; sets have none
 *   used     [slots] one byte: 1 if the slot holds a key, 0 if it is free
 *
 * The hash of a key chooses its home slot. The probe sequence continues slot by slot, past the last slot to the first.
 *
 *   I1  Every slot from a key's home to its own is used, so that a lookup may stop at the first free slot.
 *   I2  No key is stored twice.
 *   I3  One slot at least is free, so that every walk along used slots ends. */
#ifndef TOY_LAYOUT_H
#define TOY_LAYOUT_H

#include "core/hash.h"
#include "core/totals.h"

#include <string.h>

enum {
    TOY_LAYOUT_VERSION = 1, /* of everything in this file; part of the file format */
    TOY_UNIT_BYTES = 4096,  /* that a checksum of a file covers */
    TOY_MOST_SLOTS = 1 << 30,
};

/* A table, as the kernels see it. */
typedef struct toy_view {
    unsigned char *keys, *values, *used;
    loom__totals *totals;
    loom__seed seed;
    uint32_t slots, key_bytes, value_bytes;
} toy_view;

/* An element of an array of the table, or of a batch; of 0 bytes: 0. */
static inline uint64_t toy_load(const void *array, uint32_t bytes, uint64_t i)
{
    uint64_t number = 0;
    memcpy(&number, (const unsigned char *)array + i * bytes, bytes);
    return number;
}

static inline void toy_store(void *array, uint32_t bytes, uint64_t i, uint64_t number)
{
    memcpy((unsigned char *)array + i * bytes, &number, bytes);
}

static inline uint32_t toy_home(const toy_view *view, uint64_t key)
{
    return loom__hash_bucket((uint32_t)loom__hash_key(key, view->key_bytes, view->seed), view->slots);
}

static inline uint32_t toy_next(const toy_view *view, uint32_t slot)
{
    return slot + 1 < view->slots ? slot + 1 : 0;
}

/* Steps along the probe sequence from one slot to another. */
static inline uint32_t toy_steps(const toy_view *view, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + (view->slots - from);
}

#endif
