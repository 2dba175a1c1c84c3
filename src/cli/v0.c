// Flags of Paddle's first version on command lines; see v0.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/v0.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/log_options.h"
#include "cli/v0_internal.h"
#include "options/options.h"
#include "os/route.h"

static bool is_end(const char *word)
{
    return strcmp(word, "--") == 0;
}

static bool one_dash(const char *word)
{
    return word[0] == '-' && word[1] != '-';
}

bool v0_given(int argc, char *const *argv)
{
    const char *eq;
    bool no;
    for (int i = 0; i < argc && !is_end(argv[i]); i++) {
        const struct v0_flag *f = v0_flag_of(argv[i], &eq, &no);
        if (f != NULL && (f->fate != V0_SAME || one_dash(argv[i])))
            return true;
    }
    return false;
}

// ------------------------------------------------- translating the words of a command

static int v0_make_room(struct v0_list *w, struct err *e)
{
    return mem_room(&w->at, &w->cap, (size_t)w->n + 1) == 0 ? 0 : err_nomem(e, "options");
}

static int add_word(struct v0_list *w, const char *word, struct err *e)
{
    TRY(v0_make_room(w, e));
    w->at[w->n] = mem_strdup(word);
    if (w->at[w->n] == NULL)
        return err_nomem(e, "options");
    w->n++;
    return 0;
}

static int add_option(struct v0_list *w, const char *name, const char *value,
                      const char *ending, struct err *e)
{
    struct buf b = BUF_INIT(1 << 20);
    int rc = buf_printf(&b, "--%s=%s%s", name, value, ending);
    const char *word = rc == 0 ? buf_str(&b) : NULL;
    rc = word != NULL ? add_word(w, word, e) : err_nomem(e, "options");
    buf_free(&b);
    return rc;
}

static bool among(const char *value, const char *words)
{
    size_t n = strlen(value);
    for (const char *at = words; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (len == n && memcmp(at, value, n) == 0)
            return true;
        at += len + strspn(at + len, " ");
    }
    return false;
}

static void note_unused(struct v0_words *w, const char *name)
{
    size_t n = strlen(w->unused);
    snprintf(w->unused + n, sizeof(w->unused) - n, "%s--%s", n > 0 ? ", " : "", name);
}

static int v0_number(uint64_t *ret, const char *name, const char *value, uint64_t max,
                     struct err *e)
{
    char *end;
    *ret = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && *ret <= max)
        return 0;
    return err_set(e, TUG_EUSAGE, "--%s: '%.100s' is not a whole number from 0 to %llu",
                   name, value, (unsigned long long)max);
}

static int text(char **ret, const char *value, struct err *e)
{
    mem_free(*ret);
    *ret = mem_strdup(value);
    return *ret != NULL ? 0 : err_nomem(e, "options");
}

struct taking {
    bool server; // the command is `tug pserver`
    // `others`: a flag that needs other processes was given.
    bool local, local_given, others;
    // `saves`: save_dir was given; `saves_when`: a flag said when to save.
    bool saves, saves_when;
    const char *link; // the first option about links; NULL: none
};

static int take_place(struct v0_words *w, struct taking *p, const struct v0_flag *f,
                      const char *value, struct err *e)
{
    if (strcmp(f->name, "local") == 0) {
        p->local_given = true;
        p->local = !among(value, V0_FALSE);
        return 0;
    }
    if (strcmp(f->name, "pservers") == 0) {
        p->others = true;
        return text(&w->pservers, value, e);
    }
    if (strcmp(f->name, "nics") == 0)
        return text(&w->nics, value, e);
    if (strcmp(f->name, "port") == 0)
        return v0_number(&w->port, f->name, value, UINT16_MAX, e);
    if (strcmp(f->name, "trainer_id") == 0)
        return v0_number(&w->trainer_id, f->name, value, ROLE_PROCESSES_MAX, e);
    return v0_number(&w->trainers, f->name, value, ROLE_PROCESSES_MAX, e);
}

static int take_option(struct v0_words *w, const struct v0_flag *f, const char *value,
                       struct err *e)
{
    if (value[0] == '\0' || among(value, f->so))
        return 0;
    if (f->is_bool)
        value = among(value, V0_FALSE) ? f->no : "1";
    if (w->n_used < sizeof(w->used) / sizeof(*w->used))
        w->used[w->n_used++] = f->name;
    return add_option(&w->own, f->to, value, f->fate == V0_ENDING ? f->say : "", e);
}

