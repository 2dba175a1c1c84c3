// Replaces monitor.c if libmicrohttpd's header was missing when tug was built: opening a
// monitor returns an error that says so.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/monitor.h"

int monitor_open(struct monitor **ret, const struct monitor_options *o,
                 const struct monitor_source *source, struct err *e)
{
    (void)o, (void)source;
    *ret = NULL;
    return err_set(e, TUG_EUSAGE,
                   "--http needs libmicrohttpd, without which tug was built: install "
                   "libmicrohttpd-dev and build again");
}

const char *monitor_url(const struct monitor *m)
{
    (void)m;
    return "";
}

void monitor_end(struct monitor *m, double seconds)
{
    (void)m, (void)seconds;
}

bool monitor_is_seen(const struct monitor *m)
{
    (void)m;
    return true;
}

bool monitor_is_read(const struct monitor *m)
{
    (void)m;
    return false;
}

void monitor_close(struct monitor *m)
{
    (void)m;
}
