// tug table: shows and changes tables, in a saved directory (--from) or in a running
// cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/table/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "accessor/life.h"
#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/table/table_top.h"
#include "os/file.h"
#include "save/save.h"
#include "store/config.h"
#include "train/rows/run_tables.h"

#define OPTIONS_OF struct table_values

static const struct option options[] = {
    {"action", .group = "What to do",
     .choices =
         "list stat get settings top create load clear drop shrink day save export "
         "dump import",
     LIST_AT(action, "ACTION"),
     "the action, as described above; files follow import, and keys follow get"},
    {"from", STRING_AT(from, "DIR"),
     "saved tables: the --out of a training run, a directory of saves (the newest save "
     "is taken, with the saves on which it builds), or one save. Without this option "
     "the command works on the running cluster; load reads a save from DIR into the "
     "cluster"},
    {"table", STRING_AT(table, "NAME"),
     "name of the table; in a saved model 'sparse' (one row per feature), 'dense' (the "
     "bias), and with --valid 'training-sparse' and 'training-dense'. By default the "
     "only table, or 'sparse'; stat and save then take all tables. On a running cluster "
     "load, clear, drop, shrink and day need this option"},
    {"settings", STRING_AT(settings, "TEXT|FILE"),
     "create, import: the settings of the table, as 'accessor=ctr; dim=8; "
     "entry=count:3', or a file of such lines"},
    {"number", F64_AT(number, "N", "-1", -1, 4095),
     "create, import: number of the table in the cluster, for programs; -1: any free "
     "one"},
    {"threshold", F64_AT(threshold, "SCORE", "-1", -1, 1e30),
     "shrink: rows with a lower score are removed; -1: the table's delete-threshold"},
    {"mode", .group = "Saves", CHOICE_AT(mode, TABLE_MODES, NULL),
     "checkpoint: every row, to continue from; base: the rows worth publishing; delta: "
     "the rows of a base that have changed since the last base or delta; day: a "
     "checkpoint, and "
     "then "
     "the day ends"},
    {"zstd", U64_AT(zstd, "LEVEL", "0", 0, 19), "level of compression; 0: none"},
    {"keep", U64_AT(keep, "N", "0", 0, 1 << 20),
     "number of bases and checkpoints, with their deltas, that are kept in the "
     "directory; each save that is not a delta removes the older ones; 0: keep all"},
    {"out", .group = "Files", STRING_AT(out, "PATH"),
     "export, dump: the file, which appears when it is complete; by default export "
     "writes to standard output. save, import: the directory of saves; for saved tables "
     "by default that of --from"},
    {"state", FLAG_AT(state),
     "export: also write the optimizer's state and the statistics, so that import can "
     "make the same table"},
    {"paddle", FLAG_AT(paddle),
     "import: the files are text parts of a Paddle table, not files of export"},
    {"converter", STRING_AT(converter, "COMMAND"),
     "export: a shell command that converts the text; import: a shell command that "
     "converts each file. If the command fails, nothing is written"},
    {"by", .group = "Looking", CHOICE_AT(by, TABLE_TOP_BY, "weight"),
     "top: sort rows by the weight (several weights: by their length), by the length of "
     "the vector, or by shows (in a model: by updates)"},
    {"top", U64_AT(top, "N", "20", 1, 10000000), "top: number of rows to print"},
    {"json", FLAG_AT(json), "list, stat, top: print one JSON object"},
    {TOOL_SCHEDULER_OPTION},
    NODE_REACH_OPTIONS("5"),
};

const struct option_table cli_table_options = {
    .command = "table",
    .summary = "look into tables, change, save, load, export and import them",
    .usage = "ACTION [--from DIR] [--table NAME] [options]",
    .about =
        "A table holds rows of weights under 64-bit keys. Rows of click-through models "
        "also count shows and clicks, earn embeddings and are removed; docs/tables.md "
        "describes this lifecycle. Actions work on tables of a running cluster, or with "
        "--from on saved ones; actions that change saved tables write a new save beside "
        "the old one.\n"
        "list: prints the names of the tables. stat: prints rows, bytes, days, and how "
        "many rows were created and removed, and why. get: prints the rows of the given "
        "keys, as export writes them (for a running table, as a pull returns them: "
        "zeros for a key without a row); for a saved model also by COLUMN=WORD, such as "
        "'get site=a'. top: prints the rows with the largest weights or vectors, or the "
        "most shows; for a model with --keep-names also of some columns, such as 'top "
        "site'. settings: lists the settings of a table.\n"
        "create: creates a table in the cluster, unless it exists with the same "
        "settings. load: replaces the rows of the table by those of a save, which may "
        "come from another number of servers. clear: removes all rows. drop: removes "
        "the table itself.\n"
        "shrink: lets shows and clicks decay, and removes rows whose score is too low; "
        "run it once a day. day: tells the table that a day has ended, so that rows "
        "count as unseen for one more day. save: writes a new save in the directory "
        "--out, by all servers, while training continues; the save is complete or "
        "absent. All servers must see the directory under this name.\n"
        "export: writes a saved table as text, one row a line, sorted by key: the key, "
        "then the weights, with enough digits to read the same floats again; --out - is "
        "standard output. dump: writes a running table in the same way, as pulls return "
        "it. import: turns text into a save. Keys of libsvm and libffm data are the "
        "indices of the file; those of other formats are hashes of (slot, value).",
    .examples = "tug table stat --from model\n"
                "tug table get 17 99 --from model\n"
                "tug table get C9=7cc72ec2 --from model\n"
                "tug table top --from model --by vector --top 50\n"
                "tug table export --from model --out weights.txt\n"
                "tug table settings\n"
                "tug table create --settings users.table\n"
                "tug table save --table users --out saves --mode delta\n"
                "tug table shrink --table users\n"
                "tug table load --table users --from saves\n"
                "tug table export --from saves --converter 'gzip -9' --out users.txt.gz\n"
                "tug table import part-* --paddle --settings users.table --out saves",
    .operands = "action",
    CLI_OPTIONS(options),
};

