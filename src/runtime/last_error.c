// The last error of each thread, so that no thread reads another's.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/last_error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "os/descriptors.h"
#include "os/log.h"

static _Thread_local struct err last;
static _Thread_local char warning[WARNINGS_TEXT];
static atomic_bool kept; // whether the program reads warnings itself (tug_keep_warnings)

// Opens descriptors 0 to 2 if they are closed (os/descriptors.h). It runs when the
// library is loaded, before the program opens a file; every public function is linked
// with this file, so no program lacks it.
__attribute__((constructor)) static void hold_standard(void)
{
    descriptors_hold_standard();
}

struct err *last_error(void)
{
    return &last;
}

int last_error_is(const struct err *why)
{
    last = *why;
    return why->code;
}

const char *tug_last_error(void)
{
    return last.text;
}

// Appends a warning to those of this thread. Returns whether the program reads warnings
// itself, so that they are not printed.
static bool last_error_take(const char *text)
{
    size_t n = strlen(warning);
    bool fits = n + strlen(text) + 1 < sizeof(warning);
    if (fits)
        snprintf(warning + n, sizeof(warning) - n, "%s%s", n > 0 ? "\n" : "", text);
    return fits && atomic_load(&kept);
}

void last_warning_begin(void)
{
    warning[0] = '\0';
    log_take_warnings(last_error_take);
}

void last_warning_end(void)
{
    log_take_warnings(NULL);
}

void last_warning_set(const char *text)
{
    snprintf(warning, sizeof(warning), "%s", text);
}

bool last_warning_kept(void)
{
    return atomic_load(&kept);
}

const char *tug_last_warning(void)
{
    return warning;
}

void tug_keep_warnings(bool keep)
{
    atomic_store(&kept, keep);
}
