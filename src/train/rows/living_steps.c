// Steps on rows with a feature lifecycle, by the examples of a batch; see living_steps.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/living_steps.h"

#include <string.h>

#include "base/alloc.h"
#include "train/rows/hogwild.h"
#include "train/rows/living_rows.h"

enum { AHEAD = 16 }; // links are prefetched this many features ahead

// The statistics of one key in a batch.
struct living_count {
    uint32_t id;
    uint32_t shows, clicks;
    uint32_t slot;
};

struct living_steps {
    struct living_rows *rows;
    struct store_stepper *stepper;
    bool again;    // the examples were counted in an earlier pass
    uint64_t step; // the table's global step at this batch
    // The distinct keys of the batch in the order in which they occur; `places` has the
    // index in this list for each id.
    struct living_count *counts;
    struct store_arrival *arrivals; // the keys of the batch, sorted by partition
    size_t n, cap;
    uint32_t *places;
    size_t n_places;
    // The index in `arrivals` of each partition's first key; begins[n_parts] is the end
    // of the last partition.
    uint32_t *begins;
    uint32_t n_parts;
    // The partition at which this worker begins its walk; other workers
    // begin at other partitions.
    uint32_t first_part;
    // The examples of the batch, unpacked once; those from `at` on are taken next.
    // n_order 0: each example is unpacked when it is taken.
    uint64_t *order;
    size_t n_order, at;
    struct batch batch;
    uint32_t *start; // batch.start of the examples that were taken
    // The features of the view that have an extra row. If all features have an extra row,
    // u, slot and start are those of the view.
    float **latent_rows;
    float *latent_u;
    uint16_t *latent_slot;
    uint32_t *latent_start;
    size_t cap_latent, cap_examples;
};

static int open_steps(struct living_steps *s, const struct worker *w)
{
    const struct run *r = w->run;
    struct living_rows *l = r->local.living;
    uint64_t positions = order_positions(&r->local.order);
    size_t batch = r->config->batch < positions ? r->config->batch : positions;
    *s = (struct living_steps){.rows = l,
                               .n_places = l->links.n,
                               .n_parts = 1u << model_table(&l->model).partition_bits};
    s->first_part = (uint32_t)((uint64_t)s->n_parts * (uint32_t)(w - r->local.workers) /
                               (uint32_t)team_size(r->team));
    s->places = mem_zalloc((s->n_places + 1) * sizeof(*s->places));
    s->begins = mem_array(s->n_parts + 1, sizeof(*s->begins));
    s->order = mem_array(batch + 1, sizeof(*s->order));
    s->start = mem_array(batch + 1, sizeof(*s->start));
    return s->places != NULL && s->begins != NULL && s->order != NULL && s->start != NULL
               ? store_stepper_open(&s->stepper, l->steps, NULL)
               : TUG_ENOMEM;
}

int living_steps_open(struct worker *w)
{
    w->steps = mem_zalloc(sizeof(*w->steps));
    int rc = w->steps != NULL ? open_steps(w->steps, w) : TUG_ENOMEM;
    if (rc != 0)
        living_steps_close(w);
    return rc;
}

void living_steps_close(struct worker *w)
{
    struct living_steps *s = w->steps;
    if (s == NULL)
        return;
    store_stepper_close(s->stepper);
    mem_free(s->arrivals);
    mem_free(s->places);
    mem_free(s->begins);
    mem_free(s->order);
    mem_free(s->start);
    mem_free(s->latent_rows);
    mem_free(s->latent_u);
    mem_free(s->latent_slot);
    mem_free(s->latent_start);
    batch_free(&s->batch);
    mem_free(s);
    w->steps = NULL;
}

// ----------------------------------------------------- bringing keys to their partitions

