#include "simt/sim_perfect.h"

#include "engines/perfect/perfect_effort.h"
#include "simt/machine/simt_perfect.h"
#include "simt/sim_draw.h"
#include "simt/sim_perfect_table.h"

#include <string.h>

enum { MOST_KEYS = 24 };

typedef struct scenario_key {
    uint64_t key;
    sim_state before, after;
} scenario_key;

typedef struct scenario_call {
    simt_perfect_call perfect;
    uint32_t stream;
    uint32_t of[SIM_MOST_ITEMS]; /* the key of each item */
    simt_map_item items[SIM_MOST_ITEMS];
    simt_call *launched;
} scenario_call;

static struct {
    const sim_case *c;
    simt_config config;
    uint32_t warps_per_block;
    scenario_key keys[MOST_KEYS]; /* the hot ones first */
    uint32_t key_count;
    simt_map_op op; /* of all calls: writers of one kind, or lookups alone */
    scenario_call calls[SIM_MOST_CALLS];
    uint32_t call_count;
    unsigned char before[SIMT_MOST_WORDS * 8]; /* the memory, when a run begins */
} now;

static int is_set(void)
{
    return slot_value_bytes(sim_perfect.kind) == 0;
}

/* ---- Scenarios ---- */

/* Draws a new key: of the given bucket of partition 0, or of any place if `bucket` is UINT32_MAX. */
static scenario_key *draw_key(uint32_t bucket)
{
    for (;;) {
        const uint64_t key = any_key(slot_key_bytes(sim_perfect.kind));
        int fresh =
            bucket == UINT32_MAX || (sim_perfect_partition_of(key) == 0 && sim_perfect_bucket_of(key) == bucket);
        for (uint32_t i = 0; i < now.key_count && fresh; i++)
            fresh = now.keys[i].key != key;
        if (!fresh)
            continue;
        now.keys[now.key_count] = (scenario_key){.key = key};
        return &now.keys[now.key_count++];
    }
}

static void store(scenario_key *key, uint64_t value)
{
    value = is_set() ? 0 : value;
    if (sim_perfect_store(key->key, value, 0))
        key->before = (sim_state){1, value};
}

/* Draws random codes: some cells lie in the stash. All hot keys belong to one bucket, except sometimes one key. This
 * bucket has few free slots, in any place. */
static void draw_table(uint64_t seed, int tiny)
{
    loom__slot_kind kind = (loom__slot_kind)(seed % (now.c->sets ? SLOT_KEY_8 + 1 : SLOT_KEY_8_VALUE_8 + 1));
    const uint32_t slots = perfect_slots(kind), words = 1 + below(2);
    sim_perfect_make(kind, 1 + below(2), words, below(UINT32_MAX), 0);
    for (uint32_t partition = 0; partition < 2; partition++) {
        uint64_t codes[2];
        for (uint32_t i = 0; i < 2; i++)
            codes[i] = (uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX);
        sim_perfect_set_codes(partition, below(PERFECT_SALTS), codes);
    }
    now.key_count = 0;
    scenario_key *first = draw_key(UINT32_MAX);
    while (sim_perfect_partition_of(first->key) != 0) {
        now.key_count = 0;
        first = draw_key(UINT32_MAX);
    }
    const uint32_t bucket = sim_perfect_bucket_of(first->key);
    while (now.key_count < SIM_HOT_KEYS)
        draw_key(now.key_count == 3 && !tiny && below(4) == 0 ? UINT32_MAX : bucket);

    const int stays = now.op == SIMT_MAP_ERASE || now.op == SIMT_MAP_UPDATE || now.op == SIMT_MAP_FIND;
    uint32_t present = 0, hot_first = below(2);
    for (uint32_t i = 0; i < SIM_HOT_KEYS; i++)
        present |= (uint32_t)(below(8) < (stays ? 6u : 2u)) << i;
    if (slot_values_apart(kind) && (now.op == SIMT_MAP_FETCH || now.op == SIMT_MAP_COMBINE) && below(4) != 0)
        present |= 1; /* absent keys are all left to the owner */
    uint32_t held = (uint32_t)__builtin_popcount(present & 7), free_slots = below(tiny ? 3 : 5), holes = below(4);
    uint32_t others = slots - held - (free_slots < slots - held ? free_slots : slots - held);
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t i = 0; i < SIM_HOT_KEYS && part != hot_first; i++)
            if (present >> i & 1)
                store(&now.keys[i], 100 + i);
        for (uint32_t i = 0; i < others && part == hot_first; i++)
            store(draw_key(bucket), i + 1);
    }
    for (; holes > 0 && others > 0; holes--) {
        scenario_key *key = &now.keys[SIM_HOT_KEYS + below(others)];
        sim_perfect_remove(key->key);
        key->before = (sim_state){0, 0};
    }
    sim_perfect.view.marks[0] = perfect_effort_word(below(2) == 0 ? PERFECT_EXHAUSTED : PERFECT_UNMARKED,
                                                    below(2) * below(6), below(2) * below(6));
}

