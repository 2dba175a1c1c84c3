// The launcher's page; see launch_http.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/launch_http.h"

#include <stdio.h>
#include <string.h>

#include "cli/nodes/role_http.h"
#include "os/route.h"

static void tell(void *of, struct json_out *o)
{
    launch_facts_put(of, o);
}

static int choose_address(const char *run, char to[FILE_PATH_MAX], struct err *e)
{
    char host[256];
    uint16_t port;
    if (strncmp(run, "unix:", 5) == 0) {
        snprintf(to, FILE_PATH_MAX, "%.*s.launch", FILE_PATH_MAX - 16, run);
        return 0;
    }
    TRY(route_split(run, host, sizeof(host), &port, e));
    snprintf(to, FILE_PATH_MAX, strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    return 0;
}

// Gets "HOST:PORT" out of "http://HOST:PORT/".
static void keep_address(const char *url, char to[FILE_PATH_MAX])
{
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    snprintf(to, FILE_PATH_MAX, "%.*s", (int)strcspn(host, "/"), host);
}

int launch_http_open(struct launch_http *h, const struct monitor_options *run,
                     struct launch_options *o, struct err *e)
{
    const struct usage_disk disks[] = {{"log", o->log_dir}};
    struct monitor_options at = *run;
    *h = (struct launch_http){0};
    if (run->address == NULL || o->hosts != NULL)
        return 0;
    TRY(choose_address(run->address, h->address, e));
    at.address = h->address;
    TRY(usage_open(&h->usage, disks, 1, e));
    TRY(launch_facts_open(&h->facts, o->servers, o->workers, e));
    TRY(role_http_process(&h->http, &at, "launch", h->usage, tell, h->facts, e));
    o->facts = h->facts;
    if (strncmp(run->address, "unix:", 5) == 0)
        return 0;
    keep_address(role_http_url(h->http), h->address);
    o->http_own = h->address;
    return 0;
}

void launch_http_close(struct launch_http *h)
{
    role_http_close(h->http);
    launch_facts_close(h->facts);
    usage_close(h->usage);
}
