/* Public structs that begin with struct_size. They grow only at the end, so a caller built with an older header has a
 * prefix of the library's struct. The library works on a struct of its own, which holds the defaults, and reads or
 * writes no more of the caller's struct than struct_size says. */
#ifndef LOOM_API_STRUCT_SIZE_H
#define LOOM_API_STRUCT_SIZE_H

#include <stddef.h>

#include "loom/loom.h"

typedef struct loom__struct {
    const char *name;
    size_t bytes; /* in this version */
    size_t least; /* in the oldest version that is still served */
} loom__struct;

extern const loom__struct loom__struct_context_config, loom__struct_context_info, loom__struct_map_config,
    loom__struct_memory, loom__struct_stats, loom__struct_activity, loom__struct_filter_config,
    loom__struct_filter_report, loom__struct_explanation, loom__struct_limit, loom__struct_durable_config,
    loom__struct_durability, loom__struct_durable_report;

/* INVALID_ARGUMENT if the caller's struct_size is below `least` or above `bytes`. Reads only struct_size. */
loom_status loom__struct_check(const loom__struct *kind, const void *given);

/* Checks an input struct, then copies the fields that the caller has over those of `own`. `own` keeps its
 * struct_size. */
loom_status loom__struct_in(const loom__struct *kind, void *own, const void *given);

/* Copies the fields that the caller has from `own` to a checked output struct. `given` keeps its struct_size. */
void loom__struct_out(void *given, const void *own);

#endif
