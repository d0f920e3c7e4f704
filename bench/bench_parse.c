#include "bench_parse.h"

#include "table_cases.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    uint64_t factor;
} suffixes[] = {
    {"", 1},
    {"k", 1000},
    {"K", 1000},
    {"M", 1000 * 1000},
    {"G", 1000 * 1000 * 1000},
    {"Ki", UINT64_C(1) << 10},
    {"Mi", UINT64_C(1) << 20},
    {"Gi", UINT64_C(1) << 30},
};

static const struct {
    const char *name;
    loom_machine machine;
} machines[] = {{"best", LOOM_MACHINE_BEST}, {"cpu", LOOM_MACHINE_CPU}, {"cuda", LOOM_MACHINE_CUDA}};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Digits only: strtoull alone would take a sign and spaces. */
static bool read_digits(const char *text, const char **end, uint64_t *value)
{
    char *stop;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *value = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0;
}

bool bench_parse_count(const char *text, uint64_t *value)
{
    const char *end;
    uint64_t number;
    if (!read_digits(text, &end, &number))
        return false;
    if (*end == '^') {
        uint64_t exponent;
        if (number != 2 || !read_digits(end + 1, &end, &exponent) || *end || exponent > 63)
            return false;
        *value = UINT64_C(1) << exponent;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        if (strcmp(end, suffixes[i].text) == 0 && number <= UINT64_MAX / suffixes[i].factor) {
            *value = number * suffixes[i].factor;
            return true;
        }
    }
    return false;
}

bool bench_parse_real(const char *text, double *value)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    *value = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*value);
}

bool bench_parse_machine(const char *text, loom_machine *machine)
{
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        if (strcmp(text, machines[i].name) == 0) {
            *machine = machines[i].machine;
            return true;
        }
    }
    return false;
}

bool bench_parse_engine(const char *text, loom_engine *engine, loom_row_place *place)
{
    const table_case *named = table_case_find(text);
    *engine = named ? named->engine : LOOM_ENGINE_DEFAULT;
    *place = named ? named->row_place : LOOM_ROWS_ON_DEVICE;
    return named || strcmp(text, bench_engine_name(LOOM_ENGINE_DEFAULT, LOOM_ROWS_ON_DEVICE)) == 0;
}

const char *bench_engine_name(loom_engine engine, loom_row_place place)
{
    const table_case *named = table_case_of(engine, place);
    return named ? named->name : engine == LOOM_ENGINE_DEFAULT ? "default" : "unknown";
}

const char *bench_engine_name_at(size_t index)
{
    if (index == 0)
        return bench_engine_name(LOOM_ENGINE_DEFAULT, LOOM_ROWS_ON_DEVICE);
    return table_case_at(index - 1) ? table_case_at(index - 1)->name : NULL;
}

bool bench_parse_type(const char *text, loom_type *type)
{
    for (*type = LOOM_TYPE_MAP; *type <= LOOM_TYPE_COUNTER; (*type)++) {
        if (strcmp(text, table_type_name(*type)) == 0)
            return true;
    }
    return false;
}

/* ---- Options ------------------------------------------------------------------------------------------ */

static bool is_list(const bench_option *option)
{
    return option->kind == BENCH_REALS || option->kind == BENCH_WORDS;
}

/* As people write it: 0.95, 1000, 2^40. Six decimals are enough for tables of options. */
static void write_number(double number, char text[32])
{
    int exponent;
    if (number >= BENCH_ANY_COUNT) {
        snprintf(text, 32, "2^64 - 1");
    } else if (number >= 0x1p20 && frexp(number, &exponent) == 0.5) {
        snprintf(text, 32, "2^%d", exponent - 1);
    } else {
        size_t length = (size_t)snprintf(text, 32, "%.6f", number);
        while (text[length - 1] == '0')
            text[--length] = 0;
        if (text[length - 1] == '.')
            text[length - 1] = 0;
    }
}

/* "a number of keys from 1 to 2^40 such as 2^24, 1M or 16Mi", "4 or 8", "default, open or perfect" */
static void describe(const bench_option *option, char text[160])
{
    size_t used = (size_t)snprintf(text, 160, "%s", option->expects ? option->expects : "");
    for (size_t i = 0; i < option->choice_count; i++) {
        const char *before = i == 0 ? "" : i + 1 < option->choice_count ? ", " : " or ";
        used += (size_t)snprintf(text + used, 160 - used, "%s%u", before, (unsigned)option->choices[i]);
    }
    for (size_t i = 0; option->word_at && option->word_at(i) && used < 160; i++) {
        const char *before = i == 0 ? "" : option->word_at(i + 1) ? ", " : " or ";
        used += (size_t)snprintf(text + used, 160 - used, "%s%s", before, option->word_at(i));
    }
    if (option->highest > 0) {
        char lowest[32], highest[32];
        write_number(option->lowest, lowest);
        write_number(option->highest, highest);
        used += (size_t)snprintf(text + used, 160 - used, " from %s to %s", lowest, highest);
    }
    if (option->or_word)
        used += (size_t)snprintf(text + used, 160 - used, ", or %s", option->or_word);
    if (option->such_as)
        snprintf(text + used, 160 - used, " such as %s", option->such_as);
}

static bool is_in_range(const bench_option *option, double number)
{
    return number >= option->lowest && number <= option->highest;
}

