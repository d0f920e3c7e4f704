#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h" /* for tables at rest: before and after a run */
#include "simt/sim_case.h"

#include "engines/open/open_upkeep.h"
#include "machines/cpu/open/cpu_open.h"
#include "simt/sim_chain.h"
#include "simt/sim_draw.h"
#include "simt/sim_filter.h"
#include "simt/sim_history.h"
#include "simt/sim_perfect.h"
#include "simt/sim_perfect_repair.h"
#include "simt/sim_perfect_room.h"
#include "simt/sim_rows.h"
#include "simt/sim_tickets.h"

#include <stdlib.h>
#include <string.h>

/* ---- Scenarios ---- */

enum { MOST_BUCKETS = 5 /* of a partition */ };

typedef struct scenario_key {
    uint64_t key;
    uint32_t partition;
    sim_state before, after;
} scenario_key;

typedef struct scenario_call {
    simt_open_call open;
    uint32_t stream;
    uint32_t of[SIM_MOST_ITEMS]; /* the key of each item */
    simt_map_item items[SIM_MOST_ITEMS];
    simt_call *launched;
} scenario_call;

typedef struct scenario {
    const sim_case *c;
    uint64_t seed;
    simt_config config;
    loom__open_shape shape;
    uint64_t table_bytes;
    loom__open_view view;
    size_t bytes;
    uint32_t *away; /* upkeep: the team's memory, behind the table's */
    uint64_t *list;
    scenario_key keys[SIM_MOST_KEYS];
    uint32_t key_count, hot[SIM_HOT_KEYS], warps_per_block;
    scenario_call calls[SIM_MOST_CALLS];
    uint32_t call_count;
} scenario;

static scenario now;
static _Alignas(64) unsigned char table_memory[SIMT_MOST_WORDS * 8];

static int is_set(void)
{
    return slot_value_bytes(now.shape.kind) == 0;
}

static void name_word(const void *at, char *text, size_t bytes)
{
    const loom__open_view *view = &now.view;
    loom__slot_kind kind = now.shape.kind;
    uint64_t offset = (uint64_t)((const unsigned char *)at - view->base), table = now.table_bytes;
    if (offset >= table + sizeof(loom__totals)) {
        static const char *const counts[] = {"full?", "stale bits", "retired slots"};
        uint64_t pair = (offset - table - sizeof(loom__totals)) / 8;
        if (pair < sizeof counts / sizeof counts[0])
            snprintf(text, bytes, "%s of partitions 0, 1", counts[pair]);
        else if (pair == sizeof counts / sizeof counts[0])
            snprintf(text, bytes, "keys away");
        else
            snprintf(text, bytes, "list %u", (unsigned)(pair - sizeof counts / sizeof counts[0] - 1));
        return;
    }
    if (offset >= table) {
        snprintf(text, bytes, "size");
        return;
    }
    unsigned partition = (unsigned)(offset / view->partition_bytes);
    const uint64_t inside = offset % view->partition_bytes, stride = open_line_stride(kind);
    const unsigned bucket = (unsigned)(inside / stride), byte = (unsigned)(inside % stride);
    const unsigned slots_end = open_slots(kind) * slot_stride(kind), word = open_word_offset(kind) / 8 * 8;
    const unsigned values = slot_values_apart(kind) ? open_value_offset(kind) : UINT32_MAX;
    if (byte == word && !open_has_narrow_word(kind))
        snprintf(text, bytes, "p%u b%u word", partition, bucket);
    else if (byte == word) /* its lower half is the last key, or the last value */
        snprintf(text, bytes, "p%u b%u slot %u, word", partition, bucket, open_slots(kind) - 1);
    else if (byte >= values)
        snprintf(text, bytes, "p%u b%u values from %u on", partition, bucket, (byte - values) / slot_value_bytes(kind));
    else if (byte < slots_end)
        snprintf(text, bytes, "p%u b%u slots from %u on", partition, bucket, byte / slot_stride(kind));
    else
        snprintf(text, bytes, "p%u b%u byte %u", partition, bucket, byte);
}

