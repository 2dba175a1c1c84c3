// A channel against a naive model that remembers everything: any message may be lost, and
// the receiver must still take each record once, in order, and the sender must keep what
// was not dropped.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum {
    RECORDS = 400,
    BITS = 4,
    PLACES_MAX = 4,
    ITEMS_MAX = 5,
    CONTENT_MAX = 40,
    HEAD = 64,
    PLACE = 16
};

// The places and contents of a record.
struct content {
    struct channel_place places[PLACES_MAX];
    char common[CONTENT_MAX], items[CHANNEL_ARRAYS][PLACES_MAX * CONTENT_MAX];
};

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

static void draw_content(const struct world *w, uint32_t n, uint32_t which, size_t bytes,
                         char *ret)
{
    for (size_t k = 0; k < bytes; k++)
        ret[k] = (char)random_below(w->seed, 100 + which, n * 1000 + k, 256);
}

static struct channel_record record_of(const struct world *w, uint32_t n,
                                       struct content *x)
{
    uint32_t first = (uint32_t)random_below(w->seed, 2, n, (1 << BITS) - PLACES_MAX);
    struct channel_record r = {.kind = 1 + n % 3,
                               .space = (enum wire_space)(n % WIRE_SPACES),
                               .bits = BITS,
                               .n_places = n % (PLACES_MAX + 1),
                               .epoch = 1 + n / 100,
                               .places = x->places,
                               .common = x->common,
                               .n_common = 8 * random_below(w->seed, 3, n, 6),
                               .each = {8, 4 * (n % 3), n % 2},
                               .items = {x->items[0], x->items[1], x->items[2]}};
    for (uint32_t i = 0; i < r.n_places; i++) {
        uint32_t items = (uint32_t)random_below(w->seed, 4, n * PLACES_MAX + i,
                                                1 + ITEMS_MAX);
        x->places[i] = (struct channel_place){first + i, items, n + 7 * i};
        r.n_items += items;
    }
    draw_content(w, n, 0, r.n_common, x->common);
    for (uint32_t i = 0; i < CHANNEL_ARRAYS; i++)
        draw_content(w, n, 1 + i, r.n_items * r.each[i], x->items[i]);
    return r;
}

static void check_record(const struct world *w, uint32_t n,
                         const struct channel_record *is)
{
    struct content x;
    struct channel_record r = record_of(w, n, &x);
    assert_int_equal(is->kind, r.kind);
    assert_int_equal(is->space, r.space);
    assert_int_equal(is->bits, BITS);
    assert_int_equal(is->epoch, r.epoch);
    assert_int_equal(is->n_places, r.n_places);
    assert_int_equal(is->n_common, r.n_common);
    assert_int_equal(is->n_items, r.n_items);
    assert_memory_equal(is->each, r.each, sizeof(r.each));
    assert_memory_equal(is->places, r.places, r.n_places * sizeof(*r.places));
    assert_memory_equal(is->common, r.common, r.n_common);
    for (int i = 0; i < CHANNEL_ARRAYS; i++)
        assert_memory_equal(is->items[i], r.items[i], r.n_items * r.each[i]);
}

// Appends a record place by place.
static int append_places(struct outlet *o, const struct channel_record *r)
{
    struct outlet_draft d;
    size_t at = 0;
    TRY(outlet_reserve(o, channel_bytes(r)));
    TRY(outlet_begin(o, r, &d));
    for (uint32_t i = 0; i < r->n_places; at += r->places[i++].n) {
        outlet_place(o, &d, &r->places[i]);
        outlet_items(o, &d, r, at, r->places[i].n);
    }
    outlet_finish(o, &d);
    return 0;
}

