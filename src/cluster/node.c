// A node's process: addresses of interfaces, ids of the process, and vans. See node.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "cluster/heartbeat.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/route.h"
#include "os/runtime_dir.h"
#include "van/tcp.h"
#include "van/tcp_address.h"
#include "van/tls.h"

enum { SCHEDULER_TIMEOUT_SECONDS = 60 };

uint64_t node_cluster(const char *name)
{
    // the seed keeps the hash of "" from being 0
    return hash_bytes(name, strlen(name), 0x7475672d636c7573);
}

int node_address(const char *text, char ret[VAN_ADDRESS_MAX], struct err *e)
{
    size_t len = 0;
    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");
        bool has_kind = memmem(at, n, "://", 3) != NULL;
        int more = snprintf(ret + len, VAN_ADDRESS_MAX - len, "%s%s%.*s",
                            at == text ? "" : ",", has_kind ? "" : "tcp://", (int)n, at);
        if (more < 0 || (size_t)more >= VAN_ADDRESS_MAX - len)
            return err_set(e, TUG_EUSAGE,
                           "the address '%.100s...' is too long: it may have %d bytes",
                           text, VAN_ADDRESS_MAX - 1);
        len += (size_t)more;
        if (at[n] == '\0')
            return 0;
        at += n + 1;
    }
}

static int find_bind(struct node *n, struct err *e)
{
    const struct node_options *o = &n->options;
    if (o->interface != NULL)
        return route_interface(o->interface, n->bind, sizeof(n->bind), e) == 0
                   ? 0
                   : err_wrap(e, "--interface");
    const char *host = o->host != NULL ? o->host : "127.0.0.1";
    bool bare_v6 = strchr(host, ':') != NULL && host[0] != '[' &&
                   strstr(host, "://") == NULL;
    int len = snprintf(n->bind, sizeof(n->bind), bare_v6 ? "[%s]" : "%s", host);
    if (len < 0 || (size_t)len >= sizeof(n->bind))
        return err_set(e, TUG_EUSAGE, "--host: the name is too long");
    return 0;
}

static int load_keys(struct node *n, struct err *e)
{
    const struct node_options *o = &n->options;
    if (o->pem != NULL)
        return tls_open_text(&n->tls, o->pem, strlen(o->pem), e);
    if (o->ca == NULL && o->cert == NULL && o->key == NULL)
        return 0;
    if (o->ca == NULL || o->cert == NULL || o->key == NULL)
        return err_set(e, TUG_EUSAGE,
                       "TLS needs three files: --ca, --cert and --key; 'tug cert' makes "
                       "them");
    return tls_open(&n->tls, o->ca, o->cert, o->key, e);
}

// Returns the port of "tcp://HOST:PORT" in a list of addresses, or of the name of a
// socket that ends with "@PORT.sock"; 0 if the list has neither.
static uint16_t port_of(const char *address)
{
    const char *tcp = strstr(address, "tcp://"), *at = strrchr(address, '@');
    const char *port = at != NULL ? at + 1 : "";
    if (tcp != NULL)
        for (const char *c = tcp; *c != 0 && *c != ','; c++)
            port = *c == ':' ? c + 1 : port;
    unsigned long n = strtoul(port, NULL, 10);
    return n <= UINT16_MAX ? (uint16_t)n : 0;
}

// Finds the token for a link with this role. A token from the options serves all
// links. The user's file is read again for each link, because the scheduler may
// have been started again.
static int find_token(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES],
                      struct err *e)
{
    const struct node *n = ctx;
    struct token t = n->token;
    if (t.role == WIRE_NOBODY)
        TRY(token_find(&t, n->name, port_of(n->scheduler), e));
    if (token_lower(&t, *role))
        *role = t.role;
    else if (wire_right(t.role) < wire_right(*role))
        *role = t.role; // the token gives fewer rights than the role, so the link gets
                        // the token's role
    else
        return err_nomem(e, "a token");
    memcpy(ret, t.key, MAC_BYTES);
    explicit_bzero(&t, sizeof(t));
    return 0;
}

