// The line about a process or cluster, as the files verdict*.c write it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_VERDICT_INTERNAL_H
#define TUG_MONITOR_VERDICT_INTERNAL_H

#include "monitor/render_internal.h"

// The problems found so far, or the sentence that describes a process or
// cluster without problems.
enum { VERDICT_DISKS = 32 };
struct verdict {
    const json_t *facts;
    char *text;
    unsigned problems;
    const json_t *disks[VERDICT_DISKS]; // those that were reported as nearly full
    size_t n_disks;
    unsigned looks; // number of workers looked up in the earlier facts so far
};

// Appends a sentence, behind a semicolon if the text has one already.
void verdict_add(char text[RENDER_TEXT_MAX], const char *fmt, ...) PRINTF_LIKE(2, 3);

#define PROBLEM(v, ...) ((v)->problems++, verdict_add((v)->text, __VA_ARGS__))

// Reports what is wrong with the run of the facts.
void verdict_judge_run(struct verdict *v);
// Reports that the last save of a run or loop failed. `who` names its process.
void verdict_judge_saves(struct verdict *v, const json_t *of, const char *who);

#endif
