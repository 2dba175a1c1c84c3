// Layers of deep models, on a batch at a time.
//
// A layer reads and writes floats of an example's row in the thread's memory
// (model_kept); a batch is a matrix whose rows are `stride` floats apart. Parameters are
// floats of the dense parameters: of a layer from m to n units a matrix of m rows of n
// weights, then n biases. The products of matrices in training are OpenBLAS's: their bits
// depend on the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_LAYERS_H
#define TUG_MODEL_LAYERS_H

#include "model/dims.h"
#include "model/matrix.h"
#include "model/model.h"

// Before the first product: loads what multiplies (model/blas.h).
int layers_begin(struct err *e);
// The CPU for which OpenBLAS multiplies, where that one lacks vector instructions of this CPU,
// since an OpenBLAS does not know CPUs that are newer than itself; else NULL.
const char *layers_older_cpu(void);

// How matrices are multiplied forward: by kernels when a batch is scored, so that an
// example's score has the same bits whatever is scored with it, and on every CPU; NULL,
// which is OpenBLAS, where it is trained on.
const struct kernels *layers_exact(const struct model_work *w,
                                   const struct model_batch *b);

// y = x w + b, and its gradients: dw += x' dy, db += the sum of dy, dx += dy w'. Layers
// have y.columns units.
void layer_forward(const struct kernels *exact, struct matrix x, const float *parameters,
                   struct matrix y);
void layer_backward_add(struct matrix x, const float *parameters, struct matrix dy,
                        float *gradients, struct matrix dx);
static inline size_t layer_parameters(size_t in, size_t out)
{
    return in * out + out;
}
// Weights uniform in +-sqrt(6 / in), so that what goes through rectified layers keeps its
// size (He et al. 2015, section 2.2); biases 0. `stream`: which random numbers.
void layer_first(size_t in, size_t out, uint64_t seed, uint64_t stream, float *ret);

// Fully connected layers, each rectified: max(0, y), with batch_norm after it is
// normalised, where the biases are the shifts and the scales come behind them. In
// training each unit of an example is left out with probability `dropout`, and the others
// are scaled to make up for it (Srivastava et al. 2014; here as it is usual, with nothing
// left to do when examples are scored).
struct tower {
    size_t in, n;
    size_t units[MODEL_MAX_HIDDEN];
    float dropout;
    bool batch_norm;
    uint64_t seed;
    size_t parameters; // where its parameters begin behind the biases,
    size_t summaries;  // and its summaries
    size_t number;     // of its first layer: another one has other random numbers
    size_t tasks;      // scores of an example, of which a tower with a unit makes `task`
    size_t task;
};
// The layers of --hidden, whose parameters and summaries are the model's first ones.
struct tower tower_of(const struct model_options *o, size_t in);
size_t tower_out(const struct tower *t); // units of the last layer
size_t tower_parameters(const struct tower *t);
size_t tower_summaries(const struct tower *t);
void tower_first(const struct tower *t, float *ret);
// Floats of an example: the output of each layer, and d loss / d output of each; and what
// batch_norm needs.
size_t tower_kept(const struct tower *t);
// x through all layers, whose floats begin at `kept` in the first example's row; the
// output of the last.
struct matrix tower_forward(const struct tower *t, const struct model_work *w,
                            const struct model_batch *b, struct matrix x, float *kept);
// After forward, with d loss / d output in tower_delta: that by x is written, or, for
// another tower on the same x, added. `gradients` are those of the model's first layer.
struct matrix tower_output(const struct tower *t, struct matrix x, float *kept);
struct matrix tower_delta(const struct tower *t, struct matrix x, float *kept);
void tower_backward(const struct tower *t, const struct model_work *w,
                    const struct model_batch *b, struct matrix x, float *kept,
                    float *gradients, struct matrix dx, bool add);

// The layer that has parameter `at`, or, behind them, the unit that makes a score.
void tower_layer_name(const struct tower *t, size_t at, char ret[MODEL_LAYER_NAME_MAX]);

// One unit, which makes a score of a layer: scores += y w; dw += y' err, dy = err w, or
// dy += err w. Scores, and err, of an example are `tasks` floats behind those of the one
// before.
void unit_first(size_t in, uint64_t seed, size_t number, float *ret);
void unit_forward(const struct kernels *exact, struct matrix y, const float *w,
                  size_t tasks, float *scores);
void unit_backward(struct matrix y, const float *w, size_t tasks, const float *err,
                   float *dw, struct matrix dy, bool add);

// A tower, which may have no layers, and the one unit on it that makes a score, whose
// weights come behind the tower's: adds to the scores; backward writes dx, or adds to it
// where there is a task before, and adds to the gradients.
size_t tower_score_parameters(const struct tower *t);
void tower_score_first(const struct tower *t, float *ret);
void tower_score(const struct tower *t, const struct model_work *w,
                 const struct model_batch *b, struct matrix x, float *kept,
                 float *scores);
void tower_score_backward(const struct tower *t, const struct model_work *w,
                          const struct model_batch *b, struct matrix x, const float *err,
                          float *kept, float *gradients, struct matrix dx);

// The input of a batch's layers: of each example the latent vectors of its features,
// times their values, added up by field, the fields one behind the other.
void fields_forward(const struct model_work *w, const struct model_batch *b,
                    struct matrix ret);
// The gradients of the features' vectors, from d loss / d input.
void fields_backward(const struct model_work *w, const struct model_batch *b,
                     struct matrix dx, float *ret_gradients);
static inline size_t fields_floats(const struct model_options *o)
{
    return dims_sum(o);
}

#endif
