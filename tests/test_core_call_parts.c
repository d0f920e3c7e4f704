/* How a call divides its arrays: chunks in staging buffers, slices, words of rows. Also how a call checks its arrays,
 * and how it counts different keys in a sample. */
#include "harness/harness.h"

#include "api/check.h"
#include "core/call_parts.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER = 16 << 20 };

static uint64_t bytes_of(const loom__chunk_column *columns, uint32_t count, uint64_t items)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += loom__chunk_column_bytes(columns[i], items);
    return bytes;
}

/* A chunk holds at least one item, and as many items as fit, for any width of an item. */
TEST(test_core_chunks_have_items_of_any_width)
{
    static const uint32_t widths[] = {1, 4, 8, 24, 4096, 32 << 10, (32 << 10) + 1, 100000, 1 << 20, 8 << 20, 15 << 20};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (uint32_t more = 0; more < 2; more++) {
            const loom__chunk_column columns[3] = {{8, 0}, {widths[w], 0}, {8, more}};
            const uint64_t items = loom__chunk_items(columns, 3, BUFFER);
            test_note("%u bytes", widths[w]);
            CHECK_GT(items, 0);
            CHECK_LE(bytes_of(columns, 3, items), BUFFER);
            CHECK_GT(bytes_of(columns, 3, items + (items >= 512 ? 512 : items >= 32 ? 32 : 1)), BUFFER - 3 * 256);
            CHECK_EQ(items % (items >= 512 ? 512 : items >= 32 ? 32 : 1), 0);
        }
}

TEST(test_core_chunks_of_items_beyond_the_buffer_are_refused)
{
    const loom__chunk_column fits = {BUFFER - 256, 0}, wide = {BUFFER + 1, 0}, two = {BUFFER / 2, 1}, none = {8, 0};
    CHECK_EQ(loom__chunk_items(&fits, 1, BUFFER), 1);
    CHECK_EQ(loom__chunk_items(&wide, 1, BUFFER), 0);
    CHECK_EQ(loom__chunk_items(&two, 1, BUFFER), 0);
    CHECK_EQ(loom__chunk_items(&none, 0, BUFFER), UINT64_MAX);
    CHECK_EQ(loom__chunk_column_bytes(wide, (uint64_t)1 << 32), ((uint64_t)BUFFER + 1) << 32);
}

TEST(test_core_slices_cover_the_batch)
{
    static const uint64_t most[] = {1, 2, 511, 512, 513, 7001, (uint64_t)1 << 30, ((uint64_t)1 << 32) - (1 << 24)};
    for (uint32_t m = 0; m < sizeof most / sizeof *most; m++)
        for (int k = 0; k < 200; k++) {
            const uint64_t n = random_below(&t->random, most[m] * 5) + 1;
            const uint64_t each = loom__slice_items(n, most[m]), slices = (n + each - 1) / each;
            test_note("%llu in slices of %llu", (unsigned long long)n, (unsigned long long)most[m]);
            CHECK_LE(each, most[m]);
            CHECK_LE(slices, (n + most[m] - 1) / most[m]);
            CHECK_GT(each, 0);
        }
    CHECK_EQ(loom__slice_items(0, 10), 0);
    CHECK_EQ(loom__slice_items(((uint64_t)1 << 30) + 1, (uint64_t)1 << 30), ((uint64_t)1 << 29) + 512);
}

TEST(test_core_words_divide_all)
{
    static const uint32_t expected[][2] = {{0, 16}, {1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 16}, {24, 8}, {4096, 16}};
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_EQ(loom__widest_word(expected[i][0]), expected[i][1]);
    CHECK_EQ(loom__widest_word(24 | 0x1004), 4);
    CHECK_EQ(loom__row_lanes(1), 1);
    CHECK_EQ(loom__row_lanes(3), 4);
    CHECK_EQ(loom__row_lanes(32), 32);
    CHECK_EQ(loom__row_lanes(256), 32);
}

/* Arrays of elements whose width is not a power of two may begin at any address. Elements of 4 and 8 bytes must be
 * aligned to their width. */
TEST(test_api_check_arrays_of_any_width)
{
    unsigned char memory[4096] __attribute__((aligned(16)));
    loom__array arrays[3] = {
        {.name = "keys", .at = memory + 1, .width = 24},
        {.name = "offsets", .at = memory + 248, .width = 8, .written = 1},
        {.name = "values", .at = memory + 340, .width = 100, .written = 1},
    };
    CHECK_OK(loom__check_arrays(arrays, 3, 10));
    CHECK_OK(loom__check_arrays(arrays, 2, 10));
    CHECK_REFUSED(loom__check_arrays(arrays, 2, 11), LOOM_INVALID_ARGUMENT); /* the keys reach into the offsets */
    CHECK_OK(loom__check_arrays(arrays + 1, 2, 11));
    CHECK_REFUSED(loom__check_arrays(arrays + 1, 2, 12), LOOM_INVALID_ARGUMENT); /* the offsets reach into the values */
    arrays[1].at = memory + 244;
    CHECK_REFUSED(loom__check_arrays(arrays, 3, 10), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom__check_arrays(arrays, 3, 0));
    CHECK_REFUSED(loom__check_arrays(arrays + 2, 1, UINT64_MAX / 50), LOOM_INVALID_ARGUMENT);
    arrays[2].at = NULL;
    CHECK_REFUSED(loom__check_arrays(arrays + 2, 1, 10), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom__check_arrays(arrays + 2, 1, 0));
}

/* An array may have a length other than n, such as offsets[n + 1] and values[room], and an alignment other than its
 * width. */
TEST(test_api_check_arrays_of_their_own_length)
{
    enum { N = 10 };
    unsigned char memory[4096] __attribute__((aligned(16)));
    loom__array arrays[3] = {
        {.name = "keys", .at = memory + 1, .width = 24},
        {.name = "offsets", .at = memory + 248, .width = 8, .has_count = 1, .count = N + 1, .written = 1},
        {.name = "values", .at = memory + 340, .width = 100, .has_count = 1, .count = 30, .alignment = 4, .written = 1},
    };
    CHECK_OK(loom__check_arrays(arrays, 3, N));
    arrays[1].count++; /* one more reaches into the values */
    CHECK_REFUSED(loom__check_arrays(arrays, 3, N), LOOM_INVALID_ARGUMENT);
    arrays[1].count--;
    arrays[0].alignment = 8;
    CHECK_REFUSED(loom__check_arrays(arrays, 3, N), LOOM_INVALID_ARGUMENT);
    arrays[0].alignment = 0;
    arrays[2].count = UINT64_MAX / 50;
    CHECK_REFUSED(loom__check_arrays(arrays, 3, N), LOOM_INVALID_ARGUMENT);
    arrays[2].count = 0;
    arrays[2].at = NULL;
    CHECK_OK(loom__check_arrays(arrays, 3, N));
    arrays[2].count = 1;
    CHECK_REFUSED(loom__check_arrays(arrays, 3, N), LOOM_INVALID_ARGUMENT);
}
