#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "simt/sim_perfect_repair.h"

#include "engines/perfect/perfect_repair.h"
#include "simt/sim_perfect_batch.h"

#include <string.h>

enum { STEP_LIMIT = 1 << 18 /* the longest of 3,000 runs has 38,000 */ };

static struct {
    uint32_t keys_4[SIM_BATCH_MOST_ITEMS]; /* the keys of the items, as a batch has them */
    uint64_t keys_8[SIM_BATCH_MOST_ITEMS];
    int fits; /* all items fit, and no cell has to move */
} now;

/* ---- Scenarios ---- */

/* Most tables have full buckets, and enough free slots for other codes. In some tables no other codes fit. */
static void draw_table(uint64_t seed, int tiny)
{
    const loom__slot_kind kind = (loom__slot_kind)(seed % (SLOT_KEY_8 + 1));
    const uint32_t slots = perfect_slots(kind), subrange = tiny || kind == SLOT_KEY_4_VALUE_8 ? 1 : 1 + below(2);
    /* The memory for lifted keys grows with the words. */
    const uint32_t words = (slots == 16 ? 2 : 1) * subrange + below(4);
    sim_perfect_make(kind, subrange, words, below(UINT32_MAX), 0);
    sim_perfect_set_codes(0, below(PERFECT_SALTS), NULL);
    const uint32_t all = perfect_buckets(subrange) * slots;
    sim_batch_fill(below(6) == 0 ? all - below(all / 8) : all - all / 6 - below(all / 3), 1, 32);
}

static int is_full(uint64_t key)
{
    return sim_perfect_used(0, sim_perfect_bucket_of(key)) == perfect_slots(sim_perfect.kind);
}

/* Most items are absent keys of full buckets. Some are in the table, and some come twice. */
static void draw_items(int tiny)
{
    const int any_bucket = below(8) == 0;
    sim_batch.call.n = tiny ? 2 : 1 + below(SIM_BATCH_MOST_ITEMS);
    for (uint32_t i = 0; i < sim_batch.call.n; i++) {
        if (below(6) == 0) {
            sim_batch_set_item(i, below(sim_batch.key_count));
        } else if (i > 0 && below(8) == 0) {
            sim_batch_set_item(i, sim_batch.of[below(i)]);
        } else {
            uint64_t key = sim_batch_draw_key(0);
            for (uint32_t more = any_bucket ? 0 : 64; more > 0 && !is_full(key); more--)
                key = sim_batch_draw_key(0);
            sim_batch_set_item(i, sim_batch_add_key(key));
        }
        now.keys_4[i] = (uint32_t)sim_batch.items[i].key;
        now.keys_8[i] = sim_batch.items[i].key;
    }
}

/* Do all items fit into the buckets that their codes name? Items of stashed cells do not count: a repair leaves
 * them. */
static int all_fit(void)
{
    for (uint32_t i = 0; i < sim_batch.call.n; i++) {
        const uint32_t bucket = sim_perfect_bucket_of(sim_batch.items[i].key);
        uint32_t fill = sim_perfect_used(0, bucket);
        for (uint32_t other = 0; other < sim_batch.call.n; other++)
            fill += sim_perfect_bucket_of(sim_batch.items[other].key) == bucket;
        if (fill > perfect_slots(sim_perfect.kind) && !sim_perfect_in_stash(sim_batch.items[i].key))
            return 0;
    }
    return 1;
}

/* Lists that are long enough, or too short. The memory of the team holds random bytes. */
static void draw_effort(void)
{
    simt_perfect_call *call = &sim_batch.call;
    call->most[0] = below(4) != 0 ? 40 : 1 + below(6);
    call->most[1] = below(4) != 0 ? 48 : 1 + below(6);
    call->most[2] = below(4) != 0 ? 17 : 1 + below(2);
    call->rounds = below(32) == 0 ? PERFECT_REPAIR_ROUNDS : 1 + below(12);
    const uint32_t bytes = perfect_repair_bytes(sim_perfect.view.subrange, sim_perfect.view.words,
                                                (perfect_repair_limits){call->most[0], call->most[1], call->most[2]});
    call->coming = sim_perfect_take(SIM_BATCH_MOST_ITEMS * sizeof *call->coming);
    call->memory = sim_perfect_take(bytes);
    for (uint32_t i = 0; i < bytes; i++)
        call->memory[i] = (unsigned char)below(256);
    for (uint32_t i = 0; i < call->n; i++) /* in any order */
        call->coming[i] = i;
    for (uint32_t i = 1; i < call->n; i++) {
        const uint32_t other = below(i + 1), swapped = call->coming[i];
        call->coming[i] = call->coming[other];
        call->coming[other] = swapped;
    }
}