static void draw_calls(uint64_t seed, int tiny)
{
    uint32_t hot = 1 + below(SIM_HOT_KEYS), written = 1000;
    now.call_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++) {
        uint32_t calls = tiny ? 1 : 1 + below(SIM_MOST_CALLS / SIMT_MOST_STREAMS);
        for (uint32_t i = 0; i < calls; i++) {
            scenario_call *call = &now.calls[now.call_count++];
            memset(call, 0, sizeof *call);
            call->stream = stream;
            call->perfect.op = now.op;
            call->perfect.rule = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1));
            call->perfect.view = sim_perfect.view;
            call->perfect.items = call->items;
            call->perfect.n = tiny ? 1 : 1 + below(hot < 3 ? 2 : SIM_MOST_ITEMS);
            call->perfect.groups = 1 + below(call->perfect.n);
            for (uint32_t item = 0; item < call->perfect.n; item++) {
                call->of[item] = below(hot);
                call->items[item] =
                    (simt_map_item){now.keys[call->of[item]].key, is_set() ? 0 : written++, 0, LOOM_INTERNAL};
            }
        }
    }
}

void sim_perfect_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.warps_per_block = 1 + below(2);
    /* Sets never overwrite. One seed in three draws a set. */
    int overwrites = c->streams[0] == SIM_INSERT && seed % (SLOT_KEY_8 + 1) < SLOT_KEY_4 && below(2);
    now.op = overwrites ? SIMT_MAP_OVERWRITE : (simt_map_op)__builtin_ctz(c->streams[0]);
    draw_table(seed, tiny);
    draw_calls(seed, tiny);
    memcpy(now.before, sim_perfect_memory, sim_perfect.bytes);
}

/* ---- Verdict ---- */

static const char *const op_names[] = {"find", "keep", "overwrite", "fetch", "accumulate", "update", "erase"};
static uint32_t key_at_fault; /* the last one judged; UINT32_MAX: none in particular */

/* What perfect_may_claim decides, according to its comment in perfect_ops.h. */
static int left_to_the_owner(void)
{
    return slot_values_apart(sim_perfect.kind) && (now.op == SIMT_MAP_FETCH || now.op == SIMT_MAP_COMBINE);
}

static void judge_refusal(const scenario_key *key)
{
    const uint32_t partition = sim_perfect_partition_of(key->key);
    if (key->after.present)
        simt_fail("key %#llx was left to the owner, but is in the table", (unsigned long long)key->key);
    else if (!left_to_the_owner() &&
             sim_perfect_used(partition, sim_perfect_bucket_of(key->key)) < perfect_slots(sim_perfect.kind))
        simt_fail("key %#llx was left to the owner, but its bucket has room", (unsigned long long)key->key);
}

/* Overwrites of one key whose values lie outside of the slots: any value may win unless a later call has overwritten
 * it. A call that finds the key may store its value before the call that brought the key stores its own. */
static int any_may_win(const sim_operation *operations, uint32_t count, sim_state before, sim_state after)
{
    sim_operation plain[SIM_MOST_OPERATIONS];
    int wins = 0, written = 0;
    for (uint32_t i = 0; i < count; i++) {
        int last = 1;
        for (uint32_t j = 0; j < count; j++)
            last &= operations[i].ended >= operations[j].began || operations[j].status == LOOM_FULL;
        written |= operations[i].status != LOOM_FULL;
        wins |= last && operations[i].status != LOOM_FULL && operations[i].value == after.value;
        plain[i] = operations[i];
        plain[i].value = 0;
    }
    wins |= !written && before.present == after.present && before.value == after.value;
    before.value = after.value = 0;
    return wins && sim_history_possible(plain, count, before, after);
}

static void judge_key(uint32_t index)
{
    const scenario_key *key = &now.keys[index];
    sim_operation operations[SIM_MOST_OPERATIONS];
    uint32_t count = 0;
    key_at_fault = index;
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        for (uint32_t item = 0; item < call->perfect.n; item++) {
            if (call->of[item] != index)
                continue;
            const simt_map_item *asked = &call->items[item];
            if (asked->status == LOOM_FULL)
                judge_refusal(key);
            if (count == SIM_MOST_OPERATIONS) {
                simt_fail("the scenario asks for one key too often");
                return;
            }
            operations[count++] = (sim_operation){.op = now.op,
                                                  .value = now.op == SIMT_MAP_FIND ? asked->found : asked->value,
                                                  .status = asked->status,
                                                  .began = call->launched->began,
                                                  .ended = call->launched->ended,
                                                  .found = asked->found,
                                                  .rule = call->perfect.rule,
                                                  .value_bytes = slot_value_bytes(sim_perfect.kind)};
        }
    }
    int possible = now.op == SIMT_MAP_OVERWRITE && slot_values_apart(sim_perfect.kind)
                       ? any_may_win(operations, count, key->before, key->after)
                       : sim_history_possible(operations, count, key->before, key->after);
    if (!possible)
        simt_fail("no order of the calls explains what was answered for key %#llx", (unsigned long long)key->key);
}

