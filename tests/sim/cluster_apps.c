// Messages of programs, sent between requests: a server's program receives messages only
// from workers whose session has not ended.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/random.h"
#include "client/private.h"
#include "sim/cluster.h"

enum { APP_STREAM = 7 };

static uint64_t draw(struct worker *k, uint64_t n)
{
    return random_below(k->world->stage.o->seed, APP_STREAM + k->c.number, k->draws++, n);
}

void world_let_say(struct worker *k)
{
    const struct client *c = k->c.client;
    if (c->n_peers == 0 || draw(k, 60) != 0)
        return;
    const struct peer *p = c->peers[draw(k, c->n_peers)];
    uint64_t number = k->said + 1;
    struct msg_app m = {.app = 1,
                        .sender = member_id(client_member(k->c.client)),
                        .number = number,
                        .body = {&number, sizeof(number)}};
    if (p->s.state == SESSION_OPEN &&
        van_send(k->c.van, p->s.link, MSG_APP, number, &m, NULL) == 0)
        k->said++;
}

void world_hears(void *ctx, van_link link, uint32_t node, struct van_message *m)
{
    const struct server *s = ctx;
    struct world *w = s->world;
    const struct roster *r = member_roster(shard_member(shard_of(w, s->number)));
    const struct msg_app *app = &m->m->app;
    const struct worker *k = NULL;
    (void)link;
    // A scheduler that starts anew without state gives ids again, while a worker and a
    // server of the cluster before may still run.
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (member_id(client_member(w->workers[i].c.client)) == node &&
            (k == NULL || k->said + 1 < app->number))
            k = &w->workers[i];
    w->heard++;
    if (k == NULL || app->sender != node)
        failed(w, "the program of server %u hears node %u, which is not a worker",
               s->number, node);
    else if (roster_session_over(r, member_session(client_member(k->c.client))))
        failed(w, "the program of server %u hears worker %u, whose session has ended",
               s->number, k->c.number);
    else if (app->number == 0 || app->number > k->said + 1 ||
             app->body.n != sizeof(app->number) ||
             memcmp(app->body.data, &app->number, sizeof(app->number)) != 0)
        failed(w, "the program of server %u hears what worker %u has not said", s->number,
               k->c.number);
}
