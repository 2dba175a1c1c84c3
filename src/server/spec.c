// Specs of tables, to and from the wire.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/spec.h"

#include <math.h>
#include <string.h>

#include "base/printable.h"

static struct wire_columns encode_group(const struct accessor_group *g)
{
    return (struct wire_columns){
        .weights = g->weights,
        .n = g->n,
        .state = g->state,
        .n_state = g->n_state,
        .rule = (uint8_t)g->rule.kind,
        .decays_by_squares = g->decays_by_squares,
        .block = g->rule.block,
        .lr = g->rule.lr,
        .l1 = g->rule.l1,
        .l2 = g->rule.l2,
        .prior = g->rule.prior,
        .n0 = g->rule.n0,
        .beta = g->rule.beta,
        .beta1 = g->rule.beta1,
        .beta2 = g->rule.beta2,
    };
}

static struct accessor_group decode_group(const struct wire_columns *c)
{
    return (struct accessor_group){
        .weights = c->weights,
        .n = c->n,
        .state = c->state,
        .n_state = c->n_state,
        .decays_by_squares = c->decays_by_squares != 0,
        .rule = {.kind = (enum rule_kind)c->rule,
                 .block = c->block,
                 .lr = c->lr,
                 .l1 = c->l1,
                 .l2 = c->l2,
                 .prior = c->prior,
                 .n0 = c->n0,
                 .beta = c->beta,
                 .beta1 = c->beta1,
                 .beta2 = c->beta2},
    };
}

static uint32_t n_weights(const struct accessor *a)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < a->n_groups; g++)
        n += a->groups[g].n;
    return n;
}

uint32_t spec_value_width(const struct table_spec *s, enum wire_op op)
{
    const struct accessor *a = &s->accessor;
    if (op == WIRE_GRADIENT)
        return a->push_width;
    return op == WIRE_ASSIGN ? n_weights(a) : a->width;
}

uint32_t spec_page_width(const struct table_spec *s)
{
    return accessor_lives(&s->accessor) ? s->accessor.pull_width : s->accessor.width;
}

uint32_t spec_page_rows(const struct table_spec *s, uint32_t max)
{
    uint64_t bytes = sizeof(uint64_t) + spec_page_width(s) * sizeof(float);
    uint64_t fit = SPEC_PAGE_BYTES / bytes > 0 ? SPEC_PAGE_BYTES / bytes : 1;
    return max < fit ? max : (uint32_t)fit;
}

int spec_of_config(struct table_spec *ret, uint32_t id, const struct table_config *c,
                   struct err *e)
{
    const enum wire_space spaces[] = {[CONFIG_HASH] = WIRE_SPACE_SPARSE,
                                      [CONFIG_RANGE] = WIRE_SPACE_RANGE,
                                      [CONFIG_DENSE] = WIRE_SPACE_DENSE};
    const enum wire_mode modes[] = {
        [CONFIG_ASYNC] = WIRE_ASYNC, [CONFIG_SSP] = WIRE_SSP, [CONFIG_SYNC] = WIRE_SYNC};
    *ret = (struct table_spec){.id = id,
                               .space = spaces[c->place],
                               .mode = modes[c->mode],
                               .staleness = c->staleness,
                               .mean = c->mean,
                               .by_config = true,
                               .config = *c};
    memcpy(ret->name, c->name, sizeof(ret->name));
    if (id >= SPEC_MAX_TABLES)
        return err_set(e, TUG_EUSAGE, "table %u: numbers of tables are below %d", id,
                       SPEC_MAX_TABLES);
    TRY(table_config_check(c, e));
    return accessor_make(&ret->accessor, &c->accessor, e);
}

