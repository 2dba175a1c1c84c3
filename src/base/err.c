// The texts of errors: the function that knows the reason sets the text, and its callers
// put context in front.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#undef err_set
#undef err_sys
#undef err_because

static void err_fill(struct err *e, int code, enum reason reason, uint64_t about,
                     const char *fmt, va_list args)
{
    vsnprintf(e->text, sizeof(e->text), fmt, args);
    e->code = code;
    e->reason = reason;
    e->about = about;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    err_fill(e, code, REASON_NONE, 0, fmt, args);
    va_end(args);
    return code;
}

int err_because(struct err *e, int code, enum reason reason, uint64_t about,
                const char *fmt, ...)
{
    if (e == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    err_fill(e, code, reason, about, fmt, args);
    va_end(args);
    return code;
}

void err_add(struct err *e, const char *fmt, ...)
{
    if (e == NULL)
        return;
    size_t used = strlen(e->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text + used, sizeof(e->text) - used, fmt, args);
    va_end(args);
}

enum reason err_reason(const struct err *e)
{
    bool of_run = e->reason == REASON_RUN_ENDED && e->about < REASONS;
    return of_run && e->about != REASON_NONE ? (enum reason)e->about : e->reason;
}

int err_copy(struct err *e, const struct err *why)
{
    if (e != NULL)
        *e = *why;
    return why->code;
}

// Gets a limit of this process; returns false if it has no such limit.
static bool limit_of(int resource, unsigned long long *ret)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return false;
    *ret = limit.rlim_cur;
    return true;
}

int err_limit(struct err *e, int error)
{
    unsigned long long n;
    if (e == NULL)
        return 0;
    error = error < 0 ? -error : error;
    if (error == EMFILE && limit_of(RLIMIT_NOFILE, &n))
        err_add(e,
                "; a process may have at most %llu open files and links here: raise that "
                "limit (ulimit -n)",
                n);
    else if (error == ENFILE)
        err_add(e, "; this machine has reached its limit of open files (sysctl "
                   "fs.file-max): end other programs");
    else if (error == EFBIG && limit_of(RLIMIT_FSIZE, &n))
        err_add(e,
                "; a file may have at most %llu bytes here: raise that limit (ulimit -f)",
                n);
    else if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        err_add(e, "; free some space or write elsewhere");
    else if (error == EROFS)
        err_add(e, "; write elsewhere");
    else if (error == ENOMEM && limit_of(RLIMIT_AS, &n))
        err_add(e,
                "; a process may use at most %llu MiB of address space here: raise that "
                "limit (ulimit -v)",
                n >> 20);
    else if (error == EAGAIN && limit_of(RLIMIT_NPROC, &n))
        err_add(e,
                "; an account may have at most %llu threads here: raise that limit "
                "(ulimit -u)",
                n);
    return e->code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
    int saved = errno; // formatting may change it
    if (e == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    err_fill(e, code, REASON_NONE, 0, fmt, args);
    va_end(args);
    char reason[128];
    err_add(e, ": %s", strerror_r(saved, reason, sizeof(reason)));
    return err_limit(e, saved);
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char context[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(context, sizeof(context), fmt, args);
    va_end(args);
    if (e == NULL)
        return TUG_EINTERNAL; // a caller without a struct err does not use the code
    if (e->code == 0)
        (void)err_set(e, TUG_EINTERNAL, "%s", err_text(TUG_EINTERNAL));

    // The reason is more important than its context, so a long context is cut.
    size_t reason = strlen(e->text);
    size_t room = sizeof(e->text) - 1 - reason;
    size_t front = strlen(context) + 2;
    if (front > room)
        front = room;
    memmove(e->text + front, e->text, reason + 1);
    if (front >= 2) {
        memcpy(e->text, context, front - 2);
        memcpy(e->text + front - 2, ": ", 2);
    } else {
        memset(e->text, ' ', front);
    }
    return e->code;
}

int err_nomem(struct err *e, const char *what)
{
    err_set(e, TUG_ENOMEM, "out of memory for %s", what);
    err_limit(e, ENOMEM);
    return TUG_ENOMEM;
}

const char *err_text(int code)
{
    switch (code) {
#define X(name, exit_code, text)                                                         \
    case name:                                                                           \
        return text;
        TUG_STATUS(X)
#undef X
    default:
        return "unknown status";
    }
}

int err_exit_code(int code)
{
    switch (code) {
#define X(name, exit_code, text)                                                         \
    case name:                                                                           \
        return exit_code;
        TUG_STATUS(X)
#undef X
    default:
        return 5;
    }
}
