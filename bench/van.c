// tug bench van: the van beside a plain TCP socket, with and without TLS, in turns.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "bench/bench.h"
#include "bench/cipher.h"
#include "bench/pair.h"
#include "van/tls.h"

enum {
    SOCKET,
    PLAIN,
    SECURE,
    KINDS,
    ROUNDS = 3, // the kinds take turns
    MAX_PINGS = 1 << 20,
    PEM_MAX = 64 << 10,
    IN_FLIGHT = 8,
    SIZES = 3,
    DEPTHS = 2,
};

#define TIMEOUT_NS ((uint64_t)60000000000)

static const char *const kinds[KINDS] = {"socket", "van", "tls"};
static const uint64_t sizes[SIZES] = {256 << 10, 4 << 20, 64 << 20};
static const int depths[DEPTHS] = {1, IN_FLIGHT};

struct latency {
    double p50, p99; // seconds
};

struct net_bench {
    const struct bench_options *o;
    struct tls *tls;
    struct bench_pair *pairs[KINDS];
    float *pings;
    struct latency latency[KINDS];
    int n_sizes;
    double rate[SIZES][DEPTHS][KINDS]; // bytes a second
    double encrypt, decrypt;
};

// Measuring.

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double x[ROUNDS])
{
    qsort(x, ROUNDS, sizeof(*x), by_double);
    return x[ROUNDS / 2];
}

static int ping(struct net_bench *b, struct bench_pair *p, double seconds,
                struct latency *ret, struct err *e)
{
    size_t n = 0;
    double begin = clock_seconds(), now = begin;
    while (n == 0 || (now - begin < seconds && n < MAX_PINGS)) {
        double sent = now;
        TRY(p->send(p, 64, e));
        TRY(p->await(p, e));
        now = clock_seconds();
        b->pings[n++] = (float)(now - sent);
    }
    qsort(b->pings, n, sizeof(*b->pings), by_float);
    *ret = (struct latency){b->pings[n / 2], b->pings[n * 99 / 100]};
    return 0;
}

static int stream(struct bench_pair *p, uint64_t bytes, int in_flight, double seconds,
                  double *ret, struct err *e)
{
    uint64_t sent = 0, answered = 0;
    double begin = clock_seconds(), now = begin;
    while (answered == 0 || now - begin < seconds) {
        for (; sent - answered < (uint64_t)in_flight; sent++)
            TRY(p->send(p, bytes, e));
        TRY(p->await(p, e));
        answered++;
        now = clock_seconds();
    }
    for (; answered < sent; answered++)
        TRY(p->await(p, e));
    *ret = (double)(answered * bytes) / (clock_seconds() - begin);
    return 0;
}

static int measure_latency(struct net_bench *b, struct err *e)
{
    double p50[KINDS][ROUNDS], p99[KINDS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct latency l;
            TRY(ping(b, b->pairs[kind], b->o->seconds / ROUNDS, &l, e));
            p50[kind][round] = l.p50;
            p99[kind][round] = l.p99;
        }
    for (int kind = 0; kind < KINDS; kind++)
        b->latency[kind] = (struct latency){median(p50[kind]), median(p99[kind])};
    return 0;
}

static int measure_rate(struct net_bench *b, int size, int depth, struct err *e)
{
    double rate[KINDS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++)
            TRY(stream(b->pairs[kind], sizes[size], depths[depth], b->o->seconds / ROUNDS,
                       &rate[kind][round], e));
    for (int kind = 0; kind < KINDS; kind++)
        b->rate[size][depth][kind] = median(rate[kind]);
    return 0;
}

static int measure(struct net_bench *b, struct err *e)
{
    TRY(measure_latency(b, e));
    for (int size = 0; size < b->n_sizes; size++)
        for (int depth = 0; depth < DEPTHS; depth++)
            TRY(measure_rate(b, size, depth, e));
    return bench_cipher(b->o->seconds, &b->encrypt, &b->decrypt, e);
}

// A cluster's keys, for this run.

static int make_keys(struct tls **ret, struct err *e)
{
    struct buf ca_key = BUF_INIT(PEM_MAX), ca = BUF_INIT(PEM_MAX);
    struct buf key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX);
    int rc = tls_make_ca(&ca_key, &ca, 1, e);
    if (rc == 0 && (buf_str(&ca_key) == NULL || buf_str(&ca) == NULL))
        rc = err_nomem(e, "keys");
    if (rc == 0)
        rc = tls_make_node(ca_key.data, ca.data, "bench", NULL, 1, &key, &cert, e);
    if (rc == 0 &&
        (buf_add(&ca, cert.data, cert.len) != 0 || buf_add(&ca, key.data, key.len) != 0))
        rc = err_nomem(e, "keys");
    if (rc == 0)
        rc = tls_open_text(ret, ca.data, ca.len, e);
    buf_free(&ca_key);
    buf_free(&ca);
    buf_free(&key);
    buf_free(&cert);
    return rc;
}

