/* The bytes of an open table, in memory and in files. Nothing here allocates, loops over data or calls the system.
 *
 * A table is an array of partitions. A partition is one piece of memory that is built, saved, moved and checked as a
 * whole. It holds a prime number of buckets. A bucket is a *line* of 64 bytes. KEY_8_VALUE_8: the line has keys, and a
 * row of values follows it. Each number is the place of what follows, in bytes from the start of the bucket:
 *
 *   PAIR_4_4        0 | 7 pairs of 4 + 4 bytes                           | 56 word of 8 bytes |
 *   KEY_4           0 | 14 keys                                          | 56 word of 8 bytes |
 *   KEY_8           0 | 7 keys                                           | 56 word of 8 bytes |
 *   KEY_8_VALUE_8   0 | 7 keys                                           | 56 word of 8 bytes | 64 | 7 values | 120
 *   KEY_4_VALUE_8   0 | 5 keys | 20 word of 4 bytes | 24 | 5 values                          |
 *   KEY_8_VALUE_4   0 | 5 keys                      | 40 | 5 values | 60 word of 4 bytes     |
 *
 *   word, PAIR_4_4, KEY_4, KEY_8   filter bits
 *   word, KEY_*_VALUE_*            from bit 0: one ready bit for each slot; the rest filter bits
 *
 * So all kinds but one read a single line for a hit. Buckets of 128 bytes would hold 10 pairs of 12 bytes instead of 5
 * in 64, and fewer keys would leave home, but a random read of 128 bytes costs a GPU 1.24 times one of 64. Buckets read
 * for a hit, simulated, for load factors 0.8, 0.9 and 0.95:
 *                                                         5 in 64 bytes         10 in 128 bytes      times 1.24
 *     hit                                                 1.18, 1.35, 1.53      1.08, 1.18, 1.29     1.34, 1.46, 1.60
 *     miss, with 27 and 54 filter bits                    1.03, 1.06, 1.10      1.01, 1.03, 1.05
 * Measured on an H200 with 2^25 keys at load 0.8, G/s: hits 29.6, inserts 11.2, misses 34. With 14 or 7 keys in a line
 * and the values behind it, two random reads for a hit, they were 17.5, 6.7 and 35.7.
 * Three pairs of 8 + 8 bytes would fit 64 bytes: too few. Their values follow the line instead, so a hit reads two
 * adjacent lines: one DRAM row, one page.
 *
 * Two more kinds have tags in their lines, and keys and values in rows: SLOT_TAG, and SLOT_STRING, whose rows refer to
 * strings in a heap: open_rows.h.
 *
 * A free slot holds the partition's *empty* key and a value whose bytes are all zero. The empty key hashes to another
 * partition, so no lookup or insertion in this partition can involve it, and every key is legal. One pattern is the
 * empty key of all partitions except the one that the pattern hashes to. That partition uses a second pattern. Hence a
 * table has at least two partitions. The *retired* key is chosen in the same way. It stands in slots that were freed
 * while insertions and erasures ran at the same time (open_ops.h). Between calls and in files no slot holds the retired
 * key. Lines of tags need no such keys: no key has the tags of free and retired slots.
 */
#ifndef LOOM_OPEN_LAYOUT_H
#define LOOM_OPEN_LAYOUT_H

#include "core/hash.h"
#include "core/slot_kind.h"
#include "core/table_slots.h"
#include "core/totals.h"
#include "loom/loom.h"

