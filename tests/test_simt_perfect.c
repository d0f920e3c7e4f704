/* The perfect engine's algorithms in the lane simulator: groups that write or move cells at the same time, teams that
 * make room or repair codes, and what a lookup reads. */
#include "simt/machine/simt_perfect.h"
#include "simt/sim_perfect_table.h"
#include "simt/sim_test.h"

#include <string.h>

TEST(test_simt_perfect_find_beside_find, .timeout_seconds = 240)
{
    run_case(t, "perfect/find+find", RUNS);
}
TEST(test_simt_perfect_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "perfect/insert+insert", RUNS);
}
TEST(test_simt_perfect_fetch_beside_fetch, .timeout_seconds = 240)
{
    run_case(t, "perfect/fetch+fetch", RUNS);
}
TEST(test_simt_perfect_accumulate_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "perfect/accumulate+accumulate", RUNS);
}
TEST(test_simt_perfect_update_beside_update, .timeout_seconds = 240)
{
    run_case(t, "perfect/update+update", RUNS);
}
TEST(test_simt_perfect_erase_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "perfect/erase+erase", RUNS);
}
TEST(test_simt_perfect_recode, .timeout_seconds = 240)
{
    run_case(t, "perfect/recode", RUNS / 2);
}

TEST(test_simt_perfect_repair, .timeout_seconds = 240)
{
    run_case(t, "perfect/repair", RUNS);
}

TEST(test_simt_perfect_room, .timeout_seconds = 240)
{
    run_case(t, "perfect/room", RUNS / 4); /* fewer runs: they are long */
}

/* ---- What a lookup reads ---- */

enum { MOST_STORED = 17 * 16 };

/* Words that the last run has loaded: of lines, of rows of values, of codes. */
typedef struct words_read {
    uint32_t lines, line_words, value_words, code_words, others;
} words_read;

static int is_line_word(uint64_t inside)
{
    const loom__slot_kind kind = sim_perfect.kind;
    if (kind == SLOT_KEY_8_VALUE_4)
        return inside < perfect_value_offset(kind, perfect_buckets(sim_perfect.view.subrange));
    return inside % perfect_line_stride(kind) < PERFECT_LINE_BYTES;
}

static words_read read_by_the_last_run(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    static uint8_t seen[SIMT_MOST_WORDS];
    const uint64_t lines_end = 2 * (uint64_t)view->partition_bytes;
    const uint64_t codes_end = lines_end + 2 * view->words * sizeof *view->codes;
    words_read read = {0};
    uint64_t last_line = UINT64_MAX;
    memset(seen, 0, sizeof seen);
    CHECK(simt.traced <= SIMT_TRACE);
    for (uint64_t i = 0; i < simt.traced; i++) {
        const simt_event *event = &simt.trace[i];
        CHECK(event->word < 0 || event->op == SIMT_LOAD); /* a lookup only loads */
        if (event->word < 0)
            continue;
        const uint64_t offset = 8 * (uint64_t)event->word, inside = offset % view->partition_bytes;
        const int again = seen[event->word]++;
        if (offset >= codes_end) {
            read.others++;
        } else if (offset >= lines_end) {
            read.code_words += !again;
        } else if (!is_line_word(inside)) {
            read.value_words++;
        } else {
            uint64_t line = offset / PERFECT_LINE_BYTES; /* lines are aligned */
            read.line_words += !again;
            read.others += (uint32_t)again; /* a word that was loaded before */
            if (line != last_line)
                read.lines++;
            last_line = line;
        }
    }
    return read;
}

/* One lookup by one group. */
static words_read look_up(uint32_t lanes, uint64_t key, loom_status *status)
{
    static simt_schedule schedule;
    simt_map_item item = {.key = key, .status = LOOM_INTERNAL};
    simt_perfect_call call = {.op = SIMT_MAP_FIND, .view = sim_perfect.view, .items = &item, .n = 1, .groups = 1};
    simt_config config = {.group_lanes = lanes, .warp_lanes = 8, .weak_memory = 1, .step_limit = SIM_STEP_LIMIT};
    simt_call launch = {
        .kernel = simt_perfect_run, .argument = &call, .name = "find", .groups = 1, .warps_per_block = 1};
    simt_schedule_random(&schedule, key);
    simt_begin(&config, &schedule, sim_perfect_memory, sim_perfect.bytes);
    simt_launch(0, &launch);
    if (!simt_run())
        FAIL("%s", simt.failure);
    sim_state state = sim_perfect_read(key);
    CHECK_EQ(item.status, state.present ? LOOM_OK : LOOM_NOT_FOUND);
    CHECK_EQ(item.found, state.value);
    *status = item.status;
    return read_by_the_last_run();
}

/* A lookup reads one bucket, each word of its line once, and one word of codes, for groups of any width. This holds for
 * keys in every place, for keys in the stash, and for absent keys, including those of stashed cells. A hit also reads
 * its value if values lie outside of the slots. */
TEST(test_simt_perfect_find_reads_one_bucket)
{
    for (uint32_t kind = SLOT_PAIR_4_4; kind <= SLOT_KEY_8; kind++) {
        static uint64_t keys[MOST_STORED];
        uint32_t stored = 0, found_in_stash = 0, missed_in_stash = 0;
        sim_perfect_make((loom__slot_kind)kind, 2, 2 * perfect_slots((loom__slot_kind)kind) / 8, 5 + kind, 0);
        while (stored < MOST_STORED) { /* when a key is refused, the stash is in use */
            uint64_t key = random_u64(&t->random) >> (slot_key_bytes((loom__slot_kind)kind) == 4 ? 32 : 0);
            if (sim_perfect_partition_of(key) != 0 || sim_perfect_read(key).present)
                continue;
            if (!sim_perfect_store(key, slot_value_bytes((loom__slot_kind)kind) ? stored + 1 : 0, 1))
                break;
            keys[stored++] = key;
        }
        for (uint32_t i = 0; i < 2 * stored || (missed_in_stash == 0 && i < 100 * stored); i++) {
            uint64_t key =
                i < stored ? keys[i] : random_u64(&t->random) >> (slot_key_bytes((loom__slot_kind)kind) == 4 ? 32 : 0);
            for (uint32_t lanes = 1; lanes <= 8; lanes *= 2) {
                loom_status status;
                words_read read = look_up(lanes, key, &status);
                CHECK_EQ(status == LOOM_OK, i < stored);
                CHECK_EQ(read.lines, 1);
                CHECK_EQ(read.line_words, PERFECT_LINE_BYTES / 8);
                CHECK_EQ(read.code_words, 1);
                CHECK_EQ(read.value_words, status == LOOM_OK && slot_values_apart((loom__slot_kind)kind));
                CHECK_EQ(read.others, 0);
            }
            found_in_stash += i < stored && sim_perfect_in_stash(key);
            missed_in_stash += i >= stored && sim_perfect_in_stash(key);
        }
        CHECK(found_in_stash > 0);
        CHECK(missed_in_stash > 0);
    }
}
