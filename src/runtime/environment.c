// Fills a node's options from the environment. role.c reads the role; this file adds the
// rest.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { WAIT_SECONDS = 600, DEAD_SECONDS = 5 };

static const char *environment_get(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static int fill_number(const char *name, double max, double *field, struct err *e)
{
    const char *text = getenv(name);
    char *end;
    if (*field != 0 || text == NULL || text[0] == 0)
        return 0;
    double v = strtod(text, &end);
    if (end == text || *end != 0 || !(v >= 0 && v <= max))
        return err_set(e, TUG_EUSAGE, "%s=%.40s is not a number from 0 to %.0f", name,
                       text, max);
    *field = v;
    return 0;
}

static void fill_text(const char *name, const char **field)
{
    const char *text = getenv(name);
    if (*field == NULL && text != NULL && text[0] != 0)
        *field = text;
}

enum wire_role role_of_group(int group)
{
    return group == TUG_GROUP_SCHEDULER ? WIRE_SCHEDULER
           : group == TUG_GROUP_SERVERS ? WIRE_SERVER
           : group == TUG_GROUP_WORKERS ? WIRE_WORKER
                                        : WIRE_NOBODY;
}

int group_of_role(enum wire_role role)
{
    return role == WIRE_SCHEDULER ? TUG_GROUP_SCHEDULER
           : role == WIRE_SERVER  ? TUG_GROUP_SERVERS
           : role == WIRE_WORKER  ? TUG_GROUP_WORKERS
                                  : 0;
}

static bool environment_complete(const struct tug_node_options *o)
{
    return o->role != 0 && o->servers != 0 && o->workers != 0 && o->scheduler != NULL;
}

static void fill_role(struct tug_node_options *o, const struct role *r)
{
    if (o->role == 0)
        o->role = group_of_role(r->role);
    if (o->servers == 0)
        o->servers = r->servers;
    if (o->workers == 0)
        o->workers = r->workers;
    if (o->scheduler == NULL)
        o->scheduler = r->scheduler;
    if (o->host == NULL && r->host[0] != 0)
        o->host = r->host;
    if (o->network == NULL && r->interface[0] != 0)
        o->network = r->interface;
    if (o->port == 0 && !r->hosts_scheduler)
        o->port = r->port;
}

static int fill_numbers(struct tug_node_options *o, struct err *e)
{
    double insecure = 0, replicas = 0;
    TRY(fill_number("TUG_SPIN_US", 1e6, &o->spin_us, e));
    TRY(fill_number("TUG_WAIT_SECONDS", 1e6, &o->wait_seconds, e));
    TRY(fill_number("TUG_DEAD_SECONDS", 1e6, &o->dead_seconds, e));
    TRY(fill_number("TUG_INSECURE", 1, &insecure, e));
    TRY(fill_number("TUG_REPLICAS", 1e6, &replicas, e));
    if (replicas > 1)
        return err_set(
            e, TUG_EUSAGE,
            "TUG_REPLICAS is %g, but handlers of a program hold state that has "
            "no replicas: unset it",
            replicas);
    o->insecure |= insecure > 0;
    if (o->wait_seconds == 0)
        o->wait_seconds = WAIT_SECONDS;
    if (o->dead_seconds == 0)
        o->dead_seconds = DEAD_SECONDS;
    return 0;
}

#define DMLC_ALL                                                                         \
    "DMLC_ROLE, DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI and "                 \
    "DMLC_PS_ROOT_PORT"

static int nothing_said(const struct tug_node_options *o, struct err *e)
{
    if (o->role == TUG_GROUP_WORKERS)
        return err_set(e, TUG_EUSAGE,
                       "the address of the scheduler is missing: set TUG_SCHEDULER "
                       "(HOST:PORT, or as the scheduler prints it), or give it as an "
                       "option, or set all of " DMLC_ALL);
    return err_set(e, TUG_EUSAGE,
                   "the environment does not give this process a role: run the program "
                   "under 'tug launch', or set " DMLC_ALL
                   ", or give the same as options");
}

int environment_fill(struct tug_node_options *o, struct role *r, struct err *e)
{
    *r = (struct role){0};
    if (o->role != 0 && role_of_group(o->role) == WIRE_NOBODY)
        return err_set(e, TUG_EUSAGE, "there is no role %d", o->role);
    fill_text("TUG_SCHEDULER",
              // Overrides DMLC_*, which cannot name all addresses that tug launch uses.
              &o->scheduler);
    if (!environment_complete(o)) {
        TRY(role_read(r, role_of_group(o->role), environment_get, NULL, e));
        // A worker's options may lack the numbers of servers and workers.
        bool enough = o->role == TUG_GROUP_WORKERS && o->scheduler != NULL;
        if (r->scheme == ROLE_NONE && !enough)
            return nothing_said(o, e);
        if (r->scheme != ROLE_NONE)
            fill_role(o, r);
    }
    fill_text("TUG_CLUSTER", &o->cluster);
    fill_text("TUG_CA", &o->ca);
    fill_text("TUG_CERT", &o->cert);
    fill_text("TUG_KEY", &o->key);
    return fill_numbers(o, e);
}

int environment_needs_servers(struct err *e)
{
    return role_needs_servers(environment_get, NULL, e);
}

// Splits `text`, in place, at its commas, and adds each part to load[] as an allowed
// root.
static int add_roots(struct roots_options *o, const char *load[ROOTS_MAX_LOAD],
                     char *text, struct err *e)
{
    for (char *at = text, *next; at != NULL && *at != '\0'; at = next) {
        next = at + strcspn(at, ",");
        if (*next != '\0')
            *next++ = '\0';
        if (o->n_load == ROOTS_MAX_LOAD)
            return err_set(e, TUG_EUSAGE,
                           "a server can load from %d directories, and no more",
                           ROOTS_MAX_LOAD);
        load[o->n_load++] = at;
    }
    return 0;
}

int environment_roots(struct roots **ret, const char *more, struct err *e)
{
    const char *all = getenv("TUG_LOAD_ROOT"), *load[ROOTS_MAX_LOAD];
    struct roots_options o = {
        .save = getenv("TUG_SAVE_ROOT"), .cold = getenv("TUG_COLD_ROOT"), .load = load};
    char *texts[] = {all != NULL ? mem_strdup(all) : NULL,
                     more != NULL ? mem_strdup(more) : NULL};
    int rc = 0;
    if ((all != NULL && texts[0] == NULL) || (more != NULL && texts[1] == NULL))
        rc = err_nomem(e, "the directories of a server");
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = add_roots(&o, load, texts[i], e);
    if (rc == 0)
        rc = roots_open(ret, &o, e);
    mem_free(texts[0]);
    mem_free(texts[1]);
    return rc;
}
