// Tests leases against a model, which checks that each piece is trained on once in
// each pass, whichever workers die or join, whichever messages repeat and whenever
// the scheduler is killed; that pieces go to their previous holders; and that no
// worker idles while another has many pieces. Also tests shares, which are divided
// anew when a worker dies.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/random.h"
#include "kit/kept_leases.h"
#include "kit/test.h"

enum { MAX_FILES = 4, MAX_PIECES = 24, MAX_WORKERS = 12, NOBODY = -1 };

struct mate {
    bool alive, holds;
    struct msg_leased piece;
};

struct model {
    uint64_t seed, draws;
    struct leases *l;
    uint32_t n_files;
    uint64_t pieces[MAX_FILES]; // the true number of pieces of each file
    bool unknown[MAX_FILES];    // the scheduler does not know the file's number of pieces
                                // beforehand
    int had[MAX_FILES][MAX_PIECES];
    int did[MAX_FILES][MAX_PIECES]; // how often each piece was trained on in this pass
    int holder[MAX_FILES][MAX_PIECES];
    uint32_t n_workers;
    struct mate mates[MAX_WORKERS];
    uint64_t pass, examples;
    // Whether the lengths of files become known only in the current pass.
    bool in_order;
    uint64_t reported; // the number of reports in this pass
    bool keeps;        // the scheduler has a journal, and is killed now and then
    struct kept_rows kept;
};

static struct model m;

static uint64_t draw(uint64_t n)
{
    return random_below(m.seed, 7, m.draws++, n);
}

static uint32_t id_of(uint32_t worker)
{
    return 9 + 2 * worker;
}

static void add_file(struct buf *files, uint64_t pieces, bool unknown, const char *name)
{
    struct wire_data_file f = {.bytes = 100 + pieces,
                               .hash = pieces,
                               .pieces = unknown ? UINT64_MAX : pieces,
                               .compressed = unknown,
                               .name = wire_text(name)};
    assert_int_equal(wire_put_data_file(files, &f), 0);
}

static void tell_data(void)
{
    struct buf files = BUF_INIT(1 << 16);
    struct err e = {0};
    for (uint32_t i = 0; i < m.n_files; i++)
        add_file(&files, m.pieces[i], m.unknown[i], "file");
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(leases_data(m.l, "worker 0", &d, &e), 0);
    buf_free(&files);
}

static void join(void)
{
    if (m.n_workers == MAX_WORKERS)
        return;
    assert_int_equal(leases_worker_joined(m.l, id_of(m.n_workers)), 0);
    m.mates[m.n_workers++] = (struct mate){.alive = true};
}

static uint32_t living(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m.n_workers; i++)
        n += m.mates[i].alive;
    return n;
}

static void die(uint32_t worker)
{
    struct mate *w = &m.mates[worker];
    leases_worker_dead(m.l, id_of(worker));
    leases_worker_dead(m.l, id_of(worker));
    w->alive = false;
    if (w->holds && w->piece.index < MAX_PIECES)
        m.holder[w->piece.file][w->piece.index] = NOBODY;
    w->holds = false;
}

// Returns the number of free pieces that the worker had in the previous pass; for NOBODY:
// the number of free pieces that no living worker had.
static uint32_t reserved(int worker)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < m.n_files; f++)
        for (uint64_t i = 0; i < m.pieces[f] && !(m.in_order && m.unknown[f]); i++) {
            int had = m.had[f][i];
            if (had != NOBODY && !m.mates[had].alive)
                had = NOBODY;
            n += had == worker && m.did[f][i] == 0 && m.holder[f][i] == NOBODY;
        }
    return n;
}

static uint32_t largest_heap(void)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < m.n_workers; i++)
        if (m.mates[i].alive && reserved((int)i) > most)
            most = reserved((int)i);
    return most;
}

static void check_new_piece(uint32_t worker, const struct msg_leased *got, uint32_t own)
{
    uint32_t f = got->file;
    assert_in_range(f, 0, m.n_files - 1);
    if (got->index >= m.pieces[f]) { // the worker reads beyond the end of a file whose
                                     // end is not known
        assert_true(m.in_order && m.unknown[f]);
        return;
    }
    assert_int_equal(m.did[f][got->index], 0);
    assert_int_equal(m.holder[f][got->index], NOBODY);
    if (own > 0)
        assert_int_equal(m.had[f][got->index], (int)worker);
    m.holder[f][got->index] = (int)worker;
}

