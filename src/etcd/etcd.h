// A journal (cluster/journal) in etcd, by its JSON gateway, and the lease by which one
// scheduler at a time has it. docs/design/0045-state-in-etcd.md has the reasons.
//
// Keys, below the prefix:
//
//   leader           what the leader says of itself; the key ends with the leader's lease
//   head             the name of the log that counts
//   log/NAME/G/P     part P of group G: '+' (more parts follow) or '.', and bytes
//
// Every write is a transaction that holds only while `leader` is the key that this
// scheduler has created, so a scheduler that lost its lease cannot write. A group counts
// once its last part is there, a new log once `head` names it.
//
// Two threads work beside the scheduler's loop: one keeps the lease alive, one writes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ETCD_ETCD_H
#define TUG_ETCD_ETCD_H

#include <stdbool.h>

#include "base/err.h"
#include "cluster/journal/journal.h"
#include "os/interrupt.h"

struct etcd_options {
    const char *state;          // etcd://HOST:PORT,...[/PREFIX] or etcds://...
    const char *cluster;        // name of the cluster; the prefix if `state` has none
    const char *about;          // the text of the leader's key: host and process
    bool insecure;              // allows plain HTTP to other machines
    double patience;            // seconds without an answer after which etcd is given up
    struct interrupt interrupt; // ends the wait of a standby
    void (*say)(void *ctx, const char *line); // lines about waiting; may be NULL
    void *ctx;
};

// Returns whether the value of --state names etcd, and not a directory.
bool etcd_is(const char *state);

// Opens the journal: waits until no other scheduler has it. Sets *ret to NULL if the
// cluster of the other scheduler has ended during the wait, so that there is nothing to
// take over. Returns TUG_EUSAGE if the address cannot be used, TUG_EIO if etcd does not
// answer, TUG_EINTERRUPTED if the wait was interrupted.
int etcd_open(struct journal **ret, const struct etcd_options *o, struct err *e);

#endif
