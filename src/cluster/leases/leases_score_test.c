// Scoring passes follow a training pass, and lease the pieces of their own files. Each
// piece is leased once, even if workers die. No report is lost, and training is not
// affected.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cluster/leases/leases_internal.h"
#include "kit/kept_leases.h"
#include "kit/test.h"
#include "wire/wire.h"

// Files 0 and 1 are for training. The buckets, if there are any, come next, then files 2
// and 3 of --valid, and file 4 of --test. The scheduler does not know the number of
// pieces of file 3.
enum { FILES = 5, FIRST = 7, SECOND = 9, BUCKETS = 2 };
static uint64_t pieces[FILES] = {3, 2, 4, 3, 5};

static struct leases *l;
static uint32_t buckets;
static struct kept_rows journal; // the scheduler's journal, used if `keeps` is set
static bool keeps;

// Kills the scheduler and starts another one with its journal.
static void again(void)
{
    if (keeps)
        l = kept_again(&journal, l, false);
}

static void tell(uint32_t valid, uint32_t test, int want)
{
    struct buf files = BUF_INIT(1 << 16);
    struct err e = {0};
    for (uint32_t i = 0; i < FILES; i++) {
        struct wire_data_file f = {.bytes = 100 + i,
                                   .pieces = i == 3 ? UINT64_MAX : pieces[i],
                                   .compressed = i == 3,
                                   .name = wire_text("file")};
        assert_int_equal(wire_put_data_file(&files, &f), 0);
    }
    struct msg_data m = {.files = {files.data, (uint32_t)files.len},
                         .buckets = buckets,
                         .valid = valid,
                         .test = test};
    assert_int_equal(leases_data(l, "a worker", &m, &e), want);
    buf_free(&files);
}

static void begin(uint32_t with_buckets)
{
    struct err e = {0};
    buckets = with_buckets;
    assert_int_equal(leases_open(&l, &e), 0);
    if (keeps) {
        kept_end(&journal);
        kept_begin(&journal, l);
    }
    assert_int_equal(leases_worker_joined(l, FIRST), 0);
    assert_int_equal(leases_worker_joined(l, SECOND), 0);
    tell(2, 1, 0);
}

static void open_pass(uint64_t pass, enum wire_pass kind)
{
    struct msg_pass m = {.pass = pass, .kind = kind, .seed = 1};
    struct err e = {0};
    assert_int_equal(leases_pass(l, &m, &e), 0);
    leases_check(l);
    again();
}

static struct msg_leased ask(uint32_t worker)
{
    struct msg_leased got;
    leases_ask(l, worker, &(struct msg_lease){0}, &got);
    leases_check(l);
    again();
    return got;
}

// Returns the file's index in the test's data, which does not count the buckets.
static uint32_t in_truth(uint32_t file)
{
    return file < 2 ? file : file - (buckets != 0);
}

static bool done(uint32_t worker, const struct msg_leased *got, struct wire_text report)
{
    bool bucket = buckets != 0 && got->file == 2;
    struct msg_piece_done m = {.pass = got->pass,
                               .file = got->file,
                               .index = got->index,
                               .at_end = !bucket &&
                                         got->index + 1 >= pieces[in_truth(got->file)],
                               .examples = 1,
                               .report = report};
    bool news = leases_done(l, worker, &m, &(bool){0});
    leases_check(l);
    again();
    return news;
}

static bool over(uint64_t pass, uint64_t *ret_examples)
{
    struct msg_pass_state s;
    struct buf reports = BUF_INIT(WIRE_BYTES_MAX);
    leases_state(l, pass, &s, &reports);
    buf_free(&reports);
    if (ret_examples != NULL)
        *ret_examples = s.examples;
    return s.done;
}

// Lets both workers work in turn until both get no more leases. Checks that all leases
// are of the kind `what` and of files `first` to `last`, or of the buckets. Returns the
// number of leases.
static uint64_t work(enum wire_lease what, uint32_t first, uint32_t last)
{
    uint64_t n = 0;
    for (int idle = 0; idle < 2;) {
        uint32_t worker = (n + (uint64_t)idle) % 2 == 0 ? FIRST : SECOND;
        struct msg_leased got = ask(worker);
        if (got.what == WIRE_LEASE_WAIT) {
            idle++;
            continue;
        }
        idle = 0;
        assert_int_equal(got.what, what);
        bool bucket = buckets != 0 && got.file == 2;
        if (!bucket)
            assert_in_range(in_truth(got.file), first, last);
        else
            assert_int_equal(what, WIRE_LEASE_PIECE);
        assert_true(done(worker, &got, wire_text("x")));
        n += bucket || got.index < pieces[in_truth(got.file)];
    }
    return n;
}

