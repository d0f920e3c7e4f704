/* Writes the stored inputs of the fuzz target (tests/fuzz): `loom_tests --write-corpus tests/data/fuzz_corpus`. Every
 * run writes the same inputs. */
#include "harness/file_surgery.h"
#include "harness/filter_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_INPUT = 8192 };

typedef struct corpus {
    const char *directory;
    unsigned files;
    char prefix[32];
    loom_layout layout; /* of the next tables */
    loom_row_place place;
    uint32_t ticket_bits; /* of the next tables of the tickets engine; others have 0 */
} corpus;

static void store(corpus *c, const char *what, const unsigned char *data, size_t bytes)
{
    char path[512];
    CHECK_LE(bytes, LARGEST_INPUT);
    snprintf(path, sizeof path, "%s/%s_%s", c->directory, c->prefix, what);
    test_write_file(path, data, bytes);
    c->files++;
}

static loom_context *corpus_context(void)
{
    loom_context_config settings = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    settings.machine = LOOM_MACHINE_CPU;
    settings.threads = 1;
    settings.fixed_seed = 1;
    settings.seed = 42;
    CHECK_OK(loom_context_create(&settings, &context));
    return context;
}

/* The bytes of the file of a map, which is then destroyed with its context. */
static unsigned char *file_of(const corpus *c, loom_context *context, loom_map *map, size_t *bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/.saved", c->directory);
    CHECK_OK(loom_map_save(map, path, NULL));
    unsigned char *file = test_read_file(path, bytes);
    CHECK_EQ(unlink(path), 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return file;
}

/* A small table, saved: the sound input. All other inputs are made from it. */
static unsigned char *sound_file(corpus *c, loom_engine engine, loom_type type, uint32_t key_bytes,
                                 uint32_t value_bytes, uint64_t capacity, uint64_t keys, uint32_t buckets,
                                 size_t *bytes)
{
    char path[512];
    loom_context *context = corpus_context();
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.type = type;
    config.engine = engine;
    config.capacity = capacity;
    config.max_load = 0.95;
    config.buckets_per_partition = buckets;
    config.layout = c->layout;
    config.row_place = c->place;
    config.ticket_bits = c->ticket_bits;
    config.growth = 0;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch_of(key_bytes, value_bytes, keys);
    fill_distinct(&b, 42, 0);
    loom_status status = loom_map_insert(map, b.keys, b.values, keys, LOOM_KEEP, NULL, NULL, NULL);
    CHECK(status == LOOM_OK || status == LOOM_FULL);
    snprintf(path, sizeof path, "%s/.table", c->directory);
    CHECK_OK(loom_map_save(map, path, NULL));
    unsigned char *file = test_read_file(path, bytes);
    CHECK_EQ(unlink(path), 0);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return file;
}

/* The same of a multimap. Key i has i values and some more, which come in several calls. */
static unsigned char *sound_multimap(corpus *c, loom_engine engine, uint32_t key_bytes, uint32_t value_bytes,
                                     size_t *bytes)
{
    enum { KEYS = 6, CALLS = 4 };
    loom_context *context = corpus_context();
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = engine;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = KEYS;
    config.values = 120;
    config.most_values_per_key = 200;
    config.buckets_per_partition = 2;
    config.growth = 0;
    if (engine == LOOM_ENGINE_CHAIN) {
        config.first_bucket = 2;
        config.bucket_growth = 1.5;
    }
    loom_map *map = make_map_from(context, &config);
    for (uint64_t call = 0; call < CALLS; call++) {
        batch b = make_batch_of(key_bytes, value_bytes, KEYS * KEYS);
        b.n = 0;
        for (uint64_t key = 0; key < KEYS; key++)
            for (uint64_t i = call; i < key + 2; i += CALLS / 2)
                set_pair(&b, b.n++, distinct_key(key_bytes, 42, key), mix_u64(key << 8 | i));
        CHECK_OK(loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
        free_batch(&b);
    }
    return file_of(c, context, map, bytes);
}

/* Values and links changed, signed; and a heap that is too small for its lists. */
static void store_heap_variants(corpus *c, const unsigned char *sound, size_t bytes)
{
    unsigned char *file = test_allocate(bytes);
    memcpy(file, sound, bytes);
    surgery_head header = surgery_header(sound);
    const uint32_t last = header.file.sections - 1; /* the heap; keys in rows have a section before it */
    unsigned char *heap = file + header.sections[last].at;
    for (uint64_t i = 0; i < header.sections[last].bytes; i += 13)
        heap[i] = (unsigned char)(heap[i] ^ (i * 37));
    surgery_sign(file, bytes);
    store(c, "heap_noise", file, bytes);
    memset(heap, 0, header.sections[last].bytes);
    surgery_sign(file, bytes);
    store(c, "heap_zeros", file, bytes);
    memcpy(file, sound, bytes);
    header.table.parameters[0] = 16;
    header.sections[last].bytes = 16 * (uint64_t)header.table.value_bytes;
    const uint64_t shorter = surgery_place(&header);
    CHECK_LT(shorter, bytes);
    surgery_set_header(file, &header);
    surgery_sign(file, shorter);
    store(c, "heap_short", file, shorter);
    memcpy(file, sound, bytes);
    header = surgery_header(sound);
    header.table.parameters[1] = 1; /* most values of a key */
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "most_wrong", file, bytes);
    free(file);
}

/* Rows changed, signed: noise in keys and values, and all keys equal. */
static void store_row_variants(corpus *c, const unsigned char *sound, size_t bytes)
{
    unsigned char *file = test_allocate(bytes);
    const surgery_head header = surgery_header(sound);
    unsigned char *rows = file + header.sections[1].at;
    memcpy(file, sound, bytes);
    for (uint64_t i = 0; i < header.sections[1].bytes; i += 13)
        rows[i] = (unsigned char)(rows[i] ^ (i * 37));
    surgery_sign(file, bytes);
    store(c, "rows_noise", file, bytes);
    memset(rows, 0, header.sections[1].bytes);
    surgery_sign(file, bytes);
    store(c, "rows_zeros", file, bytes);
    free(file);
}

/* The same of a table with strings as keys, values or both. Some keys were erased, and some values replaced. */
static unsigned char *sound_strings(corpus *c, loom_type type, uint32_t key_bytes, uint32_t value_bytes, size_t *bytes)
{
    enum { KEYS = 30, LONGEST = 24 };
    loom_context *context = corpus_context();
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = type;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = KEYS;
    config.buckets_per_partition = 2;
    config.string_bytes = 1600;
    config.most_key_bytes = key_bytes == LOOM_VARIABLE ? LONGEST : 0;
    config.most_value_bytes = value_bytes == LOOM_VARIABLE ? LONGEST : 0;
    config.layout = c->layout;
    config.row_place = c->place;
    config.growth = 0;
    loom_map *map = make_map_from(context, &config);
    uint64_t offsets[KEYS + 1] = {0};
    unsigned char text[KEYS * LONGEST], fixed[KEYS * 16];
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < KEYS; i++) {
            const uint64_t length = i == 0 ? 0 : 1 + mix_u64(i) % LONGEST;
            offsets[i + 1] = offsets[i] + length;
            for (uint64_t k = 0; k < length; k++)
                text[offsets[i] + k] = (unsigned char)(k == 0 ? i : mix_u64(i + k) >> 56);
            memset(fixed + i * 16, (int)(i + round), 16);
        }
        const loom_strings strings = {offsets, text}, others = {offsets + round, text};
        const void *keys = key_bytes == LOOM_VARIABLE ? (const void *)&strings : fixed;
        const void *values = value_bytes == LOOM_VARIABLE ? (const void *)&others : value_bytes > 0 ? fixed : NULL;
        if (round == 0)
            CHECK_OK(loom_map_insert(map, keys, values, KEYS, LOOM_KEEP | LOOM_IN_ORDER, NULL, NULL, NULL));
        else if (value_bytes > 0)
            CHECK_OK(loom_map_insert(map, keys, values, KEYS / 2, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, NULL, NULL));
        if (round == 1)
            CHECK_OK(loom_map_erase(map, keys, KEYS / 4, NULL, NULL, NULL));
    }
    return file_of(c, context, map, bytes);
}