/* Different keys of one partition. */
static void draw_keys(uint32_t partition, uint32_t count)
{
    uint32_t key_bytes = slot_key_bytes(now.shape.kind);
    while (count > 0) {
        const uint64_t key = any_key(key_bytes);
        int fresh =
            loom__hash_partition(loom__hash_key(key, key_bytes, now.view.seed), now.view.partitions) == partition;
        for (uint32_t i = 0; i < now.key_count && fresh; i++)
            fresh = now.keys[i].key != key;
        if (!fresh)
            continue;
        now.keys[now.key_count++] = (scenario_key){.key = key, .partition = partition};
        count--;
    }
}

/* Inserts keys[i], if it is absent, or erases it, by the CPU machine, before the run. */
static void set_up_key(uint32_t i, int present, uint64_t value)
{
    scenario_key *key = &now.keys[i];
    loom__cpu_counts counts = {0};
    if (is_set())
        value = 0;
    if (present) {
        loom__cpu_records one = {.keys = (const unsigned char *)&key->key,
                                 .values = (const unsigned char *)&value,
                                 .key_stride = 8,
                                 .value_stride = 8,
                                 .n = 1};
        const loom__batch keep = {.write = LOOM__WRITE_KEEP};
        loom__cpu_open_scalar.insert(&now.view, &keep, &one, NULL, &counts);
        now.view.totals->size += counts.ok;
        if (counts.ok) /* it was not there, and there was room */
            key->before = (sim_state){1, value};
    } else {
        loom__batch one = {.keys = &key->key, .n = 1, .write = LOOM__WRITE_ERASE};
        loom__cpu_open_scalar.write(&now.view, &one, 0, 1, 0, &counts);
        now.view.totals->size -= counts.ok;
        key->before = (sim_state){0, 0};
    }
}

/* Insertions and erasures for the last free slots. None to two slots are free. Some hot keys are in the table: they
 * were inserted last, so that they lie far from home, or first. Where no slot is free, the partition may have the
 * mark. */
static void crowd_mixed(uint32_t room)
{
    uint32_t free_slots = below(3), present = below(1 << SIM_HOT_KEYS), hot_first = below(4) == 0;
    uint32_t others = room - free_slots - loom__count_bits(present);
    for (uint32_t part = 0; part < 2; part++) {
        if ((part == 0) == hot_first) {
            for (uint32_t i = 0; i < SIM_HOT_KEYS; i++)
                if (present >> i & 1)
                    set_up_key(i, 1, 100 + i);
        } else {
            for (uint32_t i = 0; i < others; i++)
                set_up_key(SIM_HOT_KEYS + i, 1, i + 1);
        }
    }
    if (free_slots == 0 && below(2) == 0)
        now.view.marks[0] = OPEN_FULL;
}

/* A handle of a list whose next reservations reach the end of its count. No list is behind it: reservations do not
 * read any. */
static uint64_t almost_large(void)
{
    const uint64_t most = list_most((uint64_t)LIST_SHORT << 62);
    return list_make(LIST_SHORT, below(1000), most - below(3), 0);
}

