#define _GNU_SOURCE 1
#include "test_options.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const only_names[] = {"threads", "layouts", "long"}; /* of bits 0, 1 and 2 */

static char wrapper_text[512];
static char default_data[1024];

static void usage(FILE *out)
{
    fputs("usage: loom_tests [options] [SUBSTRING]\n"
          "  --list               name the tests\n"
          "  --filter SUBSTRING   only tests whose names contain it (as the argument SUBSTRING)\n"
          "  --except SUBSTRING   only tests whose names do not contain it\n"
          "  --run NAME[,NAME]    run one test in this process, or several until one does not pass\n"
          "  --seed S             seed of all randomness (default: random, printed)\n"
          "  --all                the long tier: long tests have their full size, too\n"
          "  --quick, --full      smaller sizes, for sanitizer (default there) and emulated builds; or the usual ones\n"
          "  --only threads       only tests in which several threads meet\n"
          "  --only layouts       only one pair of widths for each layout of a bucket: 4_4, 8_8, 8_0, and 8_4 or "
          "4_8;\n"
          "                       of long tests one of these; drawn by the seed\n"
          "  --only long          only long tests, which the short tier runs with smaller sizes\n"
          "  --simd KIND          only scalar, neon, avx2 or cuda where a test runs for every kind\n"
          "  --one-kind           one kind, drawn by the seed, where a test runs for every kind\n"
          "  --jobs N             tests at the same time (default 2)\n"
          "  --together N         up to N tests in one process, of those that run for tables of several widths "
          "(default 1):\n"
          "                       on a GPU most of a process's time is its start\n"
          "  --timeout-scale X    multiply every time-out (default 1; 10 under sanitizers)\n"
          "  --wrapper COMMAND    put before the executable, e.g. \"qemu-x86_64 -cpu max\"\n"
          "  --data DIR           where the golden files are (default: tests/data of the source tree)\n"
          "  --times FILE         append a line for every test: seconds and name\n"
          "  --verbose            a line for every test\n"
          "  --hidden             also run the tests that test the harness by failing\n",
          out);
    for (test_mode *mode = test_modes(); mode; mode = mode->next)
        fprintf(out, "  %s DIR\n", mode->option);
}

static uint64_t random_seed(void)
{
    uint64_t seed = (uint64_t)getpid();
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    seed = mix_u64(seed ^ ((uint64_t)time.tv_sec << 32) ^ (uint64_t)time.tv_nsec);
    return seed >> 32; /* eight digits are easier to copy than sixteen */
}

static void find_default_data(void)
{
#ifdef LOOM_TEST_DATA
    snprintf(default_data, sizeof default_data, "%s", LOOM_TEST_DATA);
#else
    snprintf(default_data, sizeof default_data, "%s", __FILE__); /* .../tests/harness/test_options.c */
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(default_data, '/');
        if (slash)
            *slash = 0;
    }
    strncat(default_data, "/data", sizeof default_data - strlen(default_data) - 1);
#endif
}

static void split_wrapper(test_options *o, const char *text)
{
    snprintf(wrapper_text, sizeof wrapper_text, "%s", text);
    for (char *word = strtok(wrapper_text, " "); word && o->wrapper_words < MAX_WRAPPER_WORDS; word = strtok(NULL, " "))
        o->wrapper[o->wrapper_words++] = word;
}

static int needs_value(const char *option)
{
    static const char *const with_value[] = {"--filter", "--run",           "--seed",     "--simd",      "--jobs",
                                             "--data",   "--timeout-scale", "--wrapper",  "--directory", "--times",
                                             "--only",   "--together",      "--progress", "--except",    NULL};
    for (int i = 0; with_value[i]; i++)
        if (strcmp(option, with_value[i]) == 0)
            return 1;
    return 0;
}

static int parse(test_options *o, int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        const char *option = arguments[i];
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        for (test_mode *mode = test_modes(); mode; mode = mode->next)
            if (strcmp(option, mode->option) == 0 && value)
                return mode->run(value) + 1;
        if (needs_value(option)) {
            if (!value) {
                fprintf(stderr, "%s needs a value\n", option);
                return 2 + 1;
            }
            i++;
        }
        if (strcmp(option, "--list") == 0) {
            o->list = 1;
        } else if (strcmp(option, "--quick") == 0) {
            o->quick = 1;
        } else if (strcmp(option, "--full") == 0) {
            o->quick = 0;
        } else if (strcmp(option, "--all") == 0) {
            o->short_tier = 0;
        } else if (strcmp(option, "--one-kind") == 0) {
            o->one_kind = 1;
        } else if (strcmp(option, "--hidden") == 0) {
            o->hidden = 1;
        } else if (strcmp(option, "--verbose") == 0) {
            o->verbose = 1;
        } else if (strcmp(option, "--filter") == 0) {
            o->filter = value;
        } else if (strcmp(option, "--except") == 0) {
            o->except = value;
        } else if (strcmp(option, "--run") == 0) {
            o->run = value;
        } else if (strcmp(option, "--directory") == 0) {
            o->directory = value;
        } else if (strcmp(option, "--data") == 0) {
            o->data = value;
        } else if (strcmp(option, "--simd") == 0) {
            o->simd = value;
        } else if (strcmp(option, "--wrapper") == 0) {
            split_wrapper(o, value);
        } else if (strcmp(option, "--seed") == 0) {
            char *end;
            o->seed = strtoull(value, &end, 0);
            o->seed_given = 1;
            if (*end || end == value) {
                fprintf(stderr, "--seed takes a number, not %s\n", value);
                return 2 + 1;
            }
        } else if (strcmp(option, "--times") == 0) {
            o->times = value;
        } else if (strcmp(option, "--only") == 0) {
            const unsigned before = o->only;
            for (unsigned bit = 0; bit < sizeof only_names / sizeof *only_names; bit++)
                o->only |= (unsigned)(strcmp(value, only_names[bit]) == 0) << bit;
            if (o->only == before) {
                fprintf(stderr, "--only takes threads, layouts or long, each once, not %s\n", value);
                return 2 + 1;
            }
        } else if (strcmp(option, "--jobs") == 0) {
            o->jobs = atoi(value);
        } else if (strcmp(option, "--together") == 0) {
            o->together = atoi(value);
        } else if (strcmp(option, "--progress") == 0) {
            o->progress = value;
        } else if (strcmp(option, "--timeout-scale") == 0) {
            o->timeout_scale = atof(value);
        } else if (option[0] != '-') {
            o->filter = option;
        } else {
            int help = strcmp(option, "--help") == 0;
            usage(help ? stdout : stderr);
            return (help ? 0 : 2) + 1;
        }
    }
    if (o->jobs < 1 || o->jobs > MAX_JOBS || o->together < 1 || o->together > MAX_TOGETHER || !(o->timeout_scale > 0)) {
        fprintf(stderr, "--jobs takes 1 to %d, --together 1 to %d, --timeout-scale a number above 0\n", MAX_JOBS,
                MAX_TOGETHER);
        return 2 + 1;
    }
    return 0;
}

int test_options_parse(test_options *o, int count, char **arguments)
{
    memset(o, 0, sizeof *o);
    o->jobs = 2;
    o->together = 1;
    o->quick = SANITIZED;
    o->short_tier = 1;
    o->timeout_scale = SANITIZED ? 10 : 1;
    find_default_data();
    o->data = default_data;
    const int stop = parse(o, count, arguments);
    if (!stop && !o->seed_given)
        o->seed = random_seed();
    return stop;
}
