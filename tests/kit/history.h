// Workers that push and pull in processes of their own and write down what they got, for a
// checker (tests/e2e/history_check.py): no push is lost, counts twice, or is seen and then
// lost.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_HISTORY_H
#define TUG_KIT_HISTORY_H

// The table of the workers, which has a column for each of them.
enum { HISTORY_WORKERS = 4 };
#define HISTORY_TABLE "name=counts;accessor=plain;dim=4;rule=sum"

void history_start(void); // of the cluster at tables_port (kit/servers.h)
void history_await(void); // waits until each worker has sent more requests than now
// Stops worker 0 in a request, and lets it continue. Meanwhile history_await does not wait for it.
void history_stop(void);
void history_continue(void);
// Ends the workers, all of whose requests must have succeeded, and pulls all rows.
void history_end(void);
void history_check(const char *script); // the path of history_check.py

#endif
