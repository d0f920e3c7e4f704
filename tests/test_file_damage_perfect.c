/* Files of perfect tables whose headers or contents are wrong while all checksums are right. The library refuses them,
 * as it refuses those of open tables. */
#include "harness/file_surgery.h"
#include "harness/saved_table.h"

#include <stdlib.h>
#include <string.h>

#include "engines/perfect/perfect_layout.h"

TEST_EACH_KIND(test_perfect_load_lying_headers, .cpu_only = 1)
{
    t->engine = LOOM_ENGINE_PERFECT;
    saved_table s = saved_make(t, 100, 100);
    const surgery_head good = surgery_header(s.file);
    CHECK_EQ(good.table.engine, LOOM_ENGINE_PERFECT);
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
    /* Words of codes in a partition. */
    BAD(header.table.parameters[0] = 0);
    BAD(header.table.parameters[0] = good.table.parameters[0] + 1);
    BAD(header.table.parameters[0] = good.table.parameters[0] - 1);
    BAD(header.table.parameters[0] = PERFECT_MOST_WORDS + 1);
    BAD(header.table.parameters[0] = good.table.parameters[0] + (UINT64_C(1) << 32));
    BAD(header.table.parameters[0] = UINT64_MAX);
    /* The section of the codes. */
    BAD(header.table.parameters[1] = 1);
    BAD(header.sections[1].bytes = 0);
    BAD(header.sections[1].bytes -= 8);
    BAD(header.sections[1].bytes += 8);
    BAD(header.sections[1].bytes = UINT64_MAX);
    BAD(header.sections[1].unit = good.sections[1].bytes);
    BAD(header.sections[1].unit = 8);
    BAD(header.sections[1].at += 64);
    BAD(header.sections[1].id = 1);
    BAD(header.sections[1].id = 3);
    BAD(header.sections[1].table = 1);
    BAD(header.sections[0].id = 2; header.sections[1].id = 1); /* the sections exchanged */
    BAD(header.table.partitions = good.table.partitions - 1);
    BAD(header.table.partitions = good.table.partitions + 1);
    BAD(header.file.sections = 1);
    BAD(header.file.sections = 0);
    BAD(header.file.sections = 3);
    BAD(header.file.sections = UINT32_MAX);
    BAD(header.table.partitions = 0);
    BAD(header.table.partitions = 1);
    BAD(header.table.partitions = PERFECT_MOST_PARTITIONS + 1);
    BAD(header.table.partitions = UINT32_MAX);
    BAD(header.table.buckets = 0);
    BAD(header.table.buckets = 1);
    BAD(header.table.buckets = 8);
    BAD(header.table.buckets = good.table.buckets + 1);
    BAD(header.table.buckets = good.table.buckets + 8);
    BAD(header.table.buckets = good.table.buckets - 8);
    BAD(header.table.buckets = perfect_buckets(PERFECT_MOST_SUBRANGE) + 8);
    BAD(header.table.buckets = UINT32_MAX);
    BAD(header.sections[0].unit = 0);
    BAD(header.sections[0].unit = good.sections[0].unit - 64);
    BAD(header.sections[0].unit = good.sections[0].unit * 2);
    BAD(header.sections[0].unit = UINT64_MAX);
    BAD(header.table.size = good.table.size - 1);
    BAD(header.table.size = good.table.size + 1);
    BAD(header.table.size = UINT64_MAX);
    BAD(header.table.capacity = UINT64_MAX);
    BAD(header.table.seed = good.table.seed + 1);
    BAD(header.table.max_load = 0.00999); /* a table with this load could not grow */
    BAD(header.table.max_load = 1e-300);
    BAD(header.table.max_load = 0.96);
    LIE(header.table.engine = LOOM_ENGINE_OPEN, LOOM_BAD_FILE, LOOM_FOREIGN_VERSION);
    LIE(header.table.engine = 4, LOOM_BAD_FILE, LOOM_UNSUPPORTED);
    LIE(header.table.layout_version = 0, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
    LIE(header.table.layout_version = PERFECT_LAYOUT_VERSION + 1, LOOM_FOREIGN_VERSION, LOOM_FOREIGN_VERSION);
    if (t->value_bytes)
        BAD(header.table.type = LOOM_TYPE_SET; header.table.value_bytes = 0);
    else
        BAD(header.table.type = LOOM_TYPE_MAP; header.table.value_bytes = 8);
    saved_free(&s);
}

/* ---- Contents ---- */

/* A view struct whose table is the file in memory. */
static loom__perfect_view view_of(saved_table *s)
{
    const surgery_head header = surgery_header(s->file);
    const loom__perfect_shape shape = {
        .kind = slot_kind_of(header.table.key_bytes, header.table.value_bytes),
        .partitions = header.table.partitions,
        .subrange = header.table.buckets / PERFECT_SUBRANGES,
        .words = (uint32_t)header.table.parameters[0],
    };
    loom__perfect_view view = loom__perfect_view_make(&shape, header.table.seed);
    view.base = surgery_partition(s->file, s->bytes, 0);
    view.codes = (uint64_t *)surgery_unit(s->file, s->bytes, 1, 0);
    CHECK(view.base != NULL && view.codes != NULL);
    return view;
}

typedef struct slot_place {
    unsigned char *key, *value; /* value: NULL in sets */
    uint32_t partition, bucket;
} slot_place;

static slot_place place_of(const loom__perfect_view *view, uint64_t index)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    const uint32_t slots = perfect_slots(kind), buckets = perfect_buckets(view->subrange);
    const uint64_t slot = index % slots, bucket = index / slots % buckets, partition = index / slots / buckets;
    unsigned char *base = view->base + partition * view->partition_bytes;
    slot_place place = {.partition = (uint32_t)partition, .bucket = (uint32_t)bucket};
    place.key = base + bucket * perfect_line_stride(kind) + slot * slot_stride(kind);
    if (kind == SLOT_PAIR_4_4)
        place.value = place.key + 4;
    else if (slot_values_apart(kind))
        place.value = base + perfect_value_offset(kind, buckets) + bucket * perfect_value_stride(kind) +
                      slot * slot_value_bytes(kind);
    return place;
}

