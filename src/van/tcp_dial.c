// Connecting: looks up names and tries each address, repeatedly, with growing pauses,
// until one works or the time is over.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "van/tcp_internal.h"

#define PAUSE_MIN (SECOND_NS / 500)
#define PAUSE_MAX SECOND_NS
// The longest pause for a list of several machines, one of which takes over when another
// fails.
#define PAUSE_LIST_MAX (SECOND_NS / 4)
#define ATTEMPT_MIN SECOND_NS // the time for one address while other addresses wait
// The time for one address in a list of several machines, some of which may be down.
#define ATTEMPT_MAX (3 * SECOND_NS)

// The lookup of a name; it may outlive the link.
struct tcp_lookup {
    uv_getaddrinfo_t req;
    struct tcp_link *link;
};

void tcp_dial_free(struct tcp_link *l)
{
    if (l->dial == NULL)
        return;
    if (l->dial->lookup != NULL) {
        l->dial->lookup->link = NULL;
        uv_cancel((uv_req_t *)&l->dial->lookup->req);
    }
    mem_free(l->dial);
    l->dial = NULL;
}

int tcp_plain_allowed(const struct tcp_van *v, const struct sockaddr_storage *s,
                      const char *what, struct err *e)
{
    if (v->options.tls != NULL || v->options.insecure || tcp_address_is_loopback(s))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s is not a loopback address: give certificates (tug cert makes "
                   "them), or --insecure (to a program: TUG_INSECURE=1)",
                   what);
}

static void give_up(struct tcp_link *l, const struct err *why)
{
    struct tcp_dial *d = l->dial;
    struct err e;
    double tried = (double)(clock_ns() - d->began) / (double)SECOND_NS;
    bool final = why->code == TUG_EUSAGE || why->code == TUG_EDATA;
    int code = final ? why->code : TUG_EIO;
    // If the reason begins with the address, the error does not name the address again.
    bool named = strncmp(why->text, d->list, strlen(d->list)) == 0;
    char tries[64] = "";
    if (d->tries > 0)
        snprintf(tries, sizeof(tries), "; %u %s in the last %.1f s", d->tries,
                 d->tries == 1 ? "try" : "tries", tried);
    err_set(&e, code, "cannot connect%s%s: %s%s", named ? "" : " to ",
            named ? "" : d->list, why->text, tries);
    tcp_link_fail(l, &e);
}

// Takes the next address of the list; after the last address, takes the first one.
static int take_address(struct tcp_link *l, struct err *e)
{
    struct tcp_dial *d = l->dial;
    if (d->rest == NULL || *d->rest == '\0')
        d->rest = d->list;
    size_t n = strcspn(d->rest, ",");
    snprintf(l->peer, sizeof(l->peer), "%.*s", (int)n, d->rest);
    d->rest += n + (d->rest[n] == ',');
    d->n_found = d->next = 0;
    return tcp_address_read(&d->address, l->peer, e);
}

// Returns the pause before the next attempt: a quarter of the time since the dial began
// (or since the token was first refused), so that a listener that starts late, or writes
// its token late, is soon found.
static uint64_t pause_of(const struct tcp_dial *d, uint64_t now)
{
    uint64_t since = d->unproven_since != 0 ? d->unproven_since : d->began;
    uint64_t pause = (now - since) / 4;
    pause = pause < PAUSE_MIN ? PAUSE_MIN : pause;
    uint64_t most = d->machines > 1 ? PAUSE_LIST_MAX : PAUSE_MAX;
    return pause < most ? pause : most;
}

void tcp_dial_failed(struct tcp_link *l, const struct err *why, bool final)
{
    struct tcp_dial *d = l->dial;
    uint64_t now = clock_ns();
    tcp_link_disconnect(l);
    tls_session_close(l->tls);
    l->tls = NULL;
    bool last = *d->rest == '\0'; // whether this was the last address of the list
    if ((final && last) || now >= d->deadline) {
        give_up(l, why);
        return;
    }
    l->why = *why;
    tcp_link_becomes(l, LINK_WAITING);
    bool more = !final && d->next < d->n_found;
    if (!more)
        // This cannot fail, because all addresses were checked at the start.
        (void)take_address(l, NULL);
    if (more || !last) {
        tcp_link_due_at(l, now);
        return;
    }
    uint64_t pause = pause_of(d, now);
    tcp_link_due_at(l, pause < d->deadline - now ? now + pause : d->deadline);
}

