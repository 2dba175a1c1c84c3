# What `make install` copies, and the two ways to find it again: pkg-config and find_package(tug).
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tug_shared tug_static LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tug DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET tug)
  install(TARGETS tug RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Both files find the prefix from where they lie: `cmake --install --prefix` may choose it late.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tug)
file(RELATIVE_PATH PREFIX_FROM_PC /${pkgconfig_dir} /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tug.pc.in ${PROJECT_BINARY_DIR}/tug.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tug.pc DESTINATION ${pkgconfig_dir})

set(LIBRARY_PATH ${CMAKE_INSTALL_LIBDIR})
set(INCLUDE_PATH ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tugConfig.cmake.in ${PROJECT_BINARY_DIR}/tugConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS LIBRARY_PATH INCLUDE_PATH)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tugConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tugConfig.cmake ${PROJECT_BINARY_DIR}/tugConfigVersion.cmake
        DESTINATION ${package_dir})

# Manual pages: docs/man/x.1.scd, where scdoc is there to make them.
find_program(SCDOC scdoc)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.scd)
if(SCDOC AND pages)
  foreach(page ${pages})
    get_filename_component(name ${page} NAME)
    string(REGEX REPLACE "\\.scd$" "" name ${name})
    string(REGEX REPLACE ".*\\." "" section ${name})
    add_custom_command(
      OUTPUT ${PROJECT_BINARY_DIR}/${name} COMMAND ${SCDOC} < ${page} > ${PROJECT_BINARY_DIR}/${name}
      DEPENDS ${page} VERBATIM)
    list(APPEND man_files ${PROJECT_BINARY_DIR}/${name})
    install(FILES ${PROJECT_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(man ALL DEPENDS ${man_files})
endif()
