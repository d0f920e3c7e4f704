/* The chain engine's algorithms for lanes, by one lane of a CPU: lists that are longer than those of the simulator. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/chain/chain_check.h"
#include "engines/chain/chain_ops.h"
#include "harness/harness.h"
#include "machines/cpu/multi/cpu_multi.h"
#include "machines/cpu/open/cpu_open.h"

#include <stdlib.h>
#include <string.h>

/* A table of two partitions, outside any map. */
typedef struct lane_table {
    loom__multi_view view;
    loom__totals totals;
    loom__multi_totals lists;
    uint32_t marks[2], stale[2], retired_slots[2];
    void *memory;
} lane_table;

static void make_table(lane_table *table, uint32_t value_bytes, uint64_t room)
{
    const loom__open_shape shape = {SLOT_KEY_8_VALUE_8, 2, 31};
    memset(table, 0, sizeof *table);
    const uint64_t directory_bytes = 2 * open_partition_bytes(shape.kind, shape.buckets);
    table->memory = aligned_alloc(64, (directory_bytes + room * value_bytes + 63) / 64 * 64);
    CHECK(table->memory != NULL);
    table->view = (loom__multi_view){.directory = loom__open_view_make(&shape, 7),
                                     .heap = (unsigned char *)table->memory + directory_bytes,
                                     .lists = &table->lists,
                                     .room = room,
                                     .value_bytes = value_bytes,
                                     .most = LIST_MOST_VALUES,
                                     .first_bucket = 2,
                                     .bucket_growth = 1024};
    loom__open_view *directory = &table->view.directory;
    directory->base = table->memory;
    directory->totals = &table->totals;
    directory->marks = table->marks;
    directory->stale = table->stale;
    directory->retired_slots = table->retired_slots;
    for (uint32_t partition = 0; partition < 2; partition++)
        loom__cpu_open_clear_partition(directory, partition);
}

static const lane_group whole_group = {0};

static chain_outcome append(lane_table *table, uint64_t key, uint64_t value)
{
    chain_walk walk = chain_start(SLOT_KEY_8_VALUE_8, &table->view, key);
    chain_answer answer;
    do {
        answer = chain_append_item(SLOT_KEY_8_VALUE_8, OPEN_SHARED, whole_group, &table->view, &walk, value, 1);
        table->totals.size += answer.new_key;
    } while (answer.outcome == CHAIN_GO_ON);
    table->lists.pairs += answer.outcome == CHAIN_DONE;
    table->lists.in_heap += answer.outcome == CHAIN_DONE ? answer.told.in_heap : 0;
    return answer.outcome;
}

static void check_sound(const lane_table *table)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom__machine *cpu;
    loom__survey survey = {0};
    config.threads = 1;
    config.simd = LOOM_SIMD_SCALAR;
    CHECK_OK(loom__cpu_machine.open(&config, &cpu));
    CHECK_OK(loom__cpu_multi_kernels.survey(cpu, &table->view, &survey, NULL));
    CHECK_EQ(survey.first_bad, UINT64_MAX);
    CHECK_EQ(survey.size, table->totals.size);
    CHECK_EQ(survey.pairs, table->lists.pairs);
    cpu->ops->close(cpu);
}

/* Two lists grow by turns past the count from which buckets begin at multiples. Every value is where it belongs. */
TEST(test_chain_lanes_long_lists)
{
    enum { VALUES = LIST_LARGE_FROM + 200000 };
    for (uint32_t value_bytes = 4; value_bytes <= 8; value_bytes += 4) {
        lane_table table;
        make_table(&table, value_bytes, 4 * VALUES);
        for (uint64_t i = 0; i < VALUES; i++) {
            CHECK_EQ(append(&table, 1, i), CHAIN_DONE);
            CHECK_EQ(append(&table, 2, VALUES + i), CHAIN_DONE);
        }
        check_sound(&table);
        for (uint64_t key = 1; key <= 2; key++) {
            uint64_t handle = 0, left = VALUES;
            loom__cpu_counts counts = {0};
            const loom__batch look = {.keys = &key, .found_values = &handle, .n = 1};
            loom__cpu_open_scalar.find(&table.view.directory, &look, 0, 1, 0, &counts);
            CHECK_EQ(counts.ok, 1);
            CHECK_EQ(list_kind(handle), LIST_LARGE);
            CHECK_EQ(list_count(handle), VALUES);
            loom__list_piece piece = chain_newest_piece(&table.view, handle);
            for (;; piece = chain_older_piece(&table.view, &piece)) {
                CHECK_EQ(piece.before + piece.count, left);
                for (uint64_t i = 0; i < piece.count; i++)
                    CHECK_EQ(chain_load_value(&table.view, piece.place + i), (key - 1) * VALUES + piece.before + i);
                left = piece.before;
                if (!piece.linked)
                    break;
            }
            CHECK_EQ(left, 0);
        }
        free(table.memory);
    }
}