static void draw_table(int tiny)
{
    static const uint32_t primes[] = {2, 2, 3, 3, MOST_BUCKETS};
    loom__slot_kind kind = (loom__slot_kind)(now.seed % (now.c->sets ? SLOT_KEY_8 + 1 : SLOT_KEY_8_VALUE_8 + 1));
    if (now.c->handles)
        kind = now.seed % 2 == 0 ? SLOT_KEY_4_VALUE_8 : SLOT_KEY_8_VALUE_8;
    uint32_t buckets = tiny ? 2 : primes[below(open_slots(kind) == 14 ? 4 : 5)];
    now.shape = (loom__open_shape){.kind = kind, .partitions = 2, .buckets = buckets};
    now.table_bytes = 2 * open_partition_bytes(kind, buckets);
    now.view = loom__open_view_make(&now.shape, below(UINT32_MAX));
    now.view.eager_depth = tiny ? 0 : (uint32_t)(now.seed / 5 % 3);
    now.view.base = table_memory;
    now.view.totals = (loom__totals *)(void *)(table_memory + now.table_bytes);
    now.view.marks = (uint32_t *)(now.view.totals + 1);
    now.view.stale = now.view.marks + 2;
    now.view.retired_slots = now.view.stale + 2;
    now.away = now.view.retired_slots + 2;
    now.list = (uint64_t *)(void *)(now.away + 2);
    now.bytes = (size_t)((unsigned char *)now.list - table_memory);
    if (now.c->streams[0] == SIM_UPKEEP) { /* the team's memory holds leftovers */
        uint32_t words = buckets * open_slots(kind) * open_list_words(kind, &now.view);
        for (uint32_t i = 0; i < words; i++)
            now.list[i] = below(UINT32_MAX);
        now.away[0] = now.away[1] = below(8);
        now.bytes += words * sizeof *now.list;
    }
    for (uint32_t partition = 0; partition < 2; partition++)
        loom__cpu_open_clear_partition(&now.view, partition);
    *now.view.totals = (loom__totals){0};

    /* Keys of partition 0: enough to fill it, and the hot keys, some of which are inserted. */
    uint32_t room = buckets * open_slots(kind), filled;
    now.key_count = 0;
    for (uint32_t i = 0; i < SIM_HOT_KEYS; i++)
        now.hot[i] = i;
    draw_keys(0, room + SIM_HOT_KEYS);
    draw_keys(1, 1);
    if (now.c->crowded && now.c->mixed) {
        crowd_mixed(room);
        return;
    }
    if (now.c->crowded)
        filled = room - 1 - (tiny ? 0 : below(2));
    else if (below(4) == 0)
        filled = below(room);
    else /* long chains */
        filled = room - below(4);
    for (uint32_t i = 0; i < filled; i++)
        set_up_key(SIM_HOT_KEYS + i, 1, i + 1);
    if (now.c->crowded)
        return;
    /* Wear: keys that came and went have left their filter bits, so that chains are long. */
    for (uint32_t wear = below(4) == 0 ? 200 : 0; wear > 0; wear--) {
        set_up_key(below(SIM_HOT_KEYS + room), 0, 0);
        set_up_key(below(SIM_HOT_KEYS + room), 1, 50 + wear);
    }
    /* Some keys are erased again. Some hot keys take their place. */
    for (uint32_t holes = below(5); holes > 0; holes--)
        set_up_key(SIM_HOT_KEYS + below(room), 0, 0);
    uint32_t present_in_4 = now.c->mixed                                                  ? 2
                            : now.c->large                                                ? 3
                            : now.c->streams[0] & (SIM_ERASE | SIM_ERASE_IF | SIM_UPDATE) ? 3
                                                                                          : 1;
    for (uint32_t i = 0; i < SIM_HOT_KEYS; i++)
        if (below(4) < present_in_4)
            set_up_key(i, 1, now.c->large ? almost_large() : 100 + i);
    if (below(4) == 0)
        now.hot[SIM_HOT_KEYS - 1] = now.key_count - 1; /* the key of the other partition */
    if (below(4) == 0)
        now.hot[0] = SIM_HOT_KEYS + below(room); /* one that lies somewhere in the table */
}

static simt_map_op draw_op(uint32_t from)
{
    if (from == SIM_RESERVE)
        return SIMT_MAP_RESERVE;
    for (;;) {
        uint32_t op = below((from & SIM_ERASE_IF ? SIMT_MAP_ERASE_IF : SIMT_MAP_ERASE) + 1);
        if (from >> op & 1)
            return (simt_map_op)op;
    }
}

/* The slot of a key that is in the table. */
static uint32_t slot_of(const scenario_key *key, open_walk *here)
{
    loom__slot_kind kind = now.shape.kind;
    for (*here = open_start(kind, &now.view, key->key);; open_advance(&now.view, here))
        for (uint32_t slot = 0; slot < open_slots(kind); slot++)
            if (slot_key(kind, open_line(kind, here, here->bucket), slot) == key->key)
                return slot;
}

