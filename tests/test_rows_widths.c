/* Tables of the rows engine, and of the ticket engine, with keys and values of any width, against a plain reference. The
 * tests of every engine run for rows, too, with keys and values of 4 and 8 bytes. */
#include "engines/open/open_rows.h"
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A universe of keys: the reference knows them by number --------------------------------------------- */

typedef struct universe {
    uint32_t key_bytes, value_bytes;
    uint32_t ticket_bits; /* 0: rows */
    loom_layout layout;
    loom_row_place place;
    uint64_t count;
    unsigned char *keys; /* [count], all different */
    uint8_t *present;    /* [count] */
    uint64_t *numbers;   /* [count]: the value of a present key follows from its number */
} universe;

/* The bytes of key i: numbers, one changed bit anywhere, and scattered keys. */
static void make_key(unsigned char *key, uint32_t key_bytes, uint64_t i)
{
    memset(key, 0x55, key_bytes);
    if (i % 3 == 0 && key_bytes > 2) {
        key[i / 3 / 8 % key_bytes] ^= (unsigned char)(1 << i / 3 % 8);
        i = i / 3 / 8 / key_bytes; /* and, from the second time on, one more number */
        memcpy(key, &i, key_bytes < 3 ? key_bytes : 2);
        key[0] ^= 0x55;
    } else {
        for (uint32_t byte = 0; byte < key_bytes; byte++)
            key[byte] =
                (unsigned char)(i % 3 == 1 ? (byte < 8 ? i >> 8 * byte : 0) : mix_u64(i + byte / 8) >> byte % 8 * 8);
    }
}

static uint32_t compared_bytes; /* for qsort */

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, compared_bytes);
}

static universe make_universe(uint32_t key_bytes, uint32_t value_bytes, uint64_t wanted)
{
    universe u = {.key_bytes = key_bytes, .value_bytes = value_bytes};
    const uint64_t most = key_bytes == 1 ? 256 : wanted;
    u.keys = test_allocate(wanted * key_bytes);
    for (uint64_t i = 0; i < most; i++) {
        if (key_bytes == 1)
            u.keys[i] = (unsigned char)i;
        else
            make_key(u.keys + i * key_bytes, key_bytes, i);
    }
    compared_bytes = key_bytes;
    qsort(u.keys, most, key_bytes, compare_keys);
    for (uint64_t i = 0; i < most; i++)
        if (u.count == 0 || memcmp(u.keys + (u.count - 1) * key_bytes, u.keys + i * key_bytes, key_bytes) != 0)
            memmove(u.keys + u.count++ * key_bytes, u.keys + i * key_bytes, key_bytes);
    u.present = test_allocate(u.count);
    u.numbers = test_allocate(u.count * sizeof *u.numbers);
    memset(u.present, 0, u.count);
    return u;
}

static void free_universe(universe *u)
{
    free(u->keys);
    free(u->present);
    free(u->numbers);
}

static uint64_t present_keys(const universe *u)
{
    uint64_t present = 0;
    for (uint64_t i = 0; i < u->count; i++)
        present += u->present[i];
    return present;
}

/* Values of 4 and 8 bytes are the number itself, so that it can be accumulated. */
static void make_value(unsigned char *value, uint32_t value_bytes, uint64_t number)
{
    if (value_bytes == 4 || value_bytes == 8)
        memcpy(value, &number, value_bytes);
    else
        for (uint32_t i = 0; i < value_bytes; i++)
            value[i] = (unsigned char)(mix_u64(number + i / 8) >> i % 8 * 8);
}

/* Some keys of the universe, with numbers for their values. */
typedef struct rows_batch {
    uint64_t n, *of, *numbers;
    unsigned char *keys, *values, *found;
    uint8_t *status;
} rows_batch;

