// The inside of the client, shared by its files: requests, their slices, and the peers
// that slices go to. client.h describes a client:
//
//   client.c   opening and closing, the van's calls, what is due
//   request.c  requests from the first call to the end
//   tables.c   calls that make tables, ask about them and change them
//   saves.c    calls that save and load tables
//   slice.c    placing keys; slices after a new placement
//   links.c    a link to each loop, opened when needed, and again when it breaks
//   silence.c  notices and replaces links that are open and dead
//   encode.c   from slices to messages, and from answers to the caller's arrays
//   memory.c   pools: no allocation in steady state
//   wait.c     the functions that wait
//   client_check.c  invariants between two events
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLIENT_PRIVATE_H
#define TUG_CLIENT_PRIVATE_H

#include "client/client.h"
#include "cluster/session.h"
#include "cluster/silence.h"
#include "protocol/keys.h"
#include "protocol/limits.h"

// An id is (count << SLOT_BITS | slot): found without a search, and never used again.
enum { SLOT_BITS = 20, SLOT_MAX = 1 << SLOT_BITS };

#define MS ((uint64_t)1000000)
#define CLIENT_TIMEOUT_NS (60000 * MS) // the default for a request

// Memory of a request: gathered keys and values, encoded ones.
struct staging {
    struct staging *next;
    size_t bytes;
    _Alignas(64) char data[];
};

enum request_state {
    REQUEST_FREE,
    REQUEST_QUEUED, // waits behind a push without a place in the window
    REQUEST_OPEN,   // slices are in flight
    REQUEST_ENDING, // its result is known; a van still uses its memory
    REQUEST_ENDED,  // its callback is due
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

struct step_wanted {
    struct msg_step message;
    uint64_t *global;
};

struct stat_wanted {
    struct msg_table_wanted message;
    struct msg_table_is *sum;
};

struct info_wanted {
    struct msg_table_info message;
    char name[CONFIG_NAME_MAX]; // the message points at it
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

// What all requests need to know about their kind; each kind is defined beside its calls.
struct request_kind {
    const char *says; // "a push to", for messages
    uint16_t type;    // of its messages
    uint16_t answer;  // the type of a loop's answer
    // Cuts its slices. On TUG_ENOMEM it has none.
    int (*begin)(struct request *r);
    // These may be NULL. Sends a slice; NULL: the request's message unchanged.
    int (*send)(struct slice *s);
    // Takes an answer of the right type. Returns false if it does not fit; the request's
    // `why` may say more.
    bool (*take)(struct slice *s, const struct van_message *m);
    // Called when all slices are answered; may cut new ones. Not 0: fails, see its `why`.
    int (*answered)(struct request *r);
    void (*free)(void *own);
    size_t numbers;  // the client's sequence of numbers that it uses (offsetof); 0: none
    bool takes_long; // its time grows with the rows
    bool blocks; // a loop does nothing else meanwhile, so that its silence has no meaning
    bool stands_alone; // waits for all pushes before it, and those behind wait for it
    bool anyone_knows; // a loop's refusal does not end it: another may know
    bool of_partition; // not of keys (slice_cut_partition)
};

// The arguments before the dots are required for each kind.
#define REQUEST_KIND(name, words, message_type, answer_type, cuts, ...)                  \
    const struct request_kind request_##name = {.says = words,                           \
                                                .type = message_type,                    \
                                                .answer = answer_type,                   \
                                                .begin = cuts,                           \
                                                __VA_ARGS__}

extern const struct request_kind request_push, request_pull, request_table, request_info,
    request_tick, request_admin, request_step, request_stat, request_rows, request_mark,
    request_save, request_save_end, request_load, request_below;

struct request {
    client_ts ts;
    struct request *before,
        *behind; // in the client's list; `behind` also in the list of ended ones
    const struct request_kind *kind;
    enum request_state state;
    struct client *client;
    const struct table_spec *spec;
    uint16_t type, answer; // of its messages and their answers
    const void *message;   // sent by slices, unless each has its own
    union {
        struct client_push push;
        struct client_pull pull;
        struct msg_tick tick;
        struct msg_table_do admin;
        struct step_wanted step;
        struct info_wanted info;
        struct msg_mark mark;
        struct msg_save_end save_end;
        struct below_wanted below;
        struct stat_wanted stat;
        struct rows_wanted rows;
    } u;
    void *own; // data of kinds that have to free it
    client_done_fn done;
    void *ctx;
    bool forget; // its result is not asked for

