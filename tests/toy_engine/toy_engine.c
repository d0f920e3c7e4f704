/* The toy engine as the core sees it: which tables there are, and where their parts lie. */
#include "toy_engine.h"
#include "core/error.h"
#include "core/table.h"
#include "toy_layout.h"

#include <math.h>

_Static_assert(sizeof(toy_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

static loom_status supports(loom__machine *machine, loom_type type, loom_feature feature)
{
    (void)type;
    RETURN_ERROR_IF(feature == LOOM_FEATURE_FIND_OR_INSERT || feature == LOOM_FEATURE_UPDATE ||
                        feature == LOOM_FEATURE_ACCUMULATE,
                    LOOM_UNSUPPORTED, "a toy table has build, insert, find and erase; use another engine for more");
    return machine->ops->supports(machine, feature);
}

/* More slots than keys (I3), in one partition. */
static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const double slots = floor((double)config->capacity / config->max_load) + 1;
    const uint32_t asked = config->buckets_per_partition;
    (void)machine;
    RETURN_ERROR_IF(slots > TOY_MOST_SLOTS || (asked != 0 && asked != slots), LOOM_INVALID_ARGUMENT,
                    "a toy table for %llu keys is one partition of %.0f slots, and there are at most %d; make it for "
                    "fewer keys, or let the engine choose the partition's size",
                    (unsigned long long)config->capacity, slots, TOY_MOST_SLOTS);
    is->partitions = 1;
    is->buckets = (uint32_t)slots;
    return LOOM_OK;
}

static loom_status check(const loom__description *is)
{
    RETURN_ERROR_IF(is->partitions != 1 || is->buckets == 0 || is->buckets > TOY_MOST_SLOTS, LOOM_BAD_FILE,
                    "the file speaks of %u partitions of %u slots, which no toy table has", is->partitions,
                    is->buckets);
    return LOOM_OK;
}

static void lay_out(loom__table *table)
{
    const uint64_t slot_bytes = table->is.key_bytes + table->is.value_bytes + 1;
    table->slots_per_bucket = 1;
    loom__table_add_region(table, LOOM__SECTION_PARTITIONS, table->is.buckets * slot_bytes, TOY_UNIT_BYTES);
    loom__table_add_state(table, 0);
}

static void attach(loom__table *table)
{
    toy_view *view = (toy_view *)(void *)table->view;
    *view = (toy_view){.totals = table->totals,
                       .seed = loom__seed_expand(table->is.seed),
                       .slots = table->is.buckets,
                       .key_bytes = table->is.key_bytes,
                       .value_bytes = table->is.value_bytes};
    if (table->totals == NULL) /* the table is only measured */
        return;
    view->keys = table->regions[0].memory;
    view->values = view->keys + (uint64_t)view->slots * view->key_bytes;
    view->used = view->values + (uint64_t)view->slots * view->value_bytes;
}

static const void *kernels_on(const loom__machine *machine)
{
    return machine->ops->id == LOOM_MACHINE_CPU ? &toy_kernels : NULL;
}

const loom__engine toy_engine = {
    .id = TOY_ENGINE,
    .name = "toy",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET,
    .layout_version = TOY_LAYOUT_VERSION,
    .supports = supports,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .kernels = kernels_on,
};
