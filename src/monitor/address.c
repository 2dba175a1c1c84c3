// Listening addresses of a monitor; see address_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/address_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/disk.h"
#include "os/route.h"
#include "os/runtime_dir.h"

enum { BACKLOG = 1024, LOOPBACK_BYTE = 127 };

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 ==
               LOOPBACK_BYTE;
    return a->sa_family == AF_UNIX ||
           (a->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr));
}

// Resolves a->host and a->port; the caller frees *ret.
static int address_find(const struct monitor_address *a, struct addrinfo **ret,
                        struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char port[8];
    snprintf(port, sizeof(port), "%u", a->port);
    int rc = getaddrinfo(a->host, port, &hints, ret);
    return rc == 0 ? 0
                   : err_set(e, TUG_EUSAGE, "--http: cannot find the host '%.200s': %s",
                             a->host, gai_strerror(rc));
}

int address_read(struct monitor_address *ret, const char *text, struct err *e)
{
    struct addrinfo *found;
    *ret = (struct monitor_address){.loopback = true};
    if (strncmp(text, "unix:", 5) == 0) {
        const char *path = text + 5;
        if (*path == '\0' || strlen(path) >= sizeof(ret->path))
            return err_set(
                e, TUG_EUSAGE,
                "--http unix:PATH needs a path of 1 to %zu bytes, not '%.200s'",
                sizeof(ret->path) - 1, path);
        snprintf(ret->path, sizeof(ret->path), "%s", path);
        return 0;
    }
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || strstr(text, "//") != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--http takes HOST:PORT or unix:PATH, as 127.0.0.1:8080, not "
                       "'%.200s'",
                       text);
    if (route_split(text, ret->host, sizeof(ret->host), &ret->port, e) != 0)
        return err_wrap(e, "--http");
    TRY(address_find(ret, &found, e));
    ret->loopback = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    return 0;
}

int address_refuse(const struct monitor_address *a, const char *missing, struct err *e)
{
    return err_set(
        e, TUG_EUSAGE,
        "--http: '%.200s' is not a loopback address, so others could read the page: add "
        "%s, or listen at 127.0.0.1 or unix:PATH and reach it by ssh -L",
        a->host, missing);
}

// ---------------------------------------------------------------- listening

static int listen_unix(struct monitor_address *a, int *ret_fd, struct err *e)
{
    struct sockaddr_un s = {.sun_family = AF_UNIX};
    memcpy(s.sun_path, a->path, sizeof(a->path));
    if (runtime_socket_is_dead(a->path))
        (void)disk_remove(a->path); // the socket was left by a process that was killed
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // bind gives the path the mode that the socket has now, so no other user can connect
    // in the time before a later chmod.
    bool good = fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR) == 0 &&
                bind(fd, (const struct sockaddr *)&s, sizeof(s)) == 0;
    if (good && listen(fd, BACKLOG) == 0) {
        struct stat made = {0};
        (void)lstat(a->path, &made);
        a->device = made.st_dev;
        a->file = made.st_ino;
        snprintf(a->url, sizeof(a->url), "unix:%s", a->path);
        *ret_fd = fd;
        return 0;
    }
    int error = errno;
    if (good)
        (void)disk_remove(a->path);
    if (fd >= 0)
        close(fd);
    errno = error;
    return error == EADDRINUSE
               ? err_set(e, TUG_EIO,
                         "--http: %s exists: another process listens there, or it is a "
                         "file; choose another path",
                         a->path)
               : err_sys(e, TUG_EIO, "--http: cannot listen at unix:%s", a->path);
}

static int listen_at(const struct addrinfo *i, int *ret_fd)
{
    const int on = 1;
    int fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, i->ai_addr, i->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static uint16_t port_of(const struct sockaddr_storage *s)
{
    return ntohs(s->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)s)->sin6_port
                                          : ((const struct sockaddr_in *)s)->sin_port);
}

