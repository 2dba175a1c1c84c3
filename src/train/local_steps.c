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
    *s = (struct local_steps){.rows = l, .n_places = l->n_links};
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
    struct store_arrival *larger = mem_array(2 * cap, sizeof(*larger));
    if (larger == NULL)
        return TUG_ENOMEM;
    if (s->n > 0)
        memcpy(larger, s->arrivals, s->n * sizeof(*larger));
    mem_free(s->arrivals);
    s->arrivals = larger;
    s->sorted = larger + cap;
    s->cap = cap;
    return 0;
}

// A place that was another batch's says so: the key there is another, or there is none.
static inline struct store_arrival *arrival_of(struct local_steps *s, uint32_t id)
{
    uint32_t place = s->places[id];
    if (place < s->n && s->arrivals[place].id == id)
        return &s->arrivals[place];
    place = (uint32_t)s->n++;
    s->places[id] = place;
    s->arrivals[place] = (struct store_arrival){.id = id};
    return &s->arrivals[place];
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
            struct store_arrival *a = arrival_of(s, b->id[j]);
            a->show += 1;
            a->click += click;
            a->slot = b->slot[j];
        }
    }
    return 0;
}

static void sort(struct local_steps *s)
{
    const struct local_link *links = s->rows->links;
    uint32_t parts = n_parts(s->rows), sum = 0;
    memset(s->begins, 0, (parts + 1) * sizeof(*s->begins));
    for (size_t i = 0; i < s->n; i++) {
        if (i + AHEAD < s->n)
            __builtin_prefetch(&links[s->arrivals[i + AHEAD].id], 1);
        s->begins[links[s->arrivals[i].id].partition]++;
    }
    for (uint32_t p = 0; p <= parts; p++) {
        uint32_t n = s->begins[p];
        s->begins[p] = sum;
        sum += n;
    }
    for (size_t i = 0; i < s->n; i++)
        s->sorted[s->begins[links[s->arrivals[i].id].partition]++] = s->arrivals[i];
    // Each begin is where the next partition's was.
    memmove(s->begins + 1, s->begins, parts * sizeof(*s->begins));
    s->begins[0] = 0;
}

// What there is of a partition's keys, as of now.
static void read_links(const struct local_rows *l, struct store_arrival *a, size_t n)
{
    struct table_slabs keys = table_slabs(l->ids);
    for (size_t i = 0; i < n; i++) {
        struct local_link *x = &l->links[a[i].id];
        uint32_t handle = atomic_load_explicit(&x->handle, memory_order_relaxed);
        a[i].extra = atomic_load_explicit(&x->extra, memory_order_relaxed);
        a[i].handle = handle < TABLE_MAX_ROWS ? handle : TABLE_NONE;
        if (a[i].handle == TABLE_NONE)
            a[i].key = table_row_key(table_row(keys, a[i].id));
    }
}

static void write_links(const struct local_rows *l, const struct store_arrival *a,
                        size_t n, bool refused)
{
    for (size_t i = 0; i < n; i++) {
        struct local_link *x = &l->links[a[i].id];
        uint32_t handle = a[i].handle == TABLE_NONE && refused ? LOCAL_REFUSED
                                                               : a[i].handle;
        atomic_store_explicit(&x->extra, a[i].extra, memory_order_release);
        atomic_store_explicit(&x->handle, handle, memory_order_release);
    }
}

