// Requests about saves: turns, saves, marks, ends of saves, loads.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"
#include "os/below.h"

struct save_wanted {
    struct msg_save_turn turn;
    struct msg_save message;
    struct save_manifest *into;
    struct buf tables; // SAVE_TABLE records, to which the message points
    bool only_turn;    // the request is client_save_turn
    char path[FILE_PATH_MAX];
};

struct load_wanted {
    struct msg_load message;
    char path[FILE_PATH_MAX], name[CONFIG_NAME_MAX];
};

static int copy_text(char *to, size_t max, const char *text, const char *what,
                     struct err *e)
{
    size_t n = strlen(text);
    if (n >= max)
        return err_set(e, TUG_EUSAGE, "%s of %zu bytes is too long", what, n);
    memcpy(to, text, n + 1);
    return 0;
}

static int save_fill(struct save_wanted *w, const struct client_save *s,
                     struct save_manifest *into, struct err *e)
{
    w->into = into;
    TRY(copy_text(w->path, sizeof(w->path), s->path, "the path of a save", e));
    for (size_t i = 0; i < s->n; i++) {
        struct wire_save_table x = {.table = s->tables[i]};
        if (wire_put_save_table(&w->tables, &x) != 0)
            return err_nomem(e, "the tables of a save");
    }
    w->message = (struct msg_save){
        .save = s->id,
        .mode = (uint8_t)s->mode,
        .level = (uint8_t)s->zstd,
        .marked = s->marked,
        .clock = s->clock,
        .roster = s->roster,
        .newest = s->newest,
        .parent = into->parent_checksum,
        .published = into->parent_published,
        .path = wire_text(w->path),
        .tables = {w->tables.data, (uint32_t)w->tables.len},
    };
    return 0;
}

static void save_free(void *own)
{
    struct save_wanted *w = own;
    buf_free(&w->tables);
    mem_free(w);
}

static struct save_wanted *save_wanted(struct err *e)
{
    struct save_wanted *w = mem_zalloc(sizeof(*w));
    if (w == NULL)
        err_nomem(e, "a save");
    else
        w->tables = BUF_INIT(WIRE_BYTES_MAX);
    return w;
}

static client_ts save_begins(struct client *c, struct save_wanted *w, struct err *e)
{
    struct request *r = request_new(c, &request_save, &request_no_table, e);
    if (r == NULL) {
        save_free(w);
        return 0;
    }
    r->own = w;
    w->turn.save = w->message.save;
    return request_begin(r, &w->turn);
}

client_ts client_save_turn(struct client *c, uint64_t id, struct err *e)
{
    struct save_wanted *w = save_wanted(e);
    if (w == NULL)
        return 0;
    w->only_turn = true;
    w->message.save = id;
    return save_begins(c, w, e);
}

client_ts client_save(struct client *c, const struct client_save *s,
                      struct save_manifest *into, struct err *e)
{
    struct save_wanted *w = save_wanted(e);
    if (w == NULL)
        return 0;
    if (save_fill(w, s, into, e) != 0) {
        save_free(w);
        return 0;
    }
    // The loops compare `owners` with a roster that is as new as this client's.
    if (w->message.roster < member_roster(c->member)->version)
        w->message.roster = member_roster(c->member)->version;
    return save_begins(c, w, e);
}

static void save_end_ended(struct request *r)
{
    if (r->client->hold.save == r->u.m.save_end.save)
        hold_save(r->client, 0);
}

REQUEST_KIND(save_end, "the end of a save", MSG_SAVE_END, MSG_OK, slice_cut_everywhere,
             .ended = save_end_ended, .lets_dead_be = true);

client_ts client_save_end(struct client *c, uint64_t id, bool committed,
                          uint64_t checksum, struct err *e)
{
    struct request *r = request_new(c, &request_save_end, &request_no_table, e);
    if (r == NULL)
        return 0;
    r->u.m.save_end = (struct msg_save_end){
        .save = id, .committed = committed, .checksum = checksum};
    return request_begin(r, &r->u.m.save_end);
}

