// A node with a van of sockets, which counts its links, its messages and their bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TCP_NODE_H
#define TUG_KIT_TCP_NODE_H

#include "van/tcp.h"

struct tcp_node {
    struct van *van;
    char address[VAN_ADDRESS_MAX];
    van_link link; // the last link that opened
    int opened, closed, messages, placed;
    uint64_t body_bytes, sum;
    uint64_t last_request;
    bool echo, ordered;
    char *place; // memory for bodies
    struct err why;
};

uint64_t tcp_node_sum(const void *data, uint64_t n); // sum over the owners of a roster
// Opens the node, whose other members must be set before. `address` is NULL if it does
// not listen.
void tcp_node_open(struct tcp_node *n, const struct tcp_options *o, const char *address);
// Sends HELLO on the last link that opened.
void tcp_node_hello(struct tcp_node *n, uint64_t request);
// Polls both nodes until the counter has the value; fails after 60 s. b may be NULL.
void tcp_node_until(struct tcp_node *a, struct tcp_node *b, const int *counter,
                    int value);

#endif
