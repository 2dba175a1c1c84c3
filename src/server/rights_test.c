// Rights at a server's loop: every message type is sent over links of every role, over a
// link that has not joined, and over a link without HELLO.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kit/frames.h"
#include "kit/lone_shard.h"
#include "kit/test.h"

enum { STRANGER = 900 };

static void fill(uint16_t type, union wire_any *m)
{
    static const char bytes[64];
    struct fill f = {.seed = type, .longest = 8, .bytes = bytes};
    memset(m, 0, sizeof(*m));
    fill_any(&f, type, m);
}

static struct lone *begin(const struct shard_options *o)
{
    struct lone *w = lone_open_shard(4, o);
    w->epoch = 1;
    lone_send_roster(w);
    lone_forget(w);
    return w;
}

// Opens a link and sends HELLO over it, as a tool that has not joined the cluster.
static void greet(struct lone *w, van_link link, enum wire_role role)
{
    struct msg_hello hello = {.cluster = 77, .role = WIRE_TOOL};
    w->role = role;
    w->h.opened(w->h.ctx, link, true, w->now);
    lone_deliver(w, link, MSG_HELLO, 0, &hello);
    parcel_unpin(lone_expect(w, MSG_WELCOME));
}

static void refused(struct lone *w, van_link link, uint16_t type, const char *says)
{
    union wire_any m;
    fill(type, &m);
    lone_deliver(w, link, type, 5, &m);
    struct parcel *p = lone_next(w);
    char text[ERR_TEXT_MAX] = "";
    if (p != NULL && p->frame.type == MSG_ERROR)
        wire_words(p->m.error.what, text, sizeof(text));
    if (p == NULL || p->frame.type != MSG_ERROR || strstr(text, says) == NULL)
        fail_msg("%s: %s, '%s'", wire_name(type),
                 p != NULL ? wire_name(p->frame.type) : "silence", text);
    parcel_unpin(p);
    lone_forget(w);
}

static void test_before_hello(void **state)
{
    static const struct shard_options plain;
    struct lone *w = begin(&plain);
    (void)state;
    for (size_t i = 0; i < N_WIRE_TYPES; i++) {
        van_link link = STRANGER + (van_link)i;
        if (wire_types[i] == MSG_HELLO)
            continue;
        w->h.opened(w->h.ctx, link, true, w->now);
        refused(w, link, wire_types[i], "must be hello");
        assert_int_equal(w->closed, link);
    }
    lone_close(w);
}

static bool is_for_servers(uint16_t type)
{
    switch (type) {
#define TO_SERVER(NAME, name) case MSG_##NAME:
#include "wire/messages.def"
    case MSG_APP:
        return true;
    default:
        return false;
    }
}

static void test_roles(void **state)
{
    static const enum wire_role roles[] = {WIRE_TOOL, WIRE_WORKER, WIRE_SERVER};
    static const struct shard_options plain;
    struct lone *w = begin(&plain);
    (void)state;
    for (int r = 0; r < 3; r++) {
        greet(w, STRANGER + (van_link)r, roles[r]);
        for (size_t i = 0; i < N_WIRE_TYPES; i++) {
            uint16_t type = wire_types[i];
            if (wire_may(type, roles[r]) || type == MSG_HELLO)
                continue;
            refused(w, STRANGER + (van_link)r, type,
                    is_for_servers(type) ? "role" : "does not answer");
        }
    }
    lone_close(w);
}

// A message with the session of another node is refused, for every message type that has
// a session.
static void test_sessions_of_others(void **state)
{
    static const struct {
        uint16_t type;
        const char *fields;
    } messages[] = {
#define RECORD(NAME, name, about) {0, " " // a record is not a message
#define MESSAGE(NAME, name, id, ...) {id, " "
#define FIELD(type, name, about) #name " "
#define END(name)                                                                        \
    }                                                                                    \
    ,
#include "wire/messages.def"
    };
    static const struct shard_options plain;
    struct lone *w = lone_open(4, &plain);
    int n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
        uint16_t type = messages[i].type;
        if (!is_for_servers(type) || strstr(messages[i].fields, " session ") == NULL)
            continue;
        refused(w, WORKER_LINK, type, "but the link belongs to session");
        n++;
    }
    assert_true(n >= 5);
    lone_close(w);
}

// The link of an operator that has not joined may only ask for the status of the process.
static void test_without_session(void **state)
{
    static const struct shard_options plain;
    struct lone *w = begin(&plain);
    (void)state;
    greet(w, STRANGER, WIRE_OPERATOR);
    for (size_t i = 0; i < N_WIRE_TYPES; i++) {
        uint16_t type = wire_types[i];
        bool looks = type == MSG_STATUS || type == MSG_PROFILE || type == MSG_PING;
        if (!is_for_servers(type) || looks || type == MSG_APP)
            continue;
        refused(w, STRANGER, type, "join the cluster first");
    }
    lone_close(w);
}

