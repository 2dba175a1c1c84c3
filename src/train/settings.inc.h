// The members of struct run_settings: options whose values are the same in a run and in its
// save. struct train_config and struct saved_options include these members, so that one
// assignment copies them all.
//
// SPDX-License-Identifier: Apache-2.0
struct model_options model;
struct schedule schedule;
struct held_out valid_part; // the share of the training data used for validation
TRAINING_SETTINGS(SETTING_MEMBER, SETTING_NOTHING)
