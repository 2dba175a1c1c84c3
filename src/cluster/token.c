// Tokens of a cluster: see token.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/runtime_dir.h"

// ---------------------------------------------------------------- the key and its role

static const enum wire_role steps[] = {WIRE_OPERATOR, WIRE_SERVER, WIRE_WORKER,
                                       WIRE_TOOL};
enum { STEPS = sizeof(steps) / sizeof(*steps) };

static int step_of(enum wire_role role)
{
    int i = 0;
    while (i < STEPS && steps[i] != role)
        i++;
    return i;
}

int token_make(struct token *ret, struct err *e)
{
    ret->role = WIRE_OPERATOR;
    if (!mac_random(ret->key))
        return err_set(e, TUG_EIO, "the system gives no random numbers");
    return 0;
}

// Each is a function of the one above that cannot be turned round.
bool token_lower(struct token *t, enum wire_role role)
{
    int from = step_of(t->role), to = step_of(role);
    if (from >= STEPS || to >= STEPS || to < from)
        return false;
    for (int i = from; i < to; i++) {
        const char *name = wire_role_name(steps[i + 1]);
        const struct mac_part part = {name, strlen(name)};
        uint8_t next[MAC_BYTES];
        if (!mac(next, t->key, "tug 2: token of a role", &part, 1))
            return false;
        memcpy(t->key, next, MAC_BYTES);
    }
    t->role = role;
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_key(uint8_t ret[MAC_BYTES], const char *text)
{
    for (int i = 0; i < MAC_BYTES; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    text += 2 * MAC_BYTES;
    return *text == 0 || strcmp(text, "\n") == 0;
}

int token_read(struct token *ret, const char *text, struct err *e)
{
    char role[16];
    const char *colon = strchr(text, ':');
    *ret = (struct token){.role = WIRE_NOBODY};
    if (colon != NULL && (size_t)(colon - text) < sizeof(role)) {
        snprintf(role, sizeof(role), "%.*s", (int)(colon - text), text);
        ret->role = wire_role_read(role);
    }
    if (step_of(ret->role) < STEPS && read_key(ret->key, colon + 1))
        return 0;
    *ret = (struct token){.role = WIRE_NOBODY};
    return err_set(
        e, TUG_EUSAGE, // it is not repeated: it may be almost right
        "the token is not of the form ROLE:HEX, as 'tug cert token' prints it");
}

void token_write(char ret[TOKEN_TEXT_MAX], const struct token *t)
{
    int n = snprintf(ret, TOKEN_TEXT_MAX, "%s:", wire_role_name(t->role));
    for (int i = 0; i < MAC_BYTES; i++)
        n += snprintf(ret + n, (size_t)(TOKEN_TEXT_MAX - n), "%02x", t->key[i]);
}

// ---------------------------------------------------------------- its file

// A name for people becomes one for a file: nothing but letters, digits and "._-" stays.
static int path_of(char ret[FILE_PATH_MAX], const char *dir, const char *cluster,
                   uint16_t port, const char *end, struct err *e)
{
    char name[512];
    size_t n = 0;
    for (const char *c = cluster; *c != 0 && n < sizeof(name) / 2; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("._-", *c) != NULL;
        n += (size_t)snprintf(name + n, sizeof(name) - n, plain ? "%c" : "%%%02x",
                              (unsigned char)*c);
    }
    snprintf(name + n, sizeof(name) - n, "@%u.token%s", port, end);
    return file_join(ret, dir, name, e);
}

static int write_all(int fd, const struct token *t)
{
    char text[TOKEN_TEXT_MAX];
    token_write(text, t);
    size_t n = strlen(text);
    text[n++] = '\n';
    bool good = write(fd, text, n) == (ssize_t)n;
    explicit_bzero(text, sizeof(text));
    return good ? 0 : -1;
}

// Beside, and renamed: who reads it meanwhile reads the old one or this.
int token_leave(char ret_path[FILE_PATH_MAX], const struct token *t, const char *cluster,
                uint16_t port, struct err *e)
{
    char dir[FILE_PATH_MAX], beside[FILE_PATH_MAX], end[32];
    uint8_t random[MAC_BYTES];
    TRY(runtime_dir_make(dir, e));
    if (!mac_random(random))
        return err_set(e, TUG_EIO, "the system gives no random numbers");
    snprintf(end, sizeof(end), ".%02x%02x%02x%02x%02x%02x", random[0], random[1],
             random[2], random[3], random[4], random[5]);
    TRY(path_of(ret_path, dir, cluster, port, "", e));
    TRY(path_of(beside, dir, cluster, port, end, e));
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot make '%s'", beside);
    int rc = write_all(fd, t);
    close(fd);
    if (rc == 0 && rename(beside, ret_path) == 0)
        return 0;
    err_sys(e, TUG_EIO, "cannot write '%s'", ret_path);
    unlink(beside);
    return TUG_EIO;
}

// What another could have put there, or could read, is no token.
static bool read_file(struct token *ret, const char *path, struct timespec *ret_time)
{
    char text[TOKEN_TEXT_MAX + 2];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool own = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
               (st.st_mode & 077) == 0;
    ssize_t n = own ? read(fd, text, sizeof(text) - 1) : -1;
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    *ret_time = st.st_mtim;
    bool good = token_read(ret, text, NULL) == 0;
    explicit_bzero(text, sizeof(text));
    return good;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

int token_find(struct token *ret, const char *cluster, uint16_t port, struct err *e)
{
    struct timespec newest = {0};
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX] = "no directory of yours";
    *ret = (struct token){.role = WIRE_NOBODY};
    for (int i = 0; i < RUNTIME_DIR_PLACES; i++) {
        struct token t;
        struct timespec time;
        if (!runtime_dir_look(i, dir) || path_of(path, dir, cluster, port, "", e) != 0 ||
            !read_file(&t, path, &time))
            continue;
        if (ret->role == WIRE_NOBODY || is_later(&time, &newest)) {
            *ret = t;
            newest = time;
        }
    }
    if (ret->role != WIRE_NOBODY)
        return 0;
    return err_set(
        e, TUG_EIO,
        "there is none for cluster '%.64s' at port %u in %s: is --cluster right, "
        "and does the scheduler run as this user? else set TUG_TOKEN, or give "
        "certificates",
        cluster, port, path);
}

void token_remove(const char *path, const struct token *t)
{
    struct token there;
    struct timespec time;
    if (path[0] != 0 && read_file(&there, path, &time) &&
        mac_same(there.key, MAC_BYTES, t->key))
        unlink(path);
}
