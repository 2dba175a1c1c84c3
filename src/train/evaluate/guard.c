// Warnings about models that have learned nothing useful.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/guard.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "model/layers.h"
#include "os/log.h"

static const double few_known = 0.05;

// Returns whether a prediction of the labels' mean for every example has a clearly
// smaller loss than the model's predictions.
static bool is_worse(const struct metrics *m)
{
    // If all labels are 0, the mean is always right and m->base is 0. Then no
    // model is called worse.
    return isfinite(m->base) && m->base > 0 && !(m->logloss <= m->base * 1.01);
}

double guard_known(const struct metrics *m)
{
    return m->features > 0 ? (double)m->known / (double)m->features : (double)NAN;
}

static bool is_same(const struct data_file *a, const struct data_file *b)
{
    return a->inode != 0 && a->inode == b->inode && a->device == b->device;
}

void guard_repeated(const struct data_files *f, size_t from, size_t to,
                    const char *option)
{
    size_t same[2];
    if (!data_files_repeated(f, from, to, same))
        return;
    const char *first = f->file[same[0]].name, *second = f->file[same[1]].name;
    bool named = strcmp(first, second) != 0;
    log_warn("'%s' is twice in %s%s%s%s: its examples count twice", first, option,
             named ? " (also as '" : "", named ? second : "", named ? "')" : "");
}

void guard_files(const struct data_files *f, size_t trained)
{
    guard_repeated(f, 0, trained, "--data");
    for (size_t i = trained; i < f->n; i++)
        for (size_t k = 0; k < trained; k++)
            if (is_same(&f->file[i], &f->file[k])) {
                log_warn("'%s' is in --data, and in --valid or --test too: the metrics "
                         "there do not show how well the model predicts unseen data",
                         f->file[i].name);
                return;
            }
}

int guard_outputs(const struct train_config *c, struct err *e)
{
    const struct path_list *const lists[] = {&c->data, &c->valid, &c->test};
    const char *const outputs[][2] = {{"--out", c->out},
                                      {"--dump", c->dump},
                                      {"--history", c->history_file},
                                      {"--tfevents", c->tfevents}};
    for (size_t l = 0; l < sizeof(lists) / sizeof(*lists); l++)
        for (size_t i = 0; i < sizeof(outputs) / sizeof(*outputs); i++)
            TRY(data_paths_check_output(lists[l]->items, lists[l]->n, outputs[i][0],
                                        outputs[i][1], e));
    return 0;
}

// Returns whether the loss is still near that of the untrained model, which predicts
// the probability 1/2 or the number 0 for every example; if the model had diverged, the
// loss would be larger.
static bool began_only(const struct metrics *m, enum loss loss)
{
    double begins = loss == LOSS_SQUARED ? m->base + m->mean * m->mean / 2 : log(2);
    return m->logloss <= begins * 1.0001;
}

// Returns the largest loss that is not reported as worse than the mean of the labels. The
// loss of a first pass includes the early examples, when the model knew nothing: with
// labels far from 0, this may be large, but it is less than half of the loss of
// predicting 0.
static double allowed(const struct metrics *m, uint32_t passes, enum loss loss)
{
    if (passes > 1)
        return m->base * 1.01;
    return loss == LOSS_SQUARED
               ? fmax(m->base * 1.2, (m->base + m->mean * m->mean / 2) / 2)
               : m->base * 1.2;
}

// Returns whether the labels are so far from 0 that a model mostly learns their mean.
static bool is_far(const struct metrics *m, enum loss loss)
{
    return loss == LOSS_SQUARED && m->mean * m->mean > 9 * 2 * m->base;
}

static void say_worse(const struct metrics *m, enum loss loss, double lr)
{
    bool began = began_only(m, loss);
    const char *what = loss == LOSS_SQUARED ? "the mean of the labels"
                                            : "the share of positives";
    char far[200] = "";
    if (is_far(m, loss))
        snprintf(
            far, sizeof(far),
            ". Labels are far from 0, where a model begins: subtract their mean, %g, "
            "and divide by their spread, %.4g, before training",
            m->mean, sqrt(2 * m->base));
    log_warn(
        "the model is worse than a guess: its loss on the training data is %.5f, "
        "while predicting %s for every example has a loss of %.5f. %s (it is %g)%s%s",
        m->logloss, what, m->base,
        began ? "It is still close to the untrained model: try more --epochs, a smaller "
                "--batch, or a larger --lr"
              : "Training has probably diverged: try a smaller --lr",
        lr,
        began ? ""
              : ", a larger --l2, or the logarithm of large columns "
                "(--numeric COLUMN:log of csv) or, in models with layers, --data-norm",
        far);
}

bool guard_training(const struct metrics *last, enum loss loss, uint32_t passes,
                    double lr, bool loaded)
{
    if (last->weightless) {
        log_warn("all weights of the training data are 0, so nothing was learned");
        return true;
    }
    if (last->examples > 0 && last->base == 0 && !loaded)
        log_warn("all labels of the training data are %g: there is nothing to learn%s",
                 last->mean, loss == LOSS_LOGISTIC ? ", and no AUC" : "");
    if (last->examples == 0 || !isfinite(last->base) || last->base == 0 ||
        last->logloss <= allowed(last, passes, loss))
        return false;
    say_worse(last, loss, lr);
    return true;
}

static void say_known(const struct metrics *m, const char *what)
{
    double known = guard_known(m);
    if (isnan(known) && m->examples > 1)
        log_warn("no example of %s has a feature, so all predictions are equal. Is this "
                 "data of the kind that the model was trained on, in the same format?",
                 what);
    if (isnan(known))
        return;
    if (known >= few_known)
        log_info("the model knows %.1f %% of the features in %s", 100 * known, what);
    else
        log_warn("the model knows %.1f %% of the features in %s: its predictions for "
                 "such data mean little. Is this data of the kind that the model was "
                 "trained on, in the same format and with the same columns?",
                 100 * known, what);
}

void guard_scores(const struct metrics *m, const char *what, bool labels)
{
    say_known(m, what);
    if (labels && m->weightless)
        log_warn("all weights of %s are 0, so no example counts", what);
    if (labels && m->examples > 1 && m->base == 0 && (m->mean == 0 || m->mean == 1))
        log_warn(
            "all labels of %s are %.0f: no metric of it tells a good model from a bad "
            "one",
            what, m->mean);
    if (!labels || !is_worse(m))
        return;
    bool unknown = guard_known(m) < few_known;
    log_warn("on %s the model is worse than a guess: its loss is %.5f, while predicting "
             "the mean of the labels for every example has a loss of %.5f. %s",
             what, m->logloss, m->base,
             unknown ? "It does not know the features"
                     : "It may have overfitted its training data, or this data differs "
                       "from that: try fewer --epochs, --valid to stop in time, a larger "
                       "--l2 or --prior, or newer training data");
}

void guard_columns(const struct reader *r)
{
    char names[READER_NAMES_MAX];
    reader_absent_columns(r, names);
    if (names[0] != '\0')
        log_warn("feature columns of the model that are missing in some file count as "
                 "empty there: %s",
                 names);
}

void guard_layers(const struct model_options *o)
{
    // A process warns only once, because a program may train in many runs.
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *older = o->ops->dense != NULL ? layers_older_cpu() : NULL;
    if (older != NULL && !atomic_flag_test_and_set(&told))
        log_warn("OpenBLAS does not know this CPU and computes layers as for the older "
                 "%s, several "
                 "times slower than it can: set OPENBLAS_CORETYPE=%s in the environment",
                 older, __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell");
}
