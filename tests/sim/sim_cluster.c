// sim_cluster: runs simulated clusters, one a seed.
//
//     sim_cluster --seeds 100000             from seed 1 on; ends at the first failure
//     sim_cluster --seeds 1000 --from 5000
//     sim_cluster --seed 4711 --trace        one seed again, with every event
//     sim_cluster --bug without-epoch-check  with shards that do something wrongly
//
// Exit status 0: all held; 1: a seed failed, its number is the last line; 2: usage.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/world.h"

static bool number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool bug(const char *text, enum world_bug *ret)
{
    for (int i = 0; i < BUGS; i++)
        if (strcmp(text, world_bug_name((enum world_bug)i)) == 0) {
            *ret = (enum world_bug)i;
            return true;
        }
    return false;
}

static int usage(const char *argv0)
{
    fprintf(stderr,
            "usage: %s [--seeds N] [--from M] [--seed S] [--trace] [--bug NAME]\n",
            argv0);
    return 2;
}

static void report(const struct world_counts *c, uint64_t seeds, double seconds)
{
    printf(
        "%llu seeds in %.1f s, %.0f an hour: %llu pushes, %llu pulls, %llu moves, "
        "%llu deaths, %llu pushes repeated for the dead, %llu messages sent again, "
        "%llu refused, %llu late workers, %llu schedulers started again, %llu frames of "
        "strangers, %llu events\n",
        (unsigned long long)seeds, seconds, (double)seeds / seconds * 3600,
        (unsigned long long)c->pushes, (unsigned long long)c->pulls,
        (unsigned long long)c->moves, (unsigned long long)c->deaths,
        (unsigned long long)c->repeated, (unsigned long long)c->resent,
        (unsigned long long)c->refused, (unsigned long long)c->late,
        (unsigned long long)c->restarts, (unsigned long long)c->strange,
        (unsigned long long)c->events);
}

int main(int argc, char **argv)
{
    struct world_options o = {0};
    struct world_counts counts = {0};
    struct err e = {0};
    uint64_t seeds = 1000, from = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;
        if (strcmp(argv[i], "--trace") == 0)
            o.trace = true;
        else if (strcmp(argv[i], "--seeds") == 0)
            good = number(value, &seeds) && ++i > 0;
        else if (strcmp(argv[i], "--from") == 0)
            good = number(value, &from) && ++i > 0;
        else if (strcmp(argv[i], "--seed") == 0)
            good = number(value, &from) && (seeds = 1) && ++i > 0;
        else if (strcmp(argv[i], "--bug") == 0)
            good = bug(value, &o.bug) && ++i > 0;
        else
            good = false;
        if (!good)
            return usage(argv[0]);
    }
    double began = clock_seconds();
    for (uint64_t i = 0; i < seeds; i++) {
        o.seed = from + i;
        if (world_run(&o, &counts, &e) == 0)
            continue;
        report(&counts, i + 1, clock_seconds() - began);
        printf("%s\nagain, with every event: sim_cluster --trace%s%s --seed %llu\n",
               e.text, o.bug != BUG_NONE ? " --bug " : "",
               o.bug != BUG_NONE ? world_bug_name(o.bug) : "",
               (unsigned long long)o.seed);
        return 1;
    }
    report(&counts, seeds, clock_seconds() - began);
    return 0;
}
