// A node with a van of sockets that counts what happens to it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TCP_NODE_H
#define TUG_KIT_TCP_NODE_H

#include "van/tcp.h"

struct tcp_node {
    struct van *van;
    char address[VAN_ADDRESS_MAX];
    van_link link; // the last one that opened
    int opened, closed, messages, placed;
    uint64_t body_bytes, sum;
    uint64_t last_request;
    bool echo, ordered;
    char *place; // where bodies are to go
    struct err why;
};

uint64_t tcp_node_sum(const void *data, uint64_t n); // of the owners of a roster
// Set the node's work before. NULL if it does not listen.
void tcp_node_open(struct tcp_node *n, const struct tcp_options *o, const char *address);
void tcp_node_hello(struct tcp_node *n, uint64_t request); // is sent
// Polls both until the counter has the value; fails after 20 s. b may be NULL.
void tcp_node_until(struct tcp_node *a, struct tcp_node *b, const int *counter,
                    int value);

#endif
