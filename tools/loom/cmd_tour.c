/* `loom tour`: runs every operation of every table on the best machine, checks every answer, and shows the speed. */
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

enum { MOST_COLUMNS = 8, MAX_STEPS = 32, PAIRS_PER_KEY = 8 /* at most, on average: tour_multi.c */, FEWEST_PAIRS = 64 };

#define DEFAULT_N (UINT64_C(1) << 22)
#define SMALLER_N (UINT64_C(1) << 18) /* all columns but the first engine's first: they take the same paths */

typedef struct tour_options {
    loom_machine machine;
    const table_case *table; /* NULL: all */
    uint64_t n;
    uint64_t seed;
} tour_options;

static bench_taken set_machine(void *target, const char *text)
{
    return bench_parse_machine(text, &((tour_options *)target)->machine) ? BENCH_TAKEN : BENCH_WRONG;
}

static bench_taken set_engine(void *target, const char *text)
{
    const table_case *table = table_case_find(text);
    ((tour_options *)target)->table = table;
    return table || strcmp(text, "all") == 0 ? BENCH_TAKEN : BENCH_WRONG;
}

static const char *engine_at(size_t index)
{
    if (index == 0)
        return "all";
    return table_case_at(index - 1) ? table_case_at(index - 1)->name : NULL;
}

enum { GIVEN_SEED = 1 };

#define MOST_KEYS 0x1p31 /* there are twice as many indices as keys, and 4 bytes have 2^32 values */

static const bench_option option_table[] = {
    {"--machine", "best, cpu or cuda", .kind = BENCH_WORD, .set = set_machine},
    {"--engine", .kind = BENCH_WORD, .set = set_engine, .word_at = engine_at},
    {"--n", "a number of keys", "2^22 or 1M", BENCH_COUNT, .offset = offsetof(tour_options, n), .lowest = 1,
     .highest = MOST_KEYS},
    {"--seed", "a number", NULL, BENCH_COUNT, .offset = offsetof(tour_options, seed), .highest = BENCH_ANY_COUNT,
     .bit = GIVEN_SEED},
};

/* ---- One table ---------------------------------------------------------------------------------------- */

static bool offers(const tour *t, const tour_step *step)
{
    return !step->needs || loom_supports(t->context, t->type, t->table->engine, step->needs) == LOOM_OK;
}

/* Collects the steps that some column offers. Names the others once, with the reason. */
static size_t gather_steps(const tour *columns, size_t column_count, tour_step all[MAX_STEPS])
{
    static const tour_step *const of_maps[] = {tour_build_steps, tour_read_steps,  tour_whole_steps,
                                               tour_write_steps, tour_small_steps, NULL};
    static const tour_step *const of_filters[] = {tour_filter_steps, NULL};
    static const tour_step *const of_multimaps[] = {tour_multi_steps, NULL};
    const loom_type type = columns[0].type;
    const tour_step *const *group = type == LOOM_TYPE_FILTER     ? of_filters
                                    : type == LOOM_TYPE_MULTIMAP ? of_multimaps
                                                                 : of_maps;
    size_t count = 0;
    for (; *group; group++)
        for (const tour_step *step = *group; step->name && count < MAX_STEPS; step++) {
            size_t i = 0;
            while (i < column_count && !offers(&columns[i], step))
                i++;
            if (i < column_count)
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
    t->values = t->value_bytes ? bench_array_new(t->n, t->value_bytes) : NULL;
    t->batch_rounds = bench_array_new(t->n, 1);
    t->found_values = t->value_bytes ? bench_array_new(t->n, t->value_bytes) : NULL;
    t->status = bench_array_new(t->n, 1);
    t->found = bench_array_new(t->n, 1);
    if (!t->rounds || !t->all_keys || !t->seen || !t->keys || !t->batch_rounds || !t->status || !t->found ||
        (t->value_bytes && (!t->values || !t->found_values)))
        return false;
    if (t->lists) {
        t->numbers = bench_array_new(2 * t->lists, sizeof *t->numbers);
        t->offsets = bench_array_new(t->lists + 1, sizeof *t->offsets);
        if (!t->numbers || !t->offsets)
            return false;
    }
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
    bench_array_free(t->numbers);
    bench_array_free(t->offsets);
}

static loom_status make_map(tour *t)
{
    loom_map_config config = tour_config(t, t->n);
    if (t->lists) {
        config.capacity = t->lists;
        config.values = t->n;
    }
    loom_stats stats = LOOM_STATS_INIT;
    const loom_status status = loom_map_create(t->context, &config, &t->map);
    if (status == LOOM_OK && loom_map_stats(t->map, &stats, NULL) == LOOM_OK)
        t->seed = stats.seed;
    return status;
}

static loom_status make_filter(tour *t)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    config.key_bytes = t->key_bytes;
    config.capacity = t->n;
    const loom_status status = loom_filter_create(t->context, &config, &t->filter);
    if (status == LOOM_OK && loom_filter_stats(t->filter, &report, NULL) == LOOM_OK)
        t->seed = report.seed;
    return status;
}

