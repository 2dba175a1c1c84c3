// Saves: their cuts, reading rows out, and deadlines. See save.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/saves/save.h"

#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "save/save.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/moves/record.h"
#include "server/rows/tables.h"
#include "server/saves/save_writer.h"
#include "server/shard_internal.h"
#include "store/cut.h"

// The number of bytes of rows that are read out at a time. This takes less time than
// SAVE_SLICE_NS of background.c.
enum { BLOCK_BYTES = 64 << 10 };
#define MISSING_TIMEOUT_NS (60 * SECOND_NS)
#define HOLD_TIMEOUT_NS (600 * SECOND_NS)
#define STUCK_NS (10 * SECOND_NS)

uint64_t save_timeout(const struct shard *s)
{
    return s->o.save_timeout_ns != 0 ? s->o.save_timeout_ns : MISSING_TIMEOUT_NS;
}

struct shard_table *save_table_at(const struct shard *s, const struct save_run *r,
                                  uint32_t i)
{
    assert(i < r->n && s->tables[r->tables[i].id] != NULL);
    return s->tables[r->tables[i].id];
}

static bool is_of(void *ctx, const struct save_mark *mark)
{
    return mark->save == *(const uint64_t *)ctx;
}

void save_drop_marks(struct shard *s, uint64_t save)
{
    marks_remove(&s->saves.marks, is_of, &save);
}

void save_wake_all(struct shard *s)
{
    pending_wake(s, WANTS_CUT);
    pending_wake(s, WANTS_ROOM);
    pending_wake(s, WANTS_TURN);
    pending_wake(s, WANTS_SAVED);
}

int save_end_cuts(struct shard *s, struct save_run *r, bool committed, struct err *e)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct shard_table *t = save_table_at(s, r, i);
        if (!r->tables[i].cut)
            continue;
        bool published = committed && (r->mode == SAVE_BASE || r->mode == SAVE_DELTA);
        assert(cut_going(t->store));
        if (published)
            TRY(chain_reserve_published(s, t, e));
        TRY(cut_end(t->store, committed, e));
        r->tables[i].cut = false;
        if (published)
            chain_note_published(s, t, r->checksum);
        if (committed)
            background_publish(s, t);
        background_again(s, t->spec.id);
    }
    return 0;
}

// Stops the writer. If the disk does not answer, this does not block the loop.
void save_stop_writer(const struct shard *s, struct save_run *r)
{
    if (r->state == SAVE_CUTS && s->now - r->moved > STUCK_NS)
        save_writer_abandon(r->writer);
    else
        save_writer_close(r->writer);
    r->writer = NULL;
}

uint64_t save_bytes(const struct save_run *r)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < r->n; i++)
        bytes += r->infos[i].bytes;
    return bytes;
}

void save_note_end(struct shard *s, const struct save_run *r, bool written)
{
    struct save_ended *x = &s->saves.last;
    if (r->state == SAVE_FAILED)
        return;
    s->saves.made += written;
    s->saves.failed += !written;
    *x = (struct save_ended){.known = true,
                             .written = written,
                             .bytes = written ? save_bytes(r) : 0,
                             .took_ns = s->now - r->since,
                             .unix_ns = clock_unix_ns(),
                             .why = r->why};
    memcpy(x->path, r->path, sizeof(x->path));
}

// Gives the current save up. Returns false if a cut could not be ended for lack of
// memory; the next SAVE_END, or the next save, then tries to end the cut again.
static bool give_up(struct shard *s, const struct err *why)
{
    struct save_run *r = s->saves.run;
    assert(why->code != 0); // the client gets this error
    r->why = *why;
    save_note_end(s, r, false);
    save_stop_writer(s, r);
    r->state = SAVE_FAILED;
    bool ended = save_end_cuts(s, r, false, NULL) == 0;
    save_drop_marks(s, r->id);
    save_wake_all(s);
    for (uint32_t i = 0; i < s->n_tables; i++)
        background_again(s, i);
    return ended;
}

void save_run_free(struct shard *s)
{
    struct save_run *r = s->saves.run;
    if (r == NULL)
        return;
    save_stop_writer(s, r);
    mem_free(r);
    s->saves.run = NULL;
}

