// The handshake of a link, after TLS's own handshake: both ends prove that they belong to
// the cluster before any other message is read. No I/O happens here, so that tests can
// feed any messages.
//
//   dialler                      listener
//   KNOCK  role, nonce    ->
//                         <-     CHALLENGE  nonce, proof
//   PROOF  proof          ->
//
// An end that is already trusted (by its certificate, or by the user at the other end of
// a Unix socket) sends no proof; its nonce is still a part of the link's binding. Other
// ends prove that they know the token of the role: HMAC-SHA256 over the name of the end
// (dialler or listener), the role, both nonces, and the address that the dialler has
// connected to. The token itself is never sent. A proof is valid for one link, one
// direction and one listener. So a program that has taken over the listener's port can
// neither use a proof on another link nor send it back to the dialler.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_HANDSHAKE_H
#define TUG_VAN_HANDSHAKE_H

#include "van/mac.h"
#include "van/van.h"

// The settings for the proofs that a node gives to other nodes and requires from them.
struct prover {
    enum wire_role role; // the role that this node claims when it dials
    bool insecure;       // whether peers without a token are accepted
    // Gets the newest token for `*role`. If the node has only a token of a role with
    // fewer rights, gets that token and sets *role to its role. TUG_EIO if no token was
    // found.
    int (*token)(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e);
    bool (*random)(void *ctx, uint8_t ret[MAC_BYTES]);
    void *ctx;
};

// Facts about a link that the van knows before the handshake.
struct handshake_link {
    // Whether the link itself proves the peer's identity: by TLS, or as a Unix socket
    // whose other end belongs to this user.
    bool believed;
    // If `believed`: the role with the most rights that the peer may have.
    enum wire_role role;
    uint8_t certificate[MAC_BYTES]; // fingerprint of the peer's certificate; zeros: none
    // On a TLS link: a value that is the same at both ends and different on each link.
    uint8_t channel[MAC_BYTES];
    char address[VAN_ADDRESS_MAX]; // numeric address of the listening socket
    // On a dialled link: the address that was dialled. On an accepted link: an additional
    // address by which peers reach the listener (behind a proxy or NAT); empty: none.
    char name[VAN_ADDRESS_MAX];
};

struct handshake {
    const struct prover *prover;
    struct handshake_link link;
    bool token; // whether the ends of this link prove that they know a token
    enum wire_role role;
    // The token's key, and the nonces of both ends.
    uint8_t key[MAC_BYTES], dialler[MAC_BYTES], listener[MAC_BYTES];
    char address[VAN_ADDRESS_MAX], name[VAN_ADDRESS_MAX]; // addresses as in KNOCK
    // The reason why the node has no token; code 0: it has one or needs none.
    struct err lacks;
    uint8_t answer[MAC_BYTES]; // the proof that CHALLENGE or PROOF points at
};

// Begins the handshake as the dialler. A dialler without a token also sends KNOCK, and
// the listener answers which token is missing. Returns TUG_EIO if the system gives no
// random numbers. *ret, and the messages of the functions below, point into *h.
int handshake_knock(struct handshake *h, const struct prover *p,
                    const struct handshake_link *l, struct msg_knock *ret, struct err *e);
// Answers KNOCK as the listener. Returns TUG_EUSAGE if the dialler is refused; *e has the
// reason.
int handshake_knocked(struct handshake *h, const struct prover *p,
                      const struct handshake_link *l, const struct msg_knock *m,
                      struct msg_challenge *ret, struct err *e);
// Checks CHALLENGE and answers it as the dialler. Returns TUG_EUSAGE if the listener's
// proof is wrong or missing.
int handshake_challenged(struct handshake *h, const struct msg_challenge *m,
                         struct msg_proof *ret, struct err *e);
// Explains in *e an error that the peer sent instead of an answer.
void handshake_refused(const struct handshake *h, const struct msg_error *m,
                       struct err *e);
int handshake_proven(struct handshake *h, const struct msg_proof *m, struct err *e);

// Returns the peer's identity, and wipes the key in *h. `accepted` is true on the
// listener's end.
void handshake_end(struct handshake *h, bool accepted, struct van_trust *ret);

#endif
