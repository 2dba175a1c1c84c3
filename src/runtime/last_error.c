// The last error of each thread, so that no thread reads another's.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/last_error.h"

#include <stdio.h>

#include "data/source/numbering.h"
#include "os/descriptors.h"

static _Thread_local struct err last;
static _Thread_local char warning[NUMBERING_TEXT];
static atomic_bool kept; // whether the program reads warnings itself (tug_keep_warnings)

// Runs when the library is loaded, before the program opens a file; every public function
// is linked with this file.
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
