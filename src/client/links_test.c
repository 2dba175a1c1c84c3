// Tests the client's links to loops: the client knows which lists of keys a loop
// remembers, and a request that is given up leaves no memory in use by any link.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "base/random.h"
#include "kit/fake_servers.h"
#include "kit/test.h"

enum { MOST = 10 << 20, DRAWS = 60, SIGNATURES = 12 };

// Compares the client's record of a loop's lists with the loop's own, for lists that are
// large enough to reach the loop's limit.
static void test_lists_as_a_loop_keeps_them(void **state)
{
    (void)state;
    struct cluster *c = fake_open(1, 1, NULL);
    struct peer *p = peer_of(c->client, FIRST_NODE);
    uint64_t *keys = mem_zalloc(MOST * sizeof(*keys));
    struct keys_scratch scratch;
    struct key_lists lists = {0};
    struct keys k;
    uint64_t hits = 0, misses = 0, large = 0;
    assert_non_null(keys);
    assert_int_equal(keys_scratch_init(&scratch, 0), 0);
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t list = 1 + random_below(1, 2, i, SIGNATURES);
        uint32_t n = (uint32_t)(list == 1 ? MOST : list * list << 14);
        struct keys_wire w = {.n = n, .list = list};
        bool room = peer_has_room(p, n * sizeof(*keys));
        assert_int_equal(room, list != 1);
        large += !room;
        if (!room)
            continue;
        bool known = peer_knows(p, list, n * sizeof(*keys));
        if (!known)
            w.span = (struct wire_span){keys, n * sizeof(*keys)};
        bool kept = false;
        for (size_t l = 0; l < KEYS_LISTS; l++)
            kept |= lists.list[l].signature == list;
        assert_int_equal(known, kept);
        assert_int_equal(keys_read(&scratch, &lists, &w, WIRE_SPACE_SPARSE, &k, NULL), 0);
        hits += known;
        misses += !known;
    }
    assert_true(hits > DRAWS / 8 && misses > DRAWS / 8 && large > 0);
    key_lists_free(&lists);
    keys_scratch_fini(&scratch);
    mem_free(keys);
    fake_close(c);
}

// If a loop has less room than the client assumes, the client does not keep using lists
// that the loop has forgotten.
static void test_lists_that_are_forgotten(void **state)
{
    (void)state;
    struct cluster *c = fake_open(1, 2, NULL);
    struct peer *p = peer_of(c->client, FIRST_NODE);
    for (uint64_t i = 1; i <= 4; i++)
        assert_false(peer_knows(p, i, 1000));
    peer_forgets(p, 99);
    assert_true(peer_has_room(p, KEYS_LISTS_BYTES));
    peer_forgets(p, 2); // a single time, as if a message was lost
    assert_true(peer_has_room(p, KEYS_LISTS_BYTES));
    assert_false(peer_knows(p, 2, 1000));
    peer_forgets(p, 3);
    assert_true(peer_has_room(p, 2000) && !peer_has_room(p, 2001));
    assert_true(peer_knows(p, 2, 1000));
    assert_false(peer_knows(p, 5, 1000));
    assert_false(peer_knows(p, 6, 1000));
    assert_false(peer_knows(p, 2, 1000)); // the loop has room for two lists only
    struct err why = {0};
    peer_break(p, &why, van_now(c->van)); // a new link starts without lists
    assert_true(peer_has_room(p, KEYS_LISTS_BYTES));
    fake_close(c);
}

// A van that holds all bodies until their link is closed, and then releases them inside
// van_close_link. It calls the simulated van, which copies the bodies.
enum { MOST_PENDING = 16 };
static const struct van_ops *under;
static struct {
    van_link link;
    struct van_release release;
} held[MOST_PENDING];
static size_t n_held;

static int send_and_keep(struct van *v, van_link link, uint16_t type, uint64_t request,
                         const void *msg, const struct van_release *release)
{
    if (release != NULL) {
        assert_true(n_held < MOST_PENDING);
        held[n_held].link = link;
        held[n_held++].release = *release;
    }
    return under->send(v, link, type, request, msg, NULL);
}

static void close_and_give(struct van *v, van_link link)
{
    for (size_t i = 0; i < n_held;) {
        if (held[i].link != link) {
            i++;
            continue;
        }
        struct van_release r = held[i].release;
        held[i] = held[--n_held];
        r.release(r.ctx);
    }
    under->close_link(v, link);
}

// When the first link breaks, its requests leave the list that client_cancel walks over.
// The other links must be broken, too: otherwise the caller's memory would still be in
// use after client_cancel.
static void test_given_up_request_holds_no_memory(void **state)
{
    (void)state;
    enum { MANY = 6000 }; // keys for each loop, enough that bodies are not copied
    struct client_options o = fake_usual();
    o.resend_ns = 0;
    struct cluster *c = fake_open(MAX_SERVERS, 3, &o);
    under = c->van->ops;
    struct van_ops ops = *under;
    ops.send = send_and_keep;
    ops.close_link = close_and_give;
    c->van->ops = &ops;
    for (uint32_t i = 0; i < c->n_servers; i++)
        c->servers[i].mute = true;
    static uint64_t keys[MANY];
    static float values[MANY * WIDTH];
    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = random_u64(5, 6, i);
    struct client_push p = {.table = TABLE,
                            .keys = keys,
                            .n = MANY,
                            .values = values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .examples = MANY};
    struct err e = {0};
    client_ts ts = client_push(c->client, &p, &e);
    assert_int_not_equal(ts, 0);
    while (n_held < c->n_servers)
        assert_true(fake_step(c, 1000 * MS));
    client_cancel(c->client, ts);
    assert_int_equal(n_held, 0);
    assert_null(c->client->sendings);
    assert_int_equal(client_in_flight(c->client), 0);
    c->van->ops = under;
    fake_close(c);
}

