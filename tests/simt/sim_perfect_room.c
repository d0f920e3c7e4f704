#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "simt/sim_perfect_room.h"

#include "engines/perfect/perfect_room.h"
#include "simt/sim_perfect_batch.h"

#include <string.h>

/* Half of the runs take 3,000 steps. The longest run seen takes 2.5 million: it reseeds a partition. */
enum { STEP_LIMIT = 1 << 23 };

static struct {
    int reseeds;
    sim_perfect_way way; /* of the first item, if it comes alone */
    int hard; /* as full as reseeding is tried at; no run was seen in which reseeding fails and puts the table back */
    /* as the run goes on: */
    sim_state state[SIM_BATCH_MOST_KEYS];
    unsigned char last[SIMT_MOST_WORDS * 8]; /* partitions, codes and marks when an item was done */
} now;

/* ---- Scenarios ---- */

static int recodes(void)
{
    return sim_batch.c->streams[0] == SIM_RECODE;
}

static int is_full(uint32_t bucket)
{
    return sim_perfect_used(0, bucket) == perfect_slots(sim_perfect.kind);
}

/* A partition as full as cells can be moved for, or a little emptier. It needs plans of many moves, plans fail, and
 * cells lie in the stash. */
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
    if (recodes() && below(4) != 0) /* emptier still: there are codes that overfill no bucket */
        wanted = all - all / 6 - below(all / 3);
    if (now.hard) /* the fullest partition that is reseeded (perfect_may_reseed) */
        wanted = slots == 16 ? all - all / 32 - 1 : 15 * words * 9 / 2 < all - 3 ? 15 * words * 9 / 2 : all - 3;
    sim_batch_fill(wanted, !now.hard, 16);
}

/* An absent key. In nearly all cases its bucket is full. In the case perfect/recode the bucket is often that of the
 * first item. */
static uint64_t draw_absent(uint32_t item)
{
    const int near = recodes() && item > 0 && below(2) == 0;
    for (uint32_t more = near ? 256 : 64;; more--) {
        const uint64_t key = sim_batch_draw_key(0);
        const uint32_t bucket = sim_perfect_bucket_of(key);
        if (more == 0 || (is_full(bucket) && (!near || bucket == sim_perfect_bucket_of(sim_batch.items[0].key))))
            return key;
    }
}

/* Some keys are in the table already, or come twice. */
static void draw_items(int tiny)
{
    sim_batch.call.n = recodes() ? (tiny ? 2 : 1 + below(SIM_MOST_ITEMS)) : tiny || now.hard ? 1 : 1 + below(3);
    for (uint32_t i = 0; i < sim_batch.call.n; i++) {
        if (!tiny && !now.hard && below(8) == 0 && sim_batch.key_count > 0)
            sim_batch_set_item(i, below(sim_batch.key_count));
        else if (recodes() && i > 0 && below(4) == 0)
            sim_batch_set_item(i, sim_batch.of[below(i)]);
        else
            sim_batch_set_item(i, sim_batch_add_key(draw_absent(i)));
    }
}

/* Most plans are short: a long plan takes as many steps as fifty short ones. */
static void draw_effort(int tiny)
{
    sim_batch.call.most_moves = 1 + below(tiny ? 2 : 6);
    sim_batch.call.tries = 1 + below(tiny ? 1 : 2);
    if (!tiny && below(64) == 0)
        sim_batch.call.tries = 0; /* as in the library */
    sim_batch.call.anew = now.reseeds;
    sim_batch.call.plans = !now.reseeds || (!now.hard && below(8) == 0);
    sim_perfect.scratch->spare = now.reseeds && below(32) != 0 ? sim_perfect.spare : NULL;
}

static void at_rest(uint32_t item);

void sim_perfect_room_draw(const sim_case *c, uint64_t seed, int tiny)
{
    sim_batch.c = c;
    sim_begin_drawing(c, seed);
    draw_table(seed, tiny);
    sim_batch_draw_call(recodes() ? SIMT_MAP_RECODE : SIMT_MAP_ROOM, seed, tiny, STEP_LIMIT);
    sim_batch.call.scratch = sim_perfect.scratch;
    sim_batch.call.at_rest = at_rest;
    draw_items(tiny);
    draw_effort(tiny);
    now.way = sim_batch.before[sim_batch.of[0]].present ? SIM_ANY_WAY : sim_perfect_way_of(sim_batch.items[0].key);
    sim_batch_drawn();
}

