// Addresses and ports of this machine; see route.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/route.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int route_resolve(const char *host, int type, struct addrinfo **ret, struct err *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = type};
    int failed = getaddrinfo(host, "9", &hints, ret);
    if (failed != 0)
        return err_set(e, TUG_EIO, "the host '%.200s' cannot be found: %s", host,
                       gai_strerror(failed));
    return 0;
}

// Gets this machine's address for a destination: connecting a datagram socket chooses its
// own address without sending anything.
static int own_address(const struct addrinfo *to, char ret[ROUTE_ADDRESS_MAX])
{
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    int s = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    int rc = connect(s, to->ai_addr, to->ai_addrlen);
    if (rc == 0)
        rc = getsockname(s, (struct sockaddr *)&own, &len);
    close(s);
    if (rc == 0)
        rc = getnameinfo((struct sockaddr *)&own, len, ret, ROUTE_ADDRESS_MAX, NULL, 0,
                         NI_NUMERICHOST);
    return rc == 0 ? 0 : -1;
}

int route_address(const char *to, char ret[ROUTE_ADDRESS_MAX], struct err *e)
{
    struct addrinfo *all;
    TRY(route_resolve(to, SOCK_DGRAM, &all, e));
    int rc = -1;
    for (struct addrinfo *a = all; a != NULL && rc != 0; a = a->ai_next)
        rc = own_address(a, ret);
    freeaddrinfo(all);
    if (rc != 0)
        return err_sys(
            e, TUG_EIO,
            "the host '%.200s' cannot be reached from here: there is no route to it", to);
    return 0;
}

static bool is_bridge(const char *name)
{
    static const char *const bridges[] = {"docker", "br-", "virbr", "veth", "cni",
                                          "podman", "lxc", "lxd",   "vnet", "flannel"};
    for (size_t i = 0; i < sizeof(bridges) / sizeof(*bridges); i++)
        if (strncmp(name, bridges[i], strlen(bridges[i])) == 0)
            return true;
    return false;
}

// Gets the address of the first interface that is up and is not loopback or a bridge.
// Returns false if there is none.
static bool first_interface(int family, char ret[ROUTE_ADDRESS_MAX])
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family ||
            (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0 ||
            is_bridge(i->ifa_name))
            continue;
        socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in)
                                          : sizeof(struct sockaddr_in6);
        found = getnameinfo(i->ifa_addr, len, ret, ROUTE_ADDRESS_MAX, NULL, 0,
                            NI_NUMERICHOST) == 0 &&
                // other machines cannot use link-local addresses
                strchr(ret, '%') == NULL;
    }
    freeifaddrs(all);
    return found;
}

bool route_own(bool six, char ret[ROUTE_ADDRESS_MAX])
{
    // These addresses are reserved for documentation, so the default route leads to them;
    // nothing is sent.
    struct err e;
    if (route_address(six ? "2001:db8::1" : "192.0.2.1", ret, &e) == 0 &&
        strchr(ret, '%') == NULL)
        return true;
    return first_interface(six ? AF_INET6 : AF_INET, ret);
}

int route_split(const char *address, char *ret_host, size_t cap, uint16_t *ret_port,
                struct err *e)
{
    // if there are several addresses, uses the first TCP address
    const char *tcp = strstr(address, "tcp://");
    const char *given = tcp != NULL ? tcp + 6 : address, *host = given;
    const char *stop = host + (tcp != NULL ? strcspn(host, ",") : strlen(host));
    const char *colon = memrchr(host, ':', (size_t)(stop - host));
    char *end = NULL;
    unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    size_t n = colon != NULL ? (size_t)(colon - host) : 0;
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    bool digits = colon != NULL && colon[1] >= '0' && colon[1] <= '9' && end == stop;
    if (n == 0 || n >= cap || !digits || port > UINT16_MAX)
        return err_set(e, TUG_EUSAGE, "'%.*s' is not an address: write HOST:PORT",
                       (int)(stop - given), given);
    memcpy(ret_host, host, n);
    ret_host[n] = 0;
    *ret_port = (uint16_t)port;
    return 0;
}

// Binds a new socket to a free port of the address, and sets *ret to the port. Returns
// the socket, or -1.
static int bind_any(const struct addrinfo *a, uint16_t *ret)
{
    int on = 1;
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_storage any;
    memcpy(&any, a->ai_addr, a->ai_addrlen);
    if (any.ss_family == AF_INET)
        ((struct sockaddr_in *)&any)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&any)->sin6_port = 0;
    int rc = bind(s, (struct sockaddr *)&any, a->ai_addrlen);
    if (rc == 0)
        rc = getsockname(s, (struct sockaddr *)&own, &len);
    if (rc != 0) {
        close(s);
        return -1;
    }
    *ret = ntohs(own.ss_family == AF_INET ? ((struct sockaddr_in *)&own)->sin_port
                                          : ((struct sockaddr_in6 *)&own)->sin6_port);
    return s;
}

int route_hold_port(const char *host, uint16_t *ret, int *ret_held, struct err *e)
{
    struct addrinfo *all;
    TRY(route_resolve(host, SOCK_STREAM, &all, e));
    *ret_held = bind_any(all, ret);
    freeaddrinfo(all);
    if (*ret_held < 0)
        return err_sys(e, TUG_EIO, "no port of '%.200s' is free", host);
    return 0;
}

int route_interface(const char *name, char *ret, size_t cap, struct err *e)
{
    struct ifaddrs *all;
    bool exists = false;
    if (getifaddrs(&all) != 0)
        return err_sys(e, TUG_EIO, "cannot list the network interfaces");
    ret[0] = 0;
    const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < 2 && ret[0] == 0; f++) {
        for (struct ifaddrs *i = all; i != NULL && ret[0] == 0; i = i->ifa_next) {
            if (i->ifa_addr == NULL || strcmp(i->ifa_name, name) != 0)
                continue;
            exists = true;
            if (i->ifa_addr->sa_family != families[f])
                continue;
            socklen_t len = families[f] == AF_INET ? sizeof(struct sockaddr_in)
                                                   : sizeof(struct sockaddr_in6);
            char host[NI_MAXHOST];
            if (getnameinfo(i->ifa_addr, len, host, sizeof(host), NULL, 0,
                            NI_NUMERICHOST) == 0 &&
                strchr(host, '%') == NULL)
                snprintf(ret, cap, families[f] == AF_INET ? "%s" : "[%s]", host);
        }
    }
    freeifaddrs(all);
    if (ret[0] != 0)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   exists ? "'%.64s' has no address"
                          : "there is no network interface '%.64s'",
                   name);
}

bool route_is_own(const char *host)
{
    struct addrinfo *all;
    uint16_t port;
    bool own = false;
    if (route_resolve(host, SOCK_STREAM, &all, NULL) != 0)
        return false;
    for (struct addrinfo *a = all; a != NULL && !own; a = a->ai_next) {
        int s = bind_any(a, &port); // only an address of this machine can be bound
        own = s >= 0;
        if (own)
            close(s);
    }
    freeaddrinfo(all);
    return own;
}
