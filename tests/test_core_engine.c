/* Defaults of the table core for engines that leave out optional members. The tests change a copy of the toy engine
 * (tests/toy_engine) and register it under a number of its own. Each test runs in a process of its own, with a fresh
 * registry. */
#include "core/engine.h"
#include "core/table.h"
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"
#include "toy_engine/toy_engine.h"
#include "toy_engine/toy_layout.h"

#include <string.h>

#define OTHER_ENGINE ((loom_engine)101)

static loom__engine other;

/* Registers `other`, a copy of the toy engine. Tests change its members afterwards. */
static void register_other(test_run *t)
{
    other = toy_engine;
    other.id = OTHER_ENGINE;
    other.name = "other";
    CHECK(loom__engine_register(&other));
    t->engine = OTHER_ENGINE;
}

TEST(test_core_engine_register_taken_number)
{
    CHECK(loom__engine_of(LOOM_TYPE_MAP, TOY_ENGINE) == &toy_engine);
    CHECK(!loom__engine_register(&toy_engine));
    loom__engine impostor = toy_engine;
    impostor.id = LOOM_ENGINE_PERFECT;
    CHECK(!loom__engine_register(&impostor));
    impostor.id = LOOM_ENGINE_DEFAULT;
    CHECK(!loom__engine_register(&impostor));
    register_other(t);
    CHECK(loom__engine_of(LOOM_TYPE_SET, OTHER_ENGINE) == &other);
    CHECK(loom__engine_of(LOOM_TYPE_COUNTER, OTHER_ENGINE) == NULL);
}

static const void *no_kernels(const loom__machine *machine)
{
    (void)machine;
    return NULL;
}

/* The machine has no kernels for the engine: every call that makes a table is refused. */
TEST(test_core_engine_not_offered_by_the_machine)
{
    register_other(t);
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 100);
    loom_map *map = make_map_from(context, &config), *refused = NULL;
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_save(map, test_path(t, "other.loom"), NULL));
    loom_map_destroy(map);
    other.kernels = no_kernels;
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, OTHER_ENGINE, LOOM_FEATURE_FIND), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_create(context, &config, &refused), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_memory_required(context, &config, &memory), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "other.loom"), &refused, NULL), LOOM_UNSUPPORTED);
    loom_context_destroy(context);
}

/* If a property of the engine rules a feature out, the sentence names the engine, and the core does not call
 * `supports`. */
TEST(test_core_engine_supports_follows_from_properties)
{
    static const loom_feature ruled_out[] = {LOOM_FEATURE_CONCURRENT_READS, LOOM_FEATURE_VIEWS,
                                             LOOM_FEATURE_WRITING_VIEWS};
    register_other(t);
    other.supports = NULL;
    loom_context *context = make_context(t);
    for (int i = 0; i < 3; i++) {
        CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, OTHER_ENGINE, ruled_out[i]), LOOM_UNSUPPORTED);
        CHECK(strstr(loom_last_error(), "other engine") != NULL);
    }
    CHECK_OK(loom_supports(context, LOOM_TYPE_MAP, OTHER_ENGINE, LOOM_FEATURE_ERASE));
    other.view_layout = 1;
    other.moves_keys = 1;
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MAP, OTHER_ENGINE, LOOM_FEATURE_WRITING_VIEWS), LOOM_UNSUPPORTED);
    CHECK(strstr(loom_last_error(), "other engine") != NULL);
    loom_context_destroy(context);
}

static loom__place place_of_slots;

/* Puts the state of the table into device memory, and the slots into the place that the test chose. */
static void lay_out_apart(loom__table *table)
{
    const uint64_t slot_bytes = table->is.key_bytes + table->is.value_bytes + 1;
    table->slots_per_bucket = 1;
    loom__table_add_state(table, 0);
    loom__table_add_region_at(table, place_of_slots, LOOM__SECTION_PARTITIONS, table->is.buckets * slot_bytes,
                              TOY_UNIT_BYTES);
}

static void attach_apart(loom__table *table)
{
    const loom__region state = table->regions[0];
    table->regions[0] = table->regions[1]; /* attach expects the slots in region 0 */
    toy_engine.attach(table);
    table->regions[0] = state;
}

/* Clone, save, load and growth handle regions in both places. The allocator gets one request for each place. */
TEST(test_core_engine_region_in_host_memory)
{
    enum { KEYS = 1000 };
    register_other(t);
    other.lay_out = lay_out_apart;
    other.attach = attach_apart;
    counting_allocator *c = counting_create();
    loom_context *context = make_counting_context(t, c, 1);
    batch b = make_batch(t, KEYS);
    fill_distinct(&b, 1, 0);
    uint64_t blocks[2];
    for (int host = 0; host < 2; host++) {
        place_of_slots = host ? LOOM__PLACE_HOST : LOOM__PLACE_DEVICE;
        loom_map *map = make_map(t, context, KEYS), *twin, *loaded;
        blocks[host] = counting_pieces(c);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        CHECK_OK(loom_map_reserve(map, 3 * KEYS, NULL));
        CHECK_OK(loom_map_clone(map, &twin, NULL));
        CHECK_OK(loom_map_save(map, test_path(t, "apart.loom"), NULL));
        CHECK_OK(loom_map_load(context, test_path(t, "apart.loom"), &loaded, NULL));
        loom_map_destroy(map);
        check_contents(twin, &b);
        check_contents(loaded, &b);
        loom_map_destroy(twin);
        loom_map_destroy(loaded);
    }
    CHECK_EQ(blocks[1], blocks[0] + 1);
    loom_map_config config = make_config(t, KEYS);
    loom_map *refused = NULL;
    place_of_slots = LOOM__PLACE_FILE;
    CHECK_REFUSED(loom_map_create(context, &config, &refused), LOOM_UNSUPPORTED);
    free_batch(&b);
    loom_context_destroy(context);
    counting_destroy(c);
}

static uint64_t always(const loom__table *table)
{
    (void)table;
    return 0;
}

/* The engine asks for upkeep, but the machine has no upkeep kernel for it. Erasures succeed without upkeep. */
TEST(test_core_engine_upkeep_without_a_kernel)
{
    register_other(t);
    other.upkeep_after = always;
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    CHECK_EQ(checked_erase(map, &b).ok, b.n);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Without a `refill` the core moves keys through an array. The array has room for 128 pairs when the table holds
 * 100. */
TEST(test_core_engine_resize_takes_memory_for_its_keys)
{
    enum { KEYS = 100, ARRAY = 128, CAPACITY = 1000 };
    counting_allocator *c = counting_create();
    register_other(t);
    loom_context *context = make_counting_context(t, c, 1);
    loom_map_config config = make_config(t, KEYS), larger = make_config(t, CAPACITY);
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_memory_required(context, &larger, &memory));
    loom_map *map = make_map_from(context, &config);
    CHECK_OK(loom_map_reserve(map, KEYS + 1, NULL)); /* resizes an empty table */
    batch b = make_batch(t, KEYS);
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    const uint64_t before = counting_bytes(c);
    counting_reset_peak(c);
    CHECK_OK(loom_map_reserve(map, CAPACITY, NULL));
    CHECK_LE(counting_peak(c), before + memory.table_bytes + ARRAY * (b.key_bytes + b.value_bytes));
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(c);
}
