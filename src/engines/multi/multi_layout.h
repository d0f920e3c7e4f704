/* The bytes of a multimap, in memory and in files.
 *
 * A multimap is a directory and a value heap. The directory is an open table (open_layout.h) whose values are handles
 * of 8 bytes (core/list_handle.h). The heap is an array of values. A key's values lie in the heap, or in the handle if
 * there is one value of 4 bytes. So a key is stored once, and it takes one slot of its partition, however many values
 * it has.
 *
 * Keys have 1 to 256 bytes. The directory of keys of 4 and 8 bytes has slots with keys. For all other widths it is a
 * table with rows (open_rows.h): lines of tags, and rows of a key and its handle. Values have 1 to 65,536 bytes. They
 * lie in the heap side by side, without padding. Handles and links count values, whatever their width.
 *
 * The two engines of multimaps differ in how a list grows. In the open engine a list always lies in one piece, and a
 * list that outgrows its room moves to the end of the heap. In the chain engine (engines/chain/chain_layout.h) it gets
 * another piece there.
 *
 * The heap is used from its start on (loom__multi_totals.used). What moved and erased lists leave is unused until the
 * whole table moves: then all lists are packed, each in one piece, without room between them. The table moves when the
 * heap is at its end: to a heap of the same size if a fifth of it would be free after the batch, otherwise to one of at
 * least `growth` times the size (map_grow.c). */
#ifndef LOOM_MULTI_LAYOUT_H
#define LOOM_MULTI_LAYOUT_H

#include "core/list_handle.h"
#include "core/list_pieces.h"
#include "engines/open/open_rows.h"

enum {
    MULTI_LAYOUT_VERSION = 1, /* of open and of chain; MULTI_NARROW_VERSION if the directory has narrow words */
    MULTI_NARROW_VERSION = 2,
    MULTI_HANDLE_BYTES = 8,
    MULTI_VALUES = 0,       /* parameters of a description: values for which the heap has room */
    MULTI_MOST = 1,         /* most values per key; 0: LIST_MOST_VALUES */
    MULTI_FIRST_BUCKET = 2, /* chain: values of a list's first bucket */
    MULTI_BUCKET_GROWTH = 3 /* chain: by how much buckets grow (chain_layout.h) */
};

/* The largest heap: its last value, behind the padding of multi_room, has a place of 39 bits in a handle. */
#define MULTI_MOST_ROOM (((uint64_t)1 << 39) - ((uint64_t)1 << 32))

/* The heap of a table for so many values. LARGE lists begin at multiples of a unit, and each has more than
 * LIST_LARGE_FROM values, so a packed heap of any `values` values fits. */
LOOM_BOTH uint64_t multi_room(uint64_t values)
{
    return values + values / LIST_LARGE_FROM * LIST_LARGE_UNIT;
}

/* Behind the open engine's state. Not in files: a loaded table counts its lists. */
typedef struct loom__multi_totals {
    uint64_t pairs;
    uint64_t used;    /* values from the start of the heap to its free part */
    uint64_t in_heap; /* values of all lists in the heap; the others are in handles */
    uint64_t bare;    /* chain: keys may be without values, since appends by lanes found no room */
    uint64_t end;     /* chain: what `used` ends at, if appends by lanes have added more than there is room for */
    uint64_t reserved[3];
} loom__multi_totals;

LOOM_STATIC_ASSERT(sizeof(loom__multi_totals) == 64, "totals fill a line");

typedef struct loom__multi_view {
    loom__open_view directory; /* first: the open engine's kernels take this struct, too */
    unsigned char *heap;
    loom__multi_totals *lists;
    uint64_t room; /* values for which the heap has room */
    uint64_t value_bytes;
    uint32_t most;          /* values per key */
    uint16_t first_bucket;  /* chain; 0: lists lie in one piece */
    uint16_t bucket_growth; /* chain */
} loom__multi_view;

/* The view struct of a multimap whose directory has rows. list_view.directory is a copy of rows.lines: it tells the
 * kind, and where totals and state are. Whatever reads or writes keys takes multi_directory(). */
