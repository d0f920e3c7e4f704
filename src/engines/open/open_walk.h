/* One key on its probe sequence in an open table, and what one turn sees there. open_ops.h has the algorithms and their
 * invariants. */
#ifndef LOOM_OPEN_WALK_H
#define LOOM_OPEN_WALK_H

#include "core/slot_ops.h"
#include "engines/open/open_layout.h"
#include "engines/open/open_rows.h"

#define OPEN_NO_SLOT UINT32_MAX
#define OPEN_EAGERLY UINT32_MAX

/* Values of open_walk.piece that are no place in the heap. */
#define OPEN_NO_PIECE      UINT64_MAX       /* none was taken yet */
#define OPEN_NO_BYTES_LEFT (UINT64_MAX - 1) /* the heap has no room for the strings: the key is refused */

/* Values of `shared`: which other operations run on the table at the same time. */
enum {
    OPEN_ALONE = 0,  /* no writers; or the caller owns the partition */
    OPEN_SHARED = 1, /* one kind of writer, and lookups */
    OPEN_MIXED = 2,  /* insertions that keep, find-or-insert, erasures and lookups */
    OPEN_UNREAD = 3  /* one kind of writer */
};

/* One key on its probe sequence. */
typedef struct open_walk {
    uint64_t key;             /* rows: the address of the key, or of its loom__string */
    unsigned char *partition; /* start of its memory */
    uint32_t partition_index;
    uint32_t lower; /* lower half of the hash: home, step and filter bit */
    uint32_t bucket;
    uint32_t depth; /* buckets passed; always below view->buckets, which bounds every walk */
    /* insert: the first free slot seen on the sequence */
    uint32_t free_bucket, free_depth, free_slot;
    uint32_t marked_to;  /* insert: the bit is set before this depth; OPEN_EAGERLY: in every bucket left behind */
    uint32_t knows_full; /* insert: 1 once OPEN_FULL was seen (I5): lines read later are final */
    uint32_t tag;        /* rows alone */
    /* rows: 1: the caller stores new rows, strings included, and wide values that replace others, after the turn that
     * settles the key; then it calls open_publish (open_store_together) */
    uint32_t staged;
    uint32_t taken; /* staged: 1: this lane has taken slot free_slot of bucket free_bucket, whose key is present */
    uint64_t piece; /* SLOT_STRING, insert: where the strings go in the heap; OPEN_NO_PIECE; OPEN_NO_BYTES_LEFT */
} open_walk;

LOOM_LANE unsigned char *open_line(loom__slot_kind kind, const open_walk *walk, uint32_t bucket)
{
    return walk->partition + (uint64_t)bucket * open_line_stride(kind);
}

/* Bytes from a line to the value of a slot, where values lie apart from keys. */
LOOM_LANE uint32_t open_value_place(loom__slot_kind kind, uint32_t slot)
{
    return open_value_offset(kind) + slot * slot_value_bytes(kind);
}

/* The number of the key's filter bit in the word, the same in every bucket. */
LOOM_LANE uint32_t open_filter_bit(loom__slot_kind kind, uint32_t lower)
{
    return open_ready_bits(kind) + loom__hash_filter_bit(lower, open_filter_bits(kind));
}

/* The value of a slot of a line that this group has taken, with the same `shared`. */
LOOM_LANE uint64_t open_load_value(loom__slot_kind kind, int shared, const unsigned char *line, uint32_t slot)
{
    const unsigned char *at = line + open_value_place(kind, slot);
    if (!open_has_narrow_word(kind)) /* behind the line */
        return slot_load_value(kind, at);
    return slot_value_bytes(kind) == 8 ? lane_reload_8((const uint64_t *)at, shared)
                                       : lane_reload_4((const uint32_t *)at, shared);
}

/* ---- The word of a line, in the table ---- */

LOOM_LANE uint64_t open_load_word(loom__slot_kind kind, const unsigned char *line)
{
    const unsigned char *at = line + open_word_offset(kind);
    return open_has_narrow_word(kind) ? lane_load_4((const uint32_t *)at) : lane_load_8((const uint64_t *)at);
}

LOOM_LANE void open_store_word(loom__slot_kind kind, unsigned char *line, uint64_t word)
{
    unsigned char *at = line + open_word_offset(kind);
    if (open_has_narrow_word(kind))
        lane_store_4((uint32_t *)at, (uint32_t)word);
    else
        lane_store_8((uint64_t *)at, word);
}