static void test_passes(void **state)
{
    (void)state;
    for (uint32_t b = 0; b <= BUCKETS; b += BUCKETS) {
        begin(b);
        for (uint64_t pass = 1; pass <= 3; pass++) {
            open_pass(pass, WIRE_PASS_PIECES);
            assert_int_equal(work(WIRE_LEASE_PIECE, 0, 1), b == 0      ? 5
                                                           : pass == 1 ? 5 + b
                                                                       : b);
            assert_true(over(pass, NULL));
            open_pass(pass, WIRE_PASS_VALID);
            assert_false(over(pass, NULL));
            assert_int_equal(work(WIRE_LEASE_SCORE, 2, 3), 7);
            // opening the same pass again changes nothing
            open_pass(pass, WIRE_PASS_VALID);
            assert_true(over(pass, NULL));
        }
        open_pass(3, WIRE_PASS_TEST_BEST);
        assert_int_equal(work(WIRE_LEASE_SCORE_BEST, 4, 4), 5);
        assert_true(over(3, NULL));
        leases_close(l);
    }
}

// A run whose training passes are all done already only scores the test data.
static void test_run_that_only_scores(void **state)
{
    (void)state;
    begin(BUCKETS);
    open_pass(4, WIRE_PASS_TEST);
    assert_int_equal(work(WIRE_LEASE_SCORE, 4, 4), 5);
    assert_true(over(4, NULL));
    leases_close(l);
}

// Passes of shares come before and after scoring passes.
static void test_beside_shares(void **state)
{
    (void)state;
    begin(0);
    for (uint64_t pass = 1; pass <= 2; pass++) {
        open_pass(pass, WIRE_PASS_SHARES);
        struct msg_leased got = ask(FIRST);
        assert_int_equal(got.what, WIRE_LEASE_SHARE);
        assert_int_equal(ask(SECOND).what, WIRE_LEASE_SHARE);
        struct msg_lease finished = {.pass = pass, .finished = pass};
        leases_ask(l, FIRST, &finished, &got);
        leases_ask(l, SECOND, &finished, &got);
        assert_true(over(pass, NULL));
        open_pass(pass, WIRE_PASS_VALID);
        assert_int_equal(work(WIRE_LEASE_SCORE, 2, 3), 7);
    }
    leases_close(l);
}

static void test_death(void **state)
{
    (void)state;
    uint64_t examples;
    begin(0);
    open_pass(1, WIRE_PASS_PIECES);
    work(WIRE_LEASE_PIECE, 0, 1);
    open_pass(1, WIRE_PASS_VALID);
    struct msg_leased lost = ask(FIRST);
    leases_worker_dead(l, FIRST);
    assert_false(done(FIRST, &lost, wire_text("x")));
    for (uint64_t n = 0;; n++) {
        struct msg_leased got = ask(SECOND);
        if (got.what == WIRE_LEASE_WAIT)
            break;
        assert_in_range(n, 0, 7); // up to 7 pieces, one of them behind the end of a file
        assert_true(done(SECOND, &got, wire_text("x")));
    }
    assert_true(over(1, &examples));
    assert_in_range(examples, 7, 8);
    leases_close(l);
}

// If the scheduler has no room for a report, the report's piece is not done, and the
// piece is leased again.
static void test_no_room(void **state)
{
    (void)state;
    static char large[WIRE_BYTES_MAX];
    struct wire_text report = {large, sizeof(large) - 64};
    struct buf some = BUF_INIT(WIRE_BYTES_MAX);
    struct msg_pass_state s;
    struct msg_leased got, again;
    uint64_t kept = 0, few = pieces[4];
    pieces[4] = 100; // so many that their reports do not fit, because the driver fetches
                     // none
    begin(0);
    open_pass(1, WIRE_PASS_PIECES);
    work(WIRE_LEASE_PIECE, 0, 1);
    open_pass(1, WIRE_PASS_TEST);
    for (got = ask(FIRST); done(FIRST, &got, report); got = ask(FIRST))
        kept++;
    assert_true(kept > 50);
    again = ask(FIRST);
    assert_int_equal(again.what, WIRE_LEASE_SCORE);
    assert_true(again.file == got.file && again.index == got.index);
    assert_false(over(1, NULL)); // the driver fetches the reports, which makes room
    assert_true(done(FIRST, &again, report));
    leases_state(l, 1, &s, &some);
    assert_true(s.reports > 0);
    buf_free(&some);
    leases_close(l);
    pieces[4] = few;
}

