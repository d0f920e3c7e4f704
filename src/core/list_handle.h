/* The handle of a list: what a multimap's directory stores beside a key. It says how many values the key has, and where
 * they lie in the value heap.
 *
 *   bits   63 62   61       60      59      58 .. 20                   19 .. 0
 *   NONE   0       touched  bare    0       0                          count     no values yet; only while a call runs
 *   ONE    1       touched  0       0       the value, 32 bits         count     the value is in the handle
 *   LIST   2       touched  exact   linked  first value in the heap    count
 *                                           of a linked list: 52 .. 20
 *   LARGE  3       touched  exact   linked  58 .. 30: first value      29 .. 0: count
 *                                           / LIST_LARGE_UNIT
 *
 * A list lies in one piece, or it is a chain of pieces (core/list_pieces.h, the chain engine). `linked` says that the
 * list has several pieces. The first value is then that of the newest piece, and the count is that of all pieces. Bits
 * 58 .. 53 of a linked LIST are its *fill*: the number of values in the newest piece. 0 means that only the link in
 * front of the piece tells. With a fill, appends need neither the link nor a fence that orders it
 * (engines/chain/chain_ops.h).
 *
 * The count is in the lowest bits of every kind, so that a call reserves a place for a value by adding 1. `touched` is
 * set meanwhile: the reservation that finds it clear is the first one of the call. Between calls it is clear, the count
 * of ONE is 1, and NONE does not occur.
 *
 * The capacity of a list in one piece follows from its handle. An exact list has no room behind its values: builds and
 * moves of whole tables make such lists. Any other list has the capacity of its class, the smallest of 1, 2, 3, 4, 6,
 * 8, 12, 16, ... that holds its values. So a list that grows value by value is moved at most twice each time its length
 * doubles, and no more than a third of its room is unused. A list that becomes shorter gives up the room behind its new
 * class. */
#ifndef LOOM_CORE_LIST_HANDLE_H
#define LOOM_CORE_LIST_HANDLE_H

#include "core/portable.h"

typedef enum loom__list_kind { LIST_NONE = 0, LIST_ONE = 1, LIST_SHORT = 2, LIST_LARGE = 3 } loom__list_kind;

enum {
    LIST_COUNT_BITS = 20, /* of ONE and LIST */
    LIST_FILL_SHIFT = 53, /* of a linked LIST */
    LIST_FILL_BITS = 6,
    LIST_LARGE_BITS = 30, /* of LARGE */
    LIST_MOST_VALUES = (1 << LIST_LARGE_BITS) - 1
};

#ifdef LOOM_SIMULATED_LISTS /* tests/simt/machine/simt_lists.h: lists of a few values are LARGE */
#define LIST_LARGE_UNIT SIMT_LARGE_UNIT
#define LIST_LARGE_FROM simt_large_from
#define LIST_MOST_FILL  simt_most_fill
#else
enum {
    LIST_LARGE_UNIT = 4096,    /* LARGE lists begin at a multiple of so many values */
    LIST_LARGE_FROM = 1 << 19, /* longer lists are LARGE */
    LIST_MOST_FILL = (1 << LIST_FILL_BITS) - 1
};
#endif

#define LIST_TOUCHED  ((uint64_t)1 << 61)
#define LIST_EXACT    ((uint64_t)1 << 60)
#define LIST_LINKED   ((uint64_t)1 << 59)
#define LIST_BARE     LIST_EXACT /* NONE, and not 0, which stands in a free slot */
#define LIST_REFUSED  UINT64_MAX /* no handle: the directory has no room for the key */
#define LIST_ONE_FILL ((uint64_t)1 << LIST_FILL_SHIFT)
#define LIST_FILL     ((((uint64_t)1 << LIST_FILL_BITS) - 1) << LIST_FILL_SHIFT)

LOOM_BOTH loom__list_kind list_kind(uint64_t handle)
{
    return (loom__list_kind)(handle >> 62);
}

/* The most values that a handle of this kind can count. */
LOOM_BOTH uint64_t list_most(uint64_t handle)
{
    return ((uint64_t)1 << (list_kind(handle) == LIST_LARGE ? LIST_LARGE_BITS : LIST_COUNT_BITS)) - 1;
}

