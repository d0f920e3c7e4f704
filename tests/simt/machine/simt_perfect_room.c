#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_room
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_room.h"

/* One group tries, and tells all groups the outcome. */
static perfect_outcome insert(loom__slot_kind kind, const simt_perfect_call *call, const perfect_owner *owner,
                              const simt_map_item *item)
{
    if (perfect_group(owner) == 0) {
        perfect_seek seek = perfect_seek_key(kind, &call->view, item->key);
        uint64_t value = item->value;
        perfect_outcome own =
            perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, owner->shared, owner->alone, &call->view, &seek, &value);
        if (lane_leads(owner->alone))
            lane_team_store_4(&call->scratch->room, own);
    }
    lane_team_wait(owner->team);
    perfect_outcome outcome = (perfect_outcome)lane_team_load_4(&call->scratch->room);
    lane_team_wait(owner->team);
    return outcome;
}

static int make_room(loom__slot_kind kind, const simt_perfect_call *call, perfect_owner *owner, uint64_t key)
{
    int room = 0;
    if (call->plans && call->tries > 0) {
        room = perfect_move_cells(kind, owner, call->scratch, key, call->most_moves, call->most_moves * call->tries);
        perfect_tell_stashed(owner, call->scratch, room);
    } else if (call->plans) {
        room = perfect_make_room(kind, owner, call->scratch, key);
    }
    return room || (call->anew && perfect_make_room_anew(kind, owner, call->scratch, key));
}

/* All lanes of the call insert one key after the other, like the thread block that owns the partition. Here the
 * kind is not a literal: the long functions are compiled once instead of six times. */
void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
    const loom__slot_kind kind = (loom__slot_kind)call->view.kind;
    lane_team team = lane_own_team();
    lane_group alone = lane_own_group();
    if (simt.config.turn_together)
        simt_fail("in a team every group turns by itself");
    perfect_owner owner = perfect_own(&call->view, 0, team, alone, 1);
    for (uint32_t i = 0; i < call->n; i++) {
        simt_map_item *item = &call->items[i];
        simt.current->item = i;
        perfect_outcome outcome = insert(kind, call, &owner, item);
        if (outcome == PERFECT_OVERFLOW) {
            if (!make_room(kind, call, &owner, item->key))
                outcome = PERFECT_NO_ROOM;
            else if (insert(kind, call, &owner, item) != PERFECT_DONE)
                simt_fail("room was made for item %u, but not enough", i);
            else
                outcome = PERFECT_DONE;
        }
        lane_team_wait(team); /* all lanes are done with this key, and their stores are visible */
        if (lane_team_rank(team) == 0) {
            item->status = outcome == PERFECT_DONE ? LOOM_OK : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS : LOOM_FULL;
            call->at_rest(i);
        }
        lane_team_wait(team);
    }
}
