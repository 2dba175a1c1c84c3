// Reads AWS's credential files (aws_profile_internal.h). The files have a section of
// lines "name = value" for each profile, headed "[name]" in credentials, and "[profile
// name]" or "[default]" in config. A line that begins with a blank belongs to the setting
// above it, and is skipped, because no setting that tug reads has such lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/aws_profile_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/file.h"
#include "web/scheme_internal.h"

enum { FILE_MAX = 1 << 20 };

struct text {
    const char *p;
    size_t n;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct text trimmed(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    while (end > p && is_blank(end[-1]))
        end--;
    return (struct text){p, (size_t)(end - p)};
}

static bool is(struct text t, const char *word)
{
    return strlen(word) == t.n && memcmp(t.p, word, t.n) == 0;
}

// Returns whether a section's head, such as "[name]", names the profile.
static bool is_section(struct text head, const char *profile, bool config)
{
    static const char word[] = "profile";
    if (head.n < 2 || head.p[head.n - 1] != ']')
        return false;
    struct text name = trimmed(head.p + 1, head.p + head.n - 1);
    size_t n = sizeof word - 1;
    if (!config || is(name, "default"))
        return is(name, profile);
    if (name.n <= n || memcmp(name.p, word, n) != 0 || !is_blank(name.p[n]))
        return false;
    return is(trimmed(name.p + n, name.p + name.n), profile);
}

// Keeps a value, which later becomes part of a request's header: refuses characters that
// could end the header.
static int aws_profile_keep(char *ret, size_t cap, const char *name, struct text value,
                            const char *file, struct err *e)
{
    if (ret[0] != '\0')
        return 0; // an error was already reported
    if (value.n >= cap)
        return err_set(e, TUG_EUSAGE, "%s: '%s' is longer than %zu bytes", file, name,
                       cap - 1);
    for (size_t i = 0; i < value.n; i++)
        if (value.p[i] <= ' ' || value.p[i] >= 0x7f)
            return err_set(e, TUG_EUSAGE,
                           "%s: '%s' has a blank or a character that is not ASCII in it",
                           file, name);
    memcpy(ret, value.p, value.n);
    ret[value.n] = '\0';
    return 0;
}

// Records a setting by which the profile gets its keys in a way that tug does not
// support. A setting of a role is used even if the profile has keys; the other settings
// are used only if it has none.
static void take_other(struct aws_profile *p, struct text name, const char *file)
{
    static const char *const others[] = {
        "role_arn",          "credential_process",      "sso_session",  "sso_start_url",
        "credential_source", "web_identity_token_file", "login_session"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (p->other[0] == '\0' && is(name, others[i])) {
            snprintf(p->other, sizeof p->other, "%s", others[i]);
            snprintf(p->file, sizeof p->file, "%.400s", file);
        }
}

static int take_setting(struct aws_profile *p, struct text name, struct text value,
                        const char *file, struct err *e)
{
    const struct {
        const char *name;
        char *to;
        size_t cap;
    } ours[] = {{"aws_access_key_id", p->key_id, sizeof p->key_id},
                {"aws_secret_access_key", p->secret, sizeof p->secret},
                {"aws_session_token", p->token, sizeof p->token},
                {"region", p->region, sizeof p->region},
                {"endpoint_url", p->endpoint, sizeof p->endpoint}};
    take_other(p, name, file);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (is(name, ours[i].name))
            return aws_profile_keep(ours[i].to, ours[i].cap, ours[i].name, value, file,
                                    e);
    return 0;
}

static int take_file(struct aws_profile *p, const char *text, size_t n, const char *file,
                     bool config, struct err *e)
{
    bool inside = false;
    for (const char *line = text, *end = text + n; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        struct text all = trimmed(line, stop);
        bool below = is_blank(*line);
        line = stop + 1;
        if (all.n == 0 || *all.p == '#' || *all.p == ';' || below)
            continue;
        if (*all.p == '[') {
            inside = is_section(all, p->name, config);
            p->found |= inside;
            continue;
        }
        const char *equals = memchr(all.p, '=', all.n);
        if (inside && equals != NULL)
            TRY(take_setting(p, trimmed(all.p, equals),
                             trimmed(equals + 1, all.p + all.n), file, e));
    }
    return 0;
}

// Gets the path of a file: the value of the variable, or else the usual path below HOME.
// Returns false if neither is set.
static bool find_file(const char *variable, const char *usual, char *ret, size_t cap)
{
    const char *path = getenv(variable), *home = getenv("HOME");
    int n = path != NULL && path[0] != '\0' ? snprintf(ret, cap, "%s", path)
            : home != NULL && home[0] != '\0'
                ? snprintf(ret, cap, "%s/.aws/%s", home, usual)
                : -1;
    return n > 0 && (size_t)n < cap && access(ret, F_OK) == 0;
}

static int read_one(struct aws_profile *p, const char *variable, const char *usual,
                    bool config, struct err *e)
{
    char path[FILENAME_MAX];
    struct buf b = BUF_INIT(FILE_MAX);
    if (!find_file(variable, usual, path, sizeof path))
        return 0;
    int rc = file_read(path, &b, e);
    if (rc == 0)
        rc = take_file(p, b.data, b.len, path, config, e);
    buf_wipe(&b);
    return rc;
}

int aws_profile_read(struct aws_profile *ret, struct err *e)
{
    const char *name;
    struct aws_profile config = {0};
    *ret = (struct aws_profile){0};
    TRY(environment_text("AWS_PROFILE", &name, e));
    if (name != NULL && strlen(name) >= sizeof ret->name)
        return err_set(e, TUG_EUSAGE, "AWS_PROFILE is longer than %zu bytes",
                       sizeof ret->name - 1);
    snprintf(ret->name, sizeof ret->name, "%s", name != NULL ? name : "default");
    memcpy(config.name, ret->name, sizeof config.name);
    TRY(read_one(ret, "AWS_SHARED_CREDENTIALS_FILE", "credentials", false, e));
    TRY(read_one(&config, "AWS_CONFIG_FILE", "config", true, e));
    bool keys = ret->key_id[0] != '\0' || ret->secret[0] != '\0';
    if (!keys) { // both keys and the token must come from the same file
        memcpy(ret->key_id, config.key_id, sizeof ret->key_id);
        memcpy(ret->secret, config.secret, sizeof ret->secret);
        memcpy(ret->token, config.token, sizeof ret->token);
    }
    if (config.region[0] != '\0')
        memcpy(ret->region, config.region, sizeof ret->region);
    if (config.endpoint[0] != '\0')
        memcpy(ret->endpoint, config.endpoint, sizeof ret->endpoint);
    if (ret->other[0] == '\0') {
        memcpy(ret->other, config.other, sizeof ret->other);
        memcpy(ret->file, config.file, sizeof ret->file);
    }
    ret->found |= config.found;
    explicit_bzero(&config, sizeof config);
    return 0;
}