// Sets the error from errno, and adds what the user can do.
static int refused_to_listen(const struct monitor_address *a, struct err *e)
{
    int error = errno;
    int rc = err_sys(e, TUG_EIO, "--http: cannot listen at %s:%u", a->host, a->port);
    const char *advice =
        error == EADDRINUSE
            ? "; another process has it: choose another port, or 0 for any"
        : error == EACCES        ? "; choose a port above 1023, or 0 for any"
        : error == EADDRNOTAVAIL ? "; this machine does not have that address"
                                 : "";
    if (e != NULL)
        snprintf(e->text + strlen(e->text), sizeof(e->text) - strlen(e->text), "%s",
                 advice);
    return rc;
}

int address_listen(struct monitor_address *a, bool tls, int *ret_fd, struct err *e)
{
    struct addrinfo *found;
    struct sockaddr_storage s = {0};
    socklen_t n = sizeof(s);
    if (a->path[0] != '\0')
        return listen_unix(a, ret_fd, e);
    TRY(address_find(a, &found, e));
    // The host's name may have another address now than when address_read checked it.
    bool refused = a->loopback && !is_loopback(found->ai_addr);
    int rc = refused ? -1 : listen_at(found, ret_fd);
    freeaddrinfo(found);
    if (refused)
        return address_refuse(a, "--http-cert, --http-key and --http-token-file", e);
    if (rc != 0)
        return refused_to_listen(a, e);
    if (getsockname(*ret_fd, (struct sockaddr *)&s, &n) == 0)
        a->port = port_of(&s);
    bool six = strchr(a->host, ':') != NULL;
    snprintf(a->url, sizeof(a->url), "http%s://%s%s%s:%u/", tls ? "s" : "",
             six ? "[" : "", a->host, six ? "]" : "", a->port);
    return 0;
}

void address_leave(const struct monitor_address *a)
{
    struct stat now;
    if (a->path[0] != '\0' && lstat(a->path, &now) == 0 && S_ISSOCK(now.st_mode) &&
        now.st_dev == a->device && now.st_ino == a->file)
        (void)disk_remove(a->path);
}

// ---------------------------------------------------------------- callers

bool address_peer_is_own(int fd)
{
    struct sockaddr_storage s;
    struct ucred peer;
    socklen_t n = sizeof(s), n_peer = sizeof(peer);
    if (getsockname(fd, (struct sockaddr *)&s, &n) != 0)
        return false;
    if (s.ss_family != AF_UNIX)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_peer) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

// Returns whether `host` is a literal loopback address, or the literal address at which
// this connection arrived.
static bool is_own_literal(int fd, const char *host)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_storage s = {0};
    socklen_t n = sizeof(s);
    bool is_four = inet_pton(AF_INET, host, &four.sin_addr) == 1;
    if (!is_four && inet_pton(AF_INET6, host, &six.sin6_addr) != 1)
        return false;
    if (is_loopback(is_four ? (const struct sockaddr *)&four
                            : (const struct sockaddr *)&six))
        return true;
    if (getsockname(fd, (struct sockaddr *)&s, &n) != 0)
        return false;
    if (is_four)
        return s.ss_family == AF_INET &&
               ((const struct sockaddr_in *)&s)->sin_addr.s_addr == four.sin_addr.s_addr;
    return s.ss_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)&s)->sin6_addr,
                              &six.sin6_addr);
}

bool address_host(char ret[NI_MAXHOST], const char *host)
{
    bool bracket = host[0] == '[';
    size_t n = bracket ? strcspn(host, "]") : strcspn(host, ":");
    if (n >= NI_MAXHOST || (bracket && host[n] != ']'))
        return false;
    const char *rest = host + n + bracket;
    // A port may follow the name. Behind an SSH tunnel the port differs from the
    // monitor's own, so any port is accepted.
    if (*rest != '\0' && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")] != 0))
        return false;
    snprintf(ret, NI_MAXHOST, "%.*s", (int)(n - bracket), host + bracket);
    return true;
}

bool address_may_be_called(const struct monitor_address *a, int fd, const char *name)
{
    return strcasecmp(name, "localhost") == 0 || is_own_literal(fd, name) ||
           (a->host[0] != '\0' && strcasecmp(name, a->host) == 0);
}
