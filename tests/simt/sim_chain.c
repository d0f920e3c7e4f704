#include "simt/machine/simt_lists.h"

#include "simt/sim_chain.h"

#include "machines/cpu/multi/cpu_multi.h"
#include "machines/cpu/open/cpu_open.h"
#include "simt/machine/simt_chain.h"
#include "simt/sim_draw.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BUCKETS = 3,
    MOST_SLOTS = MOST_BUCKETS * 16,
    HOT_KEYS = 3,
    MOST_BEFORE = 9, /* values of a key before the run */
    HEAP_ROOM = 320, /* values of 8 bytes */
    TABLE_BYTES = 2 * MOST_BUCKETS * 128,
    MOST_ALL = SIM_MOST_CALLS * SIM_MOST_ITEMS
};

typedef struct value_list {
    uint64_t values[SIMT_CHAIN_MOST_VALUES];
    uint32_t count;
} value_list;

typedef struct scenario_key {
    uint64_t key;
    uint32_t partition;
    value_list before, after;
} scenario_key;

typedef struct scenario_call {
    simt_chain_call chain;
    simt_map_item items[SIM_MOST_ITEMS];
    uint64_t values[SIM_MOST_ITEMS][SIMT_CHAIN_MOST_VALUES];
    uint32_t of[SIM_MOST_ITEMS]; /* the key of each item */
    uint32_t stream;
    simt_call *launched;
} scenario_call;

/* Everything that lanes touch. */
static struct memory {
    _Alignas(64) unsigned char table[TABLE_BYTES];
    loom__totals totals;
    uint32_t marks[2], stale[2], retired_slots[2];
    loom__multi_totals lists;
    uint64_t heap[HEAP_ROOM];
} memory, image;

static struct {
    const sim_case *c;
    simt_config config;
    loom__multi_view view;
    uint32_t warps_per_block;
    scenario_key keys[HOT_KEYS + MOST_SLOTS];
    uint32_t key_count;
    scenario_call calls[SIM_MOST_CALLS];
    uint32_t call_count;
} now;

uint64_t simt_large_from = SIMT_NEVER_LARGE, simt_most_fill = 0;

static uint32_t key_at_fault; /* UINT32_MAX: none in particular */
static uint32_t keys_in[2];   /* keys in each partition afterwards, those without values among them */

/* ---- Scenarios ---- */

static uint64_t draw_key(uint32_t partition)
{
    const uint32_t key_bytes = slot_key_bytes((loom__slot_kind)now.view.directory.kind);
    for (;;) {
        const uint64_t key = any_key(key_bytes), hash = loom__hash_key(key, key_bytes, now.view.directory.seed);
        if (loom__hash_partition(hash, 2) == partition)
            return key;
    }
}

/* Insert values of one key as the cpu machine does: one bucket at most. `tight`: without room behind them. */
static void set_up_values(scenario_key *key, uint32_t count, int tight)
{
    uint64_t keys[MOST_BEFORE], values[MOST_BEFORE], needed = 0;
    loom_result result = {0};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t value = (uint64_t)(key - now.keys) * 100 + key->before.count;
        memcpy((char *)keys + i * slot_key_bytes((loom__slot_kind)now.view.directory.kind), &key->key, 8);
        memcpy((char *)values + i * now.view.value_bytes, &value, now.view.value_bytes);
        key->before.values[key->before.count++] = value;
    }
    const loom__batch batch = {.keys = keys,
                               .values = values,
                               .n = count,
                               .write = LOOM__WRITE_KEEP,
                               .values_needed = tight ? NULL : &needed,
                               .result = &result};
    if (loom__cpu_multi_kernels.write(sim_cpu(), &now.view, &batch) != LOOM_OK || result.ok != count)
        key->before.count -= count; /* the partition is full */
}