// A HELLO that names a session without a proof is refused.
static void test_claimed_session(void **state)
{
    static const struct shard_options plain;
    struct lone *w = begin(&plain);
    (void)state;
    struct msg_hello hello = {
        .cluster = 77, .role = WIRE_WORKER, .node = 12345, .session = 4711};
    w->h.opened(w->h.ctx, STRANGER, true, w->now);
    lone_deliver(w, STRANGER, MSG_HELLO, 0, &hello);
    lone_expect_refusal(w, TUG_EUSAGE, "does not prove that session 4711 is its own");
    assert_int_equal(w->closed, STRANGER);
    // A link that has proven one session cannot change to another.
    uint8_t proof[MAC_BYTES];
    hello = (struct msg_hello){
        .cluster = 77, .role = WIRE_WORKER, .node = WORKER, .session = lone_session(0)};
    lone_prove_hello(&hello, proof);
    w->h.opened(w->h.ctx, STRANGER + 1, true, w->now);
    lone_deliver(w, STRANGER + 1, MSG_HELLO, 0, &hello);
    parcel_unpin(lone_expect(w, MSG_WELCOME));
    hello.node = WORKER + 1;
    hello.session = lone_session(1);
    lone_prove_hello(&hello, proof);
    lone_deliver(w, STRANGER + 1, MSG_HELLO, 0, &hello);
    assert_int_equal(w->closed, STRANGER + 1);
    lone_forget(w);
    lone_close(w);
}

static char said[ERR_TEXT_MAX];
static int lines;

static void note(void *ctx, const char *line)
{
    (void)ctx;
    lines++;
    snprintf(said, sizeof(said), "%s", line);
}

static void test_refusals_are_logged(void **state)
{
    struct shard_options o = {.log = note};
    struct lone *w = begin(&o);
    struct msg_hello hello = {.cluster = 78};
    (void)state;
    lines = 0;
    for (van_link i = 0; i < 20; i++) {
        w->h.opened(w->h.ctx, STRANGER + i, true, w->now);
        lone_deliver(w, STRANGER + i, MSG_HELLO, 0, &hello);
        lone_forget(w);
    }
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "refused: tcp://127.0.0.1:4711"));
    struct err why;
    err_set(&why, TUG_EIO, "somebody");
    w->h.refused(w->h.ctx, &why, w->now + 2 * SECOND_NS);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said, "somebody (and 19 more"));
    lone_close(w);
}

// Checks the next message, a report to the scheduler. The caller must take
// the answer that follows.
static void expect_told(struct lone *w, const char *says)
{
    struct parcel *p = lone_expect(w, MSG_OPERATION);
    char text[ERR_TEXT_MAX];
    assert_int_equal(p->m.operation.node, WORKER);
    assert_int_equal(p->m.operation.role, WIRE_OPERATOR);
    assert_non_null(strstr(wire_words(p->m.operation.from, text, sizeof(text)), ":4711"));
    wire_words(p->m.operation.what, text, sizeof(text));
    if (strncmp(text, says, strlen(says)) != 0)
        fail_msg("'%s' does not begin with '%s'", text, says);
    parcel_unpin(p);
}

// One loop reports admin operations to the scheduler: each operation that was done, only
// once even if the request is repeated, and some operations that were refused.
static void test_admin_operations_are_told(void **state)
{
    static const struct shard_options plain;
    struct lone *w = begin(&plain);
    struct table_spec spec = lone_plain_spec(3, WIRE_ASYNC, 1);
    struct msg_table_do clear = {.table = 3, .number = 1, .low = 1};
    struct msg_save save = {.save = 1, .path = wire_text("out\x1b[31m")};
    (void)state;
    lone_open_worker(w, 0);
    lone_forget(w);
    lone_make_table(w, &spec);
    w->hears_operations = true;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &clear);
    expect_told(w, "clear table 't3'");
    while (w->shard->tables[3]->turn.on)
        lone_pass_time(w, 1000);
    lone_expect_ok(w);
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &clear);
    lone_expect_ok(w);
    for (int i = 0; i < 20; i++) {
        lone_deliver(w, WORKER_LINK, MSG_SAVE, 5, &save);
        if (i == 0)
            expect_told(w, "refused: save to 'out?[31m': ");
        lone_expect_refusal(w, TUG_EUSAGE, "--save-root");
    }
    clear.table = 4;
    clear.number = 2;
    lone_pass_time(w, 2 * SECOND_NS);
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &clear);
    expect_told(w, "refused: clear table '?': there is no table 4");
    lone_expect_refusal(w, TUG_EUSAGE, "there is no table 4");
    lone_pass_time(w, 2 * SECOND_NS);
    greet(w, STRANGER, WIRE_TOOL);
    lone_deliver(w, STRANGER, MSG_TABLE_DO, 1, &clear);
    struct parcel *p = lone_expect(w, MSG_OPERATION);
    char text[ERR_TEXT_MAX];
    assert_non_null(strstr(wire_words(p->m.operation.what, text, sizeof(text)),
                           "needs the role 'operator'; the sender's certificate or token "
                           "has 'tool'"));
    assert_int_equal(p->m.operation.role, WIRE_TOOL);
    parcel_unpin(p);
    lone_forget(w);
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_hello),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_sessions_of_others),
        cmocka_unit_test(test_without_session),
        cmocka_unit_test(test_claimed_session),
        cmocka_unit_test(test_refusals_are_logged),
        cmocka_unit_test(test_admin_operations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