int spec_encode(const struct table_spec *s, struct buf *groups, struct buf *inits,
                struct msg_table *ret)
{
    if (s->by_config) {
        *ret = (struct msg_table){.table = s->id};
        TRY(table_config_print(&s->config, groups));
        ret->config = (struct wire_text){groups->data, (uint32_t)groups->len};
        return 0;
    }
    for (uint32_t g = 0; g < s->accessor.n_groups; g++) {
        struct wire_columns c = encode_group(&s->accessor.groups[g]);
        TRY(wire_put_columns(groups, &c));
    }
    for (uint32_t i = 0; i < s->options.n_inits; i++) {
        const struct table_init *x = &s->options.inits[i];
        struct wire_init init = {x->begin, x->count, x->low, x->high};
        TRY(wire_put_init(inits, &init));
    }
    *ret = (struct msg_table){
        .table = s->id,
        .space = (uint8_t)s->space,
        .mode = (uint8_t)s->mode,
        .staleness = s->staleness,
        .mean = s->mean,
        .seed = s->options.seed,
        .first = s->options.id,
        .width = s->options.width,
        .align = s->options.align,
        .count = s->accessor.count,
        .groups = {groups->data, (uint32_t)groups->len},
        .inits = {inits->data, (uint32_t)inits->len},
        .name = wire_text(s->name),
    };
    return 0;
}

static int decode_name(struct table_spec *s, const struct msg_table *m, struct err *e)
{
    if (m->name.n >= SPEC_NAME_MAX)
        return err_set(e, TUG_EUSAGE, "the name of table %u has %u bytes; %d are allowed",
                       m->table, m->name.n, SPEC_NAME_MAX - 1);
    if (!printable_check(m->name.data, m->name.n))
        return err_set(e, TUG_EUSAGE, "the name of table %u is not printable", m->table);
    if (m->name.n > 0)
        memcpy(s->name, m->name.data, m->name.n);
    s->name[m->name.n] = '\0';
    return 0;
}

static int decode_groups(struct table_spec *s, const struct msg_table *m, struct err *e)
{
    struct accessor *a = &s->accessor;
    struct wire_text list = m->groups;
    struct wire_columns c;
    int more;
    *a = (struct accessor){.count = m->count, .width = m->width};
    while ((more = wire_next_columns(&list, &c)) > 0) {
        if (a->n_groups == ACCESSOR_MAX_GROUPS)
            return err_set(e, TUG_EUSAGE, "table '%s' has more than %d groups of weights",
                           s->name, ACCESSOR_MAX_GROUPS);
        a->groups[a->n_groups++] = decode_group(&c);
        // Checked below: a sum that overflows does not agree with a row that fits.
        a->pull_width += c.n;
    }
    if (more < 0)
        return err_set(e, TUG_EUSAGE, "the groups of table '%s' are cut short", s->name);
    a->push_width = a->pull_width + (a->count != ACCESSOR_NO_COUNT ? 2 : 0);
    if (accessor_check(a, e) != 0) {
        e->code = TUG_EUSAGE;
        return err_wrap(e, "table '%s'", s->name);
    }
    return 0;
}

static int decode_inits(struct table_spec *s, const struct msg_table *m, struct err *e)
{
    struct table_options *o = &s->options;
    struct wire_text list = m->inits;
    struct wire_init x;
    int more;
    while ((more = wire_next_init(&list, &x)) > 0) {
        if (o->n_inits == TABLE_MAX_INITS)
            return err_set(e, TUG_EUSAGE,
                           "table '%s' has more than %d kinds of initial values", s->name,
                           TABLE_MAX_INITS);
        if (x.begin > m->width || x.count > m->width - x.begin || !isfinite(x.low) ||
            !isfinite(x.high) || x.low > x.high)
            return err_set(e, TUG_EUSAGE,
                           "table '%s' asks for initial values of %g to %g in %u columns "
                           "from %u on, but its rows have %u floats",
                           s->name, (double)x.low, (double)x.high, x.count, x.begin,
                           m->width);
        o->inits[o->n_inits++] = (struct table_init){x.begin, x.count, x.low, x.high};
    }
    if (more < 0)
        return err_set(e, TUG_EUSAGE, "the initial values of table '%s' are cut short",
                       s->name);
    return 0;
}

