/* Every case of the list (cases/table_cases.h) on every machine, against a reference. An operation that loom_supports
 * offers gives the reference's answers. Any other operation is refused with LOOM_UNSUPPORTED and a sentence, and
 * changes nothing. */
#include "harness/filter_fixture.h"
#include "harness/map_model.h"
#include "harness/multimap_model.h"

#include <string.h>

static int offers(test_run *t, loom_context *context, loom_feature feature)
{
    test_poison_last_error();
    const loom_status status = loom_supports(context, t->type, t->engine, feature);
    if (status != LOOM_OK)
        test_check_refused(__FILE__, __LINE__, "loom_supports", status, LOOM_UNSUPPORTED, LOOM_UNSUPPORTED);
    return status == LOOM_OK;
}

/* ---- Maps, sets and counters ----------------------------------------------------------------------------- */

typedef struct subject {
    model m;
    loom_context *context;
} subject;

static loom_map_config subject_config(test_run *t, uint64_t capacity)
{
    loom_map_config config = make_config(t, capacity);
    config.type = t->type;
    return config;
}

/* Compares all calls that read the table with the reference. */
static void compare(subject *s, const batch *b)
{
    const loom_stats stats = map_stats(s->m.map);
    test_run *t = s->m.t;
    CHECK_EQ(stats.engine, t->table->engine);
    CHECK_EQ(stats.type, t->type);
    CHECK_EQ(stats.key_bytes, t->key_bytes);
    CHECK_EQ(stats.value_bytes, t->value_bytes);
    CHECK_EQ(stats.size, reference_size(s->m.reference));
    CHECK_LE(stats.size, stats.slots);
    if (stats.size && t->table->one_access)
        CHECK_NEAR(stats.accesses_per_hit, 1.0, 0);
    checked_verify(s->m.map);
    model_find(&s->m, b);
    if (offers(t, s->context, LOOM_FEATURE_RETRIEVE_ALL))
        model_compare(&s->m);
}

static void run_build(subject *s, batch *b)
{
    model_build(&s->m, b, LOOM_KEEP);
    model_build(&s->m, b, LOOM_OVERWRITE);
}

static loom_status ask_build(subject *s, batch *b)
{
    return loom_map_build(s->m.map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL);
}

static void run_insert(subject *s, batch *b)
{
    model_insert(&s->m, b, LOOM_KEEP);
    model_insert(&s->m, b, LOOM_OVERWRITE);
}

static loom_status ask_insert(subject *s, batch *b)
{
    return loom_map_insert(s->m.map, b->keys, b->values, b->n, LOOM_KEEP, NULL, NULL, NULL);
}

static void run_insert_in_order(subject *s, batch *b)
{
    model_insert(&s->m, b, LOOM_KEEP | LOOM_IN_ORDER);
    model_insert(&s->m, b, LOOM_OVERWRITE | LOOM_IN_ORDER);
}

static loom_status ask_insert_in_order(subject *s, batch *b)
{
    return loom_map_insert(s->m.map, b->keys, b->values, b->n, LOOM_IN_ORDER, NULL, NULL, NULL);
}

static void run_find(subject *s, batch *b)
{
    model_find(&s->m, b);
    model_find_or(&s->m, b, random_u64(&s->m.t->random));
}

static loom_status ask_find(subject *s, batch *b)
{
    return loom_map_find(s->m.map, b->keys, b->n, b->values, NULL, NULL, NULL, NULL);
}

static void run_find_or_insert(subject *s, batch *b)
{
    model_find_or_insert(&s->m, b);
}

static loom_status ask_find_or_insert(subject *s, batch *b)
{
    return loom_map_find_or_insert(s->m.map, b->keys, b->values, b->n, NULL, NULL, NULL, NULL);
}

static void run_update(subject *s, batch *b)
{
    model_update(&s->m, b);
}

static loom_status ask_update(subject *s, batch *b)
{
    return loom_map_update(s->m.map, b->keys, b->values, b->n, NULL, NULL, NULL);
}

