// Limits that clients and server loops both observe and do not tell each other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_LIMITS_H
#define TUG_PROTOCOL_LIMITS_H

enum {
    SHARD_WINDOW = 64, // most push numbers of a session above its low-water mark
    ADMIN_WINDOW = 16, // most admin operations of a session in flight
};

#endif
