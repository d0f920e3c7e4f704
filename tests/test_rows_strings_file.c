/* Tables with byte strings in files: damaged ones, and golden ones; and a word list. */
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/strings_fixture.h"

#include "engines/open/open_rows.h"

/* ---- Files ------------------------------------------------------------------------------------------------ */

/* The file of a table whose keys and values are strings. */
static unsigned char *make_file(test_run *t, loom_context *context, size_t *bytes)
{
    universe u = make_universe(LOOM_VARIABLE, LOOM_VARIABLE, 20, 30, 60);
    loom_map_config config = config_of(&u, 60);
    loom_map *map = make_map_from(context, &config);
    rows r = draw_rows(t, &u, u.keys.n, 0);
    insert_rows(map, &u, &r, LOOM_KEEP, 0);
    CHECK_OK(loom_map_save(map, test_path(t, "sound"), NULL));
    free_rows(&r);
    free_universe(&u);
    loom_map_destroy(map);
    return test_read_file(test_path(t, "sound"), bytes);
}

TEST(test_rows_strings_damaged_files_are_refused, .every_machine = 1)
{
    loom_context *context = make_context(t);
    size_t bytes;
    unsigned char *file = make_file(t, context, &bytes);
    loom_map *loaded;
    for (size_t at = 0; at < bytes; at += t->quick ? 61 : 7) {
        file[at] ^= 16;
        test_write_file(test_path(t, "damaged"), file, bytes);
        CHECK(loom_map_load(context, test_path(t, "damaged"), &loaded, NULL) != LOOM_OK);
        file[at] ^= 16;
    }
    free(file);
    loom_context_destroy(context);
}

/* References that lead out of the heap, or to another string, in files whose checksums are right. */
TEST(test_rows_strings_crafted_references_are_refused, .every_machine = 1)
{
    loom_context *context = make_context(t);
    size_t bytes;
    unsigned char *file = make_file(t, context, &bytes);
    loom_map *loaded;
    const surgery_head head = surgery_header(file);
    CHECK_EQ(head.file.sections, 3);
    const uint64_t heap = head.sections[2].bytes, row_bytes = 2 * sizeof(open_stored);
    const uint64_t line_unit = head.sections[0].unit, row_unit = head.sections[1].unit;
    CHECK_EQ(row_unit, line_unit / OPEN_LINE_BYTES * open_slots(SLOT_TAG) * row_bytes);
    uint32_t changed = 0;
    for (uint64_t slot = 0; slot < head.sections[1].bytes / row_bytes; slot++) {
        const uint64_t bucket = slot / open_slots(SLOT_TAG);
        uint16_t tag;
        memcpy(&tag, file + head.sections[0].at + bucket * OPEN_LINE_BYTES + slot % open_slots(SLOT_TAG) * 2, 2);
        if (tag == 0)
            continue;
        for (int value = 0; value < 2; value++) {
            unsigned char *at = file + head.sections[1].at + slot * row_bytes + (value ? sizeof(open_stored) : 0);
            open_stored sound, bad[5];
            memcpy(&sound, at, sizeof sound);
            for (int i = 0; i < 5; i++)
                bad[i] = sound;
            bad[0].at = heap;
            bad[1].at = UINT64_MAX - 7;
            bad[2].length = UINT32_MAX;
            bad[3].at += 1;
            bad[4].mark = value ? UINT32_MAX - 7 : sound.mark + 1;
            for (int i = 0; i < 5; i++) {
                if (sound.length == 0 && (i < 2 || i == 3)) /* the empty string may lie anywhere */
                    continue;
                test_note("slot %llu, %s, change %d", (unsigned long long)slot, value ? "value" : "key", i);
                memcpy(at, &bad[i], sizeof sound);
                surgery_sign(file, bytes);
                test_write_file(test_path(t, "crafted"), file, bytes);
                CHECK_REFUSED(loom_map_load(context, test_path(t, "crafted"), &loaded, NULL), LOOM_BAD_FILE);
                changed++;
            }
            memcpy(at, &sound, sizeof sound);
        }
    }
    CHECK_GE(changed, 200);
    free(file);
    loom_context_destroy(context);
}

/* References of two rows, or of one, that share bytes of the heap, in files whose checksums are right. Hashes and
 * lengths are right, too: nothing but the overlap tells. */
