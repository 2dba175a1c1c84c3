// DMLC_* as ps-lite's programs have them, and a few names of tug's.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 4096, MAX_PORT = 65535 };

static const char *get(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != 0 ? v : NULL;
}

static int read_number(const char *name, double max, double *ret, struct err *e)
{
    const char *text = get(name);
    char *end;
    if (text == NULL)
        return 0;
    double v = strtod(text, &end);
    if (end == text || *end != 0 || !(v >= 0 && v <= max))
        return err_set(e, TUG_EUSAGE, "%s=%s: a number from 0 to %.0f is wanted", name,
                       text, max);
    *ret = v;
    return 0;
}

static int fill_number(const char *name, double max, double *field, struct err *e)
{
    return *field == 0 ? read_number(name, max, field, e) : 0;
}

static int fill_count(const char *name, uint32_t *field, struct err *e)
{
    double v = *field;
    TRY(fill_number(name, MAX_COUNT, &v, e));
    *field = (uint32_t)v;
    return 0;
}

static int fill_role(int *role, struct err *e)
{
    const char *text = get("DMLC_ROLE");
    if (*role != 0 || text == NULL)
        return 0;
    if (strcmp(text, "scheduler") == 0)
        *role = TUG_GROUP_SCHEDULER;
    else if (strcmp(text, "server") == 0)
        *role = TUG_GROUP_SERVERS;
    else if (strcmp(text, "worker") == 0)
        *role = TUG_GROUP_WORKERS;
    else
        return err_set(
            e, TUG_EUSAGE,
            "DMLC_ROLE=%.40s: there are the roles scheduler, server and worker", text);
    return 0;
}

static void fill_text(const char *name, const char **field)
{
    if (*field == NULL)
        *field = get(name);
}

static int fill_scheduler(struct tug_node_options *o, char scheduler[VAN_ADDRESS_MAX],
                          struct err *e)
{
    const char *host = get("DMLC_PS_ROOT_URI"), *port = get("DMLC_PS_ROOT_PORT");
    int n = 0;
    if (o->scheduler != NULL)
        n = snprintf(scheduler, VAN_ADDRESS_MAX, "%s", o->scheduler);
    else if (host != NULL && port != NULL)
        n = snprintf(scheduler, VAN_ADDRESS_MAX, "%s:%s", host, port);
    if (n >= VAN_ADDRESS_MAX)
        return err_set(e, TUG_EUSAGE, "the scheduler's address is too long");
    o->scheduler = n > 0 ? scheduler : NULL;
    return 0;
}

static int check_complete(const struct tug_node_options *o, struct err *e)
{
    char missing[256];
    snprintf(missing, sizeof(missing), "%s%s%s%s%s", o->role == 0 ? " DMLC_ROLE" : "",
             o->servers == 0 ? " DMLC_NUM_SERVER" : "",
             o->workers == 0 ? " DMLC_NUM_WORKER" : "",
             o->scheduler == NULL && get("DMLC_PS_ROOT_URI") == NULL ? " DMLC_PS_ROOT_URI"
                                                                     : "",
             o->scheduler == NULL && get("DMLC_PS_ROOT_PORT") == NULL
                 ? " DMLC_PS_ROOT_PORT"
                 : "");
    if (missing[0] == 0)
        return 0;
    return err_set(e, TUG_EUSAGE, "missing in the environment:%s", missing);
}

static int fill_numbers(struct tug_node_options *o, struct err *e)
{
    double port = o->port, insecure = 0;
    TRY(fill_count("DMLC_NUM_SERVER", &o->servers, e));
    TRY(fill_count("DMLC_NUM_WORKER", &o->workers, e));
    TRY(fill_number("PORT", MAX_PORT, &port, e));
    TRY(fill_number("TUG_SPIN_US", 1e6, &o->spin_us, e));
    TRY(fill_number("TUG_WAIT_SECONDS", 1e6, &o->wait_seconds, e));
    TRY(fill_number("TUG_DEAD_SECONDS", 1e6, &o->dead_seconds, e));
    TRY(fill_number("TUG_INSECURE", 1, &insecure, e));
    o->port = (uint16_t)port;
    o->insecure |= insecure > 0;
    return 0;
}

int environment_fill(struct tug_node_options *o, char scheduler[VAN_ADDRESS_MAX],
                     struct err *e)
{
    TRY(fill_role(&o->role, e));
    TRY(fill_numbers(o, e));
    TRY(fill_scheduler(o, scheduler, e));
    TRY(check_complete(o, e));
    fill_text("DMLC_NODE_HOST", &o->host);
    fill_text("DMLC_INTERFACE", &o->network);
    fill_text("TUG_CA", &o->ca);
    fill_text("TUG_CERT", &o->cert);
    fill_text("TUG_KEY", &o->key);
    if (o->wait_seconds == 0)
        o->wait_seconds = 600;
    if (o->dead_seconds == 0)
        o->dead_seconds = 5;
    return 0;
}
