/* Checks of what the operations of the case `map` did and answered. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_threads.h"
#include "map_bench.h"

#include <inttypes.h>
#include <pthread.h>

/* ---- Many answers ------------------------------------------------------------------------------------- */

/* Judges answer number `at`: NULL if it is right, otherwise what is wrong. *index gets the key's index. */
typedef struct judgement judgement;
typedef const char *(*judge_function)(const judgement *all, uint64_t at, uint64_t *index);

struct judgement {
    const map_bench *bench;
    judge_function judge;
    uint64_t first_index; /* index of the first key looked up now, where keys are in index order; otherwise 0 */
    const uint8_t *marks; /* [n] by index: which of them must be present: those with present_mark; NULL: none */
    uint8_t present_mark;
    map_wanted wanted;        /* whether a key may have its status and value */
    const char *what;         /* the error where `wanted` says no */
    pthread_mutex_t lock;     /* guards all below */
    uint64_t wrong, first_at; /* wrong answers, and the first of them */
    const char *first_reason;
    uint64_t first_wrong_index;
};

static void judge_range(void *work, uint64_t begin, uint64_t end)
{
    judgement *all = work;
    uint64_t wrong = 0, first_at = 0, first_index = 0;
    const char *first_reason = NULL;
    for (uint64_t at = begin; at < end; at++) {
        uint64_t index = 0;
        const char *reason = all->judge(all, at, &index);
        if (reason && wrong++ == 0) {
            first_at = all->first_index + at;
            first_reason = reason;
            first_index = index;
        }
    }
    if (wrong == 0)
        return;
    pthread_mutex_lock(&all->lock);
    if (all->wrong == 0 || first_at < all->first_at) {
        all->first_at = first_at;
        all->first_reason = first_reason;
        all->first_wrong_index = first_index;
    }
    all->wrong += wrong;
    pthread_mutex_unlock(&all->lock);
}

static void tell_judgement(const judgement *all, bench_row *row, uint64_t count)
{
    if (all->wrong > 0)
        bench_row_fail(row, "%s (key of index %" PRIu64 "), %" PRIu64 " of %" PRIu64 " answers wrong",
                       all->first_reason, all->first_wrong_index, all->wrong, count);
}

/* Judges answers 0 to count - 1. May be called again with other answers. */
static void judge_some(judgement *all, uint64_t count)
{
    pthread_mutex_init(&all->lock, NULL);
    bench_in_parallel(count, BENCH_GRAIN, judge_range, all);
    pthread_mutex_destroy(&all->lock);
}

static void judge_all(judgement *all, bench_row *row, uint64_t count)
{
    judge_some(all, count);
    tell_judgement(all, row, count);
}

/* ---- One answer --------------------------------------------------------------------------------------- */

static uint64_t index_at(const map_bench *bench, uint64_t at)
{
    return bench_index_of(bench_get(bench->keys, at, bench->key_bytes), bench->key_bytes);
}

static const char *judge_pair(const map_bench *bench, uint64_t at, uint64_t index, bool present)
{
    const uint64_t value = bench_get(bench->found, at, bench->value_bytes);
    if (!present && bench->status[at] != LOOM_NOT_FOUND)
        return "an absent key was found";
    if (!present)
        return value == 0 ? NULL : "an absent key has a value";
    if (bench->status[at] != LOOM_OK)
        return "a key was not found";
    return value == bench_value_of(index, 0, bench->value_bytes) ? NULL : "a key has a wrong value";
}

static const char *judge_found(const judgement *all, uint64_t at, uint64_t *index)
{
    *index = index_at(all->bench, at);
    return judge_pair(all->bench, at, *index, *index < all->bench->n);
}

static const char *judge_in_order(const judgement *all, uint64_t at, uint64_t *index)
{
    *index = all->first_index + at;
    return judge_pair(all->bench, at, *index, all->marks && all->marks[*index] == all->present_mark);
}

static const char *judge_told(const judgement *all, uint64_t at, uint64_t *index)
{
    const map_bench *bench = all->bench;
    *index = index_at(bench, at);
    return bench_get(bench->found, at, bench->value_bytes) == bench_value_of(*index, 0, bench->value_bytes)
               ? NULL
               : "a key was told with a wrong value";
}

/* Answers are spoiled before each repetition. */
static const char *judge_applied(const judgement *all, uint64_t at, uint64_t *index)
{
    const map_bench *bench = all->bench;
    const uint64_t spoiled = bench->value_bytes == 4 ? 0xa5a5a5a5u : 0xa5a5a5a5a5a5a5a5u;
    *index = index_at(bench, at);
    return bench_get(bench->found, at, bench->value_bytes) ==
                   (*index % 2 == 0 ? bench_value_of(*index, 0, bench->value_bytes) : spoiled)
               ? NULL
               : "a row has a wrong answer";
}

static const char *judge_wanted(const judgement *all, uint64_t at, uint64_t *index)
{
    const map_bench *bench = all->bench;
    const uint64_t value = bench_get(bench->found, at, bench->value_bytes);
    *index = all->first_index + at;
    return all->wanted(bench, *index, bench->status[at], value) ? NULL : all->what;
}

