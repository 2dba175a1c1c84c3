// Manifests of saves: any bytes are read, or refused with a message that names the file.
// Valid JSON is read once more with the checksum corrected, as a forger would do it, and
// written again: the contents must be the same.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/json.h"
#include "save/save_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A directory in memory if possible, because syncing files on a disk is slow.
static char dir[40];

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void remove_dir(void)
{
    (void)file_remove_tree(dir, NULL);
}

static const char *path_of(const char *name)
{
    static char path[sizeof(dir) + 32];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");
    require(f != NULL && fwrite(bytes, 1, n, f) == n);
    require(fclose(f) == 0);
}

static void check(struct save_manifest *m)
{
    struct save_manifest again;
    struct err e = {0};
    require(m->n_tables <= SAVE_MAX_TABLES);
    for (size_t i = 0; i < m->n_tables; i++) {
        struct accessor a;
        require(m->tables[i].partition_bits <= 16);
        require(accessor_make(&a, &m->tables[i].config.accessor, &e) == 0);
        for (size_t f = 0; f < m->tables[i].n_files; f++)
            require(strchr(m->tables[i].files[f].name, '/') == NULL);
    }
    require(save_write_manifest(m, path_of("again.json"), &e) == 0);
    require(save_read_manifest(FILE_ANYWHERE, path_of("again.json"), &again, &e) == 0);
    require(again.checksum == m->checksum && again.n_tables == m->n_tables);
    save_manifest_free(&again);
}

static void read_manifest(void)
{
    struct save_manifest m;
    struct err e = {0};
    int rc = save_read(dir, &m, &e);
    require(rc == 0 || (rc == TUG_EDATA && strstr(e.text, dir) != NULL));
    if (rc == 0) {
        check(&m);
        save_manifest_free(&m);
    }
}

static void forge(const uint8_t *data, size_t size)
{
    json_begin();
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    uint64_t sum;
    if (json_is_object(root)) {
        (void)json_object_del(root, "checksum");
        require(json_checksum(root, 1, &sum) == 0);
        (void)json_object_set_new(root, "checksum", json_hex(sum));
        char *text = json_dumps(root, 0);
        require(text != NULL);
        write_file(SAVE_MANIFEST, text, strlen(text));
        mem_free(text);
        read_manifest();
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        snprintf(dir, sizeof(dir), "%s/tug-save-manifest-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        require(mkdtemp(dir) != NULL);
        require(atexit(remove_dir) == 0);
        made = true;
    }
    write_file(SAVE_MANIFEST, data, size);
    read_manifest();
    forge(data, size);
    return 0;
}
