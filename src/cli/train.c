// tug train: makes a configuration from the options, runs it and prints the result. If the
// environment gives it a role (by variables of ps-lite or Paddle), it runs that role of a
// cluster. With the flags of Paddle's first version, it runs a trainer in that scheme.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/nodes/node_options.h"
#include "cli/nodes/roles.h"
#include "cli/train_output.h"
#include "cli/v0.h"
#include "os/log.h"
#include "train/facts.h"

static int run_alone(struct train_setup *s, struct err *e)
{
    struct train_result *result = mem_zalloc(sizeof(*result));
    if (result == NULL)
        return err_nomem(e, "the result");
    int rc = train_setup_run(s, result, e);
    if (rc == 0)
        rc = train_print(s, result, 0, 0, e);
    else if (rc == TUG_EINTERRUPTED)
        train_report_interrupted(s, result, 0, 0, e);
    mem_free(result);
    return rc;
}

static int run_cv(struct train_setup *s, struct err *e)
{
    struct cv c = {0};
    int rc = train_cv(s, &c, e);
    if (rc == 0)
        rc = train_print_cv(s, &c, e);
    cv_free(&c);
    return rc;
}

static void tell(void *of, struct json_out *o)
{
    train_facts_put(of, "run", o);
    train_facts_put_tables(of, o);
}

static int train_here(const struct train_options *values, const struct options *o,
                      struct err *e)
{
    struct train_setup s = {.interrupted = &node_interrupted};
    struct usage *usage = NULL;
    struct role_http *http = NULL;
    struct train_facts *facts = NULL;
    const struct usage_disk disks[] = {{"saves", values->out}, {"log", values->log_dir}};
    struct monitor_options at = {.address = values->http,
                                 .cert = values->http_cert,
                                 .key = values->http_key,
                                 .token_file = values->http_token_file};
    TRY(monitor_check(&at, e));
    int rc = train_configure(&s, values, o, NULL, e);
    node_catch_signals(); // before there is a log file that could be rotated
    if (rc == 0)
        rc = train_open_log(values, o, NULL, e);
    if (rc == 0 && values->http != NULL)
        rc = usage_open(&usage, disks, sizeof(disks) / sizeof(*disks), e);
    if (rc == 0 && values->http != NULL)
        rc = train_facts_open(&facts, e);
    if (rc == 0)
        rc = role_http_process(&http, &at, "train", usage, tell, facts, e);
    s.config.facts = facts;
    if (rc == 0)
        rc = s.folds > 0 ? run_cv(&s, e) : run_alone(&s, e);
    role_http_end(http, rc, false);
    role_http_await_seen(http);
    role_http_close(http);
    train_facts_close(facts);
    usage_close(usage);
    train_setup_close(&s);
    return rc;
}

static int train_command(const void *values, const struct options *o, struct err *e)
{
    struct role role;
    TRY(node_role(&role, WIRE_NOBODY, e));
    if (role.scheme != ROLE_NONE)
        return role_of_environment(&role, values, o, e);
    return train_here(values, o, e);
}

static int train_v0(const struct v0_words *w, const struct train_options *values,
                    const struct options *o, struct err *e)
{
    struct role role;
    struct training t = {values, o};
    if (w->unused[0] != '\0')
        log_info("these flags have no effect: %s", w->unused);
    if (w->saves_once && values->save_every == NULL)
        log_info("the model is saved once, at the end; Paddle saved each pass, as "
                 "--saving_period=1 does");
    if (!w->cluster)
        return train_here(values, o, e);
    TRY(v0_role_trainer(&role, w, e));
    node_catch_signals();
    return role_trainer(&role, &t, w->node.n, w->node.at, e);
}

static int train_v0_words(int argc, char *const *argv, struct err *e)
{
    struct v0_words w;
    struct train_options values;
    struct options *o = NULL;
    int rc = v0_words_take(&w, argc, argv, e);
    if (rc == 0)
        rc = v0_words_parse(&w, &cli_train_options, &o, &values, e);
    if (rc == 0)
        rc = train_v0(&w, &values, o, e);
    rc = v0_words_explain(&w, rc, e);
    options_close(o);
    v0_words_free(&w);
    return rc;
}

const struct cli_command cli_train = {&cli_train_options, sizeof(struct train_options),
                                      .run = train_command, .takes_words = v0_given,
                                      .run_words = train_v0_words};