// The mean of a clock's gradients is one factor of a whole row.
static bool sums_and_others(const struct accessor *a)
{
    for (uint32_t g = 1; g < a->n_groups; g++)
        if ((a->groups[g].rule.kind == RULE_SUM) != (a->groups[0].rule.kind == RULE_SUM))
            return true;
    return false;
}

static int decode_modes(struct table_spec *s, const struct msg_table *m, struct err *e)
{
    if (m->space >= WIRE_SPACES || m->mode > WIRE_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "table '%s' asks for space %u and mode %u, which this version of "
                       "tug does not know",
                       s->name, m->space, m->mode);
    if (m->mode == WIRE_SYNC && m->mean && sums_and_others(&s->accessor))
        return err_set(
            e, TUG_EUSAGE,
            "table '%s' takes the mean of a batch's gradients, but one of its groups of "
            "weights adds them: put that group into a table of its own",
            s->name);
    s->space = (enum wire_space)m->space;
    s->mode = (enum wire_mode)m->mode;
    s->staleness = m->staleness;
    s->mean = m->mean != 0;
    return 0;
}

static int decode_config(struct table_spec *ret, const struct msg_table *m, struct err *e)
{
    struct table_config c = table_config_defaults();
    char text[WIRE_TEXT_MAX + 1];
    for (uint32_t i = 0; i < m->config.n; i++)
        if (m->config.data[i] == '\0')
            return err_set(e, TUG_EUSAGE, "the configuration of table %u is not a text",
                           m->table);
    memcpy(text, m->config.data, m->config.n);
    text[m->config.n] = '\0';
    int rc = table_config_parse(&c, text, e);
    if (rc == 0)
        rc = spec_of_config(ret, m->table, &c, e);
    if (rc == 0)
        return 0;
    if (rc != TUG_ENOMEM)
        e->code = TUG_EUSAGE; // whoever found it: it is what the asker says
    return err_wrap(e, "table %u (%.*s)", m->table, CONFIG_NAME_MAX, c.name);
}

// What a store is told of a table by groups.
static void set_config(struct table_spec *s)
{
    static const enum config_place places[] = {[WIRE_SPACE_SPARSE] = CONFIG_HASH,
                                               [WIRE_SPACE_RANGE] = CONFIG_RANGE,
                                               [WIRE_SPACE_DENSE] = CONFIG_DENSE};
    s->config = table_config_defaults();
    memcpy(s->config.name, s->name, sizeof(s->config.name));
    s->config.seed = s->options.seed;
    s->config.place = places[s->space];
    s->config.deltas = false;
}

int spec_decode(struct table_spec *ret, const struct msg_table *m,
                uint32_t partition_bits, struct err *e)
{
    struct err why;
    struct err *at = e != NULL ? e : &why;
    *ret = (struct table_spec){.id = m->table};
    if (m->config.n > 0)
        return decode_config(ret, m, at);
    if (m->table >= SPEC_MAX_TABLES)
        return err_set(at, TUG_EUSAGE, "table %u: numbers of tables are below %d",
                       m->table, SPEC_MAX_TABLES);
    TRY(decode_name(ret, m, at));
    TRY(decode_groups(ret, m, at));
    TRY(decode_modes(ret, m, at));
    if (m->align != 0 && (m->align < 8 || m->align > 4096 || m->align & (m->align - 1)))
        return err_set(at, TUG_EUSAGE,
                       "table '%s' wants its rows aligned to %u bytes, not to a power of "
                       "two from 8 to 4096",
                       ret->name, m->align);
    ret->options = (struct table_options){.seed = m->seed,
                                          .id = m->first,
                                          .width = m->width,
                                          .align = m->align,
                                          .partition_bits = partition_bits};
    set_config(ret);
    return decode_inits(ret, m, at);
}

static bool same_rule(const struct rule_params *a, const struct rule_params *b)
{
    return a->kind == b->kind && a->block == b->block && a->lr == b->lr &&
           a->l1 == b->l1 && a->l2 == b->l2 && a->prior == b->prior && a->n0 == b->n0 &&
           a->beta == b->beta && a->beta1 == b->beta1 && a->beta2 == b->beta2;
}

