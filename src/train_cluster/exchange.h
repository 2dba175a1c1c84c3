// A batch on its way between a worker and the servers: its distinct keys, the rows that
// were pulled for them, and the gradients that are pushed.
//
// The worker's data has ids; `struct exchange_keys` has the key of an id, and the
// position of that key in the current batch. Keys are put in the order in which they are
// sent, so that rows and gradients are used in the message itself.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_EXCHANGE_H
#define TUG_TRAIN_CLUSTER_EXCHANGE_H

#include "client/client.h"
#include "data/dataset/dataset.h"
#include "data/source/numbering.h"
#include "model/model.h"
#include "table/tree_sum.h"
#include "train/rows/dense.h"
#include "train/rows/view.h"

// Numbers of a run's tables in the cluster. The model's tables have 0 and 1; with
// EXCHANGE_BEST added, they are the tables as they were after the best pass, and with
// EXCHANGE_MEAN added, their mean over batches (--average). A further table has the
// examples that are dealt (deal_rows.h).
enum {
    EXCHANGE_SPARSE = 0,
    EXCHANGE_DENSE = 1,
    EXCHANGE_BEST = 2,
    EXCHANGE_SHUFFLE = 4,
    EXCHANGE_MEAN = 6,
};

// The keys of a worker's data. Ids are handles of a table without columns.
struct exchange_keys {
    struct table *table;
    struct mark {
        uint32_t batch; // the last batch that had the id
        uint32_t place; // position of the id's key in batch `batch`
    } * marks;
    size_t cap; // number of marks
    uint32_t batch;
    struct numbering seen; // numbering of all keys that the worker has read
};
int exchange_keys_open(struct exchange_keys *k, struct err *e);
void exchange_keys_close(struct exchange_keys *k);
int exchange_keys_resolve(void *keys, const uint64_t *k, size_t n, uint32_t *ret_ids);

// The state that a worker with copies of rows keeps from batch to batch: states that
// decay (adam's moments), which cannot be averaged; in elastic mode also the weights and
// all states. For states that are sums, servers get the worker's fraction of the added
// amounts, so that the servers' states never decrease. A save does not have a worker's
// private state; a worker that replaces a dead one begins with the servers' state.
struct exchange_local {
    bool weights;
    // Which states are private, so that the worker does not push them.
    bool state[ACCESSOR_MAX_GROUPS], dense_state;
    // Has for each key the worker's own row, followed by 1 if the row was trained. NULL
    // if rows have no private part.
    struct table *rows;
    float *dense; // private values of all blocks of dense parameters; NULL: none
    bool dense_known;
};
// Opens the private state, which stays empty if neither weights nor states are private.
// Returns 0 or TUG_ENOMEM.
int exchange_local_open(struct exchange_local *o, const struct model *m, bool weights,
                        struct err *e);
void exchange_local_close(struct exchange_local *o); // a zeroed struct is fine

// If servers apply the rules and, unlike in sync mode, do not wait for all of a batch,
// many dense parameters are transferred in parts of whole blocks. The parts that a
// model reads first are pulled first, and those whose gradients are complete first are
// pushed first. Each part of a batch is a push of its own, so a model must have the
// same parts in all workers.
enum {
    EXCHANGE_PARTS = 8,
    EXCHANGE_PART_BLOCKS = 64, // smallest number of blocks in a part
};

// The exchange of one batch. Rules are applied in one of two places. By gradients, the
// server applies the rules once per key of a batch, and the worker's rows do not change
// during the batch. By steps, the worker applies the rules after each example, as in one
// process: it pulls whole rows, with states, and pushes their changes, which the server
// adds.
//
// By steps a worker sees its own changes at once: a batch is pulled before the previous
// batch is pushed, so the worker adds the changes of the previous batch to the pulled
// rows. If workers take the average of their changes (geo), a `fraction` of a change is
// pushed and added: 1 / workers. In elastic mode, the change of a weight is the
// difference between the worker's and the server's value, and both values move towards
// each other by that fraction of the difference (Zhang, Choromanska & LeCun 2015).
struct exchange {
    bool steps;
    float fraction;               // fraction of a change that is pushed; 1 unless set
    struct exchange_local *local; // with `steps`: the private state; NULL: none
    uint32_t *local_row;          // with `steps`: handle of each key's row in local->rows
    bool lives;                   // pushes carry show, click and slot (accessor/life.h)
    struct model model;           // model for rows as they are pulled
    uint32_t width;               // floats of a pulled row
    uint32_t push_width;
    struct client *client;
    struct exchange_keys *keys;

    struct view view; // the examples, in the form that the model reads
    uint32_t *place;  // position of each feature's key in `key`
    float **to;       // the place to which the gradients of each feature are added
    size_t cap_places;

