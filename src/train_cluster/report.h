// A worker's report to the driver about examples that it has trained on: the sums behind
// a progress line, as bytes in a message.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_REPORT_H
#define TUG_TRAIN_CLUSTER_REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "data/source/numbering.h"
#include "model/metrics.h"

struct wire_text;

struct report {
    // For each label: sums over examples, scored before they were trained on.
    struct metrics_stream *stream;
    uint32_t labels;
    double read_seconds; // time spent on reading and parsing
    double wait_seconds; // time spent on waiting for servers
    // Lines that were skipped: the sum over several workers, and the most of one worker.
    uint64_t bad_lines, most_bad_lines;
    uint64_t data_bytes;    // bytes of data that are in memory now
    bool total;             // this is the sum of all reports so far
    struct numbering *keys; // numbers of the features that were read, to which
                            // report_next adds those of each report; NULL: none
};

// Appends the report to *b.
int report_write(const struct report *r, struct buf *b);

// Appends the sum of a total, which is empty at first, and another report. The bytes of
// totals and reports have the same form. Returns TUG_EDATA if one of them is damaged, or
// TUG_ENOMEM. A scheduler with --state keeps only the total (leases_merge).
int report_merge(struct buf *to, struct wire_text total, struct wire_text report);

// Takes the next report, or part of a report, from *bytes. Its stream is added to that of
// the same label in r->stream, or replaces that stream if the report is a total; the rest
// of *r is overwritten. Returns 1, 0 at the end, or TUG_EDATA.
int report_next(const char **bytes, size_t *n, struct report *r);

#endif
