// The messages and proofs of a link's handshake (handshake.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "van/handshake.h"

#include <stdio.h>
#include <string.h>

static const uint8_t zeros[MAC_BYTES];

static struct wire_text handshake_bytes_of(const uint8_t bytes[MAC_BYTES])
{
    return (struct wire_text){(const char *)bytes, MAC_BYTES};
}

// Computes the proof of one end, which `what` names. Returns false if mac fails.
static bool prove(const struct handshake *h, const char *what, uint8_t ret[MAC_BYTES])
{
    const uint8_t role = (uint8_t)h->role, token = h->token;
    const struct mac_part parts[] = {
        {&role, sizeof(role)},
        {&token, sizeof(token)},
        {h->dialler, MAC_BYTES},
        {h->listener, MAC_BYTES},
        {h->address, strlen(h->address)},
        {h->name, strlen(h->name)},
    };
    return mac(ret, h->key, what, parts, sizeof(parts) / sizeof(*parts));
}

static bool prove_listener(const struct handshake *h, uint8_t ret[MAC_BYTES])
{
    return prove(h, "tug 2: who listens", ret);
}

static bool prove_dialler(const struct handshake *h, uint8_t ret[MAC_BYTES])
{
    return prove(h, "tug 2: who knocks", ret);
}

static int no_random(struct err *e)
{
    return err_set(e, TUG_EIO, "the system provides no random numbers");
}

static int no_memory(struct err *e)
{
    return err_nomem(e, "a proof");
}

static bool handshake_keep(char to[VAN_ADDRESS_MAX], struct wire_text text)
{
    if (text.n >= VAN_ADDRESS_MAX || memchr(text.data, 0, text.n) != NULL)
        return false;
    memcpy(to, text.data, text.n);
    to[text.n] = 0;
    return true;
}

// ---------------------------------------------------------------- the dialler

int handshake_knock(struct handshake *h, const struct prover *p,
                    const struct handshake_link *l, struct msg_knock *ret, struct err *e)
{
    *h = (struct handshake){.prover = p, .link = *l, .role = p->role};
    memcpy(h->address, l->address, sizeof(h->address));
    memcpy(h->name, l->name, sizeof(h->name));
    if (!l->believed) {
        h->token = p->token(p->ctx, &h->role, h->key, &h->lacks) == 0;
        if (!h->token)
            h->role = p->role;
    }
    if (!p->random(p->ctx, h->dialler))
        return no_random(e);
    *ret = (struct msg_knock){
        .role = (uint8_t)h->role,
        .token = h->token,
        .nonce = handshake_bytes_of(h->dialler),
        .address = wire_text(h->address),
        .name = wire_text(h->name),
    };
    return 0;
}

int handshake_challenged(struct handshake *h, const struct msg_challenge *m,
                         struct msg_proof *ret, struct err *e)
{
    uint8_t theirs[MAC_BYTES];
    if (m->nonce.n != MAC_BYTES || mac_same(m->nonce.data, m->nonce.n, h->dialler))
        return err_set(e, TUG_EUSAGE, "its answer is not from tug");
    if (!m->token && !h->link.believed && !h->prover->insecure)
        return err_set(e, TUG_EUSAGE,
                       "the process that listens there does not prove the cluster's "
                       "token: it is another program, or runs with --insecure");
    if (m->token && !h->token)
        return err_set(
            e, TUG_EUSAGE,
            "it requires the cluster's token, which this node has not proven to know");
    memcpy(h->listener, m->nonce.data, MAC_BYTES);
    h->token = m->token != 0;
    *ret = (struct msg_proof){.proof = {NULL, 0}};
    if (!h->token)
        return 0;
    if (!prove_listener(h, theirs) || !prove_dialler(h, h->answer))
        return no_memory(e);
    if (!mac_same(m->proof.data, m->proof.n, theirs))
        return err_set(e, TUG_EUSAGE,
                       "the process that listens there does not know the cluster's "
                       "token: it is another program, or belongs to another cluster");
    ret->proof = handshake_bytes_of(h->answer);
    return 0;
}

void handshake_refused(const struct handshake *h, const struct msg_error *m,
                       struct err *e)
{
    char said[ERR_TEXT_MAX / 2];
    err_set(e, TUG_EUSAGE, "%s", wire_reason(m->what, said, sizeof(said)));
    if (h->lacks.code != 0)
        err_add(e, "; %s", h->lacks.text);
}

