/* Tables with rows in the lane simulator: every pair of operations that the handle lets overlap, and lookups beside
 * erasures and insertions that keep, which device views will need. */
#include "simt/sim_test.h"

TEST(test_simt_rows_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "rows/insert+insert", RUNS);
}
TEST(test_simt_rows_insert_beside_insert_full, .timeout_seconds = 240)
{
    run_case(t, "rows/insert+insert/full", RUNS);
}
TEST(test_simt_rows_insert_beside_fetch, .timeout_seconds = 240)
{
    run_case(t, "rows/insert+find-or-insert", RUNS);
}
TEST(test_simt_rows_accumulate_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "rows/accumulate+accumulate", RUNS);
}
TEST(test_simt_rows_update_beside_update, .timeout_seconds = 240)
{
    run_case(t, "rows/update+update", RUNS);
}
TEST(test_simt_rows_erase_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "rows/erase+erase", RUNS);
}
TEST(test_simt_rows_find_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "rows/erase+find", RUNS);
}
TEST(test_simt_rows_find_beside_keep, .timeout_seconds = 240)
{
    run_case(t, "rows/keep+find", RUNS);
}
TEST(test_simt_rows_upkeep, .timeout_seconds = 240)
{
    run_case(t, "rows/upkeep", RUNS);
}
TEST(test_simt_rows_strings_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/insert+insert", RUNS);
}
TEST(test_simt_rows_strings_insert_beside_insert_full, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/insert+insert/full", RUNS);
}
TEST(test_simt_rows_strings_insert_beside_insert_brim, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/insert+insert/brim", RUNS);
}
TEST(test_simt_rows_strings_update_beside_update, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/update+update", RUNS);
}
TEST(test_simt_rows_strings_update_beside_update_brim, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/update+update/brim", RUNS);
}
TEST(test_simt_rows_strings_accumulate_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/accumulate+accumulate", RUNS);
}
TEST(test_simt_rows_strings_find_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/erase+find", RUNS);
}
TEST(test_simt_rows_strings_find_beside_keep, .timeout_seconds = 240)
{
    run_case(t, "rows/strings/keep+find", RUNS);
}
TEST(test_simt_rows_erase_by_slot_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "rows/erase-by-slot+erase", RUNS);
}
