// The options that all processes of a cluster have: options for finding each other and
// for their rights.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODES_NODE_OPTIONS_H
#define TUG_CLI_NODES_NODE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/nodes/role_http.h"
#include "cluster/chains.h"
#include "cluster/node.h"
#include "options/options.h"
#include "os/file.h"
#include "os/log.h"
#include "runtime/role.h"

struct node_values {
    const char *scheduler, *cluster;
    const char *host, *interface, *advertise;
    int transport;
    uint64_t port;
    const char *ca, *cert, *key;
    bool insecure, pem_stdin;
    // A server that joins a running cluster; it finds the scheduler as tools do.
    bool join;
    const char *zone; // of a server; NULL: not given
    double spin_us, connect_timeout;
    uint64_t memory; // memory of a server in bytes; 0: not given
    double rank;     // -1: any
    int log_level, log_format;
    const char *log_file;
    struct monitor_options http;
};

#define NODE_LOG_LEVELS "error warn info debug"

// Rows of option tables, without their braces, for commands whose struct (OPTIONS_OF) has
// the values as member `node`.
#define NODE_SCHEDULER_OPTION(help)                                                      \
    "scheduler", .group = "The cluster", STRING_AT(node.scheduler, "HOST:PORT"), help

// Options of commands that ask a cluster from outside.
#define TOOL_SCHEDULER_OPTION                                                            \
    NODE_SCHEDULER_OPTION("address of the scheduler (default: that of the run of tug "   \
                          "launch on this machine)")

#define NODE_CONNECT_OPTION(seconds)                                                     \
    "connect-timeout", F64_AT(node.connect_timeout, "SECONDS", seconds, 0.1, 86400),     \
        "how long to try to reach the scheduler, at the start and when the link breaks"

// Several rows of option tables, with their braces.
#define NODE_REACH_OPTIONS(seconds)                                                      \
    {"cluster", .group = "Who may join", .fallback = "tug",                              \
     STRING_AT(node.cluster, "NAME"),                                                    \
     "name of the cluster; a process can join only a cluster with the name that it "     \
     "was given"},                                                                       \
        {"ca", STRING_AT(node.ca, "FILE"),                                               \
         "certificate of the cluster's CA (PEM); with --cert and --key all links use "   \
         "TLS. 'tug cert' makes these files"},                                           \
        {"cert", STRING_AT(node.cert, "FILE"),                                           \
         "certificate of this node, signed by the CA"},                                  \
        {"key", STRING_AT(node.key, "FILE"), "key of that certificate"},                 \
        {"insecure", FLAG_AT(node.insecure),                                             \
         "allow links off loopback without TLS: every process that reaches the ports "   \
         "can read and change everything"},                                              \
    {                                                                                    \
        NODE_CONNECT_OPTION(seconds)                                                     \
    }

#define NODE_PEM_OPTION                                                                  \
    "pem-stdin", FLAG_AT(node.pem_stdin),                                                \
        "read CA, certificate and key from standard input, as tug launch writes them"

#define NODE_HOST_OPTION(help)                                                           \
    "host", .group = "Where it listens", .env = "DMLC_NODE_HOST POD_IP",                 \
            STRING_AT(node.host, "ADDRESS"), help

#define NODE_INTERFACE_OPTION                                                            \
    "interface", .env = "DMLC_INTERFACE", STRING_AT(node.interface, "NAME"),             \
                 "use the address of this network interface"

enum { NODE_TRANSPORT_TCP, NODE_TRANSPORT_UNIX };

#define NODE_TRANSPORT_OPTION(usual, help)                                               \
    "transport", CHOICE_AT(node.transport, "tcp unix", usual), help

#define NODE_ADVERTISE_OPTION                                                            \
    "advertise", STRING_AT(node.advertise, "HOST[:PORT]"),                               \
        "address at which other processes reach this process, if it differs from the "   \
        "address of this machine: behind NAT, in a container (further loops use the "    \
        "following ports)"

#define NODE_MEMBER_HOST                                                                 \
    "address of this machine (default: loopback, or if the scheduler is on another "     \
    "machine, the address from which this machine reaches it)"

