// Pieces of files. Everything follows from one function of the text: line(x) is the begin
// of the first line that begins at byte x or later. It lies behind the first newline at
// byte x - 1 or later (it is 0 if x = 0, and the end of the file if there is no such
// newline). The piece of the bytes [a, b) is the text from line(a) to line(b).
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/piece.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader.h"
#include "data/frame/rows.h"
#include "data/input/decode.h"
#include "data/input/lines.h"
#include "data/source/origins.h"
#include "data/source/paths.h"

enum { READ_BYTES = 64 << 10, GROW_BYTES = 1 << 20 };

// The open file. Between calls, all bytes before `offset` have been read, and no line
// begins in [from, offset).
struct stream {
    bool open;
    uint32_t file;
    struct input *in;  // reads a plain file; else NULL
    struct decoder *d; // reads a compressed file; else NULL
    uint64_t offset;   // offset of the next byte
    // A piece that begins before this offset can only be read from the file's start again.
    uint64_t from;
    uint64_t line; // number of the line with the byte at `offset`; 0: unknown
    bool ended;    // the decoder has reached the end of its input
    // Decompressed bytes that were read but not used: ahead[at .. n), from `offset` on.
    char ahead[READ_BYTES];
    size_t at, n;
};

struct pieces {
    struct data_files files;
    bool *exact; // for each file: whether its text_bytes is exact
    uint64_t piece_bytes;
    size_t max_line_bytes;
    const atomic_bool *interrupted;
    struct stream s;
};

// ---------------------------------------------------------------- opening

static int no_pipes(const struct data_files *f, struct err *e)
{
    const struct data_file *pipe = data_files_pipe(f);
    return pipe == NULL
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "%s is a pipe, which the workers of a cluster cannot share: "
                         "write it to a file that all of them can read",
                         pipe->name);
}

static int add_files(struct pieces *p, const struct pieces_options *o, struct err *e)
{
    if (o->n_paths == 0)
        return err_set(e, TUG_EUSAGE, "no data is named");
    p->files.command = o->command;
    p->files.interrupted = o->interrupted;
    for (size_t i = 0; i < o->n_paths; i++)
        TRY(data_files_add(&p->files, o->paths[i], e));
    TRY(data_files_check(&p->files, e));
    TRY(no_pipes(&p->files, e));
    p->exact = mem_array(p->files.n, sizeof *p->exact);
    if (p->exact == NULL)
        return err_nomem(e, "the list of data files");
    for (size_t i = 0; i < p->files.n; i++)
        p->exact[i] = !p->files.file[i].compressed;
    return 0;
}

int pieces_open(struct pieces **ret, const struct pieces_options *o, struct err *e)
{
    if (o->piece_bytes == 0 || o->piece_bytes > PIECE_BYTES_MAX)
        return err_set(e, TUG_EUSAGE,
                       "a piece of data cannot have %llu bytes: it has 1 to %d",
                       (unsigned long long)o->piece_bytes, PIECE_BYTES_MAX);
    struct pieces *p = mem_zalloc(sizeof *p);
    if (p == NULL)
        return err_nomem(e, "pieces of data");
    p->piece_bytes = o->piece_bytes;
    p->max_line_bytes = o->max_line_bytes != 0 ? o->max_line_bytes : MAX_LINE_BYTES;
    p->interrupted = o->interrupted;
    int rc = add_files(p, o, e);
    if (rc == 0)
        *ret = p;
    else
        pieces_close(p);
    return rc;
}

static void stream_close(struct stream *s)
{
    if (!s->open)
        return;
    decoder_close(s->d);
    input_close(s->in);
    s->open = false;
}

void pieces_close(struct pieces *p)
{
    if (p == NULL)
        return;
    stream_close(&p->s);
    data_files_free(&p->files);
    mem_free(p->exact);
    mem_free(p);
}

static int stream_open(struct pieces *p, uint32_t file, struct err *e)
{
    struct stream *s = &p->s;
    const struct data_file *f = &p->files.file[file];
    stream_close(s);
    s->file = file;
    s->in = NULL;
    s->d = NULL;
    s->offset = s->from = s->line = 0;
    s->ended = false;
    s->at = s->n = 0;
    s->line = f->compressed;
    const struct interrupt i = {-1, p->interrupted};
    TRY(f->compressed ? data_file_open(&s->d, f, &i, e)
                      : data_file_input(&s->in, f, &i, e));
    s->open = true;
    return 0;
}

// ---------------------------------------------------------------- bytes

