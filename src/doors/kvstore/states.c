// Sets what a kvstore does with pushes (updater, optimizer, compression); saves and loads
// states of optimizers.
//
// A file has a head, the states of each server (or of the process, without a cluster)
// after their length, and a checksum of all before.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "doors/kvstore/kvstore_internal.h"
#include "os/file.h"

static const char magic[8] = "TUGKVS1";
#define STATES_MAX_BYTES ((size_t)1 << 46)

struct states_head {
    char magic[8];
    uint64_t servers;
};

// Checks that no array is cut among servers, because the optimizer needs norms over whole
// arrays.
static int check_whole(const struct tug_kvstore *s, const char *name, struct err *e)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        const struct kvs_entry *x = s->entries.list[i];
        if (x->n_pieces > 1)
            return err_set(
                e, TUG_EUSAGE,
                "optimizer %s takes norms over whole arrays, but %s was cut into %u "
                "parts for the servers when it was made: call set_optimizer before init, "
                "so that the array stays on one server",
                name, x->key.text, x->n_pieces);
    }
    return 0;
}

int tug_kvstore_set_optimizer(struct tug_kvstore *s, const char *text)
{
    struct kvs_optimizer o;
    TRY(kvs_optimizer_parse(&o, text != NULL ? text : "", last_error()));
    if (!s->dist) {
        kvs_rule_optimize(&s->rule, &o);
        return 0;
    }
    bool whole = kvs_optimizer_whole(&o);
    const char *name = kvs_optimizer_name(o.kind);
    kvs_optimizer_free(&o);
    if (whole)
        TRY(check_whole(s, name, last_error()));
    TRY(tug_kvstore_wait(s));
    TRY(kvs_dist_tell(s, KVS_OPTIMIZER, KVS_ALL_SERVERS, text, strlen(text)));
    s->keeps_whole = whole;
    return 0;
}

int tug_kvstore_num_update(struct tug_kvstore *s, uint64_t *ret)
{
    if (s->dist)
        return err_set(last_error(), TUG_EUSAGE,
                       "the servers of a store of type %s count its updates, and workers "
                       "cannot ask for the number",
                       s->type);
    *ret = s->rule.optimizer.num_update;
    return 0;
}

int tug_kvstore_set_updater(struct tug_kvstore *s, tug_updater_fn fn, void *ctx)
{
    if (s->dist)
        return err_set(last_error(), TUG_EUSAGE,
                       "the servers of a store of type %s update it: register an updater "
                       "in their program (tug_kvstore_serve), or set an optimizer",
                       s->type);
    // The counts of updates stay: they continue if the same optimizer is set again.
    s->rule.optimizes = false;
    s->rule.updater = fn;
    s->rule.ctx = ctx;
    return 0;
}

int tug_kvstore_set_compression(struct tug_kvstore *s, const char *type, float threshold)
{
    enum kvs_coding c;
    if (!s->dist && !s->device)
        return err_set(
            last_error(), TUG_EUSAGE,
            "a store of type %s sends gradients nowhere, so it cannot compress "
            "them; device and dist stores can",
            s->type);
    TRY(kvs_coding_parse(type, &threshold, &c, last_error()));
    s->coding = c;
    s->threshold = threshold;
    return 0;
}

// ---------------------------------------------------------------- files

static int add_block(struct buf *b, const char *bytes, uint64_t n, struct err *e)
{
    int rc = buf_add(b, &n, sizeof(n));
    if (rc == 0 && n > 0)
        rc = buf_add(b, bytes, n);
    return rc != 0 ? buf_error(b, "states of an optimizer", e) : 0;
}

static int states_gather(struct tug_kvstore *s, struct buf *b, struct err *e)
{
    uint32_t ts;
    TRY(kvs_dist_ask(s, KVS_SAVE, KVS_ALL_SERVERS, NULL, 0, &ts));
    TRY(kvs_dist_wait(s, ts, NULL));
    for (uint32_t i = 0; i < s->servers; i++) {
        struct kvs_reply *r = kvs_dist_reply(s, ts, i);
        int rc = r == NULL ? err_nomem(e, "the states of a server")
                           : add_block(b, r->bytes, r->n, e);
        mem_free(r);
        TRY(rc);
    }
    return 0;
}

static int own_states(struct tug_kvstore *s, struct buf *b, struct err *e)
{
    struct buf own = BUF_INIT(STATES_MAX_BYTES);
    int rc = kvs_values_write_states(&s->values, &own, e);
    if (rc == 0)
        rc = add_block(b, own.data, own.len, e);
    buf_free(&own);
    return rc;
}