LOOM_STATIC_ASSERT(2 * sizeof(perfect_bid) >= SIM_BATCH_MOST_ITEMS,
                   "a state for each item, where one suspect of each half was");

void sim_perfect_repair_draw(const sim_case *c, uint64_t seed, int tiny)
{
    sim_batch.c = c;
    sim_begin_drawing(c, seed);
    draw_table(seed, tiny);
    sim_batch_draw_call(SIMT_MAP_REPAIR, seed, tiny, STEP_LIMIT);
    draw_items(tiny);
    draw_effort();
    sim_batch.call.keys = slot_key_bytes(sim_perfect.kind) == 4 ? (const void *)now.keys_4 : (const void *)now.keys_8;
    now.fits = all_fit();
    sim_batch_drawn();
}

/* ---- Verdict ---- */

static int is_answered(uint32_t item)
{
    return sim_batch.items[item].status != LOOM_INTERNAL;
}

/* Every item was either answered, or left and listed once. */
static void judge_left(void)
{
    const simt_perfect_call *call = &sim_batch.call;
    uint32_t listed = 0;
    if (call->left > call->n)
        simt_fail("%u items of %u are left", call->left, call->n);
    for (uint32_t i = 0; i < call->left && simt.failure[0] == 0; i++) {
        const uint32_t item = call->coming[i];
        if (item >= call->n || listed >> item & 1)
            simt_fail("item %u is listed as left, and is none, or was before", item);
        listed |= 1u << item;
    }
    for (uint32_t i = 0; i < call->n && simt.failure[0] == 0; i++)
        if (is_answered(i) == (int)(listed >> i & 1))
            simt_fail("item %u was %s", i, is_answered(i) ? "answered, and left, too" : "neither answered nor left");
}

/* If all items fit, no cell moves and every item is stored. Exceptions: items of stashed cells, and items that one
 * of many groups may not store. */
static void judge_effort(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const simt_perfect_call *call = &sim_batch.call;
    if (perfect_mark_in(view->marks[0]) != PERFECT_UNMARKED || !now.fits)
        return;
    if (!call->planned || memcmp(sim_batch_before(view->codes), view->codes, view->words * 8) != 0)
        simt_fail("there was room for all items, and %s", call->planned ? "cells have moved" : "all are left");
    const slot_mode mode =
        call->inserts == SIMT_MAP_FETCH || call->inserts == SIMT_MAP_COMBINE ? SLOT_FETCH : SLOT_KEEP;
    for (uint32_t i = 0; i < call->n; i++)
        if (!is_answered(i) && !sim_perfect_in_stash(sim_batch.items[i].key) &&
            perfect_may_claim(sim_perfect.kind, mode, 1))
            simt_fail("there was room for item %u, but it is left", i);
}

static void judge(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    simt_perfect_call *call = &sim_batch.call;
    if (!call->planned && memcmp(sim_batch.memory, sim_perfect_memory, sim_batch_table_bytes()) != 0)
        simt_fail("there was no plan, but the table has changed");
    if (!call->planned && memcmp(sim_batch_before(call->coming), call->coming, call->n * sizeof(uint32_t)) != 0)
        simt_fail("there was no plan, but other items are left");
    if (call->planned && perfect_mark_in(view->marks[0]) != PERFECT_UNMARKED)
        simt_fail("the partition is marked, but a plan was carried out");
    if (memcmp(sim_batch_before(view->marks), view->marks, 2 * sizeof *view->marks) != 0)
        simt_fail("marks have changed");
    if (!call->planned)
        call->left = call->n;
    judge_left();
    sim_batch_judge_keys(LOOM_INTERNAL, 1);
    sim_batch_judge_codes();
    judge_effort();
    sim_batch_judge_other_partition();
}

static void describe(char *text, size_t bytes)
{
    const simt_perfect_call *call = &sim_batch.call;
    snprintf(text, bytes, "insertions of kind %u, %u rounds, %u suspects, %u moves, %u buckets that are too full",
             call->inserts, call->rounds, call->most[0], call->most[1], call->most[2]);
}

int sim_perfect_repair_run(simt_schedule *schedule, const sim_options *options)
{
    static const sim_batch_kernel repair = {simt_perfect_repair, "repair", judge, describe};
    sim_batch.call.planned = 0;
    sim_batch.call.left = 0;
    return sim_batch_run(&repair, schedule, options);
}
