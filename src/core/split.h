/* Splitting on the host: records of a batch dealt into regions of memory by a number that their keys have, a bin each.
 * (The cuda machine's is machines/cuda/core/cuda_split.cuh.) For any engine that works by partition.
 *
 * Keys are counted first, by as many threads as there are chunks of the batch; the counts become places; then each chunk is
 * scattered by one thread. So regions are exact: no batch, however skewed, can overflow anything. They lie one behind the
 * other, and within each the records are in the order of the batch. A bin's current line stays in the cache until it is full:
 * each column is read and written once, and lines that are written are fetched.
 *
 * A record is a key and, perhaps, a value behind it; its place in the batch goes to an array of its own, if somebody asks.
 * What a key's bin is, a function tells: `bin_of(by, key)`, below `bins`. All of this is inlined where it is called, with literal
 * widths and a literal function, or it is slow. */
#ifndef LOOM_CORE_SPLIT_H
#define LOOM_CORE_SPLIT_H

#include "core/portable.h"

#include <string.h>

typedef struct loom__split {
    const void *keys;   /* [n] of the batch */
    const void *values; /* [n], or NULL */
    uint64_t n;
    uint32_t bins;
    uint32_t chunks;        /* pieces of the batch, in order */
    uint64_t *fill;         /* [chunks][bins]: keys counted, then where the chunk's next record goes */
    uint64_t *region;       /* [bins + 1]: where each bin's records begin */
    unsigned char *records; /* [n]: key, then value */
    uint64_t *index;        /* [n]: a record's place in the batch; NULL: nobody asks */
} loom__split;

typedef uint32_t loom__split_bin(const void *by, uint64_t key);

enum { LOOM__SPLIT_LINE = 64 /* arrays begin with lines of their own */ };

LOOM_LANE uint64_t loom__split_place(uint64_t *bytes, uint64_t wanted)
{
    const uint64_t at = *bytes;
    *bytes = (at + wanted + LOOM__SPLIT_LINE - 1) / LOOM__SPLIT_LINE * LOOM__SPLIT_LINE;
    return at;
}

/* Lays fill, region, records and index out in `memory`, and tells how many bytes that takes; NULL: it only tells. */
LOOM_LANE uint64_t loom__split_lay_out(loom__split *split, unsigned char *memory, uint32_t record_bytes, int with_index)
{
    uint64_t bytes = 0;
    const uint64_t fill = loom__split_place(&bytes, (uint64_t)split->chunks * split->bins * sizeof(uint64_t));
    const uint64_t region = loom__split_place(&bytes, ((uint64_t)split->bins + 1) * sizeof(uint64_t));
    const uint64_t records = loom__split_place(&bytes, split->n * record_bytes);
    const uint64_t index = loom__split_place(&bytes, with_index ? split->n * sizeof(uint64_t) : 0);
    if (memory != NULL) {
        split->fill = (uint64_t *)(memory + fill);
        split->region = (uint64_t *)(memory + region);
        split->records = memory + records;
        split->index = with_index ? (uint64_t *)(memory + index) : NULL;
    }
    return bytes;
}

LOOM_LANE uint64_t loom__split_chunk_begin(const loom__split *split, uint64_t chunk)
{
    const uint64_t whole = split->n / split->chunks, rest = split->n % split->chunks;
    return chunk * whole + (chunk < rest ? chunk : rest);
}

LOOM_LANE uint64_t loom__split_key(const loom__split *split, uint32_t key_bytes, uint64_t i)
{
    return key_bytes == 4 ? ((const uint32_t *)split->keys)[i] : ((const uint64_t *)split->keys)[i];
}

/* First, for each chunk. */
LOOM_LANE void loom__split_count(const loom__split *split, uint64_t chunk, uint32_t key_bytes, loom__split_bin *bin_of,
                                 const void *by)
{
    uint64_t *fill = split->fill + chunk * split->bins;
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    memset(fill, 0, split->bins * sizeof *fill);
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++)
        fill[bin_of(by, loom__split_key(split, key_bytes, i))]++;
}

/* Then: counts become places, bin by bin, and within one chunk by chunk. */
LOOM_LANE void loom__split_sum_up(const loom__split *split)
{
    uint64_t at = 0;
    for (uint64_t bin = 0; bin < split->bins; bin++) {
        split->region[bin] = at;
        for (uint64_t chunk = 0; chunk < split->chunks; chunk++) {
            const uint64_t count = split->fill[chunk * split->bins + bin];
            split->fill[chunk * split->bins + bin] = at;
            at += count;
        }
    }
    split->region[split->bins] = at;
}

/* At last, for each chunk. */
LOOM_LANE void loom__split_scatter(const loom__split *split, uint64_t chunk, uint32_t key_bytes, uint32_t value_bytes,
                                   loom__split_bin *bin_of, const void *by)
{
    uint64_t *fill = split->fill + chunk * split->bins;
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    const unsigned char *values = (const unsigned char *)split->values;
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++) {
        const uint64_t key = loom__split_key(split, key_bytes, i), at = fill[bin_of(by, key)]++;
        if (at >= split->n) /* only if somebody changed the keys since they were counted */
            continue;
        unsigned char *record = split->records + at * (key_bytes + value_bytes);
        memcpy(record, &key, key_bytes);
        if (value_bytes != 0)
            memcpy(record + key_bytes, values + i * value_bytes, value_bytes);
        if (split->index != NULL)
            split->index[at] = i;
    }
}

#endif
