// The inside of the client, shared by its files: requests, their slices, and the peers
// that slices go to. client.h describes a client:
//
//   client.c   opening and closing, the van's events, timed work
//   push_pull.c  pushes and pulls: their calls, messages and answers
//   tables.c   calls that make tables, ask about them and change them
//   saves.c    calls that save and load tables
//   request.c  requests of any kind, from their call to their end
//   lanes.c    the order in which requests start
//   hold.c     has the scheduler keep the placement during admin operations and saves
//   slice.c    placing keys; slices after a new placement
//   links.c    a link to each loop, opened when needed, and again when it breaks
//   send.c     sending slices, again until they are answered
//   memory.c   pools: no allocation in steady state
//   wait.c     the functions that wait
//   client_check.c  invariants between two events
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLIENT_PRIVATE_H
#define TUG_CLIENT_PRIVATE_H

#include "base/compare.h"
#include "client/client.h"
#include "cluster/session.h"
#include "cluster/silence.h"
#include "protocol/keys.h"
#include "protocol/limits.h"

// The id of a request or slice is count << SLOT_BITS | slot. The slot leads to the
// request or slice without a search, and the count makes the id unique.
enum { SLOT_BITS = 20, SLOT_MAX = 1 << SLOT_BITS };

#define MS ((uint64_t)1000000)
#define CLIENT_TIMEOUT_NS (60000 * MS) // the default time limit of a request

// A block of memory of a request, for its keys and values as they are sent.
struct staging {
    struct staging *next;
    size_t bytes;
    _Alignas(64) char data[];
};

enum request_state {
    REQUEST_FREE,
    REQUEST_QUEUED, // waits in its lane: the window has no room, or a mark has not ended
    REQUEST_OPEN,   // slices are in flight
    REQUEST_ENDING, // the result is known, but the van still uses the request's memory
    REQUEST_ENDED,  // the request's callback was not called yet
    REQUEST_DONE,   // client_done has not been called yet
};

struct request;
struct slice;

struct rows_wanted {
    struct msg_rows message;
    struct client_walk *walk;
    uint64_t *keys;
    float *values;
};

struct info_wanted {
    struct msg_table_info message;
    char name[CONFIG_NAME_MAX]; // the table's name, to which the message points
    uint32_t *number;
    bool found;
};

struct below_wanted {
    struct msg_roots message;
    enum wire_root kind;
    const char *path;
    char *ret;
    bool found;
};

// The common properties of all requests of one kind. Each kind is defined in the file with its
// calls.
struct request_kind {
    const char *says; // the kind in errors, such as "a push to"; NULL: the request has it
    uint16_t type;    // the type of the request's messages
    uint16_t answer;  // the type of a loop's answer
    // Cuts the request into slices. On TUG_ENOMEM the request has none.
    int (*begin)(struct request *r);
    // Sends a slice. NULL: sends the request's message unchanged. This function and the
    // following ones may be NULL.
    int (*send)(struct slice *s);
    // Takes an answer of the right type. Returns false if it does not fit; the request's
    // `why` may say more.
    bool (*take)(struct slice *s, const struct van_message *m);
    // Called when all slices are answered; may make new slices. If it does not return 0,
    // the request fails with the error in its `why`.
    int (*answered)(struct request *r);
    void (*ended)(struct request *r); // called when the request has ended, for any reason
    void (*free)(void *own);
    // The sequence from which requests of this kind take their numbers.
    enum { NUMBERS_NONE, NUMBERS_PUSHES, NUMBERS_ADMINS } numbers;
    bool takes_long; // the time of the request grows with the number of rows
    // The loop handles nothing else during the request, so the loop's silence is not an
    // error.
    bool blocks;
    // The request waits for all earlier pushes, and later pushes wait for it.
    bool stands_alone;
    // A loop's refusal does not end the request, because another loop may be able to
    // answer.
    bool anyone_knows;
    bool of_partition; // the request is about a partition, not keys (slice_cut_partition)
    bool holds;        // no partition may change its owner while the request is open
    // Called when the placement has changed. If it does not return 0, the request fails
    // with the error in its `why`.
    int (*placed)(struct request *r);
    // Loops that have died need not answer. If the request is `whole`, it is cut anew instead.
    bool lets_dead_be;
};

