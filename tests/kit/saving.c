// See saving.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/saving.h"

#include <stdio.h>

#include "kit/files.h"
#include "kit/test.h"
#include "os/below.h"
#include "store/cut_internal.h"

const char saving_users[] = "name=users;accessor=ctr;dim=4;embedx-threshold=3;init=0.1;"
                            "base-threshold=0;delta-threshold=0";

static struct roots *roots; // files_dir, below which the loops may save
uint64_t saving_last = 100;

const char *saving_rest(const char *path)
{
    const char *at = below_rest(files_dir, path);
    return at != NULL ? at : path;
}

struct lone *saving_open_loop(uint32_t i, uint32_t n, const char *config)
{
    struct lone *w = loop_open(i, n, config);
    w->shard->o.roots = roots;
    return w;
}

// ---------------------------------------------------------------- saves

struct saving saving_begin(enum save_mode mode)
{
    struct saving x = {.id = ++saving_last};
    struct err e;
    if (save_begin(files_dir, mode, &x.m, x.path, &e) != 0)
        fail_msg("%s", e.text);
    return x;
}

void saving_send(struct lone *w, const struct saving *x, bool marked, uint64_t clock)
{
    struct msg_save m = {.save = x->id,
                         .mode = (uint8_t)x->m.mode,
                         .marked = marked,
                         .clock = clock,
                         .path = wire_text(saving_rest(x->path))};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
}

void saving_mark(struct lone *w, uint32_t worker, uint64_t save)
{
    struct msg_mark m = {
        .epoch = w->epoch, .save = save, .session = lone_session(worker)};
    lone_deliver(w, WORKER_LINK + worker, MSG_MARK, ++w->next_request, &m);
    lone_expect_ok(w);
}

void saving_end(struct lone *w, uint64_t save, bool committed)
{
    struct msg_save_end m = {.save = save, .committed = committed};
    lone_deliver(w, WORKER_LINK, MSG_SAVE_END, ++w->next_request, &m);
}

static void add_files(struct saving *x, const struct msg_saved *m)
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

void saving_finish(struct lone *w, struct saving *x)
{
    for (int i = 0; i < 10000 && w->sent == NULL; i++)
        lone_pass_time(w, 1000);
    struct parcel *p = lone_expect(w, MSG_SAVED);
    add_files(x, &p->m.saved);
    parcel_unpin(p);
}

void saving_crowd(struct lone *w)
{
    loop_table(w)->store->cut->o.side_bytes = 1;
}

void saving_commit(struct saving *x)
{
    struct err e;
    if (save_commit(files_dir, &x->m, 0, &e) != 0)
        fail_msg("%s", e.text);
    save_manifest_free(&x->m);
}

void saving_load(struct lone *w, const char *path, bool clear)
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
                         .path = wire_text(saving_rest(save)),
                         .name = wire_text("")};
    save_manifest_free(&is);
    lone_deliver(w, WORKER_LINK, MSG_LOAD, m.number, &m);
}

void saving_forget(struct saving *x)
{
    save_abort(files_dir, &x->m);
    save_manifest_free(&x->m);
}

int saving_prepare(void **state)
{
    struct roots_options o = {.save = files_dir};
    return files_begin_in_memory(state) != 0 || roots_open(&roots, &o, NULL) != 0;
}

int saving_clean(void **state)
{
    roots_close(roots);
    return files_end(state) | (mem_live() != 0);
}
