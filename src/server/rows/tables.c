// Tables: making and finding them, operations on a whole table, and figures.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/tables.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync.h"
#include "server/rows/cold_dir.h"
#include "server/rows/copies.h"
#include "server/rows/place.h"
#include "server/shard_internal.h"

struct shard_table *tables_find(const struct shard *s, uint32_t id, struct err *e)
{
    struct shard_table *t = id < SPEC_MAX_TABLES ? s->tables[id] : NULL;
    if (t == NULL)
        err_because(e, TUG_EUSAGE, REASON_TABLE_UNKNOWN, 0,
                    "there is no table %u on node %u: make the table first", id,
                    member_id(s->member));
    return t;
}

static void table_free(struct shard *s, struct shard_table *t)
{
    if (t == NULL)
        return;
    assert(s->bytes >= t->bytes);
    sync_close(s, t);
    s->bytes -= t->bytes;
    store_close(t->store);
    ssp_clock_fini(&t->ssp);
    retries_close(t->applied);
    mem_free(t->changed_at);
    buf_free(&t->config);
    mem_free(t);
}

void tables_close(struct shard *s)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        table_free(s, s->tables[i]);
}

void tables_measure(struct shard *s, struct shard_table *t)
{
    assert(s->bytes >= t->bytes);
    s->bytes -= t->bytes;
    t->bytes = store_bytes(t->store);
    t->measured = t->version;
    t->measured_at = s->now;
    s->bytes += t->bytes;
}

void tables_limit(struct shard *s, struct shard_table *t)
{
    assert(s->bytes >= t->bytes);
    uint64_t others = s->bytes - t->bytes;
    if (s->o.max_bytes != 0)
        store_set_limit(t->store, s->o.max_bytes > others ? s->o.max_bytes - others : 1);
}

void tables_touch_all(struct shard *s, struct shard_table *t)
{
    t->version++;
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        t->changed_at[p] = t->version;
}

static int set_living(struct shard *s, struct shard_table *t)
{
    const struct roster *r = member_roster(s->member);
    uint64_t *sessions = mem_array(r->n_nodes + 1, sizeof(*sessions));
    size_t n = 0;
    if (sessions == NULL)
        return TUG_ENOMEM;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_WORKER && r->nodes[i].alive)
            sessions[n++] = r->nodes[i].session;
    int rc = ssp_clock_living(&t->ssp, sessions, n);
    mem_free(sessions);
    return rc;
}

void tables_living(struct shard *s)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->spec.mode == WIRE_SSP)
            // if memory is out, a dead worker delays the others until the next roster
            (void)set_living(s, s->tables[i]);
    pending_wake(s, WANTS_TICK);
}

static int reserve_strip(struct shard *s, const struct table_spec *spec, struct err *e)
{
    const struct accessor *a = &spec->accessor;
    size_t most = a->width > a->push_width ? a->width : a->push_width;
    most = most > a->pull_width ? most : a->pull_width;
    most = most > STRIP_FLOATS ? most : STRIP_FLOATS;
    if (most <= s->max_strip)
        return 0;
    float *strip = mem_array(most, sizeof(*strip));
    if (strip == NULL)
        return err_nomem(e, "values to convert");
    mem_free(s->strip);
    s->strip = strip;
    s->max_strip = most;
    return 0;
}

// Gives a new store, which has no rows, the partitions whose rows are on this shard.
static void own(const struct shard *s, const struct table_spec *spec, struct store *store)
{
    const uint32_t *owners = member_roster(s->member)->owners[spec->space];
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++) {
        store_set_owned(store, p, roles_of(&s->roles, spec->space, p) != ROLE_AWAY);
        if (s->chain != NULL)
            store_set_backup(store, p, owners[p] != member_id(s->member));
    }
}

void tables_lead(const struct shard *s, enum wire_space space, uint32_t partition,
                 bool leads)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->spec.space == space)
            store_set_backup(s->tables[i]->store, partition, !leads);
}

// The roster has changed. A store gains or loses a partition only when the partition's
// rows come or go, which may be before or after the roster; so only the groups of
// partitions change here.
void tables_own(struct shard *s)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL)
            (void)sync_own(s, s->tables[i]); // on an error, sync_push calls it again
}

