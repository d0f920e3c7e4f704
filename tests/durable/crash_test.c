#include "durable/crash_test.h"
#include "api/map_durable.h"
#include "durable/model_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Wide values fill the journal before a checkpoint is due for its length alone. */
enum { KEYS = 40, MOST_EPOCHS = 512, MOST_ROWS = 24, WIDE_VALUE = 1024 };

/* What a map holds: the value of each key, and whether it is there. */
typedef struct state {
    uint64_t value[KEYS];
    uint8_t present[KEYS];
} state;

/* A map on a model disk, and what must hold if the disk fails now. */
typedef struct world {
    loom_context *context;
    model_disk *disk;
    loom_map *map;
    uint32_t commit_by_itself;
    int bears_failures;   /* a call that fails is not the end */
    uint32_t value_bytes; /* 8, or WIDE_VALUE, of which only the first 8 bytes are not zero */
    state now;
    state at[MOST_EPOCHS]; /* after each commit */
    uint64_t committed;    /* at[committed + 1] is what the step under way makes of it */
    uint64_t synced;       /* as the library told it */
    uint64_t random;
} world;

typedef struct run {
    const crash_plan *plan;
    crash_outcome *outcome;
    loom_context *context;
} run;

static void violate(run *r, const char *what, uint64_t point, uint64_t got, uint64_t wanted)
{
    if (r->outcome->violations++ == 0)
        snprintf(r->outcome->first, sizeof r->outcome->first, "%s (crash point %llu: %llu, wanted %llu) %.100s", what,
                 (unsigned long long)point, (unsigned long long)got, (unsigned long long)wanted, loom_last_error());
}

static int goes_on(const run *r)
{
    return !(r->plan->stop_at_first && r->outcome->violations > 0);
}

static loom_status open_map(world *w)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_durable_config durable = LOOM_DURABLE_CONFIG_INIT;
    config.key_bytes = 8;
    config.value_bytes = w->value_bytes;
    config.capacity = 8; /* it grows */
    config.type = LOOM_TYPE_MAP;
    config.engine = w->value_bytes == 8 ? LOOM_ENGINE_OPEN : LOOM_ENGINE_ROWS;
    config.max_load = 0.8;
    durable.journal_bytes = LEAST_RING_BLOCKS * DURABLE_BLOCK;
    durable.commit_by_itself = w->commit_by_itself;
    w->map = NULL;
    return loom__map_open_on(w->context, model_interface(w->disk), &config, &durable, &w->map);
}

/* ---- values ---- */

/* Values as the map takes them. *wide: room for n wide ones. */
static const void *values_of(const world *w, const uint64_t *values, uint64_t n, unsigned char *wide)
{
    if (w->value_bytes == 8)
        return values;
    memset(wide, 0, n * WIDE_VALUE);
    for (uint64_t i = 0; i < n; i++)
        memcpy(wide + i * WIDE_VALUE, &values[i], sizeof values[i]);
    return wide;
}

/* ---- steps ---- */

typedef struct rows {
    uint64_t n, keys[MOST_ROWS], values[MOST_ROWS];
    uint8_t operations[MOST_ROWS];
} rows;

static rows draw_rows(world *w)
{
    rows made = {.n = 1 + model_draw(&w->random, MOST_ROWS)};
    for (uint64_t i = 0; i < made.n; i++) {
        made.keys[i] = model_draw(&w->random, KEYS);
        made.values[i] = model_draw(&w->random, 1000);
        made.operations[i] = model_draw(&w->random, 2) ? LOOM_APPLY_ADD : LOOM_APPLY_ERASE;
    }
    return made;
}

static void put(world *w, uint64_t key, uint64_t value)
{
    w->now.value[key] = value;
    w->now.present[key] = 1;
}

static loom_status step_insert(world *w, int builds)
{
    const rows b = draw_rows(w);
    if (builds)
        memset(&w->now, 0, sizeof w->now);
    for (uint64_t i = 0; i < b.n; i++)
        put(w, b.keys[i], b.values[i]);
    unsigned char wide[MOST_ROWS * WIDE_VALUE];
    const void *values = values_of(w, b.values, b.n, wide);
    const uint32_t flags = LOOM_OVERWRITE | LOOM_IN_ORDER;
    return (builds ? loom_map_build : loom_map_insert)(w->map, b.keys, values, b.n, flags, NULL, NULL, NULL);
}

