// Settings of tables: one table drives parsing, printing, checking and help.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/config.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"
#include "options/problems.h"
#include "rule/rule.h"
#include "store/config_internal.h"

enum { VALUE_MAX = 2048, TEXT_MAX = 1 << 20 };

#define AT(field) .offset = offsetof(struct table_config, field)
#define LIFE(field) .of = SETTING_OF_LIFE, AT(accessor.life.field)
#define USUAL_RULE "adagrad-shared:low=-10,high=10"

static const struct table_setting settings[] = {
    {"name", "NAME", "table", "name of the table and of its files", .kind = &setting_name,
     AT(name)},
    {"accessor", "ACCESSOR", "plain", "layout and lifecycle of rows",
     .kind = &setting_accessor, .first = true, AT(accessor)},
    {"dim", "N", "8",
     "floats or counters of a row, or of its embedx if it has one; 0: no embedx",
     .kind = &setting_whole32, AT(accessor.dim)},
    {"rule", "RULE", USUAL_RULE,
     "update rule of the row, or of embed; adagrad's steps suit features of any "
     "frequency",
     .kind = &setting_rule, AT(accessor.rule)},
    {"embedx-rule", "RULE", USUAL_RULE, "update rule of embedx", .of = SETTING_OF_EMBEDX,
     .kind = &setting_rule, AT(accessor.extra)},
    {"embed", "N", "1", "features: weights of a row beside embedx",
     .of = SETTING_OF_FEATURES, .kind = &setting_whole32, AT(accessor.embed)},
    {"by-squares", "yes|no", "no",
     "features: an update of embedx decays by the mean square of the row's values",
     .of = SETTING_OF_FEATURES, .kind = &setting_flag, AT(accessor.by_squares)},
    {"embedx-random", "N", "0",
     "features: number of floats of embedx that begin with random values (0: all of "
     "them); "
     "the others begin with 0",
     .of = SETTING_OF_FEATURES, .kind = &setting_whole32, AT(accessor.random)},
    {"rate", "SCHEDULE", "constant",
     "schedule of both rules' rates by the table's global step", .kind = &setting_rate,
     AT(rate)},
    {"entry", "POLICY", "none",
     "which keys get a row: none (no condition), count:N, probability:P, bloom:N, "
     "sketch:N, show-click:S",
     .kind = &setting_entry, AT(entry)},
    {"count-passes", "first|all", "first",
     "passes over the data whose examples count for entry, shows, clicks, scores",
     .kind = &setting_passes, AT(count_all)},
    {"init", "X|LOW..HIGH", "0",
     "initial weights of the row, or of embed: uniform, X means -X..X; 0 is right for a "
     "linear weight",
     .kind = &setting_init, AT(init_low)},
    {"embedx-init", "X|LOW..HIGH", "0.0001",
     "initial weights of embedx: small, but not 0, because gradients of products vanish "
     "there",
     .of = SETTING_OF_EMBEDX, .kind = &setting_init, AT(extra_low)},
    {"seed", "N", "0",
     "seed of initial weights and hashes: the same seed gives the same rows",
     .kind = &setting_seed, AT(seed)},
    {"placement", "hash|range|dense", "hash",
     "how keys are placed on servers: by hash, by range (so that ranges can be pulled), "
     "or as blocks of arrays",
     .kind = &setting_place, AT(place)},
    {"mode", "async|ssp:S|sync", "async",
     "pushes that a pull sees; async: those applied so far; ssp: at least all pushes "
     "that are more than S clocks old; sync: all pushes of earlier clocks",
     .kind = &setting_mode, AT(mode)},
    {"reduce", "sum|mean", "sum",
     "whether workers' gradients of a clock (sync) are added or averaged",
     .kind = &setting_reduce, AT(mean)},
    {"sums-from", "KEY", "0",
     "pushes to this key and to greater keys are added to the rows without the rule "
     "(for statistics); 0: no such keys",
     .kind = &setting_whole, AT(sums_from)},
    {"deltas", "yes|no", "no",
     "record which rows change, for delta saves; yes by default if rows count pushes",
     .kind = &setting_flag, AT(deltas)},
    {"nonclick", "X", "0.1", "amount that a show without a click adds to the score",
     .kind = &setting_number, LIFE(nonclick)},
    {"click", "X", "1", "amount that a click adds to the score", .kind = &setting_number,
     LIFE(click)},
    {"embedx-threshold", "SCORE", "10",
     "score at which embedx is created, because rare features cannot train one; 0: with "
     "the row",
     .kind = &setting_number, LIFE(embedx_threshold)},
    {"base-threshold", "SCORE", "1.5",
     "lowest score of the rows that a base or delta includes", .kind = &setting_number,
     LIFE(base_threshold)},
    {"delta-threshold", "SCORE", "0.25",
     "smallest change of score after which a delta includes the row again",
     .kind = &setting_number, LIFE(delta_threshold)},
    {"delta-keep-days", "DAYS", "16",
     "a base or delta leaves out rows without a push in more days",
     .kind = &setting_number, LIFE(delta_keep_days)},
    {"decay", "X", "0.98",
     "factor of shows and clicks at each shrink; daily shrinks halve them in five weeks",
     .kind = &setting_number, LIFE(decay)},
    {"delete-threshold", "SCORE", "0.8", "score below which a shrink removes a row",
     .kind = &setting_number, LIFE(delete_threshold)},
    {"delete-after-days", "DAYS", "30",
     "a shrink removes rows without a push in more days", .kind = &setting_number,
     LIFE(delete_after_days)},
    {"cold-after-days", "DAYS", "1",
     "rows without a push in more days go to disk, if there is a cold tier",
     .kind = &setting_number, LIFE(cold_after_days)},
    {"show-scale", "yes|no", "yes",
     "divide gradients by the shows of the push, so that a step follows their mean",
     .kind = &setting_flag, LIFE(show_scale)},
    {"embedx-late", "yes|no", "no",
     "create the embedding after the push that earns it, so that this push does not "
     "train it; Paddle's accessors do this (yes by default under their names)",
     .kind = &setting_flag, LIFE(embedx_late)},
    {"ttl-steps", "N", "0",
     "a shrink removes rows without a push for N global steps; 0: never",
     .kind = &setting_whole, LIFE(ttl_steps)},
    {"budget-rows", "N", "0",
     "number of rows that the whole table may have; rows with the lowest scores are "
     "removed; 0: no limit",
     .kind = &setting_whole, AT(budget_rows), .of = SETTING_OF_LIFE},
    {"budget-floor", "X", "0.9",
     "share of the budget that stays after rows were removed; with a smaller share rows "
     "are "
     "removed less often and more at a time",
     .kind = &setting_number, AT(budget_floor), .of = SETTING_OF_LIFE},
    {"hot-rows", "N", "0",
     "number of rows that stay in memory; the other rows go to disk (cold); 0: "
     "cold-after-days decides",
     .kind = &setting_whole, AT(hot_rows)},
    {"cold", "DIR", "",
     "directory of the cold tier, for tables larger than memory, below the servers' "
     "--cold-root; by default there is no cold tier",
     .kind = &setting_path, AT(cold)},
    {"cold-durable", "yes|no", "no",
     "use the cold tier again after a restart; no: it is a scratch copy",
     .kind = &setting_flag, AT(cold_durable)},
    {"replicas", "N", "0",
     "number of servers that have a row, on a cluster with --replicas; 0: as many as "
     "--replicas says; 1: only the primary, and the run ends if a server that leads "
     "partitions dies",
     .kind = &setting_whole32, AT(replicas)},
};
enum { N_SETTINGS = sizeof(settings) / sizeof(*settings) };

