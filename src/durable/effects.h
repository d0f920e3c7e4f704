/* Net effects: which keys have which value after a batch, and which keys are absent. They are gathered by looking the
 * batch's keys up in the table right after the batch, so they are right whatever the batch did, also if it was refused
 * in part. As a sequence of pieces (durable_layout.h) they are the payload of records and snapshots. */
#ifndef LOOM_DURABLE_EFFECTS_H
#define LOOM_DURABLE_EFFECTS_H

#include "core/table.h"
#include "durable/blocks.h"

/* Host memory for the pairs of one piece. */
typedef struct loom__pairs {
    uint32_t key_bytes, value_bytes;
    uint64_t room; /* most pairs of a piece; follows from the widths, so that files agree */
    unsigned char *keys, *values;
    uint8_t *status;
    unsigned char *memory;
    uint64_t bytes;
} loom__pairs;

loom_status loom__pairs_create(const loom_allocator *allocator, uint32_t key_bytes, uint32_t value_bytes,
                               loom__pairs *pairs);
void loom__pairs_destroy(const loom_allocator *allocator, loom__pairs *pairs);

/* Most pairs of a piece. */
uint64_t loom__piece_room(uint32_t key_bytes, uint32_t value_bytes);

/* Pieces that wait for a commit. */
typedef struct loom__effects {
    const loom_allocator *allocator;
    unsigned char *bytes;
    uint64_t used, room;
    uint64_t most; /* more bytes than this cannot be a record */
    /* 1: they do not tell all that changed, for lack of memory or room, or since a call failed half-way. Only a
     * checkpoint can commit it. They are empty then. */
    int incomplete;
} loom__effects;

void loom__effects_reset(loom__effects *effects); /* keeps the memory */
void loom__effects_destroy(loom__effects *effects);
void loom__effects_give_up(loom__effects *effects);
int loom__effects_are_none(const loom__effects *effects);

/* Each adds a piece, or more. A lack of memory is no failure: the effects are incomplete then. */
void loom__effects_clear(loom__effects *effects);
void loom__effects_erase_range(loom__effects *effects, uint32_t value_bytes, loom_number number, const void *least,
                               const void *most);
/* The effects on n keys, which may lie wherever a call's arrays may: looks them up. Waits. */
void loom__effects_gather(loom__effects *effects, loom__table *table, loom__pairs *pairs, const void *keys, uint64_t n,
                          loom_stream stream);
/* The same for the rows of a mixed batch that may write. */
void loom__effects_gather_operations(loom__effects *effects, loom__table *table, loom__pairs *pairs,
                                     const uint8_t *operations, const void *keys, uint64_t n, loom_stream stream);

/* ---- Replay ---- */

/* What pieces are done to. */
typedef struct loom__replay_target {
    void *user;
    loom_status (*put)(void *user, const void *keys, const void *values, uint64_t n);
    loom_status (*erase)(void *user, const void *keys, uint64_t n);
    loom_status (*clear)(void *user);
    loom_status (*erase_range)(void *user, loom_number number, const void *least, const void *most);
} loom__replay_target;

/* Reads `bytes` of pieces and does them to the target. *put: pairs of PUT pieces are added to it. NOT_FOUND, without a
 * sentence: these are no such pieces. */
loom_status loom__effects_replay(loom__block_reader *reader, uint64_t bytes, loom__pairs *pairs,
                                 const loom__replay_target *target, uint64_t *put);

#endif
