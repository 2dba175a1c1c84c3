// The handshake of a link: both ends show that they belong to the cluster before anything
// else is read. No I/O happens here, so any messages can be tried.
//
//   who opened the link          who listens
//   KNOCK  role, nonce    ->
//                         <-     CHALLENGE  nonce, proof
//   PROOF  proof          ->
//
// Who is believed for another reason (its certificate, the user at the other end of a
// Unix socket) proves nothing here; the nonces make the link's binding all the same. The
// others show that they know the token of the role: HMAC-SHA256 over who speaks, the
// role, both nonces, and the address that the dialler has connected to. The token itself
// is never sent, and a proof is good for one link, one direction and one listener: a
// stranger who took the port can neither pass a proof on nor send it back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_HANDSHAKE_H
#define TUG_VAN_HANDSHAKE_H

#include "van/mac.h"
#include "van/van.h"

// What a node shows of itself and asks of others.
struct prover {
    enum wire_role role; // as what it knocks
    bool insecure;       // who knows no token is let in, too
    // The newest token of `*role`, or, where the node has only one of less, of that:
    // *role then says which. TUG_EIO: there is none, where it was looked for.
    int (*token)(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e);
    bool (*random)(void *ctx, uint8_t ret[MAC_BYTES]);
    void *ctx;
};

// What is known of the link without a handshake.
struct handshake_link {
    bool believed;       // TLS, or a Unix socket of the same user
    enum wire_role role; // of who is believed: what the other end may be at most
    uint8_t certificate[MAC_BYTES]; // fingerprint of the other end's; zeros: it has none
    uint8_t channel[MAC_BYTES];     // of TLS: the same at both ends and on no other link
    char address[VAN_ADDRESS_MAX];  // of the listening socket, as numbers
    // That it was dialled by. Of an accepted link: under which others know the listener,
    // apart from where it listens (a proxy, NAT); empty: none.
    char name[VAN_ADDRESS_MAX];
};

struct handshake {
    const struct prover *prover;
    struct handshake_link link;
    bool token; // it is shown on this link
    enum wire_role role;
    uint8_t key[MAC_BYTES], dialler[MAC_BYTES], listener[MAC_BYTES]; // the nonces
    char address[VAN_ADDRESS_MAX], name[VAN_ADDRESS_MAX];            // as in KNOCK
    struct err lacks; // why it has no token to show; code 0: it has, or needs none
    uint8_t answer[MAC_BYTES]; // CHALLENGE's or PROOF's: what the message points at
};

// Who lacks a token knocks all the same, and is told what for. TUG_EIO: there are no
// random numbers. Messages point into *h.
int handshake_knock(struct handshake *h, const struct prover *p,
                    const struct handshake_link *l, struct msg_knock *ret, struct err *e);
// TUG_EUSAGE: the other end is not let in, for this reason.
int handshake_knocked(struct handshake *h, const struct prover *p,
                      const struct handshake_link *l, const struct msg_knock *m,
                      struct msg_challenge *ret, struct err *e);
// TUG_EUSAGE: who listens there is not believed.
int handshake_challenged(struct handshake *h, const struct msg_challenge *m,
                         struct msg_proof *ret, struct err *e);
// The other end has answered with an error instead: *e says what it means.
void handshake_refused(const struct handshake *h, const struct msg_error *m,
                       struct err *e);
int handshake_proven(struct handshake *h, const struct msg_proof *m, struct err *e);

// What came of it; `accepted`: as the listener sees it. *h forgets the key.
void handshake_end(struct handshake *h, bool accepted, struct van_trust *ret);

#endif
