// The page and the alerts of monitoring/tug.rules.yml judge by the same limits.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/limits_internal.h"

#include <string.h>

#include "kit/test.h"
#include "os/file.h"

// Each limit with its alert, and the text that the alert's rule must contain.
static const struct shared {
    const char *alert, *part;
    double limit;
} shared[] = {
    {"TugStaleness", "group_left () %g * (tug_table_staleness_limit > 0)", behind_share},
    {"TugValidationWorse", "unless tug_run_valid_auc < %g)\n", reversed_auc},
    {"TugMemoryNearLimit", "(tug_rows_memory_limit_bytes > 0) > %g\n", memory_share},
    {"TugMemoryNearLimit", "(tug_buffers_memory_limit_bytes > 0) > %g\n", memory_share},
    {"TugDiskNearlyFull", "(tug_disk_free_bytes / tug_disk_size_bytes) < %g\n",
     disk_share},
    {"TugDiverged", "tug_run_pass_examples > 1000)[2m:15s]) > %g\n", guess_loss},
    {"TugDiverged",
     "(tug_run_loss and tug_run_auc and tug_run_pass_examples > %g)[2m:", few_examples},
    {"TugDiverged", "[2m:15s])\n          > %g * min_over_time(", rise_factor},
    {"TugDiverged", "(tug_run_loss and tug_run_pass_examples > %g)[1h:])\n",
     enough_examples},
    {"TugDiverged", "(tug_run_loss and tug_run_pass_examples > %g)[2m:15s])\n",
     enough_examples},
    {"TugDiverged", "[1h:]) > %g)\n", rise_least},
    {"TugDiverged", "(tug_run_valid_loss > %g and tug_run_valid_auc)\n", guess_loss},
    {"TugDiverged", "(tug_run_valid_loss > %g * tug_run_best_valid_loss\n",
     valid_rise_factor},
    {"TugDiverged", "tug_run_valid_loss - tug_run_best_valid_loss > %g))\n", rise_least},
    {"TugDiverged", "unless tug_run_valid_auc < %g\n", reversed_auc},
    {"TugSaveStalled", "tug_run_idle_seconds < %g * tug_run_last_save_duration_seconds",
     save_factor},
    {"TugLearnsNothing", "(tug_run_pass_examples > %.0f or", first_examples},
    {"TugLearnsNothing", "and tug_run_pass_examples > %g))[2m:15s]) >= 0\n",
     enough_examples},
    {"TugValidationWorse", "((tug_run_valid_loss > %g * tug_run_best_valid_loss\n",
     valid_factor},
    {"TugValidationWorse", "tug_run_pass_examples > 10000)[2m:15s]) > %g\n", auc_gap},
    {"TugValidationWorse",
     "(tug_run_auc - tug_run_valid_auc and tug_run_pass_examples > %g)[2m:15s])",
     enough_examples},
    {"TugValidationWorse", "(tug_run_valid_loss > %g and tug_run_valid_auc)\n",
     guess_loss},
    {"TugValidationWorse", "(tug_run_valid_loss > %g * tug_run_best_valid_loss\n",
     valid_rise_factor},
};

static void test_alerts_have_the_same_limits(void **state)
{
    (void)state;
    struct buf rules = BUF_INIT(1 << 20);
    OK(file_read(TUG_RULES, &rules, &test_err));
    for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++) {
        const struct shared *s = &shared[i];
        char head[64], part[128], *alert, *next;
        snprintf(head, sizeof(head), "- alert: %s\n", s->alert);
        snprintf(part, sizeof(part), s->part, s->limit);
        alert = strstr(buf_str(&rules), head);
        if (alert == NULL)
            fail_msg("no alert is called %s", s->alert);
        next = strstr(alert + 1, "- alert: ");
        const char *at = strstr(alert, part);
        if (at == NULL || (next != NULL && at > next))
            fail_msg("%s lacks: %s", s->alert, part);
    }
    buf_free(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alerts_have_the_same_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
