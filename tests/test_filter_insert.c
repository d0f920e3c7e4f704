/* Inserted keys are found: special keys, random keys, in batches of any length. Every way to insert sets the same
 * bits. */
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t ways[] = {0, LOOM_DIRECTLY, LOOM_BY_PARTITION};

/* Inserts each special key alone into an empty filter, and all of them together. */
TEST_EACH_FILTER(test_filter_insert_special_keys)
{
    const uint64_t top = t->key_bytes == 4 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
    const uint64_t keys[] = {0,
                             1,
                             2,
                             UINT64_MAX,
                             UINT64_MAX - 1,
                             top,
                             top - 1,
                             top + 1,
                             0x5555555555555555,
                             0xff,
                             UINT64_C(1) << 31,
                             UINT64_C(0xffffffff00000000)};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    loom_context *context = make_context(t);
    batch all = make_batch(t, KEYS), one = make_batch(t, 1);
    for (uint64_t i = 0; i < KEYS; i++)
        set_pair(&all, i, keys[i], 0);
    for (int p = 0; p < FILTER_PROBES; p++)
        for (size_t way = 0; way < 3; way++) {
            loom_filter_config config = make_sized_config(t, 65537, filter_probes[p]);
            loom_filter *filter = make_filter_from(context, &config);
            for (uint64_t i = 0; i < KEYS; i++) {
                set_pair(&one, 0, keys[i], 0);
                test_note("key 0x%llx, %u probes, flags %u", (unsigned long long)keys[i], filter_probes[p], ways[way]);
                CHECK_EQ(checked_filter_contains(context, filter, &one).ok, 0);
                checked_filter_insert(context, filter, &one, ways[way]);
                check_all_in(filter, &one);
                CHECK_EQ(filter_report(filter).bits_set, filter_probes[p]); /* a key sets this many different bits */
                CHECK_OK(loom_filter_clear(filter, NULL, NULL));
            }
            checked_filter_insert(context, filter, &all, ways[way]);
            check_all_in(filter, &all);
            loom_filter_destroy(filter);
        }
    free_batch(&all);
    free_batch(&one);
    loom_context_destroy(context);
}

/* Batches of random lengths and keys, some of them repeated, into filters of random shapes: every inserted key is
 * found. */
TEST_EACH_FILTER(test_filter_insert_random_model, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    for (uint64_t round = 0; round < test_scaled(t, 24, 8); round++) {
        const uint64_t most = 1 + random_below(&t->random, test_scaled(t, 60000, 6000));
        const uint64_t few = UINT64_C(1) << random_below(&t->random, 33);
        loom_filter_config config = make_filter_config(t, most, filter_probes[round % FILTER_PROBES]);
        batch all = make_batch(t, most);
        uint64_t given = 0;
        if (round % 3 == 0)
            config.bytes = 1 + random_below(&t->random, 1 << (7 + round % 15));
        loom_filter *filter = make_filter_from(context, &config);
        while (given < most) {
            const uint64_t room = most - given, n = random_below(&t->random, room < 9000 ? room + 1 : 9000);
            batch some = make_batch(t, n);
            for (uint64_t i = 0; i < n; i++)
                set_pair(&some, i, round % 2 ? random_u64(&t->random) : random_below(&t->random, few), 0);
            memcpy((unsigned char *)all.keys + given * all.key_bytes, some.keys, n * all.key_bytes);
            const uint64_t before = filter_report(filter).bits_set;
            test_note("round %llu, %llu keys in %llu", (unsigned long long)round, (unsigned long long)n,
                      (unsigned long long)filter_report(filter).blocks);
            checked_filter_insert(random_below(&t->random, 2) ? context : NULL, filter, &some,
                                  ways[random_below(&t->random, 3)]);
            CHECK_GE(filter_report(filter).bits_set, before); /* F1 */
            check_all_in(filter, &some);
            free_batch(&some);
            given += n;
        }
        check_all_in(filter, &all); /* F2 */
        CHECK_EQ(checked_filter_contains(context, filter, &all).ok, most);
        loom_filter_destroy(filter);
        free_batch(&all);
    }
    loom_context_destroy(context);
}

/* Batches of lengths around the number of keys in flight at once, and around the ranges that threads draw. The calls
 * miss no key and add none. */
