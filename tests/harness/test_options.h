/* The options of loom_tests: what they are, and how the command line gives them. */
#ifndef LOOM_TESTS_OPTIONS_H
#define LOOM_TESTS_OPTIONS_H

#include <stdint.h>

#define MAX_JOBS          64
#define MAX_WRAPPER_WORDS 15
#define MAX_TOGETHER      64

#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define SANITIZED_ADDRESS 1
#else
#define SANITIZED_ADDRESS 0
#endif
#if SANITIZED_ADDRESS || defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer) || HAS_FEATURE(memory_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Filters of --only; a test must pass all that are given. */
enum { ONLY_THREADS = 1, ONLY_LAYOUTS = 2, ONLY_LONG = 4 };

typedef struct test_options {
    const char *filter, *except;
    const char *times;
    const char *run;
    const char *directory;
    const char *progress; /* the number of a file that says how many of the tests in --run have passed */
    const char *data;
    const char *simd;
    char *wrapper[MAX_WRAPPER_WORDS + 1];
    int wrapper_words;
    uint64_t seed;
    int seed_given;
    int list;
    int one_kind;
    int quick;
    int short_tier;
    unsigned only; /* ONLY_… */
    int hidden;
    int verbose;
    int jobs;
    int together;
    double timeout_scale;
} test_options;

/* Sets the defaults, then what the arguments say. Runs a mode (harness.h) that is named. 0: go on; otherwise the exit
 * status plus one. */
int test_options_parse(test_options *o, int count, char **arguments);

#endif
