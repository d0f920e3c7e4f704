/* loom_hash: the hash of the tables, for arrays of keys. */
#include "harness/cuda_driver.h"
#include "harness/file_surgery.h"
#include "harness/filter_fixture.h"
#include "harness/hash_vectors.h"
#include "harness/map_fixture.h"

#include "core/hash_bytes.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arrays ------------------------------------------------------------------------------------------- */

enum { IN_DEVICE_MEMORY = CUDA_DEVICE, IN_MANAGED_MEMORY = CUDA_MANAGED, IN_PINNED_MEMORY = CUDA_PINNED, ON_HOST };
enum { UNWRITTEN = 0xee, AROUND = 2 /* elements before and behind an array */ };

/* An array between elements that nobody may write. */
typedef struct array_at {
    loom_context *context;
    int place;
    unsigned char *memory, *at;
    size_t bytes, width;
} array_at;

/* IN_DEVICE_MEMORY also stands for the machine's memory of the cpu machine. */
static array_at make_array(loom_context *context, int place, uint64_t n, size_t width)
{
    array_at a = {context, place, NULL, NULL, n * width, width};
    const size_t whole = (n + 2 * AROUND) * width;
    if (place == ON_HOST)
        a.memory = test_allocate(whole);
    else if (place == IN_DEVICE_MEMORY)
        CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, whole, (void **)&a.memory));
    else
        a.memory = cuda_memory_create((cuda_memory)place, whole);
    a.at = a.memory + AROUND * width;
    void *blank = test_allocate(whole);
    memset(blank, UNWRITTEN, whole);
    CHECK_OK(loom_array_copy(context, a.memory, blank, whole, NULL));
    free(blank);
    return a;
}

static void fill_array(array_at *a, const void *from)
{
    CHECK_OK(loom_array_copy(a->context, a->at, from, a->bytes, NULL));
}

/* Copies the array to `to`, unless that is NULL, and frees it. */
static void take_back(array_at *a, void *to)
{
    const size_t around = AROUND * a->width, whole = a->bytes + 2 * around;
    unsigned char *copy = test_allocate(whole);
    CHECK_OK(loom_array_copy(a->context, copy, a->memory, whole, NULL));
    for (size_t i = 0; i < around; i++)
        CHECK(copy[i] == UNWRITTEN && copy[around + a->bytes + i] == UNWRITTEN);
    if (to && a->bytes > 0)
        memcpy(to, copy + around, a->bytes);
    free(copy);
    if (a->place == ON_HOST)
        free(a->memory);
    else if (a->place == IN_DEVICE_MEMORY)
        loom_array_destroy(a->context, LOOM_ARRAY_MACHINE, a->memory, whole);
    else
        cuda_memory_destroy((cuda_memory)a->place, a->memory);
}

/* Hashes the keys with arrays in these places. The caller frees the hashes. */
static uint64_t *hashes_of(loom_context *context, const batch *b, uint64_t seed, int keys_place, int hashes_place,
                           loom_stream stream)
{
    uint64_t *hashes = test_allocate((b->n + 1) * sizeof *hashes);
    array_at keys = make_array(context, keys_place, b->n, b->key_bytes);
    array_at out = make_array(context, hashes_place, b->n, sizeof *hashes);
    fill_array(&keys, b->keys);
    CHECK_OK(loom_hash(context, keys.at, b->key_bytes, b->n, seed, (uint64_t *)out.at, stream));
    take_back(&out, hashes);
    void *unchanged = test_allocate(b->n * b->key_bytes + 1);
    take_back(&keys, unchanged);
    CHECK_BYTES(unchanged, b->keys, b->n * b->key_bytes);
    free(unchanged);
    return hashes;
}

static void check_hashes(loom_context *context, const batch *b, uint64_t seed, int keys_place, int hashes_place,
                         loom_stream stream)
{
    const loom__seed expanded = loom__seed_expand(seed);
    uint64_t *hashes = hashes_of(context, b, seed, keys_place, hashes_place, stream);
    for (uint64_t i = 0; i < b->n; i++)
        if (hashes[i] != loom__hash_key(batch_key(b, i), b->key_bytes, expanded))
            FAIL("hash %llu of %llu is 0x%llx", (unsigned long long)i, (unsigned long long)b->n,
                 (unsigned long long)hashes[i]);
    free(hashes);
}

/* ---- Values ------------------------------------------------------------------------------------------- */

