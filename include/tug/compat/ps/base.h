// The type of keys, and the numbers of the groups of nodes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_BASE_H
#define TUG_COMPAT_PS_BASE_H

#include <limits>

#include "ps/internal/utils.h"

#if USE_KEY32
#error "keys have 64 bits here: build without USE_KEY32"
#endif

namespace ps
{

using Key = uint64_t;
static const Key kMaxKey = std::numeric_limits<Key>::max();
static const int kScheduler = TUG_GROUP_SCHEDULER;
static const int kServerGroup = TUG_GROUP_SERVERS;
static const int kWorkerGroup = TUG_GROUP_WORKERS;

} // namespace ps

#endif
