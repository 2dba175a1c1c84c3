// The place of a state in etcd: the value of --state, and etcdctl's variables.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_internal.h"

#define PLAIN "etcd://"
#define SECURE "etcds://"
#define DEFAULT_PORT "2379"

bool etcd_is(const char *state)
{
    return strncmp(state, PLAIN, strlen(PLAIN)) == 0 ||
           strncmp(state, SECURE, strlen(SECURE)) == 0;
}

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

// Returns whether a host is a loopback address or "localhost". A host name that only begins
// with "127." is neither.
static bool near(const char *host, size_t n)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr four;
    if (n < sizeof(text)) {
        memcpy(text, host, n);
        text[n] = '\0';
        if (inet_pton(AF_INET, text, &four) == 1)
            return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return (n == 9 && strncmp(host, "localhost", 9) == 0) ||
           (n == 5 && strncmp(host, "[::1]", 5) == 0);
}

static int bad(struct err *e, const char *state, const char *what)
{
    return err_set(e, TUG_EUSAGE,
                   "%s: %s; the form is etcd://HOST:PORT,HOST:PORT/PREFIX, with one or "
                   "several members of etcd",
                   state, what);
}

// Returns whether the text has only characters that occur in names, addresses and ports.
static bool plain(const char *text, size_t n)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789.-_:[]";
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0' || strchr(allowed, text[i]) == NULL)
            return false;
    return n > 0;
}

static int add_endpoint(struct etcd_place *p, const struct etcd_options *o,
                        const char *text, size_t n, bool tls, struct err *e)
{
    const char *end = memrchr(text, ']', n), *from = end != NULL ? end : text;
    bool has_port = memchr(from, ':', n - (size_t)(from - text)) != NULL;
    size_t host = end != NULL ? (size_t)(end + 1 - text) : strcspn(text, ":,/");
    if (memchr(text, '@', n) != NULL)
        return bad(e, "--state", "an address has no password: set ETCDCTL_USER");
    if (!plain(text, n))
        return bad(e, o->state, "a host is missing, or has other characters");
    if (!tls && !o->insecure && !near(text, host < n ? host : n))
        return err_set(e, TUG_EUSAGE,
                       "%.*s is not a loopback address, and the state of a cluster "
                       "contains its keys: set ETCDCTL_CACERT, ETCDCTL_CERT and "
                       "ETCDCTL_KEY, or give etcds://, or --insecure",
                       (int)n, text);
    if (p->n == ETCD_ENDPOINTS)
        return bad(e, o->state, "it has more than 16 members");
    int len = snprintf(p->endpoints[p->n++], ETCD_HOST_MAX, "%s://%.*s%s",
                       tls ? "https" : "http", (int)n, text,
                       has_port ? "" : ":" DEFAULT_PORT);
    return len < ETCD_HOST_MAX ? 0 : bad(e, o->state, "a host is too long");
}

static int read_prefix(struct etcd_place *p, const struct etcd_options *o,
                       const char *text, struct err *e)
{
    while (*text == '/')
        text++;
    size_t n = strlen(text);
    int len = n > 0 ? snprintf(p->prefix, sizeof(p->prefix), "%s%s", text,
                               text[n - 1] == '/' ? "" : "/")
                    : snprintf(p->prefix, sizeof(p->prefix), "tug/%s/", o->cluster);
    return len < (int)sizeof(p->prefix) ? 0 : bad(e, o->state, "the prefix is too long");
}

static int read_user(struct etcd_place *p, struct err *e)
{
    const char *user = variable("ETCDCTL_USER"), *word = variable("ETCDCTL_PASSWORD");
    if (user == NULL)
        return 0;
    size_t n = strcspn(user, ":");
    if (word == NULL && user[n] == ':')
        word = user + n + 1;
    if (word == NULL)
        return err_set(e, TUG_EUSAGE,
                       "ETCDCTL_USER has no password: the form is NAME:PASSWORD, or set "
                       "ETCDCTL_PASSWORD, too");
    bool fits = snprintf(p->user, sizeof(p->user), "%.*s", (int)n, user) <
                    ETCD_HOST_MAX &&
                snprintf(p->password, sizeof(p->password), "%s", word) < ETCD_HOST_MAX;
    return fits ? 0 : err_set(e, TUG_EUSAGE, "ETCDCTL_USER is too long");
}

int etcd_place_read(struct etcd_place *ret, const struct etcd_options *o, struct err *e)
{
    *ret = (struct etcd_place){.tls = {variable("ETCDCTL_CACERT"),
                                       variable("ETCDCTL_CERT"),
                                       variable("ETCDCTL_KEY")}};
    bool secure = strncmp(o->state, SECURE, strlen(SECURE)) == 0;
    const char *at = o->state + strlen(secure ? SECURE : PLAIN);
    if ((ret->tls.cert == NULL) != (ret->tls.key == NULL))
        return err_set(e, TUG_EUSAGE,
                       "ETCDCTL_CERT and ETCDCTL_KEY belong together: set both or none");
    secure |= ret->tls.ca != NULL || ret->tls.cert != NULL;
    for (;;) {
        size_t n = strcspn(at, ",/");
        TRY(add_endpoint(ret, o, at, n, secure, e));
        at += n;
        if (*at != ',')
            break;
        at++;
    }
    TRY(read_prefix(ret, o, at, e));
    return read_user(ret, e);
}