/* As a mixed batch would have left it. */
static void retire_key(uint32_t i)
{
    loom__slot_kind kind = now.shape.kind;
    open_walk here;
    if (!now.keys[i].before.present)
        return;
    uint32_t slot = slot_of(&now.keys[i], &here);
    uint64_t pair = slot_pair(now.keys[i].key, now.keys[i].before.value);
    (void)open_free_slot(kind, OPEN_MIXED, &now.view, &here, slot, pair);
    open_add_stale(OPEN_ALONE, &now.view, &here, here.depth);
    now.view.retired_slots[now.keys[i].partition]++;
    now.view.marks[now.keys[i].partition] = OPEN_UNMARKED;
    now.view.totals->size--;
    now.keys[i].before = (sim_state){0, 0};
}

/* A team of up to 16 lanes; a list that is long enough, or not. */
static void draw_upkeep(int tiny)
{
    scenario_call *call = &now.calls[0];
    uint32_t slots = now.view.buckets * open_slots(now.shape.kind);
    uint32_t present = 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        present += now.keys[i].partition == 0 && now.keys[i].before.present;
    if (present == slots && below(2) == 0)
        now.view.marks[0] = OPEN_FULL;
    for (uint32_t retired = tiny ? below(2) : below(2) * below(8); retired > 0; retired--)
        retire_key(below(now.key_count));
    now.config.group_lanes = 1;
    now.config.warp_lanes = tiny ? 1 : 1u << below(4);
    now.config.turn_together = 0;
    now.warps_per_block = 2;
    memset(call, 0, sizeof *call);
    call->open = (simt_open_call){.op = SIMT_MAP_UPKEEP,
                                  .shared = OPEN_SHARED,
                                  .view = now.view,
                                  .groups = now.config.warp_lanes * (tiny ? 2 : 1 + below(2)),
                                  .order = below(8) != 0,
                                  .list = now.list,
                                  .room = below(4) != 0 ? slots : below(slots / 2),
                                  .away = now.away};
    now.call_count = 1;
}

static void draw_calls(int tiny)
{
    if (now.c->streams[0] == SIM_UPKEEP) {
        draw_upkeep(tiny);
        return;
    }
    uint32_t hot = now.c->crowded ? 2 + below(2) : 1 + below(SIM_HOT_KEYS), written = 1000;
    if (now.c->mixed && below(2) == 0)
        hot = 1; /* the same key comes and goes */
    now.call_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++) {
        /* The smallest scenario. For the last free slot there must be a third call that finds the partition full, and a
         * key that is erased must be able to come back. */
        uint32_t calls = tiny ? 1 + (uint32_t)((now.c->crowded || now.c->mixed) && stream == 0)
                              : 1 + below(SIM_MOST_CALLS / SIMT_MOST_STREAMS);
        for (uint32_t i = 0; i < calls; i++) {
            scenario_call *call = &now.calls[now.call_count++];
            memset(call, 0, sizeof *call);
            call->stream = stream;
            call->open.op = draw_op(now.c->streams[stream] & (is_set() ? SIM_OF_SETS : UINT32_MAX));
            call->open.shared = now.c->at_rest ? OPEN_ALONE : now.c->mixed ? OPEN_MIXED : OPEN_SHARED;
            if (now.c->unread && below(4) != 0) /* both may overlap */
                call->open.shared = OPEN_UNREAD;
            call->open.rule = (loom__combine_rule)(now.seed / 3 % (LOOM__MAX_FLOAT + 1));
            call->open.view = now.view;
            call->open.items = call->items;
            call->open.n = tiny ? 1 : 1 + below(hot < 3 ? 2 : SIM_MOST_ITEMS);
            call->open.groups = 1 + below(call->open.n);
            call->open.at_home = now.config.group_lanes == 1 && !now.config.turn_together && now.seed / 17 % 2 == 1;
            for (uint32_t item = 0; item < call->open.n; item++) {
                uint32_t which = tiny && now.c->crowded ? (stream == 0 && i == 1)
                                 : tiny && now.c->mixed ? 0
                                                        : below(hot);
                call->of[item] = now.hot[which];
                /* All reservations of a key store the same handle: its count then says how many there were. */
                const uint64_t value = is_set() ? 0 : now.c->handles ? list_reserve(0) : written++;
                call->items[item] = (simt_map_item){now.keys[call->of[item]].key, value, 0, LOOM_INTERNAL};
            }
        }
    }
}

