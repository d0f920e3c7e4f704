#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "simt/sim_perfect_repair.h"

#include "engines/perfect/perfect_repair.h"
#include "simt/machine/simt_perfect.h"
#include "simt/sim_perfect_table.h"

#include <string.h>

enum {
    MOST_SLOTS = 17 * 16,
    MOST_ITEMS = 12,
    MOST_KEYS = MOST_SLOTS + MOST_ITEMS,
    STEP_LIMIT = 1 << 18 /* the longest of 3,000 runs has 38,000 */
};

static struct {
    const sim_case *c;
    uint64_t random;
    simt_config config;
    uint64_t keys[MOST_KEYS];
    sim_state before[MOST_KEYS];
    uint32_t key_count;
    simt_perfect_call call;
    uint32_t of[MOST_ITEMS]; /* the key of each item */
    simt_map_item items[MOST_ITEMS];
    uint32_t keys_4[MOST_ITEMS]; /* the items' keys, as a batch has them */
    uint64_t keys_8[MOST_ITEMS];
    int fits;                                               /* all items, as codes are */
    _Alignas(64) unsigned char memory[SIMT_MOST_WORDS * 8]; /* when a run begins */
} now;

static uint32_t below(uint32_t n)
{
    now.random += 0x9e3779b97f4a7c15u;
    return (uint32_t)((loom__mix64(now.random) >> 32) * n >> 32);
}

/* ---- Scenarios ---- */

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

/* Full enough for full buckets, empty enough for other codes; in some scenarios there are none. */
static void draw_table(uint64_t seed, int tiny)
{
    const loom__slot_kind kind = (loom__slot_kind)(seed % (SLOT_KEY_8 + 1));
    const uint32_t slots = perfect_slots(kind), subrange = tiny || kind == SLOT_KEY_4_VALUE_8 ? 1 : 1 + below(2);
    const uint32_t words =
        (slots == 16 ? 2 : 1) * subrange + below(4); /* memory for keys that are lifted grows with them */
    sim_perfect_make(kind, subrange, words, below(UINT32_MAX), 0);
    sim_perfect_set_codes(0, below(PERFECT_SALTS), NULL);
    const uint32_t all = perfect_buckets(subrange) * slots;
    const uint32_t wanted = below(6) == 0 ? all - below(all / 8) : all - all / 6 - below(all / 3);
    now.key_count = 0;
    while (now.key_count < wanted) {
        uint64_t key = draw_key(0), value = value_of(now.key_count + 1);
        if (!sim_perfect_store(key, value, 1))
            break;
        now.before[now.key_count] = (sim_state){1, value};
        now.keys[now.key_count++] = key;
    }
    (void)sim_perfect_store(draw_key(1), value_of(77), 0); /* stays as it is */
    for (uint32_t holes = below(3) == 0 ? below(8) : 0; holes > 0; holes--) {
        uint32_t which = below(now.key_count);
        sim_perfect_remove(now.keys[which]);
        now.before[which] = (sim_state){0, 0};
    }
    if (below(32) == 0)
        sim_perfect.view.marks[0] = PERFECT_EXHAUSTED;
}

static int is_full(uint64_t key)
{
    return sim_perfect_used(0, sim_perfect_bucket_of(key)) == perfect_slots(sim_perfect.kind);
}

/* Mostly absent keys of full buckets; some are there, or come twice. */
static void draw_items(int tiny)
{
    const int any_bucket = below(8) == 0;
    now.call.n = tiny ? 2 : 1 + below(MOST_ITEMS);
    for (uint32_t i = 0; i < now.call.n; i++) {
        uint32_t which = now.key_count;
        if (below(6) == 0) {
            which = below(now.key_count);
        } else if (i > 0 && below(8) == 0) {
            which = now.of[below(i)];
        } else {
            uint64_t key = draw_key(0);
            for (uint32_t more = any_bucket ? 0 : 64; more > 0 && !is_full(key); more--)
                key = draw_key(0);
            now.before[which] = (sim_state){0, 0};
            now.keys[which] = key;
            now.key_count++;
        }
        now.of[i] = which;
        now.items[i] = (simt_map_item){now.keys[which], value_of(1000 + i), 0, LOOM_INTERNAL};
        now.keys_4[i] = (uint32_t)now.keys[which];
        now.keys_8[i] = now.keys[which];
    }
}

/* Is there room for all items where codes have them? Those of cells in the stash are left. */
static int all_fit(void)
{
    for (uint32_t i = 0; i < now.call.n; i++) {
        const uint32_t bucket = sim_perfect_bucket_of(now.items[i].key);
        uint32_t fill = sim_perfect_used(0, bucket);
        for (uint32_t other = 0; other < now.call.n; other++)
            fill += sim_perfect_bucket_of(now.items[other].key) == bucket;
        if (fill > perfect_slots(sim_perfect.kind) && !sim_perfect_in_stash(now.items[i].key))
            return 0;
    }
    return 1;
}