/* Strings changed, signed; a heap that is too small for them; a reference to the same bytes as another; and strings
 * that are longer than the table takes. */
static void store_string_variants(corpus *c, const unsigned char *sound, size_t bytes)
{
    unsigned char *file = test_allocate(bytes);
    memcpy(file, sound, bytes);
    surgery_head header = surgery_header(sound);
    loom__file_section *last = &header.sections[header.file.sections - 1];
    unsigned char *heap = file + last->at, *rows = file + header.sections[1].at;
    for (uint64_t i = 0; i < last->bytes; i += 13)
        heap[i] = (unsigned char)(heap[i] ^ (i * 37));
    surgery_sign(file, bytes);
    store(c, "heap_noise", file, bytes);
    memcpy(file, sound, bytes);
    for (uint64_t i = 0; i < header.sections[1].bytes; i += 32) /* where strings begin, or parts of keys */
        rows[i] ^= 8;
    surgery_sign(file, bytes);
    store(c, "heap_moved", file, bytes);
    memcpy(file, sound, bytes);
    header.table.parameters[0] = 64;
    last->bytes = 64;
    const uint64_t shorter = surgery_place(&header);
    CHECK_LT(shorter, bytes);
    surgery_set_header(file, &header);
    surgery_sign(file, shorter);
    store(c, "heap_short", file, shorter);
    memcpy(file, sound, bytes);
    header = surgery_header(sound);
    header.table.parameters[1] = header.table.parameters[1] != 0;
    header.table.parameters[2] = header.table.parameters[2] != 0;
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "most_wrong", file, bytes);
    free(file);
}