TEST(test_rows_strings_overlapping_pieces_are_refused)
{
    loom_context *context = make_context(t);
    size_t bytes;
    unsigned char *file = make_file(t, context, &bytes);
    loom_map *loaded;
    const surgery_head head = surgery_header(file);
    const uint64_t heap = head.sections[2].bytes, row_bytes = 2 * sizeof(open_stored);
    uint64_t last = UINT64_MAX;
    uint32_t refused = 0;
    for (uint64_t slot = 0; slot < head.sections[1].bytes / row_bytes; slot++) {
        const uint64_t bucket = slot / open_slots(SLOT_TAG);
        uint16_t tag;
        memcpy(&tag, file + head.sections[0].at + bucket * OPEN_LINE_BYTES + slot % open_slots(SLOT_TAG) * 2, 2);
        unsigned char *at = file + head.sections[1].at + slot * row_bytes + sizeof(open_stored);
        open_stored sound, bad, other;
        memcpy(&sound, at, sizeof sound);
        if (tag == 0 || sound.mark == 0)
            continue;
        for (int i = 0; i < 4; i++) {
            bad = sound;
            if (i == 0 && last != UINT64_MAX) { /* the value of another row */
                memcpy(&other, file + last, sizeof other);
                bad.at = other.at;
                bad.mark = 8;
                bad.length = bad.length < 8 ? bad.length : 8;
            } else if (i == 1) { /* the key of the same row */
                memcpy(&other, at - sizeof(open_stored), sizeof other);
                if (other.length == 0)
                    continue;
                bad.at = other.at + (other.length - 1) / 8 * 8; /* its last word */
                bad.mark = 8;
                bad.length = bad.length < 8 ? bad.length : 8;
            } else if (i == 2) { /* from its begin to the end of the heap: over all that come later */
                bad.mark = (uint32_t)(heap - sound.at);
            } else if (i == 3) { /* the whole heap */
                bad.at = 0;
                bad.mark = (uint32_t)heap;
            }
            if (memcmp(&bad, &sound, sizeof bad) == 0)
                continue;
            test_note("slot %llu, change %d", (unsigned long long)slot, i);
            memcpy(at, &bad, sizeof bad);
            surgery_sign(file, bytes);
            test_write_file(test_path(t, "crafted"), file, bytes);
            const loom_status status = loom_map_load(context, test_path(t, "crafted"), &loaded, NULL);
            if (status == LOOM_OK) { /* the last string of the heap may have all that follows */
                CHECK_EQ(i, 2);
                loom_map_destroy(loaded);
            } else {
                CHECK_EQ(status, LOOM_BAD_FILE);
                refused++;
            }
            memcpy(at, &sound, sizeof sound);
        }
        last = (uint64_t)(at - file);
    }
    CHECK_GE(refused, 120);
    free(file);
    loom_context_destroy(context);
}

/* Without memory to look for pieces that overlap, no file is accepted. */
TEST(test_rows_strings_overlapping_pieces_without_memory)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    const char *path = test_path(t, "crafted");
    size_t bytes;
    unsigned char *file = make_file(t, context, &bytes);
    const surgery_head head = surgery_header(file);
    const uint64_t row_bytes = 2 * sizeof(open_stored);
    unsigned char *last = NULL;
    for (uint64_t slot = 0; slot < head.sections[1].bytes / row_bytes; slot++) {
        unsigned char *at = file + head.sections[1].at + slot * row_bytes + sizeof(open_stored);
        open_stored value;
        memcpy(&value, at, sizeof value);
        if (value.mark == 0)
            continue;
        if (last != NULL) { /* two rows with one value */
            memcpy(at, last, sizeof value);
            break;
        }
        last = at;
    }
    surgery_sign(file, bytes);
    test_write_file(path, file, bytes);
    check_never_loaded(counter, context, path);
    free(file);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* The golden files of tables with strings: the library must read them, and write the same bytes, for ever. `loom_tests
 * --write-golden-strings DIR` writes them anew; tests/test_file_golden.c says when. */
enum { GOLDEN = 150 };

/* What the values are, and the layout. */
enum { NUMBERS, STRINGS, STRINGS_APART, GOLDEN_FILES };

static universe golden_universe(int which)
{
    universe u =
        make_universe(LOOM_VARIABLE, which != NUMBERS ? LOOM_VARIABLE : 8, 40, which != NUMBERS ? 25 : 0, GOLDEN);
    u.layout = which == STRINGS_APART ? LOOM_LAYOUT_APART : LOOM_LAYOUT_TOGETHER;
    return u;
}

