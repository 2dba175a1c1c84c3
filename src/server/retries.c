// The vector clock: the records of sessions, and a hash table of identities with open
// addressing, whose entries contain their sets of partitions.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/retries.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "protocol/limits.h"

struct session {
    uint64_t low;
    uint8_t space[SHARD_WINDOW]; // the space of each number's table
    uint64_t sets[]; // for each push number n of the window, a bit for each partition
                     // that has applied it: retries.words words from (n % SHARD_WINDOW)
                     // * retries.words on
};

struct session_at {
    uint64_t id;
    struct session *session;
};

// Stands for the entry of a whole piece, which has the piece's mark instead of a set.
#define ALL_GROUPS UINT32_MAX

struct identity {
    struct retries_id id; // pass 0: the entry is free
    uint8_t space;
    uint64_t set[];
};

struct retries {
    struct budget *budget;
    uint32_t words; // number of 64-bit words in a set of partitions
    struct sessions sessions;
    char *identities; // the entries: a power of two, of which at most half are used
    size_t stride, n_identities, max_identities;
};

int retries_open(struct retries **ret, uint32_t partition_bits, struct budget *b,
                 struct err *e)
{
    struct retries *r = mem_zalloc(sizeof(*r));
    *ret = r;
    if (r == NULL)
        return err_nomem(e, "the clock of pushes");
    r->budget = b;
    r->words = partition_bits > 6 ? 1u << (partition_bits - 6) : 1;
    r->stride = sizeof(struct identity) + r->words * sizeof(uint64_t);
    return 0;
}

static size_t session_bytes(const struct retries *r)
{
    return sizeof(struct session) + (size_t)SHARD_WINDOW * r->words * sizeof(uint64_t);
}

void retries_close(struct retries *r)
{
    if (r == NULL)
        return;
    while (r->sessions.n > 0)
        retries_end_session(r, sessions_at(&r->sessions, r->sessions.n - 1));
    budget_give(r->budget, BUDGET_CLOCKS, r->max_identities * r->stride);
    sessions_fini(&r->sessions);
    mem_free(r->identities);
    mem_free(r);
}

static struct session *session_find(const struct retries *r, uint64_t session)
{
    const struct session_at *at = sessions_find(&r->sessions, session);
    return at != NULL ? at->session : NULL;
}

static struct session *session_make(struct retries *r, uint64_t session)
{
    struct session *s = session_find(r, session);
    if (s != NULL)
        return s;
    if (sessions_reserve(&r->sessions, sizeof(struct session_at), 1) != 0 ||
        !budget_take(r->budget, BUDGET_CLOCKS, session_bytes(r)))
        return NULL;
    s = mem_zalloc(session_bytes(r));
    if (s == NULL) {
        budget_give(r->budget, BUDGET_CLOCKS, session_bytes(r));
        return NULL;
    }
    struct session_at *at = sessions_make(&r->sessions, sizeof(*at), session);
    return at->session = s;
}

static uint64_t *session_set(const struct retries *r, struct session *s, uint64_t number)
{
    return s->sets + number % SHARD_WINDOW * r->words;
}

// Raises the session's mark to `low`. Pushes with lower numbers come no more, unless they
// are retries, so that newer numbers may use their entries.
static void session_raise(const struct retries *r, struct session *s, uint64_t low)
{
    if (low <= s->low)
        return;
    uint64_t n = low - s->low < SHARD_WINDOW ? low - s->low : SHARD_WINDOW;
    for (uint64_t i = 0; i < n; i++)
        memset(session_set(r, s, s->low + i), 0, r->words * sizeof(uint64_t));
    s->low = low;
}

const struct sessions *retries_sessions(const struct retries *r)
{
    return &r->sessions;
}

void retries_end_session(struct retries *r, uint64_t session)
{
    struct session_at *at = sessions_find(&r->sessions, session);
    if (at == NULL)
        return;
    mem_free(at->session);
    budget_give(r->budget, BUDGET_CLOCKS, session_bytes(r));
    sessions_remove(&r->sessions, at);
}

static struct identity *entry(char *entries, size_t stride, size_t i)
{
    return (struct identity *)(void *)(entries + i * stride);
}

static size_t identity_home(const struct retries_id *id, size_t max)
{
    uint64_t h = mix64(id->piece + mix64(id->pass));
    h = mix64(h + ((uint64_t)id->table << 32 | id->group));
    return h & (max - 1);
}

static bool same_id(const struct retries_id *a, const struct retries_id *b)
{
    return a->pass == b->pass && a->piece == b->piece && a->table == b->table &&
           a->group == b->group;
}

// Returns the entry of an identity, or the free entry where it belongs.
static struct identity *identity_place(char *entries, size_t stride, size_t max,
                                       const struct retries_id *id)
{
    size_t at = identity_home(id, max);
    struct identity *x;
    while ((x = entry(entries, stride, at))->id.pass != 0 && !same_id(&x->id, id))
        at = (at + 1) & (max - 1);
    return x;
}

