// Connections of a monitor; see connections_internal.h. These functions only shut a
// connection down; libmicrohttpd notices that, and closes it.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/connections_internal.h"

#include <sys/socket.h>

#include "monitor/address_internal.h"
#include "monitor/events_internal.h"
#include "os/clock.h"

static void end(struct connection *one)
{
    (void)shutdown(one->fd, SHUT_RDWR);
}

// Returns the connection that has been in `state` for the longest time; NULL if no
// connection is in this state.
static struct connection *oldest_of(struct connections *c, enum connection_state state)
{
    struct connection *oldest = NULL;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *one = &c->at[i];
        if (one->state == state && !one->refused &&
            (oldest == NULL || one->since_ns < oldest->since_ns))
            oldest = one;
    }
    return oldest;
}

// Closes the connection that has waited longest for its request. If all have sent their
// requests, closes the connection whose client has been reading its answer for the
// longest time, because most answers take only milliseconds.
static void make_room(struct connections *c)
{
    struct connection *one = oldest_of(c, CONNECTION_IDLE);
    if (one == NULL)
        one = oldest_of(c, CONNECTION_ANSWER);
    if (one == NULL)
        return;
    one->refused = true;
    end(one);
}

struct connection *connections_add(struct connections *c, struct MHD_Connection *mhd,
                                   int fd)
{
    struct connection *one = NULL;
    if (c->n >= CONNECTIONS_CROWD)
        make_room(c);
    for (size_t i = 0; i < CONNECTIONS_MAX && one == NULL; i++)
        if (c->at[i].state == CONNECTION_FREE)
            one = &c->at[i];
    if (one == NULL)
        return NULL;
    *one = (struct connection){
        .state = CONNECTION_IDLE, .mhd = mhd, .fd = fd, .since_ns = clock_ns()};
    c->n++;
    one->refused = !address_peer_is_own(fd);
    if (one->refused)
        end(one);
    return one;
}

void connections_remove(struct connections *c, struct connection *one)
{
    connection_begin(c, one, CONNECTION_FREE);
    c->n--;
}

void connection_begin(struct connections *c, struct connection *one,
                      enum connection_state state)
{
    c->n_events -= one->state == CONNECTION_EVENTS;
    c->n_events += state == CONNECTION_EVENTS;
    if (one->state == CONNECTION_EVENTS)
        event_release(one->event);
    one->event = NULL;
    one->sent = 0;
    one->state = state;
    one->since_ns = clock_ns();
}

void connection_suspend(struct connections *c, struct connection *one)
{
    one->suspended = true;
    c->lib->MHD_suspend_connection(one->mhd);
}

struct connection *connection_of(const struct mhd *lib, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *i = lib->MHD_get_connection_info(
        mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i != NULL ? i->socket_context : NULL;
}

void connections_resume(struct connections *c, enum connection_state state,
                        uint64_t before_ns)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *one = &c->at[i];
        if (!one->suspended || (state != CONNECTION_FREE && one->state != state) ||
            one->since_ns >= before_ns)
            continue;
        one->suspended = false;
        c->lib->MHD_resume_connection(one->mhd);
    }
}

static bool is_late(const struct connection *one, uint64_t now)
{
    uint64_t seconds = one->state == CONNECTION_IDLE     ? CONNECTIONS_IDLE_SECONDS
                       : one->state == CONNECTION_EVENTS ? CONNECTIONS_EVENT_SECONDS
                                                         : CONNECTIONS_ANSWER_SECONDS;
    if (one->state == CONNECTION_FREE ||
        (one->state == CONNECTION_EVENTS && one->event == NULL))
        return false;
    return now > one->since_ns && now - one->since_ns > seconds * SECOND_NS;
}

void connections_sweep(struct connections *c, uint64_t now)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (is_late(&c->at[i], now))
            end(&c->at[i]);
}
