/* Device views of open tables, as far as the host knows of them: which calls are refused while a view is lent, how
 * views are counted, and which views loom_map_view_end refuses. tests/device/ tests the kernels that use views.
 *
 * The cpu machine lends no views. The tests tell one of its contexts that it does (view_fixture.h), so that
 * machines without a GPU test the bookkeeping, too. The same checks run on the cuda machine. */
#include "harness/view_fixture.h"

#include <string.h>

/* ---- Calls ---------------------------------------------------------------------------------------------- */

/* `does`: the effect of a call on the table (map.h): f find, r other readers, i insert, a accumulate, u update, e
 * erase, x alone. */
static const struct {
    const char *name;
    char does;
    int values; /* sets do not have it */
} calls[] = {
    {"find", 'f', 0},           {"contains", 'f', 0},        {"size", 'r', 0},     {"retrieve_all", 'r', 0},
    {"cursor_open", 'r', 0},    {"for_each", 'r', 0},        {"clone", 'r', 0},    {"save", 'r', 0},
    {"stats", 'r', 0},          {"verify", 'r', 0},          {"accesses", 'r', 0}, {"insert", 'i', 0},
    {"find_or_insert", 'i', 1}, {"accumulate", 'a', 1},      {"count", 'a', 1},    {"update", 'u', 1},
    {"erase", 'e', 0},          {"insert in order", 'x', 0}, {"build", 'x', 0},    {"erase_if", 'x', 1},
    {"apply", 'x', 0},          {"clear", 'x', 0},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static int visit_nothing(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)user, (void)keys, (void)values, (void)n;
    return 0;
}

static loom_status make_call(test_run *t, loom_map *map, int call, batch *b)
{
    uint64_t number = 0;
    loom_status status;
    loom_stats stats = LOOM_STATS_INIT;
    switch (call) {
    case 0:
        return loom_map_find(map, b->keys, b->n, b->values, NULL, NULL, NULL, NULL);
    case 1:
        return loom_map_contains(map, b->keys, b->n, b->found, NULL, NULL, NULL);
    case 2:
        return loom_map_size(map, &number, NULL);
    case 3:
        return loom_map_retrieve_all(map, NULL, NULL, 0, &number, NULL, NULL);
    case 4: {
        loom_cursor *cursor = NULL;
        status = loom_map_cursor_open(map, &cursor, NULL, NULL);
        loom_cursor_close(cursor);
        return status;
    }
    case 5:
        return loom_map_for_each(map, visit_nothing, NULL, NULL, NULL);
    case 6: {
        loom_map *clone = NULL;
        status = loom_map_clone(map, &clone, NULL);
        loom_map_destroy(clone);
        return status;
    }
    case 7:
        return loom_map_save(map, test_path(t, "table"), NULL);
    case 8:
        return loom_map_stats(map, &stats, NULL);
    case 9:
        return loom_map_verify(map, NULL);
    case 10:
        return loom_map_count_accesses(map, b->keys, b->n, &number, NULL);
    case 11:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_OVERWRITE, NULL, NULL, NULL);
    case 12:
        return loom_map_find_or_insert(map, b->keys, b->values, b->n, NULL, NULL, NULL, NULL);
    case 13:
        return loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_MAX, LOOM_NUMBER_U32, NULL, NULL, NULL);
    case 14:
        return loom_map_count(map, b->keys, b->n, NULL, NULL, NULL);
    case 15:
        return loom_map_update(map, b->keys, b->values, b->n, NULL, NULL, NULL);
    case 16:
        return loom_map_erase(map, b->keys, b->n, NULL, NULL, NULL);
    case 17:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_IN_ORDER, NULL, NULL, NULL);
    case 18:
        return loom_map_build(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL);
    case 19:
        return loom_map_erase_if(map, b->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32, NULL, NULL, NULL, NULL);
    case 20:
        memset(b->status, LOOM_APPLY_ERASE, b->n);
        return loom_map_apply(map, b->status, b->keys, b->values, b->n, 0, NULL, NULL, NULL, NULL);
    default:
        return loom_map_clear(map, NULL, NULL);
    }
}

