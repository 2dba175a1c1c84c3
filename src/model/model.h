// Models define a row's contents, the scores of examples, and the gradients of their
// features.
//
// A model is a `struct model_ops` in a file of its own and a line of MODELS below. It
// sees batches of examples as arrays: a pointer to a row and a value for each feature.
// The trainer decides where rows are (in this process, on servers) and how gradients are
// added up. A row is one of the accessor features: one or two groups of weights, each
// followed by its rule's state, and the count of the row's updates:
//
//   lr   [w | state][count]                            f(x) = b + sum w_i x_i
//   fm   [w | state][count][v: dim | state]            + sum over pairs <v_i, v_j> u_i u_j
//                                                      (Rendle 2010)
//   ffm  [w | state][count][v: fields x dim | state]   + sum over pairs u_i u_j
//                                                      <v_i[field j], v_j[field i]>
//                                                      (Juan et al. 2016)
//   mlp, wide_deep, deepfm, dcn
//        [w | state][count][v: dim | state]            layers on the fields' vectors; each
//                                                      model's file has its formula
//
// u is x, or with `normalize` x scaled to unit length (as libffm does): then the pairs of
// a long example weigh no more than those of a short one. It applies to the pairs only.
//
// Dense parameters are those that every example uses: the bias b, which is every model's,
// and behind it the weights of layers. They are one array of floats for a model, and
// blocks of it, the number of a block its key, are the rows of the dense table. The
// trainer gives the model the array and takes its gradient. Summaries, a model's
// statistics of its examples, are the last blocks: no rule trains them, their gradients
// are added to them unscaled.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_MODEL_H
#define TUG_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accessor/accessor.h"
#include "base/err.h"
#include "base/key_set.h"
#include "base/loss.h"
#include "kernels/kernels.h"
#include "model/metrics.h"
#include "table/table.h"

// The models, a line each: `model_NAME` is its struct model_ops, and the text says in
// --help what it is.
#define MODELS(MODEL)                                                                    \
    MODEL(lr, "logistic regression")                                                     \
    MODEL(fm, "factorization machine, which also learns how values go together")         \
    MODEL(ffm, "a latent vector per field, slower, often a little better")               \
    MODEL(mlp, "fully connected layers over the vectors of the fields")                  \
    MODEL(wide_deep, "logistic regression beside such layers")                           \
    MODEL(deepfm, "factorization machine beside such layers, on the same vectors")       \
    MODEL(dcn, "products of the fields' vectors, layer by layer, beside such layers")

enum {
    MODEL_MAX_DIM = 1024,
    MODEL_AT_ONCE_MAX = 256, // see model_ops.at_once
    MODEL_MAX_HIDDEN = 8,    // layers
    MODEL_MAX_UNITS = 8192,  // of one
    MODEL_MAX_CROSS = 8,
    MODEL_DENSE_BLOCK = 256, // floats
    MODEL_NAME_MAX = 32,     // with the zero
    MODEL_LAYER_NAME_MAX = 64,
    MODEL_MAX_NUMBERS = 256, // fields of numbers that are normalised
    MODEL_MAX_DIMS = 256,    // fields whose vectors have a length of their own
    MODEL_MAX_TASKS = LABELS_MAX,
};

struct model_options {
    const struct model_ops *ops;
    uint32_t dim;    // floats of latent vectors
    uint32_t fields; // where the model needs fields: slots are below
    uint64_t seed;
    bool normalize;
    float init; // weights of all groups but the first begin in (-init, init)
    // For the first group, and the bias of models without layers.
    struct rule_params linear;
    struct rule_params latent; // of the others; its block is set here
    // For models with layers:
    struct rule_params dense; // of the dense parameters
    // Units of each layer, from the input on, up to the first 0.
    uint32_t hidden[MODEL_MAX_HIDDEN];
    // Labels of an example, each of which is a task: 1, or more in models that have
    // them (model_ops.tasks). On the layers of `hidden`, which the tasks share, each has
    // layers of its own, `tower`, and its share of the loss is times its weight (0s: 1).
    uint32_t tasks;
    uint32_t tower[MODEL_MAX_HIDDEN];
    float task_weight[MODEL_MAX_TASKS];
    uint32_t cross; // layers of products (dcn); 0: the model has none
    float dropout;  // the share of units that a training example lacks
    bool batch_norm;
    bool pooling_mean; // else sum
    bool data_norm;    // values of these fields are normalised (model/data_norm.h):
    uint32_t n_numbers;
    struct model_numbers {
        uint32_t field, n; // which one, and how many numbers it has
    } numbers[MODEL_MAX_NUMBERS];
    uint32_t
        n_dims; // fields whose vectors have not `dim` floats, in order (model/dims.h)
    struct model_dim {
        uint32_t field, dim;
    } dims[MODEL_MAX_DIMS];
};

