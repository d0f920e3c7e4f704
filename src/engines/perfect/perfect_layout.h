/* The bytes of a perfect table, in memory and in files. Nothing here allocates, loops over data or calls the system.
 *
 * A table has two regions. The first is an array of partitions. A partition holds lines and, in some slot kinds,
 * rows of values. The second region holds the words of codes of all partitions, one partition after the other.
 *
 *   partition   8 * subrange + 1 buckets: eight *subranges* of `subrange` buckets each, and the *stash*
 *     line, PAIR_4_4   | key value | … 8 pairs of 8 bytes … |
 *     line, KEY_4_*    | key | … 16 keys of 4 bytes …        |
 *     line, KEY_8_*    | key | … 8 keys of 8 bytes …         |
 *     values      KEY_4_VALUE_8: 16 values behind each line (192 bytes a bucket); KEY_8_VALUE_8: 8 behind each line
 *                 (128); KEY_8_VALUE_4: rows of 8 behind all lines (64 + 32, the whole rounded up to 64)
 *   word        bits 0..59: the codes of 15 cells, 4 bits each, the first one lowest; bits 60..63: the partition's
 *               *salt*, the same in all of its words, so that one load gives both code and salt
 *   code        15: the cell's keys lie in the stash, the last bucket. While keys are inserted, 15 can also mean that
 *               a lane group works on the cell (perfect_recode.h). In other codes bit 3 is the mapping Φ, and bits
 *               0..2 are the offset Δ
 *
 * Codes lie together, apart from the lines, so that a GPU finds them in its L2 cache and their pages in its TLB. Trial
 * kernels on an H200, with 10^8 keys at load 0.9, ran at 37.5 G lookups a second. With each partition's codes at the
 * beginning of the partition they ran at 28.1.
 *
 * The upper half of a key's hash chooses the partition. The lower half chooses the cell: a word, then one of the word's
 * 15 cells. The bits left over and the salt give two rotations of 0..7, one for each Φ (perfect_rotation). With the
 * code of its cell the key lies in subrange (rotation[Φ] + Δ) mod 8, in the bucket that cell, Φ, subrange and salt hash
 * to. So, outside the stash, keys of a cell with equal rotations share a bucket, and keys with different rotations
 * never do. A new Δ moves all keys of a cell on by the same number of subranges.
 *
 * A free slot holds the partition's empty key, and a value whose bytes are all zero. The empty key of a partition
 * hashes to another partition. So every key is legal, and a table has at least two partitions. */
#ifndef LOOM_PERFECT_LAYOUT_H
#define LOOM_PERFECT_LAYOUT_H

#include "core/hash.h"
#include "core/slot_kind.h"
#include "core/table_slots.h"
#include "core/totals.h"
#include "loom/loom.h"

enum {
    PERFECT_LAYOUT_VERSION = 1, /* version of the layouts in this header; part of the file format */
    PERFECT_LINE_BYTES = 64,
    PERFECT_SUBRANGES = 8,
    PERFECT_CELLS_PER_WORD = 15,
    PERFECT_CODES = 15, /* codes that place a cell in the subranges */
    PERFECT_STASHED = 15,
    PERFECT_SALTS = 16,
    PERFECT_LEAST_PARTITIONS = 2,
    PERFECT_MOST_SUBRANGE = 437, /* 3497 buckets, 224 KB of lines: the shared memory of one Hopper SM */
    PERFECT_MOST_BYTES = 3497 * PERFECT_LINE_BYTES, /* of a partition with values outside the lines: fits there, too */
    PERFECT_PREFERRED_SUBRANGE = 216,               /* 1729 buckets, 111 KB: two per SM */
    PERFECT_MOST_WORDS = 1 << 16,
    PERFECT_MOST_PARTITIONS = 1 << 28
};

LOOM_BOTH uint32_t perfect_slots(loom__slot_kind kind)
{
    return PERFECT_LINE_BYTES / slot_stride(kind);
}

LOOM_BOTH uint32_t perfect_buckets(uint32_t subrange)
{
    return PERFECT_SUBRANGES * subrange + 1;
}

