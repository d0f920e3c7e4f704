/* Every slot of a table of any engine: where it lies and what it holds. For code that reads or writes whole tables. */
#ifndef LOOM_CORE_TABLE_SLOTS_H
#define LOOM_CORE_TABLE_SLOTS_H

#include "core/slot_kind.h"

#include <string.h>

typedef struct loom__table_slots {
    unsigned char *base; /* start of partition 0 */
    uint64_t partition_bytes;
    uint32_t partitions;
    uint32_t buckets; /* per partition */
    uint32_t slots;   /* per bucket */
    loom__slot_kind kind;
    uint64_t line_offset, line_stride;   /* from a partition's start to bucket 0's line, and from line to line */
    uint64_t value_offset, value_stride; /* the same for values apart from keys */
    /* Slots may have rows outside the line. A row holds a key, a value, or both, of any width. If the row holds the
     * key, the line holds a number that only says whether there is a key. With rows, slot_value_bytes of `kind` is 0.
     * Rows are numbered over the table. */
    uint32_t row_key_bytes, row_value_bytes;   /* 0: not in the row; both 0: no rows */
    unsigned char *rows, *row_values;          /* key and value of row 0 */
    uint32_t row_key_stride, row_value_stride; /* from key to key, and from value to value */
    uint32_t row_variable; /* LOOM__VARIABLE_…: the row refers to strings in the heap (engines/open/open_rows.h) */
    /* Multimaps: a slot's value is a handle (core/list_handle.h) of a list of such values in the heap; 0: it is not. */
    uint32_t list_value_bytes;
    const unsigned char *heap;
    uint64_t empty[2]; /* key pattern of an empty slot: [1] in partition `exception`, else [0] */
    uint32_t exception;
} loom__table_slots;

LOOM_BOTH int loom__slots_have_rows(const loom__table_slots *table)
{
    return (table->row_key_bytes | table->row_value_bytes) != 0;
}

/* Bytes of a key and of a value, as `retrieve` returns them. */
LOOM_BOTH uint32_t loom__slots_key_bytes(const loom__table_slots *table)
{
    return table->row_key_bytes != 0 ? table->row_key_bytes : slot_key_bytes(table->kind);
}

LOOM_BOTH uint32_t loom__slots_value_bytes(const loom__table_slots *table)
{
    return table->row_value_bytes != 0 ? table->row_value_bytes : slot_value_bytes(table->kind);
}

/* Multimaps: whether rows hold keys with their handles. */
LOOM_BOTH int loom__slots_have_handles_in_rows(const loom__table_slots *table)
{
    return table->list_value_bytes != 0 && table->row_key_bytes != 0;
}

/* The number of a slot's row. */
LOOM_BOTH uint64_t loom__slot_row(const loom__table_slots *table, uint32_t partition, uint32_t bucket, uint32_t slot)
{
    return ((uint64_t)partition * table->buckets + bucket) * table->slots + slot;
}

LOOM_BOTH unsigned char *loom__slot_row_key(const loom__table_slots *table, uint32_t partition, uint32_t bucket,
                                            uint32_t slot)
{
    return table->rows + loom__slot_row(table, partition, bucket, slot) * table->row_key_stride;
}

/* Loads a key, a tag or a value. It is aligned to its width; a GPU must know the alignment to load it in one access. */
LOOM_BOTH uint64_t loom__slot_number(const unsigned char *at, uint32_t bytes)
{
    uint64_t number = 0;
    if (bytes == 2)
        memcpy(&number, __builtin_assume_aligned(at, 2), 2);
    else if (bytes == 4)
        memcpy(&number, __builtin_assume_aligned(at, 4), 4);
    else if (bytes == 8)
        memcpy(&number, __builtin_assume_aligned(at, 8), 8);
    return number;
}

/* Where a slot's key lies, and its value. A slot of a set has no value. */
LOOM_BOTH unsigned char *loom__slot_key_at(const loom__table_slots *table, uint32_t partition, uint32_t bucket,
                                           uint32_t slot)
{
    return table->base + partition * table->partition_bytes + table->line_offset + bucket * table->line_stride +
           slot * slot_stride(table->kind);
}

LOOM_BOTH unsigned char *loom__slot_value_at(const loom__table_slots *table, uint32_t partition, uint32_t bucket,
                                             uint32_t slot)
{
    if (loom__slots_have_handles_in_rows(table))
        return table->row_values + loom__slot_row(table, partition, bucket, slot) * table->row_value_stride;
    if (!slot_values_apart(table->kind))
        return loom__slot_key_at(table, partition, bucket, slot) + slot_key_bytes(table->kind);
    return table->base + partition * table->partition_bytes + table->value_offset + bucket * table->value_stride +
           slot * slot_value_bytes(table->kind);
}

/* The key pattern of a partition's empty slots. */
LOOM_BOTH uint64_t loom__slots_empty(const loom__table_slots *table, uint32_t partition)
{
    return partition == table->exception ? table->empty[1] : table->empty[0];
}

/* Whether a slot holds a key. If so, sets *key and *value. Where rows hold keys, *key is the tag. *value is 0 in sets
 * and of rows, except that rows with handles give the handle. */
LOOM_BOTH int loom__slot_holds(const loom__table_slots *table, uint32_t partition, uint32_t bucket, uint32_t slot,
                               uint64_t *key, uint64_t *value)
{
    *value = 0;
    *key = loom__slot_number(loom__slot_key_at(table, partition, bucket, slot), slot_key_bytes(table->kind));
    if (*key == loom__slots_empty(table, partition))
        return 0;
    const uint32_t value_bytes =
        loom__slots_have_handles_in_rows(table) ? table->row_value_bytes : slot_value_bytes(table->kind);
    *value = loom__slot_number(loom__slot_value_at(table, partition, bucket, slot), value_bytes);
    return 1;
}

/* Stores a key or a value; the counterpart of loom__slot_number. */
LOOM_BOTH void loom__slot_put(unsigned char *at, uint32_t bytes, uint64_t number)
{
    const uint32_t narrow = (uint32_t)number;
    if (bytes == 4)
        memcpy(__builtin_assume_aligned(at, 4), &narrow, 4);
    else if (bytes == 8)
        memcpy(__builtin_assume_aligned(at, 8), &number, 8);
}

/* Makes a slot without a row empty: the empty key, and a value of zero. */
LOOM_BOTH void loom__slot_empty_out(const loom__table_slots *table, uint32_t partition, uint32_t bucket, uint32_t slot)
{
    loom__slot_put(loom__slot_key_at(table, partition, bucket, slot), slot_key_bytes(table->kind),
                   loom__slots_empty(table, partition));
    loom__slot_put(loom__slot_value_at(table, partition, bucket, slot), slot_value_bytes(table->kind), 0);
}

#endif
