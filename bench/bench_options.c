#include "bench_options.h"

#include "bench_axes.h"
#include "bench_case.h"
#include "table_cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bench_taken take_if(bool right)
{
    return right ? BENCH_TAKEN : BENCH_WRONG;
}

static bench_taken add_case(void *target, const char *text)
{
    bench_options *options = target;
    const bench_case *named = bench_case_find(text);
    if (!named)
        return BENCH_WRONG;
    if (options->case_count == BENCH_MAX_VALUES)
        return BENCH_TOO_MANY;
    options->cases[options->case_count++] = named;
    return BENCH_TAKEN;
}

static bench_taken set_machine(void *target, const char *text)
{
    return take_if(bench_parse_machine(text, &((bench_options *)target)->machine));
}

static bench_taken set_engine(void *target, const char *text)
{
    bench_options *options = target;
    return take_if(bench_parse_engine(text, &options->engine, &options->row_place));
}

static bench_taken set_type(void *target, const char *text)
{
    return take_if(bench_parse_type(text, &((bench_options *)target)->type));
}

static bench_taken set_layout(void *target, const char *text)
{
    const bool together = strcmp(text, "together") == 0, apart = strcmp(text, "apart") == 0;
    ((bench_options *)target)->layout = together ? LOOM_LAYOUT_TOGETHER
                                        : apart  ? LOOM_LAYOUT_APART
                                                 : LOOM_LAYOUT_DEFAULT;
    return take_if(together || apart);
}

static bench_taken set_figure(void *target, const char *text)
{
    size_t at = 0;
    while (bench_stadium_figure_at(at) && strcmp(text, bench_stadium_figure_at(at)) != 0)
        at++;
    ((bench_options *)target)->figure = bench_stadium_figure_at(at);
    return take_if(bench_stadium_figure_at(at) != NULL);
}

static bench_taken set_wait(void *target, const char *text)
{
    ((bench_options *)target)->waits_for_last = strcmp(text, "last") == 0;
    return take_if(strcmp(text, "last") == 0 || strcmp(text, "each") == 0);
}

static bench_taken set_yes_or_no(bool *to, const char *text)
{
    *to = strcmp(text, "yes") == 0;
    return take_if(*to || strcmp(text, "no") == 0);
}

static bench_taken set_concurrent_reads(void *target, const char *text)
{
    return set_yes_or_no(&((bench_options *)target)->concurrent_reads, text);
}

static bench_taken set_workspace(void *target, const char *text)
{
    return set_yes_or_no(&((bench_options *)target)->workspace, text);
}

static bench_taken set_limits(void *target, const char *text)
{
    bool wanted;
    const bench_taken taken = set_yes_or_no(&wanted, text);
    ((bench_options *)target)->no_limits = !wanted;
    return taken;
}

/* The cases, which may be named later, decide whether there is such an operation. */
static bench_taken add_op(void *target, const char *text)
{
    bench_options *options = target;
    if (!*text)
        return BENCH_WRONG;
    if (options->op_count == BENCH_MAX_VALUES)
        return BENCH_TOO_MANY;
    snprintf(options->ops[options->op_count++], sizeof options->ops[0], "%s", text);
    return BENCH_TAKEN;
}

static const bench_option case_word = {
    .name = "CASE", .kind = BENCH_WORD, .set = add_case, .word_at = bench_case_name_at};

#define KEY_COUNT_EXAMPLE "2^24, 1M or 16Mi"
#define MOST_KEYS         0x1p40
#define MOST_GROUPS       0x1p32 /* so many keys of 4 bytes there are */
#define MOST_THREADS      1024   /* of a context */
#define MOST_BYTES        0x1p38 /* a filter has fewer than 2^32 blocks of 64 bytes */

static const uint32_t lanes[] = {0, 1, 2, 4, 8};
static const uint32_t ticket_bits[] = {1, 2, 4, 8};

#define AT(member)       .offset = offsetof(bench_options, member)
#define RANGE(low, high) .lowest = (low), .highest = (high)
#define CHOICES(numbers) .choices = (numbers), .choice_count = sizeof(numbers) / sizeof *(numbers)

