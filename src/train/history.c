// See history.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/history.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/input/encode.h"
#include "data/source/paths.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/log.h"
#include "save/save.h"

// The beginning of each line of a history. A file that begins differently may be the
// user's own and is not overwritten.
#define HISTORY_BEGIN "{\"pass\":"
enum { HISTORY_BYTES = 1 << 30 }; // the greatest size of a history file that is read

void history_free(struct history *h)
{
    mem_free(h->pass);
    if (h->stream > 0)
        close(h->stream);
    *h = (struct history){0};
}

int history_add(struct history *h, const struct history_pass *p, struct err *e)
{
    if (mem_room(&h->pass, &h->cap, h->n + 1) != 0)
        return err_nomem(e, "the record of passes");
    h->pass[h->n++] = *p;
    return 0;
}

void history_cut(struct history *h, uint32_t passes)
{
    while (h->n > 0 && h->pass[h->n - 1].pass > passes)
        h->n--;
}

struct history_score history_score(const struct metrics *m)
{
    return (struct history_score){m->examples, m->logloss, m->auc};
}

// --------------------------------------------------------------- writing records as JSON

static json_t *valid_to_json(const struct history_pass *p, uint32_t label)
{
    const struct history_score *v = &p->valid[label];
    if (!p->validated)
        return json_null();
    return json_pack("{s:I, s:o, s:o}", "examples", (json_int_t)v->examples, "loss",
                     json_real_or_null(v->loss), "auc", json_real_or_null(v->auc));
}

static json_t *labels_to_json(const struct history *h, const struct history_pass *p)
{
    json_t *all = json_object();
    for (uint32_t k = 0; k < h->labels; k++) {
        const struct history_score *s = &p->seen[k];
        json_object_set_new(
            all, h->label[k],
            json_pack("{s:I, s:o, s:o, s:o}", "examples", (json_int_t)s->examples, "loss",
                      json_real_or_null(s->loss), "auc", json_real_or_null(s->auc),
                      "valid", valid_to_json(p, k)));
    }
    return all;
}

json_t *history_pass_to_json(const struct history *h, const struct history_pass *p)
{
    json_t *o = json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "pass",
                          (json_int_t)p->pass, "examples", (json_int_t)p->examples,
                          "loss", json_real_or_null(p->seen[0].loss), "auc",
                          json_real_or_null(p->seen[0].auc), "valid", valid_to_json(p, 0),
                          "seconds", json_real_or_null(p->seconds), "best", p->best);
    if (o != NULL && h->labels > 1)
        json_object_set_new(o, "labels", labels_to_json(h, p));
    return o;
}

json_t *history_to_json(const struct history *h)
{
    json_t *all = json_array();
    for (size_t i = 0; i < h->n; i++)
        json_array_append_new(all, history_pass_to_json(h, &h->pass[i]));
    return all;
}

static int put_lines(const struct history *h, size_t from, struct buf *to, struct err *e)
{
    json_begin();
    for (size_t i = from; i < h->n; i++) {
        json_t *o = history_pass_to_json(h, &h->pass[i]);
        char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
        int rc = text != NULL && !json_memory_failed() ? buf_printf(to, "%s\n", text)
                                                       : TUG_ENOMEM;
        mem_free(text);
        json_decref(o);
        if (rc != 0)
            return err_nomem(e, "the record of passes");
    }
    return 0;
}

static int history_write_file(const struct history *h, const char *path, struct err *e)
{
    struct buf b = BUF_INIT(HISTORY_BYTES);
    struct file_writer *w = NULL;
    int rc = put_lines(h, 0, &b, e);
    if (rc == 0)
        rc = file_create(&w, path, e);
    if (rc == 0 && b.len > 0)
        rc = file_write(w, b.data, b.len, e);
    buf_free(&b);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

// ------------------------------------------------------------- reading records from JSON

static double real_or_nan(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static struct history_score read_score(struct json_fields *f, const json_t *o)
{
    return (struct history_score){json_read_int(f, o, "examples", INT64_MAX),
                                  real_or_nan(o, "loss"), real_or_nan(o, "auc")};
}

static void read_label(struct json_fields *f, const json_t *o, uint32_t k,
                       struct history_pass *p)
{
    const json_t *valid = json_object_get(o, "valid");
    p->seen[k] = read_score(f, o);
    if (p->validated)
        p->valid[k] = read_score(f, valid);
}

static void name_label(struct history *h, const char *name)
{
    if (h->labels < LABELS_MAX)
        snprintf(h->label[h->labels++], TRAIN_LABEL_MAX, "%.*s", TRAIN_LABEL_MAX - 1,
                 name);
}

static void read_labels(struct history *h, struct json_fields *f, json_t *labels,
                        struct history_pass *p)
{
    const char *name;
    json_t *one;
    uint32_t k = 0;
    bool first = h->n == 0;
    if (first)
        h->labels = 0;
    json_object_foreach(labels, name, one) {
        if (first)
            name_label(h, name);
        if (k < h->labels)
            read_label(f, one, k++, p);
    }
}

static int read_pass(struct history *h, const char *line, size_t n, const char *path,
                     struct err *e)
{
    struct json_fields f = {.path = path, .e = e};
    struct history_pass p = {0};
    json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *labels = json_object_get(o, "labels");
    p.pass = (uint32_t)json_read_int(&f, o, "pass", INT32_MAX);
    p.examples = json_read_int(&f, o, "examples", INT64_MAX);
    p.seconds = real_or_nan(o, "seconds");
    p.best = json_is_true(json_object_get(o, "best"));
    p.validated = json_is_object(json_object_get(o, "valid"));
    if (p.pass == 0 || (h->n > 0 && p.pass <= h->pass[h->n - 1].pass))
        json_complain(&f, "pass", "is out of order");
    if (h->n == 0)
        h->labels = 1;
    read_label(&f, o, 0, &p);
    if (json_is_object(labels))
        read_labels(h, &f, labels, &p);
    json_decref(o);
    return f.rc == 0 ? history_add(h, &p, e) : f.rc;
}

static int read_lines(struct history *h, const char *text, size_t length,
                      const char *path, struct err *e)
{
    json_begin();
    for (const char *at = text, *end = at + length; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line != NULL ? line : end) - at);
        TRY(read_pass(h, at, n, path, e));
        at += n + 1;
    }
    return 0;
}

