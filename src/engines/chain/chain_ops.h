/* The chain engine's algorithms: what a lane group does to a list. Users' kernels (loom/device_multi.cuh) and the lane
 * simulator compile this source. Bulk calls plan whole lists instead (chain_plan.h).
 *
 * The directory is searched by the open engine's turns (open_ops.h). What follows happens to one list, by the one lane
 * of a group that holds the list's handle.
 *
 * Append. A lane reserves the next place of the newest bucket by a compare-and-swap (CAS) of the handle, whose count
 * goes up by one, and stores its value there. *Linearisation point: the successful CAS.* If the list has no room, one
 * lane puts the handle into the state *touched* by a CAS. This lane alone may change a touched handle. It takes a
 * bucket from the heap, writes the link and its own value, and stores the new handle. *Linearisation point: the store
 * of the new handle.* If the heap has no room, the lane stores the handle that it found, and its value is refused. A
 * lane that sees this beforehand touches nothing.
 *
 *   state                    what an append does
 *   0                        takes another turn: the handle of a new key is not visible yet
 *   NONE                     touches it, and takes the first bucket. Where one value fits the handle, a key never has
 *                            this state: it is stored with its first value
 *   ONE                      touches it, and takes a first bucket for both values
 *   LIST, LARGE with room    reserves a place
 *   LIST, LARGE, full        touches it, and takes a further bucket, whose link names the newest one so far
 *   touched                  takes another turn
 *
 * A turn makes at most one CAS on a handle, and never waits inside. A lane that meets a touched handle is turned away
 * as long as the lane that touched it takes its bucket: an atomic addition and four stores. A lane whose CAS fails has
 * lost to another append. So among any number of lanes one always comes to its end.
 *
 * What an append must know of its list is in the handle, as far as possible. The handle is zero until it is stored, so
 * no ready bit is read again, and no fence orders the two. The fill tells how many values the newest bucket has, if the
 * bucket has room for LIST_MOST_FILL values at most. Then no append reads the bucket's link, and no fence orders the
 * link before the handle. Lookups read links when appends have ended. On an H200, Nsight Compute showed where lanes
 * waited in 10^8 appends to 12.5 million new lists (34.8 ms): for that fence 19 % of the time, for the ready bit 8 %,
 * for the addition to `used` by each lane 15 %, and for a load of `used` before each CAS that touches a list 12 %.
 *
 * Two appends never get one place. A place belongs to a count of a bucket, counts only go up while appends run, and a
 * CAS that raises a count fails if the handle has changed in any way. A handle that was touched and given back without
 * a bucket is again what it was: no place was given away meanwhile.
 * Two lists never share memory: each bucket comes from an addition of its own to `used`, which only goes up while
 * appends run. One addition at most begins within the heap and passes its end; its lane stores in `end` where it began.
 * All later ones fail. When all appends have ended, `used` becomes `end`. Until then smaller buckets are refused, too,
 * although one might fit: if refused additions were taken back at once, a small one could be taken back after a larger
 * one, below a bucket that was given in between. So little is lost, larger buckets (CHAIN_SMALL) are only added if they
 * fit a moment before.
 *
 * Which operations may overlap. Only what the lane simulator has shown (tests/simt/sim_chain.c) is allowed:
 *   - appends with appends, and with lookups that read the handle alone (contains, counts): a count includes places
 *     that are reserved, and all values before a place that an ended append got, also one of the same group;
 *   - erasures of keys with erasures, and with lookups of all values: lists stay in the heap until the table moves.
 * Appends must not overlap with lookups of values. A lookup could read a place that is reserved, but not stored yet
 * (case chain/append+find_all). To know which places are stored, each append would need a second atomic operation, and
 * each bucket a word for it; appends would cost twice as much. Appends and erasures must not overlap either, as in open
 * tables.
 *
 * The heap behind `used` is zero when appends begin, so what a bucket has behind its values is zero, too: files hold it.
 *
 * A key whose first bucket was refused stays in the directory, in the state NONE, and counts as absent. The append
 * sets lists->bare. The machine erases these keys when the last view ends (cuda_chain_views.cu). */
