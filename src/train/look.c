// See look.h. Each line of the file of --dump is a JSON object. {"pass", "batch",
// "layers": [...]} has the parameters after this many batches of the run. {"pass",
// "batch", "line", "label", "score", "prediction", ...} has an example of the next batch,
// before the run trains on it.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/look.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "data/input/encode.h"
#include "data/source/paths.h"
#include "model/loss.h"
#include "os/file.h"
#include "os/log.h"
#include "save/save.h"
#include "train/evaluate/groups.h"
#include "train/rows/dense.h"

enum { PIECE = 64, LINE_BYTES = 1 << 16 };

enum kind { FETCH_LOSS, FETCH_AUC, FETCH_LAYER, FETCH_LAYERS, FETCH_ROW };

struct fetched {
    enum kind kind;
    const char *name; // the name as the user gave it
    int len;
    uint64_t key; // for FETCH_ROW: the key of the row
};

struct look {
    const struct train_config *config;
    struct fetched fetched[LOOK_MAX_NAMES];
    size_t n;
    FILE *file;
    struct buf line, keep;
    // How many of an example's kept texts are for --group and are skipped,
    // and how many are dumped.
    size_t skip, columns;
    float *dense;
    struct model_work work;
    struct view view;
    uint64_t *order;
};

// ---------------------------------------------------------- parsing the names of --fetch

// Returns the next layer from parameter *at on, and advances *at past it. Returns false
// if there is no further layer.
static bool next_layer(const struct model *m, size_t *at, size_t *ret_first,
                       char ret_name[MODEL_LAYER_NAME_MAX])
{
    char name[MODEL_LAYER_NAME_MAX];
    size_t n = model_dense(m);
    for (*ret_name = '\0'; *at < n; ++*at) { // skip padding at the end of a block
        model_dense_name(m, *at, ret_name);
        if (*ret_name != '\0')
            break;
    }
    *ret_first = *at;
    if (*at >= n)
        return false;
    do {
        ++*at;
        if (*at < n)
            model_dense_name(m, *at, name);
    } while (*at < n && strcmp(name, ret_name) == 0);
    return true;
}

static bool is_layer(const struct model *m, const char *name, size_t len)
{
    char layer[MODEL_LAYER_NAME_MAX];
    size_t at = 0, first;
    while (next_layer(m, &at, &first, layer))
        if (strlen(layer) == len && memcmp(layer, name, len) == 0)
            return true;
    return false;
}

static int no_name(const struct run *r, const struct fetched *f, struct err *e)
{
    struct buf b = BUF_INIT(1 << 12);
    char layer[MODEL_LAYER_NAME_MAX];
    size_t at = 0, first;
    const char *names = "";
    while (next_layer(r->model, &at, &first, layer))
        (void)buf_printf(&b, ", '%s'", layer);
    if (buf_str(&b) != NULL)
        names = buf_str(&b);
    int rc = err_set(e, TUG_EUSAGE,
                     "--fetch: there is no '%.*s'; give loss, auc%s, layers (all of "
                     "them), COLUMN=WORD or the key of a row",
                     f->len, f->name, names);
    buf_free(&b);
    return rc;
}

// Finds the key of COLUMN=WORD, or of a key in digits.
static int find_row(const struct run *r, struct fetched *f, struct err *e)
{
    const char *equals = memchr(f->name, '=', (size_t)f->len);
    struct reader_word w;
    uint32_t slot;
    if (equals == NULL) {
        uint64_t key = 0;
        for (int i = 0; i < f->len; i++) {
            if (f->name[i] < '0' || f->name[i] > '9' || key > UINT64_MAX / 10)
                return no_name(r, f, e);
            key = key * 10 + (uint64_t)(f->name[i] - '0');
        }
        f->key = key;
        return 0;
    }
    size_t column = (size_t)(equals - f->name), word = (size_t)f->len - column - 1;
    int rc = reader_find_slot(r->reader, f->name, column, reader_slots(r->reader), &slot,
                              e);
    if (rc == 0)
        rc = reader_word(r->reader, slot, equals + 1, word, &w, e);
    f->key = rc == 0 ? w.key : 0;
    return rc == 0 ? 0 : err_wrap(e, "--fetch");
}