static void draw_view(uint64_t seed, int tiny)
{
    static const uint32_t firsts[] = {1, 1, 2, 3}, growths[] = {0, 512, 4096, 12288};
    const loom__open_shape shape = {seed % 2 == 0 ? SLOT_KEY_4_VALUE_8 : SLOT_KEY_8_VALUE_8, 2,
                                    tiny ? 2 : 2 + below(2)};
    now.view = (loom__multi_view){.directory = loom__open_view_make(&shape, below(UINT32_MAX)),
                                  .heap = (unsigned char *)memory.heap,
                                  .lists = &memory.lists,
                                  .value_bytes = seed / 2 % 2 == 0 ? 4 : 8,
                                  .most = LIST_MOST_VALUES,
                                  .first_bucket = (uint16_t)firsts[below(4)],
                                  .bucket_growth = (uint16_t)growths[below(4)]};
    if (2 * open_partition_bytes(shape.kind, shape.buckets) > TABLE_BYTES)
        abort();
    now.view.room = HEAP_ROOM * 8 / now.view.value_bytes;
    loom__open_view *directory = &now.view.directory;
    directory->eager_depth = tiny ? 0 : below(3);
    directory->base = memory.table;
    directory->totals = &memory.totals;
    directory->marks = memory.marks;
    directory->stale = memory.stale;
    directory->retired_slots = memory.retired_slots;
}

static void draw_table(uint64_t seed, int tiny)
{
    memset(&memory, 0, sizeof memory);
    draw_view(seed, tiny);
    for (uint32_t partition = 0; partition < 2; partition++)
        loom__cpu_open_clear_partition(&now.view.directory, partition);
    const uint32_t slots = open_slots((loom__slot_kind)now.view.directory.kind) * now.view.directory.buckets;
    const int appends = (now.c->streams[0] & SIM_APPEND) != 0;
    uint32_t others = now.c->crowded ? slots - below(4) : below(2) ? below(slots - HOT_KEYS) : slots - HOT_KEYS;
    others = now.c->brim ? slots - HOT_KEYS : others;
    now.key_count = HOT_KEYS + others;
    memset(now.keys, 0, sizeof now.keys);
    for (uint32_t i = 0; i < now.key_count; i++) {
        now.keys[i].partition = i == HOT_KEYS - 1 && below(3) == 0;
        now.keys[i].key = draw_key(now.keys[i].partition);
    }
    if (now.c->brim) { /* the first key wants a large bucket, the others small ones */
        now.view.first_bucket = 1;
        now.view.bucket_growth = 12288;
        set_up_values(&now.keys[0], MOST_BEFORE, 1);
    }
    for (uint32_t i = now.c->brim ? HOT_KEYS : 0; i < HOT_KEYS; i++) {
        const uint32_t wanted = below(appends ? 3 : 8) == 0 ? 0 : below(MOST_BEFORE + 1);
        while (now.keys[i].before.count < wanted) { /* the more often, the more pieces */
            const uint32_t left = wanted - now.keys[i].before.count, more = 1 + below(left < 3 ? left : 3);
            const uint32_t had = now.keys[i].before.count;
            set_up_values(&now.keys[i], more, below(4) == 0);
            if (now.keys[i].before.count == had)
                break;
        }
    }
    for (uint32_t i = now.c->brim ? 1 : HOT_KEYS; i < now.key_count; i++)
        set_up_values(&now.keys[i], 1, 0);
    if (now.c->brim) {
        const uint64_t large = list_link_values(now.view.value_bytes) + chain_bucket_values(&now.view, MOST_BEFORE);
        now.view.room = memory.lists.used + large + below(2);
    }
    if (now.c->crowded) /* little room, or none, or room for all while the directory is crowded */
        now.view.room = below(3) == 0 ? now.view.room : memory.lists.used + below(9);
    if (!now.c->brim && below(4) == 0) {
        uint32_t longest = 1;
        for (uint32_t i = 0; i < HOT_KEYS; i++)
            longest = now.keys[i].before.count > longest ? now.keys[i].before.count : longest;
        now.view.most = longest + below(4);
    }
    image = memory;
}

static simt_map_op draw_op(uint32_t from)
{
    static const simt_map_op ops[] = {SIMT_MAP_APPEND, SIMT_MAP_COUNT, SIMT_MAP_FIND_ALL, SIMT_MAP_ERASE};
    for (;;) {
        const simt_map_op op = ops[below(4)];
        if (from >> op & 1)
            return op;
    }
}

