// Accessors by name, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ACCESSORS_H
#define TUG_KIT_ACCESSORS_H

#include "accessor/accessor.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_WIDTH = 80 }; // largest width of a row in tests

enum { ACCESSORS = 5 };
extern const char *const accessors_all[ACCESSORS]; // the names of all accessors

// accessor_usual returns the usual settings of an accessor; accessor_made makes an
// accessor from settings and checks it.
struct accessor_options accessor_usual(const char *name, uint32_t dim);
struct accessor accessor_made(const struct accessor_options *o);

#endif
