// Requests to the JSON gateway of etcd: one endpoint after the other until one answers.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "etcd/etcd_internal.h"
#include "os/clock.h"
#include "os/json.h"

enum { ANSWER_MAX = 512 << 20, URL_MAX = 512, PAUSE_MS = 50, PAUSE_MAX_MS = 500 };
// Error codes of gRPC in etcd's answers.
enum {
    GRPC_INVALID = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_DENIED = 7,
    GRPC_PRECONDITION = 9,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAUTHENTICATED = 16
};
static const double attempt_seconds = 2; // time limit of each attempt at a request

uint64_t etcd_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

int etcd_client_open(struct etcd_client *c, const struct etcd_place *place,
                     const struct interrupt *interrupt, const atomic_bool *stop,
                     struct err *e)
{
    *c = (struct etcd_client){.place = place,
                              .interrupt = interrupt,
                              .stop = stop,
                              .answer = BUF_INIT(ANSWER_MAX)};
    json_begin();
    return post_open(&c->post, &place->tls, e);
}

void etcd_client_close(struct etcd_client *c)
{
    post_close(c->post);
    buf_wipe(&c->answer); // an answer may contain secret keys
    explicit_bzero(c->token, sizeof(c->token));
    c->post = NULL;
}

// ---------------------------------------------------------------- fields

int etcd_add_bytes(struct buf *to, const char *name, const void *bytes, size_t n)
{
    TRY(buf_printf(to, "\"%s\":\"", name));
    TRY(base64_add(to, bytes, n));
    return buf_add(to, "\"", 1);
}

int etcd_add_text(struct buf *to, const char *name, const char *text)
{
    return etcd_add_bytes(to, name, text, strlen(text));
}

int etcd_get_bytes(struct buf *to, const json_t *o, const char *name)
{
    const json_t *text = json_object_get(o, name);
    if (text == NULL) // the gateway leaves out an empty value
        return 0;
    if (!json_is_string(text))
        return TUG_EDATA;
    return base64_read(to, json_string_value(text), json_string_length(text));
}

// In the gateway's JSON, numbers of 64 bits are texts.
uint64_t etcd_get_number(const json_t *o, const char *name)
{
    const json_t *text = json_object_get(o, name);
    return json_is_string(text) ? strtoull(json_string_value(text), NULL, 10) : 0;
}

// ---------------------------------------------------------------- requests

static enum etcd_answer kind_of(int status, json_int_t code)
{
    if (code == GRPC_NOT_FOUND)
        return ETCD_NOT_FOUND;
    bool wrong = code == GRPC_INVALID || code == GRPC_DENIED ||
                 code == GRPC_PRECONDITION || code == GRPC_UNIMPLEMENTED ||
                 (code == 0 && (status == 404 || status == 405));
    return wrong ? ETCD_REFUSED : ETCD_TRY_AGAIN;
}

// Takes an answer with an error status: sets the error, and returns the kind of answer.
static enum etcd_answer refused(struct etcd_client *c, int status, const char *url,
                                struct err *e)
{
    json_error_t where;
    json_t *root = json_loadb(c->answer.data, c->answer.len, 0, &where);
    json_int_t code = json_integer_value(json_object_get(root, "code"));
    const char *text = json_string_value(json_object_get(root, "error"));
    err_set(e, TUG_EIO, "etcd at %s refuses (%d): %s", url, status,
            text != NULL ? text : "it gives no reason; is this etcd 3.4 or later?");
    printable_make(e->text);
    json_decref(root);
    if (code == GRPC_UNAUTHENTICATED)
        c->token[0] = '\0'; // the token has expired
    return kind_of(status, code);
}

static enum etcd_answer send_once(struct etcd_client *c, const char *path,
                                  const struct buf *body, double seconds, json_t **ret,
                                  struct err *e)
{
    char url[URL_MAX];
    json_error_t where;
    int status;
    struct err why = {0};
    const char *endpoint = c->place->endpoints[c->at];
    snprintf(url, sizeof(url), "%s%s", endpoint, path);
    const struct post_request q = {.url = url,
                                   .authorization = c->token[0] != 0 ? c->token : NULL,
                                   .body = body->data,
                                   .n = body->len,
                                   .seconds = seconds};
    if (post_send(c->post, &q, &status, &c->answer, &why) != 0) {
        err_set(e, why.code, "etcd at %s does not answer: %s", endpoint, why.text);
        return why.code == TUG_EIO ? ETCD_TRY_AGAIN : ETCD_REFUSED;
    }
    if (status != 200)
        return refused(c, status, endpoint, e);
    *ret = json_loadb(c->answer.data, c->answer.len, 0, &where);
    if (*ret != NULL)
        return ETCD_OK;
    err_set(e, TUG_EIO, "etcd at %s sends an answer that is not JSON", endpoint);
    return json_memory_failed() ? ETCD_REFUSED : ETCD_TRY_AGAIN;
}