static void test_workers_agree_on_data(void **state)
{
    (void)state;
    begin(0);
    tell(2, 1, 0);
    tell(1, 1, TUG_EUSAGE);
    tell(1, 2, TUG_EUSAGE);
    leases_close(l);
    struct err e = {0};
    assert_int_equal(leases_open(&l, &e), 0);
    tell(6, 0, TUG_EDATA);
    tell(3, 3, TUG_EDATA);
    tell(UINT32_MAX, 1, TUG_EDATA);
    leases_close(l);
}

// Returns the number of reports of the pass's stage that the driver gets.
static uint64_t read_all(uint64_t pass, uint64_t *ret_examples)
{
    struct msg_pass_state s;
    struct buf reports = BUF_INIT(WIRE_BYTES_MAX);
    leases_state(l, pass, &s, &reports);
    buf_free(&reports);
    assert_int_equal(s.done, 1);
    *ret_examples = s.examples;
    return s.reports;
}

// A driver that was started again opens the training pass and its scoring passes once
// more. It gets all reports of each pass again, and each pass is over at once. The driver
// also gets the note of the training pass.
static void test_reports_come_again(void **state)
{
    uint64_t examples;
    (void)state;
    keeps = true;
    begin(0);
    struct msg_pass p = {.pass = 1, .seed = 1, .note = wire_text("here")};
    assert_int_equal(leases_pass(l, &p, NULL), 0);
    assert_int_equal(work(WIRE_LEASE_PIECE, 0, 1), 5);
    assert_int_equal(read_all(1, &examples), 5);
    open_pass(1, WIRE_PASS_VALID);
    uint64_t scored = 0;
    assert_int_equal(work(WIRE_LEASE_SCORE, 2, 3), 7);
    again();
    for (int driver = 0; driver < 3; driver++) {
        struct msg_pass open = {.pass = 1, .kind = WIRE_PASS_PIECES, .seed = 1};
        assert_int_equal(leases_pass(l, &open, NULL), 0);
        assert_int_equal(read_all(1, &examples), 5);
        assert_int_equal(examples, 5);
        assert_int_equal(read_all(1, &examples), 0);
        open.kind = WIRE_PASS_VALID;
        assert_int_equal(leases_pass(l, &open, NULL), 0);
        scored = read_all(1, &examples);
        assert_in_range(scored, 7, 8); // one piece lies behind the end of a file
        assert_int_equal(leases_note(l).n, 4);
    }
    p = (struct msg_pass){.pass = 2, .seed = 1, .note = wire_text("further")};
    assert_int_equal(leases_pass(l, &p, NULL), 0);
    again();
    assert_int_equal(leases_note(l).n, 7);
    assert_int_equal(work(WIRE_LEASE_PIECE, 0, 1), 5);
    assert_int_equal(read_all(2, &examples), 5);
    leases_close(l);
    kept_end(&journal);
    keeps = false;
}

// If a journal cannot keep a report of training, the run must end. Without the report,
// the driver would count too few examples and bad lines.
static void test_kept_reports_are_full(void **state)
{
    enum { BYTES = 32 << 20 }; // less than the limit of reports in a stage, 48 MB
    char *report = mem_zalloc(BYTES);
    (void)state;
    assert_non_null(report);
    begin(0);
    assert_int_equal(leases_keep(l), 0);
    open_pass(1, WIRE_PASS_PIECES);
    struct msg_leased got = ask(FIRST);
    assert_true(leases_done(
        l, FIRST,
        &(struct msg_piece_done){
            .pass = 1, .file = got.file, .index = got.index, .report = {report, BYTES}},
        &(bool){0}));
    assert_int_equal(leases_failed(l), 0);
    got = ask(FIRST);
    assert_false(leases_done(
        l, FIRST,
        &(struct msg_piece_done){
            .pass = 1, .file = got.file, .index = got.index, .report = {report, BYTES}},
        &(bool){0}));
    assert_int_equal(leases_failed(l), TUG_ENOMEM);
    leases_close(l);
    mem_free(report);
}

// Adds the numbers with which the total and the report begin.
static int add_numbers(struct buf *to, struct wire_text total, struct wire_text report)
{
    uint64_t a = 0, b = 0;
    if (report.n < sizeof(b))
        return TUG_EDATA;
    if (total.n > 0)
        memcpy(&a, total.data, sizeof(a));
    memcpy(&b, report.data, sizeof(b));
    b += a;
    return buf_add(to, &b, sizeof(b));
}

static uint64_t read_total(uint64_t *ret_reports)
{
    struct msg_pass_state s;
    struct buf reports = BUF_INIT(WIRE_BYTES_MAX);
    uint64_t total = 0;
    leases_state(l, 1, &s, &reports);
    if (reports.len == sizeof(total))
        memcpy(&total, reports.data, sizeof(total));
    buf_free(&reports);
    *ret_reports = s.reports;
    return total;
}