static void append(struct world *w)
{
    struct content x;
    struct channel_record r = record_of(w, w->appended, &x);
    if (w->appended == RECORDS)
        return;
    int rc = draw(w, 2) == 0 ? outlet_append(&w->o, &r) : append_places(&w->o, &r);
    assert_int_equal(rc, 0);
    w->ends[++w->appended] = outlet_end(&w->o);
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

// The receiver asks from a byte on, perhaps by a late message, and gets a piece.
static void fetch(struct world *w)
{
    uint64_t back = draw(w, 4) == 0 ? draw(w, 100) : 0;
    uint64_t at = w->i.at > back ? w->i.at - back : 0;
    const char *bytes;
    size_t n = outlet_from(&w->o, at, 1 + draw(w, 300), &bytes);
    if (n == 0 || draw(w, 3) == 0)
        return;
    assert_int_equal(inlet_add(&w->i, at, bytes, n), 0);
    for (uint64_t i = draw(w, 3); i > 0; i--)
        take(w);
    assert_int_equal(inlet_keep(&w->i), 0);
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
    for (uint64_t seed = 0; seed < 8; seed++) {
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

// Takes all records of the bytes. Returns their number, and the last result in *ret_rc.
static int take_all(const void *bytes, size_t n, int *ret_rc)
{
    struct channel_record r;
    struct inlet in;
    struct err e;
    int taken = 0;
    inlet_open(&in);
    assert_int_equal(inlet_add(&in, 0, bytes, n), 0);
    while ((*ret_rc = inlet_record(&in, &r, &e)) == 1) {
        inlet_take(&in, &r);
        taken++;
    }
    inlet_close(&in);
    return taken;
}

// A record with a changed byte is refused, or waits for bytes that never arrive, except
// for the bytes of its items.
static void test_damaged_bytes(void **state)
{
    (void)state;
    struct world w = {.seed = 1};
    struct channel_record r;
    const char *bytes;
    char copy[3 *
              (HEAD + CONTENT_MAX + PLACES_MAX * (PLACE + CHANNEL_ARRAYS * CONTENT_MAX))];
    size_t found = 0, items = 0;
    uint64_t at = 0;
    int rc;
    outlet_open(&w.o);
    for (int i = 0; i < 3; i++)
        append(&w);
    while (outlet_record(&w.o, &at, &r))
        items += channel_bytes(&r) - (HEAD + r.n_places * PLACE + r.n_common);
    size_t n = outlet_from(&w.o, 0, SIZE_MAX, &bytes);
    for (size_t k = 0; k < n; k++) {
        memcpy(copy, bytes, n);
        copy[k] ^= (char)0x81;
        found += take_all(copy, n, &rc) < 3;
        assert_true(rc == 0 || rc == TUG_EDATA);
    }
    assert_true(items > 0);
    assert_int_equal(found, n - items);
    outlet_close(&w.o);
}

// Places are refused whose partitions do not ascend or do not exist, and whose items are not
// those of the record, also if the hash is right.
static void test_wrong_places(void **state)
{
    (void)state;
    static const char items[32];
    static const struct {
        bool right;
        struct channel_place places[2];
    } cases[] = {
        {true, {{2, 1, 0}, {3, 3, 0}}},   {true, {{0, 0, 0}, {15, 4, 9}}},
        {false, {{3, 1, 0}, {3, 3, 0}}},  {false, {{3, 1, 0}, {2, 3, 0}}},
        {false, {{3, 1, 0}, {16, 3, 0}}}, {false, {{2, 1, 0}, {3, 2, 0}}},
        {false, {{2, 1, 0}, {3, 4, 0}}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct channel_record r = {.kind = 1,
                                   .bits = BITS,
                                   .n_places = 2,
                                   .places = cases[i].places,
                                   .n_items = 4,
                                   .each = {8, 0},
                                   .common = items,
                                   .items = {items, items, items}};
        struct outlet o;
        const char *bytes;
        int rc;
        outlet_open(&o);
        assert_int_equal(outlet_append(&o, &r), 0);
        size_t n = outlet_from(&o, 0, SIZE_MAX, &bytes);
        assert_int_equal(take_all(bytes, n, &rc), cases[i].right);
        assert_int_equal(rc, cases[i].right ? 0 : TUG_EDATA);
        outlet_close(&o);
    }
}

static int open_and_use(void)
{
    struct world w = {.seed = 1};
    struct content x;
    struct channel_record r = record_of(&w, 1, &x);
    const char *bytes;
    outlet_open(&w.o);
    inlet_open(&w.i);
    int rc = outlet_append(&w.o, &r);
    size_t n = rc == 0 ? outlet_from(&w.o, 0, SIZE_MAX, &bytes) : 0;
    if (rc == 0)
        rc = inlet_add(&w.i, 0, bytes, n);
    if (rc == 0 && inlet_keep(&w.i) != 0) {
        assert_true(w.i.at == 0 && inlet_left(&w.i) == 0); // nothing has arrived
        rc = TUG_ENOMEM;
    }
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

// A record that a sender must not append is one that a receiver refuses.
static void test_longest_arrays(void **state)
{
    (void)state;
    for (int i = 0; i < CHANNEL_ARRAYS; i++) {
        struct channel_record r = {.n_items = WIRE_SPAN_MAX / 64, .each = {8, 8, 1}};
        r.each[i] = 64;
        assert_true(channel_fits(&r));
        r.n_items++;
        assert_false(channel_fits(&r));
    }
    struct channel_record none = {.n_items = WIRE_SPAN_MAX + 1};
    assert_false(channel_fits(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_losses),  cmocka_unit_test(test_damaged_bytes),
        cmocka_unit_test(test_wrong_places),   cmocka_unit_test(test_longest_arrays),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
