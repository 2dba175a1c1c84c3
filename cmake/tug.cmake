# The flags of the whole project, and functions such as tug_part(), which keep the CMakeLists.txt of folders short.
# SPDX-License-Identifier: Apache-2.0

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(OPENBLAS REQUIRED openblas)
if(TUG_TESTS)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka is missing, which tests need: run tools/deps. There are no tests in this build")
    set(TUG_TESTS OFF)
  endif()
endif()

add_library(tug_flags INTERFACE)
target_include_directories(tug_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(tug_flags INTERFACE _GNU_SOURCE TUG_VERSION="${PROJECT_VERSION}")
# No contraction of floating-point operations and no unsafe mathematics, so that results have the same bits on every
# CPU.
target_compile_options(
  tug_flags
  INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wvla -Wno-sign-conversion
            $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes$<SEMICOLON>-Wstrict-prototypes>
            "$<$<COMPILE_LANGUAGE:C>:SHELL:-include base/bytes.h>"
            -ffp-contract=off -fno-math-errno -fno-trapping-math
            $<$<BOOL:${TUG_WERROR}>:-Werror> $<$<CONFIG:Release>:-O3>)
if(TUG_SANITIZE)
  set(TUG_SANITIZERS -fsanitize=${TUG_SANITIZE})
elseif(TUG_FUZZ)
  set(TUG_SANITIZERS -fsanitize=fuzzer-no-link,address,undefined)
endif()
if(TUG_SANITIZERS)
  target_compile_options(tug_flags INTERFACE ${TUG_SANITIZERS} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
  target_link_options(tug_flags INTERFACE ${TUG_SANITIZERS})
endif()
target_link_libraries(
  tug_flags INTERFACE Threads::Threads PkgConfig::ZLIB PkgConfig::ZSTD PkgConfig::LZ4
                      PkgConfig::XXHASH PkgConfig::JANSSON PkgConfig::EXPAT PkgConfig::YAML
                      PkgConfig::UV PkgConfig::OPENSSL m)

# The programs of tests are built by these targets, not by `all`, so that building the command does not take longer.
add_custom_target(unit_tests)
add_custom_target(fuzz_tests)
add_custom_target(e2e_tests)

# tug_test_program(NAME LABEL file.c ...) adds the program of a test with this label.
function(tug_test_program name label)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  add_dependencies(${label}_tests ${name})
endfunction()

# tug_sources(RET ROOM...) sets RET to the source files, without tests, of this folder and of its folders ROOM.
function(tug_sources ret)
  set(sources)
  foreach(folder . ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.c)
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_test\\.c$")
  set(${ret} ${sources} PARENT_SCOPE)
endfunction()

# tug_part(NAME [COMMAND_ONLY] [ROOMS folder...] [WITHOUT file.c...]) adds a part of the project, in src/NAME, which may be a folder of
# another part (doors/tables). ROOMS are folders of the part whose files may include each other; WITHOUT names files
# that this build leaves out. A part that is COMMAND_ONLY is not put into libtug. Every x_test.c becomes a test, which ctest runs as FOLDER/x. A part is declared after the
# parts that it uses.
function(tug_part name)
  cmake_parse_arguments(PARSE_ARGV 1 part "COMMAND_ONLY" "" "ROOMS;WITHOUT")
  tug_sources(sources ${part_ROOMS})
  foreach(file ${part_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "/${file}$")
  endforeach()
  string(REPLACE / _ flat ${name})
  add_library(tug_${flat} OBJECT ${sources})
  target_link_libraries(tug_${flat} PUBLIC tug_flags)
  if(NOT part_COMMAND_ONLY)
    set_property(GLOBAL APPEND PROPERTY TUG_PARTS tug_${flat})
  endif()
  if(TUG_TESTS)
    # A part's tests are linked with this part and those declared before it, so a use of a later part does not link.
    get_property(below GLOBAL PROPERTY TUG_PARTS)
    if(part_COMMAND_ONLY)
      list(APPEND below tug_${flat})
    endif()
    foreach(folder . ${part_ROOMS})
      file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.c)
      foreach(file ${tests})
        tug_part_test(${file})
        target_link_libraries(${target} PRIVATE tug_kit ${below})
      endforeach()
    endforeach()
  endif()
endfunction()

# Adds the test FOLDER/x of src/FOLDER/x_test.c, and sets `target` to its program, test_FOLDER_x.
macro(tug_part_test file)
  file(RELATIVE_PATH short ${PROJECT_SOURCE_DIR}/src ${file})
  string(REGEX REPLACE "_test\\.c$" "" short ${short})
  string(REPLACE / _ target test_${short})
  tug_test_program(${target} unit ${file})
  tug_add_test(${short} unit COMMAND ${TUG_UNDER} $<TARGET_FILE:${target}>)
  # Tests that may depend on the order in which threads run get a label for tools/stress.
  file(STRINGS ${file} threads REGEX "pthread_create|thread_start|team_open|kit/(training|vans|inproc)\\.h")
  if(threads)
    set_tests_properties(${short} PROPERTIES LABELS "unit;threads")
  endif()
endmacro()

# tug_add_test(NAME LABEL COMMAND ...) calls add_test, and sets the variables of all tests: TUG_SHARED, a folder of data
# sets beside the checkout (tests that need it are skipped without it), and TUG_BINARY, the command. A test is expected
# to take less than 20 s, also under AddressSanitizer, on a machine that does nothing else; tug_usual_seconds sets
# another time. The limit of a test is ten times this time, since the machine may have other work.
function(tug_add_test name label)
  add_test(NAME ${name} ${ARGN})
  set(environment TUG_BINARY=${PROJECT_BINARY_DIR}/tug UBSAN_OPTIONS=print_stacktrace=1)
  set(shared ${PROJECT_SOURCE_DIR}/../shared)
  if(NOT DEFINED ENV{TUG_SHARED} AND EXISTS ${shared})
    get_filename_component(shared ${shared} ABSOLUTE)
    list(APPEND environment TUG_SHARED=${shared})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} ENVIRONMENT "${environment}")
  tug_usual_seconds(${name} 20)
endfunction()

function(tug_usual_seconds name seconds)
  math(EXPR limit "${seconds} * 10")
  if(TUG_UNDER)
    math(EXPR limit "${limit} * 10") # valgrind
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
endfunction()