/* The calls that do one of `may` succeed. All other calls are refused, because of the view. */
static void check_calls(test_run *t, loom_map *map, batch *b, const char *may)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    uint64_t bytes = 0;
    for (int i = 0; i < CALLS; i++) {
        if (calls[i].values && b->value_bytes == 0)
            continue;
        test_note("%s, views that go with %s", calls[i].name, may);
        test_poison_last_error();
        loom_status status = make_call(t, map, i, b);
        if (strchr(may, calls[i].does))
            CHECK_OK(status);
        else
            test_check_refused(__FILE__, __LINE__, calls[i].name, status, LOOM_IN_USE, LOOM_IN_USE);
    }
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_OK(loom_map_memory_used(map, &bytes));
}

/* Which calls may run beside each view: in a table without concurrent_reads, and with them. */
static const struct {
    loom_view_access access;
    const char *goes, *reads;
} rules[] = {
    {LOOM_VIEW_FIND, "fr", "fr"}, {LOOM_VIEW_INSERT, "i", "if"}, {LOOM_VIEW_ACCUMULATE, "a", "af"},
    {LOOM_VIEW_ERASE, "e", "ef"}, {LOOM_VIEW_MIXED, "", ""},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static void check_rules(test_run *t, loom_context *context, uint32_t value_bytes, uint32_t concurrent_reads)
{
    loom_map *map = make_open_table(context, value_bytes, concurrent_reads);
    batch b = make_batch_of(4, value_bytes, 100);
    fill_distinct(&b, 4, 0);
    for (int r = 0; r < RULES; r++) {
        const char *goes = concurrent_reads ? rules[r].reads : rules[r].goes;
        if (value_bytes == 0 && rules[r].access == LOOM_VIEW_ACCUMULATE) {
            refuse_view(map, LOOM_VIEW_ACCUMULATE, LOOM_UNSUPPORTED);
            continue;
        }
        CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
        loom_map_view first = begin_view(map, rules[r].access);
        check_calls(t, map, &b, goes);
        loom_map_view second = begin_view(map, rules[r].access); /* a second view of the same kind … */
        loom_map_view but_for_serial = second;
        CHECK_NE(second.serial, first.serial);
        but_for_serial.serial = first.serial;
        CHECK_BYTES(&but_for_serial, &first, sizeof first);
        for (int other = 0; other < RULES; other++) /* … but of no other kind */
            if (other != r)
                refuse_view(map, rules[other].access, LOOM_IN_USE);
        END_VIEW(map, &first);
        END_VIEW_INVALID(map, &first); /* each view ends once, whatever else is lent */
        check_calls(t, map, &b, goes);
        END_VIEW(map, &second);
        END_VIEW_INVALID(map, &second);
        END_VIEW_INVALID(map, &first);
        check_calls(t, map, &b, "friauex");
        CHECK_OK(loom_map_clear(map, NULL, NULL));
        CHECK_EQ(map_size(map), 0);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* ---- Wrong views ---------------------------------------------------------------------------------------------- */

static void check_wrong_views(loom_context *context)
{
    loom_map *map = make_open_table(context, 4, 0), *same = make_open_table(context, 4, 0), *clone = NULL;
    loom_map_view view, none, wrong;
    memset(&none, 0, sizeof none);
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    static const int unknown[] = {0, 6, -1, 1000000};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        refuse_view(map, (loom_view_access)unknown[i], LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_FIND, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_view_begin(NULL, LOOM_VIEW_FIND, &none, NULL), LOOM_INVALID_ARGUMENT);
    END_VIEW_INVALID(map, NULL);
    END_VIEW_INVALID(NULL, &none);
    END_VIEW_INVALID(map, &none);

    /* Tables of one context may have the same seed and shape, and a clone has. Their views are different
     * nevertheless. */
    view = begin_view(map, LOOM_VIEW_INSERT);
    END_VIEW_INVALID(same, &view);
    wrong = begin_view(same, LOOM_VIEW_INSERT);
    END_VIEW_INVALID(map, &wrong);
    END_VIEW_INVALID(clone, &view);
    loom_map_view cloned = begin_view(clone, LOOM_VIEW_INSERT);
    END_VIEW_INVALID(map, &cloned);
    END_VIEW_INVALID(clone, &view);
    END_VIEW(same, &wrong);
    END_VIEW(clone, &cloned);
    wrong = view;
    wrong.access = LOOM_VIEW_ERASE;
    END_VIEW_INVALID(map, &wrong);
    wrong.access = (loom_view_access)7;
    END_VIEW_INVALID(map, &wrong);
    wrong = view;
    wrong.generation++;
    END_VIEW_INVALID(map, &wrong);
    wrong = view;
    wrong.serial++;
    END_VIEW_INVALID(map, &wrong);
    wrong = view;
    wrong.table[0]++;
    END_VIEW_INVALID(map, &wrong);
    refuse_view(map, LOOM_VIEW_ERASE, LOOM_IN_USE); /* the view is still out */
    END_VIEW(map, &view);
    view = begin_view(map, LOOM_VIEW_ERASE);
    END_VIEW(map, &view);

    /* A view of a destroyed table is not a view of the next table, which may have the same seed and memory. */
    view = begin_view(map, LOOM_VIEW_ERASE);
    loom_map_destroy(map);
    map = make_open_table(context, 4, 0);
    wrong = begin_view(map, LOOM_VIEW_ERASE);
    END_VIEW_INVALID(map, &view);
    END_VIEW(map, &wrong);
    loom_map_destroy(map);
    loom_map_destroy(same);
    loom_map_destroy(clone);
}

/* Many views at once, up to a bound. They end in another order, each once. */
static void check_many_views(loom_context *context)
{
    enum { MOST = 16 };
    loom_map *map = make_open_table(context, 4, 0);
    loom_map_view views[MOST];
    for (int r = 0; r < RULES; r++) {
        test_note("access %d", (int)rules[r].access);
        for (int i = 0; i < MOST; i++)
            views[i] = begin_view(map, rules[r].access);
        refuse_view(map, rules[r].access, LOOM_IN_USE);
        CHECK(strstr(loom_last_error(), "16 ") != NULL && strstr(loom_last_error(), "give one back") != NULL);
        loom_map_view copy = views[5];
        END_VIEW(map, &copy);
        END_VIEW_INVALID(map, &views[5]);
        views[5] = begin_view(map, rules[r].access); /* there is room for one view again */
        refuse_view(map, rules[r].access, LOOM_IN_USE);
        END_VIEW_INVALID(map, &copy);
        for (int i = 0; i < MOST; i++) {
            END_VIEW(map, &views[i * 7 % MOST]);
            for (int back = 0; back <= i; back++)
                END_VIEW_INVALID(map, &views[back * 7 % MOST]);
        }
        CHECK_OK(loom_map_clear(map, NULL, NULL));
    }
    loom_map_destroy(map);
}

/* A view that writes changes the table for cursors. A view that reads does not. */
static void check_cursors(loom_context *context)
{
    loom_map *map = make_open_table(context, 4, 0);
    batch b = make_batch_of(4, 4, 50);
    loom_cursor *cursor = NULL;
    uint64_t got = 0;
    fill_distinct(&b, 4, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 50);
    for (int r = 0; r < RULES; r++) {
        int reads = rules[r].access == LOOM_VIEW_FIND;
        test_note("access %d", (int)rules[r].access);
        CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
        CHECK_OK(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL));
        loom_map_view view = begin_view(map, rules[r].access);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), reads ? LOOM_OK : LOOM_IN_USE);
        END_VIEW(map, &view);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), reads ? LOOM_OK : LOOM_CHANGED);
        loom_cursor_close(cursor);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* If the end of the last view fails, the view is still out, and can end later. */
