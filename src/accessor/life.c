// The numbers of a row's lifecycle: names, defaults, ranges and parsing; and save modes
// by name. accessor_ctr.c uses the numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/life.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "options/options.h"

// The names of save modes, and Paddle's numbers for them. The index is the enum
// save_mode.
static const struct {
    const char *name, *paddle;
} modes[] = {
    [SAVE_CHECKPOINT] = {"checkpoint", "0"},
    [SAVE_BASE] = {"base", "2"},
    [SAVE_DELTA] = {"delta", "1"},
    [SAVE_DAY] = {"day", "3"},
};
enum { MODES = sizeof(modes) / sizeof(*modes) };

const char *save_mode_name(enum save_mode m)
{
    return (unsigned)m < MODES ? modes[m].name : "unknown";
}

int save_mode_find(const char *name, enum save_mode *ret, struct err *e)
{
    for (size_t i = 0; i < MODES; i++) {
        if (strcmp(modes[i].name, name) == 0 || strcmp(modes[i].paddle, name) == 0) {
            *ret = (enum save_mode)i;
            return 0;
        }
    }
    char near[OPTION_NAME_MAX];
    options_nearest(name, "checkpoint base delta day", near);
    return err_set(e, TUG_EUSAGE,
                   "there is no save mode '%.100s'; choose from checkpoint, "
                   "base, delta, day%s%s%s",
                   name, *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

struct life life_defaults(void)
{
    return (struct life){
        .nonclick = 0.1f,
        .click = 1,
        .embedx_threshold = 10,
        .base_threshold = 1.5f,
        .delta_threshold = 0.25f,
        .delta_keep_days = 16,
        .decay = 0.98f,
        .delete_threshold = 0.8f,
        .delete_after_days = 30,
        .cold_after_days = 1,
        .show_scale = true,
    };
}

static int check_number(const char *name, float x, float low, float high, struct err *e)
{
    if (x >= low && x <= high) // false for NaN
        return 0;
    return err_set(e, TUG_EUSAGE, "%s is %g; it must be a number from %g to %g", name,
                   (double)x, (double)low, (double)high);
}

int life_check(const struct life *l, struct err *e)
{
    const float most = 1e30f; // so that scores stay finite
    const struct {
        const char *name;
        float x, low, high;
    } numbers[] = {
        {"nonclick", l->nonclick, 0, 1e6f},
        {"click", l->click, 0, 1e6f},
        {"embedx-threshold", l->embedx_threshold, -most, most},
        {"base-threshold", l->base_threshold, -most, most},
        {"delta-threshold", l->delta_threshold, -most, most},
        {"delta-keep-days", l->delta_keep_days, 0, most},
        {"decay", l->decay, 0, 1},
        {"delete-threshold", l->delete_threshold, -most, most},
        {"delete-after-days", l->delete_after_days, 0, most},
        {"cold-after-days", l->cold_after_days, 0, most},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        TRY(check_number(numbers[i].name, numbers[i].x, numbers[i].low, numbers[i].high,
                         e));
    if (l->ttl_steps > INT32_MAX) // a row stores only 32 bits of a step
        return err_set(e, TUG_EUSAGE, "ttl-steps is %llu; it must be at most %d",
                       (unsigned long long)l->ttl_steps, INT32_MAX);
    return 0;
}
