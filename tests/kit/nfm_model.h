// Neural factorization machine (He & Chua 2017, figure 2): the example of a user-defined
// model with layers in docs/models.md.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_NFM_MODEL_H
#define TUG_KIT_NFM_MODEL_H

#include "model/model.h"

extern const struct model_ops nfm;

#endif
