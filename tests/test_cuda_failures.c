/* Failures of a CUDA device and of its memory: every call reports them, and none hangs or aborts. */
#include "harness/cuda_arrays.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(test_cuda_out_of_memory_leaves_all_usable)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL, *small = map_of(context, 4, 4, 1000, 0);
    config.key_bytes = config.value_bytes = 8;
    config.capacity = UINT64_C(100000000000);
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
    batch b = make_batch_of(4, 4, 1000);
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(small, &b, LOOM_KEEP).ok, 1000);
    check_contents(small, &b);
    free_batch(&b);
    loom_map_destroy(small);
    loom_context_destroy(context);
}

static int count_visited(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)keys, (void)values;
    *(uint64_t *)user += n;
    return 0;
}

/* The calls on a table while the device fails. The calls before `LOST_COUNT` leave the inserted keys in the table. */
enum {
    LOST_CREATE,
    LOST_INSERT,
    LOST_FIND,
    LOST_HASH,
    LOST_SIZE,
    LOST_UPDATE,
    LOST_FIND_OR_INSERT,
    LOST_ACCUMULATE,
    LOST_INSERT_IN_ORDER,
    LOST_FOR_EACH,
    LOST_VIEW_FIND,
    LOST_VIEW_FIND_END,
    LOST_VIEW,
    LOST_VIEW_AGAIN,
    LOST_VIEW_END,
    LOST_VIEW_AGAIN_END,
    LOST_SAVE,
    LOST_CLONE,
    LOST_VERIFY,
    LOST_COUNT,
    LOST_BUILD_IN_ORDER,
    LOST_ERASE_IF,
    LOST_APPLY,
    LOST_APPLY_IN_ORDER,
    LOST_ERASE,
    LOST_CALLS
};

typedef struct lost_run {
    loom_map *map, *clone;
    loom_map_view found, views[2];
    loom_status statuses[LOST_CALLS];
    uint64_t size, visited;
} lost_run;

static loom_status make_lost_call(loom_context *context, lost_run *run, int call, batch *b, batch *got,
                                  const char *path)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = run->map;
    loom_result result;
    config.key_bytes = b->key_bytes;
    config.value_bytes = b->value_bytes;
    config.capacity = b->n;
    if (call != LOST_CREATE && map == NULL)
        return LOOM_DEVICE;
    switch (call) {
    case LOST_CREATE:
        return loom_map_create(context, &config, &run->map);
    case LOST_INSERT:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_KEEP, b->status, &result, NULL);
    case LOST_FIND:
        return loom_map_find(map, b->keys, b->n, got->values, NULL, got->status, NULL, NULL);
    case LOST_HASH:
        return loom_hash(context, b->keys, b->key_bytes, b->n, 1, got->values, NULL);
    case LOST_SIZE:
        return loom_map_size(map, &run->size, NULL);
    case LOST_UPDATE:
        return loom_map_update(map, b->keys, b->values, b->n, got->status, &result, NULL);
    case LOST_FIND_OR_INSERT:
        return loom_map_find_or_insert(map, b->keys, b->values, b->n, got->values, got->status, NULL, NULL);
    case LOST_ACCUMULATE: /* the maximum of two equal numbers: values stay */
        return loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_MAX, LOOM_NUMBER_U64, got->status, NULL,
                                   NULL);
    case LOST_INSERT_IN_ORDER:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_OVERWRITE | LOOM_IN_ORDER, got->status, NULL, NULL);
    case LOST_FOR_EACH:
        return loom_map_for_each(map, count_visited, &run->visited, NULL, NULL);
    /* If view_begin failed, there is no view to end: the step counts as LOOM_DEVICE. */
    case LOST_VIEW_FIND:
        return loom_map_view_begin(map, LOOM_VIEW_FIND, &run->found, NULL);
    case LOST_VIEW_FIND_END:
        return run->statuses[LOST_VIEW_FIND] ? LOOM_DEVICE : loom_map_view_end(map, &run->found, NULL);
    case LOST_VIEW:
    case LOST_VIEW_AGAIN:
        return loom_map_view_begin(map, LOOM_VIEW_MIXED, &run->views[call - LOST_VIEW], NULL);
    case LOST_VIEW_END:
    case LOST_VIEW_AGAIN_END:
        return run->statuses[call - 2] ? LOOM_DEVICE : loom_map_view_end(map, &run->views[call - LOST_VIEW_END], NULL);
    case LOST_SAVE:
        return loom_map_save(map, path, NULL);
    case LOST_CLONE:
        return loom_map_clone(map, &run->clone, NULL);
    case LOST_VERIFY:
        return loom_map_verify(map, NULL);
    case LOST_COUNT:
        return loom_map_count(map, b->keys, b->n, NULL, &result, NULL);
    case LOST_BUILD_IN_ORDER:
        return loom_map_build(map, b->keys, b->values, b->n, LOOM_IN_ORDER, got->status, &result, NULL);
    case LOST_ERASE_IF:
        return loom_map_erase_if(map, LOOM_NUMBER_U64, &(uint64_t){1}, &(uint64_t){0}, &result, NULL);
    case LOST_APPLY:
    case LOST_APPLY_IN_ORDER:
        for (uint64_t i = 0; i < b->n; i++)
            got->status[i] = i % 2 ? LOOM_APPLY_FIND : LOOM_APPLY_INSERT;
        return loom_map_apply(map, got->status, b->keys, b->values, b->n, call == LOST_APPLY ? 0 : LOOM_IN_ORDER,
                              got->values, b->status, &result, NULL);
    default:
        return loom_map_erase(map, b->keys, b->n, NULL, NULL, NULL);
    }
}

