/* Internals of perfect partitions: what a lookup reads, how full a partition gets, and every way to make room. */
#define LOOM_LANES_HEADER "harness/counting_lanes.h"
#include "engines/perfect/perfect_room.h"
#include "engines/perfect/perfect_survey.h"
#include "harness/map_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two partitions, of which the tests fill one. */
typedef struct fixture {
    loom__perfect_view view;
    loom__slot_kind kind;
    perfect_scratch *scratch;
    perfect_owner owner;
    uint64_t *keys; /* the stored keys */
    uint32_t count, slots;
} fixture;

static void start_again(fixture *f, uint64_t seed)
{
    const lane_team team = {0};
    const lane_group alone = {0};
    loom__perfect_shape shape = {
        .kind = f->kind, .partitions = 2, .subrange = f->view.subrange, .words = f->view.words};
    loom__perfect_view view = loom__perfect_view_make(&shape, seed);
    view.base = f->view.base;
    view.codes = f->view.codes;
    view.totals = f->view.totals;
    view.marks = f->view.marks;
    f->view = view;
    memset(view.marks, 0, 2 * sizeof *view.marks);
    for (uint32_t partition = 0; partition < 2; partition++) {
        f->owner = perfect_own(&f->view, 1 - partition, team, alone, 0);
        perfect_empty_partition(f->kind, &f->owner, 0);
    }
    f->owner = perfect_own(&f->view, 0, team, alone, 0);
    f->count = 0;
}

/* The owner points to the view, so a fixture must not be copied. */
static void make_fixture(fixture *f, const test_run *t, uint32_t subrange, uint32_t words, int with_spare)
{
    *f = (fixture){.kind = slot_kind_of(t->key_bytes, t->value_bytes)};
    const uint64_t bytes = perfect_partition_bytes(f->kind, subrange);
    f->slots = perfect_buckets(subrange) * perfect_slots(f->kind);
    f->view.subrange = subrange;
    f->view.words = words;
    f->view.base = aligned_alloc(64, 2 * bytes);
    f->view.codes = calloc(2 * words, sizeof *f->view.codes);
    f->view.marks = calloc(2, sizeof *f->view.marks);
    f->view.totals = calloc(1, sizeof *f->view.totals);
    f->scratch = calloc(1, perfect_scratch_bytes(subrange));
    f->scratch->spare = with_spare ? aligned_alloc(64, bytes + (words * 8 + 63) / 64 * 64) : NULL;
    f->keys = calloc(f->slots + 1, sizeof *f->keys);
    start_again(f, 1);
}

static void free_fixture(fixture *f)
{
    free(f->view.base);
    free(f->view.codes);
    free(f->view.marks);
    free(f->view.totals);
    free(f->scratch->spare);
    free(f->scratch);
    free(f->keys);
}

static uint64_t next_key(test_run *t, const fixture *f)
{
    uint64_t key;
    do
        key = cut_word(random_u64(&t->random), slot_key_bytes(f->kind));
    while (perfect_start(f->kind, &f->view, key).partition_index != 0);
    return key;
}

static perfect_outcome insert_directly(fixture *f, uint64_t key, uint64_t value)
{
    perfect_seek seek = perfect_seek_key(f->kind, &f->view, key);
    return perfect_insert_alone(f->kind, SLOT_KEEP, LOOM__ADD, 0, f->owner.alone, &f->view, &seek, &value);
}

static uint64_t value_of(const fixture *f, uint64_t key)
{
    return value_for(key, slot_value_bytes(f->kind));
}

/* Inserts a key as a machine does. */
static perfect_outcome insert_key(fixture *f, uint64_t key)
{
    perfect_outcome outcome = insert_directly(f, key, value_of(f, key));
    if (outcome == PERFECT_OVERFLOW) {
        if (!perfect_make_room(f->kind, &f->owner, f->scratch, key) &&
            !perfect_make_room_anew(f->kind, &f->owner, f->scratch, key))
            return PERFECT_NO_ROOM;
        outcome = insert_directly(f, key, value_of(f, key));
        CHECK_EQ(outcome, PERFECT_DONE);
    }
    if (outcome == PERFECT_DONE)
        f->keys[f->count++] = key;
    return outcome;
}

