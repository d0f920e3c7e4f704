/* What becomes of a list that gets more values: the same decision on every machine. Chains: chain_plan.h. */
#ifndef LOOM_MULTI_PLAN_H
#define LOOM_MULTI_PLAN_H

#include "engines/multi/multi_layout.h"

typedef struct loom__list_plan {
    uint64_t stored; /* values before the call */
    uint64_t wanted; /* values afterwards, if there is room */
    uint64_t moves;  /* values of the heap that the list takes elsewhere; 0: it stays */
    uint64_t before; /* values of a chain that do not lie there; otherwise 0 */
    uint64_t link;   /* values of the heap for the link of a chain; otherwise 0 */
    int exact;       /* without room behind them */
} loom__list_plan;

/* `wanted`: values with those of the batch. `tight`: no larger heap can be had, so lists get no room behind them. */
LOOM_BOTH loom__list_plan multi_plan_list(const loom__multi_view *view, uint64_t old, uint64_t wanted, int tight)
{
    loom__list_plan plan;
    plan.stored = list_count(old);
    plan.wanted = wanted;
    plan.moves = 0;
    plan.before = plan.link = 0;
    plan.exact = 0;
    if (plan.wanted > view->most)
        plan.wanted = plan.stored > view->most ? plan.stored : view->most;
    if (plan.stored == 0 && plan.wanted == 1 && multi_has_ones(view))
        return plan;
    if (plan.wanted > list_capacity(old, plan.stored))
        plan.moves = plan.stored == 0 || tight ? plan.wanted : list_class(plan.wanted);
    plan.exact = plan.stored == 0 || tight;
    return plan;
}

/* The kind of the place that a list takes, if it takes one. */
LOOM_BOTH loom__list_kind multi_place_kind(const loom__list_plan *plan)
{
    return list_kind_for(plan->before + plan->moves);
}

/* The fewest values of a place that gets a list more values than it has room for. */
LOOM_BOTH uint64_t multi_least_place(const loom__list_plan *plan)
{
    return (plan->stored > plan->before ? plan->stored - plan->before : 0) + 1;
}

/* The list gets a place of only `values` values. 0: it gets none. */
LOOM_BOTH void multi_cut_plan(loom__list_plan *plan, uint64_t values)
{
    plan->moves = values;
    plan->exact = 1;
    if (values > 0)
        plan->wanted = plan->before + values;
}

/* The handle of a list that takes a place. */
LOOM_BOTH uint64_t multi_placed_list(const loom__list_plan *plan, loom__list_kind kind, uint64_t place)
{
    return list_make(kind, place, plan->wanted, plan->exact) | (plan->link > 0 ? LIST_LINKED : 0);
}

/* The values that the list takes at the end of a packed heap, where all lists are exact. */
LOOM_BOTH uint64_t multi_needed_when_packed(const loom__list_plan *plan)
{
    if (plan->wanted == plan->stored)
        return 0;
    return plan->moves == 0 && plan->stored > 0 ? list_class(plan->wanted) : plan->moves;
}

/* The handle of a list that stays where it is, with as many values as there is room for. A new key keeps one value in
 * its handle if it can: `first`, the first of the batch. 0: it gets no value. */
LOOM_BOTH uint64_t multi_kept_list(const loom__multi_view *view, uint64_t old, const loom__list_plan *plan,
                                   uint64_t first)
{
    const uint64_t capacity = list_capacity(old, plan->stored);
    if (plan->stored > 0)
        return list_with_count(old, plan->wanted < capacity ? plan->wanted : capacity);
    return multi_has_ones(view) && plan->wanted > 0 ? list_of_one((uint32_t)first) : 0;
}

#endif
