/* What a lane does to the strings of a row (SLOT_STRING; open_rows.h): take a piece of the heap, compare a key, store
 * and replace strings, count pieces that hold no string any more.
 *
 * The bytes of a string are stored before its reference, and both before the row's ready bit: the fence before that bit
 * orders them. Nobody writes a piece that a ready row refers to, except the lane that has taken the row by clearing its
 * ready bit (open_meet_wide). So a lane that may compare a row may also read its strings.
 *
 * The heap. An insertion takes its piece right before it claims a slot. A group that loses its slot keeps the piece for
 * its next try. If the key is then found, or refused, the piece counts as unused. A key for which there is no piece is
 * refused before it claims a slot. The heap's `used` only rises while calls run that may refuse keys. So once a key is
 * refused for lack of bytes, every later insertion of the same key by the same lane is refused, too; other lanes may
 * hold a piece for the key already, and store it later.
 *
 * Shares. In insertions by partition whose strings surely fit, threads of the cpu machine take pieces for several keys
 * at once. Builds of 2^20 keys of 16 to 64 bytes by two cores of a Neoverse V1 then reach 15.9 instead of 9.3 M/s: each
 * addition to `used` waited for the other core. One core is as fast as without. Direct insertions have none: keys that
 * are put aside would use up what was taken for others, which left bytes unused even if all keys were new. */
#ifndef LOOM_OPEN_STRING_OPS_H
#define LOOM_OPEN_STRING_OPS_H

#include "engines/open/open_walk.h"

LOOM_LANE int open_has_string_keys(loom__slot_kind kind, const loom__rows_view *rows)
{
    return kind == SLOT_STRING && (rows->variable & LOOM__VARIABLE_KEYS) != 0;
}

LOOM_LANE int open_has_string_values(loom__slot_kind kind, const loom__rows_view *rows)
{
    return kind == SLOT_STRING && (rows->variable & LOOM__VARIABLE_VALUES) != 0;
}

/* A reference lies at a multiple of 8 bytes. It is two words, which a lane keeps in registers. */
LOOM_LANE open_stored open_load_reference(const unsigned char *at)
{
    const uint64_t *words = (const uint64_t *)(const void *)at;
    open_stored there;
    there.at = lane_load_8(words);
    const uint64_t length_and_mark = lane_load_8(words + 1);
    there.length = (uint32_t)length_and_mark;
    there.mark = (uint32_t)(length_and_mark >> 32);
    return there;
}

LOOM_LANE void open_store_reference(unsigned char *at, uint64_t place, uint64_t length, uint32_t mark)
{
    lane_store_8((uint64_t *)(void *)at, place);
    lane_store_8((uint64_t *)(void *)(at + 8), (uint32_t)length | (uint64_t)mark << 32);
}

/* The bytes behind the string, up to the end of its last word, become zero: files hold them, too. */
LOOM_LANE void open_store_string(const loom__rows_view *rows, uint64_t place, const loom__string *string)
{
    lane_write_string(rows->heap + place, (const unsigned char *)(uintptr_t)string->at, (uint32_t)string->length);
}

/* Whether a table must refuse these strings, whatever its room. `value` is 0 or the address of the value. */
LOOM_LANE lane_truth open_is_too_long(loom__slot_kind kind, const loom__rows_view *rows, uint64_t key, uint64_t value)
{
    if (open_has_string_keys(kind, rows) && open_string_at(key).length > rows->most_key_bytes)
        return 1;
    return open_has_string_values(kind, rows) && value != 0 && open_string_at(value).length > rows->most_value_bytes;
}

/* ---- the heap ---- */

/* A piece that no string will take, or its part up to the end of the heap, must not hold memory of others in files. */
LOOM_LANE void open_zero_piece(const loom__rows_view *rows, uint64_t at, uint64_t bytes)
{
    for (uint64_t i = at; i < at + bytes && i < rows->heap_room; i += OPEN_PIECE_ALIGNMENT)
        lane_store_8((uint64_t *)(rows->heap + i), 0);
}

