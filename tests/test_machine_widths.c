/* Rows and pairs of any width and alignment: taken out of an array, put back, retrieved from a table, and staged on the
 * cuda machine. The tests call the machine's own functions, so that each step is seen alone. */
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include "api/context.h"
#include "machines/cpu/core/cpu_retrieve.h"
#include "machines/cpu/core/cpu_state.h"
#include "machines/cuda/core/cuda_trial.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arrays ------------------------------------------------------------------------------------------- */

enum { ON_HOST, OF_MACHINE, PINNED }; /* PINNED: on the cuda machine alone */

/* Bytes that begin `shift` bytes after an address aligned to 16. */
typedef struct bytes_at {
    loom_context *context;
    int place;
    unsigned char *memory, *at;
    size_t bytes, shift;
} bytes_at;

static bytes_at make_bytes(loom_context *context, int place, const void *from, size_t bytes, size_t shift)
{
    bytes_at made = {context, place, NULL, NULL, bytes, shift};
    if (place == OF_MACHINE)
        CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, bytes + shift + 16, (void **)&made.memory));
    else if (place == PINNED)
        made.memory = cuda_memory_create(CUDA_PINNED, bytes + shift + 16);
    else
        made.memory = test_allocate(bytes + shift + 16);
    made.at = made.memory + (16 - (uintptr_t)made.memory % 16) % 16 + shift;
    if (from)
        CHECK_OK(loom_array_copy(context, made.at, from, bytes, NULL));
    return made;
}

/* Checks that the array holds these bytes. */
static void check_bytes_at(const bytes_at *made, const void *wanted)
{
    unsigned char *got = test_allocate(made->bytes + 1);
    CHECK_OK(loom_array_copy(made->context, got, made->at, made->bytes, NULL));
    CHECK_BYTES(got, wanted, made->bytes);
    free(got);
}

static void free_bytes(bytes_at *made)
{
    if (made->place == OF_MACHINE)
        loom_array_destroy(made->context, LOOM_ARRAY_MACHINE, made->memory, made->bytes + made->shift + 16);
    else if (made->place == PINNED)
        cuda_memory_destroy(CUDA_PINNED, made->memory);
    else
        free(made->memory);
}

static unsigned char *random_bytes(test_run *t, size_t bytes)
{
    unsigned char *made = test_allocate(bytes + 8);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t word = random_u64(&t->random);
        memcpy(made + i, &word, 8);
    }
    return made;
}

/* ---- Rows --------------------------------------------------------------------------------------------- */

/* Takes rows out of an array and puts them back. `place`: where the array with all rows lies. The other array is in the
 * machine's memory. */
static void move_rows(test_run *t, loom_context *context, uint32_t width, size_t shift, int place,
                      uint32_t number_bytes)
{
    loom__machine *machine = context->machine;
    const uint64_t n = width <= 100 ? 20011 : width <= 4096 ? 5003 : width <= 40000 ? 61 : 7, count = n / 3;
    const size_t all_bytes = n * width, some_bytes = count * width;
    unsigned char *all = random_bytes(t, all_bytes), *some = random_bytes(t, some_bytes);
    uint64_t *numbers = test_allocate(count * sizeof *numbers);
    for (uint64_t i = 0; i < count; i++) /* different row numbers, shuffled below */
        numbers[i] = (i * 3 + 7) % n;
    for (uint64_t i = count - 1; i > 0; i--) {
        const uint64_t j = random_below(&t->random, i + 1), other = numbers[j];
        numbers[j] = numbers[i];
        numbers[i] = other;
    }
    test_note("%u bytes, shifted by %zu, place %d", width, shift, place);
    void *given = test_allocate(count * number_bytes);
    for (uint64_t i = 0; i < count; i++)
        set_word(given, number_bytes, i, numbers[i]);
    bytes_at rows = make_bytes(context, OF_MACHINE, given, count * number_bytes, 0);
    bytes_at from = make_bytes(context, place, all, all_bytes, shift);
    bytes_at to = make_bytes(context, OF_MACHINE, some, some_bytes, shift);
    CHECK_OK(machine->ops->take_rows(machine, to.at, from.at, width, rows.at, number_bytes, count, NULL));
    unsigned char *taken = test_allocate(some_bytes + 1);
    for (uint64_t i = 0; i < count; i++)
        memcpy(taken + i * width, all + numbers[i] * width, width);
    check_bytes_at(&to, taken);
    check_bytes_at(&from, all);
    /* Puts other rows back. The rows between them do not change. */
    CHECK_OK(loom_array_copy(context, to.at, some, some_bytes, NULL));
    CHECK_OK(machine->ops->put_rows(machine, from.at, to.at, width, rows.at, number_bytes, count, NULL));
    for (uint64_t i = 0; i < count; i++)
        memcpy(all + numbers[i] * width, some + i * width, width);
    check_bytes_at(&from, all);
    CHECK_OK(machine->ops->take_rows(machine, to.at, from.at, width, rows.at, number_bytes, 0, NULL));
    free(taken);
    free(given);
    free_bytes(&rows);
    free_bytes(&from);
    free_bytes(&to);
    free(all);
    free(some);
    free(numbers);
}

