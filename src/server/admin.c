// Keeps a ring of the last admin operations of each session.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <string.h>

#include "base/alloc.h"
#include "protocol/limits.h"
#include "server/moves/stream.h"

struct operation {
    uint64_t number; // 0 if this entry is unused
    enum admin_state state;
    uint64_t value;
    // The values of the partitions of the space, with replicas; NULL before the first one.
    uint64_t *parts;
    enum wire_space space;
};

struct admin_session {
    uint64_t session, low;
    struct operation last[ADMIN_WINDOW]; // operation number n is at n % ADMIN_WINDOW
};

static void free_parts(struct admin_session *s)
{
    for (uint32_t i = 0; i < ADMIN_WINDOW; i++)
        mem_free(s->last[i].parts);
}

static struct admin_session *session_at(const struct admin *o, size_t i)
{
    return (struct admin_session *)o->sessions.first + i;
}

void admin_fini(struct admin *o)
{
    for (size_t i = 0; i < o->sessions.n; i++)
        free_parts(session_at(o, i));
    sessions_fini(&o->sessions);
}

// All operations below `low` are answered.
static void raise_low(struct admin_session *s, uint64_t low)
{
    low = low > 0 ? low : 1;
    s->low = low > s->low ? low : s->low;
    for (uint32_t i = 0; i < ADMIN_WINDOW; i++) {
        if (s->last[i].number >= s->low)
            continue;
        mem_free(s->last[i].parts);
        s->last[i].parts = NULL;
    }
}

// Returns the entry of an operation; NULL if the operation is answered.
static struct operation *entry_of(struct admin_session *s, uint64_t number)
{
    struct operation *x = &s->last[number % ADMIN_WINDOW];
    if (x->number < number && number >= s->low) {
        mem_free(x->parts);
        *x = (struct operation){.number = number};
    }
    return x->number == number ? x : NULL;
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
    raise_low(s, low);
    *ret = ADMIN_DONE;
    *ret_value = 0;
    if (number >= s->low && number - s->low >= ADMIN_WINDOW)
        return err_set(
            e, TUG_EUSAGE,
            "its number %llu is more than %d above %llu, the first that is not "
            "answered",
            (unsigned long long)number, ADMIN_WINDOW - 1, (unsigned long long)s->low);
    struct operation *x = entry_of(s, number);
    if (x != NULL) {
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
    struct admin_session *s = sessions_find(&o->sessions, session);
    if (s != NULL)
        free_parts(s);
    sessions_remove(&o->sessions, s);
}

int admin_parts(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum wire_space space, uint32_t n, uint64_t **ret)
{
    struct admin_session *s = sessions_make(&o->sessions, sizeof(*s), session);
    *ret = NULL;
    if (s == NULL)
        return TUG_ENOMEM;
    raise_low(s, low);
    struct operation *x = number >= s->low ? entry_of(s, number) : NULL;
    if (x == NULL || (x->parts != NULL && x->space != space))
        return 0;
    if (x->parts == NULL) {
        x->parts = mem_array(n, sizeof(*x->parts));
        x->space = space;
        for (uint32_t i = 0; i < n && x->parts != NULL; i++)
            x->parts[i] = ADMIN_LACKS;
    }
    *ret = x->parts;
    return x->parts != NULL ? 0 : TUG_ENOMEM;
}

uint64_t admin_record_low(uint64_t number, uint64_t low)
{
    uint64_t least = number >= ADMIN_WINDOW ? number + 1 - ADMIN_WINDOW : 1;
    return low > least ? low : least;
}

int admin_check(const struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                size_t most, struct err *e)
{
    low = low > 0 ? low : 1;
    if (session == 0 || number < low || number - low >= ADMIN_WINDOW)
        return stream_damaged(e);
    if (o->sessions.n >= most && sessions_find(&o->sessions, session) == NULL)
        return err_set(e, TUG_EDATA, "more than %zu sessions have admin operations",
                       most);
    return 0;
}

uint64_t *admin_find_parts(const struct admin *o, uint64_t session, uint64_t number)
{
    const struct operation *x = operation_of(o, session, number);
    return x != NULL ? x->parts : NULL;
}

void admin_drop(struct admin *o, enum wire_space space, uint32_t partition)
{
    for (size_t i = 0; i < o->sessions.n; i++)
        for (uint32_t k = 0; k < ADMIN_WINDOW; k++) {
            struct operation *x = &session_at(o, i)->last[k];
            if (x->parts != NULL && x->space == space)
                x->parts[partition] = ADMIN_LACKS;
        }
}

// Returns whether the operation was done in the partition. A partition is not copied while
// an operation is under way in it.
static bool has(const struct operation *x, enum wire_space space, uint32_t partition)
{
    return x->parts != NULL && x->space == space && x->parts[partition] < ADMIN_OPEN;
}

int admin_get(const struct admin *o, enum wire_space space, uint32_t partition,
              struct buf *to)
{
    uint64_t n = 0;
    for (size_t i = 0; i < o->sessions.n; i++)
        for (uint32_t k = 0; k < ADMIN_WINDOW; k++)
            n += has(&session_at(o, i)->last[k], space, partition);
    TRY(stream_add_u64s(to, &n, 1));
    for (size_t i = 0; i < o->sessions.n; i++) {
        const struct admin_session *s = session_at(o, i);
        for (uint32_t k = 0; k < ADMIN_WINDOW; k++) {
            const struct operation *x = &s->last[k];
            uint64_t entry[] = {s->session, x->number, s->low,
                                has(x, space, partition) ? x->parts[partition] : 0};
            if (has(x, space, partition))
                TRY(stream_add_u64s(to, entry, 4));
        }
    }
    return 0;
}

int admin_put(struct admin *o, enum wire_space space, uint32_t partition, uint32_t n,
              size_t most, bool (*is_over)(const void *ctx, uint64_t session),
              const void *ctx, struct stream *x, struct err *e)
{
    uint64_t count, entry[4], *parts;
    if (!stream_u64s(x, &count, 1))
        return stream_damaged(e);
    for (uint64_t i = 0; i < count; i++) {
        if (!stream_u64s(x, entry, 4) || entry[3] >= ADMIN_OPEN)
            return stream_damaged(e);
        if (is_over(ctx, entry[0]))
            continue;
        TRY(admin_check(o, entry[0], entry[1], entry[2], most, e));
        if (admin_parts(o, entry[0], entry[1], entry[2], space, n, &parts) != 0)
            return err_nomem(e, "the admin operations of a session");
        if (parts != NULL)
            parts[partition] = entry[3];
    }
    return 0;
}
