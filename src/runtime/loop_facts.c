// The facts of loops; see loop_facts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/loop_facts.h"

#include <string.h>

#include "base/histogram.h"
#include "os/file.h"
#include "os/json.h"
#include "os/usage.h"
#include "protocol/spec.h"
#include "runtime/tool.h"

enum {
    NAME_MAX_BYTES = 64, // longest name of a member of kind COUNTS
    COUNTS_MAX = 32,
    WORKERS_MAX = 1 << 16, // most workers in all tables of a loop together
};

// ---------------------------------------------------------------- documented members

enum kind {
    NUMBER,
    TEXT,
    COUNTS,  // an object of numbers
    NUMBERS, // a list of at most `max` numbers
    GROUP,   // an object whose members are listed in `of`
    GROUPS   // a list of at most `max` such objects
};

struct member {
    const char *name;
    enum kind kind;
    const struct member *of;
    size_t max;
};

#define ONE(name, kind)                                                                  \
    {                                                                                    \
        name, kind, NULL, 0                                                              \
    }
#define NUMBERS_OF(name, max)                                                            \
    {                                                                                    \
        name, NUMBERS, NULL, max                                                         \
    }
#define GROUP_OF(name, of)                                                               \
    {                                                                                    \
        name, GROUP, of, 0                                                               \
    }
#define GROUPS_OF(name, of, max)                                                         \
    {                                                                                    \
        name, GROUPS, of, max                                                            \
    }

static const struct member histogram[] = {
    ONE("count", NUMBER),
    ONE("seconds", NUMBER),
    NUMBERS_OF("buckets", HISTOGRAM_BUCKETS),
    ONE(NULL, NUMBER),
};
static const struct member requests[] = {
    GROUP_OF("push", histogram),
    GROUP_OF("pull", histogram),
    GROUP_OF("other", histogram),
    ONE(NULL, NUMBER),
};
static const struct member worker[] = {ONE("rank", NUMBER), ONE("loop", NUMBER),
                                       ONE("clock", NUMBER), ONE("behind", NUMBER),
                                       ONE(NULL, NUMBER)};
static const struct member table[] = {
    ONE("id", NUMBER),          ONE("name", TEXT),
    ONE("mode", TEXT),          ONE("width", NUMBER),
    ONE("rows", NUMBER),        ONE("backup_rows", NUMBER),
    ONE("bytes", NUMBER),       ONE("pushes", NUMBER),
    ONE("repeats", NUMBER),     ONE("pulls", NUMBER),
    ONE("pushed_keys", NUMBER), ONE("pulled_keys", NUMBER),
    ONE("examples", NUMBER),    ONE("clock", NUMBER),
    ONE("held", NUMBER),        ONE("made", NUMBER),
    ONE("removed", COUNTS),     ONE("refused", NUMBER),
    ONE("left_out", NUMBER),    ONE("cold", COUNTS),
    ONE("staleness", NUMBER),   GROUPS_OF("workers", worker, WORKERS_MAX),
    ONE(NULL, NUMBER),
};
static const struct member save[] = {
    ONE("number", NUMBER), ONE("state", TEXT),     ONE("path", TEXT),
    ONE("bytes", NUMBER),  ONE("seconds", NUMBER), ONE("finished_unix_seconds", NUMBER),
    ONE("error", TEXT),    ONE(NULL, NUMBER),
};
static const struct member saves[] = {
    ONE("made", NUMBER),    ONE("failed", NUMBER), GROUP_OF("now", save),
    GROUP_OF("last", save), ONE(NULL, NUMBER),
};
static const struct member disk[] = {
    ONE("what", TEXT),         ONE("path", TEXT), ONE("free_bytes", NUMBER),
    ONE("size_bytes", NUMBER), ONE("host", TEXT), ONE("device", TEXT),
    ONE(NULL, NUMBER),
};
static const struct member door[] = {
    ONE("name", TEXT),          ONE("pushes", NUMBER),
    ONE("pulls", NUMBER),       ONE("simple", NUMBER),
    ONE("keys", NUMBER),        ONE("bytes", NUMBER),
    ONE("waiting", NUMBER),     ONE("refused", NUMBER),
    ONE("stored_keys", NUMBER), ONE("merged_pushes", NUMBER),
    ONE("optimizer", TEXT),     ONE(NULL, NUMBER),
};
static const struct member loop[] = {
    ONE("role", TEXT),
    ONE("version", TEXT),
    ONE("pid", NUMBER),
    ONE("unix_seconds", NUMBER),
    ONE("uptime_seconds", NUMBER),
    ONE("cpu_seconds", NUMBER),
    ONE("resident_bytes", NUMBER),
    ONE("open_files", NUMBER),
    ONE("open_files_max", NUMBER),
    GROUPS_OF("disks", disk, USAGE_DISKS),
    ONE("node", NUMBER),
    ONE("rank", NUMBER),
    ONE("loop", NUMBER),
    ONE("epoch", NUMBER),
    ONE("waiting", NUMBER),
    NUMBERS_OF("bucket_seconds", HISTOGRAM_BUCKETS),
    GROUP_OF("requests", requests),
    ONE("memory", COUNTS),
    GROUPS_OF("tables", table, SPEC_MAX_TABLES),
    GROUP_OF("saves", saves),
    GROUP_OF("door", door),
    ONE(NULL, NUMBER),
};

// ---------------------------------------------------------------- keeping them

struct keep {
    size_t workers; // number of workers that were kept so far
    bool failed;    // memory ran out
};

