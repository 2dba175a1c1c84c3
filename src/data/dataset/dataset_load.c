// Loads data sets: each member of a team takes chunks, parses them, resolves the keys and
// packs the examples into a block.
//
// 1. Chunks are taken one at a time and in order, so that a header is read before the
//    lines that follow it.
//
// 2. The result of a chunk is its part. Parts are filled in any order and committed in the
//    order of the text. Bad lines count at the commit; until then a chunk with bad lines is
//    kept. So the line that exceeds the limit is the same for any number of threads; it is
//    parsed again to get the reason.
//
// 3. When a member fails or a commit exceeds the limit, no more chunks are taken, but all
//    chunks taken before are finished. So a bad line is reported before any error later in
//    the text.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/dataset_internal.h"
#include "data/format/kept.h"
#include "data/format/reader_ops.h"
#include "data/frame/rows.h"
#include "data/source/origins.h"

enum { REGION_MIN = 2 << 20, REGION_MAX = 32 << 20, KNOWN_BITS = 12 };

// A key that was resolved recently. Frequencies follow a power law: a few thousand keys
// make up most of the text and need not be looked up again.
struct known {
    uint64_t key;
    uint32_t id;
    bool used;
};

struct load_part {
    struct block block; // n = 0: the chunk has no example
    uint32_t bad;
    bool done;
    struct chunk *held; // the chunk, if it has bad lines, until the part is committed
};

// The memory that a member needs for a chunk; reused from chunk to chunk.
struct scratch {
    struct examples x;
    uint32_t *ids;        // ids of all features
    uint32_t *fresh, *at; // ids of the keys that are not in the cache, and the features
                          // with these keys
    size_t cap_ids;
    struct kept kept;
    struct known known[1 << KNOWN_BITS];
};

struct loader {
    const struct dataset_options *o;
    struct intake *in;
    struct dataset *d;
    struct scratch *scratch; // the scratch memory of each member of the team

    pthread_mutex_t take_lock; // protects the intake and `taken`
    size_t taken;

    pthread_mutex_t lock; // protects all fields below, and the data set's regions
    struct load_part *part;
    size_t cap_parts, committed;
    uint64_t bad_allowed, bad;
    struct chunk *offender; // the chunk with the bad line that exceeds the limit
    uint64_t offender_bad;  // the index of the line that exceeds the limit, among the bad
                            // lines of its chunk, from 1
    bool stop;
    struct err failure; // code 0: no failure
};

// ---------------------------------------------------------------- memory

static int add_region(struct dataset *d, size_t bytes)
{
    size_t size = REGION_MIN << (d->regions < 4 ? d->regions : 4);
    assert(size <= REGION_MAX);
    while (size < bytes)
        size *= 2;
    struct region *grown = mem_realloc_array(d->region, d->regions + 1, sizeof *grown);
    if (grown == NULL)
        return TUG_ENOMEM;
    d->region = grown;
    char *memory = mem_map(size);
    if (memory == NULL)
        return TUG_ENOMEM;
    d->region[d->regions++] = (struct region){.memory = memory, .size = size};
    return 0;
}

void *dataset_room(struct dataset *d, size_t bytes)
{
    struct region *r = d->regions > 0 ? &d->region[d->regions - 1] : NULL;
    if (r == NULL || r->size - r->used < bytes) {
        if (add_region(d, bytes) != 0)
            return NULL;
        r = &d->region[d->regions - 1];
    }
    void *p = r->memory + r->used;
    r->used += bytes;
    return p;
}

static void *loader_alloc(struct loader *l, size_t bytes)
{
    pthread_mutex_lock(&l->lock);
    void *p = dataset_room(l->d, bytes);
    pthread_mutex_unlock(&l->lock);
    return p;
}

// ---------------------------------------------------------------- parsing

static size_t first_line_len(const struct chunk *c)
{
    const char *end = memchr(c->text, '\n', c->len);
    return end != NULL ? (size_t)(end - c->text) : c->len;
}

