/* Filters with keys of every width. A key of another width than 4 or 8 bytes has a stand-in, the key of 8 bytes with
 * the same hash. So a filter of such keys and a filter of 8-byte keys with the same seed, which gets the stand-ins,
 * have the same bits and give the same answers, false positives included. The other tests of filters show that those
 * of 8-byte keys are right. */
#include "core/hash.h"
#include "harness/file_surgery.h"
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

/* The widths are dealt out: a test for keys of so many bytes takes these. */
static uint32_t widths_of(const test_run *t, const uint32_t **widths)
{
    static const uint32_t narrow[] = {1, 2, 3, 5, 6}, middle[] = {7, 9, 12, 15, 16, 17, 24, 31, 32, 33},
                          wide[] = {63, 64, 100, 128, 129, 240, 241, 255, 256};
    *widths = t->key_bytes == 4 ? narrow : t->key_bytes == 8 ? middle : wide;
    return t->key_bytes == 4   ? sizeof narrow / sizeof *narrow
           : t->key_bytes == 8 ? sizeof middle / sizeof *middle
                               : sizeof wide / sizeof *wide;
}

enum { SEED = 4711 };

/* A filter of keys and a filter of stand-ins. */
typedef struct twins {
    loom_context *context;
    loom_filter *keys, *numbers;
    uint32_t width;
} twins;

static twins make_twins(test_run *t, uint32_t width, uint64_t bytes, uint32_t probes)
{
    twins both = {.context = make_context_with(t, 2, SEED), .width = width};
    loom_filter_config config = make_sized_config(t, bytes, probes);
    config.key_bytes = width;
    both.keys = make_filter_from(both.context, &config);
    config.key_bytes = 8;
    both.numbers = make_filter_from(both.context, &config);
    return both;
}

static void free_twins(twins *both)
{
    loom_filter_destroy(both->keys);
    loom_filter_destroy(both->numbers);
    loom_context_destroy(both->context);
}

/* n keys, of which about `different` differ. With one byte there are 256. */
static batch random_keys(test_run *t, uint32_t width, uint64_t n, uint64_t different)
{
    batch b = make_batch_of(width, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t number = random_below(&t->random, different);
        for (uint32_t at = 0; at < width; at++)
            ((unsigned char *)b.keys)[i * width + at] = (unsigned char)(mix_u64(number + at / 8) >> at % 8 * 8);
    }
    return b;
}

static batch stand_ins(const twins *both, const batch *b)
{
    batch numbers = make_batch_of(8, 0, b->n);
    uint64_t *words = numbers.keys;
    CHECK_OK(loom_hash(both->context, b->keys, b->key_bytes, b->n, SEED, words, NULL));
    for (uint64_t i = 0; i < b->n; i++)
        words[i] = loom__key_of_hash(words[i], loom__seed_expand(SEED));
    return numbers;
}

static void check_twins(test_run *t, const twins *both)
{
    size_t bytes, other_bytes;
    unsigned char *file = filter_file(t, both->keys, &bytes), *other = filter_file(t, both->numbers, &other_bytes);
    CHECK_EQ(bytes, other_bytes);
    CHECK_EQ(filter_report(both->keys).key_bytes, both->width);
    CHECK_BYTES(file + SURGERY_HEAD_BYTES, other + SURGERY_HEAD_BYTES, bytes - SURGERY_HEAD_BYTES);
    free(file);
    free(other);
}

typedef struct numbered {
    uint64_t stand_in, row;
} numbered;

static int by_stand_in_and_row(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->stand_in != y->stand_in ? (x->stand_in > y->stand_in) - (x->stand_in < y->stand_in)
                                      : (x->row > y->row) - (x->row < y->row);
}

/* Fills in later[i]: an earlier key has the same stand-in. */
static void find_later_equals(const batch *numbers, uint8_t *later)
{
    numbered *all = test_allocate(numbers->n * sizeof *all);
    for (uint64_t i = 0; i < numbers->n; i++)
        all[i] = (numbered){((const uint64_t *)numbers->keys)[i], i};
    qsort(all, numbers->n, sizeof *all, by_stand_in_and_row);
    for (uint64_t i = 0; i < numbers->n; i++)
        later[all[i].row] = i > 0 && all[i].stand_in == all[i - 1].stand_in;
    free(all);
}

