// Reads the text of addresses. A wrong address is refused here, with the reason, before a
// name is looked up or a socket is opened.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/tcp_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tcp_address_bad(struct err *e, const char *text, const char *what)
{
    return err_set(e, TUG_EUSAGE,
                   "%s: %s; an address is tcp://HOST:PORT, tcp://[IPV6]:PORT or "
                   "unix:///PATH",
                   text, what);
}

static int read_unix(struct tcp_address *ret, const char *text, const char *path,
                     struct err *e)
{
    if (path[0] != '/' || path[1] == '\0')
        return tcp_address_bad(e, text, "the path of a socket must begin with /");
    if (strlen(path) >= sizeof((struct sockaddr_un){0}.sun_path))
        return err_set(
            e, TUG_EUSAGE,
            "%s: the path of a socket has at most %zu bytes; use a shorter one", text,
            sizeof((struct sockaddr_un){0}.sun_path) - 1);
    *ret = (struct tcp_address){.is_unix = true};
    memcpy(ret->host, path, strlen(path));
    return 0;
}

static int read_port(uint16_t *ret, const char *text, const char *port, struct err *e)
{
    size_t digits = strspn(port, "0123456789");
    unsigned long n = strtoul(port, NULL, 10);
    if (digits == 0 || digits > 5 || port[digits] != '\0' || n > UINT16_MAX)
        return tcp_address_bad(e, text, "the port must be a number from 0 to 65535");
    *ret = (uint16_t)n;
    return 0;
}

static int read_tcp(struct tcp_address *ret, const char *text, const char *host,
                    struct err *e)
{
    const char *end, *colon;
    if (host[0] == '[') {
        end = strchr(++host, ']');
        if (end == NULL)
            return tcp_address_bad(e, text, "it has a [ without a ]");
        colon = end + 1;
    } else {
        end = colon = strrchr(host, ':');
        if (end != NULL && memchr(host, ':', (size_t)(end - host)) != NULL)
            return tcp_address_bad(e, text, "an IPv6 address must stand in [ ]");
    }
    if (colon == NULL || *colon != ':')
        return tcp_address_bad(e, text, "the port is missing");
    if (end == host)
        return tcp_address_bad(e, text, "the host is missing");
    *ret = (struct tcp_address){0};
    memcpy(ret->host, host, (size_t)(end - host));
    return read_port(&ret->port, text, colon + 1, e);
}

int tcp_address_read(struct tcp_address *ret, const char *text, struct err *e)
{
    static const char tcp[] = "tcp://", local[] = "unix://";
    if (strlen(text) >= VAN_ADDRESS_MAX)
        return err_set(e, TUG_EUSAGE, "%.40s...: an address has at most %d bytes", text,
                       VAN_ADDRESS_MAX - 1);
    if (strncmp(text, tcp, sizeof(tcp) - 1) == 0)
        return read_tcp(ret, text, text + sizeof(tcp) - 1, e);
    if (strncmp(text, local, sizeof(local) - 1) == 0)
        return read_unix(ret, text, text + sizeof(local) - 1, e);
    return tcp_address_bad(e, text, "it is not an address");
}

int tcp_address_check(const char *list, struct err *e)
{
    struct tcp_address ignored;
    char one[VAN_ADDRESS_MAX];
    for (const char *at = list;;) {
        size_t n = strcspn(at, ",");
        snprintf(one, sizeof(one), "%.*s", (int)n, at);
        TRY(tcp_address_read(&ignored, one, e));
        if (at[n] == '\0' || at[n + 1] == '\0')
            return 0;
        at += n + 1;
    }
}

bool tcp_address_number(const struct tcp_address *a, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    if (inet_pton(AF_INET, a->host, &four->sin_addr) == 1)
        ret->ss_family = AF_INET;
    else if (inet_pton(AF_INET6, a->host, &six->sin6_addr) == 1)
        ret->ss_family = AF_INET6;
    else
        return false;
    tcp_address_set_port(ret, a->port);
    return true;
}

void tcp_address_write(char ret[VAN_ADDRESS_MAX], const char *host, uint16_t port)
{
    const char *form = strchr(host, ':') != NULL ? "tcp://[%s]:%u" : "tcp://%s:%u";
    snprintf(ret, VAN_ADDRESS_MAX, form, host, port);
}

void tcp_address_of(char ret[VAN_ADDRESS_MAX], const struct sockaddr_storage *s)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (s->ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)s)->sin_addr, host,
                  sizeof(host));
    else if (s->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)s)->sin6_addr, host,
                  sizeof(host));
    tcp_address_write(ret, host, tcp_address_port(s));
}

// Gets the IPv4 address of `s`, which may be mapped to IPv6; false if `s` has none.
static bool as_ipv4(const struct sockaddr_storage *s, uint32_t *ret)
{
    if (s->ss_family == AF_INET) {
        *ret = ntohl(((const struct sockaddr_in *)s)->sin_addr.s_addr);
        return true;
    }
    const struct in6_addr *six = &((const struct sockaddr_in6 *)s)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(six))
        return false;
    memcpy(ret, six->s6_addr + 12, sizeof(*ret));
    *ret = ntohl(*ret);
    return true;
}

bool tcp_address_is_loopback(const struct sockaddr_storage *s)
{
    uint32_t four;
    if (as_ipv4(s, &four))
        return four >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)s)->sin6_addr);
}

bool tcp_address_is_any(const struct sockaddr_storage *s)
{
    uint32_t four;
    if (as_ipv4(s, &four))
        return four == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)s)->sin6_addr);
}

bool tcp_address_same_host(const struct sockaddr_storage *a,
                           const struct sockaddr_storage *b)
{
    uint32_t x = 0, y = 0;
    bool is_x = as_ipv4(a, &x), is_y = as_ipv4(b, &y);
    if (is_x || is_y)
        return is_x && is_y && x == y;
    return IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
                              &((const struct sockaddr_in6 *)b)->sin6_addr);
}

uint16_t tcp_address_port(const struct sockaddr_storage *s)
{
    return ntohs(s->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)s)->sin6_port
                                          : ((const struct sockaddr_in *)s)->sin_port);
}

void tcp_address_set_port(struct sockaddr_storage *s, uint16_t port)
{
    if (s->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)s)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)s)->sin_port = htons(port);
}
