// The sentences of errors: filled once by who knows the reason, given context on the way
// up.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_sys

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, args);
    va_end(args);
    e->code = code;
    return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
    int saved = errno; // formatting may change it
    if (e == NULL)
        return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, args);
    va_end(args);
    size_t used = strlen(e->text);
    char reason[128];
    snprintf(e->text + used, sizeof(e->text) - used, ": %s",
             strerror_r(saved, reason, sizeof(reason)));
    e->code = code;
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char context[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(context, sizeof(context), fmt, args);
    va_end(args);

    // The reason matters more than the way to it, so a long context is what gets cut.
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
    return err_set(e, TUG_ENOMEM, "out of memory for %s", what);
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
