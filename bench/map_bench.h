/* The internals of the cases `map` and `perfect`: one table at one load (case_map.c), the figures of perfect tables
 * (case_perfect.c), the arrays (map_arrays.c), the operations (map_ops.c), their inputs (map_input.c) and calls
 * (map_calls.c), the bytes that they move (map_bytes.c), operations of many calls (map_churn.c, map_apply.c), keys of one
 * partition (map_refuse.c), and the checks (map_check.c).
 *
 * Indices 0 to n - 1 (bench_keys.h) are the keys that may be in the table; n to 2n - 1 are never in it. Churn
 * (map_churn.c) and `refuse` have further keys. */
#ifndef BENCH_MAP_BENCH_H
#define BENCH_MAP_BENCH_H

#include "bench_case.h"
#include "bench_timer.h"

#include <loom/loom.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum map_contents {
    MAP_HOLDS_OTHER,  /* what an operation left */
    MAP_HOLDS_FRESH,  /* exactly the keys 0 to n - 1, from one build */
    MAP_HOLDS_CHURNED /* the same keys, after others came and went */
} map_contents;

typedef struct map_bench {
    bench_session *session;
    loom_map *map;
    uint64_t n;
    uint64_t slots;
    uint64_t footprint;              /* bytes of the table */
    uint32_t key_bytes, value_bytes; /* value_bytes is 0 in sets, and arrays of values are NULL */
    uint64_t most;                   /* keys that the arrays of the current operation have room for */
    uint64_t batch;                  /* keys per call */
    double max_load;                 /* that tables are made for */
    double from;                     /* this row's --from; NAN: none */
    map_contents holds;
    void *workspace; /* that the first table is lent; NULL: none */
    uint64_t workspace_bytes;

    /* Arrays that no operation of the run needs are NULL. Tables may be so large that the host has no room for all. */
    void *base_keys, *base_values; /* [base_count] all n keys, by index */
    uint64_t base_count;           /* n, or 0 */
    void *half_keys, *half_values; /* [half_count] those of even index */
    uint64_t half_count;
    void *checked_keys; /* [checked] those that a check looks up at once */
    uint64_t checked;
    uint64_t answers; /* keys for whose answers there is room: `most`, or 0 */

    /* The current operation. */
    void *keys, *values; /* [count] of at most `most`: its input */
    uint64_t count;
    uint64_t operations;   /* per repetition; mostly one for each key of the input */
    uint64_t longest_call; /* keys of the longest call, unless --batch is less */
    uint64_t calls;        /* timed ones of this repetition */
    uint8_t *marked;       /* [n] bit r: the index is in the input, with its value of round r */
    uint64_t distinct;     /* how many indices are marked */
    uint64_t inserted;     /* apply_apart: rows of the input that are inserted, which come first */
    uint32_t *times;       /* [n] how often each index is in the input of an accumulation or a count */
    void *found;           /* [most] values of finds; [checked] if no operation has answers */
    uint8_t *status;       /* statuses of finds; as many */

    char trouble[96]; /* what an operation that checks itself found wrong; "": nothing */

    bench_clock clock; /* of this repetition; an operation may stop it during untimed work */

    /* Input and answers in the machine's memory, for timed calls; on the cpu machine they are the arrays above. */
    void *near_keys, *near_values, *near_found, *near_status;
    loom_result *near_results; /* [BENCH_RESULTS] used in turn by calls that are not waited for; otherwise NULL */
} map_bench;

typedef enum map_accesses {
    MAP_ACCESSES_NONE,   /* the operation streams */
    MAP_ACCESSES_BEFORE, /* counted on the table before the operation */
    MAP_ACCESSES_AFTER   /* counted on the table after it */
} map_accesses;

/* The limit that the operation is compared with. */
typedef enum map_limit {
    MAP_LIMIT_NONE,
    MAP_LIMIT_COPY,
    MAP_LIMIT_READS,      /* every access is a random read of 64 bytes */
    MAP_LIMIT_SWAPS,      /* every access is a random compare-and-swap: it leaves a mark in every bucket */
    MAP_LIMIT_HALF_SWAPS, /* half of the accesses are swaps, half reads */
    MAP_LIMIT_LAST_SWAPS  /* the last access of a key is a swap, the others are reads */
} map_limit;

