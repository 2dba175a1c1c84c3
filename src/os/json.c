// Reads and writes the JSON files of tug.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash.h"
#include "os/file.h"

static _Thread_local bool memory_failed;

static void *json_memory(size_t bytes)
{
    void *p = mem_alloc(bytes);
    memory_failed |= p == NULL;
    return p;
}

void json_begin(void)
{
    memory_failed = false;
    json_set_alloc_funcs(json_memory, mem_free);
}

bool json_memory_failed(void)
{
    return memory_failed;
}

json_t *json_hex(uint64_t x)
{
    char text[24];
    snprintf(text, sizeof(text), "%016" PRIx64, x);
    return json_string(text);
}

json_t *json_real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

void json_put_value(json_t *o, const char *name, json_t *value)
{
    memory_failed |= json_object_set_new(o, name, value) != 0;
}

json_t *json_flag(bool x)
{
    return json_boolean(x);
}

int json_checksum(const json_t *value, uint64_t seed, uint64_t *ret)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (text == NULL || memory_failed) {
        mem_free(text);
        return TUG_ENOMEM;
    }
    *ret = hash_bytes(text, strlen(text), seed);
    mem_free(text);
    return 0;
}

int json_print(json_t *root, size_t flags, struct err *e)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | flags) : NULL;
    json_decref(root);
    int rc = text == NULL || memory_failed ? err_nomem(e, "the answer") : 0;
    if (rc == 0)
        printf("%s\n", text);
    mem_free(text);
    return rc;
}

static int write_text(const char *path, const char *text, struct err *e)
{
    struct file_writer *w;
    TRY(file_create_in(&w, FILE_OWN, path, e));
    int rc = file_write(w, text, strlen(text), e);
    if (rc == 0)
        rc = file_write(w, "\n", 1, e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

int json_write_file(json_t *root, const char *path, struct err *e)
{
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    json_decref(root);
    int rc = text == NULL || memory_failed ? err_nomem(e, path)
                                           : write_text(path, text, e);
    mem_free(text);
    return rc;
}

int json_read_file(int below, const char *path, size_t max_bytes, json_t **ret,
                   struct err *e)
{
    struct buf text = BUF_INIT(max_bytes);
    int rc = file_read_in(below, path, &text, e);
    if (rc != 0) {
        buf_free(&text);
        return rc;
    }
    json_error_t why = {0};
    json_begin();
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    buf_free(&text);
    if (memory_failed)
        rc = err_nomem(e, path);
    else if (!json_is_object(root))
        rc = err_set(e, TUG_EDATA,
                     "%s: it is not a JSON object (%s); the file is damaged", path,
                     root == NULL ? why.text : "another kind");
    if (rc != 0) {
        json_decref(root);
        return rc;
    }
    *ret = root;
    return 0;
}

void json_complain(struct json_fields *f, const char *name, const char *what)
{
    if (f->rc == 0)
        f->rc = err_set(f->e, TUG_EDATA, "%s: '%s' %s; the file is damaged", f->path,
                        name, what);
}

uint64_t json_read_int(struct json_fields *f, const json_t *o, const char *name,
                       uint64_t max)
{
    const json_t *v = json_object_get(o, name);
    json_int_t x = json_integer_value(v);
    if (json_is_integer(v) && x >= 0 && (uint64_t)x <= max)
        return (uint64_t)x;
    json_complain(f, name, "is missing or out of bounds");
    return 0;
}

uint64_t json_read_hex(struct json_fields *f, const json_t *o, const char *name)
{
    const char *text = json_read_text(f, o, name);
    char *end;
    uint64_t x = strtoull(text, &end, 16);
    if (strspn(text, "0123456789abcdef") != strlen(text) || strlen(text) != 16)
        json_complain(f, name, "is not a number of 16 hexadecimal digits");
    return x;
}

double json_read_real(struct json_fields *f, const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_number(v))
        json_complain(f, name, "is missing or not a number");
    return json_number_value(v);
}

bool json_read_flag(struct json_fields *f, const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_boolean(v))
        json_complain(f, name, "is missing or neither true nor false");
    return json_is_true(v);
}

const char *json_read_text(struct json_fields *f, const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (text == NULL)
        json_complain(f, name, "is missing or is not a text");
    return text != NULL ? text : "";
}

const json_t *json_read_array(struct json_fields *f, const json_t *o, const char *name,
                              size_t max)
{
    const json_t *list = json_object_get(o, name);
    if (!json_is_array(list) || json_array_size(list) > max)
        json_complain(f, name, "is missing or too long");
    return list;
}