static void draw_scenario(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    if (c->filter) {
        sim_filter_draw(c, seed, tiny);
        return;
    }
    if (c->chain) {
        sim_chain_draw(c, seed, tiny);
        return;
    }
    if (c->tickets) {
        sim_tickets_draw(c, seed, tiny);
        return;
    }
    if (c->rows) {
        sim_rows_draw(c, seed, tiny);
        return;
    }
    if (c->perfect) {
        (c->streams[0] & SIM_REPAIR  ? sim_perfect_repair_draw
         : c->streams[0] & SIM_MOVES ? sim_perfect_room_draw
                                     : sim_perfect_draw)(c, seed, tiny);
        return;
    }
    now.seed = seed;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.warps_per_block = 1 + below(2);
    draw_table(tiny);
    draw_calls(tiny);
}

/* ---- Verdict ---- */

static const char *const op_names[] = {
    [SIMT_MAP_FIND] = "find",       [SIMT_MAP_KEEP] = "keep",          [SIMT_MAP_OVERWRITE] = "overwrite",
    [SIMT_MAP_FETCH] = "fetch",     [SIMT_MAP_COMBINE] = "accumulate", [SIMT_MAP_UPDATE] = "update",
    [SIMT_MAP_ERASE] = "erase",     [SIMT_MAP_ERASE_IF] = "erase_if",  [SIMT_MAP_UPKEEP] = "upkeep",
    [SIMT_MAP_RESERVE] = "reserve",
};

static void read_table(void)
{
    for (uint32_t i = 0; i < now.key_count; i++) {
        uint64_t value = 0;
        uint8_t found = 0;
        loom__cpu_counts counts = {0};
        loom__batch one = {.keys = &now.keys[i].key, .found_values = &value, .found = &found, .n = 1};
        loom__cpu_open_scalar.find(&now.view, &one, 0, 1, 0, &counts);
        now.keys[i].after = (sim_state){found, value};
    }
}

static uint32_t retired_keys(uint32_t partition)
{
    loom__slot_kind kind = now.shape.kind;
    uint32_t retired = 0;
    for (uint32_t number = 0; number < now.view.buckets; number++) {
        open_walk here = open_stand_at(kind, &now.view, partition, number);
        for (uint32_t slot = 0; slot < open_slots(kind); slot++)
            retired += slot_key(kind, open_line(kind, &here, number), slot) == open_retired(&now.view, partition);
    }
    return retired;
}

/* After a mixed batch: slots of retired keys become free, as upkeep that only sweeps makes them. */
static void sweep(void)
{
    const open_scratch none = {NULL, 0, &(uint32_t){0}};
    for (uint32_t partition = 0; partition < now.view.partitions; partition++) {
        uint32_t retired = retired_keys(partition);
        if (retired != now.view.retired_slots[partition])
            simt_fail("partition %u has %u retired keys, but %u were counted", partition, retired,
                      now.view.retired_slots[partition]);
        open_put_in_order(now.shape.kind, OPEN_ALONE, &now.view, partition, 0, (lane_team){0}, (lane_group){0}, &none);
    }
}

static uint32_t key_at_fault; /* the last one judged; UINT32_MAX: none in particular */

/* In how many slots of a bucket a key lies. */
static uint32_t times_in(const scenario_key *key, uint32_t number)
{
    loom__slot_kind kind = now.shape.kind;
    open_walk here = open_stand_at(kind, &now.view, key->partition, number);
    uint32_t found = 0;
    for (uint32_t slot = 0; slot < open_slots(kind); slot++)
        found += slot_key(kind, open_line(kind, &here, number), slot) == key->key;
    return found;
}

/* Filter bits of a partition that no key in it needs. */
static uint32_t stale_bits(uint32_t partition)
{
    loom__slot_kind kind = now.shape.kind;
    uint64_t needed[MOST_BUCKETS] = {0};
    uint32_t stale = 0;
    for (uint32_t i = 0; i < now.key_count; i++) {
        if (now.keys[i].partition != partition || !now.keys[i].after.present)
            continue;
        open_walk walk = open_start(kind, &now.view, now.keys[i].key);
        for (; walk.depth < now.view.buckets && times_in(&now.keys[i], walk.bucket) == 0;
             open_advance(&now.view, &walk))
            needed[walk.bucket] |= (uint64_t)1 << open_filter_bit(kind, walk.lower);
    }
    for (uint32_t number = 0; number < now.view.buckets; number++) {
        open_walk here = open_stand_at(kind, &now.view, partition, number);
        uint64_t word = open_load_word(kind, open_line(kind, &here, number));
        stale += loom__count_bits((word & ~needed[number]) >> open_ready_bits(kind));
    }
    return stale;
}