static unsigned char *sound_filter(corpus *c, uint32_t key_bytes, uint64_t filter_bytes, uint32_t probes, uint64_t keys,
                                   size_t *bytes)
{
    char path[512];
    loom_context *context = corpus_context();
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.bytes = filter_bytes;
    config.probes = probes;
    config.capacity = 30;
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch_of(key_bytes, 0, keys);
    fill_distinct(&b, 42, 0);
    checked_filter_insert(NULL, filter, &b, 0);
    snprintf(path, sizeof path, "%s/.filter", c->directory);
    CHECK_OK(loom_filter_save(filter, path, NULL));
    unsigned char *file = test_read_file(path, bytes);
    CHECK_EQ(unlink(path), 0);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
    return file;
}

static void store_variants(corpus *c, const unsigned char *sound, size_t bytes)
{
    unsigned char *file = test_allocate(bytes);
    surgery_head header;
    memcpy(file, sound, bytes);
    store(c, "sound", file, bytes);
    store(c, "header_only", file, SURGERY_HEAD_BYTES);
    store(c, "half", file, bytes / 2);
    /* one field of the header wrong, signed */
    header = surgery_header(sound);
    header.table.size++;
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "size_wrong", file, bytes);
    header = surgery_header(sound);
    header.table.seed ^= UINT64_C(0x8000000000000001);
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "seed_wrong", file, bytes);
    header = surgery_header(sound);
    header.table.type = header.table.type == LOOM_TYPE_SET ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "type_wrong", file, bytes);
    header = surgery_header(sound);
    header.table.partitions = UINT32_MAX;
    header.sections[0].unit = UINT32_MAX;
    header.sections[0].bytes = (uint64_t)UINT32_MAX * UINT32_MAX;
    surgery_set_header(file, &header);
    surgery_sign_header(file);
    store(c, "giant", file, bytes);
    /* contents changed, signed: noise in the first partition, all ones in the last */
    memcpy(file, sound, bytes);
    header = surgery_header(sound);
    unsigned char *first = surgery_partition(file, bytes, 0);
    for (uint64_t i = 0; i < header.sections[0].unit; i += 5)
        first[i] = (unsigned char)(first[i] ^ (i * 37));
    surgery_sign(file, bytes);
    store(c, "noise", file, bytes);
    memcpy(file, sound, bytes);
    memset(surgery_partition(file, bytes, header.table.partitions - 1), 0xff, header.sections[0].unit);
    surgery_sign(file, bytes);
    store(c, "ones", file, bytes);
    memcpy(file, sound, bytes);
    memset(surgery_partition(file, bytes, 0), 0, header.sections[0].unit);
    surgery_sign(file, bytes);
    store(c, "zeros", file, bytes);
    free(file);
}