static const struct {
    int begun, ended;
} lost_views[] = {
    {LOST_VIEW_FIND, LOST_VIEW_FIND_END}, {LOST_VIEW, LOST_VIEW_END}, {LOST_VIEW_AGAIN, LOST_VIEW_AGAIN_END}};
enum { LOST_VIEWS = sizeof lost_views / sizeof lost_views[0] };

static int is_out(const lost_run *run, int view)
{
    return run->statuses[lost_views[view].begun] == LOOM_OK && run->statuses[lost_views[view].ended] != LOOM_OK;
}

/* Ends the views whose end failed while the device was lost. Until then they are still out. */
static void end_lost_views(lost_run *run)
{
    const loom_map_view *views[LOST_VIEWS] = {&run->found, &run->views[0], &run->views[1]};
    for (int i = 0; i < LOST_VIEWS; i++) {
        if (run->statuses[lost_views[i].begun] != LOOM_OK)
            continue;
        if (is_out(run, i)) {
            CHECK_REFUSED(loom_map_clear(run->map, NULL, NULL), LOOM_IN_USE);
            CHECK_OK(loom_map_view_end(run->map, views[i], NULL));
        }
        CHECK_REFUSED(loom_map_view_end(run->map, views[i], NULL), LOOM_INVALID_ARGUMENT);
    }
}

/* The device is lost at the first step, the second, the third, and so on. Every call reports the loss, and none hangs
 * or crashes. When the device works again, the table holds the stored keys. */
