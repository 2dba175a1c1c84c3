// Saves of a shard: the rows of its tables as they are at one moment, written beside by a
// thread of their own while requests go on.
//
//   SAVE_TURN -> waits until no other save goes on
//   SAVE      -> waits for its moment: for the roster that it is of; with marks until
//                every living worker of that has marked, with a clock until the sync
//                tables have come so far; no admin operation goes on
//             -> cuts of all tables begin at once (store/cut.h)
//             -> blocks are read out in slices between requests, and handed to the writer
//             -> SAVED, with what is in each file
//   SAVE_END  -> cuts end: what was published counts, or nothing has happened
//
// A mark says: the worker's pushes so far are in the save, those behind it are not. A
// worker marks when all its pushes are acknowledged, and sends no other before the mark
// is (client_mark), so that pushes behind a mark are held until the moment. A mark may
// come before its save. Dead workers are not waited for.
//
// One save at a time: another one waits. All savers ask the same node for their turn
// before they ask the others, so that no two ever wait for each other.
//
// No part of it goes on for ever. A save is given up, with all its cuts, when its asker
// is gone or has been away for `save_timeout_ns`, when after its turn no SAVE comes for
// so long, or no marks do; and when its files do not grow, or its end is not said, for
// ten minutes. A saver waits for another one's end for at most ten minutes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVE_H
#define TUG_SERVER_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "save/save.h"
#include "server/marks.h"

enum { SAVES_MARKS_EACH = 16, SAVES_ENDED = 16 };

struct save_writer;

enum save_state {
    SAVE_TURN,    // its turn has come, but SAVE has not
    SAVE_WAITS,   // for its moment
    SAVE_CUTS,    // rows are read out and written
    SAVE_WRITTEN, // and synced
    SAVE_FAILED,
};

struct save_run_table {
    uint32_t id;
    bool cut; // its cut goes on
    char file[SAVE_FILE_MAX];
};

// One save, from SAVE to SAVE_END.
struct save_run {
    uint64_t id, asker; // session
    enum save_mode mode;
    int level;
    bool marked, all; // tables
    // How many nodes of that roster need not be waited for: see marks_missing.
    uint64_t looked_roster;
    uint32_t looked;
    uint64_t clock, step;
    uint64_t roster, newest; // see msg_save
    // The parent of a delta (save_check_parent), and the save that published the tables
    // before.
    uint64_t parent, parent_published, published;
    int root; // what `path` is below: the server's, see server/roots.h
    char path[FILE_PATH_MAX];
    enum save_state state;
    struct err why; // SAVE_FAILED
    // When it came; when its asker was here; when it came further; look again.
    uint64_t since, seen, moved, due;
    uint32_t n, at; // tables; the one that is read out
    bool open;      // its file has begun
    bool told;      // the scheduler's log knows that it is written
    struct save_writer *writer;
    struct save_run_table tables[SAVE_MAX_TABLES];
    struct rows_info infos[SAVE_MAX_TABLES];
};

struct saves {
    struct save_run *run; // NULL: none goes on
    struct marks marks;
    uint64_t marks_due; // none is older before
    struct {
        uint64_t save;
        bool committed;
    } ended[SAVES_ENDED]; // the last ones
    uint32_t n_ended;
};

struct shard;
struct shard_table;

void saves_look(struct shard *s); // what the save waits for may have come
// Whether pushes of the session to the table lie behind its mark.
bool saves_hold(const struct shard *s, const struct shard_table *t, uint64_t session);
// Whether the table's next batch must wait, for the save is to be before it.
bool saves_stop_batch(const struct shard *s, const struct shard_table *t);
bool saves_work(const struct shard *s);         // there is something to read out
void saves_slice(struct shard *s, uint64_t ns); // reads out for about so long
uint64_t saves_expire(struct shard *s);         // returns when to look again
void saves_close(struct shard *s);

// For save_requests.c, which serves what is asked of saves.

struct shard_table *save_table_at(const struct shard *s, const struct save_run *r,
                                  uint32_t i);
// A save's tables are looked up before anything indexes with their numbers.
int save_add_run_table(const struct shard *s, struct save_run *r, uint32_t id,
                       struct err *e);
uint64_t save_timeout(const struct shard *s);
void save_drop_marks(struct shard *s, uint64_t save);
// Ends the cuts that go on. On failure some still do: it can be called again.
int save_end_cuts(struct shard *s, struct save_run *r, bool committed, struct err *e);
void save_stop_writer(const struct shard *s, struct save_run *r);
void save_run_free(struct shard *s);
void save_wake_all(struct shard *s); // who waits for a save, or for its end

// The ended saves, for save_requests.c.

void save_remember(struct saves *x, uint64_t save, bool committed); // it has ended

#endif
