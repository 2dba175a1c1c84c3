// Pushes and pulls: checks them, cuts them by the servers' ranges or by a slicer, and
// puts the answers together.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "base/search.h"
#include "doors/kvapp/above.h"
#include "doors/kvapp/node.h"

// ---------------------------------------------------------------- checks

// Returns the address of the i-th value; NULL if there are no values.
static const void *value_at(const struct tug_kv_data *d, size_t i)
{
    return d->values != NULL
               ? (const char *)d->values + i * kv_value_bytes(d->value_bytes)
               : NULL;
}

int kv_check_keys(const struct tug_kv_data *d, struct err *e)
{
    const uint64_t *k = d->keys;
    bool ascend = true;
    for (size_t i = 1; i < d->n_keys; i++)
        ascend &= k[i - 1] < k[i];
    for (size_t i = 1; i < d->n_keys && !ascend; i++)
        if (k[i - 1] >= k[i])
            return err_set(e, TUG_EUSAGE,
                           "keys must ascend and not repeat: key %zu is %llu, after %llu",
                           i, (unsigned long long)k[i], (unsigned long long)k[i - 1]);
    return 0;
}

static int check_lengths(const struct tug_kv_data *d, struct err *e)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n_keys; i++) {
        if (d->lengths[i] < 0)
            return err_set(
                e, TUG_EUSAGE,
                "key %zu has %d values, but a number of values cannot be negative", i,
                d->lengths[i]);
        sum += (uint64_t)d->lengths[i];
    }
    if (sum != d->n_values)
        return err_set(e, TUG_EUSAGE,
                       "the lengths of %zu keys add up to %llu values, but there are %zu",
                       d->n_keys, (unsigned long long)sum, d->n_values);
    return 0;
}

int kv_check_data(const struct tug_kv_data *d, struct err *e)
{
    size_t bytes = kv_value_bytes(d->value_bytes);
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return err_set(e, TUG_EUSAGE, "values have 1, 2, 4 or 8 bytes, not %zu", bytes);
    if (d->lengths != NULL)
        return check_lengths(d, e);
    if (d->n_keys == 0 ? d->n_values != 0 : d->n_values % d->n_keys != 0)
        return err_set(e, TUG_EUSAGE,
                       "%zu values cannot be divided evenly among %zu keys", d->n_values,
                       d->n_keys);
    return 0;
}

struct tug_kv_data kv_data_of(const struct msg_app *m)
{
    return (struct tug_kv_data){
        .keys = m->keys.data,
        .n_keys = m->keys.n / sizeof(uint64_t),
        .values = m->values.data,
        .n_values = m->values.n / kv_value_bytes(m->value_bytes),
        .lengths = m->lengths.n > 0 ? m->lengths.data : NULL,
        .value_bytes = m->value_bytes,
    };
}

int kv_check_message(const struct msg_app *m, size_t n_keys, struct err *e)
{
    struct tug_kv_data d = kv_data_of(m);
    if (m->keys.n % sizeof(uint64_t) != 0 ||
        m->values.n % kv_value_bytes(m->value_bytes) != 0)
        return err_set(e, TUG_EUSAGE,
                       "the message has %llu bytes of keys, which must be a multiple of "
                       "%zu, and %llu bytes of values, which must be a multiple of %zu",
                       (unsigned long long)m->keys.n, sizeof(uint64_t),
                       (unsigned long long)m->values.n, kv_value_bytes(m->value_bytes));
    if (d.lengths != NULL && m->lengths.n != n_keys * sizeof(*d.lengths))
        return err_set(
            e, TUG_EUSAGE,
            "the message has %llu bytes of lengths, which do not fit its %zu keys",
            (unsigned long long)m->lengths.n, n_keys);
    d.n_keys = n_keys;
    return kv_check_data(&d, e);
}