static unsigned write_corpus_to(const char *directory)
{
    static const struct {
        uint32_t key_bytes, value_bytes;
        uint64_t capacity, keys;
        uint32_t buckets;
    } tables[] = {{4, 4, 4, 3, 2},    {4, 8, 4, 4, 2},    {8, 4, 4, 4, 3}, {8, 8, 4, 2, 2},
                  {4, 4, 20, 500, 5}, {8, 8, 10, 300, 3}, /* sets */
                  {4, 0, 4, 3, 2},    {4, 0, 20, 500, 3}, {8, 0, 4, 4, 3}, {8, 0, 10, 300, 5}};
    corpus c = {.directory = directory, .prefix = "nothing"};
    static const unsigned char zeros[256];
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        size_t bytes;
        unsigned char *file = sound_file(&c, LOOM_ENGINE_DEFAULT, tables[i].value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET,
                                         tables[i].key_bytes, tables[i].value_bytes, tables[i].capacity, tables[i].keys,
                                         tables[i].buckets, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "%u_%u_%s", tables[i].key_bytes, tables[i].value_bytes,
                 tables[i].keys > 100 ? "full" : "small");
        store_variants(&c, file, bytes);
        free(file);
    }
    static const struct {
        uint32_t key_bytes, probes;
        uint64_t bytes, keys;
    } filters[] = {{4, 8, 64, 3},    {8, 4, 64, 500},  {4, 16, 640, 400}, {8, 12, 640, 20},
                   {16, 8, 640, 20}, {33, 12, 64, 30}, {256, 4, 128, 30}};
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        size_t bytes;
        unsigned char *file =
            sound_filter(&c, filters[i].key_bytes, filters[i].bytes, filters[i].probes, filters[i].keys, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "filter_%u_%u", filters[i].key_bytes, filters[i].probes);
        store_variants(&c, file, bytes);
        free(file);
    }
    static const struct {
        loom_type type;
        uint32_t key_bytes, value_bytes;
        uint64_t keys;
        loom_layout layout;
        loom_row_place place;
    } rows[] = {{LOOM_TYPE_MAP, 16, 8, 40, 0, 0},
                {LOOM_TYPE_MAP, 9, 3, 500, 0, 0},
                {LOOM_TYPE_MAP, 8, 8, 3, 0, 0},
                {LOOM_TYPE_MAP, 33, 20, 9, 0, 0},
                {LOOM_TYPE_SET, 17, 0, 70, 0, 0},
                {LOOM_TYPE_SET, 4, 0, 500, 0, 0},
                {LOOM_TYPE_COUNTER, 12, 4, 50, 0, 0},
                {LOOM_TYPE_MAP, 5, 8, 40, LOOM_LAYOUT_APART, 0},
                {LOOM_TYPE_MAP, 12, 7, 500, LOOM_LAYOUT_APART, LOOM_ROWS_IN_HOST_MEMORY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes;
        c.layout = rows[i].layout;
        c.place = rows[i].place;
        unsigned char *file = sound_file(&c, LOOM_ENGINE_ROWS, rows[i].type, rows[i].key_bytes, rows[i].value_bytes,
                                         rows[i].keys < 80 ? rows[i].keys : 60, rows[i].keys, 2, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "rows%s_%s_%u_%u", rows[i].layout == LOOM_LAYOUT_APART ? "_apart" : "",
                 table_type_name(rows[i].type), rows[i].key_bytes, rows[i].value_bytes);
        store_variants(&c, file, bytes);
        store_row_variants(&c, file, bytes);
        free(file);
    }
    static const struct {
        uint32_t bits;
        loom_type type;
        uint32_t key_bytes, value_bytes;
        loom_row_place place;
    } tickets[] = {{8, LOOM_TYPE_MAP, 16, 8, 0},
                   {4, LOOM_TYPE_MAP, 9, 3, LOOM_ROWS_IN_HOST_MEMORY},
                   {2, LOOM_TYPE_SET, 17, 0, 0},
                   {1, LOOM_TYPE_COUNTER, 12, 4, 0}};
    for (size_t i = 0; i < sizeof tickets / sizeof tickets[0]; i++) {
        size_t bytes;
        c.layout = LOOM_LAYOUT_DEFAULT;
        c.place = tickets[i].place;
        c.ticket_bits = tickets[i].bits;
        unsigned char *file = sound_file(&c, LOOM_ENGINE_TICKETS, tickets[i].type, tickets[i].key_bytes,
                                         tickets[i].value_bytes, 16, 30, 17, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "tickets_%u_%s_%u_%u", tickets[i].bits, table_type_name(tickets[i].type),
                 tickets[i].key_bytes, tickets[i].value_bytes);
        store_variants(&c, file, bytes);
        store_row_variants(&c, file, bytes);
        free(file);
    }
    c.ticket_bits = 0;
    static const struct {
        const char *name;
        loom_type type;
        uint32_t key_bytes, value_bytes;
        loom_layout layout;
        loom_row_place place;
    } strings[] = {{"map_strings_8", LOOM_TYPE_MAP, LOOM_VARIABLE, 8, 0, 0},
                   {"map_16_strings", LOOM_TYPE_MAP, 16, LOOM_VARIABLE, 0, 0},
                   {"map_strings_strings", LOOM_TYPE_MAP, LOOM_VARIABLE, LOOM_VARIABLE, 0, 0},
                   {"set_strings", LOOM_TYPE_SET, LOOM_VARIABLE, 0, 0, 0},
                   {"counter_strings_4", LOOM_TYPE_COUNTER, LOOM_VARIABLE, 4, 0, 0},
                   {"apart_strings_strings", LOOM_TYPE_MAP, LOOM_VARIABLE, LOOM_VARIABLE, LOOM_LAYOUT_APART, 0},
                   {"apart_16_strings", LOOM_TYPE_MAP, 16, LOOM_VARIABLE, LOOM_LAYOUT_APART, LOOM_ROWS_IN_HOST_MEMORY}};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        size_t bytes;
        c.layout = strings[i].layout;
        c.place = strings[i].place;
        unsigned char *file = sound_strings(&c, strings[i].type, strings[i].key_bytes, strings[i].value_bytes, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "rows_%s", strings[i].name);
        store_variants(&c, file, bytes);
        store_row_variants(&c, file, bytes);
        store_string_variants(&c, file, bytes);
        free(file);
    }
    static const struct {
        loom_engine engine;
        uint32_t key_bytes, value_bytes;
    } multimaps[] = {{LOOM_ENGINE_OPEN, 4, 4},   {LOOM_ENGINE_OPEN, 8, 8},  {LOOM_ENGINE_CHAIN, 4, 4},
                     {LOOM_ENGINE_CHAIN, 8, 8},  {LOOM_ENGINE_CHAIN, 8, 4}, {LOOM_ENGINE_CHAIN, 4, 8},
                     {LOOM_ENGINE_OPEN, 16, 12}, {LOOM_ENGINE_CHAIN, 16, 3}};
    for (size_t i = 0; i < sizeof multimaps / sizeof multimaps[0]; i++) {
        size_t bytes;
        unsigned char *file =
            sound_multimap(&c, multimaps[i].engine, multimaps[i].key_bytes, multimaps[i].value_bytes, &bytes);
        snprintf(c.prefix, sizeof c.prefix, "%s_%u_%u", multimaps[i].engine == LOOM_ENGINE_CHAIN ? "chain" : "multimap",
                 multimaps[i].key_bytes, multimaps[i].value_bytes);
        store_variants(&c, file, bytes);
        store_heap_variants(&c, file, bytes);
        free(file);
    }
    snprintf(c.prefix, sizeof c.prefix, "other");
    store(&c, "empty", zeros, 0);
    store(&c, "zeros", zeros, sizeof zeros);
    store(&c, "text", (const unsigned char *)"hashloom is not what this file holds\n", 37);
    return c.files;
}

