/* The operations of the case `map`: what each starts from, calls, leaves behind and moves. */
#include "map_bench.h"

/* ---- The state before each repetition ----------------------------------------------------------------- */

static loom_status reset_empty(map_bench *bench)
{
    bench->holds = MAP_HOLDS_OTHER;
    return loom_map_clear(bench->map, NULL, NULL);
}

static loom_status fill(map_bench *bench)
{
    if (bench->holds == MAP_HOLDS_FRESH)
        return LOOM_OK;
    const loom_status status =
        loom_map_build(bench->map, bench->base_keys, bench->base_values, bench->n, LOOM_KEEP, NULL, NULL, NULL);
    bench->holds = status == LOOM_OK ? MAP_HOLDS_FRESH : MAP_HOLDS_OTHER;
    return status;
}

/* For operations that change the table. */
static loom_status reset_filled(map_bench *bench)
{
    const loom_status status = fill(bench);
    bench->holds = MAP_HOLDS_OTHER;
    return status;
}

/* For growth: as the table was made, though it has grown before. */
static loom_status reset_small(map_bench *bench)
{
    loom_status status = loom_map_shrink(bench->map, NULL);
    if (status == LOOM_OK)
        status = loom_map_reserve(bench->map, bench->n, NULL);
    return status == LOOM_OK ? reset_filled(bench) : status;
}

static loom_status reset_growing(map_bench *bench)
{
    return map_make_table(bench, (uint64_t)((double)bench->n * bench->from), 2);
}

static loom_status reset_growing_extension(map_bench *bench)
{
    const loom_status status = reset_growing(bench);
    return status == LOOM_OK ? map_reset_extension(bench) : status;
}

/* Keeps the answers of one repetition from passing for those of the next. */
static loom_status spoil_answers(map_bench *bench)
{
    map_spoil_answers(bench, bench->count);
    return map_send_answers(bench);
}

static loom_status reset_empty_answers(map_bench *bench)
{
    const loom_status status = spoil_answers(bench);
    return status == LOOM_OK ? reset_empty(bench) : status;
}

static loom_status reset_half(map_bench *bench)
{
    const loom_status status = spoil_answers(bench);
    bench->holds = MAP_HOLDS_OTHER;
    return status != LOOM_OK ? status
                             : loom_map_build(bench->map, bench->half_keys, bench->half_values, bench->half_count,
                                              LOOM_KEEP, NULL, NULL, NULL);
}

/* Lookups take a few milliseconds, and the machine was idle while the last answers were checked. It would be slow at
 * first, a GPU and its driver by some 90 µs. Looks up the same keys, without answers. */
static loom_status wake(map_bench *bench)
{
    return loom_map_contains(bench->map, bench->near_keys, bench->count, NULL, NULL, NULL, NULL);
}

/* For lookups in the table that the operation before left, which case_map.c ensures. */
static loom_status reset_churned(map_bench *bench)
{
    const loom_status status = spoil_answers(bench);
    return status == LOOM_OK ? wake(bench) : status;
}

static loom_status reset_answers(map_bench *bench)
{
    const loom_status status = fill(bench);
    return status == LOOM_OK ? reset_churned(bench) : status;
}

/* ---- Checks ------------------------------------------------------------------------------------------- */

static void check_filled(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->distinct);
}

static void check_all_there(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->n);
}

static void check_erased(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->n - bench->distinct);
}

static void check_marked_present(map_bench *bench, bench_row *row)
{
    map_check_contents(bench, row, 1);
}

static void check_marked_absent(map_bench *bench, bench_row *row)
{
    map_check_contents(bench, row, 0);
}

static uint64_t hold_distinct(const map_bench *bench)
{
    return bench->distinct;
}

static uint64_t hold_all(const map_bench *bench)
{
    return bench->n;
}

/* ---- The operations ----------------------------------------------------------------------------------- */

/* `insert` takes the direct way into an empty table: one random access after the other. Its rival is `build`;
 * `build_low_memory`, `build_in_order` and `build_with_status` build in other ways. `find_or_insert` finds half of its
 * keys. `apply`, `apply_in_order` and `apply_apart` insert half of their keys and look up the others (map_apply.c).
 * `accumulate` adds up and `count` counts in an empty table. `update` and `overwrite` (insert with LOOM_OVERWRITE)
 * replace values of present keys. Compare `find_churned` with `find`: the same lookups of the same keys. `erase_if`
 * erases a sixteenth of the pairs, by value; its rate counts all pairs. `grow` moves a full table into one of twice the
 * capacity. `extend` inserts the last keys, as many as --more says, directly, `extend_by_partition` by partition,
 * `insert_more` in the way that the library chooses. `refuse` inserts keys of one partition, which
 * refuses most of them (map_refuse.c). `grow_from` inserts all keys into an empty table that grows, from
 * each first capacity that --from names; in `grow_from_repeats` nine of ten entries repeat a key. `build_from` builds such
 * a table, and `more_from` inserts the last keys, as insert_more does, into one that has the others. */
