# Plants: faults that the lane simulator must find. Each is the algorithms' source with one text replaced, compiled into
# the simulator's tests alone. A text that no longer stands there exactly once is an error here: write the plant anew.
#
#   plant(NAME CASE
#         "text in one of the files of the engine that the case is about"
#         "what stands there instead")
#
# CASE is the case of sim_cases.c in which it is looked for.

set(plant_files_open core/slot_ops.h core/list_handle.h engines/open/open_ops.h engines/open/open_upkeep.h
    engines/open/open_walk.h)
set(plant_files_filter engines/filter/filter_ops.h simt/machine/simt_filter.c)
set(plant_files_perfect engines/perfect/perfect_ops.h engines/perfect/perfect_cells.h engines/perfect/perfect_room.h
    engines/perfect/perfect_recode.h engines/perfect/perfect_codes.h engines/perfect/perfect_repair.h)
set(plant_files_chain engines/chain/chain_ops.h simt/machine/simt_chain.c)
set(plant_files_rows core/slot_ops.h engines/open/open_items.h engines/open/open_ops.h engines/open/open_row_ops.h
    engines/open/open_string_ops.h engines/open/open_upkeep.h engines/open/open_walk.h)
set(plant_files_tickets engines/tickets/ticket_ops.h)
set(plant_files ${plant_files_tickets} ${plant_files_open} engines/open/open_items.h engines/open/open_row_ops.h
    engines/open/open_string_ops.h ${plant_files_filter} ${plant_files_perfect} ${plant_files_chain})