typedef struct loom__wide_multi_view {
    loom__multi_view list_view; /* first: code that works on lists takes this struct, too */
    loom__rows_view rows;
} loom__wide_multi_view;

/* The kind of the directory's slots for keys of this width. */
LOOM_BOTH loom__slot_kind multi_directory_kind(uint32_t key_bytes)
{
    return key_bytes == 4 || key_bytes == 8 ? slot_kind_of(key_bytes, MULTI_HANDLE_BYTES) : SLOT_TAG;
}

/* Whether keys lie in rows. */
LOOM_BOTH int multi_has_rows(const loom__multi_view *view)
{
    return view->directory.kind == SLOT_TAG;
}

LOOM_BOTH const loom__rows_view *multi_rows(const loom__multi_view *view)
{
    return &((const loom__wide_multi_view *)(const void *)view)->rows;
}

/* The directory, as the algorithms of open tables take it. */
LOOM_BOTH const loom__open_view *multi_directory(const loom__multi_view *view)
{
    return multi_has_rows(view) ? &multi_rows(view)->lines : &view->directory;
}

LOOM_BOTH uint32_t multi_key_bytes(const loom__multi_view *view)
{
    return multi_has_rows(view) ? multi_rows(view)->key_bytes : slot_key_bytes((loom__slot_kind)view->directory.kind);
}

LOOM_BOTH loom__table_slots multi_table_slots(const loom__multi_view *view)
{
    loom__table_slots slots =
        multi_has_rows(view) ? open_rows_table_slots(multi_rows(view)) : open_table_slots(&view->directory);
    slots.list_value_bytes = (uint32_t)view->value_bytes;
    slots.heap = view->heap;
    return slots;
}

LOOM_BOTH unsigned char *multi_value_at(const loom__multi_view *view, uint64_t place)
{
    return view->heap + place * view->value_bytes;
}

/* Whether lists are chains of buckets: the chain engine. */
LOOM_BOTH int multi_is_chain(const loom__multi_view *view)
{
    return view->first_bucket > 0;
}

/* Whether lists of one value have it in their handle. */
LOOM_BOTH int multi_has_ones(const loom__multi_view *view)
{
    return view->value_bytes == 4;
}

/* Whether values have 4 or 8 bytes, and are read and written by one access. */
LOOM_BOTH int multi_has_numbers(const loom__multi_view *view)
{
    return view->value_bytes == 4 || view->value_bytes == 8;
}

/* Bytes for each bucket of the directory that a GPU needs in shared memory beside a partition, when it builds one: a
 * tag for each slot. */
enum { MULTI_TAG_BYTES = 8 };

/* The values from `place` on that a list of this kind may not use, since it begins at a multiple of a unit. */
LOOM_BOTH uint64_t multi_padding(loom__list_kind kind, uint64_t place)
{
    return kind == LIST_LARGE ? (LIST_LARGE_UNIT - place % LIST_LARGE_UNIT) % LIST_LARGE_UNIT : 0;
}

/* Whether a handle may stand in a table between calls, as far as the handle itself tells. */
LOOM_BOTH int multi_is_sound_kind(const loom__multi_view *view, uint64_t handle)
{
    const uint64_t count = list_count(handle);
    if (list_is_touched(handle) || count == 0)
        return 0;
    if (list_kind(handle) == LIST_ONE)
        return multi_has_ones(view) && handle == list_of_one(list_one_value(handle));
    return list_in_heap(handle) && !(list_kind(handle) == LIST_SHORT && count > LIST_LARGE_FROM);
}

/* The same, with the size of the heap. For lists in one piece. */
LOOM_BOTH int multi_is_sound(const loom__multi_view *view, uint64_t used, uint64_t handle)
{
    if (!multi_is_sound_kind(view, handle) || list_kind(handle) == LIST_ONE)
        return multi_is_sound_kind(view, handle);
    const uint64_t first = list_first(handle), capacity = list_capacity(handle, list_count(handle));
    return !list_is_linked(handle) && first <= used && capacity <= used - first;
}

#endif
