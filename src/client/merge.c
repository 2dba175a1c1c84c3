// Makes keys distinct in one pass. Its set of keys is as large as the batch, and fits the
// cache for usual batches.
//
// SPDX-License-Identifier: Apache-2.0
#include "client/merge.h"

#include <string.h>

#include "base/alloc.h"
#include "base/key_set.h"

struct client_merge {
    size_t n, distinct, room;
    uint64_t *keys;  // the distinct keys
    uint32_t *which; // the index in `keys` of each key of the batch
    struct key_set set;
};

int client_merge_open(struct client_merge **ret, struct err *e)
{
    *ret = mem_zalloc(sizeof(**ret));
    return *ret != NULL ? 0 : err_nomem(e, "a merger of keys");
}

void client_merge_close(struct client_merge *m)
{
    if (m == NULL)
        return;
    mem_free(m->keys);
    mem_free(m->which);
    key_set_fini(&m->set);
    mem_free(m);
}

static int merge_make_room(struct client_merge *m, size_t n, struct err *e)
{
    if (n < m->room)
        return 0;
    size_t room = n + n / 2 + 1;
    mem_free(m->keys);
    mem_free(m->which);
    m->keys = mem_array(room, sizeof(*m->keys));
    m->which = mem_array(room, sizeof(*m->which));
    bool good = m->keys != NULL && m->which != NULL &&
                key_set_reserve(&m->set, room) == 0;
    m->room = good ? room : 0;
    return good ? 0 : err_nomem(e, "the distinct keys of a batch");
}

int client_merge_keys(struct client_merge *m, const uint64_t *keys, size_t n,
                      const uint64_t **ret_keys, size_t *ret_n, struct err *e)
{
    m->n = m->distinct = 0;
    if (n >> 31 != 0)
        return err_set(e, TUG_EUSAGE, "a batch of %zu keys is too large", n);
    TRY(merge_make_room(m, n, e));
    m->distinct = key_set_number(&m->set, keys, n, m->keys, m->which);
    m->n = n;
    *ret_keys = m->keys;
    *ret_n = m->distinct;
    return 0;
}

void client_merge_add(const struct client_merge *m, const float *values, uint32_t width,
                      float *ret)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < m->n; i++, values += width) {
        float *to = ret + (size_t)m->which[i] * width;
        // The key's first occurrence: keys are numbered in the order of the batch.
        if (m->which[i] == seen) {
            memcpy(to, values, width * sizeof(float));
            seen++;
            continue;
        }
        for (uint32_t k = 0; k < width; k++)
            to[k] += values[k];
    }
}

void client_merge_last(const struct client_merge *m, const float *values, uint32_t width,
                       uint32_t first, float *ret)
{
    if (first >= width)
        return;
    for (size_t i = 0; i < m->n; i++, values += width)
        memcpy(ret + (size_t)m->which[i] * width + first, values + first,
               (width - first) * sizeof(float));
}

void client_merge_scatter(const struct client_merge *m, const float *rows, uint32_t width,
                          float *ret)
{
    for (size_t i = 0; i < m->n; i++, ret += width)
        memcpy(ret, rows + (size_t)m->which[i] * width, width * sizeof(float));
}
