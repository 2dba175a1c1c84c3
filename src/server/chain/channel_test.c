// A channel against a naive model that remembers everything: any message may be lost, and
// the receiver must still take each record once, in order, and the sender must keep what
// was not dropped.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum { RECORDS = 400, BITS = 4, CONTENT_MAX = 40, HEAD = 48 };

// The records of a run; the content of record n is drawn from n.
struct world {
    uint64_t seed, round;
    struct outlet o;
    struct inlet i;
    uint32_t appended, taken, dropped;
    uint64_t ends[RECORDS + 1]; // the channel's byte at which record n ends
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return random_below(w->seed, 1, w->round++, n);
}

static struct channel_record record_of(const struct world *w, uint32_t n,
                                       char content[CONTENT_MAX])
{
    struct channel_record r = {
        .kind = 1 + n % 3,
        .space = (enum wire_space)(n % WIRE_SPACES),
        .partition = (uint32_t)random_below(w->seed, 2, n, 1 << BITS),
        .bits = BITS,
        .position = n,
        .epoch = 1 + n / 100,
        .bytes = content,
        .n = 8 * (size_t)random_below(w->seed, 3, n, CONTENT_MAX / 8 + 1)};
    for (size_t k = 0; k < r.n; k++)
        content[k] = (char)random_below(w->seed, 4, n, 256);
    return r;
}

static void check_record(const struct world *w, uint32_t n,
                         const struct channel_record *is)
{
    char content[CONTENT_MAX];
    struct channel_record r = record_of(w, n, content);
    assert_int_equal(is->kind, r.kind);
    assert_int_equal(is->space, r.space);
    assert_int_equal(is->partition, r.partition);
    assert_int_equal(is->bits, BITS);
    assert_int_equal(is->position, r.position);
    assert_int_equal(is->epoch, r.epoch);
    assert_int_equal(is->n, r.n);
    assert_memory_equal(is->bytes, r.bytes, r.n);
}

static void append(struct world *w)
{
    char content[CONTENT_MAX];
    struct channel_record r = record_of(w, w->appended, content);
    if (w->appended == RECORDS)
        return;
    if (draw(w, 2) == 0) {
        assert_int_equal(outlet_append(&w->o, &r), 0);
    } else {
        size_t begin;
        assert_int_equal(outlet_begin(&w->o, &r, &begin), 0);
        assert_int_equal(buf_add(&w->o.bytes, r.bytes, r.n), 0);
        outlet_finish(&w->o, begin);
    }
    w->ends[++w->appended] = outlet_end(&w->o);
}

// The receiver asks from a byte on, perhaps by a late message, and gets a piece.
static void fetch(struct world *w)
{
    uint64_t back = draw(w, 4) == 0 ? draw(w, 100) : 0;
    uint64_t at = w->i.at > back ? w->i.at - back : 0;
    const char *bytes;
    size_t n = outlet_from(&w->o, at, 1 + draw(w, 300), &bytes);
    if (n > 0 && draw(w, 3) > 0)
        assert_int_equal(inlet_add(&w->i, at, bytes, n), 0);
}

static void take(struct world *w)
{
    struct channel_record r;
    struct err e;
    if (inlet_record(&w->i, &r, &e) == 0)
        return;
    check_record(w, w->taken++, &r);
    inlet_take(&w->i, &r);
}

// Drops records that were taken.
static void drop(struct world *w)
{
    uint32_t n = (uint32_t)draw(w, w->taken - w->dropped + 1);
    struct channel_record r;
    uint64_t at = w->o.first;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(outlet_record(&w->o, &at, &r));
        check_record(w, w->dropped++, &r);
        assert_int_equal(at, w->ends[w->dropped]);
    }
    outlet_drop(&w->o, at);
}

static void check(const struct world *w)
{
    assert_int_equal(w->i.at - inlet_left(&w->i), w->ends[w->taken]);
    assert_int_equal(outlet_kept(&w->o), w->ends[w->appended] - w->ends[w->dropped]);
    uint64_t at = w->o.first;
    struct channel_record r;
    uint32_t n = w->dropped;
    while (outlet_record(&w->o, &at, &r))
        check_record(w, n++, &r);
    assert_int_equal(n, w->appended);
}

static void test_random_losses(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct world w = {.seed = seed};
        outlet_open(&w.o);
        inlet_open(&w.i);
        for (int round = 0; w.dropped < RECORDS; round++) {
            assert_true(round < 1000000);
            switch (draw(&w, 4)) {
            case 0:
                append(&w);
                break;
            case 1:
                fetch(&w);
                break;
            case 2:
                take(&w);
                break;
            default:
                drop(&w);
            }
            check(&w);
        }
        outlet_close(&w.o);
        inlet_close(&w.i);
    }
}

// A record with a changed byte is refused, or waits for bytes that never arrive, except
// for its kind, position and epoch, which the server checks.
static void test_damaged_bytes(void **state)
{
    (void)state;
    struct world w = {.seed = 1};
    struct channel_record r;
    const char *bytes;
    struct err e;
    outlet_open(&w.o);
    for (int i = 0; i < 3; i++)
        append(&w);
    size_t n = outlet_from(&w.o, 0, SIZE_MAX, &bytes), found = 0;
    for (size_t k = 0; k < n; k++) {
        char copy[3 * (HEAD + CONTENT_MAX)];
        memcpy(copy, bytes, n);
        copy[k] ^= (char)0x81;
        inlet_open(&w.i);
        assert_int_equal(inlet_add(&w.i, 0, copy, n), 0);
        int rc = 1, taken = 0;
        for (; rc == 1; taken += rc == 1) {
            rc = inlet_record(&w.i, &r, &e);
            if (rc == 1)
                inlet_take(&w.i, &r);
        }
        assert_true(rc == 0 || rc == TUG_EDATA);
        found += taken < 3;
        inlet_close(&w.i);
    }
    assert_int_equal(found, n - 3 * 20); // kind, position and epoch are 20 bytes
    outlet_close(&w.o);
}

static int open_and_use(void)
{
    struct world w = {.seed = 1};
    char content[CONTENT_MAX];
    struct channel_record r = record_of(&w, 1, content);
    const char *bytes;
    outlet_open(&w.o);
    inlet_open(&w.i);
    int rc = outlet_append(&w.o, &r);
    size_t n = rc == 0 ? outlet_from(&w.o, 0, SIZE_MAX, &bytes) : 0;
    if (rc == 0)
        rc = inlet_add(&w.i, 0, bytes, n);
    outlet_close(&w.o);
    inlet_close(&w.i);
    return rc;
}

static void test_without_memory(void **state)
{
    (void)state;
    for (long n = 0, failed = 1; failed; n++) {
        mem_fault_after(n);
        int rc = open_and_use();
        failed = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, failed ? TUG_ENOMEM : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_losses),
        cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
