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
// u is x or, with `normalize`, x scaled to unit length (as libffm does), so that the
// pairs of an example with many features do not outweigh those of one with few. This
// applies to the pairs only.
//
// Dense parameters are those that every example uses: the bias b, which every model has,
// and after it the weights of layers. A model reads them as one array of floats. Blocks
// of the array are the rows of the dense table, with the number of the block as the key.
// The trainer gives the model the array and takes its gradient. Summaries, which are a
// model's statistics of its examples, are the last blocks: no rule trains them, and their
// gradients are added to them unscaled.
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
#include "model/setting.h"
#include "table/table.h"

// The models, one per line: `model_NAME` is the model's struct model_ops, and the text is
// its description in --help.
#define MODELS(MODEL)                                                                    \
    MODEL(lr, "logistic regression")                                                     \
    MODEL(fm, "factorization machine, which also learns interactions of two values")     \
    MODEL(ffm, "a latent vector per field; slower than fm, often a little better")       \
    MODEL(mlp, "fully connected layers over the vectors of the fields")                  \
    MODEL(wide_deep, "logistic regression beside such layers")                           \
    MODEL(deepfm, "factorization machine beside such layers, on the same vectors")       \
    MODEL(dcn, "products of the fields' vectors, layer by layer, beside such layers")

enum {
    MODEL_MAX_DIM = 1024,
    MODEL_AT_ONCE_MAX = 256, // the largest model_ops.at_once
    MODEL_MAX_HIDDEN = 8,    // the most layers of `hidden` or `tower`
    MODEL_MAX_UNITS = 8192,  // most units of a layer
    MODEL_MAX_CROSS = 8,
    MODEL_DENSE_BLOCK = 256, // floats of a block of dense parameters
    MODEL_NAME_MAX = 32,     // longest name in bytes, with the final 0
    MODEL_LAYER_NAME_MAX = 64,
    MODEL_MAX_NUMBERS = 256, // most fields of numbers that are normalised
    MODEL_MAX_DIMS = 256,    // most fields whose vectors have a length of their own
    MODEL_MAX_TASKS = LABELS_MAX,
};

// Settings of a model (model/setting.h). `dim`: floats of a latent vector. `fields`: number
// of fields, for models that need fields; all slots are below it. `init`: weights of all
// groups except the first have random initial values in (-init, init).
#define MODEL_SETTINGS(SETTING)                                                          \
    SETTING(u32, dim, "dim", MODEL_MAX_DIM, ALWAYS)                                      \
    SETTING(u32, fields, "fields", UINT16_MAX + 1, ALWAYS)                               \
    SETTING(f32, init, "init", , ALWAYS)                                                 \
    SETTING(hex, seed, "seed", , ALWAYS)                                                 \
    SETTING(flag, normalize, "normalize", , ALWAYS)

// Settings of models with layers. `cross`: number of layers of products (dcn); 0 in other
// models. `dropout`: the share of units that are left out in training. `data_norm`: the
// values of `numbers` are normalised (model/data_norm.h). `pooling_mean`: the mean of a
// field's vectors is used instead of their sum.
#define LAYER_SETTINGS(SETTING)                                                          \
    SETTING(u32, cross, "cross", MODEL_MAX_CROSS, ALWAYS)                                \
    SETTING(f32, dropout, "dropout", , ALWAYS)                                           \
    SETTING(flag, batch_norm, "batch-norm", , false)                                     \
    SETTING(flag, data_norm, "data-norm", , false)                                       \
    SETTING(word, pooling_mean, "pooling", "sum mean", false)

struct model_options {
    const struct model_ops *ops;
    MODEL_SETTINGS(SETTING_MEMBER)
    // Rule of the first group, and of the bias of models without layers.
    struct rule_params linear;
    // Rule of the other groups; model_init sets the rule's block.
    struct rule_params latent;
    // The following members are for models with layers.
    struct rule_params dense; // rule of the dense parameters
    // The units of each layer, from the input on; 0 ends the list.
    uint32_t hidden[MODEL_MAX_HIDDEN];
    // The number of labels of an example, each of which is a task: 1, or more in models
    // with several tasks (model_ops.tasks). The tasks share the layers of `hidden`; above
    // these, each task has layers of its own, `tower`. A task's loss is multiplied by
    // its task_weight. If all weights are 0, each counts as 1.
    uint32_t tasks;
    uint32_t tower[MODEL_MAX_HIDDEN];
    float task_weight[MODEL_MAX_TASKS];
    LAYER_SETTINGS(SETTING_MEMBER)
    uint32_t n_numbers; // number of elements in `numbers`
    struct model_numbers {
        uint32_t field, n; // a field, and how many numbers an example has in it
    } numbers[MODEL_MAX_NUMBERS];
    uint32_t
        n_dims; // number of fields whose vectors do not have options.dim floats (model/dims.h)
    struct model_dim {
        uint32_t field, dim;
    } dims[MODEL_MAX_DIMS];
};