static int states_write_file(const char *path, const struct buf *b, struct err *e)
{
    struct file_writer *w;
    uint64_t sum = hash_bytes(b->data, b->len, 0);
    TRY(file_create(&w, path, e));
    int rc = file_write(w, b->data, b->len, e);
    if (rc == 0)
        rc = file_write(w, &sum, sizeof(sum), e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

int tug_kvstore_save_states(struct tug_kvstore *s, const char *file)
{
    struct err *e = last_error();
    struct buf b = BUF_INIT(STATES_MAX_BYTES);
    struct states_head h = {.servers = s->dist ? s->servers : 1};
    memcpy(h.magic, magic, sizeof(magic));
    if (!s->dist)
        TRY(kvs_rule_needs_optimizer(&s->rule, e));
    TRY(tug_kvstore_wait(s));
    int rc = buf_add(&b, &h, sizeof(h)) != 0 ? err_nomem(e, "states of an optimizer") : 0;
    if (rc == 0)
        rc = s->dist ? states_gather(s, &b, e) : own_states(s, &b, e);
    if (rc == 0)
        rc = states_write_file(file, &b, e);
    buf_free(&b);
    return rc;
}

static int check_file(const struct buf *b, uint64_t servers, struct err *e)
{
    struct states_head h;
    uint64_t sum;
    if (b->len < sizeof(h) + sizeof(sum))
        return err_set(e, TUG_EDATA, "it is too short for states of an optimizer");
    memcpy(&h, b->data, sizeof(h));
    memcpy(&sum, b->data + b->len - sizeof(sum), sizeof(sum));
    if (memcmp(h.magic, magic, sizeof(magic)) != 0)
        return err_set(e, TUG_EDATA, "it does not hold states of an optimizer");
    if (sum != hash_bytes(b->data, b->len - sizeof(sum), 0))
        return err_set(e, TUG_EDATA, "it is damaged: its checksum does not match");
    if (h.servers != servers)
        return err_set(e, TUG_EUSAGE,
                       "it was saved with %llu server%s, but this store has %llu: start "
                       "the same number",
                       (unsigned long long)h.servers, h.servers == 1 ? "" : "s",
                       (unsigned long long)servers);
    return 0;
}

// Reads the next block of a file.
static int next_block(const char **at, const char *end, const char **ret, uint64_t *ret_n,
                      struct err *e)
{
    if ((size_t)(end - *at) < sizeof(*ret_n))
        return err_set(e, TUG_EDATA, "it is truncated");
    memcpy(ret_n, *at, sizeof(*ret_n));
    *at += sizeof(*ret_n);
    if (*ret_n > (size_t)(end - *at))
        return err_set(e, TUG_EDATA, "it is truncated");
    *ret = *at;
    *at += *ret_n;
    return 0;
}

// Makes each server check or load its states. Without a cluster, this process checks or
// loads them.
static int give_states(struct tug_kvstore *s, const struct buf *b, enum kvs_ask what,
                       struct err *e)
{
    const char *at = b->data + sizeof(struct states_head), *block;
    const char *end = b->data + b->len - sizeof(uint64_t);
    uint64_t n;
    TRY(check_file(b, s->dist ? s->servers : 1, e));
    for (uint32_t i = 0; i < (s->dist ? s->servers : 1); i++) {
        TRY(next_block(&at, end, &block, &n, e));
        TRY(s->dist ? kvs_dist_tell(s, what, (int)i, block, n)
                    : kvs_values_read_states(&s->values, &s->rule, block, n,
                                             what == KVS_LOAD, e));
    }
    return 0;
}

int tug_kvstore_load_states(struct tug_kvstore *s, const char *file)
{
    struct err *e = last_error();
    struct buf b = BUF_INIT(STATES_MAX_BYTES);
    if (!s->dist)
        TRY(kvs_rule_needs_optimizer(&s->rule, e));
    TRY(tug_kvstore_wait(s));
    int rc = file_read(file, &b, e);
    // All servers check their states before the first one loads, so that a wrong file
    // changes nothing.
    if (rc == 0 &&
        (give_states(s, &b, KVS_CHECK, e) != 0 || give_states(s, &b, KVS_LOAD, e) != 0))
        rc = err_wrap(e, "states in '%s'", file);
    buf_free(&b);
    return rc;
}