static const bench_option table[] = {
    {"--machine", "best, cpu or cuda", .kind = BENCH_WORD, .set = set_machine},
    {"--engine", NULL, .kind = BENCH_WORD, .set = set_engine, .word_at = bench_engine_name_at,
     .bit = BENCH_USES_ENGINE},
    {"--type", "map, set or counter", .kind = BENCH_WORD, .set = set_type, .bit = BENCH_USES_TYPE},
    {"--threads", "a number of threads", .kind = BENCH_COUNT32, AT(threads), RANGE(0, MOST_THREADS)},
    {"--lanes", NULL, .kind = BENCH_CHOICE, AT(lanes), CHOICES(lanes), .bit = BENCH_USES_LANES},
    {"--n", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(n), RANGE(1, MOST_KEYS), .bit = BENCH_USES_N},
    {"--queries", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(queries), RANGE(1, MOST_KEYS),
     .bit = BENCH_USES_QUERIES},
    {"--absent", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(absent), RANGE(1, MOST_KEYS),
     .bit = BENCH_USES_ABSENT},
    {"--bits-per-key", "numbers of bits", .kind = BENCH_REALS, AT(bits_per_key), RANGE(1, 512),
     .bit = BENCH_USES_BITS_PER_KEY},
    {"--bytes", "a number of bytes", "64Mi", BENCH_COUNT, AT(bytes), RANGE(1, MOST_BYTES), .bit = BENCH_USES_BYTES},
    {"--load", "loads", .kind = BENCH_REALS, AT(loads), RANGE(0.001, 0.95), .bit = BENCH_USES_LOAD},
    {"--hit", "percentages", .kind = BENCH_REALS, AT(hits), RANGE(0, 100), .bit = BENCH_USES_HIT},
    {"--skew", "a Zipf exponent", .kind = BENCH_REAL, AT(skew), RANGE(0, 100), .or_word = "real",
     .or_number = BENCH_SKEW_REAL, .bit = BENCH_USES_SKEW},
    {"--more", "a share of the keys", .kind = BENCH_REAL, AT(more), RANGE(0.000001, 1), .bit = BENCH_USES_MORE},
    {"--from", "shares of the keys", .kind = BENCH_REALS, AT(from), RANGE(0, 1), .bit = BENCH_USES_FROM},
    {"--callers", "numbers of threads", .kind = BENCH_REALS, AT(callers), RANGE(1, BENCH_MOST_CALLERS),
     .bit = BENCH_USES_CALLERS},
    {"--values-per-key", "numbers of values", .kind = BENCH_REALS, AT(values_per_key), RANGE(1, MOST_KEYS),
     .bit = BENCH_USES_VALUES_PER_KEY},
    {"--groups", "numbers of groups", .kind = BENCH_REALS, AT(groups), RANGE(1, MOST_GROUPS), .bit = BENCH_USES_GROUPS},
    {"--first-bucket", "a number of values", .kind = BENCH_COUNT, AT(first_bucket), RANGE(1, 32768),
     .bit = BENCH_USES_FIRST_BUCKET},
    {"--bucket-growth", "a factor", .kind = BENCH_REAL, AT(bucket_growth), RANGE(1, 8),
     .bit = BENCH_USES_BUCKET_GROWTH},
    {"--hot", "a share of the keys", .kind = BENCH_REAL, AT(hot), RANGE(0, 1), .bit = BENCH_USES_HOT},
    {"--batch", "a number of keys per call", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(batch), RANGE(1, MOST_KEYS),
     .bit = BENCH_USES_BATCH},
    {"--wait", "each or last", .kind = BENCH_WORD, .set = set_wait, .bit = BENCH_USES_WAIT},
    {"--concurrent-reads", "yes or no", .kind = BENCH_WORD, .set = set_concurrent_reads,
     .bit = BENCH_USES_CONCURRENT_READS},
    {"--workspace", "yes or no", .kind = BENCH_WORD, .set = set_workspace, .bit = BENCH_USES_WORKSPACE},
    {"--limits", "yes or no", .kind = BENCH_WORD, .set = set_limits, .bit = BENCH_USES_LIMITS},
    {"--key-bytes", "a number of bytes", .kind = BENCH_COUNT32, AT(key_bytes), RANGE(4, 256),
     .bit = BENCH_USES_KEY_BYTES},
    {"--value-bytes", "a number of bytes", .kind = BENCH_COUNT32, AT(value_bytes), RANGE(1, 65536),
     .bit = BENCH_USES_VALUE_BYTES},
    {"--layout", "together or apart", .kind = BENCH_WORD, .set = set_layout, .bit = BENCH_USES_LAYOUT},
    {"--ticket-bits", NULL, .kind = BENCH_CHOICE, AT(ticket_bits), CHOICES(ticket_bits), .bit = BENCH_USES_TICKET_BITS},
    {"--ops", "operations parted by commas", .kind = BENCH_WORDS, .set = add_op, .bit = BENCH_USES_OPS},
    {"--repeat", "a number", .kind = BENCH_COUNT, AT(repeat), RANGE(1, BENCH_MAX_REPEAT), .bit = BENCH_USES_REPEAT},
    {"--sweep", NULL, .kind = BENCH_FLAG, AT(sweep), .bit = BENCH_USES_SWEEP},
    {"--figure", NULL, .kind = BENCH_WORD, .set = set_figure, .word_at = bench_stadium_figure_at,
     .bit = BENCH_USES_FIGURE},
    {"--csv", "the name of a file", .kind = BENCH_TEXT, AT(csv_path)},
    {"--json", "the name of a file", .kind = BENCH_TEXT, AT(json_path)},
};

