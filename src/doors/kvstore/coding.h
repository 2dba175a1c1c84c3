// Compression of gradients with error feedback: 2 bits or 1 bit a value (Seide et al. 2014,
// 1-bit SGD; with the codes of mxnet's gradient_compression).
//
//   2bit  r += g;  r >= t: code 3, r -= t;  r <= -t: code 2, r += t;  else code 0
//         16 values in 4 bytes: value i in bits 7-2j and 6-2j, j = i mod 4, of byte i / 4
//   1bit  r += g;  r > t: bit 1, r -= 1;  else bit 0, r += 1
//         32 values in 4 bytes: value i in bit 7 - i mod 8 of byte i / 8
//
// g is a gradient, t the threshold, and r the residual, which the encoder keeps for its
// next push. 2bit decodes to t, -t and 0, 1bit to 1 and -1.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_CODING_H
#define TUG_DOORS_KVSTORE_CODING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum kvs_coding { KVS_UNCODED, KVS_2BIT, KVS_1BIT };

// Reads the name of a coding, and checks the threshold: NAN becomes 0.5; for 2bit, it must
// be above 0.
int kvs_coding_parse(const char *name, float *threshold, enum kvs_coding *ret,
                     struct err *e);

// Returns the number of 4-byte words for n values.
size_t kvs_coded_words(enum kvs_coding c, size_t n);
void kvs_encode(enum kvs_coding c, float threshold, const float *values, float *left,
                size_t n, uint32_t *words);
void kvs_decode(enum kvs_coding c, float threshold, const uint32_t *words, size_t n,
                float *values);

#endif
