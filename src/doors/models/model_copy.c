// Copies a save. The manifest is copied last, since a save exists once it has its
// manifest.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doors/models/model_train.h"

static int copy_bytes(int from, struct file_writer *to, const char *path, struct err *e)
{
    enum { PIECE = 1 << 20 };
    char *piece = mem_alloc(PIECE);
    if (piece == NULL)
        return err_nomem(e, "a copy");
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = read(from, piece, PIECE)) != 0)
        rc = n < 0 ? err_sys(e, TUG_EIO, "cannot read %s", path)
                   : file_write(to, piece, (size_t)n, e);
    mem_free(piece);
    return rc;
}

static int copy_file(const char *from, const char *to, const char *name, struct err *e)
{
    char source[FILE_PATH_MAX], target[FILE_PATH_MAX];
    struct file_writer *w = NULL;
    TRY(file_join(source, from, name, e));
    TRY(file_join(target, to, name, e));
    int fd = open(source, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot read %s", source);
    int rc = file_create_in(&w, FILE_OWN, target, e);
    if (rc == 0)
        rc = copy_bytes(fd, w, source, e);
    close(fd);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

static int copy_files(const char *from, const char *to, struct err *e)
{
    DIR *d = opendir(from);
    if (d == NULL)
        return err_sys(e, TUG_EIO, "cannot read %s", from);
    const struct dirent *f;
    int rc = 0;
    while (rc == 0 && (f = readdir(d)) != NULL)
        if (f->d_name[0] != '.' && strcmp(f->d_name, SAVE_MANIFEST) != 0)
            rc = copy_file(from, to, f->d_name, e);
    closedir(d);
    return rc == 0 ? copy_file(from, to, SAVE_MANIFEST, e) : rc;
}

int model_copy_save(const char *from, const char *directory, char ret_path[FILE_PATH_MAX],
                    struct err *e)
{
    const char *name = strrchr(from, '/');
    name = name != NULL ? name + 1 : from;
    TRY(saved_check_whole(from, e));
    if (saved_any(directory))
        return err_set(e, TUG_EUSAGE,
                       "%s already holds a saved model: give another "
                       "directory",
                       directory);
    TRY(file_make_dir(directory, e));
    if (!saved_none(directory, NULL))
        return err_set(e, TUG_EUSAGE,
                       "%s exists and is not an empty directory: give another one",
                       directory);
    char number[32];
    if (save_number(name) == 0) { // a user has renamed the save
        struct save_manifest s = {0};
        TRY(save_read(from, &s, e));
        snprintf(number, sizeof(number), "save-%06u", s.number);
        save_manifest_free(&s);
        name = number;
    }
    TRY(file_join(ret_path, directory, name, e));
    save_remove(directory, save_number(name)); // removes an old, incomplete copy
    TRY(file_make_new_dir(ret_path, e));
    int rc = copy_files(from, ret_path, e);
    if (rc != 0)
        file_remove_tree(ret_path, NULL);
    return rc == 0 ? file_sync_dir(directory, e) : rc;
}
