/* Tables of more than 2^32 entries, arrays beyond 4 GiB, and calls of more than 2^32 keys.
 *
 * The full sizes take most of the memory of a GPU with 139 GiB, so nothing else may use it meanwhile. These tests are
 * hidden: `./dev gpu-test huge` runs them one after the other. The same steps with few keys are ordinary tests on every
 * machine.
 *
 * Keys and values are made in pieces, by several threads, in pinned memory, and copied to arrays of the machine: no
 * array of that size is ever on the host. Key i and value i follow from i. */
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 16, FEW = 60000, LEFT = 7 };

/* One table and the memory of its test. */
typedef struct huge {
    loom_context *context;
    loom_map *map;
    uint32_t key_bytes, value_bytes;
    uint64_t n;     /* keys of the table: those of the indices 0 to n - 1 */
    uint64_t piece; /* numbers made at once */
    void *pinned;   /* [piece] of 8 bytes */
    long threads;
} huge;

/* ---- Numbers ---- */

typedef enum number { KEY, VALUE } number;

/* Different indices give different keys of 8 bytes. Keys of 4 bytes repeat after 2^32 indices. */
static uint64_t number_of(const huge *h, number which, uint64_t i)
{
    if (which == KEY)
        return h->key_bytes == 4 ? (uint32_t)i * 2654435761u : mix_u64(i);
    return h->value_bytes == 4 ? (uint32_t)(i >> 7) ^ (uint32_t)i * 0x5bd1e995u : mix_u64(~i);
}

/* One thread's part of a piece. */
typedef struct share {
    const huge *h;
    number which;
    int checks;           /* the piece is compared, not made */
    uint64_t first_index; /* of the piece */
    uint64_t begin, end;  /* in the piece */
} share;

static void *work_on_share(void *argument)
{
    const share *s = argument;
    const uint32_t bytes = s->which == KEY ? s->h->key_bytes : s->h->value_bytes;
    for (uint64_t i = s->begin; i < s->end; i++) {
        const uint64_t wanted = number_of(s->h, s->which, s->first_index + i);
        if (s->checks)
            CHECK_EQ(get_word(s->h->pinned, bytes, i), wanted);
        else if (bytes == 4)
            ((uint32_t *)s->h->pinned)[i] = (uint32_t)wanted;
        else
            ((uint64_t *)s->h->pinned)[i] = wanted;
    }
    return NULL;
}

static void work_on_piece(const huge *h, number which, int checks, uint64_t first_index, uint64_t count)
{
    pthread_t threads[MOST_THREADS];
    share shares[MOST_THREADS];
    const uint64_t all = (uint64_t)h->threads;
    for (uint64_t k = 0; k < all; k++) {
        shares[k] = (share){h, which, checks, first_index, count * k / all, count * (k + 1) / all};
        CHECK_EQ(pthread_create(&threads[k], NULL, work_on_share, &shares[k]), 0);
    }
    for (uint64_t k = 0; k < all; k++)
        CHECK_EQ(pthread_join(threads[k], NULL), 0);
}

static uint32_t bytes_of(const huge *h, number which)
{
    return which == KEY ? h->key_bytes : h->value_bytes;
}

static void *make_array(const huge *h, number which, uint64_t n)
{
    void *array = NULL;
    CHECK_OK(loom_array_create(h->context, LOOM_ARRAY_MACHINE, n * bytes_of(h, which), &array));
    return array;
}

static void free_array(const huge *h, number which, void *array, uint64_t n)
{
    loom_array_destroy(h->context, LOOM_ARRAY_MACHINE, array, n * bytes_of(h, which));
}

static void *at(const huge *h, number which, void *array, uint64_t i)
{
    return (unsigned char *)array + i * bytes_of(h, which);
}

/* array[i] = number first_index + i. */
static void fill_array(const huge *h, number which, void *array, uint64_t first_index, uint64_t n)
{
    for (uint64_t done = 0; done < n; done += h->piece) {
        const uint64_t count = n - done < h->piece ? n - done : h->piece;
        work_on_piece(h, which, 0, first_index + done, count);
        CHECK_OK(loom_array_copy(h->context, at(h, which, array, done), h->pinned, count * bytes_of(h, which), NULL));
    }
}

