/* Room made in full buckets (perfect_room.h), by a thread that owns the partition. */
#define LOOM_LANES_HEADER "machines/cpu/cpu_lanes_scalar.h"
#include "core/memory.h"
#include "engines/perfect/perfect_room.h"
#include "machines/cpu/cpu_perfect.h"

#include <string.h>

_Static_assert(sizeof(perfect_desk) <= sizeof((loom__cpu_perfect_desk *)0)->memory, "a desk has room for one of ours");

void loom__cpu_perfect_desk_open(loom__cpu_perfect_desk *desk, const loom_allocator *allocator,
                                 const loom__perfect_view *view)
{
    memset(desk->memory, 0, sizeof(perfect_desk));
    memset(desk->shift, 0, perfect_buckets(view->subrange) * sizeof *desk->shift);
    ((perfect_desk *)desk->memory)->shift = desk->shift;
    desk->allocator = allocator;
    desk->spare_bytes = view->partition_bytes + view->words * (uint64_t)8;
}

void loom__cpu_perfect_desk_close(loom__cpu_perfect_desk *desk)
{
    loom__release(desk->allocator, ((perfect_desk *)desk->memory)->spare, desk->spare_bytes, LOOM_MEMORY_HOST, NULL);
}

LOOM_LANE int make_room(loom__slot_kind kind, const loom__perfect_view *view, loom__cpu_perfect_desk *given,
                        uint64_t key)
{
    perfect_desk *desk = (perfect_desk *)given->memory;
    const lane_team team = {0};
    const lane_group alone = {0};
    perfect_owner owner = perfect_own(view, perfect_start(kind, view, key).partition_index, team, alone, 0);
    if (perfect_make_room(kind, view, &owner, desk, key))
        return 1;
    /* Straight from the allocator: that there is no memory is no error. The key is refused then, as if it could not help. */
    if (desk->spare == NULL && view->marks[owner.partition_index] != PERFECT_EXHAUSTED)
        desk->spare =
            given->allocator->allocate(given->allocator->user, given->spare_bytes, LOOM__LINE, LOOM_MEMORY_HOST, NULL);
    return perfect_make_room_anew(kind, view, &owner, desk, key);
}

int loom__cpu_perfect_make_room(const loom__perfect_view *view, loom__cpu_perfect_desk *desk, uint64_t key)
{
    int room = 0;
#define CALL(kind) room = make_room(kind, view, desk, key)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return room;
}