static void run_accumulate(subject *s, batch *b)
{
    model_accumulate(&s->m, b, (loom_combine)random_below(&s->m.t->random, 3), (int)random_below(&s->m.t->random, 2));
    model_count(&s->m, b);
}

static loom_status ask_accumulate(subject *s, batch *b)
{
    return loom_map_accumulate(s->m.map, b->keys, b->values, b->n, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, NULL, NULL, NULL);
}

static loom_status ask_count(subject *s, batch *b)
{
    return loom_map_count(s->m.map, b->keys, b->n, NULL, NULL, NULL);
}

static void run_erase(subject *s, batch *b)
{
    model_erase(&s->m, b);
}

static loom_status ask_erase(subject *s, batch *b)
{
    return loom_map_erase(s->m.map, b->keys, b->n, NULL, NULL, NULL);
}

static void run_erase_if(subject *s, batch *b)
{
    (void)b;
    model_erase_if_random(&s->m);
}

static loom_status ask_erase_if(subject *s, batch *b)
{
    (void)b;
    return loom_map_erase_if(s->m.map, LOOM_NUMBER_U32, NULL, NULL, NULL, NULL);
}

static void run_apply(subject *s, batch *b)
{
    model_apply(&s->m, b);
}

static loom_status ask_apply(subject *s, batch *b)
{
    memset(b->status, LOOM_APPLY_INSERT, b->n);
    return loom_map_apply(s->m.map, b->status, b->keys, b->values, b->n, 0, NULL, NULL, NULL, NULL);
}

static void run_retrieve(subject *s, batch *b)
{
    model_compare_cursor(&s->m, b->n + 1);
}

static loom_status ask_retrieve(subject *s, batch *b)
{
    uint64_t count = 0;
    return loom_map_retrieve_all(s->m.map, b->keys, b->values, b->n, &count, NULL, NULL);
}

static void run_clone(subject *s, batch *b)
{
    (void)b;
    model_clone(&s->m);
}

static loom_status ask_clone(subject *s, batch *b)
{
    loom_map *clone = NULL;
    (void)b;
    return loom_map_clone(s->m.map, &clone, NULL);
}

static void run_save(subject *s, batch *b)
{
    (void)b;
    model_save_and_load(&s->m, s->context);
}

static loom_status ask_save(subject *s, batch *b)
{
    (void)b;
    return loom_map_save(s->m.map, test_path(s->m.t, "refused.loom"), NULL);
}

/* Shrinks to the keys it holds, then reserves room for as many more. */
static void run_grow(subject *s, batch *b)
{
    const uint64_t wanted = reference_size(s->m.reference) + b->n;
    CHECK_OK(loom_map_shrink(s->m.map, NULL));
    compare(s, b);
    CHECK_OK(loom_map_reserve(s->m.map, wanted, NULL));
    CHECK_GE(map_stats(s->m.map).capacity, wanted);
    s->m.capacity = map_stats(s->m.map).capacity;
}

static loom_status ask_grow(subject *s, batch *b)
{
    return loom_map_reserve(s->m.map, 2 * (s->m.capacity + b->n), NULL);
}

static loom_status ask_concurrent_reads(subject *s, batch *b)
{
    loom_map_config config = subject_config(s->m.t, b->n);
    loom_map *map = NULL;
    config.concurrent_reads = 1;
    const loom_status status = loom_map_create(s->context, &config, &map);
    loom_map_destroy(map);
    return status;
}

static loom_status ask_view(subject *s, loom_view_access access)
{
    loom_map_view view;
    const loom_status status = loom_map_view_begin(s->m.map, access, &view, NULL);
    if (status == LOOM_OK)
        CHECK_OK(loom_map_view_end(s->m.map, &view, NULL));
    return status;
}

static loom_status ask_find_view(subject *s, batch *b)
{
    (void)b;
    return ask_view(s, LOOM_VIEW_FIND);
}

static loom_status ask_insert_view(subject *s, batch *b)
{
    (void)b;
    return ask_view(s, LOOM_VIEW_INSERT);
}

