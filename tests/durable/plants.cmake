# Plants: faults that the crash test on the model disk must find. Each is one source of src/durable with one text
# replaced, linked in front of the library into a program of its own. A text that no longer stands there exactly once is
# an error here: write the plant anew.
#
#   durable_plant(NAME SOURCE
#                 "text in the source"
#                 "what stands there instead")

set(durable_plants "")

function(durable_plant name source text instead)
    set(path ${PROJECT_SOURCE_DIR}/src/durable/${source})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} contents)
    string(FIND "${contents}" "${text}" first)
    string(FIND "${contents}" "${text}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
        message(FATAL_ERROR "plant ${name}: this does not stand exactly once in ${source}: ${text}")
    endif()
    set(durable_plants ${durable_plants} ${name} PARENT_SCOPE)
    if(NOT with_plants)
        return()
    endif()
    string(REPLACE "${text}" "${instead}" contents "${contents}")
    set(planted ${CMAKE_CURRENT_BINARY_DIR}/durable_plants/${name}.c)
    file(CONFIGURE OUTPUT ${planted} CONTENT "${contents}" @ONLY)
    add_executable(durable_plant_${name} durable/crash_main.c ${planted})
    target_include_directories(durable_plant_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(durable_plant_${name} PRIVATE durable_model loom_static)
endfunction()

durable_plant(commit_without_sync durable.c
    "const loom_status status = durable->disk->ops->sync(file);"
    "(void)file; const loom_status status = LOOM_OK;")
durable_plant(checksums_not_checked blocks.c
    "return checksum == loom__block_checksum(block, seed);"
    "(void)seed; return checksum == checksum;")
durable_plant(rename_before_sync snapshot.c
    "return ops->sync(file);"
    "return LOOM_OK;")
durable_plant(rename_not_synced snapshot.c
    "return disk->ops->sync_names(disk);"
    "return LOOM_OK;")
durable_plant(journal_not_synced_at_opening recovery.c
    "RETURN_IF_FAILED(ops->sync(durable->journal.place.file));"
    "")
durable_plant(records_not_written_again journal.c
    "            RETURN_IF_FAILED(write_again(journal, reader, record_blocks(head.bytes)));"
    "            (void)write_again;")
durable_plant(names_not_synced_at_opening recovery.c
    "RETURN_IF_FAILED(ops->sync_names(durable->disk));"
    "")
durable_plant(chain_not_checked journal.c
    "head->previous != journal->stamp ||"
    "")
durable_plant(full_journal_overwritten journal.c
    "record_blocks(bytes) <= journal->place.ring - journal->used"
    "record_blocks(bytes) <= journal->place.ring")
durable_plant(half_a_record_is_whole journal.c
    "*whole = status == LOOM_OK;"
    "*whole = 1;")
durable_plant(end_noted_before_sync durable.c
    "if (end > durable->synced && "
    "if (end > UINT64_MAX - 1 && ")
durable_plant(claims_to_be_synced durable.c
    "const uint64_t synced = durable->synced;"
    "const uint64_t synced = durable->committed;")
durable_plant(checkpoint_of_no_commit durable.c
    "loom__journal_restart(&durable->journal, epoch, head.stamp);"
    "loom__journal_restart(&durable->journal, epoch, durable->journal.stamp);")
durable_plant(effects_before_clear effects.c
    "    loom__effects_reset(effects);
    (void)add_piece(effects, LOOM__PIECE_CLEAR, 0, 0);"
    "    (void)effects;")
durable_plant(writes_go_on_after_a_failure durable.c
    "const loom_status status = check_failed(durable);"
    "const loom_status status = LOOM_OK;")
durable_plant(unknown_snapshot_is_no_failure durable.c
    "} else if (needed || replaced) {"
    "} else if (needed) {")
