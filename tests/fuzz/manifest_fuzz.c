// Manifests of saved models: any bytes are read, or refused in words that name the
// file. What is JSON is read once more with the checksum made right, as by
// somebody who forges it.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "train/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/tug-manifest-XXXXXX";

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void remove_dir(void)
{
    (void)file_remove_tree(dir, NULL);
}

static void write_manifest(const void *bytes, size_t n)
{
    char path[sizeof(dir) + sizeof(MANIFEST_NAME)];
    snprintf(path, sizeof(path), "%s/%s", dir, MANIFEST_NAME);
    FILE *f = fopen(path, "wb");
    require(f != NULL && fwrite(bytes, 1, n, f) == n);
    require(fclose(f) == 0);
}

// What was read can be used: by the model, by the reader, for another manifest.
static void use(const struct manifest *m)
{
    struct model model;
    struct err e;
    require(m->n_parts <= MANIFEST_MAX_PARTS);
    for (uint32_t i = 0; i < m->n_parts; i++)
        require(m->parts[i].file[0] != 0 && strchr(m->parts[i].file, '/') == NULL);
    require(manifest_same_options(&m->options, &m->options, &e) == 0);
    (void)model_init(&model, &m->options.model, &e);
    struct reader_options r = {.schema = &m->schema, .fields = m->options.model.fields};
    struct reader *reader;
    const struct reader_layout *layout;
    if (manifest_knows_data(m, dir, &e) != 0 || reader_open(&reader, &r, &e) != 0)
        return;
    if (reader_has_header(reader))
        (void)reader_header(reader, "a,b", 3, &layout, &e);
    reader_close(reader);
}

static void read_manifest(void)
{
    static struct manifest m;
    struct err e = {0};
    int rc = manifest_read(&m, dir, &e);
    require(rc == 0 || (*e.text != 0 && strstr(e.text, dir) != NULL));
    if (rc == 0)
        use(&m);
}

static uint64_t version_of(const json_t *root)
{
    return (uint64_t)json_integer_value(json_object_get(root, "version"));
}

static void forge(const uint8_t *data, size_t size)
{
    json_set_alloc_funcs(mem_alloc, mem_free);
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    if (json_is_object(root)) {
        json_object_del(root, "checksum");
        char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS), sum[24];
        require(text != NULL);
        snprintf(sum, sizeof(sum), "%016llx",
                 (unsigned long long)hash_bytes(text, strlen(text), version_of(root)));
        mem_free(text);
        json_object_set_new(root, "checksum", json_string(sum));
        text = json_dumps(root, 0);
        require(text != NULL);
        write_manifest(text, strlen(text));
        mem_free(text);
        read_manifest();
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        require(mkdtemp(dir) != NULL);
        require(atexit(remove_dir) == 0);
        made = true;
    }
    write_manifest(data, size);
    read_manifest();
    forge(data, size);
    return 0;
}
