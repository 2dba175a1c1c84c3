// Workers and servers exchange batches by steps: the servers' rows are compared with the
// formulas of geo and elastic mode, computed by a naive model.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/exchange.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/node.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "rule/rule.h"
#include "server/embedded.h"
#include "train_cluster/remote.h"

enum { EXAMPLES = 400, STRETCH = 20, KEYS = 64, MAX = 32 };

// The rows of all keys according to the formulas; rows that no worker has pulled yet are
// 0. The last row is that of the dense parameters.
struct rows {
    float of[KEYS + 1][MAX];
};

// Servers and workers in one process. All workers use one client, so that requests are
// served in their order.
struct world {
    struct embedded *servers;
    struct node node;
    struct remote remote;
    struct model model;
    struct exchange_keys keys;
    struct dataset *data;
    uint64_t key[KEYS]; // keys of the naive rows
    size_t n;
    bool begun; // whether the row of the dense parameters was pulled
    struct rows rows;
};

static struct world w;

static void read_data(void)
{
    const char *path = training_data("data.ffm", EXAMPLES, 10, 0);
    struct source_options so = {.paths = &path, .n_paths = 1};
    struct reader_options ro = {.format = "libffm", .labels = true};
    struct team *team = training_team(1);
    struct source *s;
    struct reader *r;
    uint64_t bad = 0;
    assert_int_equal(source_open(&s, &so, NULL), 0);
    assert_int_equal(reader_open(&r, &ro, NULL), 0);
    struct dataset_options o = {.source = s,
                                .reader = r,
                                .team = team,
                                .resolve = exchange_keys_resolve,
                                .resolve_ctx = &w.keys,
                                .bad_lines = &bad};
    assert_int_equal(dataset_load(&w.data, &o, NULL), 0);
    assert_int_equal(dataset_size(w.data), EXAMPLES);
    source_close(s);
    reader_close(r);
    team_close(team);
}

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", test_err.text);
}

static struct train_cluster how; // settings of the workers

static void open_world_of(const struct model_options *model)
{
    memset(&w, 0, sizeof(w));
    check(embedded_open(&w.servers, 2, &test_err));
    struct node_options no = {.cluster = embedded_cluster(w.servers),
                              .scheduler = embedded_scheduler(w.servers),
                              .token = embedded_token(w.servers)};
    check(node_open(&w.node, &no, &test_err));
    how.node = &w.node;
    how.mode = CONFIG_ASYNC;
    struct train_config c = {.cluster = &how, .model = *model};
    struct remote_options ro = {.role = WIRE_WORKER, .loops = 1};
    check(remote_open(&w.remote, &c, &ro, &test_err));
    check(model_init(&w.model, &c.model, &test_err));
    check(remote_tables(&w.remote, &c, &w.model, &test_err));
    check(exchange_keys_open(&w.keys, &test_err));
    read_data();
}

static void open_world_by(enum rule_kind rule)
{
    struct model_options fm = training_model_by("fm", rule);
    how = (struct train_cluster){.geo = 1};
    open_world_of(&fm);
    assert_true(w.model.accessor.width <= MAX && w.model.dense.width <= MAX);
}

static void open_world(void)
{
    open_world_by(RULE_ADAGRAD);
}

static void close_world(void)
{
    dataset_close(w.data);
    exchange_keys_close(&w.keys);
    check(client_leave(w.remote.client, NULL, &test_err));
    remote_close(&w.remote);
    node_close(&w.node);
    embedded_close(w.servers);
}

// Returns the number of a key's row; a new row begins with the pulled values.
static size_t number_of(uint64_t key, const float *pulled, uint32_t width)
{
    size_t i = 0;
    while (i < w.n && w.key[i] != key)
        i++;
    if (i < w.n)
        return i;
    assert_true(w.n < KEYS);
    w.key[w.n++] = key;
    memcpy(w.rows.of[i], pulled, width * sizeof(*pulled));
    return i;
}

