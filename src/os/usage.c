// Measures what this process uses of the machine; see usage.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/usage.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/thread.h"
#include "tug/tug.h"

#define LOOK_SECONDS 1.0

enum { HOST_MAX = 256 };

struct disk {
    const char *what;
    char *path;
    bool known;
    uint64_t free, size; // bytes
    dev_t device;
};

struct usage {
    pthread_mutex_t lock; // guards all fields below except `users`
    pthread_cond_t changed;
    bool stop, over; // `over`: the thread does not use this struct any more
    double cpu;
    uint64_t resident, open_files, limit;
    struct disk disks[USAGE_DISKS];
    size_t n;
    uint64_t opened; // the time of usage_open
    char host[HOST_MAX];
    // 2 while both the owner and the thread use the struct; the last user frees it.
    atomic_int users;
};

static void usage_leave(struct usage *u)
{
    if (atomic_fetch_sub(&u->users, 1) > 1)
        return;
    for (size_t i = 0; i < u->n; i++)
        mem_free(u->disks[i].path);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    mem_free(u);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t count_open_files(void)
{
    struct stat st;
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        // Since Linux 6.2 the size is the number of open files.
        return (uint64_t)st.st_size;
    DIR *d = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (d == NULL)
        return 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    // The entries ".", ".." and the descriptor of the open directory do not count.
    return n > 3 ? n - 3 : 0;
}

static void look_at_process(struct usage *u)
{
    struct rusage r = {0};
    uint64_t resident = resident_bytes(), files = count_open_files(),
             limit = descriptors_limit();
    (void)getrusage(RUSAGE_SELF, &r); // fails only for wrong arguments
    pthread_mutex_lock(&u->lock);
    u->cpu = seconds_of(r.ru_utime) + seconds_of(r.ru_stime);
    u->resident = resident;
    u->open_files = files;
    u->limit = limit;
    pthread_mutex_unlock(&u->lock);
}

static void look_at_disk(struct usage *u, struct disk *d)
{
    struct statvfs v;
    struct stat at = {0};
    bool known = statvfs(d->path, &v) == 0 && stat(d->path, &at) == 0;
    pthread_mutex_lock(&u->lock);
    d->known = known;
    d->device = at.st_dev;
    d->free = known ? (uint64_t)v.f_bavail * v.f_frsize : 0;
    // The size leaves out the blocks that are reserved for root, so that
    // percentages equal those of df.
    d->size = known ? (uint64_t)(v.f_blocks - v.f_bfree + v.f_bavail) * v.f_frsize : 0;
    pthread_mutex_unlock(&u->lock);
}

static void look(struct usage *u)
{
    look_at_process(u);
    for (size_t i = 0; i < u->n; i++)
        look_at_disk(u, &u->disks[i]);
}

static void *watch(void *arg)
{
    struct usage *u = arg;
    bool stop = false;
    while (!stop) {
        struct timespec until = clock_deadline(LOOK_SECONDS);
        pthread_mutex_lock(&u->lock);
        while (!u->stop && pthread_cond_timedwait(&u->changed, &u->lock, &until) == 0)
            continue;
        stop = u->stop;
        pthread_mutex_unlock(&u->lock);
        if (!stop)
            look(u);
    }
    pthread_mutex_lock(&u->lock);
    u->over = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    usage_leave(u);
    return NULL;
}

static int add_disks(struct usage *u, const struct usage_disk *disks, size_t n,
                     struct err *e)
{
    for (size_t i = 0; i < n && u->n < USAGE_DISKS; i++) {
        if (disks[i].path == NULL)
            continue;
        size_t bytes = strlen(disks[i].path) + 1;
        char *path = mem_alloc(bytes);
        if (path == NULL)
            return err_nomem(e, "the resource usage of the process");
        memcpy(path, disks[i].path, bytes);
        u->disks[u->n++] = (struct disk){.what = disks[i].what, .path = path};
    }
    return 0;
}

int usage_open(struct usage **ret, const struct usage_disk *disks, size_t n,
               struct err *e)
{
    pthread_t thread;
    struct usage *u = mem_zalloc(sizeof(*u));
    if (u == NULL)
        return err_nomem(e, "the resource usage of the process");
    pthread_mutex_init(&u->lock, NULL);
    thread_condition(&u->changed);
    atomic_init(&u->users, 1);
    u->opened = clock_ns();
    (void)gethostname(u->host, sizeof(u->host) - 1);
    int rc = add_disks(u, disks, n, e);
    if (rc == 0) {
        look(u);
        atomic_store(&u->users, 2);
        if (thread_start(&thread, watch, u) != 0) {
            atomic_store(&u->users, 1);
            rc = err_set(e, TUG_EIO,
                         "cannot start the thread that measures the resource usage of "
                         "the process");
        }
    }
    if (rc != 0) {
        usage_leave(u);
        return rc;
    }
    pthread_detach(thread);
    *ret = u;
    return 0;
}

void usage_close(struct usage *u)
{
    if (u == NULL)
        return;
    struct timespec until = clock_deadline(1);
    pthread_mutex_lock(&u->lock);
    u->stop = true;
    pthread_cond_broadcast(&u->changed);
    while (!u->over && pthread_cond_timedwait(&u->changed, &u->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&u->lock);
    usage_leave(u);
}

static void print_disks(const struct usage *u, struct json_out *o)
{
    json_out_open(o, "disks", '[');
    for (size_t i = 0; i < u->n; i++) {
        const struct disk *d = &u->disks[i];
        char device[32];
        if (!d->known)
            continue;
        snprintf(device, sizeof(device), "%u:%u", major(d->device), minor(d->device));
        json_out_open(o, NULL, '{');
        json_out_text(o, "what", d->what);
        json_out_text(o, "path", d->path);
        json_out_u64(o, "free_bytes", d->free);
        json_out_u64(o, "size_bytes", d->size);
        json_out_text(o, "host", u->host);
        json_out_text(o, "device", device);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

void usage_print(struct usage *u, struct json_out *o)
{
    json_out_text(o, "version", tug_version());
    if (u == NULL)
        return;
    json_out_u64(o, "pid", (uint64_t)getpid());
    json_out_real(o, "unix_seconds", 13, (double)clock_unix_ns() * 1e-9);
    pthread_mutex_lock(&u->lock);
    json_out_real(o, "uptime_seconds", 12, (double)(clock_ns() - u->opened) * 1e-9);
    json_out_real(o, "cpu_seconds", 12, u->cpu);
    json_out_u64(o, "resident_bytes", u->resident);
    json_out_u64(o, "open_files", u->open_files);
    json_out_u64(o, "open_files_max", u->limit);
    print_disks(u, o);
    pthread_mutex_unlock(&u->lock);
}
