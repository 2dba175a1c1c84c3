// Commands against a malicious scheduler. It accepts a link and says nothing, greets
// and then says nothing, sends its answer byte by byte, sends an answer to no
// question, leases files that do not exist, or, as a server, always has more to send.
// Each command ends soon, with a sentence that names the process it has waited for,
// and no command crashes.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "cluster/node.h"
#include "os/clock.h"
#include "wire/wire.h"

enum manner {
    SILENT,   // accepts links and sends nothing
    WELCOMES, // greets, and answers nothing else
    JOINS,    // greets and lets members join
    NONSENSE, // answers with messages of another type
    // Answers with control characters for terminals, and with numbers that exceed every
    // integer type.
    STRANGE,
    LEASES, // lets a worker join, and leases it a file that the worker does not have
    WALKS,  // sends lists, tables and profiles that never end
    CROWD,  // sends the addresses of many loops, which answer nothing
};

// The malicious scheduler, which runs in a thread of the test.
struct rogue {
    enum manner manner;
    struct node node;
    struct van *van;
    char address[VAN_ADDRESS_MAX];
    uint32_t file;       // LEASES: number of the file that is leased
    const char *options; // LEASES: the options of the run, as the driver would send them
    // WALKS: the error code of the answers to requests about tables; 0: they are answered
    // without an error
    int32_t fails;
    uint32_t greeted;
    atomic_bool stop;
    pthread_t thread;
};
static struct rogue rogue;

static void send_roster(van_link link, uint64_t request)
{
    struct buf nodes = BUF_INIT(1 << 16);
    uint32_t owners[WIRE_SPACES] = {8, 8, 8};
    struct wire_node n[] = {
        {.id = 8, .role = WIRE_SERVER, .alive = 1, .host = wire_text("h")},
        {.id = 9, .role = WIRE_WORKER, .alive = 1, .session = 11, .host = wire_text("h")},
    };
    n[0].address = wire_text(rogue.address);
    for (int i = 0; i < 2; i++)
        assert_int_equal(wire_put_node(&nodes, &n[i]), 0);
    struct msg_roster m = {.epoch = 1,
                           .version = 1,
                           .servers = 1,
                           .workers = 1,
                           .replicas = 1,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, sizeof(owners)}};
    van_send(rogue.van, link, MSG_ROSTER, request, &m, NULL);
    buf_free(&nodes);
}

static void let_in(van_link link, const struct van_message *m)
{
    struct msg_joined joined = {.node = m->m->join.role == WIRE_WORKER ? 9 : 1000000,
                                .session = 11};
    van_send(rogue.van, link, MSG_JOINED, m->request, &joined, NULL);
    send_roster(link, 0);
}

static const char strange[] =
    "{\"phase\":\"\\u001b[31m\",\"version\":\"\\u009b2J\",\"epoch\":1e300,\"nodes\":["
    "{\"role\":\"worker\\n\",\"rank\":-1e300,\"loop\":1e300,\"pid\":1e308,\"host\":"
    "\"\\u0007\"}],"
    "\"placement\":{\"sparse\":{\"partitions\":1e308}},\"barriers\":[{\"missing\":"
    "\"\\u001b\"}]}";

static void say_status(van_link link, uint64_t request, uint32_t loops)
{
    struct buf json = BUF_INIT(1 << 22);
    assert_int_equal(buf_printf(&json, "{\"tables\": [{\"id\": 3, \"name\": \"t\"}, "
                                       "{\"id\": 5000, \"name\": \"u\"}], \"nodes\": ["),
                     0);
    for (uint32_t i = 0; i < loops; i++)
        assert_int_equal(buf_printf(&json,
                                    "%s{\"role\": \"server\", \"alive\": true, "
                                    "\"address\": \"%s\"}",
                                    i > 0 ? ", " : "", rogue.address),
                         0);
    // Makes the status as long as that of a large cluster.
    assert_int_equal(buf_printf(&json, "]}%*s", 2 << 20, ""), 0);
    struct msg_status_is m = {.json = {json.data, json.len}};
    van_send(rogue.van, link, MSG_STATUS_IS, request, &m, NULL);
    buf_free(&json);
}