static int is_found(fixture *f, uint64_t key, uint64_t *value)
{
    perfect_seek seek = perfect_seek_key(f->kind, &f->view, key);
    perfect_look look = perfect_find(f->kind, 0, f->owner.alone, &seek, 1);
    if (look.found && slot_value_bytes(f->kind) != 0)
        *value =
            f->kind == SLOT_PAIR_4_4
                ? look.pair >> 32
                : slot_load_value(f->kind, perfect_value(f->kind, &f->view, seek.partition, seek.bucket, look.slot));
    return look.found != 0;
}

/* All invariants hold, and every key is there with its value. */
static void check_partition(fixture *f)
{
    perfect_sums sums = {0};
    for (uint32_t bucket = 0; bucket < perfect_buckets(f->view.subrange); bucket++)
        perfect_survey_bucket(f->kind, f->owner.alone, &f->view, 0, bucket, &sums);
    CHECK_EQ(sums.lowest_bad_inverted, 0);
    CHECK_EQ(sums.size, f->count);
    CHECK(perfect_salts_agree(&f->view, 0));
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t value = 0;
        CHECK(is_found(f, f->keys[i], &value));
        CHECK_EQ(value, value_of(f, f->keys[i]));
    }
    for (uint32_t i = 0; i < perfect_buckets(f->view.subrange); i++)
        CHECK_EQ(*perfect_shift_word(f->scratch, i), 0);
}

static uint32_t stashed(const fixture *f)
{
    return perfect_used(f->kind, &f->owner, perfect_stash(&f->view));
}

/* ---- What a lookup reads ---- */

/* A lookup reads one word of codes and one bucket: for keys in every place, for keys in the stash, and for absent
 * keys. */
TEST_EACH_KIND(test_perfect_find_reads_one_bucket, .cpu_only = 1)
{
    fixture f;
    make_fixture(&f, t, 16, 24, 0);
    uint32_t in_stash = 0;
    while (insert_key(&f, next_key(t, &f)) != PERFECT_NO_ROOM)
        continue;
    CHECK(stashed(&f) > 0);
    CHECK(f.view.totals->stashed > 0);
    for (uint32_t i = 0; i < f.count; i++) {
        perfect_seek seek = perfect_seek_key(f.kind, &f.view, f.keys[i]);
        in_stash += seek.bucket == perfect_stash(&f.view);
        lines_taken = words_loaded = 0;
        seek = perfect_seek_key(f.kind, &f.view, f.keys[i]);
        CHECK(perfect_find(f.kind, 0, f.owner.alone, &seek, 1).found);
        CHECK_EQ(lines_taken, 1);
        CHECK_EQ(words_loaded, 1);
    }
    CHECK_EQ(in_stash, stashed(&f));
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t value, key = next_key(t, &f);
        lines_taken = words_loaded = 0;
        int found = is_found(&f, key, &value);
        CHECK(lines_taken == 1 && (found || words_loaded == 1));
    }
    free_fixture(&f);
}

/* ---- How full it gets ---- */

enum { CACHE_BYTES = 60 << 20 }; /* tables for MANY_KEYS have larger cells for it */

#define MANY_KEYS 400000000

/* Fills partitions of the shape that tables for this many keys have, each until the first key is refused. Every
 * partition holds the keys it was made for. The test prints how many more it holds. */
