// The vector clock: the records of sessions, and a hash table of identities
// with open addressing, whose entries contain the sets of partitions in which
// the pushes were applied.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/retries.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/search.h"
#include "protocol/limits.h"
#include "protocol/spec.h"
#include "server/moves/stream.h"

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

// The group number of the entry for a whole piece. This entry has the piece's low-water
// mark, and in place of a set the number above all groups that were pushed, so that the
// piece is forgotten without a look at other pieces.
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
    uint64_t over;    // all pieces of passes before this one are done
    uint32_t *tables; // the tables of all pushes with an identity
    uint32_t n_tables, cap_tables;
    uint64_t looked; // see retries_looked
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
    mem_free(r->tables);
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

// Raises the session's mark to `low`. No new pushes with numbers below `low` will come,
// so pushes with larger numbers may use the entries of these numbers.
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
    // at most half of the entries are used, so that each search ends at a free entry
    assert(2 * r->n_identities <= r->max_identities);
    return x;
}

static void identity_erase(struct retries *r, size_t gap)
{
    assert(r->n_identities > 0);
    probe_close(gap, r->max_identities - 1, i,
                entry(r->identities, r->stride, i)->id.pass != 0,
                identity_home(&entry(r->identities, r->stride, i)->id, r->max_identities),
                memcpy(entry(r->identities, r->stride, gap),
                       entry(r->identities, r->stride, i), r->stride));
    memset(entry(r->identities, r->stride, gap), 0, r->stride);
    r->n_identities--;
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
    r->looked++;
    if (x->id.pass != 0)
        identity_erase(r, index_of(r, x));
}

static bool is_below(const struct identity *x, const struct retries_id *mark)
{
    return x->id.group < mark->low && x->id.table == mark->table &&
           x->id.piece == mark->piece && x->id.pass == mark->pass;
}

// Forgets the entries of groups [from, mark->low). A peer may claim billions of groups,
// so the loop runs over entries if there are fewer.
static void forget_groups(struct retries *r, const struct retries_id *mark, uint32_t from)
{
    struct retries_id id = *mark;
    if (mark->low - from <= r->max_identities) {
        for (id.group = from; id.group < mark->low; id.group++)
            forget_group(r, &id);
        return;
    }
    for (size_t i = 0; i < r->max_identities; r->looked++)
        if (is_below(entry(r->identities, r->stride, i), mark))
            identity_erase(r, i);
        else
            i++;
}

static int note_table(struct retries *r, uint32_t table)
{
    for (uint32_t i = 0; i < r->n_tables; i++)
        if (r->tables[i] == table)
            return 0;
    TRY(mem_room(&r->tables, &r->cap_tables, r->n_tables + 1));
    r->tables[r->n_tables++] = table;
    return 0;
}

// Raises the low-water mark of a piece to the one in the push, and returns the mark that
// counts now in *ret_low. On TUG_ENOMEM nothing has changed.
static int piece_raise(struct retries *r, const struct retries_id *id,
                       enum wire_space space, uint32_t *ret_low)
{
    struct retries_id all = all_groups(id);
    TRY(note_table(r, id->table));
    struct identity *x = identity_make(r, &all, space);
    if (x == NULL)
        return TUG_ENOMEM;
    if (id->group != ALL_GROUPS && id->group >= x->set[0])
        x->set[0] = (uint64_t)id->group + 1;
    uint32_t before = x->id.low;
    *ret_low = id->low > before ? id->low : before;
    if (id->low > before) {
        x->id.low = all.low = id->low;
        forget_groups(r, &all, before);
    }
    return 0;
}

// Forgets all pieces of passes before `pass`.
static void forget_passes(struct retries *r, uint64_t pass)
{
    for (size_t i = 0; i < r->max_identities;) {
        const struct identity *x = entry(r->identities, r->stride, i);
        r->looked++;
        if (x->id.pass != 0 && x->id.pass < pass)
            identity_erase(r, i);
        else
            i++;
    }
}

static void forget_piece(struct retries *r, struct retries_id *all)
{
    const struct identity *x = identity_place(r->identities, r->stride, r->max_identities,
                                              all);
    if (x->id.pass == 0)
        return;
    uint32_t from = x->id.low, end = (uint32_t)x->set[0];
    all->low = end;
    if (end > from)
        forget_groups(r, all, from);
    all->low = 0;
    forget_group(r, all);
}