/* If a key was erased, the partition may have room, and its mark must be gone. Each erased key reduces its debts.
 * Nothing else changes a mark. */
static void judge_mark(void)
{
    uint32_t erased = 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        erased +=
            sim_perfect_partition_of(now.keys[i].key) == 0 && now.keys[i].before.present && !now.keys[i].after.present;
    const loom__perfect_view *view = &sim_perfect.view;
    const uint32_t *marks = (const uint32_t *)(const void *)(now.before + ((unsigned char *)view->marks - view->base));
    uint32_t wanted = erased > 0 ? perfect_repaid(marks[0], erased) : marks[0];
    if (view->marks[0] != wanted || view->marks[1] != marks[1])
        simt_fail("afterwards the word of partition 0 is %#x, and should be %#x", view->marks[0], wanted);
}

static void judge(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    uint64_t present = 0;
    for (uint32_t i = 0; i < now.key_count; i++) {
        now.keys[i].after = sim_perfect_read(now.keys[i].key);
        present += (uint64_t)now.keys[i].after.present;
    }
    sim_perfect_judge(present);
    if (view->totals->size != present)
        simt_fail("afterwards %llu keys can be found, and the size is %llu", (unsigned long long)present,
                  (unsigned long long)view->totals->size);
    if (memcmp(view->codes, now.before + ((unsigned char *)view->codes - view->base),
               2 * view->words * sizeof *view->codes) != 0)
        simt_fail("afterwards codes have changed");
    judge_mark();
    for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++)
        judge_key(i);
}

/* For the trace of a run that came to its end: shows the memory accesses of lanes that worked on the key at fault. */
static int matters(const simt_event *event)
{
    if (event->op == SIMT_BALLOT || event->op == SIMT_SHUFFLE || event->item == UINT32_MAX)
        return 0;
    for (uint32_t i = 0; i < now.call_count; i++)
        if (now.calls[i].launched == event->call)
            return key_at_fault == UINT32_MAX || now.calls[i].of[event->item] == key_at_fault;
    return 0;
}

static void tell_state(FILE *out, const char *when, sim_state state)
{
    if (!state.present)
        fprintf(out, "%s absent", when);
    else
        fprintf(out, "%s %llu", when, (unsigned long long)state.value);
}

static void tell(const sim_options *options)
{
    FILE *out = options->report;
    const loom__slot_kind kind = sim_perfect.kind;
    fprintf(out,
            "%s\n  case %s: keys and values of %u + %u bytes, groups of %u lanes, votes of %s, %s memory, %u buckets, "
            "the hot one is %u\n",
            simt.failure[0] ? simt.failure : "all is well", now.c->name, slot_key_bytes(kind), slot_value_bytes(kind),
            now.config.group_lanes, now.config.turn_together ? "warps" : "groups",
            now.config.weak_memory ? "weak" : "strong", perfect_buckets(sim_perfect.view.subrange),
            sim_perfect_bucket_of(now.keys[0].key));
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        fprintf(out, "  stream %u, steps %llu to %llu: %s by %u groups\n", call->stream,
                (unsigned long long)call->launched->began, (unsigned long long)call->launched->ended, op_names[now.op],
                call->perfect.groups);
        for (uint32_t item = 0; item < call->perfect.n; item++) {
            const scenario_key *key = &now.keys[call->of[item]];
            const simt_map_item *asked = &call->items[item];
            fprintf(out, "    [%u] key %#llx value %llu: %s %llu", item, (unsigned long long)key->key,
                    (unsigned long long)asked->value, loom_status_name(asked->status),
                    (unsigned long long)asked->found);
            tell_state(out, "   (before:", key->before);
            tell_state(out, "; after:", key->after);
            fprintf(out, ")\n");
        }
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_perfect_run(simt_schedule *schedule, const sim_options *options)
{
    memcpy(sim_perfect_memory, now.before, sim_perfect.bytes);
    simt_begin(&now.config, schedule, sim_perfect_memory, sim_perfect.bytes);
    for (uint32_t i = 0; i < now.call_count; i++) {
        scenario_call *call = &now.calls[i];
        for (uint32_t item = 0; item < call->perfect.n; item++) {
            call->items[item].status = LOOM_INTERNAL;
            call->items[item].found = 0;
        }
        simt_call launch = {
            .kernel = options->kernel != NULL ? options->kernel : simt_perfect_run,
            .argument = &call->perfect,
            .name = op_names[now.op],
            .groups = call->perfect.groups,
            .warps_per_block = now.warps_per_block,
            .writes = now.op != SIMT_MAP_FIND,
        };
        call->launched = simt_launch(call->stream, &launch);
    }
    key_at_fault = UINT32_MAX;
    simt.name_word = sim_perfect_name_word;
    simt.matters = NULL;
    if (simt_run()) {
        simt.matters = matters;
        judge();
    }
    int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
