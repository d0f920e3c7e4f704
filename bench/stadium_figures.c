/* `loom bench stadium --figure`: the experiments of "Stadium Hashing: Scalable and Flexible Hashing on GPUs" (Khorasani,
 * Belviranli, Gupta, Bhuyan, PACT 2015), figures 13 to 19 and table I. This file has the list of figures and chooses the
 * rows; stadium_apart.c and stadium_slices.c measure them.
 *
 * What stands for what
 *   their table, ticket board    the tickets engine, tickets of 1, 2, 4 and 8 bits. Beside it the rows engine, whose
 *                                board has lines of tags of 16 bits
 *   cuckoo hashing               cuckoo_reference.h, on the cpu machine alone
 *   lookups without the board    the paper probes the table itself. Here a table is probed without a board in the open
 *                                engine, whose keys lie in the table, and in the cuckoo reference. Tickets of 1 bit are
 *                                no substitute: they still tell which slots are free. Open tables do not lie in host
 *                                memory, so there only the reference is left
 *   plain, collaborative and     one way for all. On a GPU lanes that are done with a key begin the next one of their
 *   hybrid insertion             warp, without shared memory for keys that wait; on a CPU a thread keeps several in flight
 *   table in host memory         row_place; on the cpu machine there is one memory
 *
 * The paper's numbers of pairs are 2^25 and 2^26, and 160 and 320 million in figure 18: --n. The widths of figure 19 are
 * not told in its text; those here go from the narrowest pairs to wide keys and wide values. */
#include "stadium_figures.h"

#include "bench_axes.h"
#include "bench_progress.h"
#include "stadium_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define BIT(number)     (1u << (number))

/* ---- Figures --------------------------------------------------------------------------------------------------- */

/* What is measured at a point, in the order of the rows. */
typedef enum figure_op { PARTS, INSERT, FIND, ERASE, APART, MIXED, OP_COUNT } figure_op;

static const char *const op_names[] = {"insert part", "insert", "find", "erase", "apart", "mixed"};

/* Operations that ask for keys, a share of which is present. The others are measured once. */
#define ASKING (BIT(FIND) | BIT(ERASE) | BIT(APART) | BIT(MIXED))

#define ALL_TICKETS (BIT(STADIUM_TICKETS_1) | BIT(STADIUM_TICKETS_2) | BIT(STADIUM_TICKETS_4) | BIT(STADIUM_TICKETS_8))
#define BOARDS      (ALL_TICKETS | BIT(STADIUM_ROWS))

#define ON_MACHINE BIT(LOOM_ROWS_ON_DEVICE)
#define IN_HOST    BIT(LOOM_ROWS_IN_HOST_MEMORY)

typedef struct pair_widths {
    uint32_t key_bytes, value_bytes; /* 0: no more */
} pair_widths;

enum { MOST_WIDTHS = 8 };

typedef struct stadium_figure {
    const char *word;            /* --figure */
    const char *shows;           /* the heading, and the column `figure` of the files; no commas */
    const char *differs;         /* what has no counterpart here, and what `share` is */
    uint32_t ops, kinds, places; /* bits */
    bench_list loads, hits;
    bench_list divisors; /* of n */
    pair_widths widths[MOST_WIDTHS];
} stadium_figure;

