/* The judge of concurrent histories. */
#include "harness/harness.h"
#include "simt/sim_history.h"

static const sim_state absent = {0, 0};

static sim_state holds(uint64_t value)
{
    return (sim_state){1, value};
}

TEST(test_simt_history_overlapping_inserts)
{
    sim_operation both[] = {{SIMT_OPEN_KEEP, 1, LOOM_OK, 1, 10}, {SIMT_OPEN_KEEP, 2, LOOM_EXISTS, 2, 9}};
    CHECK(sim_history_possible(both, 2, absent, holds(1)));
    CHECK(!sim_history_possible(both, 2, absent, holds(2))); /* keep keeps */
    CHECK(!sim_history_possible(both, 2, absent, absent));
    CHECK(!sim_history_possible(both, 2, holds(3), holds(3)));
    both[1].status = LOOM_OK;
    CHECK(!sim_history_possible(both, 2, absent, holds(1))); /* stored as new twice */
}

TEST(test_simt_history_order_in_time)
{
    sim_operation calls[] = {{SIMT_OPEN_KEEP, 1, LOOM_OK, 1, 10}, {SIMT_OPEN_FIND, 0, LOOM_NOT_FOUND, 5, 15}};
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
    sim_operation calls[] = {{SIMT_OPEN_OVERWRITE, 1, LOOM_EXISTS, 1, 10},
                             {SIMT_OPEN_OVERWRITE, 2, LOOM_EXISTS, 2, 9},
                             {SIMT_OPEN_FIND, 1, LOOM_OK, 3, 8}};
    CHECK(sim_history_possible(calls, 3, holds(7), holds(1)));
    CHECK(sim_history_possible(calls, 3, holds(7), holds(2)));
    CHECK(!sim_history_possible(calls, 3, holds(7), holds(7)));
    sim_operation erases[] = {{SIMT_OPEN_ERASE, 0, LOOM_OK, 1, 10}, {SIMT_OPEN_ERASE, 0, LOOM_NOT_FOUND, 2, 9}};
    CHECK(sim_history_possible(erases, 2, holds(7), absent));
    CHECK(!sim_history_possible(erases, 2, absent, absent));
    erases[1].status = LOOM_OK;
    CHECK(!sim_history_possible(erases, 2, holds(7), absent)); /* erased twice */
    sim_operation full = {SIMT_OPEN_KEEP, 1, LOOM_FULL, 1, 2};
    CHECK(sim_history_possible(&full, 1, absent, absent));
    CHECK(!sim_history_possible(&full, 1, holds(1), holds(1)));
}

/* Many overlapping operations without an explanation: the search must end. */
TEST(test_simt_history_hopeless_search_ends)
{
    sim_operation calls[SIM_MOST_OPERATIONS];
    for (uint32_t i = 0; i < SIM_MOST_OPERATIONS; i++)
        calls[i] = (sim_operation){SIMT_OPEN_OVERWRITE, i + 1, LOOM_EXISTS, 1, 100};
    CHECK(!sim_history_possible(calls, SIM_MOST_OPERATIONS, holds(0), holds(99)));
    CHECK(sim_history_possible(calls, SIM_MOST_OPERATIONS, holds(0), holds(3)));
}
