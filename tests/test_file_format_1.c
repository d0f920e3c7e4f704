/* Files of format 1, which the library reads and no longer writes. The tests load the golden files of that format:
 * unchanged, damaged, and with wrong headers. */
#define _GNU_SOURCE 1
#include "harness/filter_fixture.h"
#include "harness/saved_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/checksum.h"
#include "core/file_format_1.h"

/* One of the golden files, to be damaged. */
static saved_table open_golden(test_run *t, const char *name)
{
    saved_table s = {.context = make_context(t)};
    char path[512];
    snprintf(path, sizeof path, "%s/format_1/golden_%s.loom", t->data, name);
    s.file = test_read_file(path, &s.bytes);
    s.nameless = memfd_create("damaged", MFD_CLOEXEC);
    CHECK(s.nameless >= 0);
    snprintf(s.nameless_path, sizeof s.nameless_path, "/proc/self/fd/%d", s.nameless);
    return s;
}

static const char *const golden_names[] = {"map_4_4", "map_8_8", "set_8", "perfect_map_4_8", "perfect_set_4"};
/* Their layout has changed since. */
static const char *const foreign_names[] = {"map_4_8", "map_8_4"};
enum { GOLDEN_NAMES = sizeof golden_names / sizeof golden_names[0] };

TEST(test_file_format_1_truncated)
{
    for (int i = 0; i < GOLDEN_NAMES; i++) {
        saved_table s = open_golden(t, golden_names[i]);
        saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
        for (size_t length = 0; length < s.bytes; length += 1 + random_below(&t->random, 200)) {
            test_note("%zu of %zu bytes of %s", length, s.bytes, golden_names[i]);
            saved_check_load(&s, s.file, length, LOOM_BAD_FILE, LOOM_BAD_FILE);
        }
        saved_free(&s);
    }
}

/* Every byte is covered: if any byte changes, the file is refused. */
TEST(test_file_format_1_bytes_changed)
{
    for (int i = 0; i < GOLDEN_NAMES; i++) {
        saved_table s = open_golden(t, golden_names[i]);
        for (size_t at = 0; at < s.bytes; at += at < 128 ? 1 : 1 + random_below(&t->random, 60)) {
            const unsigned char old = s.file[at], change = (unsigned char)(1 + random_below(&t->random, 255));
            test_note("byte %zu of %s changed by 0x%02x", at, golden_names[i], change);
            s.file[at] = (unsigned char)(old ^ change);
            saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
            s.file[at] = old;
        }
        saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
        saved_free(&s);
    }
}

static void sign_header(unsigned char *file, loom__file_header_1 header)
{
    header.header_checksum = loom__checksum(&header, offsetof(loom__file_header_1, header_checksum), 0);
    memcpy(file, &header, sizeof header);
}

/* Makes all checksums of the file right. */
static void sign(unsigned char *file)
{
    loom__file_header_1 header;
    memcpy(&header, file, sizeof header);
    const uint64_t pieces = loom__file_1_pieces(&header);
    unsigned char *sums = file + sizeof header;
    for (uint64_t i = 0; i < pieces; i++) {
        const unsigned char *piece = file + loom__file_1_pieces_at(pieces) + i * header.partition_bytes;
        const uint64_t sum = loom__checksum(piece, header.partition_bytes, i);
        memcpy(sums + i * sizeof sum, &sum, sizeof sum);
    }
    header.checksums_checksum = loom__checksum(sums, pieces * sizeof(uint64_t), 0);
    sign_header(file, header);
}

