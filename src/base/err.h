// Errors: a small set of codes, and one sentence with the problem, its place and the
// remedy.
//
// Functions return 0 or one of the negative codes of tug/tug.h. Cold functions also take
// a `struct err *`; the first function that knows the reason fills it, callers may put
// context in front with err_wrap. Nothing below the command line prints: the command
// prints err.text and exits with err_exit_code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_ERR_H
#define TUG_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

#include "tug/tug.h"

// X(name, exit code of the command, text); the values stand in tug/tug.h.
#define TUG_STATUS(X)                                                                    \
    X(TUG_OK, 0, "done")                                                                 \
    X(TUG_EUSAGE, 2, "wrong usage")                                                      \
    X(TUG_EDATA, 3, "bad input data or file")                                            \
    X(TUG_EIO, 4, "the system refused: file, network or permission")                     \
    X(TUG_ENOMEM, 4, "out of memory")                                                    \
    X(TUG_EINTERNAL, 5, "internal error (please report)")                                \
    X(TUG_EINTERRUPTED, 130, "interrupted")

enum { ERR_TEXT_MAX = 1024 };

struct err {
    int code;
    char text[ERR_TEXT_MAX]; // cut, never overrun
};

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

// Fills *e (which may be NULL) and returns `code`, so that
// `return err_set(...)` reads well.
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Like err_set, with ": " and the text of errno at the end, and the addition of
// err_limit. EACCES and EPERM stay `code`.
int err_sys(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Puts "context: " in front of what *e holds; returns e->code. Never returns 0:
// TUG_EINTERNAL if e is NULL or was not set.
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

// For an error number of the system (libuv's are the same, negative): appends the limit
// that was reached, if any, and the remedy. Returns e->code, or 0 where e is NULL.
int err_limit(struct err *e, int error);

// The usual answer to a failed allocation of `what`.
int err_nomem(struct err *e, const char *what);

const char *err_text(int code); // "bad input data or file"
int err_exit_code(int code);    // contract: 0, 2, 3, 4, 5, 130

// err_set and err_sys return the code that they are given. Said where the compiler and
// the analyzer can see it: so both know that what follows a TRY runs after success only.
#define err_set(e, code, ...)                                                            \
    ({                                                                                   \
        const int err_code_ = (code);                                                    \
        err_set(e, err_code_, __VA_ARGS__);                                              \
        err_code_;                                                                       \
    })
#define err_sys(e, code, ...)                                                            \
    ({                                                                                   \
        const int err_code_ = (code);                                                    \
        err_sys(e, err_code_, __VA_ARGS__);                                              \
        err_code_;                                                                       \
    })

// Evaluates once; returns from the calling function on failure.
#define TRY(call)                                                                        \
    do {                                                                                 \
        int try_rc_ = (call);                                                            \
        if (try_rc_ != 0)                                                                \
            return try_rc_;                                                              \
    } while (0)

#endif
