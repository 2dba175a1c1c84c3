// Real processes of a cluster in tests: a test starts them under names, waits for them
// with deadlines, kills them, and leaves none behind.
//
// A process's output goes to NAME.out and NAME.err in the folder of the test. A test that
// fails prints the output of all its processes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PROCESSES_H
#define TUG_KIT_PROCESSES_H

#include <signal.h>

#include "kit/command.h"
#include "kit/etcd.h"

// A deadline in seconds that is longer than anything takes on a busy machine, so only
// processes that hang reach it.
enum { CLUSTER_PATIENCE = 60 };

// cluster_begin and cluster_end are fixtures of a group; the other two are fixtures of a
// test. cluster_teardown kills the test's processes, and fails if one of them does not
// end.
int cluster_begin(void **state);
int cluster_end(void **state);
int cluster_setup(void **state);
int cluster_teardown(void **state);
// These functions also set an operator's token. If etcd is installed, the test begins
// with an empty etcd.
int cluster_setup_etcd(struct kit_etcd *etcd, void **state);
int cluster_teardown_etcd(struct kit_etcd *etcd, void **state);
// Gives the processes that are started later the same operator's token.
void cluster_set_token(void);
#define cluster_test(f)                                                                  \
    cmocka_unit_test_setup_teardown(f, cluster_setup, cluster_teardown)

// Starts `tug WORDS` under a name, which may be used again once the process has ended.
void cluster_start(const char *name, const char *words, ...) E2E_PRINTF(2);

// Starts `tug WORDS` in a network namespace; NULL: in the current one.
void cluster_start_in(const char *space, const char *name, const char *words, ...)
    E2E_PRINTF(3);

// Waits for the end of a process. Returns the exit status, or 128 + the signal. The
// output is then in e2e_out and e2e_err.
int cluster_wait(const char *name, double seconds);
void cluster_ends(const char *name, int code, double seconds); // checks its exit status
// Checks the output of a process that has ended.
void cluster_said(const char *name, const char *text);

// Waits until the standard error of a process contains the text.
void cluster_await(const char *name, const char *text);

void cluster_signal(const char *name, int number);

// Checks that all processes of this test and their children have ended.
void cluster_none_left(void);

// cluster_node reads the process id of a node ("worker 1") from the output of a scheduler
// or its launcher, and waits until the output has this id.
pid_t cluster_node(const char *name, const char *node);
// Kills such a node. Returns its process id.
pid_t cluster_kill_node(const char *name, const char *node);
// cluster_pid returns the id of the process with this name; cluster_port reads the
// scheduler's port.
pid_t cluster_pid(const char *name);
unsigned cluster_port(const char *name);

// Returns a loopback port on which no process listens.
unsigned cluster_free_port(void);

// Runs a program other than tug to its end. Returns its exit status.
int cluster_system(const char *words, ...) E2E_PRINTF(1);

double cluster_now(void); // the current time in seconds

// Fails the test, and prints the output of all processes.
void cluster_fail(const char *format, ...) E2E_PRINTF(1);

// Checks that the rows of both models were updated equally often: the column `count` of
// the exported tables is the same for every key.
void cluster_same_counts(const char *a, const char *b);

// cluster_same_parts checks that the files of the newest saves, and the exported tables,
// have the same bytes; cluster_parts_differ returns whether any of them differs.
// cluster_same_tables checks the exported tables only: loops write rows that were on disk
// into files of their own.
void cluster_same_parts(const char *a, const char *b);
void cluster_same_tables(const char *a, const char *b);
bool cluster_parts_differ(const char *a, const char *b);

#endif
