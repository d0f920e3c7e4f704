/* Shared by the tests of tables with byte strings: columns of strings, a universe of keys, and calls beside a plain
 * reference. Each test that includes this file uses a part of it. */
#ifndef LOOM_TESTS_STRINGS_FIXTURE_H
#define LOOM_TESTS_STRINGS_FIXTURE_H

#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-function"

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
    loom_layout layout;
} universe;

static int is_too_long(const universe *u, uint64_t key)
{
    uint64_t length;
    (void)text_at(&u->keys, key, &length);
    return u->key_bytes == LOOM_VARIABLE && length > u->most_key;
}

/* Keys of every length up to one that is too long. The last three bytes tell long ones apart, so all of them have
 * common beginnings, and many embedded zeros. */
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
    config.layout = u->layout;
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

#endif