static int take_flag(struct v0_words *w, struct taking *p, const struct v0_flag *f,
                     const char *value, struct err *e)
{
    bool idle = p->server && f->fate != V0_SO && f->fate != V0_WRONG;
    switch (idle ? V0_NONE : f->fate) {
    case V0_IS:
    case V0_ENDING:
        p->saves |= strcmp(f->to, "out") == 0;
        p->saves_when |= strcmp(f->to, "save-every") == 0;
        return take_option(w, f, value, e);
    case V0_SAME:
        return add_option(&w->own, f->name, value, "", e);
    case V0_SO:
        return among(value, f->so) || value[0] == '\0'
                   ? 0
                   : err_set(e, TUG_EUSAGE, "--%s=%.100s is not supported: %s", f->name,
                             value, f->say);
    case V0_NONE:
        note_unused(w, f->name);
        return 0;
    case V0_PLACE:
        return take_place(w, p, f, value, e);
    case V0_WRONG:
        break;
    }
    return err_set(e, TUG_EUSAGE, "--%s: %s", f->name, f->say);
}

// --local=0 makes the trainer join a run; without it, flags about other processes have no
// effect.
static int settle(struct v0_words *w, const struct taking *p, struct err *e)
{
    w->cluster = p->local_given && !p->local;
    w->saves_once = p->saves && !p->saves_when;
    for (int i = 0; i < w->own.n; i++)
        w->saves_once &= strncmp(w->own.at[i], "--save-every", 12) != 0;
    if (!p->local_given && p->others)
        return err_set(e, TUG_EUSAGE,
                       "--pservers: give --local=0 to join servers; without it, a "
                       "trainer trains alone");
    if (!w->cluster && p->link != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--%.100s: a trainer alone has no links: give --local=0, too",
                       p->link);
    if (w->cluster && w->pservers == NULL)
        return text(&w->pservers, "127.0.0.1", e);
    return 0;
}

// Refuses a flag together with the option of the same meaning.
static int check_both(const struct v0_flag *f, int argc, char *const *argv, struct err *e)
{
    for (int i = 0; f->to != NULL && i < argc && !is_end(argv[i]); i++) {
        size_t n = strlen(f->to);
        if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, f->to, n) == 0 &&
            (argv[i][2 + n] == '=' || argv[i][2 + n] == '\0'))
            return err_set(e, TUG_EUSAGE,
                           "--%s means the same as --%s: give only one of them", f->name,
                           f->to);
    }
    return 0;
}

// Returns the option in the table that a word such as --NAME=VALUE gives, or NULL.
static const struct option *option_of(const struct option_table *t, const char *word)
{
    size_t dashes = strspn(word, "-");
    if (dashes < 1 || dashes > 2)
        return NULL;
    size_t len = strcspn(word + dashes, "=");
    for (size_t i = 0; i < t->n_options; i++)
        if (strlen(t->options[i].name) == len &&
            memcmp(t->options[i].name, word + dashes, len) == 0)
            return &t->options[i];
    return NULL;
}

// Returns the option about links that a word of a trainer gives, or NULL if it gives
// none. (Other flags say which process of the run the trainer is.)
static const struct option *link_option(const char *word)
{
    const struct option *o = option_of(&cli_worker_options, word);
    if (o == NULL || option_of(&cli_train_options, word) != NULL ||
        strncmp(word, "--", 2) != 0 || among(o->name, "scheduler rank pem-stdin"))
        return NULL;
    return o;
}

// Copies an option, and its value too if the value is the next word.
static int take_link_option(struct v0_list *to, const struct option *o, int argc,
                            char *const *argv, int *i, struct err *e)
{
    TRY(add_word(to, argv[*i], e));
    bool apart = o->kind != OPTION_FLAG && strchr(argv[*i], '=') == NULL;
    return apart && *i + 1 < argc ? add_word(to, argv[++*i], e) : 0;
}

// Adds a word that is not one of Paddle's own flags. Options with one dash are accepted,
// as gflags does.
static int take_other(struct v0_words *ret, struct taking *p, int argc, char *const *argv,
                      int *i, struct err *e)
{
    const struct option *link = p->server ? NULL : link_option(argv[*i]);
    if (link != NULL) {
        p->link = link->name;
        return take_link_option(&ret->node, link, argc, argv, i, e);
    }
    bool own = p->server && option_of(&cli_pserver_options, argv[*i]) != NULL;
    if (own && one_dash(argv[*i])) {
        char word[512];
        int n = snprintf(word, sizeof(word), "-%s", argv[*i]);
        if (n > 0 && (size_t)n < sizeof(word))
            return add_word(&ret->own, word, e);
    }
    return add_word(&ret->own, argv[*i], e);
}

