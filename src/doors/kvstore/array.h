// Arrays of a kvstore: dtypes, casts between them, and sums of dense and sparse arrays.
//
// A sum is rounded to the dtype of the array after each addition, in the order in which
// arrays are added, so that the result does not depend on how the work is divided.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_ARRAY_H
#define TUG_DOORS_KVSTORE_ARRAY_H

#include "base/err.h"
#include "tug/kvstore.h"

size_t kvs_dtype_size(enum tug_dtype t);      // bytes of an element; 0: unknown dtype
const char *kvs_dtype_name(enum tug_dtype t); // "float32"
bool kvs_dtype_is_float(enum tug_dtype t);

float kvs_half_to_float(uint16_t h);
uint16_t kvs_float_to_half(float f); // rounds to nearest, ties to even

// Casts n elements. Floats become integers by truncation; values out of range become the
// nearest value of the type.
void kvs_cast(enum tug_dtype to_type, void *to, enum tug_dtype type, const void *from,
              size_t n);
// Adds n values to `to`. Returns false if a sum is out of the dtype's range; the contents
// of `to` are then invalid.
bool kvs_add(enum tug_dtype type, void *to, const void *values, size_t n);

// Returns the bytes of n rows of the array.
size_t kvs_bytes(const struct tug_array *a, uint64_t n_rows);

// Checks dtype, shape, pointers and ids of an array. Returns TUG_EUSAGE if one is wrong;
// the error names `key`.
int kvs_array_check(const struct tug_array *a, const char *key, struct err *e);

// Check that the float elements of an array (or of a sparse array's rows) are finite: one
// that is not would make every later sum invalid. kvs_array_is_finite sets *ret_bad to the
// index of the first one that is not finite; kvs_array_finite returns TUG_EUSAGE, with
// `key` in the error.
bool kvs_array_is_finite(const struct tug_array *a, uint64_t *ret_bad);
int kvs_array_finite(const struct tug_array *a, const char *key, struct err *e);
// Returns whether n elements are finite; integers always are.
bool kvs_all_finite(enum tug_dtype t, const void *at, size_t n);
// Copies n elements. Returns false if a float among them is not finite.
bool kvs_copy_finite(enum tug_dtype t, void *to, const void *from, size_t n);

// Checks that pushed elements are in the range of the dtype `into`, to which they will be
// cast. Returns TUG_EUSAGE, with `key` in the error, if one is not.
int kvs_array_fits(const struct tug_array *a, enum tug_dtype into, const char *key,
                   struct err *e);

// Checks that the elements of a dense array are in the range of `into`, the dtype of the
// array that receives them in a pull. Returns TUG_EUSAGE, with `key` in the error, if one
// is not.
int kvs_array_gives(const struct tug_array *a, enum tug_dtype into, const char *key,
                    struct err *e);

// The sum of the arrays that were added so far. All zero: empty. kvs_rows_free frees its
// memory.
struct kvs_rows {
    // The sum. The struct owns a.data, which is a block of block.h, and a.ids.
    struct tug_array a;
    size_t cap_bytes, cap_ids;
    void *spare; // memory for the union of two sparse arrays
    int64_t *spare_ids;
    size_t cap_spare, cap_spare_ids;
};

// Sets the sum to a copy of the array, cast to dtype `type`.
int kvs_rows_set(struct kvs_rows *s, enum tug_dtype type, const struct tug_array *a,
                 struct err *e);
// Sets the sum to a dense copy of a sparse array.
int kvs_rows_set_dense(struct kvs_rows *s, const struct tug_array *a, struct err *e);
// Sets the sum to x + y, two dense arrays of the same shape and dtype, with one pass fewer
// over memory than kvs_rows_set followed by kvs_rows_add. *ret_fits says whether all
// elements of the sum are finite and in range; if so, the elements of x and y are finite.
int kvs_rows_set_sum(struct kvs_rows *s, const struct tug_array *x,
                     const struct tug_array *y, bool *ret_fits, struct err *e);
// Adds an array of the same shape and dtype. The sum of a sparse and a dense array is
// dense. Returns TUG_EUSAGE if an element of the sum is out of the dtype's range; the sum
// is then invalid.
int kvs_rows_add(struct kvs_rows *s, const struct tug_array *a, struct err *e);
// Returns TUG_EUSAGE with the error text for a sum out of the dtype's range.
int kvs_sum_beyond(enum tug_dtype t, struct err *e);
void kvs_rows_free(struct kvs_rows *s);

#endif
