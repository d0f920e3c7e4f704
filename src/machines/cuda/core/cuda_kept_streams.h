/* Remembers the last call of each stream, in one of a few places. Plain C, so that it is tested without a device. */
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

/* Returns a place for a call of this stream, and gives it to the call: the stream's own place, a free one, or else the
 * place of the oldest call. In the last case *evicts is set, and the caller must wait for the oldest call. */
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
