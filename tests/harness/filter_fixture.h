/* What the filter's tests share: filters of the width under test, batches on the host or where the machine works, calls
 * that check what must hold for every call, and a filter's bits as a file has them. */
#ifndef LOOM_TESTS_FILTER_FIXTURE_H
#define LOOM_TESTS_FILTER_FIXTURE_H

#include "map_fixture.h"

/* All numbers of bits that a key may set. */
enum { FILTER_PROBES = 4 };
extern const uint32_t filter_probes[FILTER_PROBES];

/* Configs for keys of the width under test: a filter for `capacity` keys at the usual rate, or a filter of `bytes`
 * without a capacity. */
loom_filter_config make_filter_config(const test_run *t, uint64_t capacity, uint32_t probes);
loom_filter_config make_sized_config(const test_run *t, uint64_t bytes, uint32_t probes);
loom_filter *make_filter_from(loom_context *context, const loom_filter_config *config);
loom_filter_report filter_report(loom_filter *filter);
/* Checks that the reports are equal. Rates may differ by rounding: blocks are added up in any order. */
void check_same_report(const loom_filter_report *got, const loom_filter_report *wanted);

/* The call with a result, which is checked and returned. `context` is NULL for arrays on the host. Otherwise the arrays
 * are of this context, and the keys do not lie at their beginning. */
loom_result checked_filter_insert(loom_context *context, loom_filter *filter, const batch *b, uint32_t flags);
/* An insertion that tells which keys were new. Fills in b->found. */
loom_result checked_filter_add(loom_context *context, loom_filter *filter, batch *b, uint32_t flags);
/* Fills in b->found. */
loom_result checked_filter_contains(loom_context *context, loom_filter *filter, batch *b);
/* Checks that all keys of the batch are found. */
void check_all_in(loom_filter *filter, batch *b);

/* The whole file of the filter; the caller frees it. */
unsigned char *filter_file(test_run *t, loom_filter *filter, size_t *bytes);
/* Checks that both filters have the same shape, seed and bits. Capacity and number of inserted keys may differ. */
void check_same_bits(test_run *t, loom_filter *a, loom_filter *b);

#endif
