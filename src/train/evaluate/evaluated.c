// See evaluated.h. A part is written as bytes: its numbers, the scores of the examples
// that count, and, if the part has groups, the group of each score.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/evaluated.h"

#include <string.h>

#include "base/alloc.h"

struct fixed {
    struct evaluated_sums sums;
    uint64_t places, bad_lines;
    uint64_t scores;
    uint64_t grouped; // 1 if groups follow the scores
    struct numbering_range keys;
};

void evaluated_free(struct evaluated *x)
{
    mem_free(x->scored);
    groups_free(&x->users);
    *x = (struct evaluated){0};
}

int evaluated_reserve(struct evaluated *x, size_t n, struct err *e)
{
    if (x->n + n > x->cap || x->scored == NULL) {
        size_t cap = x->cap + x->cap / 2 + n;
        struct scored *more = mem_realloc_array(x->scored, cap + 1, sizeof(*more));
        if (more == NULL)
            return err_nomem(e, "the scores of an evaluation");
        x->scored = more;
        x->cap = cap;
    }
    return groups_reserve(&x->users, x->cap, e);
}

// The number of exact sums in the results of an evaluation.
enum { EXACT_SUMS = 7 };
struct exact_sums {
    struct exact *of[EXACT_SUMS];
};

static struct exact_sums exact_sums(struct evaluated_sums *s)
{
    return (struct exact_sums){{&s->weight, &s->loss, &s->predicted, &s->observed,
                                &s->squares, &s->off, &s->off_squares}};
}

void evaluated_add_sums(struct evaluated_sums *to, const struct evaluated_sums *from)
{
    struct evaluated_sums copy = *from;
    struct exact_sums into = exact_sums(to), others = exact_sums(&copy);
    for (int i = 0; i < EXACT_SUMS; i++)
        exact_merge(into.of[i], others.of[i]);
    to->examples += from->examples;
    to->without_weight += from->without_weight;
    to->features += from->features;
    to->known += from->known;
}

int evaluated_check(const struct evaluated *x, uint64_t examples, const char *option,
                    struct err *e)
{
    if (x->places == examples)
        return 0;
    return err_set(e, TUG_EDATA,
                   "workers report %llu scored examples of %s, but sent scores of %llu: "
                   "a report is damaged, or comes from another run",
                   (unsigned long long)examples, option, (unsigned long long)x->places);
}

// ---------------------------------------------------------------- computing metrics

static double ratio(const struct exact *a, const struct exact *b)
{
    double by = exact_value(b);
    return by > 0 ? exact_value(a) / by : (double)NAN;
}

// Computes the metrics that do not depend on the order of the scores.
static struct metrics metrics_of(const struct evaluated_sums *s, enum loss loss)
{
    struct metrics m = {.examples = s->examples,
                        .without_weight = s->without_weight,
                        .features = s->features,
                        .known = s->known};
    m.weightless = m.examples == 0 && m.without_weight > 0;
    m.auc = m.pr_auc = m.ne = m.gauc = (double)NAN;
    m.logloss = ratio(&s->loss, &s->weight);
    m.copc = ratio(&s->predicted, &s->observed);
    m.mae = ratio(&s->off, &s->weight);
    m.rmse = sqrt(ratio(&s->off_squares, &s->weight));
    m.mean = ratio(&s->observed, &s->weight);
    m.base = metrics_base(loss, exact_value(&s->weight), exact_value(&s->observed),
                          exact_value(&s->squares));
    if (loss == LOSS_LOGISTIC)
        m.ne = metrics_ne(m.logloss, m.base);
    return m;
}

static int rank_groups(struct evaluated *x, struct metrics *ret, struct err *e)
{
    size_t n = x->n;
    TRY(groups_sort(&x->users, &n, e));
    struct gauc g = graded_gauc(x->users.graded, n);
    ret->gauc = g.gauc;
    ret->groups = g.groups;
    ret->one_class = g.one_class;
    ret->without_group = g.without;
    return 0;
}