// State of a fake loop that has no room for the first of two pushes, and answers the
// second one only after its link was broken.
static struct {
    // refused: number of the push that got no room. first: number of the first push on
    // the present link; 0: none yet.
    uint64_t refused, first;
    uint32_t links;
} narrow;

static bool serve_narrowly(struct server *s, van_link link, const struct van_message *m)
{
    (void)link;
    if (m->type == MSG_HELLO) {
        narrow.first = 0;
        narrow.links++;
    }
    if (m->type != MSG_PUSH)
        return false;
    uint64_t number = m->m->push.number;
    if (narrow.refused == 0)
        narrow.refused = number;
    if (narrow.first == 0)
        narrow.first = number;
    s->full = number == narrow.refused && narrow.links == 1;
    return number != narrow.refused && narrow.links == 1;
}

// On a new link, requests that were refused for lack of room are sent after the others.
static void test_refused_come_last_on_a_new_link(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    struct err e = {0}, why = {.code = TUG_EIO};
    client_ts ts[2];
    o.resend_ns = 0;
    struct cluster *c = fake_open(1, 4, &o);
    c->servers[0].answers = serve_narrowly;
    memset(&narrow, 0, sizeof(narrow));
    narrow.links = 1;
    static float values[2][KEYS * WIDTH];
    for (int i = 0; i < 2; i++) {
        struct client_push p = {.table = TABLE,
                                .keys = c->keys,
                                .n = KEYS,
                                .values = values[i],
                                .op = WIRE_GRADIENT,
                                .rate = 1,
                                .pass = 1,
                                .examples = 1};
        ts[i] = client_push(c->client, &p, &e);
        assert_int_not_equal(ts[i], 0);
    }
    while (client_stats(c->client).no_room < 5)
        assert_true(fake_step(c, 1000 * MS));
    peer_break(peer_of(c->client, c->servers[0].node), &why, van_now(c->van));
    for (int i = 0; i < 2; i++)
        assert_int_equal(fake_wait(c, ts[i], &e), 0);
    assert_int_equal(narrow.links, 2);
    assert_int_not_equal(narrow.first, narrow.refused);
    fake_close(c);
}

// State of a fake loop. It has no room for a push, then refuses it because of an older
// placement, and does not answer it the third time, until its link is broken.
static struct {
    uint32_t refused, kept;
    uint64_t greeted_at, sent_at; // times on the second link
} roomy;

static bool serve_later(struct server *s, van_link link, const struct van_message *m)
{
    struct cluster *c = s->cluster;
    struct msg_roster old = {.epoch = c->epoch};
    if (m->type == MSG_HELLO && roomy.kept > 0)
        roomy.greeted_at = van_now(s->van);
    if (m->type != MSG_PUSH || roomy.refused++ < 8 || roomy.greeted_at != 0) {
        s->full = m->type == MSG_PUSH && roomy.greeted_at == 0;
        if (m->type == MSG_PUSH && roomy.sent_at == 0 && roomy.greeted_at != 0)
            roomy.sent_at = van_now(s->van);
        return false;
    }
    if (roomy.refused == 10)
        roomy.kept++;
    else
        van_send(s->van, link, MSG_ROSTER, m->request, &old, NULL);
    return true;
}

// If a slice was last refused for another reason than lack of room, it does
// not wait on a new link.
static void test_room_that_was_found(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    struct err e = {0}, why = {.code = TUG_EIO};
    static float values[KEYS * WIDTH];
    o.resend_ns = 0;
    struct cluster *c = fake_open(1, 4, &o);
    c->servers[0].answers = serve_later;
    memset(&roomy, 0, sizeof(roomy));
    struct client_push p = {.table = TABLE,
                            .keys = c->keys,
                            .n = KEYS,
                            .values = values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .examples = 1};
    client_ts ts = client_push(c->client, &p, &e);
    while (roomy.kept == 0)
        assert_true(fake_step(c, 1000 * MS));
    peer_break(peer_of(c->client, c->servers[0].node), &why, van_now(c->van));
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_in_range(roomy.sent_at, roomy.greeted_at, roomy.greeted_at + 50 * MS);
    fake_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_as_a_loop_keeps_them),
        cmocka_unit_test(test_lists_that_are_forgotten),
        cmocka_unit_test(test_given_up_request_holds_no_memory),
        cmocka_unit_test(test_refused_come_last_on_a_new_link),
        cmocka_unit_test(test_room_that_was_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
