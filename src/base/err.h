// Errors: a small set of codes, and one sentence that names the problem, its place and
// the remedy.
//
// Functions return 0 or one of the negative codes of tug/tug.h. Cold functions also take
// a `struct err *`: the first function that knows the reason sets it, and callers may put
// context in front with err_wrap. Only the command line prints: it prints err.text and
// exits with err_exit_code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_ERR_H
#define TUG_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tug/tug.h"

// X(name, exit code of the command, text). tug/tug.h defines the values.
#define TUG_STATUS(X)                                                                    \
    X(TUG_OK, 0, "done")                                                                 \
    X(TUG_EUSAGE, 2, "wrong usage")                                                      \
    X(TUG_EDATA, 3, "bad input data or file")                                            \
    X(TUG_EIO, 4, "the system refused: file, network or permission")                     \
    X(TUG_ENOMEM, 4, "out of memory")                                                    \
    X(TUG_EINTERNAL, 5, "internal error (please report)")                                \
    X(TUG_EINTERRUPTED, 130, "interrupted")

enum { ERR_TEXT_MAX = 1024 };

// The reasons of failures that code reacts to, so that no code depends on the text of an
// error. They are sent in MSG_ERROR (wire/messages.def), so the numbers never change.
enum reason {
    REASON_NONE = 0,         // code acts by struct err's `code` only
    REASON_KEYS_UNKNOWN = 1, // a loop does not have the list of keys that a request names
    REASON_NO_ROOM = 2,      // there is no room now: the request may be sent again
    REASON_NOT_FINITE = 3, // `about` is the key whose row a push would have made infinite
    // The table has already passed the batch of the save; `about` is the table's next
    // batch.
    REASON_SAVE_PASSED = 4,
    REASON_TABLE_UNKNOWN = 5, // a server does not have the table
    REASON_TABLE_DIFFERS = 6, // `about` is a table number, which another table has
    // The scheduler ended this process because the run has ended; `about` is the reason
    // with which the run ended.
    REASON_RUN_ENDED = 7,
    REASON_DIVERGED = 8,    // weights, scores or updates of the training became infinite
    REASON_SAVE_FAILED = 9, // a save of the training could not be written
    // Other servers lead partitions than when a save began: it must be made again.
    REASON_SAVE_AGAIN = 10,
    REASON_DISK = 11, // rows on disk could not be read or written
};
enum { REASONS = 12 };

struct err {
    int code;
    enum reason reason;
    uint64_t about;          // the number that the reason names, or 0
    char text[ERR_TEXT_MAX]; // a text that is too long is cut
};

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

// Sets *e (which may be NULL) and returns `code`, for use as `return err_set(...)`.
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Like err_set, for a reason that callers act on.
int err_because(struct err *e, int code, enum reason reason, uint64_t about,
                const char *fmt, ...) PRINTF_LIKE(5, 6);

// Like err_set, but appends ": ", the text of errno, and the advice of err_limit. EACCES
// and EPERM do not change `code`.
int err_sys(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Puts "context: " in front of the text in *e and returns e->code. Never returns 0:
// returns TUG_EINTERNAL if e is NULL or was not set.
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Appends to the text of *e (which may be NULL); the code and the reason stay.
void err_add(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Returns the error's reason; for REASON_RUN_ENDED, the reason with which the run ended.
enum reason err_reason(const struct err *e);

// Makes *e (which may be NULL) the error *why; returns its code.
int err_copy(struct err *e, const struct err *why);

// Appends to *e the limit that a system error number (or a negative one of libuv) shows
// to be reached, if any, and the remedy. Returns e->code, or 0 if e is NULL.
int err_limit(struct err *e, int error);

// Reports that there is no memory for `what`; returns TUG_ENOMEM.
int err_nomem(struct err *e, const char *what);

const char *err_text(int code); // the text of a code: "bad input data or file"
int err_exit_code(int code);    // fixed for scripts: 0, 2, 3, 4, 5 or 130

// These macros return the given code in the caller's own code, where the compiler and the
// analyzer can see it: they know then that the lines after a TRY run only after success.
#define err_set(e, code, ...)                                                            \
    ({                                                                                   \
        const int err_code_ = (code);                                                    \
        err_set(e, err_code_, __VA_ARGS__);                                              \
        err_code_;                                                                       \
    })
#define err_because(e, code, ...)                                                        \
    ({                                                                                   \
        const int err_code_ = (code);                                                    \
        err_because(e, err_code_, __VA_ARGS__);                                          \
        err_code_;                                                                       \
    })
#define err_sys(e, code, ...)                                                            \
    ({                                                                                   \
        const int err_code_ = (code);                                                    \
        err_sys(e, err_code_, __VA_ARGS__);                                              \
        err_code_;                                                                       \
    })

// Evaluates the call once; on failure returns its code from the calling function.
#define TRY(call)                                                                        \
    do {                                                                                 \
        int try_rc_ = (call);                                                            \
        if (try_rc_ != 0)                                                                \
            return try_rc_;                                                              \
    } while (0)

#endif