/* Adds the keys in order. A key is told as new only if the filter did not report it before and if it is the first of
 * its equals. The keys that were told as new have set all new bits: they alone make the same filter. More cannot be
 * said: different keys of a batch run at the same time on a GPU, and a bit that two of them need is new for one. */
static void add_in_order(test_run *t, loom_context *where, const twins *both, batch *b, const batch *numbers)
{
    loom_filter *before;
    batch added = make_batch_of(b->key_bytes, 0, b->n);
    uint8_t *reported = test_allocate(b->n), *later = test_allocate(b->n);
    CHECK_OK(loom_filter_clone(both->keys, &before, NULL));
    checked_filter_contains(NULL, before, b);
    memcpy(reported, b->found, b->n);
    find_later_equals(numbers, later);
    checked_filter_add(where, both->keys, b, LOOM_IN_ORDER);
    added.n = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK(!b->found[i] || (!reported[i] && !later[i]));
        if (b->found[i])
            memcpy((unsigned char *)added.keys + added.n++ * b->key_bytes,
                   (const unsigned char *)b->keys + i * b->key_bytes, b->key_bytes);
    }
    checked_filter_insert(NULL, before, &added, LOOM_DIRECTLY);
    check_same_bits(t, before, both->keys);
    loom_filter_destroy(before);
    free_batch(&added);
    free(reported);
    free(later);
}

TEST_EACH_FILTER(test_filter_widths_like_hashes, .long_tier = 1, .timeout_seconds = 180)
{
    static const uint32_t ways[] = {0, LOOM_DIRECTLY, LOOM_BY_PARTITION};
    const uint32_t *widths, count = widths_of(t, &widths);
    for (uint32_t w = 0; w < count; w++)
        for (int large = 0; large < 2; large++) {
            const uint64_t n = test_scaled(t, 70000, 5000);
            const uint32_t probes = filter_probes[(w + (uint32_t)large) % FILTER_PROBES];
            twins both = make_twins(t, widths[w], large ? 5 << 20 : 1 << 14, probes);
            for (int step = 0; step < 5; step++) {
                batch b = random_keys(t, widths[w], n, n), numbers = stand_ins(&both, &b);
                loom_context *where = step % 2 ? both.context : NULL;
                test_note("%u bytes, step %d, large %d", widths[w], step, large);
                if (step < 3)
                    checked_filter_insert(where, both.keys, &b, ways[step]);
                else if (step == 3)
                    add_in_order(t, where, &both, &b, &numbers);
                else
                    checked_filter_add(where, both.keys, &b, 0);
                checked_filter_insert(NULL, both.numbers, &numbers, LOOM_DIRECTLY);
                check_all_in(both.keys, &b);
                free_batch(&b);
                free_batch(&numbers);
            }
            check_twins(t, &both);
            batch asked = random_keys(t, widths[w], n, UINT64_MAX), numbers = stand_ins(&both, &asked);
            checked_filter_contains(NULL, both.numbers, &numbers);
            for (int near = 0; near < 2; near++) {
                checked_filter_contains(near ? both.context : NULL, both.keys, &asked);
                CHECK_BYTES(asked.found, numbers.found, n);
            }
            free_batch(&asked);
            free_batch(&numbers);
            free_twins(&both);
        }
}

/* Keys that lie at any address, in batches of lengths around the pieces that a thread replaces at once. */
TEST_EACH_FILTER(test_filter_widths_every_length)
{
    static const uint64_t lengths[] = {0, 1, 2, 7, 8, 9, 31, 33, 2047, 2048, 2049, 4096, 6001};
    const uint32_t *widths, count = widths_of(t, &widths);
    for (uint32_t w = 0; w < count; w++) {
        twins both = make_twins(t, widths[w], 1 << 16, 12);
        for (uint64_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const uint64_t n = lengths[i];
            batch b = random_keys(t, widths[w], n, UINT64_MAX), numbers = stand_ins(&both, &b);
            unsigned char *memory = test_allocate(n * widths[w] + 8), *keys = memory + i % 8;
            uint8_t *added = test_allocate(n + 1);
            memcpy(keys, b.keys, n * widths[w]);
            test_note("%u bytes, %llu keys", widths[w], (unsigned long long)n);
            for (int step = 0; step < 4; step++) {
                static const uint32_t flags[] = {LOOM_IN_ORDER, 0, LOOM_BY_PARTITION, LOOM_DIRECTLY};
                CHECK_OK(loom_filter_clear(both.keys, NULL, NULL));
                CHECK_OK(loom_filter_clear(both.numbers, NULL, NULL));
                memset(added, 0xee, n + 1);
                CHECK_OK(loom_filter_insert(both.keys, keys, n, flags[step], step < 2 ? added : NULL, NULL, NULL));
                CHECK_EQ(added[n], 0xee);
                checked_filter_add(NULL, both.numbers, &numbers, LOOM_IN_ORDER);
                if (step == 0)
                    CHECK_BYTES(added, numbers.found, n);
                check_all_in(both.keys, &b);
                CHECK_EQ(filter_report(both.keys).bits_set, filter_report(both.numbers).bits_set);
            }
            free(memory);
            free(added);
            free_batch(&b);
            free_batch(&numbers);
        }
        free_twins(&both);
    }
}

