// See files.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/files.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/test.h"
#include "os/new_file.h"

enum { PATHS = 16, MAX_FILES = 300 };

char files_dir[FILES_PATH];
static char paths[PATHS][FILES_PATH];
static unsigned turn;

// ---------------------------------------------------------------- the folder

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void files_remove(const char *path)
{
    if (files_exists(path))
        assert_int_equal(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static int begin_in(const char *base)
{
    snprintf(files_dir, sizeof(files_dir), "%s/tug-test-XXXXXX",
             base != NULL ? base : "/tmp");
    return mkdtemp(files_dir) != NULL ? 0 : -1;
}

int files_begin(void **state)
{
    (void)state;
    return begin_in(getenv("TMPDIR"));
}

int files_begin_in_memory(void **state)
{
    return access("/dev/shm", W_OK) == 0 ? begin_in("/dev/shm") : files_begin(state);
}

int files_end(void **state)
{
    (void)state;
    return nftw(files_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// ---------------------------------------------------------------- paths

const char *files_path(const char *format, ...)
{
    char *p = paths[turn++ % PATHS];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(p, FILES_PATH, format, args);
    va_end(args);
    assert_in_range(n, 1, FILES_PATH - 1);
    return p;
}

const char *files_in(const char *format, ...)
{
    char name[FILES_PATH];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    assert_in_range(n, 1, sizeof(name) - 1);
    return files_path("%s/%s", files_dir, name);
}

// ---------------------------------------------------------------- files

bool files_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

const char *files_write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *files_write(const char *path, const char *text)
{
    return files_write_bytes(path, text, strlen(text));
}

char *files_read(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *text = mem_alloc((size_t)st.st_size + 1);
    assert_non_null(text);
    size_t n = fread(text, 1, (size_t)st.st_size, f);
    fclose(f);
    text[n] = 0;
    if (ret_n != NULL)
        *ret_n = n;
    return text;
}

struct buf files_buf(const char *path)
{
    struct buf b = BUF_INIT(64 << 20);
    OK(file_read(path, &b, &ok_e));
    return b;
}

bool files_same(const char *a, const char *b)
{
    size_t size[2];
    char *text[2] = {files_read(a, &size[0]), files_read(b, &size[1])};
    bool same = text[0] != NULL && text[1] != NULL && size[0] == size[1] &&
                memcmp(text[0], text[1], size[0]) == 0;
    mem_free(text[0]);
    mem_free(text[1]);
    return same;
}

// ---------------------------------------------------------------- directories

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t files_list(const char *dir, char names[][64], size_t max)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return 0;
    size_t n = 0;
    for (struct dirent *entry = readdir(d); entry != NULL && n < max; entry = readdir(d))
        if (entry->d_name[0] != '.')
            snprintf(names[n++], 64, "%.63s", entry->d_name);
    closedir(d);
    qsort(names, n, 64, by_name);
    return n;
}

int files_beside(const char *dir, char ret_path[FILE_PATH_MAX])
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        if (new_file_target(x->d_name) == 0)
            continue;
        n++;
        if (ret_path != NULL)
            (void)file_join(ret_path, dir, x->d_name, NULL);
    }
    closedir(d);
    return n;
}

void files_nothing_beside(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        size_t n = strlen(x->d_name);
        assert_false(n > 4 && strcmp(x->d_name + n - 4, ".tmp") == 0);
    }
    closedir(d);
}

void files_copy_dir(const char *from, const char *to)
{
    char names[MAX_FILES][64];
    assert_int_equal(mkdir(to, 0700), 0);
    size_t n = files_list(from, names, MAX_FILES);
    for (size_t i = 0; i < n; i++) {
        const char *source = files_path("%s/%s", from, names[i]);
        const char *target = files_path("%s/%s", to, names[i]);
        struct stat st;
        assert_int_equal(stat(source, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            // Directories may be one level deep only, because each level uses further
            // paths of files_path.
            files_copy_dir(source, target);
            continue;
        }
        size_t bytes;
        char *text = files_read(source, &bytes);
        files_write_bytes(target, text, bytes);
        mem_free(text);
    }
}

const char *files_shared(const char *name)
{
    static char shared[4][512];
    static unsigned next;
    const char *dir = getenv("TUG_SHARED");
    char *p = shared[next++ % 4];
    snprintf(p, sizeof(shared[0]), "%s/data/%s", dir != NULL ? dir : "/nonexistent",
             name);
    if (access(p, R_OK) != 0)
        skip_because(
            "no data set %s in TUG_SHARED (a folder 'shared' beside the checkout)", name);
    return p;
}
