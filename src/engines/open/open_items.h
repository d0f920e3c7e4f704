/* Turns whose answers also say which lane reports them. They are for machines on which all groups of a warp take their
 * turns together: the lane simulator and GPUs. All lanes of a warp call these functions together; a group without a key
 * takes part with active = 0. A group whose key is settled takes its next key while the other groups continue with
 * theirs. A CPU takes turns in a different sequence: cpu_open_simd.h. */
#ifndef LOOM_OPEN_ITEMS_H
#define LOOM_OPEN_ITEMS_H

#include "engines/open/open_ops.h"

/* Answer of one turn of a lookup. */
typedef struct open_found {
    lane_truth settled; /* the same on all lanes of the group */
    lane_truth found;   /* the same on all lanes of the group */
    lane_truth reports; /* this lane reports the answer */
    uint64_t value;     /* on the lane that reports: the value, or 0 */
} open_found;

/* Answer of one turn of an insertion, update or erasure. */
typedef struct open_answer {
    open_outcome outcome; /* the same on all lanes of the group; GO_ON: not settled yet */
    lane_truth reports;   /* this lane reports the answer */
} open_answer;

/* Looks for the key in one line. `settled` says that no other line needs to be read. */
LOOM_LANE open_found open_find_in_line(loom__slot_kind kind, int shared, lane_group group, const unsigned char *line,
                                       uint64_t key, uint32_t filter_bit, lane_truth active)
{
    open_found answer;
    uint64_t value = 0;
    open_look look = open_look_at(kind, shared, group, line, key, filter_bit, active);
    lane_truth holds = look.mine, found = look.found;
    if (look.mine)
        holds = open_read_value(kind, shared, line, look.slot, look.pair, &value);
    if (shared && slot_values_apart(kind))
        found = lane_some(lane_poll(group, holds)); /* a key counts as found only if its value is ready */
    answer.settled = look.found | !look.further;
    answer.found = found;
    answer.reports = found ? holds : lane_leads(group);
    answer.value = found ? value : 0;
    return answer;
}

LOOM_LANE open_found open_find_item(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                    open_walk *walk, lane_truth active)
{
    open_found answer = open_find_in_line(kind, shared, group, open_line(kind, walk, walk->bucket), walk->key,
                                          open_filter_bit(kind, walk->lower), active);
    answer.settled |= walk->depth + 1 >= view->buckets;
    if (!answer.settled)
        open_advance(view, walk);
    return answer;
}

/* The answer of a lookup in a table with rows, after a turn. A key that is not settled goes on to its next bucket. */
LOOM_LANE open_found open_found_row(lane_group group, const loom__open_view *view, open_walk *walk,
                                    const open_look *look)
{
    open_found answer;
    answer.settled = look->found | !look->further;
    answer.found = look->found;
    answer.reports = look->found ? look->mine : lane_leads(group);
    answer.value = 0;
    if (!answer.settled)
        open_advance(view, walk);
    return answer;
}

/* The same for tables with rows. The lane that reports copies the value to `to`, unless that is NULL; if values are
 * strings, `to` gets a loom__string. A key counts as found if its slot was ready when the lane looked: *linearisation
 * point: the load of the ready bit*. An erasure leaves the row and its strings as they are, and no row gets another key
 * while erasures run. */
LOOM_LANE open_found open_find_row_of(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                      open_walk *walk, unsigned char *to, lane_truth active)
{
    const loom__rows_view *rows = open_rows_of(view);
    const open_look look = open_find_turn(kind, shared, group, view, walk, active);
    if (look.mine && to != NULL) {
        const unsigned char *at = open_row_at(view, walk, look.slot).value;
        if (open_has_string_values(kind, rows)) {
            const open_stored there = open_load_reference(at);
            loom__string *string = (loom__string *)(void *)to;
            string->at = (uint64_t)(uintptr_t)(rows->heap + there.at);
            string->length = there.length;
        } else {
            lane_read_bytes(to, at, rows->value_bytes);
        }
    }
    return open_found_row(group, view, walk, &look);
}

/* Rows without strings. */
LOOM_LANE open_found open_find_row(int shared, lane_group group, const loom__open_view *view, open_walk *walk,
                                   unsigned char *to, lane_truth active)
{
    return open_find_row_of(SLOT_TAG, shared, group, view, walk, to, active);
}

