// libmicrohttpd is loaded only when --http is given, so that runs without --http neither
// need the library nor spend time on loading it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_MHD_INTERNAL_H
#define TUG_MONITOR_MHD_INTERNAL_H

#include <microhttpd.h>

#include "base/err.h"

// The functions of libmicrohttpd that tug uses.
#define MHD_FUNCTIONS(X)                                                                 \
    X(MHD_start_daemon)                                                                  \
    X(MHD_stop_daemon)                                                                   \
    X(MHD_run)                                                                           \
    X(MHD_get_timeout)                                                                   \
    X(MHD_get_daemon_info)                                                               \
    X(MHD_get_connection_info)                                                           \
    X(MHD_lookup_connection_value)                                                       \
    X(MHD_suspend_connection)                                                            \
    X(MHD_resume_connection)                                                             \
    X(MHD_create_response_from_buffer_with_free_callback)                                \
    X(MHD_create_response_from_callback)                                                 \
    X(MHD_add_response_header)                                                           \
    X(MHD_queue_response)                                                                \
    X(MHD_destroy_response)

struct mhd {
#define X(name) __typeof__ (&(name))(name);
    MHD_FUNCTIONS(X)
#undef X
};

// Loads libmicrohttpd at the first call, and gets its functions. Returns TUG_EUSAGE if
// the library is not installed.
int mhd_load(const struct mhd **ret, struct err *e);

#endif