// ------------------------------------------------- the record in the directory of a save

int history_write(const struct history *h, const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_join(path, dir, SAVE_HISTORY, e));
    return history_write_file(h, path, e);
}

int history_load(struct history *ret, const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    struct buf b = BUF_INIT(HISTORY_BYTES);
    struct err why;
    *ret = (struct history){0};
    TRY(file_join(path, dir, SAVE_HISTORY, e));
    if (!file_exists(path))
        return 0;
    int rc = file_read(path, &b, &why);
    if (rc == 0 && b.len > 0)
        rc = read_lines(ret, b.data, b.len, path, &why);
    buf_free(&b);
    if (rc == 0)
        return 0;
    history_free(ret);
    if (rc == TUG_ENOMEM)
        return err_nomem(e, "the record of passes");
    log_warn("%s; a new record of passes begins", why.text);
    return 0;
}

int history_print(const struct history *h, struct buf *to, struct err *e)
{
    return put_lines(h, 0, to, e);
}

int history_parse(struct history *ret, const char *text, size_t n, const char *name,
                  struct err *e)
{
    *ret = (struct history){0};
    int rc = read_lines(ret, text, n, name, e);
    if (rc != 0)
        history_free(ret);
    return rc;
}

// The functions below serve --history FILE.

static bool is_stream(const struct stat *s)
{
    return S_ISFIFO(s->st_mode) || S_ISCHR(s->st_mode);
}

static int read_begin(const char *path, const struct stat *s, bool *ret_ours,
                      struct err *e)
{
    char begin[sizeof(HISTORY_BEGIN) - 1];
    *ret_ours = !S_ISREG(s->st_mode) || s->st_size == 0;
    if (*ret_ours)
        return 0;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return err_sys(e, TUG_EIO, "--history: cannot read '%s'", path);
    size_t n = fread(begin, 1, sizeof(begin), f);
    fclose(f);
    *ret_ours = n == sizeof(begin) && memcmp(begin, HISTORY_BEGIN, n) == 0;
    return 0;
}

int history_check_file(const char *path, const struct data_files *read, bool continues,
                       struct err *e)
{
    struct stat s;
    bool ours;
    if (path == NULL)
        return 0;
    TRY(encoder_check_name("--history", path, true, e));
    TRY(save_check_output("--history", path, e));
    if (stat(path, &s) != 0)
        return 0; // the error comes when the file is written
    if (!S_ISREG(s.st_mode) && !is_stream(&s))
        return err_set(e, TUG_EUSAGE,
                       "--history: '%s' is neither a file, nor a pipe, "
                       "nor a terminal: give another one",
                       path);
    if (data_files_has(read, path))
        return err_set(e, TUG_EUSAGE,
                       "--history: this run reads '%s' and would overwrite it: give "
                       "another file",
                       path);
    TRY(read_begin(path, &s, &ours, e));
    if (!ours)
        return err_set(e, TUG_EUSAGE,
                       "--history: '%s' is not empty, and is not the history of a "
                       "run: give another file, or remove it",
                       path);
    return !S_ISREG(s.st_mode) || s.st_size == 0 || continues
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "--history: '%s' already holds the history of another run: give "
                         "another file, remove it, or continue that run with --resume",
                         path);
}

static int write_lines(const struct history *h, size_t from, int fd, const char *path,
                       struct err *e)
{
    struct buf b = BUF_INIT(HISTORY_BYTES);
    int rc = put_lines(h, from, &b, e);
    struct iovec line = {b.data, b.len};
    ssize_t done = 0;
    if (rc == 0 && b.len > 0)
        done = h->stream > 0 ? disk_write_pipe(fd, &line, 1) : disk_write(fd, &line, 1);
    if (rc == 0 && done != (ssize_t)b.len)
        rc = err_sys(e, TUG_EIO, "--history: cannot write '%s'", path);
    buf_free(&b);
    return rc;
}

int history_begin_file(struct history *h, const char *path, struct err *e)
{
    struct stat s;
    if (path == NULL)
        return 0;
    if (stat(path, &s) != 0 || !is_stream(&s))
        return history_write_file(h, path, e);
    TRY(file_open_stream(path, "--history", &h->stream, e));
    return write_lines(h, 0, h->stream, path, e);
}

int history_append(const struct history *h, const char *path, struct err *e)
{
    char target[PATH_MAX]; // the file that a symbolic link leads to
    if (path == NULL || h->n == 0)
        return 0;
    if (h->stream > 0)
        return write_lines(h, h->n - 1, h->stream, path, e);
    int fd;
    TRY(file_open_append(realpath(path, target) != NULL ? target : path, false, &fd, e));
    int rc = write_lines(h, h->n - 1, fd, path, e);
    close(fd);
    return rc;
}