static void ask(uint32_t worker)
{
    struct mate *w = &m.mates[worker];
    struct msg_lease lease = {.pass = m.pass};
    struct msg_leased got;
    uint32_t own = reserved((int)worker), nobodys = reserved(NOBODY);
    uint32_t heap = largest_heap();
    leases_ask(m.l, id_of(worker), &lease, &got);
    if (!w->alive) {
        assert_int_equal(got.what, WIRE_LEASE_WAIT);
        return;
    }
    if (w->holds) { // a worker that asks again gets the same piece
        assert_int_equal(got.what, WIRE_LEASE_PIECE);
        assert_int_equal(got.file, w->piece.file);
        assert_int_equal(got.index, w->piece.index);
        return;
    }
    if (got.what == WIRE_LEASE_WAIT) { // the worker waits only if no piece is left for it
        assert_int_equal(own, 0);
        assert_int_equal(nobodys, 0);
        assert_in_range(heap, 0, 1);
        return;
    }
    assert_int_equal(got.what, WIRE_LEASE_PIECE);
    assert_int_equal(got.pass, m.pass);
    struct msg_pass_state now;
    leases_state(m.l, m.pass, &now, NULL);
    assert_int_equal(got.pieces_done, now.pieces_done);
    assert_int_equal(got.pieces, now.pieces);
    check_new_piece(worker, &got, own);
    w->holds = true;
    w->piece = got;
}

static void report(uint32_t worker, const struct msg_leased *piece, bool held)
{
    bool behind = piece->index >= m.pieces[piece->file];
    struct msg_piece_done done = {.pass = piece->pass,
                                  .file = piece->file,
                                  .index = piece->index,
                                  .at_end = piece->index + 1 >= m.pieces[piece->file],
                                  .examples = behind ? 0 : 10 + piece->index,
                                  .report = wire_text("12345678")};
    bool news = leases_done(m.l, id_of(worker), &done, &(bool){0});
    assert_int_equal(news, held);
    m.reported += news;
    if (!news || behind)
        return;
    m.did[piece->file][piece->index]++;
    m.had[piece->file][piece->index] = (int)worker;
    m.holder[piece->file][piece->index] = NOBODY;
    m.examples += done.examples;
}

static void finish_piece(uint32_t worker)
{
    struct mate *w = &m.mates[worker];
    if (!w->alive || !w->holds)
        return;
    w->holds = false;
    report(worker, &w->piece, true);
    if (draw(4) == 0)
        report(worker, &w->piece, false); // the report is sent twice
}

static void report_anything(void)
{
    struct msg_leased piece = {.pass = m.pass + 1 - draw(3),
                               .file = (uint32_t)draw(m.n_files),
                               .index = draw(MAX_PIECES)};
    uint32_t worker = (uint32_t)draw(m.n_workers);
    const struct mate *w = &m.mates[worker];
    if (!w->holds || piece.file != w->piece.file || piece.index != w->piece.index ||
        piece.pass != m.pass)
        report(worker, &piece, false);
}

static bool pass_is_over(void)
{
    struct msg_pass_state state;
    leases_state(m.l, m.pass, &state, NULL);
    return state.done;
}

static void run_pass(bool quiet)
{
    m.pass++;
    m.examples = m.reported = 0;
    m.in_order = m.pass == 1;
    memset(m.did, 0, sizeof(m.did));
    for (uint32_t i = 0; i < m.n_workers; i++)
        m.mates[i].holds = false;
    memset(m.holder, NOBODY, sizeof(m.holder));
    struct msg_pass open = {.pass = m.pass, .kind = WIRE_PASS_PIECES, .seed = m.seed};
    struct err e = {0};
    assert_int_equal(leases_pass(m.l, &open, &e), 0);
    if (m.pass == 1)
        tell_data(); // some workers send their description only after the pass was opened
    for (int steps = 0; !pass_is_over(); steps++) {
        assert_in_range(steps, 0, 20000);
        // opening the same pass again changes nothing
        assert_int_equal(leases_pass(m.l, &open, &e), 0);
        uint32_t worker = (uint32_t)draw(m.n_workers);
        uint64_t what = draw(quiet ? 90 : 100);
        if (what < 50)
            ask(worker);
        else if (what < 90)
            finish_piece(worker);
        else if (what < 92)
            join();
        else if (what < 93 && m.mates[worker].alive && living() > 1)
            die(worker);
        else
            report_anything();
        leases_check(m.l);
        if (m.keeps && draw(8) == 0)
            m.l = kept_again(&m.kept, m.l, draw(4) == 0);
        else if (m.keeps)
            kept_changes(&m.kept, m.l);
    }
}

static void check_pass(uint64_t *reports)
{
    struct buf b = BUF_INIT(16); // room for two reports at a time
    struct msg_pass_state state;
    uint64_t before = *reports;
    for (uint32_t f = 0; f < m.n_files; f++)
        for (uint64_t i = 0; i < m.pieces[f]; i++)
            assert_int_equal(m.did[f][i], 1);
    do {
        buf_clear(&b);
        leases_state(m.l, m.pass, &state, &b);
        assert_int_equal(b.len, 8 * state.reports);
        *reports += state.reports;
    } while (!state.done);
    assert_int_equal(*reports - before, m.reported);
    assert_int_equal(state.examples, m.examples);
    uint64_t real = 0;
    for (uint32_t f = 0; f < m.n_files; f++)
        real += m.pieces[f];
    // a worker may also report an empty piece behind a file's end, and this piece counts
    assert_in_range(state.pieces, real, real + 1);
    assert_int_equal(state.pieces_done, state.pieces);
    buf_free(&b);
}

