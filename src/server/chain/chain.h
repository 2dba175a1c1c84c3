// The chains of a shard: the loops that hold a partition, its primary first. Each member
// applies an operation and passes it on to the next member as a record of a channel
// (channel.h). An answer that depends on rows is sent when all members have all that the
// primary had applied to the answer's partitions (gate.h).
//
//   sender                                     receiver
//   appends a record for each applied push     asks RECORDS_WANTED, from byte `at` on
//   answers RECORDS, at once or when it gets   applies the records, passes them on to its
//   more bytes                                 own next members, and asks again; `acks`
//   sends the answers that waited              say what all members after it have
//
// Usually two loops are receivers of each other. So if a loop has records for the loop that
// it asks, the request goes with these records instead of a message of its own.
//
// A record is about one partition or several, its places. Each place has a position: the
// number of records of its partition before it. A shard applies a place only if its own
// roster names the sender as the member before it (or as the source that fills it), and the
// position is the next one. It skips other places, and acknowledges only partitions of
// which the sender is the member before it. A record waits as long as one of its places
// cannot be judged yet.
//
// If the bytes of a channel are damaged, the receiver leaves the chains in which the sender is
// the member before it, and begins the channel anew: it asks from byte CHANNEL_ANEW on, under
// a new number of requests. The sender appends again what it keeps for the receiver, and
// answers from there on. Answers to earlier requests are ignored.
//
// Acknowledgements name partitions and not the bytes of a channel: with three replicas,
// channels can form a ring, in which each one would wait for a record of the next one.
//
// A primary sends an answer only if it has a lease of each other member (read_leases.c).
//
// In a new epoch members may only leave a chain, or be appended to it. So the records of
// a member are always a prefix of those of each member before it, and a shard that gets
// another next member sends it all kept records again, of which that member skips those
// that it has.
//
// A shard without replicas has no struct chain.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CHAIN_CHAIN_H
#define TUG_SERVER_CHAIN_CHAIN_H

#include "protocol/spec.h"
#include "server/admin.h"
#include "server/chain/channel.h"
#include "server/chain/gate.h"
#include "server/moves/record.h"
#include "server/request.h"

struct contribution;
struct key_run;
struct keys;
struct loads_from;
struct push_values;
struct roster;
struct shard;
struct shard_table;
struct source_link;
struct store_push;
struct stream;
struct sync_group;
struct table_spec;

#define CHANNEL_ANEW UINT64_MAX

// The channel to a node.
struct chain_outlet {
    struct chain_outlet *next;
    uint32_t node;
    struct outlet o;
    // The request that waits for bytes, from byte `at` on; link 0: none.
    van_link link;
    uint64_t request, at, until; // `request` grows: it is also the last request's
    van_link asks;               // the link of the last RECORDS_WANTED; 0: none
    uint64_t used;     // the node has taken the records of the first `used` bytes
    bool is_next;      // the node is the next member of a chain
    bool waits;        // the node has not taken all records
    uint64_t moved_at; // if so, the time of the last progress
    size_t more;       // scratch: bytes of records for which to make room
    // Scratch: the part of a record that is being appended.
    uint32_t places;
    size_t items;
    struct outlet_draft draft;
    uint64_t end; // scratch: end of the channel before records are sent again
};

// The channel from a node.
struct chain_inlet {
    struct chain_inlet *next;
    uint32_t node;
    struct inlet i;
    struct source_link *source;
    // The partitions to acknowledge in the next request; `all`: all of this channel.
    struct chain_place **acks;
    uint32_t n_acks, max_acks;
    bool all;
    bool told;        // the next request has something new
    bool answered;    // the last request was answered on the source's present link
    bool anew;        // the channel begins anew: the next answer says at which byte
    uint32_t refused; // number of refusals since the last answer or roster
    // Grows each time the channel begins anew. It is a part of the numbers of requests, so
    // that late answers are ignored.
    uint32_t number;
    bool passes;  // scratch: places of the record have next members
    bool behind;  // the first record could not be applied
    uint64_t due; // time of the next request
    // Time at which to try the first record again; VAN_NEVER: it need not be tried before
    // something else happens.
    uint64_t try_at;
    struct err why;     // why the first record could not be applied; code 0: it was
    uint64_t failed_at; // time of the first try with such an error; 0: none
};

