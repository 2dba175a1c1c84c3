// What must hold of a shard between two events. In builds with assertions alone.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/shard_internal.h"

#ifndef NDEBUG

// In larger clusters lists are not walked after each event: it would take the square of it.
enum { MOST = 1024 };

struct counts {
    uint32_t strangers, held, draining, draining_pushes;
};

// A link is looked for in its own bucket, and is there once.
static void check_peer(const struct shard *s, const struct peer *p, size_t bucket)
{
    assert(p->link % PEER_BUCKETS == bucket);
    for (const struct peer *other = p->next; other != NULL; other = other->next)
        assert(other->link != p->link);
    assert(p->greeted || (p->node == 0 && p->session == 0));
    assert(p->n_draining <= p->n_held);
    assert(p->n_draining_pushes <= p->n_draining);
    assert(p->n_held <= s->n_held);
}

static void check_peers(const struct shard *s, struct counts *c)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        for (const struct peer *p = s->peers[i]; p != NULL; p = p->next) {
            check_peer(s, p, i);
            c->strangers += !p->greeted;
            c->held += p->n_held;
            c->draining += p->n_draining;
            c->draining_pushes += p->n_draining_pushes;
        }
    assert(c->strangers == s->n_strangers); // else they are not looked for when due
    assert(c->held == s->n_held);
    assert(c->draining == s->n_draining);
}

// Requests that wait are counted by their links and in bytes, of which --memory allows so
// many; and no deadline is missed.
static void check_held(const struct shard *s, const struct counts *c)
{
    struct counts now = {0};
    uint64_t bytes = 0;
    struct held *const *end = &s->held;
    for (const struct held *h = s->held; h != NULL; end = &h->next, h = h->next) {
        now.held++;
        now.draining += h->wants == WANTS_DRAIN;
        now.draining_pushes += h->wants == WANTS_DRAIN && h->type == MSG_PUSH;
        bytes += h->bytes;
        assert(h->wants != ANSWERED);
        assert(h->deadline >= s->held_due);
        assert(h->peer->greeted && h->peer->n_held > 0);
    }
    assert(s->held_end == end); // where the next one is put
    assert(now.held == s->n_held && now.draining == s->n_draining);
    assert(now.draining_pushes == c->draining_pushes);
    assert(bytes == s->held_bytes);
}

// A table stands at its number, as clients have heard it, and its store keeps what must
// hold of stores.
static void check_tables(const struct shard *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const struct shard_table *t = s->tables[i];
        if (t == NULL)
            continue;
        assert(t->spec.id == i && t->store != NULL);
        assert(t->version > 0); // 0 stands for: all of it
        assert(t->n_applied <= (uint32_t)1 << s->bits);
        assert(t->spec.mode == WIRE_SYNC || t->n_applied == 0);
        bytes += t->bytes;
        store_check(t->store);
    }
    assert(bytes == s->bytes); // what --memory allows is shared by them
}

void shard_check(const struct shard *s)
{
    struct counts c = {0};
    if (member_roster(s->member)->n_nodes <= MOST && s->n_held <= MOST) {
        check_peers(s, &c);
        check_held(s, &c);
    }
    check_tables(s);
    assert(s->saves.run == NULL || s->saves.run->n <= SAVE_MAX_TABLES);
}

#endif
