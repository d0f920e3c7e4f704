/* Accumulating and counting batches with many rows for each key: more than 65,536 rows, and four for each slot of the
 * table. The cuda machine then combines rows before they go to the table. The results must be the same.
 *
 * C's own arithmetic computes the value that each key must have. Sums are of small whole numbers, so that sums of
 * floats are exact in any order. Rows of maps with values of 8 bytes bring numbers of 8 bytes, or of 4 bytes, which are
 * widened. */
#include "harness/placed_batch.h"

#include "engines/open/open_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROWS = (1 << 16) + 77, ROWS_PER_SLOT = 4, SPECIAL_KEYS = 4 };

/* Keys number 0 to keys - 1, and the value that the table must have for each. */
typedef struct grouping {
    test_run *t;
    loom_context *context;
    loom_map *map;
    loom__open_view view;
    uint64_t partition_slots, keys;
    uint64_t *key;   /* [keys] */
    uint64_t *value; /* [keys]: bits */
    uint8_t *there;  /* [keys] */
    uint32_t *which; /* [rows.n]: a row's key */
    batch rows;      /* its value_bytes are those of the numbers of the last call */
} grouping;

/* A table for `capacity` keys, and rows with `keys` different ones. */
static grouping make_grouping(test_run *t, loom_context *context, uint64_t capacity, uint64_t keys)
{
    grouping g = {.t = t, .context = context, .map = make_map(t, context, capacity), .keys = keys};
    loom_stats stats = map_stats(g.map);
    loom__open_shape shape;
    uint64_t salt = random_u64(&t->random), all_ones = cut_word(UINT64_MAX, t->key_bytes);
    memset(&shape, 0, sizeof shape);
    shape.kind = slot_kind_of(t->key_bytes, t->value_bytes);
    shape.partitions = (uint32_t)stats.partitions;
    shape.buckets = (uint32_t)stats.buckets_per_partition;
    g.view = loom__open_view_make(&shape, stats.seed);
    g.partition_slots = stats.slots / stats.partitions;
    g.key = test_allocate(keys * sizeof *g.key);
    g.value = test_allocate(keys * sizeof *g.value);
    g.there = test_allocate(keys);
    memset(g.value, 0, keys * sizeof *g.value);
    memset(g.there, 0, keys);
    const uint64_t special[SPECIAL_KEYS] = {0, all_ones, g.view.empty[0], g.view.empty[1]};
    for (uint64_t i = 0, next = 0; i < keys; next++) {
        uint64_t key = i < SPECIAL_KEYS ? special[i] : distinct_key(t->key_bytes, salt, next);
        int again = 0;
        for (uint64_t j = 0; j < SPECIAL_KEYS && i >= SPECIAL_KEYS; j++)
            again |= key == special[j];
        if (!again)
            g.key[i++] = key;
    }
    uint64_t n = ROWS_PER_SLOT * stats.slots + 13;
    g.rows = make_batch(t, n > LEAST_ROWS ? n : LEAST_ROWS);
    g.which = test_allocate(g.rows.n * sizeof *g.which);
    return g;
}

static void free_grouping(grouping *g)
{
    loom_map_destroy(g->map);
    free_batch(&g->rows);
    free(g->key);
    free(g->value);
    free(g->there);
    free(g->which);
}

/* One row in `one_of` has the same key. 0: all keys are equally likely. */
static void choose_keys_with(grouping *g, uint64_t one_of)
{
    uint64_t hot_key = random_below(&g->t->random, g->keys);
    for (uint64_t i = 0; i < g->rows.n; i++) {
        int hot = one_of > 0 && i % one_of == one_of - 1;
        g->which[i] = (uint32_t)(hot ? hot_key : random_below(&g->t->random, g->keys));
        set_pair(&g->rows, i, g->key[g->which[i]], 0);
    }
}

/* With `hot`, half of the rows have the same key. */
static void choose_keys(grouping *g, int hot)
{
    choose_keys_with(g, hot ? 2 : 0);
}

/* ---- Numbers --------------------------------------------------------------------------------------------------- */

