// libcurl, which is loaded when the first remote file is read, or the first request is
// posted. Other runs neither need libcurl nor wait for the loading of its many libraries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_CURL_INTERNAL_H
#define TUG_WEB_CURL_INTERNAL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/err.h"

// The functions of libcurl that tug uses.
#define CURL_FUNCTIONS(X)                                                                \
    X(curl_global_init)                                                                  \
    X(curl_easy_init)                                                                    \
    X(curl_easy_reset)                                                                   \
    X(curl_easy_setopt)                                                                  \
    X(curl_easy_perform)                                                                 \
    X(curl_easy_getinfo)                                                                 \
    X(curl_easy_cleanup)                                                                 \
    X(curl_easy_strerror)                                                                \
    X(curl_slist_append)                                                                 \
    X(curl_slist_free_all)                                                               \
    X(curl_multi_init)                                                                   \
    X(curl_multi_add_handle)                                                             \
    X(curl_multi_remove_handle)                                                          \
    X(curl_multi_perform)                                                                \
    X(curl_multi_poll)                                                                   \
    X(curl_multi_info_read)                                                              \
    X(curl_multi_cleanup)

struct curl {
#define X(name) __typeof__ (&(name))(name);
    CURL_FUNCTIONS(X)
#undef X
};

// Loads libcurl at the first call, and gets its functions. TUG_EUSAGE if libcurl is not
// installed.
int curl_load(const struct curl **ret, struct err *e);

#endif