/* `repeats`: keys may come several times. Otherwise n is at most the number of keys. */
static rows_batch draw_batch(test_run *t, const universe *u, uint64_t n, int repeats)
{
    rows_batch b = {.n = repeats || n < u->count ? n : u->count};
    b.of = test_allocate(b.n * sizeof *b.of);
    b.numbers = test_allocate(b.n * sizeof *b.numbers);
    b.keys = test_allocate(b.n * u->key_bytes);
    b.values = u->value_bytes > 0 ? test_allocate(b.n * u->value_bytes) : NULL;
    b.found = u->value_bytes > 0 ? test_allocate(b.n * u->value_bytes) : NULL;
    b.status = test_allocate(b.n);
    const uint64_t first = random_below(&t->random, u->count);
    for (uint64_t i = 0; i < b.n; i++) {
        b.of[i] = repeats ? random_below(&t->random, u->count) : (first + i) % u->count;
        b.numbers[i] = random_u64(&t->random);
        memcpy(b.keys + i * u->key_bytes, u->keys + b.of[i] * u->key_bytes, u->key_bytes);
        if (b.values != NULL)
            make_value(b.values + i * u->value_bytes, u->value_bytes, b.numbers[i]);
    }
    return b;
}

static void free_rows(rows_batch *b)
{
    free(b->of);
    free(b->numbers);
    free(b->keys);
    free(b->values);
    free(b->found);
    free(b->status);
}

static loom_map_config rows_config(const universe *u, uint64_t capacity)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = u->key_bytes;
    config.value_bytes = u->value_bytes;
    config.type = u->value_bytes > 0 ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.engine = u->ticket_bits != 0 ? LOOM_ENGINE_TICKETS : LOOM_ENGINE_ROWS;
    config.ticket_bits = u->ticket_bits;
    config.capacity = capacity;
    config.layout = u->layout;
    config.row_place = u->place;
    return config;
}

/* ---- Calls beside their reference ----------------------------------------------------------------------- */

static void check_value(const universe *u, const unsigned char *value, uint64_t number, int present)
{
    unsigned char *wanted = test_allocate(u->value_bytes + 1);
    memset(wanted, 0, u->value_bytes + 1);
    if (present)
        make_value(wanted, u->value_bytes, number);
    CHECK_BYTES(value, wanted, u->value_bytes);
    free(wanted);
}

static void check_find(loom_map *map, const universe *u, rows_batch *b)
{
    loom_result result = {0};
    CHECK_OK(loom_map_find(map, b->keys, b->n, b->found, NULL, b->status, &result, NULL));
    uint64_t found = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        const int present = u->present[b->of[i]];
        CHECK_EQ(b->status[i], present ? LOOM_OK : LOOM_NOT_FOUND);
        if (u->value_bytes > 0)
            check_value(u, b->found + i * u->value_bytes, u->numbers[b->of[i]], present);
        found += (uint64_t)present;
    }
    CHECK_EQ(result.ok, found);
}

static void check_all(test_run *t, loom_map *map, const universe *u)
{
    rows_batch all = draw_batch(t, u, u->count, 0);
    check_find(map, u, &all);
    free_rows(&all);
    CHECK_EQ(map_size(map), present_keys(u));
    checked_verify(map);
}