static void check_loads_reached(test_run *t, uint64_t capacity, double max_load, uint32_t rounds)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom__perfect_shape shape;
    config.key_bytes = t->key_bytes;
    config.value_bytes = t->value_bytes;
    config.capacity = capacity;
    config.max_load = max_load;
    CHECK_OK(loom__perfect_choose_shape(&config, CACHE_BYTES, &shape));
    fixture f;
    make_fixture(&f, t, shape.subrange, shape.words, 1);
    double least = 1, sum = 0;
    uint32_t reseeded = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        start_again(&f, random_u64(&t->random));
        while (f.count < f.slots && insert_key(&f, next_key(t, &f)) != PERFECT_NO_ROOM)
            continue;
        CHECK(f.count >= f.view.made_for);
        if (round == 0)
            check_partition(&f);
        double reached = (double)f.count / f.slots;
        least = reached < least ? reached : least;
        sum += reached;
        reseeded += f.owner.salt != 0;
    }
    fprintf(stderr,
            "%llu keys at %.2f: load %.4f, %u partitions of %u buckets with %u slots, %.2f keys to a cell, made for "
            "%.4f; first key refused at %.4f on average, %.4f at least, of %u partitions, %u of them reseeded\n",
            (unsigned long long)capacity, max_load, (double)capacity / (double)shape.slots, shape.partitions,
            perfect_buckets(shape.subrange), perfect_slots(f.kind),
            (double)capacity / shape.partitions / shape.words / PERFECT_CELLS_PER_WORD,
            (double)f.view.made_for / f.slots, sum / rounds, least, rounds, reseeded);
    free_fixture(&f);
}

/* What perfect_shape.c counts on. */
TEST_EACH_KIND(test_perfect_insert_load_reached, .long_tier = 1, .cpu_only = 1, .timeout_seconds = 240)
{
    static const double loads[] = {0.3, 0.55, 0.65, 0.8, 0.9, 0.92, 0.95};
    static const uint64_t capacities[] = {1, 100, 2000, 50000, 100000000, MANY_KEYS};
    for (uint32_t i = 0; i < sizeof loads / sizeof *loads; i++)
        for (uint32_t j = 0; j < sizeof capacities / sizeof *capacities; j++)
            check_loads_reached(t, capacities[j], loads[i], t->quick ? 1 : 2);
}

/* Minutes: for the record, by --run. */
TEST_EACH_KIND(test_perfect_insert_load_of_1000_partitions, .cpu_only = 1, .timeout_seconds = 1800, .hidden = 1)
{
    static const double loads[] = {0.55, 0.8, 0.9, 0.95};
    for (uint32_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        check_loads_reached(t, 100000000, loads[i], 1000);
        check_loads_reached(t, MANY_KEYS, loads[i], 1000);
    }
}

/* A table has the requested load, unless it is small: then one partition more or less matters. */
TEST_EACH_KIND(test_perfect_create_load_as_asked, .cpu_only = 1)
{
    static const double loads[] = {0.2, 0.55, 0.7, 0.8, 0.9};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom__perfect_shape shape;
    config.key_bytes = t->key_bytes;
    config.value_bytes = t->value_bytes;
    config.capacity = 100000000;
    for (uint32_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        config.max_load = loads[i];
        CHECK_OK(loom__perfect_choose_shape(&config, 0, &shape));
        CHECK((double)config.capacity / (double)shape.slots > loads[i] - 0.0005);
        CHECK(shape.subrange <= PERFECT_PREFERRED_SUBRANGE);
    }
    config.max_load = 0.95;
    CHECK_OK(loom__perfect_choose_shape(&config, 0, &shape));
    /* Partitions whose values lie outside of the lines have fewer buckets, and the numbers of their keys vary more. */
    const double most = !slot_values_apart(shape.kind) ? 0.948 : t->key_bytes + t->value_bytes == 16 ? 0.926 : 0.935;
    CHECK((double)config.capacity / (double)shape.slots > most);
}

/* ---- Ways to make room ---- */

/* Keys of one cell. */
static uint64_t key_of_cell(test_run *t, const fixture *f, uint32_t cell)
{
    uint64_t key;
    do
        key = next_key(t, f);
    while (perfect_cell(perfect_place_of_key(f->kind, &f->view, key)) != cell);
    return key;
}

static int is_among(const uint64_t *keys, uint32_t n, uint64_t key)
{
    for (uint32_t i = 0; i < n; i++)
        if (keys[i] == key)
            return 1;
    return 0;
}

/* More keys with equal rotations than a bucket has slots: no code places them, and the stash is too small. The
 * insertion reseeds the partition. */
