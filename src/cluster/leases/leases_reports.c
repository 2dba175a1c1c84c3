// The reports that are kept for a driver that is started again (leases_keep.c): those
// about scoring one by one, and those about training as a total, if the scheduler knows
// how to add them up. The journal gets each report once, in the group that says that the
// work is done, and gets the whole total only when the journal is written anew.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "cluster/leases/leases_internal.h"
#include "cluster/row.h"

void leases_set_merge(struct leases *l, leases_merge merge)
{
    if (l->kept != NULL)
        l->kept->merge = merge;
}

int leases_failed(const struct leases *l)
{
    return l->kept != NULL ? l->kept->failed : 0;
}

void leases_clear_stages(struct leases *l)
{
    for (int i = 0; i < LEASES_STAGES; i++) {
        buf_free(&l->kept->stages[i].reports);
        buf_free(&l->kept->stages[i].fresh);
        l->kept->stages[i] = (struct stage){.reports = BUF_INIT(LEASES_KEPT_REPORTS),
                                            .fresh = BUF_INIT(LEASES_KEPT_REPORTS)};
    }
}

static bool adds_up(const struct leases *l, uint32_t stage)
{
    return l->kept->merge != NULL && stage < WIRE_PASS_VALID;
}

static int add_entry(struct buf *to, struct wire_text report)
{
    TRY(buf_reserve(to, sizeof(report.n) + report.n));
    TRY(buf_add(to, &report.n, sizeof(report.n)));
    return buf_add(to, report.data, report.n);
}

static struct wire_text total_of(const struct stage *s)
{
    uint32_t n = 0;
    if (s->reports.len >= sizeof(n))
        memcpy(&n, s->reports.data, sizeof(n));
    return (struct wire_text){s->reports.data + sizeof(n), n};
}

// Stores the sum of the stage's total and a new report in kept->merged.
static int make_total(struct leases *l, const struct stage *s, struct wire_text report)
{
    struct buf *to = &l->kept->merged;
    uint32_t n = 0;
    buf_clear(to);
    TRY(buf_add(to, &n, sizeof(n)));
    TRY(l->kept->merge(to, total_of(s), report));
    n = (uint32_t)(to->len - sizeof(n));
    memcpy(to->data, &n, sizeof(n));
    return 0;
}

static int take_total(struct leases *l, struct stage *s)
{
    const struct buf *from = &l->kept->merged;
    buf_clear(&s->reports);
    TRY(buf_add(&s->reports, from->data, from->len));
    s->written = s->reports.len; // `fresh` has the new reports
    s->n = 1;
    return 0;
}

bool leases_report_fits(struct leases *l, struct wire_text report)
{
    struct kept_leases *k = l->kept;
    size_t bytes = sizeof(report.n) + report.n;
    if (k == NULL)
        return buf_reserve(&l->reports, bytes) == 0;
    struct stage *s = &k->stages[l->pass.kind];
    if (!adds_up(l, l->pass.kind)) {
        if (buf_reserve(&s->reports, bytes) != 0)
            k->failed = TUG_ENOMEM;
        return k->failed == 0;
    }
    if (report.n == 0)
        return true;
    int rc = make_total(l, s, report);
    if (rc == TUG_EDATA)
        k->failed = rc;
    return rc == 0 && buf_reserve(&s->fresh, bytes) == 0 &&
           (k->merged.len <= s->reports.len ||
            buf_reserve(&s->reports, k->merged.len - s->reports.len) == 0);
}

// leases_report_fits has made room for the report.
void leases_report_keep(struct leases *l, struct wire_text report)
{
    struct kept_leases *k = l->kept;
    struct stage *s = &k->stages[l->pass.kind];
    if (adds_up(l, l->pass.kind)) {
        (void)take_total(l, s);
        (void)add_entry(&s->fresh, report);
        if (k->reading == l->pass.kind)
            k->read = 0; // the driver gets the new total from its first byte
    } else if (add_entry(&s->reports, report) == 0) {
        s->n++;
    }
}

// Copies as many whole reports as fit. Returns false if some reports remain.
bool leases_move_kept(struct leases *l, struct buf *to, uint64_t *ret_n)
{
    struct kept_leases *k = l->kept;
    const struct buf *from = &k->stages[k->reading].reports;
    uint32_t n;
    while (k->read < from->len) {
        memcpy(&n, from->data + k->read, sizeof(n));
        if (buf_add(to, from->data + k->read + sizeof(n), n) != 0)
            return false;
        k->read += sizeof(n) + n;
        ++*ret_n;
    }
    return true;
}

// ----------------------------------------------------------------------------- rows of
// reports

// `from` is 0 if the row has all reports of the stage; else it is the offset of the first
// report in the stage, or any number except 0 if the reports are added to the total.
static void write_reports(struct row *r, struct stage *s, uint64_t from, char *bytes,
                          uint64_t n)
{
    ROW_NUMBER(r, from);
    ROW_NUMBER(r, n);
    row_bytes(r, bytes, n);
    s->written = s->reports.len;
    buf_clear(&s->fresh);
}

// Adds the reports of a row to the stage's total.
static int add_up(struct leases *l, struct stage *s, const char *bytes, size_t n)
{
    struct wire_text report;
    while (n >= sizeof(report.n)) {
        memcpy(&report.n, bytes, sizeof(report.n));
        bytes += sizeof(report.n);
        n -= sizeof(report.n);
        if (report.n > n)
            return TUG_EDATA;
        report.data = bytes;
        TRY(make_total(l, s, report));
        TRY(take_total(l, s));
        bytes += report.n;
        n -= report.n;
    }
    return n == 0 ? 0 : TUG_EDATA;
}

static void read_reports(struct row *r, struct leases *l, uint32_t stage)
{
    struct stage *s = &l->kept->stages[stage];
    uint64_t from = row_number(r, 0), n = row_number(r, 0);
    r->bad |= n != r->n || (!adds_up(l, stage) && from != 0 && from != s->reports.len);
    if (r->bad)
        return;
    if (from == 0)
        buf_clear(&s->reports);
    r->bad |= (adds_up(l, stage) ? add_up(l, s, r->from, n)
                                 : buf_add(&s->reports, r->from, n)) != 0;
    s->written = s->reports.len;
    r->n = 0;
}

// Writes or reads a row with reports of a stage: those that the journal lacks. If the
// stage has a total, the row has the reports that were added to the total, or the whole
// total.
void leases_row_report(struct row *r, struct leases *l, uint32_t stage)
{
    ROW_NUMBER(r, stage);
    r->bad |= stage >= LEASES_STAGES;
    if (r->bad)
        return;
    struct stage *s = &l->kept->stages[stage];
    if (r->to == NULL)
        read_reports(r, l, stage);
    else if (adds_up(l, stage) && s->written != 0)
        write_reports(r, s, 1, s->fresh.data, s->fresh.len);
    else
        write_reports(r, s, s->written, s->reports.data + s->written,
                      s->reports.len - s->written);
}

bool leases_reports_hold(struct leases *l)
{
    for (int i = 0; i < LEASES_STAGES; i++) {
        struct stage *s = &l->kept->stages[i];
        uint32_t n = 0;
        size_t at = 0;
        s->n = 0;
        for (; at + sizeof(n) <= s->reports.len; at += sizeof(n) + n, s->n++)
            memcpy(&n, s->reports.data + at, sizeof(n));
        if (at != s->reports.len)
            return false;
    }
    return true;
}
