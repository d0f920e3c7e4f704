#include "simt/sim_history.h"
#include "core/list_handle.h"

#include <string.h>

static uint64_t combined(const sim_operation *operation, uint64_t value)
{
    if (operation->value_bytes == 4)
        return loom__combine_4(operation->rule, (uint32_t)value, (uint32_t)operation->value);
    return loom__combine_8(operation->rule, value, operation->value);
}

/* Applies one operation to the state of its key. Returns 0 if the operation could not have given its answer. */
static int apply(const sim_operation *operation, sim_state *state)
{
    switch (operation->op) {
    case SIMT_MAP_FIND:
        if (operation->status == LOOM_OK)
            return state->present && state->value == operation->value;
        return operation->status == LOOM_NOT_FOUND && !state->present;
    case SIMT_MAP_ERASE:
    case SIMT_MAP_ERASE_IF:
        if (operation->status == LOOM_NOT_FOUND)
            return !state->present;
        if (operation->status != LOOM_OK || !state->present)
            return 0;
        if (operation->op == SIMT_MAP_ERASE_IF && state->value != operation->found)
            return 0; /* the condition was asked with a value that the key did not have */
        state->present = 0;
        return 1;
    case SIMT_MAP_UPDATE:
        if (operation->status == LOOM_NOT_FOUND)
            return !state->present;
        if (operation->status != LOOM_OK || !state->present)
            return 0;
        state->value = operation->value;
        return 1;
    case SIMT_MAP_FETCH:
        if (operation->status == LOOM_FULL)
            return !state->present && operation->found == 0;
        if (operation->status != (state->present ? LOOM_EXISTS : LOOM_OK))
            return 0;
        if (!state->present)
            *state = (sim_state){1, operation->value};
        return operation->found == state->value;
    case SIMT_MAP_RESERVE:
        if (operation->status == LOOM_FULL)
            return !state->present && operation->found == 0;
        if (operation->status != (state->present ? LOOM_EXISTS : LOOM_OK) ||
            operation->found != (state->present ? state->value : operation->value))
            return 0;
        *state = (sim_state){1, state->present ? list_reserve(state->value) : operation->value};
        return 1;
    case SIMT_MAP_COMBINE:
        if (operation->status == LOOM_FULL)
            return !state->present;
        if (operation->status != (state->present ? LOOM_EXISTS : LOOM_OK))
            return 0;
        *state = (sim_state){1, state->present ? combined(operation, state->value) : operation->value};
        return 1;
    case SIMT_MAP_KEEP:
    case SIMT_MAP_OVERWRITE:
    case SIMT_MAP_ROOM:
    case SIMT_MAP_RECODE:
    case SIMT_MAP_REPAIR:
        if (operation->status == LOOM_FULL)
            return !state->present;
        if (operation->status != (state->present ? LOOM_EXISTS : LOOM_OK))
            return 0;
        if (!state->present || operation->op == SIMT_MAP_OVERWRITE)
            *state = (sim_state){1, operation->value};
        return 1;
    case SIMT_MAP_UPKEEP: /* says nothing of any key */
    case SIMT_MAP_APPEND: /* these three: sim_chain.c */
    case SIMT_MAP_COUNT:
    case SIMT_MAP_FIND_ALL:
        break;
    }
    return 0;
}

typedef struct search {
    const sim_operation *operations;
    uint32_t count;
    sim_state after;
    /* Tried before without success: by the set of operations done and where the key's value comes from. */
    uint8_t tried[1 << SIM_MOST_OPERATIONS][(SIM_MOST_OPERATIONS + 2) / 8 + 1];
} search;

enum { FROM_NOWHERE = 0, FROM_BEFORE = 1, FROM_FIRST = 2 /* operation 0 */ };

static int may_be_next(const search *s, uint32_t done, uint32_t next)
{
    if (done >> next & 1)
        return 0;
    for (uint32_t other = 0; other < s->count; other++)
        if (!(done >> other & 1) && other != next && s->operations[other].ended < s->operations[next].began)
            return 0;
    return 1;
}

static int extend(search *s, uint32_t done, sim_state state, uint32_t from)
{
    if (done == ((uint32_t)1 << s->count) - 1)
        return state.present == s->after.present && (!state.present || state.value == s->after.value);
    uint8_t *tried = &s->tried[done][from / 8], bit = (uint8_t)(1 << from % 8);
    if (*tried & bit)
        return 0;
    *tried |= bit;
    for (uint32_t next = 0; next < s->count; next++) {
        sim_state then = state;
        if (!may_be_next(s, done, next) || !apply(&s->operations[next], &then))
            continue;
        uint32_t then_from = !then.present                                ? FROM_NOWHERE
                             : then.value == state.value && state.present ? from
                                                                          : FROM_FIRST + next;
        if (extend(s, done | (uint32_t)1 << next, then, then_from))
            return 1;
    }
    return 0;
}

int sim_history_possible(const sim_operation *operations, uint32_t count, sim_state before, sim_state after)
{
    static search s; /* large */
    s.operations = operations;
    s.count = count;
    s.after = after;
    memset(s.tried, 0, ((size_t)1 << count) * sizeof s.tried[0]);
    return extend(&s, 0, before, before.present ? FROM_BEFORE : FROM_NOWHERE);
}
