/* Builds and insertions, by partition and directly: which keys are in the table afterwards, which row's value each key
 * has, and what the call reports. Row i stores a value that names i. If equal keys compete, the stored value names the
 * row that won, and this row must have had the key. The test computes the number of refused keys with the table's own
 * hash: a partition takes keys up to its last slot. */
#include "harness/cuda_driver.h"
#include "harness/map_model.h"
#include "harness/placed_batch.h"

#include "engines/open/open_layout.h"

#include <stdlib.h>
#include <string.h>

/* ---- A table, and what it must hold -------------------------------------------------------------------------- */

typedef struct subject {
    model m; /* the map, and its contents */
    loom_context *context;
    loom_stats shape;
    loom__open_view view; /* of the same shape and seed, to compute hashes */
    uint64_t salt, round;
} subject;

enum { MOST_ROWS = 1 << 20 };

static subject make_subject(test_run *t, loom_context *context, uint64_t capacity, double load, uint32_t buckets)
{
    loom_map_config config = make_config(t, capacity);
    config.max_load = load;
    config.buckets_per_partition = table_case_partition_size(t->table, buckets);
    subject s = {.context = context, .salt = random_u64(&t->random)};
    s.m = make_model(t, make_map_from(context, &config), capacity);
    s.shape = map_stats(s.m.map);
    loom__open_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.kind = slot_kind_of(t->key_bytes, t->value_bytes);
    shape.partitions = (uint32_t)s.shape.partitions;
    shape.buckets = (uint32_t)s.shape.buckets_per_partition;
    s.view = loom__open_view_make(&shape, s.shape.seed);
    return s;
}

static void free_subject(subject *s)
{
    loom_map_destroy(s->m.map);
    free_model(&s->m);
}

static uint32_t partition_of(const subject *s, uint64_t key)
{
    return loom__hash_partition(loom__hash_key(key, s->m.key_bytes, s->view.seed), s->view.partitions);
}

static uint64_t nth_key(const subject *s, uint64_t i)
{
    return distinct_key(s->m.key_bytes, s->salt, i);
}

static uint64_t value_of_row(const subject *s, uint64_t row)
{
    return cut_word(s->round * MOST_ROWS + row + 1, s->m.value_bytes);
}

/* Free slots of each partition, according to the reference. */
static uint64_t *count_room(const subject *s)
{
    uint64_t *room = test_allocate(s->shape.partitions * sizeof *room), position = 0, key, value;
    for (uint64_t i = 0; i < s->shape.partitions; i++)
        room[i] = s->shape.slots / s->shape.partitions;
    while (reference_next(s->m.reference, &position, &key, &value))
        room[partition_of(s, key)]--;
    return room;
}

/* For each partition: different keys of the batch that the table does not hold yet. */
static uint64_t *count_new_keys(const subject *s, const batch *b)
{
    uint64_t *wanted = test_allocate(s->shape.partitions * sizeof *wanted);
    reference_map *seen = reference_create();
    memset(wanted, 0, s->shape.partitions * sizeof *wanted);
    for (uint64_t i = 0; i < b->n; i++)
        if (!reference_get(s->m.reference, batch_key(b, i), NULL) && reference_put(seen, batch_key(b, i), 0))
            wanted[partition_of(s, batch_key(b, i))]++;
    reference_destroy(seen);
    return wanted;
}

/* The row of this batch that brought the value. The row must have the key. */
static uint64_t row_of_value(const subject *s, const batch *b, uint64_t key, uint64_t value)
{
    uint64_t row = cut_word(value - value_of_row(s, 0), b->value_bytes);
    CHECK_LT(row, b->n);
    CHECK_EQ(batch_key(b, row), key);
    return row;
}

/* The row whose value each key has after a call in order. */
static reference_map *find_winners(const batch *b, uint32_t flags)
{
    reference_map *winners = reference_create();
    for (uint64_t i = 0; i < b->n; i++) { /* the last row put here wins */
        uint64_t row = flags & LOOM_OVERWRITE ? i : b->n - 1 - i;
        reference_put(winners, batch_key(b, row), row);
    }
    return winners;
}

