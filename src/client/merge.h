// Makes the keys of a batch distinct: adds up the values of equal keys, and copies a
// key's pulled values to all its places.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLIENT_MERGE_H
#define TUG_CLIENT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct client_merge;

int client_merge_open(struct client_merge **ret, struct err *e);
void client_merge_close(struct client_merge *m); // NULL is fine

// Reads a batch of n < 2^31 keys. *ret_keys are the distinct keys, in the order of their
// first occurrence, valid until the next batch.
int client_merge_keys(struct client_merge *m, const uint64_t *keys, size_t n,
                      const uint64_t **ret_keys, size_t *ret_n, struct err *e);

// Adds up n rows of `width` values into one row for each distinct key, in the order of
// the batch, so that the sums are bit-identical each time.
void client_merge_add(const struct client_merge *m, const float *values, uint32_t width,
                      float *ret);

// Sets the columns of `ret` from `first` on to those of the key's last row in the batch.
void client_merge_last(const struct client_merge *m, const float *values, uint32_t width,
                       uint32_t first, float *ret);

// Copies one row for each distinct key back to n rows.
void client_merge_scatter(const struct client_merge *m, const float *rows, uint32_t width,
                          float *ret);

#endif