int tug_kv_check_values(const struct tug_kv_meta *m, const struct tug_kv_data *d,
                        size_t each)
{
    struct err *e = last_error();
    if (!m->push)
        return 0;
    if (d->n_keys > 0 &&
        (d->n_values / d->n_keys != each || d->n_values % d->n_keys != 0))
        return err_set(
            e, TUG_EUSAGE,
            "a push of %zu keys has %zu values: this server expects %zu for each key",
            d->n_keys, d->n_values, each);
    for (size_t i = 0; d->lengths != NULL && i < d->n_keys; i++)
        if (d->lengths[i] < 0 || (size_t)d->lengths[i] != each)
            return err_set(e, TUG_EUSAGE,
                           "key %llu is pushed with %d values: this server expects "
                           "%zu for each key",
                           (unsigned long long)d->keys[i], d->lengths[i], each);
    return 0;
}

// Checks that pushed floats are finite, before any part is sent: if one server refused its
// part, the other servers would still apply theirs.
static int check_finite(const struct tug_kv_data *d, struct err *e)
{
    size_t i = 0;
    if (d->value_bytes != 0 || finite_floats(d->values, d->n_values))
        return 0;
    while (isfinite(d->values[i]))
        i++;
    return err_set(e, TUG_EUSAGE,
                   "value %zu of a push is not finite, so nothing of it was sent", i);
}

static int check_request(const struct tug_node *n, const struct tug_kv_request *q,
                         bool floats, struct err *e)
{
    if (n->over)
        return last_error_is(&n->why);
    if (!n->placed)
        return err_set(e, TUG_EUSAGE,
                       "not all servers and workers have joined: wait for a barrier "
                       "before the first push");
    if (!q->push && !q->pull)
        return err_set(e, TUG_EUSAGE, "a request must push, pull, or do both");
    if (q->pull && q->pulled == NULL && q->room == NULL)
        return err_set(e, TUG_EUSAGE,
                       "a pull needs an array for the values that it returns");
    if (q->pulled != NULL && q->pulled_lengths == NULL && q->data.n_keys > 0 &&
        q->n_pulled % q->data.n_keys != 0)
        return err_set(
            e, TUG_EUSAGE,
            "an array for %zu pulled values cannot be divided evenly among %zu keys",
            q->n_pulled, q->data.n_keys);
    TRY(kv_check_keys(&q->data, e));
    if (!q->push)
        return 0;
    TRY(kv_check_data(&q->data, e));
    return floats ? check_finite(&q->data, e) : 0;
}

// ---------------------------------------------------------------- cutting

// Returns the index of the first key, from index `from` on, that is greater than `last`.
static size_t end_of_range(const struct tug_kv_data *d, size_t from, uint64_t last)
{
    return search_first(from, d->n_keys, i, d->keys[i] > last);
}

static size_t values_of(const struct tug_kv_data *d, size_t first, size_t end)
{
    if (d->lengths == NULL)
        return (end - first) * (d->n_values / d->n_keys);
    size_t n = 0;
    for (size_t i = first; i < end; i++)
        n += (size_t)d->lengths[i];
    return n;
}

static uint32_t count_parts(const struct tug_node *n, const struct tug_kv_data *d)
{
    uint32_t parts = 0;
    for (size_t at = 0, end, s = 0; at < d->n_keys; at = end, s++) {
        end = end_of_range(d, at, n->last_keys[s]);
        parts += end > at;
    }
    return parts;
}

static void kv_cut(const struct tug_node *n, struct kv_request *r)
{
    const struct tug_kv_data *d = &r->kv.data;
    bool push = r->kv.push;
    struct kv_part *p = r->parts;
    size_t value = 0;
    for (size_t at = 0, end, s = 0; at < d->n_keys; at = end, s++) {
        end = end_of_range(d, at, n->last_keys[s]);
        if (end == at)
            continue;
        p->node = n->servers[s];
        p->first_key = at;
        p->d = (struct tug_kv_data){
            .keys = d->keys + at,
            .n_keys = end - at,
            .values = push ? value_at(d, value) : NULL,
            .n_values = push ? values_of(d, at, end) : 0,
            .lengths = push && d->lengths != NULL ? d->lengths + at : NULL,
            .value_bytes = d->value_bytes,
        };
        value += p->d.n_values;
        p++;
    }
}

