// The table of flags of Paddle's first version, shared by v0.c and v0_flags.c. They have the
// forms of gflags: --name=value, --name value and, for boolean flags, --name and --noname;
// each also with one dash.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_V0_INTERNAL_H
#define TUG_CLI_V0_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

enum v0_fate {
    V0_IS, // becomes option `to`; nothing if the value is empty or one of `so`
    // No choice in tug: the value must be one of `so`, which is what tug does; else `say`
    // gives advice.
    V0_SO,
    V0_SAME,   // the option has the same name: only its form may differ, with one dash
    V0_NONE,   // has no effect
    V0_PLACE,  // the flag describes the other processes of the run
    V0_WRONG,  // refused; `say` gives advice
    V0_ENDING, // like V0_IS, but `say` is appended to the value
};

struct v0_flag {
    const char *name;
    enum v0_fate fate;
    bool is_bool;
    const char *to, *so, *say;
    // The option's value for a boolean flag that is false; NULL: not given.
    const char *no;
};

#define V0_FALSE "0 false no"

// Returns the flag of this name, or NULL.
const struct v0_flag *v0_flag(const char *name, size_t len);
// Returns the flag that a word such as --NAME=VALUE gives, or NULL. *ret_eq points behind
// the '=', or is NULL without one. *ret_no says whether the word is --noNAME.
const struct v0_flag *v0_flag_of(const char *word, const char **ret_eq, bool *ret_no);

#endif
