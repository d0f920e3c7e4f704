/* Surveys one partition of a perfect table that has no writers. Machines distribute the partitions and add up the
 * results. */
#ifndef LOOM_PERFECT_SURVEY_H
#define LOOM_PERFECT_SURVEY_H

#include "core/batch.h"
#include "engines/perfect/perfect_ops.h"

#include <string.h>

typedef struct perfect_sums {
    uint64_t size, fullest, stashed;
    uint64_t lowest_bad_inverted; /* the maximum of ~bucket belongs to the lowest bad bucket; zero: none */
} perfect_sums;

/* Do all words carry one salt (P3)? */
LOOM_LANE int perfect_salts_agree(const loom__perfect_view *view, uint32_t partition)
{
    const uint64_t *words = view->codes + (uint64_t)partition * view->words;
    int agree = 1;
    for (uint32_t i = 1; i < view->words; i++)
        agree &= perfect_salt(words[i]) == perfect_salt(words[0]);
    return agree;
}

/* Adds one bucket's contents to `sums`, and checks P1 and P2 in it. */
LOOM_LANE void perfect_survey_bucket(loom__slot_kind kind, lane_group alone, const loom__perfect_view *view,
                                     uint32_t partition, uint32_t number, perfect_sums *sums)
{
    unsigned char *base = view->base + (uint64_t)partition * view->partition_bytes;
    const unsigned char *line = perfect_line(kind, base, number);
    const uint64_t empty = perfect_empty(view, partition);
    int sound = 1;
    for (uint32_t slot = 0; slot < perfect_slots(kind); slot++) {
        uint64_t pair;
        const uint64_t key = perfect_load_slot(kind, line, slot, &pair);
        if (key == empty) {
            sound &= perfect_value_in(kind, view, base, number, slot, pair) == 0; /* P2 */
            continue;
        }
        perfect_seek seek = perfect_start(kind, view, key);
        int here = seek.partition_index == partition;
        if (here) {
            perfect_settle(view, &seek, lane_load_8(perfect_word_of(view, &seek)));
            perfect_look look = perfect_find(kind, 0, alone, &seek, 1);
            here = seek.bucket == number && look.slot == slot;
        }
        sound &= here; /* P1 */
        sums->size++;
        sums->stashed += number == PERFECT_SUBRANGES * view->subrange;
    }
    uint64_t inverted = ~((uint64_t)partition * perfect_buckets(view->subrange) + number);
    if (!sound && inverted > sums->lowest_bad_inverted)
        sums->lowest_bad_inverted = inverted;
}

/* The survey that follows from the sums over all partitions. A lookup always reads one bucket. */
LOOM_BOTH loom__survey perfect_survey_of(const perfect_sums *sums)
{
    loom__survey survey;
    memset(&survey, 0, sizeof survey);
    survey.size = sums->size;
    survey.fullest_partition = sums->fullest;
    survey.longest_chain = sums->size > 0;
    survey.hit_accesses = sums->size;
    survey.miss_accesses = 1;
    survey.stashed = sums->stashed;
    survey.first_bad = ~sums->lowest_bad_inverted;
    return survey;
}

#endif