/* Makes the table and the arrays of one column. A column that cannot be made is wrong in every step. */
static void open_column(tour *t)
{
    if (!make_arrays(t)) {
        t->created = LOOM_OUT_OF_MEMORY;
        snprintf(t->trouble, sizeof t->trouble, "there is no memory for the keys of the tour");
        return;
    }
    t->created = t->type == LOOM_TYPE_FILTER ? make_filter(t) : make_map(t);
    if (t->created != LOOM_OK)
        snprintf(t->trouble, sizeof t->trouble, "%s", loom_last_error());
}

static void close_column(tour *t)
{
    loom_map_destroy(t->map);
    loom_filter_destroy(t->filter);
    free_arrays(t);
}

/* ---- The table of results ----------------------------------------------------------------------------- */

/* "4+8"; for keys alone "set 4" or "filter 4" */
static const char *column_name(const tour *t, char text[16])
{
    if (t->value_bytes)
        snprintf(text, 16, "%u+%u", (unsigned)t->key_bytes, (unsigned)t->value_bytes);
    else
        snprintf(text, 16, "%s %u", table_type_name(t->type), (unsigned)t->key_bytes);
    return text;
}

static void print_result(const char *name, const tour *columns, size_t column_count, const tour_cell *cells)
{
    char text[16];
    bool right = true;
    printf("%-23s", name);
    if (cells[0].seconds > 0)
        printf(" %10" PRIu64, cells[0].operations);
    else
        printf(" %10s", "");
    for (size_t i = 0; i < column_count; i++) {
        if (cells[i].seconds > 0)
            printf(" %8.1f", (double)cells[i].operations / cells[i].seconds * 1e-6);
        else
            printf(" %8s", "");
    }
    for (size_t i = 0; i < column_count; i++) {
        if (cells[i].wrong[0]) {
            printf("  WRONG %s: %s", column_name(&columns[i], text), cells[i].wrong);
            right = false;
        }
    }
    printf("%s\n", right ? "  ok" : "");
}

static void print_title(const tour *columns, size_t column_count)
{
    char text[16];
    printf("%-23s %10s", "operation", "n");
    for (size_t i = 0; i < column_count; i++)
        printf(" %8s", column_name(&columns[i], text));
    printf("  checked\n");
}

/* Runs one operation on the table of each column that offers it, and prints its row. Returns whether every answer was
 * right. */