/* If this fails, the hash has changed: files and users' programs depend on it. */
TEST_EACH_SET(test_api_hash_pinned_values)
{
    loom_context *context = make_context(t);
    batch b = make_batch(t, VECTOR_KEYS);
    for (size_t k = 0; k < VECTOR_KEYS; k++)
        set_pair(&b, k, vector_keys[k], 0);
    for (size_t s = 0; s < VECTOR_SEEDS; s++) {
        uint64_t *hashes = hashes_of(context, &b, vector_seeds[s], ON_HOST, ON_HOST, NULL);
        for (size_t k = 0; k < VECTOR_KEYS; k++) {
            test_note("seed 0x%llx, key 0x%llx", (unsigned long long)vector_seeds[s],
                      (unsigned long long)batch_key(&b, k));
            CHECK_EQ(hashes[k], vector_hashes[t->key_bytes / 4 - 1][s][k]);
        }
        free(hashes);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* Numbers of keys around those that a thread, a warp, a thread block or a chunk of host arrays takes at once. */
TEST_EACH_SET(test_api_hash_of_any_number_of_keys)
{
    static const uint64_t counts[] = {0, 1, 2, 31, 33, 255, 256, 257, 65535, 65536, 65537, 200001};
    loom_context *context = make_context_with(t, 3, 1);
    for (size_t i = 0; i <= sizeof counts / sizeof counts[0]; i++) {
        const int is_last = i == sizeof counts / sizeof counts[0];
        batch b = make_batch(t, is_last ? test_scaled(t, 3000001, 1500001) : counts[i]);
        const uint64_t seed = random_u64(&t->random);
        fill_distinct(&b, seed, 0);
        check_hashes(context, &b, seed, ON_HOST, ON_HOST, NULL);
        check_hashes(context, &b, seed, IN_DEVICE_MEMORY, IN_DEVICE_MEMORY, NULL);
        check_hashes(context, &b, seed + 1, ON_HOST, IN_DEVICE_MEMORY, NULL);
        check_hashes(context, &b, seed - 1, IN_DEVICE_MEMORY, ON_HOST, NULL);
        free_batch(&b);
    }
    loom_context_destroy(context);
}

/* Keys of other widths have the hash of byte strings. Their arrays begin at any byte. */
static void check_widths(const test_run *t, loom_context *context)
{
    enum { KEYS = 3001 };
    static const uint32_t widths[] = {1,  2,  3,  5,  7,  9,   12,  15,  16,  17, 20,
                                      24, 31, 32, 33, 64, 100, 128, 200, 241, 256};
    unsigned char *memory = test_allocate((size_t)KEYS * 256 + 8);
    uint64_t *hashes = test_allocate(KEYS * sizeof *hashes);
    test_random draw = t->random;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (uint32_t offset = 0; offset < 8; offset += i % 2 == 0 ? 1 : 2) {
            const uint64_t seed = random_u64(&draw), bytes = (uint64_t)KEYS * widths[i];
            const loom__seed expanded = loom__seed_expand(seed);
            unsigned char *keys = memory + offset;
            for (uint64_t at = 0; at < bytes; at++)
                keys[at] = (unsigned char)random_u64(&draw);
            test_note("%u bytes from byte %u on", widths[i], offset);
            CHECK_OK(loom_hash(context, keys, widths[i], KEYS, seed, hashes, NULL));
            for (uint64_t k = 0; k < KEYS; k++)
                CHECK_EQ(hashes[k], loom__hash_bytes(keys + k * widths[i], widths[i], expanded));
            array_at own = make_array(context, IN_DEVICE_MEMORY, bytes + 8, 1);
            CHECK_OK(loom_array_copy(context, own.at + offset, keys, bytes, NULL));
            memset(hashes, 0, KEYS * sizeof *hashes);
            CHECK_OK(loom_hash(context, own.at + offset, widths[i], KEYS, seed, hashes, NULL));
            for (uint64_t k = 0; k < KEYS; k += 7)
                CHECK_EQ(hashes[k], loom__hash_bytes(keys + k * widths[i], widths[i], expanded));
            take_back(&own, NULL);
        }
    free(hashes);
    free(memory);
}

TEST(test_api_hash_of_any_width)
{
    loom_context *context = make_context_with(t, 3, 1);
    check_widths(t, context);
    loom_context_destroy(context);
}

TEST(test_cuda_hash_of_any_width)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    check_widths(t, context);
    loom_context_destroy(context);
}

TEST(test_cuda_hash_in_every_memory)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_stream stream = cuda_stream_create();
    for (int which = 0; which < 32; which++) {
        const int keys_place = which % 4, hashes_place = which / 4 % 4;
        batch b = make_batch_of(which & 16 ? 8 : 4, 0, 50001);
        fill_distinct(&b, 3, 0);
        test_note("keys %d, hashes %d, %u bytes", keys_place, hashes_place, b.key_bytes);
        check_hashes(context, &b, 7, keys_place, hashes_place, NULL);
        check_hashes(context, &b, 8, keys_place, hashes_place, stream);
        free_batch(&b);
    }
    cuda_stream_destroy(stream);
    loom_context_destroy(context);
}

