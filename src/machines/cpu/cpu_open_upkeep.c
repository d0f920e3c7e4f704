/* Partitions whose filters are worn put in order (open_upkeep.h): one thread to a partition. */
#define LOOM_LANES_HEADER "machines/cpu/cpu_lanes_scalar.h"
#include "engines/open/open_upkeep.h"
#include "machines/cpu/cpu_open.h"

enum {
    LOOKED_AT = 64, /* partitions that a thread draws at once */
    LIST = 4096     /* keys away from home, on the stack: a third of a partition of 1747 buckets of 7 */
};

static const lane_group whole_group;

LOOM_LANE void put_in_order(loom__open_kind kind, const loom__open_view *view, uint32_t partition)
{
    open_lifted list[LIST];
    uint32_t lifted = 0, stayed = 0;
    view->marks[partition] = OPEN_UNMARKED; /* slots will be free for a while */
    for (uint32_t number = 0; number < view->buckets; number++) {
        open_walk here = open_stand_at(kind, view, partition, number);
        uint32_t holders = 0;
        for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
            open_lies lies = open_tidy_slot(kind, view, &here, slot);
            if (lies == OPEN_LIES_AWAY && lifted < LIST) {
                list[lifted++] = open_lift_slot(kind, view, &here, slot);
                continue;
            }
            holders |= (uint32_t)(lies != OPEN_LIES_NOWHERE) << slot;
            stayed += lies == OPEN_LIES_AWAY;
        }
        open_wipe_word(kind, &here, holders);
    }
    for (uint32_t number = 0; stayed > 0 && number < view->buckets; number++) {
        open_walk here = open_stand_at(kind, view, partition, number);
        for (uint32_t slot = 0; slot < open_slots(kind); slot++)
            open_mark_slot(kind, OPEN_ALONE, view, &here, slot);
    }
    uint32_t still = 0;
    for (uint32_t i = 0; i < lifted; i++)
        if (!open_bring_home(kind, OPEN_ALONE, whole_group, view, &list[i]))
            list[still++] = list[i];
    for (uint32_t i = 0; i < still; i++)
        (void)open_put_back(kind, OPEN_ALONE, whole_group, view, &list[i]);
    view->stale[partition] = 0;
}

static void look_at(void *argument, uint64_t index)
{
    const loom__open_view *view = argument;
    uint64_t first = index * LOOKED_AT;
    for (uint64_t partition = first; partition < first + LOOKED_AT && partition < view->partitions; partition++)
        if (open_is_worn(view, view->stale[partition])) {
#define CALL(kind) put_in_order(kind, view, (uint32_t)partition)
            OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
        }
}

loom_status loom__cpu_open_upkeep(loom__machine *machine, const loom__open_view *view, int sweep, loom_stream stream)
{
    (void)sweep; /* no keys are retired on a CPU */
    (void)stream;
    loom__open_view copy = *view;
    uint64_t tasks = (view->partitions + LOOKED_AT - 1) / LOOKED_AT;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, tasks, look_at, &copy);
    return LOOM_OK;
}
