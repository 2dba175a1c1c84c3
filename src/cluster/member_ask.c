// A member's messages to the scheduler that need an answer: requests, barriers and LEAVE.
// Each is sent again until it is answered, and at once on a new link.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>

#include "cluster/member_internal.h"

static struct ask *ask_of(struct member *m, uint16_t type)
{
    struct ask *free = NULL;
    for (int i = 0; i < MEMBER_ASKS; i++) {
        struct ask *a = &m->asks[i];
        if (a->request == 0)
            free = a;
        else if (a->type == type && !member_asks_ahead(type))
            return NULL; // a request of this type is under way
    }
    return free;
}

// Copies the message, by encoding and decoding it, so that it does not point into the
// caller's memory.
static int member_ask_keep(struct ask *a, uint16_t type, uint64_t request,
                           const void *msg)
{
    struct wire_frame f;
    if (a->frame.head.max == 0)
        a->frame = WIRE_OUT_INIT;
    TRY(wire_encode(&a->frame, type, request, msg, false));
    const char *bytes = a->frame.head.data;
    TRY(wire_frame_read((const unsigned char *)bytes, &f, NULL));
    TRY(wire_decode((const unsigned char *)bytes, &f, bytes + WIRE_FRAME_BYTES, &a->msg,
                    NULL));
    a->type = type;
    a->request = request;
    return 0;
}

// Sets the number up to which all reports of this worker are answered. It is set each time
// that a message is sent, because a report may have been answered since the last time.
static void set_answered(const struct member *m, struct ask *a)
{
    uint64_t *to = a->type == MSG_LEASE        ? &a->msg.lease.answered
                   : a->type == MSG_PIECE_DONE ? &a->msg.piece_done.answered
                                               : NULL;
    if (to == NULL)
        return;
    *to = a->type == MSG_LEASE ? a->msg.lease.reports : a->msg.piece_done.number;
    for (int i = 0; i < MEMBER_ASKS; i++) {
        const struct ask *b = &m->asks[i];
        uint64_t number = b->msg.piece_done.number;
        if (b->request != 0 && b->type == MSG_PIECE_DONE && number != 0 && number <= *to)
            *to = number - 1;
    }
}

static void send_ask(struct member *m, struct ask *a, uint64_t now)
{
    a->sent_at = now;
    set_answered(m, a);
    member_send(m, a->type, a->request, &a->msg);
}

// Notes which piece the worker has leased. A worker pushes all batches of a piece before it
// reports the piece, so a scheduler that was started again learns from JOIN which
// pushes may still come.
static void note_lease(struct member *m, const struct msg_leased *l)
{
    m->leased_pass = l->what == WIRE_LEASE_PIECE ? l->pass : 0;
    m->leased_piece = l->what == WIRE_LEASE_PIECE ? wire_piece(l->file, l->index) : 0;
}

int member_ask(struct member *m, uint16_t type, const void *msg, member_answer_fn done,
               void *ctx)
{
    assert(wire_answer(type) != 0); // a request without an answer would be repeated for
                                    // ever
    struct ask *a = m->ended || m->left ? NULL : ask_of(m, type);
    if (a == NULL)
        return TUG_EUSAGE;
    TRY(member_ask_keep(a, type, ++m->last_request, msg));
    a->done = done;
    a->ctx = ctx;
    a->sent_at = 0;
    if (type == MSG_PIECE_DONE)
        m->leased_pass = m->leased_piece = 0;
    if (member_is_here(m))
        send_ask(m, a, van_now(m->side.van));
    return 0;
}

void member_unask(struct member *m, const void *ctx)
{
    for (int i = 0; i < MEMBER_ASKS; i++)
        if (m->asks[i].ctx == ctx)
            m->asks[i].request = 0;
}

// Passes the answer to the caller. An answer of another type than expected becomes an
// error, because the caller reads the fields of the expected type.
static void member_ask_tell(const struct ask *a, const struct van_message *msg)
{
    if (a->done == NULL)
        return;
    if (msg->type == MSG_ERROR || msg->type == wire_answer(a->type)) {
        a->done(a->ctx, msg);
        return;
    }
    char what[128];
    snprintf(what, sizeof(what), "its answer to %s is of another kind: %s",
             wire_name(a->type), wire_name(msg->type));
    union wire_any any = {.error = {.code = TUG_EDATA, .what = wire_text(what)}};
    struct van_message error = {.type = MSG_ERROR, .request = msg->request, .m = &any};
    a->done(a->ctx, &error);
}

