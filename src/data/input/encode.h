// Encoders: write a file under a temporary name and rename it; compress it if its name
// ends in .gz, .zst or .lz4.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_ENCODE_H
#define TUG_DATA_INPUT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct encoder;

// Checks that the name's ending fits what the encoder writes. Returns TUG_EUSAGE for the
// ending (in upper or lower case) of a binary format of tables or of a compression that
// the encoder cannot write. With `plain`, the caller writes only text, so the endings of
// all compressions are refused. `option` is the option that named the file.
int encoder_check_name(const char *option, const char *path, bool plain, struct err *e);

int encoder_open(struct encoder **ret, const char *path, struct err *e);
int encoder_write(struct encoder *c, const void *bytes, size_t n, struct err *e);
// Ends the stream and renames the temporary file to its final name; frees c, even on
// failure. Sets *ret_bytes to the file's size unless ret_bytes is NULL.
int encoder_commit(struct encoder *c, uint64_t *ret_bytes, struct err *e);
void encoder_abort(struct encoder *c); // leaves no file; frees c, which may be NULL

#endif