// Checks one slice that a program's slicer has made.
static int check_slice(const struct tug_kv_request *q, struct tug_kv_data *s,
                       struct err *e)
{
    s->value_bytes = q->data.value_bytes;
    TRY(kv_check_keys(s, e));
    if (!q->push)
        return 0;
    TRY(kv_check_data(s, e));
    return check_finite(s, e);
}

// Returns the index in the request's keys at which the slice's keys begin; the request's
// n_keys if the slice's keys are not a contiguous part of the request's keys.
static size_t run_of(const struct tug_kv_data *d, const struct tug_kv_data *s)
{
    size_t at = s->keys[0] > 0 ? end_of_range(d, 0, s->keys[0] - 1) : 0;
    bool fits = s->n_keys <= d->n_keys - at;
    return fits && memcmp(d->keys + at, s->keys, s->n_keys * sizeof(*s->keys)) == 0
               ? at
               : d->n_keys;
}

static int check_runs(struct kv_request *r, struct err *e)
{
    const struct tug_kv_data *d = &r->kv.data;
    size_t covered = 0;
    for (uint32_t i = 0; i < r->n_parts; i++) {
        struct kv_part *p = &r->parts[i];
        p->first_key = run_of(d, &p->d);
        if (p->first_key == d->n_keys)
            return err_set(e, TUG_EUSAGE,
                           "the slicer gives node %u keys that are not a contiguous part "
                           "of the pulled keys",
                           p->node);
        for (uint32_t j = 0; j < i; j++)
            if (p->first_key < r->parts[j].first_key + r->parts[j].d.n_keys &&
                r->parts[j].first_key < p->first_key + p->d.n_keys)
                return err_set(e, TUG_EUSAGE,
                               "the slicer asks nodes %u and %u for the same keys",
                               p->node, r->parts[j].node);
        covered += p->d.n_keys;
    }
    if (covered != d->n_keys)
        return err_set(e, TUG_EUSAGE,
                       "the slicer gives the servers %zu of %zu keys that are pulled",
                       covered, d->n_keys);
    return 0;
}

// Sorts the parts by their first key, because kv_assemble joins pulled values in the order
// of the parts.
static void sort_parts(struct kv_request *r)
{
    for (uint32_t i = 1; i < r->n_parts; i++) {
        struct kv_part p = r->parts[i];
        uint32_t j = i;
        for (; j > 0 && r->parts[j - 1].first_key > p.first_key; j--)
            r->parts[j] = r->parts[j - 1];
        r->parts[j] = p;
    }
}

static int take_slices(struct kv_request *r, const struct tug_kv_data *slices,
                       struct err *e)
{
    const struct tug_node *n = r->app->node;
    struct kv_part *p = r->parts;
    for (uint32_t s = 0; s < n->n_servers; s++) {
        if (slices[s].n_keys == 0)
            continue;
        p->node = n->servers[s];
        p->d = slices[s];
        p++;
    }
    if (!r->kv.pull)
        return 0;
    TRY(check_runs(r, e));
    sort_parts(r);
    return 0;
}

// Calls the program's slicer with the current ranges of the servers. During the call,
// other threads may have the van.
static int ask_slicer(struct tug_node *n, const struct tug_kv_request *q,
                      struct tug_kv_data **ret, struct err *e)
{
    pump_enter(n->pump);
    uint32_t servers = n->placed ? n->n_servers : 0;
    struct tug_kv_data *slices = mem_zalloc((servers + 1) * sizeof(*slices));
    uint64_t *last_keys = mem_array(servers + 1, sizeof(*last_keys));
    if (last_keys != NULL)
        memcpy(last_keys, n->last_keys, servers * sizeof(*last_keys));
    pump_leave(n->pump);
    int rc = slices == NULL || last_keys == NULL ? err_nomem(e, "slices") : 0;
    if (rc == 0 && servers > 0 &&
        q->slice(q->ctx, &q->data, servers, last_keys, slices) != 0)
        rc = err_set(e, TUG_EUSAGE, "the slicer has failed");
    for (uint32_t s = 0; s < servers && rc == 0; s++)
        if ((rc = check_slice(q, &slices[s], e)) != 0)
            err_wrap(e, "the slicer's slice for server %u", s);
    mem_free(last_keys);
    if (rc != 0)
        mem_free(slices);
    else
        *ret = slices;
    return rc;
}

