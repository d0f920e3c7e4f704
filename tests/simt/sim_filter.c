#include "simt/sim_filter.h"

#include "machines/cpu/filter/cpu_filter.h"
#include "simt/machine/simt_filter.h"
#include "simt/sim_draw.h"

#include <string.h>

enum {
    MOST_BLOCKS = 3,
    MOST_WORDS = MOST_BLOCKS * FILTER_BLOCK_WORDS,
    KEYS = 6,
    MOST_ALL = SIM_MOST_CALLS * SIM_MOST_ITEMS /* items of all calls */
};

/* A set of bits of the filter. */
typedef struct bit_set {
    uint64_t words[MOST_WORDS];
} bit_set;

typedef struct scenario_call {
    simt_filter_call filter;
    uint32_t stream, first; /* first: its first item in `all` */
    const char *name;
    int writes;
    simt_call *launched;
} scenario_call;

/* Everything that lanes touch. */
static struct {
    _Alignas(64) bit_set filter;
    uint64_t flags[KEYS]; /* has the key been inserted? */
} memory;

static struct {
    const sim_case *c;
    simt_config config;
    loom__filter_view view;
    uint32_t warps_per_block;
    bit_set before;
    uint64_t keys[KEYS];
    scenario_call calls[SIM_MOST_CALLS];
    uint32_t call_count, item_count;
    simt_filter_item all[MOST_ALL];
    uint32_t of[MOST_ALL]; /* the key of each item */
} now;

/* ---- A plain reference: the bits of a key, as the table in filter_ops.h has them ---- */

static void add_bits(bit_set *set, uint64_t key)
{
    static const uint32_t factors[] = {0x9e3779b1u, 0x85ebca77u, 0xc2b2ae3du, 0x27d4eb2fu};
    const uint32_t each = now.view.each;
    const uint64_t hash = loom__hash_key(key, now.view.key_bytes, now.view.seed);
    const uint32_t block = (uint32_t)((hash >> 32) * now.view.blocks >> 32);
    for (uint32_t quarter = 0; quarter < 4; quarter++) {
        const uint32_t number = (uint32_t)hash * factors[quarter], none = number >> 10 & 3;
        for (uint32_t i = 0; i < each; i++) {
            const uint32_t word = i + (each == 3 && i >= none);
            const uint32_t bit = each == 1   ? number >> 25
                                 : each == 2 ? i * 64 + (number >> (26 - 6 * i) & 63)
                                             : word * 32 + (number >> (27 - 5 * word) & 31);
            set->words[block * 8 + quarter * 2 + bit / 64] |= (uint64_t)1 << bit % 64;
        }
    }
}

static int holds(const bit_set *set, uint64_t key)
{
    bit_set bits = {{0}};
    uint64_t missing = 0;
    add_bits(&bits, key);
    for (uint32_t i = 0; i < MOST_WORDS; i++)
        missing |= bits.words[i] & ~set->words[i];
    return missing == 0;
}

/* ---- Scenarios ---- */

static uint64_t draw_key(uint32_t block)
{
    for (;;) {
        const uint64_t key = any_key(now.view.key_bytes);
        if (filter_start(&now.view, now.view.key_bytes, key).block == block)
            return key;
    }
}

/* Nearly all keys are of block 0, so that they share words. The last block, where there are several, stays empty.
 * Sometimes block 0 is so full that the bits of other keys contain all bits of a key, or all but one. */
static void draw_filter(uint64_t seed)
{
    now.view = (loom__filter_view){.base = (unsigned char *)&memory.filter,
                                   .blocks = 1 + below(MOST_BLOCKS),
                                   .each = 1 + (uint32_t)(seed % 4),
                                   .key_bytes = below(2) ? 4 : 8,
                                   .seed = loom__seed_expand(below(UINT32_MAX))};
    memset(&now.before, 0, sizeof now.before);
    uint32_t others = below(3) == 0 ? below(160 / now.view.each) : below(3);
    while (others-- > 0)
        add_bits(&now.before, draw_key(0));
    for (uint32_t i = 0; i < KEYS; i++)
        now.keys[i] = draw_key(i == 4 && now.view.blocks > 2 ? 1 : i == 5 ? now.view.blocks - 1 : 0);
    if (below(2))
        add_bits(&now.before, now.keys[0]);
}

