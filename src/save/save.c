// Saves are numbered directories. A save becomes visible when its manifest is renamed
// into place; its directory is never changed after that. This file makes, finds and
// removes saves, and opens chains of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/save.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/json.h"
#include "os/new_file.h"
#include "save/save_internal.h"
#include "tug/tug.h"

#define RUN_NAME "run.json"

uint32_t save_number(const char *name)
{
    if (strncmp(name, "save-", 5) != 0)
        return 0;
    const char *digits = name + 5;
    size_t n = strspn(digits, "0123456789");
    bool ours = digits[n] == 0 && (n == 6 || (n > 6 && n < 10 && *digits != '0'));
    return ours ? (uint32_t)strtoul(digits, NULL, 10) : 0;
}

int save_path(char ret[FILE_PATH_MAX], const char *dir, uint32_t number, struct err *e)
{
    char name[32];
    snprintf(name, sizeof(name), "save-%06u", number);
    return file_join(ret, dir, name, e);
}

static bool has_manifest(const char *path)
{
    char manifest[FILE_PATH_MAX];
    return file_join(manifest, path, SAVE_MANIFEST, NULL) == 0 && file_exists(manifest);
}

// The numbers of the saves in a directory, descending.
struct numbers {
    uint32_t *at;
    size_t n, cap;
};

static int descending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static int add_number(struct numbers *l, uint32_t number)
{
    TRY(mem_room(&l->at, &l->cap, l->n + 1));
    l->at[l->n++] = number;
    return 0;
}

// Lists the numbers of the saves in a directory; none if the directory does not exist.
static int list_numbers(struct numbers *ret, const char *dir, struct err *e)
{
    *ret = (struct numbers){0};
    DIR *d = opendir(dir);
    if (d == NULL)
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : err_sys(e, TUG_EIO, "cannot list '%s'", dir);
    int rc = 0;
    for (struct dirent *x = readdir(d); x != NULL && rc == 0; x = readdir(d))
        if (save_number(x->d_name) != 0)
            rc = add_number(ret, save_number(x->d_name));
    closedir(d);
    if (rc != 0) {
        mem_free(ret->at);
        return err_nomem(e, "a list of saves");
    }
    if (ret->n > 0)
        qsort(ret->at, ret->n, sizeof(*ret->at), descending);
    return 0;
}

// Returns the newest save with a manifest; 0 if there is none.
static uint32_t newest_complete(const struct numbers *l, const char *dir)
{
    char path[FILE_PATH_MAX];
    for (size_t i = 0; i < l->n; i++)
        if (save_path(path, dir, l->at[i], NULL) == 0 && has_manifest(path))
            return l->at[i];
    return 0;
}

// Returns whether a file of this name belongs to a save, complete or unfinished.
static bool is_ours(const char *name)
{
    char plain[NAME_MAX + 1];
    size_t n = new_file_target(name);
    n = n > 0 ? n : strlen(name);
    if (n >= sizeof(plain))
        return false;
    memcpy(plain, name, n);
    plain[n] = '\0';
    size_t suffix = strlen(SAVE_ROWS_SUFFIX);
    return strcmp(plain, SAVE_MANIFEST) == 0 || strcmp(plain, RUN_NAME) == 0 ||
           strcmp(plain, SAVE_NAMES) == 0 || strcmp(plain, SAVE_HISTORY) == 0 ||
           (n > suffix && strcmp(plain + n - suffix, SAVE_ROWS_SUFFIX) == 0);
}

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

// Removes a save, beginning with its manifest: files without a manifest are not a save.
// If files remain, the next commits try to remove them.
static void remove_at(const char *path)
{
    DIR *d = file_open_real_dir(path);
    if (d == NULL && !is_link(path))
        return;
    if (d != NULL && (disk_remove_at(dirfd(d), SAVE_MANIFEST) == 0 || errno == ENOENT))
        for (struct dirent *x = readdir(d); x != NULL; x = readdir(d))
            if (is_ours(x->d_name))
                (void)disk_remove_at(dirfd(d), x->d_name);
    if (d != NULL)
        closedir(d);
    (void)disk_remove(path);
}

void save_remove(const char *dir, uint32_t number)
{
    char path[FILE_PATH_MAX];
    if (save_path(path, dir, number, NULL) == 0)
        remove_at(path);
}

int save_empty(const char *path, struct save_manifest *m, struct err *e)
{
    remove_at(path);
    for (size_t i = 0; i < m->n_tables; i++)
        mem_free(m->tables[i].files);
    m->n_tables = 0;
    m->step = m->published = 0;
    return file_make_dir(path, e);
}

// A save that was found in a directory.
struct old_save {
    uint32_t number;
    // complete: the save has a manifest; readable: the manifest was read and is valid.
    bool complete, readable;
    bool is_delta;
    uint32_t parent;
};