// The arguments before the dots are required for each kind.
#define REQUEST_KIND(name, words, message_type, answer_type, cuts, ...)                  \
    const struct request_kind request_##name = {.says = words,                           \
                                                .type = message_type,                    \
                                                .answer = answer_type,                   \
                                                .begin = cuts,                           \
                                                __VA_ARGS__}

// The kinds that are used before they are defined.
extern const struct request_kind request_push, request_pull, request_table, request_info,
    request_admin, request_question, request_rows, request_save, request_load,
    request_below;

struct request {
    client_ts ts;
    // Neighbours in the client's list; `behind` is also the next in the list of ended
    // requests.
    struct request *before, *behind;
    struct lane *lane;
    struct request *lane_before, *lane_behind; // neighbours in its lane, while queued
    const struct request_kind *kind;
    enum request_state state;
    struct client *client;
    const struct table_spec *spec;
    uint16_t type, answer; // types of the request's messages and of their answers
    // The message that all slices send; NULL: each slice makes its own.
    const void *message;
    union {
        struct client_push push;
        struct client_pull pull;
        union wire_any m; // the message of kinds that need nothing else
        struct info_wanted info;
        struct below_wanted below;
        struct client_question question;
        struct rows_wanted rows;
    } u;
    void *own; // data of the request's kind, which its function `free` frees
    client_done_fn done;
    void *ctx;
    bool forget; // the caller does not ask for the result

    // Keys in the order of sending: the caller's array, or gathered. order[i] is the
    // position of key i in the caller's arrays; NULL: i.
    const uint64_t *keys;
    size_t n;
    const uint32_t *order;
    const char *values; // encoded values of a push, value_bytes for each key
    size_t value_bytes;
    float *answers; // values of a pull, answer_width for each key
    uint32_t answer_width;
    bool all_loops; // the request is also sent to loops without its keys
    // The slice for a loop covers all partitions of the loop, also those without keys. So
    // a loop serves the slice only in the epoch that the slice names. After a move of a
    // partition the request is cut and sent anew, also to loops that have answered
    // (docs/design/0035). Such requests are parts of synchronous batches, new tables, ticks,
    // steps, marks of a save, and with replicas admin operations.
    bool whole;
    struct staging *stagings;

    uint64_t number; // number of the push or admin operation; 0: not started
    // Gets the sum of the loops' answers to an admin operation; may be NULL.
    uint64_t *sum;
    struct slice *slices;
    uint32_t open; // number of slices without an answer
    uint32_t pins; // number of uses of the request's memory by the van
    uint64_t timeout, deadline;
    int rc;
    struct err why;
};

// A run of a request's keys for one loop.
struct slice {
    uint64_t id; // request number of the slice's messages; 0: the slice is free
    uint32_t slot;
    struct request *request;
    struct peer *peer;
    // Neighbours in the peer's list, which has the order of the requests.
    struct slice *before, *behind;
    struct slice *next; // next slice in the request's list or in the free list
    size_t begin;
    uint32_t n;
    uint32_t tries;
    bool sent;
    bool all_keys;  // the loop does not know the list of keys
    bool no_room;   // the loop had no room for the slice at the last try
    bool placing;   // the slice's answer is being received into the caller's array
    uint64_t epoch; // epoch of the placement under which the slice was sent
    // Time at which the slice is sent, or sent again; 0: as soon as possible.
    uint64_t due;
    uint64_t list; // signature of the slice's list of keys
    bool pack_tried;
    // The packed keys, in the request's memory; empty: not packed.
    struct wire_span packed;
};

