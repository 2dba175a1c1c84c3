// Saves of a shard: the rows of its tables as they are at one moment. A thread of its own
// writes them while requests are served.
//
//   SAVE_TURN -> waits until no other save is under way
//   SAVE      -> waits for its moment: until this shard has the save's roster, until (with
//                marks) every living worker in that roster has marked or (with a clock) the
//                sync tables have come to that batch, and until no admin operation is under
//                way
//             -> cuts of all tables begin at once (store/cut.h)
//             -> blocks are read out in slices between requests, and handed to the writer
//             -> SAVED, with the contents of each file
//   SAVE_END  -> the cuts end: the rows count as published, or as if no save had been made
//
// A worker's mark says that its pushes so far are in the save, and the later ones are not. A
// worker marks when all its pushes are acknowledged, and sends no push before the mark is
// acknowledged (client_mark). Pushes after a mark wait for the save's moment. A mark may
// arrive before its save. A save does not wait for dead workers.
//
// Only one save is made at a time; further saves wait. All savers ask the same node for
// their turn before they ask the others, so that no two ever wait for each other.
//
// Every wait has a limit. A shard gives up a save with all its cuts in these cases: its
// client has left or died, or has been disconnected for `save_timeout_ns`; SAVE or the
// marks do not arrive within this time after SAVE_TURN was answered; its files do not
// grow for ten minutes; or SAVE_END does not arrive within ten minutes. A saver waits at
// most ten minutes for the end of another save.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVES_SAVE_H
#define TUG_SERVER_SAVES_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/file.h"
#include "save/save.h"
#include "server/rows/marks.h"

enum { SAVES_MARKS_EACH = 16, SAVES_ENDED = 16 };

struct save_writer;

enum save_state {
    SAVE_TURN,    // this save is the current one, but its request SAVE has not arrived
    SAVE_WAITS,   // waits for its moment: see above
    SAVE_CUTS,    // rows are read out and written
    SAVE_WRITTEN, // all files are written and synced
    SAVE_FAILED,
};

struct save_run_table {
    uint32_t id;
    bool cut; // whether a cut of the table is under way
    char file[SAVE_FILE_MAX];
};

// A save, from SAVE_TURN to SAVE_END.
struct save_run {
    uint64_t id, asker; // id of the save, and session of the client
    enum save_mode mode;
    int level;
    bool marked, all; // `marked`: workers mark the save; `all`: the save holds all tables
    // The day ends with the cuts. With replicas and without marks, the client ends it when
    // the save is committed: if a server dies, the save can then be made again.
    bool ends_day;
    // In roster version looked_roster, the save does not wait for the first `looked`
    // nodes (marks_missing).
    uint64_t looked_roster;
    uint32_t looked;
    uint64_t clock, step;
    // Versions of the roster that the save waits for, and of the newest
    // roster, as in msg_save.
    uint64_t roster, newest;
    uint64_t owners;   // as in msg_save
    uint64_t checksum; // checksum of the manifest, once the save was committed
    // parent: for a delta, the checksum of the parent's manifest. parent_published: the
    // checksum `published` in the parent's manifest (save_check_parent). published: the
    // checksum of the manifest of the save that published the tables last before this
    // one; 0 if the tables differ in it.
    uint64_t parent, parent_published, published;
    int root; // descriptor of the server's directory that `path` is below: see
              // server/saves/roots.h
    char path[FILE_PATH_MAX];
    enum save_state state;
    struct err why; // why the save has failed (SAVE_FAILED)
    // The times at which the save began, at which its client was last connected, at which
    // it last made progress, and at which to check again.
    uint64_t since, seen, moved, due;
    uint32_t n, at; // number of tables, and the index of the one that is read out
    bool open;      // whether the file of table `at` was begun
    // Whether the scheduler was told, for its log, that the save is written.
    bool told;
    struct save_writer *writer;
    struct save_run_table tables[SAVE_MAX_TABLES];
    struct rows_info infos[SAVE_MAX_TABLES];
};

// The last save that has ended, for the status.
struct save_ended {
    bool known, written; // whether there was such a save; whether it was committed
    char path[FILE_PATH_MAX];
    // Bytes in this loop's files; how long the save took; the time of its end.
    uint64_t bytes, took_ns, unix_ns;
    struct err why; // the reason why the save failed
};

struct saves {
    struct save_run *run; // the current save, or NULL
    uint64_t made, failed;
    struct save_ended last;
    struct marks marks;
    uint64_t marks_due; // no mark times out before this time
    struct {
        uint64_t save;
        bool committed;
    } ended[SAVES_ENDED]; // the last saves that have ended
    uint32_t n_ended;
};

struct shard;
struct shard_table;

// Called when the event that the save waits for may have happened.
void saves_look(struct shard *s);
// Called when the roster has changed: a save does not wait for dead workers, and a mark does
// not wait for a dead saver.
void saves_follow(struct shard *s);
// Returns whether the session has marked the save, so that its pushes to the table must
// wait until the save's cuts have begun.
bool saves_hold(const struct shard *s, const struct shard_table *t, uint64_t session);
// Returns whether batch `clock` of the table must wait, because a save comes before it.
bool saves_stop_batch(const struct shard *s, const struct shard_table *t, uint64_t clock);
bool saves_work(const struct shard *s);         // returns whether there are rows to read
                                                // out
void saves_slice(struct shard *s, uint64_t ns); // reads rows out for about `ns`
                                                // nanoseconds
uint64_t saves_expire(struct shard *s);         // returns when to call it again
void saves_close(struct shard *s);

// Functions for save_requests.c, which serves the requests about saves.

struct shard_table *save_table_at(const struct shard *s, const struct save_run *r,
                                  uint32_t i);
// Adds a table to a save. It refuses a number that no table has, because the number is used as
// an index later.
int save_add_run_table(const struct shard *s, struct save_run *r, uint32_t id,
                       struct err *e);
uint64_t save_timeout(const struct shard *s);
void save_drop_marks(struct shard *s, uint64_t save);
// Ends the cuts that are in progress. After an error some cuts are still in progress, and
// the function must be called again.
int save_end_cuts(struct shard *s, struct save_run *r, bool committed, struct err *e);
void save_stop_writer(const struct shard *s, struct save_run *r);
void save_run_free(struct shard *s);
// Wakes the requests that wait for a step of a save, or for its end.
void save_wake_all(struct shard *s);

// ---------------------------------------- the saves that have ended, for save_requests.c

// Records, for the status, how the current save ends. Later calls for the same save have
// no effect. The first call must come before the state becomes SAVE_FAILED.
void save_note_end(struct shard *s, const struct save_run *r, bool written);
uint64_t save_bytes(const struct save_run *r); // bytes of the files that are written
// Records that a save has ended.
void save_remember(struct saves *x, uint64_t save, bool committed);

// ---------------------------------------- the saves that have ended, for moves

struct buf;
struct stream;

// A shard that gets a partition must know which saves have ended. Otherwise it would keep
// a late mark of such a save, and make the pushes of the mark's session wait.
// saves_get_ended appends them to a record; it returns 0 or TUG_ENOMEM. saves_take_ended
// reads them from a record, without a copy; it returns 0 or TUG_EDATA. saves_learn_ended
// records them, and drops their marks.
struct saves_ended {
    uint64_t n;
    const uint64_t *saves; // for each save its number, and 1 if it was committed
};
int saves_get_ended(const struct saves *x, struct buf *to);
int saves_take_ended(struct saves_ended *ret, struct stream *x, struct err *e);
void saves_learn_ended(struct shard *s, const struct saves_ended *ended);

#endif
