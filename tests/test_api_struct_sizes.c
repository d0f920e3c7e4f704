/* Callers that were built with an older header: their structs are shorter, and the library serves them. The structs
 * named first_… are copies of the first layouts. They never change, whatever is appended to the structs of loom.h.
 * Each struct lies at the end of a page, and the next page cannot be read: an access beyond the caller's struct
 * ends the test. */
#define _GNU_SOURCE 1
#include "api/struct_size.h"
#include "harness/filter_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The first layouts ------------------------------------------------------------------------------------ */

/* Each list below has the fields of one struct: type, name and offset. FIRST_LAYOUT declares the copy and compares
 * it, and the struct of loom.h, with the list. */
#define DECLARE_FIELD(of, type, field, offset) type field;
#define CHECK_FIELD(of, type, field, offset)                                                                        \
    _Static_assert(offsetof(first_##of, field) == (offset), "the copy of the first layout changed");                \
    _Static_assert(offsetof(loom_##of, field) == (offset), "a field moved: fields are appended, and nothing else"); \
    _Static_assert(sizeof((loom_##of *)0)->field == sizeof((first_##of *)0)->field, "a field changed its size");
#define FIRST_LAYOUT(of, bytes, fields)                                                                            \
    typedef struct first_##of {                                                                                    \
        fields(DECLARE_FIELD, of)                                                                                  \
    } first_##of;                                                                                                  \
    fields(CHECK_FIELD, of) _Static_assert(sizeof(first_##of) == (bytes), "the copy of the first layout changed"); \
    _Static_assert(sizeof(first_##of) <= sizeof(loom_##of) && sizeof(loom_##of) % sizeof(uint64_t) == 0,           \
                   "structs grow, by whole words")

typedef void *(*first_allocate)(void *, size_t, size_t, loom_memory_kind, void *);
typedef void (*first_release)(void *, void *, size_t, loom_memory_kind, void *);
typedef void (*first_log)(void *, loom_log_level, const char *);
typedef char first_text_16[16], first_text_64[64], first_text_96[96];

#define ALLOCATOR_FIELDS(FIELD, of)        \
    FIELD(of, first_allocate, allocate, 0) \
    FIELD(of, first_release, release, 8)   \
    FIELD(of, void *, user, 16)
FIRST_LAYOUT(allocator, 24, ALLOCATOR_FIELDS);

#define CONTEXT_CONFIG_FIELDS(FIELD, of)      \
    FIELD(of, size_t, struct_size, 0)         \
    FIELD(of, uint32_t, machine, 8)           \
    FIELD(of, int32_t, device, 12)            \
    FIELD(of, uint32_t, threads, 16)          \
    FIELD(of, uint32_t, simd, 20)             \
    FIELD(of, uint32_t, fixed_seed, 24)       \
    FIELD(of, uint32_t, lanes, 28)            \
    FIELD(of, uint64_t, seed, 32)             \
    FIELD(of, first_allocator, allocator, 40) \
    FIELD(of, first_log, log, 64)             \
    FIELD(of, void *, log_user, 72)
FIRST_LAYOUT(context_config, 80, CONTEXT_CONFIG_FIELDS);

#define CONTEXT_INFO_FIELDS(FIELD, of)         \
    FIELD(of, size_t, struct_size, 0)          \
    FIELD(of, uint32_t, machine, 8)            \
    FIELD(of, uint32_t, simd, 12)              \
    FIELD(of, uint32_t, threads, 16)           \
    FIELD(of, uint32_t, reserved, 20)          \
    FIELD(of, first_text_16, machine_name, 24) \
    FIELD(of, first_text_16, simd_name, 40)    \
    FIELD(of, first_text_96, device_name, 56)  \
    FIELD(of, uint64_t, memory_bytes, 152)     \
    FIELD(of, uint64_t, huge_page_bytes, 160)
FIRST_LAYOUT(context_info, 168, CONTEXT_INFO_FIELDS);

#define MAP_CONFIG_FIELDS(FIELD, of)               \
    FIELD(of, size_t, struct_size, 0)              \
    FIELD(of, uint32_t, key_bytes, 8)              \
    FIELD(of, uint32_t, value_bytes, 12)           \
    FIELD(of, uint64_t, capacity, 16)              \
    FIELD(of, double, max_load, 24)                \
    FIELD(of, uint32_t, engine, 32)                \
    FIELD(of, uint32_t, concurrent_reads, 36)      \
    FIELD(of, uint32_t, buckets_per_partition, 40) \
    FIELD(of, uint32_t, type, 44)                  \
    FIELD(of, double, growth, 48)                  \
    FIELD(of, uint64_t, memory_limit, 56)          \
    FIELD(of, double, keys_per_cell, 64)
FIRST_LAYOUT(map_config, 72, MAP_CONFIG_FIELDS);

#define MEMORY_FIELDS(FIELD, of)          \
    FIELD(of, size_t, struct_size, 0)     \
    FIELD(of, uint64_t, table_bytes, 8)   \
    FIELD(of, uint64_t, build_bytes, 16)  \
    FIELD(of, uint64_t, status_bytes, 24) \
    FIELD(of, uint64_t, order_bytes, 32)  \
    FIELD(of, uint64_t, low_memory_bytes, 40)
FIRST_LAYOUT(memory, 48, MEMORY_FIELDS);

#define STATS_FIELDS(FIELD, of)                    \
    FIELD(of, size_t, struct_size, 0)              \
    FIELD(of, uint32_t, engine, 8)                 \
    FIELD(of, uint32_t, key_bytes, 12)             \
    FIELD(of, uint32_t, value_bytes, 16)           \
    FIELD(of, uint32_t, slots_per_bucket, 20)      \
    FIELD(of, uint64_t, capacity, 24)              \
    FIELD(of, uint64_t, size, 32)                  \
    FIELD(of, uint64_t, slots, 40)                 \
    FIELD(of, uint64_t, partitions, 48)            \
    FIELD(of, uint64_t, buckets_per_partition, 56) \
    FIELD(of, uint64_t, fullest_partition, 64)     \
    FIELD(of, uint64_t, displaced, 72)             \
    FIELD(of, uint64_t, longest_chain, 80)         \
    FIELD(of, uint64_t, memory_bytes, 88)          \
    FIELD(of, uint64_t, seed, 96)                  \
    FIELD(of, double, load, 104)                   \
    FIELD(of, double, accesses_per_hit, 112)       \
    FIELD(of, double, accesses_per_miss, 120)      \
    FIELD(of, uint32_t, type, 128)                 \
    FIELD(of, uint32_t, reserved, 132)             \
    FIELD(of, uint64_t, code_bytes, 136)           \
    FIELD(of, uint64_t, stashed, 144)
FIRST_LAYOUT(stats, 152, STATS_FIELDS);

#define ACTIVITY_FIELDS(FIELD, of)        \
    FIELD(of, size_t, struct_size, 0)     \
    FIELD(of, uint64_t, calls, 8)         \
    FIELD(of, uint64_t, keys, 16)         \
    FIELD(of, uint64_t, growths, 24)      \
    FIELD(of, double, growth_seconds, 32) \
    FIELD(of, uint64_t, upkeeps, 40)      \
    FIELD(of, uint32_t, last_route, 48)   \
    FIELD(of, uint32_t, reserved, 52)
FIRST_LAYOUT(activity, 56, ACTIVITY_FIELDS);

#define FILTER_CONFIG_FIELDS(FIELD, of)        \
    FIELD(of, size_t, struct_size, 0)          \
    FIELD(of, uint32_t, key_bytes, 8)          \
    FIELD(of, uint32_t, probes, 12)            \
    FIELD(of, uint64_t, capacity, 16)          \
    FIELD(of, double, false_positive_rate, 24) \
    FIELD(of, uint64_t, bytes, 32)
FIRST_LAYOUT(filter_config, 40, FILTER_CONFIG_FIELDS);

#define FILTER_REPORT_FIELDS(FIELD, of)        \
    FIELD(of, size_t, struct_size, 0)          \
    FIELD(of, uint32_t, engine, 8)             \
    FIELD(of, uint32_t, key_bytes, 12)         \
    FIELD(of, uint32_t, probes, 16)            \
    FIELD(of, uint32_t, reserved, 20)          \
    FIELD(of, uint64_t, capacity, 24)          \
    FIELD(of, uint64_t, blocks, 32)            \
    FIELD(of, uint64_t, bits_set, 40)          \
    FIELD(of, uint64_t, memory_bytes, 48)      \
    FIELD(of, uint64_t, seed, 56)              \
    FIELD(of, double, fill, 64)                \
    FIELD(of, double, estimated_keys, 72)      \
    FIELD(of, double, false_positive_rate, 80) \
    FIELD(of, double, designed_rate, 88)
FIRST_LAYOUT(filter_report, 96, FILTER_REPORT_FIELDS);

#define LIMIT_FIELDS(FIELD, of)              \
    FIELD(of, size_t, struct_size, 0)        \
    FIELD(of, uint32_t, kind, 8)             \
    FIELD(of, uint32_t, access_bytes, 12)    \
    FIELD(of, uint64_t, footprint_bytes, 16) \
    FIELD(of, double, rate, 24)              \
    FIELD(of, first_text_64, shape, 32)
FIRST_LAYOUT(limit, 96, LIMIT_FIELDS);

#define DURABLE_CONFIG_FIELDS(FIELD, of)      \
    FIELD(of, size_t, struct_size, 0)         \
    FIELD(of, uint32_t, medium, 8)            \
    FIELD(of, uint32_t, commit_by_itself, 12) \
    FIELD(of, uint64_t, journal_bytes, 16)    \
    FIELD(of, uint32_t, accept_loss, 24)      \
    FIELD(of, uint32_t, reserved, 28)
FIRST_LAYOUT(durable_config, 32, DURABLE_CONFIG_FIELDS);

#define DURABILITY_FIELDS(FIELD, of)            \
    FIELD(of, size_t, struct_size, 0)           \
    FIELD(of, uint64_t, committed, 8)           \
    FIELD(of, uint64_t, synced, 16)             \
    FIELD(of, uint64_t, snapshot, 24)           \
    FIELD(of, uint64_t, snapshot_bytes, 32)     \
    FIELD(of, uint64_t, journal_bytes, 40)      \
    FIELD(of, uint64_t, journal_used, 48)       \
    FIELD(of, uint64_t, waiting_bytes, 56)      \
    FIELD(of, uint64_t, written_bytes, 64)      \
    FIELD(of, uint64_t, commits, 72)            \
    FIELD(of, uint64_t, syncs, 80)              \
    FIELD(of, uint64_t, checkpoints, 88)        \
    FIELD(of, uint32_t, refuses, 96)            \
    FIELD(of, uint32_t, created, 100)           \
    FIELD(of, uint64_t, recovered_pairs, 104)   \
    FIELD(of, uint64_t, recovered_records, 112) \
    FIELD(of, uint64_t, torn_bytes, 120)        \
    FIELD(of, uint64_t, lost_commits, 128)
FIRST_LAYOUT(durability, 136, DURABILITY_FIELDS);

#define DURABLE_REPORT_FIELDS(FIELD, of)    \
    FIELD(of, size_t, struct_size, 0)       \
    FIELD(of, uint32_t, type, 8)            \
    FIELD(of, uint32_t, key_bytes, 12)      \
    FIELD(of, uint32_t, value_bytes, 16)    \
    FIELD(of, uint32_t, damaged, 20)        \
    FIELD(of, uint64_t, epoch, 24)          \
    FIELD(of, uint64_t, snapshot, 32)       \
    FIELD(of, uint64_t, snapshot_bytes, 40) \
    FIELD(of, uint64_t, snapshot_pairs, 48) \
    FIELD(of, uint64_t, journal_bytes, 56)  \
    FIELD(of, uint64_t, journal_used, 64)   \
    FIELD(of, uint64_t, records, 72)        \
    FIELD(of, uint64_t, torn_bytes, 80)     \
    FIELD(of, uint64_t, damaged_at, 88)     \
    FIELD(of, uint64_t, damaged_bytes, 96)  \
    FIELD(of, uint64_t, lost_commits, 104)
FIRST_LAYOUT(durable_report, 112, DURABLE_REPORT_FIELDS);

/* ---- Structs at the end of a page --------------------------------------------------------------------------- */

enum { UNTOUCHED = 0x5a };

/* A copy of the struct that ends where a page ends. The next page cannot be read. */
static void *place(const void *any, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    memset(pages, UNTOUCHED, page);
    return memcpy(pages + page - bytes, any, bytes);
}

/* The same for input structs: the library can read the struct and not write to it. */
static const void *place_input(const void *any, size_t bytes)
{
    char *at = place(any, bytes);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(mprotect(at + bytes - page, page, PROT_READ) == 0);
    return at;
}

/* An output struct: its struct_size is set. The library must overwrite all other fields. */
static void *place_output(size_t bytes)
{
    char any[256];
    memset(any, UNTOUCHED, sizeof any);
    memcpy(any, &bytes, sizeof bytes);
    return place(any, bytes);
}

static void check_untouched_before(const void *at, size_t bytes)
{
    const char *first = (const char *)at + bytes - sysconf(_SC_PAGESIZE);
    for (const char *byte = first; byte < (const char *)at; byte++)
        CHECK_EQ(*byte, UNTOUCHED);
}

/* An older caller got the fields that a caller of today gets. Its struct_size did not change. */
static void check_output(const void *got, size_t bytes, const void *today)
{
    CHECK_EQ(*(const size_t *)got, bytes);
    CHECK_BYTES((const char *)got + sizeof bytes, (const char *)today + sizeof bytes, bytes - sizeof bytes);
    check_untouched_before(got, bytes);
}

/* ---- Calls that take a struct ----------------------------------------------------------------------------------- */

typedef struct objects {
    loom_context *context;
    const loom_map_config *map_config; /* of today, or older */
    loom_map *map;
    const loom_filter_config *filter_config; /* likewise */
    loom_filter *filter;
    loom_map *durable;
    const char *durable_path;
} objects;

static loom_status context_create(objects *o, void *given)
{
    loom_context *made = NULL;
    loom_status status = loom_context_create(given, &made);
    (void)o;
    CHECK(made == NULL);
    return status;
}

static loom_status context_describe(objects *o, void *given)
{
    return loom_context_describe(o->context, given);
}

static loom_status map_memory_required_config(objects *o, void *given)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    return loom_map_memory_required(o->context, given, &memory);
}

static loom_status map_memory_required_memory(objects *o, void *given)
{
    return loom_map_memory_required(o->context, o->map_config, given);
}

static loom_status map_create(objects *o, void *given)
{
    loom_map *made = NULL;
    loom_status status = loom_map_create(o->context, given, &made);
    CHECK(made == NULL);
    return status;
}

static loom_status map_get_config(objects *o, void *given)
{
    return loom_map_get_config(o->map, given);
}

static loom_status map_get_activity(objects *o, void *given)
{
    return loom_map_activity(o->map, given, NULL);
}

static loom_status map_get_stats(objects *o, void *given)
{
    return loom_map_stats(o->map, given, NULL);
}

static loom_status filter_memory_required_config(objects *o, void *given)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    return loom_filter_memory_required(o->context, given, &memory);
}

static loom_status filter_memory_required_memory(objects *o, void *given)
{
    return loom_filter_memory_required(o->context, o->filter_config, given);
}

static loom_status filter_create(objects *o, void *given)
{
    loom_filter *made = NULL;
    loom_status status = loom_filter_create(o->context, given, &made);
    CHECK(made == NULL);
    return status;
}

static loom_status filter_get_config(objects *o, void *given)
{
    return loom_filter_get_config(o->filter, given);
}

static loom_status filter_stats(objects *o, void *given)
{
    return loom_filter_stats(o->filter, given, NULL);
}

static loom_status measure_limit(objects *o, void *given)
{
    return loom_measure_limit(o->context, given);
}

static loom_status map_open(objects *o, void *given)
{
    loom_map *made = NULL;
    loom_status status = loom_map_open(o->context, o->durable_path, o->map_config, given, &made);
    CHECK(made == NULL);
    return status;
}

static loom_status map_get_durability(objects *o, void *given)
{
    return loom_map_durability(o->durable, given);
}

static loom_status durable_check(objects *o, void *given)
{
    return loom_durable_check(o->durable_path, given);
}

/* A call that fills in a struct gives an older caller and a caller of today the same fields. `today`: the struct of
 * today. */
static void check_served(objects *o, loom_status (*call)(objects *, void *), size_t first_bytes, void *today)
{
    void *first = place_output(first_bytes);
    CHECK_OK(call(o, today));
    CHECK_OK(call(o, first));
    check_output(first, first_bytes, today);
}

/* ---- Callers with the first layouts are served ---------------------------------------------------------------- */

static void count_line(void *user, loom_log_level level, const char *message)
{
    (void)level, (void)message;
    ++*(int *)user;
}

static loom_context *make_first_context(test_run *t, int *lines)
{
    first_context_config config = {.struct_size = sizeof config, .device = -1, .threads = 2, .fixed_seed = 1};
    config.machine = (uint32_t)t->machine;
    config.seed = 77;
    config.log = count_line;
    config.log_user = lines;
    loom_context *context = NULL;
    CHECK_OK(loom_context_create(place_input(&config, sizeof config), &context));
    return context;
}

TEST(test_api_struct_sizes_first_context)
{
    int lines = 0;
    objects o = {.context = make_first_context(t, &lines)};
    CHECK_GT(lines, 0);
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    check_served(&o, context_describe, sizeof(first_context_info), &info);
    CHECK_EQ(info.threads, 2);
    loom_context_destroy(o.context);
}

TEST(test_api_struct_sizes_first_map)
{
    int lines = 0;
    objects o = {.context = make_first_context(t, &lines)};
    first_map_config config = {.struct_size = sizeof config, .key_bytes = 4, .value_bytes = 8, .capacity = 5000};
    config.max_load = 0.5;
    config.engine = LOOM_ENGINE_OPEN;
    config.buckets_per_partition = 101;
    config.type = LOOM_TYPE_COUNTER;
    config.growth = 3;
    config.memory_limit = 1 << 30;
    o.map_config = place_input(&config, sizeof config);

    loom_memory memory = LOOM_MEMORY_INIT;
    check_served(&o, map_memory_required_memory, sizeof(first_memory), &memory);
    CHECK_GT(memory.table_bytes, 5000 * (4 + 8));

    CHECK_OK(loom_map_create(o.context, o.map_config, &o.map));
    void *got = place_output(sizeof(first_map_config));
    CHECK_OK(loom_map_get_config(o.map, got));
    check_output(got, sizeof(first_map_config), o.map_config);

    batch b = make_batch_of(4, 8, 1000);
    fill_distinct(&b, 1, 0);
    checked_insert(o.map, &b, LOOM_KEEP);
    loom_stats stats = LOOM_STATS_INIT;
    check_served(&o, map_get_stats, sizeof(first_stats), &stats);
    CHECK_EQ(stats.size, 1000);
    CHECK_EQ(stats.seed, 77);
    loom_activity activity = LOOM_ACTIVITY_INIT;
    check_served(&o, map_get_activity, sizeof(first_activity), &activity);
    CHECK_EQ(activity.keys, 1000);
    free_batch(&b);
    loom_map_destroy(o.map);
    loom_context_destroy(o.context);
}

TEST(test_api_struct_sizes_first_filter)
{
    int lines = 0;
    objects o = {.context = make_first_context(t, &lines)};
    first_filter_config config = {.struct_size = sizeof config, .key_bytes = 8, .probes = 8, .capacity = 5000};
    config.false_positive_rate = 0.01;
    o.filter_config = place_input(&config, sizeof config);

    loom_memory memory = LOOM_MEMORY_INIT;
    check_served(&o, filter_memory_required_memory, sizeof(first_memory), &memory);
    CHECK_GT(memory.table_bytes, 5000);

    CHECK_OK(loom_filter_create(o.context, o.filter_config, &o.filter));
    loom_filter_config config_today = LOOM_FILTER_CONFIG_INIT;
    check_served(&o, filter_get_config, sizeof(first_filter_config), &config_today);
    CHECK_EQ(config_today.capacity, 5000);
    CHECK_EQ(config_today.probes, 8);

    uint64_t keys[3] = {1, 2, 3};
    CHECK_OK(loom_filter_insert(o.filter, keys, 3, 0, NULL, NULL, NULL));
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    check_served(&o, filter_stats, sizeof(first_filter_report), &report);
    CHECK_GT(report.bits_set, 0);
    loom_filter_destroy(o.filter);

    /* The first header set a rate by default, and `bytes` overrode it. */
    config.false_positive_rate = 0.001;
    config.bytes = 4096;
    o.filter_config = place_input(&config, sizeof config);
    CHECK_OK(loom_filter_memory_required(o.context, o.filter_config, &memory));
    CHECK_OK(loom_filter_create(o.context, o.filter_config, &o.filter));
    CHECK_EQ(filter_report(o.filter).blocks, 64);
    loom_filter_destroy(o.filter);
    loom_context_destroy(o.context);
}

TEST(test_api_struct_sizes_first_durable)
{
    const uint64_t key = 5;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    objects o = {.context = make_context_with(t, 1, 1), .durable_path = test_path(t, "map")};
    const first_durable_config durable = {.struct_size = sizeof durable, .journal_bytes = 1 << 17};
    config.key_bytes = config.value_bytes = 8;
    CHECK_OK(loom_map_open(o.context, o.durable_path, &config, place_input(&durable, sizeof durable), &o.durable));
    CHECK_OK(loom_map_insert(o.durable, &key, &key, 1, LOOM_KEEP, NULL, NULL, NULL));
    loom_durability told = LOOM_DURABILITY_INIT;
    check_served(&o, map_get_durability, sizeof(first_durability), &told);
    CHECK_EQ(told.journal_bytes, 1 << 17);
    CHECK_EQ(told.committed, 0); /* commit_by_itself = 0 */
    CHECK_GT(told.waiting_bytes, 16);
    CHECK_OK(loom_map_checkpoint(o.durable));
    loom_map_destroy(o.durable);
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    check_served(&o, durable_check, sizeof(first_durable_report), &report);
    CHECK_EQ(report.epoch, 1);
    CHECK_EQ(report.snapshot_pairs, 1);
    CHECK_EQ(report.key_bytes, 8);
    loom_context_destroy(o.context);
}

TEST(test_api_struct_sizes_first_limit)
{
    loom_context *context = make_context_with(t, 1, 1);
    first_limit limit = {.struct_size = sizeof limit, .kind = LOOM_LIMIT_COPY, .footprint_bytes = 4096};
    first_limit *given = place(&limit, sizeof limit);
    CHECK_OK(loom_measure_limit(context, (loom_limit *)(void *)given));
    CHECK_BYTES(given, &limit, offsetof(first_limit, rate));
    CHECK(given->rate > 0);
    CHECK(given->shape[0] != 0);
    CHECK(memchr(given->shape, 0, sizeof given->shape) != NULL);
    check_untouched_before(given, sizeof *given);
    loom_context_destroy(context);
}

/* ---- Other sizes are refused -------------------------------------------------------------------------------- */

/* The library reads only the struct_size of a struct that it refuses. The test places nothing else. */
static void check_size_refused(objects *o, loom_status (*call)(objects *, void *), const char *name, size_t size,
                               const char *why)
{
    test_note("%s with struct_size %zu", name, size);
    size_t *given = place(&size, sizeof size);
    CHECK_REFUSED(call(o, given), LOOM_INVALID_ARGUMENT);
    CHECK(strstr(loom_last_error(), name) != NULL);
    CHECK(strstr(loom_last_error(), why) != NULL);
    CHECK_EQ(*given, size);
    check_untouched_before(given, sizeof size);
}

TEST(test_api_struct_sizes_others_refused)
{
    static const struct {
        loom_status (*call)(objects *, void *);
        const char *name;
        size_t first, today;
    } cases[] = {
#define CASE(call, type) {call, "loom_" #type, sizeof(first_##type), sizeof(loom_##type)}
        CASE(context_create, context_config),
        CASE(context_describe, context_info),
        CASE(map_memory_required_config, map_config),
        CASE(map_memory_required_memory, memory),
        CASE(map_create, map_config),
        CASE(map_get_config, map_config),
        CASE(map_get_stats, stats),
        CASE(map_get_activity, activity),
        CASE(filter_memory_required_config, filter_config),
        CASE(filter_memory_required_memory, memory),
        CASE(filter_create, filter_config),
        CASE(filter_get_config, filter_config),
        CASE(filter_stats, filter_report),
        CASE(measure_limit, limit),
        CASE(map_open, durable_config),
        CASE(map_get_durability, durability),
        CASE(durable_check, durable_report),
#undef CASE
    };
    loom_map_config map_config = make_config(t, 100);
    map_config.key_bytes = map_config.value_bytes = 4;
    loom_filter_config filter_config = LOOM_FILTER_CONFIG_INIT;
    filter_config.key_bytes = 4;
    filter_config.capacity = 100;
    objects o = {.context = make_context(t), .map_config = &map_config, .filter_config = &filter_config};
    o.map = make_map_from(o.context, &map_config);
    o.filter = make_filter_from(o.context, &filter_config);
    o.durable_path = test_path(t, "map");
    loom_durable_config durable_config = LOOM_DURABLE_CONFIG_INIT;
    durable_config.journal_bytes = 65536;
    CHECK_OK(loom_map_open(o.context, o.durable_path, &map_config, &durable_config, &o.durable));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t smaller[] = {0, 1, sizeof(size_t), cases[i].first - 8, cases[i].first - 1};
        const size_t larger[] = {cases[i].today + 1, cases[i].today + 8, 2 * cases[i].today, SIZE_MAX};
        for (size_t k = 0; k < sizeof smaller / sizeof smaller[0]; k++)
            check_size_refused(&o, cases[i].call, cases[i].name, smaller[k], "_INIT");
        for (size_t k = 0; k < sizeof larger / sizeof larger[0]; k++)
            check_size_refused(&o, cases[i].call, cases[i].name, larger[k], "newer");
    }
    loom_filter_destroy(o.filter);
    loom_map_destroy(o.map);
    loom_map_destroy(o.durable);
    loom_context_destroy(o.context);
}

/* ---- A struct that grew --------------------------------------------------------------------------------------- */

/* This struct stands for all that grow. */
typedef struct first_grown {
    size_t struct_size;
    uint32_t a, b;
} first_grown;

typedef struct loom_grown {
    size_t struct_size;
    uint32_t a, b;
    double c; /* came second */
    uint32_t d[4];
} loom_grown;

static const loom__struct grown_kind = {"loom_grown", sizeof(loom_grown), sizeof(first_grown)};

TEST(test_api_struct_sizes_grown_input)
{
    loom_grown own = {sizeof own, 1, 2, 3.5, {4, 5, 6, 7}};
    const first_grown first = {sizeof first, 10, 20};
    CHECK_OK(loom__struct_in(&grown_kind, &own, place_input(&first, sizeof first)));
    CHECK_EQ(own.struct_size, sizeof own);
    CHECK_EQ(own.a, 10);
    CHECK_EQ(own.b, 20);
    CHECK(own.c == 3.5);
    CHECK_EQ(own.d[0], 4);
    CHECK_EQ(own.d[3], 7);

    const loom_grown today = {sizeof today, 11, 21, 31, {41, 51, 61, 71}};
    CHECK_OK(loom__struct_in(&grown_kind, &own, place_input(&today, sizeof today)));
    CHECK_BYTES(&own, &today, sizeof today);
}

TEST(test_api_struct_sizes_grown_output)
{
    const loom_grown own = {sizeof own, 1, 2, 3.5, {4, 5, 6, 7}};
    void *first = place_output(sizeof(first_grown));
    CHECK_OK(loom__struct_check(&grown_kind, first));
    loom__struct_out(first, &own);
    check_output(first, sizeof(first_grown), &own);

    void *today = place_output(sizeof(loom_grown));
    CHECK_OK(loom__struct_check(&grown_kind, today));
    loom__struct_out(today, &own);
    check_output(today, sizeof(loom_grown), &own);
}

TEST(test_api_struct_sizes_grown_every_size)
{
    for (size_t size = 0; size < sizeof(loom_grown) + 16; size++) {
        const loom_grown defaults = {sizeof defaults, 1, 2, 3.5, {4, 5, 6, 7}};
        loom_grown own = defaults;
        unsigned char given[sizeof(loom_grown) + 16], before[sizeof given];
        memset(before, UNTOUCHED, sizeof before);
        memcpy(before, &size, sizeof size);
        memcpy(given, before, sizeof given);
        test_note("struct_size %zu", size);
        if (size < sizeof(first_grown) || size > sizeof(loom_grown)) {
            CHECK_REFUSED(loom__struct_check(&grown_kind, given), LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom__struct_in(&grown_kind, &own, given), LOOM_INVALID_ARGUMENT);
            CHECK_BYTES(&own, &defaults, sizeof own);
            continue;
        }
        CHECK_OK(loom__struct_in(&grown_kind, &own, given));
        CHECK_EQ(own.struct_size, sizeof own);
        CHECK_BYTES((char *)&own + sizeof size, before + sizeof size, size - sizeof size);
        CHECK_BYTES((char *)&own + size, (const char *)&defaults + size, sizeof own - size);
        CHECK_BYTES(given, before, sizeof given);
        loom__struct_out(given, &defaults);
        CHECK_BYTES(given, before, sizeof size);
        CHECK_BYTES(given + sizeof size, (const char *)&defaults + sizeof size, size - sizeof size);
        CHECK_BYTES(given + size, before + size, sizeof given - size);
    }
}
