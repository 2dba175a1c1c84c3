// See test.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"

struct err test_err;