// Makes room for more keys in `arrivals` and `counts`, which lie in one allocation.
static int living_steps_reserve(struct living_steps *s, size_t more)
{
    if (s->n + more <= s->cap)
        return 0;
    size_t cap = s->n + more + s->cap / 2 + 1024;
    struct store_arrival *larger = mem_array(cap, sizeof(*larger) + sizeof(*s->counts));
    if (larger == NULL)
        return TUG_ENOMEM;
    struct living_count *counts = (struct living_count *)(void *)(larger + cap);
    if (s->n > 0)
        memcpy(counts, s->counts, s->n * sizeof(*counts));
    mem_free(s->arrivals);
    s->arrivals = larger;
    s->counts = counts;
    s->cap = cap;
    return 0;
}

// Counts an occurrence of a key. places[id] may be left over from an earlier batch: then
// the list of this batch is shorter, or has another id at that index.
static inline void count_key(struct living_steps *s, uint32_t id, uint32_t clicks,
                             uint32_t slot)
{
    uint32_t place = s->places[id];
    if (place >= s->n || s->counts[place].id != id) {
        s->places[id] = place = (uint32_t)s->n++;
        s->counts[place] = (struct living_count){.id = id};
    }
    struct living_count *x = &s->counts[place];
    x->shows++;
    x->clicks += clicks;
    x->slot = slot;
}

static void living_steps_count(struct living_steps *s)
{
    const struct batch *b = &s->batch;
    struct living_steps at = *s; // a local copy, so that its fields stay in registers
    for (size_t i = 0, j = 0; i < b->n; i++) {
        // clicks are counted by the first label
        uint32_t click = b->label[i * b->labels] > 0;
        for (size_t end = b->start[i + 1]; j < end; j++) {
            __builtin_prefetch(&at.places[b->id[j + AHEAD < b->nnz ? j + AHEAD : j]], 1);
            count_key(&at, b->id[j], click, b->slot[j]);
        }
    }
    s->n = at.n;
}

// Makes the list of arrivals, sorted by partition, from the counts. Prefetches the data
// of keys that is read next.
static void sort(struct living_steps *s)
{
    const struct living_links *l = &s->rows->links;
    uint32_t parts = s->n_parts, sum = 0;
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
        const struct living_count *x = &s->counts[i];
        __builtin_prefetch((const void *)&l->handle[x->id], 1);
        s->arrivals[s->begins[l->partition[x->id]]++] = (struct store_arrival){
            .id = x->id,
            .show = (float)x->shows,
            .click = (float)x->clicks,
            .slot = (float)x->slot};
    }
    // The counting has moved each `begins` to the begin of the next partition.
    memmove(s->begins + 1, s->begins, parts * sizeof(*s->begins));
    s->begins[0] = 0;
}

// Prefetches the rows of later keys. Their handles may still change, so this is only a
// hint.
static void prefetch(const struct living_rows *l, const struct store_arrival *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = atomic_load_explicit(&l->links.handle[a[i].id],
                                               memory_order_acquire);
        if (handle < TABLE_MAX_ROWS)
            table_row_prefetch(table_row(l->views.rows, handle),
                               l->model.accessor.width * sizeof(float));
    }
}

// Reads the current links of a partition's keys.
static void read_links(const struct living_rows *l, struct store_arrival *a, size_t n)
{
    struct table_slabs keys = table_slabs(l->ids);
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = atomic_load_explicit(&l->links.handle[a[i].id],
                                               memory_order_relaxed);
        a[i].extra = living_extra(&l->links, a[i].id);
        a[i].handle = handle < TABLE_MAX_ROWS ? handle : TABLE_NONE;
        if (a[i].handle == TABLE_NONE)
            a[i].key = table_row_key(table_row(keys, a[i].id));
    }
}

static void write_links(const struct living_rows *l, const struct store_arrival *a,
                        size_t n, bool refused)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = a[i].handle == TABLE_NONE && refused ? LIVING_REFUSED
                                                               : a[i].handle;
        // Only changes are written, because each write takes the cache line away from
        // other threads.
        if (handle !=
                atomic_load_explicit(&l->links.handle[a[i].id], memory_order_relaxed) ||
            a[i].extra != living_extra(&l->links, a[i].id))
            living_link(&l->links, a[i].id, handle, a[i].extra);
    }
}

