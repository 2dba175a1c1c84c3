// The plan of a run as JSON: an object beside the options, since a resumed run may have
// another plan, but never other options.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "train/saved/saved_run.h"

json_t *saved_plan_to_json(const struct saved_plan *p)
{
    json_t *o = json_object();
    json_put(o, "epochs", p->epochs);
    json_put(o, "patience", p->patience);
    json_put(o, "keep", p->keep);
    json_put(o, "save-passes", p->save_passes);
    json_put(o, "save-batches", p->save_batches);
    json_put(o, "max-bad-lines", p->max_bad_lines);
    if (p->mode[0] == '\0')
        return o;
    json_put(o, "mode", p->mode);
    json_put(o, "rules", p->rules);
    json_put(o, "bf16", (uint32_t)p->bf16);
    json_put(o, "in-flight", p->in_flight);
    if (p->dense_bounded)
        json_put(o, "dense-staleness", p->dense_staleness);
    return o;
}

static void copy_word(struct json_fields *f, const json_t *o, const char *name,
                      char ret[SAVED_WORD_MAX])
{
    const char *text = json_read_text(f, o, name);
    if (strlen(text) >= SAVED_WORD_MAX)
        json_complain(f, name, "is too long");
    else
        snprintf(ret, SAVED_WORD_MAX, "%s", text);
}

void saved_plan_from_json(struct saved_plan *ret, const json_t *o, struct json_fields *f)
{
    *ret = (struct saved_plan){0};
    if (o == NULL) // older saves lack it
        return;
    ret->epochs = (uint32_t)json_read_int(f, o, "epochs", INT32_MAX);
    ret->patience = (uint32_t)json_read_int(f, o, "patience", INT32_MAX);
    ret->keep = (uint32_t)json_read_int(f, o, "keep", INT32_MAX);
    ret->save_passes = (uint32_t)json_read_int(f, o, "save-passes", INT32_MAX);
    ret->save_batches = json_read_int(f, o, "save-batches", INT64_MAX);
    ret->max_bad_lines = json_read_int(f, o, "max-bad-lines", INT64_MAX);
    if (json_object_get(o, "mode") == NULL)
        return;
    copy_word(f, o, "mode", ret->mode);
    copy_word(f, o, "rules", ret->rules);
    ret->bf16 = json_read_int(f, o, "bf16", 1) != 0;
    ret->in_flight = (uint32_t)json_read_int(f, o, "in-flight", INT32_MAX);
    ret->dense_bounded = json_object_get(o, "dense-staleness") != NULL;
    if (ret->dense_bounded)
        ret->dense_staleness = (uint32_t)json_read_int(f, o, "dense-staleness",
                                                       UINT32_MAX);
}
