// From a batch's examples to rows that live; see local_steps.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/local_steps.h"

#include <string.h>

#include "base/alloc.h"

enum { AHEAD = 16 }; // features whose links are on their way into cache

static uint32_t n_parts(const struct local_rows *l)
{
    return 1u << model_table(&l->model).partition_bits;
}

int local_steps_open(struct local_steps *s, struct local_rows *l)
{
    *s = (struct local_steps){.rows = l, .n_places = l->links.n};
    s->places = mem_zalloc((s->n_places + 1) * sizeof(*s->places));
    s->begins = mem_array(n_parts(l) + 1, sizeof(*s->begins));
    int rc = s->places != NULL && s->begins != NULL ? 0 : TUG_ENOMEM;
    if (rc == 0)
        rc = store_stepper_open(&s->stepper, l->steps, NULL);
    if (rc != 0)
        local_steps_close(s);
    return rc;
}

void local_steps_close(struct local_steps *s)
{
    store_stepper_close(s->stepper);
    mem_free(s->arrivals);
    mem_free(s->places);
    mem_free(s->begins);
    mem_free(s->latent_rows);
    mem_free(s->latent_u);
    mem_free(s->latent_slot);
    mem_free(s->latent_start);
    batch_free(&s->batch);
    *s = (struct local_steps){0};
}

// Arrivals.

void local_steps_begin(struct local_steps *s, bool again, uint64_t step)
{
    s->again = again;
    s->step = step;
    s->n = 0;
    store_stepper_pin(s->stepper);
}

int local_steps_end(struct local_steps *s)
{
    int rc = s->n > 0 ? local_steps_arrive(s) : 0;
    store_stepper_unpin(s->stepper);
    return rc;
}

// Of examples that were counted before rows note the time of the push, if that decides
// when they go.
bool local_steps_count(const struct local_steps *s)
{
    return !s->again || store_config(s->rows->sparse)->count_all ||
           s->rows->model.accessor.life.ttl_steps > 0;
}

// Both lists are in one piece of memory.
static int reserve(struct local_steps *s, size_t more)
{
    if (s->n + more <= s->cap)
        return 0;
    size_t cap = s->n + more + s->cap / 2 + 1024;
    struct store_arrival *larger = mem_array(cap, sizeof(*larger) + sizeof(*s->counts));
    if (larger == NULL)
        return TUG_ENOMEM;
    struct local_count *counts = (struct local_count *)(void *)(larger + cap);
    if (s->n > 0)
        memcpy(counts, s->counts, s->n * sizeof(*counts));
    mem_free(s->arrivals);
    s->arrivals = larger;
    s->counts = counts;
    s->cap = cap;
    return 0;
}

// A place that was another batch's says so: the key there is another, or there is none.
static inline struct local_count *count_of(struct local_steps *s, uint32_t id)
{
    uint32_t place = s->places[id];
    if (place < s->n && s->counts[place].id == id)
        return &s->counts[place];
    place = (uint32_t)s->n++;
    s->places[id] = place;
    s->counts[place] = (struct local_count){.id = id};
    return &s->counts[place];
}

int local_steps_add(struct local_steps *s, const struct dataset *d, const uint64_t *order,
                    size_t n)
{
    struct batch *b = &s->batch;
    TRY(dataset_gather(d, order, n, b));
    TRY(reserve(s, b->nnz));
    for (size_t i = 0; i < b->n; i++) {
        float click = b->label[i] > 0 ? 1.0f : 0.0f;
        for (uint32_t j = b->start[i]; j < b->start[i + 1]; j++) {
            if (j + AHEAD < b->nnz)
                __builtin_prefetch(&s->places[b->id[j + AHEAD]]);
            struct local_count *x = count_of(s, b->id[j]);
            x->show += 1;
            x->click += click;
            x->slot = b->slot[j];
        }
    }
    return 0;
}

// Counts become arrivals, by partition. What is looked at next of a key is on its way.
static void sort(struct local_steps *s)
{
    const struct local_links *l = &s->rows->links;
    uint32_t parts = n_parts(s->rows), sum = 0;
    memset(s->begins, 0, (parts + 1) * sizeof(*s->begins));
    for (size_t i = 0; i < s->n; i++) {
        if (i + AHEAD < s->n)
            __builtin_prefetch(&l->partition[s->counts[i + AHEAD].id]);
        s->begins[l->partition[s->counts[i].id]]++;
    }
    for (uint32_t p = 0; p <= parts; p++) {
        uint32_t n = s->begins[p];
        s->begins[p] = sum;
        sum += n;
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct local_count *x = &s->counts[i];
        s->arrivals[s->begins[l->partition[x->id]]++] = (struct store_arrival){
            .id = x->id, .show = x->show, .click = x->click, .slot = x->slot};
    }
    // Each begin is where the next partition's was.
    memmove(s->begins + 1, s->begins, parts * sizeof(*s->begins));
    s->begins[0] = 0;
}

