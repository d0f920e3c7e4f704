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

/* The names that bench_parse_engine and bench_parse_type take. */
const char *bench_engine_name(loom_engine engine);
const char *bench_type_name(loom_type type);

typedef struct bench_option {
    const char *name;    /* "--load" */
    const char *expects; /* "a number above 0 and up to 0.95", for the sentence that refuses another; NULL: no value */
    bool list;           /* takes several values, parted by commas or spaces; `set` is called for each */
    bool (*set)(void *target, const char *text);
} bench_option;

/* Reads options and words into `target`. An option's value follows it as the next argument or after '='; lists go on
 * as long as numbers follow. `set` of an option without a value gets "". False: `error` has a sentence.
 *   word     what an argument that belongs to no option is; NULL: there are to be none */
bool bench_parse_options(int argc, char **argv, const bench_option *options, size_t option_count,
                         const bench_option *word, void *target, char error[256]);

#endif
