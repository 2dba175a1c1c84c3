// A shard on a thread of its own. Other threads of the process reach it by vans between
// threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SHARD_THREAD_H
#define TUG_KIT_SHARD_THREAD_H

#include "cluster/member.h"

struct shard_thread;

struct shard_thread *shard_thread_open(const struct member_options *member);
void shard_thread_close(struct shard_thread *t);

#endif
