/* Shared by the tests of maps: contexts and tables that follow from the seed, batches of keys of any width, and calls
 * that check what must hold for every call. */
#ifndef LOOM_TESTS_MAP_FIXTURE_H
#define LOOM_TESTS_MAP_FIXTURE_H

#include "harness.h"

/* ---- Contexts and tables ------------------------------------------------------------------------------ */

/* A context for the machine and SIMD kind under test, with a seed from t->random and 1 to 4 threads. */
loom_context *make_context(test_run *t);
loom_context *make_context_with(test_run *t, uint32_t threads, uint64_t seed);
/* A config for tables of the widths under test that do not grow: most tests check what a table refuses. */
loom_map_config make_config(const test_run *t, uint64_t capacity);
loom_map *make_map(test_run *t, loom_context *context, uint64_t capacity);
loom_map *make_map_from(loom_context *context, const loom_map_config *config);

uint64_t map_size(loom_map *map);
loom_stats map_stats(loom_map *map);

/* ---- Batches ------------------------------------------------------------------------------------------ */

/* Arrays of exactly n elements of the widths under test. Keys and values are read and written as uint64_t and cut to
 * their width. A batch for sets (value_bytes = 0) has values = NULL: its values read as 0, and writing one does
 * nothing. Code for maps then works for sets, too. */
typedef struct batch {
    uint64_t n;
    uint32_t key_bytes;
    uint32_t value_bytes;
    void *keys;
    void *values;
    uint8_t *status;
    uint8_t *found;
} batch;

batch make_batch(const test_run *t, uint64_t n);
batch make_batch_of(uint32_t key_bytes, uint32_t value_bytes, uint64_t n);
void free_batch(batch *b);
batch copy_batch(const batch *b);

uint64_t get_word(const void *array, uint32_t bytes, uint64_t i);
void set_word(void *array, uint32_t bytes, uint64_t i, uint64_t word);
/* The word, cut to an element of this width. */
uint64_t cut_word(uint64_t word, uint32_t bytes);

uint64_t batch_key(const batch *b, uint64_t i);
uint64_t batch_value(const batch *b, uint64_t i);
void set_pair(batch *b, uint64_t i, uint64_t key, uint64_t value);
/* Fills the batch with different keys number first, first + 1, and so on, of the sequence that `salt` names: a
 * bijection of 64 or 32 bits, hence they look random. Values are value_for(key). */
void fill_distinct(batch *b, uint64_t salt, uint64_t first);
uint64_t distinct_key(uint32_t key_bytes, uint64_t salt, uint64_t i);
uint64_t value_for(uint64_t key, uint32_t value_bytes);

/* ---- Calls that check themselves ----------------------------------------------------------------------- */

/* Each of these makes the call with status array and result, checks that they agree with each other and with the
 * header, and returns the result. */
loom_result checked_insert(loom_map *map, batch *b, uint32_t flags);
loom_result checked_build(loom_map *map, batch *b, uint32_t flags);
loom_result checked_find(loom_map *map, batch *b); /* overwrites b->values */
loom_result checked_contains(loom_map *map, batch *b);
loom_result checked_find_or_insert(loom_map *map, batch *b, void *found);
loom_result checked_update(loom_map *map, batch *b);
loom_result checked_accumulate(loom_map *map, batch *b, loom_combine combine, loom_number number);
loom_result checked_count(loom_map *map, batch *b);
loom_result checked_erase(loom_map *map, batch *b);
loom_result checked_erase_if(loom_map *map, loom_number number, const void *least, const void *most);
void checked_verify(loom_map *map);
/* Every key of the batch is found with the batch's value. */
void check_all_found(loom_map *map, const batch *b);
void check_none_found(loom_map *map, const batch *b);
/* Checks in every way that the table holds exactly these pairs. The keys of the batch must differ. */
void check_contents(loom_map *map, const batch *b);
/* All pairs, in the order of retrieve_all. */
batch retrieve(loom_map *map, uint32_t key_bytes, uint32_t value_bytes);
void check_same_contents(loom_map *a, loom_map *b, uint32_t key_bytes, uint32_t value_bytes);

#endif
