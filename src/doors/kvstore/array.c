// Arrays of a kvstore: see array.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/array.h"

#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "doors/kvstore/block.h"

enum { CHUNK = 256 }; // number of elements that are cast at a time
// The number of elements that are copied or added at a time, and then checked while they
// are in the cache.
enum { PART = 2048 };

size_t kvs_dtype_size(enum tug_dtype t)
{
    switch (t) {
    case TUG_FLOAT16:
        return 2;
    case TUG_FLOAT32:
    case TUG_INT32:
        return 4;
    case TUG_FLOAT64:
    case TUG_INT64:
        return 8;
    }
    return 0;
}

const char *kvs_dtype_name(enum tug_dtype t)
{
    switch (t) {
    case TUG_FLOAT16:
        return "float16";
    case TUG_FLOAT32:
        return "float32";
    case TUG_INT32:
        return "int32";
    case TUG_FLOAT64:
        return "float64";
    case TUG_INT64:
        return "int64";
    }
    return "an unknown dtype";
}

bool kvs_dtype_is_float(enum tug_dtype t)
{
    return t == TUG_FLOAT16 || t == TUG_FLOAT32 || t == TUG_FLOAT64;
}

// Half floats: 1 bit sign, 5 bits exponent, 10 bits fraction (IEEE 754 binary16).

float kvs_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31;
    uint32_t fraction = h & 0x3ff, bits;
    float f;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        f = (float)fraction * 0x1p-24f; // zero or subnormal
        memcpy(&bits, &f, sizeof(bits));
        bits |= sign;
    }
    memcpy(&f, &bits, sizeof(f));
    return f;
}

uint16_t kvs_float_to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) // NaN stays NaN
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x47800000) // 65,536 or more becomes infinity
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
        float small;
        memcpy(&small, &bits, sizeof(small));
        small += 0.5f;
        memcpy(&bits, &small, sizeof(bits));
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1) - 0x38000000;
    return (uint16_t)(sign | bits >> 13); // rounding up may give infinity
}

// A cast first converts each element to a wide type, int64_t or double.

#define LOAD(type, wide)                                                                 \
    for (size_t i = 0; i < n; i++)                                                       \
        to[i] = (wide)((const type *)from)[i];

static void load_doubles(double *to, enum tug_dtype type, const void *from, size_t n)
{
    switch (type) {
    case TUG_FLOAT32:
        LOAD(float, double) break;
    case TUG_FLOAT64:
        LOAD(double, double) break;
    case TUG_INT32:
        LOAD(int32_t, double) break;
    case TUG_INT64:
        LOAD(int64_t, double) break;
    case TUG_FLOAT16:
        for (size_t i = 0; i < n; i++)
            to[i] = (double)kvs_half_to_float(((const uint16_t *)from)[i]);
        break;
    }
}

// Rounds x towards zero. Returns `lowest` if x <= low, `highest` if x >= high, and 0 for
// NaN.
static int64_t whole(double x, double low, double high, int64_t lowest, int64_t highest)
{
    if (x != x)
        return 0;
    return x <= low ? lowest : x >= high ? highest : (int64_t)x;
}

