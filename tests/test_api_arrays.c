/* Wrong arguments of the bulk calls: NULL, misaligned, overlapping and impossibly long arrays, unknown flags, streams.
 * A refused call changes nothing: each test ends by checking the table. */
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

/* A table with 50 keys in it, and arrays with room to spare. */
typedef struct arena {
    loom_context *context;
    loom_map *map;
    batch stored;
    uint32_t k, v;    /* widths */
    unsigned char *p; /* 64 KiB, aligned to 64 */
    loom_result result;
} arena;

enum { ARENA_BYTES = 65536, N = 100 };

static arena make_arena(test_run *t)
{
    arena a;
    memset(&a, 0, sizeof a);
    a.context = make_context(t);
    a.map = make_map(t, a.context, 200);
    a.stored = make_batch(t, 50);
    a.k = t->key_bytes;
    a.v = t->value_bytes;
    fill_distinct(&a.stored, 11, 0);
    CHECK_EQ(checked_insert(a.map, &a.stored, LOOM_KEEP).ok, 50);
    void *memory = NULL;
    CHECK_EQ(posix_memalign(&memory, 64, ARENA_BYTES), 0);
    a.p = memory;
    for (int i = 0; i < ARENA_BYTES; i++)
        a.p[i] = (unsigned char)(i * 7);
    return a;
}

static void free_arena(arena *a)
{
    check_contents(a->map, &a->stored);
    for (int i = 0; i < ARENA_BYTES; i++)
        CHECK_EQ(a->p[i], (unsigned char)(i * 7)); /* refused calls write nothing */
    loom_map_destroy(a->map);
    loom_context_destroy(a->context);
    free_batch(&a->stored);
    free(a->p);
}

#define INVALID(call) CHECK_REFUSED(call, LOOM_INVALID_ARGUMENT)

