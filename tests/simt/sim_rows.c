#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h" /* for tables at rest: before and after a run */
#include "simt/sim_rows.h"

#include "engines/open/open_upkeep.h"
#include "machines/cpu/rows/cpu_rows_engine.h"
#include "simt/machine/simt_rows.h"
#include "simt/sim_calls.h"
#include "simt/sim_draw.h"

#include <string.h>

enum {
    PARTITIONS = 2,
    SLOTS = 28,                          /* of a bucket */
    MOST_BUCKETS = 3,                    /* of a partition */
    MOST_ROOM = MOST_BUCKETS * SLOTS,    /* slots of a partition */
    MOST_KEYS = SIM_HOT_KEYS + MOST_ROOM /* all of partition 0 */
};

/* Keys and values in bytes: wide values, and numbers. Strings: keys have 16 bytes, or 12. */
enum { FORMS = 4, HEAP_BYTES = 5120 };
static const uint32_t fixed_forms[FORMS][2] = {{16, 24}, {16, 8}, {8, 16}, {12, 4}};
static const uint32_t string_forms[FORMS][2] = {
    {LOOM_VARIABLE, LOOM_VARIABLE}, {LOOM_VARIABLE, 8}, {16, LOOM_VARIABLE}, {LOOM_VARIABLE, LOOM_VARIABLE}};

typedef struct wide_key {
    uint64_t words[SIMT_ROWS_MOST_KEY / 8];
} wide_key;

/* What the kernel of a call gets beside the call's items. */
typedef struct rows_call {
    simt_rows_call rows;
    uint64_t together[SIM_MOST_ITEMS][SIMT_ROWS_MOST_VALUE / 8];
} rows_call;

static struct {
    const sim_case *c;
    simt_config config;
    loom__rows_view view;
    size_t bytes;
    uint32_t buckets, room, key_count; /* room: slots of a partition */
    wide_key keys[MOST_KEYS];          /* the hot ones first */
    loom__string strings[MOST_KEYS];   /* that refer to them */
    uint32_t key_length;               /* bytes of a key */
    uint64_t heap_before;              /* bytes of the heap that were given out */
    sim_state before[MOST_KEYS], after[MOST_KEYS];
    uint32_t warps_per_block;
    sim_call calls[SIM_MOST_CALLS];
    rows_call with[SIM_MOST_CALLS]; /* call i's */
    uint32_t call_count;
    uint32_t *away; /* upkeep: the team's memory, behind the lines' */
} now;

static uint64_t upkeep_list[MOST_ROOM * (1 + (SIMT_ROWS_MOST_KEY + SIMT_ROWS_MOST_VALUE) / 8)];

static _Alignas(64) unsigned char memory[SIMT_MOST_WORDS * 8], memory_before[SIMT_MOST_WORDS * 8];

/* ---- Values ---- */

uint32_t simt_rows_value_bytes(const loom__rows_view *view, uint64_t number)
{
    return view->variable & LOOM__VARIABLE_VALUES ? 8 * (1 + (uint32_t)(loom__mix64(number) % 3)) : view->value_bytes;
}

void simt_rows_make_value(uint64_t number, uint32_t value_bytes, unsigned char *value)
{
    const uint32_t word = value_bytes < 8 ? value_bytes : 8;
    for (uint32_t i = 0; i < value_bytes; i += word)
        memcpy(value + i, &number, word);
}

uint64_t simt_rows_number(const unsigned char *value, uint32_t value_bytes)
{
    uint64_t number = 0;
    const uint32_t word = value_bytes < 8 ? value_bytes : 8;
    memcpy(&number, value, word);
    for (uint32_t i = word; i < value_bytes; i += word)
        if (memcmp(value + i, value, word) != 0)
            simt_fail("a value is a mixture of two");
    return number;
}

/* ---- Keys ---- */

/* Hot keys have the same tag, so that only their rows tell them apart. Families of such keys are looked for once, for a
 * table seed that never changes. */