// Adds "FILE:LINE" in front of the reason in *e.
static int bad_line(const struct loader *l, const struct chunk *c, uint32_t line,
                    struct err *e)
{
    uint64_t number = 0;
    if (e == NULL)
        return TUG_EDATA;
    if (c->rows != NULL)
        return err_wrap(e, "%s: row %" PRIu64, c->rows->name, c->line + line);
    if (c->offset == 0 && line == 0)
        reader_explain_first(l->o->reader, c->text, first_line_len(c), e);
    char where[ORIGIN_TEXT_MAX];
    struct err unknown;
    if (l->in->line(l->in, c, line, &number, &unknown) != 0)
        return err_copy(e, &unknown);
    origins_text(l->in->name(l->in, c->file), number, where);
    return err_wrap(e, "%s", where);
}

static int hold_place(struct examples *x, struct err *e)
{
    TRY(examples_reserve(x, 0, e));
    struct example none = {.weight = 1, .nnz = x->nnz};
    for (uint32_t t = 0; t < LABELS_MAX; t++)
        none.label[t] = (float)NAN;
    examples_commit(x, &none);
    return 0;
}

// The state of parsing one chunk.
struct parse {
    const struct loader *l;
    const struct chunk *c;
    struct scratch *s;
    uint64_t stop_at; // the number of the bad line at which to stop; 0: none
    uint32_t bad;
};

// Stores the kept columns of a line, or of the text of a row in memory; empty texts if
// the line is not an example.
static int keep_line(struct parse *p, size_t example, const char *text, size_t len,
                     struct err *e)
{
    int rc = kept_line(&p->s->kept, p->l->o->reader, p->c->layout, example, text, len, e);
    if (rc != TUG_EDATA)
        return rc;
    return err_wrap(e, "%s", p->l->in->name(p->l->in, p->c->file));
}

static int keep_row(struct parse *p, size_t example, bool good, uint32_t row,
                    struct err *e)
{
    struct buf text = BUF_INIT((size_t)1 << 40);
    const struct reader *r = p->l->o->reader;
    struct rows rows = *p->c->rows;
    int rc = 0;
    rows.separator = r->schema->separator;
    rows.list_separator = r->between;
    if (good)
        rc = rows_text(&rows, p->c->offset + row, &text, e);
    if (rc == 0 && buf_add(&text, (char[READER_PADDING]){0}, READER_PADDING) != 0)
        rc = err_nomem(e, "a row as text");
    if (rc == 0)
        text.len -= READER_PADDING;
    if (rc == 0)
        rc = keep_line(p, example, good ? text.data : NULL, text.len, e);
    buf_free(&text);
    return rc;
}

// Handles the reader's result `rc` for line number `line`, or for a row (`text` NULL).
// `n` is the number of examples before the line.
static int take_line(struct parse *p, uint32_t line, size_t n, const char *text,
                     size_t len, int rc, struct err *e)
{
    struct examples *x = &p->s->x;
    const struct dataset_options *o = p->l->o;
    if (rc == TUG_EDATA && ++p->bad == p->stop_at)
        return bad_line(p->l, p->c, line, e);
    if (rc != 0 && rc != TUG_EDATA)
        return rc;
    if (rc != 0 && o->hold_places)
        TRY(hold_place(x, e));
    if (x->n > n)
        x->line[n] = line;
    if (x->n == n || o->keep == NULL)
        return 0;
    return text == NULL ? keep_row(p, n, rc == 0, line, e)
                        : keep_line(p, n, rc == 0 ? text : NULL, len, e);
}

static int parse_lines(struct parse *p, struct err *e)
{
    const struct reader *r = p->l->o->reader;
    const struct chunk *c = p->c;
    struct examples *x = &p->s->x;
    bool header = c->offset == 0 && reader_has_header(r);
    const char *at = c->text, *end = at + c->len;
    for (uint32_t line = 0; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        size_t n = x->n, len = (size_t)(stop - at);
        int rc = header && line == 0 ? 0 : reader_line(r, c->layout, at, len, x, e);
        TRY(take_line(p, line, n, at, len, rc, e));
        at = stop + 1;
    }
    return 0;
}

