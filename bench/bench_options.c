#include "bench_options.h"

#include "bench_axes.h"
#include "bench_case.h"
#include "bench_parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool add_value(double *values, size_t *count, const char *text, double lowest, double highest)
{
    double value;
    if (*count == BENCH_MAX_VALUES || !bench_parse_real(text, &value) || value < lowest || value > highest)
        return false;
    values[(*count)++] = value;
    return true;
}

static bool add_case(void *target, const char *text)
{
    bench_options *options = target;
    const bench_case *named = bench_case_find(text);
    if (!named || options->case_count == BENCH_MAX_VALUES)
        return false;
    options->cases[options->case_count++] = named;
    return true;
}

static bool set_machine(void *target, const char *text)
{
    return bench_parse_machine(text, &((bench_options *)target)->machine);
}

static bool set_engine(void *target, const char *text)
{
    return bench_parse_engine(text, &((bench_options *)target)->engine);
}

static bool set_type(void *target, const char *text)
{
    return bench_parse_type(text, &((bench_options *)target)->type);
}

static bool set_threads(void *target, const char *text)
{
    uint64_t threads;
    if (!bench_parse_count(text, &threads) || threads > 65536)
        return false;
    ((bench_options *)target)->threads = (uint32_t)threads;
    return true;
}

static bool set_lanes(void *target, const char *text)
{
    uint64_t lanes;
    if (!bench_parse_count(text, &lanes) || (lanes != 0 && lanes != 1 && lanes != 2 && lanes != 4 && lanes != 8))
        return false;
    ((bench_options *)target)->lanes = (uint32_t)lanes;
    return true;
}

static bool set_n(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->n) && options->n > 0 && options->n <= UINT64_C(1) << 40;
}

static bool set_queries(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->queries) && options->queries > 0 && options->queries <= UINT64_C(1) << 40;
}

static bool set_absent(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->absent) && options->absent > 0 && options->absent <= UINT64_C(1) << 40;
}

static bool add_bits_per_key(void *target, const char *text)
{
    bench_options *options = target;
    return add_value(options->bits_per_key, &options->bits_per_key_count, text, 1, 512);
}

static bool set_bytes(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->bytes) && options->bytes > 0;
}

static bool set_wait(void *target, const char *text)
{
    ((bench_options *)target)->waits_for_last = strcmp(text, "last") == 0;
    return strcmp(text, "last") == 0 || strcmp(text, "each") == 0;
}

static bool set_concurrent_reads(void *target, const char *text)
{
    ((bench_options *)target)->concurrent_reads = strcmp(text, "yes") == 0;
    return strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
}

static bool add_load(void *target, const char *text)
{
    bench_options *options = target;
    return add_value(options->loads, &options->load_count, text, 0.001, 0.95);
}

static bool add_hit(void *target, const char *text)
{
    bench_options *options = target;
    return add_value(options->hits, &options->hit_count, text, 0, 100);
}

static bool set_skew(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_real(text, &options->skew) && options->skew <= 100;
}

static bool set_more(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_real(text, &options->more) && options->more > 0 && options->more <= 1;
}

static bool set_hot(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_real(text, &options->hot) && options->hot <= 1;
}

static bool set_batch(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->batch) && options->batch > 0;
}

static bool set_width(const char *text, uint32_t *bytes)
{
    uint64_t width;
    if (!bench_parse_count(text, &width) || (width != 4 && width != 8))
        return false;
    *bytes = (uint32_t)width;
    return true;
}

static bool set_key_bytes(void *target, const char *text)
{
    return set_width(text, &((bench_options *)target)->key_bytes);
}

static bool set_value_bytes(void *target, const char *text)
{
    return set_width(text, &((bench_options *)target)->value_bytes);
}

static bool add_op(void *target, const char *text)
{
    bench_options *options = target;
    if (options->op_count == BENCH_MAX_VALUES || !*text || strlen(text) >= sizeof options->ops[0])
        return false;
    strcpy(options->ops[options->op_count++], text);
    return true;
}

