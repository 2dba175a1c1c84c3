// Proofs of sessions: a link may act for a session only after it has proven that the
// scheduler gave that session to it.
//
// The scheduler has a secret key, which it gives only to servers. From that key it
// computes each member's secret, over the member's session, node, role and the
// certificate that the member has shown (zeros if it has none). The member gets its
// secret with JOINED. In HELLO and WELCOME both ends prove that they know the secret, by
// a message authentication code over the binding of the link, so that a proof from one
// link is worth nothing on another.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_PROOF_H
#define TUG_CLUSTER_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "van/mac.h"
#include "van/van.h"

// The owner of a session.
struct proof_of {
    uint64_t session;
    uint32_t node;
    uint8_t role; // role with which the node joined: enum wire_role
};

// Each of the following functions returns false if memory is out.
bool proof_secret(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                  const struct proof_of *whose, const uint8_t certificate[MAC_BYTES]);
bool proof_hello(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                 const struct van_trust *link);
bool proof_welcome(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                   const struct van_trust *link);

// Returns whether HELLO's proof is that of the session's member. If so, *ret_secret is
// the member's secret.
bool proof_check(uint8_t ret_secret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                 const struct proof_of *whose, const struct van_trust *link,
                 struct wire_text proof);

// Computes the number by which other nodes know a process. The number with which
// the process joined (`process`) is known only to the process and the scheduler, and is
// in the heartbeats. So no other process can send heartbeats in the name of that process.
// Returns false if mac fails.
bool proof_process(uint64_t *ret, const uint8_t key[MAC_BYTES], uint64_t process);

// Returns whether a peer whose link has the role `link` may act as a node of `role`.
bool proof_role_fits(enum wire_role role, enum wire_role link);

#endif
