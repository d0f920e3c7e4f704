/* Splitting on the host: deals the records of a batch into regions of memory, one for each bin. A key's bin is a number
 * below `bins`. Any engine that works by partition can use this split. The cuda machine has a split of its own:
 * machines/cuda/core/cuda_split.cuh.
 *
 * One thread per chunk of the batch counts keys. The counts become positions. Then one thread per chunk scatters.
 * Regions are therefore exact: no batch, however skewed, can overflow one. Regions lie back to back. The records of
 * each region are in the order of the batch. A bin's current output line stays in the cache until it is full, so each
 * column is read once and written once. The processor also fetches every line that is written. On x86_64 each store
 * therefore prefetches what its bin will need next, a line further on or the next record: without this, the stores of a
 * core wait in a queue for one line from DRAM after the other. Measured on two cores of a Skylake Xeon, builds of 2^24
 * pairs of 4 + 4 bytes in 1,715 partitions, M pairs/s: 65 without, 76 with; two lines ahead 75, into the L1 cache 72.
 * Arm processors were not measured.
 *
 * A record is a key and, if the batch has values, the value behind it. If the caller asks for indexes, a record's index
 * in the batch goes to a separate array. `bin_of(by, key)` returns a key's bin. A key of 4 or 8 bytes is passed as a
 * number, a key of another width as its address. Callers pass literal widths and name the function bin_of, so that the
 * compiler inlines everything; otherwise the split of narrow records is slow.
 *
 * Where a hash costs much, keys are hashed once, into an array, and a record has its hash behind the value. The caller
 * then does steps 1 and 3 itself (machines/cpu/core/cpu_bulk_strings.c). */
#ifndef LOOM_CORE_SPLIT_H
#define LOOM_CORE_SPLIT_H

#include "core/portable.h"

#include <string.h>

typedef struct loom__split {
    const void *keys;   /* [n] of the batch */
    const void *values; /* [n], or NULL */
    uint64_t n;
    uint32_t bins;
    uint32_t chunks;        /* parts of the batch, in its order */
    uint64_t *fill;         /* [chunks][bins]: keys counted, then the position of the chunk's next record */
    uint64_t *region;       /* [bins + 1]: where each bin's records begin */
    unsigned char *records; /* [n]: key, then value */
    uint64_t *index;        /* [n]: a record's index in the batch; NULL: not wanted */
    uint64_t *hashes;       /* [n] of the batch; NULL: none */
} loom__split;

typedef uint32_t loom__split_bin(const void *by, uint64_t key);

enum { LOOM__SPLIT_LINE = 64 /* each array begins on a line of its own */ };

LOOM_LANE uint64_t loom__split_place(uint64_t *bytes, uint64_t wanted)
{
    const uint64_t at = *bytes;
    *bytes = (at + wanted + LOOM__SPLIT_LINE - 1) / LOOM__SPLIT_LINE * LOOM__SPLIT_LINE;
    return at;
}

/* Bytes of a record of the split. */
LOOM_LANE uint32_t loom__split_record_bytes(uint32_t key_bytes, uint32_t value_bytes, int with_hashes)
{
    return key_bytes + value_bytes + (with_hashes ? (uint32_t)sizeof(uint64_t) : 0);
}

/* Lays out all arrays in `memory`, and returns how many bytes they take. If `memory` is NULL, only returns the
 * bytes. */
LOOM_LANE uint64_t loom__split_lay_out(loom__split *split, unsigned char *memory, uint32_t record_bytes, int with_index,
                                       int with_hashes)
{
    uint64_t bytes = 0;
    const uint64_t fill = loom__split_place(&bytes, (uint64_t)split->chunks * split->bins * sizeof(uint64_t));
    const uint64_t region = loom__split_place(&bytes, ((uint64_t)split->bins + 1) * sizeof(uint64_t));
    const uint64_t records = loom__split_place(&bytes, split->n * record_bytes);
    const uint64_t index = loom__split_place(&bytes, with_index ? split->n * sizeof(uint64_t) : 0);
    const uint64_t hashes = loom__split_place(&bytes, with_hashes ? split->n * sizeof(uint64_t) : 0);
    if (memory != NULL) {
        split->fill = (uint64_t *)(memory + fill);
        split->region = (uint64_t *)(memory + region);
        split->records = memory + records;
        split->index = with_index ? (uint64_t *)(memory + index) : NULL;
        split->hashes = with_hashes ? (uint64_t *)(memory + hashes) : NULL;
    }
    return bytes;
}

LOOM_LANE uint64_t loom__split_chunk_begin(const loom__split *split, uint64_t chunk)
{
    const uint64_t whole = split->n / split->chunks, rest = split->n % split->chunks;
    return chunk * whole + (chunk < rest ? chunk : rest);
}

/* Key i, as bin_of takes it. */
LOOM_LANE uint64_t loom__split_key(const loom__split *split, uint32_t key_bytes, uint64_t i)
{
    if (key_bytes != 4 && key_bytes != 8)
        return (uint64_t)(uintptr_t)((const unsigned char *)split->keys + i * key_bytes);
    return key_bytes == 4 ? ((const uint32_t *)split->keys)[i] : ((const uint64_t *)split->keys)[i];
}

/* Step 1, for each chunk: counts the keys of each bin. */
LOOM_LANE void loom__split_count(const loom__split *split, uint64_t chunk, uint32_t key_bytes, loom__split_bin *bin_of,
                                 const void *by)
{
    uint64_t *fill = split->fill + chunk * split->bins;
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    memset(fill, 0, split->bins * sizeof *fill);
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++)
        fill[bin_of(by, loom__split_key(split, key_bytes, i))]++;
}

/* Step 2: turns counts into positions, bin by bin, and chunk by chunk within a bin. */
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

/* Prefetches into the L2 cache what the record's bin will need next. */
LOOM_LANE void loom__split_prefetch(const unsigned char *record, uint32_t record_bytes)
{
#if defined(__x86_64__)
    const uint32_t ahead = record_bytes < LOOM__SPLIT_LINE ? LOOM__SPLIT_LINE : record_bytes;
    __builtin_prefetch((const void *)((uintptr_t)record + ahead), 1, 2);
#else
    (void)record, (void)record_bytes;
#endif
}

/* Step 3, for each chunk: writes each record to its position. */
LOOM_LANE void loom__split_scatter(const loom__split *split, uint64_t chunk, uint32_t key_bytes, uint32_t value_bytes,
                                   loom__split_bin *bin_of, const void *by)
{
    uint64_t *fill = split->fill + chunk * split->bins;
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    const unsigned char *values = (const unsigned char *)split->values;
    const uint32_t record_bytes = key_bytes + value_bytes;
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++) {
        const uint64_t key = loom__split_key(split, key_bytes, i), at = fill[bin_of(by, key)]++;
        if (at >= split->n) /* only if the caller changed the keys after they were counted */
            continue;
        unsigned char *record = split->records + at * record_bytes;
        loom__split_prefetch(record, record_bytes);
        memcpy(record, key_bytes == 4 || key_bytes == 8 ? (const void *)&key : (const void *)(uintptr_t)key, key_bytes);
        if (value_bytes != 0)
            memcpy(record + key_bytes, values + i * value_bytes, value_bytes);
        if (split->index != NULL)
            split->index[at] = i;
    }
}

#endif
