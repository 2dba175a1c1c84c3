// A second client of the simulated cluster that saves the workers' table while servers die. A
// save has all pushes that were acknowledged before it began, and none that had not been made
// when it ended.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "sim/cluster.h"

static void begins(void *ctx)
{
    struct world *w = ctx;
    // A part of a batch is acknowledged before the batch is applied.
    if (w->mode != WIRE_SYNC)
        memcpy(w->saved, w->acknowledged, sizeof(w->saved));
}

static void check(void *ctx, struct store *in)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < KEYS; i++)
        for (int j = 0; j < WIDTH; j++) {
            const float *row = store_row(in, w->keys[i], NULL);
            int64_t is = row != NULL ? (int64_t)row[j] : 0;
            if (is < w->saved[i][j] || is > w->made[i][j])
                failed(w, "a save has %lld in column %d of key %u: not in %lld..%lld",
                       (long long)is, j, i, (long long)w->saved[i][j],
                       (long long)w->made[i][j]);
        }
}

int world_open_saver(struct world *w, struct err *e)
{
    struct sim_saver_options o = {.seed = w->stage.o->seed,
                                  .dir = w->stage.o->dir,
                                  .config = SUMS_CONFIG,
                                  .table = TABLE,
                                  .partition_bits = BITS,
                                  .bugs = stage_bugs(&w->stage),
                                  .begins = begins,
                                  .check = check,
                                  .ctx = w};
    return sim_saver_open(&w->saver, w->stage.sim, &o, e);
}

// When all workers have died the cluster ends, and the saver's requests would fail.
static bool goes_on(const struct world *w)
{
    uint32_t i = 0;
    while (i < w->n_workers && w->workers[i].c.dead)
        i++;
    return w->saver != NULL && i < w->n_workers && !w->stage.restarted;
}

void world_let_save(struct world *w, bool made)
{
    struct err e;
    if (w->saver != NULL && !goes_on(w))
        sim_saver_kill(w->saver);
    else if (goes_on(w) && !stage_is_down(&w->stage) &&
             sim_saver_step(w->saver, w->stage.scheduler, made, &e) != 0)
        failed(w, "%s", e.text);
}

bool world_saves(const struct world *w)
{
    return goes_on(w) && !sim_saver_is_done(w->saver);
}