static uint32_t count_slices(const struct tug_node *n, const struct tug_kv_data *slices)
{
    uint32_t parts = 0;
    for (uint32_t s = 0; s < n->n_servers; s++)
        parts += slices[s].n_keys > 0;
    return parts;
}

static int send_request(struct tug_app *a, const struct tug_kv_request *q,
                        const struct tug_kv_data *slices, bool floats,
                        uint32_t *ret_timestamp, struct err *e)
{
    struct tug_node *n = a->node;
    TRY(check_request(n, q, floats, e));
    struct kv_request *r = kv_request_new(a, slices != NULL ? count_slices(n, slices)
                                                            : count_parts(n, &q->data));
    if (r == NULL)
        return err_nomem(e, "a request");
    r->kv = *q;
    r->head = q->cmd;
    r->in_place = q->pull && q->pulled != NULL && q->pulled_lengths == NULL;
    int rc = 0;
    if (slices != NULL)
        rc = take_slices(r, slices, e);
    else
        kv_cut(n, r);
    if (rc != 0) {
        kv_request_unmake(r);
        return rc;
    }
    *ret_timestamp = r->timestamp;
    kv_request_start(r);
    return 0;
}

int tug_kv_send(struct tug_app *a, const struct tug_kv_request *q,
                uint32_t *ret_timestamp)
{
    struct tug_kv_data *slices = NULL;
    if (q->slice != NULL)
        TRY(ask_slicer(a->node, q, &slices, last_error()));
    pump_enter(a->node->pump);
    int rc = send_request(a, q, slices, true, ret_timestamp, last_error());
    pump_leave(a->node->pump);
    mem_free(slices);
    return rc;
}

int kv_send_words(struct tug_app *a, const struct tug_kv_request *q,
                  uint32_t *ret_timestamp)
{
    pump_enter(a->node->pump);
    int rc = send_request(a, q, NULL, false, ret_timestamp, last_error());
    pump_leave(a->node->pump);
    return rc;
}

// ---------------------------------------------------------------- answers

static size_t pulled_per_key(const struct kv_request *r)
{
    return r->kv.n_pulled / r->kv.data.n_keys;
}

static void *kv_place_of(struct kv_request *r, const struct kv_part *p)
{
    return (char *)r->kv.pulled +
           p->first_key * pulled_per_key(r) * kv_value_bytes(r->kv.data.value_bytes);
}

void *kv_place(struct kv_request *r, const struct kv_part *p, const struct msg_app *m,
               uint64_t body_bytes)
{
    if (!r->in_place || m->values.n != body_bytes)
        // A body with more than the values (lengths or padding) must not be written to the
        // program's array.
        return NULL;
    size_t each = pulled_per_key(r) * kv_value_bytes(r->kv.data.value_bytes);
    if (body_bytes != p->d.n_keys * each)
        return NULL;
    return kv_place_of(r, p);
}

// Returns whether an answer lacks values that the request pulls, because the handler has
// answered without values. A request that pulls into an array of length 0 needs none.
static bool lacks_values(const struct kv_part *p, const struct msg_app *m)
{
    const struct kv_request *r = p->request;
    return p->d.n_keys > 0 && m->values.n == 0 && m->lengths.n == 0 &&
           !(r->in_place && r->kv.n_pulled == 0);
}

