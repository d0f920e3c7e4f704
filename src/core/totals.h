/* Numbers that change with a table's contents. The kernels that change the contents count them. They lie in table
 * memory, so every machine keeps them in stream order. */
#ifndef LOOM_CORE_TOTALS_H
#define LOOM_CORE_TOTALS_H

#include "core/portable.h"

typedef struct loom__totals {
    uint64_t size;
    uint64_t generation; /* device views of the table carry the same number */
    uint64_t stashed;    /* perfect tables: how often a cell went to a stash; only reset_totals resets it */
    uint64_t reserved[5];
} loom__totals;

LOOM_STATIC_ASSERT(sizeof(loom__totals) == 64, "totals fill a line");

#endif
