// The sections about tables, requests, servers, staleness, saves and disks.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "monitor/page_internal.h"

enum { BUCKETS_MAX = 64 };

// Returns by how much a number has grown per second; NaN if that is not known.
static double rate(const struct page_view *p, const json_t *now, const json_t *before,
                   const char *name)
{
    double grown = fact_number(now, name) - fact_number(before, name);
    return p->before != NULL && grown >= 0 ? grown / p->seconds : NAN;
}

static double total(const json_t *o, const char *const *names)
{
    double sum = 0;
    for (; *names != NULL; names++) {
        double x = fact_number(o, *names);
        sum += isnan(x) ? 0 : x;
    }
    return sum;
}

// Returns the element of `loops` about the same loop as `like`; NULL if no element is.
// The element usually has the index `place`.
static const json_t *same_loop(const json_t *loops, size_t place, const json_t *like)
{
    size_t n = json_array_size(loops);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(loops, (place + i) % n);
        if (json_equal(json_object_get(o, "rank"), json_object_get(like, "rank")) &&
            json_equal(json_object_get(o, "loop"), json_object_get(like, "loop")))
            return o;
    }
    return NULL;
}

// ---------------------------------------------------------------- tables

// There may be thousands of tables. So they are looked up by key in an object, and not
// searched for in an array.
enum { KEY_MAX = 320 };

static const char *key_of(const json_t *table, char ret[KEY_MAX])
{
    snprintf(ret, KEY_MAX, "%.0f %s", fact_number(table, "id"), fact_text(table, "name"));
    return ret;
}

// Returns an object that has the tables of an array under their keys. The caller releases
// it.
static json_t *tables_by_key(const json_t *tables)
{
    json_t *all = json_object(), *t;
    char key[KEY_MAX];
    size_t i;
    json_array_foreach(tables, i, t)
        (void)json_object_set(all, key_of(t, key), t);
    return all;
}

static void add_table(struct page_view *p, const json_t *t, const json_t *before)
{
    static const char *const lost[] = {"refused", "left_out", NULL};
    char key[KEY_MAX];
    const json_t *old = json_object_get(before, key_of(t, key)),
                 *cold = fact_at(t, "cold");
    double hits = fact_number(cold, "hits"), reads = fact_number(cold, "reads");
    char text[TEXT_MAX];
    html_add(&p->h, "<tr>");
    page_cell(p, fact_text(t, "name"));
    page_cell(p, fact_text(t, "mode"));
    page_number(p, text_count(fact_number(t, "rows"), text));
    page_number(p, text_bytes(fact_number(t, "bytes"), text));
    page_number(p, text_count(rate(p, t, old, "rows"), text));
    page_number(p, text_count(fact_number(cold, "rows"), text));
    page_number(p, text_percent(hits + reads > 0 ? hits / (hits + reads) : NAN, text));
    page_number(p, text_count(rate(p, t, old, "pushes"), text));
    page_number(p, text_count(rate(p, t, old, "pulls"), text));
    page_number(p, text_count(rate(p, t, old, "pushed_keys"), text));
    page_number(p, text_count(fact_number(t, "held"), text));
    page_number(p, text_count(total(t, lost), text));
    html_add(&p->h, "</tr>\n");
}

// Names the servers that are missing in the sums over all servers.
static void add_missing(struct page_view *p)
{
    const json_t *loop;
    size_t i, n = 0;
    json_array_foreach(json_object_get(p->now, "servers"), i, loop)
        if (*fact_text(loop, "error") != '\0') {
            html_add(&p->h, n++ == 0 ? "<p class=\"error\">The numbers lack" : ",");
            html_add(&p->h, " server %.0f loop %.0f", fact_number(loop, "rank"),
                     fact_number(loop, "loop"));
        }
    if (n > 0)
        html_add(&p->h, ", which %s not answer</p>\n", n == 1 ? "does" : "do");
}

