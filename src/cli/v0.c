// Flags of Paddle's first version; see v0.h. They have the forms of gflags: --name=value,
// --name value and, for boolean flags, --name and --noname.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/v0.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "options/options.h"
#include "options/problems.h"
#include "os/route.h"

enum fate {
    IS, // becomes option `to`; has no effect if the value is empty or one of `so`
    // Tug always works as the values in `so` say; another value is refused, and `say` gives
    // advice.
    SO,
    NONE,   // has no effect
    PLACE,  // describes the other processes of the run
    WRONG,  // refused; `say` gives advice
    ENDING, // like IS, but `say` is appended to the value
};

struct flag {
    const char *name;
    enum fate fate;
    bool is_bool;
    const char *to, *so, *say;
};

#define FALSE_WORDS "0 false no"

static const struct flag flags[] = {
    {.name = "num_passes", .fate = IS, .to = "epochs"},
    {.name = "trainer_count", .fate = IS, .to = "threads"},
    {.name = "save_dir", .fate = IS, .to = "out"},
    {.name = "saving_period", .fate = IS, .to = "save-every", .so = "0"},
    {.name = "saving_period_by_batches",
     .fate = ENDING,
     .to = "save-every",
     .so = "0",
     .say = "batches"},
    {.name = "log_period", .fate = IS, .to = "log-every"},
    {.name = "dot_period", .fate = IS, .to = "dot-every"},
    {.name = "init_model_path", .fate = IS, .to = "init-from"},
    {.name = "save_only_one",
     .fate = IS,
     .is_bool = true,
     .to = "keep",
     .so = FALSE_WORDS},
    {.name = "use_gpu",
     .fate = SO,
     .is_bool = true,
     .so = FALSE_WORDS,
     .say = "models train on CPUs: --use_gpu=0"},
    {.name = "start_pass",
     .fate = SO,
     .so = "0",
     .say = "--resume continues a run from its last save, whose pass it knows"},
    {.name = "test_period",
     .fate = SO,
     .so = "0",
     .say = "--valid is scored after each pass"},
    {.name = "average_test_period",
     .fate = SO,
     .so = "0",
     .say = "with --average N the averaged model is what --valid and --test score"},
    {.name = "show_parameter_stats_period",
     .fate = SO,
     .so = "0",
     .say = "--fetch NAME,... prints parameters every --fetch-every batches"},
    {.name = "job",
     .fate = SO,
     .so = "train",
     .say =
         "'tug eval' tests a saved model, and gradients are checked by tug's own tests"},
    {.name = "load_missing_parameter_strategy",
     .fate = SO,
     .so = "rand",
     .say = "a parameter that a save lacks begins as in a new run"},
    {.name = "start_pserver",
     .fate = SO,
     .is_bool = true,
     .so = FALSE_WORDS,
     .say = "'tug pserver' runs servers, and 'tug launch' servers and workers"},
    {.name = "rdma_tcp", .fate = SO, .so = "tcp", .say = "links are TCP: --rdma_tcp=tcp"},
    {.name = "use_old_updater",
     .fate = SO,
     .is_bool = true,
     .so = FALSE_WORDS,
     .say = "--in-flight 1 waits for each push before the next pull"},
    {.name = "config_args",
     .fate = WRONG,
     .say = "give each option by itself, or by --set NAME=VALUE"},
    {.name = "comment", .fate = NONE},
    {.name = "log_period_server", .fate = NONE},
    {.name = "ports_num", .fate = NONE},
    {.name = "ports_num_for_sparse", .fate = NONE},
    {.name = "parallel_thread_num", .fate = NONE},
    {.name = "pserver_num_threads", .fate = NONE},
    {.name = "small_messages", .fate = NONE, .is_bool = true},
    {.name = "loadsave_parameters_in_pserver", .fate = NONE, .is_bool = true},
    {.name = "local", .fate = PLACE, .is_bool = true},
    {.name = "pservers", .fate = PLACE},
    {.name = "port", .fate = PLACE},
    {.name = "nics", .fate = PLACE},
    {.name = "trainer_id", .fate = PLACE},
    {.name = "num_gradient_servers", .fate = PLACE},
};

static bool named(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(word, name, len) == 0;
}

// Finds the flag that a word begins. *ret_eq points behind its '=', or is NULL; *ret_no:
// the word is --noNAME.
static const struct flag *find(const char *word, const char **ret_eq, bool *ret_no)
{
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    const char *name = word + 2, *eq = strchr(name, '=');
    size_t len = eq != NULL ? (size_t)(eq - name) : strlen(name);
    *ret_eq = eq != NULL ? eq + 1 : NULL;
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        *ret_no = false;
        if (named(name, len, flags[i].name))
            return &flags[i];
        *ret_no = true;
        if (flags[i].is_bool && eq == NULL && len > 2 && memcmp(name, "no", 2) == 0 &&
            named(name + 2, len - 2, flags[i].name))
            return &flags[i];
    }
    return NULL;
}

static bool is_end(const char *word)
{
    return strcmp(word, "--") == 0;
}

bool v0_given(int argc, char *const *argv)
{
    const char *eq;
    bool no;
    for (int i = 0; i < argc && !is_end(argv[i]); i++)
        if (find(argv[i], &eq, &no) != NULL)
            return true;
    return false;
}

// ---------------------------------------------------------------- taking them

static int make_room(struct v0_words *w, struct err *e)
{
    if (w->n < w->cap)
        return 0;
    int cap = w->cap * 2 + 16;
    char **more = mem_realloc_array(w->at, (size_t)cap, sizeof(*more));
    if (more == NULL)
        return err_nomem(e, "options");
    w->at = more;
    w->cap = cap;
    return 0;
}