enum {
    OPEN_LAYOUT_VERSION = 1, /* of everything in this file; part of the file format */
    OPEN_NARROW_VERSION = 2, /* the same for kinds with a narrow word. Version 1 had their values outside the line */
    OPEN_LINE_BYTES = 64,
    OPEN_WORD_OFFSET = 56, /* of a word of 8 bytes */
    OPEN_LEAST_PARTITIONS = 2,
    OPEN_MOST_BUCKETS = 3499,                              /* 224 KB of lines: the shared memory of one Hopper SM */
    OPEN_MOST_BYTES = OPEN_MOST_BUCKETS * OPEN_LINE_BYTES, /* of a partition, if open_shape.c chooses its size */
    OPEN_PREFERRED_BUCKETS = 1747,                         /* 112 KB: two fit an SM, eight a server core's L2 cache */
    OPEN_WANTED_PARTITIONS = 256,                          /* open_shape.c makes partitions smaller to get this many */
    OPEN_LEAST_WANTED = 251,                               /* partitions made smaller keep at least this many buckets */
    OPEN_FEW_BUCKETS = 8192,                               /* a table of fewer buckets keeps large partitions */
    OPEN_EAGER_SHARE = 64,  /* a refused key leaves its filter bit in about one of this many buckets of its partition */
    OPEN_NEAR_DEPTH = 4,    /* down to this depth a key may be visible before its filter bits; open_ops.h */
    OPEN_STALE_SHARE = 100, /* upkeep runs when the stale count passes one per this many filter bits; open_upkeep.h */
    OPEN_WEAR_SAMPLE = 8,   /* one freed slot in this many is counted, with this weight */
    OPEN_ADDED_COPIES = 32,
    OPEN_MOST_PARTITIONS = 1 << 28 /* at least 16 hash values each; open_shape.c allows for uneven filling */
};

/* Whether the line also holds the values, apart from the keys. Its word then has 4 bytes instead of 8. */
LOOM_BOTH int open_has_narrow_word(loom__slot_kind kind)
{
    return kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_4;
}

LOOM_BOTH uint32_t open_slots(loom__slot_kind kind)
{
    if (slot_has_tag(kind))
        return 28;
    return open_has_narrow_word(kind) ? 5 : kind == SLOT_KEY_4 ? 14 : 7;
}

/* Where the word lies in the line. */
LOOM_BOTH uint32_t open_word_offset(loom__slot_kind kind)
{
    return kind == SLOT_KEY_4_VALUE_8 ? 20 : kind == SLOT_KEY_8_VALUE_4 ? 60 : OPEN_WORD_OFFSET;
}

/* Bits of the word that say "this slot's value is complete". */
LOOM_BOTH uint32_t open_ready_bits(loom__slot_kind kind)
{
    return slot_values_apart(kind) ? open_slots(kind) : 0;
}

LOOM_BOTH uint32_t open_filter_bits(loom__slot_kind kind)
{
    return (open_has_narrow_word(kind) ? 32 : 64) - open_ready_bits(kind);
}

