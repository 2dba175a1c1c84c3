// Tests buckets: pieces are dealt into buckets once, also if workers die during the deal. No
// bucket is leased before all pieces are dealt. Then each bucket is trained on once in
// every pass, also in a pass that is resumed from a save.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/buf.h"
#include "base/random.h"
#include "cluster/leases/leases.h"
#include "kit/test.h"

enum { FILES = 2, PIECES = 5, BUCKETS = 7, WORKERS = 4 };

static struct {
    uint64_t seed, draws;
    struct leases *l;
    bool unknown; // the scheduler does not know the number of pieces of the second
                  // file
    struct msg_leased held[WORKERS];
    bool holds[WORKERS], dead[WORKERS];
    int dealt[FILES][PIECES], trained[BUCKETS];
    uint64_t pass, deals; // `deals`: pieces dealt in all passes together
} m;

static uint64_t draw(uint64_t n)
{
    return random_below(m.seed, 3, m.draws++, n);
}

static int tell(const char *who, uint32_t buckets, struct err *e)
{
    struct buf files = BUF_INIT(1 << 16);
    for (uint32_t i = 0; i < FILES; i++) {
        struct wire_data_file f = {.bytes = 100,
                                   .pieces = i == 1 && m.unknown ? UINT64_MAX : PIECES,
                                   .compressed = i == 1 && m.unknown,
                                   .name = wire_text("file")};
        OK(wire_put_data_file(&files, &f));
    }
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}, .buckets = buckets};
    int rc = leases_data(m.l, who, &d, e);
    buf_free(&files);
    return rc;
}

static void begin(uint64_t seed)
{
    memset(&m, 0, sizeof(m));
    m.seed = seed;
    m.unknown = draw(2) == 0;
    OK(leases_open(&m.l, &ok_e));
    OK(tell("worker 0", BUCKETS, &ok_e));
    for (uint32_t i = 0; i < WORKERS; i++)
        OK(leases_worker_joined(m.l, i + 1));
}

static void open_pass(uint64_t pass, struct wire_text done)
{
    struct msg_pass p = {.pass = pass, .kind = WIRE_PASS_PIECES, .seed = 9, .done = done};
    OK(leases_pass(m.l, &p, &ok_e));
    m.pass = pass;
    memset(m.trained, 0, sizeof(m.trained));
}

static void all_are_dealt(void)
{
    for (uint32_t f = 0; f < FILES; f++)
        for (uint32_t i = 0; i < PIECES; i++)
            assert_true(m.dealt[f][i] > 0);
}

static void ask(uint32_t w)
{
    struct msg_leased got;
    leases_ask(m.l, w + 1, &(struct msg_lease){.pass = m.pass}, &got);
    leases_check(m.l);
    if (got.what != WIRE_LEASE_PIECE)
        return;
    m.held[w] = got;
    m.holds[w] = true;
    assert_in_range(got.file, 0, FILES);
    if (got.file != FILES)
        return;
    all_are_dealt();
    assert_in_range(got.index, 0, BUCKETS - 1);
    assert_int_equal(m.trained[got.index], 0);
}

static void report(uint32_t w)
{
    struct msg_leased *h = &m.held[w];
    bool behind = h->file < FILES && h->index >= PIECES;
    struct msg_piece_done d = {.pass = m.pass,
                               .file = h->file,
                               .index = h->index,
                               .at_end = h->file < FILES && h->index + 1 >= PIECES,
                               .examples = h->file == FILES ? 10 : 0};
    m.holds[w] = false;
    bool news = leases_done(m.l, w + 1, &d, &(bool){0});
    leases_check(m.l);
    if (behind) // if all pieces have been dealt by now, this report is not news
        return;
    assert_true(news);
    if (h->file == FILES)
        m.trained[h->index]++;
    else
        m.dealt[h->file][h->index]++, m.deals++;
}

static void die(uint32_t w)
{
    uint32_t living = 0;
    for (uint32_t i = 0; i < WORKERS; i++)
        living += !m.dead[i];
    if (living == 1)
        return;
    leases_worker_dead(m.l, w + 1);
    leases_check(m.l);
    m.dead[w] = true;
    m.holds[w] = false;
}

static bool over(struct msg_pass_state *ret)
{
    leases_state(m.l, m.pass, ret, NULL);
    return ret->done != 0;
}