/* After a call: compares the table with the reference from before the call, then updates the reference. */
static void check_outcome(subject *s, const batch *b, uint32_t flags, const loom_result *result, int with_status)
{
    uint64_t *room = count_room(s), *wanted = count_new_keys(s, b), ok = 0, exists = 0, full = 0, most = 0;
    reference_map *stored = reference_create(), *told = reference_create(), *winners = find_winners(b, flags);
    batch got = copy_batch(b);
    checked_find(s->m.map, &got);
    for (uint64_t i = 0; i < s->shape.partitions; i++)
        most += wanted[i] < room[i] ? wanted[i] : room[i];
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t key = batch_key(b, i), value = batch_value(&got, i), before = 0, from = 0;
        int was = reference_get(s->m.reference, key, &before), is = got.status[i] == LOOM_OK;
        uint8_t status = with_status ? b->status[i] : 0xff;
        if (!is) {
            CHECK(!was);
            CHECK_GT(wanted[partition_of(s, key)], room[partition_of(s, key)]);
            CHECK(!with_status || status == LOOM_FULL);
            full++;
            continue;
        }
        if (was && (!(flags & LOOM_OVERWRITE) || b->value_bytes == 0))
            CHECK_EQ(value, before);
        else if (b->value_bytes)
            from = row_of_value(s, b, key, value);
        if (flags & LOOM_IN_ORDER && b->value_bytes && (!was || flags & LOOM_OVERWRITE)) {
            uint64_t winner = b->n;
            CHECK(reference_get(winners, key, &winner));
            CHECK_EQ(from, winner);
        }
        if (was) {
            CHECK(!with_status || status == LOOM_EXISTS);
            exists++;
            continue;
        }
        if (with_status && b->value_bytes && !(flags & LOOM_OVERWRITE))
            CHECK_EQ(b->status[from], LOOM_OK); /* the row that stored the key keeps its value */
        if (with_status && status == LOOM_OK)
            CHECK(reference_put(told, key, 0)); /* one LOOM_OK for each key */
        CHECK(!with_status || status == LOOM_OK || status == LOOM_EXISTS);
        if (reference_put(stored, key, value))
            ok++;
        else
            exists++;
    }
    CHECK_EQ(ok, most);
    CHECK_EQ(result->ok, ok);
    CHECK_EQ(result->exists, exists);
    CHECK_EQ(result->full, full);
    if (with_status)
        CHECK_EQ(reference_size(told), ok);
    for (uint64_t i = 0; i < b->n; i++)
        if (got.status[i] == LOOM_OK)
            reference_put(s->m.reference, batch_key(b, i), batch_value(&got, i));
    reference_destroy(stored);
    reference_destroy(told);
    reference_destroy(winners);
    free_batch(&got);
    free(room);
    free(wanted);
}

/* Looks up keys that no test stores. None may be found. */
static void check_absent_keys(subject *s)
{
    batch absent = make_batch_of(s->m.key_bytes, s->m.value_bytes, 300);
    fill_distinct(&absent, s->salt, MOST_ROWS);
    check_none_found(s->m.map, &absent);
    free_batch(&absent);
}

/* Builds or inserts the keys of the batch, with new values. */
static loom_result run_call(subject *s, batch *b, int builds, uint32_t flags, const placement *where)
{
    s->round++;
    CHECK_LE(b->n, MOST_ROWS);
    for (uint64_t i = 0; i < b->n; i++)
        set_word(b->values, b->value_bytes, i, value_of_row(s, i));
    placed_batch p = place_batch(s->context, b, where);
    CHECK_OK(
        (builds ? loom_map_build : loom_map_insert)(s->m.map, p.keys, p.values, b->n, flags, p.status, p.result, NULL));
    loom_result result = take_back_batch(&p, b);
    if (builds)
        reference_clear(s->m.reference);
    check_outcome(s, b, flags, &result, where->status);
    CHECK_EQ(map_size(s->m.map), reference_size(s->m.reference));
    return result;
}

static loom_result build_by_partition(subject *s, batch *b, uint32_t flags, const placement *where)
{
    loom_result result = run_call(s, b, 1, flags | LOOM_BY_PARTITION, where);
    model_compare(&s->m);
    check_absent_keys(s);
    return result;
}