static bool is(const struct fetched *f, const char *name)
{
    return (size_t)f->len == strlen(name) && memcmp(f->name, name, (size_t)f->len) == 0;
}

static int parse_name(const struct run *r, struct fetched *f, struct err *e)
{
    f->kind = is(f, "loss")                                 ? FETCH_LOSS
              : is(f, "auc")                                ? FETCH_AUC
              : is(f, "layers")                             ? FETCH_LAYERS
              : is_layer(r->model, f->name, (size_t)f->len) ? FETCH_LAYER
                                                            : FETCH_ROW;
    return f->kind == FETCH_ROW ? find_row(r, f, e) : 0;
}

static int look_parse(struct look *l, const struct run *r, struct err *e)
{
    const char *list = r->config->fetch, *name;
    size_t len;
    while (reader_next_name(&list, &name, &len)) {
        for (; len > 0 && *name == ' '; len--)
            name++;
        if (l->n == LOOK_MAX_NAMES)
            return err_set(e, TUG_EUSAGE, "--fetch takes at most %d names",
                           LOOK_MAX_NAMES);
        struct fetched *f = &l->fetched[l->n++];
        *f = (struct fetched){.name = name, .len = (int)len};
        TRY(parse_name(r, f, e));
    }
    return 0;
}

// ------------------------------------------------------------ opening and closing a look

int look_check_dump(const char *path, const struct data_files *read, struct err *e)
{
    if (path == NULL)
        return 0;
    TRY(encoder_check_name("--dump", path, true, e));
    TRY(save_check_output("--dump", path, e));
    if (!data_files_has(read, path))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--dump: '%s' is a file that this run reads, and would be "
                   "overwritten: give another one",
                   path);
}

static int open_file(struct look *l, const struct run *r, struct err *e)
{
    const char *path = r->config->dump;
    if (path == NULL)
        return 0;
    l->file = file_open_text(path, !r->resumes);
    return l->file != NULL ? 0 : err_sys(e, TUG_EIO, "--dump: cannot write '%s'", path);
}

int look_open(struct look **ret, const struct run *r, struct err *e)
{
    const struct train_config *c = r->config;
    *ret = NULL;
    if (c->fetch == NULL && c->dump == NULL)
        return 0;
    if (c->dump != NULL && r->model->options.tasks > 1)
        return err_set(e, TUG_EUSAGE, "--dump works only for models with one label");
    struct look *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "looking into the model");
    l->config = c;
    l->line = BUF_INIT(LINE_BYTES);
    l->keep = BUF_INIT(LINE_BYTES);
    l->columns = groups_of(c->dump_fields, 0).columns;
    l->dense = dense_floats(r->model);
    l->order = mem_array(c->batch, sizeof(*l->order));
    int rc = l->dense != NULL && l->order != NULL
                 ? 0
                 : err_nomem(e, "looking into the model");
    if (rc == 0)
        rc = model_work_open(&l->work, r->model, e);
    l->work.dense = l->dense;
    if (rc == 0)
        rc = look_parse(l, r, e);
    if (rc == 0)
        rc = open_file(l, r, e);
    if (rc == 0)
        *ret = l;
    else
        look_close(l);
    return rc;
}

void look_close(struct look *l)
{
    if (l == NULL)
        return;
    if (l->file != NULL)
        fclose(l->file); // look_now has flushed it
    view_free(&l->view);
    model_work_close(&l->work);
    buf_free(&l->line);
    buf_free(&l->keep);
    mem_free(l->dense);
    mem_free(l->order);
    mem_free(l);
}

const char *look_keep(struct look *l, const char *group)
{
    if (l == NULL || l->columns == 0)
        return group;
    buf_clear(&l->keep);
    l->skip = groups_of(group, 0).columns;
    int rc = buf_printf(&l->keep, "%s%s%s", group != NULL ? group : "",
                        group != NULL ? "," : "", l->config->dump_fields);
    return rc == 0 ? buf_str(&l->keep) : group;
}

// -------------------------------------------------------- printing the values of --fetch

