/* Assertions, generator and file helpers of the test harness. The processes are in main.c. */
#define _GNU_SOURCE 1
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static test_entry *first_entry;
static test_mode *first_mode;
static _Thread_local char current_note[256];
static const char *own_directory;

void test_register(test_entry *entry)
{
    entry->next = first_entry;
    first_entry = entry;
}

void test_register_mode(test_mode *mode)
{
    mode->next = first_mode;
    first_mode = mode;
}

test_entry *test_entries(void)
{
    return first_entry;
}

test_mode *test_modes(void)
{
    return first_mode;
}

/* ---- Generator (splitmix64) --------------------------------------------------------------------------- */

uint64_t mix_u64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t random_u64(test_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix_u64(random->state);
}

uint64_t random_below(test_random *random, uint64_t bound)
{
    /* Reject the incomplete last round, so that every result is equally likely. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    for (;;) {
        uint64_t x = random_u64(random);
        if (x < limit)
            return x % bound;
    }
}

void test_seed_run(test_run *t, uint64_t seed, const char *name)
{
    uint64_t state = mix_u64(seed);
    for (const char *c = name; *c; c++)
        state = mix_u64(state ^ (uint64_t)(unsigned char)*c);
    t->name = name;
    t->seed = seed;
    t->random.state = state;
}

/* ---- Assertions --------------------------------------------------------------------------------------- */

void test_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(current_note, sizeof current_note, format, arguments);
    va_end(arguments);
}

void test_own_directory(const char *path)
{
    own_directory = path;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    if (current_note[0])
        fprintf(stderr, "  while: %s\n", current_note);
    fflush(stderr);
    if (own_directory)
        rmdir(own_directory);
    _exit(TEST_EXIT_FAILED);
}

void test_skip(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "SKIP: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    if (own_directory)
        rmdir(own_directory);
    _exit(TEST_EXIT_SKIPPED);
}

void test_check_compare(const char *file, int line, const char *a_text, const char *operation, const char *b_text,
                        int holds, uint64_t a, uint64_t b)
{
    if (holds)
        return;
    test_fail(file, line,
              "%s %s %s does not hold:\n  left  %" PRIu64 " (0x%" PRIx64 ")\n  right %" PRIu64 " (0x%" PRIx64 ")",
              a_text, operation, b_text, a, a, b, b);
}

void test_check_status(const char *file, int line, const char *text, loom_status got, loom_status wanted)
{
    if (got == wanted)
        return;
    test_fail(file, line, "%s\n  gave   %s (%d)\n  wanted %s (%d)\n  loom_last_error: %s", text, loom_status_name(got),
              (int)got, loom_status_name(wanted), (int)wanted, loom_last_error());
}

/* The sentence of test_poison_last_error. It names a machine number that no test uses. */
static char poison_sentence[512];

void test_poison_last_error(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = (loom_machine)3141592;
    if (loom_context_create(&config, &context) == LOOM_OK)
        test_fail(__FILE__, __LINE__, "a context of machine 3141592 could be made");
    snprintf(poison_sentence, sizeof poison_sentence, "%s", loom_last_error());
}

void test_check_refused(const char *file, int line, const char *text, loom_status got, loom_status wanted,
                        loom_status or_else)
{
    if (got != wanted && got != or_else)
        test_check_status(file, line, text, got, wanted);
    const char *sentence = loom_last_error();
    if (!sentence || !sentence[0] || strcmp(sentence, poison_sentence) == 0)
        test_fail(file, line, "%s\n  gave %s as it should, but left no sentence in loom_last_error(): \"%s\"", text,
                  loom_status_name(got), sentence ? sentence : "(null)");
    if (strlen(sentence) < 10 || strchr(sentence, '\n'))
        test_fail(file, line, "%s\n  left something that is not one sentence: \"%s\"", text, sentence);
}

void test_check_near(const char *file, int line, const char *text, double got, double wanted, double tolerance)
{
    /* Written so that a NaN fails. */
    if (got >= wanted - tolerance && got <= wanted + tolerance)
        return;
    test_fail(file, line, "%s\n  is     %.12g\n  wanted %.12g, give or take %.3g", text, got, wanted, tolerance);
}

