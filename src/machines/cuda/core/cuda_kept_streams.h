/* Remembers the last call of each of up to KEPT_STREAMS streams. Plain C, so that tests need no device. */
#ifndef LOOM_CUDA_KEPT_STREAMS_H
#define LOOM_CUDA_KEPT_STREAMS_H

#include <stdint.h>

enum { KEPT_STREAMS = 16 };

typedef struct kept_streams {
    unsigned long long ids[KEPT_STREAMS]; /* unique in a process; stream handles are reused */
    uint64_t uses[KEPT_STREAMS];          /* sequence number of each stream's last call */
    uint64_t last_use;
    int count;
} kept_streams;

/* Returns a place for a call of this stream, and assigns the place to the call: the stream's own place, a free one, or
 * else the place of the oldest call. *evicts tells whether it is the oldest call's place. The caller must then wait for
 * the oldest call. */
static inline int kept_streams_place(kept_streams *kept, unsigned long long id, int *evicts)
{
    int place = 0, oldest = 0;
    while (place < kept->count && kept->ids[place] != id) {
        oldest = kept->uses[place] < kept->uses[oldest] ? place : oldest;
        place++;
    }
    *evicts = place == KEPT_STREAMS;
    if (*evicts)
        place = oldest;
    else if (place == kept->count)
        kept->count++;
    kept->ids[place] = id;
    kept->uses[place] = ++kept->last_use;
    return place;
}

#endif