#define NODE_PORT_OPTION(names, help)                                                    \
    "port", .env = names, U64_AT(node.port, "P", "0", 0, 65535), help

#define NODE_RANK_OPTION(names)                                                          \
    "rank", .env = names, F64_AT(node.rank, "N", "-1", -1, 65535),                       \
            "rank of this process among the processes of its role, from 0, if no other " \
            "process has it; -1: any"

#define NODE_SPIN_OPTION                                                                 \
    "spin-us",                                                                           \
        .group = "How it runs", F64_AT(node.spin_us, "X", "0", 0, 1e6),                  \
        "microseconds that a loop polls before it sleeps; answers are faster if cores "  \
        "are idle, and slower otherwise"

#define NODE_LOG_LEVEL_OPTION                                                            \
    "log-level", CHOICE_AT(node.log_level, NODE_LOG_LEVELS, "info"),                     \
        "print messages of this level and of more urgent ones"

#define NODE_LOG_FORMAT_OPTION                                                           \
    "log-format", CHOICE_AT(node.log_format, LOG_FORMATS, "text"), LOG_FORMAT_HELP

#define NODE_HTTP_OPTIONS HTTP_OPTIONS(node.http)

// Options of the logs of a cluster's processes: two entries of a table of options, with
// their braces.
#define NODE_LOG_OPTIONS                                                                 \
    {NODE_LOG_FORMAT_OPTION},                                                            \
    {                                                                                    \
        "log-file", STRING_AT(node.log_file, "FILE"),                                    \
            "also append messages to this file, with their times; at SIGHUP tug opens "  \
            "the file again, for logrotate"                                              \
    }

// Options of launch and the scheduler, which wait for the other processes; their fields
// are members of the command's struct itself, not of its member `node`.
#define CLUSTER_DEAD_OPTION                                                              \
    "dead-timeout", F64_AT(dead_timeout, "SECONDS", "10", 0.5, 86400),                   \
        "time without a message after which a process counts as dead; each process "     \
        "sends a "                                                                       \
        "heartbeat every second, or at least three in this time. Servers with "          \
        "--replicas 2 or more have 0.75 s unless this option is given"

#define CLUSTER_REPLICAS_OPTION                                                          \
    "replicas", U64_AT(replicas, "R", "1", 1, CHAINS_MAX_REPLICAS),                      \
        "number of servers that hold each partition: with 2 or more, no acknowledged "   \
        "update is lost when a server dies, and the run goes on; with fewer servers "    \
        "than R, each partition is on all of them"

#define CLUSTER_GATHER_OPTION(and_then)                                                  \
    "gather-timeout", F64_AT(gather_timeout, "SECONDS", "60", 0.1, 86400),               \
        "how long to wait for all servers and workers" and_then

// The time limit for servers if --replicas is at least 2, and --dead-timeout is not given.
#define REPLICAS_DEAD_SECONDS 0.75

// Reads the role in the environment of ps-lite or Paddle, for the command of that role
// (WIRE_NOBODY: any). The scheme is ROLE_NONE if the environment gives no role.
int node_role(struct role *ret, enum wire_role command, struct err *e);

// Fills options from the role if neither the command line, nor tug's own variables, nor
// the file gives them.
void node_values_fill(struct node_values *v, const struct options *o,
                      const struct role *r);

// The node of a process, with the texts that its options point to.
struct opened_node {
    struct node node;
    struct buf pem; // keys from standard input
    struct monitor_options http;
    char host[64]; // listening address, if no option gives one
};

// Opens the node of a process. Members of a cluster listen on an address of their own and
// need the scheduler's address, unless they are the scheduler. Tools (WIRE_TOOL, which
// only look, and WIRE_OPERATOR) find the scheduler of the run that tug launch started on
// this machine.
int node_values_open(struct opened_node *ret, const struct node_values *v,
                     enum wire_role role, struct err *e);
void opened_node_close(struct opened_node *n);

// Set by the first SIGINT, SIGTERM or SIGHUP. A second signal (os/wish.h)
// ends the process at once.
extern atomic_bool node_interrupted;
void node_catch_signals(void);

#endif
