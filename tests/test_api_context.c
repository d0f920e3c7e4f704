/* Contexts and their description: machine, threads, SIMD kind, seeds, features, log. */
#define _GNU_SOURCE 1
#include "harness/map_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* ---- Contexts ------------------------------------------------------------------------------------------- */

static loom_context_info describe(loom_context *context)
{
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    CHECK_OK(loom_context_describe(context, &info));
    return info;
}

TEST(test_api_context_default)
{
    loom_context *context = NULL;
    CHECK_OK(loom_context_create(NULL, &context));
    CHECK(context != NULL);
    loom_context_info info = describe(context);
    CHECK_EQ(info.struct_size, sizeof info);
    CHECK(info.machine == LOOM_MACHINE_CPU || info.machine == LOOM_MACHINE_CUDA);
    CHECK_OK(loom_machine_present(info.machine));
    CHECK_OK(loom_machine_present(LOOM_MACHINE_BEST));
    loom_context_destroy(context);
    loom_context_destroy(NULL);
}

TEST(test_api_context_describe_cpu)
{
    cpu_set_t cores;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    CHECK_OK(loom_context_create(&config, &context));
    loom_context_info info = describe(context);
    CHECK_EQ(info.machine, LOOM_MACHINE_CPU);
    CHECK_TEXT(info.machine_name, "cpu");
    CHECK_EQ(info.simd, t->simds[t->simd_count - 1]); /* the widest */
    CHECK_TEXT(info.simd_name, test_simd_name(info.simd));
    CHECK(memchr(info.device_name, 0, sizeof info.device_name) != NULL);
    CHECK(info.device_name[0] != 0);
    CHECK_GE(info.memory_bytes, 1 << 20);
    CHECK_EQ(info.huge_page_bytes & (info.huge_page_bytes - 1), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
    CHECK_EQ(info.threads, CPU_COUNT(&cores));
    loom_context_destroy(context);
}

TEST(test_api_context_threads_follow_affinity)
{
    cpu_set_t cores, one;
    CHECK_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cores)) {
            CPU_SET(i, &one);
            break;
        }
    if (CPU_COUNT(&cores) < 2 || sched_setaffinity(0, sizeof one, &one) != 0)
        SKIP("this process may use one core only");
    loom_context *context = make_context_with(t, 0, 1);
    CHECK_EQ(describe(context).threads, 1);
    loom_context_destroy(context);
}

TEST(test_api_context_threads_as_asked, .threads = 1)
{
    static const uint32_t counts[] = {1, 2, 3, 8, 17};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        loom_context *context = make_context_with(t, counts[i], 1);
        CHECK_EQ(describe(context).threads, counts[i]);
        loom_context_destroy(context);
    }
}

TEST(test_api_context_simd_kinds)
{
    for (uint32_t i = 0; i < t->simd_count; i++) {
        t->simd = t->simds[i];
        loom_context *context = make_context(t);
        CHECK_EQ(describe(context).simd, t->simds[i]);
        CHECK_TEXT(describe(context).simd_name, test_simd_name(t->simds[i]));
        loom_context_destroy(context);
    }
#if defined(__aarch64__)
    CHECK_EQ(t->simd_count, 2);
    CHECK_EQ(t->simds[1], LOOM_SIMD_NEON);
    loom_simd absent = LOOM_SIMD_AVX2;
#else
    loom_simd absent = LOOM_SIMD_NEON;
#endif
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = absent;
    CHECK_REFUSED(loom_context_create(&config, &context), LOOM_NO_MACHINE);
    CHECK(context == NULL);
}

TEST(test_api_context_devices_of_the_cpu)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    for (config.device = -1; config.device <= 0; config.device++) {
        CHECK_OK(loom_context_create(&config, &context));
        loom_context_destroy(context);
    }
    context = NULL;
    config.device = 1;
    CHECK_REFUSED(loom_context_create(&config, &context), LOOM_NO_MACHINE);
    config.device = INT32_MAX;
    CHECK_REFUSED(loom_context_create(&config, &context), LOOM_NO_MACHINE);
    config.device = -2;
    CHECK_REFUSED_EITHER(loom_context_create(&config, &context), LOOM_INVALID_ARGUMENT, LOOM_NO_MACHINE);
    CHECK(context == NULL);
}

