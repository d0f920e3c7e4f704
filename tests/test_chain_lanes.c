/* The chain engine's algorithms for lanes, by one lane of a CPU: lists that are longer than those of the simulator. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
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
