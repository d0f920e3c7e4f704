/* A multimap with a model beside it: an ordered list of values for each key. Each call is made on both, and every
 * status, count and value is compared. */
#ifndef LOOM_TESTS_MULTIMAP_MODEL_H
#define LOOM_TESTS_MULTIMAP_MODEL_H

#include "counting_allocator.h"
#include "map_fixture.h"
#include "number_range.h"
#include "reference_map.h"

typedef struct value_list {
    uint64_t key, count, room;
    uint64_t *values;
} value_list;

typedef struct multimap_model {
    test_run *t;
    loom_map *map;
    reference_map *places; /* from keys to their lists; a list stays when its key is erased, with no values */
    value_list *lists;
    uint64_t used, room; /* of lists */
    uint64_t size, distinct;
    uint64_t most;                /* values of a key; 0: no limit */
    int grows;                    /* the table refuses nothing for lack of room */
    int in_order;                 /* all insertions were in order: the lists are compared in order */
    counting_allocator *refusing; /* refuses a request of the next call, but none of the checks after it; or NULL */
    uint32_t key_bytes, value_bytes;
} multimap_model;

/* As make_context. Every machine must have multimaps of the engine under test. */
loom_context *make_multimap_context(test_run *t);
/* A config of the widths under test. The table does not grow. */
loom_map_config make_multimap_config(const test_run *t, uint64_t capacity, uint64_t values);
multimap_model make_multimap_model(test_run *t, loom_context *context, const loom_map_config *config);
void end_multimap_model(multimap_model *m); /* destroys the map, too */

uint64_t map_distinct(loom_map *map);
/* NULL: the key never had values. */
const value_list *multimap_list(const multimap_model *m, uint64_t key);

/* ---- Calls that write ---------------------------------------------------------------------------------- */

/* Exactly the rows with status FULL are absent afterwards. A table that grows refuses only rows beyond `most`. A build
 * refuses nothing if the table was made for as many keys and values. */
loom_result multimap_insert(multimap_model *m, batch *b, uint32_t flags);
loom_result multimap_build(multimap_model *m, batch *b, uint32_t flags);
/* The same without statuses and result, for tables that grow. Without `most`, or on machines that insert in order. */
void multimap_insert_bare(multimap_model *m, batch *b, uint32_t flags);
/* Without statuses, for tables with room for all values: the rows of a key are all stored or, if the table has no slot
 * for the key, all refused. */
loom_result multimap_insert_untold(multimap_model *m, batch *b, uint32_t flags);
loom_result multimap_erase(multimap_model *m, batch *b);
/* Of equal values of a key, the first one is erased. */
loom_result multimap_erase_pairs(multimap_model *m, batch *b);
loom_result multimap_erase_if(multimap_model *m, const number_range *range);
/* Whether values have 4 or 8 bytes. Otherwise erase_if refuses the call, which these check. The second one is for a
 * test without a table yet: if it returns 0, it has destroyed the context. */
int multimap_has_ranges(const multimap_model *m);
int multimap_form_has_ranges(test_run *t, loom_context *context);
/* The same where a call may fail: then the table is unchanged. Return the status of the call. */
loom_status multimap_try_insert(multimap_model *m, batch *b, uint32_t flags, loom_result *result);
loom_status multimap_try_build(multimap_model *m, batch *b, uint32_t flags, loom_result *result);
loom_status multimap_try_erase_pairs(multimap_model *m, batch *b, loom_result *result);
void multimap_clear(multimap_model *m);
/* Replaces the map by a clone of itself. */
void multimap_clone(multimap_model *m);
/* The file does not store growth; the loaded table gets that of the saved one. */
void multimap_save_and_load(multimap_model *m, loom_context *context);

/* ---- Calls that read ----------------------------------------------------------------------------------- */

/* find with and without an `absent`, contains, find_counts. */
void multimap_find(multimap_model *m, const batch *keys);
/* With exact room, more, too little and none. */
void multimap_find_all(multimap_model *m, const batch *keys, uint64_t limit);
/* Size, distinct keys, longest list, verify. */
void multimap_check_counts(multimap_model *m);
/* The counts, all pairs by retrieve_all, and the values of every key that the table ever had. */
void multimap_compare(multimap_model *m);
/* All pairs by a cursor with chunks of `room`. */
void multimap_compare_cursor(multimap_model *m, uint64_t room);
/* All pairs by loom_map_for_each. */
void multimap_compare_visits(multimap_model *m);

#endif
