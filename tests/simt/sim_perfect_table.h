/* The perfect table that cases of the lane simulator work on: two partitions of 9 or 17 buckets. Plain code sets it up
 * and reads it while no lane runs. There is one at a time. */
#ifndef LOOM_SIM_PERFECT_TABLE_H
#define LOOM_SIM_PERFECT_TABLE_H

#include "engines/perfect/perfect_layout.h"
#include "simt/sim_history.h"

#include <stddef.h>

struct perfect_scratch; /* perfect_cells.h */

typedef struct sim_perfect_table {
    loom__slot_kind kind;
    loom__perfect_view view;
    size_t bytes; /* of sim_perfect_memory in use, the team's included */
    /* of a team: behind the table, in the same memory */
    struct perfect_scratch *scratch;
    unsigned char *spare;
} sim_perfect_table;

/* How an absent key finds room, by perfect_recode.h. */
typedef enum sim_perfect_way {
    SIM_ANY_WAY, /* if at all */
    SIM_BUCKET_HAS_ROOM,
    SIM_CELL_CAN_MOVE /* its own, or the first in its bucket that can */
} sim_perfect_way;

extern sim_perfect_table sim_perfect;
extern unsigned char sim_perfect_memory[]; /* the memory that lanes may touch; the table comes first */

/* An empty table, all codes 0. `for_team`: with a scratch. */
void sim_perfect_make(loom__slot_kind kind, uint32_t subrange, uint32_t words, uint64_t seed, int for_team);
/* More memory behind it, aligned to 16 bytes, for a team without a scratch. */
void *sim_perfect_take(size_t bytes);
/* Gives an empty partition another salt, and with `codes` != NULL, words of codes: [words], whose own salt is
 * ignored. */
void sim_perfect_set_codes(uint32_t partition, uint32_t salt, const uint64_t *codes);

uint32_t sim_perfect_partition_of(uint64_t key);
uint32_t sim_perfect_bucket_of(uint64_t key); /* in its partition */
uint32_t sim_perfect_used(uint32_t partition, uint32_t bucket);
int sim_perfect_in_stash(uint64_t key); /* that is where it lies, if it does */

sim_perfect_way sim_perfect_way_of(uint64_t key);

/* Stores a key; with `make_room` a full bucket is no hindrance, as long as room can be made. 0: not stored. */
int sim_perfect_store(uint64_t key, uint64_t value, int make_room);
void sim_perfect_remove(uint64_t key);
sim_state sim_perfect_read(uint64_t key);
/* Checks P1 to P3 of perfect_ops.h and the number of keys. An error becomes the run's failure (simt_fail). */
void sim_perfect_judge(uint64_t size);
/* Nothing of a plan is left on the scratch. */
void sim_perfect_judge_scratch(void);

void sim_perfect_name_word(const void *at, char *text, size_t bytes);

#endif
