/* The case `perfect`: tables of the perfect engine. The case `map` (case_map.c) makes the keys, times, checks every
 * answer and measures the limits; this file only chooses the rows. Without --sweep: build, insert and find at each
 * load.
 *
 * With --sweep: a list of figures, each a few runs of the case `map` that differ along one axis. Most have a
 * counterpart in the evaluation of "GPH: An Efficient and Effective Perfect Hashing Scheme for GPU Architectures",
 * section 7, on its data set Random: 10^8 different random keys of 4 bytes with values of 4 bytes, which are the
 * default on a GPU. Not measured here: other engines (`--engine open` gives the same rows for that one), the paper's
 * other data sets, and figures 13 b and 15 a, which vary what users of the library cannot choose (slots of a bucket,
 * virtual buckets of a cell). */
#include "bench_axes.h"
#include "bench_case.h"
#include "map_bench.h"

#include <stdio.h>
#include <string.h>

/* ---- Axes of which each point is a run ---------------------------------------------------------------- */

/* Moves the options to a point of the axis; false: no more points. */
typedef bool (*vary_function)(bench_options *options, size_t point);

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool vary_nothing(bench_options *options, size_t point)
{
    (void)options;
    return point == 0;
}

/* The number of lookups stays, so that small tables are not measured by short calls. */
static bool vary_keys(bench_options *options, size_t point)
{
    static const uint64_t divisors[] = {BENCH_SWEEP_N_DIVISORS};
    if (point >= COUNT_OF(divisors))
        return false;
    options->n = options->n < divisors[point] ? 1 : options->n / divisors[point];
    return true;
}

static bool vary_lanes(bench_options *options, size_t point)
{
    static const uint32_t lanes[] = {BENCH_SWEEP_LANES};
    if (point >= COUNT_OF(lanes))
        return false;
    options->lanes = lanes[point];
    return true;
}

static bool vary_widths(bench_options *options, size_t point)
{
    static const struct {
        loom_type type;
        uint32_t key_bytes, value_bytes;
    } widths[] = {{LOOM_TYPE_SET, 4, 0}, {LOOM_TYPE_MAP, 4, 4}, {LOOM_TYPE_MAP, 4, 8},
                  {LOOM_TYPE_SET, 8, 0}, {LOOM_TYPE_MAP, 8, 4}, {LOOM_TYPE_MAP, 8, 8}};
    if (point >= COUNT_OF(widths))
        return false;
    options->type = widths[point].type;
    options->key_bytes = widths[point].key_bytes;
    options->value_bytes = widths[point].value_bytes;
    return true;
}

static bool vary_skew(bench_options *options, size_t point)
{
    static const double skews[] = {BENCH_SWEEP_SKEWS};
    if (point >= COUNT_OF(skews))
        return false;
    options->skew = skews[point];
    return true;
}

/* ---- Figures ------------------------------------------------------------------------------------------ */

enum { MOST_OPS = 3 };

typedef struct sweep_figure {
    const char *shows; /* the heading, and the column `figure` of the files */
    const char *ops[MOST_OPS];
    bench_list loads, hits; /* axes that one run of the case `map` covers */
    vary_function vary;
    double more; /* for insert_more */
} sweep_figure;

/* The paper's tables of 10^8 pairs have 1.25 to 2 GB; figures that vary something else use 1.5 GB. These are also
 * measured at a high load, since perfect tables are as fast there. */
static const sweep_figure figures[] = {
    {.shows = "find by size of the table, 50 % hits (GPH figure 9: loads 0.4 to 0.64)",
     .ops = {"find"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOADS_OF_GPH, 0.8, 0.9, 0.95),
     .hits = BENCH_LIST(50),
     .vary = vary_nothing},
    {.shows = "find by number of keys, 50 % hits (not in GPH)",
     .ops = {"find"},
     .loads = BENCH_LIST(0.9),
     .hits = BENCH_LIST(50),
     .vary = vary_keys},
    {.shows = "find by share of hits (GPH figure 10: load 0.533)",
     .ops = {"find"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOAD_OF_GPH, 0.9),
     .hits = BENCH_LIST(0, 25, 50, 75, 100),
     .vary = vary_nothing},
    {.shows = "find by lanes of a group, 50 % hits (GPH figure 13 a)",
     .ops = {"find"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOAD_OF_GPH, 0.9),
     .hits = BENCH_LIST(50),
     .vary = vary_lanes},
    {.shows = "insert all keys into an empty table, by size of the table (GPH figure 14: loads 0.4 to 0.64)",
     .ops = {"insert"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOADS_OF_GPH, 0.8, 0.9, 0.95),
     .vary = vary_nothing},
    {.shows = "insert 1 % more keys into a filled table, by load (not in GPH)",
     .ops = {"insert_more"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOADS_AFTER_MORE),
     .vary = vary_nothing,
     .more = BENCH_SWEEP_MORE},
    {.shows = "build by load (not in GPH)",
     .ops = {"build"},
     .loads = BENCH_LIST(BENCH_DEFAULT_LOADS),
     .vary = vary_nothing},
    {.shows = "by bytes of key and value, sets first, 50 % hits (GPH figure 15 b: insert)",
     .ops = {"build", "insert", "find"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOAD_OF_GPH),
     .hits = BENCH_LIST(50),
     .vary = vary_widths},
    {.shows = "by skew, all lookups hit (GPH figure 15 c: insert)",
     .ops = {"insert", "find"},
     .loads = BENCH_LIST(BENCH_SWEEP_LOAD_OF_GPH),
     .hits = BENCH_LIST(100),
     .vary = vary_skew},
};