#ifndef LOOM_CHAIN_OPS_H
#define LOOM_CHAIN_OPS_H

#include "engines/chain/chain_layout.h"
#include "engines/open/open_items.h"

#define CHAIN_NO_PLACE UINT64_MAX

/* ---- values and links ---- */

LOOM_LANE uint64_t chain_load_value(const loom__multi_view *view, uint64_t place)
{
    const unsigned char *at = multi_value_at(view, place);
    return view->value_bytes == 4 ? lane_load_4((const uint32_t *)at) : lane_load_8((const uint64_t *)at);
}

LOOM_LANE void chain_store_value(const loom__multi_view *view, uint64_t place, uint64_t value)
{
    unsigned char *at = multi_value_at(view, place);
    if (view->value_bytes == 4)
        lane_store_4((uint32_t *)at, (uint32_t)value);
    else
        lane_store_8((uint64_t *)at, value);
}

/* The link in front of `place`. With values of 4 bytes it is aligned to 4 bytes only. */
LOOM_LANE uint64_t chain_load_link(const loom__multi_view *view, uint64_t place)
{
    if (view->value_bytes == 8)
        return chain_load_value(view, place - 1);
    return chain_load_value(view, place - 2) | chain_load_value(view, place - 1) << 32;
}

/* The part of the link that says how many values are in all pieces before. */
LOOM_LANE uint64_t chain_load_before(const loom__multi_view *view, uint64_t place)
{
    return list_link_before(chain_load_value(view, place - list_link_values(view->value_bytes)));
}

LOOM_LANE void chain_store_link(const loom__multi_view *view, uint64_t place, uint64_t link)
{
    if (view->value_bytes == 8) {
        chain_store_value(view, place - 1, link);
    } else {
        chain_store_value(view, place - 2, (uint32_t)link);
        chain_store_value(view, place - 1, link >> 32);
    }
}

/* ---- pieces, for lookups of values, which no append overlaps ---- */

/* The newest piece of a list in the heap. */
LOOM_LANE loom__list_piece chain_newest_piece(const loom__multi_view *view, uint64_t handle)
{
    loom__list_piece piece;
    piece.place = list_first(handle);
    piece.linked = list_is_linked(handle);
    piece.before = piece.linked ? chain_load_before(view, piece.place) : 0;
    piece.count = list_count(handle) - piece.before;
    return piece;
}

/* The piece before a linked one. */
LOOM_LANE loom__list_piece chain_older_piece(const loom__multi_view *view, const loom__list_piece *newer)
{
    const uint64_t link = chain_load_link(view, newer->place);
    loom__list_piece piece;
    piece.place = list_link_place(link);
    piece.linked = list_link_linked(link);
    piece.before = piece.linked ? chain_load_before(view, piece.place) : 0;
    piece.count = newer->before - piece.before;
    return piece;
}

/* ---- append ---- */

typedef enum chain_outcome {
    CHAIN_GO_ON = 0, /* not decided: take another turn */
    CHAIN_DONE,
    CHAIN_REFUSED /* the key or the value has no room, or the key has as many values as it may */
} chain_outcome;

/* What an append changed. */
typedef struct chain_appended {
    uint64_t number;  /* of the value in its list */
    uint64_t in_heap; /* values that lie in the heap now, and did not before */
} chain_appended;

/* The next bucket of a list. `all` is what it takes of the heap. A bucket at a multiple of a unit takes up to a unit
 * more, since the addition does not know how much is lost in front of it. */
typedef struct chain_bucket {
    uint64_t before; /* values of the list that do not lie in it */
    uint64_t link;   /* values of the heap that its link takes */
    uint64_t values;
    uint64_t all;
    loom__list_kind kind;
    int exact;
    int has_fill; /* the handle tells how many values it has: nobody reads the link while appends run */
} chain_bucket;