/* ---- What the cases use ------------------------------------------------------------------------------- */

static const char *op_at(const bench_case *named, size_t index)
{
    return named->op_name ? named->op_name(index) : NULL;
}

/* The options that a case may use, over all operations. */
static uint32_t usable_by(const bench_case *named)
{
    uint32_t used = named->uses;
    for (size_t i = 0; op_at(named, i); i++)
        used |= named->op_uses(i);
    return used;
}

static bool runs_figure(const bench_case *named, const bench_options *options)
{
    return options->figure && named->figure_uses;
}

/* The options that a case does use. */
static uint32_t used_by(const bench_case *named, const bench_options *options)
{
    uint32_t used = named->uses;
    if (runs_figure(named, options))
        return named->figure_uses(options->figure);
    for (size_t i = 0; op_at(named, i); i++) {
        if (named->op_runs(options, i))
            used |= named->op_uses(i);
    }
    return options->sweep ? used & ~named->sweep_sets : used;
}

/* The first option that has one of these bits. */
static const bench_option *find_by_bit(uint32_t bits)
{
    const bench_option *option = table;
    while (!(option->bit & bits)) /* ends: every bit has an option */
        option++;
    return option;
}

typedef struct names {
    const char *at[32]; /* more than there are cases, or operations */
    size_t count;
} names;

static void add_name(names *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->at[i], name) == 0)
            return;
    }
    if (list->count < sizeof list->at / sizeof *list->at)
        list->at[list->count++] = name;
}

enum { NAMES_BYTES = 160 };

/* "map", "map and perfect", "limits, map and perfect" */
static const char *write_names(const names *list, const char *last, char text[NAMES_BYTES])
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < list->count && used < NAMES_BYTES; i++) {
        const char *before = i == 0 ? "" : i + 1 < list->count ? ", " : last;
        used += (size_t)snprintf(text + used, NAMES_BYTES - used, "%s%s", before, list->at[i]);
    }
    return text;
}

/* Whether each given option is one that a named case may use. */
static bool check_cases_use(const bench_options *options, uint32_t given, char error[256])
{
    names unfit = {.count = 0}, fit = {.count = 0};
    char unfit_text[NAMES_BYTES], fit_text[NAMES_BYTES];
    for (size_t i = 0; i < options->case_count; i++) {
        given &= ~usable_by(options->cases[i]);
        add_name(&unfit, options->cases[i]->name);
    }
    if (given == 0)
        return true;
    const bench_option *option = find_by_bit(given);
    for (size_t i = 0; bench_case_at(i); i++) {
        if (usable_by(bench_case_at(i)) & option->bit)
            add_name(&fit, bench_case_at(i)->name);
    }
    snprintf(error, 256, "The case%s %s %s not use %s; leave it out. It is an option of %s.",
             unfit.count > 1 ? "s" : "", write_names(&unfit, " and ", unfit_text), unfit.count > 1 ? "do" : "does",
             option->name, write_names(&fit, " and ", fit_text));
    return false;
}

