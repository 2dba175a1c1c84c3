// Rare uses of tug/kvapp.h, in real processes: links that break, priorities, slicers,
// values of other types, barriers of customers, messages that the program builds itself.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <arpa/inet.h>

#include "doors/kvapp/node.h"
#include "kit/nodes.h"
#include "os/clock.h"

enum { STORE = 0, COUNT = 1, ORDER = 2, WHO = 3, HAND = 4, WIDE = 5, UNFIT = 6, APPS };
enum { KEYS = 64, PUSHES = 1500, SLOW = 99, TELL = 98, EMPTY = 97 };

#define HALF ((uint64_t)1 << 63) // the first key of the second server's range

// Flags in memory that all processes share: the slow handler has begun, and it may end.
static struct shared {
    atomic_bool begun, may_end;
} * shared;

static void until(const atomic_bool *x)
{
    while (!atomic_load(x))
        (void)poll(NULL, 0, 1);
}

// ---------------------------------------------------------------- servers

// Counts its calls, and answers with the count.
static void count(void *ctx, struct tug_app *a, const struct tug_simple *q)
{
    atomic_uint *n = ctx;
    uint32_t now = atomic_fetch_add(n, 1) + 1;
    expect(tug_app_answer(a, q->ticket, &now, sizeof(now)) == 0);
}

// Records the commands in the order in which they are handled; the first one is slow.
struct noted {
    float cmds[8];
    uint32_t n;
};

static void note(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                 const struct tug_kv_data *d)
{
    struct noted *o = ctx;
    struct tug_kv_data said = {
        .n_keys = d->n_keys, .values = o->cmds, .n_values = 8, .value_bytes = 0};
    if (m->cmd == SLOW) {
        atomic_store(&shared->begun, true);
        until(&shared->may_end);
    }
    if (!m->pull)
        o->cmds[o->n++ % 8] = (float)m->cmd;
    expect(tug_kv_answer(a, m->ticket, m->pull ? &said : NULL, NULL, NULL) == 0);
}

// Answers every key with the rank of the server.
static void say_who(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                    const struct tug_kv_data *d)
{
    float who[KEYS];
    (void)ctx;
    expect(d->n_keys <= KEYS);
    for (size_t i = 0; i < d->n_keys; i++)
        who[i] = (float)tug_node_rank(tug_app_node(a));
    struct tug_kv_data said = {.n_keys = d->n_keys, .values = who, .n_values = d->n_keys};
    expect(tug_kv_answer(a, m->ticket, &said, NULL, NULL) == 0);
}

// Returns the pushed values, which are integers of eight bytes.
static void repeat(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                   const struct tug_kv_data *d)
{
    struct tug_kv_data said = *d;
    (void)ctx;
    expect(d->value_bytes == 8);
    expect(tug_kv_answer(a, m->ticket, &said, NULL, NULL) == 0);
}

// Sends answers that do not fit the request. tug_kv_answer() refuses an answer with one value too
// many or with lengths that do not add up, and sends nothing. An answer that exceeds a frame is
// refused at both ends. An answer without values (EMPTY) is refused by the node that pulls.
static void answer_wrongly(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                           const struct tug_kv_data *d)
{
    const float value = 1;
    const int32_t lengths[] = {1, 1};
    struct tug_kv_data said = {.n_keys = 2, .values = &value, .n_values = 3};
    (void)ctx, (void)d;
    if (m->cmd == EMPTY) {
        expect(tug_app_answer(a, m->ticket, NULL, 0) == 0);
        return;
    }
    expect(tug_kv_answer(a, m->ticket, &said, NULL, NULL) == TUG_EUSAGE);
    said.lengths = lengths;
    expect(tug_kv_answer(a, m->ticket, &said, NULL, NULL) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "add up to 2") != NULL);
    said.n_values = (size_t)1 << 29;
    said.lengths = NULL;
    expect(tug_kv_answer(a, m->ticket, &said, NULL, NULL) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "too long") != NULL);
}

