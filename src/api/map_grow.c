/* Tables that grow or shrink.
 *
 * Automatic growth. A batch surely fits if the keys given to the table so far and the keys of the batch do not exceed
 * the table's capacity. This file does not handle batches that surely fit: they overlap other calls and return as in
 * any table. A batch that might exceed the capacity has the table alone:
 *
 *   1. Room is made before the batch comes (map_estimate.c). A table is built at the size that its keys need: a new
 *      table takes the place of the small one, whose contents are discarded anyway. An insertion into an empty table is
 *      such a build. Before any other insertion the table grows if even a low estimate of the new keys exceeds its
 *      capacity, unless the last batch brought no new key. An estimate costs far less than refused keys do: it reads
 *      the batch once, while a refused key walks all buckets of a full partition.
 *   2. The whole batch goes to the table. Parts of the batch would ruin grouping, for which the machine needs the whole
 *      batch. A table has more slots than its capacity, so a few keys beyond the capacity are stored, too.
 *   3. If keys are refused all the same, the table grows, and a further round gives it the refused rows. They are
 *      copied, in the order of the batch, into arrays of their own. A stored row is not given again, so each row is
 *      combined once. If the batch has a status array, the statuses say which rows were refused. Otherwise this file
 *      does not ask for statuses: they cost time, and a status array keeps the cuda machine from combining rows first.
 *      Without statuses, the refused rows are the rows whose keys are not in the table now. This is exact because one
 *      call stores either all rows of a key or none: a partition without a free slot stays without one until the call
 *      ends (open_ops.h, Insert), and a full bucket of an exhausted partition gets no room (perfect_room.h).
 *   4. Rounds repeat until no row is refused or memory is short. In each round the table grows at least by the map's
 *      factor, and at least to the number of keys that a sketch of the refused rows predicts.
 *   5. If the table holds more keys than its capacity in the end, it grows once more. No call leaves a table overfull
 *      if there is memory.
 *
 * How large a table gets. An estimate is at most the number of distinct keys in the batch, plus the error of the
 * sketch. So a table grows to the map's factor times its capacity, or to room for at most 2.1 times the keys that it
 * holds afterwards. A table that refuses keys while it is less than half full does not grow: the hashes of these keys
 * are made to collide, and would collide in any table.
 *
 * Multimaps. The steps above are about their keys. Whether there is room for the values is known only when the batch
 * has reserved places for them: loom__map_run_with_values gives the batch to the table, makes room if the table says
 * how much it needs, and gives it the batch again.
 *
 * Short of memory. If the larger table of step 1 cannot be had, the batch goes to the table as it is. All memory for a
 * further round is allocated before the table begins to grow. If an allocation fails, the rows stay refused, as
 * reported. */
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <time.h>

/* Moves the table into one with this room, within the memory limit. */
static loom_status move_to(loom_map *map, loom__room room, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check_limit(map, room));
    RETURN_IF_FAILED(loom__map_table_resize(map->handle.table, room, stream));
    map->handle.generation++;
    map->limited_at = UINT64_MAX;
    return LOOM_OK;
}

