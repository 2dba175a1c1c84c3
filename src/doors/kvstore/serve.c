// Pushes and pulls of a kvstore's server.
//
// A synchronous key has one open round. Each rank gives it one push, and a push is
// answered when its round is over, so that no rank can be a round ahead and a pull after
// the answer sees the whole round. A push has the number of its round. If the replacement
// of a dead worker pushes to a round that has the dead worker's push, the replacement's
// values are not added, because the rank has given its part; this push is answered with
// the others, or at once if the round is over.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvstore/block.h"
#include "doors/kvstore/coding.h"
#include "doors/kvstore/server.h"

#define ID_MASK (((uint64_t)1 << 48) - 1)

// A request's head, and the bytes after the head.
struct rest {
    struct kvs_head head;
    const char *at;
    size_t n;
};

static int take_head(const struct kvs_job *j, struct rest *ret, struct err *e)
{
    if (j->n_bytes < sizeof(ret->head))
        return err_set(e, TUG_EDATA, "a request of %zu bytes has no head", j->n_bytes);
    memcpy(&ret->head, j->bytes, sizeof(ret->head));
    ret->at = j->bytes + sizeof(ret->head);
    ret->n = j->n_bytes - sizeof(ret->head);
    return 0;
}

// Checks that `bytes` bytes of elements, padded to words, follow the head of a request.
static int check_size(const struct rest *r, size_t bytes, struct err *e)
{
    if (r->n == kvs_padded(bytes, 4))
        return 0;
    return err_set(e, TUG_EDATA, "a request has %zu bytes of elements instead of %zu",
                   r->n, bytes);
}

// ---------------------------------------------------------------- init

static int array_of_head(const struct rest *r, struct tug_array *ret, struct err *e)
{
    const struct kvs_head *h = &r->head;
    *ret = (struct tug_array){.dtype = (enum tug_dtype)h->dtype,
                              .rows = h->rows,
                              .width = h->width,
                              .data = (void *)r->at};
    return kvs_array_check(ret, "a part of an array", e);
}

static int take_name(struct rest *r, struct kvs_key *ret, struct err *e)
{
    char name[KVS_NAME_MAX] = "";
    struct tug_kvstore_key key = {r->head.named ? name : NULL, r->head.number};
    if (r->head.n >= sizeof(name) || kvs_padded(r->head.n, 8) > r->n)
        return err_set(e, TUG_EDATA, "the name of a key is too long");
    memcpy(name, r->at, r->head.n);
    r->at += kvs_padded(r->head.n, 8);
    r->n -= kvs_padded(r->head.n, 8);
    return kvs_key_make(ret, &key, e);
}

static int init(struct tug_kvstore_server *s, const struct kvs_job *j,
                struct kvs_value **ret, struct err *e)
{
    struct rest r;
    struct kvs_key key;
    struct tug_array a;
    struct kvs_value *v;
    TRY(take_head(j, &r, e));
    TRY(take_name(&r, &key, e));
    kvs_key_slice(&key, r.head.slice);
    TRY(array_of_head(&r, &a, e));
    TRY(check_size(&r, kvs_bytes(&a, a.rows), e));
    TRY(kvs_array_finite(&a, key.text, e));
    if (key.id != (j->key & ID_MASK))
        return err_set(e, TUG_EDATA, "%s arrived under another key's number", key.text);
    v = kvs_by_key_find(&s->values.by_key, key.id);
    if (v == NULL) {
        TRY(kvs_values_make(&s->values, &key, &a, &v, e));
        atomic_fetch_add(&s->n_keys, 1);
    } else if (!kvs_key_same(&v->key, &key))
        return err_set(e, TUG_EUSAGE,
                       "%s and %s have the same hash: give one of them another name",
                       key.text, v->key.text);
    else if (v->a.dtype != a.dtype || v->a.rows != a.rows || v->a.width != a.width)
        return err_set(e, TUG_EUSAGE,
                       "%s was made with %llu x %llu elements of dtype %s here, and "
                       "cannot be made with %llu x %llu of %s",
                       key.text, (unsigned long long)v->a.rows,
                       (unsigned long long)v->a.width, kvs_dtype_name(v->a.dtype),
                       (unsigned long long)a.rows, (unsigned long long)a.width,
                       kvs_dtype_name(a.dtype));
    v->a.sparse = r.head.sparse != 0;
    *ret = v;
    return 0;
}

