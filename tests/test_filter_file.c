/* Filters in files: every saved filter is loaded, with every kind of SIMD. Files that are damaged, foreign or of
 * another type are refused. */
#define _GNU_SOURCE 1
#include "core/hash_bytes.h"
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/filter_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Round trips ---- */

static void check_loaded(test_run *t, loom_filter *filter, loom_filter *loaded, batch *b)
{
    loom_filter_report one = filter_report(filter), other = filter_report(loaded);
    loom_filter_config told = LOOM_FILTER_CONFIG_INIT, again = LOOM_FILTER_CONFIG_INIT;
    check_same_report(&other, &one);
    CHECK_OK(loom_filter_get_config(filter, &told));
    CHECK_OK(loom_filter_get_config(loaded, &again));
    CHECK_BYTES(&again, &told, sizeof told);
    check_all_in(loaded, b);
    check_same_bits(t, filter, loaded);
}

/* The kind of SIMD under test writes the file and every kind reads it. Then every kind writes and the kind under test
 * reads. */
TEST_EACH_FILTER(test_filter_save_and_load, .timeout_seconds = 120)
{
    static const uint64_t sizes[] = {64, 1000, 65537};
    const loom_machine machine = t->machine;
    const loom_simd simd = t->simd;
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_context *context = make_context(t);
        loom_filter_config config = make_sized_config(t, sizes[p % 3], filter_probes[p]);
        batch b = make_batch(t, 1000);
        config.capacity = p % 2 ? 2000 : 0;
        fill_distinct(&b, 1, 0);
        loom_filter *filter = make_filter_from(context, &config);
        checked_filter_insert(context, filter, &b, 0);
        CHECK_OK(loom_filter_save(filter, test_path(t, "file"), NULL));
        for (uint32_t i = 0; i <= t->simd_count; i++) {
            t->machine = i < t->simd_count ? LOOM_MACHINE_CPU : machine;
            t->simd = i < t->simd_count ? t->simds[i] : simd;
            loom_context *reader = make_context(t); /* its own seed is different */
            loom_filter *loaded = NULL, *back = NULL;
            test_note("%u probes, read by %s", filter_probes[p], test_simd_name(t->simd));
            CHECK_OK(loom_filter_load(reader, test_path(t, "file"), &loaded, NULL));
            check_loaded(t, filter, loaded, &b);
            checked_filter_insert(reader, loaded, &b, 0);
            CHECK_OK(loom_filter_save(loaded, test_path(t, "second"), NULL));
            CHECK_OK(loom_filter_load(context, test_path(t, "second"), &back, NULL));
            check_loaded(t, filter, back, &b);
            loom_filter_destroy(back);
            loom_filter_destroy(loaded);
            loom_context_destroy(reader);
        }
        t->machine = machine;
        t->simd = simd;
        loom_filter_destroy(filter);
        loom_context_destroy(context);
        free_batch(&b);
    }
}

