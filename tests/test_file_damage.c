/* Files that are damaged, foreign or malicious. A load returns a status code and a sentence, makes no table, and does
 * not crash. */
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/saved_table.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checksum.h"
#include "engines/open/open_layout.h"

/* ---- Damage --------------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_load_truncated, .every_engine = 1)
{
    saved_table s = saved_make(t, 4, 4);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    for (size_t length = 0; length < s.bytes; length += 1 + random_below(&t->random, test_scaled(t, 1, 40))) {
        test_note("%zu of %zu bytes", length, s.bytes);
        saved_check_load(&s, s.file, length, LOOM_BAD_FILE, LOOM_BAD_FILE);
    }
    saved_free(&s);
}

TEST_EACH_KIND(test_open_load_too_long)
{
    saved_table s = saved_make(t, 4, 4);
    unsigned char *longer = test_allocate(s.bytes + 4096);
    memset(longer, 0, s.bytes + 4096);
    memcpy(longer, s.file, s.bytes);
    static const size_t extra[] = {1, 7, 8, 64, 4096};
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++)
        saved_check_load(&s, longer, s.bytes + extra[i], LOOM_BAD_FILE, LOOM_BAD_FILE);
    free(longer);
    saved_free(&s);
}

/* Every byte of the file is covered: if any byte changes, the file is refused. */
TEST_EACH_KIND(test_open_load_every_byte_changed, .every_engine = 1)
{
    saved_table s = saved_make(t, 4, 3);
    for (size_t at = 0; at < s.bytes; at += 1 + random_below(&t->random, test_scaled(t, 1, 40))) {
        unsigned char old = s.file[at], change = (unsigned char)(1 + random_below(&t->random, 255));
        if (random_below(&t->random, 2)) /* one bit only */
            change = (unsigned char)(1u << random_below(&t->random, 8));
        test_note("byte %zu of %zu changed by 0x%02x", at, s.bytes, change);
        s.file[at] = (unsigned char)(old ^ change);
        saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
        s.file[at] = old;
    }
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    saved_free(&s);
}

/* The same for bytes of a file that the library reads in several pieces. */
TEST(test_open_load_large_file_damaged)
{
    t->key_bytes = t->value_bytes = 8;
    uint64_t n = test_scaled(t, 600000, 500000);
    saved_table s = saved_make(t, n, n);
    CHECK_GT(s.bytes, 9 << 20);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    for (int i = 0; i < 12; i++) {
        size_t at = i == 0 ? s.bytes - 1 : random_below(&t->random, s.bytes);
        test_note("byte %zu of %zu changed", at, s.bytes);
        s.file[at] ^= 1;
        saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
        s.file[at] ^= 1;
    }
    saved_check_load(&s, s.file, s.bytes - 1, LOOM_BAD_FILE, LOOM_BAD_FILE);
    saved_free(&s);
}