LOOM_BOTH uint64_t list_count(uint64_t handle)
{
    return handle & list_most(handle);
}

LOOM_BOTH int list_is_linked(uint64_t handle)
{
    return (handle & LIST_LINKED) != 0;
}

/* Whether the handle has bits for a fill. */
LOOM_BOTH int list_has_fill(uint64_t handle)
{
    return list_kind(handle) == LIST_SHORT && list_is_linked(handle);
}

/* The values in the newest piece of a linked list, or 0 if the handle does not tell. */
LOOM_BOTH uint64_t list_fill(uint64_t handle)
{
    return list_has_fill(handle) ? (handle & LIST_FILL) >> LIST_FILL_SHIFT : 0;
}

/* The first value of the newest piece, counted in values from the start of the heap. For LIST and LARGE. */
LOOM_BOTH uint64_t list_first(uint64_t handle)
{
    const uint64_t payload = handle & (list_has_fill(handle) ? LIST_ONE_FILL - 1 : LIST_LINKED - 1);
    return list_kind(handle) == LIST_LARGE ? (payload >> LIST_LARGE_BITS) * LIST_LARGE_UNIT
                                           : payload >> LIST_COUNT_BITS;
}

LOOM_BOTH uint32_t list_one_value(uint64_t handle)
{
    return (uint32_t)(handle >> LIST_COUNT_BITS);
}

LOOM_BOTH int list_is_touched(uint64_t handle)
{
    return (handle & LIST_TOUCHED) != 0;
}

/* Whether the values lie in the heap. */
LOOM_BOTH int list_in_heap(uint64_t handle)
{
    return list_kind(handle) >= LIST_SHORT;
}

/* Reserves a place for one more value. A handle that has counted as far as it can becomes LARGE, and forgets where the
 * values lie: the handle that the call's first reservation returned still knows. A LARGE handle at its end stays as it
 * is. */
LOOM_BOTH uint64_t list_reserve(uint64_t handle)
{
    const uint64_t count = list_count(handle);
    if (count < list_most(handle))
        return (handle + 1) | LIST_TOUCHED;
    return list_kind(handle) == LIST_LARGE ? handle : (uint64_t)LIST_LARGE << 62 | LIST_TOUCHED | (count + 1);
}

LOOM_BOTH uint64_t list_of_one(uint32_t value)
{
    return (uint64_t)LIST_ONE << 62 | (uint64_t)value << LIST_COUNT_BITS | 1;
}

/* The kind of a list of so many values in the heap. */
LOOM_BOTH loom__list_kind list_kind_for(uint64_t count)
{
    return count > LIST_LARGE_FROM ? LIST_LARGE : LIST_SHORT;
}

/* A handle of a list in the heap, in one piece. `first` is a multiple of LIST_LARGE_UNIT if the kind is LARGE. */
LOOM_BOTH uint64_t list_make(loom__list_kind kind, uint64_t first, uint64_t count, int exact)
{
    const uint64_t place = kind == LIST_LARGE ? first / LIST_LARGE_UNIT << LIST_LARGE_BITS : first << LIST_COUNT_BITS;
    return (uint64_t)kind << 62 | place | count | (exact ? LIST_EXACT : 0);
}

/* The same list with another count, not touched, without a fill. */
LOOM_BOTH uint64_t list_with_count(uint64_t handle, uint64_t count)
{
    return (handle & ~(list_most(handle) | LIST_TOUCHED | (list_has_fill(handle) ? LIST_FILL : 0))) | count;
}

/* The smallest class that holds `count` values: a power of two, or three times one. */
LOOM_BOTH uint64_t list_class(uint64_t count)
{
    uint64_t power = 1;
    while (power < count)
        power *= 2;
    return power >= 4 && power / 4 * 3 >= count ? power / 4 * 3 : power;
}

/* Values for which a list in one piece has room if it counts `count`. Chains: chain_layout.h. */
LOOM_BOTH uint64_t list_capacity(uint64_t handle, uint64_t count)
{
    if (!list_in_heap(handle))
        return count < 1 ? count : 1;
    return handle & LIST_EXACT ? count : list_class(count);
}

#endif
