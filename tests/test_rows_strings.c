/* Tables of the rows engine whose keys, values or both are byte strings, against a plain reference. */
#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Columns: rows of a fixed width, or strings ---------------------------------------------------------- */

typedef struct texts {
    uint64_t n, *offsets; /* [n + 1] */
    unsigned char *bytes;
    loom_strings given;
    uint32_t width; /* not strings: bytes of a row; 0: there is no column */
} texts;

static int is_column(const texts *of)
{
    return of->width != 0;
}

/* What a call takes as keys or values. */
static const void *argument_of(const texts *of)
{
    if (!is_column(of))
        return NULL;
    return of->width == LOOM_VARIABLE ? (const void *)&of->given : of->bytes;
}

static void free_texts(texts *of)
{
    free(of->offsets);
    free(of->bytes);
}

/* Room for n strings, added one after the other. */
static texts make_texts(uint32_t width, uint64_t n, uint64_t longest)
{
    texts made = {.width = width};
    made.offsets = test_allocate((n + 1) * sizeof *made.offsets);
    made.bytes = test_allocate(n * (width == LOOM_VARIABLE ? longest : width) + 1);
    made.offsets[0] = 0;
    return made;
}

static void add_text(texts *of, const void *bytes, uint64_t length)
{
    memcpy(of->bytes + of->offsets[of->n], bytes, length);
    of->offsets[of->n + 1] = of->offsets[of->n] + length;
    of->n++;
    of->given = (loom_strings){of->offsets, of->bytes};
}

static const unsigned char *text_at(const texts *of, uint64_t i, uint64_t *length)
{
    *length = of->offsets[i + 1] - of->offsets[i];
    return of->bytes + of->offsets[i];
}

/* ---- A universe of keys: the reference knows them by number ---------------------------------------------- */

typedef struct universe {
    uint32_t key_bytes, value_bytes; /* LOOM_VARIABLE: strings */
    uint64_t most_key, most_value;
    texts keys;
    uint8_t *present;
    uint64_t *numbers; /* the value of a present key follows from its number */
    loom_type type;
} universe;

static int is_too_long(const universe *u, uint64_t key)
{
    uint64_t length;
    (void)text_at(&u->keys, key, &length);
    return u->key_bytes == LOOM_VARIABLE && length > u->most_key;
}

/* Keys of every length up to one that is too long. The last three bytes tell long ones apart, so all of them have common
 * beginnings, and many embedded zeros. */
static universe make_universe(uint32_t key_bytes, uint32_t value_bytes, uint64_t most_key, uint64_t most_value,
                              uint64_t count)
{
    universe u = {.key_bytes = key_bytes,
                  .value_bytes = value_bytes,
                  .most_key = most_key,
                  .most_value = most_value,
                  .type = value_bytes == 0 ? LOOM_TYPE_SET : LOOM_TYPE_MAP};
    unsigned char *key = test_allocate(most_key + 300);
    u.keys = make_texts(key_bytes, count, most_key + 1);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t length = key_bytes != LOOM_VARIABLE ? key_bytes
                                : i < 4                    ? i == 3 ? 1 : i /* "", "\0", "\0\0", "\1" */
                                                           : 3 + mix_u64(i) % (most_key - 1);
        memset(key, i % 3 == 0 ? 0 : 'x', length);
        if (key_bytes == LOOM_VARIABLE && i < 4)
            memset(key, i == 3, length);
        else
            memcpy(key + length - 3, &i, 3);
        add_text(&u.keys, key, length);
    }
    free(key);
    u.present = test_allocate(count);
    u.numbers = test_allocate(count * sizeof *u.numbers);
    memset(u.present, 0, count);
    return u;
}

static void free_universe(universe *u)
{
    free_texts(&u->keys);
    free(u->present);
    free(u->numbers);
}

static uint64_t value_length(const universe *u, uint64_t number)
{
    return u->value_bytes == LOOM_VARIABLE ? mix_u64(number) % (u->most_value + 1) : u->value_bytes;
}

static void make_value(const universe *u, uint64_t number, unsigned char *value)
{
    const uint64_t length = value_length(u, number);
    if (u->value_bytes == 4 || u->value_bytes == 8)
        memcpy(value, &number, length);
    else
        for (uint64_t i = 0; i < length; i++)
            value[i] = (unsigned char)(mix_u64(number + i / 8) >> i % 8 * 8);
}