    // Keys in the order of sending: the caller's, or gathered. order: the original
    // position of each; NULL: the same.
    const uint64_t *keys;
    size_t n;
    const uint32_t *order;
    const char *values; // of a push, encoded, value_bytes for each key
    size_t value_bytes;
    float *answers; // of a pull, answer_width for each key
    uint32_t answer_width;
    bool all_loops; // also goes to loops without its keys
    struct staging *stagings;

    uint64_t number; // of a push, or of an admin operation; 0: not begun
    uint64_t *sum;   // of the loops' answers to an admin operation; may be NULL
    struct slice *slices;
    uint32_t open; // slices without an answer
    uint32_t pins; // sends and bodies in which a van uses the request's memory
    uint64_t timeout, deadline;
    int rc;
    struct err why;
};

// A run of a request's keys for one loop.
struct slice {
    uint64_t id; // of its messages; 0: free
    uint32_t slot;
    struct request *request;
    struct peer *peer;
    struct slice *before, *behind; // in the peer's list, in the order of the requests
    struct slice *next;            // in the request's list or the free list
    size_t begin;
    uint32_t n;
    uint32_t tries;
    bool sent;
    bool all_keys;  // the loop does not know the list of keys
    bool no_room;   // the loop had no room for it at the last try
    bool placing;   // its answer is being written into place
    uint64_t epoch; // of the placement under which it was sent
    uint64_t due;   // when it is sent (again) at the latest; 0: as soon as possible
    uint64_t list;  // signature of its keys
    bool pack_tried;
    struct wire_span packed; // its keys, if that pays; memory of the request
};

// A message whose body is the request's memory, while the van uses it.
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
    uint64_t away_since;    // since when requests wait for the link; 0: none waits
    struct silence silence; // of `s`; then another link is tried
    struct slice *first, *last;
    // Lists of keys that the loop remembers, the last one sent first, and how many bytes
    // of lists it has room for, as far as is known.
    struct peer_list {
        uint64_t signature; // 0: none
        size_t bytes;
    } lists[KEYS_LISTS];
    size_t list_room;
    uint32_t list_misses; // lists that it should have had and had not
};

// The owners of a space's partitions. Keys are sent in the order of `place`: by loop,
// beginning with the one of the worker's rank, then by partition.
struct placement {
    uint32_t n_loops;
    uint32_t *place;     // of each partition
    uint32_t *partition; // at each place
    uint32_t *starts;    // n_loops + 1: the first place of each loop
    struct peer **loops;
    uint16_t *loop; // of each partition
};

// A question to the scheduler, for client_ask.
struct asking {
    void (*answer)(void *ctx, const union wire_any *m); // NULL: no caller waits any more
    void *ctx;
    bool done;
    int rc;
    struct err why;
};

// Numbers of pushes, or of admin operations.
struct numbers {
    uint64_t next, low, window;
    uint64_t done; // from `low` on, as bits
};

struct client {
    struct client_options o;
    struct member *member;
    struct van *van;
    struct session_side side; // what the sessions with all peers share
    const atomic_bool *interrupted;
    struct asking asking;
    struct client_stats stats;

    uint64_t epoch; // of the placements
    bool stale;     // memory was out for the newest one
    uint32_t partition_bits;
    struct placement placements[WIRE_SPACES];
    uint32_t *counts; // scratch of client_arrange: partitions + 1

    struct peer **peers;
    size_t n_peers, max_peers;

    struct table_spec **tables; // made, by ascending number
    size_t n_tables, max_tables;
    struct table_spec **former; // specs of dropped tables: requests may point at them
    size_t n_former, max_former;

    struct request *first, *last;       // queued and open requests, in order
    struct request *queued;             // the first one queued
    struct request *ended, *ended_last; // callbacks are due
    struct numbers pushes, admins;      // admins: of admin operations
    uint64_t steps;                     // of the session
    struct request *marking;            // a mark in flight
    uint64_t next_due;                  // when a slice or a peer is due
    struct request **requests, *free_requests;
    size_t n_requests, max_requests, in_flight;
    struct slice **slices, *free_slices;
    size_t n_slices, max_slices;
    struct sending *sendings, *free_sendings;
    struct staging *free_stagings;
    struct buf packed; // scratch
    uint64_t count;    // of ids
    bool over;
    struct err end; // then: why

    uint64_t events; // as client_check counts them
};

// memory.c

