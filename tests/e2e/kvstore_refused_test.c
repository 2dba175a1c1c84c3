// The servers of a kvstore refuse values that are not finite, pushes that are marked as
// pulls, and workers that wait for keys that nobody makes; their memory stays within its
// limits. The other worker and the rounds are not disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "doors/kvapp/node.h"
#include "doors/kvstore/kvstore_internal.h"
#include "doors/kvstore/server.h"
#include "kit/nodes.h"

enum { ROWS = 5, WIDTH = 3, N = ROWS * WIDTH, KEY = 3 };

// Set when the server has worker 0's push; in memory that the processes share.
static atomic_bool *first_is_there;

static struct tug_kvstore *open_store(const char *scheduler)
{
    struct tug_node_options node;
    struct tug_kvstore_options o = {.type = "dist_sync", .node = &node};
    struct tug_kvstore *s;
    nodes_options(&node, TUG_GROUP_WORKERS, scheduler);
    expect(tug_kvstore_open(&s, &o) == 0);
    return s;
}

static const struct kvs_entry *entry(const struct tug_kvstore *s)
{
    size_t i = 0;
    for (; i < s->entries.n; i++)
        if (((const struct kvs_entry *)s->entries.list[i])->key.number == KEY)
            break;
    expect(i < s->entries.n);
    return s->entries.list[i];
}

// Sends a message to the server of the key, as a malicious program could.
static int say(struct tug_kvstore *s, enum kvs_cmd cmd, bool push, bool pull,
               const uint32_t *words, size_t n)
{
    const struct kvs_entry *x = entry(s);
    uint32_t to = s->node->servers[x->pieces[0].server], ts;
    uint64_t first, last, key;
    expect(tug_node_range(s->node, x->pieces[0].server, &first, &last) == 0);
    key = first + x->key.id;
    expect(tug_app_new_request(s->app, to, &ts) == 0);
    struct tug_message m = {
        .head = (int32_t)cmd,
        .request = true,
        .push = push,
        .pull = pull,
        .app = KVS_APP,
        .customer = KVS_APP,
        .timestamp = ts,
        .receiver = to,
        .data = {&key, words},
        .data_bytes = {sizeof(key), n * sizeof(*words)},
    };
    expect(tug_message_send(s->node, &m) == 0);
    return tug_app_wait(s->app, ts);
}

// Builds a push of ones to the key, with a chosen value in the middle.
static size_t push_words(uint32_t words[64], enum tug_dtype dtype, float odd)
{
    struct kvs_head h = {.dtype = dtype, .rows = ROWS, .width = WIDTH, .threshold = odd};
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = i == 7 ? odd : 1;
    memcpy(words, &h, sizeof(h));
    memcpy((char *)words + sizeof(h), values, sizeof(values));
    return sizeof(h) / 4 + N;
}

static void by_hand(struct tug_kvstore *s)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    uint32_t words[64];
    for (int i = 0; i < 3; i++) {
        size_t n = push_words(words, TUG_FLOAT32, odd[i]);
        expect(say(s, KVS_PUSH, true, false, words, n) == TUG_EUSAGE);
        expect(strstr(tug_last_error(), "key 3: element 7"));
        struct kvs_head *h = (struct kvs_head *)(void *)words;
        h->coding = KVS_2BIT; // 2-bit values are multiples of the threshold
        expect(say(s, KVS_PUSH_CODED, true, false, words, sizeof(*h) / 4 + 1) ==
               TUG_EUSAGE);
        expect(strstr(tug_last_error(), "key 3"));
    }
    size_t n = push_words(words, TUG_FLOAT32, 1);
    expect(say(s, KVS_PUSH, false, false, words, n) == TUG_EDATA);
    expect(strstr(tug_last_error(), "is not marked as one"));
    if (s->rank == 0) {
        expect(say(s, KVS_INIT, false, false, words, n) == TUG_EDATA);
        expect(strstr(tug_last_error(), "needs a value"));
    }
    // A push that is marked as a pull is answered without an error.
    expect(say(s, KVS_PUSH, false, true, words, n) == 0);
}

// Every call that takes an array refuses values that are not finite before it sends
// anything.
static void by_calls(struct tug_kvstore *s)
{
    float w[N] = {0};
    int64_t ids[] = {0, 4};
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0};
    struct tug_array rows = {TUG_FLOAT32, true, ROWS, WIDTH, w, ids, 2};
    struct tug_kvstore_item item = {{.number = KEY}, &a}, fresh = {{.number = 9}, &a};
    w[4] = NAN;
    expect(tug_kvstore_push(s, &item, 1, 0) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "key 3: element 4"));
    expect(tug_kvstore_init(s, &fresh, 1) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "key 9: element 4"));
    item.array = &rows;
    expect(tug_kvstore_push(s, &item, 1, 0) == TUG_EUSAGE);
    float good[N] = {0};
    struct tug_array b = a;
    b.data = good;
    struct tug_kvstore_item both[] = {{{.number = KEY}, &b}, {{.number = KEY + 1}, &a}};
    expect(tug_kvstore_init(s, &(struct tug_kvstore_item){{.number = KEY + 1}, &b}, 1) ==
           0);
    // The first array is not sent either.
    expect(tug_kvstore_push(s, both, 2, 0) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "key 4: element 4"));
    w[4] = FLT_MAX;
    both[0] = both[1]; // two finite arrays whose sum is not finite
    expect(tug_kvstore_push(s, both, 2, 0) == TUG_EUSAGE);
    item.array = &a;
    // A pull ignores the previous contents of the array.
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
}