// What TLS would reach if the slower of its two ends did nothing but what it does without
// TLS, and its cipher.
static double tls_limit(const struct net_bench *b, int size, int depth)
{
    double cipher = b->encrypt < b->decrypt ? b->encrypt : b->decrypt;
    return 1 / (1 / b->rate[size][depth][PLAIN] + 1 / cipher);
}

static void print_text(const struct net_bench *b)
{
    for (int kind = 0; kind < KINDS; kind++)
        printf("64 bytes there and back, %s: p50 %.1f us, p99 %.1f us\n", kinds[kind],
               b->latency[kind].p50 * 1e6, b->latency[kind].p99 * 1e6);
    for (int size = 0; size < b->n_sizes; size++)
        for (int depth = 0; depth < DEPTHS; depth++) {
            const double *r = b->rate[size][depth];
            printf("%llu KB, %d in flight: socket %.2f GB/s, van %.2f (%.2f of it), tls "
                   "%.2f (%.2f of the van's; the cipher allows %.2f)\n",
                   (unsigned long long)sizes[size] >> 10, depths[depth], r[SOCKET] * 1e-9,
                   r[PLAIN] * 1e-9, r[PLAIN] / r[SOCKET], r[SECURE] * 1e-9,
                   r[SECURE] / r[PLAIN], tls_limit(b, size, depth) / r[PLAIN]);
        }
    printf("AES-128-GCM on one core: encrypts %.2f GB/s, decrypts %.2f\n",
           b->encrypt * 1e-9, b->decrypt * 1e-9);
}

static json_t *to_json(const struct net_bench *b)
{
    json_t *latency = json_object(), *rates = json_array();
    for (int kind = 0; kind < KINDS; kind++)
        json_object_set_new(latency, kinds[kind],
                            json_pack("{s:f, s:f}", "p50_us", b->latency[kind].p50 * 1e6,
                                      "p99_us", b->latency[kind].p99 * 1e6));
    for (int size = 0; size < b->n_sizes; size++)
        for (int depth = 0; depth < DEPTHS; depth++) {
            const double *r = b->rate[size][depth];
            json_array_append_new(
                rates,
                json_pack("{s:I, s:i, s:f, s:f, s:f, s:f}", "bytes",
                          (json_int_t)sizes[size], "in_flight", depths[depth],
                          kinds[SOCKET], r[SOCKET], kinds[PLAIN], r[PLAIN], kinds[SECURE],
                          r[SECURE], "tls_limit", tls_limit(b, size, depth)));
        }
    return json_pack("{s:s, s:o, s:o, s:{s:f, s:f}}", "bench", "van", "ping", latency,
                     "bytes_per_second", rates, "aes_128_gcm", "encrypt", b->encrypt,
                     "decrypt", b->decrypt);
}

static int print_json(const struct net_bench *b, struct err *e)
{
    json_t *j = to_json(b);
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text == NULL)
        return err_nomem(e, "the result");
    printf("%s\n", text);
    mem_free(text);
    return 0;
}

static int run(struct net_bench *b, struct err *e)
{
    struct bench_pair_options po = {
        .max_bytes = sizes[b->n_sizes - 1],
        .spin_ns = (uint64_t)(b->o->spin_us * 1000),
        .timeout_ns = TIMEOUT_NS,
    };
    b->pings = mem_array(MAX_PINGS, sizeof(*b->pings));
    if (b->pings == NULL)
        return err_nomem(e, "times of pings");
    TRY(make_keys(&b->tls, e));
    TRY(bench_pair_socket(&b->pairs[SOCKET], &po, e));
    TRY(bench_pair_van(&b->pairs[PLAIN], &po, e));
    po.tls = b->tls;
    TRY(bench_pair_van(&b->pairs[SECURE], &po, e));
    TRY(measure(b, e));
    if (b->o->json)
        return print_json(b, e);
    print_text(b);
    return 0;
}

int bench_van(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct net_bench b = {.o = o, .n_sizes = 1};
    while (b.n_sizes < SIZES && sizes[b.n_sizes] <= o->max_bytes)
        b.n_sizes++;
    json_set_alloc_funcs(mem_alloc, mem_free);
    log_set_level(LOG_WARN);
    int rc = run(&b, e);
    for (int kind = 0; kind < KINDS; kind++)
        bench_pair_close(b.pairs[kind]);
    tls_close(b.tls);
    mem_free(b.pings);
    return rc;
}
