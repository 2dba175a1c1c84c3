// A server's directories; see roots.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/saves/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/below.h"
#include "save/save.h"

static int open_root(struct root *r, const char *path, const char *option, bool make,
                     struct err *e)
{
    if (path == NULL)
        return 0;
    if (make && file_make_dir(path, e) != 0)
        return err_wrap(e, "--%s", option);
    r->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->fd < 0)
        return err_sys(e, errno == ENOENT || errno == ENOTDIR ? TUG_EDATA : TUG_EIO,
                       "--%s: cannot open the directory '%s'", option, path);
    return below_absolute(path, r->path, e);
}

int roots_open(struct roots **ret, const struct roots_options *o, struct err *e)
{
    struct roots *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, "a server's directories");
    r->save.fd = r->cold.fd = -1;
    int rc = o->n_load <= ROOTS_MAX_LOAD
                 ? 0
                 : err_set(e, TUG_EUSAGE, "--load-root can be given at most %d times",
                           ROOTS_MAX_LOAD);
    if (rc == 0)
        rc = open_root(&r->save, o->save, "save-root", true, e);
    if (rc == 0)
        rc = open_root(&r->cold, o->cold, "cold-root", true, e);
    for (size_t i = 0; i < o->n_load && rc == 0; i++) {
        r->load[i].fd = -1;
        r->n_load++;
        rc = open_root(&r->load[i], o->load[i], "load-root", false, e);
    }
    if (rc != 0)
        roots_close(r);
    else
        *ret = r;
    return rc;
}

static void close_root(struct root *r)
{
    if (r->fd >= 0)
        close(r->fd);
}

void roots_close(struct roots *r)
{
    if (r == NULL)
        return;
    close_root(&r->save);
    close_root(&r->cold);
    for (size_t i = 0; i < r->n_load; i++)
        close_root(&r->load[i]);
    mem_free(r);
}

int roots_check_save(const struct roots *r, const char *path, int *ret_root,
                     struct err *e)
{
    if (r == NULL || r->save.fd < 0)
        return err_set(e, TUG_EUSAGE,
                       "this server writes no saves: start it with --save-root DIR");
    int fd = below_open(r->save.fd, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        below_error(e, "cannot save to", path);
        return err_wrap(e, "--save-root '%s'", r->save.path);
    }
    struct stat st;
    bool taken = fstatat(fd, SAVE_MANIFEST, &st, AT_SYMLINK_NOFOLLOW) == 0;
    close(fd);
    if (taken)
        return err_set(e, TUG_EUSAGE, "cannot save to '%s': a save is there already",
                       path);
    *ret_root = r->save.fd;
    return 0;
}

// Returns whether the directory `path` below this root has the save with this
// checksum. If not, sets *e to the reason. A TUG_EDATA does not replace an error that
// an earlier root has set.
static bool has_save(const struct root *r, const char *path, uint64_t checksum,
                     struct err *e)
{
    struct save_manifest m;
    struct err why;
    if (r->fd < 0)
        return false;
    int rc = save_read_in(r->fd, path, &m, &why);
    if (rc == 0 && m.checksum != checksum)
        err_set(&why, TUG_EDATA, "'%s' is not the save that was asked for", path);
    bool found = rc == 0 && m.checksum == checksum;
    if (rc == 0)
        save_manifest_free(&m);
    if (!found && (e->code == 0 || why.code != TUG_EDATA)) {
        err_wrap(&why, "below '%s'", r->path);
        *e = why;
    }
    return found;
}

int roots_find_save(const struct roots *r, const char *path, uint64_t checksum,
                    int *ret_root, struct err *e)
{
    struct err why = {0};
    bool any = r != NULL && (r->save.fd >= 0 || r->n_load > 0);
    if (!any)
        return err_set(e, TUG_EUSAGE,
                       "this server reads no saves: start it with --load-root DIR, or "
                       "--save-root DIR");
    *ret_root = r->save.fd;
    if (has_save(&r->save, path, checksum, &why))
        return 0;
    for (size_t i = 0; i < r->n_load; i++) {
        *ret_root = r->load[i].fd;
        if (has_save(&r->load[i], path, checksum, &why))
            return 0;
    }
    if (e != NULL)
        *e = why;
    return why.code;
}

int roots_make_cold(const struct roots *r, const char *path, char ret[FILE_PATH_MAX],
                    struct err *e)
{
    if (r == NULL || r->cold.fd < 0)
        return err_set(
            e, TUG_EUSAGE,
            "this server keeps no rows on disk: start it with --cold-root DIR");
    int fd = below_make_dir(r->cold.fd, path);
    if (fd < 0) {
        below_error(e, "cannot keep cold rows in", path);
        return err_wrap(e, "--cold-root '%s'", r->cold.path);
    }
    close(fd);
    return file_join(ret, r->cold.path, path, e);
}
