// The scheduler's links: dispatches messages by the role of their sender, and keeps
// deadlines.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/scheduler.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/member.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "cluster/scheduler/scheduler_keep.h"

enum { QUEUED_MAX = 64 << 20 }; // limit of bytes that are queued for one peer
// A link of a peer that is not a node is closed after it was silent for IDLE_NS; links
// are checked at intervals of IDLE_LOOK_NS.
#define IDLE_NS (300 * SECOND_NS)
#define IDLE_LOOK_NS (60 * SECOND_NS)

static int check_options(const struct scheduler_options *o, struct err *e)
{
    if (o->servers == 0)
        return err_set(e, TUG_EUSAGE, "a cluster needs at least one server");
    if (o->servers > ROSTER_MAX_NODES || o->workers > ROSTER_MAX_NODES)
        return err_set(e, TUG_EUSAGE,
                       "%u servers and %u workers are more than the %d nodes that a "
                       "cluster can have",
                       o->servers, o->workers, ROSTER_MAX_NODES);
    if (o->partition_bits > ROSTER_MAX_PARTITION_BITS)
        return err_set(e, TUG_EUSAGE,
                       "2^%u partitions are more than the 2^%d that a table can have",
                       o->partition_bits, ROSTER_MAX_PARTITION_BITS);
    if (o->replicas > CHAINS_MAX_REPLICAS)
        return err_set(e, TUG_EUSAGE,
                       "%u replicas are more than the %d that a partition can have",
                       o->replicas, CHAINS_MAX_REPLICAS);
    return 0;
}

int scheduler_open(struct scheduler **ret, const struct scheduler_options *o,
                   struct err *e)
{
    TRY(check_options(o, e));
    struct scheduler *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "the scheduler");
    s->o = *o;
    snprintf(s->host, sizeof(s->host), "%s", o->host != NULL ? o->host : "");
    if (s->o.server_timeout_ns == 0)
        s->o.server_timeout_ns = o->dead_timeout_ns;
    s->session = s->unix_base = o->session_base;
    s->reports = BUF_INIT(WIRE_BYTES_MAX);
    s->roster.servers = o->servers;
    s->roster.workers = o->workers;
    s->roster.partition_bits = o->partition_bits;
    s->roster.replicas = s->o.replicas = o->replicas > 0 ? o->replicas : 1;
    int rc = leases_open(&s->leases, e);
    if (rc == 0)
        leases_set_bugs(s->leases, o->bugs);
    if (rc == 0 && scheduler_list(s) != 0)
        rc = err_nomem(e, "the roster");
    if (rc == 0)
        rc = scheduler_keep_open(s, e);
    if (rc == 0 && s->keep == NULL)
        s->roster.generation = s->generation = 1;
    if (rc != 0) {
        scheduler_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void scheduler_close(struct scheduler *s)
{
    if (s == NULL)
        return;
    scheduler_keep_close(s);
    leases_close(s->leases);
    roster_free(&s->roster);
    scheduler_moving_free(s);
    scheduler_drop_roster(s->encoded);
    buf_free(&s->reports);
    mem_free(s->links);
    mem_free(s->nodes);
    for (uint32_t i = 0; i < s->n_processes; i++)
        mem_free(s->processes[i].given);
    scheduler_collected_free(s);
    mem_free(s->processes);
    scheduler_forgets_free(s);
    mem_free(s->unbacked);
    explicit_bzero(s->o.session_key, sizeof(s->o.session_key));
    mem_free(s);
}

void *scheduler_grow(void *p_array, uint32_t *n, uint32_t *cap, size_t bytes)
{
    assert(*n <= *cap);
    size_t room = *cap;
    if (mem_room_for(p_array, &room, (size_t)*n + 1, bytes, UINT32_MAX) != 0)
        return NULL;
    *cap = (uint32_t)room;
    void *array;
    memcpy(&array, p_array, sizeof(array));
    return memset((char *)array + bytes * (*n)++, 0, bytes);
}

// Returns whether more messages may be queued for a peer. Without this limit, a peer that
// sends requests but does not read the answers would fill the memory.
bool scheduler_has_room(const struct scheduler *s, van_link link)
{
    return link != 0 && van_queued(s->van, link) < QUEUED_MAX;
}

void scheduler_send(struct scheduler *s, van_link link, uint16_t type, uint64_t request,
                    const void *msg)
{
    assert(msg != NULL);
    // A message is dropped if too much is queued for the peer: the node asks again for a
    // lost answer, and a later tick repeats other messages.
    if (!scheduler_has_room(s, link))
        return;
    if (s->keep != NULL && !bug_in(s->o.bugs, ANSWERED_BEFORE_DURABLE))
        scheduler_keep_send(s, link, type, request, msg);
    else
        (void)van_send(s->van, link, type, request, msg, NULL);
}

void scheduler_send_early(struct scheduler *s, van_link link, uint16_t type,
                          uint64_t request, const void *msg)
{
    if (s->keep == NULL || !scheduler_keep_speaks(s))
        scheduler_send(s, link, type, request, msg);
    else if (scheduler_has_room(s, link))
        (void)van_send(s->van, link, type, request, msg, NULL);
}

void scheduler_part(struct scheduler *s, van_link link)
{
    if (s->keep == NULL || !outbox_close_link(&s->keep->out, link))
        van_close_link(s->van, link);
}

void scheduler_refuse(struct scheduler *s, van_link link, uint64_t request, int code,
                      const char *why)
{
    struct msg_error msg = {.code = code, .what = wire_text(why)};
    scheduler_send(s, link, MSG_ERROR, request, &msg);
}

void scheduler_say(struct scheduler *s, const char *fmt, ...)
{
    char line[ERR_TEXT_MAX];
    if (s->o.log == NULL)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    s->o.log(s->o.log_ctx, line);
}

const char *scheduler_name(const struct sched_node *n, char to[ROSTER_NAME_MAX])
{
    return roster_name(&n->n, to);
}

// Returns the time since 1970 in ns: the base that was given at the start, plus the time
// that has passed.
uint64_t scheduler_unix_ns(const struct scheduler *s)
{
    return s->unix_base + (s->now - s->served_at);
}

static struct link *find_link(struct scheduler *s, van_link link)
{
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].link == link)
            return &s->links[i];
    return NULL;
}

