/* Copies out values of a list. */
#ifndef LOOM_CPU_LISTS_H
#define LOOM_CPU_LISTS_H

#include "core/list_pieces.h"

#include <string.h>

/* Copies values first .. first + count - 1 of a list, count > 0. */
static inline void loom__cpu_copy_list(const unsigned char *heap, uint64_t value_bytes, uint64_t handle, uint64_t first,
                                       uint64_t count, unsigned char *to)
{
    if (!list_in_heap(handle)) {
        const uint32_t one = list_one_value(handle);
        memcpy(to, &one, sizeof one); /* only values of 4 bytes lie in handles */
        return;
    }
    const uint64_t end = first + count;
    loom__list_piece piece = list_newest_piece(heap, value_bytes, handle);
    for (;; piece = list_older_piece(heap, value_bytes, &piece)) { /* ends at the piece that has value `first` */
        const uint64_t piece_end = piece.before + piece.count;
        const uint64_t from = first > piece.before ? first : piece.before, until = end < piece_end ? end : piece_end;
        if (from < until)
            memcpy(to + (from - first) * value_bytes, heap + (piece.place + from - piece.before) * value_bytes,
                   (until - from) * value_bytes);
        if (piece.before <= first)
            return;
    }
}

#endif
