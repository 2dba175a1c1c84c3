// See deal_rows.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/deal_rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/hash.h"
#include "rule/rule.h"
#include "train_cluster/deal_words.h"
#include "train_cluster/exchange.h"

enum {
    AT_ONCE = 4096, // most rows of a request
    HEADS = 1024,   // the most cells whose heads are pulled at a time
};

enum { FILE_BITS = 14, INDEX_BITS = 21, ROW_BITS = 19 };
static_assert(DEAL_MAX_BUCKETS == 1 << (64 - FILE_BITS - INDEX_BITS - ROW_BITS), "");

struct head {
    uint64_t hash; // hash of the cell's text
    uint32_t bytes;
    uint32_t last; // index of the file's last piece with a line
};

// The position of a pulled row's bytes in the text.
struct span {
    size_t at;
    size_t n;
};

// Rows of a push or pull that is under way.
struct request {
    uint64_t *keys;
    float *values;
    struct span *to;
    size_t n;
    client_ts ts;
};

struct cell {
    struct dealt_cell at;
    struct head head;
};

struct deal_rows {
    struct client *client;
    struct pieces *pieces;
    uint32_t buckets;
    struct deal *deal;
    struct request requests[2]; // one request is filled while the other is pushed
    uint32_t filled;            // index of the request that is being filled
    uint8_t *found;
    // The bucket that is being loaded.
    struct buf text;
    struct cell *cells;
    struct dealt_cell *list; // positions of the cells in the text, in the form that
                             // dataset loading needs
    size_t n_cells, cap_cells;
};

static struct table_config settings(void)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), "shuffle");
    t.accessor.dim = DEAL_WIDTH;
    // sgd has no state, so that a row has only its weights
    t.accessor.rule = rule_defaults(RULE_SGD);
    return t;
}

static int make_table(struct deal_rows *d, struct err *e)
{
    struct table_config t = settings();
    client_ts ts = client_table(d->client, EXCHANGE_SHUFFLE, &t, e);
    return ts != 0 ? client_wait(d->client, ts, e) : e->code;
}

static int deal_rows_reserve(struct deal_rows *d)
{
    for (int i = 0; i < 2; i++) {
        struct request *r = &d->requests[i];
        r->keys = mem_array(AT_ONCE, sizeof(*r->keys));
        r->to = mem_array(AT_ONCE, sizeof(*r->to));
        r->values = mem_array((size_t)AT_ONCE * DEAL_WIDTH, sizeof(*r->values));
        if (r->keys == NULL || r->to == NULL || r->values == NULL)
            return TUG_ENOMEM;
    }
    d->found = mem_array(AT_ONCE, 1);
    return d->found != NULL ? 0 : TUG_ENOMEM;
}

int deal_rows_open(struct deal_rows **ret, const struct deal_rows_options *o,
                   struct err *e)
{
    if (pieces_files(o->pieces) > 1 << FILE_BITS)
        return err_set(e, TUG_EUSAGE,
                       "--shuffle global: %zu files are more than %d: concatenate some",
                       pieces_files(o->pieces), 1 << FILE_BITS);
    struct deal_rows *d = mem_zalloc(sizeof(*d));
    if (d == NULL)
        return err_nomem(e, "the shuffle");
    *d = (struct deal_rows){
        .client = o->client, .pieces = o->pieces, .buckets = o->deal.buckets};
    d->text = BUF_INIT(PIECE_BYTES_MAX);
    int rc = deal_rows_reserve(d) == 0 ? 0 : err_nomem(e, "the shuffle");
    if (rc == 0)
        rc = deal_open(&d->deal, &o->deal, e);
    if (rc == 0)
        rc = make_table(d, e);
    if (rc == 0)
        *ret = d;
    else
        deal_rows_close(d);
    return rc;
}

void deal_rows_close(struct deal_rows *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        client_cancel(d->client, d->requests[i].ts);
        mem_free(d->requests[i].keys);
        mem_free(d->requests[i].to);
        mem_free(d->requests[i].values);
    }
    deal_close(d->deal);
    buf_free(&d->text);
    mem_free(d->cells);
    mem_free(d->list);
    mem_free(d->found);
    mem_free(d);
}

uint32_t deal_rows_buckets(const struct deal_rows *d)
{
    return d->buckets;
}

static uint64_t deal_key_of(uint32_t bucket, uint32_t file, uint64_t index, uint64_t row)
{
    return (((uint64_t)bucket << FILE_BITS | file) << INDEX_BITS | index) << ROW_BITS |
           row;
}

// Waits for a request. After an interrupt the request is still open: its timestamp stays
// for deal_rows_close.
static int deal_rows_wait(struct deal_rows *d, struct request *r, struct err *e)
{
    if (r->ts != 0)
        TRY(client_wait(d->client, r->ts, e));
    r->ts = 0;
    r->n = 0;
    return 0;
}

// Adds a hint to an error: the servers' memory must hold all of the data for the shuffle.
static int explain(int rc, struct err *e)
{
    return rc == 0 ? 0
                   : err_wrap(e, "--shuffle global (the servers hold the text of --data "
                                 "until the run is over)");
}