static loom_status step_add(world *w)
{
    const rows b = draw_rows(w);
    for (uint64_t i = 0; i < b.n; i++)
        put(w, b.keys[i], (w->now.present[b.keys[i]] ? w->now.value[b.keys[i]] : 0) + b.values[i]);
    return loom_map_accumulate(w->map, b.keys, b.values, b.n, LOOM_COMBINE_ADD, LOOM_NUMBER_U64, NULL, NULL, NULL);
}

static loom_status step_erase(world *w)
{
    const rows b = draw_rows(w);
    for (uint64_t i = 0; i < b.n; i++)
        w->now.present[b.keys[i]] = 0;
    return loom_map_erase(w->map, b.keys, b.n, NULL, NULL, NULL);
}

static loom_status step_apply(world *w)
{
    const rows b = draw_rows(w);
    for (uint64_t i = 0; i < b.n; i++) {
        const uint64_t key = b.keys[i];
        if (b.operations[i] == LOOM_APPLY_ERASE)
            w->now.present[key] = 0;
        else
            put(w, key, (w->now.present[key] ? w->now.value[key] : 0) + b.values[i]);
    }
    return loom_map_apply(w->map, b.operations, b.keys, b.values, b.n, LOOM_IN_ORDER, NULL, NULL, NULL, NULL);
}

static loom_status step_erase_if(world *w)
{
    const uint64_t least = model_draw(&w->random, 1000), most = least + 200;
    for (uint64_t key = 0; key < KEYS; key++)
        if (w->now.value[key] >= least && w->now.value[key] <= most)
            w->now.present[key] = 0;
    return loom_map_erase_if(w->map, LOOM_NUMBER_U64, &least, &most, NULL, NULL);
}

static loom_status step_clear(world *w)
{
    memset(&w->now, 0, sizeof w->now);
    return loom_map_clear(w->map, NULL, NULL);
}

/* Whether calls that write are refused, since a commit failed. */
static int refuses_writes(const world *w)
{
    loom_durability told = LOOM_DURABILITY_INIT;
    return loom_map_durability(w->map, &told) == LOOM_OK && told.refuses;
}

static loom_status step_reopen(world *w)
{
    loom_durability told = LOOM_DURABILITY_INIT;
    if (!refuses_writes(w)) /* what was not committed is gone, and closing may take an epoch; after a failure the commit
                               that failed may be there */
        w->at[w->committed + 1] = w->at[w->committed];
    loom_map_destroy(w->map);
    const loom_status status = open_map(w);
    if (status == LOOM_OK && loom_map_durability(w->map, &told) == LOOM_OK && told.committed <= w->committed + 1)
        w->now = w->at[told.committed];
    else
        w->now = w->at[w->committed + 1];
    return status;
}

/* Wide values are no numbers: they are inserted instead. */
static loom_status take_step(world *w, uint64_t kind)
{
    const int adds = kind == 4 || kind == 5 || kind == 9 || kind == 10;
    switch (adds && w->value_bytes != 8 ? 0 : kind) {
    case 0:
    case 1:
    case 2:
    case 3:
        return step_insert(w, 0);
    case 4:
    case 5:
        return step_add(w);
    case 6:
    case 7:
        return step_erase(w);
    case 8:
        return step_insert(w, 1);
    case 9:
        return step_apply(w);
    case 10:
        return step_erase_if(w);
    case 11:
        return step_clear(w);
    case 12:
        return loom_map_checkpoint(w->map);
    case 13:
        return step_reopen(w);
    case 14:
        return loom_map_sync(w->map, UINT64_MAX);
    default:
        return loom_map_commit(w->map, NULL);
    }
}

/* Asks the library what is committed and synced, and notes the state of new commits. */
static void note_commits(world *w)
{
    loom_durability told = LOOM_DURABILITY_INIT;
    if (w->map == NULL || loom_map_durability(w->map, &told) != LOOM_OK || told.committed >= MOST_EPOCHS - 1)
        return;
    for (uint64_t epoch = w->committed + 1; epoch <= told.committed; epoch++)
        w->at[epoch] = w->now;
    w->committed = told.committed;
    w->synced = told.synced;
}

/* Makes steps until the disk stops. Returns whether it did not. With a commit under way, at[committed + 1] is what it
 * would make. */