static const stadium_figure figures[] = {
    {.word = "13",
     .shows = "insert part by part up to load 0.95 (Stadium Hashing figure 13)",
     .differs =
         "The paper subtracts the times of collaborative lanes from those of plain insertion. Here there is one way: "
         "rows show the rate of each part.",
     .ops = BIT(PARTS),
     .kinds = BIT(STADIUM_TICKETS_1) | BIT(STADIUM_TICKETS_4) | BIT(STADIUM_TICKETS_8) | BIT(STADIUM_ROWS),
     .places = ON_MACHINE,
     .loads = BENCH_LIST(BENCH_FIGURE_HIGH_LOAD),
     .hits = BENCH_LIST(100),
     .divisors = BENCH_LIST(1),
     .widths = {{8, 8}}},
    {.word = "14",
     .shows =
         "slices of insertions and lookups by number of keys; rows where the machine works (Stadium Hashing figure 14)",
     .differs = "share: speed against the cuckoo reference (limit). The paper inserts by its hybrid way.",
     .ops = BIT(MIXED),
     .kinds = BIT(STADIUM_CUCKOO) | BOARDS | BIT(STADIUM_OPEN),
     .places = ON_MACHINE,
     .loads = BENCH_LIST(BENCH_STADIUM_LOAD),
     .hits = BENCH_LIST(100, 50),
     .divisors = BENCH_LIST(BENCH_FIGURE_DIVISORS),
     .widths = {{4, 4}}},
    {.word = "15",
     .shows = "slices of insertions and lookups against the same operations apart (Stadium Hashing figure 15)",
     .differs =
         "share of `mixed`: its rate / that of `apart` (limit), whose calls have as many keys as a slice has rows.",
     .ops = BIT(APART) | BIT(MIXED),
     .kinds = BIT(STADIUM_CUCKOO) | BOARDS | BIT(STADIUM_OPEN),
     .places = ON_MACHINE,
     .loads = BENCH_LIST(BENCH_STADIUM_LOAD),
     .hits = BENCH_LIST(100, 50),
     .divisors = BENCH_LIST(1),
     .widths = {{4, 4}}},
    {.word = "16",
     .shows = "slices of insertions and lookups by number of keys; rows in host memory (Stadium Hashing figure 16)",
     .differs = "share: speed against the cuckoo reference (limit). The paper inserts by its hybrid way.",
     .ops = BIT(MIXED),
     .kinds = BIT(STADIUM_CUCKOO) | BOARDS,
     .places = IN_HOST,
     .loads = BENCH_LIST(BENCH_STADIUM_LOAD),
     .hits = BENCH_LIST(100, 50),
     .divisors = BENCH_LIST(BENCH_FIGURE_DIVISORS),
     .widths = {{4, 4}}},
    {.word = "17",
     .shows = "operations of one kind; rows in host memory (Stadium Hashing figure 17)",
     .differs = "share: speed against the cuckoo reference (limit). The paper inserts by its hybrid way.",
     .ops = BIT(INSERT) | BIT(FIND) | BIT(ERASE),
     .kinds = BIT(STADIUM_CUCKOO) | BOARDS,
     .places = IN_HOST,
     .loads = BENCH_LIST(BENCH_STADIUM_LOAD),
     .hits = BENCH_LIST(100, 50),
     .divisors = BENCH_LIST(1),
     .widths = {{4, 4}}},
    {.word = "18",
     .shows = "insert and find with a board and without (Stadium Hashing figure 18)",
     .differs =
         "Without a board: the open engine, where the machine works, and the cuckoo reference (limit; share: speed "
         "against it). There is one way to insert, for plain and for collaborative lanes.",
     .ops = BIT(INSERT) | BIT(FIND),
     .kinds = BIT(STADIUM_CUCKOO) | BOARDS | BIT(STADIUM_OPEN),
     .places = ON_MACHINE | IN_HOST,
     .loads = BENCH_LIST(BENCH_FIGURE_LOAD),
     .hits = BENCH_LIST(100, 50),
     .divisors = BENCH_LIST(1),
     .widths = {{8, 8}}},
    {.word = "19",
     .shows = "operations of one kind by bytes of key and value (Stadium Hashing figure 19)",
     .differs = "There is one way to insert: one row stands for plain, collaborative and hybrid insertion.",
     .ops = BIT(INSERT) | BIT(FIND) | BIT(ERASE),
     .kinds = BOARDS,
     .places = ON_MACHINE | IN_HOST,
     .loads = BENCH_LIST(BENCH_FIGURE_LOAD),
     .hits = BENCH_LIST(100),
     .divisors = BENCH_LIST(1),
     .widths = {{4, 4}, {8, 8}, {16, 8}, {32, 8}, {8, 32}, {8, 128}}},
    {.word = "table1",
     .shows = "insert by load (Stadium Hashing table I tells the warp execution efficiency)",
     .differs =
         "Only a profiler sees which lanes of a warp are active. On a GPU: ncu -k 'regex:batch_kernel|write_kernel' "
         "--metrics smsp__thread_inst_executed_per_inst_executed.ratio loom bench stadium --machine cuda --figure "
         "table1 --repeat 1; 32 active lanes are 100 %. A lookup that checks follows each insertion.",
     .ops = BIT(INSERT),
     .kinds = BIT(STADIUM_CUCKOO) | BIT(STADIUM_TICKETS_4) | BIT(STADIUM_ROWS),
     .places = ON_MACHINE,
     .loads = BENCH_LIST(BENCH_FIGURE_TABLE_LOADS),
     .hits = BENCH_LIST(100),
     .divisors = BENCH_LIST(1),
     .widths = {{4, 4}}},
};

const char *bench_stadium_figure_at(size_t index)
{
    return index < COUNT_OF(figures) ? figures[index].word : NULL;
}

static const stadium_figure *find_figure(const char *word)
{
    const stadium_figure *figure = figures;
    while (strcmp(figure->word, word) != 0) /* ends: the options have a word of the list */
        figure++;
    return figure;
}