/* Draws which items insert: all, none, or each at random. */
static void draw_items(scenario_call *call, uint32_t from, uint32_t hot)
{
    uint32_t inserting = 0;
    for (uint32_t i = 0; i < call->filter.n; i++) {
        uint32_t at = now.item_count++, which = below(hot);
        int inserts = (from & SIM_KEEP) && (!(from & SIM_FIND) || below(2));
        if (inserts && which == KEYS - 1 && now.view.blocks > 1)
            which = 0; /* its block stays as it is */
        now.of[at] = which;
        now.all[at] = (simt_filter_item){
            .key = now.keys[which],
            .inserts = inserts,
            .flag = &memory.flags[which],
        };
        inserting += (uint32_t)inserts;
    }
    call->writes = inserting > 0;
    call->name = inserting == 0 ? "contains" : inserting == call->filter.n ? "insert" : "mixed";
}

void sim_filter_draw(const sim_case *c, uint64_t seed, int tiny)
{
    now.c = c;
    sim_begin_drawing(c, seed);
    now.config = sim_drawn_config(seed, tiny);
    now.warps_per_block = 1 + below(2);
    draw_filter(seed);
    now.call_count = now.item_count = 0;
    uint32_t hot = 1 + below(KEYS), tells = below(2);
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++) {
        uint32_t calls = tiny ? 1 : 1 + below(SIM_MOST_CALLS / SIMT_MOST_STREAMS);
        for (uint32_t i = 0; i < calls; i++) {
            scenario_call *call = &now.calls[now.call_count++];
            uint32_t n = tiny ? 1 : 1 + below(SIM_MOST_ITEMS);
            *call = (scenario_call){.stream = stream, .first = now.item_count};
            call->filter = (simt_filter_call){.view = now.view,
                                              .items = &now.all[now.item_count],
                                              .n = n,
                                              .groups = 1 + below(n),
                                              .tells = (int)tells,
                                              .tells_new = c->tells_new};
            draw_items(call, c->streams[stream], hot);
        }
    }
}

/* ---- Verdict ---- */

static uint32_t item_at_fault; /* UINT32_MAX: none in particular */

static const scenario_call *call_of(uint32_t item)
{
    uint32_t i = now.call_count - 1;
    while (now.calls[i].first > item)
        i--;
    return &now.calls[i];
}

/* Whether `first` ended before `second` began and an order between them is certain: by the end of a call, by the same
 * lanes, or because memory is not weak. heard_from covers flags. */
static int comes_before(uint32_t first, uint32_t second)
{
    const scenario_call *a = call_of(first), *b = call_of(second);
    const simt_filter_item *one = &now.all[first], *other = &now.all[second];
    if (a == b) {
        uint32_t i = first - a->first, j = second - a->first;
        if (i < j && i % a->filter.groups == j % a->filter.groups)
            return 1;
    } else if (a->launched->ended < b->launched->began) {
        return 1;
    }
    return !now.config.weak_memory && one->ended < other->began;
}

/* known[a][b]: item a comes before b, through any chain of items. */
static int known[MOST_ALL][MOST_ALL];

/* Whether this insertion told the query that the key is there. Unknown, hence 0, if several insertions have the key. */
static int heard_from(uint32_t query, uint32_t insertion)
{
    uint32_t tellers = 0;
    for (uint32_t i = 0; i < now.item_count; i++)
        tellers += now.all[i].inserts && now.of[i] == now.of[query];
    return now.all[query].heard && now.all[insertion].inserts && now.of[insertion] == now.of[query] && tellers == 1;
}

static void find_known(void)
{
    uint32_t n = now.item_count;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            known[a][b] = a != b && (comes_before(a, b) || heard_from(b, a));
    for (uint32_t via = 0; via < n; via++)
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                known[a][b] |= known[a][via] && known[via][b];
}

static void judge_query(uint32_t query)
{
    const simt_filter_item *asked = &now.all[query];
    bit_set must = now.before, may = now.before;
    if (asked->heard)
        add_bits(&must, asked->key);
    for (uint32_t i = 0; i < now.item_count; i++) {
        const simt_filter_item *other = &now.all[i];
        if (known[i][query] && (other->inserts || other->found)) /* a key that was found stays (F1) */
            add_bits(&must, other->key);
        if (other->inserts && other->began <= asked->ended)
            add_bits(&may, other->key);
    }
    item_at_fault = query;
    if (!asked->found && holds(&must, asked->key))
        simt_fail("key %#llx is not found, although its bits were set before", (unsigned long long)asked->key);
    else if (asked->found && !holds(&may, asked->key))
        simt_fail("key %#llx is found, but not all of its bits were set yet", (unsigned long long)asked->key);
}

