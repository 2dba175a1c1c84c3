// What clients and server loops both keep to, for neither is told by the other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_LIMITS_H
#define TUG_PROTOCOL_LIMITS_H

enum {
    SHARD_WINDOW = 64, // pushes of a session above its low-water mark
    ADMIN_WINDOW = 16, // admin operations of a session that are under way
};

#endif
