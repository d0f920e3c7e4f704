/* The split moves every record once into the region of its bin, in the order of the batch, with its value and its index
 * in the batch. */
#include "harness/harness.h"

#include "core/split.h"

#include <stdlib.h>
#include <string.h>

/* The rule that gives a key its bin: the remainder of the key, or the last bin for all keys. */
typedef struct dealing {
    uint32_t bins;
    int all_into_last;
} dealing;

LOOM_LANE uint32_t bin_of(const void *by, uint64_t key)
{
    const dealing *d = by;
    return d->all_into_last ? d->bins - 1 : (uint32_t)(key % d->bins);
}

typedef struct split_case {
    uint64_t n;
    uint32_t bins, chunks, key_bytes, value_bytes;
    int with_index, all_into_last;
} split_case;

static void count(const loom__split *split, uint64_t chunk, const split_case *c, const dealing *by)
{
    if (c->key_bytes == 4)
        loom__split_count(split, chunk, 4, bin_of, by);
    else
        loom__split_count(split, chunk, 8, bin_of, by);
}

static void scatter(const loom__split *split, uint64_t chunk, const split_case *c, const dealing *by)
{
    if (c->value_bytes == 0)
        loom__split_scatter(split, chunk, c->key_bytes, 0, bin_of, by);
    else
        loom__split_scatter(split, chunk, c->key_bytes, c->value_bytes, bin_of, by);
}

static uint64_t word_at(const void *array, uint32_t bytes, uint64_t i)
{
    uint64_t word = 0;
    memcpy(&word, (const unsigned char *)array + i * bytes, bytes);
    return word;
}

static void check_split(const split_case *c, const loom__split *split, const dealing *by)
{
    const uint32_t record_bytes = c->key_bytes + c->value_bytes;
    uint64_t *next = test_allocate((c->bins + 1) * sizeof *next); /* the next record of each bin */
    CHECK_EQ(split->region[0], 0);
    CHECK_EQ(split->region[c->bins], c->n);
    for (uint32_t bin = 0; bin < c->bins; bin++) {
        CHECK_LE(split->region[bin], split->region[bin + 1]);
        next[bin] = split->region[bin];
    }
    for (uint64_t i = 0; i < c->n; i++) { /* each record must be the next one of its bin: the split keeps the order */
        const uint64_t key = word_at(split->keys, c->key_bytes, i), at = next[bin_of(by, key)]++;
        const unsigned char *record = split->records + at * record_bytes;
        CHECK_LT(at, split->region[bin_of(by, key) + 1]);
        CHECK_EQ(word_at(record, c->key_bytes, 0), key);
        if (c->value_bytes != 0)
            CHECK_EQ(word_at(record + c->key_bytes, c->value_bytes, 0), word_at(split->values, c->value_bytes, i));
        if (c->with_index)
            CHECK_EQ(split->index[at], i);
    }
    for (uint32_t bin = 0; bin < c->bins; bin++)
        CHECK_EQ(next[bin], split->region[bin + 1]);
    free(next);
}

static void run_case(test_run *t, const split_case *c)
{
    const dealing by = {c->bins, c->all_into_last};
    unsigned char *keys = test_allocate(c->n * c->key_bytes + 8), *values = test_allocate(c->n * c->value_bytes + 8);
    for (uint64_t i = 0; i < c->n * c->key_bytes; i++)
        keys[i] = (unsigned char)random_below(&t->random, 256);
    for (uint64_t i = 0; i < c->n * c->value_bytes; i++)
        values[i] = (unsigned char)random_below(&t->random, 256);
    loom__split split = {
        .keys = keys, .values = c->value_bytes ? values : NULL, .n = c->n, .bins = c->bins, .chunks = c->chunks};
    const uint64_t bytes = loom__split_lay_out(&split, NULL, c->key_bytes + c->value_bytes, c->with_index, 0);
    CHECK(split.records == NULL);
    unsigned char *memory = aligned_alloc(LOOM__SPLIT_LINE, bytes + LOOM__SPLIT_LINE);
    CHECK(memory != NULL);
    memset(memory + bytes, 0xa5, LOOM__SPLIT_LINE);
    CHECK_EQ(loom__split_lay_out(&split, memory, c->key_bytes + c->value_bytes, c->with_index, 0), bytes);
    for (uint32_t chunk = c->chunks; chunk-- > 0;) /* counting takes the chunks in any order */
        count(&split, chunk, c, &by);
    loom__split_sum_up(&split);
    for (uint32_t chunk = c->chunks; chunk-- > 0;)
        scatter(&split, chunk, c, &by);
    check_split(c, &split, &by);
    for (int i = 0; i < LOOM__SPLIT_LINE; i++)
        CHECK_EQ(memory[bytes + (uint64_t)i], 0xa5); /* no write behind the memory of the split */
    free(memory);
    free(keys);
    free(values);
}

TEST(test_core_split_records_in_order, .long_tier = 1)
{
    static const uint64_t lengths[] = {0, 1, 2, 7, 100, 4999};
    static const uint32_t bins[] = {1, 2, 3, 64, 1000}, chunks[] = {1, 2, 7};
    static const uint32_t widths[][2] = {{4, 0}, {8, 0}, {4, 4}, {4, 8}, {8, 4}, {8, 8}};
    for (size_t n = 0; n < 6; n++)
        for (size_t b = 0; b < 5; b++)
            for (size_t k = 0; k < 3; k++)
                for (size_t w = 0; w < 6; w++)
                    for (int option = 0; option < 4; option++) {
                        const split_case c = {lengths[n],   bins[b],    chunks[k],  widths[w][0],
                                              widths[w][1], option & 1, option >> 1};
                        test_note("%llu records of %u + %u bytes, %u bins, %u chunks, index %d, into one %d",
                                  (unsigned long long)c.n, c.key_bytes, c.value_bytes, c.bins, c.chunks, c.with_index,
                                  c.all_into_last);
                        run_case(t, &c);
                    }
}

/* Another thread changes the keys between counting and scattering. The stored rows are undefined, but no other memory
 * is written. */
TEST(test_core_split_keys_that_change, .threads = 1)
{
    enum { N = 1000 };
    const dealing by = {64, 0};
    uint32_t keys[N];
    loom__split split = {.keys = keys, .n = N, .bins = 64, .chunks = 2};
    for (int i = 0; i < N; i++)
        keys[i] = (uint32_t)random_below(&t->random, UINT32_MAX);
    const uint64_t bytes = loom__split_lay_out(&split, NULL, 4, 0, 0);
    unsigned char *memory = aligned_alloc(LOOM__SPLIT_LINE, bytes + LOOM__SPLIT_LINE);
    CHECK(memory != NULL);
    memset(memory + bytes, 0xa5, LOOM__SPLIT_LINE);
    loom__split_lay_out(&split, memory, 4, 0, 0);
    for (uint64_t chunk = 0; chunk < 2; chunk++)
        loom__split_count(&split, chunk, 4, bin_of, &by);
    loom__split_sum_up(&split);
    for (int i = 0; i < N; i++)
        keys[i] = 63; /* all keys change to the last region, which ends where the records end */
    for (uint64_t chunk = 0; chunk < 2; chunk++)
        loom__split_scatter(&split, chunk, 4, 0, bin_of, &by);
    for (int i = 0; i < LOOM__SPLIT_LINE; i++)
        CHECK_EQ(memory[bytes + (uint64_t)i], 0xa5);
    free(memory);
}
