// Warns about text that is accepted but may not be what it seems: bytes of another
// encoding, numbers with a decimal comma that are taken as words, a first column that is
// the label by default, and words that a model of an earlier version may know under
// another spelling. Each is reported once.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <strings.h>

#include "base/printable.h"
#include "data/format/reader_csv.h"
#include "os/log.h"

enum { LOOK_LINES = 8, CELLS_MIN = 3, SHOWN_BEFORE = 20 };

static bool has_high_byte(const char *text, size_t n)
{
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++)
        all |= (unsigned char)text[i];
    return all >= 0x80;
}

static void tell_of_bytes(const char *line, size_t len, size_t at)
{
    size_t first = at > SHOWN_BEFORE ? at - SHOWN_BEFORE : 0;
    while (first < at && ((unsigned char)line[first] & 0xc0) == 0x80)
        first++;
    log_warn(
        "the data is not UTF-8, as in '%s': words are compared byte by byte, so the same "
        "word in UTF-8 is another one. Convert the file, for example with iconv -f "
        "LATIN1 "
        "-t UTF-8",
        show(line + first, len - first).text);
}

// Returns whether the field has the form [+-]digits,digits.
static bool has_decimal_comma(const struct field *f)
{
    const char *p = f->text, *end = p + f->len;
    size_t digits[2] = {0};
    p += p < end && (*p == '-' || *p == '+');
    for (int part = 0; part < 2; part++) {
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            digits[part]++;
        if (part == 0 && (p == end || *p++ != ','))
            return false;
    }
    return p == end && digits[0] > 0 && digits[1] > 0;
}

// Warns if most cells of the first lines have a decimal comma; a few other cells may be
// words for a missing value. `f` is the column's cell in the last of these lines.
static void tell_of_commas(const struct csv *c, const struct column *column,
                           const struct field *f)
{
    uint32_t cells = atomic_load(&c->odd.cells[column->slot]),
             commas = atomic_load(&c->odd.commas[column->slot]);
    if (commas < CELLS_MIN || commas * 4 < cells * 3)
        return;
    bool comma = has_decimal_comma(f);
    const struct shown name = show(column->name, strlen(column->name));
    if (comma && csv_is_of_thousands(f->text, f->len)) {
        log_warn(
            "column '%s' has numbers with commas, such as '%s', and is taken as words: "
            "remove the commas and give --numeric '%s' if they separate thousands",
            name.text, show(f->text, f->len).text, name.text);
        return;
    }
    log_warn("column '%s' has numbers with a decimal comma%s%s%s, and is taken as words: "
             "give --numeric '%s'%s if they are numbers",
             name.text, comma ? ", such as '" : "",
             comma ? show(f->text, f->len).text : "", comma ? "'" : "", name.text,
             c->decimal_comma ? "" : " --decimal ,");
}

// Warns if the first column is the label by default but another column has a usual name
// of a label. Numbers that are not labels might otherwise be trained on without an error.
static void tell_of_label(const struct csv *c)
{
    const char *is = schema_label(c->base.schema, 0);
    const char *usual = csv_usual_label(c->base.schema);
    if (c->label != NULL || c->base.rows != NULL || !c->base.labels || is == NULL ||
        usual == NULL || csv_names_label(is))
        return;
    log_warn(
        "the label is the first column, '%s', because no --label was given: give --label "
        "'%s' if that column is the label",
        show(is, strlen(is)).text, show(usual, strlen(usual)).text);
}

// Warns if the first column has no name and its words are features: pandas writes its row
// numbers into such a column.
static void tell_of_row_numbers(const struct csv *c)
{
    if (c->base.rows == NULL && c->columns > 0 && c->column[0].name[0] == '\0' &&
        c->column[0].use == SCHEMA_WORDS)
        log_warn("the first column has no name, and is taken as words: if it has row "
                 "numbers, as pandas writes them, give --drop ''");
}