static int arrive_at(struct local_steps *s, uint32_t partition)
{
    struct local_rows *l = s->rows;
    struct store_arrival *a = s->sorted + s->begins[partition];
    size_t n = s->begins[partition + 1] - s->begins[partition];
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

// The row of an id, and its extra row or NULL. False: there is none.
static inline bool find_row(const struct local_rows *l, const struct hot_copies *hot,
                            uint32_t id, float **ret_row, float **ret_extra,
                            uint32_t *ret_handle)
{
    const struct local_link *x = &l->links[id];
    uint32_t number = hot != NULL ? hot_number(hot, id) : HOT_NONE;
    if (number != HOT_NONE) {
        *ret_row = hot_first(hot, number);
        *ret_extra = hot_second(hot, number);
        if (*ret_extra != NULL || l->views.extras.slab == NULL)
            return true;
    }
    uint32_t handle = atomic_load_explicit(&x->handle, memory_order_acquire), extra;
    *ret_handle = handle;
    if (handle >= TABLE_MAX_ROWS)
        return false;
    if (number == HOT_NONE)
        *ret_row = table_row(l->views.rows, handle);
    extra = atomic_load_explicit(&x->extra, memory_order_acquire);
    *ret_extra = extra == TABLE_NONE ? NULL : table_row(l->views.extras, extra);
    return true;
}

// A key without a row, which is noted unless that is its last word.
static inline void leave_out(struct local_steps *s, uint32_t id, uint32_t handle,
                             float slot)
{
    if (handle == LOCAL_REFUSED || !s->again)
        return;
    struct store_arrival *a = arrival_of(s, id);
    a->show += 1;
    a->slot = slot;
}

struct taken {
    uint32_t n, latent;
};

// Feature j has a row: it moves to its place among those that are kept.
static inline void keep(struct local_steps *s, struct view *v, size_t j, float *row,
                        float *extra, struct taken *at)
{
    v->rows[at->n] = row;
    v->x[at->n++] = v->x[j];
    if (extra == NULL)
        return;
    s->latent_rows[at->latent] = extra;
    s->latent_u[at->latent] = v->u[j];
    s->latent_slot[at->latent++] = v->batch.slot[j];
}

static void prefetch_rows(const struct local_steps *s, const float *row,
                          const float *extra)
{
    const struct accessor *a = &s->rows->model.accessor;
    table_row_prefetch(row, a->width * sizeof(float));
    if (extra != NULL)
        table_row_prefetch(extra, a->extra_width * sizeof(float));
}

int local_steps_take(struct local_steps *s, struct view *v, const struct dataset *d,
                     const uint64_t *order, size_t n, const struct hot_copies *hot)
{
    const struct local_rows *l = s->rows;
    struct batch *b = &v->batch;
    struct taken at = {0};
    TRY(dataset_gather(d, order, n, b));
    TRY(view_values(v, &l->model));
    TRY(reserve_latent(s, b->n, b->nnz));
    TRY(reserve(s, b->nnz));
    for (size_t i = 0, j = 0; i < b->n; i++) {
        uint32_t end = b->start[i + 1];
        s->latent_start[i] = at.latent;
        b->start[i] = at.n;
        for (; j < end; j++) {
            float *row, *extra;
            uint32_t handle;
            if (j + AHEAD < b->nnz)
                __builtin_prefetch(&l->links[b->id[j + AHEAD]]);
            if (!find_row(l, hot, b->id[j], &row, &extra, &handle)) {
                leave_out(s, b->id[j], handle, b->slot[j]);
                continue;
            }
            prefetch_rows(s, row, extra);
            keep(s, v, j, row, extra, &at);
        }
    }
    b->start[b->n] = at.n;
    s->latent_start[b->n] = at.latent;
    for (size_t k = 0; k < KERNEL_PADDING; k++) { // read and never used
        v->rows[at.n + k] = l->zeros;
        s->latent_rows[at.latent + k] = l->zeros;
    }
    return 0;
}

struct model_batch local_steps_batch(const struct local_steps *s, const struct view *v)
{
    struct model_batch b = view_batch(v);
    if (s->rows->views.extras.slab != NULL)
        b.latent = (struct model_latent){.start = s->latent_start,
                                         .rows = s->latent_rows,
                                         .u = s->latent_u,
                                         .slot = s->latent_slot};
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
    uint32_t ignored;
    return find_row(l, NULL, id, &ret[0], &ret[1], &ignored);
}
