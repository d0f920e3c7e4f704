#include "bench_options.h"

#include "bench_axes.h"
#include "bench_case.h"

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
    return take_if(bench_parse_engine(text, &((bench_options *)target)->engine));
}

static bench_taken set_type(void *target, const char *text)
{
    return take_if(bench_parse_type(text, &((bench_options *)target)->type));
}

static bench_taken set_wait(void *target, const char *text)
{
    ((bench_options *)target)->waits_for_last = strcmp(text, "last") == 0;
    return take_if(strcmp(text, "last") == 0 || strcmp(text, "each") == 0);
}

static bench_taken set_concurrent_reads(void *target, const char *text)
{
    ((bench_options *)target)->concurrent_reads = strcmp(text, "yes") == 0;
    return take_if(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0);
}

/* Whether there is such an operation depends on the cases, which may be named later. */
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
    .name = "CASE", .expects = "limits, map, perfect or filter", .kind = BENCH_WORD, .set = add_case};

#define KEY_COUNT_EXAMPLE "2^24, 1M or 16Mi"
#define MOST_KEYS         0x1p40
#define MOST_THREADS      1024   /* of a context */
#define MOST_BYTES        0x1p38 /* a filter has fewer than 2^32 blocks of 64 bytes */

static const uint32_t widths[] = {4, 8}, lanes[] = {0, 1, 2, 4, 8};

#define AT(member)       .offset = offsetof(bench_options, member)
#define RANGE(low, high) .lowest = (low), .highest = (high)
#define CHOICES(numbers) .choices = (numbers), .choice_count = sizeof(numbers) / sizeof *(numbers)

static const bench_option table[] = {
    {"--machine", "best, cpu or cuda", .kind = BENCH_WORD, .set = set_machine},
    {"--engine", "default, open, perfect or bloom", .kind = BENCH_WORD, .set = set_engine},
    {"--type", "map, set or counter", .kind = BENCH_WORD, .set = set_type},
    {"--threads", "a number of threads", .kind = BENCH_COUNT32, AT(threads), RANGE(0, MOST_THREADS)},
    {"--lanes", NULL, .kind = BENCH_CHOICE, AT(lanes), CHOICES(lanes)},
    {"--n", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(n), RANGE(1, MOST_KEYS)},
    {"--queries", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(queries), RANGE(1, MOST_KEYS)},
    {"--absent", "a number of keys", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(absent), RANGE(1, MOST_KEYS)},
    {"--bits-per-key", "numbers of bits", .kind = BENCH_REALS, AT(bits_per_key), RANGE(1, 512)},
    {"--bytes", "a number of bytes", "64Mi", BENCH_COUNT, AT(bytes), RANGE(1, MOST_BYTES)},
    {"--load", "loads", .kind = BENCH_REALS, AT(loads), RANGE(0.001, 0.95)},
    {"--hit", "percentages", .kind = BENCH_REALS, AT(hits), RANGE(0, 100)},
    {"--skew", "a Zipf exponent", .kind = BENCH_REAL, AT(skew), RANGE(0, 100)},
    {"--more", "a share of the keys", .kind = BENCH_REAL, AT(more), RANGE(0.000001, 1)},
    {"--hot", "a share of the keys", .kind = BENCH_REAL, AT(hot), RANGE(0, 1)},
    {"--batch", "a number of keys per call", KEY_COUNT_EXAMPLE, BENCH_COUNT, AT(batch), RANGE(1, MOST_KEYS)},
    {"--wait", "each or last", .kind = BENCH_WORD, .set = set_wait},
    {"--concurrent-reads", "yes or no", .kind = BENCH_WORD, .set = set_concurrent_reads},
    {"--key-bytes", NULL, .kind = BENCH_CHOICE, AT(key_bytes), CHOICES(widths)},
    {"--value-bytes", NULL, .kind = BENCH_CHOICE, AT(value_bytes), CHOICES(widths)},
    {"--ops", "operations parted by commas", .kind = BENCH_WORDS, .set = add_op},
    {"--repeat", "a number", .kind = BENCH_COUNT, AT(repeat), RANGE(1, BENCH_MAX_REPEAT)},
    {"--sweep", NULL, .kind = BENCH_FLAG, AT(sweep)},
    {"--csv", "the name of a file", .kind = BENCH_TEXT, AT(csv_path)},
    {"--json", "the name of a file", .kind = BENCH_TEXT, AT(json_path)},
};

