#include "durable/effects.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/operations.h"

#include <string.h>

/* ---- pairs ---- */

uint64_t loom__piece_room(uint32_t key_bytes, uint32_t value_bytes)
{
    enum { PIECE_BYTES = 1 << 20, MOST_PAIRS = 1 << 16 };
    const uint64_t room = PIECE_BYTES / ((uint64_t)key_bytes + value_bytes);
    return room < MOST_PAIRS ? room : MOST_PAIRS;
}

loom_status loom__pairs_create(const loom_allocator *allocator, uint32_t key_bytes, uint32_t value_bytes,
                               loom__pairs *pairs)
{
    const uint64_t room = loom__piece_room(key_bytes, value_bytes);
    *pairs = (loom__pairs){.key_bytes = key_bytes, .value_bytes = value_bytes, .room = room};
    const uint64_t keys = loom__place_array(&pairs->bytes, room, key_bytes),
                   values = loom__place_array(&pairs->bytes, room, value_bytes),
                   status = loom__place_array(&pairs->bytes, room, 1);
    pairs->memory = loom__allocate(allocator, pairs->bytes, LOOM_MEMORY_HOST, NULL);
    if (pairs->memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    pairs->keys = pairs->memory + keys;
    pairs->values = pairs->memory + values;
    pairs->status = pairs->memory + status;
    return LOOM_OK;
}

void loom__pairs_destroy(const loom_allocator *allocator, loom__pairs *pairs)
{
    loom__release(allocator, pairs->memory, pairs->bytes, LOOM_MEMORY_HOST, NULL);
    pairs->memory = NULL;
}

/* ---- the buffer of pieces ---- */

void loom__effects_reset(loom__effects *effects)
{
    effects->used = 0;
    effects->incomplete = 0;
}

void loom__effects_destroy(loom__effects *effects)
{
    loom__release(effects->allocator, effects->bytes, effects->room, LOOM_MEMORY_HOST, NULL);
    effects->bytes = NULL;
    effects->room = 0;
}

void loom__effects_give_up(loom__effects *effects)
{
    effects->used = 0;
    effects->incomplete = 1;
}

int loom__effects_are_none(const loom__effects *effects)
{
    return effects->used == 0 && !effects->incomplete;
}

/* Makes room for further bytes. False: they cannot be had, and the effects are incomplete. */
static int make_room(loom__effects *effects, uint64_t bytes)
{
    enum { LEAST_ROOM = 4096 };
    const uint64_t needed = effects->used + bytes;
    if (effects->incomplete || needed <= effects->room)
        return !effects->incomplete;
    uint64_t room = 2 * needed < LEAST_ROOM ? LEAST_ROOM : 2 * needed;
    room = room < effects->most ? room : effects->most;
    unsigned char *larger = needed <= room ? loom__allocate(effects->allocator, room, LOOM_MEMORY_HOST, NULL) : NULL;
    if (larger == NULL) {
        loom__effects_give_up(effects);
        return 0;
    }
    if (effects->used > 0)
        memcpy(larger, effects->bytes, effects->used);
    loom__effects_destroy(effects);
    effects->bytes = larger;
    effects->room = room;
    return 1;
}

/* Appends the head of a piece and returns where its columns go; NULL: the effects are incomplete. */
static unsigned char *add_piece(loom__effects *effects, loom__piece_kind kind, uint64_t count, uint64_t bytes)
{
    const loom__piece_head head = {.kind = kind, .count = (uint32_t)count};
    if (!make_room(effects, sizeof head + bytes))
        return NULL;
    unsigned char *at = effects->bytes + effects->used;
    memcpy(at, &head, sizeof head);
    effects->used += sizeof head + bytes;
    return at + sizeof head;
}

/* What came before does not matter any more. */
void loom__effects_clear(loom__effects *effects)
{
    loom__effects_reset(effects);
    (void)add_piece(effects, LOOM__PIECE_CLEAR, 0, 0);
}

void loom__effects_erase_range(loom__effects *effects, uint32_t value_bytes, loom_number number, const void *least,
                               const void *most)
{
    loom__range_piece range = {.number = number, .bounds = (least != NULL ? 1 : 0) | (most != NULL ? 2 : 0)};
    if (least != NULL)
        memcpy(&range.least, least, value_bytes);
    if (most != NULL)
        memcpy(&range.most, most, value_bytes);
    unsigned char *to = add_piece(effects, LOOM__PIECE_ERASE_RANGE, 0, sizeof range);
    if (to != NULL)
        memcpy(to, &range, sizeof range);
}

/* ---- gathering ---- */

/* Appends the n keys of `pairs` that were just looked up: those that are present with their values, the others as
 * erased. Equal keys have the same status, so the two pieces may come in either order. */
static void add_looked_up(loom__effects *effects, const loom__pairs *pairs, uint64_t n)
{
    const uint64_t key_bytes = pairs->key_bytes, value_bytes = pairs->value_bytes;
    uint64_t present = 0;
    for (uint64_t i = 0; i < n; i++)
        present += pairs->status[i] == LOOM_OK;
    if (present > 0) {
        unsigned char *keys = add_piece(effects, LOOM__PIECE_PUT, present, present * (key_bytes + value_bytes));
        unsigned char *values = keys != NULL ? keys + present * key_bytes : NULL;
        for (uint64_t i = 0; i < n && keys != NULL; i++)
            if (pairs->status[i] == LOOM_OK) {
                memcpy(keys, pairs->keys + i * key_bytes, key_bytes);
                memcpy(values, pairs->values + i * value_bytes, value_bytes);
                keys += key_bytes;
                values += value_bytes;
            }
    }
    if (present < n) {
        unsigned char *keys = add_piece(effects, LOOM__PIECE_ERASE, n - present, (n - present) * key_bytes);
        for (uint64_t i = 0; i < n && keys != NULL; i++)
            if (pairs->status[i] != LOOM_OK) {
                memcpy(keys, pairs->keys + i * key_bytes, key_bytes);
                keys += key_bytes;
            }
    }
}

/* Looks up the n keys of `pairs`, and appends what it finds. */
static loom_status look_up(loom__effects *effects, loom__table *table, loom__pairs *pairs, uint64_t n,
                           loom_stream stream)
{
    loom_result result;
    const loom__batch batch = {.keys = pairs->keys,
                               .n = n,
                               .found_values = pairs->value_bytes > 0 ? pairs->values : NULL,
                               .status = pairs->status,
                               .result = &result,
                               .stream = stream};
    RETURN_IF_FAILED(loom__map_table_find(table, &batch));
    RETURN_IF_FAILED(loom__table_wait(table, stream));
    add_looked_up(effects, pairs, n);
    return LOOM_OK;
}

void loom__effects_gather(loom__effects *effects, loom__table *table, loom__pairs *pairs, const void *keys, uint64_t n,
                          loom_stream stream)
{
    loom__machine *machine = table->machine;
    const unsigned char *from = keys;
    for (uint64_t first = 0, count; first < n && !effects->incomplete; first += count) {
        count = n - first < pairs->room ? n - first : pairs->room;
        loom_status status = machine->ops->read_table(machine, pairs->keys, from + first * pairs->key_bytes,
                                                      count * pairs->key_bytes, stream);
        if (status == LOOM_OK)
            status = look_up(effects, table, pairs, count, stream);
        if (status != LOOM_OK)
            loom__effects_give_up(effects);
    }
}

/* The numbers of the rows of one kind go to `rows`, and their keys to `pairs`. */
static loom_status gather_kind(loom__effects *effects, loom__table *table, loom__pairs *pairs,
                               const uint8_t *operations, uint8_t kind, const void *keys, uint64_t n, uint64_t *rows,
                               loom_stream stream)
{
    loom__machine *machine = table->machine;
    uint64_t count = 0;
    RETURN_IF_FAILED(machine->ops->select_rows(machine, operations, kind, n, rows, n, &count, stream));
    if (count == 0)
        return LOOM_OK;
    RETURN_IF_FAILED(
        machine->ops->take_rows(machine, pairs->keys, keys, pairs->key_bytes, rows, sizeof *rows, count, stream));
    return look_up(effects, table, pairs, count, stream);
}

void loom__effects_gather_operations(loom__effects *effects, loom__table *table, loom__pairs *pairs,
                                     const uint8_t *operations, const void *keys, uint64_t n, loom_stream stream)
{
    const loom_allocator *allocator = &table->machine->allocator;
    const uint64_t most = n < pairs->room ? n : pairs->room, bytes = most * sizeof(uint64_t);
    const unsigned char *from = keys;
    uint64_t *rows = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (rows == NULL)
        loom__effects_give_up(effects);
    for (uint64_t first = 0, count; first < n && !effects->incomplete; first += count) {
        count = n - first < most ? n - first : most;
        for (uint8_t kind = 0; kind < LOOM__OPERATIONS && !effects->incomplete; kind++)
            if (kind != LOOM_APPLY_FIND && gather_kind(effects, table, pairs, operations + first, kind,
                                                       from + first * pairs->key_bytes, count, rows, stream) != LOOM_OK)
                loom__effects_give_up(effects);
    }
    loom__release(allocator, rows, bytes, LOOM_MEMORY_TEMPORARY, stream);
}

/* ---- replay ---- */

static loom_status replay_range(loom__block_reader *reader, const loom__replay_target *target)
{
    loom__range_piece range;
    RETURN_IF_FAILED(loom__block_get(reader, &range, sizeof range));
    return target->erase_range(target->user, (loom_number)range.number, range.bounds & 1 ? &range.least : NULL,
                               range.bounds & 2 ? &range.most : NULL);
}

/* Bytes of a piece behind its head; UINT64_MAX: it is no piece. */
static uint64_t piece_bytes(const loom__piece_head *head, const loom__pairs *pairs)
{
    const uint64_t count = head->count;
    if (head->reserved_8 != 0)
        return UINT64_MAX;
    switch ((loom__piece_kind)head->kind) {
    case LOOM__PIECE_PUT:
        return count > 0 && count <= pairs->room ? count * ((uint64_t)pairs->key_bytes + pairs->value_bytes)
                                                 : UINT64_MAX;
    case LOOM__PIECE_ERASE:
        return count > 0 && count <= pairs->room ? count * pairs->key_bytes : UINT64_MAX;
    case LOOM__PIECE_CLEAR:
        return count == 0 ? 0 : UINT64_MAX;
    case LOOM__PIECE_ERASE_RANGE:
        return count == 0 && pairs->value_bytes > 0 ? sizeof(loom__range_piece) : UINT64_MAX;
    }
    return UINT64_MAX;
}

static loom_status replay_piece(loom__block_reader *reader, const loom__piece_head *head, const loom__pairs *pairs,
                                const loom__replay_target *target)
{
    switch ((loom__piece_kind)head->kind) {
    case LOOM__PIECE_PUT:
        RETURN_IF_FAILED(loom__block_get(reader, pairs->keys, head->count * (uint64_t)pairs->key_bytes));
        RETURN_IF_FAILED(loom__block_get(reader, pairs->values, head->count * (uint64_t)pairs->value_bytes));
        return target->put(target->user, pairs->keys, pairs->value_bytes > 0 ? pairs->values : NULL, head->count);
    case LOOM__PIECE_ERASE:
        RETURN_IF_FAILED(loom__block_get(reader, pairs->keys, head->count * (uint64_t)pairs->key_bytes));
        return target->erase(target->user, pairs->keys, head->count);
    case LOOM__PIECE_CLEAR:
        return target->clear(target->user);
    case LOOM__PIECE_ERASE_RANGE:
        return replay_range(reader, target);
    }
    return LOOM_NOT_FOUND;
}

loom_status loom__effects_replay(loom__block_reader *reader, uint64_t bytes, loom__pairs *pairs,
                                 const loom__replay_target *target, uint64_t *put)
{
    while (bytes > 0) { /* ends: each piece has a head */
        loom__piece_head head;
        if (bytes < sizeof head)
            return LOOM_NOT_FOUND;
        RETURN_IF_FAILED(loom__block_get(reader, &head, sizeof head));
        bytes -= sizeof head;
        const uint64_t columns = piece_bytes(&head, pairs);
        if (columns > bytes)
            return LOOM_NOT_FOUND;
        RETURN_IF_FAILED(replay_piece(reader, &head, pairs, target));
        bytes -= columns;
        if (head.kind == LOOM__PIECE_PUT)
            *put += head.count;
    }
    return LOOM_OK;
}