static void open_model(uint64_t seed)
{
    m = (struct model){.seed = seed};
    memset(m.had, NOBODY, sizeof(m.had));
    assert_int_equal(leases_open(&m.l, NULL), 0);
    m.n_files = 1 + (uint32_t)draw(MAX_FILES);
    for (uint32_t i = 0; i < m.n_files; i++) {
        m.unknown[i] = draw(2) == 0;
        m.pieces[i] = m.unknown[i] + draw(MAX_PIECES - 4);
    }
    m.keeps = seed % 3 != 0;
    if (m.keeps)
        kept_begin(&m.kept, m.l);
    for (uint64_t n = 1 + draw(4); n > 0; n--)
        join();
}

static void test_each_piece_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        uint64_t reports = 0;
        open_model(seed);
        for (int pass = 0; pass < 4; pass++) {
            run_pass(seed % 4 == 0);
            check_pass(&reports);
        }
        assert_true(reports > 0 || m.examples == 0);
        leases_over(m.l);
        struct msg_leased got;
        leases_ask(m.l, id_of(0), &(struct msg_lease){0}, &got);
        assert_int_equal(got.what, WIRE_LEASE_OVER);
        leases_close(m.l);
        kept_end(&m.kept);
    }
}

// When all workers ask in turn, each gets exactly the pieces that it had in the previous
// pass.
static void test_affinity(void **state)
{
    (void)state;
    m = (struct model){.seed = 5, .n_files = 1, .pieces = {20}};
    memset(m.had, NOBODY, sizeof(m.had));
    assert_int_equal(leases_open(&m.l, NULL), 0);
    join();
    join();
    int had[MAX_PIECES];
    for (int pass = 0; pass < 3; pass++) {
        m.pass++;
        memset(m.did, 0, sizeof(m.did));
        memset(m.holder, NOBODY, sizeof(m.holder));
        struct msg_pass open = {.pass = m.pass, .seed = 3};
        assert_int_equal(leases_pass(m.l, &open, NULL), 0);
        if (pass == 0)
            tell_data();
        while (!pass_is_over())
            for (uint32_t worker = 0; worker < 2; worker++) {
                ask(worker);
                finish_piece(worker);
            }
        if (pass > 0)
            assert_memory_equal(had, m.had[0], sizeof(had));
        memcpy(had, m.had[0], sizeof(had));
    }
    leases_close(m.l);
}

// Counts the pieces of a pass that come right after their predecessor in the file.
static int in_file_order(uint64_t pass, bool held)
{
    struct msg_piece_done done = {.pass = pass, .held = held};
    struct msg_leased got;
    int follow = 0;
    uint64_t before = UINT64_MAX;
    for (uint64_t i = 0; i < MAX_PIECES; i++) {
        leases_ask(m.l, id_of(0), &(struct msg_lease){.pass = pass}, &got);
        assert_int_equal(got.what, WIRE_LEASE_PIECE);
        follow += got.index == before + 1;
        before = done.index = got.index;
        done.at_end = got.index + 1 == MAX_PIECES;
        assert_true(leases_done(m.l, id_of(0), &done, &(bool){0}));
    }
    return follow;
}

// From the second pass on, the pieces of a compressed file come in a random order if a
// worker holds them in memory. They come in file order if they must be read again, for
// example after the worker that held them has died.
static void test_held_pieces_are_shuffled(void **state)
{
    (void)state;
    m = (struct model){.seed = 5, .n_files = 1, .pieces = {MAX_PIECES}};
    m.unknown[0] = true;
    assert_int_equal(leases_open(&m.l, NULL), 0);
    join();
    tell_data();
    struct msg_pass p = {.pass = 1, .seed = 3};
    for (; p.pass <= 4; p.pass++) {
        bool held_before = p.pass == 2 || p.pass == 3, holds = p.pass < 3;
        assert_int_equal(leases_pass(m.l, &p, NULL), 0);
        int follow = in_file_order(p.pass, holds);
        assert_int_equal(follow == MAX_PIECES, !held_before);
        assert_true(follow == MAX_PIECES || follow < MAX_PIECES / 2);
    }
    assert_int_equal(leases_pass(m.l, &p, NULL), 0);
    (void)in_file_order(p.pass++, true);
    assert_int_equal(leases_pass(m.l, &p, NULL), 0);
    join();
    leases_worker_dead(m.l, id_of(0));
    struct msg_leased got;
    for (uint64_t i = 0; i < MAX_PIECES; i++) {
        leases_ask(m.l, id_of(1), &(struct msg_lease){.pass = p.pass}, &got);
        assert_int_equal(got.index, i);
        assert_true(leases_done(m.l, id_of(1),
                                &(struct msg_piece_done){.pass = p.pass, .index = i},
                                &(bool){0}));
    }
    leases_close(m.l);
}

