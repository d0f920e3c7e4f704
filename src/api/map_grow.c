/* Tables that become larger or smaller. */
#include "api/map.h"
#include "core/error.h"

enum { LEAST_ROOM_SHARE = 8 /* a table grows when less than one key in so many still surely fits */ };

uint64_t loom__map_capacity(const loom_map *map)
{
    loom__map_image image;
    uint32_t slots;
    uint64_t bytes;
    map->engine->describe(map->table, &image, &slots, &bytes);
    return image.capacity;
}

loom_status loom_map_reserve(loom_map *map, uint64_t capacity, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_enter(map, LOOM__ACCESS_ALONE, stream));
    loom_status status = LOOM_OK;
    if (capacity > loom__map_capacity(map)) {
        status = map->engine->resize(map->table, capacity, stream);
        map->generation += status == LOOM_OK;
    }
    loom__map_leave(map, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_map_shrink(loom_map *map, loom_stream stream)
{
    uint64_t keys;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_enter(map, LOOM__ACCESS_ALONE, stream));
    loom_status status = map->engine->size(map->table, &keys, stream);
    if (status == LOOM_OK && keys < loom__map_capacity(map)) {
        status = map->engine->resize(map->table, keys, stream);
        map->generation += status == LOOM_OK;
    }
    loom__map_leave(map, LOOM__ACCESS_ALONE, stream);
    return status;
}

/* Keys `first` .. `first` + n - 1 of a batch. */
static loom__batch part_of(const loom_map *map, const loom__batch *batch, uint64_t first, uint64_t n)
{
    loom__batch part = *batch;
    part.keys = (const char *)batch->keys + first * map->key_bytes;
    if (batch->values != NULL)
        part.values = (const char *)batch->values + first * loom__number_bytes(batch->widening, map->value_bytes);
    if (batch->found_values != NULL)
        part.found_values = (char *)batch->found_values + first * map->value_bytes;
    if (batch->status != NULL)
        part.status = batch->status + first;
    part.n = n;
    return part;
}

/* Larger by the map's factor, and at least by one key. */
static loom_status grow(loom_map *map, uint64_t capacity, loom_stream stream)
{
    double larger = (double)capacity * map->growth;
    uint64_t wanted = larger < 0x1p62 ? (uint64_t)larger : (uint64_t)1 << 62;
    return map->engine->resize(map->table, wanted > capacity + 64 ? wanted : capacity + 64, stream);
}

loom_status loom__map_run_growing(loom_map *map, loom__map_work work, const loom__batch *batch, loom_result *outcome)
{
    loom_result part_result;
    int stuck = 0; /* it could not grow: the rest is given to the table as it is */
    *outcome = (loom_result){.status = LOOM_OK};
    for (uint64_t done = 0; done < batch->n;) {
        uint64_t left = batch->n - done, capacity = loom__map_capacity(map), room;
        RETURN_IF_FAILED(map->engine->room(map->table, &room, batch->stream));
        if (!stuck && room < left && room <= capacity / LEAST_ROOM_SHARE) {
            loom_status status = grow(map, capacity, batch->stream);
            if (status != LOOM_OK && status != LOOM_OUT_OF_MEMORY && status != LOOM_FULL &&
                status != LOOM_INVALID_ARGUMENT)
                return status;
            stuck = status != LOOM_OK;
            continue;
        }
        loom__batch part = part_of(map, batch, done, stuck || room > left ? left : room);
        part.result = &part_result;
        RETURN_IF_FAILED(work(map->table, &part));
        outcome->keys += part_result.keys;
        outcome->ok += part_result.ok;
        outcome->exists += part_result.exists;
        outcome->full += part_result.full;
        done += part.n;
    }
    if (outcome->full > 0)
        outcome->status = LOOM_FULL;
    return LOOM_OK;
}
