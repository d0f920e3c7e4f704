/* Open tables whose keys and values lie in rows: SLOT_TAG and SLOT_STRING. The rows engine (engines/rows/rows.c) is
 * made of them.
 *
 *   line               | tag | tag | … 28 tags of 2 bytes …                            | word |
 *                      0                                                               56    64
 *   word               from bit 0: 28 ready bits, 36 filter bits
 *   rows, together     | key | padding | value | padding |, one row behind the other
 *   rows, apart        | key | key | …      and in another region      | value | value | …
 *
 * The lines of a table lie together, as those of every open table. A *row* is the key and the value of a slot. Rows lie
 * outside of the lines, at the same slot number: slot s of bucket b of partition p has row (p * buckets + b) * 28 + s.
 * Lines stay dense, and their number does not depend on the widths.
 *
 * Two layouts (loom_layout): the key and the value of a row lie together, or all keys lie in one region and all values
 * in another. For both, key i is at rows + i * key_stride and value i at values + i * value_stride. So no algorithm
 * asks for the layout.
 *
 * A tag is 16 bits of the key's hash. Tag 0 marks a free slot, and tag 0xffff is reserved for retired slots, so keys
 * have tags 1 .. 0xfffe and every key is legal. Keys with equal tags are told apart by their rows: the full key is
 * always compared. Where a line holds 22 other keys, a lookup reads a row in vain once in 65,534 / 22 times.
 *
 * A value of 4 or 8 bytes may be a number, on which atomics work. So values are aligned to the largest power of two
 * that divides their width, but to no more than 8 bytes. There is no other padding. Apart, there is none at all: in a
 * dense array every value is aligned like that.
 *
 * In a walk (open_ops.h) `key` is the address of the wanted key, in memory that nobody writes. A value that is passed
 * to an operation is the address of its bytes, too.
 *
 * Strings (SLOT_STRING). Keys, values or both have any length. Their bytes lie in a heap, a region of its own, and the
 * row holds a reference in place of the key or the value:
 *
 *   key                | offset in the heap 8 | length 4 | lower half of the hash 4 |
 *   value              | offset in the heap 8 | length 4 | bytes of its piece 4 |
 *
 * The length and the 32 bits of the hash refuse nearly all other keys with the same tag; then the whole key is
 * compared. A *piece* of the heap begins at a multiple of 8 bytes and has a multiple of 8 bytes. A new key and its
 * value share one piece. Pieces are given out one behind the other, by an atomic addition, and never given back:
 * erased and replaced strings count as unused. Moving the table into another one leaves them behind. A string that
 * replaces another value takes the old piece if it fits. Offsets are relative, so a table may move and lie in files.
 *
 * In a walk `key` is then the address of a loom__string, and a value that is passed to an operation is the address of
 * one. */
#ifndef LOOM_OPEN_ROWS_H
#define LOOM_OPEN_ROWS_H

#include "core/hash_bytes.h"
#include "core/strings.h"
#include "engines/open/open_layout.h"

enum {
    OPEN_TAGS = 0xfffe, /* tags of keys: 1 .. OPEN_TAGS */
    OPEN_RETIRED_TAG = 0xffff,
    OPEN_ROW_ALIGNMENT = 8, /* the largest */
    OPEN_PIECE_ALIGNMENT = 8,
    OPEN_UNUSED_COPIES = 16,
    OPEN_SHARE_KEYS = 64,   /* most keys that a share is taken for */
    OPEN_SHARE_BYTES = 4096 /* the same in bytes, without the first key's */
};

/* A reference in a row. */
typedef struct open_stored {
    uint64_t at;     /* in the heap */
    uint32_t length; /* of the string */
    uint32_t mark;   /* key: the lower half of its hash; value: bytes of its piece */
} open_stored;

LOOM_STATIC_ASSERT(sizeof(open_stored) == sizeof(loom__string), "a row has room for a reference as a batch has");

/* How much of the heap was given out, and how much of that holds no string any more. Not in files. */
typedef struct loom__string_totals {
    uint64_t used; /* bytes; above the heap's room if a taker came in vain */
    /* Machines whose kernels count in the table: rows of a call that were refused for lack of bytes (loom__no_bytes). A
     * call that asks for them zeroes them first. */
    uint64_t refused_rows, refused_bytes, refused_most;
    uint64_t padding[4];
    struct {
        uint64_t bytes;
        uint64_t padding[7];
    } unused[OPEN_UNUSED_COPIES]; /* by partition: erasures do not contend for one address; the sum counts */
} loom__string_totals;

