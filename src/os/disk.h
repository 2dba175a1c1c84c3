// The system calls that change the disk. Files that must be complete or absent
// (os/file.h) are made only by these calls. So a test can end the process at each call,
// as a power cut would, or let the call fail, and check the files that are left.
//
// All code that makes, renames or removes files uses these functions (tools/check holds
// it to that). None of them follows a link at the end of a path.
//
// All return the result of the system call and set errno.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_DISK_H
#define TUG_OS_DISK_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

// Creates a file for writing. Fails with EEXIST if the name exists, even if it is a link
// whose target is missing.
int disk_create_at(int dir, const char *name, mode_t mode);
ssize_t disk_write(int fd, struct iovec *parts, int n);
// Writes to a pipe or a device; injected faults do not apply to them. If the reader has
// closed the pipe, returns -1 with errno EPIPE, and no SIGPIPE is sent.
ssize_t disk_write_pipe(int fd, struct iovec *parts, int n);
int disk_sync(int fd); // syncs a file or a directory
int disk_rename_at(int dir, const char *from, const char *to);
int disk_make_dir(const char *path);
int disk_make_dir_at(int dir, const char *name);
int disk_make_own_dir(const char *path); // only this account may enter the directory
int disk_make_temp_dir(char *path);      // as disk_make_own_dir; `path` ends in XXXXXX,
                                         // which the name replaces
int disk_set_mode(int fd, mode_t mode);
int disk_remove(const char *path); // removes a file, an empty directory, or a link itself
int disk_remove_at(int dir, const char *name);     // removes a file or a link itself
int disk_remove_dir_at(int dir, const char *name); // removes an empty directory

// For tests. The (n+1)-th call from now on, and only that one, fails with `error`. If
// `error` is 0, the process ends in that call with exit code DISK_FAULT_EXIT; if the call
// is a write, half of its bytes are written first. n < 0: no call fails. disk_faulted
// returns whether the failing call has been made.
enum { DISK_FAULT_EXIT = 137 };
void disk_fault_after(long n, int error);
bool disk_faulted(void);

#endif