static void lease_to(uint32_t worker, uint64_t pass, struct msg_leased *got)
{
    leases_ask(m.l, id_of(worker), &(struct msg_lease){.pass = pass}, got);
    assert_int_equal(got->what, WIRE_LEASE_PIECE);
}

static void done_by(uint32_t worker, uint64_t pass, const struct msg_leased *of)
{
    struct msg_piece_done done = {.pass = pass,
                                  .file = of->file,
                                  .index = of->index,
                                  .held = true,
                                  .at_end = of->index + 1 == m.pieces[of->file]};
    assert_true(leases_done(m.l, id_of(worker), &done, &(bool){0}));
}

// A worker that joined late must read the pieces that it takes from another worker, which
// holds them in memory and takes them in random order. Nevertheless the late worker reads
// each file forwards, and only once.
static void test_late_workers_read_files_forwards(void **state)
{
    (void)state;
    m = (struct model){.seed = 5, .n_files = 2, .pieces = {MAX_PIECES, MAX_PIECES / 2}};
    m.unknown[0] = m.unknown[1] = true;
    assert_int_equal(leases_open(&m.l, NULL), 0);
    join();
    tell_data();
    struct msg_pass p = {.pass = 1, .seed = 3};
    struct msg_leased got;
    assert_int_equal(leases_pass(m.l, &p, NULL), 0);
    for (uint64_t i = 0; i < m.pieces[0] + m.pieces[1]; i++) {
        lease_to(0, p.pass, &got);
        done_by(0, p.pass, &got);
    }
    p.pass = 2;
    assert_int_equal(leases_pass(m.l, &p, NULL), 0);
    join();
    uint64_t took = 0, starts = 0, before = UINT64_MAX;
    uint32_t file = UINT32_MAX;
    for (uint64_t i = 0; i < m.pieces[0] + m.pieces[1]; i++) {
        uint32_t worker = (uint32_t)(i % 2);
        if (i + 1 == m.pieces[0] + m.pieces[1])
            worker = 0; // worker 0 holds the last piece in memory, and gets it
        lease_to(worker, p.pass, &got);
        done_by(worker, p.pass, &got);
        if (worker == 0)
            continue;
        starts += got.file != file || got.index < before;
        file = got.file;
        before = got.index;
        took++;
    }
    assert_true(took > MAX_PIECES / 2 && starts <= 2);
    leases_close(m.l);
}

// The number of pieces in a compressed file is unknown until a worker has read
// the file to its end. Then the scheduler assumes that the files with an unknown number
// have as many pieces per byte.
static void test_pieces_are_estimated(void **state)
{
    (void)state;
    enum { FILES = 3, PIECES = 6 };
    struct msg_pass_state now = {0};
    m = (struct model){.seed = 5, .n_files = FILES, .pass = 1};
    for (int f = 0; f < FILES; f++) {
        m.pieces[f] = PIECES;
        m.unknown[f] = true;
    }
    memset(m.had, NOBODY, sizeof(m.had));
    memset(m.holder, NOBODY, sizeof(m.holder));
    assert_int_equal(leases_open(&m.l, NULL), 0);
    join();
    assert_int_equal(leases_pass(m.l, &(struct msg_pass){.pass = 1, .seed = 3}, NULL), 0);
    m.in_order = true;
    tell_data();
    for (uint64_t done = 1; done <= FILES * PIECES; done++) {
        ask(0);
        finish_piece(0);
        leases_state(m.l, 1, &now, NULL);
        assert_int_equal(now.pieces_done, done);
        assert_int_equal(now.pieces, done < PIECES ? 0 : FILES * PIECES);
    }
    assert_int_equal(now.done, 1);
    leases_close(m.l);
}

static int tell(struct leases *l, const char *who, uint64_t piece_bytes, const char *name,
                uint64_t pieces, struct err *e)
{
    struct buf files = BUF_INIT(1 << 16);
    add_file(&files, 3, false, "first");
    if (name != NULL)
        add_file(&files, pieces, false, name);
    struct msg_data d = {.piece_bytes = piece_bytes};
    d.files = (struct wire_text){files.data, (uint32_t)files.len};
    int rc = leases_data(l, who, &d, e);
    buf_free(&files);
    return rc;
}

