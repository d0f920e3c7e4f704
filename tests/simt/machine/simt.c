#include "simt/machine/simt.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

simt_machine simt;

enum {
    STACK_BYTES = 64 * 1024,
    PATIENCE =
        256 /* after this many steps the lane that waited longest runs: on a GPU every warp runs sooner or later */
};

/* ---- Failing ---- */

void simt_fail(const char *format, ...)
{
    if (simt.failure[0] == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(simt.failure, sizeof simt.failure, format, arguments);
        va_end(arguments);
    }
    if (simt.current != NULL) { /* the lanes are given up where they stand */
        simt_lane *lane = simt.current;
        simt.current = NULL;
        simt_fiber_switch(&lane->fiber, &simt.outside, 1);
    }
}

/* ---- Lanes that can go on ---- */

static void make_runnable(simt_lane *lane)
{
    lane->state = SIMT_RUNNABLE;
    lane->position = simt.runnable_count;
    simt.runnable[simt.runnable_count++] = (uint32_t)(lane - simt.lanes);
}

static void make_unrunnable(simt_lane *lane, simt_lane_state state)
{
    uint32_t last = simt.runnable[--simt.runnable_count];
    simt.runnable[lane->position] = last;
    simt.lanes[last].position = lane->position;
    lane->state = state;
}

static void record(const simt_lane *lane, simt_op op, int64_t word, uint64_t value, uint64_t wanted, int stale)
{
    simt.trace[simt.traced++ % SIMT_TRACE] = (simt_event){
        .step = simt.steps,
        .call = lane->call,
        .lane = lane->index,
        .item = lane->item,
        .op = op,
        .site = lane->site,
        .word = word,
        .value = value,
        .wanted = wanted,
        .stale = stale,
    };
}

/* ---- Calls ---- */

static void lane_entry(void);

static void start_call(simt_call *call)
{
    uint32_t warps = (call->groups * simt.config.group_lanes + simt.config.warp_lanes - 1) / simt.config.warp_lanes;
    call->lanes = call->running = warps * simt.config.warp_lanes;
    call->began = simt.steps++;
    if (simt.used_lanes + call->lanes > SIMT_MOST_LANES) {
        simt_fail("the case needs more than %d lanes", SIMT_MOST_LANES);
        return;
    }
    simt.ages++;
    for (uint32_t i = 0; i < call->lanes; i++) {
        simt_lane *lane = &simt.lanes[simt.used_lanes++];
        lane->call = call;
        lane->index = i;
        lane->in_warp = i % simt.config.warp_lanes;
        lane->warp = i / simt.config.warp_lanes;
        lane->block = lane->warp / call->warps_per_block;
        lane->item = UINT32_MAX;
        lane->site = NULL;
        lane->op = SIMT_START;
        lane->priority = SIMT_MIDDLE_PRIORITY | simt_schedule_number(simt.schedule) >> 32;
        lane->ran = simt.steps;
        lane->age = simt.ages;
        simt_memory_lane_begin(&simt.memory, &lane->memory);
        simt_fiber_prepare(&lane->fiber, lane->fiber.stack, STACK_BYTES, lane_entry);
        make_runnable(lane);
    }
}

static void start_calls(void)
{
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++) {
        uint32_t next = simt.stream_next[stream];
        if (next < simt.stream_length[stream] && (next == 0 || simt.stream[stream][next - 1]->ended > 0)) {
            simt.stream_next[stream]++;
            start_call(simt.stream[stream][next]);
        }
    }
}

/* A lane has ended and its buffer is empty. */
static void lane_is_through(simt_lane *lane)
{
    simt_call *call = lane->call;
    if (--call->running > 0)
        return;
    for (uint32_t i = 0; i < simt.used_lanes; i++)
        if (simt.lanes[i].call == call)
            simt_memory_lane_end(&simt.memory, &simt.lanes[i].memory);
    call->ended = simt.steps++;
    start_calls();
}

/* ---- Scheduling ---- */

static void drain_one(simt_lane *lane, uint32_t index)
{
    uint32_t word = simt_memory_drain(&simt.memory, &lane->memory, index);
    const simt_site *stands_at = lane->site;
    lane->site = NULL; /* the store was made elsewhere */
    record(lane, SIMT_DRAIN, word, simt.memory.words[word], 0, 0);
    lane->site = stands_at;
    if (lane->memory.buffered == 0 && lane->state == SIMT_ENDED)
        lane_is_through(lane);
}

