/* Estimates how many keys a batch will add to a table, so that the table can grow before the batch comes.
 *
 * The number of distinct keys in the batch comes from a sketch of all rows (core/key_sketch.h), which is as good for
 * batches with a few frequent keys as for any other. The share of them that is new comes from a random sample of rows,
 * which are looked up. If frequent keys are stored and rare keys are not, or the other way round, the sampled share is
 * wrong. So the number is a guess: after a guess that was too low, refused keys make the table grow again. A guess that
 * is too high is at most the number of distinct keys in the batch, as the sketch estimates it, so the table has room
 * for at most 2.1 times the keys that it holds afterwards. */
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

#include <math.h>

enum {
    SAMPLE = 4096,         /* rows: the share is then within 2.4 % of all rows, three standard errors */
    SAMPLE_BYTES = 1 << 24 /* of wide keys fewer rows are drawn */
};

/* By how much the sketch may be off: 3.6 standard errors. */
static const double SKETCH_ERROR = 1.0 / 24;

static uint64_t up_to(double number, uint64_t most)
{
    return number < (double)most ? (uint64_t)number : most;
}

loom_status loom__map_estimate_keys(loom_map *map, const void *keys, uint64_t n, loom__key_range *distinct,
                                    loom_stream stream)
{
    loom__machine *machine = map->handle.context->machine;
    loom__key_sketch sketch;
    RETURN_IF_FAILED(machine->ops->sketch_keys(machine, keys,
                                               map->variable & LOOM__VARIABLE_KEYS ? LOOM_VARIABLE : map->key_bytes, n,
                                               map->handle.table->is.seed, &sketch, stream));
    const double estimate = loom__sketch_estimate(&sketch);
    distinct->least = up_to(estimate * (1 - SKETCH_ERROR), n);
    distinct->most = up_to(estimate * (1 + SKETCH_ERROR) + 1, n);
    if (distinct->most == n) /* far more batches have different keys than keys of which some percent come twice */
        distinct->least = n;
    return LOOM_OK;
}

/* Counts the rows whose keys the table does not have. */
static loom_status count_absent(loom_map *map, const void *keys, uint64_t n, uint64_t *absent, loom_stream stream)
{
    loom_result result = {0};
    const loom__batch look = {.keys = keys, .n = n, .result = &result, .stream = stream};
    RETURN_IF_FAILED(loom__map_table_find(map->handle.table, &look));
    *absent = result.not_found;
    return LOOM_OK;
}

/* Counts the absent keys of `drawn` random rows; `memory` has room for their numbers and keys. */
static loom_status count_absent_drawn(loom_map *map, const loom__batch *batch, uint64_t drawn, unsigned char *memory,
                                      uint64_t *absent)
{
    loom__machine *machine = map->handle.context->machine;
    uint64_t numbers[SAMPLE];
    uint64_t *rows = (uint64_t *)(void *)memory;
    void *keys = rows + drawn;
    for (uint64_t i = 0; i < drawn; i++) /* at random: batches often repeat their keys at regular distances */
        numbers[i] = loom__mix64(i + 1) % batch->n;
    RETURN_IF_FAILED(machine->ops->write_table(machine, rows, numbers, drawn * sizeof *rows, batch->stream));
    RETURN_IF_FAILED(
        machine->ops->take_rows(machine, keys, batch->keys, map->key_bytes, rows, sizeof *rows, drawn, batch->stream));
    return count_absent(map, keys, drawn, absent, batch->stream);
}

/* The least and the greatest likely share of rows whose keys the table does not have. */
static loom_status estimate_new_share(loom_map *map, const loom__batch *batch, double *least, double *most)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const uint64_t fit = SAMPLE_BYTES / map->key_bytes, some = fit < 1 ? 1 : fit < SAMPLE ? fit : SAMPLE;
    uint64_t absent;
    if (batch->n <= some) {
        RETURN_IF_FAILED(count_absent(map, batch->keys, batch->n, &absent, batch->stream));
        *least = *most = (double)absent / (double)batch->n;
        return LOOM_OK;
    }
    const size_t bytes = some * (sizeof(uint64_t) + map->key_bytes);
    unsigned char *memory = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    const loom_status status = count_absent_drawn(map, batch, some, memory, &absent);
    loom__release(allocator, memory, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    RETURN_IF_FAILED(status);
    const double share = (double)absent / (double)some, error = 3 * sqrt(share * (1 - share) / (double)some);
    *least = share - error > 0 ? share - error : 0;
    *most = share + error + 3.0 / (double)some; /* three rows for the case that none or all are absent */
    *most = *most < 1 ? *most : 1;
    return LOOM_OK;
}

loom_status loom__map_estimate_new_keys(loom_map *map, const loom__batch *batch, uint64_t stored, uint64_t enough,
                                        loom__key_range *new_keys)
{
    double least = 1, most = 1;
    *new_keys = (loom__key_range){0};
    if (batch->n == 0)
        return LOOM_OK;
    if (stored > 0)
        RETURN_IF_FAILED(estimate_new_share(map, batch, &least, &most));
    *new_keys = (loom__key_range){0, up_to(ceil((double)batch->n * most), batch->n)};
    if (new_keys->most <= enough || least == 0) /* even if all rows have different keys; or perhaps no key is new */
        return LOOM_OK;
    loom__key_range distinct;
    RETURN_IF_FAILED(loom__map_estimate_keys(map, batch->keys, batch->n, &distinct, batch->stream));
    new_keys->least = up_to((double)distinct.least * least, batch->n);
    new_keys->most = up_to(ceil((double)distinct.most * most), distinct.most);
    return LOOM_OK;
}
