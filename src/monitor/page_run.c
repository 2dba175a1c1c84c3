// The sections about the training, the nodes, the partitions and the operations.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "monitor/page_internal.h"

enum {
    CURVE_WIDTH = 300,
    CURVE_HEIGHT = 90,
    LAST_PASSES = 8,
    COLORS = 8,
    OPERATIONS = 64,
    MOVES = 64
};

// ---------------------------------------------------------------- curves

// Returns the metric `name` of a pass, on validation data if `valid`, else on training
// data.
static double point_of(const json_t *pass, const char *name, bool valid)
{
    return fact_number(valid ? fact_at(pass, "valid") : pass, name);
}

static void widen(const json_t *history, const char *name, bool valid, double *least,
                  double *most)
{
    const json_t *pass;
    size_t i;
    json_array_foreach(history, i, pass) {
        double y = point_of(pass, name, valid);
        if (isnan(y))
            continue;
        *least = fmin(*least, y);
        *most = fmax(*most, y);
    }
}

static void add_line(struct page_view *p, const json_t *history, const char *name,
                     bool valid, double least, double most)
{
    const json_t *pass;
    size_t i, n = json_array_size(history);
    html_add(&p->h, "<polyline class=\"%s\" points=\"", valid ? "valid" : "train");
    json_array_foreach(history, i, pass) {
        double y = point_of(pass, name, valid);
        if (!isnan(y))
            html_add(&p->h, "%.1f,%.1f ",
                     n > 1 ? (double)i * CURVE_WIDTH / (double)(n - 1) : 0,
                     most > least ? 5 + (CURVE_HEIGHT - 10) * (most - y) / (most - least)
                                  : CURVE_HEIGHT / 2);
    }
    html_add(&p->h, "\"/>");
}

static void add_curve(struct page_view *p, const json_t *history, const char *name,
                      const char *title)
{
    double least = INFINITY, most = -INFINITY, none = INFINITY;
    size_t n = json_array_size(history);
    char text[TEXT_MAX];
    widen(history, name, true, &none, &most);
    least = none;
    widen(history, name, false, &least, &most);
    if (!isfinite(least) || n < 2)
        return;
    html_add(&p->h,
             "<figure><figcaption>%s by pass: <b class=\"train\">training</b>%s"
             "</figcaption><div class=\"plot\"><span class=\"top\">%s</span>",
             title, isfinite(none) ? " <b class=\"valid\">validation</b>" : "",
             text_number(most, text));
    html_add(&p->h,
             "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
             "aria-label=\"%s by pass\">",
             CURVE_WIDTH, CURVE_HEIGHT, title);
    add_line(p, history, name, false, least, most);
    if (isfinite(none))
        add_line(p, history, name, true, least, most);
    html_add(&p->h, "</svg><span class=\"low\">%s</span>", text_number(least, text));
    html_add(&p->h, "<span class=\"from\">pass %s</span>",
             text_count(fact_number(json_array_get(history, 0), "pass"), text));
    html_add(&p->h, "<span class=\"to\">pass %s</span></div></figure>\n",
             text_count(fact_number(json_array_get(history, n - 1), "pass"), text));
}

static void add_passes(struct page_view *p, const json_t *history)
{
    static const char *const names[] = {
        "#pass",           "#examples", "#loss", "#AUC", "#validation loss",
        "#validation AUC", "#time",     NULL};
    char text[TEXT_MAX];
    size_t n = json_array_size(history);
    if (n == 0)
        return;
    page_table(p, names);
    for (size_t i = n; i > 0 && n - i < LAST_PASSES; i--) {
        const json_t *pass = json_array_get(history, i - 1);
        html_add(&p->h, "<tr>");
        page_number(p, text_count(fact_number(pass, "pass"), text));
        page_number(p, text_count(fact_number(pass, "examples"), text));
        page_number(p, text_number(fact_number(pass, "loss"), text));
        page_number(p, text_number(fact_number(pass, "auc"), text));
        page_number(p, text_number(point_of(pass, "loss", true), text));
        page_number(p, text_number(point_of(pass, "auc", true), text));
        page_number(p, text_seconds(fact_number(pass, "seconds"), text));
        html_add(&p->h, "</tr>\n");
    }
    page_table_end(p);
}