/* ---- Checks ------------------------------------------------------------------------------------------- */

void map_spoil_answers(map_bench *bench, uint64_t count)
{
    bench_fill(bench->found, 0xa5, count * bench->value_bytes);
    bench_fill(bench->status, 0xa5, count);
}

void map_check_found(map_bench *bench, bench_row *row)
{
    judgement all = {.bench = bench, .judge = judge_found};
    judge_all(&all, row, bench->count);
}

void map_check_size(map_bench *bench, bench_row *row, uint64_t expected)
{
    uint64_t size = 0;
    if (loom_map_size(bench->map, &size, NULL) != LOOM_OK)
        bench_row_fail(row, "size: %s", loom_last_error());
    else if (size != expected)
        bench_row_fail(row, "the table has %" PRIu64 " keys instead of %" PRIu64, size, expected);
}

static void make_checked(void *work, uint64_t begin, uint64_t end)
{
    const judgement *all = work;
    const map_bench *bench = all->bench;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->checked_keys, i, bench->key_bytes, bench_key_of(all->first_index + i, bench->key_bytes));
}

/* Finds the keys of `count` indices from all->first_index on, and judges the answers. Some keys at a time: a large
 * table has more than the host can hold beside the input. */
static void find_and_judge(map_bench *bench, bench_row *row, uint64_t count, judgement *all)
{
    for (uint64_t done = 0; done < count; done += bench->checked) {
        const uint64_t some = count - done < bench->checked ? count - done : bench->checked;
        bench_in_parallel(some, BENCH_GRAIN, make_checked, all);
        map_spoil_answers(bench, some);
        if (loom_map_find(bench->map, bench->checked_keys, some, bench->found, NULL, bench->status, NULL, NULL) !=
            LOOM_OK) {
            bench_row_fail(row, "find: %s", loom_last_error());
            return;
        }
        judge_some(all, some);
        all->first_index += some;
    }
    tell_judgement(all, row, count);
}

void map_check_layout(map_bench *bench, bench_row *row)
{
    if (loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "verify: %s", loom_last_error());
}

void map_check_told(map_bench *bench, bench_row *row)
{
    judgement all = {.bench = bench, .judge = judge_told};
    judge_all(&all, row, bench->count);
    map_check_size(bench, row, bench->distinct);
}

void map_check_applied(map_bench *bench, bench_row *row)
{
    judgement all = {.bench = bench, .judge = judge_applied};
    judge_all(&all, row, bench->count);
    map_check_size(bench, row, bench->distinct);
}

static void check_wanted(map_bench *bench, bench_row *row, const char *what, map_wanted wanted)
{
    judgement all = {.bench = bench, .judge = judge_wanted, .wanted = wanted, .what = what};
    find_and_judge(bench, row, bench->n, &all);
    map_check_layout(bench, row);
}

static bool has_new_value(const map_bench *bench, uint64_t index, uint8_t status, uint64_t value)
{
    const uint8_t marks = bench->marked[index];
    bool right = marks == 0 && value == bench_value_of(index, 0, bench->value_bytes);
    for (uint32_t round = 1; round <= MAP_NEW_ROUNDS; round++)
        right = right || ((marks >> round & 1) && value == bench_value_of(index, round, bench->value_bytes));
    return status == LOOM_OK && right;
}

void map_check_new_values(map_bench *bench, bench_row *row)
{
    check_wanted(bench, row, "a key has none of the values it was given, or lost one without being asked for",
                 has_new_value);
}

static bool has_sum(const map_bench *bench, uint64_t index, uint8_t status, uint64_t value)
{
    const uint64_t sum = bench->times[index] * bench_value_of(index, 0, bench->value_bytes);
    return status == (bench->times[index] > 0 ? LOOM_OK : LOOM_NOT_FOUND) &&
           value == (bench->value_bytes == 4 ? sum & UINT32_MAX : sum);
}

void map_check_sums(map_bench *bench, bench_row *row)
{
    check_wanted(bench, row, "a sum is wrong", has_sum);
}

static bool has_count(const map_bench *bench, uint64_t index, uint8_t status, uint64_t value)
{
    return status == (bench->times[index] > 0 ? LOOM_OK : LOOM_NOT_FOUND) && value == bench->times[index];
}

void map_check_counts(map_bench *bench, bench_row *row)
{
    check_wanted(bench, row, "a count is wrong", has_count);
}

void map_check_contents(map_bench *bench, bench_row *row, uint8_t present_mark)
{
    judgement base = {.bench = bench, .judge = judge_in_order, .marks = bench->marked, .present_mark = present_mark};
    judgement absent = {.bench = bench, .judge = judge_in_order, .first_index = bench->n};
    find_and_judge(bench, row, bench->n, &base);
    find_and_judge(bench, row, bench->n < BENCH_ABSENT_CHECKS ? bench->n : BENCH_ABSENT_CHECKS, &absent);
    map_check_layout(bench, row);
}
