// Requests about tables: making and finding them, clocks, admin operations, statistics,
// walks; and the global step.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"

struct table_wanted {
    struct table_spec *spec; // NULL once the table is made: the client has taken it
    struct msg_table message;
    struct buf config; // the settings as text, to which the message points
};

static void table_free(void *own)
{
    struct table_wanted *w = own;
    buf_free(&w->config);
    mem_free(w->spec);
    mem_free(w);
}

// ---------------------------------------------------------------- making and finding

static int wanted_open(struct client *c, struct table_wanted **ret, uint32_t id,
                       const struct table_config *t, struct err *e)
{
    TRY(request_table_room(c, e));
    struct table_wanted *w = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "a table's description");
    w->config = BUF_INIT(WIRE_TEXT_MAX);
    w->spec = mem_alloc(sizeof(*w->spec));
    int rc = w->spec != NULL ? spec_make(w->spec, id, t, e)
                             : err_nomem(e, "a table's description");
    if (rc == 0 && (rc = spec_encode(w->spec, &w->config, &w->message)) != 0)
        err_set(e, rc, "the settings of table %u (%s) are too long", id, t->name);
    if (rc != 0) {
        table_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

client_ts client_table(struct client *c, uint32_t id, const struct table_config *t,
                       struct err *e)
{
    struct table_wanted *w = NULL;
    if (wanted_open(c, &w, id, t, e) != 0)
        return 0;
    struct request *r = request_new(c, &request_table, w->spec, e);
    if (r == NULL) {
        table_free(w);
        return 0;
    }
    r->own = w;
    r->whole = true;
    return request_begin(r, NULL);
}

static int send_table(struct slice *s)
{
    struct table_wanted *w = s->request->own;
    w->message.epoch = s->peer->client->epoch;
    return request_send(s, &w->message);
}

static int made(struct request *r)
{
    struct table_wanted *w = r->own;
    if (request_learn(r->client, w->spec))
        w->spec = NULL;
    return 0;
}

REQUEST_KIND(table, "making", MSG_TABLE, MSG_OK, slice_cut_all, .send = send_table,
             .answered = made, .free = table_free);

client_ts client_info(struct client *c, const char *name, uint32_t table,
                      uint32_t *ret_number, struct err *e)
{
    size_t n = name != NULL ? strlen(name) : 0;
    if (n >= CONFIG_NAME_MAX) {
        err_set(e, TUG_EUSAGE, "a table's name cannot have %zu bytes", n);
        return 0;
    }
    if (request_table_room(c, e) != 0)
        return 0;
    struct request *r = request_new(c, &request_info, &request_no_table, e);
    if (r == NULL)
        return 0;
    struct info_wanted *w = &r->u.info;
    if (n > 0)
        memcpy(w->name, name, n);
    w->message = (struct msg_table_info){.number = table, .name = wire_text(w->name)};
    w->number = ret_number;
    return request_begin(r, &w->message);
}

static int learn(struct request *r, const struct msg_table_info_is *m, struct err *e)
{
    struct msg_table table = {.table = m->table, .config = m->config};
    struct table_spec *spec = mem_alloc(sizeof(*spec));
    if (spec == NULL)
        return err_nomem(e, "a table's description");
    int rc = spec_decode(spec, &table, e);
    if (rc != 0 || !request_learn(r->client, spec))
        mem_free(spec);
    return rc;
}

static bool take_info(struct slice *s, const struct van_message *m)
{
    struct request *r = s->request;
    struct info_wanted *w = &r->u.info;
    const struct msg_table_info_is *is = &m->m->table_info_is;
    if (w->found || is->config.n == 0)
        return is->config.n != 0;
    w->found = learn(r, is, &r->why) == 0;
    if (w->found && w->number != NULL)
        *w->number = is->table;
    return true;
}

static int asked(struct request *r)
{
    return r->u.info.found ? 0 : r->why.code;
}

REQUEST_KIND(info, "a question", MSG_TABLE_INFO, MSG_TABLE_INFO_IS, slice_cut_everywhere,
             .take = take_info, .answered = asked, .anyone_knows = true,
             .lets_dead_be = true);

// -------------------------------------------------- clocks, admin operations, statistics

client_ts client_ask_loops(struct client *c, const struct client_question *question,
                           struct err *e)
{
    struct client_question q = *question;
    const uint32_t *table = wire_field(q.type, &q.m, "u32 table");
    uint64_t *session = wire_field(q.type, &q.m, "u64 session");
    struct request *r = request_new(
        c, &request_question,
        table != NULL ? request_known(c, *table, e) : &request_no_table, e);
    if (r == NULL)
        return 0;
    if (session != NULL)
        *session = member_session(c->member);
    r->type = q.type;
    r->answer = wire_answer(q.type);
    r->whole = wire_field(q.type, &q.m, "u64 epoch") != NULL;
    r->u.question = q;
    return request_begin(r, NULL);
}

static int begin_question(struct request *r)
{
    return r->spec == &request_no_table ? slice_cut_everywhere(r) : slice_cut_all(r);
}

static int send_question(struct slice *s)
{
    struct client_question *q = &s->request->u.question;
    uint64_t *epoch = wire_field(q->type, &q->m, "u64 epoch");
    if (epoch != NULL)
        *epoch = s->peer->client->epoch;
    return request_send(s, &q->m);
}

static bool take_answer(struct slice *s, const struct van_message *m)
{
    const struct client_question *q = &s->request->u.question;
    if (q->take != NULL)
        q->take(q->ctx, m->m);
    return true;
}

REQUEST_KIND(question, NULL, 0, 0, begin_question, .send = send_question,
             .take = take_answer, .lets_dead_be = true);

client_ts client_tick(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    struct client_question q = {
        "a tick of", MSG_TICK, {.tick = {.table = table, .clock = clock}}, NULL, NULL};
    return client_ask_loops(c, &q, e);
}

static client_ts admin(struct client *c, const struct msg_table_do *m, uint64_t *ret_sum,
                       struct err *e)
{
    const struct table_spec *spec = request_known(c, m->table, e);
    struct request *r = request_new(c, &request_admin, spec, e);
    if (r == NULL)
        return 0;
    r->u.m.table_do = *m;
    r->sum = ret_sum;
    r->whole = member_roster(c->member)->replicas > 1;
    return request_begin(r, NULL);
}

static int send_admin(struct slice *s)
{
    struct request *r = s->request;
    r->u.m.table_do.epoch = s->peer->client->epoch;
    r->u.m.table_do.number = r->number;
    r->u.m.table_do.low = r->client->admins.low;
    return request_send(s, &r->u.m.table_do);
}

REQUEST_KIND(admin, "an admin operation on", MSG_TABLE_DO, MSG_OK, slice_cut_sum,
             .send = send_admin, .take = request_add, .numbers = NUMBERS_ADMINS,
             .takes_long = true, .holds = true);

client_ts client_admin(struct client *c, uint32_t table, enum wire_admin what,
                       uint32_t other, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = (uint8_t)what, .other = other};
    return admin(c, &m, NULL, e);
}

