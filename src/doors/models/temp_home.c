// Makes and removes directories in $TMPDIR (temp_home.h). A directory is first made and
// locked under a name that no sweep removes while the directory is young, and then
// renamed.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/models/temp_home.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/disk.h"

#define MAKING "tug-new-"

enum { MODE = 01700, RANDOM = 6, RANDOM_PYTHON = 8, DEEP = 4, MAKING_SECONDS = 3600 };

static bool is_random(const char *text)
{
    size_t n = strlen(text), i = 0;
    while (i < n && (isalnum((unsigned char)text[i]) || text[i] == '_'))
        i++;
    return i == n && (n == RANDOM || n == RANDOM_PYTHON);
}

// Returns whether the name is tug-KIND-PID-XXXXXX, or tug-new-XXXXXX, which is left if a
// process ends before it has renamed the directory.
static bool is_named(const char *name, const char *kind)
{
    size_t n = strlen(kind);
    if (strncmp(name, MAKING, strlen(MAKING)) == 0)
        return is_random(name + strlen(MAKING));
    if (strncmp(name, "tug-", 4) != 0 || strncmp(name + 4, kind, n) != 0 ||
        name[4 + n] != '-')
        return false;
    const char *pid = name + 4 + n + 1;
    size_t digits = strspn(pid, "0123456789");
    return digits > 0 && pid[digits] == '-' && is_random(pid + digits + 1);
}

static void sweep_one(int dir, const char *path, const char *name)
{
    struct stat s;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    bool making = strncmp(name, MAKING, strlen(MAKING)) == 0;
    if (fstat(fd, &s) == 0 && s.st_uid == geteuid() &&
        ((s.st_mode & 07777) == MODE || (making && (s.st_mode & 07777) == S_IRWXU)) &&
        (!making || time(NULL) - s.st_mtime > MAKING_SECONDS) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)file_remove_deep(path, DEEP, NULL);
    close(fd);
}

static void sweep(const char *tmp, const char *kind)
{
    char path[FILE_PATH_MAX];
    DIR *d = opendir(tmp);
    for (const struct dirent *i = d != NULL ? readdir(d) : NULL; i != NULL;
         i = readdir(d))
        if (is_named(i->d_name, kind) && file_join(path, tmp, i->d_name, NULL) == 0)
            sweep_one(dirfd(d), path, i->d_name);
    if (d != NULL)
        closedir(d);
}

// Renames the directory that was made at `path` to its final name.
static int name_home(struct temp_home *h, const char *path, const char *kind,
                     struct err *e)
{
    size_t dir = (size_t)(strrchr(path, '/') - path) + 1;
    int n = snprintf(h->path, sizeof(h->path), "%.*stug-%s-%ld-%s", (int)dir, path, kind,
                     (long)getpid(), path + dir + strlen(MAKING));
    if (n < 0 || (size_t)n >= sizeof(h->path))
        return err_set(e, TUG_EUSAGE, "'%s': the path is too long", path);
    if (disk_rename_at(AT_FDCWD, path, h->path) != 0)
        return err_sys(e, TUG_EIO, "cannot make %s", h->path);
    return 0;
}

static void close_lock(struct temp_home *h)
{
    if (h->lock >= 0)
        close(h->lock);
    h->lock = -1;
    h->path[0] = '\0';
}

int temp_home_make(struct temp_home *h, const char *kind, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char path[FILE_PATH_MAX];
    if (tmp == NULL || *tmp == '\0')
        tmp = "/tmp";
    *h = (struct temp_home){.lock = -1};
    TRY(file_join(path, tmp, MAKING "XXXXXX", e));
    sweep(tmp, kind);
    if (disk_make_temp_dir(path) != 0)
        return err_sys(e, TUG_EIO, "cannot make %s", path);
    h->lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    // Sweeps remove only directories with the mode MODE. A directory that could not be
    // locked does not get this mode, so that no sweep removes it while it is in use.
    if (h->lock >= 0 && flock(h->lock, LOCK_EX | LOCK_NB) == 0)
        (void)disk_set_mode(h->lock, MODE);
    int rc = name_home(h, path, kind, e);
    if (rc != 0) {
        (void)disk_remove(path);
        close_lock(h);
    }
    return rc;
}

void temp_home_remove(struct temp_home *h, int deep)
{
    if (h->path[0] == '\0')
        return;
    (void)file_remove_deep(h->path, deep, NULL);
    close_lock(h);
}
