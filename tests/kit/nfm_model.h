// Neural factorization machine (He & Chua 2017, figure 2): the model of one's own with
// layers that docs/models.md works through.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_NFM_MODEL_H
#define TUG_KIT_NFM_MODEL_H

#include "model/model.h"

extern const struct model_ops nfm;

#endif
