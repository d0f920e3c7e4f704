/* What bulk lookups of the cpu machine read: the loops of cpu_perfect_simd.h, compiled once more with lanes that
 * count. */
#define LOOM_LANES_HEADER      "harness/counting_lanes.h"
#define CPU_PERFECT_SIMD_TABLE counted_simd
#include "machines/cpu/perfect/cpu_perfect_simd.h"

#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"

#include <stdlib.h>

/* A table in the test's own memory. It gets more keys than it is made for, so that stashes are in use. */
typedef struct overfull_table {
    loom__perfect_view view;
    loom__slot_kind kind;
    uint64_t stored;
} overfull_table;

static overfull_table make_overfull(test_run *t, const batch *b)
{
    loom_map_config config = make_config(t, b->n * 3 / 5);
    loom__perfect_shape shape;
    overfull_table table;
    config.max_load = 0.95;
    CHECK_OK(loom__perfect_choose_shape(&config, 0, &shape));
    table.kind = shape.kind;
    table.view = loom__perfect_view_make(&shape, random_u64(&t->random));
    table.view.base = aligned_alloc(64, shape.table_bytes);
    table.view.codes = (uint64_t *)(table.view.base + shape.partitions * (uint64_t)table.view.partition_bytes);
    table.view.marks = calloc(shape.partitions, sizeof *table.view.marks);
    table.view.totals = calloc(1, sizeof *table.view.totals);
    CHECK(table.view.base != NULL && table.view.marks != NULL && table.view.totals != NULL);
    for (uint32_t i = 0; i < shape.partitions; i++)
        loom__cpu_perfect_clear_partition(&table.view, i);

    counting_allocator *counter = counting_create();
    const loom_allocator allocator = counting_callbacks(counter);
    const loom__batch work = {.keys = b->keys, .values = b->values, .n = b->n, .write = LOOM__WRITE_KEEP};
    const loom__cpu_records records = {
        .keys = b->keys,
        .values = b->values,
        .key_stride = b->key_bytes,
        .value_stride = b->value_bytes,
        .n = b->n,
    };
    loom__cpu_perfect_scratch scratch;
    loom__cpu_counts counts = {0};
    loom__cpu_perfect_scratch_open(&scratch, &allocator, &table.view, 0, shape.partitions);
    counted_simd.insert(&table.view, &work, &records, &scratch, &counts);
    loom__cpu_perfect_scratch_close(&scratch);
    counting_destroy(counter);
    CHECK_EQ(counts.ok + counts.full, b->n);
    CHECK_GT(counts.full, 0);
    table.stored = counts.ok;
    return table;
}

static void free_overfull(overfull_table *table)
{
    free(table->view.base);
    free(table->view.marks);
    free(table->view.totals);
}

/* Looks up key i alone. Returns whether it was found. *stashed: the key is in the stash. */
static int check_reads_of(const overfull_table *table, const batch *b, uint64_t i, int *stashed)
{
    const perfect_seek seek = perfect_seek_key(table->kind, &table->view, batch_key(b, i));
    const unsigned char *key = (const unsigned char *)b->keys + i * b->key_bytes;
    uint64_t value = 0;
    uint8_t found = 2, contained = 2;
    const loom__batch find_one = {.keys = key, .found_values = b->value_bytes ? &value : NULL, .found = &found, .n = 1};
    const loom__batch contains_one = {.keys = key, .found = &contained, .n = 1};
    loom__cpu_counts counts = {0};
    *stashed = seek.bucket == PERFECT_SUBRANGES * table->view.subrange;

    for (uint32_t round = 0; round < 2; round++) {
        lines_taken = words_loaded = 0;
        counted_simd.find(&table->view, round == 0 ? &find_one : &contains_one, 0, 1, 0, &counts);
        CHECK_EQ(lines_taken, 1);
        CHECK_EQ(words_loaded, 1);
        CHECK(last_line == perfect_line(table->kind, seek.partition, seek.bucket));
        CHECK(last_word == perfect_word_of(&table->view, &seek));
    }
    CHECK_EQ(found, contained);
    CHECK_EQ(counts.ok, 2 * found);
    CHECK_EQ(value, found ? batch_value(b, i) : 0);
    return found;
}

/* A lookup reads one bucket and one word of codes: for stored keys, keys in stashes, refused keys, and other absent
 * keys. */
TEST_EACH_KIND(test_perfect_find_bulk_reads_one_bucket, .cpu_only = 1)
{
    const uint64_t n = test_scaled(t, 20000, 4000), misses = n / 2;
    const uint64_t salt = random_u64(&t->random);
    batch b = make_batch(t, n), absent = make_batch(t, misses);
    fill_distinct(&b, salt, 0);
    fill_distinct(&absent, salt, n);
    overfull_table table = make_overfull(t, &b);
    uint64_t found = 0, in_stash = 0;
    int stashed;
    for (uint64_t i = 0; i < n; i++) {
        int there = check_reads_of(&table, &b, i, &stashed);
        found += (uint64_t)there;
        in_stash += (uint64_t)(there && stashed);
    }
    CHECK_EQ(found, table.stored);
    CHECK_GT(in_stash, 0);
    for (uint64_t i = 0; i < misses; i++)
        CHECK_EQ(check_reads_of(&table, &absent, i, &stashed), 0);

    /* One call for all keys, which handles groups of keys in stages, reads no more. */
    loom__cpu_counts counts = {0};
    const loom__batch all = {.keys = b.keys, .found_values = b.values, .status = b.status, .n = n};
    lines_taken = words_loaded = 0;
    counted_simd.find(&table.view, &all, 0, n, 0, &counts);
    CHECK_EQ(lines_taken, n);
    CHECK_EQ(words_loaded, n);
    CHECK_EQ(counts.ok, found);
    free_overfull(&table);
    free_batch(&absent);
    free_batch(&b);
}