/* Lists that are long enough, or not; memory with anything in it. */
static void draw_effort(void)
{
    now.call.most[0] = below(4) != 0 ? 40 : 1 + below(6);
    now.call.most[1] = below(4) != 0 ? 48 : 1 + below(6);
    now.call.most[2] = below(4) != 0 ? 17 : 1 + below(2);
    now.call.rounds = below(32) == 0 ? PERFECT_REPAIR_ROUNDS : 1 + below(12);
    const uint32_t bytes =
        perfect_repair_bytes(sim_perfect.view.subrange, sim_perfect.view.words,
                             (perfect_repair_limits){now.call.most[0], now.call.most[1], now.call.most[2]});
    now.call.coming = sim_perfect_take(MOST_ITEMS * sizeof *now.call.coming);
    now.call.memory = sim_perfect_take(bytes);
    for (uint32_t i = 0; i < bytes; i++)
        now.call.memory[i] = (unsigned char)below(256);
    for (uint32_t i = 0; i < now.call.n; i++) /* in any order */
        now.call.coming[i] = i;
    for (uint32_t i = 1; i < now.call.n; i++) {
        const uint32_t other = below(i + 1), swapped = now.call.coming[i];
        now.call.coming[i] = now.call.coming[other];
        now.call.coming[other] = swapped;
    }
}

LOOM_STATIC_ASSERT(2 * sizeof(perfect_bid) >= MOST_ITEMS, "a state for each, where one suspect of each half was");

void sim_perfect_repair_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    now.random = loom__mix64(seed ^ (uint64_t)(c - sim_cases) << 56);
    draw_table(seed, tiny);
    const uint32_t lanes = tiny ? 1 : 1u << below(4);
    const uint32_t groups = tiny || lanes == 8 ? 1 : 1u << below(2); /* of a warp */
    const int with_values = slot_value_bytes(sim_perfect.kind) != 0;
    now.config = (simt_config){.group_lanes = lanes,
                               .warp_lanes = lanes * groups,
                               .weak_memory = tiny || seed / 32 % 4 != 0,
                               .step_limit = STEP_LIMIT};
    now.call = (simt_perfect_call){.op = SIMT_MAP_REPAIR,
                                   .view = sim_perfect.view,
                                   .items = now.items,
                                   .groups = groups * (tiny ? 2 : 1 + below(2)),
                                   .how = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1)),
                                   .inserts = with_values ? SIMT_MAP_KEEP + below(4) : SIMT_MAP_KEEP};
    draw_items(tiny);
    draw_effort();
    now.call.keys = slot_key_bytes(sim_perfect.kind) == 4 ? (const void *)now.keys_4 : (const void *)now.keys_8;
    now.fits = all_fit();
    memcpy(now.memory, sim_perfect_memory, sim_perfect.bytes);
}

/* ---- Verdict ---- */

static const void *before(const void *at)
{
    return now.memory + ((const unsigned char *)at - sim_perfect_memory);
}

static int is_answered(uint32_t item)
{
    return now.items[item].status != LOOM_INTERNAL;
}

/* Of overwritten values that lie apart any one wins. */
static int any_wins(uint32_t key, sim_state after)
{
    uint32_t new_ones = 0, answered = 0;
    int wins = 0;
    for (uint32_t i = 0; i < now.call.n; i++)
        if (now.of[i] == key && is_answered(i)) {
            answered++;
            new_ones += now.items[i].status == LOOM_OK;
            wins |= after.value == now.items[i].value;
        }
    return after.present && wins && new_ones == (now.before[key].present ? 0u : 1u) && answered > 0;
}

static void judge_key(uint32_t key)
{
    sim_operation operations[MOST_ITEMS];
    uint32_t count = 0;
    const sim_state after = sim_perfect_read(now.keys[key]);
    for (uint32_t i = 0; i < now.call.n; i++)
        if (now.of[i] == key && is_answered(i))
            operations[count++] = (sim_operation){.op = now.call.inserts,
                                                  .value = now.items[i].value,
                                                  .status = now.items[i].status,
                                                  .ended = UINT64_MAX,
                                                  .found = now.items[i].found,
                                                  .how = now.call.how,
                                                  .value_bytes = slot_value_bytes(sim_perfect.kind)};
    const int possible = count > 0 && now.call.inserts == SIMT_MAP_OVERWRITE && slot_values_apart(sim_perfect.kind)
                             ? any_wins(key, after)
                             : sim_history_possible(operations, count, now.before[key], after);
    if (!possible)
        simt_fail("no order of the items explains what was answered for key %#llx, which is %s %llu",
                  (unsigned long long)now.keys[key],
                  after.present ? "there with" : "absent:", (unsigned long long)after.value);
}

