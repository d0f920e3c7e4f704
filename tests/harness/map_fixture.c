#include "map_fixture.h"

#include <stdlib.h>
#include <string.h>

#define UNWRITTEN 0xee /* what output arrays hold before a call */

/* ---- Contexts and tables ------------------------------------------------------------------------------ */

loom_context *make_context_with(test_run *t, uint32_t threads, uint64_t seed)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = t->machine;
    config.simd = t->simd;
    config.threads = threads;
    config.fixed_seed = 1;
    config.seed = seed;
    CHECK_OK(loom_context_create(&config, &context));
    CHECK(context != NULL);
    return context;
}

loom_context *make_context(test_run *t)
{
    uint32_t threads = 1 + (uint32_t)random_below(&t->random, 4);
    return make_context_with(t, threads, random_u64(&t->random));
}

loom_map_config make_config(const test_run *t, uint64_t capacity)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = t->key_bytes ? t->key_bytes : 8;
    config.value_bytes = t->key_bytes ? t->value_bytes : 8;
    config.type = config.value_bytes ? LOOM_TYPE_DEFAULT : LOOM_TYPE_SET;
    config.capacity = capacity;
    config.engine = t->engine;
    config.row_place = t->table ? t->table->row_place : LOOM_ROWS_ON_DEVICE;
    config.growth = 0;
    return config;
}

loom_map *make_map_from(loom_context *context, const loom_map_config *config)
{
    loom_map *map = NULL;
    CHECK_OK(loom_map_create(context, config, &map));
    CHECK(map != NULL);
    return map;
}

loom_map *make_map(test_run *t, loom_context *context, uint64_t capacity)
{
    loom_map_config config = make_config(t, capacity);
    return make_map_from(context, &config);
}

uint64_t map_size(loom_map *map)
{
    uint64_t size = UINT64_MAX;
    CHECK_OK(loom_map_size(map, &size, NULL));
    return size;
}

loom_stats map_stats(loom_map *map)
{
    loom_stats stats = LOOM_STATS_INIT;
    CHECK_OK(loom_map_stats(map, &stats, NULL));
    return stats;
}

/* ---- Batches ------------------------------------------------------------------------------------------ */

batch make_batch_of(uint32_t key_bytes, uint32_t value_bytes, uint64_t n)
{
    batch b;
    b.n = n;
    b.key_bytes = key_bytes;
    b.value_bytes = value_bytes;
    b.keys = test_allocate(n * key_bytes);
    b.values = value_bytes ? test_allocate(n * value_bytes) : NULL;
    b.status = test_allocate(n);
    b.found = test_allocate(n);
    memset(b.keys, UNWRITTEN, n * key_bytes);
    if (b.values)
        memset(b.values, UNWRITTEN, n * value_bytes);
    return b;
}

batch make_batch(const test_run *t, uint64_t n)
{
    return make_batch_of(t->key_bytes ? t->key_bytes : 8, t->key_bytes ? t->value_bytes : 8, n);
}

void free_batch(batch *b)
{
    free(b->keys);
    free(b->values);
    free(b->status);
    free(b->found);
    memset(b, 0, sizeof *b);
}

batch copy_batch(const batch *b)
{
    batch copy = make_batch_of(b->key_bytes, b->value_bytes, b->n);
    memcpy(copy.keys, b->keys, b->n * b->key_bytes);
    if (b->values)
        memcpy(copy.values, b->values, b->n * b->value_bytes);
    return copy;
}

/* An element of more than 8 bytes that stands for a word: the word, then bytes that depend on it. */
static void spread_word(unsigned char *element, uint32_t bytes, uint64_t word)
{
    for (uint32_t at = 0; at < bytes; at += 8) {
        const uint64_t piece = at == 0 ? word : mix_u64(word + at);
        memcpy(element + at, &piece, bytes - at < 8 ? bytes - at : 8);
    }
}