static void move_all_widths(test_run *t, loom_context *context, int places)
{
    static const uint32_t widths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 100, 520, 4096, 40000};
    static const size_t shifts[] = {0, 1, 2, 4, 8};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (uint32_t s = 0; s < sizeof shifts / sizeof *shifts; s++)
            for (int place = 0; place < places; place++)
                move_rows(t, context, widths[w], shifts[s], place, (w + s) % 2 ? 4 : 8);
}

TEST(test_machine_rows_of_any_width, .timeout_seconds = 180)
{
    loom_context *context = make_context(t);
    move_all_widths(t, context, 1);
    loom_context_destroy(context);
}

TEST(test_cuda_rows_of_any_width, .timeout_seconds = 300)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    move_all_widths(t, context, 3);
    move_rows(t, context, 17 << 20, 1, ON_HOST, 8); /* a row is wider than the staging buffer */
    loom_context_destroy(context);
}

/* ---- Sketches ----------------------------------------------------------------------------------------- */

/* Sketches keys that differ only in some bytes of their width. All keys come `times` times; they are at any address. */
static void sketch_keys(loom_context *context, uint32_t width, size_t shift, int place, uint64_t keys, uint64_t times)
{
    loom__machine *machine = context->machine;
    const uint32_t part = width < 4 ? width : 4;
    for (uint32_t at = 0; at + part <= width; at += width > part ? width - part : 1) { /* the first bytes, the last */
        unsigned char *all = test_allocate(keys * times * width + 1);
        loom__key_sketch sketch;
        memset(all, 0x5a, keys * times * width);
        for (uint64_t i = 0; i < keys * times; i++) {
            const uint32_t number = (uint32_t)(i % keys);
            memcpy(all + i * width + at, &number, part);
        }
        bytes_at from = make_bytes(context, place, all, keys * times * width, shift);
        CHECK_OK(machine->ops->sketch_keys(machine, from.at, width, keys * times, keys + at, &sketch, NULL));
        const double estimate = loom__sketch_estimate(&sketch);
        test_note("%u bytes from %u on, shifted by %zu, place %d: %llu keys, estimated %.1f", width, at, shift, place,
                  (unsigned long long)keys, estimate);
        CHECK_NEAR(estimate, (double)keys, keys < 20 ? 0.5 : 0.05 * (double)keys);
        free_bytes(&from);
        free(all);
    }
}

static void sketch_all_widths(test_run *t, loom_context *context, int places)
{
    static const uint32_t widths[] = {2, 4, 6, 8, 12, 24, 100, 4096};
    static const uint64_t numbers[] = {0, 1, 2, 10, 100, 3000, 20000, 60000};
    const uint64_t many = test_scaled(t, 3000000, 300000);
    for (int place = 0; place < places; place++) {
        for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (size_t shift = 0; shift < 2; shift++)
                sketch_keys(context, widths[w], shift, place, 3000, 1 + w % 3);
        for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            sketch_keys(context, 8, 0, place, numbers[i], 3);
        sketch_keys(context, 4, 0, place, many, 1);
        sketch_keys(context, 8, 0, place, many, 2);
    }
}

TEST(test_machine_sketch_of_keys_of_any_width, .long_tier = 1, .timeout_seconds = 180)
{
    loom_context *context = make_context(t);
    sketch_all_widths(t, context, 1);
    loom_context_destroy(context);
}

TEST(test_cuda_sketch_of_keys_of_any_width, .timeout_seconds = 300)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    sketch_all_widths(t, context, 3);
    loom_context_destroy(context);
}

/* ---- Retrieval ---------------------------------------------------------------------------------------- */

/* A table of 64-byte lines with 7 numbers of 8 bytes. The rows follow the lines, and may begin at any address. Keys and
 * values of rows lie together or apart. */
enum { PARTITIONS = 3, SLOTS = 7, LINE = 64 };

typedef struct wide_table {
    loom__table_slots slots;
    unsigned char *memory; /* the copy on the host */
    size_t bytes, rows_at, values_at;
    unsigned char *keys, *values; /* [n], in slot order */
    uint64_t n;
} wide_table;