int table_unknown(const char *where, const char *name, const char *names, struct err *e)
{
    char near[OPTION_NAME_MAX];
    options_nearest(name, names != NULL ? names : "", near);
    if (near[0] != 0)
        return err_set(e, TUG_EUSAGE, "%s holds no table '%s'; did you mean '%s'?", where,
                       name, near);
    if (names == NULL || names[0] == 0)
        return err_set(e, TUG_EUSAGE, "%s has no tables, so no table '%s'", where, name);
    return err_set(e, TUG_EUSAGE, "%s holds no table '%s'; there are: %s", where, name,
                   names);
}

int table_check_place(const char *out, const char *name, struct err *e)
{
    char newest[FILE_PATH_MAX];
    struct save_manifest m;
    struct err none;
    if (save_find(out, newest, &none) != 0)
        return 0;
    TRY(save_read(newest, &m, e));
    int rc = 0;
    for (size_t i = 0; i < m.n_tables && rc == 0; i++)
        if (strcmp(m.tables[i].config.name, name) != 0)
            rc = err_set(
                e, TUG_EUSAGE,
                "%s holds saves of table '%s', and all its saves must have the same "
                "tables: save '%s' into another directory, or both tables together",
                out, m.tables[i].config.name, name);
    save_manifest_free(&m);
    return rc;
}

int table_find_saves(const char *from, char ret[FILE_PATH_MAX], const char **ret_name,
                     struct err *e)
{
    struct save_manifest m;
    TRY(save_find(from, ret, e));
    TRY(save_read(ret, &m, e));
    *ret_name = m.about != NULL ? RUN_SPARSE : NULL;
    save_manifest_free(&m);
    return 0;
}

// The actions, in the order in which messages list them, with flags: whether an action
// works on saved tables, whether it works on a running cluster, whether it only reads,
// and whether words may follow it.
struct action {
    const char *name;
    bool saved, running, looks, words;
};
static const struct action actions[] = {
    {"list", .saved = true, .running = true, .looks = true},
    {"stat", .saved = true, .running = true, .looks = true},
    {"get", .saved = true, .running = true, .looks = true, .words = true},
    {"settings", .saved = true, .running = true, .looks = true},
    {"top", .saved = true, .running = true, .looks = true, .words = true},
    {"create", .running = true},
    {"load", .running = true},
    {"clear", .saved = true, .running = true},
    {"drop", .saved = true, .running = true},
    {"shrink", .saved = true, .running = true},
    {"day", .saved = true, .running = true},
    {"save", .saved = true, .running = true},
    {"export", .saved = true, .looks = true},
    {"dump", .running = true},
    {"import", .saved = true, .words = true},
};
enum { ACTIONS = sizeof(actions) / sizeof(*actions) };

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int unknown_action(const char *name, struct err *e)
{
    char near[OPTION_NAME_MAX], names[256];
    size_t n = 0;
    for (size_t i = 0; i < ACTIONS; i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i > 0 ? " " : "",
                              actions[i].name);
    options_nearest(name, names, near);
    if (near[0] != 0)
        return err_set(e, TUG_EUSAGE, "there is no action '%s'; did you mean '%s'?", name,
                       near);
    return err_set(e, TUG_EUSAGE, "%s%s%s; there are: %s",
                   name[0] != 0 ? "there is no action '" : "say what to do", name,
                   name[0] != 0 ? "'" : "", names);
}

static int table_values_check(const struct table_values *v, const struct action **ret,
                              struct err *e)
{
    const char *name = v->action.n > 0 ? v->action.items[0] : "";
    const struct action *a = *ret = find_action(name);
    bool import = strcmp(name, "import") == 0;
    if (a == NULL)
        return unknown_action(name, e);
    if (v->action.n > 1 && !a->words)
        return err_set(e, TUG_EUSAGE, "'%s': only one action can be given",
                       v->action.items[1]);
    if (strcmp(name, "get") == 0 && v->action.n < 2)
        return err_set(e, TUG_EUSAGE,
                       "get needs keys, as in 'tug table get 17 99 --from DIR'");
    if (import && (v->action.n < 2 || v->out == NULL || v->settings == NULL))
        return err_set(e, TUG_EUSAGE,
                       "import needs files, the table's --settings and --out DIR");
    if (!a->running && v->from == NULL && !import)
        return err_set(e, TUG_EUSAGE,
                       "%s reads saved tables and needs --from DIR (dump writes those of "
                       "a running cluster)",
                       name);
    if (!a->saved && v->from != NULL && strcmp(name, "load") != 0)
        return err_set(e, TUG_EUSAGE,
                       "%s works on running clusters only: leave --from out", name);
    return 0;
}

static int table_command(const void *values, const struct options *o, struct err *e)
{
    const struct table_values *v = values;
    const struct action *a;
    TRY(table_values_check(v, &a, e));
    for (size_t i = 0; i < 2 && strcmp(a->name, "top") != 0; i++)
        if (options_given(o, i == 0 ? "by" : "top"))
            return err_set(e, TUG_EUSAGE, "--%s only works with 'tug table top'",
                           i == 0 ? "by" : "top");
    if (strcmp(a->name, "settings") == 0)
        return table_print_settings(e);
    if (strcmp(a->name, "import") == 0)
        return table_import(v, e);
    if (a->saved && v->from != NULL)
        return table_saved(v, v->from, e);
    return table_running(v, e);
}

const struct cli_command cli_table = {&cli_table_options, sizeof(struct table_values),
                                      .run = table_command};
