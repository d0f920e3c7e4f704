/* Device views beyond those of open tables: views of filters, perfect tables and multimaps, tables and filters that are
 * destroyed while views are out, and machines that lend none. See test_api_view.c. */
#include "harness/view_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "api/context.h"

/* ---- Filters ------------------------------------------------------------------------------------------------ */

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

/* Calls that kernels with a view may overlap succeed. Calls that must run alone succeed if `alone`. */
static void check_filter_calls(test_run *t, loom_filter *filter, loom_filter *like, batch *b, int alone)
{
    loom_status wanted = alone ? LOOM_OK : LOOM_IN_USE;
    loom_filter *clone = NULL, *another = NULL;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    uint64_t bytes;
    CHECK_OK(loom_filter_insert(filter, b->keys, b->n, 0, NULL, NULL, NULL));
    CHECK_OK(loom_filter_insert(filter, b->keys, b->n, LOOM_DIRECTLY, NULL, NULL, NULL));
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
        CHECK_REFUSED(loom_filter_insert(filter, b->keys, b->n, LOOM_BY_PARTITION, NULL, NULL, NULL), LOOM_IN_USE);
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
        END_FILTER_INVALID(filter, &first); /* each view ends once, whatever else is lent */
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
    CHECK_REFUSED(loom_filter_clear(filter, NULL, NULL), LOOM_IN_USE); /* the view is still out */
    END_FILTER(filter, &view);
    CHECK_OK(loom_filter_clear(filter, NULL, NULL));

    /* Many views at once, up to a bound. A copy of a view may end it, once. */
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

    /* A view of a destroyed filter is not a view of the next filter. */
    view = begin_filter(filter);
    loom_filter_destroy(filter);
    filter = make_filter(context);
    wrong = begin_filter(filter);
    END_FILTER_INVALID(filter, &view);
    END_FILTER(filter, &wrong);
    loom_filter_destroy(filter);
    loom_filter_destroy(like);
}

/* The library does not know how many keys came through a view. The next insertion counts the bits, and reports
 * LOOM_OVERFILLED only if it holds. */
