/* What the tests of device views share: contexts that lend views, and views that begin and end. */
#ifndef LOOM_TESTS_VIEW_FIXTURE_H
#define LOOM_TESTS_VIEW_FIXTURE_H

#include "map_fixture.h"

/* Makes a context of the cpu machine lend views of open tables. Nothing may use the views. */
void make_open_lend(loom_context *context);
/* The same for filters and perfect tables. These ask the machine whether it lends views, while open tables look for a
 * kernel. */
void make_others_lend(loom_context *context);
/* The same for multimaps of both engines. Chain multimaps also lend views that insert. */
void make_chain_lend(loom_context *context);
/* A context of the cpu machine that lends views of open tables. */
loom_context *make_lending_context(test_run *t);
/* A context of the cuda machine; without one the test is skipped. */
loom_context *make_cuda_context(test_run *t);

/* The steps before the first view that writes, and those that end the last view, in contexts of make_open_lend. */
extern struct view_faults {
    int failing_folds, failing_upkeeps; /* this many of the next calls fail */
    int failing_zeroings;
    int folds;    /* calls so far */
    int zeroings; /* calls that zero what kernels may take, which come first */
} view_faults;

/* An open table with keys of 4 bytes that does not grow; without values a set. */
loom_map *make_open_table(loom_context *context, uint32_t value_bytes, uint32_t concurrent_reads);
loom_map_view begin_view(loom_map *map, loom_view_access access);
/* The view is refused, and *view is not written. */
void refuse_view(loom_map *map, loom_view_access access, loom_status wanted);

#define END_VIEW(map, view)         CHECK_OK(loom_map_view_end(map, view, NULL))
#define END_VIEW_INVALID(map, view) CHECK_REFUSED(loom_map_view_end(map, view, NULL), LOOM_INVALID_ARGUMENT)

#endif