TEST_EACH_FILTER(test_filter_contains_every_length, .threads = 1)
{
    static const uint64_t long_ones[] = {16383, 16384, 16385, 32768, 32775, 40000};
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 40000, 12);
    loom_filter *filter = make_filter_from(context, &config);
    for (uint64_t i = 0; i < 70 + sizeof long_ones / sizeof long_ones[0]; i++) {
        batch b = make_batch(t, i < 70 ? i : long_ones[i - 70]);
        fill_distinct(&b, 1, 0);
        for (size_t way = 0; way < 3; way++) {
            test_note("%llu keys, flags %u", (unsigned long long)b.n, ways[way]);
            CHECK_OK(loom_filter_clear(filter, NULL, NULL));
            checked_filter_insert(NULL, filter, &b, ways[way]);
            check_all_in(filter, &b);
        }
        free_batch(&b);
    }
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

/* Present and absent keys mixed in one batch: the answer for a key does not depend on its neighbours. */
TEST_EACH_FILTER(test_filter_contains_mixed_batch)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 30000, 3000);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_filter_config(t, n, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        batch in = make_batch(t, n), asked = make_batch(t, 2 * n), one = make_batch(t, 1);
        fill_distinct(&in, 9, 0);
        checked_filter_insert(context, filter, &in, 0);
        for (uint64_t i = 0; i < 2 * n; i++)
            set_pair(&asked, i, distinct_key(asked.key_bytes, 9, mix_u64(i) % (2 * n)), 0);
        checked_filter_contains(context, filter, &asked);
        for (uint64_t i = 0; i < 2 * n; i++) {
            if (mix_u64(i) % (2 * n) < n)
                CHECK_EQ(asked.found[i], 1);
            if (i % 997 != 0)
                continue;
            set_pair(&one, 0, batch_key(&asked, i), 0);
            checked_filter_contains(NULL, filter, &one);
            CHECK_EQ(one.found[0], asked.found[i]);
        }
        free_batch(&in);
        free_batch(&asked);
        free_batch(&one);
        loom_filter_destroy(filter);
    }
    loom_context_destroy(context);
}

/* Batches that a split by partition cannot distribute evenly: one key alone, one key in half of the rows, a few keys.
 * The split takes one pass, or two for more than 1024 partitions. Arrays lie in the machine's memory and on the
 * host. */
TEST_EACH_FILTER(test_filter_insert_skewed_batches, .long_tier = 1, .timeout_seconds = 180)
{
    static const uint64_t sizes[] = {5 << 20, 80 << 20}, few[] = {1, 2, 40};
    for (int s = 0; s < 2; s++) {
        const uint64_t n = test_scaled(t, 60000, 6000), seed = random_u64(&t->random);
        loom_context *context = make_context_with(t, 2, 99);
        loom_filter_config config = make_sized_config(t, sizes[s], filter_probes[s + 1]);
        loom_filter *directly = make_filter_from(context, &config), *by_partition = make_filter_from(context, &config);
        for (int kind = 0; kind < 4; kind++) {
            batch b = make_batch(t, n);
            fill_distinct(&b, seed, 0);
            for (uint64_t i = 0; i < n; i++)
                if (kind < 3 || i % 2)
                    set_pair(&b, i, batch_key(&b, kind < 3 ? i % few[kind] : 1), 0);
            for (int on_host = 0; on_host < 2; on_host++) {
                test_note("%llu bytes, skew %d, on the host %d", (unsigned long long)sizes[s], kind, on_host);
                CHECK_OK(loom_filter_clear(directly, NULL, NULL));
                CHECK_OK(loom_filter_clear(by_partition, NULL, NULL));
                checked_filter_insert(on_host ? NULL : context, directly, &b, LOOM_DIRECTLY);
                checked_filter_insert(on_host ? NULL : context, by_partition, &b, LOOM_BY_PARTITION);
                loom_filter_report one = LOOM_FILTER_REPORT_INIT, other = LOOM_FILTER_REPORT_INIT;
                CHECK_OK(loom_filter_stats(directly, &one, NULL));
                CHECK_OK(loom_filter_stats(by_partition, &other, NULL));
                CHECK_EQ(one.bits_set, other.bits_set);
                check_all_in(by_partition, &b);
                check_all_in(directly, &b);
            }
            free_batch(&b);
        }
        loom_filter_destroy(directly);
        loom_filter_destroy(by_partition);
        loom_context_destroy(context);
    }
}

