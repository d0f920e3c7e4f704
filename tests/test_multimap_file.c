/* Files of multimaps: round trips, and files that are damaged. */
#include "core/list_handle.h"
#include "core/table.h"
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

/* Lists of 0 to 40 values and a long one, made by a build and by insertions, with traces of erasures. */
static multimap_model make_worn(test_run *t, loom_context *context, uint64_t keys)
{
    loom_map_config config = make_multimap_config(t, keys, 0);
    config.growth = 2;
    config.most_values_per_key = 1000;
    multimap_model m = make_multimap_model(t, context, &config);
    for (int part = 0; part < 3; part++) {
        batch b = make_batch(t, 8 * keys);
        for (uint64_t i = 0; i < b.n; i++) {
            const uint64_t which = random_below(&t->random, 10) ? random_below(&t->random, keys) : 0;
            set_pair(&b, i, distinct_key(b.key_bytes, 9, which), random_u64(&t->random));
        }
        if (part == 0)
            multimap_build(&m, &b, LOOM_KEEP);
        else
            multimap_insert(&m, &b, LOOM_KEEP);
        b.n /= 4;
        if (part == 1)
            multimap_erase_pairs(&m, &b);
        if (part == 2) {
            b.n = keys / 8;
            multimap_erase(&m, &b);
        }
        free_batch(&b);
    }
    return m;
}

static loom_map *load(loom_context *context, const char *path)
{
    loom_map *map = NULL;
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    CHECK(map != NULL);
    return map;
}

/* The loaded table has the contents, the order, the shape and the limits of the saved one, and works like it. */
TEST_EACH_MULTIMAP(test_multimap_file_round_trip)
{
    static const uint64_t sizes[] = {0, 1, 2, 10, 300};
    loom_context *context = make_multimap_context(t), *other = make_multimap_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        loom_map_config config = make_multimap_config(t, 0, 0);
        multimap_model m = sizes[i] ? make_worn(t, context, sizes[i]) : make_multimap_model(t, context, &config);
        const loom_stats x = map_stats(m.map);
        test_note("%llu keys", (unsigned long long)sizes[i]);
        multimap_save_and_load(&m, other);
        const loom_stats y = map_stats(m.map);
        CHECK_EQ(x.slots, y.slots);
        CHECK_EQ(x.seed, y.seed);
        CHECK_EQ(x.capacity, y.capacity);
        CHECK_EQ(x.partitions, y.partitions);
        CHECK_EQ(x.displaced, y.displaced);
        CHECK_EQ(x.memory_bytes, y.memory_bytes);
        CHECK_EQ(x.longest_list, y.longest_list);
        CHECK_EQ(x.values_room, y.values_room);
        multimap_compare(&m);
        batch all = retrieve(m.map, t->key_bytes, t->value_bytes);
        multimap_insert(&m, &all, LOOM_KEEP);
        multimap_compare(&m);
        multimap_erase_pairs(&m, &all);
        multimap_compare(&m);
        multimap_erase(&m, &all);
        CHECK_EQ(map_size(m.map), 0);
        multimap_build(&m, &all, LOOM_KEEP);
        multimap_compare(&m);
        free_batch(&all);
        end_multimap_model(&m);
    }
    loom_context_destroy(context);
    loom_context_destroy(other);
}