static int send_rows(struct deal_rows *d, struct err *e)
{
    struct request *r = &d->requests[d->filled];
    struct client_push p = {.table = EXCHANGE_SHUFFLE,
                            .keys = r->keys,
                            .n = r->n,
                            .values = r->values,
                            .op = WIRE_ROW,
                            .rate = 1,
                            .pass = 1};
    if (r->n > 0 && (r->ts = client_push(d->client, &p, e)) == 0)
        return explain(e->code, e);
    d->filled ^= 1;
    return explain(deal_rows_wait(d, &d->requests[d->filled], e), e);
}

static int put_row(struct deal_rows *d, uint64_t key, const char *head, size_t head_bytes,
                   const char *text, size_t n, struct err *e)
{
    char bytes[DEAL_ROW_BYTES] = {0};
    struct request *r = &d->requests[d->filled];
    if (head_bytes > 0)
        memcpy(bytes, head, head_bytes);
    if (n > 0)
        memcpy(bytes + head_bytes, text, n);
    r->keys[r->n] = key;
    deal_pack(bytes, r->values + r->n * DEAL_WIDTH);
    return ++r->n < AT_ONCE ? 0 : send_rows(d, e);
}

// Bytes of text in the first row of a cell. That row also has the head.
enum { FIRST_BYTES = DEAL_ROW_BYTES - sizeof(struct head) };

static int put_cell(struct deal_rows *d, uint64_t key, const char *text, size_t len,
                    bool last, struct err *e)
{
    struct head h = {
        .hash = hash_bytes(text, len, 0), .bytes = (uint32_t)len, .last = last};
    size_t at = min_u64(len, FIRST_BYTES), row = 1;
    if (len >= (size_t)DEAL_ROW_BYTES << ROW_BITS)
        return err_set(e, TUG_EDATA,
                       "--shuffle global: %zu bytes of a piece go to one bucket; its "
                       "lines are too long",
                       len);
    TRY(put_row(d, key, (const char *)&h, sizeof(h), text, at, e));
    for (; at < len; at += DEAL_ROW_BYTES, row++)
        TRY(put_row(d, key + row, NULL, 0, text + at, min_u64(len - at, DEAL_ROW_BYTES),
                    e));
    return 0;
}

int deal_rows_put(struct deal_rows *d, uint32_t file, uint64_t index, bool *ret_at_end,
                  struct err *e)
{
    if (index >> INDEX_BITS != 0)
        return err_set(e, TUG_EDATA, "--shuffle global: %s is too large: split it",
                       pieces_file_name(d->pieces, file));
    TRY(deal_piece(d->deal, d->pieces, file, index, ret_at_end, e));
    for (uint32_t b = 0; b < d->buckets; b++) {
        size_t len;
        const char *text = deal_cell(d->deal, b, &len);
        TRY(put_cell(d, deal_key_of(b, file, index, 0), text, len, *ret_at_end, e));
    }
    TRY(send_rows(d, e));
    // the other request is the one that was sent last
    return explain(deal_rows_wait(d, &d->requests[d->filled ^ 1], e), e);
}

static int deal_rows_pull_rows(struct deal_rows *d, struct request *r, struct err *e)
{
    struct client_pull p = {.table = EXCHANGE_SHUFFLE,
                            .keys = r->keys,
                            .n = r->n,
                            .values = r->values,
                            .whole_rows = true,
                            .found = d->found};
    r->ts = client_pull(d->client, &p, e);
    if (r->ts == 0)
        return e->code;
    size_t n = r->n;
    int rc = deal_rows_wait(d, r, e);
    r->n = n;
    return rc;
}

static int missing(const struct deal_rows *d, const struct dealt_cell *at, struct err *e)
{
    return err_set(e, TUG_EIO,
                   "piece %llu of %s is not among the shuffled data on the servers, or "
                   "damaged",
                   (unsigned long long)at->index, pieces_file_name(d->pieces, at->file));
}

static int add_cell(struct deal_rows *d, const struct dealt_cell *at, const float *row,
                    struct err *e)
{
    char bytes[DEAL_ROW_BYTES];
    struct cell c = {.at = {at->file, at->index, d->text.len}};
    if (mem_room(&d->cells, &d->cap_cells, d->n_cells + 1) != 0)
        return err_nomem(e, "a bucket of data");
    deal_unpack(row, bytes);
    memcpy(&c.head, bytes, sizeof(c.head));
    if (c.head.bytes >= (uint64_t)DEAL_ROW_BYTES << ROW_BITS)
        return missing(d, at, e);
    if (buf_reserve(&d->text, (size_t)c.head.bytes + READER_PADDING) != 0)
        return err_set(e, TUG_ENOMEM,
                       "--shuffle global: no memory for a bucket of more than %zu bytes",
                       d->text.len);
    memcpy(d->text.data + d->text.len, bytes + sizeof(c.head),
           min_u64(c.head.bytes, FIRST_BYTES));
    d->text.len += c.head.bytes;
    d->cells[d->n_cells++] = c;
    return 0;
}

