// Files of hosts; see hosts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"

enum { FILE_MAX_BYTES = 1 << 20 };

static bool take_number(const char *text, size_t n, uint32_t max, uint32_t *ret)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
        if (value > max)
            return false;
    }
    *ret = value;
    return n > 0 && value > 0;
}

// Reads "host:port" or "host". An IPv6 address has more than one colon, and no port.
// Returns false if the name or the port is not valid.
static bool take_name(struct host *h, const char *word, size_t n)
{
    const char *colon = memchr(word, ':', n);
    if (colon != NULL && memchr(colon + 1, ':', n - (size_t)(colon + 1 - word)) == NULL) {
        uint32_t port;
        if (!take_number(colon + 1, n - (size_t)(colon + 1 - word), UINT16_MAX, &port))
            return false;
        h->port = (uint16_t)port;
        n = (size_t)(colon - word);
    }
    // A name that begins with a dash would be an option of ssh.
    if (n == 0 || n >= sizeof(h->name) || word[0] == '-')
        return false;
    memcpy(h->name, word, n);
    h->name[n] = 0;
    return true;
}

static const char blanks[] = " \t\r";

static int take_line(struct host *h, const char *where, uint32_t number, const char *line,
                     size_t n, struct err *e)
{
    *h = (struct host){.slots = 1};
    bool named = false;
    while (n > 0) {
        size_t skip = strspn(line, blanks);
        line += skip;
        n -= skip;
        size_t len = strcspn(line, " \t\r\n#");
        if (len == 0)
            break;
        bool good = true;
        if (!named)
            good = named = take_name(h, line, len);
        else if (len > 6 && memcmp(line, "slots=", 6) == 0)
            good = take_number(line + 6, len - 6, HOST_SLOTS_MAX, &h->slots);
        else
            good = false;
        if (!good)
            return err_set(
                e, TUG_EUSAGE,
                "%s:%u: '%.*s' is not of the form 'user@host slots=N' or 'host:port'",
                where, number, len < 100 ? (int)len : 100, line);
        line += len;
        n -= len;
    }
    return 0;
}

static int hosts_add(struct hosts *hosts, const struct host *h, struct err *e)
{
    struct host *list = mem_realloc_array(hosts->list, hosts->n + 1, sizeof(*list));
    if (list == NULL)
        return err_nomem(e, "the hosts");
    hosts->list = list;
    hosts->list[hosts->n++] = *h;
    return 0;
}

int hosts_parse(struct hosts *ret, const char *name, const char *text, struct err *e)
{
    struct hosts hosts = {0};
    int rc = 0;
    for (uint32_t number = 1; *text != 0 && rc == 0; number++) {
        size_t n = strcspn(text, "\n"), used = strcspn(text, "#\n");
        struct host h;
        rc = take_line(&h, name, number, text, used, e);
        if (rc == 0 && h.name[0] != 0 && hosts.n == HOSTS_MAX)
            rc = err_set(e, TUG_EUSAGE, "%s: more than %d hosts", name, HOSTS_MAX);
        if (rc == 0 && h.name[0] != 0)
            rc = hosts_add(&hosts, &h, e);
        text += n + (text[n] == '\n');
    }
    if (rc == 0 && hosts.n == 0)
        rc = err_set(e, TUG_EUSAGE, "%s names no host", name);
    if (rc != 0) {
        hosts_free(&hosts);
        return rc;
    }
    *ret = hosts;
    return 0;
}

int hosts_read(struct hosts *ret, const char *path, struct err *e)
{
    struct buf b = BUF_INIT(FILE_MAX_BYTES);
    int rc = file_read_text(path, &b, e);
    const char *text = rc == 0 ? buf_str(&b) : NULL;
    if (rc == 0 && text == NULL)
        rc = err_nomem(e, "the hosts");
    if (rc == 0)
        rc = hosts_parse(ret, path, text, e);
    buf_free(&b);
    return rc;
}

void hosts_free(struct hosts *h)
{
    mem_free(h->list);
    *h = (struct hosts){0};
}

const char *hosts_address(const struct host *h)
{
    const char *at = strrchr(h->name, '@');
    return at != NULL ? at + 1 : h->name;
}

uint32_t hosts_place(const struct hosts *h, uint32_t i)
{
    uint64_t slots = 0;
    for (uint32_t k = 0; k < h->n; k++)
        slots += h->list[k].slots;
    uint64_t left = i % slots;
    // Round r (from 0) places one process on each host with more than r slots.
    for (uint32_t round = 0;; round++)
        for (uint32_t k = 0; k < h->n; k++) {
            if (h->list[k].slots <= round)
                continue;
            if (left == 0)
                return k;
            left--;
        }
}
