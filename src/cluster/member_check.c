// Invariants of a member between two events, asserted after each event in builds with
// assertions. No assertion depends on what the scheduler says about others.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_internal.h"

#ifndef NDEBUG

#include <assert.h>

// A disconnected member has a time at which it connects again, unless it has ended or
// left: no other event would wake it.
static void somebody_dials(const struct member *m)
{
    assert(m->side.van == NULL || m->s.state != SESSION_CLOSED || m->s.due != VAN_NEVER ||
           m->ended || m->left);
}

// A member gets its id and session together, with JOINED, and keeps them: the id decides
// which rows it has, and the session identifies its pushes.
static void joined_as_somebody(const struct member *m)
{
    assert((m->who.id == 0) == (m->who.number == 0));
    assert(!member_is_here(m) || (m->who.id != 0 && m->s.state == SESSION_OPEN));
    assert(m->who.id != 0 || (!m->who.has_secret && !m->has_key));
}

// A member has no roster before it has joined, because it needs its own id to use a
// roster. If there is a placement, every partition has an owner.
static void roster_is_whole(const struct member *m)
{
    assert(m->who.id != 0 || m->roster.version == 0);
    assert(m->roster.epoch == 0 || m->roster.version != 0);
    for (int space = 0; space < WIRE_SPACES; space++)
        assert(m->roster.epoch == 0 || m->roster.owners[space] != NULL);
}

// A member that may still act has an open link only to a scheduler of the newest
// generation that it knows. Its roster is not of a newer generation.
static void follows_the_newest(const struct member *m)
{
    if (bug_in(m->o.bugs, WITHOUT_GENERATION))
        return;
    assert(m->ended || m->s.state != SESSION_OPEN || !member_is_behind(m));
    assert(m->roster.generation <= m->who.generation);
}

// Times of past events are not later than now; deadlines are computed from them.
static void times_have_been(const struct member *m, uint64_t now)
{
    assert(m->lost_at <= now);
}

// No two requests in flight have the same number or the same type. An answer is matched
// to its request by the number.
static void ask_is_the_only_one(const struct member *m, int one)
{
    const struct ask *a = &m->asks[one];
    assert(a->request > REQUEST_FIRST && a->request <= m->last_request);
    for (int i = 0; i < one; i++)
        assert(m->asks[i].request == 0 ||
               (m->asks[i].request != a->request &&
                (m->asks[i].type != a->type || member_asks_ahead(a->type))));
}

// A request in flight has a copy of its message, which may have to be sent again, and
// expects an answer.
static void ask_can_be_sent(const struct ask *a)
{
    assert(a->frame.head.len >= WIRE_FRAME_BYTES);
    assert(wire_answer(a->type) != 0);
}

// An ended member has no requests: their callers were told of the end.
static void asks_hold(const struct member *m)
{
    for (int i = 0; i < MEMBER_ASKS; i++) {
        if (m->asks[i].request == 0)
            continue;
        assert(!m->ended);
        ask_is_the_only_one(m, i);
        ask_can_be_sent(&m->asks[i]);
    }
}

// At most one barrier of a group is in progress: the next one is entered only after
// the previous one is complete.
static void barriers_hold(const struct member *m)
{
    for (int group = 0; group < MEMBER_GROUPS; group++) {
        const struct member_barrier *b = &m->barriers[group];
        assert(b->done <= b->asked && b->asked <= b->done + 1);
        assert(m->collective.ask.request == 0 || group != WIRE_GROUP_WORKERS ||
               b->asked == b->done + 1);
    }
}

// A member has left only after member_leave, and has a reason for its end only if it has
// ended.
static void end_holds(const struct member *m)
{
    assert(m->leaving || !m->left);
    assert(m->ended || (m->why.code == 0 && m->why.text[0] == '\0'));
}

void member_check(const struct member *m, uint64_t now)
{
    session_check(&m->s, now);
    somebody_dials(m);
    joined_as_somebody(m);
    roster_is_whole(m);
    follows_the_newest(m);
    times_have_been(m, now);
    asks_hold(m);
    barriers_hold(m);
    end_holds(m);
}

#endif