// The rows of the keys that come after: a hint, for handles are not read yet.
static void prefetch(const struct local_rows *l, const struct store_arrival *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = atomic_load_explicit(&l->links.handle[a[i].id],
                                               memory_order_acquire);
        if (handle < TABLE_MAX_ROWS)
            table_row_prefetch(table_row(l->views.rows, handle),
                               l->model.accessor.width * sizeof(float));
    }
}

// What there is of a partition's keys, as of now.
static void read_links(const struct local_rows *l, struct store_arrival *a, size_t n)
{
    struct table_slabs keys = table_slabs(l->ids);
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = atomic_load_explicit(&l->links.handle[a[i].id],
                                               memory_order_relaxed);
        a[i].extra = local_extra(&l->links, a[i].id);
        a[i].handle = handle < TABLE_MAX_ROWS ? handle : TABLE_NONE;
        if (a[i].handle == TABLE_NONE)
            a[i].key = table_row_key(table_row(keys, a[i].id));
    }
}

static void write_links(const struct local_rows *l, const struct store_arrival *a,
                        size_t n, bool refused)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = a[i].handle == TABLE_NONE && refused ? LOCAL_REFUSED
                                                               : a[i].handle;
        local_link(&l->links, a[i].id, handle, a[i].extra);
    }
}

static int arrive_at(struct local_steps *s, uint32_t partition)
{
    struct local_rows *l = s->rows;
    struct store_arrival *a = s->arrivals + s->begins[partition];
    size_t n = s->begins[partition + 1] - s->begins[partition];
    if (partition + 1 < n_parts(l))
        prefetch(l, a + n, s->begins[partition + 2] - s->begins[partition + 1]);
    struct store_arriving w = {partition, s->step, s->again};
    if (n == 0)
        return 0;
    store_steps_lock(l->steps, partition);
    read_links(l, a, n);
    int rc = store_arrive(s->stepper, &w, a, n, NULL);
    // What is counted once does not change a policy's mind in later passes.
    write_links(l, a, n, rc == 0 && s->again && !store_config(l->sparse)->count_all);
    store_arrived(s->stepper, partition);
    store_steps_unlock(l->steps, partition);
    return rc;
}

int local_steps_arrive(struct local_steps *s)
{
    int rc = 0;
    uint32_t parts = n_parts(s->rows);
    sort(s);
    for (uint32_t p = 0; p < parts; p++) {
        int one = arrive_at(s, p);
        rc = rc == 0 ? one : rc;
    }
    s->n = 0;
    return rc;
}

// Views.

static int reserve_latent(struct local_steps *s, size_t n, size_t features)
{
    size_t cap = features + KERNEL_PADDING;
    if (cap > s->cap_latent) {
        cap += cap / 2;
        mem_free(s->latent_rows);
        mem_free(s->latent_u);
        mem_free(s->latent_slot);
        s->latent_rows = mem_array(cap, sizeof(*s->latent_rows));
        s->latent_u = mem_array(cap, sizeof(*s->latent_u));
        s->latent_slot = mem_array(cap, sizeof(*s->latent_slot));
        bool ok = s->latent_rows != NULL && s->latent_u != NULL && s->latent_slot != NULL;
        s->cap_latent = ok ? cap : 0;
        if (!ok)
            return TUG_ENOMEM;
    }
    if (n + 1 <= s->cap_examples)
        return 0;
    mem_free(s->latent_start);
    s->latent_start = mem_array(2 * n + 1, sizeof(*s->latent_start));
    s->cap_examples = s->latent_start != NULL ? 2 * n + 1 : 0;
    return s->latent_start != NULL ? 0 : TUG_ENOMEM;
}

// A key without a row, which is noted unless that is its last word.
static void leave_out(struct local_steps *s, uint32_t id, uint32_t handle, float slot)
{
    if (handle == LOCAL_REFUSED || !s->again)
        return;
    struct local_count *x = count_of(s, id);
    x->show += 1;
    x->slot = slot;
}

// The row of each feature, or NULL; returns how many have none.
static size_t find_rows(struct local_steps *s, struct view *v,
                        const struct hot_copies *hot)
{
    const struct local_rows *l = s->rows;
    const _Atomic uint32_t *handles = l->links.handle;
    const struct table_slabs slabs = l->views.rows;
    const struct batch *b = &v->batch;
    const size_t nnz = b->nnz, bytes = l->model.accessor.width * sizeof(float);
    size_t missing = 0;
    for (size_t j = 0; j < nnz; j++) {
        if (j + AHEAD < nnz)
            __builtin_prefetch((const void *)&handles[b->id[j + AHEAD]]);
        float *row = hot != NULL ? hot_row(hot, b->id[j]) : NULL;
        if (row == NULL) {
            uint32_t handle = atomic_load_explicit(&handles[b->id[j]],
                                                   memory_order_acquire);
            if (handle < TABLE_MAX_ROWS) {
                row = table_row(slabs, handle);
                table_row_prefetch(row, bytes);
            } else {
                leave_out(s, b->id[j], handle, b->slot[j]);
                missing++;
            }
        }
        v->rows[j] = row;
    }
    return missing;
}

