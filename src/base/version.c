// Public functions that need only this part.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "tug/tug.h"

const char *tug_version(void)
{
    return TUG_VERSION;
}

const char *tug_status_text(int status)
{
    return err_text(status);
}
