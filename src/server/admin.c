// Keeps a ring of the last admin operations of each session.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <assert.h>

#include "protocol/limits.h"

struct operation {
    uint64_t number; // 0 if this entry is unused
    enum admin_state state;
    uint64_t value;
};

struct admin_session {
    uint64_t session, low;
    struct operation last[ADMIN_WINDOW]; // operation number n is at n % ADMIN_WINDOW
};

void admin_fini(struct admin *o)
{
    sessions_fini(&o->sessions);
}

static struct operation *operation_of(const struct admin *o, uint64_t session,
                                      uint64_t number)
{
    struct admin_session *s = sessions_find(&o->sessions, session);
    struct operation *x = s != NULL ? &s->last[number % ADMIN_WINDOW] : NULL;
    return x != NULL && x->number == number ? x : NULL;
}

int admin_begin(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum admin_state *ret, uint64_t *ret_value, struct err *e)
{
    if (number < low || number == 0)
        return err_set(e, TUG_EUSAGE,
                       "its number %llu is below %llu, although it acknowledges the "
                       "answers to all lower numbers",
                       (unsigned long long)number, (unsigned long long)low);
    struct admin_session *s = sessions_make(&o->sessions, sizeof(*s), session);
    if (s == NULL)
        return err_nomem(e, "the admin operations of a session");
    low = low > 0 ? low : 1;
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
    struct operation *x = &s->last[number % ADMIN_WINDOW];
    if (x->number < number && number >= s->low)
        *x = (struct operation){.number = number};
    if (x->number == number) {
        *ret = x->state;
        *ret_value = x->value;
    }
    return 0;
}

static void set(struct admin *o, uint64_t session, uint64_t number,
                enum admin_state state, uint64_t value)
{
    struct operation *x = operation_of(o, session, number);
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
    const struct operation *x = operation_of(o, session, number);
    return x != NULL ? x->state : ADMIN_NEW;
}

void admin_end_session(struct admin *o, uint64_t session)
{
    sessions_remove(&o->sessions, sessions_find(&o->sessions, session));
}