/* The word of an element of more than 8 bytes. An element whose other bytes do not fit reads as some other word. */
static uint64_t gather_word(const unsigned char *element, uint32_t bytes)
{
    uint64_t word;
    uint32_t zeros = 0;
    memcpy(&word, element, sizeof word);
    while (zeros < bytes && element[zeros] == 0)
        zeros++;
    for (uint32_t at = 8; at < bytes && zeros < bytes; at += 8) {
        const uint64_t piece = mix_u64(word + at);
        if (memcmp(element + at, &piece, bytes - at < 8 ? bytes - at : 8) != 0)
            return mix_u64(word ^ at);
    }
    return word;
}

uint64_t get_word(const void *array, uint32_t bytes, uint64_t i)
{
    uint64_t word = 0;
    if (bytes > 8)
        return gather_word((const unsigned char *)array + i * bytes, bytes);
    if (bytes == 4 || bytes == 8)
        return bytes == 4 ? ((const uint32_t *)array)[i] : ((const uint64_t *)array)[i];
    if (bytes > 0)
        memcpy(&word, (const unsigned char *)array + i * bytes, bytes);
    return word;
}

void set_word(void *array, uint32_t bytes, uint64_t i, uint64_t word)
{
    if (bytes == 4)
        ((uint32_t *)array)[i] = (uint32_t)word;
    else if (bytes == 8)
        ((uint64_t *)array)[i] = word;
    else if (bytes > 0)
        spread_word((unsigned char *)array + i * bytes, bytes, word);
}

uint64_t cut_word(uint64_t word, uint32_t bytes)
{
    return bytes == 0 ? 0 : bytes < 8 ? word & (((uint64_t)1 << 8 * bytes) - 1) : word;
}

uint64_t batch_key(const batch *b, uint64_t i)
{
    return get_word(b->keys, b->key_bytes, i);
}

uint64_t batch_value(const batch *b, uint64_t i)
{
    return get_word(b->values, b->value_bytes, i);
}

void set_pair(batch *b, uint64_t i, uint64_t key, uint64_t value)
{
    set_word(b->keys, b->key_bytes, i, key);
    set_word(b->values, b->value_bytes, i, value);
}

/* A bijection of 32-bit numbers. */
static uint32_t mix_u32(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

uint64_t distinct_key(uint32_t key_bytes, uint64_t salt, uint64_t i)
{
    if (key_bytes == 4)
        return mix_u32(mix_u32((uint32_t)i + (uint32_t)salt) ^ (uint32_t)(salt >> 32));
    return mix_u64(i + salt);
}

uint64_t value_for(uint64_t key, uint32_t value_bytes)
{
    return cut_word(mix_u64(key + 77), value_bytes);
}

void fill_distinct(batch *b, uint64_t salt, uint64_t first)
{
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t key = distinct_key(b->key_bytes, salt, first + i);
        set_pair(b, i, key, value_for(key, b->value_bytes));
    }
}

/* ---- Calls that check themselves ----------------------------------------------------------------------- */

static loom_result blank_result(void)
{
    loom_result result;
    memset(&result, UNWRITTEN, sizeof result);
    return result;
}

/* Checks the result against the statuses. Only the four statuses of keys may occur, and only those in `allowed`, which
 * has a bit for each. */
static void check_against_statuses(const batch *b, const loom_result *result, unsigned allowed)
{
    uint64_t counts[4] = {0, 0, 0, 0};
    for (uint64_t i = 0; i < b->n; i++) {
        if (b->status[i] > LOOM_FULL || !(allowed >> b->status[i] & 1u))
            FAIL("status[%llu] of %llu is %d", (unsigned long long)i, (unsigned long long)b->n, b->status[i]);
        counts[b->status[i]]++;
    }
    CHECK_EQ(result->keys, b->n);
    CHECK_EQ(result->ok, counts[LOOM_OK]);
    CHECK_EQ(result->not_found, counts[LOOM_NOT_FOUND]);
    CHECK_EQ(result->exists, counts[LOOM_EXISTS]);
    CHECK_EQ(result->full, counts[LOOM_FULL]);
    CHECK_EQ(result->ok + result->not_found + result->exists + result->full, b->n);
    CHECK_EQ(result->status, counts[LOOM_FULL] ? LOOM_FULL : LOOM_OK);
    CHECK_EQ(result->reserved0, 0);
    CHECK_EQ(result->reserved[0] | result->too_long, 0);
}

