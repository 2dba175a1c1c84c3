// Changes the names of options in a sentence to Python's keywords (tug_option_keywords).
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <string.h>

#include "os/log.h"
#include "run/train_options.h"
#include "tug/train.h"

static bool is_option(const char *name, size_t len)
{
    static const char *const commands[] = {"train", "eval", "predict"};
    struct tug_option o;
    for (size_t c = 0; c < sizeof(commands) / sizeof(*commands); c++)
        for (size_t i = 0; tug_model_option(commands[c], i, &o); i++)
            if (strlen(o.name) == len && memcmp(o.name, name, len) == 0)
                return true;
    return false;
}

static size_t name_length(const char *p)
{
    size_t n = 0;
    while (islower((unsigned char)p[n]) ||
           (n > 0 && (p[n] == '-' || isdigit((unsigned char)p[n]))))
        n++;
    return n;
}

static bool joins(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

void tug_option_keywords(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0';) {
        const char *end = strncmp(p, "'tug ", 5) == 0 ? strchr(p + 1, '\'') : NULL;
        size_t n = strncmp(p, "--", 2) == 0 && (p == text || !joins(p[-1]))
                       ? name_length(p + 2)
                       : 0;
        bool option = end == NULL && n > 0 && is_option(p + 2, n);
        size_t whole = option ? n : end != NULL ? (size_t)(end - p) + 1 : 1;
        memmove(to, option ? p + 2 : p, whole);
        for (size_t i = 0; option && i < n; i++)
            to[i] = to[i] == '-' ? '_' : to[i];
        to += whole;
        p += option ? n + 2 : whole;
    }
    *to = '\0';
}

void tug_log_keywords(bool yes)
{
    log_rewrite_by(yes ? tug_option_keywords : NULL);
}