struct shape {
    double mean, norm, min, max;
};

static struct shape shape_of(const float *x, size_t n)
{
    struct shape s = {.min = (double)INFINITY, .max = -(double)INFINITY};
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        s.mean += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        s.min = (double)x[i] < s.min ? (double)x[i] : s.min;
        s.max = (double)x[i] > s.max ? (double)x[i] : s.max;
    }
    s.mean /= n > 0 ? (double)n : 1;
    s.norm = sqrt(squares);
    return s;
}

static int fetch_layers(struct look *l, const struct run *r, const struct fetched *f)
{
    char name[MODEL_LAYER_NAME_MAX];
    size_t at = 0, first;
    while (next_layer(r->model, &at, &first, name)) {
        if (f->kind == FETCH_LAYER && !is(f, name))
            continue;
        struct shape s = shape_of(l->dense + first, at - first);
        TRY(at - first == 1
                ? buf_printf(&l->line, "  %s %.5g", name, s.mean)
                : buf_printf(&l->line, "  %s norm %.5g mean %.5g min %.5g max %.5g", name,
                             s.norm, s.mean, s.min, s.max));
    }
    return 0;
}

static int fetch_row(struct look *l, const struct run *r, const struct fetched *f)
{
    const struct accessor_group *g = r->model->accessor.groups;
    uint32_t handle;
    table_find(r->parameters.sparse, &f->key, 1, &handle);
    if (handle == TABLE_NONE)
        return buf_printf(&l->line, "  %.*s has no row", f->len, f->name);
    const float *row = table_row(table_slabs(r->parameters.sparse), handle);
    if (r->driver != NULL && row[r->model->accessor.count] == 0)
        return buf_printf(&l->line, "  %.*s has no row yet", f->len, f->name);
    struct shape s = shape_of(row + g->weights, g->n);
    TRY(buf_printf(&l->line, "  %.*s weight %.5g", f->len, f->name,
                   g->n == 1 ? s.mean : s.norm));
    if (r->model->accessor.n_groups < 2)
        return 0;
    return buf_printf(&l->line, " vector %.5g",
                      shape_of(row + g[1].weights, g[1].n).norm);
}

// Appends a metric. The metric may be missing, because in sync mode the workers of a
// cluster report metrics only at the end of a pass.
static int fetch_metric(struct look *l, const struct metrics *seen, const char *name,
                        double x)
{
    if (seen->examples == 0)
        return buf_printf(&l->line, "  %s not known yet", name);
    return isfinite(x) ? buf_printf(&l->line, "  %s %.5f", name, x)
                       : buf_printf(&l->line, "  %s none", name);
}

static int fetch(struct look *l, const struct run *r, const struct metrics *seen)
{
    buf_clear(&l->line);
    TRY(buf_printf(&l->line, "fetch  pass %u batch %llu", r->at.epoch + 1,
                   (unsigned long long)r->at.batches));
    for (size_t i = 0; i < l->n; i++) {
        const struct fetched *f = &l->fetched[i];
        if (f->kind == FETCH_LOSS)
            TRY(fetch_metric(l, seen, "loss", seen->logloss));
        else if (f->kind == FETCH_AUC)
            TRY(fetch_metric(l, seen, "auc", seen->auc));
        else
            TRY(f->kind == FETCH_ROW ? fetch_row(l, r, f) : fetch_layers(l, r, f));
    }
    if (l->n > 0 && buf_str(&l->line) != NULL)
        log_info("%s", buf_str(&l->line));
    return 0;
}

// ------------------------------------------------------------ writing the file of --dump

static int begin_line(struct look *l, const struct run *r)
{
    buf_clear(&l->line);
    return buf_printf(&l->line, "{\"pass\":%u,\"batch\":%llu", r->at.epoch + 1,
                      (unsigned long long)r->at.batches);
}

static int add_number(struct look *l, const char *name, double x)
{
    TRY(buf_printf(&l->line, ",\"%s\":", name));
    return buf_json_number(&l->line, 9, x);
}

static int end_line(struct look *l)
{
    TRY(buf_add(&l->line, "}\n", 2));
    // look_now checks for errors when it flushes
    (void)fwrite(l->line.data, 1, l->line.len, l->file);
    return 0;
}