/* Each step starts with the table that the step before it left. */
static const struct {
    const char *name;
    loom_feature needs;
    void (*run)(subject *s, batch *b);        /* if offered: compared with the reference; NULL: `ask` */
    loom_status (*ask)(subject *s, batch *b); /* the bare call */
} steps[] = {
    {"build", LOOM_FEATURE_BUILD, run_build, ask_build},
    {"insert", LOOM_FEATURE_INSERT, run_insert, ask_insert},
    {"erase", LOOM_FEATURE_ERASE, run_erase, ask_erase},
    {"erase_if", LOOM_FEATURE_ERASE_IF, run_erase_if, ask_erase_if},
    {"insert in order", LOOM_FEATURE_INSERT_IN_ORDER, run_insert_in_order, ask_insert_in_order},
    {"find", LOOM_FEATURE_FIND, run_find, ask_find},
    {"update", LOOM_FEATURE_UPDATE, run_update, ask_update},
    {"find_or_insert", LOOM_FEATURE_FIND_OR_INSERT, run_find_or_insert, ask_find_or_insert},
    {"accumulate", LOOM_FEATURE_ACCUMULATE, run_accumulate, ask_accumulate},
    {"count", LOOM_FEATURE_ACCUMULATE, run_accumulate, ask_count},
    {"apply", LOOM_FEATURE_APPLY, run_apply, ask_apply},
    {"retrieve", LOOM_FEATURE_RETRIEVE_ALL, run_retrieve, ask_retrieve},
    {"grow", LOOM_FEATURE_GROW, run_grow, ask_grow},
    {"clone", LOOM_FEATURE_CLONE, run_clone, ask_clone},
    {"save and load", LOOM_FEATURE_SAVE, run_save, ask_save},
    {"concurrent reads", LOOM_FEATURE_CONCURRENT_READS, NULL, ask_concurrent_reads},
    {"view", LOOM_FEATURE_VIEWS, NULL, ask_find_view},
    {"writing view", LOOM_FEATURE_WRITING_VIEWS, NULL, ask_insert_view},
};

static void run_steps(subject *s, uint64_t universe)
{
    test_run *t = s->m.t;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        batch b = random_batch(t, universe, universe / 2);
        test_note("%s, %llu keys, %llu in the table", steps[i].name, (unsigned long long)b.n,
                  (unsigned long long)reference_size(s->m.reference));
        if (!offers(t, s->context, steps[i].needs))
            CHECK_REFUSED(steps[i].ask(s, &b), LOOM_UNSUPPORTED);
        else if (steps[i].run)
            steps[i].run(s, &b);
        else
            CHECK_OK(steps[i].ask(s, &b));
        compare(s, &b);
        free_batch(&b);
    }
}

/* A table made for n keys at the case's largest load takes all n. */
static void fill_whole(subject *s)
{
    batch all = make_batch(s->m.t, s->m.capacity);
    fill_distinct(&all, random_u64(&s->m.t->random), 0);
    if (offers(s->m.t, s->context, LOOM_FEATURE_BUILD)) {
        CHECK_EQ(model_build(&s->m, &all, LOOM_KEEP).ok, all.n);
        compare(s, &all);
    }
    model_clear(&s->m);
    if (offers(s->m.t, s->context, LOOM_FEATURE_INSERT)) {
        CHECK_EQ(model_insert(&s->m, &all, LOOM_KEEP).ok, all.n);
        compare(s, &all);
    }
    free_batch(&all);
}

/* Where the machine does not have the engine, no table can be made. */
static int is_absent(test_run *t)
{
    loom_context *context = make_context(t);
    const int absent = !offers(t, context, LOOM_FEATURE_FIND);
    const loom_map_config config = subject_config(t, 100);
    loom_map *map = NULL;
    if (absent)
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_UNSUPPORTED);
    loom_context_destroy(context);
    return absent;
}

