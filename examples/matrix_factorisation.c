// Matrix factorisation of ratings like MovieLens': learns a vector for each user and for
// each item, whose inner product predicts the rating. The program generates the ratings.
//
//     cc examples/matrix_factorisation.c $(pkg-config --cflags --libs tug) -lm -o factors
//     ./factors                                        # one process
//     tug launch --servers 2 --workers 2 -- ./factors  # a cluster
//
// A guess of 3.4 stars for each rating has a root mean squared error of 0.99 on test
// ratings. The trained vectors must get below BOUND.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tug/kvapp.h>
#include <tug/tug.h>

#define BOUND 0.70
enum {
    USERS = 600,
    ITEMS = 400,
    SEEN = 60000,
    TEST = 5000,
    K = 8,
    BATCH = 200,
    PASSES = 12
};
// The three tables. A row of a user or an item has a vector and a bias (9 floats).
enum { OF_USER, OF_ITEM, OF_ERROR, WIDTH = K + 1 };

struct rating {
    uint64_t user, item;
    float stars;
};

// Returns a pseudo-random number from -1 to 1 for an index, the same in every process.
static float random_of(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15;
    i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
    i = (i ^ (i >> 27)) * 0x94d049bb133111eb;
    return (float)((i ^ (i >> 31)) >> 40) / (1 << 23) - 1;
}

// Returns rating i, of 1 to 5 stars: the product of hidden vectors of 3 floats, the
// biases of user and item, and noise.
static struct rating rating_of(uint64_t i)
{
    struct rating r = {.user = (uint64_t)((random_of(i << 2) + 1) / 2 * (USERS - 1)),
                       .item = (uint64_t)((random_of(i << 2 | 1) + 1) / 2 * (ITEMS - 1))};
    float x = 3.4f + random_of(1000 * r.user << 8) * 0.6f +
              random_of(1000 * r.item << 9) * 0.6f;
    for (uint64_t k = 1; k <= 3; k++)
        x += 1.2f * random_of((1000 * r.user + k) << 8) *
             random_of((1000 * r.item + k) << 9);
    x = roundf(x + 0.9f * random_of(i << 2 | 2));
    r.stars = x < 1 ? 1 : x > 5 ? 5 : x;
    return r;
}

struct batch {
    uint64_t user[BATCH], item[BATCH];
    float u[BATCH][WIDTH], v[BATCH][WIDTH], error[BATCH];
};

// Pulls the rows for n ratings, every `step`-th from `at` on, and computes the errors of
// the predictions.
static int errors_of(struct tug_client *c, struct batch *b, uint64_t at, uint64_t step,
                     size_t n)
{
    uint64_t ts[2];
    int rc;
    for (size_t i = 0; i < n; i++) {
        struct rating r = rating_of(at + i * step);
        b->user[i] = r.user;
        b->item[i] = r.item;
        b->error[i] = r.stars - 3.4f;
    }
    if ((rc = tug_pull(c, OF_USER, b->user, n, b->u[0], NULL, NULL, &ts[0])) != 0 ||
        (rc = tug_pull(c, OF_ITEM, b->item, n, b->v[0], NULL, NULL, &ts[1])) != 0 ||
        (rc = tug_wait(c, ts[0], 0)) != 0 || (rc = tug_wait(c, ts[1], 0)) != 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        b->error[i] -= b->u[i][K] + b->v[i][K];
        for (size_t k = 0; k < K; k++)
            b->error[i] -= b->u[i][k] * b->v[i][k];
    }
    return 0;
}

// Pushes the gradients of half the squared errors; the gradients of a key that repeats
// are added up.
static int learn(struct tug_client *c, struct batch *b, size_t n)
{
    uint64_t ts[2];
    int rc;
    for (size_t i = 0; i < n; i++) {
        float e = b->error[i];
        for (size_t k = 0; k < K; k++) {
            float u = b->u[i][k], v = b->v[i][k];
            b->u[i][k] = 0.05f * u - e * v;
            b->v[i][k] = 0.05f * v - e * u;
        }
        b->u[i][K] = b->v[i][K] = -e;
    }
    if ((rc = tug_push(c, OF_USER, b->user, n, b->u[0], NULL, NULL, &ts[0])) != 0 ||
        (rc = tug_push(c, OF_ITEM, b->item, n, b->v[0], NULL, NULL, &ts[1])) != 0 ||
        (rc = tug_wait(c, ts[0], 0)) != 0)
        return rc;
    return tug_wait(c, ts[1], 0);
}

// Trains on this worker's part of the ratings. Then sums the squared test errors of all
// workers in one row of a table, and sets *ret_rmse.
static int work(struct tug_client *c, struct batch *b, float *ret_rmse)
{
    const uint64_t step = tug_client_workers(c), first = tug_client_rank(c), key = 0;
    float squares[2] = {0};
    uint64_t ts;
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < (uint64_t)SEEN * PASSES; at += BATCH * step)
        if ((rc = errors_of(c, b, first + at % SEEN, step, BATCH)) == 0)
            rc = learn(c, b, BATCH);
    if (rc == 0)
        rc = tug_barrier(c); // all workers have trained
    for (uint64_t i = SEEN + first; rc == 0 && i < SEEN + TEST; i += step, squares[1]++)
        if ((rc = errors_of(c, b, i, 1, 1)) == 0)
            squares[0] += b->error[0] * b->error[0];
    if (rc == 0 && (rc = tug_push(c, OF_ERROR, &key, 1, squares, NULL, NULL, &ts)) == 0)
        rc = tug_wait(c, ts, 0);
    if (rc == 0)
        rc = tug_barrier(c); // all workers have added their errors
    if (rc == 0 && (rc = tug_pull(c, OF_ERROR, &key, 1, squares, NULL, NULL, &ts)) == 0)
        rc = tug_wait(c, ts, 0);
    *ret_rmse = sqrtf(squares[0] / squares[1]);
    return rc;
}

static int worker(const struct tug_client_options *o)
{
    static struct batch b;
    struct tug_client *c;
    float rmse = NAN;
    int rc = tug_client_open(&c, o);
    for (uint32_t t = OF_USER; rc == 0 && t <= OF_ERROR; t++) {
        rc = tug_table_create(c, t,
                              t == OF_ERROR ? "dim = 2; rule = sum"
                                            : "dim = 9; rule = adagrad:lr=0.1; init = 0.3");
    }
    if (rc == 0)
        rc = work(c, &b, &rmse);
    if (rc == 0 && tug_client_rank(c) == 0)
        printf("RMSE %.3f, which is %s %.2f\n", rmse,
               rmse < BOUND ? "below" : "NOT below", BOUND);
    if (rc != 0)
        fprintf(stderr, "%s\n", tug_last_error());
    return tug_client_close(c) != 0 || rc != 0 || !(rmse < BOUND);
}

int main(void)
{
    // tug launch sets DMLC_ROLE; without it this is the only process.
    const char *role = getenv("DMLC_ROLE");
    struct tug_node *n;
    if (role == NULL)
        return worker(&(struct tug_client_options){.local_loops = 2});
    if (role[0] == 'w')
        return worker(NULL);
    if (tug_node_start(&n, NULL) == 0 && tug_node_finalize(n, false) == 0)
        return 0; // served as a server or the scheduler until all workers had left
    fprintf(stderr, "%s\n", tug_last_error());
    return 1;
}
