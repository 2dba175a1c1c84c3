// Endings of nouns in messages: "1 pass", "2 passes".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PLURAL_H
#define TUG_BASE_PLURAL_H

// Gives the ending of the noun for n things, in formats such as "row%s" and "pass%s".
#define PLURAL_S(n) ((n) == 1 ? "" : "s")
#define PLURAL_ES(n) ((n) == 1 ? "" : "es")

#endif