/* Files of a filter that is read in several pieces, and of an empty filter. */
TEST_EACH_FILTER(test_filter_save_large_and_empty, .long_tier = 1)
{
    loom_context *context = make_context(t);
    for (int empty = 0; empty < 2; empty++) {
        loom_filter_config config = make_sized_config(t, empty ? 5000 : 19 << 20, 8);
        loom_filter *filter = make_filter_from(context, &config), *loaded = NULL;
        batch b = make_batch(t, empty ? 0 : 50000);
        fill_distinct(&b, 1, 0);
        checked_filter_insert(context, filter, &b, 0);
        CHECK_OK(loom_filter_save(filter, test_path(t, "file"), NULL));
        CHECK_OK(loom_filter_load(context, test_path(t, "file"), &loaded, NULL));
        check_loaded(t, filter, loaded, &b);
        free_batch(&b);
        loom_filter_destroy(filter);
        loom_filter_destroy(loaded);
    }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_save_header_fields)
{
    loom_context *context = make_context_with(t, 1, 0xfeed);
    for (int large = 0; large < 2; large++) {
        loom_filter_config config = make_sized_config(t, large ? 200000 : 300, 12);
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch(t, 70);
        size_t bytes;
        fill_distinct(&b, 1, 0);
        checked_filter_insert(context, filter, &b, 0);
        unsigned char *file = filter_file(t, filter, &bytes);
        const surgery_head header = surgery_header(file);
        CHECK_EQ(header.table.type, 4);
        CHECK_EQ(header.table.engine, 2);
        CHECK_EQ(header.table.layout_version, 1);
        CHECK_EQ(header.table.key_bytes, t->key_bytes);
        CHECK_EQ(header.table.value_bytes, 0);
        CHECK_EQ(header.table.partitions, large ? 4 : 1);
        CHECK_EQ(header.table.buckets, large ? 1024 : 5);
        CHECK_EQ(header.sections[0].unit, header.table.buckets * UINT64_C(64));
        CHECK_EQ(header.table.capacity, 0);
        CHECK_EQ(header.table.size, 70);
        CHECK_EQ(header.table.seed, 0xfeed);
        CHECK(header.table.max_load == 0);
        CHECK_EQ(header.table.parameters[0], 12);
        CHECK_EQ(header.table.parameters[1] | header.table.reserved_8[0], 0);
        surgery_head placed = header;
        CHECK_EQ(header.file.sections, 1);
        CHECK_EQ(header.sections[0].bytes, header.table.partitions * header.sections[0].unit);
        CHECK_EQ(bytes, surgery_place(&placed));
        free(file);
        free_batch(&b);
        loom_filter_destroy(filter);
    }
    loom_context_destroy(context);
}

/* The bytes as docs/format.md describes them, with the hash and the choice of bits written a second time. */
static uint64_t documented_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t documented_round(uint64_t x, uint64_t factor)
{
    x *= factor;
    return x ^ x >> 32;
}

static void set_as_documented(unsigned char *blocks, uint64_t count, uint32_t key_bytes, uint32_t probes, uint64_t seed,
                              const batch *b, uint64_t which)
{
    static const uint32_t factors[4] = {0x9e3779b1u, 0x85ebca77u, 0xc2b2ae3du, 0x27d4eb2fu};
    const uint64_t g = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h;
    if (key_bytes <= 8) {
        h = documented_round(batch_key(b, which) ^ documented_mix(seed + g), UINT64_C(0xd6e8feb86659fd93));
        h = documented_round(h ^ documented_mix(seed + 2 * g), UINT64_C(0xa0761d6478bd642f));
        if (key_bytes == 8)
            h = documented_round(h, UINT64_C(0xe7037ed1a0b428db));
    } else
        h = loom__xxh3((const unsigned char *)b->keys + which * key_bytes, key_bytes, documented_mix(seed + g), 1);
    unsigned char *block = blocks + 64 * ((h >> 32) * count >> 32);
    for (uint32_t quarter = 0; quarter < 4; quarter++) {
        const uint32_t number = (uint32_t)h * factors[quarter], none = probes == 12 ? number >> 10 & 3 : 4;
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t bit = probes == 4   ? number >> 25
                                 : probes == 8 ? i % 2 * 64 + (number >> (26 - 6 * (i % 2)) & 63)
                                               : 32 * i + (number >> (27 - 5 * i) & 31);
            if (i != none)
                block[16 * quarter + bit / 8] |= (unsigned char)(1u << bit % 8);
        }
    }
}

