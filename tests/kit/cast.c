// See cast.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/cast.h"

#include <dirent.h>
#include <stdio.h>

#include "base/random.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "os/file.h"

#define MS (SIM_SECOND / 1000)

// Streams of random numbers, which differ from those of the worlds.
enum { NETWORK = 0x100, SILENCES };

struct member_options sim_member(enum wire_role role, uint64_t number,
                                 const char *address)
{
    return (struct member_options){
        .cluster = 1,
        .scheduler = "sim://scheduler",
        .role = role,
        .ticket = 1000 * (uint64_t)role + number,
        .process = 2000 * (uint64_t)role + number,
        .loops = 1,
        .pid = (uint32_t)number,
        .host = "sim",
        .address = address,
        .scheduler_timeout_ns = 120 * SIM_SECOND,
        .resend_ns = SIM_SECOND / 10,
    };
}

struct scheduler_options sim_scheduler(uint32_t servers, uint32_t workers,
                                       uint32_t partition_bits)
{
    return (struct scheduler_options){
        .cluster = 1,
        .servers = servers,
        .workers = workers,
        .partition_bits = partition_bits,
        .gather_timeout_ns = 120 * SIM_SECOND,
        .dead_timeout_ns = 5 * SIM_SECOND,
        .leave_timeout_ns = 60 * SIM_SECOND,
        .session_base = 1000000,
        .host = "sim",
    };
}

// Returns the seed's rate of faults of one kind, up to `most`. One seed in `none_of` has
// no faults of this kind, because one kind of fault may hide the effect of another kind.
static double rate(uint64_t seed, uint64_t which, double most, uint64_t none_of)
{
    bool none = random_below(seed, NETWORK, 2 * which, none_of) == 0;
    return none ? 0 : most * random_f64(seed, NETWORK, 2 * which + 1);
}

bool sim_has_silences(uint64_t seed)
{
    return random_below(seed, SILENCES, 0, 2) == 0;
}

// Returns the network of the seed. If the seed has links that fall silent, single
// messages are not lost, as over TCP. Otherwise all requests for a sign of life could be
// lost, and the process would rightly be declared dead.
struct sim_options sim_network(uint64_t seed)
{
    return (struct sim_options){
        .seed = seed,
        .delay_min = MS / 20,
        .delay_max = MS / 10 + random_below(seed, NETWORK, 100, 10 * MS),
        .loss = sim_has_silences(seed) ? 0 : rate(seed, 0, 0.1, 3),
        .duplicate = rate(seed, 1, 0.1, 3),
        .reorder = rate(seed, 2, 0.2, 3),
        .breaks = rate(seed, 3, 0.02, 2),
    };
}

static void print_line(void *ctx, const char *text)
{
    (void)ctx;
    printf("%s\n", text);
}

void sim_print(struct sim *s)
{
    sim_trace(s, print_line, NULL);
}

bool sim_is_heard(const struct scheduler *s, enum wire_role role, uint64_t number)
{
    uint64_t process = sim_member(role, number, "").process;
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].process == process)
            return s->processes[i].beats;
    return false;
}

void sim_remove_saves(const char *dir)
{
    char path[FILE_PATH_MAX];
    struct dirent *entry;
    DIR *d = opendir(dir);
    while (d != NULL && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.' && file_join(path, dir, entry->d_name, NULL) == 0) {
            sim_remove_saves(path); // path may be the directory of another saver
            (void)file_remove_tree(path, NULL);
        }
    if (d != NULL)
        closedir(d);
}
