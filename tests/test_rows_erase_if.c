/* loom_map_erase_if on tables with rows: values of 4 and 8 bytes are numbers, whatever the width of the keys. Values of
 * other widths are refused. test_open_erase_if.c runs on keys of 4 and 8 bytes in rows, too. */
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 200 };

static loom_map *make_rows(loom_context *context, loom_type type, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = type;
    config.engine = LOOM_ENGINE_ROWS;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = KEYS;
    return make_map_from(context, &config);
}

/* Key i ends with the byte i; KEYS different ones. */
static unsigned char *make_keys(uint32_t key_bytes)
{
    unsigned char *keys = test_allocate((size_t)KEYS * key_bytes);
    memset(keys, 0xc3, (size_t)KEYS * key_bytes);
    for (uint32_t i = 0; i < KEYS; i++)
        keys[(i + 1) * key_bytes - 1] = (unsigned char)i;
    return keys;
}

/* Value i is the number i - 100, of any kind. */
static uint64_t value_bits(loom_number number, uint32_t i)
{
    const int32_t of_4 = (int32_t)i - 100;
    const int64_t of_8 = of_4;
    const float real_4 = (float)of_4;
    const double real_8 = (double)of_4;
    uint64_t bits = 0;
    const void *from = number == LOOM_NUMBER_F32   ? (const void *)&real_4
                       : number == LOOM_NUMBER_F64 ? (const void *)&real_8
                       : number < LOOM_NUMBER_U64  ? (const void *)&of_4
                                                   : (const void *)&of_8;
    memcpy(&bits, from, number < LOOM_NUMBER_U64 ? 4 : 8);
    return bits;
}

/* Whether value i lies between values 60 and 149. As unsigned numbers those below 0 are the largest, so that this range
 * is empty. */
static int is_erased(loom_number number, uint32_t i)
{
    const int is_unsigned = number == LOOM_NUMBER_U32 || number == LOOM_NUMBER_U64;
    return !is_unsigned && i >= 60 && i <= 149;
}

static void check_range(loom_map *map, uint32_t key_bytes, loom_number number)
{
    const uint32_t bytes = number < LOOM_NUMBER_U64 ? 4 : 8;
    const uint64_t least = value_bits(number, 60), most = value_bits(number, 149);
    unsigned char *keys = make_keys(key_bytes), values[KEYS * 8], found[KEYS * 8];
    uint8_t status[KEYS];
    loom_result result;
    uint64_t erased = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        const uint64_t bits = value_bits(number, i);
        memcpy(values + i * bytes, &bits, bytes);
        erased += (uint64_t)is_erased(number, i);
    }
    CHECK_OK(loom_map_build(map, keys, values, KEYS, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase_if(map, number, &least, &most, &result, NULL));
    CHECK_EQ(result.keys, KEYS);
    CHECK_EQ(result.ok, erased);
    CHECK_EQ(result.exists, KEYS - erased);
    CHECK_EQ(map_size(map), KEYS - erased);
    CHECK_OK(loom_map_verify(map, NULL));
    CHECK_OK(loom_map_find(map, keys, KEYS, found, NULL, status, NULL, NULL));
    for (uint32_t i = 0; i < KEYS; i++) {
        CHECK_EQ(status[i], is_erased(number, i) ? LOOM_NOT_FOUND : LOOM_OK);
        if (!is_erased(number, i))
            CHECK_BYTES(found + i * bytes, values + i * bytes, bytes);
    }
    CHECK_OK(loom_map_erase_if(map, number, NULL, NULL, &result, NULL)); /* the rest; there are no NaNs */
    CHECK_EQ(result.ok, KEYS - erased);
    CHECK_EQ(map_size(map), 0);
    free(keys);
}

TEST(test_rows_erase_if_of_every_number)
{
    static const uint32_t widths[] = {1, 3, 4, 8, 16, 33, 256};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int value_bytes = 4; value_bytes <= 8; value_bytes += 4) {
            loom_context *context = make_context(t);
            loom_map *map = make_rows(context, LOOM_TYPE_MAP, widths[w], (uint32_t)value_bytes);
            for (int kind = 0; kind < 3; kind++) {
                const loom_number number =
                    (loom_number)((value_bytes == 4 ? (int)LOOM_NUMBER_U32 : (int)LOOM_NUMBER_U64) + kind);
                test_note("keys of %u bytes, number %d", widths[w], (int)number);
                check_range(map, widths[w], number);
                /* a number that is not as wide as the values */
                const loom_number other = (loom_number)((int)number + (value_bytes == 4 ? 3 : -3));
                CHECK_REFUSED(loom_map_erase_if(map, other, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
            }
            loom_map_destroy(map);
            loom_context_destroy(context);
        }
}

TEST(test_rows_erase_if_needs_numbers)
{
    static const uint32_t widths[] = {1, 2, 3, 5, 7, 9, 12, 16, 512, 65536};
    loom_context *context = make_context(t);
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        loom_map *map = make_rows(context, LOOM_TYPE_MAP, 16, widths[w]);
        unsigned char key[16] = {1}, *value = test_allocate(widths[w]);
        memset(value, 7, widths[w]);
        CHECK_OK(loom_map_insert(map, key, value, 1, LOOM_KEEP, NULL, NULL, NULL));
        test_note("values of %u bytes", widths[w]);
        for (int number = LOOM_NUMBER_U32; number <= LOOM_NUMBER_F64; number++) {
            CHECK_REFUSED(loom_map_erase_if(map, (loom_number)number, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
            CHECK(strstr(loom_last_error(), "4 or 8") != NULL);
        }
        CHECK_EQ(map_size(map), 1);
        free(value);
        loom_map_destroy(map);
    }
    loom_map *set = make_rows(context, LOOM_TYPE_SET, 16, 0);
    CHECK_REFUSED(loom_map_erase_if(set, LOOM_NUMBER_U32, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    loom_map_destroy(set);
    loom_context_destroy(context);
}

TEST(test_rows_erase_if_of_counters)
{
    loom_context *context = make_context(t);
    loom_map *map = make_rows(context, LOOM_TYPE_COUNTER, 20, 4);
    unsigned char *keys = make_keys(20);
    const uint32_t most = 2;
    loom_result result;
    for (uint32_t i = 0; i < 4; i++) /* key i is counted 1 to 4 times */
        CHECK_OK(loom_map_count(map, keys, KEYS - 50 * i, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase_if(map, LOOM_NUMBER_U32, NULL, &most, &result, NULL));
    CHECK_EQ(result.ok, 100);
    CHECK_EQ(map_size(map), KEYS - 100);
    free(keys);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
