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
    ETCD_TTL_SECONDS = 3,    // time to live of the lease; etcd may prolong it
    ETCD_PART_MAX = 1 << 19, // bytes of a part; etcd takes 1.5 MiB in a request
};

// ------------------------------------------------------------------------------ the place

struct etcd_place {
    char endpoints[ETCD_ENDPOINTS][ETCD_HOST_MAX]; // "https://HOST:PORT"
    unsigned n;
    char prefix[ETCD_PREFIX_MAX]; // ends with '/'
    struct post_tls tls;          // from ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY
    char user[ETCD_HOST_MAX], password[ETCD_HOST_MAX]; // from ETCDCTL_USER; "": none
};

// Reads the value of --state, and the variables that etcdctl reads, too.
int etcd_place_read(struct etcd_place *ret, const struct etcd_options *o, struct err *e);

// ------------------------------------------------------------------------------- a client

// Belongs to one thread at a time.
struct etcd_client {
    const struct etcd_place *place;
    const struct interrupt *interrupt;
    const atomic_bool *stop; // ends repeated requests; may be NULL
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
void etcd_client_close(struct etcd_client *c); // also one that is not open

// Sends one request to one endpoint; *ret is its answer, which the caller frees. After
// ETCD_TRY_AGAIN the next request goes to the next endpoint.
enum etcd_answer etcd_ask_once(struct etcd_client *c, const char *path,
                               const struct buf *body, double seconds, json_t **ret,
                               struct err *e);
// Repeats the request until it is answered, for at most `patience` seconds.
enum etcd_answer etcd_ask(struct etcd_client *c, const char *path, const struct buf *body,
                          double patience, json_t **ret, struct err *e);

// Returns the time in ns. Its clock also runs while the machine is suspended.
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
    // The caller uses `asks` until the threads begin; then only the writer uses it.
    struct etcd_client asks, beats;
    struct buf body;
    uint64_t lease, ttl_ns;
    char log[ETCD_LOG_MAX]; // name of the log that counts; "": none
    uint64_t waited_head;   // `head` when this scheduler began to wait
    uint32_t logs;          // logs that this leader has begun
    uint64_t group;         // number of the next group in the log

    pthread_mutex_t mutex; // guards the members below
    pthread_cond_t changed;
    bool threaded, beating;
    pthread_t writer, beater;
    atomic_bool stop;
    uint64_t created;     // create revision of the key `leader`: proves that it is ours
    uint64_t head;        // revision at which `head` was written; 0: never
    bool busy, replaces;  // the writer has a group; it replaces all others
    struct buf todo;      // that group
    uint64_t bytes;       // of the log, with that group
    uint64_t valid_until; // by etcd_now: the lease is ours until then
    struct err failed;    // the first failure; code 0: none
    void (*wake)(void *ctx); // called when something has changed; may be NULL
    void *wake_ctx;
};

// Takes the journal when no other scheduler has it, and reads `head`. *ret_waited says
// whether another scheduler had it at first.
int etcd_lease_take(struct etcd_journal *j, bool *ret_waited, struct err *e);
// Keeps the lease alive until j->stop: the main function of a thread.
void *etcd_lease_keep(void *journal);
void etcd_lease_give_up(struct etcd_journal *j); // lets another scheduler have it at once

// Writes a group, or a log with only this group. Repeats its requests for as long as the
// options say. TUG_EIO if the lease is lost.
int etcd_group_write(struct etcd_journal *j, const void *bytes, size_t n, bool replaces,
                     struct err *e);
// Reads all groups of the log.
int etcd_groups_read(struct etcd_journal *j,
                     int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                     void *ctx, struct err *e);

// Wakes all waits, and the scheduler. `mutex` must be held, so that no call comes after
// journal_wake_by has set another function.
void etcd_journal_tell(struct etcd_journal *j);
// Keeps the first failure, and wakes all waits. `mutex` must not be held.
void etcd_journal_fail(struct etcd_journal *j, const struct err *why);
void etcd_key(char ret[ETCD_KEY_MAX], const struct etcd_journal *j, const char *name);
// Returns the create revision of the key `leader` that proves that it is ours.
uint64_t etcd_created(struct etcd_journal *j);
// Asks which scheduler leads; returns the error that this one does not, or 0.
int etcd_check_leads(struct etcd_journal *j, struct err *e);
// Says that the lease is lost.
int etcd_lost(const struct etcd_journal *j, const char *now_leads, struct err *e);

#endif