bool member_answered(struct member *m, const struct van_message *msg)
{
    if (msg->request == REQUEST_LEAVE) {
        m->left = m->leaving;
        return true;
    }
    for (int i = 0; i < MEMBER_ASKS; i++) {
        struct ask *a = &m->asks[i];
        if (a->request != msg->request || msg->request == 0)
            continue;
        struct ask asked = *a;
        a->request = 0; // cleared first, because `done` may send the next request
        if (msg->type == MSG_LEASED && asked.type == MSG_LEASE)
            note_lease(m, &msg->m->leased);
        member_ask_tell(&asked, msg);
        return true;
    }
    return false;
}

void member_asks_end(struct member *m)
{
    for (int i = 0; i < MEMBER_ASKS; i++) {
        struct ask *a = &m->asks[i];
        if (a->request == 0)
            continue;
        a->request = 0;
        if (a->done != NULL)
            a->done(a->ctx, NULL);
    }
}

void member_asks_free(struct member *m)
{
    for (int i = 0; i < MEMBER_ASKS; i++)
        buf_free(&m->asks[i].frame.head);
    buf_free(&m->collective.ask.frame.head);
    buf_free(&m->collective.result);
}

static void send_barrier(struct member *m, uint8_t group, uint64_t now)
{
    struct member_barrier *b = &m->barriers[group];
    struct msg_barrier msg = {.group = group, .number = b->asked};
    b->sent_at = now;
    if (group == WIRE_GROUP_WORKERS && m->collective.ask.request != 0)
        member_send(m, MSG_COLLECT, REQUEST_BARRIER, &m->collective.ask.msg);
    else
        member_send(m, MSG_BARRIER, REQUEST_BARRIER, &msg);
}

static void enter_barrier(struct member *m, uint8_t group)
{
    m->barriers[group].asked++;
    m->barriers[group].missing[0] = 0;
    if (member_is_here(m))
        send_barrier(m, group, van_now(m->side.van));
}

void member_barrier(struct member *m, uint8_t group)
{
    if (group >= MEMBER_GROUPS || m->barriers[group].asked > m->barriers[group].done)
        return; // a barrier is under way already
    enter_barrier(m, group);
}

bool member_barrier_done(const struct member *m, uint8_t group, const char **ret_missing)
{
    const struct member_barrier *b = &m->barriers[group & (MEMBER_GROUPS - 1)];
    if (ret_missing != NULL)
        *ret_missing = b->missing;
    return b->done == b->asked;
}

int member_barrier_result(const struct member *m, uint8_t group, const char *what,
                          bool interrupted, double seconds, struct err *e)
{
    const char *missing;
    char scheduler[ERR_TEXT_MAX];
    if (member_barrier_done(m, group, &missing))
        return 0;
    TRY(member_over(m, e));
    if (missing[0] == '\0') {
        snprintf(scheduler, sizeof(scheduler), "the scheduler at %s %s", m->scheduler,
                 member_waits_for(m));
        missing = scheduler;
    }
    if (interrupted)
        return err_set(e, TUG_EINTERRUPTED, "interrupted: %s is not complete: %s", what,
                       missing);
    return err_set(e, TUG_EIO, "%s is not complete after %.3g s: %s", what, seconds,
                   missing);
}

size_t member_collect_piece(size_t n, enum wire_collect op, uint32_t workers)
{
    // The workers share the scheduler's room equally: all of it in a gather, half
    // of it in a reduction.
    size_t room = op == WIRE_GATHER ? WIRE_COLLECT_MAX : WIRE_REDUCE_MAX / 2;
    size_t most = room / (workers > 0 ? workers : 1) / 8 * 8;
    most = most < WIRE_COLLECT_MAX ? most : WIRE_COLLECT_MAX;
    most = most > 8 ? most : 8;
    return n < most ? n : most;
}

static int check_collect(const struct member *m, const struct member_collect *c,
                         struct err *e)
{
    const struct member_barrier *b = &m->barriers[WIRE_GROUP_WORKERS];
    if (b->asked > b->done)
        return err_set(e, TUG_EUSAGE,
                       "%s: an earlier barrier or collective call of this worker is not "
                       "complete yet",
                       c->call);
    if (c->n > WIRE_COLLECT_MAX)
        return err_set(e, TUG_EUSAGE, "%s: %zu bytes are too many: a call can have %d",
                       c->call, c->n, WIRE_COLLECT_MAX);
    if (c->workers != 0 && c->index >= c->workers)
        return err_set(e, TUG_EUSAGE, "%s: this is worker %u of %u", c->call, c->index,
                       c->workers);
    return 0;
}