// Answers a message that has data with the same data, and one without data with its body.
static void by_hand(void *ctx, struct tug_app *a, const struct tug_message *m)
{
    struct tug_message answer = *m;
    (void)ctx;
    expect(m->request && m->ticket != 0);
    answer.request = false;
    answer.receiver = m->sender;
    answer.head = m->head + 1;
    expect(tug_message_send(tug_app_node(a), &answer) == 0);
    // A ticket can be answered only once.
    expect(tug_message_send(tug_app_node(a), &answer) == TUG_EUSAGE);
}

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_kv_default *store;
    struct tug_app *app;
    struct noted noted = {0};
    atomic_uint counted = 0;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_kv_default_open(&store) == 0);
    const struct tug_app_handlers h[APPS] = {
        [STORE] = {.kv = tug_kv_default_handle, .ctx = store},
        [COUNT] = {.request = count, .ctx = &counted},
        [ORDER] = {.kv = note, .ctx = &noted},
        [WHO] = {.kv = say_who},
        [HAND] = {.message = by_hand},
        [WIDE] = {.kv = repeat},
        [UNFIT] = {.kv = answer_wrongly},
    };
    for (uint32_t i = 0; i < APPS; i++)
        expect(tug_app_open(&app, n, i, i, &h[i]) == 0);
    int rc = tug_node_finalize(n, true);
    tug_kv_default_close(store);
    return rc;
}

static int schedule(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SCHEDULER, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return tug_node_finalize(n, true);
}

static struct tug_node *start_worker(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return n;
}

static struct tug_app *open_app(struct tug_node *n, uint32_t app, uint32_t customer)
{
    struct tug_app *a;
    expect(tug_app_open(&a, n, app, customer, NULL) == 0);
    return a;
}

