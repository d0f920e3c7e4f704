/* Multimaps whose keys and values have neither 4 nor 8 bytes, or only one of them has: all calls against a model. The
 * tests of every multimap also run for keys of 16 bytes with values of 12. */
#include "harness/multimap_model.h"

#include <string.h>

/* Keys in rows, and values in lists, of every kind of width: 1 byte, odd, a multiple of 4, of 8, wider than a line and
 * than what moves at once, the largest. One of the two may have 4 or 8 bytes. */
static const struct widths {
    uint32_t key_bytes, value_bytes;
    uint64_t rows; /* of a batch, at most */
} all_widths[] = {{1, 1, 200},    {3, 4, 300},    {16, 8, 300},    {33, 12, 300}, {256, 1, 200},
                  {4, 3, 300},    {8, 100, 300},  {4, 16, 300},    {33, 33, 300}, {5, 5000, 40},
                  {256, 256, 60}, {8, 65535, 12}, {256, 65536, 12}};

enum { WIDTHS = sizeof all_widths / sizeof *all_widths };

/* Few keys and few values, so that lists become long and pairs are equal. */
static batch some_rows(test_run *t, const struct widths *w, uint64_t keys)
{
    batch b = make_batch_of(w->key_bytes, w->value_bytes, 1 + random_below(&t->random, w->rows));
    for (uint64_t i = 0; i < b.n; i++) {
        const uint64_t key = random_below(&t->random, random_below(&t->random, 3) ? keys : 3);
        set_pair(&b, i, key * 0x9e3779b97f4a7c15u, random_below(&t->random, 4) ? random_u64(&t->random) : key);
    }
    return b;
}

static void aim_at_pairs(const multimap_model *m, batch *b)
{
    for (uint64_t i = 0; i < b->n && m->used > 0; i++) {
        const value_list *list = &m->lists[random_below(&m->t->random, m->used)];
        if (list->count > 0)
            set_pair(b, i, list->key, list->values[random_below(&m->t->random, list->count)]);
    }
}

static void random_step(multimap_model *m, loom_context *context, batch *b)
{
    switch (random_below(&m->t->random, 12)) {
    case 0:
        multimap_build(m, b, LOOM_KEEP);
        break;
    case 1:
        multimap_erase(m, b);
        break;
    case 2:
    case 3:
        aim_at_pairs(m, b);
        multimap_erase_pairs(m, b);
        break;
    case 4:
        multimap_clone(m);
        break;
    case 5:
        multimap_save_and_load(m, context);
        break;
    case 6:
        CHECK_OK(loom_map_reserve_values(m->map, 2 * m->size + 10, NULL));
        break;
    case 7:
        if (multimap_has_ranges(m)) {
            const number_range range = random_range(&m->t->random, m->value_bytes, random_u64(&m->t->random), 5);
            multimap_erase_if(m, &range);
        }
        break;
    default:
        multimap_insert(m, b, random_below(&m->t->random, 2) ? LOOM_KEEP : LOOM_KEEP | LOOM_IN_ORDER);
    }
}

