// Accessors by name, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ACCESSORS_H
#define TUG_KIT_ACCESSORS_H

#include "accessor/accessor.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_WIDTH = 80 }; // of rows in tests

enum { ACCESSORS = 5 };
extern const char *const accessors_all[ACCESSORS]; // names

// Its usual settings; made, and checked.
struct accessor_options accessor_usual(const char *name, uint32_t dim);
struct accessor accessor_made(const struct accessor_options *o);

#endif
