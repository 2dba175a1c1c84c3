// The page of a standby; see standby.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/nodes/standby.h"

#include <stdio.h>

#include "os/log.h"

static void tell(void *of, struct json_out *o)
{
    struct standby *s = of;
    pthread_mutex_lock(&s->lock);
    json_out_text(o, "standby", s->waits_for);
    pthread_mutex_unlock(&s->lock);
}

void standby_open(struct standby *s, const struct monitor_options *at, struct usage *u)
{
    *s = (struct standby){.at = at, .usage = u};
    pthread_mutex_init(&s->lock, NULL);
}

void standby_say(void *standby, const char *line)
{
    struct standby *s = standby;
    struct err e = {0};
    log_info("%s", line);
    pthread_mutex_lock(&s->lock);
    snprintf(s->waits_for, sizeof(s->waits_for), "%s", line);
    pthread_mutex_unlock(&s->lock);
    if (s->http == NULL &&
        role_http_process(&s->http, s->at, "standby", s->usage, tell, s, &e) != 0)
        log_warn("--http: the page of this standby cannot be shown: %s", e.text);
}

void standby_close(struct standby *s)
{
    role_http_close(s->http);
    s->http = NULL;
    pthread_mutex_destroy(&s->lock);
}
