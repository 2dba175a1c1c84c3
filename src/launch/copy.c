// Copies of a workspace on hosts; see copy.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/copy.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_shell(const char *script)
{
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)script, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

// Writes a shell pipeline of tar and ssh. The pipeline's status is that of ssh. So if tar
// fails, the pipeline kills the shell. Tar's exit code 1 is no failure: it only means that
// a file changed while tar read it.
static int add_pipeline(struct buf *b, const struct plan *p, const struct host *h)
{
    struct argv ssh = {0};
    TRY(buf_printf(b, "{ tar -C "));
    TRY(argv_quote(b, p->o->sync));
    TRY(buf_printf(b, " -cf - . || [ $? = 1 ] || kill $$; } |"));
    int rc = plan_ssh(&ssh, h);
    for (size_t i = 0; i < ssh.n && rc == 0; i++) {
        rc = buf_printf(b, " ");
        if (rc == 0)
            rc = argv_quote(b, ssh.at[i]);
    }
    argv_free(&ssh);
    TRY(rc);
    return buf_printf(b,
                      " 'd=\"$HOME\"/.tug/%s/work && rm -rf \"$d\" && mkdir -p \"$d\" && "
                      "tar -C \"$d\" -xf -'",
                      p->job);
}

static int copy_to(const struct plan *p, const struct host *h, struct err *e)
{
    struct buf b = BUF_INIT(1 << 16);
    int rc = add_pipeline(&b, p, h);
    const char *script = rc == 0 ? buf_str(&b) : NULL;
    int status = script != NULL ? run_shell(script) : 0;
    buf_free(&b);
    if (script == NULL)
        return err_nomem(e, "a command line");
    if (status != 0)
        return err_set(e, TUG_EIO, "--sync: the copy of '%s' to %s failed (see above)",
                       p->o->sync, h->name);
    return 0;
}

int copy_workspace(const struct plan *p, struct err *e)
{
    for (uint32_t i = 0; i < p->hosts.n; i++) {
        // Whether an earlier line of the hosts file names the same host.
        bool again = false;
        for (uint32_t k = 0; k < i; k++)
            again |= strcmp(p->hosts.list[k].name, p->hosts.list[i].name) == 0 &&
                     p->hosts.list[k].port == p->hosts.list[i].port;
        if (!again)
            TRY(copy_to(p, &p->hosts.list[i], e));
    }
    return 0;
}