static uint64_t bits_of(loom_number number, double value)
{
    union {
        float real;
        uint32_t bits;
    } four = {.real = (float)value};
    union {
        double real;
        uint64_t bits;
    } eight = {.real = value};
    switch (number) {
    case LOOM_NUMBER_F32:
        return four.bits;
    case LOOM_NUMBER_F64:
        return eight.bits;
    case LOOM_NUMBER_U32:
    case LOOM_NUMBER_I32:
        return (uint32_t)(int32_t)value;
    default:
        return (uint64_t)(int64_t)value;
    }
}

static double real_of(loom_number number, uint64_t bits)
{
    union {
        uint32_t bits;
        float real;
    } four = {.bits = (uint32_t)bits};
    union {
        uint64_t bits;
        double real;
    } eight = {.bits = bits};
    return number == LOOM_NUMBER_F32 ? (double)four.real : eight.real;
}

static int is_float(loom_number number)
{
    return number == LOOM_NUMBER_F32 || number == LOOM_NUMBER_F64;
}

static uint32_t bytes_of(loom_number number)
{
    return number >= LOOM_NUMBER_U64 ? 8 : 4;
}

/* Whether a is below b. False if one of them is a NaN. */
static int is_below(loom_number number, uint64_t a, uint64_t b)
{
    switch (number) {
    case LOOM_NUMBER_I32:
        return (int32_t)(uint32_t)a < (int32_t)(uint32_t)b;
    case LOOM_NUMBER_I64:
        return (int64_t)a < (int64_t)b;
    case LOOM_NUMBER_F32:
    case LOOM_NUMBER_F64:
        return real_of(number, a) < real_of(number, b);
    default:
        return a < b;
    }
}

static uint64_t combined(loom_combine combine, loom_number number, uint64_t there, uint64_t comes)
{
    if (combine == LOOM_COMBINE_MIN)
        return is_below(number, comes, there) ? comes : there;
    if (combine == LOOM_COMBINE_MAX)
        return is_below(number, there, comes) ? comes : there;
    if (is_float(number))
        return bits_of(number, real_of(number, there) + real_of(number, comes));
    return cut_word(there + comes, bytes_of(number));
}

/* The kind of number that a map stores when rows bring numbers of this kind. */
static loom_number stored_as(const test_run *t, loom_number number)
{
    return bytes_of(number) == 4 && t->value_bytes == 8 ? (loom_number)(number + LOOM_NUMBER_U64) : number;
}

static uint64_t widened(const test_run *t, loom_combine combine, loom_number number, uint64_t bits)
{
    if (stored_as(t, number) == number)
        return bits;
    if (combine == LOOM_COMBINE_ADD_AND_COUNT)
        return bits | UINT64_C(1) << 40;
    if (is_float(number))
        return bits_of(LOOM_NUMBER_F64, real_of(number, bits));
    return number == LOOM_NUMBER_I32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)bits : bits;
}