// Answers with one row or event, and with the flag that more follow.
static void say_more(van_link link, const struct van_message *m)
{
    struct msg_table_info_is info = {.table = 3,
                                     .config = wire_text("name=t;accessor=plain;dim=1")};
    struct msg_error error = {.code = rogue.fails, .what = wire_text("no disk")};
    const float value = 1;
    struct msg_rows_are rows = {.n = 1,
                                .width = 1,
                                .more = 1,
                                .keys = {&m->m->rows.from, sizeof(uint64_t)},
                                .values = {&value, sizeof(value)}};
    struct buf events = BUF_INIT(1 << 16);
    struct wire_event event = {.type = MSG_PUSH};
    assert_int_equal(wire_put_event(&events, &event), 0);
    struct msg_trace trace = {.from = m->m->profile.from,
                              .end = UINT64_MAX,
                              .events = {events.data, (uint32_t)events.len}};
    bool reads = m->type == MSG_PROFILE && m->m->profile.what == WIRE_PROFILE_READ;
    if (m->type == MSG_TABLE_INFO && rogue.fails != 0)
        van_send(rogue.van, link, MSG_ERROR, m->request, &error, NULL);
    else if (m->type == MSG_TABLE_INFO)
        van_send(rogue.van, link, MSG_TABLE_INFO_IS, m->request, &info, NULL);
    else if (m->type == MSG_ROWS)
        van_send(rogue.van, link, MSG_ROWS_ARE, m->request, &rows, NULL);
    else if (m->type == MSG_STATUS)
        say_status(link, m->request, 1);
    else if (reads)
        van_send(rogue.van, link, MSG_TRACE, m->request, &trace, NULL);
    else if (m->type == MSG_ROSTER_WANTED)
        send_roster(link, m->request);
    else
        van_send(rogue.van, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    buf_free(&events);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct msg_welcome welcome = {.role = WIRE_SCHEDULER,
                                  .version = wire_text("\x1b[31m")};
    struct msg_leased leased = {
        .what = WIRE_LEASE_PIECE, .pass = 1, .file = rogue.file, .pieces = 1};
    static const char json[] = "{\"nodes\":[{\"role\":5}";
    struct msg_status_is status = {.json = {json, sizeof(json) - 1}};
    struct msg_ok ok = {.value = 1};
    // Everything is as the worker expects, except the leased file.
    struct msg_data_is data = {.told = 1, .options = wire_text(rogue.options)};
    (void)ctx, (void)now;
    if (rogue.manner == STRANGE)
        status.json = (struct wire_span){strange, sizeof(strange) - 1};
    if (rogue.manner == SILENT ||
        (rogue.manner == CROWD && m->type == MSG_HELLO && rogue.greeted++ > 0))
        return;
    if (m->type == MSG_HELLO && m->m->hello.session != 0)
        welcome.role = WIRE_SERVER; // the test also acts as a server
    if (m->type == MSG_HELLO)
        van_send(rogue.van, link, MSG_WELCOME, 0, &welcome, NULL);
    else if (m->type == MSG_JOIN && rogue.manner >= JOINS)
        let_in(link, m);
    else if (rogue.manner == WALKS)
        say_more(link, m);
    else if (rogue.manner == CROWD)
        say_status(link, m->request, 100);
    else if (rogue.manner == NONSENSE || rogue.manner == STRANGE)
        van_send(rogue.van, link, MSG_STATUS_IS, m->request, &status, NULL);
    else if (rogue.manner == LEASES && m->type == MSG_LEASE)
        van_send(rogue.van, link, MSG_LEASED, m->request, &leased, NULL);
    else if (rogue.manner == LEASES && m->type == MSG_DATA_WANTED)
        van_send(rogue.van, link, MSG_DATA_IS, m->request, &data, NULL);
    else if (rogue.manner == LEASES && m->type == MSG_ROSTER_WANTED)
        send_roster(link, m->request);
    else if (rogue.manner == LEASES)
        van_send(rogue.van, link, MSG_OK, m->request, &ok, NULL);
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void *run(void *arg)
{
    struct err e;
    (void)arg;
    while (!atomic_load(&rogue.stop) &&
           van_poll(rogue.van, van_now(rogue.van) + SECOND_NS, &e) == 0)
        ;
    return NULL;
}

static void open_rogue(enum manner manner)
{
    struct node_options o = {.insecure = true};
    struct van_handler h = {.message = on_message, .tick = on_tick};
    struct err e;
    memset(&rogue, 0, sizeof(rogue));
    rogue.options = "{}";
    rogue.manner = manner;
    assert_int_equal(node_open(&rogue.node, &o, &e), 0);
    assert_int_equal(node_van(&rogue.node, &rogue.van, &h, false, &e), 0);
    assert_int_equal(node_listen(&rogue.node, rogue.van, 0, rogue.address, &e), 0);
    assert_int_equal(pthread_create(&rogue.thread, NULL, run, NULL), 0);
}

static void close_rogue(void)
{
    atomic_store(&rogue.stop, true);
    van_wake(rogue.van);
    pthread_join(rogue.thread, NULL);
    van_free(rogue.van);
    node_close(&rogue.node);
}

static const char *const commands[] = {
    "status",
    "status --json",
    "stop --timeout 1",
    "profile start",
    "profile stop --out p",
    "table stat",
    "table stat --json",
    "table save --out saved",
    "table shrink --table t",
};

// Checks that the command ends soon, with an error that names the address.
static void ends_soon(const char *command, const char *address)
{
    double begun = cluster_now();
    int code = tug("%s --scheduler %s --connect-timeout 1 --insecure", command, address);
    double took = cluster_now() - begun;
    if (code != 4 && code != 3)
        cluster_fail("tug %s: exit status %d: %s", command, code, e2e_err);
    if (strstr(e2e_err, strrchr(address, ':')) == NULL)
        cluster_fail("tug %s does not name %s: %s", command, address, e2e_err);
    if (took > 30)
        cluster_fail("tug %s took %.1f s", command, took);
    assert_null(strchr(e2e_err, '\x1b'));
    assert_null(strchr(e2e_out, '\x1b'));
}

static void falls_silent(void **state)
{
    (void)state;
    open_rogue(SILENT);
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
        ends_soon(commands[i], rogue.address);
    close_rogue();
}

// The scheduler sends only WELCOME: tools get no answer, and processes cannot join. All
// of them end when their time limit has passed.
static void only_greets(void **state)
{
    (void)state;
    open_rogue(WELCOMES);
    for (size_t i = 0; i < 5; i++)
        ends_soon(commands[i], rogue.address);
    close_rogue();
}

static void talks_nonsense(void **state)
{
    (void)state;
    open_rogue(NONSENSE);
    for (size_t i = 0; i < 5; i++)
        ends_soon(commands[i], rogue.address);
    close_rogue();
}

static void says_strange_things(void **state)
{
    (void)state;
    open_rogue(STRANGE);
    for (int json = 0; json < 2; json++) {
        tug_ends(0, "status %s --scheduler %s --connect-timeout 1 --insecure",
                 json ? "--json" : "", rogue.address);
        for (const char *c = e2e_out; *c != 0; c++)
            if (((unsigned char)*c < ' ' && *c != '\n') || (unsigned char)*c == 0x9b)
                cluster_fail("tug status prints a byte %u: %s", (unsigned char)*c,
                             e2e_out);
    }
    close_rogue();
}

static void leases_missing_file(void **state)
{
    const uint32_t files[] = {1, 1000, 100000000, UINT32_MAX};
    struct e2e_data data = {.path = "data", .rows = 200, .seed = 1};
    (void)state;
    e2e_write_data(&data);
    open_rogue(LEASES);
    rogue.options = "{\"epochs\"";
    tug_ends(3,
             "worker --scheduler %s --connect-timeout 2 --insecure -- train --data data "
             "--format libsvm --model lr",
             rogue.address);
    e2e_says("options of the run is damaged");
    rogue.options = "{}";
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        rogue.file = files[i];
        tug_ends(
            3,
            "worker --scheduler %s --connect-timeout 2 --insecure -- train --data data "
            "--format libsvm --model lr --epochs 1 --threads 1",
            rogue.address);
        e2e_says("leases piece 0 of file");
    }
    close_rogue();
}

static void has_always_more(void **state)
{
    (void)state;
    open_rogue(WALKS);
    const char *reach = " --connect-timeout 1 --insecure --scheduler ";
    tug_ends(3, "table dump --table t --out rows %s%s", reach, rogue.address);
    e2e_says("does not fit the request");
    tug_ends(3, "profile stop --out p %s%s", reach, rogue.address);
    e2e_says("its profile cannot be read");
    tug_ends(0, "status --json %s%s", reach, rogue.address);
    json_t *status = e2e_json();
    assert_int_equal(json_array_size(json_object_get(status, "tables")), 1);
    json_decref(status);
    rogue.fails = TUG_EIO; // an error about one table must not be skipped silently
    tug_ends(4, "table stat %s%s", reach, rogue.address);
    e2e_says("no disk");
    close_rogue();
}

static void names_many_who_are_silent(void **state)
{
    (void)state;
    open_rogue(CROWD);
    ends_soon("profile start", rogue.address);
    close_rogue();
}

// A socket whose owner accepts connections and sends a byte now and then, but never a
// whole frame.

static int door;

static void *drip(void *arg)
{
    int fds[64], n = 0;
    (void)arg;
    while (!atomic_load(&rogue.stop)) {
        struct pollfd p = {.fd = door, .events = POLLIN};
        if (poll(&p, 1, 50) == 1 && n < 64) {
            int fd = accept(door, NULL, NULL);
            n += fd >= 0;
            if (fd >= 0)
                fds[n - 1] = fd;
        }
        for (int i = 0; i < n; i++)
            (void)send(fds[i], "T", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    while (n > 0)
        close(fds[--n]);
    return NULL;
}

static void answers_byte_by_byte(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    char address[64];
    (void)state;
    memset(&rogue, 0, sizeof(rogue));
    door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(door >= 0);
    assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(door, 64), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &len), 0);
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&rogue.thread, NULL, drip, NULL), 0);
    for (size_t i = 0; i < 6; i++)
        ends_soon(commands[i], address);
    atomic_store(&rogue.stop, true);
    pthread_join(rogue.thread, NULL);
    close(door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(falls_silent),
        cluster_test(only_greets),
        cluster_test(talks_nonsense),
        cluster_test(says_strange_things),
        cluster_test(leases_missing_file),
        cluster_test(has_always_more),
        cluster_test(names_many_who_are_silent),
        cluster_test(answers_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