static int take_word(struct v0_words *ret, struct taking *p, int argc, char *const *argv,
                     int *i, struct err *e)
{
    const char *value;
    bool no;
    const struct v0_flag *f = v0_flag_of(argv[*i], &value, &no);
    if (f == NULL || (p->server && option_of(&cli_pserver_options, argv[*i]) != NULL) ||
        (f->fate == V0_SAME && !p->server && !one_dash(argv[*i])))
        return take_other(ret, p, argc, argv, i, e);
    if (no)
        value = "0";
    else if (value == NULL && f->is_bool)
        value = "1";
    else if (value == NULL && *i + 1 < argc && strncmp(argv[*i + 1], "--", 2) != 0)
        value = argv[++*i];
    else if (value == NULL)
        return err_set(e, TUG_EUSAGE, "--%s needs a value", f->name);
    TRY(check_both(f, argc, argv, e));
    return take_flag(ret, p, f, value, e);
}

static int v0_take(struct v0_words *ret, struct taking *p, int argc, char *const *argv,
                   struct err *e)
{
    struct err why;
    int rc = 0;
    *ret = (struct v0_words){.port = V0_PORT, .wrong = PROBLEMS_INIT};
    for (int i = 0; i < argc && rc == 0; i++)
        rc = problems_note(&ret->wrong, take_word(ret, p, argc, argv, &i, &why), &why);
    if (rc == 0 && !p->server)
        rc = problems_note(&ret->wrong, settle(ret, p, &why), &why);
    return rc == 0 ? 0 : err_copy(e, &why);
}

int v0_words_take(struct v0_words *ret, int argc, char *const *argv, struct err *e)
{
    return v0_take(ret, &(struct taking){.local = true}, argc, argv, e);
}

int v0_words_take_server(struct v0_words *ret, int argc, char *const *argv, struct err *e)
{
    return v0_take(ret, &(struct taking){.server = true}, argc, argv, e);
}

int v0_words_parse(struct v0_words *w, const struct option_table *table,
                   struct options **ret, void *values, struct err *e)
{
    TRY(options_parse_after(ret, table, w->own.n, w->own.at, values, 0, &w->wrong, e));
    log_options_apply(table, *ret);
    return 0;
}

static void free_list(struct v0_list *l)
{
    for (int i = 0; i < l->n; i++)
        mem_free(l->at[i]);
    mem_free(l->at);
}

void v0_words_free(struct v0_words *w)
{
    free_list(&w->own);
    free_list(&w->node);
    problems_free(&w->wrong);
    mem_free(w->pservers);
    mem_free(w->nics);
    *w = (struct v0_words){0};
}

int v0_words_explain(const struct v0_words *w, int rc, struct err *e)
{
    char option[OPTION_NAME_MAX + 2], more[512] = "";
    if (rc != TUG_EUSAGE || e == NULL)
        return rc;
    for (size_t i = 0; i < w->n_used; i++) {
        const char *to = v0_flag(w->used[i], strlen(w->used[i]))->to;
        snprintf(option, sizeof(option), "--%s", to);
        size_t n = strlen(more);
        if (strstr(e->text, option) != NULL && strstr(more, w->used[i]) == NULL)
            snprintf(more + n, sizeof(more) - n, "%s--%s is %s here", n > 0 ? ", " : " (",
                     w->used[i], option);
    }
    if (more[0] == '\0')
        return rc;
    err_add(e, "%s)", more);
    return rc;
}

// ---------------------------------------------------------------- roles