static bool find_random(void *ctx, uint8_t ret[MAC_BYTES])
{
    (void)ctx;
    return mac_random(ret);
}

int node_random(uint8_t ret[32], struct err *e)
{
    if (mac_random(ret))
        return 0;
    return err_set(e, TUG_EIO, "the system provides no random numbers");
}

static int load_token(struct node *n, struct err *e)
{
    const struct node_options *o = &n->options;
    const char *text = o->token != NULL ? o->token : getenv("TUG_TOKEN");
    n->prover = (struct prover){
        .role = o->role != WIRE_NOBODY ? o->role : WIRE_OPERATOR,
        .insecure = o->insecure,
        .token = find_token,
        .random = find_random,
        .ctx = n,
    };
    if (text == NULL || text[0] == 0)
        return 0;
    int rc = token_read(&n->token, text, e);
    return rc == 0 ? 0 : err_wrap(e, o->token != NULL ? "the token" : "TUG_TOKEN");
}

int node_make_token(struct node *n, struct err *e)
{
    if (n->tls != NULL || n->options.insecure)
        return 0;
    if (n->token.role == WIRE_NOBODY)
        return token_make(&n->token, e);
    if (n->token.role != WIRE_OPERATOR)
        return err_set(e, TUG_EUSAGE,
                       "the scheduler needs the token of an operator, but that of the "
                       "role %s was given",
                       wire_role_name(n->token.role));
    return 0;
}

int node_leave_token(struct node *n, const char *address, struct err *e)
{
    uint16_t port = port_of(address);
    if (n->token.role == WIRE_NOBODY || port == 0)
        return 0;
    return token_leave(n->token_file, &n->token_lock, &n->token, n->name, port, e);
}

void node_take_token(struct node *n)
{
    token_remove(n->token_file, n->token_lock, &n->token);
    n->token_file[0] = 0;
}

// Keeps the cluster's name, because links are opened long after node_open, and the token
// of this cluster is read for each link.
static int take_name(struct node *n, const char *name, struct err *e)
{
    n->options.cluster = NULL;
    n->cluster = node_cluster(name);
    int len = snprintf(n->name, sizeof(n->name), "%s", name);
    return len >= 0 && len < NODE_CLUSTER_MAX
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "--cluster: the name has %zu bytes, but can have %d at most",
                         strlen(name), NODE_CLUSTER_MAX - 1);
}

int node_open(struct node *n, const struct node_options *o, struct err *e)
{
    *n = (struct node){.options = *o};
    n->generation = &n->newest;
    budget_open(&n->budget, budget_of(o->memory, NULL));
    TRY(take_name(n, o->cluster != NULL ? o->cluster : "tug", e));
    if (getrandom(&n->process, sizeof(n->process), 0) != sizeof(n->process))
        return err_sys(e, TUG_EIO, "the system provides no random numbers");
    if (gethostname(n->host, sizeof(n->host) - 1) != 0)
        snprintf(n->host, sizeof(n->host), "?");
    if (o->scheduler != NULL) {
        TRY(node_address(o->scheduler, n->scheduler, e));
        // reports a bad address now rather than at the first attempt to connect
        TRY(tcp_address_check(n->scheduler, e));
    }
    n->sockets = o->sockets || strstr(n->scheduler, "unix://") != NULL;
    TRY(find_bind(n, e));
    TRY(load_token(n, e));
    return load_keys(n, e);
}

void node_close(struct node *n)
{
    node_heartbeat_end(n);
    tls_close(n->tls);
    node_take_token(n);
    explicit_bzero(&n->token, sizeof(n->token));
    *n = (struct node){0};
}

