/* What becomes of a list of the chain engine that gets more values at once: the same decision on every machine. The
 * list's own room is filled first. The other values get one bucket. At the end: the decision for lists of either
 * engine. */
#ifndef LOOM_CHAIN_PLAN_H
#define LOOM_CHAIN_PLAN_H

#include "engines/chain/chain_layout.h"
#include "engines/multi/multi_plan.h"

/* The values of a bucket that is to hold `more` values, with `before` values before it. */
LOOM_BOTH uint64_t chain_values_for(const loom__multi_view *view, uint64_t before, uint64_t more)
{
    const uint64_t values = chain_bucket_values(view, before);
    return values > more ? values : more;
}

/* The room of a list, by its handle before the call. */
LOOM_BOTH uint64_t chain_room(const loom__multi_view *view, uint64_t old)
{
    if (!list_in_heap(old) || old & LIST_EXACT) /* needs no link */
        return list_count(old);
    return chain_capacity(view, old, list_newest_piece(view->heap, view->value_bytes, old).before);
}

/* As multi_plan_list: `moves` is the size of the new bucket. A list that has no bucket yet takes the value in its
 * handle along. `tight`: buckets get no room behind their values. */
LOOM_BOTH loom__list_plan chain_plan_list(const loom__multi_view *view, uint64_t old, uint64_t wanted, int tight)
{
    loom__list_plan plan;
    plan.stored = list_count(old);
    plan.wanted = wanted;
    plan.moves = plan.before = plan.link = 0;
    plan.exact = 0;
    if (plan.wanted > view->most)
        plan.wanted = plan.stored > view->most ? plan.stored : view->most;
    if (plan.stored == 0 && plan.wanted == 1 && multi_has_ones(view))
        return plan;
    const uint64_t room = chain_room(view, old);
    if (plan.wanted <= room)
        return plan;
    plan.before = list_in_heap(old) ? room : 0;
    plan.link = list_in_heap(old) ? list_link_values(view->value_bytes) : 0;
    plan.moves = plan.wanted - plan.before;
    if (!tight)
        plan.moves = chain_values_for(view, plan.before, plan.moves);
    plan.exact = plan.moves != chain_bucket_values(view, plan.before);
    return plan;
}

/* The values of the heap that the list takes behind a packed heap, where all lists are exact. */
LOOM_BOTH uint64_t chain_needed_when_packed(const loom__multi_view *view, uint64_t old, const loom__list_plan *plan)
{
    if (plan->wanted == plan->stored || (plan->stored == 0 && plan->moves == 0))
        return 0;
    const uint64_t before = list_in_heap(old) ? plan->stored : 0;
    const uint64_t values = chain_values_for(view, before, plan->wanted - before);
    return (before > 0 ? list_link_values(view->value_bytes) : 0) + values +
           (list_kind_for(before + values) == LIST_LARGE ? LIST_LARGE_UNIT : 0);
}

/* As multi_kept_list: the handle of a list that gets no bucket. */
LOOM_BOTH uint64_t chain_kept_list(const loom__multi_view *view, uint64_t old, const loom__list_plan *plan,
                                   uint64_t first)
{
    const uint64_t room = chain_room(view, old);
    if (plan->stored > 0)
        return list_with_count(old, plan->wanted < room ? plan->wanted : room);
    return multi_has_ones(view) && plan->wanted > 0 ? list_of_one((uint32_t)first) : 0;
}

/* The link in front of the bucket that a list gets. */
LOOM_BOTH uint64_t chain_link_of(uint64_t old, const loom__list_plan *plan)
{
    return list_link_make(list_is_linked(old), list_first(old), plan->before);
}

/* ---- lists of either engine; `chain` is multi_is_chain(view) ---- */

LOOM_BOTH loom__list_plan list_plan_for(int chain, const loom__multi_view *view, uint64_t old, uint64_t wanted,
                                        int tight)
{
    return chain ? chain_plan_list(view, old, wanted, tight) : multi_plan_list(view, old, wanted, tight);
}

LOOM_BOTH uint64_t list_needed_when_packed(int chain, const loom__multi_view *view, uint64_t old,
                                           const loom__list_plan *plan)
{
    return chain ? chain_needed_when_packed(view, old, plan) : multi_needed_when_packed(plan);
}

LOOM_BOTH uint64_t list_kept(int chain, const loom__multi_view *view, uint64_t old, const loom__list_plan *plan,
                             uint64_t first)
{
    return chain ? chain_kept_list(view, old, plan, first) : multi_kept_list(view, old, plan, first);
}

#endif
