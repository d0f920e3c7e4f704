/* How much memory a table may take, when it is made and when it grows. */
#include "api/map.h"
#include "core/error.h"

loom_status loom__map_measure(loom_context *context, const loom_map_config *config, loom_memory *memory)
{
    RETURN_IF_FAILED(loom__map_table_measure(context->machine, config, memory));
    memory->table_bytes += sizeof(loom_map);
    return LOOM_OK;
}

/* ---- new tables ---- */

loom_status loom__map_limit_config(loom_context *context, int load_is_open, loom_map_config *config)
{
    enum { STEPS = 15 }; /* from the usual load to the highest */
    const double usual = config->max_load,
                 largest = loom__engine_largest_load(loom__engine_of(config->type, config->engine));
    uint64_t least = UINT64_MAX;
    double least_at = config->max_load;
    if (config->memory_limit == 0)
        return LOOM_OK;
    for (int i = 0; i <= (load_is_open ? STEPS : 0); i++) {
        loom_memory memory = LOOM_MEMORY_INIT;
        if (load_is_open)
            config->max_load = usual + (largest - usual) * i / STEPS;
        RETURN_IF_FAILED(loom__map_measure(context, config, &memory));
        if (memory.table_bytes <= config->memory_limit)
            return LOOM_OK;
        if (memory.table_bytes < least) {
            least = memory.table_bytes;
            least_at = config->max_load;
        }
    }
    return loom__fail(
        LOOM_OUT_OF_MEMORY,
        "a table for %llu keys takes %llu bytes at load %g, and memory_limit is %llu; raise that, or make "
        "the table for fewer keys%s",
        (unsigned long long)config->capacity, (unsigned long long)least, least_at,
        (unsigned long long)config->memory_limit, load_is_open ? "" : ", or leave max_load open");
}

/* ---- existing tables ---- */

/* The memory of the table with other room. */
static loom_status measure_resized(const loom_map *map, loom__room room, loom_memory *memory)
{
    const loom_map_config config = loom__map_table_config(map->handle.table, room);
    *memory = (loom_memory)LOOM_MEMORY_INIT;
    return loom__map_measure(map->handle.context, &config, memory);
}

static int fits(const loom_map *map, loom__room room)
{
    loom_memory memory;
    return measure_resized(map, room, &memory) == LOOM_OK && memory.table_bytes <= map->memory_limit;
}

loom_status loom__map_check_limit(const loom_map *map, loom__room room)
{
    loom_memory memory;
    if (map->memory_limit == 0)
        return LOOM_OK;
    RETURN_IF_FAILED(measure_resized(map, room, &memory));
    RETURN_ERROR_IF(memory.table_bytes > map->memory_limit, LOOM_OUT_OF_MEMORY,
                    "with room for %llu keys%s the table would take %llu bytes, more than its memory_limit, %llu",
                    (unsigned long long)room.capacity, room.values > 0 ? " and their values" : "",
                    (unsigned long long)memory.table_bytes, (unsigned long long)map->memory_limit);
    return LOOM_OK;
}

int loom__map_is_smaller(const loom_map *map, loom__room room)
{
    const uint64_t now = loom__handle_bytes(&map->handle) + loom__table_host_bytes(map->handle.table);
    loom_memory then;
    return measure_resized(map, room, &then) != LOOM_OK || then.table_bytes + then.host_bytes < now;
}

int loom__map_is_limited(const loom_map *map)
{
    return map->memory_limit != 0 && map->limited_at == map->handle.table->is.capacity;
}

/* Raises *number, a field of *room, to the largest number up to `most` with which the table is within its limit, as
 * precisely as one in 256. */
static void raise_within_limit(const loom_map *map, uint64_t most, loom__room *room, uint64_t *number)
{
    uint64_t from = *number, to = most;
    const uint64_t precision = from / 256 + 1;
    while (to - from > precision) {
        *number = from + (to - from) / 2;
        if (fits(map, *room))
            from = *number;
        else
            to = *number;
    }
    *number = from;
}

loom_status loom__map_limit_growth(loom_map *map, uint64_t least, uint64_t *capacity)
{
    loom__room room = loom__map_table_room(map->handle.table);
    const uint64_t now = room.capacity;
    if (map->memory_limit == 0)
        return LOOM_OK;
    if (!loom__map_is_limited(map)) {
        if (fits(map, (loom__room){*capacity, room.values}))
            return LOOM_OK;
        raise_within_limit(map, *capacity, &room, &room.capacity);
    }
    if (room.capacity < least) {
        map->limited_at = now;
        return loom__fail(LOOM_OUT_OF_MEMORY,
                          "the table cannot grow within its memory_limit, %llu bytes (loom_map_set_memory_limit)",
                          (unsigned long long)map->memory_limit);
    }
    *capacity = room.capacity;
    return LOOM_OK;
}

void loom__map_limit_values(const loom_map *map, uint64_t enough, loom__room *room)
{
    const uint64_t wanted = room->values, now = loom__map_table_room(map->handle.table).values;
    if (map->memory_limit == 0 || fits(map, *room))
        return;
    room->values = enough;
    if (enough < wanted && fits(map, *room))
        return;
    room->values = now;
    if (wanted > now)
        raise_within_limit(map, wanted, room, &room->values);
}

loom_status loom_map_set_memory_limit(loom_map *map, uint64_t memory_limit)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    loom__gate_enter(&map->handle.gate, 1);
    const uint64_t bytes = loom__handle_bytes(&map->handle);
    const int enough = memory_limit == 0 || bytes <= memory_limit;
    if (enough) {
        map->memory_limit = memory_limit;
        map->limited_at = UINT64_MAX;
    }
    loom__gate_leave(&map->handle.gate, 1);
    RETURN_ERROR_IF(!enough, LOOM_OUT_OF_MEMORY,
                    "memory_limit = %llu: the table takes %llu bytes already; make it smaller before "
                    "(loom_map_shrink), or allow as many",
                    (unsigned long long)memory_limit, (unsigned long long)bytes);
    return LOOM_OK;
}