// The lease of a node, without which this shard must not send answers about the partitions
// that it leads, and of whose chain the node is a member. Times by this shard's clock.
struct chain_lease {
    struct chain_lease *next;
    uint32_t node;
    struct source_link *source;
    bool needed;         // scratch
    uint64_t since;      // time since which the lease is needed
    uint64_t asked, due; // time of the last request, and of the next one
    uint64_t until;      // the lease is over at this time
    // The nodes whose leases this one does not replace: chain_lease in read_leases.c.
    uint64_t *also;
    size_t n_also;
};

// A partition of a space.
struct chain_place {
    // `applied` records of the partition are applied here; all members after this shard
    // have the first `committed` of them.
    uint64_t applied, committed;
    struct chain_outlet *next; // to the next member; NULL: there is none
    uint64_t next_since;       // epoch since which it is the next one
    bool acks;                 // the place is in the list of its inlet
    bool applies;              // scratch: the record that is being taken is to be applied
    bool unfit;                // this shard must leave the chain: see leave.c
    uint32_t from;             // node id of the member before this shard; 0: none
    uint64_t from_since;       // epoch since which that is the member before
    uint32_t to;               // scratch: node id of the next member in the newest roster
    // Answers are not sent before this time: the former primary may have a lease.
    uint64_t quiet_until;
};

// The state on which the answer to the request that is being served depends: partitions with
// some keys; all partitions that this shard leads, without their rows (ABOUT_ALL) or with them
// (ABOUT_LED), for which leases are needed as well; or all tables.
enum chain_about { ABOUT_NONE, ABOUT_KEYS, ABOUT_ALL, ABOUT_LED, ABOUT_TABLES };

// The facts about a partition's chain, for a loop that becomes a member.
struct chain_facts {
    uint64_t position, epoch; // the number of applied records, and the source's epoch
};

struct chain {
    struct chain_place *of[WIRE_SPACES];
    struct chain_outlet *outlets;
    struct chain_inlet *inlets;
    struct gate gate;
    struct gate_need *needs; // scratch
    size_t max_needs;
    struct buf acks; // scratch: the acknowledgements of a request
    // Scratch: the places of a record, the outlets to which they go, its runs of keys, and
    // their keys.
    struct channel_place *notes;
    struct chain_outlet **routes;
    struct key_run *runs;
    struct buf pushed;
    size_t max_published; // most keys of a record of a save; tests lower it
    // Scratch: whether each key of a push has a row after it.
    struct buf has_row;
    // The partitions in which the admin operation that is being served has to be done, and
    // the session of its client.
    uint32_t *left, n_left;
    uint64_t left_session;
    uint64_t epoch; // epoch of the last roster that was followed
    enum chain_about about;
    enum wire_space space;
    const struct keys *keys;
    struct chain_lease *leases;
    uint64_t leased_until; // no lease is over before this time; VAN_NEVER: none is needed
    bool lacks_leases;     // memory is out: a lease that is needed is not in the list
    uint64_t granted_until, quiet_until; // the last end of a lease that this shard has
                                         // granted, and of all places' quiet_until
    uint64_t about_keys_at;              // time of the last answer about keys
    uint64_t reads_since; // time since which leases are renewed; 0: they are not
    uint64_t follow_at; // time at which to follow the roster again; VAN_NEVER: not needed
    uint32_t n_unfit;   // number of places that are `unfit`
    struct err unfit_why;
    uint64_t leave_at;    // time of the next report of leave.c
    uint64_t loads_until; // other members may load rows until then
    uint64_t tell_at;     // time of the next look of unbacked_send
    struct unbacked_told
        *told; // unbacked tables to be made; the scheduler knows or is told
    // The number of times that each table was dropped. Records of tables and drops have
    // this number, because they may come late, and over several channels.
    uint64_t drops[SPEC_MAX_TABLES];
};

