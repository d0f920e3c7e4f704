/* Insertions that tell which keys were new. */
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t ways[] = {0, LOOM_DIRECTLY, LOOM_IN_ORDER};

/* A key that is inserted alone is new exactly if the filter did not report it before. In a filter this small nearly
 * all keys become false positives. */
TEST_EACH_FILTER(test_filter_added_one_by_one)
{
    loom_context *context = make_context(t);
    batch one = make_batch(t, 1);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_sized_config(t, 128, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        const uint64_t salt = random_u64(&t->random);
        uint8_t inserted[400] = {0};
        uint64_t fresh = 0, repeated = 0, false_positives = 0;
        for (uint64_t i = 0; i < 600; i++) {
            const uint64_t which = random_below(&t->random, 400);
            fill_distinct(&one, salt, which);
            checked_filter_contains(i % 2 ? context : NULL, filter, &one);
            const uint8_t before = one.found[0];
            checked_filter_add(i % 3 ? context : NULL, filter, &one, ways[i % 5 % 3]);
            CHECK_EQ(one.found[0], !before);
            fresh += one.found[0];
            repeated += inserted[which];
            false_positives += before && !inserted[which];
            inserted[which] = 1;
            check_all_in(filter, &one);
        }
        CHECK(fresh > 0 && repeated > 0 && false_positives > 0);
        loom_filter_destroy(filter);
    }
    free_batch(&one);
    loom_context_destroy(context);
}

/* `found` tells what the filter reported before the batch was added. */
static void check_added(const batch *b, const uint8_t *found, uint64_t most_wrong)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK(!(found[i] && b->found[i]));  /* all bits were set */
        wrong += !found[i] && !b->found[i]; /* other keys of the batch set all bits */
    }
    CHECK_LE(wrong, most_wrong);
}

/* Different keys, half of them in the filter. Keys set the same bits as without the array. */
TEST_EACH_FILTER(test_filter_added_batches, .timeout_seconds = 120)
{
    static const uint64_t sizes[] = {1 << 12, 1 << 20};
    const uint64_t n = 20000; /* several ranges of keys, hence several threads */
    for (int p = 0; p < FILTER_PROBES; p++)
        for (int sparse = 0; sparse < 2; sparse++)
            for (int way = 0; way < 3; way++) {
                const int on_host = (p + way) % 2;
                loom_context *context = make_context_with(t, 1 + (uint32_t)(p + way) % 4, random_u64(&t->random));
                loom_context *where = on_host ? NULL : context;
                loom_filter_config config = make_sized_config(t, sizes[sparse], filter_probes[p]);
                loom_filter *filter = make_filter_from(context, &config), *plain = make_filter_from(context, &config);
                batch b = make_batch(t, n), half = make_batch(t, n / 2);
                const uint64_t salt = random_u64(&t->random);
                fill_distinct(&b, salt, 0);
                fill_distinct(&half, salt, n / 4);
                test_note("%u probes, %llu bytes, flags %u", filter_probes[p], (unsigned long long)sizes[sparse],
                          ways[way]);
                checked_filter_insert(where, filter, &half, 0);
                checked_filter_insert(where, plain, &half, 0);
                checked_filter_insert(where, plain, &b, 0);
                checked_filter_contains(where, filter, &b);
                uint8_t *found = test_allocate(n);
                memcpy(found, b.found, n);
                const uint64_t bits = filter_report(filter).bits_set;
                const loom_result result = checked_filter_add(where, filter, &b, ways[way]);
                check_added(&b, found, sparse ? 100 : n);
                CHECK_LE(result.ok, filter_report(filter).bits_set - bits); /* F3 */
                if (sparse)
                    CHECK_GE(result.ok, n / 2 - 100);
                check_same_bits(t, filter, plain);
                check_all_in(filter, &b);
                CHECK_EQ(checked_filter_add(where, filter, &b, ways[way]).exists, n); /* nothing is new any more */
                free(found);
                free_batch(&b);
                free_batch(&half);
                loom_filter_destroy(filter);
                loom_filter_destroy(plain);
                loom_context_destroy(context);
            }
}

/* A few keys, each in many rows. Of equal keys at least one is new; in order it is the first. Keys with odd numbers
 * were in the filter before. The filter is so large that there are no false positives. */