/* Takes a piece of the heap. OPEN_NO_BYTES_LEFT: there is none. The look before the addition keeps `used` from rising
 * without end. Threads that own a partition each share the heap: the addition is always atomic. */
LOOM_LANE uint64_t open_take_of_heap(const loom__rows_view *rows, uint64_t bytes)
{
    uint64_t *used = &rows->strings->used;
    uint64_t at = lane_load_8(used);
    if (at > rows->heap_room || bytes > rows->heap_room - at)
        return OPEN_NO_BYTES_LEFT;
    at = lane_draw_8(used, bytes, 1);
    if (at <= rows->heap_room && bytes <= rows->heap_room - at)
        return at;
    open_zero_piece(rows, at, bytes);
    if (at < rows->heap_room) /* the rest of the heap: nobody can take it any more */
        lane_combine_8(&rows->strings->unused[0].bytes, LOOM__ADD, rows->heap_room - at, 1);
    return OPEN_NO_BYTES_LEFT;
}

LOOM_LANE void open_count_unused(const loom__rows_view *rows, uint32_t partition, uint64_t bytes)
{
    if (bytes > 0)
        lane_combine_8(&rows->strings->unused[partition % OPEN_UNUSED_COPIES].bytes, LOOM__ADD, bytes, 1);
}

/* What is left of a share counts as unused. */
LOOM_LANE void open_drop_share(const loom__rows_view *rows, open_share *share)
{
    open_zero_piece(rows, share->at, share->end - share->at);
    open_count_unused(rows, 0, share->end - share->at);
    share->at = share->end;
}

/* Bytes of the pieces that row i of the share's range needs if its key is new. Strings that are too long need none. */
LOOM_LANE uint64_t open_bytes_of_row(const loom__rows_view *rows, const open_share *share, uint64_t i)
{
    uint64_t key = 0, value = 0;
    if (rows->variable & LOOM__VARIABLE_KEYS)
        key = open_string_at((uint64_t)(uintptr_t)(share->keys + i * share->key_stride)).length;
    if (rows->variable & LOOM__VARIABLE_VALUES && share->values != NULL)
        value = open_string_at((uint64_t)(uintptr_t)(share->values + i * share->value_stride)).length;
    if (key > rows->most_key_bytes || value > rows->most_value_bytes)
        return 0;
    return open_piece_of(key) + open_piece_of(value);
}

/* The same of the next count - 1 rows, at most OPEN_SHARE_BYTES. */
LOOM_LANE uint64_t open_bytes_ahead(const loom__rows_view *rows, open_share *share)
{
    uint64_t bytes = 0, i = share->index + 1;
    for (; i < share->n && i < share->index + share->count; i++) {
        const uint64_t one = open_bytes_of_row(rows, share, i);
        if (one > OPEN_SHARE_BYTES - bytes)
            break;
        bytes += one;
    }
    share->count = i - share->index;
    return bytes;
}

/* Takes a piece of the thread's share, or a new share. The first share is for one key. Each that follows is for twice
 * as many, up to OPEN_SHARE_KEYS, if all keys of the last one were new; otherwise for one key again. So if all keys of
 * a range are new, shares leave nothing unused, and if few are, next to nothing.
 *
 * Keys must take their turns one after the other. Shares are then for different keys, so a range takes no more bytes
 * than all its strings need. Calls have shares only if the heap has that much, so no key is refused because other
 * threads hold what it needs. */
LOOM_LANE uint64_t open_take_of_share(const loom__rows_view *rows, open_share *share, uint64_t bytes)
{
    if (bytes > share->end - share->at) {
        const int all_new = share->at == share->end && share->index == share->from + share->count;
        share->count = !all_new || share->count == 0        ? 1
                       : 2 * share->count < OPEN_SHARE_KEYS ? 2 * share->count
                                                            : OPEN_SHARE_KEYS;
        share->from = share->index;
        const uint64_t all = bytes + open_bytes_ahead(rows, share), place = open_take_of_heap(rows, all);
        if (place == OPEN_NO_BYTES_LEFT)
            return place;
        if (place != share->end) { /* another thread took bytes in between */
            open_drop_share(rows, share);
            share->at = place;
        }
        share->end = place + all;
    }
    const uint64_t at = share->at;
    share->at += bytes;
    return at;
}

