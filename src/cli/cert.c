// tug cert: the keys and certificates of a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cluster/token.h"
#include "os/clock.h"
#include "os/disk.h"
#include "os/file.h"
#include "van/tls.h"

enum { PEM_MAX = 256 << 10, TOKEN_SECONDS = 5 };

struct cert_values {
    struct option_list what, hosts;
    const char *dir, *name, *cluster;
    uint64_t days, port;
    int role;
};

// The roles, in the order of the option's choices.
#define CERT_ROLES "any tool worker server operator scheduler"
static const enum wire_role roles[] = {WIRE_NOBODY, WIRE_TOOL,     WIRE_WORKER,
                                       WIRE_SERVER, WIRE_OPERATOR, WIRE_SCHEDULER};

#define OPTIONS_OF struct cert_values

static const struct option options[] = {
    {"what", .group = "What to make", .choices = "ca node token", LIST_AT(what, NULL),
     "ca: the cluster's own authority, once; node: a key and a certificate signed by it; "
     "token: a token that lets other processes into a cluster on this machine; the "
     "command waits up to 5 s for the scheduler to write it"},
    {"dir", .fallback = ".", STRING_AT(dir, "DIR"),
     "directory of the CA, where the command also writes its files"},
    {"name", .fallback = "node", STRING_AT(name, "NAME"),
     "name of the node, which also names its files: NAME.pem and NAME.key"},
    {"role", CHOICE_AT(role, CERT_ROLES, "any"),
     "rights of the certificate or token; each role also has the rights of the roles "
     "before it: tool may look, worker may push and read data, server may hold tables, "
     "operator may stop, save, load and clear, scheduler may be the scheduler; any: all "
     "rights"},
    {"host", LIST_AT(hosts, "NAME"),
     "names and addresses by which browsers and Prometheus call this node, for --http "
     "of its process; a browser refuses a certificate without them"},
    {"days", U64_AT(days, "N", "365", 1, 36500),
     "days for which the certificate is valid"},
    {"cluster", .group = "Tokens", .fallback = "tug", STRING_AT(cluster, "NAME"),
     "name of the cluster"},
    {"port", U64_AT(port, "P", "0", 0, 65535),
     "port at which the cluster's scheduler listens on this machine"},
};

const struct option_table cli_cert_options = {
    .command = "cert",
    .summary = "make the keys and certificates of a cluster",
    .usage = "ca|node|token [--dir DIR] [--name NAME] [--role ROLE] [--host NAME]... "
             "[--days N]",
    .about =
        "`tug cert ca` makes DIR/ca.pem and DIR/ca.key; `tug cert node` makes "
        "DIR/NAME.pem and DIR/NAME.key, signed by this CA. Start each process of the "
        "cluster with --ca ca.pem --cert NAME.pem --key NAME.key. ca.key is needed only "
        "here: do not copy it to other machines. A process with a certificate of the CA "
        "may connect, with the rights of its --role; the name grants nothing.\n"
        "`tug cert token` prints a token of a running cluster on this machine, limited "
        "to what --role allows: a process that has it in TUG_TOKEN may connect over "
        "loopback. Your own processes need no token, because they find it by "
        "themselves.\n"
        "Keys can be read by their owner only. Nothing is overwritten.",
    .examples = "tug cert ca --dir keys\n"
                "tug cert node --dir keys --name worker-7 --role worker --days 30\n"
                "tug cert token --port 9100 --role tool",
    .operands = "what",
    CLI_OPTIONS(options),
};

static int write_new(const char *path, const struct buf *b, mode_t mode, struct err *e)
{
    int fd = disk_create_at(AT_FDCWD, path, mode);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, TUG_EUSAGE,
                       "'%s' exists already and is not overwritten; remove it first",
                       path);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot make '%s'", path);
    bool good = write(fd, b->data, b->len) == (ssize_t)b->len && fsync(fd) == 0;
    int rc = good ? 0 : err_sys(e, TUG_EIO, "cannot write '%s'", path);
    close(fd);
    if (rc != 0)
        (void)disk_remove(path);
    return rc;
}