// --------------------------------------------------------------- pushed values as arrays

static int same_shape(const struct kvs_value *v, const struct kvs_head *h, struct err *e)
{
    if (h->dtype == v->a.dtype && h->rows == v->a.rows && h->width == v->a.width)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s has %llu x %llu elements of dtype %s here: workers must agree on "
                   "its shape, on MXNET_KVSTORE_BIGARRAY_BOUND and on "
                   "MXNET_KVSTORE_SLICE_THRESHOLD",
                   v->key.text, (unsigned long long)v->a.rows,
                   (unsigned long long)v->a.width, kvs_dtype_name(v->a.dtype));
}

static int decode(struct tug_kvstore_server *s, const struct rest *r, struct tug_array *a,
                  struct err *e)
{
    enum kvs_coding c = r->head.coding == KVS_2BIT ? KVS_2BIT : KVS_1BIT;
    size_t n = a->rows * a->width;
    if (a->dtype != TUG_FLOAT32 || (r->head.coding != KVS_2BIT && c != r->head.coding))
        return err_set(e, TUG_EDATA, "there is no such compression");
    TRY(check_size(r, kvs_coded_words(c, n) * 4, e));
    if (kvs_block_reserve(&s->decoded.a.data, &s->decoded.cap_bytes, n * 4) != 0)
        return err_nomem(e, "a gradient");
    a->data = s->decoded.a.data;
    kvs_decode(c, r->head.threshold, (const uint32_t *)r->at, n, a->data);
    return 0;
}

static int array_of(struct tug_kvstore_server *s, const struct kvs_value *v,
                    const struct kvs_job *j, struct tug_array *ret, struct err *e)
{
    struct rest r;
    TRY(take_head(j, &r, e));
    TRY(same_shape(v, &r.head, e));
    *ret = (struct tug_array){.dtype = v->a.dtype,
                              .rows = v->a.rows,
                              .width = v->a.width,
                              .data = (void *)r.at};
    if (j->cmd == KVS_PUSH)
        return check_size(&r, kvs_bytes(ret, ret->rows), e);
    if (j->cmd == KVS_PUSH_CODED)
        return decode(s, &r, ret, e);
    if (r.head.n > ret->rows || r.head.n * sizeof(int64_t) > r.n)
        return err_set(e, TUG_EDATA, "a push of rows lacks some row numbers");
    ret->sparse = true;
    ret->n_ids = r.head.n;
    ret->ids = (int64_t *)r.at;
    r.at += ret->n_ids * sizeof(int64_t);
    r.n -= ret->n_ids * sizeof(int64_t);
    ret->data = (void *)r.at;
    TRY(check_size(&r, kvs_bytes(ret, ret->n_ids), e));
    return kvs_array_check(ret, v->key.text, e);
}

static int check_push(const struct kvs_value *v, const struct kvs_job *j, struct err *e)
{
    if (j->push)
        return 0;
    // A push-and-pull that arrives again is marked only as a pull, because its values are
    // already in the array.
    return err_set(e, TUG_EDATA, "%s: request %d is a push, but is not marked as one",
                   v->key.text, j->cmd);
}

// Gets the array of a push, after checking that the job is a valid push.
static int pushed_array(struct tug_kvstore_server *s, const struct kvs_value *v,
                        const struct kvs_job *j, struct tug_array *ret, struct err *e)
{
    TRY(check_push(v, j, e));
    TRY(array_of(s, v, j, ret, e));
    return kvs_array_finite(ret, v->key.text, e);
}

// ---------------------------------------------------------------- answers

