// A journal keeps the scheduler's decisions, so that a scheduler that was killed and
// started again goes on. It is a sequence of groups of bytes. A group is written and made
// durable as a whole, so that after a crash it is there completely or not at all. It lies
// in a file, as described here, or in etcd (etcd/etcd.h).
//
// The file, DIR/journal, has mode 0600, because it contains the key of sessions:
//
//   head    "tugjour1", a random number (u64), and a checksum of both (u64)
//   group   a mark (u32, computed from the random number and the group's place), the length
//           of its bytes (u32), a checksum (u64), the bytes, and zeros up to a multiple of 8
//
// The checksum covers length, bytes, the random number and the group's place, so bytes of
// another file, or of another place, are not taken for a group. A group is written only
// after the previous one is durable. So a damaged group at the end was not finished before
// a crash: it is cut off. A damaged group before a sound one is damage of the disk, and
// an error. A file is made or replaced by a rename after all of it is durable, so its
// first group, which may be empty, is never cut off.
//
// The directory is locked while the journal is open: a second scheduler is refused.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_JOURNAL_JOURNAL_H
#define TUG_CLUSTER_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { JOURNAL_GROUP_MAX = 256 << 20 }; // most bytes of one group

struct journal;

struct journal_ops {
    int (*replay)(struct journal *j,
                  int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                  void *ctx, struct err *e);
    int (*commit)(struct journal *j, const void *bytes, size_t n, struct err *e);
    int (*replace)(struct journal *j, const void *bytes, size_t n, struct err *e);
    uint64_t (*bytes)(const struct journal *j);
    void (*close)(struct journal *j);
    // The following functions are NULL in a journal whose groups are durable when commit
    // returns.
    int (*ready)(struct journal *j, struct err *e);
    int (*wait)(struct journal *j, struct err *e);
    bool (*speaks)(struct journal *j);
    void (*wake_by)(struct journal *j, void (*wake)(void *ctx), void *ctx);
    uint64_t (*silent_ns)(struct journal *j);
};

// Every implementation's struct begins with this one.
struct journal {
    const struct journal_ops *ops;
};

// Opens the journal in a directory, which is made if it is missing. Returns TUG_EUSAGE if
// another process has it open, TUG_EIO if the directory or the file cannot be used, and
// TUG_EDATA if the file is damaged or is not a journal. The journal of a new directory
// has no groups.
int journal_open(struct journal **ret, const char *dir, struct err *e);

// Lets a thread write the groups of *j from now on: *j becomes a journal that owns the old
// one. After an error *j is unchanged.
int journal_thread(struct journal **j, struct err *e);

static inline void journal_close(struct journal *j)
{
    if (j != NULL)
        j->ops->close(j);
}

// Calls `each` with each group, in the order in which the groups were added, until `each`
// returns an error. Call it before the first commit.
static inline int journal_replay(struct journal *j,
                                 int (*each)(void *ctx, const void *bytes, size_t n,
                                             struct err *e),
                                 void *ctx, struct err *e)
{
    return j->ops->replay(j, each, ctx, e);
}

// Adds a group. The group is durable as soon as journal_ready returns 1; in a journal
// file without a thread, already when this call returns. After a failure the group counts
// as not written, and all further calls fail with the same error: the scheduler may not
// answer requests any more.
static inline int journal_commit(struct journal *j, const void *bytes, size_t n,
                                 struct err *e)
{
    return j->ops->commit(j, bytes, n, e);
}

// Replaces all groups by this one, atomically: after a crash the journal has either the
// old groups or this one.
static inline int journal_replace(struct journal *j, const void *bytes, size_t n,
                                  struct err *e)
{
    return j->ops->replace(j, bytes, n, e);
}

// Returns 1 if all groups are durable and the journal belongs to this scheduler, 0 if
// that is not known yet, or the status of a failure, which is final. After 0, the
// function of journal_wake_by is called when the answer may have changed.
static inline int journal_ready(struct journal *j, struct err *e)
{
    return j->ops->ready != NULL ? j->ops->ready(j, e) : 1;
}

// Waits until journal_ready returns 1 or an error; the journal limits the time.
static inline int journal_wait(struct journal *j, struct err *e)
{
    return j->ops->wait != NULL ? j->ops->wait(j, e) : 0;
}

// Returns whether the journal belongs to this scheduler now. If it does, messages that
// contain no decision may be sent.
static inline bool journal_speaks(struct journal *j)
{
    return j->ops->speaks == NULL || j->ops->speaks(j);
}

// Returns for how long the store of the journal (etcd) has not answered; 0: it answers,
// or the journal is a file. Any thread may call it.
static inline uint64_t journal_silent_ns(struct journal *j)
{
    return j->ops->silent_ns != NULL ? j->ops->silent_ns(j) : 0;
}

// Sets the function that is called, by any thread, when the result of
// journal_ready may have changed.
static inline void journal_wake_by(struct journal *j, void (*wake)(void *ctx), void *ctx)
{
    if (j->ops->wake_by != NULL)
        j->ops->wake_by(j, wake, ctx);
}

// For implementations of a journal: returns TUG_EDATA if n bytes are too many for a
// group.
int journal_check_size(size_t n, struct err *e);

static inline uint64_t journal_bytes(const struct journal *j)
{
    return j->ops->bytes(j);
}

// Checks the bytes of a journal's file and calls `each` with each group. Returns
// TUG_EDATA if the bytes are damaged; else 0, and *ret_end is the end of the last sound
// group. `name` is used in errors.
int journal_read(const void *bytes, size_t n, const char *name, uint64_t *ret_end,
                 int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                 void *ctx, struct err *e);

#endif
