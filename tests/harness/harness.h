/* The test harness: registration, assertions, a seeded generator, one process per test.
 *
 * A test is a function registered by one of these macros:
 *
 *   TEST(test_api_version_matches_header) { CHECK_EQ(loom_version(), LOOM_VERSION); }
 *   TEST_EACH(test_open_find_absent, .timeout_seconds = 120) { ... t->key_bytes ... t->simd ... }
 *
 * TEST runs once, with .every_machine = 1 once more on the cuda machine. TEST_EACH is registered once for each pair of
 * widths that maps have (name_4_4, name_4_8, name_8_4, name_8_8). Its body runs once for every SIMD kind of the
 * processor, and once on the cuda machine if there is one. TEST_EACH_SET is the same for sets of both key widths
 * (name_4_0, name_8_0), where t->value_bytes is 0. TEST_EACH_KIND is for maps and sets, TEST_EACH_FILTER for filters,
 * which have keys only, like sets. With .every_engine = 1 a test named test_open_… also runs for the other engines:
 * test_perfect_…. TEST_EACH_MULTIMAP runs for multimaps of all engines: test_multimap_… becomes test_chain_… for the
 * chain engine. TEST_EACH_CASE is for all types of all engines (name_open_counter_4_8). Engines, types and widths come
 * from the list of cases, cases/table_cases.h.
 *
 * `loom_tests` runs the short tier, which is for every change. `loom_tests --all` runs the long tier. A test that
 * takes over a second at its full size has .long_tier = 1: in the short tier test_scaled() gives it the sizes of
 * --quick. A test with several threads has .threads = 1: under the thread sanitizer, the short tier runs only these
 * tests.
 *
 * Every test runs in a process of its own with a time-out: a crash or a hang fails one test. All random numbers come
 * from `t->random`, which depends only on the seed and the test's name: `loom_tests --run NAME --seed S` replays a
 * test.
 */
#ifndef LOOM_TESTS_HARNESS_H
#define LOOM_TESTS_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "loom/loom.h"
#include "table_cases.h"

/* ---- Generator ---------------------------------------------------------------------------------------- */

typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t random_u64(test_random *random);
/* Even over 0 .. bound - 1; bound > 0. */
uint64_t random_below(test_random *random, uint64_t bound);
/* A bijection of the 64-bit numbers: different inputs give different outputs. */
uint64_t mix_u64(uint64_t x);

/* ---- Tests -------------------------------------------------------------------------------------------- */

typedef struct test_run {
    const char *name;
    uint64_t seed;
    test_random random;
    int short_tier;         /* not with --all */
    int quick;              /* smaller sizes: the build is instrumented or emulated, or a long test in the short tier */
    const char *directory;  /* an empty directory of this test's own; removed afterwards */
    const char *data;       /* tests/data of the source tree */
    uint32_t key_bytes;     /* TEST_EACH and its kin only */
    uint32_t value_bytes;   /* likewise; 0: a set */
    loom_engine engine;     /* LOOM_ENGINE_DEFAULT, or the one under test */
    loom_machine machine;   /* TEST_EACH: the machine under test; TEST: LOOM_MACHINE_CPU */
    loom_simd simd;         /* TEST_EACH: the kind under test; TEST: LOOM_SIMD_BEST */
    const loom_simd *simds; /* all kinds present */
    uint32_t simd_count;    /* at least 1 */
    const char *program;    /* this executable */
    const char *const *extra; /* arguments that a child of this test needs, NULL-terminated */
    const table_case *table;  /* the case under test; TEST: that of maps */
    loom_type type;           /* TEST_EACH and its kin: the type under test */
} test_run;

typedef void (*test_body)(test_run *t);

/* What a test is run for: bits of loom_type. */
enum {
    TEST_MAPS = 1 << LOOM_TYPE_MAP,
    TEST_SETS = 1 << LOOM_TYPE_SET,
    TEST_FILTERS = 1 << LOOM_TYPE_FILTER,
    TEST_MULTIMAPS = 1 << LOOM_TYPE_MULTIMAP,
    TEST_CASES = ~0 /* all types of all engines */
};