void sim_chain_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.warps_per_block = 1 + below(2);
    simt_large_from = c->large ? 1 + below(MOST_BEFORE) : SIMT_NEVER_LARGE;
    simt_most_fill = below(4);
    draw_table(seed, tiny);
    const uint32_t hot = tiny ? 1 : 1 + below(HOT_KEYS);
    uint64_t value = 10000;
    now.call_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++) {
        const uint32_t calls = tiny || c->brim ? 1 : 1 + below(SIM_MOST_CALLS / SIMT_MOST_STREAMS);
        for (uint32_t i = 0; i < calls; i++) {
            scenario_call *call = &now.calls[now.call_count++];
            memset(call, 0, sizeof *call);
            call->stream = stream;
            call->chain = (simt_chain_call){.op = draw_op(c->streams[stream]),
                                            .view = now.view,
                                            .items = call->items,
                                            .values = call->values,
                                            .n = tiny ? 1 : 1 + below(SIM_MOST_ITEMS),
                                            .counts = c->counts};
            call->chain.groups = 1 + below(call->chain.n);
            if (c->brim)
                call->chain.n = call->chain.groups = tiny ? 2 : SIM_MOST_ITEMS;
            for (uint32_t item = 0; item < call->chain.n; item++) {
                call->of[item] = c->brim ? stream * call->chain.n + item : below(hot);
                call->items[item] = (simt_map_item){.key = now.keys[call->of[item]].key, .value = value++};
            }
        }
    }
}

/* ---- Verdict ---- */

/* The handle of a key; *found: the directory has the key. */
static uint64_t handle_of(const scenario_key *key, int *found)
{
    uint64_t handle = 0;
    loom__cpu_counts counts = {0};
    const loom__batch look = {.keys = &key->key, .found_values = &handle, .n = 1};
    loom__cpu_open_scalar.find(&now.view.directory, &look, 0, 1, 0, &counts);
    *found = counts.ok == 1;
    return *found ? handle : 0;
}

static void erase_bare_key(const scenario_key *key)
{
    loom__cpu_counts counts = {0};
    const loom__batch erase = {.keys = &key->key, .n = 1, .write = LOOM__WRITE_ERASE};
    if (memory.lists.bare == 0)
        simt_fail("key %#llx has no values, and nobody said so", (unsigned long long)key->key);
    loom__cpu_open_scalar.write(&now.view.directory, &erase, 0, 1, 0, &counts);
    memory.totals.size -= counts.ok;
}

/* Reads the list of a key afterwards. The survey has found that all pieces lie in the heap. */
static void read_list(scenario_key *key)
{
    int found;
    const uint64_t handle = handle_of(key, &found), bytes = now.view.value_bytes;
    key->after.count = (uint32_t)list_count(handle);
    if (key->after.count > SIMT_CHAIN_MOST_VALUES) {
        simt_fail("key %#llx has %u values", (unsigned long long)key->key, key->after.count);
        return;
    }
    memset(key->after.values, 0, sizeof key->after.values);
    if (!list_in_heap(handle)) {
        key->after.values[0] = list_one_value(handle);
        return;
    }
    loom__list_piece piece = list_newest_piece(now.view.heap, bytes, handle);
    for (;; piece = list_older_piece(now.view.heap, bytes, &piece)) {
        for (uint64_t i = 0; i < piece.count; i++)
            memcpy(&key->after.values[piece.before + i], now.view.heap + (piece.place + i) * bytes, bytes);
        if (!piece.linked)
            return;
    }
}

/* The table as a whole: no touched handle, no piece outside the heap or in two lists, and all counts agree. */
static void judge_table(void)
{
    loom__survey survey = {0};
    keys_in[0] = keys_in[1] = 0;
    for (uint32_t i = 0; i < now.key_count; i++) {
        int found;
        const uint64_t handle = handle_of(&now.keys[i], &found);
        keys_in[now.keys[i].partition] += (uint32_t)found;
        if (found && list_count(handle) == 0)
            erase_bare_key(&now.keys[i]);
    }
    memset(now.view.directory.marks, 0, sizeof memory.marks); /* a key that was erased above has made room */
    memory.lists.used = chain_used(&now.view);
    if (memory.lists.used > now.view.room)
        simt_fail("%llu values of the heap are used, and it has %llu", (unsigned long long)memory.lists.used,
                  (unsigned long long)now.view.room);
    else if (loom__cpu_multi_kernels.survey(sim_cpu(), &now.view, &survey, NULL) != LOOM_OK)
        simt_fail("no survey");
    else if (survey.first_bad != UINT64_MAX)
        simt_fail("afterwards bucket %llu is not sound", (unsigned long long)survey.first_bad);
    else if (survey.size != memory.totals.size || survey.pairs != memory.lists.pairs)
        simt_fail("afterwards there are %llu keys and %llu pairs, and %llu and %llu are counted",
                  (unsigned long long)survey.size, (unsigned long long)survey.pairs,
                  (unsigned long long)memory.totals.size, (unsigned long long)memory.lists.pairs);
}