int tables_open_store(const struct shard *s, const struct shard_table *t,
                      struct store **ret, struct err *e)
{
    char cold[FILE_PATH_MAX];
    struct store_options o = {.config = &t->spec.config,
                              .id = t->spec.id,
                              .partition_bits = s->bits,
                              .max_bytes = s->o.max_bytes};
    if (t->spec.config.cold[0] != '\0') {
        TRY(cold_dir_find(s, t, cold, e));
        o.cold_dir = cold;
    }
    TRY(store_open(ret, &o, e));
    own(s, &t->spec, *ret);
    store_set_step(*ret, step_clock_sum(&s->steps));
    return 0;
}

static int table_make(struct shard *s, const struct table_spec *spec,
                      struct shard_table **ret, struct err *e)
{
    struct shard_table *t = mem_zalloc(sizeof(*t));
    assert(s->ready && spec->id < SPEC_MAX_TABLES && s->tables[spec->id] == NULL);
    *ret = t;
    if (t == NULL)
        return err_nomem(e, "a table");
    t->spec = *spec;
    t->drops = s->chain != NULL ? s->chain->drops[spec->id] : 0;
    t->unbacked = unbacked_is(s, spec);
    t->config = BUF_INIT(WIRE_TEXT_MAX);
    t->ssp = SSP_CLOCK_INIT;
    t->ssp.all_count = bug_in(s->o.member.bugs, WITHOUT_LATE_WORKERS);
    // Not 0, because a client that has no copy of the rows pulls with version 0.
    t->version = 1;
    t->changed_at = mem_zalloc(((size_t)1 << s->bits) * sizeof(*t->changed_at));
    if (t->changed_at == NULL)
        return err_nomem(e, "a table's partitions");
    if (table_config_print(&spec->config, &t->config) != 0)
        return buf_error(&t->config, "the settings of a table", e);
    TRY(tables_open_store(s, t, &t->store, e));
    TRY(reserve_strip(s, spec, e));
    if (spec->mode == WIRE_SYNC)
        TRY(retries_open(&t->applied, s->bits, s->o.budget, e));
    if (spec->mode == WIRE_SSP && set_living(s, t) != 0)
        return err_nomem(e, "the workers of a table");
    if (spec->mode == WIRE_SYNC && sync_own(s, t) != 0)
        return err_nomem(e, "the batches of a partition");
    return 0;
}

int tables_add(struct shard *s, const struct table_spec *spec, struct shard_table **ret,
               struct err *e)
{
    struct shard_table *t;
    int rc = table_make(s, spec, &t, e);
    *ret = NULL;
    if (rc != 0) {
        table_free(s, t);
        return rc;
    }
    tables_measure(s, t);
    s->tables[spec->id] = t;
    if (spec->id >= s->n_tables)
        s->n_tables = spec->id + 1;
    *ret = t;
    return 0;
}

void tables_remove(struct shard *s, struct shard_table *t)
{
    assert(background_free(t));
    sync_restart(s, t);
    s->tables[t->spec.id] = NULL;
    table_free(s, t);
}

bool tables_has_config(const struct shard_table *t, const char *config, size_t n)
{
    return n == t->config.len && (n == 0 || memcmp(t->config.data, config, n) == 0);
}

static int check_new(const struct shard *s, const struct table_spec *spec, struct err *e)
{
    if (s->o.max_bytes != 0 && s->bytes >= s->o.max_bytes)
        return err_set(e, TUG_ENOMEM,
                       "no room for table '%s': rows take %llu of the %llu bytes allowed",
                       spec->config.name, (unsigned long long)s->bytes,
                       (unsigned long long)s->o.max_bytes);
    return chain_check_table(s, spec, e);
}

int tables_try(struct shard *s, const struct table_spec *spec, struct err *e)
{
    struct shard_table *t;
    TRY(check_new(s, spec, e));
    int rc = table_make(s, spec, &t, e);
    table_free(s, t);
    return rc;
}

int tables_make_new(struct shard *s, const struct table_spec *spec,
                    struct shard_table **ret, struct err *e)
{
    moves_break(s, spec->space, "a table was made");
    TRY(tables_add(s, spec, ret, e));
    if (chain_note_table(s, *ret) == 0)
        return 0;
    tables_remove(s, *ret);
    *ret = NULL;
    return err_nomem(e, "the record of a table for replicas");
}

int tables_differ(const struct table_spec *is, const struct table_spec *wanted,
                  struct err *e)
{
    const char *difference = spec_difference(is, wanted);
    if (difference == NULL)
        return 0;
    return err_because(e, TUG_EUSAGE, REASON_TABLE_DIFFERS, wanted->id,
                       "table %u is '%s' already and differs from '%s' in its %s",
                       wanted->id, is->config.name, wanted->config.name, difference);
}

