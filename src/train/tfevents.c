// See tfevents.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/tfevents.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "os/below.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/log.h"
#include "save/save.h"

enum {
    EVENT_BYTES = 1 << 16,
    TAG_MAX = 32 + TRAIN_LABEL_MAX,
    // Each value of a chart has at most this many bytes beside its tag.
    VALUE_BYTES = 16,
    // Number of events during the time in which the age of the run grows by the factor e.
    POINTS = 500,
};

struct tfevents {
    int fd;
    const struct history *history;
    enum loss loss;
    char path[FILE_PATH_MAX];
    uint64_t finished; // number of examples of the finished passes
    // Examples of the pass that were trained before the run was resumed in it.
    uint64_t resumed;
    uint64_t last_step; // step of the last event; steps never decrease
    uint64_t begin_ns, last_ns, next_ns;
    uint64_t last_examples; // the argument `examples` of the last event
    // For each label, the sums of the pass at the last event; the last element has the sums
    // since that event, for one label at a time.
    struct metrics_stream *before;
    struct buf event, values, record;
    struct err failed;
};

// Protobuf: a field is its number and kind, and then a value.

enum wire_kind { KIND_VARINT = 0, KIND_64 = 1, KIND_BYTES = 2, KIND_32 = 5 };

static int put_varint(struct buf *b, uint64_t n)
{
    unsigned char text[10];
    size_t len = 0;
    for (; n >= 0x80; n >>= 7)
        text[len++] = (unsigned char)(n | 0x80);
    text[len++] = (unsigned char)n;
    return buf_add(b, text, len);
}

static int put_field(struct buf *b, uint32_t number, enum wire_kind kind)
{
    return put_varint(b, number << 3 | (uint32_t)kind);
}

static int put_little(struct buf *b, uint64_t n, size_t bytes)
{
    unsigned char text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(n >> (8 * i));
    return buf_add(b, text, bytes);
}

static int put_double(struct buf *b, uint32_t number, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    TRY(put_field(b, number, KIND_64));
    return put_little(b, bits, 8);
}

static int put_float(struct buf *b, uint32_t number, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    TRY(put_field(b, number, KIND_32));
    return put_little(b, bits, 4);
}

static int put_int(struct buf *b, uint32_t number, uint64_t n)
{
    TRY(put_field(b, number, KIND_VARINT));
    return put_varint(b, n);
}

static int put_bytes(struct buf *b, uint32_t number, const void *bytes, size_t n)
{
    TRY(put_field(b, number, KIND_BYTES));
    TRY(put_varint(b, n));
    return buf_add(b, bytes, n);
}

// The numbers of the fields that are written: see tensorflow/core/util/event.proto and
// framework/summary.proto.
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    SESSION_STATUS = 1,
    SESSION_START = 1,
};

