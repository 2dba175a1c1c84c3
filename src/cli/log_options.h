// The format of a command's messages (--log-format), and the signal after which its log
// file is opened again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LOG_OPTIONS_H
#define TUG_CLI_LOG_OPTIONS_H

#include "options/options.h"

// Sets the format as the words and the environment say, before they are checked, so that
// errors in them have it, too. Words behind "--" do not count.
void log_options_expect(const struct option_table *t, int argc, char *const *argv);
// Sets the format of the parsed options, if one of them gives it.
void log_options_apply(const struct option_table *t, const struct options *o);

// Replaces the handler of SIGHUP, which so far was `end`, while the process has a log
// file: a signal that somebody sends opens the file again, and the one of a terminal that
// is gone still calls `end`. A process that ignores SIGHUP (nohup) goes on to do so.
void log_options_catch(void (*end)(int number));

#endif
