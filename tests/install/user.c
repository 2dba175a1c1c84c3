// A program of a user: it sees only the installed headers and the library.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include <tug/table.h>
#include <tug/tug.h>

// Opens a cluster within this process, and pushes and pulls a row of a table.
static int push_and_pull(void)
{
    struct tug_client_options o = {.local_loops = 1, .wait_seconds = 30};
    struct tug_client *c;
    uint64_t key = 7, ts;
    float pushed[2] = {1, 2}, pulled[2] = {0};
    int rc = tug_client_open(&c, &o);
    if (rc != 0)
        return rc;
    rc = tug_table_create(c, 1, "name = mine; accessor = merge; dim = 2");
    if (rc == 0)
        rc = tug_push_pull(c, 1, &key, 1, pushed, pulled, NULL, NULL, &ts);
    if (rc == 0)
        rc = tug_wait(c, ts, 0);
    int closed = tug_client_close(c);
    if (rc == 0 && memcmp(pushed, pulled, sizeof(pushed)) != 0)
        rc = TUG_EINTERNAL;
    return rc != 0 ? rc : closed;
}

int main(int argc, char **argv)
{
    if (argc != 2 || strcmp(tug_version(), argv[1]) != 0) {
        fprintf(stderr, "the library says %s\n", tug_version());
        return 1;
    }
    if (push_and_pull() != 0) {
        fprintf(stderr, "a table: %s\n", tug_last_error());
        return 1;
    }
    return strcmp(tug_status_text(TUG_OK), "done") != 0;
}
