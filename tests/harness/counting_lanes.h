/* Lane primitives that count their reads: lines taken, and words loaded one by one. */
#ifndef LOOM_TESTS_COUNTING_LANES_H
#define LOOM_TESTS_COUNTING_LANES_H

#include "machines/cpu/core/cpu_lanes_scalar.h"

static uint64_t lines_taken, words_loaded;
static const void *last_line, *last_word;

#define lane_take(group, line, at, shared, active, span) \
    (lines_taken++, last_line = (at), lane_take(group, line, at, shared, active, span))
#define lane_load_8(at) (words_loaded++, last_word = (at), lane_load_8(at))
#define lane_load_4(at) (words_loaded++, last_word = (at), lane_load_4(at))

#endif
