/* What changes with a table's contents and is counted by the kernels that change them. It lies in table memory, so that every
 * machine keeps it in stream order. */
#ifndef LOOM_CORE_TOTALS_H
#define LOOM_CORE_TOTALS_H

#include "core/portable.h"

typedef struct loom__totals {
    uint64_t size;
    uint64_t generation; /* views of the table carry the same number */
    uint64_t reserved[6];
} loom__totals;

LOOM_STATIC_ASSERT(sizeof(loom__totals) == 64, "totals fill a line");

#endif