static int is_free(const loom__perfect_view *view, slot_place place)
{
    uint64_t key = 0;
    memcpy(&key, place.key, slot_key_bytes((loom__slot_kind)view->kind));
    return key == perfect_empty(view, place.partition);
}

/* The first free slot of the partition: in the given bucket if `same_bucket`, otherwise in any other bucket. */
static int find_free(const loom__perfect_view *view, slot_place from, int same_bucket, slot_place *found)
{
    const uint64_t slots = (uint64_t)perfect_buckets(view->subrange) * perfect_slots((loom__slot_kind)view->kind);
    for (uint64_t i = from.partition * slots; i < (from.partition + 1) * slots; i++) {
        *found = place_of(view, i);
        if ((found->bucket == from.bucket) == same_bucket && is_free(view, *found))
            return 1;
    }
    return 0;
}

static void copy_pair(const loom__perfect_view *view, slot_place to, slot_place from)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    memcpy(to.key, from.key, slot_key_bytes(kind));
    if (to.value)
        memcpy(to.value, from.value, slot_value_bytes(kind));
}

static void empty_slot(const loom__perfect_view *view, slot_place place)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    const uint64_t empty = perfect_empty(view, place.partition);
    memcpy(place.key, &empty, slot_key_bytes(kind));
    if (place.value)
        memset(place.value, 0, slot_value_bytes(kind));
}

typedef struct forgery {
    saved_table *s;
    unsigned char *original;
} forgery;

