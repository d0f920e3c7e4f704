/* Callers built with an older header: their structs are shorter, and are served. The structs named first_… are copies of the first
 * layouts. They never change, whatever is appended to the structs of loom.h. Each lies at the end of a page, before one that
 * cannot be read, so that an access beyond the caller's struct ends the test. */
#define _GNU_SOURCE 1
#include "api/struct_size.h"
#include "harness/filter_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The first layouts ------------------------------------------------------------------------------------ */

#define FIRST_SIZE(type, bytes)                                                                                \
    _Static_assert(sizeof(first_##type) == (bytes), "the copy of the first layout changed");                   \
    _Static_assert(sizeof(first_##type) <= sizeof(loom_##type) && sizeof(loom_##type) % sizeof(uint64_t) == 0, \
                   "structs grow, by whole words")
#define FIRST_FIELD(type, field, offset)                                                                              \
    _Static_assert(offsetof(first_##type, field) == (offset), "the copy of the first layout changed");                \
    _Static_assert(offsetof(loom_##type, field) == (offset), "a field moved: fields are appended, and nothing else"); \
    _Static_assert(sizeof((loom_##type *)0)->field == sizeof((first_##type *)0)->field, "a field changed its size")

typedef struct first_context_config {
    size_t struct_size;
    uint32_t machine;
    int32_t device;
    uint32_t threads;
    uint32_t simd;
    uint32_t fixed_seed;
    uint32_t lanes;
    uint64_t seed;
    struct {
        void *(*allocate)(void *, size_t, size_t, loom_memory_kind, void *);
        void (*release)(void *, void *, size_t, loom_memory_kind, void *);
        void *user;
    } allocator;
    void (*log)(void *, loom_log_level, const char *);
    void *log_user;
} first_context_config;
FIRST_SIZE(context_config, 80);
FIRST_FIELD(context_config, struct_size, 0);
FIRST_FIELD(context_config, machine, 8);
FIRST_FIELD(context_config, device, 12);
FIRST_FIELD(context_config, threads, 16);
FIRST_FIELD(context_config, simd, 20);
FIRST_FIELD(context_config, fixed_seed, 24);
FIRST_FIELD(context_config, lanes, 28);
FIRST_FIELD(context_config, seed, 32);
FIRST_FIELD(context_config, allocator, 40);
FIRST_FIELD(context_config, allocator.allocate, 40);
FIRST_FIELD(context_config, allocator.release, 48);
FIRST_FIELD(context_config, allocator.user, 56);
FIRST_FIELD(context_config, log, 64);
FIRST_FIELD(context_config, log_user, 72);

typedef struct first_context_info {
    size_t struct_size;
    uint32_t machine;
    uint32_t simd;
    uint32_t threads;
    uint32_t reserved;
    char machine_name[16];
    char simd_name[16];
    char device_name[96];
    uint64_t memory_bytes;
    uint64_t huge_page_bytes;
} first_context_info;
FIRST_SIZE(context_info, 168);
FIRST_FIELD(context_info, struct_size, 0);
FIRST_FIELD(context_info, machine, 8);
FIRST_FIELD(context_info, simd, 12);
FIRST_FIELD(context_info, threads, 16);
FIRST_FIELD(context_info, reserved, 20);
FIRST_FIELD(context_info, machine_name, 24);
FIRST_FIELD(context_info, simd_name, 40);
FIRST_FIELD(context_info, device_name, 56);
FIRST_FIELD(context_info, memory_bytes, 152);
FIRST_FIELD(context_info, huge_page_bytes, 160);

typedef struct first_map_config {
    size_t struct_size;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint64_t capacity;
    double max_load;
    uint32_t engine;
    uint32_t concurrent_reads;
    uint32_t buckets_per_partition;
    uint32_t type;
    double growth;
    uint64_t memory_limit;
    double keys_per_cell;
} first_map_config;
FIRST_SIZE(map_config, 72);
FIRST_FIELD(map_config, struct_size, 0);
FIRST_FIELD(map_config, key_bytes, 8);
FIRST_FIELD(map_config, value_bytes, 12);
FIRST_FIELD(map_config, capacity, 16);
FIRST_FIELD(map_config, max_load, 24);
FIRST_FIELD(map_config, engine, 32);
FIRST_FIELD(map_config, concurrent_reads, 36);
FIRST_FIELD(map_config, buckets_per_partition, 40);
FIRST_FIELD(map_config, type, 44);
FIRST_FIELD(map_config, growth, 48);
FIRST_FIELD(map_config, memory_limit, 56);
FIRST_FIELD(map_config, keys_per_cell, 64);

typedef struct first_memory {
    size_t struct_size;
    uint64_t table_bytes;
    uint64_t build_bytes;
    uint64_t status_bytes;
    uint64_t order_bytes;
    uint64_t low_memory_bytes;
} first_memory;
FIRST_SIZE(memory, 48);
FIRST_FIELD(memory, struct_size, 0);
FIRST_FIELD(memory, table_bytes, 8);
FIRST_FIELD(memory, build_bytes, 16);
FIRST_FIELD(memory, status_bytes, 24);
FIRST_FIELD(memory, order_bytes, 32);
FIRST_FIELD(memory, low_memory_bytes, 40);

typedef struct first_stats {
    size_t struct_size;
    uint32_t engine;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t slots_per_bucket;
    uint64_t capacity;
    uint64_t size;
    uint64_t slots;
    uint64_t partitions;
    uint64_t buckets_per_partition;
    uint64_t fullest_partition;
    uint64_t displaced;
    uint64_t longest_chain;
    uint64_t memory_bytes;
    uint64_t seed;
    double load;
    double accesses_per_hit;
    double accesses_per_miss;
    uint32_t type;
    uint32_t reserved;
    uint64_t code_bytes;
    uint64_t stashed;
} first_stats;
FIRST_SIZE(stats, 152);
FIRST_FIELD(stats, struct_size, 0);
FIRST_FIELD(stats, engine, 8);
FIRST_FIELD(stats, key_bytes, 12);
FIRST_FIELD(stats, value_bytes, 16);
FIRST_FIELD(stats, slots_per_bucket, 20);
FIRST_FIELD(stats, capacity, 24);
FIRST_FIELD(stats, size, 32);
FIRST_FIELD(stats, slots, 40);
FIRST_FIELD(stats, partitions, 48);
FIRST_FIELD(stats, buckets_per_partition, 56);
FIRST_FIELD(stats, fullest_partition, 64);
FIRST_FIELD(stats, displaced, 72);
FIRST_FIELD(stats, longest_chain, 80);
FIRST_FIELD(stats, memory_bytes, 88);
FIRST_FIELD(stats, seed, 96);
FIRST_FIELD(stats, load, 104);
FIRST_FIELD(stats, accesses_per_hit, 112);
FIRST_FIELD(stats, accesses_per_miss, 120);
FIRST_FIELD(stats, type, 128);
FIRST_FIELD(stats, reserved, 132);
FIRST_FIELD(stats, code_bytes, 136);
FIRST_FIELD(stats, stashed, 144);

typedef struct first_filter_config {
    size_t struct_size;
    uint32_t key_bytes;
    uint32_t probes;
    uint64_t capacity;
    double false_positive_rate;
    uint64_t bytes;
} first_filter_config;
FIRST_SIZE(filter_config, 40);
FIRST_FIELD(filter_config, struct_size, 0);
FIRST_FIELD(filter_config, key_bytes, 8);
FIRST_FIELD(filter_config, probes, 12);
FIRST_FIELD(filter_config, capacity, 16);
FIRST_FIELD(filter_config, false_positive_rate, 24);
FIRST_FIELD(filter_config, bytes, 32);

typedef struct first_filter_report {
    size_t struct_size;
    uint32_t engine;
    uint32_t key_bytes;
    uint32_t probes;
    uint32_t reserved;
    uint64_t capacity;
    uint64_t blocks;
    uint64_t bits_set;
    uint64_t memory_bytes;
    uint64_t seed;
    double fill;
    double estimated_keys;
    double false_positive_rate;
    double designed_rate;
} first_filter_report;
FIRST_SIZE(filter_report, 96);
FIRST_FIELD(filter_report, struct_size, 0);
FIRST_FIELD(filter_report, engine, 8);
FIRST_FIELD(filter_report, key_bytes, 12);
FIRST_FIELD(filter_report, probes, 16);
FIRST_FIELD(filter_report, reserved, 20);
FIRST_FIELD(filter_report, capacity, 24);
FIRST_FIELD(filter_report, blocks, 32);
FIRST_FIELD(filter_report, bits_set, 40);
FIRST_FIELD(filter_report, memory_bytes, 48);
FIRST_FIELD(filter_report, seed, 56);
FIRST_FIELD(filter_report, fill, 64);
FIRST_FIELD(filter_report, estimated_keys, 72);
FIRST_FIELD(filter_report, false_positive_rate, 80);
FIRST_FIELD(filter_report, designed_rate, 88);

typedef struct first_limit {
    size_t struct_size;
    uint32_t kind;
    uint32_t access_bytes;
    uint64_t footprint_bytes;
    double rate;
    char shape[64];
} first_limit;
FIRST_SIZE(limit, 96);
FIRST_FIELD(limit, struct_size, 0);
FIRST_FIELD(limit, kind, 8);
FIRST_FIELD(limit, access_bytes, 12);
FIRST_FIELD(limit, footprint_bytes, 16);
FIRST_FIELD(limit, rate, 24);
FIRST_FIELD(limit, shape, 32);

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

/* The same, and the struct cannot be written either. */
static const void *place_input(const void *any, size_t bytes)
{
    char *at = place(any, bytes);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(mprotect(at + bytes - page, page, PROT_READ) == 0);
    return at;
}

/* An output struct as its _INIT macro sets it, but for fields that are to be overwritten. */
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

/* An older caller got the fields that a caller of today gets, and its struct_size is what it was. */
static void check_output(const void *got, size_t bytes, const void *today)
{
    CHECK_EQ(*(const size_t *)got, bytes);
    CHECK_BYTES((const char *)got + sizeof bytes, (const char *)today + sizeof bytes, bytes - sizeof bytes);
    check_untouched_before(got, bytes);
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
    loom_context *context = make_first_context(t, &lines);
    CHECK_GT(lines, 0);
    loom_context_info today = LOOM_CONTEXT_INFO_INIT;
    CHECK_OK(loom_context_describe(context, &today));
    CHECK_EQ(today.threads, 2);
    void *info = place_output(sizeof(first_context_info));
    CHECK_OK(loom_context_describe(context, info));
    check_output(info, sizeof(first_context_info), &today);
    loom_context_destroy(context);
}

TEST(test_api_struct_sizes_first_map)
{
    int lines = 0;
    loom_context *context = make_first_context(t, &lines);
    first_map_config config = {.struct_size = sizeof config, .key_bytes = 4, .value_bytes = 8, .capacity = 5000};
    config.max_load = 0.5;
    config.engine = LOOM_ENGINE_OPEN;
    config.buckets_per_partition = 101;
    config.type = LOOM_TYPE_COUNTER;
    config.growth = 3;
    config.memory_limit = 1 << 30;
    const void *given = place_input(&config, sizeof config);

    loom_memory memory_today = LOOM_MEMORY_INIT;
    void *memory = place_output(sizeof(first_memory));
    CHECK_OK(loom_map_memory_required(context, given, &memory_today));
    CHECK_OK(loom_map_memory_required(context, given, memory));
    CHECK_GT(memory_today.table_bytes, 5000 * (4 + 8));
    check_output(memory, sizeof(first_memory), &memory_today);

    loom_map *map = NULL;
    CHECK_OK(loom_map_create(context, given, &map));
    void *got = place_output(sizeof(first_map_config));
    CHECK_OK(loom_map_get_config(map, got));
    check_output(got, sizeof(first_map_config), given);

    batch b = make_batch_of(4, 8, 1000);
    fill_distinct(&b, 1, 0);
    checked_insert(map, &b, LOOM_KEEP);
    loom_stats today = LOOM_STATS_INIT;
    void *stats = place_output(sizeof(first_stats));
    CHECK_OK(loom_map_stats(map, &today, NULL));
    CHECK_OK(loom_map_stats(map, stats, NULL));
    CHECK_EQ(today.size, 1000);
    CHECK_EQ(today.seed, 77);
    check_output(stats, sizeof(first_stats), &today);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_api_struct_sizes_first_filter)
{
    int lines = 0;
    loom_context *context = make_first_context(t, &lines);
    first_filter_config config = {.struct_size = sizeof config, .key_bytes = 8, .probes = 8, .capacity = 5000};
    config.false_positive_rate = 0.01;
    const void *given = place_input(&config, sizeof config);

    loom_memory memory_today = LOOM_MEMORY_INIT;
    void *memory = place_output(sizeof(first_memory));
    CHECK_OK(loom_filter_memory_required(context, given, &memory_today));
    CHECK_OK(loom_filter_memory_required(context, given, memory));
    CHECK_GT(memory_today.table_bytes, 5000);
    check_output(memory, sizeof(first_memory), &memory_today);

    loom_filter *filter = NULL;
    CHECK_OK(loom_filter_create(context, given, &filter));
    loom_filter_config config_today = LOOM_FILTER_CONFIG_INIT;
    void *got = place_output(sizeof(first_filter_config));
    CHECK_OK(loom_filter_get_config(filter, &config_today));
    CHECK_OK(loom_filter_get_config(filter, got));
    CHECK_EQ(config_today.capacity, 5000);
    CHECK_EQ(config_today.probes, 8);
    check_output(got, sizeof(first_filter_config), &config_today);

    uint64_t keys[3] = {1, 2, 3};
    CHECK_OK(loom_filter_insert(filter, keys, 3, 0, NULL, NULL));
    loom_filter_report today = LOOM_FILTER_REPORT_INIT;
    void *report = place_output(sizeof(first_filter_report));
    CHECK_OK(loom_filter_stats(filter, &today, NULL));
    CHECK_OK(loom_filter_stats(filter, report, NULL));
    CHECK_GT(today.bits_set, 0);
    check_output(report, sizeof(first_filter_report), &today);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
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

typedef struct objects {
    loom_context *context;
    loom_map_config map_config;
    loom_map *map;
    loom_filter_config filter_config;
    loom_filter *filter;
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
    return loom_map_memory_required(o->context, &o->map_config, given);
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
    return loom_filter_memory_required(o->context, &o->filter_config, given);
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

/* Of a struct that is refused the library reads nothing but its struct_size, so that is all there is. */
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
        CASE(filter_memory_required_config, filter_config),
        CASE(filter_memory_required_memory, memory),
        CASE(filter_create, filter_config),
        CASE(filter_get_config, filter_config),
        CASE(filter_stats, filter_report),
        CASE(measure_limit, limit),
#undef CASE
    };
    objects o = {.context = make_context(t)};
    o.map_config = make_config(t, 100);
    o.map_config.key_bytes = o.map_config.value_bytes = 4;
    o.map = make_map_from(o.context, &o.map_config);
    o.filter_config = (loom_filter_config)LOOM_FILTER_CONFIG_INIT;
    o.filter_config.key_bytes = 4;
    o.filter_config.capacity = 100;
    o.filter = make_filter_from(o.context, &o.filter_config);
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
    loom_context_destroy(o.context);
}

/* ---- A struct that grew --------------------------------------------------------------------------------------- */

/* As long as no struct of loom.h has grown, this one stands for those that will. */
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