static void check_failed_end(loom_context *context)
{
    loom_map *map = make_open_table(context, 4, 0);
    batch b = make_batch_of(4, 4, 50);
    loom_cursor *cursor = NULL;
    uint64_t got = 0;
    fill_distinct(&b, 4, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 50);
    for (int r = 1; r < RULES; r++) { /* the views that write */
        test_note("access %d", (int)rules[r].access);
        CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
        loom_map_view first = begin_view(map, rules[r].access), last = begin_view(map, rules[r].access);
        view_faults.failing_folds = 2;
        view_faults.failing_upkeeps = 2;
        view_faults.folds = 0;
        END_VIEW(map, &first); /* the end of the last view folds the counts of all views */
        CHECK_EQ(view_faults.folds, 0);
        for (int attempt = 0; attempt < 4; attempt++) {
            CHECK_REFUSED(loom_map_view_end(map, &last, NULL), LOOM_DEVICE);
            END_VIEW_INVALID(map, &first);
            CHECK_REFUSED(loom_map_size(map, &got, NULL), LOOM_IN_USE);
            refuse_view(map, r == 1 ? LOOM_VIEW_ERASE : LOOM_VIEW_INSERT, LOOM_IN_USE);
        }
        END_VIEW(map, &last);
        CHECK_EQ(view_faults.folds, 5);
        END_VIEW_INVALID(map, &last);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), LOOM_CHANGED);
        loom_cursor_close(cursor);
        CHECK_EQ(map_size(map), 50);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* Upkeep waits until no view is lent: erasures beside a view wear the table, and keys move when the last view ends. */