LOOM_LANE chain_bucket chain_next_bucket(const loom__multi_view *view, uint64_t handle)
{
    chain_bucket next;
    const uint64_t count = list_count(handle);
    next.before = list_in_heap(handle) ? count : 0;
    next.link = list_in_heap(handle) ? list_link_values(view->value_bytes) : 0;
    const uint64_t usual = chain_bucket_values(view, next.before), least = count + 1 - next.before;
    next.values = usual > least ? usual : least; /* a first bucket of 1 is too small for ONE and another */
    next.exact = next.values != usual;
    next.kind = list_kind_for(next.before + next.values);
    next.all = next.link + next.values + (next.kind == LIST_LARGE ? LIST_LARGE_UNIT - 1 : 0);
    next.has_fill = next.link > 0 && next.kind == LIST_SHORT && next.values <= LIST_MOST_FILL;
    return next;
}

/* Whether the heap surely has no room for the bucket, and will have none while appends run. */
LOOM_LANE lane_truth chain_is_used_up(const loom__multi_view *view, const chain_bucket *next)
{
    const uint64_t used = lane_load_8(&view->lists->used);
    return used > view->room || next->all > view->room - used;
}

/* Takes a bucket of the heap. Returns where its values begin, or CHAIN_NO_PLACE. */
LOOM_LANE uint64_t chain_take(int shared, const loom__multi_view *view, const chain_bucket *next)
{
    const uint64_t old = lane_draw_8(&view->lists->used, next->all, shared);
    if (old <= view->room && next->all <= view->room - old)
        return old + next->link + multi_padding(next->kind, old + next->link);
    if (old <= view->room)
        lane_store_8(&view->lists->end, old);
    return CHAIN_NO_PLACE;
}

/* Refuses a value of the list with this handle. */
LOOM_LANE chain_outcome chain_refuse(const loom__multi_view *view, uint64_t handle)
{
    if (list_count(handle) == 0)
        lane_store_8(&view->lists->bare, 1);
    return CHAIN_REFUSED;
}

/* Gives a list that this lane has touched another bucket, with `value` in it. `seen` is its handle, not touched. */
LOOM_LANE chain_outcome chain_extend(int shared, const loom__multi_view *view, uint64_t *at, uint64_t seen,
                                     const chain_bucket *next, uint64_t value, chain_appended *told)
{
    const uint64_t count = list_count(seen), place = chain_take(shared, view, next);
    if (place == CHAIN_NO_PLACE) {
        /* The link that another lane wrote comes before the handle, also for a lane that reads it from this store. The
         * memory models require this fence; the simulator does not find its lack. */
        lane_release(shared);
        lane_store_8(at, seen);
        return chain_refuse(view, seen);
    }
    if (next->link > 0)
        chain_store_link(view, place, list_link_make(list_is_linked(seen), list_first(seen), next->before));
    else if (count > 0)
        chain_store_value(view, place, list_one_value(seen));
    chain_store_value(view, place + count - next->before, value);
    if (next->link > 0 && !next->has_fill)
        lane_release(shared); /* the link comes before the handle that names its bucket */
    lane_store_8(at, list_make(next->kind, place, count + 1, next->exact) | (next->link > 0 ? LIST_LINKED : 0) |
                         (next->has_fill ? LIST_ONE_FILL : 0));
    told->number = count;
    told->in_heap = count + 1 - next->before;
    return CHAIN_DONE;
}

/* The values of a list that do not lie in its newest bucket. */
LOOM_LANE uint64_t chain_before(int shared, const loom__multi_view *view, uint64_t handle)
{
    if (!list_in_heap(handle) || !list_is_linked(handle))
        return 0;
    if (list_fill(handle) > 0)
        return list_count(handle) - list_fill(handle);
    lane_acquire(shared); /* the link was written before this handle */
    return chain_load_before(view, list_first(handle));
}