static int begin_mark(struct request *r)
{
    TRY(slice_cut_everywhere(r));
    r->client->marking = r;
    return 0;
}

static int send_mark(struct slice *s)
{
    struct msg_mark *m = &s->request->u.m.mark;
    m->epoch = s->peer->client->epoch;
    return request_send(s, m);
}

REQUEST_KIND(mark, "a mark", MSG_MARK, MSG_OK, begin_mark, .send = send_mark,
             .stands_alone = true);

client_ts client_mark(struct client *c, uint64_t id, uint64_t saver, struct err *e)
{
    struct request *r = request_new(c, &request_mark, &request_no_table, e);
    if (r == NULL)
        return 0;
    r->u.m.mark = (struct msg_mark){
        .save = id, .session = member_session(c->member), .saver = saver};
    r->whole = true;
    return request_begin(r, NULL);
}

client_ts client_load(struct client *c, uint32_t table, const char *path,
                      uint64_t checksum, const char *name, bool clear, uint64_t *ret_rows,
                      struct err *e)
{
    const struct table_spec *spec = request_known(c, table, e);
    struct load_wanted *w = spec != NULL ? mem_zalloc(sizeof(*w)) : NULL;
    if (spec != NULL && w == NULL)
        err_nomem(e, "a load");
    if (w == NULL ||
        copy_text(w->path, sizeof(w->path), path, "the path of a save", e) != 0 ||
        copy_text(w->name, sizeof(w->name), name, "the name of a table", e) != 0) {
        mem_free(w);
        return 0;
    }
    struct request *r = request_new(c, &request_load, spec, e);
    if (r == NULL) {
        mem_free(w);
        return 0;
    }
    w->message = (struct msg_load){.table = table,
                                   .clear = clear,
                                   .path = wire_text(w->path),
                                   .checksum = checksum,
                                   .name = wire_text(w->name)};
    r->own = w;
    r->sum = ret_rows;
    r->whole = member_roster(c->member)->replicas > 1;
    return request_begin(r, NULL);
}

static int send_load(struct slice *s)
{
    struct load_wanted *w = s->request->own;
    w->message.epoch = s->peer->client->epoch;
    w->message.number = s->request->number;
    w->message.low = s->request->client->admins.low;
    return request_send(s, &w->message);
}

REQUEST_KIND(load, "a load of", MSG_LOAD, MSG_OK, slice_cut_sum, .send = send_load,
             .take = request_add, .free = mem_free, .numbers = NUMBERS_ADMINS,
             .takes_long = true, .blocks = true, .holds = true);

client_ts client_below(struct client *c, enum wire_root kind, const char *path,
                       char ret[FILE_PATH_MAX], struct err *e)
{
    struct request *r = request_new(c, &request_below, &request_no_table, e);
    if (r == NULL)
        return 0;
    r->u.below = (struct below_wanted){.kind = kind, .path = path, .ret = ret};
    return request_begin(r, &r->u.below.message);
}

// Functions of saves. A save first waits for its turn at the first loop; then all loops
// write.

static struct save_table *table_in(struct save_manifest *m, uint32_t partition_bits,
                                   const struct wire_saved_file *f, struct err *e)
{
    for (size_t i = 0; i < m->n_tables; i++)
        if (m->tables[i].id == f->table)
            return &m->tables[i];
    struct msg_table table = {.table = f->table, .config = f->config};
    struct table_spec spec;
    if (f->config.n == 0 || spec_decode(&spec, &table, e) != 0) {
        err_set(e, TUG_EDATA, "its mode of table %u is unknown", f->table);
        return NULL;
    }
    return save_add_table(m, f->table, &spec.config, partition_bits, e);
}

