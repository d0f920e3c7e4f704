/* Files hold what is in the table, or was there before, and nothing that memory held before the table had it. The same
 * calls are made with memory of different bytes, and all files that they save must be equal. One thread makes them, so
 * that everything lies in the same place. */
#include "harness/strings_fixture.h"

enum { FILES = 9, FILLS = 2 };

/* ---- Memory that is full of one byte --------------------------------------------------------------------- */

static void *allocate_filled(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    (void)kind;
    (void)stream;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) != 0)
        return NULL;
    memset(memory, *(const unsigned char *)user, bytes);
    return memory;
}

static void release_filled(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user;
    (void)bytes;
    (void)kind;
    (void)stream;
    free(memory);
}

static loom_context *make_filled_context(test_run *t, unsigned char *fill)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.threads = 1;
    config.fixed_seed = 1;
    config.seed = 7;
    config.allocator = (loom_allocator){allocate_filled, release_filled, fill};
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

/* ---- Calls ----------------------------------------------------------------------------------------------- */

/* A column of n elements that follow from the numbers first, first + each, … */
static texts make_column(uint32_t width, uint64_t n, uint64_t first, uint64_t each)
{
    enum { LONGEST = 40 };
    texts made = make_texts(width, n, LONGEST);
    unsigned char *element = test_allocate((width == LOOM_VARIABLE ? LONGEST : width) + 8);
    for (uint64_t i = 0; i < n && width > 0; i++) {
        const uint64_t number = first + i * each, length = width == LOOM_VARIABLE ? 4 + mix_u64(number) % 36 : width;
        memset(element, 1 + (int)(number % 50), length); /* no run of equal bytes that memory is filled with */
        memcpy(element, &number, length < 4 ? length : 4);
        add_text(&made, element, length);
    }
    free(element);
    return made;
}

typedef loom_status insert_call(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                                uint8_t *status, loom_result *result, loom_stream stream);

/* Keys first .. first + n - 1 go in, with values of their own in each round. */
static void put(loom_map *map, const loom_map_config *config, insert_call *call, uint32_t flags, uint64_t first,
                uint64_t n, uint64_t round)
{
    texts keys = make_column(config->key_bytes, n, first, 1),
          values = make_column(config->value_bytes, n, first * 7 + round, 7);
    CHECK_OK(call(map, argument_of(&keys), argument_of(&values), n, flags, NULL, NULL, NULL));
    free_texts(&keys);
    free_texts(&values);
}

static void take_out(loom_map *map, const loom_map_config *config, uint64_t first, uint64_t n, uint64_t each)
{
    texts keys = make_column(config->key_bytes, n, first, each);
    CHECK_OK(loom_map_erase(map, argument_of(&keys), n, NULL, NULL, NULL));
    free_texts(&keys);
}

/* Every kind of change, small and large. Widths of one byte have 256 keys. */
static void change(test_run *t, loom_map *map, const loom_map_config *config, const char *names[FILES])
{
    const int lists = config->type == LOOM_TYPE_MULTIMAP;
    const uint64_t few = 40, many = 240;
    uint32_t saved = 0;
    put(map, config, loom_map_insert, LOOM_KEEP, 0, few, 0);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    take_out(map, config, 0, few / 3, 3);
    for (uint64_t round = 1; round < 12; round++) /* lists grow value by value */
        put(map, config, loom_map_insert, lists ? LOOM_KEEP : LOOM_OVERWRITE, 0, few / 2 + round, round);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    put(map, config, loom_map_insert, LOOM_KEEP, 10, many, 20);
    take_out(map, config, 5, many / 4, 4);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    CHECK_OK(loom_map_reserve(map, 3000, NULL));
    if (lists)
        CHECK_OK(loom_map_reserve_values(map, 20000, NULL));
    if (config->key_bytes == LOOM_VARIABLE || config->value_bytes == LOOM_VARIABLE)
        CHECK_OK(loom_map_reserve_strings(map, 100000, NULL));
    put(map, config, loom_map_insert, LOOM_IN_ORDER | (lists ? LOOM_KEEP : LOOM_OVERWRITE), 0, many, 30);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    put(map, config, loom_map_build, LOOM_KEEP, 100, many / 2, 40);
    put(map, config, loom_map_insert, LOOM_KEEP, 120, few, 50);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    put(map, config, loom_map_insert, LOOM_KEEP, 0, few, 60);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    loom_map *twin = NULL;
    CHECK_OK(loom_map_clone(map, &twin, NULL));
    put(twin, config, loom_map_insert, LOOM_KEEP, 20, few, 70);
    CHECK_OK(loom_map_save(twin, names[saved++], NULL));
    loom_map_destroy(twin);
    put(map, config, loom_map_build, LOOM_KEEP, 0, 2, 80);
    CHECK_OK(loom_map_save(map, names[saved++], NULL));
    CHECK_EQ(saved, FILES);
    (void)t;
}

