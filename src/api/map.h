/* The map behind its handle. */
#ifndef LOOM_API_MAP_H
#define LOOM_API_MAP_H

#include "api/handle.h"

#include <stdatomic.h>

typedef loom_status (*loom__map_work)(loom__table *table, const loom__batch *batch); /* core/table.h */

struct loom_map {
    loom__handle handle;
    /* Copies of constants of the table. Calls check their arguments before they enter the gate, when growth may be
     * rewriting the table. */
    uint32_t key_bytes, value_bytes; /* of rows of a batch: of a reference where they are strings */
    uint32_t variable;               /* LOOM__VARIABLE_… */
    uint64_t most_key_bytes, most_value_bytes;
    loom_type type;
    void *workspace; /* the caller's; NULL: none. It and its bytes change only inside the gate, as a writer */
    uint64_t workspace_bytes;
    double growth;         /* 0: none. Changes only inside the gate, as a writer */
    uint64_t memory_limit; /* of the table, in bytes; 0: none. Changes only inside the gate, as a writer */
    /* A capacity from which the table cannot grow within its limit; UINT64_MAX: none is known. Changes only while a
     * call has the table alone. */
    uint64_t limited_at;
    /* How many keys the table had when a batch that might not have fitted brought no new key; 0: the last one did.
     * Changes likewise. */
    uint64_t calm_at;
    /* For loom_map_activity. Lookups run beside each other and add to the first three; the others change only inside
     * the gate, as a writer. Calls with one key have a counter of their own: an atomic addition takes 7 ns. */
    atomic_uint_least64_t single_calls, calls, keys;
    uint64_t growths, upkeeps;
    double growth_seconds;
    loom_route last_route;
};

/* Makes a map of a table. After a failure the table is destroyed. */
loom_status loom__map_wrap(loom_context *context, loom__table *table, double growth, uint64_t memory_limit,
                           loom_map **map);

/* Every call on a map begins with this check of the handle and the stream. */
loom_status loom__map_check(loom_map *map, loom_stream stream);

/* INVALID_ARGUMENT if values are given to a set. */
loom_status loom__map_check_values(const loom_map *map, const void *values);

/* UNSUPPORTED and a sentence if the map is not a multimap. */
loom_status loom__map_check_has_lists(const loom_map *map);

/* ---- How much memory (map_limit.c) ---- */

#define LOOM__DEFAULT_LOAD 0.8

/* The memory that a table of a complete config would take, its handle included. */
loom_status loom__map_measure(loom_context *context, const loom_map_config *config, loom_memory *memory);

/* If the caller left max_load open, raises it until the table is within its memory limit. OUT_OF_MEMORY and a sentence
 * if no load factor is enough. */
loom_status loom__map_limit_config(loom_context *context, int load_is_open, loom_map_config *config);

/* The next calls are about the map's table with other room. */

/* OUT_OF_MEMORY and a sentence if the table would exceed its limit. */
loom_status loom__map_check_limit(const loom_map *map, loom__room room);

/* Whether the table would take less than now. */
int loom__map_is_smaller(const loom_map *map, loom__room room);

/* Whether an earlier call found that the table cannot grow within its limit. */
int loom__map_is_limited(const loom_map *map);

/* Lowers *capacity to the capacity that the limit allows. OUT_OF_MEMORY and a sentence if that is less than `least`. */
loom_status loom__map_limit_growth(loom_map *map, uint64_t least, uint64_t *capacity);

/* Lowers room->values to `enough` if the limit demands it, or to what the limit allows. */
void loom__map_limit_values(const loom_map *map, uint64_t enough, loom__room *room);

/* ---- How many keys (map_estimate.c) ---- */

/* A number of keys, as estimated: the truth is likely to be neither below `least` nor above `most`. */
typedef struct loom__key_range {
    uint64_t least, most;
} loom__key_range;

/* Both estimate, change nothing but their range, and wait. They may fail for lack of memory.
 *   keys      the distinct keys among n
 *   new_keys  the keys of the batch that the table does not have. It holds `stored` keys. If the number is surely at
 *             most `enough`, the estimate is rough and costs less */