static void store_doubles(enum tug_dtype type, void *to, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        switch (type) {
        case TUG_FLOAT32:
            ((float *)to)[i] = (float)from[i];
            break;
        case TUG_FLOAT64:
            ((double *)to)[i] = from[i];
            break;
        case TUG_FLOAT16:
            ((uint16_t *)to)[i] = kvs_float_to_half((float)from[i]);
            break;
        case TUG_INT32:
            ((int32_t *)to)[i] = (int32_t)whole(from[i], INT32_MIN, INT32_MAX, INT32_MIN,
                                                INT32_MAX);
            break;
        case TUG_INT64:
            ((int64_t *)to)[i] = whole(from[i], -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
            break;
        }
}

static void cast_integers(enum tug_dtype to_type, void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (to_type == TUG_INT32) {
            int64_t x = ((const int64_t *)from)[i];
            ((int32_t *)to)[i] = x < INT32_MIN   ? INT32_MIN
                                 : x > INT32_MAX ? INT32_MAX
                                                 : (int32_t)x;
        } else {
            ((int64_t *)to)[i] = ((const int32_t *)from)[i];
        }
}

void kvs_cast(enum tug_dtype to_type, void *to, enum tug_dtype type, const void *from,
              size_t n)
{
    double some[CHUNK];
    if (n == 0)
        return;
    if (to_type == type) {
        memcpy(to, from, n * kvs_dtype_size(type));
        return;
    }
    if (!kvs_dtype_is_float(to_type) && !kvs_dtype_is_float(type)) {
        cast_integers(to_type, to, from, n);
        return;
    }
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t k = n - at < CHUNK ? n - at : CHUNK;
        load_doubles(some, type, (const char *)from + at * kvs_dtype_size(type), k);
        store_doubles(to_type, (char *)to + at * kvs_dtype_size(to_type), some, k);
    }
}

#define ADD(type)                                                                        \
    for (size_t i = 0; i < n; i++)                                                       \
        ((type *)to)[i] = ((const type *)x)[i] + ((const type *)y)[i];

// A sum is out of range if its sign differs from the signs of both summands.
#define ADD_WHOLE(type, as)                                                              \
    for (size_t i = 0; i < n; i++) {                                                     \
        as p = (as)((const type *)x)[i], q = (as)((const type *)y)[i], sum = p + q;      \
        out |= (p ^ sum) & (q ^ sum);                                                    \
        ((type *)to)[i] = (type)sum;                                                     \
    }                                                                                    \
    return out >> (sizeof(type) * 8 - 1) == 0;

static bool add_int32(void *to, const void *x, const void *y, size_t n)
{
    uint32_t out = 0;
    ADD_WHOLE(int32_t, uint32_t)
}

static bool add_int64(void *to, const void *x, const void *y, size_t n)
{
    uint64_t out = 0;
    ADD_WHOLE(int64_t, uint64_t)
}

bool kvs_all_finite(enum tug_dtype t, const void *at, size_t n)
{
    switch (t) {
    case TUG_FLOAT16:
        return finite_halves(at, n);
    case TUG_FLOAT32:
        return finite_floats(at, n);
    case TUG_FLOAT64:
        return finite_doubles(at, n);
    default:
        return true;
    }
}

// Adds n elements. Returns false if an integer sum is out of range; the caller checks sums
// of floats. Inlined, so that the compiler can vectorize each call, also where `to` is x.
static inline __attribute__((always_inline)) bool add(enum tug_dtype type, void *to,
                                                      const void *x, const void *y,
                                                      size_t n)
{
    switch (type) {
    case TUG_FLOAT32:
        ADD(float) break;
    case TUG_FLOAT64:
        ADD(double) break;
    case TUG_INT32:
        return add_int32(to, x, y, n);
    case TUG_INT64:
        return add_int64(to, x, y, n);
    case TUG_FLOAT16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = kvs_float_to_half(
                kvs_half_to_float(((const uint16_t *)x)[i]) +
                kvs_half_to_float(((const uint16_t *)y)[i]));
        break;
    }
    return true;
}

// Adds part by part, so that each part is checked while it is in the cache.
bool kvs_add(enum tug_dtype type, void *to, const void *values, size_t n)
{
    size_t each = kvs_dtype_size(type);
    bool fits = true;
    for (size_t at = 0; at < n; at += PART) {
        size_t k = n - at < PART ? n - at : PART;
        char *part = (char *)to + at * each;
        fits &= add(type, part, part, (const char *)values + at * each, k);
        fits &= kvs_all_finite(type, part, k);
    }
    return fits;
}

size_t kvs_bytes(const struct tug_array *a, uint64_t n_rows)
{
    return n_rows * a->width * kvs_dtype_size(a->dtype);
}

