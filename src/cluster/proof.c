// Proofs of sessions: see proof.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/proof.h"

#include <string.h>

bool proof_secret(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                  const struct proof_of *whose, const uint8_t certificate[MAC_BYTES])
{
    const struct mac_part parts[] = {
        {&whose->session, sizeof(whose->session)},
        {&whose->node, sizeof(whose->node)},
        {&whose->role, sizeof(whose->role)},
        {certificate, MAC_BYTES},
    };
    return mac(ret, key, "tug 2: session", parts, 4);
}

static bool over_link(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                      const char *what, const struct van_trust *link)
{
    const struct mac_part part = {link->binding, MAC_BYTES};
    return mac(ret, secret, what, &part, 1);
}

bool proof_hello(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                 const struct van_trust *link)
{
    return over_link(ret, secret, "tug 2: hello", link);
}

bool proof_welcome(uint8_t ret[MAC_BYTES], const uint8_t secret[MAC_BYTES],
                   const struct van_trust *link)
{
    return over_link(ret, secret, "tug 2: welcome", link);
}

static bool is_of(uint8_t ret_secret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                  const struct proof_of *whose, const uint8_t certificate[MAC_BYTES],
                  const struct van_trust *link, struct wire_text proof)
{
    uint8_t right[MAC_BYTES];
    return proof_secret(ret_secret, key, whose, certificate) &&
           proof_hello(right, ret_secret, link) && mac_same(proof.data, proof.n, right);
}

// Tries the secret of a member with the link's certificate, then the secret of a member
// without one: a member that reached the scheduler over a Unix socket, without TLS, has
// shown the scheduler no certificate, even if it reaches this server with TLS.
bool proof_check(uint8_t ret_secret[MAC_BYTES], const uint8_t key[MAC_BYTES],
                 const struct proof_of *whose, const struct van_trust *link,
                 struct wire_text proof)
{
    static const uint8_t none[MAC_BYTES];
    return is_of(ret_secret, key, whose, link->certificate, link, proof) ||
           is_of(ret_secret, key, whose, none, link, proof);
}

bool proof_process(uint64_t *ret, const uint8_t key[MAC_BYTES], uint64_t process)
{
    const struct mac_part part = {&process, sizeof(process)};
    uint8_t number[MAC_BYTES];
    bool ok = mac(number, key, "tug 2: process", &part, 1);
    memcpy(ret, number, sizeof(*ret));
    return ok;
}

bool proof_role_fits(enum wire_role role, enum wire_role link)
{
    enum wire_role needed = role;
    if (role == WIRE_NOBODY ||
        role == WIRE_DRIVER) // the scheduler checks each operation of a driver
        needed = WIRE_TOOL;
    return wire_right(needed) != WIRE_FROM_KNOCK &&
           wire_right(needed) <= wire_right(link);
}