static const scenario_call *call_at(uint32_t index)
{
    return &now.calls[index / SIM_MOST_ITEMS];
}

/* Item `index` of all calls if it is one of this operation on this key; otherwise NULL. */
static const simt_map_item *item_of(uint32_t index, uint32_t key, simt_map_op op)
{
    const scenario_call *call = call_at(index);
    const uint32_t item = index % SIM_MOST_ITEMS;
    return item < call->chain.n && call->of[item] == key && call->chain.op == op ? &call->items[item] : NULL;
}

#define FOR_ITEMS(index) for (uint32_t index = 0; index < now.call_count * SIM_MOST_ITEMS; index++)

static int ended_before(uint32_t first, uint32_t second)
{
    return call_at(first)->launched->ended < call_at(second)->launched->began;
}

static uint32_t longest_list(void)
{
    uint32_t longest = 1;
    for (uint32_t i = 0; i < HOT_KEYS; i++) {
        int found;
        const uint32_t count = (uint32_t)list_count(handle_of(&now.keys[i], &found));
        longest = count > longest ? count : longest;
    }
    return longest;
}

/* Values that were there stay in front, in their order. Each appended value is at the place that was told. An append
 * that ended before another began has the lower place. */
static void judge_appends(uint32_t key)
{
    const value_list *before = &now.keys[key].before, *after = &now.keys[key].after;
    uint32_t appended = 0, refused = 0;
    for (uint32_t i = 0; i < before->count; i++)
        if (after->values[i] != before->values[i])
            simt_fail("value %u of key %#llx was %llu, and is %llu", i, (unsigned long long)now.keys[key].key,
                      (unsigned long long)before->values[i], (unsigned long long)after->values[i]);
    FOR_ITEMS(i)
    {
        const simt_map_item *own = item_of(i, key, SIMT_MAP_APPEND);
        refused += own != NULL && own->status == LOOM_FULL;
        if (own == NULL || own->status != LOOM_OK)
            continue;
        appended++;
        if (own->found < before->count || own->found >= after->count || after->values[own->found] != own->value)
            simt_fail("value %llu is not at place %llu of its list", (unsigned long long)own->value,
                      (unsigned long long)own->found);
        FOR_ITEMS(j)
        {
            const simt_map_item *later = item_of(j, key, SIMT_MAP_APPEND);
            if (later != NULL && later->status == LOOM_OK && ended_before(i, j) && later->found < own->found)
                simt_fail("value %llu came later than %llu, and lies in front of it", (unsigned long long)later->value,
                          (unsigned long long)own->value);
        }
    }
    if (after->count != before->count + appended)
        simt_fail("key %#llx had %u values, got %u, and has %u", (unsigned long long)now.keys[key].key, before->count,
                  appended, after->count);
    /* A refused value: the key has all that it may have; or there is no room for a bucket, or for the key. The room for
     * a bucket may be there, if a larger bucket of another list was refused at the same time. */
    const uint64_t largest = list_link_values(now.view.value_bytes) + now.view.first_bucket + 3 * longest_list() +
                             (now.c->large ? LIST_LARGE_UNIT + CHAIN_LARGE_BUCKET : 0);
    const uint32_t slots = open_slots((loom__slot_kind)now.view.directory.kind) * now.view.directory.buckets;
    const int may_be_full =
        now.view.room - memory.lists.used < largest || (after->count == 0 && keys_in[now.keys[key].partition] == slots);
    if (refused > 0 && after->count < now.view.most && !may_be_full)
        simt_fail("key %#llx was refused a value, although there is room", (unsigned long long)now.keys[key].key);
    if (after->count > now.view.most)
        simt_fail("key %#llx has more values than it may", (unsigned long long)now.keys[key].key);
}

