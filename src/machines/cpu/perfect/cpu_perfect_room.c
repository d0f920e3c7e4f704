/* Makes room in full buckets (perfect_room.h), by a thread that owns the partition. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "core/memory.h"
#include "engines/perfect/perfect_room.h"
#include "machines/cpu/perfect/cpu_perfect.h"

#include <string.h>

_Static_assert(sizeof(perfect_scratch) + (PERFECT_SUBRANGES * PERFECT_MOST_SUBRANGE + 2) / 2 * sizeof(uint32_t) <=
                   sizeof((loom__cpu_perfect_scratch *)0)->memory,
               "the bytes hold a perfect_scratch");

void loom__cpu_perfect_scratch_open(loom__cpu_perfect_scratch *scratch, const loom_allocator *allocator,
                                    const loom__perfect_view *view, uint32_t first, uint32_t end)
{
    scratch->allocator = allocator;
    scratch->view = view;
    scratch->first = first;
    scratch->end = end;
    scratch->laid_out = scratch->short_of_memory = 0;
}

static perfect_scratch *lay_out(loom__cpu_perfect_scratch *scratch)
{
    perfect_scratch *own = (perfect_scratch *)scratch->memory;
    if (!scratch->laid_out) {
        memset(own, 0, perfect_scratch_bytes(scratch->view->subrange));
        scratch->laid_out = 1;
    }
    return own;
}

static uint64_t spare_bytes(const loom__perfect_view *view)
{
    return view->partition_bytes + view->words * (uint64_t)8;
}

void loom__cpu_perfect_scratch_close(loom__cpu_perfect_scratch *scratch)
{
    uint32_t *marks = scratch->view->marks;
    if (scratch->laid_out)
        loom__release(scratch->allocator, ((perfect_scratch *)scratch->memory)->spare, spare_bytes(scratch->view),
                      LOOM_MEMORY_HOST, NULL);
    if (scratch->short_of_memory)
        for (uint32_t i = scratch->first; i < scratch->end; i++)
            if (perfect_mark_in(marks[i]) == PERFECT_SHORT_OF_MEMORY)
                marks[i] = perfect_marked(marks[i], PERFECT_UNMARKED);
}

LOOM_LANE int make_room(loom__slot_kind kind, loom__cpu_perfect_scratch *given, uint64_t key)
{
    const loom__perfect_view *view = given->view;
    const lane_team team = {0};
    const lane_group alone = {0};
    perfect_owner owner = perfect_own(view, perfect_start(kind, view, key).partition_index, team, alone, 0);
    uint32_t *mark = &view->marks[owner.partition_index];
    if (perfect_mark_in(*mark) != PERFECT_UNMARKED)
        return 0;
    perfect_scratch *scratch = lay_out(given);
    if (perfect_make_room(kind, &owner, scratch, key))
        return 1;
    if (scratch->spare == NULL && perfect_may_reseed(kind, &owner, scratch)) {
        /* Calls the allocator directly, because lack of memory is no error here. Without memory this key is refused,
         * but not keys of later calls. */
        scratch->spare =
            given->allocator->allocate(given->allocator->user, spare_bytes(view), LOOM__LINE, LOOM_MEMORY_HOST, NULL);
        if (scratch->spare == NULL) {
            *mark = perfect_marked(perfect_rested(*mark), PERFECT_SHORT_OF_MEMORY);
            given->short_of_memory = 1;
            return 0;
        }
    }
    return perfect_make_room_anew(kind, &owner, scratch, key);
}

int loom__cpu_perfect_make_room(loom__cpu_perfect_scratch *scratch, uint64_t key)
{
    int room = 0;
#define CALL(kind) room = make_room(kind, scratch, key)
    SLOT_FOR_KIND(scratch->view->kind, CALL)
#undef CALL
    return room;
}
