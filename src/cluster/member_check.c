// Invariants of a member between two events, asserted after each event in builds with
// assertions. No assertion depends on what the scheduler says about others.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_internal.h"

#ifndef NDEBUG

#include <assert.h>

// A disconnected member tries again, unless it has ended or left: no other event would
// wake it.
static void somebody_dials(const struct member *m)
{
    assert(m->side.van == NULL || m->s.state != SESSION_CLOSED || m->s.due != VAN_NEVER ||
           m->ended || m->left);
}

// Id and session come together with JOINED, and stay: rows lie by the one, and pushes are
// told apart by the other.
static void joined_as_somebody(const struct member *m)
{
    assert((m->who.id == 0) == (m->who.number == 0));
    assert(!member_is_here(m) || (m->who.id != 0 && m->s.state == SESSION_OPEN));
    assert(m->who.id != 0 || (!m->who.has_secret && !m->has_key));
}

// A roster of before JOINED is of no use to who does not know its own id, so it has none.
// If there is a placement, every partition has an owner.
static void roster_is_whole(const struct member *m)
{
    assert(m->who.id != 0 || m->roster.version == 0);
    assert(m->roster.epoch == 0 || m->roster.version != 0);
    for (int space = 0; space < WIRE_SPACES; space++)
        assert(m->roster.epoch == 0 || m->roster.owners[space] != NULL);
}

// The time does not go back: deadlines count from past moments.
static void times_have_been(const struct member *m, uint64_t now)
{
    assert(m->lost_at <= now);
}

// An answer finds its request by number, and there is one request of a kind: else a
// caller would get another's answer.
static void ask_is_the_only_one(const struct member *m, int one)
{
    const struct ask *a = &m->asks[one];
    assert(a->request > REQUEST_FIRST && a->request <= m->last_request);
    for (int i = 0; i < one; i++)
        assert(m->asks[i].request == 0 ||
               (m->asks[i].request != a->request && m->asks[i].type != a->type));
}

// A request is sent again from its own memory, and has a type of answer.
static void ask_can_be_sent(const struct ask *a)
{
    assert(a->frame.head.len >= WIRE_FRAME_BYTES);
    assert(wire_answer(a->type) != 0);
}

// A caller is told of the end at once, so that an ended member has no requests.
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

// The next generation of a barrier is asked for when the one before is complete.
static void barriers_hold(const struct member *m)
{
    for (int group = 0; group < MEMBER_GROUPS; group++) {
        const struct member_barrier *b = &m->barriers[group];
        assert(b->done <= b->asked && b->asked <= b->done + 1);
    }
}

// A member has left only if it wanted to; the first reason of an end counts.
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
    times_have_been(m, now);
    asks_hold(m);
    barriers_hold(m);
    end_holds(m);
}

#endif
