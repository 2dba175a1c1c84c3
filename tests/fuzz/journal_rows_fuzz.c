// The rows of a scheduler's journal: from any bytes that form whole groups, a scheduler
// continues, or refuses them with an error message. The input changes bytes of the rows
// of a real cluster, or follows these rows as a group of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/actors.h"
#include "kit/journals.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SERVERS = 2, WORKERS = 2, STEPS = 600, EDIT = 4 };

static struct memory_journal of_cluster;

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct scheduler_options options(struct memory_journal *j)
{
    struct scheduler_options o = world_options(SERVERS, WORKERS);
    o.journal = &j->base;
    memset(o.session_key, 7, sizeof(o.session_key));
    return o;
}

// Lets a cluster begin, and keeps its journal.
static void begin(void)
{
    static struct world w;
    static struct memory_journal journal;
    journals_open(&journal);
    journal.fails_after = UINT64_MAX;
    struct scheduler_options o = options(&journal);
    world_open(&w, 1, &o);
    w.with_barriers = true;
    world_add_all(&w, SERVERS, WORKERS, false);
    for (int i = 0; i < STEPS; i++)
        (void)sim_step(w.sim, sim_now(w.sim) + SECONDS);
    journals_copy(&of_cluster, &journal);
    world_close(&w);
    journals_free(&journal);
    require(of_cluster.groups.len > 1000);
}

// Changes one byte in the groups, and none of their lengths.
static void edit(struct memory_journal *j, size_t place, uint8_t value)
{
    uint64_t n;
    for (size_t at = 0; at < j->groups.len; at += sizeof(n) + n) {
        memcpy(&n, j->groups.data + at, sizeof(n));
        if (place < n) {
            j->groups.data[at + sizeof(n) + place] ^= (char)value;
            return;
        }
        place -= n;
    }
}

static void open_with(struct memory_journal *j)
{
    struct scheduler *s;
    struct err e = {0};
    struct buf json = BUF_INIT(1 << 24);
    struct scheduler_options o = options(j);
    o.log = NULL;
    int rc = scheduler_open(&s, &o, &e);
    require(rc == 0 || ((rc == TUG_EDATA || rc == TUG_EUSAGE) && e.text[0] != '\0'));
    if (rc != 0)
        return;
    (void)scheduler_json(s, &json);
    buf_free(&json);
    scheduler_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_journal edited, longer;
    struct err e = {0};
    if (of_cluster.groups.len == 0)
        begin();
    journals_copy(&edited, &of_cluster);
    journals_copy(&longer, &of_cluster);
    for (size_t i = 0; i + EDIT <= size; i += EDIT)
        edit(&edited, (size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2],
             data[i + 3]);
    open_with(&edited);
    require(journal_commit(&longer.base, data, size, &e) == 0);
    open_with(&longer);
    journals_free(&edited);
    journals_free(&longer);
    return 0;
}
