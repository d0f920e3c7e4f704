/* Device views, as far as the host knows of them: which calls are refused while one is out, how they are counted, and which
 * are none. What kernels do with them is tested with device.cuh.
 *
 * The cpu machine lends nothing. So that the bookkeeping is tested wherever there is no GPU, one of its contexts is told here
 * that it does: the views are then as good as any, as long as nobody uses them. The same checks run on the cuda machine. */
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "api/context.h"
#include "core/error.h"
#include "core/kernels.h"
#include "engines/open/open_layout.h"

/* What taking views back does on that machine, and how often it is to fail before it does. */
static struct {
    int failing_folds, failing_upkeeps, folds;
    loom_status (*upkeep)(loom__machine *, const void *, int, loom_stream);
} taking_back;

static loom_status fold_nothing(loom__machine *machine, const void *view, loom_stream stream)
{
    (void)machine, (void)view, (void)stream;
    taking_back.folds++;
    RETURN_ERROR_IF(taking_back.failing_folds-- > 0, LOOM_DEVICE, "the test wants sizes to fail");
    taking_back.failing_folds = 0;
    return LOOM_OK;
}

static loom_status upkeep(loom__machine *machine, const void *view, int all, loom_stream stream)
{
    RETURN_ERROR_IF(taking_back.failing_upkeeps-- > 0, LOOM_DEVICE, "the test wants upkeep to fail");
    taking_back.failing_upkeeps = 0;
    return taking_back.upkeep(machine, view, all, stream);
}

static loom__map_kernels lending; /* tables point to it as long as they live */

static const void *lending_kernels(const loom__machine *machine, uint32_t engine)
{
    return engine == LOOM_ENGINE_OPEN ? &lending : loom__cpu_machine.kernels(machine, engine);
}

static void make_lend(loom_context *context)
{
    static loom__machine_ops ops;
    ops = *context->machine->ops;
    lending = *(const loom__map_kernels *)ops.kernels(context->machine, LOOM_ENGINE_OPEN);
    taking_back.upkeep = lending.upkeep;
    lending.upkeep = upkeep;
    lending.fold_size = fold_nothing;
    ops.kernels = lending_kernels;
    context->machine->ops = &ops;
}

static loom_context *make_lending_context(test_run *t)
{
    loom_context *context = make_context(t);
    make_lend(context);
    return context;
}

static loom_context *make_cuda_context(test_run *t)
{
    need_cuda();
    t->machine = LOOM_MACHINE_CUDA;
    return make_context(t);
}

static loom_map *make_table(loom_context *context, uint32_t value_bytes, uint32_t concurrent_reads)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 4;
    config.value_bytes = value_bytes;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = 1000;
    config.growth = 0;
    config.concurrent_reads = concurrent_reads;
    return make_map_from(context, &config);
}

static loom_map_view begin(loom_map *map, loom_view_access access)
{
    loom_map_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_map_view_begin(map, access, &view, NULL));
    CHECK_EQ(view.layout, LOOM_VIEW_LAYOUT);
    CHECK_EQ(view.access, access);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config)); /* which any view leaves alone */
    CHECK_EQ(view.key_bytes, config.key_bytes);
    CHECK_EQ(view.value_bytes, config.value_bytes);
    return view;
}

/* A view that is refused is not written. */
static void refuse(loom_map *map, loom_view_access access, loom_status wanted)
{
    loom_map_view view, untouched;
    memset(&view, 0xee, sizeof view);
    memset(&untouched, 0xee, sizeof untouched);
    CHECK_REFUSED(loom_map_view_begin(map, access, &view, NULL), wanted);
    CHECK_BYTES(&view, &untouched, sizeof view);
}

#define END(map, view)         CHECK_OK(loom_map_view_end(map, view, NULL))
#define END_INVALID(map, view) CHECK_REFUSED(loom_map_view_end(map, view, NULL), LOOM_INVALID_ARGUMENT)

/* ---- Calls ---------------------------------------------------------------------------------------------- */

