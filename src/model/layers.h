// Layers of deep models, which compute a batch at a time.
//
// A layer reads and writes floats of an example's row in the thread's memory
// (model_kept); a batch is a matrix whose rows are `stride` floats apart. Parameters are
// floats of the dense parameters: of a layer from m to n units a matrix of m rows of n
// weights, then n biases. In training OpenBLAS multiplies matrices, so that the bits of
// products depend on the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_LAYERS_H
#define TUG_MODEL_LAYERS_H

#include "model/dims.h"
#include "model/matrix.h"
#include "model/model.h"

// Loads OpenBLAS (model/blas.h). Must be called before the first product of matrices.
int layers_begin(struct err *e);
// OpenBLAS chooses code for a type of CPU. If this machine's CPU is newer than OpenBLAS, the
// chosen type may lack some of its vector instructions. Returns the name of the type in this
// case; otherwise returns NULL.
const char *layers_older_cpu(void);

// Returns the kernels that multiply matrices in the forward direction, or NULL for
// OpenBLAS. Kernels are used for scoring: an example's score then has the same bits on
// every CPU and with any other examples in the batch. OpenBLAS is used for training.
const struct kernels *layers_exact(const struct model_work *w,
                                   const struct model_batch *b);

// layer_forward computes y = x w + b. layer_backward_add adds the gradients: dw += x' dy,
// db += the sum of dy, dx += dy w'.
// A layer has y.columns units.
void layer_forward(const struct kernels *exact, struct matrix x, const float *parameters,
                   struct matrix y);
void layer_backward_add(struct matrix x, const float *parameters, struct matrix dy,
                        float *gradients, struct matrix dx);
static inline size_t layer_parameters(size_t in, size_t out)
{
    return in * out + out;
}
// Sets initial weights, uniform in +-sqrt(6 / in), so that values keep their size through
// rectified layers (He et al. 2015, section 2.2). `ret` must hold zeros; the biases
// stay 0. `stream` selects the random numbers.
void layer_first(size_t in, size_t out, uint64_t seed, uint64_t stream, float *ret);

// Fully connected layers, each rectified: max(0, y). With batch_norm, y is normalised
// before rectification; the biases then serve as the shifts, and the scales come after the
// biases. In training
// each unit of an example is left out with probability `dropout`, and the others are
// scaled up to compensate (Srivastava et al. 2014; scaled in training, as is usual, so
// that scoring needs no scaling).
struct tower {
    size_t in, n;
    size_t units[MODEL_MAX_HIDDEN];
    float dropout;
    bool batch_norm;
    uint64_t seed;
    // Position of the first layer's first parameter among the parameters after the biases.
    size_t parameters;
    size_t summaries; // position of the first layer's first summary
    size_t number; // number of the tower's first layer, which selects its random numbers
    size_t tasks;  // number of an example's scores; a tower that ends in one unit
                   // computes score number `task`
    size_t task;
};
// Returns the layers of --hidden, whose parameters and summaries are the model's first
// ones.
struct tower tower_of(const struct model_options *o, size_t in);
size_t tower_out(const struct tower *t); // units of the last layer
size_t tower_parameters(const struct tower *t);
size_t tower_summaries(const struct tower *t);
void tower_first(const struct tower *t, float *ret);
// Returns the number of floats that are kept for an example: the output and d loss / d output of
// each layer, and the values of batch_norm.
size_t tower_kept(const struct tower *t);
// Computes all layers with the input x. Their values begin at `kept` in the kept values
// of the first example. Returns the output of the last layer.
struct matrix tower_forward(const struct tower *t, const struct model_work *w,
                            const struct model_batch *b, struct matrix x, float *kept);
// Call tower_backward after tower_forward, with d loss / d output in tower_delta. It
// writes d loss / d x to dx or, if `add`, adds it to dx. `gradients` are the gradients from
// the model's first layer on.
struct matrix tower_output(const struct tower *t, struct matrix x, float *kept);
struct matrix tower_delta(const struct tower *t, struct matrix x, float *kept);
void tower_backward(const struct tower *t, const struct model_work *w,
                    const struct model_batch *b, struct matrix x, float *kept,
                    float *gradients, struct matrix dx, bool add);

// Gets the name of the layer that has parameter `at`, or of the unit whose parameters
// come after the layers.
void tower_layer_name(const struct tower *t, size_t at, char ret[MODEL_LAYER_NAME_MAX]);

// These functions are for a unit, which computes a score from a layer's output y: scores
// += y w; dw += y' err; dy = err w, or dy += err w. The scores (and err) of two examples
// are `tasks` floats apart.
void unit_first(size_t in, uint64_t seed, size_t number, float *ret);
void unit_forward(const struct kernels *exact, struct matrix y, const float *w,
                  size_t tasks, float *scores);
void unit_backward(struct matrix y, const float *w, size_t tasks, const float *err,
                   float *dw, struct matrix dy, bool add);

// These functions are for a tower, which may have no layers, and the output unit above it.
// The unit's weights come after the tower's parameters. tower_score adds to the scores. The
// backward function adds to the gradients. For the first task it writes dx; for later tasks it
// adds to dx.
size_t tower_score_parameters(const struct tower *t);
void tower_score_first(const struct tower *t, float *ret);
void tower_score(const struct tower *t, const struct model_work *w,
                 const struct model_batch *b, struct matrix x, float *kept,
                 float *scores);
void tower_score_backward(const struct tower *t, const struct model_work *w,
                          const struct model_batch *b, struct matrix x, const float *err,
                          float *kept, float *gradients, struct matrix dx);

// Computes the input of a batch's layers: for each example and field the sum of the
// features' latent vectors times their values; the fields come one after the other.
void fields_forward(const struct model_work *w, const struct model_batch *b,
                    struct matrix ret);
// Computes the gradients of the features' vectors from d loss / d input.
void fields_backward(const struct model_work *w, const struct model_batch *b,
                     struct matrix dx, float *ret_gradients);
static inline size_t fields_floats(const struct model_options *o)
{
    return dims_sum(o);
}

#endif