static void check_array(const huge *h, number which, void *array, uint64_t first_index, uint64_t n)
{
    for (uint64_t done = 0; done < n; done += h->piece) {
        const uint64_t count = n - done < h->piece ? n - done : h->piece;
        CHECK_OK(loom_array_copy(h->context, h->pinned, at(h, which, array, done), count * bytes_of(h, which), NULL));
        work_on_piece(h, which, 1, first_index + done, count);
    }
}

/* ---- Tables ---- */

static huge make_huge(loom_context *context, loom_engine engine, uint32_t key_bytes, uint32_t value_bytes, uint64_t n)
{
    huge h = {.context = context, .key_bytes = key_bytes, .value_bytes = value_bytes, .n = n};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = value_bytes == 0 ? LOOM_TYPE_SET : LOOM_TYPE_MAP;
    config.engine = engine;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = n;
    config.max_load = 0.9;
    config.growth = 0; /* there is no memory for a second table */
    h.map = make_map_from(context, &config);
    h.piece = n < (uint64_t)1 << 26 ? n / 3 + 1 : (uint64_t)1 << 26;
    h.threads = n < (uint64_t)1 << 26 ? 2 : sysconf(_SC_NPROCESSORS_ONLN);
    h.threads = h.threads < 1 ? 1 : h.threads > MOST_THREADS ? MOST_THREADS : h.threads;
    CHECK_OK(loom_array_create(context, LOOM_ARRAY_PINNED, h.piece * 8, &h.pinned));
    return h;
}

static void free_huge(huge *h)
{
    loom_array_destroy(h->context, LOOM_ARRAY_PINNED, h->pinned, h->piece * 8);
    loom_map_destroy(h->map);
}

static void check_found(const huge *h, const void *keys, uint64_t n, uint64_t expected)
{
    loom_result result;
    CHECK_OK(loom_map_contains(h->map, keys, n, NULL, NULL, &result, NULL));
    CHECK_EQ(result.keys, n);
    CHECK_EQ(result.ok, expected);
    CHECK_EQ(result.not_found, n - expected);
}

/* Random present and absent keys, from arrays on the host. */
static void check_sample(test_run *t, const huge *h, uint64_t absent_from)
{
    enum { SAMPLE = 1 << 12 };
    batch b = make_batch_of(h->key_bytes, h->value_bytes, SAMPLE);
    for (uint64_t i = 0; i < SAMPLE; i++) {
        const uint64_t index = random_below(&t->random, h->n);
        set_pair(&b, i, number_of(h, KEY, index), number_of(h, VALUE, index));
    }
    check_all_found(h->map, &b);
    for (uint64_t i = 0; i < SAMPLE; i++)
        set_pair(&b, i, number_of(h, KEY, absent_from + random_below(&t->random, h->n / 4)), 0);
    check_none_found(h->map, &b);
    free_batch(&b);
}

static void check_stats(const huge *h)
{
    const loom_stats stats = map_stats(h->map);
    CHECK_EQ(stats.size, h->n);
    CHECK_GE(stats.slots, h->n + h->n / 10);
    CHECK_LE(stats.slots, h->n + h->n / 4);
    checked_verify(h->map);
}

/* ---- Sets ---- */

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The table holds the last keys alone, which a scan of all slots finds. */
static void check_left(const huge *h)
{
    uint64_t wanted[LEFT], got[LEFT + 1], count = 0;
    loom_result result;
    for (uint64_t i = 0; i < LEFT; i++)
        wanted[i] = number_of(h, KEY, h->n - LEFT + i);
    CHECK_OK(loom_map_retrieve_all(h->map, got, NULL, LEFT + 1, &count, &result, NULL));
    CHECK_EQ(count, LEFT);
    qsort(wanted, LEFT, sizeof *wanted, ascending);
    qsort(got, LEFT, sizeof *got, ascending);
    CHECK_BYTES(got, wanted, sizeof wanted);
}

/* Keys of 8 bytes: inserted in five parts, by partition and directly; looked up in parts; then calls with all keys at
 * once. */