void saves_close(struct shard *s)
{
    save_run_free(s);
    marks_fini(&s->saves.marks);
    s->saves = (struct saves){0};
}

static bool takes_part(const struct save_run *r, const struct shard_table *t)
{
    if (r->all)
        return true;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->tables[i].id == t->spec.id)
            return true;
    return false;
}

static bool must_mark(const struct shard *s, const struct save_run *r,
                      const struct roster_node *n)
{
    return n->role == WIRE_WORKER && n->alive && n->session <= r->newest &&
           !marks_has(&s->saves.marks, r->id, n->session);
}

// Returns whether a living worker has not marked. It is called after each mark. The
// first nodes of the roster for which the save need not wait are remembered
// (save_run.looked) and not checked again, so all calls together take time in proportion
// to the length of the roster.
static bool marks_missing(const struct shard *s, struct save_run *r)
{
    const struct roster *x = member_roster(s->member);
    if (!r->marked)
        return false;
    if (r->looked_roster != x->version)
        r->looked = 0;
    r->looked_roster = x->version;
    while (r->looked < x->n_nodes && !must_mark(s, r, &x->nodes[r->looked]))
        r->looked++;
    return r->looked < x->n_nodes;
}

// Returns whether this shard's roster is older than the roster of the save. An older
// roster may lack workers that must mark.
static bool roster_missing(const struct shard *s, const struct save_run *r)
{
    return member_roster(s->member)->version < r->roster &&
           !bug_in(s->o.member.bugs, WITHOUT_ROSTER_OF_SAVES);
}

// Returns whether other loops lead partitions than in the roster of the client that saves.
// The files of all loops together would then lack partitions, or have some twice.
static bool owners_differ(const struct shard *s, const struct save_run *r)
{
    return r->owners != 0 && !roster_missing(s, r) &&
           roster_owners_sum(member_roster(s->member)) != r->owners;
}

static void give_up_for_owners(struct shard *s, struct save_run *r)
{
    struct err e;
    err_because(&e, TUG_EIO, REASON_SAVE_AGAIN, 0,
                "save %llu was given up, because other servers lead partitions than when "
                "it began; it must be made again",
                (unsigned long long)r->id);
    if (s->o.log != NULL)
        s->o.log(s->o.log_ctx, e.text);
    give_up(s, &e);
}

// A save whose files are written is complete in any case: they have the rows at one moment,
// and all replicas had these rows before the client got the answer.
void saves_follow(struct shard *s)
{
    struct save_run *r = s->saves.run;
    if (s->saves.marks.n > 0)
        s->saves.marks_due = s->now;
    if (r != NULL && r->state == SAVE_CUTS && owners_differ(s, r))
        give_up_for_owners(s, r);
    saves_look(s);
}

static void name_missing(const struct shard *s, const struct save_run *r, struct buf *to)
{
    const struct roster *x = member_roster(s->member);
    char name[ROSTER_NAME_MAX];
    for (uint32_t i = 0; i < x->n_nodes; i++)
        if (must_mark(s, r, &x->nodes[i]))
            buf_printf(to, "%s%s", to->len > 0 ? ", " : "",
                       roster_name(&x->nodes[i], name));
}

static struct shard_table *table_not_ready(const struct shard *s,
                                           const struct save_run *r)
{
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (t == NULL || !takes_part(r, t))
            continue;
        if (!background_free(t) || t->n_applied != 0 ||
            (t->spec.mode == WIRE_SYNC && sync_least(t) < r->clock))
            return t;
    }
    return NULL;
}

// Refuses a save of the rows before a batch (save_run.clock) that a sync
// table has already applied.
static int check_clock(const struct shard *s, const struct save_run *r, struct err *e)
{
    for (uint32_t i = 0; i < s->n_tables && r->clock != 0; i++) {
        const struct shard_table *t = s->tables[i];
        if (t != NULL && t->spec.mode == WIRE_SYNC && sync_most(t) > r->clock &&
            takes_part(r, t))
            return err_because(
                e, TUG_EUSAGE, REASON_SAVE_PASSED, sync_most(t),
                "the save's batch has passed: table '%s' is at batch %llu, "
                "and the save is to be made at batch %llu",
                t->spec.config.name, (unsigned long long)sync_most(t),
                (unsigned long long)r->clock);
    }
    return 0;
}