    // The distinct keys of the batch, in the order in which they are sent.
    size_t n, cap;
    uint64_t *key;
    uint32_t *order; // scratch
    float *values;   // values as pulled; if `steps`, the worker changes them
    // With `steps`: first the pulled values, later the changes; else gradients.
    float *gradients;
    // The values of the blocks of dense parameters: whole rows if `steps`, otherwise the
    // model's floats one after the other.
    size_t dense_floats;
    uint64_t *dense_keys;
    float *dense, *dense_gradient;
    float **blocks; // pointers into `dense`
    struct exchange_part {
        // `block`, `n`: first block and number of blocks; `first`, `end`: range of floats
        // in the gradient.
        size_t block, n, first, end;
        size_t missing; // number of the part's floats whose gradient is not complete
        bool pushed;
    } parts[EXCHANGE_PARTS];
    uint32_t n_parts;

    // With `steps`: the positions, here and in the previous batch, of the keys
    // that both batches have.
    struct exchange *before;
    uint32_t number;
    struct overlap {
        uint32_t place, before;
    } * overlaps;
    size_t n_overlaps;

    // Gradients of single micro-batches, until they are added up.
    struct piece_sum {
        uint32_t earlier; // index of the key's sum in an earlier micro-batch; UINT32_MAX:
                          // none
        uint8_t micro;
    } * sums;
    uint32_t *last; // index of the newest sum of each key
    float *sum_values;
    size_t n_sums, cap_sums;
    struct dense_sums dense_sums;

    // Timestamps of the request for the rows, and then of the requests for each part of
    // the dense parameters; 0: not in flight.
    client_ts pulls[1 + EXCHANGE_PARTS], pushes[1 + EXCHANGE_PARTS];
};

int exchange_open(struct exchange *x, const struct model *m, bool steps, struct client *c,
                  struct exchange_keys *k, struct err *e);
void exchange_close(struct exchange *x);

// Takes examples order[0..n) of the data set: finds and arranges the distinct keys.
// `before` is used by steps: the batch that is not pushed yet when the rows of this batch
// are pulled; NULL: none.
int exchange_take(struct exchange *x, const struct dataset *d, const uint64_t *order,
                  size_t n, struct exchange *before, struct err *e);

// exchange_pull asks for the rows and the dense parameters, and exchange_pulled waits for
// them. Instead, exchange_pulled_rows waits for the rows only, and exchange_pulled_dense
// for n dense parameters from `first` on.
int exchange_pull(struct exchange *x, uint64_t clock, struct err *e);
int exchange_pulled(struct exchange *x, struct err *e);
int exchange_pulled_rows(struct exchange *x, struct err *e);
int exchange_pulled_dense(struct exchange *x, size_t first, size_t n, struct err *e);

// These functions serve updates by steps. exchange_catch_up, after exchange_pulled, adds
// the changes of the previous batch that the pulled rows lack. exchange_finish, after the
// last step, computes from the changed rows what is pushed.
void exchange_catch_up(struct exchange *x);
void exchange_finish(struct exchange *x);

// Add up gradients, of `n` examples from `first` on, as model_gradients returns them.
// Without micro-batches: exchange_clear, then exchange_add until all examples are added.
// With micro-batches, in ascending order: exchange_begin with the range,
// exchange_add_micro until all are added, then exchange_sum, which adds the micro-batches
// up in the order of the tree. Gradients of dense parameters are added to dense_gradient,
// or to the result of exchange_dense_micro. `sums` is the memory for the keys' sums:
// x->gradients, or other memory of that size, so that several threads can add at the same
// time.
void exchange_clear(const struct exchange *x, float *sums, float *dense);
void exchange_add(struct exchange *x, float *sums, size_t first, size_t n,
                  float *const *gradients);
void exchange_begin(struct exchange *x, uint32_t first, uint32_t n);
float *exchange_dense_micro(struct exchange *x, uint8_t micro); // NULL if memory is out
int exchange_add_micro(struct exchange *x, uint8_t micro, size_t first, size_t n,
                       float *const *gradients);
void exchange_sum(struct exchange *x);

// The fields of a push besides keys and gradients.
struct exchange_push {
    float rate, pass;
    uint64_t clock; // used in sync mode
    uint8_t micro, micros;
    uint64_t id_pass, id_piece; // used in async mode
    uint32_t id_group, id_low;  // group and low-water mark of the batches, as in msg_push
    uint64_t examples;
    float dense_scale; // factor of the gradients of dense parameters; 0 means 1
};
// exchange_complete is called when floats [first, first + n) of the dense parameters'
// gradient are complete while other floats are still being added up; it pushes the
// complete parts. exchange_push pushes the remaining parts.
int exchange_complete(struct exchange *x, const struct exchange_push *p, size_t first,
                      size_t n, struct err *e);
int exchange_push(struct exchange *x, const struct exchange_push *p, struct err *e);
int exchange_pushed(struct exchange *x, struct err *e); // waits for the acknowledgements
int exchange_dense_pushed(struct exchange *x, struct err *e);
// Handles the error of a request for a part of the layers. A key that this error names is
// not the key of a feature. Returns rc.
int exchange_part_failed(int rc, struct err *e);

#endif