// If reports of training can be added up, only their total takes memory, however many
// bytes the reports have. A driver gets the total again whenever it has changed, even
// after the scheduler was killed.
static void test_totals(void **state)
{
    enum { BYTES = 16 << 20, PIECES = 5 };
    char *report = mem_zalloc(BYTES);
    uint64_t n, sum = 0;
    (void)state;
    assert_non_null(report);
    keeps = true;
    begin(0);
    keeps = false;
    journal.merge = add_numbers;
    leases_set_merge(l, add_numbers);
    open_pass(1, WIRE_PASS_PIECES);
    for (uint64_t i = 1; i <= PIECES; i++) {
        struct msg_leased got = ask(FIRST);
        memcpy(report, &i, sizeof(i));
        if (i == PIECES)
            assert_false(done(FIRST, &got, wire_text("damaged"))); // 7 bytes, less than a
                                                                   // number
        assert_int_equal(leases_failed(l), i == PIECES ? TUG_EDATA : 0);
        assert_true(done(FIRST, &got, (struct wire_text){report, BYTES}));
        sum += i;
        l = kept_again(&journal, l, i % 2 == 0);
        assert_true(read_total(&n) == sum && n == 1);
        assert_true(read_total(&n) == 0 && n == 0);
    }
    leases_close(l);
    kept_end(&journal);
    mem_free(report);
}

// Rows that are damaged in any way are either refused or restore leases
// whose invariants hold.
static void test_damaged_rows(void **state)
{
    struct err e;
    (void)state;
    keeps = true;
    begin(BUCKETS);
    keeps = false;
    open_pass(1, WIRE_PASS_PIECES);
    for (int i = 0; i < 3; i++) {
        struct msg_leased got = ask(FIRST);
        assert_true(done(FIRST, &got, wire_text("x")));
    }
    (void)ask(SECOND);
    l = kept_again(&journal, l, true);
    leases_close(l);
    for (size_t at = 0; at < journal.all.len; at++) {
        uint64_t head[2];
        int rc = 0;
        char was = journal.all.data[at];
        bool in_head = false;
        assert_int_equal(leases_open(&l, &e), 0);
        assert_int_equal(leases_keep(l), 0);
        for (size_t i = 0; i < journal.all.len && rc == 0; i += head[1]) {
            in_head |= at >= i && at < i + sizeof(head);
            memcpy(head, journal.all.data + i, sizeof(head));
            i += sizeof(head);
            journal.all.data[at] = (char)(in_head ? was : was ^ (1 << at % 8));
            rc = leases_row_read(l, (enum leases_row)head[0], journal.all.data + i,
                                 head[1]);
        }
        journal.all.data[at] = was;
        if (rc == 0)
            rc = leases_restored(l);
        for (int i = 0; i < 20 && rc == 0; i++) {
            struct msg_leased got = ask(i % 2 == 0 ? FIRST : SECOND);
            if (got.what == WIRE_LEASE_PIECE)
                (void)done(i % 2 == 0 ? FIRST : SECOND, &got, wire_text("x"));
        }
        leases_close(l);
    }
    kept_end(&journal);
}

// A row of the journal is refused if the data has buckets but only files to score.
static void test_buckets_without_files(void **state)
{
    struct leases *other;
    uint64_t head[2];
    (void)state;
    keeps = true;
    begin(BUCKETS);
    keeps = false;
    kept_changes(&journal, l);
    const uint64_t counts[] = {l->scored, l->valid, l->buckets, l->n_files};
    leases_close(l);
    memcpy(head, journal.all.data, sizeof(head));
    assert_int_equal(head[0], LEASES_ROW_DATA);
    char *at = memmem(journal.all.data, head[1], counts, sizeof(counts));
    assert_non_null(at);
    memcpy(at, &counts[3], sizeof(counts[3]));
    assert_int_equal(leases_open(&other, NULL), 0);
    assert_int_equal(leases_keep(other), 0);
    assert_int_equal(
        leases_row_read(other, LEASES_ROW_DATA, journal.all.data + sizeof(head), head[1]),
        TUG_EDATA);
    leases_close(other);
    kept_end(&journal);
}

static void test_passes_of_a_killed_scheduler(void **state)
{
    keeps = true;
    test_passes(state);
    kept_end(&journal);
    test_beside_shares(state);
    kept_end(&journal);
    keeps = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_run_that_only_scores),
        cmocka_unit_test(test_beside_shares),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_workers_agree_on_data),
        cmocka_unit_test(test_passes_of_a_killed_scheduler),
        cmocka_unit_test(test_reports_come_again),
        cmocka_unit_test(test_kept_reports_are_full),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_damaged_rows),
        cmocka_unit_test(test_buckets_without_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
