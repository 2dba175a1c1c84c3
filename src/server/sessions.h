// Records of sessions: a sorted array of structs that each begin with the number of their
// session (a uint64_t). There are few records, and they change rarely.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SESSIONS_H
#define TUG_SERVER_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

struct sessions {
    void *first;
    size_t size, n, max; // size of a record in bytes (0 before the first record); number
                         // of records; capacity
};

void sessions_fini(struct sessions *a); // *a may be zeroed

// Makes room for `more` records. On TUG_ENOMEM nothing has changed.
int sessions_reserve(struct sessions *a, size_t size, size_t more);
// Returns the record of a session, which is valid until the next change of *a; NULL if
// the session has no record.
void *sessions_find(const struct sessions *a, uint64_t session);
// Returns the record of a session; makes a zeroed record if the session has none. Returns
// NULL if memory is out.
void *sessions_make(struct sessions *a, size_t size, uint64_t session);
// Removes a record. `one` is a record of the array, or NULL.
void sessions_remove(struct sessions *a, void *one);

uint64_t sessions_at(const struct sessions *a, size_t i); // the session of record i

#endif
