// See result.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/result.h"

#include <stdio.h>
#include <sys/resource.h>

#include "train/evaluate/guard.h"

static double peak_rss_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss * 1024 : 0;
}

void result_add_metrics(json_t *o, const struct metrics *m)
{
    struct metrics values = m != NULL ? *m : (struct metrics){0};
    for (size_t i = 0; i < METRICS_FIELDS; i++)
        json_object_set_new(o, metrics_fields[i].name,
                            m != NULL ? json_real_or_null(*metrics_value(&values, i))
                                      : json_null());
    if (result_has_groups(&values))
        json_object_set_new(o, "groups",
                            json_pack("{s:I, s:I, s:I}", "counted",
                                      (json_int_t)values.groups, "one_class",
                                      (json_int_t)values.one_class, "without",
                                      (json_int_t)values.without_group));
}

// If an example has several labels, adds the metrics of each label under its name. The
// members of the result itself are those of the first label.
static void add_labels(json_t *o, const struct result *r, const struct metrics *m)
{
    json_t *all = r->labels > 1 ? json_object() : NULL;
    for (uint32_t k = 0; all != NULL && k < r->labels; k++) {
        json_t *one = json_pack("{s:I}", "examples", (json_int_t)m[k].examples);
        result_add_metrics(one, &m[k]);
        json_object_set_new(all, r->label[k], one);
    }
    if (all != NULL)
        json_object_set_new(o, "labels", all);
}

void result_name_labels(struct result *r, const struct schema *s)
{
    r->labels = schema_labels(s);
    for (uint32_t k = 0; k < r->labels; k++) {
        const char *name = schema_label(s, k);
        snprintf(r->label[k], sizeof(r->label[k]), "%s", name != NULL ? name : "");
    }
}

double result_other_seconds(const struct result *r)
{
    double other = r->total_seconds - r->read_seconds - r->train_seconds -
                   r->valid_seconds - r->save_seconds - r->test_seconds;
    return other > 0 ? other : 0;
}

// The times add up to the total, except "wait", which is a part of "train".
static json_t *seconds_to_json(const struct result *r)
{
    json_t *o = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "read", r->read_seconds,
                          "train", r->train_seconds, "valid", r->valid_seconds, "save",
                          r->save_seconds, "test", r->test_seconds, "other",
                          result_other_seconds(r), "total", r->total_seconds);
    if (r->workers > 0)
        json_object_set_new(o, "wait", json_real(r->wait_seconds));
    return o;
}

json_t *result_to_json(const struct result *r)
{
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:i, s:o,"
        " s:o, s:I, s:f, s:I, s:I, s:i, s:i, s:i, s:I, s:s, s:I}",
        "command", r->command, "model", r->model, "format", r->format, "examples",
        (json_int_t)r->examples, "held_out", (json_int_t)r->held_out, "epochs",
        (int)r->epochs, "seconds", seconds_to_json(r), "examples_per_second",
        json_real_or_null(r->examples_per_second), "keys", (json_int_t)r->keys,
        "bytes_per_key", r->bytes_per_key, "fixed_bytes", (json_int_t)r->fixed_bytes,
        "peak_rss_bytes", (json_int_t)peak_rss_bytes(), "threads", r->threads, "workers",
        (int)r->workers, "servers", (int)r->servers, "seed", (json_int_t)r->seed, "out",
        r->out, "skipped_lines", (json_int_t)r->skipped_lines);
    if (o != NULL)
        result_add_metrics(o, r->tested ? &r->test : NULL);
    if (o != NULL && r->tested)
        add_labels(o, r, r->tests);
    if (o != NULL && r->tested)
        json_object_set_new(o, "known_features",
                            json_real_or_null(guard_known(&r->test)));
    if (o != NULL)
        json_object_set_new(o, "data_bytes", json_integer((json_int_t)r->data_bytes));
    if (o != NULL && r->validated) {
        json_t *valid = json_pack("{s:i}", "epoch", (int)r->best_epoch);
        if (valid != NULL)
            result_add_metrics(valid, &r->valid);
        if (valid != NULL)
            add_labels(valid, r, r->valids);
        json_object_set_new(o, "valid", valid);
    }
    if (o != NULL && r->history != NULL)
        json_object_set_new(o, "history", history_to_json(r->history));
    if (o != NULL && r->tables != NULL)
        eval_tables_add_json(o, r->tables);
    return o;
}