TEST(test_open_load_partitions_swapped)
{
    t->key_bytes = t->value_bytes = 4;
    saved_table s = saved_make(t, 500, 500);
    surgery_head header = surgery_header(s.file);
    unsigned char *a = surgery_partition(s.file, s.bytes, 0), *b = surgery_partition(s.file, s.bytes, 1);
    CHECK(a != NULL && b != NULL);
    for (uint64_t i = 0; i < header.sections[0].unit; i++) {
        unsigned char x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
    saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    surgery_sign(s.file, s.bytes); /* right checksums, but the keys lie in the wrong partition */
    saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    saved_free(&s);
}

/* ---- Headers that lie, with right checksums ------------------------------------------------------------------ */

TEST_EACH_KIND(test_open_load_foreign_version)
{
    saved_table s = saved_make(t, 10, 10);
    const surgery_head good = surgery_header(s.file);
    static const uint32_t versions[] = {0, FILE_VERSION + 1, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            surgery_head header = good;
            header.file.version = versions[i];
            surgery_set_header(s.file, &header);
            if (is_signed)
                surgery_sign_header(s.file);
            saved_check_load(&s, s.file, s.bytes, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
            header = good;
            header.table.layout_version = versions[i];
            surgery_set_header(s.file, &header);
            surgery_sign_header(s.file);
            saved_check_load(&s, s.file, s.bytes, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
        }
    saved_free(&s);
}

/* With the layout version that tables of these widths have. */
static void lie_about_widths(surgery_head *header, uint32_t key_bytes, uint32_t value_bytes)
{
    header->table.key_bytes = key_bytes;
    header->table.value_bytes = value_bytes;
    header->table.layout_version =
        open_has_narrow_word(slot_kind_of(key_bytes, value_bytes)) ? OPEN_NARROW_VERSION : OPEN_LAYOUT_VERSION;
}

TEST_EACH_KIND(test_open_load_lying_headers)
{
    saved_table s = saved_make(t, 10, 10);
    const surgery_head good = surgery_header(s.file);
    surgery_sign(s.file, s.bytes);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK); /* signing a sound file changes nothing */
#define LIE(change, wanted, or_else)                            \
    do {                                                        \
        surgery_head header = good;                             \
        change;                                                 \
        surgery_set_header(s.file, &header);                    \
        surgery_sign_header(s.file);                            \
        test_note("%s", #change);                               \
        saved_check_load(&s, s.file, s.bytes, wanted, or_else); \
    } while (0)
#define BAD(change) LIE(change, LOOM_BAD_FILE, LOOM_BAD_FILE)
    BAD(header.file.magic[0] = 'H');
    BAD(header.file.byte_order = 0x04030201);
    BAD(header.file.header_bytes = 120);
    BAD(header.file.header_bytes += 64);
    BAD(header.file.header_bytes = 0);
    LIE(header.table.type = 0, LOOM_BAD_FILE, LOOM_UNSUPPORTED);
    LIE(header.table.type = LOOM_TYPE_FILTER, LOOM_UNSUPPORTED, LOOM_UNSUPPORTED);
    LIE(header.table.type = LOOM_TYPE_MULTIMAP;
        header.table.layout_version = t->key_bytes == 4 ? 2 : 1, LOOM_BAD_FILE, LOOM_UNSUPPORTED);
    BAD(header.table.type = 6);
    LIE(header.table.engine = 0, LOOM_UNSUPPORTED, LOOM_BAD_FILE);
    LIE(header.table.engine = 2, LOOM_UNSUPPORTED, LOOM_BAD_FILE);
    BAD(lie_about_widths(&header, 12 - good.table.key_bytes, good.table.value_bytes));
    BAD(lie_about_widths(&header, good.table.key_bytes, t->value_bytes ? 12 - good.table.value_bytes : 12));
    BAD(header.table.key_bytes = 0);
    BAD(header.table.value_bytes = 16);
    BAD(header.table.partitions = 0);
    BAD(header.table.partitions = 1);
    BAD(header.table.partitions = good.table.partitions + 1);
    BAD(header.table.partitions = UINT32_MAX);
    BAD(header.table.buckets = 0);
    BAD(header.table.buckets = 1);
    BAD(header.table.buckets = 4);
    BAD(header.table.buckets = good.table.buckets == 2 ? 3 : 2);
    BAD(header.table.buckets = 3511);
    BAD(header.table.buckets = UINT32_MAX);
    BAD(header.sections[0].unit = 0);
    BAD(header.sections[0].unit = good.sections[0].unit - 1);
    BAD(header.sections[0].unit = good.sections[0].unit * 2);
    BAD(header.sections[0].unit = UINT64_MAX);
    BAD(header.sections[0].unit = UINT64_C(1) << 63);
    BAD(header.table.size = good.table.size - 1);
    BAD(header.table.size = good.table.size + 1);
    BAD(header.table.size = 0);
    BAD(header.table.size = UINT64_MAX);
    BAD(header.table.seed = good.table.seed + 1);
    BAD(header.table.max_load = 0);
    BAD(header.table.max_load = -1);
    BAD(header.table.max_load = 0.00999); /* a table with this load could not grow */
    BAD(header.table.max_load = 1e-300);
    BAD(header.table.max_load = 0.96); /* loom_map_create refuses this load */
    BAD(header.table.max_load = 1.5);
    BAD(header.table.max_load = (double)NAN);
    BAD(header.table.max_load = (double)INFINITY);
    BAD(header.table.parameters[0] = 1);
    BAD(header.table.parameters[FILE_PARAMETERS - 1] = UINT64_MAX);
    BAD(header.table.reserved_4 = 1);
    BAD(header.table.reserved_8[1] = 1);
    BAD(header.file.reserved_4 = 1);
    BAD(header.file.reserved_8[0] = UINT64_MAX);
    BAD(header.file.tables = 2);
    BAD(header.file.tables = UINT32_MAX);
    BAD(header.file.file_bytes += 64);
    BAD(header.sections[0].table = 1);
    BAD(header.sections[0].id = 0);
    BAD(header.sections[0].id = 2);
    BAD(header.sections[0].id = UINT32_MAX);
    BAD(header.sections[0].at += 64);
    BAD(header.sections[0].at = UINT64_MAX);
    BAD(header.sections[0].checksums_at -= 64);
    BAD(header.sections[0].checksums_at = 0);
    BAD(header.sections[0].bytes = 0);
    BAD(header.sections[0].bytes -= 1); /* the section still ends in the same place */
    BAD(header.sections[0].bytes = UINT64_MAX);
    BAD(header.sections[0].bytes = UINT64_MAX - 63);
    BAD(header.sections[0].reserved_8[0] = 1);
    BAD(header.sections[0].unit = good.sections[0].bytes); /* as many checksums as before */
    BAD(header.sections[0].unit = 1);
    BAD(header.sections[0].checksums_checksum ^= 1);
    /* A file whose type or value width is wrong, or both, is refused: a map is not loaded as a set, nor a set as a
     * map. */
    if (t->value_bytes) {
        BAD(header.table.type = LOOM_TYPE_SET);
        BAD(header.table.value_bytes = 0);
        BAD(header.table.type = LOOM_TYPE_SET; lie_about_widths(&header, t->key_bytes, 0));
        LIE(header.table.type = LOOM_TYPE_COUNTER, LOOM_OK, LOOM_OK); /* a counter is a map */
    } else {
        BAD(header.table.type = LOOM_TYPE_MAP);
        BAD(header.table.type = LOOM_TYPE_COUNTER);
        BAD(header.table.value_bytes = 4);
        BAD(header.table.value_bytes = 8);
        BAD(header.table.type = LOOM_TYPE_MAP; lie_about_widths(&header, t->key_bytes, 4));
        BAD(header.table.type = LOOM_TYPE_COUNTER; lie_about_widths(&header, t->key_bytes, 8));
    }
    saved_free(&s);
}

/* Later versions may store several tables in a file. This version returns LOOM_UNSUPPORTED for a sound header of two
 * tables. */
TEST(test_file_several_tables)
{
    t->key_bytes = t->value_bytes = 4;
    saved_table s = saved_make(t, 10, 10);
    loom__file_header header;
    unsigned char records[64 + 2 * 128 + 64] = {0};
    memcpy(&header, s.file, sizeof header);
    header.tables = 2;
    header.header_bytes = sizeof records;
    header.header_checksum = 0;
    memcpy(records, &header, sizeof header);
    header.header_checksum = loom__checksum(records, sizeof records, 0);
    memcpy(s.file, &header, sizeof header);
    memset(s.file + sizeof header, 0, sizeof records - sizeof header);
    saved_check_load(&s, s.file, s.bytes, LOOM_UNSUPPORTED, LOOM_UNSUPPORTED);
    saved_free(&s);
}

/* A file of gigabytes that consists of a header and a hole. The load fails at once, for lack of memory or because the
 * file is damaged. */
TEST(test_open_load_giant_hole)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 1);
    t->key_bytes = t->value_bytes = 4;
    saved_table s = saved_make(t, 10, 10);
    surgery_head header = surgery_header(s.file);
    header.table.partitions = 1 << 16;
    header.table.buckets = 3499;
    header.sections[0].unit = open_partition_bytes(SLOT_PAIR_4_4, 3499);
    header.sections[0].bytes = header.table.partitions * header.sections[0].unit;
    const off_t length = (off_t)surgery_place(&header);
    surgery_set_header(s.file, &header);
    surgery_sign_header(s.file);
    test_write_file(s.path, s.file, SURGERY_HEAD_BYTES);
    int file = open(s.path, O_WRONLY);
    CHECK(file >= 0);
    if (ftruncate(file, length) != 0)
        SKIP("no file of %lld bytes can be made here", (long long)length);
    close(file);
    loom_map *map = NULL;
    counting_limit(counter, 1 << 26);
    CHECK_REFUSED(loom_map_load(context, s.path, &map, NULL), LOOM_OUT_OF_MEMORY);
    CHECK(map == NULL);
    unlink(s.path);
    saved_free(&s);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* ---- Contents that lie, with right checksums ------------------------------------------------------------------ */

typedef struct slot_place {
    unsigned char *line;
    uint32_t slot;
    unsigned char *key;
    unsigned char *value;
} slot_place;

/* Slot number `index` of the whole table. */
static slot_place slot_at(saved_table *s, uint64_t index)
{
    surgery_head header = surgery_header(s->file);
    loom__slot_kind kind = slot_kind_of(header.table.key_bytes, header.table.value_bytes);
    uint64_t bucket = index / open_slots(kind), partition = bucket / header.table.buckets;
    unsigned char *base = surgery_partition(s->file, s->bytes, partition);
    slot_place place;
    CHECK(base != NULL);
    bucket %= header.table.buckets;
    place.slot = (uint32_t)(index % open_slots(kind));
    place.line = base + bucket * open_line_stride(kind);
    if (kind == SLOT_PAIR_4_4) {
        place.key = place.line + 8 * place.slot;
        place.value = place.key + 4;
    } else if (header.table.value_bytes == 0) {
        place.key = place.line + header.table.key_bytes * place.slot;
        place.value = NULL;
    } else {
        place.key = place.line + header.table.key_bytes * place.slot;
        place.value = place.line + open_value_offset(kind) + (uint64_t)place.slot * header.table.value_bytes;
    }
    return place;
}

static uint64_t slots_of(const saved_table *s)
{
    surgery_head header = surgery_header(s->file);
    return (uint64_t)header.table.partitions * header.table.buckets *
           open_slots(slot_kind_of(header.table.key_bytes, header.table.value_bytes));
}

/* The empty key of the partition that holds the slot, computed as the table does. */
static uint64_t empty_key(const saved_table *s, uint64_t slot)
{
    surgery_head header = surgery_header(s->file);
    loom__open_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.kind = slot_kind_of(header.table.key_bytes, header.table.value_bytes);
    shape.partitions = header.table.partitions;
    shape.buckets = header.table.buckets;
    loom__open_view view = loom__open_view_make(&shape, header.table.seed);
    return open_empty(&view, (uint32_t)(slot / open_slots(shape.kind) / header.table.buckets));
}

static int is_free(saved_table *s, uint64_t slot)
{
    surgery_head header = surgery_header(s->file);
    slot_place place = slot_at(s, slot);
    uint64_t key = 0;
    memcpy(&key, place.key, header.table.key_bytes);
    return key == empty_key(s, slot);
}

static void check_forged(saved_table *s, const unsigned char *original, const char *what)
{
    surgery_sign(s->file, s->bytes);
    test_note("%s", what);
    saved_check_load(s, s->file, s->bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    memcpy(s->file, original, s->bytes);
}

static void toggle_word(loom__slot_kind kind, unsigned char *line, unsigned bit)
{
    unsigned char *byte = line + open_word_offset(kind) + bit / 8;
    *byte = (unsigned char)(*byte ^ (1u << bit % 8));
}

/* Breaks each invariant of the layout, one at a time. */
TEST_EACH_KIND(test_open_load_forged_contents)
{
    saved_table s = saved_make(t, 40, 40);
    unsigned char *original = test_allocate(s.bytes);
    memcpy(original, s.file, s.bytes);
    surgery_head header = surgery_header(s.file);
    loom__slot_kind kind = slot_kind_of(header.table.key_bytes, header.table.value_bytes);
    uint64_t slots = slots_of(&s), done[6] = {0, 0, 0, 0, 0, 0};
    for (uint64_t i = 0; i < slots; i++) {
        slot_place place = slot_at(&s, i);
        if (is_free(&s, i)) {
            /* I3: a value that is not zero in a free slot. */
            if (place.value) {
                place.value[random_below(&t->random, header.table.value_bytes)] ^= 0x40;
                check_forged(&s, original, "a value in a free slot");
                done[0]++;
            }
            /* I4: a ready bit that is set for a free slot. */
            if (slot_values_apart(kind)) {
                toggle_word(kind, place.line, place.slot);
                check_forged(&s, original, "a ready bit on a free slot");
                done[1]++;
            }
            continue;
        }
        /* I1: a key that belongs elsewhere. By chance the new key may belong here, and then the file is sound. */
        memset(place.key, (int)(random_u64(&t->random) & 0xff), header.table.key_bytes);
        surgery_sign(s.file, s.bytes);
        if (saved_try_load(&s, s.file, s.bytes) != LOOM_OK)
            done[2]++;
        memcpy(s.file, original, s.bytes);
        /* I4: a ready bit that is clear for a key. */
        if (slot_values_apart(kind)) {
            toggle_word(kind, place.line, place.slot);
            check_forged(&s, original, "no ready bit on a key");
            done[3]++;
        }
        /* I1: a second copy of the key in a free slot of the same bucket. The header counts it. */
        for (uint64_t j = i - i % open_slots(kind); j < i - i % open_slots(kind) + open_slots(kind); j++) {
            slot_place other = slot_at(&s, j);
            if (!is_free(&s, j))
                continue;
            memcpy(other.key, place.key, header.table.key_bytes);
            if (place.value)
                memcpy(other.value, place.value, header.table.value_bytes);
            if (slot_values_apart(kind))
                toggle_word(kind, other.line, other.slot);
            surgery_head more = header;
            more.table.size++;
            surgery_set_header(s.file, &more);
            check_forged(&s, original, "a key twice");
            done[4]++;
            break;
        }
    }
    /* I2: all filter bits cleared, although keys are displaced. */
    loom_map *map = NULL;
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    CHECK_OK(loom_map_load(s.context, s.nameless_path, &map, NULL));
    if (map_stats(map).displaced > 0) {
        uint64_t ready = ((uint64_t)1 << open_ready_bits(kind)) - 1;
        for (uint64_t i = 0; i < slots; i += open_slots(kind)) {
            unsigned char *at = slot_at(&s, i).line + open_word_offset(kind);
            const size_t bytes = open_has_narrow_word(kind) ? 4 : 8;
            uint64_t word = 0;
            memcpy(&word, at, bytes);
            word &= ready;
            memcpy(at, &word, bytes);
        }
        check_forged(&s, original, "filter bits gone");
    }
    loom_map_destroy(map);
    if (t->value_bytes)
        CHECK_GT(done[0], 0);
    CHECK_GT(done[2], 0);
    CHECK_GT(done[4], 0);
    if (slot_values_apart(kind)) {
        CHECK_GT(done[1], 0);
        CHECK_GT(done[3], 0);
    }
    free(original);
    saved_free(&s);
}