TEST(test_cuda_lost_device_at_every_step, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 3000;
    batch b = make_batch_of(4, 8, n), got = make_batch_of(4, 8, n);
    fill_distinct(&b, 1, 0);
    int finished = 0;
    for (uint64_t steps = 1; !finished; steps++) {
        CHECK_LT(steps, 2000);
        lost_run run;
        memset(&run, 0, sizeof run);
        const char *path = test_path(t, "table");
        cuda_lose_device(steps);
        int lost = 0;
        for (int i = 0; i < LOST_CALLS; i++) {
            test_note("lost at step %llu, call %d", (unsigned long long)steps, i);
            loom_status status = run.statuses[i] = make_lost_call(context, &run, i, &b, &got, path);
            CHECK(status == LOOM_OK || status == LOOM_DEVICE);
            CHECK(!lost || status == LOOM_DEVICE); /* once lost, it stays so */
            lost |= status != LOOM_OK;
        }
        finished = !lost;
        cuda_lose_device(0);
        test_note("lost at step %llu", (unsigned long long)steps);
        if (run.statuses[LOST_FOR_EACH] == LOOM_OK)
            CHECK_EQ(run.visited, n);
        int out = 0;
        for (int i = 0; i < LOST_VIEWS; i++)
            out |= is_out(&run, i);
        if (!out || steps % 2 == 0) { /* in odd rounds the table is destroyed with views out */
            end_lost_views(&run);
            if (run.statuses[LOST_INSERT] == LOOM_OK && run.statuses[LOST_VERIFY] != LOOM_OK)
                check_contents(run.map, &b);
        }
        loom_map_destroy(run.clone);
        loom_map_destroy(run.map);
    }
    free_batch(&b);
    free_batch(&got);
    loom_context_destroy(context);
}

/* After a user's kernel has failed, the device is unusable. Every call reports an error, and none aborts. A fault ends
 * all processes that share a GPU through NVIDIA's MPS, so this one does without: it finds no daemon in its directory. */
TEST(test_cuda_faulty_kernel_is_told)
{
    CHECK_EQ(setenv("CUDA_MPS_PIPE_DIRECTORY", t->directory, 1), 0);
    need_cuda();
    loom_context *context = cuda_context_create(t, 0), *another = NULL;
    loom_map *map = map_of(context, 4, 4, 1000, 0), *lent = map_of(context, 4, 4, 1000, 0), *clone = NULL;
    loom_map_view view, none;
    batch b = make_batch_of(4, 4, 1000);
    uint64_t size;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = LOOM_MACHINE_CUDA;
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 1000);
    CHECK_OK(loom_map_view_begin(lent, LOOM_VIEW_INSERT, &view, NULL));
    cuda_run_faulty_kernel();
    CHECK_REFUSED(loom_map_find(map, b.keys, 1000, b.values, NULL, b.status, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_hash(context, b.keys, 4, 1, 1, &size, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_size(map, &size, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, 1000, LOOM_KEEP, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, 1000, LOOM_IN_ORDER, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_build(map, b.keys, b.values, 1000, LOOM_IN_ORDER, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_erase(map, b.keys, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_erase_if(map, LOOM_NUMBER_U32, NULL, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_apply(map, b.status, b.keys, b.values, 1000, 0, NULL, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_apply(map, b.status, b.keys, b.values, 1000, LOOM_IN_ORDER, NULL, NULL, NULL, NULL),
                  LOOM_DEVICE);
    CHECK_REFUSED(loom_map_update(map, b.keys, b.values, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_find_or_insert(map, b.keys, b.values, 1000, NULL, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_accumulate(map, b.keys, b.values, 1000, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, NULL, NULL, NULL),
                  LOOM_DEVICE);
    CHECK_REFUSED(loom_map_count(map, b.keys, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_for_each(map, count_visited, &size, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_INSERT, &none, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_view_end(lent, &view, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_save(map, test_path(t, "table"), NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_clone(map, &clone, NULL), LOOM_DEVICE);
    CHECK(loom_context_create(&config, &another) != LOOM_OK);
    CHECK_EQ(test_count_entries(t->directory), 0); /* no half-written file either */
    free_batch(&b);
    loom_map_destroy(map);
    loom_map_destroy(lent); /* its view never comes back */
    loom_context_destroy(context);
}

TEST(test_cuda_forked_child_is_told)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_map *map = map_of(context, 4, 4, 1000, 0);
    uint64_t size;
    pid_t child = fork();
    if (child == 0) {
        int right = loom_map_size(map, &size, NULL) == LOOM_DEVICE && strstr(loom_last_error(), "fork") != NULL;
        _exit(right ? 42 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK_OK(loom_map_size(map, &size, NULL));
    loom_map_destroy(map);
    loom_context_destroy(context);
}
