// Comparing structs by their values. The bytes between members hold whatever was on the
// stack: they differ from machine to machine, so assert_memory_equal of a struct that
// has any is a test of the compiler.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_SAME_TESTING_H
#define TUG_BASE_SAME_TESTING_H

// Clears the padding of both, which are pointers to structs of one type, and compares.
// clang 14, which reads the tests but does not build them, lacks the builtin.
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
#define assert_same_struct(a, b)                                                         \
    do {                                                                                 \
        __builtin_clear_padding(a);                                                      \
        __builtin_clear_padding(b);                                                      \
        assert_memory_equal(a, b, sizeof(*(a)));                                         \
    } while (0)
#else
#define assert_same_struct(a, b) assert_memory_equal(a, b, sizeof(*(a)))
#endif

#endif