client_ts client_clock(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_CLOCK, .clock = clock};
    return admin(c, &m, NULL, e);
}

client_ts client_shrink(struct client *c, uint32_t table, float threshold,
                        uint64_t *ret_removed, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_SHRINK, .threshold = threshold};
    return admin(c, &m, ret_removed, e);
}

client_ts client_mean(struct client *c, uint32_t table, uint32_t other, float share,
                      struct err *e)
{
    struct msg_table_do m = {
        .table = table, .what = WIRE_MEAN, .other = other, .threshold = share};
    return admin(c, &m, NULL, e);
}

client_ts client_day(struct client *c, uint32_t table, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_DAY};
    return admin(c, &m, NULL, e);
}

// Keeps the greatest of the loops' global steps, because the loops learn the workers'
// steps at different times.
static void take_step(void *ctx, const union wire_any *answer)
{
    uint64_t *global = ctx;
    if (global != NULL && answer->ok.value > *global)
        *global = answer->ok.value;
}

client_ts client_step(struct client *c, uint64_t steps, uint64_t *ret_global,
                      struct err *e)
{
    if (steps > WIRE_STEPS_MAX - c->steps) {
        err_set(e, TUG_EUSAGE,
                "%llu more steps after %llu: a session may do at most %llu",
                (unsigned long long)steps, (unsigned long long)c->steps,
                (unsigned long long)WIRE_STEPS_MAX);
        return 0;
    }
    struct client_question q = {
        "steps", MSG_STEP, {.step = {.steps = c->steps + steps}}, take_step, ret_global};
    if (ret_global != NULL)
        *ret_global = 0;
    client_ts ts = client_ask_loops(c, &q, e);
    if (ts != 0)
        c->steps += steps;
    return ts;
}

client_ts client_step_to(struct client *c, uint64_t least, struct err *e)
{
    struct client_question q = {"steps",
                                MSG_STEP,
                                {.step = {.steps = c->steps, .least = least}},
                                take_step,
                                NULL};
    if (least <= WIRE_STEPS_MAX)
        return client_ask_loops(c, &q, e);
    err_set(e, TUG_EUSAGE, "%llu steps are more than the limit of %llu",
            (unsigned long long)least, (unsigned long long)WIRE_STEPS_MAX);
    return 0;
}

// Adds one member of a loop's statistics to the sum. All members are counts.
static inline __attribute__((always_inline)) void add_field(const char *type, void *sum,
                                                            const void *more)
{
    uint64_t x, y;
    if (strcmp(type, "u64") != 0)
        return;
    memcpy(&x, sum, sizeof(x));
    memcpy(&y, more, sizeof(y));
    x += y;
    memcpy(sum, &x, sizeof(x));
}