TEST_EACH_KIND(test_perfect_insert_reseeds, .cpu_only = 1)
{
    fixture f;
    make_fixture(&f, t, 2, 8, 1);
    uint32_t rotations[2] = {0, 0}, refused = 0;
    uint64_t keys[32];
    for (uint32_t i = 0; i <= perfect_slots(f.kind); i++) {
        uint64_t key;
        perfect_place place;
        do {
            key = key_of_cell(t, &f, 0x21);
            place = perfect_place_of_key(f.kind, &f.view, key);
        } while (i > 0 && (is_among(keys, i, key) || perfect_rotation(place.remainder, 0, 0) != rotations[0] ||
                           perfect_rotation(place.remainder, 0, 1) != rotations[1]));
        keys[i] = key;
        rotations[0] = perfect_rotation(place.remainder, 0, 0);
        rotations[1] = perfect_rotation(place.remainder, 0, 1);
        refused += insert_key(&f, key) == PERFECT_NO_ROOM;
    }
    CHECK_EQ(refused, 0);
    CHECK(f.owner.salt != 0);
    CHECK_EQ(perfect_salt(f.owner.words[0]), f.owner.salt);
    check_partition(&f);
    free_fixture(&f);
}

/* More keys in a cell than its buckets hold: some are refused, and none is lost. After an erasure, a key fits again. */
TEST_EACH_KIND(test_perfect_insert_exhausted_partition, .cpu_only = 1)
{
    fixture f;
    make_fixture(&f, t, 8, 8, 1);
    const uint32_t most = 8 * perfect_slots(f.kind);
    uint32_t salt;
    while (f.count < most && insert_key(&f, key_of_cell(t, &f, 0x37)) == PERFECT_DONE)
        continue;
    CHECK(f.count > most / 4);
    for (uint32_t i = 0; i < most && perfect_mark_in(f.view.marks[0]) == PERFECT_UNMARKED; i++)
        insert_key(&f, key_of_cell(t, &f, 0x37));
    CHECK_EQ(perfect_mark_in(f.view.marks[0]), PERFECT_EXHAUSTED);
    check_partition(&f);
    salt = f.owner.salt;
    while (insert_key(&f, key_of_cell(t, &f, 0x37)) != PERFECT_NO_ROOM)
        continue;
    CHECK_EQ(f.owner.salt, salt);
    check_partition(&f);
    perfect_seek seek = perfect_seek_key(f.kind, &f.view, f.keys[f.count - 1]);
    CHECK_EQ(perfect_erase(f.kind, 0, f.owner.alone, &f.view, &seek, 1), PERFECT_DONE);
    CHECK_EQ(perfect_mark_in(f.view.marks[0]), PERFECT_UNMARKED);
    CHECK_EQ(insert_key(&f, f.keys[--f.count]), PERFECT_DONE);
    check_partition(&f);
    free_fixture(&f);
}

/* Replaces keys, five times as many as there are slots. The partition stays as good as new. */
TEST_EACH_KIND(test_perfect_erase_churn_no_drift, .cpu_only = 1, .timeout_seconds = 120)
{
    const uint32_t subrange = t->quick ? 8 : 64;
    fixture f;
    make_fixture(&f, t, subrange, (uint32_t)(perfect_buckets(subrange) * 16 * 0.9 / 4 / 15 / 8 + 1) * 8, 0);
    const uint32_t full = f.slots / 10 * 9;
    for (uint32_t i = 0; i < 6 * f.slots; i++) {
        if (f.count >= full) {
            uint32_t which = (uint32_t)random_below(&t->random, f.count);
            perfect_seek seek = perfect_seek_key(f.kind, &f.view, f.keys[which]);
            CHECK_EQ(perfect_erase(f.kind, 0, f.owner.alone, &f.view, &seek, 1), PERFECT_DONE);
            f.keys[which] = f.keys[--f.count];
        }
        CHECK(insert_key(&f, next_key(t, &f)) != PERFECT_NO_ROOM);
    }
    check_partition(&f);
    free_fixture(&f);
}

/* ---- What a search for room costs (perfect_effort.h) ---- */

