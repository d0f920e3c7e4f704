/* Device views: the host lends a table or a filter to your own kernels. loom/device.cuh has the
 * functions that kernels call, and says what each view offers.
 *
 *   loom_map_view view;
 *   loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(view, ...);
 *   loom_map_view_end(map, &view, stream);
 *
 * Between begin and end a view is *lent*. A lent view counts as a call in flight that does not
 * end:
 *   - A call that may not overlap with the view's access (the table in map.h) returns IN_USE. Calls
 *     that may overlap go on.
 *   - Up to 16 views of the same access may be lent at once.
 *   - The table does not move. reserve and shrink return IN_USE, and calls that insert refuse keys
 *     instead of growing the table, as kernels do.
 *
 * Tables of the open engine lend every access. Perfect tables lend LOOM_VIEW_FIND only: a new key
 * may move others, and only bulk calls can do that. Filters lend one access: insert and contains,
 * in any kernels at the same time. */
#ifndef LOOM_LOOM_VIEW_H
#define LOOM_LOOM_VIEW_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum loom_view_access {
    LOOM_VIEW_FIND = 1,       /* lookups, while nothing writes */
    LOOM_VIEW_INSERT = 2,     /* insert, find_or_insert; lookups */
    LOOM_VIEW_ACCUMULATE = 3, /* accumulate; lookups */
    LOOM_VIEW_ERASE = 4,      /* erase; lookups */
    /* insert (keep), find_or_insert, erase and lookups, all at the same time. No call overlaps with
     * it. A freed slot is not reused before the view ends. A partition therefore refuses keys once
     * the keys it held at begin plus all insertions since then reach its number of slots, however
     * many of them were erased. A partition of a large table of 4 + 4 byte pairs has 12,229 slots:
     * after 12,229 cycles of insert and erase in one empty partition the next key gets FULL.
     * loom_stats.slots / loom_stats.partitions tells the number for a table. End the view before
     * that. */
    LOOM_VIEW_MIXED = 5
} loom_view_access;

/* A table as kernels see it: pass it by value. */
typedef struct loom_map_view {
    uint32_t layout; /* of the library that made it, by engine (below); device.cuh compares it */
    loom_view_access access;
    uint32_t key_bytes, value_bytes;
    uint64_t generation; /* changes when the table's memory does; device.cuh compares it */
    uint64_t serial;     /* unique in the process; loom_map_view_end identifies the view by it */
    uint64_t table[22];  /* for device.cuh */
} loom_map_view;

/* No two engines have the same layout number. */
#define LOOM_VIEW_LAYOUT         2       /* open tables: loom::table of device.cuh */
#define LOOM_PERFECT_VIEW_LAYOUT 0x30001 /* perfect tables: loom::perfect_table */

/* begin lends a view to kernels that are launched into `stream` afterwards. end takes it back,
 * behind the kernels that were launched before.
 *   - End each view once, itself or a copy, in the stream of its begin or in one that waits for its
 *     kernels. If ending fails, the view is still lent: try again, or destroy the table.
 *   - When the last view has ended, the table's size is right again, and the freed slots of a mixed
 *     view can be used again.
 *   - Memory   allocates nothing
 *   - Runs     stream-ordered; does not wait for the device
 *   - Status   UNSUPPORTED: the machine runs no kernels (LOOM_FEATURE_VIEWS), a set cannot
 *              accumulate, or a perfect table is to be written (LOOM_FEATURE_WRITING_VIEWS);
 *              IN_USE: a view of another access is lent, or 16 are; INVALID_ARGUMENT: not a lent
 *              view of this table */
LOOM_API loom_status loom_map_view_begin(loom_map *map, loom_view_access access, loom_map_view *view,
                                         loom_stream stream);
LOOM_API loom_status loom_map_view_end(loom_map *map, const loom_map_view *view, loom_stream stream);

/* A filter as kernels see it: pass it by value. */
typedef struct loom_filter_view {
    uint32_t layout; /* LOOM_FILTER_VIEW_LAYOUT of the library; device.cuh compares it */
    uint32_t key_bytes;
    uint64_t serial;
    uint64_t filter[8]; /* for device.cuh */
} loom_filter_view;

#define LOOM_FILTER_VIEW_LAYOUT 1

/* Lend and end a view of a filter, as those of maps. While a view is lent, calls that run alone
 * return IN_USE. */
LOOM_API loom_status loom_filter_view_begin(loom_filter *filter, loom_filter_view *view, loom_stream stream);
LOOM_API loom_status loom_filter_view_end(loom_filter *filter, const loom_filter_view *view, loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