int tables_make(struct shard *s, const struct msg_table *m, struct err *e)
{
    struct table_spec spec;
    if (m->table < SPEC_MAX_TABLES && s->tables[m->table] != NULL &&
        tables_has_config(s->tables[m->table], m->config.data, m->config.n))
        return 0;
    TRY(spec_decode(&spec, m, e));
    struct shard_table *t = s->tables[spec.id];
    if (t != NULL)
        return tables_differ(&t->spec, &spec, e);
    TRY(check_new(s, &spec, e));
    return tables_make_new(s, &spec, &t, e);
}

enum outcome table_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    enum outcome outcome = place_check_all(s, q, q->m->table.epoch);
    if (outcome != GOES_ON)
        return outcome;
    if (s->chain != NULL) {
        chain_is_about(s, ABOUT_TABLES, WIRE_SPACE_SPARSE, NULL);
        outcome = unbacked_may_make(s, &q->m->table, &e);
        if (outcome != GOES_ON)
            return outcome;
    }
    if (e.code == 0 && tables_make(s, &q->m->table, &e) == 0)
        shard_ok(s, q, 0);
    else
        shard_refuse(s, q, &e);
    return ANSWERED;
}

void tables_restart(struct shard *s, struct shard_table *t, const uint64_t *next)
{
    if (s->chain != NULL) {
        sync_restart_in(s, t, s->chain->left, s->chain->n_left, next);
        return;
    }
    sync_restart(s, t);
    for (struct sync_group *g = &t->sync; g != NULL && next != NULL; g = g->next)
        g->clock.next = *next;
}

int tables_obey(struct shard *s, const struct msg_table_do *m, struct err *e)
{
    if (m->what == WIRE_DROP && m->table < SPEC_MAX_TABLES && s->tables[m->table] == NULL)
        return 0; // the table was dropped before
    struct shard_table *t = tables_find(s, m->table, e);
    if (t == NULL)
        return e->code;
    switch (m->what) {
    case WIRE_COPY:
    case WIRE_MEAN:
        return copies_do(s, t, m, e);
    case WIRE_CLOCK: // sets the number of the next batch of table t
        TRY(sync_clock_check_number(m->clock, e));
        TRY(chain_reserve_operation(s, t, e));
        chain_note_operation(s, t, m, NULL, 0);
        tables_restart(s, t, &m->clock);
        return 0;
    case WIRE_DROP:
        TRY(chain_note_drop(s, t, m, e));
        tables_remove(s,
                      t); // table_do_serve has waited for the end of a save of t
        return 0;
    default:
        return err_set(e, TUG_EUSAGE, "operation %u for table '%s' is not known", m->what,
                       t->spec.config.name);
    }
}

static void count_store(const struct store_stats *x, struct msg_table_is *m)
{
    m->rows = x->rows - x->backup_rows;
    m->bytes = x->bytes;
    m->extra_rows = x->extra_rows;
    m->cold_rows = x->cold_rows - x->backup_cold_rows;
    m->made = x->made;
    m->refused = x->refused;
    m->evicted_score = x->evicted_score;
    m->evicted_age = x->evicted_age;
    m->evicted_ttl = x->evicted_ttl;
    m->evicted_budget = x->evicted_budget;
    m->hot_hits = x->hot_hits;
    m->promoted = x->promoted;
    m->demoted = x->demoted;
    m->changed = x->changed;
    m->day = x->day;
    m->step = x->step;
}

static struct msg_table_is count(const struct shard *s, const struct shard_table *t,
                                 const struct store_stats *x)
{
    struct msg_table_is m = t->figures;
    count_store(x, &m);
    m.held = s->held_of[t->spec.id];
    if (t->spec.mode == WIRE_SYNC)
        m.clock = sync_least(t);
    else if (t->spec.mode == WIRE_SSP)
        m.clock = t->ssp.slowest;
    return m;
}

struct msg_table_is tables_count(const struct shard *s, const struct shard_table *t)
{
    struct store_stats x = store_stats(t->store);
    return count(s, t, &x);
}

struct msg_table_is tables_count_cheaply(const struct shard *s,
                                         const struct shard_table *t)
{
    struct store_stats x = store_counts(t->store);
    x.bytes = t->bytes;
    return count(s, t, &x);
}

