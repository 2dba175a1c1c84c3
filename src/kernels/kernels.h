// Kernels: the vector loops of rules and models behind one table of pointers.
//
// `ref.c` is the plain C reference. `vector.inc.h` holds the same loops on
// vectors; it is compiled once for AVX2 (avx2.c) and once for AVX-512 (avx512.c). All
// give the same bits: each element sees the same IEEE operations, nothing is contracted
// to fused multiply-adds, and sums run in one fixed order (see KERNEL_LANES).
// kernels_get picks the best level of this CPU; TUG_KERNELS=ref|avx2|avx512 in the
// environment picks another.
//
// Memory marked "shared" may be read and written by other threads meanwhile: it is
// accessed through base/relaxed.h. All other memory belongs to the caller.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_KERNELS_H
#define TUG_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/rule_kind.h"

// Sums are taken in this order everywhere: element i goes to lane i mod 16, each lane
// adds its elements from left to right starting at 0, then lanes are added as a tree (i
// and i + 8, i and i + 4, i and i + 2, 0 and 1).
//
// Arrays of n features (rows, x, g, l2, ...) can be read KERNEL_PADDING entries beyond
// the n-th: pointers there are valid rows, floats anything. These entries are read but
// never used.
enum { KERNEL_LANES = 16, KERNEL_PADDING = 16 };

struct kernels {
    const char *name;

    // sum a[i] * b[i]; a shared.
    float (*dot)(const float *a, const float *b, size_t n);

    // sum rows[i][col] * x[i]; rows shared.
    float (*gather_dot)(float *const *rows, size_t col, const float *x, size_t n);

    // y[i] = a * x[i].
    void (*scale)(float *y, float a, const float *x, size_t n);

    // y[i] += a * x[i]; x shared.
    void (*axpy)(float *y, float a, const float *x, size_t n);

    // Returns the largest |x[i]|; NaN if one is NaN; 0 if n is 0.
    float (*largest)(const float *x, size_t n);

    // Matrices multiplied: of each of m rows y[c] += sum_k x[k] * w[k * n + c], c < n, added
    // to y one after the other from k = 0 to inner - 1, so that a row's bits depend on no
    // other row. Rows are sy and sx apart. w shared.
    void (*multiply)(float *y, size_t sy, const float *x, size_t sx, const float *w,
                     size_t m, size_t inner, size_t n);

    // FM, Rendle 2010, lemma 3.1: ret_sum[c] = sum_i x[i] * v_i[c] over rows i, where
    // v_i = rows[i] + col, k columns; returns (sum_c ret_sum[c]^2 - sum_i (x[i] *
    // v_i[c])^2) / 2. Rows shared. Per column the sums run over i from first to last;
    // columns are then added as above.
    float (*fm_score)(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                      float *ret_sum);

    // Its gradient: g[i * k + c] = err * x[i] * (sum[c] - x[i] * v_i[c]). Rows shared.
    void (*fm_grad)(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                    const float *sum, float err, float *g);

    // FFM, Juan et al. 2016, without looking at pairs. Row i has a vector of k columns
    // for each of the fields, at rows[i] + col; its own field is slot[i]. Both results
    // are fields x fields vectors of k columns:
    //   out[h][f]  sum of u[j] * v_j[f] over the features j of field h
    //   in[f][h]   = out[h][f], the transposed array
    // Only the `present` fields in list[] are read (NULL: all); the rows of `out` and
    // `in` of other fields stay unchanged. Both have KERNEL_PADDING floats behind them
    // that may be written. Rows shared.
    void (*ffm_sums)(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const uint16_t *list,
                     size_t present, float *out, float *in);

    // Half of the sum over all pairs of present fields of <out[h][f], in[h][f]>, less the
    // product of each feature with itself. Lanes run over the columns of a field's row.
    float (*ffm_score)(float *const *rows, size_t col, const uint16_t *slot,
                       const float *u, size_t n, size_t fields, size_t k,
                       const uint16_t *list, size_t present, const float *out,
                       const float *in);

    // Its gradient, fields * k floats for each feature; KERNEL_PADDING more may be
    // written.
    void (*ffm_grad)(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const float *in, float err,
                     float *g);

    // Counts updates: c = rows[i][col] += m[i] (1 where m is NULL); ret[i] = m[i] *
    // pass / c. Rows shared.
    void (*count)(float *const *rows, size_t col, const float *m, float pass, float *ret,
                  size_t n);

    // y[i] = x[i], but not below -most nor above most; NaN stays NaN. y may be x.
    void (*clip)(float *y, const float *x, float most, size_t n);

    // sum x[i]^2.
    float (*norm2)(const float *x, size_t n);

    // w[i] not below low nor above high; NaN stays NaN. w shared; those within are not
    // written.
    void (*bound)(float *w, float low, float high, size_t n);

    // One update of n weights of a row by each rule.
    rule_apply_fn apply[RULE_KINDS];

    // Returns whether a row repeats among rows[16 i] to rows[16 i + 15], for some i.
    // `count` and the kernels below assume that sixteen rows at a time are different: an
    // update of a repeated row would be lost. kernels_ref takes any rows.
    bool (*repeats)(float *const *rows, size_t n);

    // Updates one weight in each of n rows, with the bits of apply for n = 1 (adagrad's,
    // if the rule is adagrad-row).
    void (*apply_column[RULE_KINDS])(const struct rule_params *p, const float *l2,
                                     float *const *rows, size_t w, size_t s,
                                     const float *g, size_t n);

    // Gradient and update of each row in turn, as fm_grad and ffm_grad followed by apply.
    // g has room for one row's gradient and KERNEL_PADDING more.
    void (*fm_step[RULE_KINDS])(const struct rule_params *p, const float *l2,
                                float *const *rows, size_t w, size_t s, const float *x,
                                size_t n, size_t k, const float *sum, float err,
                                float *g);
    void (*ffm_step[RULE_KINDS])(const struct rule_params *p, const float *l2,
                                 float *const *rows, size_t w, size_t s,
                                 const uint16_t *slot, const float *u, size_t n,
                                 size_t fields, size_t k, const float *in, float err,
                                 float *g);
};

// The C reference.
extern const struct kernels kernels_ref;

// Returns the kernels for this CPU, chosen once. May be called from any thread.
const struct kernels *kernels_get(void);

// Returns kernels by name ("ref", "avx2", "avx512"); NULL if unknown or not possible on
// this CPU.
const struct kernels *kernels_named(const char *name);

#endif