struct model {
    struct model_options options;
    const struct kernels *kernels;
    struct accessor_options layout; // of a feature's row, whoever keeps it,
    struct accessor accessor;       // and what follows from it
    struct accessor dense;          // of a block of dense parameters
    size_t blocks;                  // of these
    size_t summaries; // the first float of those that no rule trains; 0: there are none
    size_t data_norm_at; // the first of these that is data_norm's
};

// Examples as a model sees them. Features of example i are start[i] .. start[i + 1] - 1
// in the arrays over features, which are padded as kernels.h asks. start[0] need not be
// 0: a part of a batch has the same arrays.
//
// Where rows live (accessor/life.h), the second group's weights lie in rows of their own,
// which not every feature has: `latent` lists those that have one. Else latent.start is
// NULL, and both groups are in `rows`.
struct model_latent {
    const uint32_t *start; // as model_batch.start, in these arrays
    float *const *rows;
    const float *u;
    const uint16_t *slot;
};
struct model_batch {
    size_t n;       // examples
    uint32_t tasks; // labels of each; 0: 1
    const uint32_t *start;
    float *const *rows;
    const float *x, *u;
    const uint16_t *slot;
    const float *label;  // options.tasks of each example, NaN where one is missing
    const float *weight; // NULL: all 1
    // A random number for each example, another in each pass, which selects the units
    // that dropout keeps; NULL: all units, as for scores.
    const uint64_t *draw;
    bool training; // scores for gradients: by statistics of the batch itself
    float share;   // in training: of the examples of a whole batch
    struct model_latent latent;
};

// Training on examples: its parameters besides them, and its results.
struct model_training {
    enum loss loss;
    const struct rule_params *rules; // of the groups, at the rate now
    float pass;                      // as in rule_params.prior
    struct metrics_stream
        *stream;           // of each task: counts the examples as they were before
    float *dense_gradient; // that of the dense parameters is added here
    uint32_t batch; // examples of a whole one, which this is a part of; 0: this is one
    size_t bad;     // with TUG_EDATA: whose score is not finite
};

// Dense parameters in transfer: while a model computes it reports which parameters it
// needs next, so that these may still be arriving, and gradients that are complete may
// go. `needs`: floats [first, first + n) are about to be read. `has`: all is added to
// their gradient that these examples add. Each float is reported once or, by `has`, maybe
// never.
struct model_flow {
    void (*needs)(void *ctx, size_t first, size_t n);
    void (*has)(void *ctx, size_t first, size_t n);
    void *ctx;
};

// The memory of one thread that scores or trains.
struct model_work {
    const struct model *model;
    const float *dense; // the dense parameters, as who calls has them: model_dense floats
    const struct kernels *kernels; // of an example's step: see kernels.h, `repeats`
    size_t features;               // there is room for so many
    float *gradients[ACCESSOR_MAX_GROUPS]; // of each group: its n floats for each feature
    float *share, *l2;                     // of steps: a float for each feature
    float *kept;                           // see model_ops.kept
    size_t stride;                         // floats of it for an example
    size_t room;                           // examples that there is room for in it,
    float *scores, *err;                   // and in these
    const struct model_flow *flow;         // NULL: nobody wants to know
    struct model_data_norm {               // of data_norm
        size_t n, cap;                     // numbers; features that there is room for
        uint32_t *first, *end;             // of each field its numbers, from 1 on; or 0
        struct model_sums { // of each number as it was before, then of the batch
            double size, sum, squares;
        } * sums;
        float *values;
        uint32_t *number; // of each feature
    } data_norm;
    struct model_pool {   // of pooling
        uint32_t *counts; // of each field
        float *u;
        size_t cap;
    } pool;
    struct model_span { // of a field's vector in the layers' input
        uint32_t at, n;
    } * spans; // NULL: all have options.dim floats
    // For models without `step`:
    struct accessor_scratch apply;
    struct model_rows { // the distinct rows of a part, with room for `features`
        struct key_set set;
        uint64_t *address;
        uint32_t *first; // feature of each
        float *occurrences, *squares;
    } rows;
};