static void run_pass(bool deaths)
{
    struct msg_pass_state now;
    for (int steps = 0; !over(&now); steps++) {
        // the driver computes progress and rates from this count
        assert_int_equal(now.pieces, BUCKETS);
        assert_true(steps < 10000);
        uint32_t w = (uint32_t)draw(WORKERS);
        if (m.dead[w])
            continue;
        if (deaths && draw(20) == 0)
            die(w);
        else if (!m.holds[w])
            ask(w);
        else if (draw(2) == 0)
            report(w);
    }
    assert_int_equal(now.pieces_done, BUCKETS);
    assert_int_equal(now.examples, 10 * BUCKETS);
    for (uint32_t b = 0; b < BUCKETS; b++)
        assert_int_equal(m.trained[b], 1);
    // Workers may still hold pieces beyond the end of a file, whose reports would be
    // ignored.
    memset(m.holds, 0, sizeof(m.holds));
}

static void every_bucket_once_a_pass(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        begin(seed);
        for (uint64_t pass = 1; pass <= 3; pass++) {
            open_pass(pass, (struct wire_text){0});
            run_pass(true);
            // all pieces were dealt in the first pass
            assert_int_equal(m.deals, FILES * PIECES);
        }
        leases_close(m.l);
    }
}

// When a pass is resumed from a save, some of its pieces are done, but no living worker
// holds the buckets, so all pieces are dealt again.
static void resumed_pass_deals_all_pieces_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct buf done = BUF_INIT(1 << 10);
        // bits 0, 2 and 5 of the buckets are set
        const uint8_t pieces = 0x1f, buckets = 0x25;
        for (uint32_t i = 0; i <= FILES; i++) {
            const uint8_t *bits = i < FILES ? &pieces : &buckets;
            struct wire_file_done f = {.bits = {(const char *)bits, 1}};
            OK(wire_put_file_done(&done, &f));
        }
        begin(seed);
        struct msg_pass p = {.pass = 4,
                             .kind = WIRE_PASS_PIECES,
                             .examples = 30,
                             .done = {done.data, (uint32_t)done.len}};
        OK(leases_pass(m.l, &p, &ok_e));
        m.pass = 4;
        for (uint32_t b = 0; b < BUCKETS; b++)
            m.trained[b] = buckets >> b & 1;
        run_pass(true);
        assert_int_equal(m.deals, FILES * PIECES);
        buf_free(&done);
        leases_close(m.l);
    }
}

// A save in a later pass lists buckets, even if other workers have dealt a dead worker's
// pieces again.
static void saves_hold_buckets(void **state)
{
    (void)state;
    struct buf list = BUF_INIT(1 << 10);
    struct msg_cut_state cut;
    begin(1);
    open_pass(1, (struct wire_text){0});
    ask(0);
    die(0); // worker 0 dies while it holds a piece, which another worker deals
    run_pass(false);
    open_pass(2, (struct wire_text){0});
    ask(1);
    report(1);
    OK(leases_cut(m.l, 77, &cut, &list, &ok_e));
    assert_false(cut.known);
    for (uint32_t w = 1; w < WORKERS; w++) {
        struct msg_leased got;
        leases_ask(m.l, w + 1, &(struct msg_lease){.pass = 2}, &got);
        assert_int_equal(got.what, WIRE_LEASE_MARK);
        leases_ask(m.l, w + 1, &(struct msg_lease){.pass = 2, .marked = 77}, &got);
    }
    buf_clear(&list);
    OK(leases_cut(m.l, 77, &cut, &list, &ok_e));
    assert_true(cut.known && !cut.torn);
    assert_int_equal(cut.examples, 10);
    buf_free(&list);
    leases_close(m.l);
}

static void workers_agree_on_buckets(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf files = BUF_INIT(1 << 10);
    struct msg_data_is is;
    begin(2);
    assert_int_equal(tell("worker 1", BUCKETS, &e), 0);
    assert_int_equal(tell("worker 1", BUCKETS + 1, &e), TUG_EUSAGE);
    assert_int_equal(tell("worker 1", 0, &e), TUG_EUSAGE);
    assert_int_equal(tell("worker 1", UINT32_MAX, &e), TUG_EUSAGE);
    // The buckets are not listed among the files of the data.
    OK(leases_data_is(m.l, &(struct msg_data_wanted){.files = 1}, &is, &files));
    struct wire_data_file f;
    uint32_t n = 0;
    while (wire_next_data_file(&is.files, &f) == 1)
        n++;
    assert_int_equal(n, FILES);
    buf_free(&files);
    leases_close(m.l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bucket_once_a_pass),
        cmocka_unit_test(resumed_pass_deals_all_pieces_again),
        cmocka_unit_test(saves_hold_buckets),
        cmocka_unit_test(workers_agree_on_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