/* Bytes from one line to the next. */
LOOM_BOTH uint32_t open_line_stride(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

/* Bytes from a line to its first value, where values lie apart from keys. */
LOOM_BOTH uint32_t open_value_offset(loom__slot_kind kind)
{
    return kind == SLOT_KEY_4_VALUE_8 ? 24 : kind == SLOT_KEY_8_VALUE_4 ? 40 : OPEN_LINE_BYTES;
}

LOOM_BOTH uint64_t open_partition_bytes(loom__slot_kind kind, uint32_t buckets)
{
    return (uint64_t)buckets * open_line_stride(kind);
}

LOOM_STATIC_ASSERT(7 * 8 == OPEN_WORD_OFFSET && 14 * 4 == OPEN_WORD_OFFSET && 28 * 2 == OPEN_WORD_OFFSET,
                   "slots fill a line up to its word");
LOOM_STATIC_ASSERT(5 * 4 + 4 == 24 && 24 + 5 * 8 == OPEN_LINE_BYTES && 5 * 8 == 40 && 40 + 5 * 4 == 60,
                   "five keys, five values of 8 or 4 bytes and a word of 4 fill a line");
LOOM_STATIC_ASSERT(OPEN_WORD_OFFSET + 8 == OPEN_LINE_BYTES, "the word ends the line");

/* How many keys users' kernels have added to the table. Each set of counters has a cache line of its own, so that
 * kernels do not contend for one address. */
typedef struct loom__open_added {
    uint64_t keys;    /* modulo 2^64: erased keys count negative */
    uint64_t pairs;   /* directories of multimaps: values of lists, */
    uint64_t in_heap; /*   and those of them that lie in the heap */
    uint64_t unused[5];
} loom__open_added;

LOOM_STATIC_ASSERT(sizeof(loom__open_added) == OPEN_LINE_BYTES, "a line each");

/* What insertions tell each other about a partition. Marks are not in files. */
typedef enum loom__open_mark {
    OPEN_UNMARKED = 0,
    OPEN_FULL = 1,   /* no free slot */
    OPEN_CROWDED = 2 /* an insertion passed view->eager_depth without a free slot; a hint */
} loom__open_mark;

/* The engine's view struct: the table as the algorithms see it. It holds plain numbers, is passed by value, and is the
 * same on every machine. */
typedef struct loom__open_view {
    unsigned char *base;      /* partition 0; aligned to a line */
    uint32_t partition_bytes; /* from one partition to the next */
    uint32_t partitions;
    uint32_t buckets; /* in a partition; prime */
    loom__seed seed;
    uint64_t empty[2];        /* empty[0] everywhere except in partition empty_exception, which has empty[1] */
    uint64_t retired[2];      /* likewise, with retired_exception */
    uint32_t empty_exception; /* the partition that empty[0] hashes to */
    uint32_t retired_exception;
    uint32_t kind;             /* loom__slot_kind */
    uint32_t eager_depth;      /* down to this depth insertions set filter bits as they advance; open_ops.h */
    uint32_t concurrent_reads; /* lookups may run beside writers */
    loom__totals *totals;      /* behind the last partition */
    loom__open_added *added;   /* [OPEN_ADDED_COPIES], behind the totals; zero unless a device view is in use */
    uint32_t *marks;           /* [partitions], behind `added`: loom__open_mark */
    uint32_t *stale;           /* [partitions], behind the marks: stale counts; open_upkeep.h */
    uint32_t *retired_slots;   /* [partitions], behind `stale`: slots with the retired key; zero without device views */
} loom__open_view;

/* OPEN_NEAR_DEPTH, or less in small partitions. */
LOOM_LANE uint32_t open_near_depth(const loom__open_view *view)
{
    return view->eager_depth < OPEN_NEAR_DEPTH ? view->eager_depth : OPEN_NEAR_DEPTH;
}

LOOM_LANE uint64_t open_empty(const loom__open_view *view, uint32_t partition)
{
    /* A computed index would put the struct into local memory on a GPU. */
    return partition == view->empty_exception ? view->empty[1] : view->empty[0];
}

LOOM_LANE uint64_t open_retired(const loom__open_view *view, uint32_t partition)
{
    return partition == view->retired_exception ? view->retired[1] : view->retired[0];
}

/* The largest stale count that needs no upkeep. */
LOOM_BOTH uint32_t open_most_stale(const loom__open_view *view)
{
    return view->buckets * open_filter_bits((loom__slot_kind)view->kind) / OPEN_STALE_SHARE;
}

LOOM_LANE int open_is_worn(const loom__open_view *view, uint32_t stale)
{
    return stale > open_most_stale(view);
}

LOOM_BOTH loom__table_slots open_table_slots(const loom__open_view *view)
{
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    loom__table_slots table;
    table.base = view->base;
    table.partition_bytes = view->partition_bytes;
    table.partitions = view->partitions;
    table.buckets = view->buckets;
    table.slots = open_slots(kind);
    table.kind = kind;
    table.line_offset = 0;
    table.line_stride = open_line_stride(kind);
    table.value_offset = open_value_offset(kind);
    table.value_stride = open_line_stride(kind);
    table.row_key_bytes = table.row_value_bytes = table.row_key_stride = table.row_value_stride = 0;
    table.row_variable = 0;
    table.rows = table.row_values = NULL;
    table.list_value_bytes = 0;
    table.heap = NULL;
    table.empty[0] = view->empty[0];
    table.empty[1] = view->empty[1];
    table.exception = view->empty_exception;
    return table;
}

/* ---- Shape: chosen once, when a table is made (open_shape.c) ---- */

typedef struct loom__open_shape {
    loom__slot_kind kind;
    uint32_t partitions;
    uint32_t buckets;
} loom__open_shape;

int loom__open_is_prime(uint32_t number);

/* Makes a view struct whose pointers are NULL. Its seed, empty and retired patterns follow from `seed` and the
 * shape. */
loom__open_view loom__open_view_make(const loom__open_shape *shape, uint64_t seed);

#endif