/* Draws a value for a row. `safe`: the key has a value already, so that a NaN in any row is ignored. */
static uint64_t draw_value(test_run *t, loom_combine combine, loom_number number, int safe)
{
    uint64_t draw = random_below(&t->random, 64);
    if (combine == LOOM_COMBINE_ADD_AND_COUNT) /* sums beyond 32 bits, but not beyond 40 */
        return draw == 0 ? UINT32_MAX >> 4 : draw * 1000;
    double small = (double)random_below(&t->random, 21) - 10;
    if (is_float(number)) { /* sums never mix infinities of both signs */
        if (combine != LOOM_COMBINE_ADD && draw == 0 && safe)
            return bits_of(number, NAN);
        if (draw == 1)
            return bits_of(number, combine == LOOM_COMBINE_MIN && small > 0 ? -INFINITY : INFINITY);
        if (draw == 2 && combine == LOOM_COMBINE_MAX)
            return bits_of(number, -INFINITY);
        return bits_of(number, small);
    }
    if (draw == 0) /* near both ends, so that signs matter, and sums wrap */
        return bits_of(number, small) ^ UINT64_C(1) << (number >= LOOM_NUMBER_U64 ? 63 : 31);
    return bits_of(number, small);
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

/* Stores every third key before the call. Some get a NaN. */
static void store_some(grouping *g, loom_combine combine, loom_number number)
{
    batch b = make_batch(g->t, (g->keys + 2) / 3);
    for (uint64_t i = 0; i < b.n; i++) {
        uint64_t id = 3 * i;
        int none = is_float(number) && combine != LOOM_COMBINE_ADD && i % 16 == 1;
        g->value[id] = none ? bits_of(number, NAN) : draw_value(g->t, combine, number, 0);
        g->there[id] = 1;
        set_pair(&b, i, g->key[id], g->value[id]);
    }
    CHECK_EQ(checked_insert(g->map, &b, LOOM_KEEP).ok, b.n);
    free_batch(&b);
}

static uint32_t partition_of(const grouping *g, uint64_t id)
{
    return loom__hash_partition(loom__hash_key(g->key[id], g->t->key_bytes, g->view.seed), g->view.partitions);
}

/* How many new keys of the rows find room: a partition takes keys up to its last slot. */
static uint64_t count_stored(const grouping *g)
{
    uint64_t *room = test_allocate(g->view.partitions * sizeof *room), stored = 0;
    uint8_t *comes = test_allocate(g->keys);
    memset(comes, 0, g->keys);
    for (uint64_t i = 0; i < g->rows.n; i++)
        comes[g->which[i]] = 1;
    for (uint32_t i = 0; i < g->view.partitions; i++)
        room[i] = g->partition_slots;
    for (uint64_t id = 0; id < g->keys; id++)
        room[partition_of(g, id)] -= g->there[id];
    for (uint64_t id = 0; id < g->keys; id++)
        if (comes[id] && !g->there[id] && room[partition_of(g, id)] > 0) {
            room[partition_of(g, id)]--;
            stored++;
        }
    free(room);
    free(comes);
    return stored;
}

/* Looks all keys up. */
static batch find_all(const grouping *g)
{
    batch got = make_batch(g->t, g->keys);
    for (uint64_t id = 0; id < g->keys; id++)
        set_pair(&got, id, g->key[id], 0);
    checked_find(g->map, &got);
    return got;
}

static void check_statuses(const grouping *g, const batch *got)
{
    uint64_t(*counts)[4] = test_allocate(g->keys * sizeof *counts);
    memset(counts, 0, g->keys * sizeof *counts);
    for (uint64_t i = 0; i < g->rows.n; i++)
        counts[g->which[i]][g->rows.status[i]]++;
    for (uint64_t id = 0; id < g->keys; id++) {
        uint64_t rows = counts[id][LOOM_OK] + counts[id][LOOM_EXISTS] + counts[id][LOOM_FULL];
        int is_new = rows > 0 && !g->there[id] && got->status[id] == LOOM_OK;
        CHECK_EQ(counts[id][LOOM_OK], is_new);
        CHECK_EQ(counts[id][LOOM_FULL], got->status[id] == LOOM_OK ? 0 : rows);
    }
    free(counts);
}

/* Checks the table after a call: values, counts and statuses. The table must hold nothing else. */
static void check_rows(grouping *g, loom_combine combine, loom_number number, const loom_result *result,
                       int with_status)
{
    uint64_t stored = count_stored(g), ok = 0, full = 0, size = 0;
    batch got = find_all(g);
    if (with_status)
        check_statuses(g, &got);
    for (uint64_t i = 0; i < g->rows.n; i++) {
        uint64_t id = g->which[i], value = widened(g->t, combine, number, batch_value(&g->rows, i));
        if (got.status[id] != LOOM_OK) {
            CHECK(!g->there[id]);
            full++;
            continue;
        }
        ok += !g->there[id];
        g->value[id] = g->there[id] ? combined(combine, stored_as(g->t, number), g->value[id], value) : value;
        g->there[id] = 1;
    }
    CHECK_EQ(ok, stored);
    CHECK_EQ(result->ok, ok);
    CHECK_EQ(result->full, full);
    CHECK_EQ(result->exists, g->rows.n - ok - full);
    for (uint64_t id = 0; id < g->keys; id++) {
        size += g->there[id];
        CHECK_EQ(got.status[id], g->there[id] ? LOOM_OK : LOOM_NOT_FOUND);
        if (batch_value(&got, id) != g->value[id])
            FAIL("key %llu (0x%llx) has 0x%llx, not 0x%llx", (unsigned long long)id, (unsigned long long)g->key[id],
                 (unsigned long long)batch_value(&got, id), (unsigned long long)g->value[id]);
    }
    CHECK_EQ(map_size(g->map), size);
    checked_verify(g->map);
    free_batch(&got);
}

static void accumulate_rows(grouping *g, loom_combine combine, loom_number number, const placement *where)
{
    g->rows.value_bytes = bytes_of(number);
    for (uint64_t i = 0; i < g->rows.n; i++)
        set_word(g->rows.values, g->rows.value_bytes, i, draw_value(g->t, combine, number, g->there[g->which[i]]));
    placed_batch p = place_batch(g->context, &g->rows, where);
    CHECK_OK(loom_map_accumulate(g->map, p.keys, p.values, g->rows.n, combine, number, p.status, p.result, NULL));
    loom_result result = take_back_batch(&p, &g->rows);
    check_rows(g, combine, number, &result, where->status);
}

static void count_rows(grouping *g, const placement *where)
{
    g->rows.value_bytes = g->t->value_bytes;
    for (uint64_t i = 0; i < g->rows.n; i++)
        set_word(g->rows.values, g->rows.value_bytes, i, 1);
    placed_batch p = place_batch(g->context, &g->rows, where);
    CHECK_OK(loom_map_count(g->map, p.keys, g->rows.n, p.status, p.result, NULL));
    loom_result result = take_back_batch(&p, &g->rows);
    check_rows(g, LOOM_COMBINE_ADD, g->rows.value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, &result,
               where->status);
}

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

/* A table that fits one thread block of the cuda machine, and one for which rows are split. */
static const uint64_t capacities[] = {500, 20000};

TEST_EACH(test_open_accumulate_many_rows_each_number, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int size = 0; size < 2; size++)
        for (int combine = LOOM_COMBINE_ADD; combine <= LOOM_COMBINE_ADD_AND_COUNT; combine++)
            for (int kind = LOOM_NUMBER_U32; kind <= (t->value_bytes == 8 ? LOOM_NUMBER_F64 : LOOM_NUMBER_F32);
                 kind++) {
                loom_number number = (loom_number)kind;
                if (combine == LOOM_COMBINE_ADD_AND_COUNT && (number != LOOM_NUMBER_U32 || t->value_bytes != 8))
                    continue;
                grouping g = make_grouping(t, context, capacities[size], capacities[size]);
                test_note("capacity %llu, combine %d, number %d", (unsigned long long)capacities[size], combine,
                          (int)number);
                store_some(&g, (loom_combine)combine, stored_as(t, number));
                choose_keys(&g, (combine + kind + size) % 2);
                accumulate_rows(&g, (loom_combine)combine, number, &placements[1]);
                free_grouping(&g);
            }
    loom_context_destroy(context);
}