struct model_ops {
    const char *name;
    const char *groups[ACCESSOR_MAX_GROUPS]; // what `tug table stat` calls them
    bool needs_fields;  // how many the data has is found out before the first row is made
    bool dims_by_field; // vectors of fields may differ in length
    bool tasks;         // scores are options.tasks for each example, and so is `err`

    // Changes the defaults, which model_defaults has set for a model like fm; may be
    // NULL.
    void (*defaults)(struct model_options *o);

    // TUG_EUSAGE: options that the model cannot work with; may be NULL.
    int (*check)(const struct model_options *o, struct err *e);

    // Sets a row's contents as settings of the accessor features: `embed` weights
    // (initially 1) and `dim` more (initially 0). NULL: so it stays.
    void (*layout)(const struct model_options *o, struct accessor_options *ret);

    // Dense parameters behind the biases, one a task, and their first values, into zeros.
    // NULL: none.
    size_t (*dense)(const struct model_options *o);
    void (*first)(const struct model_options *o, float *ret);

    // Summaries, zeros at first. NULL: none.
    size_t (*summaries)(const struct model_options *o);

    // Floats that `forward` leaves for `backward`, of each example: model_kept says
    // where. They are zeros at first. NULL: none.
    size_t (*kept)(const struct model *m);

    // Batches have at most so many examples: many where a model computes them together,
    // few where each is computed by itself and its rows should stay in cache.
    uint32_t at_once;
    // It may have more of them, as many as model_room has made room for, if there are no
    // summaries: layers are then computed one after the other for all. And it tells
    // model_work.flow of all that it reads (model_needs in model_internal.h).
    bool by_layer;

    // Scores, without the biases.
    void (*forward)(struct model_work *w, const struct model_batch *b, float *ret_scores);

    // After `forward` of the same examples, with d loss / d score of each in err: the
    // gradients by the weights of each feature. Group g of the batch's first feature is
    // at ret_gradients[g], its n floats, then those of the next feature. Gradients of the
    // dense parameters behind the biases are added to `dense`.
    void (*backward)(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret_gradients, float *dense);

    // Score, loss and update of the rows, example after example, for models that do this
    // faster than model_step can with the functions above; NULL: there is none. It takes
    // as many examples as there are. TUG_EDATA, TUG_ENOMEM.
    int (*step)(struct model_work *w, const struct model_batch *b,
                struct model_training *t);

    // The parts of a score besides the linear part, for explain.h. `pair` returns the
    // term of features i and j of the batch; `layers` the term of the layers, as
    // `forward`. NULL: the model has none.
    float (*pair)(const struct model *m, const struct model_batch *b, size_t i, size_t j);
    void (*layers)(struct model_work *w, const struct model_batch *b, float *ret_scores);
    // Returns the layer of dense parameter `at` behind the biases, for messages. NULL: no
    // names.
    void (*layer_name)(const struct model_options *o, size_t at,
                       char ret[MODEL_LAYER_NAME_MAX]);
};

// Floats of the dense parameters, those behind the last one counted that fill its block.
static inline size_t model_dense_block(const struct model *m)
{
    return m->dense.groups[0].n;
}
// The parameters used in computations, with the padding between blocks.
static inline size_t model_dense_used(const struct model *m)
{
    const struct model_options *o = &m->options;
    size_t n = o->tasks + (o->ops->dense != NULL ? o->ops->dense(o) : 0);
    return m->summaries > 0 ? m->blocks * m->dense.groups[0].n : n;
}
static inline bool model_has_layers(const struct model *m)
{
    return m->options.ops->dense != NULL;
}
static inline size_t model_dense(const struct model *m)
{
    return m->blocks * model_dense_block(m);
}

// The registry. model_at: NULL behind the last. A program's own model is registered
// before others are looked for, by one thread; *ops is not copied.
const struct model_ops *model_at(size_t i);
int model_find(const char *name, const struct model_ops **ret, struct err *e);
int model_register(const struct model_ops *ops, struct err *e);