// Makes the chains of the first roster. Does nothing if it has no replicas. Returns 0 or
// TUG_ENOMEM.
int chain_open(struct shard *s, const struct roster *r);
void chain_close(struct shard *s);
// Called with each new roster, after moves_follow.
void chain_follow(struct shard *s, const struct roster *r);
// Called after each event: settles what was acknowledged, and applies records.
void chain_take(struct shard *s);
// Called after each round of events: sends records, requests and answers. So the pushes of
// a round go into one message. Returns when to call it again.
uint64_t chain_tick(struct shard *s);
void chain_drop_link(struct shard *s, van_link link);

// Says on which partitions the answer to the request that is being served depends.
// `keys`, which may be NULL unless `about` is ABOUT_KEYS, must stay valid until the
// request is served.
void chain_is_about(struct shard *s, enum chain_about about, enum wire_space space,
                    const struct keys *keys);
// Says that the answer depends on all partitions that this shard leads. Returns GOES_ON, or
// WANTS_MEMBER if the request must wait because a next member is behind.
enum outcome chain_is_about_all(struct shard *s);
// Keeps the answer until it may be sent, and returns true; returns false if it may be
// sent at once. Takes over the memory of `release`, or refuses the request.
bool chain_holds(struct shard *s, const struct shard_request *q, uint16_t type,
                 const void *msg, const struct van_release *release, uint64_t bytes);
// Refuses a table with a number of replicas that is not possible, and one that finds its rows
// on disk again after a restart if there are replicas.
int chain_check_table(const struct shard *s, const struct table_spec *spec,
                      struct err *e);

// Returns whether a push of these keys must wait, because a next member is behind.
bool chain_is_full(const struct shard *s, enum wire_space space, const struct keys *k);
// The partition is filled: from this position on, its records go to this node.
int chain_begin_next(struct shard *s, enum wire_space space, uint32_t partition,
                     uint32_t node, struct err *e);
// Appends the facts of a partition's chain to the source's records; takes them from these
// records; and begins to apply records of the partition from there on. They do nothing
// if there are no replicas.
int chain_get_facts(const struct shard *s, enum wire_space space, uint32_t partition,
                    struct buf *to);
int chain_take_facts(struct shard *s, enum wire_space space, uint32_t partition,
                     struct stream *x, struct chain_facts *ret, struct err *e);
void chain_begin_at(struct shard *s, enum wire_space space, uint32_t partition,
                    const struct chain_facts *facts);

// Defined in chain_saves.c:

// Returns whether this shard serves the partition.
bool chain_leads(const struct shard *s, enum wire_space space, uint32_t p);
// Appends the leases that an answer about the rows of all partitions needs that this shard
// leads. Each space has at most read_leases_most of them.
void chain_find_leases(struct shard *s, uint32_t *n);
// A save of a table ends, and was committed. chain_reserve_published, called before the end
// of the cut, makes room for its record, so that chain_note_published cannot fail, which is
// called after the end of the cut. records_apply_published and records_apply_day apply the
// records of ends of saves, and of days, as records_apply does.
int chain_reserve_published(struct shard *s, const struct shard_table *t, struct err *e);
void chain_note_published(struct shard *s, const struct shard_table *t,
                          uint64_t checksum);
int records_apply_published(struct shard *s, const struct channel_record *r,
                            uint32_t *ret_n, struct err *e);
int records_apply_day(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                      struct err *e);

// Defined in operations.c:

// Finds the partitions that this shard leads and in which the operation that q asks for has
// to be done: `left` of struct chain. *state is the operation's state on this shard; it is
// replaced by that in these partitions. *ret_value is the sum of the values of the
// partitions in which it was done. Returns 0 or TUG_ENOMEM.
int chain_find_left(struct shard *s, const struct shard_request *q,
                    enum admin_state *state, uint64_t *ret_value, struct err *e);
// The operation begins in the n partitions, which are some of those that are left, or all of
// them if `partitions` is NULL. chain_reserve_operation makes room for its record, so that
// chain_note_operation cannot fail. If the operation takes time, store_admin has begun it,
// and chain_end_operation is called when it is done. These functions do nothing if there
// are no replicas.
int chain_reserve_operation(struct shard *s, const struct shard_table *t, struct err *e);
void chain_note_operation(struct shard *s, const struct shard_table *t,
                          const struct msg_table_do *m, const uint32_t *partitions,
                          uint32_t n);