/* A table, its clone and its loaded copy give files with the same bytes. */
TEST_EACH_MULTIMAP(test_multimap_file_same_bytes, .cpu_only = 1)
{
    static const char *const names[] = {"first", "again", "clone", "loaded"};
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_worn(t, context, 100);
    loom_map *clone = NULL;
    size_t wanted_bytes, bytes;
    CHECK_OK(loom_map_save(m.map, test_path(t, names[0]), NULL));
    CHECK_OK(loom_map_save(m.map, test_path(t, names[1]), NULL));
    CHECK_OK(loom_map_clone(m.map, &clone, NULL));
    CHECK_OK(loom_map_save(clone, test_path(t, names[2]), NULL));
    loom_map *loaded = load(context, test_path(t, names[0]));
    CHECK_OK(loom_map_save(loaded, test_path(t, names[3]), NULL));
    void *wanted = test_read_file(test_path(t, names[0]), &wanted_bytes);
    for (size_t i = 1; i < 4; i++) {
        void *got = test_read_file(test_path(t, names[i]), &bytes);
        test_note("file %s", names[i]);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(got, wanted, bytes);
        free(got);
    }
    free(wanted);
    loom_map_destroy(clone);
    loom_map_destroy(loaded);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

static void check_load_refused(test_run *t, loom_context *context, const unsigned char *file, size_t bytes)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    const char *path = test_path(t, "damaged");
    test_write_file(path, file, bytes);
    CHECK_REFUSED_EITHER(loom_map_load(context, path, &map, NULL), LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
    CHECK(map == untouched);
}

/* Every byte is covered by a checksum: the bytes of the header, of the directory and of the values. */
TEST_EACH_MULTIMAP(test_multimap_file_damaged, .long_tier = 1)
{
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_worn(t, context, 50);
    const char *path = test_path(t, "saved");
    size_t bytes;
    CHECK_OK(loom_map_save(m.map, path, NULL));
    unsigned char *file = test_read_file(path, &bytes);
    const uint64_t places = test_scaled(t, 500, 60);
    for (uint64_t i = 0; i < places; i++) { /* some in the header, the others anywhere, the last byte among them */
        const size_t at = i == 0 ? bytes - 1 : random_below(&t->random, i % 3 ? bytes : 512);
        const unsigned char change = (unsigned char)(1u << random_below(&t->random, 8));
        test_note("byte %zu of %zu changed by 0x%02x", at, bytes, change);
        file[at] ^= change;
        check_load_refused(t, context, file, bytes);
        file[at] ^= change;
    }
    for (uint64_t i = 0; i < places / 4; i++) {
        const size_t length = i == 0 ? bytes - 1 : random_below(&t->random, bytes);
        test_note("%zu of %zu bytes", length, bytes);
        check_load_refused(t, context, file, length);
    }
    test_write_file(test_path(t, "whole"), file, bytes);
    loom_map_destroy(m.map);
    m.map = load(context, test_path(t, "whole"));
    multimap_compare(&m);
    free(file);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* ---- lists that overlap ---- */

enum { OVERLAP_VALUES = 200 };

/* A file in which two keys have the same list. Checksums, counts and sizes are right. */
static unsigned char *make_overlapping(test_run *t, loom_context *context, size_t *bytes)
{
    loom_map_config config = make_multimap_config(t, 2, 2 * OVERLAP_VALUES);
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, 2 * OVERLAP_VALUES);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, 1000 + i % 2, i);
    CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
    unsigned char *file = test_read_file(test_path(t, "saved"), bytes);
    const surgery_head head = surgery_header(file);
    uint64_t handle = 0, found = 0;
    for (int i = 0; i < SURGERY_SECTIONS; i++) /* handles of wide keys lie in rows */
        for (uint64_t at = 0; head.sections[i].id != LOOM__SECTION_VALUES && at + 8 <= head.sections[i].bytes;
             at += 4) {
            uint64_t word;
            memcpy(&word, file + head.sections[i].at + at, 8);
            if (!list_in_heap(word) || list_count(word) != OVERLAP_VALUES || list_first(word) > 4 * OVERLAP_VALUES)
                continue;
            if (found++ > 0)
                memcpy(file + head.sections[i].at + at, &handle, 8);
            handle = word;
        }
    CHECK_EQ(found, 2);
    surgery_sign(file, *bytes);
    free_batch(&b);
    loom_map_destroy(map);
    return file;
}

/* Without memory to look for them, no file is accepted. */
TEST_EACH_MULTIMAP(test_multimap_file_lists_that_overlap, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    const char *path = test_path(t, "crafted");
    size_t bytes;
    unsigned char *file = make_overlapping(t, context, &bytes);
    test_write_file(path, file, bytes);
    check_never_loaded(counter, context, path);
    free(file);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* A check that cannot be made is no success; statistics need none. */
TEST_EACH_MULTIMAP(test_multimap_verify_without_memory, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    multimap_model m = make_worn(t, context, 20);
    loom_stats stats = LOOM_STATS_INIT;
    counting_limit(counter, counting_bytes(counter));
    CHECK_EQ(loom_map_verify(m.map, NULL), LOOM_OUT_OF_MEMORY);
    CHECK_OK(loom_map_stats(m.map, &stats, NULL));
    counting_limit(counter, 0);
    CHECK_OK(loom_map_verify(m.map, NULL));
    end_multimap_model(&m);
    loom_context_destroy(context);
    counting_destroy(counter);
}
