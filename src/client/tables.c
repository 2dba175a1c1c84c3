// Requests about tables: made, found, ordered about, counted; and the global step.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "client/private.h"

static void wanted_free(struct table_wanted *w)
{
    if (w == NULL)
        return;
    buf_free(&w->config);
    mem_free(w->spec);
    mem_free(w);
}

void client_tables_free(struct request *r)
{
    if (r->kind != REQUEST_TABLE)
        return;
    wanted_free(r->u.table);
    r->u.table = NULL;
}

// Making and finding.

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
        wanted_free(w);
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
    struct request *r = request_new(c, REQUEST_TABLE, e);
    if (r == NULL) {
        wanted_free(w);
        return 0;
    }
    r->u.table = w;
    r->spec = w->spec;
    return request_begin(r, NULL, NULL);
}

client_ts client_info(struct client *c, const char *name, uint32_t table,
                      uint32_t *ret_number, struct err *e)
{
    size_t n = name != NULL ? strlen(name) : 0;
    if (n >= CONFIG_NAME_MAX) {
        err_set(e, TUG_EUSAGE, "a table's name cannot have %zu bytes", n);
        return 0;
    }
    struct request *r = request_table_room(c, e) == 0 ? request_new(c, REQUEST_INFO, e)
                                                      : NULL;
    if (r == NULL)
        return 0;
    r->spec = &request_no_table;
    r->u.info = (struct info_wanted){.table = table, .number = ret_number};
    if (n > 0)
        memcpy(r->u.info.name, name, n);
    return request_begin(r, NULL, NULL);
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

bool client_tables_info(struct request *r, const struct msg_table_info_is *m)
{
    if (r->kind != REQUEST_INFO || m->config.n == 0)
        return false;
    struct info_wanted *w = &r->u.info;
    if (w->found)
        return true;
    w->found = learn(r, m, &r->why) == 0;
    if (w->found && w->number != NULL)
        *w->number = m->table;
    return true;
}

// Clocks, admin operations, figures, rows.

client_ts client_tick(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    const struct table_spec *spec = request_known(c, table, e);
    struct request *r = spec != NULL ? request_new(c, REQUEST_TICK, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.tick = (struct msg_tick){
        .table = table, .session = member_session(c->member), .clock = clock};
    return request_begin(r, NULL, NULL);
}

static client_ts order(struct client *c, const struct msg_table_do *m, uint64_t *ret_sum,
                       struct err *e)
{
    const struct table_spec *spec = request_known(c, m->table, e);
    struct request *r = spec != NULL ? request_new(c, REQUEST_ADMIN, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.order = (struct admin_wanted){.message = *m, .sum = ret_sum};
    if (ret_sum != NULL)
        *ret_sum = 0;
    return request_begin(r, NULL, NULL);
}

client_ts client_admin(struct client *c, uint32_t table, enum wire_order what,
                       uint32_t other, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = (uint8_t)what, .other = other};
    return order(c, &m, NULL, e);
}

client_ts client_clock(struct client *c, uint32_t table, uint64_t clock, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_CLOCK, .clock = clock};
    return order(c, &m, NULL, e);
}

client_ts client_shrink(struct client *c, uint32_t table, float threshold,
                        uint64_t *ret_removed, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_SHRINK, .threshold = threshold};
    return order(c, &m, ret_removed, e);
}

client_ts client_day(struct client *c, uint32_t table, struct err *e)
{
    struct msg_table_do m = {.table = table, .what = WIRE_DAY};
    return order(c, &m, NULL, e);
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
    struct request *r = request_new(c, REQUEST_STEP, e);
    if (r == NULL)
        return 0;
    r->spec = &request_no_table;
    c->steps += steps;
    r->u.step = (struct step_wanted){
        .message = {.session = member_session(c->member), .steps = c->steps},
        .global = ret_global};
    if (ret_global != NULL)
        *ret_global = 0;
    return request_begin(r, NULL, NULL);
}

client_ts client_stat(struct client *c, uint32_t table, struct msg_table_is *ret,
                      struct err *e)
{
    const struct table_spec *spec = request_known(c, table, e);
    struct request *r = spec != NULL ? request_new(c, REQUEST_STAT, e) : NULL;
    if (r == NULL)
        return 0;
    *ret = (struct msg_table_is){.clock = UINT64_MAX};
    r->spec = spec;
    r->u.stat = ret;
    return request_begin(r, NULL, NULL);
}

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
    struct request *r = spec != NULL ? request_new(c, REQUEST_ROWS, e) : NULL;
    if (r == NULL)
        return 0;
    r->spec = spec;
    r->u.rows = (struct rows_wanted){
        .message = {.table = w->table,
                    .partition = w->partition,
                    .from = w->from,
                    .max = max},
        .walk = w,
        .keys = ret_keys,
        .values = ret_values,
    };
    return request_begin(r, NULL, NULL);
}

// Answers.

static void add(uint64_t *sum, uint64_t value)
{
    if (sum != NULL)
        *sum += value;
}

bool client_tables_ok(struct request *r, uint64_t value)
{
    switch (r->kind) {
    case REQUEST_STAT:
    case REQUEST_ROWS:
    case REQUEST_INFO:
    case REQUEST_BELOW:
        return false;
    case REQUEST_SAVE:
        return !r->u.save->turn;
    case REQUEST_ADMIN:
        add(r->u.order.sum, value);
        return true;
    case REQUEST_LOAD:
        add(r->u.load->rows, value);
        return true;
    case REQUEST_STEP: // loops hear of steps at different times
        if (r->u.step.global != NULL && value > *r->u.step.global)
            *r->u.step.global = value;
        return true;
    default:
        return true;
    }
}

// Figures are counts, all of them, and those of all loops are added.
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

bool client_tables_figures(struct request *r, const struct msg_table_is *m)
{
    if (r->kind != REQUEST_STAT)
        return false;
    struct msg_table_is *sum = r->u.stat, x = *sum;
    add_table_is(sum, m);
    sum->clock = min_u64(x.clock, m->clock);
    sum->day = x.day > m->day ? x.day : m->day;
    sum->step = x.step > m->step ? x.step : m->step;
    return true;
}
