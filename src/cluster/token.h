// Tokens of a cluster: what processes on one machine show each other over loopback where
// there are no certificates.
//
// A token is a key and the role that it lets its holder be. The scheduler makes that of
// operators and leaves it in a file of mode 0600 in the user's runtime directory, where
// processes of the same user find it at each dial; that of less can be derived of it
// (operator, then server, worker, tool), never the other way, and handed out.
//
// The text form is "ROLE:64 hexadecimal digits".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_TOKEN_H
#define TUG_CLUSTER_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "van/mac.h"
#include "wire/wire.h"

struct token {
    enum wire_role role; // WIRE_NOBODY: there is none
    uint8_t key[MAC_BYTES];
};

enum { TOKEN_TEXT_MAX = 96 };

int token_make(struct token *ret, struct err *e);                   // an operator's
int token_read(struct token *ret, const char *text, struct err *e); // TUG_EUSAGE
void token_write(char ret[TOKEN_TEXT_MAX], const struct token *t);

// Makes it that of a lesser role. False: the role is not less (nor the same).
bool token_lower(struct token *t, enum wire_role role);

// The file of the cluster whose scheduler listens on this port of this machine.
// token_leave writes it, in place of one that a dead scheduler has left, and removes those
// that dead schedulers have left elsewhere: the file of a living one is locked, for *ret_lock
// stays open. token_find reads the newest of those that are safe to believe: TUG_EIO saying
// where it was looked for.
int token_leave(char ret_path[FILE_PATH_MAX], int *ret_lock, const struct token *t,
                const char *cluster, uint16_t port, struct err *e);
int token_find(struct token *ret, const char *cluster, uint16_t port, struct err *e);

// Removes what token_leave has written, unless another scheduler has put its own there, and
// closes the lock. An empty path: nothing was written.
void token_remove(const char *path, int lock, const struct token *t);

#endif
