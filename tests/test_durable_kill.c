/* Processes that write to a durable map are killed at any moment, by a real SIGKILL. */
#define _GNU_SOURCE 1
#include "harness/durable_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 500 };

/* Shared by the test and the processes that it kills. */
typedef struct progress {
    _Atomic uint64_t begun;    /* the last call that was begun */
    _Atomic uint64_t returned; /* the last one that returned */
} progress;

/* Call number i gives all keys the value i, with calls of many kinds. The table grows, and checkpoints come by
 * themselves, and by request. */
static void write_until_killed(loom_context *context, const char *path, progress *told)
{
    loom_map *map = durable_open(context, path, 1);
    for (uint64_t i = told->returned + 1;; i++) {
        uint64_t keys[KEYS], values[KEYS];
        for (uint64_t k = 0; k < KEYS; k++) {
            keys[k] = k;
            values[k] = i;
        }
        told->begun = i;
        const loom_status status = i % 7 == 3
                                       ? loom_map_build(map, keys, values, KEYS, LOOM_KEEP, NULL, NULL, NULL)
                                       : loom_map_insert(map, keys, values, KEYS, LOOM_OVERWRITE, NULL, NULL, NULL);
        if (status != LOOM_OK || (i % 11 == 5 && loom_map_checkpoint(map) != LOOM_OK))
            _exit(1);
        told->returned = i;
    }
}

/* All keys have one value: that of the last call that returned, or of the one that was under way. */
static void check_after_kill(loom_map *map, progress *told)
{
    uint64_t keys[KEYS + 1], values[KEYS + 1], count = 0;
    CHECK_OK(loom_map_retrieve_all(map, keys, values, KEYS + 1, &count, NULL, NULL));
    CHECK(count == KEYS || (count == 0 && told->returned == 0));
    for (uint64_t i = 1; i < count; i++)
        CHECK_EQ(values[i], values[0]);
    if (count > 0) {
        CHECK_GE(values[0], told->returned);
        CHECK_LE(values[0], told->begun);
        told->returned = told->begun = values[0];
    }
    CHECK_OK(loom_map_verify(map, NULL));
}

TEST(test_durable_killed_at_any_moment, .long_tier = 1, .alone = 1, .timeout_seconds = 300)
{
    loom_context *context = make_context_with(t, 1, 3);
    const char *path = test_path(t, "map");
    progress *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(told != MAP_FAILED);
    const uint64_t kills = test_scaled(t, 500, 20);
    for (uint64_t round = 0; round < kills; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            write_until_killed(context, path, told);
        /* Most are killed while they write, some while they recover or make the map. */
        const uint64_t most = round % 4 == 0 ? 1000 * 1000 : 30 * 1000 * 1000;
        struct timespec wait = {0, (long)random_below(&t->random, most)};
        nanosleep(&wait, NULL);
        CHECK_EQ(kill(child, SIGKILL), 0);
        int status = 0;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status));
        if (round % 3 == 2)
            continue; /* the next process recovers alone */
        loom_map *map = durable_open(context, path, 1);
        check_after_kill(map, told);
        loom_map_destroy(map);
    }
    loom_map *map = durable_open(context, path, 1);
    check_after_kill(map, told);
    fprintf(stderr, "%llu calls survived\n", (unsigned long long)told->returned);
    loom_map_destroy(map);
    munmap(told, sizeof *told);
    loom_context_destroy(context);
}
