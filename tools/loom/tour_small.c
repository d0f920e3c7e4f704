/* The steps of the tour with small tables of their own: one with the keys that other libraries forbid, one with more
 * keys than it can hold. */
#include "bench_array.h"
#include "bench_keys.h"
#include "tour.h"

#include <inttypes.h>
#include <string.h>

static loom_map *make_small(tour *t, uint64_t capacity)
{
    loom_map *map = NULL;
    loom_map_config config = tour_config(t, capacity);
    config.growth = 0; /* the table must get full */
    tour_did(t, loom_map_create(t->context, &config, &map), "create");
    return map;
}

/* ---- Keys that other libraries forbid ----------------------------------------------------------------- */

enum { SPECIAL_KEYS = 6 };

/* 0, 1, all ones, all ones but the last bit, the sign bit alone, all but the sign bit; values are as extreme. */
static void make_special(const tour *t, void *keys, void *values)
{
    const uint64_t ones = t->key_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    const uint64_t special[SPECIAL_KEYS] = {0, 1, ones, ones - 1, ones / 2 + 1, ones / 2};
    for (uint64_t i = 0; i < SPECIAL_KEYS; i++) {
        bench_put(keys, i, t->key_bytes, special[i]);
        bench_put(values, i, t->value_bytes, i % 2 ? UINT64_MAX : 0);
    }
}

/* Checks that all special keys are present with their values, or none is. */
static void check_special(tour *t, loom_map *map, const void *keys, const void *values, bool present)
{
    uint64_t words[SPECIAL_KEYS], *found = t->value_bytes ? words : NULL;
    uint8_t status[SPECIAL_KEYS];
    memset(words, 0xa5, sizeof words);
    memset(status, 0xa5, sizeof status);
    if (!tour_did(t, loom_map_find(map, keys, SPECIAL_KEYS, found, NULL, status, NULL, NULL), "find"))
        return;
    for (uint64_t i = 0; i < SPECIAL_KEYS; i++) {
        const uint64_t expected = present ? bench_get(values, i, t->value_bytes) : 0;
        t->answers++;
        if (status[i] != (present ? LOOM_OK : LOOM_NOT_FOUND) || bench_get(found, i, t->value_bytes) != expected)
            tour_wrong(t, "the key 0x%" PRIx64 " answers %s with a %s value", bench_get(keys, i, t->key_bytes),
                       loom_status_name(status[i]),
                       bench_get(found, i, t->value_bytes) == expected ? "right" : "wrong");
    }
}

static void step_special_keys(tour *t)
{
    uint64_t keys[SPECIAL_KEYS], words[SPECIAL_KEYS]; /* wide enough for both widths */
    uint64_t *values = t->value_bytes ? words : NULL;
    loom_map *map = make_small(t, SPECIAL_KEYS);
    if (!map)
        return;
    make_special(t, keys, values);
    check_special(t, map, keys, values, false);
    if (tour_did(t, loom_map_insert(map, keys, values, SPECIAL_KEYS, LOOM_KEEP, NULL, NULL, NULL), "insert"))
        check_special(t, map, keys, values, true);
    if (tour_did(t, loom_map_erase(map, keys, SPECIAL_KEYS, NULL, NULL, NULL), "erase"))
        check_special(t, map, keys, values, false);
    if (tour_did(t, loom_map_build(map, keys, values, SPECIAL_KEYS, LOOM_KEEP, NULL, NULL, NULL), "build"))
        check_special(t, map, keys, values, true);
    tour_did(t, loom_map_verify(map, NULL), "verify");
    loom_map_destroy(map);
}

/* ---- More keys than slots ----------------------------------------------------------------------------- */

typedef struct crowd {
    uint64_t count;
    void *keys, *values, *found;
    uint8_t *status, *found_status;
} crowd;

static bool make_crowd(const tour *t, crowd *c, uint64_t count)
{
    *c = (crowd){count,
                 bench_array_new(count, t->key_bytes),
                 t->value_bytes ? bench_array_new(count, t->value_bytes) : NULL,
                 t->value_bytes ? bench_array_new(count, t->value_bytes) : NULL,
                 bench_array_new(count, 1),
                 bench_array_new(count, 1)};
    if (!c->keys || (t->value_bytes && (!c->values || !c->found)) || !c->status || !c->found_status)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bench_put(c->keys, i, t->key_bytes, bench_key_of(i, t->key_bytes));
        bench_put(c->values, i, t->value_bytes, bench_value_of(i, 0, t->value_bytes));
    }
    return true;
}

static void free_crowd(crowd *c)
{
    bench_array_free(c->keys);
    bench_array_free(c->values);
    bench_array_free(c->found);
    bench_array_free(c->status);
    bench_array_free(c->found_status);
}