/* Bytes of the heap that one thread took for several keys at once, so that threads seldom meet at `used`. Only the cpu
 * machine has shares: open_take_of_share. */
typedef struct open_share {
    uint64_t at, end; /* what is left of it */
    uint64_t from;    /* the key that took it */
    uint64_t count;   /* keys that it was taken for: from, from + 1, … */
    /* The keys of a range, their values if these are strings, and the key whose turn it is. */
    const unsigned char *keys, *values;
    uint64_t key_stride, value_stride, index, n;
} open_share;

/* The view struct of a table with rows. */
typedef struct loom__rows_view {
    loom__open_view lines; /* first: the algorithms of open tables take this struct, too */
    unsigned char *rows;   /* key of slot 0 of bucket 0 of partition 0 */
    unsigned char *values; /* value of the same slot */
    uint32_t key_bytes, value_bytes;
    uint32_t key_stride, value_stride; /* from key to key, and from value to value */
    uint32_t apart;                    /* the layout; only hints and sizes depend on it */
    uint32_t variable;                 /* LOOM__VARIABLE_… */
    /* SLOT_STRING; otherwise 0. key_bytes and value_bytes are those of references then. */
    unsigned char *heap;
    loom__string_totals *strings;
    uint64_t heap_room; /* bytes; a multiple of OPEN_PIECE_ALIGNMENT */
    uint32_t most_key_bytes, most_value_bytes;
    /* While a loaded table is checked: a bit for each OPEN_PIECE_ALIGNMENT bytes of the heap, set if a string that was
     * surveyed lies there. Otherwise NULL. */
    uint64_t *piece_map;
    open_share *share;       /* of the thread that has this copy of the struct; NULL: pieces are taken one by one */
    uint32_t in_host_memory; /* rows and heap lie there: bulk calls choose how to reach them. Not in device views */
    uint64_t staging_bytes;  /* most temporary memory that a bulk call takes for that; 0: the machine chooses */
} loom__rows_view;

LOOM_BOTH const loom__rows_view *open_rows_of(const loom__open_view *view)
{
    return (const loom__rows_view *)(const void *)view;
}

/* ---- Widths ---- */

LOOM_BOTH uint32_t open_row_alignment(uint32_t value_bytes)
{
    const uint32_t bits = value_bytes | OPEN_ROW_ALIGNMENT;
    return value_bytes == 0 ? 1 : bits & (0 - bits);
}

LOOM_BOTH uint32_t open_row_round_up(uint32_t bytes, uint32_t value_bytes)
{
    const uint32_t alignment = open_row_alignment(value_bytes);
    return (bytes + alignment - 1) / alignment * alignment;
}

LOOM_BOTH uint32_t open_row_value_offset(uint32_t key_bytes, uint32_t value_bytes)
{
    return open_row_round_up(key_bytes, value_bytes);
}

LOOM_BOTH uint32_t open_row_bytes(uint32_t key_bytes, uint32_t value_bytes)
{
    return open_row_round_up(open_row_value_offset(key_bytes, value_bytes) + value_bytes, value_bytes);
}

/* Rows with references are aligned to 8 bytes, whatever the width of a value. */
LOOM_BOTH uint32_t open_row_bytes_of(uint32_t variable, uint32_t key_bytes, uint32_t value_bytes)
{
    const uint32_t bytes = open_row_bytes(key_bytes, value_bytes);
    return variable == 0 ? bytes : (bytes + OPEN_ROW_ALIGNMENT - 1) / OPEN_ROW_ALIGNMENT * OPEN_ROW_ALIGNMENT;
}

LOOM_BOTH uint32_t open_row_key_stride(uint32_t variable, uint32_t key_bytes, uint32_t value_bytes, uint32_t apart)
{
    return apart ? key_bytes : open_row_bytes_of(variable, key_bytes, value_bytes);
}

LOOM_BOTH uint32_t open_row_value_stride(uint32_t variable, uint32_t key_bytes, uint32_t value_bytes, uint32_t apart)
{
    return apart ? value_bytes : open_row_bytes_of(variable, key_bytes, value_bytes);
}

/* Bytes of a piece for a string. */
LOOM_BOTH uint64_t open_piece_of(uint64_t length)
{
    return (length + OPEN_PIECE_ALIGNMENT - 1) / OPEN_PIECE_ALIGNMENT * OPEN_PIECE_ALIGNMENT;
}