static void all_end(nodes_main worker)
{
    int status[NODES_PROCESSES];
    nodes_run(schedule, serve, worker, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// Links break: the worker repeatedly shuts its own sockets to the servers, whatever the
// node's threads are doing.

struct breaker {
    uint16_t ports[NODES_SERVERS];
    uint32_t broken;
};

static bool is_to_server(const struct breaker *b, int fd)
{
    struct sockaddr_in to;
    socklen_t n = sizeof(to);
    if (getpeername(fd, (struct sockaddr *)&to, &n) != 0 || to.sin_family != AF_INET)
        return false;
    for (int s = 0; s < NODES_SERVERS; s++)
        if (ntohs(to.sin_port) == b->ports[s])
            return true;
    return false;
}

static void break_links(struct breaker *b)
{
    for (int fd = 3; fd < 256; fd++)
        if (is_to_server(b, fd))
            b->broken += shutdown(fd, SHUT_RDWR) == 0;
}

static void find_ports(struct tug_node *n, struct breaker *b)
{
    for (uint32_t s = 0; s < NODES_SERVERS; s++) {
        struct tug_node_info info;
        expect(tug_node_find(n, 8 + 2 * s, &info) == 0);
        expect(info.role == TUG_GROUP_SERVERS && info.rank == s && info.port != 0);
        b->ports[s] = info.port;
    }
}

static void push_often(struct tug_app *a, struct breaker *b, const uint64_t *keys,
                       const float *values)
{
    uint32_t ts[PUSHES];
    struct tug_kv_request q = {.push = true, .data = {keys, KEYS, values, KEYS, NULL, 0}};
    for (int i = 0; i < PUSHES; i++) {
        expect(tug_kv_send(a, &q, &ts[i]) == 0);
        if (i % 100 == 50)
            break_links(b);
        if (i % 100 == 99) // waits for an answer, so that the links are open again
            expect(tug_app_wait(a, ts[i]) == 0);
    }
    for (int i = 0; i < PUSHES; i++)
        expect(tug_app_wait(a, ts[i]) == 0);
}

static struct tug_kv_request pull_of(const uint64_t *keys, size_t n, float *got)
{
    return (struct tug_kv_request){
        .pull = true, .data = {.keys = keys, .n_keys = n}, .pulled = got, .n_pulled = n};
}

static void ask(struct tug_app *a, const struct tug_kv_request *q)
{
    uint32_t ts;
    expect(tug_kv_send(a, q, &ts) == 0);
    expect(tug_app_wait(a, ts) == 0);
}

// Pushes while links break: every push counts once, and every answer arrives.
static int work_on_breaking_links(const char *scheduler)
{
    struct tug_node *n = start_worker(scheduler);
    struct tug_app *store = open_app(n, STORE, 0), *counter = open_app(n, COUNT, 0);
    struct breaker b = {0};
    uint64_t keys[KEYS];
    float values[KEYS], got[KEYS];
    uint32_t ts;
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * (UINT64_MAX / KEYS) + tug_node_rank(n);
        values[i] = (float)i + 1;
    }
    find_ports(n, &b);
    push_often(store, &b, keys, values);
    struct tug_kv_request both = pull_of(keys, KEYS, got);
    both.push = true;
    both.data = (struct tug_kv_data){keys, KEYS, values, KEYS, NULL, 0};
    for (int i = 0; i < 200; i++) {
        ask(store, &both);
        expect(tug_app_request(counter, 0, NULL, 0, TUG_GROUP_SERVERS, &ts) == 0);
        if (i % 20 == 10)
            break_links(&b);
        expect(tug_app_wait(counter, ts) == 0);
    }
    expect(b.broken >= 10);
    struct tug_kv_request q = pull_of(keys, KEYS, got);
    ask(store, &q);
    for (int i = 0; i < KEYS; i++)
        expect(got[i] == (PUSHES + 200) * values[i]);
    return tug_node_finalize(n, true);
}

// The count of requests in the latest answer of the server. After the last request, this
// count includes the requests of all workers.
static atomic_uint heard;

static void hear(void *ctx, struct tug_app *a, const struct tug_simple *r)
{
    uint32_t n;
    (void)ctx, (void)a;
    expect(r->body_bytes == sizeof(n));
    memcpy(&n, r->body, sizeof(n));
    atomic_store(&heard, n);
}

static int work_and_count(const char *scheduler)
{
    struct tug_node *n = start_worker(scheduler);
    struct tug_app_handlers h = {.response = hear};
    struct tug_app *a;
    struct breaker b = {0};
    uint32_t ts;
    expect(tug_app_open(&a, n, COUNT, 0, &h) == 0);
    find_ports(n, &b);
    for (int i = 0; i < 300; i++) {
        expect(tug_app_request(a, 0, NULL, 0, 8, &ts) == 0);
        if (i % 20 == 10)
            break_links(&b);
        expect(tug_app_wait(a, ts) == 0);
    }
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    if (tug_node_rank(n) == 0) {
        expect(tug_app_request(a, 0, NULL, 0, 8, &ts) == 0 && tug_app_wait(a, ts) == 0);
        expect(atomic_load(&heard) == 300 * NODES_WORKERS + 1);
    }
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    return tug_node_finalize(n, true);
}

static void links_break(void **state)
{
    (void)state;
    all_end(work_on_breaking_links);
    all_end(work_and_count);
}

// Priorities decide the order of the requests that wait behind a slow handler.

static int work_by_priority(const char *scheduler)
{
    struct tug_node *n = start_worker(scheduler);
    struct tug_app *a = open_app(n, ORDER, 0), *counter = open_app(n, COUNT, 0);
    const uint64_t key = 1;
    const float value = 1, right[] = {SLOW, 3, 4, 2, 1};
    float got[8];
    uint32_t ts[5], count;
    if (tug_node_rank(n) == 0) {
        struct tug_kv_request q = {.push = true, .data = {&key, 1, &value, 1, NULL, 0}};
        for (int i = 0; i < 5; i++) {
            q.cmd = i == 0 ? SLOW : i;
            q.priority = i < 2 ? 0 : i == 2 ? 1 : 7;
            expect(tug_kv_send(a, &q, &ts[i]) == 0);
            if (i == 0)
                until(&shared->begun);
        }
        // The other server answers the request that was sent last, so all five pushes
        // have been sent: they wait at the first server until its handler is done.
        expect(tug_app_request(counter, 0, NULL, 0, 10, &count) == 0);
        expect(tug_app_wait(counter, count) == 0);
        atomic_store(&shared->may_end, true);
        for (int i = 0; i < 5; i++)
            expect(tug_app_wait(a, ts[i]) == 0);
        struct tug_kv_request p = pull_of(&key, 1, got);
        p.n_pulled = 8;
        ask(a, &p);
        expect(memcmp(got, right, sizeof(right)) == 0);
    }
    return tug_node_finalize(n, true);
}

static void priorities(void **state)
{
    (void)state;
    *shared = (struct shared){0};
    all_end(work_by_priority);
}

// ---------------------------------------------------- slicers, and values of other types

struct slicer {
    int mode;
    const uint64_t *keys;
};

enum { SWAP, BROADCAST, HOLES, TWICE, WRONG, FAILS };

static int slice(void *ctx, const struct tug_kv_data *d, uint32_t servers,
                 const uint64_t *last_keys, struct tug_kv_data *ret)
{
    const struct slicer *s = ctx;
    size_t half = d->n_keys / 2;
    expect(servers == 2 && last_keys[0] == HALF - 1 && last_keys[1] == UINT64_MAX);
    struct tug_kv_data first = {.keys = d->keys, .n_keys = half},
                       second = {.keys = d->keys + half, .n_keys = d->n_keys - half};
    if (d->values != NULL) {
        first.values = d->values;
        first.n_values = half;
        second.values = d->values + half;
        second.n_values = d->n_keys - half;
    }
    ret[0] = second;
    ret[1] = first;
    if (s->mode == BROADCAST)
        ret[0] = ret[1] = *d;
    if (s->mode == HOLES)
        ret[0].n_keys--;
    if (s->mode == TWICE)
        ret[1].n_keys++;
    if (s->mode == WRONG)
        ret[1].keys = s->keys;
    return s->mode == FAILS ? -1 : 0;
}

static void check_slicers(struct tug_node *n)
{
    struct tug_app *who = open_app(n, WHO, 0), *store = open_app(n, STORE, 0);
    const uint64_t keys[] = {1, 2, HALF + 1, HALF + 2}, others[] = {5, 6};
    const float ones[] = {1, 1, 1, 1};
    float got[4];
    uint32_t ts;
    struct slicer s = {.mode = SWAP, .keys = others};
    struct tug_kv_request q = pull_of(keys, 4, got);
    ask(who, &q);
    expect(got[0] == 0 && got[1] == 0 && got[2] == 1 && got[3] == 1);
    q.slice = slice;
    q.ctx = &s;
    ask(who, &q);
    expect(got[0] == 1 && got[1] == 1 && got[2] == 0 && got[3] == 0);
    for (s.mode = HOLES; s.mode <= FAILS; s.mode++) {
        expect(tug_kv_send(who, &q, &ts) == TUG_EUSAGE);
        expect(strstr(tug_last_error(), "slicer") != NULL);
    }
    s.mode = BROADCAST; // only a push may be broadcast
    expect(tug_kv_send(who, &q, &ts) == TUG_EUSAGE);
    struct tug_kv_request push = {
        .push = true, .data = {keys, 4, ones, 4, NULL, 0}, .slice = slice, .ctx = &s};
    ask(store, &push);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    s.mode = SWAP;
    q = pull_of(keys, 4, got);
    ask(store, &q);
    expect(got[0] == NODES_WORKERS && got[3] == NODES_WORKERS);
    q.slice = slice;
    q.ctx = &s;
    ask(store, &q);
    expect(got[0] == NODES_WORKERS && got[3] == NODES_WORKERS);
}

static void check_types(struct tug_node *n)
{
    struct tug_app *wide = open_app(n, WIDE, 0), *store = open_app(n, STORE, 1);
    const uint64_t keys[] = {3, HALF + 3};
    const int64_t values[] = {-1, INT64_MIN, 7, (int64_t)0x7ff0000000000001};
    int64_t got[4] = {0};
    uint32_t ts;
    struct tug_kv_request q = {
        .push = true,
        .pull = true,
        .data = {keys, 2, (const float *)values, 4, NULL, 8},
        .pulled = (float *)got,
        .n_pulled = 4,
    };
    ask(wide, &q);
    expect(memcmp(values, got, sizeof(got)) == 0);
    q.data.value_bytes = 3;
    expect(tug_kv_send(wide, &q, &ts) == TUG_EUSAGE);
    q.data.value_bytes = 8; // the default store adds floats
    expect(tug_kv_send(store, &q, &ts) == 0 && tug_app_wait(store, ts) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "floats") != NULL);
}

