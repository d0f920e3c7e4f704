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
                                 uint32_t partition, uint32_t number, uint32_t slot)
{
    open_walk walk = open_start(kind, view, key);
    if (walk.partition_index != partition)
        return 0;
    open_look look = open_search(kind, group, view, &walk);
    return look.found && walk.bucket == number && look.slot == slot ? walk.depth + 1 : 0;
}

/* ---- Survey ---- */

typedef struct open_sums {
    uint64_t size, fullest, displaced, longest, accesses, filter_bits;
    uint64_t lowest_bad_inverted; /* maximum of ~bucket over all bad buckets; zero: none is bad */
} open_sums;

/* Adds one bucket's contents to `sums`, and checks the invariants of open_ops.h in it. */
LOOM_LANE void open_survey_bucket(loom__slot_kind kind, lane_group group, const loom__open_view *view,
                                  uint32_t partition, uint32_t number, open_sums *sums)
{
    unsigned char *base = view->base + (uint64_t)partition * view->partition_bytes;
    unsigned char *line = base + (uint64_t)number * open_line_stride(kind);
    uint64_t word = *(const uint64_t *)(line + OPEN_WORD_OFFSET), empty = open_empty(view, partition);
    uint32_t slots = open_slots(kind), ready_bits = open_ready_bits(kind), used = 0;
    uint32_t ready = (uint32_t)(word & (((uint64_t)1 << ready_bits) - 1)), holders = 0;
    int sound = 1;
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t key = slot_key(kind, line, slot);
        if (key == empty) {       /* I3 */
            if (kind == SLOT_TAG) /* the row of a free slot may hold anything */
                continue;
            if (kind == SLOT_PAIR_4_4)
                sound &= *(const uint64_t *)(line + slot * 8) >> 32 == 0;
            else if (slot_values_apart(kind))
                sound &= slot_load_value(kind, open_value(kind, view, base, line, slot)) == 0;
            continue;
        }
        if (kind == SLOT_TAG)
            key = (uint64_t)(uintptr_t)open_row(open_rows_of(view), partition, number, slot);
        uint32_t depth = open_depth_of(kind, group, view, key, partition, number, slot);
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
    uint64_t inverted = ~((uint64_t)partition * view->buckets + number);
    if (!sound && inverted > sums->lowest_bad_inverted)
        sums->lowest_bad_inverted = inverted;
}

/* Computes the survey from the sums over all buckets. */
LOOM_BOTH loom__survey open_survey_of(const loom__open_view *view, const open_sums *sums)
{
    double filter_bits = 64.0 - open_ready_bits((loom__slot_kind)view->kind);
    double passes = (double)sums->filter_bits / ((double)view->partitions * view->buckets * filter_bits);
    loom__survey survey;
    survey.size = sums->size;
    survey.fullest_partition = sums->fullest;
    survey.displaced = sums->displaced;
    survey.longest_chain = sums->longest;
    survey.hit_accesses = sums->accesses;
    survey.miss_accesses = passes < 1 ? 1 / (1 - passes) : (double)view->buckets;
    survey.stashed = 0;
    survey.first_bad = ~sums->lowest_bad_inverted;
    return survey;
}

#endif
