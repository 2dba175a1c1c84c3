// Reads uncompressed text.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/input/decode.h"

static int plain_open(struct decoder *d, struct err *e)
{
    (void)d, (void)e;
    return 0;
}

// First returns the bytes that were read to detect the compression; then reads directly
// into the caller's memory.
static int plain_read(struct decoder *d, char *out, size_t cap, size_t *ret_n,
                      struct err *e)
{
    size_t have = d->in_len - d->in_at;
    if (have == 0)
        return decoder_read_input(d, out, cap, ret_n, e);
    size_t n = have < cap ? have : cap;
    memcpy(out, d->in + d->in_at, n);
    d->in_at += n;
    *ret_n = n;
    return 0;
}

static void plain_close(struct decoder *d)
{
    (void)d;
}

const struct decode_ops decode_plain = {.name = "plain",
                                        .expansion = 1,
                                        .open = plain_open,
                                        .read = plain_read,
                                        .close = plain_close};