static void answer_array(struct tug_kvstore_server *s, const struct kvs_value *v,
                         struct kvs_job *j)
{
    size_t n = kvs_bytes(&v->a, v->a.rows);
    struct err e;
    if (n % 4 == 0) { // no padding is needed, so the array's own memory is sent
        kvs_block_hold(v->a.data);
        kvs_job_answer_block(s, j, v->a.data, n);
        return;
    }
    // n is 2 below a multiple of 4: an odd number of 16-bit elements.
    char *words = mem_zalloc(n + 2);
    if (words == NULL) {
        err_nomem(&e, "an answer");
        kvs_job_refuse(s, j, &e);
        return;
    }
    memcpy(words, v->a.data, n);
    kvs_job_answer(s, j, words, n + 2);
    mem_free(words);
}

static void answer_push(struct tug_kvstore_server *s, const struct kvs_value *v,
                        struct kvs_job *j, const struct err *why)
{
    if (why != NULL)
        kvs_job_refuse(s, j, why);
    else if (j->pull)
        answer_array(s, v, j);
    else
        kvs_job_answer(s, j, NULL, 0);
}

static int serve_pull_rows(struct tug_kvstore_server *s, const struct kvs_value *v,
                           struct kvs_job *j, struct err *e)
{
    struct rest r;
    TRY(take_head(j, &r, e));
    TRY(same_shape(v, &r.head, e));
    if (r.head.n > r.n / sizeof(int64_t) || r.head.n * sizeof(int64_t) != r.n)
        return err_set(e, TUG_EDATA, "a pull of rows lacks some row numbers");
    if (r.head.n >
        v->a.rows) // repeated ids would make a small request's answer very large
        return err_set(
            e, TUG_EDATA, "%s: a pull asks for %llu rows, but the array has %llu",
            v->key.text, (unsigned long long)r.head.n, (unsigned long long)v->a.rows);
    size_t each = kvs_bytes(&v->a, 1), n = r.head.n * each;
    const int64_t *ids = (const int64_t *)r.at;
    char *rows = mem_zalloc(n + 4);
    if (rows == NULL)
        return err_nomem(e, "the rows of an answer");
    for (uint64_t i = 0; i < r.head.n; i++) {
        if (ids[i] < 0 || (uint64_t)ids[i] >= v->a.rows) {
            mem_free(rows);
            return err_set(e, TUG_EDATA, "%s has no row %lld here", v->key.text,
                           (long long)ids[i]);
        }
        memcpy(rows + i * each, (char *)v->a.data + kvs_bytes(&v->a, (uint64_t)ids[i]),
               each);
    }
    kvs_job_answer(s, j, rows, kvs_padded(n, 4));
    mem_free(rows);
    return 0;
}

// ---------------------------------------------------------------- rounds

static void free_chain(struct kvs_job *j)
{
    for (struct kvs_job *next; j != NULL; j = next) {
        next = j->next;
        kvs_job_free(j);
    }
}

void kvs_round_free(struct tug_kvstore_server *s, struct kvs_value *v)
{
    struct kvs_round *r = v->round;
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < s->workers; i++)
        free_chain(r->of[i]);
    kvs_rows_free(&r->sum);
    mem_free(r->of);
    mem_free(r);
    v->round = NULL;
}

static int round_of(struct tug_kvstore_server *s, struct kvs_value *v, struct err *e)
{
    if (v->round != NULL)
        return 0;
    struct kvs_round *r = mem_zalloc(sizeof(*r));
    if (r != NULL)
        r->of = mem_zalloc(s->workers * sizeof(struct kvs_job *));
    if (r == NULL || r->of == NULL) {
        mem_free(r);
        return err_nomem(e, "a round of pushes");
    }
    v->round = r;
    return 0;
}

// Ends a round: answers all its pushes, or refuses them if *why has an error, and begins
// the next round.
static void end_round(struct tug_kvstore_server *s, struct kvs_value *v,
                      const struct err *why)
{
    struct kvs_round *r = v->round;
    for (uint32_t i = 0; i < s->workers; i++) {
        struct kvs_job *j = r->of[i];
        r->of[i] = NULL;
        for (struct kvs_job *next; j != NULL; j = next) {
            next = j->next;
            answer_push(s, v, j, why);
        }
    }
    assert(why != NULL || r->added == s->workers);
    if (why == NULL)
        atomic_fetch_add(&s->merged, s->workers);
    r->arrived = r->added = 0;
    r->beyond.code = 0;
}