static int check_answer(const struct kv_part *p, const struct msg_app *m, struct err *e)
{
    if (lacks_values(p, m))
        return err_set(e, TUG_EDATA,
                       "it has no values, but request %u pulls values of %zu keys: the "
                       "handler has to answer with keys and values",
                       p->request->timestamp, p->d.n_keys);
    if (m->value_bytes != p->d.value_bytes)
        return err_set(
            e, TUG_EDATA,
            "its values have %u bytes each, but the pull asks for values of %u",
            m->value_bytes, p->d.value_bytes);
    if (kv_check_message(m, p->d.n_keys, e) == 0)
        return 0;
    e->code = TUG_EDATA; // the answering node has made the error, not the caller
    return e->code;
}

static int take_in_place(struct kv_part *p, const struct van_message *m, struct err *e)
{
    struct kv_request *r = p->request;
    const struct wire_span *v = &m->m->app.values;
    size_t each = pulled_per_key(r), bytes = kv_value_bytes(p->d.value_bytes);
    if (v->n != p->d.n_keys * each * bytes)
        return err_set(e, TUG_EUSAGE,
                       "it has %zu values of %zu keys, but there is room for %zu values",
                       (size_t)v->n / bytes, p->d.n_keys, p->d.n_keys * each);
    if (!m->placed && v->n > 0)
        memcpy(kv_place_of(r, p), v->data, v->n);
    return 0;
}

static int take_aside(struct tug_node *n, struct kv_part *p, struct van_message *m,
                      struct err *e)
{
    const struct msg_app *app = &m->m->app;
    p->n_got = app->values.n / kv_value_bytes(p->d.value_bytes);
    if (p->n_got == 0 && app->lengths.n == 0)
        return 0;
    p->kept = van_keep(n->van, m);
    if (p->kept == NULL)
        return err_nomem(e, "pulled values");
    p->values = app->values.data;
    p->lengths = app->lengths.n > 0 ? app->lengths.data : NULL;
    return 0;
}

void kv_answered(struct tug_node *n, struct kv_part *p, struct van_message *m)
{
    struct kv_request *r = p->request;
    struct err e = {0};
    char name[ROSTER_NAME_MAX];
    int rc = 0;
    if (r->kv.pull) {
        rc = check_answer(p, &m->m->app, &e);
        if (rc == 0)
            rc = r->in_place ? take_in_place(p, m, &e) : take_aside(n, p, m, &e);
    }
    if (rc != 0)
        err_wrap(&e, "the answer of %s", kv_node_name(n, p->node, name));
    kv_part_answered(p, rc != 0 ? &e : NULL);
}

static void copy_lengths(const struct kv_part *p, int32_t *to)
{
    if (p->lengths != NULL) {
        memcpy(to, p->lengths, p->d.n_keys * sizeof(*to));
        return;
    }
    for (size_t i = 0; i < p->d.n_keys; i++)
        to[i] = (int32_t)(p->n_got / p->d.n_keys);
}

int kv_assemble(struct kv_request *r)
{
    if (r->in_place)
        return 0;
    size_t total = 0;
    for (uint32_t i = 0; i < r->n_parts; i++)
        total += r->parts[i].n_got;
    size_t bytes = kv_value_bytes(r->kv.data.value_bytes);
    char *to = (char *)r->kv.pulled;
    if (to == NULL && r->kv.room != NULL)
        to = (char *)r->kv.room(r->kv.ctx, total);
    else if (total != r->kv.n_pulled)
        return err_set(&r->why, TUG_EUSAGE,
                       "the keys have %zu values, but there is room for %zu", total,
                       r->kv.n_pulled);
    if (to == NULL && total > 0)
        return err_set(&r->why, TUG_ENOMEM, "there is no room for %zu pulled values",
                       total);
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const struct kv_part *p = &r->parts[i];
        if (p->n_got > 0)
            memcpy(to, p->values, p->n_got * bytes);
        if (to != NULL)
            to += p->n_got * bytes;
        if (r->kv.pulled_lengths != NULL)
            copy_lengths(p, r->kv.pulled_lengths + p->first_key);
    }
    return 0;
}