/* What a call does to the table, as map.h has it: find, other readers, insert, accumulate, update, erase, alone. */
static const struct {
    const char *name;
    char does;
    int values; /* not offered by sets */
} calls[] = {
    {"find", 'f', 0},           {"contains", 'f', 0},        {"size", 'r', 0},     {"retrieve_all", 'r', 0},
    {"cursor_open", 'r', 0},    {"for_each", 'r', 0},        {"clone", 'r', 0},    {"save", 'r', 0},
    {"stats", 'r', 0},          {"verify", 'r', 0},          {"accesses", 'r', 0}, {"insert", 'i', 0},
    {"find_or_insert", 'i', 1}, {"accumulate", 'a', 1},      {"count", 'a', 1},    {"update", 'u', 1},
    {"erase", 'e', 0},          {"insert in order", 'x', 0}, {"build", 'x', 0},    {"clear", 'x', 0},
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
        return loom_map_find(map, b->keys, b->n, b->values, NULL, NULL, NULL);
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
    default:
        return loom_map_clear(map, NULL, NULL);
    }
}

/* Every call goes on if it is one of `may`, and is refused otherwise, for the view alone. */
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

/* What goes with each view, in a table without and with concurrent_reads. */
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
    loom_map *map = make_table(context, value_bytes, concurrent_reads);
    batch b = make_batch_of(4, value_bytes, 100);
    fill_distinct(&b, 4, 0);
    for (int r = 0; r < RULES; r++) {
        const char *goes = concurrent_reads ? rules[r].reads : rules[r].goes;
        if (value_bytes == 0 && rules[r].access == LOOM_VIEW_ACCUMULATE) {
            refuse(map, LOOM_VIEW_ACCUMULATE, LOOM_UNSUPPORTED);
            continue;
        }
        CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
        loom_map_view first = begin(map, rules[r].access);
        check_calls(t, map, &b, goes);
        loom_map_view second = begin(map, rules[r].access); /* further ones of the same kind … */
        loom_map_view but_for_serial = second;
        CHECK_NE(second.serial, first.serial);
        but_for_serial.serial = first.serial;
        CHECK_BYTES(&but_for_serial, &first, sizeof first);
        for (int other = 0; other < RULES; other++) /* … and of no other */
            if (other != r)
                refuse(map, rules[other].access, LOOM_IN_USE);
        END(map, &first);
        END_INVALID(map, &first); /* each is given back once, whatever else is out */
        check_calls(t, map, &b, goes);
        END(map, &second);
        END_INVALID(map, &second);
        END_INVALID(map, &first);
        check_calls(t, map, &b, "friauex");
        CHECK_OK(loom_map_clear(map, NULL, NULL));
        CHECK_EQ(map_size(map), 0);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* ---- Views that are none -------------------------------------------------------------------------------------- */

static void check_wrong_views(loom_context *context)
{
    loom_map *map = make_table(context, 4, 0), *same = make_table(context, 4, 0), *clone = NULL;
    loom_map_view view, none, wrong;
    memset(&none, 0, sizeof none);
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    static const int unknown[] = {0, 6, -1, 1000000};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        refuse(map, (loom_view_access)unknown[i], LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_FIND, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_view_begin(NULL, LOOM_VIEW_FIND, &none, NULL), LOOM_INVALID_ARGUMENT);
    END_INVALID(map, NULL);
    END_INVALID(NULL, &none);
    END_INVALID(map, &none);

    /* Tables of one context may have the same seed and shape, and a clone has: their views are others nevertheless. */
    view = begin(map, LOOM_VIEW_INSERT);
    END_INVALID(same, &view);
    wrong = begin(same, LOOM_VIEW_INSERT);
    END_INVALID(map, &wrong);
    END_INVALID(clone, &view);
    loom_map_view cloned = begin(clone, LOOM_VIEW_INSERT);
    END_INVALID(map, &cloned);
    END_INVALID(clone, &view);
    END(same, &wrong);
    END(clone, &cloned);
    wrong = view;
    wrong.access = LOOM_VIEW_ERASE;
    END_INVALID(map, &wrong);
    wrong.access = (loom_view_access)7;
    END_INVALID(map, &wrong);
    wrong = view;
    wrong.generation++;
    END_INVALID(map, &wrong);
    wrong = view;
    wrong.serial++;
    END_INVALID(map, &wrong);
    wrong = view;
    wrong.table[0]++;
    END_INVALID(map, &wrong);
    refuse(map, LOOM_VIEW_ERASE, LOOM_IN_USE); /* after all that it is still out */
    END(map, &view);
    view = begin(map, LOOM_VIEW_ERASE);
    END(map, &view);

    /* Nor is the view of a table that is gone one of the next, which may have its seed and its memory. */
    view = begin(map, LOOM_VIEW_ERASE);
    loom_map_destroy(map);
    map = make_table(context, 4, 0);
    wrong = begin(map, LOOM_VIEW_ERASE);
    END_INVALID(map, &view);
    END(map, &wrong);
    loom_map_destroy(map);
    loom_map_destroy(same);
    loom_map_destroy(clone);
}

/* Many at once, up to a bound; given back in another order, each once. */
static void check_many_views(loom_context *context)
{
    enum { MOST = 16 };
    loom_map *map = make_table(context, 4, 0);
    loom_map_view views[MOST];
    for (int r = 0; r < RULES; r++) {
        test_note("access %d", (int)rules[r].access);
        for (int i = 0; i < MOST; i++)
            views[i] = begin(map, rules[r].access);
        refuse(map, rules[r].access, LOOM_IN_USE);
        CHECK(strstr(loom_last_error(), "16 ") != NULL && strstr(loom_last_error(), "give one back") != NULL);
        loom_map_view copy = views[5];
        END(map, &copy);
        END_INVALID(map, &views[5]);
        views[5] = begin(map, rules[r].access); /* there is room for one again, and no more */
        refuse(map, rules[r].access, LOOM_IN_USE);
        END_INVALID(map, &copy);
        for (int i = 0; i < MOST; i++) {
            END(map, &views[i * 7 % MOST]);
            for (int back = 0; back <= i; back++)
                END_INVALID(map, &views[back * 7 % MOST]);
        }
        CHECK_OK(loom_map_clear(map, NULL, NULL));
    }
    loom_map_destroy(map);
}

/* A view that writes is a change for cursors; one that reads is not. */
static void check_cursors(loom_context *context)
{
    loom_map *map = make_table(context, 4, 0);
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
        loom_map_view view = begin(map, rules[r].access);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), reads ? LOOM_OK : LOOM_IN_USE);
        END(map, &view);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), reads ? LOOM_OK : LOOM_CHANGED);
        loom_cursor_close(cursor);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* If the last view cannot be taken back it is still out, and can be given back again. */
