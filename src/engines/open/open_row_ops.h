/* What a lane does to the row of a slot (open_rows.h): compare the key, store key and value, read and write the
 * value. open_ops.h has the argument why these steps may overlap. */
#ifndef LOOM_OPEN_ROW_OPS_H
#define LOOM_OPEN_ROW_OPS_H

#include "engines/open/open_string_ops.h"

/* The row of a slot of the bucket where the walk stands. */
LOOM_LANE open_row_place open_row_at(const loom__open_view *view, const open_walk *walk, uint32_t slot)
{
    return open_row(open_rows_of(view), walk->partition_index, walk->bucket, slot);
}

/* Whether the key of a row, which is at `key`, is the walk's. */
LOOM_LANE lane_truth open_same_key(loom__slot_kind kind, const loom__open_view *view, const open_walk *walk,
                                   const unsigned char *key)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (open_has_string_keys(kind, rows))
        return open_same_string(rows, walk, key);
    return lane_same_bytes(key, (const unsigned char *)(uintptr_t)walk->key, rows->key_bytes);
}

/* Of this lane's slots with the key's tag, drops those before the slot that holds the key. The result is
 * empty if none of them does. *waits: some slot was not ready, and may hold the key. A lane loads the ready bits
 * itself: its fence does not order what another lane has loaded. At most as many rounds as a line has slots. */
LOOM_LANE lane_slots open_verify(loom__slot_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                                 lane_slots tagged, lane_truth *waits)
{
    const unsigned char *word = open_line(SLOT_TAG, walk, walk->bucket) + OPEN_WORD_OFFSET;
    uint64_t ready = UINT64_MAX;
    *waits = 0;
    if (shared && lane_any(tagged)) {
        ready = lane_load_8((const uint64_t *)word);
        lane_acquire(shared); /* the row was stored before its ready bit */
    }
    for (; lane_any(tagged); tagged = lane_rest(tagged, slot_stride(SLOT_TAG))) {
        const uint32_t slot = lane_first(tagged, slot_stride(SLOT_TAG));
        if (!(ready >> slot & 1))
            *waits = 1;
        else if (open_same_key(kind, view, walk, open_row_at(view, walk, slot).key))
            break;
    }
    return tagged;
}

/* open_look_at for tags. `further` is for the walk's own filter bit. */
LOOM_LANE open_look open_look_at_tags(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                      const open_walk *walk, lane_truth active)
{
    lane_line line;
    open_look look;
    lane_truth waits = 0;
    look.mine = 0;
    look.slot = 0;
    look.pair = 0;
    lane_take(group, &line, open_line(SLOT_TAG, walk, walk->bucket), shared, active, open_span(SLOT_TAG));
    if (active) {
        const lane_slots tagged =
            lane_match(&line, slot_key_bytes(SLOT_TAG), slot_stride(SLOT_TAG), open_slots(SLOT_TAG), walk->tag);
        const lane_slots hits = open_verify(kind, shared, view, walk, tagged, &waits);
        look.mine = lane_any(hits);
        look.slot = lane_first(hits, slot_stride(SLOT_TAG));
    }
    const lane_votes holders = lane_poll(group, look.mine);
    look.found = lane_some(holders);
    if (shared == OPEN_MIXED) /* the key may be in two slots, as in open_look_at */
        look.mine = lane_chosen(group, holders);
    look.further = lane_some(
        lane_poll(group, active & lane_filter(group, &line, OPEN_WORD_OFFSET, open_filter_bit(SLOT_TAG, walk->lower))));
    look.waits = lane_some(lane_poll(group, waits));
    return look;
}

/* Stores key and value in the row of a slot that this lane has claimed. `value` is an address. */
LOOM_LANE void open_store_row(loom__slot_kind kind, const loom__open_view *view, const open_walk *walk, uint32_t bucket,
                              uint32_t slot, uint64_t value)
{
    const loom__rows_view *rows = open_rows_of(view);
    const open_row_place row = open_row(rows, walk->partition_index, bucket, slot);
    if (kind == SLOT_STRING) {
        open_store_strings(rows, walk, row, value);
        return;
    }
    lane_write_bytes(row.key, (const unsigned char *)(uintptr_t)walk->key, rows->key_bytes);
    if (rows->value_bytes > 0)
        lane_write_bytes(row.value, (const unsigned char *)(uintptr_t)value, rows->value_bytes);
}

/* Reads or writes the value of a row, which is no number and may take many accesses. The lane takes the slot by
 * clearing its ready bit, and gives it back by setting the bit. False: another lane has the slot. SLOT_TAG, OVERWRITE,
 * staged: the lane keeps the slot, and the caller stores the value and gives the slot back. SLOT_STRING: a value for
 * which the heap has no room sets walk->piece to OPEN_NO_BYTES_LEFT. */