// A message in the van whose body is a request's memory.
struct sending {
    struct sending *before, *behind;
    struct request *request;
    struct peer *peer;
    van_link link;
};

// A server loop.
struct peer {
    struct client *client;
    uint32_t node;
    struct session s;
    uint64_t away_since;    // time since when requests wait for a link; 0: none waits
    struct silence silence; // watches whether `s` is silent; then tries another link
    struct slice *first, *last;
    // The lists of keys that the loop should still have, beginning with the one that was
    // sent last.
    struct peer_list {
        uint64_t signature; // 0: no list
        size_t bytes;
    } lists[KEYS_LISTS];
    size_t list_room;
    // The number of times that the loop lacked a list that it has according to this record.
    uint32_t list_misses;
};

// The owners of a space's partitions. Keys are sent in the order of `place`: by loop,
// beginning with the one of the worker's rank, then by partition.
struct placement {
    uint32_t n_loops;
    uint32_t *place;     // the place of each partition
    uint32_t *partition; // the partition at each place
    uint32_t *starts;    // the first place of each loop; n_loops + 1 numbers
    struct peer **loops;
    uint16_t *loop; // the loop of each partition
};

// A message to the scheduler whose answer client_ask waits for.
struct asking {
    void (*answer)(void *ctx, const union wire_any *m); // NULL: no caller waits any more
    void *ctx;
    bool done;
    int rc;
    struct err why;
};

// A message to the scheduler whose answer the caller of client_tell does not wait for.
struct telling {
    struct client *client;
    bool waits; // for the answer; false: this entry is free
};

// The numbers of a session's pushes or admin operations. A number is closed when its
// request has ended; all numbers below `low` are closed.
struct numbers {
    uint64_t next, low, window;
    uint64_t done; // bit i says that number low + i is closed
};

// A queue of requests, which start in order, and the numbers of its pushes. The gradients
// of each sync table have a lane of their own: a push that runs ahead of its table's
// batches is not answered until other workers have pushed, and these may wait for a push
// of this client to another table. All other requests share one lane.
struct lane {
    struct lane *next;
    uint32_t table;
    struct request *first, *last; // queued requests
    struct numbers pushes;
};

// See hold.c.
struct hold {
    uint32_t users; // number of requests that hold the placement, plus 1 for `save`
    uint64_t save;  // save whose end the client has not reported yet; 0: none
    uint64_t epoch; // epoch of the placement that the scheduler keeps; 0: it keeps none
    // The scheduler was asked to keep the placement and was not told to release it.
    // As soon as it was asked, the scheduler may be keeping it.
    bool asked;
    bool asking;  // a request to the scheduler is under way
    uint64_t due; // time of the next request to the scheduler
};

#define NUMBERS_OF_PUSHES ((struct numbers){.next = 1, .low = 1, .window = SHARD_WINDOW})

struct client {
    struct client_options o;
    struct member *member;
    struct van *van;
    struct session_side side; // the settings that the sessions with all peers share
    const atomic_bool *interrupted;
    struct asking asking;
    struct telling tellings[CLIENT_TELLS];
    uint64_t told;          // how many messages client_tell has sent
    struct err told_failed; // the first refusal of such a message; code 0: none
    struct client_stats stats;

    uint64_t epoch; // epoch of the roster from which `placements` were made
    bool stale;     // there was no memory for the newest placement
    uint32_t partition_bits;
    struct placement placements[WIRE_SPACES];
    uint32_t *counts; // memory for client_arrange: partitions + 1 numbers

    struct peer **peers;
    size_t n_peers, max_peers;

    struct table_spec **tables; // known tables, by ascending number
    size_t n_tables, max_tables;
    struct table_spec **former; // specs of dropped tables, at which requests may point
    size_t n_former, max_former;

