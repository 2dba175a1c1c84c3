// Arrays of a kvstore: their dtypes, casts between these, and sums of arrays that are dense
// or hold some rows only.
//
// A sum is rounded to the dtype of the array after each addition, in the order in which
// arrays are added, as a reader with a pocket calculator would get.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_ARRAY_H
#define TUG_KVSTORE_ARRAY_H

#include "base/err.h"
#include "tug/kvstore.h"

size_t kvs_dtype_size(enum tug_dtype t);      // 0: there is no such dtype
const char *kvs_dtype_name(enum tug_dtype t); // "float32"
bool kvs_dtype_is_float(enum tug_dtype t);

float kvs_half_to_float(uint16_t h);
uint16_t kvs_float_to_half(float f); // to the nearest, of two the even one

// n elements. Floats become integers by cutting off; out of range they become the nearest.
void kvs_cast(enum tug_dtype to_type, void *to, enum tug_dtype type, const void *from,
              size_t n);
// Returns false if a sum is beyond the dtype; the array is then invalid.
bool kvs_add(enum tug_dtype type, void *to, const void *values, size_t n);

// Bytes of n rows of the array.
size_t kvs_bytes(const struct tug_array *a, uint64_t n_rows);

// An array that can be used as one: TUG_EUSAGE says what of `key` is wrong.
int kvs_array_check(const struct tug_array *a, const char *key, struct err *e);

// Elements of floats must be finite, as values pushed to tables: one that is not would be
// in every sum from there on. For sparse arrays the existing rows. TUG_EUSAGE names
// `key`.
bool kvs_array_is_finite(const struct tug_array *a,
                         uint64_t *ret_bad); // the first element
int kvs_array_finite(const struct tug_array *a, const char *key, struct err *e);
// A copy of n elements; false: of floats not all are finite.
bool kvs_copy_finite(enum tug_dtype t, void *to, const void *from, size_t n);

// Elements must be in the range of the dtype that they will be cast to. TUG_EUSAGE names `key`.
int kvs_array_fits(const struct tug_array *a, enum tug_dtype into, const char *key,
                   struct err *e);

// Likewise for values pulled into an array of that dtype. Dense.
int kvs_array_gives(const struct tug_array *a, enum tug_dtype into, const char *key,
                    struct err *e);

// A sum under way. Zeroed, it is empty; kvs_rows_free gives its memory back.
struct kvs_rows {
    struct tug_array a; // what it is so far; data (a block: block.h) and ids are its own
    size_t cap_bytes, cap_ids;
    void *spare; // of unions
    int64_t *spare_ids;
    size_t cap_spare, cap_spare_ids;
};

// It becomes a copy of the array, cast to the dtype.
int kvs_rows_set(struct kvs_rows *s, enum tug_dtype type, const struct tug_array *a,
                 struct err *e);
// It becomes a dense copy of a sparse array.
int kvs_rows_set_dense(struct kvs_rows *s, const struct tug_array *a, struct err *e);
// It becomes the sum of two dense arrays of one shape and dtype, in a pass over the memory
// less than set and add. *ret_fits: whether all of it is within the dtype, and so all of both.
int kvs_rows_set_sum(struct kvs_rows *s, const struct tug_array *x,
                     const struct tug_array *y, bool *ret_fits, struct err *e);
// The array, of the same shape and dtype, is added. Sparse and dense make dense. TUG_EUSAGE: the
// sum is beyond the dtype, and of no use any more.
int kvs_rows_add(struct kvs_rows *s, const struct tug_array *a, struct err *e);
int kvs_sum_beyond(enum tug_dtype t, struct err *e); // TUG_EUSAGE
void kvs_rows_free(struct kvs_rows *s);

#endif
