// Renders the facts as the page, as metrics and as health. It uses no sockets and no
// threads, so that tests can pass any facts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_RENDER_INTERNAL_H
#define TUG_MONITOR_RENDER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "monitor/facts_internal.h"

enum { RENDER_TEXT_MAX = MONITOR_TEXT_MAX, RENDER_BYTES_MAX = 64 << 20 };

// The two parts of src/monitor/page.html around the content, and a policy with the hashes
// of its style and script, so that a browser runs no other script.
struct render_page {
    const char *head, *tail; // the parts of `text` before and after the content
    size_t n_head, n_tail;
    char policy[512]; // Content-Security-Policy
};
int render_page_open(struct render_page *ret, const char *text, struct err *e);

// Adds the whole page.
int render_page(const struct render_page *p, const struct facts_told *t, struct buf *to);
// Adds the content of the page as HTML.
int render_main(const struct facts_told *t, struct buf *to);

// Adds the metrics of the facts as OpenMetrics text, or in the older text format of
// Prometheus, which names counters differently.
int render_metrics(const json_t *facts, bool open_metrics, struct buf *to);

// Writes one line: the problems, or, if there are none, a description of the process or
// the cluster. Returns whether there are no problems.
bool render_verdict(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);
// Writes the description of the process or the cluster, even if something is wrong.
void render_state(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);

// Returns whether the process is ready to do the work of its role, and writes the reason
// into ret.
bool render_ready(const struct facts_told *t, char ret[RENDER_TEXT_MAX]);

#endif