static int add_file(struct save_manifest *m, uint32_t partition_bits,
                    const struct wire_saved_file *f, struct err *e)
{
    struct rows_info info = {.rows = f->rows,
                             .extras = f->extras,
                             .gone = f->gone,
                             .bytes = f->bytes,
                             .checksum = f->checksum};
    char name[SAVE_FILE_MAX];
    if (f->name.n == 0 || f->name.n >= sizeof(name) ||
        memchr(f->name.data, '\0', f->name.n) != NULL)
        return err_set(e, TUG_EDATA, "a file of table %u has no name", f->table);
    memcpy(name, f->name.data, f->name.n);
    name[f->name.n] = '\0';
    struct save_table *t = table_in(m, partition_bits, f, e);
    return t != NULL ? save_add_file(t, name, &info, e) : e->code;
}

// Partitions that have replicas get other owners when a server dies. Then some rows may be
// in no file, or in two.
static int save_placed(struct request *r)
{
    struct save_wanted *w = r->own;
    const struct roster *x = member_roster(r->client->member);
    uint64_t owners = x->replicas > 1 ? roster_owners_sum(x) : 0;
    if (w->message.owners == 0 || w->message.owners == owners)
        return 0;
    return err_because(&r->why, TUG_EIO, REASON_SAVE_AGAIN, 0,
                       "save %llu was given up, because other servers lead partitions "
                       "than when it began; it must be made again",
                       (unsigned long long)w->message.save);
}

static int begin_writing(struct request *r)
{
    struct save_wanted *w = r->own;
    r->type = MSG_SAVE;
    r->answer = MSG_SAVED;
    r->message = &w->message;
    return slice_cut_everywhere(r);
}

static int begin_save(struct request *r)
{
    struct save_wanted *w = r->own;
    const struct roster *x = member_roster(r->client->member);
    w->message.owners = x->replicas > 1 ? roster_owners_sum(x) : 0;
    return bug_in(r->client->o.member.bugs, WITHOUT_TURNS) && !w->only_turn
               ? begin_writing(r)
               : slice_cut_first(r);
}

// Checks that the save has all requested tables, because a loop leaves out tables that it
// does not know but that may belong to another space.
static int check_saved(struct request *r, const struct save_wanted *w)
{
    struct wire_text list = w->message.tables;
    struct wire_save_table x;
    while (wire_next_save_table(&list, &x) > 0) {
        size_t i = 0;
        while (i < w->into->n_tables && w->into->tables[i].id != x.table)
            i++;
        if (i == w->into->n_tables)
            return err_because(&r->why, TUG_EUSAGE, REASON_TABLE_UNKNOWN, 0,
                               "there is no table %u on any server: make the table first",
                               x.table);
    }
    return 0;
}

static int save_answered(struct request *r)
{
    const struct save_wanted *w = r->own;
    if (r->type == MSG_SAVE)
        return check_saved(r, w);
    if (w->only_turn)
        return 0;
    if (begin_writing(r) != 0)
        return err_nomem(&r->why, "a request's slices");
    request_send_slices(r, van_now(r->client->van));
    return 0;
}

static bool take_saved(struct slice *s, const struct van_message *is)
{
    const struct msg_saved *m = &is->m->saved;
    struct request *r = s->request;
    const struct save_wanted *w = r->own;
    if (is->type == MSG_OK) // the save has its turn
        return true;
    if (m->save != w->message.save)
        return false;
    struct save_manifest *into = w->into;
    struct wire_text list = m->files;
    struct wire_saved_file f;
    bool first = into->n_tables == 0;
    int more;
    while ((more = wire_next_saved_file(&list, &f)) > 0)
        if (add_file(into, r->client->partition_bits, &f, &r->why) != 0)
            return false;
    if (more < 0)
        err_set(&r->why, TUG_EDATA, "its list of files is cut short");
    if (m->step > into->step)
        into->step = m->step;
    if (m->files.n > 0) // a loop without partitions of these tables has no files of them
        into->published = first || into->published == m->published ? m->published : 0;
    return more == 0;
}