static int rank(struct evaluated *x, struct metrics *ret, struct err *e)
{
    size_t n = 0;
    if (x->users.columns > 0)
        TRY(rank_groups(x, ret, e));
    groups_free(&x->users);
    for (size_t i = 0; i < x->n; i++)
        if (x->scored[i].weight != 0)
            x->scored[n++] = x->scored[i];
    x->n = n;
    struct scored *scratch = mem_array(n + 1, sizeof(*scratch));
    if (scratch == NULL)
        return err_nomem(e, "sorting the scores of an evaluation");
    ret->auc = metrics_auc(x->scored, scratch, n);
    ret->pr_auc = metrics_pr_auc(x->scored, n);
    mem_free(scratch);
    return 0;
}

int evaluated_metrics(struct evaluated *x, enum loss loss, bool ranked,
                      struct metrics *ret, struct err *e)
{
    *ret = metrics_of(&x->sums, loss);
    return ranked ? rank(x, ret, e) : 0;
}

// ---------------------------------------------------- writing and reading parts as bytes

int evaluated_write(const struct evaluated *x, struct buf *b)
{
    size_t at = b->len;
    struct fixed f = {.sums = x->sums,
                      .places = x->places,
                      .bad_lines = x->bad_lines,
                      .grouped = x->users.columns > 0,
                      .keys = numbering_range(&x->keys)};
    struct exact_sums sums = exact_sums(&f.sums);
    for (int i = 0; i < EXACT_SUMS; i++)
        exact_carry(sums.of[i]);
    int rc = buf_add(b, &f, sizeof(f));
    for (size_t i = 0; i < x->n && rc == 0; i++)
        if (x->scored[i].weight != 0) {
            rc = buf_add(b, &x->scored[i], sizeof(*x->scored));
            f.scores++;
        }
    for (size_t i = 0; i < x->n && rc == 0 && f.grouped; i++)
        if (x->scored[i].weight != 0)
            rc = buf_add(b, &x->users.graded[i], sizeof(*x->users.graded));
    if (rc == 0)
        memcpy(b->data + at, &f, sizeof(f));
    return rc;
}

// Returns whether these sums can come from an evaluation. Sums from a damaged message
// could overflow when they are added.
static bool can_be(const struct fixed *f)
{
    struct evaluated_sums copy = f->sums;
    struct exact_sums sums = exact_sums(&copy);
    bool ok = true;
    for (int i = 0; i < EXACT_SUMS; i++)
        ok &= exact_is_carried(sums.of[i]);
    return ok;
}

static bool evaluated_take(const char **bytes, size_t *n, void *ret, size_t size)
{
    if (*n < size)
        return false;
    memcpy(ret, *bytes, size);
    *bytes += size;
    *n -= size;
    return true;
}

int evaluated_next(struct evaluated *x, const char **bytes, size_t *n)
{
    struct fixed f;
    size_t each = sizeof(*x->scored);
    bool groups = x->users.columns > 0;
    if (*n == 0)
        return 0;
    if (groups)
        each += sizeof(*x->users.graded);
    if (!evaluated_take(bytes, n, &f, sizeof(f)) || (f.grouped != 0) != groups ||
        f.scores > *n / each || !can_be(&f))
        return TUG_EDATA;
    TRY(evaluated_reserve(x, f.scores, NULL));
    evaluated_take(bytes, n, x->scored + x->n, f.scores * sizeof(*x->scored));
    if (groups)
        evaluated_take(bytes, n, x->users.graded + x->n,
                       f.scores * sizeof(*x->users.graded));
    x->n += f.scores;
    evaluated_add_sums(&x->sums, &f.sums);
    x->places += f.places;
    x->bad_lines += f.bad_lines;
    numbering_join(&x->keys, f.keys);
    return 1;
}
