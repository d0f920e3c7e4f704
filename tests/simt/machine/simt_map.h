/* Requests and answers of calls on tables in the lane simulator; the same for every engine. */
#ifndef LOOM_SIMT_MAP_H
#define LOOM_SIMT_MAP_H

#include "loom/loom.h"

typedef enum simt_map_op {
    SIMT_MAP_FIND,
    SIMT_MAP_KEEP,
    SIMT_MAP_OVERWRITE,
    SIMT_MAP_FETCH,   /* find or insert */
    SIMT_MAP_COMBINE, /* accumulate */
    SIMT_MAP_UPDATE,
    SIMT_MAP_ERASE,
    SIMT_MAP_ERASE_IF, /* one lane reads all slots of the key's partition, and erases the key where it finds it */
    SIMT_MAP_UPKEEP,   /* has no items; each lane is a group, and all of them one block */
    SIMT_MAP_ROOM,     /* insertions, one after the other, by a block that makes room where there is none */
    SIMT_MAP_RECODE,   /* insertions, by groups beside each other, which give other codes to cells */
    SIMT_MAP_REPAIR,   /* insertions, all at once, by a block, which plans codes for all of them */
    SIMT_MAP_RESERVE,  /* a place in a list, whose handle is the value; absent keys get the item's value */
    SIMT_MAP_APPEND,   /* multimaps of the chain engine: a value to a list */
    SIMT_MAP_COUNT,    /* the same: how many values */
    SIMT_MAP_FIND_ALL  /* the same: all values */
} simt_map_op;

typedef struct simt_map_item {
    uint64_t key, value;
    uint64_t found;     /* find, find or insert, reserve, erase_if: the value in the answer; append: its number in the
                           list; count, find_all, erase of a multimap: how many values */
    loom_status status; /* LOOM_INTERNAL until the item is done */
} simt_map_item;

#endif
