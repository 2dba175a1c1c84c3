// Flags of Paddle's first version on the command lines of `tug train` and `tug pserver`:
// translates them to options, and reads those that describe the other processes of the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_V0_H
#define TUG_CLI_V0_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "options/options.h"
#include "options/problems.h"
#include "runtime/role.h"

enum { V0_PORT = 7164 }; // the port in Paddle's launch script

// Words of a command line; this struct owns the array and the words.
struct v0_list {
    char **at;
    int n;
    size_t cap;
};

// The words of a command, with flags replaced by tug's options.
struct v0_words {
    struct v0_list own;   // the words of the command itself
    struct v0_list node;  // options of `tug worker` about links, which a trainer may have
    const char *used[64]; // flags that became options, for errors
    size_t n_used;
    char unused[512]; // flags without effect, for the log
    bool saves_once;  // no flag says when to save; Paddle would save each pass
    // With --local=0: the addresses of the other processes.
    bool cluster;
    char *pservers, *nics;
    uint64_t port, trainer_id, trainers; // trainers 0: not given
    struct problems wrong;               // the problems of the flags
};

// Returns whether the words up to "--" contain a flag of Paddle.
bool v0_given(int argc, char *const *argv);

// Translate the words of a trainer or a server. Flags without a counterpart in tug become
// problems, which v0_words_parse reports.
int v0_words_take(struct v0_words *ret, int argc, char *const *argv, struct err *e);
int v0_words_take_server(struct v0_words *ret, int argc, char *const *argv,
                         struct err *e);

// Parses the command's own words. TUG_EUSAGE reports all problems, those of the flags
// included.
int v0_words_parse(struct v0_words *w, const struct option_table *table,
                   struct options **ret, void *values, struct err *e);
void v0_words_free(struct v0_words *w); // a zeroed struct is fine

// Adds to an error the flags from which its options came.
int v0_words_explain(const struct v0_words *w, int rc, struct err *e);

// Set the role of a trainer, and the role of a server. `pservers` has the hosts of all
// servers ("A,B"); NULL: there is only one server. `host` and `nics`, which may both be
// NULL, identify this server among these hosts.
int v0_role_trainer(struct role *ret, const struct v0_words *w, struct err *e);
int v0_role_server(struct role *ret, const char *pservers, const char *host,
                   const char *nics, uint16_t port, struct err *e);

#endif
