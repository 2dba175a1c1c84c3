// tug: metrics of predictions, whose states have names.
//
// A program hands over its predictions batch by batch and reads AUC, errors and calibration:
// of everything since the states were zeroed, and the AUC of the last batches alone. The
// states are arrays with names, NAME.STATE, and are zeroed by them: before each pass, say.
// (Paddle: layers.auc with its stat_pos, stat_neg, batch_stat_pos and batch_stat_neg, and
// ctr_metric_bundle.) They belong to the program and lie in no table: no save has them, and
// no load brings them back.
//
//   STATE           numbers     what it is
//   stat_neg        buckets     examples of label 0 by bucket of probability
//   stat_pos        buckets     likewise of labels above 0
//   batch_stat_neg  buckets     the same of the last `window` batches
//   batch_stat_pos  buckets
//   abserr, sqrerr  1           sum of |probability - label|, and of its square
//   prob            1           sum of probabilities
//   pos_num         1           examples of labels above 0
//   ins_num         1           examples
//
// Sums are kept in units of 2^-30 of an example and are whole numbers, as counts are, so
// all values have the same bits however the examples were divided: by batches, by workers,
// by who came first. Resolution: probabilities within one bucket, 1/4,096 of the range if not
// said otherwise, tie in the AUC; the errors of one example are rounded to 2^-30.
//
// Functions return a status of tug/tug.h; those that reduce wait for all workers, the others
// return at once. A metric is one thread's at a time. Arrays and names are the caller's, and are
// read or written to during the call.
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
    uint32_t buckets; // of probability, 2 to 1,048,576; 0: 4,096
    uint32_t window;  // batches that batch_auc is of; 0: 1
};

// `name`: 1 to 63 bytes; what its states are called by. `o` may be NULL. TUG_EUSAGE: a name or a
// number of buckets that cannot be, or a window that would take more than 1 GiB.
TUG_API int tug_metric_open(struct tug_metric **ret, const char *name,
                            const struct tug_metric_options *o);
TUG_API void tug_metric_close(struct tug_metric *m); // NULL is fine

// A batch of n examples, below 2^32; above 0 a label is a positive, else a negative. TUG_EUSAGE: a
// prediction is no probability, or a label no number; then nothing of the batch counts.
TUG_API int tug_metric_add(struct tug_metric *m, const float *probabilities,
                           const float *labels, size_t n);

// Those that do not exist are NAN: an AUC without both classes, a mean of nothing.
struct tug_metric_values {
    uint64_t examples, positives;
    double auc, batch_auc;
    double mae, rmse;
    double predicted, observed; // the mean probability, and the share of positives
    double copc;                // predicted / observed
};
TUG_API void tug_metric_read(const struct tug_metric *m, struct tug_metric_values *ret);

// A state by its name, "NAME.STATE": its numbers go to `ret`, which has room for `room`;
// *ret_n (may be NULL) is how many it has, also where there is too little room. TUG_EUSAGE: no
// such state (the sentence lists them), or too little room.
TUG_API int tug_metric_state(const struct tug_metric *m, const char *state, double *ret,
                             size_t room, size_t *ret_n);
// Zeroes one; all with `state` NULL. TUG_EUSAGE likewise.
TUG_API int tug_metric_reset(struct tug_metric *m, const char *state);

// The metric of all workers' examples together (Paddle: fleet.metrics). All call it, with metrics
// of the same name and options, and all get the same values; their own states stay as they are.
// `table` and errors: as of tug_all_reduce.
TUG_API int tug_metric_reduce(const struct tug_metric *m, struct tug_client *c,
                              uint32_t table, struct tug_metric_values *ret);

// Sums of all workers' whole numbers: each gives n values below 2^60 and gets n sums. All
// workers call it with the same n (a guest cannot), and wait for each other. The sums go
// through `table`, which each has made by tug_table_create with "accessor = counter; dim = 3"
// and which serves nothing else: it is empty before and afterwards, so that no save holds
// them. One at a time for a table. (Paddle: fleet.util.all_reduce with mode sum.)
// TUG_EUSAGE: in a callback; or a value is too large, or a sum 2^64 or more, or the table another
// one: then others wait in vain, until their wait_seconds have passed. TUG_EIO: somebody did not
// come in this time, or the cluster has ended. After an error `values` may be sums in part.
TUG_API int tug_all_reduce(struct tug_client *c, uint32_t table, uint64_t *values,
                           size_t n);

#ifdef __cplusplus
}
#endif

#endif