// Counts the cells with a decimal comma in the first lines, and warns at the last of
// these lines.
static void look_at_commas(struct csv *c, const struct reader_layout *l, const char *line,
                           size_t len, bool last)
{
    struct csv_odd *o = &c->odd;
    const char *p = line, *end = line + len;
    for (size_t i = 0; i < l->columns && p <= end; i++, p++) {
        struct field f;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
        if (p == NULL)
            return;
        if (l->column[i].use != SCHEMA_WORDS)
            continue;
        if (!csv_is_empty(c, f.text, f.len)) {
            atomic_fetch_add(&o->commas[l->column[i].slot], has_decimal_comma(&f));
            atomic_fetch_add(&o->cells[l->column[i].slot], 1);
        }
        if (last)
            tell_of_commas(c, &l->column[i], &f);
    }
}

static void look_at_first_lines(struct csv *c, const struct reader_layout *l,
                                const char *line, size_t len)
{
    unsigned number = atomic_fetch_add(&c->odd.lines, 1);
    if (number >= LOOK_LINES)
        return;
    // These warnings come at the second line, because the label of the first line may
    // cause an error.
    if (number == 1) {
        tell_of_row_numbers(c);
        tell_of_label(c);
    }
    look_at_commas(c, l, line, len, number == LOOK_LINES - 1);
}

// Writes the word that earlier versions used for the value of this text in a data frame.
// Returns false if the text is not a bool or a float, or if the word is the same.
static bool has_old_word(const struct field *f, struct cell *ret)
{
    char copy[NUMBER_MAX + 1], *end;
    *ret = (struct cell){.style = CELL_OLD};
    for (int is = 0; is < 2; is++) {
        const char *word = is ? "true" : "false";
        ret->text = word;
        ret->len = strlen(word);
        if (f->len == ret->len && strncasecmp(f->text, word, f->len) == 0)
            return memcmp(f->text, word, f->len) != 0;
    }
    if (f->len == 0 || f->len > NUMBER_MAX || f->text[f->len - 1] < '0' ||
        f->text[f->len - 1] > '9' || memchr(f->text, '.', f->len) == NULL)
        return false;
    memcpy(copy, f->text, f->len);
    copy[f->len] = '\0';
    ret->number = strtod(copy, &end);
    if (*end != '\0' || strspn(copy, "0123456789+-.e") != f->len)
        return false;
    ret->kind = CELL_NUMBER;
    cell_write(ret);
    return ret->len != f->len || memcmp(ret->text, f->text, f->len) != 0;
}

// Looks for words that a model of an earlier version, trained on a data frame, may know
// under another spelling. The model's save lacks the types of the columns, which would be
// needed to map the spellings.
static void look_at_old_words(struct csv *c, const struct reader_layout *l,
                              const char *line, size_t len)
{
    const char *p = line, *end = line + len;
    for (size_t i = 0; i < l->columns && p <= end; i++, p++) {
        struct field f;
        struct cell old;
        p = csv_next_field(p, end, c->separator, csv_quote(c), &f, NULL);
        if (p == NULL)
            return;
        if (l->column[i].use != SCHEMA_WORDS ||
            atomic_load_explicit(&c->odd.cells[l->column[i].slot],
                                 memory_order_relaxed) != 0 ||
            !has_old_word(&f, &old) ||
            atomic_exchange(&c->odd.cells[l->column[i].slot], 1) != 0)
            continue;
        log_warn(
            "column '%s' has '%s', which the model may know as '%.*s': it was trained "
            "on a data frame by an earlier version of tug, which spelled bools and "
            "numbers differently. Score a data frame, or train the model again",
            show(l->column[i].name, strlen(l->column[i].name)).text,
            show(f.text, f.len).text, (int)old.len, old.text);
    }
}

void csv_look_at_line(const struct csv *c, const struct reader_layout *l,
                      const char *line, size_t len)
{
    // The cast removes const; only atomic fields are written.
    struct csv *looking = (struct csv *)(uintptr_t)c;
    struct csv_odd *o = &looking->odd;
    if (!atomic_load_explicit(&o->told_of_bytes, memory_order_relaxed) &&
        has_high_byte(line, len)) {
        size_t at = printable_not_utf8(line, len);
        if (at < len && !atomic_exchange(&o->told_of_bytes, true))
            tell_of_bytes(line, len, at);
    }
    if (!c->base.given &&
        atomic_load_explicit(&o->lines, memory_order_relaxed) < LOOK_LINES)
        look_at_first_lines(looking, l, line, len);
    if (c->old_cells)
        look_at_old_words(looking, l, line, len);
}
