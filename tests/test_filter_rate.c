/* The rate of false positives: the measured rate agrees with the designed rate and with the reported one. */
#include "harness/filter_fixture.h"

#include <math.h>
#include <stdlib.h>

/* Five standard deviations of the measurement, and 5 % for the variation between filters. */
static double tolerance(double rate, uint64_t asked)
{
    return 5 * sqrt(rate * (1 - rate) / (double)asked) + 0.05 * rate;
}

static void check_rates(test_run *t, loom_context *context, uint64_t keys, uint64_t bits_per_key, uint32_t probes)
{
    const uint64_t asked = test_scaled(t, 1 << 20, 1 << 16), step = 1 << 16;
    loom_filter_config config = make_sized_config(t, keys * bits_per_key / 8, probes);
    batch b = make_batch(t, keys), absent = make_batch(t, step);
    uint64_t found = 0;
    config.capacity = keys;
    loom_filter *filter = make_filter_from(context, &config);
    const uint64_t salt = random_u64(&t->random);
    fill_distinct(&b, salt, 0);
    CHECK_EQ(checked_filter_insert(context, filter, &b, 0).status, LOOM_OK);
    check_all_in(filter, &b);
    for (uint64_t at = 0; at < asked; at += step) {
        fill_distinct(&absent, salt, keys + at); /* the two sets of keys are disjoint */
        found += checked_filter_contains(context, filter, &absent).ok;
    }
    const double measured = (double)found / (double)asked;
    const loom_filter_report report = filter_report(filter);
    test_note("%llu bits for a key, %u probes: %llu of %llu found, %g designed, %g reported",
              (unsigned long long)bits_per_key, report.probes, (unsigned long long)found, (unsigned long long)asked,
              report.designed_rate, report.false_positive_rate);
    CHECK_NEAR(measured, report.designed_rate, tolerance(report.designed_rate, asked));
    CHECK_NEAR(measured, report.false_positive_rate, tolerance(report.false_positive_rate, asked));
    /* A few crowded blocks have most of the false positives. Measured on 60 filters with 24 bits for a key: with 16
     * probes the rate is spread by 2.2 %. With 12 probes it is spread by 1.5 %, and is about 2.5 % below the designed
     * rate, since a key leaves out one word of each quarter. */
    CHECK_NEAR(report.false_positive_rate, report.designed_rate, 0.15 * report.designed_rate);
    CHECK_NEAR(report.estimated_keys, (double)keys, 0.02 * (double)keys);
    const double bits = (double)report.blocks * 512;
    CHECK_NEAR(report.fill, 1 - pow(1 - report.probes / bits, (double)keys), 0.01);
    CHECK_EQ(report.blocks, keys * bits_per_key / 512);
    loom_filter_destroy(filter);
    free_batch(&b);
    free_batch(&absent);
}

TEST_EACH_FILTER(test_filter_rate_best_probes, .long_tier = 1, .timeout_seconds = 180)
{
    loom_context *context = make_context(t);
    for (uint64_t bits = 4; bits <= 24; bits += 4)
        check_rates(t, context, 1 << 18, bits, 0);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_rate_every_probes, .long_tier = 1, .timeout_seconds = 180)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++)
        for (uint64_t bits = 4; bits <= 24; bits += 10)
            check_rates(t, context, 1 << 18, bits, filter_probes[p]);
    loom_context_destroy(context);
}

/* Structured keys: consecutive numbers, and multiples of a power of two. */
TEST_EACH_FILTER(test_filter_rate_keys_in_a_row, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    const uint64_t n = 1 << 18, asked = 1 << 18;
    for (uint32_t shift = 0; shift <= 12; shift += 12) {
        loom_filter_config config = make_sized_config(t, n, 0);
        batch b = make_batch(t, n);
        config.capacity = n;
        loom_filter *filter = make_filter_from(context, &config);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, i << shift, 0);
        checked_filter_insert(context, filter, &b, 0);
        check_all_in(filter, &b);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, (n + i) << shift, 0);
        const double measured = (double)checked_filter_contains(context, filter, &b).ok / (double)asked;
        const loom_filter_report report = filter_report(filter);
        test_note("shift %u", shift);
        CHECK_NEAR(measured, report.designed_rate, tolerance(report.designed_rate, asked));
        CHECK_NEAR(report.estimated_keys, (double)n, 0.02 * (double)n);
        loom_filter_destroy(filter);
        free_batch(&b);
    }
    loom_context_destroy(context);
}

/* Repeated keys change no bits: the estimate counts different keys. */
TEST_EACH_FILTER(test_filter_rate_estimate_of_repeated_keys)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_sized_config(t, 1 << 18, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch(t, 40000);
        for (uint64_t i = 0; i < b.n; i++)
            set_pair(&b, i, distinct_key(b.key_bytes, 8, i % 20000), 0);
        for (int round = 0; round < 3; round++) {
            checked_filter_insert(context, filter, &b, 0);
            CHECK_NEAR(filter_report(filter).estimated_keys, 20000, 400);
        }
        loom_filter_destroy(filter);
        free_batch(&b);
    }
    loom_context_destroy(context);
}

/* A filter with every bit set reports every key as present, and its estimate of keys is still finite. */
TEST_EACH_FILTER(test_filter_rate_all_bits_set)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_sized_config(t, 64, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch(t, 20000), absent = make_batch(t, 1000);
        fill_distinct(&b, 1, 0);
        fill_distinct(&absent, 1, b.n);
        checked_filter_insert(context, filter, &b, 0);
        loom_filter_report report = filter_report(filter);
        CHECK_EQ(report.bits_set, 512);
        CHECK(report.fill == 1);
        CHECK_NEAR(report.false_positive_rate, 1, 1e-12);
        CHECK(report.estimated_keys > 100 && report.estimated_keys < 1e6);
        CHECK_EQ(checked_filter_contains(context, filter, &absent).ok, absent.n);
        free_batch(&b);
        free_batch(&absent);
        loom_filter_destroy(filter);
    }
    loom_context_destroy(context);
}