// CRC32C bit by bit: a record has a few hundred bytes, and a run writes one a second.
static uint32_t crc32c(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

// The format stores CRCs masked, because the CRC of bytes that end with their own
// CRC is always the same.
static uint32_t masked_crc(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int frame(struct tfevents *t)
{
    struct buf *r = &t->record;
    buf_clear(r);
    TRY(put_little(r, t->event.len, 8));
    TRY(put_little(r, masked_crc(r->data, 8), 4));
    TRY(buf_add(r, t->event.data, t->event.len));
    return put_little(r, masked_crc(t->event.data, t->event.len), 4);
}

// Writes the event that was built. After an error no further events are written, because
// readers stop at a damaged record.
static int write_event(struct tfevents *t, int built)
{
    if (built != 0 || frame(t) != 0)
        return err_nomem(&t->failed, "an event of --tfevents");
    struct iovec part = {t->record.data, t->record.len};
    ssize_t done = disk_write(t->fd, &part, 1);
    if (done >= 0) // only a part was written, so errno has no reason
        errno = ENOSPC;
    return done == (ssize_t)t->record.len
               ? 0
               : err_sys(&t->failed, TUG_EIO, "--tfevents: cannot write '%s'", t->path);
}

static int begin_event(struct tfevents *t, uint64_t step)
{
    buf_clear(&t->event);
    TRY(put_double(&t->event, EVENT_WALL_TIME, (double)clock_unix_ns() * 1e-9));
    return step > 0 ? put_int(&t->event, EVENT_STEP, step) : 0;
}

static int build_version(struct tfevents *t)
{
    static const char version[] = "brain.Event:2";
    TRY(begin_event(t, 0));
    return put_bytes(&t->event, EVENT_FILE_VERSION, version, sizeof(version) - 1);
}

static int build_start(struct tfevents *t, uint64_t step)
{
    TRY(begin_event(t, step));
    buf_clear(&t->values);
    TRY(put_int(&t->values, SESSION_STATUS, SESSION_START));
    return put_bytes(&t->event, EVENT_SESSION_LOG, t->values.data, t->values.len);
}

// Adds a value to the event that is being built. Leaves out a value that does not exist.
static int put_value(struct tfevents *t, const char *tag, double x)
{
    struct buf v = BUF_INIT(TAG_MAX + VALUE_BYTES);
    if (!isfinite(x))
        return 0;
    int rc = put_bytes(&v, VALUE_TAG, tag, strlen(tag));
    if (rc == 0)
        rc = put_float(&v, VALUE_SIMPLE, (float)x);
    if (rc == 0)
        rc = put_bytes(&t->values, SUMMARY_VALUE, v.data, v.len);
    buf_free(&v);
    return rc;
}

static int put_score(struct tfevents *t, uint32_t label, const char *of, double loss,
                     double auc)
{
    char name[TRAIN_LABEL_MAX + 1] = "", tag[TAG_MAX];
    if (t->history->labels > 1) {
        name[0] = '/';
        memcpy(name + 1, t->history->label[label], TRAIN_LABEL_MAX);
        // Made printable, because a text in a protobuf must be UTF-8.
        printable_make(name);
    }
    snprintf(tag, sizeof(tag), "loss/%s%s", of, name);
    TRY(put_value(t, tag, loss));
    snprintf(tag, sizeof(tag), "auc/%s%s", of, name);
    return put_value(t, tag, auc);
}

static int end_event(struct tfevents *t)
{
    return put_bytes(&t->event, EVENT_SUMMARY, t->values.data, t->values.len);
}

static uint64_t step_of(struct tfevents *t, uint64_t examples)
{
    uint64_t step = t->finished + t->resumed + examples;
    t->last_step = step > t->last_step ? step : t->last_step;
    return t->last_step;
}

static int put_windows(struct tfevents *t, const struct metrics_stream *seen)
{
    struct metrics_stream *since = &t->before[t->history->labels];
    for (uint32_t k = 0; k < t->history->labels; k++) {
        metrics_stream_since(since, &seen[k], &t->before[k]);
        t->before[k] = seen[k];
        if (since->examples == 0)
            continue;
        struct metrics m = metrics_stream_result(since, t->loss);
        TRY(put_score(t, k, "window", m.logloss, m.auc));
    }
    return 0;
}

static int build_window(struct tfevents *t, uint64_t examples, uint64_t now,
                        const struct metrics_stream *seen, double rate)
{
    double seconds = (double)(now - t->last_ns) * 1e-9;
    double done = examples > t->last_examples ? (double)(examples - t->last_examples) : 0;
    TRY(begin_event(t, step_of(t, examples)));
    buf_clear(&t->values);
    TRY(put_windows(t, seen));
    TRY(put_value(t, "examples_per_second", seconds > 0 ? done / seconds : (double)NAN));
    TRY(put_value(t, "learning_rate", rate));
    return end_event(t);
}

static void time_next(struct tfevents *t, uint64_t now)
{
    uint64_t pause = (now - t->begin_ns) / POINTS;
    t->last_ns = now;
    t->next_ns = now + (pause > SECOND_NS ? pause : SECOND_NS);
}

void tfevents_window(struct tfevents *t, uint64_t examples,
                     const struct metrics_stream *seen, double rate)
{
    uint64_t now = clock_ns();
    if (tfevents_failed(t) != NULL)
        return;
    (void)write_event(t, build_window(t, examples, now, seen, rate));
    t->last_examples = examples;
    time_next(t, now);
}

static int build_pass(struct tfevents *t, const struct history_pass *p,
                      const struct metrics_stream *seen)
{
    t->resumed = 0; // now 0, because p counts all examples of the pass
    TRY(begin_event(t, step_of(t, p->examples)));
    buf_clear(&t->values);
    TRY(put_windows(t, seen));
    for (uint32_t k = 0; k < t->history->labels; k++) {
        TRY(put_score(t, k, "train", p->seen[k].loss, p->seen[k].auc));
        if (p->validated)
            TRY(put_score(t, k, "valid", p->valid[k].loss, p->valid[k].auc));
    }
    TRY(put_value(t, "seconds/pass", p->seconds));
    return end_event(t);
}

void tfevents_pass(struct tfevents *t, const struct metrics_stream *seen)
{
    const struct history_pass *p = &t->history->pass[t->history->n - 1];
    if (tfevents_failed(t) != NULL)
        return;
    (void)write_event(t, build_pass(t, p, seen));
    t->finished += p->examples;
    t->last_examples = 0;
    metrics_streams_clear(t->before, t->history->labels);
    time_next(t, clock_ns());
}

uint64_t tfevents_next_ns(const struct tfevents *t)
{
    return tfevents_failed(t) == NULL ? t->next_ns : UINT64_MAX;
}

const struct err *tfevents_failed(const struct tfevents *t)
{
    return t->failed.text[0] != '\0' ? &t->failed : NULL;
}

// Refuses a directory inside --out. A new run needs an --out without other files, even
// one that begins again because it was killed before its first save.
static int check_outside(const char *dir, const char *out, struct err *e)
{
    char of_out[FILE_PATH_MAX], of_dir[FILE_PATH_MAX];
    if (out == NULL || below_absolute(out, of_out, NULL) != 0 ||
        below_absolute(dir, of_dir, NULL) != 0 || below_rest(of_out, of_dir) == NULL)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--tfevents: '%s' lies in --out, where only saves may be: give a "
                   "directory outside of '%s'",
                   dir, out);
}

int tfevents_check(const char *dir, const char *out, struct err *e)
{
    char file[FILE_PATH_MAX];
    struct stat s;
    if (dir == NULL)
        return 0;
    TRY(check_outside(dir, out, e));
    TRY(file_join(file, dir, "events", e));
    TRY(save_check_output("--tfevents", file, e));
    if (stat(dir, &s) == 0 && !S_ISDIR(s.st_mode))
        return err_set(e, TUG_EUSAGE, "--tfevents: '%s' is not a directory: give one",
                       dir);
    return 0; // the error comes when the directory is made
}

// Readers read the files of a directory in the order of their names, so the file of a
// resumed run must have a later name than the earlier run's file.
static int open_file(struct tfevents *t, const char *dir, struct err *e)
{
    char host[64] = "localhost", name[160];
    uint64_t us = clock_unix_ns() / 1000;
    if (gethostname(host, sizeof(host) - 1) != 0 || strchr(host, '/') != NULL)
        snprintf(host, sizeof(host), "localhost");
    do {
        snprintf(name, sizeof(name), "events.out.tfevents.%010llu.%06llu.%s.%d",
                 (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000),
                 host, (int)getpid());
        TRY(file_join(t->path, dir, name, e));
        us++;
    } while (file_exists(t->path));
    return file_open_append(t->path, false, &t->fd, e);
}

static bool has_events(const char *dir)
{
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *one; d != NULL && !found && (one = readdir(d)) != NULL;)
        found = strstr(one->d_name, ".tfevents.") != NULL;
    if (d != NULL)
        closedir(d);
    return found;
}