static bool run_step(const tour_step *step, tour *columns, size_t column_count)
{
    tour_cell cells[MOST_COLUMNS] = {{0}};
    char text[16];
    bool right = true;
    for (size_t i = 0; i < column_count; i++) {
        tour *t = &columns[i];
        t->cell = &cells[i];
        bench_progress("%s %s: %s, %" PRIu64 " keys", t->table->name, column_name(t, text), step->name, t->n);
        if (t->created != LOOM_OK)
            tour_wrong(t, "%s", t->trouble);
        else if (offers(t, step))
            step->run(t);
        right = right && !cells[i].wrong[0];
    }
    bench_progress_hide();
    print_result(step->name, columns, column_count, cells);
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

static uint64_t smaller_n(uint64_t n)
{
    return n < SMALLER_N ? n : SMALLER_N;
}

/* One column for each form of multimaps, or for each of the others except counters. Counters are maps, and the step
 * `count` makes its own. */
static size_t make_columns(loom_context *context, const table_case *table, bool multimaps, uint64_t n,
                           const char *directory, tour columns[MOST_COLUMNS])
{
    size_t count = 0;
    for (const table_form *form = table->forms; form->type && count < MOST_COLUMNS; form++) {
        if (form->type == LOOM_TYPE_COUNTER || (form->type == LOOM_TYPE_MULTIMAP) != multimaps)
            continue;
        if (multimaps && form->key_bytes > sizeof(uint64_t)) /* the tour's lists are numbers */
            continue;
        columns[count] = (tour){.context = context,
                                .table = table,
                                .type = form->type,
                                .key_bytes = form->key_bytes,
                                .value_bytes = form->value_bytes,
                                .n = count == 0 ? n : smaller_n(n),
                                .directory = directory};
        if (multimaps)
            columns[count].lists = (columns[count].n + PAIRS_PER_KEY - 1) / PAIRS_PER_KEY;
        count++;
    }
    return count;
}

/* Runs the steps of the columns. Returns whether every answer was right; adds their number to *answers. */
static bool tour_columns(tour *columns, size_t column_count, uint64_t n, uint64_t *answers)
{
    tour_step steps[MAX_STEPS];
    char text[16];
    bool right = true;
    const table_case *table = columns[0].table;
    const size_t step_count = gather_steps(columns, column_count, steps);
    print_title(columns, column_count);
    fflush(stdout);
    for (size_t i = 0; i < column_count; i++)
        open_column(&columns[i]);
    for (size_t i = 0; i < step_count; i++)
        right = run_step(&steps[i], columns, column_count) && right;
    for (size_t i = 0; i < column_count; i++) {
        *answers += columns[i].answers;
        close_column(&columns[i]);
    }
    if (right)
        return true;
    printf("Seeds of the tables, to see it again with `loom tour --engine %s --n %" PRIu64 " --seed`:", table->name, n);
    for (size_t i = 0; i < column_count; i++)
        printf(" %s %" PRIu64, column_name(&columns[i], text), columns[i].seed);
    printf("\n");
    return false;
}

/* Maps, sets and filters of an engine, then its multimaps. */
static bool tour_one(loom_context *context, const table_case *table, uint64_t n, const char *directory,
                     uint64_t *answers)
{
    tour columns[MOST_COLUMNS];
    size_t count = make_columns(context, table, false, n, directory, columns);
    bool right = true;
    char title[64];
    snprintf(title, sizeof title, "Engine %s: ", table->name);
    if (count > 0) {
        printf("\n%s%" PRIu64 " keys in the first column, %" PRIu64 " in the others. Million operations per second.\n",
               title, n, columns[count - 1].n);
        right = tour_columns(columns, count, n, answers);
        n = smaller_n(n);
        snprintf(title, sizeof title, "The same engine, %s: ", table->name);
    }
    n = n < FEWEST_PAIRS ? FEWEST_PAIRS : n;
    count = make_columns(context, table, true, n, directory, columns);
    if (count == 0)
        return right;
    if (loom_supports(context, LOOM_TYPE_MULTIMAP, table->engine, LOOM_FEATURE_LISTS) != LOOM_OK) {
        printf("\n%sleft out (%s)\n", title, loom_last_error());
        return right;
    }
    printf("\n%smultimaps for %" PRIu64 " pairs in the first column, %" PRIu64
           " in the others. Million operations or pairs per second.\n",
           title, n, columns[count - 1].n);
    return tour_columns(columns, count, n, answers) && right;
}

static int tour_tables(loom_context *context, const tour_options *options, const char *directory)
{
    uint64_t answers = 0, n = options->n;
    bool right = true;
    const table_case *table;
    const double begun = bench_seconds();
    bench_progress_start();
    for (size_t i = 0; (table = table_case_at(i)) != NULL; i++) {
        if (options->table && options->table != table)
            continue;
        if (loom_supports(context, table->forms->type, table->engine, LOOM_FEATURE_FIND) != LOOM_OK) {
            printf("\n%s: not offered by this machine.\n", table->name);
            continue;
        }
        right = tour_one(context, table, n, directory, &answers) && right;
        n = smaller_n(n);
    }
    bench_progress_stop();
    printf("\n%" PRIu64 " answers checked in %.1f s: %s.\n", answers, bench_seconds() - begun,
           right ? "all are right" : "some are WRONG, see above");
    return right ? TOOL_OK : TOOL_FAILED;
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
    "tour",
    "[OPTIONS]",
    "run every operation of every table, check every answer, show the speeds",
    "Options:\n"
    "  --machine M   best, cpu or cuda; best\n"
    "  --engine E    all, or one of those below; all\n"
    "  --n N         keys of the large table, 1 to 2^31; 2^22\n"
    "  --seed S      of the hash; random\n"
    "\n"
    "The speeds are those of single runs; `loom bench` measures with repetitions and against the hardware's limits.\n",
    run_tour,
    tool_print_engines};
