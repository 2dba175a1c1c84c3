// A batch on its way between a worker and the servers: its distinct keys, the rows that
// were pulled for them, and the gradients that are pushed.
//
// The worker's data holds ids; `struct exchange_keys` says which key an id is, and which
// place a key has in the batch at hand. Keys are put in the order in which they travel,
// so rows and gradients are read and written where they lie.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_EXCHANGE_H
#define TUG_REMOTE_EXCHANGE_H

#include "client/client.h"
#include "data/dataset.h"
#include "model/model.h"
#include "table/tree_sum.h"
#include "train/dense.h"
#include "train/view.h"

// Numbers of a run's tables in the cluster: the model's, the same with EXCHANGE_BEST added
// as they were after the best pass, the examples that are dealt (deal_rows.h), and the model's with
// EXCHANGE_MEAN added as their mean over batches (--average).
enum {
    EXCHANGE_SPARSE = 0,
    EXCHANGE_DENSE = 1,
    EXCHANGE_BEST = 2,
    EXCHANGE_SHUFFLE = 4,
    EXCHANGE_MEAN = 6,
};

// Keys of a worker's data. Ids are handles of a table without columns.
struct exchange_keys {
    struct table *table;
    struct mark {
        uint32_t batch; // the last one that had the id
        uint32_t place; // in it
    } * marks;
    size_t cap; // of marks
    uint32_t batch;
};
int exchange_keys_open(struct exchange_keys *k, struct err *e);
void exchange_keys_close(struct exchange_keys *k);
int exchange_keys_resolve(void *keys, const uint64_t *k, size_t n, uint32_t *ret_ids);

// The private state of a worker that trains copies, kept from batch to batch besides the
// servers' rows: states that cannot be averaged, because they decay (adam's moments); and
// where copies stay apart (elastic), weights and all states. For states that are sums,
// servers get the worker's share of the added amounts, so that they never decrease. No
// save holds a worker's state; a worker that replaces a dead one begins with the servers'
// state.
struct exchange_local {
    bool weights;
    bool state[ACCESSOR_MAX_GROUPS], dense_state; // these are pushed by nobody
    struct table *rows; // by key: the row, and 1 if it was trained; NULL: none
    float *dense;       // all blocks; NULL: none
    bool dense_known;
};
// TUG_ENOMEM. One that neither has weights nor finds such a rule keeps nothing.
int exchange_local_open(struct exchange_local *o, const struct model *m, bool weights,
                        struct err *e);
void exchange_local_close(struct exchange_local *o); // a zeroed one is fine

// Where servers apply the rules, and do not wait for all of a batch (sync), many dense
// parameters travel in parts, of whole blocks: those that a model reads first come first,
// and those whose gradients are complete first go first. Each part of a batch is a push of
// its own; so a model has the same ones for all workers.
enum {
    EXCHANGE_PARTS = 8,
    EXCHANGE_PART_BLOCKS = 64, // at least
};

// The place where rules are applied. By gradients the server does, once per key of a
// batch: the rows of a batch are as they were pulled until it is over. By steps the
// worker does, after each example, as in one process: it pulls whole rows, state
// included, and pushes by how much they have changed, which the server adds.
//
// By steps a worker's own changes are not lost on it: a batch is pulled before the one
// before it is pushed, so what that one changes is added to what was pulled. Where
// workers take the average of what each has changed (geo), a `fraction` of a change is
// pushed and added: 1 / workers. Where copies stay apart (elastic), a weight's change is by
// how much the worker's is off from the server's, and both go that fraction towards each other
// (Zhang, Choromanska & LeCun 2015).
struct exchange {
    bool steps;
    float fraction;               // of a change that is pushed; 1 unless set
    struct exchange_local *local; // by steps; NULL unless set: nothing
    uint32_t *local_row;          // of each key: where it is in local->rows
    bool lives;                   // pushes carry show, click and slot (accessor/life.h)
    struct model model;           // of rows as they are pulled
    uint32_t width;               // floats of a pulled row
    uint32_t push_width;
    struct client *client;
    struct exchange_keys *keys;

    struct view view; // the examples, and what the model sees of them
    uint32_t *place;  // of each feature's key
    float **to;       // where each feature's gradients are added
    size_t cap_places;