/* The heap ends within a list, also in front of a bucket that would begin at a multiple: exactly the values that were
 * told are there. */
TEST(test_chain_lanes_end_of_the_heap)
{
    static const uint64_t rooms[] = {0, 1, 2, 3, 10, 1000, LIST_LARGE_FROM + 50000, LIST_LARGE_FROM + 90000};
    for (uint32_t value_bytes = 4; value_bytes <= 8; value_bytes += 4)
        for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
            lane_table table;
            uint64_t done = 0;
            make_table(&table, value_bytes, rooms[i]);
            while (append(&table, 5, done) == CHAIN_DONE)
                done++;
            test_note("room for %llu values, %llu stored", (unsigned long long)rooms[i], (unsigned long long)done);
            CHECK_GE(done, value_bytes == 4);
            CHECK_LE(done, rooms[i] > 1 ? rooms[i] : 1);
            CHECK_LE(chain_used(&table.view), rooms[i]);
            for (uint64_t key = 6; key < 9; key++) { /* one value of 4 bytes needs no room */
                const int fits = value_bytes == 4 || (table.lists.used <= rooms[i] && rooms[i] - table.lists.used >= 2);
                CHECK_EQ(append(&table, key, key) == CHAIN_DONE, fits);
            }
            table.lists.used = chain_used(&table.view);
            if (table.lists.bare == 0)
                check_sound(&table);
            free(table.memory);
        }
}

/* A handle that the engine never makes is not sound, although its list lies in the heap. */
TEST(test_chain_lanes_unsound_handles)
{
    enum { PLACE = 10, BEFORE = LIST_LARGE_FROM - 1 };
    lane_table table;
    (void)t;
    make_table(&table, 4, 200000);
    const struct {
        uint64_t before, count, flags;
        int sound;
    } lists[] = {
        {8, 9, 0, 1},
        {8, 10, 2 * LIST_ONE_FILL, 1},
        {8, 10, LIST_ONE_FILL, 0},
        {8, 10, 3 * LIST_ONE_FILL, 0},
        {8, 8 + 5, 5 * LIST_ONE_FILL, 0},       /* the bucket has room for four */
        {400, 400 + 60, 60 * LIST_ONE_FILL, 0}, /* such a bucket has no fill: it may get more than 63 values */
        {400, 400 + 60, 0, 1},                  /* its link tells */
        {BEFORE, LIST_LARGE_FROM, 0, 0},        /* its room ends behind the values that a LIST can count */
        {BEFORE, LIST_LARGE_FROM, LIST_EXACT, 1},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const uint64_t handle = list_make(LIST_SHORT, PLACE, lists[i].count, 0) | LIST_LINKED | lists[i].flags;
        uint64_t first, count;
        list_link_put(table.view.heap, 4, PLACE, list_link_make(0, 0, lists[i].before));
        chain_check walk = chain_check_begin(handle);
        test_note("list %zu", i);
        CHECK_EQ(chain_check_piece(&table.view, table.view.room, handle, &walk, &first, &count), lists[i].sound);
    }
    free(table.memory);
}

/* ---- Appends by lanes and calls of the cpu machine, by turns ----------------------------------------------- */

enum { MIXED_KEYS = 5, MIXED_MOST = 4000 };