static json_t *keep_group(struct keep *k, const json_t *from, const struct member *of);

static json_t *share(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

static json_t *made(struct keep *k, json_t *value)
{
    k->failed = k->failed || value == NULL;
    return value;
}

static json_t *keep_counts(struct keep *k, const json_t *from)
{
    json_t *to = made(k, json_object()), *value;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)from, name, value)
        if (json_is_number(value) && strlen(name) <= NAME_MAX_BYTES &&
            json_object_size(to) < COUNTS_MAX && !k->failed)
            k->failed = json_object_set(to, name, value) != 0;
    return to;
}

static json_t *keep_list(struct keep *k, const json_t *from, const struct member *m)
{
    json_t *to = made(k, json_array()), *value;
    size_t i, most = m->max;
    json_array_foreach(from, i, value) {
        bool right = m->kind == NUMBERS ? json_is_number(value) : json_is_object(value);
        if (m->of == worker && k->workers++ >= WORKERS_MAX)
            break;
        if (!right || k->failed || json_array_size(to) >= most)
            // The meaning of an element depends on its index, so the copy ends before the
            // first bad element.
            break;
        json_t *copy = m->kind == NUMBERS ? share(value) : keep_group(k, value, m->of);
        k->failed = k->failed || json_array_append_new(to, copy) != 0;
    }
    return to;
}

// Returns a copy of a member; NULL if the member is not as documented.
static json_t *keep_member(struct keep *k, const json_t *value, const struct member *m)
{
    if (json_is_null(value))
        return share(value);
    switch (m->kind) {
    case NUMBER:
        return json_is_number(value) ? share(value) : NULL;
    case TEXT:
        return json_string_length(value) < FILE_PATH_MAX && json_is_string(value)
                   ? share(value)
                   : NULL;
    case COUNTS:
        return json_is_object(value) ? keep_counts(k, value) : NULL;
    case GROUP:
        return json_is_object(value) ? keep_group(k, value, m->of) : NULL;
    case NUMBERS:
    case GROUPS:
        return json_is_array(value) ? keep_list(k, value, m) : NULL;
    }
    return NULL;
}

static json_t *keep_group(struct keep *k, const json_t *from, const struct member *of)
{
    json_t *to = made(k, json_object());
    for (; of->name != NULL && !k->failed; of++) {
        const json_t *value = json_object_get(from, of->name);
        json_t *copy = value != NULL ? keep_member(k, value, of) : NULL;
        if (copy != NULL && json_object_set_new(to, of->name, copy) != 0)
            k->failed = true;
    }
    return to;
}

json_t *loop_facts_keep(const json_t *answer)
{
    struct keep k = {0};
    json_begin();
    json_t *to = keep_group(&k, answer, loop);
    if (k.failed) {
        json_decref(to);
        return NULL;
    }
    return to;
}

// ---------------------------------------------------------------- sums of tables

// tool_count is at most 2^53, so the sum of two counts does not overflow.
static void add_to(json_t *sum, const json_t *of, const char *name)
{
    const int64_t most = (int64_t)1 << 53;
    int64_t both = tool_count(sum, name) + tool_count(of, name);
    json_object_set_new(sum, name, json_integer(both < most ? both : most));
}

// Adds the members of a part of a table, such as "removed", to those of the same part of
// the sum. Copies the sum's part first, because an answer may share it.
static void add_part(json_t *sum, const json_t *of, const char *part)
{
    const char *name;
    json_t *value, *from = json_object_get(of, part), *to = NULL;
    if (!json_is_object(from))
        return;
    if (!json_is_object(json_object_get(sum, part))) { // no loop so far had this part
        json_object_set(sum, part, from);
        return;
    }
    to = json_copy(json_object_get(sum, part));
    json_object_foreach(from, name, value)
        add_to(to, from, name);
    json_object_set_new(sum, part, to);
}

static void add_table(json_t *tables, json_t *by_id[SPEC_MAX_TABLES], const json_t *of)
{
    static const char *const added[] = {
        "rows",    "backup_rows", "bytes",       "pushes",   "repeats",
        "pulls",   "pushed_keys", "pulled_keys", "examples", "held",
        "refused", "left_out",    "made"};
    int64_t id = tool_count(of, "id");
    if (id < 0 || id >= SPEC_MAX_TABLES || !json_is_string(json_object_get(of, "name")))
        // A real server sends a valid id and a name; the page's script relies on the
        // name.
        return;
    json_t *sum = by_id[id];
    if (sum == NULL) {
        by_id[id] = json_copy((json_t *)(uintptr_t)of);
        json_array_append_new(tables, by_id[id]);
        return;
    }
    for (size_t i = 0; i < sizeof(added) / sizeof(*added); i++)
        add_to(sum, of, added[i]);
    add_part(sum, of, "removed");
    add_part(sum, of, "cold");
    int64_t clock = tool_count(of, "clock"), least = tool_count(sum, "clock"),
            most = tool_count(sum, "clock_max");
    json_object_set_new(sum, "clock", json_integer(clock < least ? clock : least));
    json_object_set_new(sum, "clock_max", json_integer(clock > most ? clock : most));
}

json_t *loop_facts_sum_tables(const json_t *loops)
{
    json_t *tables = json_array(), *by_id[SPEC_MAX_TABLES] = {NULL}, *of, *t;
    size_t i, k;
    json_array_foreach(loops, i, of)
        json_array_foreach(json_object_get(of, "tables"), k, t)
            add_table(tables, by_id, t);
    return tables;
}
