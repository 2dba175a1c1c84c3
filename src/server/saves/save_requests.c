// Serves the requests about saves: SAVE_TURN, SAVE, MARK and SAVE_END, each of which may
// be repeated. See save.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/moves/stream.h"
#include "server/rows/place.h"
#include "server/rows/tables.h"
#include "server/saves/save_writer.h"
#include "server/shard_internal.h"
#include "server/told.h"

void save_remember(struct saves *x, uint64_t save, bool committed)
{
    uint32_t at = x->n_ended++ % SAVES_ENDED;
    x->ended[at].save = save;
    x->ended[at].committed = committed;
}

static bool has_ended(const struct saves *x, uint64_t save, bool *ret_committed)
{
    uint32_t n = x->n_ended < SAVES_ENDED ? x->n_ended : SAVES_ENDED;
    for (uint32_t i = 0; i < n; i++)
        if (x->ended[i].save == save) {
            *ret_committed = x->ended[i].committed;
            return true;
        }
    return false;
}

int saves_get_ended(const struct saves *x, struct buf *to)
{
    uint64_t n = x->n_ended < SAVES_ENDED ? x->n_ended : SAVES_ENDED;
    TRY(stream_add_u64s(to, &n, 1));
    for (uint32_t i = x->n_ended - (uint32_t)n; i != x->n_ended; i++) {
        uint64_t save[2] = {x->ended[i % SAVES_ENDED].save,
                            x->ended[i % SAVES_ENDED].committed};
        TRY(stream_add_u64s(to, save, 2));
    }
    return 0;
}

int saves_take_ended(struct saves_ended *ret, struct stream *x, struct err *e)
{
    if (!stream_u64s(x, &ret->n, 1) || ret->n > SAVES_ENDED)
        return stream_damaged(e);
    ret->saves = stream_take(x, ret->n, 2 * sizeof(*ret->saves));
    return ret->saves != NULL || ret->n == 0 ? 0 : stream_damaged(e);
}

void saves_learn_ended(struct shard *s, const struct saves_ended *ended)
{
    const struct save_run *r = s->saves.run;
    for (uint64_t i = 0; i < ended->n; i++) {
        uint64_t save = ended->saves[2 * i];
        bool committed;
        if (has_ended(&s->saves, save, &committed) || (r != NULL && r->id == save))
            continue;
        save_remember(&s->saves, save, ended->saves[2 * i + 1] != 0);
        save_drop_marks(s, save);
        pending_wake(s, WANTS_CUT);
    }
}

// Returns whether this shard has no partition of some space. It then need not have the
// tables of that space.
static bool lacks_a_space(const struct shard *s)
{
    for (int space = 0; space < WIRE_SPACES; space++) {
        uint32_t p = 0, n = (uint32_t)1 << s->bits;
        while (p < n && roles_of(&s->roles, (enum wire_space)space, p) == ROLE_AWAY)
            p++;
        if (p == n)
            return true;
    }
    return false;
}

// Reads the tables of a save from the list in the request. The list is the same for all
// loops, so this loop may lack some of the tables; the client checks that each table is
// in the save (client/saves.c).
static int read_tables(const struct shard *s, struct save_run *r, struct wire_text list,
                       struct err *e)
{
    struct wire_save_table x;
    int more;
    r->all = list.n == 0;
    while ((more = wire_next_save_table(&list, &x)) > 0)
        if (tables_find(s, x.table, NULL) != NULL || !lacks_a_space(s))
            TRY(save_add_run_table(s, r, x.table, e));
    return more == 0
               ? 0
               : err_set(e, TUG_EUSAGE, "the list of the save's tables is cut short");
}

// Sets the members of the save_run from the request SAVE.
static int run_fill(const struct shard *s, const struct msg_save *m, struct save_run *r,
                    struct err *e)
{
    r->mode = (enum save_mode)m->mode;
    r->level = m->level;
    r->marked = m->marked != 0;
    // With replicas and without a mark, the client ends the day (tug_save).
    r->ends_day = m->mode == SAVE_DAY && (s->chain == NULL || r->marked);
    r->clock = m->clock;
    r->roster = m->roster;
    r->newest = m->newest != 0 ? m->newest : UINT64_MAX;
    r->owners = m->owners;
    r->parent = m->parent;
    r->parent_published = m->published;
    r->since = s->now;
    if (m->mode > SAVE_DAY || m->level > 22)
        return err_set(e, TUG_EUSAGE, "a save of mode %u at level %u is not known",
                       m->mode, m->level);
    if (m->path.n == 0 || m->path.n >= FILE_PATH_MAX ||
        memchr(m->path.data, '\0', m->path.n) != NULL)
        return err_set(e, TUG_EUSAGE, "a save's path is empty or too long");
    memcpy(r->path, m->path.data, m->path.n);
    r->path[m->path.n] = '\0';
    TRY(roots_check_save(s->o.roots, r->path, &r->root, e));
    return read_tables(s, r, m->tables, e);
}