static void same_row(const float *row, const float *want, size_t n)
{
    for (size_t c = 0; c < n; c++)
        if (!(fabsf(row[c] - want[c]) < 1e-4f))
            fail_msg("column %zu is %g, not %g", c, (double)row[c], (double)want[c]);
}

// The number of a worker's stretches in flight; they use the slots cyclically.
enum { SLOTS = 3 };

struct party {
    struct exchange slots[SLOTS];
    struct exchange_keys keys; // the ids of the data's keys, with this worker's own marks
    float fraction;
    uint64_t piece;
    // The servers' rows at the time when the stretch of this slot was pulled.
    struct rows pulled[SLOTS];
    // Values that the push of this slot adds to the servers' rows.
    struct rows pushed[SLOTS];
    struct exchange_local local;
    bool known[KEYS + 1]; // whether the worker has trained the row
    struct rows has;      // the worker's private rows
};

// Opens a worker. With `apart`, its copies of rows stay apart from the servers' rows, as
// in elastic mode.
static void open_worker_apart(struct party *k, float fraction, uint64_t piece, bool apart)
{
    memset(k, 0, sizeof(*k));
    check(exchange_local_open(&k->local, &w.model, apart, &test_err));
    k->keys.table = w.keys.table;
    k->fraction = fraction;
    k->piece = piece;
    for (size_t i = 0; i < SLOTS; i++) {
        check(exchange_open(&k->slots[i], &w.model, true, w.remote.client, &k->keys,
                            &test_err));
        k->slots[i].local = &k->local;
    }
}

static void open_worker(struct party *k, float fraction, uint64_t piece)
{
    open_worker_apart(k, fraction, piece, false);
}

static void close_worker(struct party *k)
{
    for (size_t i = 0; i < SLOTS; i++)
        exchange_close(&k->slots[i]);
    mem_free(k->keys.marks);
    exchange_local_close(&k->local);
}

static void pull(struct party *k, uint64_t b)
{
    struct exchange *x = &k->slots[b % SLOTS];
    uint64_t order[STRETCH];
    for (uint64_t i = 0; i < STRETCH; i++)
        order[i] = (b * STRETCH + i) % EXAMPLES;
    x->fraction = k->fraction;
    check(exchange_take(x, w.data, order, STRETCH,
                        b > 0 ? &k->slots[(b - 1) % SLOTS] : NULL, &test_err));
    check(exchange_pull(x, 0, &test_err));
    check(exchange_pulled(x, &test_err));
    for (size_t i = 0; i < x->n; i++) {
        const float *row = x->values + i * x->width;
        same_row(row, w.rows.of[number_of(x->key[i], row, x->width)], x->width);
    }
    if (!w.begun)
        memcpy(w.rows.of[KEYS], x->dense, x->dense_floats * sizeof(float));
    w.begun = true;
    same_row(x->dense, w.rows.of[KEYS], x->dense_floats);
    k->pulled[b % SLOTS] = w.rows;
}

// Returns the amount by which a worker changes a column; for the column that counts
// updates, this is the number of updates.
static float change(uint64_t seed, uint64_t key, uint32_t column)
{
    if (column == w.model.accessor.count)
        return 3;
    return random_f32(seed, 5, key * MAX + column) - 0.5f;
}

// Returns whether a column of a row is the count of updates.
static bool is_count(size_t row, uint32_t column)
{
    return row < KEYS && column == w.model.accessor.count;
}

static bool is_state(size_t row, uint32_t column)
{
    const struct accessor *a = row < KEYS ? &w.model.accessor : &w.model.dense;
    for (uint32_t g = 0; g < a->n_groups; g++)
        if (column - a->groups[g].state < a->groups[g].n_state)
            return true;
    return false;
}

static bool stays(size_t row, uint32_t column)
{
    return is_state(row, column) &&
           !rule_info(w.model.options.linear.kind)->state_adds_up;
}