static void check_upkeep_waits(test_run *t, loom_context *context)
{
    loom_map *map = make_open_table(context, 4, 0);
    uint64_t n = map_stats(map).slots * 9 / 10;
    batch all = make_batch_of(4, 4, n), half = make_batch_of(4, 4, n / 2);
    uint64_t salt = random_u64(&t->random);
    fill_distinct(&all, salt, 0);
    fill_distinct(&half, salt, n - half.n); /* the later keys: they found their home buckets full */
    CHECK_EQ(checked_build(map, &all, LOOM_KEEP).ok, n);
    double before = map_stats(map).accesses_per_miss;
    loom_map_view views[2] = {begin_view(map, LOOM_VIEW_ERASE), begin_view(map, LOOM_VIEW_ERASE)};
    CHECK_OK(loom_map_erase(map, half.keys, half.n, half.status, NULL, NULL));
    for (uint64_t i = 0; i < half.n; i++)
        CHECK_EQ(half.status[i], LOOM_OK);
    END_VIEW(map, &views[1]);
    END_VIEW(map, &views[0]);
    test_note("%g buckets per miss before, %g after", before, map_stats(map).accesses_per_miss);
    CHECK(map_stats(map).accesses_per_miss < before);
    CHECK_EQ(map_size(map), n - half.n);
    check_none_found(map, &half);
    CHECK_EQ(checked_insert(map, &half, LOOM_KEEP).ok, half.n);
    check_contents(map, &all);
    free_batch(&all);
    free_batch(&half);
    loom_map_destroy(map);
}

TEST(test_api_view_calls_beside_views)
{
    loom_context *context = make_lending_context(t);
    for (uint32_t value_bytes = 0; value_bytes <= 4; value_bytes += 4)
        check_rules(t, context, value_bytes, 0);
    loom_context_destroy(context);
}

TEST(test_api_view_wrong_views)
{
    loom_context *context = make_lending_context(t);
    check_wrong_views(context);
    loom_context_destroy(context);
}

TEST(test_api_view_cursors_and_upkeep)
{
    loom_context *context = make_lending_context(t);
    check_cursors(context);
    check_upkeep_waits(t, context);
    loom_context_destroy(context);
}

TEST(test_api_view_many_at_once)
{
    loom_context *context = make_lending_context(t);
    check_many_views(context);
    loom_context_destroy(context);
}

TEST(test_api_view_end_that_fails)
{
    loom_context *context = make_lending_context(t);
    check_failed_end(context);
    loom_context_destroy(context);
}

TEST(test_cuda_view_bookkeeping)
{
    loom_context *context = make_cuda_context(t);
    for (uint32_t value_bytes = 0; value_bytes <= 4; value_bytes += 4)
        for (uint32_t concurrent_reads = 0; concurrent_reads < 2; concurrent_reads++)
            check_rules(t, context, value_bytes, concurrent_reads);
    check_wrong_views(context);
    check_many_views(context);
    check_cursors(context);
    check_upkeep_waits(t, context);
    loom_context_destroy(context);
}
