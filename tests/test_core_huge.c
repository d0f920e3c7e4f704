/* Numbers beyond 32 bits, without the memory that they are about: plans of splits, sizes of tables, addresses of slots.
 * tests/test_huge.c has tables of these sizes. */
#include "harness/map_fixture.h"

#include "core/hash.h"
#include "core/split_plan.h"
#include "core/table_slots.h"

#include <string.h>

/* ---- Plans of splits ---- */

static loom__split_request request_of(uint64_t n, uint32_t parts, uint32_t head_bytes, uint32_t tail_bytes)
{
    loom__split_request request = {
        .n = n, .keys = n, .parts = parts, .head_bytes = head_bytes, .tail_bytes = tail_bytes};
    return request;
}

/* What must hold for every plan: each part has a region, regions have room for more than their share, and nothing
 * overlaps. */
static void check_plan(const loom__split_request *request, const loom__split_plan *plan)
{
    const uint64_t n = request->n, record = request->head_bytes + request->tail_bytes + (request->with_index ? 4 : 0);
    CHECK_GE(plan->fine, request->parts);
    CHECK_GE((uint64_t)plan->fine_room * request->parts, n);
    CHECK_GE(plan->fine_bytes, plan->fine_room * record);
    CHECK_LE(plan->fine_room, INT32_MAX);
    CHECK_GE(plan->counter_bytes, ((uint64_t)plan->fine + plan->coarse + 1) * LOOM__SPLIT_FILL_STRIDE * 4);
    CHECK_GE(plan->spill_at, plan->counter_bytes);
    CHECK_GE(plan->fine_at, plan->spill_at + plan->spill_room * record);
    CHECK_LT(n + plan->spill_room, (uint64_t)1 << 32); /* the count of spilled records does not wrap */
    CHECK_EQ(plan->fine_at % LOOM__SPLIT_REGION_ALIGNMENT, 0);
    CHECK_EQ(plan->fine_bytes % LOOM__SPLIT_REGION_ALIGNMENT, 0);
    const uint64_t fine_end = plan->fine_at + plan->fine * plan->fine_bytes;
    if (plan->coarse == 0) {
        CHECK_LE(plan->fine, LOOM__SPLIT_MOST_BINS);
        CHECK_EQ(plan->bytes, fine_end);
        CHECK_EQ(loom__split_waves(plan), 1);
        return;
    }
    CHECK_LE(plan->coarse, LOOM__SPLIT_MOST_BINS);
    CHECK_LE(1u << plan->shift, LOOM__SPLIT_MOST_BINS);
    CHECK_EQ(plan->fine, plan->coarse << plan->shift);
    CHECK_LT(plan->fine - request->parts, 1u << plan->shift);
    CHECK_GE((uint64_t)plan->coarse_room * plan->coarse, n);
    CHECK_GE(plan->coarse_bytes, plan->coarse_room * record);
    CHECK_LE(plan->coarse_room, INT32_MAX);
    const uint64_t all_coarse = plan->coarse * plan->coarse_bytes;
    if (plan->coarse_in_spare) {
        CHECK_LE(plan->coarse_at + all_coarse, request->spare_bytes);
        CHECK_EQ(plan->bytes, fine_end);
    } else {
        CHECK_GE(plan->coarse_at, fine_end);
        CHECK_EQ(plan->bytes, plan->coarse_at + all_coarse);
    }
}

