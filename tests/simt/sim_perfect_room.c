#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "simt/sim_perfect_room.h"

#include "engines/perfect/perfect_room.h"
#include "simt/machine/simt_perfect.h"
#include "simt/sim_perfect_table.h"

#include <string.h>

enum {
    MOST_SLOTS = 17 * 16,
    MOST_KEYS = MOST_SLOTS + SIM_MOST_ITEMS,
    /* Half of the runs take 3,000 steps; the longest seen, of a partition that was reseeded, 2.5 million. */
    STEP_LIMIT = 1 << 23
};

static struct {
    const sim_case *c;
    uint64_t random;
    simt_config config;
    uint64_t keys[MOST_KEYS];
    sim_state before[MOST_KEYS];
    uint32_t key_count;
    int reseeds;
    sim_perfect_way way; /* of the first item, if it comes alone */
    int hard; /* as full as reseeding is tried at; that it fails, and the table is put back, has not been seen here */
    simt_perfect_call call;
    uint32_t of[SIM_MOST_ITEMS]; /* the key of each item */
    simt_map_item items[SIM_MOST_ITEMS];
    unsigned char memory[SIMT_MOST_WORDS * 8]; /* when a run begins */
    /* as the run goes on: */
    sim_state state[MOST_KEYS];
    unsigned char last[SIMT_MOST_WORDS * 8]; /* partitions, codes and marks when an item was done */
} now;

static uint32_t below(uint32_t n)
{
    now.random += 0x9e3779b97f4a7c15u;
    return (uint32_t)((loom__mix64(now.random) >> 32) * n >> 32);
}

/* ---- Scenarios ---- */

static int recodes(void)
{
    return now.c->streams[0] == SIM_RECODE;
}

static uint64_t draw_key(uint32_t partition)
{
    for (;;) {
        uint64_t key = (uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX);
        if (slot_key_bytes(sim_perfect.kind) == 4)
            key &= 0xffffffffu;
        int fresh = sim_perfect_partition_of(key) == partition;
        for (uint32_t i = 0; i < now.key_count && fresh; i++)
            fresh = now.keys[i] != key;
        if (fresh)
            return key;
    }
}

static uint64_t value_of(uint64_t value)
{
    return slot_value_bytes(sim_perfect.kind) == 0 ? 0 : value;
}

static int is_full(uint32_t bucket)
{
    return sim_perfect_used(0, bucket) == perfect_slots(sim_perfect.kind);
}

/* A partition as full as cells can be moved for, or nearly so: then there are plans of many moves, plans that fail, and cells in
 * the stash. */
static void draw_table(uint64_t seed, int tiny)
{
    const loom__slot_kind kind = (loom__slot_kind)(seed % (SLOT_KEY_8 + 1));
    const uint32_t slots = perfect_slots(kind);
    /* Values of 8 bytes to 16 slots leave no memory for more. */
    const uint32_t subrange = tiny || kind == SLOT_KEY_4_VALUE_8 ? 1 : 1 + (below(4) == 0);
    const uint32_t words = (slots == 16 ? 2 : 1) * subrange + below(2);
    sim_perfect_make(kind, subrange, words, below(UINT32_MAX), 1);
    sim_perfect_set_codes(0, below(PERFECT_SALTS), NULL);
    const uint32_t all = perfect_buckets(subrange) * slots;
    uint32_t wanted = all - below(below(4) == 0 ? all / 3 : all / 8);
    now.reseeds = !recodes() && !tiny && subrange == 1 && below(4) == 0;
    now.hard = now.reseeds && below(8) == 0;
    if (now.reseeds) /* emptier, since dealing a full partition takes many plans */
        wanted = all - all / 8 - below(all / 8);
    if (recodes() && below(4) != 0) /* emptier still: codes are to be had that overfill nothing */
        wanted = all - all / 6 - below(all / 3);
    if (now.hard) /* as full as it may be for that (perfect_is_hopeful) */
        wanted = slots == 16 ? all - all / 32 - 1 : 15 * words * 9 / 2 < all - 3 ? 15 * words * 9 / 2 : all - 3;
    now.key_count = 0;
    while (now.key_count < wanted) {
        uint64_t key = draw_key(0), value = value_of(now.key_count + 1);
        if (!sim_perfect_store(key, value, 1))
            break;
        now.before[now.key_count] = (sim_state){1, value};
        now.keys[now.key_count++] = key;
    }
    (void)sim_perfect_store(draw_key(1), value_of(77), 0); /* stays as it is */
    for (uint32_t holes = !now.hard && below(3) == 0 ? below(8) : 0; holes > 0; holes--) {
        uint32_t which = below(now.key_count);
        sim_perfect_remove(now.keys[which]);
        now.before[which] = (sim_state){0, 0};
    }
    if (below(16) == 0)
        sim_perfect.view.marks[0] = PERFECT_EXHAUSTED;
}