enum { TABLE_SEED = 7, FAMILIES = 64, TRIED = 1 << 18 };

typedef struct key_families {
    int found;
    wide_key keys[FAMILIES][SIM_HOT_KEYS];
} key_families;

static wide_key any_wide_key(uint64_t number, uint32_t key_bytes)
{
    const wide_key all = {{loom__mix64(number), loom__mix64(~number)}};
    wide_key key = {{0}};
    memcpy(&key, &all, key_bytes);
    return key;
}

static uint64_t hash_of(const wide_key *key)
{
    if (now.view.variable & LOOM__VARIABLE_KEYS)
        return loom__hash_bytes(key, now.key_length, now.view.lines.seed);
    return open_row_hash((const unsigned char *)key, now.view.key_bytes, now.view.lines.seed);
}

static void find_families(key_families *families)
{
    static wide_key members[OPEN_TAGS + 1][SIM_HOT_KEYS];
    static uint8_t counts[OPEN_TAGS + 1];
    uint32_t complete = 0;
    memset(counts, 0, sizeof counts);
    for (uint64_t i = 0; i < TRIED && complete < FAMILIES; i++) {
        const wide_key key = any_wide_key(i, now.key_length);
        const uint32_t tag = open_tag(hash_of(&key));
        if (loom__hash_partition(hash_of(&key), PARTITIONS) != 0 || counts[tag] == SIM_HOT_KEYS)
            continue;
        members[tag][counts[tag]++] = key;
        if (counts[tag] == SIM_HOT_KEYS)
            memcpy(families->keys[complete++], members[tag], sizeof members[tag]);
    }
    families->found = complete == FAMILIES;
    if (!families->found)
        simt_fail("too few keys have equal tags");
}

static int drawn_before(uint32_t i)
{
    for (uint32_t other = 0; other < i; other++)
        if (memcmp(&now.keys[other], &now.keys[i], sizeof now.keys[i]) == 0)
            return 1;
    return 0;
}

static void draw_keys(uint32_t form)
{
    static key_families families[2 * FORMS]; /* with strings behind */
    if (!families[form].found)
        find_families(&families[form]);
    memcpy(now.keys, families[form].keys[below(FAMILIES)], sizeof families[form].keys[0]);
    for (uint32_t i = SIM_HOT_KEYS; i < now.key_count;) {
        now.keys[i] = any_wide_key(TRIED + (uint64_t)below(UINT32_MAX), now.key_length);
        i += loom__hash_partition(hash_of(&now.keys[i]), PARTITIONS) == 0 && !drawn_before(i);
    }
    for (uint32_t i = 0; i < now.key_count; i++)
        now.strings[i] = (loom__string){(uint64_t)(uintptr_t)&now.keys[i], now.key_length};
}

/* ---- The scenario ---- */

static const loom__cpu_map_simd *cpu_loops(void)
{
    return now.c->strings ? &loom__cpu_strings_scalar : &loom__cpu_rows_scalar;
}

/* Key i, as a batch has it. */
static const void *key_of(uint32_t i)
{
    return now.view.variable & LOOM__VARIABLE_KEYS ? (const void *)&now.strings[i] : &now.keys[i];
}

/* Inserts a key, if it is absent, or erases it, by the CPU machine, before the run. */
static void set_up_key(uint32_t i, int present, uint64_t number)
{
    uint64_t value[SIMT_ROWS_MOST_VALUE / 8];
    const uint32_t bytes = simt_rows_value_bytes(&now.view, number);
    const loom__string string = {(uint64_t)(uintptr_t)value, bytes};
    loom__cpu_counts counts = {0};
    simt_rows_make_value(number, bytes, (unsigned char *)value);
    const loom__batch batch = {.keys = key_of(i),
                               .values = now.view.variable & LOOM__VARIABLE_VALUES ? (const void *)&string : value,
                               .n = 1,
                               .write = present ? LOOM__WRITE_KEEP : LOOM__WRITE_ERASE};
    cpu_loops()->write(&now.view, &batch, 0, 1, 0, &counts);
    now.view.lines.totals->size += present ? counts.ok : 0 - counts.ok;
    if (counts.ok > 0)
        now.before[i] = (sim_state){present, present ? number : 0};
}