static loom_map_config config_of(const universe *u, uint64_t capacity)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = u->key_bytes;
    config.value_bytes = u->value_bytes;
    config.type = u->type;
    config.capacity = capacity;
    config.most_key_bytes = u->key_bytes == LOOM_VARIABLE ? u->most_key : 0;
    config.most_value_bytes = u->value_bytes == LOOM_VARIABLE ? u->most_value : 0;
    return config;
}

/* ---- Batches --------------------------------------------------------------------------------------------- */

typedef struct rows {
    uint64_t n, *of, *numbers;
    texts keys, values;
    uint8_t *status;
} rows;

static void add_value(const universe *u, rows *r, uint64_t number)
{
    unsigned char *value = test_allocate(u->most_value + u->value_bytes % 100000 + 1);
    if (is_column(&r->values)) {
        make_value(u, number, value);
        add_text(&r->values, value, value_length(u, number));
    }
    free(value);
}

static rows draw_rows(test_run *t, const universe *u, uint64_t n, int repeats)
{
    const uint64_t count = u->keys.n, first = random_below(&t->random, count);
    rows r = {.n = repeats || n < count ? n : count};
    r.of = test_allocate(r.n * sizeof *r.of + 1);
    r.numbers = test_allocate(r.n * sizeof *r.numbers + 1);
    r.status = test_allocate(r.n + 1);
    r.keys = make_texts(u->key_bytes, r.n, u->most_key + 1);
    r.values = make_texts(u->value_bytes, r.n, u->most_value);
    for (uint64_t i = 0; i < r.n; i++) {
        uint64_t length;
        r.of[i] = repeats ? random_below(&t->random, count) : (first + i) % count;
        r.numbers[i] = random_u64(&t->random);
        const unsigned char *key = text_at(&u->keys, r.of[i], &length);
        add_text(&r.keys, key, length);
        add_value(u, &r, r.numbers[i]);
    }
    return r;
}

static void free_rows(rows *r)
{
    free(r->of);
    free(r->numbers);
    free(r->status);
    free_texts(&r->keys);
    free_texts(&r->values);
}

/* ---- Calls beside their reference ------------------------------------------------------------------------ */

/* Whether a call that stores returned what it should: some keys of the batch may be too long. */
static void check_stored(const universe *u, const rows *r, loom_status returned)
{
    uint64_t too_long = 0;
    for (uint64_t i = 0; i < r->n; i++)
        too_long += (uint64_t)is_too_long(u, r->of[i]);
    CHECK_EQ(returned, too_long > 0 ? LOOM_TOO_LONG : LOOM_OK);
}

static void insert_rows(loom_map *map, universe *u, rows *r, uint32_t flags, int builds)
{
    if (builds)
        memset(u->present, 0, u->keys.n);
    check_stored(u, r,
                 (builds ? loom_map_build : loom_map_insert)(map, argument_of(&r->keys), argument_of(&r->values), r->n,
                                                             flags, r->status, NULL, NULL));
    for (uint64_t i = 0; i < r->n; i++) {
        const uint64_t key = r->of[i];
        if (is_too_long(u, key)) {
            CHECK_EQ(r->status[i], LOOM_TOO_LONG);
            continue;
        }
        CHECK_EQ(r->status[i], u->present[key] ? LOOM_EXISTS : LOOM_OK);
        if (!u->present[key] || flags & LOOM_OVERWRITE)
            u->numbers[key] = r->numbers[i];
        u->present[key] = 1;
    }
}