/* Whether a case that was named has the operation; *offered: also for tables of --type. */
static bool any_case_has(const bench_options *options, const char *op, bool *offered)
{
    bool has = false;
    *offered = false;
    for (size_t i = 0; i < options->case_count; i++) {
        const bench_case *named = options->cases[i];
        for (size_t j = 0; named->op_name && named->op_name(j); j++) {
            if (strcmp(named->op_name(j), op) != 0)
                continue;
            has = true;
            *offered = *offered || !named->op_is_for || named->op_is_for(j, options->type);
        }
    }
    return has;
}

static bool check_ops(const bench_options *options, char error[256])
{
    for (size_t i = 0; i < options->op_count; i++) {
        bool offered;
        if (!any_case_has(options, options->ops[i], &offered)) {
            snprintf(error, 256, "No case that was named has the operation \"%s\".", options->ops[i]);
            return false;
        }
        if (!offered) {
            snprintf(error, 256, "A %s has no operation \"%s\".", bench_type_name(options->type), options->ops[i]);
            return false;
        }
    }
    return true;
}

/* A set has no values; others have those of --value-bytes. */
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

/* As many absent keys are made as present ones (for filters as many as --absent says, too), and for churn those that come and go;
 * 4 bytes have 2^32 values, which the defaults are far below. */
static bool check_key_bytes(const bench_options *options, char error[256])
{
    const bool churns = options->op_count > 0 && bench_options_wants(options, "churn");
    const uint64_t most = (UINT64_C(1) << 32) / (churns ? BENCH_TURNOVERS + 2 : 2);
    if (options->key_bytes == 8)
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

static bool check_sweep(const bench_options *options, char error[256])
{
    bool perfect = false;
    for (size_t i = 0; i < options->case_count; i++)
        perfect = perfect || options->cases[i] == &bench_case_perfect;
    if (options->sweep && !perfect)
        snprintf(error, 256, "--sweep is an option of the case perfect, which was not named.");
    else if (options->sweep && options->n > BENCH_SWEEP_MOST_KEYS)
        snprintf(error, 256, "--sweep wants --n up to 2^31: some of its tables have keys of 4 bytes.");
    else
        return true;
    return false;
}

bool bench_options_parse(bench_options *options, int argc, char **argv, char error[256])
{
    static const bench_list loads = BENCH_LIST(BENCH_DEFAULT_LOADS), hits = BENCH_LIST(BENCH_DEFAULT_HITS),
                            bits_per_key = BENCH_LIST(BENCH_DEFAULT_BITS_PER_KEY);
    uint32_t given;
    *options = (bench_options){.type = LOOM_TYPE_MAP,
                               .skew = BENCH_DEFAULT_SKEW,
                               .hot = BENCH_DEFAULT_HOT,
                               .more = BENCH_DEFAULT_MORE,
                               .key_bytes = BENCH_DEFAULT_KEY_BYTES,
                               .repeat = BENCH_DEFAULT_REPEAT};
    if (!bench_parse_options(argc, argv, table, sizeof table / sizeof *table, &case_word, options, &given, error))
        return false;
    if (options->bytes > 0 && options->bits_per_key.count > 0) {
        snprintf(error, 256, "--bytes and --bits-per-key both tell the size of a filter: give one of them.");
        return false;
    }
    if (options->loads.count == 0)
        options->loads = loads;
    if (options->hits.count == 0)
        options->hits = hits;
    if (options->bits_per_key.count == 0)
        options->bits_per_key = bits_per_key;
    if (options->case_count == 0) {
        size_t used = (size_t)snprintf(error, 256, "Name at least one case:");
        for (size_t i = 0; bench_case_at(i); i++)
            used += (size_t)snprintf(error + used, 256 - used, "%s %s", i ? "," : "", bench_case_at(i)->name);
        snprintf(error + used, 256 - used, ".");
        return false;
    }
    if (!check_sweep(options, error) || !check_ops(options, error) || !settle_value_bytes(options, error))
        return false;
    return check_key_bytes(options, error);
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
