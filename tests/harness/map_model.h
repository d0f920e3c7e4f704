/* A table with a reference beside it: each call is made on both, and every status, count and value is compared. */
#ifndef LOOM_TESTS_MAP_MODEL_H
#define LOOM_TESTS_MAP_MODEL_H

#include "map_fixture.h"
#include "reference_map.h"

/* A batch from a small universe of keys: keys repeat in the table and within the batch. */
batch random_batch(test_run *t, uint64_t universe, uint64_t longest);

typedef struct model {
    test_run *t;
    loom_map *map;
    reference_map *reference;
    uint64_t capacity;
    uint32_t key_bytes;
    uint32_t value_bytes;
} model;

model make_model(test_run *t, loom_map *map, uint64_t capacity);
void free_model(model *m); /* the reference; the map stays */

/* These call the table and the reference, and compare every status and value. */
loom_result model_insert(model *m, batch *b, uint32_t flags);
loom_result model_build(model *m, batch *b, uint32_t flags);
void model_find_or_insert(model *m, batch *b);
void model_update(model *m, batch *b);
void model_accumulate(model *m, batch *b, loom_combine combine, int is_signed); /* of integers */
/* The same of integers of 4 bytes, which become values of 8; LOOM_COMBINE_ADD_AND_COUNT, too. */
void model_accumulate_narrow(model *m, batch *b, loom_combine combine, int is_signed);
void model_count(model *m, batch *b); /* the batch's values become ones */
void model_find(model *m, const batch *keys);
/* The same without statuses: this value of absent keys tells. */
void model_find_or(model *m, const batch *keys, uint64_t absent);
void model_erase(model *m, batch *b);
/* loom_map_apply in order, with random operations. The table must have room for all keys. */
void model_apply(model *m, batch *b);
/* Of every kind of number that the values may be; NULL: no bound. */
loom_result model_erase_if(model *m, loom_number number, const uint64_t *least, const uint64_t *most);
/* Draws the number, and a range that some of the values of the table lie in. */
void model_erase_if_random(model *m);
void model_clear(model *m);
/* Replaces the map by a clone of itself. */
void model_clone(model *m);
void model_save_and_load(model *m, loom_context *context);
/* Size, verify, and all pairs by retrieve_all. */
void model_compare(model *m);
/* All pairs by a cursor with chunks of `room`. */
void model_compare_cursor(model *m, uint64_t room);

#endif