static void scheduler_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct scheduler *s = ctx;
    (void)accepted;
    s->now = now;
    struct link *l = scheduler_grow(&s->links, &s->n_links, &s->cap_links, sizeof(*l));
    if (l == NULL) {
        van_close_link(s->van, link);
        return;
    }
    *l = (struct link){
        .link = link, .heard = now, .node = SCHEDULER_NOBODY, .beats = SCHEDULER_NOBODY};
    s->idle_look = clock_earlier(s->idle_look, now + IDLE_LOOK_NS);
    scheduler_check(s);
}

static void scheduler_on_closed(void *ctx, van_link link, const struct err *why,
                                uint64_t now)
{
    struct scheduler *s = ctx;
    (void)why;
    s->now = now;
    struct link *l = find_link(s, link);
    if (l != NULL)
        scheduler_forget_link(s, l);
    scheduler_check(s);
}

static void on_refused(void *ctx, const struct err *why, uint64_t now)
{
    struct scheduler *s = ctx;
    char line[ERR_TEXT_MAX];
    s->now = now;
    if (refusals_note(&s->refusals, why, now, line))
        scheduler_say(s, "%s", line);
}

static void turn_away(struct scheduler *s, struct link *l, int code, const char *why)
{
    struct err e;
    err_set(&e, code, "%s: %s", van_peer(s->van, l->link), why);
    on_refused(s, &e, s->now);
    scheduler_refuse(s, l->link, 0, code, why);
    scheduler_part(s, l->link);
    scheduler_forget_link(s, l);
}

// Returns whether the peer has joined a scheduler of a later generation. Only servers and
// operators are believed, because this ends the scheduler.
static bool knows_newer(const struct scheduler *s, const struct link *l,
                        const struct msg_hello *m)
{
    const struct van_trust trust = van_trust(s->van, l->link);
    const struct proof_of whose = {m->session, m->node, m->role};
    uint8_t secret[MAC_BYTES];
    return m->generation > s->generation && !bug_in(s->o.bugs, WITHOUT_GENERATION) &&
           wire_right(trust.role) >= WIRE_FROM_SERVE &&
           proof_check(secret, s->o.session_key, &whose, &trust, m->proof);
}