loom_status loom__map_estimate_keys(loom_map *map, const void *keys, uint64_t n, loom__key_range *distinct,
                                    loom_stream stream);
loom_status loom__map_estimate_new_keys(loom_map *map, const loom__batch *batch, uint64_t stored, uint64_t enough,
                                        loom__key_range *new_keys);

/* ---- Byte strings (map_strings.c) ---- */

/* Bytes of a batch that were copied to where the machine reads them. */
typedef struct loom__brought {
    void *memory; /* temporary; NULL: they were not copied */
    uint64_t bytes;
    int failed; /* there was no memory for them */
} loom__brought;

/* So many bytes of a column are copied at once, unless a single string has more: a larger batch goes in parts. */
#define LOOM__BROUGHT_AT_ONCE ((uint64_t)1 << 30)

/* Whether the machine works in host memory; whether it reads this array where it lies. */
int loom__strings_on_host(const loom_map *map);
int loom__strings_reached(const loom_map *map, const void *array);

/* Strings to which lookups and erasures refer at once. */
uint64_t loom__strings_at_once(const loom_map *map);

/* Makes references of strings first .. first + n - 1 of a column: LOOM__VARIABLE_KEYS or _VALUES. *bytes: what the heap
 * needs for those that are not too long. `to` is temporary memory. NULL: the strings are only checked. *brought must be
 * given back, after a failure, too. INVALID_ARGUMENT and a sentence: the offsets do not ascend, or there are no
 * bytes. */
loom_status loom__strings_refer(const loom_map *map, uint32_t column, const loom_strings *given, uint64_t first,
                                uint64_t n, loom__string *to, loom__brought *brought, uint64_t *bytes,
                                loom_stream stream);
void loom__strings_give_back(const loom_map *map, loom__brought *brought, loom_stream stream);

/* Lowers *n to the strings from `first` on that have at most so many bytes, but at least 1, if their bytes must be
 * brought. */
loom_status loom__strings_fit(const loom_map *map, const loom_strings *given, uint64_t first, uint64_t most_bytes,
                              uint64_t *n, loom_stream stream);

/* ---- Batches ---- */

/* Runs a batch of rows, or of references (map_bulk.c), and reports its outcome: in the caller's result if there is one,
 * otherwise as the return value. */
loom_status loom__map_run_rows(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access);

/* What a call without a result returns. `why`: a sentence that follows that of FULL, or "". */
loom_status loom__map_status_of(const loom_map *map, const loom_result *outcome, const char *why);

int loom__map_inserts(loom__access access);

/* Runs a batch of a table with strings, which has keys (map_string_calls.c). */
loom_status loom__map_run_strings(loom_map *map, loom__map_work work, const loom__batch *batch, loom__access access);

/* loom__map_table_retrieve for any columns. Where keys or values are strings, the argument is a loom_strings_out.
 * `whole`: all pairs from the position on are asked for. If their bytes do not fit, the offsets are written, no bytes,
 * and the result is TOO_SMALL. Otherwise as many pairs are written as fit; TOO_SMALL: not even one. */
loom_status loom__map_retrieve(loom_map *map, loom__position *position, void *keys, void *values, uint64_t room,
                               int whole, uint64_t *got, loom_stream stream);

/* ---- Growth (map_grow.c) ---- */

/* OK, or INVALID_ARGUMENT and a sentence. */
loom_status loom__map_check_growth(double growth);

/* Makes the space for values or strings so large, if it is not. */
loom_status loom__map_reserve_room(loom_map *map, uint64_t values, loom_stream stream);

/* Runs a batch of a multimap, and makes room for its values as needed; a batch of any other table it just runs. The
 * caller has the table alone. */
loom_status loom__map_run_with_values(loom_map *map, loom__map_work work, const loom__batch *batch);

/* Runs a batch that may not fit, and grows the table as needed. The caller has the table alone, which holds `stored`
 * keys; a build ignores that number. *outcome is the final outcome of the batch. */
loom_status loom__map_run_growing(loom_map *map, loom__map_work work, uint64_t stored, const loom__batch *batch,
                                  loom_result *outcome);

#endif