static void test_data_must_agree(void **state)
{
    (void)state;
    struct leases *l;
    struct err e = {0};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(tell(l, "worker 0", 1, "day", 5, &e), 0);
    assert_int_equal(tell(l, "worker 1", 1, "elsewhere/day", 5, &e), 0);
    assert_int_equal(tell(l, "worker 1", 1, "day2", 6, &e), TUG_EDATA);
    assert_string_equal(
        e.text, "'day2' on worker 1 differs from 'day' on worker 0: it has 106 bytes, "
                "not 105; all workers must read the same data");
    assert_int_equal(tell(l, "worker 2", 1, NULL, 0, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "worker 2 sees 1 file, but worker 0 sees 2"));
    assert_int_equal(tell(l, "worker 2", 2, "day", 5, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "cuts the data into other pieces than worker 0"));
    struct msg_data cut = {.files = {"abc", 3}};
    assert_int_equal(leases_data(l, "worker 3", &cut, &e), TUG_EDATA);
    assert_int_equal(tell(l, "worker 2", 1, "day", (uint64_t)1 << 40, &e), TUG_EUSAGE);
    leases_close(l);
}

// The options in the driver's first message are kept, and leases_data_is returns them.
static void test_options_are_told(void **state)
{
    (void)state;
    struct leases *l;
    struct err e = {0};
    struct msg_schema told = {.options = wire_text("{\"lr\":1}")}, later = {0};
    struct msg_data_is is;
    struct buf files = BUF_INIT(1 << 10);
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(leases_data_is(l, &(struct msg_data_wanted){0}, &is, &files), 0);
    assert_int_equal(is.told, 0);
    assert_int_equal(is.options.n, 0);
    assert_int_equal(leases_schema(l, &told, &e), 0);
    later.options = wire_text("{}");
    assert_int_equal(leases_schema(l, &later, &e), 0);
    assert_int_equal(leases_data_is(l, &(struct msg_data_wanted){0}, &is, &files), 0);
    assert_int_equal(is.told, 1);
    assert_int_equal(is.options.n, told.options.n);
    assert_memory_equal(is.options.data, told.options.data, told.options.n);
    buf_free(&files);
    leases_close(l);
}

static void test_passes_in_turn(void **state)
{
    (void)state;
    struct leases *l;
    struct err e = {0};
    struct msg_pass pass = {.pass = 3}, next = {.pass = 4}, none = {0};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(tell(l, "worker 0", 1, NULL, 0, &e), 0);
    assert_int_equal(leases_pass(l, &none, &e), TUG_EUSAGE);
    assert_int_equal(leases_pass(l, &pass, &e), 0); // a resumed run may begin with pass 3
    assert_int_equal(leases_pass(l, &next, &e), TUG_EUSAGE);
    assert_string_equal(e.text, "pass 4 cannot begin: pass 3 is not over");
    struct msg_pass_state st;
    leases_state(l, 2, &st, NULL);
    assert_int_equal(st.done, 1);
    leases_state(l, 4, &st, NULL);
    assert_int_equal(st.done, 0);
    leases_close(l);
}

// A pass that is resumed in its middle needs the same data as at its start, whichever
// worker describes the data first.
static void test_resumed_pass_needs_the_same_data(void **state)
{
    (void)state;
    struct err e = {0};
    struct msg_pass_state st;
    uint64_t ids[2];
    for (uint32_t i = 0; i < 4; i++) {
        struct leases *l;
        struct msg_pass pass = {.pass = 3, .data = i >= 2 ? ids[0] : 0};
        bool same = i != 3;
        assert_int_equal(leases_open(&l, NULL), 0);
        if (i >= 2)
            assert_int_equal(leases_pass(l, &pass, &e), 0);
        struct wire_data_file f = {.bytes = same ? 100 : 101, .pieces = 3};
        struct buf files = BUF_INIT(1 << 10);
        assert_int_equal(wire_put_data_file(&files, &f), 0);
        struct msg_data d = {.piece_bytes = i == 1 ? 64 : 32,
                             .files = {files.data, (uint32_t)files.len}};
        assert_int_equal(leases_data(l, "worker 0", &d, &e), same ? 0 : TUG_EDATA);
        buf_free(&files);
        leases_state(l, 0, &st, NULL);
        assert_true(st.data != 0);
        if (i < 2)
            ids[i] = st.data;
        pass = (struct msg_pass){.pass = 4, .data = st.data + 1};
        if (i < 2)
            assert_int_equal(leases_pass(l, &pass, &e), TUG_EDATA);
        leases_close(l);
    }
    // With another piece size the data has other pieces, and therefore another id.
    assert_true(ids[0] != ids[1]);
}

static struct msg_leased share(struct leases *l, uint32_t worker, uint64_t finished,
                               uint64_t view)
{
    struct msg_lease lease = {.finished = finished, .view = view};
    struct msg_leased got;
    leases_ask(l, worker, &lease, &got);
    return got;
}

static void check_share(struct leases *l, uint32_t worker, uint64_t view, uint32_t slot,
                        uint32_t slots)
{
    struct msg_leased got = share(l, worker, 0, 0);
    assert_int_equal(got.what, WIRE_LEASE_SHARE);
    assert_int_equal(got.view, view);
    assert_int_equal(got.slot, slot);
    assert_int_equal(got.slots, slots);
}