// Gets the state of a save. If `read` is true, also reads the save's manifest.
static struct old_save save_look_at(const char *dir, uint32_t number, bool read)
{
    struct old_save x = {.number = number};
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    if (save_path(path, dir, number, NULL) != 0)
        return x;
    x.complete = has_manifest(path);
    x.readable = x.complete && read && save_read(path, &m, NULL) == 0;
    if (!x.readable)
        return x;
    x.is_delta = m.mode == SAVE_DELTA;
    x.parent = m.parent;
    save_manifest_free(&m);
    return x;
}

static void need(const struct numbers *l, bool *needed, uint32_t number)
{
    const uint32_t *at = bsearch(&number, l->at, l->n, sizeof(*l->at), descending);
    if (at != NULL)
        needed[at - l->at] = true;
}

// Removes the saves that are not needed, from the newest to the oldest. Keeps a complete
// save whose manifest cannot be read, because another version may have written it. If
// `keep` is 0, reads no manifest, and removes only unfinished saves.
static void remove_old(const char *dir, const struct numbers *l, bool *needed,
                       uint32_t keep)
{
    uint32_t roots = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct old_save x = save_look_at(dir, l->at[i], keep > 0);
        if (x.complete && !x.readable)
            continue;
        if (x.complete && (roots < keep || needed[i])) {
            roots += !x.is_delta;
            if (x.is_delta)
                need(l, needed, x.parent);
        } else {
            save_remove(dir, x.number);
        }
    }
}

// Removes old saves after a commit; if that fails, the next commit tries again. `keep` is
// 0 after a delta, for two reasons. A delta needs the saves that it builds on, so it
// makes no other save unnecessary. Reading the manifests of the chain would take longer
// with each delta.
static void clean(const char *dir, uint32_t keep)
{
    struct numbers l;
    if (list_numbers(&l, dir, NULL) != 0)
        return;
    bool *needed = mem_zalloc(l.n + 1);
    if (needed != NULL)
        remove_old(dir, &l, needed, keep);
    mem_free(needed);
    mem_free(l.at);
}

static void unlock(struct save_manifest *m)
{
    if (m->locked)
        file_unlock_dir(m->lock);
    m->locked = false;
}

static int find_parent(const char *dir, const struct numbers *l, struct save_manifest *m,
                       struct err *e)
{
    struct save_manifest parent;
    char path[FILE_PATH_MAX];
    m->parent = newest_complete(l, dir);
    if (m->parent == 0)
        return err_set(e, TUG_EUSAGE,
                       "'%s' holds no save that a delta could build on: save a base or a "
                       "checkpoint there first",
                       dir);
    TRY(save_path(path, dir, m->parent, e));
    TRY(save_read(path, &parent, e));
    m->parent_checksum = parent.checksum;
    m->parent_published = parent.published;
    save_manifest_free(&parent);
    return 0;
}

int save_check_parent(const struct store *s, const struct save_manifest *m, struct err *e)
{
    if (m->mode != SAVE_DELTA ||
        store_follows(s, m->parent_checksum, m->parent_published))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "table '%s' was not published by the newest save in that directory: a "
                   "delta would lack the changes between the two; save a base there "
                   "first",
                   store_config(s)->name);
}

static int save_begin_file(const char *dir, struct save_manifest *m,
                           char ret_path[FILE_PATH_MAX], struct err *e)
{
    struct numbers l;
    TRY(list_numbers(&l, dir, e));
    uint32_t newest = l.n > 0 ? l.at[0] : 0;
    int rc = m->mode == SAVE_DELTA ? find_parent(dir, &l, m, e) : 0;
    mem_free(l.at);
    TRY(rc);
    if (newest == SAVE_MAX_NUMBER)
        return err_set(e, TUG_EUSAGE,
                       "'%s' has save number %u, which is the greatest possible; use "
                       "another directory",
                       dir, newest);
    m->number = newest + 1;
    TRY(save_path(ret_path, dir, m->number, e));
    return file_make_new_dir(ret_path, e);
}

int save_begin_locked(const char *dir, enum save_mode mode, struct save_manifest *ret,
                      char ret_path[FILE_PATH_MAX], struct err *e)
{
    *ret = (struct save_manifest){.mode = mode, .locked = true, .lock = -1};
    int rc = save_begin_file(dir, ret, ret_path, e);
    if (rc != 0)
        save_manifest_free(ret);
    return rc;
}

int save_begin(const char *dir, enum save_mode mode, struct save_manifest *ret,
               char ret_path[FILE_PATH_MAX], struct err *e)
{
    int lock;
    *ret = (struct save_manifest){0};
    TRY(file_make_dir(dir, e));
    TRY(file_lock_dir(dir, &lock, e));
    int rc = save_begin_locked(dir, mode, ret, ret_path, e);
    if (rc == 0)
        ret->lock = lock;
    else
        file_unlock_dir(lock);
    return rc;
}