TEST_EACH(test_open_accumulate_many_rows_arrays_everywhere, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    loom_number number = t->value_bytes == 8 ? LOOM_NUMBER_I64 : LOOM_NUMBER_I32;
    for (int size = 0; size < 2; size++) {
        grouping g = make_grouping(t, context, capacities[size], capacities[size]);
        store_some(&g, LOOM_COMBINE_ADD, number);
        for (int w = 0; w < PLACEMENTS; w++) {
            test_note("capacity %llu, %s", (unsigned long long)capacities[size], placements[w].name);
            choose_keys(&g, w % 2);
            accumulate_rows(&g, (loom_combine)(w % 3), number, &placements[w]);
            if (t->value_bytes == 8)
                accumulate_rows(&g, (loom_combine)((w + 1) % 3), LOOM_NUMBER_I32, &placements[w]);
        }
        free_grouping(&g);
    }
    loom_context_destroy(context);
}

/* Numbers that are narrower than the values, and numbers of the same width. One key has more rows than its region of
 * the split holds: the rows spill, and the spill list has room for them. */
TEST_EACH(test_open_accumulate_many_rows_one_key_more_often, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    grouping g = make_grouping(t, context, capacities[1], capacities[1]);
    for (int narrow = 0; narrow < 2; narrow++)
        for (int w = 1; w <= 2; w++) {
            loom_number number = narrow || t->value_bytes == 4 ? LOOM_NUMBER_I32 : LOOM_NUMBER_I64;
            test_note("number %d, %s", (int)number, placements[w].name);
            choose_keys_with(&g, 128);
            accumulate_rows(&g, LOOM_COMBINE_ADD, number, &placements[w]);
            accumulate_rows(&g, LOOM_COMBINE_MAX, number, &placements[w]);
        }
    free_grouping(&g);
    loom_context_destroy(context);
}