static int take_steps(world *w, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        const uint64_t kind = model_draw(&w->random, w->commit_by_itself ? 14 : 24);
        const state before = w->now; /* a call that is refused changes nothing */
        const int refuses = refuses_writes(w);
        const loom_status status = take_step(w, kind);
        if (status != LOOM_OK && !w->bears_failures) {
            w->at[w->committed + 1] = w->now;
            note_commits(w);
            return 0;
        }
        if (status != LOOM_OK && w->map == NULL) /* it could not be opened again */
            return 0;
        if (status != LOOM_OK && refuses)
            w->now = before;
        note_commits(w);
        w->at[w->committed + 1] = w->now;
    }
    return 1;
}

static world *make_world(run *r, uint64_t seed)
{
    world *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    w->context = r->context;
    w->disk = model_create();
    w->random = seed;
    w->value_bytes = 8;
    model_set_faults(w->disk, r->plan->faults);
    return w;
}

static void free_world(world *w)
{
    model_destroy(w->disk);
    free(w);
}

/* ---- crashes ---- */

/* `sound`: the disk did not stop. Closing may note that the last commit was synced, and this takes an epoch. */
static void close_map(world *w, int sound)
{
    loom_map_destroy(w->map);
    w->map = NULL;
    if (sound)
        w->at[w->committed + 1] = w->at[w->committed];
}

/* Whether the map holds exactly this. */
static int holds(loom_map *map, uint32_t value_bytes, const state *wanted)
{
    uint64_t keys[KEYS + 1], count = 0, present = 0, right = 0;
    unsigned char values[(KEYS + 1) * WIDE_VALUE];
    if (loom_map_retrieve_all(map, keys, values, KEYS + 1, &count, NULL, NULL) != LOOM_OK)
        return 0;
    for (uint64_t key = 0; key < KEYS; key++)
        present += wanted->present[key];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, values + i * value_bytes, sizeof value);
        right += keys[i] < KEYS && wanted->present[keys[i]] && wanted->value[keys[i]] == value;
    }
    return count == present && right == count;
}

/* Opens the map on what the crash left, and checks it. Returns whether it is open. */
static int recover(run *r, world *w, uint64_t point)
{
    loom_durability told = LOOM_DURABILITY_INIT;
    r->outcome->recoveries++;
    if (open_map(w) != LOOM_OK) {
        violate(r, "it cannot be opened", point, 0, w->synced);
        return 0;
    }
    (void)loom_map_durability(w->map, &told);
    if (told.committed < w->synced)
        violate(r, "a synced commit is lost", point, told.committed, w->synced);
    else if (told.committed > w->committed + 1)
        violate(r, "it holds a commit that never was", point, told.committed, w->committed);
    else if (!holds(w->map, w->value_bytes, &w->at[told.committed]))
        violate(r, "it is not the map after its commit", point, told.committed, w->synced);
    if (told.synced != told.committed)
        violate(r, "what was recovered is not synced", point, told.synced, told.committed);
    w->committed = w->synced = told.committed < MOST_EPOCHS - 1 ? told.committed : 0;
    w->now = w->at[w->committed];
    return 1;
}

/* After one crash life goes on: some steps, in which the disk may stop, another power failure, another recovery. */
static void crash_again(run *r, world *w, uint64_t point)
{
    enum { MOST_STEPS = 5 };
    model_stop_after(w->disk, 1 + model_draw(&w->random, 30));
    close_map(w, take_steps(w, (uint32_t)model_draw(&w->random, MOST_STEPS)));
    model_power_failure(w->disk, (model_survival)model_draw(&w->random, MODEL_SURVIVALS), &w->random);
    if (recover(r, w, point))
        close_map(w, 1);
}

/* One crash of a copy of the world. Every fourth process is killed while the disk goes on; what was not synced then is
 * lost only in the second crash. */
static void crash_once(run *r, const world *crashed, uint64_t point, uint32_t sample)
{
    world *w = malloc(sizeof *w);
    if (w == NULL)
        abort();
    *w = *crashed;
    w->disk = model_copy(crashed->disk);
    model_stop_after(w->disk, 0);
    w->random += sample;
    if (sample % 4 != 3)
        model_power_failure(w->disk, (model_survival)(sample < MODEL_SURVIVALS ? sample : MODEL_ANY), &w->random);
    if (recover(r, w, point))
        crash_again(r, w, point);
    free_world(w);
}