// Writes the share of all passes that is done, and the time that the remaining passes
// will take at the present speed. The length of a pass is unknown before its first
// examples.
static void add_whole_run(struct page_view *p, const json_t *run)
{
    double pass = fmax(fact_number(run, "pass"), 1), passes = fact_number(run, "passes"),
           share = fact_number(run, "share"), examples = fact_number(run, "examples"),
           rate = fact_number(run, "examples_per_second");
    double left = passes - pass + 1 - share;
    char text[TEXT_MAX];
    page_fact(p, "done of the run", text_percent((pass - 1 + share) / passes, text));
    if (strcmp(fact_text(run, "state"), "training") == 0)
        page_fact(
            p, "time left, without validation",
            text_seconds(share > 0 && rate > 0 ? left * examples / share / rate : NAN,
                         text));
}

// Adds the best AUC of all passes: of validation, or without it of whole passes of training.
static void add_best(struct page_view *p, const json_t *run)
{
    const json_t *all = fact_at(run, "best"), *auc = fact_at(all, "valid_auc");
    bool valid = !isnan(fact_number(auc, "value"));
    char text[TEXT_MAX], more[2 * TEXT_MAX + 8];
    if (!isnan(fact_number(run, "best_pass")))
        page_fact(p, "validation best at pass",
                  text_count(fact_number(run, "best_pass"), text));
    if (!valid)
        auc = fact_at(all, "auc");
    if (isnan(fact_number(auc, "value")))
        return;
    snprintf(more, sizeof(more), "%s in pass %.0f",
             text_number(fact_number(auc, "value"), text), fact_number(auc, "pass"));
    page_fact(p, valid ? "best validation AUC" : "best AUC of a pass", more);
}

void page_add_run(struct page_view *p)
{
    const json_t *run = fact_at(p->now, "run"), *history = fact_at(run, "history");
    char text[TEXT_MAX], more[2 * TEXT_MAX + 8];
    if (run == NULL)
        return;
    page_section(p, "Training");
    if (*fact_text(run, "error") != '\0') {
        html_add(&p->h, "<p class=\"error\">");
        page_text(p, fact_text(run, "error"));
        html_add(&p->h, "</p>\n");
    }
    // The facts of tug launch have only the error of a run.
    if (isnan(fact_number(run, "pass"))) {
        page_section_end(p);
        return;
    }
    html_add(&p->h, "<dl><div><dt>model</dt><dd>");
    page_text(p, fact_text(run, "model"));
    html_add(&p->h, "</dd></div><div><dt>state</dt><dd>");
    page_text(p, fact_text(run, "state"));
    html_add(&p->h, "</dd></div>");
    snprintf(more, sizeof(more), "%.0f of %.0f", fmax(fact_number(run, "pass"), 0),
             fmax(fact_number(run, "passes"), 0));
    page_fact(p, "pass", more);
    page_fact(p, "done of it", text_percent(fact_number(run, "share"), text));
    page_fact(p, "examples", text_count(fact_number(run, "examples"), text));
    page_fact(p, "examples a second, last seconds",
              text_count(fact_number(run, "examples_per_second"), text));
    page_fact(p, "loss", text_number(fact_number(run, "loss"), text));
    if (!isnan(fact_number(run, "base_loss")))
        page_fact(p, "loss of the mean label",
                  text_number(fact_number(run, "base_loss"), text));
    page_fact(p, "AUC", text_number(fact_number(run, "auc"), text));
    page_fact(p, "last progress",
              text_seconds(fact_number(run, "seconds_since_progress"), text));
    add_whole_run(p, run);
    add_best(p, run);
    html_add(&p->h, "</dl>\n<div class=\"curves\">");
    add_curve(p, history, "loss", "Loss");
    add_curve(p, history, "auc", "AUC");
    html_add(&p->h, "</div>\n");
    add_passes(p, history);
    page_section_end(p);
}