// The position of the cell whose head is pulled next. The number of pieces of
// a compressed file is not known, so heads after its last piece are also
// pulled, and are ignored.
struct cursor {
    uint32_t file;
    uint64_t index;
};

static size_t ask_heads(struct deal_rows *d, struct cursor c, uint32_t bucket,
                        struct dealt_cell *ret)
{
    struct request *r = &d->requests[0];
    bool exact = true;
    for (r->n = 0; r->n < HEADS && c.file < pieces_files(d->pieces) && exact; c.file++) {
        uint64_t count = pieces_count(d->pieces, c.file, &exact);
        if (!exact && count < 2 * c.index + 1)
            count = 2 * c.index + 1;
        if (count > (uint64_t)1 << INDEX_BITS)
            // The number of pieces is unknown, so all possible pieces are tried.
            count = (uint64_t)1 << INDEX_BITS;
        for (; c.index < count && r->n < HEADS; c.index++) {
            ret[r->n] = (struct dealt_cell){.file = c.file, .index = c.index};
            r->keys[r->n++] = deal_key_of(bucket, c.file, c.index, 0);
        }
        c.index = 0;
    }
    return r->n;
}

static int take_heads(struct deal_rows *d, struct cursor *c, const struct dealt_cell *at,
                      size_t n, struct err *e)
{
    const struct request *r = &d->requests[0];
    for (size_t i = 0; i < n; i++) {
        if (at[i].file < c->file)
            continue;
        // The cell's row is missing, or all cells of the file were tried and none
        // says that it is the last.
        if (at[i].file > c->file || !d->found[i])
            return missing(d, &at[i], e);
        TRY(add_cell(d, &at[i], r->values + i * DEAL_WIDTH, e));
        c->index = at[i].index + 1;
        if (d->cells[d->n_cells - 1].head.last)
            *c = (struct cursor){.file = at[i].file + 1};
    }
    return 0;
}

static int take_rows(struct deal_rows *d, struct err *e)
{
    struct request *r = &d->requests[0];
    char bytes[DEAL_ROW_BYTES];
    if (r->n == 0)
        return 0;
    TRY(deal_rows_pull_rows(d, r, e));
    for (size_t i = 0; i < r->n; i++) {
        deal_unpack(r->values + i * DEAL_WIDTH, bytes);
        memcpy(d->text.data + r->to[i].at, bytes, r->to[i].n);
    }
    r->n = 0;
    return 0;
}

// Pulls the other rows of the cells from `first` on. The first row of each cell, with its
// head, was pulled before.
static int fill_cells(struct deal_rows *d, uint32_t bucket, size_t first, struct err *e)
{
    struct request *r = &d->requests[0];
    r->n = 0;
    for (size_t i = first; i < d->n_cells; i++) {
        const struct cell *c = &d->cells[i];
        uint64_t key = deal_key_of(bucket, c->at.file, c->at.index, 1);
        for (size_t at = FIRST_BYTES; at < c->head.bytes; at += DEAL_ROW_BYTES) {
            r->keys[r->n] = key++;
            r->to[r->n] = (struct span){c->at.at + at,
                                        min_u64(c->head.bytes - at, DEAL_ROW_BYTES)};
            if (++r->n == AT_ONCE)
                TRY(take_rows(d, e));
        }
    }
    return take_rows(d, e);
}

static int check_cells(const struct deal_rows *d, struct err *e)
{
    for (size_t i = 0; i < d->n_cells; i++) {
        const struct cell *c = &d->cells[i];
        if (hash_bytes(d->text.data + c->at.at, c->head.bytes, 0) != c->head.hash)
            return missing(d, &c->at, e);
    }
    return 0;
}

static int get_bucket(struct deal_rows *d, uint32_t bucket, struct err *e)
{
    struct dealt_cell at[HEADS];
    struct cursor c = {0};
    d->n_cells = 0;
    buf_clear(&d->text);
    while (c.file < pieces_files(d->pieces)) {
        size_t first = d->n_cells, n = ask_heads(d, c, bucket, at);
        if (n == 0)
            return missing(d, &(struct dealt_cell){.file = c.file, .index = c.index}, e);
        TRY(deal_rows_pull_rows(d, &d->requests[0], e));
        TRY(take_heads(d, &c, at, n, e));
        TRY(fill_cells(d, bucket, first, e));
    }
    return check_cells(d, e);
}

int deal_rows_load(struct deal_rows *d, uint32_t bucket, const struct dataset_options *o,
                   struct dataset **ret, struct err *e)
{
    TRY(get_bucket(d, bucket, e));
    mem_free(d->list);
    d->list = mem_array(d->n_cells, sizeof(*d->list));
    if (d->list == NULL)
        return err_nomem(e, "a bucket of data");
    for (size_t i = 0; i < d->n_cells; i++)
        d->list[i] = d->cells[i].at;
    memset(d->text.data + d->text.len, 0, READER_PADDING);
    struct dealt x = {.deal = d->deal,
                      .pieces = d->pieces,
                      .bucket = bucket,
                      .text = d->text.data,
                      .len = d->text.len,
                      .cells = d->list,
                      .n = d->n_cells};
    return dataset_load_dealt(ret, o, &x, e);
}
