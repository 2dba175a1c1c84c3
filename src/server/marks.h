// Marks: which session has marked which save, and when. As many as there are workers, and
// each is looked up at every push of its session, so they are a hash table by session.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MARKS_H
#define TUG_SERVER_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"

struct save_mark {
    uint64_t save, session; // session 0: a free place
    uint64_t since;
};

struct marks {
    struct budget *budget; // may be NULL
    struct save_mark *places;
    size_t n, n_places; // a power of two, half of it free
};

void marks_fini(struct marks *m); // a zeroed one is fine

// The session is not 0, and has not marked the save. TUG_ENOMEM: no memory; TUG_EIO: not
// allowed more.
int marks_add(struct marks *m, const struct save_mark *mark);
bool marks_has(const struct marks *m, uint64_t save, uint64_t session);

// The marks of a session, one after the other, in no order: *cursor begins at 0; NULL at
// the end.
const struct save_mark *marks_next(const struct marks *m, uint64_t session,
                                   size_t *cursor);
// Removes all marks that `goes` says yes to. It is asked at least once of each, and says
// the same each time.
void marks_remove(struct marks *m, bool (*goes)(void *ctx, const struct save_mark *mark),
                  void *ctx);

#endif