/* Takes a piece. OPEN_NO_BYTES_LEFT: there is none. */
LOOM_LANE uint64_t open_take_bytes(const loom__rows_view *rows, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    return rows->share != NULL ? open_take_of_share(rows, rows->share, bytes) : open_take_of_heap(rows, bytes);
}

/* Bytes of the piece that a new key and its value need. */
LOOM_LANE uint64_t open_piece_bytes(const loom__rows_view *rows, uint64_t key, uint64_t value)
{
    uint64_t bytes = 0;
    if (rows->variable & LOOM__VARIABLE_KEYS)
        bytes += open_piece_of(open_string_at(key).length);
    if (rows->variable & LOOM__VARIABLE_VALUES)
        bytes += open_piece_of(open_string_at(value).length);
    return bytes;
}

/* Before a claim: makes sure that the walk has a piece. False: the heap has none. Other kinds need no piece. */
LOOM_LANE lane_truth open_has_piece(loom__slot_kind kind, const loom__open_view *view, open_walk *walk, uint64_t value)
{
    if (kind != SLOT_STRING || walk->piece < OPEN_NO_BYTES_LEFT)
        return 1;
    const loom__rows_view *rows = open_rows_of(view);
    walk->piece = open_take_bytes(rows, open_piece_bytes(rows, walk->key, value));
    return walk->piece != OPEN_NO_BYTES_LEFT;
}

/* The piece of a walk that ends without storing its key. */
LOOM_STEP void open_drop_piece(const loom__open_view *view, open_walk *walk, uint64_t value)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (walk->piece < OPEN_NO_BYTES_LEFT) {
        const uint64_t bytes = open_piece_bytes(rows, walk->key, value);
        open_zero_piece(rows, walk->piece, bytes);
        open_count_unused(rows, walk->partition_index, bytes);
    }
    walk->piece = OPEN_NO_PIECE;
}

/* The lanes of a group have one piece. In a turn one lane may take it, use it or find none: the others learn that.
 * `before` is the piece before the turn. So a group whose lane lost a slot uses its piece whichever lane claims the
 * next one. */
LOOM_LANE void open_tell_piece(lane_group group, open_walk *walk, uint64_t before)
{
    const lane_truth changed = walk->piece != before;
    const uint64_t now = lane_sum(group, changed ? walk->piece : 0);
    if (lane_some(lane_poll(group, changed)))
        walk->piece = now;
}

/* The strings of a row that was erased. */
LOOM_STEP void open_drop_strings(const loom__open_view *view, const open_walk *walk, open_row_place row)
{
    const loom__rows_view *rows = open_rows_of(view);
    uint64_t bytes = 0;
    if (rows->variable & LOOM__VARIABLE_KEYS)
        bytes += open_piece_of(open_load_reference(row.key).length);
    if (rows->variable & LOOM__VARIABLE_VALUES)
        bytes += open_load_reference(row.value).mark;
    open_count_unused(rows, walk->partition_index, bytes);
}

/* ---- keys ---- */

/* The key of a row, as walks take it; the row has it at `key`. *own holds the reference, if it needs one. The reference
 * must be sound. */
LOOM_LANE uint64_t open_key_of_row(loom__slot_kind kind, const loom__open_view *view, const unsigned char *key,
                                   loom__string *own)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (!open_has_string_keys(kind, rows))
        return (uint64_t)(uintptr_t)key;
    const open_stored there = open_load_reference(key);
    own->at = (uint64_t)(uintptr_t)rows->heap + there.at;
    own->length = there.length;
    return (uint64_t)(uintptr_t)own;
}