TEST_EACH_FILTER(test_filter_save_bits_as_documented)
{
    for (int p = 0; p < FILTER_PROBES; p++) {
        const uint64_t seed = random_u64(&t->random);
        loom_context *context = make_context_with(t, 2, seed);
        loom_filter_config config = make_sized_config(t, p % 2 ? 700 : 200000, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        batch b = make_batch(t, 3000);
        size_t bytes;
        fill_distinct(&b, seed, 0);
        b.n = p % 2 ? 20 : 3000;
        checked_filter_insert(context, filter, &b, 0);
        unsigned char *file = filter_file(t, filter, &bytes);
        const uint64_t blocks = filter_report(filter).blocks;
        unsigned char *wanted = test_allocate(blocks * 64);
        memset(wanted, 0, blocks * 64);
        for (uint64_t i = 0; i < b.n; i++)
            set_as_documented(wanted, blocks, b.key_bytes, filter_probes[p], seed, &b, i);
        test_note("%u probes", filter_probes[p]);
        CHECK_BYTES(surgery_partition(file, bytes, 0), wanted, blocks * 64);
        free(wanted);
        free(file);
        free_batch(&b);
        loom_filter_destroy(filter);
        loom_context_destroy(context);
    }
}

/* ---- Damage ---- */

/* A saved filter in memory. Damaged copies are loaded from a file without a name. */
typedef struct saved {
    loom_context *context;
    unsigned char *file;
    size_t bytes;
    int nameless;
    char path[64];
} saved;

static saved save_filter(test_run *t, uint64_t filter_bytes)
{
    saved s;
    loom_filter_config config = make_sized_config(t, filter_bytes, 8);
    batch b = make_batch(t, 20);
    s.context = make_context(t);
    config.capacity = 30;
    loom_filter *filter = make_filter_from(s.context, &config);
    fill_distinct(&b, random_u64(&t->random), 0);
    checked_filter_insert(NULL, filter, &b, 0);
    s.file = filter_file(t, filter, &s.bytes);
    s.nameless = memfd_create("damaged", MFD_CLOEXEC);
    CHECK(s.nameless >= 0);
    snprintf(s.path, sizeof s.path, "/proc/self/fd/%d", s.nameless);
    loom_filter_destroy(filter);
    free_batch(&b);
    return s;
}

static void free_saved(saved *s)
{
    free(s->file);
    close(s->nameless);
    loom_context_destroy(s->context);
}

static void check_load(saved *s, size_t bytes, loom_status wanted, loom_status or_else)
{
    loom_filter *const untouched = (loom_filter *)(uintptr_t)0x1234;
    loom_filter *filter = untouched;
    CHECK_EQ(ftruncate(s->nameless, 0), 0);
    for (size_t at = 0; at < bytes;) {
        ssize_t wrote = pwrite(s->nameless, s->file + at, bytes - at, (off_t)at);
        CHECK(wrote > 0);
        at += (size_t)wrote;
    }
    test_poison_last_error();
    loom_status status = loom_filter_load(s->context, s->path, &filter, NULL);
    if (wanted == LOOM_OK) {
        CHECK_STATUS(status, LOOM_OK);
        loom_filter_destroy(filter);
    } else {
        test_check_refused(__FILE__, __LINE__, "loom_filter_load", status, wanted, or_else);
        CHECK(filter == untouched);
    }
}

TEST_EACH_FILTER(test_filter_load_wrong_length)
{
    saved s = save_filter(t, 100);
    const size_t whole = s.bytes;
    for (size_t length = 0; length < whole; length += 1 + random_below(&t->random, test_scaled(t, 1, 20))) {
        test_note("%zu of %zu bytes", length, whole);
        check_load(&s, length, LOOM_BAD_FILE, LOOM_BAD_FILE);
    }
    check_load(&s, whole, LOOM_OK, LOOM_OK);
    s.file = realloc(s.file, whole + 4096);
    CHECK(s.file != NULL);
    memset(s.file + whole, 0, 4096);
    static const size_t extra[] = {1, 8, 64, 4096};
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++)
        check_load(&s, whole + extra[i], LOOM_BAD_FILE, LOOM_BAD_FILE);
    free_saved(&s);
}

