// What TLS can reach at best on this CPU: AES-128-GCM of records, by one core.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_CIPHER_H
#define TUG_BENCH_CIPHER_H

#include "base/err.h"

// Bytes a second of each direction.
int bench_cipher(double seconds, double *ret_encrypt, double *ret_decrypt, struct err *e);

#endif