static int check_interrupted(const struct pieces *p, struct err *e)
{
    return p->interrupted != NULL && atomic_load(p->interrupted)
               ? err_set(e, TUG_EINTERRUPTED, "interrupted while data was read")
               : 0;
}

static int read_plain(struct pieces *p, char *out, size_t cap, uint64_t at, size_t *ret_n,
                      struct err *e)
{
    const struct data_file *f = &p->files.file[p->s.file];
    uint64_t left = f->bytes - at;
    *ret_n = left < cap ? (size_t)left : cap;
    return input_read_all(p->s.in, out, *ret_n, at, e);
}

// Records where a compressed file's text ends, which only reading to the end shows.
static void end_seen(struct pieces *p, uint64_t at)
{
    p->s.ended = true;
    p->files.file[p->s.file].text_bytes = at;
    p->exact[p->s.file] = true;
}

static int read_packed(struct pieces *p, char *out, size_t cap, uint64_t at,
                       size_t *ret_n, struct err *e)
{
    *ret_n = 0;
    if (p->s.ended)
        return 0;
    TRY(decoder_read_full(p->s.d, out, cap, ret_n, e));
    if (*ret_n < cap)
        end_seen(p, at + *ret_n);
    return 0;
}

// Reads from byte `at`, the first byte that was not read yet; returns fewer than `cap`
// bytes only at the end of the file.
static int read_on(struct pieces *p, char *out, size_t cap, uint64_t at, size_t *ret_n,
                   struct err *e)
{
    TRY(check_interrupted(p, e));
    return p->s.d != NULL ? read_packed(p, out, cap, at, ret_n, e)
                          : read_plain(p, out, cap, at, ret_n, e);
}

// Takes bytes that were read ahead, at most `cap`.
static size_t take_ahead(struct stream *s, char *out, size_t cap)
{
    size_t n = s->n - s->at < cap ? s->n - s->at : cap;
    memcpy(out, s->ahead + s->at, n);
    s->at += n;
    return n;
}

// Puts the last `n` bytes that were taken, or read while ahead[] was empty, into ahead[].
static void piece_give_back(struct stream *s, const char *bytes, size_t n)
{
    if (s->at < s->n) {
        s->at -= n;
        return;
    }
    assert(n <= READ_BYTES);
    memcpy(s->ahead, bytes, n);
    s->at = 0;
    s->n = n;
}

// Makes ahead[] non-empty unless the compressed file is at its end.
static int look_ahead(struct pieces *p, struct err *e)
{
    struct stream *s = &p->s;
    if (s->at < s->n)
        return 0;
    s->at = s->n = 0;
    return read_on(p, s->ahead, READ_BYTES, s->offset, &s->n, e);
}

// Skips the bytes of a compressed file up to `to` or its end.
static int stream_pass(struct pieces *p, uint64_t to, struct err *e)
{
    struct stream *s = &p->s;
    while (s->offset < to) {
        TRY(look_ahead(p, e));
        uint64_t left = to - s->offset;
        size_t n = left < s->n - s->at ? (size_t)left : s->n - s->at;
        if (n == 0)
            return 0;
        s->line += count_lines(s->ahead + s->at, n);
        s->offset += n;
        s->at += n;
    }
    return 0;
}

// Moves to the byte before `begin`: if it is a newline, a line begins at `begin`. Stays if
// the current position is later but no line begins between both.
static int stream_seek(struct pieces *p, uint32_t file, uint64_t begin, struct err *e)
{
    struct stream *s = &p->s;
    bool packed = p->files.file[file].compressed;
    if (!s->open || s->file != file || (packed && begin < s->from))
        TRY(stream_open(p, file, e));
    uint64_t to = begin > 0 ? begin - 1 : 0;
    if (packed)
        return stream_pass(p, to, e);
    s->offset = to;
    return 0;
}

// ---------------------------------------------------------------- a piece

static int piece_grow(struct piece_text *c, size_t cap, struct err *e)
{
    if (cap <= c->cap)
        return 0;
    if (cap < c->cap + c->cap / 2)
        cap = c->cap + c->cap / 2;
    char *memory = mem_realloc(c->memory, cap + READER_PADDING);
    if (memory == NULL)
        return err_nomem(e, "a piece of data");
    c->memory = memory;
    c->cap = cap;
    return 0;
}

// A piece that is being read: its memory holds `have` bytes from p->s.offset on.
struct cut {
    struct pieces *p;
    struct piece_text *c;
    size_t have;
    bool at_eof; // the piece's memory holds the rest of the file
};