    struct request *first, *last; // open and queued requests, in the order of their calls
    // The lane of all requests other than gradients of sync tables.
    struct lane main;
    struct request *ended, *ended_last; // requests whose callbacks have to be called
    struct numbers admins;
    // Number of training steps that this client has reported.
    uint64_t steps;
    struct request *marking; // the mark in flight; NULL: none
    size_t n_marks;          // marks that have not ended
    struct hold hold;
    uint64_t next_due; // earliest time at which a slice or peer has timed work
    struct request **requests, *free_requests;
    size_t n_requests, max_requests, in_flight;
    struct slice **slices, *free_slices;
    size_t n_slices, max_slices;
    struct sending *sendings, *free_sendings;
    struct staging *free_stagings;
    struct buf packed; // memory for packing keys
    uint64_t count;    // number of ids given so far
    bool over;
    struct err end; // the reason, if `over`

    uint64_t events; // number of events, counted by client_check
};

// ---------------------------------------------------------------- memory.c

struct request *request_take(struct client *c);
void request_give(struct request *r);
struct request *request_find(struct client *c, client_ts ts);
struct slice *slice_take(struct client *c);
void slice_give(struct slice *s);
struct slice *slice_find(struct client *c, uint64_t id);
struct sending *sending_take(struct client *c);
void sending_give(struct client *c, struct sending *s);
// Returns memory that is given back with the request.
void *staging_take(struct request *r, size_t bytes);
// Gives back all memory of staging_take. The van must not use it any more (`pins`).
void staging_give_all(struct request *r);
void memory_free(struct client *c);

// The spec in requests that are not about a table.
extern const struct table_spec request_no_table;

// ---------------------------------------------------------------- request.c

// Returns the status with which the cluster has ended, and its sentence; 0 if it has not
// ended. In client.c.
int client_ended(const struct client *c, struct err *e);

// Makes a request about a table and puts it into the client's list; its time limit
// begins. Returns NULL with e set if spec is NULL, the cluster has ended or is not
// complete yet, or there is no memory.
struct request *request_new(struct client *c, const struct request_kind *kind,
                            const struct table_spec *spec, struct err *e);
// Does the same as request_new, but puts the request into `lane` instead of the main one.
struct request *request_new_in(struct lane *lane, struct client *c,
                               const struct request_kind *kind,
                               const struct table_spec *spec, struct err *e);
// Starts or queues a request. `message` must live as long as the request; NULL: each
// slice makes its own.
client_ts request_begin(struct request *r, const void *message);
const struct table_spec *request_known(struct client *c, uint32_t table, struct err *e);
int request_table_room(struct client *c, struct err *e);
bool request_learn(struct client *c, struct table_spec *spec);
// Adds an answer's value to the request's sum. Returns true.
bool request_add(struct slice *s, const struct van_message *m);
// Returns the request's table for messages, such as " table 3 (x)", or "".
enum { REQUEST_ABOUT_MAX = CONFIG_NAME_MAX + 32 };
const char *request_says(const struct request *r);
const char *request_about(const struct request *r, char to[REQUEST_ABOUT_MAX]);

// Ends a request: no slice of it is sent any more. Its callback runs in the next tick.
void request_end(struct request *r, int rc, const struct err *why);
void request_unpin(struct request *r);
// Ends requests that are past their deadline. Returns when to call it again.
uint64_t request_check_deadlines(struct client *c, uint64_t now);
void request_flush(struct client *c); // calls the callbacks of ended requests
void request_end_all(struct client *c, const struct err *why);
void slice_answered(struct slice *s);

// ---------------------------------------------------------------- lanes.c

// Returns the lane of a table's gradients; NULL if memory is out.
struct lane *lane_of(struct client *c, const struct table_spec *spec, uint8_t op);
void lane_put(struct lane *l, struct request *r);
void lane_take(struct request *r);
void lanes_free(struct client *c);
struct numbers *request_numbers(const struct request *r); // NULL: the kind has no numbers
void numbers_close(struct numbers *x, uint64_t number);
void request_advance(struct client *c, uint64_t now); // starts queued requests

// ---------------------------------------------------------------- hold.c