static int parse_rows(struct parse *p, struct err *e)
{
    const struct chunk *c = p->c;
    for (uint32_t row = 0; row < c->n_rows; row++) {
        size_t n = p->s->x.n;
        int rc = reader_row(p->l->o->reader, c->layout, c->rows, c->offset + row,
                            &p->s->x, e);
        TRY(take_line(p, row, n, NULL, 0, rc, e));
    }
    return 0;
}

// Parses a chunk into s->x. Skips and counts bad lines until bad line number `stop_at`
// (0: none), for which it returns an error with its place.
static int parse_chunk(const struct loader *l, const struct chunk *c, uint64_t stop_at,
                       struct scratch *s, uint32_t *ret_bad, struct err *e)
{
    struct parse p = {.l = l, .c = c, .s = s, .stop_at = stop_at};
    examples_clear(&s->x);
    kept_clear(&s->kept);
    int rc = c->rows != NULL ? parse_rows(&p, e) : parse_lines(&p, e);
    *ret_bad = p.bad;
    return rc;
}

static int reserve_ids(struct scratch *s)
{
    if (s->x.nnz <= s->cap_ids)
        return 0;
    size_t cap = s->x.nnz + s->x.nnz / 4;
    uint32_t *grown = mem_array(3 * cap, sizeof *grown);
    if (grown == NULL)
        return TUG_ENOMEM;
    mem_free(s->ids);
    s->ids = grown;
    s->fresh = grown + cap;
    s->at = grown + 2 * cap;
    s->cap_ids = cap;
    return 0;
}

static struct known *known_at(struct scratch *s, uint64_t key)
{
    return &s->known[key * 0x9e3779b97f4a7c15u >> (64 - KNOWN_BITS)];
}

// Sets the ids of the keys that the cache has, and moves the other keys to the front.
// Returns the number of these other keys.
static size_t look_at_known(struct scratch *s)
{
    size_t unknown = 0;
    for (size_t i = 0; i < s->x.nnz; i++) {
        uint64_t key = s->x.key[i];
        const struct known *k = known_at(s, key);
        s->ids[i] = k->id;
        s->at[unknown] = (uint32_t)i;
        s->x.key[unknown] = key;
        unknown += !k->used || k->key != key;
    }
    return unknown;
}

static int dataset_load_resolve(struct loader *l, struct scratch *s, struct err *e)
{
    if (reserve_ids(s) != 0)
        return err_nomem(e, "examples");
    size_t unknown = look_at_known(s);
    int rc = l->o->resolve(l->o->resolve_ctx, s->x.key, unknown, s->fresh);
    if (rc == TUG_ENOMEM)
        return err_nomem(e, "the rows of new features");
    if (rc != 0)
        return err_set(e, rc, "looking up features failed: %s", err_text(rc));
    for (size_t i = 0; i < unknown; i++) {
        s->ids[s->at[i]] = s->fresh[i];
        *known_at(s, s->x.key[i]) = (struct known){
            .key = s->x.key[i], .id = s->fresh[i], .used = true};
    }
    return 0;
}

static int keep_texts(struct loader *l, const struct scratch *s, struct block *b,
                      struct err *e)
{
    size_t at = b->n * sizeof(uint32_t), bytes = at + s->kept.text.len;
    char *memory = loader_alloc(l, (bytes + 7) / 8 * 8);
    if (memory == NULL)
        return err_nomem(e, "columns that are kept");
    memcpy(memory, s->kept.at, at);
    memcpy(memory + at, s->kept.text.data, s->kept.text.len);
    b->kept_at = (const uint32_t *)(const void *)memory;
    b->kept = memory + at;
    return 0;
}

static int make_part(struct loader *l, struct scratch *s, const struct chunk *c,
                     struct load_part *ret, struct err *e)
{
    *ret = (struct load_part){.done = true};
    TRY(parse_chunk(l, c, 0, s, &ret->bad, e));
    if (s->x.n == 0)
        return 0;
    TRY(dataset_load_resolve(l, s, e));
    struct block_plan plan;
    TRY(block_plan(&plan, &s->x, s->ids, e));
    void *memory = loader_alloc(l, plan.bytes);
    if (memory == NULL)
        return err_nomem(e, "the data");
    block_pack(&ret->block, &plan, &s->x, s->ids, memory);
    ret->block.file = c->file;
    ret->block.line = c->line;
    return l->o->keep != NULL ? keep_texts(l, s, &ret->block, e) : 0;
}

