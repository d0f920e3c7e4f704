#include "view_fixture.h"

#include <string.h>

#include "api/context.h"
#include "core/error.h"
#include "core/kernels.h"
#include "cuda_driver.h"

/* ---- A cpu machine that lends views ----------------------------------------------------------------------- */

struct view_faults view_faults;
static loom_status (*real_upkeep)(loom__machine *, const void *, int, loom_stream);

static loom_status fold_nothing(loom__machine *machine, const void *view, loom_stream stream)
{
    (void)machine, (void)view, (void)stream;
    view_faults.folds++;
    RETURN_ERROR_IF(view_faults.failing_folds-- > 0, LOOM_DEVICE, "the test wants sizes to fail");
    view_faults.failing_folds = 0;
    return LOOM_OK;
}

static loom_status zero_nothing(loom__machine *machine, const void *view, loom_stream stream)
{
    (void)machine, (void)view, (void)stream;
    view_faults.zeroings++;
    RETURN_ERROR_IF(view_faults.failing_zeroings-- > 0, LOOM_DEVICE, "the test wants zeroing to fail");
    view_faults.failing_zeroings = 0;
    return LOOM_OK;
}

static loom_status upkeep(loom__machine *machine, const void *view, int all, loom_stream stream)
{
    RETURN_ERROR_IF(view_faults.failing_upkeeps-- > 0, LOOM_DEVICE, "the test wants upkeep to fail");
    view_faults.failing_upkeeps = 0;
    return real_upkeep(machine, view, all, stream);
}

static loom__map_kernels lending; /* tables point to it */
static uint32_t lending_engine;

static const void *lending_kernels(const loom__machine *machine, uint32_t engine)
{
    return engine == lending_engine ? &lending : loom__cpu_machine.kernels(machine, engine);
}

static void make_engine_lend(loom_context *context, uint32_t engine)
{
    static loom__machine_ops ops;
    ops = *context->machine->ops;
    lending = *(const loom__map_kernels *)ops.kernels(context->machine, engine);
    lending_engine = engine;
    real_upkeep = lending.upkeep;
    lending.upkeep = upkeep;
    lending.fold_size = fold_nothing;
    lending.zero_free = zero_nothing;
    ops.kernels = lending_kernels;
    context->machine->ops = &ops;
}

void make_open_lend(loom_context *context)
{
    make_engine_lend(context, LOOM_ENGINE_OPEN);
}

void make_chain_lend(loom_context *context)
{
    make_engine_lend(context, LOOM_ENGINE_CHAIN);
    make_others_lend(context);
}

static loom_status (*supports_otherwise)(loom__machine *, loom_feature);

static loom_status supports_views(loom__machine *machine, loom_feature feature)
{
    int of_views = feature == LOOM_FEATURE_VIEWS || feature == LOOM_FEATURE_WRITING_VIEWS;
    return of_views ? LOOM_OK : supports_otherwise(machine, feature);
}

void make_others_lend(loom_context *context)
{
    static loom__machine_ops ops;
    ops = *context->machine->ops;
    supports_otherwise = ops.supports;
    ops.supports = supports_views;
    context->machine->ops = &ops;
}

loom_context *make_lending_context(test_run *t)
{
    loom_context *context = make_context(t);
    make_open_lend(context);
    return context;
}

loom_context *make_cuda_context(test_run *t)
{
    need_cuda();
    t->machine = LOOM_MACHINE_CUDA;
    return make_context(t);
}

/* ---- Tables and their views ------------------------------------------------------------------------------------ */

loom_map *make_open_table(loom_context *context, uint32_t value_bytes, uint32_t concurrent_reads)
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

loom_map_view begin_view(loom_map *map, loom_view_access access)
{
    loom_map_view view;
    memset(&view, 0xee, sizeof view);
    CHECK_OK(loom_map_view_begin(map, access, &view, NULL));
    CHECK_EQ(view.layout, LOOM_VIEW_LAYOUT);
    CHECK_EQ(view.access, access);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config)); /* allowed beside every view */
    CHECK_EQ(view.key_bytes, config.key_bytes);
    CHECK_EQ(view.value_bytes, config.value_bytes);
    return view;
}

void refuse_view(loom_map *map, loom_view_access access, loom_status wanted)
{
    loom_map_view view, untouched;
    memset(&view, 0xee, sizeof view);
    memset(&untouched, 0xee, sizeof untouched);
    CHECK_REFUSED(loom_map_view_begin(map, access, &view, NULL), wanted);
    CHECK_BYTES(&view, &untouched, sizeof view);
}
