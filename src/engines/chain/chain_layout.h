/* The lists of the chain engine: what multi_layout.h says of multimaps, and how lists grow.
 *
 * The idea of bucket lists is from "WarpCore: A Library for fast Hash Tables on GPUs" (Jünger, Kobus, Müller, Hundt,
 * Xu, Liu, Schmidt, HiPC 2020), section IV-C: a list is a chain of buckets, a full list gets another bucket, and values
 * never move. There, the i-th bucket has s(i) = ceil(growth * s(i - 1)) values, and the first one has no link, as here.
 * Three things differ:
 *   - The size of a bucket follows from the number of values before it:
 *         s(before) = first_bucket + ceil((growth - 1) * before)
 *     which is the same geometric series, but needs no number of the bucket. So buckets of other sizes may come in
 *     between.
 *   - A batch that brings a key more values than that takes one bucket for all of them, which is *exact*: it has no
 *     room for more. A build makes one exact bucket for each key, and so does every move of the whole table. Such lists
 *     take no more memory than those of the open engine. The cpu machine reads them as fast, a GPU 7 % slower. Only
 *     later insertions make chains of them.
 *   - A single value of 4 bytes lies in the handle.
 *
 * A bucket is a piece of its list (core/list_pieces.h). The newest one may have room behind its values; all others are
 * full. The capacity of a list follows from its handle and the link of its newest bucket: an exact list is full, and
 * any other list has room for `before` + s(before) values.
 *
 * A bucket that ends behind value LIST_LARGE_FROM of its list begins at a multiple of LIST_LARGE_UNIT, since its place
 * in the handle has fewer bits. Such buckets have at least CHAIN_LARGE_BUCKET values, so that less than a sixteenth is
 * lost to the gaps in front of them. */
#ifndef LOOM_CHAIN_LAYOUT_H
#define LOOM_CHAIN_LAYOUT_H

#include "core/list_pieces.h"
#include "engines/multi/multi_layout.h"

enum {
    CHAIN_GROWTH_ONE = 1 << 12, /* view->bucket_growth counts in 2^-12 what exceeds a growth of 1 */
    CHAIN_LARGEST_GROWTH = 8,   /* of a config; both fit 16 bits */
    CHAIN_LARGEST_FIRST = 1 << 15,
#ifdef LOOM_SIMULATED_LISTS
    CHAIN_LARGE_BUCKET = SIMT_LARGE_BUCKET,
    CHAIN_SMALL = SIMT_SMALL_BUCKET
#else
    CHAIN_LARGE_BUCKET = 1 << 16,
    CHAIN_SMALL = 64 /* values: appends take buckets of this size without asking whether they fit */
#endif
};

/* The largest heap: a link has a place for each of its values. */
#define CHAIN_MOST_ROOM (LIST_MOST_LINKED - LIST_MOST_LINKED / 64)

/* The values of a bucket with `before` < view->most values before it. */
LOOM_BOTH uint64_t chain_bucket_values(const loom__multi_view *view, uint64_t before)
{
    uint64_t values = view->first_bucket + (before * view->bucket_growth + CHAIN_GROWTH_ONE - 1) / CHAIN_GROWTH_ONE;
    if (before + values > LIST_LARGE_FROM && values < CHAIN_LARGE_BUCKET)
        values = CHAIN_LARGE_BUCKET;
    return values < view->most - before ? values : view->most - before;
}

/* Values for which a list has room, if its newest bucket has `before` values before it. */
LOOM_BOTH uint64_t chain_capacity(const loom__multi_view *view, uint64_t handle, uint64_t before)
{
    if (!list_in_heap(handle) || handle & LIST_EXACT)
        return list_count(handle);
    return before + chain_bucket_values(view, before);
}

/* What is used of the heap after appends by lanes (chain_take in chain_ops.h). */
LOOM_BOTH uint64_t chain_used(const loom__multi_view *view)
{
    return view->lists->used > view->room ? view->lists->end : view->lists->used;
}

/* The handle of a list whose newest bucket is `piece`, which is full, and which becomes the newest one again. */
LOOM_BOTH uint64_t chain_handle_of_full(const loom__list_piece *piece)
{
    const uint64_t count = piece->before + piece->count;
    return list_make(list_kind_for(count), piece->place, count, 1) | (piece->linked ? LIST_LINKED : 0);
}

#endif