// ---------------------------------------------------------------- nodes

static void add_node(struct page_view *p, const json_t *n)
{
    char text[TEXT_MAX];
    bool left = fact_true(n, "left"), alive = fact_true(n, "alive"),
         replaced = fact_is_replaced(fact_at(p->now, "nodes"), n);
    const char *state = left                       ? "left"
                        : replaced                 ? "replaced"
                        : !alive                   ? "dead"
                        : !fact_true(n, "linked")  ? "link broken"
                        : fact_is_silent(n)        ? "silent"
                        : fact_true(n, "draining") ? "is drained"
                                                   : "alive";
    bool well = left || replaced || (alive && fact_true(n, "linked"));
    html_add(&p->h, "<tr%s>",
             !well               ? " class=\"ill\""
             : fact_is_silent(n) ? " class=\"slow\""
                                 : "");
    page_cell(p, fact_text(n, "role"));
    page_number(p, text_count(fact_number(n, "rank"), text));
    page_number(p, text_count(fact_number(n, "loop"), text));
    page_cell(p, state);
    page_number(p, text_seconds(fact_number(n, "seconds_since_sign"), text));
    page_number(p, text_count(fact_number(n, "examples"), text));
    page_number(p, text_count(alive && !left ? fact_recent_rate(n) : NAN, text));
    page_number(p, text_count(fact_number(n, "pieces_held"), text));
    page_number(p, text_seconds(fact_number(n, "seconds_since_progress"), text));
    page_cell(p, fact_text(n, "host"));
    page_cell(p, fact_text(n, "address"));
    page_number(p, text_number(fact_number(n, "pid"), text));
    html_add(&p->h, "</tr>\n");
}

void page_add_nodes(struct page_view *p)
{
    static const char *const names[] = {
        "node",      "#rank",     "#loop",   "state",          "#last sign",
        "#examples", "#a second", "#pieces", "#last progress", "host",
        "address",   "#pid",      NULL};
    const json_t *nodes = fact_at(p->now, "nodes"), *n;
    size_t i;
    if (json_array_size(nodes) == 0)
        return;
    page_section(p, "Nodes");
    page_table(p, names);
    json_array_foreach(nodes, i, n)
        add_node(p, n);
    page_table_end(p);
    html_add(
        &p->h,
        "<p class=\"later\">Column 'a second': examples of a worker, as a mean over the "
        "last 30 to 60 seconds.</p>\n");
    page_section_end(p);
}

void page_add_processes(struct page_view *p)
{
    static const char *const names[] = {"process",    "host",      "#pid", "state",
                                        "#exit code", "#restarts", NULL};
    const json_t *all = fact_at(p->now, "processes"), *one;
    char text[TEXT_MAX];
    size_t i;
    if (json_array_size(all) == 0)
        return;
    page_section(p, "Processes");
    page_table(p, names);
    json_array_foreach(all, i, one) {
        html_add(&p->h, "<tr%s>",
                 fact_number(one, "code") > 0 || fact_is_stopped(one) ? " class=\"ill\""
                                                                      : "");
        page_cell(p, fact_text(one, "name"));
        page_cell(p, fact_text(one, "host"));
        page_number(p, text_number(fact_number(one, "pid"), text));
        page_cell(p, fact_text(one, "state"));
        page_number(p, text_count(fact_number(one, "code"), text));
        page_number(p, text_count(fact_number(one, "restarts"), text));
        html_add(&p->h, "</tr>\n");
    }
    page_table_end(p);
    page_section_end(p);
}

// ---------------------------------------------------------------- partitions

