// A naive store, for tests: an array with all keys, in doubles, to which the formulas of
// life.h and rule_kind.h are applied one after the other. It runs admin operations at
// once, and has neither batches nor handles; it uses partitions only for budgets and
// days.
//
// It also has settings and random batches for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_NAIVE_STORE_H
#define TUG_KIT_NAIVE_STORE_H

#include "kit/rng.h"
#include "kit/stores.h"
#include "store/store_internal.h"

enum { KEYS = 300, DIM_MAX = 8, PUSH_MAX = DIM_MAX + 4, PARTS_MAX = 64 };

// Returns one of the keys that batches use; they are spread over all possible keys.
uint64_t naive_key(uint32_t i);

// The weights of an update rule and its state, in doubles.
struct vector {
    double w[DIM_MAX], m[DIM_MAX], v[DIM_MAX];
    double n, c1, c2; // states that the rule has once for the whole vector
};

struct naive_row {
    bool there, extra, changed;
    uint64_t made; // number of rows that existed before this row was made
    float slot, delta, show, click;
    double wide_show, wide_click;
    uint32_t day;
    uint64_t step;
    struct vector embed, embedx;
    double candidate; // the entry policy's count of a key that has no row yet
};

struct naive {
    const struct table_config *config;
    const struct accessor *a; // the accessor, for widths
    bool life, wide;
    uint32_t bits, dim; // dim of embedx, or of a plain row
    struct naive_row rows[KEYS];
    // The real entry policies, used if a policy has no formula.
    struct entry *oracle[PARTS_MAX];
    uint64_t keys[KEYS];
    uint32_t day;
    uint64_t step, made, refused, by_score, by_age, by_ttl, by_budget;
    bool gone[KEYS];
};

uint32_t naive_partition(const struct naive *m, uint64_t key);
void naive_open(struct naive *m, const struct store *s, uint32_t bits);
void naive_close(struct naive *m);
uint32_t naive_embed_width(const struct naive *m);
void naive_make(struct naive *m, uint32_t i);
void naive_remove(struct naive *m, uint32_t i);
// Pushes the keys which[], sorted by partition.
void naive_push(struct naive *m, const struct store_push *p, const uint32_t *which);
void naive_shrink(struct naive *m, float threshold);
void naive_clear(struct naive *m);
void naive_assert_near(uint64_t key, const char *what, double x, double y);
void naive_check_row(const struct naive *m, const struct store *s, uint32_t i);

struct naive_setting {
    const char *text, *more;
    uint32_t bits;
    // For a table without a lifecycle: its budget in rows; 0: none. The text of the
    // settings must not have a budget.
    uint64_t budget;
};

enum { NAIVE_SETTINGS = 15 };
extern const struct naive_setting naive_settings[NAIVE_SETTINGS];

struct table_config naive_config(const struct naive_setting *x);

struct naive_batch {
    uint32_t which[KEYS];
    uint64_t keys[KEYS];
    size_t n;
    float values[KEYS * PUSH_MAX];
};

// Sorts which[] by the partition of the keys.
void naive_sort(const struct store *s, struct naive_batch *b);
void naive_draw_keys(struct rng *d, const struct store *s, struct naive_batch *b,
                     size_t most);
void naive_draw_values(struct rng *d, const struct store *s, struct naive_batch *b,
                       enum store_op op);
struct store_push naive_draw_push(struct rng *d, const struct store *s,
                                  struct naive_batch *b);

#endif