int save_add_run_table(const struct shard *s, struct save_run *r, uint32_t id,
                       struct err *e)
{
    if (tables_find(s, id, e) == NULL)
        return TUG_EUSAGE;
    if (r->n == SAVE_MAX_TABLES)
        return err_set(e, TUG_EUSAGE, "more than %d tables in a save", SAVE_MAX_TABLES);
    r->tables[r->n++] = (struct save_run_table){.id = id};
    return 0;
}

static int check_tables(struct shard *s, struct save_run *r, struct err *e)
{
    for (uint32_t i = 0; i < s->n_tables && r->all; i++)
        if (s->tables[i] != NULL)
            TRY(save_add_run_table(s, r, i, e));
    r->all = false;
    for (uint32_t i = 0; i < r->n; i++) {
        struct shard_table *t = tables_find(s, r->tables[i].id, e);
        if (t == NULL)
            return e->code;
        save_file_name(r->tables[i].file, t->spec.config.name, member_id(s->member));
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(r->tables[i].file, r->tables[k].file) == 0)
                return err_set(e, TUG_EUSAGE,
                               "tables %u and %u are both named '%s', so their files "
                               "would have the same names",
                               r->tables[k].id, t->spec.id, t->spec.config.name);
    }
    return 0;
}

static void wake_van(void *ctx)
{
    van_wake(ctx);
}

static int save_start(struct shard *s, struct save_run *r, struct err *e)
{
    struct save_writer_options o = {.level = r->level,
                                    .threaded = !s->o.without_threads,
                                    .wake = wake_van,
                                    .ctx = s->van};
    struct cut_options cut = {.mode = r->mode, .keeps_day = !r->ends_day};
    struct save_manifest on = {.mode = r->mode,
                               .parent_checksum = r->parent,
                               .parent_published = r->parent_published};
    assert(r->state == SAVE_WAITS && r->writer == NULL && r->at == 0);
    TRY(check_tables(s, r, e));
    TRY(save_writer_open(&r->writer, &o, e));
    for (uint32_t i = 0; i < r->n; i++) {
        struct shard_table *t = save_table_at(s, r, i);
        uint64_t by = store_published_by(t->store, NULL);
        r->published = i == 0 || r->published == by ? by : 0;
        TRY(save_check_parent(t->store, &on, e));
        if (r->ends_day)
            TRY(chain_reserve_places(s, t->spec.space, NULL, 0, sizeof(uint64_t), e));
        if (cut_begin(t->store, &cut, e) != 0)
            return err_wrap(e, "table '%s'", t->spec.config.name);
        r->tables[i].cut = true;
        if (!r->ends_day)
            continue;
        uint64_t table = t->spec.id;
        chain_note_places(s, RECORD_DAY, t->spec.space, NULL, 0, &table, sizeof(table));
        // The day ends here even if the save fails later, but rows that were already
        // copied to another shard have the old day.
        moves_break_led(s, t->spec.space, "a day ended");
        tables_touch_all(s, t);
        background_demote(s, t);
    }
    r->step = step_clock_sum(&s->steps);
    r->state = SAVE_CUTS;
    r->moved = s->now;
    return 0;
}

void saves_look(struct shard *s)
{
    struct save_run *r = s->saves.run;
    struct err e = {0};
    if (r == NULL || r->state != SAVE_WAITS)
        return;
    if (owners_differ(s, r)) {
        give_up_for_owners(s, r);
        return;
    }
    int rc = check_clock(s, r, &e);
    if (rc == 0 && (roster_missing(s, r) ||
                    (!bug_in(s->o.member.bugs, WITHOUT_MARKS) && marks_missing(s, r)) ||
                    table_not_ready(s, r) != NULL))
        return;
    if (rc == 0)
        rc = save_start(s, r, &e);
    if (rc != 0) {
        give_up(s, &e);
        return;
    }
    save_drop_marks(s, r->id);
    pending_wake(s, WANTS_CUT);
    for (uint32_t i = 0; i < r->n; i++)
        background_again(s, r->tables[i].id);
    background_wake(s);
}

