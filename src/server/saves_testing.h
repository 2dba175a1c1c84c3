// What tests of a shard's saves share: a directory below a root, saves that are under way,
// and their requests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVES_TESTING_H
#define TUG_SERVER_SAVES_TESTING_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/below.h"
#include "base/file.h"
#include "save/save.h"
#include "server/stores_testing.h"
#include "store/cut.h"

static char dir[64];
static struct roots *roots; // below `dir`

static inline const char *rest(const char *path)
{
    const char *at = below_rest(dir, path);
    return at != NULL ? at : path;
}

static inline struct world *open_rooted(uint32_t i, uint32_t n, const char *config)
{
    struct world *w = open_loop(i, n, config);
    w->shard->o.roots = roots;
    return w;
}

static const char users[] = "name=users;accessor=ctr;dim=4;embedx-threshold=3;init=0.1;"
                            "base-threshold=0;delta-threshold=0";

// Saves.

// A save that is under way: its manifest, and where its files go.
struct saving {
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    uint64_t id;
};

static uint64_t next_save = 100;

static inline struct saving begin_save(enum save_mode mode)
{
    struct saving x = {.id = ++next_save};
    struct err e;
    if (save_begin(dir, mode, &x.m, x.path, &e) != 0)
        fail_msg("%s", e.text);
    return x;
}

static inline void send_save(struct world *w, const struct saving *x, bool marked,
                             uint64_t clock)
{
    struct msg_save m = {.save = x->id,
                         .mode = (uint8_t)x->m.mode,
                         .marked = marked,
                         .clock = clock,
                         .path = wire_text(rest(x->path))};
    deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
}

static inline void send_mark(struct world *w, uint32_t worker, uint64_t save)
{
    struct msg_mark m = {.save = save, .session = session_of_worker(worker)};
    deliver(w, WORKER_LINK + worker, MSG_MARK, ++w->next_request, &m);
    expect_ok(w);
}

static inline void end_save(struct world *w, uint64_t save, bool committed)
{
    struct msg_save_end m = {.save = save, .committed = committed};
    deliver(w, WORKER_LINK, MSG_SAVE_END, ++w->next_request, &m);
}

static inline void add_files(struct saving *x, const struct msg_saved *m)
{
    struct wire_text list = m->files;
    struct wire_saved_file f;
    struct err e;
    assert_int_equal(m->save, x->id);
    x->m.step = m->step;
    while (wire_next_saved_file(&list, &f) == 1) {
        char name[SAVE_FILE_MAX], text[WIRE_TEXT_MAX];
        struct table_config c = table_config_defaults();
        struct rows_info info = {f.rows, f.extras, f.gone, f.bytes, f.checksum};
        snprintf(name, sizeof(name), "%.*s", (int)f.name.n, f.name.data);
        snprintf(text, sizeof(text), "%.*s", (int)f.config.n, f.config.data);
        assert_int_equal(table_config_parse(&c, text, NULL), 0);
        struct save_table *t = x->m.n_tables > 0
                                   ? &x->m.tables[0]
                                   : save_add_table(&x->m, f.table, &c, BITS, NULL);
        if (save_add_file(t, name, &info, &e) != 0)
            fail_msg("%s", e.text);
    }
}

// Lets the loop work until it has answered that all is written.
static inline void finish_save(struct world *w, struct saving *x)
{
    for (int i = 0; i < 10000 && w->sent == NULL; i++)
        pass_time(w, 1000);
    struct parcel *p = expect_sent(w, MSG_SAVED);
    add_files(x, &p->m.saved);
    parcel_unpin(p);
}

static inline void commit(struct saving *x)
{
    struct err e;
    if (save_commit(dir, &x->m, 0, &e) != 0)
        fail_msg("%s", e.text);
    save_manifest_free(&x->m);
}

static inline void load(struct world *w, const char *path, bool clear)
{
    char save[FILE_PATH_MAX];
    struct save_manifest is = {0};
    assert_int_equal(save_find(path, save, NULL), 0);
    assert_int_equal(save_read(save, &is, NULL), 0);
    struct msg_load m = {.table = T,
                         .checksum = is.checksum,
                         .clear = clear,
                         .number = ++w->next_request,
                         .low = w->next_request > 8 ? w->next_request - 8 : 1,
                         .path = wire_text(rest(save)),
                         .name = wire_text("")};
    save_manifest_free(&is);
    deliver(w, WORKER_LINK, MSG_LOAD, m.number, &m);
}

// What a save that is given up leaves.
static inline void forget(struct saving *x)
{
    save_abort(dir, &x->m);
    save_manifest_free(&x->m);
}

// Directories of files in it, and those of loops.
static inline int clean(void **state)
{
    char path[FILE_PATH_MAX];
    struct dirent *entry;
    DIR *d = opendir(dir);
    int rc = 0;
    (void)state;
    while (d != NULL && (entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.' && file_join(path, dir, entry->d_name, NULL) == 0)
            rc |= file_remove_tree(path, NULL);
    closedir(d);
    roots_close(roots);
    return rc | file_remove_tree(dir, NULL) | (mem_live() != 0);
}

static inline int prepare(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "%s/tug-saves-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL)
        return 1;
    struct roots_options o = {.save = dir};
    return roots_open(&roots, &o, NULL);
}

#endif
