/* The map behind its handle. */
#ifndef LOOM_API_MAP_H
#define LOOM_API_MAP_H

#include "api/handle.h"

#include <pthread.h>
#include <stdatomic.h>

typedef loom_status (*loom__map_work)(loom__table *table, const loom__batch *batch); /* core/table.h */

struct loom_map {
    loom__handle handle;
    struct loom__durable *durable; /* NULL: the map is not durable. Constant */
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
    /* Tables with rows in host memory. `row_route` changes only inside the gate, as a writer. Lookups that run beside
     * each other write `explained`, with the lock. */
    int has_routes; /* the machine may reach rows in several ways; constant */
    loom_row_route row_route;
    loom_explanation explained;
    pthread_mutex_t explained_lock;
};

/* Makes a map of a table. After a failure the table is destroyed. */
loom_status loom__map_wrap(loom_context *context, loom__table *table, double growth, uint64_t memory_limit,
                           loom_map **map);

/* Copies the caller's config over the defaults in `config`, checks it, and fills in the open fields. */
loom_status loom__map_complete_config(loom_context *context, const loom_map_config *given, loom_map_config *config);

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

/* ---- Byte strings (map_string_parts.c) ---- */

enum { LOOM__MOST_WRITTEN = 3 };

/* An array that a call writes. */
typedef struct loom__written {
    const void *at; /* NULL: none */
    uint64_t bytes;
} loom__written;

/* The strings of a call, and how the call is cut into parts. Set map, n, at_once, written and stream; others are
 * zero. */
typedef struct loom__string_parts {
    const loom_map *map;
    const loom_strings *columns[2]; /* keys and values; NULL: no strings, or none are given */
    uint64_t n;                     /* rows of the call */
    uint64_t at_once;               /* most rows of a part */
    uint64_t most_bytes;            /* of a column that a part brings, unless a single string has more */
    /* Temporary memory for the bytes that a part brings: copies them to where the machine reads them. NULL: no part
     * brings any. */
    unsigned char *room;
    uint64_t room_bytes;
    loom__written written[LOOM__MOST_WRITTEN]; /* no bytes of a string may lie there */
    loom_stream stream;
} loom__string_parts;

/* Whether the machine works in host memory. */
int loom__strings_on_host(const loom_map *map);

/* Strings to which lookups and erasures refer at once. */
uint64_t loom__strings_at_once(const loom_map *map);

/* Takes the room that the largest part needs; if there is no memory for it, parts become smaller. Checks all strings,
 * unless they are referred to at once. Lowers at_once to the rows of the largest part. After a failure there is nothing
 * to give back. INVALID_ARGUMENT and a sentence: offsets do not ascend, there are no bytes, or the call writes
 * there. */
loom_status loom__string_parts_prepare(loom__string_parts *parts, const loom_strings *keys, const loom_strings *values);
void loom__string_parts_give_back(loom__string_parts *parts, loom_context *context);

/* Rows of the part that begins at row `first`. */
loom_status loom__string_part_size(const loom__string_parts *parts, uint64_t first, uint64_t *n);

/* Makes references of strings first .. first + n - 1 of a column, a part or several rows of it. Their bytes go to the
 * room from *room_used on, which rises. `to` is temporary memory. *heap_bytes: what the heap needs for the strings that
 * are not too long. Fails as loom__string_parts_prepare does. */
loom_status loom__string_part_refer(const loom__string_parts *parts, int column, uint64_t first, uint64_t n,
                                    loom__string *to, uint64_t *room_used, uint64_t *heap_bytes);

/* ---- Batches ---- */

/* Runs a batch of rows, or of references (map_bulk.c), and reports its outcome: in the caller's result if there is one,
 * otherwise as the return value. */
loom_status loom__map_run_rows(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access);

/* A call that gives its batch to the table in parts. It enters before the first part and leaves behind the last: other
 * calls, destroying the table included, see it as one. Set the first two members. */
typedef struct loom__parts {
    loom_map *map;
    loom__access access;  /* as of the whole call */
    loom__access entered; /* ALONE if the call may need room: any part may make the table grow */
    int wrote;            /* the table is not as before; it may only have grown */
    int tried;            /* rows that may change the table were given to it */
    loom_route route;     /* of the last part that inserted; NONE: there was none */
} loom__parts;

