#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h" /* for tables at rest: before and after a run */
#include "simt/sim_tickets.h"

#include "engines/tickets/ticket_ops.h"
#include "simt/machine/simt_rows.h"
#include "simt/machine/simt_tickets.h"
#include "simt/sim_calls.h"
#include "simt/sim_draw.h"

#include <string.h>

enum {
    PARTITIONS = 2,
    MOST_SLOTS = 31,                      /* of a partition: deeper than TICKET_NEAR */
    MOST_KEYS = SIM_HOT_KEYS + MOST_SLOTS /* all of partition 0 */
};

enum { FORMS = 4, TICKET_SIZES = 4, TABLE_SEED = 7 };
static const uint32_t forms[FORMS][2] = {{16, 24}, {16, 8}, {8, 16}, {12, 4}}; /* bytes of keys and values */
static const uint32_t ticket_sizes[TICKET_SIZES] = {1, 2, 4, 8};

typedef struct wide_key {
    uint64_t words[SIMT_TICKETS_MOST_KEY / 8];
} wide_key;

static struct {
    const sim_case *c;
    simt_config config;
    loom__ticket_view view;
    size_t bytes;
    uint32_t key_count;
    wide_key keys[MOST_KEYS]; /* the hot ones first */
    sim_state before[MOST_KEYS], after[MOST_KEYS];
    uint32_t retired_before; /* tickets of partition 0 */
    uint32_t warps_per_block;
    sim_call calls[SIM_MOST_CALLS];
    simt_tickets_call with[SIM_MOST_CALLS]; /* what the kernel of call i gets */
    uint32_t call_count;
} now;

static _Alignas(64) unsigned char memory[SIMT_MOST_WORDS * 8], memory_before[SIMT_MOST_WORDS * 8];

/* ---- The scenario ---- */

static const unsigned char *key_of(uint32_t i)
{
    return (const unsigned char *)&now.keys[i];
}

static int drawn_before(uint32_t i)
{
    for (uint32_t other = 0; other < i; other++)
        if (memcmp(&now.keys[other], &now.keys[i], sizeof now.keys[i]) == 0)
            return 1;
    return 0;
}

/* Different keys of partition 0. */
static void draw_keys(void)
{
    for (uint32_t i = 0; i < now.key_count;) {
        const wide_key all = {{any_key(8), any_key(8)}};
        now.keys[i] = (wide_key){{0}};
        memcpy(&now.keys[i], &all, now.view.key_bytes);
        i += ticket_start(&now.view, key_of(i)).partition == 0 && !drawn_before(i);
    }
}

/* Inserts a key, if it is absent, or erases it, before the run. */
static void set_up_key(uint32_t i, int present, uint64_t number)
{
    uint64_t value[SIMT_TICKETS_MOST_VALUE / 8];
    const uint64_t addresses[2] = {(uint64_t)(uintptr_t)value, 0};
    ticket_walk walk = ticket_start(&now.view, key_of(i));
    ticket_outcome outcome;
    simt_rows_make_value(number, now.view.value_bytes, (unsigned char *)value);
    do
        outcome = present ? ticket_insert_turn(SLOT_KEEP, LOOM__ADD, TICKET_ALONE, &now.view, &walk, addresses)
                          : ticket_erase_turn(TICKET_ALONE, 0, &now.view, &walk);
    while (outcome == TICKET_GO_ON);
    if (outcome != TICKET_DONE)
        return;
    now.view.totals->size += present ? 1 : UINT64_MAX;
    now.before[i] = (sim_state){present, present ? number : 0};
}

static uint32_t tickets_in_state(uint32_t partition, uint32_t state)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < now.view.slots; slot++) {
        uint32_t shift;
        const uint64_t *word = ticket_word(&now.view, partition, slot, &shift);
        count += (ticket_in(&now.view, *word, shift) & TICKET_STATE) == state;
    }
    return count;
}