static bool is_choice(const bench_option *option, uint64_t number)
{
    for (size_t i = 0; i < option->choice_count; i++) {
        if (option->choices[i] == number)
            return true;
    }
    return false;
}

static bench_taken take_count(const bench_option *option, void *at, const char *text)
{
    uint64_t count;
    if (!bench_parse_count(text, &count) ||
        !(option->kind == BENCH_CHOICE ? is_choice(option, count) : is_in_range(option, (double)count)))
        return BENCH_WRONG;
    if (option->kind == BENCH_COUNT)
        *(uint64_t *)at = count;
    else
        *(uint32_t *)at = (uint32_t)count;
    return BENCH_TAKEN;
}

static bench_taken take_real(const bench_option *option, void *at, const char *text)
{
    double real;
    if (option->or_word && strcmp(text, option->or_word) == 0)
        real = option->or_number;
    else if (!bench_parse_real(text, &real) || !is_in_range(option, real))
        return BENCH_WRONG;
    if (option->kind == BENCH_REAL) {
        *(double *)at = real;
        return BENCH_TAKEN;
    }
    bench_list *list = at;
    if (list->count == BENCH_MAX_VALUES)
        return BENCH_TOO_MANY;
    list->at[list->count++] = real;
    return BENCH_TAKEN;
}

static bench_taken take_value(const bench_option *option, void *target, const char *text)
{
    void *at = (char *)target + option->offset;
    switch (option->kind) {
    case BENCH_FLAG:
        *(bool *)at = true;
        return BENCH_TAKEN;
    case BENCH_COUNT:
    case BENCH_COUNT32:
    case BENCH_CHOICE:
        return take_count(option, at, text);
    case BENCH_REAL:
    case BENCH_REALS:
        return take_real(option, at, text);
    case BENCH_TEXT:
        *(const char **)at = text;
        return *text ? BENCH_TAKEN : BENCH_WRONG;
    case BENCH_WORD:
    case BENCH_WORDS:
        break;
    }
    return option->set(target, text);
}

static bool set_value(const bench_option *option, void *target, const char *text, char error[256])
{
    char expected[160];
    switch (take_value(option, target, text)) {
    case BENCH_TAKEN:
        return true;
    case BENCH_TOO_MANY:
        snprintf(error, 256, "%s takes at most %d values; leave some out.", option->name, (int)BENCH_MAX_VALUES);
        return false;
    case BENCH_WRONG:
        break;
    }
    describe(option, expected);
    snprintf(error, 256, "%s wants %s, not \"%.60s\".", option->name, expected, text);
    return false;
}

/* One argument may carry several values of a list: "0.5,0.8". */
static bool set_values(const bench_option *option, void *target, const char *text, char error[256])
{
    if (!is_list(option))
        return set_value(option, target, text, error);
    for (;;) {
        char piece[64];
        const size_t length = strcspn(text, ",");
        snprintf(piece, sizeof piece, "%.*s", length < sizeof piece ? (int)length : (int)sizeof piece - 1, text);
        if (!set_value(option, target, piece, error))
            return false;
        if (text[length] == 0)
            return true;
        text += length + 1;
    }
}

/* The option that this argument names; NULL: none. */
static const bench_option *find_option(const char *argument, const bench_option *options, size_t option_count)
{
    const size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < option_count; i++) {
        if (strlen(options[i].name) == length && strncmp(argument, options[i].name, length) == 0)
            return &options[i];
    }
    return NULL;
}

/* Reads the option of argv[at] and its values. Returns the index of the last argument used, or -1. */
static int take_option(const bench_option *option, int argc, char **argv, int at, void *target, char error[256])
{
    const char *equals = strchr(argv[at], '=');
    if (option->kind == BENCH_FLAG) {
        if (equals)
            snprintf(error, 256, "%s takes no value.", option->name);
        return !equals && set_value(option, target, "", error) ? at : -1;
    }
    const char *value = equals ? equals + 1 : ++at < argc ? argv[at] : NULL;
    if (!value) {
        char expected[160];
        describe(option, expected);
        snprintf(error, 256, "%s wants %s after it.", option->name, expected);
        return -1;
    }
    if (!set_values(option, target, value, error))
        return -1;
    while (is_list(option) && at + 1 < argc && (isdigit((unsigned char)argv[at + 1][0]) || argv[at + 1][0] == '.')) {
        if (!set_values(option, target, argv[++at], error))
            return -1;
    }
    return at;
}

bool bench_parse_options(int argc, char **argv, const bench_option *options, size_t option_count,
                         const bench_option *word, void *target, uint32_t *given, char error[256])
{
    *given = 0;
    for (int at = 0; at < argc; at++) {
        const char *argument = argv[at];
        if (argument[0] != '-') {
            if (!word) {
                snprintf(error, 256, "\"%.60s\" is more than this command takes.", argument);
                return false;
            }
            if (!set_value(word, target, argument, error))
                return false;
            continue;
        }
        const bench_option *option = find_option(argument, options, option_count);
        if (!option) {
            const size_t length = strcspn(argument, "=");
            snprintf(error, 256, "There is no option %.*s.", length < 60 ? (int)length : 60, argument);
            return false;
        }
        at = take_option(option, argc, argv, at, target, error);
        if (at < 0)
            return false;
        *given |= option->bit;
    }
    return true;
}