/* The operations that --ops could name, with the other options unchanged, so that this option is used. */
static void find_ops_that_use(const bench_options *options, uint32_t bit, names *list)
{
    bench_options alone = *options;
    alone.op_count = 1;
    for (size_t i = 0; i < options->case_count; i++) {
        const bench_case *named = options->cases[i];
        for (size_t j = 0; op_at(named, j); j++) {
            snprintf(alone.ops[0], sizeof alone.ops[0], "%s", op_at(named, j));
            if ((named->op_uses(j) & bit) && named->op_runs(&alone, j))
                add_name(list, op_at(named, j));
        }
    }
}

/* Whether what runs uses each given option. */
static bool check_operations_use(const bench_options *options, uint32_t given, char error[256])
{
    names ops = {.count = 0};
    char text[NAMES_BYTES];
    uint32_t set_by_sweep = 0, left_by_figure = 0;
    for (size_t i = 0; i < options->case_count; i++) {
        given &= ~used_by(options->cases[i], options);
        set_by_sweep |= options->sweep ? options->cases[i]->sweep_sets : 0;
        if (runs_figure(options->cases[i], options))
            left_by_figure |= usable_by(options->cases[i]);
    }
    if (given == 0)
        return true;
    const bench_option *option = find_by_bit(given);
    if (option->bit & set_by_sweep) {
        snprintf(error, 256, "With --sweep each figure has its own %s; leave it out.", option->name);
        return false;
    }
    if (option->bit & left_by_figure) {
        snprintf(error, 256, "With --figure %s the case stadium does not take %s; leave it out.", options->figure,
                 option->name);
        return false;
    }
    find_ops_that_use(options, option->bit, &ops);
    snprintf(error, 256, "No operation that would run uses %s; leave it out, or let --ops name one that does: %s.",
             option->name, write_names(&ops, " or ", text));
    return false;
}

/* What the named cases make of an operation. */
typedef struct op_fate {
    bool known;   /* a case has an operation of this name */
    bool offered; /* … for tables of --type */
    bool runs;    /* … which --sweep does not leave out */
} op_fate;

static op_fate fate_of(const bench_options *options, const char *op)
{
    op_fate fate = {false, false, false};
    for (size_t i = 0; i < options->case_count; i++) {
        const bench_case *named = options->cases[i];
        for (size_t j = 0; op_at(named, j); j++) {
            if (strcmp(op_at(named, j), op) != 0)
                continue;
            fate.known = true;
            fate.offered = fate.offered || !named->op_is_for || named->op_is_for(j, options->type);
            fate.runs = fate.runs || named->op_runs(options, j);
        }
    }
    return fate;
}

static bool check_ops(const bench_options *options, char error[256])
{
    for (size_t i = 0; i < options->op_count; i++) {
        const char *op = options->ops[i];
        const op_fate fate = fate_of(options, op);
        if (fate.runs)
            continue;
        if (!fate.known)
            snprintf(error, 256, "No case that was named has the operation \"%s\".", op);
        else if (!fate.offered)
            snprintf(error, 256, "A %s has no operation \"%s\".", table_type_name(options->type), op);
        else
            snprintf(error, 256, "No figure of --sweep has the operation \"%s\"; leave it out.", op);
        return false;
    }
    return true;
}

/* Refuses an engine that no named case has. */
static bool check_engine(const bench_options *options, char error[256])
{
    names unfit = {.count = 0};
    char text[NAMES_BYTES];
    if (options->engine == LOOM_ENGINE_DEFAULT)
        return true;
    for (size_t i = 0; i < options->case_count; i++) {
        if (bench_case_has_engine(options->cases[i], options->engine))
            return true;
        add_name(&unfit, options->cases[i]->name);
    }
    snprintf(error, 256, "The case%s %s %s no engine %s; choose another one, or leave --engine out.",
             unfit.count > 1 ? "s" : "", write_names(&unfit, " and ", text), unfit.count > 1 ? "have" : "has",
             bench_engine_name(options->engine, options->row_place));
    return false;
}