// Trains a row, and records the change that is pushed. Before it is trained, the row must
// equal the pulled one plus those changes of this worker that the servers did not have
// yet; or the worker's private row.
static void train_row(struct party *k, uint64_t b, size_t row, float *values,
                      uint32_t width, uint64_t seed)
{
    const float *last = b > 0 ? k->pushed[(b - 1) % SLOTS].of[row] : NULL;
    for (uint32_t c = 0; c < width; c++) {
        float there = k->pulled[b % SLOTS].of[row][c] + (last != NULL ? last[c] : 0);
        float *has = &k->has.of[row][c], *pushed = &k->pushed[b % SLOTS].of[row][c];
        bool own = !is_count(row, c) && (stays(row, c) || k->local.weights);
        float want = own && k->known[row] ? *has : there;
        same_row(&values[c], &want, 1);
        float by = change(seed, row, c), now = want + by;
        values[c] += by;
        bool state = is_state(row, c);
        *pushed = is_count(row, c) ? by
                  : stays(row, c)  ? 0
                                   : (now - (state ? want : there)) * k->fraction;
        *has = state ? now : now - *pushed;
    }
    k->known[row] = true;
}

static void train(struct party *k, uint64_t b, uint64_t seed)
{
    struct exchange *x = &k->slots[b % SLOTS];
    memset(&k->pushed[b % SLOTS], 0, sizeof(k->pushed[0]));
    exchange_catch_up(x);
    for (size_t i = 0; i < x->n; i++) {
        float *row = x->values + i * x->width;
        train_row(k, b, number_of(x->key[i], NULL, 0), row, x->width, seed);
    }
    train_row(k, b, KEYS, x->dense, (uint32_t)x->dense_floats, seed);
    exchange_finish(x);
}

static void push(struct party *k, uint64_t b)
{
    struct exchange_push p = {.rate = 1,
                              .pass = 1,
                              .id_pass = 1,
                              .id_piece = k->piece,
                              .id_group = (uint32_t)b,
                              .examples = STRETCH};
    check(exchange_push(&k->slots[b % SLOTS], &p, &test_err));
    check(exchange_pushed(&k->slots[b % SLOTS], &test_err));
}

static void add_pushed(const struct party *k, uint64_t b)
{
    for (size_t i = 0; i <= KEYS; i++)
        for (size_t c = 0; c < MAX; c++)
            w.rows.of[i][c] += k->pushed[b % SLOTS].of[i][c];
}

// If workers have pulled the same rows and made the same changes, the servers' rows
// become those of each worker, and the updates of each worker are counted.
static void equal_workers(void **state)
{
    (void)state;
    static struct party k[3], look;
    struct rows each;
    open_world();
    for (size_t i = 0; i < 3; i++) {
        open_worker(&k[i], 1.0f / 3, i);
        pull(&k[i], 0);
        train(&k[i], 0, 7);
    }
    each = w.rows;
    for (size_t i = 0; i < 3; i++) {
        push(&k[i], 0);
        add_pushed(&k[i], 0);
    }
    uint32_t count = w.model.accessor.count;
    for (size_t i = 0; i < k[0].slots[0].n; i++) {
        size_t row = number_of(k[0].slots[0].key[i], NULL, 0);
        for (uint32_t c = 0; c < w.model.accessor.width; c++)
            each.of[row][c] += change(7, row, c) * (c == count ? 3 : 1);
        same_row(w.rows.of[row], each.of[row], w.model.accessor.width);
    }
    open_worker(&look, 1, 3);
    pull(&look, 0); // compares the pulled rows with the naive ones
    close_worker(&look);
    for (size_t i = 0; i < 3; i++)
        close_worker(&k[i]);
    close_world();
}

// Two workers, each one stretch ahead of its pushes, work in any order. At each moment a
// row has the value that the formulas give, so no change is pushed twice or lost.
static void any_order(enum rule_kind rule, bool apart)
{
    enum { ROUNDS = 12 };
    static struct party k[2];
    uint64_t at[2] = {0};
    open_world_by(rule);
    for (size_t i = 0; i < 2; i++) {
        open_worker_apart(&k[i], 0.45f, i, apart);
        pull(&k[i], 0);
    }
    for (uint64_t draw = 0; at[0] < ROUNDS || at[1] < ROUNDS; draw++) {
        size_t i = random_below(3, 1, draw, 2);
        if (at[i] == ROUNDS)
            continue;
        uint64_t b = at[i]++;
        pull(&k[i], b + 1);
        train(&k[i], b, 100 + draw);
        push(&k[i], b);
        add_pushed(&k[i], b);
    }
    for (size_t i = 0; i < 2; i++)
        close_worker(&k[i]);
    close_world();
}