/* ---- New keys (F3 of filter_ops.h) ---- */

static bit_set bits_of(uint32_t item)
{
    bit_set bits = {{0}};
    add_bits(&bits, now.all[item].key);
    return bits;
}

/* The insertion that found the bit clear, as far as known; UINT32_MAX: none yet. */
static uint32_t finder[MOST_WORDS * 64];

/* Finds a clear bit for the insertion, among `clear`, that no other insertion needs. Other insertions may move to other
 * bits of theirs. Each bit is tried once, so this ends. Returns 0 if there is none. */
static int give_bit(uint32_t item, const bit_set *clear, uint8_t tried[MOST_WORDS * 64])
{
    const bit_set own = bits_of(item);
    for (uint32_t bit = 0; bit < MOST_WORDS * 64; bit++) {
        if (!(own.words[bit / 64] & clear->words[bit / 64] & (uint64_t)1 << bit % 64) || tried[bit])
            continue;
        tried[bit] = 1;
        if (finder[bit] == UINT32_MAX || give_bit(finder[bit], clear, tried)) {
            finder[bit] = item;
            return 1;
        }
    }
    return 0;
}

/* Exactly one insertion finds a bit clear. So each insertion that tells its key as new has a bit that it alone found
 * clear, and each bit that was clear belongs to a key that was told as new. `after`: the bits at the end. */
static void judge_new_keys(const bit_set *after)
{
    bit_set clear, told = {{0}};
    for (uint32_t i = 0; i < MOST_WORDS; i++)
        clear.words[i] = after->words[i] & ~now.before.words[i];
    memset(finder, 0xff, sizeof finder);
    for (uint32_t i = 0; i < now.item_count; i++) {
        uint8_t tried[MOST_WORDS * 64] = {0};
        if (!now.all[i].inserts || !now.all[i].added)
            continue;
        item_at_fault = i;
        if (!give_bit(i, &clear, tried))
            simt_fail("key %#llx is told as new, but others have found all of its bits clear",
                      (unsigned long long)now.all[i].key);
        add_bits(&told, now.all[i].key);
    }
    for (uint32_t i = 0; i < now.item_count; i++) {
        const bit_set own = bits_of(i);
        for (uint32_t word = 0; now.all[i].inserts && word < MOST_WORDS; word++)
            if (own.words[word] & clear.words[word] & ~told.words[word]) {
                item_at_fault = i;
                simt_fail("no insertion of key %#llx is told as new, although a bit was clear that no key has that was",
                          (unsigned long long)now.all[i].key);
            }
    }
}

/* An insertion is not told that its key is new if it knows that all of the key's bits were set. */
static void judge_insertion(uint32_t insertion)
{
    const simt_filter_item *own = &now.all[insertion];
    bit_set must = now.before;
    for (uint32_t i = 0; i < now.item_count; i++)
        if (known[i][insertion] && (now.all[i].inserts || now.all[i].found))
            add_bits(&must, now.all[i].key);
    item_at_fault = insertion;
    if (own->added && holds(&must, own->key))
        simt_fail("key %#llx is told as new, although its bits were set before", (unsigned long long)own->key);
}

static int is_found(const uint64_t *key)
{
    const loom__batch batch = {.keys = key, .n = 1};
    loom__cpu_counts counts = {0};
    loom__cpu_filter_scalar.find(&now.view, &batch, 0, 1, 0, &counts);
    return counts.ok == 1;
}

