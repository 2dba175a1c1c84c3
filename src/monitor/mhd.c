// Loads libmicrohttpd.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/mhd_internal.h"

#include "os/library.h"

static struct mhd mhd;

#define X(name) {#name, &mhd.name},
static const struct library_function functions[] = {MHD_FUNCTIONS(X)};
#undef X

static struct library library = {.file = "libmicrohttpd.so.12",
                                 .need = "--http needs libmicrohttpd",
                                 .package = "libmicrohttpd12",
                                 .other = "older than 0.9.71",
                                 .functions = functions,
                                 .n = sizeof(functions) / sizeof(*functions),
                                 .lock = PTHREAD_MUTEX_INITIALIZER};

int mhd_load(const struct mhd **ret, struct err *e)
{
    TRY(library_load(&library, e));
    *ret = &mhd;
    return 0;
}
