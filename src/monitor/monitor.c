// Serves facts over HTTP; see monitor.h. One thread runs libmicrohttpd and makes all
// answers. Another thread asks for the facts (facts.c), so that a slow node delays no
// request.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/monitor.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "monitor/answers_internal.h"
#include "os/clock.h"
#include "os/json.h"
#include "os/thread.h"

enum {
    REQUEST_BYTES = 16 << 10, // memory for the lines of a request
    EVENT_BLOCK = 4 << 10,
    TICK_MS = 500,
    FACTS_SECONDS = 3, // how long a request waits for facts
    PAGE_SECONDS = 3,  // how long an open page has to show the end
    READ_SECONDS = 120 // a reader of /metrics, such as Prometheus, usually returns within
                       // this time
};

extern const unsigned char page_html[]; // page.html, made by the build

struct monitor {
    const struct mhd *lib;
    struct MHD_Daemon *daemon;
    struct monitor_address address;
    struct facts *facts;
    struct answers answers;
    struct connections connections;
    int wake;
    pthread_t thread;
    bool started;
    atomic_bool stop;

    _Atomic uint64_t ended_ns; // when the work ended (monitor_end); 0: not yet
    // The time until which readers of /metrics may still read the facts of the end.
    uint64_t until_ns;
    _Atomic uint64_t read_ns; // when /metrics was read last; 0: never
    atomic_bool end_read, end_shown;
    atomic_size_t pages; // number of open pages
};

// ---------------------------------------------------------------- requests

static bool facts_are_fresh(const struct monitor *m)
{
    const struct facts_told *t = &m->answers.told;
    uint64_t ended = atomic_load(&m->ended_ns);
    return t->version > 0 && clock_ns() - t->told_ns < SECOND_NS &&
           (ended == 0 || t->asked_ns >= ended);
}

// Records what a connection reads. note_read uses the record when the client has got the
// whole answer.
static void note_reading(const struct monitor *m, struct connection *one,
                         enum answer_kind kind)
{
    uint64_t ended = atomic_load(&m->ended_ns);
    one->reads_metrics = kind == ANSWER_METRICS || kind == ANSWER_OPEN_METRICS;
    one->reads_page = kind == ANSWER_PAGE;
    one->reads_end = ended != 0 && m->answers.told.asked_ns >= ended;
}

static void note_read(struct monitor *m, struct connection *one)
{
    if (one->reads_metrics)
        atomic_store(&m->read_ns, clock_ns());
    if (one->reads_metrics && one->reads_end)
        atomic_store(&m->end_read, true);
    if (one->reads_page && one->reads_end)
        atomic_store(&m->end_shown, true);
    one->reads_metrics = one->reads_page = false;
}