static void erase_at(fixture *f, uint32_t which)
{
    perfect_seek seek = perfect_seek_key(f->kind, &f->view, f->keys[which]);
    CHECK_EQ(perfect_erase(f->kind, 0, f->owner.alone, &f->view, &seek, 1), PERFECT_DONE);
    f->keys[which] = f->keys[--f->count];
}

static void erase_any(test_run *t, fixture *f)
{
    erase_at(f, (uint32_t)random_below(&t->random, f->count));
}

/* Erases and inserts so many keys, one after the other. Returns how many were refused. */
static uint32_t churn(test_run *t, fixture *f, uint32_t pairs)
{
    uint32_t refused = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        erase_any(t, f);
        refused += insert_key(f, next_key(t, f)) == PERFECT_NO_ROOM;
    }
    return refused;
}

/* A partition whose cells are as large as those of a table for load 0.9. */
static void make_usual_fixture(fixture *f, const test_run *t, uint32_t subrange)
{
    const uint32_t in_bucket = perfect_slots(slot_kind_of(t->key_bytes, t->value_bytes));
    const double keys = perfect_buckets(subrange) * in_bucket * 0.9, cell_keys = in_bucket == 16 ? 5.5 : 4;
    make_fixture(f, t, subrange, (uint32_t)(keys / cell_keys / PERFECT_CELLS_PER_WORD) + 1, 1);
}

static uint64_t lines_and_words(void)
{
    return lines_taken + words_loaded;
}

/* Keys come and go in a partition that refuses keys. For each key that has left, a search makes a few moves. A move
 * reads sixteen buckets for each key in a bucket. If each search made all its plans, it would read some 20,000. */
TEST_EACH_KIND(test_perfect_insert_at_brim_bounded, .cpu_only = 1)
{
    fixture f;
    make_usual_fixture(&f, t, 100);
    const uint32_t pairs = f.slots / 20;
    for (uint32_t refused = 0; refused < f.slots;)
        refused += insert_key(&f, next_key(t, &f)) == PERFECT_NO_ROOM;
    CHECK(f.count >= f.view.made_for);
    lines_taken = 0;
    uint32_t refused = 0, stored = 0;
    for (uint32_t i = 0; i < 1000; i++) { /* nothing has left: no search */
        stored += insert_key(&f, next_key(t, &f)) == PERFECT_DONE;
        CHECK_EQ(lines_taken, i + 1);
    }
    lines_taken = 0;
    refused = churn(t, &f, pairs);
    CHECK(refused > pairs / 10);
    const uint64_t most = 2 * (1 + PERFECT_RETURNED) * 16 * perfect_slots(f.kind);
    fprintf(stderr, "%.0f lines a pair, at most %llu; %u of %u refused, %u stored at once\n",
            (double)lines_taken / pairs, (unsigned long long)most, refused, pairs, stored);
    CHECK(lines_taken / pairs <= most);
    check_partition(&f);
    free_fixture(&f);
}

/* Keys chosen for one cell, in a partition that may be reseeded. Each time another key leaves, and comes back. Deals
 * are few: those on credit, and those that the keys that left have paid for. */
TEST_EACH_KIND(test_perfect_insert_chosen_keys_bounded, .cpu_only = 1)
{
    fixture f;
    make_usual_fixture(&f, t, 40);
    const uint32_t cell = 0x37, price = perfect_deal_price(&f.view), pairs = 4 * price;
    while (f.count < f.view.made_for * 9 / 10)
        insert_key(&f, next_key(t, &f));
    const uint32_t others = f.count;
    lines_taken = words_loaded = 0;
    CHECK(f.owner.salt == 0);
    const uint64_t key = next_key(t, &f);
    uint32_t word = 0;
    CHECK(perfect_reseed(f.kind, &f.owner, f.scratch, key, &word)); /* what one deal reads */
    CHECK_EQ(perfect_debt_in(word), price);
    const uint64_t deal = lines_and_words();
    while (insert_key(&f, key_of_cell(t, &f, cell)) != PERFECT_NO_ROOM)
        continue;
    uint32_t refused = 0;
    uint64_t work = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        const uint32_t which = (uint32_t)random_below(&t->random, others);
        const uint64_t other = f.keys[which], comes = key_of_cell(t, &f, cell);
        lines_taken = words_loaded = 0;
        erase_at(&f, which);
        refused += insert_key(&f, comes) == PERFECT_NO_ROOM;
        work += lines_and_words();
        (void)insert_key(&f, other);
    }
    const uint64_t most = (PERFECT_DEALS + pairs / price + 1) * deal + pairs * 2 * 16 * 16 * (1 + PERFECT_RETURNED);
    fprintf(stderr, "%u pairs, %u refused: %.1f deals, at most %.1f\n", pairs, refused, (double)work / (double)deal,
            (double)most / (double)deal);
    CHECK(refused > pairs / 2);
    CHECK(work <= most);
    check_partition(&f);
    free_fixture(&f);
}

