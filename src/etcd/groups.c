// Groups of the journal as keys of etcd: see etcd.h. A request of etcd has a limit of
// 1.5 MiB, so a long group has several parts, which are written one after the other; the
// last one says that it is the last, and only then the group counts.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "etcd/etcd_internal.h"
#include "os/clock.h"
#include "os/json.h"

enum { PAGE = 64 }; // number of keys that are read with one request
#define MORE_FOLLOW '+'
#define LAST '.'

static int no_memory(struct err *e)
{
    return err_nomem(e, "the state of the cluster");
}

// ---------------------------------------------------------------- writing

// A part of a group: its key, its log and its bytes.
struct log_part {
    char key[ETCD_KEY_MAX], log[ETCD_LOG_MAX];
    const char *bytes;
    size_t n;
    bool last, replaces;
};

// Begins the transaction with its conditions: this scheduler is the leader, and, for a new
// log, the key `head` was not changed meanwhile.
static bool make_compare(struct etcd_journal *j, const struct log_part *p,
                         uint64_t created)
{
    char leader[ETCD_KEY_MAX], head[ETCD_KEY_MAX];
    struct buf *b = &j->body;
    etcd_key(leader, j, "leader");
    etcd_key(head, j, "head");
    buf_clear(b);
    bool ok = buf_printf(b,
                         "{\"compare\":[{\"target\":\"CREATE\",\"result\":\"EQUAL\","
                         "\"create_revision\":\"%" PRIu64 "\",",
                         created) == 0 &&
              etcd_add_text(b, "key", leader) == 0;
    if (ok && p->replaces && p->last)
        ok = buf_printf(b,
                        "},{\"target\":\"MOD\",\"result\":\"EQUAL\","
                        "\"mod_revision\":\"%" PRIu64 "\",",
                        j->head) == 0 &&
             etcd_add_text(b, "key", head) == 0;
    return ok && buf_printf(b, "}],\"success\":[") == 0;
}

static bool make_put(struct buf *b, const struct log_part *p)
{
    const char mark = p->last ? LAST : MORE_FOLLOW;
    struct buf value = BUF_INIT(ETCD_PART_MAX + 1);
    bool ok = buf_add(&value, &mark, 1) == 0 && buf_add(&value, p->bytes, p->n) == 0 &&
              buf_printf(b, "{\"request_put\":{") == 0 &&
              etcd_add_text(b, "key", p->key) == 0 && buf_add(b, ",", 1) == 0 &&
              etcd_add_bytes(b, "value", value.data, value.len) == 0 &&
              buf_add(b, "}}", 2) == 0;
    buf_wipe(&value);
    return ok;
}

// Adds to the transaction: the key `head` names the new log, and all other logs are
// removed.
static bool make_head(struct etcd_journal *j, const struct log_part *p)
{
    char head[ETCD_KEY_MAX], from[ETCD_KEY_MAX], to[ETCD_KEY_MAX], name[64];
    struct buf *b = &j->body;
    snprintf(name, sizeof(name), "log/%s", p->log);
    etcd_key(head, j, "head");
    etcd_key(from, j, "log/");
    etcd_key(to, j, name);
    return buf_printf(b, ",{\"request_put\":{") == 0 &&
           etcd_add_text(b, "key", head) == 0 && buf_add(b, ",", 1) == 0 &&
           etcd_add_text(b, "value", p->log) == 0 &&
           buf_printf(b, "}},{\"request_delete_range\":{") == 0 &&
           etcd_add_text(b, "key", from) == 0 && buf_add(b, ",", 1) == 0 &&
           etcd_add_text(b, "range_end", to) == 0 && buf_add(b, "}}", 2) == 0;
}

// Ends the transaction. If its conditions do not hold, etcd's answer has the keys `leader`
// and `head`.
static bool make_end(struct etcd_journal *j)
{
    char leader[ETCD_KEY_MAX], head[ETCD_KEY_MAX];
    struct buf *b = &j->body;
    etcd_key(leader, j, "leader");
    etcd_key(head, j, "head");
    return buf_printf(b, "],\"failure\":[{\"request_range\":{") == 0 &&
           etcd_add_text(b, "key", leader) == 0 &&
           buf_printf(b, "}},{\"request_range\":{") == 0 &&
           etcd_add_text(b, "key", head) == 0 && buf_add(b, "}}]}", 4) == 0;
}

static const json_t *entry_of(const json_t *answer, size_t i)
{
    const json_t *one = json_array_get(json_object_get(answer, "responses"), i);
    const json_t *range = json_object_get(one, "response_range");
    return json_array_get(json_object_get(range, "kvs"), 0);
}