static bool is_copy(const char *name)
{
    static const char end[] = "-copy";
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

void page_add_tables(struct page_view *p)
{
    static const char *const names[] = {
        "table",          "mode",      "#rows",     "#memory",  "#rows/s",
        "#rows on disk",  "#hit rate", "#pushes/s", "#pulls/s", "#pushed keys/s",
        "#waiting pulls", "#refused",  NULL};
    const json_t *tables = fact_at(p->now, "tables"), *t;
    size_t i;
    bool copies = false;
    if (json_array_size(tables) == 0)
        return;
    page_section(p, "Tables");
    add_missing(p);
    page_table(p, names);
    json_t *before = tables_by_key(fact_at(p->before, "tables"));
    json_array_foreach(tables, i, t)
        add_table(p, t, before);
    json_decref(before);
    page_table_end(p);
    json_array_foreach(tables, i, t)
        copies |= is_copy(fact_text(t, "name"));
    if (copies)
        html_add(&p->h,
                 "<p class=\"later\">A table NAME-copy has the rows of NAME as they "
                 "were in the best pass.</p>\n");
    page_section_end(p);
}

// ---------------------------------------------------------------- requests

struct spread {
    double count[BUCKETS_MAX], seconds, all;
    size_t n;
    const json_t *bounds;
};

// Adds the histogram of one kind of requests on a loop, multiplied by `sign`.
static void add_spread(struct spread *s, const json_t *loop, const char *kind,
                       double sign)
{
    const json_t *of = fact_at(fact_at(loop, "requests"), kind),
                 *counts = fact_at(of, "buckets");
    double seconds = fact_number(of, "seconds");
    size_t n = json_array_size(counts);
    if (n == 0 || n > BUCKETS_MAX || (s->n != 0 && s->n != n))
        return;
    if (s->n == 0) {
        s->bounds = fact_at(loop, "bucket_seconds");
        s->n = n;
    }
    for (size_t i = 0; i < n; i++) {
        double x = json_number_value(json_array_get(counts, i));
        s->count[i] += sign * x;
        s->all += sign * x;
    }
    s->seconds += isnan(seconds) ? 0 : sign * seconds;
}

// Returns the quantile `share` of the requests' times, computed as Prometheus does:
// linear within a bucket.
static double quantile(const struct spread *s, double share)
{
    double want = share * s->all, sum = 0, from = 0;
    for (size_t i = 0; i < s->n && s->all > 0; i++) {
        const json_t *bound = json_array_get(s->bounds, i);
        if (bound == NULL)
            return from; // the quantile lies above the largest bound
        double to = json_number_value(bound);
        if (sum + s->count[i] >= want)
            return from + (to - from) * (want - sum) / fmax(s->count[i], 1);
        sum += s->count[i];
        from = to;
    }
    return NAN;
}

static bool add_loops_of(struct spread *s, const json_t *facts, const char *kind,
                         double sign)
{
    const json_t *loop;
    size_t i;
    json_array_foreach(json_object_get(facts, "servers"), i, loop)
        add_spread(s, loop, kind, sign);
    return s->n > 0;
}

static void add_requests(struct page_view *p, const char *kind)
{
    struct spread all = {0};
    char text[TEXT_MAX];
    bool recent = p->before != NULL;
    if (!add_loops_of(&all, p->now, kind, 1))
        return;
    double ever = all.all;
    if (recent)
        add_loops_of(&all, p->before, kind, -1);
    html_add(&p->h, "<tr><td>%s</td>", kind);
    page_number(p, text_count(recent && all.all >= 0 ? all.all / p->seconds : NAN, text));
    page_number(p, text_seconds(quantile(&all, .5), text));
    page_number(p, text_seconds(quantile(&all, .99), text));
    page_number(p, text_seconds(all.all > 0 ? all.seconds / all.all : NAN, text));
    page_number(p, text_count(ever, text));
    html_add(&p->h, "</tr>\n");
}

void page_add_requests(struct page_view *p)
{
    static const char *const names[] = {"requests", "#a second", "#p50", "#p99",
                                        "#mean",    "#in all",   NULL};
    struct spread any = {0};
    if (!add_loops_of(&any, p->now, "push", 1))
        return;
    page_section(p, "Requests");
    page_table(p, names);
    add_requests(p, "push");
    add_requests(p, "pull");
    add_requests(p, "other");
    page_table_end(p);
    page_window(p, "The numbers except the last column are of requests");
    page_section_end(p);
}

static void add_loop(struct page_view *p, const json_t *loop, size_t place)
{
    const json_t *memory = fact_at(loop, "memory"),
                 *old = same_loop(fact_at(p->before, "servers"), place, loop);
    struct spread pushes = {0}, pulls = {0};
    char text[TEXT_MAX], more[2 * TEXT_MAX + 8];
    double most = fact_number(memory, "rows_max");
    add_spread(&pushes, loop, "push", 1);
    add_spread(&pulls, loop, "pull", 1);
    if (old != NULL) {
        add_spread(&pushes, old, "push", -1);
        add_spread(&pulls, old, "pull", -1);
    }
    html_add(&p->h, "<tr%s>", *fact_text(loop, "error") != '\0' ? " class=\"ill\"" : "");
    page_number(p, text_count(fact_number(loop, "rank"), text));
    page_number(p, text_count(fact_number(loop, "loop"), text));
    snprintf(more, sizeof(more), "%s", text_bytes(fact_number(memory, "rows"), text));
    if (most > 0)
        snprintf(more, sizeof(more), "%s of %s",
                 text_bytes(fact_number(memory, "rows"), text),
                 text_bytes(most, (char[TEXT_MAX]){0}));
    page_number(p, more);
    page_number(p, text_bytes(fact_number(memory, "buffers"), text));
    page_number(p, text_bytes(fact_number(loop, "resident_bytes"), text));
    page_number(p, text_percent(rate(p, loop, old, "cpu_seconds"), text));
    page_number(p, text_seconds(quantile(&pushes, .99), text));
    page_number(p, text_seconds(quantile(&pulls, .99), text));
    page_number(p, text_count(fact_number(loop, "waiting"), text));
    page_number(p, text_count(fact_number(loop, "open_files"), text));
    page_cell(p, fact_text(loop, "error"));
    html_add(&p->h, "</tr>\n");
}

// Says how the limit that the user has given is divided. With more loops than one, each has
// its part of the memory for rows.
static void add_limit(struct page_view *p, const json_t *loops)
{
    const json_t *loop, *memory;
    char limit[TEXT_MAX], rows[TEXT_MAX];
    size_t i;
    json_array_foreach(loops, i, loop) {
        memory = fact_at(loop, "memory");
        double bytes = fact_number(memory, "limit");
        if (!(bytes > 0))
            continue;
        html_add(&p->h,
                 "<p class=\"later\">Memory of server %.0f: its limit (--memory, "
                 "TUG_MEMORY) is %s, %.6g MiB. Rows may take %s of it in each loop; the "
                 "remaining memory is for buffers.</p>\n",
                 fact_number(loop, "rank"), text_bytes(bytes, limit), bytes / (1 << 20),
                 text_bytes(fact_number(memory, "rows_max"), rows));
        return;
    }
}

void page_add_loops(struct page_view *p)
{
    static const char *const names[] = {"#server",  "#loop",  "#rows",     "#buffers",
                                        "#process", "#CPU",   "#push p99", "#pull p99",
                                        "#waiting", "#files", "error",     NULL};
    const json_t *loops = fact_at(p->now, "servers"), *loop;
    size_t i;
    if (json_array_size(loops) == 0)
        return;
    page_section(p, "Servers");
    page_table(p, names);
    json_array_foreach(loops, i, loop)
        add_loop(p, loop, i);
    page_table_end(p);
    page_window(p, "CPU, push p99 and pull p99 are of the time");
    add_limit(p, loops);
    page_section_end(p);
}

// ---------------------------------------------------------------- programs

// The columns with numbers of requests or keys.
static const struct {
    const char *title, *fact;
} door_counts[] = {
    {"#pushes", "pushes"},
    {"#pulls", "pulls"},
    {"#other", "simple"},
    {"#keys in them", "keys"},
    {"#waiting", "waiting"},
    {"#refused", "refused"},
    {"#keys stored", "stored_keys"},
    {"#pushes merged", "merged_pushes"},
};
enum { DOOR_COUNTS = sizeof(door_counts) / sizeof(*door_counts) };

static void add_door(struct page_view *p, const json_t *loop)
{
    const json_t *door = fact_at(loop, "door");
    char text[TEXT_MAX];
    if (door == NULL)
        return;
    html_add(&p->h, "<tr>");
    page_number(p, text_count(fact_number(loop, "rank"), text));
    page_cell(p, fact_text(door, "name"));
    for (size_t i = 0; i < DOOR_COUNTS; i++)
        page_number(p, text_count(fact_number(door, door_counts[i].fact), text));
    page_number(p, text_bytes(fact_number(door, "bytes"), text));
    page_cell(p, fact_text(door, "optimizer"));
    html_add(&p->h, "</tr>\n");
}

void page_add_doors(struct page_view *p)
{
    const char *names[DOOR_COUNTS + 5] = {"#server", "door"};
    const json_t *loops = fact_at(p->now, "servers"), *loop;
    bool any = false;
    size_t i;
    json_array_foreach(loops, i, loop)
        any |= fact_at(loop, "door") != NULL;
    if (!any)
        return;
    for (i = 0; i < DOOR_COUNTS; i++)
        names[2 + i] = door_counts[i].title;
    names[2 + DOOR_COUNTS] = "#bytes";
    names[3 + DOOR_COUNTS] = "optimizer";
    page_section(p, "Requests of programs");
    page_table(p, names);
    json_array_foreach(loops, i, loop)
        add_door(p, loop);
    page_table_end(p);
    page_section_end(p);
}

// ---------------------------------------------------------------- staleness

// Updates `by_worker`, which maps a worker's rank to the most clocks by which that worker
// is behind on any loop.
static void keep_behind(json_t *by_worker, const json_t *t)
{
    const json_t *w;
    char rank[TEXT_MAX];
    size_t i;
    json_array_foreach(json_object_get(t, "workers"), i, w) {
        double behind = fact_number(w, "behind");
        snprintf(rank, sizeof(rank), "%.0f", fact_number(w, "rank"));
        if (!(behind <= fact_number(by_worker, rank)))
            (void)json_object_set_new(by_worker, rank, json_real(behind));
    }
}

// Returns how far each worker is behind in each table, by the table's key and the worker's
// rank. The caller releases the object.
static json_t *behind_by_table(const json_t *facts)
{
    json_t *all = json_object(), *loop, *t;
    char key[KEY_MAX];
    size_t i, k;
    json_array_foreach(json_object_get(facts, "servers"), i, loop)
        json_array_foreach(json_object_get(loop, "tables"), k, t) {
            if (json_array_size(json_object_get(t, "workers")) == 0)
                continue;
            if (json_object_get(all, key_of(t, key)) == NULL)
                (void)json_object_set_new(all, key, json_object());
            keep_behind(json_object_get(all, key), t);
        }
    return all;
}

// Shows each worker of a table once, by the loop on which it is furthest behind. Marks a
// worker as holding up the others if pulls wait, and the worker is behind by most of the
// allowed bound both now and in the facts before.
static void add_clocks(struct page_view *p, const json_t *t, json_t *all,
                       json_t *all_before)
{
    char key[KEY_MAX], text[TEXT_MAX];
    json_t *now = json_object_get(all, key_of(t, key)),
           *before = json_object_get(all_before, key), *behind;
    const char *rank;
    double bound = fact_number(t, "staleness");
    json_object_foreach(now, rank, behind) {
        double n = json_number_value(behind);
        bool slow = fact_number(t, "held") > 0 && fact_holds_up(n, bound) &&
                    fact_holds_up(fact_number(before, rank), bound);
        html_add(&p->h, "<tr%s>", slow ? " class=\"slow\"" : "");
        page_cell(p, fact_text(t, "name"));
        page_number(p, rank);
        page_number(p, text_count(n, text));
        page_number(p, text_count(bound, text));
        page_cell(p, slow ? "holds up the others" : "");
        html_add(&p->h, "</tr>\n");
    }
    if (json_object_size(now) == 0) {
        html_add(&p->h, "<tr>");
        page_cell(p, fact_text(t, "name"));
        page_number(p, text_count(NAN, text));
        page_number(p, text_count(NAN, text));
        page_number(p, text_count(bound, text));
        page_cell(p, "no worker uses the table now");
        html_add(&p->h, "</tr>\n");
    }
}

void page_add_staleness(struct page_view *p)
{
    static const char *const names[] = {"table",  "#worker", "#clocks behind the fastest",
                                        "#bound", "",        NULL};
    const json_t *t;
    json_t *now = behind_by_table(p->now), *before = behind_by_table(p->before);
    bool begun = false;
    size_t i;
    json_array_foreach(json_object_get(p->now, "tables"), i, t) {
        if (strcmp(fact_text(t, "mode"), "ssp") != 0)
            continue;
        if (!begun) {
            page_section(p, "Staleness");
            page_table(p, names);
            begun = true;
        }
        add_clocks(p, t, now, before);
    }
    json_decref(now);
    json_decref(before);
    if (!begun)
        return;
    page_table_end(p);
    page_section_end(p);
}

// ---------------------------------------------------------------- saves and disks

// Returns whether a save was made, is being made or has failed.
static bool has_saved(const json_t *of)
{
    const json_t *saves = fact_at(of, "saves");
    return json_is_object(fact_at(saves, "last")) ||
           json_is_object(fact_at(saves, "now")) || fact_number(saves, "failed") > 0;
}

static void add_save(struct page_view *p, const char *who, const json_t *of, double now)
{
    const json_t *saves = fact_at(of, "saves"), *last = fact_at(saves, "last");
    char text[TEXT_MAX];
    double finished = fact_number(last, "finished_unix_seconds");
    bool failed = strcmp(fact_text(last, "state"), "failed") == 0;
    if (!has_saved(of))
        return;
    html_add(&p->h, "<tr%s><td>%s</td>", failed ? " class=\"ill\"" : "", who);
    page_number(p, text_count(fact_number(saves, "made"), text));
    page_number(p, text_count(fact_number(saves, "failed"), text));
    page_cell(p, fact_text(last, "path"));
    page_number(p, text_bytes(fact_number(last, "bytes"), text));
    page_number(p, text_seconds(fact_number(last, "seconds"), text));
    page_number(p, text_seconds(isnan(finished) ? NAN : fmax(now - finished, 0), text));
    page_cell(p, fact_text(fact_at(saves, "now"), "state"));
    page_cell(p, fact_text(last, "error"));
    html_add(&p->h, "</tr>\n");
}

static bool saves_somewhere(const json_t *facts)
{
    const json_t *disk;
    size_t i;
    json_array_foreach(json_object_get(facts, "disks"), i, disk)
        if (strcmp(fact_text(disk, "what"), "saves") == 0)
            return true;
    return false;
}

void page_add_saves(struct page_view *p)
{
    static const char *const names[] = {"saves of", "#made", "#failed", "the last one",
                                        "#size",    "#took", "#age",    "now",
                                        "error",    NULL};
    const json_t *loops = fact_at(p->now, "servers"), *loop,
                 *run = fact_at(p->now, "run");
    double now = fact_number(p->now, "unix_seconds");
    bool any = has_saved(run);
    char who[64];
    size_t i;
    json_array_foreach(loops, i, loop)
        any = any || has_saved(loop);
    if (!any && run != NULL && !isnan(fact_number(run, "pass"))) {
        page_section(p, "Saves");
        html_add(&p->h, "<p class=\"later\">%s</p>\n",
                 saves_somewhere(p->now) ? "none yet" : "none: the run has no --out");
        page_section_end(p);
    }
    if (!any)
        return;
    page_section(p, "Saves");
    page_table(p, names);
    add_save(p, "the run", run, now);
    json_array_foreach(loops, i, loop) {
        snprintf(who, sizeof(who), "server %.0f loop %.0f", fact_number(loop, "rank"),
                 fact_number(loop, "loop"));
        add_save(p, who, loop, fact_number(loop, "unix_seconds"));
    }
    page_table_end(p);
    page_section_end(p);
}

// Adds the size of the run's last save, and how many such saves fit on its disk.
static void add_room(struct page_view *p, const json_t *of, const json_t *disk)
{
    const json_t *last = fact_at(fact_at(fact_at(of, "run"), "saves"), "last");
    double save = strcmp(fact_text(disk, "what"), "saves") == 0
                      ? fact_number(last, "bytes")
                      : NAN,
           fit = floor(fact_number(disk, "free_bytes") / save);
    char text[TEXT_MAX];
    page_number(p, text_bytes(save, text));
    page_number(p, text_count(save > 0 ? fit : NAN, text));
}

static void add_disks(struct page_view *p, const char *who, const json_t *of)
{
    const json_t *disk;
    char text[TEXT_MAX];
    size_t i;
    json_array_foreach(json_object_get(of, "disks"), i, disk) {
        double left = fact_number(disk, "free_bytes") / fact_number(disk, "size_bytes");
        html_add(&p->h, "<tr%s><td>%s</td>",
                 fact_disk_is_low(disk) ? " class=\"ill\"" : "", who);
        page_cell(p, fact_text(disk, "what"));
        page_cell(p, fact_text(disk, "path"));
        page_cell(p, fact_text(disk, "device"));
        page_number(p, text_bytes(fact_number(disk, "free_bytes"), text));
        page_number(p, text_bytes(fact_number(disk, "size_bytes"), text));
        page_number(p, text_percent(1 - left, text));
        add_room(p, of, disk);
        html_add(&p->h, "</tr>\n");
    }
}

void page_add_disks(struct page_view *p)
{
    static const char *const names[] = {
        "disk of", "for",   "directory",     "device",          "#free",
        "#size",   "#used", "#a save takes", "#saves that fit", NULL};
    // All loops of a server have the disks of its process, so a server's page shows these
    // disks once.
    bool is_server = strcmp(fact_text(p->now, "role"), "server") == 0;
    const json_t *loops = is_server ? NULL : fact_at(p->now, "servers"), *loop;
    size_t i, n = json_array_size(fact_at(p->now, "disks"));
    char who[64];
    json_array_foreach(loops, i, loop)
        n += json_array_size(fact_at(loop, "disks"));
    if (n == 0)
        return;
    page_section(p, "Disks");
    page_table(p, names);
    add_disks(p, "this process", p->now);
    json_array_foreach(loops, i, loop) {
        if (fact_number(loop, "loop") > 0)
            continue; // all loops of a process have the same disks
        snprintf(who, sizeof(who), "server %.0f", fact_number(loop, "rank"));
        add_disks(p, who, loop);
    }
    page_table_end(p);
    page_section_end(p);
}
