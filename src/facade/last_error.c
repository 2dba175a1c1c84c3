// One for each thread, so that nobody sees another's.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/last_error.h"

#include "base/descriptors.h"

static _Thread_local struct err last;

// Before the program can open anything: every public function is linked with this file.
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