static void workers_in_any_order(void **state)
{
    (void)state;
    any_order(RULE_ADAGRAD, false);
}

// States that are moments stay with their worker, whatever other workers push.
static void states_stay(void **state)
{
    (void)state;
    any_order(RULE_ADAM, false);
}

// Elastic averaging (Zhang, Choromanska & LeCun 2015, equations 5 and 6): each worker has
// rows of its own.
static void copies_stay_apart(void **state)
{
    (void)state;
    any_order(RULE_ADAGRAD, true);
    any_order(RULE_ADAM, true);
}

// A worker repeats the piece of a dead worker, and pushes batches that the servers have
// already. Nothing changes, whatever the worker computed, and the worker continues with
// later batches.
static void repeated_piece(void **state)
{
    (void)state;
    static struct party dead, heir;
    open_world();
    open_worker(&dead, 0.5f, 4);
    pull(&dead, 0);
    train(&dead, 0, 1);
    push(&dead, 0);
    add_pushed(&dead, 0);
    close_worker(&dead);
    open_worker(&heir, 1, 4);
    pull(&heir, 0);
    train(&heir, 0, 2);
    push(&heir, 0); // the servers have these batches, and add nothing
    pull(&heir, 1);
    train(&heir, 1, 3);
    push(&heir, 1);
    add_pushed(&heir, 1);
    pull(&heir, 2);
    close_worker(&heir);
    close_world();
}

// These tests push dense parameters in parts. The rule is sgd with a rate of 1, so
// each push lowers the servers' values by its gradients. The keys of rows are also
// pushed, with gradients of 0.

static void open_parts(void)
{
    struct model_options o = training_model_by("mlp", RULE_SGD);
    o.fields = 4;
    o.hidden[0] = o.hidden[1] = 256;
    o.hidden[2] = 0;
    o.dense = rule_defaults(RULE_SGD);
    o.dense.lr = 1;
    how = (struct train_cluster){.rules = TRAIN_RULES_SERVER};
    open_world_of(&o);
}

static void take_part(struct exchange *x, uint64_t seed)
{
    uint64_t order[STRETCH];
    for (uint64_t i = 0; i < STRETCH; i++)
        order[i] = i;
    check(exchange_take(x, w.data, order, STRETCH, NULL, &test_err));
    exchange_clear(x, x->gradients, x->dense_gradient);
    for (size_t i = 0; i < x->n; i++) // each key occurs once
        x->gradients[i * x->push_width + x->push_width - 2] = 1;
    for (size_t i = 0; i < x->dense_floats; i++)
        x->dense_gradient[i] = random_f32(seed, 0, i);
}

// Checks that the servers' dense parameters are their initial values minus `pushed`.
static void same_dense(struct exchange *look, const float *began, const float *pushed)
{
    check(exchange_take(look, w.data, (uint64_t[]){0}, 1, NULL, &test_err));
    check(exchange_pull(look, 0, &test_err));
    check(exchange_pulled(look, &test_err));
    for (size_t i = 0; i < look->dense_floats; i++)
        if (!(fabsf(look->dense[i] - (began[i] - pushed[i])) < 1e-4f))
            fail_msg("float %zu is %g, not %g", i, (double)look->dense[i],
                     (double)(began[i] - pushed[i]));
}

static void add_part(const struct exchange *x, size_t part, uint64_t seed, float scale,
                     float *pushed)
{
    for (size_t i = x->parts[part].first; i < x->parts[part].end; i++)
        pushed[i] += scale * random_f32(seed, 0, i);
}