const struct table_setting *table_settings(size_t *ret_n)
{
    *ret_n = N_SETTINGS;
    return settings;
}

struct table_config table_config_defaults(void)
{
    struct table_config c = {.accessor.life = life_defaults()};
    for (size_t i = 0; i < N_SETTINGS; i++) {
        int rc = table_config_set(&c, settings[i].name, settings[i].fallback, NULL);
        assert(rc == 0);
        (void)rc;
    }
    return c;
}

// Paddle's names of settings that have another name here.
static const struct {
    const char *theirs, *use;
} paddle[] = {
    {"accessor-class", "use 'accessor'"},
    {"embedx-dim", "use 'dim'"},
    {"fea-dim", "use 'dim', the number of embedx weights"},
    {"nonclk-coeff", "use 'nonclick'"},
    {"click-coeff", "use 'click'"},
    {"show-click-decay-rate", "use 'decay'"},
    {"delete-after-unseen-days", "use 'delete-after-days'"},
    {"ssd-unseenday-threshold", "use 'cold-after-days'"},
    {"optimizer", "use 'rule', and 'embedx-rule'"},
    {"learning-rate", "give it to the rule: 'rule = adagrad-shared:lr=0.05'"},
    {"initial-g2sum", "give it to the rule: 'rule = adagrad-shared:g0=3'"},
    {"weight-bounds", "give them to the rule: 'rule = adagrad-shared:low=-10,high=10'"},
    {"initial-range", "use 'init', and 'embedx-init'"},
    {"table-class", "there is one kind of table: 'accessor' says what a row holds, "
                    "and 'cold' keeps rows on disk"},
    {"shard-num", "rows are spread over all servers by their keys' hash"},
    {"compress-in-save", "the request for a save says whether it is compressed: --zstd"},
};

