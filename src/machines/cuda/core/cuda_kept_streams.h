/* The streams whose last calls are kept in order: for each a place, of which there are few. Plain C, so that it is tested without
 * a device. */
#ifndef LOOM_CUDA_KEPT_STREAMS_H
#define LOOM_CUDA_KEPT_STREAMS_H

#include <stdint.h>

enum { KEPT_STREAMS = 16 };

typedef struct kept_streams {
    unsigned long long ids[KEPT_STREAMS]; /* which no two streams of a process share: handles are used again */
    uint64_t turns[KEPT_STREAMS];         /* of the last call of each stream; a later call has a higher one */
    uint64_t last_turn;
    int count;
} kept_streams;

/* The place for a call of this stream: its own, a free one, or else that of the oldest call, which *evicts and has to be waited
 * for. The call has the place from then on. */
static inline int kept_streams_place(kept_streams *kept, unsigned long long id, int *evicts)
{
    int place = 0, oldest = 0;
    while (place < kept->count && kept->ids[place] != id) {
        oldest = kept->turns[place] < kept->turns[oldest] ? place : oldest;
        place++;
    }
    *evicts = place == KEPT_STREAMS;
    if (*evicts)
        place = oldest;
    else if (place == kept->count)
        kept->count++;
    kept->ids[place] = id;
    kept->turns[place] = ++kept->last_turn;
    return place;
}

#endif
