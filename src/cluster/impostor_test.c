// A stranger has taken the scheduler's port. It does not claim to be the scheduler, since
// it does not have the scheduler's secrets. Members and heartbeats must ignore every
// other message that it sends.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cluster/heartbeat.h"
#include "cluster/member_internal.h"
#include "kit/actors.h"
#include "kit/test.h"

static struct world w;

static struct {
    struct van *v;
    uint16_t says;    // the type of the message with which the impostor answers HELLO
    uint64_t request; // number of the request that this message claims to answer
    unsigned hellos, others;
} impostor;

static unsigned passed_on; // messages that were passed on to the member's user

static void impostor_message(void *ctx, van_link link, struct van_message *m,
                             uint64_t now)
{
    union wire_any msg = {0};
    (void)ctx, (void)now;
    impostor.hellos += m->type == MSG_HELLO;
    impostor.others += m->type != MSG_HELLO;
    if (impostor.says == MSG_ROSTER)
        msg.roster.version = UINT64_MAX;
    else if (impostor.says == MSG_JOINED)
        msg.joined = (struct msg_joined){.node = 9, .session = 99};
    assert_int_equal(
        van_send(impostor.v, link, impostor.says, impostor.request, &msg, NULL), 0);
}

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void on_changed(void *ctx, const struct roster *r, uint64_t now)
{
    (void)ctx, (void)r, (void)now;
    passed_on++;
}

static void on_forget(void *ctx, const struct msg_forget *m)
{
    (void)ctx, (void)m;
    passed_on++;
}

static void on_view(void *ctx, const struct msg_view *m)
{
    (void)ctx, (void)m;
    passed_on++;
}

static void take_port(uint16_t says, uint64_t request)
{
    struct van_handler h = {.message = impostor_message, .tick = no_tick};
    char address[VAN_ADDRESS_MAX];
    memset(&impostor, 0, sizeof(impostor));
    impostor.says = says;
    impostor.request = request;
    sim_crash(w.sim, w.v);
    assert_int_equal(sim_van_open(&impostor.v, w.sim, "impostor", &h, NULL), 0);
    assert_int_equal(van_listen(impostor.v, "sim://scheduler", address, NULL), 0);
}

static void check_member(uint16_t says, uint64_t request)
{
    struct scheduler_options o = world_options(1, 0);
    struct err why = {0};
    world_open(&w, 1, &o);
    world_add_all(&w, 1, 0, false);
    world_run(&w, 3 * SECONDS);
    struct member *m = w.actors[0].m;
    assert_true(member_ready(m));
    m->o.changed = on_changed;
    m->o.forget = on_forget;
    m->o.view = on_view;
    passed_on = 0;
    take_port(says, request);
    world_run(&w, 5 * SECONDS);
    if (impostor.hellos == 0 || impostor.others > 0 || passed_on > 0)
        fail_msg("type %u: %u greetings, %u other answers, %u passed on", says,
                 impostor.hellos, impostor.others, passed_on);
    if (member_ended(m, &why))
        fail_msg("type %u: the member has ended: %s", says, why.text);
    van_free(impostor.v);
    world_close(&w);
}

// The member ignores all messages of an impostor, even an answer to a request that the
// member sent on an earlier link. An ERROR for the link itself only explains why no
// session was opened, so it does not end the member.
static void test_members_hear_nothing(void **state)
{
    static const uint16_t types[] = {
#define MESSAGE(NAME, name, id, ...) MSG_##NAME,
#include "wire/messages.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        for (uint64_t request = types[i] == MSG_ERROR; request < 3; request++)
            if (types[i] != MSG_WELCOME)
                check_member(types[i], request);
}

// Heartbeats ignore a stranger's message that their process was declared dead.
static void test_heartbeats_hear_nothing(void **state)
{
    struct scheduler_options o = world_options(1, 1);
    struct node n = {.scheduler = "sim://scheduler", .cluster = CLUSTER, .process = 77};
    struct heartbeat *beat;
    struct van *v;
    atomic_bool lost = false;
    (void)state;
    world_open(&w, 1, &o);
    take_port(MSG_HEARTBEAT_OK, 0);
    assert_int_equal(heartbeat_open(&beat, &n, &lost, NULL), 0);
    struct van_handler h = heartbeat_handler(beat);
    assert_int_equal(sim_van_open(&v, w.sim, "beats", &h, NULL), 0);
    heartbeat_serve(beat, v);
    world_run(&w, 5 * SECONDS);
    assert_true(impostor.hellos > 0);
    assert_int_equal(impostor.others, 0);
    assert_false(atomic_load(&lost));
    van_free(v);
    heartbeat_stop(beat);
    van_free(impostor.v);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_hear_nothing),
        cmocka_unit_test(test_heartbeats_hear_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
