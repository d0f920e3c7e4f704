#include "bench_parse.h"

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

static const struct {
    const char *name;
    loom_engine engine;
} engines[] = {{"default", LOOM_ENGINE_DEFAULT},
               {"open", LOOM_ENGINE_OPEN},
               {"bloom", LOOM_ENGINE_BLOOM},
               {"perfect", LOOM_ENGINE_PERFECT}};

static const struct {
    const char *name;
    loom_type type;
} types[] = {{"map", LOOM_TYPE_MAP}, {"set", LOOM_TYPE_SET}, {"counter", LOOM_TYPE_COUNTER}};

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

bool bench_parse_engine(const char *text, loom_engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        if (strcmp(text, engines[i].name) == 0) {
            *engine = engines[i].engine;
            return true;
        }
    }
    return false;
}

const char *bench_engine_name(loom_engine engine)
{
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        if (engines[i].engine == engine)
            return engines[i].name;
    }
    return "unknown";
}

bool bench_parse_type(const char *text, loom_type *type)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (strcmp(text, types[i].name) == 0) {
            *type = types[i].type;
            return true;
        }
    }
    return false;
}

const char *bench_type_name(loom_type type)
{
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i].type == type)
            return types[i].name;
    }
    return "unknown";
}

static bool set_value(const bench_option *option, void *target, const char *text, char error[256])
{
    if (option->set(target, text))
        return true;
    snprintf(error, 256, "%s wants %s, not \"%.60s\".", option->name, option->expects, text);
    return false;
}

/* One argument may carry several values of a list: "0.5,0.8". */
static bool set_values(const bench_option *option, void *target, const char *text, char error[256])
{
    if (!option->list)
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

bool bench_parse_options(int argc, char **argv, const bench_option *options, size_t option_count,
                         const bench_option *word, void *target, char error[256])
{
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
        const size_t length = strcspn(argument, "=");
        const bench_option *option = NULL;
        for (size_t i = 0; i < option_count; i++) {
            if (strlen(options[i].name) == length && strncmp(argument, options[i].name, length) == 0)
                option = &options[i];
        }
        if (!option) {
            snprintf(error, 256, "There is no option %.*s.", length < 60 ? (int)length : 60, argument);
            return false;
        }
        if (!option->expects) {
            if (argument[length] == '=') {
                snprintf(error, 256, "%s takes no value.", option->name);
                return false;
            }
            if (!option->set(target, ""))
                return false;
            continue;
        }
        const char *value = argument[length] == '=' ? argument + length + 1 : ++at < argc ? argv[at] : NULL;
        if (!value) {
            snprintf(error, 256, "%s wants %s after it.", option->name, option->expects);
            return false;
        }
        if (!set_values(option, target, value, error))
            return false;
        while (option->list && at + 1 < argc && (isdigit((unsigned char)argv[at + 1][0]) || argv[at + 1][0] == '.')) {
            if (!set_values(option, target, argv[++at], error))
                return false;
        }
    }
    return true;
}