static void set_head(struct etcd_journal *j, uint64_t revision)
{
    pthread_mutex_lock(&j->mutex);
    j->head = revision;
    pthread_mutex_unlock(&j->mutex);
}

// Called when the transaction's lease has ended. Waits until the beater thread has a new
// lease, or has failed to get one.
static int wait_lease(struct etcd_journal *j, uint64_t created, struct err *e)
{
    uint64_t until = etcd_now() + clock_ns_of(j->o.patience);
    pthread_mutex_lock(&j->mutex);
    while (j->beating && !atomic_load(&j->stop) && j->failed.code == 0 &&
           j->created == created && etcd_now() < until) {
        struct timespec t = clock_deadline(1);
        pthread_cond_timedwait(&j->changed, &j->mutex, &t);
    }
    int rc = j->failed.code != 0     ? err_copy(e, &j->failed)
             : j->created == created ? etcd_lost(j, NULL, e)
                                     : 0;
    pthread_mutex_unlock(&j->mutex);
    return rc;
}

// Called when the conditions of the transaction did not hold. If an earlier request has
// executed it and only the answer was lost, the key `head` names the log. *ret_again says
// whether to send the transaction again, with another lease.
static int did_not_hold(struct etcd_journal *j, const struct log_part *p,
                        uint64_t created, const json_t *answer, bool *ret_again,
                        struct err *e)
{
    char text[ETCD_HOST_MAX];
    const json_t *leader = entry_of(answer, 0), *head = entry_of(answer, 1);
    bool mine = etcd_get_number(leader, "create_revision") == created;
    etcd_value_text(head, text, sizeof(text));
    if (mine && p->replaces && p->last && strcmp(text, p->log) == 0) {
        set_head(j, etcd_get_number(head, "mod_revision"));
        return 0;
    }
    *ret_again = !mine;
    if (!mine)
        return wait_lease(j, created, e);
    return err_set(e, TUG_EIO,
                   "another process has written %shead in etcd, which belongs to this "
                   "cluster's scheduler",
                   j->place.prefix);
}

static int write_once(struct etcd_journal *j, const struct log_part *p, bool *ret_again,
                      struct err *e)
{
    json_t *answer = NULL;
    uint64_t created = etcd_created(j);
    *ret_again = false;
    if (!make_compare(j, p, created) || !make_put(&j->body, p) ||
        (p->replaces && p->last && !make_head(j, p)) || !make_end(j))
        return no_memory(e);
    if (etcd_ask(&j->asks, "/v3/kv/txn", &j->body, j->o.patience, &answer, e) != ETCD_OK)
        return e->code;
    int rc = 0;
    if (!json_is_true(json_object_get(answer, "succeeded")))
        rc = did_not_hold(j, p, created, answer, ret_again, e);
    else if (p->replaces && p->last)
        set_head(j, etcd_get_number(json_object_get(answer, "header"), "revision"));
    json_decref(answer);
    return rc;
}

static int write_part(struct etcd_journal *j, const struct log_part *p, struct err *e)
{
    bool again = true;
    while (again)
        TRY(write_once(j, p, &again, e));
    return 0;
}

int etcd_group_write(struct etcd_journal *j, const void *bytes, size_t n, bool replaces,
                     struct err *e)
{
    struct log_part p = {.replaces = replaces};
    char name[128];
    uint64_t group = replaces ? 0 : j->group;
    if (replaces) // a name that no other log has, not even an unfinished log
        snprintf(p.log, sizeof(p.log), "%016" PRIx64 "-%08x", etcd_created(j), ++j->logs);
    else
        snprintf(p.log, sizeof(p.log), "%s", j->log);
    for (size_t at = 0, i = 0; !p.last; at += p.n, i++) {
        p.bytes = (const char *)bytes + at;
        p.n = n - at < ETCD_PART_MAX ? n - at : ETCD_PART_MAX;
        p.last = at + p.n == n;
        snprintf(name, sizeof(name), "log/%s/%016" PRIx64 "/%04zx", p.log, group, i);
        etcd_key(p.key, j, name);
        TRY(write_part(j, &p, e));
    }
    snprintf(j->log, sizeof(j->log), "%s", p.log);
    j->group = group + 1;
    return 0;
}

// ---------------------------------------------------------------- reading

struct log_reader {
    struct etcd_journal *j;
    int (*each)(void *ctx, const void *bytes, size_t n, struct err *e);
    void *ctx;
    char from[ETCD_KEY_MAX + 1], to[ETCD_KEY_MAX]; // the keys that are still to be read
    size_t log;                                    // length of the log's name in keys
    uint64_t group, part;                          // the numbers that must come next
    struct buf bytes;                              // the bytes of a group so far
    struct buf text;                               // a decoded key or value
    bool more;
};

