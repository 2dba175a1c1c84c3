// A sorted array of sessions, each with a ring of its last admin operations.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/limits.h"

struct order {
    uint64_t number; // 0: none was here
    enum admin_state state;
    uint64_t value;
};

struct admin_session {
    uint64_t session, low;
    struct order last[ADMIN_WINDOW]; // at number % ADMIN_WINDOW
};

void admin_fini(struct admin *o)
{
    mem_free(o->sessions);
    *o = (struct admin){0};
}

// Where the session is, or would be.
static size_t place_of(const struct admin *o, uint64_t session)
{
    size_t low = 0, high = o->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (o->sessions[mid].session < session)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct admin_session *find(const struct admin *o, uint64_t session)
{
    size_t at = place_of(o, session);
    return at < o->n && o->sessions[at].session == session ? &o->sessions[at] : NULL;
}

static struct admin_session *make(struct admin *o, uint64_t session)
{
    struct admin_session *s = find(o, session);
    if (s != NULL)
        return s;
    if (o->n == o->max) {
        size_t max = o->max > 0 ? 2 * o->max : 8;
        void *more = mem_realloc_array(o->sessions, max, sizeof(*o->sessions));
        if (more == NULL)
            return NULL;
        o->sessions = more;
        o->max = max;
    }
    s = &o->sessions[place_of(o, session)];
    assert(s == o->sessions || s[-1].session < session); // they are found by halving
    memmove(s + 1, s, (size_t)(o->sessions + o->n - s) * sizeof(*s));
    o->n++;
    *s = (struct admin_session){.session = session, .low = 1};
    return s;
}

static struct order *order_of(const struct admin *o, uint64_t session, uint64_t number)
{
    struct admin_session *s = find(o, session);
    struct order *x = s != NULL ? &s->last[number % ADMIN_WINDOW] : NULL;
    return x != NULL && x->number == number ? x : NULL;
}

int admin_begin(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum admin_state *ret, uint64_t *ret_value, struct err *e)
{
    if (number < low || number == 0)
        return err_set(e, TUG_EUSAGE,
                       "its number %llu is below %llu, which it says are answered",
                       (unsigned long long)number, (unsigned long long)low);
    struct admin_session *s = make(o, session);
    if (s == NULL)
        return err_nomem(e, "the orders of a session");
    if (low > s->low)
        s->low = low;
    *ret = ADMIN_DONE;
    *ret_value = 0;
    if (number >= s->low && number - s->low >= ADMIN_WINDOW)
        return err_set(
            e, TUG_EUSAGE,
            "its number %llu is more than %d above %llu, the first that is not "
            "answered",
            (unsigned long long)number, ADMIN_WINDOW - 1, (unsigned long long)s->low);
    struct order *x = &s->last[number % ADMIN_WINDOW];
    if (x->number < number && number >= s->low)
        *x = (struct order){.number = number};
    if (x->number == number) {
        *ret = x->state;
        *ret_value = x->value;
    }
    return 0;
}

static void set(struct admin *o, uint64_t session, uint64_t number,
                enum admin_state state, uint64_t value)
{
    struct order *x = order_of(o, session, number);
    if (x == NULL)
        return;
    assert(x->state != ADMIN_DONE || state == ADMIN_DONE);
    x->state = state;
    x->value = value;
}

void admin_going(struct admin *o, uint64_t session, uint64_t number)
{
    set(o, session, number, ADMIN_GOING, 0);
}

void admin_done(struct admin *o, uint64_t session, uint64_t number, uint64_t value)
{
    set(o, session, number, ADMIN_DONE, value);
}

enum admin_state admin_look(const struct admin *o, uint64_t session, uint64_t number)
{
    const struct order *x = order_of(o, session, number);
    return x != NULL ? x->state : ADMIN_NEW;
}

void admin_end_session(struct admin *o, uint64_t session)
{
    struct admin_session *s = find(o, session);
    if (s == NULL)
        return;
    o->n--;
    memmove(s, s + 1, (size_t)(o->sessions + o->n - s) * sizeof(*s));
}

uint64_t admin_session_at(const struct admin *o, size_t i)
{
    return o->sessions[i].session;
}