/* Lets a buffered store become visible. Returns 0 if there is none. */
static int drain_some(void)
{
    uint32_t with_stores[SIMT_MOST_LANES], count = 0;
    for (uint32_t i = 0; i < simt.used_lanes; i++)
        if (simt.lanes[i].memory.buffered > 0)
            with_stores[count++] = i;
    if (count == 0)
        return 0;
    simt_lane *lane = &simt.lanes[with_stores[simt_schedule_choose(simt.schedule, count, 0)]];
    uint32_t index = simt_schedule_choose(simt.schedule, lane->memory.buffered, 0);
    while (!simt_memory_may_drain(&lane->memory, index))
        index--; /* the oldest always may */
    drain_one(lane, index);
    return 1;
}

static simt_lane *highest(void)
{
    simt_lane *best = &simt.lanes[simt.runnable[0]];
    for (uint32_t i = 1; i < simt.runnable_count; i++)
        if (simt.lanes[simt.runnable[i]].priority > best->priority)
            best = &simt.lanes[simt.runnable[i]];
    return best;
}

static simt_lane *longest_standing(void)
{
    simt_lane *best = &simt.lanes[simt.runnable[0]];
    for (uint32_t i = 1; i < simt.runnable_count; i++)
        if (simt.lanes[simt.runnable[i]].ran < best->ran)
            best = &simt.lanes[simt.runnable[i]];
    return best;
}

static simt_lane *pick(simt_lane *current)
{
    simt_schedule *schedule = simt.schedule;
    int can_stay = current != NULL && current->state == SIMT_RUNNABLE;
    if (simt.steps % PATIENCE == 0) {
        simt_lane *lane = longest_standing();
        lane->priority = ++schedule->highest;
        return lane;
    }
    if (schedule->kind == SIMT_EXHAUSTIVE) {
        uint32_t choice = simt_schedule_choose(schedule, simt.runnable_count, can_stay);
        if (!can_stay)
            return &simt.lanes[simt.runnable[choice]];
        /* 0 is the current lane; the others follow in their order */
        return choice == 0 ? current : &simt.lanes[simt.runnable[choice - (choice <= current->position)]];
    }
    if (schedule->kind == SIMT_PRIORITY)
        return highest();
    if (can_stay && simt_schedule_chance(schedule, schedule->stay))
        return current;
    return &simt.lanes[simt.runnable[simt_schedule_choose(schedule, simt.runnable_count, 0)]];
}

/* Continues with some lane, perhaps the calling one. Returns when the calling lane is chosen again. */
static void reschedule(void)
{
    simt_lane *current = simt.current;
    simt.steps++;
    if (simt.steps > simt.config.step_limit)
        simt_fail("not at an end after %llu steps: lanes keep each other from it, or a loop has no bound",
                  (unsigned long long)simt.config.step_limit);
    if (simt.memory.spent)
        simt_fail("a word has changed, or lanes have released, more often than the simulator has room for");
    /* Stores leave their buffers sooner or later, under every schedule. */
    if (simt.schedule->kind == SIMT_EXHAUSTIVE ? simt.steps % PATIENCE == 0
                                               : simt_schedule_chance(simt.schedule, simt.schedule->drain))
        drain_some();
    while (simt.runnable_count == 0) { /* ends: each round drains a store, or is the last */
        if (drain_some())
            continue;
        simt_lane *waiting = NULL;
        for (uint32_t i = 0; i < simt.used_lanes; i++)
            if (simt.lanes[i].state == SIMT_WAITING)
                waiting = &simt.lanes[i];
        if (waiting != NULL)
            simt_fail("lane %u of %s waits at %s:%d for lanes that never come", waiting->index, waiting->call->name,
                      waiting->site->file, waiting->site->line);
        if (current == NULL)
            return;
        simt.current = NULL; /* all calls have ended */
        simt_fiber_switch(&current->fiber, &simt.outside, 1);
    }
    simt_lane *next = pick(current);
    next->ran = simt.steps;
    if (next == current)
        return;
    simt.current = next;
    simt_fiber_switch(current != NULL ? &current->fiber : &simt.outside, &next->fiber,
                      current != NULL && current->state == SIMT_ENDED);
}

