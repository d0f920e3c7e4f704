/* Tables of the rows engine whose keys, values or both are byte strings, against a plain reference. */
#include "harness/counting_allocator.h"
#include "harness/strings_fixture.h"

/* ---- The model -------------------------------------------------------------------------------------------- */

static void replace_by(loom_map **map, loom_map *other)
{
    loom_map_destroy(*map);
    *map = other;
}

static void change(test_run *t, loom_context *context, loom_map **map, universe *u)
{
    static const uint32_t all_flags[] = {LOOM_KEEP,         LOOM_OVERWRITE,
                                         LOOM_IN_ORDER,     LOOM_IN_ORDER | LOOM_OVERWRITE,
                                         LOOM_BY_PARTITION, LOOM_OVERWRITE | LOOM_BY_PARTITION,
                                         LOOM_DIRECTLY};
    const uint32_t flags = all_flags[random_below(&t->random, sizeof all_flags / sizeof *all_flags)];
    const int numbers = u->value_bytes == 4 || u->value_bytes == 8, in_order = (flags & LOOM_IN_ORDER) != 0;
    const uint64_t size = random_below(&t->random, 8) == 0 ? u->keys.n : 1 + random_below(&t->random, u->keys.n / 4);
    const uint64_t what = random_below(&t->random, 16);
    rows r =
        draw_rows(t, u, random_below(&t->random, 12) == 0 ? 1 : size, (what < 5 && in_order) || (what == 7 && numbers));
    loom_map *other = NULL;
    if (what < 5)
        insert_rows(*map, u, &r, flags, what == 0);
    else if (what < 7)
        erase_rows(*map, u, &r);
    else if (what == 7 && numbers)
        accumulate_rows(*map, u, &r);
    else if (what == 8 && is_column(&r.values))
        update_rows(*map, u, &r);
    else if (what == 9 && u->value_bytes != LOOM_VARIABLE && is_column(&r.values))
        fetch_rows(*map, u, &r);
    else if (what == 10) {
        CHECK_OK(loom_map_clone(*map, &other, NULL));
        replace_by(map, other);
    } else if (what == 11) {
        CHECK_OK(loom_map_save(*map, test_path(t, "saved"), NULL));
        CHECK_OK(loom_map_load(context, test_path(t, "saved"), &other, NULL));
        replace_by(map, other);
    } else if (what == 12) {
        enum { LEAST_HEAP = 64 /* a smaller heap takes as many bytes, and the table stays where it is */ };
        const uint64_t before = map_stats(*map).string_unused;
        CHECK_OK(loom_map_shrink(*map, NULL));
        const loom_stats after = map_stats(*map);
        CHECK(after.string_unused == 0 || (after.string_unused == before && after.string_room <= LEAST_HEAP));
    } else if (what == 13) {
        CHECK_OK(loom_map_reserve(*map, random_below(&t->random, 2 * u->keys.n), NULL));
        CHECK_OK(loom_map_reserve_strings(*map, random_below(&t->random, 100000), NULL));
    } else
        check_find(*map, u, &r);
    free_rows(&r);
}

static const struct {
    uint32_t key_bytes, value_bytes;
    uint64_t most_key, most_value;
    loom_layout layout;
} forms[] = {
    {LOOM_VARIABLE, 0, 40, 0, LOOM_LAYOUT_DEFAULT},
    {LOOM_VARIABLE, 8, 40, 0, LOOM_LAYOUT_APART},
    {LOOM_VARIABLE, 4, 300, 0, LOOM_LAYOUT_DEFAULT},
    {LOOM_VARIABLE, 20, 64, 0, LOOM_LAYOUT_TOGETHER},
    {LOOM_VARIABLE, LOOM_VARIABLE, 30, 100, LOOM_LAYOUT_DEFAULT},
    {LOOM_VARIABLE, LOOM_VARIABLE, 30, 100, LOOM_LAYOUT_APART},
    {12, LOOM_VARIABLE, 0, 60, LOOM_LAYOUT_APART},
    {8, LOOM_VARIABLE, 0, 9, LOOM_LAYOUT_DEFAULT},
    {LOOM_VARIABLE, 3, 3, 0, LOOM_LAYOUT_APART},
};