static int begin_file(struct tfevents *t, const char *dir, bool resumes, struct err *e)
{
    if (!resumes && has_events(dir))
        log_warn("--tfevents: '%s' has events of another run, and TensorBoard draws both "
                 "as one: give each run a directory of its own",
                 dir);
    if (file_make_dir(dir, e) != 0 || open_file(t, dir, e) != 0)
        return err_wrap(e, "--tfevents");
    if (write_event(t, build_version(t)) == 0 && resumes)
        // Readers drop events from this step on, so the last event that they keep is the
        // one at the position of the save.
        (void)write_event(t, build_start(t, t->finished + t->resumed + 1));
    if (tfevents_failed(t) != NULL)
        *e = t->failed;
    return tfevents_failed(t) != NULL ? e->code : 0;
}

int tfevents_open(struct tfevents **ret, const char *dir, const struct history *h,
                  enum loss loss, bool resumes, uint64_t examples, struct err *e)
{
    struct tfevents *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "the events of --tfevents");
    t->fd = -1;
    t->history = h;
    t->loss = loss;
    t->event = t->values = t->record = BUF_INIT(EVENT_BYTES);
    t->before = metrics_streams(h->labels + 1);
    t->resumed = examples;
    for (size_t i = 0; i < h->n; i++)
        t->finished += h->pass[i].examples;
    int rc = t->before != NULL ? begin_file(t, dir, resumes, e)
                               : err_nomem(e, "the events of --tfevents");
    t->begin_ns = clock_ns();
    time_next(t, t->begin_ns);
    if (rc != 0) {
        tfevents_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void tfevents_close(struct tfevents *t)
{
    if (t == NULL)
        return;
    if (t->fd >= 0)
        close(t->fd);
    buf_free(&t->event);
    buf_free(&t->values);
    buf_free(&t->record);
    mem_free(t->before);
    mem_free(t);
}