TEST_EACH(test_open_bulk_null_arrays)
{
    arena a = make_arena(t);
    void *x = a.p, *y = a.p + 8192;
    uint64_t number = 0;
    INVALID(loom_map_insert(a.map, NULL, y, N, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_insert(a.map, x, NULL, N, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_insert(a.map, NULL, NULL, 1, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, NULL, NULL));
    INVALID(loom_map_find_or_insert(a.map, NULL, y, N, NULL, NULL, NULL, NULL));
    INVALID(loom_map_find_or_insert(a.map, x, NULL, N, NULL, NULL, NULL, NULL));
    INVALID(loom_map_update(a.map, NULL, y, N, NULL, NULL, NULL));
    INVALID(loom_map_update(a.map, x, NULL, N, NULL, NULL, NULL));
    loom_number number_type = t->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64;
    INVALID(loom_map_accumulate(a.map, NULL, y, N, LOOM_COMBINE_ADD, number_type, NULL, NULL, NULL));
    INVALID(loom_map_accumulate(a.map, x, NULL, N, LOOM_COMBINE_ADD, number_type, NULL, NULL, NULL));
    INVALID(loom_map_count(a.map, NULL, N, NULL, NULL, NULL));
    INVALID(loom_map_build(a.map, NULL, y, N, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_build(a.map, x, NULL, N, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_find(a.map, NULL, N, y, NULL, NULL, NULL, NULL));
    INVALID(loom_map_find(a.map, x, N, NULL, NULL, NULL, NULL, NULL));
    INVALID(loom_map_contains(a.map, NULL, N, a.p, NULL, NULL, NULL));
    INVALID(loom_map_erase(a.map, NULL, N, NULL, NULL, NULL));
    INVALID(loom_map_count_accesses(a.map, NULL, N, &number, NULL));
    INVALID(loom_map_count_accesses(a.map, x, N, NULL, NULL));
    INVALID(loom_map_retrieve_all(a.map, NULL, y, N, &number, NULL, NULL));
    INVALID(loom_map_retrieve_all(a.map, x, y, N, NULL, NULL, NULL));
    INVALID(loom_map_size(a.map, NULL, NULL));
    INVALID(loom_map_clone(a.map, NULL, NULL));
    INVALID(loom_map_for_each(a.map, NULL, &number, NULL, NULL));
    INVALID(loom_map_cursor_open(a.map, NULL, &number, NULL));
    loom_cursor *cursor = NULL;
    CHECK_OK(loom_map_cursor_open(a.map, &cursor, NULL, NULL)); /* count is optional */
    INVALID(loom_cursor_next(cursor, NULL, y, N, &number, NULL));
    INVALID(loom_cursor_next(cursor, x, y, N, NULL, NULL));
    INVALID(loom_cursor_next(cursor, x, y, 0, &number, NULL));
    loom_cursor_close(cursor);
    loom_cursor_close(NULL);
    free_arena(&a);
}

/* A call with wrong arguments reports them by its return value and does not write the result. */
TEST_EACH(test_open_bulk_null_arrays_with_result)
{
    arena a = make_arena(t);
    uint8_t *status = a.p + 16384;
    INVALID(loom_map_insert(a.map, NULL, a.p, N, LOOM_KEEP, status, &a.result, NULL));
    INVALID(loom_map_build(a.map, a.p, NULL, N, LOOM_KEEP, status, &a.result, NULL));
    INVALID(loom_map_find(a.map, NULL, N, a.p, NULL, status, &a.result, NULL));
    INVALID(loom_map_contains(a.map, NULL, N, a.p, status, &a.result, NULL));
    INVALID(loom_map_erase(a.map, NULL, N, status, &a.result, NULL));
    INVALID(loom_map_apply(a.map, status, NULL, a.p, N, 0, NULL, NULL, &a.result, NULL));
    INVALID(loom_map_count(a.map, NULL, N, status, &a.result, NULL));
    free_arena(&a);
}

static int never_called(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)user, (void)keys, (void)values, (void)n;
    FAIL("a call that is refused visits nothing");
}

TEST(test_open_bulk_null_handle)
{
    uint64_t x[4] = {0, 0, 0, 0}, y[4], number = 0;
    uint8_t status[4];
    loom_map *clone = NULL;
    loom_cursor *cursor = NULL;
    loom_stats stats = LOOM_STATS_INIT;
    INVALID(loom_map_insert(NULL, x, y, 4, LOOM_KEEP, status, NULL, NULL));
    INVALID(loom_map_build(NULL, x, y, 4, LOOM_KEEP, status, NULL, NULL));
    INVALID(loom_map_find(NULL, x, 4, y, NULL, status, NULL, NULL));
    INVALID(loom_map_contains(NULL, x, 4, NULL, status, NULL, NULL));
    INVALID(loom_map_find_or_insert(NULL, x, y, 4, NULL, status, NULL, NULL));
    INVALID(loom_map_update(NULL, x, y, 4, status, NULL, NULL));
    INVALID(loom_map_accumulate(NULL, x, y, 4, LOOM_COMBINE_ADD, LOOM_NUMBER_U64, status, NULL, NULL));
    INVALID(loom_map_apply(NULL, status, x, y, 4, 0, NULL, NULL, NULL, NULL));
    INVALID(loom_map_count(NULL, x, 4, status, NULL, NULL));
    INVALID(loom_map_count(NULL, NULL, 0, NULL, NULL, NULL));
    INVALID(loom_map_for_each(NULL, never_called, NULL, NULL, NULL));
    INVALID(loom_map_erase(NULL, x, 4, status, NULL, NULL));
    INVALID(loom_map_insert(NULL, x, y, 0, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_size(NULL, &number, NULL));
    INVALID(loom_map_clear(NULL, NULL, NULL));
    INVALID(loom_map_erase_if(NULL, LOOM_NUMBER_U32, NULL, NULL, NULL, NULL));
    INVALID(loom_map_clone(NULL, &clone, NULL));
    INVALID(loom_map_retrieve_all(NULL, x, y, 4, &number, NULL, NULL));
    INVALID(loom_map_cursor_open(NULL, &cursor, &number, NULL));
    INVALID(loom_cursor_next(NULL, x, y, 4, &number, NULL));
    INVALID(loom_map_save(NULL, test_path(t, "x"), NULL));
    INVALID(loom_map_load(NULL, test_path(t, "x"), &clone, NULL));
    INVALID(loom_map_stats(NULL, &stats, NULL));
    INVALID(loom_map_verify(NULL, NULL));
    INVALID(loom_map_count_accesses(NULL, x, 4, &number, NULL));
    CHECK(clone == NULL && cursor == NULL);
}

TEST_EACH(test_open_bulk_no_keys)
{
    arena a = make_arena(t);
    uint64_t number = 99;
    CHECK_OK(loom_map_insert(a.map, NULL, NULL, 0, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_insert(a.map, NULL, NULL, 0, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, NULL, NULL));
    CHECK_OK(loom_map_find(a.map, NULL, 0, NULL, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_contains(a.map, NULL, 0, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase(a.map, NULL, 0, NULL, NULL, NULL));
    CHECK_OK(loom_map_count(a.map, NULL, 0, NULL, NULL, NULL));
    CHECK_OK(loom_map_apply(a.map, NULL, NULL, NULL, 0, LOOM_IN_ORDER, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_count_accesses(a.map, NULL, 0, &number, NULL));
    CHECK_EQ(number, 0);
    batch none = make_batch(t, 0);
    CHECK_EQ(checked_insert(a.map, &none, LOOM_KEEP).keys, 0);
    CHECK_EQ(checked_insert(a.map, &none, LOOM_KEEP | LOOM_IN_ORDER).keys, 0);
    CHECK_EQ(checked_find(a.map, &none).keys, 0);
    CHECK_EQ(checked_contains(a.map, &none).keys, 0);
    CHECK_EQ(checked_erase(a.map, &none).keys, 0);
    CHECK_EQ(checked_count(a.map, &none).keys, 0);
    check_contents(a.map, &a.stored);
    /* A build of nothing replaces the contents by nothing. */
    CHECK_EQ(checked_build(a.map, &none, LOOM_KEEP).keys, 0);
    CHECK_EQ(map_size(a.map), 0);
    CHECK_OK(loom_map_build(a.map, NULL, NULL, 0, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, NULL, NULL));
    check_none_found(a.map, &a.stored);
    checked_verify(a.map);
    checked_insert(a.map, &a.stored, LOOM_KEEP);
    free_batch(&none);
    free_arena(&a);
}

TEST_EACH(test_open_bulk_misaligned_arrays)
{
    arena a = make_arena(t);
    uint64_t number = 0;
    loom_cursor *cursor = NULL;
    CHECK_OK(loom_map_cursor_open(a.map, &cursor, NULL, NULL));
    for (uint32_t off = 1; off < 8; off++) {
        void *x = a.p + off, *y = a.p + 8192, *good = a.p + 16384;
        test_note("%u bytes off", off);
        if (off % a.k) {
            INVALID(loom_map_insert(a.map, x, y, N, LOOM_KEEP, NULL, NULL, NULL));
            INVALID(loom_map_build(a.map, x, y, N, LOOM_KEEP, NULL, NULL, NULL));
            INVALID(loom_map_find(a.map, x, N, y, NULL, NULL, NULL, NULL));
            INVALID(loom_map_contains(a.map, x, N, NULL, NULL, NULL, NULL));
            INVALID(loom_map_find_or_insert(a.map, x, y, N, NULL, NULL, NULL, NULL));
            INVALID(loom_map_update(a.map, x, y, N, NULL, NULL, NULL));
            INVALID(loom_map_erase(a.map, x, N, NULL, NULL, NULL));
            INVALID(loom_map_count(a.map, x, N, NULL, NULL, NULL));
            INVALID(loom_map_apply(a.map, good, x, y, N, 0, NULL, NULL, NULL, NULL));
            INVALID(loom_map_count_accesses(a.map, x, N, &number, NULL));
            INVALID(loom_map_retrieve_all(a.map, x, y, N, &number, NULL, NULL));
            INVALID(loom_cursor_next(cursor, x, y, N, &number, NULL));
        }
        y = a.p + 8192 + off;
        if (off % a.v) {
            INVALID(loom_map_find_or_insert(a.map, good, y, N, NULL, NULL, NULL, NULL));
            INVALID(loom_map_find_or_insert(a.map, good, a.p, N, y, NULL, NULL, NULL));
            INVALID(loom_map_update(a.map, good, y, N, NULL, NULL, NULL));
            INVALID(loom_map_insert(a.map, good, y, N, LOOM_KEEP, NULL, NULL, NULL));
            INVALID(loom_map_build(a.map, good, y, N, LOOM_KEEP, NULL, NULL, NULL));
            INVALID(loom_map_find(a.map, good, N, y, NULL, NULL, NULL, NULL));
            INVALID(loom_map_retrieve_all(a.map, good, y, N, &number, NULL, NULL));
            INVALID(loom_cursor_next(cursor, good, y, N, &number, NULL));
        }
        if (off % 4) /* numbers may be narrower than values */
            INVALID(loom_map_accumulate(a.map, good, y, N, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, NULL, NULL, NULL));
    }
    loom_cursor_close(cursor);
    free_arena(&a);
}

/* Every way in which two ranges can overlap: same start, either range first, one byte, one range inside the other. The
 * second range moves around the first. Where they do not touch, the call must succeed. */
typedef int (*overlap_call)(arena *a, void *first, void *second);

static void check_overlaps(arena *a, overlap_call call, uint64_t first_bytes, uint64_t second_bytes, uint32_t step)
{
    unsigned char *first = a->p + 16384;
    for (int64_t offset = -(int64_t)second_bytes - (int64_t)step; offset <= (int64_t)(first_bytes + step);
         offset += step) {
        int overlaps = offset > -(int64_t)second_bytes && offset < (int64_t)first_bytes;
        if (!overlaps) /* a legal call, which other tests cover */
            continue;
        test_note("second array %lld bytes behind the first", (long long)offset);
        test_poison_last_error();
        loom_status got = (loom_status)call(a, first, first + offset);
        test_check_refused(__FILE__, __LINE__, "overlapping arrays", got, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    }
}

static int find_keys_values(arena *a, void *keys, void *values)
{
    return (int)loom_map_find(a->map, keys, N, values, NULL, NULL, NULL, NULL);
}

static int find_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_find(a->map, keys, N, a->p + 32768, NULL, status, NULL, NULL);
}

static int find_values_status(arena *a, void *values, void *status)
{
    return (int)loom_map_find(a->map, a->p + 32768, N, values, NULL, status, NULL, NULL);
}

static int contains_keys_found(arena *a, void *keys, void *found)
{
    return (int)loom_map_contains(a->map, keys, N, found, NULL, NULL, NULL);
}

static int contains_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_contains(a->map, keys, N, NULL, status, NULL, NULL);
}

static int contains_found_status(arena *a, void *found, void *status)
{
    return (int)loom_map_contains(a->map, a->p + 32768, N, found, status, NULL, NULL);
}

static int erase_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_erase(a->map, keys, N, status, NULL, NULL);
}

static int insert_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_insert(a->map, keys, a->p + 32768, N, LOOM_KEEP, status, NULL, NULL);
}

static int insert_values_status(arena *a, void *values, void *status)
{
    return (int)loom_map_insert(a->map, a->p + 32768, values, N, LOOM_KEEP, status, NULL, NULL);
}

static int build_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_build(a->map, keys, a->p + 32768, N, LOOM_KEEP, status, NULL, NULL);
}

static int build_values_status(arena *a, void *values, void *status)
{
    return (int)loom_map_build(a->map, a->p + 32768, values, N, LOOM_KEEP, status, NULL, NULL);
}

static int retrieve_keys_values(arena *a, void *keys, void *values)
{
    uint64_t count;
    return (int)loom_map_retrieve_all(a->map, keys, values, N, &count, NULL, NULL);
}

static int cursor_keys_values(arena *a, void *keys, void *values)
{
    uint64_t got;
    loom_cursor *cursor = NULL;
    CHECK_OK(loom_map_cursor_open(a->map, &cursor, NULL, NULL));
    loom_status status = loom_cursor_next(cursor, keys, values, N, &got, NULL);
    loom_cursor_close(cursor);
    return (int)status;
}

static int fetch_keys_found(arena *a, void *keys, void *found)
{
    return (int)loom_map_find_or_insert(a->map, keys, a->p + 16384, N, found, NULL, NULL, NULL);
}

static int fetch_values_found(arena *a, void *values, void *found)
{
    return (int)loom_map_find_or_insert(a->map, a->p + 16384, values, N, found, NULL, NULL, NULL);
}

static int fetch_found_status(arena *a, void *found, void *status)
{
    return (int)loom_map_find_or_insert(a->map, a->p + 16384, a->p + 20480, N, found, status, NULL, NULL);
}

static int update_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_update(a->map, keys, a->p + 16384, N, status, NULL, NULL);
}

static int count_keys_status(arena *a, void *keys, void *status)
{
    return (int)loom_map_count(a->map, keys, N, status, NULL, NULL);
}

static int accumulate_values_status(arena *a, void *values, void *status)
{
    return (int)loom_map_accumulate(a->map, a->p + 16384, values, N, LOOM_COMBINE_ADD,
                                    a->v == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, status, NULL, NULL);
}

static int accumulate_narrow_status(arena *a, void *values, void *status)
{
    return (int)loom_map_accumulate(a->map, a->p + 32768, values, N, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, status, NULL,
                                    NULL);
}

TEST_EACH(test_open_bulk_overlapping_arrays)
{
    arena a = make_arena(t);
    uint64_t keys = N * a.k, values = N * a.v, bytes = N;
    check_overlaps(&a, find_keys_values, keys, values, a.v);
    check_overlaps(&a, fetch_keys_found, keys, values, a.v);
    check_overlaps(&a, fetch_values_found, values, values, a.v);
    check_overlaps(&a, fetch_found_status, values, N, 1);
    check_overlaps(&a, update_keys_status, keys, N, 1);
    check_overlaps(&a, accumulate_values_status, values, N, 1);
    check_overlaps(&a, accumulate_narrow_status, N * 4, N, 1);
    check_overlaps(&a, count_keys_status, keys, N, 1);
    check_overlaps(&a, find_keys_status, keys, bytes, 1);
    check_overlaps(&a, find_values_status, values, bytes, 1);
    check_overlaps(&a, contains_keys_found, keys, bytes, 1);
    check_overlaps(&a, contains_keys_status, keys, bytes, 1);
    check_overlaps(&a, contains_found_status, bytes, bytes, 1);
    check_overlaps(&a, erase_keys_status, keys, bytes, 1);
    check_overlaps(&a, insert_keys_status, keys, bytes, 1);
    check_overlaps(&a, insert_values_status, values, bytes, 1);
    check_overlaps(&a, build_keys_status, keys, bytes, 1);
    check_overlaps(&a, build_values_status, values, bytes, 1);
    check_overlaps(&a, retrieve_keys_values, keys, values, a.v);
    check_overlaps(&a, cursor_keys_values, keys, values, a.v);
    free_arena(&a);
}

/* Arrays that only touch do not overlap. Two input arrays may share their memory. */
TEST_EACH(test_open_bulk_touching_arrays)
{
    arena a = make_arena(t);
    unsigned char *room = test_allocate(N * 8 * 4);
    batch all = make_batch(t, N), inputs = make_batch(t, N);
    fill_distinct(&all, 4711, 0);
    memcpy(room, all.keys, N * a.k);
    unsigned char *keys = room, *values = keys + N * 8, *status = values + N * a.v;
    memcpy(values, all.values, N * a.v);
    CHECK_OK(loom_map_insert(a.map, keys, values, N, LOOM_KEEP, status, NULL, NULL));
    memset(values, 0, N * a.v);
    CHECK_OK(loom_map_find(a.map, keys, N, values, NULL, status, NULL, NULL));
    CHECK_BYTES(values, all.values, N * a.v);
    CHECK_OK(loom_map_contains(a.map, keys, N, values, values + N, NULL, NULL));
    CHECK_OK(loom_map_erase(a.map, keys, N, keys + N * a.k, NULL, NULL));
    /* numbers of 4 bytes, aligned to 4, for values of any width */
    CHECK_OK(loom_map_accumulate(a.map, keys, values + 4, N, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, values + 4 + N * 4,
                                 NULL, NULL));
    CHECK_OK(loom_map_erase(a.map, keys, N, NULL, NULL, NULL));
    /* keys and values are both inputs of insert */
    memcpy(inputs.keys, all.keys, N * a.k);
    if (a.k == a.v) {
        CHECK_OK(loom_map_insert(a.map, inputs.keys, inputs.keys, N, LOOM_KEEP, NULL, NULL, NULL));
        memcpy(inputs.values, inputs.keys, N * a.v);
        check_all_found(a.map, &inputs);
        CHECK_EQ(checked_erase(a.map, &inputs).ok, N);
    }
    free(room);
    free_batch(&all);
    free_batch(&inputs);
    free_arena(&a);
}

/* Counts whose bytes do not fit 63 bits, or run past the end of the address space: the call is refused before it reads
 * anything. */
TEST_EACH(test_open_bulk_impossible_counts)
{
    arena a = make_arena(t);
    /* The last one is too many for 8-byte keys only. */
    static const uint64_t counts[] = {
        UINT64_MAX,        UINT64_MAX - 7,          UINT64_C(1) << 63,       (UINT64_C(1) << 62) + 1,
        UINT64_C(1) << 62, (UINT64_C(1) << 62) - 1, (UINT64_C(1) << 61) + 1, UINT64_C(1) << 60};
    size_t count = sizeof counts / sizeof counts[0] - (a.k == 4 ? 1 : 0);
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t n = counts[i];
        void *x = a.p, *y = a.p + 8192;
        uint8_t *s = a.p + 16384;
        test_note("n = 0x%llx", (unsigned long long)n);
        INVALID(loom_map_insert(a.map, x, y, n, LOOM_KEEP, s, NULL, NULL));
        INVALID(loom_map_insert(a.map, x, y, n, LOOM_KEEP, NULL, &a.result, NULL));
        INVALID(loom_map_insert(a.map, x, y, n, LOOM_KEEP | LOOM_IN_ORDER, NULL, NULL, NULL));
        INVALID(loom_map_build(a.map, x, y, n, LOOM_KEEP, s, NULL, NULL));
        INVALID(loom_map_find(a.map, x, n, y, NULL, s, NULL, NULL));
        INVALID(loom_map_contains(a.map, x, n, s, NULL, NULL, NULL));
        INVALID(loom_map_erase(a.map, x, n, s, NULL, NULL));
        INVALID(loom_map_count(a.map, x, n, s, NULL, NULL));
        INVALID(loom_map_count_accesses(a.map, x, n, &number, NULL));
        INVALID(loom_map_insert(a.map, NULL, NULL, n, LOOM_KEEP, NULL, NULL, NULL));
        INVALID(loom_map_find(a.map, NULL, n, NULL, NULL, NULL, NULL, NULL));
        INVALID(loom_map_erase(a.map, NULL, n, NULL, NULL, NULL));
    }
    INVALID(loom_map_find(a.map, NULL, (UINT64_C(1) << 32) + 1, NULL, NULL, NULL, NULL, NULL));
    INVALID(loom_map_find(a.map, NULL, UINT64_C(1) << 31, NULL, NULL, NULL, NULL, NULL));
    free_arena(&a);
}

TEST_EACH(test_open_bulk_unknown_flags)
{
    arena a = make_arena(t);
    static const uint32_t flags[] = {
        32, 33, 64, 0x80000000u, UINT32_MAX, LOOM_DIRECTLY | LOOM_BY_PARTITION, LOOM_DIRECTLY | LOOM_IN_ORDER};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        test_note("flags 0x%x", flags[i]);
        INVALID(loom_map_insert(a.map, a.p, a.p + 8192, N, flags[i], NULL, NULL, NULL));
        INVALID(loom_map_build(a.map, a.p, a.p + 8192, N, flags[i], NULL, NULL, NULL));
        INVALID(loom_map_insert(a.map, NULL, NULL, 0, flags[i], NULL, NULL, NULL));
    }
    free_arena(&a);
}

TEST_EACH(test_open_bulk_stream_on_cpu, .cpu_only = 1)
{
    arena a = make_arena(t);
    loom_stream stream = &a;
    loom_map *other = NULL;
    loom_cursor *cursor = NULL;
    loom_stats stats = LOOM_STATS_INIT;
    uint64_t number = 0;
    void *x = a.p, *y = a.p + 8192;
    INVALID(loom_map_insert(a.map, x, y, N, LOOM_KEEP, NULL, NULL, stream));
    INVALID(loom_map_build(a.map, x, y, N, LOOM_KEEP, NULL, NULL, stream));
    INVALID(loom_map_find(a.map, x, N, y, NULL, NULL, NULL, stream));
    INVALID(loom_map_contains(a.map, x, N, NULL, NULL, NULL, stream));
    INVALID(loom_map_erase(a.map, x, N, NULL, NULL, stream));
    INVALID(loom_map_apply(a.map, a.p + 16384, x, y, N, 0, NULL, NULL, NULL, stream));
    INVALID(loom_map_count(a.map, x, N, NULL, NULL, stream));
    INVALID(loom_map_for_each(a.map, never_called, NULL, NULL, stream));
    INVALID(loom_map_size(a.map, &number, stream));
    INVALID(loom_map_clear(a.map, NULL, stream));
    INVALID(loom_map_erase_if(a.map, LOOM_NUMBER_U32, NULL, NULL, NULL, stream));
    INVALID(loom_map_clone(a.map, &other, stream));
    INVALID(loom_map_retrieve_all(a.map, x, y, N, &number, NULL, stream));
    INVALID(loom_map_cursor_open(a.map, &cursor, NULL, stream));
    INVALID(loom_map_save(a.map, test_path(t, "file"), stream));
    INVALID(loom_map_stats(a.map, &stats, stream));
    INVALID(loom_map_verify(a.map, stream));
    INVALID(loom_map_count_accesses(a.map, x, N, &number, stream));
    CHECK(other == NULL && cursor == NULL);
    CHECK_EQ(test_count_entries(t->directory), 0);
    CHECK_OK(loom_map_save(a.map, test_path(t, "file"), NULL));
    INVALID(loom_map_load(a.context, test_path(t, "file"), &other, stream));
    CHECK(other == NULL);
    CHECK_OK(loom_map_cursor_open(a.map, &cursor, NULL, NULL));
    INVALID(loom_cursor_next(cursor, x, y, N, &number, stream));
    loom_cursor_close(cursor);
    test_remove_tree(test_path(t, "file"));
    free_arena(&a);
}
