// The manifest of a save, as JSON and as structs.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/json.h"
#include "save/save_internal.h"

enum { MANIFEST_VERSION = 3, MANIFEST_MAX_BYTES = 64 << 20, CONFIG_MAX_BYTES = 64 << 10 };

#define FORMAT "tug-save"

void save_manifest_free(struct save_manifest *m)
{
    for (size_t i = 0; i < m->n_tables; i++)
        mem_free(m->tables[i].files);
    mem_free(m->tables);
    mem_free(m->about);
    if (m->locked)
        file_unlock_dir(m->lock);
    *m = (struct save_manifest){0};
}

struct save_table *save_add_table(struct save_manifest *m, uint32_t id,
                                  const struct table_config *c, uint32_t partition_bits,
                                  struct err *e)
{
    for (size_t i = 0; i < m->n_tables; i++) {
        if (m->tables[i].id == id || strcmp(m->tables[i].config.name, c->name) == 0) {
            err_set(e, TUG_EUSAGE, "a save has two tables '%s', or two with number %u",
                    c->name, id);
            return NULL;
        }
    }
    struct save_table *more = NULL;
    if (m->n_tables < SAVE_MAX_TABLES)
        more = mem_realloc_array(m->tables, m->n_tables + 1, sizeof(*more));
    else
        err_set(e, TUG_EUSAGE, "a save has at most %d tables", SAVE_MAX_TABLES);
    if (more == NULL) {
        if (m->n_tables < SAVE_MAX_TABLES)
            err_nomem(e, "a manifest");
        return NULL;
    }
    m->tables = more;
    more += m->n_tables++;
    *more = (struct save_table){.id = id, .config = *c, .partition_bits = partition_bits};
    return more;
}

void save_file_name(char ret[SAVE_FILE_MAX], const char *table, uint32_t owner)
{
    snprintf(ret, SAVE_FILE_MAX, "%.*s-%u" SAVE_ROWS_SUFFIX, CONFIG_NAME_MAX, table,
             owner);
}

// Returns whether save.c, when it removes old files, takes this name for the name of a
// save's file.
static bool is_plain_name(const char *name)
{
    size_t n = strlen(name), suffix = strlen(SAVE_ROWS_SUFFIX);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("_-.", name[i]) == NULL)
            return false;
    return n > suffix && n < SAVE_FILE_MAX && name[0] != '.' &&
           strcmp(name + n - suffix, SAVE_ROWS_SUFFIX) == 0;
}

int save_add_file(struct save_table *t, const char *name, const struct rows_info *info,
                  struct err *e)
{
    if (!is_plain_name(name))
        return err_set(e, TUG_EUSAGE,
                       "'%.64s' cannot be the name of a save's file: use letters, "
                       "digits, '_', '-', '.', and end with " SAVE_ROWS_SUFFIX,
                       name);
    if (t->n_files == SAVE_MAX_FILES)
        return err_set(e, TUG_EUSAGE, "a table has more than %d files", SAVE_MAX_FILES);
    if (mem_room(&t->files, &t->cap_files, t->n_files + 1) != 0)
        return err_nomem(e, "a manifest");
    struct save_file *f = &t->files[t->n_files++];
    *f = (struct save_file){.info = *info};
    memcpy(f->name, name, strlen(name) + 1);
    return 0;
}

static json_t *file_to_json(const struct save_file *f)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "name", f->name, "rows",
                     (json_int_t)f->info.rows, "extras", (json_int_t)f->info.extras,
                     "gone", (json_int_t)f->info.gone, "bytes", (json_int_t)f->info.bytes,
                     "checksum", json_hex(f->info.checksum));
}

static json_t *files_to_json(const struct save_table *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->n_files; i++)
        (void)json_array_append_new(list, file_to_json(&t->files[i]));
    return list;
}

// Returns the settings that are not the defaults, one per line.
static json_t *config_to_json(const struct table_config *c)
{
    struct buf text = BUF_INIT(CONFIG_MAX_BYTES);
    json_t *lines = NULL;
    const char *at = table_config_print(c, &text) == 0 ? buf_str(&text) : NULL;
    if (at != NULL)
        lines = json_array();
    while (at != NULL && *at != '\0') {
        size_t n = strcspn(at, "\n");
        if (json_array_append_new(lines, json_stringn(at, n)) != 0)
            break;
        at += n + (at[n] == '\n');
    }
    bool complete = at != NULL && *at == '\0';
    buf_free(&text);
    if (complete)
        return lines;
    json_decref(lines);
    return NULL;
}

