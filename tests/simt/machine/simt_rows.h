/* Calls on a table with rows in the lane simulator. */
#ifndef LOOM_SIMT_ROWS_H
#define LOOM_SIMT_ROWS_H

#include "core/combine.h"
#include "engines/open/open_rows.h"
#include "simt/machine/simt_map.h"

enum {
    SIMT_ROWS_MOST_KEY = 16, /* bytes; no width above 8 has a remainder modulo 4 */
    SIMT_ROWS_MOST_VALUE = 24
};

/* How lookups read values: one lane reads; the lanes of a group read together; or the row is taken first. */
typedef enum simt_rows_lookup { SIMT_ROWS_READ, SIMT_ROWS_READ_TOGETHER, SIMT_ROWS_TAKE } simt_rows_lookup;

/* Items hold the address of their key, or of its loom__string. Values that are strings have 8, 16 or 24 bytes. A value
 * is the item's number, as often as it fits: a value that is a mixture of two shows itself. */
typedef struct simt_rows_call {
    simt_map_op op;
    int shared;              /* OPEN_SHARED, OPEN_UNREAD or OPEN_MIXED (open_ops.h) */
    simt_rows_lookup lookup; /* find */
    uint32_t staged;         /* the lanes of a group store rows together; calls that insert or update */
    loom__combine_rule rule; /* accumulate */
    loom__rows_view view;
    simt_map_item *items;
    uint32_t n, groups; /* groups share out the items */
    int by_slot;        /* erase: the key is located, and then erased by the number of its slot */
    /* [n]: where the lanes of a group put the value of an item */
    uint64_t (*together)[SIMT_ROWS_MOST_VALUE / 8];
    /* upkeep: */
    int order;
    uint64_t *list;       /* not in the simulated memory: lanes read and write it at once */
    uint32_t room, *away; /* of open_upkeep.h */
} simt_rows_call;

/* Bytes of the value with this number. */
uint32_t simt_rows_value_bytes(const loom__rows_view *view, uint64_t number);
void simt_rows_make_value(uint64_t number, uint32_t value_bytes, unsigned char *value);
/* Fails the run if the value is a mixture. */
uint64_t simt_rows_number(const unsigned char *value, uint32_t value_bytes);

/* A kernel; `argument` is a simt_rows_call. With a plant (tests/simt/plants.cmake) it has another name,
 * SIMT_ROWS_KERNEL. */
typedef void simt_rows_kernel(void *argument);
simt_rows_kernel simt_rows_run, simt_rows_upkeep;
#ifdef SIMT_ROWS_KERNEL
simt_rows_kernel SIMT_ROWS_KERNEL;
#endif

#endif
