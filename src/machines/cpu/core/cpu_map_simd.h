/* Steps that the loops of every engine of maps and sets share (cpu_<engine>_simd.h). Before including this file, define
 * DONE, WAS_THERE, ABSENT and NO_ROOM, which are outcomes of the engine's lane algorithms, and status_of_outcome[]. */
#include "core/lanes.h"
#include "core/slot_ops.h"
#include "machines/cpu/core/cpu_arrays.h"
#include "machines/cpu/core/cpu_bulk.h"

static const lane_group whole_group;

/* ---- inputs ---- */

LOOM_LANE uint64_t key_at(loom__slot_kind kind, const void *keys, uint64_t index)
{
    if (slot_key_bytes(kind) == 4)
        return ((const uint32_t *)keys)[index];
    return ((const uint64_t *)keys)[index];
}

LOOM_LANE uint64_t record_key(loom__slot_kind kind, const loom__cpu_records *records, uint64_t i)
{
    uint64_t key = 0;
    memcpy(&key, records->keys + i * records->key_stride, slot_key_bytes(kind));
    return key;
}

/* Value i of an array whose values are `stride` bytes apart. Without an array every value is 1: counters add up
 * ones. */
LOOM_LANE uint64_t value_at(loom__slot_kind kind, loom__write op, loom__widening widening, const void *values,
                            uint64_t stride, uint64_t i)
{
    uint64_t value = 0;
    uint32_t narrow = 0;
    if (slot_value_bytes(kind) == 0 || values == NULL)
        return 1;
    const unsigned char *at = (const unsigned char *)values + i * stride;
    if (op == LOOM__WRITE_COMBINE && slot_value_bytes(kind) == 8 && widening != LOOM__WIDEN_NOT) {
        memcpy(&narrow, at, sizeof narrow);
        return loom__widen(widening, narrow);
    }
    memcpy(&value, at, slot_value_bytes(kind));
    return value;
}

LOOM_LANE slot_mode mode_of(loom__write op)
{
    return op == LOOM__WRITE_OVERWRITE ? SLOT_OVERWRITE
           : op == LOOM__WRITE_FETCH   ? SLOT_FETCH
           : op == LOOM__WRITE_COMBINE ? SLOT_COMBINE
           : op == LOOM__WRITE_RESERVE ? SLOT_RESERVE
                                       : SLOT_KEEP;
}

/* Prefetches keys and answers ARRAYS_AHEAD keys after key `first`, unless the range has ended there. */
LOOM_LANE void prefetch_arrays(loom__slot_kind kind, const loom__batch *batch, uint64_t first, uint64_t end)
{
    const uint64_t at = first + ARRAYS_AHEAD;
    if (ARRAYS_AHEAD == 0 || at >= end)
        return;
    prefetch_to_read(batch->keys, at, slot_key_bytes(kind));
    prefetch_to_write(batch->found_values, at, slot_value_bytes(kind));
    prefetch_to_write(batch->status, at, 1);
    prefetch_to_write(batch->found, at, 1);
}

/* ---- answers ---- */

/* Writes what a lookup found in one line, without a branch on `found`. If `at_hand`, a literal, `value` is the value.
 * Otherwise the value lies outside the line, at `at`. It is only prefetched here; store_values copies it later from
 * *value_from. `absent` points to the value of absent keys: *batch is a copy in registers, and an address of its own
 * would bring it back to memory.
 *
 * A product with `found`, 0 or 1, chooses between a value and `absent`. Measured on a Neoverse V1, 2^13 pairs of 4 + 4
 * bytes, half hits: within 2 % of lookups that can only write zeros. A conditional expression became a branch in scalar
 * loops and cost a quarter. A mask between two exclusive ors cost 3 %.
 *
 * Values outside the line: gcc 12 made a branch of a conditional expression between the two addresses, too. Medians of
 * three alternating runs, 8 + 8 bytes, load 0.8, M lookups a second for misses, half hits and hits:
 *                                               branch               product
 *     2^12 pairs in the caches, one core        134    71    95      120   110   102
 *     2^22 pairs, two cores                     168   114   112      161   134   111
 * A hit reads two lines: half hits and hits then read 210 and 235 M lines a second, and the limit of random
 * reads was 215. */
LOOM_LANE void tell_look(loom__slot_kind kind, int at_hand, const loom__batch *batch, const uint64_t *absent,
                         uint64_t index, uint64_t found, uint64_t value, const unsigned char *at,
                         const unsigned char **value_from)
{
    if (at_hand && batch->found_values != NULL) {
        const uint64_t other = batch->absent, chosen = other + (value - other) * found;
        if (slot_value_bytes(kind) == 8)
            ((uint64_t *)batch->found_values)[index] = chosen;
        else if (slot_value_bytes(kind) == 4)
            ((uint32_t *)batch->found_values)[index] = (uint32_t)chosen;
    }
    if (!at_hand && batch->found_values != NULL) {
        const uintptr_t other = (uintptr_t)absent, further = (uintptr_t)at - other;
        *value_from = (const unsigned char *)(other + further * found);
        lane_prefetch(*value_from);
    }
    if (batch->status != NULL)
        batch->status[index] = (uint8_t)(found ^ 1);
    if (batch->found != NULL)
        batch->found[index] = (uint8_t)found;
}

_Static_assert(LOOM_OK == 0 && LOOM_NOT_FOUND == 1, "tell_look writes these");

/* Copies the values that were not at hand, of keys begin .. end - 1. */
LOOM_LANE void store_values(loom__slot_kind kind, int at_hand, const loom__batch *batch, uint64_t begin, uint64_t end,
                            const unsigned char *const *value_from)
{
    const uint32_t bytes = slot_value_bytes(kind);
    if (!at_hand && batch->found_values != NULL)
        for (uint64_t index = begin; index < end; index++)
            memcpy((unsigned char *)batch->found_values + index * bytes, value_from[index - begin], bytes);
}

/* For find_or_insert: writes the value of a key, found or stored. */
LOOM_LANE void tell_value(loom__slot_kind kind, loom__write op, const loom__batch *batch, uint64_t index,
                          uint64_t value)
{
    const uint32_t bytes = slot_value_bytes(kind);
    if (bytes != 0 && op == LOOM__WRITE_FETCH && batch->found_values != NULL)
        memcpy((unsigned char *)batch->found_values + index * bytes, &value, bytes);
}

LOOM_LANE void tell_outcome(const loom__batch *batch, uint64_t index, uint32_t outcome, loom__cpu_counts *counts)
{
    counts->ok += outcome == DONE;
    counts->exists += outcome == WAS_THERE;
    counts->not_found += outcome == ABSENT;
    counts->full += outcome == NO_ROOM;
    if (batch->status != NULL)
        batch->status[index] = status_of_outcome[outcome];
}
