/* Calls on tables with byte strings that go in parts (src/api/map_string_calls.c): to other calls they are one call,
 * and if a later part fails, they tell how many of their rows are done. */
#include "api/context.h"
#include "harness/counting_allocator.h"
#include "harness/strings_fixture.h"

#include <pthread.h>

/* ---- Beside other calls ---------------------------------------------------------------------------------- */

/* More than two parts of a lookup or an erasure on the cpu machine. */
enum { MANY = 5 << 17, MANY_LENGTH = 9, ROUNDS = 3 };

typedef struct writer {
    loom_map *map;
    const texts *keys;
    atomic_int done;
} writer;

/* The table holds all keys or none, whenever another call looks. */
static void *insert_and_erase(void *argument)
{
    writer *w = argument;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(loom_map_insert(w->map, &w->keys->given, NULL, MANY, LOOM_KEEP, NULL, NULL, NULL));
        CHECK_OK(loom_map_erase(w->map, &w->keys->given, MANY, NULL, NULL, NULL));
    }
    atomic_store(&w->done, 1);
    return NULL;
}

TEST(test_rows_strings_call_in_parts_is_one_call, .threads = 1, .timeout_seconds = 120)
{
    loom_context *context = make_context_with(t, 2, 7);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_SET;
    config.key_bytes = LOOM_VARIABLE;
    config.capacity = MANY;
    config.string_bytes = (uint64_t)MANY * 16 * (ROUNDS + 1);
    texts keys = make_texts(LOOM_VARIABLE, MANY, MANY_LENGTH);
    for (uint64_t i = 0; i < MANY; i++)
        add_text(&keys,
                 (unsigned char[MANY_LENGTH]){(unsigned char)i, (unsigned char)(i >> 8), (unsigned char)(i >> 16)},
                 MANY_LENGTH);
    writer w = {.map = make_map_from(context, &config), .keys = &keys};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, insert_and_erase, &w), 0);
    while (!atomic_load(&w.done)) {
        loom_result found = {0};
        const uint64_t size = map_size(w.map);
        CHECK(size == 0 || size == MANY);
        CHECK_OK(loom_map_contains(w.map, &keys.given, MANY, NULL, NULL, &found, NULL));
        CHECK(found.ok == 0 || found.ok == MANY);
        CHECK_EQ(found.ok + found.not_found, MANY);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(map_size(w.map), 0);
    free_texts(&keys);
    loom_map_destroy(w.map);
    loom_context_destroy(context);
}

/* ---- Short of memory ------------------------------------------------------------------------------------- */

/* Strings lie where the machine does not read them, as host memory does for a GPU: each part copies its own. Large
 * temporary blocks are refused, so a batch goes in several parts. */
enum { LENGTH = 300, ROWS = 1000, STORED = 50, MOST_TEMPORARY = 60000, MOST_REQUESTS = 400 };

typedef struct far_memory {
    counting_allocator *counter;
    loom_allocator inner;
    uint64_t most; /* bytes of a temporary block */
    loom_context *context;
    loom__machine_ops ops;
} far_memory;

static loom_status reaches_nothing(loom__machine *machine, const char *name, const void *array, int *reached)
{
    (void)machine, (void)name, (void)array;
    *reached = 0;
    return LOOM_OK;
}

static void *allocate_little(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    far_memory *far = user;
    if (kind == LOOM_MEMORY_TEMPORARY && bytes > far->most)
        return NULL;
    return far->inner.allocate(far->inner.user, bytes, alignment, kind, stream);
}

static void release_little(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    far_memory *far = user;
    far->inner.release(far->inner.user, memory, bytes, kind, stream);
}

static void make_far(far_memory *far)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    far->counter = counting_create();
    far->most = MOST_TEMPORARY;
    far->inner = counting_callbacks(far->counter);
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 2;
    config.fixed_seed = 1;
    config.allocator = (loom_allocator){allocate_little, release_little, far};
    CHECK_OK(loom_context_create(&config, &far->context));
    far->ops = *far->context->machine->ops;
    far->ops.reaches = reaches_nothing;
    far->context->machine->ops = &far->ops;
}

static void free_far(far_memory *far)
{
    loom_context_destroy(far->context);
    counting_destroy(far->counter);
}

typedef struct trial {
    far_memory *far;
    loom_map *map;
    texts keys, values; /* the first STORED keys are in the table, with empty values */
    uint8_t present[ROWS];
    uint64_t parts_done; /* how often a later part failed */
} trial;

static texts make_column(char first)
{
    unsigned char bytes[LENGTH];
    texts made = make_texts(LOOM_VARIABLE, ROWS, LENGTH);
    memset(bytes, first, sizeof bytes);
    for (uint64_t i = 0; i < ROWS; i++) {
        memcpy(bytes + LENGTH - 8, &i, 8);
        add_text(&made, bytes, LENGTH);
    }
    return made;
}

