// Flags of Paddle's first version on the command line of `tug train`: which option each is here,
// and which of them say how the trainer finds the others of its run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_V0_H
#define TUG_CLI_V0_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "facade/role.h"

enum { V0_PORT = 7164 }; // what its launch script says

// The words of a command, with tug's options in place of the flags.
struct v0_words {
    char **at; // they and what they point to are this struct's
    int n, cap;
    const char *used[64]; // flags that became options, for errors
    size_t n_used;
    char unused[512]; // flags without effect, for the log
    // For --local=0: the addresses of the others.
    bool cluster;
    char *pservers, *nics;
    uint64_t port, trainer_id, trainers; // trainers 0: not said
};

// Whether there is such a flag among the words, up to "--".
bool v0_given(int argc, char *const *argv);

// TUG_EUSAGE: a flag asks for what is done otherwise here.
int v0_words_take(struct v0_words *ret, int argc, char *const *argv, struct err *e);
void v0_words_free(struct v0_words *w); // a zeroed one is fine

// Adds to an error which flags the options in it were.
int v0_words_explain(const struct v0_words *w, int rc, struct err *e);

// The role of a trainer; of a server of these hosts ("A,B"; NULL: there is one). `host` and
// `nics` (both may be NULL) say which of them it is.
int v0_role_trainer(struct role *ret, const struct v0_words *w, struct err *e);
int v0_role_server(struct role *ret, const char *pservers, const char *host,
                   const char *nics, uint16_t port, struct err *e);

#endif
