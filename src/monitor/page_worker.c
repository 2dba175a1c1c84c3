// The section about a worker's activity.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "monitor/page_internal.h"

// Returns the share of its lanes' time that a worker has spent on `name` since the
// earlier facts; without earlier facts, since the worker began.
static double share(const struct page_view *p, const char *name)
{
    static const char *const all[] = {"pull_seconds", "compute_seconds", "push_seconds",
                                      "read_seconds"};
    double sum = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        double before = p->before != NULL ? fact_number(p->before, all[i]) : 0;
        sum += fact_number(p->now, all[i]) - before;
    }
    double before = p->before != NULL ? fact_number(p->before, name) : 0;
    return sum > 0 ? (fact_number(p->now, name) - before) / sum : NAN;
}

static void add_share(struct page_view *p, const char *title, const char *name)
{
    char text[TEXT_MAX];
    html_add(&p->h, "<tr><td>%s</td>", title);
    page_number(p, text_percent(share(p, name), text));
    page_number(p, text_seconds(fact_number(p->now, name), text));
    html_add(&p->h, "</tr>\n");
}

static void add_count(struct page_view *p, const char *title, const char *name)
{
    char text[TEXT_MAX];
    page_fact(p, title, text_count(fact_number(p->now, name), text));
}

static void add_pieces(struct page_view *p)
{
    static const char *const names[] = {"#lane", "#file of --data", "#piece", "#since",
                                        NULL};
    const json_t *pieces = fact_at(p->now, "pieces"), *piece;
    char text[TEXT_MAX];
    size_t i;
    if (json_array_size(pieces) == 0)
        return;
    page_table(p, names);
    json_array_foreach(pieces, i, piece) {
        html_add(&p->h, "<tr>");
        page_number(p, text_count(fact_number(piece, "lane"), text));
        page_number(p, text_count(fact_number(piece, "file"), text));
        page_number(p, text_count(fact_number(piece, "index"), text));
        page_number(p, text_seconds(fact_number(piece, "seconds"), text));
        html_add(&p->h, "</tr>\n");
    }
    page_table_end(p);
}

void page_add_worker(struct page_view *p)
{
    static const char *const names[] = {"lanes spend their time on", "#share now",
                                        "#time in all", NULL};
    char text[TEXT_MAX];
    if (fact_at(p->now, "joined") == NULL)
        return;
    page_section(p, "Worker");
    html_add(&p->h, "<dl>");
    page_fact(p, "joined", fact_true(p->now, "joined") ? "yes" : "not yet");
    add_count(p, "pass", "pass");
    add_count(p, "batches", "batches");
    add_count(p, "examples", "examples");
    add_count(p, "examples a second", "examples_per_second");
    page_fact(p, "last batch",
              text_seconds(fact_number(p->now, "seconds_since_progress"), text));
    add_count(p, "finished pieces", "pieces_done");
    add_count(p, "requests sent again", "resent");
    add_count(p, "requests refused", "refused");
    page_fact(p, "sent", text_bytes(fact_number(p->now, "sent_bytes"), text));
    page_fact(p, "received", text_bytes(fact_number(p->now, "received_bytes"), text));
    html_add(&p->h, "</dl>\n");
    page_table(p, names);
    add_share(p, "waiting for rows", "pull_seconds");
    add_share(p, "computing", "compute_seconds");
    add_share(p, "waiting for acknowledgements", "push_seconds");
    add_share(p, "reading data", "read_seconds");
    page_table_end(p);
    html_add(&p->h,
             "<p class=\"later\">A lane is a thread that computes its own batches; this "
             "worker has %s. ",
             text_count(fact_number(p->now, "lanes"), text));
    html_add(&p->h, "The time in all is the sum over its lanes.</p>\n");
    page_window(p, "The shares are of the time");
    add_pieces(p);
    page_section_end(p);
}