static void agree_as_map(test_run *t)
{
    static const uint32_t sizes[] = {0, 2, 31, 127}; /* buckets of a partition, about */
    if (is_absent(t))
        return;
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t capacity = i == 1 ? 20 : test_scaled(t, 3000, 1000);
        subject s = {.context = make_context(t)};
        loom_map_config config = subject_config(t, capacity);
        config.max_load = i % 2 ? 0.5 : t->table->largest_load;
        config.buckets_per_partition = table_case_partition_size(t->table, sizes[i]);
        s.m = make_model(t, make_map_from(s.context, &config), capacity);
        fill_whole(&s);
        run_steps(&s, capacity + 10);
        loom_map_destroy(s.m.map);
        free_model(&s.m);
        loom_context_destroy(s.context);
    }
}

/* ---- Filters --------------------------------------------------------------------------------------------- */

/* The reference is a filter of the cpu machine, without SIMD, into which all keys went one by one. */
static void compare_filters(test_run *t, loom_filter *filter, loom_filter *reference, batch *in, batch *out)
{
    check_all_in(filter, in);
    check_same_bits(t, filter, reference);
    CHECK_EQ(filter_report(filter).engine, t->table->engine);
    CHECK_EQ(checked_filter_contains(NULL, filter, out).ok, checked_filter_contains(NULL, reference, out).ok);
}

static void agree_as_filter(test_run *t)
{
    static const uint32_t ways[] = {0, LOOM_DIRECTLY, LOOM_BY_PARTITION};
    const uint64_t n = test_scaled(t, 30000, 4000), seed = random_u64(&t->random);
    test_run plain = *t;
    plain.machine = LOOM_MACHINE_CPU;
    plain.simd = LOOM_SIMD_SCALAR;
    loom_context *context = make_context_with(t, 3, seed), *plain_context = make_context_with(&plain, 1, seed);
    loom_filter_config config = make_filter_config(t, n, 0);
    loom_filter *reference = make_filter_from(plain_context, &config), *other = NULL;
    batch in = make_batch(t, n), out = make_batch(t, n);
    fill_distinct(&in, seed, 0);
    fill_distinct(&out, seed, n);
    CHECK(offers(t, context, LOOM_FEATURE_INSERT));
    CHECK(offers(t, context, LOOM_FEATURE_FIND));
    checked_filter_insert(NULL, reference, &in, LOOM_DIRECTLY);
    for (size_t way = 0; way < 3; way++) {
        loom_filter *filter = make_filter_from(context, &config);
        test_note("flags %u", ways[way]);
        checked_filter_insert(context, filter, &in, ways[way]);
        compare_filters(t, filter, reference, &in, &out);
        test_note("refused");
        CHECK(!offers(t, context, LOOM_FEATURE_ERASE));
        if (offers(t, context, LOOM_FEATURE_CLONE)) {
            CHECK_OK(loom_filter_clone(filter, &other, NULL));
            compare_filters(t, other, reference, &in, &out);
            loom_filter_destroy(other);
        }
        if (offers(t, context, LOOM_FEATURE_SAVE)) {
            CHECK_OK(loom_filter_save(filter, test_path(t, "filter.loom"), NULL));
            CHECK_OK(loom_filter_load(context, test_path(t, "filter.loom"), &other, NULL));
            compare_filters(t, other, reference, &in, &out);
            loom_filter_destroy(other);
        }
        if (offers(t, context, LOOM_FEATURE_MERGE)) {
            CHECK_OK(loom_filter_create_like(filter, &other));
            CHECK_OK(loom_filter_merge(other, filter, NULL));
            compare_filters(t, other, reference, &in, &out);
            loom_filter_destroy(other);
        }
        CHECK_OK(loom_filter_clear(filter, NULL, NULL));
        CHECK_EQ(checked_filter_contains(context, filter, &in).ok, 0);
        loom_filter_destroy(filter);
    }
    loom_filter_destroy(reference);
    loom_context_destroy(context);
    loom_context_destroy(plain_context);
    free_batch(&in);
    free_batch(&out);
}

/* ---- Multimaps ------------------------------------------------------------------------------------------- */