/* A key that is absent, in nearly all cases of a full bucket; where cells are given other codes, often of the same as the first item's. */
static uint64_t draw_absent(uint32_t item)
{
    const int near = recodes() && item > 0 && below(2) == 0;
    for (uint32_t more = near ? 256 : 64;; more--) {
        const uint64_t key = draw_key(0);
        const uint32_t bucket = sim_perfect_bucket_of(key);
        if (more == 0 || (is_full(bucket) && (!near || bucket == sim_perfect_bucket_of(now.items[0].key))))
            return key;
    }
}

/* Some keys are there already, or come twice. */
static void draw_items(int tiny)
{
    now.call.n = recodes() ? (tiny ? 2 : 1 + below(SIM_MOST_ITEMS)) : tiny || now.hard ? 1 : 1 + below(3);
    for (uint32_t i = 0; i < now.call.n; i++) {
        uint32_t which = now.key_count;
        if (!tiny && !now.hard && below(8) == 0 && now.key_count > 0) {
            which = below(now.key_count);
        } else if (recodes() && i > 0 && below(4) == 0) {
            which = now.of[below(i)];
        } else {
            now.before[which] = (sim_state){0, 0};
            now.keys[which] = draw_absent(i);
            now.key_count++;
        }
        now.of[i] = which;
        now.items[i] = (simt_map_item){now.keys[which], value_of(1000 + i), 0, LOOM_INTERNAL};
    }
}

/* Plans are mostly short, since a long one takes as many steps as fifty short ones. */
static void draw_effort(int tiny)
{
    now.call.most_moves = 1 + below(tiny ? 2 : 6);
    now.call.tries = 1 + below(tiny ? 1 : 2);
    if (!tiny && below(64) == 0)
        now.call.tries = 0; /* as in the library */
    now.call.anew = now.reseeds;
    now.call.plans = !now.reseeds || (!now.hard && below(8) == 0);
    sim_perfect.scratch->spare = now.reseeds && below(32) != 0 ? sim_perfect.spare : NULL;
}

static void at_rest(uint32_t item);

void sim_perfect_room_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    now.random = loom__mix64(seed ^ (uint64_t)(c - sim_cases) << 56);
    draw_table(seed, tiny);
    const uint32_t lanes = tiny ? 1 : 1u << below(4),
                   groups = tiny || (lanes == 8 && !recodes()) ? 1 : 1u << below(2); /* of a warp */
    const int with_values = slot_value_bytes(sim_perfect.kind) != 0;
    const int beside = recodes() && !tiny; /* there is one lane to a warp otherwise, or a team */
    now.config = (simt_config){.group_lanes = lanes,
                               .warp_lanes = lanes * groups,
                               .turn_together = beside && seed / 16 % 2 == 0,
                               .weak_memory = tiny || seed / 32 % 4 != 0,
                               .step_limit = STEP_LIMIT};
    now.call = (simt_perfect_call){.op = recodes() ? SIMT_MAP_RECODE : SIMT_MAP_ROOM,
                                   .view = sim_perfect.view,
                                   .items = now.items,
                                   .groups = groups * (tiny ? 2 : 1 + below(2)),
                                   .how = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1)),
                                   .inserts = with_values ? SIMT_MAP_KEEP + below(4) : SIMT_MAP_KEEP,
                                   .scratch = sim_perfect.scratch,
                                   .at_rest = at_rest};
    draw_items(tiny);
    draw_effort(tiny);
    now.way = now.before[now.of[0]].present ? SIM_ANY_WAY : sim_perfect_way_of(now.items[0].key);
    memcpy(now.memory, sim_perfect_memory, sim_perfect.bytes);
}

/* ---- Verdict ---- */