// Returns the most sessions whose operations are recorded: those of the roster's nodes, and
// some that are not in this roster yet.
size_t chain_sessions(const struct shard *s);
// Gets the place for the values of a record's operation, one for each partition; NULL if
// they are not recorded, because the session is over.
int chain_learn_operation(struct shard *s, enum wire_space space, uint64_t session,
                          uint64_t number, uint64_t low, uint64_t **ret, struct err *e);
void chain_end_operation(struct shard *s, const struct shard_table *t, uint64_t session,
                         uint64_t number);
// A table is dropped by the operation m. On TUG_ENOMEM it must be called again.
int chain_note_drop(struct shard *s, const struct shard_table *t,
                    const struct msg_table_do *m, struct err *e);
int records_apply_operation(struct shard *s, const struct channel_record *r,
                            uint32_t *ret_n, struct err *e);

// Defined in drops.c:

// Returns whether this shard is a member of a chain of the space, or about to be one.
bool chain_has_some(const struct shard *s, enum wire_space space);

// Refuses a count of drops from another shard that no table number can have: 2^31 drops take
// more time than any run. A loop that believed such a count would refuse all later tables with
// the number.
int chain_check_drops(uint64_t table, uint64_t drops, struct err *e);
// A shard from which a table comes with a partition has dropped its number so often. Fails if
// this shard has dropped it more often, and has no table with the number.
int chain_learn_drops(struct shard *s, uint64_t table, uint64_t drops, struct err *e);
// Append the counts of the numbers that no table has, and learn them. chain_take_drops fails
// if this shard still has such a table.
int chain_get_drops(const struct shard *s, struct buf *to);
int chain_take_drops(struct shard *s, struct stream *x, struct err *e);

// Defined in unbacked.c:

// Returns whether only primaries have the rows of a table with this spec.
bool unbacked_is(const struct shard *s, const struct table_spec *spec);
// A client makes a table. The scheduler must know an unbacked table before it has rows; so
// this returns WANTS_ROSTER until the roster names the table. If the table is refused, *e is
// set, and the scheduler has not been told.
enum outcome unbacked_may_make(struct shard *s, const struct msg_table *m, struct err *e);
// Does the same for the table into which an operation copies rows.
enum outcome unbacked_may_copy(struct shard *s, const struct msg_table_do *m,
                               struct err *e);
// Looks soon whether the scheduler knows of all drops of unbacked tables.
void unbacked_look(struct shard *s);
void unbacked_send(struct shard *s);
void unbacked_close(struct shard *s);

// Defined in load_records.c:

// A load was requested: finds the partitions that it concerns, as chain_find_left does.
int chain_find_load(struct shard *s, const struct shard_request *q,
                    enum admin_state *state, uint64_t *ret_rows, struct err *e);
// Loads the rows of these partitions, and appends the record.
int chain_lead_load(struct shard *s, struct shard_table *t, const struct msg_load *m,
                    const struct loads_from *from, struct err *e);
int records_apply_load(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                       struct err *e);

// Defined in notes.c:

// Makes room for the records of a push, so that chain_note cannot fail.
int chain_reserve(struct shard *s, const struct shard_table *t, const struct keys *k,
                  const struct push_values *v, struct err *e);
// Returns where the store must write whether the push's keys have rows, or NULL if all of
// them do. chain_reserve has made room.
uint8_t *chain_has_row(struct shard *s, const struct shard_table *t, enum store_op op);
// Called when the first n keys of p were applied, which are the keys of runs from `first`
// on.
void chain_note(struct shard *s, const struct shard_table *t, const struct keys *k,
                uint32_t first, const struct msg_push *m, const struct store_push *p,
                size_t n);
// Makes room for a record about n partitions, which ascend, or about all that this shard
// leads if `partitions` is NULL, so that chain_note_places cannot fail. n_common is the
// number of bytes of its content, a multiple of 8. Does nothing if there are no replicas.
int chain_reserve_places(struct shard *s, enum wire_space space,
                         const uint32_t *partitions, uint32_t n, size_t n_common,
                         struct err *e);