bool saves_hold(const struct shard *s, const struct shard_table *t, uint64_t session)
{
    const struct saves *x = &s->saves;
    const struct save_mark *mark;
    size_t cursor = 0;
    while (!bug_in(s->o.member.bugs, WITHOUT_MARKS) &&
           (mark = marks_next(&x->marks, session, &cursor)) != NULL)
        if (x->run == NULL || x->run->id != mark->save || x->run->state == SAVE_TURN ||
            takes_part(x->run, t))
            return true;
    return false;
}

bool saves_stop_batch(const struct shard *s, const struct shard_table *t, uint64_t clock)
{
    const struct save_run *r = s->saves.run;
    return r != NULL && r->state == SAVE_WAITS && r->clock != 0 && r->clock == clock &&
           takes_part(r, t);
}

bool saves_work(const struct shard *s)
{
    const struct save_run *r = s->saves.run;
    return r != NULL && r->state == SAVE_CUTS && r->at < r->n &&
           save_writer_has_room(r->writer);
}

// Returns whether this shard owns the partition, and so writes its rows.
static bool is_mine(const struct shard *s, const struct shard_table *t,
                    uint32_t partition)
{
    const uint32_t *owners = member_roster(s->member)->owners[t->spec.space];
    return owners != NULL && owners[partition] == member_id(s->member);
}

static int read_block(struct shard *s, struct save_run *r, struct err *e)
{
    const struct shard_table *t = save_table_at(s, r, r->at);
    struct store *store = t->store;
    struct rows_block b;
    char path[FILE_PATH_MAX];
    assert(r->at < r->n && r->tables[r->at].cut);
    if (!r->open) {
        struct rows_shape shape = save_cut_shape(store);
        TRY(file_join(path, r->path, r->tables[r->at].file, e));
        TRY(save_writer_begin(r->writer, r->root, path, &shape, e));
        r->open = true;
    }
    TRY(cut_next(store, BLOCK_BYTES, &b, e));
    if (b.kind != ROWS_END)
        return b.n > 0 && is_mine(s, t, b.partition) ? save_writer_add(r->writer, &b, e)
                                                     : 0;
    r->open = false;
    r->at++;
    return save_writer_end(r->writer, e);
}

// Checks whether the files are written.
static void look_at_files(struct shard *s, struct save_run *r)
{
    struct err e = {0};
    size_t n;
    assert(r->state == SAVE_CUTS);
    if (save_writer_done(r->writer, r->infos, SAVE_MAX_TABLES, &n, &e) != 0) {
        err_wrap(&e, "save %llu", (unsigned long long)r->id);
        give_up(s, &e);
    } else if (n == r->n) {
        assert(r->at == r->n && !r->open);
        save_writer_close(r->writer);
        r->writer = NULL;
        r->state = SAVE_WRITTEN;
        r->moved = s->now;
        pending_wake(s, WANTS_SAVED);
    }
}

void saves_slice(struct shard *s, uint64_t ns)
{
    struct save_run *r = s->saves.run;
    struct err e = {0};
    uint64_t begun = clock_ns();
    int rc = 0;
    assert(r->state == SAVE_CUTS);
    r->moved = s->now;
    do {
        rc = read_block(s, r, &e);
    } while (rc == 0 && saves_work(s) && clock_ns() - begun < ns);
    pending_wake(s, WANTS_ROOM);
    if (rc != 0)
        give_up(s, &e);
    else
        look_at_files(s, r);
}

static bool is_here(const struct shard *s, uint64_t session)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        for (const struct shard_peer *p = s->peers[i]; p != NULL; p = p->next)
            if (p->session == session && !p->ended)
                return true;
    return false;
}

// Returns whether the session is over: the scheduler has declared its node dead, or the
// node has left.
static bool is_gone(const struct shard *s, uint64_t session)
{
    return roster_session_over(member_roster(s->member), session);
}

static void say_what_is_missing(const struct shard *s, const struct save_run *r,
                                struct err *e)
{
    struct buf names = BUF_INIT(ERR_TEXT_MAX);
    unsigned long long seconds = (s->now - r->since) / SECOND_NS;
    const struct shard_table *t = table_not_ready(s, r);
    if (r->marked)
        name_missing(s, r, &names);
    if (roster_missing(s, r))
        err_set(e, TUG_EIO,
                "save %llu has waited %llu s for the scheduler's newer roster",
                (unsigned long long)r->id, seconds);
    else if (names.len > 0)
        err_set(e, TUG_EIO, "save %llu has waited %llu s for the marks of %s",
                (unsigned long long)r->id, seconds, buf_str(&names));
    else
        err_set(e, TUG_EIO, "save %llu has waited %llu s for table '%s' (batch %llu)",
                (unsigned long long)r->id, seconds, t != NULL ? t->spec.config.name : "",
                (unsigned long long)(t != NULL ? sync_most(t) : 0));
    buf_free(&names);
}

