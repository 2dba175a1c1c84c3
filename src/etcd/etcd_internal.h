// Internals that the files of this part share: the place in etcd, a client of its gateway,
// and the journal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ETCD_ETCD_INTERNAL_H
#define TUG_ETCD_ETCD_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "etcd/etcd.h"
#include "web/post.h"

enum {
    ETCD_ENDPOINTS = 16,
    ETCD_HOST_MAX = 256,
    ETCD_PREFIX_MAX = 512,
    ETCD_TOKEN_MAX = 8192,
    ETCD_LOG_MAX = 32,
    ETCD_KEY_MAX = ETCD_PREFIX_MAX + 128,
    ETCD_TTL_SECONDS = 3,    // the lease's time to live; etcd may grant a longer time
    ETCD_PART_MAX = 1 << 19, // bytes of a part; etcd's limit on a request is 1.5 MiB
};

// ------------------------------------------------------------------------------ the place

struct etcd_place {
    char endpoints[ETCD_ENDPOINTS][ETCD_HOST_MAX]; // "https://HOST:PORT"
    unsigned n;
    char prefix[ETCD_PREFIX_MAX]; // ends with '/'
    struct post_tls tls;          // from ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY
    char user[ETCD_HOST_MAX], password[ETCD_HOST_MAX]; // from ETCDCTL_USER; "": none
};

// Reads the value of --state, and the environment variables of etcdctl.
int etcd_place_read(struct etcd_place *ret, const struct etcd_options *o, struct err *e);

// ------------------------------------------------------------------------------- a client

// A client may be used by only one thread at a time.
struct etcd_client {
    const struct etcd_place *place;
    const struct interrupt *interrupt;
    const atomic_bool *stop; // true: requests are not repeated any more; may be NULL
    struct post *post;
    unsigned at; // endpoint of the next request
    char token[ETCD_TOKEN_MAX];
    struct buf answer;
};

// The kinds of answers of etcd.
enum etcd_answer {
    ETCD_OK,
    ETCD_TRY_AGAIN, // the request may succeed later, or at another endpoint
    ETCD_NOT_FOUND, // the lease has ended
    ETCD_REFUSED    // the request is wrong, or the user has no right to it
};

int etcd_client_open(struct etcd_client *c, const struct etcd_place *place,
                     const struct interrupt *interrupt, const atomic_bool *stop,
                     struct err *e);
void etcd_client_close(struct etcd_client *c); // allowed even if it is not open

// Sends one request to one endpoint; *ret is its answer, which the caller frees. After
// ETCD_TRY_AGAIN the next request goes to the next endpoint.
enum etcd_answer etcd_ask_once(struct etcd_client *c, const char *path,
                               const struct buf *body, double seconds, json_t **ret,
                               struct err *e);
// Repeats the request until etcd answers it, for at most `patience` seconds.
enum etcd_answer etcd_ask(struct etcd_client *c, const char *path, const struct buf *body,
                          double patience, json_t **ret, struct err *e);

// Returns the time in ns, by a clock that also runs while the machine is suspended.
uint64_t etcd_now(void);

// Append "NAME":"BASE64" to a request.
int etcd_add_bytes(struct buf *to, const char *name, const void *bytes, size_t n);
int etcd_add_text(struct buf *to, const char *name, const char *text);
// Decodes a field of an answer, and appends it; TUG_EDATA if it is not base64.
int etcd_get_bytes(struct buf *to, const json_t *o, const char *name);
// Gets the value of an entry as text for messages, without characters that a terminal acts
// on.
void etcd_value_text(const json_t *entry, char *ret, size_t cap);
uint64_t etcd_get_number(const json_t *o, const char *name); // 0 if it is missing

// -------------------------------------------------------------------------------- base64

int base64_add(struct buf *to, const void *bytes, size_t n);
int base64_read(struct buf *to, const char *text, size_t n);

// ---------------------------------------------------------------------------- the journal

struct etcd_journal {
    struct journal base;
    struct etcd_options o;
    char about[ETCD_HOST_MAX];
    struct etcd_place place;
    // The thread that opens the journal uses `asks` until the threads begin; after that,
    // only the writer uses it. The beater uses `beats`.
    struct etcd_client asks, beats;
    struct buf body;
    uint64_t lease, ttl_ns;
    char log[ETCD_LOG_MAX]; // name of the valid log, as in the key `head`; "": none
    uint64_t waited_head;   // the member `head` when this scheduler began to wait
    uint32_t logs;          // number of logs that this leader has begun
    uint64_t group;         // number of the next group in the log

    pthread_mutex_t mutex; // guards the members below
    pthread_cond_t changed;
    bool threaded, beating;
    pthread_t writer, beater;
    atomic_bool stop;
    // Create revision of the key `leader`, by which this scheduler recognizes its own key.
    uint64_t created;
    uint64_t head;        // revision at which the key `head` was written; 0: never
    bool busy, replaces;  // the writer has a group; the group replaces all others
    struct buf todo;      // the group that the writer has
    uint64_t bytes;       // size of the log, with the group in `todo`
    uint64_t valid_until; // time, by etcd_now, until which this scheduler has the lease
    struct err failed;    // the first failure; code 0: none
    void (*wake)(void *ctx); // called when something has changed; may be NULL
    void *wake_ctx;
};

// Waits until no other scheduler has the journal, takes it, and reads the key `head`. Sets
// *ret_waited to whether it had to wait for another scheduler.
int etcd_lease_take(struct etcd_journal *j, bool *ret_waited, struct err *e);
// Keeps the lease alive until j->stop: the main function of a thread.
void *etcd_lease_keep(void *journal);
// Ends the lease, so that another scheduler can take the journal at once.
void etcd_lease_give_up(struct etcd_journal *j);

// Writes a group; if `replaces`, begins a new log with only this group. Repeats requests
// for as long as the options say. Returns TUG_EIO if the lease is lost.
int etcd_group_write(struct etcd_journal *j, const void *bytes, size_t n, bool replaces,
                     struct err *e);
// Reads all groups of the log.
int etcd_groups_read(struct etcd_journal *j,
                     int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                     void *ctx, struct err *e);

// Wakes all threads that wait, and calls `wake` for the scheduler. `mutex` must be held, so
// that the old function is not called after journal_wake_by has set another one.
void etcd_journal_tell(struct etcd_journal *j);
// Stores the error if it is the first one, and wakes all threads that wait. `mutex` must
// not be held.
void etcd_journal_fail(struct etcd_journal *j, const struct err *why);
void etcd_key(char ret[ETCD_KEY_MAX], const struct etcd_journal *j, const char *name);
// Returns j->created. `mutex` must not be held.
uint64_t etcd_created(struct etcd_journal *j);
// Asks etcd which scheduler leads. Returns 0 if it is this scheduler, else an error.
int etcd_check_leads(struct etcd_journal *j, struct err *e);
// Returns the error that the lease is lost. `now_leads` is the text of the new leader's key.
int etcd_lost(const struct etcd_journal *j, const char *now_leads, struct err *e);

#endif
