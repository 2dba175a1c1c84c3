// The bytes of one file: on this machine, on a server, or made by a command. Each of
// these is one `input_ops`; decoders and pieces know nothing else about it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_INPUT_H
#define TUG_DATA_INPUT_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "os/interrupt.h"

struct input;

struct input_ops {
    // Reads up to `cap` of the next bytes; *ret_n is 0 at the end.
    int (*read)(struct input *in, char *out, size_t cap, size_t *ret_n, struct err *e);
    // Makes the next read begin at byte `at`, which is at most the size of the file.
    // NULL: the input is a stream.
    int (*seek)(struct input *in, uint64_t at, struct err *e);
    // Reads up to n bytes from byte `at` on, without moving the position of read; *ret_n
    // is 0 at the end. NULL: the input is a stream.
    int (*read_at)(struct input *in, char *out, size_t n, uint64_t at, size_t *ret_n,
                   struct err *e);
    void (*close)(struct input *in);
};

// Each kind of input has a struct of its own, which begins with this one.
struct input {
    const struct input_ops *ops;
    const char *name; // name of the file in messages; the caller owns it
    int fd;           // descriptor of a file on this machine; -1: the file is remote
};

// Takes ownership of `fd`, even on failure. If `fd` is a pipe, `wake_fd` interrupts waits
// as in struct interrupt.
int input_open_fd(struct input **ret, int fd, const char *name, int wake_fd,
                  struct err *e);

struct web_file;
int input_open_web(struct input **ret, const struct web_file *f,
                   const struct interrupt *i, struct err *e);

void input_close(struct input *in); // `in` may be NULL

// Reads all bytes [at, at + n). Returns TUG_EDATA if the file ends before at + n, because
// the file must then have changed.
int input_read_all(struct input *in, char *out, size_t n, uint64_t at, struct err *e);

#endif