TEST(test_rows_strings_model, .every_machine = 1, .timeout_seconds = 240, .threads = 1, .long_tier = 1)
{
    for (uint32_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        test_note("form %u", form);
        universe u = make_universe(forms[form].key_bytes, forms[form].value_bytes, forms[form].most_key,
                                   forms[form].most_value, t->quick ? 1500 : 30000);
        u.layout = forms[form].layout;
        loom_context *context = make_context(t);
        loom_map_config config = config_of(&u, random_below(&t->random, 2) * random_below(&t->random, u.keys.n));
        loom_map *map = make_map_from(context, &config);
        for (uint32_t step = 0; step < (!t->quick ? 120u : t->short_tier ? 32u : 60u); step++) {
            change(t, context, &map, &u);
            if (step % 16 == 15)
                check_all(t, map, &u);
        }
        check_all(t, map, &u);
        check_retrieve_all(map, &u);
        check_cursor(t, map, &u);
        CHECK_OK(loom_map_clear(map, NULL, NULL));
        memset(u.present, 0, u.keys.n);
        check_all(t, map, &u);
        check_retrieve_all(map, &u);
        loom_map_destroy(map);
        loom_context_destroy(context);
        free_universe(&u);
    }
}

/* ---- Heaps ------------------------------------------------------------------------------------------------ */

/* Inserts the rows one after the other into a heap that does not grow. Returns how many were stored. */
static uint64_t insert_singly(loom_map *map, universe *u, const rows *r)
{
    uint64_t stored = 0;
    for (uint64_t i = 0; i < r->n; i++) {
        const loom_strings key = {r->keys.offsets + i, r->keys.bytes};
        uint8_t status = 99;
        const loom_status returned = loom_map_insert(map, &key, NULL, 1, LOOM_KEEP, &status, NULL, NULL);
        if (status == LOOM_OK && !u->present[r->of[i]]) {
            u->present[r->of[i]] = 1;
            stored++;
        }
        CHECK(returned == (status == LOOM_OK || status == LOOM_EXISTS ? LOOM_OK : (loom_status)status));
    }
    return stored;
}

TEST(test_rows_strings_full_heap_refuses, .every_machine = 1)
{
    loom_context *context = make_context(t);
    for (int batches = 0; batches < 2; batches++) {
        universe u = make_universe(LOOM_VARIABLE, 0, 40, 0, 4000);
        loom_map_config config = config_of(&u, 5000);
        config.growth = 0;
        config.string_bytes = 20000;
        loom_map *map = make_map_from(context, &config);
        rows r = draw_rows(t, &u, 4000, 0);
        const uint64_t memory = map_stats(map).memory_bytes;
        if (batches) {
            loom_result result = {0};
            CHECK_OK(loom_map_insert(map, argument_of(&r.keys), NULL, r.n, LOOM_KEEP, r.status, &result, NULL));
            CHECK_EQ(result.status, LOOM_FULL);
            for (uint64_t i = 0; i < r.n; i++)
                u.present[r.of[i]] = r.status[i] == LOOM_OK;
            CHECK_EQ(result.ok + result.full + result.too_long, r.n);
            CHECK_EQ(result.ok, present_keys(&u));
        } else {
            (void)insert_singly(map, &u, &r);
        }
        check_all(t, map, &u);
        loom_stats stats = map_stats(map);
        CHECK_LT(stats.string_free + stats.string_unused, 48); /* unused: a rest that was too short for a key */
        CHECK_EQ(stats.memory_bytes, memory);
        /* Most keys go: the bytes of erased strings serve again, although the table must not grow. */
        rows gone = draw_rows(t, &u, 3600, 0);
        erase_rows(map, &u, &gone);
        const uint64_t unused = map_stats(map).string_unused;
        CHECK(unused > 10000);
        CHECK(insert_singly(map, &u, &gone) > 300);
        check_all(t, map, &u);
        CHECK_EQ(map_stats(map).memory_bytes, memory);
        free_rows(&gone);
        free_rows(&r);
        loom_map_destroy(map);
        free_universe(&u);
    }
    loom_context_destroy(context);
}

