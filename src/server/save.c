// Saves: see save.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/shard_internal.h"

enum outcome save_serve(struct shard *s, struct request *q)
{
    shard_ok(s, q, 0);
    return ANSWERED;
}
enum outcome save_end_serve(struct shard *s, struct request *q)
{
    shard_ok(s, q, 0);
    return ANSWERED;
}
enum outcome save_mark_serve(struct shard *s, struct request *q)
{
    shard_ok(s, q, 0);
    return ANSWERED;
}
enum outcome loads_serve(struct shard *s, struct request *q)
{
    shard_ok(s, q, 0);
    return ANSWERED;
}
void saves_look(struct shard *s)
{
    (void)s;
}
bool saves_hold(const struct shard *s, const struct shard_table *t, uint64_t session)
{
    (void)s, (void)t, (void)session;
    return false;
}
bool saves_stop_batch(const struct shard *s, const struct shard_table *t)
{
    (void)s, (void)t;
    return false;
}
bool saves_work(const struct shard *s)
{
    (void)s;
    return false;
}
void saves_slice(struct shard *s, uint64_t ns)
{
    (void)s, (void)ns;
}
uint64_t saves_expire(struct shard *s)
{
    (void)s;
    return VAN_NEVER;
}
void saves_close(struct shard *s)
{
    (void)s;
}
