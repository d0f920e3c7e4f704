/* Command lines: numbers as people write them, names of machines, engines and types, and options from a table. */
#ifndef BENCH_PARSE_H
#define BENCH_PARSE_H

#include <loom/loom.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 4096, 2^24, 16Mi, 1M, 3G. False if the text is no such number or does not fit. */
bool bench_parse_count(const char *text, uint64_t *value);
bool bench_parse_real(const char *text, double *value);
bool bench_parse_machine(const char *text, loom_machine *machine);
bool bench_parse_engine(const char *text, loom_engine *engine, loom_row_place *place);
bool bench_parse_type(const char *text, loom_type *type);

/* The names that bench_parse_engine accepts: those of the list of cases (cases/table_cases.h) and "default". */
/* The name of the case that has this engine, and rows at this place. */
const char *bench_engine_name(loom_engine engine, loom_row_place place);
const char *bench_engine_name_at(size_t index); /* NULL after the last */

/* The numbers given to one option. */
enum { BENCH_MAX_VALUES = 32 };

typedef struct bench_list {
    double at[BENCH_MAX_VALUES];
    size_t count;
} bench_list;

#define BENCH_LIST(...)                                                  \
    {                                                                    \
        {__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
    }

/* What an option takes, and the type of its target. */
typedef enum bench_kind {
    BENCH_FLAG,    /* no value; a bool that becomes true */
    BENCH_COUNT,   /* a number as bench_parse_count reads it; a uint64_t */
    BENCH_COUNT32, /* the same; a uint32_t */
    BENCH_CHOICE,  /* one of a few counts; a uint32_t */
    BENCH_REAL,    /* a number with a fraction; a double */
    BENCH_REALS,   /* several reals, separated by commas or spaces; a bench_list */
    BENCH_TEXT,    /* any text but ""; a const char * into argv */
    BENCH_WORD,    /* a word that `set` accepts */
    BENCH_WORDS    /* several words, separated by commas; `set` is called for each */
} bench_kind;

typedef enum bench_taken { BENCH_TAKEN, BENCH_WRONG, BENCH_TOO_MANY } bench_taken;

/* The check of a value and the sentence that refuses it both come from here. */
typedef struct bench_option {
    const char *name;    /* "--load" */
    const char *expects; /* "a number of keys"; NULL: a flag, or a choice, which shows its numbers */
    const char *such_as; /* "2^24, 1M or 16Mi", if that helps */
    bench_kind kind;
    size_t offset;          /* in the target */
    double lowest, highest; /* of counts and reals */
    const char *or_word;    /* of reals: a word that stands for or_number; NULL: none */
    double or_number;
    const uint32_t *choices; /* [choice_count] */
    size_t choice_count;
    bench_taken (*set)(void *target, const char *text); /* of words */
    const char *(*word_at)(size_t index);               /* the words that `set` accepts; NULL: `expects` names them */
    uint32_t bit;                                       /* set in `given` if the option was there */
} bench_option;

/* Above every count: an option with this as its highest accepts all counts. */
#define BENCH_ANY_COUNT 0x1p64

/* Reads options and words into `target`. An option's value is the next argument or follows '='; a list continues as
 * long as numbers follow. False: `error` has a sentence.
 *   word     describes arguments that belong to no option; NULL: there must be none
 *   given    gets the bits of the options that were there */
bool bench_parse_options(int argc, char **argv, const bench_option *options, size_t option_count,
                         const bench_option *word, void *target, uint32_t *given, char error[256]);

#endif
