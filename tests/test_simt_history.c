/* sim_history_possible: whether an order of the operations explains their answers. */
#include "harness/harness.h"
#include "simt/sim_history.h"

static const sim_state absent = {0, 0};

#define OPERATION(op, value, status, began, ended)       \
    {                                                    \
        op, value, status, began, ended, 0, LOOM__ADD, 8 \
    }

static sim_state holds(uint64_t value)
{
    return (sim_state){1, value};
}

TEST(test_simt_history_overlapping_inserts)
{
    sim_operation both[] = {OPERATION(SIMT_MAP_KEEP, 1, LOOM_OK, 1, 10),
                            OPERATION(SIMT_MAP_KEEP, 2, LOOM_EXISTS, 2, 9)};
    CHECK(sim_history_possible(both, 2, absent, holds(1)));
    CHECK(!sim_history_possible(both, 2, absent, holds(2))); /* the second insertion must not overwrite */
    CHECK(!sim_history_possible(both, 2, absent, absent));
    CHECK(!sim_history_possible(both, 2, holds(3), holds(3)));
    both[1].status = LOOM_OK;
    CHECK(!sim_history_possible(both, 2, absent, holds(1))); /* both stored the key as new */
}

TEST(test_simt_history_order_in_time)
{
    sim_operation calls[] = {OPERATION(SIMT_MAP_KEEP, 1, LOOM_OK, 1, 10),
                             OPERATION(SIMT_MAP_FIND, 0, LOOM_NOT_FOUND, 5, 15)};
    CHECK(sim_history_possible(calls, 2, absent, holds(1))); /* overlapping: the lookup may come first */
    calls[1].began = 11;
    CHECK(!sim_history_possible(calls, 2, absent, holds(1)));
    calls[1].status = LOOM_OK;
    calls[1].value = 1;
    CHECK(sim_history_possible(calls, 2, absent, holds(1)));
    calls[1].value = 2;
    CHECK(!sim_history_possible(calls, 2, absent, holds(1)));
}

TEST(test_simt_history_overwrites_and_erases)
{
    sim_operation calls[] = {OPERATION(SIMT_MAP_OVERWRITE, 1, LOOM_EXISTS, 1, 10),
                             OPERATION(SIMT_MAP_OVERWRITE, 2, LOOM_EXISTS, 2, 9),
                             OPERATION(SIMT_MAP_FIND, 1, LOOM_OK, 3, 8)};
    CHECK(sim_history_possible(calls, 3, holds(7), holds(1)));
    CHECK(sim_history_possible(calls, 3, holds(7), holds(2)));
    CHECK(!sim_history_possible(calls, 3, holds(7), holds(7)));
    sim_operation erases[] = {OPERATION(SIMT_MAP_ERASE, 0, LOOM_OK, 1, 10),
                              OPERATION(SIMT_MAP_ERASE, 0, LOOM_NOT_FOUND, 2, 9)};
    CHECK(sim_history_possible(erases, 2, holds(7), absent));
    CHECK(!sim_history_possible(erases, 2, absent, absent));
    erases[1].status = LOOM_OK;
    CHECK(!sim_history_possible(erases, 2, holds(7), absent)); /* erased twice */
    sim_operation full = OPERATION(SIMT_MAP_KEEP, 1, LOOM_FULL, 1, 2);
    CHECK(sim_history_possible(&full, 1, absent, absent));
    CHECK(!sim_history_possible(&full, 1, holds(1), holds(1)));
}

/* Many overlapping operations that no order explains: the search must end. */
TEST(test_simt_history_hopeless_search_ends)
{
    sim_operation calls[SIM_MOST_OPERATIONS];
    for (uint32_t i = 0; i < SIM_MOST_OPERATIONS; i++)
        calls[i] = (sim_operation)OPERATION(SIMT_MAP_OVERWRITE, i + 1, LOOM_EXISTS, 1, 100);
    CHECK(!sim_history_possible(calls, SIM_MOST_OPERATIONS, holds(0), holds(99)));
    CHECK(sim_history_possible(calls, SIM_MOST_OPERATIONS, holds(0), holds(3)));
}

TEST(test_simt_history_find_or_insert)
{
    sim_operation both[] = {OPERATION(SIMT_MAP_FETCH, 1, LOOM_OK, 1, 10),
                            OPERATION(SIMT_MAP_FETCH, 2, LOOM_EXISTS, 2, 9)};
    both[0].found = both[1].found = 1;
    CHECK(sim_history_possible(both, 2, absent, holds(1)));
    both[1].found = 2; /* the answer is not in the table */
    CHECK(!sim_history_possible(both, 2, absent, holds(1)));
    both[1].found = 1;
    CHECK(!sim_history_possible(both, 2, absent, holds(2)));
    CHECK(!sim_history_possible(both, 2, holds(1), holds(1))); /* no operation stored it as new */
}

TEST(test_simt_history_accumulations)
{
    sim_operation calls[] = {OPERATION(SIMT_MAP_COMBINE, 5, LOOM_OK, 1, 10),
                             OPERATION(SIMT_MAP_COMBINE, 7, LOOM_EXISTS, 2, 9),
                             OPERATION(SIMT_MAP_FIND, 5, LOOM_OK, 3, 8)};
    CHECK(sim_history_possible(calls, 3, absent, holds(12)));
    CHECK(!sim_history_possible(calls, 3, absent, holds(7))); /* one addend was lost */
    calls[2].value = 7;
    CHECK(!sim_history_possible(calls, 3, absent, holds(12))); /* 7 was never in the table */
    calls[2].value = 12;
    CHECK(sim_history_possible(calls, 3, absent, holds(12)));
    for (int i = 0; i < 2; i++)
        calls[i].rule = LOOM__MAX_UNSIGNED;
    calls[2].value = 7;
    CHECK(sim_history_possible(calls, 3, absent, holds(7)));
    CHECK(!sim_history_possible(calls, 3, absent, holds(5)));
}

TEST(test_simt_history_updates)
{
    sim_operation calls[] = {OPERATION(SIMT_MAP_UPDATE, 5, LOOM_OK, 1, 10),
                             OPERATION(SIMT_MAP_UPDATE, 7, LOOM_OK, 2, 9)};
    CHECK(sim_history_possible(calls, 2, holds(1), holds(5)));
    CHECK(sim_history_possible(calls, 2, holds(1), holds(7)));
    CHECK(!sim_history_possible(calls, 2, holds(1), holds(1)));
    CHECK(!sim_history_possible(calls, 2, absent, holds(5))); /* the updated key was absent */
    calls[0].status = calls[1].status = LOOM_NOT_FOUND;
    CHECK(sim_history_possible(calls, 2, absent, absent));
    CHECK(!sim_history_possible(calls, 2, holds(1), holds(1)));
}
