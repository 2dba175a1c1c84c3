// Measures what this process uses of the machine: CPU, memory, descriptors, disks. A
// thread measures once a second, so that a reader never waits for a disk that does not
// answer, and many readers cost no more than one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_USAGE_H
#define TUG_OS_USAGE_H

#include <stddef.h>

#include "base/err.h"
#include "base/json_out.h"

enum { USAGE_DISKS = 8 };

// A directory whose disk is watched.
struct usage_disk {
    const char *what; // "cold", "saves" or "log"; never freed
    const char *path; // usage_open copies it; NULL: the entry is ignored
};

struct usage;

// Measures once, and starts the thread that measures every second.
int usage_open(struct usage **ret, const struct usage_disk *disks, size_t n,
               struct err *e);
// Waits for the thread for at most a second: if a disk does not answer, the thread ends
// later, when the disk answers. NULL is fine.
void usage_close(struct usage *u);

// Writes the members "version", "pid", "unix_seconds", "uptime_seconds", "cpu_seconds",
// "resident_bytes", "open_files", "open_files_max" and "disks" into an open object. A disk
// whose space is not known is left out. If `u` is NULL, only the version is written. Any
// thread may call it.
void usage_print(struct usage *u, struct json_out *o);

#endif
