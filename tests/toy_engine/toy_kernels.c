/* The toy engine's bulk work. On the cpu machine a call that writes has the table alone. Calls that read may
 * overlap. */
#include "core/error.h"
#include "toy_engine.h"
#include "toy_layout.h"

/* Returns the slot that holds the key, or the free slot where its probe sequence ends. Returns `slots` in a table
 * without I3, which only a file can contain. *probes is the number of slots read. */
static uint32_t toy_probe(const toy_view *view, uint64_t key, uint32_t *probes)
{
    uint32_t slot = toy_home(view, key);
    for (*probes = 1; *probes <= view->slots; ++*probes, slot = toy_next(view, slot))
        if (!view->used[slot] || toy_load(view->keys, view->key_bytes, slot) == key)
            return slot;
    return view->slots;
}

static void toy_tell(loom_result *result, uint8_t *status, uint64_t i, loom_status outcome)
{
    if (status != NULL)
        status[i] = (uint8_t)outcome;
    result->ok += outcome == LOOM_OK;
    result->exists += outcome == LOOM_EXISTS;
    result->not_found += outcome == LOOM_NOT_FOUND;
    result->full += outcome == LOOM_FULL;
    result->status = result->full > 0 ? LOOM_FULL : LOOM_OK;
}

static loom_status toy_clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const toy_view *view = any_view;
    (void)machine, (void)stream;
    memset(view->keys, 0, (uint64_t)view->slots * (view->key_bytes + view->value_bytes + 1));
    view->totals->size = 0;
    return LOOM_OK;
}

static loom_status toy_find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const toy_view *view = any_view;
    loom_result result = {.keys = batch->n};
    uint32_t probes;
    (void)machine;
    for (uint64_t i = 0; i < batch->n; i++) {
        const uint32_t slot = toy_probe(view, toy_load(batch->keys, view->key_bytes, i), &probes);
        const int found = view->used[slot];
        const uint64_t value = found ? toy_load(view->values, view->value_bytes, slot) : batch->absent;
        if (batch->found_values != NULL)
            toy_store(batch->found_values, view->value_bytes, i, value);
        if (batch->found != NULL)
            batch->found[i] = (uint8_t)found;
        toy_tell(&result, batch->status, i, found ? LOOM_OK : LOOM_NOT_FOUND);
    }
    *batch->result = result;
    return LOOM_OK;
}

static loom_status insert_key(const toy_view *view, uint64_t key, uint64_t value, int overwrite)
{
    uint32_t probes;
    const uint32_t slot = toy_probe(view, key, &probes);
    const int exists = view->used[slot];
    if (!exists && view->totals->size + 1 == view->slots)
        return LOOM_FULL; /* I3 */
    if (!exists || overwrite)
        toy_store(view->values, view->value_bytes, slot, value);
    toy_store(view->keys, view->key_bytes, slot, key);
    view->used[slot] = 1;
    view->totals->size += !exists;
    return exists ? LOOM_EXISTS : LOOM_OK;
}

/* The slot becomes a hole. Up to the next free slot (I3), each key whose probe sequence leads over the hole moves into
 * the hole (I1), and leaves a hole where it was. */
static loom_status erase_key(const toy_view *view, uint64_t key)
{
    uint32_t probes, hole = toy_probe(view, key, &probes);
    if (!view->used[hole])
        return LOOM_NOT_FOUND;
    for (uint32_t slot = toy_next(view, hole); view->used[slot]; slot = toy_next(view, slot)) {
        const uint64_t moving = toy_load(view->keys, view->key_bytes, slot);
        if (toy_steps(view, toy_home(view, moving), slot) < toy_steps(view, hole, slot))
            continue;
        toy_store(view->keys, view->key_bytes, hole, moving);
        toy_store(view->values, view->value_bytes, hole, toy_load(view->values, view->value_bytes, slot));
        hole = slot;
    }
    view->used[hole] = 0;
    view->totals->size--;
    return LOOM_OK;
}

/* Also gets builds, and insertions in order or by partition: the keys of a batch go one after the other, into one
 * partition. */
static loom_status toy_write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const toy_view *view = any_view;
    const int erases = batch->write == LOOM__WRITE_ERASE, overwrites = batch->write == LOOM__WRITE_OVERWRITE;
    loom_result result = {.keys = batch->n};
    RETURN_ERROR_IF(!erases && !overwrites && batch->write != LOOM__WRITE_KEEP, LOOM_UNSUPPORTED,
                    "a toy table has build, insert, find and erase; use another engine for more");
    if (batch->replace)
        RETURN_IF_FAILED(toy_clear(machine, view, batch->stream));
    for (uint64_t i = 0; i < batch->n; i++) {
        const uint64_t key = toy_load(batch->keys, view->key_bytes, i);
        const uint64_t value = batch->values == NULL ? 0 : toy_load(batch->values, view->value_bytes, i);
        toy_tell(&result, batch->status, i, erases ? erase_key(view, key) : insert_key(view, key, value, overwrites));
    }
    *batch->result = result;
    return LOOM_OK;
}

static loom_status toy_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const toy_view *view = any_view;
    (void)machine, (void)stream;
    for (*got = 0; position->bucket < view->slots && *got < room; position->bucket++) {
        if (!view->used[position->bucket])
            continue;
        toy_store(keys, view->key_bytes, *got, toy_load(view->keys, view->key_bytes, position->bucket));
        if (values != NULL)
            toy_store(values, view->value_bytes, *got, toy_load(view->values, view->value_bytes, position->bucket));
        ++*got;
    }
    return LOOM_OK;
}

/* A lookup finds each key where it is: that is I1 and I2. */
static loom_status toy_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream)
{
    const toy_view *view = any_view;
    uint64_t run = 0, misses = 0; /* slots up to the next free one; summed over all homes */
    (void)machine, (void)stream;
    *survey = (loom__survey){.first_bad = UINT64_MAX};
    for (uint32_t slot = view->slots; slot-- > 0;) {
        uint32_t probes;
        if (!view->used[slot])
            continue;
        if (toy_probe(view, toy_load(view->keys, view->key_bytes, slot), &probes) != slot || view->used[slot] != 1)
            survey->first_bad = slot;
        survey->size++;
        survey->displaced += probes > 1;
        survey->hit_accesses += probes;
        survey->longest_chain = probes > survey->longest_chain ? probes : survey->longest_chain;
    }
    if (survey->size == view->slots) /* I3 */
        survey->first_bad = 0;
    for (uint64_t i = 2 * (uint64_t)view->slots; i-- > 0;) { /* twice: the last run may go on at the first slot */
        run = view->used[i % view->slots] ? run + 1 : 1;
        misses += i < view->slots ? run : 0;
    }
    survey->fullest_partition = survey->size;
    survey->miss_accesses = (double)misses / view->slots;
    return LOOM_OK;
}

const loom__map_kernels toy_kernels = {
    .clear = toy_clear,
    .find = toy_find,
    .write = toy_write,
    .retrieve = toy_retrieve,
    .survey = toy_survey,
};