TEST(test_api_machine_present_agrees_with_create)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    CHECK_OK(loom_machine_present(LOOM_MACHINE_CPU));
    config.machine = LOOM_MACHINE_CUDA;
    if (loom_machine_present(LOOM_MACHINE_CUDA) == LOOM_OK) {
        CHECK_OK(loom_context_create(&config, &context));
        loom_context_destroy(context);
    } else {
        CHECK_REFUSED(loom_machine_present(LOOM_MACHINE_CUDA), LOOM_NO_MACHINE);
        CHECK_REFUSED(loom_context_create(&config, &context), LOOM_NO_MACHINE);
        CHECK(context == NULL);
    }
    CHECK_REFUSED_EITHER(loom_machine_present((loom_machine)77), LOOM_INVALID_ARGUMENT, LOOM_NO_MACHINE);
}

TEST(test_api_context_outlives_its_handle, .threads = 1)
{
    loom_context *context = make_context_with(t, 3, 5);
    loom_map *map = make_map(t, context, 1000), *clone = NULL;
    loom_context_destroy(context);
    batch b = make_batch(t, 1000);
    fill_distinct(&b, 1, 0);
    checked_build(map, &b, LOOM_KEEP);
    check_contents(map, &b);
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    loom_map_destroy(map);
    check_contents(clone, &b);
    loom_map_destroy(clone);
    free_batch(&b);
}

/* ---- Seeds ---------------------------------------------------------------------------------------------- */

TEST(test_api_context_fixed_seed_is_used)
{
    static const uint64_t seeds[] = {0, 1, 42, UINT64_MAX};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        loom_context *context = make_context_with(t, 1, seeds[i]);
        loom_map *a = make_map(t, context, 10), *b = make_map(t, context, 10000);
        CHECK_EQ(map_stats(a).seed, seeds[i]);
        CHECK_EQ(map_stats(b).seed, seeds[i]);
        loom_map_destroy(a);
        loom_map_destroy(b);
        loom_context_destroy(context);
    }
}

TEST(test_api_context_random_seeds_differ)
{
    enum { MAPS = 50 };
    uint64_t seeds[2 * MAPS];
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.seed = 12345; /* not used without fixed_seed */
    config.threads = 1;
    for (int c = 0; c < 2; c++) {
        loom_context *context = NULL;
        CHECK_OK(loom_context_create(&config, &context));
        for (int i = 0; i < MAPS; i++) {
            loom_map *map = make_map(t, context, 10);
            seeds[c * MAPS + i] = map_stats(map).seed;
            loom_map_destroy(map);
        }
        loom_context_destroy(context);
    }
    for (int i = 0; i < 2 * MAPS; i++) {
        CHECK_NE(seeds[i], 12345);
        for (int j = 0; j < i; j++)
            CHECK_NE(seeds[i], seeds[j]);
    }
}

/* ---- Features ------------------------------------------------------------------------------------------- */

TEST(test_api_supports_cpu_features)
{
    static const struct {
        loom_feature feature;
        int offered, of_sets, of_filters; /* 1 yes, 0 no */
    } features[] = {
        {LOOM_FEATURE_BUILD, 1, 1, 0},
        {LOOM_FEATURE_INSERT, 1, 1, 1},
        {LOOM_FEATURE_INSERT_IN_ORDER, 1, 1, 1},
        {LOOM_FEATURE_FIND, 1, 1, 1},
        {LOOM_FEATURE_ERASE, 1, 1, 0},
        {LOOM_FEATURE_RETRIEVE_ALL, 1, 1, 0},
        {LOOM_FEATURE_SAVE, 1, 1, 1},
        {LOOM_FEATURE_CLONE, 1, 1, 1},
        {LOOM_FEATURE_GROW, 1, 1, 0},
        {LOOM_FEATURE_CONCURRENT_READS, 0, 0, 1},
        {LOOM_FEATURE_ASYNCHRONOUS, 0, 0, 0},
        {LOOM_FEATURE_FIND_OR_INSERT, 1, 0, 0},
        {LOOM_FEATURE_UPDATE, 1, 0, 0},
        {LOOM_FEATURE_ACCUMULATE, 1, 0, 0},
        {LOOM_FEATURE_VIEWS, 0, 0, 0},
        {LOOM_FEATURE_MERGE, 0, 0, 1},
        {LOOM_FEATURE_WRITING_VIEWS, 0, 0, 0},
        {LOOM_FEATURE_ERASE_IF, 1, 0, 0},
    };
    CHECK_EQ(sizeof features / sizeof features[0], LOOM_FEATURE_ERASE_IF); /* all that there are */
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        for (int type = LOOM_TYPE_DEFAULT; type <= LOOM_TYPE_FILTER; type++)
            for (size_t of = 0; of == 0 || table_case_at(of - 1); of++) { /* 0: LOOM_ENGINE_DEFAULT */
                const table_case *table = of ? table_case_at(of - 1) : NULL;
                const int engine = table ? (int)table->engine : LOOM_ENGINE_DEFAULT;
                loom_feature feature = features[i].feature;
                int fits = !table || table_case_has(table, type ? (loom_type)type : LOOM_TYPE_MAP);
                if (table && table->partial)
                    continue;
                int offered = type == LOOM_TYPE_SET      ? features[i].of_sets
                              : type == LOOM_TYPE_FILTER ? features[i].of_filters
                                                         : features[i].offered;
                test_note("feature %d, type %d, engine %d", (int)feature, type, engine);
                if (offered && fits)
                    CHECK_OK(loom_supports(context, (loom_type)type, (loom_engine)engine, feature));
                else
                    CHECK_REFUSED(loom_supports(context, (loom_type)type, (loom_engine)engine, feature),
                                  LOOM_UNSUPPORTED);
            }
    loom_context_destroy(context);
}

