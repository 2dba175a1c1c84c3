// Files as compressors write them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_COMPRESSION_H
#define TUG_KIT_COMPRESSION_H

#include "base/buf.h"

enum compression { GZIP, ZSTD, LZ4, COMPRESSIONS };

// Compresses n bytes, and appends them to *b as one member (gzip) or frame (zstd, lz4).
// Members and frames have checksums.
void compress_to(struct buf *b, enum compression how, const void *in, size_t n);

#endif