/* Rows of a few keys, then rows of one key. */
TEST_EACH(test_open_accumulate_many_rows_few_keys, .threads = 1, .long_tier = 1)
{
    static const uint64_t keys[] = {SPECIAL_KEYS, SPECIAL_KEYS + 1, 40};
    loom_context *context = make_context(t);
    loom_number number = t->value_bytes == 8 ? LOOM_NUMBER_F64 : LOOM_NUMBER_F32;
    for (int size = 0; size < 2; size++)
        for (int i = 0; i < 3; i++) {
            grouping g = make_grouping(t, context, capacities[size], keys[i]);
            for (int round = 0; round < 2; round++) {
                choose_keys(&g, round);
                accumulate_rows(&g, LOOM_COMBINE_MAX, number, &placements[1 + round]);
                count_rows(&g, &placements[1 + round]);
                CHECK_OK(loom_map_clear(g.map, NULL, NULL));
                memset(g.there, 0, g.keys);
                memset(g.value, 0, g.keys * sizeof *g.value);
            }
            for (uint64_t row = 0; row < g.rows.n; row++) {
                g.which[row] = (uint32_t)i;
                set_pair(&g.rows, row, g.key[i], 0);
            }
            count_rows(&g, &placements[1]);
            CHECK_EQ(map_size(g.map), 1);
            free_grouping(&g);
        }
    loom_context_destroy(context);
}

TEST_EACH(test_open_count_many_rows, .threads = 1, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int size = 0; size < 2; size++)
        for (int w = 0; w < PLACEMENTS; w++) {
            grouping g = make_grouping(t, context, capacities[size], capacities[size]);
            test_note("capacity %llu, %s", (unsigned long long)capacities[size], placements[w].name);
            choose_keys(&g, w % 2);
            count_rows(&g, &placements[w]);
            choose_keys(&g, w % 2 == 0);
            count_rows(&g, &placements[w]);
            free_grouping(&g);
        }
    loom_context_destroy(context);
}

/* A few more keys than the table holds, and far more. All rows of a key are combined, or none. */
TEST_EACH(test_open_accumulate_many_rows_full, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    loom_number number = t->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32;
    for (int size = 0; size < 2; size++)
        for (int w = 1; w <= PLACED_STATUS; w += PLACED_STATUS - 1)
            for (uint64_t times = 1; times <= 4; times += 3) {
                if (size == 1 && (times == 1) == (w == 1)) /* large table: each variant once */
                    continue;
                grouping g = make_grouping(t, context, capacities[size], capacities[size] * times * 9 / 5);
                test_note("capacity %llu, %llu keys, %s", (unsigned long long)capacities[size],
                          (unsigned long long)g.keys, placements[w].name);
                choose_keys(&g, times > 1);
                accumulate_rows(&g, LOOM_COMBINE_ADD, number, &placements[w]);
                accumulate_rows(&g, LOOM_COMBINE_MAX, number, &placements[w]);
                if (t->value_bytes == 8)
                    accumulate_rows(&g, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, &placements[w]);
                count_rows(&g, &placements[w]);
                CHECK_LT(map_size(g.map), g.keys); /* check_rows computes how many fit */
                free_grouping(&g);
            }
    loom_context_destroy(context);
}