void save_abort(const char *dir, struct save_manifest *m)
{
    if (m->locked)
        save_remove(dir, m->number);
    unlock(m);
}

// Checks that this process, which commits the save, can see the servers' files. A server
// on another machine may have written them to a disk of its own.
static int check_files(const struct save_manifest *m, const char *path, struct err *e)
{
    for (size_t t = 0; t < m->n_tables; t++) {
        for (size_t i = 0; i < m->tables[t].n_files; i++) {
            const struct save_file *f = &m->tables[t].files[i];
            char file[FILE_PATH_MAX];
            struct stat st;
            TRY(file_join(file, path, f->name, e));
            if (stat(file, &st) == 0 && (uint64_t)st.st_size == f->info.bytes)
                continue;
            return err_set(e, TUG_EIO,
                           "'%s' was written, but cannot be found here: all servers must "
                           "save to one directory that they share with the scheduler",
                           file);
        }
    }
    return 0;
}

static int write_run(const char *path, struct err *e)
{
    char file[FILE_PATH_MAX], host[256] = "", when[32];
    time_t now = (time_t)(clock_unix_ns() / SECOND_NS);
    struct tm utc;
    TRY(file_join(file, path, RUN_NAME, e));
    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_begin();
    json_t *root = json_pack("{s:s, s:s, s:s}", "host", host, "time", when, "tug",
                             tug_version());
    return json_write_file(root, file, e);
}

static int commit(const char *dir, struct save_manifest *m, struct err *e)
{
    char path[FILE_PATH_MAX], manifest[FILE_PATH_MAX];
    TRY(save_path(path, dir, m->number, e));
    TRY(file_join(manifest, path, SAVE_MANIFEST, e));
    TRY(check_files(m, path, e));
    TRY(write_run(path, e));
    TRY(save_write_manifest(m, manifest, e));
    return file_sync_dir(dir, e);
}

int save_commit(const char *dir, struct save_manifest *m, uint32_t keep, struct err *e)
{
    int rc = m->locked ? commit(dir, m, e)
                       : err_set(e, TUG_EINTERNAL, "commit of a save that was not begun");
    if (rc != 0)
        save_abort(dir, m);
    else
        clean(dir, m->mode == SAVE_DELTA ? 0 : keep);
    unlock(m);
    return rc;
}

int save_find(const char *from, char ret_path[FILE_PATH_MAX], struct err *e)
{
    if (has_manifest(from)) {
        if (strlen(from) >= FILE_PATH_MAX)
            return err_set(e, TUG_EUSAGE, "path is too long: '%.64s...'", from);
        memcpy(ret_path, from, strlen(from) + 1);
        return 0;
    }
    uint32_t number = 0;
    // If the listed saves have been removed, newer saves exist by now, and the list is
    // read again.
    for (uint32_t last = 0, before = 1; number == 0 && last != before;) {
        struct numbers l;
        TRY(list_numbers(&l, from, e));
        before = last;
        for (size_t i = 0; i < l.n; i++)
            last = l.at[i] > last ? l.at[i] : last;
        number = newest_complete(&l, from);
        mem_free(l.at);
    }
    if (number == 0)
        return err_set(
            e, TUG_EDATA,
            "'%s' holds no save: give the --out directory of a training run or "
            "of tug table save, or one of the save-... directories in it",
            from);
    return save_path(ret_path, from, number, e);
}

int save_read_in(int root, const char *path, struct save_manifest *ret, struct err *e)
{
    char manifest[FILE_PATH_MAX];
    TRY(file_join(manifest, path, SAVE_MANIFEST, e));
    return save_read_manifest(root, manifest, ret, e);
}

int save_read(const char *path, struct save_manifest *ret, struct err *e)
{
    return save_read_in(FILE_ANYWHERE, path, ret, e);
}

const struct save_table *save_find_table(const struct save_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->n_tables; i++)
        if (strcmp(m->tables[i].config.name, name) == 0)
            return &m->tables[i];
    return NULL;
}

// Gets the directory that contains a save.
static int parent_dir(char ret[FILE_PATH_MAX], const char *path, struct err *e)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t name = n;
    while (name > 0 && path[name - 1] != '/')
        name--;
    bool dots = (n - name == 1 && path[name] == '.') ||
                (n - name == 2 && memcmp(path + name, "..", 2) == 0);
    if (dots || name == n)
        return file_join(ret, path, "..", e);
    if (name == 0)
        return file_join(ret, ".", "", e);
    if (name >= FILE_PATH_MAX)
        return err_set(e, TUG_EUSAGE, "path is too long: '%.64s...'", path);
    memcpy(ret, path, name);
    ret[name] = '\0';
    return 0;
}

