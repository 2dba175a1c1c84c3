// Tests requests that arrive again after their links broke: which link gets the answer.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "doors/kvapp/node.h"
#include "kit/test.h"

enum { WORKER = 9, OTHER = 11, FIRST_LINK = 5, NEXT_LINK = 8 };

struct question {
    struct tug_node n;
    struct received q;
    union wire_any m;
    struct van_message came;
    bool pull_only;
    struct err e;
};

static void ask_first(struct question *x, uint64_t number)
{
    *x = (struct question){.q = {.link = FIRST_LINK, .request = 70}};
    x->m.app = (struct msg_app){.number = number, .acked = 1, .flags = WIRE_APP_REQUEST};
    x->came = (struct van_message){.type = MSG_APP, .request = 70, .m = &x->m};
    x->q.m = x->m.app;
    assert_int_equal(
        kv_numbers_look(&x->n, FIRST_LINK, WORKER, &x->came, &x->pull_only, &x->e),
        KV_NEW);
    assert_int_equal(kv_numbers_take(&x->n, WORKER, &x->q), 0);
}

static enum kv_seen look(struct question *x, van_link link, uint32_t from)
{
    return kv_numbers_look(&x->n, link, from, &x->came, &x->pull_only, &x->e);
}

// The answer to a repeated request goes to the link that was dialled last, even if the
// request on an older link is read after it.
static void newest_link(void **state)
{
    (void)state;
    struct question x;
    ask_first(&x, 3);
    x.came.request = 71;
    assert_int_equal(look(&x, NEXT_LINK, WORKER), KV_AGAIN);
    assert_int_equal(x.q.link, NEXT_LINK);
    assert_int_equal(x.q.request, 71);
    x.came.request = 70;
    assert_int_equal(look(&x, FIRST_LINK, WORKER), KV_AGAIN);
    assert_int_equal(x.q.link, NEXT_LINK);
    assert_int_equal(x.q.request, 71);
    kv_numbers_answered(&x.q, 0, NULL, 0, false);
    kv_numbers_forget(&x.n, true);
    assert_int_equal(mem_live(), 0);
}

// Requests of two nodes with the same number are different requests.
static void other_node(void **state)
{
    (void)state;
    struct question x;
    ask_first(&x, 3);
    assert_int_equal(look(&x, NEXT_LINK, OTHER), KV_NEW);
    assert_int_equal(x.q.link, FIRST_LINK);
    x.m.app.number = 4;
    assert_int_equal(look(&x, NEXT_LINK, WORKER), KV_NEW);
    assert_int_equal(x.q.link, FIRST_LINK);
    kv_numbers_answered(&x.q, 0, NULL, 0, false);
    kv_numbers_forget(&x.n, true);
    assert_int_equal(mem_live(), 0);
}

// Invalid numbers are refused and take no memory: those below the acknowledged number,
// and those beyond the window of open requests.
static void wrong_numbers(void **state)
{
    (void)state;
    static const uint64_t wrong[][2] = {{1, 2},
                                        {KV_WINDOW, 0},
                                        {UINT64_MAX, 0},
                                        {UINT64_MAX, UINT64_MAX - KV_WINDOW},
                                        {1, 1}};
    struct question x;
    ask_first(&x, 3);
    x.m.app.number = 4;
    x.m.app.acked = 2;
    assert_int_equal(look(&x, FIRST_LINK, WORKER), KV_NEW);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        x.m.app.number = wrong[i][0];
        x.m.app.acked = wrong[i][1];
        assert_int_equal(look(&x, FIRST_LINK, WORKER), KV_WRONG);
        assert_int_equal(x.e.code, TUG_EDATA);
    }
    kv_numbers_answered(&x.q, 0, NULL, 0, false);
    kv_numbers_forget(&x.n, true);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_link),
        cmocka_unit_test(other_node),
        cmocka_unit_test(wrong_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
