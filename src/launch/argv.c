// Lists of words; see argv.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

static char *make_text(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = n >= 0 ? mem_alloc((size_t)n + 1) : NULL;
    if (text != NULL)
        vsnprintf(text, (size_t)n + 1, fmt, args);
    return text;
}

static int argv_take(struct argv *w, char *text)
{
    const char **at = text != NULL ? mem_realloc_array(w->at, w->n + 2, sizeof(*w->at))
                                   : NULL;
    if (at == NULL) {
        mem_free(text);
        return TUG_ENOMEM;
    }
    w->at = at;
    w->at[w->n++] = text;
    w->at[w->n] = NULL;
    return 0;
}

int argv_add(struct argv *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = make_text(fmt, args);
    va_end(args);
    return argv_take(w, text);
}

int argv_add_all(struct argv *w, const char *const *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(argv_take(w, mem_strdup(from[i])));
    return 0;
}

void argv_free(struct argv *w)
{
    for (size_t i = 0; i < w->n; i++)
        mem_free((char *)(uintptr_t)w->at[i]);
    mem_free(w->at);
    *w = (struct argv){0};
}

int argv_environment(struct argv *w, int (*drop)(const char *name_value))
{
    for (char **v = environ; v != NULL && *v != NULL; v++)
        if (!drop(*v))
            TRY(argv_take(w, mem_strdup(*v)));
    return 0;
}

int argv_set(struct argv *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = make_text(fmt, args);
    va_end(args);
    size_t name = text != NULL ? strcspn(text, "=") + 1 : 0;
    for (size_t i = 0; text != NULL && i < w->n; i++)
        if (strncmp(w->at[i], text, name) == 0) {
            mem_free((char *)(uintptr_t)w->at[i]);
            w->at[i] = text;
            return 0;
        }
    return argv_take(w, text);
}

int argv_quote(struct buf *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_@%+=:,./-";
    if (word[0] != 0 && word[strspn(word, plain)] == 0)
        return buf_add(b, word, strlen(word));
    TRY(buf_add(b, "'", 1));
    for (; *word != 0; word++)
        TRY(*word == '\'' ? buf_add(b, "'\\''", 4) : buf_add(b, word, 1));
    return buf_add(b, "'", 1);
}
