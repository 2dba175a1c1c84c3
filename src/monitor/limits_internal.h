// Limits beyond which the page tells an operator of a problem. The alerts in
// monitoring/tug.rules.yml use the same limits (limits_test.c compares them), except that
// an alert waits longer for progress.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_LIMITS_INTERNAL_H
#define TUG_MONITOR_LIMITS_INTERNAL_H

// Limits of processes: seconds without progress (a save may take
// save_factor times as long as the last one), and shares of a disk, of memory, of the speed
// of the fastest worker, and of a bound on staleness. Heartbeats come each second.
static const double idle_seconds = 60, waiting_seconds = 2, silent_seconds = 5,
                    save_factor = 3, disk_share = .1, memory_share = .9, slow_share = .8,
                    behind_share = .7;

// The recent speed of a worker is compared with others if it was measured over at
// least compared_seconds, and some worker has recently finished compared_pieces
// pieces of the data.
static const double compared_seconds = 10, compared_pieces = 5;

// Limits of the training. A loss above guess_loss, or risen by both rise_factor and
// rise_least, diverges; so does a validation loss above guess_loss, or risen by both
// valid_rise_factor and rise_least, unless the validation AUC is below reversed_auc: then
// the labels of that data are of another kind. While a pass has had only a few examples,
// its loss may be so high by chance. A loss that is not below that of the mean label means
// that nothing is learnt; the first pass begins with such a loss.
static const double guess_loss = 1, few_examples = 1000, enough_examples = 10000,
                    first_examples = 1000000, rise_factor = 1.3, rise_least = .1,
                    valid_rise_factor = 2, valid_factor = 1.05, auc_gap = .2,
                    reversed_auc = .4;

#endif
