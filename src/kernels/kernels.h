// Kernels: the inner loops of rules and models, called through one table of pointers.
//
// `ref.c` is the plain C reference. `vector.inc.h` holds the same loops on
// vectors; it is compiled once for AVX2 (avx2.c) and once for AVX-512 (avx512.c). All
// give the same bits: each element sees the same IEEE operations, nothing is contracted
// to fused multiply-adds, and sums run in one fixed order (see KERNEL_LANES).
// kernels_get picks the best level of this CPU; TUG_KERNELS=ref|avx2|avx512 in the
// environment picks another.
//
// "Shared" below means that other threads may read and write this memory at the same
// time: kernels access it through base/relaxed.h. All other memory belongs to the caller.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KERNELS_KERNELS_H
#define TUG_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/rule_kind.h"

// All kernels add in this order: element i goes to lane i mod 16, each lane adds its
// elements from left to right starting at 0, then lanes are added as a tree (i and i + 8,
// i and i + 4, i and i + 2, 0 and 1).
//
// Arrays of n features (rows, x, g, l2, ...) can be read KERNEL_PADDING entries beyond
// the n-th: pointers there are valid rows, and floats may have any value. Kernels read
// these entries but never use their values.
enum { KERNEL_LANES = 16, KERNEL_PADDING = 16 };

struct kernels {
    const char *name;

    // Returns the sum of a[i] * b[i]. `a` is shared.
    float (*dot)(const float *a, const float *b, size_t n);

    // Returns the sum of rows[i][col] * x[i]. Rows are shared.
    float (*gather_dot)(float *const *rows, size_t col, const float *x, size_t n);

    // Sets y[i] = a * x[i].
    void (*scale)(float *y, float a, const float *x, size_t n);

    // Sets y[i] += a * x[i]. `x` is shared.
    void (*axpy)(float *y, float a, const float *x, size_t n);

    // Returns the largest |x[i]|; NaN if one is NaN; 0 if n is 0.
    float (*largest)(const float *x, size_t n);

    // Multiplies matrices: for each of m rows, y[c] += sum_k x[k] * w[k * n + c] for c <
    // n. The terms are added to y one after the other, from k = 0 to inner - 1, so that
    // the bits of a row depend on no other row. sy and sx are the distances between rows
    // of y and of x. `w` is shared.
    void (*multiply)(float *y, size_t sy, const float *x, size_t sx, const float *w,
                     size_t m, size_t inner, size_t n);

    // The pairs of FM (Rendle 2010, lemma 3.1): sets ret_sum[c] = sum_i x[i] * v_i[c],
    // where v_i = rows[i] + col has k columns, and returns (sum_c ret_sum[c]^2 - sum_i
    // (x[i] * v_i[c])^2) / 2. In each column the sums run over i from first to last; then
    // columns are added in the order of KERNEL_LANES. Rows are shared.
    float (*fm_score)(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                      float *ret_sum);

    // The gradient of fm_score: sets g[i * k + c] = err * x[i] * (sum[c] - x[i] *
    // v_i[c]). Rows are shared.
    void (*fm_grad)(float *const *rows, size_t col, const float *x, size_t n, size_t k,
                    const float *sum, float err, float *g);

    // The sums from which FFM (Juan et al. 2016) is computed without a loop over pairs.
    // Row i has a vector of k columns for each of the fields, at rows[i] + col; its own
    // field is slot[i]. Both results are fields x fields vectors of k columns:
    //   out[h][f]  sum of u[j] * v_j[f] over the features j of field h
    //   in[f][h]   = out[h][f], the transposed array
    // Only the `present` fields in list[] are read (NULL: all fields); the rows of `out`
    // and `in` that belong to other fields stay unchanged. Both arrays are followed by
    // KERNEL_PADDING floats, which may be written. Rows are shared.
    void (*ffm_sums)(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const uint16_t *list,
                     size_t present, float *out, float *in);

    // Returns the score of FFM's pairs: half of the sum of <out[h][f], in[h][f]> over all
    // pairs of present fields, without the products of features with themselves. Sums are
    // in the order of KERNEL_LANES, over the columns of a field's row.
    float (*ffm_score)(float *const *rows, size_t col, const uint16_t *slot,
                       const float *u, size_t n, size_t fields, size_t k,
                       const uint16_t *list, size_t present, const float *out,
                       const float *in);

    // Sets g to the gradient of ffm_score, fields * k floats for each feature. May write
    // KERNEL_PADDING floats more.
    void (*ffm_grad)(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const float *in, float err,
                     float *g);

    // Counts updates: adds m[i] (1 if m is NULL) to the count c = rows[i][col],
    // and sets ret[i] = m[i] * pass / c, the factor of the prior
    // (rule_params.l2). Rows are shared.
    void (*count)(float *const *rows, size_t col, const float *m, float pass, float *ret,
                  size_t n);

    // Sets y[i] to x[i], limited to [-most, most]; NaN stays NaN. y may be x.
    void (*clip)(float *y, const float *x, float most, size_t n);

    // Returns the sum of x[i]^2.
    float (*norm2)(const float *x, size_t n);

    // Limits w[i] to [low, high]; NaN stays NaN. `w` is shared. Does not write elements
    // that are within the limits.
    void (*bound)(float *w, float low, float high, size_t n);

    // For each rule, one update of n weights of a row.
    rule_apply_fn apply[RULE_KINDS];

    // Returns whether, for some i, a row occurs twice among rows[16 i] to rows[16 i +
    // 15]. If so, `count` and the kernels below must not be called: they update sixteen
    // rows at a time and would lose an update. kernels_ref accepts any rows.
    bool (*repeats)(float *const *rows, size_t n);

    // Updates one weight in each of n rows. The result is bit-identical to that of `apply`
    // with n = 1 (of adagrad's `apply`, if the rule is adagrad-row).
    void (*apply_column[RULE_KINDS])(const struct rule_params *p, const float *l2,
                                     float *const *rows, size_t w, size_t s,
                                     const float *g, size_t n);

    // Compute the gradient of each row and apply it, row after row, as fm_grad or
    // ffm_grad followed by `apply`. `g` is memory for one row's gradient and KERNEL_PADDING
    // floats more.
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

// The kernels of the C reference, which define the results of all others.
extern const struct kernels kernels_ref;

// Returns the kernels for this CPU, chosen once. May be called from any thread.
const struct kernels *kernels_get(void);

// Returns the kernels with this name ("ref", "avx2", "avx512"); NULL if the name is
// unknown or this CPU cannot run them.
const struct kernels *kernels_named(const char *name);

#endif