// ---------------------------------------------------------------- the listener

static int check_knock(struct handshake *h, const struct msg_knock *m, struct err *e)
{
    enum wire_from right = wire_right((enum wire_role)m->role);
    if (m->nonce.n != MAC_BYTES || !handshake_keep(h->address, m->address) ||
        !handshake_keep(h->name, m->name))
        return err_set(e, TUG_EUSAGE, "its first message is not from tug");
    if (right == WIRE_FROM_KNOCK)
        return err_set(e, TUG_EUSAGE,
                       "a link cannot have the role %u, which does not exist", m->role);
    h->role = (enum wire_role)m->role;
    memcpy(h->dialler, m->nonce.data, MAC_BYTES);
    return 0;
}

// Returns whether the proof is for this node's address. A proof for another address was
// made for another listener; accepting it would let a stranger between the two ends
// impersonate both. Every address that this node gives to others counts as its own,
// whether a peer dials it by name or by number.
static bool is_address(const struct handshake *h)
{
    const char *told = h->link.name;
    return strcmp(h->address, h->link.address) == 0 ||
           (told[0] != 0 &&
            (strcmp(h->name, told) == 0 || strcmp(h->address, told) == 0));
}

static int need_token(struct handshake *h, const struct msg_knock *m, struct err *e)
{
    const struct prover *p = h->prover;
    enum wire_role role = h->role;
    if (!m->token)
        return p->insecure
                   ? 0
                   : err_set(e, TUG_EUSAGE, "this node requires the cluster's token");
    int rc = p->token(p->ctx, &role, h->key, e);
    if (rc == 0 && role != h->role)
        rc = err_set(e, TUG_EUSAGE, "this node has no token of the role %s",
                     wire_role_name(h->role));
    if (rc != 0)
        return p->insecure ? 0 : rc;
    if (!is_address(h))
        return err_set(e, TUG_EUSAGE,
                       "it dialled %.100s, but this node listens on %.100s: if a proxy "
                       "is in between, the node needs certificates or --advertise",
                       h->address, h->link.address);
    h->token = true;
    return 0;
}

int handshake_knocked(struct handshake *h, const struct prover *p,
                      const struct handshake_link *l, const struct msg_knock *m,
                      struct msg_challenge *ret, struct err *e)
{
    *h = (struct handshake){.prover = p, .link = *l};
    TRY(check_knock(h, m, e));
    if (!l->believed)
        TRY(need_token(h, m, e));
    if (!p->random(p->ctx, h->listener) || mac_same(h->dialler, MAC_BYTES, h->listener))
        return no_random(e);
    *ret = (struct msg_challenge){.token = h->token,
                                  .nonce = handshake_bytes_of(h->listener)};
    if (!h->token)
        return 0;
    if (!prove_listener(h, h->answer))
        return no_memory(e);
    ret->proof = handshake_bytes_of(h->answer);
    return 0;
}

int handshake_proven(struct handshake *h, const struct msg_proof *m, struct err *e)
{
    uint8_t theirs[MAC_BYTES];
    if (!h->token)
        return 0;
    if (!prove_dialler(h, theirs))
        return no_memory(e);
    if (!mac_same(m->proof.data, m->proof.n, theirs))
        return err_set(
            e, TUG_EUSAGE,
            "the connecting process does not know the cluster's token for the role %s",
            wire_role_name(h->role));
    return 0;
}

// ---------------------------------------------------------------- the result

static enum wire_role lesser(enum wire_role a, enum wire_role b)
{
    return wire_right(a) <= wire_right(b) ? a : b;
}

void handshake_end(struct handshake *h, bool accepted, struct van_trust *ret)
{
    *ret = (struct van_trust){.role = WIRE_OPERATOR};
    if (h->link.believed)
        ret->role = accepted ? lesser(h->role, h->link.role) : h->link.role;
    else if (accepted)
        ret->role = h->role;
    memcpy(ret->certificate, h->link.certificate, MAC_BYTES);
    memcpy(h->key, h->link.channel, MAC_BYTES);
    (void)prove(h, "tug 2: the link", ret->binding);
    memcpy(h->key, zeros, MAC_BYTES);
}
