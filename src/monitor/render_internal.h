// Renders the facts as the page, as metrics and as health. No sockets and no
// threads here, so that tests pass any facts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_RENDER_INTERNAL_H
#define TUG_MONITOR_RENDER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "monitor/facts_internal.h"

enum { RENDER_TEXT_MAX = 512, RENDER_BYTES_MAX = 64 << 20 };

// The page in its two parts, as src/monitor/page.html has them, and the hashes of its
// style and script, by which a browser runs no other.
struct render_page {
    const char *head, *tail; // parts of `text`, around the place of the content
    size_t n_head, n_tail;
    char policy[512]; // Content-Security-Policy
};
int render_page_open(struct render_page *ret, const char *text, struct err *e);

// Adds the whole page.
int render_page(const struct render_page *p, const struct facts_told *t, struct buf *to);
// Adds the numbers of the page as HTML.
int render_main(const struct facts_told *t, struct buf *to);

// Adds the metrics of the facts: as OpenMetrics text, or in the older format of
// Prometheus, in which the names of counters differ.
int render_metrics(const json_t *facts, bool open_metrics, struct buf *to);

// Says in one line what is wrong, or how the process or the cluster is if nothing is.
// Returns whether all is well.
bool render_verdict(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);
// Says how it is, also if something is wrong.
void render_state(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);

// Returns whether the process is ready for its work, by its role, with the reason.
bool render_ready(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);

// ---------------------------------------------------------------- fields of facts

// Members of an object, or a default if they are missing or of another type; `o` may be
// NULL.
const char *fact_text(const json_t *o, const char *name);
double fact_number(const json_t *o, const char *name); // NaN
bool fact_true(const json_t *o, const char *name);
const json_t *fact_at(const json_t *o, const char *name); // NULL
// Whether a disk has less free space than an operator should leave it with.
bool fact_disk_is_low(const json_t *disk);
// Whether a worker that is behind by so many clocks holds up the others.
bool fact_holds_up(double behind, double bound);

#endif