/* A table with room for a few strings. */
static void set_up(trial *x, double growth, uint64_t capacity)
{
    const uint64_t offsets[STORED + 1] = {0};
    const loom_strings empty = {offsets, NULL};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    config.capacity = capacity;
    config.growth = growth;
    config.string_bytes = (LENGTH + 8) * capacity;
    x->map = make_map_from(x->far->context, &config);
    CHECK_OK(loom_map_insert(x->map, &x->keys.given, &empty, STORED, LOOM_KEEP, NULL, NULL, NULL));
}

/* Which rows have a key that the table holds, with the value of the batch if `values`. */
static void look(trial *x, int values)
{
    static uint64_t offsets[ROWS + 1];
    static uint8_t status[ROWS];
    CHECK_OK(loom_map_find_strings(x->map, &x->keys.given, ROWS, offsets, NULL, 0, NULL, status, NULL, NULL));
    for (uint64_t i = 0; i < ROWS; i++)
        x->present[i] = status[i] == LOOM_OK && (!values || offsets[i + 1] - offsets[i] == LENGTH);
    checked_verify(x->map);
}

static loom_status try_insert(trial *x, loom_result *result)
{
    return loom_map_insert(x->map, &x->keys.given, &x->values.given, ROWS, LOOM_OVERWRITE, NULL, result, NULL);
}

static loom_status try_insert_in_order(trial *x, loom_result *result)
{
    return loom_map_insert(x->map, &x->keys.given, &x->values.given, ROWS, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, result,
                           NULL);
}

static loom_status try_build(trial *x, loom_result *result)
{
    return loom_map_build(x->map, &x->keys.given, &x->values.given, ROWS, LOOM_KEEP, NULL, result, NULL);
}

static loom_status try_update(trial *x, loom_result *result)
{
    return loom_map_update(x->map, &x->keys.given, &x->values.given, ROWS, NULL, result, NULL);
}

static loom_status try_erase(trial *x, loom_result *result)
{
    return loom_map_erase(x->map, &x->keys.given, ROWS, NULL, result, NULL);
}

typedef struct trial_call {
    const char *name;
    loom_status (*call)(trial *x, loom_result *result);
    int first_ones, stores; /* it concerns the keys that are stored alone; it stores values */
} trial_call;

/* After OUT_OF_MEMORY the first result->keys rows are done, and no other is. Otherwise the counts are those of all. */
static void check_outcome(trial *x, const trial_call *of, loom_status status, const loom_result *result)
{
    const uint64_t concerned = of->first_ones ? STORED : ROWS;
    uint64_t done = 0, of_first = 0;
    look(x, of->stores);
    for (uint64_t i = 0; i < concerned; i++)
        done += of->stores ? x->present[i] : !x->present[i];
    for (uint64_t i = 0; i < concerned && i < result->keys; i++)
        of_first += of->stores ? x->present[i] : !x->present[i];
    CHECK_EQ(of_first, done);
    if (status == LOOM_OUT_OF_MEMORY) {
        CHECK(result->keys == 0 || result->status == LOOM_OUT_OF_MEMORY);
        CHECK_LE(result->keys, ROWS - 1);
        CHECK_EQ(result->full, 0);
        x->parts_done += result->keys > 0;
    } else {
        CHECK_OK(status);
        CHECK_EQ(result->keys, ROWS);
    }
    CHECK_EQ(done + (of->stores ? result->full : 0), concerned < result->keys ? concerned : result->keys);
}

static void try_call(trial *x, const trial_call *of)
{
    const uint64_t bytes = counting_bytes(x->far->counter);
    for (uint64_t refused = 1; refused < MOST_REQUESTS; refused++) {
        loom_result result = {0};
        set_up(x, 2, STORED);
        test_note("%s, request %llu refused", of->name, (unsigned long long)refused);
        const uint64_t before = counting_requests(x->far->counter);
        counting_fail_at(x->far->counter, refused);
        const loom_status status = of->call(x, &result);
        counting_fail_at(x->far->counter, 0);
        const int failed = counting_requests(x->far->counter) - before >= refused;
        check_outcome(x, of, status, &result);
        loom_map_destroy(x->map);
        CHECK_EQ(counting_bytes(x->far->counter), bytes);
        if (!failed) {
            CHECK_OK(status);
            return;
        }
    }
    FAIL("the call does not succeed although no request is refused");
}

static trial make_trial(far_memory *far)
{
    return (trial){.far = far, .keys = make_column('k'), .values = make_column('v')};
}

static void free_trial(trial *x)
{
    free_texts(&x->keys);
    free_texts(&x->values);
}

TEST(test_rows_strings_parts_nth_allocation_fails)
{
    static const trial_call calls[] = {
        {"insert", try_insert, 0, 1}, {"insert in order", try_insert_in_order, 0, 1},
        {"build", try_build, 0, 1},   {"update", try_update, 1, 1},
        {"erase", try_erase, 1, 0},
    };
    far_memory far;
    make_far(&far);
    trial x = make_trial(&far);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        try_call(&x, &calls[i]);
    CHECK_GE(x.parts_done, 1);
    free_trial(&x);
    free_far(&far);
}