// ---------------------------------------------------------------- taking and committing

// Takes the next chunk and the number of its part; the chunk is NULL at the end.
static int dataset_load_take(struct loader *l, struct chunk **ret, size_t *ret_part,
                             struct err *e)
{
    TRY(l->in->next(l->in, ret, e));
    if (*ret != NULL)
        *ret_part = l->taken++;
    return 0;
}

static int room_for_part(struct loader *l, size_t i)
{
    if (i < l->cap_parts)
        return 0;
    size_t cap = (i + 1) * 2 + 30;
    struct load_part *grown = mem_realloc_array(l->part, cap, sizeof *grown);
    if (grown == NULL)
        return TUG_ENOMEM;
    memset(grown + l->cap_parts, 0, (cap - l->cap_parts) * sizeof *grown);
    l->part = grown;
    l->cap_parts = cap;
    return 0;
}

// Counts the part's bad lines and releases its chunk, unless the chunk contains the line
// that exceeds the limit.
static void commit(struct loader *l, struct load_part *p)
{
    uint64_t left = l->bad_allowed - l->bad;
    if (p->bad > left) {
        l->offender = p->held;
        l->offender_bad = left + 1;
        l->stop = true;
        return;
    }
    l->bad += p->bad;
    if (p->held != NULL)
        l->in->release(l->in, p->held);
    p->held = NULL;
    l->committed++;
}

// Stores a part and commits all parts that are complete up to it. Takes ownership of the
// chunk. The caller holds the lock.
static int put_part(struct loader *l, size_t i, struct load_part *p, struct chunk *c,
                    struct err *e)
{
    if (room_for_part(l, i) != 0) {
        l->in->release(l->in, c);
        return err_nomem(e, "the data");
    }
    l->part[i] = *p;
    if (p->bad > 0)
        l->part[i].held = c;
    else
        l->in->release(l->in, c);
    while (l->offender == NULL && l->committed < l->cap_parts &&
           l->part[l->committed].done)
        commit(l, &l->part[l->committed]);
    return 0;
}

static void fail(struct loader *l, const struct err *e)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    if (l->failure.code == 0)
        l->failure = *e;
    pthread_mutex_unlock(&l->lock);
}

// Loads one chunk. Sets *ret_more to false if there are no more chunks or the load must
// stop.
static int load_chunk(struct loader *l, struct scratch *s, bool *ret_more, struct err *e)
{
    struct chunk *c = NULL;
    struct load_part p;
    size_t i = 0;
    pthread_mutex_lock(&l->lock);
    bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    *ret_more = false;
    if (stop)
        return 0;
    pthread_mutex_lock(&l->take_lock);
    int rc = dataset_load_take(l, &c, &i, e);
    pthread_mutex_unlock(&l->take_lock);
    if (rc != 0 || c == NULL)
        return rc;
    rc = make_part(l, s, c, &p, e);
    if (rc != 0) {
        l->in->release(l->in, c);
        return rc;
    }
    pthread_mutex_lock(&l->lock);
    rc = put_part(l, i, &p, c, e);
    pthread_mutex_unlock(&l->lock);
    *ret_more = true;
    return rc;
}

static void load_member(void *arg, int rank)
{
    struct loader *l = arg;
    struct err e = {0};
    bool more = true;
    while (more) {
        int rc = load_chunk(l, &l->scratch[rank], &more, &e);
        if (rc != 0) {
            e.code = rc;
            fail(l, &e);
            break;
        }
    }
}

// ---------------------------------------------------------------- the end

// Returns the error "FILE:LINE: reason" of the first bad line beyond max_bad_lines.
static int explain_bad_line(struct loader *l, struct err *e)
{
    uint32_t bad;
    int rc = parse_chunk(l, l->offender, l->offender_bad, &l->scratch[0], &bad, e);
    assert(rc != 0);
    if (rc != TUG_EDATA || e == NULL || l->o->max_bad_lines == 0)
        return rc;
    err_add(e, "; that is one line more than --max-bad-lines %llu allows",
            (unsigned long long)l->o->max_bad_lines);
    return rc;
}

