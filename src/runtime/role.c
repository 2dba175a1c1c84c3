// Roles from the environment: see role.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/log.h"

struct reading {
    role_getenv get;
    void *ctx;
    struct role *role;
    // The names of missing and of wrong variables, for the error.
    char missing[512], wrong[512];
};

static void role_add(char *list, size_t cap, const char *fmt, const char *name,
                     const char *value)
{
    size_t n = strlen(list);
    if (n > 0 && n < cap)
        n += (size_t)snprintf(list + n, cap - n, ", ");
    if (n < cap)
        snprintf(list + n, cap - n, fmt, name, value);
}

// Returns the value of a variable, or NULL if it is missing or empty.
static const char *maybe(struct reading *r, const char *name)
{
    const char *value = r->get(r->ctx, name);
    return value != NULL && value[0] != 0 ? value : NULL;
}

static const char *need(struct reading *r, const char *name)
{
    const char *value = maybe(r, name);
    if (value == NULL)
        role_add(r->missing, sizeof(r->missing), "%s%s", name, "");
    return value;
}

static void is_wrong(struct reading *r, const char *name, const char *value)
{
    role_add(r->wrong, sizeof(r->wrong), "%s='%.100s'", name, value);
}

// Appends the expected value to the list of wrong variables.
static void should_be(struct reading *r, const char *what)
{
    size_t n = strlen(r->wrong);
    snprintf(r->wrong + n, sizeof(r->wrong) - n, " (%s)", what);
}

static bool role_parse(const char *text, uint32_t max, uint32_t *ret)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long value = strtoul(text, &end, 10);
    *ret = (uint32_t)value;
    return *end == 0 && value <= max;
}

static uint32_t role_number(struct reading *r, const char *name, const char *value,
                            uint32_t min, uint32_t max)
{
    uint32_t n = 0;
    if (value != NULL && (!role_parse(value, max, &n) || n < min)) {
        char what[64];
        snprintf(what, sizeof(what), "a number from %u to %u", min, max);
        is_wrong(r, name, value);
        should_be(r, what);
    }
    return n;
}

static uint32_t need_number(struct reading *r, const char *name, uint32_t min,
                            uint32_t max)
{
    return role_number(r, name, need(r, name), min, max);
}

static void text(struct reading *r, char to[ROLE_TEXT_MAX], const char *name,
                 const char *value)
{
    if (value != NULL && snprintf(to, ROLE_TEXT_MAX, "%s", value) >= ROLE_TEXT_MAX)
        is_wrong(r, name, value);
}

// Returns the role that the variable `name` gives as one of three words. If the caller
// knows the role (`known`), returns that role.
static enum wire_role choose(struct reading *r, const char *name, enum wire_role known,
                             const char *const words[3])
{
    static const enum wire_role roles[] = {WIRE_SCHEDULER, WIRE_SERVER, WIRE_WORKER};
    if (known != WIRE_NOBODY)
        return known;
    const char *value = need(r, name);
    for (size_t i = 0; i < 3 && value != NULL; i++)
        if (words[i] != NULL && strcmp(value, words[i]) == 0)
            return roles[i];
    if (value != NULL) {
        char what[64];
        snprintf(what, sizeof(what), "%s%s%s or %s", words[0] != NULL ? words[0] : "",
                 words[0] != NULL ? ", " : "", words[1], words[2]);
        is_wrong(r, name, value);
        should_be(r, what);
    }
    return WIRE_NOBODY;
}

// ---------------------------------------------------------------- ps-lite

static void read_dmlc_rank(struct reading *r)
{
    struct role *role = r->role;
    const char *name = role->role == WIRE_SERVER ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID";
    const char *value = role->role == WIRE_SCHEDULER ? NULL : maybe(r, name);
    role->rank = role_number(r, name, value, 0, ROLE_PROCESSES_MAX - 1);
    role->has_rank = value != NULL;
}

static void read_dmlc(struct reading *r, enum wire_role known)
{
    static const char *const words[] = {"scheduler", "server", "worker"};
    struct role *role = r->role;
    role->role = choose(r, "DMLC_ROLE", known, words);
    role->workers = need_number(r, "DMLC_NUM_WORKER", 0, ROLE_PROCESSES_MAX);
    role->servers = need_number(r, "DMLC_NUM_SERVER", 1, ROLE_PROCESSES_MAX);
    const char *uri = need(r, "DMLC_PS_ROOT_URI");
    uint32_t port = need_number(r, "DMLC_PS_ROOT_PORT", 1, UINT16_MAX);
    if (uri != NULL) {
        bool bare_v6 = strchr(uri, ':') != NULL && uri[0] != '[';
        int n = snprintf(role->scheduler, sizeof(role->scheduler),
                         bare_v6 ? "[%s]:%u" : "%s:%u", uri, port);
        if (n < 0 || (size_t)n >= sizeof(role->scheduler))
            is_wrong(r, "DMLC_PS_ROOT_URI", uri);
    }
    read_dmlc_rank(r);
    text(r, role->host, "DMLC_NODE_HOST", maybe(r, "DMLC_NODE_HOST"));
    text(r, role->interface, "DMLC_INTERFACE", maybe(r, "DMLC_INTERFACE"));
    if (role->role != WIRE_SCHEDULER)
        role->port = (uint16_t)role_number(r, "PORT", maybe(r, "PORT"), 0, UINT16_MAX);
}

