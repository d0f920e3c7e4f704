/* Reads a table that has no writers: the survey of one bucket, and the number of buckets that a lookup reads. Machines
 * distribute buckets and keys over threads, and add up the results. */
#ifndef LOOM_OPEN_SURVEY_H
#define LOOM_OPEN_SURVEY_H

#include "core/batch.h"
#include "engines/open/open_ops.h"

/* ---- Probe sequences ---- */

/* Takes turns until the key is found or known to be absent. Ends after at most view->buckets turns. */
LOOM_LANE open_look open_search(loom__slot_kind kind, lane_group group, const loom__open_view *view, open_walk *walk)
{
    for (;;) {
        open_look look = open_find_turn(kind, 0, group, view, walk, 1);
        if (look.found || !look.further)
            return look;
        open_advance(view, walk);
    }
}

/* Buckets that a lookup of the key reads, whether the key is present or absent. */
LOOM_LANE uint32_t open_count_accesses(loom__slot_kind kind, lane_group group, const loom__open_view *view,
                                       uint64_t key)
{
    open_walk walk = open_start(kind, view, key);
    (void)open_search(kind, group, view, &walk);
    return walk.depth + 1;
}

/* Buckets that a lookup of the key reads, if the lookup finds the key in exactly this slot; otherwise 0. */
LOOM_LANE uint32_t open_depth_of(loom__slot_kind kind, lane_group group, const loom__open_view *view, uint64_t key,
                                 uint64_t hash, uint32_t partition, uint32_t number, uint32_t slot)
{
    open_walk walk = open_start_at(kind, view, key, hash);
    if (walk.partition_index != partition)
        return 0;
    open_look look = open_search(kind, group, view, &walk);
    return look.found && walk.bucket == number && look.slot == slot ? walk.depth + 1 : 0;
}

/* ---- Survey ---- */

typedef struct open_sums {
    uint64_t size, fullest, displaced, longest, accesses, filter_bits;
    uint64_t lowest_bad_inverted; /* maximum of ~bucket over all bad buckets; zero: none is bad */
    /* SLOT_STRING: bytes of strings, and of their pieces; where the last piece ends */
    uint64_t string_bytes, in_heap, heap_end;
} open_sums;

/* Sets the bits of a piece in the map. False: another piece lies there, too. Lanes that survey other rows set bits at
 * the same time: of two pieces that overlap, the one that comes later at a common word sees the other's bits. A piece
 * stops at the first bit that it meets, so all pieces together take no more steps than the map has words, and one more
 * each. */
LOOM_LANE lane_truth open_survey_place(const loom__rows_view *rows, uint64_t at, uint64_t piece)
{
    const uint64_t begin = at / OPEN_PIECE_ALIGNMENT, end = begin + piece / OPEN_PIECE_ALIGNMENT;
    for (uint64_t bit = begin; bit < end;) {
        const uint64_t next = (bit / 64 + 1) * 64, stop = next < end ? next : end;
        const uint64_t bits = ~(uint64_t)0 >> (64 - (stop - bit)) << bit % 64; /* 1 to 64 of them */
        if (bits & lane_fetch_or_8(rows->piece_map + bit / 64, bits, 1))
            return 0;
        bit = stop;
    }
    return 1;
}

/* Whether a piece lies in the heap, its string in the piece, and no other piece there. If so, adds both to the sums. */
LOOM_LANE lane_truth open_survey_piece(const loom__rows_view *rows, open_stored string, uint64_t piece, uint64_t most,
                                       open_sums *sums)
{
    if (string.length > piece || string.length > most || (string.at | piece) % OPEN_PIECE_ALIGNMENT != 0 ||
        string.at > rows->heap_room || piece > rows->heap_room - string.at)
        return 0;
    if (rows->piece_map != NULL && !open_survey_place(rows, string.at, piece))
        return 0;
    sums->string_bytes += string.length;
    sums->in_heap += piece;
    if (piece > 0 && string.at + piece > sums->heap_end)
        sums->heap_end = string.at + piece;
    return 1;
}

/* Whether the references of a row are sound. */
LOOM_LANE lane_truth open_survey_row(loom__slot_kind kind, const loom__open_view *view, open_row_place row,
                                     open_sums *sums)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (open_has_string_keys(kind, rows)) {
        const open_stored key = open_load_reference(row.key);
        if (!open_survey_piece(rows, key, open_piece_of(key.length), rows->most_key_bytes, sums) ||
            (uint32_t)open_hash_of_row(kind, view, row.key) != key.mark)
            return 0;
    }
    if (open_has_string_values(kind, rows)) {
        const open_stored value = open_load_reference(row.value);
        return open_survey_piece(rows, value, value.mark, rows->most_value_bytes, sums);
    }
    return 1;
}