static float *no_room(void *ctx, size_t n)
{
    (void)n;
    *(bool *)ctx = true; // the values have not arrived, so this must not be called
    return NULL;
}

// Checks that an answer without values is refused, with the request's number in the
// error, whether the program or the library owns the array for the values.
static void check_empty_answers(struct tug_node *n)
{
    struct tug_app *a = tug_app_find(n, UNFIT, 0, 0);
    const uint64_t keys[] = {3, 4};
    float got[2];
    bool asked = false;
    struct tug_kv_request in_place = pull_of(keys, 2, got), with_room = in_place;
    in_place.cmd = with_room.cmd = EMPTY;
    with_room.pulled = NULL;
    with_room.n_pulled = 0;
    with_room.room = no_room;
    with_room.ctx = &asked;
    const struct tug_kv_request *both[] = {&in_place, &with_room};
    for (int i = 0; i < 2; i++) {
        char request[40];
        uint32_t ts;
        expect(tug_kv_send(a, both[i], &ts) == 0 && tug_app_wait(a, ts) == TUG_EDATA);
        (void)snprintf(request, sizeof(request), "request %u pulls values of 2 keys", ts);
        expect(strstr(tug_last_error(), "it has no values") != NULL);
        expect(strstr(tug_last_error(), request) != NULL);
    }
    expect(!asked);
}