static bool set_repeat(void *target, const char *text)
{
    bench_options *options = target;
    return bench_parse_count(text, &options->repeat) && options->repeat > 0 && options->repeat <= BENCH_MAX_REPEAT;
}

static bool set_sweep(void *target, const char *text)
{
    (void)text;
    ((bench_options *)target)->sweep = true;
    return true;
}

static bool set_csv(void *target, const char *text)
{
    ((bench_options *)target)->csv_path = text;
    return *text != 0;
}

static bool set_json(void *target, const char *text)
{
    ((bench_options *)target)->json_path = text;
    return *text != 0;
}

static const bench_option case_word = {"CASE", "limits, map, perfect or filter", false, add_case};

static const bench_option table[] = {
    {"--machine", "best, cpu or cuda", false, set_machine},
    {"--engine", "default, open, perfect or bloom", false, set_engine},
    {"--type", "map, set or counter", false, set_type},
    {"--threads", "a number of threads", false, set_threads},
    {"--lanes", "0, 1, 2, 4 or 8", false, set_lanes},
    {"--n", "a number of keys such as 2^24, 1M or 16Mi", false, set_n},
    {"--queries", "a number of keys such as 2^24, 1M or 16Mi", false, set_queries},
    {"--absent", "a number of keys such as 2^24, 1M or 16Mi", false, set_absent},
    {"--bits-per-key", "numbers of bits from 1 to 512", true, add_bits_per_key},
    {"--bytes", "a number of bytes such as 64Mi", false, set_bytes},
    {"--load", "loads above 0 and up to 0.95", true, add_load},
    {"--hit", "percentages from 0 to 100", true, add_hit},
    {"--skew", "a Zipf exponent, 0 or more", false, set_skew},
    {"--more", "a share above 0, up to 1", false, set_more},
    {"--hot", "a share from 0 to 1", false, set_hot},
    {"--batch", "a number of keys per call", false, set_batch},
    {"--wait", "each or last", false, set_wait},
    {"--concurrent-reads", "yes or no", false, set_concurrent_reads},
    {"--key-bytes", "4 or 8", false, set_key_bytes},
    {"--value-bytes", "4 or 8", false, set_value_bytes},
    {"--ops", "operations parted by commas", true, add_op},
    {"--repeat", "a number from 1 to 1000", false, set_repeat},
    {"--sweep", NULL, false, set_sweep},
    {"--csv", "the name of a file", false, set_csv},
    {"--json", "the name of a file", false, set_json},
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
    static const double loads[] = {BENCH_DEFAULT_LOADS}, hits[] = {BENCH_DEFAULT_HITS},
                        bits_per_key[] = {BENCH_DEFAULT_BITS_PER_KEY};
    *options = (bench_options){.type = LOOM_TYPE_MAP,
                               .skew = BENCH_DEFAULT_SKEW,
                               .hot = BENCH_DEFAULT_HOT,
                               .more = BENCH_DEFAULT_MORE,
                               .key_bytes = BENCH_DEFAULT_KEY_BYTES,
                               .repeat = BENCH_DEFAULT_REPEAT};
    if (!bench_parse_options(argc, argv, table, sizeof table / sizeof *table, &case_word, options, error))
        return false;
    if (options->load_count == 0) {
        memcpy(options->loads, loads, sizeof loads);
        options->load_count = sizeof loads / sizeof *loads;
    }
    if (options->hit_count == 0) {
        memcpy(options->hits, hits, sizeof hits);
        options->hit_count = sizeof hits / sizeof *hits;
    }
    if (options->bytes > 0 && options->bits_per_key_count > 0) {
        snprintf(error, 256, "--bytes and --bits-per-key both tell the size of a filter: give one of them.");
        return false;
    }
    if (options->bits_per_key_count == 0) {
        memcpy(options->bits_per_key, bits_per_key, sizeof bits_per_key);
        options->bits_per_key_count = sizeof bits_per_key / sizeof *bits_per_key;
    }
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
