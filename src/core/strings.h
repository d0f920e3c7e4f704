/* Byte strings, as the API, the core and the machines pass them. A batch of strings is an array of references, one for
 * each row. Everything that selects, takes, puts and splits rows handles references as rows of 16 bytes. */
#ifndef LOOM_CORE_STRINGS_H
#define LOOM_CORE_STRINGS_H

#include "core/portable.h"
#include "loom/base.h"

/* A string in memory that nobody writes: the caller's, or the heap of a table. */
typedef struct loom__string {
    uint64_t at; /* address; any if the length is 0 */
    uint64_t length;
} loom__string;

/* What a machine tells of the strings of a batch. */
typedef struct loom__strings_told {
    uint64_t bytes;      /* what a heap needs for those that are not too long */
    uint64_t falling;    /* the least number of a string that ends before it begins; UINT64_MAX: none */
    uint64_t begin, end; /* the first offset, and the last */
} loom__strings_told;

/* What a machine tells of strings that it has placed one behind the other. */
typedef struct loom__places_told {
    uint64_t end;     /* of the last string */
    uint64_t fitting; /* how many of the first strings end at or before the caller's room */
} loom__places_told;

/* Which columns of a table are strings. */
enum { LOOM__VARIABLE_KEYS = 1, LOOM__VARIABLE_VALUES = 2 };

LOOM_STATIC_ASSERT(sizeof(loom__string) == 16, "a row of 16 bytes");

LOOM_BOTH uint32_t loom__variable_columns(uint32_t key_bytes, uint32_t value_bytes)
{
    return (key_bytes == LOOM_VARIABLE ? (uint32_t)LOOM__VARIABLE_KEYS : 0) |
           (value_bytes == LOOM_VARIABLE ? (uint32_t)LOOM__VARIABLE_VALUES : 0);
}

/* Bytes of a column that are brought to the machine at once, unless a single string has more: larger batches go in
 * parts. They go to room of such a size. */
#define LOOM__BROUGHT_AT_ONCE ((uint64_t)1 << 30)

LOOM_BOTH uint64_t loom__string_room(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The room for strings of so many bytes in so many columns, at most. */
LOOM_BOTH uint64_t loom__brought_bytes(uint64_t bytes, uint64_t columns)
{
    const uint64_t most = columns * LOOM__BROUGHT_AT_ONCE;
    return loom__string_room(bytes < most ? bytes : most) + columns * 64;
}

/* Bytes of a row of a batch, given the width of a config or a file. */
LOOM_BOTH uint32_t loom__row_width(uint32_t bytes)
{
    return bytes == LOOM_VARIABLE ? (uint32_t)sizeof(loom__string) : bytes;
}

#endif
