// The lease of the one scheduler that has the journal: taken, kept alive, given up.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "etcd/etcd_internal.h"
#include "os/clock.h"
#include "os/json.h"

enum { LOOK_MS = 200, BEATS = 5, REQUEST_MAX = 16 << 10 };
static const double give_up_seconds = 1, beat_seconds = 1;

static int failed(enum etcd_answer kind, struct err *e)
{
    return kind == ETCD_OK ? 0 : e->code;
}

static int made(bool ok, struct err *e)
{
    return ok ? 0 : err_nomem(e, "a request to etcd");
}

// ---------------------------------------------------------------- the leader's key

// The requests of one thread.
struct asker {
    struct etcd_journal *j;
    struct etcd_client *client;
    struct buf *body;
};

static struct asker asker_of(struct etcd_journal *j)
{
    return (struct asker){j, &j->asks, &j->body};
}

static int ask_range(const struct asker *a, const char *name, json_t **ret, struct err *e)
{
    char key[ETCD_KEY_MAX];
    struct buf *b = a->body;
    etcd_key(key, a->j, name);
    buf_clear(b);
    TRY(made(buf_add(b, "{", 1) == 0 && etcd_add_text(b, "key", key) == 0 &&
                 buf_add(b, "}", 1) == 0,
             e));
    return failed(etcd_ask(a->client, "/v3/kv/range", b, a->j->o.patience, ret, e), e);
}

// Returns the entry of the key in an answer; NULL: the key is not there.
static const json_t *first(const json_t *range)
{
    return json_array_get(json_object_get(range, "kvs"), 0);
}

void etcd_value_text(const json_t *entry, char *ret, size_t cap)
{
    struct buf b = BUF_INIT(ETCD_HOST_MAX);
    ret[0] = '\0';
    if (etcd_get_bytes(&b, entry, "value") == 0)
        snprintf(ret, cap, "%.*s", (int)b.len, b.len > 0 ? b.data : "");
    printable_make(ret);
    buf_free(&b);
}

int etcd_lost(const struct etcd_journal *j, const char *now_leads, struct err *e)
{
    bool other = now_leads != NULL && now_leads[0] != '\0';
    return err_set(e, TUG_EIO,
                   "this scheduler has lost its lease in etcd (%sleader): %s%s%s; it "
                   "sends no more answers",
                   j->place.prefix,
                   other ? "" : "it was not renewed in time, and another may take over",
                   other ? now_leads : "", other ? " has taken over" : "");
}

static uint64_t head_of(struct etcd_journal *j)
{
    pthread_mutex_lock(&j->mutex);
    uint64_t head = j->head;
    pthread_mutex_unlock(&j->mutex);
    return head;
}

uint64_t etcd_created(struct etcd_journal *j)
{
    pthread_mutex_lock(&j->mutex);
    uint64_t created = j->created;
    pthread_mutex_unlock(&j->mutex);
    return created;
}

int etcd_check_leads(struct etcd_journal *j, struct err *e)
{
    char text[ETCD_HOST_MAX];
    json_t *answer = NULL;
    const struct asker a = asker_of(j);
    TRY(ask_range(&a, "leader", &answer, e));
    const json_t *leader = first(answer);
    bool leads = etcd_get_number(leader, "create_revision") == etcd_created(j);
    etcd_value_text(leader, text, sizeof(text));
    json_decref(answer);
    return leads ? 0 : etcd_lost(j, text, e);
}

struct lease {
    uint64_t id, ttl_ns, valid_until;
    uint64_t created; // create revision of the key `leader`, if it is bound to this lease
};

static int grant(const struct asker *a, struct lease *ret, struct err *e)
{
    json_t *answer = NULL;
    uint64_t asked = etcd_now();
    buf_clear(a->body);
    TRY(made(buf_printf(a->body, "{\"TTL\":\"%d\"}", ETCD_TTL_SECONDS) == 0, e));
    TRY(failed(
        etcd_ask(a->client, "/v3/lease/grant", a->body, a->j->o.patience, &answer, e),
        e));
    uint64_t seconds = etcd_get_number(answer, "TTL");
    *ret = (struct lease){.id = etcd_get_number(answer, "ID"),
                          .ttl_ns = seconds * SECOND_NS,
                          .valid_until = asked + seconds * SECOND_NS};
    json_decref(answer);
    if (ret->id == 0 || seconds == 0 || seconds > 3600)
        return err_set(e, TUG_EIO, "etcd at %s gives no lease",
                       a->j->place.endpoints[a->client->at]);
    return 0;
}

