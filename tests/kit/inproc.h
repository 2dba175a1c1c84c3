// The van between threads of one process. Addresses "inproc://NAME" are valid in the
// whole process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_INPROC_H
#define TUG_KIT_INPROC_H

#include "van/van.h"

int inproc_van_open(struct van **ret, const struct van_handler *h, struct err *e);

#endif