static void check_failed_end(loom_context *context)
{
    loom_map *map = make_table(context, 4, 0);
    batch b = make_batch_of(4, 4, 50);
    loom_cursor *cursor = NULL;
    uint64_t got = 0;
    fill_distinct(&b, 4, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 50);
    for (int r = 1; r < RULES; r++) { /* those that write */
        test_note("access %d", (int)rules[r].access);
        CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
        loom_map_view first = begin(map, rules[r].access), last = begin(map, rules[r].access);
        taking_back.failing_folds = 2;
        taking_back.failing_upkeeps = 2;
        taking_back.folds = 0;
        END(map, &first); /* the last does it for all */
        CHECK_EQ(taking_back.folds, 0);
        for (int attempt = 0; attempt < 4; attempt++) {
            CHECK_REFUSED(loom_map_view_end(map, &last, NULL), LOOM_DEVICE);
            END_INVALID(map, &first);
            CHECK_REFUSED(loom_map_size(map, &got, NULL), LOOM_IN_USE);
            refuse(map, r == 1 ? LOOM_VIEW_ERASE : LOOM_VIEW_INSERT, LOOM_IN_USE);
        }
        END(map, &last);
        CHECK_EQ(taking_back.folds, 5);
        END_INVALID(map, &last);
        CHECK_STATUS(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), LOOM_CHANGED);
        loom_cursor_close(cursor);
        CHECK_EQ(map_size(map), 50);
    }
    free_batch(&b);
    loom_map_destroy(map);
}