static void check_files(test_run *t, const loom_map_config *config)
{
    char *names[FILLS][FILES];
    for (int f = 0; f < FILLS; f++) {
        unsigned char fill = f == 0 ? 0x00 : 0xa5;
        loom_context *context = make_filled_context(t, &fill);
        loom_map *map = make_map_from(context, config);
        for (int i = 0; i < FILES; i++) {
            names[f][i] = test_allocate(4096);
            snprintf(names[f][i], 4096, "%s/%d_%d", t->directory, f, i);
        }
        change(t, map, config, (const char **)names[f]);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    for (int i = 0; i < FILES; i++) {
        size_t bytes, wanted_bytes;
        void *got = test_read_file(names[1][i], &bytes), *wanted = test_read_file(names[0][i], &wanted_bytes);
        test_note("file %d", i);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(got, wanted, bytes);
        free(got);
        free(wanted);
        free(names[0][i]);
        free(names[1][i]);
    }
}

TEST_EACH_KIND(test_open_file_memory, .cpu_only = 1, .every_engine = 1)
{
    loom_map_config config = make_config(t, 10);
    config.growth = 2;
    check_files(t, &config);
}

TEST_EACH_MULTIMAP(test_multimap_file_memory, .cpu_only = 1)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = t->table->engine;
    config.key_bytes = t->key_bytes;
    config.value_bytes = t->value_bytes;
    check_files(t, &config);
}

/* Rows with and without padding, links that do not fill their values, strings. */
TEST(test_file_memory_of_other_widths)
{
    static const struct form {
        loom_type type;
        loom_engine engine;
        uint32_t key_bytes, value_bytes;
        loom_layout layout;
    } forms[] = {
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, 5, 8, LOOM_LAYOUT_TOGETHER},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, 5, 8, LOOM_LAYOUT_APART},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, 1, 3, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, 33, 500, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_SET, LOOM_ENGINE_ROWS, 7, 0, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_VARIABLE, 8, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_VARIABLE, LOOM_VARIABLE, LOOM_LAYOUT_TOGETHER},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_VARIABLE, LOOM_VARIABLE, LOOM_LAYOUT_APART},
        {LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, 6, LOOM_VARIABLE, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_SET, LOOM_ENGINE_ROWS, LOOM_VARIABLE, 0, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MULTIMAP, LOOM_ENGINE_OPEN, 5, 3, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MULTIMAP, LOOM_ENGINE_CHAIN, 5, 3, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MULTIMAP, LOOM_ENGINE_CHAIN, 8, 1, LOOM_LAYOUT_DEFAULT},
        {LOOM_TYPE_MULTIMAP, LOOM_ENGINE_CHAIN, 4, 100, LOOM_LAYOUT_DEFAULT},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = forms[i].type;
        config.engine = forms[i].engine;
        config.key_bytes = forms[i].key_bytes;
        config.value_bytes = forms[i].value_bytes;
        config.layout = forms[i].layout;
        check_files(t, &config);
    }
}