// Checks that a node gets an error soon when the answer to its request cannot be sent,
// and does not wait for wait_seconds.
static void check_wrong_answers(struct tug_node *n)
{
    struct tug_app *a = open_app(n, UNFIT, 0);
    const uint64_t keys[] = {3, 4}, begin = clock_ns();
    float got[2];
    struct tug_kv_request q = pull_of(keys, 2, got);
    uint32_t ts;
    expect(tug_kv_send(a, &q, &ts) == 0 && tug_app_wait(a, ts) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "too long") != NULL);
    expect(clock_ns() - begin < (uint64_t)20000000000);
    check_empty_answers(n);
}

// ----------------------------------------------- messages that the program builds itself

struct letters {
    atomic_int n, right;
};

static void read_letter(void *ctx, struct tug_app *a, const struct tug_message *m)
{
    struct letters *l = ctx;
    (void)a;
    atomic_fetch_add(&l->n, 1);
    bool simple = m->simple && m->body_bytes == 5 && memcmp(m->body, "hello", 5) == 0;
    bool data = !m->simple && m->data_bytes[0] == 16 && m->data_bytes[1] == 8 &&
                ((const float *)m->data[1])[1] == 2;
    atomic_fetch_add(&l->right, !m->request && m->head == 8 && (simple || data));
}

static void check_messages(struct tug_node *n)
{
    struct letters l = {0};
    struct tug_app_handlers h = {.message = read_letter, .ctx = &l};
    struct tug_app *a;
    const uint64_t keys[] = {1, 2};
    const float values[] = {1, 2};
    uint32_t ts, answers;
    expect(tug_app_open(&a, n, HAND, 6, &h) == 0);
    expect(tug_app_find(n, HAND, 6, 0) == a && tug_app_find(n, HAND, 7, 0.01) == NULL);
    expect(tug_app_new_request(a, TUG_GROUP_SERVERS, &ts) == 0 && ts == 0);
    struct tug_message m = {.head = 7,
                            .request = true,
                            .simple = true,
                            .app = HAND,
                            .customer = 6,
                            .timestamp = ts,
                            .receiver = 8,
                            .body = "hello",
                            .body_bytes = 5};
    expect(tug_message_send(n, &m) == 0);
    expect(tug_message_send(n, &m) == TUG_EUSAGE); // a request can be sent only once
    m.receiver = 9;
    expect(tug_message_send(n, &m) == TUG_EUSAGE); // the receiver is not a server
    m.receiver = 10;
    m.simple = false;
    m.push = m.pull = true;
    m.body_bytes = 0;
    m.data[0] = keys;
    m.data[1] = values;
    m.data_bytes[0] = sizeof(keys);
    m.data_bytes[1] = 7;
    expect(tug_message_send(n, &m) == TUG_EUSAGE); // the values are not floats
    m.data_bytes[1] = sizeof(values);
    expect(tug_message_send(n, &m) == 0);
    expect(tug_app_wait(a, ts) == 0);
    expect(atomic_load(&l.n) == 2 && atomic_load(&l.right) == 2);
    expect(tug_app_responses(a, ts, &answers) == 0 && answers == 2);
    expect(tug_app_new_request(a, TUG_GROUP_SERVERS, &ts) == 0 && ts == 1);
    expect(tug_app_responses(a, ts, &answers) == 0 && answers == 0);
    expect(tug_app_add_responses(a, ts, 3) == TUG_EUSAGE);
    expect(tug_app_add_responses(a, ts, 1) == 0);
    expect(tug_app_responses(a, ts, &answers) == 0 && answers == 1);
    expect(tug_app_add_responses(a, ts, 1) == 0);
    expect(tug_app_wait(a, ts) == 0);
    expect(tug_app_responses(a, ts + 1, &answers) == TUG_EUSAGE);
}