// The placement stays until the end of the save. The client has to tell the servers when
// the save ends.
static void save_ended(struct request *r)
{
    const struct save_wanted *w = r->own;
    hold_save(r->client, r->rc == 0 ? w->message.save : 0);
}

REQUEST_KIND(save, "a save", MSG_SAVE_TURN, MSG_OK, begin_save, .take = take_saved,
             .answered = save_answered, .ended = save_ended, .free = save_free,
             .placed = save_placed, .takes_long = true, .holds = true);

// ---------------------------------------------------------------- paths below roots

static bool serves(enum wire_root wanted, uint8_t kind)
{
    return kind == wanted || (wanted == WIRE_ROOT_LOAD && kind == WIRE_ROOT_SAVE);
}

// Finds the root in the list below which the path lies. Copies the root to `root`, and
// returns the rest of the path. Returns NULL if there is no such root, and appends the
// names of the roots to *others.
static const char *rest_below(const struct below_wanted *w, struct wire_text list,
                              char root[FILE_PATH_MAX], struct buf *others)
{
    struct wire_root_dir d;
    while (wire_next_root_dir(&list, &d) > 0) {
        if (!serves(w->kind, d.kind) || d.path.n >= FILE_PATH_MAX || d.path.n == 0 ||
            memchr(d.path.data, '\0', d.path.n) != NULL)
            continue;
        memcpy(root, d.path.data, d.path.n);
        root[d.path.n] = '\0';
        const char *rest = below_rest(root, w->path);
        if (rest != NULL)
            return rest;
        buf_printf(others, "%s'%s'", others->len > 0 ? ", " : "", root);
    }
    return NULL;
}

static void say_no_root(const struct slice *s, const char *others)
{
    static const char *const options[] = {[WIRE_ROOT_SAVE] = "--save-root",
                                          [WIRE_ROOT_LOAD] = "--load-root",
                                          [WIRE_ROOT_COLD] = "--cold-root"};
    const struct below_wanted *w = &s->request->u.below;
    struct err *e = &s->request->why;
    char name[ROSTER_NAME_MAX];
    peer_name(s->peer, name);
    if (others == NULL || *others == '\0')
        err_set(e, TUG_EUSAGE,
                "%s has no %s: start it with %s DIR, where '%s' is below DIR", name,
                options[w->kind], options[w->kind], w->path);
    else
        err_set(e, TUG_EUSAGE,
                "'%s' is not below %s, and %s may use nothing else: give a directory "
                "below it, or start the servers with another %s",
                w->path, others, name, options[w->kind]);
}

static bool take_roots(struct slice *s, const struct van_message *m)
{
    struct below_wanted *w = &s->request->u.below;
    struct err *e = &s->request->why;
    char root[FILE_PATH_MAX];
    struct buf others = BUF_INIT(ERR_TEXT_MAX);
    const char *rest = rest_below(w, m->m->roots_are.roots, root, &others);
    bool differs = rest != NULL && w->found && strcmp(rest, w->ret) != 0;
    if (rest == NULL)
        say_no_root(s, buf_str(&others));
    else if (differs)
        err_set(
            e, TUG_EUSAGE,
            "the servers have different roots: '%s' is '%s' for one and '%s' for another",
            w->path, w->ret, rest);
    buf_free(&others);
    if (rest == NULL || differs)
        return false;
    memcpy(w->ret, rest, strlen(rest) + 1);
    w->found = true;
    return true;
}

static int below_answered(struct request *r)
{
    const struct below_wanted *w = &r->u.below;
    return w->found
               ? 0
               : err_set(&r->why, TUG_EIO,
                         "all servers that could say where '%s' is have died: try again "
                         "when servers have joined",
                         w->path);
}

REQUEST_KIND(below, "a question", MSG_ROOTS, MSG_ROOTS_ARE, slice_cut_everywhere,
             .take = take_roots, .answered = below_answered, .lets_dead_be = true);