static int take_turn(struct shard *s, const struct shard_request *q, uint64_t save,
                     struct err *e)
{
    struct save_run *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, "a save");
    assert(s->saves.run == NULL || s->saves.run->state == SAVE_FAILED);
    int rc = 0;
    // If there is a previous save, it has failed, and its client has not sent SAVE_END.
    if (s->saves.run != NULL)
        rc = save_end_cuts(s, s->saves.run, false, e);
    if (rc != 0) {
        mem_free(r);
        return rc;
    }
    if (s->saves.run != NULL)
        save_remember(&s->saves, s->saves.run->id, false);
    save_run_free(s);
    r->id = save;
    r->asker = q->peer->session;
    r->state = SAVE_TURN;
    r->since = r->seen = r->moved = r->due = s->now;
    s->saves.run = r;
    return 0;
}

// Starts the current save. If it is refused, the next save gets its turn.
static void save_requests_start(struct shard *s, const struct shard_request *q,
                                struct err *e)
{
    struct save_run *r = s->saves.run;
    assert(r->state == SAVE_TURN && r->n == 0);
    if (run_fill(s, &q->m->save, r, e) != 0) {
        save_run_free(s);
        save_wake_all(s);
        return;
    }
    r->state = SAVE_WAITS;
    saves_look(s);
}

// Returns GOES_ON if the save is the current one. Also returns GOES_ON, with the reason
// in *e, if the save can never become the current one. Otherwise returns the outcome for
// which the request waits.
static enum outcome turn_of(struct shard *s, const struct shard_request *q, uint64_t save,
                            struct err *e)
{
    const struct save_run *r = s->saves.run;
    bool committed;
    if (q->peer->session == 0)
        err_set(e, TUG_EUSAGE, "only a node that has joined the cluster can save");
    else if (has_ended(&s->saves, save, &committed))
        err_set(e, TUG_EIO, "save %llu has ended", (unsigned long long)save);
    else if (r != NULL && r->id == save && r->asker != q->peer->session)
        err_set(e, TUG_EUSAGE, "save %llu belongs to another node",
                (unsigned long long)save);
    else if (r != NULL && r->id != save && r->state != SAVE_FAILED)
        return WANTS_SAVED;
    else if (r == NULL || r->id != save)
        take_turn(s, q, save, e);
    if (e->code == 0 && s->saves.run->state == SAVE_FAILED)
        *e = s->saves.run->why;
    return GOES_ON;
}

enum outcome save_turn_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    if (turn_of(s, q, q->m->save_turn.save, &e) == WANTS_SAVED)
        return WANTS_SAVED;
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else
        shard_ok(s, q, 0);
    return ANSWERED;
}

static void answer(struct shard *s, const struct shard_request *q,
                   const struct save_run *r)
{
    struct buf files = BUF_INIT(WIRE_BYTES_MAX), config = BUF_INIT(WIRE_TEXT_MAX);
    struct msg_saved m = {.save = r->id, .step = r->step, .published = r->published};
    assert(r->state == SAVE_WRITTEN);
    struct err e = {0};
    int rc = 0;
    for (uint32_t i = 0; i < r->n && rc == 0; i++) {
        const struct rows_info *x = &r->infos[i];
        struct wire_saved_file f = {.table = r->tables[i].id,
                                    .name = wire_text(r->tables[i].file),
                                    .rows = x->rows,
                                    .extras = x->extras,
                                    .gone = x->gone,
                                    .bytes = x->bytes,
                                    .checksum = x->checksum};
        buf_clear(&config);
        rc = table_config_print(&save_table_at(s, r, i)->spec.config, &config);
        f.config = (struct wire_text){config.data, (uint32_t)config.len};
        if (rc == 0)
            rc = wire_put_saved_file(&files, &f);
    }
    // The answer may wait for the replicas, so it has memory of its own.
    struct van_release release;
    void *memory = rc == 0 ? pool_take(s->pool, files.len + 1, &release) : NULL;
    if (memory != NULL) {
        memcpy(memory, files.data, files.len);
        m.files = (struct wire_text){memory, (uint32_t)files.len};
        shard_send(s, q, MSG_SAVED, &m, &release, files.len);
    } else {
        err_nomem(&e, "the list of a save's contents");
        shard_refuse(s, q, &e);
    }
    buf_free(&files);
    buf_free(&config);
}

enum outcome save_serve(struct shard *s, struct shard_request *q)
{
    struct err e = {0};
    if (turn_of(s, q, q->m->save.save, &e) == WANTS_SAVED)
        return WANTS_SAVED;
    if (e.code == 0 && s->saves.run->state == SAVE_TURN)
        save_requests_start(s, q, &e);
    struct save_run *r = s->saves.run;
    if (e.code == 0 && r->state == SAVE_FAILED)
        e = r->why;
    if (e.code == 0 && r->state != SAVE_WRITTEN)
        return WANTS_SAVED;
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    if (!r->told)
        told_done(s, q);
    r->told = true;
    if (s->chain != NULL)
        chain_is_about(s, ABOUT_LED, WIRE_SPACE_SPARSE, NULL);
    answer(s, q, r);
    return ANSWERED;
}

