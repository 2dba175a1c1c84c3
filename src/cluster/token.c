// Tokens of a cluster: see token.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/disk.h"
#include "os/runtime_dir.h"

static const enum wire_role steps[] = {WIRE_OPERATOR, WIRE_SERVER, WIRE_WORKER,
                                       WIRE_TOOL};
enum { STEPS = sizeof(steps) / sizeof(*steps), MAX_TRIES = 100, RANDOM_BYTES = 6 };

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
        return err_set(e, TUG_EIO, "the system provides no random numbers");
    return 0;
}

// Derives the key of each role from the key of the next role with more rights, by a
// one-way function.
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
        e, TUG_EUSAGE, // the text is not quoted, because it may be almost a valid token
        "the token is not of the form ROLE:HEX, as 'tug cert token' prints it");
}

void token_write(char ret[TOKEN_TEXT_MAX], const struct token *t)
{
    int n = snprintf(ret, TOKEN_TEXT_MAX, "%s:", wire_role_name(t->role));
    for (int i = 0; i < MAC_BYTES; i++)
        n += snprintf(ret + n, (size_t)(TOKEN_TEXT_MAX - n), "%02x", t->key[i]);
}

// Makes the path of a token's file. Letters, digits and "._-" of the cluster's name stay
// as they are; other characters are encoded.
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

