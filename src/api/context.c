#define _GNU_SOURCE
#include "api/context.h"
#include "api/map_apply.h"
#include "api/module.h"
#include "api/struct_size.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The machine for a new context. BEST falls back to the cpu machine, which is always present. */
static loom_status machine_of(loom_machine id, const loom__machine_ops **ops)
{
    RETURN_ERROR_IF(id != LOOM_MACHINE_BEST && id != LOOM_MACHINE_CPU && id != LOOM_MACHINE_CUDA, LOOM_INVALID_ARGUMENT,
                    "machine %d is not known to this version", (int)id);
    if (id != LOOM_MACHINE_CPU) {
        char sentence[512];
        snprintf(sentence, sizeof sentence, "%s", loom_last_error());
        loom_status status = loom__module_cuda(ops);
        if (status == LOOM_OK)
            status = (*ops)->present();
        if (status == LOOM_OK || id == LOOM_MACHINE_CUDA)
            return status;
        loom__fail(LOOM_OK, "%s", sentence); /* a missing GPU is no failure of this call */
    }
    *ops = &loom__cpu_machine;
    return LOOM_OK;
}

loom_status loom_machine_present(loom_machine machine)
{
    const loom__machine_ops *ops;
    return machine_of(machine, &ops);
}

static loom_status check_config(const loom_context_config *config)
{
    RETURN_ERROR_IF((config->allocator.allocate == NULL) != (config->allocator.release == NULL), LOOM_INVALID_ARGUMENT,
                    "the allocator has one of its two functions; give both or neither");
    RETURN_ERROR_IF(config->fixed_seed > 1, LOOM_INVALID_ARGUMENT, "fixed_seed = %u: it is 0 or 1", config->fixed_seed);
    RETURN_ERROR_IF(config->lanes > 8 || (config->lanes & (config->lanes - 1)) != 0, LOOM_INVALID_ARGUMENT,
                    "lanes = %u: groups have 1, 2, 4 or 8 lanes; 0 lets the library choose", config->lanes);
    RETURN_ERROR_IF((unsigned)config->simd > LOOM_SIMD_AVX2, LOOM_INVALID_ARGUMENT,
                    "simd = %d is not known to this version", (int)config->simd);
    return LOOM_OK;
}

loom_status loom_context_create(const loom_context_config *given, loom_context **made)
{
    loom_context_config own = LOOM_CONTEXT_CONFIG_INIT, *config = &own;
    const loom__machine_ops *ops;
    loom__machine *machine;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "context is NULL; pass where the new handle is to go");
    if (given != NULL)
        RETURN_IF_FAILED(loom__struct_in(&loom__struct_context_config, &own, given));
    RETURN_IF_FAILED(check_config(config));
    RETURN_IF_FAILED(machine_of(config->machine, &ops));
    RETURN_IF_FAILED(ops->open(config, &machine));
    loom_context *context = loom__allocate(&machine->allocator, sizeof *context, LOOM_MEMORY_HOST, NULL);
    if (context == NULL) {
        machine->ops->close(machine);
        return LOOM_OUT_OF_MEMORY;
    }
    memset(context, 0, sizeof *context);
    context->machine = machine;
    context->config = *config;
    atomic_init(&context->holders, 1);
    *made = context;

    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    machine->ops->describe(machine, &info);
    loom__context_log(context, LOOM_LOG_INFO, "context on %s: %s, %u threads, %s", info.machine_name, info.device_name,
                      info.threads, info.simd_name);
    return LOOM_OK;
}

void loom__context_hold(loom_context *context)
{
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
}

void loom__context_release(loom_context *context)
{
    if (atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) != 1)
        return;
    loom__machine *machine = context->machine;
    loom__release(&machine->allocator, context, sizeof *context, LOOM_MEMORY_HOST, NULL);
    machine->ops->close(machine);
}

void loom_context_destroy(loom_context *context)
{
    if (context != NULL)
        loom__context_release(context);
}

