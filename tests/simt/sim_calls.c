#include "simt/sim_calls.h"

#include "simt/sim_draw.h"

static const char *const op_names[] = {
    [SIMT_MAP_FIND] = "find",   [SIMT_MAP_KEEP] = "keep",          [SIMT_MAP_OVERWRITE] = "overwrite",
    [SIMT_MAP_FETCH] = "fetch", [SIMT_MAP_COMBINE] = "accumulate", [SIMT_MAP_UPDATE] = "update",
    [SIMT_MAP_ERASE] = "erase", [SIMT_MAP_UPKEEP] = "upkeep",
};

simt_map_op sim_draw_op(uint32_t from)
{
    for (;;) {
        const uint32_t op = below(SIMT_MAP_ERASE + 1);
        if (from >> op & 1)
            return (simt_map_op)op;
    }
}

void sim_draw_items(sim_call *call, uint32_t hot, uint64_t (*key_of)(uint32_t key), uint64_t *written)
{
    for (uint32_t item = 0; item < call->n; item++) {
        call->of[item] = below(hot);
        call->items[item] = (simt_map_item){key_of(call->of[item]), (*written)++, 0, LOOM_INTERNAL};
    }
}

void sim_launch(sim_call *call, simt_open_kernel *kernel, void *argument, uint32_t warps_per_block)
{
    for (uint32_t item = 0; item < call->n; item++)
        call->items[item].status = LOOM_INTERNAL;
    const simt_call launch = {
        .kernel = kernel,
        .argument = argument,
        .name = op_names[call->op],
        .groups = call->groups,
        .warps_per_block = warps_per_block,
        .writes = call->op != SIMT_MAP_FIND,
    };
    call->launched = simt_launch(call->stream, &launch);
}

uint32_t sim_slots_taken(const sim_call *calls, uint32_t count)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t item = 0; item < calls[i].n; item++)
            taken += calls[i].items[item].status == LOOM_OK &&
                     (calls[i].op == SIMT_MAP_KEEP || calls[i].op == SIMT_MAP_FETCH);
    return taken;
}

void sim_judge_key(const sim_verdict *verdict, uint32_t key, sim_state before, sim_state after)
{
    sim_operation operations[SIM_MOST_OPERATIONS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < verdict->call_count; i++) {
        const sim_call *call = &verdict->calls[i];
        for (uint32_t item = 0; item < call->n; item++) {
            const simt_map_item *asked = &call->items[item];
            const int refused = asked->status == LOOM_FULL;
            if (call->of[item] != key)
                continue;
            if (refused && verdict->is_excused != NULL && verdict->is_excused(asked))
                continue; /* it changed nothing */
            if (refused && (verdict->has_room || (after.present && !verdict->mixed)))
                simt_fail("%s %u, item %u: FULL, but there is room, or the key is there", op_names[call->op], i, item);
            if (count == SIM_MOST_OPERATIONS) {
                simt_fail("the scenario asks for one key too often");
                return;
            }
            operations[count++] = (sim_operation){.op = call->op,
                                                  .value = call->op == SIMT_MAP_FIND ? asked->found : asked->value,
                                                  .status = asked->status,
                                                  .began = call->launched->began,
                                                  .ended = call->launched->ended,
                                                  .found = asked->found,
                                                  .rule = call->rule,
                                                  .value_bytes = verdict->value_bytes};
        }
    }
    if (!sim_history_possible(operations, count, before, after))
        simt_fail("no order of the calls explains what was answered for key %u", key);
}

void sim_tell_calls(const sim_options *options, const sim_call *calls, uint32_t count, const sim_state *before,
                    const sim_state *after)
{
    FILE *out = options->report;
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < count; i++) {
        const sim_call *call = &calls[i];
        fprintf(out, "  stream %u, steps %llu to %llu: %s by %u groups\n", call->stream,
                (unsigned long long)call->launched->began, (unsigned long long)call->launched->ended,
                op_names[call->op], call->groups);
        for (uint32_t item = 0; item < call->n; item++) {
            const uint32_t key = call->of[item];
            fprintf(out, "    [%u] key %u value %llu: %s %llu   (before: %d %llu; after: %d %llu)\n", item, key,
                    (unsigned long long)call->items[item].value, loom_status_name(call->items[item].status),
                    (unsigned long long)call->items[item].found, before[key].present,
                    (unsigned long long)before[key].value, after[key].present, (unsigned long long)after[key].value);
        }
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}