bool kvs_copy_finite(enum tug_dtype t, void *to, const void *from, size_t n)
{
    size_t each = kvs_dtype_size(t);
    bool finite = true;
    for (size_t at = 0; at < n; at += PART) {
        size_t k = n - at < PART ? n - at : PART;
        const char *part = (const char *)from + at * each;
        finite &= kvs_all_finite(t, part, k);
        memcpy((char *)to + at * each, part, k * each);
    }
    return finite;
}

// ---------------------------------------------------------------- sums

static int array_reserve(void **p, size_t *cap, size_t bytes)
{
    if (bytes <= *cap && *p != NULL)
        return 0;
    void *more = mem_realloc(*p, bytes > 0 ? bytes : 1);
    if (more == NULL)
        return TUG_ENOMEM;
    *p = more;
    *cap = bytes;
    return 0;
}

static int reserve_rows(struct kvs_rows *s, uint64_t n_rows, bool ids, struct err *e)
{
    size_t cap = s->cap_ids * sizeof(int64_t);
    void *list = s->a.ids;
    if (kvs_block_reserve(&s->a.data, &s->cap_bytes, kvs_bytes(&s->a, n_rows)) != 0)
        return err_nomem(e, "a sum of arrays");
    if (!ids)
        return 0;
    if (array_reserve(&list, &cap, n_rows * sizeof(int64_t)) != 0)
        return err_nomem(e, "the rows of a sum of arrays");
    s->a.ids = list;
    s->cap_ids = cap / sizeof(int64_t);
    return 0;
}

int kvs_rows_set(struct kvs_rows *s, enum tug_dtype type, const struct tug_array *a,
                 struct err *e)
{
    uint64_t n = a->sparse ? a->n_ids : a->rows;
    s->a.dtype = type;
    s->a.rows = a->rows;
    s->a.width = a->width;
    s->a.sparse = a->sparse;
    s->a.n_ids = 0;
    TRY(reserve_rows(s, n, a->sparse, e));
    if (a->sparse && n > 0)
        memcpy(s->a.ids, a->ids, n * sizeof(*a->ids));
    s->a.n_ids = a->sparse ? n : 0;
    kvs_cast(type, s->a.data, a->dtype, a->data, n * a->width);
    return 0;
}

int kvs_rows_set_sum(struct kvs_rows *s, const struct tug_array *x,
                     const struct tug_array *y, bool *ret_fits, struct err *e)
{
    size_t n = x->rows * x->width, each = kvs_dtype_size(x->dtype);
    s->a.dtype = x->dtype;
    s->a.rows = x->rows;
    s->a.width = x->width;
    s->a.sparse = false;
    s->a.n_ids = 0;
    *ret_fits = true;
    TRY(reserve_rows(s, x->rows, false, e));
    for (size_t at = 0; at < n; at += PART) {
        size_t k = n - at < PART ? n - at : PART;
        char *sum = (char *)s->a.data + at * each;
        *ret_fits &= add(x->dtype, sum, (const char *)x->data + at * each,
                         (const char *)y->data + at * each, k);
        *ret_fits &= kvs_all_finite(x->dtype, sum, k);
    }
    return 0;
}

static void *array_row_of(const struct tug_array *a, uint64_t at)
{
    return (char *)a->data + kvs_bytes(a, at);
}

static bool add_sparse(struct tug_array *to, const struct tug_array *a)
{
    bool fits = true;
    for (uint64_t i = 0; i < a->n_ids; i++)
        fits &= kvs_add(to->dtype, array_row_of(to, (uint64_t)a->ids[i]),
                        array_row_of(a, i), a->width);
    return fits;
}

int kvs_rows_set_dense(struct kvs_rows *s, const struct tug_array *a, struct err *e)
{
    s->a = (struct tug_array){.dtype = a->dtype,
                              .rows = a->rows,
                              .width = a->width,
                              .data = s->a.data,
                              .ids = s->a.ids};
    TRY(reserve_rows(s, a->rows, false, e));
    memset(s->a.data, 0, kvs_bytes(a, a->rows));
    for (uint64_t i = 0; i < a->n_ids; i++)
        memcpy(array_row_of(&s->a, (uint64_t)a->ids[i]), array_row_of(a, i),
               kvs_bytes(a, 1));
    return 0;
}