static void judge_layout(void)
{
    loom__survey survey;
    for (uint32_t i = 0; i < now.key_count; i++) {
        uint32_t times = 0;
        for (uint32_t number = 0; number < now.view.buckets; number++)
            times += times_in(&now.keys[i], number);
        if (times > 1) {
            simt_fail("afterwards key %#llx is in the table twice", (unsigned long long)now.keys[i].key);
            return;
        }
    }
    loom__cpu_open_kernels.survey(sim_cpu(), &now.view, &survey, NULL);
    uint64_t present = 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        present += (uint64_t)now.keys[i].after.present;
    if (survey.first_bad != UINT64_MAX)
        simt_fail(
            "afterwards bucket %llu breaks an invariant of open_ops.h: a key out of its chain's reach, a ready bit "
            "without a key, a value left behind, or a mark on a partition with room",
            (unsigned long long)survey.first_bad);
    else if (survey.size != present || survey.size != now.view.totals->size)
        simt_fail("afterwards %llu keys lie in the table, %llu can be found, and its size is %llu",
                  (unsigned long long)survey.size, (unsigned long long)present,
                  (unsigned long long)now.view.totals->size);
    for (uint32_t partition = 0; partition < now.view.partitions; partition++) {
        uint32_t stale = stale_bits(partition);
        if (stale > now.view.stale[partition])
            simt_fail("afterwards %u filter bits of partition %u are stale, but only %u were counted", stale, partition,
                      now.view.stale[partition]);
    }
}

/* A key lies away from home only if its home bucket is full of keys that are at home there. */
static void judge_order(uint32_t partition)
{
    loom__slot_kind kind = now.shape.kind;
    uint32_t at_home[MOST_BUCKETS] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < now.key_count; i++) {
            if (now.keys[i].partition != partition || !now.keys[i].after.present)
                continue;
            uint32_t home = open_start(kind, &now.view, now.keys[i].key).bucket;
            if (pass == 0)
                at_home[home] += times_in(&now.keys[i], home);
            else if (times_in(&now.keys[i], home) == 0 && at_home[home] < open_slots(kind))
                simt_fail("afterwards key %#llx is away from home, and its home bucket holds %u keys of its own",
                          (unsigned long long)now.keys[i].key, at_home[home]);
        }
}

static void judge_upkeep(const simt_open_call *call)
{
    for (uint32_t partition = 0; partition < now.view.partitions; partition++) {
        if (retired_keys(partition) > 0)
            simt_fail("afterwards partition %u holds retired keys", partition);
        if (now.view.retired_slots[partition] != 0 || (call->order && now.view.stale[partition] != 0))
            simt_fail("afterwards partition %u counts as worn", partition);
        if (call->order && call->room >= now.view.buckets * open_slots(now.shape.kind))
            judge_order(partition);
    }
}

static int inserts(simt_map_op op)
{
    return op == SIMT_MAP_KEEP || op == SIMT_MAP_OVERWRITE || op == SIMT_MAP_FETCH || op == SIMT_MAP_COMBINE ||
           op == SIMT_MAP_RESERVE;
}

/* Has a slot been free all the time? Where nothing is erased, slots only fill up, and the number of used slots in
 * the end decides. In a mixed batch a freed slot is retired: every insertion took a slot that was free from the
 * beginning. */
static int partition_has_room(uint32_t partition)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        used += now.keys[i].partition == partition &&
                (now.c->mixed ? now.keys[i].before.present : now.keys[i].after.present);
    for (uint32_t i = 0; i < now.call_count && now.c->mixed; i++)
        for (uint32_t item = 0; item < now.calls[i].open.n && inserts(now.calls[i].open.op); item++)
            used +=
                now.keys[now.calls[i].of[item]].partition == partition && now.calls[i].items[item].status == LOOM_OK;
    return used < now.view.buckets * open_slots(now.shape.kind);
}