static void draw_table(uint64_t seed, int tiny)
{
    static const uint32_t primes[] = {5, 13, MOST_SLOTS};
    const uint32_t *widths = forms[seed % FORMS], slots = tiny ? 3 : primes[below(3)];
    now.view = (loom__ticket_view){.partitions = PARTITIONS, .seed = loom__seed_expand(TABLE_SEED)};
    ticket_set_board(&now.view, ticket_sizes[seed / FORMS % TICKET_SIZES], slots);
    const uint64_t words = PARTITIONS * now.view.partition_words;
    now.view.board = (uint64_t *)(void *)memory;
    now.view.totals = (loom__totals *)(void *)(now.view.board + words);
    now.view.depths = (uint32_t *)(now.view.totals + 1);
    ticket_set_rows(&now.view, widths[0], widths[1], (unsigned char *)(now.view.depths + PARTITIONS));
    if (below(2) == 0) /* as if rows lay in host memory */
        now.view.word_values = 0;
    now.bytes = (size_t)(now.view.rows - memory) + (size_t)PARTITIONS * slots * now.view.stride;
    memset(memory, 0, now.bytes);
    memset(now.view.board, 0xff, words * sizeof *now.view.board);
    memset(now.before, 0, sizeof now.before);
    now.key_count = SIM_HOT_KEYS + slots;
    draw_keys();

    const uint32_t filled = now.c->crowded ? slots - 1 - below(2) : below(3) == 0 ? below(slots) : slots - below(4);
    const uint32_t erases = now.c->streams[0] & (SIM_ERASE | SIM_UPDATE);
    for (uint32_t i = 0; i < SIM_HOT_KEYS && !now.c->crowded; i++)
        if (below(4) < (erases ? 3 : 1))
            set_up_key(i, 1, 100 + i);
    for (uint32_t i = SIM_HOT_KEYS; i < SIM_HOT_KEYS + filled && now.view.totals->size < slots; i++)
        set_up_key(i, 1, i);
    for (uint32_t holes = now.c->crowded ? below(2) : below(4); holes > 0; holes--)
        set_up_key(SIM_HOT_KEYS + below(slots), 0, 0);
    if (now.c->crowded && below(2) == 0) /* a hot key far from home */
        set_up_key(0, 1, 100);
    now.retired_before = tickets_in_state(0, TICKET_AVAILABLE);
}

static uint64_t address_of_key(uint32_t i)
{
    return (uint64_t)(uintptr_t)key_of(i);
}

static void draw_call(uint64_t seed, uint32_t stream, uint32_t hot, int tiny, uint64_t *written)
{
    sim_call *call = &now.calls[now.call_count];
    simt_tickets_call *with = &now.with[now.call_count++];
    const int numbers = now.view.value_bytes == 4 || now.view.value_bytes == 8;
    const simt_map_op op = sim_draw_op(now.c->streams[stream]);
    *call = (sim_call){.op = op == SIMT_MAP_COMBINE && !numbers ? SIMT_MAP_OVERWRITE : op,
                       .rule = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1)),
                       .stream = stream};
    call->n = tiny ? 1 : 1 + below(hot < 3 ? 2 : SIM_MOST_ITEMS);
    call->groups = 1 + below(call->n);
    sim_draw_items(call, hot, address_of_key, written);
    *with = (simt_tickets_call){.op = call->op,
                                .shared = now.c->mixed ? TICKET_MIXED : TICKET_SHARED,
                                .waits = (int)(seed / 16 % 2),
                                .rule = call->rule,
                                .view = now.view,
                                .items = call->items,
                                .n = call->n,
                                .groups = call->groups};
}

static void draw_calls(uint64_t seed, int tiny)
{
    const uint32_t hot = 1 + below(SIM_HOT_KEYS);
    uint64_t written = 1000;
    now.call_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++)
        for (uint32_t i = tiny ? 1 : 1 + below(2); i > 0; i--)
            draw_call(seed, stream, hot, tiny, &written);
}

void sim_tickets_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.config.group_lanes = 1; /* a lane for each key */
    now.config.turn_together = 0;
    now.warps_per_block = 1 + below(2);
    draw_table(seed, tiny);
    draw_calls(seed, tiny);
    memcpy(memory_before, memory, now.bytes);
}

/* ---- Verdict ---- */

static void name_word(const void *at, char *text, size_t bytes)
{
    const unsigned char *place = at;
    const uint64_t word = (uint64_t)(place - memory) / 8, words = PARTITIONS * now.view.partition_words;
    if (word < words)
        snprintf(text, bytes, "p%u tickets %u", (unsigned)(word / now.view.partition_words),
                 (unsigned)(word % now.view.partition_words * now.view.per_word));
    else if (place >= now.view.rows)
        snprintf(text, bytes, "row %u, byte %u", (unsigned)((uint64_t)(place - now.view.rows) / now.view.stride),
                 (unsigned)((uint64_t)(place - now.view.rows) % now.view.stride));
    else
        snprintf(text, bytes, "size or depths");
}

