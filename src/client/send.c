// Sends slices, again until they are answered, and takes their answers. The kind of the
// request determines a slice's message and the place of its answer.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "client/private.h"

enum { TRIES_MAX = 8 }; // more tries do not make the pause longer

int request_send(struct slice *s, const void *message)
{
    return van_send(s->peer->client->van, s->peer->s.link, s->request->type, s->id,
                    message, NULL);
}

// Ends a request whose part for one server does not fit into a message.
static void end_too_long(struct slice *s, int rc)
{
    struct request *r = s->request;
    struct err e;
    char about[REQUEST_ABOUT_MAX];
    request_about(r, about);
    if (s->n > 0 && r->value_bytes > 0)
        err_set(
            &e, rc,
            "%s%s is too large: its part for one server has %zu keys with %zu bytes "
            "each, and a message may have %zu MiB of values; send fewer keys in a call",
            request_says(r), about, (size_t)s->n, (size_t)r->value_bytes,
            (size_t)(WIRE_SPAN_MAX >> 20));
    else
        err_set(&e, rc, "a request%s is longer than a message may be", about);
    request_end(r, rc, &e);
}

void slice_send(struct slice *s, uint64_t now)
{
    struct peer *p = s->peer;
    struct client *c = p->client;
    assert(s->id != 0 && s->request->state == REQUEST_OPEN);
    if (p->s.state != SESSION_OPEN) {
        c->next_due = min_u64(c->next_due, peer_tick(p, now));
        return;
    }
    // The placement may have changed while the slice waited.
    if (s->epoch != 0 && s->epoch != c->epoch && slice_replace(s))
        return;
    bool again = s->sent;
    uint64_t id = s->id;
    const struct request *r = s->request;
    int rc = r->kind->send != NULL ? r->kind->send(s) : request_send(s, r->message);
    if (s->id != id) // sending has ended the slice
        return;
    if (rc == TUG_EUSAGE || rc == TUG_EINTERNAL) {
        end_too_long(s, rc);
        return;
    }
    s->sent = rc == 0;
    s->epoch = c->epoch;
    // Memory is out, or the link has ended and its handler will send the slice again.
    if (rc != 0)
        s->due = now + 10 * MS;
    else
        s->due = c->o.resend_ns != 0 ? now + c->o.resend_ns : VAN_NEVER;
    c->stats.resent += again;
    c->next_due = min_u64(c->next_due, s->due);
}

void request_send_slices(struct request *r, uint64_t now)
{
    for (struct slice *s = r->slices, *next; s != NULL; s = next) {
        next = s->next;
        slice_send(s, now);
        if (r->state != REQUEST_OPEN)
            break;
    }
}

// ---------------------------------------------------------------- answers

static void slice_failed(struct slice *s, const struct err *why)
{
    struct err e = *why;
    char name[ROSTER_NAME_MAX], about[REQUEST_ABOUT_MAX];
    request_about(s->request, about);
    err_wrap(&e, "%s%s%s", peer_name(s->peer, name), about[0] != '\0' ? "," : "", about);
    request_end(s->request, e.code, &e);
}

uint64_t slice_pause(const struct slice *s)
{
    return MS << s->tries;
}

// Schedules the slice to be sent again after a growing pause.
static void again(struct slice *s, uint64_t now)
{
    struct client *c = s->request->client;
    s->sent = false;
    s->due = now + slice_pause(s);
    s->tries += s->tries < TRIES_MAX;
    c->next_due = min_u64(c->next_due, s->due);
}

// Handles a loop's refusal of a slice with partitions that it does not own. If the loop's
// placement is newer, asks the scheduler for it, and sends the partitions to their
// owners.
static void take_refusal(struct slice *s, uint64_t epoch, uint64_t now)
{
    struct client *c = s->peer->client;
    c->stats.refused++;
    s->no_room = false;
    if (epoch > c->epoch)
        member_want_roster(c->member, epoch);
    else if (slice_replace(s))
        return;
    again(s, now);
}

// Handles the answer of a loop that has no room for the slice, or for the slice's answer,
// at the moment. The loop may also have dropped the slice's list of keys.
static void no_room(struct slice *s, uint64_t now)
{
    s->request->client->stats.no_room++;
    s->no_room = true;
    if (s->list != 0) {
        peer_forgets(s->peer, s->list);
        s->all_keys = true;
    }
    again(s, now);
}

// Sends the slice again with its keys, because the loop does not have their list.
static void send_all_keys(struct slice *s, uint64_t now)
{
    if (s->all_keys) // the refusal is of an earlier message; one with the keys is in flight
        return;
    peer_forgets(s->peer, s->list);
    s->all_keys = true;
    s->no_room = false;
    s->due = now;
    s->peer->client->next_due = now;
}

static void answer_error(struct slice *s, const struct msg_error *m, uint64_t now)
{
    struct err why;
    wire_refusal(m, NULL, &why);
    if (s->request->kind->anyone_knows) {
        s->request->why = why;
        slice_answered(s);
    } else if (why.reason == REASON_NO_ROOM) {
        no_room(s, now);
    } else if (why.reason == REASON_KEYS_UNKNOWN && s->list != 0) {
        send_all_keys(s, now);
    } else {
        slice_failed(s, &why);
    }
}

void slice_take_answer(struct slice *s, struct van_message *m, uint64_t now)
{
    struct request *r = s->request;
    struct err *why = &r->why;
    if (s->placing && m->placed) {
        s->placing = false;
        r->pins--;
    }
    r->client->stats.bytes_received += m->body_bytes;
    if (wire_check_flags(m->type, m->m, why) != 0) {
        slice_failed(s, why);
        return;
    }
    if (m->type == MSG_ERROR) {
        answer_error(s, &m->m->error, now);
        return;
    }
    if (m->type == MSG_ROSTER) {
        take_refusal(s, m->m->roster.epoch, now);
        return;
    }
    why->code = 0;
    if (m->type == r->answer && (r->kind->take == NULL || r->kind->take(s, m))) {
        slice_answered(s);
        return;
    }
    if (why->code == 0)
        err_set(why, TUG_EDATA, "its answer does not fit the request");
    slice_failed(s, why);
}
