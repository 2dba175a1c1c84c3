// Identities of data, for saved runs and messages.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static const char *base_name(const struct identity_file *f, size_t *ret_len)
{
    const char *slash = memrchr(f->name, '/', f->name_len);
    const char *name = f->pipe ? "(pipe)" : slash != NULL ? slash + 1 : f->name;
    *ret_len = f->pipe ? strlen(name) : f->name_len - (size_t)(name - f->name);
    return name;
}

// Copies the name for messages, with '?' in place of characters that JSON or a terminal
// might not accept. (The hash is of the unchanged name.)
static void show_name(char *to, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
    to[len] = 0;
}

static void append(struct identity *id, const char *line)
{
    size_t n = strlen(line) + 1;
    if (n > IDENTITY_TEXT_MAX - id->text_len)
        return;
    memcpy(id->text + id->text_len, line, n);
    id->text_len += (uint32_t)n;
}

void identity_add(struct identity *id, const struct identity_file *f)
{
    enum { NAME_MOST = 255 };
    size_t len;
    const char *name = base_name(f, &len);
    uint64_t bytes = f->pipe ? 0 : f->bytes, hash = f->pipe ? 0 : f->hash;
    char line[NAME_MOST + 64];
    id->hash = mix64(mix64(mix64(id->hash ^ hash_bytes(name, len, 0)) ^ bytes) ^ hash);
    id->files++;
    int at = snprintf(line, sizeof line, "%016" PRIx64 " %" PRIu64 " ", hash, bytes);
    show_name(line + at, name, len < NAME_MOST ? len : NAME_MOST);
    append(id, line);
}

// ---------------------------------------------------------------- comparing

struct identity_part {
    char hash[32], name[300];
    uint64_t bytes;
};

static bool next_part(const struct identity *id, uint32_t *at, struct identity_part *ret)
{
    if (*at >= id->text_len)
        return false;
    const char *line = id->text + *at;
    *at += (uint32_t)strlen(line) + 1;
    *ret = (struct identity_part){0};
    return sscanf(line, "%31s %" SCNu64 " %299[^\n]", ret->hash, &ret->bytes,
                  ret->name) >= 2;
}

static int differ(const struct identity_part *then, const struct identity_part *now,
                  uint32_t number, struct err *e)
{
    if (strcmp(then->name, now->name) != 0)
        return err_set(e, TUG_EDATA, "file %u is '%s', but it was '%s'", number,
                       now->name, then->name);
    if (then->bytes != now->bytes)
        return err_set(e, TUG_EDATA,
                       "the size of '%s' is %" PRIu64 ", but it was %" PRIu64, now->name,
                       now->bytes, then->bytes);
    return err_set(e, TUG_EDATA, "'%s' is as long as it was, but its contents differ",
                   now->name);
}

int identity_same(const struct identity *then, const struct identity *now, struct err *e)
{
    struct identity_part a, b;
    uint32_t at_a = 0, at_b = 0;
    if (then->hash == now->hash && then->files == now->files)
        return 0;
    for (uint32_t i = 1; next_part(then, &at_a, &a) && next_part(now, &at_b, &b); i++)
        if (strcmp(a.hash, b.hash) != 0 || a.bytes != b.bytes ||
            strcmp(a.name, b.name) != 0)
            return differ(&a, &b, i, e);
    if (then->files != now->files)
        return err_set(e, TUG_EDATA, "there are %u files, but there were %u", now->files,
                       then->files);
    return err_set(e, TUG_EDATA, "one of its files has changed");
}

// ---------------------------------------------------------------- JSON

json_t *identity_to_json(const struct identity *id)
{
    json_t *list = json_array();
    for (uint32_t at = 0; list != NULL && at < id->text_len;) {
        const char *line = id->text + at;
        at += (uint32_t)strlen(line) + 1;
        if (json_array_append_new(list, json_string(line)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return json_pack("{s:o, s:I, s:o}", "hash", json_hex(id->hash), "files",
                     (json_int_t)id->files, "list", list);
}

void identity_from_json(struct identity *ret, const json_t *o, struct json_fields *f)
{
    *ret = (struct identity){0};
    ret->hash = json_read_hex(f, o, "hash");
    ret->files = (uint32_t)json_read_int(f, o, "files", UINT32_MAX);
    const json_t *list = json_read_array(f, o, "list", IDENTITY_TEXT_MAX);
    for (size_t i = 0; f->rc == 0 && i < json_array_size(list); i++) {
        const char *line = json_string_value(json_array_get(list, i));
        if (line == NULL)
            json_complain(f, "list", "has an entry that is not a file");
        else
            append(ret, line);
    }
}
