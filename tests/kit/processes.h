// Real processes of a cluster in tests: started under names, waited for with deadlines,
// killed, and none of them left behind.
//
// A process's output goes to NAME.out and NAME.err in the folder of the test. A test that
// fails shows what all of its processes have said.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PROCESSES_H
#define TUG_KIT_PROCESSES_H

#include <signal.h>

#include "kit/command.h"

// Longer than anything takes on a busy machine: reached only by what hangs.
enum { CLUSTER_PATIENCE = 60 };

// Group fixtures: e2e_begin and more. After each test no process may be left.
int cluster_begin(void **state);
int cluster_end(void **state);
int cluster_setup(void **state);
int cluster_teardown(void **state);
#define cluster_test(f)                                                                  \
    cmocka_unit_test_setup_teardown(f, cluster_setup, cluster_teardown)

// Starts `tug WORDS` under a name, which may be used again once the process has ended.
void cluster_start(const char *name, const char *words, ...) E2E_PRINTF(2);

// Likewise in a network namespace. NULL: in this one.
void cluster_start_in(const char *space, const char *name, const char *words, ...)
    E2E_PRINTF(3);

// Waits for its end; the exit status, or 128 + the signal. Its output is in e2e_out and
// e2e_err.
int cluster_wait(const char *name, double seconds);
void cluster_ends(const char *name, int code, double seconds); // and no other one
void cluster_said(const char *name, const char *text);         // of one that has ended

// Waits until its standard error holds the text.
void cluster_await(const char *name, const char *text);

void cluster_signal(const char *name, int number);

// Every process that this test started and all they started have ended.
void cluster_none_left(void);

// Reads, from the output of a scheduler or its launcher, the process id of a node
// ("worker 1"), and the scheduler's port. Waits until it is said.
pid_t cluster_node(const char *name, const char *node);
// For a process under its name.
pid_t cluster_pid(const char *name);
unsigned cluster_port(const char *name);

// A port of loopback that nobody listens on.
unsigned cluster_free_port(void);

// Runs a program that is not tug's to its end; its exit status.
int cluster_system(const char *words, ...) E2E_PRINTF(1);

double cluster_now(void); // seconds

// Fails, and shows what all processes have said.
void cluster_fail(const char *format, ...) E2E_PRINTF(1);

// Their rows were updated equally often: the column `count` of the exported tables is the
// same for every key.
void cluster_same_counts(const char *a, const char *b);

// The parts of the newest saves have the same bytes, and the exported tables, too.
void cluster_same_parts(const char *a, const char *b);
bool cluster_parts_differ(const char *a, const char *b);

#endif