/* Whether `waiting`, at its collective, waits for `lane`. */
static int concerns(const simt_lane *waiting, const simt_lane *lane)
{
    if (waiting->call != lane->call)
        return 0;
    if (waiting->op == SIMT_BARRIER)
        return waiting->block == lane->block;
    return waiting->warp == lane->warp && waiting->mask >> lane->in_warp & 1;
}

static void lane_entry(void)
{
    simt_lane *lane = simt.current;
    lane->call->kernel(lane->call->argument);
    lane->op = SIMT_END;
    for (uint32_t i = 0; i < simt.used_lanes; i++) {
        const simt_lane *other = &simt.lanes[i];
        if (other->state == SIMT_WAITING && concerns(other, lane))
            simt_fail("lane %u of %s has left the kernel, and lane %u waits for it at %s:%d", lane->index,
                      lane->call->name, other->index, other->site->file, other->site->line);
    }
    make_unrunnable(lane, SIMT_ENDED);
    if (lane->memory.buffered == 0)
        lane_is_through(lane);
    reschedule();
    abort(); /* an ended lane is never chosen */
}

void simt_begin(const simt_config *config, simt_schedule *schedule, void *shared, size_t bytes)
{
    if (simt.lanes == NULL) {
        simt.lanes = calloc(SIMT_MOST_LANES, sizeof *simt.lanes);
        unsigned char *stacks = mmap(NULL, (size_t)SIMT_MOST_LANES * STACK_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (simt.lanes == NULL || stacks == MAP_FAILED)
            abort();
        for (uint32_t i = 0; i < SIMT_MOST_LANES; i++)
            simt.lanes[i].fiber.stack = stacks + (size_t)i * STACK_BYTES;
    }
    for (uint32_t i = 0; i < simt.used_lanes; i++) {
        simt.lanes[i].state = SIMT_UNUSED;
        simt.lanes[i].memory.buffered = 0;
        simt.lanes[i].call = NULL;
    }
    if (bytes / 8 > SIMT_MOST_WORDS)
        abort(); /* a case that asks for more than there is */
    simt.config = *config;
    simt.schedule = schedule;
    simt.call_count = simt.used_lanes = simt.runnable_count = 0;
    for (uint32_t stream = 0; stream < SIMT_MOST_STREAMS; stream++)
        simt.stream_length[stream] = simt.stream_next[stream] = 0;
    simt.current = NULL;
    simt.steps = 1;
    simt.points = 0;
    simt.traced = 0;
    simt.failure[0] = 0;
    simt_memory_begin(&simt.memory, shared, bytes);
}

simt_call *simt_launch(uint32_t stream, const simt_call *call)
{
    simt_call *own = &simt.calls[simt.call_count++];
    *own = *call;
    own->began = own->ended = 0;
    simt.stream[stream][simt.stream_length[stream]++] = own;
    return own;
}

int simt_run(void)
{
    start_calls();
    if (simt.failure[0] == 0 && simt.runnable_count > 0)
        reschedule();
    return simt.failure[0] == 0;
}

/* ---- Memory ---- */

static simt_part part_at(const void *at, uint32_t bytes)
{
    int64_t word = simt_memory_word(&simt.memory, at, bytes);
    if (word < 0)
        simt_fail("%s:%d (%s) touches memory outside the table", simt.current->site->file, simt.current->site->line,
                  simt.current->site->function);
    return (simt_part){(uint32_t)word, (uint32_t)((uintptr_t)at % 8 * 8), bytes};
}

static uint64_t low_bytes(uint32_t bytes)
{
    return ~(uint64_t)0 >> (64 - 8 * bytes);
}

static uint64_t part_of(uint64_t word, simt_part part)
{
    return word >> part.shift & low_bytes(part.bytes);
}

static uint64_t with_part(uint64_t word, simt_part part, uint64_t value)
{
    return (word & ~(low_bytes(part.bytes) << part.shift)) | value << part.shift;
}

/* The scheduling point before every access to memory and every fence. */
static simt_lane *point(simt_op op, const simt_site *site)
{
    simt_lane *lane = simt.current;
    lane->op = op;
    lane->site = site;
    simt.points++;
    if (simt.schedule->kind == SIMT_PRIORITY)
        for (uint32_t i = 0; i < SIMT_MOST_DROPS; i++)
            if (simt.schedule->drops[i] == simt.points)
                lane->priority = --simt.schedule->lowest;
    reschedule();
    return lane;
}

uint32_t simt_any_below(uint32_t n)
{
    return simt.schedule->kind == SIMT_EXHAUSTIVE ? 0 : simt_schedule_choose(simt.schedule, n, 0);
}

/* How old a value a load returns: 0 is the newest. */
static uint32_t choose_age(uint32_t choices)
{
    if (choices <= 1 || !simt.config.weak_memory)
        return 0;
    if (simt.schedule->kind != SIMT_EXHAUSTIVE && !simt_schedule_chance(simt.schedule, simt.schedule->stale))
        return 0;
    return simt_schedule_choose(simt.schedule, choices, 1);
}

/* A load with shared = 0 is an error while any call writes. */
static void check_unshared(const simt_lane *lane)
{
    for (uint32_t i = 0; i < simt.call_count; i++) {
        const simt_call *call = &simt.calls[i];
        if (call->began > 0 && call->ended == 0 && call->writes)
            simt_fail("%s:%d reads what only a table at rest may be read with, while %s writes", lane->site->file,
                      lane->site->line, call->name);
    }
}

uint64_t simt_load(const void *at, uint32_t bytes, int shared, const simt_site *site)
{
    simt_lane *lane = point(SIMT_LOAD, site);
    if (!shared)
        check_unshared(lane);
    simt_part part = part_at(at, bytes);
    uint32_t age = choose_age(simt_memory_choices(&simt.memory, &lane->memory, part.word));
    uint64_t value = part_of(simt_memory_load(&simt.memory, &lane->memory, part, age), part);
    record(lane, SIMT_LOAD, part.word, value, 0, age > 0);
    return value;
}

/* The store that was buffered last stays in the buffer, or becomes visible at once. */
static void leave_buffered(simt_lane *lane)
{
    int waits = simt.config.weak_memory;
    if (waits && simt.schedule->kind == SIMT_EXHAUSTIVE)
        waits = (int)simt_schedule_choose(simt.schedule, 2, 1);
    uint32_t newest = lane->memory.buffered - 1;
    if (!waits && simt_memory_may_drain(&lane->memory, newest))
        simt_memory_drain(&simt.memory, &lane->memory, newest);
}

void simt_store(void *at, uint32_t bytes, uint64_t value, const simt_site *site)
{
    simt_lane *lane = point(SIMT_STORE, site);
    simt_part part = part_at(at, bytes);
    simt_memory_store(&simt.memory, &lane->memory, part, value);
    record(lane, SIMT_STORE, part.word, value, 0, 0);
    leave_buffered(lane);
}

void simt_or(void *at, uint32_t bytes, uint64_t bits, const simt_site *site)
{
    simt_lane *lane = point(SIMT_OR, site);
    simt_part part = part_at(at, bytes);
    simt_memory_add_bits(&simt.memory, &lane->memory, part, bits);
    record(lane, SIMT_OR, part.word, bits, 0, 0);
    leave_buffered(lane);
}

uint64_t simt_swap(void *at, uint32_t bytes, uint64_t expected, uint64_t wanted, const simt_site *site)
{
    simt_lane *lane = point(SIMT_SWAP, site);
    simt_part part = part_at(at, bytes);
    uint64_t whole = simt_memory_newest(&simt.memory, &lane->memory, part), old = part_of(whole, part);
    if (old == expected)
        simt_memory_append(&simt.memory, &lane->memory, part, with_part(whole, part, wanted));
    record(lane, SIMT_SWAP, part.word, old, wanted, old != expected);
    return old;
}

static uint64_t modify(simt_op op, void *at, uint32_t bytes, uint64_t operand, const simt_site *site)
{
    simt_lane *lane = point(op, site);
    simt_part part = part_at(at, bytes);
    uint64_t whole = simt_memory_newest(&simt.memory, &lane->memory, part), old = part_of(whole, part);
    uint64_t value = op == SIMT_AND ? old & operand : op == SIMT_FETCH_OR ? old | operand : old + operand;
    simt_memory_append(&simt.memory, &lane->memory, part, with_part(whole, part, value));
    record(lane, op, part.word, old, value, 0);
    return old;
}

uint64_t simt_combine(void *at, uint32_t bytes, loom__combine_rule rule, uint64_t value, const simt_site *site)
{
    simt_lane *lane = point(SIMT_COMBINE, site);
    simt_part part = part_at(at, bytes);
    uint64_t whole = simt_memory_newest(&simt.memory, &lane->memory, part), old = part_of(whole, part);
    uint64_t wanted =
        bytes == 4 ? loom__combine_4(rule, (uint32_t)old, (uint32_t)value) : loom__combine_8(rule, old, value);
    /* An access that changes nothing and carries nothing new would append an equal value. Most minima of a team are
     * like this. */
    if (wanted != old || lane->memory.released != NULL)
        simt_memory_append(&simt.memory, &lane->memory, part, with_part(whole, part, wanted));
    record(lane, SIMT_COMBINE, part.word, old, wanted, 0);
    return old;
}

uint64_t simt_fetch_or(void *at, uint32_t bytes, uint64_t bits, const simt_site *site)
{
    return modify(SIMT_FETCH_OR, at, bytes, bits, site);
}

uint64_t simt_and(void *at, uint32_t bytes, uint64_t bits, const simt_site *site)
{
    return modify(SIMT_AND, at, bytes, bits, site);
}

uint64_t simt_add(void *at, uint64_t addend, const simt_site *site)
{
    return modify(SIMT_ADD, at, 8, addend, site);
}

/* The lane that touched a byte of a team's memory in each way, and when. */
typedef struct team_touch {
    uint64_t age[3];
    uint32_t lane[3];
    uint8_t stored;
} team_touch;

enum { SEVERAL_LANES = SIMT_MOST_LANES };

void simt_touch(const void *at, uint32_t bytes, simt_use use, uint64_t value, const simt_site *site)
{
    static team_touch touches[8 * SIMT_MOST_WORDS];
    simt_lane *lane = simt.current;
    lane->site = site;
    simt_part part = part_at(at, bytes);
    for (uint32_t i = 0; i < bytes; i++, value >>= 8) {
        team_touch *touch = &touches[8 * part.word + part.shift / 8 + i];
        for (uint32_t other = SIMT_LOADS; other <= SIMT_DRAWS; other++) {
            int both_may = other == use && (use != SIMT_STORES || touch->stored == (uint8_t)value);
            if (touch->age[other] == lane->age && touch->lane[other] != lane->index && !both_may)
                simt_fail("%s:%d (%s): lane %u touches memory of its team that another lane touches, too, and has not "
                          "waited in between",
                          site->file, site->line, site->function, lane->index);
        }
        int first = touch->age[use] != lane->age || touch->lane[use] == lane->index;
        touch->lane[use] = first ? lane->index : SEVERAL_LANES;
        touch->age[use] = lane->age;
        if (use == SIMT_STORES)
            touch->stored = (uint8_t)value;
    }
}

void simt_release(const simt_site *site)
{
    simt_lane *lane = point(SIMT_RELEASE, site);
    simt_memory_release(&simt.memory, &lane->memory);
    record(lane, SIMT_RELEASE, -1, 0, 0, 0);
}

void simt_acquire(const simt_site *site)
{
    simt_lane *lane = point(SIMT_ACQUIRE, site);
    simt_memory_acquire(&simt.memory, &lane->memory);
    record(lane, SIMT_ACQUIRE, -1, 0, 0, 0);
}

/* ---- Collectives ---- */

/* Lanes that a collective may concern are neighbours in simt.lanes. */
typedef struct lane_range {
    simt_lane *first, *end;
} lane_range;

static lane_range concerned_by(const simt_lane *lane)
{
    simt_lane *call = &simt.lanes[(uint32_t)(lane - simt.lanes) - lane->index];
    uint32_t warp = simt.config.warp_lanes, block = warp * lane->call->warps_per_block;
    uint32_t size = lane->op == SIMT_BARRIER ? block : warp, first = lane->index / size * size;
    uint32_t end = first + size < lane->call->lanes ? first + size : lane->call->lanes;
    return (lane_range){call + first, call + end};
}

static void complete(simt_lane *last)
{
    lane_range lanes = concerned_by(last);
    uint32_t votes = 0;
    int orders = last->op == SIMT_SYNC || last->op == SIMT_BARRIER;
    simt_view *seen = &last->memory.seen; /* of the last one first, then of all */
    simt.ages += last->op == SIMT_BARRIER;
    for (simt_lane *lane = lanes.first; lane < lanes.end; lane++) {
        if (!concerns(last, lane))
            continue;
        if (last->op == SIMT_BALLOT)
            votes |= (uint32_t)(lane->given != 0) << lane->in_warp;
        if (last->op == SIMT_BARRIER)
            votes += lane->given != 0;
        if (orders) {
            simt_memory_drain_all(&simt.memory, &lane->memory);
            simt_memory_join(&simt.memory, seen, &lane->memory.seen);
        }
    }
    for (simt_lane *lane = lanes.first; lane < lanes.end; lane++) {
        if (!concerns(last, lane))
            continue;
        if (last->op == SIMT_SHUFFLE)
            lane->taken = lanes.first[lane->taken].given;
        else
            lane->taken = votes;
        if (orders)
            simt_memory_join(&simt.memory, &lane->memory.seen, seen);
        if (last->op == SIMT_BARRIER)
            lane->age = simt.ages;
        if (lane != last)
            make_runnable(lane);
    }
    record(last, last->op, -1, votes, 0, 0);
}

static uint64_t collective(simt_op op, uint32_t mask, uint64_t given, uint64_t taken, const simt_site *site)
{
    simt_lane *lane = simt.current;
    lane->op = op;
    lane->site = site;
    lane->mask = mask;
    lane->given = given;
    lane->taken = taken;
    if (op != SIMT_BARRIER && !(mask >> lane->in_warp & 1))
        simt_fail("lane %u of %s is not in its own mask %08x at %s:%d", lane->index, lane->call->name, mask, site->file,
                  site->line);
    if (op == SIMT_SHUFFLE && (taken >= simt.config.warp_lanes || !(mask >> taken & 1)))
        simt_fail("lane %u of %s takes from lane %llu, which is not in mask %08x, at %s:%d", lane->index,
                  lane->call->name, (unsigned long long)taken, mask, site->file, site->line);
    lane_range lanes = concerned_by(lane);
    uint32_t missing = 0;
    for (const simt_lane *other = lanes.first; other < lanes.end; other++) {
        if (other == lane || !concerns(lane, other))
            continue;
        int same = other->state == SIMT_WAITING && other->op == op && other->site == site && other->mask == mask;
        if (other->state == SIMT_ENDED)
            simt_fail("lane %u of %s waits at %s:%d for lane %u, which has left the kernel", lane->index,
                      lane->call->name, site->file, site->line, other->index);
        if (other->state == SIMT_WAITING && !same && concerns(other, lane))
            simt_fail("lane %u of %s is at %s:%d with mask %08x, lane %u at %s:%d with mask %08x: each waits for the "
                      "other",
                      lane->index, lane->call->name, site->file, site->line, mask, other->index, other->site->file,
                      other->site->line, other->mask);
        missing += !same;
    }
    if (missing == 0)
        complete(lane);
    else
        make_unrunnable(lane, SIMT_WAITING);
    reschedule();
    return lane->taken;
}

uint32_t simt_ballot(uint32_t mask, int mine, const simt_site *site)
{
    return (uint32_t)collective(SIMT_BALLOT, mask, (uint64_t)(mine != 0), 0, site);
}

uint64_t simt_shuffle(uint32_t mask, uint64_t mine, uint32_t source, const simt_site *site)
{
    return collective(SIMT_SHUFFLE, mask, mine, source, site);
}

void simt_sync(uint32_t mask, const simt_site *site)
{
    collective(SIMT_SYNC, mask, 0, 0, site);
}

uint32_t simt_barrier(int mine, const simt_site *site)
{
    return (uint32_t)collective(SIMT_BARRIER, 0, (uint64_t)(mine != 0), 0, site);
}

static uint32_t low_bits(uint32_t count)
{
    return count == 32 ? UINT32_MAX : ((uint32_t)1 << count) - 1;
}

uint32_t simt_group_mask(void)
{
    uint32_t width = simt.config.group_lanes;
    return low_bits(width) << simt.current->in_warp / width * width;
}

uint32_t simt_warp_mask(void)
{
    return low_bits(simt.config.warp_lanes);
}

uint32_t simt_turn_mask(void)
{
    return simt.config.turn_together ? simt_warp_mask() : simt_group_mask();
}