// Draws the partitions that a node owns, as one path.
static double add_owner(struct page_view *p, const json_t *owners, double id)
{
    const json_t *run;
    size_t i;
    double all = 0;
    json_array_foreach(owners, i, run) {
        double first = json_number_value(json_array_get(run, 0)),
               n = json_number_value(json_array_get(run, 1));
        if (json_number_value(json_array_get(run, 2)) != id)
            continue;
        html_add(&p->h, "M%.0f 0h%.0fv1h-%.0fz", first, n, n);
        all += n;
    }
    return all;
}

// Returns whether the node is a server that may own partitions; a server that has left
// owns none.
static bool may_own(const json_t *n)
{
    return strcmp(fact_text(n, "role"), "server") == 0 && !fact_true(n, "left");
}

// Writes the name of the loop with this id: "server 2 loop 0".
static void add_loop_cell(struct page_view *p, double id)
{
    const json_t *n;
    char name[64];
    size_t i;
    snprintf(name, sizeof(name), "node %.0f", id);
    json_array_foreach(json_object_get(p->now, "nodes"), i, n)
        if (fact_number(n, "id") == id)
            snprintf(name, sizeof(name), "server %.0f loop %.0f", fact_number(n, "rank"),
                     fact_number(n, "loop"));
    page_cell(p, name);
}

static void add_move(struct page_view *p, const json_t *m)
{
    double bytes = fact_number(m, "bytes"), all = fact_number(m, "bytes_total");
    char text[TEXT_MAX];
    html_add(&p->h, "<tr>");
    page_number(p, text_count(fact_number(m, "partition"), text));
    page_cell(p, fact_text(m, "space"));
    add_loop_cell(p, fact_number(m, "from"));
    add_loop_cell(p, fact_number(m, "to"));
    page_number(p, text_bytes(all, text));
    page_number(p, text_percent(all > 0 ? bytes / all : NAN, text));
    page_number(p, text_seconds(fact_number(m, "seconds"), text));
    page_cell(p, fact_text(m, "state"));
    html_add(&p->h, "</tr>\n");
}

// Lists the partitions that move now.
static void add_moves_now(struct page_view *p)
{
    static const char *const names[] = {"#partition", "space",  "from",  "to", "#size",
                                        "#arrived",   "#since", "state", NULL};
    const json_t *all = fact_at(p->now, "moves"), *one;
    size_t i;
    if (json_array_size(all) == 0)
        return;
    page_table(p, names);
    json_array_foreach(all, i, one)
        if (i < MOVES)
            add_move(p, one);
    page_table_end(p);
}

// Says how many partitions are on their way, how many have moved so far, and which saves or
// changes of tables keep them from moving.
static void add_moves(struct page_view *p)
{
    const json_t *moving = fact_at(p->now, "moving"), *name;
    double left = fact_number(moving, "moves_left"),
           done = fact_number(moving, "moves_done"),
           failed = fact_number(moving, "moves_failed");
    char text[TEXT_MAX];
    size_t i;
    if (!(left > 0 || done > 0 || failed > 0)) {
        html_add(&p->h, "<p class=\"later\">No partition has moved.</p>\n");
        return;
    }
    html_add(&p->h, "<p class=\"later\">Moves: %s to go", text_count(left, text));
    html_add(&p->h, ", %s done", text_count(done, text));
    html_add(&p->h, ", %s given up", text_count(failed, text));
    if (fact_number(moving, "longest_stop_seconds") > 0)
        html_add(&p->h, "; a partition that moved stopped for at most %s",
                 text_seconds(fact_number(moving, "longest_stop_seconds"), text));
    html_add(&p->h, "</p>\n");
    json_array_foreach(json_object_get(moving, "held_by"), i, name) {
        html_add(&p->h, "<p class=\"later\">No partition changes its owner now: ");
        page_text(p, json_is_string(name) ? json_string_value(name) : "");
        html_add(&p->h, " saves or changes a table.</p>\n");
    }
    add_moves_now(p);
}

