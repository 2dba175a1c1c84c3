// A server with its own handler: it keeps the greatest value that was pushed to each of
// ten keys, and prints the number of pushes.
//
//     cc examples/handler.c $(pkg-config --cflags --libs tug) -o handler
//     examples/run 1 2 ./handler
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <tug/kvapp.h>

enum { KEYS = 10 };

struct greatest {
    float values[KEYS];
    unsigned pushes;
};

// Handles a push or pull, and answers it once. The library makes one call at a time.
static void handle(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                   const struct tug_kv_data *d)
{
    struct greatest *g = ctx;
    float out[KEYS];
    struct tug_kv_data answer = {
        .n_keys = d->n_keys, .values = out, .n_values = d->n_keys};
    for (size_t i = 0; i < d->n_keys; i++)
        if (d->keys[i] >= KEYS || d->n_keys > KEYS) {
            tug_app_refuse(a, m->ticket, TUG_EUSAGE,
                           "keys are 0 to 9, with a value each");
            return;
        }
    if (tug_kv_check_values(m, d, 1) != 0) { // checks that each key has one value
        tug_app_refuse(a, m->ticket, TUG_EUSAGE, tug_last_error());
        return;
    }
    g->pushes += m->push;
    for (size_t i = 0; i < d->n_keys; i++) {
        float *best = &g->values[d->keys[i]];
        if (m->push && d->values[i] > *best)
            *best = d->values[i];
        out[i] = *best;
    }
    // The call copies the values, because its argument `release` is NULL.
    tug_kv_answer(a, m->ticket, m->pull ? &answer : NULL, NULL, NULL);
}

static int work(struct tug_node *n)
{
    const uint64_t keys[] = {1, 2}, wrong = 99;
    const float values[] = {tug_node_rank(n) + 1, 7};
    float got[2];
    uint32_t ts;
    struct tug_app *a;
    struct tug_kv_request q = {
        .push = true,
        .data = {.keys = keys, .n_keys = 2, .values = values, .n_values = 2}};
    int rc = tug_app_open(&a, n, 0, 0, NULL);
    if (rc == 0 && (rc = tug_kv_send(a, &q, &ts)) == 0)
        rc = tug_app_wait(a, ts);
    if (rc == 0)
        rc = tug_node_barrier(n, TUG_GROUP_WORKERS);
    q = (struct tug_kv_request){
        .pull = true, .data = {.keys = keys, .n_keys = 2}, .pulled = got, .n_pulled = 2};
    if (rc == 0 && (rc = tug_kv_send(a, &q, &ts)) == 0)
        rc = tug_app_wait(a, ts);
    if (rc == 0)
        printf("worker %u: %g %g\n", tug_node_rank(n), got[0], got[1]);
    q.data.keys = &wrong;
    q.data.n_keys = q.n_pulled = 1;
    if (rc == 0 && (rc = tug_kv_send(a, &q, &ts)) == 0 && tug_app_wait(a, ts) != 0)
        printf("worker %u: %s\n", tug_node_rank(n), tug_last_error());
    return rc;
}

int main(void)
{
    struct tug_node *n;
    struct tug_app *a;
    struct greatest g = {.pushes = 0};
    struct tug_app_handlers h = {.kv = handle, .ctx = &g};
    int rc = tug_node_start(&n, NULL);
    if (rc == 0 && tug_node_role(n) == TUG_GROUP_WORKERS)
        rc = work(n);
    if (rc == 0 && tug_node_role(n) == TUG_GROUP_SERVERS)
        rc = tug_app_open(&a, n, 0, 0, &h);
    if (rc == 0)
        rc = tug_node_finalize(n, true);
    if (rc != 0)
        fprintf(stderr, "%s\n", tug_last_error());
    else if (g.pushes > 0)
        printf("the server has had %u pushes\n", g.pushes);
    return rc != 0;
}
