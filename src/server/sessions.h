// Records of sessions: an array of structs that each begin with their session (a
// uint64_t), by ascending session. There are few, and they change rarely.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SESSIONS_H
#define TUG_SERVER_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

struct sessions {
    void *first;
    size_t size, n, max; // size: of each; known when there is one
};

void sessions_fini(struct sessions *a); // a zeroed one is fine

// Room for so many more. TUG_ENOMEM: unchanged.
int sessions_reserve(struct sessions *a, size_t size, size_t more);
// A session's; valid until the next change. NULL if it has none.
void *sessions_find(const struct sessions *a, uint64_t session);
// Likewise, made where it has none: zeroed but for its session. NULL: no memory.
void *sessions_make(struct sessions *a, size_t size, uint64_t session);
void sessions_remove(struct sessions *a, void *one); // of the array; NULL is fine

uint64_t sessions_at(const struct sessions *a, size_t i); // the session that is i-th

#endif
