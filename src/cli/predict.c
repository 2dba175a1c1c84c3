// tug predict: prints one prediction per line, in the order of the input.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "data/input/encode.h"
#include "data/source/paths.h"
#include "os/file.h"
#include "os/log.h"
#include "run/explained.h"
#include "run/predict_options.h"
#include "save/save.h"
#include "train/evaluate/guard.h"

struct printer {
    const struct predict_values *v;
    struct encoder *file; // NULL: standard output
    struct buf line;
    char separator;
    // Whether fields may need quotes, because the output is csv.
    bool quotes;
    bool header;                 // the header is not written yet
    const struct schema *schema; // schema of the model, which has the labels' names
    uint32_t labels;
};

// Writes a csv field, in quotes if it contains a character that would end it.
static int put_field(struct printer *p, const char *text)
{
    if (!p->quotes)
        return buf_add(&p->line, text, strlen(text));
    const char special[] = {p->separator, '"', '\n', '\r', '\0'};
    if (text[strcspn(text, special)] == '\0')
        return buf_add(&p->line, text, strlen(text));
    TRY(buf_add(&p->line, "\"", 1));
    for (; *text != '\0'; text++) {
        if (*text == '"')
            TRY(buf_add(&p->line, "\"", 1));
        TRY(buf_add(&p->line, text, 1));
    }
    return buf_add(&p->line, "\"", 1);
}

// Writes the prediction; for several labels an object with their names.
static int put_json_predictions(struct printer *p, const float *predictions)
{
    if (p->labels == 1)
        return buf_json_number(&p->line, 7, (double)predictions[0]);
    for (uint32_t k = 0; k < p->labels; k++) {
        TRY(buf_add(&p->line, k == 0 ? "{" : ",", 1));
        TRY(buf_json(&p->line, schema_label(p->schema, k)));
        TRY(buf_add(&p->line, ":", 1));
        TRY(buf_json_number(&p->line, 7, (double)predictions[k]));
    }
    return buf_add(&p->line, "}", 1);
}

static int put_json(struct printer *p, const char *kept, const float *predictions)
{
    const char *names = p->v->keep, *name;
    size_t len;
    TRY(buf_printf(&p->line, "{\"prediction\":"));
    TRY(put_json_predictions(p, predictions));
    while (kept != NULL && reader_next_name(&names, &name, &len)) {
        char text[512];
        snprintf(text, sizeof(text), "%.*s", (int)(len < 511 ? len : 511), name);
        TRY(buf_add(&p->line, ",", 1));
        TRY(buf_json(&p->line, text));
        TRY(buf_add(&p->line, ":", 1));
        TRY(buf_json(&p->line, kept));
        kept += strlen(kept) + 1;
    }
    return buf_add(&p->line, "}\n", 2);
}

static int put_text(struct printer *p, const char *kept, const float *predictions)
{
    const char *names = p->v->keep, *name;
    size_t len;
    while (kept != NULL && reader_next_name(&names, &name, &len)) {
        TRY(put_field(p, kept));
        TRY(buf_add(&p->line, &p->separator, 1));
        kept += strlen(kept) + 1;
    }
    for (uint32_t k = 0; k < p->labels; k++) {
        if (k > 0)
            TRY(buf_add(&p->line, &p->separator, 1));
        TRY(isnan(predictions[k]) ? buf_add(&p->line, "nan", 3)
                                  : buf_printf(&p->line, "%.7g", (double)predictions[k]));
    }
    return buf_add(&p->line, "\n", 1);
}

static int write_lines(struct printer *p, struct err *e)
{
    if (p->file != NULL)
        TRY(encoder_write(p->file, p->line.data, p->line.len, e));
    else if ((p->line.len > 0 &&
              fwrite(p->line.data, 1, p->line.len, stdout) != p->line.len) ||
             (p->v->stream && fflush(stdout) != 0))
        return err_sys(e, TUG_EIO, "cannot write to standard output");
    buf_clear(&p->line);
    return 0;
}

// Writes the header before the first line. The columns are not known earlier.
static int put_header(struct printer *p)
{
    if (!p->header)
        return 0;
    p->header = false;
    const char *names = p->v->keep, *name;
    size_t len;
    int rc = 0;
    while (rc == 0 && reader_next_name(&names, &name, &len)) {
        char text[512];
        snprintf(text, sizeof(text), "%.*s", (int)(len < 511 ? len : 511), name);
        rc = put_field(p, text);
        if (rc == 0)
            rc = buf_add(&p->line, &p->separator, 1);
    }
    for (uint32_t k = 0; k < p->labels && rc == 0; k++) {
        char text[512] = "prediction";
        if (p->labels > 1)
            snprintf(text, sizeof(text), "prediction_%.490s", schema_label(p->schema, k));
        if (k > 0)
            rc = buf_add(&p->line, &p->separator, 1);
        if (rc == 0)
            rc = put_field(p, text);
    }
    return rc == 0 ? buf_add(&p->line, "\n", 1) : rc;
}