static int make_dense(struct kvs_rows *s, struct err *e)
{
    struct kvs_rows dense = {0};
    TRY(kvs_rows_set_dense(&dense, &s->a, e));
    kvs_block_release(s->a.data);
    s->a.data = dense.a.data;
    s->cap_bytes = dense.cap_bytes;
    s->a.sparse = false;
    s->a.n_ids = 0;
    return 0;
}

// Merges two sparse arrays, whose ids ascend. Returns the number of rows of the result.
static uint64_t merge(const struct tug_array *x, const struct tug_array *y, int64_t *ids,
                      char *data, bool *ret_fits)
{
    uint64_t i = 0, j = 0, n = 0;
    size_t bytes = kvs_bytes(x, 1);
    for (; i < x->n_ids || j < y->n_ids; n++, data += bytes) {
        bool from_y = i == x->n_ids || (j < y->n_ids && y->ids[j] < x->ids[i]);
        bool both = !from_y && j < y->n_ids && y->ids[j] == x->ids[i];
        ids[n] = from_y ? y->ids[j] : x->ids[i];
        memcpy(data, from_y ? array_row_of(y, j) : array_row_of(x, i), bytes);
        if (both)
            *ret_fits &= kvs_add(x->dtype, data, array_row_of(y, j), x->width);
        i += !from_y;
        j += from_y || both;
    }
    return n;
}

static int unite(struct kvs_rows *s, const struct tug_array *a, bool *ret_fits,
                 struct err *e)
{
    uint64_t most = s->a.n_ids + a->n_ids;
    size_t cap = s->cap_spare_ids * sizeof(int64_t);
    void *list = s->spare_ids;
    int rc = kvs_block_reserve(&s->spare, &s->cap_spare, kvs_bytes(&s->a, most));
    if (rc == 0)
        rc = array_reserve(&list, &cap, most * sizeof(int64_t));
    s->spare_ids = list;
    s->cap_spare_ids = cap / sizeof(int64_t);
    if (rc != 0)
        return err_nomem(e, "a sum of arrays");
    uint64_t n = merge(&s->a, a, s->spare_ids, s->spare, ret_fits);
    struct kvs_rows was = *s;
    s->a.data = was.spare;
    s->a.ids = was.spare_ids;
    s->a.n_ids = n;
    s->cap_bytes = was.cap_spare;
    s->cap_ids = was.cap_spare_ids;
    s->spare = was.a.data;
    s->spare_ids = was.a.ids;
    s->cap_spare = was.cap_bytes;
    s->cap_spare_ids = was.cap_ids;
    return 0;
}

static int add_cast(struct kvs_rows *s, const struct tug_array *a, struct err *e)
{
    struct kvs_rows cast = {0};
    int rc = kvs_rows_set(&cast, s->a.dtype, a, e);
    if (rc == 0)
        rc = kvs_rows_add(s, &cast.a, e);
    kvs_rows_free(&cast);
    return rc;
}

int kvs_rows_add(struct kvs_rows *s, const struct tug_array *a, struct err *e)
{
    bool fits = true;
    if (a->dtype != s->a.dtype)
        return add_cast(s, a, e);
    if (s->a.sparse && !a->sparse)
        TRY(make_dense(s, e));
    if (s->a.sparse)
        TRY(unite(s, a, &fits, e));
    else if (a->sparse)
        fits = add_sparse(&s->a, a);
    else
        fits = kvs_add(a->dtype, s->a.data, a->data, a->rows * a->width);
    return fits ? 0 : kvs_sum_beyond(a->dtype, e);
}

int kvs_sum_beyond(enum tug_dtype t, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "the sum of the push is beyond dtype %s: the push is refused",
                   kvs_dtype_name(t));
}

void kvs_rows_free(struct kvs_rows *s)
{
    kvs_block_release(s->a.data);
    mem_free(s->a.ids);
    kvs_block_release(s->spare);
    mem_free(s->spare_ids);
    *s = (struct kvs_rows){0};
}