static bool shares_done(struct leases *l, uint64_t pass)
{
    struct msg_pass_state st;
    leases_state(l, pass, &st, NULL);
    return st.done;
}

static uint32_t count_views(struct leases *l, uint64_t view, uint32_t slots)
{
    uint32_t n = 0, worker;
    struct msg_view v;
    while (leases_next_view(l, &worker, &v)) {
        assert_int_equal(v.view, view);
        assert_int_equal(v.slots, slots);
        n++;
    }
    return n;
}

static struct leases *open_shares(uint32_t workers)
{
    struct leases *l;
    struct msg_pass pass = {.pass = 1, .kind = WIRE_PASS_SHARES};
    assert_int_equal(leases_open(&l, NULL), 0);
    for (uint32_t i = workers; i-- > 0;)
        assert_int_equal(leases_worker_joined(l, id_of(i)), 0);
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    return l;
}

static void test_shares(void **state)
{
    (void)state;
    struct leases *l = open_shares(3);
    for (uint32_t i = 0; i < 3; i++)
        check_share(l, id_of(i), 1, i, 3);
    // the new worker waits for the next pass
    assert_int_equal(leases_worker_joined(l, id_of(5)), 0);
    assert_int_equal(share(l, id_of(5), 0, 0).what, WIRE_LEASE_WAIT);

    // Worker 0 has finished, and then worker 1 dies: worker 0 has to do a part of worker
    // 1's share.
    assert_int_equal(share(l, id_of(0), 1, 1).what, WIRE_LEASE_WAIT);
    leases_worker_dead(l, id_of(1));
    assert_int_equal(count_views(l, 2, 2), 2);
    assert_true(leases_views_again(l));
    assert_int_equal(count_views(l, 2, 2), 2);
    // the request repeats the old view number, as if the message with the new view was
    // lost
    struct msg_leased got = share(l, id_of(0), 1, 1);
    assert_int_equal(got.what, WIRE_LEASE_SHARE);
    assert_int_equal(got.view, 2);
    check_share(l, id_of(2), 2, 1, 2);
    assert_int_equal(share(l, id_of(2), 1, 2).what, WIRE_LEASE_WAIT);
    assert_false(shares_done(l, 1));
    assert_int_equal(share(l, id_of(0), 1, 2).what, WIRE_LEASE_WAIT);
    assert_true(shares_done(l, 1));
    assert_false(leases_views_again(l));

    struct msg_pass pass = {.pass = 2, .kind = WIRE_PASS_SHARES};
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    check_share(l, id_of(0), 3, 0, 3);
    check_share(l, id_of(5), 3, 2, 3);
    leases_close(l);
}

// If a worker dies after it has finished, nothing is lost; the pass ends when the last
// living worker has finished.
static void test_shares_finished_and_dead(void **state)
{
    (void)state;
    struct leases *l = open_shares(2);
    share(l, id_of(0), 1, 0);
    leases_worker_dead(l, id_of(0));
    assert_int_equal(count_views(l, 0, 0), 0);
    assert_false(shares_done(l, 1));
    share(l, id_of(1), 1, 1);
    assert_true(shares_done(l, 1));
    leases_close(l);
}

// If all workers die, a worker that joins later does the pass from its start.
static void test_shares_all_dead(void **state)
{
    (void)state;
    struct leases *l = open_shares(1);
    leases_worker_dead(l, id_of(0));
    assert_false(shares_done(l, 1));
    assert_int_equal(leases_worker_joined(l, id_of(1)), 0);
    check_share(l, id_of(1), 2, 0, 1);
    share(l, id_of(1), 1, 2);
    assert_true(shares_done(l, 1));
    leases_close(l);
}

static void test_shares_reports(void **state)
{
    (void)state;
    struct leases *l = open_shares(2);
    struct msg_piece_done done = {.pass = 1, .examples = 5, .report = wire_text("r")};
    assert_true(leases_done(l, id_of(0), &done, &(bool){0}));
    leases_worker_dead(l, id_of(0)); // every worker reports the examples of the whole
                                     // pass, so they count once
    assert_true(leases_done(l, id_of(1), &done, &(bool){0}));
    assert_false(leases_done(l, id_of(1), &done, &(bool){0}));
    done.index = 1;
    assert_true(leases_done(l, id_of(1), &done, &(bool){0}));
    done.pass = 2;
    assert_false(leases_done(l, id_of(1), &done, &(bool){0}));
    struct msg_pass_state st;
    struct buf b = BUF_INIT(100);
    leases_state(l, 1, &st, &b);
    assert_int_equal(st.examples, 5);
    assert_int_equal(st.reports, 3);
    assert_int_equal(b.len, 3);
    buf_free(&b);
    leases_close(l);
}