// Returns the hint for a name of Paddle's, or NULL. In Paddle's fleet_desc_configs these
// names begin with sparse_.
static const char *use_for(const char *name)
{
    if (strncmp(name, "sparse-", 7) == 0)
        name += 7;
    for (size_t i = 0; i < sizeof(paddle) / sizeof(*paddle); i++)
        if (strcmp(name, paddle[i].theirs) == 0)
            return paddle[i].use;
    return NULL;
}

static int config_unknown(const char *name, struct err *e)
{
    const char *use = use_for(name);
    if (use != NULL)
        return err_set(e, TUG_EUSAGE, "a table has no setting '%.64s'; %s", name, use);
    char words[N_SETTINGS * 24], near[OPTION_NAME_MAX];
    size_t n = 0;
    for (size_t i = 0; i < N_SETTINGS; i++)
        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s ", settings[i].name);
    words[n - 1] = '\0';
    options_nearest(name, words, near);
    if (*near)
        return err_set(e, TUG_EUSAGE,
                       "a table has no setting '%.64s'; did you mean '%s'?", name, near);
    return err_set(e, TUG_EUSAGE, "a table has no setting '%.64s'; its settings are %s",
                   name, words);
}

static const struct table_setting *config_find(const char *name, struct err *e)
{
    char hyphens[OPTION_NAME_MAX];
    snprintf(hyphens, sizeof(hyphens), "%.63s", name); // cuts only names that are longer
                                                       // than any known name
    for (char *at = hyphens; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (strcmp(settings[i].name, hyphens) == 0)
            return &settings[i];
    config_unknown(hyphens, e);
    return NULL;
}

// Copies the text without the blanks around it to `ret`, and returns `ret`; NULL if the
// text is longer than any value.
static const char *trim(const char *text, size_t n, char ret[VALUE_MAX])
{
    while (n > 0 && isspace((unsigned char)*text)) {
        text++;
        n--;
    }
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    if (n >= VALUE_MAX)
        return NULL;
    memcpy(ret, text, n);
    ret[n] = '\0';
    return ret;
}

static void *config_place_of(struct table_config *c, const struct table_setting *s)
{
    return (char *)c + s->offset;
}

int table_config_set(struct table_config *c, const char *name, const char *value,
                     struct err *e)
{
    const struct table_setting *s = config_find(name, e);
    struct table_config changed = *c;
    char copy[VALUE_MAX];
    struct err why;
    if (s == NULL)
        return TUG_EUSAGE;
    if (trim(value, strlen(value), copy) == NULL)
        return err_set(e, TUG_EUSAGE, "%s: a value of %zu characters is too long",
                       s->name, strlen(value));
    int rc = s->kind->set(&changed, config_place_of(&changed, s), copy, &why);
    if (rc == 0)
        rc = life_check(&changed.accessor.life, &why);
    if (rc != 0)
        return err_set(e, rc, "%s: %.960s", s->name, why.text);
    *c = changed;
    return 0;
}

struct parser {
    struct table_config config;
    uint32_t line;
    uint32_t set_in[N_SETTINGS]; // line in which each setting was set; 0: not set yet
    struct problems problems;
};

// Parses one "name = value", or an empty setting. A text is parsed twice: with
// `accessors` true, only settings of accessors are set, and only their errors are
// returned; with false, all other settings.
static int parse_setting(struct parser *p, const char *text, size_t n, bool accessors,
                         struct err *e)
{
    char copy[VALUE_MAX], name[VALUE_MAX];
    if (trim(text, n, copy) == NULL)
        return accessors
                   ? 0
                   : err_set(e, TUG_EUSAGE, "a setting of %zu characters is too long", n);
    if (*copy == '\0')
        return 0;
    const char *equals = strchr(copy, '=');
    if (equals == NULL && accessors)
        return 0;
    if (equals == NULL)
        return err_set(e, TUG_EUSAGE, "'%.100s' is not NAME = VALUE", copy);
    (void)trim(copy, (size_t)(equals - copy), name);
    const struct table_setting *s = config_find(name, e);
    if (s == NULL)
        return accessors ? 0 : TUG_EUSAGE;
    if (s->first != accessors)
        return 0;
    uint32_t *set_in = &p->set_in[s - settings];
    if (*set_in != 0)
        return err_set(e, TUG_EUSAGE, "%s is already set in line %u", s->name, *set_in);
    *set_in = p->line;
    return table_config_set(&p->config, s->name, equals + 1, e);
}

static int parse_line(struct parser *p, const char *line, size_t n, bool accessors,
                      struct err *e)
{
    const char *comment = memchr(line, '#', n);
    const char *end = comment != NULL ? comment : line + n;
    while (line <= end) {
        struct err why = {0}, said;
        const char *semicolon = memchr(line, ';', (size_t)(end - line));
        const char *stop = semicolon != NULL ? semicolon : end;
        int rc = parse_setting(p, line, (size_t)(stop - line), accessors, &why);
        if (rc != 0) {
            err_set(&said, rc, "line %u: %.960s", p->line, why.text);
            rc = problems_note(&p->problems, rc, &said);
        }
        if (rc != 0)
            return err_copy(e, &said);
        line = stop + 1;
    }
    return 0;
}

static int parse_lines(struct parser *p, const char *text, bool accessors, struct err *e)
{
    p->line = 1;
    while (true) {
        size_t n = strcspn(text, "\n");
        TRY(parse_line(p, text, n, accessors, e));
        if (text[n] == '\0')
            return 0;
        text += n + 1;
        p->line++;
    }
}

int table_config_parse(struct table_config *c, const char *text, struct err *e)
{
    struct parser p = {.config = *c, .problems = PROBLEMS_INIT};
    if (strnlen(text, TEXT_MAX) == TEXT_MAX)
        return err_set(e, TUG_EUSAGE, "settings can have at most %d bytes", TEXT_MAX);
    int rc = parse_lines(&p, text, true, e);
    if (rc == 0)
        rc = parse_lines(&p, text, false, e);
    if (rc == 0)
        rc = problems_tell(&p.problems, e);
    problems_free(&p.problems);
    if (rc == 0)
        *c = p.config;
    return rc;
}

static int print_value(const struct table_config *c, const struct table_setting *s,
                       struct buf *to)
{
    buf_clear(to);
    TRY(s->kind->print((const char *)c + s->offset, to));
    return buf_str(to) != NULL ? 0 : TUG_ENOMEM;
}

// Prints a setting that differs from *d. Then sets it in *d, as parsing the printed text
// will do, because a setting may change the defaults of other settings.
static int print_difference(const struct table_config *c, struct table_config *d,
                            const struct table_setting *s, struct buf value[2],
                            struct buf *to)
{
    TRY(print_value(c, s, &value[0]));
    TRY(print_value(d, s, &value[1]));
    if (strcmp(value[0].data, value[1].data) == 0)
        return 0;
    TRY(table_config_set(d, s->name, value[0].data, NULL));
    return buf_printf(to, "%s = %s\n", s->name, value[0].data);
}

int table_config_print(const struct table_config *c, struct buf *to)
{
    struct table_config d = table_config_defaults();
    struct buf value[2] = {BUF_INIT(VALUE_MAX), BUF_INIT(VALUE_MAX)};
    size_t before = to->len;
    int rc = 0;
    for (size_t i = 0; i < N_SETTINGS && rc == 0; i++)
        rc = print_difference(c, &d, &settings[i], value, to);
    if (rc != 0)
        to->len = before;
    buf_free(&value[0]);
    buf_free(&value[1]);
    return rc;
}

// Sets *ret to whether the setting has its default value.
static int is_default(const struct table_config *c, const struct table_setting *s,
                      bool *ret)
{
    struct table_config d = table_config_defaults();
    struct buf value[2] = {BUF_INIT(VALUE_MAX), BUF_INIT(VALUE_MAX)};
    int rc = print_value(c, s, &value[0]);
    if (rc == 0)
        rc = print_value(&d, s, &value[1]);
    if (rc == 0)
        *ret = strcmp(value[0].data, value[1].data) == 0;
    buf_free(&value[0]);
    buf_free(&value[1]);
    return rc;
}

static bool is_of_features(const struct table_config *c)
{
    return strcmp(c->accessor.name, "features") == 0;
}

// Returns whether the setting has an effect with this accessor. `lives`: the accessor's
// rows have a lifecycle.
static bool has_effect(const struct table_config *c, const struct table_setting *s,
                       bool lives)
{
    switch (s->of) {
    case SETTING_OF_LIFE:
        return lives;
    case SETTING_OF_EMBEDX:
        return lives || is_of_features(c);
    case SETTING_OF_FEATURES:
        return is_of_features(c);
    default:
        return true;
    }
}

static int check_effects(const struct table_config *c, bool lives, struct err *e)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const struct table_setting *s = &settings[i];
        bool same = true;
        if (!has_effect(c, s, lives) && is_default(c, s, &same) != 0)
            return err_nomem(e, "settings of a table");
        if (same)
            continue;
        if (s->of == SETTING_OF_FEATURES)
            return err_set(
                e, TUG_EUSAGE,
                "%s has no effect on accessor %s; leave it out, or use features", s->name,
                c->accessor.name);
        return err_set(e, TUG_EUSAGE,
                       "rows of accessor %s do not come and go, so %s has no effect; "
                       "leave it out, or use sparse or ctr",
                       c->accessor.name, s->name);
    }
    return 0;
}