// Writes the certificate and the key; after an error, neither file exists.
static int write_pair(const char *dir, const char *name, const struct buf *key,
                      const struct buf *cert, struct err *e)
{
    char file[FILE_PATH_MAX], key_path[FILE_PATH_MAX], cert_path[FILE_PATH_MAX];
    snprintf(file, sizeof(file), "%s.key", name);
    TRY(file_join(key_path, dir, file, e));
    snprintf(file, sizeof(file), "%s.pem", name);
    TRY(file_join(cert_path, dir, file, e));
    TRY(write_new(key_path, key, 0600, e));
    int rc = write_new(cert_path, cert, 0644, e);
    if (rc != 0) {
        (void)disk_remove(key_path);
        return rc;
    }
    cli_printf("%s\n%s\n", cert_path, key_path);
    return 0;
}

static int make_ca(const struct cert_values *v, struct buf *key, struct buf *cert,
                   struct err *e)
{
    TRY(file_make_dir(v->dir, e));
    TRY(tls_make_ca(key, cert, (uint32_t)v->days, e));
    return write_pair(v->dir, "ca", key, cert, e);
}

static int read_pem(const char *dir, const char *name, struct buf *b, struct err *e)
{
    char path[FILE_PATH_MAX];
    *b = BUF_INIT(PEM_MAX);
    TRY(file_join(path, dir, name, e));
    int rc = strcmp(name, "ca.key") == 0 ? file_read_secret(path, b, e)
                                         : file_read(path, b, e);
    if (rc != 0)
        return err_wrap(e, "there is no CA yet: run 'tug cert ca --dir %s' first", dir);
    return buf_str(b) != NULL ? 0 : err_nomem(e, path);
}

static int make_node(const struct cert_values *v, struct buf *key, struct buf *cert,
                     struct err *e)
{
    struct buf ca_key = {0}, ca_cert = {0};
    const struct tls_node node = {.name = v->name,
                                  .role = wire_role_name(roles[v->role]),
                                  .days = (uint32_t)v->days,
                                  .hosts = v->hosts.items,
                                  .n_hosts = v->hosts.n};
    if (v->name[0] == 0 || strchr(v->name, '/') != NULL || strcmp(v->name, "ca") == 0)
        return err_set(e, TUG_EUSAGE,
                       "--name: '%.100s' cannot be the name of a node's files: a name is "
                       "not empty, has no '/' and is not 'ca'",
                       v->name);
    int rc = read_pem(v->dir, "ca.key", &ca_key, e);
    if (rc == 0)
        rc = read_pem(v->dir, "ca.pem", &ca_cert, e);
    if (rc == 0)
        rc = tls_make_node(buf_str(&ca_key), buf_str(&ca_cert), &node, key, cert, e);
    buf_wipe(&ca_key);
    buf_free(&ca_cert);
    return rc == 0 ? write_pair(v->dir, v->name, key, cert, e) : rc;
}

// Waits for the token: a scheduler that was just started may not have written it yet.
static int find_token(struct token *ret, const struct cert_values *v, struct err *e)
{
    uint64_t until = clock_ns() + (uint64_t)TOKEN_SECONDS * 1000000000u;
    int rc;
    while ((rc = token_find(ret, v->cluster, (uint16_t)v->port, e)) == TUG_EIO &&
           clock_ns() < until)
        (void)poll(NULL, 0, 50);
    return rc;
}

static int print_token(const struct cert_values *v, struct err *e)
{
    struct token t;
    char text[TOKEN_TEXT_MAX];
    enum wire_role role = v->role == 0 ? WIRE_OPERATOR : roles[v->role];
    if (v->port == 0)
        return err_set(
            e, TUG_EUSAGE,
            "--port is missing: the port at which the cluster's scheduler listens");
    TRY(find_token(&t, v, e));
    if (!token_lower(&t, role))
        return err_set(e, TUG_EUSAGE, "--role: there is no token of the role %s",
                       wire_role_name(role));
    token_write(text, &t);
    cli_printf("%s\n", text);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&t, sizeof(t));
    return 0;
}

static int cert_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct cert_values *v = values;
    const char *what = v->what.n == 1 ? v->what.items[0] : "";
    struct buf key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX);
    int rc;
    if (strcmp(what, "ca") == 0)
        rc = make_ca(v, &key, &cert, e);
    else if (strcmp(what, "node") == 0)
        rc = make_node(v, &key, &cert, e);
    else if (strcmp(what, "token") == 0)
        rc = print_token(v, e);
    else
        rc = err_set(
            e, TUG_EUSAGE,
            "the action is missing: 'tug cert ca', 'tug cert node' or 'tug cert token'");
    buf_wipe(&key);
    buf_free(&cert);
    return rc;
}

const struct cli_command cli_cert = {&cli_cert_options, sizeof(struct cert_values),
                                     .run = cert_command};
