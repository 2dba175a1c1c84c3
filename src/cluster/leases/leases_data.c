// The data as the workers describe it: the first description is kept, the others are
// compared with it.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "cluster/leases/leases_internal.h"

void leases_free_files(struct file *files, uint32_t n)
{
    for (uint32_t i = 0; i < n && files != NULL; i++) {
        mem_free(files[i].name);
        mem_free(files[i].p);
    }
    mem_free(files);
}

static char *copy_text(struct wire_text t)
{
    char *copy = mem_alloc(t.n + 1);
    if (copy == NULL)
        return NULL;
    if (t.n > 0)
        memcpy(copy, t.data, t.n);
    copy[t.n] = 0;
    return copy;
}

static int count_files(struct wire_text list, uint32_t *ret, struct err *e)
{
    struct wire_data_file f;
    uint64_t pieces = 0;
    int more;
    for (*ret = 0; (more = wire_next_data_file(&list, &f)) == 1; ++*ret) {
        if (f.pieces == LEASES_UNKNOWN)
            continue;
        pieces += f.pieces;
        if (f.pieces > LEASES_MAX_PIECES || pieces > LEASES_MAX_PIECES)
            return err_set(e, TUG_EUSAGE,
                           "the data has more than %d pieces; make them larger",
                           LEASES_MAX_PIECES);
    }
    if (more != 0)
        return err_set(e, TUG_EDATA, "the description of the data is damaged");
    return 0;
}

static int fill_file(struct file *to, const struct wire_data_file *f)
{
    *to = (struct file){
        .bytes = f->bytes,
        .hash = f->hash,
        .pieces = f->pieces,
        .count = f->pieces,
        .compressed = f->compressed != 0,
        .name = copy_text(f->name),
    };
    if (to->name == NULL)
        return TUG_ENOMEM;
    if (f->pieces == LEASES_UNKNOWN || f->pieces == 0)
        return 0;
    to->p = mem_array(f->pieces, sizeof(*to->p));
    if (to->p == NULL)
        return TUG_ENOMEM;
    to->made = to->cap = f->pieces;
    for (uint64_t i = 0; i < to->made; i++)
        to->p[i] = (struct piece){.had = LEASES_NOBODY};
    return 0;
}

static bool same_schema(const struct leases *l, struct wire_text schema)
{
    return l->schema.len == schema.n &&
           (schema.n == 0 || memcmp(l->schema.data, schema.data, schema.n) == 0);
}

static int believe_schema(struct leases *l, const char *who, struct wire_text schema,
                          struct err *e)
{
    if (l->schema.len > 0 && !same_schema(l, schema))
        return err_set(e, TUG_EUSAGE,
                       "%s reads the data differently from the saved model with which "
                       "the run begins",
                       who);
    if (l->schema.len > 0 || schema.n == 0)
        return 0;
    return buf_add(&l->schema, schema.data, schema.n) == 0 ? 0 : err_nomem(e, "a schema");
}

int leases_schema(struct leases *l, const struct msg_schema *m, struct err *e)
{
    if (l->schema_told)
        return 0; // the member has repeated the same message
    TRY(believe_schema(l, "the driver", m->schema, e));
    if (l->options.len == 0 && buf_add(&l->options, m->options.data, m->options.n) != 0)
        return err_nomem(e, "the options of a run");
    l->schema_told = true;
    leases_changed_all(l);
    return 0;
}

// Returns the number of files of --data, without the buckets.
static uint32_t told_to_train(const struct leases *l)
{
    return leases_trained(l) - (l->buckets != 0);
}

int leases_data_is(const struct leases *l, const struct msg_data_wanted *m,
                   struct msg_data_is *ret, struct buf *to)
{
    *ret = (struct msg_data_is){
        .told = l->schema_told,
        .known = l->have_data,
        .schema = {l->schema.data, (uint32_t)l->schema.len},
    };
    for (uint32_t i = 0; i < told_to_train(l) && m->files != 0; i++) {
        const struct file *f = &l->files[i];
        struct wire_data_file record = {.bytes = f->bytes,
                                        .hash = f->hash,
                                        .pieces = LEASES_UNKNOWN,
                                        .compressed = f->compressed,
                                        .name = wire_text(f->name)};
        TRY(wire_put_data_file(to, &record));
    }
    ret->files = (struct wire_text){to->data, (uint32_t)to->len};
    if (m->files == 0)
        ret->options = (struct wire_text){l->options.data, (uint32_t)l->options.len};
    return 0;
}

