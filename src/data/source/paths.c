// Expands paths, makes the checks that need no decompression, and opens files.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/frame/rows.h"
#include "data/input/decode.h"
#include "data/input/filter.h"
#include "os/below.h"
#include "web/web.h"

enum { END_BYTES = 64 << 10 };
enum { NOTHING_BYTES = 1 << 10 }; // a larger compressed file is not empty text

// Appends a copy of `file` to the list, with a copy of `name` as its name.
static int add_name(struct data_files *f, const char *name, struct data_file file,
                    struct err *e)
{
    if (mem_room(&f->file, &f->cap, f->n + 1) != 0)
        return err_nomem(e, "the list of data files");
    file.command = f->command;
    file.packed = file.compressed;
    file.compressed |= f->command != NULL;
    file.name = mem_strdup(name);
    if (file.name == NULL)
        return err_nomem(e, "the list of data files");
    f->file[f->n++] = file;
    return 0;
}

// Adds "-". It may be given only once, because standard input can be read only once.
static int add_stdin(struct data_files *f, struct err *e)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->file[i].is_stdin)
            return err_set(e, TUG_EUSAGE, "standard input ('-') is given twice as data");
    return add_name(f, "(standard input)",
                    (struct data_file){.is_stdin = true, .is_pipe = true}, e);
}

static int open_failed(const char *path, struct err *e)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return err_set(e, TUG_EDATA,
                       "no data at '%s': there is no such file or directory%s", path,
                       strchr(path, ',') != NULL
                           ? " (several files are separated by blanks, not by commas)"
                           : "");
    return err_sys(e, TUG_EIO, "cannot open '%s'", path);
}

// Checks the first bytes of a file. If a command reads the file, any bytes are allowed,
// because the command may make text of them.
static int take_head(const struct data_files *f, const char *head, size_t n,
                     const char *path, struct data_file *ret, struct err *e)
{
    if (f->command == NULL)
        TRY(decoder_refuse(head, n, path, e));
    const struct decode_ops *ops = decoder_detect(head, n);
    ret->compressed = ops != &decode_plain;
    ret->text_bytes = ret->bytes * ops->expansion;
    return 0;
}

static int check_file(const struct data_files *f, int fd, const char *path,
                      struct data_file *ret, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, TUG_EIO, "cannot examine '%s'", path);
    char head[64];
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return err_sys(e, TUG_EIO, "read '%s'", path);
    ret->bytes = (uint64_t)st.st_size;
    ret->device = st.st_dev;
    ret->inode = st.st_ino;
    return take_head(f, head, (size_t)n, path, ret, e);
}

// Returns whether the file has no text. Read errors are reported later, by the reader of
// the whole file.
static int is_empty(const struct data_file *file, bool *ret, struct err *e)
{
    struct decoder *d = NULL;
    char byte;
    size_t n = 1;
    *ret = file->bytes == 0;
    if (*ret || !file->packed || file->command != NULL || file->bytes > NOTHING_BYTES)
        return 0;
    int rc = data_file_open(&d, file, &INTERRUPT_NEVER, e);
    if (rc == 0)
        rc = decoder_read(d, &byte, 1, &n, e);
    *ret = rc == 0 && n == 0;
    decoder_close(d);
    return rc == TUG_ENOMEM ? rc : 0;
}

static void data_file_free(struct data_file *f)
{
    mem_free(f->name);
    mem_free(f->address);
}

// Removes the last added file from the list if it is empty.
static int pass_empty(struct data_files *f, struct err *e)
{
    bool empty = false;
    TRY(is_empty(&f->file[f->n - 1], &empty, e));
    if (!empty)
        return 0;
    struct data_file *file = &f->file[--f->n];
    if (f->empty++ == 0) {
        f->first_empty = file->name;
        file->name = NULL;
    }
    data_file_free(file);
    return 0;
}

static int add_file(struct data_files *f, const char *path, struct err *e)
{
    // O_NONBLOCK: if the file has become a pipe, open does not wait for its writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return open_failed(path, e);
    struct data_file file = {0};
    int rc = check_file(f, fd, path, &file, e);
    close(fd);
    if (rc == 0)
        rc = add_name(f, path, file, e);
    return rc == 0 ? pass_empty(f, e) : rc;
}