uint32_t stadium_figure_uses(const char *word)
{
    const uint32_t of_slices = find_figure(word)->ops & BIT(MIXED) ? BENCH_USES_BATCH : 0;
    return BENCH_USES_FIGURE | BENCH_USES_N | BENCH_USES_REPEAT | BENCH_USES_LANES | of_slices;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

/* The tables of one width, size and load, and what they are asked. */
typedef struct figure_point {
    bench_session *session;
    const stadium_figure *figure;
    stadium_form form; /* the kind changes from table to table */
    uint64_t slice;    /* rows of a slice */
    double hit;
    bool first;              /* of the shares of present keys: operations that ask for none are measured now */
    double cuckoo[OP_COUNT]; /* M/s of the reference; NAN: not measured */
    double apart;            /* M/s of APART on this table; NAN: not measured */
    stadium_pairs pairs;
    stadium_slices slices;
} figure_point;

static bool is_measured(const figure_point *point, figure_op op)
{
    return (point->figure->ops & BIT(op)) && (point->first || (ASKING & BIT(op)));
}

/* Operations of one repetition. */
static uint64_t operations_of(const figure_point *point, figure_op op)
{
    return op == MIXED ? stadium_slices_rows(&point->slices) : op == APART ? 2 * point->form.n : point->form.n;
}

static double time_op(figure_point *point, stadium_table *table, figure_op op, bench_row *row)
{
    const uint64_t n = point->form.n;
    switch (op) {
    case INSERT:
        return stadium_time_insert(&point->pairs, table, n, row);
    case FIND:
        return stadium_time_find(&point->pairs, table, n, row);
    case ERASE:
        return stadium_time_erase(&point->pairs, table, n, row);
    case APART:
        return stadium_time_both(&point->pairs, table, point->slice, row);
    case MIXED:
        return stadium_time_slices(&point->slices, table, row);
    case PARTS:
    case OP_COUNT:
        break;
    }
    return NAN;
}

/* Compares mixed batches with the same operations apart where the figure has both, other rates with the reference. */
static void compare(figure_point *point, figure_op op, bench_row *row)
{
    const bool with_apart = op == MIXED && (point->figure->ops & BIT(APART));
    const bool is_reference = point->form.kind == STADIUM_CUCKOO;
    if (op == APART)
        point->apart = row->mops;
    else if (is_reference)
        point->cuckoo[op] = row->mops;
    row->limit = with_apart ? point->apart : is_reference || op == APART ? NAN : point->cuckoo[op];
    row->share = row->mops / row->limit;
    if (!isnan(row->limit))
        snprintf(row->limit_name, sizeof row->limit_name, "%s", with_apart ? "apart" : "cuckoo");
}

static void measure_op(figure_point *point, stadium_table *table, figure_op op)
{
    bench_row row = stadium_row(&point->form, point->session, op_names[op]);
    row.load = (double)point->form.n / (double)table->slots;
    row.batch = op == MIXED || op == APART ? point->slice : point->form.n;
    if (ASKING & BIT(op))
        row.hit = point->hit;
    bench_progress("stadium %s, %s, %s", point->figure->word, row.engine, op_names[op]);
    const double seconds = time_op(point, table, op, &row);
    row.mops = (double)operations_of(point, op) / seconds * 1e-6; /* NAN, if there is no time */
    compare(point, op, &row);
    bench_report_add(&point->session->report, &row);
}

/* One row for each part, with the load that the table has after it. */
static void measure_parts(figure_point *point, stadium_table *table)
{
    double seconds[BENCH_FIGURE_PARTS];
    const uint64_t n = point->form.n;
    bench_row row = stadium_row(&point->form, point->session, op_names[PARTS]);
    bench_progress("stadium %s, %s, %s", point->figure->word, row.engine, op_names[PARTS]);
    if (!stadium_time_parts(&point->pairs, table, BENCH_FIGURE_PARTS, seconds, &row)) {
        bench_report_add(&point->session->report, &row);
        return;
    }
    for (uint32_t part = 0; part < BENCH_FIGURE_PARTS; part++) {
        const uint64_t end = stadium_part_begin(n, BENCH_FIGURE_PARTS, part + 1);
        row.n = end;
        row.batch = end - stadium_part_begin(n, BENCH_FIGURE_PARTS, part);
        row.load = (double)end / (double)table->slots;
        row.mops = (double)row.batch / seconds[part] * 1e-6;
        bench_report_add(&point->session->report, &row);
    }
}

static void run_table(figure_point *point, stadium_kind kind)
{
    stadium_table table;
    point->form.kind = kind;
    point->apart = NAN;
    const loom_status status = stadium_table_make(point->session, &point->form, &table);
    if (status != LOOM_OK && point->first) {
        bench_row row = stadium_row(&point->form, point->session, "create");
        stadium_tell(&table, status, &row);
        bench_report_add(&point->session->report, &row);
    }
    for (figure_op op = 0; op < OP_COUNT && status == LOOM_OK; op++) {
        if (op == PARTS && is_measured(point, op))
            measure_parts(point, &table);
        else if (is_measured(point, op))
            measure_op(point, &table, op);
    }
    stadium_table_free(&table);
}

/* ---- Points ---------------------------------------------------------------------------------------------------- */

static void tell_no_memory(const figure_point *point)
{
    bench_row row = stadium_row(&point->form, point->session, "pairs");
    bench_row_fail(&row, "there is no memory for the pairs of the benchmark; ask for a smaller --n");
    bench_report_add(&point->session->report, &row);
}

/* The rows of one share of present keys. */
static void run_hit(figure_point *point)
{
    const stadium_form *form = &point->form;
    const uint32_t ops = point->figure->ops;
    bool made = (ops & ~BIT(MIXED)) == 0 || stadium_pairs_ask(&point->pairs, point->hit) == LOOM_OK;
    for (size_t op = 0; op < OP_COUNT; op++)
        point->cuckoo[op] = NAN;
    if (made && (ops & BIT(MIXED)))
        made = stadium_slices_new(point->session, form->n, point->slice, form->key_bytes, form->value_bytes, point->hit,
                                  &point->slices);
    for (stadium_kind kind = 0; kind < STADIUM_KINDS && made; kind++)
        if (point->figure->kinds & BIT(kind))
            run_table(point, kind);
    if (!made)
        tell_no_memory(point);
    if (ops & BIT(MIXED))
        stadium_slices_free(&point->slices);
}

/* Keys of a table: --n, or as many as memory of a modest size holds, through the divisor. */
static uint64_t choose_n(const bench_options *options, pair_widths widths, double divisor)
{
    uint64_t n = options->n;
    while (!(options->given & BENCH_USES_N) && n * (widths.key_bytes + widths.value_bytes) > BENCH_WIDTHS_BYTES)
        n /= 2;
    n = (uint64_t)((double)n / divisor);
    return n < BENCH_FIGURE_LEAST_KEYS  ? BENCH_FIGURE_LEAST_KEYS
           : n > BENCH_FIGURE_MOST_KEYS ? BENCH_FIGURE_MOST_KEYS
                                        : n;
}

static void run_point(bench_session *session, const stadium_figure *figure, const stadium_form *form)
{
    const bench_options *options = session->options;
    figure_point point = {.session = session, .figure = figure, .form = *form};
    point.slice = options->given & BENCH_USES_BATCH ? options->batch : BENCH_FIGURE_SLICE;
    if (figure->ops & BIT(MIXED))
        stadium_slices_round(&point.form.n, &point.slice);
    bench_progress("stadium %s: making %" PRIu64 " pairs", figure->word, point.form.n);
    const bool needs_pairs = (figure->ops & ~BIT(MIXED)) != 0;
    const bool made =
        !needs_pairs || stadium_pairs_new(session, point.form.n, form->key_bytes, form->value_bytes, &point.pairs);
    for (size_t i = 0; i < figure->hits.count && made; i++) {
        point.hit = figure->hits.at[i];
        point.first = i == 0;
        if (point.first || (figure->ops & ASKING))
            run_hit(&point);
    }
    if (!made)
        tell_no_memory(&point);
    if (needs_pairs)
        stadium_pairs_free(&point.pairs);
}

/* All sizes and loads of pairs of one width, with rows at one place. */
static void run_width(bench_session *session, const stadium_figure *figure, loom_row_place place, pair_widths widths)
{
    stadium_form form = {.place = place, .key_bytes = widths.key_bytes, .value_bytes = widths.value_bytes};
    for (size_t load = 0; load < figure->loads.count; load++) {
        form.load = figure->loads.at[load];
        for (size_t i = 0; i < figure->divisors.count; i++) {
            form.n = choose_n(session->options, widths, figure->divisors.at[i]);
            run_point(session, figure, &form);
        }
    }
}

void stadium_run_figure(bench_session *session)
{
    const stadium_figure *figure = find_figure(session->options->figure);
    bench_report_heading(&session->report, figure->shows);
    printf("%s\n", figure->differs);
    session->figure = figure->shows;
    for (loom_row_place place = LOOM_ROWS_ON_DEVICE; place <= LOOM_ROWS_IN_HOST_MEMORY; place++)
        for (size_t i = 0; i < MOST_WIDTHS && figure->widths[i].key_bytes > 0 && (figure->places & BIT(place)); i++)
            run_width(session, figure, place, figure->widths[i]);
    session->figure = NULL;
}
