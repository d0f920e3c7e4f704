/* Follows a chain whose handle and links may be damaged: the same checks on every machine. */
#ifndef LOOM_CHAIN_CHECK_H
#define LOOM_CHAIN_CHECK_H

#include "engines/chain/chain_layout.h"

typedef struct chain_check {
    uint64_t place; /* of the next piece */
    uint64_t end;   /* values of this piece and all older ones; 0: there is no further piece */
    int linked;
} chain_check;

/* For a list in the heap that has at most view->most values. */
LOOM_BOTH chain_check chain_check_begin(uint64_t handle)
{
    chain_check walk;
    walk.place = list_first(handle);
    walk.end = list_count(handle);
    walk.linked = list_is_linked(handle);
    return walk;
}

/* Checks the next piece, and goes on to the one before it. Values first .. first + count - 1 of the heap are what the
 * piece takes, with its link and the room behind its values. Returns 0 if the piece is not sound. No link is read
 * before its piece is known to lie in the used part of the heap. */
LOOM_BOTH int chain_check_piece(const loom__multi_view *view, uint64_t used, uint64_t handle, chain_check *walk,
                                uint64_t *first, uint64_t *count)
{
    const uint64_t place = walk->place, end = walk->end;
    const uint64_t in_front = walk->linked ? list_link_values(view->value_bytes) : 0;
    if (place < in_front || place > used)
        return 0;
    const uint64_t link = walk->linked ? list_link_at(view->heap, view->value_bytes, place) : 0;
    const uint64_t before = list_link_before(link);
    if (before >= end || (walk->linked && before == 0))
        return 0;
    const int newest = end == list_count(handle);
    const uint64_t room = newest ? chain_capacity(view, handle, before) : end;
    if (room < end || room - before > used - place)
        return 0;
    if (newest && list_kind(handle) == LIST_SHORT && room > LIST_LARGE_FROM) /* appends would overflow its count */
        return 0;
    if (newest && list_fill(handle) > 0 && (list_fill(handle) != end - before || room - before > LIST_MOST_FILL))
        return 0;
    *first = place - in_front;
    *count = in_front + room - before;
    walk->place = list_link_place(link);
    walk->end = before;
    walk->linked = list_link_linked(link);
    return 1;
}

#endif