static void update_rows(loom_map *map, universe *u, rows *r)
{
    check_stored(u, r,
                 loom_map_update(map, argument_of(&r->keys), argument_of(&r->values), r->n, r->status, NULL, NULL));
    for (uint64_t i = 0; i < r->n; i++) {
        if (is_too_long(u, r->of[i]))
            continue;
        CHECK_EQ(r->status[i], u->present[r->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        u->numbers[r->of[i]] = r->numbers[i];
    }
}

static void erase_rows(loom_map *map, universe *u, rows *r)
{
    loom_result result = {0};
    uint64_t erased = 0;
    CHECK_OK(loom_map_erase(map, argument_of(&r->keys), r->n, r->status, &result, NULL));
    for (uint64_t i = 0; i < r->n; i++) {
        CHECK_EQ(r->status[i], u->present[r->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        erased += u->present[r->of[i]];
        u->present[r->of[i]] = 0;
    }
    CHECK_EQ(result.ok, erased);
}

static void accumulate_rows(loom_map *map, universe *u, rows *r)
{
    check_stored(u, r,
                 loom_map_accumulate(map, argument_of(&r->keys), argument_of(&r->values), r->n, LOOM_COMBINE_ADD,
                                     u->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, NULL, NULL));
    check_stored(u, r, loom_map_count(map, argument_of(&r->keys), r->n, NULL, NULL, NULL));
    for (uint64_t i = 0; i < r->n; i++) {
        const uint64_t key = r->of[i];
        if (is_too_long(u, key))
            continue;
        u->numbers[key] = (u->present[key] ? u->numbers[key] : 0) + r->numbers[i] + 1;
        u->present[key] = 1;
    }
}

static void fetch_rows(loom_map *map, universe *u, rows *r)
{
    unsigned char *found = test_allocate(r->n * u->value_bytes + 1), *wanted = test_allocate(u->value_bytes + 1);
    check_stored(u, r,
                 loom_map_find_or_insert(map, argument_of(&r->keys), argument_of(&r->values), r->n, found, r->status,
                                         NULL, NULL));
    for (uint64_t i = 0; i < r->n; i++) {
        const uint64_t key = r->of[i];
        memset(wanted, 0, u->value_bytes);
        if (!is_too_long(u, key)) {
            CHECK_EQ(r->status[i], u->present[key] ? LOOM_EXISTS : LOOM_OK);
            if (!u->present[key])
                u->numbers[key] = r->numbers[i];
            u->present[key] = 1;
            make_value(u, u->numbers[key], wanted);
        }
        CHECK_BYTES(found + i * u->value_bytes, wanted, u->value_bytes);
    }
    free(found);
    free(wanted);
}

static void check_value(const universe *u, uint64_t key, const unsigned char *value, uint64_t length)
{
    unsigned char *wanted = test_allocate(u->most_value + u->value_bytes % 100000 + 1);
    memset(wanted, 0, u->value_bytes % 100000 + 1);
    if (u->present[key])
        make_value(u, u->numbers[key], wanted);
    const uint64_t wanted_length =
        u->value_bytes == LOOM_VARIABLE && !u->present[key] ? 0 : value_length(u, u->numbers[key]);
    CHECK_EQ(length, wanted_length);
    CHECK_BYTES(value, wanted, length);
    free(wanted);
}

static void check_find(loom_map *map, const universe *u, rows *r)
{
    const int strings = u->value_bytes == LOOM_VARIABLE;
    uint64_t needed = 0, *offsets = test_allocate((r->n + 1) * sizeof *offsets);
    unsigned char *found;
    loom_result result = {0};
    if (strings) {
        CHECK_OK(loom_map_find_strings(map, argument_of(&r->keys), r->n, offsets, NULL, 0, &needed, NULL, NULL, NULL));
        CHECK_EQ(offsets[r->n], needed);
        found = test_allocate(needed + 1);
        memset(found, 0x77, needed + 1);
        if (needed > 1) {
            CHECK_EQ(loom_map_find_strings(map, argument_of(&r->keys), r->n, offsets, found, needed - 1, NULL, NULL,
                                           NULL, NULL),
                     LOOM_TOO_SMALL);
            CHECK_EQ(offsets[r->n], needed);
            CHECK_EQ(found[0], 0x77);
        }
        CHECK_OK(loom_map_find_strings(map, argument_of(&r->keys), r->n, offsets, found, needed, NULL, r->status,
                                       &result, NULL));
        CHECK_EQ(found[needed], 0x77);
    } else {
        found = test_allocate(r->n * u->value_bytes + 1);
        CHECK_OK(loom_map_find(map, argument_of(&r->keys), r->n, u->value_bytes > 0 ? found : NULL, NULL, r->status,
                               &result, NULL));
    }
    uint64_t present = 0;
    for (uint64_t i = 0; i < r->n; i++) {
        CHECK_EQ(r->status[i], u->present[r->of[i]] ? LOOM_OK : LOOM_NOT_FOUND);
        present += u->present[r->of[i]];
        if (strings)
            check_value(u, r->of[i], found + offsets[i], offsets[i + 1] - offsets[i]);
        else if (u->present[r->of[i]])
            check_value(u, r->of[i], found + i * u->value_bytes, u->value_bytes);
    }
    CHECK_EQ(result.ok, present);
    CHECK_EQ(result.not_found, r->n - present);
    uint8_t *there = test_allocate(r->n + 1);
    CHECK_OK(loom_map_contains(map, argument_of(&r->keys), r->n, there, NULL, NULL, NULL));
    for (uint64_t i = 0; i < r->n; i++)
        CHECK_EQ(there[i], u->present[r->of[i]]);
    free(there);
    free(found);
    free(offsets);
}

static uint64_t present_keys(const universe *u)
{
    uint64_t present = 0;
    for (uint64_t i = 0; i < u->keys.n; i++)
        present += u->present[i];
    return present;
}

static void check_all(test_run *t, loom_map *map, const universe *u)
{
    rows all = draw_rows(t, u, u->keys.n, 0);
    check_find(map, u, &all);
    free_rows(&all);
    CHECK_EQ(map_size(map), present_keys(u));
    checked_verify(map);
}

/* ---- Everything that a table holds ----------------------------------------------------------------------- */

/* The number of a key of the universe. */
static uint64_t number_of(const universe *u, const unsigned char *key, uint64_t length)
{
    uint64_t i = 0, own;
    if (length >= 3)
        memcpy(&i, key + length - 3, 3);
    else
        i = length == 1 && key[0] == 1 ? 3 : length;
    CHECK(i < u->keys.n);
    const unsigned char *wanted = text_at(&u->keys, i, &own);
    CHECK_EQ(length, own);
    CHECK_BYTES(key, wanted, length);
    return i;
}

typedef struct seen {
    const universe *u;
    uint8_t *times;
    uint64_t in_all;
} seen;

static int visit(void *user, const void *keys, const void *values, uint64_t n)
{
    seen *s = user;
    const universe *u = s->u;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *key = (const unsigned char *)keys + i * u->key_bytes, *value = values;
        uint64_t length = u->key_bytes, value_bytes = u->value_bytes;
        if (u->key_bytes == LOOM_VARIABLE) {
            const loom_strings *strings = keys;
            key = (const unsigned char *)strings->bytes + strings->offsets[i];
            length = strings->offsets[i + 1] - strings->offsets[i];
        }
        if (u->value_bytes == LOOM_VARIABLE) {
            const loom_strings *strings = values;
            value = (const unsigned char *)strings->bytes + strings->offsets[i];
            value_bytes = strings->offsets[i + 1] - strings->offsets[i];
        } else if (value != NULL) {
            value += i * u->value_bytes;
        }
        const uint64_t of = number_of(u, key, length);
        CHECK(u->present[of]);
        s->times[of]++;
        s->in_all++;
        if (u->value_bytes != 0)
            check_value(u, of, value, value_bytes);
    }
    return 0;
}

static void check_seen(const universe *u, const seen *s)
{
    for (uint64_t i = 0; i < u->keys.n; i++)
        CHECK_EQ(s->times[i], u->present[i]);
    CHECK_EQ(s->in_all, present_keys(u));
}

static void *column_memory(uint32_t width, uint64_t n, loom_strings_out *out)
{
    if (width == LOOM_VARIABLE) {
        *out = (loom_strings_out){.offsets = test_allocate((n + 1) * sizeof(uint64_t))};
        return out;
    }
    return width > 0 ? test_allocate(n * width + 1) : NULL;
}

static const void *column_given(uint32_t width, void *memory, const loom_strings_out *out, loom_strings *strings)
{
    *strings = (loom_strings){out->offsets, out->bytes};
    return width == LOOM_VARIABLE ? (const void *)strings : memory;
}

static void free_column(uint32_t width, void *memory, const loom_strings_out *out)
{
    if (width != LOOM_VARIABLE) {
        free(memory);
        return;
    }
    free(out->offsets);
    free(out->bytes);
}

/* All at once: the number of pairs, then offsets, then everything. */
static void check_retrieve_all(loom_map *map, const universe *u)
{
    loom_strings_out keys_out = {0}, values_out = {0};
    loom_strings keys_given, values_given;
    uint64_t count = 0;
    seen s = {.u = u, .times = test_allocate(u->keys.n)};
    memset(s.times, 0, u->keys.n);
    CHECK_OK(loom_map_retrieve_all(map, NULL, NULL, 0, &count, NULL, NULL));
    CHECK_EQ(count, present_keys(u));
    void *keys = column_memory(u->key_bytes, count, &keys_out);
    void *values = column_memory(u->value_bytes, count, &values_out);
    if (count > 0) {
        CHECK_OK(loom_map_retrieve_all(map, keys, values, count, &count, NULL, NULL));
        if (u->key_bytes == LOOM_VARIABLE) {
            CHECK_EQ(keys_out.offsets[count], keys_out.needed);
            keys_out.bytes = test_allocate(keys_out.needed + 1);
            keys_out.byte_room = keys_out.needed;
        }
        if (u->value_bytes == LOOM_VARIABLE) {
            values_out.bytes = test_allocate(values_out.needed + 1);
            values_out.byte_room = values_out.needed;
        }
        if (keys_out.byte_room > 1) {
            keys_out.byte_room--;
            CHECK_EQ(loom_map_retrieve_all(map, keys, values, count, &count, NULL, NULL), LOOM_TOO_SMALL);
            CHECK_EQ(keys_out.needed, keys_out.byte_room + 1);
            keys_out.byte_room++;
        }
        CHECK_OK(loom_map_retrieve_all(map, keys, values, count, &count, NULL, NULL));
        (void)visit(&s, column_given(u->key_bytes, keys, &keys_out, &keys_given),
                    column_given(u->value_bytes, values, &values_out, &values_given), count);
    }
    check_seen(u, &s);
    free_column(u->key_bytes, keys, &keys_out);
    free_column(u->value_bytes, values, &values_out);
    free(s.times);
}

static void check_cursor(test_run *t, loom_map *map, const universe *u)
{
    enum { ROOM = 37 };
    loom_strings_out keys_out = {0}, values_out = {0};
    loom_strings keys_given, values_given;
    loom_cursor *cursor = NULL;
    uint64_t got;
    seen s = {.u = u, .times = test_allocate(u->keys.n)};
    memset(s.times, 0, u->keys.n);
    void *keys = column_memory(u->key_bytes, ROOM, &keys_out);
    void *values = column_memory(u->value_bytes, ROOM, &values_out);
    keys_out.byte_room = u->most_key + 1 + random_below(&t->random, 200);
    values_out.byte_room = u->most_value + 1 + random_below(&t->random, 200);
    if (u->key_bytes == LOOM_VARIABLE)
        keys_out.bytes = test_allocate(keys_out.byte_room);
    if (u->value_bytes == LOOM_VARIABLE)
        values_out.bytes = test_allocate(values_out.byte_room);
    CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
    do {
        CHECK_OK(loom_cursor_next(cursor, keys, values, ROOM, &got, NULL));
        (void)visit(&s, column_given(u->key_bytes, keys, &keys_out, &keys_given),
                    column_given(u->value_bytes, values, &values_out, &values_given), got);
    } while (got > 0);
    loom_cursor_close(cursor);
    check_seen(u, &s);
    memset(s.times, 0, u->keys.n);
    s.in_all = 0;
    CHECK_OK(loom_map_for_each(map, visit, &s, NULL, NULL));
    check_seen(u, &s);
    free_column(u->key_bytes, keys, &keys_out);
    free_column(u->value_bytes, values, &values_out);
    free(s.times);
}

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
        CHECK_OK(loom_map_shrink(*map, NULL));
        CHECK_EQ(map_stats(*map).string_unused, 0);
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
} forms[] = {
    {LOOM_VARIABLE, 0, 40, 0},
    {LOOM_VARIABLE, 8, 40, 0},
    {LOOM_VARIABLE, 4, 300, 0},
    {LOOM_VARIABLE, 20, 64, 0},
    {LOOM_VARIABLE, LOOM_VARIABLE, 30, 100},
    {12, LOOM_VARIABLE, 0, 60},
    {8, LOOM_VARIABLE, 0, 9},
    {LOOM_VARIABLE, 3, 3, 0},
};

TEST(test_rows_strings_model, .timeout_seconds = 240, .threads = 1, .long_tier = 1)
{
    for (uint32_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        test_note("form %u", form);
        universe u = make_universe(forms[form].key_bytes, forms[form].value_bytes, forms[form].most_key,
                                   forms[form].most_value, t->quick ? 1500 : 30000);
        loom_context *context = make_context(t);
        loom_map_config config = config_of(&u, random_below(&t->random, 2) * random_below(&t->random, u.keys.n));
        loom_map *map = make_map_from(context, &config);
        for (uint32_t step = 0; step < (t->quick ? 60u : 120u); step++) {
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

TEST(test_rows_strings_full_heap_refuses)
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
        CHECK(stats.string_free < 48);
        CHECK_EQ(stats.string_unused, 0);
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
TEST(test_rows_strings_churn_wastes_little, .timeout_seconds = 120)
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
    CHECK(stats.string_free < stats.string_room / 4); /* values that were replaced by shorter ones left some */
    check_all(t, map, &u);
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A value that is replaced by one that is no longer takes the same piece. */
TEST(test_rows_strings_replaced_value_takes_its_piece)
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

TEST(test_rows_strings_memory_limit)
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
TEST(test_rows_strings_counts_of_few_words, .timeout_seconds = 120, .threads = 1)
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
    CHECK(stats.string_room < 40 * WORDS);
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
TEST(test_rows_strings_equal_keys_leave_whole_values, .timeout_seconds = 120, .threads = 1)
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

TEST(test_rows_strings_arguments)
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
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
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
    CHECK_REFUSED(loom_map_create(context, &config, &none), LOOM_INVALID_ARGUMENT);
    CHECK(none == NULL);
    CHECK_OK(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_FEATURE_STRINGS));
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_STRINGS), LOOM_UNSUPPORTED);
    loom_map_destroy(wide);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Files ------------------------------------------------------------------------------------------------ */

TEST(test_rows_strings_damaged_files_are_refused)
{
    loom_context *context = make_context(t);
    universe u = make_universe(LOOM_VARIABLE, LOOM_VARIABLE, 20, 30, 60);
    loom_map_config config = config_of(&u, 60);
    loom_map *map = make_map_from(context, &config), *loaded;
    rows r = draw_rows(t, &u, u.keys.n, 0);
    size_t bytes;
    insert_rows(map, &u, &r, LOOM_KEEP, 0);
    CHECK_OK(loom_map_save(map, test_path(t, "whole"), NULL));
    unsigned char *file = test_read_file(test_path(t, "whole"), &bytes);
    for (size_t at = 0; at < bytes; at += t->quick ? 61 : 7) {
        file[at] ^= 16;
        test_write_file(test_path(t, "damaged"), file, bytes);
        CHECK(loom_map_load(context, test_path(t, "damaged"), &loaded, NULL) != LOOM_OK);
        file[at] ^= 16;
    }
    free(file);
    free_rows(&r);
    free_universe(&u);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The golden files of tables with strings: the library must read them, and write the same bytes, for ever. `loom_tests
 * --write-golden-strings DIR` writes them anew; tests/test_file_golden.c says when. */
enum { GOLDEN = 150 };

static universe golden_universe(int values)
{
    return make_universe(LOOM_VARIABLE, values ? LOOM_VARIABLE : 8, 40, values ? 25 : 0, GOLDEN);
}

static loom_map *make_golden(loom_context *context, universe *u)
{
    loom_map_config config = config_of(u, GOLDEN);
    config.string_bytes = 8192;
    loom_map *map = NULL;
    rows r = {.n = GOLDEN, .keys = u->keys, .values = make_texts(u->value_bytes, GOLDEN, 25)};
    for (uint64_t i = 0; i < GOLDEN; i++) {
        u->numbers[i] = i * UINT64_C(0xd1342543de82ef95) + 7;
        u->present[i] = !is_too_long(u, i);
        add_value(u, &r, u->numbers[i]);
    }
    CHECK_OK(loom_map_create(context, &config, &map));
    (void)loom_map_insert(map, argument_of(&r.keys), argument_of(&r.values), GOLDEN, LOOM_KEEP | LOOM_IN_ORDER, NULL,
                          NULL, NULL);
    const loom_strings third = {u->keys.offsets + 3, u->keys.bytes};
    CHECK_OK(loom_map_erase(map, &third, 1, NULL, NULL, NULL)); /* unused bytes are part of files */
    u->present[3] = 0;
    free_texts(&r.values);
    return map;
}

static loom_context *golden_context(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 1; /* threads that fill partitions side by side take pieces of the heap in any order */
    config.fixed_seed = 1;
    config.seed = UINT64_C(0x10c0ffee);
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

static void golden_path(char *path, size_t bytes, const char *directory, int values)
{
    snprintf(path, bytes, "%s/golden_rows_map_strings_%s.loom", directory, values ? "strings" : "8");
}

TEST_MODE(write_golden_strings, "--write-golden-strings")
{
    for (int values = 0; values < 2; values++) {
        char path[512];
        loom_context *context = golden_context();
        universe u = golden_universe(values);
        loom_map *map = make_golden(context, &u);
        golden_path(path, sizeof path, argument, values);
        CHECK_OK(loom_map_save(map, path, NULL));
        loom_map_destroy(map);
        free_universe(&u);
        loom_context_destroy(context);
    }
    return 0;
}

TEST(test_rows_strings_golden_files)
{
    for (int values = 0; values < 2; values++) {
        char path[512];
        loom_context *context = golden_context();
        universe u = golden_universe(values);
        loom_map *map = make_golden(context, &u), *loaded = NULL;
        size_t bytes, wanted_bytes;
        golden_path(path, sizeof path, t->data, values);
        CHECK_OK(loom_map_load(context, path, &loaded, NULL));
        check_all(t, loaded, &u);
        CHECK_OK(loom_map_save(map, test_path(t, "again"), NULL));
        unsigned char *file = test_read_file(test_path(t, "again"), &bytes),
                      *wanted = test_read_file(path, &wanted_bytes);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(file, wanted, bytes);
        free(file);
        free(wanted);
        loom_map_destroy(loaded);
        loom_map_destroy(map);
        free_universe(&u);
        loom_context_destroy(context);
    }
}

/* ---- Words ------------------------------------------------------------------------------------------------ */

/* A word list of Debian (package wamerican, which ./dev setup installs): every word goes in, and is found. */
TEST(test_rows_strings_word_list)
{
    static const char path[] = "/usr/share/dict/words";
    FILE *there = fopen(path, "rb");
    if (there == NULL)
        SKIP("%s is not here; install a word list, for example Debian's wamerican (./dev setup)", path);
    fclose(there);
    size_t bytes;
    unsigned char *text = test_read_file(path, &bytes);
    texts words = make_texts(LOOM_VARIABLE, bytes + 1, 1);
    for (size_t at = 0, end; at < bytes; at = end + 1) {
        for (end = at; end < bytes && text[end] != '\n'; end++)
            continue;
        add_text(&words, text + at, end - at);
    }
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL;
    config.key_bytes = LOOM_VARIABLE;
    config.value_bytes = 8;
    CHECK_OK(loom_map_create(context, &config, &map));
    uint64_t *numbers = test_allocate(words.n * sizeof *numbers), *found = test_allocate(words.n * sizeof *found);
    for (uint64_t i = 0; i < words.n; i++)
        numbers[i] = i;
    loom_result result = {0};
    CHECK_OK(loom_map_insert(map, &words.given, numbers, words.n, LOOM_KEEP | LOOM_IN_ORDER, NULL, &result, NULL));
    CHECK_EQ(result.ok + result.exists, words.n);
    CHECK_EQ(map_size(map), result.ok);
    CHECK_OK(loom_map_find(map, &words.given, words.n, found, NULL, NULL, &result, NULL));
    CHECK_EQ(result.ok, words.n);
    for (uint64_t i = 0; i < words.n; i++) {
        uint64_t length, other_length;
        const unsigned char *word = text_at(&words, i, &length), *other = text_at(&words, found[i], &other_length);
        CHECK(found[i] <= i);
        CHECK_EQ(length, other_length);
        CHECK_BYTES(word, other, length);
    }
    checked_verify(map);
    free(numbers);
    free(found);
    free(text);
    free_texts(&words);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