static json_t *table_to_json(const struct save_table *t)
{
    return json_pack("{s:I, s:o, s:i, s:o}", "id", (json_int_t)t->id, "config",
                     config_to_json(&t->config), "partition_bits", (int)t->partition_bits,
                     "files", files_to_json(t));
}

static json_t *tables_to_json(const struct save_manifest *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_tables; i++)
        (void)json_array_append_new(list, table_to_json(&m->tables[i]));
    return list;
}

static json_t *parent_to_json(const struct save_manifest *m)
{
    if (m->mode != SAVE_DELTA)
        return json_null();
    return json_pack("{s:I, s:o}", "number", (json_int_t)m->parent, "checksum",
                     json_hex(m->parent_checksum));
}

static json_t *about_to_json(const struct save_manifest *m)
{
    if (m->about == NULL)
        return json_null();
    return json_loads(m->about, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
}

// Adds the checksum, which covers all other members.
static int seal(struct save_manifest *m, json_t *root)
{
    TRY(json_checksum(root, MANIFEST_VERSION, &m->checksum));
    bool added = json_object_set_new(root, "checksum", json_hex(m->checksum)) == 0;
    return added && !json_memory_failed() ? 0 : TUG_ENOMEM;
}

int save_write_manifest(struct save_manifest *m, const char *path, struct err *e)
{
    json_begin();
    json_t *about = about_to_json(m);
    if (about == NULL && !json_memory_failed())
        return err_set(e, TUG_EUSAGE, "the text that describes a save is not JSON");
    json_t *root = json_pack("{s:s, s:i, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "format",
                             FORMAT, "version", MANIFEST_VERSION, "mode",
                             save_mode_name(m->mode), "number", (json_int_t)m->number,
                             "step", (json_int_t)m->step, "published",
                             json_hex(m->published), "parent", parent_to_json(m), "about",
                             about, "tables", tables_to_json(m));
    if (root == NULL && !json_memory_failed())
        return err_set(e, TUG_EUSAGE, "a table's settings are not text in UTF-8");
    if (root != NULL && seal(m, root) != 0) {
        json_decref(root);
        root = NULL;
    }
    return json_write_file(root, path, e);
}

static void read_config(struct json_fields *f, const json_t *o, struct table_config *ret)
{
    const json_t *lines = json_read_array(f, o, "config", 1000), *line;
    struct buf text = BUF_INIT(CONFIG_MAX_BYTES);
    struct err why = {0};
    size_t i;
    int rc = 0;
    json_array_foreach(lines, i, line) {
        if (!json_is_string(line))
            json_complain(f, "config", "has a line that is not text");
        else if (rc == 0)
            rc = buf_printf(&text, "%s\n", json_string_value(line));
    }
    *ret = table_config_defaults();
    const char *all = rc == 0 ? buf_str(&text) : NULL;
    if (rc == TUG_EDATA)
        json_complain(f, "config", "is too long");
    else if (all == NULL && f->rc == 0)
        f->rc = err_nomem(f->e, f->path);
    if (f->rc == 0 &&
        (table_config_parse(ret, all, &why) != 0 || table_config_check(ret, &why) != 0))
        f->rc = why.code == TUG_ENOMEM
                    ? err_nomem(f->e, f->path)
                    : err_set(f->e, TUG_EDATA, "%s: a table's settings: %s", f->path,
                              why.text);
    buf_free(&text);
}

static void read_files(struct json_fields *f, const json_t *o, struct save_table *t)
{
    const json_t *list = json_read_array(f, o, "files", SAVE_MAX_FILES), *file;
    size_t i;
    json_array_foreach(list, i, file) {
        struct rows_info info = {
            .rows = json_read_int(f, file, "rows", INT64_MAX),
            .extras = json_read_int(f, file, "extras", INT64_MAX),
            .gone = json_read_int(f, file, "gone", INT64_MAX),
            .bytes = json_read_int(f, file, "bytes", INT64_MAX),
            .checksum = json_read_hex(f, file, "checksum"),
        };
        const char *name = json_read_text(f, file, "name");
        if (!is_plain_name(name))
            json_complain(f, "name", "is not the name of a file of rows");
        if (f->rc == 0)
            f->rc = save_add_file(t, name, &info, f->e);
    }
}

static void read_tables(struct json_fields *f, const json_t *root,
                        struct save_manifest *ret)
{
    const json_t *list = json_read_array(f, root, "tables", SAVE_MAX_TABLES), *o;
    size_t i;
    json_array_foreach(list, i, o) {
        struct table_config config;
        struct err why = {0};
        read_config(f, o, &config);
        uint32_t id = (uint32_t)json_read_int(f, o, "id", UINT32_MAX);
        uint32_t bits = (uint32_t)json_read_int(f, o, "partition_bits", 16);
        if (f->rc != 0)
            return;
        struct save_table *t = save_add_table(ret, id, &config, bits, &why);
        if (t != NULL)
            read_files(f, o, t);
        else
            f->rc = err_set(f->e, why.code == TUG_EUSAGE ? TUG_EDATA : why.code,
                            "%s: %s; the file is damaged", f->path, why.text);
    }
}

static void read_parent(struct json_fields *f, const json_t *root,
                        struct save_manifest *ret)
{
    const json_t *o = json_object_get(root, "parent");
    if (ret->mode != SAVE_DELTA)
        return;
    ret->parent = (uint32_t)json_read_int(f, o, "number", SAVE_MAX_NUMBER);
    ret->parent_checksum = json_read_hex(f, o, "checksum");
    if (ret->parent == 0 || ret->parent >= ret->number)
        json_complain(f, "parent", "is missing, or does not name an earlier save");
}

static void read_about(struct json_fields *f, const json_t *root,
                       struct save_manifest *ret)
{
    const json_t *about = json_object_get(root, "about");
    if (about == NULL || json_is_null(about))
        return;
    ret->about = json_dumps(about, JSON_COMPACT | JSON_ENCODE_ANY);
    if ((ret->about == NULL || json_memory_failed()) && f->rc == 0)
        f->rc = err_nomem(f->e, f->path);
}

static int check_head(const json_t *root, const char *path, struct err *e)
{
    // Earlier versions wrote the other two formats.
    static const char *const formats[] = {FORMAT, "tug-tables", "tug-model"};
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    size_t i = 0;
    while (i < 3 && (format == NULL || strcmp(format, formats[i]) != 0))
        i++;
    if (i == 3)
        return err_set(e, TUG_EDATA, "%s is not the manifest of a save", path);
    if (i == 0 && version == MANIFEST_VERSION)
        return 0;
    return err_set(e, TUG_EDATA,
                   "%s has format version %lld; this tug reads version %d: use the tug "
                   "that wrote it, or train again",
                   path, (long long)version, MANIFEST_VERSION);
}

static void check_checksum(struct json_fields *f, json_t *root, uint64_t *ret)
{
    uint64_t want = json_read_hex(f, root, "checksum");
    (void)json_object_del(root, "checksum");
    if (f->rc == 0 && json_checksum(root, MANIFEST_VERSION, ret) != 0)
        f->rc = err_nomem(f->e, f->path);
    if (f->rc == 0 && *ret != want)
        f->rc = err_set(f->e, TUG_EDATA,
                        "%s: the checksum does not match; the file is damaged", f->path);
}

int save_read_manifest(int below, const char *path, struct save_manifest *ret,
                       struct err *e)
{
    struct json_fields f = {.path = path, .e = e};
    json_t *root;
    TRY(json_read_file(below, path, MANIFEST_MAX_BYTES, &root, e));
    *ret = (struct save_manifest){0};
    f.rc = check_head(root, path, e);
    if (f.rc == 0)
        check_checksum(&f, root, &ret->checksum);
    if (f.rc == 0 && save_mode_find(json_read_text(&f, root, "mode"), &ret->mode, NULL))
        json_complain(&f, "mode", "is not one that this version knows");
    if (f.rc == 0) {
        ret->number = (uint32_t)json_read_int(&f, root, "number", SAVE_MAX_NUMBER);
        ret->step = json_read_int(&f, root, "step", INT64_MAX);
        ret->published = json_read_hex(&f, root, "published");
        read_parent(&f, root, ret);
        read_about(&f, root, ret);
        read_tables(&f, root, ret);
    }
    json_decref(root);
    if (f.rc != 0)
        save_manifest_free(ret);
    return f.rc;
}
