/* The filter's algorithms in the lane simulator: insertions and queries. All of them may overlap. */
#include "simt/sim_test.h"

TEST(test_simt_filter_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "filter/insert+insert", RUNS);
}
TEST(test_simt_filter_contains_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "filter/insert+contains", RUNS);
}
TEST(test_simt_filter_mixed, .timeout_seconds = 240)
{
    run_case(t, "filter/mixed", RUNS);
}
TEST(test_simt_filter_new_keys, .timeout_seconds = 240)
{
    run_case(t, "filter/added", RUNS);
}
