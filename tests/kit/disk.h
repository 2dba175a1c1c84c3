// A journal on a simulated disk, for a scheduler that dies while it writes: before a group
// is durable, in the middle of it, or after it. The bytes are those of the journal's file
// (cluster/journal), and are read by the same code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_DISK_H
#define TUG_KIT_DISK_H

#include "base/buf.h"
#include "cluster/journal/journal.h"

// A slow disk makes a group durable only some time after the commit, like a journal that a
// thread writes. A process that dies in between loses the group, a part of it, or nothing.

// The part of the last group that is durable when the process dies.
enum disk_death { DISK_NOTHING, DISK_PART, DISK_ALL, DISK_DEATHS };

// The journal of one process. Only the newest process may write: the writes of older
// processes fail, like the writes of a scheduler that has lost its lease in etcd.
struct disk_user {
    struct journal base;
    struct sim_disk *disk;
    uint64_t process;
    // The group that is not durable yet; `replaces`: it replaces all other groups.
    bool busy, replaces;
    bool lost; // the process has ended since, or was replaced
    struct buf todo;
    uint64_t due; // virtual time at which the group becomes durable
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
    struct sim *sim; // the clock of a slow disk; NULL: commits are durable at once
    uint64_t delays; // number of delays so far
};

// Gives the process a copy of the disk, as on another machine: from now on the writes of
// the process change only the copy.
int disk_part(struct sim_disk *copy, struct disk_user *u, struct err *e);
int disk_open(struct sim_disk *d, uint64_t random, struct err *e);
void disk_close(struct sim_disk *d);
// Makes the group of a slow disk durable if its time has come. Returns whether it is
// durable now, or the process has died in this write.
bool disk_look(struct disk_user *u);
// Decides which part of a group that is being written is durable, when the process dies or
// is replaced.
int disk_lose(struct disk_user *u, struct err *e);
void disk_leave(struct disk_user *u); // frees the memory of a process
// Begins another process, which removes an unfinished group from the file. *u must not
// move. Also checks that a flipped bit in the file would be found.
int disk_again(struct sim_disk *d, struct disk_user *u, struct err *e);

#endif