/* If any byte of the file changes, the file is refused. */
TEST_EACH_FILTER(test_filter_load_every_byte_changed)
{
    saved s = save_filter(t, 200);
    for (size_t at = 0; at < s.bytes; at += 1 + random_below(&t->random, test_scaled(t, 1, 20))) {
        const unsigned char old = s.file[at];
        s.file[at] ^= (unsigned char)(1u << random_below(&t->random, 8));
        test_note("byte %zu of %zu changed", at, s.bytes);
        check_load(&s, s.bytes, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
        s.file[at] = old;
    }
    check_load(&s, s.bytes, LOOM_OK, LOOM_OK);
    free_saved(&s);
}

/* Headers with one wrong field and right checksums are refused. */
static void check_lying_headers(test_run *t, uint64_t filter_bytes)
{
    saved s = save_filter(t, filter_bytes);
    const surgery_head good = surgery_header(s.file);
    surgery_sign(s.file, s.bytes);
    check_load(&s, s.bytes, LOOM_OK, LOOM_OK); /* signing a sound file changes nothing */
#define LIE(change, wanted)                      \
    do {                                         \
        surgery_head header = good;              \
        change;                                  \
        surgery_set_header(s.file, &header);     \
        surgery_sign_header(s.file);             \
        test_note("%s", #change);                \
        check_load(&s, s.bytes, wanted, wanted); \
    } while (0)
#define BAD(change) LIE(change, LOOM_BAD_FILE)
    BAD(header.file.magic[0] = 'H');
    BAD(header.file.byte_order = 0x04030201);
    LIE(header.file.version = 0, LOOM_FOREIGN_VERSION);
    LIE(header.file.version = FILE_VERSION + 1, LOOM_FOREIGN_VERSION);
    BAD(header.file.header_bytes = 120);
    BAD(header.table.type = 0);
    LIE(header.table.type = LOOM_TYPE_MAP, LOOM_UNSUPPORTED);
    LIE(header.table.type = LOOM_TYPE_SET, LOOM_UNSUPPORTED);
    LIE(header.table.type = LOOM_TYPE_COUNTER, LOOM_UNSUPPORTED);
    BAD(header.table.type = 6);
    BAD(header.table.type = UINT32_MAX);
    LIE(header.table.engine = 0, LOOM_UNSUPPORTED);
    LIE(header.table.engine = LOOM_ENGINE_OPEN, LOOM_UNSUPPORTED);
    LIE(header.table.engine = 3, LOOM_UNSUPPORTED);
    LIE(header.table.layout_version = 0, LOOM_FOREIGN_VERSION);
    LIE(header.table.layout_version = 2, LOOM_FOREIGN_VERSION);
    BAD(header.table.key_bytes = 0);
    BAD(header.table.key_bytes = 257);
    BAD(header.table.value_bytes = 4);
    BAD(header.table.value_bytes = 8);
    BAD(header.table.partitions = 0);
    BAD(header.table.partitions = good.table.partitions + 1);
    BAD(header.table.partitions = UINT32_MAX);
    BAD(header.table.buckets = 0);
    BAD(header.table.buckets = good.table.buckets + 1);
    BAD(header.table.buckets = UINT32_MAX);
    BAD(header.sections[0].unit = 0);
    BAD(header.sections[0].unit = good.sections[0].unit - 64);
    BAD(header.sections[0].unit = good.sections[0].unit * 2);
    BAD(header.sections[0].unit = UINT64_MAX);
    BAD(header.table.max_load = 0.8);
    BAD(header.table.max_load = (double)NAN);
    BAD(header.table.parameters[0] = 0);
    BAD(header.table.parameters[0] = 5);
    BAD(header.table.parameters[0] = 20);
    BAD(header.table.parameters[0] = (UINT64_C(1) << 32) + 8);
    BAD(header.table.parameters[1] = 1);
    BAD(header.table.reserved_8[1] = UINT64_MAX);
    BAD(header.sections[0].bytes -= 64);
    BAD(header.sections[0].id = 2);
    BAD(header.sections[0].checksums_checksum ^= 1);
    /* The same number of blocks, divided into other partitions. */
    BAD(header.table.partitions = good.table.partitions * 2; header.table.buckets = good.table.buckets / 2;
        header.sections[0].unit /= 2);
    /* The library cannot check these fields: any filter may have them. */
    LIE(header.table.key_bytes = 12 - good.table.key_bytes % 8, LOOM_OK);
    LIE(header.table.key_bytes = 256, LOOM_OK);
    LIE(header.table.parameters[0] = 16, LOOM_OK);
    LIE(header.table.seed = 1, LOOM_OK);
    LIE(header.table.capacity = UINT64_MAX, LOOM_OK);
    LIE(header.table.size = UINT64_MAX, LOOM_OK);
    free_saved(&s);
}

TEST_EACH_FILTER(test_filter_load_lying_headers)
{
    check_lying_headers(t, 256);
    check_lying_headers(t, 140000);
}

/* Partitions of two blocks each must be refused, even with right checksums. */
TEST_EACH_FILTER(test_filter_load_small_partitions)
{
    saved s = save_filter(t, 256); /* 4 blocks */
    surgery_head header = surgery_header(s.file);
    CHECK_EQ(header.table.buckets, 4);
    header.table.partitions = 2;
    header.table.buckets = 2;
    header.sections[0].unit = 128;
    surgery_set_header(s.file, &header);
    surgery_sign(s.file, s.bytes);
    check_load(&s, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    free_saved(&s);
}

/* Any bits form a filter: forged bits with right checksums are loaded and used. */
TEST_EACH_FILTER(test_filter_load_any_bits)
{
    saved s = save_filter(t, 1000);
    const surgery_head header = surgery_header(s.file);
    for (int round = 0; round < 3; round++) {
        loom_filter *filter = NULL;
        batch b = make_batch(t, 500);
        fill_distinct(&b, 4, 0);
        unsigned char *blocks = surgery_partition(s.file, s.bytes, 0);
        for (uint64_t i = 0; i < header.sections[0].unit; i++)
            blocks[i] = (unsigned char)(round == 0 ? 0 : round == 1 ? 0xff : random_u64(&t->random));
        surgery_sign(s.file, s.bytes);
        test_write_file(test_path(t, "forged"), s.file, s.bytes);
        CHECK_OK(loom_filter_load(s.context, test_path(t, "forged"), &filter, NULL));
        const uint64_t found = checked_filter_contains(s.context, filter, &b).ok;
        CHECK(round == 0 ? found == 0 : round == 1 ? found == b.n : found < b.n);
        filter_report(filter);
        checked_filter_insert(s.context, filter, &b, 0);
        check_all_in(filter, &b);
        loom_filter_destroy(filter);
        free_batch(&b);
    }
    free_saved(&s);
}

/* A huge file that consists of a header and a hole. The load fails at once, for lack of memory. */
TEST(test_filter_load_giant_hole)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 1);
    saved s = save_filter(t, 65536);
    surgery_head header = surgery_header(s.file);
    header.table.partitions = 1 << 16;
    header.sections[0].bytes = header.table.partitions * header.sections[0].unit;
    const off_t length = (off_t)surgery_place(&header);
    surgery_set_header(s.file, &header);
    surgery_sign_header(s.file);
    const char *path = test_path(t, "giant");
    test_write_file(path, s.file, SURGERY_HEAD_BYTES);
    if (truncate(path, length) != 0)
        SKIP("no file of %lld bytes can be made here", (long long)length);
    loom_filter *filter = NULL;
    counting_limit(counter, 1 << 26);
    CHECK_REFUSED(loom_filter_load(context, path, &filter, NULL), LOOM_OUT_OF_MEMORY);
    CHECK(filter == NULL);
    unlink(path);
    free_saved(&s);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* ---- Other files ---- */

/* The file of a map cannot be loaded as a filter, nor that of a filter as a map. The sentence names the call that can
 * load it. */
TEST_EACH_KIND(test_filter_load_wrong_type)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 10), *no_map = NULL;
    loom_filter_config config = make_filter_config(t, 10, 0);
    loom_filter *filter = make_filter_from(context, &config), *no_filter = NULL;
    CHECK_OK(loom_map_save(map, test_path(t, "map"), NULL));
    CHECK_OK(loom_filter_save(filter, test_path(t, "filter"), NULL));
    CHECK_REFUSED(loom_filter_load(context, test_path(t, "map"), &no_filter, NULL), LOOM_UNSUPPORTED);
    CHECK(strstr(loom_last_error(), "loom_map_load") != NULL);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "filter"), &no_map, NULL), LOOM_UNSUPPORTED);
    CHECK(strstr(loom_last_error(), "loom_filter_load") != NULL);
    CHECK(no_filter == NULL && no_map == NULL);
    loom_map_destroy(map);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_load_no_file)
{
    loom_context *context = make_context(t);
    loom_filter *filter = NULL;
    loom_filter_config config = make_filter_config(t, 10, 0);
    CHECK_REFUSED(loom_filter_load(context, test_path(t, "absent"), &filter, NULL), LOOM_IO);
    CHECK_REFUSED(loom_filter_load(context, t->directory, &filter, NULL), LOOM_IO);
    CHECK(filter == NULL);
    filter = make_filter_from(context, &config);
    CHECK_REFUSED(loom_filter_save(filter, test_path(t, "no/such/directory"), NULL), LOOM_IO);
    CHECK_EQ(test_count_entries(t->directory), 0);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}