/* Checks that stored keys are present, refused keys are absent, and the counts agree. */
static void check_crowd(tour *t, loom_map *map, const crowd *c, const loom_result *result)
{
    uint64_t in = 0, size = 0;
    if (!tour_did(t, loom_map_find(map, c->keys, c->count, c->found, NULL, c->found_status, NULL, NULL), "find") ||
        !tour_did(t, loom_map_size(map, &size, NULL), "size"))
        return;
    for (uint64_t i = 0; i < c->count; i++) {
        const bool there = c->status[i] == LOOM_OK;
        t->answers++;
        in += there;
        if (!there && c->status[i] != LOOM_FULL)
            tour_wrong(t, "a key got the status %s", loom_status_name(c->status[i]));
        if (c->found_status[i] != (there ? LOOM_OK : LOOM_NOT_FOUND))
            tour_wrong(t, "a key that got %s is%s there", loom_status_name(c->status[i]), there ? " not" : "");
        if (bench_get(c->found, i, t->value_bytes) != (there ? bench_value_of(i, 0, t->value_bytes) : 0))
            tour_wrong(t, "the key of index %" PRIu64 " has a wrong value", i);
    }
    if (size != in || result->ok != in || result->full != c->count - in || result->keys != c->count)
        tour_wrong(t, "%" PRIu64 " keys were let in, size says %" PRIu64 " and the result %" PRIu64, in, size,
                   result->ok);
    tour_did(t, loom_map_verify(map, NULL), "verify");
}

/* A key erased from a full table must fit again. */
static void check_place_for_one(tour *t, loom_map *map, const crowd *c)
{
    for (uint64_t i = 0; i < c->count; i++) {
        if (c->status[i] != LOOM_OK)
            continue;
        void *key = bench_at(c->keys, i, t->key_bytes);
        t->answers++;
        tour_did(t, loom_map_erase(map, key, 1, NULL, NULL, NULL), "erase");
        tour_did(t, loom_map_insert(map, key, bench_at(c->values, i, t->value_bytes), 1, LOOM_KEEP, NULL, NULL, NULL),
                 "insert after erase");
        return;
    }
}

static void step_full(tour *t)
{
    crowd c;
    loom_stats stats = LOOM_STATS_INIT;
    loom_result result = {0};
    loom_map *map = make_small(t, t->n < 1000 ? t->n : 1000);
    if (!map)
        return;
    if (!tour_did(t, loom_map_stats(map, &stats, NULL), "stats")) {
        loom_map_destroy(map);
        return;
    }
    if (!make_crowd(t, &c, stats.slots + stats.slots / 4 + 1)) {
        tour_wrong(t, "there is no memory for the keys");
    } else if (tour_did(t, loom_map_insert(map, c.keys, c.values, c.count, LOOM_KEEP, c.status, &result, NULL),
                        "insert")) {
        if (result.status != LOOM_FULL)
            tour_wrong(t, "more keys than slots gave %s", loom_status_name((loom_status)result.status));
        check_crowd(t, map, &c, &result);
        check_place_for_one(t, map, &c);
    }
    free_crowd(&c);
    loom_map_destroy(map);
}

/* ---- Counters ------------------------------------------------------------------------------------------ */

/* Key i occurs i % 4 times. */
static void step_count(tour *t)
{
    enum { COUNTED = 1000, MOST_TIMES = 4 };
    uint64_t keys[COUNTED], counts[COUNTED];
    uint8_t status[COUNTED];
    loom_map *map = NULL;
    loom_map_config config = tour_config(t, COUNTED);
    config.type = LOOM_TYPE_COUNTER;
    if (!tour_did(t, loom_map_create(t->context, &config, &map), "create"))
        return;
    for (uint64_t times = 1; times < MOST_TIMES; times++) {
        uint64_t count = 0;
        for (uint64_t i = 0; i < COUNTED; i++)
            if (i % MOST_TIMES >= times)
                bench_put(keys, count++, t->key_bytes, bench_key_of(i, t->key_bytes));
        tour_did(t, loom_map_count(map, keys, count, NULL, NULL, NULL), "count");
    }
    for (uint64_t i = 0; i < COUNTED; i++)
        bench_put(keys, i, t->key_bytes, bench_key_of(i, t->key_bytes));
    memset(counts, 0xa5, sizeof counts);
    memset(status, 0xa5, sizeof status);
    tour_did(t, loom_map_find(map, keys, COUNTED, counts, NULL, status, NULL, NULL), "find");
    for (uint64_t i = 0; i < COUNTED; i++) {
        const uint64_t wanted = i % MOST_TIMES;
        t->answers++;
        if (bench_get(counts, i, t->value_bytes) != wanted || status[i] != (wanted ? LOOM_OK : LOOM_NOT_FOUND))
            tour_wrong(t, "the key of index %" PRIu64 " came %" PRIu64 " times, and its count is %" PRIu64, i, wanted,
                       bench_get(counts, i, t->value_bytes));
    }
    tour_did(t, loom_map_verify(map, NULL), "verify");
    loom_map_destroy(map);
}

const tour_step tour_small_steps[] = {
    {.name = "count", .run = step_count, .needs = LOOM_FEATURE_ACCUMULATE},
    {.name = "keys 0 and all ones", .run = step_special_keys},
    {.name = "full table refuses", .run = step_full},
    {0},
};