struct model {
    struct model_options options;
    const struct kernels *kernels;
    struct accessor_options layout; // settings of a feature's row
    struct accessor accessor;       // the layout of rows, which follows from the options
    struct accessor dense;          // layout of a block of dense parameters
    size_t blocks;                  // number of these blocks
    size_t summaries;    // the first float that no rule trains; 0: there are no summaries
    size_t data_norm_at; // the first float of data_norm's summaries
};

// Examples in the form that a model reads. The features of example i are start[i] ..
// start[i + 1] - 1 in the arrays over features, which are padded as kernels.h demands.
// start[0] may be above 0, so that a part of a batch can use the whole batch's arrays.
//
// If rows have a lifecycle (accessor/life.h), the weights of the second group are in
// extra rows, which not every feature has: `latent` lists the features that have one.
// Otherwise latent.start is NULL, and both groups are in `rows`.
struct model_latent {
    // The first feature of each example, as in model_batch, for these arrays.
    const uint32_t *start;
    float *const *rows;
    const float *u;
    const uint16_t *slot;
};
struct model_batch {
    size_t n;       // number of examples
    uint32_t tasks; // labels of each example; 0 means 1
    const uint32_t *start;
    float *const *rows;
    const float *x, *u;
    const uint16_t *slot;
    const float *label; // options.tasks labels for each example, NaN where one is missing
    const float *weight; // NULL: all weights are 1
    // A random number for each example, which differs in each pass and selects the units
    // that dropout keeps; NULL keeps all units, as in scoring.
    const uint64_t *draw;
    bool training; // scores are for gradients, and use the statistics of the batch itself
    // In training: the share of the whole batch's examples that are in this part.
    float share;
    struct model_latent latent;
};

// The inputs of training on a batch besides its examples, and the results.
struct model_training {
    enum loss loss;
    const struct rule_params *rules; // rules of the groups, with the current rate
    float pass;                      // number of the pass, as in rule_params.prior
    // For each task: counts examples, which are scored before they are trained on.
    struct metrics_stream *stream;
    float *dense_gradient; // the gradient of the dense parameters is added here
    uint32_t batch; // number of examples of the whole batch, if this is a part of one; 0:
                    // this is the whole batch
    size_t bad;     // set with TUG_EDATA: index of the example whose score is not finite
};

// Callbacks about dense parameters that are being transferred. A model calls `needs`
// before it reads floats [first, first + n); they may not have arrived before, and are
// there when the call returns. It calls `has` when the gradient of these floats, over the
// examples of the batch, is complete and may be sent. Each float is reported once to
// `needs`, and at most once to `has`.
struct model_flow {
    void (*needs)(void *ctx, size_t first, size_t n);
    void (*has)(void *ctx, size_t first, size_t n);
    void *ctx;
};

// The working memory of one thread that scores or trains.
struct model_work {
    const struct model *model;
    // The dense parameters, in the caller's memory; model_dense returns their number.
    const float *dense;
    const struct kernels *kernels; // kernels for the step of an example: see `repeats` in
                                   // kernels.h
    size_t features;               // number of features for which there is room
    // For each group: its gradients, n floats for each feature.
    float *gradients[ACCESSOR_MAX_GROUPS];
    float *share, *l2; // for steps: a float for each feature
    float *kept;       // values that `forward` stores for `backward` (model_ops.kept)
    size_t stride;     // floats of `kept` for an example
    size_t room; // number of examples for which `kept`, `scores` and `err` have room
    float *scores, *err;           // the score of each example, and its d loss / d score
    const struct model_flow *flow; // NULL: no callbacks
    struct model_data_norm {       // state of data_norm
        size_t n, cap;             // count of numbers; features for which there is room
        // Numbers are counted from 1. Field f has the numbers first[f] to end[f] - 1; both
        // are 0 if it has none.
        uint32_t *first, *end;
        // Sums for each number: those before the batch, then those of the batch.
        struct model_sums {
            double size, sum, squares;
        } * sums;
        float *values;
        uint32_t
            *number; // the index of each feature's number; 0: the feature is not a number
    } data_norm;
    struct model_pool {   // state of pooling
        uint32_t *counts; // features of each field
        float *u;
        size_t cap;
    } pool;
    struct model_span { // position of a field's vector in the layers' input
        uint32_t at, n;
    } * spans; // NULL: all vectors have options.dim floats
    // The following members are for models without `step`.
    struct accessor_scratch apply;
    struct model_rows { // the distinct rows of a part, with room for `features`
        struct key_set set;
        uint64_t *address;
        uint32_t *first; // first feature of each row
        float *occurrences, *squares;
    } rows;
};

