/* Durable maps of tests: in the test's own directory, with the smallest journal. */
#ifndef LOOM_TESTS_DURABLE_FIXTURE_H
#define LOOM_TESTS_DURABLE_FIXTURE_H

#include "map_fixture.h"

enum { LEAST_JOURNAL = 65536 };

/* A durable config with the smallest journal. */
loom_durable_config durable_config(uint32_t commit_by_itself);

/* A map of 8-byte keys and values that grows. */
loom_map_config durable_map_config(void);

loom_map *durable_open(loom_context *context, const char *path, uint32_t commit_by_itself);
loom_durability durability_of(loom_map *map);

/* Stores a value for each key from `first` on. */
void put_keys(loom_map *map, uint64_t first, uint64_t n, uint64_t value);

/* The map holds exactly the keys 0 .. n - 1, all with this value. */
void check_keys(loom_map *map, uint64_t n, uint64_t value);

#endif
