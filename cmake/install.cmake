# The files that `make install` copies, with those for the two ways to find the library: pkg-config and
# find_package(tug).
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tug_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_BINARY_DIR}/libtug.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tug DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET tug)
  install(TARGETS tug RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Both files derive the prefix from their own location, because `cmake --install --prefix` may change it.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tug)
file(RELATIVE_PATH PREFIX_FROM_PC /${pkgconfig_dir} /)
foreach(module tug tug-ps)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${pkgconfig_dir})
endforeach()

set(LIBRARY_PATH ${CMAKE_INSTALL_LIBDIR})
set(INCLUDE_PATH ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tugConfig.cmake.in ${PROJECT_BINARY_DIR}/tugConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS LIBRARY_PATH INCLUDE_PATH)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tugConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tugConfig.cmake ${PROJECT_BINARY_DIR}/tugConfigVersion.cmake
        DESTINATION ${package_dir})

# Manual pages, generated from the command's own tables if scdoc is installed.
find_program(SCDOC scdoc)
if(SCDOC AND TARGET tug AND NOT TUG_SANITIZERS)
  set(man_dir ${PROJECT_BINARY_DIR}/man)
  set(man_script ${PROJECT_SOURCE_DIR}/tools/man)
  add_custom_command(
    OUTPUT ${man_dir}/tug.1 COMMAND ${man_script} $<TARGET_FILE:tug> ${man_dir}
    DEPENDS tug ${man_script} ${PROJECT_SOURCE_DIR}/docs/man/tug.1.scd VERBATIM)
  add_custom_target(man ALL DEPENDS ${man_dir}/tug.1)
  install(DIRECTORY ${man_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  # Manual pages of the C interface, generated from the comments of the public headers.
  set(man3_dir ${PROJECT_BINARY_DIR}/man3)
  set(man3_script ${PROJECT_SOURCE_DIR}/tools/man3)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/tug/*.h)
  add_custom_command(OUTPUT ${man3_dir}/tug.3 COMMAND ${man3_script} ${man3_dir}
                     DEPENDS ${man3_script} ${headers} VERBATIM)
  add_custom_target(man3 ALL DEPENDS ${man3_dir}/tug.3)
  install(DIRECTORY ${man3_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
endif()

# Completions for the Tab key of shells, which the command itself writes.
if(TARGET tug AND NOT TUG_SANITIZERS)
  set(words_dir ${PROJECT_BINARY_DIR}/completion)
  file(MAKE_DIRECTORY ${words_dir})
  add_custom_command(
    OUTPUT ${words_dir}/tug ${words_dir}/_tug ${words_dir}/tug.fish
    COMMAND sh -c "$1 completion bash >tug && $1 completion zsh >_tug && $1 completion fish >tug.fish"
            - $<TARGET_FILE:tug>
    WORKING_DIRECTORY ${words_dir}
    DEPENDS tug VERBATIM)
  add_custom_target(completion ALL DEPENDS ${words_dir}/tug ${words_dir}/_tug ${words_dir}/tug.fish)
  install(FILES ${words_dir}/tug DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${words_dir}/_tug DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${words_dir}/tug.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN man EXCLUDE)

# Alert rules for Prometheus and a board for Grafana (docs/operations.md).
install(DIRECTORY ${PROJECT_SOURCE_DIR}/monitoring/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tug/monitoring)