static int arrive_at(struct living_steps *s, uint32_t partition)
{
    struct living_rows *l = s->rows;
    struct store_arrival *a = s->arrivals + s->begins[partition];
    size_t n = s->begins[partition + 1] - s->begins[partition];
    uint32_t next = (partition + 1) % s->n_parts;
    prefetch(l, s->arrivals + s->begins[next], s->begins[next + 1] - s->begins[next]);
    struct store_arriving w = {partition, s->step, s->again};
    if (n == 0)
        return 0;
    store_steps_lock(l->steps, partition);
    read_links(l, a, n);
    int rc = store_arrive(s->stepper, &w, a, n, NULL);
    // If all examples were counted in an earlier pass, a key that has no
    // row now never gets one.
    write_links(l, a, n, rc == 0 && s->again && !store_config(l->sparse)->count_all);
    store_arrived(s->stepper, partition);
    store_steps_unlock(l->steps, partition);
    return rc;
}

static int arrive(struct living_steps *s)
{
    int rc = 0;
    sort(s);
    for (uint32_t p = 0; p < s->n_parts; p++) {
        int one = arrive_at(s, (s->first_part + p) % s->n_parts);
        rc = rc == 0 ? one : rc;
    }
    s->n = 0;
    return rc;
}

// ---------------------------------------------------------- beginning and ending a batch

static void living_steps_begin(struct living_steps *s, bool again, uint64_t step)
{
    s->again = again;
    s->step = step;
    s->n = s->n_order = s->at = 0;
    store_stepper_pin(s->stepper);
}

// Ends a batch: the keys that were without a row arrive at their partitions. From now on,
// the memory of rows that the batch has read may be reused for other keys.
static int living_steps_end(struct living_steps *s, struct view *v)
{
    int rc = s->n > 0 ? arrive(s) : 0;
    store_stepper_unpin(s->stepper);
    if (s->at > 0) // the view uses arrays of this struct, and must not free them
        v->batch = (struct batch){0};
    return rc;
}

// Returns whether the examples of this batch must arrive. Examples that were
// counted in an earlier pass must arrive again if the time of a row's last push
// decides when the row is removed.
static bool examples_arrive(const struct living_steps *s)
{
    return !s->again || store_config(s->rows->sparse)->count_all ||
           s->rows->model.accessor.life.ttl_steps > 0;
}

static void living_steps_collect(struct worker *w, const uint64_t *order, size_t n)
{
    struct living_steps *s = w->steps;
    memcpy(s->order + s->n_order, order, n * sizeof(*order));
    s->n_order += n;
}

static int arrive_together(struct living_steps *s, const struct dataset *d)
{
    TRY(dataset_gather(d, s->order, s->n_order, &s->batch));
    TRY(living_steps_reserve(s, s->batch.nnz));
    living_steps_count(s);
    return arrive(s);
}

// Lets all examples of the batch arrive at their rows before the first step.
static void arrive_and_step(struct worker *w, size_t size, uint64_t number)
{
    struct living_steps *s = w->steps;
    hogwild_deal(w, HOGWILD_AHEAD, number, living_steps_collect);
    w->rc = arrive_together(s, w->run->data);
    for (size_t at = 0; at < s->n_order && w->rc == 0; at += size)
        hogwild_step(w, s->order + at, s->n_order - at < size ? s->n_order - at : size);
}

void living_steps_batch(struct worker *w, size_t size, uint64_t number)
{
    const struct run *r = w->run;
    uint64_t step = r->at.batches - r->at.batch + number;
    living_steps_begin(w->steps, r->at.epoch > 0, r->local.living->steps_before + step);
    if (examples_arrive(w->steps))
        arrive_and_step(w, size, number);
    else
        hogwild_batch(w, size, number);
    int rc = living_steps_end(w->steps, &w->view);
    w->rc = w->rc != 0 ? w->rc : rc;
}

