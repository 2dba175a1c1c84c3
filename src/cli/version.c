// tug version: which tug this is, and what it was built for and with.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"
#include "kernels/kernels.h"
#include "tug/tug.h"

struct version_values {
    bool json;
};

static const struct option options[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct version_values, json),
     .group = "Output",
     .help = "one JSON object"},
};

const struct option_table cli_version_options = {
    .command = "version",
    .summary = "print the version",
    .usage = "[--json]",
    .about = "'tug --version' and 'tug -V' do the same. --json also shows which vector "
             "instructions are used on this CPU.",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .family = cli_tables,
};

static int run(const void *values, const struct options *o, struct err *e)
{
    (void)o, (void)e;
    const struct version_values *v = values;
    if (v->json)
        printf("{\"version\":\"%s\",\"kernels\":\"%s\"}\n", tug_version(),
               kernels_get()->name);
    else
        printf("tug %s\n", tug_version());
    return 0;
}

const struct cli_command cli_version = {
    .options = &cli_version_options,
    .values_size = sizeof(struct version_values),
    .run = run,
};