/* A count includes all appends that ended before, and none that began later. */
static void judge_counts(uint32_t key)
{
    FOR_ITEMS(i)
    {
        const simt_map_item *own = item_of(i, key, SIMT_MAP_COUNT);
        uint32_t least = now.keys[key].before.count, most = least;
        if (own == NULL || now.c->streams[1] & SIM_ERASE)
            continue;
        FOR_ITEMS(j)
        {
            const simt_map_item *append = item_of(j, key, SIMT_MAP_APPEND);
            if (append == NULL || append->status != LOOM_OK)
                continue;
            least += (uint32_t)ended_before(j, i);
            most += (uint32_t)!ended_before(i, j);
        }
        if (own->found < least || own->found > most || (own->status == LOOM_OK) != (own->found > 0))
            simt_fail("%llu values were counted, and there were %u to %u", (unsigned long long)own->found, least, most);
    }
}

/* Whether an erasure of the key ended before item `index` began, or began before it ended. */
static int erased_before(uint32_t key, uint32_t index, int surely)
{
    FOR_ITEMS(i)
    {
        const simt_map_item *erasure = item_of(i, key, SIMT_MAP_ERASE);
        if (erasure != NULL && (surely ? ended_before(i, index) : !ended_before(index, i)))
            return 1;
    }
    return 0;
}

/* A lookup finds all values or none. */
static void judge_finds(uint32_t key)
{
    const value_list *before = &now.keys[key].before;
    FOR_ITEMS(i)
    {
        const simt_map_item *own = item_of(i, key, SIMT_MAP_FIND_ALL);
        const int counts_only = own == NULL;
        if (own == NULL && now.c->streams[1] & SIM_ERASE)
            own = item_of(i, key, SIMT_MAP_COUNT);
        if (own == NULL)
            continue;
        if (own->status == LOOM_OK && erased_before(key, i, 1))
            simt_fail("an erased key is found");
        if (own->status == LOOM_NOT_FOUND && before->count > 0 && !erased_before(key, i, 0))
            simt_fail("a key that is there is not found");
        if (own->status != LOOM_OK)
            continue;
        const uint64_t *values = call_at(i)->values[i % SIM_MOST_ITEMS];
        const value_list *there = now.c->streams[0] & SIM_APPEND ? &now.keys[key].after : before;
        if (own->found > there->count || (there == before && own->found < before->count))
            simt_fail("a key has %u values, and %llu were found", there->count, (unsigned long long)own->found);
        for (uint64_t j = 0; j < own->found && !counts_only && simt.failure[0] == 0; j++)
            if (values[j] != there->values[j])
                simt_fail("value %llu of a key is %llu, and %llu was found", (unsigned long long)j,
                          (unsigned long long)there->values[j], (unsigned long long)values[j]);
    }
}

/* Exactly one erasure of a key erases it. */
static void judge_erasures(uint32_t key)
{
    uint32_t asked = 0, erased = 0;
    FOR_ITEMS(i)
    {
        const simt_map_item *own = item_of(i, key, SIMT_MAP_ERASE);
        asked += own != NULL;
        erased += own != NULL && own->status == LOOM_OK;
    }
    const uint32_t wanted = asked > 0 && now.keys[key].before.count > 0;
    if (erased != wanted)
        simt_fail("%u of %u erasures of a key with %u values erased it", erased, asked, now.keys[key].before.count);
    if (now.keys[key].after.count != (wanted ? 0 : now.keys[key].before.count))
        simt_fail("afterwards a key that was %s has %u values", wanted ? "erased" : "not erased",
                  now.keys[key].after.count);
}

static void judge(void)
{
    const int appends = (now.c->streams[0] & SIM_APPEND) != 0;
    judge_table();
    for (uint32_t i = 0; i < now.key_count && simt.failure[0] == 0; i++) {
        key_at_fault = i;
        read_list(&now.keys[i]);
        if (simt.failure[0] == 0)
            (appends ? judge_appends : judge_erasures)(i);
        if (simt.failure[0] == 0)
            judge_counts(i);
        if (simt.failure[0] == 0)
            judge_finds(i);
    }
    for (uint32_t i = 0; i < now.call_count && simt.failure[0] == 0; i++)
        for (uint32_t item = 0; item < now.calls[i].chain.n; item++)
            if (now.calls[i].items[item].status == LOOM_INTERNAL)
                simt_fail("item %u of call %u was not answered", item, i);
}

