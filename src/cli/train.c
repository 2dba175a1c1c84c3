// tug train: options become a configuration, the run happens, its result is
// printed. With a role in the environment (ps-lite's or Paddle's variables) it is
// that role of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/node_options.h"
#include "cli/roles.h"
#include "cli/train_output.h"

static int run_alone(struct train_setup *s, struct err *e)
{
    struct train_result *result = mem_zalloc(sizeof(*result));
    if (result == NULL)
        return err_nomem(e, "the result");
    int rc = train_setup_run(s, result, e);
    if (rc == 0)
        rc = train_print(s, result, 0, 0, e);
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

static int train_command(const void *values, const struct options *o, struct err *e)
{
    struct train_setup s = {.interrupted = &node_interrupted};
    struct role role;
    TRY(node_role(&role, WIRE_NOBODY, e));
    if (role.scheme != ROLE_NONE)
        return role_of_environment(&role, values, o, e);
    TRY(train_configure(&s, values, o, NULL, e));
    TRY(train_open_log(values, o, NULL, e));
    node_catch_signals();
    int rc = s.folds > 0 ? run_cv(&s, e) : run_alone(&s, e);
    train_setup_close(&s);
    return rc;
}

const struct cli_command cli_train = {&cli_train_options, sizeof(struct train_options),
                                      .run = train_command};
