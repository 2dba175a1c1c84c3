// Tables by message type: its name, the type of its answer, its fields.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "wire/wire.h"

const char *wire_name(uint16_t type)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return #name;
#include "wire/messages.def"
    default:
        return NULL;
    }
}

// Returns whether a server's loop or the scheduler serves requests of this type.
static bool is_served(uint16_t type)
{
    return false
#define TO_SERVER(NAME, name) || type == MSG_##NAME
#define TO_SCHEDULER(NAME, name) || type == MSG_##NAME
#define TO_DOOR(NAME, name) || type == MSG_##NAME
#include "wire/messages.def"
        ;
}

// A request that is not listed here is answered by OK.
uint16_t wire_answer(uint16_t type)
{
    switch (type) {
    case MSG_JOIN: // answered by JOINED and by ROSTER
    case MSG_HEARTBEAT:
    case MSG_MAY_LEAVE:
    case MSG_OPERATION:
    case MSG_PUSH:
    case MSG_PROFILE:
        return 0;
    case MSG_PULL:
        return MSG_PULLED;
    case MSG_ROWS:
        return MSG_ROWS_ARE;
    case MSG_TABLE_WANTED:
        return MSG_TABLE_IS;
    case MSG_TABLE_INFO:
        return MSG_TABLE_INFO_IS;
    case MSG_MOVE_WANTED:
        return MSG_PARCEL;
    case MSG_SAVE:
        return MSG_SAVED;
    case MSG_ROOTS:
        return MSG_ROOTS_ARE;
    case MSG_ROSTER_WANTED:
        return MSG_ROSTER;
    case MSG_BARRIER:
        return MSG_BARRIER_STATE;
    case MSG_COLLECT:
        return MSG_COLLECTED;
    case MSG_LEASE:
        return MSG_LEASED;
    case MSG_READ_LEASE:
        return MSG_READ_LEASED;
    case MSG_PASS:
    case MSG_PASS_WANTED:
        return MSG_PASS_STATE;
    case MSG_CUT:
        return MSG_CUT_STATE;
    case MSG_DATA_WANTED:
        return MSG_DATA_IS;
    case MSG_STATUS:
        return MSG_STATUS_IS;
    default:
        return is_served(type) ? MSG_OK : 0;
    }
}

#define MESSAGE(NAME, name, id, ...)                                                     \
    static inline void *field_of_##name(struct msg_##name *m, const char *type_and_name) \
    {                                                                                    \
        (void)m, (void)type_and_name;
#define RECORD(NAME, name, about)                                                        \
    static inline void *field_of_record_##name(struct wire_##name *m,                    \
                                               const char *type_and_name)                \
    {
#define FIELD(type, name, about)                                                         \
    if (strcmp(type_and_name, #type " " #name) == 0)                                     \
        return &m->name;
#define END(name)                                                                        \
    return NULL;                                                                         \
    }
#include "wire/messages.def"

void *wire_field(uint16_t type, union wire_any *m, const char *type_and_name)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return field_of_##name(&m->name, type_and_name);
#include "wire/messages.def"
    default:
        return NULL;
    }
}