LOOM_LANE void open_set_in_word(loom__slot_kind kind, unsigned char *line, uint32_t bit, int shared)
{
    unsigned char *at = line + open_word_offset(kind);
    if (open_has_narrow_word(kind))
        lane_or_4((uint32_t *)at, (uint32_t)1 << bit, shared);
    else
        lane_or_8((uint64_t *)at, (uint64_t)1 << bit, shared);
}

/* Clears a bit. False: it was clear. */
LOOM_LANE lane_truth open_clear_in_word(loom__slot_kind kind, unsigned char *line, uint32_t bit, int shared)
{
    unsigned char *at = line + open_word_offset(kind);
    if (open_has_narrow_word(kind))
        return lane_and_4((uint32_t *)at, ~((uint32_t)1 << bit), shared) >> bit & 1;
    return (lane_truth)(lane_and_8((uint64_t *)at, ~((uint64_t)1 << bit), shared) >> bit & 1);
}

/* What a line holds of the wanted key. */
LOOM_LANE uint64_t open_wanted(loom__slot_kind kind, const open_walk *walk)
{
    return slot_has_tag(kind) ? walk->tag : walk->key;
}

LOOM_STEP uint64_t open_string_hash(uint64_t key, loom__seed seed)
{
    const loom__string string = open_string_at(key);
    return loom__hash_bytes((const void *)(uintptr_t)string.at, string.length, seed);
}

LOOM_LANE uint64_t open_hash(loom__slot_kind kind, const loom__open_view *view, uint64_t key)
{
    if (kind == SLOT_STRING && open_rows_of(view)->variable & LOOM__VARIABLE_KEYS)
        return open_string_hash(key, view->seed);
    if (slot_has_tag(kind))
        return open_row_hash_called((const unsigned char *)(uintptr_t)key, open_rows_of(view)->key_bytes, view->seed);
    return loom__hash_key(key, slot_key_bytes(kind), view->seed);
}

/* The walk of a key whose hash is known. */
LOOM_LANE open_walk open_start_at(loom__slot_kind kind, const loom__open_view *view, uint64_t key, uint64_t hash)
{
    open_walk walk;
    walk.key = key;
    if (slot_has_tag(kind)) {
        walk.tag = open_tag(hash);
        walk.taken = 0;
    }
    walk.staged = 0;
    if (kind == SLOT_STRING)
        walk.piece = OPEN_NO_PIECE;
    walk.partition_index = loom__hash_partition(hash, view->partitions);
    walk.partition = view->base + loom__multiply_wide(walk.partition_index, view->partition_bytes);
    walk.lower = (uint32_t)hash;
    walk.bucket = loom__hash_bucket(walk.lower, view->buckets);
    walk.depth = 0;
    walk.free_bucket = walk.free_depth = 0;
    walk.free_slot = OPEN_NO_SLOT;
    walk.marked_to = OPEN_EAGERLY;
    walk.knows_full = 0;
    return walk;
}

LOOM_LANE open_walk open_start(loom__slot_kind kind, const loom__open_view *view, uint64_t key)
{
    return open_start_at(kind, view, key, open_hash(kind, view, key));
}

LOOM_LANE uint32_t open_next_bucket(const loom__open_view *view, uint32_t lower, uint32_t bucket)
{
    uint32_t next = bucket + loom__hash_step(lower, view->buckets);
    return next >= view->buckets ? next - view->buckets : next;
}

LOOM_LANE void open_advance(const loom__open_view *view, open_walk *walk)
{
    walk->bucket = open_next_bucket(view, walk->lower, walk->bucket);
    walk->depth++;
}

/* Bytes to fetch together with a line. Where the values fill the next 64 bytes, a hit reads both, and one fetch of 128
 * bytes costs little more than one line. */
LOOM_LANE uint32_t open_span(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

/* What one turn of a lookup saw. The struct has truth values instead of an outcome, because a CPU must not branch on
 * whether a key was found. */
typedef struct open_look {
    lane_truth found;   /* a lane of this group holds the key */
    lane_truth further; /* the key's filter bit is set in this bucket */
    lane_truth mine;    /* this lane holds the key */
    lane_truth waits;   /* rows: a slot has the key's tag and is not ready */
    uint32_t slot;      /* if `mine`: the slot */
    uint64_t pair;      /* PAIR_4_4: the pair itself */
} open_look;

#endif