void test_check_text(const char *file, int line, const char *text, const char *got, const char *wanted)
{
    if (got && strcmp(got, wanted) == 0)
        return;
    test_fail(file, line, "%s\n  is     \"%s\"\n  wanted \"%s\"", text, got ? got : "(null)", wanted);
}

void test_check_bytes(const char *file, int line, const char *text, const void *got, const void *wanted, size_t bytes)
{
    const unsigned char *g = got, *w = wanted;
    for (size_t i = 0; i < bytes; i++)
        if (g[i] != w[i])
            test_fail(file, line, "%s\n  differs at byte %zu of %zu: 0x%02x, wanted 0x%02x", text, i, bytes, g[i],
                      w[i]);
}

/* ---- Small things ------------------------------------------------------------------------------------- */

void *test_allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        test_fail(__FILE__, __LINE__, "the test itself needs %zu bytes and cannot have them", bytes);
    return memory;
}

const char *test_path(const test_run *t, const char *name)
{
    static _Thread_local char paths[8][512];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 8];
    if (snprintf(path, sizeof paths[0], "%s/%s", t->directory, name) >= (int)sizeof paths[0])
        test_fail(__FILE__, __LINE__, "the path %s/%s is too long", t->directory, name);
    return path;
}

void *test_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        test_fail(__FILE__, __LINE__, "%s cannot be opened: %s", path, strerror(errno));
    size_t room = 4096, used = 0;
    unsigned char *data = test_allocate(room);
    for (;;) {
        size_t got = fread(data + used, 1, room - used, file);
        used += got;
        if (used < room)
            break;
        room *= 2;
        data = realloc(data, room);
        if (!data)
            test_fail(__FILE__, __LINE__, "no memory for %s", path);
    }
    if (ferror(file))
        test_fail(__FILE__, __LINE__, "%s cannot be read: %s", path, strerror(errno));
    fclose(file);
    *bytes = used;
    return data;
}

void test_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        test_fail(__FILE__, __LINE__, "%s cannot be written: %s", path, strerror(errno));
}

size_t test_count_entries(const char *directory)
{
    DIR *handle = opendir(directory);
    if (!handle)
        test_fail(__FILE__, __LINE__, "%s cannot be listed: %s", directory, strerror(errno));
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(handle));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(handle);
    return count;
}

void test_remove_tree(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        chmod(path, 0700);
        DIR *handle = opendir(path);
        if (handle) {
            for (struct dirent *entry; (entry = readdir(handle));) {
                char inner[1024];
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                    continue;
                if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner)
                    test_remove_tree(inner);
            }
            closedir(handle);
        }
        rmdir(path);
    } else {
        unlink(path);
    }
}

uint64_t test_scaled(const test_run *t, uint64_t normal, uint64_t quick)
{
    return t->quick ? quick : normal;
}

void test_sample(test_run *t, uint32_t count, uint32_t *first, uint32_t *end)
{
    *first = t->short_tier ? (uint32_t)random_below(&t->random, count) : 0;
    *end = t->short_tier ? *first + 1 : count;
}

const char *test_simd_name(loom_simd simd)
{
    switch (simd) {
    case LOOM_SIMD_BEST:
        return "best";
    case LOOM_SIMD_SCALAR:
        return "scalar";
    case LOOM_SIMD_NEON:
        return "neon";
    case LOOM_SIMD_AVX2:
        return "avx2";
    }
    return "?";
}

uint32_t test_find_simds(loom_simd simds[4])
{
    static const loom_simd all[] = {LOOM_SIMD_SCALAR, LOOM_SIMD_NEON, LOOM_SIMD_AVX2};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
        loom_context *context = NULL;
        config.machine = LOOM_MACHINE_CPU;
        config.threads = 1;
        config.simd = all[i];
        if (loom_context_create(&config, &context) == LOOM_OK) {
            simds[count++] = all[i];
            loom_context_destroy(context);
        }
    }
    return count;
}
