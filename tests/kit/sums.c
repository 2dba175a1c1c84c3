// See sums.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/sums.h"

#include <string.h>

#include "base/random.h"

int sums_open(struct sums *s, struct err *e)
{
    struct roots_options o = {.save = s->dir};
    for (uint64_t i = 0; i < s->n_keys; i++)
        s->keys[i] = random_u64(5, 6, i);
    return roots_open(&s->roots, &o, e);
}

struct shard_options sums_server(const struct sums *s)
{
    return (struct shard_options){
        // The shortest slices, so that they do not depend on the machine's speed.
        .slice_ns = 1,
        .save_timeout_ns = 200 * SECOND,
        .roots = s->roots,
        .without_threads = true,
    };
}

static int64_t row_in(struct sums *s, struct store *in, uint32_t key)
{
    const float *row = store_row(in, s->keys[key], NULL);
    return row != NULL ? (int64_t)*row : 0;
}

// Checks a save of the other saver: values have only grown since the last save of this
// saver, and are at most the sums of all pushes.
static void check_other(void *ctx, struct store *in)
{
    struct sums *s = ctx;
    for (uint32_t i = 0; i < s->n_keys; i++) {
        int64_t is = row_in(s, in, i), most = s->most(s->ctx, i);
        if (is < s->saved[i] || is > most)
            stage_failed(s->stage,
                         "the other's save has %lld of key %u, not %lld to %lld",
                         (long long)is, i, (long long)s->saved[i], (long long)most);
        s->saved[i] = is;
    }
}

int sums_open_other(struct sums *s, struct err *e)
{
    struct sim_saver_options o = {
        .seed = s->stage->o->seed + s->stage->lives,
        .dir = s->dir,
        .config = SUMS_CONFIG,
        .table = SUMS_TABLE,
        .partition_bits = SUMS_BITS,
        .bugs = stage_bugs(s->stage),
        .check = check_other,
        .ctx = s,
    };
    return sim_saver_open(&s->other, s->stage->sim, &o, e);
}

void sums_step(struct sums *s, bool made)
{
    struct err e;
    if (stage_is_down(s->stage))
        return;
    if (sim_saver_step(s->other, s->stage->scheduler, made, &e) != 0)
        stage_failed(s->stage, "%s", e.text);
}

void sums_leave(struct sums *s)
{
    sim_saver_close(s->other);
    s->other = NULL;
}

static void forget_manifest(struct sums *s)
{
    if (s->manifest.locked)
        save_abort(s->dir, &s->manifest);
    save_manifest_free(&s->manifest);
    s->manifest = (struct save_manifest){0};
}

void sums_drop_save(struct sums *s)
{
    forget_manifest(s);
}

void sums_crash(struct sums *s)
{
    sums_leave(s);
    forget_manifest(s);
    memset(s->saved, 0, sizeof(s->saved));
}

void sums_close(struct sums *s)
{
    roots_close(s->roots);
    forget_manifest(s);
    sim_remove_saves(s->dir);
}

// -------------------------------------------------- the save that the world makes itself

client_ts sums_begin_save(struct sums *s, struct stage_client *c, uint64_t id,
                          enum save_mode mode)
{
    struct err *e = &s->stage->said;
    s->manifest = (struct save_manifest){0};
    if (save_begin(s->dir, mode, &s->manifest, s->path, e) != 0) {
        stage_failed(s->stage, "a save: %s", e->text);
        return 0;
    }
    return bug_in(stage_bugs(s->stage), WITHOUT_TURNS)
               ? 0
               : stage_begun(c, client_save_turn(c->client, id, e), "the turn of a save");
}

client_ts sums_save(struct sums *s, struct stage_client *c, struct client_save *o)
{
    o->mode = s->manifest.mode;
    o->path = strrchr(s->path, '/') + 1;
    return stage_begun(c, client_save(c->client, o, &s->manifest, &s->stage->said),
                       "a save");
}

client_ts sums_end_save(struct sums *s, struct stage_client *c, uint64_t id)
{
    struct err *e = &s->stage->said;
    if (s->commits && save_commit(s->dir, &s->manifest, 0, e) != 0) {
        stage_failed(s->stage, "committing a save: %s", e->text);
        return 0;
    }
    return stage_begun(c, client_save_end(c->client, id, s->commits, 0, e),
                       "the end of a save");
}

void sums_forget_save(struct sums *s, uint64_t id,
                      void (*holds)(void *ctx, uint32_t key, int64_t *least,
                                    int64_t *most))
{
    struct store *in = NULL;
    struct err *e = &s->stage->said;
    if (!s->commits)
        save_abort(s->dir, &s->manifest);
    else if (sim_load(&in, s->path, SUMS_CONFIG, SUMS_BITS, e) != 0)
        stage_failed(s->stage, "loading save %llu: %s", (unsigned long long)id, e->text);
    for (uint32_t i = 0; in != NULL && i < s->n_keys; i++) {
        int64_t is = row_in(s, in, i), least = 0, most = 0;
        holds(s->ctx, i, &least, &most);
        if (is < least || is > most)
            stage_failed(s->stage, "save %llu has %lld of key %u, not %lld to %lld",
                         (unsigned long long)id, (long long)is, i, (long long)least,
                         (long long)most);
    }
    store_close(in);
    save_manifest_free(&s->manifest);
    s->manifest = (struct save_manifest){0};
}