enum outcome table_wanted_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    struct shard_table *t = tables_find(s, q->m->table_wanted.table, &e);
    if (t == NULL) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    struct msg_table_is m = tables_count(s, t);
    van_send(s->van, q->peer->link, MSG_TABLE_IS, q->id, &m, NULL);
    return ANSWERED;
}

enum outcome tick_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    const struct msg_tick *m = &q->m->tick;
    enum outcome outcome = place_check_all(s, q, m->epoch);
    if (outcome == GOES_ON && s->chain != NULL)
        outcome = chain_is_about_all(s);
    if (outcome != GOES_ON)
        return outcome;
    struct shard_table *t = tables_find(s, m->table, &e);
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE, "only a node that has joined the cluster has a clock");
    else if (t != NULL && t->spec.mode != WIRE_SSP)
        err_set(&e, TUG_EUSAGE, "tick of table '%s', which is not one of mode ssp",
                t->spec.config.name);
    else if (t != NULL && ssp_clock_tick(&t->ssp, m->session, q->id, m->clock) != 0)
        err_nomem(&e, "the workers of a table");
    else if (t != NULL && s->chain != NULL)
        chain_note_tick(s, t, m->session, q->id, m->clock, &e);
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    pending_wake(s, WANTS_TICK);
    shard_ok(s, q, t->ssp.slowest);
    return ANSWERED;
}

static struct shard_table *find_named(const struct shard *s, struct wire_text name)
{
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (t != NULL && strlen(t->spec.config.name) == name.n &&
            memcmp(t->spec.config.name, name.data, name.n) == 0)
            return t;
    }
    return NULL;
}

static int tables_describe(struct shard *s, const struct msg_table_info *m,
                           struct buf *config, uint32_t *ret_table, struct err *e)
{
    struct shard_table *t = m->name.n > 0 ? find_named(s, m->name) : NULL;
    if (t == NULL && m->name.n > 0)
        return err_because(
            e, TUG_EUSAGE, REASON_TABLE_UNKNOWN, 0, "there is no table '%.*s' on node %u",
            (int)(m->name.n < CONFIG_NAME_MAX ? m->name.n : CONFIG_NAME_MAX),
            m->name.data, member_id(s->member));
    if (t == NULL && (t = tables_find(s, m->number, e)) == NULL)
        return TUG_EUSAGE;
    *ret_table = t->spec.id;
    if (table_config_print(&t->spec.config, config) != 0)
        return err_nomem(e, "a table's settings");
    return 0;
}

enum outcome table_info_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    struct buf config = BUF_INIT(WIRE_TEXT_MAX);
    struct msg_table_info_is m = {0};
    if (tables_describe(s, &q->m->table_info, &config, &m.table, &e) == 0) {
        m.config = (struct wire_text){config.data, (uint32_t)config.len};
        van_send(s->van, q->peer->link, MSG_TABLE_INFO_IS, q->id, &m, NULL);
    } else {
        shard_refuse(s, q, &e);
    }
    buf_free(&config);
    return ANSWERED;
}

void tables_set_step(struct shard *s)
{
    uint64_t step = step_clock_sum(&s->steps);
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL)
            store_set_step(s->tables[i]->store, step);
}

enum outcome step_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_step *m = &q->m->step;
    char name[ROSTER_NAME_MAX];
    struct err e = {0};
    enum outcome outcome = place_check_all(s, q, m->epoch);
    if (outcome == GOES_ON && s->chain != NULL)
        outcome = chain_is_about_all(s);
    if (outcome != GOES_ON)
        return outcome;
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE,
                "only a node that has joined the cluster can report steps");
    else if (m->steps > WIRE_STEPS_MAX || m->least > WIRE_STEPS_MAX)
        err_set(&e, TUG_EUSAGE,
                "%s reports %llu steps, but more than %llu are not possible",
                shard_peer_name(s, q->peer, name),
                (unsigned long long)(m->steps > m->least ? m->steps : m->least),
                (unsigned long long)WIRE_STEPS_MAX);
    else if (step_clock_set(&s->steps, m->session, m->steps) != 0)
        err_nomem(&e, "the steps of a session");
    else
        step_clock_reach(&s->steps, m->least);
    if (e.code == 0 && s->chain != NULL)
        chain_note_step(s, m->session, m->steps, &e);
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    tables_set_step(s);
    shard_ok(s, q, step_clock_sum(&s->steps));
    return ANSWERED;
}
