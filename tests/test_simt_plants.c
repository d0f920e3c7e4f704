/* The lane simulator finds every planted fault of tests/simt/plants.cmake. */
#include "harness/harness.h"
#include "simt/sim_case.h"

#include <string.h>

/* A search from seed 0 needs 0 to 35,065 further seeds, depending on the plant. */
enum { MOST_SEEDS = 60000 };

static uint32_t tested;

/* In the short tier the search begins at `hint`, the seed that found the plant when the test was written, and ends with
 * the seeds below it. A wrong hint costs time and nothing else. */
static void find_plant(const test_run *t, const char *name, uint64_t hint)
{
    const sim_plant *plant = NULL;
    for (uint32_t i = 0; i < sim_plant_count; i++)
        if (strcmp(sim_plants[i].name, name) == 0)
            plant = &sim_plants[i];
    if (plant == NULL)
        FAIL("there is no plant %s in plants.cmake", name);
    const sim_case *c = sim_case_named(plant->case_name);
    CHECK(c != NULL);
    sim_options options = {.kernel = plant->kernel};
    const uint64_t first = t->short_tier ? hint : 0;
    for (uint64_t i = 0; i < MOST_SEEDS; i++)
        if (!sim_run(c, (first + i) % MOST_SEEDS, &options))
            return;
    FAIL("not found by %d seeds of %s", MOST_SEEDS, plant->case_name);
}

