#include "filter_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "file_surgery.h"

const uint32_t filter_probes[FILTER_PROBES] = {4, 8, 12, 16};

loom_filter_config make_filter_config(const test_run *t, uint64_t capacity, uint32_t probes)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    config.key_bytes = t->key_bytes ? t->key_bytes : 8;
    config.capacity = capacity;
    config.probes = probes;
    return config;
}

loom_filter_config make_sized_config(const test_run *t, uint64_t bytes, uint32_t probes)
{
    loom_filter_config config = make_filter_config(t, 0, probes);
    config.bytes = bytes;
    return config;
}

loom_filter *make_filter_from(loom_context *context, const loom_filter_config *config)
{
    loom_filter *filter = NULL;
    CHECK_OK(loom_filter_create(context, config, &filter));
    CHECK(filter != NULL);
    return filter;
}

loom_filter_report filter_report(loom_filter *filter)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    CHECK_OK(loom_filter_stats(filter, &report, NULL));
    CHECK_EQ(report.struct_size, sizeof report);
    CHECK_EQ(report.engine, LOOM_ENGINE_BLOOM);
    CHECK_EQ(report.reserved, 0);
    CHECK_LE(report.bits_set, report.blocks * 512);
    CHECK_NEAR(report.fill, (double)report.bits_set / ((double)report.blocks * 512), 1e-12);
    CHECK(report.false_positive_rate >= 0 && report.false_positive_rate <= 1);
    CHECK(report.designed_rate >= 0 && report.designed_rate <= 1);
    CHECK((report.bits_set == 0) == (report.false_positive_rate == 0));
    return report;
}

void check_same_report(const loom_filter_report *got, const loom_filter_report *wanted)
{
    loom_filter_report rounded = *got;
    CHECK_NEAR(got->false_positive_rate, wanted->false_positive_rate, 1e-9 * wanted->false_positive_rate);
    rounded.false_positive_rate = wanted->false_positive_rate;
    CHECK_BYTES(&rounded, wanted, sizeof *wanted);
}

/* ---- Calls ---- */

/* Makes an array of n elements that begins one element after an aligned address, and copies `content` there unless it
 * is NULL. */
static unsigned char *place(loom_context *context, const void *content, uint64_t n, size_t width, void **piece)
{
    if (context != NULL)
        CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, (n + 1) * width, piece));
    else
        *piece = test_allocate((n + 1) * width);
    unsigned char *at = (unsigned char *)*piece + width;
    if (content != NULL && context != NULL)
        CHECK_OK(loom_array_copy(context, at, content, n * width, NULL));
    else if (content != NULL)
        memcpy(at, content, n * width);
    return at;
}

static void take_back(loom_context *context, void *content, uint64_t n, size_t width, void *piece)
{
    unsigned char *at = (unsigned char *)piece + width;
    if (content != NULL && context != NULL)
        CHECK_OK(loom_array_copy(context, content, at, n * width, NULL));
    else if (content != NULL)
        memcpy(content, at, n * width);
    if (context != NULL)
        loom_array_destroy(context, LOOM_ARRAY_MACHINE, piece, (n + 1) * width);
    else
        free(piece);
}

static void check_result(const loom_result *result, uint64_t n)
{
    CHECK_EQ(result->keys, n);
    CHECK_EQ(result->ok + result->exists + result->not_found, n);
    CHECK_EQ(result->full, 0);
    CHECK_EQ(result->reserved0, 0);
    CHECK_EQ(result->reserved[0] | result->too_long, 0);
}

loom_result checked_filter_insert(loom_context *context, loom_filter *filter, const batch *b, uint32_t flags)
{
    void *keys_piece, *result_piece;
    loom_result result;
    memset(&result, 0xee, sizeof result);
    void *keys = place(context, b->keys, b->n, b->key_bytes, &keys_piece);
    void *told = place(context, &result, 1, sizeof result, &result_piece);
    CHECK_OK(loom_filter_insert(filter, keys, b->n, flags, NULL, told, NULL));
    take_back(context, &result, 1, sizeof result, result_piece); /* waits */
    take_back(context, NULL, b->n, b->key_bytes, keys_piece);
    check_result(&result, b->n);
    CHECK_EQ(result.not_found | result.exists, 0);
    CHECK(result.status == LOOM_OK || result.status == LOOM_OVERFILLED);
    return result;
}