int node_van(struct node *n, struct van **ret, const struct van_handler *h, bool spins,
             struct err *e)
{
    struct tcp_options o = {
        .tls = n->tls,
        .insecure = n->options.insecure,
        .prover = &n->prover,
        .budget = &n->budget,
        .spin_ns = spins ? (uint64_t)(n->options.spin_us * 1000) : 0,
    };
    return tcp_van_open(ret, &o, h, e);
}

// Removes sockets that killed processes have left behind. Schedulers do this when they
// start.
static void sweep(const char *unix_address)
{
    char dir[VAN_ADDRESS_MAX];
    snprintf(dir, sizeof(dir), "%s", unix_address + strlen("unix://"));
    *strrchr(dir, '/') = 0;
    runtime_dir_sweep(dir);
}

int node_socket(char ret[VAN_ADDRESS_MAX], const char *cluster, uint16_t scheduler,
                uint16_t port, struct err *e)
{
    char dir[FILE_PATH_MAX], name[16] = "";
    TRY(runtime_dir_make(dir, e));
    if (port != scheduler)
        snprintf(name, sizeof(name), "-%u", port);
    size_t room = sizeof((struct sockaddr_un){0}.sun_path);
    if (strlen(dir) + strlen(cluster) + strlen(name) + sizeof("/@65535.sock") > room)
        return err_set(e, TUG_EUSAGE,
                       "the path of a socket in %s would have more than %zu bytes", dir,
                       room - 1);
    snprintf(ret, VAN_ADDRESS_MAX, "unix://%.100s/%.100s@%u%s.sock", dir, cluster,
             scheduler, name);
    return 0;
}

// Listens on a Unix socket in addition to TCP. A node that cannot have a socket uses TCP
// only.
static void listen_beside(const struct node *n, struct van *v,
                          char address[VAN_ADDRESS_MAX])
{
    char unix_address[VAN_ADDRESS_MAX], both[2 * VAN_ADDRESS_MAX];
    struct err e = {0};
    uint16_t own = port_of(address);
    uint16_t scheduler = n->scheduler[0] != 0 ? port_of(n->scheduler) : own;
    int rc = node_socket(unix_address, n->name, scheduler, own, &e);
    if (rc == 0 && own == scheduler)
        sweep(unix_address);
    if (rc == 0)
        rc = van_listen(v, unix_address, unix_address, &e);
    if (rc != 0) {
        log_warn("%s is reached by TCP only: %s", address, e.text);
        return;
    }
    int len = snprintf(both, sizeof(both), "%s,%s", unix_address, address);
    if (len < VAN_ADDRESS_MAX)
        memcpy(address, both, (size_t)len + 1);
}

// Returns whether the node listens on all addresses of the machine.
static bool binds_all(const struct node *n)
{
    return strcmp(n->bind, "0.0.0.0") == 0 || strcmp(n->bind, "[::]") == 0;
}

static int node_tell_address(char address[VAN_ADDRESS_MAX], const char *host,
                             uint32_t port, struct err *e)
{
    bool bare_v6 = strchr(host, ':') != NULL && host[0] != '[';
    int len = snprintf(address, VAN_ADDRESS_MAX,
                       bare_v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);
    if (len >= 0 && len < VAN_ADDRESS_MAX)
        return 0;
    return err_set(e, TUG_EUSAGE, "--advertise: the name is too long");
}

// Returns whether the text can be the name or address of a host.
static bool is_host(const char *text)
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789.-_";
    struct in6_addr six;
    size_t n = strlen(text);
    return inet_pton(AF_INET6, text, &six) == 1 ||
           (n > 0 && strspn(text, signs) == n && text[0] != '-' && text[0] != '.');
}