/* Erases a key as a mixed view would have. */
static void retire_key(uint32_t i)
{
    loom__open_view *lines = &now.view.lines;
    const lane_group alone = {0};
    if (!now.before[i].present)
        return;
    open_walk walk = open_start(SLOT_TAG, lines, (uint64_t)(uintptr_t)&now.keys[i]);
    while (open_erase_turn(SLOT_TAG, OPEN_MIXED, alone, lines, &walk, 1) == OPEN_GO_ON)
        continue;
    lines->totals->size--;
    now.before[i] = (sim_state){0, 0};
}

static void draw_table(uint64_t seed, int tiny)
{
    const uint32_t form = (uint32_t)(seed % FORMS), *widths = (now.c->strings ? string_forms : fixed_forms)[form];
    const uint32_t variable = loom__variable_columns(widths[0], widths[1]);
    const uint32_t key_bytes = loom__row_width(widths[0]), value_bytes = loom__row_width(widths[1]);
    /* In three buckets a key may take another one's place at home; in two it cannot. */
    now.buckets = now.c->streams[0] == SIM_UPKEEP ? 3 : 2;
    now.room = now.buckets * SLOTS;
    now.key_count = SIM_HOT_KEYS + now.room;
    const loom__open_shape shape = {now.c->strings ? SLOT_STRING : SLOT_TAG, PARTITIONS, now.buckets};
    const uint64_t line_bytes = PARTITIONS * open_partition_bytes(SLOT_TAG, now.buckets);
    now.view = (loom__rows_view){.lines = loom__open_view_make(&shape, TABLE_SEED),
                                 .heap_room = variable != 0 ? HEAP_BYTES : 0,
                                 .most_key_bytes = SIMT_ROWS_MOST_KEY,
                                 .most_value_bytes = SIMT_ROWS_MOST_VALUE};
    now.key_length = variable & LOOM__VARIABLE_KEYS && form == 3 ? 12 : key_bytes;
    loom__open_view *lines = &now.view.lines;
    lines->eager_depth = tiny ? 0 : (uint32_t)(seed / 5 % 2);
    lines->base = memory;
    lines->totals = (loom__totals *)(void *)(memory + line_bytes);
    lines->marks = (uint32_t *)(lines->totals + 1);
    lines->stale = lines->marks + PARTITIONS;
    lines->retired_slots = lines->stale + PARTITIONS;
    now.away = lines->retired_slots + PARTITIONS;
    const uint32_t apart = (uint32_t)(seed / 11 % 2); /* every case has tables of both layouts */
    unsigned char *rows = (unsigned char *)(now.away + 2);
    unsigned char *behind =
        rows + (uint64_t)PARTITIONS * now.room * open_row_key_stride(variable, key_bytes, value_bytes, apart);
    open_set_rows(&now.view, variable, key_bytes, value_bytes, apart, rows, behind);
    now.bytes = (size_t)(behind - memory) + (apart ? PARTITIONS * now.room * value_bytes : 0);
    if (variable != 0) {
        now.view.strings = (loom__string_totals *)(void *)(memory + now.bytes);
        now.view.heap = (unsigned char *)(now.view.strings + 1);
        now.bytes += sizeof *now.view.strings + HEAP_BYTES;
        memset(now.view.strings, 0, sizeof *now.view.strings);
        memset(now.view.heap, 0, HEAP_BYTES);
    }
    for (uint32_t partition = 0; partition < PARTITIONS; partition++)
        loom__cpu_rows_clear_partition(lines, partition);
    *lines->totals = (loom__totals){0};
    memset(now.before, 0, sizeof now.before);
    draw_keys(now.c->strings ? FORMS + form : form);

    const uint32_t filled = now.c->crowded ? now.room - 1 - below(2) : below(3) == 0 ? below(8) : now.room - below(6);
    const uint32_t erases = now.c->streams[0] & (SIM_ERASE | SIM_UPDATE);
    for (uint32_t i = 0; i < SIM_HOT_KEYS && !now.c->crowded; i++)
        if (below(4) < (erases ? 3 : 1))
            set_up_key(i, 1, 100 + i);
    for (uint32_t i = SIM_HOT_KEYS; i < SIM_HOT_KEYS + filled && lines->totals->size < now.room; i++)
        set_up_key(i, 1, i);
    const uint32_t most_holes = now.c->streams[0] == SIM_UPKEEP ? now.room : 4;
    for (uint32_t holes = now.c->crowded ? 0 : below(most_holes); holes > 0; holes--)
        set_up_key(SIM_HOT_KEYS + below(now.room), 0, 0);
    for (uint32_t retired = now.c->streams[0] == SIM_UPKEEP ? below(2) * below(8) : 0; retired > 0; retired--)
        retire_key(below(now.key_count));
    if (now.c->brim) /* room for a few more strings */
        now.view.heap_room = now.view.strings->used + 8 * below(12);
}

