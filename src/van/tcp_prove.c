// The handshake on a link of the tcp van: passes the facts about the socket to the
// functions of handshake.h, and sends the messages that they make.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "van/tcp_internal.h"

// The longest message of a peer that has not proven its role: a knock, or an error.
enum { UNPROVEN_BYTES = 8 << 10 };

static void numbers_of(const struct tcp_link *l, char ret[VAN_ADDRESS_MAX])
{
    struct sockaddr_storage s;
    int n = sizeof(s);
    struct sockaddr *to = (struct sockaddr *)&s;
    int rc = l->accepted ? uv_tcp_getsockname(&l->stream->tcp, to, &n)
                         : uv_tcp_getpeername(&l->stream->tcp, to, &n);
    ret[0] = 0;
    if (rc == 0)
        tcp_address_of(ret, &s);
}

static int tcp_prove_look(const struct tcp_link *l, struct handshake_link *ret,
                          struct err *e)
{
    bool is_unix = l->stream->handle.type == UV_NAMED_PIPE;
    bool believed = l->kind == VAN_OWNER || l->kind == VAN_TLS;
    *ret = (struct handshake_link){.believed = believed, .role = WIRE_OPERATOR};
    snprintf(ret->name, sizeof(ret->name), "%s",
             l->accepted ? l->van->known_as : l->peer);
    if (!is_unix)
        numbers_of(l, ret->address);
    return l->tls != NULL
               ? tls_session_peer(l->tls, &ret->role, ret->certificate, ret->channel, e)
               : 0;
}

static void tcp_prove_forget(struct tcp_link *l)
{
    if (l->handshake != NULL)
        explicit_bzero(l->handshake, sizeof(*l->handshake));
    mem_free(l->handshake);
    l->handshake = NULL;
}

void tcp_prove_free(struct tcp_link *l)
{
    tcp_prove_forget(l);
}

static void note_refusal(const struct tcp_link *l, const struct err *why)
{
    const struct tcp_van *v = l->van;
    struct err e;
    err_set(&e, TUG_EIO, "%s: %s", l->peer, why->text);
    if (v->handler.refused != NULL && !v->freeing)
        v->handler.refused(v->handler.ctx, &e, v->now);
}

// Refuses a peer: sends it the reason, passes the reason to the handler, and closes the
// link.
static void turn_away(struct tcp_link *l, const struct err *why)
{
    struct msg_error m = wire_error(why);
    note_refusal(l, why);
    tcp_link_say(l, MSG_ERROR, &m);
    tcp_close_link(&l->van->base, l->number);
}

static void succeeded(struct tcp_link *l)
{
    struct err e;
    handshake_end(l->handshake, l->accepted, &l->trust);
    tcp_prove_forget(l);
    if (tcp_limits_admit(l, l->trust.role, true, &e) == 0) {
        tcp_link_open(l);
        return;
    }
    // For the peer, the link is already open. An error message on the link would end the
    // peer's node instead of failing one attempt, so the link is only closed.
    note_refusal(l, &e);
    tcp_close_link(&l->van->base, l->number);
}

static void knock(struct tcp_link *l, const struct handshake_link *look)
{
    struct err e;
    struct msg_knock m;
    if (handshake_knock(l->handshake, l->van->options.prover, look, &m, &e) != 0)
        tcp_dial_unproven(l, &e);
    else
        tcp_link_say(l, MSG_KNOCK, &m);
}

void tcp_prove_begin(struct tcp_link *l)
{
    struct err e;
    struct handshake_link link;
    if (l->van->options.prover == NULL) {
        tcp_link_open(l);
        return;
    }
    tcp_prove_forget(l);
    tcp_link_becomes(l, LINK_PROVING);
    l->handshake = mem_zalloc(sizeof(*l->handshake));
    int rc = l->handshake != NULL ? tcp_prove_look(l, &link, &e)
                                  : err_nomem(&e, "a handshake");
    if (rc != 0 && l->dial != NULL) {
        tcp_dial_failed(l, &e, true);
    } else if (rc != 0) {
        tcp_link_fail(l, &e);
    } else {
        tcp_link_begin_frames(l, UNPROVEN_BYTES);
        if (!l->accepted)
            knock(l, &link);
    }
}

static void knocked(struct tcp_link *l, const struct msg_knock *m)
{
    struct err e;
    struct msg_challenge answer;
    struct handshake_link link;
    int rc = tcp_prove_look(l, &link, &e);
    if (rc == 0)
        rc = handshake_knocked(l->handshake, l->van->options.prover, &link, m, &answer,
                               &e);
    // If the listener has no room, the peer gets the error now, while it can still try
    // again.
    if (rc == 0)
        rc = tcp_limits_admit(l, l->handshake->role, false, &e);
    l->knocked = rc == 0;
    if (rc == 0)
        tcp_link_say(l, MSG_CHALLENGE, &answer);
    else
        turn_away(l, &e);
}

static void proven(struct tcp_link *l, const struct msg_proof *m)
{
    struct err e;
    if (handshake_proven(l->handshake, m, &e) == 0)
        succeeded(l);
    else
        turn_away(l, &e);
}

static void challenged(struct tcp_link *l, const struct msg_challenge *m)
{
    struct err e;
    struct msg_proof answer;
    if (handshake_challenged(l->handshake, m, &answer, &e) != 0) {
        tcp_dial_unproven(l, &e);
        return;
    }
    tcp_link_say(l, MSG_PROOF, &answer);
    if (l->state == LINK_PROVING)
        succeeded(l);
}

static void tcp_prove_refused(struct tcp_link *l, const struct msg_error *m)
{
    struct err e;
    handshake_refused(l->handshake, m, &e);
    if (wire_code(m->code) != TUG_EIO) {
        tcp_dial_unproven(l, &e);
        return;
    }
    // The listener has no room now. With this code the dialler tries again, as if no
    // process listened at the address.
    e.code = TUG_EIO;
    tcp_dial_failed(l, &e, false);
}

static void unexpected(struct tcp_link *l, uint16_t type)
{
    struct err e;
    err_set(&e, TUG_EUSAGE, "%s came before the handshake was over",
            wire_name(type) != NULL ? wire_name(type) : "a message");
    if (l->dial != NULL)
        tcp_dial_unproven(l, &e);
    else
        turn_away(l, &e);
}

void tcp_prove_message(struct tcp_link *l, const struct van_message *m)
{
    if (l->accepted && m->type == MSG_KNOCK && !l->knocked)
        knocked(l, &m->m->knock);
    else if (l->accepted && m->type == MSG_PROOF && l->knocked)
        proven(l, &m->m->proof);
    else if (!l->accepted && m->type == MSG_CHALLENGE)
        challenged(l, &m->m->challenge);
    else if (!l->accepted && m->type == MSG_ERROR)
        tcp_prove_refused(l, &m->m->error);
    else
        unexpected(l, m->type);
}