static wide_table make_table(test_run *t, uint32_t buckets, uint32_t key_bytes, uint32_t value_bytes, uint32_t gap,
                             int apart)
{
    wide_table table = {0};
    const uint64_t partition = (uint64_t)buckets * LINE, count = (uint64_t)PARTITIONS * buckets * SLOTS;
    const uint32_t key_stride = key_bytes + (apart ? 0 : value_bytes), value_stride = apart ? value_bytes : key_stride;
    const uint64_t empty[2] = {0x1111111111111111, 0x2222222222222222};
    const uint32_t out_key = key_bytes ? key_bytes : 8;
    loom__table_slots slots = {.partition_bytes = partition,
                               .partitions = PARTITIONS,
                               .buckets = buckets,
                               .slots = SLOTS,
                               .kind = SLOT_KEY_8,
                               .line_stride = LINE,
                               .row_key_bytes = key_bytes,
                               .row_value_bytes = value_bytes,
                               .row_key_stride = key_stride,
                               .row_value_stride = value_stride,
                               .empty = {empty[0], empty[1]},
                               .exception = 1};
    table.slots = slots;
    table.rows_at = PARTITIONS * partition + gap;
    table.values_at = table.rows_at + (apart ? count * key_bytes + gap : key_bytes);
    table.bytes = table.rows_at + count * (key_bytes + value_bytes) + gap + 1;
    table.memory = random_bytes(t, table.bytes);
    table.keys = test_allocate(count * out_key + 1);
    table.values = test_allocate(count * value_bytes + 1);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint32_t b = 0; b < buckets; b++)
            for (uint32_t s = 0; s < SLOTS; s++) {
                unsigned char *number = table.memory + p * partition + (size_t)b * LINE + s * 8;
                const uint64_t row = ((uint64_t)p * buckets + b) * SLOTS + s;
                const unsigned char *key = table.memory + table.rows_at + row * key_stride;
                if (random_below(&t->random, 10) < 3) {
                    memcpy(number, &empty[p == 1], 8);
                    continue;
                }
                memcpy(table.keys + table.n * out_key, key_bytes ? key : number, out_key);
                memcpy(table.values + table.n * value_bytes, table.memory + table.values_at + row * value_stride,
                       value_bytes);
                table.n++;
            }
    return table;
}

static void free_table(wide_table *table)
{
    free(table->memory);
    free(table->keys);
    free(table->values);
}

static void retrieve_some(loom_context *context, const loom__table_slots *slots, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got)
{
    if (context->config.machine == LOOM_MACHINE_CPU)
        loom__cpu_retrieve(((loom__cpu_machine_state *)context->machine)->pool, slots, position, keys, values, room,
                           got);
    else
        CHECK_OK(((cuda_trial_retrieve_function *)(uintptr_t)cuda_module_function(CUDA_TRIAL_RETRIEVE))(
            context->machine, slots, position, keys, values, room, got, NULL));
}

/* Retrieves all pairs, at most `room` at a time, into arrays at `place` that begin `shift` bytes after an aligned
 * address. */
static void retrieve_table(test_run *t, loom_context *context, uint32_t key_bytes, uint32_t value_bytes, uint64_t room,
                           int place, size_t shift, int apart)
{
    wide_table table = make_table(t, value_bytes > 100 ? 701 : 4001, key_bytes, value_bytes, (uint32_t)shift, apart);
    const uint32_t out_key = key_bytes ? key_bytes : 8;
    bytes_at memory = make_bytes(context, OF_MACHINE, table.memory, table.bytes, 0);
    bytes_at keys = make_bytes(context, place, NULL, table.n * out_key, key_bytes ? shift : 0);
    bytes_at values = make_bytes(context, place, NULL, table.n * value_bytes, shift);
    loom__position position = {0};
    uint64_t done = 0, got = 1;
    test_note("%u + %u bytes, %llu at a time, place %d, shifted by %zu", key_bytes, value_bytes,
              (unsigned long long)room, place, shift);
    table.slots.base = memory.at;
    table.slots.rows = memory.at + table.rows_at;
    table.slots.row_values = memory.at + table.values_at;
    while (got > 0) {
        const uint64_t left = table.n - done, now = left < room ? left : room;
        retrieve_some(context, &table.slots, &position, keys.at + done * out_key,
                      value_bytes ? values.at + done * value_bytes : NULL, now > 0 ? now : 1, &got);
        CHECK_EQ(got, now);
        done += got;
    }
    check_bytes_at(&keys, table.keys);
    check_bytes_at(&values, table.values);
    free_bytes(&memory);
    free_bytes(&keys);
    free_bytes(&values);
    free_table(&table);
}