/* Upkeep waits for the views: what is erased beside one wears the table, and keys move when the last is back. */
static void check_upkeep_waits(test_run *t, loom_context *context)
{
    loom_map *map = make_table(context, 4, 0);
    uint64_t n = map_stats(map).slots * 9 / 10;
    batch all = make_batch_of(4, 4, n), half = make_batch_of(4, 4, n / 2);
    uint64_t salt = random_u64(&t->random);
    fill_distinct(&all, salt, 0);
    fill_distinct(&half, salt, n - half.n); /* the later ones: those found their home buckets full */
    CHECK_EQ(checked_build(map, &all, LOOM_KEEP).ok, n);
    double before = map_stats(map).accesses_per_miss;
    loom_map_view views[2] = {begin(map, LOOM_VIEW_ERASE), begin(map, LOOM_VIEW_ERASE)};
    CHECK_OK(loom_map_erase(map, half.keys, half.n, half.status, NULL, NULL));
    for (uint64_t i = 0; i < half.n; i++)
        CHECK_EQ(half.status[i], LOOM_OK);
    END(map, &views[1]);
    END(map, &views[0]);
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

/* ---- Filters ------------------------------------------------------------------------------------------------ */

/* Filters and perfect tables ask the machine, where open tables ask for a kernel. */
static loom_status (*supports_otherwise)(loom__machine *, loom_feature);

static loom_status supports_views(loom__machine *machine, loom_feature feature)
{
    int of_views = feature == LOOM_FEATURE_VIEWS || feature == LOOM_FEATURE_WRITING_VIEWS;
    return of_views ? LOOM_OK : supports_otherwise(machine, feature);
}

static void make_others_lend(loom_context *context)
{
    static loom__machine_ops ops;
    ops = *context->machine->ops;
    supports_otherwise = ops.supports;
    ops.supports = supports_views;
    context->machine->ops = &ops;
}

static loom_filter *make_filter(loom_context *context)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_filter *filter = NULL;
    config.key_bytes = 4;
    config.capacity = 1000;
    CHECK_OK(loom_filter_create(context, &config, &filter));
    return filter;
}

static loom_filter_view begin_filter(loom_filter *filter)
{
    loom_filter_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_filter_view_begin(filter, &view, NULL));
    CHECK_EQ(view.layout, LOOM_FILTER_VIEW_LAYOUT);
    CHECK_EQ(view.key_bytes, 4);
    return view;
}

static void refuse_filter(loom_filter *filter, loom_status wanted)
{
    loom_filter_view view, untouched;
    memset(&view, 0xee, sizeof view);
    memset(&untouched, 0xee, sizeof untouched);
    CHECK_REFUSED(loom_filter_view_begin(filter, &view, NULL), wanted);
    CHECK_BYTES(&view, &untouched, sizeof view);
}

#define END_FILTER(filter, view)         CHECK_OK(loom_filter_view_end(filter, view, NULL))
#define END_FILTER_INVALID(filter, view) CHECK_REFUSED(loom_filter_view_end(filter, view, NULL), LOOM_INVALID_ARGUMENT)

/* What a view's kernels may overlap goes on; what runs alone does if `alone`. */
static void check_filter_calls(test_run *t, loom_filter *filter, loom_filter *like, batch *b, int alone)
{
    loom_status wanted = alone ? LOOM_OK : LOOM_IN_USE;
    loom_filter *clone = NULL, *another = NULL;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    uint64_t bytes;
    CHECK_OK(loom_filter_insert(filter, b->keys, b->n, 0, NULL, NULL));
    CHECK_OK(loom_filter_insert(filter, b->keys, b->n, LOOM_DIRECTLY, NULL, NULL));
    CHECK_OK(loom_filter_contains(filter, b->keys, b->n, b->found, NULL, NULL));
    CHECK_OK(loom_filter_get_config(filter, &config));
    CHECK_OK(loom_filter_memory_used(filter, &bytes));
    CHECK_OK(loom_filter_create_like(filter, &another));
    loom_filter_destroy(another);
    CHECK_STATUS(loom_filter_merge(filter, like, NULL), wanted);
    CHECK_STATUS(loom_filter_merge(like, filter, NULL), wanted);
    CHECK_STATUS(loom_filter_clone(filter, &clone, NULL), wanted);
    CHECK_STATUS(loom_filter_save(filter, test_path(t, "filter"), NULL), wanted);
    CHECK_STATUS(loom_filter_stats(filter, &report, NULL), wanted);
    CHECK_STATUS(loom_filter_clear(filter, NULL, NULL), wanted);
    if (!alone) {
        CHECK_REFUSED(loom_filter_insert(filter, b->keys, b->n, LOOM_BY_PARTITION, NULL, NULL), LOOM_IN_USE);
        CHECK(clone == NULL);
    }
    loom_filter_destroy(clone);
}

