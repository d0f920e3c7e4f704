/* Rows in host memory (loom_row_place): what counts as whose bytes, who may choose, who keeps the choice. The list of
 * cases has such tables, too: they run the tests of every engine as "stadium". */
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 3000 };

static loom_map_config host_config(uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    return config;
}

static void make_pairs(uint64_t first, uint64_t n, uint64_t *keys, uint64_t *values)
{
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = mix_u64(first + i);
        values[i] = mix_u64(~(first + i));
    }
}

static void insert_pairs(loom_map *map, uint64_t first, uint64_t n)
{
    uint64_t *keys = test_allocate(n * sizeof *keys), *values = test_allocate(n * sizeof *values);
    make_pairs(first, n, keys, values);
    CHECK_OK(loom_map_insert(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL));
    free(keys);
    free(values);
}

/* The map holds pairs 0 to n - 1, and its rows lie there. */
static void check_map(loom_map *map, uint64_t n, loom_row_place place)
{
    uint64_t *keys = test_allocate(2 * n * sizeof *keys), *values = test_allocate(2 * n * sizeof *values);
    uint64_t *found = test_allocate(2 * n * sizeof *found), used;
    uint8_t *status = test_allocate(2 * n);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    make_pairs(0, 2 * n, keys, values);
    CHECK_OK(loom_map_find(map, keys, 2 * n, found, NULL, status, NULL, NULL));
    for (uint64_t i = 0; i < 2 * n; i++) {
        CHECK_EQ(status[i], i < n ? LOOM_OK : LOOM_NOT_FOUND);
        if (i < n)
            CHECK_EQ(found[i], values[i]);
    }
    CHECK_EQ(map_size(map), n);
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_EQ(config.row_place, place);
    const loom_stats stats = map_stats(map);
    CHECK_OK(loom_map_memory_used(map, &used));
    CHECK_EQ(stats.memory_bytes, used);
    CHECK(stats.host_bytes == (place == LOOM_ROWS_IN_HOST_MEMORY ? stats.slots * 16 : 0));
    CHECK(stats.density > 0 && stats.density * (double)(stats.memory_bytes + stats.host_bytes) < (double)n * 16.01);
    checked_verify(map);
    free(keys);
    free(values);
    free(found);
    free(status);
}