// model_options.hidden, or tower, as text, "400,400,400". TUG_EUSAGE.
enum { MODEL_HIDDEN_TEXT_MAX = 8 * MODEL_MAX_HIDDEN };
int model_hidden_parse(const char *text, uint32_t ret[MODEL_MAX_HIDDEN], struct err *e);
void model_hidden_print(const uint32_t hidden[MODEL_MAX_HIDDEN],
                        char ret[MODEL_HIDDEN_TEXT_MAX]);

// model_options.task_weight as text, "1,0.5"; those that are not given stay 0.
// TUG_EUSAGE.
enum { MODEL_WEIGHTS_TEXT_MAX = 16 * MODEL_MAX_TASKS };
int model_weights_parse(const char *text, float ret[MODEL_MAX_TASKS], struct err *e);
void model_weights_print(const float weights[MODEL_MAX_TASKS],
                         char ret[MODEL_WEIGHTS_TEXT_MAX]);

// The defaults of a model's options with `rule` on all weights (adagrad-row on those of
// the first group is adagrad).
void model_defaults(struct model_options *o, const struct model_ops *ops,
                    enum rule_kind rule);

// --dims: whether vectors may differ in length by field. TUG_EUSAGE if they may not.
int model_check_dims_by_field(const struct model_ops *ops, struct err *e);

int model_init(struct model *m, const struct model_options *o, struct err *e);

// The dense parameters that training begins with: model_dense floats.
void model_first_dense(const struct model *m, float *ret);

// Returns the owner of dense parameter `at`: "the bias", "layer 2 of 3"; "" if it only
// fills a block.
void model_dense_name(const struct model *m, size_t at, char ret[MODEL_LAYER_NAME_MAX]);

// One update of the rows of all blocks by `rule`, at the rate now, and model_dense
// floats.
void model_step_dense(const struct model *m, const struct rule_params *rule,
                      float *const *blocks, const float *gradient);

// The same model on rows as a pull returns them, weights and nothing else: for scores and
// gradients, not for steps.
void model_packed(struct model *ret, const struct model *m);

// Whether rows of one can be rows of the other.
bool model_same_rows(const struct model *a, const struct model *b);
// Likewise for the dense parameters: returns whether the layers are the same.
bool model_same_dense(const struct model *a, const struct model *b);

// The tables that the model's rows lie in: sparse features (id 0) and dense parameters
// (id 1).
struct table_options model_table(const struct model *m);
struct table_options model_dense_table(const struct model *m);

int model_work_open(struct model_work *w, const struct model *m, struct err *e);
void model_work_close(struct model_work *w); // a zeroed one is fine

// Room for the gradients of n features in w->gradients. TUG_ENOMEM.
int model_reserve(struct model_work *w, size_t n);
// Whether the model goes layer by layer through any batch: see model_ops.by_layer. Then
// model_gradients takes n examples, or so many as fit into `bytes`, at once. TUG_ENOMEM.
bool model_by_layer(const struct model *m);
int model_room(struct model_work *w, size_t n, size_t bytes);

// Examples [first, first + n) of the batch, or fewer at its end.
static inline struct model_batch model_part(const struct model_batch *b, size_t first,
                                            size_t n)
{
    struct model_batch part = *b;
    part.n = b->n - first < n ? b->n - first : n;
    part.start += first;
    if (part.latent.start != NULL)
        part.latent.start += first;
    part.label += first * (b->tasks > 0 ? b->tasks : 1);
    if (part.draw != NULL)
        part.draw += first;
    part.weight = b->weight != NULL ? b->weight + first : NULL;
    return part;
}

static inline size_t model_features(const struct model_batch *b)
{
    return b->start[b->n] - b->start[0];
}

// Scores without the biases, of a batch of any size, as are the next two: options.tasks
// for each example, as there are of d loss / d score. TUG_ENOMEM.
int model_scores(struct model_work *w, const struct model_batch *b, float *ret_scores);

// The gradients of all features, each in its place of ret_gradients (usually
// w->gradients, with room for them), and d loss / d score of the examples (ret_err may be
// NULL). Rows stay as they are. TUG_EDATA.
int model_gradients(struct model_work *w, const struct model_batch *b,
                    struct model_training *t, float *ret_err,
                    float *const *ret_gradients);

// Hogwild: rows are updated after each example, or, where the model computes several at
// once, after these, each row once by the sum of its gradients.
// TUG_EDATA, TUG_ENOMEM.
int model_step(struct model_work *w, const struct model_batch *b,
               struct model_training *t);

#endif