static int end_run(struct shard *s, const struct msg_save_end *m, struct err *e)
{
    struct save_run *r = s->saves.run;
    bool committed = m->committed != 0;
    assert(r->id == m->save);
    if (committed && r->state == SAVE_FAILED)
        return err_copy(e, &r->why);
    if (committed && r->state != SAVE_WRITTEN)
        return err_set(e, TUG_EUSAGE, "save %llu is not written yet",
                       (unsigned long long)r->id);
    // From here on no rows are written any more, even if save_end_cuts fails
    // below for lack of memory.
    if (!committed) {
        save_stop_writer(s, r);
        if (r->state != SAVE_FAILED)
            err_set(&r->why, TUG_EIO, "save %llu was given up",
                    (unsigned long long)r->id);
        save_note_end(s, r, false);
        r->state = SAVE_FAILED;
    }
    r->checksum = m->checksum;
    TRY(save_end_cuts(s, r, committed, e));
    save_note_end(s, r, committed);
    for (uint32_t i = 0; i < r->n && committed; i++)
        if (r->mode == SAVE_BASE || r->mode == SAVE_DELTA)
            store_set_published_by(save_table_at(s, r, i)->store, m->checksum);
    save_drop_marks(s, r->id);
    save_remember(&s->saves, r->id, committed);
    save_run_free(s);
    save_wake_all(s);
    for (uint32_t i = 0; i < s->n_tables; i++)
        background_again(s, i);
    return 0;
}

enum outcome save_end_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_save_end *m = &q->m->save_end;
    const struct save_run *r = s->saves.run;
    struct err e = {0};
    bool known, committed = false;
    known = has_ended(&s->saves, m->save, &committed);
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE, "only a node that has joined the cluster can end a save");
    else if (r != NULL && r->id == m->save && r->asker != q->peer->session)
        err_set(&e, TUG_EUSAGE, "save %llu belongs to another node",
                (unsigned long long)m->save);
    else if (r != NULL && r->id == m->save)
        end_run(s, m, &e);
    else if (m->committed && !committed)
        err_set(&e, TUG_EUSAGE, "save %llu %s", (unsigned long long)m->save,
                known ? "was given up" : "is not known");
    else if (!known)
        // If the request SAVE arrives later, it will be refused.
        save_remember(&s->saves, m->save, false);
    // If this shard dies, the next leaders of its partitions know what was published.
    if (s->chain != NULL)
        chain_is_about(s, ABOUT_LED, WIRE_SPACE_SPARSE, NULL);
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else
        shard_ok(s, q, 0);
    return ANSWERED;
}

static size_t marks_of(const struct saves *x, uint64_t session)
{
    size_t n = 0, cursor = 0;
    while (marks_next(&x->marks, session, &cursor) != NULL)
        n++;
    return n;
}

static int add_mark(struct shard *s, uint64_t save, uint64_t session, uint64_t saver,
                    struct err *e)
{
    struct saves *x = &s->saves;
    const struct save_run *r = x->run;
    bool committed;
    if (marks_has(&x->marks, save, session) || has_ended(x, save, &committed) ||
        (r != NULL && r->id == save && r->state != SAVE_WAITS && r->state != SAVE_TURN))
        return 0;
    if (marks_of(x, session) == SAVES_MARKS_EACH)
        return err_set(e, TUG_EUSAGE,
                       "the session has marked %d saves that were never requested",
                       SAVES_MARKS_EACH);
    int rc = marks_add(&x->marks, &(struct save_mark){save, session, saver, s->now});
    if (rc == TUG_EIO)
        return err_because(e, rc, REASON_NO_ROOM, 0,
                           "no room now for one more mark of a save (--memory)");
    if (rc != 0)
        return err_nomem(e, "the marks of a save");
    x->marks_due = clock_earlier(x->marks_due, s->now + save_timeout(s));
    if (saver != 0 && roster_session_over(member_roster(s->member), saver))
        x->marks_due = s->now;
    saves_look(s);
    return 0;
}

enum outcome mark_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_mark *m = &q->m->mark;
    struct err e = {0};
    // A mark that was sent under an older placement did not reach loops
    // that own partitions only since a later placement, and the save would
    // wait there for the mark.
    enum outcome outcome = place_check_all(s, q, m->epoch);
    if (outcome != GOES_ON)
        return outcome;
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE,
                "only a node that has joined the cluster can mark a save");
    else
        add_mark(s, m->save, m->session, m->saver, &e);
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else
        shard_ok(s, q, 0);
    return ANSWERED;
}