static void run_set(test_run *t, loom_context *context, uint64_t n)
{
    enum { PARTS = 5 };
    huge h = make_huge(context, LOOM_ENGINE_OPEN, 8, 0, n);
    const uint64_t part = n / PARTS;
    loom_result result;
    CHECK_EQ(n % PARTS, 0);
    void *keys = make_array(&h, KEY, part);
    for (uint64_t p = 0; p < PARTS; p++) {
        test_note("inserting part %u", (unsigned)p);
        fill_array(&h, KEY, keys, p * part, part);
        CHECK_OK(loom_map_insert(h.map, keys, NULL, part, LOOM_KEEP | (p % 2 == 0 ? LOOM_BY_PARTITION : LOOM_DIRECTLY),
                                 NULL, &result, NULL));
        CHECK_EQ(result.ok, part);
        CHECK_EQ(map_size(h.map), (p + 1) * part);
    }
    for (uint64_t p = 0; p < 2 * PARTS; p++) {
        test_note("looking up part %u", (unsigned)p);
        fill_array(&h, KEY, keys, p * part, part);
        check_found(&h, keys, part, p < PARTS ? part : 0);
    }
    free_array(&h, KEY, keys, part);
    check_sample(t, &h, n);
    check_stats(&h);

    test_note("all keys at once");
    keys = make_array(&h, KEY, n);
    fill_array(&h, KEY, keys, 0, n);
    check_found(&h, keys, n, n);
    CHECK_OK(loom_map_insert(h.map, keys, NULL, n, LOOM_KEEP | LOOM_DIRECTLY, NULL, &result, NULL));
    CHECK_EQ(result.exists, n);
    CHECK_OK(loom_map_erase(h.map, keys, n - LEFT, NULL, &result, NULL));
    CHECK_EQ(result.ok, n - LEFT);
    CHECK_EQ(map_size(h.map), LEFT);
    check_found(&h, keys, n, LEFT);
    check_left(&h);
    CHECK_OK(loom_map_build(h.map, keys, NULL, n, LOOM_KEEP, NULL, &result, NULL));
    CHECK_EQ(result.ok, n);
    CHECK_EQ(map_size(h.map), n);
    check_found(&h, keys, n, n);
    check_stats(&h);
    free_array(&h, KEY, keys, n);
    free_huge(&h);
}

/* ---- Maps ---- */

/* How many of the indices 0 to many - 1 have a key in the table: those below n, and, if keys have 4 bytes, those that
 * repeat them. */
static uint64_t present_among(const huge *h, uint64_t many)
{
    const uint64_t again = (uint64_t)1 << 32, first = many < h->n ? many : h->n;
    const uint64_t rest = h->key_bytes == 4 && many > again ? many - again : 0;
    return first + (rest < h->n ? rest : h->n);
}

static void build_and_find(const huge *h, int inserts_again)
{
    loom_result result;
    void *keys = make_array(h, KEY, h->n), *values = make_array(h, VALUE, h->n);
    fill_array(h, KEY, keys, 0, h->n);
    fill_array(h, VALUE, values, 0, h->n);
    CHECK_OK(loom_map_build(h->map, keys, values, h->n, LOOM_KEEP | LOOM_BY_PARTITION, NULL, &result, NULL));
    CHECK_EQ(result.ok, h->n);
    CHECK_EQ(map_size(h->map), h->n);
    if (inserts_again) {
        test_note("inserting the same keys by partition");
        CHECK_OK(loom_map_insert(h->map, keys, values, h->n, LOOM_KEEP | LOOM_BY_PARTITION, NULL, &result, NULL));
        CHECK_EQ(result.exists, h->n);
        CHECK_EQ(map_size(h->map), h->n);
    }
    test_note("finding all keys");
    fill_array(h, KEY, values, h->n, h->n); /* no value of before may stay; values are as wide as keys */
    CHECK_OK(loom_map_find(h->map, keys, h->n, values, NULL, NULL, &result, NULL));
    CHECK_EQ(result.ok, h->n);
    check_array(h, VALUE, values, 0, h->n);
    free_array(h, VALUE, values, h->n);
    free_array(h, KEY, keys, h->n);
}