// Appends the save at `path` to the chain. At this stage the chain is listed from the
// newest save to the oldest.
static int chain_add(struct save_chain *c, const char *path, struct err *e)
{
    if (c->n == SAVE_MAX_CHAIN)
        return err_set(e, TUG_EDATA,
                       "'%s' is the end of a chain of more than %d saves; save a base "
                       "now and then",
                       c->paths[0], SAVE_MAX_CHAIN);
    void *paths = mem_realloc_array(c->paths, c->n + 1, sizeof(*c->paths));
    c->paths = paths != NULL ? paths : c->paths;
    void *saves = mem_realloc_array(c->saves, c->n + 1, sizeof(*c->saves));
    c->saves = saves != NULL ? saves : c->saves;
    if (paths == NULL || saves == NULL)
        return err_nomem(e, "a chain of saves");
    memcpy(c->paths[c->n], path, strlen(path) + 1);
    TRY(save_read_in(c->root, path, &c->saves[c->n], e));
    c->n++;
    return 0;
}

static bool is_there(int root, const char *path)
{
    char manifest[FILE_PATH_MAX];
    int fd;
    if (file_join(manifest, path, SAVE_MANIFEST, NULL) != 0 ||
        file_open(root, manifest, &fd, NULL) != 0)
        return false;
    close(fd);
    return true;
}

static int add_parent(struct save_chain *c, struct err *e)
{
    const struct save_manifest *m = &c->saves[c->n - 1];
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX], child[FILE_PATH_MAX];
    uint32_t number = m->parent;
    uint64_t checksum = m->parent_checksum;
    memcpy(child, c->paths[c->n - 1], sizeof(child));
    TRY(parent_dir(dir, child, e));
    TRY(save_path(path, dir, number, e));
    int rc = chain_add(c, path, e);
    if (rc != 0 && !is_there(c->root, path))
        return err_set(e, TUG_EDATA,
                       "'%s' is a delta of '%s', which is missing or incomplete", child,
                       path);
    TRY(rc);
    m = &c->saves[c->n - 1];
    if (m->number == number && m->checksum == checksum)
        return 0;
    return err_set(e, TUG_EDATA,
                   "'%s' is a delta of an earlier '%s', which was replaced since", child,
                   path);
}

static void reverse(struct save_chain *c)
{
    for (size_t i = 0, j = c->n - 1; i < j; i++, j--) {
        struct save_manifest m = c->saves[i];
        char path[FILE_PATH_MAX];
        c->saves[i] = c->saves[j];
        c->saves[j] = m;
        memcpy(path, c->paths[i], sizeof(path));
        memcpy(c->paths[i], c->paths[j], sizeof(path));
        memcpy(c->paths[j], path, sizeof(path));
    }
}

// Checks that the rows of a table have the same layout in all saves of the chain.
static int check_tables(const struct save_chain *c, struct err *e)
{
    const struct save_manifest *last = &c->saves[c->n - 1];
    for (size_t t = 0; t < last->n_tables; t++) {
        const struct table_config *config = &last->tables[t].config;
        for (size_t i = 0; i + 1 < c->n; i++) {
            const struct save_table *x = save_find_table(&c->saves[i], config->name);
            struct err why;
            if (x != NULL && save_same_rows(&x->config, config, c->paths[i], &why) != 0)
                return err_set(e, TUG_EDATA, "'%s' does not fit the saves before it: %s",
                               c->paths[c->n - 1], why.text);
        }
    }
    return 0;
}

int save_chain_open(struct save_chain *ret, const char *from, struct err *e)
{
    char path[FILE_PATH_MAX];
    *ret = (struct save_chain){.root = FILE_ANYWHERE};
    TRY(save_find(from, path, e));
    return save_chain_open_below(ret, FILE_ANYWHERE, path, e);
}

int save_chain_open_below(struct save_chain *ret, int root, const char *path,
                          struct err *e)
{
    return save_chain_open_behind(ret, root, path, 0, e);
}

static bool goes_on(const struct save_manifest *m, uint64_t known)
{
    return m->mode == SAVE_DELTA && (known == 0 || m->parent_checksum != known);
}

int save_chain_open_behind(struct save_chain *ret, int root, const char *path,
                           uint64_t known, struct err *e)
{
    *ret = (struct save_chain){.root = root};
    int rc = chain_add(ret, path, e);
    while (rc == 0 && goes_on(&ret->saves[ret->n - 1], known))
        rc = add_parent(ret, e);
    if (rc == 0) {
        reverse(ret);
        rc = check_tables(ret, e);
    }
    if (rc != 0)
        save_chain_close(ret);
    return rc;
}

void save_chain_close(struct save_chain *c)
{
    for (size_t i = 0; i < c->n; i++)
        save_manifest_free(&c->saves[i]);
    mem_free(c->saves);
    mem_free(c->paths);
    *c = (struct save_chain){0};
}