// Makes the transaction that creates the key `leader` if it is missing. If `again`, it also
// requires that the last writer of the key `head` was this scheduler.
static bool make_taking(const struct asker *a, const struct lease *l, bool again)
{
    char key[ETCD_KEY_MAX], head[ETCD_KEY_MAX];
    struct buf *b = a->body;
    etcd_key(key, a->j, "leader");
    etcd_key(head, a->j, "head");
    buf_clear(b);
    bool ok = buf_printf(b, "{\"compare\":[{\"target\":\"CREATE\",\"result\":\"EQUAL\","
                            "\"create_revision\":\"0\",") == 0 &&
              etcd_add_text(b, "key", key) == 0;
    if (ok && again)
        ok = buf_printf(b,
                        "},{\"target\":\"MOD\",\"result\":\"EQUAL\","
                        "\"mod_revision\":\"%" PRIu64 "\",",
                        head_of(a->j)) == 0 &&
             etcd_add_text(b, "key", head) == 0;
    return ok &&
           buf_printf(b, "}],\"success\":[{\"request_put\":{\"lease\":\"%" PRIu64 "\",",
                      l->id) == 0 &&
           etcd_add_text(b, "key", key) == 0 && buf_add(b, ",", 1) == 0 &&
           etcd_add_text(b, "value", a->j->about) == 0 && buf_add(b, "}}]}", 4) == 0;
}

static int own_lease(struct etcd_journal *j, const struct lease *l)
{
    pthread_mutex_lock(&j->mutex);
    j->lease = l->id;
    j->ttl_ns = l->ttl_ns;
    j->valid_until = l->valid_until;
    j->created = l->created;
    etcd_journal_tell(j);
    pthread_mutex_unlock(&j->mutex);
    return 0;
}

// Tries to create the key `leader`, and sets *ret_mine to whether this scheduler has it,
// which may be due to an earlier request that got no answer.
static int try_take(struct etcd_journal *j, bool *ret_mine, struct err *e)
{
    json_t *answer = NULL;
    struct lease l;
    const struct asker a = asker_of(j);
    TRY(grant(&a, &l, e));
    TRY(made(make_taking(&a, &l, false), e));
    int rc = etcd_ask(&j->asks, "/v3/kv/txn", &j->body, j->o.patience, &answer, e);
    json_decref(answer);
    answer = NULL;
    if (rc == ETCD_NOT_FOUND) // etcd was slow: the lease has ended, a new one is needed
        return 0;
    TRY(failed(rc, e));
    TRY(ask_range(&a, "leader", &answer, e));
    const json_t *entry = first(answer);
    *ret_mine = entry != NULL && etcd_get_number(entry, "lease") == l.id;
    l.created = etcd_get_number(entry, "create_revision");
    json_decref(answer);
    return own_lease(j, &l);
}

static void say_waits(const struct etcd_journal *j, const json_t *leader, bool *said)
{
    char text[ETCD_HOST_MAX], line[ERR_TEXT_MAX];
    if (*said)
        return;
    *said = true;
    if (j->o.say == NULL)
        return;
    etcd_value_text(leader, text, sizeof(text));
    snprintf(line, sizeof(line),
             "standby: %s is the scheduler of this cluster (etcd has %sleader); this "
             "one takes over when that one dies",
             text, j->place.prefix);
    j->o.say(j->o.ctx, line);
}

// Gets the revision at which the key `head` was last written, and the key's value.
static int read_head(struct etcd_journal *j, uint64_t *ret, char *text, size_t cap,
                     struct err *e)
{
    json_t *answer = NULL;
    const struct asker a = asker_of(j);
    TRY(ask_range(&a, "head", &answer, e));
    const json_t *entry = first(answer);
    *ret = etcd_get_number(entry, "mod_revision");
    if (entry != NULL)
        etcd_value_text(entry, text, cap);
    json_decref(answer);
    return 0;
}

static int take_key(struct etcd_journal *j, bool *said, struct err *e)
{
    char ignored[ETCD_LOG_MAX];
    bool mine = false;
    const struct asker a = asker_of(j);
    while (!mine) {
        json_t *answer = NULL;
        TRY(ask_range(&a, "leader", &answer, e));
        const json_t *leader = first(answer);
        bool free = leader == NULL, begins = !free && !*said;
        int rc = begins ? read_head(j, &j->waited_head, ignored, sizeof(ignored), e) : 0;
        if (rc == 0 && !free)
            say_waits(j, leader, said);
        json_decref(answer);
        TRY(rc);
        if (!free && interrupt_comes(&j->o.interrupt, LOOK_MS))
            return err_set(e, TUG_EINTERRUPTED, "interrupted");
        if (!free)
            continue;
        TRY(try_take(j, &mine, e));
        if (!mine)
            etcd_lease_give_up(j);
    }
    return 0;
}

// Reads the name of the valid log after it has taken the lease: only the leader changes this
// name, and this scheduler is then the leader.
int etcd_lease_take(struct etcd_journal *j, bool *ret_waited, struct err *e)
{
    *ret_waited = false;
    TRY(take_key(j, ret_waited, e));
    return read_head(j, &j->head, j->log, sizeof(j->log), e);
}

// ---------------------------------------------------------------- staying the leader

