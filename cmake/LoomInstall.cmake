# Install rules: library, headers, tool, CMake package (hashloom::loom, hashloom::loom_static, hashloom::device),
# pkg-config files. Installed files hold no absolute path, so that the tree may be moved.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hashloom)

set_target_properties(loom_device PROPERTIES EXPORT_NAME device)
install(TARGETS ${loom_libraries} loom_device EXPORT hashloomTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(loom_with_cuda)
    install(TARGETS loom_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
endif()
foreach(header loom.h base.h map.h durable.h filter.h view.h array.h measure.h
        device.cuh device_base.cuh device_map.cuh device_multi.cuh device_perfect.cuh device_rows.cuh device_filter.cuh)
    install(FILES ${PROJECT_SOURCE_DIR}/include/loom/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loom)
endforeach()
# The headers that the device headers include. The install test fails if one is missing here.
foreach(inner core/combine.h core/hash.h core/hash_bytes.h core/lanes.h core/list_handle.h core/list_pieces.h
        core/portable.h core/slot_kind.h core/slot_ops.h core/strings.h core/table_slots.h core/totals.h
        core/word_loads.h engines/filter/filter_layout.h engines/filter/filter_ops.h
        engines/chain/chain_layout.h engines/chain/chain_ops.h engines/multi/multi_layout.h
        engines/open/open_items.h engines/open/open_layout.h engines/open/open_ops.h
        engines/open/open_row_ops.h engines/open/open_rows.h engines/open/open_string_ops.h
        engines/open/open_upkeep.h engines/open/open_walk.h
        engines/perfect/perfect_effort.h engines/perfect/perfect_layout.h engines/perfect/perfect_ops.h
        machines/cuda/core/cuda_lanes.cuh machines/cuda/core/cuda_lanes_team.cuh)
    get_filename_component(place ${inner} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/src/${inner} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/loom/inner/${place})
endforeach()
install(EXPORT hashloomTargets NAMESPACE hashloom:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hashloomConfig.cmake.in
    ${PROJECT_BINARY_DIR}/hashloomConfig.cmake INSTALL_DESTINATION ${package_dir})
# Until 1.0 a minor version may break compatibility: SameMinorVersion.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hashloomConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hashloomConfig.cmake ${PROJECT_BINARY_DIR}/hashloomConfigVersion.cmake
        DESTINATION ${package_dir})

# The pkg-config files derive the prefix from their own place. `pkg-config --static --libs hashloom` also names the
# libraries that a static library needs, but with -lloom the linker takes the shared library unless -static is given.
# hashloom-static names the archive.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /prefix/${pc_dir} /prefix)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")

function(loom_install_pkgconfig pc_name pc_kind pc_definitions pc_libs pc_private)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/hashloom.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${pc_dir})
endfunction()

set(needed_by_static "-pthread -lm -ldl")
if(loom_with_shared)
    loom_install_pkgconfig(hashloom "" "" "-L\${libdir} -lloom" "${needed_by_static}")
else()
    loom_install_pkgconfig(hashloom "" " -DLOOM_STATIC" "-L\${libdir} -lloom ${needed_by_static}" "")
endif()
if(loom_with_static)
    loom_install_pkgconfig(hashloom-static " (static)" " -DLOOM_STATIC"
                           "\${libdir}/libloom.a -Wl,--exclude-libs,libloom.a ${needed_by_static}" "")
endif()

if(LOOM_TOOLS)
    install(TARGETS loom_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