void tcp_dial_unproven(struct tcp_link *l, struct err *why)
{
    struct tcp_dial *d = l->dial;
    uint64_t now = clock_ns();
    if (d->unproven_since == 0) {
        d->unproven_since = now;
        d->unproven_rest = d->rest;
    }
    bool final = now - d->unproven_since >= l->van->options.token_timeout_ns;
    why->code = final ? TUG_EUSAGE : TUG_EIO;
    tcp_dial_failed(l, why, final);
}

static void tcp_link_failed(struct tcp_link *l, int status)
{
    struct err e;
    const char *hint = "";
    // The listener that refused the token has ended. So the time in which the token must
    // become valid begins again with the next listener.
    if (l->dial->unproven_rest == l->dial->rest)
        l->dial->unproven_since = 0;
    if (status == UV_ECONNREFUSED)
        hint = " (is the node running, and is this its port?)";
    else if (status == UV_ETIMEDOUT)
        hint = " (a firewall, or a wrong address?)";
    else if (status == UV_ENOENT && l->dial->address.is_unix)
        hint = " (there is no such socket: is the node running?)";
    err_set(&e, TUG_EIO, "%s%s", uv_strerror(status), hint);
    err_limit(&e, status);
    tcp_dial_failed(l, &e, false);
}

static void connected(uv_connect_t *req, int status)
{
    struct tcp_link *l = ((struct tcp_stream *)req->data)->link;
    if (l == NULL)
        return;
    if (status == 0)
        tcp_link_connected(l);
    else
        tcp_link_failed(l, status);
}

// Returns the time at which this attempt must end: the time limit of the whole dial, or
// earlier if other addresses wait.
static uint64_t attempt_until(const struct tcp_dial *d)
{
    uint64_t now = clock_ns(), left = d->deadline > now ? d->deadline - now : 0;
    uint32_t waiting = d->n_found - d->next;
    uint64_t mine = left / (waiting + 1);
    if (waiting > 0 && mine < ATTEMPT_MIN)
        mine = ATTEMPT_MIN < left ? ATTEMPT_MIN : left;
    if (d->machines > 1) { // the next machine must be tried before the deadline
        uint64_t share = left / d->machines;
        share = share < ATTEMPT_MIN ? ATTEMPT_MIN : share;
        mine = mine > share ? share : mine;
        mine = mine > ATTEMPT_MAX ? ATTEMPT_MAX : mine;
    }
    return now + mine;
}

static bool open_stream(struct tcp_link *l)
{
    struct err e;
    l->stream = tcp_stream_new(l->van, l->dial->address.is_unix);
    if (l->stream == NULL) {
        err_nomem(&e, "a socket");
        tcp_dial_failed(l, &e, true);
        return false;
    }
    l->stream->link = l;
    l->stream->connect.data = l->stream;
    tcp_link_becomes(l, LINK_CONNECTING);
    return true;
}

static void try_unix(struct tcp_link *l)
{
    l->dial->tries++;
    tcp_link_due_at(l, l->dial->deadline);
    if (open_stream(l))
        uv_pipe_connect(&l->stream->connect, &l->stream->pipe, l->dial->address.host,
                        connected);
}

static void try_next(struct tcp_link *l)
{
    struct tcp_dial *d = l->dial;
    const struct sockaddr_storage *s = &d->found[d->next++];
    struct err e;
    if (tcp_plain_allowed(l->van, s, l->peer, &e) != 0) {
        tcp_dial_failed(l, &e, true);
        return;
    }
    d->tries++;
    tcp_link_due_at(l, attempt_until(d));
    if (!open_stream(l))
        return;
    int rc = uv_tcp_connect(&l->stream->connect, &l->stream->tcp,
                            (const struct sockaddr *)s, connected);
    if (rc != 0)
        tcp_link_failed(l, rc);
}

static void keep_found(struct tcp_dial *d, const struct addrinfo *list)
{
    uint32_t max = sizeof(d->found) / sizeof(d->found[0]);
    d->n_found = d->next = 0;
    for (const struct addrinfo *a = list; a != NULL && d->n_found < max; a = a->ai_next) {
        if (a->ai_addrlen > sizeof(d->found[0]))
            continue;
        memcpy(&d->found[d->n_found], a->ai_addr, a->ai_addrlen);
        tcp_address_set_port(&d->found[d->n_found++], d->address.port);
    }
}