// Parts whose gradients are complete are pushed before the rows are. Parts that another
// worker has pushed before change nothing, in whatever order they arrive.
static void dense_parts_leave_before_rows(void **state)
{
    (void)state;
    struct exchange x, heir, look;
    struct exchange_push p = {.rate = 1,
                              .pass = 1,
                              .id_pass = 1,
                              .id_piece = 3,
                              .examples = STRETCH,
                              .dense_scale = 0.5f};
    open_parts();
    struct exchange *all[] = {&x, &heir, &look};
    for (size_t i = 0; i < 3; i++)
        check(
            exchange_open(all[i], &w.model, false, w.remote.client, &w.keys, &test_err));
    size_t floats = x.dense_floats, n = x.n_parts, half = x.parts[n / 2].first;
    float *began = mem_array(floats, sizeof(float)), *pushed = mem_array(floats, 4);
    assert_true(n > 3 && x.parts[n - 1].end == floats);
    memset(pushed, 0, floats * sizeof(float));
    take_part(&x, 1);
    check(exchange_pull(&x, 0, &test_err));
    check(exchange_pulled_dense(&x, half, 1, &test_err));
    assert_true(x.pulls[1 + n / 2] == 0 && x.pulls[n] != 0);
    check(exchange_pulled(&x, &test_err));
    memcpy(began, x.dense, floats * sizeof(float));
    // Completes all floats of the upper parts except one; then this float and one float
    // of the lower part.
    uint64_t before = client_stats(w.remote.client).pushes;
    check(exchange_complete(&x, &p, half + 1, model_dense_used(&w.model) - half - 1,
                            &test_err));
    assert_int_equal(client_stats(w.remote.client).pushes - before, n - n / 2 - 1);
    check(exchange_complete(&x, &p, half - 1, 2, &test_err));
    assert_int_equal(client_stats(w.remote.client).pushes - before, n - n / 2);
    check(exchange_dense_pushed(&x, &test_err));
    for (size_t i = n / 2; i < n; i++)
        add_part(&x, i, 1, 0.5f, pushed);
    same_dense(&look, began, pushed);
    // The worker dies. Another worker does the batch again: only the missing parts count.
    take_part(&heir, 2);
    check(exchange_complete(&heir, &p, 0, half, &test_err));
    check(exchange_push(&heir, &p, &test_err));
    check(exchange_pushed(&heir, &test_err));
    for (size_t i = 0; i < n / 2; i++)
        add_part(&x, i, 2, 0.5f, pushed);
    same_dense(&look, began, pushed);
    p.id_group = 1;
    take_part(&heir, 3);
    check(exchange_push(&heir, &p, &test_err));
    check(exchange_pushed(&heir, &test_err));
    for (size_t i = 0; i < n; i++)
        add_part(&x, i, 3, 0.5f, pushed);
    same_dense(&look, began, pushed);
    for (size_t i = 0; i < 3; i++)
        exchange_close(all[i]);
    mem_free(began);
    mem_free(pushed);
    close_world();
}

// Requests that an interrupt leaves open are cancelled before their arrays are freed.
static void interrupted(void **state)
{
    (void)state;
    static struct party k;
    uint64_t order[STRETCH];
    atomic_bool now = true;
    open_world();
    open_worker(&k, 1, 0);
    struct exchange *x = &k.slots[0];
    for (uint64_t i = 0; i < STRETCH; i++)
        order[i] = i;
    check(exchange_take(x, w.data, order, STRETCH, NULL, &test_err));
    check(exchange_pull(x, 0, &test_err));
    client_set_interrupt(w.remote.client, &now);
    assert_int_equal(exchange_pulled(x, &test_err), TUG_EINTERRUPTED);
    assert_int_equal(client_in_flight(w.remote.client), 2);
    close_worker(&k);
    assert_int_equal(client_in_flight(w.remote.client), 0);
    client_set_interrupt(w.remote.client, NULL);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted),
        cmocka_unit_test(equal_workers),
        cmocka_unit_test(workers_in_any_order),
        cmocka_unit_test(states_stay),
        cmocka_unit_test(copies_stay_apart),
        cmocka_unit_test(repeated_piece),
        cmocka_unit_test(dense_parts_leave_before_rows),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
