// A model that is registered by a program, for tests. Its features have two weights, p and q:
//
//   f(x) = b + sum (p_i + 2 q_i + p_i q_i) x_i
//
// It has no step of its own and computes several examples at once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TOY_MODEL_H
#define TUG_KIT_TOY_MODEL_H

#include "model/model.h"

extern const struct model_ops toy;

#endif