// A worker's last report of a pass of shares may arrive after the driver was told
// that the pass is over.
static void test_reports_after_the_end(void **state)
{
    (void)state;
    struct leases *l = open_shares(1);
    struct msg_piece_done done = {.pass = 1, .examples = 5, .report = wire_text("r")};
    struct msg_pass next = {.pass = 2, .kind = WIRE_PASS_SHARES};
    struct msg_pass_state st;
    struct buf b = BUF_INIT(100);
    struct err e = {0};
    share(l, id_of(0), 1, 1);
    assert_true(shares_done(l, 1));
    assert_true(leases_done(l, id_of(0), &done, &(bool){0}));
    assert_int_equal(leases_pass(l, &next, &e), 0);
    leases_state(l, 2, &st, &b);
    assert_int_equal(st.reports, 0);
    assert_int_equal(b.len, 0);
    buf_free(&b);
    leases_close(l);
}

// Each allocation fails once. Requests that failed are repeated, and the pass gets done.
static void test_no_memory(void **state)
{
    (void)state;
    struct buf files = BUF_INIT(1 << 16);
    add_file(&files, 3, false, "first");
    add_file(&files, 7, false, "second");
    struct msg_data data = {.files = {files.data, (uint32_t)files.len}};
    bool struck = true;
    for (long k = 0; struck; k++) {
        struct leases *l;
        struct err e = {0};
        size_t live = mem_live();
        mem_fault_after(k);
        int rc = leases_open(&l, &e);
        if (rc == 0) {
            struct msg_pass pass = {.pass = 1};
            while (leases_data(l, "worker 0", &data, &e) != 0)
                assert_int_equal(e.code, TUG_ENOMEM);
            assert_int_equal(leases_pass(l, &pass, &e), 0);
            int done = 0;
            for (int i = 0; i < 20; i++) {
                struct msg_leased got = share(l, 9, 0, 0);
                if (got.what != WIRE_LEASE_PIECE)
                    continue;
                struct msg_piece_done d = {
                    .pass = 1, .file = got.file, .index = got.index};
                done += leases_done(l, 9, &d, &(bool){0});
            }
            assert_int_equal(done, 10);
            leases_close(l);
        }
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(mem_live(), live);
    }
    buf_free(&files);
}

static struct msg_leased ask_marked(struct leases *l, uint32_t worker, uint64_t marked)
{
    struct msg_leased got;
    leases_ask(l, id_of(worker), &(struct msg_lease){.marked = marked}, &got);
    return got;
}

static struct msg_cut_state cut_of(struct leases *l, uint64_t save, uint8_t *ret_bits)
{
    struct buf done = BUF_INIT(1000);
    struct msg_cut_state c;
    struct wire_file_done f = {0};
    assert_int_equal(leases_cut(l, save, &c, &done, NULL), 0);
    struct wire_text list = c.done;
    *ret_bits = 0;
    if (wire_next_file_done(&list, &f) == 1 && f.bits.n > 0)
        *ret_bits = (uint8_t)f.bits.data[0];
    buf_free(&done);
    return c;
}