/* ---- Verdict ---- */

/* A number of the table, as it was when the last item was done. */
static uint64_t last_number(const void *at, uint32_t bytes)
{
    uint64_t number = 0;
    memcpy(&number, now.last + ((const unsigned char *)at - sim_perfect_memory), bytes);
    return number;
}

/* A refusal tires the partition, if the search was that of the library. */
static void judge_mark(int refused)
{
    const uint32_t before = (uint32_t)last_number(sim_perfect.view.marks, 4), after = sim_perfect.view.marks[0];
    const uint32_t wanted = refused && sim_batch.call.anew ? PERFECT_EXHAUSTED : perfect_mark_in(before);
    const int searched = sim_batch.call.plans && sim_batch.call.tries == 0;
    if (perfect_mark_in(after) != wanted)
        simt_fail("the partition is marked %u, and should be %u", perfect_mark_in(after), wanted);
    if (refused && searched && perfect_mark_in(before) == PERFECT_UNMARKED &&
        perfect_fewer_in(after) != PERFECT_MOST_FEWER)
        simt_fail("a search has failed, but the next one may make %u moves", perfect_effort(after));
}

/* Each deal is charged, whether it succeeds or fails. Without a deal, debts only grow when keys were counted. */
static void judge_debt(loom_status status)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const uint32_t before = (uint32_t)last_number(view->marks, 4), after = view->marks[0];
    const uint32_t more = perfect_debt_in(after) - perfect_debt_in(before), price = perfect_deal_price(view);
    const int reseeded = perfect_salt(last_number(view->codes, 8)) != perfect_salt(view->codes[0]);
    if (reseeded && (more == 0 || more % price != 0 || more > PERFECT_RESEEDS * price || perfect_fewer_in(after) != 0))
        simt_fail("the partition was reseeded, and its word became %#x after %#x", after, before);
    if (reseeded && !perfect_can_pay(view, before))
        simt_fail("the partition was reseeded, but its debt was %u", perfect_debt_in(before));
    if (!reseeded && (status != LOOM_FULL || !sim_batch.call.anew || !perfect_can_pay(view, before)) && more != 0)
        simt_fail("the partition had no deal, but its debt became %u after %u", perfect_debt_in(after),
                  perfect_debt_in(before));
}

/* The totals count each cell that went to the stash. In a deal cells may also leave it again. */
static void judge_stashed(void)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const uint64_t more = view->totals->stashed - last_number(&view->totals->stashed, 8);
    const int reseeded = perfect_salt(last_number(view->codes, 8)) != perfect_salt(view->codes[0]);
    uint64_t came = 0;
    for (uint32_t cell = 0; cell < view->words * 16; cell++) {
        const uint64_t before = reseeded ? 0 : last_number(&view->codes[cell / 16], 8);
        if (cell % 16 != 15 && perfect_code(view->codes[cell / 16], cell % 16) == PERFECT_STASHED)
            came += perfect_code(before, cell % 16) != PERFECT_STASHED;
    }
    if (reseeded ? more < came : more != came)
        simt_fail("%llu cells came to the stash, and the table counts %llu", (unsigned long long)came,
                  (unsigned long long)more);
}

/* A refusal leaves the table as it was, except for the mark. */
static void judge_refusal(void)
{
    const size_t marks = (size_t)((unsigned char *)sim_perfect.view.marks - sim_perfect_memory);
    if (memcmp(now.last, sim_perfect_memory, marks) != 0)
        simt_fail("a key was refused, but the table has changed");
}

