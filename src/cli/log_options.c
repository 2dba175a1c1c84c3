// See log_options.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/log_options.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "os/log.h"
#include "os/terminal.h"

static const char option[] = "log-format";

static const struct option *find(const struct option_table *t, size_t *ret_i)
{
    for (size_t i = 0; i < t->n_options; i++)
        if (strcmp(t->options[i].name, option) == 0) {
            *ret_i = i;
            return &t->options[i];
        }
    return NULL;
}

static void set_format(const char *word)
{
    if (word != NULL && strcmp(word, "json") == 0)
        log_set_format(LOG_JSON);
    else if (word != NULL && strcmp(word, "text") == 0)
        log_set_format(LOG_TEXT);
}

void log_options_expect(const struct option_table *t, int argc, char *const *argv)
{
    size_t i, n = sizeof(option) - 1;
    if (find(t, &i) == NULL)
        return;
    set_format(getenv("TUG_LOG_FORMAT"));
    for (int k = 0; k < argc && strcmp(argv[k], "--") != 0; k++)
        if (strncmp(argv[k], "--", 2) == 0 && strncmp(argv[k] + 2, option, n) == 0)
            set_format(argv[k][2 + n] == '='                    ? argv[k] + 3 + n
                       : argv[k][2 + n] == '\0' && k + 1 < argc ? argv[k + 1]
                                                                : NULL);
}

void log_options_apply(const struct option_table *t, const struct options *o)
{
    size_t i;
    struct buf b = BUF_INIT(OPTION_NAME_MAX);
    if (find(t, &i) != NULL && options_given(o, option) && options_text(o, i, &b) == 0)
        set_format(buf_str(&b));
    buf_free(&b);
}

// ---------------------------------------------------------------- rotation

static struct {
    void (*end)(int number);
    bool had_terminal;
    sem_t rotations; // counts the SIGHUPs that ask to open the log file again
} hangup;

static void on_hangup(int number)
{
    int saved = errno;
    if (log_has_file() && (!hangup.had_terminal || terminal_controls()))
        (void)sem_post(&hangup.rotations);
    else
        hangup.end(number);
    errno = saved;
}

// Opens the file on a thread, because a signal handler may not open files. The thread
// opens it at once and not with the next line: a server may log nothing for hours, and a
// log rotation waits until the file was opened again.
static void *reopen(void *arg)
{
    (void)arg;
    for (;;)
        if (sem_wait(&hangup.rotations) == 0)
            log_reopen();
    return NULL;
}

void log_options_catch(void (*end)(int number))
{
    pthread_t thread;
    sigset_t all, before;
    hangup.end = end;
    hangup.had_terminal = terminal_controls();
    if (sem_init(&hangup.rotations, 0, 0) != 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, reopen, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return;
    pthread_detach(thread);
    // SIGHUP stays ignored if nohup made this process ignore it.
    if (signal(SIGHUP, on_hangup) == SIG_IGN)
        signal(SIGHUP, SIG_IGN);
}
