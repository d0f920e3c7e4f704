/* Calls on whole filters: clone, create_like, clear, get_config; and the memory of filters. */
#include "harness/counting_allocator.h"
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

TEST_EACH_FILTER(test_filter_clone_is_equal, .threads = 1)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_filter_config(t, 3000, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config), *clone = NULL;
        batch b = make_batch(t, 2000), more = make_batch(t, 500);
        fill_distinct(&b, 1, 0);
        fill_distinct(&more, 1, 2000);
        checked_filter_insert(context, filter, &b, 0);
        CHECK_OK(loom_filter_clone(filter, &clone, NULL));
        check_same_bits(t, filter, clone);
        loom_filter_report old = filter_report(filter), report = filter_report(clone);
        check_same_report(&report, &old);
        /* Insertions into the clone do not show in the original. The clone outlives the original. */
        checked_filter_insert(context, clone, &more, 0);
        CHECK_EQ(filter_report(filter).bits_set, old.bits_set);
        check_all_in(clone, &more);
        loom_filter_destroy(filter);
        check_all_in(clone, &b);
        loom_filter_destroy(clone);
        free_batch(&b);
        free_batch(&more);
    }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_create_like_is_empty)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_filter_config(t, 3000, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config), *like = NULL;
        batch b = make_batch(t, 2000);
        fill_distinct(&b, 1, 0);
        loom_filter_report empty = filter_report(filter);
        checked_filter_insert(context, filter, &b, 0);
        CHECK_OK(loom_filter_create_like(filter, &like));
        loom_filter_report report = filter_report(like);
        check_same_report(&report, &empty);
        CHECK_EQ(checked_filter_contains(context, like, &b).ok, 0);
        checked_filter_insert(context, like, &b, LOOM_BY_PARTITION);
        check_same_bits(t, filter, like);
        loom_filter_destroy(filter);
        loom_filter_destroy(like);
        free_batch(&b);
    }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_clear_empties, .threads = 1)
{
    static const uint64_t sizes[] = {64, 65536, 3 << 20};
    loom_context *context = make_context(t);
    batch b = make_batch(t, 2000);
    fill_distinct(&b, 1, 0);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int with_result = 0; with_result < 2; with_result++) {
            loom_filter_config config = make_sized_config(t, sizes[s], 8);
            loom_filter *filter = make_filter_from(context, &config);
            loom_result result, zero = {0};
            memset(&result, 0xee, sizeof result);
            CHECK_OK(loom_filter_clear(filter, NULL, NULL)); /* an empty one */
            checked_filter_insert(context, filter, &b, 0);
            CHECK_GT(filter_report(filter).bits_set, 0);
            CHECK_OK(loom_filter_clear(filter, with_result ? &result : NULL, NULL));
            CHECK_EQ(filter_report(filter).bits_set, 0);
            CHECK_EQ(checked_filter_contains(context, filter, &b).ok, 0);
            if (with_result)
                CHECK_BYTES(&result, &zero, sizeof zero);
            checked_filter_insert(context, filter, &b, 0);
            check_all_in(filter, &b);
            loom_filter_destroy(filter);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* The config of a filter makes an equal filter, whose config makes another one. */
TEST_EACH_FILTER(test_filter_get_config_makes_an_equal_one)
{
    static const uint64_t capacities[] = {0, 1, 1000, 30000};
    loom_context *context = make_context(t);
    batch b = make_batch(t, 1000);
    fill_distinct(&b, 1, 0);
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        for (int p = -1; p < FILTER_PROBES; p++) {
            loom_filter_config config = make_filter_config(t, capacities[i], p < 0 ? 0 : filter_probes[p]);
            config.bytes = capacities[i] ? 0 : 100000;
            config.bits_per_key = capacities[i] > 1 && p % 2 ? 20.5 : 0;
            loom_filter *filter = make_filter_from(context, &config);
            loom_filter_config told = LOOM_FILTER_CONFIG_INIT, again = LOOM_FILTER_CONFIG_INIT;
            CHECK_OK(loom_filter_get_config(filter, &told));
            CHECK_EQ(told.struct_size, sizeof told);
            CHECK_EQ(told.key_bytes, config.key_bytes);
            CHECK_EQ(told.capacity, config.capacity);
            CHECK_EQ(told.bytes, filter_report(filter).blocks * 64);
            CHECK_EQ(told.probes, filter_report(filter).probes);
            CHECK(told.false_positive_rate == 0 && told.bits_per_key == 0); /* the bytes give the size */
            loom_filter *equal = make_filter_from(context, &told);
            CHECK_OK(loom_filter_get_config(equal, &again));
            CHECK_BYTES(&again, &told, sizeof told);
            loom_filter_report one = filter_report(filter), other = filter_report(equal);
            check_same_report(&other, &one);
            checked_filter_insert(context, filter, &b, 0);
            CHECK_STATUS(loom_filter_merge(equal, filter, NULL), capacities[i] == 1 ? LOOM_OVERFILLED : LOOM_OK);
            check_all_in(equal, &b);
            loom_filter_destroy(filter);
            loom_filter_destroy(equal);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* A filter keeps its context alive. */
TEST_EACH_FILTER(test_filter_destroy_after_context)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = make_filter_from(context, &config), *clone = NULL;
    batch b = make_batch(t, 100);
    fill_distinct(&b, 1, 0);
    loom_context_destroy(context);
    checked_filter_insert(NULL, filter, &b, 0);
    CHECK_OK(loom_filter_clone(filter, &clone, NULL));
    loom_filter_destroy(filter);
    check_all_in(clone, &b);
    loom_filter_destroy(clone);
    free_batch(&b);
}

/* ---- Memory ---- */

/* The memory required, the memory used and the bytes that the allocator saw are equal. */
TEST_EACH_FILTER(test_filter_memory_is_as_told, .cpu_only = 1)
{
    static const uint64_t sizes[] = {1, 64, 65, 65536, 65537, 5 << 20};
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 3);
    const uint64_t before = counting_bytes(counter);
    batch b = make_batch(t, 40000);
    fill_distinct(&b, 1, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        loom_filter_config config = make_sized_config(t, sizes[i], 8);
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_filter *clone = NULL, *like = NULL;
        uint64_t used = 0;
        config.capacity = b.n;
        test_note("%llu bytes", (unsigned long long)sizes[i]);
        const uint64_t requests = counting_requests(counter);
        CHECK_OK(loom_filter_memory_required(context, &config, &memory));
        CHECK_EQ(counting_requests(counter), requests);
        CHECK_EQ(memory.struct_size, sizeof memory);
        CHECK_EQ(memory.status_bytes | memory.order_bytes | memory.low_memory_bytes, 0);
        CHECK_GE(memory.build_bytes, b.n * (b.key_bytes < 8 ? b.key_bytes : 8));
        loom_filter *filter = make_filter_from(context, &config);
        CHECK_EQ(counting_bytes(counter) - before, memory.table_bytes);
        CHECK_OK(loom_filter_memory_used(filter, &used));
        CHECK_EQ(used, memory.table_bytes);
        CHECK_EQ(filter_report(filter).memory_bytes, used);
        CHECK_OK(loom_filter_clone(filter, &clone, NULL));
        CHECK_OK(loom_filter_create_like(filter, &like));
        CHECK_EQ(counting_bytes(counter) - before, 3 * memory.table_bytes);
        loom_filter_destroy(clone);
        loom_filter_destroy(like);
        /* An insertion by partition takes the bytes that memory_required named, while it runs. Other calls take
         * none. */
        counting_reset_peak(counter);
        checked_filter_insert(NULL, filter, &b, LOOM_BY_PARTITION);
        CHECK_EQ(counting_peak(counter) - before, memory.table_bytes + memory.build_bytes);
        const uint64_t inserted = counting_requests(counter);
        checked_filter_insert(NULL, filter, &b, LOOM_DIRECTLY);
        checked_filter_add(NULL, filter, &b, 0);
        checked_filter_add(NULL, filter, &b, LOOM_IN_ORDER); /* order_bytes is 0 */
        check_all_in(filter, &b);
        filter_report(filter);
        CHECK_OK(loom_filter_clear(filter, NULL, NULL));
        CHECK_EQ(counting_requests(counter), inserted);
        CHECK_EQ(counting_bytes(counter) - before, memory.table_bytes);
        loom_filter_destroy(filter);
        CHECK_EQ(counting_bytes(counter), before);
    }
    free_batch(&b);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* The first, second, third … allocation of a call fails, until the call succeeds. A call that fails returns
 * LOOM_OUT_OF_MEMORY, makes nothing, and leaves nothing behind. */
enum { CALL_CREATE, CALL_CREATE_LIKE, CALL_CLONE, CALL_LOAD, CALLS };

TEST_EACH_FILTER(test_filter_memory_nth_allocation_fails, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    loom_filter_config config = make_filter_config(t, 2000, 0);
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch(t, 2000);
    const char *path = test_path(t, "file");
    fill_distinct(&b, 1, 0);
    checked_filter_insert(NULL, filter, &b, 0);
    CHECK_OK(loom_filter_save(filter, path, NULL));
    for (int call = 0; call < CALLS; call++)
        for (uint64_t n = 1;; n++) {
            loom_filter *made = NULL;
            const uint64_t before = counting_bytes(counter);
            test_note("call %d, allocation %llu", call, (unsigned long long)n);
            CHECK_LE(n, 20);
            test_poison_last_error();
            counting_fail_at(counter, n);
            loom_status status = call == CALL_CREATE        ? loom_filter_create(context, &config, &made)
                                 : call == CALL_CREATE_LIKE ? loom_filter_create_like(filter, &made)
                                 : call == CALL_CLONE       ? loom_filter_clone(filter, &made, NULL)
                                                            : loom_filter_load(context, path, &made, NULL);
            counting_fail_at(counter, 0);
            if (status == LOOM_OK) {
                CHECK_GE(n, 3); /* the blocks and the handle */
                if (call >= CALL_CLONE)
                    check_all_in(made, &b);
                loom_filter_destroy(made);
                break;
            }
            test_check_refused(__FILE__, __LINE__, "the call", status, LOOM_OUT_OF_MEMORY, LOOM_OUT_OF_MEMORY);
            CHECK(made == NULL);
            CHECK_EQ(counting_bytes(counter), before);
        }
    check_all_in(filter, &b);
    /* A save that gets no memory leaves the old file. */
    size_t old_bytes, bytes;
    void *old = test_read_file(path, &old_bytes);
    for (uint64_t n = 1;; n++) {
        CHECK_LE(n, 20);
        test_poison_last_error();
        counting_fail_at(counter, n);
        const loom_status status = loom_filter_save(filter, path, NULL);
        counting_fail_at(counter, 0);
        CHECK_EQ(test_count_entries(t->directory), 1);
        void *now = test_read_file(path, &bytes);
        CHECK_EQ(bytes, old_bytes);
        CHECK_BYTES(now, old, bytes);
        free(now);
        if (status == LOOM_OK) {
            CHECK_GE(n, 2); /* the checksums and a buffer */
            break;
        }
        test_check_refused(__FILE__, __LINE__, "the save", status, LOOM_OUT_OF_MEMORY, LOOM_OUT_OF_MEMORY);
    }
    free(old);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* Without temporary memory a bulk insertion goes directly. If the caller asked for partitions, nothing is inserted. */
TEST_EACH_FILTER(test_filter_memory_bulk_insertion_fails, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    loom_filter_config config = make_sized_config(t, 5 << 20, 8);
    loom_filter *filter = make_filter_from(context, &config), *other = make_filter_from(context, &config);
    batch b = make_batch(t, 20000);
    loom_result result;
    fill_distinct(&b, 1, 0);
    counting_limit(counter, counting_bytes(counter));
    const uint64_t requests = counting_requests(counter);
    CHECK_REFUSED(loom_filter_insert(filter, b.keys, b.n, LOOM_BY_PARTITION, NULL, NULL, NULL), LOOM_OUT_OF_MEMORY);
    CHECK_REFUSED(loom_filter_insert(filter, b.keys, b.n, LOOM_BY_PARTITION, NULL, &result, NULL), LOOM_OUT_OF_MEMORY);
    CHECK_EQ(counting_requests(counter), requests + 2);
    CHECK_EQ(filter_report(filter).bits_set, 0);
    CHECK_EQ(checked_filter_insert(NULL, filter, &b, 0).ok, b.n); /* asks for memory, and works without */
    CHECK_EQ(counting_requests(counter), requests + 3);
    check_all_in(filter, &b);
    counting_limit(counter, 0);
    checked_filter_insert(NULL, other, &b, LOOM_BY_PARTITION);
    check_same_bits(t, filter, other);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_filter_destroy(other);
    loom_context_destroy(context);
    counting_destroy(counter);
}