/* Properties of an operation beside its functions. */
typedef enum map_traits {
    MAP_OP_PER_HIT = 1,      /* one row for each --hit */
    MAP_OP_ANSWERS = 2,      /* writes `found`, and perhaps `status`; both are fetched before `check` */
    MAP_OP_WHOLE = 4,        /* one call for all keys, whatever --batch says */
    MAP_OP_SETS = 8,         /* also for sets */
    MAP_OP_IF_ASKED = 16,    /* takes long: only if --ops names it */
    MAP_OP_PLAIN_KEYS = 32,  /* ignores --skew and --hot */
    MAP_OP_AFTER_CHURN = 64, /* needs the table that churn left; comes right after churn */
    MAP_OP_FILLS = 128,      /* inserts keys, and leaves `keys_held` of them in the table unless some were refused */
    MAP_OP_ADDS = 256,       /* inserts into a table that has all the other keys already */
    MAP_OP_PER_FROM = 512,   /* one row for each --from, whose table grows; makes tables of its own, so it comes last */
    MAP_OP_ON_FULL = 1024,   /* begins with a table of all keys: needs the base arrays */
    MAP_OP_ON_HALF = 2048,   /* begins with a table of every second key: needs the half arrays */
    MAP_OP_COUNTS = 4096,    /* needs `times` */
    MAP_OP_STATUSES = 8192,  /* writes statuses that nobody looks at */
    MAP_OP_QUERIES = 16384   /* uses --queries */
} map_traits;

/* One call, with n keys of the input from `at` on. */
typedef loom_status (*map_call)(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);

typedef struct map_op {
    const char *name;
    const char *asked_as; /* in --ops; NULL: its name */
    uint32_t traits;      /* map_traits */
    loom_feature needs;   /* of the engine and the machine; otherwise the operation is left out */
    map_accesses accesses;
    map_limit limit;
    void (*make_input)(map_bench *bench, double hit);
    loom_status (*reset)(map_bench *bench);                           /* before each repetition, outside the timer */
    map_call call;                                                    /* the timed call; NULL: `run` is timed */
    loom_status (*run)(map_bench *bench);                             /* starts and stops the clock itself */
    void (*check)(map_bench *bench, bench_row *row);                  /* after each repetition */
    void (*check_all)(map_bench *bench, bench_row *row);              /* after the last one; may be NULL */
    uint64_t (*keys_held)(const map_bench *bench);                    /* keys in the table, for the load of the row */
    double (*bytes)(const map_bench *bench, double accesses_per_key); /* moved by all keys of the input */
} map_op;

extern const map_op map_ops[]; /* in the order they run, ended by a name of NULL */

/* ---- The case (case_map.c) ---- */

/* Adds the rows that the session's options ask for: each load, operation and hit rate. */
void map_run(bench_session *session);

/* Members of the cases that have these rows. */
const char *map_op_name(size_t index);
bool map_op_is_for(size_t index, loom_type type);
bool map_op_runs(const bench_options *options, size_t index);
uint32_t map_op_uses(size_t index);

enum {
    MAP_USES = BENCH_USES_LIMITS | BENCH_USES_ENGINE | BENCH_USES_TYPE | BENCH_USES_LANES | BENCH_USES_N |
               BENCH_USES_LOAD | BENCH_USES_CONCURRENT_READS | BENCH_USES_WORKSPACE | BENCH_USES_KEY_BYTES |
               BENCH_USES_VALUE_BYTES | BENCH_USES_OPS | BENCH_USES_REPEAT
};

/* Makes the table anew, for `capacity` keys. It grows by the factor `growth`, or not at all: 0. */
loom_status map_make_table(map_bench *bench, uint64_t capacity, double growth);

/* ---- Arrays (map_arrays.c) ---- */

/* Makes all arrays that operations with these traits need, and fills those that do not change. False: no memory; free
 * them all the same. */
bool map_make_arrays(map_bench *bench, uint32_t traits);
void map_free_arrays(map_bench *bench);

/* Copy between host memory and the machine's memory. They do nothing where both are one. */
loom_status map_send_input(map_bench *bench, uint64_t begin, uint64_t end);
loom_status map_send_answers(map_bench *bench);
loom_status map_fetch_answers(map_bench *bench);

/* ---- Inputs (map_input.c) ---- */

/* Replacing values have the rounds 1 to this in turn, so that equal keys come with different values. */
enum { MAP_NEW_ROUNDS = 3 };

void map_make_all(map_bench *bench, double hit);          /* n draws from the keys of the table; values of round 0 */
void map_make_plain(map_bench *bench, double hit);        /* the same without --skew and --hot */
void map_make_counted(map_bench *bench, double hit);      /* as map_make_all, and `times` */
void map_make_half_present(map_bench *bench, double hit); /* as map_make_all; also marks all keys of even index */
void map_make_new_values(map_bench *bench, double hit);   /* as map_make_all with values of later rounds */
void map_make_repeated(map_bench *bench, double hit);     /* each key BENCH_REPEATS times */
void map_make_erased(map_bench *bench, double hit);       /* as map_make_all with fewer draws */
void map_make_expired(map_bench *bench, double hit);      /* as map_make_plain; marks what map_call_erase_if erases */
void map_make_queries(map_bench *bench, double hit);      /* keys alone, `hit` percent of them in the table */