/* Runs after each key, while the team waits. All stores of all lanes are visible. */
static void at_rest(uint32_t index)
{
    const simt_map_item *item = &sim_batch.items[index];
    sim_state *state = &now.state[sim_batch.of[index]];
    if (item->status != LOOM_FULL && item->status != (state->present ? LOOM_EXISTS : LOOM_OK))
        simt_fail("item %u: %s, and the key was %s", index, loom_status_name(item->status),
                  state->present ? "there" : "not there");
    if (item->status == LOOM_FULL && state->present)
        simt_fail("item %u: refused, and the key was there", index);
    if (item->status == LOOM_OK)
        *state = (sim_state){1, item->value};
    uint64_t present = 1; /* in the other partition */
    for (uint32_t i = 0; i < sim_batch.key_count; i++) {
        sim_state found = sim_perfect_read(sim_batch.keys[i]);
        if (found.present != now.state[i].present || (found.present && found.value != now.state[i].value))
            simt_fail("after item %u key %#llx, which should be %s %llu, is %s %llu", index,
                      (unsigned long long)sim_batch.keys[i],
                      now.state[i].present ? "there with" : "absent:", (unsigned long long)now.state[i].value,
                      found.present ? "there with" : "absent:", (unsigned long long)found.value);
        present += (uint64_t)found.present;
    }
    sim_perfect_judge(present);
    sim_perfect_judge_scratch();
    judge_mark(item->status == LOOM_FULL);
    judge_debt(item->status);
    judge_stashed();
    if (item->status != LOOM_OK)
        judge_refusal();
    if (memcmp(now.last + sim_perfect.view.partition_bytes, sim_perfect_memory + sim_perfect.view.partition_bytes,
               sim_perfect.view.partition_bytes) != 0)
        simt_fail("after item %u the other partition has changed", index);
    memcpy(now.last, sim_perfect_memory, sim_batch_table_bytes());
}

/* In a marked partition no cell moves. An item that comes alone is stored if there is a way for it, and moves no
 * cell if its bucket has room. */
static void judge_effort(void)
{
    const uint32_t mark = perfect_mark_in(sim_perfect.view.marks[0]);
    if (mark != PERFECT_UNMARKED && memcmp(sim_batch.memory, sim_perfect_memory, sim_batch_table_bytes()) != 0)
        simt_fail("the partition is marked, but has changed");
    if (sim_batch.call.n != 1 || mark != PERFECT_UNMARKED || now.way == SIM_ANY_WAY)
        return;
    if (sim_batch.items[0].status == LOOM_FULL)
        simt_fail("an item was left, though there was a way for it");
    if (now.way == SIM_BUCKET_HAS_ROOM &&
        memcmp(sim_batch_before(sim_perfect.view.codes), sim_perfect.view.codes, sim_perfect.view.words * 8) != 0)
        simt_fail("a cell has moved, though there was room");
}

static void judge_recoded(void)
{
    sim_batch_judge_keys(LOOM_FULL, 0); /* the owner inserts the items that are left */
    judge_mark(0);
    sim_batch_judge_codes();
    judge_effort();
    sim_batch_judge_other_partition();
}

static void describe_recode(char *text, size_t bytes)
{
    snprintf(text, bytes, "insertions beside each other, of kind %u", sim_batch.call.inserts);
}

static void describe_room(char *text, size_t bytes)
{
    const simt_perfect_call *call = &sim_batch.call;
    const char *then = call->anew ? ", then reseeded" : "";
    if (!call->plans)
        snprintf(text, bytes, "no plans%s", then);
    else if (call->tries > 0)
        snprintf(text, bytes, "plans of %u moves, tried %u times%s", call->most_moves, call->tries, then);
    else
        snprintf(text, bytes, "plans as in the library%s", then);
}

int sim_perfect_room_run(simt_schedule *schedule, const sim_options *options)
{
    static const sim_batch_kernel recode = {simt_perfect_recode, "recode", judge_recoded, describe_recode};
    static const sim_batch_kernel room = {simt_perfect_room, "room", NULL /* at_rest judges */, describe_room};
    memcpy(now.last, sim_batch.memory, sim_perfect.bytes);
    memcpy(now.state, sim_batch.before, sizeof now.state);
    return sim_batch_run(recodes() ? &recode : &room, schedule, options);
}