LOOM_LANE void open_survey_note_bad(const loom__open_view *view, uint32_t partition, uint32_t number, open_sums *sums)
{
    const uint64_t inverted = ~((uint64_t)partition * view->buckets + number);
    if (inverted > sums->lowest_bad_inverted)
        sums->lowest_bad_inverted = inverted;
}

/* SLOT_STRING: checks all references of a bucket. False: a search in its partition might read outside of the heap, so
 * the partition's buckets must not be surveyed. */
LOOM_LANE lane_truth open_survey_strings(loom__slot_kind kind, const loom__open_view *view, uint32_t partition,
                                         uint32_t number, open_sums *sums)
{
    const unsigned char *line =
        view->base + (uint64_t)partition * view->partition_bytes + (uint64_t)number * open_line_stride(kind);
    lane_truth sound = 1;
    for (uint32_t slot = 0; slot < open_slots(kind); slot++)
        if (slot_key(kind, line, slot) != 0)
            sound &= open_survey_row(kind, view, open_row(open_rows_of(view), partition, number, slot), sums);
    if (!sound)
        open_survey_note_bad(view, partition, number, sums);
    return sound;
}

/* Adds one bucket's contents to `sums`, and checks the invariants of open_ops.h in it. */
LOOM_LANE void open_survey_bucket(loom__slot_kind kind, lane_group group, const loom__open_view *view,
                                  uint32_t partition, uint32_t number, open_sums *sums)
{
    unsigned char *base = view->base + (uint64_t)partition * view->partition_bytes;
    unsigned char *line = base + (uint64_t)number * open_line_stride(kind);
    uint64_t word = open_load_word(kind, line), empty = open_empty(view, partition);
    uint32_t slots = open_slots(kind), ready_bits = open_ready_bits(kind), used = 0;
    uint32_t ready = (uint32_t)(word & (((uint64_t)1 << ready_bits) - 1)), holders = 0;
    int sound = 1;
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t key = slot_key(kind, line, slot);
        if (key == empty) {         /* I3 */
            if (slot_has_tag(kind)) /* the row of a free slot may hold anything */
                continue;
            if (kind == SLOT_PAIR_4_4)
                sound &= *(const uint64_t *)(line + slot * 8) >> 32 == 0;
            else if (slot_values_apart(kind))
                sound &= slot_load_value(kind, line + open_value_place(kind, slot)) == 0;
            continue;
        }
        loom__string own;
        uint64_t hash;
        if (slot_has_tag(kind)) {
            const unsigned char *there = open_row(open_rows_of(view), partition, number, slot).key;
            key = open_key_of_row(kind, view, there, &own);
            hash = open_hash_of_row(kind, view, there);
        } else {
            hash = open_hash(kind, view, key);
        }
        uint32_t depth = open_depth_of(kind, group, view, key, hash, partition, number, slot);
        sound &= depth > 0; /* I1, I2 */
        sums->size++;
        sums->accesses += depth;
        sums->displaced += depth > 1;
        sums->longest = depth > sums->longest ? depth : sums->longest;
        holders |= (uint32_t)1 << slot;
        used++;
    }
    sums->filter_bits += loom__count_bits(word >> ready_bits);
    sound &= ready_bits == 0 || ready == holders;                  /* I4 */
    sound &= used == slots || view->marks[partition] != OPEN_FULL; /* I5 */
    if (!sound)
        open_survey_note_bad(view, partition, number, sums);
}

/* Computes the survey from the sums over all buckets. */
LOOM_BOTH loom__survey open_survey_of(const loom__open_view *view, const open_sums *sums)
{
    const double filter_bits = open_filter_bits((loom__slot_kind)view->kind);
    double passes = (double)sums->filter_bits / ((double)view->partitions * view->buckets * filter_bits);
    loom__survey survey;
    memset(&survey, 0, sizeof survey);
    survey.size = sums->size;
    survey.fullest_partition = sums->fullest;
    survey.displaced = sums->displaced;
    survey.longest_chain = sums->longest;
    survey.hit_accesses = sums->accesses;
    survey.miss_accesses = passes < 1 ? 1 / (1 - passes) : (double)view->buckets;
    survey.first_bad = ~sums->lowest_bad_inverted;
    survey.string_bytes = sums->string_bytes;
    survey.in_heap = sums->in_heap;
    survey.heap_end = sums->heap_end;
    return survey;
}

#endif