loom_status loom_context_describe(loom_context *context, loom_context_info *info)
{
    RETURN_ERROR_IF(context == NULL || info == NULL, LOOM_INVALID_ARGUMENT, "context or info is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_context_info, info));
    loom_context_info own = LOOM_CONTEXT_INFO_INIT;
    context->machine->ops->describe(context->machine, &own);
    loom__struct_out(info, &own);
    return LOOM_OK;
}

/* Refuses the features that a type of table lacks on every engine, and those that the engine's properties rule out. */
static loom_status table_supports(loom_type type, const loom__engine *engine, loom_feature feature)
{
    RETURN_ERROR_IF(feature == LOOM_FEATURE_LISTS && !(engine->options & LOOM__OPTION_LISTS), LOOM_UNSUPPORTED,
                    "only keys of multimaps have many values (LOOM_TYPE_MULTIMAP)");
    RETURN_ERROR_IF(feature == LOOM_FEATURE_STRINGS && !(engine->options & LOOM__OPTION_STRINGS), LOOM_UNSUPPORTED,
                    "byte strings are keys and values of maps, sets and counters of the rows engine "
                    "(LOOM_ENGINE_ROWS)");
    const int views = feature == LOOM_FEATURE_VIEWS || feature == LOOM_FEATURE_WRITING_VIEWS;
    if (type == LOOM_TYPE_FILTER)
        return LOOM_OK; /* its engine decides */
    RETURN_ERROR_IF(feature == LOOM_FEATURE_MERGE, LOOM_UNSUPPORTED,
                    "tables are not merged; insert the pairs of one (loom_map_for_each) into the other");
    RETURN_ERROR_IF(type == LOOM_TYPE_SET &&
                        (feature == LOOM_FEATURE_FIND_OR_INSERT || feature == LOOM_FEATURE_UPDATE ||
                         feature == LOOM_FEATURE_ACCUMULATE || feature == LOOM_FEATURE_ERASE_IF),
                    LOOM_UNSUPPORTED, "a set has no values; use a map or a counter");
    RETURN_ERROR_IF(feature == LOOM_FEATURE_CONCURRENT_READS && !(engine->options & LOOM__OPTION_CONCURRENT_READS),
                    LOOM_UNSUPPORTED, "lookups in a table of the %s engine wait for writers; use another engine",
                    engine->name);
    RETURN_ERROR_IF(views && engine->view_layout == 0, LOOM_UNSUPPORTED,
                    "the %s engine has no device views; use the bulk calls, or another engine", engine->name);
    if (feature == LOOM_FEATURE_APPLY)
        return loom__apply_check_engine(engine);
    if (feature == LOOM_FEATURE_WRITING_VIEWS && engine->moves_keys && engine->view_writes == 0)
        return loom__engine_refuses_views(engine);
    return LOOM_OK;
}

loom_status loom_supports(loom_context *context, loom_type type, loom_engine engine, loom_feature feature)
{
    RETURN_ERROR_IF(context == NULL, LOOM_INVALID_ARGUMENT, "context is NULL");
    RETURN_ERROR_IF((unsigned)type > LOOM_TYPE_MULTIMAP, LOOM_INVALID_ARGUMENT, "type %d is not known to this version",
                    (int)type);
    RETURN_ERROR_IF(!loom__engine_is_known((uint32_t)engine), LOOM_INVALID_ARGUMENT,
                    "engine %d is not known to this version", (int)engine);
    const loom__engine *asked = loom__engine_of(type == LOOM_TYPE_DEFAULT ? LOOM_TYPE_MAP : type, (uint32_t)engine);
    RETURN_ERROR_IF(asked == NULL, LOOM_UNSUPPORTED, "engine %d is none of %s; ask for LOOM_ENGINE_DEFAULT",
                    (int)engine, type == LOOM_TYPE_FILTER ? "filters" : "maps, sets, counters and multimaps");
    loom__machine *machine = context->machine;
    RETURN_IF_FAILED(table_supports(type, asked, feature));
    RETURN_IF_FAILED(loom__table_offered(machine, asked));
    if (feature == LOOM_FEATURE_DURABLE)
        return loom__map_check_durable(machine, type);
    return asked->supports != NULL ? asked->supports(machine, type, feature) : machine->ops->supports(machine, feature);
}

loom_status loom_measure_limit(loom_context *context, loom_limit *given)
{
    loom_limit own = LOOM_LIMIT_INIT, *limit = &own;
    RETURN_ERROR_IF(context == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "context or limit is NULL");
    RETURN_IF_FAILED(loom__struct_in(&loom__struct_limit, &own, given));
    RETURN_ERROR_IF(limit->kind < LOOM_LIMIT_COPY || limit->kind > LOOM_LIMIT_HOST_GATHER, LOOM_INVALID_ARGUMENT,
                    "limit kind %d is not known to this version", (int)limit->kind);
    int reads = limit->kind == LOOM_LIMIT_RANDOM_READ || limit->kind == LOOM_LIMIT_HOST_RANDOM_READ ||
                limit->kind == LOOM_LIMIT_HOST_ORDERED_READ || limit->kind == LOOM_LIMIT_HOST_GATHER;
    uint32_t width = limit->access_bytes;
    RETURN_ERROR_IF(reads && (width < 8 || width > 128 || (width & (width - 1)) != 0), LOOM_INVALID_ARGUMENT,
                    "access_bytes = %u: reads are of 8, 16, 32, 64 or 128 bytes", width);
    RETURN_ERROR_IF(limit->footprint_bytes < 4096, LOOM_INVALID_ARGUMENT, "footprint_bytes = %llu: at least 4096",
                    (unsigned long long)limit->footprint_bytes);
    RETURN_IF_FAILED(context->machine->ops->measure_limit(context->machine, limit));
    loom__struct_out(given, &own);
    return LOOM_OK;
}

uint64_t loom__context_seed(const loom_context *context)
{
    return context->config.fixed_seed ? context->config.seed : loom__random_number();
}

void loom__context_log(const loom_context *context, loom_log_level level, const char *format, ...)
{
    if (context->config.log == NULL)
        return;
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    context->config.log(context->config.log_user, level, message);
}