/* The key of a row; MOST_KEYS: none that was drawn. */
static uint32_t key_in(uint32_t partition, uint32_t slot)
{
    uint32_t i = 0;
    while (i < now.key_count && memcmp(ticket_row(&now.view, partition, slot).key, key_of(i), now.view.key_bytes) != 0)
        i++;
    return i < now.key_count ? i : MOST_KEYS;
}

/* Whether the key is where a search for it ends (T1, T2, T3), and its ticket has its info (T4). */
static int is_sound(uint32_t key, uint32_t slot)
{
    ticket_walk walk = ticket_start(&now.view, key_of(key));
    ticket_outcome outcome;
    while ((outcome = ticket_find_turn(TICKET_ALONE, 0, &now.view, &walk, NULL)) == TICKET_GO_ON)
        continue;
    return outcome == TICKET_DONE && walk.slot == slot;
}

/* Reads partition 0. All keys belong there. */
static void read_table(void)
{
    uint64_t present = 0;
    memset(now.after, 0, sizeof now.after);
    if (tickets_in_state(0, 0) > 0)
        simt_fail("afterwards a ticket is busy");
    if (tickets_in_state(1, TICKET_STATE) != now.view.slots)
        simt_fail("afterwards a ticket of the other partition is taken");
    for (uint32_t slot = 0; slot < now.view.slots && simt.failure[0] == 0; slot++) {
        uint32_t shift;
        const uint64_t *word = ticket_word(&now.view, 0, slot, &shift);
        if ((ticket_in(&now.view, *word, shift) & TICKET_STATE) != TICKET_ACCESS)
            continue;
        const uint32_t key = key_in(0, slot);
        present++;
        if (key == MOST_KEYS)
            simt_fail("afterwards slot %u has a key that nobody gave", slot);
        else if (now.after[key].present)
            simt_fail("afterwards key %u is in the table twice", key);
        else if (!is_sound(key, slot))
            simt_fail("afterwards key %u, in slot %u, breaks an invariant of ticket_ops.h", key, slot);
        else
            now.after[key] =
                (sim_state){1, simt_rows_number(ticket_row(&now.view, 0, slot).value, now.view.value_bytes)};
    }
    if (simt.failure[0] == 0 && present != now.view.totals->size)
        simt_fail("afterwards %llu keys lie in the table, and its size is %llu", (unsigned long long)present,
                  (unsigned long long)now.view.totals->size);
}

/* In mixed calls tickets do not become available, so those that were taken or retired at the beginning count, and those
 * that were taken during the run. */
static uint32_t used_slots(void)
{
    uint32_t used = now.c->mixed ? now.retired_before + sim_slots_taken(now.calls, now.call_count) : 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        used += (uint32_t)(now.c->mixed ? now.before : now.after)[i].present;
    return used;
}

static void tell(const sim_options *options)
{
    fprintf(options->report, "%s\n  case %s: %u + %u bytes, tickets of %u bits, %u slots, %s memory\n",
            simt.failure[0] ? simt.failure : "all is well", now.c->name, now.view.key_bytes, now.view.value_bytes,
            now.view.field - 1, now.view.slots, now.config.weak_memory ? "weak" : "strong");
    sim_tell_calls(options, now.calls, now.call_count, now.before, now.after);
}

int sim_tickets_run(simt_schedule *schedule, const sim_options *options)
{
    memcpy(memory, memory_before, now.bytes);
    simt_begin(&now.config, schedule, memory, (now.bytes + 7) / 8 * 8);
    for (uint32_t i = 0; i < now.call_count; i++)
        sim_launch(&now.calls[i], options->kernel != NULL ? options->kernel : simt_tickets_run, &now.with[i],
                   now.warps_per_block);
    simt.name_word = name_word;
    simt.matters = NULL;
    if (simt_run()) {
        read_table();
        const sim_verdict verdict = {.calls = now.calls,
                                     .call_count = now.call_count,
                                     .value_bytes = now.view.value_bytes,
                                     .has_room = used_slots() < now.view.slots,
                                     .mixed = now.c->mixed};
        for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++)
            sim_judge_key(&verdict, i, now.before[i], now.after[i]);
    }
    const int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
