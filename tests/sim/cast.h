// Who takes part in the simulated clusters: the same options in all of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TESTS_SIM_CAST_H
#define TUG_TESTS_SIM_CAST_H

#include "cluster/member.h"
#include "cluster/scheduler.h"

#define SIM_SECOND ((uint64_t)1000000000)

static inline struct member_options sim_member(enum wire_role role, uint64_t number,
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

static inline struct scheduler_options sim_scheduler(uint32_t servers, uint32_t workers,
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

#endif
