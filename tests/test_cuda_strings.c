/* Byte strings in every kind of memory that the cuda machine knows. tests/test_rows_strings*.c run on the cuda machine,
 * too, with strings in host memory. */
#include "harness/cuda_arrays.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = PLAIN_HOST + 1 };

typedef struct lines {
    uint64_t n, *offsets;
    unsigned char *bytes;
} lines;

/* n different strings of 8 to 8 + spread - 1 bytes, the first of which begins `shift` bytes behind the array. */
static lines make_lines(uint64_t n, uint64_t spread, uint64_t shift)
{
    lines made = {n, test_allocate((n + 1) * sizeof(uint64_t)), test_allocate(shift + n * (8 + spread))};
    memset(made.bytes, 0x33, shift + n * (8 + spread));
    made.offsets[0] = shift;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t length = 8 + mix_u64(i) % spread;
        unsigned char *at = made.bytes + made.offsets[i];
        for (uint64_t b = 0; b < length; b++)
            at[b] = (unsigned char)mix_u64(i + b / 3);
        memcpy(at + length - 8, &i, 8);
        made.offsets[i + 1] = made.offsets[i] + length;
    }
    return made;
}

static void free_lines(lines *of)
{
    free(of->offsets);
    free(of->bytes);
}

/* The strings in memory of some kind. The array ends with the last string. */
typedef struct placed_lines {
    placed offsets, bytes;
    loom_strings given;
} placed_lines;

static placed_lines place_lines(loom_context *context, const lines *of, int offsets_kind, int bytes_kind)
{
    placed_lines made = {place(context, offsets_kind, of->offsets, (of->n + 1) * sizeof *of->offsets),
                         place(context, bytes_kind, of->bytes, of->offsets[of->n]),
                         {NULL, NULL}};
    made.given = (loom_strings){made.offsets.at, made.bytes.at};
    return made;
}

static void free_placed(loom_context *context, placed_lines *of)
{
    take_back(context, &of->offsets, NULL);
    take_back(context, &of->bytes, NULL);
}

static loom_map *make_strings_map(loom_context *context, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    return make_map_from(context, &config);
}

/* Keys that are strings: offsets and bytes in every combination of memory kinds, at every alignment. */
TEST(test_cuda_strings_keys_in_every_memory, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    const uint64_t n = 20000;
    uint64_t *numbers = test_allocate(n * 8), *found = test_allocate(n * 8);
    uint8_t *status = test_allocate(n);
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = mix_u64(i);
    for (int which = 0; which < KINDS * KINDS; which++) {
        lines keys = make_lines(n, 60, (uint64_t)which % 9);
        placed_lines p = place_lines(context, &keys, which % KINDS, which / KINDS);
        placed values = place(context, (which + 1) % KINDS, numbers, n * 8),
               answers = place(context, which % KINDS, found, n * 8);
        loom_map *map = make_strings_map(context, LOOM_VARIABLE, 8);
        loom_result result = {0};
        test_note("offsets %d, bytes %d", which % KINDS, which / KINDS);
        CHECK_OK(loom_map_insert(map, &p.given, values.at, n / 2, LOOM_KEEP, NULL, &result, NULL));
        CHECK_EQ(result.ok, n / 2);
        CHECK_OK(loom_map_insert(map, &p.given, values.at, n, which % 2 ? LOOM_IN_ORDER : LOOM_OVERWRITE, status,
                                 &result, NULL));
        CHECK_EQ(result.ok, n - n / 2);
        CHECK_EQ(result.exists, n / 2);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(status[i], i < n / 2 ? LOOM_EXISTS : LOOM_OK);
        CHECK_OK(loom_map_find(map, &p.given, n, answers.at, NULL, status, &result, NULL));
        CHECK_EQ(result.ok, n);
        take_back(context, &answers, found);
        CHECK_BYTES(found, numbers, n * 8);
        checked_verify(map);
        const loom_strings half = {(const uint64_t *)p.given.offsets + n / 4, p.given.bytes};
        CHECK_OK(loom_map_erase(map, &half, n / 2, NULL, &result, NULL));
        CHECK_EQ(result.ok, n / 2);
        CHECK_OK(loom_map_contains(map, &p.given, n, status, NULL, &result, NULL));
        CHECK_EQ(result.ok, n - n / 2);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(status[i], i < n / 4 || i >= n / 4 + n / 2);
        checked_verify(map);
        loom_map_destroy(map);
        take_back(context, &values, NULL);
        free_placed(context, &p);
        free_lines(&keys);
    }
    free(numbers);
    free(found);
    free(status);
    loom_context_destroy(context);
}