struct request *request_take(struct client *c);
void request_give(struct request *r);
struct request *request_find(struct client *c, client_ts ts);
struct slice *slice_take(struct client *c);
void slice_give(struct slice *s);
struct slice *slice_find(struct client *c, uint64_t id);
struct sending *sending_take(struct client *c);
void sending_give(struct client *c, struct sending *s);
void *staging_take(struct request *r, size_t bytes); // given back with the request
void memory_free(struct client *c);

// What requests are about that are about no table.
extern const struct table_spec request_no_table;

// request.c

// How the cluster has ended, as a status and a sentence; 0: it has not. In client.c.
int client_ended(const struct client *c, struct err *e);

// A new request about a table in the client's list, its deadline running. NULL with e
// set: no table, the cluster is over or not there yet, or no memory.
struct request *request_new(struct client *c, const struct request_kind *kind,
                            const struct table_spec *spec, struct err *e);
// `message` lives as long as the request; NULL: each slice sends its own.
client_ts request_begin(struct request *r, const void *message);
const struct table_spec *request_known(struct client *c, uint32_t table, struct err *e);
int request_table_room(struct client *c, struct err *e);
bool request_learn(struct client *c, struct table_spec *spec);
struct numbers *request_numbers(const struct request *r); // NULL: it takes none
int request_send(struct slice *s, const void *message);
bool request_add(struct slice *s, const struct van_message *m); // to its sum
void request_send_slices(struct request *r, uint64_t now);
// " table 3 (x)", or nothing, for messages.
enum { REQUEST_ABOUT_MAX = CONFIG_NAME_MAX + 32 };
const char *request_about(const struct request *r, char to[REQUEST_ABOUT_MAX]);

// Ends it: no slice is sent any more. Its callback runs in the next tick.
void request_end(struct request *r, int rc, const struct err *why);
void request_unpin(struct request *r);
void request_advance(struct client *c, uint64_t now);             // starts queued ones
uint64_t request_check_deadlines(struct client *c, uint64_t now); // when to look again
void request_flush(struct client *c);                             // callbacks
void request_end_all(struct client *c, const struct err *why);
void slice_answered(struct slice *s);

// slice.c

int placement_update(struct client *c);
void placement_free(struct client *c);
void placement_arrange(struct client *c, const struct placement *p, enum wire_space space,
                       const uint64_t *keys, size_t n, uint32_t *ret_order);
// Cuts a request into slices, to be sent. TUG_ENOMEM: it has none.
int slice_cut(struct request *r);
int slice_cut_all(struct request *r);        // one for each loop, without keys
int slice_cut_first(struct request *r);      // for the loop of the least number
int slice_cut_everywhere(struct request *r); // likewise, of all spaces
int slice_cut_partition(struct request *r);  // for the loop of a walk's partition
void slice_drop(struct slice *s);
// Where the placement sends its keys elsewhere, others take them: true, it has gone.
bool slice_replace(struct slice *s);
void slice_replace_all(struct client *c, uint64_t now);

// links.c

struct peer *peer_of(struct client *c, uint32_t node); // made if new; NULL: no memory
// What the van says of links that are not the member's. Nobody's are closed.
void peers_opened(struct client *c, van_link link, uint64_t now);
void peers_closed(struct client *c, van_link link, const struct err *why, uint64_t now);
void peers_message(struct client *c, van_link link, const struct van_message *m,
                   uint64_t now);
void peer_break(struct peer *p, const struct err *why, uint64_t now);
// What is due; returns when to look again.
uint64_t peer_tick(struct peer *p, uint64_t now);
// Whether it can remember a list of so many bytes.
bool peer_has_room(const struct peer *p, size_t bytes);
// Whether it has the list; it will when this message has come.
bool peer_knows(struct peer *p, uint64_t list, size_t bytes);
// It says that it does not have a list that it was to have.
void peer_forgets(struct peer *p, uint64_t list);
void peers_free(struct client *c);
// "server 0 (host:pid)": for messages.
const char *peer_name(const struct peer *p, char to[ROSTER_NAME_MAX]);

// encode.c

void encode_send(struct slice *s, uint64_t now);
void *encode_place(struct slice *s, uint16_t type, const union wire_any *head,
                   uint64_t body_bytes);
void encode_answer(struct slice *s, struct van_message *m, uint64_t now);

// client_check.c

#ifndef NDEBUG
void client_check(struct client *c);
#else
static inline void client_check(struct client *c)
{
    (void)c;
}
#endif

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