static loom_result insert_by_partition(subject *s, batch *b, uint32_t flags, const placement *where)
{
    loom_result result = run_call(s, b, 0, flags | LOOM_BY_PARTITION, where);
    model_compare(&s->m);
    check_absent_keys(s);
    return result;
}

/* ---- Different keys ------------------------------------------------------------------------------------------- */

/* Keys number first, first + 1, and so on, of the subject. */
static void fill_keys(const subject *s, batch *b, uint64_t first)
{
    for (uint64_t i = 0; i < b->n; i++)
        set_pair(b, i, nth_key(s, first + i), 0);
}

typedef struct bulk_shape {
    uint64_t capacity;
    uint32_t buckets; /* 0: chosen by the library */
    uint64_t least_partitions;
} bulk_shape;

/* Large tables are tried with arrays of the machine only, without and with statuses. */
static int is_tried(uint64_t rows, int where)
{
    return rows < 8000 || where == 1 || where == PLACED_STATUS;
}

/* 600 partitions and more are more than one pass of the cuda machine splits. */
static const bulk_shape shapes[] = {{1500, 0, 2}, {3001, 31, 5}, {7919, 0, 2}, {60013, 7, 600}};

TEST_EACH_KIND(test_open_build_by_partition_distinct_keys, .long_tier = 1, .every_engine = 1)
{
    static const double loads[] = {0.5, 0.8, 0.95};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            if (i == 3 && j == 1) /* the largest table runs with the lowest and the highest load only */
                continue;
            subject s = make_subject(t, context, shapes[i].capacity, loads[j], shapes[i].buckets);
            batch b = make_batch(t, shapes[i].capacity);
            if (t->table->partition_size)
                CHECK_GE(s.shape.partitions * (s.shape.slots_per_bucket > 14 ? 2 : 1), shapes[i].least_partitions);
            fill_keys(&s, &b, 0);
            for (int w = 0; w < PLACEMENTS; w++) {
                if (!is_tried(b.n, w))
                    continue;
                test_note("capacity %llu, load %g, %s", (unsigned long long)b.n, loads[j], placements[w].name);
                CHECK_EQ(build_by_partition(&s, &b, w % 2 ? LOOM_OVERWRITE : LOOM_KEEP, &placements[w]).ok, b.n);
            }
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_build_by_partition_batch_lengths, .long_tier = 1, .every_engine = 1)
{
    static const uint64_t lengths[] = {0, 1, 2, 3, 5, 31, 32, 33, 127, 511, 513, 1999, 6144, 6145, 8191, 8193};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        subject s = make_subject(t, context, 8200, 0.8, i % 2 ? 7 : 31);
        batch b = make_batch(t, lengths[i]);
        fill_keys(&s, &b, 0);
        for (int w = 0; w < PLACEMENTS; w++) {
            test_note("%llu keys, %s", (unsigned long long)b.n, placements[w].name);
            CHECK_EQ(build_by_partition(&s, &b, LOOM_KEEP, &placements[w]).ok, b.n);
            if (b.n < 600)
                CHECK_EQ(insert_by_partition(&s, &b, LOOM_OVERWRITE, &placements[w]).exists, b.n);
        }
        free_batch(&b);
        free_subject(&s);
    }
    loom_context_destroy(context);
}

/* Builds of so many keys that every machine goes by partition where that is faster. */
TEST_EACH_KIND(test_open_build_many_keys, .long_tier = 1, .threads = 1, .every_engine = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    uint64_t n = test_scaled(t, (1 << 18) + 77, 20077);
    subject s = make_subject(t, context, n, 0.9, 0);
    batch b = make_batch(t, n);
    fill_keys(&s, &b, 0);
    CHECK_EQ(run_call(&s, &b, 1, LOOM_KEEP, &placements[1]).ok, n);
    checked_verify(s.m.map);
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}

/* Erases the keys with odd numbers. Later calls meet the traces that erasures leave. */
static void erase_some(subject *s, uint64_t keys)
{
    batch gone = make_batch_of(s->m.key_bytes, s->m.value_bytes, keys / 2);
    for (uint64_t i = 0; i < gone.n; i++)
        set_pair(&gone, i, nth_key(s, 2 * i + 1), 0);
    model_erase(&s->m, &gone);
    free_batch(&gone);
}