/* ---- The hash of a table ------------------------------------------------------------------------------ */

/* Counts the keys of each partition by their hashes. Returns the largest count, and which partition has it. */
static uint64_t fullest_by_hash(const batch *b, const uint64_t *hashes, uint64_t partitions, uint64_t *which)
{
    uint64_t *counts = test_allocate(partitions * sizeof *counts), most = 0;
    memset(counts, 0, partitions * sizeof *counts);
    *which = 0;
    for (uint64_t i = 0; i < b->n; i++)
        counts[(hashes[i] >> 32) * partitions >> 32]++;
    for (uint64_t p = 0; p < partitions; p++)
        if (counts[p] > most) {
            most = counts[p];
            *which = p;
        }
    free(counts);
    return most;
}

/* With the seed that the table reports, the hashes tell the partition of each key, as base.h says: the fullest
 * partition has as many keys as loom_map_stats counts. The keys of that partition are then erased, and the next one is
 * the fullest. */
static void check_partitions(loom_context *context, loom_map *map, const batch *all)
{
    const loom_stats stats = map_stats(map);
    batch rest = copy_batch(all), out = copy_batch(all);
    uint64_t *hashes = hashes_of(context, all, stats.seed, ON_HOST, ON_HOST, NULL), which;
    CHECK_GT(stats.partitions, 2);
    CHECK_EQ(fullest_by_hash(all, hashes, stats.partitions, &which), stats.fullest_partition);
    rest.n = out.n = 0;
    for (uint64_t i = 0; i < all->n; i++) {
        const int is_out = (hashes[i] >> 32) * stats.partitions >> 32 == which;
        batch *to = is_out ? &out : &rest;
        set_pair(to, to->n++, batch_key(all, i), batch_value(all, i));
    }
    free(hashes);
    CHECK_EQ(checked_erase(map, &out).ok, stats.fullest_partition);
    hashes = hashes_of(context, &rest, stats.seed, ON_HOST, ON_HOST, NULL);
    CHECK_EQ(fullest_by_hash(&rest, hashes, stats.partitions, &which), map_stats(map).fullest_partition);
    CHECK_EQ(checked_insert(map, &out, LOOM_KEEP).ok, out.n);
    free(hashes);
    free_batch(&rest);
    free_batch(&out);
}

TEST_EACH_KIND(test_open_hash_is_that_of_the_table, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 5000);
    config.buckets_per_partition = table_case_partition_size(t->table, 31);
    loom_map *map = make_map_from(context, &config), *other = NULL;
    batch b = make_batch(t, 5000);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, b.n);
    check_partitions(context, map, &b);
    const uint64_t seed = map_stats(map).seed;
    test_note("a clone");
    CHECK_OK(loom_map_clone(map, &other, NULL));
    CHECK_EQ(map_stats(other).seed, seed);
    check_partitions(context, other, &b);
    loom_map_destroy(other);
    test_note("a loaded table");
    CHECK_OK(loom_map_save(map, test_path(t, "table"), NULL));
    CHECK_OK(loom_map_load(context, test_path(t, "table"), &other, NULL));
    CHECK_EQ(map_stats(other).seed, seed);
    check_partitions(context, other, &b);
    loom_map_destroy(other);
    test_note("a grown table");
    CHECK_OK(loom_map_reserve(map, 200000, NULL));
    CHECK_EQ(map_stats(map).seed, seed);
    check_partitions(context, map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Tables of a context without a fixed seed report the seeds that they drew. */
TEST_EACH_SET(test_open_hash_with_a_random_seed)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = t->machine;
    config.simd = t->simd;
    CHECK_OK(loom_context_create(&config, &context));
    loom_map_config shape = make_config(t, 5000);
    shape.buckets_per_partition = 31;
    loom_map *a = make_map_from(context, &shape), *b = make_map_from(context, &shape);
    batch all = make_batch(t, 5000);
    fill_distinct(&all, 1, 0);
    CHECK_EQ(checked_build(a, &all, LOOM_KEEP).ok, all.n);
    CHECK_EQ(checked_build(b, &all, LOOM_KEEP).ok, all.n);
    CHECK_NE(map_stats(a).seed, map_stats(b).seed);
    check_partitions(context, a, &all);
    check_partitions(context, b, &all);
    free_batch(&all);
    loom_map_destroy(a);
    loom_map_destroy(b);
    loom_context_destroy(context);
}