// Refuses a chosen update rule if the accessor only adds pushed values.
static int check_sums(const struct table_config *c, struct err *e)
{
    struct rule_params usual = table_config_defaults().accessor.rule;
    if (c->accessor.rule.kind == RULE_SUM || rule_same(&c->accessor.rule, &usual))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "accessor %s adds what is pushed and has no rule; leave out the rule, "
                   "or use accessor plain",
                   c->accessor.name);
}

static int check_dense(const struct table_config *c, bool fades, struct err *e)
{
    bool entry = strcmp(c->entry.policy, "none") != 0 && *c->entry.policy != '\0';
    const char *what = fades         ? "an accessor whose rows come and go"
                       : entry       ? "an entry policy"
                       : *c->cold    ? "a cold tier"
                       : c->hot_rows ? "hot-rows"
                                     : NULL;
    if (what == NULL)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "a dense table always has all of its rows, so it cannot have %s",
                   what);
}

static int check_range(const char *name, float low, float high, struct err *e)
{
    if (isfinite(low) && isfinite(high) && low <= high && isfinite(high - low))
        return 0;
    return err_set(e, TUG_EUSAGE, "%s: %g..%g is not a range", name, (double)low,
                   (double)high);
}

static int check_numbers(const struct table_config *c, struct err *e)
{
    TRY(check_range("init", c->init_low, c->init_high, e));
    TRY(check_range("embedx-init", c->extra_low, c->extra_high, e));
    if (!(c->budget_floor > 0 && c->budget_floor <= 1))
        return err_set(e, TUG_EUSAGE,
                       "budget-floor is %g; it must be above 0 and at most 1",
                       (double)c->budget_floor);
    if ((unsigned)c->place > CONFIG_DENSE || (unsigned)c->mode > CONFIG_SYNC)
        return err_set(e, TUG_EUSAGE, "the number of placement or mode is unknown");
    if (c->mean && c->mode != CONFIG_SYNC)
        return err_set(e, TUG_EUSAGE,
                       "'reduce = mean' needs 'mode = sync', because only this mode "
                       "combines the gradients of a batch before it applies them");
    if (*c->cold == '\0' && (c->hot_rows != 0 || c->cold_durable))
        return err_set(e, TUG_EUSAGE,
                       "'%s' needs a cold tier: set 'cold' to its directory",
                       c->cold_durable ? "cold-durable" : "hot-rows");
    if (*c->cold != '\0' && c->budget_rows != 0)
        return err_set(
            e, TUG_EUSAGE,
            "'budget-rows' and 'cold' exclude each other: a cold tier moves rows to disk "
            "instead of removing them; 'hot-rows' limits the rows in memory");
    return 0;
}

