/* Arrays of a bulk call, and the parts in which a call processes them: chunks that pass through staging buffers, slices
 * of a batch that goes by partition, words that move a row. Arithmetic only, so tests need no GPU. */
#ifndef LOOM_CORE_CALL_PARTS_H
#define LOOM_CORE_CALL_PARTS_H

#include "core/portable.h"

/* ---- Words ---- */

enum {
    LOOM__WIDEST_WORD = 16,
    LOOM__MOST_ROW_LANES = 32 /* a warp */
};

/* The widest word, 16, 8, 4, 2 or 1 bytes, that divides all given addresses and widths; `bits` is their OR. */
LOOM_BOTH uint32_t loom__widest_word(uint64_t bits)
{
    bits |= LOOM__WIDEST_WORD;
    return (uint32_t)(bits & (0 - bits));
}

/* Lanes that move one row of `words` words: the smallest power of two that is enough, at most a warp. */
LOOM_BOTH uint32_t loom__row_lanes(uint64_t words)
{
    uint32_t lanes = 1;
    while (lanes < words && lanes < LOOM__MOST_ROW_LANES)
        lanes *= 2;
    return lanes;
}

/* ---- Chunks ---- */

/* One staged array. Item i owns element i, and `more` elements follow the last item's element, as in offsets[n + 1].
 * Each chunk also takes the first `more` elements of the next chunk. */
typedef struct loom__chunk_column {
    uint32_t width; /* bytes per element; any number */
    uint32_t more;
} loom__chunk_column;

enum { LOOM__CHUNK_ALIGNMENT = 256 /* of each array in a staging buffer */ };

/* Bytes of a staging buffer that the elements of `items` items take. */
LOOM_BOTH uint64_t loom__chunk_column_bytes(loom__chunk_column column, uint64_t items)
{
    const uint64_t bytes = (items + column.more) * column.width;
    return (bytes + LOOM__CHUNK_ALIGNMENT - 1) / LOOM__CHUNK_ALIGNMENT * LOOM__CHUNK_ALIGNMENT;
}

/* Items of one chunk. The arrays of a chunk share one staging buffer. 0: not even one item fits. UINT64_MAX: no array
 * is staged. The result is a multiple of 512, or else of 32, if that many items fit. Arrays on the device are not
 * staged; the multiple gives each chunk of a device array the alignment of the whole array. */
LOOM_BOTH uint64_t loom__chunk_items(const loom__chunk_column *columns, uint32_t count, uint64_t buffer_bytes)
{
    uint64_t each = 0, besides = 0;
    for (uint32_t i = 0; i < count; i++) {
        each += columns[i].width;
        besides += (uint64_t)columns[i].more * columns[i].width + LOOM__CHUNK_ALIGNMENT - 1;
    }
    if (each == 0)
        return UINT64_MAX;
    const uint64_t items = besides < buffer_bytes ? (buffer_bytes - besides) / each : 0;
    return items >= 512 ? items / 512 * 512 : items >= 32 ? items / 32 * 32 : items;
}

/* ---- Slices ---- */

/* Items of each slice except the last, which may have fewer. n items go in slices of about equal size, each of at most
 * `most` > 0 items. If n <= most, one slice takes all of them. Otherwise the result is a multiple of 512, unless that
 * exceeds `most`. */
LOOM_BOTH uint64_t loom__slice_items(uint64_t n, uint64_t most)
{
    if (n <= most)
        return n;
    const uint64_t slices = n / most + (n % most > 0), each = n / slices + (n % slices > 0);
    const uint64_t rounded = (each + 511) / 512 * 512;
    return rounded <= most ? rounded : each;
}

#endif
