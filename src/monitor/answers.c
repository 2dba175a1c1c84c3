// Answers to requests; see answers_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/answers_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/json.h"

static const char plain[] = "text/plain; charset=utf-8";

static const struct {
    const char *path, *type;
} kinds[] = {
    [ANSWER_PAGE] = {"/", "text/html; charset=utf-8"},
    [ANSWER_STATUS] = {"/status.json", "application/json"},
    [ANSWER_METRICS] = {"/metrics", "text/plain; version=0.0.4; charset=utf-8"},
    [ANSWER_OPEN_METRICS] = {"", "application/openmetrics-text; version=1.0.0; "
                                 "charset=utf-8"},
    [ANSWER_READY] = {"/readyz", plain},
    [ANSWER_EVENTS] = {"/events", "text/event-stream"},
    [ANSWER_HEALTH] = {"/healthz", plain},
};

static void add_headers(const struct answers *a, struct MHD_Response *r, const char *type)
{
    const char *const headers[][2] = {
        {"Content-Type", type},
        {"Content-Security-Policy", a->page.policy},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
        (void)a->lib->MHD_add_response_header(r, headers[i][0], headers[i][1]);
}

// Makes a response from `text`, and takes ownership of the text's bytes. Returns NULL if
// memory ran out.
static struct MHD_Response *response_of(const struct answers *a, struct buf *text,
                                        const char *type)
{
    struct MHD_Response *r = NULL;
    if (buf_str(text) != NULL)
        r = a->lib->MHD_create_response_from_buffer_with_free_callback(
            text->len, text->data, mem_free);
    if (r == NULL) {
        buf_free(text);
        return NULL;
    }
    *text = BUF_INIT(text->max);
    add_headers(a, r, type);
    return r;
}

static enum MHD_Result say_as(const struct answers *a, struct connection *one,
                              unsigned code, const char *header, const char *value,
                              const char *text, const char *type)
{
    struct buf b = BUF_INIT(2 * RENDER_TEXT_MAX + ERR_TEXT_MAX);
    if (buf_printf(&b, "%s\n", text) != 0) {
        buf_free(&b);
        return MHD_NO;
    }
    struct MHD_Response *r = response_of(a, &b, type);
    if (r == NULL)
        return MHD_NO;
    if (header != NULL)
        (void)a->lib->MHD_add_response_header(r, header, value);
    enum MHD_Result rc = a->lib->MHD_queue_response(one->mhd, code, r);
    a->lib->MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result say(const struct answers *a, struct connection *one, unsigned code,
                           const char *header, const char *value, const char *text)
{
    return say_as(a, one, code, header, value, text, plain);
}

// ---------------------------------------------------------------- access

static const char *header_of(const struct answers *a, const struct connection *one,
                             const char *name)
{
    const char *found = a->lib->MHD_lookup_connection_value(one->mhd, MHD_HEADER_KIND,
                                                            name);
    return found != NULL ? found : "";
}

static bool shows_token(const struct answers *a, const struct connection *one)
{
    return trust_shows_token(&a->trust, header_of(a, one, "Authorization"));
}

// Returns whether the request's header Host is a name or address of this process.
static bool is_called(const struct answers *a, const struct connection *one)
{
    char name[NI_MAXHOST];
    return address_host(name, header_of(a, one, "Host")) &&
           (address_may_be_called(a->address, one->fd, name) ||
            trust_is_named(&a->trust, name));
}

static bool has_body(const struct answers *a, const struct connection *one)
{
    const char *length = header_of(a, one, "Content-Length");
    return length[strspn(length, "0")] != '\0' ||
           *header_of(a, one, "Transfer-Encoding") != '\0';
}

// Health probes need no token: the answer says only whether the process runs or is ready.
static bool is_open(const char *url)
{
    return strcmp(url, kinds[ANSWER_HEALTH].path) == 0 ||
           strcmp(url, kinds[ANSWER_READY].path) == 0;
}

// Refuses a request that must not be answered. Returns whether it refused the request.
static bool refuse(const struct answers *a, struct connection *one, const char *url,
                   const char *method, enum MHD_Result *ret)
{
    if (!is_called(a, one))
        *ret = say(a, one, MHD_HTTP_MISDIRECTED_REQUEST, NULL, NULL,
                   a->trust.x != NULL
                       ? "this server does not have that name: use the host or address "
                         "of --http, or a name in its certificate"
                       : "this server does not have that name: use localhost, or the "
                         "address of --http");
    else if (!is_open(url) && !shows_token(a, one))
        *ret = say(a, one, MHD_HTTP_UNAUTHORIZED, "WWW-Authenticate",
                   "Basic realm=\"tug\", charset=\"UTF-8\"",
                   "the token is missing or wrong: send it in the header 'Authorization: "
                   "Bearer TOKEN'; a browser takes it as the password, with any user");
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        *ret = say(a, one, MHD_HTTP_METHOD_NOT_ALLOWED, "Allow", "GET, HEAD",
                   "only GET and HEAD are supported: the monitor is read-only");
    else if (has_body(a, one))
        *ret = say(a, one, MHD_HTTP_BAD_REQUEST, NULL, NULL,
                   "a request must not have a body");
    else
        return false;
    return true;
}

enum answer_kind answers_route(struct answers *a, struct connection *one,
                               const struct connections *all, const char *url,
                               const char *method, enum MHD_Result *ret)
{
    enum answer_kind kind = 0;
    if (refuse(a, one, url, method, ret))
        return ANSWER_NONE;
    while (kind < ANSWER_NONE && strcmp(url, kinds[kind].path) != 0)
        kind++;
    if (kind == ANSWER_NONE)
        *ret = say(a, one, MHD_HTTP_NOT_FOUND, NULL, NULL,
                   "not found: the pages are /, /status.json, /events, /metrics, "
                   "/healthz and /readyz");
    else if (kind == ANSWER_METRICS &&
             strstr(header_of(a, one, "Accept"), "application/openmetrics-text") != NULL)
        return ANSWER_OPEN_METRICS;
    else if (kind == ANSWER_EVENTS && all->n_events >= CONNECTIONS_EVENTS_MAX) {
        *ret = say(a, one, MHD_HTTP_SERVICE_UNAVAILABLE, "Retry-After", "10",
                   "too many clients read /events: try again later");
        return ANSWER_NONE;
    }
    return kind;
}

// ---------------------------------------------------------------- bodies

void answers_forget(struct answers *a)
{
    for (size_t i = 0; i < ANSWER_KEPT; i++)
        if (a->kept[i] != NULL)
            a->lib->MHD_destroy_response(a->kept[i]);
    memset(a->kept, 0, sizeof(a->kept));
    event_release(a->event);
    a->event = NULL;
}

static int add_bytes(const char *bytes, size_t n, void *to)
{
    return buf_add(to, bytes, n);
}

// Adds the facts as JSON. If the source of the facts last answered with an error, the member
// `stale` contains the error.
static int render_status(const struct facts_told *t, struct buf *to)
{
    json_t *shown = json_copy(t->now);
    if (shown != NULL && t->why.code != 0)
        (void)json_object_set_new(shown, "stale", json_string(t->why.text));
    int rc = shown == NULL ? TUG_ENOMEM
                           : json_dump_callback(shown, add_bytes, to, JSON_COMPACT);
    json_decref(shown);
    return rc;
}

static int render(const struct answers *a, enum answer_kind kind, struct buf *to)
{
    if (kind == ANSWER_PAGE)
        return render_page(&a->page, &a->told, to);
    if (kind == ANSWER_STATUS)
        return render_status(&a->told, to);
    return render_metrics(a->told.now, kind == ANSWER_OPEN_METRICS, to);
}

void answers_head_events(const struct answers *a, struct MHD_Response *r)
{
    add_headers(a, r, kinds[ANSWER_EVENTS].type);
}

struct event *answers_event(struct answers *a)
{
    struct buf json = BUF_INIT(RENDER_BYTES_MAX);
    if (a->event != NULL || a->told.now == NULL)
        return a->event;
    if (render_status(&a->told, &json) != 0)
        buf_free(&json);
    else
        a->event = event_of(&json, a->told.version);
    return a->event;
}

static enum MHD_Result give_kept(struct answers *a, struct connection *one,
                                 enum answer_kind kind)
{
    struct buf text = BUF_INIT(RENDER_BYTES_MAX);
    if (a->told.now == NULL && kind != ANSWER_PAGE)
        return say(a, one, MHD_HTTP_SERVICE_UNAVAILABLE, "Retry-After", "1",
                   a->told.why.code != 0
                       ? a->told.why.text
                       : "the state of the process is not known yet: try again");
    if (a->kept[kind] == NULL) {
        if (render(a, kind, &text) != 0) {
            buf_free(&text);
            return say(a, one, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL,
                       "out of memory");
        }
        a->kept[kind] = response_of(a, &text, kinds[kind].type);
    }
    return a->kept[kind] == NULL
               ? MHD_NO
               : a->lib->MHD_queue_response(one->mhd, MHD_HTTP_OK, a->kept[kind]);
}

enum MHD_Result answers_give(struct answers *a, struct connection *one,
                             enum answer_kind kind)
{
    char text[RENDER_TEXT_MAX];
    if (kind < ANSWER_KEPT)
        return give_kept(a, one, kind);
    if (kind == ANSWER_HEALTH)
        return say(a, one, MHD_HTTP_OK, NULL, NULL, "alive");
    if (kind == ANSWER_EVENTS) // only HEAD requests for events come here
        return say_as(a, one, MHD_HTTP_OK, NULL, NULL, "", kinds[kind].type);
    bool ready = render_ready(&a->told, text);
    const char *short_text = ready ? "ready" : "not ready";
    return say(a, one, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, NULL, NULL,
               shows_token(a, one) ? text : short_text);
}