TEST_MODE(write_corpus, "--write-corpus")
{
    mkdir(argument, 0755);
    printf("%u files in %s\n", write_corpus_to(argument), argument);
    return 0;
}

/* The stored corpus must equal what this program writes: a change of the format cannot leave it behind. */
TEST(test_open_load_corpus_is_current)
{
    char stored[512];
    unsigned files = write_corpus_to(t->directory);
    CHECK_GE(files, 24);
    snprintf(stored, sizeof stored, "%s/fuzz_corpus", t->data);
    CHECK_GE(test_count_entries(stored), files); /* inputs found by the fuzzer may be added */
    static const char *const some[] = {"4_4_small_sound",
                                       "4_8_small_noise",
                                       "8_4_small_zeros",
                                       "8_8_full_sound",
                                       "4_4_full_giant",
                                       "4_0_small_sound",
                                       "8_0_full_noise",
                                       "4_0_full_type_wrong",
                                       "filter_4_8_sound",
                                       "filter_8_12_noise",
                                       "filter_8_4_giant",
                                       "multimap_4_4_sound",
                                       "chain_8_4_sound",
                                       "chain_4_8_heap_short",
                                       "filter_33_12_sound",
                                       "rows_map_16_8_sound",
                                       "rows_set_17_0_noise",
                                       "rows_counter_12_4_rows_noise",
                                       "tickets_8_map_16_8_sound",
                                       "tickets_1_counter_12_4_rows_noise",
                                       "rows_map_strings_8_sound",
                                       "rows_map_16_strings_heap_moved",
                                       "rows_map_strings_strings_heap_noise"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char path[600];
        size_t made_bytes, stored_bytes;
        snprintf(path, sizeof path, "%s/%s", stored, some[i]);
        void *made = test_read_file(test_path(t, some[i]), &made_bytes);
        void *kept = test_read_file(path, &stored_bytes);
        test_note("%s", some[i]);
        CHECK_EQ(stored_bytes, made_bytes);
        CHECK_BYTES(kept, made, made_bytes);
        free(made);
        free(kept);
    }
}
