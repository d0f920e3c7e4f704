/* Golden files: tables that were saved once, with a fixed seed. The library must read them, and write the same bytes,
 * for ever.
 *
 * If one of these tests fails, the format, the hash or the order in which keys are placed has changed. If the change is
 * intended: raise the version in src/core/file_layout.h, or that of the layout; document it in docs/format.md and in
 * the CHANGELOG; keep the old files (those of format 1 are in tests/data/format_1); and write new ones with `loom_tests
 * --write-golden tests/data`. No version changes if only the time of upkeep has changed, or the number of partitions
 * and cells of a table: the library still reads the old files. The load test shows it before new files are written.
 */
#include "harness/filter_fixture.h"
#include "harness/map_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_SEED UINT64_C(0x10c0ffee)

enum { GOLDEN_BUILT = 300, GOLDEN_ERASED = 60, GOLDEN_INSERTED = 90 };

static uint64_t golden_capacity(const table_case *table, uint32_t value_bytes)
{
    return value_bytes ? table->golden_map_capacity : table->golden_set_capacity;
}

/* Keys of more than 8 bytes: the number, then its multiples by odd factors. */
static void set_golden_key(batch *b, uint64_t i, uint64_t key)
{
    for (uint32_t at = 0; at < b->key_bytes; at += 8) {
        const uint64_t piece = key * (at + 1);
        memcpy((unsigned char *)b->keys + i * b->key_bytes + at, &piece, b->key_bytes - at < 8 ? b->key_bytes - at : 8);
    }
}

/* Pair i of the rows that all steps use: special keys first, then small numbers, then scattered ones. The arithmetic is
 * written out here: a change of the harness cannot change the files. */
static void golden_pair(uint32_t key_bytes, uint64_t i, uint64_t *key, uint64_t *value)
{
    if (i < 4)
        *key = i == 0 ? 0 : i == 1 ? UINT64_MAX : i == 2 ? UINT64_C(1) << (key_bytes == 4 ? 31 : 63) : 1;
    else if (i < 100)
        *key = 1000 + i;
    else
        *key = (i * UINT64_C(0x9e3779b97f4a7c15)) >> (key_bytes == 4 ? 32 : 0);
    *value = i * UINT64_C(0xd1342543de82ef95) + 7;
}

static void fill_golden(batch *b, uint64_t first)
{
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t key, value;
        golden_pair(b->key_bytes, first + i, &key, &value);
        set_pair(b, i, key, value);
        if (b->key_bytes > 8)
            set_golden_key(b, i, key);
    }
}

/* Builds, erases and inserts in order. The outcome of these steps does not depend on threads or SIMD. */
static loom_map *make_golden(loom_context *context, const table_case *table, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.engine = table->engine;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = golden_capacity(table, value_bytes);
    config.growth = 0;
    config.max_load = 0.9;
    CHECK_OK(loom_map_create(context, &config, &map));
    batch built = make_batch_of(key_bytes, value_bytes, GOLDEN_BUILT);
    batch erased = make_batch_of(key_bytes, value_bytes, GOLDEN_ERASED);
    batch inserted = make_batch_of(key_bytes, value_bytes, GOLDEN_INSERTED);
    fill_golden(&built, 0);
    fill_golden(&erased, 20);
    fill_golden(&inserted, GOLDEN_BUILT);
    CHECK_EQ(checked_build(map, &built, LOOM_KEEP).ok, GOLDEN_BUILT);
    CHECK_EQ(checked_erase(map, &erased).ok, GOLDEN_ERASED);
    CHECK_EQ(checked_insert(map, &inserted, LOOM_OVERWRITE | LOOM_IN_ORDER).ok, GOLDEN_INSERTED);
    free_batch(&built);
    free_batch(&erased);
    free_batch(&inserted);
    return map;
}

static batch golden_contents(uint32_t key_bytes, uint32_t value_bytes)
{
    batch b = make_batch_of(key_bytes, value_bytes, GOLDEN_BUILT - GOLDEN_ERASED + GOLDEN_INSERTED);
    uint64_t used = 0;
    for (uint64_t i = 0; i < GOLDEN_BUILT + GOLDEN_INSERTED; i++) {
        uint64_t key, value;
        if (i >= 20 && i < 20 + GOLDEN_ERASED)
            continue;
        golden_pair(key_bytes, i, &key, &value);
        set_pair(&b, used++, key, value);
    }
    CHECK_EQ(used, b.n);
    return b;
}