LOOM_BOTH uint32_t perfect_line_stride(loom__slot_kind kind)
{
    return kind == SLOT_KEY_4_VALUE_8 ? 192 : kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

LOOM_BOTH uint32_t perfect_value_stride(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_4 ? 32 : perfect_line_stride(kind);
}

/* Bytes from the start of bucket 0 to its row of values, for kinds whose values lie outside the line. */
LOOM_BOTH uint32_t perfect_value_offset(loom__slot_kind kind, uint32_t buckets)
{
    return (kind == SLOT_KEY_8_VALUE_4 ? buckets : 1) * PERFECT_LINE_BYTES;
}

LOOM_BOTH uint64_t perfect_partition_bytes(loom__slot_kind kind, uint32_t subrange)
{
    uint64_t buckets = perfect_buckets(subrange), bytes = buckets * perfect_line_stride(kind);
    if (kind == SLOT_KEY_8_VALUE_4)
        bytes += buckets * perfect_value_stride(kind);
    return (bytes + PERFECT_LINE_BYTES - 1) / PERFECT_LINE_BYTES * PERFECT_LINE_BYTES;
}

/* The mark of a partition. Marks are not in files. */
typedef enum loom__perfect_mark {
    PERFECT_UNMARKED = 0,
    PERFECT_EXHAUSTED = 1, /* a search for room has failed, and nothing was erased since */
    /* Reseeding might help, but there is no memory for it. A machine that sets this mark removes it when its call ends.
     * Until then no key of the partition moves, so a refused key stays refused. */
    PERFECT_SHORT_OF_MEMORY = 2
} loom__perfect_mark;

/* The view struct that the algorithms get: plain numbers and pointers, passed by value, with the same fields on every
 * machine. */
typedef struct loom__perfect_view {
    unsigned char *base;      /* partition 0; aligned to a line */
    uint32_t partition_bytes; /* from one partition to the next */
    uint32_t partitions;
    uint32_t subrange; /* buckets in each of the eight subranges */
    uint32_t words;    /* words of codes in a partition */
    uint32_t made_for; /* keys that a partition should hold, as perfect_shape.c computes */
    uint32_t kind;     /* loom__slot_kind */
    loom__seed seed;
    uint64_t empty[2];        /* empty keys: [1] in partition empty_exception, [0] in all others */
    uint32_t empty_exception; /* the partition that empty[0] hashes to */
    uint64_t *codes;          /* [partitions][words] */
    loom__totals *totals;     /* at the beginning of the state */
    uint32_t *marks;          /* [partitions], behind the totals: a loom__perfect_mark and more (perfect_effort.h) */
} loom__perfect_view;

LOOM_LANE uint64_t perfect_empty(const loom__perfect_view *view, uint32_t partition)
{
    /* A computed index would put the struct into local memory on a GPU. */
    return partition == view->empty_exception ? view->empty[1] : view->empty[0];
}

LOOM_BOTH loom__table_slots perfect_table_slots(const loom__perfect_view *view)
{
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    loom__table_slots table;
    table.base = view->base;
    table.partition_bytes = view->partition_bytes;
    table.partitions = view->partitions;
    table.buckets = perfect_buckets(view->subrange);
    table.slots = perfect_slots(kind);
    table.kind = kind;
    table.line_offset = 0;
    table.line_stride = perfect_line_stride(kind);
    table.value_offset = perfect_value_offset(kind, table.buckets);
    table.value_stride = perfect_value_stride(kind);
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

/* ---- Where keys lie ---- */

/* The part of a key's position that does not depend on codes. */
typedef struct perfect_place {
    uint32_t word;      /* one of the partition's words */
    uint32_t which;     /* one of the word's cells */
    uint32_t remainder; /* hash bits that neither word nor cell used */
} perfect_place;

LOOM_LANE perfect_place perfect_place_of(uint32_t lower, uint32_t words)
{
    perfect_place place;
    uint32_t left = lower * words;
    place.word = loom__multiply_high(lower, words);
    place.which = loom__multiply_high(left, PERFECT_CELLS_PER_WORD);
    place.remainder = left * PERFECT_CELLS_PER_WORD;
    return place;
}

/* The number of a cell in its partition. One in sixteen numbers is unused. */
LOOM_LANE uint32_t perfect_cell(perfect_place place)
{
    return place.word << 4 | place.which;
}

LOOM_LANE uint32_t perfect_code(uint64_t word, uint32_t which)
{
    return (uint32_t)(word >> (4 * which)) & 15;
}

LOOM_LANE uint32_t perfect_salt(uint64_t word)
{
    return (uint32_t)(word >> 60);
}

/* 0 .. 7 */
LOOM_LANE uint32_t perfect_rotation(uint32_t remainder, uint32_t salt, uint32_t mapping)
{
    uint32_t spread = (remainder ^ salt * 0x9e3779b9u) * 0x85ebca6bu; /* ^, since + would rotate all keys alike */
    return mapping ? spread >> 26 & 7 : spread >> 29;
}

/* The bucket of a cell in subrange `number`. */
LOOM_LANE uint32_t perfect_bucket_in(uint32_t cell, uint32_t salt, uint32_t mapping, uint32_t number, uint32_t subrange)
{
    uint32_t x = (cell << 8 | salt << 4 | mapping << 3 | number) * 0x9e3779b1u;
    x = (x ^ x >> 15) * 0x85ebca77u;
    return number * subrange + loom__multiply_high(x, subrange);
}

LOOM_STATIC_ASSERT((PERFECT_MOST_WORDS << 4) <= 1 << 24, "the number of a cell has room above eight bits");

/* The only bucket in which the key can lie. */
LOOM_LANE uint32_t perfect_bucket(perfect_place place, uint32_t code, uint32_t salt, uint32_t subrange)
{
    uint32_t mapping = code >> 3,
             number = (perfect_rotation(place.remainder, salt, mapping) + code) % PERFECT_SUBRANGES;
    uint32_t bucket = perfect_bucket_in(perfect_cell(place), salt, mapping, number, subrange);
    return code == PERFECT_STASHED ? PERFECT_SUBRANGES * subrange : bucket;
}

/* ---- Shape: chosen once, when a table is made (perfect_shape.c) ---- */

typedef struct loom__perfect_shape {
    loom__slot_kind kind;
    uint32_t partitions;
    uint32_t subrange;
    uint32_t words;
    uint64_t table_bytes; /* partitions and codes */
    uint64_t slots;
} loom__perfect_shape;

/* Chooses a shape for the config, whose defaults are filled in. `cache_bytes` is the size of the machine's cache.
 * Returns INVALID_ARGUMENT, with an error message, if no shape fits the config. */
loom_status loom__perfect_choose_shape(const loom_map_config *config, uint64_t cache_bytes, loom__perfect_shape *shape);

/* The average number of keys per cell, in a table at this load. */
double loom__perfect_keys_per_cell(const loom__perfect_shape *shape, double load);

/* A view struct whose pointers to memory are not set yet. Its hash seed and empty keys follow from `seed` and the
 * shape. */
loom__perfect_view loom__perfect_view_make(const loom__perfect_shape *shape, uint64_t seed);

#endif