/* Values that are strings come back to every kind of memory. */
TEST(test_cuda_strings_values_to_every_memory, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    const uint64_t n = 5000;
    lines texts = make_lines(n, 300, 0);
    const uint64_t bytes = texts.offsets[n];
    unsigned char *read = test_allocate(bytes + 8);
    uint64_t *ends = test_allocate((n + 1) * 8), count = 0;
    for (int which = 0; which < KINDS * KINDS; which++) {
        placed_lines p = place_lines(context, &texts, which / KINDS, which % KINDS);
        loom_map *map = make_strings_map(context, LOOM_VARIABLE, LOOM_VARIABLE);
        memset(read, 0x77, bytes + 8);
        placed offsets = place(context, which % KINDS, ends, (n + 1) * 8),
               to = place(context, which / KINDS, read, bytes + 8);
        uint64_t needed = 0;
        test_note("offsets %d, bytes %d", which % KINDS, which / KINDS);
        CHECK_OK(loom_map_insert(map, &p.given, &p.given, n, LOOM_KEEP, NULL, NULL, NULL));
        CHECK_OK(loom_map_find_strings(map, &p.given, n, offsets.at, NULL, 0, &needed, NULL, NULL, NULL));
        CHECK_EQ(needed, bytes);
        CHECK_EQ(loom_map_find_strings(map, &p.given, n, offsets.at, to.at, bytes - 1, NULL, NULL, NULL, NULL),
                 LOOM_TOO_SMALL);
        CHECK_OK(loom_map_find_strings(map, &p.given, n, offsets.at, to.at, bytes, NULL, NULL, NULL, NULL));
        take_back(context, &offsets, ends);
        take_back(context, &to, read);
        CHECK_BYTES(ends, texts.offsets, (n + 1) * 8);
        CHECK_BYTES(read, texts.bytes, bytes);
        CHECK_EQ(read[bytes], 0x77);
        /* All pairs: keys and values are equal strings. */
        placed key_offsets = place(context, which % KINDS, ends, (n + 1) * 8),
               value_offsets = place(context, which % KINDS, ends, (n + 1) * 8);
        placed keys = place(context, which / KINDS, read, bytes), values = place(context, which / KINDS, read, bytes);
        loom_strings_out key_out = {key_offsets.at, keys.at, bytes, 0},
                         value_out = {value_offsets.at, values.at, bytes, 0};
        CHECK_OK(loom_map_retrieve_all(map, &key_out, &value_out, n, &count, NULL, NULL));
        CHECK_EQ(key_out.needed, bytes);
        unsigned char *other = test_allocate(bytes);
        uint64_t *other_ends = test_allocate((n + 1) * 8);
        take_back(context, &key_offsets, ends);
        take_back(context, &value_offsets, other_ends);
        take_back(context, &keys, read);
        take_back(context, &values, other);
        CHECK_BYTES(ends, other_ends, (n + 1) * 8);
        CHECK_BYTES(read, other, bytes);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t number;
            memcpy(&number, read + ends[i + 1] - 8, 8);
            CHECK(number < n);
            CHECK_EQ(ends[i + 1] - ends[i], texts.offsets[number + 1] - texts.offsets[number]);
            CHECK_BYTES(read + ends[i], texts.bytes + texts.offsets[number], ends[i + 1] - ends[i]);
        }
        free(other);
        free(other_ends);
        loom_map_destroy(map);
        free_placed(context, &p);
    }
    free(read);
    free(ends);
    free_lines(&texts);
    loom_context_destroy(context);
}

