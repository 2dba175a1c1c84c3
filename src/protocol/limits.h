// Limits that clients and server loops both observe. No message has them, so both must be
// built with the same values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_LIMITS_H
#define TUG_PROTOCOL_LIMITS_H

enum {
    // Most push numbers of a session beyond the number up to which all are done.
    SHARD_WINDOW = 64,
    ADMIN_WINDOW = 16, // most admin operations of a session in flight
};

#endif