static size_t table_bytes(void)
{
    return (size_t)((unsigned char *)(sim_perfect.view.marks + 2) - sim_perfect_memory);
}

static void judge_mark(int refused)
{
    uint32_t before, offset = (uint32_t)((unsigned char *)sim_perfect.view.marks - sim_perfect_memory);
    memcpy(&before, now.last + offset, sizeof before);
    uint32_t wanted = refused && now.call.anew ? PERFECT_EXHAUSTED : before;
    if (sim_perfect.view.marks[0] != wanted)
        simt_fail("the partition is marked %u, and should be %u", sim_perfect.view.marks[0], wanted);
}

/* A refusal leaves the table as it was, but for the mark. */
static void judge_refusal(void)
{
    const size_t marks = (size_t)((unsigned char *)sim_perfect.view.marks - sim_perfect_memory);
    if (memcmp(now.last, sim_perfect_memory, marks) != 0)
        simt_fail("a key was refused, but the table has changed");
}

/* After each key, while the team waits: what all lanes have stored is visible. */
static void at_rest(uint32_t index)
{
    const simt_map_item *item = &now.items[index];
    sim_state *state = &now.state[now.of[index]];
    if (item->status != LOOM_FULL && item->status != (state->present ? LOOM_EXISTS : LOOM_OK))
        simt_fail("item %u: %s, and the key was %s", index, loom_status_name(item->status),
                  state->present ? "there" : "not there");
    if (item->status == LOOM_FULL && state->present)
        simt_fail("item %u: refused, and the key was there", index);
    if (item->status == LOOM_OK)
        *state = (sim_state){1, item->value};
    uint64_t present = 1; /* in the other partition */
    for (uint32_t i = 0; i < now.key_count; i++) {
        sim_state found = sim_perfect_read(now.keys[i]);
        if (found.present != now.state[i].present || (found.present && found.value != now.state[i].value))
            simt_fail("after item %u key %#llx, which should be %s %llu, is %s %llu", index,
                      (unsigned long long)now.keys[i],
                      now.state[i].present ? "there with" : "absent:", (unsigned long long)now.state[i].value,
                      found.present ? "there with" : "absent:", (unsigned long long)found.value);
        present += (uint64_t)found.present;
    }
    sim_perfect_judge(present);
    sim_perfect_judge_scratch();
    judge_mark(item->status == LOOM_FULL);
    if (item->status != LOOM_OK)
        judge_refusal();
    if (memcmp(now.last + sim_perfect.view.partition_bytes, sim_perfect_memory + sim_perfect.view.partition_bytes,
               sim_perfect.view.partition_bytes) != 0)
        simt_fail("after item %u the other partition has changed", index);
    memcpy(now.last, sim_perfect_memory, table_bytes());
}

/* Of keys that groups have inserted beside each other. */
static void judge_key(uint32_t key)
{
    sim_operation operations[SIM_MOST_ITEMS];
    uint32_t count = 0;
    const sim_state after = sim_perfect_read(now.keys[key]);
    for (uint32_t i = 0; i < now.call.n; i++)
        if (now.of[i] == key && now.items[i].status != LOOM_FULL) /* the owner's business, whatever the others did */
            operations[count++] = (sim_operation){.op = now.call.inserts,
                                                  .value = now.items[i].value,
                                                  .status = now.items[i].status,
                                                  .ended = UINT64_MAX,
                                                  .found = now.items[i].found,
                                                  .how = now.call.how,
                                                  .value_bytes = slot_value_bytes(sim_perfect.kind)};
    if (!sim_history_possible(operations, count, now.before[key], after))
        simt_fail("no order of the items explains what was answered for key %#llx", (unsigned long long)now.keys[key]);
}

static const unsigned char *codes_before(void)
{
    return now.memory + ((unsigned char *)sim_perfect.view.codes - sim_perfect_memory);
}

/* No cell is still held, and none has come to the stash. */
static void judge_codes(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    for (uint32_t cell = 0; cell < 16 * view->words; cell++) {
        uint64_t word;
        memcpy(&word, codes_before() + cell / 16 * sizeof word, sizeof word);
        const uint32_t was = perfect_code(word, cell % 16), is = perfect_code(view->codes[cell / 16], cell % 16);
        if (cell % 16 != 15 && (was == PERFECT_STASHED) != (is == PERFECT_STASHED))
            simt_fail("cell %u had the code %u, and has %u", cell, was, is);
    }
}

