// See rows_text.h. The text is that of libsvm, or of libffm where features have fields.
//
// SPDX-License-Identifier: Apache-2.0
#include "facade/rows_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/disk.h"

enum { ENOUGH = 1 << 20, NUMBER_BYTES = 64 };

const char *rows_text_format(const struct tug_rows *r)
{
    return r->fields != NULL ? "libffm" : "libsvm";
}

static char *put_whole(char *to, uint64_t x)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while ((x /= 10) > 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

// Small whole numbers are most of them. Nine digits tell all floats apart.
static char *put_float(char *to, float x)
{
    if (x >= 0 && x < 1e7f && x == (float)(uint32_t)x && !signbit(x))
        return put_whole(to, (uint32_t)x);
    return to + snprintf(to, NUMBER_BYTES, "%.9g", (double)x);
}

static int put_feature(struct buf *b, const struct tug_rows *r, uint64_t j)
{
    char text[2 * NUMBER_BYTES], *p = text;
    *p++ = ' ';
    if (r->fields != NULL) {
        p = put_whole(p, r->fields[j]);
        *p++ = ':';
    }
    p = put_whole(p, r->keys[j]);
    *p++ = ':';
    p = put_float(p, r->values != NULL ? r->values[j] : 1);
    return buf_add(b, text, (size_t)(p - text));
}

static int put_row(struct buf *b, const struct tug_rows *r, size_t i, struct err *e)
{
    char label[NUMBER_BYTES];
    float y = r->labels != NULL ? r->labels[i] : 0; // an empty line would be none
    if (!isfinite(y))
        return err_set(e, TUG_EUSAGE, "rows: the label of row %zu is not finite", i);
    if (r->offsets[i + 1] < r->offsets[i])
        return err_set(e, TUG_EUSAGE,
                       "rows: offsets descend from row %zu to the next: %" PRIu64
                       ", %" PRIu64,
                       i, r->offsets[i], r->offsets[i + 1]);
    int rc = buf_add(b, label, (size_t)(put_float(label, y) - label));
    for (uint64_t j = r->offsets[i]; j < r->offsets[i + 1] && rc == 0; j++) {
        if (r->values != NULL && !isfinite(r->values[j]))
            return err_set(e, TUG_EUSAGE,
                           "rows: a value of row %zu, of key %" PRIu64 ", is not finite",
                           i, r->keys[j]);
        rc = put_feature(b, r, j);
    }
    if (rc == 0)
        rc = buf_add(b, "\n", 1);
    return rc == 0 ? 0 : err_nomem(e, "rows");
}

static int flush(struct buf *b, int fd, struct err *e)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = write(fd, b->data + at, b->len - at);
        if (n <= 0)
            return err_sys(e, TUG_EIO, "cannot hold the rows in memory");
        at += (size_t)n;
    }
    buf_clear(b);
    return 0;
}

static int write_all(const struct tug_rows *r, int fd, struct err *e)
{
    struct buf b = BUF_INIT((size_t)1 << 40);
    int rc = 0;
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        rc = put_row(&b, r, i, e);
        if (rc == 0 && b.len >= ENOUGH)
            rc = flush(&b, fd, e);
    }
    if (rc == 0)
        rc = flush(&b, fd, e);
    buf_free(&b);
    return rc;
}

static int check(const struct tug_rows *r, bool labels, struct err *e)
{
    if (r->n == 0)
        return err_set(e, TUG_EUSAGE, "rows: there are none");
    if (r->offsets == NULL || (r->keys == NULL && r->offsets[r->n] > r->offsets[0]))
        return err_set(e, TUG_EUSAGE, "rows: offsets or keys are missing");
    if (labels && r->labels == NULL)
        return err_set(e, TUG_EUSAGE, "rows: labels are missing");
    return 0;
}

int rows_text_open(struct rows_text *ret, const struct tug_rows *r, bool labels,
                   const char *home, const char *name, struct err *e)
{
    char file[64];
    *ret = ROWS_TEXT_NONE;
    TRY(check(r, labels, e));
    TRY(file_join(ret->path, home, name, e));
    ret->fd = memfd_create(name, MFD_CLOEXEC);
    if (ret->fd < 0)
        return err_sys(e, TUG_EIO, "cannot hold the rows in memory");
    snprintf(file, sizeof(file), "/proc/self/fd/%d", ret->fd);
    int rc = write_all(r, ret->fd, e);
    if (rc == 0 && symlink(file, ret->path) != 0)
        rc = err_sys(e, TUG_EIO, "cannot make %s", ret->path);
    if (rc != 0)
        rows_text_close(ret);
    return rc;
}

void rows_text_close(struct rows_text *r)
{
    if (r->fd < 0)
        return;
    unlink(r->path);
    close(r->fd);
    *r = ROWS_TEXT_NONE;
}
