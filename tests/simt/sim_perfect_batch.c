#include "simt/sim_perfect_batch.h"

#include "engines/perfect/perfect_effort.h"

#include <string.h>

sim_batch_state sim_batch;

/* ---- Scenarios ---- */

uint64_t sim_batch_draw_key(uint32_t partition)
{
    for (;;) {
        const uint64_t key = any_key(slot_key_bytes(sim_perfect.kind));
        int fresh = sim_perfect_partition_of(key) == partition;
        for (uint32_t i = 0; i < sim_batch.key_count && fresh; i++)
            fresh = sim_batch.keys[i] != key;
        if (fresh)
            return key;
    }
}

uint32_t sim_batch_add_key(uint64_t key)
{
    sim_batch.keys[sim_batch.key_count] = key;
    sim_batch.before[sim_batch.key_count] = (sim_state){0, 0};
    return sim_batch.key_count++;
}

static uint64_t value_of(uint64_t value)
{
    return slot_value_bytes(sim_perfect.kind) == 0 ? 0 : value;
}

void sim_batch_fill(uint32_t wanted, int holes, uint32_t mark_one_in)
{
    sim_batch.key_count = 0;
    while (sim_batch.key_count < wanted) {
        const uint64_t key = sim_batch_draw_key(0), value = value_of(sim_batch.key_count + 1);
        if (!sim_perfect_store(key, value, 1))
            break;
        sim_batch.before[sim_batch_add_key(key)] = (sim_state){1, value};
    }
    (void)sim_perfect_store(sim_batch_draw_key(1), value_of(77), 0);
    for (uint32_t left = holes && below(3) == 0 ? below(8) : 0; left > 0; left--) {
        const uint32_t which = below(sim_batch.key_count);
        sim_perfect_remove(sim_batch.keys[which]);
        sim_batch.before[which] = (sim_state){0, 0};
    }
    const uint32_t fewer = below(4) == 0 ? below(PERFECT_MOST_FEWER + 1) : 0;
    const uint32_t debt = below(8) == 0 ? below(PERFECT_DEALS * 2) * perfect_deal_price(&sim_perfect.view) : 0;
    const uint32_t mark = below(mark_one_in) == 0 ? PERFECT_EXHAUSTED : PERFECT_UNMARKED;
    sim_perfect.view.marks[0] = perfect_effort_word(mark, fewer, debt);
}

void sim_batch_draw_call(simt_map_op op, uint64_t seed, int tiny, uint64_t step_limit)
{
    const int team = op != SIMT_MAP_RECODE;
    const uint32_t lanes = tiny ? 1 : 1u << below(4);
    const uint32_t groups_per_warp = tiny || (lanes == 8 && team) ? 1 : 1u << below(2);
    sim_batch.config = (simt_config){.group_lanes = lanes,
                                     .warp_lanes = lanes * groups_per_warp,
                                     .turn_together = !team && !tiny && seed / 16 % 2 == 0,
                                     .weak_memory = tiny || seed / 32 % 4 != 0,
                                     .step_limit = step_limit};
    sim_batch.call = (simt_perfect_call){.op = op,
                                         .view = sim_perfect.view,
                                         .items = sim_batch.items,
                                         .rule = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1)),
                                         .inserts = SIMT_MAP_KEEP};
    if (slot_value_bytes(sim_perfect.kind) != 0)
        sim_batch.call.inserts = SIMT_MAP_KEEP + below(4);
    sim_batch.call.groups = groups_per_warp * (tiny ? 2 : 1 + below(2));
}

void sim_batch_set_item(uint32_t item, uint32_t key)
{
    sim_batch.of[item] = key;
    sim_batch.items[item] = (simt_map_item){sim_batch.keys[key], value_of(1000 + item), 0, LOOM_INTERNAL};
}

void sim_batch_drawn(void)
{
    memcpy(sim_batch.memory, sim_perfect_memory, sim_perfect.bytes);
}

/* ---- Verdict ---- */

const void *sim_batch_before(const void *at)
{
    return sim_batch.memory + ((const unsigned char *)at - sim_perfect_memory);
}

size_t sim_batch_table_bytes(void)
{
    return (size_t)((unsigned char *)(sim_perfect.view.marks + 2) - sim_perfect_memory);
}

/* Is `after` the value of one of the operations, and did the right number of them bring the key? */
static int any_may_win(const sim_operation *operations, uint32_t count, sim_state before, sim_state after)
{
    uint32_t new_ones = 0;
    int wins = 0;
    for (uint32_t i = 0; i < count; i++) {
        new_ones += operations[i].status == LOOM_OK;
        wins |= after.value == operations[i].value;
    }
    return after.present && wins && new_ones == (before.present ? 0u : 1u);
}

