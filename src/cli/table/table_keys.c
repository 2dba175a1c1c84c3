// The keys of tug table get, given as numbers or as words of the data's columns.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/table/table.h"
#include "data/format/reader.h"
#include "train/saved/saved_run.h"

static int parse_key(const char *text, uint64_t *ret, struct err *e)
{
    char *end;
    errno = 0;
    *ret = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0)
        return err_set(e, TUG_EUSAGE,
                       "'%.200s' is not a key: keys are whole numbers of 64 bits, as "
                       "export writes them, or COLUMN=WORD of a saved model's data",
                       text);
    return 0;
}

static int open_reader(struct reader **ret, const struct saved_run *run, struct err *e)
{
    struct reader_options o = {.schema = &run->schema,
                               .fields = run->options.model.fields};
    return reader_open(ret, &o, e);
}

static int find_column(const struct reader *r, const char *name, size_t len,
                       uint32_t *ret, struct err *e)
{
    int rc = reader_find_slot(r, name, len, reader_slots(r), ret, e);
    if (rc == TUG_EUSAGE)
        err_wrap(e, "the data of the model");
    return rc;
}

int table_keys_columns(const struct option_list *words, const struct saved_run *run,
                       struct err *e)
{
    struct reader *r;
    uint32_t slot;
    TRY(open_reader(&r, run, e));
    int rc = 0;
    for (size_t i = 1; i < words->n && rc == 0; i++)
        rc = find_column(r, words->items[i], strlen(words->items[i]), &slot, e);
    reader_close(r);
    return rc;
}

// Computes the key of COLUMN=WORD by the reader of the run's data.
static int parse_word(const char *text, const char *equals, const struct saved_run *run,
                      uint64_t *ret, struct err *e)
{
    struct reader *r;
    struct reader_word w;
    uint32_t slot;
    if (run == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "'%.200s': only a saved model knows the keys of words; give the key of "
            "the row",
            text);
    TRY(open_reader(&r, run, e));
    int rc = find_column(r, text, (size_t)(equals - text), &slot, e);
    if (rc == 0)
        rc = reader_word(r, slot, equals + 1, strlen(equals + 1), &w, e);
    reader_close(r);
    *ret = rc == 0 ? w.key : 0;
    return rc;
}

static int table_keys_parse(const char *text, const struct saved_run *run, uint64_t *ret,
                            struct err *e)
{
    const char *equals = strchr(text, '=');
    return equals != NULL ? parse_word(text, equals, run, ret, e)
                          : parse_key(text, ret, e);
}

int table_keys_open(struct table_keys *k, const struct table_values *v,
                    const struct saved_run *run, struct err *e)
{
    *k = (struct table_keys){.n = v->action.n - 1, .text = v->action.items + 1};
    k->key = mem_array(k->n + 1, sizeof(*k->key));
    k->found = mem_zalloc((k->n + 1) * sizeof(*k->found));
    int rc = k->key == NULL || k->found == NULL ? err_nomem(e, "keys") : 0;
    for (size_t i = 0; i < k->n && rc == 0; i++)
        rc = table_keys_parse(v->action.items[i + 1], run, &k->key[i], e);
    if (rc != 0)
        table_keys_close(k);
    return rc;
}

void table_keys_close(struct table_keys *k)
{
    mem_free(k->key);
    mem_free(k->found);
    *k = (struct table_keys){0};
}

int table_keys_check(const struct table_keys *k, const char *where, struct err *e)
{
    size_t missing = 0, first = 0;
    for (size_t i = k->n; i-- > 0;)
        if (!k->found[i]) {
            first = i;
            missing++;
        }
    if (missing == 0)
        return 0;
    bool is_word = strchr(k->text[first], '=') != NULL;
    if (missing == 1)
        return err_set(e, TUG_EDATA, "%s has no row of %s%.200s%s%" PRIu64 "%s", where,
                       is_word ? "'" : "key ", is_word ? k->text[first] : "",
                       is_word ? "' (key " : "", k->key[first], is_word ? ")" : "");
    return err_set(e, TUG_EDATA,
                   "%s has no row of %zu of the keys; the first of them is '%.200s'",
                   where, missing, k->text[first]);
}