/* ---- Calls (map_calls.c) ---- */

/* Calls with the input from `begin` to `end`, --batch keys at a time, and waits for the last call. */
loom_status map_call_in_batches(map_bench *bench, map_call call, uint64_t begin, uint64_t end);

loom_status map_call_build(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_build_low_memory(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_build_in_order(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_build_with_status(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_insert(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_insert_any_way(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_find_or_insert(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_accumulate(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_grow(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
void map_make_extension(map_bench *bench, double hit);
loom_status map_reset_extension(map_bench *bench);
loom_status map_run_extension(map_bench *bench);
loom_status map_run_extension_by_partition(map_bench *bench);
loom_status map_run_extension_any_way(map_bench *bench);
loom_status map_call_count(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_update(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_overwrite(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_find(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_find_alone(map_bench *bench, uint64_t at, uint64_t n, loom_result *result); /* no statuses */
loom_status map_call_erase(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
loom_status map_call_erase_if(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);

/* The largest value that map_call_erase_if erases: a sixteenth of all values is not above it. */
static inline uint64_t map_expired(uint32_t value_bytes)
{
    return (value_bytes == 4 ? UINT32_MAX : UINT64_MAX) >> 4;
}

/* ---- Bytes (map_bytes.c): moved by all keys of the input ---- */

double map_bytes_of_build(const map_bench *bench, double accesses);
double map_bytes_of_growth(const map_bench *bench, double accesses);
double map_bytes_of_extension(const map_bench *bench, double accesses);
double map_bytes_of_find(const map_bench *bench, double accesses);
double map_bytes_of_insert(const map_bench *bench, double accesses);
double map_bytes_of_find_or_insert(const map_bench *bench, double accesses);
double map_bytes_of_erase(const map_bench *bench, double accesses);
double map_bytes_of_erase_if(const map_bench *bench, double accesses);
double map_bytes_of_churn(const map_bench *bench, double accesses);

/* ---- Churn (map_churn.c) ---- */

void map_make_churn(map_bench *bench, double hit);
loom_status map_reset_churn(map_bench *bench);
loom_status map_run_churn(map_bench *bench);
void map_check_churn(map_bench *bench, bench_row *row);

/* ---- Mixed batches (map_apply.c) ---- */

void map_make_apart(map_bench *bench, double hit);
loom_status map_run_apply(map_bench *bench);
loom_status map_run_apply_in_order(map_bench *bench);
loom_status map_run_apart(map_bench *bench);

/* ---- Keys of one partition (map_refuse.c) ---- */

void map_make_refused(map_bench *bench, double hit);
loom_status map_call_refused(map_bench *bench, uint64_t at, uint64_t n, loom_result *result);
void map_check_refused(map_bench *bench, bench_row *row);
void map_check_all_refused(map_bench *bench, bench_row *row);

/* ---- Checks (map_check.c): errors go to the row ---- */

/* Whether the key of this index may have this status and value. */
typedef bool (*map_wanted)(const map_bench *bench, uint64_t index, uint8_t status, uint64_t value);

/* Writes nonsense to `found` and `status`, so that an answer that is never written cannot pass. */
void map_spoil_answers(map_bench *bench, uint64_t count);

/* Checks `found` and `status` after a find of `count` keys in a table of all n. */
void map_check_found(map_bench *bench, bench_row *row);

/* Checks that the layout is sound. */
void map_check_layout(map_bench *bench, bench_row *row);

/* Checks the number of keys in the table. */
void map_check_size(map_bench *bench, bench_row *row, uint64_t expected);

/* Checks that `found` has the value of every key of the input. */
void map_check_told(map_bench *bench, bench_row *row);

/* Checks that `found` has the value of every key of even index in the input, and nothing else. */
void map_check_applied(map_bench *bench, bench_row *row);

/* Checks that every marked key has a value of one of its marked rounds, and every other key that of round 0. Uses
 * `found` and `status`. */
void map_check_new_values(map_bench *bench, bench_row *row);

/* Checks that every key of the input has its value times its occurrences. Uses `found` and `status`. */
void map_check_sums(map_bench *bench, bench_row *row);

/* Checks that the value of every key of the input is its number of occurrences. Uses `found` and `status`. */
void map_check_counts(map_bench *bench, bench_row *row);

/* Checks that of the keys 0 to n - 1 exactly those with the mark `present_mark` are present, with their values; that
 * absent keys are not; that the layout is sound. Uses `found` and `status`. */
void map_check_contents(map_bench *bench, bench_row *row, uint8_t present_mark);

#endif
