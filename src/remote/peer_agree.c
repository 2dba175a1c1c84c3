// See peer_agree.h. What a worker has is a hash, whose parts are floats: sums of them are exact,
// and of equal ones as many times theirs as there are workers.
//
// SPDX-License-Identifier: Apache-2.0
#include "remote/peer_agree.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "client/client.h"
#include "remote/peer.h"
#include "rule/rule.h"
#include "train/run_options.h"

// 12 bits each: sums over 4,096 workers are below 2^24. One more counts the workers.
enum { TABLE = SPEC_MAX_TABLES - 2, PARTS = 5, PART_BITS = 12, WIDTH = PARTS + 1 };

static int wait(struct client *c, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(c, ts, e) : e->code;
}

static int parts_of(const struct run *r, float ret[WIDTH], struct err *e)
{
    char *text = NULL;
    struct train_config c = *r->config;
    c.epochs = 0; // which the first worker counts from its save on
    TRY(run_options_print(&c, &text, e));
    uint64_t hash = hash_bytes(text, strlen(text), 0);
    mem_free(text);
    if (!r->config->cluster->peer->own_files)
        hash = mix64(hash ^ r->data_identity->hash);
    for (int i = 0; i < PARTS; i++)
        ret[i] = (float)(hash >> (i * PART_BITS) & ((1u << PART_BITS) - 1));
    ret[PARTS] = 1;
    return 0;
}

int peer_agree_say(struct client *c, const struct run *r, struct err *e)
{
    struct table_config t = table_config_defaults();
    float parts[WIDTH];
    const uint64_t key = 0;
    struct client_push p = {.table = TABLE, .keys = &key, .n = 1, .values = parts};
    snprintf(t.name, sizeof(t.name), "tug-peers");
    t.accessor.dim = WIDTH;
    t.accessor.rule = rule_defaults(RULE_SUM);
    TRY(parts_of(r, parts, e));
    TRY(wait(c, client_table(c, TABLE, &t, e), e));
    return wait(c, client_push(c, &p, e), e);
}

int peer_agree_check(struct client *c, const struct run *r, struct err *e)
{
    float parts[WIDTH], sums[WIDTH];
    const uint64_t key = 0;
    struct client_pull p = {.table = TABLE, .keys = &key, .n = 1, .values = sums};
    TRY(parts_of(r, parts, e));
    TRY(wait(c, client_pull(c, &p, e), e));
    for (int i = 0; i < PARTS; i++)
        if (sums[i] != parts[i] * sums[PARTS])
            return err_set(e, TUG_EUSAGE,
                           "the workers were given different options%s: all have to make "
                           "the same calls, one after the other",
                           r->config->cluster->peer->own_files
                               ? ""
                               : ", or different files, though files are not their own");
    return 0;
}

int peer_agree_clear(struct client *c, struct err *e)
{
    return wait(c, client_admin(c, TABLE, WIRE_CLEAR, 0, e), e);
}