static void judge_key(uint32_t key, sim_state after, loom_status left, int any_wins)
{
    sim_operation operations[SIM_BATCH_MOST_ITEMS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim_batch.call.n; i++)
        if (sim_batch.of[i] == key && sim_batch.items[i].status != left)
            operations[count++] = (sim_operation){.op = sim_batch.call.inserts,
                                                  .value = sim_batch.items[i].value,
                                                  .status = sim_batch.items[i].status,
                                                  .ended = UINT64_MAX,
                                                  .found = sim_batch.items[i].found,
                                                  .rule = sim_batch.call.rule,
                                                  .value_bytes = slot_value_bytes(sim_perfect.kind)};
    any_wins = any_wins && sim_batch.call.inserts == SIMT_MAP_OVERWRITE && slot_values_apart(sim_perfect.kind);
    const int possible = any_wins && count > 0 ? any_may_win(operations, count, sim_batch.before[key], after)
                                               : sim_history_possible(operations, count, sim_batch.before[key], after);
    if (!possible)
        simt_fail("no order of the items explains what was answered for key %#llx, which is %s %llu",
                  (unsigned long long)sim_batch.keys[key],
                  after.present ? "there with" : "absent:", (unsigned long long)after.value);
}

void sim_batch_judge_keys(loom_status left, int any_wins)
{
    uint64_t present = 1; /* in the other partition */
    for (uint32_t i = 0; i < sim_batch.key_count && simt.failure[0] == 0; i++) {
        const sim_state after = sim_perfect_read(sim_batch.keys[i]);
        judge_key(i, after, left, any_wins);
        present += (uint64_t)after.present;
    }
    sim_perfect_judge(present);
}

void sim_batch_judge_codes(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const uint64_t *before = sim_batch_before(view->codes);
    for (uint32_t cell = 0; cell < 16 * view->words; cell++) {
        const uint32_t was = perfect_code(before[cell / 16], cell % 16);
        const uint32_t is = perfect_code(view->codes[cell / 16], cell % 16);
        if (cell % 16 != 15 && (was == PERFECT_STASHED) != (is == PERFECT_STASHED))
            simt_fail("cell %u had the code %u, and has %u", cell, was, is);
    }
}

static int has_changed(const void *at, size_t bytes)
{
    return memcmp(sim_batch_before(at), at, bytes) != 0;
}

void sim_batch_judge_other_partition(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    if (has_changed(view->base + view->partition_bytes, view->partition_bytes) ||
        has_changed(view->codes + view->words, view->words * sizeof *view->codes))
        simt_fail("the other partition has changed");
}

/* ---- Runs ---- */

static void tell(const sim_batch_kernel *kernel, const sim_options *options)
{
    FILE *out = options->report;
    const loom__slot_kind kind = sim_perfect.kind;
    char effort[200];
    uint32_t present = 0;
    for (uint32_t i = 0; i < sim_batch.key_count; i++)
        present += (uint32_t)sim_batch.before[i].present;
    fprintf(
        out,
        "%s\n  case %s: keys and values of %u + %u bytes, %u groups of %u lanes, %s memory, %u buckets with %u keys\n",
        simt.failure[0] ? simt.failure : "all is well", sim_batch.c->name, slot_key_bytes(kind), slot_value_bytes(kind),
        sim_batch.call.groups, sim_batch.config.group_lanes, sim_batch.config.weak_memory ? "weak" : "strong",
        perfect_buckets(sim_perfect.view.subrange), present);
    kernel->describe(effort, sizeof effort);
    fprintf(out, "  %s\n", effort);
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < sim_batch.call.n; i++) {
        const simt_map_item *item = &sim_batch.items[i];
        fprintf(out, "    [%u] key %#llx value %llu: %s   (before: %s)\n", i, (unsigned long long)item->key,
                (unsigned long long)item->value,
                item->status == LOOM_INTERNAL ? "not answered" : loom_status_name(item->status),
                sim_batch.before[sim_batch.of[i]].present ? "there" : "absent");
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_batch_run(const sim_batch_kernel *kernel, simt_schedule *schedule, const sim_options *options)
{
    memcpy(sim_perfect_memory, sim_batch.memory, sim_perfect.bytes);
    for (uint32_t i = 0; i < sim_batch.call.n; i++) {
        sim_batch.items[i].status = LOOM_INTERNAL;
        sim_batch.items[i].found = 0;
    }
    simt_begin(&sim_batch.config, schedule, sim_perfect_memory, sim_perfect.bytes);
    const simt_call launch = {
        .kernel = options->kernel != NULL ? options->kernel : kernel->kernel,
        .argument = &sim_batch.call,
        .name = kernel->name,
        .groups = sim_batch.call.groups,
        .warps_per_block = 2,
        .writes = 1,
    };
    simt_launch(0, &launch);
    simt.name_word = sim_perfect_name_word;
    simt.matters = NULL;
    if (simt_run() && kernel->judge != NULL)
        kernel->judge();
    const int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(kernel, options);
    return well;
}