typedef struct mixed_model {
    uint64_t values[MIXED_KEYS + 1][MIXED_MOST];
    uint64_t counts[MIXED_KEYS + 1];
} mixed_model;

/* Adds a few pairs, or erases one, by a call. */
static void call_cpu(test_run *t, loom__machine *cpu, lane_table *table, mixed_model *model, int erases)
{
    uint64_t keys[20], values[20], needed = 0;
    loom_result result = {0};
    test_random *draw = &t->random;
    loom__batch batch = {.keys = keys, .values = values, .write = LOOM__WRITE_KEEP, .result = &result};
    batch.values_needed = random_below(draw, 2) ? &needed : NULL; /* NULL: buckets without room behind their values */
    const uint64_t n = erases ? 1 : 1 + random_below(draw, 20);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t key = 1 + random_below(draw, MIXED_KEYS), value = random_below(draw, 1000);
        uint64_t *list = model->values[key], at = 0;
        keys[batch.n] = key;
        memcpy((char *)values + batch.n++ * table->view.value_bytes, &value, table->view.value_bytes);
        if (!erases) {
            list[model->counts[key]++] = value;
            continue;
        }
        while (at < model->counts[key] && list[at] != value)
            at++;
        if (at < model->counts[key]) /* the values behind it move up */
            memmove(list + at, list + at + 1, (size_t)(--model->counts[key] - at) * sizeof *list);
    }
    CHECK_OK(erases ? loom__cpu_multi_kernels.erase_pairs(cpu, &table->view, &batch)
                    : loom__cpu_multi_kernels.write(cpu, &table->view, &batch));
}

static void check_lists(const lane_table *table, const mixed_model *model)
{
    for (uint64_t key = 1; key <= MIXED_KEYS; key++) {
        uint64_t handle = 0;
        loom__cpu_counts counts = {0};
        const loom__batch look = {.keys = &key, .found_values = &handle, .n = 1};
        loom__cpu_open_scalar.find(&table->view.directory, &look, 0, 1, 0, &counts);
        CHECK_EQ(list_count(handle), model->counts[key]);
        if (!list_in_heap(handle)) {
            CHECK(list_count(handle) == 0 || list_one_value(handle) == model->values[key][0]);
            continue;
        }
        loom__list_piece piece = chain_newest_piece(&table->view, handle);
        for (;; piece = chain_older_piece(&table->view, &piece)) {
            for (uint64_t i = 0; i < piece.count; i++)
                CHECK_EQ(chain_load_value(&table->view, piece.place + i), model->values[key][piece.before + i]);
            if (!piece.linked)
                break;
        }
    }
}

/* Calls meet handles with a fill, and appends meet what calls have made of them. */
TEST(test_chain_lanes_and_calls_by_turns)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    static mixed_model model;
    loom__machine *cpu;
    config.threads = 1;
    config.simd = LOOM_SIMD_SCALAR;
    CHECK_OK(loom__cpu_machine.open(&config, &cpu));
    for (uint64_t round = 0; round < test_scaled(t, 200, 20); round++) {
        lane_table table;
        memset(&model, 0, sizeof model);
        make_table(&table, round % 2 == 0 ? 4 : 8, 100000);
        table.view.first_bucket = (uint16_t)(1 + random_below(&t->random, 40));
        table.view.bucket_growth = (uint16_t)random_below(&t->random, 4096);
        for (uint64_t step = 0; step < 100; step++) {
            const uint64_t what = random_below(&t->random, 10), key = 1 + random_below(&t->random, MIXED_KEYS);
            test_note("round %llu, step %llu", (unsigned long long)round, (unsigned long long)step);
            for (uint64_t i = random_below(&t->random, 30); what < 6 && i > 0; i--) {
                const uint64_t value = random_below(&t->random, 1000);
                CHECK_EQ(append(&table, key, value), CHAIN_DONE);
                model.values[key][model.counts[key]++] = value;
            }
            if (what >= 6)
                call_cpu(t, cpu, &table, &model, what == 9);
            if (step % 10 == 9)
                check_sound(&table);
        }
        check_lists(&table, &model);
        free(table.memory);
    }
    cpu->ops->close(cpu);
}