TEST(test_core_split_plans_of_all_sizes)
{
    static const uint32_t parts[] = {2,      3,      1000,   1024,   1025,   4096,   4097,   9086,   90860,
                                     241000, 262144, 262145, 272600, 454300, 524287, 524288, 524289, 1 << 20};
    static const uint64_t numbers[] = {0, 1, 1000, 100000000, (uint64_t)1 << 31, 3000000000, LOOM__SPLIT_MOST_RECORDS};
    static const uint32_t widths[][2] = {{4, 0}, {8, 0}, {4, 8}, {8, 8}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            for (uint32_t option = 0; option < 16; option++) {
                loom__split_request request =
                    request_of(numbers[k], parts[p], widths[option / 4][0], widths[option / 4][1]);
                request.with_index = option & 1;
                request.spare_bytes = option & 2 ? numbers[k] * 10 : 0;
                loom__split_plan plan;
                test_note("%llu records, %u parts, option %u", (unsigned long long)numbers[k], parts[p], option);
                CHECK_EQ(loom__split_make_plan(&request, &plan), 1);
                check_plan(&request, &plan);
            }
}

/* What the kernels cannot split is told, not cut to 32 bits. */
TEST(test_core_split_plans_refuse_what_is_too_large)
{
    loom__split_plan plan;
    loom__split_request request = request_of(LOOM__SPLIT_MOST_RECORDS + 1, 1000, 8, 0);
    CHECK_EQ(loom__split_make_plan(&request, &plan), 0);
    request = request_of((uint64_t)5000000000, 454300, 8, 0);
    CHECK_EQ(loom__split_make_plan(&request, &plan), 0);
    request = request_of(1000, (1 << 20) + 1, 8, 0);
    CHECK_EQ(loom__split_make_plan(&request, &plan), 0);
    request = request_of(1000, UINT32_MAX, 8, 0);
    CHECK_EQ(loom__split_make_plan(&request, &plan), 0);
    request = request_of(LOOM__SPLIT_MOST_RECORDS, 1, 8, 0); /* one region of so many records */
    CHECK_EQ(loom__split_make_plan(&request, &plan), 0);
}

/* The sizes of tests/test_huge.c: bins of both passes, and temporary memory per record. */
TEST(test_core_split_plans_of_huge_batches)
{
    static const struct {
        uint64_t n;
        uint32_t parts, head_bytes, tail_bytes;
        double table_bytes; /* 0: it cannot hold coarse regions */
        uint32_t coarse, bins;
        double most_bytes; /* per record */
    } cases[] = {
        {3000000000, 272600, 8, 0, 30.5e9, 533, 512, 8.7}, /* 4 + 4, load 0.9, open */
        {3000000000, 272600, 8, 0, 0, 533, 512, 16.8},     /* the same into a filled table */
        {3000000000, 241000, 8, 0, 26.7e9, 471, 512, 8.7}, /* perfect */
        {2500000256, 454300, 8, 0, 0, 888, 512, 17.2},     /* one of two slices of 5 * 10^9 keys of 8 bytes */
        {1000000000, 90860, 8, 8, 20.3e9, 178, 512, 17.4}, /* 8 + 8 */
        {100000000, 9086, 8, 0, 1.02e9, 71, 128, 8.7},     /* as before */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loom__split_request request = request_of(cases[i].n, cases[i].parts, cases[i].head_bytes, cases[i].tail_bytes);
        loom__split_plan plan;
        request.spare_bytes = (uint64_t)cases[i].table_bytes;
        test_note("case %u", (unsigned)i);
        CHECK_EQ(loom__split_make_plan(&request, &plan), 1);
        check_plan(&request, &plan);
        CHECK_EQ(plan.coarse, cases[i].coarse);
        CHECK_EQ(1u << plan.shift, cases[i].bins);
        CHECK_EQ(plan.coarse_in_spare, cases[i].table_bytes > 0);
        CHECK((double)plan.bytes < cases[i].most_bytes * (double)cases[i].n);
        CHECK_GT(plan.bytes, (uint64_t)1 << 29);
    }
}

/* ---- Tables ---- */

static loom_status memory_of(loom_context *context, loom_engine engine, uint32_t key_bytes, uint32_t value_bytes,
                             uint64_t capacity, double max_load, loom_memory *memory)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = value_bytes == 0 ? LOOM_TYPE_SET : LOOM_TYPE_MAP;
    config.engine = engine;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = capacity;
    config.max_load = max_load;
    *memory = (loom_memory)LOOM_MEMORY_INIT;
    return loom_map_memory_required(context, &config, memory);
}

