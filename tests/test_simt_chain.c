/* The chain engine's algorithms in the lane simulator. */
#include "simt/sim_test.h"

TEST(test_simt_chain_append_beside_append, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append", RUNS);
}
TEST(test_simt_chain_append_beside_append_full, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append/full", RUNS);
}
TEST(test_simt_chain_count_beside_append, .timeout_seconds = 240)
{
    run_case(t, "chain/append+count", RUNS);
}
TEST(test_simt_chain_erase_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "chain/erase+erase", RUNS);
}
TEST(test_simt_chain_find_all_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "chain/find_all+erase", RUNS);
}
TEST(test_simt_chain_append_beside_append_large, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append/large", RUNS);
}
TEST(test_simt_chain_append_beside_append_large_full, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append/large/full", RUNS / 2);
}
TEST(test_simt_chain_find_all_beside_erase_large, .timeout_seconds = 240)
{
    run_case(t, "chain/find_all+erase/large", RUNS / 2);
}
TEST(test_simt_chain_append_then_count, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append/count", RUNS);
}
TEST(test_simt_chain_append_beside_append_brim, .timeout_seconds = 240)
{
    run_case(t, "chain/append+append/brim", RUNS / 2);
}
