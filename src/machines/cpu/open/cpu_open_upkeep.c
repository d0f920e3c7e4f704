/* Upkeep of partitions (open_upkeep.h). A team is one thread, which works on one partition at a time. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "core/memory.h"
#include "engines/open/open_upkeep.h"
#include "machines/cpu/open/cpu_open.h"

enum {
    LOOKED_AT = 64,     /* partitions that a thread draws at once */
    SHORT_LIST = 2048,  /* words on the stack; if a longer list cannot be allocated, more keys stay away from home */
    LONG_LIST = 1 << 21 /* words of a longer list, at most: rows may be wide */
};

typedef struct upkeep_work {
    const loom_allocator *allocator;
    const loom__open_view *view;
} upkeep_work;

static void look_at(void *argument, uint64_t index)
{
    const upkeep_work *work = argument;
    const loom__open_view *view = work->view;
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    uint64_t short_list[SHORT_LIST], *long_list = NULL;
    uint32_t away, words = open_list_words(kind, view), long_room = open_list_room(kind, view->buckets);
    long_room = long_room < LONG_LIST / words ? long_room : LONG_LIST / words;
    size_t long_bytes = (size_t)long_room * words * sizeof *long_list;
    open_scratch scratch = {short_list, SHORT_LIST / words, &away};
    lane_team team = {0};
    lane_group alone = {0};
    int tried = 0;
    for (uint64_t partition = index * LOOKED_AT; partition / LOOKED_AT == index && partition < view->partitions;
         partition++) {
        if (!open_is_worn(view, view->stale[partition]))
            continue;
        if (!tried++ && long_room > scratch.room) {
            long_list =
                work->allocator->allocate(work->allocator->user, long_bytes, LOOM__LINE, LOOM_MEMORY_HOST, NULL);
            if (long_list != NULL)
                scratch = (open_scratch){long_list, long_room, &away};
        }
#define CALL(kind) open_put_in_order(kind, OPEN_ALONE, view, (uint32_t)partition, 1, team, alone, &scratch)
        if (kind == SLOT_TAG)
            CALL(SLOT_TAG);
        else if (kind == SLOT_STRING)
            CALL(SLOT_STRING);
        else
            SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    }
    loom__release(work->allocator, long_list, long_bytes, LOOM_MEMORY_HOST, NULL);
}

loom_status loom__cpu_open_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)sweep; /* a CPU never retires keys */
    (void)stream;
    upkeep_work work = {&machine->allocator, view};
    uint64_t tasks = (view->partitions + LOOKED_AT - 1) / LOOKED_AT;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, tasks, look_at, &work);
    return LOOM_OK;
}