struct model_ops {
    const char *name;
    const char *groups[ACCESSOR_MAX_GROUPS]; // names of the groups in `tug table stat`
    bool needs_fields;  // the number of fields is determined from the data before the
                        // first row is made
    bool dims_by_field; // vectors of fields may differ in length
    bool tasks; // there are options.tasks scores, and `err` values, for each example

    // Changes the defaults, which model_defaults has set as for fm. May be NULL.
    void (*defaults)(struct model_options *o);

    // Returns TUG_EUSAGE for options that the model cannot use. May be NULL.
    int (*check)(const struct model_options *o, struct err *e);

    // Sets the contents of a row: ret->embed weights (1 before the call) and ret->dim further
    // weights (0 before the call), for the accessor named `features`. NULL: the settings
    // stay as before the call.
    void (*layout)(const struct model_options *o, struct accessor_options *ret);

    // The number of dense parameters after the biases (one bias per task), and their
    // initial values, which are written over zeros. NULL: none.
    size_t (*dense)(const struct model_options *o);
    void (*first)(const struct model_options *o, float *ret);

    // The number of summaries, which are initially 0. NULL: none.
    size_t (*summaries)(const struct model_options *o);

    // The number of floats per example that `forward` keeps for `backward`; model_kept
    // returns their address. They are initially 0. NULL: none.
    size_t (*kept)(const struct model *m);

    // The most examples that are computed at once: many if the model computes them together;
    // few if it computes each by itself, so that their rows stay in the cache.
    uint32_t at_once;
    // True: if there are no summaries, a batch may have more examples than at_once, up to
    // the number for which model_room has made room, and one layer after the other is
    // computed for all of them. The model also reports to model_work.flow every
    // dense parameter that it reads (model_needs in model_internal.h).
    bool by_layer;

    // Computes scores without the biases.
    void (*forward)(struct model_work *w, const struct model_batch *b, float *ret_scores);

    // Called after `forward` for the same examples, with d loss / d score of each in err.
    // Computes the gradients by the weights of each feature: those of group g of the
    // batch's first feature are at ret_gradients[g], n floats, followed by those of the
    // next feature. Adds the gradients of the dense parameters after the biases to
    // `dense`.
    void (*backward)(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret_gradients, float *dense);

    // Scores, computes losses and updates rows, one example after the other, for models
    // that do this faster than model_step can with the functions above; NULL otherwise.
    // It takes any number of examples. Returns 0, TUG_EDATA or TUG_ENOMEM.
    int (*step)(struct model_work *w, const struct model_batch *b,
                struct model_training *t);

    // The parts of a score besides the linear part, for explain.h. `pair` returns the
    // term of features i and j of the batch; `layers` computes the term of the layers, in
    // the form of `forward`. NULL: the model has no such part.
    float (*pair)(const struct model *m, const struct model_batch *b, size_t i, size_t j);
    void (*layers)(struct model_work *w, const struct model_batch *b, float *ret_scores);
    // Gets the name of the layer with dense parameter `at` (counted after the biases),
    // for messages. NULL: layers have no names.
    void (*layer_name)(const struct model_options *o, size_t at,
                       char ret[MODEL_LAYER_NAME_MAX]);
};

// Returns the number of floats in a block of dense parameters.
static inline size_t model_dense_block(const struct model *m)
{
    return m->dense.groups[0].n;
}
// Returns the number of dense parameters that computations use, with the padding of
// blocks between them.
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

// The registry. model_at returns NULL after the last model. A program registers its own
// models before any model is looked up, in one thread; *ops is not copied.
const struct model_ops *model_at(size_t i);
int model_find(const char *name, const struct model_ops **ret, struct err *e);
int model_register(const struct model_ops *ops, struct err *e);

