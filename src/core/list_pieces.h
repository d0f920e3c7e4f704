/* The pieces of a list. A multimap's list lies in the value heap in one piece, or as a chain of pieces, from the newest
 * to the oldest. The handle knows the newest piece (list_handle.h). Each piece except the oldest has a *link* of 8
 * bytes right in front of its values:
 *
 *   bits   63                             62 .. 30                       29 .. 0
 *          the piece before has a link    first value of that piece      values in all pieces before this one
 *
 * A link takes as many values of the heap as hold 8 bytes: 8 values of 1 byte, one of 8 bytes or more. All pieces
 * except the newest are full. So `values before` tells how many values each piece has. These numbers
 * decrease along the chain, which bounds every walk. */
#ifndef LOOM_CORE_LIST_PIECES_H
#define LOOM_CORE_LIST_PIECES_H

#include "core/list_handle.h"

enum { LIST_LINK_BYTES = 8, LIST_PLACE_BITS = LIST_FILL_SHIFT - LIST_COUNT_BITS /* of a link */ };

/* Links reach values of heaps of this size. */
#define LIST_MOST_LINKED ((uint64_t)1 << LIST_PLACE_BITS)

typedef struct loom__list_piece {
    uint64_t place;  /* of its first value in the heap */
    uint64_t before; /* values of the list in front of it */
    uint64_t count;  /* its own */
    int linked;      /* there is a piece before it */
} loom__list_piece;

/* Values of the heap that a link takes: as many as hold its bytes. */
LOOM_BOTH uint64_t list_link_values(uint64_t value_bytes)
{
    return (LIST_LINK_BYTES + value_bytes - 1) / value_bytes;
}

LOOM_BOTH uint64_t list_link_make(int linked, uint64_t place, uint64_t before)
{
    return (uint64_t)(linked != 0) << 63 | place << LIST_LARGE_BITS | before;
}

LOOM_BOTH uint64_t list_link_before(uint64_t link)
{
    return link & LIST_MOST_VALUES;
}

LOOM_BOTH uint64_t list_link_place(uint64_t link)
{
    return link >> LIST_LARGE_BITS & (LIST_MOST_LINKED - 1);
}

LOOM_BOTH int list_link_linked(uint64_t link)
{
    return (int)(link >> 63);
}

/* The link in front of `place`. For a list that nobody changes. With values of 4 bytes it is aligned to 4 bytes only,
 * and with values whose width is no multiple of 4 it is not aligned. */
LOOM_BOTH uint64_t list_link_at(const unsigned char *heap, uint64_t value_bytes, uint64_t place)
{
    const unsigned char *at = heap + place * value_bytes - LIST_LINK_BYTES;
    uint64_t link = 0;
    if (value_bytes % 4 != 0) {
        for (int i = 0; i < LIST_LINK_BYTES; i++)
            link |= (uint64_t)at[i] << 8 * i;
        return link;
    }
    const uint32_t *halves = (const uint32_t *)(const void *)at;
    return halves[0] | (uint64_t)halves[1] << 32;
}

LOOM_BOTH void list_link_put(unsigned char *heap, uint64_t value_bytes, uint64_t place, uint64_t link)
{
    unsigned char *at = heap + place * value_bytes - LIST_LINK_BYTES;
    if (value_bytes % 4 != 0) {
        for (int i = 0; i < LIST_LINK_BYTES; i++)
            at[i] = (unsigned char)(link >> 8 * i);
        return;
    }
    uint32_t *halves = (uint32_t *)(void *)at;
    halves[0] = (uint32_t)link;
    halves[1] = (uint32_t)(link >> 32);
}

/* The newest piece of a list in the heap. */
LOOM_BOTH loom__list_piece list_newest_piece(const unsigned char *heap, uint64_t value_bytes, uint64_t handle)
{
    loom__list_piece piece;
    piece.place = list_first(handle);
    piece.linked = list_is_linked(handle);
    piece.before = piece.linked ? list_link_before(list_link_at(heap, value_bytes, piece.place)) : 0;
    piece.count = list_count(handle) - piece.before;
    return piece;
}

/* The piece before a linked one. */
LOOM_BOTH loom__list_piece list_older_piece(const unsigned char *heap, uint64_t value_bytes,
                                            const loom__list_piece *newer)
{
    const uint64_t link = list_link_at(heap, value_bytes, newer->place);
    loom__list_piece piece;
    piece.place = list_link_place(link);
    piece.linked = list_link_linked(link);
    piece.before = piece.linked ? list_link_before(list_link_at(heap, value_bytes, piece.place)) : 0;
    piece.count = newer->before - piece.before;
    return piece;
}

/* The place of value `number` of a list in the heap. The value lies in the newest piece or in the one before. */
LOOM_BOTH uint64_t list_place_of(const unsigned char *heap, uint64_t value_bytes, uint64_t handle, uint64_t number)
{
    loom__list_piece piece = list_newest_piece(heap, value_bytes, handle);
    if (number < piece.before)
        piece = list_older_piece(heap, value_bytes, &piece);
    return piece.place + number - piece.before;
}

#endif
