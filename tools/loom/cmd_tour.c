/* `loom tour`: every operation of the map on the best machine, every answer checked, and how fast it was. */
#define _POSIX_C_SOURCE 200809L
#include "bench_array.h"
#include "bench_keys.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "bench_timer.h"
#include "tool.h"
#include "tour.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first widths get the full n, the others a smaller one: they go the same ways. */
static const struct {
    const char *name;
    uint32_t key_bytes, value_bytes;
} widths[] = {{"4+4", 4, 4}, {"8+8", 8, 8}, {"4+8", 4, 8}, {"8+4", 8, 4}};

enum { WIDTHS = sizeof widths / sizeof *widths, MAX_STEPS = 32 };

#define DEFAULT_N (UINT64_C(1) << 22)
#define SMALLER_N (UINT64_C(1) << 18)

typedef struct tour_options {
    loom_machine machine;
    uint64_t n;
    uint64_t seed;
} tour_options;

static bench_taken set_machine(void *target, const char *text)
{
    return bench_parse_machine(text, &((tour_options *)target)->machine) ? BENCH_TAKEN : BENCH_WRONG;
}

enum { GIVEN_SEED = 1 };

#define MOST_KEYS 0x1p31 /* twice as many indices as keys are used, and 4 bytes have 2^32 values */

static const bench_option option_table[] = {
    {"--machine", "best, cpu or cuda", .kind = BENCH_WORD, .set = set_machine},
    {"--n", "a number of keys", "2^22 or 1M", BENCH_COUNT, .offset = offsetof(tour_options, n), .lowest = 1,
     .highest = MOST_KEYS},
    {"--seed", "a number", NULL, BENCH_COUNT, .offset = offsetof(tour_options, seed), .highest = BENCH_ANY_COUNT,
     .bit = GIVEN_SEED},
};

/* ---- One table ---------------------------------------------------------------------------------------- */

static bool offers(loom_context *context, const tour_step *step)
{
    return !step->needs || loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_DEFAULT, step->needs) == LOOM_OK;
}

/* The steps that the machine offers; the others are named once, with the reason. */
static size_t gather_steps(loom_context *context, tour_step all[MAX_STEPS])
{
    const tour_step *const groups[] = {tour_build_steps, tour_read_steps, tour_whole_steps, tour_write_steps,
                                       tour_small_steps};
    size_t count = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (const tour_step *step = groups[i]; step->name && count < MAX_STEPS; step++) {
            if (offers(context, step))
                all[count++] = *step;
            else
                printf("left out: %s (%s)\n", step->name, loom_last_error());
        }
    return count;
}

static bool make_arrays(tour *t)
{
    t->rounds = bench_array_new(2 * t->n, 1);
    t->all_keys = bench_array_new(2 * t->n, t->key_bytes);
    t->seen = bench_array_new(t->n, 1);
    t->keys = bench_array_new(t->n, t->key_bytes);
    t->values = bench_array_new(t->n, t->value_bytes);
    t->batch_rounds = bench_array_new(t->n, 1);
    t->found_values = bench_array_new(t->n, t->value_bytes);
    t->status = bench_array_new(t->n, 1);
    t->found = bench_array_new(t->n, 1);
    if (!t->rounds || !t->all_keys || !t->seen || !t->keys || !t->values || !t->batch_rounds || !t->found_values ||
        !t->status || !t->found)
        return false;
    memset(t->rounds, TOUR_ABSENT, (size_t)(2 * t->n));
    for (uint64_t i = 0; i < 2 * t->n; i++)
        bench_put(t->all_keys, i, t->key_bytes, bench_key_of(i, t->key_bytes));
    return true;
}

static void free_arrays(tour *t)
{
    bench_array_free(t->rounds);
    bench_array_free(t->all_keys);
    bench_array_free(t->seen);
    bench_array_free(t->keys);
    bench_array_free(t->values);
    bench_array_free(t->batch_rounds);
    bench_array_free(t->found_values);
    bench_array_free(t->status);
    bench_array_free(t->found);
}

/* Makes the table and the arrays of one column. One that cannot be made is wrong in every step. */
static void open_column(tour *t)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_stats stats = LOOM_STATS_INIT;
    config.key_bytes = t->key_bytes;
    config.value_bytes = t->value_bytes;
    config.capacity = t->n;
    t->created = make_arrays(t) ? loom_map_create(t->context, &config, &t->map) : LOOM_OUT_OF_MEMORY;
    if (t->created != LOOM_OK)
        snprintf(t->trouble, sizeof t->trouble, "%s",
                 t->found ? loom_last_error() : "there is no memory for the keys of the tour");
    else if (loom_map_stats(t->map, &stats, NULL) == LOOM_OK)
        t->seed = stats.seed;
}

static void close_column(tour *t)
{
    loom_map_destroy(t->map);
    free_arrays(t);
}

/* ---- The table of results ----------------------------------------------------------------------------- */