// Appends this record: the change was applied to these partitions.
void chain_note_places(struct shard *s, enum record_kind kind, enum wire_space space,
                       const uint32_t *partitions, uint32_t n, const void *common,
                       size_t n_common);
// Called when a table was made. Returns 0 or TUG_ENOMEM.
int chain_note_table(struct shard *s, const struct shard_table *t);
// Refuses a push whose records might be too long. n_items and each[] of *r are set.
int notes_check(const struct channel_record *r, struct err *e);
// These functions begin a record, and give a partition's next position to its next place,
// which has n items.
struct channel_record notes_begin(const struct shard *s, enum record_kind kind,
                                  enum wire_space space);
void notes_place(struct shard *s, struct channel_record *r, uint32_t partition,
                 uint32_t n);

// Defined in clock_records.c: append records of clocks. Return 0 or TUG_ENOMEM, after
// which the request can be served again.

int chain_note_tick(struct shard *s, const struct shard_table *t, uint64_t session,
                    uint64_t request, uint64_t clock, struct err *e);
int chain_note_step(struct shard *s, uint64_t session, uint64_t steps, struct err *e);

// Defined in batches.c: append records of synchronous batches. Room is reserved first.

// The groups that take the part are marked (sync_group.takes).
int chain_reserve_part(struct shard *s, const struct shard_table *t, const struct keys *k,
                       struct err *e);
void chain_note_part(struct shard *s, const struct shard_table *t,
                     const struct msg_push *m, const struct contribution *c);
// The group's next batch was applied in its partitions in [from, to): the first n keys of p,
// which are those of these partitions.
int chain_reserve_batch(struct shard *s, const struct shard_table *t,
                        const struct sync_group *g, size_t n, struct err *e);
void chain_note_batch(struct shard *s, const struct shard_table *t,
                      const struct sync_group *g, uint32_t from, uint32_t to,
                      const struct store_push *p, size_t n);

// Defined in places.c. A route returns the outlet to which place i of a record goes; NULL:
// to none.

typedef struct chain_outlet *(*places_route)(struct shard *s,
                                             const struct channel_record *r, uint32_t i,
                                             const void *ctx);
// The route to the next members of the places.
struct chain_outlet *places_next(struct shard *s, const struct channel_record *r,
                                 uint32_t i, const void *ctx);
// Making room: places_clear, places_count for each record or places_want for each of its
// places (`one` is a record of this place alone), and places_reserve, which returns 0 or
// TUG_ENOMEM. Then places_append cannot fail: it appends the places of a record to their
// outlets, one record to each outlet.
void places_clear(struct shard *s);
void places_count(struct shard *s, const struct channel_record *r, places_route to,
                  const void *ctx);
void places_want(struct shard *s, enum wire_space space, uint32_t partition,
                 const struct channel_record *one);
int places_reserve(struct shard *s);
void places_append(struct shard *s, const struct channel_record *r, places_route to,
                   const void *ctx);

// Defined in inlets.c:

int inlets_follow(struct shard *s, const struct roster *r);
void inlets_take(struct shard *s);
void inlets_keep(struct shard *s); // copies what remains of a message that is at hand
void inlets_send(struct shard *s);
// Adds this shard's request to the node to a message with records for that node, if there is
// one to make, which is then not sent alone.
void inlets_join(struct shard *s, uint32_t node, struct msg_records *m);
// A link that this node had opened is gone, or replaced. If the last request to the node went
// with records on that link, the request may be lost. So it is repeated.
void inlets_repeat(struct shard *s, uint32_t node);
uint64_t inlets_tick(struct shard *s);
void inlets_close(struct shard *s);
void inlets_again(struct shard *s); // records that could not be applied are tried again
// Passes a message that came over a session to the inlet of this session. Returns whether
// it was for it.
bool inlets_message(struct shard *s, const struct source_link *l,
                    const struct van_message *m, bool greeted);