# The kernel that runs each; for a case that has one of its own, that one.
set(plant_kernel_perfect/recode simt_perfect_recode.c)
set(plant_kernel_perfect/repair simt_perfect_repair.c)
set(plant_kernel_perfect/room simt_perfect_room.c)
set(plant_kernel_rows/upkeep simt_rows_upkeep.c)
set(plant_kernel_core/slot_ops.h simt_open.c)
set(plant_kernel_core/list_handle.h simt_open.c)
set(plant_kernel_engines/perfect/perfect_ops.h simt_perfect.c)
set(plant_kernel_engines/perfect/perfect_cells.h simt_perfect_room.c)
set(plant_kernel_engines/perfect/perfect_room.h simt_perfect_room.c)
set(plant_kernel_engines/perfect/perfect_recode.h simt_perfect_recode.c)
set(plant_kernel_engines/perfect/perfect_codes.h simt_perfect_repair.c)
set(plant_kernel_engines/perfect/perfect_repair.h simt_perfect_repair.c)
set(plant_kernel_engines/open/open_ops.h simt_open.c)
set(plant_kernel_engines/tickets/ticket_ops.h simt_tickets.c)
set(plant_kernel_engines/open/open_items.h simt_rows.c)
set(plant_kernel_engines/open/open_row_ops.h simt_rows.c)
set(plant_kernel_engines/open/open_string_ops.h simt_rows.c)
set(plant_kernel_engines/open/open_walk.h simt_open.c)
set(plant_kernel_engines/open/open_upkeep.h simt_open_upkeep.c)
set(plant_kernel_engines/filter/filter_ops.h simt_filter.c)
set(plant_kernel_simt/machine/simt_filter.c simt_filter.c)
set(plant_kernel_engines/chain/chain_ops.h simt_chain.c)
set(plant_kernel_simt/machine/simt_chain.c simt_chain.c)
foreach(file ${plant_files})
    set(place ${PROJECT_SOURCE_DIR}/src/${file})
    if(file MATCHES "^simt/")
        set(place ${PROJECT_SOURCE_DIR}/tests/${file})
    endif()
    file(READ ${place} plant_text_${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${place})
endforeach()
set(plant_objects "")
set(plant_rows "")
set(plant_declarations "")

function(plant name case old new)
    string(LENGTH "${old}" length_old)
    set(times 0)
    set(engine open)
    if(case MATCHES "^(filter|perfect|chain|rows|tickets)/")
        set(engine ${CMAKE_MATCH_1})
    endif()
    foreach(candidate ${plant_files_${engine}})
        string(REPLACE "${old}" "" without "${plant_text_${candidate}}")
        string(LENGTH "${plant_text_${candidate}}" length)
        string(LENGTH "${without}" length_without)
        math(EXPR times "${times} + (${length} - ${length_without}) / ${length_old}")
        if(NOT length EQUAL length_without)
            set(file ${candidate})
        endif()
    endforeach()
    if(NOT times EQUAL 1)
        message(FATAL_ERROR "plant ${name}: its text stands ${times} times in ${plant_files_${engine}}, not once:\n${old}")
    endif()
    if(NOT LOOM_PLANTS)
        return()
    endif()
    string(REPLACE "${old}" "${new}" text "${plant_text_${file}}")
    set(directory ${CMAKE_CURRENT_BINARY_DIR}/plants/${name})
    foreach(other ${plant_files_${engine}}) # left by an earlier configuration, in which the text stood there
        if(NOT other STREQUAL file)
            file(REMOVE ${directory}/${other})
        endif()
    endforeach()
    file(CONFIGURE OUTPUT ${directory}/${file} CONTENT "${text}" @ONLY)
    # An object library each: the same source, with the changed header found first; or the changed source.
    set(kernel ${plant_kernel_${file}})
    if(DEFINED plant_kernel_${case})
        set(kernel ${plant_kernel_${case}})
    elseif(engine STREQUAL rows) # whose algorithms are those of open tables
        set(kernel simt_rows.c)
    endif()
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/machine/${kernel})
    if(file MATCHES "${kernel}$")
        set(source ${directory}/${file})
    endif()
    add_library(plant_${name} OBJECT ${source})
    target_include_directories(plant_${name} PRIVATE ${directory} ${PROJECT_SOURCE_DIR}/include
                               ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    string(TOUPPER SIMT_${engine}_KERNEL macro)
    target_compile_definitions(plant_${name} PRIVATE ${macro}=simt_run_${name} LOOM_ONE_COPY)
    target_link_libraries(plant_${name} PRIVATE loom_flags)
    # Quick to compile, since there are many; a fault may leave something unused.
    target_compile_options(plant_${name} PRIVATE -fno-strict-aliasing -O0 -w)
    set(plant_objects ${plant_objects} plant_${name} PARENT_SCOPE)
    set(plant_rows "${plant_rows}    {\"${name}\", \"${case}\", simt_run_${name}},\n" PARENT_SCOPE)
    set(plant_declarations "${plant_declarations}simt_open_kernel simt_run_${name};\n" PARENT_SCOPE)
endfunction()

# ---- insert ----

plant(no_look_after_a_lost_slot insert+insert
"        walk->bucket = walk->free_bucket;
        walk->depth = walk->free_depth;
        walk->free_slot = OPEN_NO_SLOT;
        if (walk->marked_to < walk->depth)
            walk->marked_to = walk->depth;
        return OPEN_GO_ON;"
"        walk->free_slot = OPEN_NO_SLOT;
        break;")

plant(bit_after_the_key insert+insert+find
"        open_mark_path(kind, shared, view, walk, walk->free_depth);
        done = open_claim(kind, shared, view, walk, walk->free_bucket, walk->free_slot, *value);"
"        done = open_claim(kind, shared, view, walk, walk->free_bucket, walk->free_slot, *value);
        if (done)
            open_mark_path(kind, shared, view, walk, walk->free_depth);")

plant(no_bit_on_leaving insert+insert+find
"    open_set_bit(kind, shared, walk, walk->bucket);
    return 1;"
"    return 1;")

plant(careful_bits_forgotten insert+insert
"            if (passed >= walk->marked_to)
                open_set_bit(kind, shared, walk, bucket);"
"            if (passed > walk->marked_to)
                open_set_bit(kind, shared, walk, bucket);")

plant(lanes_not_joined insert+insert+find
"    lane_join(group, shared); /* bits that one lane set or saw come before the key that another stores */
"
"")

plant(bit_not_released insert+insert/full
"        lane_release(shared); /* the bits come before the key (I2) */"
"        (void)0;")

plant(far_bit_not_released unread/insert+insert/full
"    if (depth > (shared == OPEN_UNREAD ? open_near_depth(view) : 0))"
"    if (depth > 0 && shared != OPEN_UNREAD)")

plant(refused_before_near_buckets unread/insert+insert/full
"    if (last || (walk->knows_full && (!shared || walk->depth >= open_near_depth(view))))"
"    if (last || walk->knows_full)")

plant(value_not_released find+insert
"    lane_release(shared); /* the value comes before its ready bit (I4) */"
"")

plant(no_wait_for_the_value insert+insert+find
"        if (ready >> slot & 1)"
"")

plant(a_group_leaves_the_ballot insert+insert
"    done = lane_some(lane_poll(group, done));"
"    if (step == OPEN_MEET && lane_some(holders) && kind == SLOT_PAIR_4_4)
        return OPEN_WAS_THERE;
    done = lane_some(lane_poll(group, done));")

plant(a_lane_leaves_the_ballot insert+insert
"    done = lane_some(lane_poll(group, done));"
"    if (step == OPEN_CLAIM && done)
        return OPEN_DONE;
    done = lane_some(lane_poll(group, done));")

plant(no_bound_on_a_full_table insert+insert
"    lane_truth last = walk->depth + 1 >= view->buckets;"
"    lane_truth last = 0;")

plant(value_fetched_too_early fetch+fetch
"            lane_acquire(shared); /* the value came before that bit */
            *value = mode == SLOT_RESERVE ?"
"            *value = mode == SLOT_RESERVE ?")

plant(combined_without_an_atomic accumulate+accumulate
"            lane_combine_8((uint64_t *)at, rule, *value, shared);"
"            lane_store_8((uint64_t *)at, loom__combine_8(rule, lane_load_8((const uint64_t *)at), *value));")

plant(pair_combined_once accumulate+accumulate
"            if (old == seen)
                return;"
"            return;")

plant(place_reserved_without_an_atomic reserve+reserve
"        uint64_t old = lane_swap_8(at, seen, list_reserve(seen), shared);"
"        uint64_t old = seen;
        lane_store_8(at, list_reserve(seen));")

plant(place_reserved_after_a_lost_swap reserve+reserve
"        if (old == seen)
            return old;"
"        return old;")

# ---- the mark of a full partition ----

plant(no_second_look_at_a_mark insert+insert/full
"        lane_acquire(shared);
        walk->knows_full = 1;
        return OPEN_GO_ON;"
"        return OPEN_NO_ROOM;")

plant(mark_not_acquired insert+insert/full
"        lane_acquire(shared);
        walk->knows_full = 1;"
"        walk->knows_full = 1;")

plant(mark_not_released insert+insert/full
"            lane_release(shared); /* the slots were seen taken, by all lanes, before the mark says so */"
"")

plant(slots_not_acquired_for_the_mark insert+insert/full
"            lane_acquire(shared);
            lane_sync(group, shared);"
"            lane_sync(group, shared);")

plant(lanes_not_in_step_for_the_mark insert+insert/full
"            lane_sync(group, shared);
"
"")

plant(mark_not_voted insert+insert/full
"        if (done)
            break;
        if (walk->marked_to == OPEN_EAGERLY) {"
"        if (lane_load_4(&view->marks[walk->partition_index]) != OPEN_FULL)
            break;
        if (walk->marked_to == OPEN_EAGERLY) {")

plant(crowded_taken_for_full insert+insert
"        return seen != OPEN_FULL;"
"        return seen == OPEN_UNMARKED;")

# ---- find ----

plant(value_without_its_ready_bit find+insert
"    if (shared && !open_is_ready(kind, line, slot))
        return 0;
    lane_acquire(shared); /* the value was stored before its ready bit */"
"    lane_acquire(shared); /* the value was stored before its ready bit */")

plant(value_not_acquired find+insert
"    lane_acquire(shared); /* the value was stored before its ready bit */"
"")

plant(no_second_look_at_the_ready_bit find+erase
"    return !shared || open_is_ready(kind, line, slot);"
"    return 1;")

plant(second_look_not_acquired find+erase
"    lane_acquire(shared); /* an erase clears"
"    (void)0; /* an erase clears")

plant(narrow_word_set_without_an_atomic insert+insert+find
"        lane_or_4((uint32_t *)at, (uint32_t)1 << bit, shared);"
"        lane_store_4((uint32_t *)at, lane_load_4((uint32_t *)at) | (uint32_t)1 << bit);")

plant(narrow_word_cleared_without_an_atomic erase+erase
"        return lane_and_4((uint32_t *)at, ~((uint32_t)1 << bit), shared) >> bit & 1;"
"    {
        const uint32_t old = lane_load_4((uint32_t *)at);
        lane_store_4((uint32_t *)at, old & ~((uint32_t)1 << bit));
        return old >> bit & 1;
    }")

plant(no_bound_on_a_lookup erase+erase
"    look.further &= walk->depth + 1 < view->buckets;"
"    (void)view;")

# ---- erase ----

plant(ready_bit_not_released find+erase
"    lane_release(shared); /* the bit is cleared before the value is */"
"")

plant(erase_without_a_swap erase+erase
"        return lane_swap_8((uint64_t *)at, pair, slot_pair(empty, 0), shared) == pair;"
"    {
        lane_store_8((uint64_t *)at, slot_pair(empty, 0));
        return 1;
    }")

# ---- insertions and erasures at the same time ----

plant(freed_slot_taken_again mixed/insert+erase
"        shared == OPEN_MIXED ? open_retired(view, walk->partition_index) : open_empty(view, walk->partition_index);"
"        open_empty(view, walk->partition_index);")

plant(both_slots_of_a_key_told mixed/find
"    if (shared == OPEN_MIXED)
        look.mine = lane_chosen(group, holders);"
"")

plant(value_fetched_while_erased mixed/insert+erase
"    if (mode == SLOT_FETCH && shared == OPEN_MIXED)
        return open_read_value(kind, shared, line, slot, pair, value);"
"")

plant(marked_although_slots_are_retired mixed/full
"            if (lane_leads(group) && shared != OPEN_MIXED)"
"            if (lane_leads(group))")

plant(retired_key_not_counted mixed/insert+erase
"        lane_combine_4(&view->retired_slots[walk->partition_index], LOOM__ADD, 1, shared);"
"        (void)0;")

# ---- scans that erase ----

plant(erased_by_two_scans erase_if+erase
"    if (!open_free_slot(kind, shared, view, &walk, slot, pair))
        return 0;
    open_note_erased(shared, view, &walk);"
"    (void)open_free_slot(kind, shared, view, &walk, slot, pair);
    open_note_erased(shared, view, &walk);")

plant(scan_reads_unready_values mixed/erase_if
"    return open_read_value(kind, shared, line, slot, *pair, value);"
"    return open_read_value(kind, OPEN_ALONE, line, slot, *pair, value);")

plant(scan_counts_no_stale_bits erase_if+erase
"    const open_walk walk = open_walk_to(kind, view, key, here->bucket);
    if (!open_free_slot"
"    open_walk walk = open_walk_to(kind, view, key, here->bucket);
    walk.depth = 0;
    if (!open_free_slot")

plant(scan_counts_no_retired_keys mixed/erase_if
"    open_note_erased(shared, view, &walk);
    return 1;"
"    return 1;")

# ---- first turns at home ----

plant(slot_at_home_lost_and_taken_for_won insert+insert
"    else if (!open_claim_in_line(kind, shared, line, *slot, empty, key, value)) /* no bit comes before a key at home */
        return OPEN_GO_ON;"
"    else
        (void)open_claim_in_line(kind, shared, line, *slot, empty, key, value);")

plant(key_beyond_home_not_sought insert+insert
"    if (lane_filter(group, &seen, open_word_offset(kind), filter_bit) || !lane_any(frees))"
"    if (!lane_any(frees))")

plant(value_at_home_met_before_it_is_stored fetch+fetch
"    if (shared && slot_values_apart(kind) && !open_is_ready(kind, line, slot))
        return OPEN_GO_ON;
    return open_meet_at_home"
"    return open_meet_at_home")

plant(key_at_home_met_and_not_told insert+insert
"    return open_meet_at_home(kind, mode, shared, line, slot, key, value) ? OPEN_WAS_THERE : OPEN_GO_ON;"
"    return open_meet_at_home(kind, mode, shared, line, slot, key, value) ? OPEN_DONE : OPEN_GO_ON;")

# ---- sets ----

plant(set_claimed_without_a_swap insert+insert
"    if (!slot_swap_key(kind, shared, at, empty, key))
        return 0;
    if (!slot_values_apart(kind))
        return 1;"
"    if (!slot_values_apart(kind)) {
        if (slot_key_bytes(kind) == 4)
            lane_store_4((uint32_t *)at, (uint32_t)key);
        else
            lane_store_8((uint64_t *)at, key);
        return 1;
    }
    if (!slot_swap_key(kind, shared, at, empty, key))
        return 0;")

plant(set_erased_without_a_swap erase+erase
"        return slot_swap_key(kind, shared, at, walk->key, empty);"
"    {
        if (slot_key_bytes(kind) == 4)
            lane_store_4((uint32_t *)at, (uint32_t)empty);
        else
            lane_store_8((uint64_t *)at, empty);
        return 1;
    }")

# ---- the count of stale filter bits ----

plant(bits_of_an_erased_key_not_counted erase+erase
"    if (open_wear_of(walk) > 0)
"
"    if (0)
")

plant(bits_of_a_refused_key_not_counted insert+insert/full
"        open_add_stale(shared, view, walk, walk->marked_to == OPEN_EAGERLY ? walk->depth : walk->marked_to);"
"            (void)0;")

# ---- upkeep ----

plant(places_drawn_too_early upkeep
"    lane_team_wait(team); /* places"
"    (void)0; /* places")

plant(keys_still_being_lifted upkeep
"    lane_team_wait(team); /* all keys are lifted"
"    (void)0; /* all keys are lifted")

plant(strangers_before_those_at_home upkeep
"        lane_team_wait(team);
"
"")

plant(nobody_brought_home upkeep
"            if (open_bring_home(kind, shared, alone, view, partition, &one))
"
"            if (0)
")

plant(keys_that_stay_without_their_bits upkeep
"        if (away > scratch->room)
"
"        if (0)
")

plant(full_mark_left_standing upkeep
"            lane_store_4(&view->marks[partition], OPEN_UNMARKED); /* slots"
"            (void)0; /* slots")

plant(key_at_home_put_back_again upkeep
"            if (slot_has_tag(kind) ? one.value != 0 : one.key != empty)
"
"")

plant(value_left_in_a_lifted_slot upkeep
"        slot_store_value(kind, value, 0);
    }
    slot_store_key(kind, at, slot, empty);"
"    }
    slot_store_key(kind, at, slot, empty);")

plant(ready_bit_left_at_a_lifted_slot upkeep
"        holders &= ~((uint32_t)1 << slot);"
"        (void)0;")

# ---- filters ----

plant(bits_set_without_an_atomic filter/insert+insert
"            lane_or_8((uint64_t *)at + word, bits, shared);"
"            lane_store_8((uint64_t *)at + word, lane_load_8((uint64_t *)at + word) | bits);")

plant(a_lane_sets_no_bits filter/insert+insert
"        const uint64_t bits = filter_bits(each, filter_number(lower, word / 2), word % 2);"
"        const uint64_t bits = group.lane == 1 ? 0 : filter_bits(each, filter_number(lower, word / 2), word % 2);")

plant(a_word_of_each_lane_not_set filter/insert+insert
"        const uint32_t word = lane_first_word(group) + i;"
"        const uint32_t word = lane_first_word(group) + i;
        if (i > 0 && i + 1 == lane_words(group))
            break;")

plant(a_lane_does_not_look filter/insert+contains
"    uint64_t missing = 0;
"
"    uint64_t missing = 0;
    if (group.lanes > 1 && group.lane + 1 == group.lanes)
        return 1;
")

plant(a_word_of_each_lane_not_looked_at filter/insert+contains
"        missing |= filter_missing("
"        if (i == 0 || i + 1 < lane_words(group))
            missing |= filter_missing(")

plant(filter_votes_not_counted filter/insert+contains
"    return !lane_some(lane_poll(group, !filter_look(each, group, line, lower)));"
"    return filter_look(each, group, line, lower);")

plant(filter_read_while_written filter/mixed
"    lane_take(group, line, at, 1, active, FILTER_BLOCK_BYTES);"
"    lane_take(group, line, at, 0, active, FILTER_BLOCK_BYTES);")

plant(told_before_all_lanes_had_set filter/mixed
"            lane_join(group, 1); /* what any lane has set comes before what one of them tells */
"
"")

plant(asked_before_all_lanes_had_heard filter/mixed
"            lane_join(group, 1); /* what one lane has heard holds for all of them */
"
"")

plant(word_read_before_the_or filter/added
"            clear |= bits & ~lane_fetch_or_8((uint64_t *)at + word, bits, shared);"
"            clear |= bits & ~lane_load_8((uint64_t *)at + word), lane_or_8((uint64_t *)at + word, bits, shared);")

plant(word_read_after_the_or filter/added
"            clear |= bits & ~lane_fetch_or_8((uint64_t *)at + word, bits, shared);"
"            lane_or_8((uint64_t *)at + word, bits, shared), clear |= bits & ~lane_load_8((uint64_t *)at + word);")

plant(clear_bits_of_a_word_forgotten filter/added
"            clear |= bits & ~lane_fetch_or_8((uint64_t *)at + word, bits, shared);"
"            clear = bits & ~lane_fetch_or_8((uint64_t *)at + word, bits, shared);")

plant(votes_for_new_keys_not_counted filter/added
"            added = lane_some(lane_poll(group, clear));"
"            added = clear;")

# ---- perfect tables: groups ----

plant(perfect_lost_slot_taken_for_won perfect/insert+insert
"    return slot_swap_key(kind, shared, at, empty, seek->key);"
"    (void)slot_swap_key(kind, shared, at, empty, seek->key);
    return 1;")

plant(perfect_lost_pair_taken_for_won perfect/insert+insert
"        return lane_swap_8((uint64_t *)at, free_pair, slot_pair(seek->key, value), shared) == free_pair;"
"        return lane_swap_8((uint64_t *)at, free_pair, slot_pair(seek->key, value), shared), 1;")

plant(perfect_lost_slot_not_tried_again perfect/insert+insert
"    return done ? PERFECT_DONE : PERFECT_AGAIN;"
"    return done ? PERFECT_DONE : PERFECT_OVERFLOW;")

plant(perfect_not_the_lowest_free_slot perfect/insert+insert
"        done = perfect_claim(kind, shared, view, seek, lane_first(frees, stride), *value);"
"        done = perfect_claim(kind, shared, view, seek,
                             simt.current->index / group.lanes % 2 ? 31u - (uint32_t)__builtin_clz(frees.bits)
                                                                   : lane_first(frees, stride), *value);")

plant(perfect_every_lane_claims perfect/insert+insert
"    } else if (room && lane_chosen(group, offers)) {"
"    } else if (room && lane_any(frees)) {")

plant(perfect_who_finds_the_key_does_not_vote perfect/insert+insert
"    *tells = done;
"
"    *tells = done;
    if (there)
        return PERFECT_WAS_THERE;
")

plant(perfect_lanes_do_not_hear_of_the_claim perfect/insert+insert
"    done = lane_some(lane_poll(group, done));"
"    (void)lane_poll(group, done);")

plant(perfect_value_fetched_before_it_is_there perfect/fetch+fetch
"mode == SLOT_KEEP || mode == SLOT_OVERWRITE;"
"mode != SLOT_COMBINE;")

plant(perfect_first_value_stored_over_a_sum perfect/accumulate+accumulate
"mode == SLOT_KEEP || mode == SLOT_OVERWRITE;"
"mode != SLOT_FETCH;")

plant(perfect_combined_without_an_atomic perfect/accumulate+accumulate
"            lane_combine_8((uint64_t *)at, rule, *value, shared);"
"            lane_store_8((uint64_t *)at, loom__combine_8(rule, lane_load_8((const uint64_t *)at), *value));")

plant(perfect_combined_4_without_an_atomic perfect/accumulate+accumulate
"            lane_combine_4((uint32_t *)at, rule, (uint32_t)*value, shared);"
"            lane_store_4((uint32_t *)at, loom__combine_4(rule, lane_load_4((const uint32_t *)at), (uint32_t)*value));")

plant(perfect_lost_erasure_of_a_pair_told perfect/erase+erase
"        return lane_swap_8((uint64_t *)at, pair, slot_pair(empty, 0), shared) == pair;"
"        return lane_swap_8((uint64_t *)at, pair, slot_pair(empty, 0), shared), 1;")

plant(perfect_lost_erasure_told perfect/erase+erase
"    if (!slot_swap_key(kind, shared, at, seek->key, empty))
        return 0;"
"    (void)slot_swap_key(kind, shared, at, seek->key, empty);")

plant(perfect_lanes_do_not_hear_of_the_erasure perfect/erase+erase
"    erased = lane_some(lane_poll(group, erased));"
"    (void)lane_poll(group, erased);")

plant(perfect_value_left_in_a_free_slot perfect/erase+erase
"        slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), 0); /* P2 */"
"        (void)0;")

plant(perfect_mark_left_standing perfect/erase+erase
"            perfect_repay(shared, view, seek->partition_index, 1);"
"            (void)0;")

plant(perfect_erased_key_not_counted perfect/erase+erase
"        if (old == word)
            break;
        word = old;"
"        (void)old;
        break;")

plant(perfect_erased_key_counted_without_an_atomic perfect/erase+erase
"        const uint32_t old = lane_swap_4(at, word, perfect_repaid(word, keys), shared);"
"        const uint32_t old = word;
        lane_store_4(at, perfect_repaid(word, keys));")

plant(perfect_lanes_do_not_hear_of_the_find perfect/find+find
"    look.found = lane_some(lane_poll(group, look.mine));"
"    (void)lane_poll(group, look.mine);
    look.found = look.mine;")

plant(perfect_update_of_another_slot perfect/update+update
"        perfect_meet(kind, SLOT_OVERWRITE, LOOM__ADD, shared, view, seek, look.slot, look.pair, &value);"
"        perfect_meet(kind, SLOT_OVERWRITE, LOOM__ADD, shared, view, seek, look.slot ^ (group.lane & 1), look.pair, &value);")

# ---- perfect tables: room made by a team ----

plant(perfect_overfull_found_too_early perfect/room
"        lane_team_store_4(&scratch->overfull, UINT32_MAX);
    lane_team_wait(owner->team);
"
"        lane_team_store_4(&scratch->overfull, UINT32_MAX);
")

plant(perfect_overfull_read_too_early perfect/room
"            lane_team_least(&scratch->overfull, bucket);
    }
    lane_team_wait(owner->team);
"
"            lane_team_least(&scratch->overfull, bucket);
    }
")

plant(perfect_cells_compared_too_early perfect/room
"                lane_team_store_4(&scratch->cells[0], perfect_cell(place));
        }
        lane_team_wait(owner->team);
"
"                lane_team_store_4(&scratch->cells[0], perfect_cell(place));
        }
")

plant(perfect_best_candidate_read_too_early perfect/room
"            lane_team_least(&scratch->best, best);
    }
    lane_team_wait(owner->team);
"
"            lane_team_least(&scratch->best, best);
    }
")

plant(perfect_keys_of_other_lanes_not_counted perfect/room
"reading.counts[i] = lane_sum(owner->alone, counts[i]);"
"reading.counts[i] = counts[i];")

plant(perfect_plan_dropped_while_it_is_read perfect/room
"        lane_team_store_4(perfect_shift_word(scratch, lane_team_load_4(&scratch->touched[i])), 0);
    lane_team_wait(owner->team);
"
"        lane_team_store_4(perfect_shift_word(scratch, lane_team_load_4(&scratch->touched[i])), 0);
")

plant(perfect_codes_changed_while_keys_are_lifted perfect/room
"    perfect_lift(kind, owner, scratch, moves);
    lane_team_wait(owner->team);
"
"    perfect_lift(kind, owner, scratch, moves);
")

plant(perfect_keys_put_back_by_old_codes perfect/room
"| wanted << at);
        }
    lane_team_wait(owner->team);
"
"| wanted << at);
        }
")

plant(perfect_keys_dealt_while_slots_are_emptied perfect/room
"        lane_store_8(&owner->words[i], (uint64_t)salt << 60);
    lane_team_wait(owner->team);
"
"        lane_store_8(&owner->words[i], (uint64_t)salt << 60);
")

plant(perfect_outcome_read_too_early perfect/room
"                lane_team_store_4(&scratch->room, used < perfect_slots(kind));
        }
        lane_team_wait(owner->team);
"
"                lane_team_store_4(&scratch->room, used < perfect_slots(kind));
        }
")

plant(perfect_outcome_overwritten_too_early perfect/room
"        uint32_t done = lane_team_load_4(&scratch->room);
        lane_team_wait(owner->team);
"
"        uint32_t done = lane_team_load_4(&scratch->room);
")

plant(perfect_keys_still_being_added_up perfect/room
"/* a counter that is unused now, and zero */
    }
    lane_team_wait(owner->team);
"
"/* a counter that is unused now, and zero */
    }
")

plant(perfect_sum_reset_too_early perfect/room
"    uint32_t used = lane_team_load_4(&scratch->lifted);
    lane_team_wait(owner->team);
"
"    uint32_t used = lane_team_load_4(&scratch->lifted);
")

plant(perfect_word_read_too_late perfect/room
"    lane_team_wait(owner->team); /* all lanes have read the word */
"
"")

plant(perfect_deal_not_charged perfect/room
"        *word = perfect_charged(owner->view, *word);
"
"")

plant(perfect_salt_of_the_first_word_alone perfect/room
"        lane_store_8(&owner->words[i], (uint64_t)salt << 60);"
"        lane_store_8(&owner->words[i], i == 0 ? (uint64_t)salt << 60 : 0);")

plant(perfect_value_left_where_a_key_was_lifted perfect/room
"        slot_store_value(kind, perfect_value(kind, view, partition, bucket, slot), 0);
"
"")

plant(perfect_plan_left_in_scratch perfect/room
"        lane_team_store_4(&scratch->touches, 0);
"
"")

plant(perfect_counters_of_a_sum_left perfect/room
"    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&scratch->lifted, 0);
    lane_team_wait(owner->team);
    return"
"    lane_team_wait(owner->team);
    return")

plant(perfect_stashed_cells_not_counted perfect/room
"                (void)lane_team_draw(&scratch->stashed, 1);
"
"                (void)0;
")

plant(perfect_stashed_cells_counted_twice perfect/room
"    lane_team_store_4(&scratch->stashed, 0);
"
"")

# ---- perfect tables: other codes for the cells of several keys ----

# ---- perfect: groups beside each other give other codes to cells ----

plant(perfect_cell_held_by_two perfect/recode
"lane_fetch_or_8(owner->words + (cell >> 4), (uint64_t)PERFECT_STASHED << 4 * (cell & 15), owner->shared);"
"lane_load_8(owner->words + (cell >> 4));")

plant(perfect_hold_not_acquired perfect/recode
"        lane_acquire(owner->shared); /* what the last holder did */
"
"")

plant(perfect_hold_seen_by_the_first_lane_alone perfect/recode
"    lane_join(owner->alone, owner->shared);
    word = lane_sum"
"    word = lane_sum")

plant(perfect_given_back_unreleased perfect/recode
"        lane_release(owner->shared); /* what the whole group did: its lanes have joined since */
"
"")

plant(perfect_other_cell_kept perfect/recode
"        if (held && !first)
"
"        if (held && !first && stored)
")

plant(perfect_other_cell_given_back_as_it_was perfect/recode
"            perfect_give_back(owner, cell, to);"
"            perfect_give_back(owner, cell, from);")

plant(perfect_copies_left_behind perfect/recode
"    for (; copies > 0; copies--, slots >>= 4) {"
"    for (; copies > 0 && !failed; copies--, slots >>= 4) {")

plant(perfect_lanes_move_apart perfect/recode
"    failed = lane_some(lane_poll(owner->alone, failed));
"
"")

plant(perfect_keys_of_a_failed_move_cleared perfect/recode
"        if (failed) {"
"        if (0) {")

plant(perfect_no_second_look_for_the_key perfect/recode
"&beside->line, beside->seek.key, first && held);"
"&beside->line, beside->seek.key, 0);")

plant(perfect_moves_where_nothing_may perfect/recode
"        wanted = perfect_mark_in(lane_load_4(&owner->view->marks[owner->partition_index])) == PERFECT_UNMARKED;"
"        wanted = 1;")

plant(perfect_fetched_value_kept_to_itself perfect/recode
"        *value = look->found ? met : *value;"
"        (void)met;")

plant(perfect_zero_stored_behind_the_key perfect/recode
"        lane_release(shared); /* zero first: the lane that claims the slot stores its own value */
"
"")

plant(perfect_lost_slot_stored_in perfect/recode
"        if (perfect_claim_slot(kind, shared, view, seek, slot, value)) {"
"        if (perfect_claim_slot(kind, shared, view, seek, slot, value) || 1) {")

plant(perfect_stores_by_the_old_code perfect/recode
"        beside->seek.bucket = perfect_bucket(beside->seek.place, to, owner->salt, owner->view->subrange);"
"        (void)0;")

plant(perfect_no_other_cell_tried perfect/recode
"    *cell = first ? perfect_cell(beside->seek.place) : other;"
"    *cell = first ? perfect_cell(beside->seek.place) : UINT32_MAX;")

plant(perfect_moved_keys_still_seen perfect/recode
"    lane_join(owner->alone, owner->shared); /* the first lane, which continues, sees what all lanes cleared */
"
"")

plant(perfect_moved_without_need perfect/recode
"held && !there && !room);"
"held && !there);")

plant(perfect_word_of_codes_stored_whole perfect/recode
"    (void)lane_and_8(owner->words + (cell >> 4), ~gone, owner->shared);"
"    lane_store_8(owner->words + (cell >> 4), lane_load_8(owner->words + (cell >> 4)) & ~gone);")

plant(perfect_own_cell_kept perfect/recode
"        if (ends && beside->code != PERFECT_STASHED)"
"        if (ends && !over && beside->code != PERFECT_STASHED)")

plant(perfect_own_cell_given_back_each_turn perfect/recode
"        if (ends && beside->code != PERFECT_STASHED)"
"        if (beside->code != PERFECT_STASHED)")

plant(perfect_turns_without_end perfect/recode
"beside->turn > perfect_slots(kind) || (first && (!held || moved));"
"first && (!held || moved);")

plant(perfect_stored_is_not_told perfect/recode
"    stored = lane_some(lane_poll(owner->alone, stored));
"
"")

# ---- perfect tables: many keys at once, by a team ----

plant(perfect_sum_of_counters_reset_too_late perfect/repair
"        lane_team_store_4(sum, 0);
    lane_team_wait(codes->team);
"
"        lane_team_store_4(sum, 0);
")

plant(perfect_sum_of_counters_read_too_early perfect/repair
"    lane_team_add(codes->team, sum, missing);
    lane_team_wait(codes->team);
"
"    lane_team_add(codes->team, sum, missing);
")

plant(perfect_round_reset_too_late perfect/repair
"        lane_team_store_4(&codes->round->wanted, 0);
    }
    lane_team_wait(codes->team);
"
"        lane_team_store_4(&codes->round->wanted, 0);
    }
")

plant(perfect_trouble_of_other_lanes_not_seen perfect/repair
"    return lane_team_count(codes->team, wanted != 0);"
"    lane_team_wait(codes->team);
    return wanted != 0;")

plant(perfect_suspects_of_all_cells_still_listed perfect/repair
"each part of a warp by itself */
    }
    lane_team_wait(codes->team);
"
"each part of a warp by itself */
    }
")

plant(perfect_fills_added_without_an_atomic perfect/repair
"    return lane_team_draw(&codes->fills[bucket / 4], keys << at) >> at & 255; /* modulo 2^32: also subtracts */"
"    const uint32_t was = lane_team_load_4(&codes->fills[bucket / 4]);
    lane_team_store_4(&codes->fills[bucket / 4], was + (keys << at));
    return was >> at & 255;")

plant(perfect_counted_while_counters_are_cleared perfect/repair
"        lane_team_store_4(&repair->own->room, 0);
    }
    lane_team_wait(repair->owner.team);
"
"        lane_team_store_4(&repair->own->room, 0);
    }
")

plant(perfect_coming_counted_while_the_table_is perfect/repair
"    uint32_t mine = perfect_count_table(kind, repair);
    lane_team_wait(repair->owner.team);
"
"    uint32_t mine = perfect_count_table(kind, repair);
")

plant(perfect_cell_marked_without_an_atomic perfect/repair
"    return (lane_team_or(&repair->bits[cell / 32], bit) & bit) == 0;"
"    const uint32_t was = lane_team_load_4(&repair->bits[cell / 32]);
    lane_team_store_4(&repair->bits[cell / 32], was | bit);
    return (was & bit) == 0;")

plant(perfect_troubles_listed_while_cleared perfect/repair
"    perfect_clear_bits(repair);
    lane_team_wait(repair->owner.team);
    perfect_list_troubles(kind, repair);
"
"    perfect_clear_bits(repair);
    perfect_list_troubles(kind, repair);
")

plant(perfect_troubles_read_while_listed perfect/repair
"    perfect_list_troubles(kind, repair);
    lane_team_wait(repair->owner.team);
"
"    perfect_list_troubles(kind, repair);
")

plant(perfect_suspects_still_listed perfect/repair
"perfect_cell(perfect_coming_place(kind, repair, i)), wanted);
    lane_team_wait(repair->owner.team);
"
"perfect_cell(perfect_coming_place(kind, repair, i)), wanted);
")

plant(perfect_empty_list_reset_before_it_is_seen perfect/repair
"        lane_team_wait(codes->team); /* all lanes have read the count before it is reset */
"
"")

plant(perfect_moves_while_others_bid perfect/repair
"            lane_team_least(&codes->bids[own.bucket], own.value);
    }
    lane_team_wait(codes->team);
"
"            lane_team_least(&codes->bids[own.bucket], own.value);
    }
")

plant(perfect_fills_read_while_cells_move perfect/repair
"            perfect_note_move(repair, perfect_bidder(value));
    }
    lane_team_wait(codes->team);
"
"            perfect_note_move(repair, perfect_bidder(value));
    }
")

plant(perfect_moved_cell_not_noted perfect/repair
"            perfect_note_move(repair, perfect_bidder(value));
"
"            (void)repair;
")

plant(perfect_fill_read_beside_draws perfect/repair
"bucket == UINT32_MAX || perfect_add_fill(&repair->codes, bucket, 0) > perfect_slots(kind);"
"bucket == UINT32_MAX || perfect_fill(&repair->codes, bucket) > perfect_slots(kind);")

plant(perfect_nothing_withdrawn perfect/repair
"        lane_team_store_1(&repair->states[i], left ? PERFECT_LEFT : PERFECT_COMES);"
"        lane_team_store_1(&repair->states[i], PERFECT_COMES);")

plant(perfect_plan_that_overfills_carried_out perfect/repair
"    if (perfect_look_for_trouble(&repair->codes, perfect_slots(kind)) != 0)
        return 0;
"
"    (void)perfect_look_for_trouble(&repair->codes, perfect_slots(kind));
")

plant(perfect_plan_where_nothing_may_move perfect/repair
"    if (perfect_mark_in(lane_load_4(&repair->owner.view->marks[repair->owner.partition_index])) != PERFECT_UNMARKED)
        return 0; /*"
"    if (0)
        return 0; /*")

plant(perfect_too_many_moves_carried_out perfect/repair
"    if (moves > repair->most.moves)
        return 0;
"
"    if (0)
        return 0;
")

plant(perfect_changes_written_over_moves perfect/repair
"        lane_team_wait(codes->team); /* bits are cleared, and entries that may be overwritten are read */
        if (i >= moves"
"        if (i >= moves")

plant(perfect_changes_read_while_listed perfect/repair
"cell << 4 | before);
    }
    lane_team_wait(codes->team);
"
"cell << 4 | before);
    }
")

plant(perfect_lifted_beyond_the_memory perfect/repair
"    return lane_team_load_4(&repair->own->room) * sizeof(perfect_lifted) <= 2 * codes->words * 16 * sizeof(uint32_t);"
"    return 1;")

plant(perfect_put_back_by_old_codes_or_not_lifted perfect/repair
"| (uint64_t)repair->owner.salt << 60);
    lane_team_wait(repair->owner.team);
"
"| (uint64_t)repair->owner.salt << 60);
")

plant(perfect_codes_without_their_salt perfect/repair
"perfect_packed_codes(&repair->codes, i) | (uint64_t)repair->owner.salt << 60);"
"perfect_packed_codes(&repair->codes, i));")

plant(perfect_inserted_while_keys_are_put_back perfect/repair
"LOOM__ADD, 1, owner->alone, owner->view, &seek, &value);
    }
    lane_team_wait(owner->team);
"
"LOOM__ADD, 1, owner->alone, owner->view, &seek, &value);
    }
")

plant(perfect_state_read_by_all_lanes perfect/repair
"    if (lane_leads(repair->owner.alone))
        left = lane_team_load_1"
"    if (1)
        left = lane_team_load_1")

plant(perfect_left_and_not_listed perfect/repair
"        lane_team_store_1(&repair->states[i], PERFECT_LEFT);
"
"        (void)i;
")

plant(perfect_left_counted_before_it_is_zero perfect/repair
"        lane_team_store_4(&repair->own->lifted, 0);
    lane_team_wait(team);
"
"        lane_team_store_4(&repair->own->lifted, 0);
")

plant(perfect_left_written_over_items perfect/repair
"        lane_team_wait(team); /* entries that may be overwritten are read */
        if (left)"
"        if (left)")

plant(perfect_left_counted_too_early perfect/repair
"            lane_store_4(repair->coming + lane_team_draw(&repair->own->lifted, 1), index);
    }
    lane_team_wait(team);
"
"            lane_store_4(repair->coming + lane_team_draw(&repair->own->lifted, 1), index);
    }
")

# ---- chains of buckets ----

plant(place_appended_without_an_atomic chain/append+append
"    if (lane_swap_8(at, seen, seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0), shared) != seen)
        return CHAIN_GO_ON;"
"    lane_store_8(at, seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0));")

plant(place_appended_after_a_lost_swap chain/append+append
"    if (lane_swap_8(at, seen, seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0), shared) != seen)
        return CHAIN_GO_ON;"
"    (void)lane_swap_8(at, seen, seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0), shared);")

plant(append_stores_no_value chain/append+append
"    chain_store_value(view, list_first(seen) + count - before, value);
"
"")

plant(list_touched_without_an_atomic chain/append+append
"        if (lane_swap_8(at, seen, seen | LIST_TOUCHED, shared) != seen)
            return CHAIN_GO_ON;"
"        lane_store_8(at, seen | LIST_TOUCHED);")

plant(list_touched_after_a_lost_swap chain/append+append
"        if (lane_swap_8(at, seen, seen | LIST_TOUCHED, shared) != seen)
            return CHAIN_GO_ON;"
"        (void)lane_swap_8(at, seen, seen | LIST_TOUCHED, shared);")

plant(touched_list_not_left_alone chain/append+append
"    if (seen == 0 || list_is_touched(seen))
        return CHAIN_GO_ON;
"
"    if (seen == 0)
        return CHAIN_GO_ON;
")

plant(passed_bits_not_acquired chain/append+append/count
"            lane_acquire(shared); /* filter bits"
"            (void)0; /* filter bits")

plant(ready_bit_not_joined chain/append+append/count
"    lane_join(group, shared); /* the ready bit"
"    /* the ready bit")

plant(fill_not_raised chain/append+append
"seen + 1 + (list_fill(seen) > 0 ? LIST_ONE_FILL : 0)"
"seen + 1")

plant(fill_of_a_large_bucket chain/append+append
" && next.values <= LIST_MOST_FILL;"
";")

plant(bucket_without_its_fill chain/append+append
" |
                         (next->has_fill ? LIST_ONE_FILL : 0));"
");")

plant(link_not_released chain/append+append
"        lane_release(shared); /* the link comes before the handle that names its bucket */
"
"        (void)0;
")

plant(link_not_acquired chain/append+append
"    lane_acquire(shared); /* the link was written before this handle */
"
"")

plant(link_before_is_not_linked chain/append+append
"list_link_make(list_is_linked(seen), list_first(seen), next->before)"
"list_link_make(0, list_first(seen), next->before)")

plant(bucket_not_linked chain/append+append
" | (next->link > 0 ? LIST_LINKED : 0) |"
" |")

plant(bucket_of_two_not_exact chain/append+append
"count + 1, next->exact)"
"count + 1, 0)")

plant(value_of_one_left_behind chain/append+append
"    else if (count > 0)
        chain_store_value(view, place, list_one_value(seen));
"
"")

plant(bucket_too_small_for_one_and_another chain/append+append
"    next.values = usual > least ? usual : least; "
"    next.values = usual + 0 * least; ")

plant(new_key_appended_twice chain/append+append
"own = answer.new_key && multi_has_ones(view)
"
"own = 0
")

plant(link_in_the_bucket_before chain/append+append
"        return old + next->link + multi_padding(next->kind, old + next->link);"
"        return old + multi_padding(next->kind, old);")

plant(heap_taken_without_an_atomic chain/append+append
"    const uint64_t old = lane_draw_8(&view->lists->used, next->all, shared);"
"    const uint64_t old = lane_load_8(&view->lists->used);
    lane_store_8(&view->lists->used, old + next->all);")

plant(more_values_than_most chain/append+append
"    if (count >= view->most)
        return CHAIN_REFUSED;
"
"")

plant(end_of_the_heap_ignored chain/append+append/full
"    if (old <= view->room && next->all <= view->room - old)"
"    if (old <= view->room)")

plant(end_of_used_not_told chain/append+append/full
"        lane_store_8(&view->lists->end, old);
"
"        (void)0;
")

plant(refused_bucket_given_back chain/append+append/brim
"    if (old <= view->room)
        lane_store_8(&view->lists->end, old);
"
"    (void)lane_draw_8(&view->lists->used, 0 - next->all, shared);
")

plant(refused_list_stays_touched chain/append+append/full
"        lane_store_8(at, seen);
"
"")

plant(key_without_values_not_told chain/append+append/full
"    if (list_count(handle) == 0)
        lane_store_8(&view->lists->bare, 1);
"
"")

plant(refused_key_not_told chain/append+append/full
"refused || found == OPEN_NO_ROOM ? CHAIN_REFUSED : CHAIN_GO_ON"
"refused ? CHAIN_REFUSED : CHAIN_GO_ON")

plant(key_without_values_found chain/append+count
"        simt_item_answer(own->item, count > 0 ? LOOM_OK : LOOM_NOT_FOUND, count);"
"        simt_item_answer(own->item, found.found ? LOOM_OK : LOOM_NOT_FOUND, count);")

plant(list_erased_twice chain/erase+erase
"    if (answer.outcome == OPEN_DONE) { /* no list"
"    if (walk->handle != 0) { /* no list")

plant(older_piece_taken_for_linked chain/find_all+erase
"    piece.linked = list_link_linked(link);"
"    piece.linked = 1;")

# ---- LARGE lists ----

plant(reservation_beyond_the_count_forgotten reserve+reserve/large
"    return list_kind(handle) == LIST_LARGE ? handle : "
"    return list_kind(handle) <= LIST_LARGE ? handle : ")

plant(large_bucket_at_any_place chain/append+append/large
"        return old + next->link + multi_padding(next->kind, old + next->link);"
"        return old + next->link;")

plant(gap_before_a_large_bucket_not_taken chain/append+append/large
"    next.all = next.link + next.values + (next.kind == LIST_LARGE ? LIST_LARGE_UNIT - 1 : 0);"
"    next.all = next.link + next.values;")

plant(kind_of_the_bucket_alone chain/append+append/large
"    next.kind = list_kind_for(next.before + next.values);"
"    next.kind = list_kind_for(next.values);")

plant(gap_not_in_the_end_of_used chain/append+append/large/full
"        lane_store_8(&view->lists->end, old);
"
"        lane_store_8(&view->lists->end, old - (next->all - next->link - next->values));
")

# ---- rows ----

plant(rows_row_not_released rows/insert+insert
"    lane_release(shared); /* the row comes before its ready bit (I4) */
"
"")

plant(rows_parts_not_joined rows/insert+insert
"    lane_join(group, shared); /* all parts come before the ready bit */
"
"")

plant(rows_row_not_acquired rows/insert+insert
"        lane_acquire(shared); /* the row was stored before its ready bit */
"
"")

plant(rows_key_not_compared rows/insert+insert
"        else if (open_same_key("
"        else if (1 || open_same_key(")

plant(rows_no_wait_for_a_row rows/insert+insert
"            *waits = 1;"
"            (void)0;")

plant(rows_unready_row_compared rows/insert+insert
"        if (!(ready >> slot & 1))"
"        if (0)")

plant(rows_erased_key_found rows/erase+find
"        ready = lane_load_8((const uint64_t *)word);
"
"")

plant(rows_tag_stored_without_a_swap rows/insert+insert
"        const uint32_t old = lane_swap_4(at, seen, seen | tag << shift, shared);"
"        const uint32_t old = seen;
        lane_store_4(at, seen | tag << shift);")

plant(rows_taken_slot_claimed rows/insert+insert
"(seen >> shift & 0xffff) == 0;) {"
"1;) {")

plant(rows_wide_value_written_by_two rows/update+update
"    if (shared && !(lane_and_8(word, ~ready, shared) & ready))
        return 0;
"
"")

plant(rows_owner_not_released rows/update+update
"    lane_release(shared); /* what this lane read and wrote comes before the ready bit */
"
"")

plant(rows_owner_not_acquired rows/insert+find-or-insert
"    lane_acquire(shared); /* what the former owner wrote comes before what this lane reads and writes */
"
"")

plant(rows_parts_of_a_value_not_joined rows/update+update
"    lane_join(group, shared); /* all parts come before the ready bit */
"
"")

plant(rows_value_not_released rows/insert+find-or-insert
"    if (holds)
        open_publish("
"    if (holds && taken)
        open_set_in_word(SLOT_TAG, open_line(SLOT_TAG, walk, walk->free_bucket), slot, shared);
    else if (holds)
        open_publish(")

plant(rows_value_in_another_bucket rows/insert+insert
"        const uint32_t bucket = taken ? walk->bucket : walk->free_bucket;"
"        const uint32_t bucket = walk->free_bucket;")

plant(rows_update_does_not_wait rows/update+update
"        return OPEN_GO_ON; /* another group has the row: repeat the turn */"
"        return OPEN_DONE;")

plant(rows_erased_by_two rows/erase+erase
"    if (!open_clear_in_word(kind, line, slot, shared))
        return 0;
"
"    (void)open_clear_in_word(kind, line, slot, shared);
")

plant(rows_tag_cleared_without_an_atomic rows/erase+erase
"    (void)lane_and_8((uint64_t *)(line + slot / 4 * 8), ~((uint64_t)0xffff << slot % 4 * 16), shared);"
"    uint64_t *const at = (uint64_t *)(line + slot / 4 * 8);
    lane_store_8(at, lane_load_8(at) & ~((uint64_t)0xffff << slot % 4 * 16));")

plant(rows_located_key_in_another_slot rows/erase-by-slot+erase
"    const uint32_t slot = (uint32_t)(number % open_slots(SLOT_TAG));"
"    const uint32_t slot = (uint32_t)((number + 1) % open_slots(SLOT_TAG));")

plant(rows_located_key_erased_by_two rows/erase-by-slot+erase
"    if (!open_clear_in_word(kind, line, slot, shared))
        return 0;
"
"    (void)open_clear_in_word(kind, line, slot, shared);
")

plant(rows_combined_without_an_atomic rows/accumulate+accumulate
"        lane_combine_8((uint64_t *)at, rule, number, shared);"
"        lane_store_8((uint64_t *)at, loom__combine_8(rule, lane_load_8((const uint64_t *)at), number));")

plant(rows_still_being_lifted rows/upkeep
"    lane_team_wait(team); /* all keys are lifted"
"    (void)0; /* all keys are lifted")

plant(rows_strangers_before_those_at_home rows/upkeep
"        lane_team_wait(team);
"
"")

plant(rows_lifted_key_left_in_its_slot rows/upkeep
"        slot_clear_tag(OPEN_ALONE, at, slot);"
"        (void)0;")

plant(rows_nobody_brought_home rows/upkeep
"            if (open_bring_home("
"            if (0 && open_bring_home(")

plant(rows_retired_tag_left rows/upkeep
"            slot_clear_tag(OPEN_ALONE, at, loom__lowest_bit(gone));"
"            (void)0;")

plant(rows_freed_slot_not_retired rows/mixed
"            slot_retire_tag(shared, line, slot);"
"            slot_clear_tag(shared, line, slot);")

plant(rows_mixed_fetch_takes_the_row rows/mixed
"    if (mode == SLOT_FETCH && shared == OPEN_MIXED && !open_row_has_number(rows)) {"
"    if (0) {")

plant(rows_parts_read_too_early rows/keep+find
"    lane_join(group, shared); /* what the lane that compared the key has acquired comes before what all lanes read */
"
"")

plant(rows_taken_row_looks_absent rows/insert+find
"(look.found | look.waits))"
"look.found)")

# ---- byte strings ----

plant(strings_bytes_taken_without_an_atomic rows/strings/insert+insert
"    at = lane_draw_8(used, bytes, 1);"
"    at = lane_load_8(used);
    lane_store_8(used, at + bytes);")

plant(strings_end_of_the_heap_not_checked rows/strings/insert+insert/brim
"    if (at <= rows->heap_room && bytes <= rows->heap_room - at)
        return at;"
"    return at;")

plant(strings_second_piece_taken rows/strings/insert+insert
"    if (kind != SLOT_STRING || walk->piece < OPEN_NO_BYTES_LEFT)"
"    if (kind != SLOT_STRING)")

plant(strings_lost_piece_not_counted rows/strings/insert+insert
"        if (settled && !stored && lane_leads(group))
            open_drop_piece(view, walk, *value);
"
"")

plant(strings_stored_piece_dropped rows/strings/insert+insert
"        if (settled && !stored && lane_leads(group))"
"        if (settled && lane_leads(group))")

plant(strings_refused_key_stored rows/strings/insert+insert/brim
"    return walk->piece != OPEN_NO_BYTES_LEFT;"
"    walk->piece = walk->piece == OPEN_NO_BYTES_LEFT ? 0 : walk->piece;
    return 1;")

plant(strings_refusal_not_told rows/strings/insert+insert/brim
"        open_tell_piece(group, walk, piece);
"
"")

plant(strings_piece_not_told rows/strings/insert+insert
"    if (lane_some(lane_poll(group, changed)))
        walk->piece = now;"
"    (void)now;")

plant(strings_piece_dropped_by_all rows/strings/insert+insert
"        if (settled && !stored && lane_leads(group))
            open_drop_piece(view, walk, *value);"
"        if (settled && !stored)
            open_drop_piece(view, walk, *value);")

plant(strings_update_leaves_the_ballot rows/strings/update+update/brim
"    lane_truth no_bytes = 0;
    if (kind == SLOT_STRING)
        no_bytes = lane_some(lane_poll(group, active & (walk->piece == OPEN_NO_BYTES_LEFT)));
"
"    lane_truth no_bytes = 0;
    if (kind == SLOT_STRING && lane_some(lane_poll(group, active & (walk->piece == OPEN_NO_BYTES_LEFT))))
        return OPEN_NO_BYTES;
")

plant(strings_row_not_given_back rows/strings/update+update/brim
"        if (!open_replace_string(rows, walk, at, value[0])) {"
"        if (!open_replace_string(rows, walk, at, value[0])) {
            if (shared)
                return 1;")

plant(strings_piece_too_short rows/strings/update+update
"    if (string.length > there.mark) {"
"    if (0) {")

plant(strings_replaced_piece_not_counted rows/strings/update+update
"        open_count_unused(rows, partition, there.mark);
"
"")

plant(strings_erased_not_counted rows/strings/erase+find
"        open_drop_strings(view, walk, open_row_at(view, walk, slot));"
"        (void)0;")

plant(strings_stored_key_not_found rows/strings/insert+insert
"    return lane_same_string(rows->heap + there.at, (const unsigned char *)(uintptr_t)wanted.at, there.length);"
"    return 0;")

plant(strings_value_over_the_key rows/strings/insert+insert
"        place += open_piece_of(key.length);
"
"")

plant(strings_parts_not_joined rows/strings/insert+insert
"    lane_join(group, shared); /* all parts come before the ready bit */
"
"")

plant(strings_part_misplaced rows/strings/insert+insert
"        lane_write_string(rows->heap + place + begin,"
"        lane_write_string(rows->heap + place,")

# ---- tickets ----

plant(tickets_row_not_released tickets/keep+find
"    lane_release(shared); /* the row, and the depth, come before the access bit */"
"")

plant(tickets_row_not_acquired tickets/keep+find
"    lane_acquire(shared); /* the row was stored before the access bit that this lane saw */"
"")

plant(tickets_key_not_compared tickets/insert+insert
"    return lane_same_bytes(ticket_row(view, walk->partition, walk->slot).key, walk->key, view->key_bytes);"
"    return 1;")

plant(tickets_busy_ticket_passed tickets/insert+insert
"    if (look.is_info && look.state == 0)
        return TICKET_GO_ON; /* it may be the key: wait */"
"")

plant(tickets_claimed_without_a_swap tickets/insert+insert
"        const uint64_t old = lane_swap_8(look.word, seen, busy, shared);"
"        const uint64_t old = seen;
        lane_store_8(look.word, busy);")

plant(tickets_lost_slot_taken_for_won tickets/insert+insert
"        if (!(state & TICKET_AVAILABLE) || (shared == TICKET_MIXED && state != TICKET_STATE))
            return 0;"
"")

plant(tickets_access_bit_set_too_early tickets/keep+find
"ticket_bit(&look, walk->info);
        const uint64_t old"
"ticket_bit(&look, walk->info | TICKET_ACCESS);
        const uint64_t old")

plant(tickets_info_not_set tickets/keep+find
"        const uint64_t busy = (seen & ~ticket_bit(&look, all)) | ticket_bit(&look, walk->info);"
"        const uint64_t busy = seen & ~ticket_bit(&look, all);")

plant(tickets_depth_not_raised tickets/insert+insert
"        lane_combine_4(&view->depths[walk->partition], LOOM__MAX_UNSIGNED, walk->open_depth, shared); /* T3 */"
"        (void)view;")

plant(tickets_no_look_after_a_lost_slot tickets/insert+insert
"    walk->slot = walk->open_slot;
    walk->depth = walk->open_depth;
    walk->open_slot = TICKET_NO_SLOT;"
"    walk->open_slot = TICKET_NO_SLOT;")

plant(tickets_number_combined_in_two_steps tickets/accumulate+accumulate
"            lane_combine_8((uint64_t *)(void *)at, rule, number, shared);"
"            lane_store_8((uint64_t *)(void *)at,
                         loom__combine_8(rule, lane_load_8((const uint64_t *)(const void *)at), number));")

plant(tickets_wide_value_written_by_two tickets/update+update
"    if (shared && !(lane_and_8(look->word, ~access, shared) & access))
        return 0;"
"")

plant(tickets_owner_not_acquired tickets/accumulate+accumulate
"    lane_acquire(shared); /* what the former owner wrote comes before what this lane reads and writes */"
"")

plant(tickets_owner_not_released tickets/accumulate+accumulate
"    lane_release(shared); /* what this lane read and wrote comes before the access bit */"
"")

plant(tickets_update_passes_a_row_that_is_taken tickets/update+update
"    const ticket_outcome outcome = ticket_seek_turn(shared, 1, view, walk, &look);"
"    const ticket_outcome outcome = ticket_seek_turn(shared, 0, view, walk, &look);")

plant(tickets_search_ends_at_a_busy_ticket tickets/mixed
"    if (look->is_info && look->state == 0 && waits)
        return TICKET_GO_ON;"
"    if (look->is_info && look->state == 0 && waits)
        return TICKET_NOT_THERE;")

plant(tickets_erased_by_two tickets/erase+find
"    if (!(lane_and_8(look.word, ~access, shared) & access))
        return TICKET_NOT_THERE; /* another erasure was first (T1) */"
"    (void)lane_and_8(look.word, ~access, shared);")

plant(tickets_erased_ticket_made_free tickets/erase+find
"    lane_or_8(look.word, all & ~access, shared);"
"    lane_or_8(look.word, all, shared);")

plant(tickets_retired_ticket_claimed tickets/mixed
"    const int is_open = is_free || (look.state == TICKET_AVAILABLE && shared != TICKET_MIXED);"
"    const int is_open = is_free || look.state == TICKET_AVAILABLE;")

plant(tickets_mixed_fetch_takes_the_row tickets/mixed
"    if (mode == SLOT_FETCH && shared == TICKET_MIXED) { /* nobody writes the values of present keys */
        lane_read_bytes(to, at, view->value_bytes);
        return 1;
    }"
"")

plant(tickets_search_ends_at_a_retired_ticket tickets/erase+find
"    if (look->state == TICKET_STATE)
        return TICKET_NOT_THERE;"
"    if (look->state & TICKET_AVAILABLE)
        return TICKET_NOT_THERE;")

file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/sim_plants.c CONTENT
"/* Made by tests/simt/plants.cmake. */
#include \"simt/sim_case.h\"

${plant_declarations}simt_open_kernel simt_chain_run;
const sim_plant sim_plants[] = {
    {\"insert_beside_erase\", \"insert+erase\", simt_open_run},
    {\"find_beside_erase_and_insert\", \"find+writers\", simt_open_run},
    {\"find_all_beside_append\", \"chain/append+find_all\", simt_chain_run},
${plant_rows}};
const uint32_t sim_plant_count = sizeof sim_plants / sizeof sim_plants[0];
" @ONLY)