// Copies host i of a list to ret; returns false if the list is shorter.
static bool host_at(const char *list, uint32_t i, char ret[ROLE_TEXT_MAX])
{
    for (; list != NULL && i > 0; i--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    if (list == NULL || *list == '\0' || *list == ',')
        return false;
    snprintf(ret, ROLE_TEXT_MAX, "%.*s", (int)strcspn(list, ","), list);
    return true;
}

static uint32_t hosts(const char *list)
{
    char host[ROLE_TEXT_MAX];
    uint32_t n = 0;
    while (host_at(list, n, host))
        n++;
    return n;
}

static int set_scheduler(struct role *r, const char *host, uint64_t port, struct err *e)
{
    bool bare_v6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(r->scheduler, sizeof(r->scheduler), bare_v6 ? "[%s]:%u" : "%s:%u",
                     host, (unsigned)port);
    if (n > 0 && (size_t)n < sizeof(r->scheduler))
        return 0;
    return err_set(e, TUG_EUSAGE, "--pservers: the host '%.100s...' is too long", host);
}

static int one_interface(struct role *r, const char *nics, struct err *e)
{
    if (nics == NULL || nics[0] == '\0')
        return 0;
    if (strchr(nics, ',') != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--nics=%.100s: a process listens on one network interface: name "
                       "one, and give the number of loops by --ports_num",
                       nics);
    snprintf(r->interface, sizeof(r->interface), "%s", nics);
    return 0;
}

int v0_role_trainer(struct role *ret, const struct v0_words *w, struct err *e)
{
    char first[ROLE_TEXT_MAX];
    *ret = (struct role){
        .scheme = ROLE_PADDLE,
        .role = WIRE_WORKER,
        .servers = hosts(w->pservers),
        .workers = (uint32_t)w->trainers,
        .has_rank = true,
        .rank = (uint32_t)w->trainer_id,
    };
    if (!host_at(w->pservers, 0, first))
        return err_set(e, TUG_EUSAGE, "--pservers names no host");
    if (w->trainers > 0 && w->trainer_id >= w->trainers)
        return err_set(e, TUG_EUSAGE,
                       "--trainer_id=%llu: trainers count from 0, and there are "
                       "--num_gradient_servers=%llu",
                       (unsigned long long)w->trainer_id,
                       (unsigned long long)w->trainers);
    TRY(one_interface(ret, w->nics, e));
    return set_scheduler(ret, first, w->port, e);
}

// Finds the index of this machine in the list.
static int find_own(struct role *r, const char *list, const char *own, struct err *e)
{
    char host[ROLE_TEXT_MAX];
    for (uint32_t i = 0; host_at(list, i, host); i++) {
        if (own != NULL ? strcmp(host, own) != 0 : !route_is_own(host))
            continue;
        if (r->has_rank)
            return err_set(e, TUG_EUSAGE,
                           "--pservers=%.200s names several addresses of this machine: "
                           "give --host to choose the one of this server",
                           list);
        r->has_rank = true;
        r->rank = i;
        snprintf(r->host, sizeof(r->host), "%s", host);
    }
    if (r->has_rank)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--pservers=%.200s does not name %s%.100s: give the address of this "
                   "server by --host, as the list names it",
                   list, own != NULL ? "" : "an address of this machine",
                   own != NULL ? own : "");
}

// Refuses a list with several loopback addresses, because a network interface cannot tell
// these servers apart.
static int check_loopback(const char *list, const char *own, struct err *e)
{
    char host[ROLE_TEXT_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; host_at(list, i, host); i++)
        n += strncmp(host, "127.", 4) == 0;
    if (n <= 1 || strncmp(own, "127.", 4) != 0)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--pservers=%.200s names several addresses of this machine, which "
                   "--nics cannot tell apart: give --host instead to choose the one of "
                   "this server",
                   list);
}

int v0_role_server(struct role *ret, const char *pservers, const char *host,
                   const char *nics, uint16_t port, struct err *e)
{
    char of_nics[ROLE_TEXT_MAX], first[ROLE_TEXT_MAX];
    *ret = (struct role){.scheme = ROLE_PADDLE, .role = WIRE_SERVER, .servers = 1};
    TRY(one_interface(ret, nics, e));
    if (host == NULL && ret->interface[0] != '\0') {
        if (route_interface(nics, of_nics, sizeof(of_nics), e) != 0)
            return err_wrap(e, "--nics");
        host = of_nics;
        TRY(check_loopback(pservers, host, e));
    }
    if (pservers == NULL) {
        ret->hosts_scheduler = ret->has_rank = true;
        snprintf(ret->host, sizeof(ret->host), "%s", host != NULL ? host : "127.0.0.1");
        return set_scheduler(ret, ret->host, port, e);
    }
    ret->servers = hosts(pservers);
    TRY(find_own(ret, pservers, host, e));
    ret->hosts_scheduler = ret->rank == 0;
    // the first server's port is the scheduler's
    ret->port = ret->hosts_scheduler ? 0 : port;
    (void)host_at(pservers, 0, first);
    return set_scheduler(ret, first, port, e);
}