#define ALLOW(status) (1u << (status))

loom_result checked_insert(loom_map *map, batch *b, uint32_t flags)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_insert(map, b->keys, b->values, b->n, flags, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_EXISTS) | ALLOW(LOOM_FULL));
    CHECK_EQ(map_size(map), before + result.ok);
    return result;
}

loom_result checked_build(loom_map *map, batch *b, uint32_t flags)
{
    loom_result result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_build(map, b->keys, b->values, b->n, flags, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_EXISTS) | ALLOW(LOOM_FULL));
    CHECK_EQ(map_size(map), result.ok);
    return result;
}

loom_result checked_find(loom_map *map, batch *b)
{
    loom_result result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    if (b->values)
        memset(b->values, UNWRITTEN, b->n * b->value_bytes);
    CHECK_OK(loom_map_find(map, b->keys, b->n, b->values, NULL, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_NOT_FOUND));
    for (uint64_t i = 0; i < b->n; i++)
        if (b->status[i] == LOOM_NOT_FOUND)
            CHECK_EQ(batch_value(b, i), 0);
    return result;
}

loom_result checked_contains(loom_map *map, batch *b)
{
    loom_result result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    memset(b->found, UNWRITTEN, b->n);
    CHECK_OK(loom_map_contains(map, b->keys, b->n, b->found, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_NOT_FOUND));
    for (uint64_t i = 0; i < b->n; i++)
        CHECK_EQ(b->found[i], b->status[i] == LOOM_OK);
    return result;
}

loom_result checked_find_or_insert(loom_map *map, batch *b, void *found)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_find_or_insert(map, b->keys, b->values, b->n, found, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_EXISTS) | ALLOW(LOOM_FULL));
    CHECK_EQ(map_size(map), before + result.ok);
    return result;
}

loom_result checked_update(loom_map *map, batch *b)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_update(map, b->keys, b->values, b->n, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_NOT_FOUND));
    CHECK_EQ(map_size(map), before);
    return result;
}

loom_result checked_accumulate(loom_map *map, batch *b, loom_combine combine, loom_number number)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_accumulate(map, b->keys, b->values, b->n, combine, number, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_EXISTS) | ALLOW(LOOM_FULL));
    CHECK_EQ(map_size(map), before + result.ok);
    return result;
}

loom_result checked_count(loom_map *map, batch *b)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_count(map, b->keys, b->n, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_EXISTS) | ALLOW(LOOM_FULL));
    CHECK_EQ(map_size(map), before + result.ok);
    return result;
}

loom_result checked_erase(loom_map *map, batch *b)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_erase(map, b->keys, b->n, b->status, &result, NULL));
    check_against_statuses(b, &result, ALLOW(LOOM_OK) | ALLOW(LOOM_NOT_FOUND));
    CHECK_EQ(map_size(map), before - result.ok);
    return result;
}

loom_result checked_erase_if(loom_map *map, loom_number number, const void *least, const void *most)
{
    loom_result result = blank_result();
    uint64_t before = map_size(map);
    CHECK_OK(loom_map_erase_if(map, number, least, most, &result, NULL));
    CHECK_EQ(result.status, LOOM_OK);
    CHECK_EQ(result.keys, before);
    CHECK_EQ(result.ok + result.exists, before);
    CHECK_EQ(result.not_found | result.full | result.reserved0 | result.reserved[0] | result.too_long, 0);
    CHECK_EQ(map_size(map), before - result.ok);
    return result;
}

void checked_verify(loom_map *map)
{
    CHECK_OK(loom_map_verify(map, NULL));
}

