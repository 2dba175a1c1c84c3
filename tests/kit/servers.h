// Clusters of servers alone, for tests of tables: guests come and go, this process with
// tug/table.h and `tug table` beside it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SERVERS_H
#define TUG_KIT_SERVERS_H

#include "kit/processes.h"
#include "tug/table.h"

enum { TABLES_DIM = 4, TABLES_PUSH = 1 + TABLES_DIM + 3, TABLES_KEYS = 1000 };

// Rows with a life, all of which are published.
#define TABLES_USERS                                                                     \
    "name=users;accessor=ctr;dim=4;entry=count:2;embedx-threshold=2;base-threshold=0;"   \
    "delta-threshold=0;rule=sgd:lr=0.5;embedx-rule=adagrad-shared:lr=0.1;seed=7"

extern unsigned tables_port;  // of the scheduler
extern unsigned tables_loops; // of each server; 0: one

// Processes "scheduler", "server0" and so on, which are all there when it returns.
void tables_start(unsigned servers);
// In order, by tug stop; no process is left.
void tables_stop(void);
// After a server's death: whatever is left of it.
void tables_kill(unsigned servers);

// `tug table WORDS` on it must end so.
void tables_admin(int code, const char *words, ...) E2E_PRINTF(2);

// This process as a guest of it, and its calls.
struct tug_client *tables_client(void);
void tables_check(int rc); // of a call of tug/table.h

// Pushes n random keys out of TABLES_KEYS, shown and some of them clicked: the same for
// the same seed.
void tables_push(struct tug_client *c, uint32_t table, uint64_t seed, size_t n);
// Out of TABLES_KEYS from `first` on.
void tables_push_from(struct tug_client *c, uint32_t table, uint64_t first, uint64_t seed,
                      size_t n);

// Both must be files of the same bytes, and not empty.
void tables_same_files(const char *a, const char *b);

#endif
