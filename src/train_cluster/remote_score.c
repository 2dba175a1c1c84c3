// A worker scores pieces of --valid and --test, by rows that it pulls from the servers,
// and reports the results to the driver.
//
// Pieces are small, so that the result of one fits into a message.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "train/evaluate/evaluate.h"
#include "train/fields.h"
#include "train/heads.h"
#include "train_cluster/remote.h"
#include "train_cluster/remote_rows.h"

enum { SCORE_PIECE_BYTES = 256 << 10 };

struct remote_score {
    struct pieces *valid, *test;
    struct parameters cache;
    struct remote_rows rows;
    pthread_mutex_t lock;
    uint64_t pass; // the pass whose rows the cache has; 0: the cache is empty
    bool test_pass;
    struct numbering found; // numbering of the keys of the current piece
};

static int open_pieces(const struct remote_worker *w, const struct path_list *paths,
                       const char *option, struct pieces **ret, struct err *e)
{
    struct pieces_options o = {.paths = paths->items,
                               .n_paths = paths->n,
                               .command = paths->command,
                               .piece_bytes = SCORE_PIECE_BYTES,
                               .interrupted = w->config->interrupted};
    if (paths->n == 0)
        return 0;
    TRY(heads_check(w->config, w->reader, paths, option, e));
    return pieces_open(ret, &o, e);
}

int remote_score_open(struct remote_worker *w, struct err *e)
{
    const struct train_config *c = w->config;
    if (!c->cluster->workers_score)
        return 0;
    struct remote_score *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "an evaluation");
    pthread_mutex_init(&s->lock, NULL);
    w->score = s;
    TRY(open_pieces(w, &c->valid, "--valid", &s->valid, e));
    return open_pieces(w, &c->test, "--test", &s->test, e);
}

void remote_score_close(struct remote_worker *w)
{
    struct remote_score *s = w->score;
    if (s == NULL)
        return;
    pieces_close(s->valid);
    pieces_close(s->test);
    parameters_close(&s->cache);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
    w->score = NULL;
}

static uint32_t files_of(const struct pieces *p)
{
    return p != NULL ? (uint32_t)pieces_files(p) : 0;
}

const struct pieces *remote_score_pieces(const struct remote_worker *w, bool test)
{
    return w->score == NULL ? NULL : test ? w->score->test : w->score->valid;
}

// Returns the files of --valid or --test that contain the leased file number *file, and
// makes *file an index into them; NULL if neither does. The numbers count the files to train
// on first, then the buckets, then --valid and --test.
static struct pieces *remote_score_find(const struct remote_worker *w, uint32_t *file)
{
    const struct remote_score *s = w->score;
    uint32_t first = (uint32_t)pieces_files(w->pieces) + (w->dealt != NULL);
    if (s == NULL || *file < first)
        return NULL;
    *file -= first;
    if (*file < files_of(s->valid))
        return s->valid;
    *file -= files_of(s->valid);
    return *file < files_of(s->test) ? s->test : NULL;
}

bool remote_score_has(const struct remote_worker *w, uint32_t file)
{
    return remote_score_find(w, &file) != NULL;
}

// Opens the cache for the rows of a pass, and drops those of an earlier pass.
static int remote_score_begin(struct remote_worker *w, const struct msg_leased *l,
                              bool test, struct err *e)
{
    struct remote_score *s = w->score;
    struct client *c = w->remote.client;
    bool best = l->what == WIRE_LEASE_SCORE_BEST;
    if (s->pass == l->pass && s->test_pass == test)
        return 0;
    for (int dense = 0; dense < 2 && best; dense++) {
        uint32_t copy = remote_number(dense, true);
        client_ts ts = client_spec(c, copy) == NULL ? client_info(c, NULL, copy, NULL, e)
                                                    : 0;
        if (client_spec(c, copy) == NULL)
            TRY(ts != 0 ? client_wait(c, ts, e) : e->code);
    }
    s->pass = 0;
    parameters_close(&s->cache);
    TRY(parameters_open(&s->cache, &w->model.options, e));
    s->rows = (struct remote_rows){.client = c,
                                   .cache = &s->cache,
                                   .offset = best ? EXCHANGE_BEST : 0,
                                   .lock = &s->lock};
    TRY(remote_rows_begin(&s->rows, e));
    s->pass = l->pass;
    s->test_pass = test;
    return 0;
}