/* Without room, the heap refuses strings of later parts: statuses and counts are those of the whole batch. */
TEST(test_rows_strings_parts_heap_full)
{
    static uint8_t status[ROWS];
    far_memory far;
    make_far(&far);
    trial x = make_trial(&far);
    for (int builds = 0; builds < 2; builds++) {
        loom_result result = {0};
        uint64_t stored = 0;
        set_up(&x, 0, ROWS / 2);
        CHECK_OK((builds ? loom_map_build : loom_map_insert)(x.map, &x.keys.given, &x.values.given, ROWS,
                                                             LOOM_OVERWRITE, status, &result, NULL));
        look(&x, 1);
        for (uint64_t i = 0; i < ROWS; i++) {
            CHECK_EQ(x.present[i], status[i] == LOOM_OK || status[i] == LOOM_EXISTS);
            CHECK(x.present[i] || status[i] == LOOM_FULL);
            stored += x.present[i];
        }
        CHECK_EQ(result.status, LOOM_FULL);
        CHECK_EQ(result.keys, ROWS);
        CHECK_EQ(result.ok + result.exists, stored);
        CHECK_EQ(result.full, ROWS - stored);
        CHECK_EQ(result.exists, builds ? 0 : STORED);
        CHECK_GE(stored, ROWS / 5);
        loom_map_destroy(x.map);
    }
    free_trial(&x);
    free_far(&far);
}

/* A string that is too long is told so, however long it is: no part needs memory for all of it. */
TEST(test_rows_strings_parts_one_too_long)
{
    enum { LONG = 4 * MOST_TEMPORARY };
    far_memory far;
    make_far(&far);
    unsigned char *bytes = test_allocate(LONG + 6);
    uint8_t status[3];
    const uint64_t offsets[] = {0, 3, 3 + LONG, 6 + LONG}, values[] = {1, 2, 3};
    const loom_strings keys = {offsets, bytes}, longest = {offsets + 1, bytes};
    loom_result result = {0};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = LOOM_VARIABLE;
    config.value_bytes = 8;
    memset(bytes, 'a', 3);
    memset(bytes + 3, 'b', LONG + 3);
    loom_map *map = make_map_from(far.context, &config);
    CHECK_OK(loom_map_insert(map, &keys, values, 3, LOOM_KEEP, status, &result, NULL));
    CHECK_EQ(status[0], LOOM_OK);
    CHECK_EQ(status[1], LOOM_TOO_LONG);
    CHECK_EQ(status[2], LOOM_OK);
    CHECK_EQ(result.ok, 2);
    CHECK_EQ(result.too_long, 1);
    CHECK_EQ(loom_map_insert(map, &longest, values, 1, LOOM_KEEP, status, NULL, NULL), LOOM_TOO_LONG);
    CHECK_OK(loom_map_contains(map, &keys, 3, NULL, status, NULL, NULL));
    CHECK_EQ(status[1], LOOM_NOT_FOUND);
    CHECK_EQ(status[2], LOOM_OK);
    CHECK_EQ(map_size(map), 2);
    loom_map_destroy(map);
    free(bytes);
    free_far(&far);
}

/* Bytes that are copied to the machine are part of what loom_map_memory_required tells. */
TEST(test_rows_strings_parts_memory_is_what_is_told)
{
    far_memory far;
    loom_memory memory = LOOM_MEMORY_INIT, near = LOOM_MEMORY_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_context *context = make_context_with(t, 2, 7); /* as many threads: build_bytes depends on them */
    config.key_bytes = config.value_bytes = LOOM_VARIABLE;
    config.capacity = ROWS;
    config.string_bytes = 2 * ROWS * ((LENGTH + 7) / 8 * 8);
    make_far(&far);
    far.most = UINT64_MAX;
    trial x = make_trial(&far);
    CHECK_OK(loom_map_memory_required(far.context, &config, &memory));
    CHECK_OK(loom_map_memory_required(context, &config, &near));
    CHECK_EQ(near.host_array_bytes, 0);
    CHECK_EQ(near.build_bytes, memory.build_bytes);
    loom_map *map = make_map_from(far.context, &config);
    for (int in_order = 0; in_order < 2; in_order++) {
        const uint64_t before = counting_bytes(far.counter);
        counting_reset_peak(far.counter);
        CHECK_OK(loom_map_build(map, &x.keys.given, &x.values.given, ROWS, in_order ? LOOM_IN_ORDER : LOOM_KEEP, NULL,
                                NULL, NULL));
        const uint64_t taken = counting_peak(far.counter) - before;
        CHECK_LE(taken, (in_order ? memory.order_bytes : memory.build_bytes) + memory.host_array_bytes);
        CHECK_GE(taken, 2 * ROWS * LENGTH);
    }
    loom_map_destroy(map);
    free_trial(&x);
    free_far(&far);
    loom_context_destroy(context);
}