/* One turn of an append to the list whose handle is at `at`. `again`: not the first turn. Runs on one lane. */
LOOM_LANE chain_outcome chain_append_to(int shared, const loom__multi_view *view, uint64_t *at, uint64_t value,
                                        lane_truth again, chain_appended *told)
{
    const uint64_t seen = lane_load_8(at), count = list_count(seen);
    /* 0: the memory models let a lane see a ready bit before the handle that was stored first. On real machines and in
     * the simulator the CAS below would only fail. */
    if (seen == 0 || list_is_touched(seen))
        return CHAIN_GO_ON;
    if (count >= view->most)
        return CHAIN_REFUSED;
    const uint64_t before = chain_before(shared, view, seen);
    if (count >= chain_capacity(view, seen, before)) {
        const chain_bucket next = chain_next_bucket(view, seen);
        /* From its second turn on, an append that will be refused does not wait for others to the same key. A bucket
         * that is not small is never taken in vain: that would close the heap for smaller ones. And `used` cannot
         * overflow: that takes 2^58 small buckets taken in vain, years of work. */
        if ((again || next.all > CHAIN_SMALL) && chain_is_used_up(view, &next))
            return chain_refuse(view, seen);
        if (lane_swap_8(at, seen, seen | LIST_TOUCHED, shared) != seen)
            return CHAIN_GO_ON;
        return chain_extend(shared, view, at, seen, &next, value, told);
    }
    if (lane_swap_8(at, seen, seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0), shared) != seen)
        return CHAIN_GO_ON;
    chain_store_value(view, list_first(seen) + count - before, value);
    told->number = count;
    told->in_heap = 1;
    return CHAIN_DONE;
}

/* One key on its way to its list. */
typedef struct chain_walk {
    open_walk open;
    lane_truth located; /* the same on all lanes of the group */
    lane_truth again;   /* a turn at the list has not come to its end */
    uint64_t *at;       /* once located, on one lane: the handle; otherwise NULL */
} chain_walk;

LOOM_LANE chain_walk chain_start(loom__slot_kind kind, const loom__multi_view *view, uint64_t key)
{
    chain_walk walk;
    walk.open = open_start(kind, &view->directory, key);
    walk.located = walk.again = 0;
    walk.at = NULL;
    return walk;
}

/* Answer of one turn of an append. */
typedef struct chain_answer {
    chain_outcome outcome; /* the same on all lanes of the group */
    lane_truth reports;    /* this lane reports the answer; `told` is valid there if the outcome is DONE */
    lane_truth new_key;    /* this lane has stored the key in the directory, in this turn */
    chain_appended told;
} chain_answer;

/* One turn of an append: one of the directory's turns until the key is located, then one at its list. An absent key is
 * stored with the value in its handle, or without a value. All lanes of a warp may call this together. */
LOOM_LANE chain_answer chain_append_item(loom__slot_kind kind, int shared, lane_group group,
                                         const loom__multi_view *view, chain_walk *walk, uint64_t value,
                                         lane_truth active)
{
    chain_answer answer;
    uint64_t handle = multi_has_ones(view) ? list_of_one((uint32_t)value) : LIST_BARE;
    lane_truth tells;
    answer.told.number = answer.told.in_heap = 0;
    const open_outcome found = open_insert_turn(kind, SLOT_LOCATE, LOOM__ADD, shared, group, &view->directory,
                                                &walk->open, &handle, active & !walk->located, &tells);
    answer.new_key = found == OPEN_DONE && tells;
    if (found == OPEN_DONE || found == OPEN_WAS_THERE) {
        walk->located = 1;
        if (found == OPEN_WAS_THERE && walk->open.marked_to < walk->open.depth)
            lane_acquire(shared); /* filter bits that this careful walk passed: a count that follows must see them */
        if (tells)
            walk->at = (uint64_t *)(void *)(open_line(kind, &walk->open, walk->open.free_bucket) +
                                            open_value_place(kind, walk->open.free_slot));
    }
    chain_outcome own = CHAIN_GO_ON;
    if (active && walk->at != NULL) {
        own = answer.new_key && multi_has_ones(view)
                  ? CHAIN_DONE
                  : chain_append_to(shared, view, walk->at, value, walk->again, &answer.told);
        walk->again = 1;
    }
    const lane_truth done = lane_some(lane_poll(group, own == CHAIN_DONE));
    const lane_truth refused = lane_some(lane_poll(group, own == CHAIN_REFUSED));
    lane_join(group, shared); /* the ready bit that one lane saw: a count that follows must see it on all lanes */
    answer.outcome = done ? CHAIN_DONE : refused || found == OPEN_NO_ROOM ? CHAIN_REFUSED : CHAIN_GO_ON;
    answer.reports = found == OPEN_NO_ROOM ? lane_leads(group) : own != CHAIN_GO_ON;
    return answer;
}

#endif