static int remote_score_resolve(void *ctx, const uint64_t *keys, size_t n,
                                uint32_t *ret_ids)
{
    struct remote_score *s = ctx;
    numbering_add(&s->found, keys, n);
    return remote_rows_resolve(&s->rows, keys, n, ret_ids);
}

static int remote_score_load(struct remote_worker *w, struct pieces *p, uint32_t file,
                             uint64_t index, uint64_t *bad_lines, struct dataset **ret,
                             struct err *e)
{
    struct remote_score *s = w->score;
    s->found = (struct numbering){0};
    struct dataset_options o = {
        .reader = w->reader,
        .team = w->team,
        .resolve = remote_score_resolve,
        .resolve_ctx = s,
        .max_bad_lines = w->config->max_bad_lines,
        .bad_lines = bad_lines,
        .keep = w->config->group,
        .keep_option = "--group",
    };
    int rc = dataset_load_piece(ret, &o, p, file, index, e);
    rc = remote_rows_reason(&s->rows, rc, e);
    return rc != 0 ? rc : fields_check(*ret, NULL, p, &w->model.options, &s->found, e);
}

static int remote_score_batch(struct remote_worker *w, const struct dataset *d,
                              struct evaluated ret[MODEL_MAX_TASKS], struct err *e)
{
    struct evaluation_options o = {
        .team = w->team,
        .parameters = &w->score->cache,
        .data = d,
        .reader = w->reader,
        .loss = w->config->reader.loss,
        .group = w->config->group,
    };
    return evaluate_part(&o, ret, e);
}

static int remote_score_tell(struct remote_worker *w, const struct msg_leased *l,
                             const struct evaluated *found, bool at_end, struct err *e)
{
    struct buf b = BUF_INIT(WIRE_BYTES_MAX);
    uint32_t tasks = w->model.options.tasks;
    int rc = evaluated_write(&found[0], &b);
    for (uint32_t t = 1; t < tasks && rc == 0; t++)
        rc = evaluated_write(&found[t], &b);
    if (rc == TUG_EDATA)
        err_set(e, rc,
                "%llu examples in %d KiB of text are more than a worker can report: use "
                "--score-by driver",
                (unsigned long long)found->n, SCORE_PIECE_BYTES >> 10);
    else if (rc != 0)
        err_nomem(e, "a report");
    struct msg_piece_done m = {.what = l->what,
                               .pass = l->pass,
                               .file = l->file,
                               .index = l->index,
                               .at_end = at_end,
                               .examples = found->places,
                               .report = {b.data, (uint32_t)b.len}};
    if (rc == 0)
        rc = remote_tell_done(w, &m, e);
    buf_free(&b);
    // Waits during scoring do not count as waits in training.
    w->waited_ns = client_stats(w->remote.client).waited_ns;
    return rc;
}

int remote_score_piece(struct remote_worker *w, const struct msg_leased *l, struct err *e)
{
    uint32_t file = l->file;
    struct pieces *p = remote_score_find(w, &file);
    struct dataset *d = NULL;
    struct evaluated found[MODEL_MAX_TASKS] = {0};
    uint64_t bad_lines = 0;
    TRY(remote_score_begin(w, l, p == w->score->test, e));
    int rc = remote_score_load(w, p, file, l->index, &bad_lines, &d, e);
    if (rc == 0)
        rc = remote_score_batch(w, d, found, e);
    found[0].bad_lines = bad_lines;
    numbering_copy(&found[0].keys, &w->score->found);
    if (rc == 0)
        rc = remote_score_tell(w, l, found, dataset_at_end(d), e);
    for (int t = 0; t < MODEL_MAX_TASKS; t++)
        evaluated_free(&found[t]);
    dataset_close(d);
    return rc;
}