/* The same strings come and go, and values change their lengths: the table stays small. */
TEST(test_rows_strings_churn_wastes_little, .every_machine = 1, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    universe u = make_universe(LOOM_VARIABLE, LOOM_VARIABLE, 60, 200, 3000);
    loom_map_config config = config_of(&u, 0);
    loom_map *map = make_map_from(context, &config);
    uint64_t most = 0;
    for (uint32_t turn = 0; turn < (t->quick ? 30u : 120u); turn++) {
        rows fresh = draw_rows(t, &u, 1500, 0), gone = draw_rows(t, &u, 1500, 0);
        insert_rows(map, &u, &fresh, LOOM_OVERWRITE, 0);
        if (turn % 3 == 0)
            update_rows(map, &u, &fresh);
        erase_rows(map, &u, &gone);
        const uint64_t room = map_stats(map).string_room;
        most = room > most ? room : most;
        free_rows(&fresh);
        free_rows(&gone);
    }
    check_all(t, map, &u);
    CHECK(most < 4 * 3000 * (36 + 104)); /* four times what all strings of the universe take, about */
    CHECK_OK(loom_map_shrink(map, NULL));
    const loom_stats stats = map_stats(map);
    CHECK_EQ(stats.string_unused, 0);
    CHECK_EQ(stats.string_free, 0); /* although values were replaced by shorter ones */
    check_all(t, map, &u);
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A value that is replaced by one that is no longer takes the same piece. */
TEST(test_rows_strings_replaced_value_takes_its_piece, .every_machine = 1)
{
    loom_context *context = make_context(t);
    universe u = make_universe(8, LOOM_VARIABLE, 0, 100, 10);
    loom_map_config config = config_of(&u, 10);
    loom_map *map = make_map_from(context, &config);
    const uint64_t key = 7;
    unsigned char text[100], found[100];
    for (uint64_t length = 100; length > 0; length--) {
        const uint64_t offsets[2] = {0, length};
        const loom_strings value = {offsets, text};
        uint64_t ends[2], needed = 0;
        memset(text, (int)length, sizeof text);
        CHECK_OK(loom_map_insert(map, &key, &value, 1, LOOM_OVERWRITE, NULL, NULL, NULL));
        CHECK_OK(loom_map_find_strings(map, &key, 1, ends, found, sizeof found, &needed, NULL, NULL, NULL));
        CHECK_EQ(needed, length);
        CHECK_BYTES(found, text, length);
    }
    const loom_stats stats = map_stats(map);
    CHECK_EQ(stats.string_bytes, 1);
    CHECK_EQ(stats.string_unused, 0);
    CHECK_EQ(stats.string_room - stats.string_free, 104);
    checked_verify(map);
    loom_map_destroy(map);
    free_universe(&u);
    loom_context_destroy(context);
}

TEST(test_rows_strings_memory_limit, .every_machine = 1)
{
    loom_context *context = make_context(t);
    universe u = make_universe(LOOM_VARIABLE, 8, 100, 0, 20000);
    loom_map_config config = config_of(&u, 0);
    config.memory_limit = 400000;
    loom_map *map = make_map_from(context, &config);
    rows r = draw_rows(t, &u, 20000, 0);
    loom_result result = {0};
    for (uint64_t first = 0; first < r.n; first += 1000) {
        const loom_strings keys = {r.keys.offsets + first, r.keys.bytes};
        uint64_t bytes = 0;
        CHECK_OK(
            loom_map_insert(map, &keys, r.values.bytes + first * 8, 1000, LOOM_KEEP, r.status + first, &result, NULL));
        for (uint64_t i = first; i < first + 1000; i++)
            if (r.status[i] == LOOM_OK) {
                u.present[r.of[i]] = 1;
                u.numbers[r.of[i]] = r.numbers[i];
            }
        CHECK_OK(loom_map_memory_used(map, &bytes));
        CHECK(bytes <= 400000);
    }
    CHECK_EQ(result.status, LOOM_FULL);
    CHECK(present_keys(&u) > 1500);
    check_all(t, map, &u);
    free_rows(&r);
    loom_map_destroy(map);
    free_universe(&u);
    loom_context_destroy(context);
}

/* ---- Equal keys in one batch ------------------------------------------------------------------------------ */

/* Many threads count the same few words: none is lost while the table grows from nothing. */
TEST(test_rows_strings_counts_of_few_words, .every_machine = 1, .timeout_seconds = 120, .threads = 1)
{
    enum { WORDS = 3000 };
    const uint64_t n = t->quick ? 100000 : 1000000;
    loom_context *context = make_context(t);
    universe u = make_universe(LOOM_VARIABLE, 8, 30, 0, WORDS);
    u.type = LOOM_TYPE_COUNTER;
    loom_map_config config = config_of(&u, 0);
    loom_map *map = make_map_from(context, &config);
    rows r = draw_rows(t, &u, n, 1);
    (void)loom_map_count(map, argument_of(&r.keys), n, NULL, NULL, NULL);
    for (uint64_t i = 0; i < n; i++)
        if (!is_too_long(&u, r.of[i])) {
            u.numbers[r.of[i]] = (u.present[r.of[i]] ? u.numbers[r.of[i]] : 0) + 1;
            u.present[r.of[i]] = 1;
        }
    check_all(t, map, &u);
    const loom_stats stats = map_stats(map);
    /* On a GPU many lanes take bytes for the same new word at the same time, and all but one leave them unused. */
    CHECK(stats.string_room < (t->machine == LOOM_MACHINE_CPU ? 40 : 160) * WORDS);
    /* Half of the words go by their counts. */
    const uint64_t least = n / WORDS;
    CHECK_OK(loom_map_erase_if(map, LOOM_NUMBER_U64, &least, NULL, NULL, NULL));
    for (uint64_t i = 0; i < WORDS; i++)
        u.present[i] &= u.numbers[i] < least;
    check_all(t, map, &u);
    free_rows(&r);
    loom_map_destroy(map);
    free_universe(&u);
    loom_context_destroy(context);
}

/* Of values that overlap in a batch, one stays whole. */
TEST(test_rows_strings_equal_keys_leave_whole_values, .every_machine = 1, .timeout_seconds = 120, .threads = 1)
{
    const uint64_t n = t->quick ? 60000 : 300000;
    loom_context *context = make_context(t);
    universe u = make_universe(LOOM_VARIABLE, LOOM_VARIABLE, 20, 50, 40);
    loom_map_config config = config_of(&u, 100);
    loom_map *map = make_map_from(context, &config);
    for (int turn = 0; turn < 3; turn++) {
        rows r = draw_rows(t, &u, n, 1);
        (void)loom_map_insert(map, argument_of(&r.keys), argument_of(&r.values), n, LOOM_OVERWRITE | LOOM_DIRECTLY,
                              NULL, NULL, NULL);
        uint64_t *offsets = test_allocate((n + 1) * sizeof *offsets), needed;
        CHECK_OK(loom_map_find_strings(map, argument_of(&u.keys), 40, offsets, NULL, 0, &needed, NULL, NULL, NULL));
        unsigned char *found = test_allocate(needed + 1);
        CHECK_OK(
            loom_map_find_strings(map, argument_of(&u.keys), 40, offsets, found, needed + 1, NULL, NULL, NULL, NULL));
        for (uint64_t key = 0; key < 40; key++) {
            int known = is_too_long(&u, key);
            for (uint64_t i = 0; i < n && !known; i++) {
                uint64_t length;
                const unsigned char *value = text_at(&r.values, i, &length);
                known = r.of[i] == key && length == offsets[key + 1] - offsets[key] &&
                        memcmp(value, found + offsets[key], length) == 0;
            }
            CHECK(known);
        }
        checked_verify(map);
        free(found);
        free(offsets);
        free_rows(&r);
    }
    loom_map_destroy(map);
    free_universe(&u);
    loom_context_destroy(context);
}

/* ---- Arguments -------------------------------------------------------------------------------------------- */

TEST(test_rows_strings_arguments, .every_machine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL, *wide = NULL, *none = NULL;
    uint64_t offsets[4] = {0, 3, 1, 4}, numbers[3] = {1, 2, 3}, ends[4], needed;
    loom_strings keys = {offsets, "abcd"};
    uint8_t status[3];
    config.key_bytes = LOOM_VARIABLE;
    config.value_bytes = 8;
    CHECK_OK(loom_map_create(context, &config, &map));
    CHECK_REFUSED(loom_map_insert(map, &keys, numbers, 3, LOOM_KEEP, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_contains(map, &keys, 3, status, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_insert(map, NULL, numbers, 3, LOOM_KEEP, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_map_insert(map, NULL, NULL, 0, LOOM_KEEP, NULL, NULL, NULL));
    keys.offsets = NULL;
    CHECK_REFUSED(loom_map_insert(map, &keys, numbers, 3, LOOM_KEEP, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    offsets[2] = 3;
    keys = (loom_strings){offsets, NULL};
    CHECK_REFUSED(loom_map_insert(map, &keys, numbers, 3, LOOM_KEEP, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(map_size(map), 0);
    const uint64_t no_offsets[3] = {0, 0, 0};
    const loom_strings empty = {no_offsets, NULL}; /* the empty string, twice */
    CHECK_OK(loom_map_insert(map, &empty, numbers, 2, LOOM_KEEP | LOOM_IN_ORDER, status, NULL, NULL));
    CHECK_EQ(status[0], LOOM_OK);
    CHECK_EQ(status[1], LOOM_EXISTS);
    CHECK_OK(loom_map_erase(map, &empty, 1, NULL, NULL, NULL));
    keys.bytes = "abcd";
    CHECK_OK(loom_map_insert(map, &keys, numbers, 3, LOOM_KEEP, status, NULL, NULL)); /* "abc", "" and "d" */
    CHECK_EQ(map_size(map), 3);
    CHECK_REFUSED(loom_map_find_strings(map, &keys, 3, ends, NULL, 0, &needed, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_reserve_values(map, 100, NULL), LOOM_UNSUPPORTED);
    loom_map_config told = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &told));
    CHECK_EQ(told.key_bytes, LOOM_VARIABLE);
    CHECK_EQ(told.most_key_bytes, 4096);
    CHECK_EQ(told.engine, LOOM_ENGINE_ROWS);

    config.key_bytes = 8;
    config.value_bytes = LOOM_VARIABLE;
    config.most_value_bytes = 2;
    CHECK_OK(loom_map_create(context, &config, &wide));
    CHECK_EQ(loom_map_insert(wide, numbers, &keys, 3, LOOM_KEEP, status, NULL, NULL), LOOM_TOO_LONG);
    CHECK_EQ(status[0], LOOM_TOO_LONG);
    CHECK_EQ(status[1], LOOM_OK);
    CHECK_EQ(status[2], LOOM_OK);
    CHECK_EQ(map_size(wide), 2);
    CHECK_REFUSED(loom_map_find(wide, numbers, 3, ends, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_OK(loom_map_find(wide, numbers, 3, NULL, NULL, status, NULL, NULL));
    CHECK_REFUSED(loom_map_find_or_insert(wide, numbers, &keys, 3, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_accumulate(wide, numbers, numbers, 3, LOOM_COMBINE_ADD, LOOM_NUMBER_U64, NULL, NULL, NULL),
                  LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_count(wide, numbers, 3, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_erase_if(wide, LOOM_NUMBER_U64, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);

    config.type = LOOM_TYPE_MULTIMAP;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_UNSUPPORTED);
    config = (loom_map_config)LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.string_bytes = 100;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
    config.engine = LOOM_ENGINE_ROWS;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
    config.string_bytes = 0;
    config.most_key_bytes = 100;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
    config.key_bytes = LOOM_VARIABLE;
    config.most_key_bytes = UINT64_C(1) << 31;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
    config.most_key_bytes = 0;
    config.engine = LOOM_ENGINE_OPEN;
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_UNSUPPORTED);
    CHECK(none == NULL);
    CHECK_OK(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_FEATURE_STRINGS));
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_STRINGS), LOOM_UNSUPPORTED);
    loom_map_destroy(wide);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Room ------------------------------------------------------------------------------------------------- */

/* n strings of `length(i)` bytes, which begin with their number. */
static texts make_numbered(uint64_t n, uint64_t (*length)(uint64_t i))
{
    uint64_t longest = 0;
    for (uint64_t i = 0; i < n; i++)
        longest = length(i) > longest ? length(i) : longest;
    texts made = make_texts(LOOM_VARIABLE, n, longest);
    unsigned char *bytes = test_allocate(longest);
    for (uint64_t i = 0; i < n; i++) {
        memset(bytes, (int)(i % 251), longest);
        memcpy(bytes, &i, sizeof i);
        add_text(&made, bytes, length(i));
    }
    free(bytes);
    return made;
}

static uint64_t from_8_to_63(uint64_t i)
{
    return 8 + i * 29 % 56;
}

/* A heap of exactly the bytes that the keys need holds all of them, however many threads share it. */
TEST(test_rows_strings_exact_heap_holds_all, .every_machine = 1)
{
    static const uint32_t ways[] = {LOOM_DIRECTLY, LOOM_BY_PARTITION, LOOM_IN_ORDER};
    const uint64_t n = test_scaled(t, 60000, 20000);
    loom_context *context = make_context(t);
    texts keys = make_numbered(n, from_8_to_63);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++)
        bytes += (from_8_to_63(i) + 7) / 8 * 8;
    for (size_t way = 0; way < 3; way++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = LOOM_TYPE_SET;
        config.key_bytes = LOOM_VARIABLE;
        config.capacity = n;
        config.max_load = 0.93;
        config.growth = 0;
        config.string_bytes = bytes;
        loom_map *map = make_map_from(context, &config);
        test_note("flags %u", ways[way]);
        CHECK_OK(loom_map_insert(map, &keys.given, NULL, n, ways[way], NULL, NULL, NULL));
        CHECK_EQ(map_size(map), n);
        loom_map_destroy(map);
        /* A heap with much more room is used as sparingly, and builds have shares of it. */
        config.string_bytes = 3 * bytes;
        map = make_map_from(context, &config);
        CHECK_OK(loom_map_insert(map, &keys.given, NULL, n, ways[way], NULL, NULL, NULL));
        CHECK_EQ(map_stats(map).string_unused, 0);
        CHECK_EQ(map_stats(map).string_free, 2 * bytes);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free_texts(&keys);
    loom_context_destroy(context);
}

static uint64_t of_96(uint64_t i)
{
    (void)i;
    return 96;
}

static uint64_t of_60000(uint64_t i)
{
    (void)i;
    return 60000;
}

/* In order, on a GPU, keys are stored before their values. If no value fits, the keys leave much of the heap unused,
 * and packing it changes nothing: the call ends all the same. */
TEST(test_rows_strings_values_that_never_fit, .every_machine = 1)
{
    enum { N = 100 };
    loom_context *context = make_context(t);
    texts keys = make_numbered(N, of_96), values = make_numbered(N, of_60000);
    for (int growth = 0; growth < 2; growth++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        loom_result result = {0};
        config.key_bytes = config.value_bytes = LOOM_VARIABLE;
        config.capacity = N;
        config.growth = 2 * growth;
        config.string_bytes = 65536;
        loom_map *map = make_map_from(context, &config);
        CHECK_OK(loom_map_insert(map, &keys.given, &values.given, N, LOOM_IN_ORDER, NULL, &result, NULL));
        CHECK_EQ(result.ok + result.full, N);
        CHECK_EQ(map_size(map), result.ok);
        if (growth)
            CHECK_EQ(result.ok, N);
        else
            CHECK_LE(result.ok, 1);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free_texts(&keys);
    free_texts(&values);
    loom_context_destroy(context);
}

/* Shares of the heap (open_take_of_share): keys that come again leave next to nothing unused, and nobody's bytes. */
TEST(test_rows_strings_repeated_keys_waste_little)
{
    const uint64_t n = test_scaled(t, 60000, 20000), different = n / 5;
    loom_context *context = make_context(t);
    texts once = make_numbered(different, from_8_to_63), keys = make_texts(LOOM_VARIABLE, n, 64);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length;
        const unsigned char *key = text_at(&once, i < different / 2 ? i : mix_u64(i) % different, &length);
        add_text(&keys, key, length);
        bytes += (length + 7) / 8 * 8;
    }
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_SET;
    config.key_bytes = LOOM_VARIABLE;
    config.capacity = n;
    config.growth = 0;
    config.string_bytes = 2 * bytes;
    for (int builds = 0; builds < 2; builds++) {
        loom_map *map = make_map_from(context, &config);
        loom_result result = {0};
        CHECK_OK((builds ? loom_map_build : loom_map_insert)(map, &keys.given, NULL, n, LOOM_BY_PARTITION, NULL,
                                                             &result, NULL));
        CHECK_EQ(result.ok, map_size(map));
        CHECK_EQ(result.ok + result.exists, n);
        const loom_stats stats = map_stats(map);
        CHECK_LE(stats.string_unused, stats.partitions * 2 * 4096);
        CHECK_LE(stats.string_unused, bytes / 20);
        CHECK_OK(loom_map_find(map, &keys.given, n, NULL, NULL, NULL, &result, NULL));
        CHECK_EQ(result.ok, n);
        checked_verify(map);
        CHECK_OK(loom_map_save(map, test_path(t, "saved"), NULL));
        loom_map *loaded = NULL;
        CHECK_OK(loom_map_load(context, test_path(t, "saved"), &loaded, NULL)); /* no two strings share bytes */
        loom_map_destroy(loaded);
        loom_map_destroy(map);
    }
    free_texts(&once);
    free_texts(&keys);
    loom_context_destroy(context);
}

/* In order, a long value that does not fit refuses the rows after it; the table then grows for the long one. */
TEST(test_rows_strings_long_value_in_order_grows, .every_machine = 1)
{
    enum { LONG = 60000, ROWS = 1001 };
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 8;
    config.value_bytes = LOOM_VARIABLE;
    config.capacity = 4000000; /* so large that the batch goes directly */
    config.string_bytes = 64000;
    config.most_value_bytes = 65536;
    loom_map *map = make_map_from(context, &config);
    texts values = make_texts(LOOM_VARIABLE, ROWS, LONG);
    unsigned char *long_one = test_allocate(LONG);
    uint64_t keys[ROWS], first = 7;
    memset(long_one, 5, LONG);
    const uint64_t offsets[] = {0, 8000};
    const loom_strings some = {offsets, long_one};
    CHECK_OK(loom_map_insert(map, &first, &some, 1, LOOM_KEEP, NULL, NULL, NULL));
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i == 0 ? 1 : 2;
        add_text(&values, long_one, i == 0 ? LONG : 8);
    }
    CHECK_OK(loom_map_insert(map, keys, &values.given, ROWS, LOOM_IN_ORDER, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), 3);
    free(long_one);
    free_texts(&values);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

static uint64_t always_8(uint64_t i)
{
    (void)i;
    return 8;
}

/* Offsets are checked before anything is erased, also in a batch that goes in parts. */
TEST(test_rows_strings_bad_offsets_erase_nothing, .every_machine = 1)
{
    const uint64_t n = 300000;
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_SET;
    config.key_bytes = LOOM_VARIABLE;
    config.capacity = n;
    config.string_bytes = n * 8;
    loom_map *map = make_map_from(context, &config);
    texts keys = make_numbered(n, always_8);
    CHECK_OK(loom_map_insert(map, &keys.given, NULL, n, LOOM_KEEP, NULL, NULL, NULL));
    keys.offsets[n] = 0;
    CHECK_REFUSED(loom_map_erase(map, &keys.given, n, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(map_size(map), n);
    free_texts(&keys);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_strings_activity_counts_each_call_once, .every_machine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t offsets[] = {0, 1, 2};
    const loom_strings two = {offsets, "ab"};
    uint64_t places[3];
    unsigned char bytes[2];
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_activity activity = LOOM_ACTIVITY_INIT;
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    loom_map *map = make_map_from(context, &config);
    CHECK_OK(loom_map_insert(map, &two, &two, 2, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_find_strings(map, &two, 2, places, bytes, 2, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_activity(map, &activity, NULL));
    CHECK_EQ(activity.calls, 2);
    CHECK_EQ(activity.keys, 4);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* An array that a call writes must not lie in the bytes of strings that it reads. */
TEST(test_rows_strings_outputs_apart_from_bytes, .every_machine = 1)
{
    loom_context *context = make_context(t);
    uint64_t offsets[] = {2, 9, 12, 16}, ends[4];
    unsigned char bytes[16] = "..aaaaaaabbbcccc", values[16];
    const loom_strings keys = {offsets, bytes};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    loom_map *map = make_map_from(context, &config);
    for (int at = 0; at < 16; at += 5)
        CHECK_REFUSED(loom_map_insert(map, &keys, &keys, 3, LOOM_KEEP, bytes + at, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_contains(map, &keys, 3, bytes + 4, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase(map, &keys, 3, bytes + 15, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_find_strings(map, &keys, 3, ends, bytes, 3, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(map_size(map), 0);
    CHECK_BYTES(bytes, "..aaaaaaabbbcccc", 16);
    CHECK_OK(loom_map_insert(map, &keys, &keys, 3, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_REFUSED(loom_map_find_strings(map, &keys, 3, ends, values, 14, NULL, bytes, NULL, NULL),
                  LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_map_find_strings(map, &keys, 3, ends, values, 14, NULL, NULL, NULL, NULL));
    CHECK_BYTES(values, "aaaaaaabbbcccc", 14);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

static int add_key_bytes(void *user, const void *keys, const void *values, uint64_t n)
{
    const loom_strings *strings = keys;
    (void)values;
    *(uint64_t *)user += strings->offsets[n];
    return 0;
}

/* Visits need memory for the strings that a table has, not for the longest that it allows. */
TEST(test_rows_strings_visits_take_little_memory)
{
    enum { LONG = 3 << 20 };
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    const uint64_t offsets[] = {0, 1, 2, 2 + LONG}, value_offsets[] = {0, 1, 2, 2};
    unsigned char *bytes = test_allocate(2 + LONG);
    const loom_strings keys = {offsets, bytes}, values = {value_offsets, bytes};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    uint64_t seen_bytes = 0;
    memset(bytes, 'x', 2 + LONG);
    bytes[1] = 'y';
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    config.most_key_bytes = config.most_value_bytes = 1 << 30;
    loom_map *map = make_map_from(context, &config);
    for (uint64_t n = 2; n <= 3; n++) {
        CHECK_OK(loom_map_insert(map, &keys, &values, n, LOOM_KEEP, NULL, NULL, NULL));
        const uint64_t before = counting_bytes(counter);
        counting_reset_peak(counter);
        seen_bytes = 0;
        CHECK_OK(loom_map_for_each(map, add_key_bytes, &seen_bytes, NULL, NULL));
        CHECK_EQ(seen_bytes, offsets[n]);
        CHECK_LE(counting_peak(counter) - before, (n == 2 ? 0 : LONG) + (4 << 20));
    }
    loom_map_destroy(map);
    free(bytes);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* retrieve_all tells the bytes that are needed, also if no pair is asked for. */
TEST(test_rows_strings_retrieve_nothing, .every_machine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_strings_out keys = {.needed = 77}, values = {.needed = 77};
    uint64_t count = 77;
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    loom_map *map = make_map_from(context, &config);
    CHECK_OK(loom_map_retrieve_all(map, &keys, &values, 0, &count, NULL, NULL));
    CHECK_EQ(count | keys.needed | values.needed, 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