void retries_forget(struct retries *r, uint64_t pass, uint64_t piece)
{
    struct retries_id all = {.pass = pass, .piece = piece, .group = ALL_GROUPS};
    if (pass > r->over) {
        r->over = pass;
        forget_passes(r, pass);
    }
    for (uint32_t i = 0; i < r->n_tables && r->max_identities > 0 && pass != 0; i++) {
        all.table = r->tables[i];
        forget_piece(r, &all);
    }
}

uint64_t retries_looked(const struct retries *r)
{
    return r->looked;
}

// Returns whether the pass of this push is over, so that all pushes of the pass
// were applied. A late push may still come from the slower of two workers that
// trained on the same piece.
static bool is_over(const struct retries *r, const struct retries_id *id)
{
    return id->pass < r->over;
}

static int check_group(const struct retries_id *id, struct err *e)
{
    if (id->pass == 0 || (id->group >= id->low && id->group != ALL_GROUPS))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "its group %u of a piece is below %u, although it acknowledges all "
                   "lower groups",
                   id->group, id->low);
}

int retries_begin_identity(struct retries *r, enum wire_space space,
                           const struct retries_id *id, struct retries_push *ret,
                           struct err *e)
{
    struct identity *x = NULL;
    uint32_t low = 0;
    TRY(check_group(id, e));
    *ret = (struct retries_push){.below = id->pass != 0 && is_over(r, id)};
    if (id->pass == 0 || ret->below)
        return 0;
    if (piece_raise(r, id, space, &low) != 0 ||
        (id->group >= low && (x = identity_make(r, id, space)) == NULL))
        return err_nomem(e, "the pushes of a piece of data");
    ret->below = id->group < low;
    ret->identity = x != NULL ? x->set : NULL;
    return 0;
}

int retries_begin(struct retries *r, uint64_t session, uint64_t number, uint64_t low,
                  enum wire_space space, const struct retries_id *id,
                  struct retries_push *ret, struct err *e)
{
    *ret = (struct retries_push){0};
    if (number < low)
        return err_set(e, TUG_EUSAGE,
                       "its number is %llu, but it acknowledges all numbers below %llu",
                       (unsigned long long)number, (unsigned long long)low);
    TRY(check_group(id, e));
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
    TRY(retries_begin_identity(r, space, id, ret, e));
    session_raise(r, s, low);
    ret->below |= number < s->low;
    if (number >= s->low) {
        assert(number - s->low < SHARD_WINDOW);
        s->space[number % SHARD_WINDOW] = (uint8_t)space;
        ret->number = session_set(r, s, number);
    }
    return 0;
}

// ---------------------------------------------------------------- moves

enum { ID_WORDS = 4 }; // numbers of an identity that is sent to another shard

// Returns whether the entry must move with the partition: the mark of a piece, or a group
// that was applied in the partition.
static bool goes(const struct identity *x, uint32_t partition, enum wire_space space)
{
    return x->id.pass != 0 && x->space == space &&
           (x->id.group == ALL_GROUPS || retries_bit(x->set, partition));
}

static int get_session(const struct retries *r, const struct session_at *x,
                       uint32_t partition, enum wire_space space, struct buf *to)
{
    struct session *s = x->session;
    uint64_t head[3] = {x->id, s->low, 0}, numbers[SHARD_WINDOW];
    for (uint64_t n = s->low; n < s->low + SHARD_WINDOW; n++)
        if (s->space[n % SHARD_WINDOW] == space &&
            retries_bit(session_set(r, s, n), partition))
            numbers[head[2]++] = n;
    TRY(stream_add_u64s(to, head, 3));
    return stream_add_u64s(to, numbers, head[2]);
}

int retries_get(const struct retries *r, uint32_t partition, enum wire_space space,
                struct buf *to)
{
    const struct session_at *x = r->sessions.first;
    uint64_t n[3] = {r->sessions.n, 0, r->over};
    assert(partition / 64 < r->words);
    for (size_t i = 0; i < r->max_identities; i++)
        n[1] += goes(entry(r->identities, r->stride, i), partition, space);
    TRY(stream_add_u64s(to, n, 3));
    for (size_t i = 0; i < n[0]; i++)
        TRY(get_session(r, &x[i], partition, space, to));
    for (size_t i = 0; i < r->max_identities; i++) {
        const struct identity *y = entry(r->identities, r->stride, i);
        uint64_t id[ID_WORDS] = {y->id.pass, y->id.piece,
                                 (uint64_t)y->id.table << 32 | y->id.group, y->id.low};
        if (goes(y, partition, space))
            TRY(stream_add_u64s(to, id, ID_WORDS));
    }
    return 0;
}

