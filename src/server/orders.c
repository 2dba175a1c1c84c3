// A sorted array of sessions, each with a ring of its last orders.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/orders.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct order {
    uint64_t number; // 0: none was here
    enum orders_state state;
    uint64_t value;
};

struct orders_session {
    uint64_t session, low;
    struct order last[ORDERS_WINDOW]; // at number % ORDERS_WINDOW
};

void orders_fini(struct orders *o)
{
    mem_free(o->sessions);
    *o = (struct orders){0};
}

// Where the session is, or would be.
static size_t place_of(const struct orders *o, uint64_t session)
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

static struct orders_session *find(const struct orders *o, uint64_t session)
{
    size_t at = place_of(o, session);
    return at < o->n && o->sessions[at].session == session ? &o->sessions[at] : NULL;
}

static struct orders_session *make(struct orders *o, uint64_t session)
{
    struct orders_session *s = find(o, session);
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
    *s = (struct orders_session){.session = session, .low = 1};
    return s;
}

static struct order *order_of(const struct orders *o, uint64_t session, uint64_t number)
{
    struct orders_session *s = find(o, session);
    struct order *x = s != NULL ? &s->last[number % ORDERS_WINDOW] : NULL;
    return x != NULL && x->number == number ? x : NULL;
}

int orders_begin(struct orders *o, uint64_t session, uint64_t number, uint64_t low,
                 enum orders_state *ret, uint64_t *ret_value, struct err *e)
{
    if (number < low || number == 0)
        return err_set(e, TUG_EUSAGE,
                       "its number %llu is below %llu, which it says are answered",
                       (unsigned long long)number, (unsigned long long)low);
    struct orders_session *s = make(o, session);
    if (s == NULL)
        return err_nomem(e, "the orders of a session");
    if (low > s->low)
        s->low = low;
    *ret = ORDERS_DONE;
    *ret_value = 0;
    if (number >= s->low && number - s->low >= ORDERS_WINDOW)
        return err_set(
            e, TUG_EUSAGE,
            "its number %llu is more than %d above %llu, the first that is not "
            "answered",
            (unsigned long long)number, ORDERS_WINDOW - 1, (unsigned long long)s->low);
    struct order *x = &s->last[number % ORDERS_WINDOW];
    if (x->number < number && number >= s->low)
        *x = (struct order){.number = number};
    if (x->number == number) {
        *ret = x->state;
        *ret_value = x->value;
    }
    return 0;
}

static void set(struct orders *o, uint64_t session, uint64_t number,
                enum orders_state state, uint64_t value)
{
    struct order *x = order_of(o, session, number);
    if (x == NULL)
        return;
    assert(x->state != ORDERS_DONE || state == ORDERS_DONE);
    x->state = state;
    x->value = value;
}

void orders_going(struct orders *o, uint64_t session, uint64_t number)
{
    set(o, session, number, ORDERS_GOING, 0);
}

void orders_done(struct orders *o, uint64_t session, uint64_t number, uint64_t value)
{
    set(o, session, number, ORDERS_DONE, value);
}

enum orders_state orders_look(const struct orders *o, uint64_t session, uint64_t number)
{
    const struct order *x = order_of(o, session, number);
    return x != NULL ? x->state : ORDERS_NEW;
}

void orders_end_session(struct orders *o, uint64_t session)
{
    struct orders_session *s = find(o, session);
    if (s == NULL)
        return;
    o->n--;
    memmove(s, s + 1, (size_t)(o->sessions + o->n - s) * sizeof(*s));
}

uint64_t orders_session_at(const struct orders *o, size_t i)
{
    return o->sessions[i].session;
}