static int by_name(const void *a, const void *b)
{
    const struct data_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// A directory that is being read, and the directories above it.
struct walk {
    const struct walk *above;
    dev_t device;
    ino_t inode;
};

static int walk_dir(struct data_files *f, const char *path, const struct walk *above,
                    struct err *e);

// Adds a plain file or a directory; skips hidden entries and entries of other kinds.
static int add_entry(struct data_files *f, const char *dir, const char *name,
                     const struct walk *above, struct err *e)
{
    if (name[0] == '.' || name[0] == '_')
        return 0;
    size_t dir_len = strlen(dir);
    while (dir_len > 1 && dir[dir_len - 1] == '/')
        dir_len--;
    size_t bytes = dir_len + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path == NULL)
        return err_nomem(e, "a path");
    snprintf(path, bytes, "%.*s/%s", (int)dir_len, dir, name);
    struct stat st, link;
    int rc = stat(path, &st);
    if (rc != 0 && errno == ENOENT && lstat(path, &link) == 0)
        rc = err_set(e, TUG_EDATA, "'%s' is a link to a missing file", path);
    else if (rc == 0 && S_ISREG(st.st_mode))
        rc = add_file(f, path, e);
    else if (rc == 0 && S_ISDIR(st.st_mode))
        rc = walk_dir(f, path, above, e);
    else
        rc = 0;
    mem_free(path);
    return rc;
}

static int open_dir(const char *path, struct walk *at, DIR **ret, struct err *e)
{
    struct stat st;
    *ret = opendir(path);
    if (*ret == NULL)
        return open_failed(path, e);
    int rc = fstat(dirfd(*ret), &st) == 0
                 ? 0
                 : err_sys(e, TUG_EIO, "cannot examine '%s'", path);
    at->device = st.st_dev;
    at->inode = st.st_ino;
    for (const struct walk *up = at->above; rc == 0 && up != NULL; up = up->above)
        if (up->device == at->device && up->inode == at->inode)
            rc = err_set(e, TUG_EDATA,
                         "'%s' is a link back to a directory that it lies in; remove the "
                         "link",
                         path);
    if (rc != 0)
        closedir(*ret);
    return rc;
}

static int walk_dir(struct data_files *f, const char *path, const struct walk *above,
                    struct err *e)
{
    DIR *dir;
    struct walk at = {.above = above};
    int rc = open_dir(path, &at, &dir, e);
    if (rc != 0)
        return rc;
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir)) != NULL)
        rc = add_entry(f, path, entry->d_name, &at, e);
    closedir(dir);
    return rc;
}

static int add_dir(struct data_files *f, const char *path, struct err *e)
{
    size_t before = f->n, empty = f->empty;
    TRY(walk_dir(f, path, NULL, e));
    if (f->n == before && f->empty == empty)
        return err_set(e, TUG_EDATA,
                       "no data in '%s': there are no plain files in it or below it",
                       path);
    qsort(f->file + before, f->n - before, sizeof *f->file, by_name);
    return 0;
}

static int add_path(struct data_files *f, const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return open_failed(path, e);
    if (S_ISFIFO(st.st_mode))
        return add_name(
            f, path,
            (struct data_file){.is_pipe = true, .device = st.st_dev, .inode = st.st_ino},
            e);
    if (S_ISDIR(st.st_mode))
        return add_dir(f, path, e);
    return S_ISREG(st.st_mode)
               ? add_file(f, path, e)
               : err_set(
                     e, TUG_EDATA,
                     "'%s' is neither a file nor a pipe, so data cannot be read from it",
                     path);
}

static int add_glob(struct data_files *f, const char *pattern, struct err *e)
{
    glob_t g = {0};
    // GLOB_NOSORT, because glob's own order depends on the locale.
    int rc = glob(pattern, GLOB_NOSORT, NULL, &g);
    if (rc == GLOB_NOMATCH)
        rc = err_set(e, TUG_EDATA, "no data at '%s': the pattern matches nothing",
                     pattern);
    else if (rc != 0)
        rc = err_set(e, TUG_EIO, "cannot list the files '%s': %s", pattern,
                     rc == GLOB_NOSPACE ? "out of memory" : "a directory cannot be read");
    size_t before = f->n;
    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        rc = add_path(f, g.gl_pathv[i], e);
    globfree(&g);
    if (rc == 0)
        qsort(f->file + before, f->n - before, sizeof *f->file, by_name);
    return rc;
}

static int add_found(void *arg, const struct web_file *found, struct err *e)
{
    struct data_files *f = arg;
    struct data_file file = {.bytes = found->bytes, .version = found->version};
    TRY(take_head(f, found->head, found->head_len, found->name, &file, e));
    char *address = mem_strdup(found->address);
    if (address == NULL)
        return err_nomem(e, "the list of data files");
    int rc = add_name(f, found->name, file, e);
    if (rc != 0) {
        mem_free(address);
        return rc;
    }
    f->file[f->n - 1].address = address;
    return pass_empty(f, e);
}

