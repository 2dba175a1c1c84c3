// Loads libcurl.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/curl_internal.h"

#include "os/library.h"

static struct curl curl;

#define X(name) {#name, &curl.name},
static const struct library_function functions[] = {CURL_FUNCTIONS(X)};
#undef X

static int curl_begin(struct err *e)
{
    return curl.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? 0
               : err_set(e, TUG_EIO, "libcurl cannot be started");
}

static struct library library = {.file = "libcurl.so.4",
                                 .need = "remote data, and etcd, need libcurl",
                                 .package = "libcurl4",
                                 .other = "older than 7.85",
                                 .functions = functions,
                                 .n = sizeof(functions) / sizeof(*functions),
                                 .begin = curl_begin,
                                 .lock = PTHREAD_MUTEX_INITIALIZER};

int curl_load(const struct curl **ret, struct err *e)
{
    TRY(library_load(&library, e));
    *ret = &curl;
    return 0;
}
