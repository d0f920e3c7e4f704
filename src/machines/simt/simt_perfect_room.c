#define LOOM_LANES_HEADER "machines/simt/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_room
#endif
#include "machines/simt/simt_perfect.h"

#include "engines/perfect/perfect_recode.h"

/* One group tries; all are told. */
static perfect_outcome insert(loom__slot_kind kind, const simt_perfect_call *call, const perfect_owner *owner,
                              const simt_map_item *item)
{
    if (perfect_group(owner) == 0) {
        perfect_seek seek = perfect_seek_key(kind, &call->view, item->key);
        uint64_t value = item->value;
        perfect_outcome own =
            perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, owner->shared, owner->alone, &call->view, &seek, &value);
        if (lane_leads(owner->alone))
            lane_team_store_4(&call->desk->room, own);
    }
    lane_team_wait(owner->team);
    perfect_outcome outcome = (perfect_outcome)lane_team_load_4(&call->desk->room);
    lane_team_wait(owner->team);
    return outcome;
}

static int make_room(loom__slot_kind kind, const simt_perfect_call *call, perfect_owner *owner, uint64_t key)
{
    const loom__perfect_view *view = &call->view;
    int room = 0;
    if (call->plans)
        room = call->tries > 0 ? perfect_move_cells(kind, view, owner, call->desk, key, call->most_moves, call->tries)
                               : perfect_make_room(kind, view, owner, call->desk, key);
    return room || (call->anew && perfect_make_room_anew(kind, view, owner, call->desk, key));
}

static uint32_t status_of(perfect_outcome outcome)
{
    return outcome == PERFECT_DONE ? LOOM_OK : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS : LOOM_FULL;
}

/* Keys `first` .. `end` - 1 at once, as far as their own cells' codes help (perfect_recode.h). Others of the same cell, and those that do
 * not go together, are left. */
static void recode(loom__slot_kind kind, const simt_perfect_call *call, const perfect_owner *owner, uint32_t first,
                   uint32_t end, perfect_outcome *outcomes)
{
    const uint32_t rank = lane_team_rank(owner->team), size = lane_team_size(owner->team);
    uint32_t asked[PERFECT_MOST_RECODED], count = 0;
    for (uint32_t i = first; i < end; i++) {
        outcomes[i] = insert(kind, call, owner, &call->items[i]);
        if (outcomes[i] != PERFECT_OVERFLOW)
            continue;
        if (rank == 0)
            lane_team_store(&call->desk->keys[count], call->items[i].key);
        asked[count++] = i;
    }
    lane_team_wait(owner->team);
    perfect_recode(kind, &call->view, owner, call->desk, count);
    for (uint32_t i = rank; i < count; i += size) {
        const simt_map_item *item = &call->items[asked[i]];
        const perfect_seek seek = perfect_seek_key(kind, &call->view, item->key);
        if (perfect_is_recoded(call->desk, i) && !perfect_store(kind, owner->shared, &call->view, &seek, item->value))
            simt_fail("room was made for item %u, but not enough", asked[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        if (perfect_is_recoded(call->desk, i))
            outcomes[asked[i]] = PERFECT_DONE;
    lane_team_wait(owner->team);
}

/* All keys, half of them at a time; then room is made for those that are left. */
static void recode_all(loom__slot_kind kind, const simt_perfect_call *call, perfect_owner *owner)
{
    perfect_outcome outcomes[2 * PERFECT_MOST_RECODED];
    recode(kind, call, owner, 0, (call->n + 1) / 2, outcomes);
    recode(kind, call, owner, (call->n + 1) / 2, call->n, outcomes);
    for (uint32_t i = 0; i < call->n; i++) {
        const simt_map_item *item = &call->items[i];
        if (outcomes[i] == PERFECT_OVERFLOW)
            outcomes[i] = insert(kind, call, owner, item);
        if (outcomes[i] == PERFECT_OVERFLOW && make_room(kind, call, owner, item->key))
            outcomes[i] = insert(kind, call, owner, item);
    }
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0) {
        for (uint32_t i = 0; i < call->n; i++)
            call->items[i].status = status_of(outcomes[i]);
        call->at_rest(UINT32_MAX);
    }
    lane_team_wait(owner->team);
}

/* One key after the other, by all lanes of the call, as a block does that owns the partition; or all at once. The kind is no literal
 * here: one copy of what is long, instead of six. */
void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
    const loom__slot_kind kind = (loom__slot_kind)call->view.kind;
    lane_team team = lane_own_team();
    lane_group alone = lane_own_group();
    if (simt.config.turn_together)
        simt_fail("in a team every group turns by itself");
    perfect_owner owner = perfect_own(&call->view, 0, team, alone, 1);
    if (call->op == SIMT_MAP_RECODE) {
        recode_all(kind, call, &owner);
        return;
    }
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
        lane_team_wait(team); /* all lanes have done what they do for this key, and it is visible */
        if (lane_team_rank(team) == 0) {
            item->status = status_of(outcome);
            call->at_rest(i);
        }
        lane_team_wait(team);
    }
}
