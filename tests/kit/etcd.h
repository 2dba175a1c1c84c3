// A real etcd on loopback for tests, with one member: started, killed, started again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ETCD_H
#define TUG_KIT_ETCD_H

#include <stdbool.h>
#include <sys/types.h>

struct kit_etcd {
    unsigned port, peer; // ports for clients, and for other members of etcd
    // PEM files; NULL: plain HTTP. With `ca`, clients need a certificate.
    const char *ca, *cert, *key;
    const char *token; // the option --auth-token; NULL: none
    pid_t pid;         // 0: etcd does not run
};

bool kit_etcd_is_there(void); // whether etcd is installed

// Skips the test if etcd is not installed. Only a test may call it: cmocka takes a skip in a
// set-up for a failure.
void kit_etcd_or_skip(void);

// Starts etcd in the folder of the test; its data is in `etcd`, its log in `etcd.log`.
// Ports are chosen at the first start.
void kit_etcd_start(struct kit_etcd *s);
void kit_etcd_signal(struct kit_etcd *s, int number);
void kit_etcd_kill(struct kit_etcd *s); // fine if etcd does not run

#endif