LOOM_LANE lane_truth open_meet_wide(loom__slot_kind kind, slot_mode mode, int shared, const loom__open_view *view,
                                    open_walk *walk, uint32_t slot, const uint64_t *value)
{
    const loom__rows_view *rows = open_rows_of(view);
    unsigned char *at = open_row_at(view, walk, slot).value;
    uint64_t *word = (uint64_t *)(open_line(SLOT_TAG, walk, walk->bucket) + OPEN_WORD_OFFSET);
    const uint64_t ready = (uint64_t)1 << slot;
    if (shared && !(lane_and_8(word, ~ready, shared) & ready))
        return 0;
    lane_acquire(shared); /* what the former owner wrote comes before what this lane reads and writes */
    if (kind == SLOT_TAG && mode == SLOT_OVERWRITE && walk->staged) {
        walk->taken = 1;
        walk->free_bucket = walk->bucket;
        walk->free_slot = slot;
        return 1;
    }
    if (open_has_string_values(kind, rows)) {
        if (!open_replace_string(rows, walk, at, value[0])) {
            open_drop_piece(view, walk, value[0]);
            walk->piece = OPEN_NO_BYTES_LEFT;
        }
    } else if (mode == SLOT_OVERWRITE)
        lane_write_bytes(at, (const unsigned char *)(uintptr_t)value[0], rows->value_bytes);
    else if (mode == SLOT_FETCH)
        lane_read_bytes((unsigned char *)(uintptr_t)value[1], at, rows->value_bytes);
    lane_release(shared); /* what this lane read and wrote comes before the ready bit */
    if (shared)
        lane_or_8(word, ready, shared);
    return 1;
}

/* open_meet for a row whose key this lane has compared. value[0] is the address of the given value, value[1] where
 * FETCH stores the found value; 0: nowhere. LOCATE leaves the value to the caller. Strings are not fetched: of them,
 * only OVERWRITE writes a value. */
LOOM_LANE lane_truth open_meet_row(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                                   const loom__open_view *view, open_walk *walk, uint32_t slot, const uint64_t *value)
{
    const loom__rows_view *rows = open_rows_of(view);
    unsigned char *at = open_row_at(view, walk, slot).value;
    uint64_t number = 0;
    if (mode == SLOT_KEEP || mode == SLOT_LOCATE || rows->value_bytes == 0 || (mode == SLOT_FETCH && value[1] == 0))
        return 1;
    if (mode == SLOT_FETCH && shared == OPEN_MIXED && !open_row_has_number(rows)) { /* nobody writes values */
        lane_read_bytes((unsigned char *)(uintptr_t)value[1], at, rows->value_bytes);
        return 1;
    }
    if (!open_row_has_number(rows))
        return open_meet_wide(kind, mode, shared, view, walk, slot, value);
    if (mode == SLOT_FETCH) {
        number = rows->value_bytes == 8 ? lane_load_8((const uint64_t *)at) : lane_load_4((const uint32_t *)at);
        memcpy((void *)(uintptr_t)value[1], &number, rows->value_bytes);
        return 1;
    }
    memcpy(&number, (const void *)(uintptr_t)value[0], rows->value_bytes);
    if (mode == SLOT_OVERWRITE && rows->value_bytes == 8)
        lane_store_8((uint64_t *)at, number);
    else if (mode == SLOT_OVERWRITE)
        lane_store_4((uint32_t *)at, (uint32_t)number);
    else if (rows->value_bytes == 8)
        lane_combine_8((uint64_t *)at, rule, number, shared);
    else
        lane_combine_4((uint32_t *)at, rule, (uint32_t)number, shared);
    return 1;
}

/* ---- whole rows ---- */

/* Puts a copy of a row into a slot that was free. The strings of the row stay where they are. False: another lane took
 * the slot first. */
LOOM_LANE lane_truth open_put_row(int shared, const loom__open_view *view, const open_walk *walk, uint32_t bucket,
                                  uint32_t slot, open_row_place row)
{
    const loom__rows_view *rows = open_rows_of(view);
    const open_row_place to = open_row(rows, walk->partition_index, bucket, slot);
    unsigned char *line = open_line(SLOT_TAG, walk, bucket);
    if (!slot_swap_tag(shared, line, slot, walk->tag))
        return 0;
    lane_write_bytes(to.key, row.key, rows->key_bytes);
    if (rows->value_bytes > 0)
        lane_write_bytes(to.value, row.value, rows->value_bytes);
    lane_release(shared); /* as in open_claim */
    lane_or_8((uint64_t *)(line + OPEN_WORD_OFFSET), (uint64_t)1 << slot, shared);
    return 1;
}

/* The lower half of the hash of a row's key, if that is a string; otherwise 0. */
LOOM_LANE uint32_t open_mark_of(loom__slot_kind kind, const loom__open_view *view, const unsigned char *key)
{
    return open_has_string_keys(kind, open_rows_of(view)) ? open_load_reference(key).mark : 0;
}

/* The walk of a row's key, which is at `key`, belongs to `partition` and has this tag and this mark (open_mark_of): a
 * string itself is not read. The walk has no key then. */
LOOM_LANE open_walk open_start_row(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, uint32_t tag,
                                   const unsigned char *key, uint32_t mark)
{
    if (!open_has_string_keys(kind, open_rows_of(view)))
        return open_start(kind, view, (uint64_t)(uintptr_t)key);
    open_walk walk = open_start_at(kind, view, 0, mark);
    walk.partition_index = partition;
    walk.partition = view->base + loom__multiply_wide(partition, view->partition_bytes);
    walk.tag = tag;
    return walk;
}

#endif
