/* The bytes of a board of tickets, in memory and in files. Nothing here allocates, loops over data or calls the system.
 *
 * A table has rows, each with a key and its value, and a *board*: a ticket for each row. Rows may lie in host memory;
 * the board is small and lies where the machine works. A partition has a prime number of rows, and a key's probe
 * sequence, by double hashing, visits all rows of its partition. Tickets lie in words of 8 bytes, as many as fit:
 *
 *   ticket   from bit 0: available | access | info of 0, 1, 3 or 7 bits
 *   word     32, 21, 12 or 7 tickets of 1, 2, 4 or 8 bits, the access bit not counted; the rest of the word is ones
 *
 *   available  access
 *       1        1      free: a search ends here. All bits of the ticket are ones
 *       0        0      busy: the row is being written, or its key is being erased; info is set
 *       0        1      ready: the row holds a key with this info
 *       1        0      retired: its key was erased; a search passes it. Info is ones
 *
 * Each change from one state to the next sets or clears one of the two bits, except that claiming a ticket clears both
 * of a free one. */
#ifndef LOOM_TICKET_LAYOUT_H
#define LOOM_TICKET_LAYOUT_H

#include "engines/open/open_rows.h" /* widths, places and hashes of rows */

enum {
    TICKET_AVAILABLE = 1,
    TICKET_ACCESS = 2,
    TICKET_STATE = TICKET_AVAILABLE | TICKET_ACCESS,
    TICKET_INFO_SHIFT = 2,
    TICKET_NEAR = 16,   /* a search asks for the depth of its partition from here on */
    TICKET_REACH = 1024 /* tickets that an insertion looks at before it refuses a key */
};

/* The table as the algorithms see it. */
typedef struct loom__ticket_view {
    uint64_t *board;          /* partition 0 */
    uint64_t partition_words; /* from one partition to the next */
    uint32_t partitions;
    uint32_t slots;    /* rows of a partition; a prime below 2^16 */
    uint32_t reach;    /* TICKET_REACH, or all slots */
    uint32_t field;    /* bits of a ticket with its access bit: 2, 3, 5 or 9 */
    uint32_t per_word; /* tickets of a word */
    uint32_t over;     /* 2^32 / per_word, rounded up */
    loom__seed seed;
    unsigned char *rows, *values; /* of row 0 */
    uint32_t key_bytes, value_bytes;
    uint32_t stride;      /* from row to row */
    uint32_t word_values; /* values have 4 or 8 bytes, and atomics may touch them: rows are not in host memory */
    loom__totals *totals;
    /* [partitions]: no key lies deeper on its probe sequence than this, or than TICKET_NEAR. Not in files. */
    uint32_t *depths;
} loom__ticket_view;

/* Sets what follows from the bits of a ticket, 1, 2, 4 or 8, and from the number of rows. */
LOOM_BOTH void ticket_set_board(loom__ticket_view *view, uint32_t ticket_bits, uint32_t slots)
{
    view->slots = slots;
    view->reach = slots < TICKET_REACH ? slots : (uint32_t)TICKET_REACH;
    view->field = ticket_bits + 1;
    view->per_word = 64 / view->field;
    view->over = (uint32_t)((((uint64_t)1 << 32) + view->per_word - 1) / view->per_word);
    view->partition_words = (slots + view->per_word - 1) / view->per_word;
}

LOOM_BOTH void ticket_set_rows(loom__ticket_view *view, uint32_t key_bytes, uint32_t value_bytes, unsigned char *rows)
{
    view->key_bytes = key_bytes;
    view->value_bytes = value_bytes;
    view->stride = open_row_bytes(key_bytes, value_bytes);
    view->word_values = value_bytes == 4 || value_bytes == 8;
    view->rows = rows;
    view->values = rows != NULL ? rows + open_row_value_offset(key_bytes, value_bytes) : NULL;
}

/* The word of a slot's ticket, and where in the word the ticket is. `slot` times `over` is exact: both are small. */
LOOM_LANE uint64_t *ticket_word(const loom__ticket_view *view, uint32_t partition, uint32_t slot, uint32_t *shift)
{
    const uint32_t word = (uint32_t)((uint64_t)slot * view->over >> 32);
    *shift = (slot - word * view->per_word) * view->field;
    return view->board + partition * view->partition_words + word;
}

LOOM_LANE uint32_t ticket_in(const loom__ticket_view *view, uint64_t word, uint32_t shift)
{
    return (uint32_t)(word >> shift) & ((1u << view->field) - 1);
}

/* A ticket whose info is that of the hash, with no other bit. */
LOOM_LANE uint32_t ticket_info_of(const loom__ticket_view *view, uint64_t hash)
{
    const uint32_t bits = view->field - TICKET_INFO_SHIFT;
    const uint32_t top = (uint32_t)((hash * 0x9e3779b97f4a7c15u) >> 56); /* as open_tag */
    return top >> (8 - bits) << TICKET_INFO_SHIFT;
}

LOOM_LANE open_row_place ticket_row(const loom__ticket_view *view, uint32_t partition, uint32_t slot)
{
    const uint64_t row = loom__multiply_wide(partition, view->slots) + slot;
    open_row_place place;
    place.key = view->rows + row * view->stride;
    place.value = view->values + row * view->stride;
    return place;
}

#endif