static int add_address(struct data_files *f, const char *address, struct err *e)
{
    const struct interrupt i = {-1, f->interrupted};
    size_t before = f->n;
    TRY(web_list(address, &i, add_found, f, e));
    qsort(f->file + before, f->n - before, sizeof *f->file, by_name);
    return 0;
}

static int add_rows(struct data_files *f, const char *address, struct err *e)
{
    const struct rows *r = rows_find(address);
    if (r == NULL)
        return err_set(e, TUG_EDATA, "the rows in memory at '%s' no longer exist",
                       address);
    if (f->command != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--pipe-command reads files, but the data is rows in memory");
    if (r->n == 0)
        return err_set(e, TUG_EDATA, "%s: there are no rows", r->name);
    return add_name(
        f, r->name,
        (struct data_file){.rows = r, .bytes = r->n, .text_bytes = rows_text_bytes(r)},
        e);
}

int data_files_add(struct data_files *f, const char *path, struct err *e)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return add_stdin(f, e);
    if (path[0] == '\0')
        return err_set(e, TUG_EUSAGE, "a path of data is empty");
    if (rows_is_address(path))
        return add_rows(f, path, e);
    // A file whose name contains a bracket is not a pattern.
    if (stat(path, &st) == 0)
        return add_path(f, path, e);
    if (web_is(path))
        return add_address(f, path, e);
    return strpbrk(path, "*?[") == NULL ? add_path(f, path, e) : add_glob(f, path, e);
}

int data_files_check(const struct data_files *f, struct err *e)
{
    if (f->n > 0 || f->empty == 0)
        return 0;
    if (f->empty == 1)
        return err_set(e, TUG_EDATA, "'%s' is empty", f->first_empty);
    return err_set(e, TUG_EDATA,
                   "there is no data: all %zu files are empty; the first of them is '%s'",
                   f->empty, f->first_empty);
}

int data_files_add_all(struct data_files *f, const char *const *paths, size_t n,
                       struct problems *p, struct err *e)
{
    struct err why;
    for (size_t i = 0; i < n; i++) {
        int rc = problems_note(p, data_files_add(f, paths[i], &why), &why);
        if (rc != 0)
            return err_copy(e, &why);
    }
    return problems_note(p, data_files_check(f, &why), &why);
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_identity(const void *a, const void *b)
{
    const struct data_file *x = *(const struct data_file *const *)a,
                           *y = *(const struct data_file *const *)b;
    int order = compare_u64(x->device, y->device);
    order = order != 0 ? order : compare_u64(x->inode, y->inode);
    order = order != 0 ? order : compare_u64((uintptr_t)x->rows, (uintptr_t)y->rows);
    if (order == 0 && x->address != NULL && y->address != NULL)
        return strcmp(x->address, y->address);
    return order != 0 ? order : (x->address != NULL) - (y->address != NULL);
}

static bool has_identity(const struct data_file *f)
{
    return f->inode != 0 || f->rows != NULL || f->address != NULL;
}

bool data_files_repeated(const struct data_files *f, size_t from, size_t to,
                         size_t ret[2])
{
    size_t n = 0;
    bool found = false;
    const struct data_file **sorted = mem_array(to - from + 1, sizeof *sorted);
    if (sorted == NULL)
        return false; // without memory there is only no warning about repeated files
    for (size_t i = from; i < to; i++)
        if (has_identity(&f->file[i]))
            sorted[n++] = &f->file[i];
    qsort(sorted, n, sizeof *sorted, by_identity);
    for (size_t i = 1; i < n && !found; i++) {
        found = by_identity(&sorted[i - 1], &sorted[i]) == 0;
        size_t a = (size_t)(sorted[i - 1] - f->file), b = (size_t)(sorted[i] - f->file);
        ret[0] = a < b ? a : b;
        ret[1] = a < b ? b : a;
    }
    mem_free(sorted);
    return found;
}

void data_files_add_seen(struct data_files *f, const char *const *paths, size_t n)
{
    struct err unseen;
    for (size_t i = 0; i < n; i++)
        if (strcmp(paths[i], "-") != 0 && !rows_is_address(paths[i]) && !web_is(paths[i]))
            (void)data_files_add(f, paths[i], &unseen);
}

bool data_files_has(const struct data_files *f, const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return false;
    for (size_t i = 0; i < f->n; i++)
        if (f->file[i].inode == s.st_ino && f->file[i].device == s.st_dev)
            return true;
    return false;
}

// Returns whether walk_dir skips the path `rest`, which is relative to the walked
// directory.
static bool is_hidden(const char *rest)
{
    for (const char *at = rest; at != NULL; at = strchr(at, '/')) {
        at += strspn(at, "/");
        if (*at == '.' || *at == '_')
            return true;
    }
    return false;
}

int data_paths_check_output(const char *const *paths, size_t n, const char *option,
                            const char *out, struct err *e)
{
    char dir[FILE_PATH_MAX], to[FILE_PATH_MAX];
    struct stat s;
    if (out == NULL || below_absolute(out, to, NULL) != 0)
        return 0; // writing the file reports why it cannot be written
    for (size_t i = 0; i < n; i++) {
        if (stat(paths[i], &s) != 0 || !S_ISDIR(s.st_mode) ||
            below_absolute(paths[i], dir, NULL) != 0)
            continue;
        const char *rest = below_rest(dir, to);
        if (rest != NULL && !is_hidden(rest))
            return err_set(e, TUG_EUSAGE,
                           "%s: '%s' lies in '%s', a folder of data, and would be read "
                           "as data there next time: give a path outside of it, or a "
                           "name that begins with '_'",
                           option, out, paths[i]);
    }
    return 0;
}

const struct data_file *data_files_pipe(const struct data_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->file[i].is_pipe)
            return &f->file[i];
    return NULL;
}

