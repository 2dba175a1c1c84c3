// The bytes of one file, wherever it lies: on this machine, on a server, or made by
// a command. A place where files can lie is one `input_ops`; decoders and pieces
// know nothing else of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_H
#define TUG_DATA_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/interrupt.h"

struct input;

struct input_ops {
    // Up to `cap` of the bytes that come next; *ret_n = 0: there are no more.
    int (*read)(struct input *in, char *out, size_t cap, size_t *ret_n, struct err *e);
    // The next read begins at byte `at`, which the file has or ends at. NULL: a stream.
    int (*seek)(struct input *in, uint64_t at, struct err *e);
    // Up to n bytes from byte `at` on, wherever reading is; *ret_n = 0: there are none.
    // NULL: a stream.
    int (*read_at)(struct input *in, char *out, size_t n, uint64_t at, size_t *ret_n,
                   struct err *e);
    void (*close)(struct input *in);
};

// The first member of each kind of input.
struct input {
    const struct input_ops *ops;
    const char *name; // for messages; borrowed
    int fd;           // of a file on this machine; -1: it lies elsewhere
};

// Takes over `fd`, also on failure. `wake_fd`: as of struct interrupt, for pipes.
int input_open_fd(struct input **ret, int fd, const char *name, int wake_fd,
                  struct err *e);

// A file that lies elsewhere.
struct web_file;
int input_open_web(struct input **ret, const struct web_file *f,
                   const struct interrupt *i, struct err *e);

void input_close(struct input *in); // NULL is fine

// Reads all of [at, at + n); TUG_EDATA if the file ends before that: it has changed.
int input_read_all(struct input *in, char *out, size_t n, uint64_t at, struct err *e);

#endif