// Returns the number of bytes to read at once. From a plain file, it is as many of the
// missing bytes as the file has. From a compressed file, whose text may end soon, it is
// at most the number of bytes that the piece has so far plus GROW_BYTES.
static size_t cut_step(const struct cut *k, size_t want)
{
    const struct stream *s = &k->p->s;
    size_t step = want - k->have;
    uint64_t left = s->d != NULL ? k->have + GROW_BYTES
                                 : k->p->files.file[s->file].bytes - s->offset - k->have;
    return left < step ? (size_t)left : step;
}

// Reads until there are `want` bytes or the file ends.
static int cut_read(struct cut *k, size_t want, struct err *e)
{
    struct stream *s = &k->p->s;
    while (k->have < want && !k->at_eof) {
        size_t step = cut_step(k, want), n = 0;
        TRY(piece_grow(k->c, k->have + step, e));
        char *to = k->c->memory + k->have;
        size_t old = take_ahead(s, to, step);
        if (old < step)
            TRY(read_on(k->p, to + old, step - old, s->offset + k->have + old, &n, e));
        k->have += old + n;
        k->at_eof = step == 0 || old + n < step;
    }
    return 0;
}

static int too_long(const struct cut *k, size_t at, struct err *e)
{
    const struct stream *s = &k->p->s;
    uint64_t line = s->line + count_lines(k->c->memory, at);
    if (s->line == 0)
        TRY(pieces_line(k->p, s->file, s->offset + at, &line, e));
    char where[ORIGIN_TEXT_MAX];
    origins_text(pieces_file_name(k->p, s->file), line, where);
    return err_set(e, TUG_EDATA, "%s: the line is longer than the limit of %zu bytes%s",
                   where, k->p->max_line_bytes,
                   long_line_hint(k->c->memory + at, k->have - at));
}

// Finds the end of the piece's last line: the byte after the first newline at `from` or
// later, or the end of the file.
static int find_end(struct cut *k, size_t begin, size_t from, size_t *ret, struct err *e)
{
    const char *m = k->c->memory;
    *ret = k->have;
    if (k->have <= from)
        return 0;
    const char *before = memrchr(m + begin, '\n', from - begin);
    size_t line = before != NULL ? (size_t)(before - m) + 1 : begin;
    const char *end = memchr(m + from, '\n', k->have - from);
    while (end == NULL && !k->at_eof) {
        size_t seen = k->have;
        if (seen - line > k->p->max_line_bytes)
            return too_long(k, line, e);
        TRY(cut_read(k, seen + READ_BYTES, e));
        m = k->c->memory;
        end = memchr(m + seen, '\n', k->have - seen);
    }
    *ret = end != NULL ? (size_t)(end - m) + 1 : k->have;
    return 0;
}

// Finds the begin and end of the piece's text in memory. If the piece has no text, sets
// both to the end of the bytes that can be skipped: all but the last byte of the piece,
// which may be the newline before the next piece's first line.
static int find_text(struct cut *k, uint64_t begin, uint64_t end, size_t *ret_begin,
                     size_t *ret_end, struct err *e)
{
    size_t last = (size_t)(end - 1 - k->p->s.offset); // index of the piece's last byte
    size_t at = 0;
    TRY(cut_read(k, last + 1, e));
    if (k->p->s.offset < begin) {
        size_t n = k->have < last ? k->have : last;
        const char *before = n > 0 ? memchr(k->c->memory, '\n', n) : NULL;
        at = before != NULL ? (size_t)(before - k->c->memory) + 1 : n;
        if (before == NULL) {
            *ret_begin = *ret_end = n;
            return 0;
        }
    }
    *ret_begin = at;
    TRY(find_end(k, at, last, ret_end, e));
    size_t bad = at +
                 find_long_line(k->c->memory + at, *ret_end - at, k->p->max_line_bytes);
    return bad == *ret_end ? 0 : too_long(k, bad, e);
}

// Moves the stream to the end of the text.
static int pass_text(struct cut *k, uint64_t end, size_t passed, struct err *e)
{
    struct stream *s = &k->p->s;
    s->from = end;
    s->offset += passed;
    if (s->d == NULL)
        return 0;
    s->line += count_lines(k->c->memory, passed);
    piece_give_back(s, k->c->memory + passed, k->have - passed);
    return look_ahead(k->p, e);
}