// Makes a save in the middle of a pass. All workers that have joined before the save
// begins mark it between two of their pieces. The save does not wait for a worker that
// joins later, but that worker marks it before its first piece, unless the driver has
// ended the save by then.
static void test_cut(void **state)
{
    (void)state;
    enum { SAVE = 50 };
    struct buf files = BUF_INIT(100);
    struct leases *l;
    uint8_t bits;
    add_file(&files, 6, false, "file");
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    struct msg_pass pass = {.pass = 1, .kind = WIRE_PASS_PIECES};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(leases_data(l, "worker", &d, NULL), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(leases_worker_joined(l, id_of(i)), 0);
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    struct msg_leased a = ask_marked(l, 0, 0), b = ask_marked(l, 1, 0);
    assert_int_equal(a.what, WIRE_LEASE_PIECE);
    assert_int_equal(b.what, WIRE_LEASE_PIECE);
    assert_false(cut_of(l, SAVE, &bits).known);
    // worker 2 joins after the save began
    assert_int_equal(leases_worker_joined(l, id_of(2)), 0);
    assert_int_equal(ask_marked(l, 2, 0).what, WIRE_LEASE_MARK);
    struct msg_piece_done done = {.pass = 1, .index = a.index};
    assert_true(leases_done(l, id_of(0), &done, &(bool){0}));
    assert_int_equal(ask_marked(l, 0, 0).what, WIRE_LEASE_MARK);
    assert_int_equal(ask_marked(l, 0, SAVE).what, WIRE_LEASE_WAIT);
    done.index = b.index;
    assert_true(leases_done(l, id_of(1), &done, &(bool){0}));
    assert_false(cut_of(l, SAVE, &bits).known);
    assert_int_equal(ask_marked(l, 1, 0).what, WIRE_LEASE_MARK);
    assert_int_equal(ask_marked(l, 1, SAVE).what, WIRE_LEASE_WAIT);
    // The list of done pieces does not wait for worker 2.
    struct msg_cut_state c = cut_of(l, SAVE, &bits);
    assert_true(c.known && !c.torn);
    assert_int_equal(bits, 1 << a.index | 1 << b.index);
    assert_int_equal(ask_marked(l, 0, SAVE).what, WIRE_LEASE_PIECE);
    // worker 3 joins when the list is known already
    assert_int_equal(leases_worker_joined(l, id_of(3)), 0);
    for (uint32_t i = 2; i < 4; i++)
        assert_int_equal(ask_marked(l, i, 0).what, WIRE_LEASE_MARK);
    assert_int_equal(ask_marked(l, 2, SAVE).what, WIRE_LEASE_PIECE);
    assert_false(cut_of(l, 0, &bits).known); // save number 0 ends the save
    assert_int_equal(ask_marked(l, 3, 0).what, WIRE_LEASE_PIECE);
    leases_close(l);
    buf_free(&files);
}

// In a resumed pass, every later save includes the pieces that were done at the resume,
// and their examples, even before a worker has described the files.
static void test_saves_in_a_resumed_pass(void **state)
{
    (void)state;
    struct buf files = BUF_INIT(100), list = BUF_INIT(100);
    struct leases *l;
    uint8_t bits;
    struct wire_file_done before = {.bits = {"\5", 1}};
    add_file(&files, 6, false, "file");
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    assert_int_equal(wire_put_file_done(&list, &before), 0);
    struct msg_pass pass = {
        .pass = 1, .examples = 70, .done = {list.data, (uint32_t)list.len}};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    struct msg_cut_state c = cut_of(l, 50, &bits);
    assert_true(c.known);
    assert_int_equal(bits, 5);
    assert_int_equal(c.examples, 70);
    assert_int_equal(leases_data(l, "worker", &d, NULL), 0);
    assert_int_equal(leases_worker_joined(l, id_of(0)), 0);
    (void)cut_of(l, 0, &bits); // save number 0 ends the save
    struct msg_leased got = ask_marked(l, 0, 0);
    assert_int_equal(got.what, WIRE_LEASE_PIECE);
    struct msg_piece_done done = {.pass = 1, .index = got.index, .examples = 8};
    assert_true(leases_done(l, id_of(0), &done, &(bool){0}));
    assert_false(cut_of(l, 51, &bits).known);
    assert_int_equal(ask_marked(l, 0, 51).what, WIRE_LEASE_WAIT);
    c = cut_of(l, 51, &bits);
    assert_true(c.known && !c.torn);
    assert_int_equal(bits, 5 | 1 << got.index);
    assert_int_equal(c.examples, 78);
    leases_close(l);
    buf_free(&files);
    buf_free(&list);
}

// A worker has read beyond the end of a file, so the save names a piece that the file
// does not have. A pass that is resumed from this save still does all remaining pieces.
static void test_done_piece_behind_the_end_of_a_file(void **state)
{
    (void)state;
    struct leases *l;
    struct buf files = BUF_INIT(1 << 10), list = BUF_INIT(1 << 10);
    struct msg_pass_state st;
    struct wire_file_done bits = {.bits = {"\2", 1}};
    assert_int_equal(leases_open(&l, NULL), 0);
    add_file(&files, 1, true, "file");
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    assert_int_equal(leases_data(l, "worker 0", &d, NULL), 0);
    struct msg_pass pass = {.pass = 1};
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(leases_worker_joined(l, id_of(i)), 0);
        assert_int_equal(ask_marked(l, i, 0).index, i);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_true(leases_done(
            l, id_of(i), &(struct msg_piece_done){.pass = 1, .index = i, .at_end = 1},
            &(bool){0}));
    assert_int_equal(wire_put_file_done(&list, &bits), 0);
    pass = (struct msg_pass){.pass = 2, .done = {list.data, (uint32_t)list.len}};
    assert_int_equal(leases_pass(l, &pass, NULL), 0);
    leases_check(l);
    leases_state(l, 2, &st, NULL);
    assert_int_equal(st.pieces, 1);
    assert_false(st.done);
    assert_int_equal(ask_marked(l, 0, 0).what, WIRE_LEASE_PIECE);
    leases_close(l);
    buf_free(&files);
    buf_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_piece_once),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_held_pieces_are_shuffled),
        cmocka_unit_test(test_late_workers_read_files_forwards),
        cmocka_unit_test(test_pieces_are_estimated),
        cmocka_unit_test(test_data_must_agree),
        cmocka_unit_test(test_options_are_told),
        cmocka_unit_test(test_passes_in_turn),
        cmocka_unit_test(test_resumed_pass_needs_the_same_data),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_saves_in_a_resumed_pass),
        cmocka_unit_test(test_done_piece_behind_the_end_of_a_file),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_shares_finished_and_dead),
        cmocka_unit_test(test_shares_all_dead),
        cmocka_unit_test(test_shares_reports),
        cmocka_unit_test(test_reports_after_the_end),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
