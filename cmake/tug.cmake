# Helpers: flags of the whole project, and tug_part(), so that a folder's CMakeLists is a few lines.
# SPDX-License-Identifier: Apache-2.0

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
if(TUG_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

add_library(tug_flags INTERFACE)
target_include_directories(tug_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(tug_flags INTERFACE _GNU_SOURCE TUG_VERSION="${PROJECT_VERSION}")
# No contraction and no value-changing mathematics: the same bits on every CPU (design.md, VI).
target_compile_options(
  tug_flags
  INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wvla -Wmissing-prototypes -Wstrict-prototypes
            -Wno-sign-conversion -ffp-contract=off -fno-math-errno -fno-trapping-math
            $<$<BOOL:${TUG_WERROR}>:-Werror> $<$<CONFIG:Release>:-O3>)
if(TUG_SANITIZE)
  target_compile_options(tug_flags INTERFACE -fsanitize=${TUG_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
  target_link_options(tug_flags INTERFACE -fsanitize=${TUG_SANITIZE})
endif()
target_link_libraries(
  tug_flags INTERFACE Threads::Threads PkgConfig::ZLIB PkgConfig::ZSTD PkgConfig::LZ4
                      PkgConfig::XXHASH PkgConfig::JANSSON PkgConfig::YAML m)

# tug_part(NAME file.c ...): one part of the house. Every x_test.c in the folder becomes a test of
# its own, run by ctest as NAME/x.
function(tug_part name)
  add_library(tug_${name} OBJECT ${ARGN})
  target_link_libraries(tug_${name} PUBLIC tug_flags)
  set_property(GLOBAL APPEND PROPERTY TUG_PARTS tug_${name})
  if(TUG_TESTS)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.c)
    set_property(GLOBAL APPEND PROPERTY TUG_TESTS_${name} ${tests})
    set_property(GLOBAL APPEND PROPERTY TUG_TESTED_PARTS ${name})
  endif()
endfunction()

# After all parts are known: their tests, each linked with the whole static library, which is all of
# the project without the command line.
function(tug_tests)
  get_property(parts GLOBAL PROPERTY TUG_TESTED_PARTS)
  foreach(part ${parts})
    get_property(tests GLOBAL PROPERTY TUG_TESTS_${part})
    foreach(file ${tests})
      get_filename_component(stem ${file} NAME_WE)
      add_executable(test_${part}_${stem} ${file})
      target_link_libraries(test_${part}_${stem} PRIVATE tug_flags tug_static PkgConfig::CMOCKA)
      string(REGEX REPLACE "_test$" "" short ${stem})
      add_test(NAME ${part}/${short} COMMAND test_${part}_${stem})
      set_tests_properties(${part}/${short} PROPERTIES TIMEOUT 300)
    endforeach()
  endforeach()
endfunction()
