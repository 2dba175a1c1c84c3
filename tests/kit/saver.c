// See saver.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/saver.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/random.h"
#include "client/client.h"
#include "os/file.h"
#include "save/save.h"

enum { STREAM = 0x300, NUMBER = 7, FIRST_ID = 1000, MAX_SAVES = 4, ROOM_BITS = 1 };
#define MS (SIM_SECOND / 1000)
#define BELOW "other" // the saver's directory

enum doing { IDLE, SAVES, ENDS };

struct sim_saver {
    struct sim_saver_options o;
    struct sim *sim;
    struct client *client;
    struct van *van;
    struct sim_process *process;
    uint64_t draws, dies_at, ids;
    bool dead;
    uint32_t left, committed, again;
    enum doing doing;
    bool commits, based; // based: the next save may be a delta
    enum save_mode mode;
    uint64_t id;
    client_ts ts;
    struct save_manifest manifest;
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX];
};

static uint64_t draw(struct sim_saver *k, uint64_t n)
{
    return random_below(k->o.seed, STREAM, k->draws++, n);
}

int sim_saver_open(struct sim_saver **ret, struct sim *s,
                   const struct sim_saver_options *o, struct err *e)
{
    struct sim_saver *k = *ret = mem_zalloc(sizeof(*k));
    if (k == NULL)
        return err_nomem(e, "a saver");
    k->o = *o;
    k->sim = s;
    k->left = (uint32_t)draw(k, MAX_SAVES);
    k->dies_at = draw(k, 4) == 0 ? draw(k, 500 * MS) : VAN_NEVER;
    struct client_options c = {
        .member = sim_member(WIRE_DRIVER, NUMBER, ""),
        .connect_timeout_ns = 2 * SIM_SECOND,
        .request_timeout_ns = 300 * SIM_SECOND,
        .resend_ns = 50 * MS,
    };
    c.member.bugs = o->bugs;
    TRY(file_join(k->dir, o->dir, BELOW, e));
    // An earlier saver, which crashed, may have made the directory.
    if (mkdir(k->dir, 0700) != 0 && errno != EEXIST)
        return err_sys(e, TUG_EIO, "making %s", k->dir);
    TRY(client_open(&k->client, &c, e));
    struct van_handler h = client_handler(k->client);
    TRY(sim_van_open(&k->van, s, "saver", &h, e));
    client_serve(k->client, k->van, sim_now(s));
    return sim_process_open(&k->process, s, &c.member, k->van, o->seed, e);
}

static void forget(struct sim_saver *k)
{
    if (k->manifest.locked)
        save_abort(k->dir, &k->manifest);
    save_manifest_free(&k->manifest);
    k->manifest = (struct save_manifest){0};
}

void sim_saver_close(struct sim_saver *k)
{
    if (k == NULL)
        return;
    sim_process_close(k->process);
    van_free(k->van);
    client_close(k->client);
    forget(k);
    mem_free(k);
}

int sim_load(struct store **ret, const char *path, const char *config,
             uint32_t partition_bits, struct err *e)
{
    struct table_config c = table_config_defaults();
    struct save_chain chain;
    // The number of partitions need not be that of the saved table.
    struct store_options o = {
        .config = &c, .id = 1, .partition_bits = partition_bits + ROOM_BITS};
    TRY(table_config_parse(&c, config, e));
    TRY(store_open(ret, &o, e));
    TRY(save_chain_open(&chain, path, e));
    int rc = save_load(&chain, c.name, *ret, NULL, NULL, e);
    save_chain_close(&chain);
    return rc;
}

static int begin(struct sim_saver *k, struct err *e)
{
    char below[FILE_PATH_MAX];
    k->mode = !k->o.deltas                  ? SAVE_CHECKPOINT
              : k->based && draw(k, 4) != 0 ? SAVE_DELTA
                                            : SAVE_BASE;
    TRY(save_begin(k->dir, k->mode, &k->manifest, k->path, e));
    TRY(file_join(below, BELOW, strrchr(k->path, '/') + 1, e));
    k->id = FIRST_ID + k->ids++;
    if (k->o.begins != NULL)
        k->o.begins(k->o.ctx);
    struct client_save s = {
        .id = k->id, .mode = k->mode, .path = below, .tables = &k->o.table, .n = 1};
    k->ts = client_save(k->client, &s, &k->manifest, e);
    k->doing = SAVES;
    return k->ts != 0 ? 0 : e->code;
}

static int end(struct sim_saver *k, bool commits, struct err *e)
{
    k->commits = commits;
    if (k->commits)
        TRY(save_commit(k->dir, &k->manifest, 0, e));
    k->ts = client_save_end(k->client, k->id, k->commits, k->manifest.checksum, e);
    k->doing = ENDS;
    return k->ts != 0 ? 0 : e->code;
}

