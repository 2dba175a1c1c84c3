// Errors of training on a cluster that diverged, in the user's terms: a worker knows the
// columns and lines of its data, while a push has only keys.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/finite.h"
#include "base/plural.h"
#include "data/source/origins.h"
#include "os/log.h"
#include "table/table.h"
#include "train/evaluate/diverged.h"
#include "train_cluster/remote.h"

// Finds the first example of the data with this key, and the key's slot. Returns false if
// there is none.
static bool find_example(const struct remote_worker *w, const struct dataset *d,
                         uint64_t key, uint64_t *ret_example, uint32_t *ret_slot)
{
    struct batch b = {0};
    struct table_slabs slabs = table_slabs(w->keys.table);
    bool found = false;
    for (uint64_t i = 0; i < dataset_size(d) && !found; i++) {
        if (dataset_gather(d, &i, 1, &b) != 0)
            // The example is found, but not its position: the error names the key only.
            break;
        for (size_t j = 0; j < b.nnz && !found; j++) {
            found = table_row_key(table_row(slabs, b.id[j])) == key;
            *ret_slot = b.slot[j];
        }
        *ret_example = i;
    }
    batch_free(&b);
    return found;
}

// Returns the slot of a key, and where the key is first in the data.
static uint32_t find_key(const struct remote_worker *w, const struct dataset *d,
                         uint64_t key, char where[ORIGIN_TEXT_MAX])
{
    uint32_t file = 0, slot = DIVERGED_NO_SLOT;
    uint64_t example, line = 0;
    where[0] = '\0';
    if (find_example(w, d, key, &example, &slot))
        dataset_where(d, example, &file, &line);
    if (line > 0 && w->pieces != NULL && file < pieces_files(w->pieces))
        origins_text(pieces_file_name(w->pieces, file), line, where);
    return slot;
}

static int name_key(const struct remote_worker *w, const struct dataset *d, uint64_t key,
                    const char *what, struct err *e)
{
    char where[ORIGIN_TEXT_MAX];
    uint32_t slot = find_key(w, d, key, where);
    return diverged_update(w->reader, slot, key, what, where, e);
}

// Finds the key of the largest |weight * x| of the batch. Returns false if the batch has
// no features.
static bool find_worst(const struct exchange *x, uint64_t *ret_key, double *ret_weight)
{
    const struct model_batch b = view_batch(&x->view);
    *ret_weight = -1;
    for (uint32_t j = b.start[0]; j < b.start[b.n]; j++)
        for (uint32_t g = 0; g < x->model.accessor.n_groups; g++) {
            const struct accessor_group *group = &x->model.accessor.groups[g];
            const float *row = x->values + (size_t)x->place[j] * x->width;
            for (uint32_t c = 0; c < group->n; c++) {
                double a = fabs((double)row[group->weights + c] * (double)b.x[j]);
                a = isfinite(a) ? a : (double)INFINITY;
                if (a <= *ret_weight)
                    continue;
                *ret_weight = a;
                *ret_key = x->key[x->place[j]];
            }
        }
    return *ret_weight >= 0;
}

int remote_diverged(struct remote_worker *w, const struct exchange *x,
                    const struct dataset *d, uint64_t pass, int rc, struct err *e)
{
    char what[100];
    uint64_t key = 0;
    double weight;
    if (w->bad_score && find_worst(x, &key, &weight)) {
        snprintf(what, sizeof(what),
                 "a score in pass %llu is not finite (largest weight %g, of",
                 (unsigned long long)pass, weight);
        return name_key(w, d, key, what, e);
    }
    if (rc != TUG_EUSAGE || w->bad_score)
        return rc;
    for (size_t i = 0; i < x->n; i++)
        if (!finite_floats(x->gradients + i * x->push_width, x->push_width))
            return name_key(w, d, x->key[i], "an update is not finite (of", e);
    return finite_floats(x->dense_gradient, x->dense_floats)
               ? rc
               : diverged_dense(&w->model, NULL, e);
}

int remote_name_key(const struct remote_worker *w, const struct dataset *d, int rc,
                    struct err *e)
{
    return rc != 0 && e != NULL && e->reason == REASON_NOT_FINITE
               ? name_key(w, d, e->about, "weights would not stay finite (those of", e)
               : rc;
}

void remote_tell_left_out(struct remote_worker *w, const struct dataset *d)
{
    char where[ORIGIN_TEXT_MAX];
    struct client_stats x = client_stats(w->remote.client);
    if (x.left_out == 0 || w->told_left_out)
        return;
    w->told_left_out = true;
    uint64_t key = x.left_out_key;
    if (x.left_out_table == EXCHANGE_SPARSE)
        diverged_left_out(w->reader, find_key(w, d, key, where), key, where);
}

void remote_count_left_out(const struct remote_worker *w)
{
    uint64_t n = client_stats(w->remote.client).left_out;
    if (n > 0)
        log_warn(
            "%llu push%s of this worker had updates that servers left out, because a "
            "state of "
            "their rule would become infinite: the model lacks them",
            (unsigned long long)n, PLURAL_ES(n));
}
