// See etcd.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/etcd.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/files.h"
#include "kit/ports.h"
#include "kit/test.h"

bool kit_etcd_is_there(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s", getenv("PATH") != NULL ? getenv("PATH") : "");
    char *rest = path;
    for (char *dir; (dir = strsep(&rest, ":")) != NULL;)
        if (access(files_path("%.200s/etcd", dir), X_OK) == 0)
            return true;
    return false;
}

void kit_etcd_or_skip(void)
{
    if (!kit_etcd_is_there())
        skip_because("etcd is not there: etcd-server");
}

static void spawn(struct kit_etcd *s, char *const *argv)
{
    extern char **environ;
    posix_spawn_file_actions_t f;
    posix_spawn_file_actions_init(&f);
    posix_spawn_file_actions_addopen(&f, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&f, 1, files_in("etcd.log"),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&f, 1, 2);
    assert_int_equal(posix_spawnp(&s->pid, argv[0], &f, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&f);
}

void kit_etcd_start(struct kit_etcd *s)
{
    char clients[64], peers[64], cluster[80], ca[512], cert[512], key[512], dir[512];
    unsigned ports[2];
    if (s->port == 0) {
        ports_free(ports, 2);
        s->port = ports[0];
        s->peer = ports[1];
    }
    assert_int_equal(s->pid, 0);
    snprintf(dir, sizeof(dir), "--data-dir=%s", files_in("etcd"));
    snprintf(clients, sizeof(clients), "%s://127.0.0.1:%u",
             s->cert != NULL ? "https" : "http", s->port);
    snprintf(peers, sizeof(peers), "http://127.0.0.1:%u", s->peer);
    snprintf(cluster, sizeof(cluster), "default=%s", peers);
    snprintf(ca, sizeof(ca), "--trusted-ca-file=%s", s->ca != NULL ? s->ca : "");
    snprintf(cert, sizeof(cert), "--cert-file=%s", s->cert != NULL ? s->cert : "");
    snprintf(key, sizeof(key), "--key-file=%s", s->key != NULL ? s->key : "");
    char *argv[] = {"etcd",
                    dir,
                    "--listen-client-urls",
                    clients,
                    "--advertise-client-urls",
                    clients,
                    "--listen-peer-urls",
                    peers,
                    "--initial-advertise-peer-urls",
                    peers,
                    "--initial-cluster",
                    cluster,
                    "--log-level=warn",
                    s->token != NULL  ? (char *)(uintptr_t)s->token
                    : s->cert != NULL ? cert
                                      : NULL,
                    key,
                    s->ca != NULL ? ca : NULL,
                    "--client-cert-auth",
                    NULL};
    spawn(s, argv);
}

void kit_etcd_signal(struct kit_etcd *s, int number)
{
    assert_true(s->pid > 0);
    assert_int_equal(kill(s->pid, number), 0);
}

void kit_etcd_kill(struct kit_etcd *s)
{
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    s->pid = 0;
}
