// Schedules of a learning rate: mxnet.lr_scheduler (2.0), as a function of num_update, the most
// updates that any key has had.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_SCHEDULE_H
#define TUG_DOORS_KVSTORE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { KVS_STEPS_MAX = 64 };

enum kvs_schedule_kind {
    KVS_CONSTANT, // no schedule: the rate is the optimizer's learning_rate
    KVS_FACTOR,
    KVS_MULTIFACTOR,
    KVS_POLY,
    KVS_COSINE,
    KVS_SCHEDULES
};

struct kvs_schedule {
    enum kvs_schedule_kind kind;
    double base_lr; // the learning rate before it decays
    double warmup_steps, warmup_begin_lr, warmup_final_lr;
    bool warmup_constant;
    double factor, stop_factor_lr, pwr, final_lr, max_update;
    // "factor" uses only steps[0]; "multifactor" uses all, which ascend.
    double steps[KVS_STEPS_MAX];
    uint32_t n_steps;
};

// Makes the schedule "factor", "multifactor", "poly" or "cosine" with its defaults.
int kvs_schedule_begin(struct kvs_schedule *ret, const char *name, struct err *e);

// Takes a field of a schedule, whose value is the n bytes at `value`. Returns false if
// the schedule has no such field. *ret becomes 0, or the error's code if the value is
// wrong.
bool kvs_schedule_field(struct kvs_schedule *s, const char *name, const char *value,
                        size_t n, int *ret, struct err *e);

// Checks the fields that depend on each other. Must be called before kvs_schedule_rate.
int kvs_schedule_check(const struct kvs_schedule *s, struct err *e);
double kvs_schedule_rate(const struct kvs_schedule *s, uint64_t num_update);

const char *kvs_schedule_name(const struct kvs_schedule *s);
// Returns the names of the schedule's fields, for messages.
const char *kvs_schedule_takes(const struct kvs_schedule *s);

#endif
