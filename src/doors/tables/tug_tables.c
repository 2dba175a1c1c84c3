// Tables of programs (tug/table.h): makes, shrinks, clears, drops, counts, saves and
// loads them. Each function sends one or a few requests by the client and waits for them.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/tables/tug_client.h"
#include "os/below.h"
#include "os/file.h"
#include "save/save.h"
#include "server/shard.h"
#include "tug/table.h"

static_assert((int)TUG_CHECKPOINT == SAVE_CHECKPOINT && (int)TUG_BASE == SAVE_BASE &&
                  (int)TUG_DELTA == SAVE_DELTA && (int)TUG_DAY == SAVE_DAY,
              "modes are those of accessor/life.h");
static_assert((int)TUG_PATH_MAX == FILE_PATH_MAX, "a path is as long as os/file.h says");
static_assert((int)TUG_TABLES_MAX == SPEC_MAX_TABLES,
              "there are as many tables as protocol/spec.h says");

// Waits for a request that this thread has sent since calls_enter; gives the van back. If
// ts is 0, the request could not be sent, and last_error() says why.
static int wait_for(struct tug_client *c, client_ts ts)
{
    return ts != 0 ? calls_wait_for(c, ts, c->o.wait_seconds) : last_error()->code;
}

// Converts a path to a path relative to the servers' root of kind `kind`.
static int below(struct tug_client *c, enum wire_root kind, const char *path,
                 char ret[FILE_PATH_MAX])
{
    char absolute[FILE_PATH_MAX];
    TRY(below_absolute(path, absolute, last_error()));
    TRY(calls_enter(c));
    client_ts ts = client_below(c->client, kind, absolute, ret, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

// ---------------------------------------------------------------- tables

// Makes the path of the cold tier relative to the servers' cold root. A relative path is
// already below this root. If the cluster is inside this process, there is no such root,
// and a relative path becomes absolute.
static int set_cold(struct tug_client *c, struct table_config *config)
{
    char rest[FILE_PATH_MAX];
    if (config->cold[0] == '\0' || (config->cold[0] != '/' && c->embedded == NULL))
        return 0;
    TRY(below(c, WIRE_ROOT_COLD, config->cold, rest));
    return table_config_set(config, "cold", *rest != '\0' ? rest : ".", last_error());
}

int tug_table_create(struct tug_client *c, uint32_t number, const char *settings)
{
    struct err *e = last_error();
    struct table_config config = table_config_defaults();
    TRY(table_config_parse(&config, settings != NULL ? settings : "", e));
    if (config.name[0] == 0)
        snprintf(config.name, sizeof(config.name), "table-%u", number);
    TRY(table_config_check(&config, e));
    TRY(set_cold(c, &config));
    TRY(calls_enter(c));
    client_ts ts = client_table(c->client, number, &config, e);
    pump_leave(c->pump);
    return wait_for(c, ts);
}

int tug_table_find(struct tug_client *c, const char *name, uint32_t *ret_number)
{
    if (name[0] == '\0') // with an empty name, the servers would return table 0
        return err_set(last_error(), TUG_EUSAGE, "the name of the table is empty");
    TRY(calls_enter(c));
    client_ts ts = client_info(c->client, name, 0, ret_number, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

// Returns the micro-batches of a part of a batch: the sixteen micro-batches are divided by
// two until there are as many parts as wanted.
static struct call_terms part_of(uint32_t part, uint32_t parts)
{
    struct call_terms ret = {.micro = 0, .micros = SHARD_MICROS};
    while (parts > 1) {
        uint32_t lower = parts - parts / 2;
        ret.micros /= 2;
        if (part < lower) {
            parts = lower;
        } else {
            ret.micro += ret.micros;
            part -= lower;
            parts -= lower;
        }
    }
    return ret;
}

int tug_batch(struct tug_client *c, uint32_t table, uint64_t batch, uint32_t part,
              uint32_t parts)
{
    struct table_spec s;
    TRY(calls_spec(c, table, &s));
    if (s.mode != WIRE_SYNC)
        return err_set(
            last_error(), TUG_EUSAGE,
            "table %u is not of mode sync, so its pushes do not belong to batches",
            table);
    if (parts == 0 || parts > SHARD_MICROS || part >= parts)
        return err_set(last_error(), TUG_EUSAGE,
                       "there is no part %u of %u: a batch has at most %d parts, from 0",
                       part, parts, SHARD_MICROS);
    struct call_terms said = part_of(part, parts);
    pump_enter(c->pump);
    struct call_terms *terms = &c->terms[table];
    terms->clock = batch;
    terms->micro = said.micro;
    terms->micros = said.micros;
    pump_leave(c->pump);
    return 0;
}

int tug_table_learning(struct tug_client *c, uint32_t table,
                       struct tug_table_learning *ret)
{
    struct table_spec s;
    TRY(calls_spec(c, table, &s));
    // The rule is taken from the accessor, not from the settings: the accessors `merge` and
    // `counter` always add.
    const struct rule_params *p = &s.accessor.groups[0].rule;
    bool values = s.accessor.n_groups == 0 || p->kind == RULE_SUM ||
                  p->kind == RULE_SUMMARY || p->kind == RULE_ASSIGN ||
                  p->kind == RULE_AVERAGE;
    *ret = (struct tug_table_learning){
        .rate = values ? NAN : p->lr,
        .sync = s.mode == WIRE_SYNC,
    };
    return 0;
}

int tug_rate_factor(struct tug_client *c, uint32_t table, float factor)
{
    struct table_spec s;
    TRY(calls_spec(c, table, &s));
    if (!isfinite(factor) || factor < 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "the factor of a rate must be finite and not negative, not %g",
                       (double)factor);
    pump_enter(c->pump);
    c->terms[table].rate = factor;
    pump_leave(c->pump);
    return 0;
}

int calls_spec(struct tug_client *c, uint32_t table, struct table_spec *ret)
{
    pump_enter(c->pump);
    const struct table_spec *s = client_spec(c->client, table);
    if (s != NULL)
        *ret = *s;
    pump_leave(c->pump);
    if (s != NULL)
        return 0;
    return err_set(last_error(), TUG_EUSAGE,
                   "this client has neither made nor found table %u", table);
}

int calls_check_push(struct tug_client *c, uint32_t table, uint32_t width)
{
    struct tug_table_widths w;
    TRY(tug_table_widths(c, table, &w));
    return w.push == width
               ? 0
               : err_set(last_error(), TUG_EUSAGE,
                         "table %u was made anew, with %u floats in a push and not %u: "
                         "open the objects that use it again",
                         table, w.push, width);
}

int tug_table_widths(struct tug_client *c, uint32_t table, struct tug_table_widths *ret)
{
    struct table_spec s;
    TRY(calls_spec(c, table, &s));
    *ret = (struct tug_table_widths){s.accessor.pull_width, s.accessor.push_width,
                                     accessor_weights(&s.accessor)};
    return 0;
}

int tug_assign(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
               const float *values, tug_done_fn done, void *ctx, uint64_t *ret_timestamp)
{
    return calls_assign(c, table, keys, n, values, done, ctx, ret_timestamp);
}

// A range of keys is requested in parts of at most RANGE_KEYS keys, so that no request is
// too large.

enum { RANGE_KEYS = 1 << 16 };

static int range_piece(struct tug_client *c, uint32_t table, uint64_t *keys,
                       uint64_t first, size_t n, const float *push, float *pull)
{
    uint64_t ts;
    for (size_t i = 0; i < n; i++)
        keys[i] = first + i;
    TRY(push != NULL ? tug_push(c, table, keys, n, push, NULL, NULL, &ts)
                     : tug_pull(c, table, keys, n, pull, NULL, NULL, &ts));
    return calls_wait_or_cancel(c, ts);
}

static int range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                 const float *push, float *pull)
{
    struct tug_table_widths w;
    TRY(calls_may_wait(c));
    TRY(tug_table_widths(c, table, &w));
    if (n > 0 && first + (n - 1) < first)
        return err_set(last_error(), TUG_EUSAGE,
                       "%zu keys from %llu on go beyond the last key", n,
                       (unsigned long long)first);
    uint64_t *keys = mem_array(n < RANGE_KEYS ? n + 1 : RANGE_KEYS, sizeof(*keys));
    int rc = keys != NULL ? 0 : err_nomem(last_error(), "the keys of a range");
    for (size_t at = 0, some; at < n && rc == 0; at += some) {
        some = n - at < RANGE_KEYS ? n - at : RANGE_KEYS;
        rc = range_piece(c, table, keys, first + at, some,
                         push != NULL ? push + at * w.push : NULL,
                         pull != NULL ? pull + at * w.pull : NULL);
    }
    mem_free(keys);
    return rc;
}

int tug_pull_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                   float *values)
{
    return range(c, table, first, n, NULL, values);
}

int tug_push_range(struct tug_client *c, uint32_t table, uint64_t first, size_t n,
                   const float *values)
{
    return range(c, table, first, n, values, NULL);
}

// ---------------------------------------------------------------- lifecycle

int tug_shrink(struct tug_client *c, uint32_t table, float threshold,
               uint64_t *ret_removed)
{
    TRY(calls_enter(c));
    client_ts ts = client_shrink(c->client, table, threshold, ret_removed, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

int tug_day(struct tug_client *c, uint32_t table)
{
    TRY(calls_enter(c));
    client_ts ts = client_day(c->client, table, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

static int operate(struct tug_client *c, uint32_t table, enum wire_admin what)
{
    TRY(calls_enter(c));
    client_ts ts = client_admin(c->client, table, what, 0, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

int tug_clear(struct tug_client *c, uint32_t table)
{
    return operate(c, table, WIRE_CLEAR);
}

int tug_table_drop(struct tug_client *c, uint32_t table)
{
    TRY(operate(c, table, WIRE_DROP));
    pump_enter(c->pump);
    c->terms[table] = (struct call_terms){
        .rate = 1}; // a later table with this number begins with the initial terms
    pump_leave(c->pump);
    return 0;
}

int tug_table_stat(struct tug_client *c, uint32_t table, struct tug_table_stats *ret)
{
    struct msg_table_is m = {0};
    TRY(calls_enter(c));
    client_ts ts = client_stat(c->client, table, &m, last_error());
    pump_leave(c->pump);
    TRY(wait_for(c, ts));
    *ret = (struct tug_table_stats){
        .rows = m.rows,
        .extra_rows = m.extra_rows,
        .cold_rows = m.cold_rows,
        .bytes = m.bytes,
        .made = m.made,
        .refused = m.refused,
        .evicted_score = m.evicted_score,
        .evicted_age = m.evicted_age,
        .evicted_ttl = m.evicted_ttl,
        .evicted_budget = m.evicted_budget,
        .hot_hits = m.hot_hits,
        .promoted = m.promoted,
        .demoted = m.demoted,
        .pushes = m.pushes,
        .pulls = m.pulls,
        .pushed_keys = m.pushed_keys,
        .pulled_keys = m.pulled_keys,
        .step = m.step,
        .day = (uint32_t)m.day,
        .clock = m.clock,
    };
    return 0;
}

int tug_step(struct tug_client *c, uint64_t steps, uint64_t *ret_global)
{
    TRY(calls_enter(c));
    client_ts ts = client_step(c->client, steps, ret_global, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

// ---------------------------------------------------------------- saves

// Returns the id of a save: the program's mark, or for a save without a mark an id from
// 2^63 on, which a program cannot choose.
static uint64_t save_id(struct tug_client *c, const struct tug_save_options *o)
{
    pump_enter(c->pump);
    uint64_t session = member_session(client_member(c->client));
    uint64_t id = o->mark != 0 ? o->mark : (uint64_t)1 << 63 | session << 24 | ++c->saves;
    pump_leave(c->pump);
    return id;
}

static int tables_write_rows(struct tug_client *c, const struct tug_save_options *o,
                             uint64_t id, const char *path, struct save_manifest *m)
{
    struct client_save s = {
        .id = id,
        .mode = (enum save_mode)o->mode,
        .zstd = o->zstd,
        .path = path,
        .tables = o->tables,
        .n = o->n_tables,
        .marked = o->mark != 0,
    };
    TRY(calls_enter(c));
    client_ts ts = client_save(c->client, &s, m, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

static int end_save(struct tug_client *c, uint64_t id, bool committed, uint64_t checksum)
{
    TRY(calls_enter(c));
    client_ts ts = client_save_end(c->client, id, committed, checksum, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

static int set_about(struct save_manifest *m, const char *about)
{
    if (about == NULL)
        return 0;
    size_t n = strlen(about) + 1;
    m->about = mem_alloc(n);
    if (m->about == NULL)
        return err_nomem(last_error(), "a save");
    memcpy(m->about, about, n);
    return 0;
}

// Returns whether a save that has failed is to be made again. With a mark it is not: the
// pushes after the mark may have been applied where the save had begun, and the rows that the
// mark names are gone there.
static bool saves_again(const struct tug_save_options *o, int tries)
{
    return last_error()->reason == REASON_SAVE_AGAIN && o->mark == 0 &&
           tries < CLIENT_SAVE_TRIES;
}

// With replicas, servers do not end the day of a save without a mark (server/saves/save.c),
// because such a save may be made several times. So the day ends after the save is committed.
// If the client dies in between, the save is complete, and the day goes on.
static int end_day(struct tug_client *c, const struct tug_save_options *o,
                   const struct save_manifest *m)
{
    if (o->mode != TUG_DAY || o->mark != 0)
        return 0;
    pump_enter(c->pump);
    bool replicas = member_roster(client_member(c->client))->replicas > 1;
    pump_leave(c->pump);
    for (size_t i = 0; replicas && i < m->n_tables; i++)
        if (tug_day(c, m->tables[i].id) != 0)
            return err_wrap(last_error(),
                            "save %u is complete, but the day of table %u has "
                            "not ended (call tug_day)",
                            m->number, m->tables[i].id);
    return 0;
}

int tug_save(struct tug_client *c, const struct tug_save_options *o,
             char ret_path[TUG_PATH_MAX])
{
    char path[FILE_PATH_MAX], dir[FILE_PATH_MAX], there[FILE_PATH_MAX];
    struct save_manifest m = {0};
    struct err why;
    if (o->directory == NULL || o->mode > TUG_DAY || o->mark >> 63 != 0)
        return err_set(
            last_error(), TUG_EUSAGE,
            "a save needs a directory, a mode that exists, and a mark below 2^63");
    TRY(below(c, WIRE_ROOT_SAVE, o->directory, dir));
    TRY(save_begin(o->directory, (enum save_mode)o->mode, &m, path, last_error()));
    uint64_t id = save_id(c, o);
    int rc = set_about(&m, o->about);
    if (rc == 0)
        rc = save_path(there, dir, m.number, last_error());
    if (rc == 0)
        rc = tables_write_rows(c, o, id, there, &m);
    for (int i = 1; rc != 0 && saves_again(o, i); i++) {
        (void)end_save(c, id, false, 0);
        rc = save_empty(path, &m, last_error());
        id = save_id(c, o);
        if (rc == 0)
            rc = tables_write_rows(c, o, id, there, &m);
    }
    if (rc != 0 && o->mode == TUG_DAY && last_error()->reason == REASON_SAVE_AGAIN &&
        o->mark != 0)
        rc = err_set(last_error(), TUG_EIO,
                     "the day may have ended in some partitions only, because a server "
                     "has died during the save: save with TUG_BASE now");
    if (rc == 0)
        rc = save_commit(o->directory, &m, o->keep, last_error());
    why = *last_error();
    // An error of end_save is ignored: a server that does not get this message finds out by
    // itself whether the save is complete.
    (void)end_save(c, id, rc == 0, m.checksum);
    if (rc != 0)
        save_abort(o->directory, &m);
    else if (ret_path != NULL)
        (void)below_absolute(path, ret_path, NULL);
    if (rc == 0 && (rc = end_day(c, o, &m)) != 0)
        why = *last_error();
    save_manifest_free(&m);
    return rc != 0 ? last_error_is(&why) : 0;
}

int tug_save_mark(struct tug_client *c, uint64_t mark)
{
    TRY(calls_enter(c));
    client_ts ts = client_mark(c->client, mark, 0, last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}

int tug_load(struct tug_client *c, uint32_t table, const char *path, const char *name,
             uint64_t *ret_rows)
{
    struct table_spec s;
    struct save_manifest m;
    char save[FILE_PATH_MAX], there[FILE_PATH_MAX];
    TRY(calls_spec(c, table, &s));
    TRY(save_find(path, save, last_error()));
    TRY(save_read(save, &m, last_error()));
    uint64_t checksum = m.checksum;
    save_manifest_free(&m);
    TRY(below(c, WIRE_ROOT_LOAD, save, there));
    TRY(calls_enter(c));
    client_ts ts = client_load(c->client, table, there, checksum,
                               name != NULL ? name : s.config.name, true, ret_rows,
                               last_error());
    pump_leave(c->pump);
    return wait_for(c, ts);
}