// Returns whether a mark must be removed: its save has not begun in time, or will never
// begin because the saver is gone.
static bool expires(void *ctx, const struct save_mark *mark)
{
    struct shard *s = ctx;
    struct saves *x = &s->saves;
    bool waits = x->run != NULL && x->run->id == mark->save;
    if (!waits && mark->saver != 0 && is_gone(s, mark->saver))
        return true;
    uint64_t due = (waits ? s->now : mark->since) + save_timeout(s);
    if (due > s->now)
        x->marks_due = clock_earlier(x->marks_due, due);
    return due <= s->now;
}

static uint64_t expire_marks(struct shard *s)
{
    struct saves *x = &s->saves;
    size_t before = x->marks.n;
    if (x->marks_due > s->now)
        return x->marks_due;
    x->marks_due = VAN_NEVER;
    marks_remove(&x->marks, expires, s);
    if (x->marks.n < before)
        pending_wake(s, WANTS_CUT);
    return x->marks_due;
}

// Checks from time to time whether the client of the save is still connected, and gives
// the save up if it is not.
static void look_for_asker(struct shard *s, struct save_run *r)
{
    struct err e = {0};
    bool gone = is_gone(s, r->asker);
    r->due = s->now + clock_earlier(save_timeout(s) / 4, SECOND_NS);
    if (is_here(s, r->asker))
        r->seen = s->now;
    if (!gone && s->now - r->seen < save_timeout(s))
        return;
    err_set(&e, TUG_EIO, "save %llu: the node that asked for it %s %llu s",
            (unsigned long long)r->id,
            gone ? "has left or died; the save has taken" : "has had no link for",
            (unsigned long long)((s->now - (gone ? r->since : r->seen)) / SECOND_NS));
    if (!give_up(s, &e))
        return;
    save_remember(&s->saves, r->id, false);
    save_run_free(s);
}

// Returns when a save without progress is given up.
static uint64_t late_at(const struct shard *s, const struct save_run *r)
{
    switch (r->state) {
    case SAVE_TURN:
        return r->since + save_timeout(s);
    case SAVE_WAITS:
        return r->since + (r->marked ? save_timeout(s) : HOLD_TIMEOUT_NS);
    case SAVE_CUTS:
    case SAVE_WRITTEN:
        return r->moved + HOLD_TIMEOUT_NS;
    default:
        return VAN_NEVER;
    }
}

static void say_too_late(const struct shard *s, const struct save_run *r, struct err *e)
{
    unsigned long long id = r->id, seconds = (s->now - r->moved) / SECOND_NS;
    if (r->state == SAVE_TURN)
        err_set(e, TUG_EIO,
                "save %llu could begin %llu s ago, but the node that asked for it has "
                "not begun it",
                id, (unsigned long long)((s->now - r->since) / SECOND_NS));
    else if (r->state == SAVE_WAITS)
        say_what_is_missing(s, r, e);
    else if (r->state == SAVE_CUTS)
        err_set(e, TUG_EIO, "save %llu: its files have not grown for %llu s", id,
                seconds);
    else
        err_set(e, TUG_EIO, "save %llu is written, but was not committed for %llu s", id,
                seconds);
}

uint64_t saves_expire(struct shard *s)
{
    uint64_t next = expire_marks(s);
    struct save_run *r = s->saves.run;
    struct err e = {0};
    if (r != NULL && r->due <= s->now)
        look_for_asker(s, r);
    if ((r = s->saves.run) == NULL)
        return next;
    if (late_at(s, r) <= s->now) {
        say_too_late(s, r, &e);
        give_up(s, &e);
    } else if (r->state == SAVE_CUTS) {
        look_at_files(s, r);
        if (saves_work(s))
            background_wake(s);
    }
    return clock_earlier(clock_earlier(next, r->due), late_at(s, r));
}
