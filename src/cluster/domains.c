// A tournament tree over the sorted places finds the least load in any range of places,
// and the places outside some domains are a few ranges.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/domains.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/search.h"

static int by_domain(const void *a, const void *b)
{
    const struct domain_loop *x = &((const struct domain_place *)a)->loop;
    const struct domain_loop *y = &((const struct domain_place *)b)->loop;
    if (x->zone != y->zone)
        return x->zone < y->zone ? -1 : 1;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool same_domain(const struct domain_loop *x, const struct domain_loop *y,
                        enum domain kind)
{
    return x->zone == y->zone && (kind < DOMAIN_HOST || x->host == y->host) &&
           (kind < DOMAIN_PROCESS || x->process == y->process);
}

static void find_domains(struct domains *d)
{
    for (enum domain kind = 0; kind < DOMAINS; kind++) {
        uint32_t begin = 0;
        for (uint32_t i = 1; i <= d->n; i++) {
            if (i < d->n && same_domain(&d->places[i].loop, &d->places[begin].loop, kind))
                continue;
            for (uint32_t k = begin; k < i; k++) {
                d->places[k].begin[kind] = begin;
                d->places[k].end[kind] = i;
            }
            begin = i;
        }
    }
}

int domains_make(struct domains *ret, const struct domain_loop *loops, size_t n)
{
    struct domains d = {.n = (uint32_t)n, .width = 1};
    while (d.width < d.n)
        d.width *= 2;
    d.places = mem_array(n, sizeof(*d.places));
    d.by_id = mem_array(n, sizeof(*d.by_id));
    d.least = mem_array(2 * (size_t)d.width, sizeof(*d.least));
    if (d.places == NULL || d.by_id == NULL || d.least == NULL) {
        domains_free(&d);
        return TUG_ENOMEM;
    }
    for (uint32_t i = 0; i < d.n; i++)
        d.places[i] = (struct domain_place){.loop = loops[i]};
    qsort(d.places, n, sizeof(*d.places), by_domain);
    find_domains(&d);
    for (uint32_t i = 0; i < d.n; i++)
        d.by_id[search_first(0, n, k, loops[k].id >= d.places[i].loop.id)] = i;
    domains_update_all(&d);
    *ret = d;
    return 0;
}

void domains_free(struct domains *d)
{
    mem_free(d->places);
    mem_free(d->by_id);
    mem_free(d->least);
    *d = (struct domains){0};
}

uint32_t domains_find(const struct domains *d, uint32_t id)
{
    uint64_t i = search_first(0, d->n, k, d->places[d->by_id[k]].loop.id >= id);
    return i < d->n && d->places[d->by_id[i]].loop.id == id ? d->by_id[i] : d->n;
}

// Returns the place with the lesser load; d->n stands for no place.
static uint32_t lesser(const struct domains *d, uint32_t a, uint32_t b)
{
    if (a == d->n || b == d->n)
        return a == d->n ? b : a;
    if (d->places[a].load != d->places[b].load)
        return d->places[a].load < d->places[b].load ? a : b;
    return a < b ? a : b;
}

static uint32_t leaf(const struct domains *d, uint32_t at)
{
    return at < d->n && d->places[at].load < d->places[at].limit ? at : d->n;
}

void domains_update(struct domains *d, uint32_t at)
{
    uint32_t i = d->width + at;
    d->least[i] = leaf(d, at);
    while ((i /= 2) > 0)
        d->least[i] = lesser(d, d->least[2 * i], d->least[2 * i + 1]);
}

void domains_update_all(struct domains *d)
{
    for (uint32_t i = 0; i < d->width; i++)
        d->least[d->width + i] = leaf(d, i);
    for (uint32_t i = d->width - 1; i > 0; i--)
        d->least[i] = lesser(d, d->least[2 * i], d->least[2 * i + 1]);
}

uint32_t domains_closeness(const struct domains *d, uint32_t at, const uint32_t *places,
                           uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct domain_place *x = &d->places[places[i]];
        while (most < DOMAINS && at >= x->begin[most] && at < x->end[most])
            most++;
    }
    return most;
}

static uint32_t least_in(const struct domains *d, uint32_t begin, uint32_t end)
{
    uint32_t ret = d->n, i = d->width + begin, k = d->width + end;
    for (; i < k; i /= 2, k /= 2) {
        if (i % 2 == 1)
            ret = lesser(d, ret, d->least[i++]);
        if (k % 2 == 1)
            ret = lesser(d, ret, d->least[--k]);
    }
    return ret;
}

uint32_t domains_least(const struct domains *d, const uint32_t *places, uint32_t n,
                       uint32_t closeness)
{
    assert(n <= DOMAINS_MAX_PLACES && closeness < DOMAINS);
    // The excluded domains, ascending. Two domains of one kind are equal or disjoint.
    uint32_t sorted[DOMAINS_MAX_PLACES];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k > 0 && sorted[k - 1] > places[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = places[i];
    }
    uint32_t ret = d->n, begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct domain_place *x = &d->places[sorted[i]];
        if (begin < x->begin[closeness])
            ret = lesser(d, ret, least_in(d, begin, x->begin[closeness]));
        begin = x->end[closeness];
    }
    return lesser(d, ret, least_in(d, begin, d->n));
}