void check_all_found(loom_map *map, const batch *b)
{
    batch got = copy_batch(b);
    checked_find(map, &got);
    for (uint64_t i = 0; i < b->n; i++) {
        if (got.status[i] != LOOM_OK)
            FAIL("key %llu (0x%llx) of %llu is not found", (unsigned long long)i, (unsigned long long)batch_key(b, i),
                 (unsigned long long)b->n);
        CHECK_EQ(batch_value(&got, i), batch_value(b, i));
    }
    CHECK_EQ(checked_contains(map, &got).ok, b->n);
    free_batch(&got);
}

void check_none_found(loom_map *map, const batch *b)
{
    batch got = copy_batch(b);
    checked_find(map, &got);
    for (uint64_t i = 0; i < b->n; i++)
        if (got.status[i] != LOOM_NOT_FOUND)
            FAIL("key %llu (0x%llx) is found, with value 0x%llx", (unsigned long long)i,
                 (unsigned long long)batch_key(b, i), (unsigned long long)batch_value(&got, i));
    CHECK_EQ(checked_contains(map, &got).not_found, b->n);
    free_batch(&got);
}

batch retrieve(loom_map *map, uint32_t key_bytes, uint32_t value_bytes)
{
    uint64_t count = UINT64_MAX, again = UINT64_MAX;
    CHECK_OK(loom_map_retrieve_all(map, NULL, NULL, 0, &count, NULL, NULL));
    CHECK_EQ(count, map_size(map));
    batch all = make_batch_of(key_bytes, value_bytes, count);
    CHECK_OK(loom_map_retrieve_all(map, all.keys, all.values, count, &again, NULL, NULL));
    CHECK_EQ(again, count);
    return all;
}

typedef struct word_pair {
    uint64_t key, value;
} word_pair;

static int compare_pairs(const void *a, const void *b)
{
    const word_pair *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static word_pair *sorted_pairs(const batch *b)
{
    word_pair *pairs = test_allocate(b->n * sizeof *pairs);
    for (uint64_t i = 0; i < b->n; i++) {
        pairs[i].key = batch_key(b, i);
        pairs[i].value = batch_value(b, i);
    }
    qsort(pairs, b->n, sizeof *pairs, compare_pairs);
    return pairs;
}

/* A fingerprint of a set of pairs, in any order. Different sets have equal fingerprints once in 2^64. */
static uint64_t pairs_fingerprint(const batch *b)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b->n; i++)
        sum += mix_u64(mix_u64(batch_key(b, i) + 1) + batch_value(b, i));
    return sum;
}

static void check_same_pairs(const batch *got, const batch *wanted)
{
    CHECK_EQ(got->n, wanted->n);
    if (pairs_fingerprint(got) == pairs_fingerprint(wanted))
        return;
    word_pair *g = sorted_pairs(got), *w = sorted_pairs(wanted);
    for (uint64_t i = 0; i < got->n; i++) {
        CHECK_EQ(g[i].key, w[i].key);
        CHECK_EQ(g[i].value, w[i].value);
    }
    FAIL("the pairs differ");
}

void check_contents(loom_map *map, const batch *b)
{
    loom_result counted = blank_result(); /* without arrays for answers, other code counts */
    CHECK_EQ(map_size(map), b->n);
    check_all_found(map, b);
    CHECK_OK(loom_map_contains(map, b->keys, b->n, NULL, NULL, &counted, NULL));
    CHECK_EQ(counted.ok, b->n);
    CHECK_EQ(counted.not_found, 0);
    batch all = retrieve(map, b->key_bytes, b->value_bytes);
    check_same_pairs(&all, b);
    free_batch(&all);
    checked_verify(map);
}

void check_same_contents(loom_map *a, loom_map *b, uint32_t key_bytes, uint32_t value_bytes)
{
    batch x = retrieve(a, key_bytes, value_bytes), y = retrieve(b, key_bytes, value_bytes);
    check_same_pairs(&x, &y);
    free_batch(&x);
    free_batch(&y);
}