// Returns whether the push of rank 0 waits for the push of rank 1, because both are added
// in one pass if they are dense and not compressed.
static bool waits_for_second(const struct tug_kvstore_server *s,
                             const struct kvs_round *r)
{
    return s->workers > 1 && r->added == 0 && r->of[0] != NULL &&
           r->of[0]->cmd == KVS_PUSH && r->of[1] == NULL;
}

// Returns whether the job is the second push for which the first push waits. If a worker
// that replaces a dead one repeats the push of its rank, that is not a second push.
static bool is_second(const struct tug_kvstore_server *s, const struct kvs_round *r,
                      const struct kvs_job *j)
{
    bool of_two = s->workers > 1 &&
                  j->rank < 2; // a cluster of one worker has no second rank
    const struct kvs_job *first = of_two ? r->of[1 - j->rank] : NULL;
    return r->added == 0 && j->cmd == KVS_PUSH && first != NULL &&
           first->cmd == KVS_PUSH && r->of[j->rank] == NULL;
}

// Adds the first two pushes. The first push was checked when it arrived; if the sum is
// finite, the second push is finite. If both pushes are finite but the sum is out of range,
// the round fails: at its end, all its pushes get the error.
static int add_second(struct tug_kvstore_server *s, struct kvs_value *v,
                      struct kvs_job *j, struct err *e)
{
    struct kvs_round *r = v->round;
    struct kvs_job *first = r->of[1 - j->rank];
    struct tug_array a, b;
    bool fits;
    TRY(check_push(v, j, e));
    TRY(array_of(s, v, first, &a, e));
    TRY(array_of(s, v, j, &b, e));
    // The sum of two arrays does not depend on their order.
    TRY(kvs_rows_set_sum(&r->sum, &a, &b, &fits, e));
    if (!fits)
        TRY(kvs_array_finite(&b, v->key.text, e));
    if (!fits) // both arrays are finite, so only the sum is out of range
        (void)kvs_sum_beyond(b.dtype, &r->beyond);
    kvs_job_release(first);
    kvs_job_release(j);
    r->added = 2;
    return 0;
}

static int add_arrived(struct tug_kvstore_server *s, struct kvs_value *v, struct err *e)
{
    struct kvs_round *r = v->round;
    struct tug_array a;
    if (waits_for_second(s, r))
        return 0;
    while (r->added < s->workers && r->of[r->added] != NULL) {
        struct kvs_job *j = r->of[r->added];
        TRY(array_of(s, v, j, &a, e)); // the push was checked when it arrived
        int rc = 0;
        if (r->beyond.code == 0)
            rc = r->added == 0 ? kvs_rows_set(&r->sum, a.dtype, &a, e)
                               : kvs_rows_add(&r->sum, &a, e);
        if (rc == TUG_EUSAGE)
            r->beyond = *e;
        else
            TRY(rc);
        kvs_job_release(j);
        r->added++;
    }
    return 0;
}

// Queues a rank's second push in a round. The worker that sent the first push died; that
// push counts, and the second push is only answered at the end of the round.
static int push_again(const struct kvs_value *v, struct kvs_job **at, struct kvs_job *j,
                      struct err *e)
{
    for (; *at != NULL; at = &(*at)->next)
        if ((*at)->sender == j->sender)
            return err_set(e, TUG_EUSAGE,
                           "%s: worker %u pushes again before its round is over",
                           v->key.text, j->rank);
    kvs_job_release(j);
    *at = j;
    return 0;
}

// Sets *ret to the number of rounds by which the push's round precedes the open round.
static int rounds_late(const struct kvs_value *v, const struct kvs_job *j, uint32_t *ret,
                       struct err *e)
{
    struct rest r;
    TRY(take_head(j, &r, e));
    *ret = (uint32_t)v->rounds - r.head.round;
    if (*ret <= INT32_MAX)
        return 0;
    return err_set(e, TUG_EDATA, "%s: worker %u pushes for round %u, but %llu is open",
                   v->key.text, j->rank, r.head.round, (unsigned long long)v->rounds);
}