static void print_result(const char *name, const tour_cell *cells)
{
    bool right = true;
    printf("%-23s", name);
    if (cells[0].seconds > 0)
        printf(" %10" PRIu64, cells[0].operations);
    else
        printf(" %10s", "");
    for (size_t i = 0; i < WIDTHS; i++) {
        if (cells[i].seconds > 0)
            printf(" %8.1f", (double)cells[i].operations / cells[i].seconds * 1e-6);
        else
            printf(" %8s", "");
    }
    for (size_t i = 0; i < WIDTHS; i++) {
        if (cells[i].wrong[0]) {
            printf("  WRONG %s: %s", widths[i].name, cells[i].wrong);
            right = false;
        }
    }
    printf("%s\n", right ? "  ok" : "");
}

static void print_title(void)
{
    printf("%-23s %10s", "operation", "n");
    for (size_t i = 0; i < WIDTHS; i++)
        printf(" %8s", widths[i].name);
    printf("  checked\n");
}

/* One operation on the table of each column, and its row. Whether every answer was right. */
static bool run_step(const tour_step *step, tour columns[WIDTHS])
{
    tour_cell cells[WIDTHS] = {{0}};
    bool right = true;
    for (size_t i = 0; i < WIDTHS; i++) {
        tour *t = &columns[i];
        t->cell = &cells[i];
        bench_progress("%s: %s, %" PRIu64 " keys", widths[i].name, step->name, t->n);
        if (t->created == LOOM_OK)
            step->run(t);
        else
            tour_wrong(t, "%s", t->trouble);
        right = right && !cells[i].wrong[0];
    }
    bench_progress_hide();
    print_result(step->name, cells);
    fflush(stdout);
    return right;
}

/* ---- The command -------------------------------------------------------------------------------------- */

static void print_machine(loom_context *context)
{
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    const unsigned version = loom_version();
    printf("hashloom %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    if (loom_context_describe(context, &info) == LOOM_OK)
        printf(" on %s: %s, %u thread%s, %s, %.1f GiB, %s", info.machine_name, info.device_name, (unsigned)info.threads,
               info.threads == 1 ? "" : "s", info.simd_name, (double)info.memory_bytes / (1 << 30),
               info.huge_page_bytes > 0 ? "huge pages" : "ordinary pages");
    printf("\n");
}

static bool make_directory(char path[256])
{
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent || strlen(parent) > 200)
        parent = "/tmp";
    snprintf(path, 256, "%s/loom-tour-XXXXXX", parent);
    return mkdtemp(path) != NULL;
}

static int tour_tables(loom_context *context, const tour_options *options, const char *directory)
{
    tour_step steps[MAX_STEPS];
    tour columns[WIDTHS];
    const size_t step_count = gather_steps(context, steps);
    const uint64_t smaller = options->n < SMALLER_N ? options->n : SMALLER_N;
    uint64_t answers = 0;
    bool right = true;
    const double begun = bench_seconds();
    printf("A map of 4+4 byte pairs made for %" PRIu64 " keys, and maps of other widths for %" PRIu64
           ". Million operations per second.\n\n",
           options->n, smaller);
    print_title();
    fflush(stdout);
    bench_progress_start();
    for (size_t i = 0; i < WIDTHS; i++) {
        columns[i] = (tour){.context = context,
                            .key_bytes = widths[i].key_bytes,
                            .value_bytes = widths[i].value_bytes,
                            .n = i == 0 ? options->n : smaller,
                            .directory = directory};
        open_column(&columns[i]);
    }
    for (size_t i = 0; i < step_count; i++)
        right = run_step(&steps[i], columns) && right;
    for (size_t i = 0; i < WIDTHS; i++) {
        answers += columns[i].answers;
        close_column(&columns[i]);
    }
    bench_progress_stop();
    printf("\n%" PRIu64 " answers checked in %.1f s: %s.\n", answers, bench_seconds() - begun,
           right ? "all are right" : "some are WRONG, see above");
    if (right)
        return TOOL_OK;
    printf("Seeds of the tables, to see it again with `loom tour --n %" PRIu64 " --seed`:", options->n);
    for (size_t i = 0; i < WIDTHS; i++)
        printf(" %s %" PRIu64, widths[i].name, columns[i].seed);
    printf("\n");
    return TOOL_FAILED;
}

static int run_tour(int argc, char **argv)
{
    tour_options options = {.machine = LOOM_MACHINE_BEST, .n = DEFAULT_N};
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context;
    char error[256], directory[256];
    uint32_t given;
    if (!bench_parse_options(argc, argv, option_table, sizeof option_table / sizeof *option_table, NULL, &options,
                             &given, error))
        return tool_wrong_use("%s", error);
    config.machine = options.machine;
    config.fixed_seed = (given & GIVEN_SEED) != 0;
    config.seed = options.seed;
    if (loom_context_create(&config, &context) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    if (!make_directory(directory)) {
        loom_context_destroy(context);
        return tool_failed("No directory could be made for files; set TMPDIR to one that can be written.");
    }
    print_machine(context);
    const int code = tour_tables(context, &options, directory);
    rmdir(directory);
    loom_context_destroy(context);
    return code;
}

const tool_command tool_tour = {
    "tour", "[OPTIONS]", "run every operation of the map, check every answer, show the speeds",
    "Options:\n"
    "  --machine M   best, cpu or cuda; best\n"
    "  --n N         keys of the large table, 1 to 2^31; 2^22\n"
    "  --seed S      of the hash; random\n"
    "\n"
    "The speeds are those of single runs; `loom bench` measures with repetitions and against the hardware's limits.\n",
    run_tour};