/* Returns how many of the answers are 1. Each is 0 or 1. */
static uint64_t count_answers(const batch *b)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK_LE(b->found[i], 1);
        count += b->found[i];
    }
    return count;
}

loom_result checked_filter_add(loom_context *context, loom_filter *filter, batch *b, uint32_t flags)
{
    void *keys_piece, *added_piece, *result_piece;
    loom_result result;
    memset(&result, 0xee, sizeof result);
    memset(b->found, 0xee, b->n);
    void *keys = place(context, b->keys, b->n, b->key_bytes, &keys_piece);
    uint8_t *added = place(context, b->found, b->n, 1, &added_piece);
    void *told = place(context, &result, 1, sizeof result, &result_piece);
    CHECK_OK(loom_filter_insert(filter, keys, b->n, flags, added, told, NULL));
    take_back(context, &result, 1, sizeof result, result_piece); /* waits */
    take_back(context, b->found, b->n, 1, added_piece);
    take_back(context, NULL, b->n, b->key_bytes, keys_piece);
    check_result(&result, b->n);
    CHECK_EQ(result.not_found, 0);
    CHECK_EQ(result.ok, count_answers(b));
    CHECK(result.status == LOOM_OK || result.status == LOOM_OVERFILLED);
    return result;
}

loom_result checked_filter_contains(loom_context *context, loom_filter *filter, batch *b)
{
    void *keys_piece, *found_piece, *result_piece;
    loom_result result;
    memset(&result, 0xee, sizeof result);
    memset(b->found, 0xee, b->n);
    void *keys = place(context, b->keys, b->n, b->key_bytes, &keys_piece);
    uint8_t *answers = place(context, b->found, b->n, 1, &found_piece);
    void *told = place(context, &result, 1, sizeof result, &result_piece);
    CHECK_OK(loom_filter_contains(filter, keys, b->n, answers, told, NULL));
    take_back(context, &result, 1, sizeof result, result_piece);
    take_back(context, b->found, b->n, 1, found_piece);
    take_back(context, NULL, b->n, b->key_bytes, keys_piece);
    check_result(&result, b->n);
    CHECK_EQ(result.status, LOOM_OK);
    CHECK_EQ(result.exists, 0);
    CHECK_EQ(result.ok, count_answers(b));
    return result;
}

void check_all_in(loom_filter *filter, batch *b)
{
    checked_filter_contains(NULL, filter, b);
    for (uint64_t i = 0; i < b->n; i++)
        if (!b->found[i])
            FAIL("key 0x%llx, number %llu of %llu, was inserted and is not there", (unsigned long long)batch_key(b, i),
                 (unsigned long long)i, (unsigned long long)b->n);
}

/* ---- Bits ---- */

unsigned char *filter_file(test_run *t, loom_filter *filter, size_t *bytes)
{
    const char *path = test_path(t, "filter");
    CHECK_OK(loom_filter_save(filter, path, NULL));
    return test_read_file(path, bytes);
}

void check_same_bits(test_run *t, loom_filter *a, loom_filter *b)
{
    size_t a_bytes, b_bytes;
    unsigned char *a_file = filter_file(t, a, &a_bytes), *b_file = filter_file(t, b, &b_bytes);
    const surgery_head one = surgery_header(a_file), other = surgery_header(b_file);
    CHECK_EQ(one.table.key_bytes, other.table.key_bytes);
    CHECK_EQ(one.table.parameters[0], other.table.parameters[0]);
    CHECK_EQ(one.table.seed, other.table.seed);
    CHECK_EQ(one.table.partitions, other.table.partitions);
    CHECK_EQ(a_bytes, b_bytes);
    CHECK_BYTES(a_file + SURGERY_HEAD_BYTES, b_file + SURGERY_HEAD_BYTES, a_bytes - SURGERY_HEAD_BYTES);
    free(a_file);
    free(b_file);
}