static void run_widths(test_run *t, const struct widths *w, int grows)
{
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = t->engine;
    config.key_bytes = w->key_bytes;
    config.value_bytes = w->value_bytes;
    config.capacity = grows ? 10 : 40;
    config.values = grows ? 0 : w->rows;
    config.growth = grows ? 1.5 : 0;
    config.most_values_per_key = grows ? 0 : w->rows / 4;
    if (t->engine == LOOM_ENGINE_CHAIN)
        config.first_bucket = 1 + random_below(&t->random, 3);
    multimap_model m = make_multimap_model(t, context, &config);
    const uint64_t steps = w->value_bytes > 1000 ? 12 : test_scaled(t, 80, 25);
    test_note("keys of %u bytes, values of %u", w->key_bytes, w->value_bytes);
    for (uint64_t step = 0; step < steps; step++) {
        batch b = some_rows(t, w, grows ? 200 : 60);
        random_step(&m, context, &b);
        multimap_find(&m, &b);
        multimap_compare(&m);
        free_batch(&b);
    }
    multimap_compare_cursor(&m, 7);
    multimap_compare_visits(&m);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

static void run_all_widths(test_run *t, int grows)
{
    if (t->key_bytes != 4 || t->value_bytes != 4) /* once for each engine */
        return;
    for (uint32_t i = 0; i < WIDTHS; i++)
        run_widths(t, &all_widths[i], grows);
}

TEST_EACH_MULTIMAP(test_multimap_widths_growing, .long_tier = 1, .timeout_seconds = 120, .leak_check = 1)
{
    run_all_widths(t, 1);
}

TEST_EACH_MULTIMAP(test_multimap_widths_full, .long_tier = 1, .timeout_seconds = 120)
{
    run_all_widths(t, 0);
}

/* Batches that several threads share, and more keys than one partition holds. */
TEST_EACH_MULTIMAP(test_multimap_widths_large, .long_tier = 1, .threads = 1, .timeout_seconds = 120)
{
    static const struct widths large[] = {{16, 24, 0}, {24, 8, 0}, {8, 20, 0}};
    if (t->key_bytes != 4 || t->value_bytes != 4)
        return;
    for (uint32_t i = 0; i < sizeof large / sizeof *large; i++) {
        const struct widths w = {large[i].key_bytes, large[i].value_bytes, test_scaled(t, 60000, 20000)};
        loom_context *context = make_context_with(t, 3, random_u64(&t->random));
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = LOOM_TYPE_MULTIMAP;
        config.engine = t->engine;
        config.key_bytes = w.key_bytes;
        config.value_bytes = w.value_bytes;
        config.capacity = 100;
        config.growth = 2;
        multimap_model m = make_multimap_model(t, context, &config);
        batch b = some_rows(t, &w, w.rows / 3);
        test_note("keys of %u bytes, values of %u", w.key_bytes, w.value_bytes);
        CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
        multimap_compare(&m);
        CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP | LOOM_IN_ORDER).ok, b.n);
        multimap_compare(&m);
        aim_at_pairs(&m, &b);
        multimap_erase_pairs(&m, &b);
        multimap_erase(&m, &b);
        multimap_compare(&m);
        CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
        multimap_compare(&m);
        free_batch(&b);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* Lists of few values that have many bytes, which all threads copy together: as pieces of one build, and of several
 * insertions. */
TEST_EACH_MULTIMAP(test_multimap_widths_long_lists, .threads = 1)
{
    static const struct widths wide[] = {{8, 65535, 0}, {8, 65536, 0}, {16, 24, 0}};
    if (t->key_bytes != 4 || t->value_bytes != 4)
        return;
    loom_context *context = make_context(t);
    for (size_t w = 0; w < sizeof wide / sizeof *wide; w++) {
        loom_map_config config = make_multimap_config(t, 3, 0);
        config.growth = 2;
        config.key_bytes = wide[w].key_bytes;
        config.value_bytes = wide[w].value_bytes;
        multimap_model m = make_multimap_model(t, context, &config);
        batch b = make_batch_of(config.key_bytes, config.value_bytes, (3 << 20) / config.value_bytes / 2);
        test_note("values of %u bytes", config.value_bytes);
        for (int turn = 0; turn < 3; turn++) {
            for (uint64_t i = 0; i < b.n; i++)
                set_pair(&b, i, i % 5 / 2, random_u64(&t->random)); /* two keys with most values */
            if (turn == 0)
                multimap_build(&m, &b, LOOM_KEEP);
            else
                multimap_insert(&m, &b, LOOM_KEEP);
            multimap_compare(&m);
        }
        free_batch(&b);
        end_multimap_model(&m);
    }
    loom_context_destroy(context);
}

/* Kernels of users have no lists of these widths, on any machine. */
TEST_EACH_MULTIMAP(test_multimap_widths_lend_no_views)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_multimap_config(t, 10, 10);
    loom_map_view view;
    loom_map *map;
    config.key_bytes = t->key_bytes == 4 ? 12 : t->key_bytes;
    config.value_bytes = t->key_bytes == 4 ? t->value_bytes : 2;
    CHECK_OK(loom_map_create(context, &config, &map));
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL), LOOM_UNSUPPORTED);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