// A worker may wait for at most KVS_WANTED_MAX keys that do not exist yet.
static void ask_for_many(struct tug_kvstore *s)
{
    uint32_t ts[KVS_WANTED_MAX + 1], server = 0;
    for (uint64_t i = 0; i <= KVS_WANTED_MAX; i++)
        expect(kvs_dist_ask(s, KVS_META, (int)server, &i, sizeof(i), &ts[i]) == 0);
    expect(tug_app_wait(s->app, ts[KVS_WANTED_MAX]) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "already waits for 64 keys"));
    pump_enter(s->node->pump);
    for (int i = 0; i < KVS_WANTED_MAX; i++)
        expect(kv_request_find(s->app, ts[i]) != NULL);
    kv_requests_give_up(s->app);
    pump_leave(s->node->pump);
}

static struct kvs_missing missing(struct tug_kvstore *s, struct kvs_who w, size_t n)
{
    uint32_t ts, server = entry(s)->pieces[0].server;
    struct kvs_missing m = {0};
    expect(kvs_dist_ask(s, KVS_WHO, (int)server, &w, n, &ts) == 0);
    expect(kvs_dist_wait(s, ts, NULL) == (n == sizeof(w) ? 0 : TUG_EDATA));
    struct kvs_reply *r = kvs_dist_reply(s, ts, server);
    expect((r != NULL) == (n == sizeof(w)));
    if (r != NULL)
        memcpy(&m, r->bytes, sizeof(m));
    mem_free(r);
    return m;
}

// Worker 1 asks which workers its key, another key and the barrier wait for.
static void ask_who(struct tug_kvstore *s)
{
    struct kvs_who w = {.id = entry(s)->key.id};
    struct kvs_missing m = missing(s, w, sizeof(w));
    expect(m.made == 1 && m.n == 1 && m.ranks[0] == 1);
    w.id++;
    m = missing(s, w, sizeof(w));
    expect(m.made == 0 && m.n == 0);
    w.barrier = 1;
    m = missing(s, w, sizeof(w));
    expect(m.n == NODES_WORKERS && m.ranks[1] == 1);
    (void)missing(s, w, sizeof(w) - 1);
}

// Worker 0 has pushed to the round. Worker 1 sends a wrong push, which is refused, and
// the round continues.
static void be_second(struct tug_kvstore *s)
{
    const struct kvs_entry *x = entry(s);
    uint32_t words[64];
    size_t n = push_words(words, TUG_FLOAT32, INFINITY);
    // The server has the push when it has answered the request sent after it.
    if (s->rank == 0) {
        expect(kvs_dist_tell(s, KVS_META, (int)x->pieces[0].server, &x->key.id,
                             sizeof(x->key.id)) == 0);
        atomic_store(first_is_there, true);
        return;
    }
    while (!atomic_load(first_is_there))
        poll(NULL, 0, 1);
    expect(say(s, KVS_PUSH, true, false, words, n) == TUG_EUSAGE);
    expect(strstr(tug_last_error(), "key 3: element 7"));
    ask_who(s);
}

static int work(const char *scheduler)
{
    struct tug_kvstore *s = open_store(scheduler);
    float w[N];
    struct tug_array a = {TUG_FLOAT32, false, ROWS, WIDTH, w, NULL, 0};
    struct tug_kvstore_item item = {{.number = KEY}, &a};
    for (int i = 0; i < N; i++)
        w[i] = 0;
    expect(tug_kvstore_init(s, &item, 1) == 0);
    by_hand(s);
    by_calls(s);
    for (int i = 0; i < N; i++)
        w[i] = (float)i;
    if (s->rank == 1)
        be_second(s);
    expect(tug_kvstore_push(s, &item, 1, 0) == 0);
    if (s->rank == 0)
        be_second(s);
    expect(tug_kvstore_pull(s, &item, 1, 0) == 0);
    for (int i = 0; i < N; i++)
        expect(w[i] == (float)(NODES_WORKERS * i));
    expect(tug_kvstore_barrier(s) == 0);
    ask_for_many(s);
    tug_kvstore_barrier_before_exit(s, false);
    expect(tug_kvstore_close(s) == 0);
    return 0;
}

static void refused(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    first_is_there = mmap(NULL, sizeof(*first_is_there), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(first_is_there != MAP_FAILED);
    nodes_run(nodes_kvstore_schedule, nodes_kvstore_serve, work, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
