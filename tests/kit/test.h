// The header of all tests: cmocka with its needed headers, and our own assertions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TEST_H
#define TUG_KIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/err.h"

// Under sanitizers everything takes longer, and memory is used differently.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

// Waits until the condition holds, which nothing announces. The test fails if it does not
// hold within a minute, which is longer than anything takes on a busy machine.
#define assert_soon(condition)                                                           \
    do {                                                                                 \
        struct patience soon_ = {0};                                                     \
        while (!(condition))                                                             \
            if (!test_moment(&soon_))                                                    \
                fail_msg("it did not come true in time: %s", #condition);                \
    } while (0)

struct patience {
    time_t until; // 0: not begun
};

// Sleeps for a millisecond; returns false if the minute of this patience is over.
bool test_moment(struct patience *p);

// Makes a call that must succeed; its error goes to &ok_e.
#define OK(call)                                                                         \
    do {                                                                                 \
        struct err ok_e = {0};                                                           \
        int ok_rc = (call);                                                              \
        if (ok_rc != 0)                                                                  \
            fail_msg("%s: %d %s", #call, ok_rc, ok_e.text);                              \
    } while (0)

// Compares structs, to which a and b point, by their values. Bytes between members have
// arbitrary values, so assert_memory_equal would give results that depend on the
// compiler. clang 14, which checks the tests but does not build them, lacks the builtin.
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

// Runs `call` (which returns an error code, with the error in test_err) with its first,
// second, ... allocation failing, until it succeeds without a failure; `undo` undoes a
// success. A failure must leave no memory allocated.
#define FAIL_EACH_ALLOCATION(call, undo)                                                 \
    do {                                                                                 \
        bool passed_ = false;                                                            \
        for (long n_ = 0; !passed_; n_++) {                                              \
            assert_true(n_ < 100000);                                                    \
            size_t live_ = mem_live();                                                   \
            mem_fault_after(n_);                                                         \
            int rc_ = (call);                                                            \
            bool faulted_ = mem_faulted();                                               \
            mem_fault_after(-1);                                                         \
            passed_ = !faulted_;                                                         \
            if (rc_ != 0) {                                                              \
                if (!faulted_ || rc_ != TUG_ENOMEM)                                      \
                    fail_msg("allocation %ld: %s", n_, test_err.text);                   \
            } else {                                                                     \
                undo;                                                                    \
            }                                                                            \
            assert_int_equal(mem_live(), live_);                                         \
        }                                                                                \
    } while (0)
extern struct err test_err; // error of the last call that failed

// Ends a test that cannot run on this machine, with the reason. tools/suite lists these
// reasons, and tests/skips has the expected ones.
_Noreturn void skip_because(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

// Returns whether this machine has pseudo terminals: a chroot without /dev/pts has none.
bool pseudo_terminals_are_there(void);
#define NO_PSEUDO_TERMINALS "no pseudo terminals: /dev/pts is not mounted"

#endif