// Refuses reduce=mean if only some groups of a row's weights take gradients, because the
// mean would apply to these groups only.
static int check_mean(const struct table_config *c, const struct accessor *a,
                      struct err *e)
{
    for (uint32_t g = 1; g < a->n_groups; g++)
        if ((rule_info(a->groups[g].rule.kind)->reduce == RULE_STEP) !=
            (rule_info(a->groups[0].rule.kind)->reduce == RULE_STEP))
            return err_set(
                e, TUG_EUSAGE,
                "table '%s' takes the mean of a batch's gradients, but one of its groups "
                "of weights adds them: put that group into a table of its own",
                c->name);
    return 0;
}

static int check_sums_from(const struct table_config *c, const struct accessor *a,
                           struct err *e)
{
    if (c->sums_from == 0 ||
        (c->place == CONFIG_DENSE && a->n_groups == 1 && a->push_width == a->groups[0].n))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "sums-from needs placement dense and accessor plain: it is the number "
                   "of the first block whose pushes are added up");
}

int table_config_check(const struct table_config *c, struct err *e)
{
    struct table_config copy = *c;
    struct accessor a;
    if (strnlen(c->name, CONFIG_NAME_MAX) == CONFIG_NAME_MAX ||
        strnlen(c->cold, CONFIG_PATH_MAX) == CONFIG_PATH_MAX)
        return err_set(e, TUG_EUSAGE,
                       "the name or path of a table has no terminating zero");
    TRY(table_config_set(&copy, "name", c->name, e));
    TRY(table_config_set(&copy, "cold", c->cold, e));
    TRY(accessor_make(&a, &c->accessor, e));
    TRY(rate_check(&c->rate, e));
    TRY(entry_check(&c->entry, e));
    TRY(check_numbers(c, e));
    TRY(check_effects(c, a.class != NULL && a.class->life.score != NULL, e));
    if (c->mean)
        TRY(check_mean(c, &a, e));
    TRY(check_sums_from(c, &a, e));
    if (a.n_groups == 0 || strcmp(c->accessor.name, "merge") == 0)
        TRY(check_sums(c, e));
    bool fades = a.class != NULL && a.class->life.shrink != NULL;
    return c->place == CONFIG_DENSE ? check_dense(c, fades, e) : 0;
}