static void judge_key(uint32_t key)
{
    key_at_fault = key;
    sim_operation operations[SIM_MOST_OPERATIONS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        for (uint32_t item = 0; item < call->open.n; item++) {
            if (call->of[item] != key)
                continue;
            const simt_map_item *asked = &call->items[item];
            /* Where nothing is erased, a full partition stays full, and a key that had no room stays out. In a mixed
             * batch only this must hold: in the order below there is a moment at which the key was absent. */
            if (asked->status == LOOM_FULL && !now.c->forbidden) {
                if (partition_has_room(now.keys[key].partition))
                    simt_fail("%s %u, item %u: FULL, but there is room", op_names[call->open.op], i, item);
                if (now.keys[key].after.present && !now.c->mixed)
                    simt_fail("%s %u, item %u: FULL, but the key is in the table", op_names[call->open.op], i, item);
            }
            if (count == SIM_MOST_OPERATIONS) {
                simt_fail("the scenario asks for one key too often");
                return;
            }
            operations[count++] = (sim_operation){.op = call->open.op,
                                                  .value = call->open.op == SIMT_MAP_FIND ? asked->found : asked->value,
                                                  .status = asked->status,
                                                  .began = call->launched->began,
                                                  .ended = call->launched->ended,
                                                  .found = asked->found,
                                                  .rule = call->open.rule,
                                                  .value_bytes = slot_value_bytes(now.shape.kind)};
        }
    }
    if (!sim_history_possible(operations, count, now.keys[key].before, now.keys[key].after))
        simt_fail("no order of the calls explains what was answered for key %#llx",
                  (unsigned long long)now.keys[key].key);
}

/* For a run that came to its end: accesses to memory by the lanes that worked on the key at fault. */

static int matters(const simt_event *event)
{
    if (event->op == SIMT_BALLOT || event->op == SIMT_SHUFFLE || event->item == UINT32_MAX)
        return 0;
    for (uint32_t i = 0; i < now.call_count; i++)
        if (now.calls[i].launched == event->call)
            return key_at_fault == UINT32_MAX || now.calls[i].open.op == SIMT_MAP_UPKEEP ||
                   now.calls[i].of[event->item] == key_at_fault;
    return 0;
}

static void tell_state(FILE *out, const char *when, sim_state state)
{
    if (!state.present)
        fprintf(out, "%s absent", when);
    else if (is_set())
        fprintf(out, "%s present", when);
    else
        fprintf(out, "%s %llu", when, (unsigned long long)state.value);
}