// Gives libmicrohttpd the next bytes of the event stream; suspends the connection if no
// event is left to send.
static ssize_t read_event(void *cls, uint64_t pos, char *to, size_t room)
{
    struct connection *one = cls;
    struct monitor *m = one->of;
    (void)pos;
    if (m->answers.closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    struct event *e = one->event == NULL ? answers_event(&m->answers) : one->event;
    if (one->event == NULL && e != NULL && e->version != one->version) {
        one->event = event_use(e);
        one->version = e->version;
        one->sent = 0;
        one->since_ns = clock_ns();
    }
    if (one->event == NULL) {
        connection_suspend(&m->connections, one);
        return 0;
    }
    size_t left = one->event->text.len - one->sent, n = left < room ? left : room;
    memcpy(to, one->event->text.data + one->sent, n);
    one->sent += n;
    if (n == left) {
        event_release(one->event);
        one->event = NULL;
    }
    return (ssize_t)n;
}

static enum MHD_Result give_events(struct monitor *m, struct connection *one)
{
    struct MHD_Response *r = m->lib->MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, EVENT_BLOCK, read_event, one, NULL);
    if (r == NULL)
        return MHD_NO;
    connection_begin(&m->connections, one, CONNECTION_EVENTS);
    answers_head_events(&m->answers, r);
    enum MHD_Result rc = m->lib->MHD_queue_response(one->mhd, MHD_HTTP_OK, r);
    m->lib->MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version,
                                  const char *upload, size_t *n_upload, void **con_cls)
{
    struct monitor *m = cls;
    struct connection *one = connection_of(m->lib, mhd);
    enum MHD_Result rc = MHD_NO;
    (void)version, (void)upload, (void)n_upload, (void)con_cls;
    if (one == NULL || one->refused || m->answers.closing)
        return MHD_NO;
    bool waited = one->state == CONNECTION_WAITS;
    if (!waited)
        connection_begin(&m->connections, one, CONNECTION_ANSWER);
    enum answer_kind kind = answers_route(&m->answers, one, &m->connections, url, method,
                                          &rc);
    if (kind == ANSWER_NONE)
        return rc;
    if (kind == ANSWER_EVENTS && strcmp(method, "GET") == 0) {
        facts_want(m->facts);
        return give_events(m, one);
    }
    if (kind != ANSWER_HEALTH && kind != ANSWER_EVENTS && !waited &&
        !facts_are_fresh(m)) {
        facts_want(m->facts);
        connection_begin(&m->connections, one, CONNECTION_WAITS);
        connection_suspend(&m->connections, one);
        // libmicrohttpd calls on_request again when the connection is resumed.
        return MHD_YES;
    }
    connection_begin(&m->connections, one, CONNECTION_ANSWER);
    note_reading(m, one, kind);
    return answers_give(&m->answers, one, kind);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                         enum MHD_RequestTerminationCode why)
{
    struct monitor *m = cls;
    struct connection *one = connection_of(m->lib, mhd);
    (void)con_cls;
    if (one != NULL && why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        note_read(m, one);
    if (one != NULL)
        connection_begin(&m->connections, one, CONNECTION_IDLE);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct monitor *m = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i = m->lib->MHD_get_connection_info(
            mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection *one = connections_add(&m->connections, mhd,
                                                 i != NULL ? i->connect_fd : -1);
        if (one != NULL)
            one->of = m;
        *context = one;
    } else if (*context != NULL) {
        connections_remove(&m->connections, *context);
        *context = NULL;
    }
}

// ---------------------------------------------------------------- the thread

static void take_facts(struct monitor *m)
{
    if (facts_take(m->facts, &m->answers.told)) {
        answers_forget(&m->answers);
        connections_resume(&m->connections, CONNECTION_WAITS, UINT64_MAX);
        connections_resume(&m->connections, CONNECTION_EVENTS, UINT64_MAX);
    }
    uint64_t now = clock_ns();
    connections_resume(&m->connections, CONNECTION_WAITS,
                       now - FACTS_SECONDS * SECOND_NS);
    atomic_store(&m->pages, m->connections.n_events);
    if (m->connections.n_events > 0)
        facts_want(m->facts);
    connections_sweep(&m->connections, now);
}

static void await_work(struct monitor *m)
{
    const union MHD_DaemonInfo *i = m->lib->MHD_get_daemon_info(m->daemon,
                                                                MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = m->wake, .events = POLLIN},
                           {.fd = i != NULL ? i->epoll_fd : -1, .events = POLLIN}};
    MHD_UNSIGNED_LONG_LONG ms = TICK_MS;
    if (m->lib->MHD_get_timeout(m->daemon, &ms) != MHD_YES || ms > TICK_MS)
        ms = TICK_MS;
    (void)poll(fds, 2, (int)ms);
    uint64_t wakes;
    if ((fds[0].revents & POLLIN) != 0 && read(m->wake, &wakes, sizeof(wakes)) < 0)
        return; // cannot happen: no other thread reads the descriptor
}