static int identities_grow(struct retries *r)
{
    size_t max = r->max_identities > 0 ? 2 * r->max_identities : 64;
    if (!budget_take(r->budget, BUDGET_CLOCKS, max * r->stride))
        return TUG_ENOMEM;
    char *entries = mem_zalloc(max * r->stride);
    if (entries == NULL) {
        budget_give(r->budget, BUDGET_CLOCKS, max * r->stride);
        return TUG_ENOMEM;
    }
    for (size_t i = 0; i < r->max_identities; i++) {
        const struct identity *x = entry(r->identities, r->stride, i);
        if (x->id.pass != 0)
            memcpy(identity_place(entries, r->stride, max, &x->id), x, r->stride);
    }
    mem_free(r->identities);
    budget_give(r->budget, BUDGET_CLOCKS, r->max_identities * r->stride);
    r->identities = entries;
    r->max_identities = max;
    return 0;
}

static struct identity *identity_make(struct retries *r, const struct retries_id *id,
                                      enum wire_space space)
{
    if (r->n_identities >= RETRIES_MAX_IDENTITIES)
        return NULL;
    if (2 * (r->n_identities + 1) > r->max_identities && identities_grow(r) != 0)
        return NULL;
    struct identity *x = identity_place(r->identities, r->stride, r->max_identities, id);
    if (x->id.pass == 0) {
        x->id = *id;
        x->space = (uint8_t)space;
        r->n_identities++;
    }
    // so that a search ends at a free entry
    assert(2 * r->n_identities <= r->max_identities);
    return x;
}

// Removes an entry and closes the gap: entries that could not be found across the gap
// move into it.
static void identity_erase(struct retries *r, size_t gap)
{
    size_t mask = r->max_identities - 1;
    assert(r->n_identities > 0);
    for (size_t at = (gap + 1) & mask;; at = (at + 1) & mask) {
        struct identity *x = entry(r->identities, r->stride, at);
        if (x->id.pass == 0)
            break;
        size_t home = identity_home(&x->id, r->max_identities);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue; // the entry's first choice lies behind the gap, so the entry stays
        memcpy(entry(r->identities, r->stride, gap), x, r->stride);
        gap = at;
    }
    memset(entry(r->identities, r->stride, gap), 0, r->stride);
    r->n_identities--;
}

void retries_forget(struct retries *r, uint64_t pass, uint64_t piece)
{
    for (size_t i = 0; i < r->max_identities && pass != 0;) {
        const struct identity *x = entry(r->identities, r->stride, i);
        if (x->id.pass != 0 &&
            (x->id.pass < pass || (x->id.pass == pass && x->id.piece == piece)))
            identity_erase(r, i);
        else
            i++;
    }
}

static size_t index_of(const struct retries *r, const struct identity *x)
{
    return (size_t)((const char *)x - r->identities) / r->stride;
}

static struct retries_id all_groups(const struct retries_id *of)
{
    struct retries_id id = *of;
    id.group = ALL_GROUPS;
    id.low = 0;
    return id;
}

static void forget_group(struct retries *r, const struct retries_id *id)
{
    struct identity *x = identity_place(r->identities, r->stride, r->max_identities, id);
    if (x->id.pass != 0)
        identity_erase(r, index_of(r, x));
}

static bool is_below(const struct identity *x, const struct retries_id *mark)
{
    return x->id.group < mark->low && x->id.table == mark->table &&
           x->id.piece == mark->piece && x->id.pass == mark->pass;
}

// Forgets the entries of groups [from, mark->low). A peer may claim billions of groups.
static void forget_groups(struct retries *r, const struct retries_id *mark, uint32_t from)
{
    struct retries_id id = *mark;
    if (mark->low - from <= r->max_identities) {
        for (id.group = from; id.group < mark->low; id.group++)
            forget_group(r, &id);
        return;
    }
    for (size_t i = 0; i < r->max_identities;)
        if (is_below(entry(r->identities, r->stride, i), mark))
            identity_erase(r, i);
        else
            i++;
}

// Raises the mark of a piece to the one in the push, and returns the current mark in
// *ret_low. On TUG_ENOMEM nothing has changed.
static int piece_raise(struct retries *r, const struct retries_id *id,
                       enum wire_space space, uint32_t *ret_low)
{
    struct retries_id all = all_groups(id);
    struct identity *x = identity_make(r, &all, space);
    if (x == NULL)
        return TUG_ENOMEM;
    uint32_t before = x->id.low;
    *ret_low = id->low > before ? id->low : before;
    if (id->low > before) {
        x->id.low = all.low = id->low;
        forget_groups(r, &all, before);
    }
    return 0;
}

