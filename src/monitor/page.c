// The page as a whole; its sections are in page_run.c and page_tables.c.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "monitor/page_internal.h"
#include "os/clock.h"

enum {
    HASH_TEXT = 48,
    SHOWN_MAX = 1000, // bytes of a text from outside that the page shows
};

// Writes the hash of the text between two marks in the form of a Content-Security-Policy.
static bool hash_part(const char *text, const char *begin, const char *end,
                      char ret[HASH_TEXT])
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    const char *from = strstr(text, begin), *to = from != NULL ? strstr(from, end) : NULL;
    if (to == NULL)
        return false;
    from += strlen(begin);
    SHA256((const unsigned char *)from, (size_t)(to - from), hash);
    EVP_EncodeBlock((unsigned char *)ret, hash, sizeof(hash));
    return true;
}

int render_page_open(struct render_page *ret, const char *text, struct err *e)
{
    static const char place[] = "@MAIN@";
    char style[HASH_TEXT], script[HASH_TEXT];
    const char *at = strstr(text, place);
    if (at == NULL || !hash_part(text, "<style>", "</style>", style) ||
        !hash_part(text, "<script>", "</script>", script))
        return err_set(e, TUG_EINTERNAL, "the page of --http lacks a part");
    *ret = (struct render_page){
        .head = text, .tail = at + strlen(place), .n_head = (size_t)(at - text)};
    ret->n_tail = strlen(ret->tail);
    snprintf(ret->policy, sizeof(ret->policy),
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
             "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'",
             script, style);
    return 0;
}

// ---------------------------------------------------------------- pieces

void page_section(struct page_view *p, const char *title)
{
    html_add(&p->h, "<section><h2>%s</h2>\n", title);
}

void page_section_end(struct page_view *p)
{
    html_add(&p->h, "</section>\n");
}

void page_table(struct page_view *p, const char *const *names)
{
    html_add(&p->h, "<div class=\"wide\"><table><thead><tr>");
    for (; *names != NULL; names++)
        if (**names == '#')
            html_add(&p->h, "<th class=\"n\">%s</th>", *names + 1);
        else
            html_add(&p->h, "<th>%s</th>", *names);
    html_add(&p->h, "</tr></thead><tbody>\n");
}

void page_table_end(struct page_view *p)
{
    html_add(&p->h, "</tbody></table></div>\n");
}

void page_text(struct page_view *p, const char *text)
{
    size_t n = strnlen(text, SHOWN_MAX);
    struct buf shown = BUF_INIT(64 << 10);
    bool good = printable_add(&shown, text, n) == 0 &&
                (text[n] == '\0' || buf_printf(&shown, "...") == 0);
    const char *line = good ? buf_str(&shown) : NULL;
    if (line == NULL && p->h.rc == 0)
        p->h.rc = TUG_ENOMEM;
    html_text(&p->h, line);
    buf_free(&shown);
}

void page_fact(struct page_view *p, const char *name, const char *text)
{
    html_add(&p->h, "<div><dt>%s</dt><dd>%s</dd></div>", name, text);
}

void page_window(struct page_view *p, const char *what)
{
    char text[TEXT_MAX];
    if (p->before != NULL)
        html_add(&p->h, "<p class=\"later\">%s in the last %s.</p>\n", what,
                 text_seconds(p->seconds, text));
    else
        html_add(&p->h, "<p class=\"later\">%s since the process began.</p>\n", what);
}

void page_cell(struct page_view *p, const char *text)
{
    html_add(&p->h, "<td>");
    page_text(p, text);
    html_add(&p->h, "</td>");
}

void page_number(struct page_view *p, const char *text)
{
    html_add(&p->h, "<td class=\"n\">%s</td>", text);
}

// ---------------------------------------------------------------- the whole page

static void add_head(struct page_view *p, const struct facts_told *t)
{
    char verdict[RENDER_TEXT_MAX], text[TEXT_MAX];
    bool well = render_verdict(t, verdict);
    html_add(&p->h, "<header><p id=\"verdict\" class=\"%s\">", well ? "well" : "ill");
    page_text(p, verdict);
    if (!well && t->now != NULL) {
        render_state(t, verdict);
        html_add(&p->h, "</p><p class=\"state\">");
        page_text(p, verdict);
    }
    html_add(&p->h, "</p><p class=\"who\">");
    if (t->now != NULL) {
        page_text(p, fact_text(t->now, "role"));
        if (!isnan(fact_number(t->now, "rank")))
            html_add(&p->h, " %s", text_count(fact_number(t->now, "rank"), text));
        if (*fact_text(t->now, "phase") != '\0') {
            html_add(&p->h, " · ");
            page_text(p, fact_text(t->now, "phase"));
        }
        if (*fact_text(t->now, "address") != '\0') {
            html_add(&p->h, " · ");
            page_text(p, fact_text(t->now, "address"));
        }
        if (!isnan(fact_number(t->now, "uptime_seconds")))
            html_add(&p->h, " · up %s",
                     text_seconds(fact_number(t->now, "uptime_seconds"), text));
        html_add(&p->h, " · tug ");
        page_text(p, fact_text(t->now, "version"));
    }
    html_add(&p->h, "</p></header>\n");
}

static void add_sections(struct page_view *p)
{
    page_add_run(p);
    page_add_worker(p);
    page_add_nodes(p);
    page_add_processes(p);
    page_add_requests(p);
    page_add_tables(p);
    page_add_loops(p);
    page_add_doors(p);
    page_add_staleness(p);
    page_add_partitions(p);
    page_add_saves(p);
    page_add_disks(p);
    page_add_operations(p);
}

int render_main(const struct facts_told *t, struct buf *to)
{
    struct page_view p = {.now = t->now};
    if (t->before != NULL && t->asked_ns > t->before_ns) {
        p.before = t->before;
        p.seconds = (double)(t->asked_ns - t->before_ns) * 1e-9;
    }
    html_open(&p.h, RENDER_BYTES_MAX);
    add_head(&p, t);
    if (p.now != NULL)
        add_sections(&p);
    html_close(&p.h);
    int rc = p.h.rc == 0 ? buf_add(to, p.h.b.data, p.h.b.len) : p.h.rc;
    buf_free(&p.h.b);
    return rc;
}

int render_page(const struct render_page *page, const struct facts_told *t,
                struct buf *to)
{
    TRY(buf_add(to, page->head, page->n_head));
    TRY(render_main(t, to));
    return buf_add(to, page->tail, page->n_tail);
}
