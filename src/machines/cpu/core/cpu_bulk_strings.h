/* Splitting a batch whose keys are strings (core/split.h): what cpu_bulk.c does for other keys. */
#ifndef LOOM_CPU_BULK_STRINGS_H
#define LOOM_CPU_BULK_STRINGS_H

#include "core/hash.h"
#include "core/split.h"
#include "machines/cpu/core/cpu_pool.h"

/* The strings of a batch. */
typedef struct loom__cpu_strings {
    uint32_t variable;                         /* columns that are strings: LOOM__VARIABLE_*; 0: none */
    uint64_t most_key_bytes, most_value_bytes; /* longer strings will be refused */
    uint64_t bytes;                            /* what copies of the others take at most; 0: no copies are wanted */
    uint64_t *fill;        /* [chunks][bins]: bytes counted, then the position of the chunk's next copy */
    unsigned char *copies; /* NULL: there are none; records refer to the caller's strings */
} loom__cpu_strings;

/* Lays out `fill` and the copies in `memory`, a multiple of a line, and returns how many bytes they take: a multiple of
 * a line. If `memory` is NULL, only returns the bytes. 0: no copies are wanted. */
uint64_t loom__cpu_lay_out_copies(const loom__split *split, loom__cpu_strings *strings, unsigned char *memory);

/* All steps of the split, on all threads. split->keys are references, and split->hashes has memory. */
void loom__cpu_split_strings(loom__pool *pool, const loom__split *split, const loom__cpu_strings *strings,
                             uint32_t value_bytes, loom__seed seed);

#endif