static void check_filter_rules(test_run *t, loom_context *context)
{
    loom_filter *filter = make_filter(context), *like = NULL;
    batch b = make_batch_of(4, 0, 100);
    fill_distinct(&b, 4, 0);
    CHECK_OK(loom_filter_create_like(filter, &like));
    for (int round = 0; round < 2; round++) {
        loom_filter_view first = begin_filter(filter);
        check_filter_calls(t, filter, like, &b, 0);
        loom_filter_view second = begin_filter(filter), but_for_serial = second;
        CHECK_NE(second.serial, first.serial);
        but_for_serial.serial = first.serial;
        CHECK_BYTES(&but_for_serial, &first, sizeof first);
        END_FILTER(filter, &first);
        END_FILTER_INVALID(filter, &first); /* each is given back once, whatever else is out */
        check_filter_calls(t, filter, like, &b, 0);
        END_FILTER(filter, &second);
        END_FILTER_INVALID(filter, &second);
        END_FILTER_INVALID(filter, &first);
        check_filter_calls(t, filter, like, &b, 1);
    }
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_filter_destroy(like);
}

static void check_wrong_filter_views(loom_context *context)
{
    enum { MOST = 16 };
    loom_filter *filter = make_filter(context), *like = NULL;
    loom_filter_view view, none, wrong, views[MOST];
    memset(&none, 0, sizeof none);
    CHECK_OK(loom_filter_create_like(filter, &like));
    CHECK_REFUSED(loom_filter_view_begin(filter, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_filter_view_begin(NULL, &none, NULL), LOOM_INVALID_ARGUMENT);
    END_FILTER_INVALID(filter, NULL);
    END_FILTER_INVALID(NULL, &none);
    END_FILTER_INVALID(filter, &none);

    view = begin_filter(filter);
    END_FILTER_INVALID(like, &view);
    wrong = begin_filter(like);
    END_FILTER_INVALID(filter, &wrong);
    END_FILTER(like, &wrong);
    wrong = view;
    wrong.serial++;
    END_FILTER_INVALID(filter, &wrong);
    wrong = view;
    wrong.filter[0]++;
    END_FILTER_INVALID(filter, &wrong);
    CHECK_REFUSED(loom_filter_clear(filter, NULL, NULL), LOOM_IN_USE); /* after all that it is still out */
    END_FILTER(filter, &view);
    CHECK_OK(loom_filter_clear(filter, NULL, NULL));

    /* Many at once, up to a bound; a copy is as good as the original, once. */
    for (int i = 0; i < MOST; i++)
        views[i] = begin_filter(filter);
    refuse_filter(filter, LOOM_IN_USE);
    CHECK(strstr(loom_last_error(), "loom_filter_view_end") != NULL);
    wrong = views[5];
    END_FILTER(filter, &wrong);
    END_FILTER_INVALID(filter, &views[5]);
    views[5] = begin_filter(filter);
    for (int i = 0; i < MOST; i++) {
        CHECK_REFUSED(loom_filter_clear(filter, NULL, NULL), LOOM_IN_USE);
        END_FILTER(filter, &views[i * 7 % MOST]);
        END_FILTER_INVALID(filter, &views[i * 7 % MOST]);
    }
    CHECK_OK(loom_filter_clear(filter, NULL, NULL));

    /* Nor is the view of a filter that is gone one of the next. */
    view = begin_filter(filter);
    loom_filter_destroy(filter);
    filter = make_filter(context);
    wrong = begin_filter(filter);
    END_FILTER_INVALID(filter, &view);
    END_FILTER(filter, &wrong);
    loom_filter_destroy(filter);
    loom_filter_destroy(like);
}

/* How many keys came through a view nobody knows: the next insertion counts bits, and tells the truth. */
static void check_filter_overfilled(loom_context *context)
{
    loom_filter *filter = make_filter(context);
    batch few = make_batch_of(4, 0, 10), many = make_batch_of(4, 0, 3000);
    fill_distinct(&few, 4, 0);
    fill_distinct(&many, 4, 10);
    loom_filter_view view = begin_filter(filter);
    END_FILTER(filter, &view);
    CHECK_OK(loom_filter_insert(filter, few.keys, few.n, 0, NULL, NULL));
    CHECK_STATUS(loom_filter_insert(filter, many.keys, many.n, 0, NULL, NULL), LOOM_OVERFILLED);
    view = begin_filter(filter);
    END_FILTER(filter, &view);
    CHECK_STATUS(loom_filter_insert(filter, few.keys, few.n, 0, NULL, NULL), LOOM_OVERFILLED);
    free_batch(&few);
    free_batch(&many);
    loom_filter_destroy(filter);
}

/* ---- The tests ---- */

TEST(test_api_view_of_filters)
{
    loom_context *context = make_context(t);
    make_others_lend(context);
    check_filter_rules(t, context);
    check_wrong_filter_views(context);
    check_filter_overfilled(context);
    loom_context_destroy(context);
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

/* ---- Destroyed with views out ---- */

static struct {
    char happened[8]; /* drain, release of a table, warning */
    size_t length;
} events;

static void note_event(char event)
{
    CHECK_LT(events.length + 1, sizeof events.happened);
    events.happened[events.length++] = event;
    events.happened[events.length] = 0;
}

static void *allocate_noting(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    (void)user, (void)kind, (void)stream;
    return posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, bytes) == 0 ? memory : NULL;
}

static void release_noting(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user, (void)bytes, (void)stream;
    if (kind == LOOM_MEMORY_TABLE)
        note_event('r');
    free(memory);
}

static void warn_noting(void *user, loom_log_level level, const char *message)
{
    (void)user;
    if (level != LOOM_LOG_WARNING)
        return;
    CHECK(strstr(message, "loom_map_view_end") != NULL || strstr(message, "loom_filter_view_end") != NULL);
    note_event('w');
}

static void drain_noting(loom__machine *machine)
{
    (void)machine;
    note_event('d');
}

/* The table's memory goes after all that runs on the device; nothing of it is left, not even with views of another kind. */
TEST(test_api_view_out_when_destroyed)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.allocator = (loom_allocator){allocate_noting, release_noting, NULL};
    config.log = warn_noting;
    CHECK_OK(loom_context_create(&config, &context));
    make_lend(context);
    loom__machine_ops draining = *context->machine->ops;
    draining.drain = drain_noting;
    context->machine->ops = &draining;
    for (int r = 0; r < RULES; r++)
        for (int out = 0; out < 3; out++) {
            test_note("access %d, %d views out", (int)rules[r].access, out);
            loom_map *map = make_table(context, 4, 0);
            loom_map_view view = begin(map, rules[r].access);
            END(map, &view);
            for (int i = 0; i < out; i++)
                begin(map, rules[r].access);
            events.length = 0;
            loom_map_destroy(map);
            CHECK_TEXT(events.happened, out ? "wdr" : "r");
        }
    make_others_lend(context);
    for (int out = 0; out < 3; out++) {
        test_note("a filter, %d views out", out);
        loom_filter *filter = make_filter(context);
        for (int i = 0; i < out; i++)
            begin_filter(filter);
        events.length = 0;
        loom_filter_destroy(filter);
        CHECK_TEXT(events.happened, out ? "wdr" : "r");
    }
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
    check_filter_rules(t, context);
    check_wrong_filter_views(context);
    check_filter_overfilled(context);
    loom_context_destroy(context);
}

