/* Device views: the host lends a table or a filter to your own kernels. loom/device.cuh has the
 * functions that kernels call. It also says what each view offers.
 *
 *   loom_map_view view;
 *   loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(view, ...);
 *   loom_map_view_end(map, &view, stream);
 *
 * Between begin and end a view is *lent*. A lent view counts as a call in flight that does not
 * end:
 *   - A call that may not overlap with the view's access (the table in map.h) returns IN_USE. Other
 *     calls run as usual. Large inserts among them go directly, not by partition.
 *   - Up to 16 views of the same access may be lent at once.
 *   - The table does not move: reserve and shrink return IN_USE. It does not grow either: calls and
 *     kernels that insert refuse keys instead.
 *
 * Open tables lend every access, and so do tables of LOOM_ENGINE_ROWS without byte strings;
 * LOOM_VIEW_ACCUMULATE needs values of 4 or 8 bytes. Perfect tables lend LOOM_VIEW_FIND only: a new
 * key may move other keys, and only bulk calls can move keys. Filters lend one access: any number of
 * kernels may insert and query at the same time.
 *
 * Multimaps lend LOOM_VIEW_FIND. Multimaps of LOOM_ENGINE_CHAIN also lend LOOM_VIEW_INSERT, for
 * kernels that append values. Such kernels, of one view or of several, may also ask which keys are
 * there and how many values they have. They read no values. While a view for appends is lent, no
 * other call on the table runs: inserts and lookups return IN_USE. In multimaps of LOOM_ENGINE_OPEN
 * a list that grows moves, so kernels cannot append: use LOOM_ENGINE_CHAIN, or bulk inserts.
 * Multimaps whose keys or values have neither 4 nor 8 bytes lend no views. */
#ifndef LOOM_LOOM_VIEW_H
#define LOOM_LOOM_VIEW_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum loom_view_access {
    LOOM_VIEW_FIND = 1,       /* lookups, while nothing writes */
    LOOM_VIEW_INSERT = 2,     /* insert, find_or_insert; lookups. Multimaps: insert; counts */
    LOOM_VIEW_ACCUMULATE = 3, /* accumulate; lookups */
    LOOM_VIEW_ERASE = 4,      /* erase, erase_if; lookups */
    /* insert (keep), find_or_insert, erase, erase_if and lookups, all at the same time. No call
     * overlaps with a mixed view. A freed slot is not reused before the view ends. A partition
     * therefore refuses keys once the keys that it held at begin, plus all insertions since then,
     * reach its number of slots (loom_stats.slots / loom_stats.partitions). End the view before
     * that: docs/guide.md, "Your own kernels", has an example with numbers. */
    LOOM_VIEW_MIXED = 5
} loom_view_access;

/* A table as kernels see it: pass it by value. */
typedef struct loom_map_view {
    uint32_t layout; /* layout number of the engine (below); device.cuh compares it */
    loom_view_access access;
    uint32_t key_bytes, value_bytes;
    uint64_t generation; /* changes when the table's memory does; device.cuh compares it */
    uint64_t serial;     /* unique in the process; loom_map_view_end identifies the view by it */
    uint64_t table[22];  /* for device.cuh */
} loom_map_view;

/* No two engines have the same layout number. */
#define LOOM_VIEW_LAYOUT         3       /* open tables: loom::table of device.cuh */
#define LOOM_PERFECT_VIEW_LAYOUT 0x30001 /* perfect tables: loom::perfect_table */
#define LOOM_MULTI_VIEW_LAYOUT   0x50002 /* multimaps (LOOM_ENGINE_OPEN): loom::multi_table */
#define LOOM_CHAIN_VIEW_LAYOUT   0x60003 /* multimaps (LOOM_ENGINE_CHAIN): loom::multi_table */
#define LOOM_ROWS_VIEW_LAYOUT    0x70001 /* LOOM_ENGINE_ROWS: loom::row_table */

/* begin lends a view to kernels that are launched into `stream` afterwards. end takes the view back
 * after the kernels that were launched into `stream` before.
 *   - End each view once, with the view itself or a copy of it, in the stream of its begin or in a
 *     stream that waits for the view's kernels. If ending fails, the view is still lent: try again,
 *     or destroy the table.
 *   - When the last view has ended, the table's size includes the work of kernels, slots that were
 *     freed through a mixed view can be used again, and keys of a multimap whose values were all
 *     refused are gone. After a view that writes, the next call that inserts into a table with
 *     growth waits and counts the keys (docs/guide.md, "Growth").
 *   - Chain multimaps: the first view for LOOM_VIEW_INSERT after the table was made, loaded, moved,
 *     cleared, built or inserted into zeroes the free space for values. Files then hold nothing that other programs or
 *     tables left in this memory.
 *   - Memory   allocates nothing
 *   - Runs     stream-ordered; does not wait for the device
 *   - Status   UNSUPPORTED: the machine runs no kernels (LOOM_FEATURE_VIEWS); the table has byte
 *              strings; the access is LOOM_VIEW_ACCUMULATE, and the table is a set or its values
 *              are no numbers of 4 or 8 bytes; the access writes (LOOM_FEATURE_WRITING_VIEWS) and the
 *              table is perfect or a multimap of LOOM_ENGINE_OPEN; the table is a multimap of
 *              LOOM_ENGINE_CHAIN and the access is neither LOOM_VIEW_FIND nor LOOM_VIEW_INSERT; a
 *              multimap has keys or values of neither 4 nor 8 bytes;
 *              IN_USE: a view of another access is lent, or 16 views are; INVALID_ARGUMENT: this
 *              table did not lend the view */
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

/* Lend and end a view of a filter, as views of maps. While a view is lent, these calls return
 * IN_USE: save, clone, stats, clear, merge, and insert with LOOM_BY_PARTITION. Large inserts
 * without that flag go directly.
 *   - Status   UNSUPPORTED: the machine runs no kernels (LOOM_FEATURE_VIEWS); IN_USE: 16 views are
 *              lent; INVALID_ARGUMENT: this filter did not lend the view */
LOOM_API loom_status loom_filter_view_begin(loom_filter *filter, loom_filter_view *view, loom_stream stream);
LOOM_API loom_status loom_filter_view_end(loom_filter *filter, const loom_filter_view *view, loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
