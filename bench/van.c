// tug bench van: compares the van, with and without TLS, with a plain TCP socket, in
// turns.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/pair.h"
#include "van/tls.h"

enum {
    SOCKET,
    PLAIN,
    SECURE,
    KINDS,
    ROUNDS = 3, // turns of each kind of link
    MAX_PINGS = 1 << 20,
    PEM_MAX = 64 << 10,
    SIZES = 3,
};

#define TIMEOUT_NS ((uint64_t)60000000000)

static const char *const kinds[KINDS] = {"socket", "van", "tls"};
static const uint64_t sizes[SIZES] = {256 << 10, 4 << 20, 64 << 20};

struct van_bench {
    const struct bench *b;
    struct tls *tls;
    struct bench_pair *pairs[KINDS];
    uint64_t max_bytes; // size of the longest message
    // Bytes per second that the cipher encrypts or decrypts, whichever is slower.
    double cipher;
};

// ---------------------------------------------------------------- measuring

static int ping(struct bench_pair *p, double seconds, double *ret_p50, double *ret_p99,
                struct err *e)
{
    static double pings[MAX_PINGS];
    size_t n = 0;
    double begin = clock_seconds(), now = begin;
    while (n == 0 || (now - begin < seconds && n < MAX_PINGS)) {
        double sent = now;
        TRY(p->send(p, 64, e));
        TRY(p->await(p, e));
        now = clock_seconds();
        pings[n++] = now - sent;
    }
    *ret_p50 = bench_median(pings, n);
    *ret_p99 = bench_quantile(pings, n, 0.99);
    return 0;
}

int bench_pair_stream(struct bench_pair *p, uint64_t bytes, uint64_t in_flight,
                      double seconds, double *ret, struct err *e)
{
    uint64_t sent = 0, answered = 0;
    double begin = clock_seconds(), now = begin;
    while (answered == 0 || now - begin < seconds) {
        for (; sent - answered < in_flight; sent++)
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

static int measure_latency(struct van_bench *x, struct err *e)
{
    double p50[KINDS][ROUNDS], p99[KINDS][ROUNDS];
    json_t *all = bench_group(x->b->figures, "ping");
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++)
            TRY(ping(x->pairs[kind], x->b->o.seconds / ROUNDS, &p50[kind][round],
                     &p99[kind][round], e));
    for (int kind = 0; kind < KINDS; kind++) {
        json_t *f = bench_group(all, kinds[kind]);
        bench_set(f, "p50_us", bench_median(p50[kind], ROUNDS) * 1e6);
        bench_set(f, "p99_us", bench_median(p99[kind], ROUNDS) * 1e6);
        if (!x->b->o.json)
            printf("64 bytes there and back, %s:", kinds[kind]);
        bench_print(x->b, f, " p50 {p50_us:.1} us, p99 {p99_us:.1} us\n");
    }
    return 0;
}

// Returns the rate that TLS would reach if each end spent only the time that it needs
// without TLS plus the time of the cipher.
static double tls_limit(const struct van_bench *x, double plain)
{
    return 1 / (1 / plain + 1 / x->cipher);
}

static int measure_rate(struct van_bench *x, uint64_t bytes, uint64_t in_flight,
                        struct err *e)
{
    double rate[KINDS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++)
            TRY(bench_pair_stream(x->pairs[kind], bytes, in_flight,
                                  x->b->o.seconds / ROUNDS, &rate[kind][round], e));
    json_t *f = bench_row(x->b->figures, "bytes_per_second");
    bench_count(f, "bytes", bytes);
    bench_count(f, "in_flight", in_flight);
    for (int kind = 0; kind < KINDS; kind++)
        bench_set(f, kinds[kind], bench_median(rate[kind], ROUNDS));
    bench_set(f, "tls_limit", tls_limit(x, bench_get(f, kinds[PLAIN])));
    bench_print(x->b, f,
                "{bytes:.0K} KB, {in_flight} in flight: socket {socket:.2G} GB/s, van "
                "{van:.2G} ({van/socket:.2} of it), tls {tls:.2G} ({tls/van:.2} of the "
                "van's; the cipher allows {tls_limit/van:.2})\n");
    return 0;
}

static int measure(struct van_bench *x, struct err *e)
{
    json_t *cipher = bench_group(x->b->figures, "aes_128_gcm");
    TRY(bench_cipher(x->b->o.seconds, cipher, e));
    x->cipher = fmin(bench_get(cipher, "encrypt"), bench_get(cipher, "decrypt"));
    TRY(measure_latency(x, e));
    for (int i = 0; i < SIZES && sizes[i] <= x->max_bytes; i++) {
        TRY(measure_rate(x, sizes[i], 1, e));
        TRY(measure_rate(x, sizes[i], 8, e));
    }
    bench_print(x->b, cipher,
                "AES-128-GCM on one core: encrypts {encrypt:.2G} GB/s, decrypts "
                "{decrypt:.2G}\n");
    return 0;
}

// These functions make the keys and certificates of a cluster for this run.

static int make_keys(struct tls **ret, struct err *e)
{
    struct buf ca_key = BUF_INIT(PEM_MAX), ca = BUF_INIT(PEM_MAX);
    struct buf key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX);
    int rc = tls_make_ca(&ca_key, &ca, 1, e);
    if (rc == 0 && (buf_str(&ca_key) == NULL || buf_str(&ca) == NULL))
        rc = err_nomem(e, "keys");
    if (rc == 0)
        rc = tls_make_node(ca_key.data, ca.data,
                           &(struct tls_node){.name = "bench", .days = 1}, &key, &cert,
                           e);
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

static int run(struct van_bench *x, struct err *e)
{
    struct bench_pair_options po = {
        .max_bytes = x->max_bytes,
        .spin_ns = (uint64_t)(x->b->o.spin_us * 1000),
        .timeout_ns = TIMEOUT_NS,
    };
    TRY(make_keys(&x->tls, e));
    TRY(bench_pair_socket(&x->pairs[SOCKET], &po, e));
    TRY(bench_pair_van(&x->pairs[PLAIN], &po, e));
    po.tls = x->tls;
    TRY(bench_pair_van(&x->pairs[SECURE], &po, e));
    return measure(x, e);
}

int bench_van(struct bench *b, struct err *e)
{
    struct van_bench x = {.b = b, .max_bytes = sizes[0]};
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] <= b->o.max_bytes)
            x.max_bytes = sizes[i];
    int rc = run(&x, e);
    for (int kind = 0; kind < KINDS; kind++)
        bench_pair_close(x.pairs[kind]);
    tls_close(x.tls);
    return rc;
}