static void tell(const sim_options *options)
{
    FILE *out = options->report;
    static const char *const widths[] = {"keys and values of 4 + 4",
                                         "keys and values of 4 + 8",
                                         "keys and values of 8 + 4",
                                         "keys and values of 8 + 8",
                                         "keys of 4",
                                         "keys of 8"};
    fprintf(out, "%s\n  case %s: %s bytes, groups of %u lanes, votes of %s, %s memory, %u buckets\n",
            simt.failure[0] ? simt.failure : "all is well", now.c->name, widths[now.shape.kind], now.config.group_lanes,
            now.config.turn_together ? "warps" : "groups", now.config.weak_memory ? "weak" : "strong",
            now.view.buckets);
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        fprintf(out, "  stream %u, steps %llu to %llu: %s by %u groups\n", call->stream,
                (unsigned long long)call->launched->began, (unsigned long long)call->launched->ended,
                op_names[call->open.op], call->open.groups);
        for (uint32_t item = 0; item < call->open.n; item++) {
            const scenario_key *key = &now.keys[call->of[item]];
            const simt_map_item *asked = &call->items[item];
            fprintf(out, "    [%u] key %#llx", item, (unsigned long long)key->key);
            if (call->open.op != SIMT_MAP_FIND && call->open.op != SIMT_MAP_ERASE &&
                call->open.op != SIMT_MAP_ERASE_IF && !is_set())
                fprintf(out, " value %llu", (unsigned long long)asked->value);
            fprintf(out, ": %s", loom_status_name(asked->status));
            if ((call->open.op == SIMT_MAP_FIND || call->open.op == SIMT_MAP_FETCH ||
                 call->open.op == SIMT_MAP_RESERVE || call->open.op == SIMT_MAP_ERASE_IF) &&
                !is_set())
                fprintf(out, " %llu", (unsigned long long)asked->found);
            tell_state(out, "   (before:", key->before);
            tell_state(out, "; after:", key->after);
            fprintf(out, ")\n");
        }
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

/* ---- Runs ---- */

loom__machine *sim_cpu(void)
{
    static loom__machine *cpu;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.threads = 1;
    config.simd = LOOM_SIMD_SCALAR;
    if (cpu == NULL && loom__cpu_machine.open(&config, &cpu) != LOOM_OK)
        abort();
    return cpu;
}

static int run_once(simt_schedule *schedule, const sim_options *options)
{
    if (now.c->filter)
        return sim_filter_run(schedule, options);
    if (now.c->chain)
        return sim_chain_run(schedule, options);
    if (now.c->tickets)
        return sim_tickets_run(schedule, options);
    if (now.c->rows)
        return sim_rows_run(schedule, options);
    if (now.c->perfect)
        return (now.c->streams[0] & SIM_REPAIR  ? sim_perfect_repair_run
                : now.c->streams[0] & SIM_MOVES ? sim_perfect_room_run
                                                : sim_perfect_run)(schedule, options);
    simt_begin(&now.config, schedule, table_memory, (now.bytes + 7) / 8 * 8);
    for (uint32_t i = 0; i < now.call_count; i++) {
        scenario_call *call = &now.calls[i];
        simt_call launch = {
            .kernel = options->kernel != NULL            ? options->kernel
                      : call->open.op == SIMT_MAP_UPKEEP ? simt_open_upkeep
                                                         : simt_open_run,
            .argument = &call->open,
            .name = op_names[call->open.op],
            .groups = call->open.groups,
            .warps_per_block = now.warps_per_block,
            .writes = call->open.op != SIMT_MAP_FIND,
        };
        call->launched = simt_launch(call->stream, &launch);
    }
    key_at_fault = UINT32_MAX;
    simt.name_word = name_word;
    simt.matters = NULL;
    if (simt_run()) {
        simt.matters = matters;
        if (now.c->mixed)
            sweep();
        read_table();
        if (now.c->streams[0] == SIM_UPKEEP)
            judge_upkeep(&now.calls[0].open);
        judge_layout();
        for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++)
            judge_key(i);
    }
    int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}

int sim_run(const sim_case *c, uint64_t seed, const sim_options *options)
{
    static simt_schedule schedule;
    draw_scenario(c, seed, options->tiny);
    if (loom__mix64(seed) & 1)
        simt_schedule_random(&schedule, seed);
    else
        simt_schedule_priority(&schedule, seed,
                               32u << (loom__mix64(seed) >> 1) %
                                          (c->streams[0] & (SIM_MOVES | SIM_REPAIR) ? 10 : 6)); /* long runs */
    return run_once(&schedule, options);
}

int sim_explore(const sim_case *c, uint64_t seed, uint32_t detours, uint64_t most_runs, const sim_options *options,
                uint64_t *runs, int *complete)
{
    static simt_schedule schedule;
    static unsigned char memory_before[sizeof table_memory];
    draw_scenario(c, seed, options->tiny);
    memcpy(memory_before, table_memory, now.bytes);
    simt_schedule_exhaustive(&schedule, detours);
    *complete = 0;
    for (*runs = 1;; ++*runs) {
        if (!run_once(&schedule, options))
            return 0;
        if (!simt_schedule_next(&schedule)) {
            *complete = 1;
            return 1;
        }
        if (*runs == most_runs)
            return 1;
        if (c->filter || c->perfect || c->chain || c->rows || c->tickets)
            continue; /* each run begins anew */
        memcpy(table_memory, memory_before, now.bytes);
        for (uint32_t i = 0; i < now.call_count; i++)
            for (uint32_t item = 0; item < now.calls[i].open.n; item++)
                now.calls[i].items[item].status = LOOM_INTERNAL;
    }
}