/* Bytes of tables of more than 2^32 slots. */
TEST(test_core_huge_tables_take_what_their_slots_take)
{
    static const struct {
        loom_engine engine;
        uint32_t key_bytes, value_bytes;
        uint64_t capacity;
        double bucket_bytes, slots; /* of a bucket, codes not counted */
    } cases[] = {
        {LOOM_ENGINE_OPEN, 8, 0, 5000000000, 64, 7},
        {LOOM_ENGINE_OPEN, 4, 4, 3000000000, 64, 7},
        {LOOM_ENGINE_OPEN, 8, 8, 1000000000, 128, 7},
        {LOOM_ENGINE_OPEN, 4, 0, 4000000000, 64, 14},
        {LOOM_ENGINE_PERFECT, 4, 4, 3000000000, 64, 8},
        {LOOM_ENGINE_PERFECT, 8, 8, 1000000000, 128, 8},
        {LOOM_ENGINE_OPEN, 8, 0, 1000000000000, 64, 7},
        {LOOM_ENGINE_ROWS, 16, 8, 5000000000, 64 + 28 * 24.0, 28},
        {LOOM_ENGINE_ROWS, 8, 512, 100000000, 64 + 28 * 520.0, 28},
    };
    loom_context *context = make_context_with(t, 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double expected = (double)cases[i].capacity / 0.9 / cases[i].slots * cases[i].bucket_bytes;
        loom_memory memory;
        test_note("case %u", (unsigned)i);
        CHECK_OK(memory_of(context, cases[i].engine, cases[i].key_bytes, cases[i].value_bytes, cases[i].capacity, 0.9,
                           &memory));
        CHECK((double)memory.table_bytes > 0.999 * expected);
        CHECK((double)memory.table_bytes < 1.03 * expected);
    }
    loom_context_destroy(context);
}

/* A capacity beyond all limits is refused with a sentence; the numbers do not wrap to a small table. */
TEST(test_core_huge_capacities_are_refused)
{
    static const uint64_t capacities[] = {(uint64_t)1 << 43, (uint64_t)1 << 60, UINT64_MAX / 8, UINT64_MAX};
    static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_PERFECT, LOOM_ENGINE_ROWS};
    loom_context *context = make_context_with(t, 1, 1);
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++)
        for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
            loom_memory memory;
            test_note("engine %u, capacity %llu", (unsigned)e, (unsigned long long)capacities[i]);
            CHECK_REFUSED(memory_of(context, engines[e], 8, 8, capacities[i], 0.9, &memory), LOOM_INVALID_ARGUMENT);
            CHECK(strstr(loom_last_error(), "address") != NULL);
        }
    loom_context_destroy(context);
}

/* ---- Addresses ---- */

/* Slots of a table of 51 GB, whose memory nobody touches. */
TEST(test_core_huge_slots_have_64_bit_addresses)
{
    const uint64_t base = (uint64_t)1 << 40, partition_bytes = 1747 * 64;
    loom__table_slots table = {0};
    table.base = (unsigned char *)(uintptr_t)base;
    table.partition_bytes = partition_bytes;
    table.partitions = 454300;
    table.buckets = 1747;
    table.slots = 7;
    table.kind = SLOT_KEY_8;
    table.line_stride = 64;
    table.rows = table.base;
    table.row_key_bytes = 8;
    table.row_key_stride = 24;
    const uint32_t last = table.partitions - 1;
    CHECK_EQ((uintptr_t)loom__slot_key_at(&table, last, 1746, 6), base + last * partition_bytes + 1746 * 64 + 6 * 8);
    CHECK_GT(last * partition_bytes, (uint64_t)47 << 30);
    const uint64_t row = ((uint64_t)last * 1747 + 1746) * 7 + 6;
    CHECK_EQ(loom__slot_row(&table, last, 1746, 6), row);
    CHECK_GT(row, (uint64_t)1 << 32);
    CHECK_EQ((uintptr_t)loom__slot_row_key(&table, last, 1746, 6), base + row * 24);
}

/* The hashes of adjacent partitions, for the largest numbers of partitions: all sources of a partition, and none
 * twice. */
TEST(test_core_huge_partitions_have_all_sources)
{
    static const uint32_t numbers[] = {2, 454300, 454301, (1 << 27) + 1, 1 << 28};
    for (size_t a = 0; a < 5; a++)
        for (size_t b = 0; b < 5; b++) {
            const uint32_t to = numbers[a], from = numbers[b];
            uint32_t first, last;
            loom__hash_sources(0, to, from, &first, &last);
            CHECK_EQ(first, 0);
            loom__hash_sources(to - 1, to, from, &first, &last);
            CHECK_EQ(last, from - 1);
            for (int k = 0; k < 1000; k++) {
                const uint64_t hash = random_u64(&t->random);
                loom__hash_sources(loom__hash_partition(hash, to), to, from, &first, &last);
                CHECK_LE(first, loom__hash_partition(hash, from));
                CHECK_GE(last, loom__hash_partition(hash, from));
            }
        }
}