/* Those left are listed, each once, and were not answered; all others were. */
static void judge_left(void)
{
    uint32_t listed = 0;
    if (now.call.left > now.call.n)
        simt_fail("%u items of %u are left", now.call.left, now.call.n);
    for (uint32_t i = 0; i < now.call.left && simt.failure[0] == 0; i++) {
        const uint32_t item = now.call.coming[i];
        if (item >= now.call.n || listed >> item & 1)
            simt_fail("item %u is listed as left, and is none, or was before", item);
        listed |= 1u << item;
    }
    for (uint32_t i = 0; i < now.call.n && simt.failure[0] == 0; i++)
        if (is_answered(i) == (int)(listed >> i & 1))
            simt_fail("item %u was %s", i, is_answered(i) ? "answered, and left, too" : "neither answered nor left");
}

/* No cell comes to the stash, or leaves it. */
static void judge_codes(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const uint64_t *words = before(view->codes);
    for (uint32_t cell = 0; cell < 16 * view->words; cell++) {
        const uint32_t was = perfect_code(words[cell / 16], cell % 16);
        const uint32_t is = perfect_code(view->codes[cell / 16], cell % 16);
        if (cell % 16 != 15 && (was == PERFECT_STASHED) != (is == PERFECT_STASHED))
            simt_fail("cell %u had the code %u, and has %u", cell, was, is);
    }
}

/* Where there is room for all items as codes are, no cell moves, and each is stored, but for those of cells in the stash, and
 * those that are not for one of many to store. */
static void judge_effort(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    if (view->marks[0] != PERFECT_UNMARKED || !now.fits)
        return;
    if (!now.call.planned || memcmp(before(view->codes), view->codes, view->words * 8) != 0)
        simt_fail("there was room for all items, and %s", now.call.planned ? "cells have moved" : "all are left");
    const slot_mode mode =
        now.call.inserts == SIMT_MAP_FETCH || now.call.inserts == SIMT_MAP_COMBINE ? SLOT_FETCH : SLOT_KEEP;
    for (uint32_t i = 0; i < now.call.n; i++)
        if (!is_answered(i) && !sim_perfect_in_stash(now.items[i].key) && perfect_may_claim(sim_perfect.kind, mode, 1))
            simt_fail("there was room for item %u, but it is left", i);
}

static void judge(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const size_t table = (size_t)((unsigned char *)(view->marks + 2) - sim_perfect_memory);
    if (!now.call.planned && memcmp(now.memory, sim_perfect_memory, table) != 0)
        simt_fail("there was no plan, but the table has changed");
    if (!now.call.planned && memcmp(before(now.call.coming), now.call.coming, now.call.n * sizeof(uint32_t)) != 0)
        simt_fail("there was no plan, but other items are left");
    if (now.call.planned && view->marks[0] != PERFECT_UNMARKED)
        simt_fail("the partition is marked, but a plan was carried out");
    if (memcmp(before(view->marks), view->marks, 2 * sizeof *view->marks) != 0)
        simt_fail("marks have changed");
    if (!now.call.planned)
        now.call.left = now.call.n;
    judge_left();
    uint64_t present = 1; /* in the other partition */
    for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++) {
        judge_key(i);
        present += (uint64_t)sim_perfect_read(now.keys[i]).present;
    }
    if (simt.failure[0] != 0)
        return;
    sim_perfect_judge(present);
    judge_codes();
    judge_effort();
    if (memcmp(before(view->base + view->partition_bytes), view->base + view->partition_bytes, view->partition_bytes) !=
            0 ||
        memcmp(before(view->codes + view->words), view->codes + view->words, view->words * 8) != 0)
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
    fprintf(out, "  insertions of kind %u, %u rounds, %u suspects, %u moves, %u buckets that are too full\n",
            now.call.inserts, now.call.rounds, now.call.most[0], now.call.most[1], now.call.most[2]);
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call.n; i++)
        fprintf(out, "    [%u] key %#llx value %llu: %s   (before: %s)\n", i, (unsigned long long)now.items[i].key,
                (unsigned long long)now.items[i].value, is_answered(i) ? loom_status_name(now.items[i].status) : "left",
                now.before[now.of[i]].present ? "there" : "absent");
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_perfect_repair_run(simt_schedule *schedule, const sim_options *options)
{
    memcpy(sim_perfect_memory, now.memory, sim_perfect.bytes);
    for (uint32_t i = 0; i < now.call.n; i++) {
        now.items[i].status = LOOM_INTERNAL;
        now.items[i].found = 0;
    }
    now.call.planned = 0;
    now.call.left = 0;
    simt_begin(&now.config, schedule, sim_perfect_memory, sim_perfect.bytes);
    simt_call launch = {
        .kernel = options->kernel != NULL ? options->kernel : simt_perfect_repair,
        .argument = &now.call,
        .name = "repair",
        .groups = now.call.groups,
        .warps_per_block = 2,
        .writes = 1,
    };
    simt_launch(0, &launch);
    simt.name_word = sim_perfect_name_word;
    simt.matters = NULL;
    if (simt_run())
        judge();
    const int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