static int print_predictions(void *ctx, const struct dataset *d, const float *predictions,
                             size_t n, struct err *e)
{
    enum { ENOUGH = 1 << 16 };
    struct printer *p = ctx;
    if (put_header(p) != 0)
        return err_nomem(e, "a prediction");
    for (size_t i = 0; i < n; i++) {
        const char *kept = p->v->keep != NULL ? dataset_kept(d, i) : NULL;
        if ((p->v->json ? put_json : put_text)(p, kept, predictions + i * p->labels) != 0)
            return err_nomem(e, "a prediction");
        if (p->line.len >= ENOUGH)
            TRY(write_lines(p, e));
    }
    return write_lines(p, e);
}

static int print_explained(void *ctx, const struct explained *x, struct err *e)
{
    struct printer *p = ctx;
    if (explained_put(&p->line, x, p->v->json) != 0)
        return err_nomem(e, "an explanation");
    return write_lines(p, e);
}

static int explain_all(struct opened_model *m, struct printer *p, struct err *e)
{
    int rc = explained_run(m, p->v, print_explained, p, e);
    return model_read_error(m, &p->v->model, rc, e);
}

static int print_all(struct opened_model *m, struct printer *p, struct err *e)
{
    const struct predict_values *v = p->v;
    struct evaluation_options o = model_evaluation(m, &v->model);
    o.each = print_predictions;
    o.ctx = p;
    o.predict = true;
    o.raw = v->raw;
    o.eager = v->stream;
    o.hold_places = true;
    o.keep = v->keep;
    o.keep_option = "--keep";
    struct metrics metrics[MODEL_MAX_TASKS];
    TRY(model_read_error(m, &v->model, evaluate(&o, metrics, e), e));
    guard_columns(m->reader);
    guard_scores(&metrics[0], "this data", false);
    if (m->bad_lines > 0)
        log_warn(
            "%llu line%s of the data could not be read and have the prediction 'nan'",
            (unsigned long long)m->bad_lines, PLURAL_S(m->bad_lines));
    return 0;
}

static bool is_unquoted(const struct schema *s)
{
    size_t at = 0;
    const char *text;
    return schema_next_setting(s, SCHEMA_QUOTE, &at, &text);
}

// Returns whether the output has a header, because --keep is given and the data is csv
// with a header (not with --columns).
static bool has_header(const struct opened_model *m, const struct predict_values *v)
{
    const struct schema *s = reader_schema(m->reader);
    size_t at = 0;
    const char *names;
    return v->keep != NULL && v->header && !v->json && s->separator != 0 &&
           !schema_next_setting(s, SCHEMA_HEADER, &at, &names);
}

static int predict_opened(struct opened_model *m, const struct predict_values *v,
                          struct err *e)
{
    TRY(model_open(m, &v->model, false, e));
    char separator = reader_schema(m->reader)->separator; // used for csv
    struct printer p = {.v = v,
                        .line = BUF_INIT(1 << 30),
                        .separator = separator != 0 ? separator : '\t',
                        .quotes = separator != 0 && !is_unquoted(&m->run.schema),
                        .header = has_header(m, v),
                        .schema = &m->run.schema,
                        .labels = schema_labels(&m->run.schema)};
    if (v->explain && p.labels > 1)
        return err_set(e, TUG_EUSAGE,
                       "--explain works only for models with one label, and this model "
                       "has %u labels",
                       p.labels);
    if (v->out != NULL && strcmp(v->out, "-") != 0) {
        TRY(encoder_check_name("--out", v->out, false, e));
        TRY(save_check_output("--out", v->out, e));
        if (data_files_has(source_data_files(m->source), v->out))
            return err_set(e, TUG_EUSAGE,
                           "--out: '%s' is the data, and would be overwritten: give "
                           "another file",
                           v->out);
        TRY(data_paths_check_output(v->model.data.items, v->model.data.n, "--out", v->out,
                                    e));
        TRY(encoder_open(&p.file, v->out, e));
    }
    int rc = (v->explain ? explain_all : print_all)(m, &p, e);
    if (rc == 0) // a header is written even without lines
        rc = put_header(&p) == 0 ? write_lines(&p, e) : err_nomem(e, "a prediction");
    buf_free(&p.line);
    if (rc == 0 && p.file != NULL)
        return encoder_commit(p.file, NULL, e);
    encoder_abort(p.file);
    return rc;
}

static int predict_check(const struct predict_values *v, const struct options *o,
                         struct err *e)
{
    if (!v->explain && options_given(o, "top"))
        return err_set(e, TUG_EUSAGE,
                       "--top needs --explain: it limits the pairs of --explain");
    if (v->keep == NULL && options_given(o, "header"))
        return err_set(e, TUG_EUSAGE,
                       "--%sheader needs --keep: predictions alone have no header",
                       v->header ? "" : "no-");
    if (v->explain && (v->keep != NULL || v->raw))
        return err_set(e, TUG_EUSAGE,
                       "--%s cannot be used with --explain, whose output always has the "
                       "score, and the features with their columns",
                       v->raw ? "raw" : "keep");
    return 0;
}

static int predict_command(const void *values, const struct options *o, struct err *e)
{
    const struct predict_values *v = values;
    TRY(predict_check(v, o, e));
    if (v->quiet)
        log_set_level(LOG_WARN);
    struct opened_model *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a model");
    m->eager = v->stream;
    node_catch_signals();
    m->interrupted = &node_interrupted;
    int rc = predict_opened(m, v, e);
    model_close(m);
    mem_free(m);
    return rc;
}

const struct cli_command cli_predict = {
    &cli_predict_options, sizeof(struct predict_values), .run = predict_command};
