// See records.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/records.h"

#include <assert.h>
#include <string.h>

#include "cluster/roster.h"
#include "protocol/keys.h"
#include "protocol/limits.h"
#include "server/chain/chain.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// The session and the identity of a push, by which a repeat is found if this loop serves
// the partition later.
struct notes {
    uint64_t session, number, pass, piece, table, group, low;
};
enum { NOTES = sizeof(struct notes) / sizeof(uint64_t) };

static_assert(sizeof(struct notes) + PARTITION_PUSH_HEAD == RECORDS_PUSH_COMMON,
              "the common content of a push");

void records_write_push(const struct shard_table *t, const struct msg_push *m,
                        const struct store_push *p, char *to)
{
    struct notes x = {.session = m->session,
                      .number = m->number,
                      .pass = m->id_pass,
                      .piece = m->id_piece,
                      .table = t->spec.id,
                      .group = m->id_group,
                      .low = m->id_low};
    memcpy(to, &x, sizeof(x));
    partition_write_head(t, p, 0, to + sizeof(x));
}

int records_add_table(const struct shard_table *t, struct buf *to)
{
    uint64_t head[] = {t->spec.id, t->config.len};
    TRY(stream_add_u64s(to, head, 2));
    return stream_add(to, t->config.data, t->config.len);
}

// Begins to record the push as applied. All numbers that are too far below this one are
// acknowledged, because the primary has accepted the push: so the session's mark can be
// raised, and the number is never beyond the window.
static int begin_note(struct shard *s, enum wire_space space, const struct notes *x,
                      struct retries_push *ret, struct err *e)
{
    const struct retries_id id = {.pass = x->pass,
                                  .piece = x->piece,
                                  .table = (uint32_t)x->table,
                                  .group = (uint32_t)x->group,
                                  .low = (uint32_t)x->low};
    uint64_t low = x->number >= SHARD_WINDOW ? x->number + 1 - SHARD_WINDOW : 0;
    *ret = (struct retries_push){0};
    // A shard that has forgotten a session must not remember it again.
    if (roster_session_over(member_roster(s->member), x->session))
        return 0;
    return retries_begin(s->applied, x->session, x->number, low, space, &id, ret, e);
}

bool records_applies(const struct shard *s, const struct channel_record *r, uint32_t i)
{
    return s->chain->of[r->space][r->places[i].partition].applies;
}

// The keys and values of the places that are applied, one place after the other.
struct pushed {
    struct keys keys;
    const float *values;
};

// Reserves scratch memory for the keys and values of a record's places.
static int reserve(struct shard *s, const struct channel_record *r, size_t width,
                   struct err *e)
{
    struct chain *c = s->chain;
    size_t n = r->n / (sizeof(uint64_t) + width * sizeof(float));
    buf_clear(&c->pushed);
    if (buf_reserve(&c->pushed, n * sizeof(uint64_t)) != 0 ||
        shard_floats(s, n * width) == NULL)
        return err_nomem(e, "the keys and values of a replica");
    return 0;
}

// Gathers the keys and values of the places that are applied. Those of a single place are
// not copied.
static int gather(struct shard *s, const struct channel_record *r, size_t width,
                  struct pushed *ret, struct err *e)
{
    struct key_run *runs = s->chain->runs;
    const char *content = r->bytes;
    struct keys k = {.key = (const void *)content, .runs = runs};
    size_t each = sizeof(uint64_t) + width * sizeof(float);
    bool copies = r->n_places > 1;
    float *values = copies ? s->floats : NULL;
    for (uint32_t i = 0; i < r->n_places; i++, content += r->places[i - 1].bytes) {
        size_t n = r->places[i].bytes / each;
        if (!records_applies(s, r, i))
            continue;
        if (n == 0 || n > KEYS_MAX ||
            r->places[i].bytes != partition_push_bytes(n, width))
            return stream_damaged(e);
        runs[k.n_runs++] = (struct key_run){r->places[i].partition, k.n};
        if (copies) {
            (void)buf_add(&s->chain->pushed, content, n * sizeof(uint64_t));
            memcpy(values + k.n * width, content + n * sizeof(uint64_t),
                   n * width * sizeof(float));
        }
        k.n += (uint32_t)n;
        k.longest = n > k.longest ? (uint32_t)n : k.longest;
    }
    runs[k.n_runs] = (struct key_run){UINT32_MAX, k.n};
    k.key = (const void *)(copies ? s->chain->pushed.data : r->bytes);
    *ret = (struct pushed){k, copies ? values
                                     : (const void *)(r->bytes + k.n * sizeof(uint64_t))};
    return 0;
}

static int apply_push(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                      struct err *e)
{
    struct retries_push known;
    struct partition_push push;
    struct pushed x;
    struct notes notes;
    size_t done;
    if (r->n_common != RECORDS_PUSH_COMMON)
        return stream_damaged(e);
    memcpy(&notes, r->common, sizeof(notes));
    if (notes.session == 0 || notes.number == UINT64_MAX)
        return stream_damaged(e);
    TRY(partition_read_head(s, r->space, r->common + sizeof(notes), &push, e));
    TRY(reserve(s, r, push.width, e));
    TRY(gather(s, r, push.width, &x, e));
    TRY(begin_note(s, r->space, &notes, &known, e));
    int rc = partition_put_keys(s, &push, &x.keys, x.values, &done, e);
    uint32_t n = 0;
    for (; n < x.keys.n_runs && x.keys.runs[n + 1].begin <= done; n++)
        retries_note(&known, x.keys.runs[n].partition);
    *ret_n = n;
    return rc;
}

static int apply_table(struct shard *s, const struct channel_record *r, struct err *e)
{
    struct stream x = {r->common, r->n_common, 0};
    uint64_t head[2];
    if (!stream_u64s(&x, head, 2) || head[0] >= SPEC_MAX_TABLES ||
        head[1] > WIRE_TEXT_MAX)
        return stream_damaged(e);
    const char *config = stream_take(&x, head[1], 1);
    if (config == NULL)
        return stream_damaged(e);
    struct msg_table m = {.table = (uint32_t)head[0],
                          .config = {config, (uint32_t)head[1]}};
    return tables_make(s, &m, e);
}

static int refuse_refill(const struct channel_record *r, struct err *e)
{
    return err_set(e, TUG_EINTERRUPTED, "%.*s", (int)strnlen(r->common, r->n_common),
                   r->common);
}

int records_apply(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                  struct err *e)
{
    *ret_n = 0;
    return r->kind == RECORD_PUSH     ? apply_push(s, r, ret_n, e)
           : r->kind == RECORD_TABLE  ? apply_table(s, r, e)
           : r->kind == RECORD_REFILL ? refuse_refill(r, e)
                                      : stream_damaged(e);
}
