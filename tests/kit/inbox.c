// Inboxes.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/inbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/thread.h"

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct item *first, **end;
    uint64_t bytes; // bytes of the messages that were not taken yet
    bool woken;
    bool dead; // the van of this inbox was freed
    atomic_uint refs;
};

struct inbox *inbox_open(void)
{
    struct inbox *b = mem_zalloc(sizeof(*b));
    if (b == NULL)
        return NULL;
    thread_condition(&b->filled);
    pthread_mutex_init(&b->lock, NULL);
    b->end = &b->first;
    atomic_init(&b->refs, 1);
    return b;
}

struct inbox *inbox_ref(struct inbox *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void inbox_unref(struct inbox *b)
{
    if (b == NULL || atomic_fetch_sub(&b->refs, 1) != 1)
        return;
    pthread_cond_destroy(&b->filled);
    pthread_mutex_destroy(&b->lock);
    mem_free(b);
}

struct item *item_new(enum item_kind kind, const char *address)
{
    size_t n = strlen(address) + 1;
    struct item *i = mem_zalloc(sizeof(*i) + n);
    if (i == NULL)
        return NULL;
    i->kind = kind;
    memcpy(i->address, address, n);
    return i;
}

void item_free(struct item *i)
{
    if (i == NULL)
        return;
    parcel_free(i->parcel);
    inbox_unref(i->from);
    mem_free(i);
}

// Takes over the item and returns true; returns false if the inbox is closed.
bool inbox_post(struct inbox *b, struct item *i)
{
    pthread_mutex_lock(&b->lock);
    bool alive = !b->dead;
    if (alive) {
        i->next = NULL;
        *b->end = i;
        b->end = &i->next;
        if (i->parcel != NULL)
            b->bytes += parcel_bytes(i->parcel);
        pthread_cond_signal(&b->filled);
    }
    pthread_mutex_unlock(&b->lock);
    return alive;
}

// Sends an item back to its sender, as an item of kind `kind` from the end `link` of the
// inbox `self`.
bool item_answer(struct item *i, enum item_kind kind, struct inbox *self, van_link link)
{
    struct inbox *to = i->from;
    i->kind = kind;
    i->to = i->from_link;
    i->from = self != NULL ? inbox_ref(self) : NULL;
    i->from_link = link;
    bool posted = inbox_post(to, i);
    if (!posted)
        item_free(i);
    inbox_unref(to);
    return posted;
}

// Takes all items; waits for the first one until `until`.
struct item *inbox_take(struct inbox *b, uint64_t until)
{
    enum { SECOND = 1000000000 };
    struct timespec t = {(time_t)(until / SECOND), (long)(until % SECOND)};
    pthread_mutex_lock(&b->lock);
    while (b->first == NULL && !b->woken && (until == VAN_NEVER || clock_ns() < until)) {
        if (until == VAN_NEVER)
            pthread_cond_wait(&b->filled, &b->lock);
        else
            pthread_cond_timedwait(&b->filled, &b->lock, &t);
    }
    struct item *all = b->first;
    b->first = NULL;
    b->end = &b->first;
    b->bytes = 0;
    b->woken = false;
    pthread_mutex_unlock(&b->lock);
    return all;
}

uint64_t inbox_bytes(struct inbox *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t bytes = b->bytes;
    pthread_mutex_unlock(&b->lock);
    return bytes;
}

void inbox_wake(struct inbox *b)
{
    pthread_mutex_lock(&b->lock);
    b->woken = true;
    pthread_cond_signal(&b->filled);
    pthread_mutex_unlock(&b->lock);
}

void inbox_shut(struct inbox *b)
{
    pthread_mutex_lock(&b->lock);
    b->dead = true;
    struct item *list = b->first;
    b->first = NULL;
    pthread_mutex_unlock(&b->lock);
    while (list != NULL) {
        struct item *i = list;
        list = i->next;
        if (i->kind == ITEM_DIAL)
            item_answer(i, ITEM_REFUSED, NULL, 0);
        else if (i->kind == ITEM_ACCEPTED)
            item_answer(i, ITEM_CLOSED, NULL, 0);
        else
            item_free(i);
    }
}

// ---------------------------------------------------- the listeners of the whole process

struct listener {
    struct listener *next;
    struct inbox *inbox;
    char address[];
};

static pthread_mutex_t listeners_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;

static struct listener *find_listener(const char *address)
{
    struct listener *l = listeners;
    while (l != NULL && strcmp(l->address, address) != 0)
        l = l->next;
    return l;
}

struct inbox *inbox_look_up(const char *address)
{
    pthread_mutex_lock(&listeners_lock);
    struct listener *l = find_listener(address);
    struct inbox *b = l != NULL ? inbox_ref(l->inbox) : NULL;
    pthread_mutex_unlock(&listeners_lock);
    return b;
}

int inbox_publish(struct inbox *b, const char *address, struct err *e)
{
    size_t n = strlen(address) + 1;
    struct listener *l = mem_zalloc(sizeof(*l) + n);
    if (l == NULL)
        return err_nomem(e, "a listener");
    memcpy(l->address, address, n);
    l->inbox = b;
    pthread_mutex_lock(&listeners_lock);
    bool taken = find_listener(address) != NULL;
    if (!taken) {
        l->next = listeners;
        listeners = l;
    }
    pthread_mutex_unlock(&listeners_lock);
    if (!taken)
        return 0;
    mem_free(l);
    return err_set(e, TUG_EIO, "cannot listen on '%s': it is in use; choose another name",
                   address);
}

void inbox_unpublish(const struct inbox *b)
{
    pthread_mutex_lock(&listeners_lock);
    struct listener **at = &listeners;
    while (*at != NULL) {
        struct listener *l = *at;
        if (l->inbox != b) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        mem_free(l);
    }
    pthread_mutex_unlock(&listeners_lock);
}