/* Pairs that are built by partition. `many`: keys of one call, absent ones included. */
static void run_pairs(test_run *t, loom_context *context, loom_engine engine, uint32_t bytes, uint64_t n, uint64_t many)
{
    huge h = make_huge(context, engine, bytes, bytes, n);
    const uint64_t distinct = bytes == 4 && many > (uint64_t)1 << 32 ? (uint64_t)1 << 32 : many;
    const uint64_t erased = n / 3;
    loom_result result;
    build_and_find(&h, engine == LOOM_ENGINE_OPEN);
    check_sample(t, &h, n);
    check_stats(&h);

    test_note("%llu keys at once", (unsigned long long)many);
    void *keys = make_array(&h, KEY, many);
    fill_array(&h, KEY, keys, 0, many);
    check_found(&h, keys, many, present_among(&h, many));
    check_found(&h, at(&h, KEY, keys, n), distinct - n, 0);
    CHECK_OK(loom_map_erase(h.map, keys, erased, NULL, &result, NULL));
    CHECK_EQ(result.ok, erased);
    CHECK_EQ(map_size(h.map), n - erased);
    check_found(&h, keys, erased, 0);
    check_found(&h, at(&h, KEY, keys, erased), n - erased, n - erased);
    checked_verify(h.map);
    free_array(&h, KEY, keys, many);
    free_huge(&h);
}

/* ---- Few keys, on every machine ---- */

static loom_context *context_under_test(test_run *t)
{
    return t->machine == LOOM_MACHINE_CUDA ? cuda_context_create(t, 0)
                                           : make_context_with(t, 2, random_u64(&t->random));
}

TEST(test_huge_steps_of_sets, .every_machine = 1, .threads = 1)
{
    loom_context *context = context_under_test(t);
    run_set(t, context, FEW);
    loom_context_destroy(context);
}

TEST(test_huge_steps_of_maps, .every_machine = 1, .threads = 1)
{
    loom_context *context = context_under_test(t);
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
        run_pairs(t, context, LOOM_ENGINE_OPEN, bytes, FEW, 2 * FEW);
        run_pairs(t, context, LOOM_ENGINE_PERFECT, bytes, FEW, 2 * FEW);
    }
    loom_context_destroy(context);
}

/* ---- The full sizes ---- */

static loom_context *context_with_memory(test_run *t, uint64_t gibibytes)
{
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    CHECK_OK(loom_context_describe(context, &info));
    if (info.memory_bytes >> 30 < gibibytes)
        test_skip("the device has %llu GiB of memory, the test wants %llu",
                  (unsigned long long)(info.memory_bytes >> 30), (unsigned long long)gibibytes);
    return context;
}

/* Bytes on the device, in GB: the table 51, the keys 40, and, in the build of all keys at once, 42 of temporary
 * memory: two slices. If that is not to be had, the build goes directly. */
TEST(test_huge_set_of_5_billion_keys, .hidden = 1, .timeout_seconds = 590)
{
    loom_context *context = context_with_memory(t, 130);
    run_set(t, context, (uint64_t)5000000000);
    loom_context_destroy(context);
}

/* Keys and values 24, the table 30, temporary memory 26 in a build and 50 in an insertion into the filled table. */
TEST(test_huge_map_of_3_billion_pairs, .hidden = 1, .timeout_seconds = 590)
{
    loom_context *context = context_with_memory(t, 110);
    run_pairs(t, context, LOOM_ENGINE_OPEN, 4, (uint64_t)3000000000, (uint64_t)5000000000);
    loom_context_destroy(context);
}

/* Keys and values 24, the table 27, temporary memory 26. */
TEST(test_huge_perfect_map_of_3_billion_pairs, .hidden = 1, .timeout_seconds = 590)
{
    loom_context *context = context_with_memory(t, 90);
    run_pairs(t, context, LOOM_ENGINE_PERFECT, 4, (uint64_t)3000000000, (uint64_t)5000000000);
    loom_context_destroy(context);
}

/* Keys and values 16, the table 20, temporary memory 17 in a build and 33 in an insertion. */
TEST(test_huge_maps_of_1_billion_wide_pairs, .hidden = 1, .timeout_seconds = 590)
{
    loom_context *context = context_with_memory(t, 80);
    run_pairs(t, context, LOOM_ENGINE_OPEN, 8, (uint64_t)1000000000, (uint64_t)2000000000);
    run_pairs(t, context, LOOM_ENGINE_PERFECT, 8, (uint64_t)1000000000, (uint64_t)2000000000);
    loom_context_destroy(context);
}
