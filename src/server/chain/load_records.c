// Records of loads. A backup reads the files of the save itself: all servers must be able to
// read them, because each one leads partitions. A load blocks the loop. If it takes much
// longer than at the member before (leave_after_load), the backup is dropped and filled again.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "server/admin.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/sync_backup.h"
#include "server/moves/stream.h"
#include "server/rows/loads.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// The common content begins with this; the path of the save and the name of the table in it
// follow.
struct load_record {
    uint64_t table, checksum, session, number, low, path, name; // bytes of both texts
};

static const char refill[128] = "a load of a table has failed at its primary";

int chain_find_load(struct shard *s, const struct shard_request *q,
                    enum admin_state *state, uint64_t *ret_rows, struct err *e)
{
    const struct msg_load *m = &q->m->load;
    return s->chain == NULL
               ? 0
               : records_find_left(s, q, m->table, m->number, m->low, state, ret_rows, e);
}

static int encode(const struct load_record *x, const struct loads_from *from,
                  struct buf *to, struct err *e)
{
    if (stream_add(to, x, sizeof(*x)) != 0 || stream_add(to, from->path, x->path) != 0 ||
        stream_add(to, from->name, x->name) != 0)
        return err_nomem(e, "the record of a load for replicas");
    return 0;
}

static int load(struct shard *s, struct shard_table *t, const struct load_record *x,
                const struct loads_from *from, const struct buf *record, struct err *e)
{
    const uint32_t *left = s->chain->left, n = s->chain->n_left;
    enum wire_space space = t->spec.space;
    bool changed;
    size_t most = record->len > sizeof(refill) ? record->len : sizeof(refill);
    TRY(chain_reserve_places(s, space, left, n, most, e));
    int rc = loads_some(s, t, from, left, n, &changed, e);
    if (changed)
        tables_restart(s, t, NULL); // open batches were of the old rows
    if (rc == 0)
        chain_note_places(s, RECORD_LOAD, space, left, n, record->data, record->len);
    else if (changed)
        chain_note_places(s, RECORD_REFILL, space, left, n, refill, sizeof(refill));
    uint64_t *parts = rc == 0 ? admin_find_parts(&s->admin, x->session, x->number) : NULL;
    for (uint32_t i = 0; i < n && parts != NULL; i++)
        parts[left[i]] = store_rows_of(t->store, left[i]);
    return rc;
}

int chain_lead_load(struct shard *s, struct shard_table *t, const struct msg_load *m,
                    const struct loads_from *from, struct err *e)
{
    struct load_record x = {.table = t->spec.id,
                            .checksum = m->checksum,
                            .session = s->chain->left_session,
                            .number = m->number,
                            .low = admin_record_low(m->number, m->low),
                            .path = strlen(from->path),
                            .name = strlen(from->name)};
    struct buf record = BUF_INIT(WIRE_TEXT_MAX);
    int rc = encode(&x, from, &record, e);
    if (rc == 0)
        rc = load(s, t, &x, from, &record, e);
    buf_free(&record);
    return rc;
}

// Reads the texts of a record.
static int decode(const struct channel_record *r, struct load_record *ret,
                  char path[FILE_PATH_MAX], char name[CONFIG_NAME_MAX], struct err *e)
{
    struct stream x = {r->common, r->n_common, 0};
    const struct load_record *head = stream_take(&x, 1, sizeof(*head));
    if (head == NULL || head->path >= FILE_PATH_MAX || head->name >= CONFIG_NAME_MAX)
        return stream_damaged(e);
    const char *texts[] = {stream_take(&x, head->path, 1),
                           stream_take(&x, head->name, 1)};
    if (texts[0] == NULL || texts[1] == NULL)
        return stream_damaged(e);
    memcpy(ret, head, sizeof(*ret));
    memcpy(path, texts[0], head->path);
    memcpy(name, texts[1], head->name);
    path[head->path] = name[head->name] = '\0';
    return 0;
}

// Loads the rows of the n places in `list`, and records that the operation was done there.
static int follow(struct shard *s, struct shard_table *t, const struct load_record *x,
                  const struct loads_from *from, const uint32_t *list, uint32_t n,
                  struct err *e)
{
    uint64_t *parts;
    bool changed;
    for (uint32_t i = 0; i < n; i++) {
        moves_break_copy(s, t->spec.space, list[i], "a table was loaded");
        if (t->spec.mode == WIRE_SYNC)
            TRY(sync_backup_restart(s, t, list[i], NULL, e));
    }
    TRY(chain_learn_operation(s, t->spec.space, x->session, x->number, x->low, &parts,
                              e));
    if (!t->unbacked)
        TRY(loads_some(s, t, from, list, n, &changed, e));
    for (uint32_t i = 0; i < n && parts != NULL; i++)
        parts[list[i]] = store_rows_of(t->store, list[i]);
    return 0;
}

int records_apply_load(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                       struct err *e)
{
    char path[FILE_PATH_MAX], name[CONFIG_NAME_MAX];
    struct load_record x;
    TRY(decode(r, &x, path, name, e));
    const struct loads_from from = {path, name, x.checksum};
    struct shard_table *t = x.table < SPEC_MAX_TABLES ? s->tables[x.table] : NULL;
    if (t == NULL || t->spec.space != r->space)
        return stream_damaged(e);
    uint32_t *list = mem_array(r->n_places, sizeof(*list)), n = 0;
    if (list == NULL)
        return err_nomem(e, "a list of partitions");
    for (uint32_t i = 0; i < r->n_places; i++)
        if (records_applies(s, r, i))
            list[n++] = r->places[i].partition;
    int rc = follow(s, t, &x, &from, list, n, e);
    mem_free(list);
    if (rc == 0)
        *ret_n = n;
    return rc;
}