/* Insertions of so many keys that they may go by partition, too: into an empty table, beside other keys, and of keys
 * that exist. */
TEST_EACH_KIND(test_open_insert_many_keys, .threads = 1, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    uint64_t n = test_scaled(t, (1 << 18) + 77, 20077);
    subject s = make_subject(t, context, 3 * n, 0.9, 0);
    batch b = make_batch(t, n);
    fill_keys(&s, &b, 0);
    CHECK_EQ(run_call(&s, &b, 0, LOOM_KEEP, &placements[1]).ok, n);
    fill_keys(&s, &b, n / 2);
    CHECK_EQ(run_call(&s, &b, 0, LOOM_OVERWRITE, &placements[1]).ok, n / 2);
    erase_some(&s, n);
    fill_keys(&s, &b, n / 4);
    run_call(&s, &b, 0, LOOM_KEEP, &placements[0]);
    checked_verify(s.m.map);
    model_compare(&s.m);
    free_batch(&b);
    free_subject(&s);
    loom_context_destroy(context);
}

/* ---- Equal keys ----------------------------------------------------------------------------------------------- */

/* Each key comes 2 to 5 times. With `hot`, the rows with odd numbers share one key. Returns the number of different
 * keys. */
static uint64_t fill_equal(test_run *t, const subject *s, batch *b, uint64_t keys, int hot)
{
    reference_map *seen = reference_create();
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t which = hot && i % 2 ? 0 : random_below(&t->random, 4) ? random_below(&t->random, keys) : i % keys;
        set_pair(b, i, nth_key(s, which), 0);
        reference_put(seen, batch_key(b, i), 0);
    }
    uint64_t different = reference_size(seen);
    reference_destroy(seen);
    return different;
}