static int damaged(const struct log_reader *r, const char *what, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "the state below %s in etcd is damaged: %s; start the whole cluster "
                   "again with another prefix",
                   r->j->place.prefix, what);
}

static int take_value(struct log_reader *r, struct err *e)
{
    const char *at = r->text.data;
    if (r->text.len == 0 || (*at != LAST && *at != MORE_FOLLOW))
        return damaged(r, "a value is not a part of a group", e);
    bool last = *at == LAST;
    if (buf_add(&r->bytes, at + 1, r->text.len - 1) != 0)
        return buf_error(&r->bytes, "a group of the state in etcd", e);
    r->part = last ? 0 : r->part + 1;
    r->group += last;
    if (!last)
        return 0;
    int rc = r->bytes.len > 0 ? r->each(r->ctx, r->bytes.data, r->bytes.len, e) : 0;
    r->j->bytes += r->bytes.len;
    buf_clear(&r->bytes);
    return rc;
}

static int take_entry(struct log_reader *r, const json_t *entry, struct err *e)
{
    char expected[64];
    buf_clear(&r->text);
    int rc = etcd_get_bytes(&r->text, entry, "key");
    const char *key = rc == 0 ? buf_str(&r->text) : NULL;
    if (rc == TUG_ENOMEM || (rc == 0 && key == NULL))
        return no_memory(e);
    snprintf(expected, sizeof(expected), "%016" PRIx64 "/%04" PRIx64, r->group, r->part);
    if (rc != 0 || r->text.len < r->log || strcmp(key + r->log, expected) != 0)
        return damaged(r, "a part of a group is missing", e);
    snprintf(r->from, sizeof(r->from), "%s", key);
    buf_clear(&r->text);
    rc = etcd_get_bytes(&r->text, entry, "value");
    if (rc == TUG_ENOMEM)
        return no_memory(e);
    return rc == 0 ? take_value(r, e) : damaged(r, "a value is not base64", e);
}

static bool make_page(struct log_reader *r, bool first)
{
    struct buf *b = &r->j->body;
    // After the first page, the range begins after the last key that was read: at this key
    // with a zero byte appended.
    size_t n = strlen(r->from) + !first;
    buf_clear(b);
    return buf_printf(b, "{\"limit\":\"%d\",", PAGE) == 0 &&
           etcd_add_bytes(b, "key", r->from, n) == 0 && buf_add(b, ",", 1) == 0 &&
           etcd_add_text(b, "range_end", r->to) == 0 && buf_add(b, "}", 1) == 0;
}

static int read_page(struct log_reader *r, bool first, struct err *e)
{
    struct etcd_journal *j = r->j;
    json_t *answer = NULL;
    if (!make_page(r, first))
        return no_memory(e);
    if (etcd_ask(&j->asks, "/v3/kv/range", &j->body, j->o.patience, &answer, e) !=
        ETCD_OK)
        return e->code;
    const json_t *list = json_object_get(answer, "kvs");
    int rc = 0;
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
        rc = take_entry(r, json_array_get(list, i), e);
    r->more = json_is_true(json_object_get(answer, "more")) && json_array_size(list) > 0;
    json_decref(answer);
    return rc;
}

int etcd_groups_read(struct etcd_journal *j,
                     int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                     void *ctx, struct err *e)
{
    struct log_reader r = {.j = j, .each = each, .ctx = ctx};
    char name[64];
    j->bytes = 0;
    if (j->log[0] == '\0')
        return 0;
    r.bytes = BUF_INIT(JOURNAL_GROUP_MAX);
    r.text = BUF_INIT((size_t)ETCD_PART_MAX + ETCD_KEY_MAX);
    snprintf(name, sizeof(name), "log/%s/", j->log);
    etcd_key(r.from, j, name);
    r.log = strlen(r.from);
    etcd_key(r.to, j, name);
    r.to[r.log - 1]++; // '0' comes after '/'
    int rc = read_page(&r, true, e);
    while (rc == 0 && r.more)
        rc = read_page(&r, false, e);
    if (rc == 0 && r.group == 0)
        rc = damaged(&r, "its first group is missing", e);
    // If another scheduler has taken over during the reading, it has removed this log.
    struct err why = {0};
    if ((rc == 0 || rc == TUG_EDATA) && etcd_check_leads(j, &why) != 0)
        rc = err_copy(e, &why);
    j->group = r.group; // a group without its last part does not count
    buf_wipe(&r.text);
    buf_wipe(&r.bytes);
    return rc;
}