// -------------------------------------------- filling the view with the rows of examples

static int reserve_latent(struct living_steps *s, size_t n, size_t features)
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

// Returns the row of a handle and prefetches it; NULL if the handle has no row.
static inline float *living_steps_row_of(struct table_slabs slabs, uint32_t handle,
                                         size_t bytes)
{
    if (handle >= TABLE_MAX_ROWS)
        return NULL;
    float *row = table_row(slabs, handle);
    table_row_prefetch(row, bytes);
    return row;
}

// Finds the row, or extra row, of each of n ids; NULL if it has none. Returns the number
// of ids without one.
static size_t living_steps_find(const _Atomic uint32_t *handles, struct table_slabs slabs,
                                size_t bytes, const uint32_t *ids, size_t n, float **ret)
{
    size_t missing = 0;
    for (size_t j = 0; j < n; j++) {
        __builtin_prefetch((const void *)&handles[ids[j + AHEAD < n ? j + AHEAD : j]]);
        ret[j] = living_steps_row_of(
            slabs, atomic_load_explicit(&handles[ids[j]], memory_order_acquire), bytes);
        missing += ret[j] == NULL;
    }
    return missing;
}

// Does what living_steps_find does, for a worker that has copies of some rows. Does not
// read the shared rows of which the worker has copies.
static size_t find_copies(const _Atomic uint32_t *handles, struct table_slabs slabs,
                          size_t bytes, const struct hot_copies *hot, bool second,
                          const uint32_t *ids, size_t n, float **ret)
{
    size_t missing = 0;
    for (size_t j = 0; j < n; j++) {
        uint32_t number = hot_number(hot, ids[j]);
        float *row = NULL;
        __builtin_prefetch((const void *)&handles[ids[j + AHEAD < n ? j + AHEAD : j]]);
        if (number != HOT_NONE)
            row = second ? hot_second(hot, number) : hot_first(hot, number);
        if (row == NULL)
            row = living_steps_row_of(
                slabs, atomic_load_explicit(&handles[ids[j]], memory_order_acquire),
                bytes);
        ret[j] = row;
        missing += row == NULL;
    }
    return missing;
}

static size_t find_rows(const struct living_rows *l, struct view *v,
                        const struct hot_copies *hot)
{
    const struct batch *b = &v->batch;
    size_t bytes = l->model.accessor.width * sizeof(float);
    if (hot == NULL)
        return living_steps_find(l->links.handle, l->views.rows, bytes, b->id, b->nnz,
                                 v->rows);
    return find_copies(l->links.handle, l->views.rows, bytes, hot, false, b->id, b->nnz,
                       v->rows);
}

static size_t find_extras(struct living_steps *s, const struct view *v,
                          const struct hot_copies *hot)
{
    const struct living_rows *l = s->rows;
    const struct batch *b = &v->batch;
    size_t bytes = l->model.accessor.extra_width * sizeof(float);
    if (hot == NULL)
        return living_steps_find(l->links.extra, l->views.extras, bytes, b->id, b->nnz,
                                 s->latent_rows);
    return find_copies(l->links.extra, l->views.extras, bytes, hot, true, b->id, b->nnz,
                       s->latent_rows);
}

// Lists the keys without a row, which arrive after the batch, unless the
// policy has refused them for good. A row that was made after find_rows has
// run is not used in this batch.
static void leave_out(struct living_steps *s, const struct view *v)
{
    const struct batch *b = &v->batch;
    for (size_t j = 0; j < b->nnz; j++) {
        if (v->rows[j] != NULL)
            continue;
        if (v->latent.start != NULL)
            s->latent_rows[j] = NULL;
        uint32_t handle = atomic_load_explicit(&s->rows->links.handle[b->id[j]],
                                               memory_order_relaxed);
        if (handle == LIVING_REFUSED || !s->again)
            continue;
        count_key(s, b->id[j], 0, b->slot[j]);
    }
}

