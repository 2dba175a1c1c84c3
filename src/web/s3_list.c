// Reads the elements that tug needs from a page of an S3 list. The scanner knows only the
// XML syntax that such pages use; other syntax (declarations, CDATA, other named
// entities) is refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "web/scheme_internal.h"

enum { DEPTH_MAX = 16, NAME_MAX_BYTES = 32 };

struct scan {
    const char *p, *end;
    char *text; // text of the element that was read last, up to its end tag
    size_t text_len;
    unsigned depth;
    char path[DEPTH_MAX]
             [NAME_MAX_BYTES]; // names of the open elements, from the outermost
};

static int bad(struct err *e)
{
    return err_set(e, TUG_EDATA, "the server's answer is not a list of S3");
}

static bool looking_at(const struct scan *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, text, n) == 0;
}

// ---------------------------------------------------------------- text

static bool add_utf8(struct scan *s, unsigned long c)
{
    char *to = s->text + s->text_len;
    if (c == 0 || c > 0x10ffff)
        return false;
    if (c < 0x80) {
        to[0] = (char)c;
        s->text_len += 1;
    } else if (c < 0x800) {
        to[0] = (char)(0xc0 | (c >> 6));
        to[1] = (char)(0x80 | (c & 0x3f));
        s->text_len += 2;
    } else if (c < 0x10000) {
        to[0] = (char)(0xe0 | (c >> 12));
        to[1] = (char)(0x80 | ((c >> 6) & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        s->text_len += 3;
    } else {
        to[0] = (char)(0xf0 | (c >> 18));
        to[1] = (char)(0x80 | ((c >> 12) & 0x3f));
        to[2] = (char)(0x80 | ((c >> 6) & 0x3f));
        to[3] = (char)(0x80 | (c & 0x3f));
        s->text_len += 4;
    }
    return true;
}

// Replaces an entity, such as "&amp;", "&#38;" or "&#x26;", by its character, which is
// never longer.
static bool take_entity(struct scan *s)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (looking_at(s, names[i].name)) {
            s->p += strlen(names[i].name);
            s->text[s->text_len++] = names[i].c;
            return true;
        }
    if (!looking_at(s, "&#"))
        return false;
    bool hex = looking_at(s, "&#x");
    unsigned long c = 0;
    const char *p = s->p + (hex ? 3 : 2), *first = p;
    for (; p < s->end && p - first < 7 && *p != ';'; p++) {
        const char *digit = memchr("0123456789abcdef", *p | ' ', hex ? 16 : 10);
        if (digit == NULL || *p < '0')
            return false;
        c = c * (hex ? 16 : 10) + strtoul((const char[]){*p, 0}, NULL, 16);
    }
    if (p == first || p == s->end || *p != ';')
        return false;
    s->p = p + 1;
    return add_utf8(s, c);
}

// Takes the text up to the next tag.
static bool take_text(struct scan *s)
{
    while (s->p < s->end && *s->p != '<') {
        if (*s->p == '\0' || (*s->p == '&' && !take_entity(s)))
            return false;
        if (s->p < s->end && *s->p != '<' && *s->p != '&')
            s->text[s->text_len++] = *s->p++;
    }
    return s->p < s->end;
}

// ---------------------------------------------------------------- tags

// Takes a name, cut to NAME_MAX_BYTES: all names that the scanner needs are shorter.
static bool take_name(struct scan *s, char ret[NAME_MAX_BYTES])
{
    size_t n = 0;
    const char *first = s->p;
    for (; s->p < s->end && strchr(" \t\r\n/>", *s->p) == NULL; s->p++)
        if (n < NAME_MAX_BYTES - 1)
            ret[n++] = *s->p;
    ret[n] = '\0';
    return s->p > first && s->p < s->end && *first != '!' && *first != '?';
}

// Skips the attributes and the '>' of a tag. *ret_empty says whether the tag ended with
// "/>".
static bool end_tag(struct scan *s, bool *ret_empty)
{
    char quote = 0;
    for (; s->p < s->end; s->p++) {
        if (quote != 0 && *s->p != quote)
            continue;
        if (*s->p == '"' || *s->p == '\'')
            quote = quote == 0 ? *s->p : (char)0;
        else if (*s->p == '<')
            return false;
        else if (*s->p == '>') {
            *ret_empty = s->p[-1] == '/';
            s->p++;
            return true;
        }
    }
    return false;
}

static bool is_open(const struct scan *s, unsigned depth, const char *name)
{
    return s->depth > depth && strcmp(s->path[depth], name) == 0;
}

// ---------------------------------------------------------------- a list

struct list {
    struct scan s;
    struct s3_page *page;
    char *key, *etag;
    uint64_t bytes;
    bool has_bytes, has_truncated;
    int (*entry)(void *arg, const struct s3_entry *s, struct err *e);
    void *arg;
};

static int keep(char **ret, const char *text, struct err *e)
{
    mem_free(*ret);
    *ret = mem_strdup(text);
    return *ret != NULL ? 0 : err_nomem(e, "a list of files");
}

static bool number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static int end_contents(struct list *l, struct err *e)
{
    if (l->key == NULL || !l->has_bytes)
        return bad(e);
    const struct s3_entry s = {l->key, l->etag != NULL ? l->etag : "", l->bytes};
    TRY(l->entry(l->arg, &s, e));
    mem_free(l->key);
    mem_free(l->etag);
    l->key = l->etag = NULL;
    l->has_bytes = false;
    return 0;
}

static int end_of_contents(struct list *l, const char *text, struct err *e)
{
    const char *name = l->s.path[2];
    if (strcmp(name, "Key") == 0)
        return keep(&l->key, text, e);
    if (strcmp(name, "ETag") == 0)
        return keep(&l->etag, text, e);
    if (strcmp(name, "Size") != 0)
        return 0;
    l->has_bytes = number(text, &l->bytes);
    return l->has_bytes ? 0 : bad(e);
}

// Ends the innermost open element, whose text is s.text.
static int end_element(struct list *l, struct err *e)
{
    struct scan *s = &l->s;
    const char *text = s->text, *name = s->path[s->depth - 1];
    s->text[s->text_len] = '\0';
    if (!is_open(s, 0, "ListBucketResult"))
        return bad(e);
    if (s->depth == 2 && strcmp(name, "Contents") == 0)
        return end_contents(l, e);
    if (s->depth == 3 && is_open(s, 1, "Contents"))
        return end_of_contents(l, text, e);
    if (s->depth == 2 && strcmp(name, "IsTruncated") == 0) {
        l->page->truncated = strcmp(text, "true") == 0;
        l->has_truncated = true;
        return l->page->truncated || strcmp(text, "false") == 0 ? 0 : bad(e);
    }
    if (s->depth != 2 || strcmp(name, "NextContinuationToken") != 0)
        return 0;
    if (s->text_len >= sizeof l->page->next)
        return bad(e);
    memcpy(l->page->next, text, s->text_len + 1);
    return 0;
}

// Takes a tag, which opens an element or ends the innermost open one.
static int take_tag(struct list *l, struct err *e)
{
    struct scan *s = &l->s;
    char name[NAME_MAX_BYTES];
    bool empty = false, closing = looking_at(s, "</");
    s->p += closing ? 2 : 1;
    if (!take_name(s, name) || !end_tag(s, &empty))
        return bad(e);
    if (closing) {
        if (s->depth == 0 || strcmp(s->path[s->depth - 1], name) != 0)
            return bad(e);
    } else {
        if (s->depth == DEPTH_MAX)
            return bad(e);
        memcpy(s->path[s->depth++], name, sizeof name);
        s->text_len = 0;
    }
    if (!closing && !empty)
        return 0;
    TRY(end_element(l, e));
    s->depth--;
    s->text_len = 0;
    return 0;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_white(struct scan *s)
{
    while (s->p < s->end && is_white(*s->p))
        s->p++;
}

// Skips "<?xml ... ?>".
static void skip_prolog(struct scan *s)
{
    skip_white(s);
    const char *end = looking_at(s, "<?xml")
                          ? memmem(s->p, (size_t)(s->end - s->p), "?>", 2)
                          : NULL;
    s->p = end != NULL ? end + 2 : s->p;
    skip_white(s);
}

static int parse(struct list *l, struct err *e)
{
    struct scan *s = &l->s;
    skip_prolog(s);
    if (!looking_at(s, "<"))
        return bad(e);
    do {
        if (!take_text(s))
            return bad(e);
        TRY(take_tag(l, e));
    } while (s->depth > 0);
    skip_white(s);
    bool stuck = l->page->truncated && l->page->next[0] == '\0';
    return s->p == s->end && l->has_truncated && !stuck ? 0 : bad(e);
}

int s3_parse_list(const char *text, size_t n, struct s3_page *ret,
                  int (*entry)(void *arg, const struct s3_entry *s, struct err *e),
                  void *arg, struct err *e)
{
    *ret = (struct s3_page){0};
    if (n == 0)
        return bad(e);
    struct list l = {.s = {.p = text, .end = text + n, .text = mem_alloc(n + 1)},
                     .page = ret,
                     .entry = entry,
                     .arg = arg};
    int rc = l.s.text != NULL ? parse(&l, e) : err_nomem(e, "a list of files");
    mem_free(l.key);
    mem_free(l.etag);
    mem_free(l.s.text);
    return rc;
}
