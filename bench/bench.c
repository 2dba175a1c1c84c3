// The harness; see bench.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "os/disk.h"
#include "os/log.h"

enum { NAME_MAX_BYTES = 40, DIGITS = 9 };

static const struct {
    const char *name;
    int (*run)(struct bench *b, struct err *e);
} benches[] = {
    {"table", bench_table},     {"train", bench_train}, {"van", bench_van},
    {"cluster", bench_cluster}, {"rules", bench_rules}, {"save", bench_save},
    {"shrink", bench_shrink},   {"tier", bench_tier},   {"kvstore", bench_kvstore},
    {"score", bench_score},     {"moves", bench_moves}, {"replicas", bench_replicas},
};

int bench_run(const char *name, const struct bench_options *o, struct err *e)
{
    size_t i = 0, n = sizeof(benches) / sizeof(*benches);
    while (i < n && strcmp(name, benches[i].name) != 0)
        i++;
    if (i == n)
        return err_set(
            e, TUG_EUSAGE,
            "say what to measure: 'tug bench' and one of table, train, van, "
            "cluster, moves, replicas, kvstore, rules, save, shrink, tier and score");
    json_begin();
    log_set_level(LOG_WARN); // no progress lines between the results
    struct bench b = {*o, json_pack("{s:s}", "bench", name)};
    int rc = benches[i].run(&b, e);
    if (rc == 0 && o->json)
        return json_print(b.figures, JSON_REAL_PRECISION(DIGITS), e);
    json_decref(b.figures);
    return rc;
}

// ---------------------------------------------------------------- figures

void bench_count(json_t *figures, const char *name, uint64_t n)
{
    (void)json_object_set_new(figures, name, json_integer((json_int_t)n));
}

void bench_set(json_t *figures, const char *name, double x)
{
    (void)json_object_set_new(figures, name, json_real(isfinite(x) ? x : 0));
}

double bench_get(const json_t *figures, const char *name)
{
    return json_number_value(json_object_get(figures, name));
}

void bench_ratio(json_t *figures, const char *name, const char *over, const char *under)
{
    bench_set(figures, name, bench_get(figures, over) / bench_get(figures, under));
}

json_t *bench_group(json_t *figures, const char *name)
{
    json_t *group = json_object();
    (void)json_object_set_new(figures, name, group);
    return group;
}

json_t *bench_row(json_t *figures, const char *list)
{
    json_t *row = json_object();
    if (json_object_get(figures, list) == NULL)
        (void)json_object_set_new(figures, list, json_array());
    (void)json_array_append_new(json_object_get(figures, list), row);
    return row;
}

static double unit_of(char letter)
{
    static const char letters[] = "kMGK%";
    static const double units[] = {1e-3, 1e-6, 1e-9, 1.0 / 1024, 100};
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL ? units[at - letters] : 1;
}

// Prints the figure for a field, which is the text between two braces.
static void print_figure(const json_t *figures, const char *field)
{
    char name[NAME_MAX_BYTES] = "", under[NAME_MAX_BYTES] = "";
    size_t len = strcspn(field, "/:}");
    snprintf(name, sizeof(name), "%.*s", (int)len, field);
    field += len;
    if (*field == '/') {
        len = strcspn(++field, ":}");
        snprintf(under, sizeof(under), "%.*s", (int)len, field);
        field += len;
    }
    char *rest = (char *)(uintptr_t)field;
    int width = *rest == ':' ? (int)strtol(rest + 1, &rest, 10) : 0;
    int digits = *rest == '.' ? (int)strtol(rest + 1, &rest, 10) : 0;
    const char *word = json_string_value(json_object_get(figures, name));
    double x = bench_get(figures, name) * unit_of(*rest);
    if (word != NULL)
        printf("%*s", width, word);
    else
        printf("%*.*f", width, digits,
               *under != '\0' ? x / bench_get(figures, under) : x);
}

void bench_print(const struct bench *b, const json_t *figures, const char *text)
{
    if (b->o.json)
        return;
    while (*text != '\0') {
        size_t len = strcspn(text, "{");
        printf("%.*s", (int)len, text);
        text += len;
        if (*text == '{') {
            print_figure(figures, text + 1);
            text += strcspn(text, "}") + 1;
        }
    }
    fflush(stdout);
}

// ---------------------------------------------------------------- time

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *x, size_t n, double q)
{
    qsort(x, n, sizeof(*x), compare);
    return x[(size_t)((double)n * q)];
}

double bench_median(double *x, size_t n)
{
    return bench_quantile(x, n, 0.5);
}

uint64_t bench_key(uint64_t i)
{
    return mix64(i + 1);
}

// ------------------------------------------- the directory of a measurement's files

int bench_make_dir(const struct bench *b, char ret_path[FILE_PATH_MAX], struct err *e)
{
    const char *folder = getenv("TMPDIR"), *in = b->o.dir;
    if (in == NULL)
        in = folder != NULL && *folder ? folder : "/tmp";
    TRY(file_make_dir(in, e));
    TRY(file_join(ret_path, in, "tug-bench-XXXXXX", e));
    if (disk_make_temp_dir(ret_path) == 0)
        return 0;
    int rc = err_sys(e, TUG_EIO, "can't make directory '%s'", ret_path);
    ret_path[0] = '\0';
    return rc;
}

void bench_remove_dir(const char *path)
{
    (void)file_remove_deep(path, 8, NULL);
}
