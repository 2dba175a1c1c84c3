// The system calls that change the disk. Files that are to be complete or absent
// (base/file.h) are made of these alone, so that a test can end the process at each of
// them, as a power cut would, or let each of them fail, and look at what is left.
//
// All code that makes, renames or removes files uses these functions (tools/check): none
// of them follows a link at the end of a path.
//
// All return what the call returns, errno included.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_DISK_H
#define TUG_BASE_DISK_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

// Opened for writing; EEXIST if anything is there, be it a link that leads nowhere.
int disk_create_at(int dir, const char *name, mode_t mode);
ssize_t disk_write(int fd, struct iovec *parts, int n);
// Writes to a pipe or device, which is not a disk and not a place for injected faults: a
// closed reader gives EPIPE and no signal.
ssize_t disk_write_pipe(int fd, struct iovec *parts, int n);
int disk_sync(int fd); // a file or a directory
int disk_rename_at(int dir, const char *from, const char *to);
int disk_make_dir(const char *path);
int disk_make_dir_at(int dir, const char *name);
int disk_make_own_dir(const char *path); // that only this account can enter
int disk_make_temp_dir(char *path); // the same; ends in XXXXXX, which become its name
int disk_set_mode(int fd, mode_t mode);
int disk_remove(const char *path); // a file, an empty directory, or a link itself
int disk_remove_at(int dir, const char *name);     // a file, or a link itself
int disk_remove_dir_at(int dir, const char *name); // an empty directory

// For tests. The (n+1)-th of these calls from now on, and only that one, fails with
// `error`; or the process ends there with DISK_FAULT_EXIT, a write half done, if `error`
// is 0. n < 0 switches the fault off. disk_faulted(): whether it has struck.
enum { DISK_FAULT_EXIT = 137 };
void disk_fault_after(long n, int error);
bool disk_faulted(void);

#endif