static int add_word(struct v0_words *w, const char *word, struct err *e)
{
    TRY(make_room(w, e));
    w->at[w->n] = mem_strdup(word);
    if (w->at[w->n] == NULL)
        return err_nomem(e, "options");
    w->n++;
    return 0;
}

static int add_option(struct v0_words *w, const char *name, const char *value,
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

static int number(uint64_t *ret, const char *name, const char *value, uint64_t max,
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

struct place {
    bool local, local_given,
        others; // whether a flag was given that needs other processes
};

static int take_place(struct v0_words *w, struct place *p, const struct flag *f,
                      const char *value, struct err *e)
{
    if (strcmp(f->name, "local") == 0) {
        p->local_given = true;
        p->local = !among(value, FALSE_WORDS);
        return 0;
    }
    if (strcmp(f->name, "pservers") == 0) {
        p->others = true;
        return text(&w->pservers, value, e);
    }
    if (strcmp(f->name, "nics") == 0)
        return text(&w->nics, value, e);
    if (strcmp(f->name, "port") == 0)
        return number(&w->port, f->name, value, UINT16_MAX, e);
    if (strcmp(f->name, "trainer_id") == 0)
        return number(&w->trainer_id, f->name, value, ROLE_PROCESSES_MAX, e);
    return number(&w->trainers, f->name, value, ROLE_PROCESSES_MAX, e);
}

static int take_flag(struct v0_words *w, struct place *p, const struct flag *f,
                     const char *value, struct err *e)
{
    switch (f->fate) {
    case IS:
    case ENDING:
        if (value[0] == '\0' || among(value, f->so))
            return 0;
        if (w->n_used < sizeof(w->used) / sizeof(*w->used))
            w->used[w->n_used++] = f->name;
        return add_option(w, f->to, f->is_bool ? "1" : value,
                          f->fate == ENDING ? f->say : "", e);
    case SO:
        return among(value, f->so) || value[0] == '\0'
                   ? 0
                   : err_set(e, TUG_EUSAGE, "--%s=%.100s: %s", f->name, value, f->say);
    case NONE:
        note_unused(w, f->name);
        return 0;
    case PLACE:
        return take_place(w, p, f, value, e);
    case WRONG:
        break;
    }
    return err_set(e, TUG_EUSAGE, "--%s: %s", f->name, f->say);
}

// Decides whether the trainer joins a run. --local=0 makes it join; without --local=0,
// flags about other processes have no effect.
static int settle(struct v0_words *w, const struct place *p, struct err *e)
{
    w->cluster = p->local_given && !p->local;
    if (!p->local_given && p->others)
        return err_set(e, TUG_EUSAGE,
                       "--pservers: give --local=0 to join servers; without it, a "
                       "trainer trains alone");
    if (w->cluster && w->pservers == NULL)
        return text(&w->pservers, "127.0.0.1", e);
    return 0;
}

// Refuses a flag together with the option that it stands for.
static int check_both(const struct flag *f, int argc, char *const *argv, struct err *e)
{
    for (int i = 0; f->to != NULL && i < argc && !is_end(argv[i]); i++) {
        size_t n = strlen(f->to);
        if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, f->to, n) == 0 &&
            (argv[i][2 + n] == '=' || argv[i][2 + n] == '\0'))
            return err_set(e, TUG_EUSAGE, "--%s is --%s here: give one of them", f->name,
                           f->to);
    }
    return 0;
}

static int take_word(struct v0_words *ret, struct place *p, int argc, char *const *argv,
                     int *i, struct err *e)
{
    const char *value;
    bool no;
    const struct flag *f = find(argv[*i], &value, &no);
    if (f == NULL)
        return add_word(ret, argv[*i], e);
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

int v0_words_take(struct v0_words *ret, int argc, char *const *argv, struct err *e)
{
    struct place p = {.local = true};
    struct problems wrong = PROBLEMS_INIT; // reports all problems at once
    struct err why;
    int rc = 0;
    *ret = (struct v0_words){.port = V0_PORT};
    for (int i = 0; i < argc && rc == 0; i++)
        rc = problems_note(&wrong, take_word(ret, &p, argc, argv, &i, &why), &why);
    if (rc == 0)
        rc = problems_note(&wrong, settle(ret, &p, &why), &why);
    if (rc == 0)
        return problems_tell(&wrong, e);
    problems_free(&wrong);
    return err_set(e, rc, "%s", why.text);
}

void v0_words_free(struct v0_words *w)
{
    for (int i = 0; i < w->n; i++)
        mem_free(w->at[i]);
    mem_free(w->at);
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
        const char *to = NULL;
        for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++)
            if (strcmp(flags[k].name, w->used[i]) == 0)
                to = flags[k].to;
        snprintf(option, sizeof(option), "--%s", to);
        size_t n = strlen(more);
        if (strstr(e->text, option) != NULL && strstr(more, w->used[i]) == NULL)
            snprintf(more + n, sizeof(more) - n, "%s--%s is %s here", n > 0 ? ", " : " (",
                     w->used[i], option);
    }
    if (more[0] == '\0')
        return rc;
    char said[ERR_TEXT_MAX];
    snprintf(said, sizeof(said), "%s", e->text);
    return err_set(e, rc, "%s%s)", said, more);
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
    return err_set(e, TUG_EUSAGE, "--pservers=%.200s does not name %s%.100s", list,
                   own != NULL ? "" : "an address of this machine",
                   own != NULL ? own : "");
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