// Ends this scheduler, but not the cluster: from now on it sends nothing and writes
// nothing to its journal.
static void be_replaced(struct scheduler *s, const struct link *l, uint64_t by)
{
    s->replaced = s->finished = true;
    s->phase = SCHEDULER_ENDING;
    s->phase_at = s->now;
    err_set(&s->end, TUG_EIO,
            "generation %" PRIu64 " of the scheduler has taken over the cluster, as %s "
            "says, so this one, generation %" PRIu64
            ", ends; the cluster goes on, and nothing needs to be done",
            by, van_peer(s->van, l->link), s->generation);
}

static void greet(struct scheduler *s, struct link *l, const struct msg_hello *m)
{
    if (m->cluster != s->o.cluster) {
        char text[ERR_TEXT_MAX];
        snprintf(text, sizeof(text),
                 "this is the scheduler of cluster %016" PRIx64
                 " at %s, not of your cluster (%016" PRIx64
                 "); check the names and addresses of the clusters",
                 s->o.cluster, s->address, m->cluster);
        turn_away(s, l, TUG_EUSAGE, text);
        return;
    }
    struct err differs;
    const struct wire_versions theirs = {m->oldest, m->newest};
    if (wire_agree(theirs, m->version, &differs) != 0) {
        turn_away(s, l, differs.code, differs.text);
        return;
    }
    l->greeted = true;
    l->role = van_trust(s->van, l->link).role;
    if (!proof_role_fits(m->role, l->role)) {
        turn_away(s, l, TUG_EUSAGE, "its certificate or token is for another role");
        return;
    }
    if (knows_newer(s, l, m)) {
        be_replaced(s, l, m->generation);
        return;
    }
    struct msg_welcome welcome = {
        .role = WIRE_SCHEDULER,
        .node = 1,
        .generation = s->generation,
        .unix_ns = scheduler_unix_ns(s),
        .version = wire_text(tug_version()),
        .oldest = wire_own_versions().oldest,
        .newest = wire_own_versions().newest,
    };
    scheduler_send(s, l->link, MSG_WELCOME, 0, &welcome);
}

void scheduler_status_serve(struct scheduler *s, struct link *l, uint64_t request,
                            const struct msg_status *m)
{
    (void)m;
    struct buf json = BUF_INIT(WIRE_SPAN_MAX);
    int rc = scheduler_json(s, &json);
    if (rc == 0) {
        struct msg_status_is msg = {.json = {json.data, json.len}};
        scheduler_send(s, l->link, MSG_STATUS_IS, request, &msg);
    } else {
        scheduler_refuse(s, l->link, request, rc, "the status does not fit a message");
    }
    buf_free(&json);
}

void scheduler_note_admin(struct scheduler *s, uint8_t kind, const char *who,
                          enum wire_role role, const char *from, const char *what)
{
    static const char *const kinds[WIRE_OPERATIONS] = {"admin", "save", "profile", "stop",
                                                       "drain"};
    char by[ERR_TEXT_MAX];
    snprintf(by, sizeof(by), "%s (%s) at %s", who,
             wire_role_name(role) != NULL ? wire_role_name(role) : "?", from);
    scheduler_say(s, "operation: %s, by %s", what, by);
    scheduler_note(s, kinds[kind < WIRE_OPERATIONS ? kind : WIRE_OPERATION_OTHER], by,
                   what);
}

void scheduler_operation_serve(struct scheduler *s, struct sched_node *n,
                               uint64_t request, const struct msg_operation *m)
{
    char name[ROSTER_NAME_MAX], from[VAN_ADDRESS_MAX], what[ERR_TEXT_MAX / 2];
    const struct roster_node *who = roster_find(&s->roster, m->node);
    (void)n, (void)request;
    scheduler_note_admin(s, m->kind, who != NULL ? roster_name(who, name) : "a tool",
                         m->role, wire_words(m->from, from, sizeof(from)),
                         wire_words(m->what, what, sizeof(what)));
}