static enum etcd_answer authenticate(struct etcd_client *c, double seconds, struct err *e)
{
    struct buf body = BUF_INIT(4 * ETCD_HOST_MAX);
    json_t *answer = NULL;
    if (buf_add(&body, "{\"name\":", 8) != 0 || buf_json(&body, c->place->user) != 0 ||
        buf_add(&body, ",\"password\":", 12) != 0 ||
        buf_json(&body, c->place->password) != 0 || buf_add(&body, "}", 1) != 0) {
        buf_wipe(&body);
        err_nomem(e, "a request");
        return ETCD_REFUSED;
    }
    enum etcd_answer kind = send_once(c, "/v3/auth/authenticate", &body, seconds, &answer,
                                      e);
    const char *token = json_string_value(json_object_get(answer, "token"));
    if (kind == ETCD_OK && snprintf(c->token, sizeof(c->token), "%s",
                                    token != NULL ? token : "") >= ETCD_TOKEN_MAX) {
        kind = ETCD_REFUSED;
        c->token[0] = '\0';
        err_set(e, TUG_EIO, "etcd at %s gives a token of more than %d bytes",
                c->place->endpoints[c->at], ETCD_TOKEN_MAX - 1);
    }
    buf_wipe(&body);
    json_decref(answer);
    return kind;
}

// Authenticates first if the client has no token. If etcd refuses a request with an older
// token, sends it again with a new token. Changes of users, roles or passwords invalidate
// tokens, and etcd's error code then is the same as for a wrong request.
static enum etcd_answer send_as_user(struct etcd_client *c, const char *path,
                                     const struct buf *body, double seconds, json_t **ret,
                                     struct err *e)
{
    enum etcd_answer kind = ETCD_OK;
    bool has_user = c->place->user[0] != '\0', older = c->token[0] != '\0';
    if (has_user && !older)
        kind = authenticate(c, seconds, e);
    if (kind == ETCD_OK)
        kind = send_once(c, path, body, seconds, ret, e);
    if (kind != ETCD_REFUSED || !has_user || !older)
        return kind;
    c->token[0] = '\0';
    kind = authenticate(c, seconds, e);
    return kind == ETCD_OK ? send_once(c, path, body, seconds, ret, e) : kind;
}

enum etcd_answer etcd_ask_once(struct etcd_client *c, const char *path,
                               const struct buf *body, double seconds, json_t **ret,
                               struct err *e)
{
    *ret = NULL;
    enum etcd_answer kind = send_as_user(c, path, body, seconds, ret, e);
    if (kind == ETCD_TRY_AGAIN) {
        c->at = (c->at + 1) % c->place->n;
        if (c->place->n > 1)
            c->token[0] = '\0';
    }
    return kind;
}

static bool stopped(const struct etcd_client *c, int ms)
{
    return (c->stop != NULL && atomic_load(c->stop)) ||
           interrupt_comes(c->interrupt, ms) || (c->stop != NULL && atomic_load(c->stop));
}

enum etcd_answer etcd_ask(struct etcd_client *c, const char *path, const struct buf *body,
                          double patience, json_t **ret, struct err *e)
{
    uint64_t until = etcd_now() + clock_ns_of(patience);
    struct err why = {0};
    for (int pause = PAUSE_MS;;) {
        enum etcd_answer kind = etcd_ask_once(c, path, body, attempt_seconds, ret, &why);
        if (kind != ETCD_TRY_AGAIN) {
            if (kind != ETCD_OK)
                err_copy(e, &why);
            return kind;
        }
        if (etcd_now() >= until) {
            err_set(e, TUG_EIO, "%s (tried for %.0f s)", why.text, patience);
            return ETCD_TRY_AGAIN;
        }
        if (stopped(c, pause)) {
            err_set(e, TUG_EINTERRUPTED, "interrupted while etcd was asked");
            return ETCD_REFUSED;
        }
        pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
    }
}