/* A key sets bits in one block of a filter, which the upper half of its hash chooses (docs/format.md). */
TEST_EACH_FILTER(test_filter_hash_is_that_of_the_filter)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 10000, 0);
    batch b = make_batch(t, 1);
    for (uint64_t round = 0; round < 10; round++) {
        loom_filter *filter = make_filter_from(context, &config);
        size_t bytes, used = 0;
        fill_distinct(&b, random_u64(&t->random), round);
        CHECK_OK(loom_filter_insert(filter, b.keys, 1, 0, NULL, NULL, NULL));
        const loom_filter_report report = filter_report(filter);
        uint64_t *hashes = hashes_of(context, &b, report.seed, ON_HOST, ON_HOST, NULL);
        unsigned char *file = filter_file(t, filter, &bytes);
        const unsigned char *blocks = surgery_partition(file, bytes, 0);
        CHECK(blocks != NULL && report.blocks > 2 && report.blocks <= 1024); /* one partition */
        for (uint64_t i = 0; i < 64 * report.blocks; i++)
            if (blocks[i] != 0) {
                CHECK_EQ(i / 64, (hashes[0] >> 32) * report.blocks >> 32);
                used++;
            }
        CHECK_GT(used, 0);
        free(file);
        free(hashes);
        loom_filter_destroy(filter);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- Wrong arguments ---------------------------------------------------------------------------------- */

TEST_EACH_SET(test_api_hash_wrong_arguments)
{
    static const uint32_t widths[] = {0, 257, 1024, 65536, UINT32_MAX};
    static const uint64_t counts[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 61, UINT64_C(1) << 60};
    enum { N = 100 };
    loom_context *context = make_context(t);
    const uint32_t k = t->key_bytes;
    uint64_t memory[4 * N];
    unsigned char *keys = (unsigned char *)memory;
    uint64_t *hashes = memory + 2 * N;
    memset(memory, UNWRITTEN, sizeof memory);
#define INVALID(call) CHECK_REFUSED(call, LOOM_INVALID_ARGUMENT)
    INVALID(loom_hash(NULL, keys, k, N, 1, hashes, NULL));
    INVALID(loom_hash(context, NULL, k, N, 1, hashes, NULL));
    INVALID(loom_hash(context, keys, k, N, 1, NULL, NULL));
    INVALID(loom_hash(context, keys + 1, k, N, 1, hashes, NULL));
    INVALID(loom_hash(context, keys + k / 2, k, N, 1, hashes, NULL));
    INVALID(loom_hash(context, keys, k, N, 1, (uint64_t *)(void *)((unsigned char *)hashes + 4), NULL));
    INVALID(loom_hash(context, hashes, k, N, 1, hashes, NULL)); /* they overlap */
    INVALID(loom_hash(context, (unsigned char *)(hashes + N) - k, k, N, 1, hashes, NULL));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        INVALID(loom_hash(context, keys, k, counts[i], 1, hashes, NULL));
    if (t->machine == LOOM_MACHINE_CPU)
        INVALID(loom_hash(context, keys, k, N, 1, hashes, keys));
#undef INVALID
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        CHECK_REFUSED(loom_hash(context, keys, widths[i], N, 1, hashes, NULL), LOOM_INVALID_ARGUMENT);
        CHECK(strstr(loom_last_error(), "1 to 256 bytes") != NULL);
        CHECK_REFUSED(loom_hash(context, NULL, widths[i], 0, 1, NULL, NULL), LOOM_INVALID_ARGUMENT);
    }
    CHECK_OK(loom_hash(context, NULL, k, 0, 1, NULL, NULL));
    CHECK_OK(loom_hash(context, keys, k, 0, 1, hashes, NULL));
    for (size_t i = 0; i < sizeof memory; i++)
        CHECK_EQ(keys[i], UNWRITTEN);
    CHECK_OK(loom_hash(context, hashes - N * k / 8, k, N, 1, hashes, NULL)); /* they touch */
    loom_context_destroy(context);
}