/* ---- Perfect tables: lookups alone ---- */

static loom_map *make_perfect_table(loom_context *context, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = 1000;
    config.engine = LOOM_ENGINE_PERFECT;
    return make_map_from(context, &config);
}

/* Views that write are refused, and loom_supports says so beforehand, of open tables the contrary. */
static void check_perfect_accesses(loom_context *context, loom_map *map, loom_type type)
{
    CHECK_OK(loom_supports(context, type, LOOM_ENGINE_PERFECT, LOOM_FEATURE_VIEWS));
    CHECK_REFUSED(loom_supports(context, type, LOOM_ENGINE_PERFECT, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    CHECK_OK(loom_supports(context, type, LOOM_ENGINE_OPEN, LOOM_FEATURE_WRITING_VIEWS));
    for (int r = 0; r < RULES; r++)
        if (rules[r].access != LOOM_VIEW_FIND)
            refuse(map, rules[r].access, LOOM_UNSUPPORTED);
    CHECK_OK(loom_map_clear(map, NULL, NULL)); /* nothing is out */
}

static loom_map_view begin_perfect(loom_map *map, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL));
    CHECK_EQ(view.layout, LOOM_PERFECT_VIEW_LAYOUT); /* by which loom::table of device.cuh refuses it */
    CHECK(view.layout != LOOM_VIEW_LAYOUT);
    CHECK_EQ(view.access, LOOM_VIEW_FIND);
    CHECK_EQ(view.key_bytes, key_bytes);
    CHECK_EQ(view.value_bytes, value_bytes);
    return view;
}