/* Keys set the same bits whether they are inserted directly or by partition, in one batch or in many, by one thread or
 * several. The filter has several bins, and is large enough for the library to choose partitions by itself. */
TEST_EACH_FILTER(test_filter_insert_ways_give_same_bits, .threads = 1, .long_tier = 1, .timeout_seconds = 180)
{
    static const uint64_t sizes[] = {64, 65537, 5 << 20}; /* few sizes, since saves sync their files */
    for (int p = 0; p < FILTER_PROBES; p++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            loom_filter *filters[4];
            loom_context *contexts[4];
            const uint64_t n = test_scaled(t, sizes[s] < 100000 ? 3000 : 60000, 3000);
            batch b = make_batch(t, n);
            fill_distinct(&b, random_u64(&t->random), 0);
            test_note("%llu bytes, %u probes", (unsigned long long)sizes[s], filter_probes[p]);
            for (int i = 0; i < 4; i++) {
                loom_filter_config config = make_sized_config(t, sizes[s], filter_probes[p]);
                contexts[i] = make_context_with(t, 1 + (uint32_t)i, 99);
                filters[i] = make_filter_from(contexts[i], &config);
            }
            for (int i = 0; i < 3; i++)
                checked_filter_insert(i % 2 ? NULL : contexts[i], filters[i], &b, ways[i]);
            for (uint64_t at = 0; at < n; at += 701) /* small batches, each inserted twice */
                for (int twice = 0; twice < 2; twice++)
                    CHECK_OK(loom_filter_insert(filters[3], (unsigned char *)b.keys + at * b.key_bytes,
                                                n - at < 701 ? n - at : 701, 0, NULL, NULL, NULL));
            for (int i = 1; i < 4; i++)
                check_same_bits(t, filters[0], filters[i]);
            for (int i = 0; i < 4; i++) {
                check_all_in(filters[i], &b);
                loom_filter_destroy(filters[i]);
                loom_context_destroy(contexts[i]);
            }
            free_batch(&b);
        }
}

/* The SIMD kind or machine under test and scalar code on the cpu machine write the same file, byte for byte. */
TEST_EACH_FILTER(test_filter_insert_kinds_give_same_bits)
{
    const loom_machine machine = t->machine;
    const loom_simd simd = t->simd;
    for (int p = 0; p < FILTER_PROBES; p++)
        for (size_t way = 0; way < 3; way++)
            for (int large = 0; large < 2; large++) {
                unsigned char *files[2];
                size_t bytes[2];
                batch b = make_batch(t, 20000), asked = make_batch(t, 20000);
                loom_filter_config config = make_sized_config(t, large ? 1 << 20 : 1 << 14, filter_probes[p]);
                fill_distinct(&b, 4, 0);
                fill_distinct(&asked, 5, 0);
                uint8_t *answers = test_allocate(asked.n);
                config.capacity = 50000;
                for (int i = 0; i < 2; i++) {
                    t->machine = i ? machine : LOOM_MACHINE_CPU;
                    t->simd = i ? simd : LOOM_SIMD_SCALAR;
                    loom_context *context = make_context_with(t, 2, 12345);
                    loom_filter *filter = make_filter_from(context, &config);
                    checked_filter_insert(context, filter, &b, i ? ways[way] : LOOM_DIRECTLY);
                    checked_filter_contains(context, filter, &asked);
                    if (i)
                        CHECK_BYTES(asked.found, answers, asked.n); /* false positives are equal, too */
                    memcpy(answers, asked.found, asked.n);
                    files[i] = filter_file(t, filter, &bytes[i]);
                    loom_filter_destroy(filter);
                    loom_context_destroy(context);
                }
                test_note("%u probes, flags %u, large %d", filter_probes[p], ways[way], large);
                CHECK_EQ(bytes[0], bytes[1]);
                CHECK_BYTES(files[1], files[0], bytes[0]);
                free(files[0]);
                free(files[1]);
                free(answers);
                free_batch(&b);
                free_batch(&asked);
            }
}