TEST_EACH_FILTER(test_filter_added_equal_keys, .threads = 1)
{
    enum { KEYS = 40 };
    const uint64_t n = 40000;
    for (int way = 0; way < 3; way++)
        for (int on_host = 0; on_host < 2; on_host++) {
            loom_context *context = make_context_with(t, 4, random_u64(&t->random));
            loom_filter_config config = make_sized_config(t, 4 << 20, 8);
            loom_filter *filter = make_filter_from(context, &config);
            batch b = make_batch(t, n), keys = make_batch(t, KEYS), one = make_batch(t, 1);
            uint32_t *which = test_allocate(n * sizeof *which);
            uint64_t told[KEYS] = {0}, seen[KEYS] = {0};
            fill_distinct(&keys, random_u64(&t->random), 0);
            for (uint64_t i = 0; i < n; i++) {
                which[i] = (uint32_t)(i < n / 2 ? i / 600 % KEYS : random_below(&t->random, KEYS));
                set_pair(&b, i, batch_key(&keys, which[i]), 0);
            }
            for (uint64_t i = 1; i < KEYS; i += 2) {
                set_pair(&one, 0, batch_key(&keys, i), 0);
                checked_filter_insert(NULL, filter, &one, 0);
            }
            test_note("flags %u, on the host %d", ways[way], on_host);
            checked_filter_add(on_host ? NULL : context, filter, &b, ways[way]);
            for (uint64_t i = 0; i < n; i++) {
                if (ways[way] == LOOM_IN_ORDER)
                    CHECK_EQ(b.found[i], which[i] % 2 == 0 && seen[which[i]] == 0);
                seen[which[i]]++;
                told[which[i]] += b.found[i];
            }
            for (uint64_t i = 0; i < KEYS; i++) {
                CHECK_GT(seen[i], 0);
                CHECK(i % 2 ? told[i] == 0 : told[i] >= 1 && told[i] <= 8); /* a key has 8 bits to find clear */
            }
            free(which);
            free_batch(&b);
            free_batch(&keys);
            free_batch(&one);
            loom_filter_destroy(filter);
            loom_context_destroy(context);
        }
}

/* On the cpu machine a batch in order is told what its keys would be told one by one, false positives included. */
TEST_EACH_FILTER(test_filter_added_in_order_as_one_by_one, .cpu_only = 1, .threads = 1)
{
    const uint64_t n = 20000;
    for (uint32_t threads = 1; threads <= 4; threads++)
        for (int small = 0; small < 2; small++) {
            loom_context *context = make_context_with(t, threads, random_u64(&t->random));
            loom_filter_config config = make_sized_config(t, small ? 64 : 1 << 14, filter_probes[threads - 1]);
            loom_filter *filter = make_filter_from(context, &config), *single = NULL;
            batch b = make_batch(t, n);
            CHECK_OK(loom_filter_create_like(filter, &single));
            const uint64_t salt = random_u64(&t->random);
            for (uint64_t i = 0; i < n; i++)
                set_pair(&b, i, distinct_key(b.key_bytes, salt, random_below(&t->random, n / 2)), 0);
            checked_filter_add(NULL, filter, &b, LOOM_IN_ORDER);
            test_note("%u threads, small %d", threads, small);
            for (uint64_t i = 0; i < n; i++) {
                uint8_t added = 77;
                CHECK_OK(
                    loom_filter_insert(single, (unsigned char *)b.keys + i * b.key_bytes, 1, 0, &added, NULL, NULL));
                CHECK_EQ(b.found[i], added);
            }
            check_same_bits(t, filter, single);
            free_batch(&b);
            loom_filter_destroy(filter);
            loom_filter_destroy(single);
            loom_context_destroy(context);
        }
}

/* An overfilled filter tells new keys, too. The call that counts bits keeps the counts of the result. */
TEST_EACH_FILTER(test_filter_added_overfilled)
{
    for (int way = 0; way < 3; way++) {
        loom_context *context = make_context(t);
        loom_filter_config config = make_filter_config(t, 1000, 0);
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch(t, 3000), more = make_batch(t, 1000);
        fill_distinct(&b, 1, 0);
        fill_distinct(&more, 1, 3000);
        loom_result result = checked_filter_add(way == 1 ? context : NULL, filter, &b, ways[way]);
        CHECK_EQ(result.status, LOOM_OVERFILLED);
        CHECK_GE(result.ok, 2500);
        result = checked_filter_add(way == 1 ? context : NULL, filter, &b, ways[way]);
        CHECK_EQ(result.status, LOOM_OVERFILLED);
        CHECK_EQ(result.exists, b.n);
        /* Without a result the call returns the outcome. The answers are the same. */
        uint64_t fresh = 0;
        memset(more.found, 0xee, more.n);
        CHECK_REFUSED(loom_filter_insert(filter, more.keys, more.n, ways[way], more.found, NULL, NULL),
                      LOOM_OVERFILLED);
        for (uint64_t i = 0; i < more.n; i++) {
            CHECK_LE(more.found[i], 1);
            fresh += more.found[i];
        }
        CHECK_GT(fresh, 0);
        CHECK_EQ(checked_filter_add(NULL, filter, &more, ways[way]).ok, 0);
        free_batch(&b);
        free_batch(&more);
        loom_filter_destroy(filter);
        loom_context_destroy(context);
    }
}