/* Only GPUs have groups of lanes. */
static bool check_lanes(const bench_options *options, char error[256])
{
    if (options->lanes == 0 || options->machine == LOOM_MACHINE_CUDA)
        return true;
    if (options->machine == LOOM_MACHINE_BEST && loom_machine_present(LOOM_MACHINE_CUDA) == LOOM_OK)
        return true;
    snprintf(error, 256, "The cpu machine does not use --lanes; leave it out.");
    return false;
}

/* A set has no values; other tables have those of --value-bytes. */
static bool settle_value_bytes(bench_options *options, char error[256])
{
    if (options->type == LOOM_TYPE_SET && options->value_bytes > 0) {
        snprintf(error, 256, "A set has no values: leave --value-bytes out.");
        return false;
    }
    if (options->type != LOOM_TYPE_SET && options->value_bytes == 0)
        options->value_bytes = BENCH_DEFAULT_VALUE_BYTES;
    return true;
}

bool bench_options_wants(const bench_options *options, const char *op)
{
    for (size_t i = 0; i < options->op_count; i++) {
        if (strcmp(options->ops[i], op) == 0)
            return true;
    }
    return options->op_count == 0;
}

/* Whether every named case that uses this option has tables of this width. */
static bool check_width(const bench_options *options, uint32_t bit, uint32_t width, char error[256])
{
    names unfit = {.count = 0}, fit = {.count = 0};
    char unfit_text[NAMES_BYTES], fit_text[NAMES_BYTES];
    for (size_t i = 0; i < options->case_count && width != 4 && width != 8; i++)
        if ((usable_by(options->cases[i]) & bit) && !(options->cases[i]->any_width & bit))
            add_name(&unfit, options->cases[i]->name);
    if (unfit.count == 0)
        return true;
    for (size_t i = 0; bench_case_at(i); i++)
        if (bench_case_at(i)->any_width & bit)
            add_name(&fit, bench_case_at(i)->name);
    snprintf(error, 256, "The case%s %s want%s %s 4 or 8; other widths are for %s.", unfit.count > 1 ? "s" : "",
             write_names(&unfit, " and ", unfit_text), unfit.count > 1 ? "" : "s", find_by_bit(bit)->name,
             write_names(&fit, " and ", fit_text));
    return false;
}

/* Keys of 5 to 7 bytes would not tell their index (bench_keys.h). */
static bool check_widths(const bench_options *options, uint32_t given, char error[256])
{
    if (options->key_bytes > 4 && options->key_bytes < 8) {
        snprintf(error, 256, "--key-bytes %u: the keys of the benchmark have 4 bytes, or 8 to 256.",
                 (unsigned)options->key_bytes);
        return false;
    }
    return (!(given & BENCH_USES_KEY_BYTES) || check_width(options, BENCH_USES_KEY_BYTES, options->key_bytes, error)) &&
           (!(given & BENCH_USES_VALUE_BYTES) ||
            check_width(options, BENCH_USES_VALUE_BYTES, options->value_bytes, error));
}

/* Whether the run asks for as many absent keys as there are present ones. Operations of the cases map and perfect that
 * look nothing up have only those of the checks. */
static bool has_many_absent(const bench_options *options)
{
    bool others = options->op_count == 0;
    for (size_t i = 0; i < options->case_count; i++)
        others = others || !(usable_by(options->cases[i]) & BENCH_USES_MORE);
    return others || bench_options_wants(options, "find");
}

/* There are as many absent keys as present ones, or those of the checks. Filters also have those of --absent, churn
 * those that come and go. 4 bytes have 2^32 values; the defaults are far below. */
static bool check_key_bytes(const bench_options *options, char error[256])
{
    const bool churns = options->op_count > 0 && bench_options_wants(options, "churn");
    const uint64_t all = UINT64_C(1) << 32;
    const uint64_t most = churns                     ? all / (BENCH_TURNOVERS + 2)
                          : has_many_absent(options) ? all / 2
                                                     : all - BENCH_ABSENT_CHECKS;
    if (options->key_bytes != 4)
        return true;
    if (options->n + options->absent > UINT64_C(1) << 32) {
        snprintf(error, 256,
                 "--n and --absent above 2^32 together want --key-bytes 8: there are not enough keys of 4.");
        return false;
    }
    if (options->n <= most)
        return true;
    snprintf(error, 256, "--n above %" PRIu64 "%s wants --key-bytes 8: there are not enough different keys of 4 bytes.",
             most, churns ? " with churn" : "");
    return false;
}