static int piece_read_text(struct cut *k, uint64_t begin, uint64_t end, struct err *e)
{
    struct stream *s = &k->p->s;
    struct piece_text *c = k->c;
    size_t from = 0, to = 0;
    if (s->offset < end)
        TRY(find_text(k, begin, end, &from, &to, e));
    c->offset = s->offset + from;
    c->line = s->line > 0 ? s->line + count_lines(c->memory, from) : 0;
    TRY(pass_text(k, end, to, e));
    // Allocates the padding, which even a piece without text needs.
    TRY(piece_grow(c, 1, e));
    c->text = c->memory + from;
    c->len = to - from;
    memset(c->text + c->len, 0, READER_PADDING);
    return 0;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

// Gets piece `index` of rows in memory. Each piece has the same number of rows.
static void read_rows(const struct pieces *p, const struct rows *r, uint64_t index,
                      struct piece_text *ret)
{
    uint64_t most = rows_within(r, p->piece_bytes), first = times(index, most);
    ret->rows = r;
    ret->offset = first < r->n ? first : r->n;
    ret->n_rows = r->n - ret->offset < most ? r->n - ret->offset : most;
    ret->at_end = ret->offset + ret->n_rows == r->n;
    ret->len = 0;
    ret->line = ret->offset;
}

int piece_read(struct pieces *p, uint32_t file, uint64_t index, struct piece_text *ret,
               struct err *e)
{
    assert(file < p->files.n);
    const struct data_file *f = &p->files.file[file];
    struct stream *s = &p->s;
    struct cut k = {.p = p, .c = ret};
    ret->rows = f->rows;
    if (f->rows != NULL) {
        read_rows(p, f->rows, index, ret);
        return 0;
    }
    uint64_t begin = times(index, p->piece_bytes), end = plus(begin, p->piece_bytes);
    // The piece begins after the end of the file, so it is empty.
    if (!f->compressed && begin > f->bytes)
        begin = end = f->bytes;
    int rc = stream_seek(p, file, begin, e);
    if (rc == 0)
        rc = piece_read_text(&k, begin, end, e);
    if (rc != 0) {
        stream_close(s);
        return rc;
    }
    ret->at_end = f->compressed ? s->ended && s->at == s->n
                                : end >= f->bytes || s->offset >= f->bytes;
    return 0;
}

void piece_free(struct piece_text *c)
{
    mem_free(c->memory);
    *c = (struct piece_text){0};
}

// ---------------------------------------------------------------- facts

size_t pieces_files(const struct pieces *p)
{
    return p->files.n;
}

const char *pieces_file_name(const struct pieces *p, uint32_t file)
{
    return p->files.file[file].name;
}

const struct rows *pieces_rows(const struct pieces *p, uint32_t file)
{
    return p->files.file[file].rows;
}

uint64_t pieces_count(const struct pieces *p, uint32_t file, bool *ret_exact)
{
    const struct rows *rows = p->files.file[file].rows;
    uint64_t bytes = p->files.file[file].text_bytes, most;
    *ret_exact = p->exact[file];
    if (rows != NULL) {
        most = rows_within(rows, p->piece_bytes);
        return rows->n / most + (rows->n % most != 0);
    }
    return bytes / p->piece_bytes + (bytes % p->piece_bytes != 0);
}

int pieces_describe(const struct pieces *p, struct piece_file *ret, struct err *e)
{
    for (uint32_t i = 0; i < p->files.n; i++) {
        const struct data_file *f = &p->files.file[i];
        ret[i] = (struct piece_file){
            .name = f->name, .bytes = f->bytes, .compressed = f->compressed};
        TRY(data_file_hash(f, &ret[i].hash, e));
    }
    return 0;
}

static int count_before(const struct pieces *p, struct decoder *d, uint64_t offset,
                        uint64_t *ret_line, struct err *e)
{
    char bytes[READ_BYTES];
    *ret_line = 1;
    while (offset > 0) {
        size_t n = 0;
        TRY(check_interrupted(p, e));
        TRY(decoder_read(d, bytes, offset < sizeof bytes ? (size_t)offset : sizeof bytes,
                         &n, e));
        if (n == 0)
            return err_set(e, TUG_EDATA, "%s is shorter than it was: it changed",
                           d->name);
        *ret_line += count_lines(bytes, n);
        offset -= n;
    }
    return 0;
}

int pieces_line(const struct pieces *p, uint32_t file, uint64_t offset,
                uint64_t *ret_line, struct err *e)
{
    struct decoder *d = NULL;
    const struct interrupt i = {-1, p->interrupted};
    *ret_line = offset;
    if (p->files.file[file].rows != NULL)
        return 0;
    TRY(data_file_open(&d, &p->files.file[file], &i, e));
    int rc = count_before(p, d, offset, ret_line, e);
    decoder_close(d);
    return rc;
}

int pieces_first_lines(const struct pieces *p, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e)
{
    return data_file_first_lines(&p->files.file[file], p->interrupted, lines, most, b, e);
}