static bool make_lease_request(const struct etcd_journal *j, struct buf *to)
{
    buf_clear(to);
    return buf_printf(to, "{\"ID\":\"%" PRIu64 "\"}", j->lease) == 0;
}

static void renewed(struct etcd_journal *j, uint64_t asked)
{
    pthread_mutex_lock(&j->mutex);
    bool was_late = etcd_now() >= j->valid_until;
    j->valid_until = asked + j->ttl_ns;
    if (was_late)
        etcd_journal_tell(j);
    pthread_mutex_unlock(&j->mutex);
}

// Called when the lease has ended because etcd or this machine was stopped. Takes a new
// lease if no other scheduler has led since then, and sets *ret_mine to whether it has one.
// (A new leader writes the key `head` before it answers anyone.) Returns false if this
// cannot be decided yet.
static bool take_again(const struct asker *a, struct lease *ret, bool *ret_mine,
                       struct err *e)
{
    json_t *answer = NULL;
    struct err why = {0};
    char text[ETCD_HOST_MAX];
    if (grant(a, ret, &why) != 0 || !make_taking(a, ret, true))
        return false;
    if (etcd_ask_once(a->client, "/v3/kv/txn", a->body, beat_seconds, &answer, &why) !=
        ETCD_OK)
        return false;
    bool made = json_is_true(json_object_get(answer, "succeeded"));
    json_decref(answer);
    answer = NULL;
    if (ask_range(a, "leader", &answer, &why) != 0)
        return false;
    const json_t *leader = first(answer);
    uint64_t of = etcd_get_number(leader, "lease");
    etcd_value_text(leader, text, sizeof(text));
    ret->created = etcd_get_number(leader, "create_revision");
    json_decref(answer);
    *ret_mine = of == ret->id;
    if (!*ret_mine)
        (void)etcd_lost(a->j, text, e);
    // The key of the old lease may exist a little longer than the lease.
    return *ret_mine || (!made && (of == 0 || of != a->j->lease));
}

static void lease_ended(struct etcd_journal *j, struct buf *body)
{
    struct lease l;
    struct err why = {0};
    bool mine = false;
    const struct asker a = {j, &j->beats, body};
    if (!take_again(&a, &l, &mine, &why))
        return; // the next call tries again
    if (!mine) {
        etcd_journal_fail(j, &why);
        return;
    }
    (void)own_lease(j, &l);
    if (j->o.say != NULL)
        j->o.say(j->o.ctx,
                 "etcd had ended this scheduler's lease, and no other scheduler "
                 "has led since, so this one goes on with a new lease");
}

// Asks etcd once to renew the lease. Returns false if there was no answer.
static bool beat(struct etcd_journal *j, struct buf *body)
{
    json_t *answer = NULL;
    struct err why = {0};
    uint64_t asked = etcd_now();
    if (!make_lease_request(j, body))
        return false;
    enum etcd_answer kind = etcd_ask_once(&j->beats, "/v3/lease/keepalive", body,
                                          beat_seconds, &answer, &why);
    const json_t *result = json_object_get(answer, "result");
    bool lost = kind == ETCD_NOT_FOUND ||
                (kind == ETCD_OK && etcd_get_number(result, "ID") == j->lease &&
                 etcd_get_number(result, "TTL") == 0);
    bool done = kind == ETCD_OK && etcd_get_number(result, "TTL") > 0;
    json_decref(answer);
    if (kind == ETCD_REFUSED)
        etcd_journal_fail(j, &why);
    if (lost)
        lease_ended(j, body);
    if (done)
        renewed(j, asked);
    return done;
}

// Waits for `seconds`, or until the journal is being closed. Returns whether it is being
// closed.
static bool wait_stop(struct etcd_journal *j, double seconds)
{
    struct timespec t = clock_deadline(seconds);
    pthread_mutex_lock(&j->mutex);
    while (!atomic_load(&j->stop) && j->failed.code == 0 &&
           pthread_cond_timedwait(&j->changed, &j->mutex, &t) == 0)
        ;
    bool over = atomic_load(&j->stop) || j->failed.code != 0;
    pthread_mutex_unlock(&j->mutex);
    return over;
}

void *etcd_lease_keep(void *journal)
{
    struct etcd_journal *j = journal;
    struct buf body = BUF_INIT(REQUEST_MAX);
    double period = (double)j->ttl_ns / BEATS / (double)SECOND_NS;
    bool done = false;
    do
        done = beat(j, &body);
    while (!wait_stop(j, done ? period : period / BEATS));
    buf_free(&body);
    return NULL;
}

void etcd_lease_give_up(struct etcd_journal *j)
{
    json_t *answer = NULL;
    struct err ignored = {0};
    if (j->lease != 0 && make_lease_request(j, &j->body))
        (void)etcd_ask_once(&j->asks, "/v3/lease/revoke", &j->body, give_up_seconds,
                            &answer, &ignored);
    json_decref(answer);
    j->lease = 0;
}