static void add_space(struct page_view *p, const char *name, const json_t *space)
{
    static const char *const ways[][2] = {
        {"sparse", "keys that are spread evenly"},
        {"range", "keys in their order"},
        {"dense", "blocks of arrays"},
    };
    const json_t *owners = fact_at(space, "owners"), *n;
    char text[TEXT_MAX];
    size_t i, color = 0;
    html_add(&p->h, "<figure><figcaption>");
    page_text(p, name);
    for (size_t k = 0; k < sizeof(ways) / sizeof(*ways); k++)
        if (strcmp(name, ways[k][0]) == 0)
            html_add(&p->h, " (%s)", ways[k][1]);
    html_add(&p->h, ": %s partitions",
             text_count(fact_number(space, "partitions"), text));
    html_add(&p->h, ", the fullest loop has %s times the mean</figcaption>",
             text_number(fact_number(space, "max_over_mean"), text));
    html_add(&p->h,
             "<svg class=\"strip\" viewBox=\"0 0 %.0f 1\" "
             "preserveAspectRatio=\"none\">",
             fmax(fact_number(space, "partitions"), 1));
    json_array_foreach(json_object_get(p->now, "nodes"), i, n) {
        if (!may_own(n))
            continue;
        html_add(&p->h, "<path class=\"c%zu\" d=\"", color++ % COLORS);
        double all = add_owner(p, owners, fact_number(n, "id"));
        html_add(&p->h, "\"><title>server %.0f loop %.0f: %.0f</title></path>",
                 fact_number(n, "rank"), fact_number(n, "loop"), all);
    }
    html_add(&p->h, "</svg></figure>\n");
}

void page_add_partitions(struct page_view *p)
{
    const json_t *placement = fact_at(p->now, "placement"), *n;
    json_t *space;
    const char *name;
    size_t i, color = 0;
    if (json_object_size(placement) == 0)
        return;
    page_section(p, "Partitions");
    json_object_foreach((json_t *)(uintptr_t)placement, name, space)
        add_space(p, name, space);
    html_add(&p->h, "<p class=\"legend\">");
    json_array_foreach(json_object_get(p->now, "nodes"), i, n)
        if (may_own(n))
            html_add(&p->h, "<span class=\"c%zu\">server %.0f loop %.0f</span> ",
                     color++ % COLORS, fact_number(n, "rank"), fact_number(n, "loop"));
    html_add(&p->h, "</p>\n");
    add_moves(p);
    page_section_end(p);
}

// ---------------------------------------------------------------- operations

static void add_operation(struct page_view *p, const json_t *o)
{
    double unix_seconds = fact_number(o, "unix_seconds");
    time_t when = unix_seconds > 0 && unix_seconds < 4e9 ? (time_t)unix_seconds : 0;
    struct tm at;
    char text[32] = "";
    if (gmtime_r(&when, &at) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &at);
    html_add(&p->h, "<tr%s>",
             strcmp(fact_text(o, "what"), "death") == 0 ? " class=\"ill\"" : "");
    page_cell(p, text);
    page_cell(p, fact_text(o, "what"));
    page_cell(p, fact_text(o, "who"));
    page_cell(p, fact_text(o, "text"));
    html_add(&p->h, "</tr>\n");
}

void page_add_operations(struct page_view *p)
{
    static const char *const names[] = {"time (UTC)", "what", "who asked",
                                        "what happened", NULL};
    const json_t *all = fact_at(p->now, "operations");
    size_t n = json_array_size(all);
    if (n == 0)
        return;
    page_section(p, "Last operations");
    page_table(p, names);
    for (size_t i = n; i > 0 && n - i < OPERATIONS; i--)
        add_operation(p, json_array_get(all, i - 1));
    page_table_end(p);
    page_section_end(p);
}