/* A team of up to 16 lanes; a list that is long enough, or not. */
static void draw_upkeep(int tiny)
{
    now.config.group_lanes = 1;
    now.config.warp_lanes = tiny ? 1 : 1u << below(4);
    now.config.turn_together = 0;
    now.warps_per_block = 2;
    now.away[0] = now.away[1] = below(8);
    now.calls[0] = (sim_call){.op = SIMT_MAP_UPKEEP, .groups = now.config.warp_lanes * (tiny ? 2 : 1 + below(2))};
    now.with[0].rows = (simt_rows_call){.op = SIMT_MAP_UPKEEP,
                                        .shared = OPEN_SHARED,
                                        .view = now.view,
                                        .groups = now.calls[0].groups,
                                        .order = below(8) != 0,
                                        .list = upkeep_list,
                                        .room = below(4) != 0 ? now.room : below(now.room / 2),
                                        .away = now.away};
    now.call_count = 1;
}

static uint64_t address_of_key(uint32_t i)
{
    return (uint64_t)(uintptr_t)key_of(i);
}

static void draw_call(uint64_t seed, uint32_t stream, uint32_t hot, int tiny, uint64_t *written)
{
    sim_call *call = &now.calls[now.call_count];
    rows_call *with = &now.with[now.call_count++];
    const simt_map_op op = sim_draw_op(now.c->streams[stream]);
    *call = (sim_call){.op = op == SIMT_MAP_COMBINE && !open_row_has_number(&now.view) ? SIMT_MAP_OVERWRITE : op,
                       .rule = (loom__combine_rule)(seed / 3 % (LOOM__MAX_FLOAT + 1)),
                       .stream = stream};
    with->rows =
        (simt_rows_call){.op = call->op,
                         .shared = now.c->mixed                     ? OPEN_MIXED
                                   : now.c->unread && below(4) != 0 ? OPEN_UNREAD
                                                                    : OPEN_SHARED,
                         .lookup = now.c->takes                       ? SIMT_ROWS_TAKE
                                   : !now.c->strings && seed / 13 % 2 ? SIMT_ROWS_READ_TOGETHER
                                                                      : SIMT_ROWS_READ,
                         .staged = call->op >= SIMT_MAP_KEEP && call->op <= SIMT_MAP_UPDATE && (seed / 7 + stream) % 2,
                         .rule = call->rule,
                         .view = now.view,
                         .by_slot = now.c->by_slot && stream == 0,
                         .items = call->items,
                         .together = with->together};
    call->n = with->rows.n = tiny ? 1 : 1 + below(hot < 3 ? 2 : SIM_MOST_ITEMS);
    call->groups = with->rows.groups = 1 + below(call->n);
    sim_draw_items(call, hot, address_of_key, written);
}

