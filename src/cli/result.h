// The final output of train and eval as lines of text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_RESULT_H
#define TUG_CLI_RESULT_H

#include "run/result.h"

// Prints "test  auc 0.80341  logloss 0.53201  copc 0.99800  pr_auc 0.66012  ne 0.85112
// (48765 examples)". Without an AUC, rmse and mae are printed in place of pr_auc and ne.
// Prints a line for each label if there are several: "test click  auc ...".
int result_print_metrics(const struct result *r);

#endif