/* If `begin` fails, there is nothing to end. The `result` of a part lies on the host: a part has ended when `run`
 * returns. After OUT_OF_MEMORY, in tables without strings, no row of the part was stored; but statuses may have been
 * written. `done`: rows of all parts that did not fail. */
loom_status loom__parts_begin(loom__parts *parts, loom_stream stream);
loom_status loom__parts_run(loom__parts *parts, loom__map_work work, loom__batch *batch);
void loom__parts_end(loom__parts *parts, uint64_t done, loom_stream stream);

/* Adds the outcome of a part to that of the whole. */
void loom__add_result(loom_result *sum, const loom_result *part);

/* Counts a call for loom_map_activity. `route`: of insertions; NONE: there was none. Inside the gate. */
void loom__map_note_call(loom_map *map, loom__access access, uint64_t n, loom_route route);

/* Keeps what loom_map_explain tells (map_row_route.c). */
void loom__map_note_explanation(loom_map *map, const loom_explanation *explained);

/* What a call without a result returns. `why`: a sentence that follows that of FULL, or "". */
loom_status loom__map_status_of(loom_type type, const loom_result *outcome, const char *why);

int loom__map_inserts(loom__access access);

/* Runs a batch of a table with strings, which has keys (map_string_calls.c). */
loom_status loom__map_run_strings(loom_map *map, loom__map_work work, const loom__batch *batch, loom__access access);

/* loom__map_table_retrieve for any columns. Where keys or values are strings, the argument is a loom_strings_out.
 * `whole`: all pairs from the position on are asked for. If their bytes do not fit, the offsets are written, no bytes,
 * and the result is TOO_SMALL. Otherwise as many pairs are written as fit; TOO_SMALL: not even one. */
loom_status loom__map_retrieve(loom_map *map, loom__position *position, void *keys, void *values, uint64_t room,
                               int whole, uint64_t *got, loom_stream stream);

/* ---- Durable maps (map_durable.c) ---- */

/* OK if maps of this type, on this machine, may be durable; otherwise UNSUPPORTED and a sentence. */
loom_status loom__map_check_durable(const loom__machine *machine, loom_type type);

/* What a writing call of a durable map has to wait for behind the gate. All zero: nothing. */
typedef struct loom__logged {
    struct loom__durable *durable;
    uint64_t epoch;
    loom_status status; /* of the commit */
} loom__logged;

/* Inside the gate, before the table is changed: OK if it may be. */
loom_status loom__map_check_durable_writes(const loom_map *map);
static inline loom_status loom__map_check_writes(const loom_map *map)
{
    return map->durable == NULL ? LOOM_OK : loom__map_check_durable_writes(map);
}

/* Inside the gate, after the table was changed. They log what changed, and commit it if the map commits by itself. Other
 * maps ignore them.
 *   loom__map_log_batch       `built`: the batch took the place of all contents. `status`: what the table returned. A
 *                             build that failed half-way may have left anything
 *   loom__map_log_operations  a mixed batch, whatever became of it
 *   loom__map_log_erase_if, loom__map_log_clear   `status`: likewise */
void loom__map_log_batch(loom_map *map, int built, loom_status status, const loom__batch *batch, loom__logged *logged);
void loom__map_log_operations(loom_map *map, const uint8_t *operations, const void *keys, uint64_t n,
                              loom_stream stream, loom__logged *logged);
void loom__map_log_erase_if(loom_map *map, loom_status status, loom_number number, const void *least, const void *most,
                            loom__logged *logged);
void loom__map_log_clear(loom_map *map, loom_status status, loom__logged *logged);

/* Behind the gate: waits until the commit is synced. Returns `status`, that of the call, unless the call succeeded and
 * the commit did not. */
loom_status loom__logged_wait(const loom__logged *logged, loom_status status);
static inline loom_status loom__logged_end(const loom__logged *logged, loom_status status)
{
    return logged->durable == NULL && logged->status == LOOM_OK ? status : loom__logged_wait(logged, status);
}

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