/* In a marked partition nothing moves. An item that is alone is not left if there is a way for it, and moves nothing without need. */
static void judge_effort(void)
{
    const uint32_t mark = sim_perfect.view.marks[0];
    if (mark != PERFECT_UNMARKED && memcmp(now.memory, sim_perfect_memory, table_bytes()) != 0)
        simt_fail("the partition is marked, but has changed");
    if (now.call.n != 1 || mark != PERFECT_UNMARKED || now.way == SIM_ANY_WAY)
        return;
    if (now.items[0].status == LOOM_FULL)
        simt_fail("an item was left, though there was a way for it");
    if (now.way == SIM_BUCKET_HAS_ROOM &&
        memcmp(codes_before(), sim_perfect.view.codes, sim_perfect.view.words * 8) != 0)
        simt_fail("a cell has moved, though there was room");
}

static void judge_recoded(void)
{
    uint64_t present = 1; /* in the other partition */
    for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++) {
        judge_key(i);
        present += (uint64_t)sim_perfect_read(now.keys[i]).present;
    }
    sim_perfect_judge(present);
    judge_mark(0);
    judge_codes();
    judge_effort();
    if (memcmp(now.memory + sim_perfect.view.partition_bytes, sim_perfect_memory + sim_perfect.view.partition_bytes,
               sim_perfect.view.partition_bytes) != 0 ||
        memcmp(codes_before() + sim_perfect.view.words * 8, sim_perfect.view.codes + sim_perfect.view.words,
               sim_perfect.view.words * 8) != 0)
        simt_fail("the other partition has changed");
}

static void tell(const sim_options *options)
{
    FILE *out = options->report;
    const loom__slot_kind kind = sim_perfect.kind;
    uint32_t present = 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        present += (uint32_t)now.before[i].present;
    fprintf(
        out,
        "%s\n  case %s: keys and values of %u + %u bytes, %u groups of %u lanes, %s memory, %u buckets with %u keys\n",
        simt.failure[0] ? simt.failure : "all is well", now.c->name, slot_key_bytes(kind), slot_value_bytes(kind),
        now.call.groups, now.config.group_lanes, now.config.weak_memory ? "weak" : "strong",
        perfect_buckets(sim_perfect.view.subrange), present);
    if (recodes())
        fprintf(out, "  insertions beside each other, of kind %u", now.call.inserts);
    else if (!now.call.plans)
        fprintf(out, "  no plans");
    else if (now.call.tries > 0)
        fprintf(out, "  plans of %u moves, tried %u times", now.call.most_moves, now.call.tries);
    else
        fprintf(out, "  plans as in the library");
    fprintf(out, now.call.anew ? ", then reseeded\n" : "\n");
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call.n; i++)
        fprintf(out, "    [%u] key %#llx value %llu: %s   (before: %s)\n", i, (unsigned long long)now.items[i].key,
                (unsigned long long)now.items[i].value, loom_status_name(now.items[i].status),
                now.before[now.of[i]].present ? "there" : "absent");
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_perfect_room_run(simt_schedule *schedule, const sim_options *options)
{
    memcpy(sim_perfect_memory, now.memory, sim_perfect.bytes);
    memcpy(now.last, now.memory, sim_perfect.bytes);
    memcpy(now.state, now.before, sizeof now.state);
    for (uint32_t i = 0; i < now.call.n; i++) {
        now.items[i].status = LOOM_INTERNAL;
        now.items[i].found = 0;
    }
    simt_begin(&now.config, schedule, sim_perfect_memory, sim_perfect.bytes);
    simt_call launch = {
        .kernel = options->kernel != NULL ? options->kernel
                  : recodes()             ? simt_perfect_recode
                                          : simt_perfect_room,
        .argument = &now.call,
        .name = recodes() ? "recode" : "room",
        .groups = now.call.groups,
        .warps_per_block = 2,
        .writes = 1,
    };
    simt_launch(0, &launch);
    simt.name_word = sim_perfect_name_word;
    simt.matters = NULL;
    int well = simt_run();
    if (well && recodes()) {
        judge_recoded();
        well = simt.failure[0] == 0;
    }
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
