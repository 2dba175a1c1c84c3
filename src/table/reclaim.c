// Readers, epochs and the rows that wait for them; see reclaim.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/reclaim.h"

#include <assert.h>

#include "base/alloc.h"

struct table_reader {
    // Every pin writes `epoch`, so it begins a cache line that no other thread writes.
    _Alignas(64) _Atomic uint64_t epoch;
    struct reclaim *reclaim;
    struct table_reader *next;
    struct table_reader **link; // the pointer to this reader in the list
};

enum { LIMBO_ROWS = 1018 };

struct limbo_block {
    struct limbo_block *next;
    uint64_t stamp;
    uint32_t begin, end;
    uint32_t handle[LIMBO_ROWS];
};

static_assert(sizeof(struct limbo_block) == 4096, "a block is a page");

void reclaim_open(struct reclaim *r)
{
    atomic_store_explicit(&r->epoch, 1, memory_order_relaxed);
    pthread_mutex_init(&r->lock, NULL);
    r->readers = NULL;
    r->n_readers = 0;
}

void reclaim_close(struct reclaim *r)
{
    assert(r->n_readers == 0);
    pthread_mutex_destroy(&r->lock);
}

int reclaim_join(struct reclaim *r, struct table_reader **ret, struct err *e)
{
    struct table_reader *t = mem_aligned(_Alignof(struct table_reader), sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "a reader of a table");
    pthread_mutex_lock(&r->lock);
    bool room = r->n_readers < TABLE_MAX_READERS;
    if (room) {
        atomic_store_explicit(&t->epoch, 0, memory_order_relaxed);
        t->reclaim = r;
        t->next = r->readers;
        t->link = &r->readers;
        if (t->next != NULL)
            t->next->link = &t->next;
        r->readers = t;
        r->n_readers++;
    }
    pthread_mutex_unlock(&r->lock);
    if (!room) {
        mem_free(t);
        return err_set(e, TUG_EUSAGE, "a table has at most %d readers; close some first",
                       TABLE_MAX_READERS);
    }
    *ret = t;
    return 0;
}

void table_reader_close(struct table_reader *t)
{
    if (t == NULL)
        return;
    assert(atomic_load_explicit(&t->epoch, memory_order_relaxed) == 0);
    struct reclaim *r = t->reclaim;
    pthread_mutex_lock(&r->lock);
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    r->n_readers--;
    pthread_mutex_unlock(&r->lock);
    mem_free(t);
}

void table_pin(struct table_reader *t)
{
    _Atomic uint64_t *epoch = &t->reclaim->epoch;
    uint64_t now = atomic_load_explicit(epoch, memory_order_relaxed);
    atomic_store_explicit(&t->epoch, now, memory_order_relaxed);
    atomic_fetch_add_explicit(
        epoch, 0,
        // Touches the counter, which orders pins and erases (reclaim.h).
        memory_order_acq_rel);
}

// Unpins a reader. The release order makes the reader's accesses to rows come before
// any reuse of these rows.
void table_unpin(struct table_reader *t)
{
    atomic_store_explicit(&t->epoch, 0, memory_order_release);
}

uint64_t reclaim_stamp(struct reclaim *r)
{
    return atomic_fetch_add_explicit(&r->epoch, 1, memory_order_acq_rel);
}

// Computes the horizon: erased rows with stamps below it may be reused.
static uint64_t horizon_of(struct reclaim *r)
{
    uint64_t horizon = atomic_fetch_add_explicit(&r->epoch, 0, memory_order_acq_rel);
    pthread_mutex_lock(&r->lock);
    for (struct table_reader *t = r->readers; t != NULL; t = t->next) {
        uint64_t pinned = atomic_load_explicit(&t->epoch, memory_order_acquire);
        if (pinned != 0 && pinned < horizon)
            horizon = pinned;
    }
    pthread_mutex_unlock(&r->lock);
    return horizon;
}

void limbo_close(struct limbo *l)
{
    for (struct limbo_block *b = l->first, *next; b != NULL; b = next) {
        next = b->next;
        mem_free(b);
    }
    mem_free(l->spare);
    *l = (struct limbo){0};
}

static struct limbo_block *limbo_block(struct limbo *l)
{
    struct limbo_block *b = l->spare;
    l->spare = NULL;
    if (b == NULL)
        b = mem_alloc(sizeof(*b));
    if (b == NULL)
        return NULL;
    b->next = NULL;
    b->begin = b->end = 0;
    if (l->last != NULL)
        l->last->next = b;
    else
        l->first = b;
    l->last = b;
    return b;
}

void limbo_push(struct limbo *l, uint32_t handle, uint64_t stamp)
{
    struct limbo_block *b = l->last;
    if (b == NULL || b->end == LIMBO_ROWS)
        b = limbo_block(l);
    if (b == NULL)
        return;
    b->handle[b->end++] = handle;
    b->stamp = stamp;
}

static void drop_first(struct limbo *l)
{
    struct limbo_block *b = l->first;
    l->first = b->next;
    if (l->first == NULL)
        l->last = NULL;
    mem_free(l->spare);
    l->spare = b;
}

uint32_t limbo_pop(struct limbo *l)
{
    struct limbo_block *b = l->first;
    if (b == NULL || b->stamp >= l->horizon)
        return TABLE_NONE;
    uint32_t handle = b->handle[b->begin++];
    if (b->begin == b->end)
        drop_first(l);
    return handle;
}

void limbo_refresh(struct limbo *l, struct reclaim *r)
{
    if (l->first != NULL && l->first->stamp >= l->horizon)
        l->horizon = horizon_of(r);
}
