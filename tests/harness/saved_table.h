/* A saved table in memory, to be damaged and loaded again. */
#ifndef LOOM_TESTS_SAVED_TABLE_H
#define LOOM_TESTS_SAVED_TABLE_H

#include "map_fixture.h"

/* Damaged copies are loaded from a file without a name, since there are thousands of them. */
typedef struct saved_table {
    loom_context *context;
    const char *path;
    unsigned char *file;
    size_t bytes;
    int nameless;
    char nameless_path[64];
} saved_table;

/* A table of the widths and the engine under test. */
saved_table saved_make(test_run *t, uint64_t capacity, uint64_t keys);
void saved_free(saved_table *s);

loom_status saved_try_load(saved_table *s, const unsigned char *file, size_t bytes);
/* Loads the file. The load must fail with one of these statuses and a sentence, or succeed if `wanted` is LOOM_OK. */
void saved_check_load(saved_table *s, const unsigned char *file, size_t bytes, loom_status wanted, loom_status or_else);

#endif