/* ---- Runs --------------------------------------------------------------------------------------------- */

static void add_op(bench_options *options, const char *op)
{
    snprintf(options->ops[options->op_count++], sizeof options->ops[0], "%s", op);
}

/* The operations of the figure that --ops does not leave out. */
static void choose_ops(bench_options *options, const bench_options *asked, const sweep_figure *figure)
{
    options->op_count = 0;
    for (size_t i = 0; i < MOST_OPS && figure->ops[i]; i++) {
        if (bench_options_wants(asked, figure->ops[i]))
            add_op(options, figure->ops[i]);
    }
}

/* Lanes belong to a context, so other lanes need another context. */
static void run_point(bench_session *session, const bench_options *options)
{
    const bench_options *asked = session->options;
    loom_context *own = session->context, *other = NULL;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    if (options->lanes != asked->lanes) {
        if (bench_make_context(options, &other, &info) != LOOM_OK) {
            bench_row row = bench_row_new("context", session->info.machine_name, options->ops[0]);
            row.lanes = options->lanes;
            row.figure = session->figure;
            bench_row_fail(&row, "%s", loom_last_error());
            bench_report_add(&session->report, &row);
            return;
        }
        session->context = other;
    }
    session->options = options;
    map_run(session);
    session->options = asked;
    session->context = own;
    loom_context_destroy(other);
}

/* Adds the rows of a figure, if --ops leaves any. */
static void run_figure(bench_session *session, const sweep_figure *figure)
{
    bench_options options = *session->options;
    choose_ops(&options, session->options, figure);
    if (options.op_count == 0)
        return;
    options.loads = figure->loads;
    options.hits = figure->hits;
    if (figure->more > 0)
        options.more = figure->more;
    bench_report_heading(&session->report, figure->shows);
    if (figure->vary == vary_lanes && session->info.machine == LOOM_MACHINE_CPU) {
        printf("none on the cpu machine: it has one width, a thread that looks at a bucket with its vector unit\n");
        return;
    }
    session->figure = figure->shows;
    for (size_t point = 0;; point++) {
        bench_options moved = options;
        if (!figure->vary(&moved, point))
            break;
        run_point(session, &moved);
    }
    session->figure = NULL;
}

static void run_sweep(bench_session *session)
{
    for (size_t i = 0; i < COUNT_OF(figures); i++)
        run_figure(session, &figures[i]);
}

/* What runs without --ops and --sweep. */
static const char *const default_ops[] = {"build", "insert", "find"};

static void run_perfect(bench_session *session)
{
    const bench_options *asked = session->options;
    bench_options options = *asked;
    session->options = &options;
    if (options.sweep) {
        run_sweep(session);
    } else {
        for (size_t i = 0; i < COUNT_OF(default_ops) && asked->op_count == 0; i++)
            add_op(&options, default_ops[i]);
        map_run(session);
    }
    session->options = asked;
}

static bool has_op(const char *const *ops, size_t count, const char *op)
{
    for (size_t i = 0; i < count && ops[i]; i++) {
        if (strcmp(ops[i], op) == 0)
            return true;
    }
    return false;
}

static bool is_in_a_figure(const char *op)
{
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        if (has_op(figures[i].ops, MOST_OPS, op))
            return true;
    }
    return false;
}

static bool op_runs(const bench_options *options, size_t index)
{
    const char *op = map_op_name(index);
    if (!bench_options_wants(options, op) || !map_op_is_for(index, options->type))
        return false;
    if (options->sweep)
        return is_in_a_figure(op);
    return options->op_count > 0 || has_op(default_ops, COUNT_OF(default_ops), op);
}

const bench_case bench_case_perfect = {.name = "perfect",
                                       .summary = "tables of the perfect engine, figure by figure",
                                       .op_name = map_op_name,
                                       .op_is_for = map_op_is_for,
                                       .op_runs = op_runs,
                                       .op_uses = map_op_uses,
                                       .uses = MAP_USES | BENCH_USES_SWEEP,
                                       .sweep_sets = BENCH_USES_LOAD | BENCH_USES_HIT | BENCH_USES_MORE,
                                       .type = LOOM_TYPE_MAP,
                                       .engine = LOOM_ENGINE_PERFECT,
                                       .run = run_perfect,
                                       .n_on_device = BENCH_DEFAULT_PERFECT_N_ON_DEVICE};
