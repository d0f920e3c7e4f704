/* An allocator that keeps a list of its blocks, checks every release, and refuses on demand. */
#ifndef LOOM_TESTS_COUNTING_ALLOCATOR_H
#define LOOM_TESTS_COUNTING_ALLOCATOR_H

#include "harness.h"

typedef struct counting_allocator counting_allocator;

/* Checks that alignments are powers of two, and that a block is released with the size and kind of its allocation. */
counting_allocator *counting_create(void);
/* Fails the test if a block was not released. */
void counting_destroy(counting_allocator *c);
loom_allocator counting_callbacks(counting_allocator *c);
uint64_t counting_bytes(counting_allocator *c);    /* out now */
uint64_t counting_pieces(counting_allocator *c);   /* out now */
uint64_t counting_requests(counting_allocator *c); /* all requests so far, including refused ones */
uint64_t counting_peak(counting_allocator *c);     /* most bytes out since the last counting_reset_peak */
void counting_reset_peak(counting_allocator *c);
/* The n-th request from now on fails, n = 1, 2, ...; 0: none does. */
void counting_fail_at(counting_allocator *c, uint64_t n);
/* Two requests fail; each number as above. */
void counting_fail_at_both(counting_allocator *c, uint64_t n, uint64_t m);
/* Every request fails that would bring the bytes out above the limit. 0: no limit. */
void counting_limit(counting_allocator *c, uint64_t bytes);
/* Loads a crafted file, whose n-th request fails, n = 1, 2, ... until none does: it is refused each time. */
void check_never_loaded(counting_allocator *c, loom_context *context, const char *path);
loom_context *make_counting_context(test_run *t, counting_allocator *c, uint32_t threads);

#endif
