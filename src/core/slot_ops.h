/* What a lane does to one slot: the steps that engines of maps and sets share. */
#ifndef LOOM_CORE_SLOT_OPS_H
#define LOOM_CORE_SLOT_OPS_H

#include "core/lanes.h"
#include "core/list_handle.h"
#include "core/slot_kind.h"
#include "core/table_slots.h"

/* What an insertion does with a key that is already in the table. */
typedef enum slot_mode {
    SLOT_KEEP,      /* nothing */
    SLOT_OVERWRITE, /* stores the new value */
    SLOT_FETCH,     /* returns the stored value */
    SLOT_COMBINE,   /* combines the stored value with the new one */
    SLOT_RESERVE,   /* the stored value is a list's handle: reserves a place in it, and returns the old handle */
    SLOT_LOCATE     /* tells where the value lies. A lane that reads it may still find the zero of a free slot there */
} slot_mode;

LOOM_LANE uint64_t slot_pair(uint64_t key, uint64_t value)
{
    return (uint32_t)key | value << 32;
}

/* The key in a slot of a line, or its tag. */
LOOM_LANE uint64_t slot_key(loom__slot_kind kind, const unsigned char *line, uint32_t slot)
{
    const unsigned char *at = line + slot * slot_stride(kind);
    if (slot_has_tag(kind))
        return lane_load_4((const uint32_t *)(line + slot / 2 * 4)) >> slot % 2 * 16 & 0xffff;
    return slot_key_bytes(kind) == 4 ? lane_load_4((const uint32_t *)at) : lane_load_8((const uint64_t *)at);
}

LOOM_LANE void slot_store_key(loom__slot_kind kind, unsigned char *line, uint32_t slot, uint64_t key)
{
    unsigned char *at = line + slot * slot_stride(kind);
    if (slot_key_bytes(kind) == 4)
        lane_store_4((uint32_t *)at, (uint32_t)key);
    else
        lane_store_8((uint64_t *)at, key);
}

LOOM_LANE uint64_t slot_load_value(loom__slot_kind kind, const unsigned char *at)
{
    return slot_value_bytes(kind) == 8 ? lane_load_8((const uint64_t *)at) : lane_load_4((const uint32_t *)at);
}

LOOM_LANE void slot_store_value(loom__slot_kind kind, unsigned char *at, uint64_t value)
{
    if (slot_value_bytes(kind) == 8)
        lane_store_8((uint64_t *)at, value);
    else
        lane_store_4((uint32_t *)at, (uint32_t)value);
}

/* Compare-and-swap of a key that lies in its slot without a value. False: another key was there. */
LOOM_LANE lane_truth slot_swap_key(loom__slot_kind kind, int shared, unsigned char *at, uint64_t from, uint64_t to)
{
    if (slot_key_bytes(kind) == 4)
        return lane_swap_4((uint32_t *)at, (uint32_t)from, (uint32_t)to, shared) == (uint32_t)from;
    return lane_swap_8((uint64_t *)at, from, to, shared) == from;
}

/* Stores a tag in a slot that is free, by a compare-and-swap of the 4 bytes that hold the slot and its neighbour.
 * False: the slot is not free. A failed swap means that one of the two slots was taken meanwhile. Slots are not freed
 * meanwhile, so at most three swaps are tried. */
LOOM_LANE lane_truth slot_swap_tag(int shared, unsigned char *line, uint32_t slot, uint32_t tag)
{
    uint32_t *const at = (uint32_t *)(line + slot / 2 * 4);
    const uint32_t shift = slot % 2 * 16;
    for (uint32_t seen = lane_load_4(at); (seen >> shift & 0xffff) == 0;) {
        const uint32_t old = lane_swap_4(at, seen, seen | tag << shift, shared);
        if (old == seen)
            return 1;
        seen = old;
    }
    return 0;
}

/* Makes a slot with a tag free. Others may free the slots beside it. */
LOOM_LANE void slot_clear_tag(int shared, unsigned char *line, uint32_t slot)
{
    (void)lane_and_8((uint64_t *)(line + slot / 4 * 8), ~((uint64_t)0xffff << slot % 4 * 16), shared);
}

/* Gives a slot with a tag the retired tag, whose bits are all set. Others may do so to the slots beside it. */
LOOM_LANE void slot_retire_tag(int shared, unsigned char *line, uint32_t slot)
{
    lane_or_8((uint64_t *)(line + slot / 4 * 8), (uint64_t)0xffff << slot % 4 * 16, shared);
}

/* Combines the value of a packed pair with another value. The value is the upper half of the pair, so a sum is added
 * there. Integer minima and maxima compare whole pairs: of two pairs with the same key, the pair with the larger value
 * is larger. Floats need a loop of compare-and-swaps. A swap fails only if another lane has combined, since no key is
 * removed while insertions run. */
LOOM_LANE void slot_combine_pair(int shared, uint64_t *at, uint64_t pair, loom__combine_rule rule, uint64_t key,
                                 uint64_t value)
{
    if (rule == LOOM__ADD) {
        lane_combine_8(at, rule, value << 32, shared);
    } else if (rule < LOOM__ADD_FLOAT) {
        lane_combine_8(at, rule, slot_pair(key, value), shared);
    } else {
        for (uint64_t seen = pair;;) {
            uint32_t wanted = loom__combine_4(rule, (uint32_t)(seen >> 32), (uint32_t)value);
            uint64_t old = lane_swap_8(at, seen, slot_pair(key, wanted), shared);
            if (old == seen)
                return;
            seen = old;
        }
    }
}

/* Reserves a place in the list whose handle is at `at`. Returns the old handle: its count is the number of the place. A
 * swap fails only if another lane has reserved a place. */
LOOM_LANE uint64_t slot_reserve(int shared, uint64_t *at)
{
    for (uint64_t seen = lane_load_8(at);;) {
        uint64_t old = lane_swap_8(at, seen, list_reserve(seen), shared);
        if (old == seen)
            return old;
        seen = old;
    }
}

/* The number that an accumulation adds to a value. Without an array every number is 1: counters add up ones. */
LOOM_LANE uint64_t slot_number_at(uint32_t value_bytes, const void *values, loom__widening widening, uint64_t i)
{
    const unsigned char *at = (const unsigned char *)values;
    if (values == NULL)
        return 1;
    if (value_bytes == 8 && widening != LOOM__WIDEN_NOT)
        return loom__widen(widening, (uint32_t)loom__slot_number(at + i * 4, 4));
    return loom__slot_number(at + i * value_bytes, value_bytes);
}

/* Completes a find-or-insert, after the turn that settled it: the found value is that of a new key, or zeros if the key
 * was refused. Of a key that was there, the turn has read it. value[0] is the address of the given value, value[1] where
 * the found one goes; 0: nowhere. */
LOOM_LANE void slot_tell_fetched(uint32_t value_bytes, lane_truth stored, lane_truth refused, const uint64_t *value)
{
    unsigned char *to = (unsigned char *)(uintptr_t)value[1];
    if (to == NULL)
        return;
    if (stored)
        lane_read_bytes(to, (const unsigned char *)(uintptr_t)value[0], value_bytes);
    else if (refused)
        memset(to, 0, value_bytes);
}

#endif