void hold_take(struct client *c); // counts one more request that holds the placement
void hold_give(struct client *c);
// Holds the placement until the end of the save `id`, in place of an earlier save. If id
// is 0, ends the hold of the earlier save.
void hold_save(struct client *c, uint64_t id);
// Returns whether the scheduler keeps the placement that the client has.
bool hold_is_on(const struct client *c);
// Sends the next request to the scheduler, if it is due. Returns when to call it again.
uint64_t hold_tick(struct client *c, uint64_t now);

// ---------------------------------------------------------------- slice.c

int placement_update(struct client *c);
void placement_free(struct client *c);
void placement_arrange(struct client *c, const struct placement *p, enum wire_space space,
                       const uint64_t *keys, size_t n, uint32_t *ret_order);
// Cut a request into slices. On TUG_ENOMEM the request has none.
int slice_cut(struct request *r);
int slice_cut_all(struct request *r); // a slice without keys for each loop of the space
// Does the same, and begins the sum of the answers. With replicas this is called again in each
// new epoch, in which other loops may own the partitions. Each loop answers for all partitions
// that it owns in this epoch.
int slice_cut_sum(struct request *r);
// Makes one slice, for the loop with the lowest number.
int slice_cut_first(struct request *r);
int slice_cut_everywhere(struct request *r); // makes a slice for each loop of any space
// Makes one slice, for the loop that owns the walk's partition.
int slice_cut_partition(struct request *r);
void slice_drop(struct slice *s);
// If the placement has moved keys of the slice, replaces it by new slices. Returns true
// if the slice does not exist any more.
bool slice_replace(struct slice *s);
void slice_replace_all(struct client *c, uint64_t now);
// Gives up the slices to loops that have left in this epoch.
void slice_let_all_dead_be(struct client *c);

// ---------------------------------------------------------------- links.c

// Returns the peer of a node; makes it if it is new. NULL without memory.
struct peer *peer_of(struct client *c, uint32_t node);
// Handle the van's events of links that are not the member's. Links of no peer are
// closed.
void peers_opened(struct client *c, van_link link, uint64_t now);
void peers_closed(struct client *c, van_link link, const struct err *why, uint64_t now);
void peers_message(struct client *c, van_link link, const struct van_message *m,
                   uint64_t now);
void peer_break(struct peer *p, const struct err *why, uint64_t now);
// Does the peer's timed work. Returns when to call it again.
uint64_t peer_tick(struct peer *p, uint64_t now);
// Returns whether the loop has enough room to remember a list of `bytes` bytes.
bool peer_has_room(const struct peer *p, size_t bytes);
// Returns whether the loop has the list, and notes that it will have it after the message
// that is sent now.
bool peer_knows(struct peer *p, uint64_t list, size_t bytes);
// Notes that the loop does not have a list that it should have.
void peer_forgets(struct peer *p, uint64_t list);
void peers_free(struct client *c);
// Returns the peer's name for messages: "server 0 (host:pid)".
const char *peer_name(const struct peer *p, char to[ROSTER_NAME_MAX]);

// ---------------------------------------------------------------- send.c

void request_send_slices(struct request *r, uint64_t now);
int request_send(struct slice *s, const void *message); // sends this message for a slice
void slice_send(struct slice *s, uint64_t now);
// Returns the pause before the slice is sent again, if its loop could not serve it.
uint64_t slice_pause(const struct slice *s);
void slice_take_answer(struct slice *s, struct van_message *m, uint64_t now);

// ---------------------------------------------------------------- push_pull.c

// Returns the place in the caller's array into which a body can be received that has only
// values, without padding; NULL if that is not possible.
void *rows_place(struct slice *s, uint16_t type, const union wire_any *head,
                 uint64_t body_bytes);

// ---------------------------------------------------------------- client_check.c

#ifndef NDEBUG
void client_check(struct client *c);
#else
static inline void client_check(struct client *c)
{
    (void)c;
}
#endif

#endif