static int work_otherwise(const char *scheduler)
{
    struct tug_node *n = start_worker(scheduler);
    check_slicers(n);
    check_types(n);
    check_wrong_answers(n);
    check_messages(n);
    expect(tug_node_reach(n, 8) == 0 && tug_node_reach(n, 77) == TUG_EUSAGE);
    return tug_node_finalize(n, true);
}

static void slicers_types_messages(void **state)
{
    (void)state;
    all_end(work_otherwise);
}

// Barriers of customers are independent: customer 2 passes three while customer 1 passes
// none.

struct party {
    struct tug_node *n;
    struct tug_app *store;
    uint32_t customer;
    int rounds;
};

// A worker that passes the barrier of a round sees all pushes of this round and of
// earlier rounds.
static void *meet(void *arg)
{
    struct party *p = arg;
    const uint64_t key = 1000 + p->customer;
    const float one = 1;
    float got;
    struct tug_kv_request push = {.push = true, .data = {&key, 1, &one, 1, NULL, 0}},
                          pull = pull_of(&key, 1, &got);
    for (int i = 1; i <= p->rounds; i++) {
        for (int k = 0; tug_node_rank(p->n) == p->customer % 2 && k < 50; k++)
            ask(p->store, &pull); // delays one of the workers
        ask(p->store, &push);
        expect(tug_node_barrier_of(p->n, p->customer, TUG_GROUP_WORKERS) == 0);
        ask(p->store, &pull);
        expect(got >= (float)(i * NODES_WORKERS));
        expect(tug_node_barrier_of(p->n, p->customer, TUG_GROUP_WORKERS) == 0);
    }
    return NULL;
}

static int work_in_parties(const char *scheduler)
{
    struct tug_node *n = start_worker(scheduler);
    struct party p[] = {{n, open_app(n, STORE, 0), 0, 2},
                        {n, open_app(n, STORE, 1), 1, 1},
                        {n, open_app(n, STORE, 2), 2, 3}};
    pthread_t threads[3];
    (void)meet(&p[2]); // no thread waits in another customer's barrier yet
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, meet, &p[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    expect(tug_node_barrier_of(n, 1, TUG_GROUP_SERVERS) == TUG_EUSAGE);
    return tug_node_finalize(n, true);
}

// The error of a barrier names the missing worker.
static int work_without_one(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    if (tug_node_rank(n) == 0) {
        double patience = n->o.wait_seconds;
        n->o.wait_seconds = 0.5;
        expect(tug_node_barrier_of(n, 4, TUG_GROUP_WORKERS) == TUG_EIO);
        expect(strstr(tug_last_error(), "worker 1") != NULL);
        n->o.wait_seconds = patience;
        atomic_store(&shared->may_end, true);
    } else {
        until(&shared->may_end); // the process stays alive
    }
    return tug_node_finalize(n, false);
}

static int serve_quietly(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return tug_node_finalize(n, false);
}

static void barriers(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    all_end(work_in_parties);
    *shared = (struct shared){0};
    nodes_run(nodes_schedule, serve_quietly, work_without_one, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_break),
        cmocka_unit_test(priorities),
        cmocka_unit_test(slicers_types_messages),
        cmocka_unit_test(barriers),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