/* ---- Runs ---- */

static void name_word(const void *at, char *text, size_t bytes)
{
    const unsigned char *byte = at;
    if (byte >= (const unsigned char *)memory.heap)
        snprintf(text, bytes, "heap %u",
                 (unsigned)((uint64_t)(byte - (const unsigned char *)memory.heap) / now.view.value_bytes));
    else if (byte >= (const unsigned char *)&memory.lists)
        snprintf(text, bytes, "lists %u", (unsigned)(byte - (const unsigned char *)&memory.lists) / 8);
    else
        snprintf(text, bytes, "table %u", (unsigned)(byte - memory.table));
}

static int matters(const simt_event *event)
{
    if (event->op == SIMT_BALLOT || event->op == SIMT_SHUFFLE || event->item == UINT32_MAX)
        return 0;
    for (uint32_t i = 0; i < now.call_count; i++)
        if (now.calls[i].launched == event->call)
            return key_at_fault == UINT32_MAX || now.calls[i].of[event->item] == key_at_fault;
    return 0;
}

static const char *name_of(simt_map_op op)
{
    return op == SIMT_MAP_APPEND  ? "append"
           : op == SIMT_MAP_COUNT ? "count"
           : op == SIMT_MAP_ERASE ? "erase"
                                  : "find_all";
}

static void tell(const sim_options *options)
{
    FILE *out = options->report;
    fprintf(
        out,
        "%s\n  case %s: keys and values of %u + %u bytes, groups of %u lanes, votes of %s, %s memory, %u buckets;\n"
        "  a first bucket of %u values, %u / 4096 more for each value, at most %u values; heap of %llu, %llu used\n",
        simt.failure[0] ? simt.failure : "all is well", now.c->name,
        slot_key_bytes((loom__slot_kind)now.view.directory.kind), (unsigned)now.view.value_bytes,
        now.config.group_lanes, now.config.turn_together ? "warps" : "groups",
        now.config.weak_memory ? "weak" : "strong", now.view.directory.buckets, now.view.first_bucket,
        now.view.bucket_growth, now.view.most, (unsigned long long)now.view.room, (unsigned long long)image.lists.used);
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        fprintf(out, "  stream %u, steps %llu to %llu: %s by %u groups\n", call->stream,
                (unsigned long long)call->launched->began, (unsigned long long)call->launched->ended,
                name_of(call->chain.op), call->chain.groups);
        for (uint32_t item = 0; item < call->chain.n; item++) {
            const scenario_key *key = &now.keys[call->of[item]];
            const simt_map_item *asked = &call->items[item];
            fprintf(out, "    [%u] key %#llx", item, (unsigned long long)key->key);
            if (call->chain.op == SIMT_MAP_APPEND)
                fprintf(out, " value %llu", (unsigned long long)asked->value);
            fprintf(out, ": %s %llu   (values before: %u; after: %u)\n", loom_status_name(asked->status),
                    (unsigned long long)asked->found, key->before.count, key->after.count);
        }
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_chain_run(simt_schedule *schedule, const sim_options *options)
{
    memory = image;
    simt_begin(&now.config, schedule, &memory, sizeof memory);
    for (uint32_t i = 0; i < now.call_count; i++) {
        scenario_call *call = &now.calls[i];
        for (uint32_t item = 0; item < call->chain.n; item++) {
            call->items[item].status = LOOM_INTERNAL;
            call->items[item].found = 0;
        }
        const simt_call launch = {
            .kernel = options->kernel != NULL ? options->kernel : simt_chain_run,
            .argument = &call->chain,
            .name = name_of(call->chain.op),
            .groups = call->chain.groups,
            .warps_per_block = now.warps_per_block,
            .writes = call->chain.op == SIMT_MAP_APPEND || call->chain.op == SIMT_MAP_ERASE,
        };
        call->launched = simt_launch(call->stream, &launch);
    }
    key_at_fault = UINT32_MAX;
    for (uint32_t i = 0; i < now.key_count; i++)
        now.keys[i].after.count = 0;
    simt.name_word = name_word;
    simt.matters = NULL;
    if (simt_run()) {
        simt.matters = matters;
        judge();
    }
    const int well = simt.failure[0] == 0;
    if (options->report != NULL && (!well || options->tell_always))
        tell(options);
    return well;
}