/* Only multimaps have keys with several values. The numbers of --skew real are its own. */
static bool check_skew(const bench_options *options, uint32_t given, char error[256])
{
    if (options->skew != BENCH_SKEW_REAL)
        return true;
    for (size_t i = 0; i < options->case_count; i++) {
        if (options->cases[i]->type != LOOM_TYPE_MULTIMAP && (usable_by(options->cases[i]) & BENCH_USES_SKEW)) {
            snprintf(error, 256, "The case %s has no --skew real; give a Zipf exponent.", options->cases[i]->name);
            return false;
        }
    }
    if (given & BENCH_USES_VALUES_PER_KEY)
        snprintf(error, 256, "--skew real has its own numbers of values: leave --values-per-key out.");
    return !(given & BENCH_USES_VALUES_PER_KEY);
}

static bool check_sweep(const bench_options *options, char error[256])
{
    if (!options->sweep || options->n <= BENCH_SWEEP_MOST_KEYS)
        return true;
    snprintf(error, 256, "--sweep wants --n up to 2^31: some of its tables have keys of 4 bytes.");
    return false;
}

bool bench_options_parse(bench_options *options, int argc, char **argv, char error[256])
{
    static const bench_list loads = BENCH_LIST(BENCH_DEFAULT_LOADS), hits = BENCH_LIST(BENCH_DEFAULT_HITS),
                            from = BENCH_LIST(BENCH_DEFAULT_FROM), callers = BENCH_LIST(BENCH_DEFAULT_CALLERS),
                            bits_per_key = BENCH_LIST(BENCH_DEFAULT_BITS_PER_KEY),
                            values_per_key = BENCH_LIST(BENCH_DEFAULT_VALUES_PER_KEY),
                            groups = BENCH_LIST(BENCH_DEFAULT_GROUPS);
    uint32_t given;
    *options = (bench_options){.type = LOOM_TYPE_MAP,
                               .skew = BENCH_DEFAULT_SKEW,
                               .hot = BENCH_DEFAULT_HOT,
                               .more = BENCH_DEFAULT_MORE,
                               .key_bytes = BENCH_DEFAULT_KEY_BYTES,
                               .repeat = BENCH_DEFAULT_REPEAT};
    if (!bench_parse_options(argc, argv, table, sizeof table / sizeof *table, &case_word, options, &given, error))
        return false;
    options->given = given;
    if (options->bytes > 0 && options->bits_per_key.count > 0) {
        snprintf(error, 256, "--bytes and --bits-per-key both tell the size of a filter: give one of them.");
        return false;
    }
    if (options->loads.count == 0)
        options->loads = loads;
    if (options->hits.count == 0)
        options->hits = hits;
    if (options->from.count == 0)
        options->from = from;
    if (options->callers.count == 0)
        options->callers = callers;
    if (options->bits_per_key.count == 0)
        options->bits_per_key = bits_per_key;
    if (options->values_per_key.count == 0)
        options->values_per_key = values_per_key;
    if (options->groups.count == 0)
        options->groups = groups;
    if (options->case_count == 0) {
        size_t used = (size_t)snprintf(error, 256, "Name at least one case:");
        for (size_t i = 0; bench_case_at(i); i++)
            used += (size_t)snprintf(error + used, 256 - used, "%s %s", i ? "," : "", bench_case_at(i)->name);
        snprintf(error + used, 256 - used, ".");
        return false;
    }
    return check_cases_use(options, given, error) && check_ops(options, error) &&
           check_operations_use(options, given, error) && check_engine(options, error) && check_lanes(options, error) &&
           check_sweep(options, error) && check_skew(options, given, error) && check_widths(options, given, error) &&
           settle_value_bytes(options, error) && check_key_bytes(options, error);
}

void bench_options_settle(bench_options *options, uint64_t n, uint64_t absent)
{
    if (options->n == 0)
        options->n = n;
    if (options->queries == 0)
        options->queries = options->n;
    if (options->batch == 0)
        options->batch = options->queries > options->n ? options->queries : options->n;
    if (options->absent == 0)
        options->absent = absent;
}