/* Copies this lane's part of `bytes` bytes, in words of 8. */
LOOM_LANE void open_load_part(unsigned char *to, const unsigned char *at, uint32_t bytes, uint32_t lane, uint32_t lanes)
{
    const uint32_t words = (bytes + 7) / 8, begin = words * lane / lanes * 8, end = words * (lane + 1) / lanes * 8;
    lane_read_bytes(to + begin, at + begin, (end < bytes ? end : bytes) - begin);
}

/* open_find_row, but all lanes of the group copy the value, each a part of it. `to` is NULL, or memory that all of them
 * can write. Nobody takes rows meanwhile, and rows get no other key. */
LOOM_LANE open_found open_find_together(int shared, lane_group group, const loom__open_view *view, open_walk *walk,
                                        unsigned char *to, lane_truth active)
{
    const loom__rows_view *rows = open_rows_of(view);
    const uint32_t words = lane_words(group), lanes = 8 / words, lane = lane_first_word(group) / words;
    const open_look look = open_find_turn(SLOT_TAG, shared, group, view, walk, active);
    const uint32_t none = open_slots(SLOT_TAG), slot = lane_least(group, look.mine ? look.slot : none);
    lane_join(group, shared); /* what the lane that compared the key has acquired comes before what all lanes read */
    if (look.found && to != NULL)
        open_load_part(to, open_row_at(view, walk, slot).value, rows->value_bytes, lane, lanes);
    lane_sync(group, shared); /* all parts are there before any lane reads them */
    return open_found_row(group, view, walk, &look);
}

/* A lookup beside groups that take rows (open_meet_wide): it takes the row itself to read a wide value, and waits while
 * a slot with its tag is not ready. The lane that reports copies the value to `to`, unless that is NULL. */
LOOM_LANE open_found open_find_taking(int shared, lane_group group, const loom__open_view *view, open_walk *walk,
                                      unsigned char *to, lane_truth active)
{
    uint64_t value[2] = {0, (uint64_t)(uintptr_t)to};
    lane_truth met;
    const open_outcome outcome = open_meet_turn(SLOT_TAG, SLOT_FETCH, shared, group, view, walk, value, active, &met);
    open_found answer;
    answer.settled = outcome != OPEN_GO_ON;
    answer.found = outcome == OPEN_DONE;
    answer.reports = answer.found ? met : lane_leads(group);
    answer.value = 0;
    return answer;
}

/* FETCH, RESERVE: *value is valid on the lane that reports. */
LOOM_LANE open_answer open_insert_item(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                                       lane_group group, const loom__open_view *view, open_walk *walk, uint64_t *value,
                                       lane_truth active)
{
    open_answer answer;
    lane_truth tells;
    answer.outcome = open_insert_turn(kind, mode, rule, shared, group, view, walk, value, active, &tells);
    const lane_truth fetches = mode == SLOT_FETCH || mode == SLOT_RESERVE;
    const lane_truth refused = answer.outcome == OPEN_NO_ROOM || answer.outcome == OPEN_NO_BYTES;
    answer.reports = fetches && !refused ? tells : lane_leads(group);
    return answer;
}

/* Stores this lane's part of `bytes` bytes, in words of 8. */
LOOM_LANE void open_store_part(unsigned char *at, uint64_t from, uint32_t bytes, uint32_t lane, uint32_t lanes)
{
    const uint32_t words = (bytes + 7) / 8, begin = words * lane / lanes * 8, end = words * (lane + 1) / lanes * 8;
    lane_write_bytes(at + begin, (const unsigned char *)(uintptr_t)from + begin, (end < bytes ? end : bytes) - begin);
}

/* The same for a string, in whole words of the heap. */
LOOM_LANE void open_store_string_part(const loom__rows_view *rows, uint64_t place, const loom__string *string,
                                      uint32_t lane, uint32_t lanes)
{
    const uint32_t bytes = (uint32_t)string->length, words = (bytes + 7) / 8, begin = words * lane / lanes * 8;
    const uint32_t end = words * (lane + 1) / lanes * 8;
    if (begin < end)
        lane_write_string(rows->heap + place + begin, (const unsigned char *)(uintptr_t)string->at + begin,
                          (end < bytes ? end : bytes) - begin);
}