/* The hash of a row's key. The reference must be sound. */
LOOM_LANE uint64_t open_hash_of_row(loom__slot_kind kind, const loom__open_view *view, const unsigned char *key)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (!open_has_string_keys(kind, rows))
        return open_row_hash(key, rows->key_bytes, view->seed);
    const open_stored there = open_load_reference(key);
    return loom__hash_bytes(rows->heap + there.at, there.length, view->seed);
}

/* Whether the row's key is the walk's. The length and 32 bits of the hash refuse nearly every other key. */
LOOM_LANE lane_truth open_same_string(const loom__rows_view *rows, const open_walk *walk, const unsigned char *key)
{
    const loom__string wanted = open_string_at(walk->key);
    const open_stored there = open_load_reference(key);
    if (there.length != wanted.length || there.mark != walk->lower)
        return 0;
    return lane_same_string(rows->heap + there.at, (const unsigned char *)(uintptr_t)wanted.at, there.length);
}

/* ---- rows ---- */

/* Stores the strings of a new row in the walk's piece, and their references in the row. Columns that are no strings are
 * stored as in any row. */
LOOM_STEP void open_store_strings(const loom__rows_view *rows, const open_walk *walk, open_row_place row,
                                  uint64_t value)
{
    uint64_t place = walk->piece;
    if (rows->variable & LOOM__VARIABLE_KEYS) {
        const loom__string key = open_string_at(walk->key);
        open_store_string(rows, place, &key);
        open_store_reference(row.key, place, key.length, walk->lower);
        place += open_piece_of(key.length);
    } else {
        lane_write_bytes(row.key, (const unsigned char *)(uintptr_t)walk->key, rows->key_bytes);
    }
    if (rows->variable & LOOM__VARIABLE_VALUES) {
        const loom__string string = open_string_at(value);
        open_store_string(rows, place, &string);
        open_store_reference(row.value, place, string.length, (uint32_t)open_piece_of(string.length));
    } else if (rows->value_bytes > 0) {
        lane_write_bytes(row.value, (const unsigned char *)(uintptr_t)value, rows->value_bytes);
    }
}

/* A piece for a value that does not fit its old one. A lane that lost its claim has a piece for key and value: the
 * key's part then counts as unused. */
LOOM_LANE uint64_t open_take_value_bytes(const loom__rows_view *rows, open_walk *walk, uint64_t bytes)
{
    if (walk->piece >= OPEN_NO_BYTES_LEFT)
        return open_take_bytes(rows, bytes);
    const uint64_t at = walk->piece;
    uint64_t key_bytes = 0;
    if (rows->variable & LOOM__VARIABLE_KEYS)
        key_bytes = open_piece_of(open_string_at(walk->key).length);
    open_zero_piece(rows, at, key_bytes);
    open_count_unused(rows, walk->partition_index, key_bytes);
    walk->piece = OPEN_NO_PIECE;
    return at + key_bytes;
}

/* Replaces the value whose reference is at `at`. This lane has taken the row. The old piece serves again if the new
 * value fits. False: the heap has no room, and the old value stays. */
LOOM_STEP lane_truth open_replace_string(const loom__rows_view *rows, open_walk *walk, unsigned char *at,
                                         uint64_t value)
{
    const uint32_t partition = walk->partition_index;
    const loom__string string = open_string_at(value);
    open_stored there = open_load_reference(at);
    if (string.length > there.mark) {
        const uint64_t bytes = open_piece_of(string.length), place = open_take_value_bytes(rows, walk, bytes);
        if (place == OPEN_NO_BYTES_LEFT)
            return 0;
        open_count_unused(rows, partition, there.mark);
        there.at = place;
        there.mark = (uint32_t)bytes;
    }
    open_store_string(rows, there.at, &string);
    open_store_reference(at, there.at, string.length, there.mark);
    return 1;
}

#endif
