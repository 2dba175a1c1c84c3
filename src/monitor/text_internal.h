// Numbers of a page as texts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_TEXT_INTERNAL_H
#define TUG_MONITOR_TEXT_INTERNAL_H

enum { TEXT_MAX = 48 };

// These functions format numbers for people, NaN as "–", and return `ret`.
const char *text_count(double x, char ret[TEXT_MAX]);   // 1,234,567
const char *text_bytes(double x, char ret[TEXT_MAX]);   // 1.2 GB
const char *text_seconds(double x, char ret[TEXT_MAX]); // 340 µs, 2.1 s, 5 min, 3.2 h
const char *text_number(double x, char ret[TEXT_MAX]);  // 0.4512
const char *text_percent(double x, char ret[TEXT_MAX]); // 97.3 %

#endif
