// The format of a command's messages (--log-format), and the signal after which its log
// file is opened again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LOG_OPTIONS_H
#define TUG_CLI_LOG_OPTIONS_H

#include "options/options.h"

// Sets the format given by the words or the environment before the options are checked,
// so that errors about the options already have this format. Words after "--" are
// ignored.
void log_options_expect(const struct option_table *t, int argc, char *const *argv);
// Sets the format of the parsed options, if one of them gives it.
void log_options_apply(const struct option_table *t, const struct options *o);

// Replaces the handler of SIGHUP, which so far was `end`, while the process has a log
// file: a signal from another process opens the file again, and the signal of a closed
// terminal still calls `end`. A process that ignores SIGHUP (nohup) continues to ignore
// it.
void log_options_catch(void (*end)(int number));

#endif