static void insert_rows(loom_map *map, universe *u, rows_batch *b, uint32_t flags, int builds)
{
    if (builds)
        memset(u->present, 0, u->count);
    CHECK_OK((builds ? loom_map_build : loom_map_insert)(map, b->keys, b->values, b->n, flags, b->status, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = b->of[i];
        CHECK_EQ(b->status[i], u->present[key] ? LOOM_EXISTS : LOOM_OK);
        if (!u->present[key] || flags & LOOM_OVERWRITE)
            u->numbers[key] = b->numbers[i];
        u->present[key] = 1;
    }
}

static void fetch_rows(loom_map *map, universe *u, rows_batch *b)
{
    CHECK_OK(loom_map_find_or_insert(map, b->keys, b->values, b->n, b->found, b->status, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = b->of[i];
        CHECK_EQ(b->status[i], u->present[key] ? LOOM_EXISTS : LOOM_OK);
        if (!u->present[key])
            u->numbers[key] = b->numbers[i];
        u->present[key] = 1;
        check_value(u, b->found + i * u->value_bytes, u->numbers[key], 1);
    }
}

static void update_rows(loom_map *map, universe *u, rows_batch *b)
{
    CHECK_OK(loom_map_update(map, b->keys, b->values, b->n, b->status, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK_EQ(b->status[i], u->present[b->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        u->numbers[b->of[i]] = b->numbers[i];
    }
}

/* Every row counts, however often its key comes. */
static void accumulate_rows(loom_map *map, universe *u, rows_batch *b)
{
    CHECK_OK(loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_ADD,
                                 u->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, NULL, NULL));
    CHECK_OK(loom_map_count(map, b->keys, b->n, NULL, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = b->of[i];
        u->numbers[key] = (u->present[key] ? u->numbers[key] : 0) + b->numbers[i] + 1;
        u->present[key] = 1;
    }
}

static void erase_rows(loom_map *map, universe *u, rows_batch *b)
{
    CHECK_OK(loom_map_erase(map, b->keys, b->n, b->status, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK_EQ(b->status[i], u->present[b->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        u->present[b->of[i]] = 0;
    }
}

/* Every pair of the table, once. */
static void check_retrieved(loom_map *map, const universe *u)
{
    const uint64_t size = map_size(map);
    unsigned char *keys = test_allocate(size * u->key_bytes + 1);
    unsigned char *values = u->value_bytes > 0 ? test_allocate(size * u->value_bytes + 1) : NULL;
    uint8_t *seen = test_allocate(u->count);
    uint64_t got;
    memset(seen, 0, u->count);
    CHECK_OK(loom_map_retrieve_all(map, keys, values, size, &got, NULL, NULL));
    CHECK_EQ(got, size);
    for (uint64_t i = 0; i < size; i++) {
        uint64_t low = 0, high = u->count;
        while (high - low > 1) {
            const uint64_t middle = (low + high) / 2;
            if (memcmp(u->keys + middle * u->key_bytes, keys + i * u->key_bytes, u->key_bytes) <= 0)
                low = middle;
            else
                high = middle;
        }
        CHECK_BYTES(keys + i * u->key_bytes, u->keys + low * u->key_bytes, u->key_bytes);
        CHECK(u->present[low] && !seen[low]);
        seen[low] = 1;
        if (values != NULL)
            check_value(u, values + i * u->value_bytes, u->numbers[low], 1);
    }
    free(keys);
    free(values);
    free(seen);
}

/* Replaces the map by itself, saved and loaded. */
static void reload(test_run *t, loom_context *context, loom_map **map)
{
    CHECK_OK(loom_map_save(*map, test_path(t, "rows"), NULL));
    loom_map_destroy(*map);
    CHECK_OK(loom_map_load(context, test_path(t, "rows"), map, NULL));
}

/* From now on, rows in host memory are reached in some way, through buffers of some size. */
static void draw_route(test_run *t, loom_context *context, loom_map *map)
{
    static const uint64_t buffers[] = {0, 1 << 14, 1 << 18}, chunks[] = {0, 7, 100};
    CHECK_OK(loom_map_set_row_route(map, (loom_row_route)random_below(&t->random, LOOM_ROW_ROUTE_STREAMED + 1)));
    CHECK_OK(loom_map_set_row_staging(map, random_below(&t->random, 2) ? (uint64_t)13 << 20 : 0)); /* enough for all */
    cuda_set_row_buffers(context, buffers[random_below(&t->random, 3)], chunks[random_below(&t->random, 3)]);
}

static void change(test_run *t, loom_context *context, loom_map **map, universe *u, uint64_t most)
{
    const uint64_t choice = random_below(&t->random, 12), n = 1 + random_below(&t->random, most);
    rows_batch b = draw_batch(t, u, n, 0), repeated = draw_batch(t, u, n, 1);
    loom_map *clone;
    test_note("%u + %u bytes, layout %d, place %d, choice %d, %llu keys", u->key_bytes, u->value_bytes, (int)u->layout,
              (int)u->place, (int)choice, (unsigned long long)n);
    if (u->place == LOOM_ROWS_IN_HOST_MEMORY && t->machine == LOOM_MACHINE_CUDA && u->ticket_bits == 0)
        draw_route(t, context, *map);
    switch (choice) {
    case 0:
        insert_rows(*map, u, &b, LOOM_KEEP, 0);
        break;
    case 1:
        insert_rows(*map, u, &b, LOOM_OVERWRITE, 0);
        break;
    case 2:
        insert_rows(*map, u, &repeated, LOOM_KEEP | LOOM_IN_ORDER, 0);
        break;
    case 3:
        insert_rows(*map, u, &repeated, LOOM_OVERWRITE | LOOM_IN_ORDER, 0);
        break;
    case 4:
        insert_rows(*map, u, &repeated, (random_below(&t->random, 2) ? LOOM_OVERWRITE : LOOM_KEEP) | LOOM_IN_ORDER, 1);
        break;
    case 5:
        insert_rows(*map, u, &b, t->machine == LOOM_MACHINE_CPU ? LOOM_BY_PARTITION : 0, 0);
        break;
    case 6:
    case 7:
        erase_rows(*map, u, &b);
        break;
    case 8:
        if (u->value_bytes > 0)
            fetch_rows(*map, u, &b);
        break;
    case 9:
        if (u->value_bytes > 0)
            update_rows(*map, u, &b);
        break;
    case 10:
        if (u->value_bytes == 4 || u->value_bytes == 8)
            accumulate_rows(*map, u, &repeated);
        else
            check_find(*map, u, &repeated);
        break;
    default:
        check_retrieved(*map, u);
        reload(t, context, map);
        CHECK_OK(loom_map_clone(*map, &clone, NULL));
        loom_map_destroy(*map);
        *map = clone;
    }
    free_rows(&b);
    free_rows(&repeated);
}

enum { TOGETHER = LOOM_LAYOUT_TOGETHER, APART = LOOM_LAYOUT_APART };

static const uint32_t all_forms[][3] = {
    {1, 0},    {1, 4},          {2, 8, APART},  {3, 5},   {3, 5, APART},     {4, 4, TOGETHER}, {4, 4, APART},
    {8, 8},    {16, 8},         {16, 8, APART}, {16, 0},  {5, 1, APART},     {12, 4},          {12, 4, APART},
    {32, 128}, {8, 512, APART}, {255, 3},       {256, 0}, {16, 4099, APART}, {256, 65536}};

static void run_model(test_run *t, universe *u, uint32_t steps)
{
    loom_context *context = make_context(t);
    loom_map_config config = rows_config(u, 1 + random_below(&t->random, u->count));
    loom_map *map = make_map_from(context, &config);
    for (uint32_t step = 0; step < steps; step++) {
        change(t, context, &map, u, u->count);
        if (step % 8 == 7)
            check_all(t, map, u);
    }
    check_all(t, map, u);
    check_retrieved(map, u);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    memset(u->present, 0, u->count);
    check_all(t, map, u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_model_of_any_width, .every_machine = 1, .timeout_seconds = 240, .threads = 1, .long_tier = 1)
{
    for (uint32_t form = 0; form < sizeof all_forms / sizeof *all_forms; form++) {
        const uint32_t key_bytes = all_forms[form][0], value_bytes = all_forms[form][1];
        const uint64_t wanted = value_bytes > 1000 ? (t->quick ? 60 : 200) : t->quick ? 1500 : 20000;
        universe u = make_universe(key_bytes, value_bytes, wanted);
        u.layout = (loom_layout)all_forms[form][2];
        u.place = (loom_row_place)random_below(&t->random, 2);
        run_model(t, &u, value_bytes > 1000 || (t->quick && t->short_tier) ? 24 : 60);
        free_universe(&u);
    }
}

TEST(test_tickets_model_of_any_width, .timeout_seconds = 240, .threads = 1, .long_tier = 1, .every_machine = 1)
{
    static const uint32_t forms[][3] = {{1, 4, 8},  {3, 5, 4},    {4, 4, 8},   {8, 8, 1},   {8, 8, 8},      {16, 8, 2},
                                        {16, 0, 8}, {32, 128, 8}, {255, 3, 4}, {256, 0, 1}, {256, 65536, 8}};
    for (uint32_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        const uint32_t value_bytes = forms[form][1];
        const uint64_t wanted = value_bytes > 1000 ? (t->quick ? 60 : 200) : t->quick ? 1500 : 20000;
        universe u = make_universe(forms[form][0], value_bytes, wanted);
        u.ticket_bits = forms[form][2];
        u.place = (loom_row_place)random_below(&t->random, 2);
        run_model(t, &u, value_bytes > 1000 || t->quick ? 24 : 60);
        free_universe(&u);
    }
}

/* ---- Keys that are alike -------------------------------------------------------------------------------- */

/* Keys that differ from each other in one or two bits, wherever those are. */
TEST(test_rows_keys_that_differ_in_one_bit)
{
    static const uint32_t widths[] = {1, 3, 7, 9, 16, 17, 31, 64, 129, 240, 241, 256};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const uint32_t bytes = widths[w], bits = bytes * 8;
        loom_context *context = make_context(t);
        const universe shape = {.key_bytes = bytes, .value_bytes = 4};
        loom_map_config config = rows_config(&shape, bits / 2 + 1);
        loom_map *map = make_map_from(context, &config);
        unsigned char *keys = test_allocate((size_t)bits * bytes);
        uint32_t *values = test_allocate(bits * sizeof *values), *found = test_allocate(bits * sizeof *found);
        memset(keys, 0xa5, (size_t)bits * bytes);
        for (uint32_t i = 0; i < bits; i++) {
            keys[i * bytes + i / 8] ^= (unsigned char)(1 << i % 8);
            values[i] = i;
        }
        CHECK_OK(loom_map_insert(map, keys, values, bits / 2, LOOM_KEEP, NULL, NULL, NULL));
        loom_result result = {0};
        CHECK_OK(loom_map_find(map, keys, bits, found, NULL, NULL, &result, NULL));
        CHECK_EQ(result.ok, bits / 2);
        for (uint32_t i = 0; i < bits; i++)
            CHECK_EQ(found[i], i < bits / 2 ? i : 0);
        free(keys);
        free(values);
        free(found);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

/* Only the rows tell keys with equal tags apart. */
TEST(test_rows_keys_with_equal_tags)
{
    enum { ALIKE = 120, STORED = 80 };
    typedef struct key_16 {
        uint64_t words[2];
    } key_16;
    loom_context *context = make_context(t);
    const universe shape = {.key_bytes = 16, .value_bytes = 24};
    loom_map_config config = rows_config(&shape, 400);
    loom_map *map = make_map_from(context, &config);
    const loom__seed seed = loom__seed_expand(map_stats(map).seed);
    key_16 keys[ALIKE];
    uint64_t values[ALIKE][3], found[ALIKE][3];
    uint32_t count = 0;
    for (uint64_t i = 0; count < ALIKE; i++) {
        keys[count] = (key_16){{i, mix_u64(i)}};
        count += open_tag(open_row_hash((const unsigned char *)&keys[count], 16, seed)) == 77;
    }
    for (uint32_t i = 0; i < ALIKE; i++)
        for (uint32_t word = 0; word < 3; word++)
            values[i][word] = mix_u64(3 * i + word);
    for (uint32_t round = 0; round < 3; round++) {
        uint8_t status[ALIKE];
        CHECK_OK(loom_map_insert(map, keys, values, STORED, LOOM_KEEP, NULL, NULL, NULL));
        CHECK_OK(loom_map_find(map, keys, ALIKE, found, NULL, status, NULL, NULL));
        for (uint32_t i = 0; i < ALIKE; i++) {
            CHECK_EQ(status[i], i < STORED ? LOOM_OK : LOOM_NOT_FOUND);
            if (i < STORED)
                CHECK_BYTES(found[i], values[i], sizeof values[i]);
        }
        CHECK_OK(loom_map_erase(map, keys, STORED / 2 + round, status, NULL, NULL));
        CHECK_EQ(map_size(map), STORED / 2 - round);
        checked_verify(map);
    }
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Room ----------------------------------------------------------------------------------------------- */

static void check_full_table_refuses(test_run *t, uint32_t ticket_bits)
{
    loom_context *context = make_context(t);
    universe u = make_universe(16, 24, 4000);
    u.ticket_bits = ticket_bits;
    loom_map_config config = rows_config(&u, 1000);
    config.growth = 0;
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    rows_batch b = draw_batch(t, &u, u.count, 0);
    loom_result result = {0};
    CHECK_OK(loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, b.status, &result, NULL));
    CHECK_EQ(result.status, LOOM_FULL);
    CHECK_EQ(result.ok + result.full, b.n);
    CHECK_GE(result.ok, 1000);
    CHECK_LE(result.ok, map_stats(map).slots);
    for (uint64_t i = 0; i < b.n; i++) {
        u.present[b.of[i]] = b.status[i] == LOOM_OK;
        u.numbers[b.of[i]] = b.numbers[i];
    }
    check_all(t, map, &u);
    /* Slots that were freed are taken again. */
    CHECK_OK(loom_map_erase(map, b.keys, b.n / 2, NULL, NULL, NULL));
    memset(u.present, 0, u.count);
    for (uint64_t i = b.n / 2; i < b.n; i++)
        u.present[b.of[i]] = b.status[i] == LOOM_OK;
    check_all(t, map, &u);
    CHECK_OK(loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, b.status, &result, NULL));
    CHECK_EQ(result.status, LOOM_FULL);
    checked_verify(map);
    free_rows(&b);
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_full_table_refuses)
{
    check_full_table_refuses(t, 0);
}

TEST(test_tickets_full_table_refuses, .every_machine = 1)
{
    check_full_table_refuses(t, 8);
}

/* Keys come and go for many times the size of the table. Lookups stay short. */
static void check_churn(test_run *t, uint32_t ticket_bits)
{
    loom_context *context = make_context(t);
    universe u = make_universe(16, 40, 40000);
    u.ticket_bits = ticket_bits;
    u.layout = ticket_bits == 0 ? LOOM_LAYOUT_APART : LOOM_LAYOUT_DEFAULT;
    loom_map_config config = rows_config(&u, 12000);
    config.growth = 0;
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    const uint64_t step = 1000, kept = 10000;
    const uint32_t rounds = t->quick ? 60 : 200;
    for (uint64_t round = 0; round < rounds; round++) {
        for (int erases = 0; erases < 2; erases++) {
            const uint64_t first = round * step + (erases ? 0 : kept);
            rows_batch b = draw_batch(t, &u, step, 0);
            if (round == 0 && !erases) {
                free_rows(&b);
                b = draw_batch(t, &u, kept + step, 0);
            }
            for (uint64_t i = 0; i < b.n; i++) {
                b.of[i] = (round == 0 && !erases ? i : first + i) % u.count;
                memcpy(b.keys + i * u.key_bytes, u.keys + b.of[i] * u.key_bytes, u.key_bytes);
            }
            if (erases)
                erase_rows(map, &u, &b);
            else
                insert_rows(map, &u, &b, LOOM_KEEP, 0);
            free_rows(&b);
        }
    }
    CHECK_EQ(map_size(map), kept);
    check_all(t, map, &u);
    const loom_stats stats = map_stats(map);
    /* Of lines; or of tickets, of which a search passes 10 that are taken for each one that is free. */
    CHECK(stats.accesses_per_miss < (ticket_bits == 0 ? 1.2 : 12));
    CHECK(stats.accesses_per_hit < (ticket_bits == 0 ? 1.5 : 4));
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_churn, .timeout_seconds = 120, .threads = 1)
{
    check_churn(t, 0);
}

TEST(test_tickets_churn, .timeout_seconds = 120, .threads = 1, .every_machine = 1)
{
    check_churn(t, 4);
}

/* ---- Threads -------------------------------------------------------------------------------------------- */

/* Many rows give values to few keys, by several threads at once. Each value is one of those that were given, and
 * whole. */
static void check_equal_keys_leave_whole_values(test_run *t, uint32_t ticket_bits)
{
    enum { ROWS = 1 << 17, DISTINCT = 50, WORDS = 9 };
    loom_context *context = make_context_with(t, 4, 1);
    const universe shape = {.key_bytes = 24,
                            .value_bytes = WORDS * 8,
                            .ticket_bits = ticket_bits,
                            .layout = ticket_bits == 0 ? LOOM_LAYOUT_APART : LOOM_LAYOUT_DEFAULT};
    loom_map_config config = rows_config(&shape, 1000);
    loom_map *map = make_map_from(context, &config);
    uint64_t(*keys)[3] = test_allocate(ROWS * sizeof *keys), (*values)[WORDS] = test_allocate(ROWS * sizeof *values);
    uint64_t(*found)[WORDS] = test_allocate(ROWS * sizeof *found);
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint64_t key = random_below(&t->random, DISTINCT);
        keys[i][0] = keys[i][1] = keys[i][2] = key;
        for (uint32_t word = 0; word < WORDS; word++)
            values[i][word] = i * DISTINCT + key;
    }
    for (uint32_t call = 0; call < 4; call++) {
        if (call == 1)
            CHECK_OK(loom_map_find_or_insert(map, keys, values, ROWS, found, NULL, NULL, NULL));
        else if (call == 2)
            CHECK_OK(loom_map_update(map, keys, values, ROWS, NULL, NULL, NULL));
        else
            CHECK_OK(
                loom_map_insert(map, keys, values, ROWS, call == 0 ? LOOM_KEEP : LOOM_OVERWRITE, NULL, NULL, NULL));
        for (uint32_t pass = call == 1 ? 0 : 1; pass < 2; pass++) {
            if (pass == 1)
                CHECK_OK(loom_map_find(map, keys, ROWS, found, NULL, NULL, NULL, NULL));
            for (uint64_t i = 0; i < ROWS; i++) {
                CHECK_EQ(found[i][0] % DISTINCT, keys[i][0]);
                for (uint32_t word = 1; word < WORDS; word++)
                    CHECK_EQ(found[i][word], found[i][0]);
            }
        }
        CHECK_EQ(map_size(map), DISTINCT);
        checked_verify(map);
    }
    free(keys);
    free(values);
    free(found);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_equal_keys_leave_whole_values, .every_machine = 1, .timeout_seconds = 120, .threads = 1)
{
    check_equal_keys_leave_whole_values(t, 0);
}

TEST(test_tickets_equal_keys_leave_whole_values, .timeout_seconds = 120, .threads = 1, .every_machine = 1)
{
    check_equal_keys_leave_whole_values(t, 8);
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

/* A flipped bit anywhere, lines and rows included, is noticed. */
static void refuse_damage(test_run *t, loom_layout layout)
{
    loom_context *context = make_context(t);
    universe u = make_universe(16, 24, 60);
    u.layout = layout;
    loom_map_config config = rows_config(&u, 60);
    loom_map *map = make_map_from(context, &config), *loaded;
    rows_batch b = draw_batch(t, &u, u.count, 0);
    size_t bytes;
    insert_rows(map, &u, &b, LOOM_KEEP, 0);
    CHECK_OK(loom_map_save(map, test_path(t, "whole"), NULL));
    unsigned char *file = test_read_file(test_path(t, "whole"), &bytes);
    for (size_t at = 0; at < bytes; at += t->quick ? 113 : 13) {
        file[at] ^= 16;
        test_write_file(test_path(t, "damaged"), file, bytes);
        CHECK(loom_map_load(context, test_path(t, "damaged"), &loaded, NULL) != LOOM_OK);
        file[at] ^= 16;
    }
    free(file);
    free_rows(&b);
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_damaged_files_are_refused)
{
    refuse_damage(t, LOOM_LAYOUT_TOGETHER);
    refuse_damage(t, LOOM_LAYOUT_APART);
}

/* The golden files of tables whose keys have the hash of byte strings, of both layouts: the library must read them, and
 * write the same bytes, for ever. `loom_tests --write-golden-rows DIR` writes them anew; tests/test_file_golden.c says
 * when. */
static loom_map *make_golden_rows(loom_context *context, loom_layout layout)
{
    enum { GOLDEN = 150 };
    const universe shape = {.key_bytes = 16, .value_bytes = 8, .layout = layout};
    loom_map_config config = rows_config(&shape, GOLDEN);
    loom_map *map = NULL;
    uint64_t keys[GOLDEN][2], values[GOLDEN];
    for (uint64_t i = 0; i < GOLDEN; i++) {
        keys[i][0] = i;
        keys[i][1] = i * UINT64_C(0x9e3779b97f4a7c15);
        values[i] = i * UINT64_C(0xd1342543de82ef95) + 7;
    }
    CHECK_OK(loom_map_create(context, &config, &map));
    CHECK_OK(loom_map_insert(map, keys, values, GOLDEN, LOOM_KEEP | LOOM_IN_ORDER, NULL, NULL, NULL));
    return map;
}

static loom_context *golden_context(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.fixed_seed = 1;
    config.seed = UINT64_C(0x10c0ffee);
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

static void golden_path(char *path, size_t bytes, const char *directory, loom_layout layout)
{
    snprintf(path, bytes, "%s/golden_rows_%smap_16_8.loom", directory, layout == LOOM_LAYOUT_APART ? "apart_" : "");
}

TEST_MODE(write_golden_rows, "--write-golden-rows")
{
    for (int layout = LOOM_LAYOUT_TOGETHER; layout <= LOOM_LAYOUT_APART; layout++) {
        char path[512];
        loom_context *context = golden_context();
        loom_map *map = make_golden_rows(context, (loom_layout)layout);
        golden_path(path, sizeof path, argument, (loom_layout)layout);
        CHECK_OK(loom_map_save(map, path, NULL));
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    return 0;
}

static void check_golden_rows(test_run *t, loom_layout layout)
{
    char path[512];
    loom_context *context = golden_context();
    loom_map *map = make_golden_rows(context, layout), *loaded = NULL;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    size_t bytes, wanted_bytes;
    golden_path(path, sizeof path, t->data, layout);
    CHECK_OK(loom_map_load(context, path, &loaded, NULL));
    checked_verify(loaded);
    CHECK_OK(loom_map_get_config(loaded, &config));
    CHECK_EQ(config.layout, layout);
    const uint64_t key[2] = {77, 77 * UINT64_C(0x9e3779b97f4a7c15)};
    uint64_t value = 0;
    CHECK_OK(loom_map_find(loaded, key, 1, &value, NULL, NULL, NULL, NULL));
    CHECK_EQ(value, 77 * UINT64_C(0xd1342543de82ef95) + 7);
    CHECK_OK(loom_map_save(map, test_path(t, "again"), NULL));
    unsigned char *file = test_read_file(test_path(t, "again"), &bytes), *wanted = test_read_file(path, &wanted_bytes);
    CHECK_EQ(bytes, wanted_bytes);
    CHECK_BYTES(file, wanted, bytes);
    free(file);
    free(wanted);
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_rows_golden_files_of_wide_keys)
{
    check_golden_rows(t, LOOM_LAYOUT_TOGETHER);
    check_golden_rows(t, LOOM_LAYOUT_APART);
}
