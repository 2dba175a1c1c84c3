// Clusters with servers only, for tests of tables. Guests join and leave: this process,
// with tug/table.h, and `tug table`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SERVERS_H
#define TUG_KIT_SERVERS_H

#include "kit/processes.h"
#include "tug/table.h"

enum { TABLES_DIM = 4, TABLES_PUSH = 1 + TABLES_DIM + 3, TABLES_KEYS = 1000 };

// Settings of a table whose rows have a lifecycle and are all published.
#define TABLES_USERS                                                                     \
    "name=users;accessor=ctr;dim=4;entry=count:2;embedx-threshold=2;base-threshold=0;"   \
    "delta-threshold=0;rule=sgd:lr=0.5;embedx-rule=adagrad-shared:lr=0.1;seed=7"

extern unsigned tables_port;  // port of the scheduler
extern unsigned tables_loops; // loops of each server; 0 means 1

// Starts the processes "scheduler", "server0" and so on, and returns when all have
// joined.
void tables_start(unsigned servers);
// Stops the cluster by `tug stop`, and checks that no process is left.
void tables_stop(void);
// Kills the remaining processes after a server's death.
void tables_kill(unsigned servers);

// Runs `tug table WORDS` on the cluster, and checks the exit status.
void tables_admin(int code, const char *words, ...) E2E_PRINTF(2);

// tables_client makes this process a guest of the cluster.
struct tug_client *tables_client(void);
// Skips the test if this build cannot keep rows of tables on disk.
void tables_need_disk(void);
void tables_check(int rc); // checks the result of a call of tug/table.h

// Pushes n random keys below TABLES_KEYS, with shows and some clicks; the push depends on
// the seed only.
void tables_push(struct tug_client *c, uint32_t table, uint64_t seed, size_t n);
// Pushes n such random keys, each increased by `first`.
void tables_push_from(struct tug_client *c, uint32_t table, uint64_t first, uint64_t seed,
                      size_t n);

// Checks that both files have the same bytes and are not empty.
void tables_same_files(const char *a, const char *b);

#endif