static int push_to_round(struct tug_kvstore_server *s, struct kvs_value *v,
                         struct kvs_job *j, struct err *e)
{
    struct tug_array a;
    struct err why;
    uint32_t late;
    TRY(rounds_late(v, j, &late, e));
    if (late > 0) {
        TRY(pushed_array(s, v, j, &a, e));
        answer_push(s, v, j, NULL);
        return 0;
    }
    TRY(round_of(s, v, e));
    struct kvs_round *r = v->round;
    TRY(is_second(s, r, j)
            ? add_second(s, v, j, e) // before `j` is stored: a wrong push does not count
            : pushed_array(s, v, j, &a, e));
    if (r->of[j->rank] != NULL)
        return push_again(v, &r->of[j->rank], j, e);
    r->of[j->rank] = j;
    r->arrived++;
    int rc = add_arrived(s, v, &why);
    if (rc == 0 && r->arrived == s->workers && r->beyond.code != 0) {
        why = r->beyond;
        rc = err_wrap(&why, "%s", v->key.text);
    } else if (rc == 0 && r->arrived == s->workers) {
        rc = kvs_value_update_by_sum(v, &s->rule, &r->sum, &why);
    }
    if (rc != 0 || r->arrived == s->workers)
        end_round(s, v, rc != 0 ? &why : NULL);
    return 0;
}

static int push_at_once(struct tug_kvstore_server *s, struct kvs_value *v,
                        struct kvs_job *j, struct err *e)
{
    struct tug_array a;
    if (s->rule.updater == NULL && !s->rule.optimizes)
        return err_set(e, TUG_EUSAGE,
                       "%s: servers of an asynchronous store must know how to apply a "
                       "push: set_optimizer (tug_kvstore_set_optimizer) comes before the "
                       "first one",
                       v->key.text);
    TRY(pushed_array(s, v, j, &a, e));
    TRY(kvs_value_update(v, &s->rule, &a, e));
    atomic_fetch_add(&s->merged, 1);
    answer_push(s, v, j, NULL);
    return 0;
}

// Serves a job. Returns 0 if it was answered or waits for its round; else the caller
// refuses it.
static int serve_request(struct tug_kvstore_server *s, struct kvs_job *j, struct err *e)
{
    struct kvs_value *v;
    if (j->rank >= s->workers || !s->known[j->rank])
        return err_set(e, TUG_EUSAGE,
                       "only workers that have sent hello can push and pull");
    if (j->cmd == KVS_INIT) {
        if (j->rank != 0)
            return err_set(e, TUG_EUSAGE, "only worker 0 can make keys");
        if (!j->push)
            return err_set(e, TUG_EDATA, "init needs a value for the key");
        TRY(init(s, j, &v, e));
        kvs_serve_wanted(s, v);
        kvs_job_answer(s, j, NULL, 0);
        return 0;
    }
    v = kvs_by_key_find(&s->values.by_key, j->key & ID_MASK);
    if (v == NULL)
        return err_set(e, TUG_EUSAGE,
                       "worker 0 has not made the key: call init before push and pull");
    switch (j->cmd) {
    case KVS_PUSH:
    case KVS_PUSH_ROWS:
    case KVS_PUSH_CODED:
        if (!j->push && j->pull) { // a push-and-pull that arrives for the second time
            answer_array(s, v, j);
            return 0;
        }
        return s->async ? push_at_once(s, v, j, e) : push_to_round(s, v, j, e);
    case KVS_PULL:
        answer_array(s, v, j);
        return 0;
    case KVS_PULL_ROWS:
        return serve_pull_rows(s, v, j, e);
    default:
        return err_set(e, TUG_EDATA, "there is no request %d", j->cmd);
    }
}

void kvs_serve_data(struct tug_kvstore_server *s, struct kvs_job *j)
{
    struct err e;
    if (serve_request(s, j, &e) != 0)
        kvs_job_refuse(s, j, &e);
}