void scheduler_stop_serve(struct scheduler *s, struct link *l, uint64_t request,
                          const struct msg_stop *m)
{
    struct err why = {.code = wire_code(m->code), .reason = wire_known_reason(m->reason)};
    wire_words(m->why, why.text, sizeof(why.text));
    // If the cluster is already ending, this request to stop is not the reason.
    if (s->phase != SCHEDULER_ENDING)
        scheduler_note_admin(s, WIRE_OPERATION_STOP, "a tool", l->role,
                             van_peer(s->van, l->link), "stop");
    scheduler_send(s, l->link, MSG_OK, request, &(struct msg_ok){0});
    scheduler_end_with(s, &why);
}

void scheduler_roster_wanted_serve(struct scheduler *s, struct link *l, uint64_t request,
                                   const struct msg_roster_wanted *m)
{
    struct sched_node *n = l->node != SCHEDULER_NOBODY ? &s->nodes[l->node] : NULL;
    bool ours = m->generation == s->generation; // not a version from an earlier scheduler
    if (n != NULL && ours && m->version > n->roster_version &&
        m->version <= s->roster.version) {
        n->roster_version = m->version;
        s->moving.out_acked = true;
    }
    // A message without a request number only acknowledges a roster.
    if (request != 0 || !ours || m->version < s->roster.version)
        scheduler_send_roster(s, n, l->link, request);
}

// Serves messages from peers that need not have joined. Returns false for all other
// messages.
static bool from_anyone(struct scheduler *s, struct link *l, const struct van_message *m)
{
    switch (m->type) {
    case MSG_HELLO:
        greet(s, l, &m->m->hello);
        return true;
    case MSG_PING:
        scheduler_send(s, l->link, MSG_OK, m->request, &(struct msg_ok){0});
        return true;
    case MSG_OK: // the answer to PING: its arrival is the sign of life
        return true;
#define TO_DOOR(NAME, name)                                                              \
    case MSG_##NAME:                                                                     \
        scheduler_##name##_serve(s, l, m->request, &m->m->name);                         \
        return true;
#include "wire/messages.def"
    default:
        return false;
    }
}

static void from_node(struct scheduler *s, struct sched_node *n,
                      const struct van_message *m)
{
    switch (m->type) {
#define TO_SCHEDULER(NAME, name)                                                         \
    case MSG_##NAME:                                                                     \
        scheduler_##name##_serve(s, n, m->request, &m->m->name);                         \
        return;
#include "wire/messages.def"
    default:
        scheduler_refuse(s, n->link, m->request, TUG_EUSAGE,
                         "the scheduler does not answer messages of this kind");
    }
}

static bool refused_for_role(struct scheduler *s, const struct link *l,
                             const struct van_message *m)
{
    struct err what, e;
    // MSG_OK and MSG_ERROR are answers to the scheduler's own requests on this link.
    if (m->type == MSG_OK || m->type == MSG_ERROR || wire_may(m->type, l->role))
        return false;
    wire_may_not(m->type, l->role, &what);
    err_set(&e, TUG_EUSAGE, "%s: %s", van_peer(s->van, l->link), what.text);
    on_refused(s, &e, s->now);
    scheduler_refuse(s, l->link, m->request, TUG_EUSAGE, what.text);
    return true;
}

static void from_link(struct scheduler *s, struct link *l, const struct van_message *m)
{
    l->heard = s->now;
    if (!l->greeted && m->type != MSG_HELLO) {
        turn_away(s, l, TUG_EDATA, "the first message on a link must be hello");
        return;
    }
    if (l->greeted && refused_for_role(s, l, m))
        return;
    if (l->node != SCHEDULER_NOBODY)
        s->processes[s->nodes[l->node].process].sign_at = s->now;
    if (from_anyone(s, l, m))
        return;
    if (l->node == SCHEDULER_NOBODY) {
        scheduler_refuse(s, l->link, m->request, TUG_EUSAGE, "join the cluster first");
        return;
    }
    struct sched_node *n = &s->nodes[l->node];
    if (n->n.alive || (n->left && m->type == MSG_LEAVE))
        from_node(s, n, m);
}