const map_op map_ops[] = {
    {.name = "build",
     .needs = LOOM_FEATURE_BUILD,
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_FILLS,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_all,
     .reset = reset_empty,
     .call = map_call_build,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_build},
    {.name = "build_low_memory",
     .needs = LOOM_FEATURE_BUILD,
     .asked_as = "build_ways",
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_FILLS,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_all,
     .reset = reset_empty,
     .call = map_call_build_low_memory,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_build},
    {.name = "build_in_order",
     .needs = LOOM_FEATURE_INSERT_IN_ORDER,
     .asked_as = "build_ways",
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_FILLS,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_all,
     .reset = reset_empty,
     .call = map_call_build_in_order,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_build},
    {.name = "build_with_status",
     .needs = LOOM_FEATURE_BUILD,
     .asked_as = "build_ways",
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_FILLS | MAP_OP_STATUSES,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_all,
     .reset = reset_empty,
     .call = map_call_build_with_status,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_build},
    {.name = "insert",
     .needs = LOOM_FEATURE_INSERT,
     .traits = MAP_OP_SETS | MAP_OP_FILLS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_SWAPS,
     .make_input = map_make_all,
     .reset = reset_empty,
     .call = map_call_insert,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_insert},
    {.name = "find_or_insert",
     .needs = LOOM_FEATURE_FIND_OR_INSERT,
     .traits = MAP_OP_ANSWERS | MAP_OP_FILLS | MAP_OP_ON_HALF,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_HALF_SWAPS,
     .make_input = map_make_half_present,
     .reset = reset_half,
     .call = map_call_find_or_insert,
     .check = map_check_told,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_find_or_insert},
    {.name = "apply",
     .needs = LOOM_FEATURE_APPLY,
     .traits = MAP_OP_ANSWERS | MAP_OP_FILLS | MAP_OP_ON_HALF | MAP_OP_IF_ASKED,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_HALF_SWAPS,
     .make_input = map_make_half_present,
     .reset = reset_half,
     .run = map_run_apply,
     .check = map_check_applied,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_find_or_insert},
    {.name = "apply_apart",
     .asked_as = "apply",
     .needs = LOOM_FEATURE_APPLY,
     .traits = MAP_OP_ANSWERS | MAP_OP_FILLS | MAP_OP_ON_HALF | MAP_OP_IF_ASKED,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_HALF_SWAPS,
     .make_input = map_make_apart,
     .reset = reset_half,
     .run = map_run_apart,
     .check = map_check_applied,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_find_or_insert},
    {.name = "apply_in_order",
     .asked_as = "apply",
     .needs = LOOM_FEATURE_APPLY,
     .traits = MAP_OP_ANSWERS | MAP_OP_FILLS | MAP_OP_ON_HALF | MAP_OP_IF_ASKED,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_HALF_SWAPS,
     .make_input = map_make_half_present,
     .reset = reset_half,
     .run = map_run_apply_in_order,
     .check = map_check_applied,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_find_or_insert},
    {.name = "accumulate",
     .needs = LOOM_FEATURE_ACCUMULATE,
     .traits = MAP_OP_FILLS | MAP_OP_COUNTS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_SWAPS,
     .make_input = map_make_counted,
     .reset = reset_empty,
     .call = map_call_accumulate,
     .check = check_filled,
     .check_all = map_check_sums,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_insert},
    {.name = "count",
     .needs = LOOM_FEATURE_ACCUMULATE,
     .traits = MAP_OP_FILLS | MAP_OP_COUNTS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_SWAPS,
     .make_input = map_make_counted,
     .reset = reset_empty,
     .call = map_call_count,
     .check = check_filled,
     .check_all = map_check_counts,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_erase},
    {.name = "update",
     .needs = LOOM_FEATURE_UPDATE,
     .traits = MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_BEFORE,
     .limit = MAP_LIMIT_LAST_SWAPS,
     .make_input = map_make_new_values,
     .reset = reset_filled,
     .call = map_call_update,
     .check = check_all_there,
     .check_all = map_check_new_values,
     .keys_held = hold_all,
     .bytes = map_bytes_of_insert},
    {.name = "overwrite",
     .needs = LOOM_FEATURE_INSERT,
     .traits = MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_BEFORE,
     .limit = MAP_LIMIT_LAST_SWAPS,
     .make_input = map_make_new_values,
     .reset = reset_filled,
     .call = map_call_overwrite,
     .check = check_all_there,
     .check_all = map_check_new_values,
     .keys_held = hold_all,
     .bytes = map_bytes_of_insert},
    {.name = "find",
     .needs = LOOM_FEATURE_FIND,
     .traits = MAP_OP_PER_HIT | MAP_OP_ANSWERS | MAP_OP_SETS | MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_BEFORE,
     .limit = MAP_LIMIT_READS,
     .make_input = map_make_queries,
     .reset = reset_answers,
     .call = map_call_find,
     .check = map_check_found,
     .keys_held = hold_all,
     .bytes = map_bytes_of_find},
    {.name = "erase",
     .needs = LOOM_FEATURE_ERASE,
     .traits = MAP_OP_SETS | MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_BEFORE,
     .limit = MAP_LIMIT_LAST_SWAPS,
     .make_input = map_make_erased,
     .reset = reset_filled,
     .call = map_call_erase,
     .check = check_erased,
     .check_all = check_marked_absent,
     .keys_held = hold_all,
     .bytes = map_bytes_of_erase},
    {.name = "erase_if",
     .needs = LOOM_FEATURE_ERASE_IF,
     .traits = MAP_OP_WHOLE | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_expired,
     .reset = reset_filled,
     .call = map_call_erase_if,
     .check = check_erased,
     .check_all = check_marked_absent,
     .keys_held = hold_all,
     .bytes = map_bytes_of_erase_if},
    {.name = "grow",
     .needs = LOOM_FEATURE_GROW,
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_ON_FULL,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_COPY,
     .make_input = map_make_plain,
     .reset = reset_small,
     .call = map_call_grow,
     .check = check_all_there,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_growth},
    {.name = "extend",
     .needs = LOOM_FEATURE_INSERT,
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_ADDS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_extension,
     .reset = map_reset_extension,
     .run = map_run_extension,
     .check = check_all_there,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_extension},
    {.name = "extend_by_partition",
     .needs = LOOM_FEATURE_INSERT,
     .asked_as = "extend",
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_ADDS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_extension,
     .reset = map_reset_extension,
     .run = map_run_extension_by_partition,
     .check = check_all_there,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_extension},
    {.name = "insert_more",
     .needs = LOOM_FEATURE_INSERT,
     .traits = MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_ADDS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_extension,
     .reset = map_reset_extension,
     .run = map_run_extension_any_way,
     .check = check_all_there,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_extension},
    {.name = "refuse",
     .needs = LOOM_FEATURE_INSERT,
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_ANSWERS | MAP_OP_FILLS |
               MAP_OP_QUERIES,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_refused,
     .reset = reset_empty_answers,
     .call = map_call_refused,
     .check = map_check_refused,
     .check_all = map_check_all_refused,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_insert},
    {.name = "churn",
     .needs = LOOM_FEATURE_ERASE,
     .traits = MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_churn,
     .reset = map_reset_churn,
     .run = map_run_churn,
     .check = map_check_churn,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_churn},
    {.name = "find_churned",
     .needs = LOOM_FEATURE_ERASE,
     .asked_as = "churn",
     .traits = MAP_OP_PER_HIT | MAP_OP_ANSWERS | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_AFTER_CHURN,
     .accesses = MAP_ACCESSES_BEFORE,
     .limit = MAP_LIMIT_READS,
     .make_input = map_make_queries,
     .reset = reset_churned,
     .call = map_call_find,
     .check = map_check_found,
     .keys_held = hold_all,
     .bytes = map_bytes_of_find},
    {.name = "grow_from",
     .needs = LOOM_FEATURE_GROW,
     .traits = MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_PER_FROM,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_plain,
     .reset = reset_growing,
     .call = map_call_insert_any_way,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_insert},
    {.name = "grow_from_repeats",
     .needs = LOOM_FEATURE_GROW,
     .asked_as = "grow_from",
     .traits = MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_PER_FROM,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_repeated,
     .reset = reset_growing,
     .call = map_call_insert_any_way,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_insert},
    {.name = "build_from",
     .needs = LOOM_FEATURE_GROW,
     .traits = MAP_OP_WHOLE | MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_PER_FROM,
     .accesses = MAP_ACCESSES_NONE,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_plain,
     .reset = reset_growing,
     .call = map_call_build,
     .check = check_filled,
     .check_all = check_marked_present,
     .keys_held = hold_distinct,
     .bytes = map_bytes_of_build},
    {.name = "more_from",
     .needs = LOOM_FEATURE_GROW,
     .traits = MAP_OP_SETS | MAP_OP_IF_ASKED | MAP_OP_PLAIN_KEYS | MAP_OP_FILLS | MAP_OP_ADDS | MAP_OP_PER_FROM,
     .accesses = MAP_ACCESSES_AFTER,
     .limit = MAP_LIMIT_NONE,
     .make_input = map_make_extension,
     .reset = reset_growing_extension,
     .run = map_run_extension_any_way,
     .check = check_all_there,
     .check_all = check_marked_present,
     .keys_held = hold_all,
     .bytes = map_bytes_of_extension},
    {0},
};
