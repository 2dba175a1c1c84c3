// Finds what is wrong with a training run, by its losses, its phases and its saves.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "monitor/limits_internal.h"
#include "monitor/text_internal.h"
#include "monitor/verdict_internal.h"

// The pass with the least loss of all passes, and the last pass.
struct passes {
    double least, least_pass; // NaN: no pass has a loss
    double last, last_pass, last_examples;
};

static struct passes compare_passes(const json_t *run, bool valid)
{
    struct passes ret = {NAN, NAN, NAN, NAN, NAN};
    const json_t *pass;
    size_t i;
    json_array_foreach(json_object_get(run, "history"), i, pass) {
        const json_t *of = valid ? fact_at(pass, "valid") : pass;
        double loss = fact_number(of, "loss");
        if (isnan(loss))
            continue;
        ret.last = loss;
        ret.last_examples = fact_number(of, "examples");
        ret.last_pass = fact_number(pass, "pass");
        if (!(loss >= ret.least)) {
            ret.least = loss;
            ret.least_pass = ret.last_pass;
        }
    }
    // The history of a long run lacks its first passes.
    const json_t *best = fact_at(fact_at(run, "best"), valid ? "valid_loss" : "loss");
    if (fact_number(best, "value") < ret.least) {
        ret.least = fact_number(best, "value");
        ret.least_pass = fact_number(best, "pass");
    }
    return ret;
}

// Returns whether the loss is at least that of a model that predicts the mean label for
// all examples.
static bool learns_nothing(const json_t *run)
{
    double examples = fact_number(run, "examples"), pass = fact_number(run, "pass");
    return fact_number(run, "loss") >= fact_number(run, "base_loss") &&
           !isnan(fact_number(run, "auc")) &&
           (examples > first_examples || (pass > 1 && examples > enough_examples));
}

// Returns the training loss of the present pass or, while that has had fewer than `enough`
// examples, of the last whole pass. So the verdict does not change when a pass begins. NaN
// if neither pass has enough.
static double settled_loss(const json_t *run, const struct passes *p, double enough)
{
    if (fact_number(run, "examples") >= enough)
        return fact_number(run, "loss");
    return p->last_examples >= enough ? p->last : NAN;
}

// Returns whether the training diverges by its own loss.
static bool judge_loss(struct verdict *v, const json_t *run)
{
    struct passes p = compare_passes(run, false);
    double few = settled_loss(run, &p, few_examples),
           loss = settled_loss(run, &p, enough_examples);
    char now[TEXT_MAX], best[TEXT_MAX];
    unsigned before = v->problems;
    if (fact_true(run, "diverged"))
        PROBLEM(v, "the training has diverged");
    else if (few > guess_loss && !isnan(fact_number(run, "auc")))
        PROBLEM(v, "the training diverges: the loss %s is worse than a guess (0.69)",
                text_number(few, now));
    else if (loss > rise_factor * p.least && loss - p.least > rise_least)
        PROBLEM(v, "the training diverges: the loss is %s, and was %s in pass %.0f",
                text_number(loss, now), text_number(p.least, best), p.least_pass);
    return v->problems > before;
}

static void judge_learning(struct verdict *v, const json_t *run)
{
    char now[TEXT_MAX], base[TEXT_MAX];
    if (learns_nothing(run))
        PROBLEM(
            v,
            "the training learns nothing: the loss %s is not below %s, which the mean "
            "label alone gives",
            text_number(fact_number(run, "loss"), now),
            text_number(fact_number(run, "base_loss"), base));
}

// Returns whether the training diverges by the loss of its validation: a model that learns
// its data by heart has a small loss there, although its weights explode.
static bool judge_valid_loss(struct verdict *v, const struct passes *p, double valid_auc)
{
    char now[TEXT_MAX], best[TEXT_MAX];
    if (valid_auc < reversed_auc)
        return false;
    if (p->last > guess_loss && !isnan(valid_auc))
        PROBLEM(v,
                "the training diverges: the validation loss %s is worse than a guess "
                "(0.69)",
                text_number(p->last, now));
    else if (p->last > valid_rise_factor * p->least && p->last - p->least > rise_least)
        PROBLEM(v,
                "the training diverges: the validation loss is %s, and was %s in pass "
                "%.0f",
                text_number(p->last, now), text_number(p->least, best), p->least_pass);
    else
        return false;
    return true;
}

// Two passes are too few to judge by, so a rise from one pass to the next is not
// reported.
static void judge_validation(struct verdict *v, const json_t *run, bool diverges)
{
    struct passes p = compare_passes(run, true);
    const json_t *history = fact_at(run, "history"),
                 *last = json_array_get(history, json_array_size(history) - 1);
    double auc = fact_number(last, "auc"),
           valid_auc = fact_number(fact_at(last, "valid"), "auc");
    char now[TEXT_MAX], best[TEXT_MAX];
    if (!diverges && judge_valid_loss(v, &p, valid_auc))
        return;
    if (p.last > valid_factor * p.least && p.last_pass - p.least_pass >= 2)
        PROBLEM(v, "validation has worsened since pass %.0f: the loss was %s and is %s",
                p.least_pass, text_number(p.least, best), text_number(p.last, now));
    if (!diverges && auc - valid_auc > auc_gap)
        PROBLEM(
            v,
            "the model seems to overfit: the validation AUC is %s, the training AUC %s",
            text_number(valid_auc, best), text_number(auc, now));
}

// A save reports no progress while it is written, so its duration is compared with
// that of the last save.
static void judge_phase(struct verdict *v, const json_t *run, const char *state)
{
    const json_t *last = fact_at(fact_at(run, "saves"), "last");
    double idle = fact_number(run, "seconds_since_progress"),
           took = fact_number(last, "seconds");
    char text[TEXT_MAX];
    if (!(idle > idle_seconds))
        return;
    if (strcmp(state, "training") == 0)
        PROBLEM(v, "the training has made no progress for %.0f s", idle);
    else if (strcmp(state, "validating") == 0)
        PROBLEM(v, "the validation has made no progress for %.0f s", idle);
    else if (strcmp(state, "saving") == 0 && isnan(took))
        PROBLEM(v, "the save is not complete after %.0f s", idle);
    else if (strcmp(state, "saving") == 0 && idle > save_factor * took)
        PROBLEM(v, "the save is not complete after %.0f s; the last one took %s", idle,
                text_seconds(took, text));
}

void verdict_judge_run(struct verdict *v)
{
    const json_t *run = fact_at(v->facts, "run");
    const char *state = fact_text(run, "state"), *error = fact_text(run, "error");
    bool diverges = judge_loss(v, run);
    if (!diverges)
        judge_learning(v, run);
    judge_validation(v, run, diverges);
    if (strcmp(state, "failed") == 0)
        PROBLEM(v, "the training failed%s%.400s", *error != '\0' ? ": " : "", error);
    judge_phase(v, run, state);
    verdict_judge_saves(v, run, "");
}