static void draw_calls(uint64_t seed, int tiny)
{
    if (now.c->streams[0] == SIM_UPKEEP) {
        draw_upkeep(tiny);
        return;
    }
    const uint32_t hot = 1 + below(SIM_HOT_KEYS);
    uint64_t written = 1000;
    now.call_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++)
        for (uint32_t i = tiny ? 1 : 1 + below(2); i > 0; i--)
            draw_call(seed, stream, hot, tiny, &written);
}

void sim_rows_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.warps_per_block = 1 + below(2);
    draw_table(seed, tiny);
    draw_calls(seed, tiny);
    memcpy(memory_before, memory, now.bytes);
}

/* ---- Verdict ---- */

static void name_word(const void *at, char *text, size_t bytes)
{
    const unsigned char *place = at;
    const uint64_t line = (uint64_t)(place - memory) / OPEN_LINE_BYTES, inside = (uint64_t)(place - memory) % 64;
    if (now.view.heap != NULL && place >= now.view.heap) {
        snprintf(text, bytes, "heap %u", (unsigned)(place - now.view.heap));
    } else if (now.view.heap != NULL && place >= (const unsigned char *)now.view.strings) {
        snprintf(text, bytes, place < (const unsigned char *)now.view.strings + 8 ? "used" : "unused");
    } else if (place >= now.view.rows) {
        const int value = now.view.apart && place >= now.view.values;
        const uint64_t from = (uint64_t)(place - (value ? now.view.values : now.view.rows));
        const uint32_t stride = value ? now.view.value_stride : now.view.key_stride;
        const uint64_t row = from / stride;
        snprintf(text, bytes, "p%u b%u row %u, byte %u%s", (unsigned)(row / now.room),
                 (unsigned)(row % now.room / SLOTS), (unsigned)(row % SLOTS), (unsigned)(from % stride),
                 value ? " of the value" : "");
    } else if (line >= PARTITIONS * now.buckets) {
        snprintf(text, bytes, "size, marks or counts");
    } else if (inside == OPEN_WORD_OFFSET) {
        snprintf(text, bytes, "p%u b%u word", (unsigned)(line / now.buckets), (unsigned)(line % now.buckets));
    } else {
        snprintf(text, bytes, "p%u b%u tags from %u", (unsigned)(line / now.buckets), (unsigned)(line % now.buckets),
                 (unsigned)(inside / 2));
    }
}

static void read_table(void)
{
    for (uint32_t i = 0; i < now.key_count; i++) {
        uint64_t value[SIMT_ROWS_MOST_VALUE / 8] = {0};
        uint32_t value_bytes = now.view.value_bytes;
        uint8_t found = 0;
        loom__cpu_counts counts = {0};
        const loom__batch one = {.keys = key_of(i), .found_values = value, .found = &found, .n = 1};
        cpu_loops()->find(&now.view, &one, 0, 1, 0, &counts);
        if (now.view.variable & LOOM__VARIABLE_VALUES) {
            const loom__string string = {value[0], value[1]};
            value_bytes = string.length < sizeof value ? (uint32_t)string.length : (uint32_t)sizeof value;
            memset(value, 0, sizeof value);
            if (value_bytes > 0)
                memcpy(value, (const void *)(uintptr_t)string.at, value_bytes);
        }
        const uint64_t number = simt_rows_number((const unsigned char *)value, value_bytes);
        if (found && value_bytes != simt_rows_value_bytes(&now.view, number))
            simt_fail("a value of %u bytes has the length of another", value_bytes);
        now.after[i] = (sim_state){found, number};
    }
}