TEST_EACH_KIND(test_open_build_by_partition_equal_keys, .threads = 1, .long_tier = 1, .every_engine = 1)
{
    static const bulk_shape equal_shapes[] = {{600, 0, 2}, {3001, 31, 5}, {9973, 0, 2}, {30011, 7, 2}};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int i = 0; i < 4; i++)
        for (uint64_t times = 2; times <= 5; times++) {
            if (i == 3 && times > 2)
                continue;
            uint64_t keys = equal_shapes[i].capacity;
            subject s = make_subject(t, context, keys, 0.8, equal_shapes[i].buckets);
            batch b = make_batch(t, times * keys);
            for (int w = 0; w < PLACEMENTS; w++) {
                if (!is_tried(b.n, w))
                    continue;
                int hot = (int)((uint64_t)w + times) % 2;
                uint64_t different = fill_equal(t, &s, &b, keys, hot);
                test_note("capacity %llu, %llu rows, hot %d, %s", (unsigned long long)keys, (unsigned long long)b.n,
                          hot, placements[w].name);
                loom_result result = build_by_partition(&s, &b, w % 2 ? LOOM_OVERWRITE : LOOM_KEEP, &placements[w]);
                CHECK_EQ(result.ok, different);
                CHECK_EQ(result.exists, b.n - different);
            }
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* Keys come twice, but the rows are few: no partition gets more rows than it has slots. */
TEST_EACH_KIND(test_open_build_by_partition_equal_keys_with_room, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    for (uint32_t buckets = 7; buckets <= 127; buckets += 60)
        for (uint64_t keys = 1; keys < 4000; keys = keys * 3 + 1) {
            subject s = make_subject(t, context, 4 * keys, 0.8, buckets);
            batch b = make_batch(t, 3 * keys);
            for (int w = 0; w < PLACEMENTS; w++) {
                uint64_t different = fill_equal(t, &s, &b, keys, 0);
                CHECK_EQ(build_by_partition(&s, &b, LOOM_KEEP, &placements[w]).ok, different);
            }
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* ---- More than there is room for ------------------------------------------------------------------------------ */

TEST_EACH_KIND(test_open_build_by_partition_overfull, .long_tier = 1)
{
    static const bulk_shape small[] = {{0, 0, 2}, {1, 0, 2}, {100, 0, 2}, {1000, 7, 2}, {1000, 31, 2}, {5000, 7, 2}};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int i = 0; i < 6; i++)
        for (uint64_t times = 1; times <= 3; times += 2) {
            subject s = make_subject(t, context, small[i].capacity, 0.8, small[i].buckets);
            batch b = make_batch(t, (s.shape.slots + s.shape.slots / 4) * times + 100);
            for (uint64_t row = 0; row < b.n; row++)
                set_pair(&b, row, nth_key(&s, row / times), 0);
            for (int w = 0; w < PLACEMENTS; w++) {
                if (!is_tried(b.n, w))
                    continue;
                test_note("capacity %llu, %llu rows, each key %llu times, %s", (unsigned long long)small[i].capacity,
                          (unsigned long long)b.n, (unsigned long long)times, placements[w].name);
                CHECK_GT(build_by_partition(&s, &b, LOOM_KEEP, &placements[w]).full, 0);
                CHECK_EQ(insert_by_partition(&s, &b, LOOM_OVERWRITE, &placements[w]).ok, 0);
            }
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* Batches of as many keys as slots, and of one more or one less. Some partitions get more keys than slots, others
 * fewer. */
TEST_EACH_KIND(test_open_build_by_partition_as_many_as_slots)
{
    loom_context *context = make_context(t);
    for (uint32_t buckets = 7; buckets <= 127; buckets += 60) {
        subject s = make_subject(t, context, 2000, 0.8, buckets);
        for (uint64_t n = s.shape.slots - 1; n <= s.shape.slots + 1; n++) {
            batch b = make_batch(t, n);
            fill_keys(&s, &b, 0);
            for (int w = 0; w < PLACEMENTS; w++)
                build_by_partition(&s, &b, LOOM_KEEP, &placements[w]);
            free_batch(&b);
        }
        free_subject(&s);
    }
    loom_context_destroy(context);
}

/* ---- Keys of one partition, of one bucket --------------------------------------------------------------------- */

/* Fills the batch with different keys whose home is one of the first `homes` buckets of this partition. */
static void fill_colliding(const subject *s, batch *b, uint32_t partition, uint32_t homes)
{
    uint64_t next = 0;
    for (uint64_t i = 0; i < b->n; next++) {
        uint64_t key = nth_key(s, next), hash = loom__hash_key(key, s->m.key_bytes, s->view.seed);
        if (loom__hash_partition(hash, s->view.partitions) == partition &&
            loom__hash_bucket((uint32_t)hash, s->view.buckets) < homes)
            set_pair(b, i++, key, 0);
    }
}

/* All rows belong to one partition. Four batches: the partition has slots for all rows; its region of the split has
 * room for them; some rows spill; there are so many rows that the split gives up. */
TEST_EACH_KIND(test_open_build_by_partition_one_partition)
{
    static const uint64_t rows[] = {50, 210, 900, 5000};
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    for (int i = 0; i < 4; i++) {
        subject s = make_subject(t, context, 3000, 0.8, 31);
        batch b = make_batch(t, rows[i]);
        uint32_t partition = (uint32_t)random_below(&t->random, s.view.partitions);
        fill_colliding(&s, &b, partition, s.view.buckets);
        for (int w = 0; w < PLACEMENTS; w++) {
            test_note("%llu rows in partition %u of %u, %s", (unsigned long long)b.n, partition, s.view.partitions,
                      placements[w].name);
            build_by_partition(&s, &b, LOOM_KEEP, &placements[w]);
            CHECK_EQ(insert_by_partition(&s, &b, LOOM_OVERWRITE, &placements[w]).ok, 0);
        }
        free_batch(&b);
        free_subject(&s);
    }
    loom_context_destroy(context);
}

/* Nearly all filter bits of the bucket get set. Equal keys meet at home, on their chains, and among the keys whose bit
 * was set before. */
TEST_EACH_KIND(test_open_build_by_partition_one_bucket)
{
    static const uint64_t keys[] = {1, 7, 8, 14, 15, 70, 100, 250, 500};
    loom_context *context = make_context(t);
    for (uint32_t times = 1; times <= 3; times++)
        for (int i = 0; i < 9; i++) {
            subject s = make_subject(t, context, 500, 0.8, 31);
            batch some = make_batch(t, keys[i]), b = make_batch(t, times * keys[i]), half = make_batch(t, keys[i] / 2);
            fill_colliding(&s, &some, 1, 1);
            for (uint64_t row = 0; row < b.n; row++)
                set_pair(&b, row, batch_key(&some, row % some.n), 0);
            for (uint64_t row = 0; row < half.n; row++)
                set_pair(&half, row, batch_key(&some, 2 * row), 0);
            for (int w = 0; w < PLACEMENTS; w++) {
                test_note("%llu keys, each %u times, %s", (unsigned long long)some.n, times, placements[w].name);
                build_by_partition(&s, &b, LOOM_OVERWRITE, &placements[w]);
                build_by_partition(&s, &half, LOOM_KEEP, &placements[w]);
                insert_by_partition(&s, &b, w % 2 ? LOOM_OVERWRITE : LOOM_KEEP, &placements[w]);
            }
            for (uint32_t mode = LOOM_KEEP; mode <= LOOM_OVERWRITE; mode++) {
                test_note("%llu keys, each %u times, in order, mode %u", (unsigned long long)some.n, times, mode);
                build_by_partition(&s, &b, mode | LOOM_IN_ORDER, &placements[1]);
            }
            free_batch(&some);
            free_batch(&half);
            free_batch(&b);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* ---- Other ways to build -------------------------------------------------------------------------------------- */

/* Five batches: rows that go by partition, rows that repeat keys, more rows than slots, rows of one partition, and one
 * key in half of the rows. With little memory a build goes in waves, and the last batches make a later wave give up. */
static void build_each(test_run *t, loom_context *context, double load, uint32_t flags)
{
    const uint64_t keys = open_slots(slot_kind_of(t->key_bytes, t->value_bytes)) * (uint64_t)2861;
    subject s = make_subject(t, context, keys, load, keys > 30000 ? 13 : 31);
    const uint64_t rows[] = {keys, keys, s.shape.slots + s.shape.slots / 8, 2000, keys};
    CHECK_GE(s.shape.partitions, 80);
    for (int i = 0; i < 5; i++) {
        if (i == 2 && flags & LOOM_LOW_MEMORY) /* too many for the table's memory */
            continue;
        batch b = make_batch(t, rows[i]);
        if (i == 1)
            fill_equal(t, &s, &b, keys / 2, 0);
        else if (i == 3)
            fill_colliding(&s, &b, (uint32_t)s.shape.partitions - 2, s.view.buckets);
        else
            fill_keys(&s, &b, (uint64_t)i * 100000);
        if (i == 4) /* one key in every second row */
            for (uint64_t row = 0; row < b.n; row += 2)
                set_pair(&b, row, nth_key(&s, 7), 0);
        for (uint32_t mode = LOOM_KEEP; mode <= LOOM_OVERWRITE; mode++) {
            test_note("rows %llu, number %d, flags 0x%x", (unsigned long long)b.n, i, mode | flags);
            build_by_partition(&s, &b, mode | flags, &placements[1]);
        }
        free_batch(&b);
    }
    free_subject(&s);
}

TEST_EACH_KIND(test_open_build_by_partition_low_memory)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    build_each(t, context, 0.5, LOOM_LOW_MEMORY);
    build_each(t, context, 0.8, LOOM_LOW_MEMORY);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_build_by_partition_in_order, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    build_each(t, context, 0.5, LOOM_IN_ORDER);
    build_each(t, context, 0.95, LOOM_IN_ORDER);
    loom_context_destroy(context);
}

/* ---- Beside what is there ------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_insert_by_partition_beside_others, .threads = 1, .long_tier = 1, .every_engine = 1)
{
    static const bulk_shape some[] = {{2000, 0, 2}, {3001, 31, 5}, {22013, 7, 2}};
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    for (int i = 0; i < 3; i++)
        for (int w = 0; w < PLACEMENTS; w++) {
            uint64_t n = some[i].capacity;
            if (!is_tried(n, w))
                continue;
            subject s = make_subject(t, context, n, 0.9, some[i].buckets);
            batch first = make_batch(t, n / 2), second = make_batch(t, n / 2), doubled = make_batch(t, n);
            test_note("capacity %llu, %s", (unsigned long long)n, placements[w].name);
            fill_keys(&s, &first, 0);
            fill_keys(&s, &second, n / 4); /* half of these keys are in the table */
            CHECK_EQ(insert_by_partition(&s, &first, LOOM_KEEP, &placements[w]).ok, first.n);
            CHECK_EQ(insert_by_partition(&s, &second, LOOM_KEEP, &placements[w]).ok, n / 4 + second.n - first.n);
            CHECK_EQ(insert_by_partition(&s, &first, LOOM_OVERWRITE, &placements[w]).exists, first.n);
            erase_some(&s, n / 2);
            insert_by_partition(&s, &second, LOOM_OVERWRITE, &placements[w]);
            for (uint64_t row = 0; row < n; row++)
                set_pair(&doubled, row, nth_key(&s, row % (n / 2)), 0);
            insert_by_partition(&s, &doubled, LOOM_KEEP, &placements[w]);
            erase_some(&s, n / 2);
            insert_by_partition(&s, &doubled, LOOM_OVERWRITE, &placements[w]);
            loom_stats stats = map_stats(s.m.map);
            CHECK_EQ(stats.size, reference_size(s.m.reference));
            CHECK_LE(stats.displaced, stats.size);
            free_batch(&first);
            free_batch(&second);
            free_batch(&doubled);
            free_subject(&s);
        }
    loom_context_destroy(context);
}

/* Keys that were inserted in one way are found, erased, and inserted again in the other way. */
TEST_EACH_KIND(test_open_insert_directly_and_by_partition_agree, .every_engine = 1)
{
    static const uint32_t ways[] = {LOOM_DIRECTLY, LOOM_BY_PARTITION, 0};
    loom_context *context = make_context(t);
    uint64_t n = 2000;
    for (int w = 0; w < PLACEMENTS; w++)
        for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
            subject s[3];
            batch b = make_batch(t, n), more = make_batch(t, n);
            for (int i = 0; i < 3; i++) {
                s[i] = make_subject(t, context, 2 * n, 0.8, 31);
                s[i].salt = s[0].salt;
                fill_keys(&s[i], &b, 0);
                fill_keys(&s[i], &more, n / 2);
                CHECK_EQ(run_call(&s[i], &b, 1, flags | ways[i], &placements[w]).ok, n);
                CHECK_EQ(run_call(&s[i], &more, 0, flags | ways[i], &placements[w]).ok, n / 2);
            }
            for (int i = 1; i < 3; i++)
                check_same_contents(s[0].m.map, s[i].m.map, t->key_bytes, t->value_bytes);
            for (int i = 0; i < 3; i++) {
                erase_some(&s[i], n);
                run_call(&s[i], &more, 0, flags | ways[(i + 1) % 2], &placements[w]);
                model_compare(&s[i].m);
            }
            for (int i = 1; i < 3; i++)
                check_same_contents(s[0].m.map, s[i].m.map, t->key_bytes, t->value_bytes);
            for (int i = 0; i < 3; i++)
                free_subject(&s[i]);
            free_batch(&b);
            free_batch(&more);
        }
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_insert_ways_that_exclude_each_other, .every_engine = 1)
{
    static const uint32_t wrong[] = {LOOM_DIRECTLY | LOOM_BY_PARTITION, LOOM_DIRECTLY | LOOM_IN_ORDER,
                                     LOOM_DIRECTLY | LOOM_BY_PARTITION | LOOM_IN_ORDER | LOOM_OVERWRITE, 32};
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 1000);
    batch b = make_batch(t, 500), other = make_batch(t, 100);
    fill_distinct(&b, 1, 0);
    fill_distinct(&other, 1, 500);
    checked_insert(map, &b, LOOM_KEEP);
    for (int i = 0; i < 4; i++) {
        CHECK_REFUSED(loom_map_build(map, other.keys, other.values, other.n, wrong[i], NULL, NULL, NULL),
                      LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_map_insert(map, other.keys, other.values, other.n, wrong[i], NULL, NULL, NULL),
                      LOOM_INVALID_ARGUMENT);
    }
    check_contents(map, &b);
    /* With statuses on the host, the machine either goes by partition or refuses the call and does nothing. */
    loom_status status =
        loom_map_build(map, other.keys, other.values, other.n, LOOM_BY_PARTITION, other.status, NULL, NULL);
    CHECK(status == LOOM_OK || (t->machine == LOOM_MACHINE_CUDA && status == LOOM_UNSUPPORTED));
    check_contents(map, status == LOOM_OK ? &other : &b);
    free_batch(&b);
    free_batch(&other);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A large insertion into an empty table may be done as a build. An insertion after it must not be. */
TEST_EACH_KIND(test_open_insert_many_keys_into_empty, .threads = 1, .every_engine = 1, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    const uint64_t n = (1 << 16) + 77; /* perfect tables are built by partition from 2^16 keys on */
    uint32_t first, end;
    test_sample(t, PLACEMENTS, &first, &end);
    for (uint32_t w = first; w < end; w++) {
        const uint32_t flags = w % 2 ? LOOM_OVERWRITE : LOOM_KEEP;
        subject s = make_subject(t, context, n, 0.8, 0);
        batch none = make_batch(t, 0), b = make_batch(t, n), more = make_batch(t, n / 4);
        fill_keys(&s, &more, 2 * n);
        test_note("%s", placements[w].name);
        for (int again = 0; again < 2; again++) {
            const uint64_t different = fill_equal(t, &s, &b, n / 2, 0);
            CHECK_EQ(run_call(&s, &b, 0, flags, &placements[w]).ok, different);
            CHECK_EQ(run_call(&s, &more, 0, flags, &placements[w]).ok, more.n);
            model_compare(&s.m);
            checked_verify(s.m.map);
            CHECK_EQ(run_call(&s, &none, 1, flags, &placements[w]).ok, 0); /* the table is empty again */
        }
        free_batch(&none);
        free_batch(&b);
        free_batch(&more);
        free_subject(&s);
    }
    loom_context_destroy(context);
}

/* ---- What was there before a build ---------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_build_by_partition_replaces, .long_tier = 1)
{
    static const bulk_shape some[] = {{2000, 0, 2}, {3001, 31, 5}, {22013, 7, 2}};
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    for (int i = 0; i < 3; i++) {
        subject s = make_subject(t, context, some[i].capacity, 0.8, some[i].buckets);
        batch all = make_batch(t, some[i].capacity), few = make_batch(t, 3), none = make_batch(t, 0),
              over = make_batch(t, s.shape.slots + s.shape.slots / 8), kin = make_batch(t, 20),
              narrow = make_batch(t, 4 * s.shape.partitions + 100);
        fill_keys(&s, &all, 0);
        fill_keys(&s, &few, some[i].capacity / 2); /* most partitions get nothing */
        fill_keys(&s, &over, some[i].capacity);
        fill_colliding(&s, &kin, 1, s.view.buckets); /* many rows, all for one partition */
        for (uint64_t row = 0; row < narrow.n; row++)
            set_pair(&narrow, row, batch_key(&kin, row % kin.n), 0);
        for (int w = 0; w < PLACEMENTS; w++) {
            if (!is_tried(all.n, w))
                continue;
            test_note("capacity %llu, %s", (unsigned long long)all.n, placements[w].name);
            CHECK_EQ(build_by_partition(&s, &all, LOOM_KEEP, &placements[w]).ok, all.n);
            CHECK_EQ(build_by_partition(&s, &all, LOOM_KEEP, &placements[w]).ok, all.n);
            CHECK_EQ(build_by_partition(&s, &narrow, LOOM_KEEP, &placements[w]).ok, kin.n);
            CHECK_EQ(build_by_partition(&s, &few, LOOM_KEEP, &placements[w]).ok, few.n);
            CHECK_EQ(insert_by_partition(&s, &all, LOOM_KEEP, &placements[w]).exists, few.n);
            CHECK_EQ(build_by_partition(&s, &none, LOOM_KEEP, &placements[w]).keys, 0);
            CHECK_GT(build_by_partition(&s, &over, LOOM_KEEP, &placements[w]).full, 0);
            CHECK_EQ(build_by_partition(&s, &few, LOOM_OVERWRITE, &placements[w]).ok, few.n); /* were marked full */
            CHECK_EQ(insert_by_partition(&s, &all, LOOM_KEEP, &placements[w]).ok, all.n - few.n);
        }
        free_batch(&all);
        free_batch(&few);
        free_batch(&none);
        free_batch(&over);
        free_batch(&kin);
        free_batch(&narrow);
        free_subject(&s);
    }
    loom_context_destroy(context);
}