static int believe(struct leases *l, const char *who, const struct msg_data *m,
                   uint32_t n, struct err *e)
{
    struct wire_text list = m->files;
    struct wire_data_file buckets = {.pieces = m->buckets, .name = wire_text("buckets")};
    TRY(believe_schema(l, who, m->schema, e));
    struct file *files = mem_zalloc(((size_t)n + 1) * sizeof(*files));
    char *told_by = mem_strdup(who);
    int rc = files != NULL && told_by != NULL ? 0 : TUG_ENOMEM;
    // indices of the first file of --valid and of --test
    uint32_t valid = n - m->valid - m->test, test = n - m->test;
    for (uint32_t i = 0, at = 0; i < n && rc == 0; i++, at++) {
        struct wire_data_file f;
        if (i == valid)
            at += m->buckets != 0; // the buckets take one place, between the files to
                                   // train on and those to score
        rc = wire_next_data_file(&list, &f) == 1 ? fill_file(&files[at], &f) : TUG_EDATA;
        files[at].use = i < valid ? FILE_TRAIN : i < test ? FILE_VALID : FILE_TEST;
    }
    if (rc == 0 && m->buckets != 0)
        rc = fill_file(&files[valid], &buckets);
    if (rc != 0) {
        leases_free_files(files, n + 1);
        mem_free(told_by);
        return err_nomem(e, "the list of files");
    }
    l->files = files;
    l->n_files = n + (m->buckets != 0);
    l->scored = m->valid + m->test;
    l->valid = m->valid;
    l->buckets = m->buckets;
    mem_free(l->told_by); // after a restart with a journal, told_by is empty but not NULL
    l->told_by = told_by;
    l->piece_bytes = m->piece_bytes;
    l->have_data = true;
    leases_changed_all(l);
    return 0;
}

static int compare_file(const struct leases *l, const char *who, const struct file *a,
                        const struct wire_data_file *b, struct err *e)
{
    const char *how = NULL;
    if (a->hash != b->hash)
        how = "their sizes are equal, but their contents differ";
    else if (a->compressed != (b->compressed != 0) || a->pieces != b->pieces)
        how = "they are cut into different pieces";
    if (a->bytes != b->bytes)
        return err_set(e, TUG_EDATA,
                       "'%.*s' on %s differs from '%s' on %s: it has %" PRIu64
                       " bytes, not %" PRIu64 "; all workers must read the same data",
                       (int)b->name.n, b->name.n > 0 ? b->name.data : "", who, a->name,
                       l->told_by, b->bytes, a->bytes);
    if (how == NULL)
        return 0;
    return err_set(
        e, TUG_EDATA,
        "'%.*s' on %s differs from '%s' on %s: %s; all workers must read the same data",
        (int)b->name.n, b->name.n > 0 ? b->name.data : "", who, a->name, l->told_by, how);
}

static int leases_data_compare(const struct leases *l, const char *who,
                               const struct msg_data *m, uint32_t n, struct err *e)
{
    uint32_t n_files = l->n_files - (l->buckets != 0), trained = told_to_train(l);
    struct wire_text list = m->files;
    struct wire_data_file f;
    for (uint32_t i = 0; i < n && i < n_files; i++)
        if (wire_next_data_file(&list, &f) == 1)
            TRY(compare_file(l, who, &l->files[i < trained ? i : i + (l->buckets != 0)],
                             &f, e));
    if (n != n_files)
        return err_set(
            e, TUG_EDATA,
            "%s sees %u file%s, but %s sees %u; all workers must read the same data", who,
            n, n == 1 ? "" : "s", l->told_by, n_files);
    if (!same_schema(l, m->schema))
        return err_set(e, TUG_EUSAGE,
                       "%s and %s read the data in different ways: their columns differ, "
                       "or the options that say what is in them",
                       who, l->told_by);
    if (m->piece_bytes != l->piece_bytes || m->buckets != l->buckets ||
        m->valid != l->valid || m->valid + m->test != l->scored)
        return err_set(e, TUG_EUSAGE,
                       "%s cuts the data into other pieces than %s; all workers of a "
                       "run need the same options, and the same version of tug",
                       who, l->told_by);
    return 0;
}

uint64_t leases_data_id(const struct leases *l)
{
    uint64_t id = mix64(l->piece_bytes) ^ leases_trained(l) ^ (uint64_t)l->buckets << 32;
    for (uint32_t i = 0; i < leases_trained(l); i++) {
        const struct file *f = &l->files[i];
        id = mix64(mix64(mix64(id ^ f->bytes) ^ f->hash) ^ f->compressed);
    }
    return !l->have_data ? 0 : id != 0 ? id : 1;
}

int leases_check_data(const struct leases *l, const struct msg_pass *m, struct err *e)
{
    if (!l->have_data || m->data == 0 || m->data == leases_data_id(l))
        return 0;
    return err_set(e, TUG_EDATA,
                   "--data is not the data of pass %" PRIu64
                   ", in the middle of which the run was saved: give the same files and "
                   "the same --shuffle, or use "
                   "--init-from to start a new run from the saved model",
                   m->pass);
}

int leases_data(struct leases *l, const char *who, const struct msg_data *m,
                struct err *e)
{
    uint32_t n;
    TRY(count_files(m->files, &n, e));
    if (m->valid > n || m->test > n - m->valid)
        return err_set(e, TUG_EDATA,
                       "the data has %u files, too few for %u of --valid and %u "
                       "of --test",
                       n, m->valid, m->test);
    if (m->buckets > LEASES_MAX_PIECES)
        return err_set(e, TUG_EUSAGE, "%u buckets are too many; at most %d are possible",
                       m->buckets, LEASES_MAX_PIECES);
    TRY(l->have_data ? leases_data_compare(l, who, m, n, e) : believe(l, who, m, n, e));
    return leases_check_data(l, &l->pass, e);
}
