/* The steps of the tour about whole tables: copies and files. */
#define _POSIX_C_SOURCE 200809L
#include "bench_timer.h"
#include "tour.h"

#include <stdio.h>
#include <unistd.h>

/* The copy is equal, and changes of the copy do not show in the original. */
static void step_clone(tour *t)
{
    loom_map *clone;
    const uint64_t few = t->n < 1000 ? t->n : 1000;
    const double begun = bench_seconds();
    const loom_status status = loom_map_clone(t->map, &clone, NULL);
    tour_took(t, begun, tour_expected_size(t));
    if (!tour_did(t, status, "clone"))
        return;
    tour_check_table(t, clone);
    tour_fill(t, 0, few, 0);
    tour_did(t, loom_map_erase(clone, t->keys, few, NULL, NULL, NULL), "erase");
    loom_map_destroy(clone);
    tour_check_table(t, t->map);
}

static void file_path(const tour *t, char path[512])
{
    snprintf(path, 512, "%s/table_%u_%u.loom", t->directory, (unsigned)t->key_bytes, (unsigned)t->value_bytes);
}

static void step_save(tour *t)
{
    char path[512];
    file_path(t, path);
    const double begun = bench_seconds();
    const loom_status status = loom_map_save(t->map, path, NULL);
    tour_took(t, begun, tour_expected_size(t));
    t->answers++;
    tour_did(t, status, "save");
}

static void step_load(tour *t)
{
    loom_map *loaded;
    char path[512];
    file_path(t, path);
    const double begun = bench_seconds();
    const loom_status status = loom_map_load(t->context, path, &loaded, NULL);
    tour_took(t, begun, tour_expected_size(t));
    unlink(path);
    if (!tour_did(t, status, "load"))
        return;
    tour_check_table(t, loaded);
    loom_map_destroy(loaded);
}

const tour_step tour_whole_steps[] = {
    {.name = "clone", .run = step_clone, .needs = LOOM_FEATURE_CLONE},
    {.name = "save", .run = step_save, .needs = LOOM_FEATURE_SAVE},
    {.name = "load", .run = step_load, .needs = LOOM_FEATURE_SAVE},
    {0},
};
