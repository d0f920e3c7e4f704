/* The simulator's shared memory: relaxed accesses with release and acquire fences, nearly as weak as C11 and the
 * PTX memory model have them. docs/simulator.md tells where they differ.
 *
 * Memory is an array of 8-byte words. Each word has a history: the values it had, oldest first. The newest value is
 * also in the real memory: code that reads a table between runs needs to know nothing of histories.
 *
 *   - A *store* goes into its lane's buffer. It becomes visible (is appended to the history) later: stores of one
 *     lane to different words in any order, to the same word in program order.
 *   - A *load* returns its lane's own buffered value, or any value of the history that is not older than what the
 *     lane has seen. The lane's *view* records this: one position in the history of each word.
 *   - A *read-modify-write* works on the newest value and appends to the history at once. An OR without a result
 *     waits in the buffer like a store, and works on the newest value when it leaves the buffer.
 *   - A *release* empties the buffer and remembers the lane's view. Values that the lane appends from then on carry
 *     it. A read-modify-write also carries on what the value it replaced carried.
 *   - An *acquire* adds to the lane's view what was carried by the values it has read.
 *   - The end of a call acquires, releases and empties the buffers of all its lanes. The beginning of a call sees
 *     all calls that ended before.
 *
 * Accesses of 4 bytes, or of 1, change a part of a word and are otherwise the same. No word is ever seen torn. Each
 * half of a value carries views by itself: a store to one half does not change the other half, nor the view that it
 * carries. */
#ifndef LOOM_SIMT_MEMORY_H
#define LOOM_SIMT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    SIMT_MOST_WORDS = 2048,
    SIMT_MOST_VALUES = 1 << 16, /* of a word in a run: positions in a history are 16 bits wide */
    SIMT_MOST_VIEWS = 1 << 16,  /* that values carry in a run */
    SIMT_BUFFER = 16            /* stores that may wait in a lane; one more drives out the oldest */
};

/* For each word the oldest position of its history that may still be read. */
typedef struct simt_view {
    uint16_t at[SIMT_MOST_WORDS];
} simt_view;

/* `bytes` of a word, from bit `shift` on: the part that an access is about. A load returns the whole word, though. */
typedef struct simt_part {
    uint32_t word, shift, bytes;
} simt_part;

typedef struct simt_buffered {
    simt_part part;
    uint64_t value;
    int adds_bits; /* an OR without a result */
    const simt_view *carries;
} simt_buffered;

typedef struct simt_memory_lane {
    simt_view seen;
    simt_view pending;         /* carried by values it has read; joins `seen` at an acquire */
    const simt_view *released; /* what its stores carry; NULL: nothing */
    simt_buffered buffer[SIMT_BUFFER];
    uint32_t buffered;
} simt_memory_lane;

typedef struct simt_value {
    uint64_t value;
    const simt_view *carries[2]; /* the lower half and the upper one */
} simt_value;

typedef struct simt_history {
    simt_value *values; /* [room]; [0] is what the word held when the run began */
    uint32_t count, room;
} simt_history;

typedef struct simt_memory {
    uint64_t *words;
    uint32_t word_count;
    simt_history history[SIMT_MOST_WORDS];
    uint32_t changed[SIMT_MOST_WORDS], changed_count; /* words that were touched */
    simt_view finished;                               /* what calls that ended have seen and written */
    simt_view *pool;                                  /* of carried views, given back when a run begins */
    uint32_t pool_used;
    int spent; /* more values, or more views, than there is room for: the run is of no worth from then on */
} simt_memory;

void simt_memory_begin(simt_memory *memory, void *shared, size_t bytes);
/* The word that `at` lies in; -1 if it is outside, or not aligned. */
int64_t simt_memory_word(const simt_memory *memory, const void *at, uint32_t bytes);

void simt_memory_lane_begin(simt_memory *memory, simt_memory_lane *lane);
/* At the end of a call, when the buffer is empty. */
void simt_memory_lane_end(simt_memory *memory, simt_memory_lane *lane);

/* How many values of its history the lane may read, the newest included; at least 1. */
uint32_t simt_memory_choices(const simt_memory *memory, const simt_memory_lane *lane, uint32_t word);
/* Reads the value `age` places before the newest. */
uint64_t simt_memory_load(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint32_t age);
void simt_memory_store(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t value);
void simt_memory_add_bits(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t bits);
/* Whether entry `index` of the buffer may leave it now: no older one is for the same word. */
int simt_memory_may_drain(const simt_memory_lane *lane, uint32_t index);
/* Returns the word. */
uint32_t simt_memory_drain(simt_memory *memory, simt_memory_lane *lane, uint32_t index);
void simt_memory_drain_all(simt_memory *memory, simt_memory_lane *lane);
/* A read-modify-write: the lane's own stores to this word become visible, then the newest value is read, then the new
 * value is appended. The new value is a whole word and differs in the part alone. */
uint64_t simt_memory_newest(simt_memory *memory, simt_memory_lane *lane, simt_part part);
void simt_memory_append(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t value);
void simt_memory_release(simt_memory *memory, simt_memory_lane *lane);
void simt_memory_acquire(simt_memory *memory, simt_memory_lane *lane);
/* Adds what `from` has seen to what `to` has. */
void simt_memory_join(const simt_memory *memory, simt_view *to, const simt_view *from);

#endif
