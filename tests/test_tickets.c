/* What only tables of the tickets engine have: sizes of tickets, loads up to 1, retired tickets, boards that may lie. The
 * tests of every engine and the models of test_rows_widths.c run for them, too. */
#include "harness/file_surgery.h"
#include "harness/map_model.h"
#include "harness/saved_table.h"

#include <string.h>

static loom_map_config ticket_config(test_run *t, uint32_t bits, uint64_t capacity)
{
    loom_map_config config = make_config(t, capacity);
    config.engine = LOOM_ENGINE_TICKETS;
    config.ticket_bits = bits;
    return config;
}

static loom_map_config config_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config;
}

static const uint32_t sizes[] = {1, 2, 4, 8};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A table that grows keeps the size of tickets, and so does a file. */
TEST_EACH_KIND(test_tickets_grow, .long_tier = 1)
{
    loom_context *context = make_context(t);
    for (int i = 0; i < SIZES; i++) {
        loom_map_config config = ticket_config(t, sizes[i], 10);
        config.growth = 2;
        loom_map *map = make_map_from(context, &config);
        batch b = make_batch(t, t->quick ? 20000 : 200000);
        fill_distinct(&b, random_u64(&t->random), 0);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        check_contents(map, &b);
        checked_verify(map);
        CHECK_GE(map_stats(map).capacity, b.n);
        CHECK_EQ(config_of(map).ticket_bits, sizes[i]);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* Erases keys first .. first + n - 1, and finds the others up to `end`. */
static void erase_and_check(test_run *t, loom_map *map, uint64_t salt, uint64_t first, uint64_t n, uint64_t end)
{
    batch gone = make_batch(t, n), kept = make_batch(t, end - first - n);
    fill_distinct(&gone, salt, first);
    CHECK_EQ(checked_erase(map, &gone).ok, n);
    fill_distinct(&kept, salt, first + n);
    check_contents(map, &kept);
    checked_verify(map);
    free_batch(&gone);
    free_batch(&kept);
}

/* Without free tickets left, searches end at the partition's depth. Upkeep makes retired tickets free again; first
 * while many keys lie deep, then when few are left. */
TEST_EACH_KIND(test_tickets_upkeep_frees_retired_tickets)
{
    enum { KEYS = 4000, SOME = 300, FEW = 400 };
    loom_context *context = make_context(t);
    loom_map_config config = ticket_config(t, 0, KEYS);
    config.max_load = 0.95;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, KEYS);
    const uint64_t salt = random_u64(&t->random);
    fill_distinct(&b, salt, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    const double when_full = map_stats(map).accesses_per_miss;
    CHECK(when_full > 6); /* at load 0.87 */
    erase_and_check(t, map, salt, 0, SOME, KEYS);
    CHECK(map_stats(map).accesses_per_miss < 0.8 * when_full);
    erase_and_check(t, map, salt, SOME, KEYS - SOME - FEW, KEYS);
    CHECK(map_stats(map).accesses_per_miss < 1.5);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* All checksums are right, but tickets say what is not so: the survey finds it. */
TEST_EACH_KIND(test_tickets_damaged_boards_are_refused)
{
    t->engine = LOOM_ENGINE_TICKETS;
    saved_table s = saved_make(t, 1000, 900);
    unsigned char *board = surgery_partition(s.file, s.bytes, 0);
    CHECK(board != NULL);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    /* Of seven tickets: available, access, seven bits of info; and the bit that is left. */
    for (uint32_t bit = 0; bit < 64; bit++) {
        const int is_free = board[bit / 9 * 9 / 8] >> bit / 9 * 9 % 8 & 1;
        if (bit % 9 == 1 && is_free)
            continue; /* a retired ticket may be here, too */
        board[bit / 8] ^= (unsigned char)(1 << bit % 8);
        surgery_sign(s.file, s.bytes);
        saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
        board[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    surgery_sign(s.file, s.bytes);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    saved_free(&s);
}

/* Gives a table more keys than it has slots: `n`, from number `first` on. Stores some, and answers for all of them. */
static loom_result overfill(test_run *t, loom_map *map, uint64_t salt, uint64_t first, uint64_t n)
{
    batch b = make_batch(t, n);
    fill_distinct(&b, salt, first);
    const loom_result told = checked_insert(map, &b, LOOM_KEEP);
    CHECK_EQ(told.ok + told.full, n);
    checked_verify(map);
    batch seen = copy_batch(&b);
    CHECK_EQ(checked_contains(map, &seen).ok, told.ok);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(seen.found[i], b.status[i] == LOOM_OK);
    free_batch(&seen);
    free_batch(&b);
    return told;
}

/* Beyond the capacity, keys are taken as long as they find a ticket within their reach. In partitions that are no
 * larger, every probe sequence visits all slots: a key is refused only when its whole partition is taken. */
TEST_EACH_KIND(test_tickets_full_to_the_last_slot)
{
    enum { SLOTS = 1009 };
    loom_context *context = make_context(t);
    for (int i = 0; i < SIZES; i++) {
        loom_map_config config = ticket_config(t, sizes[i], SLOTS / 2);
        config.max_load = 0.5;
        config.buckets_per_partition = SLOTS;
        loom_map *map = make_map_from(context, &config);
        const loom_stats empty = map_stats(map);
        CHECK_EQ(empty.slots, empty.partitions * SLOTS);
        CHECK_EQ(overfill(t, map, random_u64(&t->random), 0, 3 * empty.slots).ok, empty.slots);
        CHECK_LE(map_stats(map).longest_chain, SLOTS);
        CHECK(map_stats(map).load == 1);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* In larger partitions a key may find no ticket within reach before all are taken, but only far beyond any promised
 * load. */
TEST_EACH_KIND(test_tickets_full_within_reach)
{
    enum { SLOTS = 20011 };
    loom_context *context = make_context(t);
    loom_map_config config = ticket_config(t, 8, SLOTS / 2);
    config.max_load = 0.5;
    config.buckets_per_partition = SLOTS;
    loom_map *map = make_map_from(context, &config);
    const loom_stats empty = map_stats(map);
    batch b = make_batch(t, 200);
    const uint64_t salt = random_u64(&t->random);
    uint64_t full = 0, given = 0;
    for (; full == 0 && given < 2 * empty.slots; given += b.n) {
        fill_distinct(&b, salt, given);
        full = checked_insert(map, &b, LOOM_KEEP).full;
    }
    test_note("full at load %.4f", map_stats(map).load);
    CHECK_GE(full, 1);
    CHECK(map_stats(map).load > 0.98);
    CHECK(map_stats(map).load < 1);
    CHECK_LE(map_stats(map).longest_chain, 1024);
    free_batch(&b);
    overfill(t, map, salt, given, SLOTS / 10);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_tickets_config)
{
    loom_context *context = make_context(t);
    loom_map *map = NULL;
    loom_map_config config = ticket_config(t, 0, 1000);
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    map = make_map_from(context, &config);
    CHECK_EQ(config_of(map).ticket_bits, 8);
    CHECK_EQ(config_of(map).row_place, LOOM_ROWS_IN_HOST_MEMORY);
    CHECK_EQ(config_of(map).engine, LOOM_ENGINE_TICKETS);
    CHECK(map_stats(map).host_bytes > 1000 * 16);
    loom_map_destroy(map);
    for (uint32_t bits = 3; bits < 20; bits = bits == 3 ? 5 : bits + 4) { /* 3, 5, 9, 13, 17 */
        config.ticket_bits = bits;
        CHECK_EQ(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
        CHECK(strstr(loom_last_error(), "ticket_bits") != NULL);
    }
    config = ticket_config(t, 4, 1000);
    config.engine = LOOM_ENGINE_ROWS;
    CHECK_EQ(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), "LOOM_ENGINE_TICKETS") != NULL);
    config = ticket_config(t, 4, 1000);
    config.key_bytes = LOOM_VARIABLE;
    CHECK_EQ(loom_map_create(context, &config, &map), LOOM_UNSUPPORTED);
    config = ticket_config(t, 4, 1000);
    config.buckets_per_partition = 1000; /* not a prime */
    CHECK_EQ(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    config.buckets_per_partition = 0;
    config.row_place = (loom_row_place)2;
    CHECK_EQ(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}
