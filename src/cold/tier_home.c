// Markers and locks of the directories of cold tiers.
//
// A marker is text, four lines:
//
//   tug-tier 1 scratch              or durable
//   <about>
//   sequence <number>
//   checksum <XXH3 of the lines before, hexadecimal>
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/tier_home.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "os/disk.h"
#include "os/new_file.h"

static const char scratch_line[] = "tug-tier 1 scratch\n";
static const char durable_line[] = "tug-tier 1 durable\n";

enum { MARKER_MAX = TIER_ABOUT_MAX + 256 };

static int write_marker(struct tier_home *h, bool scratch, uint64_t sequence,
                        struct err *e)
{
    char text[MARKER_MAX];
    struct file_writer *w;
    int n = snprintf(text, sizeof(text), "%s%s\nsequence %" PRIu64 "\n",
                     scratch ? scratch_line : durable_line, h->about, sequence);
    n += snprintf(text + n, sizeof(text) - (size_t)n, "checksum %016" PRIx64 "\n",
                  hash_bytes(text, (size_t)n, 0));
    TRY(file_create_in(&w, FILE_OWN, h->marker, e));
    int rc = file_write(w, text, (size_t)n, e);
    if (rc != 0) {
        file_abort(w);
        return rc;
    }
    return file_commit(w, e);
}

static int tier_home_damaged(const struct tier_home *h, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "'%s' is damaged: the rows beside it cannot be trusted; remove the "
                   "directory, and load a save",
                   h->marker);
}

// The content of a marker. `text` ends with a 0 and is cut into lines.
struct marker {
    bool scratch;
    const char *about;
    uint64_t sequence;
};

static bool parse_marker(char *text, struct marker *ret)
{
    char *end = strstr(text, "\nchecksum ");
    uint64_t checksum;
    size_t head = sizeof(scratch_line) - 1;
    static_assert(sizeof(scratch_line) == sizeof(durable_line), "lines of one length");
    if (end == NULL || sscanf(end, "\nchecksum %16" SCNx64, &checksum) != 1 ||
        hash_bytes(text, (size_t)(end + 1 - text), 0) != checksum)
        return false;
    ret->scratch = strncmp(text, scratch_line, head) == 0;
    if (!ret->scratch && strncmp(text, durable_line, head) != 0)
        return false;
    ret->about = text + head;
    char *line = strchr(ret->about, '\n');
    if (line == NULL || sscanf(line, "\nsequence %" SCNu64, &ret->sequence) != 1)
        return false;
    *line = '\0';
    return true;
}

static int check_durable(struct tier_home *h, const struct marker *m, struct err *e)
{
    if (strcmp(m->about, h->about) != 0)
        return err_set(e, TUG_EUSAGE,
                       "'%s' holds rows of another table: of \"%s\", not of \"%s\"",
                       h->dir, m->about, h->about);
    h->scratch = false;
    h->sequence = m->sequence;
    return 0;
}

// Checks whether a directory with a marker may be used.
static int check_marker(struct tier_home *h, bool durable, struct err *e)
{
    struct buf b = BUF_INIT(MARKER_MAX);
    struct marker m;
    int rc = file_read(h->marker, &b, e);
    char *text = rc == 0 ? (char *)(uintptr_t)buf_str(&b) : NULL;
    if (rc == 0 && text == NULL)
        rc = err_nomem(e, h->marker);
    else if (rc == 0 && !parse_marker(text, &m))
        rc = tier_home_damaged(h, e);
    else if (rc == 0 && !m.scratch && !durable)
        rc = err_set(e, TUG_EUSAGE,
                     "'%s' holds rows of \"%s\" that must be kept (cold-durable): give a "
                     "table without cold-durable another directory",
                     h->dir, m.about);
    else if (rc == 0 && !m.scratch)
        rc = check_durable(h, &m, e);
    buf_free(&b);
    return rc;
}

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

// Refuses a symbolic link in place of `rows`: through it, rows would be written and
// removed in a directory that is not locked.
static int check_links(const struct tier_home *h, struct err *e)
{
    const char *link = is_link(h->rows) ? h->rows : h->marker;
    if (!is_link(link))
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "'%s' is a link: remove it, and give the directory for the rows instead", link);
}

static int check_dir(struct tier_home *h, bool durable, struct err *e)
{
    TRY(check_links(h, e));
    if (file_exists(h->marker))
        return check_marker(h, durable, e);
    if (h->lock >= 0)
        new_file_sweep(h->lock, "tug-tier"); // removes an unfinished marker
    if (!file_dir_is_empty(h->dir))
        return err_set(
            e, TUG_EUSAGE,
            "'%s' is not empty and does not hold rows of tug: give another directory",
            h->dir);
    return 0;
}

static int set_names(struct tier_home *h, const char *dir, const char *about,
                     struct err *e)
{
    TRY(file_join(h->rows, dir, "rows", e));
    TRY(file_join(h->marker, dir, "tug-tier", e));
    if (about == NULL)
        about = "";
    if (strlen(about) >= TIER_ABOUT_MAX || strchr(about, '\n') != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "the description of what '%s' holds must be one line of less than %d bytes",
            dir, TIER_ABOUT_MAX);
    snprintf(h->about, sizeof(h->about), "%s", about);
    snprintf(h->dir, sizeof(h->dir), "%s", dir);
    return 0;
}

int tier_home_open(struct tier_home *h, const char *dir, bool durable, const char *about,
                   struct err *e)
{
    *h = (struct tier_home){.lock = -1};
    TRY(set_names(h, dir, about, e));
    h->made = !file_exists(dir);
    TRY(file_make_dir(dir, e));
    TRY(file_lock_dir(dir, &h->lock, e));
    h->scratch = true; // a marker in the directory may change this
    int rc = check_dir(h, durable, e);
    if (rc != 0) {
        // Another process has locked the directory, so nothing in it may be removed.
        h->scratch = h->made = false;
        return rc;
    }
    if (!h->scratch)
        return 0;
    TRY(write_marker(h, true, 0, e));
    return file_remove_tree(h->rows, e);
}

int tier_home_keep(struct tier_home *h, uint64_t sequence, struct err *e)
{
    if (!h->scratch && sequence == h->sequence)
        return 0;
    TRY(write_marker(h, false, sequence, e));
    h->scratch = false;
    h->sequence = sequence;
    return 0;
}

void tier_home_close(struct tier_home *h)
{
    // The marker is removed last, so that the files left by an interrupted removal are
    // still recognized as a tier's.
    if (h->scratch && file_remove_tree(h->rows, NULL) == 0)
        (void)disk_remove(h->marker);
    if (h->scratch && h->made)
        (void)disk_remove(h->dir);
    file_unlock_dir(h->lock);
    h->lock = -1;
}