// Passes a message that came over a session to the inlet and the lease of its node.
// Returns whether it was for one of them.
bool chain_message(struct shard *s, const struct source_link *l,
                   const struct van_message *m, bool greeted);
// Returns the number of inlets and leases that use the session.
uint32_t chain_uses(const struct shard *s, const struct source_link *l);

// Defined in read_leases.c:

// Finds the nodes whose leases are needed. Returns 0 or TUG_ENOMEM.
int read_leases_follow(struct shard *s, const struct roster *r);
void read_leases_close(struct shard *s);
void read_leases_send(struct shard *s);
uint64_t read_leases_tick(const struct shard *s);
bool read_leases_message(struct shard *s, const struct source_link *l,
                         const struct van_message *m, bool greeted);
uint32_t read_leases_use(const struct shard *s, const struct source_link *l);
// This shard becomes a member of a chain, and does not know the leases of its primary.
void read_leases_unknown(struct shard *s);
// The most needs of read_leases_find: they belong to an answer about keys of the space.
size_t read_leases_most(const struct chain *c);
// Appends what the answer needs that is being made, and is not there yet.
void read_leases_find(struct shard *s, enum wire_space space, const struct keys *k,
                      struct gate_need *needs, uint32_t *n);
// The values of gate_need.what. An answer needs that the members after this shard have `least`
// records of a partition (space << 32 | partition); that a node has taken `least` bytes
// of its channel (NEEDS_NODE | node); that the lease of a node is not over at the time
// `least` (NEEDS_LEASE | node; node 0: the leases of all); that it is the time `least`
// (NEEDS_TIME).
#define NEEDS_NODE ((uint64_t)1 << 63)
#define NEEDS_LEASE ((uint64_t)1 << 62)
#define NEEDS_TIME ((uint64_t)1 << 61)
bool read_leases_has(const struct shard *s, const struct gate_need *x);

// Returns since when the lease has been missing, although it was asked for all the time.
// This is in the future if the lease is there, and VAN_NEVER if no answer needs leases.
uint64_t read_leases_missing(const struct shard *s, const struct chain_lease *l);

// Defined in leave.c:

// This shard cannot apply the records of a partition that it backs up, and must leave its
// chain.
void leave_because(struct shard *s, enum wire_space space, uint32_t partition,
                   const struct err *why);
// The request that is being served cannot read or write rows on disk. Returns whether its
// partitions have other members, which are to lead them instead: then the request waits for
// that.
bool leave_led(struct shard *s, const struct err *why);
// A batch cannot be applied for this reason: other members are to lead all partitions of the
// space that have any.
void leave_space(struct shard *s, enum wire_space space, const struct err *why);
// A node has taken no records, or has granted no lease, since this time: looks again when
// that is too long.
void leave_look(struct shard *s, uint64_t since);
void leave_send(struct shard *s);
// This shard has served nothing while it loaded rows, so other members could not answer it.
// The members after it load the same rows now, one after the other, and count as slow only
// after twice that time for each of them.
void leave_after_load(struct shard *s);

// Defined in outlets.c:

// Returns whether the roster has this node as a living server.
bool chain_is_server(const struct roster *r, uint64_t node);

// Counts that `n` records of the partition are on all members after this shard.
void inlets_commit(struct shard *s, struct chain_place *p, uint64_t n);
struct chain_outlet *outlets_find(const struct shard *s, uint32_t node); // or NULL
int outlets_add_table(struct shard *s, struct chain_outlet *o,
                      const struct shard_table *t);
// Returns the outlet to a node; makes it if it is missing. NULL if memory is out.
struct chain_outlet *outlets_get(struct shard *s, uint32_t node);
void outlets_free(struct shard *s, struct chain_outlet *o);
void outlets_take(struct shard *s);
void outlets_send(struct shard *s);
// Takes the node's request that came with its records.
void outlets_joined(struct shard *s, uint32_t node, const struct msg_records *m);
void outlets_drop_link(struct shard *s, van_link link);
uint64_t outlets_tick(struct shard *s);
// Returns the most bytes that are kept for a receiver before pushes wait for it.
uint64_t outlets_most(const struct shard *s);

#endif