#define PLANT(name) PLANT_FROM(name, 0)
#define PLANT_FROM(name, hint)                                  \
    __attribute__((constructor)) static void count_##name(void) \
    {                                                           \
        tested++;                                               \
    }                                                           \
    TEST(test_simt_plant_##name, .timeout_seconds = 240)        \
    {                                                           \
        find_plant(t, #name, hint);                             \
    }

PLANT(insert_beside_erase)
PLANT(find_beside_erase_and_insert)
PLANT(no_look_after_a_lost_slot)
PLANT(bit_after_the_key)
PLANT_FROM(bit_not_released, 6096)
PLANT(far_bit_not_released)
PLANT(refused_before_near_buckets)
PLANT(no_bit_on_leaving)
PLANT(careful_bits_forgotten)
PLANT_FROM(lanes_not_joined, 16764)
PLANT(value_not_released)
PLANT(no_wait_for_the_value)
PLANT(a_group_leaves_the_ballot)
PLANT(a_lane_leaves_the_ballot)
PLANT(no_bound_on_a_full_table)
PLANT(value_fetched_too_early)
PLANT(combined_without_an_atomic)
PLANT(pair_combined_once)
PLANT(place_reserved_without_an_atomic)
PLANT(place_reserved_after_a_lost_swap)
PLANT(no_second_look_at_a_mark)
PLANT(mark_not_acquired)
PLANT(mark_not_released)
PLANT(slots_not_acquired_for_the_mark)
PLANT(lanes_not_in_step_for_the_mark)
PLANT(mark_not_voted)
PLANT(crowded_taken_for_full)
PLANT(value_without_its_ready_bit)
PLANT(value_not_acquired)
PLANT(no_second_look_at_the_ready_bit)
PLANT(second_look_not_acquired)
PLANT(narrow_word_set_without_an_atomic)
PLANT(narrow_word_cleared_without_an_atomic)
PLANT(no_bound_on_a_lookup)
PLANT(ready_bit_not_released)
PLANT(erase_without_a_swap)
PLANT(freed_slot_taken_again)
PLANT(both_slots_of_a_key_told)
PLANT(value_fetched_while_erased)
PLANT(marked_although_slots_are_retired)
PLANT(retired_key_not_counted)
PLANT(erased_by_two_scans)
PLANT(scan_reads_unready_values)
PLANT(scan_counts_no_stale_bits)
PLANT(scan_counts_no_retired_keys)
PLANT(slot_at_home_lost_and_taken_for_won)
PLANT(key_beyond_home_not_sought)
PLANT(set_claimed_without_a_swap)
PLANT(set_erased_without_a_swap)
PLANT(bits_of_an_erased_key_not_counted)
PLANT(bits_of_a_refused_key_not_counted)
PLANT(places_drawn_too_early)
PLANT(keys_still_being_lifted)
PLANT(strangers_before_those_at_home)
PLANT(nobody_brought_home)
PLANT(keys_that_stay_without_their_bits)
PLANT(full_mark_left_standing)
PLANT(key_at_home_put_back_again)
PLANT(value_left_in_a_lifted_slot)
PLANT(ready_bit_left_at_a_lifted_slot)
PLANT(bits_set_without_an_atomic)
PLANT(a_lane_sets_no_bits)
PLANT(a_word_of_each_lane_not_set)
PLANT(a_lane_does_not_look)
PLANT(a_word_of_each_lane_not_looked_at)
PLANT(filter_votes_not_counted)
PLANT(filter_read_while_written)
PLANT(told_before_all_lanes_had_set)
PLANT(asked_before_all_lanes_had_heard)
PLANT(word_read_before_the_or)
PLANT(word_read_after_the_or)
PLANT(clear_bits_of_a_word_forgotten)
PLANT(votes_for_new_keys_not_counted)
PLANT(perfect_lost_slot_taken_for_won)
PLANT(perfect_lost_pair_taken_for_won)
PLANT(perfect_lost_slot_not_tried_again)
PLANT(perfect_not_the_lowest_free_slot)
PLANT(perfect_every_lane_claims)
PLANT(perfect_who_finds_the_key_does_not_vote)
PLANT(perfect_lanes_do_not_hear_of_the_claim)
PLANT(perfect_value_fetched_before_it_is_there)
PLANT(perfect_first_value_stored_over_a_sum)
PLANT(perfect_combined_without_an_atomic)
PLANT(perfect_combined_4_without_an_atomic)
PLANT(perfect_lost_erasure_of_a_pair_told)
PLANT(perfect_lost_erasure_told)
PLANT(perfect_lanes_do_not_hear_of_the_erasure)
PLANT(perfect_value_left_in_a_free_slot)
PLANT(perfect_mark_left_standing)
PLANT(perfect_erased_key_not_counted)
PLANT(perfect_erased_key_counted_without_an_atomic)
PLANT(perfect_lanes_do_not_hear_of_the_find)
PLANT(perfect_update_of_another_slot)
PLANT(perfect_overfull_found_too_early)
PLANT(perfect_overfull_read_too_early)
PLANT(perfect_cells_compared_too_early)
PLANT(perfect_best_candidate_read_too_early)
PLANT(perfect_keys_of_other_lanes_not_counted)
PLANT(perfect_plan_dropped_while_it_is_read)
PLANT(perfect_codes_changed_while_keys_are_lifted)
PLANT(perfect_keys_put_back_by_old_codes)
PLANT(perfect_keys_dealt_while_slots_are_emptied)
PLANT(perfect_outcome_read_too_early)
PLANT(perfect_outcome_overwritten_too_early)
PLANT(perfect_keys_still_being_added_up)
PLANT(perfect_sum_reset_too_early)
PLANT(perfect_word_read_too_late)
PLANT(perfect_deal_not_charged)
PLANT(perfect_salt_of_the_first_word_alone)
PLANT(perfect_value_left_where_a_key_was_lifted)
PLANT(perfect_plan_left_in_scratch)
PLANT(perfect_counters_of_a_sum_left)
PLANT(perfect_stashed_cells_not_counted)
PLANT(perfect_stashed_cells_counted_twice)
PLANT(perfect_cell_held_by_two)
PLANT(perfect_hold_not_acquired)
PLANT(perfect_hold_seen_by_the_first_lane_alone)
PLANT(perfect_given_back_unreleased)
PLANT(perfect_other_cell_kept)
PLANT(perfect_other_cell_given_back_as_it_was)
PLANT(perfect_copies_left_behind)
PLANT(perfect_lanes_move_apart)
PLANT(perfect_keys_of_a_failed_move_cleared)
PLANT(perfect_no_second_look_for_the_key)
PLANT(perfect_moves_where_nothing_may)
PLANT(perfect_fetched_value_kept_to_itself)
PLANT_FROM(perfect_zero_stored_behind_the_key, 22200)
PLANT(perfect_lost_slot_stored_in)
PLANT(perfect_stores_by_the_old_code)
PLANT(perfect_no_other_cell_tried)
PLANT(perfect_moved_keys_still_seen)
PLANT(perfect_moved_without_need)
PLANT(perfect_word_of_codes_stored_whole)
PLANT(perfect_own_cell_kept)
PLANT(perfect_own_cell_given_back_each_turn)
PLANT(perfect_turns_without_end)
PLANT(perfect_stored_is_not_told)
PLANT(perfect_sum_of_counters_reset_too_late)
PLANT(perfect_sum_of_counters_read_too_early)
PLANT(perfect_round_reset_too_late)
PLANT(perfect_trouble_of_other_lanes_not_seen)
PLANT(perfect_suspects_of_all_cells_still_listed)
PLANT(perfect_fills_added_without_an_atomic)
PLANT(perfect_counted_while_counters_are_cleared)
PLANT(perfect_coming_counted_while_the_table_is)
PLANT(perfect_cell_marked_without_an_atomic)
PLANT(perfect_troubles_listed_while_cleared)
PLANT(perfect_troubles_read_while_listed)
PLANT(perfect_suspects_still_listed)
PLANT(perfect_empty_list_reset_before_it_is_seen)
PLANT(perfect_moves_while_others_bid)
PLANT(perfect_fills_read_while_cells_move)
PLANT(perfect_moved_cell_not_noted)
PLANT(perfect_fill_read_beside_draws)
PLANT(perfect_nothing_withdrawn)
PLANT(perfect_plan_that_overfills_carried_out)
PLANT(perfect_plan_where_nothing_may_move)
PLANT(perfect_too_many_moves_carried_out)
PLANT(perfect_changes_written_over_moves)
PLANT(perfect_changes_read_while_listed)
PLANT(perfect_lifted_beyond_the_memory)
PLANT(perfect_put_back_by_old_codes_or_not_lifted)
PLANT(perfect_codes_without_their_salt)
PLANT(perfect_inserted_while_keys_are_put_back)
PLANT(perfect_state_read_by_all_lanes)
PLANT(perfect_left_and_not_listed)
PLANT(perfect_left_counted_before_it_is_zero)
PLANT(perfect_left_written_over_items)
PLANT(perfect_left_counted_too_early)
PLANT(find_all_beside_append)
PLANT(place_appended_without_an_atomic)
PLANT(place_appended_after_a_lost_swap)
PLANT(append_stores_no_value)
PLANT(list_touched_without_an_atomic)
PLANT(list_touched_after_a_lost_swap)
PLANT(touched_list_not_left_alone)
PLANT_FROM(passed_bits_not_acquired, 4856)
PLANT_FROM(ready_bit_not_joined, 19520)
PLANT(fill_not_raised)
PLANT(fill_of_a_large_bucket)
PLANT_FROM(bucket_without_its_fill, 34170)
PLANT(link_not_released)
PLANT_FROM(link_not_acquired, 1267)
PLANT(link_before_is_not_linked)
PLANT(bucket_not_linked)
PLANT(bucket_of_two_not_exact)
PLANT(value_of_one_left_behind)
PLANT(bucket_too_small_for_one_and_another)
PLANT(new_key_appended_twice)
PLANT(link_in_the_bucket_before)
PLANT(heap_taken_without_an_atomic)
PLANT(more_values_than_most)
PLANT(end_of_the_heap_ignored)
PLANT(end_of_used_not_told)
PLANT(refused_bucket_given_back)
PLANT(refused_list_stays_touched)
PLANT(key_without_values_not_told)
PLANT(refused_key_not_told)
PLANT(key_without_values_found)
PLANT(list_erased_twice)
PLANT(older_piece_taken_for_linked)
PLANT(reservation_beyond_the_count_forgotten)
PLANT(large_bucket_at_any_place)
PLANT(gap_before_a_large_bucket_not_taken)
PLANT(kind_of_the_bucket_alone)
PLANT(gap_not_in_the_end_of_used)
PLANT(rows_row_not_released)
PLANT(rows_parts_not_joined)
PLANT(rows_row_not_acquired)
PLANT(rows_key_not_compared)
PLANT(rows_no_wait_for_a_row)
PLANT(rows_unready_row_compared)
PLANT(rows_erased_key_found)
PLANT(rows_tag_stored_without_a_swap)
PLANT(rows_taken_slot_claimed)
PLANT(rows_wide_value_written_by_two)
PLANT(rows_owner_not_released)
PLANT(rows_owner_not_acquired)
PLANT(rows_parts_of_a_value_not_joined)
PLANT(rows_value_not_released)
PLANT(rows_value_in_another_bucket)
PLANT(rows_update_does_not_wait)
PLANT(rows_erased_by_two)
PLANT(rows_tag_cleared_without_an_atomic)
PLANT(rows_located_key_in_another_slot)
PLANT(rows_located_key_erased_by_two)
PLANT(rows_combined_without_an_atomic)
PLANT(rows_still_being_lifted)
PLANT(rows_strangers_before_those_at_home)
PLANT(rows_lifted_key_left_in_its_slot)
PLANT(rows_nobody_brought_home)
PLANT(rows_retired_tag_left)
PLANT(rows_freed_slot_not_retired)
PLANT(rows_mixed_fetch_takes_the_row)
PLANT(rows_parts_read_too_early)
PLANT(rows_taken_row_looks_absent)
PLANT(strings_bytes_taken_without_an_atomic)
PLANT(strings_end_of_the_heap_not_checked)
PLANT(strings_second_piece_taken)
PLANT(strings_lost_piece_not_counted)
PLANT(strings_stored_piece_dropped)
PLANT(strings_refused_key_stored)
PLANT(strings_refusal_not_told)
PLANT(strings_piece_not_told)
PLANT(strings_piece_dropped_by_all)
PLANT(strings_update_leaves_the_ballot)
PLANT(strings_row_not_given_back)
PLANT(strings_piece_too_short)
PLANT(strings_replaced_piece_not_counted)
PLANT(strings_erased_not_counted)
PLANT(strings_stored_key_not_found)
PLANT(strings_value_over_the_key)
PLANT(strings_parts_not_joined)
PLANT(strings_part_misplaced)

/* Why the header forbids insertions beside erasures. One call sees that slot 5 is free. Slot 2 is erased. Another call
 * puts the same key into slot 2. The swap of the first call on slot 5 succeeds: the key is in the table twice. */
TEST(test_simt_plant_insert_beside_erase_makes_a_duplicate, .timeout_seconds = 240)
{
    const sim_case *c = sim_case_named("insert+erase");
    sim_options options = {0};
    for (uint64_t seed = 0; seed < MOST_SEEDS; seed++)
        if (!sim_run(c, seed, &options) && strstr(simt.failure, "in the table twice") != NULL)
            return;
    FAIL("no duplicate in %d runs", MOST_SEEDS);
}

/* Exhaustive searches (test_simt_open.c) find faults, too: missing fences of a mark, which show after three detours,
 * and faults that need a key to be erased and inserted again. */
TEST(test_simt_open_exhaustive_finds_plants, .timeout_seconds = 240)
{
    static const char *const names[] = {"no_second_look_at_a_mark", "mark_not_acquired", "mark_not_released",
                                        "freed_slot_taken_again", "value_fetched_while_erased"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int found = 0;
        for (uint32_t p = 0; p < sim_plant_count; p++) {
            sim_options options = {.tiny = 1, .kernel = sim_plants[p].kernel};
            if (strcmp(sim_plants[p].name, names[i]) != 0)
                continue;
            for (uint64_t seed = 0; seed < 16 && !found; seed++) {
                uint64_t runs;
                int complete;
                found =
                    !sim_explore(sim_case_named(sim_plants[p].case_name), seed, 3, 100000, &options, &runs, &complete);
            }
        }
        if (!found)
            FAIL("%s was not found", names[i]);
    }
}

TEST(test_simt_plants_all_tested)
{
    CHECK_EQ(tested, sim_plant_count);
}