/* open_store_strings, by several lanes. `place` is the row's piece of the heap. */
LOOM_LANE void open_store_strings_part(const loom__rows_view *rows, const open_walk *walk, open_row_place row,
                                       uint64_t place, uint64_t value, uint32_t lane, uint32_t lanes)
{
    uint64_t value_place = place;
    if (rows->variable & LOOM__VARIABLE_KEYS) {
        const loom__string key = open_string_at(walk->key);
        open_store_string_part(rows, place, &key, lane, lanes);
        if (lane == 0)
            open_store_reference(row.key, place, key.length, walk->lower);
        value_place += open_piece_of(key.length);
    } else {
        open_store_part(row.key, walk->key, rows->key_bytes, lane, lanes);
    }
    if (rows->variable & LOOM__VARIABLE_VALUES) {
        const loom__string string = open_string_at(value);
        open_store_string_part(rows, value_place, &string, lane, lanes);
        if (lane == lanes - 1)
            open_store_reference(row.value, value_place, string.length, (uint32_t)open_piece_of(string.length));
    } else {
        open_store_part(row.value, value, rows->value_bytes, lane, lanes);
    }
}

/* For walks with `staged`: whether this lane holds slot walk->free_slot of bucket walk->free_bucket after a turn with
 * this outcome. It has claimed the slot for a new row. Or it has taken the slot of a key that is present (walk->taken);
 * then only the value is to be stored. */
LOOM_LANE lane_truth open_holds_slot(const open_walk *walk, open_outcome outcome)
{
    return outcome != OPEN_GO_ON && (walk->taken || (outcome == OPEN_DONE && walk->free_slot < open_slots(SLOT_TAG)));
}

/* For walks with `staged`. All lanes call this after each turn; `outcome` is the turn's, or OPEN_GO_ON if the group has
 * no key. If a lane holds a slot, the lanes of the group store the row and its strings, or only the value, each a part
 * of them, and the lane that holds the slot makes the row ready. A machine may let more lanes take part
 * (cuda_rows_write.cuh). */
LOOM_LANE void open_store_together(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                   const open_walk *walk, uint64_t value, open_outcome outcome)
{
    const loom__rows_view *rows = open_rows_of(view);
    const uint32_t words = lane_words(group), lanes = 8 / words, lane = lane_first_word(group) / words;
    const lane_truth holds = open_holds_slot(walk, outcome);
    const lane_truth taken = lane_some(lane_poll(group, holds && walk->taken));
    const uint32_t none = open_slots(SLOT_TAG), slot = lane_least(group, holds ? walk->free_slot : none);
    const uint64_t piece = kind == SLOT_STRING ? lane_sum(group, holds ? walk->piece : 0) : 0;
    /* What the former owner of a taken slot stored comes before what all lanes store. The memory models require this
     * join. The simulator does not need it: there a released store comes before all stores that are made later. */
    lane_join(group, shared);
    if (slot != none) {
        const uint32_t bucket = taken ? walk->bucket : walk->free_bucket; /* the same on all lanes of the group */
        const open_row_place row = open_row(rows, walk->partition_index, bucket, slot);
        if (kind == SLOT_STRING) {
            open_store_strings_part(rows, walk, row, piece, value, lane, lanes);
        } else {
            if (!taken)
                open_store_part(row.key, walk->key, rows->key_bytes, lane, lanes);
            open_store_part(row.value, value, rows->value_bytes, lane, lanes);
        }
    }
    lane_join(group, shared); /* all parts come before the ready bit */
    if (holds)
        open_publish(shared, open_line(SLOT_TAG, walk, walk->free_bucket), slot);
}

/* Erases the key of a slot with a row, by one lane: open_erase_slot where the number of the slot, counted over the
 * table, is all that is known of the key. */
LOOM_LANE lane_truth open_erase_located(int shared, const loom__open_view *view, uint64_t number)
{
    const uint64_t line = number / open_slots(SLOT_TAG);
    const uint32_t slot = (uint32_t)(number % open_slots(SLOT_TAG));
    open_walk here = open_start_at(SLOT_TAG, view, 0, 0);
    here.partition_index = (uint32_t)(line / view->buckets);
    here.bucket = (uint32_t)(line % view->buckets);
    const unsigned char *key = open_row_at(view, &here, slot).key;
    return open_erase_slot(SLOT_TAG, shared, view, &here, slot, (uint64_t)(uintptr_t)key, 0);
}

LOOM_LANE open_answer open_update_item(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                       open_walk *walk, uint64_t value, lane_truth active)
{
    open_answer answer = {open_update_turn(kind, shared, group, view, walk, value, active), lane_leads(group)};
    return answer;
}

LOOM_LANE open_answer open_erase_item(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                      open_walk *walk, lane_truth active)
{
    open_answer answer = {open_erase_turn(kind, shared, group, view, walk, active), lane_leads(group)};
    return answer;
}

#endif
