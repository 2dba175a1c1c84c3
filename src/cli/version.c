// tug version: prints the version, the platform and the libraries of this build.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"
#include "kernels/kernels.h"
#include "tug/tug.h"

struct version_values {
    bool json;
};

#define OPTIONS_OF struct version_values

static const struct option options[] = {
    {"json", .group = "Output", FLAG_AT(json), "print one JSON object"},
};

const struct option_table cli_version_options = {
    .command = "version",
    .summary = "print the version",
    .usage = "[--json]",
    .about = "'tug --version' and 'tug -V' do the same. --json also shows which vector "
             "instructions are used on this CPU.",
    CLI_OPTIONS(options),
};

static int version_command(const void *values, const struct options *o, struct err *e)
{
    (void)o, (void)e;
    const struct version_values *v = values;
    if (v->json)
        cli_printf("{\"version\":\"%s\",\"kernels\":\"%s\"}\n", tug_version(),
                   kernels_get()->name);
    else
        cli_printf("tug %s\n", tug_version());
    return 0;
}

const struct cli_command cli_version = {
    &cli_version_options, sizeof(struct version_values), .run = version_command};