/* loom_map_create accepts concurrent_reads exactly where loom_supports offers them. */
TEST(test_api_supports_concurrent_reads_agrees_with_create)
{
    loom_context *context = make_context(t);
    loom_status offered = loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_CONCURRENT_READS);
    loom_map_config config = make_config(t, 100);
    loom_map *map = NULL;
    config.concurrent_reads = 1;
    CHECK(offered == LOOM_OK || offered == LOOM_UNSUPPORTED);
    if (offered == LOOM_OK) {
        CHECK_OK(loom_map_create(context, &config, &map));
        loom_map_destroy(map);
    } else {
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_UNSUPPORTED);
        CHECK(map == NULL);
    }
    loom_context_destroy(context);
}

TEST(test_api_supports_unknown_values)
{
    loom_context *context = make_context(t);
    CHECK_REFUSED(loom_supports(context, (loom_type)-1, LOOM_ENGINE_OPEN, LOOM_FEATURE_FIND), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, (loom_type)6, LOOM_ENGINE_OPEN, LOOM_FEATURE_FIND), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_SET, LOOM_ENGINE_OPEN, (loom_feature)(LOOM_FEATURE_DURABLE + 1)),
                  LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, (loom_type)99, LOOM_ENGINE_OPEN, LOOM_FEATURE_FIND), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, (loom_engine)99, LOOM_FEATURE_FIND), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, (loom_feature)0), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, (loom_feature)99), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_FILTER, LOOM_ENGINE_BLOOM, (loom_feature)0), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_FILTER, LOOM_ENGINE_BLOOM, (loom_feature)(LOOM_FEATURE_DURABLE + 1)),
                  LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_FILTER, (loom_engine)(LOOM_ENGINE_TICKETS + 1), LOOM_FEATURE_FIND),
                  LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_supports(NULL, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_FIND), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

/* ---- Log ------------------------------------------------------------------------------------------------ */

typedef struct log_state {
    pthread_t thread;
    unsigned calls;
} log_state;

static void count_log(void *user, loom_log_level level, const char *message)
{
    log_state *state = user;
    CHECK(level == LOOM_LOG_INFO || level == LOOM_LOG_WARNING);
    CHECK(message != NULL && message[0]);
    CHECK(pthread_equal(pthread_self(), state->thread));
    state->calls++;
}

/* The library passes every log message to the callback with the user pointer, on the thread that made the call. */
TEST(test_api_log_on_the_calling_thread, .threads = 1)
{
    log_state state = {pthread_self(), 0};
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 4;
    config.log = count_log;
    config.log_user = &state;
    CHECK_OK(loom_context_create(&config, &context));
    loom_map *map = make_map(t, context, 100000);
    batch b = make_batch(t, 100000);
    fill_distinct(&b, 3, 0);
    checked_build(map, &b, LOOM_KEEP);
    CHECK_OK(loom_map_save(map, test_path(t, "logged"), NULL));
    check_all_found(map, &b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    free_batch(&b);
    fprintf(stderr, "%u messages\n", state.calls);
}
