// Roles of certificates and tokens: their names, and the messages that each may send.
//
// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#include <string.h>

static enum wire_from from_of(uint16_t type)
{
    switch (type) {
#define MESSAGE(NAME, name, id, since, from, ...)                                        \
    case id:                                                                             \
        return WIRE_FROM_##from;
#include "wire/messages.def"
    default:
        return WIRE_FROM_ANSWER;
    }
}

enum wire_from wire_right(enum wire_role role)
{
    switch (role) {
    case WIRE_TOOL:
        return WIRE_FROM_LOOK;
    case WIRE_WORKER:
        return WIRE_FROM_WORK;
    case WIRE_SERVER:
        return WIRE_FROM_SERVE;
    case WIRE_SCHEDULER:
    case WIRE_OPERATOR:
        return WIRE_FROM_ADMIN;
    default:
        return WIRE_FROM_KNOCK;
    }
}

bool wire_may(uint16_t type, enum wire_role role)
{
    enum wire_from from = from_of(type);
    return from > WIRE_FROM_KNOCK && from <= wire_right(role);
}

static const char *const role_names[] = {
    [WIRE_SCHEDULER] = "scheduler", [WIRE_SERVER] = "server",
    [WIRE_WORKER] = "worker",       [WIRE_DRIVER] = "driver",
    [WIRE_TOOL] = "tool",           [WIRE_OPERATOR] = "operator",
};
enum { ROLES = sizeof(role_names) / sizeof(*role_names) };

const char *wire_space_name(enum wire_space space)
{
    static const char *const names[WIRE_SPACES] = {"sparse", "dense", "range"};
    return names[space];
}

const char *wire_role_name(enum wire_role role)
{
    return (unsigned)role < ROLES ? role_names[role] : NULL;
}

int wire_may_not(uint16_t type, enum wire_role role, struct err *e)
{
    static const enum wire_role least[] = {
        [WIRE_FROM_LOOK] = WIRE_TOOL,
        [WIRE_FROM_WORK] = WIRE_WORKER,
        [WIRE_FROM_SERVE] = WIRE_SERVER,
        [WIRE_FROM_ADMIN] = WIRE_OPERATOR,
    };
    enum wire_from from = from_of(type);
    if (from <= WIRE_FROM_KNOCK || from >= WIRE_FROM_ANSWER)
        return err_set(e, TUG_EUSAGE, "no role may send %s", wire_name(type));
    return err_set(e, TUG_EUSAGE,
                   "%s needs the role '%s'; the sender's certificate or token has '%s'",
                   wire_name(type), role_names[least[from]], wire_role_name(role));
}

enum wire_role wire_role_read(const char *name)
{
    for (unsigned i = 1; i < ROLES; i++)
        if (strcmp(role_names[i], name) == 0 && wire_right(i) != WIRE_FROM_KNOCK)
            return (enum wire_role)i;
    return WIRE_NOBODY;
}
