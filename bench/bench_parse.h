/* Command lines: numbers as people write them, names of machines, engines and types, and options from a table. */
#ifndef BENCH_PARSE_H
#define BENCH_PARSE_H

#include <loom/loom.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 4096, 2^24, 16Mi, 1M, 3G: false if the text is not such a number or does not fit. */
bool bench_parse_count(const char *text, uint64_t *value);
bool bench_parse_real(const char *text, double *value);
bool bench_parse_machine(const char *text, loom_machine *machine);
bool bench_parse_engine(const char *text, loom_engine *engine);
bool bench_parse_type(const char *text, loom_type *type);

/* The names that bench_parse_engine takes: those of the list of cases (cases/table_cases.h) and "default". */
const char *bench_engine_name(loom_engine engine);
const char *bench_engine_name_at(size_t index); /* NULL after the last */

/* Several numbers that an option was given. */
enum { BENCH_MAX_VALUES = 32 };

typedef struct bench_list {
    double at[BENCH_MAX_VALUES];
    size_t count;
} bench_list;

#define BENCH_LIST(...)                                                  \
    {                                                                    \
        {__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
    }

/* What an option takes, and where it goes. */
typedef enum bench_kind {
    BENCH_FLAG,    /* no value; a bool that becomes true */
    BENCH_COUNT,   /* a number as bench_parse_count reads it; a uint64_t, */
    BENCH_COUNT32, /* … or a uint32_t */
    BENCH_CHOICE,  /* one of a few such numbers; a uint32_t */
    BENCH_REAL,    /* a number with a fraction; a double */
    BENCH_REALS,   /* several of them, parted by commas or spaces; a bench_list */
    BENCH_TEXT,    /* any text but ""; a const char * that points into argv */
    BENCH_WORD,    /* what `set` takes */
    BENCH_WORDS    /* several of them, parted by commas; `set` is called for each */
} bench_kind;

typedef enum bench_taken { BENCH_TAKEN, BENCH_WRONG, BENCH_TOO_MANY } bench_taken;

/* The check of a value and the sentence that refuses it both come from here. */
typedef struct bench_option {
    const char *name;    /* "--load" */
    const char *expects; /* "a number of keys"; NULL: a choice, which is told by its numbers, or a flag */
    const char *such_as; /* "2^24, 1M or 16Mi", if that helps */
    bench_kind kind;
    size_t offset;           /* in the target */
    double lowest, highest;  /* of counts and reals */
    const uint32_t *choices; /* [choice_count] */
    size_t choice_count;
    bench_taken (*set)(void *target, const char *text); /* of words */
    const char *(*word_at)(size_t index);               /* those that `set` takes; NULL: `expects` tells them */
    uint32_t bit;                                       /* which `given` then has */
} bench_option;

/* Above every count: an option whose highest is this takes them all. */
#define BENCH_ANY_COUNT 0x1p64

/* Reads options and words into `target`. An option's value follows it as the next argument or after '='; lists go on
 * as long as numbers follow. False: `error` has a sentence.
 *   word     what an argument that belongs to no option is; NULL: there are to be none
 *   given    gets the bits of the options that were there */
bool bench_parse_options(int argc, char **argv, const bench_option *options, size_t option_count,
                         const bench_option *word, void *target, uint32_t *given, char error[256]);

#endif
