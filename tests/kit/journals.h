// A journal in memory, for tests. Its writes fail when the test wants. Groups that are
// durable outlive the scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_JOURNALS_H
#define TUG_KIT_JOURNALS_H

#include "base/buf.h"
#include "cluster/journal/journal.h"

struct memory_journal {
    struct journal base;
    struct buf groups; // each with its length (u64) in front
    uint64_t commits;  // number of commits so far, including failed ones
    // The number of commits after which the writes fail; `keeps`: the first commit that
    // fails is nevertheless durable, as when the process ends right after this commit.
    uint64_t fails_after;
    bool keeps;
    bool waits; // it is not known whether the journal belongs to this scheduler
    bool slow;  // no group becomes durable
};

void journals_open(struct memory_journal *j);
void journals_free(
    struct memory_journal *j); // not called if a scheduler closes the journal
// Lets the writes succeed from now on.
void journals_mend(struct memory_journal *j);
// Makes a copy, which has the same groups.
void journals_copy(struct memory_journal *to, const struct memory_journal *from);

#endif