int retries_begin(struct retries *r, uint64_t session, uint64_t number, uint64_t low,
                  enum wire_space space, const struct retries_id *id,
                  struct retries_push *ret, struct err *e)
{
    *ret = (struct retries_push){0};
    if (number < low)
        return err_set(e, TUG_EUSAGE,
                       "its number %llu is below %llu, which it says are acknowledged",
                       (unsigned long long)number, (unsigned long long)low);
    if (id->pass != 0 && (id->group < id->low || id->group == ALL_GROUPS))
        return err_set(e, TUG_EUSAGE,
                       "its group %u of a piece is below %u, which it says are "
                       "acknowledged",
                       id->group, id->low);
    struct session *s = session_make(r, session);
    if (s == NULL)
        return err_nomem(e, "the pushes of a session");
    uint64_t mark = low > s->low ? low : s->low;
    if (number >= mark && number - mark >= SHARD_WINDOW)
        return err_set(
            e, TUG_EUSAGE,
            "its number %llu is more than %d above %llu, the first that is not "
            "acknowledged",
            (unsigned long long)number, SHARD_WINDOW - 1, (unsigned long long)mark);
    struct identity *x = NULL;
    uint32_t id_low = 0;
    if (id->pass != 0 && piece_raise(r, id, space, &id_low) != 0)
        return err_nomem(e, "the pushes of a piece of data");
    if (id->pass != 0 && id->group >= id_low && (x = identity_make(r, id, space)) == NULL)
        return err_nomem(e, "the pushes of a piece of data");
    session_raise(r, s, low);
    ret->below = number < s->low || (id->pass != 0 && id->group < id_low);
    ret->identity = x != NULL ? x->set : NULL;
    if (number >= s->low) {
        assert(number - s->low < SHARD_WINDOW);
        s->space[number % SHARD_WINDOW] = (uint8_t)space;
        ret->number = session_set(r, s, number);
    }
    return 0;
}

static void take_bit(uint64_t *from, uint64_t *to, uint32_t partition)
{
    uint64_t bit = (uint64_t)1 << (partition % 64);
    assert((from[partition / 64] & bit) != 0);
    to[partition / 64] |= from[partition / 64] & bit;
    from[partition / 64] &= ~bit;
}

static void move_session(struct retries *from, struct session *x, struct retries *to,
                         struct session *y, uint32_t partition, enum wire_space space)
{
    session_raise(to, y, x->low);
    for (uint64_t i = 0; i < SHARD_WINDOW; i++) {
        uint64_t number = x->low + i;
        uint64_t *set = session_set(from, x, number);
        if (x->space[number % SHARD_WINDOW] != space || !retries_bit(set, partition))
            continue;
        if (number >= y->low && number - y->low < SHARD_WINDOW) {
            y->space[number % SHARD_WINDOW] = (uint8_t)space;
            take_bit(set, session_set(to, y, number), partition);
        }
    }
}

static int move_marks(const struct retries *from, struct retries *to,
                      enum wire_space space)
{
    uint32_t low;
    for (size_t i = 0; i < from->max_identities; i++) {
        const struct identity *x = entry(from->identities, from->stride, i);
        if (x->id.pass != 0 && x->space == space && x->id.group == ALL_GROUPS)
            TRY(piece_raise(to, &x->id, space, &low));
    }
    return 0;
}

// Returns whether the entry of a group must be copied to the new shard, because it was
// applied in this partition and lies above the piece's mark there. The piece's own entry
// is copied before.
static bool moves(const struct retries *to, const struct identity *x, uint32_t partition,
                  enum wire_space space)
{
    if (x->id.pass == 0 || x->space != space || !retries_bit(x->set, partition))
        return false;
    struct retries_id all = all_groups(&x->id);
    return x->id.group >=
           identity_place(to->identities, to->stride, to->max_identities, &all)->id.low;
}

int retries_move(struct retries *from, struct retries *to, uint32_t partition,
                 enum wire_space space, struct err *e)
{
    assert(from->words == to->words && partition / 64 < from->words);
    const struct session_at *x = from->sessions.first;
    for (size_t i = 0; i < from->sessions.n; i++)
        if (session_make(to, x[i].id) == NULL)
            return err_nomem(e, "the pushes of a session");
    if (move_marks(from, to, space) != 0)
        return err_nomem(e, "the pushes of a piece of data");
    for (size_t i = 0; i < from->max_identities; i++) {
        struct identity *y = entry(from->identities, from->stride, i);
        if (moves(to, y, partition, space) && identity_make(to, &y->id, space) == NULL)
            return err_nomem(e, "the pushes of a piece of data");
    }
    for (size_t i = 0; i < from->sessions.n; i++)
        move_session(from, x[i].session, to, session_find(to, x[i].id), partition, space);
    for (size_t i = 0; i < from->max_identities; i++) {
        struct identity *y = entry(from->identities, from->stride, i);
        if (moves(to, y, partition, space))
            take_bit(y->set, identity_make(to, &y->id, space)->set, partition);
    }
    return 0;
}