static void check_forged(forgery *f, int64_t more_keys, const char *what)
{
    surgery_head header = surgery_header(f->s->file);
    header.table.size += (uint64_t)more_keys;
    surgery_set_header(f->s->file, &header);
    surgery_sign(f->s->file, f->s->bytes);
    test_note("%s", what);
    saved_check_load(f->s, f->s->file, f->s->bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    memcpy(f->s->file, f->original, f->s->bytes);
}

/* Breaks each invariant of perfect_ops.h, one at a time. */
TEST_EACH_KIND(test_perfect_load_forged_contents, .cpu_only = 1)
{
    t->engine = LOOM_ENGINE_PERFECT;
    saved_table s = saved_make(t, 60, 60);
    forgery f = {.s = &s, .original = test_allocate(s.bytes)};
    memcpy(f.original, s.file, s.bytes);
    const loom__perfect_view view = view_of(&s);
    const loom__slot_kind kind = (loom__slot_kind)view.kind;
    const uint64_t slots = (uint64_t)view.partitions * perfect_buckets(view.subrange) * perfect_slots(kind);
    uint64_t moved = 0, twice = 0, strange = 0, valued = 0;
    for (uint64_t i = 0; i < slots; i++) {
        slot_place place = place_of(&view, i), other;
        if (is_free(&view, place)) {
            if (place.value) { /* P2 */
                place.value[random_below(&t->random, slot_value_bytes(kind))] ^= 0x40;
                check_forged(&f, 0, "a value in a free slot");
                valued++;
            }
            continue;
        }
        if (find_free(&view, place, 0, &other)) { /* P1 */
            copy_pair(&view, other, place);
            empty_slot(&view, place);
            check_forged(&f, 0, "a key in another bucket");
            copy_pair(&view, other, place);
            check_forged(&f, 1, "a key in its bucket and another");
            moved++;
        }
        if (find_free(&view, place, 1, &other)) {
            copy_pair(&view, other, place);
            check_forged(&f, 1, "a key twice in its bucket");
            twice++;
        }
        empty_slot(&view, place);
        check_forged(&f, 0, "a key less than the header says");
        /* A key that belongs elsewhere. By chance the new key may belong here, and then the file is sound. */
        memset(place.key, (int)(random_u64(&t->random) & 0xff), slot_key_bytes(kind));
        surgery_sign(s.file, s.bytes);
        strange += saved_try_load(&s, s.file, s.bytes) != LOOM_OK;
        memcpy(s.file, f.original, s.bytes);
    }
    CHECK(moved > 0 && twice > 0 && strange > 0 && (valued > 0 || t->value_bytes == 0));
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    free(f.original);
    saved_free(&s);
}

TEST_EACH_KIND(test_perfect_load_forged_codes, .cpu_only = 1)
{
    t->engine = LOOM_ENGINE_PERFECT;
    saved_table s = saved_make(t, 1000, 1000);
    forgery f = {.s = &s, .original = test_allocate(s.bytes)};
    memcpy(f.original, s.file, s.bytes);
    const loom__perfect_view view = view_of(&s);
    const uint64_t words = (uint64_t)view.partitions * view.words;
    uint64_t refused = 0;
    CHECK_GT(view.words, 1);
    for (uint64_t i = 0; i < words; i++) {
        view.codes[i] ^= (1 + random_below(&t->random, 15)) << 60; /* P3 */
        check_forged(&f, 0, "a word with a salt of its own");
        view.codes[i] ^= (1 + random_below(&t->random, 15)) << 4 * random_below(&t->random, 15);
        surgery_sign(s.file, s.bytes);
        refused += saved_try_load(&s, s.file, s.bytes) != LOOM_OK; /* a cell without keys may have any code */
        memcpy(s.file, f.original, s.bytes);
    }
    CHECK_GT(refused, words / 2);
    for (uint64_t i = 0; i < words; i += view.words) {
        for (uint64_t word = i; word < i + view.words; word++)
            view.codes[word] ^= UINT64_C(1) << 60;
        check_forged(&f, 0, "another salt in all words of a partition");
    }
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    free(f.original);
    saved_free(&s);
}
