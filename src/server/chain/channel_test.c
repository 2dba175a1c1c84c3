// A channel against a naive model that remembers everything: any message may be lost, and
// the receiver must still take each record once, in order, and the sender must keep what
// was not dropped.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum { RECORDS = 400, BITS = 4, PLACES_MAX = 4, CONTENT_MAX = 40, HEAD = 48, PLACE = 16 };

// The places and contents of a record.
struct content {
    struct channel_place places[PLACES_MAX];
    char common[CONTENT_MAX], bytes[PLACES_MAX * CONTENT_MAX];
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

static size_t draw_content(const struct world *w, uint32_t n, uint32_t which, char *ret)
{
    size_t bytes = 8 * (size_t)random_below(w->seed, 3 + which, n, CONTENT_MAX / 8 + 1);
    for (size_t k = 0; k < bytes; k++)
        ret[k] = (char)random_below(w->seed, 100 + which, n * CONTENT_MAX + k, 256);
    return bytes;
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
                               .bytes = x->bytes};
    r.n_common = draw_content(w, n, 0, x->common);
    for (uint32_t i = 0; i < r.n_places; i++) {
        size_t bytes = draw_content(w, n, 1 + i, x->bytes + r.n);
        x->places[i] = (struct channel_place){first + i, (uint32_t)bytes, n + 7 * i};
        r.n += bytes;
    }
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
    assert_int_equal(is->n, r.n);
    assert_memory_equal(is->places, r.places, r.n_places * sizeof(*r.places));
    assert_memory_equal(is->common, r.common, r.n_common);
    assert_memory_equal(is->bytes, r.bytes, r.n);
}

// Appends a record part by part.
static int append_parts(struct outlet *o, const struct channel_record *r)
{
    struct outlet_draft d;
    const char *bytes = r->bytes;
    TRY(outlet_reserve(o, 1, r->n_places, r->n_common + r->n));
    TRY(outlet_begin(o, r, &d));
    for (uint32_t i = 0; i < r->n_places; bytes += r->places[i++].bytes)
        memcpy(outlet_place(o, &d, &r->places[i]), bytes, r->places[i].bytes);
    outlet_finish(o, &d);
    return 0;
}

static void append(struct world *w)
{
    struct content x;
    struct channel_record r = record_of(w, w->appended, &x);
    if (w->appended == RECORDS)
        return;
    int rc = draw(w, 2) == 0 ? outlet_append(&w->o, &r) : append_parts(&w->o, &r);
    assert_int_equal(rc, 0);
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
// for its kind and epoch, which the server checks.
static void test_damaged_bytes(void **state)
{
    (void)state;
    struct world w = {.seed = 1};
    const char *bytes;
    char copy[3 * (HEAD + CONTENT_MAX + PLACES_MAX * (PLACE + CONTENT_MAX))];
    int rc;
    outlet_open(&w.o);
    for (int i = 0; i < 3; i++)
        append(&w);
    size_t n = outlet_from(&w.o, 0, SIZE_MAX, &bytes), found = 0;
    for (size_t k = 0; k < n; k++) {
        memcpy(copy, bytes, n);
        copy[k] ^= (char)0x81;
        found += take_all(copy, n, &rc) < 3;
        assert_true(rc == 0 || rc == TUG_EDATA);
    }
    assert_int_equal(found, n - 3 * 12); // kind and epoch are 12 bytes
    outlet_close(&w.o);
}

// Places are refused whose partitions do not ascend or do not exist, and whose bytes are not
// multiples of 8 or not those of the record, also if the hash is right.
static void test_wrong_places(void **state)
{
    (void)state;
    static const char content[32];
    static const struct {
        bool right;
        struct channel_place places[2];
    } cases[] = {
        {true, {{2, 8, 0}, {3, 24, 0}}},   {true, {{0, 0, 0}, {15, 32, 9}}},
        {false, {{3, 8, 0}, {3, 24, 0}}},  {false, {{3, 8, 0}, {2, 24, 0}}},
        {false, {{3, 8, 0}, {16, 24, 0}}}, {false, {{2, 8, 0}, {3, 16, 0}}},
        {false, {{2, 4, 0}, {3, 28, 0}}},  {false, {{2, 8, 0}, {3, 32, 0}}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct channel_record r = {.kind = 1,
                                   .bits = BITS,
                                   .n_places = 2,
                                   .bytes = content,
                                   .n = sizeof(content)};
        struct outlet_draft d;
        struct outlet o;
        const char *bytes;
        int rc;
        outlet_open(&o);
        assert_int_equal(outlet_begin(&o, &r, &d), 0);
        struct outlet_draft end = d;
        for (int k = 0; k < 2; k++) {
            struct channel_place empty = cases[i].places[k];
            empty.bytes = 0;
            outlet_place(&o, &end, &empty);
            memcpy(o.bytes.data + d.place + k * PLACE, &cases[i].places[k], PLACE);
        }
        end.content += r.n;
        memset(o.bytes.data + d.content, 0, r.n);
        outlet_finish(&o, &end);
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
        cmocka_unit_test(test_wrong_places),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