#define MESSAGE(NAME, name, id, ...)                                                     \
    static inline void add_##name(struct msg_##name *sum, const struct msg_##name *m)    \
    {                                                                                    \
        (void)sum, (void)m;
#define RECORD(NAME, name, about)                                                        \
    static inline void add_record_##name(struct wire_##name *sum,                        \
                                         const struct wire_##name *m)                    \
    {
#define FIELD(type, name, about) add_field(#type, &sum->name, &m->name);
#define END(name) }
#include "wire/messages.def"

static void take_figures(void *ctx, const union wire_any *answer)
{
    const struct msg_table_is *is = &answer->table_is;
    struct msg_table_is *sum = ctx, x = *sum;
    add_table_is(sum, is);
    sum->clock = min_u64(x.clock, is->clock);
    sum->day = x.day > is->day ? x.day : is->day;
    sum->step = x.step > is->step ? x.step : is->step;
}

client_ts client_stat(struct client *c, uint32_t table, struct msg_table_is *ret,
                      struct err *e)
{
    struct client_question q = {"figures of",
                                MSG_TABLE_WANTED,
                                {.table_wanted = {.table = table}},
                                take_figures,
                                ret};
    *ret = (struct msg_table_is){.clock = UINT64_MAX};
    return client_ask_loops(c, &q, e);
}

// ---------------------------------------------------------------- walks

struct client_walk client_walk_begin(uint32_t table)
{
    return (struct client_walk){.table = table, .over = true, .room = mem_available()};
}

void client_walk_partition(struct client_walk *w, uint32_t partition)
{
    w->partition = partition;
    w->from = 0;
    w->over = false;
}

client_ts client_walk_next(struct client *c, struct client_walk *w, uint32_t max,
                           uint64_t *ret_keys, float *ret_values, struct err *e)
{
    const struct table_spec *spec = request_known(c, w->table, e);
    if (spec != NULL && w->partition >> c->partition_bits != 0) {
        err_set(e, TUG_EUSAGE, "there is no partition %u", w->partition);
        return 0;
    }
    struct request *r = request_new(c, &request_rows, spec, e);
    if (r == NULL)
        return 0;
    r->u.rows = (struct rows_wanted){
        .message = {.table = w->table,
                    .partition = w->partition,
                    .from = w->from,
                    .max = max},
        .walk = w,
        .keys = ret_keys,
        .values = ret_values,
    };
    return request_begin(r, NULL);
}

static int send_rows(struct slice *s)
{
    struct msg_rows *m = &s->request->u.rows.message;
    m->epoch = s->request->client->epoch;
    return request_send(s, m);
}

// Returns whether an answer to a walk is valid. Keys must ascend, otherwise the walk
// would never end. Each page except the last must be full, otherwise the walk could need
// very many requests.
static bool is_page(const struct slice *s, const struct msg_rows_are *m)
{
    const struct msg_rows *asked = &s->request->u.rows.message;
    const struct table_spec *spec = s->request->spec;
    const uint64_t *keys = m->keys.data;
    uint32_t bits = s->request->client->partition_bits;
    uint32_t full = spec_page_rows(spec, asked->max);
    if (m->n > full || (m->more && m->n < full) || m->width != spec_page_width(spec) ||
        m->keys.n != m->n * sizeof(uint64_t) ||
        m->values.n != (uint64_t)m->n * m->width * sizeof(float))
        return false;
    for (uint32_t i = 0; i < m->n; i++)
        if (keys[i] < asked->from || (i > 0 && keys[i] <= keys[i - 1]) ||
            roster_partition(bits, spec->space, keys[i]) != asked->partition)
            return false;
    return m->n > 0 || !m->more;
}

static bool take_rows(struct slice *s, const struct van_message *is)
{
    const struct request *r = s->request;
    const struct msg_rows_are *m = &is->m->rows_are;
    const struct rows_wanted *asked = &r->u.rows;
    struct client_walk *w = asked->walk;
    uint64_t bytes = m->keys.n + m->values.n;
    if (!is_page(s, m))
        return false;
    if (bytes > w->room) {
        err_set(&s->request->why, TUG_ENOMEM,
                "this process has no memory for more rows of a table after %llu rows of "
                "table '%s'",
                (unsigned long long)w->rows, r->spec->config.name);
        return false;
    }
    if (m->n != 0) {
        memcpy(asked->keys, m->keys.data, m->keys.n);
        if (m->values.n != 0)
            memcpy(asked->values, m->values.data, m->values.n);
        w->from = asked->keys[m->n - 1] + 1; // 0 after the greatest key
    }
    w->n = m->n;
    w->over = !m->more || w->from == 0;
    w->rows += m->n;
    w->room -= bytes;
    return true;
}

REQUEST_KIND(rows, "rows of", MSG_ROWS, MSG_ROWS_ARE, slice_cut_partition,
             .send = send_rows, .take = take_rows, .of_partition = true);