static void check_perfect_views(loom_context *context)
{
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
        for (uint32_t value_bytes = 0; value_bytes <= 8; value_bytes += 4) {
            test_note("keys of %u bytes, values of %u", key_bytes, value_bytes);
            loom_map *map = make_perfect_table(context, key_bytes, value_bytes), *another;
            another = make_perfect_table(context, key_bytes, value_bytes);
            batch few = make_batch_of(key_bytes, value_bytes, 1000), many = make_batch_of(key_bytes, value_bytes, 3000);
            fill_distinct(&few, 4, 0);
            fill_distinct(&many, 4, 0);
            check_perfect_accesses(context, map, value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET);
            CHECK_EQ(checked_insert(map, &few, LOOM_KEEP).ok, 1000);

            /* While views are out, the table stays as it is. */
            loom_map_view view = begin_perfect(map, key_bytes, value_bytes);
            loom_map_view twin = begin_perfect(map, key_bytes, value_bytes);
            CHECK(view.serial != twin.serial);
            CHECK_EQ(view.generation, twin.generation);
            CHECK_REFUSED(loom_map_insert(map, many.keys, many.values, many.n, LOOM_KEEP, NULL, NULL, NULL),
                          LOOM_IN_USE);
            CHECK_REFUSED(loom_map_erase(map, few.keys, few.n, NULL, NULL, NULL), LOOM_IN_USE);
            CHECK_REFUSED(loom_map_reserve(map, 5000, NULL), LOOM_IN_USE);
            check_contents(map, &few);
            END_INVALID(another, &view);
            END(map, &view);
            END_INVALID(map, &view);
            CHECK_REFUSED(loom_map_clear(map, NULL, NULL), LOOM_IN_USE);
            loom_map_view bent = twin;
            bent.table[0] ^= 64;
            END_INVALID(map, &bent);
            END(map, &twin);

            /* Keys come, the table grows and moves: the next view is another one. */
            checked_insert(map, &many, LOOM_KEEP);
            loom_map_view later = begin_perfect(map, key_bytes, value_bytes);
            CHECK(later.generation != view.generation);
            END_INVALID(map, &view);
            END(map, &later);
            check_contents(map, &many);
            free_batch(&few);
            free_batch(&many);
            loom_map_destroy(another);
            loom_map_destroy(map);
        }
}

TEST(test_api_view_of_perfect_tables)
{
    loom_context *context = make_context(t);
    make_others_lend(context);
    check_perfect_views(context);
    loom_context_destroy(context);
}

TEST(test_cuda_view_of_perfect_tables)
{
    loom_context *context = make_cuda_context(t);
    check_perfect_views(context);
    loom_context_destroy(context);
}

/* A machine without kernels of users says so, and nothing is out afterwards. */
TEST_EACH_KIND(test_open_view_unsupported_on_cpu, .cpu_only = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    loom_map_view none;
    memset(&none, 0, sizeof none);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_DEFAULT, t->engine, LOOM_FEATURE_VIEWS), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_DEFAULT, t->engine, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    for (int r = 0; r < RULES; r++) {
        refuse(map, rules[r].access, LOOM_UNSUPPORTED);
        none.access = rules[r].access;
        END_INVALID(map, &none);
    }
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_FIND, &none, &none), LOOM_INVALID_ARGUMENT); /* nor streams */
    loom_filter *filter = make_filter(context);
    refuse_filter(filter, LOOM_UNSUPPORTED);
    CHECK_OK(loom_filter_clear(filter, NULL, NULL));
    loom_filter_destroy(filter);
    fill_distinct(&b, 4, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 100);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