// ---------------------------------------------------------------- bytes of files

static int hash_ends(struct input *in, const struct data_file *f, uint64_t *ret,
                     struct err *e)
{
    size_t n = f->bytes < END_BYTES ? (size_t)f->bytes : END_BYTES;
    size_t all = sizeof f->bytes + 2 * n;
    char *bytes = mem_alloc(all);
    if (bytes == NULL)
        return err_nomem(e, "a read buffer");
    memcpy(bytes, &f->bytes, sizeof f->bytes);
    int rc = input_read_all(in, bytes + sizeof f->bytes, n, 0, e);
    if (rc == 0)
        rc = input_read_all(in, bytes + sizeof f->bytes + n, n, f->bytes - n, e);
    *ret = rc == 0 ? hash_bytes(bytes, all, 0) : 0;
    mem_free(bytes);
    return rc;
}

int data_file_hash(const struct data_file *f, uint64_t *ret, struct err *e)
{
    struct input *in = NULL;
    if (f->rows != NULL)
        return rows_hash(f->rows, ret, e);
    *ret = mix64(f->bytes ^ f->version);
    if (f->version != 0)
        return 0;
    TRY(data_file_input(&in, f, &INTERRUPT_NEVER, e));
    int rc = hash_ends(in, f, ret, e);
    input_close(in);
    return rc;
}

int data_file_input(struct input **ret, const struct data_file *f,
                    const struct interrupt *i, struct err *e)
{
    const struct web_file r = {
        .name = f->name, .address = f->address, .bytes = f->bytes, .version = f->version};
    if (f->address != NULL)
        return input_open_web(ret, &r, i, e);
    // O_NONBLOCK: opening a named pipe would wait for its writer, and nothing could end
    // the wait.
    int fd = f->is_stdin
                 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                 : open(f->name, O_RDONLY | O_CLOEXEC | (f->is_pipe ? O_NONBLOCK : 0));
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot open '%s'", f->name);
    return input_open_fd(ret, fd, f->name, f->is_pipe ? i->wake_fd : -1, e);
}

int data_file_open(struct decoder **ret, const struct data_file *f,
                   const struct interrupt *i, struct err *e)
{
    struct input *in = NULL;
    TRY(f->command != NULL ? filter_open(&in, f, i, e) : data_file_input(&in, f, i, e));
    return decoder_open_input(ret, in, f->name, e);
}

int data_file_first_lines(const struct data_file *f, const atomic_bool *interrupted,
                          size_t lines, size_t most, struct buf *b, struct err *e)
{
    struct decoder *d = NULL;
    if (f->rows != NULL)
        return rows_first_lines(f->rows, lines, most, b, e);
    TRY(data_file_open(&d, f, &(struct interrupt){-1, interrupted}, e));
    int rc = decoder_first_lines(d, lines, most, b, e);
    decoder_close(d);
    return rc;
}

void data_files_free(struct data_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        data_file_free(&f->file[i]);
    mem_free(f->file);
    mem_free(f->first_empty);
    *f = (struct data_files){0};
}
