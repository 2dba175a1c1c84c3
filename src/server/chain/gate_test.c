// The gate against a naive list, with a channel that the test plays and a van that writes
// down what is sent.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/gate.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum { CHANNELS = 3, LINKS = 4, ROUNDS = 20000, SPAN = 64 };

static struct {
    uint64_t done[CHANNELS];
    uint64_t sent[ROUNDS]; // the requests that were answered, in order
    uint32_t n_sent;
    van_link links[ROUNDS];
    uint32_t released;
} play;

static char span[SPAN];

static void release(void *ctx)
{
    assert_ptr_equal(ctx, span);
    play.released++;
}

// Checks that the answer is the one that was made for this request.
static int fake_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                     const void *msg, const struct van_release *r)
{
    char text[32];
    (void)v;
    snprintf(text, sizeof(text), "request %llu", (unsigned long long)request);
    if (type == MSG_PULLED) {
        const struct msg_pulled *m = msg;
        assert_int_equal(m->version, request);
        assert_ptr_equal(m->values.data, span);
        r->release(r->ctx);
    } else if (type == MSG_ERROR) {
        const struct msg_error *m = msg;
        assert_null(r);
        assert_int_equal(m->what.n, strlen(text));
        assert_memory_equal(m->what.data, text, m->what.n);
    } else {
        assert_int_equal(type, MSG_OK);
        assert_int_equal(((const struct msg_ok *)msg)->value, request);
    }
    play.links[play.n_sent] = link;
    play.sent[play.n_sent++] = request;
    return 0;
}

static const struct van_ops ops = {.send = fake_send};
static struct van van = {&ops};

static bool is_done(void *ctx, const struct gate_need *x)
{
    (void)ctx;
    return play.done[x->what] >= x->least;
}

static int hold(struct gate *g, van_link link, uint64_t request,
                const struct gate_need *needs, uint32_t n)
{
    const struct van_release spans = {release, span};
    struct msg_pulled pulled = {.version = request, .values = {span, SPAN}};
    struct msg_ok ok = {.value = request};
    struct msg_error error = {.code = TUG_EUSAGE};
    char text[32];
    if (request % 3 == 0)
        return gate_hold(g, link, MSG_PULLED, request, &pulled, &spans, SPAN, needs, n);
    if (request % 3 == 1)
        return gate_hold(g, link, MSG_OK, request, &ok, NULL, 0, needs, n);
    snprintf(text, sizeof(text), "request %llu", (unsigned long long)request);
    error.what = wire_text(text);
    return gate_hold(g, link, MSG_ERROR, request, &error, NULL, 0, needs, n);
}

// The naive list: the answers that wait, in order.
static struct {
    uint64_t request;
    van_link link;
    uint32_t n;
    struct gate_need needs[CHANNELS];
} waits[ROUNDS];
static uint32_t n_waits;
static uint64_t round_number;

static uint64_t draw(uint64_t n)
{
    return random_below(7, 0, round_number++, n);
}

static void hold_one(struct gate *g, uint64_t request)
{
    waits[n_waits].request = request;
    waits[n_waits].link = 1 + (van_link)draw(LINKS);
    waits[n_waits].n = 0;
    for (uint32_t c = 0; c < CHANNELS; c++)
        if (draw(2) == 0)
            waits[n_waits].needs[waits[n_waits].n++] = (struct gate_need){
                c, play.done[c] + draw(50)};
    OK(hold(g, waits[n_waits].link, request, waits[n_waits].needs, waits[n_waits].n));
    n_waits++;
}

static void remove_wait(uint32_t i)
{
    play.released -= waits[i].request % 3 == 0; // each is released exactly once
    memmove(&waits[i], &waits[i + 1], (n_waits - i - 1) * sizeof(*waits));
    n_waits--;
}

static void send_some(struct gate *g)
{
    play.n_sent = 0;
    play.done[draw(CHANNELS)] += draw(20);
    gate_send(g, &van, is_done, NULL);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_waits;) {
        bool met = true;
        for (uint32_t k = 0; k < waits[i].n; k++)
            met &= is_done(NULL, &waits[i].needs[k]);
        if (!met) {
            i++;
            continue;
        }
        assert_true(n < play.n_sent);
        assert_int_equal(play.links[n], waits[i].link);
        assert_int_equal(play.sent[n++], waits[i].request);
        remove_wait(i);
    }
    assert_int_equal(n, play.n_sent);
}

static void raise_needs(struct gate *g)
{
    uint64_t c = draw(CHANNELS), least = play.done[c] + draw(50);
    gate_raise(g, c, least);
    for (uint32_t i = 0; i < n_waits; i++)
        for (uint32_t k = 0; k < waits[i].n; k++)
            if (waits[i].needs[k].what == c && waits[i].needs[k].least < least)
                waits[i].needs[k].least = least;
}

static void drop_link(struct gate *g)
{
    van_link link = 1 + (van_link)draw(LINKS);
    gate_drop_link(g, link);
    for (uint32_t i = 0; i < n_waits;)
        if (waits[i].link == link)
            remove_wait(i);
        else
            i++;
}

static void take_one(struct gate *g)
{
    van_link link;
    uint64_t request;
    bool taken = gate_take(g, &link, &request);
    assert_int_equal(taken, n_waits > 0);
    if (!taken)
        return;
    assert_int_equal(link, waits[0].link);
    assert_int_equal(request, waits[0].request);
    remove_wait(0);
}

static void test_random_answers(void **state)
{
    (void)state;
    struct budget b;
    struct gate g;
    budget_open(&b, 64 << 20);
    gate_open(&g, &b);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t what = draw(100);
        if (what < 50)
            hold_one(&g, i);
        else if (what < 92)
            send_some(&g);
        else if (what < 95)
            raise_needs(&g);
        else if (what < 97)
            drop_link(&g);
        else
            take_one(&g);
        assert_int_equal(play.released, 0);
    }
    while (n_waits > 0)
        take_one(&g);
    assert_int_equal(budget_used(&b, BUDGET_PENDING), 0);
    gate_close(&g);
}

// Without room an answer is not kept, and its memory still belongs to the caller.
static void test_without_room(void **state)
{
    (void)state;
    const struct gate_need need = {0, play.done[0] + 1};
    struct budget b;
    struct gate g;
    play.released = 0;
    budget_open(&b, 0);
    gate_open(&g, &b);
    for (uint64_t request = 0; request < 3; request++)
        assert_int_equal(hold(&g, 1, request, &need, 1), TUG_ENOMEM);
    gate_open(&g, NULL);
    mem_fault_after(0);
    assert_int_equal(hold(&g, 1, 0, &need, 1), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(play.released, 0);
    OK(hold(&g, 1, 0, &need, 1));
    gate_close(&g);
    assert_int_equal(play.released, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_answers),
        cmocka_unit_test(test_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