static void unknown_name(struct tcp_link *l, const char *why)
{
    struct err e;
    l->dial->tries++;
    l->dial->n_found = l->dial->next = 0;
    err_set(&e, TUG_EIO, "the name %s is not known: %s", l->dial->address.host, why);
    tcp_dial_failed(l, &e, false);
}

static void looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct tcp_lookup *lookup = req->data;
    struct tcp_link *l = lookup->link;
    mem_free(lookup);
    if (l != NULL) {
        l->dial->lookup = NULL;
        l->van->events++;
        if (status == 0)
            keep_found(l->dial, list);
        if (status != 0)
            unknown_name(l, uv_strerror(status));
        else if (l->dial->n_found == 0)
            unknown_name(l, "it has no address");
        else
            try_next(l);
    }
    uv_freeaddrinfo(list);
}

static void look_up(struct tcp_link *l)
{
    struct tcp_dial *d = l->dial;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    tcp_link_becomes(l, LINK_RESOLVING);
    tcp_link_due_at(l, d->deadline);
    d->lookup = mem_zalloc(sizeof(*d->lookup));
    int rc = UV_ENOMEM;
    if (d->lookup != NULL) {
        d->lookup->link = l;
        d->lookup->req.data = d->lookup;
        rc = uv_getaddrinfo(&l->van->loop, &d->lookup->req, looked_up, d->address.host,
                            NULL, &hints);
    }
    if (rc != 0) {
        mem_free(d->lookup);
        d->lookup = NULL;
        unknown_name(l, uv_strerror(rc));
    }
}

static void attempt(struct tcp_link *l)
{
    struct tcp_dial *d = l->dial;
    if (d->address.is_unix) {
        try_unix(l);
    } else if (d->next < d->n_found) {
        try_next(l);
    } else if (tcp_address_number(&d->address, &d->found[0])) {
        d->n_found = 1;
        d->next = 0;
        try_next(l);
    } else {
        look_up(l);
    }
}

static void tcp_dial_cut(struct tcp_link *l)
{
    struct tcp_dial *d = l->dial;
    struct err e;
    if (l->state == LINK_RESOLVING) {
        d->lookup->link = NULL;
        uv_cancel((uv_req_t *)&d->lookup->req);
        d->lookup = NULL;
        err_set(&e, TUG_EIO, "the name %s is not known: no answer from the name server",
                d->address.host);
    } else if (l->state == LINK_PROVING) {
        err_set(&e, TUG_EIO,
                "it accepts the connection but does not answer: does a tug node listen "
                "there?");
    } else if (l->state == LINK_SHAKING) {
        err_set(&e, TUG_EIO,
                "it accepts the connection, but the TLS handshake did not end: does a "
                "tug node with certificates listen there?");
    } else {
        err_set(&e, TUG_EIO, "no answer (a firewall, or a wrong address?)");
    }
    tcp_dial_failed(l, &e, false);
}

void tcp_dial_due(struct tcp_link *l)
{
    struct tcp_dial *d = l->dial;
    if (l->state != LINK_WAITING) {
        tcp_dial_cut(l);
    } else if (d->tries > 0 && clock_ns() >= d->deadline) {
        struct err why = l->why;
        give_up(l, &why);
    } else {
        attempt(l);
    }
}

// Checks all addresses of the list and takes the first.
static int take_all(struct tcp_link *l, struct err *e)
{
    do {
        TRY(take_address(l, e));
        l->dial->machines += !l->dial->address.is_unix;
    } while (*l->dial->rest != '\0');
    return take_address(l, e);
}

van_link tcp_connect(struct van *base, const char *address, uint64_t timeout_ns)
{
    struct tcp_van *v = (struct tcp_van *)base;
    struct tcp_dial *d = mem_zalloc(sizeof(*d));
    struct tcp_link *l = d != NULL ? tcp_link_new(v, false) : NULL;
    if (l == NULL) {
        mem_free(d);
        return 0;
    }
    struct err e;
    v->unsettled = true;
    l->dial = d;
    d->began = clock_ns();
    d->deadline = timeout_ns < VAN_NEVER - d->began ? d->began + timeout_ns : VAN_NEVER;
    snprintf(d->list, sizeof(d->list), "%s", address);
    if (take_all(l, &e) != 0) {
        e.code = TUG_EIO; // van.h says that `closed` gets this code
        tcp_link_fail(l, &e);
    } else {
        tcp_link_due_at(l, d->began);
    }
    return l->number;
}