// Removes the features without an extra row.
static void pack_latent(struct living_steps *s, struct view *v)
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
    v->latent = (struct model_latent){.start = s->latent_start,
                                      .rows = s->latent_rows,
                                      .u = s->latent_u,
                                      .slot = s->latent_slot};
}

// Removes the features without a row from the arrays rows and x. pack_latent has
// done so for u and slot.
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

// Fills the padding behind the last row, which kernels read and never use.
static void pad(float **rows, size_t n, float *zeros)
{
    for (size_t k = 0; k < KERNEL_PADDING; k++)
        rows[n + k] = zeros;
}

// Takes the next n of the batch's examples, which were unpacked before.
static void slice(struct living_steps *s, size_t n, struct batch *ret)
{
    const struct batch *b = &s->batch;
    uint32_t from = b->start[s->at];
    if (s->at == 0)
        batch_free(ret); // frees the view's own arrays
    *ret = (struct batch){
        .n = n,
        .nnz = b->start[s->at + n] - from,
        .labels = b->labels,
        .label = b->label + s->at * b->labels,
        .weight = b->weight != NULL ? b->weight + s->at : NULL,
        .start = s->start,
        .id = b->id + from,
        .slot = b->slot + from,
        .value = b->value != NULL ? b->value + from : NULL,
    };
    for (size_t i = 0; i <= n; i++)
        s->start[i] = b->start[s->at + i] - from;
    s->at += n;
}

int living_steps_take(struct worker *w, const uint64_t *order, size_t n,
                      const struct hot_copies *hot)
{
    struct living_steps *s = w->steps;
    const struct living_rows *l = s->rows;
    struct view *v = &w->view;
    struct batch *b = &v->batch;
    if (s->n_order > 0)
        slice(s, n, b);
    else
        TRY(dataset_gather(w->run->data, order, n, b));
    TRY(view_values(v, &l->model));
    TRY(reserve_latent(s, b->n, b->nnz));
    TRY(living_steps_reserve(s, b->nnz));
    v->latent = (struct model_latent){.start = NULL};
    size_t missing = find_rows(l, v, hot), apart = 0;
    if (l->links.extra != NULL) {
        v->latent = (struct model_latent){b->start, s->latent_rows, v->u, b->slot};
        apart = find_extras(s, v, hot);
    }
    if (missing > 0)
        leave_out(s, v);
    if (v->latent.start != NULL && missing + apart > 0)
        pack_latent(s, v);
    if (v->latent.start != NULL)
        pad(s->latent_rows, v->latent.start[b->n], l->zeros);
    if (missing > 0)
        pack_rows(v);
    pad(v->rows, b->start[b->n], l->zeros);
    return 0;
}

// ---------------------------------------------------------------- copies of hot rows

void living_steps_copied(const struct living_rows *l, uint32_t ret[HOT_PIECES])
{
    const struct accessor *a = &l->model.accessor;
    uint32_t width = a->groups[0].state + a->groups[0].n_state;
    if (store_config(l->sparse)->budget_rows != 0 || a->groups[0].weights != 0 ||
        a->stats < width)
        return;
    ret[0] = width;
    ret[1] = a->extra_width;
}

bool living_steps_find_hot(const void *run, uint32_t id, float *ret[HOT_PIECES])
{
    const struct living_rows *l = ((const struct run *)run)->local.living;
    uint32_t handle = atomic_load_explicit(&l->links.handle[id], memory_order_acquire),
             extra = living_extra(&l->links, id);
    if (handle >= TABLE_MAX_ROWS)
        return false;
    ret[0] = table_row(l->views.rows, handle);
    ret[1] = extra == TABLE_NONE ? NULL : table_row(l->views.extras, extra);
    return true;
}