/* A table whose references are unsound must not be read. */
static void judge_layout_first(void)
{
    loom__survey survey;
    if (now.view.variable == 0)
        return;
    loom__cpu_rows_kernels.survey(sim_cpu(), &now.view, &survey, NULL);
    if (survey.first_bad != UINT64_MAX)
        simt_fail("afterwards bucket %llu breaks an invariant of open_ops.h or refers to strings that are not there",
                  (unsigned long long)survey.first_bad);
}

static void judge_layout(void)
{
    loom__survey survey;
    uint64_t present = 0;
    loom__cpu_rows_kernels.survey(sim_cpu(), &now.view, &survey, NULL);
    for (uint32_t i = 0; i < now.key_count; i++)
        present += (uint64_t)now.after[i].present;
    if (survey.first_bad != UINT64_MAX)
        simt_fail("afterwards bucket %llu breaks an invariant of open_ops.h: a key twice, a key out of its chain's "
                  "reach, a ready bit without a key, or a mark on a partition with room",
                  (unsigned long long)survey.first_bad);
    else if (survey.size != present || survey.size != now.view.lines.totals->size)
        simt_fail("afterwards %llu keys lie in the table, %llu can be found, and its size is %llu",
                  (unsigned long long)survey.size, (unsigned long long)present,
                  (unsigned long long)now.view.lines.totals->size);
}

/* How many slots of the bucket hold the key. */
static uint32_t times_in(uint32_t key, uint32_t bucket)
{
    const uint16_t tag = (uint16_t)open_tag(hash_of(&now.keys[key])), *tags = (const uint16_t *)(const void *)memory;
    uint32_t times = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        times += tags[bucket * OPEN_LINE_BYTES / 2 + slot] == tag &&
                 memcmp(open_row(&now.view, 0, bucket, slot).key, &now.keys[key], now.view.key_bytes) == 0;
    return times;
}

/* A key is outside of its home bucket only if that is full of keys that are at home there. */
static void judge_order(void)
{
    uint32_t at_home[MOST_BUCKETS] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < now.key_count; i++) {
            if (!now.after[i].present)
                continue;
            const uint32_t home = loom__hash_bucket((uint32_t)hash_of(&now.keys[i]), now.buckets);
            if (pass == 0)
                at_home[home] += times_in(i, home);
            else if (times_in(i, home) == 0 && at_home[home] < SLOTS)
                simt_fail("afterwards key %u is away from home, and its home bucket holds %u keys of its own", i,
                          at_home[home]);
        }
}

static uint32_t retired_tags(uint32_t partition)
{
    const uint16_t *tags = (const uint16_t *)(const void *)memory;
    uint32_t retired = 0;
    for (uint32_t number = partition * now.buckets; number < (partition + 1) * now.buckets; number++)
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            retired += tags[number * OPEN_LINE_BYTES / 2 + slot] == OPEN_RETIRED_TAG;
    return retired;
}

/* After mixed calls: retired slots become free. */
static void sweep(void)
{
    const open_scratch none = {NULL, 0, &(uint32_t){0}};
    for (uint32_t partition = 0; partition < PARTITIONS; partition++) {
        const uint32_t retired = retired_tags(partition), counted = now.view.lines.retired_slots[partition];
        if (retired != counted)
            simt_fail("partition %u has %u retired tags, but %u were counted", partition, retired, counted);
        open_put_in_order(SLOT_TAG, OPEN_ALONE, &now.view.lines, partition, 0, (lane_team){0}, (lane_group){0}, &none);
    }
}

static void judge_upkeep(const simt_rows_call *call)
{
    for (uint32_t partition = 0; partition < PARTITIONS; partition++)
        if (retired_tags(partition) != 0 || now.view.lines.retired_slots[partition] != 0 ||
            (call->order && now.view.lines.stale[partition] != 0))
            simt_fail("afterwards partition %u counts as worn", partition);
    if (call->order && call->room >= now.room)
        judge_order();
}