    // Its distinct keys in travelling order.
    size_t n, cap;
    uint64_t *key;
    uint32_t *order;  // scratch
    float *values;    // as pulled; by steps they are changed
    float *gradients; // by steps: values as they were pulled, then the changes
    // Likewise the blocks of dense parameters: by gradients the model's floats one after
    // the other, by steps whole rows.
    size_t dense_floats;
    uint64_t *dense_keys;
    float *dense, *dense_gradient;
    float **blocks; // in `dense`
    struct exchange_part {
        size_t block, n, first, end; // its blocks; its floats of the gradient
        size_t missing;              // of these are not complete
        bool pushed;
    } parts[EXCHANGE_PARTS];
    uint32_t n_parts;

    // By steps: keys that the batch before has, too, and where.
    struct exchange *before;
    uint32_t number; // of the batch
    struct overlap {
        uint32_t place, before;
    } * overlaps;
    size_t n_overlaps;

    // Gradients of single micro-batches, until they are added up.
    struct piece_sum {
        uint32_t earlier; // the key's sum in a micro-batch before; UINT32_MAX: none
        uint8_t micro;
    } * sums;
    uint32_t *last; // of each key: its newest sum
    float *sum_values;
    size_t n_sums, cap_sums;
    struct dense_sums dense_sums;

    // Of the rows, then of each part; 0: not in flight.
    client_ts pulls[1 + EXCHANGE_PARTS], pushes[1 + EXCHANGE_PARTS];
};

int exchange_open(struct exchange *x, const struct model *m, bool steps, struct client *c,
                  struct exchange_keys *k, struct err *e);
void exchange_close(struct exchange *x);

// Takes examples order[0..n) of the data set: finds and arranges the distinct keys.
// `before`: by steps, the batch whose push is not sent when this one's rows are asked
// for; NULL: there is none.
int exchange_take(struct exchange *x, const struct dataset *d, const uint64_t *order,
                  size_t n, struct exchange *before, struct err *e);

// Asks for their rows and the dense parameters; exchange_pulled waits until they are here.
// Or exchange_pulled_rows waits for the rows, and exchange_pulled_dense for n dense
// parameters from `first` on.
int exchange_pull(struct exchange *x, uint64_t clock, struct err *e);
int exchange_pulled(struct exchange *x, struct err *e);
int exchange_pulled_rows(struct exchange *x, struct err *e);
int exchange_pulled_dense(struct exchange *x, size_t first, size_t n, struct err *e);

// By steps, after exchange_pulled: adds what the batch before has changed since, as far as the
// server will. exchange_finish, after the last step: makes of the changed rows what is
// pushed.
void exchange_catch_up(struct exchange *x);
void exchange_finish(struct exchange *x);

// Gradients, of `n` examples from `first` on, as model_gradients gives them. In one go:
// exchange_clear, then exchange_add for all. Or by micro-batch, ascending: exchange_begin
// says which, exchange_add_micro for all, then exchange_sum, which adds the micro-batches
// up as the tree says. Gradients of dense parameters are added to dense_gradient, or to
// the result of exchange_dense_micro. Both take the memory for the keys' sums:
// x->gradients, or another as large as it, so that threads add up at the same time.
void exchange_clear(const struct exchange *x, float *sums, float *dense);
void exchange_add(struct exchange *x, float *sums, size_t first, size_t n,
                  float *const *gradients);
void exchange_begin(struct exchange *x, uint32_t first, uint32_t n);
float *exchange_dense_micro(struct exchange *x, uint8_t micro); // NULL: no memory
int exchange_add_micro(struct exchange *x, uint8_t micro, size_t first, size_t n,
                       float *const *gradients);
void exchange_sum(struct exchange *x);

// The fields of a push besides keys and gradients.
struct exchange_push {
    float rate, pass;
    uint64_t clock; // sync
    uint8_t micro, micros;
    uint64_t id_pass, id_piece; // async
    uint32_t id_group, id_low;  // see msg_push; of batches
    uint64_t examples;
    float dense_scale; // what the gradients of dense parameters are multiplied by; 0: 1
};
// Pushes all that is not pushed yet. Before it, of a gradient that is being added up:
// floats [first, first + n) of the dense parameters' are complete.
int exchange_complete(struct exchange *x, const struct exchange_push *p, size_t first,
                      size_t n, struct err *e);
int exchange_push(struct exchange *x, const struct exchange_push *p, struct err *e);
int exchange_pushed(struct exchange *x, struct err *e); // waits for acknowledgement
int exchange_dense_pushed(struct exchange *x, struct err *e);

#endif