static const char *accessor_difference(const struct accessor *a, const struct accessor *b)
{
    if (a->width != b->width)
        return "width";
    if (a->n_groups != b->n_groups || a->count != b->count)
        return "layout of the row";
    for (uint32_t i = 0; i < a->n_groups; i++) {
        const struct accessor_group *x = &a->groups[i], *y = &b->groups[i];
        if (x->weights != y->weights || x->n != y->n || x->state != y->state ||
            x->n_state != y->n_state || x->decays_by_squares != y->decays_by_squares)
            return "layout of the row";
        if (!same_rule(&x->rule, &y->rule))
            return "update rule";
    }
    return NULL;
}

// The setting that the line at *text gives, if it is one; *text goes on to the next line.
static const struct table_setting *next_setting(const char **text, const char **ret_line,
                                                size_t *ret_n)
{
    size_t n_settings, n = strcspn(*text, "\n"), name = strcspn(*text, " =\n");
    const struct table_setting *all = table_settings(&n_settings), *found = NULL;
    for (size_t i = 0; i < n_settings; i++)
        if (strlen(all[i].name) == name && memcmp(all[i].name, *text, name) == 0)
            found = &all[i];
    *ret_line = *text;
    *ret_n = n;
    *text += n + ((*text)[n] == '\n');
    return found;
}

static bool has_line(const char *text, const char *line, size_t n)
{
    for (size_t m; *text != '\0'; text += m + (text[m] == '\n')) {
        m = strcspn(text, "\n");
        if (m == n && memcmp(text, line, n) == 0)
            return true;
    }
    return false;
}

// A setting in `text` that `other` has not, or has otherwise.
static const char *other_setting(const char *text, const char *other)
{
    while (*text != '\0') {
        const char *line;
        size_t n;
        const struct table_setting *s = next_setting(&text, &line, &n);
        if (!has_line(other, line, n))
            return s != NULL ? s->name : "configuration";
    }
    return NULL;
}

static const char *config_difference(const struct table_config *a,
                                     const struct table_config *b)
{
    struct buf x = BUF_INIT(WIRE_TEXT_MAX + 1), y = BUF_INIT(WIRE_TEXT_MAX + 1);
    const char *found = "configuration", *p = NULL, *q = NULL;
    if (table_config_print(a, &x) == 0 && table_config_print(b, &y) == 0) {
        p = buf_str(&x);
        q = buf_str(&y);
    }
    if (p != NULL && q != NULL)
        found = other_setting(p, q);
    if (p != NULL && q != NULL && found == NULL)
        found = other_setting(q, p);
    buf_free(&x);
    buf_free(&y);
    return found;
}

const char *spec_difference(const struct table_spec *a, const struct table_spec *b)
{
    if (a->by_config != b->by_config)
        return "kind: one is by configuration";
    if (a->by_config)
        return config_difference(&a->config, &b->config);
    const struct table_options *x = &a->options, *y = &b->options;
    if (strcmp(a->name, b->name) != 0)
        return "name";
    if (a->space != b->space)
        return "placement";
    if (a->mode != b->mode || (a->mode == WIRE_SSP && a->staleness != b->staleness) ||
        (a->mode == WIRE_SYNC && a->mean != b->mean))
        return "mode";
    if (x->seed != y->seed || x->id != y->id || x->n_inits != y->n_inits)
        return "first values";
    for (uint32_t i = 0; i < x->n_inits; i++)
        if (x->inits[i].begin != y->inits[i].begin ||
            x->inits[i].count != y->inits[i].count ||
            x->inits[i].low != y->inits[i].low || x->inits[i].high != y->inits[i].high)
            return "first values";
    if (x->align != y->align)
        return "alignment";
    return accessor_difference(&a->accessor, &b->accessor);
}

bool spec_same(const struct table_spec *a, const struct table_spec *b)
{
    return a->id == b->id && spec_difference(a, b) == NULL;
}
