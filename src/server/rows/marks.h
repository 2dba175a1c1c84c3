// A record of the marks: which session has marked which save, and when. There may be a
// mark of each worker, and each push looks up the marks of its session; so the marks are
// a hash table by session.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_MARKS_H
#define TUG_SERVER_ROWS_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/budget.h"

struct save_mark {
    uint64_t save, session; // session is 0 if the entry is free
    uint64_t saver;         // session of the client that saves; 0: not known
    uint64_t since;
};

struct marks {
    struct budget *budget; // may be NULL
    struct save_mark *places;
    size_t n, n_places; // n_places is a power of two, and at least half of the entries
                        // are free
};

void marks_fini(struct marks *m); // *m may be zeroed

// Adds a mark; its session is not 0 and has not marked this save yet. Returns 0,
// TUG_ENOMEM if the system has no memory, or TUG_EIO if the budget allows no more.
int marks_add(struct marks *m, const struct save_mark *mark);
bool marks_has(const struct marks *m, uint64_t save, uint64_t session);

// Returns the next mark of a session, or NULL after the last one; the order is arbitrary.
// *cursor must be 0 before the first call.
const struct save_mark *marks_next(const struct marks *m, uint64_t session,
                                   size_t *cursor);
// Removes all marks for which `goes` returns true. It may be called several times for one
// mark, and must give the same answer.
void marks_remove(struct marks *m, bool (*goes)(void *ctx, const struct save_mark *mark),
                  void *ctx);

#endif