/* The calls that change lists, in batches that many threads share; after each, all calls that read. */
static void agree_as_multimap(test_run *t)
{
    const uint64_t n = test_scaled(t, 30000, 4000);
    loom_context *context = make_multimap_context(t);
    loom_map_config config = make_multimap_config(t, n / 10, n);
    config.growth = 2;
    multimap_model m = make_multimap_model(t, context, &config);
    batch b = make_batch(t, n);
    for (int step = 0; step < 7; step++) {
        for (uint64_t i = 0; i < n && step != 3; i++) /* step 3 erases pairs of the batch before */
            set_pair(&b, i, distinct_key(b.key_bytes, 6, random_below(&t->random, i % 4 ? n / 8 : 3)), i);
        test_note("step %d", step);
        if (step == 0)
            multimap_build(&m, &b, LOOM_KEEP);
        else if (step == 3)
            multimap_erase_pairs(&m, &b);
        else if (step == 5)
            multimap_erase(&m, &b);
        else
            multimap_insert(&m, &b, step % 2 ? LOOM_KEEP : LOOM_KEEP | LOOM_IN_ORDER);
        multimap_find(&m, &b);
        multimap_compare(&m);
    }
    multimap_save_and_load(&m, context);
    multimap_compare(&m);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

TEST_EACH_CASE(test_cases_agree_with_reference, .threads = 1)
{
    if (t->type == LOOM_TYPE_FILTER)
        agree_as_filter(t);
    else if (t->type == LOOM_TYPE_MULTIMAP)
        agree_as_multimap(t);
    else
        agree_as_map(t);
}

/* ---- The list itself ------------------------------------------------------------------------------------- */

/* A case that this program adds to the list, as a program with its own engine would. The case is partial: of the tests
 * that run for every engine, only the test above runs for it. */
static const table_form added_forms[] = {{LOOM_TYPE_MAP, 8, 8}, {LOOM_TYPE_DEFAULT, 0, 0}};
static const table_case added_case = {
    .name = "added", .engine = LOOM_ENGINE_OPEN, .forms = added_forms, .largest_load = 0.9, .partial = 1};

__attribute__((constructor)) static void add_case(void)
{
    table_case_add(&added_case);
}

TEST(test_cases_list_takes_an_added_case)
{
    CHECK(table_case_find("added") == &added_case);
    CHECK(table_case_of(LOOM_ENGINE_OPEN, LOOM_ROWS_ON_DEVICE) ==
          table_case_at(0)); /* the first one stands for the engine */
    CHECK_EQ(table_case_partition_size(&added_case, 31), 0);
    CHECK(!table_case_add(&added_case)); /* its name is taken */
    CHECK(table_case_find("no such case") == NULL);
    CHECK(t->table == table_case_at(0));
}

/* LOOM_ENGINE_DEFAULT is the first engine of the list. The widths of the list are the widths that tables can have. */
TEST(test_cases_list_agrees_with_the_library)
{
    loom_context *context = make_context(t);
    const table_case *table;
    for (size_t i = 0; (table = table_case_at(i)) != NULL; i++)
        for (const table_form *form = table->forms; form->type; form++) {
            test_note("%s, %s of %u + %u bytes", table->name, table_type_name(form->type), form->key_bytes,
                      form->value_bytes);
            CHECK_OK(loom_supports(context, form->type, table->engine, LOOM_FEATURE_FIND));
            if (form->type == LOOM_TYPE_FILTER)
                continue;
            loom_map_config config = make_config(t, 100);
            config.type = form->type;
            config.key_bytes = form->key_bytes;
            config.value_bytes = form->value_bytes;
            if (table != table_case_default(form->type))
                config.engine = table->engine;
            for (uint32_t about = 0; about < 4000; about = about * 3 + 1) {
                config.buckets_per_partition = table_case_partition_size(table, about);
                loom_map *map = make_map_from(context, &config);
                CHECK_EQ(map_stats(map).engine, table->engine);
                loom_map_destroy(map);
            }
            config.max_load = table->largest_load;
            loom_map_destroy(make_map_from(context, &config));
        }
    loom_context_destroy(context);
}
