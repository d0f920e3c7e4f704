/* A plain map from 64-bit keys to 64-bit values, against which the tables are compared: linear probing over an array
 * with a state byte beside each pair. Slow, simple, and with nothing in common with the library. */
#ifndef LOOM_TESTS_REFERENCE_MAP_H
#define LOOM_TESTS_REFERENCE_MAP_H

#include <stdint.h>

typedef struct reference_map reference_map;

reference_map *reference_create(void);
void reference_destroy(reference_map *map);
reference_map *reference_copy(const reference_map *map);

uint64_t reference_size(const reference_map *map);
/* 1 if the key is there; *value, if not NULL, is then set. */
int reference_get(const reference_map *map, uint64_t key, uint64_t *value);
/* Sets the value; 1 if the key is new. */
int reference_put(reference_map *map, uint64_t key, uint64_t value);
/* 1 if the key was there. */
int reference_remove(reference_map *map, uint64_t key);
void reference_clear(reference_map *map);

/* All pairs: start with *position = 0; returns 0 after the last one. */
int reference_next(const reference_map *map, uint64_t *position, uint64_t *key, uint64_t *value);

#endif