/* Growth, shrinking, clones and files keep the place. */
TEST(test_rows_place_is_kept)
{
    loom_context *context = make_context(t);
    for (int chosen = LOOM_ROWS_ON_DEVICE; chosen <= LOOM_ROWS_IN_HOST_MEMORY; chosen++) {
        const loom_row_place place = (loom_row_place)chosen;
        loom_map_config config = host_config(8, 8);
        config.engine = chosen ? LOOM_ENGINE_DEFAULT : LOOM_ENGINE_ROWS;
        config.row_place = place;
        loom_map *map = make_map_from(context, &config), *other;
        test_note("place %d", chosen);
        for (uint64_t first = 0; first < PAIRS; first += 500) /* grows several times */
            insert_pairs(map, first, 500);
        check_map(map, PAIRS, place);
        CHECK_OK(loom_map_reserve(map, 4 * PAIRS, NULL));
        check_map(map, PAIRS, place);
        CHECK_OK(loom_map_shrink(map, NULL));
        check_map(map, PAIRS, place);
        CHECK_OK(loom_map_clone(map, &other, NULL));
        check_map(other, PAIRS, place);
        loom_map_destroy(other);
        CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
        CHECK_OK(loom_map_load(context, test_path(t, "saved"), &other, NULL));
        check_map(other, PAIRS, place);
        loom_map_destroy(other);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* memory_required tells both numbers of bytes. memory_limit counts those where the machine works alone: a table may
 * have four times as many bytes in host memory. */
TEST(test_rows_place_memory_limit_counts_the_machine_alone)
{
    enum { KEYS = 20000 };
    loom_context *context = make_context(t);
    loom_map_config config = host_config(8, 8);
    loom_memory host = LOOM_MEMORY_INIT, device = LOOM_MEMORY_INIT;
    uint64_t used;
    config.capacity = KEYS;
    CHECK_OK(loom_map_memory_required(context, &config, &host));
    config.engine = LOOM_ENGINE_ROWS;
    config.row_place = LOOM_ROWS_ON_DEVICE;
    CHECK_OK(loom_map_memory_required(context, &config, &device));
    CHECK_EQ(device.host_bytes, 0);
    CHECK(host.table_bytes + host.host_bytes <= device.table_bytes + 128 &&
          device.table_bytes <= host.table_bytes + host.host_bytes + 128);
    CHECK_GT(host.host_bytes, 4 * host.table_bytes);

    config.memory_limit = device.table_bytes / 4;
    config.max_load = 0.8;
    loom_map *map;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    map = make_map_from(context, &config);
    CHECK_OK(loom_map_memory_used(map, &used));
    CHECK_EQ(used, host.table_bytes);
    CHECK_EQ(map_stats(map).host_bytes, host.host_bytes);
    insert_pairs(map, 0, KEYS);
    check_map(map, KEYS, LOOM_ROWS_IN_HOST_MEMORY);

    /* It grows up to the limit, and then refuses keys. */
    uint64_t *keys = test_allocate(2 * KEYS * sizeof *keys), *values = test_allocate(2 * KEYS * sizeof *values);
    loom_result result;
    make_pairs(KEYS, 2 * KEYS, keys, values);
    CHECK_EQ(loom_map_insert(map, keys, values, 2 * KEYS, LOOM_KEEP, NULL, &result, NULL), LOOM_OK);
    CHECK_OK(loom_map_memory_used(map, &used));
    CHECK(used <= config.memory_limit);
    CHECK_GT(result.full, 0);
    CHECK_EQ(map_size(map), KEYS + result.ok);
    checked_verify(map);
    free(keys);
    free(values);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Only tables with rows have a choice. */
TEST(test_rows_place_refused)
{
    static const struct {
        loom_engine engine;
        loom_type type;
        uint32_t key_bytes, value_bytes;
    } others[] = {
        {LOOM_ENGINE_OPEN, LOOM_TYPE_MAP, 8, 8},          {LOOM_ENGINE_PERFECT, LOOM_TYPE_MAP, 8, 8},
        {LOOM_ENGINE_CHAIN, LOOM_TYPE_MULTIMAP, 8, 8},    {LOOM_ENGINE_OPEN, LOOM_TYPE_MULTIMAP, 8, 8},
        {LOOM_ENGINE_DEFAULT, LOOM_TYPE_MULTIMAP, 16, 8}, {LOOM_ENGINE_OPEN, LOOM_TYPE_SET, 8, 0},
    };
    loom_context *context = make_context(t);
    loom_map *map;
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        loom_map_config config = host_config(others[i].key_bytes, others[i].value_bytes);
        config.engine = others[i].engine;
        config.type = others[i].type;
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
        CHECK(strstr(loom_last_error(), "LOOM_ENGINE_ROWS") != NULL);
    }
    loom_map_config config = host_config(16, 8);
    config.row_place = (loom_row_place)2;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    config.row_place = (loom_row_place)-1;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

/* The bytes of strings lie where the rows do. */
TEST(test_rows_place_of_strings)
{
    enum { KEYS = 2000, LENGTH = 24 };
    loom_context *context = make_context(t);
    loom_map_config config = host_config(LOOM_VARIABLE, 8);
    loom_memory before = LOOM_MEMORY_INIT, after = LOOM_MEMORY_INIT;
    config.capacity = KEYS;
    CHECK_OK(loom_map_memory_required(context, &config, &before));
    config.string_bytes = KEYS * LENGTH;
    CHECK_OK(loom_map_memory_required(context, &config, &after));
    CHECK_EQ(after.table_bytes, before.table_bytes);
    CHECK(after.host_bytes >= before.host_bytes + (KEYS - 4) * LENGTH);

    char *bytes = test_allocate(2 * KEYS * LENGTH);
    uint64_t *offsets = test_allocate((2 * KEYS + 1) * sizeof *offsets), *values = test_allocate(2 * KEYS * 8);
    uint8_t *status = test_allocate(2 * KEYS);
    uint64_t *found = test_allocate(2 * KEYS * 8);
    for (uint64_t i = 0; i < 2 * KEYS; i++) {
        char text[32];
        offsets[i] = i * LENGTH;
        values[i] = mix_u64(i);
        snprintf(text, sizeof text, "%024llx", (unsigned long long)mix_u64(i));
        memcpy(bytes + i * LENGTH, text, LENGTH);
    }
    offsets[2 * KEYS] = 2 * KEYS * LENGTH;
    const loom_strings keys = {.offsets = offsets, .bytes = bytes};
    config.string_bytes = 0; /* the heap grows */
    loom_map *map = make_map_from(context, &config), *loaded;
    CHECK_OK(loom_map_insert(map, &keys, values, KEYS, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_save(map, test_path(t, "strings"), NULL));
    CHECK_OK(loom_map_load(context, test_path(t, "strings"), &loaded, NULL));
    const uint64_t packed = map_stats(map).host_bytes;
    CHECK_OK(loom_map_reserve_strings(map, 1 << 20, NULL));
    CHECK_GT(map_stats(map).host_bytes, packed);
    CHECK_OK(loom_map_shrink(map, NULL)); /* gives host memory back, although the machine's bytes stay */
    CHECK_LE(map_stats(map).host_bytes, packed);
    loom_map *both[] = {map, loaded};
    for (int m = 0; m < 2; m++) {
        CHECK_OK(loom_map_find(both[m], &keys, 2 * KEYS, found, NULL, status, NULL, NULL));
        for (uint64_t i = 0; i < 2 * KEYS; i++) {
            CHECK_EQ(status[i], i < KEYS ? LOOM_OK : LOOM_NOT_FOUND);
            if (i < KEYS)
                CHECK_EQ(found[i], values[i]);
        }
        checked_verify(both[m]);
        loom_map_destroy(both[m]);
    }
    free(bytes);
    free(offsets);
    free(values);
    free(status);
    free(found);
    loom_context_destroy(context);
}

/* The n-th allocation fails: no table is made, and nothing is kept. The sentence of the rows names host memory. */
TEST(test_rows_place_without_memory)
{
    counting_allocator *c = counting_create();
    loom_context *context = make_counting_context(t, c, 1);
    const uint64_t before = counting_pieces(c);
    loom_map_config config = host_config(16, 48);
    int told = 0;
    loom_map *map = NULL;
    config.capacity = PAIRS;
    for (uint64_t n = 1; map == NULL; n++) {
        counting_fail_at(c, n);
        if (loom_map_create(context, &config, &map) != LOOM_OK) {
            map = NULL;
            CHECK_EQ(counting_pieces(c), before);
            told |= strstr(loom_last_error(), "host memory for rows") != NULL;
        }
    }
    CHECK(told);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(c);
}

/* Files whose place is none, with right checksums. A file may be told the other place: the bytes are the same. */
TEST(test_rows_place_of_crafted_files)
{
    enum { PLACE_PARAMETER = 4 };
    loom_context *context = make_context(t);
    for (int place = 0; place < 2; place++) {
        loom_map_config config = host_config(8, 8);
        config.engine = LOOM_ENGINE_ROWS;
        config.row_place = (loom_row_place)place;
        loom_map *map = make_map_from(context, &config), *loaded;
        size_t bytes;
        insert_pairs(map, 0, PAIRS);
        CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
        unsigned char *file = test_read_file(test_path(t, "saved"), &bytes);
        surgery_head head = surgery_header(file);
        CHECK_EQ(head.table.parameters[PLACE_PARAMETER], place);
        const uint64_t places[] = {!place, 2, UINT64_MAX};
        for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
            head.table.parameters[PLACE_PARAMETER] = places[i];
            surgery_set_header(file, &head);
            surgery_sign(file, bytes);
            test_write_file(test_path(t, "crafted"), file, bytes);
            if (i > 0) {
                CHECK_REFUSED(loom_map_load(context, test_path(t, "crafted"), &loaded, NULL), LOOM_BAD_FILE);
                continue;
            }
            CHECK_OK(loom_map_load(context, test_path(t, "crafted"), &loaded, NULL));
            check_map(loaded, PAIRS, place ? LOOM_ROWS_ON_DEVICE : LOOM_ROWS_IN_HOST_MEMORY);
            loom_map_destroy(loaded);
        }
        free(file);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}
