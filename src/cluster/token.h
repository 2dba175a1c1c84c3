// Tokens of a cluster: keys by which processes on one machine identify themselves to each
// other over loopback if there are no certificates.
//
// A token is a key and the role that it gives its holder. The scheduler makes the token
// of operators and leaves it in a file of mode 0600 in the user's runtime directory,
// where processes of the same user find it at each connection. Tokens with fewer rights
// can be derived from a token and handed out, in the order operator, server, worker,
// tool; the opposite is impossible.
//
// The text form is "ROLE:64 hexadecimal digits".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_TOKEN_H
#define TUG_CLUSTER_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "os/file.h"
#include "van/mac.h"
#include "wire/wire.h"

struct token {
    enum wire_role role; // the role of the token; WIRE_NOBODY: there is no token
    uint8_t key[MAC_BYTES];
};

enum { TOKEN_TEXT_MAX = 96 };

int token_make(struct token *ret, struct err *e); // makes an operator's token
int token_read(struct token *ret, const char *text, struct err *e); // 0 or TUG_EUSAGE
void token_write(char ret[TOKEN_TEXT_MAX], const struct token *t);

// Turns a token into the token of a role with the same or fewer rights. Returns false if
// the role has more rights, or if memory is short.
bool token_lower(struct token *t, enum wire_role role);

// A token's file belongs to the cluster whose scheduler listens at `port` of this
// machine. token_leave writes it, also over the file of a dead scheduler, and removes all
// files that other dead schedulers have left; the file of a living scheduler is locked,
// because *ret_lock stays open. token_find reads the newest file that can be trusted. If
// there is no such file, it returns TUG_EIO with the places where it looked.
int token_leave(char ret_path[FILE_PATH_MAX], int *ret_lock, const struct token *t,
                const char *cluster, uint16_t port, struct err *e);
int token_find(struct token *ret, const char *cluster, uint16_t port, struct err *e);

// Removes the file of token_leave, unless another scheduler has replaced it, and closes
// the lock. An empty path means that no file was written.
void token_remove(const char *path, int lock, const struct token *t);

#endif