static void retrieve_all_widths(test_run *t, loom_context *context, int places)
{
    static const uint32_t widths[][2] = {{0, 24}, {0, 4096}, {24, 24}, {12, 4096}, {16, 0}, {5, 3}};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int place = 0; place < places; place++)
            for (size_t shift = 0; shift < 2; shift++) {
                retrieve_table(t, context, widths[w][0], widths[w][1], UINT64_MAX, place, shift, w % 2);
                retrieve_table(t, context, widths[w][0], widths[w][1], 1777, place, shift, (w + 1) % 2);
            }
}

TEST(test_machine_retrieve_of_any_width, .timeout_seconds = 180)
{
    loom_context *context = make_context(t);
    retrieve_all_widths(t, context, 1);
    loom_context_destroy(context);
}

/* Retrieves several times the size of the staging buffer to the host. Values of 4,096 bytes once overran the buffer. */
TEST(test_cuda_retrieve_of_any_width, .timeout_seconds = 300)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    retrieve_all_widths(t, context, 3);
    loom_context_destroy(context);
}

/* ---- Staging ------------------------------------------------------------------------------------------ */

/* Passes arrays through the staging of a call. `places`: of from, to, offsets, to_offsets and whole. */
static void stage(test_run *t, loom_context *context, uint32_t width, uint64_t n, const int *places, size_t shift)
{
    cuda_trial_stage_function *run = (cuda_trial_stage_function *)(uintptr_t)cuda_module_function(CUDA_TRIAL_STAGE);
    const uint64_t room = n / 2 + 3;
    unsigned char *elements = random_bytes(t, n * width), *offsets = random_bytes(t, (n + 1) * 8),
                  *before = random_bytes(t, (room + 5) * width);
    bytes_at from = make_bytes(context, places[0], elements, n * width, shift);
    bytes_at to = make_bytes(context, places[1], NULL, n * width, shift);
    bytes_at counts = make_bytes(context, places[2], offsets, (n + 1) * 8, 0);
    bytes_at to_counts = make_bytes(context, places[3], NULL, (n + 1) * 8, 0);
    bytes_at whole = make_bytes(context, places[4], before, (room + 5) * width, shift);
    const cuda_trial_call call = {.width = width,
                                  .n = n,
                                  .from = from.at,
                                  .to = to.at,
                                  .offsets = (const uint64_t *)counts.at,
                                  .to_offsets = (uint64_t *)to_counts.at,
                                  .whole = whole.at,
                                  .room = room};
    test_note("%u bytes, %llu, places %d %d %d %d %d, shifted by %zu", width, (unsigned long long)n, places[0],
              places[1], places[2], places[3], places[4], shift);
    CHECK_OK(run(context->machine, &call, NULL));
    check_bytes_at(&to, elements);
    check_bytes_at(&to_counts, offsets);
    memcpy(before, elements, (room < n ? room : n) * width);
    check_bytes_at(&whole, before);
    free_bytes(&from);
    free_bytes(&to);
    free_bytes(&counts);
    free_bytes(&to_counts);
    free_bytes(&whole);
    free(elements);
    free(offsets);
    free(before);
}

/* Before a fix, a chunk held no row of 32 KiB or more, and the call never ended. */
TEST(test_cuda_staging_of_any_width, .timeout_seconds = 300)
{
    static const uint32_t widths[] = {3, 8, 24, 4096, 32 << 10, 40001, 5 << 20};
    static const int places[][5] = {{ON_HOST, ON_HOST, ON_HOST, ON_HOST, ON_HOST},
                                    {PINNED, PINNED, PINNED, PINNED, PINNED},
                                    {OF_MACHINE, ON_HOST, ON_HOST, OF_MACHINE, OF_MACHINE},
                                    {ON_HOST, OF_MACHINE, OF_MACHINE, PINNED, ON_HOST},
                                    {OF_MACHINE, OF_MACHINE, OF_MACHINE, OF_MACHINE, PINNED},
                                    {OF_MACHINE, OF_MACHINE, OF_MACHINE, OF_MACHINE, OF_MACHINE}};
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (uint32_t p = 0; p < sizeof places / sizeof *places; p++) {
            stage(t, context, widths[w], (uint64_t)(36 << 20) / widths[w] + 3, places[p], p % 2);
            stage(t, context, widths[w], 1, places[p], 1);
        }
    loom_context_destroy(context);
}

TEST(test_cuda_staging_of_items_beyond_the_buffer_is_refused)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    cuda_trial_stage_function *run = (cuda_trial_stage_function *)(uintptr_t)cuda_module_function(CUDA_TRIAL_STAGE);
    const uint32_t width = 17 << 20;
    void *from = calloc(2, width), *to = calloc(2, width);
    const cuda_trial_call call = {.width = width, .n = 2, .from = from, .to = to};
    CHECK(from != NULL && to != NULL);
    CHECK_REFUSED(run(context->machine, &call, NULL), LOOM_UNSUPPORTED);
    free(from);
    free(to);
    loom_context_destroy(context);
}