// Locks a new file; the lock lasts until the process ends. Returns false if another
// process has removed the file before it was locked.
static bool lock_it(int fd)
{
    struct stat st;
    return (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
           fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static int make_beside(char ret[FILE_PATH_MAX], int *ret_fd, const char *dir,
                       const char *cluster, uint16_t port, struct err *e)
{
    uint8_t random[MAC_BYTES];
    char end[32];
    for (int i = 0; i < MAX_TRIES; i++) {
        if (!mac_random(random))
            return err_set(e, TUG_EIO, "the system provides no random numbers");
        int n = snprintf(end, sizeof(end), ".");
        for (int k = 0; k < RANDOM_BYTES; k++)
            n += snprintf(end + n, sizeof(end) - (size_t)n, "%02x", random[k]);
        TRY(path_of(ret, dir, cluster, port, end, e));
        *ret_fd = disk_create_at(AT_FDCWD, ret, S_IRUSR | S_IWUSR);
        if (*ret_fd < 0)
            return err_sys(e, TUG_EIO, "cannot make '%s'", ret);
        if (lock_it(*ret_fd))
            return 0;
        close(*ret_fd);
    }
    return err_set(e, TUG_EIO,
                   "cannot make '%s', because another process keeps removing it", ret);
}

// Writes a temporary file and renames it, so that a reader gets either the old token or
// the new one.
static int leave_in(const char *dir, char ret_path[FILE_PATH_MAX], int *ret_lock,
                    const struct token *t, const char *cluster, uint16_t port,
                    struct err *e)
{
    char beside[FILE_PATH_MAX];
    TRY(path_of(ret_path, dir, cluster, port, "", e));
    TRY(make_beside(beside, ret_lock, dir, cluster, port, e));
    if (write_all(*ret_lock, t) == 0 && disk_rename_at(AT_FDCWD, beside, ret_path) == 0)
        return 0;
    err_sys(e, TUG_EIO, "cannot write '%s'", ret_path);
    close(*ret_lock);
    (void)disk_remove(beside);
    return TUG_EIO;
}

// Returns whether the name is NAME@PORT.token, or such a name with the suffix of a
// temporary file.
static bool is_of_token(const char *path)
{
    const char *at = strchr(strrchr(path, '/'), '@'), *digits = "0123456789abcdef";
    size_t port = at != NULL ? strspn(at + 1, "0123456789") : 0, end = strlen(".token");
    if (port == 0 || strncmp(at + 1 + port, ".token", end) != 0)
        return false;
    const char *more = at + 1 + port + end;
    return *more == 0 || (*more == '.' && strspn(more + 1, digits) == 2 * RANDOM_BYTES &&
                          more[1 + 2 * RANDOM_BYTES] == 0);
}

// Removes a token's file if it is not locked, because then its scheduler is dead.
static void sweep_one(void *ctx, const char *path)
{
    struct stat st;
    (void)ctx;
    int fd = is_of_token(path)
                 ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)disk_remove(path);
    close(fd);
}

static void sweep(void)
{
    char dir[FILE_PATH_MAX];
    for (int i = 0; i < RUNTIME_DIR_PLACES; i++) {
        int lock = runtime_dir_look(i, dir) ? runtime_dir_lock(dir) : -1;
        if (lock < 0)
            continue;
        runtime_dir_list_in(dir, "", "", sweep_one, NULL);
        close(lock);
    }
}

int token_leave(char ret_path[FILE_PATH_MAX], int *ret_lock, const struct token *t,
                const char *cluster, uint16_t port, struct err *e)
{
    char dir[FILE_PATH_MAX];
    ret_path[0] = 0;
    TRY(runtime_dir_make(dir, e));
    int lock = runtime_dir_lock(dir);
    int rc = leave_in(dir, ret_path, ret_lock, t, cluster, port, e);
    if (rc != 0)
        ret_path[0] = 0;
    if (lock >= 0)
        close(lock);
    sweep(); // last, so that processes that connect meanwhile find the token
    return rc;
}

// Refuses a file that another user could have written or could read, and says why.
static int check_own(const char *path, const struct stat *st, struct err *e)
{
    if (!S_ISREG(st->st_mode))
        return err_set(e, TUG_EIO, "'%s' is not trusted: it is not a file; remove it",
                       path);
    if (st->st_uid != geteuid())
        return err_set(
            e, TUG_EIO,
            "'%s' is not trusted: it belongs to another user (uid %u, you are %u)", path,
            (unsigned)st->st_uid, (unsigned)geteuid());
    if ((st->st_mode & 077) == 0)
        return 0;
    return err_set(e, TUG_EIO,
                   "'%s' is not trusted: others may read or write it (mode %04o); start "
                   "the scheduler again, because the token may be known",
                   path, (unsigned)(st->st_mode & 07777));
}

// Reads a token's file. Returns false without an error if the file does not exist.
static bool read_file(struct token *ret, const char *path, struct timespec *ret_time,
                      struct err *e)
{
    char text[TOKEN_TEXT_MAX + 2];
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        err_set(e, TUG_EIO, "'%s' is not trusted: it is a link; remove it", path);
    else if (fd < 0 && errno != ENOENT)
        err_sys(e, TUG_EIO, "cannot read '%s'", path);
    if (fd < 0)
        return false;
    int rc = fstat(fd, &st) == 0 ? check_own(path, &st, e)
                                 : err_sys(e, TUG_EIO, "cannot read '%s'", path);
    ssize_t n = rc == 0 ? read(fd, text, sizeof(text) - 1) : -1;
    close(fd);
    if (rc != 0)
        return false;
    text[n > 0 ? n : 0] = 0;
    *ret_time = st.st_mtim;
    bool good = token_read(ret, text, NULL) == 0;
    explicit_bzero(text, sizeof(text));
    if (!good)
        err_set(e, TUG_EIO, "'%s' does not hold a token; start the scheduler again",
                path);
    return good;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

// Looks for a token in place i. Returns false if the place has no trusted token; *e gets
// the reason if a file there is not trusted. `tried` gets the name of the place.
static bool find_in(int i, const char *cluster, uint16_t port, struct token *ret,
                    struct timespec *ret_time, char tried[FILE_PATH_MAX], struct err *e)
{
    char path[FILE_PATH_MAX];
    tried[0] = 0;
    if (runtime_dir_look(i, tried))
        return path_of(path, tried, cluster, port, "", e) == 0 &&
               read_file(ret, path, ret_time, e);
    if (tried[0] != 0 && access(tried, F_OK) == 0)
        (void)runtime_dir_check(tried, e);
    return false;
}

int token_find(struct token *ret, const char *cluster, uint16_t port, struct err *e)
{
    struct timespec newest = {0};
    struct err why = {0};
    char tried[RUNTIME_DIR_PLACES][FILE_PATH_MAX];
    *ret = (struct token){.role = WIRE_NOBODY};
    for (int i = 0; i < RUNTIME_DIR_PLACES; i++) {
        struct token t;
        struct timespec time;
        struct err e_here = {0};
        if (find_in(i, cluster, port, &t, &time, tried[i], &e_here) &&
            (ret->role == WIRE_NOBODY || is_later(&time, &newest))) {
            *ret = t;
            newest = time;
        }
        if (why.code == 0)
            why = e_here; // the error names the first file that is not trusted
    }
    if (ret->role != WIRE_NOBODY)
        return 0;
    if (why.code != 0) {
        err_add(&why, "; or set TUG_TOKEN, or give certificates");
        why.code = TUG_EIO;
        return err_copy(e, &why);
    }
    return err_set(e, TUG_EIO,
                   "there is no token for cluster '%.64s' at port %u in %.100s%s%.100s: "
                   "check --cluster, and that the scheduler runs as the same user; "
                   "otherwise set TUG_TOKEN, or give certificates",
                   cluster, port, tried[0], tried[0][0] != 0 ? " or " : "", tried[1]);
}

void token_remove(const char *path, int lock, const struct token *t)
{
    struct token there;
    struct timespec time;
    char dir[FILE_PATH_MAX];
    if (path[0] == 0)
        return;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    int quiet = runtime_dir_lock(dir);
    if (read_file(&there, path, &time, NULL) && mac_same(there.key, MAC_BYTES, t->key))
        (void)disk_remove(path);
    if (quiet >= 0)
        close(quiet);
    close(lock);
}