/* golden_map_4_8, golden_set_8, golden_perfect_map_4_8 */
static void golden_path(char *path, size_t room, const char *directory, const table_case *table, uint32_t key_bytes,
                        uint32_t value_bytes)
{
    const int is_default = table == table_case_default(LOOM_TYPE_MAP);
    int used = snprintf(path, room, "%s/golden_%s%s%s_%u", directory, is_default ? "" : table->name,
                        is_default ? "" : "_", value_bytes ? "map" : "set", key_bytes);
    if (value_bytes)
        used += snprintf(path + used, room - (size_t)used, "_%u", value_bytes);
    snprintf(path + used, room - (size_t)used, ".loom");
}

static void check_golden_file(test_run *t, const char *directory)
{
    char path[512];
    loom_context *context = make_context(t);
    loom_map *map = NULL;
    if (golden_capacity(t->table, t->value_bytes) == 0)
        SKIP("the engine %s has no golden files", t->table->name);
    batch wanted = golden_contents(t->key_bytes, t->value_bytes);
    golden_path(path, sizeof path, directory, t->table, t->key_bytes, t->value_bytes);
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    check_contents(map, &wanted);
    loom_stats stats = map_stats(map);
    CHECK_EQ(stats.seed, GOLDEN_SEED);
    CHECK_EQ(stats.capacity, golden_capacity(t->table, t->value_bytes));
    CHECK_EQ(stats.engine, t->table->engine);
    CHECK_EQ(stats.code_bytes > 0, t->table->one_access);
    if (t->value_bytes == 0 && !t->table->one_access)
        CHECK_GT(stats.displaced, 0); /* the file has filter bits */
    CHECK_EQ(stats.key_bytes, t->key_bytes);
    CHECK_EQ(stats.value_bytes, t->value_bytes);
    CHECK_EQ(stats.type, t->value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET);
    /* The loaded table can be changed like any other. */
    CHECK_EQ(checked_erase(map, &wanted).ok, wanted.n);
    CHECK_EQ(checked_insert(map, &wanted, LOOM_KEEP).ok, wanted.n);
    check_contents(map, &wanted);
    free_batch(&wanted);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

static void format_1_path(char *path, size_t room, const test_run *t)
{
    snprintf(path, room, "%s/format_1", t->data);
}

TEST_EACH_KIND(test_open_load_golden_file, .every_engine = 1)
{
    char older[512];
    format_1_path(older, sizeof older, t);
    check_golden_file(t, t->data);
    /* Open tables whose layout has changed since: test_file_format_1_of_another_layout. */
    const int other_layout = t->engine == LOOM_ENGINE_DEFAULT && t->key_bytes + t->value_bytes == 12;
    if (!t->table->since_format_2 && !other_layout)
        check_golden_file(t, older);
}

TEST_EACH_KIND(test_open_save_golden_bytes, .cpu_only = 1, .every_engine = 1)
{
    char path[512];
    size_t wanted_bytes, bytes;
    if (golden_capacity(t->table, t->value_bytes) == 0)
        SKIP("the engine %s has no golden files", t->table->name);
    golden_path(path, sizeof path, t->data, t->table, t->key_bytes, t->value_bytes);
    void *wanted = test_read_file(path, &wanted_bytes);
    for (uint32_t threads = 1; threads <= 8; threads++) {
        loom_context *context = make_context_with(t, threads, GOLDEN_SEED);
        loom_map *map = make_golden(context, t->table, t->key_bytes, t->value_bytes);
        const char *made = test_path(t, "made");
        CHECK_OK(loom_map_save(map, made, NULL));
        void *got = test_read_file(made, &bytes);
        test_note("%u threads", threads);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(got, wanted, bytes);
        free(got);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    free(wanted);
}

/* ---- Filters: ten blocks, and every number of probes ---- */

enum { GOLDEN_FILTER_BYTES = 640, GOLDEN_FILTER_KEYS = 200, GOLDEN_FILTER_CAPACITY = 250 };

static loom_filter *make_golden_filter(loom_context *context, uint32_t key_bytes, uint32_t probes, uint32_t flags)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.probes = probes;
    config.bytes = GOLDEN_FILTER_BYTES;
    config.capacity = GOLDEN_FILTER_CAPACITY;
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch_of(key_bytes, 0, GOLDEN_FILTER_KEYS);
    fill_golden(&b, 0);
    checked_filter_insert(NULL, filter, &b, flags);
    free_batch(&b);
    return filter;
}

static void golden_filter_path(char *path, size_t room, const char *directory, uint32_t key_bytes, uint32_t probes)
{
    snprintf(path, room, "%s/golden_filter_%u_%u.loom", directory, key_bytes, probes);
}

static void check_golden_filters(test_run *t, const char *directory)
{
    for (int p = 0; p < FILTER_PROBES; p++) {
        char path[512];
        loom_context *context = make_context(t);
        loom_filter *filter = NULL;
        batch b = make_batch(t, GOLDEN_FILTER_KEYS);
        fill_golden(&b, 0);
        golden_filter_path(path, sizeof path, directory, t->key_bytes, filter_probes[p]);
        CHECK_OK(loom_filter_load(context, path, &filter, NULL));
        check_all_in(filter, &b);
        loom_filter_report report = filter_report(filter);
        CHECK_EQ(report.seed, GOLDEN_SEED);
        CHECK_EQ(report.capacity, GOLDEN_FILTER_CAPACITY);
        CHECK_EQ(report.blocks, GOLDEN_FILTER_BYTES / 64);
        CHECK_EQ(report.probes, filter_probes[p]);
        CHECK_EQ(report.key_bytes, t->key_bytes);
        checked_filter_insert(context, filter, &b, 0); /* the filter has all bits of these keys */
        CHECK_EQ(filter_report(filter).bits_set, report.bits_set);
        loom_filter_destroy(filter);
        loom_context_destroy(context);
        free_batch(&b);
    }
}

TEST_EACH_FILTER(test_filter_load_golden_file)
{
    char older[512];
    format_1_path(older, sizeof older, t);
    check_golden_filters(t, t->data);
    if (t->key_bytes <= 8) /* format 1 has no other widths */
        check_golden_filters(t, older);
}

TEST_EACH_FILTER(test_filter_save_golden_bytes)
{
    static const uint32_t flags[] = {0, LOOM_DIRECTLY, LOOM_BY_PARTITION};
    for (int p = 0; p < FILTER_PROBES; p++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            char path[512];
            size_t wanted_bytes, bytes;
            loom_context *context = make_context_with(t, threads, GOLDEN_SEED);
            loom_filter *filter = make_golden_filter(context, t->key_bytes, filter_probes[p], flags[threads - 1]);
            golden_filter_path(path, sizeof path, t->data, t->key_bytes, filter_probes[p]);
            void *wanted = test_read_file(path, &wanted_bytes), *got = filter_file(t, filter, &bytes);
            test_note("%u probes, %u threads", filter_probes[p], threads);
            CHECK_EQ(bytes, wanted_bytes);
            CHECK_BYTES(got, wanted, bytes);
            free(got);
            free(wanted);
            loom_filter_destroy(filter);
            loom_context_destroy(context);
        }
}

static loom_context *golden_context(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = LOOM_SIMD_SCALAR;
    config.threads = 1;
    config.fixed_seed = 1;
    config.seed = GOLDEN_SEED;
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

static void write_golden_map(loom_context *context, const table_case *table, const table_form *form,
                             const char *directory)
{
    char path[512];
    loom_map *map = make_golden(context, table, form->key_bytes, form->value_bytes);
    golden_path(path, sizeof path, directory, table, form->key_bytes, form->value_bytes);
    CHECK_OK(loom_map_save(map, path, NULL));
    printf("%s\n", path);
    loom_map_destroy(map);
}

TEST_MODE(write_golden, "--write-golden")
{
    loom_context *context = golden_context();
    char path[512];
    const table_case *table;
    for (size_t i = 0; (table = table_case_at(i)) != NULL; i++)
        for (const table_form *form = table->forms; form->type; form++)
            if ((form->type == LOOM_TYPE_MAP || form->type == LOOM_TYPE_SET) &&
                golden_capacity(table, form->value_bytes) > 0)
                write_golden_map(context, table, form, argument);
    for (uint32_t key_bytes = 4; key_bytes <= 16; key_bytes *= 2)
        for (int p = 0; p < FILTER_PROBES; p++) {
            loom_filter *filter = make_golden_filter(context, key_bytes, filter_probes[p], LOOM_DIRECTLY);
            golden_filter_path(path, sizeof path, argument, key_bytes, filter_probes[p]);
            CHECK_OK(loom_filter_save(filter, path, NULL));
            printf("%s\n", path);
            loom_filter_destroy(filter);
        }
    loom_context_destroy(context);
    return 0;
}