TEST(test_file_format_1_lying_headers)
{
    for (int i = 0; i < GOLDEN_NAMES; i++) {
        saved_table s = open_golden(t, golden_names[i]);
        loom__file_header_1 good;
        memcpy(&good, s.file, sizeof good);
        CHECK_EQ(good.version, 1);
#define LIE(change, wanted, or_else)                            \
    do {                                                        \
        loom__file_header_1 header = good;                      \
        change;                                                 \
        sign_header(s.file, header);                            \
        test_note("%s: %s", golden_names[i], #change);          \
        saved_check_load(&s, s.file, s.bytes, wanted, or_else); \
    } while (0)
#define BAD(change) LIE(change, LOOM_BAD_FILE, LOOM_BAD_FILE)
        LIE((void)header, LOOM_OK, LOOM_OK);
        BAD(header.header_bytes = 64);
        BAD(header.partitions = 0);
        BAD(header.partitions = good.partitions + 1);
        BAD(header.partitions = UINT32_MAX);
        BAD(header.buckets = good.buckets + 1);
        BAD(header.partition_bytes = 0);
        BAD(header.partition_bytes = good.partition_bytes * 2);
        BAD(header.partition_bytes = UINT64_MAX);
        BAD(header.parameter = good.parameter + 1);
        BAD(header.parameter = UINT64_MAX);
        BAD(header.code_pieces = good.code_pieces + 1);
        BAD(header.code_pieces = UINT64_MAX);
        BAD(header.code_pieces = 0 - (uint64_t)good.partitions);
        BAD(header.partitions = good.partitions - 1; header.code_pieces = good.code_pieces + 1); /* as long as before */
        BAD(header.reserved = 1);
        BAD(header.size = good.size + 1);
        BAD(header.size = UINT64_MAX);
        BAD(header.capacity = UINT64_MAX);
        BAD(header.seed = good.seed + 1);
        BAD(header.max_load = (double)NAN);
        LIE(header.key_bytes = 12 - good.key_bytes, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
        BAD(header.checksums_checksum ^= 1);
        LIE(header.type = LOOM_TYPE_FILTER, LOOM_UNSUPPORTED, LOOM_UNSUPPORTED);
        LIE(header.engine = 0, LOOM_UNSUPPORTED, LOOM_UNSUPPORTED);
        LIE(header.layout_version = 2, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
        if (good.code_pieces > 0)
            BAD(header.code_pieces = 0);
#undef BAD
#undef LIE
        saved_free(&s);
    }
}

/* Behind the codes of a perfect table lie zero bytes up to a whole piece, and nothing else. */
TEST(test_file_format_1_padding_of_codes)
{
    saved_table s = open_golden(t, "perfect_map_4_8");
    loom__file_header_1 header;
    memcpy(&header, s.file, sizeof header);
    const uint64_t codes = header.partitions * header.parameter * 8, room = header.code_pieces * header.partition_bytes;
    CHECK_GT(header.code_pieces, 0);
    CHECK_GT(room, codes);
    for (uint64_t at = codes; at < room; at += 1 + random_below(&t->random, 40)) {
        unsigned char *byte = s.file + s.bytes - room + at;
        *byte = 1;
        sign(s.file);
        saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
        *byte = 0;
    }
    sign(s.file);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    saved_free(&s);
}

TEST(test_file_format_1_of_another_layout)
{
    for (int i = 0; i < 2; i++) {
        saved_table s = open_golden(t, foreign_names[i]);
        saved_check_load(&s, s.file, s.bytes, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
        saved_free(&s);
    }
}

/* A table that is loaded from format 1 and saved becomes a file of format 2 with the same contents. */
TEST(test_file_format_1_saved_again)
{
    loom_context *context = make_context(t);
    for (int i = 0; i < GOLDEN_NAMES; i++) {
        char path[512], name[64];
        size_t bytes, again_bytes;
        loom_map *map = NULL;
        snprintf(path, sizeof path, "%s/format_1/golden_%s.loom", t->data, golden_names[i]);
        CHECK_OK(loom_map_load(context, path, &map, NULL));
        snprintf(name, sizeof name, "again_%d", i);
        CHECK_OK(loom_map_save(map, test_path(t, name), NULL));
        loom_map_destroy(map);
        snprintf(path, sizeof path, "%s/golden_%s.loom", t->data, golden_names[i]);
        unsigned char *wanted = test_read_file(path, &bytes), *again = test_read_file(test_path(t, name), &again_bytes);
        CHECK_EQ(again_bytes, bytes);
        CHECK_BYTES(again, wanted, bytes);
        free(wanted);
        free(again);
    }
    loom_context_destroy(context);
}