static void check_filter_overfilled(loom_context *context)
{
    loom_filter *filter = make_filter(context);
    batch few = make_batch_of(4, 0, 10), many = make_batch_of(4, 0, 3000);
    fill_distinct(&few, 4, 0);
    fill_distinct(&many, 4, 10);
    loom_filter_view view = begin_filter(filter);
    END_FILTER(filter, &view);
    CHECK_OK(loom_filter_insert(filter, few.keys, few.n, 0, NULL, NULL, NULL));
    CHECK_STATUS(loom_filter_insert(filter, many.keys, many.n, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    view = begin_filter(filter);
    END_FILTER(filter, &view);
    CHECK_STATUS(loom_filter_insert(filter, few.keys, few.n, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    free_batch(&few);
    free_batch(&many);
    loom_filter_destroy(filter);
}

TEST(test_api_view_of_filters)
{
    loom_context *context = make_context(t);
    make_others_lend(context);
    check_filter_rules(t, context);
    check_wrong_filter_views(context);
    check_filter_overfilled(context);
    loom_context_destroy(context);
}

TEST(test_cuda_view_of_filters)
{
    loom_context *context = make_cuda_context(t);
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

/* Perfect tables lend no views that write: the call is refused, and loom_supports agrees. For open tables loom_supports
 * offers such views. */
static void check_perfect_accesses(loom_context *context, loom_map *map, loom_type type)
{
    CHECK_OK(loom_supports(context, type, LOOM_ENGINE_PERFECT, LOOM_FEATURE_VIEWS));
    CHECK_REFUSED(loom_supports(context, type, LOOM_ENGINE_PERFECT, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    CHECK_OK(loom_supports(context, type, LOOM_ENGINE_OPEN, LOOM_FEATURE_WRITING_VIEWS));
    for (int access = LOOM_VIEW_FIND; access <= LOOM_VIEW_MIXED; access++)
        if (access != LOOM_VIEW_FIND)
            refuse_view(map, (loom_view_access)access, LOOM_UNSUPPORTED);
    CHECK_OK(loom_map_clear(map, NULL, NULL)); /* no view is out */
}

static loom_map_view begin_perfect(loom_map *map, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL));
    CHECK_EQ(view.layout, LOOM_PERFECT_VIEW_LAYOUT); /* loom::table of device.cuh refuses this layout */
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

            /* While views are out, the table does not change. */
            loom_map_view view = begin_perfect(map, key_bytes, value_bytes);
            loom_map_view twin = begin_perfect(map, key_bytes, value_bytes);
            CHECK(view.serial != twin.serial);
            CHECK_EQ(view.generation, twin.generation);
            CHECK_REFUSED(loom_map_insert(map, many.keys, many.values, many.n, LOOM_KEEP, NULL, NULL, NULL),
                          LOOM_IN_USE);
            CHECK_REFUSED(loom_map_erase(map, few.keys, few.n, NULL, NULL, NULL), LOOM_IN_USE);
            CHECK_REFUSED(loom_map_reserve(map, 5000, NULL), LOOM_IN_USE);
            check_contents(map, &few);
            END_VIEW_INVALID(another, &view);
            END_VIEW(map, &view);
            END_VIEW_INVALID(map, &view);
            CHECK_REFUSED(loom_map_clear(map, NULL, NULL), LOOM_IN_USE);
            loom_map_view bent = twin;
            bent.table[0] ^= 64;
            END_VIEW_INVALID(map, &bent);
            END_VIEW(map, &twin);

            /* The table grows and moves: the next view is different. */
            checked_insert(map, &many, LOOM_KEEP);
            loom_map_view later = begin_perfect(map, key_bytes, value_bytes);
            CHECK(later.generation != view.generation);
            END_VIEW_INVALID(map, &view);
            END_VIEW(map, &later);
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

/* ---- Multimaps: lookups, and appends to chains ---- */

static loom_map *make_multimap(loom_context *context, loom_engine engine)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = engine;
    config.key_bytes = 4;
    config.value_bytes = 8;
    config.capacity = config.values = 1000;
    return make_map_from(context, &config);
}

static loom_map_view begin_of_multimap(loom_map *map, loom_engine engine, loom_view_access access)
{
    loom_map_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_map_view_begin(map, access, &view, NULL));
    CHECK_EQ(view.layout, engine == LOOM_ENGINE_CHAIN ? LOOM_CHAIN_VIEW_LAYOUT : LOOM_MULTI_VIEW_LAYOUT);
    CHECK_EQ(view.access, access);
    CHECK_EQ(view.key_bytes, 4);
    CHECK_EQ(view.value_bytes, 8);
    return view;
}

/* An open multimap lends no view that writes, and says which engine does. A chain multimap lends views that insert, and
 * no others that write. loom_supports agrees. */
static void check_multimap_accesses(loom_context *context, loom_map *map, loom_engine engine)
{
    const int appends = engine == LOOM_ENGINE_CHAIN;
    CHECK_OK(loom_supports(context, LOOM_TYPE_MULTIMAP, engine, LOOM_FEATURE_VIEWS));
    if (appends)
        CHECK_OK(loom_supports(context, LOOM_TYPE_MULTIMAP, engine, LOOM_FEATURE_WRITING_VIEWS));
    else
        CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MULTIMAP, engine, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    for (int access = LOOM_VIEW_INSERT; access <= LOOM_VIEW_MIXED; access++) {
        if (appends && access == LOOM_VIEW_INSERT)
            continue;
        refuse_view(map, (loom_view_access)access, LOOM_UNSUPPORTED);
        CHECK(strstr(loom_last_error(), appends ? "LOOM_VIEW_INSERT" : "LOOM_ENGINE_CHAIN") != NULL);
    }
    CHECK_OK(loom_map_clear(map, NULL, NULL)); /* no view is out */
}

/* Values must not be read while kernels append. No call overlaps such a view, not even an insertion. */
static void check_appending_views(loom_map *map, batch *b)
{
    uint64_t counts[100], size;
    loom_map_view view = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_INSERT);
    loom_map_view twin = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_INSERT);
    const int folds = view_faults.folds;
    CHECK(view.serial != twin.serial);
    refuse_view(map, LOOM_VIEW_FIND, LOOM_IN_USE);
    CHECK_REFUSED(loom_map_insert(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_build(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_erase(map, b->keys, b->n, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_erase_pairs(map, b->keys, b->values, b->n, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_find(map, b->keys, b->n, b->values, NULL, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_find_counts(map, b->keys, b->n, counts, NULL, NULL, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_size(map, &size, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_reserve_values(map, 5000, NULL), LOOM_IN_USE);
    CHECK_REFUSED(loom_map_shrink(map, NULL), LOOM_IN_USE);
    END_VIEW(map, &view);
    END_VIEW_INVALID(map, &view);
    CHECK_REFUSED(loom_map_clear(map, NULL, NULL), LOOM_IN_USE);
    CHECK_EQ(view_faults.folds, folds); /* the last view counts for all */
    view_faults.failing_folds = 1;
    CHECK_REFUSED(loom_map_view_end(map, &twin, NULL), LOOM_DEVICE); /* still out: try again */
    END_VIEW(map, &twin);
    CHECK_EQ(view_faults.folds, folds + 2);
    view = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_FIND);
    refuse_view(map, LOOM_VIEW_INSERT, LOOM_IN_USE);
    CHECK_OK(loom_map_find_counts(map, b->keys, b->n, counts, NULL, NULL, NULL));
    CHECK_REFUSED(loom_map_insert(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL), LOOM_IN_USE);
    END_VIEW(map, &view);
    CHECK_EQ(view_faults.folds, folds + 2);
}

static void append_to(loom_map *map, int zeroings)
{
    loom_map_view view = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_INSERT);
    CHECK_EQ(view_faults.zeroings, zeroings);
    loom_map_view twin = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_INSERT);
    CHECK_EQ(view_faults.zeroings, zeroings);
    END_VIEW(map, &view);
    END_VIEW(map, &twin);
}

/* What kernels may take is zeroed before the first view that appends, and again if calls may have written there. */
static void check_zeroing(loom_map *map, batch *b)
{
    const int before = view_faults.zeroings;
    loom_map_view view = begin_of_multimap(map, LOOM_ENGINE_CHAIN, LOOM_VIEW_FIND);
    END_VIEW(map, &view);
    CHECK_EQ(view_faults.zeroings, before);
    CHECK_OK(loom_map_insert(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL));
    view_faults.failing_zeroings = 1;
    refuse_view(map, LOOM_VIEW_INSERT, LOOM_DEVICE);
    append_to(map, before + 2);
    append_to(map, before + 2);
    CHECK_OK(loom_map_erase(map, b->keys, 3, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase_pairs(map, b->keys, b->values, b->n, NULL, NULL, NULL));
    append_to(map, before + 2);
    CHECK_OK(loom_map_insert(map, b->keys, b->values, 1, LOOM_KEEP, NULL, NULL, NULL));
    append_to(map, before + 3);
    CHECK_OK(loom_map_build(map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL));
    append_to(map, before + 4);
    CHECK_OK(loom_map_reserve_values(map, 3000, NULL));
    append_to(map, before + 5);
    CHECK_OK(loom_map_shrink(map, NULL));
    append_to(map, before + 6);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    append_to(map, before + 7);
}

TEST(test_api_view_of_multimaps)
{
    static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_CHAIN};
    loom_context *context = make_context(t);
    batch b = make_batch_of(4, 8, 100);
    make_chain_lend(context);
    fill_distinct(&b, 4, 0);
    for (int i = 0; i < 2; i++) {
        test_note("engine %d", (int)engines[i]);
        loom_map *map = make_multimap(context, engines[i]);
        check_multimap_accesses(context, map, engines[i]);
        CHECK_OK(loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL));
        loom_map_view view = begin_of_multimap(map, engines[i], LOOM_VIEW_FIND);
        END_VIEW(map, &view);
        if (engines[i] == LOOM_ENGINE_CHAIN) {
            check_appending_views(map, &b);
            check_zeroing(map, &b);
        }
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- Destroyed with views out ---- */

static struct {
    char happened[8]; /* d: drain, r: release of a table, w: warning */
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

/* The memory of a table is released after the work on the device has ended, whatever views are out. */
TEST(test_api_view_out_when_destroyed)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.allocator = (loom_allocator){allocate_noting, release_noting, NULL};
    config.log = warn_noting;
    CHECK_OK(loom_context_create(&config, &context));
    make_open_lend(context);
    loom__machine_ops draining = *context->machine->ops;
    draining.drain = drain_noting;
    context->machine->ops = &draining;
    for (int access = LOOM_VIEW_FIND; access <= LOOM_VIEW_MIXED; access++)
        for (int out = 0; out < 3; out++) {
            test_note("access %d, %d views out", access, out);
            loom_map *map = make_open_table(context, 4, 0);
            loom_map_view view = begin_view(map, (loom_view_access)access);
            END_VIEW(map, &view);
            for (int i = 0; i < out; i++)
                begin_view(map, (loom_view_access)access);
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

/* ---- Machines that lend none ---- */

/* A machine that has no kernels of users refuses views. No view is out afterwards. */
TEST_EACH_KIND(test_open_view_unsupported_on_cpu, .cpu_only = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    loom_map_view none;
    memset(&none, 0, sizeof none);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_DEFAULT, t->engine, LOOM_FEATURE_VIEWS), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_DEFAULT, t->engine, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    for (int access = LOOM_VIEW_FIND; access <= LOOM_VIEW_MIXED; access++) {
        refuse_view(map, (loom_view_access)access, LOOM_UNSUPPORTED);
        none.access = (uint32_t)access;
        END_VIEW_INVALID(map, &none);
    }
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_FIND, &none, &none),
                  LOOM_INVALID_ARGUMENT); /* the cpu machine has no streams */
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