static int load(struct sim_saver *k, struct err *e)
{
    struct store *s = NULL;
    int rc = sim_load(&s, k->path, k->o.config, k->o.partition_bits, e);
    if (rc == 0)
        k->o.check(k->o.ctx, s);
    store_close(s);
    return rc;
}

// Gets the path of a file of the save at random, and its length; 0 if it has none.
static uint64_t file_of(struct sim_saver *k, char *path)
{
    struct dirent *entry;
    struct stat st;
    uint64_t n = 0, length = 0;
    char at[FILE_PATH_MAX];
    DIR *d = opendir(k->path);
    while (d != NULL && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.' && file_join(at, k->path, entry->d_name, NULL) == 0 &&
            stat(at, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
            draw(k, ++n) == 0) {
            length = (uint64_t)st.st_size;
            memcpy(path, at, sizeof(at));
        }
    if (d != NULL)
        closedir(d);
    return length;
}

static int flip(const char *path, uint64_t bit, struct err *e)
{
    FILE *f = fopen(path, "r+");
    int c = f != NULL && fseek(f, (long)(bit / 8), SEEK_SET) == 0 ? getc(f) : EOF;
    bool good = c != EOF && fseek(f, -1, SEEK_CUR) == 0 &&
                putc(c ^ 1 << bit % 8, f) != EOF;
    if ((f != NULL && fclose(f) != 0) || !good)
        return err_sys(e, TUG_EIO, "flipping a bit of %s", path);
    return 0;
}

// The disk flips a bit of a file for a while. A load must find that, or load the right rows.
static int check_flip(struct sim_saver *k, struct err *e)
{
    char path[FILE_PATH_MAX];
    uint64_t length = file_of(k, path), bit;
    struct err why;
    if (length == 0)
        return 0;
    bit = draw(k, 8 * length);
    TRY(flip(path, bit, e));
    (void)load(k, &why); // checks the rows if it finds nothing wrong
    return flip(path, bit, e);
}

static int check(struct sim_saver *k, struct err *e)
{
    TRY(load(k, e));
    k->committed++;
    return draw(k, 2) == 0 ? check_flip(k, e) : 0;
}

// Returns whether the save that has failed is to be made again. A delta becomes a base if a
// server that has died had not told its replicas of the ends of the last two saves.
static bool begins_again(struct sim_saver *k, const struct err *e)
{
    bool old = k->mode == SAVE_DELTA &&
               strstr(e->text, "save a base there first") != NULL;
    k->based &= !old;
    k->again += e->reason == REASON_SAVE_AGAIN;
    return old || e->reason == REASON_SAVE_AGAIN;
}

static int go_on(struct sim_saver *k, bool ready, struct err *e)
{
    int rc = 0;
    if (k->ts != 0 && !client_done(k->client, k->ts, &rc, e))
        return 0;
    k->ts = 0;
    if (rc != 0 && k->doing == SAVES && begins_again(k, e))
        return end(k, false, e);
    TRY(rc);
    switch (k->doing) {
    case IDLE:
        if (k->left > 0 && ready && member_ready(client_member(k->client)) &&
            draw(k, 12) == 0)
            return begin(k, e);
        return 0;
    case SAVES:
        k->left--;
        return end(k, draw(k, 4) != 0, e);
    case ENDS:
        rc = k->commits ? check(k, e) : 0;
        k->based |= k->commits;
        forget(k);
        k->doing = IDLE;
        return rc;
    }
    return 0;
}

void sim_saver_kill(struct sim_saver *k)
{
    if (!k->dead)
        sim_process_crash(k->process, k->sim);
    k->dead = true;
}

int sim_saver_step(struct sim_saver *k, const struct scheduler *s, bool ready,
                   struct err *e)
{
    struct err why = {0};
    if (k->dead)
        return 0;
    if (sim_now(k->sim) >= k->dies_at && k->doing != IDLE &&
        sim_is_heard(s, WIRE_DRIVER, NUMBER)) {
        sim_saver_kill(k);
        return 0;
    }
    if (sim_process_is_given_up(k->process, client_member(k->client), s))
        return err_set(e, TUG_EINTERNAL, "the other saver is taken for dead");
    if (go_on(k, ready, &why) == 0)
        return 0;
    return err_set(e, TUG_EINTERNAL, "the other saver, save %llu: %s",
                   (unsigned long long)k->id, why.text);
}

bool sim_saver_is_done(const struct sim_saver *k)
{
    return k->dead || (k->left == 0 && k->doing == IDLE);
}

uint64_t sim_saver_again(const struct sim_saver *k)
{
    return k->again;
}

uint64_t sim_saver_saves(const struct sim_saver *k)
{
    return k->committed;
}