// Splits the value of --advertise. *ret_port is 0 if it has no port.
static int advertised(const char *told, char ret_host[VAN_ADDRESS_MAX],
                      uint16_t *ret_port, struct err *e)
{
    struct in6_addr six;
    size_t n = strlen(told);
    bool bracketed = n > 2 && told[0] == '[' && told[n - 1] == ']';
    *ret_port = 0;
    if (inet_pton(AF_INET6, told, &six) == 1 ||
        route_split(told, ret_host, VAN_ADDRESS_MAX, ret_port, NULL) != 0)
        snprintf(ret_host, VAN_ADDRESS_MAX, "%.*s", (int)(bracketed ? n - 2 : n),
                 told + bracketed);
    if (strchr(told, ',') == NULL && strstr(told, "://") == NULL && is_host(ret_host))
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "--advertise takes HOST or HOST:PORT, where HOST is a name or address, "
        "not '%.100s'",
        told);
}

// Gets the address at which other nodes are told to reach this node.
static int advertise(const struct node *n, uint16_t loop, char address[VAN_ADDRESS_MAX],
                     struct err *e)
{
    const char *told = n->options.advertise;
    char host[VAN_ADDRESS_MAX], own[ROUTE_ADDRESS_MAX];
    uint16_t port;
    if (told == NULL) {
        if (!binds_all(n) || n->scheduler[0] == 0 ||
            route_split(n->scheduler, host, sizeof(host), &port, NULL) != 0 ||
            route_address(host, own, NULL) != 0)
            return 0;
        return node_tell_address(address, own, port_of(address), e);
    }
    TRY(advertised(told, host, &port, e));
    if (port == 0)
        return node_tell_address(address, host, port_of(address), e);
    if ((uint32_t)port + loop > UINT16_MAX)
        return err_set(e, TUG_EUSAGE,
                       "--advertise %s: the ports of all loops would go beyond 65535",
                       told);
    return node_tell_address(address, host, (uint32_t)port + loop, e);
}

int node_listen(struct node *n, struct van *v, uint16_t loop,
                char ret_address[VAN_ADDRESS_MAX], struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    uint32_t port = n->options.port == 0 ? 0 : (uint32_t)n->options.port + loop;
    if (port > UINT16_MAX)
        return err_set(e, TUG_EUSAGE,
                       "--port %u: the ports of all loops would go beyond 65535",
                       n->options.port);
    int len = strstr(n->bind, "://") != NULL
                  ? snprintf(address, sizeof(address), "%s", n->bind)
                  : snprintf(address, sizeof(address), "tcp://%s:%u", n->bind, port);
    if (len < 0 || (size_t)len >= sizeof(address))
        return err_set(e, TUG_EUSAGE, "--host: the name is too long");
    TRY(van_listen(v, address, ret_address, e));
    TRY(advertise(n, loop, ret_address, e));
    if (n->options.advertise != NULL)
        tcp_van_known_as(v, ret_address);
    if (n->sockets && strncmp(ret_address, "tcp://", 6) == 0)
        listen_beside(n, v, ret_address);
    return 0;
}

double node_scheduler_timeout(const struct node *n)
{
    double timeout = n->options.scheduler_timeout_seconds;
    return timeout > 0 ? timeout : SCHEDULER_TIMEOUT_SECONDS;
}

struct member_options node_member(const struct node *n, enum wire_role role,
                                  const char *address)
{
    struct member_options o = {
        .cluster = n->cluster,
        .scheduler = n->scheduler,
        .role = role,
        .process = n->process,
        .wish = n->options.wish,
        .late = n->options.late,
        .fixed = n->options.fixed,
        .loops = 1,
        .pid = (uint32_t)getpid(),
        .host = n->host,
        .zone = n->options.zone,
        .address = address,
        .generation = n->generation,
        .scheduler_timeout_ns = (uint64_t)(node_scheduler_timeout(n) * (double)SECOND_NS),
    };
    if (getrandom(&o.ticket, sizeof(o.ticket), 0) != sizeof(o.ticket))
        o.ticket = mix64(n->process + role + 1);
    return o;
}

int node_heartbeat(struct node *n, atomic_bool *lost, struct err *e)
{
    return heartbeat_start(&n->heartbeat, n, lost, e);
}

void node_heartbeat_end(struct node *n)
{
    heartbeat_stop(n->heartbeat);
    n->heartbeat = NULL;
}
