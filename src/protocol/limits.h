// Limits for clients and for server loops. Messages do not carry these limits, so both
// sides must be built with the same values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_LIMITS_H
#define TUG_PROTOCOL_LIMITS_H

enum {
    // Pushes of a session are numbered. A push is refused if its number is this much above
    // the first number that is not acknowledged.
    SHARD_WINDOW = 64,
    ADMIN_WINDOW = 16, // greatest number of a session's admin operations in flight
};

#endif