static int dump_layers(struct look *l, const struct run *r)
{
    char name[MODEL_LAYER_NAME_MAX];
    size_t at = 0, first;
    TRY(begin_line(l, r));
    TRY(buf_printf(&l->line, ",\"layers\":["));
    while (next_layer(r->model, &at, &first, name)) {
        struct shape s = shape_of(l->dense + first, at - first);
        TRY(buf_printf(&l->line, "%s{\"name\":", first > 0 ? "," : ""));
        TRY(buf_json(&l->line, name));
        TRY(buf_printf(&l->line, ",\"floats\":%zu", at - first));
        TRY(add_number(l, "mean", s.mean));
        TRY(add_number(l, "norm", s.norm));
        TRY(add_number(l, "min", s.min));
        TRY(add_number(l, "max", s.max));
        TRY(buf_add(&l->line, "}", 1));
    }
    TRY(buf_add(&l->line, "]", 1));
    return end_line(l);
}

static int dump_fields(struct look *l, const char *kept)
{
    const char *names = l->config->dump_fields, *name;
    size_t len;
    for (size_t i = 0; i < l->skip; i++)
        kept += strlen(kept) + 1;
    while (reader_next_name(&names, &name, &len)) {
        char text[256];
        snprintf(text, sizeof(text), "%.*s", (int)len, name);
        TRY(buf_add(&l->line, ",", 1));
        TRY(buf_json(&l->line, text));
        TRY(buf_add(&l->line, ":", 1));
        TRY(buf_json(&l->line, kept));
        kept += strlen(kept) + 1;
    }
    return 0;
}

static int dump_example(struct look *l, const struct run *r, uint64_t example, size_t i,
                        float score)
{
    enum loss loss = r->config->reader.loss;
    uint32_t file;
    uint64_t line;
    char where[FILE_PATH_MAX + 32];
    dataset_where(r->data, example, &file, &line);
    snprintf(where, sizeof(where), "%s:%llu", source_file_name(r->source, file),
             (unsigned long long)line);
    TRY(begin_line(l, r));
    TRY(buf_printf(&l->line, ",\"line\":"));
    TRY(buf_json(&l->line, where));
    TRY(add_number(l, "label", (double)l->view.batch.label[i]));
    TRY(add_number(l, "score", (double)score));
    TRY(add_number(l, "prediction", loss_prediction(loss, score)));
    if (l->columns > 0)
        TRY(dump_fields(l, dataset_kept(r->data, example)));
    return end_line(l);
}

static int dump_examples(struct look *l, struct run *r)
{
    uint64_t batch = r->config->batch;
    size_t n = run_pick(&r->local.workers[0], r->at.batch * batch, batch, l->order);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t some = n - at < PIECE ? n - at : PIECE;
        float scores[PIECE];
        TRY(view_take(&l->view, r->data, l->order + at, some, &r->parameters, NULL));
        struct model_batch b = view_batch(&l->view);
        TRY(model_scores(&l->work, &b, scores));
        for (size_t i = 0; i < some; i++)
            TRY(dump_example(l, r, l->order[at + i], i, l->dense[0] + scores[i]));
    }
    return 0;
}

size_t look_keys(const struct look *l, uint64_t ret[LOOK_MAX_NAMES])
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->fetched[i].kind == FETCH_ROW)
            ret[n++] = l->fetched[i].key;
    return n;
}

int look_now(struct look *l, struct run *r, const struct metrics *seen, struct err *e)
{
    dense_read(r->model, r->parameters.blocks, l->dense);
    int rc = fetch(l, r, seen);
    if (rc == 0 && l->file != NULL)
        rc = dump_layers(l, r);
    if (rc == 0 && l->file != NULL && r->driver == NULL)
        rc = dump_examples(l, r);
    if (rc != 0)
        return err_set(e, rc, "looking into the model: %s", err_text(rc));
    if (l->file != NULL && (fflush(l->file) != 0 || ferror(l->file)))
        return err_sys(e, TUG_EIO, "--dump: cannot write '%s'", l->config->dump);
    return 0;
}