/* Strings that are longer than the staging buffers, with keys of a fixed width. */
TEST(test_cuda_strings_long_values, .timeout_seconds = 180)
{
    need_cuda();
    enum { ROWS = 5 };
    loom_context *context = cuda_context_create(t, 0);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 8;
    config.value_bytes = LOOM_VARIABLE;
    config.most_value_bytes = 40 << 20;
    loom_map *map = make_map_from(context, &config);
    uint64_t keys[ROWS], offsets[ROWS + 1] = {0}, ends[ROWS + 1], needed = 0;
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
        offsets[i + 1] = offsets[i] + (i == 3 ? (20 << 20) + 5 : 1000 * i + 3);
    }
    unsigned char *bytes = test_allocate(offsets[ROWS]), *found = test_allocate(offsets[ROWS]);
    for (uint64_t i = 0; i < offsets[ROWS]; i++)
        bytes[i] = (unsigned char)(mix_u64(i / 8) >> i % 8 * 8);
    const loom_strings values = {offsets, bytes};
    CHECK_OK(loom_map_insert(map, keys, &values, ROWS, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_find_strings(map, keys, ROWS, ends, found, offsets[ROWS], &needed, NULL, NULL, NULL));
    CHECK_EQ(needed, offsets[ROWS]);
    CHECK_BYTES(found, bytes, needed);
    checked_verify(map);
    free(bytes);
    free(found);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Values in order: staged keys make several launches, and slices as well. */
TEST(test_cuda_strings_in_order_in_slices, .timeout_seconds = 180)
{
    need_cuda();
    enum { KEYS = 500 };
    const uint64_t n = 20000;
    loom_context *context = cuda_context_create(t, 0);
    cuda_set_slice(context, 3000);
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        loom_map *map = make_strings_map(context, 8, LOOM_VARIABLE);
        lines texts = make_lines(n, 90, 0);
        uint64_t *keys = test_allocate(n * 8), first[KEYS], last[KEYS], ends[KEYS + 1], asked[KEYS], needed;
        uint8_t *status = test_allocate(n);
        memset(first, 0xff, sizeof first);
        for (uint64_t i = 0; i < n; i++) {
            keys[i] = random_below(&t->random, KEYS);
            first[keys[i]] = first[keys[i]] == UINT64_MAX ? i : first[keys[i]];
            last[keys[i]] = i;
        }
        const loom_strings values = {texts.offsets, texts.bytes};
        CHECK_OK(loom_map_insert(map, keys, &values, n, LOOM_IN_ORDER | (overwrite ? LOOM_OVERWRITE : 0), status, NULL,
                                 NULL));
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(status[i], first[keys[i]] == i ? LOOM_OK : LOOM_EXISTS);
        for (uint64_t i = 0; i < KEYS; i++)
            asked[i] = i;
        unsigned char *found = test_allocate(KEYS * 100);
        CHECK_OK(loom_map_find_strings(map, asked, KEYS, ends, found, KEYS * 100, &needed, NULL, NULL, NULL));
        for (uint64_t i = 0; i < KEYS; i++) {
            const uint64_t from = overwrite ? last[i] : first[i];
            CHECK_EQ(ends[i + 1] - ends[i], texts.offsets[from + 1] - texts.offsets[from]);
            CHECK_BYTES(found + ends[i], texts.bytes + texts.offsets[from], ends[i + 1] - ends[i]);
        }
        checked_verify(map);
        free(found);
        free(status);
        free(keys);
        free_lines(&texts);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}