/* Whether values are read and written by one access, and may be combined. */
LOOM_BOTH int open_row_has_number(const loom__rows_view *view)
{
    return view->value_bytes == 4 || view->value_bytes == 8;
}

/* ---- Places ---- */

/* Where a row lies. In sets `value` is any address. */
typedef struct open_row_place {
    unsigned char *key, *value;
} open_row_place;

/* Row i, counted over the table. */
LOOM_LANE open_row_place open_row_of_number(const loom__rows_view *view, uint64_t i)
{
    open_row_place row;
    row.key = view->rows + i * view->key_stride;
    row.value = view->values + i * view->value_stride;
    return row;
}

LOOM_LANE uint64_t open_row_number(const loom__rows_view *view, uint32_t partition, uint32_t bucket, uint32_t slot)
{
    return (loom__multiply_wide(partition, view->lines.buckets) + bucket) * open_slots(SLOT_TAG) + slot;
}

LOOM_LANE open_row_place open_row(const loom__rows_view *view, uint32_t partition, uint32_t bucket, uint32_t slot)
{
    return open_row_of_number(view, open_row_number(view, partition, bucket, slot));
}

/* Sets the view's members about rows. `variable`: LOOM__VARIABLE_…; `first_value` counts only if values lie apart. */
LOOM_BOTH void open_set_rows(loom__rows_view *view, uint32_t variable, uint32_t key_bytes, uint32_t value_bytes,
                             uint32_t apart, unsigned char *first_key, unsigned char *first_value)
{
    view->variable = variable;
    view->key_bytes = key_bytes;
    view->value_bytes = value_bytes;
    view->apart = apart;
    view->key_stride = open_row_key_stride(variable, key_bytes, value_bytes, apart);
    view->value_stride = open_row_value_stride(variable, key_bytes, value_bytes, apart);
    view->rows = first_key;
    view->values = apart || first_key == NULL ? first_value : first_key + open_row_value_offset(key_bytes, value_bytes);
}

LOOM_BOTH loom__table_slots open_rows_table_slots(const loom__rows_view *view)
{
    loom__table_slots table = open_table_slots(&view->lines);
    table.row_key_bytes = view->key_bytes;
    table.row_value_bytes = view->value_bytes;
    table.rows = view->rows;
    table.row_values = view->values;
    table.row_key_stride = view->key_stride;
    table.row_value_stride = view->value_stride;
    table.row_variable = view->variable;
    table.heap = view->heap;
    return table;
}

/* The reference at an address. References of a batch that a CPU has split lie between values of any width. */
LOOM_LANE loom__string open_string_at(uint64_t address)
{
#if defined(__CUDA_ARCH__)
    return *(const loom__string *)address;
#else
    loom__string string;
    memcpy(&string, (const void *)(uintptr_t)address, sizeof string);
    return string;
#endif
}

/* ---- Hashes ---- */

/* Keys of 4 and 8 bytes have the hash that they have in every table. */
LOOM_LANE uint64_t open_row_hash(const unsigned char *key, uint32_t key_bytes, loom__seed seed)
{
    uint64_t number = 0;
#if defined(__CUDA_ARCH__) /* loads words if it knows that keys are aligned */
    const uint64_t together = (uintptr_t)key | key_bytes;
    if (together % 8 == 0)
        return key_bytes == 8 ? loom__hash_key(*(const uint64_t *)key, 8, seed)
                              : loom__hash_bytes_aligned(key, key_bytes, 8, seed);
    if (together % 4 == 0 && key_bytes > 4 && key_bytes != 8)
        return loom__hash_bytes_aligned(key, key_bytes, 4, seed);
#endif
    if (key_bytes != 4 && key_bytes != 8)
        return loom__hash_bytes(key, key_bytes, seed);
    memcpy(&number, key, key_bytes);
    return loom__hash_key(number, key_bytes, seed);
}

/* The same, for code that hashes at many places or seldom. */
LOOM_LANE_CALL uint64_t open_row_hash_called(const unsigned char *key, uint32_t key_bytes, loom__seed seed)
{
    return open_row_hash(key, key_bytes, seed);
}

/* Partition, home, step and filter bit use all bits of a hash from the top of both halves down. A product with an odd
 * number brings all of them to its own top bits, so a tag is independent of each of the others. */
LOOM_LANE uint32_t open_tag(uint64_t hash)
{
    const uint32_t top = (uint32_t)((hash * 0x9e3779b97f4a7c15u) >> 48);
    return 1 + (top * (uint32_t)OPEN_TAGS >> 16);
}

#endif