void dataset_add_block(struct dataset *d, const struct block *b)
{
    struct block *to = &d->block[d->blocks++];
    *to = *b;
    to->first = d->size;
    d->size += b->n;
    d->features += b->nnz;
    d->positives += b->positives;
    d->labels = b->labels; // all blocks have the same number of labels
    d->has_values |= b->has_values;
    d->has_weights |= b->weights != NULL;
    if (b->nnz > 0 && (d->slots == 0 || b->min_slot < d->first_slot))
        d->first_slot = b->min_slot;
    if (b->nnz > 0 && d->slots < b->max_slot + 1)
        d->slots = b->max_slot + 1;
}

// Makes the finder, with about two entries per block, so that the search for an example
// is short.
int dataset_make_finder(struct dataset *d)
{
    while (d->size >> d->finder_shift > 2 * (uint64_t)d->blocks)
        d->finder_shift++;
    size_t n = (size_t)(d->size >> d->finder_shift) + 1;
    d->finder = mem_array(n, sizeof *d->finder);
    if (d->finder == NULL)
        return TUG_ENOMEM;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t example = (uint64_t)i << d->finder_shift;
        while (at + 1 < d->blocks && d->block[at + 1].first <= example)
            at++;
        d->finder[i] = (uint32_t)at;
    }
    return 0;
}

static int collect_blocks(struct loader *l, struct err *e)
{
    struct dataset *d = l->d;
    d->block = mem_array(l->committed + 1, sizeof *d->block);
    if (d->block == NULL)
        return err_nomem(e, "the data");
    for (size_t i = 0; i < l->committed; i++)
        if (l->part[i].block.n > 0)
            dataset_add_block(d, &l->part[i].block);
    return dataset_make_finder(d) == 0 ? 0 : err_nomem(e, "the data");
}

static int dataset_load_finish(struct loader *l, struct err *e)
{
    if (l->offender != NULL)
        return explain_bad_line(l, e);
    if (l->failure.code != 0)
        return err_copy(e, &l->failure);
    assert(l->committed == l->taken);
    TRY(collect_blocks(l, e));
    *l->o->bad_lines += l->bad;
    return 0;
}

static void loader_close(struct loader *l)
{
    for (size_t i = 0; i < l->cap_parts; i++)
        if (l->part[i].held != NULL)
            l->in->release(l->in, l->part[i].held);
    mem_free(l->part);
    for (int i = 0; l->scratch != NULL && i < team_size(l->o->team); i++) {
        examples_free(&l->scratch[i].x);
        kept_free(&l->scratch[i].kept);
        mem_free(l->scratch[i].ids);
    }
    mem_free(l->scratch);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->take_lock);
}

int dataset_load_from(struct dataset **ret, const struct dataset_options *o,
                      struct intake *in, struct err *e)
{
    uint64_t used = *o->bad_lines;
    struct loader l = {.o = o,
                       .in = in,
                       .bad_allowed = o->max_bad_lines > used ? o->max_bad_lines - used
                                                              : 0};
    pthread_mutex_init(&l.lock, NULL);
    pthread_mutex_init(&l.take_lock, NULL);
    l.d = mem_zalloc(sizeof *l.d);
    l.scratch = mem_zalloc((size_t)team_size(o->team) * sizeof *l.scratch);
    int rc;
    for (int i = 0; l.scratch != NULL && i < team_size(o->team); i++) {
        l.scratch[i].kept.names = o->keep;
        l.scratch[i].kept.option = o->keep_option;
    }
    if (l.d == NULL || l.scratch == NULL) {
        rc = err_nomem(e, "the data");
    } else {
        team_run(o->team, load_member, &l);
        rc = dataset_load_finish(&l, e);
    }
    loader_close(&l);
    if (rc == 0)
        *ret = l.d;
    else
        dataset_close(l.d);
    return rc;
}
