// The members of struct run_settings: options that a run uses as they are in its save.
// struct train_config and struct saved_options have the same members, so that one
// assignment copies them all. Included within structs.
//
// SPDX-License-Identifier: Apache-2.0
struct model_options model;
struct schedule schedule;
uint32_t batch;
bool deterministic;
bool reduce_mean; // synchronous batches take the mean of the gradients instead of their
                  // sum
uint64_t average; // window of the parameters' mean in batches (averaging.h); 0: no mean
struct held_out valid_part; // the share of the training data used for validation
