// Words for numbers of things in messages: "1 pass", "2 passes".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PLURAL_H
#define TUG_BASE_PLURAL_H

// Returns the ending of the word for n things: "row%s", "pass%s".
#define PLURAL_S(n) ((n) == 1 ? "" : "s")
#define PLURAL_ES(n) ((n) == 1 ? "" : "es")

#endif
