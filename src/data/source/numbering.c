// See numbering.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/numbering.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "data/format/reader.h"
#include "data/frame/rows.h"
#include "data/source/paths.h"

static void raise_to(atomic_uint_least64_t *max, uint64_t x)
{
    uint64_t now = atomic_load_explicit(max, memory_order_relaxed);
    while (now < x && !atomic_compare_exchange_weak_explicit(
                          max, &now, x, memory_order_relaxed, memory_order_relaxed))
        ;
}

void numbering_add(struct numbering *n, const uint64_t *keys, size_t count)
{
    uint64_t least = UINT64_MAX, greatest = 0;
    for (size_t i = 0; i < count; i++) {
        least = keys[i] < least ? keys[i] : least;
        greatest = keys[i] > greatest ? keys[i] : greatest;
    }
    if (count == 0)
        return;
    raise_to(&n->last, greatest);
    raise_to(&n->first_inverted, ~least);
}

void numbering_add_fields(struct numbering *n, uint64_t first, uint64_t end)
{
    if (end == 0)
        return;
    raise_to(&n->fields_end, end);
    raise_to(&n->fields_first_inverted, ~first);
}

void numbering_join(struct numbering *to, struct numbering_range from)
{
    raise_to(&to->last, from.last);
    raise_to(&to->first_inverted, from.first_inverted);
    raise_to(&to->fields_end, from.fields_end);
    raise_to(&to->fields_first_inverted, from.fields_first_inverted);
}

void numbering_range_join(struct numbering_range *to, struct numbering_range from)
{
    struct numbering both = {0};
    numbering_join(&both, *to);
    numbering_join(&both, from);
    *to = numbering_range(&both);
}

void numbering_copy(struct numbering *to, const struct numbering *from)
{
    atomic_store(&to->last, atomic_load(&from->last));
    atomic_store(&to->first_inverted, atomic_load(&from->first_inverted));
    atomic_store(&to->fields_end, atomic_load(&from->fields_end));
    atomic_store(&to->fields_first_inverted, atomic_load(&from->fields_first_inverted));
    to->columns = from->columns;
}

bool numbering_has(const struct schema *s)
{
    return reader_format_is_numbered(s->format);
}

uint64_t numbering_columns(const struct data_files *f)
{
    uint64_t columns = 0;
    for (size_t i = 0; f != NULL && i < f->n; i++) {
        const struct rows *r = f->file[i].rows;
        uint64_t n = r != NULL ? rows_matrix_columns(r) : 0;
        columns = n > columns ? n : columns;
    }
    return columns;
}

static bool say(char text[NUMBERING_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool say(char text[NUMBERING_TEXT], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, NUMBERING_TEXT, format, args);
    va_end(args);
    return true;
}

static bool counts_from_0(const struct numbering *model)
{
    return model->columns != 0 || numbering_first(model) == 0;
}

// Returns one more than the greatest feature number that the model's data can have had.
static uint64_t end_of(const struct numbering *model)
{
    return model->columns != 0 ? model->columns : model->last + 1;
}

static bool matrix_differs(const struct numbering *model, uint64_t columns,
                           const char *what, char text[NUMBERING_TEXT])
{
    uint64_t last = model->last, known = end_of(model);
    bool from_0 = counts_from_0(model);
    if (columns == known || (model->columns == 0 && columns > known && !from_0))
        return false;
    char then[64];
    if (model->columns != 0)
        snprintf(then, sizeof(then), "learnt from %" PRIu64, model->columns);
    else
        snprintf(then, sizeof(then), "knows features up to %" PRIu64, last);
    return columns > known
               ? say(text,
                     "%s: the matrix has %" PRIu64
                     " columns, and the model %s: the columns from %" PRIu64
                     " on are ignored",
                     what, columns, then, known)
               : say(text,
                     "%s: the matrix has %" PRIu64 " columns, and the model %s: the "
                     "columns that are missing count as 0",
                     what, columns, then);
}

// Compares the model with data that is a file, which does not state its number of
// features. Returns whether the numbering differs; `text` is then the warning.
static bool file_differs(const struct numbering *model, const struct numbering *data,
                         const char *what, char text[NUMBERING_TEXT])
{
    uint64_t first = numbering_first(data), last = data->last;
    return model->columns != 0 && last >= model->columns &&
           say(text,
               "%s: its features are numbered from %" PRIu64 " to %" PRIu64
               ", and the model learnt from a matrix of %" PRIu64
               " columns, numbered from 0: features from %" PRIu64 " on are ignored",
               what, first, last, model->columns, model->columns);
}

// Compares the first numbers of fields (0 or 1) in the model's data and in `data`.
static bool fields_shifted(const struct numbering *model, const struct numbering *data,
                           const char *what, char text[NUMBERING_TEXT])
{
    if (model->fields_end == 0 || data->fields_end == 0)
        return false;
    uint64_t first = numbering_first_field(data), then = numbering_first_field(model),
             last = data->fields_end - 1, known = model->fields_end - 1;
    if (!(then == 1 && first == 0) && !(then == 0 && first == 1 && last > known))
        return false;
    return say(text,
               "%s: its fields are numbered from %" PRIu64 " to %" PRIu64
               ", and those of the model's data from %" PRIu64 " to %" PRIu64
               ": %s each field's number if they are the same fields",
               what, first, last, then, known,
               first == 0 ? "add 1 to" : "subtract 1 from");
}

bool numbering_shifted(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT])
{
    if (fields_shifted(model, data, what, text))
        return true;
    bool known = numbering_any(model) || model->columns != 0;
    if (known && data->columns != 0 && !counts_from_0(model) &&
        model->last == data->columns)
        return say(
            text,
            "%s: its columns are numbered from 0 to %" PRIu64
            ", and the model knows features %" PRIu64 " to %" PRIu64
            ", as a libsvm file numbers them: put an empty column before the first",
            what, data->columns - 1, numbering_first(model), (uint64_t)model->last);
    if (!known || !numbering_any(data))
        return false;
    if (model->columns == 0 && numbering_first(model) == 1 && numbering_first(data) == 0)
        return say(text,
                   "%s: its features are numbered from 0 to %" PRIu64
                   ", and the model knows features 1 to %" PRIu64
                   ": add 1 to each number if the model's were counted from 1",
                   what, (uint64_t)data->last, (uint64_t)model->last);
    // The data may also have new features, so its last number may exceed the model's end
    // by more than one.
    return data->columns == 0 && counts_from_0(model) && numbering_first(data) == 1 &&
           data->last >= end_of(model) &&
           say(text,
               "%s: its features are numbered from 1 to %" PRIu64
               ", and the model knows features 0 to %" PRIu64
               ": subtract 1 from each number if they were counted from 1",
               what, (uint64_t)data->last, end_of(model) - 1);
}

bool numbering_differs(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT])
{
    if (numbering_shifted(model, data, what, text))
        return true;
    if (!numbering_any(model) && model->columns == 0)
        return false;
    return data->columns != 0
               ? matrix_differs(model, data->columns, what, text)
               : numbering_any(data) && file_differs(model, data, what, text);
}
