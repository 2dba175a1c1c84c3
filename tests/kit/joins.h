// A training of two servers and two workers, in real processes, whose servers join and
// leave while it runs: its processes are "run" (the scheduler), "first", "second", "w0",
// "w1" and those of the test.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_JOINS_H
#define TUG_KIT_JOINS_H

#include "kit/processes.h"

// Group fixture: makes the data of the runs. It calls cluster_begin; the fixture for
// the end is cluster_end.
int joins_begin(void **state);

// Returns the words of `tug train` for the run whose model is `out`, with `more` options. They are
// valid until the next call.
const char *joins_words(const char *out, const char *more);

// Starts the run, and waits until it trains. `of_servers` are options of both servers.
void joins_start(const char *words, const char *of_servers);

// Starts a server that joins, with `more` options.
void joins_server(const char *name, const char *more);

// Drains the server of this rank, and waits until it has left.
void joins_drain(unsigned rank);

// Replaces all servers of the run, one after the other. The new servers are "third" and
// "fourth". The server "first" is drained by the command, "second" by the command or by a
// signal. `more` are options of the new servers.
void joins_change_all(bool by_signal, const char *more);

// Waits until the run has ended well, and then for the end of the processes with these
// names (NULL ends the list). e2e_out is the output of the run.
void joins_end(const char *const *others);

// Waits for all processes with these names, whatever their exit status.
void joins_wait(const char *const *names);

unsigned joins_port(void); // port of the scheduler

#endif
