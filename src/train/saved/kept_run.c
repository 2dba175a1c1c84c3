// See kept_run.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/kept_run.h"

#include <string.h>

#include "base/alloc.h"
#include "os/json.h"

void kept_run_free(struct kept_run *k)
{
    mem_free(k->run);
    mem_free(k->history);
    *k = (struct kept_run){0};
}

int kept_run_print(const struct kept_run *k, char **ret, struct err *e)
{
    json_begin();
    json_t *o = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:[o, o, o, o, o]}", "run", k->run,
        "history", k->history, "examples", (json_int_t)k->examples, "trained",
        (json_int_t)k->trained, "saved_batches", (json_int_t)k->saved_batches, "ahead",
        (json_int_t)k->ahead, "steps", (json_int_t)k->steps, "epochs_before",
        (json_int_t)k->epochs_before, "seconds", json_real_or_null(k->read_seconds),
        json_real_or_null(k->train_seconds), json_real_or_null(k->valid_seconds),
        json_real_or_null(k->save_seconds), json_real_or_null(k->wait_seconds));
    *ret = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (*ret != NULL && !json_memory_failed())
        return 0;
    mem_free(*ret);
    *ret = NULL;
    return err_nomem(e, "the note of a pass");
}

static char *copy_member(struct json_fields *f, const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (text == NULL) {
        json_complain(f, name, "is not a text");
        return NULL;
    }
    char *copy = mem_strdup(text);
    if (copy == NULL && f->rc == 0)
        f->rc = err_nomem(f->e, f->path);
    return copy;
}

int kept_run_parse(struct kept_run *ret, const char *text, size_t n, struct err *e)
{
    struct json_fields f = {.path = "the note of the driver in --state", .e = e};
    *ret = (struct kept_run){0};
    json_begin();
    json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    if (o == NULL && json_memory_failed())
        return err_nomem(e, f.path);
    double *const seconds[] = {&ret->read_seconds, &ret->train_seconds,
                               &ret->valid_seconds, &ret->save_seconds,
                               &ret->wait_seconds};
    ret->run = copy_member(&f, o, "run");
    ret->history = copy_member(&f, o, "history");
    ret->examples = json_read_int(&f, o, "examples", INT64_MAX);
    ret->trained = json_read_int(&f, o, "trained", INT64_MAX);
    ret->saved_batches = json_read_int(&f, o, "saved_batches", INT64_MAX);
    ret->ahead = json_read_int(&f, o, "ahead", INT32_MAX);
    ret->steps = json_read_int(&f, o, "steps", INT64_MAX);
    ret->epochs_before = json_read_int(&f, o, "epochs_before", INT32_MAX);
    const json_t *list = json_object_get(o, "seconds");
    for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++)
        *seconds[i] = json_number_value(json_array_get(list, i));
    json_decref(o);
    if (f.rc != 0)
        kept_run_free(ret);
    return f.rc;
}