static void *run_monitor(void *arg)
{
    struct monitor *m = arg;
    thread_background("http");
    json_begin();
    while (!atomic_load(&m->stop)) {
        await_work(m);
        take_facts(m);
        (void)m->lib->MHD_run(m->daemon);
    }
    // libmicrohttpd requires that no connection is suspended when the daemon stops.
    m->answers.closing = true;
    connections_resume(&m->connections, CONNECTION_FREE, UINT64_MAX);
    (void)m->lib->MHD_run(m->daemon);
    m->lib->MHD_stop_daemon(m->daemon);
    return NULL;
}

// ---------------------------------------------------------------- opening

static int begin_daemon(struct monitor *m, int fd, struct err *e)
{
    // Links between nodes use the same TLS versions.
    static const char versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3";
    struct trust *t = &m->answers.trust;
    bool tls = t->x != NULL;
    struct MHD_OptionItem more[] = {
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, t->cert.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, t->key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)versions},
        {MHD_OPTION_END, 0, NULL},
    };
    m->daemon = m->lib->MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL,
        on_request, m, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, m, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, m, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    return m->daemon != NULL
               ? 0
               : err_set(e, TUG_EIO, "--http: cannot serve at %s%s", m->address.url,
                         tls ? ": check the certificate and its key" : "");
}

static int begin(struct monitor *m, const struct monitor_options *o,
                 const struct monitor_source *source, struct err *e)
{
    int fd = -1;
    TRY(mhd_load(&m->lib, e));
    m->answers.lib = m->connections.lib = m->lib;
    m->answers.address = &m->address;
    TRY(render_page_open(&m->answers.page, (const char *)page_html, e));
    TRY(address_read(&m->address, o->address, e));
    TRY(trust_open(&m->answers.trust, &m->address, o, e));
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake < 0)
        return err_sys(e, TUG_EIO, "--http: cannot create an event descriptor");
    TRY(facts_open(&m->facts, source, m->wake, e));
    TRY(address_listen(&m->address, m->answers.trust.x != NULL, &fd, e));
    TRY(begin_daemon(m, fd, e));
    if (thread_start(&m->thread, run_monitor, m) != 0) {
        m->lib->MHD_stop_daemon(m->daemon);
        return err_set(e, TUG_EIO, "cannot start the thread of --http");
    }
    m->started = true;
    return 0;
}

int monitor_open(struct monitor **ret, const struct monitor_options *o,
                 const struct monitor_source *source, struct err *e)
{
    *ret = NULL;
    struct monitor *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "the monitor");
    m->wake = -1;
    json_begin();
    int rc = begin(m, o, source, e);
    if (rc != 0)
        monitor_close(m);
    else
        *ret = m;
    return rc;
}

const char *monitor_url(const struct monitor *m)
{
    return m->address.url;
}

void monitor_end(struct monitor *m, double seconds)
{
    uint64_t now = clock_ns();
    m->until_ns = now + (uint64_t)(seconds * (double)SECOND_NS);
    atomic_store(&m->ended_ns, now);
}

bool monitor_is_seen(const struct monitor *m)
{
    uint64_t now = clock_ns(), ended = atomic_load(&m->ended_ns);
    bool read = atomic_load(&m->end_read) || now >= m->until_ns;
    bool shown = atomic_load(&m->pages) == 0 || atomic_load(&m->end_shown) ||
                 now >= ended + PAGE_SECONDS * SECOND_NS;
    return read && shown;
}

bool monitor_is_read(const struct monitor *m)
{
    uint64_t at = atomic_load(&m->read_ns);
    return at != 0 && clock_ns() - at < READ_SECONDS * SECOND_NS;
}

void monitor_close(struct monitor *m)
{
    const uint64_t one = 1;
    if (m == NULL)
        return;
    atomic_store(&m->stop, true);
    if (m->started) {
        while (write(m->wake, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
        pthread_join(m->thread, NULL);
    }
    facts_close(m->facts);
    if (m->address.url[0] != '\0')
        address_leave(&m->address);
    if (m->lib != NULL)
        answers_forget(&m->answers);
    facts_told_free(&m->answers.told);
    trust_close(&m->answers.trust);
    if (m->wake >= 0)
        close(m->wake);
    mem_free(m);
}
