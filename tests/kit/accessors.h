// Accessors by name, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ACCESSORS_H
#define TUG_KIT_ACCESSORS_H

#include "accessor/accessor.h"
#include "kit/test.h"
#include "rule/rule.h"

enum { MAX_WIDTH = 80 }; // largest width of a row in tests

// Returns the name of the i-th accessor that comes with tug; NULL after the last.
const char *accessors_name(size_t i);

enum { ACCESSORS_SETTINGS = 64 };
// Writes the settings of a small table with the i-th accessor. Returns false after the
// last.
bool accessors_settings(size_t i, char ret[ACCESSORS_SETTINGS]);

// accessor_usual returns the usual settings of an accessor; accessor_made makes an
// accessor from settings and checks it.
struct accessor_options accessor_usual(const char *name, uint32_t dim);
struct accessor accessor_made(const struct accessor_options *o);

#endif