// ---------------------------------------------------------------- Paddle

// Reads Paddle's list of servers: counts them, takes the first one's address as the
// scheduler's, and finds the rank of this process by its endpoint `own`.
static void read_list(struct reading *r, const char *list, const char *own)
{
    static const char name[] = "PADDLE_PSERVERS_IP_PORT_LIST";
    struct role *role = r->role;
    for (const char *item = list; item != NULL && *item != 0;) {
        size_t n = strcspn(item, ",;");
        char one[ROLE_TEXT_MAX];
        snprintf(one, sizeof(one), "%.*s", n < sizeof(one) ? (int)n : 0, item);
        const char *colon = strrchr(one, ':');
        uint32_t port;
        if (colon == NULL || colon == one || !role_parse(colon + 1, UINT16_MAX, &port))
            is_wrong(r, name, one);
        if (role->servers == 0)
            memcpy(role->scheduler, one, sizeof(one));
        if (own != NULL && strcmp(one, own) == 0 && !role->has_rank) {
            role->has_rank = true;
            role->rank = role->servers;
        }
        role->servers++;
        item += n + (item[n] != 0);
    }
    if (role->servers > ROLE_PROCESSES_MAX)
        is_wrong(r, name, "more than 4096 servers");
}

static void read_pserver(struct reading *r, const char *list)
{
    struct role *role = r->role;
    const char *ip = need(r, "POD_IP"), *port = need(r, "PADDLE_PORT");
    role_number(r, "PADDLE_PORT", port, 1, UINT16_MAX);
    text(r, role->host, "POD_IP", ip);
    if (ip == NULL || port == NULL) {
        read_list(r, list, NULL);
        return;
    }
    char own[ROLE_TEXT_MAX];
    snprintf(own, sizeof(own), "%s:%s", ip, port);
    read_list(r, list, own);
    if (list != NULL && !role->has_rank)
        role_add(r->wrong, sizeof(r->wrong), "POD_IP:PADDLE_PORT='%s'%s", own,
                 " (not in PADDLE_PSERVERS_IP_PORT_LIST)");
    role->hosts_scheduler = role->has_rank && role->rank == 0;
    // The scheduler listens at the port of the first server, whose loops therefore listen
    // at other ports.
    uint32_t n = 0;
    if (!role->hosts_scheduler && role_parse(port, UINT16_MAX, &n))
        role->port = (uint16_t)n;
}

static void read_paddle(struct reading *r, enum wire_role known)
{
    static const char *const words[] = {NULL, "PSERVER", "TRAINER"};
    struct role *role = r->role;
    role->role = choose(r, "TRAINING_ROLE", known, words);
    const char *list = need(r, "PADDLE_PSERVERS_IP_PORT_LIST");
    role->workers = need_number(r, "PADDLE_TRAINERS_NUM", 1, ROLE_PROCESSES_MAX);
    if (role->role == WIRE_SERVER) {
        read_pserver(r, list);
        return;
    }
    read_list(r, list, NULL);
    text(r, role->host, "POD_IP", maybe(r, "POD_IP"));
    if (role->role == WIRE_WORKER) {
        role->rank = need_number(r, "PADDLE_TRAINER_ID", 0, ROLE_PROCESSES_MAX);
        role->has_rank = true;
    }
}

// ---------------------------------------------------------------- both

int role_read(struct role *ret, enum wire_role known, role_getenv get, void *ctx,
              struct err *e)
{
    struct reading r = {.get = get, .ctx = ctx, .role = ret};
    // If the caller knows the role, the scheduler's address is enough to show that the
    // environment describes a cluster.
    bool told = known != WIRE_NOBODY;
    *ret = (struct role){0};
    if (maybe(&r, told ? "DMLC_PS_ROOT_URI" : "DMLC_ROLE") != NULL) {
        ret->scheme = ROLE_DMLC;
        read_dmlc(&r, known);
    } else if (maybe(&r, told ? "PADDLE_PSERVERS_IP_PORT_LIST" : "TRAINING_ROLE") !=
               NULL) {
        ret->scheme = ROLE_PADDLE;
        read_paddle(&r, known);
    }
    if (r.missing[0] == 0 && r.wrong[0] == 0)
        return 0;
    return err_set(e, TUG_EUSAGE, "%s%s%s%s%s",
                   r.missing[0] != 0 ? "these environment variables are missing: " : "",
                   r.missing, r.missing[0] != 0 && r.wrong[0] != 0 ? "; " : "",
                   r.wrong[0] != 0 ? "these environment variables are wrong: " : "",
                   r.wrong);
}

int role_needs_servers(role_getenv get, void *ctx, struct err *e)
{
    const char *launched = get(ctx, "TUG_LAUNCHED");
    if (launched == NULL || strcmp(launched, "workers") != 0)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "only the workers of this cluster run this program, and its servers have to run "
        "it, too: add --all-roles to python3 -m tug launch (all_roles=True to "
        "tug.launch), or start it with tug launch");
}

void role_tell_rank(const struct role *r, bool server, uint32_t rank)
{
    const char *role = server ? "server" : "worker";
    if (r->scheme != ROLE_DMLC || !r->has_rank || r->rank == rank)
        return;
    log_warn("%s=%u: this process is %s %u, because another process has rank %u or the "
             "cluster has no such rank",
             server ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID", r->rank, role, rank, r->rank);
}