static void judge(void)
{
    bit_set all = now.before;
    item_at_fault = UINT32_MAX;
    for (uint32_t i = 0; i < now.item_count; i++) {
        if (now.all[i].answers != 1)
            simt_fail("item %u was answered %u times", i, now.all[i].answers);
        if (now.all[i].inserts)
            add_bits(&all, now.all[i].key);
    }
    for (uint32_t i = 0; i < MOST_WORDS; i++)
        if (memory.filter.words[i] != all.words[i])
            simt_fail("afterwards word %u of block %u is %#llx, and should be %#llx", i % 8, i / 8,
                      (unsigned long long)memory.filter.words[i], (unsigned long long)all.words[i]);
    for (uint32_t i = 0; i < now.item_count; i++)
        if (now.all[i].inserts && !is_found(&now.all[i].key))
            simt_fail("afterwards key %#llx is not found", (unsigned long long)now.all[i].key);
    find_known();
    for (uint32_t i = 0; i < now.item_count && simt.failure[0] == 0; i++) {
        if (now.all[i].inserts)
            judge_insertion(i);
        else
            judge_query(i);
    }
    if (now.c->tells_new && simt.failure[0] == 0)
        judge_new_keys(&all);
}

/* ---- Runs ---- */

static void name_word(const void *at, char *text, size_t bytes)
{
    uint32_t word = (uint32_t)((const uint64_t *)at - memory.filter.words);
    if (word < MOST_WORDS)
        snprintf(text, bytes, "block %u word %u", word / 8, word % 8);
    else
        snprintf(text, bytes, "flag of key %u", (unsigned)((const uint64_t *)at - memory.flags));
}

static int matters(const simt_event *event)
{
    if (event->op == SIMT_BALLOT || event->item == UINT32_MAX)
        return 0;
    if (item_at_fault == UINT32_MAX)
        return 1;
    uint32_t block = filter_start(&now.view, now.view.key_bytes, now.all[item_at_fault].key).block;
    return event->word < 0 || event->word / 8 == block || event->word >= MOST_WORDS;
}

static void tell(const sim_options *options)
{
    FILE *out = options->report;
    fprintf(out,
            "%s\n  case %s: keys of %u bytes, %u bits to a quarter, groups of %u lanes, votes of %s, %s memory, %u "
            "blocks%s\n",
            simt.failure[0] ? simt.failure : "all is well", now.c->name, now.view.key_bytes, now.view.each,
            now.config.group_lanes, now.config.turn_together ? "warps" : "groups",
            now.config.weak_memory ? "weak" : "strong", now.view.blocks,
            now.calls[0].filter.tells ? ", groups tell each other" : "");
    if (options->replay != NULL)
        fprintf(out, "  replay: ./dev sim %s\n", options->replay);
    for (uint32_t i = 0; i < now.call_count; i++) {
        const scenario_call *call = &now.calls[i];
        fprintf(out, "  stream %u, steps %llu to %llu: %s by %u groups\n", call->stream,
                (unsigned long long)call->launched->began, (unsigned long long)call->launched->ended, call->name,
                call->filter.groups);
        for (uint32_t item = 0; item < call->filter.n; item++) {
            const simt_filter_item *asked = &call->filter.items[item];
            fprintf(out, "    [%u] key %#llx, steps %llu to %llu: %s%s%s\n", item, (unsigned long long)asked->key,
                    (unsigned long long)asked->began, (unsigned long long)asked->ended,
                    asked->added     ? "inserted as new"
                    : asked->inserts ? "inserted"
                    : asked->found   ? "found"
                                     : "absent",
                    asked->heard ? ", as was told" : "", holds(&now.before, asked->key) ? "   (there before)" : "");
        }
    }
    simt_print(out, options->trace > 0 ? options->trace : 60);
}

int sim_filter_run(simt_schedule *schedule, const sim_options *options)
{
    memory.filter = now.before;
    memset(memory.flags, 0, sizeof memory.flags);
    for (uint32_t i = 0; i < now.item_count; i++) {
        simt_filter_item *item = &now.all[i];
        item->began = item->ended = 0;
        item->answers = 0;
        item->heard = item->found = item->added = 0;
    }
    simt_begin(&now.config, schedule, &memory, sizeof memory);
    for (uint32_t i = 0; i < now.call_count; i++) {
        scenario_call *call = &now.calls[i];
        simt_call launch = {
            .kernel = options->kernel != NULL ? options->kernel : simt_filter_run,
            .argument = &call->filter,
            .name = call->name,
            .groups = call->filter.groups,
            .warps_per_block = now.warps_per_block,
            .writes = call->writes,
        };
        call->launched = simt_launch(call->stream, &launch);
    }
    simt.name_word = name_word;
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
