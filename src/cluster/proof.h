// Proofs of sessions: a link speaks for a session only when it shows that the scheduler
// gave it that session.
//
// The scheduler has a key of its own, which it gives to servers and to nobody else. It
// makes each member's secret, over its session, node, role and the certificate that it
// has shown the scheduler (zeros: none); the member gets it with JOINED. In HELLO and
// WELCOME both ends show that they know that secret: over the binding of the link, so
// that what was shown on one link is worth nothing on another.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_PROOF_H
#define TUG_CLUSTER_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "van/mac.h"
#include "van/van.h"

// The owner of the session.
struct proof_of {
    uint64_t session;
    uint32_t node;
    uint8_t role; // enum wire_role, as it joined
};

// All false: out of memory.
bool proof_secret(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                  const struct proof_of *whose, const uint8_t certificate[MAC_BYTES]);
bool proof_hello(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                 const struct van_trust *link);
bool proof_welcome(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                   const struct van_trust *link);

// Whether HELLO's proof is that of the session's member; then *ret_secret is its secret.
bool proof_check(uint8_t ret_secret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                 const struct proof_of *whose, const struct van_trust *link,
                 struct wire_text proof);

// The number by which others know a process. The one with which it joined stays between
// it and the scheduler: heartbeats show it, so nobody else can send those of the process.
bool proof_process(uint64_t *ret, const uint8_t key[MAC_BYTES], uint64_t process);

// Whether a link of one that was let in as `link` may be that of a node of this role.
bool proof_role_fits(enum wire_role role, enum wire_role link);

#endif
