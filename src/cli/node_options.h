// The options that all processes of a cluster have in common: how they find each other
// and what they show each other.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODE_OPTIONS_H
#define TUG_CLI_NODE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "base/options.h"
#include "cluster/node.h"
#include "facade/role.h"

struct node_values {
    const char *scheduler, *cluster;
    const char *host, *interface, *advertise;
    int transport;
    uint64_t port;
    const char *ca, *cert, *key;
    bool insecure, pem_stdin;
    double spin_us, connect_timeout;
    uint64_t memory; // of a server, in all; 0: nothing was said
    double rank;     // -1: any
    int log_level;
};

#define NODE_LOG_LEVELS "error warn info debug"

// AT(field) is the place of a field; the values are the struct's `node`.
#define NODE_SCHEDULER_OPTION(scheduler_help)                                            \
    {                                                                                    \
        .name = "scheduler", .kind = OPTION_STRING, AT(node.scheduler),                  \
        .metavar = "HOST:PORT", .group = "The cluster", .help = scheduler_help           \
    }

// Of commands that ask a cluster from outside.
#define TOOL_SCHEDULER_OPTION                                                            \
    NODE_SCHEDULER_OPTION("by default that of the run that tug launch started here")

#define NODE_REACH_OPTIONS(seconds)                                                      \
    {.name = "cluster",                                                                  \
     .kind = OPTION_STRING,                                                              \
     AT(node.cluster),                                                                   \
     .fallback = "tug",                                                                  \
     .metavar = "NAME",                                                                  \
     .group = "Who may join",                                                            \
     .help = "clusters of different names never mix"},                                   \
        {.name = "ca",                                                                   \
         .kind = OPTION_STRING,                                                          \
         AT(node.ca),                                                                    \
         .metavar = "FILE",                                                              \
         .help = "certificate of the cluster's CA (PEM): with --cert and --key all "     \
                 "links use TLS; 'tug cert' makes them"},                                \
        {.name = "cert",                                                                 \
         .kind = OPTION_STRING,                                                          \
         AT(node.cert),                                                                  \
         .metavar = "FILE",                                                              \
         .help = "certificate of this node, signed by the CA"},                          \
        {.name = "key",                                                                  \
         .kind = OPTION_STRING,                                                          \
         AT(node.key),                                                                   \
         .metavar = "FILE",                                                              \
         .help = "key of that certificate"},                                             \
        {.name = "insecure",                                                             \
         .kind = OPTION_FLAG,                                                            \
         AT(node.insecure),                                                              \
         .help = "without TLS though not on loopback: whoever reaches the ports can "    \
                 "read and change everything"},                                          \
    {                                                                                    \
        .name = "connect-timeout", .kind = OPTION_F64, AT(node.connect_timeout),         \
        .fallback = seconds, .min = 0.1, .max = 86400, .metavar = "SECONDS",             \
        .help = "to reach the scheduler, at first and when the link broke"               \
    }

#define NODE_PEM_OPTION                                                                  \
    {                                                                                    \
        .name = "pem-stdin", .kind = OPTION_FLAG, AT(node.pem_stdin),                    \
        .help = "CA, certificate and key come on standard input, as tug launch hands "   \
                "them over"                                                              \
    }

#define NODE_LISTEN_OPTIONS(host_help)                                                   \
    {.name = "host",                                                                     \
     .kind = OPTION_STRING,                                                              \
     AT(node.host),                                                                      \
     .metavar = "ADDRESS",                                                               \
     .env = "DMLC_NODE_HOST POD_IP",                                                     \
     .group = "Where it listens",                                                        \
     .help = host_help},                                                                 \
    {                                                                                    \
        .name = "interface", .kind = OPTION_STRING, AT(node.interface),                  \
        .metavar = "NAME", .env = "DMLC_INTERFACE",                                      \
        .help = "the address of this network interface instead"                          \
    }

enum { NODE_TRANSPORT_TCP, NODE_TRANSPORT_UNIX };

#define NODE_TRANSPORT_OPTION(usual, transport_help)                                     \
    {                                                                                    \
        .name = "transport", .kind = OPTION_CHOICE, AT(node.transport),                  \
        .choices = "tcp unix", .fallback = usual, .help = transport_help                 \
    }

#define NODE_ADVERTISE_OPTION                                                            \
    {                                                                                    \
        .name = "advertise", .kind = OPTION_STRING, AT(node.advertise),                  \
        .metavar = "HOST[:PORT]",                                                        \
        .help = "what others are told instead, when they reach this process by another " \
                "address: behind NAT, in a container (of further loops the port counts " \
                "up)"                                                                    \
    }

#define NODE_MEMBER_HOST                                                                 \
    "address of this machine; by default loopback, or, when the scheduler is on "        \
    "another machine, the address from which that is reached"

#define NODE_PORT_OPTION(names, port_help)                                               \
    {                                                                                    \
        .name = "port", .kind = OPTION_U64, AT(node.port), .fallback = "0",              \
        .max = 65535, .metavar = "P", .env = names, .help = port_help                    \
    }

#define NODE_RANK_OPTION(names)                                                          \
    {                                                                                    \
        .name = "rank", .kind = OPTION_F64, AT(node.rank), .fallback = "-1", .min = -1,  \
        .max = 65535, .metavar = "N", .env = names,                                      \
        .help = "the rank that it would like among those of its role, from 0, if "       \
                "nobody has it; -1: any"                                                 \
    }

#define NODE_RUN_OPTIONS                                                                 \
    {.name = "spin-us",                                                                  \
     .kind = OPTION_F64,                                                                 \
     AT(node.spin_us),                                                                   \
     .fallback = "0",                                                                    \
     .max = 1e6,                                                                         \
     .metavar = "X",                                                                     \
     .group = "How it runs",                                                             \
     .help = "microseconds of looking again before sleeping: saves the time of waking "  \
             "where cores are idle, costs everybody where they are not"},                \
    {                                                                                    \
        .name = "log-level", .kind = OPTION_CHOICE, AT(node.log_level),                  \
        .choices = NODE_LOG_LEVELS, .fallback = "info",                                  \
        .help = "which messages are printed: this level and more urgent ones"            \
    }

// The role in the environment of ps-lite or Paddle, for the command of that role
// (WIRE_NOBODY: any); scheme ROLE_NONE when nothing is said there.
int node_role(struct role *ret, enum wire_role command, struct err *e);

// What the command line, tug's own variables and the file leave open is taken from the
// role.
void node_values_fill(struct node_values *v, const struct options *o,
                      const struct role *r);

// A process's node, and what it was opened with.
struct opened_node {
    struct node node;
    struct buf pem; // keys that came on standard input
    char host[64];  // where it listens, when nobody said
};

// `listens`: on an address of its own; then a scheduler must have been named, unless the
// role is the scheduler's. Tools (WIRE_TOOL, which look, and WIRE_OPERATOR) find that of
// the run that tug launch started here.
int node_values_open(struct opened_node *ret, const struct node_values *v,
                     enum wire_role role, struct err *e);
void opened_node_close(struct opened_node *n);

// SIGINT and SIGTERM set it; the second time they end the process.
extern atomic_bool node_interrupted;
void node_catch_signals(void);

#endif