/* Keys that differ in one bit, wherever it is, are different keys. */
TEST_EACH_FILTER(test_filter_widths_every_bit_counts)
{
    const uint32_t *widths, count = widths_of(t, &widths);
    for (uint32_t w = 0; w < count; w++) {
        const uint32_t bits = widths[w] * 8;
        loom_context *context = make_context(t);
        loom_filter_config config = make_filter_config(t, bits, 0);
        config.key_bytes = widths[w];
        config.false_positive_rate = 1e-7;
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch_of(widths[w], 0, bits);
        memset(b.keys, 0xa5, (size_t)bits * widths[w]);
        for (uint32_t i = 0; i < bits; i++)
            ((unsigned char *)b.keys)[i * widths[w] + i / 8] ^= (unsigned char)(1 << i % 8);
        test_note("%u bytes", widths[w]);
        b.n = bits / 2;
        CHECK_GE(checked_filter_add(context, filter, &b, 0).ok + 1, b.n); /* a false positive is unlikely */
        check_all_in(filter, &b);
        b.n = bits;
        CHECK_LE(checked_filter_contains(context, filter, &b).ok, bits / 2 + 1);
        free_batch(&b);
        loom_filter_destroy(filter);
        loom_context_destroy(context);
    }
}

/* Merge, clone, save and load keep the width. */
TEST_EACH_FILTER(test_filter_widths_whole_filters)
{
    const uint32_t *widths, count = widths_of(t, &widths);
    for (uint32_t w = 0; w < count; w++) {
        const char *path = test_path(t, "filter");
        loom_context *context = make_context(t);
        loom_filter_config config = make_filter_config(t, 3000, 0), told = LOOM_FILTER_CONFIG_INIT;
        config.key_bytes = widths[w];
        loom_filter *filter = make_filter_from(context, &config), *like = NULL, *clone = NULL, *loaded = NULL;
        CHECK_OK(loom_filter_create_like(filter, &like));
        batch one = random_keys(t, widths[w], 1500, UINT64_MAX), other = random_keys(t, widths[w], 1500, UINT64_MAX);
        test_note("%u bytes", widths[w]);
        checked_filter_insert(context, filter, &one, 0);
        checked_filter_insert(context, like, &other, 0);
        CHECK_OK(loom_filter_merge(filter, like, NULL));
        CHECK_OK(loom_filter_clone(filter, &clone, NULL));
        CHECK_OK(loom_filter_save(filter, path, NULL));
        CHECK_OK(loom_filter_load(context, path, &loaded, NULL));
        loom_filter *all[] = {filter, clone, loaded};
        for (int i = 0; i < 3; i++) {
            check_all_in(all[i], &one);
            check_all_in(all[i], &other);
            check_same_bits(t, all[i], filter);
            CHECK_OK(loom_filter_get_config(all[i], &told));
            CHECK_EQ(told.key_bytes, widths[w]);
        }
        config.key_bytes = widths[w] + 1 <= 256 ? widths[w] + 1 : 255;
        loom_filter *foreign = make_filter_from(context, &config);
        CHECK_REFUSED(loom_filter_merge(filter, foreign, NULL), LOOM_INVALID_ARGUMENT);
        CHECK(strstr(loom_last_error(), "bytes") != NULL);
        loom_filter_destroy(foreign);
        for (int i = 0; i < 3; i++)
            loom_filter_destroy(all[i]);
        loom_filter_destroy(like);
        free_batch(&one);
        free_batch(&other);
        loom_context_destroy(context);
    }
}
