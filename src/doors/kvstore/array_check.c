// Checks of arrays: see array.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "doors/kvstore/array.h"

enum { CHUNK = 256 }; // number of elements that are checked at a time
#define ELEMENTS_MAX ((uint64_t)1 << 40)

static int check_ids(const struct tug_array *a, const char *key, struct err *e)
{
    if (a->n_ids > 0 && a->ids == NULL)
        return err_set(e, TUG_EUSAGE, "%s: a sparse array has no list of its rows", key);
    for (uint64_t i = 0; i < a->n_ids; i++) {
        if (a->ids[i] < 0 || (uint64_t)a->ids[i] >= a->rows)
            return err_set(e, TUG_EUSAGE, "%s: there is no row %lld in an array of %llu",
                           key, (long long)a->ids[i], (unsigned long long)a->rows);
        if (i > 0 && a->ids[i] <= a->ids[i - 1])
            return err_set(e, TUG_EUSAGE,
                           "%s: the rows of a sparse array must ascend strictly, but "
                           "%lld is followed by %lld",
                           key, (long long)a->ids[i - 1], (long long)a->ids[i]);
    }
    return 0;
}

int kvs_array_check(const struct tug_array *a, const char *key, struct err *e)
{
    if (a == NULL)
        return err_set(e, TUG_EUSAGE, "%s: no array was given", key);
    if (kvs_dtype_size(a->dtype) == 0)
        return err_set(e, TUG_EUSAGE, "%s: there is no dtype %d", key, (int)a->dtype);
    if (a->rows == 0 || a->width == 0 || a->rows > ELEMENTS_MAX / a->width)
        return err_set(e, TUG_EUSAGE,
                       "%s: an array has 1 to 2^40 elements, but this one is %llu x %llu",
                       key, (unsigned long long)a->rows, (unsigned long long)a->width);
    if (a->data == NULL && (!a->sparse || a->n_ids > 0))
        return err_set(e, TUG_EUSAGE, "%s: the array's pointer to its elements is NULL",
                       key);
    return a->sparse ? check_ids(a, key, e) : 0;
}

bool kvs_array_is_finite(const struct tug_array *a, uint64_t *ret_bad)
{
    uint64_t n = (a->sparse ? a->n_ids : a->rows) * a->width, i = 0;
    size_t each = kvs_dtype_size(a->dtype);
    if (kvs_all_finite(a->dtype, a->data, n))
        return true;
    while (kvs_all_finite(a->dtype, (const char *)a->data + i * each, 1))
        i++;
    *ret_bad = i;
    return false;
}

int kvs_array_finite(const struct tug_array *a, const char *key, struct err *e)
{
    uint64_t bad;
    if (kvs_array_is_finite(a, &bad))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: element %llu of the push is not finite, so the push is refused",
                   key, (unsigned long long)bad);
}

// Returns whether the finite number x is in the type's range, so that a cast only rounds
// or truncates it.
static bool fits(enum tug_dtype t, double x)
{
    switch (t) {
    case TUG_FLOAT16:
        return (kvs_float_to_half((float)x) & 0x7c00) != 0x7c00;
    case TUG_FLOAT32:
        return isfinite((float)x);
    case TUG_FLOAT64:
        return true;
    case TUG_INT32:
        return x > INT32_MIN - 1.0 && x < INT32_MAX + 1.0;
    case TUG_INT64:
        return x >= -0x1p63 && x < 0x1p63;
    }
    return false;
}

static bool always_fits(enum tug_dtype t, enum tug_dtype into)
{
    return t == into || into == TUG_FLOAT64 || (into == TUG_INT64 && t == TUG_INT32) ||
           (into == TUG_FLOAT32 && t != TUG_FLOAT64);
}

// Returns the index of the first of n elements that does not fit the dtype `into`, and
// sets *ret to its value. Returns n if all fit.
static uint64_t first_unfit(const struct tug_array *a, enum tug_dtype into, uint64_t n,
                            double *ret)
{
    double some[CHUNK];
    if (always_fits(a->dtype, into))
        return n;
    for (uint64_t at = 0; at < n; at += CHUNK) {
        size_t k = n - at < CHUNK ? n - at : CHUNK;
        kvs_cast(TUG_FLOAT64, some, a->dtype,
                 (const char *)a->data + at * kvs_dtype_size(a->dtype), k);
        for (size_t i = 0; i < k; i++)
            if (!fits(into, some[i])) {
                *ret = some[i];
                return at + i;
            }
    }
    return n;
}

int kvs_array_fits(const struct tug_array *a, enum tug_dtype into, const char *key,
                   struct err *e)
{
    uint64_t n = (a->sparse ? a->n_ids : a->rows) * a->width;
    double x = 0;
    uint64_t at = first_unfit(a, into, n, &x);
    if (at == n)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s is of dtype %s, and element %llu of the push, %g, is beyond its "
                   "range: the push is refused",
                   key, kvs_dtype_name(into), (unsigned long long)at, x);
}

int kvs_array_gives(const struct tug_array *a, enum tug_dtype into, const char *key,
                    struct err *e)
{
    uint64_t n = a->rows * a->width;
    double x = 0;
    uint64_t at = first_unfit(a, into, n, &x);
    if (at == n)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: element %llu is %.17g, which an array of dtype %s cannot hold: "
                   "nothing of it is pulled",
                   key, (unsigned long long)at, x, kvs_dtype_name(into));
}