/* Every byte that was given out holds a string or counts as unused, except a rest at the end that was too short. */
static void judge_heap(void)
{
    loom__survey survey;
    uint64_t unused = 0;
    if (now.view.variable == 0)
        return;
    loom__cpu_rows_kernels.survey(sim_cpu(), &now.view, &survey, NULL);
    for (uint32_t i = 0; i < OPEN_UNUSED_COPIES; i++)
        unused += now.view.strings->unused[i].bytes;
    const uint64_t counted = survey.in_heap + unused;
    if (now.view.strings->used > now.view.heap_room ? counted > now.view.heap_room : counted != now.view.strings->used)
        simt_fail("afterwards strings take %llu bytes of the heap and %llu count as unused, but %llu were given out",
                  (unsigned long long)survey.in_heap, (unsigned long long)unused,
                  (unsigned long long)now.view.strings->used);
}

/* Whether the heap had no room for the strings of an item, so that its refusal is right. `used` only rises. */
static int was_short_of_bytes(const simt_map_item *asked)
{
    const uint64_t used = now.view.strings->used, room = now.view.heap_room;
    uint64_t bytes = 0;
    if (now.view.variable & LOOM__VARIABLE_KEYS)
        bytes += open_piece_of(now.key_length);
    if (now.view.variable & LOOM__VARIABLE_VALUES)
        bytes += simt_rows_value_bytes(&now.view, asked->value);
    return used > room || room - used < bytes;
}

/* In mixed calls slots do not become free, so those that were taken at the beginning and during the run count. */
static uint32_t used_slots(void)
{
    uint32_t used = now.c->mixed ? sim_slots_taken(now.calls, now.call_count) : 0;
    for (uint32_t i = 0; i < now.key_count; i++)
        used += (uint32_t)(now.c->mixed ? now.before : now.after)[i].present;
    return used;
}

static void tell(const sim_options *options)
{
    fprintf(options->report, "%s\n  case %s: %u + %u bytes, groups of %u lanes, votes of %s, %s memory\n",
            simt.failure[0] ? simt.failure : "all is well", now.c->name, now.view.key_bytes, now.view.value_bytes,
            now.config.group_lanes, now.config.turn_together ? "warps" : "groups",
            now.config.weak_memory ? "weak" : "strong");
    sim_tell_calls(options, now.calls, now.call_count, now.before, now.after);
}

int sim_rows_run(simt_schedule *schedule, const sim_options *options)
{
    memcpy(memory, memory_before, now.bytes);
    simt_begin(&now.config, schedule, memory, (now.bytes + 7) / 8 * 8);
    for (uint32_t i = 0; i < now.call_count; i++)
        sim_launch(&now.calls[i],
                   options->kernel != NULL              ? options->kernel
                   : now.calls[i].op == SIMT_MAP_UPKEEP ? simt_rows_upkeep
                                                        : simt_rows_run,
                   &now.with[i].rows, now.warps_per_block);
    simt.name_word = name_word;
    simt.matters = NULL;
    if (simt_run()) {
        if (now.c->mixed)
            sweep();
        judge_layout_first();
        if (simt.failure[0] == 0)
            read_table();
        if (now.c->streams[0] == SIM_UPKEEP && simt.failure[0] == 0)
            judge_upkeep(&now.with[0].rows);
        judge_layout();
        judge_heap();
        const sim_verdict verdict = {.calls = now.calls,
                                     .call_count = now.call_count,
                                     .value_bytes = now.view.variable & LOOM__VARIABLE_VALUES
                                                        ? (uint32_t)sizeof(uint64_t)
                                                        : now.view.value_bytes,
                                     .has_room = used_slots() < now.room,
                                     .mixed = now.c->mixed,
                                     .is_excused = now.c->brim ? was_short_of_bytes : NULL};
        for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++)
            sim_judge_key(&verdict, i, now.before[i], now.after[i]);
    }
    const int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
