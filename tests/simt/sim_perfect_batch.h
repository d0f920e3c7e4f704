/* Insertions into a nearly full partition of a perfect table, in the lane simulator: what the cases of
 * sim_perfect_room.h and sim_perfect_repair.h share. All keys are of partition 0, except one key of partition 1,
 * which must not change. There is one batch at a time. */
#ifndef LOOM_SIM_PERFECT_BATCH_H
#define LOOM_SIM_PERFECT_BATCH_H

#include "simt/machine/simt_perfect.h"
#include "simt/sim_draw.h"
#include "simt/sim_perfect_table.h"

enum {
    SIM_BATCH_MOST_ITEMS = 12,
    SIM_BATCH_MOST_KEYS = 17 * 16 + SIM_BATCH_MOST_ITEMS /* every slot, and every item */
};

typedef struct sim_batch_state {
    const sim_case *c;
    simt_config config;
    uint64_t keys[SIM_BATCH_MOST_KEYS];
    sim_state before[SIM_BATCH_MOST_KEYS]; /* of each key */
    uint32_t key_count;
    simt_perfect_call call;
    uint32_t of[SIM_BATCH_MOST_ITEMS]; /* the key of each item */
    simt_map_item items[SIM_BATCH_MOST_ITEMS];
    _Alignas(64) unsigned char memory[SIMT_MOST_WORDS * 8]; /* when a run begins */
} sim_batch_state;

extern sim_batch_state sim_batch;

/* ---- Scenarios ---- */

/* A key of this partition that the batch does not have yet. */
uint64_t sim_batch_draw_key(uint32_t partition);
/* Adds an absent key. Returns its index. */
uint32_t sim_batch_add_key(uint64_t key);
/* Stores `wanted` keys, or as many as find room. `holes`: sometimes erases a few again. One table in `mark_one_in`
 * is marked. */
void sim_batch_fill(uint32_t wanted, int holes, uint32_t mark_one_in);
/* Draws the lanes, the groups and the kind of insertion. */
void sim_batch_draw_call(simt_map_op op, uint64_t seed, int tiny, uint64_t step_limit);
void sim_batch_set_item(uint32_t item, uint32_t key);
/* The scenario is complete: runs begin with the table as it is now. */
void sim_batch_drawn(void);

/* ---- Verdict ---- */

/* Where the contents of `at` from before the run are. */
const void *sim_batch_before(const void *at);
/* Bytes of the table: partitions, codes, totals and marks. They come first in memory. */
size_t sim_batch_table_bytes(void);
/* Some order of the answered items explains each key, P1 to P3 hold, and no key is lost. Items with the status
 * `left` were not answered. `any_wins`: of equal keys that overwrite values outside of the slots, any one may win. */
void sim_batch_judge_keys(loom_status left, int any_wins);
/* No cell has come to the stash or left it, and no cell is still held: a held cell has the code of the stash. */
void sim_batch_judge_codes(void);
void sim_batch_judge_other_partition(void);

/* ---- Runs ---- */

typedef struct sim_batch_kernel {
    simt_perfect_kernel *kernel;
    const char *name;
    void (*judge)(void);                        /* after a run that came to its end; NULL: nothing is left to judge */
    void (*describe)(char *text, size_t bytes); /* for the report: how the call makes room */
} sim_batch_kernel;

/* One run from the beginning. 1: all is well. */
int sim_batch_run(const sim_batch_kernel *kernel, simt_schedule *schedule, const sim_options *options);

#endif
