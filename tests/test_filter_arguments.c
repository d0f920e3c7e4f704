/* Arguments that filters refuse, with a status and a sentence. A refused call changes nothing. */
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

TEST_EACH_FILTER(test_filter_arguments_null)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = NULL, *const untouched = (loom_filter *)(uintptr_t)0x1234, *other = untouched;
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_view view;
    loom_result result;
    uint64_t bytes = 77, key = 0;
    uint8_t found;
    const char *path = test_path(t, "file");
    CHECK_REFUSED(loom_filter_create(NULL, &config, &other), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_create(context, NULL, &other), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_create(context, &config, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_memory_required(NULL, &config, &memory), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_memory_required(context, NULL, &memory), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_memory_required(context, &config, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_filter_create(context, &config, &filter));
    CHECK_REFUSED(loom_filter_create_like(NULL, &other), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_create_like(filter, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_clone(NULL, &other, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_clone(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_insert(NULL, &key, 1, 0, NULL, &result, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_insert(filter, NULL, 1, 0, NULL, &result, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(NULL, &key, 1, &found, &result, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(filter, NULL, 1, &found, &result, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_merge(NULL, filter, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_merge(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_clear(NULL, &result, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_save(NULL, path, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_save(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_load(NULL, path, &other, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_load(context, NULL, &other, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_load(context, path, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_stats(NULL, &report, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_stats(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_memory_used(NULL, &bytes), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_memory_used(filter, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_get_config(NULL, &config), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_get_config(filter, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_view_begin(NULL, &view, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_view_begin(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_view_end(NULL, &view, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_view_end(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK(other == untouched);
    CHECK_EQ(bytes, 77);
    CHECK_EQ(test_count_entries(t->directory), 0);
    CHECK_EQ(filter_report(filter).bits_set, 0);
    loom_filter_destroy(NULL);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_arguments_struct_sizes)
{
    static const size_t wrong[] = {0, 1, 8, 1000, SIZE_MAX};
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = make_filter_from(context, &config), *other = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_filter_report report = LOOM_FILTER_REPORT_INIT;
        config.struct_size = memory.struct_size = report.struct_size = wrong[i];
        CHECK_REFUSED(loom_filter_create(context, &config, &other), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_filter_get_config(filter, &config), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_filter_stats(filter, &report, NULL), LOOM_INVALID_ARGUMENT);
        config.struct_size = sizeof config;
        CHECK_REFUSED(loom_filter_memory_required(context, &config, &memory), LOOM_INVALID_ARGUMENT);
    }
    CHECK(other == NULL);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_arguments_flags)
{
    static const uint32_t wrong[] = {LOOM_OVERWRITE,
                                     LOOM_LOW_MEMORY,
                                     LOOM_BY_PARTITION | LOOM_DIRECTLY,
                                     LOOM_IN_ORDER | LOOM_DIRECTLY,
                                     LOOM_IN_ORDER | LOOM_BY_PARTITION,
                                     LOOM_IN_ORDER | LOOM_OVERWRITE,
                                     LOOM_DIRECTLY | LOOM_OVERWRITE,
                                     32,
                                     UINT32_MAX,
                                     0x80000000u};
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = make_filter_from(context, &config);
    uint64_t key = 5;
    uint8_t added = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_REFUSED(loom_filter_insert(filter, &key, 1, wrong[i], NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
        CHECK(strstr(loom_last_error(), "flags") != NULL);
        CHECK_REFUSED(loom_filter_insert(filter, &key, 1, wrong[i], &added, NULL, NULL), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_filter_insert(filter, NULL, 0, wrong[i], NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    }
    /* Only a call that tells new keys has an order, and it does not go by partition. */
    CHECK_REFUSED(loom_filter_insert(filter, &key, 1, LOOM_IN_ORDER, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), "added") != NULL);
    CHECK_REFUSED(loom_filter_insert(filter, &key, 1, LOOM_BY_PARTITION, &added, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), "added") != NULL);
    CHECK_EQ(added, 77);
    CHECK_EQ(filter_report(filter).bits_set, 0);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_arguments_arrays)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = make_filter_from(context, &config);
    uint64_t words[16] = {0};
    unsigned char *bytes = (unsigned char *)words;
    uint8_t found[16];
    for (uint32_t shift = 1; shift < t->key_bytes && t->key_bytes <= 8; shift++) { /* wider keys may lie anywhere */
        CHECK_REFUSED(loom_filter_insert(filter, bytes + shift, 3, 0, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_filter_contains(filter, bytes + shift, 3, found, NULL, NULL), LOOM_INVALID_ARGUMENT);
    }
    /* Answers in the keys' own memory, at its beginning, its end and around it. */
    CHECK_REFUSED(loom_filter_contains(filter, words + 4, 4, bytes + 32, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(filter, words + 4, 4, bytes + 29, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(filter, words + 4, 4, bytes + 31 + 4 * t->key_bytes, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_filter_contains(filter, words + 4, 4, bytes + 28, NULL, NULL)); /* arrays that only touch are legal */
    CHECK_OK(loom_filter_contains(filter, words + 4, 4, bytes + 32 + 4 * t->key_bytes, NULL, NULL));
    CHECK_REFUSED(loom_filter_insert(filter, words + 4, 4, 0, bytes + 31 + 4 * t->key_bytes, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), "added") != NULL);
    /* More keys than the address space holds. */
    CHECK_REFUSED(loom_filter_insert(filter, words, UINT64_MAX, 0, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_insert(filter, words, UINT64_MAX / t->key_bytes, 0, NULL, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(filter, words, UINT64_C(1) << 63, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(filter_report(filter).bits_set, 0);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_arguments_no_keys)
{
    static const uint32_t flags[] = {0, LOOM_BY_PARTITION, LOOM_DIRECTLY, LOOM_IN_ORDER};
    loom_context *context = make_context(t);
    loom_filter_config config = make_sized_config(t, 1 << 16, 8);
    loom_filter *filter = make_filter_from(context, &config);
    uint64_t key = 5;
    uint8_t added = 77;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        for (int with_result = 0; with_result < 2; with_result++) {
            loom_result result;
            memset(&result, 0xee, sizeof result);
            CHECK_OK(loom_filter_insert(filter, NULL, 0, flags[i], NULL, with_result ? &result : NULL, NULL));
            CHECK_OK(loom_filter_insert(filter, &key, 0, flags[i], NULL, with_result ? &result : NULL, NULL));
            if (flags[i] != LOOM_BY_PARTITION)
                CHECK_OK(loom_filter_insert(filter, &key, 0, flags[i], &added, with_result ? &result : NULL, NULL));
            CHECK_EQ(added, 77);
            if (with_result)
                CHECK_EQ((uint64_t)result.status | result.keys | result.ok | result.not_found, 0);
            memset(&result, 0xee, sizeof result);
            CHECK_OK(loom_filter_contains(filter, NULL, 0, NULL, with_result ? &result : NULL, NULL));
            if (with_result)
                CHECK_EQ((uint64_t)result.status | result.keys | result.ok | result.not_found, 0);
        }
    CHECK_EQ(filter_report(filter).bits_set, 0);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

/* The result and the array of answers are both optional. */
TEST_EACH_FILTER(test_filter_arguments_optional)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 1000, 0);
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch(t, 500);
    loom_result result;
    fill_distinct(&b, 3, 0);
    CHECK_OK(loom_filter_insert(filter, b.keys, b.n, 0, NULL, NULL, NULL));
    CHECK_OK(loom_filter_contains(filter, b.keys, b.n, NULL, NULL, NULL));
    CHECK_OK(loom_filter_contains(filter, b.keys, b.n, NULL, &result, NULL));
    CHECK_EQ(result.ok, b.n);
    memset(b.found, 0xee, b.n);
    CHECK_OK(loom_filter_contains(filter, b.keys, b.n, b.found, NULL, NULL));
    for (uint64_t i = 0; i < b.n; i++)
        CHECK_EQ(b.found[i], 1);
    check_all_in(filter, &b);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_arguments_streams, .cpu_only = 1)
{
    loom_stream stream = (loom_stream)(uintptr_t)0x1234;
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *filter = make_filter_from(context, &config), *other = NULL;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_view view;
    loom_result result;
    uint64_t key = 0;
    const char *path = test_path(t, "file");
    CHECK_REFUSED(loom_filter_insert(filter, &key, 1, 0, NULL, &result, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_contains(filter, &key, 1, NULL, &result, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_clone(filter, &other, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_merge(filter, filter, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_clear(filter, &result, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_stats(filter, &report, stream), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_save(filter, path, stream), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_filter_save(filter, path, NULL));
    CHECK_REFUSED(loom_filter_load(context, path, &other, stream), LOOM_INVALID_ARGUMENT);
    CHECK(other == NULL);
    /* The cpu machine has no kernels of users, hence no views. */
    CHECK_REFUSED(loom_filter_view_begin(filter, &view, NULL), LOOM_UNSUPPORTED);
    memset(&view, 0, sizeof view);
    CHECK_REFUSED(loom_filter_view_end(filter, &view, NULL), LOOM_INVALID_ARGUMENT);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}
