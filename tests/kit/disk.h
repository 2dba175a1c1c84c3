// A journal on a simulated disk, for a scheduler that dies while it writes: before a group
// is durable, in the middle of it, or after it. The bytes are those of the journal's file
// (cluster/journal), and are read by the same code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_DISK_H
#define TUG_KIT_DISK_H

#include "base/buf.h"
#include "cluster/journal/journal.h"

// The part of the last group that is durable when the process dies.
enum disk_death { DISK_NOTHING, DISK_PART, DISK_ALL, DISK_DEATHS };

// The journal of one process. Only the newest process may write: the writes of older
// processes fail, like the writes of a scheduler that has lost its lease in etcd.
struct disk_user {
    struct journal base;
    struct sim_disk *disk;
    uint64_t process;
};

struct sim_disk {
    uint64_t processes; // number of processes so far
    struct buf file;
    uint64_t random; // random number in the head of the file
    // Number of commits of this process, including replacements of all groups.
    uint64_t commits;
    // The process dies in this commit (the first one is 1); UINT64_MAX: in none.
    uint64_t dies_at;
    enum disk_death how;
    uint64_t part; // number of bytes of a group that DISK_PART leaves, modulo the group's
                   // length
    bool died;
};

// Gives the process a copy of the disk, as on another machine: from now on the writes of
// the process change only the copy.
int disk_part(struct sim_disk *copy, struct disk_user *u, struct err *e);
int disk_open(struct sim_disk *d, uint64_t random, struct err *e);
void disk_close(struct sim_disk *d);
// Begins another process, which removes an unfinished group from the file. *u must not
// move.
int disk_again(struct sim_disk *d, struct disk_user *u, struct err *e);

#endif
