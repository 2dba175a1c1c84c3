// Opens and closes a table; its statistics.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/table_internal.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

// Stripe i begins with FIRST_LINES + i lines. The last stripe begins with almost a fifth
// (one step of growth) more lines than the first, so that stripes do not all grow at the
// same time and memory grows evenly.
enum { FIRST_LINES = 80 };

static_assert(FIRST_LINES + FIRST_LINES / 5 == FIRST_LINES + TABLE_STRIPES, "one step");

static int check_init(const struct table_options *o, const struct table_init *x,
                      struct err *e)
{
    if (x->begin > o->width || x->count > o->width - x->begin)
        return err_set(e, TUG_EUSAGE,
                       "initial values of columns %u to %u do not fit a row of %u",
                       x->begin, x->begin + x->count, o->width);
    if (!isfinite(x->low) || !isfinite(x->high - x->low) || x->low > x->high)
        return err_set(e, TUG_EUSAGE, "initial values from %g to %g are not a range",
                       (double)x->low, (double)x->high);
    return 0;
}

static int check_options(const struct table_options *o, struct err *e)
{
    if (o->width > TABLE_MAX_WIDTH)
        return err_set(e, TUG_EUSAGE, "a row of %u floats is too wide; at most %d fit",
                       o->width, TABLE_MAX_WIDTH);
    if (o->align != 0 &&
        (o->align < 8 || o->align > 4096 || (o->align & (o->align - 1)) != 0))
        return err_set(e, TUG_EUSAGE,
                       "rows can't be aligned to %u bytes; use a power of two in 8..4096",
                       o->align);
    if (o->partition_bits > 16)
        return err_set(e, TUG_EUSAGE, "%u bits of partitions are too many; use 0..16",
                       o->partition_bits);
    if (o->n_inits > TABLE_MAX_INITS)
        return err_set(e, TUG_EUSAGE,
                       "%u ranges of initial values are too many; use 0..%d", o->n_inits,
                       TABLE_MAX_INITS);
    for (uint32_t i = 0; i < o->n_inits; i++)
        TRY(check_init(o, &o->inits[i], e));
    return 0;
}

static int open_stripes(struct table *t)
{
    size_t bytes = TABLE_STRIPES * sizeof(struct stripe);
    t->stripes = mem_aligned(_Alignof(struct stripe), bytes);
    if (t->stripes == NULL)
        return TUG_ENOMEM;
    memset(t->stripes, 0, bytes);
    for (uint32_t i = 0; i < TABLE_STRIPES; i++) {
        struct stripe *s = &t->stripes[i];
        pthread_mutex_init(&s->lock, NULL);
        s->ready = true;
        s->spare = TABLE_NONE;
        TRY(index_open(&s->index, FIRST_LINES + i, &t->view));
    }
    return 0;
}

int table_open(struct table **ret, const struct table_options *o, struct err *e)
{
    TRY(check_options(o, e));
    struct table *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "a table");
    t->options = *o;
    if (o->align == 0)
        t->options.align = 8;
    t->random_seed = o->seed ^ mix64(o->id);
    reclaim_open(&t->reclaim);
    if (slabs_open(&t->slabs, o->width, t->options.align, &t->view) != 0 ||
        open_stripes(t) != 0) {
        table_close(t);
        return err_nomem(e, "a table");
    }
    *ret = t;
    return 0;
}

// Returns the number of keys of stripe i, from rows[], which is indexed by the first
// `bits` bits of hashes.
static uint64_t rows_of_stripe(const uint64_t *rows, uint32_t bits, uint32_t i)
{
    uint64_t n = 0;
    if (bits <= TABLE_STRIPE_BITS)
        return rows[i >> (TABLE_STRIPE_BITS - bits)] >> (TABLE_STRIPE_BITS - bits);
    uint32_t each = 1u << (bits - TABLE_STRIPE_BITS);
    for (uint32_t k = 0; k < each; k++)
        n += rows[i * each + k];
    return n;
}

void table_reserve(struct table *t, const uint64_t *rows, uint32_t bits)
{
    for (uint32_t i = 0; i < TABLE_STRIPES; i++) {
        struct stripe *s = &t->stripes[i];
        pthread_mutex_lock(&s->lock);
        if (s->index.count == 0)
            index_reserve(&s->index, rows_of_stripe(rows, bits, i));
        pthread_mutex_unlock(&s->lock);
    }
}

// Makes room in a stripe for n more keys of a partition. In an empty stripe, `share`
// partitions of this size are expected; in any other stripe, half as many keys as it has.
static void reserve_more(struct stripe *s, uint64_t n, uint64_t share)
{
    uint64_t has = s->index.count, more = has > 0 ? has / 2 : n * share;
    if (has + n > index_capacity(&s->index))
        index_reserve(&s->index, has + (more > n ? more : n));
}

void table_reserve_partition(struct table *t, uint32_t partition, uint64_t rows,
                             uint32_t mine, uint32_t of)
{
    uint32_t bits = t->options.partition_bits, first, stripes = 1;
    uint64_t share = 1;
    if (bits <= TABLE_STRIPE_BITS) {
        stripes = 1u << (TABLE_STRIPE_BITS - bits);
        first = partition * stripes;
    } else {
        first = partition >> (bits - TABLE_STRIPE_BITS);
        uint64_t each = (uint64_t)1 << (bits - TABLE_STRIPE_BITS);
        share = (each * mine + of - 1) / of;
    }
    for (uint32_t i = first; i < first + stripes; i++) {
        struct stripe *s = &t->stripes[i];
        pthread_mutex_lock(&s->lock);
        reserve_more(s, rows / stripes, share);
        pthread_mutex_unlock(&s->lock);
    }
}

void table_close(struct table *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < TABLE_STRIPES && t->stripes != NULL; i++) {
        struct stripe *s = &t->stripes[i];
        if (!s->ready)
            break;
        index_close(&s->index);
        limbo_close(&s->limbo);
        pthread_mutex_destroy(&s->lock);
    }
    mem_free(t->stripes);
    slabs_close(&t->slabs);
    reclaim_close(&t->reclaim);
    mem_free(t);
}

struct reclaim *table_reclaim(struct table *t)
{
    return &t->reclaim;
}

const struct table_options *table_options(const struct table *t)
{
    return &t->options;
}

int table_reader_open(struct table_reader **ret, struct table *t, struct err *e)
{
    return reclaim_join(&t->reclaim, ret, e);
}

struct table_stats table_stats(const struct table *t)
{
    struct table_stats x = {.row_bytes = slabs_bytes(&t->slabs)};
    for (uint32_t i = 0; i < TABLE_STRIPES; i++) {
        struct stripe *s = &t->stripes[i];
        pthread_mutex_lock(&s->lock);
        x.rows += s->index.count;
        x.index_bytes += s->index.committed;
        x.inserts += s->inserts;
        x.erases += s->erases;
        x.index_moves += s->index.moves;
        if (s->index.max_moves > x.index_max_moves)
            x.index_max_moves = s->index.max_moves;
        pthread_mutex_unlock(&s->lock);
    }
    return x;
}

double table_key_bytes(uint64_t rows, uint64_t bytes, uint32_t width, uint64_t *ret_fixed)
{
    double n = (double)rows, all = (double)bytes;
    double each = (double)(sizeof(uint64_t) + width * sizeof(float)) +
                  (double)sizeof(struct index_line) / INDEX_ROOMY;
    if (rows == 0)
        each = 0;
    else if (each > all / n)
        each = all / n;
    *ret_fixed = (uint64_t)(all - each * n);
    return each;
}
