/* Boards of tickets in the lane simulator: every pair of operations that may overlap, and mixed batches, in which busy
 * tickets are passed or waited for. */
#include "simt/sim_test.h"

TEST(test_simt_tickets_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "tickets/insert+insert", RUNS);
}

TEST(test_simt_tickets_insert_beside_insert_full, .timeout_seconds = 240)
{
    run_case(t, "tickets/insert+insert/full", RUNS);
}

TEST(test_simt_tickets_insert_beside_fetch, .timeout_seconds = 240)
{
    run_case(t, "tickets/insert+find-or-insert", RUNS);
}

TEST(test_simt_tickets_accumulate_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "tickets/accumulate+accumulate", RUNS);
}

TEST(test_simt_tickets_update_beside_update, .timeout_seconds = 240)
{
    run_case(t, "tickets/update+update", RUNS);
}

TEST(test_simt_tickets_find_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "tickets/erase+find", RUNS);
}

TEST(test_simt_tickets_find_beside_keep, .timeout_seconds = 240)
{
    run_case(t, "tickets/keep+find", RUNS);
}

TEST(test_simt_tickets_mixed, .timeout_seconds = 240)
{
    run_case(t, "tickets/mixed", RUNS);
}

TEST(test_simt_tickets_mixed_full, .timeout_seconds = 240)
{
    run_case(t, "tickets/mixed/full", RUNS);
}
