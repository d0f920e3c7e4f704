#include "reference_map.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { NEVER_USED = 0, IN_USE = 1, REMOVED = 2 };

struct reference_map {
    uint64_t places; /* a power of two */
    uint64_t size;   /* IN_USE */
    uint64_t taken;  /* IN_USE and REMOVED: at most half of the places, so every search meets a NEVER_USED one */
    uint64_t *keys;
    uint64_t *values;
    unsigned char *states;
};

static void make_places(reference_map *map, uint64_t places)
{
    map->places = places;
    map->size = map->taken = 0;
    map->keys = test_allocate(places * sizeof *map->keys);
    map->values = test_allocate(places * sizeof *map->values);
    map->states = test_allocate(places);
    memset(map->states, NEVER_USED, places);
}

static void free_places(reference_map *map)
{
    free(map->keys);
    free(map->values);
    free(map->states);
}

reference_map *reference_create(void)
{
    reference_map *map = test_allocate(sizeof *map);
    make_places(map, 16);
    return map;
}

void reference_destroy(reference_map *map)
{
    free_places(map);
    free(map);
}

/* The place of the key, or `places` if it is not there. */
static uint64_t place_of(const reference_map *map, uint64_t key)
{
    uint64_t place = mix_u64(key) & (map->places - 1);
    while (map->states[place] != NEVER_USED) {
        if (map->states[place] == IN_USE && map->keys[place] == key)
            return place;
        place = (place + 1) & (map->places - 1);
    }
    return map->places;
}

static void put_new(reference_map *map, uint64_t key, uint64_t value)
{
    uint64_t place = mix_u64(key) & (map->places - 1);
    while (map->states[place] != NEVER_USED)
        place = (place + 1) & (map->places - 1);
    map->keys[place] = key;
    map->values[place] = value;
    map->states[place] = IN_USE;
    map->size++;
    map->taken++;
}

static void move_to(reference_map *map, uint64_t places)
{
    reference_map old = *map;
    make_places(map, places);
    for (uint64_t i = 0; i < old.places; i++)
        if (old.states[i] == IN_USE)
            put_new(map, old.keys[i], old.values[i]);
    free_places(&old);
}

reference_map *reference_copy(const reference_map *map)
{
    reference_map *copy = test_allocate(sizeof *copy);
    make_places(copy, map->places);
    for (uint64_t i = 0; i < map->places; i++)
        if (map->states[i] == IN_USE)
            put_new(copy, map->keys[i], map->values[i]);
    return copy;
}

uint64_t reference_size(const reference_map *map)
{
    return map->size;
}

int reference_get(const reference_map *map, uint64_t key, uint64_t *value)
{
    uint64_t place = place_of(map, key);
    if (place == map->places)
        return 0;
    if (value)
        *value = map->values[place];
    return 1;
}

int reference_put(reference_map *map, uint64_t key, uint64_t value)
{
    uint64_t place = place_of(map, key);
    if (place != map->places) {
        map->values[place] = value;
        return 0;
    }
    if (map->taken + 1 > map->places / 2)
        move_to(map, map->size + 1 > map->places / 4 ? map->places * 2 : map->places);
    put_new(map, key, value);
    return 1;
}

int reference_remove(reference_map *map, uint64_t key)
{
    uint64_t place = place_of(map, key);
    if (place == map->places)
        return 0;
    map->states[place] = REMOVED;
    map->size--;
    return 1;
}

void reference_clear(reference_map *map)
{
    memset(map->states, NEVER_USED, map->places);
    map->size = map->taken = 0;
}

int reference_next(const reference_map *map, uint64_t *position, uint64_t *key, uint64_t *value)
{
    while (*position < map->places) {
        uint64_t place = (*position)++;
        if (map->states[place] == IN_USE) {
            *key = map->keys[place];
            *value = map->values[place];
            return 1;
        }
    }
    return 0;
}