static loom_map *make_golden(loom_context *context, universe *u)
{
    loom_map_config config = config_of(u, GOLDEN);
    config.string_bytes = 8192;
    loom_map *map = NULL;
    rows r = {.n = GOLDEN, .keys = u->keys, .values = make_texts(u->value_bytes, GOLDEN, 25)};
    for (uint64_t i = 0; i < GOLDEN; i++) {
        u->numbers[i] = i * UINT64_C(0xd1342543de82ef95) + 7;
        u->present[i] = !is_too_long(u, i);
        add_value(u, &r, u->numbers[i]);
    }
    CHECK_OK(loom_map_create(context, &config, &map));
    (void)loom_map_insert(map, argument_of(&r.keys), argument_of(&r.values), GOLDEN, LOOM_KEEP | LOOM_IN_ORDER, NULL,
                          NULL, NULL);
    const loom_strings third = {u->keys.offsets + 3, u->keys.bytes};
    CHECK_OK(loom_map_erase(map, &third, 1, NULL, NULL, NULL)); /* unused bytes are part of files */
    u->present[3] = 0;
    free_texts(&r.values);
    return map;
}

static loom_context *golden_context(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 1; /* threads that fill partitions side by side take pieces of the heap in any order */
    config.fixed_seed = 1;
    config.seed = UINT64_C(0x10c0ffee);
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

static void golden_path(char *path, size_t bytes, const char *directory, int which)
{
    snprintf(path, bytes, "%s/golden_rows_%smap_strings_%s.loom", directory, which == STRINGS_APART ? "apart_" : "",
             which != NUMBERS ? "strings" : "8");
}

TEST_MODE(write_golden_strings, "--write-golden-strings")
{
    for (int which = 0; which < GOLDEN_FILES; which++) {
        char path[512];
        loom_context *context = golden_context();
        universe u = golden_universe(which);
        loom_map *map = make_golden(context, &u);
        golden_path(path, sizeof path, argument, which);
        CHECK_OK(loom_map_save(map, path, NULL));
        loom_map_destroy(map);
        free_universe(&u);
        loom_context_destroy(context);
    }
    return 0;
}

TEST(test_rows_strings_golden_files)
{
    for (int which = 0; which < GOLDEN_FILES; which++) {
        char path[512];
        loom_context *context = golden_context();
        universe u = golden_universe(which);
        loom_map *map = make_golden(context, &u), *loaded = NULL;
        size_t bytes, wanted_bytes;
        golden_path(path, sizeof path, t->data, which);
        CHECK_OK(loom_map_load(context, path, &loaded, NULL));
        check_all(t, loaded, &u);
        CHECK_OK(loom_map_save(map, test_path(t, "again"), NULL));
        unsigned char *file = test_read_file(test_path(t, "again"), &bytes),
                      *wanted = test_read_file(path, &wanted_bytes);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(file, wanted, bytes);
        free(file);
        free(wanted);
        loom_map_destroy(loaded);
        loom_map_destroy(map);
        free_universe(&u);
        loom_context_destroy(context);
    }
}

/* ---- Words ------------------------------------------------------------------------------------------------ */

/* A word list of Debian (package wamerican, which ./dev setup installs): every word goes in, and is found. */
TEST(test_rows_strings_word_list, .every_machine = 1)
{
    static const char path[] = "/usr/share/dict/words";
    FILE *there = fopen(path, "rb");
    if (there == NULL)
        SKIP("%s is not here; install a word list, for example Debian's wamerican (./dev setup)", path);
    fclose(there);
    size_t bytes;
    unsigned char *text = test_read_file(path, &bytes);
    texts words = make_texts(LOOM_VARIABLE, bytes + 1, 1);
    for (size_t at = 0, end; at < bytes; at = end + 1) {
        for (end = at; end < bytes && text[end] != '\n'; end++)
            continue;
        add_text(&words, text + at, end - at);
    }
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL;
    config.key_bytes = LOOM_VARIABLE;
    config.value_bytes = 8;
    CHECK_OK(loom_map_create(context, &config, &map));
    uint64_t *numbers = test_allocate(words.n * sizeof *numbers), *found = test_allocate(words.n * sizeof *found);
    for (uint64_t i = 0; i < words.n; i++)
        numbers[i] = i;
    loom_result result = {0};
    CHECK_OK(loom_map_insert(map, &words.given, numbers, words.n, LOOM_KEEP | LOOM_IN_ORDER, NULL, &result, NULL));
    CHECK_EQ(result.ok + result.exists, words.n);
    CHECK_EQ(map_size(map), result.ok);
    CHECK_OK(loom_map_find(map, &words.given, words.n, found, NULL, NULL, &result, NULL));
    CHECK_EQ(result.ok, words.n);
    for (uint64_t i = 0; i < words.n; i++) {
        uint64_t length, other_length;
        const unsigned char *word = text_at(&words, i, &length), *other = text_at(&words, found[i], &other_length);
        CHECK(found[i] <= i);
        CHECK_EQ(length, other_length);
        CHECK_BYTES(word, other, length);
    }
    checked_verify(map);
    free(numbers);
    free(found);
    free(text);
    free_texts(&words);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