typedef struct test_entry {
    const char *name;
    test_body body;
    int each;            /* once for each of the widths that these types have; 0: once */
    int timeout_seconds; /* 0: 60 */
    int every_engine;    /* runs for all engines that have these types, except partial ones */
    int long_tier;       /* in the short tier it runs with the sizes of --quick */
    int threads;         /* uses several threads, its own or those of the library */
    int alone;           /* needs a process of its own, also with --together: it forks, or changes the process */
    int cpu_only;        /* TEST_EACH: meaningless, or not yet offered, on the cuda machine */
    int every_machine;   /* TEST: runs on the cuda machine, too, where there is one */
    int hidden;          /* only runs when named by --run, or with --hidden */
    int leak_check;      /* under AddressSanitizer: look for leaks at the end. On some systems that takes seconds, so
                            it is for a few tests that between them use everything; the counting allocator, which
                            many others use, finds leaks of the library's own memory in any build. */
    struct test_entry *next;
} test_entry;

void test_register(test_entry *entry);

#define TEST_REGISTER_(test_name, ...)                                                  \
    static void test_name(test_run *t);                                                 \
    __attribute__((constructor)) static void register_##test_name(void)                 \
    {                                                                                   \
        static test_entry entry = {.name = #test_name, .body = test_name, __VA_ARGS__}; \
        test_register(&entry);                                                          \
    }                                                                                   \
    static void test_name(__attribute__((unused)) test_run *t)

#define TEST(test_name, ...)             TEST_REGISTER_(test_name, .each = 0, __VA_ARGS__)
#define TEST_EACH(test_name, ...)        TEST_REGISTER_(test_name, .each = TEST_MAPS, __VA_ARGS__)
#define TEST_EACH_SET(test_name, ...)    TEST_REGISTER_(test_name, .each = TEST_SETS, __VA_ARGS__)
#define TEST_EACH_FILTER(test_name, ...) TEST_REGISTER_(test_name, .each = TEST_FILTERS, __VA_ARGS__)
#define TEST_EACH_MULTIMAP(test_name, ...) \
    TEST_REGISTER_(test_name, .each = TEST_MULTIMAPS, .every_engine = 1, __VA_ARGS__)
#define TEST_EACH_CASE(test_name, ...) TEST_REGISTER_(test_name, .each = TEST_CASES, __VA_ARGS__)
#define TEST_EACH_KIND(test_name, ...) TEST_REGISTER_(test_name, .each = TEST_MAPS | TEST_SETS, __VA_ARGS__)

/* A mode is an option of the executable that runs no test: `loom_tests --write-golden DIR`. Returns an exit status. */
typedef struct test_mode {
    const char *option;
    int (*run)(const char *argument);
    struct test_mode *next;
} test_mode;

void test_register_mode(test_mode *mode);

#define TEST_MODE(mode_name, option_text)                                  \
    static int mode_name(const char *argument);                            \
    __attribute__((constructor)) static void register_##mode_name(void)    \
    {                                                                      \
        static test_mode mode = {.option = option_text, .run = mode_name}; \
        test_register_mode(&mode);                                         \
    }                                                                      \
    static int mode_name(const char *argument)

/* ---- Assertions --------------------------------------------------------------------------------------- */

/* A check that fails ends the process, on any thread. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What this thread is doing, shown when a check fails. */
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

void test_check_compare(const char *file, int line, const char *a_text, const char *operation, const char *b_text,
                        int holds, uint64_t a, uint64_t b);
void test_check_status(const char *file, int line, const char *text, loom_status got, loom_status wanted);
void test_check_near(const char *file, int line, const char *text, double got, double wanted, double tolerance);
void test_check_text(const char *file, int line, const char *text, const char *got, const char *wanted);
void test_check_bytes(const char *file, int line, const char *text, const void *got, const void *wanted, size_t bytes);
void test_check_refused(const char *file, int line, const char *text, loom_status got, loom_status wanted,
                        loom_status or_else);

#define CHECK(condition)                                                   \
    do {                                                                   \
        if (!(condition))                                                  \
            test_fail(__FILE__, __LINE__, "%s does not hold", #condition); \
    } while (0)

#define CHECK_COMPARE_(a, operation, b)                                                                       \
    do {                                                                                                      \
        uint64_t check_a_ = (uint64_t)(a), check_b_ = (uint64_t)(b);                                          \
        if (!(check_a_ operation check_b_))                                                                   \
            test_check_compare(__FILE__, __LINE__, #a, #operation, #b, check_a_ operation check_b_, check_a_, \
                               check_b_);                                                                     \
    } while (0)

/* Unsigned 64-bit comparisons that print both values. */
#define CHECK_EQ(a, b) CHECK_COMPARE_(a, ==, b)
#define CHECK_NE(a, b) CHECK_COMPARE_(a, !=, b)
#define CHECK_LT(a, b) CHECK_COMPARE_(a, <, b)
#define CHECK_LE(a, b) CHECK_COMPARE_(a, <=, b)
#define CHECK_GT(a, b) CHECK_COMPARE_(a, >, b)
#define CHECK_GE(a, b) CHECK_COMPARE_(a, >=, b)

#define CHECK_NEAR(got, wanted, tolerance) test_check_near(__FILE__, __LINE__, #got, got, wanted, tolerance)
#define CHECK_TEXT(got, wanted)            test_check_text(__FILE__, __LINE__, #got, got, wanted)
#define CHECK_BYTES(got, wanted, bytes)    test_check_bytes(__FILE__, __LINE__, #got, got, wanted, bytes)

#define CHECK_STATUS(call, wanted) test_check_status(__FILE__, __LINE__, #call, call, wanted)
#define CHECK_OK(call)             CHECK_STATUS(call, LOOM_OK)

/* The call must fail with this status and set a sentence in loom_last_error(). */
#define CHECK_REFUSED(call, wanted)                                          \
    do {                                                                     \
        test_poison_last_error();                                            \
        test_check_refused(__FILE__, __LINE__, #call, call, wanted, wanted); \
    } while (0)
#define CHECK_REFUSED_EITHER(call, wanted, or_else)                           \
    do {                                                                      \
        test_poison_last_error();                                             \
        test_check_refused(__FILE__, __LINE__, #call, call, wanted, or_else); \
    } while (0)

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) test_skip(__VA_ARGS__)

/* Sets loom_last_error() to a sentence that no call under test produces. A call that fails without setting its own
 * sentence is then noticed. */
void test_poison_last_error(void);

/* ---- Small things that tests share --------------------------------------------------------------------- */

/* malloc that fails the test if there is no memory. It allocates exactly `bytes`: a sanitizer sees an access one byte
 * beyond. */
void *test_allocate(size_t bytes);
/* `directory`/`name`, in one of eight static buffers of this thread. */
const char *test_path(const test_run *t, const char *name);
/* Reads a whole file; ends the test if it cannot. */
void *test_read_file(const char *path, size_t *bytes);
void test_write_file(const char *path, const void *data, size_t bytes);
/* Number of entries in a directory, . and .. not counted. */
size_t test_count_entries(const char *directory);
void test_remove_tree(const char *path);
/* Returns `quick` in quick mode, otherwise `normal`. */
uint64_t test_scaled(const test_run *t, uint64_t normal, uint64_t quick);
/* Chooses the ways to try, *first to *end - 1: all `count` in the long tier, one that the seed chooses in the short
 * tier. */
void test_sample(test_run *t, uint32_t count, uint32_t *first, uint32_t *end);
const char *test_simd_name(loom_simd simd);

/* ---- Internals, shared by harness.c and main.c ---------------------------------------------------------- */

#define TEST_EXIT_FAILED  1
#define TEST_EXIT_SKIPPED 77

/* Registers the directory of a test that runs in this process. If the test fails, the directory is removed if it is
 * empty. */
void test_own_directory(const char *path);
test_entry *test_entries(void);
test_mode *test_modes(void);
void test_seed_run(test_run *t, uint64_t seed, const char *name);
/* Fills in the kinds that a context can be made with. Returns their number. */
uint32_t test_find_simds(loom_simd simds[4]);

#endif