static void clear_bit(uint64_t *set, uint32_t partition)
{
    set[partition / 64] &= ~((uint64_t)1 << (partition % 64));
}

void retries_drop(struct retries *r, uint32_t partition, enum wire_space space)
{
    const struct session_at *x = r->sessions.first;
    assert(partition / 64 < r->words);
    for (size_t i = 0; i < r->sessions.n; i++)
        for (uint64_t n = 0; n < SHARD_WINDOW; n++)
            if (x[i].session->space[n] == space)
                clear_bit(session_set(r, x[i].session, n), partition);
    for (size_t i = 0; i < r->max_identities; i++) {
        struct identity *y = entry(r->identities, r->stride, i);
        if (y->id.pass != 0 && y->space == space && y->id.group != ALL_GROUPS)
            clear_bit(y->set, partition);
    }
}

static void set_bit(uint64_t *set, uint32_t partition)
{
    set[partition / 64] |= (uint64_t)1 << (partition % 64);
}

// Reads a session and the numbers of its applied pushes, and adds them to this
// shard's record of the session. Each of the two shards may know of pushes that
// the other does not know.
static int put_session(struct retries *r, uint32_t partition, enum wire_space space,
                       struct stream *x, struct err *e)
{
    uint64_t head[3];
    if (!stream_u64s(x, head, 3) || head[2] > SHARD_WINDOW)
        return stream_damaged(e);
    const uint64_t *numbers = stream_take(x, head[2], sizeof(*numbers));
    if (numbers == NULL || head[0] == 0 || head[1] > UINT64_MAX - SHARD_WINDOW)
        return stream_damaged(e);
    for (uint64_t i = 0; i < head[2]; i++)
        if (numbers[i] < head[1] || numbers[i] - head[1] >= SHARD_WINDOW)
            return stream_damaged(e);
    struct session *s = session_make(r, head[0]);
    if (s == NULL)
        return err_nomem(e, "the pushes of a session");
    session_raise(r, s, head[1]);
    for (uint64_t i = 0; i < head[2]; i++) {
        if (numbers[i] < s->low || numbers[i] - s->low >= SHARD_WINDOW)
            continue;
        s->space[numbers[i] % SHARD_WINDOW] = (uint8_t)space;
        set_bit(session_set(r, s, numbers[i]), partition);
    }
    return 0;
}

static int put_identity(struct retries *r, uint32_t partition, enum wire_space space,
                        const struct retries_id *id)
{
    uint32_t low = 0;
    TRY(piece_raise(r, id, space, &low));
    if (id->group == ALL_GROUPS || id->group < low)
        return 0;
    struct identity *x = identity_make(r, id, space);
    if (x == NULL)
        return TUG_ENOMEM;
    set_bit(x->set, partition);
    return 0;
}

static struct retries_id id_of(const uint64_t words[ID_WORDS])
{
    return (struct retries_id){.pass = words[0],
                               .piece = words[1],
                               .table = (uint32_t)(words[2] >> 32),
                               .group = (uint32_t)words[2],
                               .low = (uint32_t)words[3]};
}

int retries_put(struct retries *r, uint32_t partition, enum wire_space space,
                struct stream *x, struct err *e)
{
    uint64_t n[3];
    assert(partition / 64 < r->words);
    if (!stream_u64s(x, n, 3))
        return stream_damaged(e);
    if (n[2] > r->over)
        r->over = n[2];
    for (uint64_t i = 0; i < n[0]; i++)
        TRY(put_session(r, partition, space, x, e));
    const uint64_t *ids = stream_take(x, n[1], ID_WORDS * sizeof(*ids));
    if (ids == NULL)
        return stream_damaged(e);
    // The marks of pieces are read first, because groups below a mark need not be
    // recorded.
    for (int marks = 1; marks >= 0; marks--)
        for (uint64_t i = 0; i < n[1]; i++) {
            struct retries_id id = id_of(ids + i * ID_WORDS);
            if (id.pass == 0 || id.table >= SPEC_MAX_TABLES)
                return stream_damaged(e);
            if ((id.group == ALL_GROUPS) == (marks == 1) &&
                put_identity(r, partition, space, &id) != 0)
                return err_nomem(e, "the pushes of a piece of data");
        }
    return 0;
}