/* Fills a cell with keys that the partition's present salt does not place, until it is reseeded or refuses a key.
 * Returns how many keys there are; they are the last ones. */
static uint32_t insert_against_salt(test_run *t, fixture *f, uint32_t cell)
{
    const uint32_t salt = f->owner.salt, before = f->count;
    uint32_t rotations[2] = {0, 0};
    for (uint32_t i = 0; i <= perfect_slots(f->kind) && f->owner.salt == salt; i++) {
        uint64_t key;
        uint32_t found[2];
        do {
            key = key_of_cell(t, f, cell);
            const perfect_place place = perfect_place_of_key(f->kind, &f->view, key);
            for (uint32_t mapping = 0; mapping < 2; mapping++)
                found[mapping] = perfect_rotation(place.remainder, salt, mapping);
        } while (is_among(f->keys, f->count, key) || (i > 0 && (found[0] != rotations[0] || found[1] != rotations[1])));
        memcpy(rotations, found, sizeof rotations);
        if (insert_key(f, key) == PERFECT_NO_ROOM)
            break;
    }
    return f->count - before;
}

/* Keys chosen for the present salt ask for one deal after the other, and each deal succeeds. They get the deals on
 * credit, and those that keys that left have paid for. */
TEST_EACH_KIND(test_perfect_insert_chosen_for_salt_bounded, .cpu_only = 1)
{
    fixture f;
    make_fixture(&f, t, 16, 8, 1);
    const uint32_t price = perfect_deal_price(&f.view), rounds = 2 * PERFECT_DEALS;
    uint32_t deals = 0, left = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        const uint32_t salt = f.owner.salt;
        uint32_t keys = insert_against_salt(t, &f, 0x21);
        deals += f.owner.salt != salt;
        for (left += keys; keys > 0; keys--)
            erase_at(&f, f.count - 1);
    }
    fprintf(stderr, "%u deals in %u rounds, %u keys left, %u pay for a deal\n", deals, rounds, left, price);
    CHECK(deals >= PERFECT_DEALS / 2);
    CHECK(deals <= PERFECT_DEALS + left / price);
    check_partition(&f);
    free_fixture(&f);
}

/* Keys that fit are stored, however much trouble the partition has had: one key that left is enough for that. A few
 * moves are too few for one key in 10^5 at this load. When many keys have left, the partition is as good as new. */
TEST_EACH_KIND(test_perfect_insert_tired_partition_takes_keys, .cpu_only = 1)
{
    fixture f;
    make_usual_fixture(&f, t, 100);
    const uint32_t worst = perfect_put_off(&f.view, perfect_tired(PERFECT_EXHAUSTED), 100);
    while (f.count < f.slots * 8 / 10)
        CHECK(insert_key(&f, next_key(t, &f)) != PERFECT_NO_ROOM);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        f.view.marks[0] = worst;
        erase_any(t, &f);
        refused += insert_key(&f, next_key(t, &f)) == PERFECT_NO_ROOM;
    }
    CHECK(refused <= 2);
    f.view.marks[0] = worst;
    for (uint32_t debt = perfect_debt_in(worst); debt > 0; debt--) {
        CHECK_EQ(perfect_debt_in(f.view.marks[0]), debt);
        erase_any(t, &f);
    }
    CHECK_EQ(f.view.marks[0], 0);
    check_partition(&f);
    free_fixture(&f);
}