loom_status loom_map_reserve(loom_map *map, uint64_t capacity, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = LOOM_OK;
    uint64_t keys = 0;
    const loom__room now = loom__map_table_room(map->handle.table);
    if (capacity > now.capacity)
        status = loom__map_table_size(map->handle.table, &keys, stream);
    /* A table has more slots than its capacity. If it holds more keys than `capacity`, it has the room already, and its
     * keys might not fit a table of that capacity. */
    if (status == LOOM_OK && capacity > now.capacity && capacity >= keys)
        status = move_to(map, (loom__room){capacity, now.values}, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_map_reserve_values(loom_map *map, uint64_t values, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_check_has_lists(map));
    return loom__map_reserve_room(map, values, stream);
}

loom_status loom__map_reserve_room(loom_map *map, uint64_t values, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    const loom__room now = loom__map_table_room(map->handle.table);
    loom_status status = LOOM_OK;
    if (values > now.values)
        status = move_to(map, (loom__room){now.capacity, values}, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

/* Moves the table into the smallest one that holds its keys and values. *moved: it was larger. */
static loom_status shrink_once(loom_map *map, int *moved, loom_stream stream)
{
    loom__room least = {0};
    const loom__room now = loom__map_table_room(map->handle.table);
    *moved = 0;
    RETURN_IF_FAILED(loom__map_table_size(map->handle.table, &least.capacity, stream));
    RETURN_IF_FAILED(loom__map_table_values(map->handle.table, &least.values, stream));
    if (least.capacity > now.capacity) /* a table may hold more keys than its capacity */
        least.capacity = now.capacity;
    if ((least.capacity == now.capacity && least.values >= now.values) || !loom__map_is_smaller(map, least))
        return LOOM_OK;
    RETURN_IF_FAILED(loom__map_table_resize(map->handle.table, least, stream));
    *moved = 1;
    map->handle.generation++;
    return LOOM_OK;
}

loom_status loom_map_shrink(loom_map *map, loom_stream stream)
{
    int moved;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = shrink_once(map, &moved, stream);
    /* A string that replaced a longer one has a piece of the longer one's size until it moves: how many bytes all
     * strings need is known only then. If the second move fails, the table is smaller all the same. */
    if (status == LOOM_OK && moved && map->variable & LOOM__VARIABLE_VALUES)
        (void)shrink_once(map, &moved, stream);
    map->limited_at = UINT64_MAX;
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom__map_check_growth(double growth)
{
    RETURN_ERROR_IF(growth != 0 && !(growth > 1 && growth <= 16), LOOM_INVALID_ARGUMENT,
                    "growth = %g: it is 0 (off), or above 1 and at most 16", growth);
    return LOOM_OK;
}

loom_status loom_map_set_growth(loom_map *map, double growth)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    RETURN_IF_FAILED(loom__map_check_growth(growth));
    loom__gate_enter(&map->handle.gate, 1);
    map->growth = growth;
    loom__gate_leave(&map->handle.gate, 1);
    return LOOM_OK;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The capacity to which the table grows: the largest of the factor times the capacity, LEAST_MORE keys more than the
 * capacity, and `keys`. The map's memory limit may lower the result. */
static loom_status choose_capacity(loom_map *map, double factor, uint64_t keys, uint64_t *wanted)
{
    enum { LEAST_MORE = 64 };
    const uint64_t capacity = map->handle.table->is.capacity;
    const double larger = (double)capacity * factor;
    *wanted = larger < 0x1p62 ? (uint64_t)larger : (uint64_t)1 << 62;
    *wanted = *wanted > capacity + LEAST_MORE ? *wanted : capacity + LEAST_MORE;
    *wanted = *wanted > keys ? *wanted : keys;
    return loom__map_limit_growth(map, capacity + LEAST_MORE, wanted);
}

static loom_status grow_to(loom_map *map, loom__room room, loom_stream stream)
{
    const double begun = seconds_now();
    RETURN_IF_FAILED(loom__map_table_resize(map->handle.table, room, stream));
    map->growth_seconds += seconds_now() - begun;
    map->growths++;
    map->limited_at = UINT64_MAX;
    return LOOM_OK;
}

/* Failures that leave the table intact and the refused rows refused. */
static int is_shortage(loom_status status)
{
    return status == LOOM_OUT_OF_MEMORY || status == LOOM_FULL || status == LOOM_INVALID_ARGUMENT;
}

/* Makes room for `keys` keys at least. Tables with strings: and for so many more bytes, if the memory limit allows. */
static loom_status grow(loom_map *map, uint64_t keys, uint64_t string_bytes, loom_stream stream)
{
    loom__room wanted = loom__map_table_room(map->handle.table);
    const uint64_t heap = wanted.values;
    uint64_t live = 0;
    RETURN_IF_FAILED(choose_capacity(map, map->growth, keys, &wanted.capacity));
    if (string_bytes > 0)
        RETURN_IF_FAILED(loom__map_table_values(map->handle.table, &live, stream));
    if (string_bytes > 0 && live + string_bytes > heap) {
        wanted.values = live + string_bytes;
        loom__map_limit_values(map, heap, &wanted);
    }
    return grow_to(map, wanted, stream);
}

/* The share of `whole` that `part` of n rows have. */
static uint64_t share_of(uint64_t whole, uint64_t part, uint64_t n)
{
    return n == 0 || part >= n ? whole : (uint64_t)ceil((double)whole * ((double)part / (double)n));
}

/* ---- room for values ---- */

/* The room of a multimap that needs room for `needed` values, all of its lists packed. If the heap is large enough, it
 * keeps its size, and what lists left behind in it becomes free. A fifth must be free after the batch then, so that
 * moves stay rare. The map's memory limit may lower the result. */
static loom__room choose_values(const loom_map *map, uint64_t needed)
{
    loom__room wanted = loom__map_table_room(map->handle.table);
    if (map->growth > 0 && needed > wanted.values - wanted.values / 5) {
        const double larger = fmin((double)wanted.values * map->growth, (double)map->handle.table->engine->most_values);
        wanted.values = (uint64_t)larger > needed ? (uint64_t)larger : needed;
        loom__map_limit_values(map, needed, &wanted);
    }
    return wanted;
}

/* Makes room for `needed` values, or as much as can be had. *enough: all of it. */
static loom_status grow_values(loom_map *map, uint64_t needed, int *enough, loom_stream stream)
{
    const loom__room wanted = choose_values(map, needed), now = loom__map_table_room(map->handle.table);
    uint64_t values;
    *enough = wanted.values >= needed;
    RETURN_IF_FAILED(loom__map_table_values(map->handle.table, &values, stream));
    if (wanted.values <= now.values && values >= now.values) /* as large as it may be, and packed */
        return LOOM_OK;
    const loom_status status = grow_to(map, wanted, stream);
    if (!is_shortage(status))
        return status;
    *enough = 0;
    return LOOM_OK;
}

loom_status loom__map_run_with_values(loom_map *map, loom__map_work work, const loom__batch *given)
{
    loom__batch batch = *given;
    uint64_t needed = 0;
    int enough;
    if (map->type != LOOM_TYPE_MULTIMAP)
        return work(map->handle.table, given);
    batch.values_needed = &needed;
    RETURN_IF_FAILED(work(map->handle.table, &batch));
    if (needed == 0)
        return LOOM_OK;
    RETURN_IF_FAILED(grow_values(map, needed, &enough, batch.stream));
    if (enough)
        RETURN_IF_FAILED(work(map->handle.table, &batch));
    if (enough && needed == 0)
        return LOOM_OK;
    batch.values_needed = NULL; /* the heap cannot be made large enough: pairs are refused */
    return work(map->handle.table, &batch);
}

/* ---- rounds ---- */

/* What one round gives to the table: the caller's batch, or rows of it in arrays of our own. */
typedef struct round_of_rows {
    loom__batch batch;
    uint64_t *rows; /* [n] row numbers in the caller's batch; NULL if the batch has no outputs */
    unsigned char *memory;
    uint64_t bytes;
} round_of_rows;

static void release_round(loom_map *map, round_of_rows *round)
{
    loom__release(&map->handle.context->machine->allocator, round->memory, round->bytes, LOOM_MEMORY_TEMPORARY,
                  round->batch.stream);
    round->memory = NULL;
}

/* Allocates n rows of each array that the caller's batch has. */
static loom_status make_round(loom_map *map, const loom__batch *whole, uint64_t n, round_of_rows *made)
{
    const int outputs = whole->status != NULL || whole->found_values != NULL;
    const uint32_t number_bytes = loom__number_bytes(whole->widening, map->value_bytes);
    uint64_t bytes = 0, rows = loom__place_array(&bytes, outputs ? n : 0, sizeof(uint64_t)),
             keys = loom__place_array(&bytes, n, map->key_bytes),
             values = loom__place_array(&bytes, whole->values != NULL ? n : 0, number_bytes),
             found = loom__place_array(&bytes, whole->found_values != NULL ? n : 0, map->value_bytes),
             status = loom__place_array(&bytes, whole->status != NULL ? n : 0, 1);
    *made = (round_of_rows){.batch = *whole, .bytes = bytes};
    made->memory =
        loom__allocate(&map->handle.context->machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, whole->stream);
    if (made->memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    made->rows = outputs ? (uint64_t *)(made->memory + rows) : NULL;
    made->batch.keys = made->memory + keys;
    made->batch.values = whole->values != NULL ? made->memory + values : NULL;
    made->batch.found_values = whole->found_values != NULL ? made->memory + found : NULL;
    made->batch.status = whole->status != NULL ? made->memory + status : NULL;
    made->batch.n = n;
    made->batch.replace = made->batch.fresh = 0;
    made->batch.flags &= ~(uint32_t)LOOM_BY_PARTITION; /* the refused rows may be too few for it */
    return LOOM_OK;
}

/* Writes the numbers of the rows that the table refused in a round, and *count. There must be as many as the table
 * reported. A multimap also refuses rows whose keys it has, for lack of room for values, or since a key has all the
 * values that it may have. A larger directory would not help these rows: they stay refused. */
static loom_status select_refused(loom_map *map, const loom__batch *batch, uint64_t *rows, uint64_t refused,
                                  uint64_t *count)
{
    loom__machine *machine = map->handle.context->machine;
    const int multimap = map->type == LOOM_TYPE_MULTIMAP;
    uint8_t *status = batch->status, *own = NULL;
    loom_status outcome = LOOM_OK;
    *count = 0;
    if (status == NULL || multimap) {
        loom_result result = {0};
        status = own = loom__allocate(&machine->allocator, batch->n, LOOM_MEMORY_TEMPORARY, batch->stream);
        if (own == NULL)
            return LOOM_OUT_OF_MEMORY;
        loom__batch look = {
            .keys = batch->keys, .status = own, .n = batch->n, .result = &result, .stream = batch->stream};
        outcome = loom__map_table_find(map->handle.table, &look);
    }
    if (outcome == LOOM_OK)
        outcome = machine->ops->select_rows(machine, status, own != NULL ? LOOM_NOT_FOUND : LOOM_FULL, batch->n, rows,
                                            refused, count, batch->stream);
    loom__release(&machine->allocator, own, batch->n, LOOM_MEMORY_TEMPORARY, batch->stream);
    RETURN_IF_FAILED(outcome);
    RETURN_ERROR_IF(*count != refused && !(multimap && *count < refused), LOOM_FULL,
                    "%llu keys were refused, but %llu seem to be; the arrays must not change while a call runs",
                    (unsigned long long)refused, (unsigned long long)*count);
    return LOOM_OK;
}

/* Copies rows of one round into the next. */
static loom_status take_rows(loom_map *map, const round_of_rows *last, const uint64_t *rows, round_of_rows *next)
{
    loom__machine *machine = map->handle.context->machine;
    const loom__batch *from = &last->batch, *to = &next->batch;
    RETURN_IF_FAILED(machine->ops->take_rows(machine, (void *)to->keys, from->keys, map->key_bytes, rows, sizeof *rows,
                                             to->n, to->stream));
    if (from->values != NULL)
        RETURN_IF_FAILED(machine->ops->take_rows(machine, (void *)to->values, from->values,
                                                 loom__number_bytes(from->widening, map->value_bytes), rows,
                                                 sizeof *rows, to->n, to->stream));
    if (next->rows == NULL)
        return LOOM_OK;
    if (last->rows != NULL)
        return machine->ops->take_rows(machine, next->rows, last->rows, sizeof *rows, rows, sizeof *rows, to->n,
                                       to->stream);
    return machine->ops->copy_table(machine, next->rows, rows, to->n * sizeof *rows, to->stream);
}

/* FULL and a sentence if a table that refuses keys would not be helped by growth. */
static loom_status check_half_full(uint64_t keys, uint64_t capacity)
{
    RETURN_ERROR_IF(keys < capacity / 2, LOOM_FULL,
                    "it holds only %llu keys of %llu, but too many fell into one partition (their hashes are very "
                    "unlucky, or made so)",
                    (unsigned long long)keys, (unsigned long long)capacity);
    return LOOM_OK;
}

/* Allocates and fills the next round, then grows the table. If no row can be given again, the next round has none. */
static loom_status prepare(loom_map *map, const loom__batch *whole, const round_of_rows *last, uint64_t refused,
                           uint64_t keys_refused, round_of_rows *next)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    uint64_t keys, again, capacity = map->handle.table->is.capacity;
    *next = (round_of_rows){.batch = *whole}; /* no memory yet: the old contents of *next may belong to `last` */
    next->batch.n = 0;
    if (map->type == LOOM_TYPE_MULTIMAP && keys_refused == 0) /* a larger directory would not help */
        return LOOM_OK;
    if (loom__map_is_limited(map))
        return grow(map, 0, 0, whole->stream); /* fails, with the error message for the caller */
    RETURN_IF_FAILED(loom__map_table_recount(map->handle.table, &keys, whole->stream));
    if (map->type != LOOM_TYPE_MULTIMAP)
        RETURN_IF_FAILED(check_half_full(keys, capacity));
    uint64_t *rows = loom__allocate(allocator, refused * sizeof *rows, LOOM_MEMORY_TEMPORARY, whole->stream);
    if (rows == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = select_refused(map, &last->batch, rows, refused, &again);
    if (status == LOOM_OK && again > 0)
        status = check_half_full(keys, capacity);
    if (status == LOOM_OK && again > 0)
        status = make_round(map, whole, again, next);
    if (status == LOOM_OK && again > 0)
        status = take_rows(map, last, rows, next);
    loom__release(allocator, rows, refused * sizeof *rows, LOOM_MEMORY_TEMPORARY, whole->stream);
    if (status == LOOM_OK && again == 0)
        return LOOM_OK;
    loom__key_range distinct = {0}; /* if the estimate fails, the table grows by the map's factor */
    if (status == LOOM_OK)
        (void)loom__map_estimate_keys(map, next->batch.keys, again, &distinct, whole->stream);
    if (status == LOOM_OK)
        status = grow(map, keys + distinct.most, 0, whole->stream);
    if (status != LOOM_OK)
        release_round(map, next);
    return status;
}

/* ---- strings ---- */

/* Rows of a table with strings are refused for lack of slots or for lack of bytes. *wanted: the room with which the
 * table should move before the refused rows are given again. A heap of which much is unused keeps its size: its strings
 * are packed. `stored_none`: the round before did so, and then no row was stored; the next one must have more room, or
 * rounds would go on without end. False: no move would help. */
static int choose_room(loom_map *map, uint64_t keys, uint64_t refused, int stored_none, const loom__no_bytes *no_bytes,
                       const loom__key_range *distinct, loom__room *wanted, loom_stream stream)
{
    enum { LEAST_SHARE = 8 /* a move must make free one in so many bytes of the heap */ };
    const loom__room now = loom__map_table_room(map->handle.table);
    loom__table *table = map->handle.table;
    uint64_t used, live;
    *wanted = now;
    if (table->engine->count_bytes(table, &used, &live, stream) != LOOM_OK)
        return 0;
    if (refused > no_bytes->rows && map->growth > 0 && !loom__map_is_limited(map) &&
        check_half_full(keys, now.capacity) == LOOM_OK &&
        choose_capacity(map, map->growth, keys + distinct->most, &wanted->capacity) != LOOM_OK)
        wanted->capacity = now.capacity;
    if (no_bytes->rows == 0)
        return wanted->capacity > now.capacity;
    /* Strings of equal keys may differ in length, and in order one that did not fit refuses all that follow. */
    const uint64_t share = share_of(no_bytes->bytes, distinct->most, refused);
    const uint64_t needed = live + (share > no_bytes->most ? share : no_bytes->most);
    if (map->growth > 0 && (stored_none || needed > now.values - now.values / 5)) {
        const double larger = fmin((double)now.values * map->growth, (double)table->engine->most_values);
        wanted->values = (uint64_t)larger > needed ? (uint64_t)larger : needed;
        loom__map_limit_values(map, needed, wanted);
    }
    return wanted->capacity > now.capacity || wanted->values > now.values ||
           (!stored_none && used > live && used - live >= now.values / LEAST_SHARE);
}

/* `prepare` for tables with strings. The statuses tell which rows were refused: a heap that runs out may refuse a row
 * and still store another one with the same key. */
static loom_status prepare_strings(loom_map *map, const loom__batch *whole, const round_of_rows *last, uint64_t refused,
                                   const loom__no_bytes *no_bytes, round_of_rows *next)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    uint64_t keys, again = 0;
    loom__room wanted;
    *next = (round_of_rows){.batch = *whole};
    next->batch.n = 0;
    RETURN_IF_FAILED(loom__map_table_recount(map->handle.table, &keys, whole->stream));
    uint64_t *rows = loom__allocate(allocator, refused * sizeof *rows, LOOM_MEMORY_TEMPORARY, whole->stream);
    if (rows == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = select_refused(map, &last->batch, rows, refused, &again);
    if (status == LOOM_OK)
        status = make_round(map, whole, again, next);
    if (status == LOOM_OK)
        status = take_rows(map, last, rows, next);
    loom__release(allocator, rows, refused * sizeof *rows, LOOM_MEMORY_TEMPORARY, whole->stream);
    loom__key_range distinct = {0, again};
    if (status == LOOM_OK)
        (void)loom__map_estimate_keys(map, next->batch.keys, again, &distinct, whole->stream);
    const int stored_none = last->memory != NULL && refused == last->batch.n;
    if (status == LOOM_OK &&
        !choose_room(map, keys, refused, stored_none, no_bytes, &distinct, &wanted, whole->stream)) {
        release_round(map, next);
        next->batch.n = 0;
        return LOOM_OK; /* the rows stay refused */
    }
    if (status == LOOM_OK)
        status = grow_to(map, wanted, whole->stream);
    if (status != LOOM_OK)
        release_round(map, next);
    return status;
}

/* Copies a round's answers to the caller's arrays. */
static loom_status tell(loom_map *map, const loom__batch *whole, const round_of_rows *round)
{
    loom__machine *machine = map->handle.context->machine;
    const loom__batch *part = &round->batch;
    if (round->rows != NULL && whole->status != NULL)
        RETURN_IF_FAILED(machine->ops->put_rows(machine, whole->status, part->status, 1, round->rows,
                                                sizeof *round->rows, part->n, whole->stream));
    if (round->rows != NULL && whole->found_values != NULL)
        RETURN_IF_FAILED(machine->ops->put_rows(machine, whole->found_values, part->found_values, map->value_bytes,
                                                round->rows, sizeof *round->rows, part->n, whole->stream));
    return LOOM_OK;
}

/* ---- room beforehand ---- */

/* Failures of a build that leave the table unchanged, where another way may succeed. UNSUPPORTED: the larger table has
 * too many partitions, or the batch cannot go by partition. */
static int is_refusal(loom_status status)
{
    return is_shortage(status) || status == LOOM_UNSUPPORTED;
}

/* Builds the table from the batch, whose result is on the host. If the keys surely exceed the capacity, builds a table
 * of the size that they need, which takes the place of the old one. */
static loom_status build_with_room(loom_map *map, const loom__batch *batch)
{
    loom__table *table = map->handle.table;
    loom__room wanted = loom__map_table_room(table);
    loom__key_range distinct;
    loom_result first = {0}; /* of a build that refused keys; keys == 0: there was none */
    uint64_t first_refused = 0;
    const int short_of_values = map->type == LOOM_TYPE_MULTIMAP && batch->n > wanted.values;
    const int short_of_bytes = map->variable != 0 && batch->string_bytes > wanted.values;
    if (map->growth == 0 && map->variable != 0)
        return loom__map_table_build(table, batch);
    if (wanted.capacity > 0 && !short_of_values && loom__map_table_tries_builds(table)) {
        const loom_status status = loom__map_table_build(table, batch);
        const int refused = batch->result->full > 0 && (batch->keys_refused == NULL || *batch->keys_refused > 0);
        if (status != LOOM_OK || !refused)
            return status;
        first = *batch->result;
        first_refused = batch->keys_refused != NULL ? *batch->keys_refused : 0;
    }
    const int estimated = loom__map_estimate_keys(map, batch->keys, batch->n, &distinct, batch->stream) == LOOM_OK;
    const int short_of_keys = estimated && distinct.least > wanted.capacity;
    if (short_of_keys || short_of_values || short_of_bytes) {
        loom_status status = short_of_keys ? choose_capacity(map, 1, distinct.most, &wanted.capacity) : LOOM_OK;
        if (short_of_values) {
            wanted.values = batch->n;
            loom__map_limit_values(map, batch->n, &wanted); /* too few: pairs are refused */
        }
        const uint64_t bytes = estimated ? share_of(batch->string_bytes, distinct.most, batch->n) : batch->string_bytes;
        if (short_of_bytes && bytes > wanted.values) {
            wanted.values = bytes;
            loom__map_limit_values(map, bytes, &wanted); /* too few: rows are refused */
        }
        if (status == LOOM_OK)
            status = loom__map_table_build_resized(table, wanted, batch);
        map->growths += status == LOOM_OK;
        if (!is_refusal(status))
            return status;
    }
    if (first.keys == 0)
        return loom__map_table_build(table, batch);
    *batch->result = first; /* the table holds what did not find it full; the caller sends the others again */
    if (batch->keys_refused != NULL)
        *batch->keys_refused = first_refused;
    return LOOM_OK;
}

/* Makes the table larger if the new keys of the batch surely exceed its capacity. A failure changes nothing: the batch
 * may then be refused. If the last batch brought no new key, and no key has left since, this batch is not looked at:
 * a table that is just large enough would look at every batch in vain. */
static void make_room(loom_map *map, uint64_t stored, loom__batch *batch)
{
    loom__table *table = map->handle.table;
    const uint64_t capacity = table->is.capacity, free = stored < capacity ? capacity - stored : 0;
    loom__key_range new_keys;
    if ((stored > 0 && stored == map->calm_at) || map->growth == 0 || batch->write == LOOM__WRITE_UPDATE ||
        loom__map_is_limited(map) || loom__map_estimate_new_keys(map, batch, stored, free, &new_keys) != LOOM_OK ||
        new_keys.least <= free)
        return;
    const uint64_t bytes = share_of(batch->string_bytes, new_keys.most, batch->n);
    if (grow(map, stored + new_keys.most, bytes, batch->stream) == LOOM_OK)
        (void)loom__map_table_access(table, batch, LOOM__ACCESS_ALONE); /* the batch may now go by partition */
}

/* The first round: the whole batch. An insertion into an empty table is a build, unless there is no memory for it or
 * the machine cannot build from such a batch. */
static loom_status begin(loom_map *map, loom__map_work work, uint64_t stored, loom__batch *batch)
{
    const int writes_pairs = batch->write == LOOM__WRITE_KEEP || batch->write == LOOM__WRITE_OVERWRITE;
    const int builds = work == loom__map_table_build;
    if (builds)
        return build_with_room(map, batch);
    if (stored == 0 && writes_pairs) {
        loom__batch build = *batch;
        build.flags &= ~(uint32_t)LOOM_LOW_MEMORY; /* has no effect on insertions */
        const loom_status status = build_with_room(map, &build);
        if (!is_refusal(status))
            return status;
    }
    make_room(map, stored, batch);
    return loom__map_run_with_values(map, work, batch);
}

/* The rounds of a batch. *outcome adds up what they report. *first: nothing was reported so far. */
static loom_status run_rounds(loom_map *map, loom__map_work work, uint64_t stored, const loom__batch *batch,
                              loom_result *outcome, int *first)
{
    round_of_rows round = {.batch = *batch}, next = {0};
    loom_result result;
    loom__no_bytes no_bytes = {0};
    uint64_t keys_refused = 0, lost = 0; /* rows that stay refused */
    loom_status status;
    for (;;) {
        round.batch.result = &result;
        round.batch.keys_refused = &keys_refused;
        round.batch.no_bytes = &no_bytes;
        status = round.memory == NULL ? begin(map, work, stored, &round.batch)
                                      : loom__map_run_with_values(map, loom__map_table_write, &round.batch);
        if (status == LOOM_OK)
            status = tell(map, batch, &round);
        if (status != LOOM_OK)
            break;
        outcome->ok += result.ok;
        outcome->exists += result.exists;
        outcome->not_found += result.not_found;
        outcome->too_long += result.too_long;
        outcome->full = lost + result.full;
        if (result.full == 0)
            break;
        status = map->variable != 0 ? prepare_strings(map, batch, &round, result.full, &no_bytes, &next)
                                    : prepare(map, batch, &round, result.full, keys_refused, &next);
        if (status != LOOM_OK || next.batch.n == 0)
            break;
        lost += result.full - next.batch.n;
        release_round(map, &round);
        round = next;
    }
    *first = round.memory == NULL;
    release_round(map, &round);
    return status;
}

loom_status loom__map_run_growing(loom_map *map, loom__map_work work, uint64_t stored, const loom__batch *given,
                                  loom_result *outcome)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const uint64_t growths = map->growths, capacity = map->handle.table->is.capacity;
    loom__batch batch = *given;
    uint8_t *own_status = NULL;
    uint64_t keys;
    int first;
    *outcome = (loom_result){.status = LOOM_OK, .keys = batch.n};
    if (map->variable != 0 && batch.status == NULL && batch.n > 0) {
        batch.status = own_status = loom__allocate(allocator, batch.n, LOOM_MEMORY_TEMPORARY, batch.stream);
        if (own_status == NULL)
            return LOOM_OUT_OF_MEMORY;
    }
    const loom_status status = run_rounds(map, work, stored, &batch, outcome, &first);
    loom__release(allocator, own_status, batch.n, LOOM_MEMORY_TEMPORARY, batch.stream);
    if (status != LOOM_OK && (!is_shortage(status) || (first && outcome->full == 0)))
        return status;
    if (outcome->full > 0)
        outcome->status = LOOM_FULL;
    else if (outcome->too_long > 0)
        outcome->status = LOOM_TOO_LONG;
    RETURN_IF_FAILED(loom__map_table_recount(map->handle.table, &keys, batch.stream));
    map->calm_at = outcome->ok == 0 && outcome->full == 0 ? keys : 0;
    if (status == LOOM_OK && map->growth > 0 && keys > map->handle.table->is.capacity && !loom__map_is_limited(map))
        (void)grow(map, keys, 0, batch.stream); /* after a failure the next call tries again: all keys are stored */
    if (map->growths > growths + 1)
        loom__context_log(map->handle.context, LOOM_LOG_WARNING,
                          "a table for %llu keys grew %llu times in one call; made for %llu keys, it would not have "
                          "grown (loom_map_config.capacity, loom_map_reserve)",
                          (unsigned long long)capacity, (unsigned long long)(map->growths - growths),
                          (unsigned long long)keys);
    return LOOM_OK;
}