// Parse and print model_options.hidden or .tower as text, "400,400,400". Parsing may
// return TUG_EUSAGE.
enum { MODEL_HIDDEN_TEXT_MAX = 8 * MODEL_MAX_HIDDEN };
int model_hidden_parse(const char *text, uint32_t ret[MODEL_MAX_HIDDEN], struct err *e);
void model_hidden_print(const uint32_t hidden[MODEL_MAX_HIDDEN],
                        char ret[MODEL_HIDDEN_TEXT_MAX]);

// Parse and print model_options.task_weight as text, "1,0.5"; weights that are not given
// stay 0. Parsing may return TUG_EUSAGE.
enum { MODEL_WEIGHTS_TEXT_MAX = 16 * MODEL_MAX_TASKS };
int model_weights_parse(const char *text, float ret[MODEL_MAX_TASKS], struct err *e);
void model_weights_print(const float weights[MODEL_MAX_TASKS],
                         char ret[MODEL_WEIGHTS_TEXT_MAX]);

// Sets the defaults of a model's options, with `rule` for all weights (except that
// adagrad-row becomes adagrad in the first group).
void model_defaults(struct model_options *o, const struct model_ops *ops,
                    enum rule_kind rule);

// Returns TUG_EUSAGE if --dims cannot be used, because all vectors of the model must have
// one length.
int model_check_dims_by_field(const struct model_ops *ops, struct err *e);

int model_init(struct model *m, const struct model_options *o, struct err *e);

// Gets the initial dense parameters: model_dense floats.
void model_first_dense(const struct model *m, float *ret);

// Gets the owner of dense parameter `at`: "the bias", "layer 2 of 3"; "" if the parameter
// only fills a block.
void model_dense_name(const struct model *m, size_t at, char ret[MODEL_LAYER_NAME_MAX]);

// Updates the rows of all blocks once by `rule`, with its current rate; `gradient` has
// model_dense floats.
void model_step_dense(const struct model *m, const struct rule_params *rule,
                      float *const *blocks, const float *gradient);

// Makes a copy of model m for rows in the form that a pull returns. Such rows have only
// weights, so the copy can compute scores and gradients, but not steps.
void model_packed(struct model *ret, const struct model *m);

// Returns whether rows of one model can be used by the other.
bool model_same_rows(const struct model *a, const struct model *b);
// Returns whether dense parameters of one model can be used by the other, because the
// layers are equal.
bool model_same_dense(const struct model *a, const struct model *b);

// Return the options of the tables for the model's rows: of the sparse features (table 0)
// and of the dense parameters (table 1).
struct table_options model_table(const struct model *m);
struct table_options model_dense_table(const struct model *m);

int model_work_open(struct model_work *w, const struct model *m, struct err *e);
void model_work_close(struct model_work *w); // a zeroed struct is fine

// Makes room for the gradients of n features in w->gradients. Returns 0 or TUG_ENOMEM.
int model_reserve(struct model_work *w, size_t n);
// model_by_layer returns whether the model computes any batch layer by layer: see
// model_ops.by_layer. For such a model, model_room lets model_gradients take n examples at
// once, or fewer if only fewer fit into `bytes`. Returns 0 or TUG_ENOMEM.
bool model_by_layer(const struct model *m);
int model_room(struct model_work *w, size_t n, size_t bytes);

// Returns examples [first, first + n) of the batch, or fewer at its end.
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

// Computes scores without the biases, options.tasks for each example. Here and in the
// next two functions a batch may have any size. Returns 0 or TUG_ENOMEM.
int model_scores(struct model_work *w, const struct model_batch *b, float *ret_scores);

// Computes the gradients of all features, each at its position in ret_gradients (usually
// w->gradients, with room for them), and d loss / d score of the examples (ret_err may be
// NULL). Rows do not change. Returns 0, TUG_EDATA or TUG_ENOMEM.
int model_gradients(struct model_work *w, const struct model_batch *b,
                    struct model_training *t, float *ret_err,
                    float *const *ret_gradients);

// Updates rows after each example (Hogwild). If the model computes several examples at
// once, this function updates each of their rows once, by the sum of the row's gradients. Returns
// 0, TUG_EDATA or TUG_ENOMEM.
int model_step(struct model_work *w, const struct model_batch *b,
               struct model_training *t);

#endif
