// See origins.h. Only messages need such a file, so it is read from its beginning each
// time.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/origins.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"

enum { TEXT_MAX = FILE_PATH_MAX + 64 }; // the longest line of an origins file

#define PIPED "P\n"

// Opens the origins file of `file`, without waiting; returns NULL if there is none.
static FILE *open_beside(const char *file)
{
    char path[FILE_PATH_MAX];
    const char *slash = strrchr(file, '/');
    int dir = slash != NULL ? (int)(slash - file) + 1 : 0;
    int n = snprintf(path, sizeof(path), "%.*s.%s.origins", dir, file, file + dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat st;
    FILE *f = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "re")
                                                                    : NULL;
    if (f == NULL && fd >= 0)
        close(fd);
    return f;
}

struct line_origin {
    uint64_t first, line, file;
};

// Finds the last entry for a line at or before `line`; returns false if there is none or
// the origins file is damaged.
static bool find_place(FILE *f, uint64_t line, struct line_origin *ret)
{
    char text[TEXT_MAX];
    bool found = false;
    while (fgets(text, sizeof(text), f) != NULL) {
        struct line_origin p;
        if (text[0] == 'F' || strcmp(text, PIPED) == 0)
            continue;
        if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &p.first, &p.line,
                   &p.file) != 3)
            return false;
        if (p.first > line)
            break;
        *ret = p;
        found = true;
    }
    return found;
}

static bool find_file(FILE *f, uint64_t number, char ret[TEXT_MAX])
{
    rewind(f);
    while (fgets(ret, TEXT_MAX, f) != NULL) {
        size_t len = strlen(ret);
        if (strncmp(ret, "F ", 2) != 0 || len < 4 || ret[len - 1] != '\n')
            continue;
        if (number-- > 0)
            continue;
        ret[len - 1] = '\0';
        printable_make(ret);
        return true;
    }
    return false;
}

void origins_text(const char *file, uint64_t line, char ret[ORIGIN_TEXT_MAX])
{
    char text[TEXT_MAX];
    struct line_origin p;
    FILE *f = open_beside(file);
    if (f != NULL && find_place(f, line, &p) && find_file(f, p.file, text)) {
        file = text + 2;
        line = p.line + (line - p.first);
    }
    snprintf(ret, ORIGIN_TEXT_MAX, "%.*s:%" PRIu64, FILE_PATH_MAX, file, line);
    if (f != NULL)
        fclose(f);
}

bool origins_piped(const char *file)
{
    char text[TEXT_MAX];
    bool piped = false;
    FILE *f = open_beside(file);
    while (f != NULL && !piped && fgets(text, sizeof(text), f) != NULL)
        piped = strcmp(text, PIPED) == 0;
    if (f != NULL)
        fclose(f);
    return piped;
}