static void scheduler_on_message(void *ctx, van_link link, struct van_message *m,
                                 uint64_t now)
{
    struct scheduler *s = ctx;
    s->now = now;
    struct link *l = s->replaced ? NULL : find_link(s, link);
    if (l != NULL)
        from_link(s, l, m);
    scheduler_check(s);
}

static void take_out_links(struct scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].link != 0)
            s->links[n++] = s->links[i];
    s->n_links = n;
}

// Closes links of tools that have been silent for a long time; nodes are watched by their
// heartbeats instead.
static uint64_t close_idle(struct scheduler *s)
{
    if (s->now < s->idle_look)
        return s->idle_look;
    s->idle_look = VAN_NEVER; // set again when a tool connects
    for (uint32_t i = 0; i < s->n_links; i++) {
        struct link *l = &s->links[i];
        if (l->link == 0 || l->node != SCHEDULER_NOBODY || l->beats_of != 0)
            continue;
        s->idle_look = s->now + IDLE_LOOK_NS;
        if (s->now - l->heard < IDLE_NS)
            continue;
        scheduler_part(s, l->link);
        scheduler_forget_link(s, l);
    }
    return s->idle_look;
}

static uint64_t scheduler_on_tick(void *ctx, uint64_t now)
{
    struct scheduler *s = ctx;
    s->now = now;
    if (s->replaced)
        return VAN_NEVER;
    scheduler_forgive_silence(s);
    take_out_links(s);
    uint64_t next = clock_earlier(close_idle(s), scheduler_find_dead(s));
    next = clock_earlier(next, scheduler_forget_guests(s));
    scheduler_members_out(s);
    // scheduler_end_tick comes first, because the later calls depend on the phase, which
    // it may change.
    next = clock_earlier(next, scheduler_end_tick(s));
    next = clock_earlier(next, scheduler_plan_tick(s));
    next = clock_earlier(next, scheduler_moves_tick(s));
    next = clock_earlier(next, scheduler_spread_roster(s));
    next = clock_earlier(next, scheduler_work_tick(s));
    next = clock_earlier(next, scheduler_mark_work(s));
    scheduler_keep_tick(s);
    s->due = clock_earlier(next, now + scheduler_timeout(s) / SCHEDULER_LATE_PART);
    scheduler_check(s);
    return s->due;
}

struct van_handler scheduler_handler(struct scheduler *s)
{
    return (struct van_handler){
        .ctx = s,
        .opened = scheduler_on_opened,
        .message = scheduler_on_message,
        .closed = scheduler_on_closed,
        .tick = scheduler_on_tick,
        .refused = on_refused,
    };
}

void scheduler_serve(struct scheduler *s, struct van *v, const char *address)
{
    assert(s->van == NULL && v != NULL);
    s->van = v;
    s->now = s->served_at = s->phase_at = van_now(v);
    s->idle_look = VAN_NEVER;
    s->due = s->now; // the scheduler may be stopped before its first tick
    snprintf(s->address, sizeof(s->address), "%s", address);
    s->changed = true;
    scheduler_restore_serve(s);
}

void scheduler_stop(struct scheduler *s, const struct err *why)
{
    if (s->van != NULL)
        s->now = van_now(s->van);
    scheduler_end_with(s, why != NULL ? why : &(struct err){0});
    scheduler_check(s);
}

bool scheduler_finished(const struct scheduler *s, struct err *ret_why)
{
    if (s->finished && ret_why != NULL)
        *ret_why = s->end;
    return s->finished;
}

bool scheduler_silent(const struct scheduler *s)
{
    return s->replaced || scheduler_cannot_write(s);
}

const struct roster *scheduler_roster(const struct scheduler *s)
{
    return &s->roster;
}

uint64_t scheduler_generation(const struct scheduler *s)
{
    return s->generation;
}

const char *scheduler_address(const struct scheduler *s)
{
    return s->address;
}