// The same of extra rows; none without a row.
static size_t find_extras(struct local_steps *s, const struct view *v,
                          const struct hot_copies *hot)
{
    const struct local_rows *l = s->rows;
    const _Atomic uint32_t *extras = l->links.extra;
    const struct table_slabs slabs = l->views.extras;
    const struct batch *b = &v->batch;
    const size_t nnz = b->nnz, bytes = l->model.accessor.extra_width * sizeof(float);
    size_t missing = 0;
    for (size_t j = 0; j < nnz; j++) {
        if (j + AHEAD < nnz)
            __builtin_prefetch((const void *)&extras[b->id[j + AHEAD]]);
        uint32_t number = hot != NULL ? hot_number(hot, b->id[j]) : HOT_NONE;
        float *extra = number != HOT_NONE ? hot_second(hot, number) : NULL;
        uint32_t handle = extra != NULL || v->rows[j] == NULL
                              ? TABLE_NONE
                              : atomic_load_explicit(&extras[b->id[j]],
                                                     memory_order_acquire);
        if (handle != TABLE_NONE) {
            extra = table_row(slabs, handle);
            table_row_prefetch(extra, bytes);
        }
        missing += extra == NULL;
        s->latent_rows[j] = extra;
    }
    return missing;
}

// Leaves out features without an extra row.
static void pack_latent(struct local_steps *s, const struct view *v)
{
    const struct batch *b = &v->batch;
    uint32_t to = 0;
    for (size_t i = 0; i < b->n; i++) {
        s->latent_start[i] = to;
        for (uint32_t j = b->start[i]; j < b->start[i + 1]; j++) {
            if (s->latent_rows[j] == NULL)
                continue;
            s->latent_rows[to] = s->latent_rows[j];
            s->latent_u[to] = v->u[j];
            s->latent_slot[to++] = b->slot[j];
        }
    }
    s->latent_start[b->n] = to;
    s->latent = (struct model_latent){.start = s->latent_start,
                                      .rows = s->latent_rows,
                                      .u = s->latent_u,
                                      .slot = s->latent_slot};
}

// Leaves out features without a row; of those that are left, u and slot are the latent
// ones' business.
static void pack_rows(struct view *v)
{
    struct batch *b = &v->batch;
    uint32_t to = 0;
    for (size_t i = 0, j = 0; i < b->n; i++) {
        uint32_t end = b->start[i + 1];
        b->start[i] = to;
        for (; j < end; j++) {
            if (v->rows[j] == NULL)
                continue;
            v->rows[to] = v->rows[j];
            v->x[to++] = v->x[j];
        }
    }
    b->start[b->n] = to;
}

// Behind the last: read and never used.
static void pad(float **rows, size_t n, float *zeros)
{
    for (size_t k = 0; k < KERNEL_PADDING; k++)
        rows[n + k] = zeros;
}

int local_steps_take(struct local_steps *s, struct view *v, const struct dataset *d,
                     const uint64_t *order, size_t n, const struct hot_copies *hot)
{
    const struct local_rows *l = s->rows;
    struct batch *b = &v->batch;
    TRY(dataset_gather(d, order, n, b));
    TRY(view_values(v, &l->model));
    TRY(reserve_latent(s, b->n, b->nnz));
    TRY(reserve(s, b->nnz));
    size_t missing = find_rows(s, v, hot);
    s->latent = (struct model_latent){.start = NULL};
    if (l->links.extra != NULL) {
        s->latent = (struct model_latent){b->start, s->latent_rows, v->u, b->slot};
        if (find_extras(s, v, hot) > 0)
            pack_latent(s, v);
        pad(s->latent_rows, s->latent.start[b->n], l->zeros);
    }
    if (missing > 0)
        pack_rows(v);
    pad(v->rows, b->start[b->n], l->zeros);
    return 0;
}

struct model_batch local_steps_batch(const struct local_steps *s, const struct view *v)
{
    struct model_batch b = view_batch(v);
    b.latent = s->latent;
    return b;
}

// Copies of hot rows.

void local_steps_widths(const struct local_rows *l, uint32_t ret[HOT_PIECES])
{
    const struct accessor *a = &l->model.accessor;
    ret[0] = a->groups[0].state + a->groups[0].n_state;
    ret[1] = a->extra_width;
}

bool local_steps_may_copy(const struct local_rows *l)
{
    const struct accessor *a = &l->model.accessor;
    uint32_t widths[HOT_PIECES];
    local_steps_widths(l, widths);
    return store_config(l->sparse)->budget_rows == 0 && a->groups[0].weights == 0 &&
           a->stats >= widths[0];
}

bool local_steps_find_hot(const void *rows, uint32_t id, float *ret[HOT_PIECES])
{
    const struct local_rows *l = rows;
    uint32_t handle = atomic_load_explicit(&l->links.handle[id], memory_order_acquire),
             extra = local_extra(&l->links, id);
    if (handle >= TABLE_MAX_ROWS)
        return false;
    ret[0] = table_row(l->views.rows, handle);
    ret[1] = extra == TABLE_NONE ? NULL : table_row(l->views.extras, extra);
    return true;
}
