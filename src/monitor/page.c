// The page as a whole; its sections are in page_run.c and page_tables.c.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "monitor/page_internal.h"
#include "os/clock.h"

enum { HASH_TEXT = 48 };

// Writes the hash of what is between two marks, as a policy names it.
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
        return err_set(e, TUG_EINTERNAL, "the page of --http is not as it should be");
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

void page_section(struct page *p, const char *title)
{
    markup_add(&p->h, "<section><h2>%s</h2>\n", title);
}

void page_section_end(struct page *p)
{
    markup_add(&p->h, "</section>\n");
}

void page_table(struct page *p, const char *const *names)
{
    markup_add(&p->h, "<div class=\"wide\"><table><thead><tr>");
    for (; *names != NULL; names++)
        if (**names == '#')
            markup_add(&p->h, "<th class=\"n\">%s</th>", *names + 1);
        else
            markup_add(&p->h, "<th>%s</th>", *names);
    markup_add(&p->h, "</tr></thead><tbody>\n");
}

void page_table_end(struct page *p)
{
    markup_add(&p->h, "</tbody></table></div>\n");
}

void page_cell(struct page *p, const char *text)
{
    markup_add(&p->h, "<td>");
    markup_text(&p->h, text);
    markup_add(&p->h, "</td>");
}

void page_number(struct page *p, const char *text)
{
    markup_add(&p->h, "<td class=\"n\">%s</td>", text);
}

// ---------------------------------------------------------------- the whole

static void add_head(struct page *p, const struct facts_told *t)
{
    char verdict[RENDER_TEXT_MAX], text[TEXT_MAX];
    bool well = render_verdict(t, verdict);
    markup_add(&p->h, "<header><p id=\"verdict\" class=\"%s\">", well ? "well" : "ill");
    markup_text(&p->h, verdict);
    if (!well && t->now != NULL) {
        render_state(t, verdict);
        markup_add(&p->h, "</p><p class=\"state\">");
        markup_text(&p->h, verdict);
    }
    markup_add(&p->h, "</p><p class=\"who\">");
    if (t->now != NULL) {
        markup_text(&p->h, fact_text(t->now, "role"));
        if (!isnan(fact_number(t->now, "rank")))
            markup_add(&p->h, " %s", text_count(fact_number(t->now, "rank"), text));
        if (*fact_text(t->now, "phase") != '\0') {
            markup_add(&p->h, " · ");
            markup_text(&p->h, fact_text(t->now, "phase"));
        }
        if (*fact_text(t->now, "address") != '\0') {
            markup_add(&p->h, " · ");
            markup_text(&p->h, fact_text(t->now, "address"));
        }
        markup_add(&p->h, " · up %s",
                   text_seconds(fact_number(t->now, "uptime_seconds"), text));
        markup_add(&p->h, " · tug ");
        markup_text(&p->h, fact_text(t->now, "version"));
    }
    markup_add(&p->h, "</p></header>\n");
}

static void add_sections(struct page *p)
{
    page_add_run(p);
    page_add_nodes(p);
    page_add_processes(p);
    page_add_requests(p);
    page_add_tables(p);
    page_add_loops(p);
    page_add_staleness(p);
    page_add_partitions(p);
    page_add_saves(p);
    page_add_disks(p);
    page_add_operations(p);
}

int render_main(const struct facts_told *t, struct buf *to)
{
    struct page p = {.h = {.to = to}, .now = t->now};
    if (t->before != NULL && t->asked_ns > t->before_ns) {
        p.before = t->before;
        p.seconds = (double)(t->asked_ns - t->before_ns) * 1e-9;
    }
    add_head(&p, t);
    if (p.now != NULL)
        add_sections(&p);
    return p.h.rc;
}

int render_page(const struct render_page *page, const struct facts_told *t,
                struct buf *to)
{
    TRY(buf_add(to, page->head, page->n_head));
    TRY(render_main(t, to));
    return buf_add(to, page->tail, page->n_tail);
}