int member_collect(struct member *m, const struct member_collect *c, struct err *e)
{
    struct msg_collect msg = {
        .number = m->barriers[WIRE_GROUP_WORKERS].asked + 1,
        .call = wire_text(c->call),
        .op = (uint8_t)c->op,
        .type = (uint8_t)c->type,
        .first = c->first,
        .index = c->index,
        .workers = c->workers,
        .bytes = {c->bytes, (uint32_t)c->n},
    };
    TRY(check_collect(m, c, e));
    m->collective.ask.request = 0;
    int rc = member_ask_keep(&m->collective.ask, MSG_COLLECT, REQUEST_BARRIER, &msg);
    if (rc != 0)
        return err_set(e, rc, "%s: %s", c->call, err_text(rc));
    enter_barrier(m, WIRE_GROUP_WORKERS);
    return 0;
}

void member_collect_answered(struct member *m, const struct msg_collected *msg)
{
    struct member_barrier *b = &m->barriers[WIRE_GROUP_WORKERS];
    struct member_collective *c = &m->collective;
    if (c->ask.request == 0 || msg->number != b->asked)
        return;
    if (!msg->done) {
        wire_words(msg->why, b->missing, sizeof(b->missing));
        return;
    }
    buf_free(&c->result);
    c->result = BUF_INIT(WIRE_BYTES_MAX);
    c->why = (struct err){.code = wire_code(msg->code)};
    if (c->why.code != 0)
        wire_reason(msg->why, c->why.text, sizeof(c->why.text));
    else if (buf_add(&c->result, msg->result.data, msg->result.n) != 0)
        err_nomem(&c->why, "the answer to a collective call");
    c->ask.request = 0;
    b->done = b->asked;
}

int member_collected(const struct member *m, struct wire_text *ret, struct err *e)
{
    const struct member_collective *c = &m->collective;
    *ret = (struct wire_text){c->result.data, (uint32_t)c->result.len};
    if (c->why.code != 0 && e != NULL)
        *e = c->why;
    return c->why.code;
}

static void send_leave(struct member *m, uint64_t now)
{
    struct msg_leave msg = {.code = m->leaves_for.code,
                            .reason = (uint16_t)m->leaves_for.reason,
                            .why = wire_text(m->leaves_for.text)};
    m->leave_sent_at = now;
    member_send(m, MSG_LEAVE, REQUEST_LEAVE, &msg);
}

void member_leave(struct member *m, const struct err *why)
{
    if (m->leaving)
        return;
    m->leaving = true;
    if (why != NULL && why->code != 0)
        m->leaves_for = *why;
    if (member_is_here(m))
        send_leave(m, van_now(m->side.van));
    else if (m->side.van == NULL || (m->ended && m->s.link == 0) ||
             (m->who.id == 0 && m->s.state != SESSION_OPEN))
        m->left = true; // the scheduler does not know this node, or could not be reached
}

bool member_left(const struct member *m)
{
    return m->left;
}

// Returns the oldest request under way that is newer than this one, or NULL.
static struct ask *ask_after(struct member *m, uint64_t request)
{
    struct ask *next = NULL;
    for (int i = 0; i < MEMBER_ASKS; i++) {
        struct ask *a = &m->asks[i];
        if (a->request > request && (next == NULL || a->request < next->request))
            next = a;
    }
    return next;
}

uint64_t member_resend(struct member *m, uint64_t now, bool again)
{
    uint64_t next = VAN_NEVER;
    // messages that were sent up to this time are repeated
    uint64_t before = again ? now : now - m->o.resend_ns;
    if (!again && now < m->o.resend_ns)
        before = 0;
    for (struct ask *a = ask_after(m, 0); a != NULL; a = ask_after(m, a->request)) {
        if (a->sent_at <= before)
            send_ask(m, a, now);
        next = a->sent_at < next ? a->sent_at : next;
    }
    for (uint8_t group = 0; group < MEMBER_GROUPS; group++) {
        struct member_barrier *b = &m->barriers[group];
        if (b->asked == b->done)
            continue;
        if (b->sent_at <= before)
            send_barrier(m, group, now);
        next = b->sent_at < next ? b->sent_at : next;
    }
    if (m->leaving && !m->left) {
        if (m->leave_sent_at <= before)
            send_leave(m, now);
        next = m->leave_sent_at < next ? m->leave_sent_at : next;
    }
    return next == VAN_NEVER ? VAN_NEVER : next + m->o.resend_ns;
}
