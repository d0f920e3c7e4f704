/* Registers the toy engine in this program and adds it to the list of cases, so that test_cases_agree_with_reference
 * runs for it. The tests here cover what that test does not reach: full tables, automatic growth, large tables
 * that the core erases from, and files. */
#include "harness/counting_allocator.h"
#include "harness/file_surgery.h"
#include "harness/map_model.h"
#include "harness/saved_table.h"
#include "toy_engine.h"

static const table_form toy_forms[] = {
    {LOOM_TYPE_MAP, 4, 4}, {LOOM_TYPE_MAP, 8, 8}, {LOOM_TYPE_MAP, 4, 8},     {LOOM_TYPE_MAP, 8, 4},
    {LOOM_TYPE_SET, 4, 0}, {LOOM_TYPE_SET, 8, 0}, {LOOM_TYPE_DEFAULT, 0, 0},
};
static const table_case toy_case = {
    .name = "toy", .engine = TOY_ENGINE, .forms = toy_forms, .largest_load = 0.95, .partial = 1};

__attribute__((constructor)) static void add_toy(void)
{
    loom__engine_register(&toy_engine);
    table_case_add(&toy_case);
}

/* The tables have a few slots fewer than there are keys. They fill up, and erasures shift long runs of keys, past the
 * last slot to the first. */
TEST_EACH_KIND(test_toy_model_nearly_full, .cpu_only = 1)
{
    loom_context *context = make_context(t);
    uint64_t refused = 0;
    t->engine = TOY_ENGINE;
    model m = make_model(t, make_map(t, context, 40), 40);
    for (uint64_t i = 0; i < test_scaled(t, 300, 60); i++) {
        batch in = random_batch(t, 70, 90), out = random_batch(t, 70, 20);
        refused += model_insert(&m, &in, i % 2 ? LOOM_KEEP : LOOM_OVERWRITE).full;
        model_compare(&m);
        model_erase(&m, &out);
        model_compare(&m);
        free_batch(&in);
        free_batch(&out);
    }
    CHECK_GT(refused, 0);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* The core moves the keys: the engine has no code for it. */
TEST_EACH_KIND(test_toy_insert_grows_the_table, .cpu_only = 1)
{
    loom_context *context = make_context(t);
    t->engine = TOY_ENGINE;
    loom_map_config config = make_config(t, 10);
    config.growth = 2;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, 5000);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    check_contents(map, &b);
    CHECK_GE(map_stats(map).capacity, b.n);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The core erases by value: it copies pairs out, some at a time, and erases their keys. Erasures move keys to slots
 * that were copied already. */
TEST_EACH(test_toy_erase_if, .cpu_only = 1)
{
    counting_allocator *allocator = counting_create();
    loom_context *context = make_counting_context(t, allocator, 1);
    const uint64_t n = 30000, few = 10, most = n - n / 10;
    const loom_number number = t->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32;
    t->engine = TOY_ENGINE;
    loom_map_config config = make_config(t, n);
    config.max_load = 0.95; /* long runs */
    model m = make_model(t, make_map_from(context, &config), n);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, batch_key(&b, i), i);
    CHECK_EQ(model_build(&m, &b, LOOM_KEEP).ok, n);
    counting_fail_at(allocator, 1);
    CHECK_REFUSED(loom_map_erase_if(m.map, number, NULL, NULL, NULL, NULL), LOOM_OUT_OF_MEMORY);
    counting_fail_at(allocator, 0);
    model_compare(&m);
    CHECK_EQ(model_erase_if(&m, number, NULL, &few).ok, few + 1);
    model_compare(&m);
    CHECK_EQ(model_erase_if(&m, number, NULL, &most).exists, n / 10 - 1);
    model_compare(&m);
    model_find(&m, &b);
    CHECK_EQ(model_erase_if(&m, number, NULL, NULL).exists, 0);
    CHECK_EQ(model_build(&m, &b, LOOM_KEEP).ok, n);
    CHECK_EQ(model_erase_if(&m, number, &few, &few).ok, 1);
    model_compare(&m);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
    counting_destroy(allocator);
}

/* All checksums are right, but keys lie where no lookup comes by: the survey finds them. */
TEST_EACH_KIND(test_toy_load_keys_out_of_place, .cpu_only = 1)
{
    t->engine = TOY_ENGINE;
    saved_table s = saved_make(t, 1000, 900);
    unsigned char *keys = surgery_partition(s.file, s.bytes, 0);
    CHECK(keys != NULL);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    for (uint64_t i = 0; i < 200; i++) /* of the first slots, most of which hold a key */
        keys[i * t->key_bytes] ^= 1;
    surgery_sign(s.file, s.bytes);
    saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
    saved_free(&s);
}
