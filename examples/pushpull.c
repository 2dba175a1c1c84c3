// Push and pull: each worker pushes the value 1 for each of three keys, and pulls the
// sums.
//
//     cc examples/pushpull.c $(pkg-config --cflags --libs tug) -o pushpull
//     examples/run 2 2 ./pushpull        # two servers, two workers, a scheduler
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <tug/kvapp.h>

static int work(struct tug_node *n)
{
    // Keys must ascend; each server has a range of keys.
    const uint64_t keys[] = {3, 5, UINT64_MAX};
    const float ones[] = {1, 1, 1};
    float sums[3];
    uint32_t pushed, pulled;
    struct tug_app *a;
    struct tug_kv_request push = {
        .push = true, .data = {.keys = keys, .n_keys = 3, .values = ones, .n_values = 3}};
    struct tug_kv_request pull = {
        .pull = true, .data = {.keys = keys, .n_keys = 3}, .pulled = sums, .n_pulled = 3};
    int rc = tug_app_open(&a, n, 0, 0, NULL);
    if (rc == 0 && (rc = tug_kv_send(a, &push, &pushed)) == 0)
        rc = tug_app_wait(a, pushed); // the program may do other work before this wait
    if (rc == 0)
        rc = tug_node_barrier(n, TUG_GROUP_WORKERS);
    if (rc == 0 && (rc = tug_kv_send(a, &pull, &pulled)) == 0)
        rc = tug_app_wait(a, pulled);
    if (rc == 0)
        printf("worker %u: %g %g %g\n", tug_node_rank(n), sums[0], sums[1], sums[2]);
    return rc;
}

int main(void)
{
    struct tug_node *n;
    struct tug_kv_default *store = NULL;
    struct tug_app *a;
    int rc = tug_node_start(&n, NULL); // the environment gives the role
    if (rc == 0 && tug_node_role(n) == TUG_GROUP_WORKERS)
        rc = work(n);
    if (rc == 0 && tug_node_role(n) == TUG_GROUP_SERVERS &&
        (rc = tug_kv_default_open(&store)) == 0) {
        struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
        rc = tug_app_open(&a, n, 0, 0, &h);
    }
    if (rc == 0)
        // A server serves until all workers have called tug_node_finalize.
        rc = tug_node_finalize(n, true);
    if (rc != 0)
        fprintf(stderr, "%s\n", tug_last_error());
    tug_kv_default_close(store);
    return rc != 0;
}