/* Runs the history up to a crash point, 0: to its end. Returns the number of operations. */
static uint64_t run_history(run *r, uint64_t seed, uint64_t point)
{
    world *w = make_world(r, seed);
    w->commit_by_itself = seed % 2 != 0;
    w->value_bytes = seed / 2 % 2 != 0 ? 8 : WIDE_VALUE;
    model_stop_after(w->disk, point);
    int sound = open_map(w) == LOOM_OK;
    if (sound)
        sound = take_steps(w, r->plan->steps);
    close_map(w, sound);
    const uint64_t operations = model_operations(w->disk);
    for (uint32_t sample = 0; point > 0 && sample < r->plan->samples; sample++)
        if (goes_on(r))
            crash_once(r, w, point, sample);
    free_world(w);
    return operations;
}

/* ---- failures ---- */

/* Closes the map, opens it, and writes more. */
static void reopen(run *r, world *w, uint64_t point)
{
    if (step_reopen(w) != LOOM_OK)
        violate(r, "opening fails on a sound disk", point, 0, 0);
    note_commits(w);
    w->at[w->committed + 1] = w->now;
    (void)take_steps(w, 4);
}

/* An operation of the disk fails, and life goes on: writes are refused until a checkpoint succeeds, or the map is
 * opened again. In the end the power fails. */
static uint64_t fail_once(run *r, uint64_t seed, uint64_t point)
{
    world *w = make_world(r, seed);
    w->commit_by_itself = seed % 2 != 0;
    w->bears_failures = 1;
    int is_open = open_map(w) == LOOM_OK;
    model_fail_at(w->disk, point);
    if (is_open)
        (void)take_steps(w, r->plan->steps);
    const uint64_t operations = model_operations(w->disk);
    if (w->map != NULL && point % 2 != 0)
        reopen(r, w, point);
    else if (w->map != NULL && loom_map_checkpoint(w->map) != LOOM_OK)
        violate(r, "a checkpoint fails on a sound disk", point, 0, 0);
    note_commits(w);
    close_map(w, 1);
    model_power_failure(w->disk, (model_survival)model_draw(&w->random, MODEL_SURVIVALS), &w->random);
    if (is_open && recover(r, w, point))
        close_map(w, 1);
    free_world(w);
    return operations;
}

/* ---- records of an earlier life ---- */

/* A key and its value, committed and not synced. */
static int commit_pair(world *w, uint64_t key)
{
    put(w, key, key);
    if (loom_map_insert(w->map, &key, &key, 1, LOOM_OVERWRITE, NULL, NULL, NULL) != LOOM_OK ||
        loom_map_commit(w->map, NULL) != LOOM_OK)
        return 0;
    note_commits(w);
    w->at[w->committed + 1] = w->now;
    return 1;
}

/* Two commits are not synced, and the power failure takes the first of their records alone. The next life commits once.
 * Then the old second record lies right behind the new first one, with the epoch that would follow. */
static void meet_stale_record(run *r, uint64_t seed)
{
    world *w = make_world(r, seed);
    int sound = open_map(w) == LOOM_OK && commit_pair(w, 1) && commit_pair(w, 2);
    model_stop(w->disk); /* closing notes nothing */
    loom_map_destroy(w->map);
    model_power_failure(w->disk, MODEL_ALL_BUT, &w->random);
    sound = sound && recover(r, w, 0) && commit_pair(w, 3) && loom_map_sync(w->map, UINT64_MAX) == LOOM_OK;
    note_commits(w);
    model_stop(w->disk);
    loom_map_destroy(w->map);
    w->map = NULL;
    model_power_failure(w->disk, MODEL_NONE, &w->random);
    if (sound && recover(r, w, 0))
        close_map(w, 1);
    free_world(w);
}

crash_outcome crash_test_run(const crash_plan *plan)
{
    crash_outcome outcome = {0};
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    run r = {.plan = plan, .outcome = &outcome};
    config.machine = LOOM_MACHINE_CPU;
    config.threads = 1;
    config.fixed_seed = 1;
    if (loom_context_create(&config, &r.context) != LOOM_OK) {
        violate(&r, "there is no context", 0, 0, 0);
        return outcome;
    }
    for (uint32_t h = 0; h < plan->histories && goes_on(&r); h++) {
        const uint64_t seed = plan->seed + h, operations = run_history(&r, seed, 0);
        meet_stale_record(&r, seed);
        for (uint64_t point = 1; point <= operations && goes_on(&r); point++) {
            outcome.crash_points++;
            (void)run_history(&r, seed, point);
        }
        const uint64_t to_fail = fail_once(&r, seed, 0);
        for (uint64_t point = 1; point <= to_fail && goes_on(&r); point++)
            (void)fail_once(&r, seed, point);
    }
    loom_context_destroy(r.context);
    return outcome;
}
