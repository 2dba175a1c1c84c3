// tug: metrics of predictions over batches and over workers.
//
// A program adds its predictions batch by batch and reads AUC, errors and calibration
// over all examples since the states were zeroed, and the AUC of the last batches alone.
// The states of a metric are arrays with names, NAME.STATE; a program zeroes them by
// name, for example before each pass. (Paddle: layers.auc with its stat_pos, stat_neg,
// batch_stat_pos and batch_stat_neg, and ctr_metric_bundle.) The states are not in any
// table, so saves and loads do not include them.
//
//   STATE           numbers     what it is
//   stat_neg        buckets     examples of label 0, by bucket of the predicted probability
//   stat_pos        buckets     examples of labels above 0, likewise
//   batch_stat_neg  buckets     stat_neg of the last `window` batches alone
//   batch_stat_pos  buckets     stat_pos of the last `window` batches alone
//   abserr, sqrerr  1           sum of |probability - label|, and of its square
//   prob            1           sum of predicted probabilities
//   pos_num         1           examples of labels above 0
//   ins_num         1           examples
//
// Sums are whole numbers in units of 2^-30 of an example. So all values have the same
// bits, however the examples are divided into batches and among workers, and in any order.
// Resolution: probabilities within one bucket, by default 1/4,096 of the range, tie in the
// AUC; the errors of one example are rounded to 2^-30.
//
// Functions return a status of tug/tug.h; those that reduce wait for all workers, the
// others return at once. Only one thread at a time may use a metric. Arrays and names
// belong to the caller and are read or written during the call only.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_METRIC_H
#define TUG_METRIC_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_metric;

struct tug_metric_options {
    uint32_t buckets; // number of buckets of probability, 2 to 1,048,576; 0: 4,096
    uint32_t window;  // number of last batches that batch_auc is computed over; 0: 1
};

// Opens a metric. `name`, of 1 to 63 bytes, begins the names of its states. `o` may be
// NULL. TUG_EUSAGE if the name or the number of buckets is invalid, or the window would
// take more than 1 GiB.
TUG_API int tug_metric_open(struct tug_metric **ret, const char *name,
                            const struct tug_metric_options *o);
TUG_API void tug_metric_close(struct tug_metric *m); // NULL is fine

// Adds a batch of n examples (n < 2^32). Examples with labels above 0 are positives, all
// other examples negatives. TUG_EUSAGE if a prediction is not a probability or a label is
// NaN; then no example of the batch counts.
TUG_API int tug_metric_add(struct tug_metric *m, const float *probabilities,
                           const float *labels, size_t n);

// The values of a metric, for tug_metric_read. A value that is not defined is NAN, such
// as an AUC without both classes or a mean over no examples.
struct tug_metric_values {
    uint64_t examples, positives;
    double auc, batch_auc;
    double mae, rmse;
    // The mean of the predicted probabilities, and the fraction of positives.
    double predicted, observed;
    double copc; // predicted / observed
};
TUG_API void tug_metric_read(const struct tug_metric *m, struct tug_metric_values *ret);

// Copies a state, by its name "NAME.STATE", to `ret`, which has room for `room` numbers;
// *ret_n (may be NULL) becomes the state's size, also if `room` is too small. TUG_EUSAGE
// if there is no such state (tug_last_error lists the states), or too little room.
TUG_API int tug_metric_state(const struct tug_metric *m, const char *state, double *ret,
                             size_t room, size_t *ret_n);
// Zeroes the state with this name, or all states if `state` is NULL. TUG_EUSAGE if there
// is no such state.
TUG_API int tug_metric_reset(struct tug_metric *m, const char *state);

// Computes the metric over all workers' examples together (Paddle: fleet.metrics). All
// workers call it, with metrics of the same name and options, and get the same values;
// their own states stay unchanged. `table` and the errors are as in tug_all_reduce.
TUG_API int tug_metric_reduce(const struct tug_metric *m, struct tug_client *c,
                              uint32_t table, struct tug_metric_values *ret);

// Sums whole numbers over all workers: each gives n values below 2^60 and gets n sums.
// All living workers call it with the same n (a guest cannot), and wait for each other.
// `table` has no effect. (Paddle: fleet.util.all_reduce with mode sum.) Returns TUG_EUSAGE
// in a callback, or if a value is too large (the other workers then wait until their
// wait_seconds have passed). All workers get TUG_EUSAGE if a sum is 2^64 or more, or if
// they are in different calls. Returns TUG_EIO if a worker did not come in time, or if the
// cluster has ended. After an error `values` are unchanged.
TUG_API int tug_all_reduce(struct tug_client *c, uint32_t table, uint64_t *values,
                           size_t n);

#ifdef __cplusplus
}
#endif

#endif
