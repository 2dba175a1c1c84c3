// Encoders: a file written beside and renamed, compressed when its name says so (.gz,
// .zst, .lz4).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_ENCODE_H
#define TUG_DATA_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct encoder;

// The content must be what the name says. TUG_EUSAGE: it ends like a compression that is
// not written here, or, with `plain`, like any: such a caller writes text only. `option`:
// that named the file.
int encoder_check_name(const char *option, const char *path, bool plain, struct err *e);

int encoder_open(struct encoder **ret, const char *path, struct err *e);
int encoder_write(struct encoder *c, const void *bytes, size_t n, struct err *e);
// Ends the stream and makes the file appear under its name; frees c, also on failure. The
// size of the file into *ret_bytes unless NULL.
int encoder_commit(struct encoder *c, uint64_t *ret_bytes, struct err *e);
void encoder_abort(struct encoder *c); // leaves no file; frees c; NULL is fine

#endif
