/* Layouts of the rows engine: keys and values together or apart. The tests of widths and of strings run models of both.
 * Here: who may choose, who keeps the choice, and what it costs. */
#include "harness/file_surgery.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { KEY = 16, VALUE = 20, PAIRS = 3000 };

static loom_map_config layout_config(loom_layout layout)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = KEY;
    config.value_bytes = VALUE;
    config.layout = layout;
    return config;
}

static void make_pair(uint64_t i, unsigned char *key, unsigned char *value)
{
    for (uint32_t byte = 0; byte < KEY; byte++)
        key[byte] = (unsigned char)(mix_u64(i + (uint64_t)byte / 8 * PAIRS) >> byte % 8 * 8);
    for (uint32_t byte = 0; byte < VALUE; byte++)
        value[byte] = (unsigned char)(mix_u64(~i + byte / 8) >> byte % 8 * 8);
}

static void insert_pairs(loom_map *map, uint64_t first, uint64_t n)
{
    unsigned char *keys = test_allocate(n * KEY), *values = test_allocate(n * VALUE);
    for (uint64_t i = 0; i < n; i++)
        make_pair(first + i, keys + i * KEY, values + i * VALUE);
    CHECK_OK(loom_map_insert(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL));
    free(keys);
    free(values);
}

/* The map holds pairs 0 to n - 1, and has this layout. */
static void check_map(loom_map *map, uint64_t n, loom_layout layout)
{
    unsigned char *keys = test_allocate(2 * n * KEY), *values = test_allocate(2 * n * VALUE);
    unsigned char *found = test_allocate(2 * n * VALUE), *is_found = test_allocate(2 * n);
    uint8_t *status = test_allocate(2 * n);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    for (uint64_t i = 0; i < 2 * n; i++)
        make_pair(i, keys + i * KEY, values + i * VALUE);
    CHECK_OK(loom_map_find(map, keys, 2 * n, found, NULL, status, NULL, NULL));
    CHECK_OK(loom_map_contains(map, keys, 2 * n, is_found, NULL, NULL, NULL));
    for (uint64_t i = 0; i < 2 * n; i++) {
        CHECK_EQ(status[i], i < n ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(is_found[i], i < n);
        if (i < n)
            CHECK_BYTES(found + i * VALUE, values + i * VALUE, VALUE);
    }
    CHECK_EQ(map_size(map), n);
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_EQ(config.layout, layout);
    checked_verify(map);
    free(keys);
    free(values);
    free(found);
    free(is_found);
    free(status);
}

/* Growth, shrinking, clones and files keep the layout. */
TEST(test_rows_layout_is_kept)
{
    for (int chosen = LOOM_LAYOUT_DEFAULT; chosen <= LOOM_LAYOUT_APART; chosen++) {
        const loom_layout layout = chosen == LOOM_LAYOUT_APART ? LOOM_LAYOUT_APART : LOOM_LAYOUT_TOGETHER;
        loom_context *context = make_context(t);
        const loom_map_config config = layout_config((loom_layout)chosen);
        loom_map *map = make_map_from(context, &config), *other;
        test_note("layout %d", chosen);
        for (uint64_t first = 0; first < PAIRS; first += 500) /* grows several times */
            insert_pairs(map, first, 500);
        check_map(map, PAIRS, layout);
        CHECK_OK(loom_map_reserve(map, 4 * PAIRS, NULL));
        check_map(map, PAIRS, layout);
        CHECK_OK(loom_map_shrink(map, NULL));
        check_map(map, PAIRS, layout);
        CHECK_OK(loom_map_clone(map, &other, NULL));
        check_map(other, PAIRS, layout);
        loom_map_destroy(other);
        CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
        CHECK_OK(loom_map_load(context, test_path(t, "saved"), &other, NULL));
        check_map(other, PAIRS, layout);
        loom_map_destroy(other);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

/* Values apart have no padding: 5 + 8 bytes take 13 bytes for each slot instead of 16. Other widths take the same. */
TEST(test_rows_layout_apart_has_no_padding)
{
    static const uint32_t widths[][3] = {{5, 8, 3}, {16, 20, 0}, {3, 4, 1}, {8, 8, 0}};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        loom_context *context = make_context(t);
        uint64_t bytes[2], slots[2];
        for (int apart = 0; apart < 2; apart++) {
            loom_map_config config = layout_config(apart ? LOOM_LAYOUT_APART : LOOM_LAYOUT_TOGETHER);
            config.engine = LOOM_ENGINE_ROWS;
            config.key_bytes = widths[w][0];
            config.value_bytes = widths[w][1];
            config.capacity = 100000;
            config.buckets_per_partition = 101;
            loom_memory memory = LOOM_MEMORY_INIT;
            loom_map *map = make_map_from(context, &config);
            CHECK_OK(loom_map_memory_required(context, &config, &memory));
            CHECK_OK(loom_map_memory_used(map, &bytes[apart]));
            CHECK_EQ(bytes[apart], memory.table_bytes);
            slots[apart] = map_stats(map).slots;
            loom_map_destroy(map);
        }
        CHECK_EQ(slots[0], slots[1]);
        const uint64_t saved = slots[0] * widths[w][2];
        CHECK(bytes[1] + saved < bytes[0] + 256 && bytes[0] < bytes[1] + saved + 256); /* regions begin at 64 bytes */
        loom_context_destroy(context);
    }
}

/* Only tables whose rows have values have a choice. */
TEST(test_rows_layout_refused)
{
    static const struct {
        loom_engine engine;
        loom_type type;
        uint32_t value_bytes;
    } others[] = {
        {LOOM_ENGINE_OPEN, LOOM_TYPE_MAP, 8},       {LOOM_ENGINE_PERFECT, LOOM_TYPE_MAP, 8},
        {LOOM_ENGINE_CHAIN, LOOM_TYPE_MULTIMAP, 8}, {LOOM_ENGINE_OPEN, LOOM_TYPE_MULTIMAP, 8},
        {LOOM_ENGINE_OPEN, LOOM_TYPE_SET, 0},
    };
    loom_context *context = make_context(t);
    loom_map *map;
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int layout = LOOM_LAYOUT_TOGETHER; layout <= LOOM_LAYOUT_APART; layout++) {
            loom_map_config config = layout_config((loom_layout)layout);
            config.engine = others[i].engine;
            config.type = others[i].type;
            config.key_bytes = 8;
            config.value_bytes = others[i].value_bytes;
            CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
            CHECK(strstr(loom_last_error(), "LOOM_ENGINE_ROWS") != NULL);
        }
    loom_map_config config = layout_config(LOOM_LAYOUT_APART);
    config.type = LOOM_TYPE_SET;
    config.value_bytes = 0;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    config.layout = LOOM_LAYOUT_TOGETHER; /* what get_config tells of a set */
    loom_map_destroy(make_map_from(context, &config));
    config = layout_config((loom_layout)3);
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

/* Files whose layout is not that of their sections, with right checksums. */
TEST(test_rows_layout_of_crafted_files)
{
    for (int apart = 0; apart < 2; apart++) {
        loom_context *context = make_context(t);
        const loom_map_config config = layout_config(apart ? LOOM_LAYOUT_APART : LOOM_LAYOUT_TOGETHER);
        loom_map *map = make_map_from(context, &config), *loaded;
        size_t bytes;
        insert_pairs(map, 0, 100);
        CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
        unsigned char *file = test_read_file(test_path(t, "saved"), &bytes);
        const surgery_head sound = surgery_header(file);
        CHECK_EQ(sound.file.sections, 2 + apart);
        CHECK_EQ(sound.table.parameters[3], apart);
        const uint64_t wrong[] = {(uint64_t)!apart, 2, UINT64_MAX};
        for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            surgery_head head = sound;
            head.table.parameters[3] = wrong[i];
            surgery_set_header(file, &head);
            surgery_sign(file, bytes);
            test_write_file(test_path(t, "crafted"), file, bytes);
            CHECK_REFUSED(loom_map_load(context, test_path(t, "crafted"), &loaded, NULL), LOOM_BAD_FILE);
        }
        free(file);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}
