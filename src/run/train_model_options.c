// Options of `tug train` about the model: its kind, sizes, rules and layers.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_config_internal.h"

#include <stdio.h>
#include <string.h>

#include "os/log.h"
#include "rule/rule.h"

static void set_penalties(struct rule_params *p, const struct train_options *t,
                          const struct options *o)
{
    if (options_given(o, "l1"))
        p->l1 = (float)t->l1;
    if (options_given(o, "l2"))
        p->l2 = (float)t->l2;
    if (options_given(o, "prior"))
        p->prior = (float)t->prior;
}

// Finds an optimizer by the name in `text`. A colon and numbers may follow the name: the
// numbers that a save holds and that have no options of their own. adjust() reads these
// numbers.
static int find_optimizer(const char *option, const char *text, enum rule_kind *ret,
                          struct err *e)
{
    char name[RULE_NAME_MAX], known[OPTION_NAME_MAX], near[OPTION_NAME_MAX];
    size_t n = strcspn(text, ":");
    snprintf(name, sizeof(name), "%.*s", (int)n, text);
    for (const char *w = TRAIN_OPTIMIZERS; n < sizeof(name) && w != NULL;) {
        options_word(w, 0, known);
        if (strcmp(known, name) == 0)
            return rule_find(name, ret, e);
        w = strchr(w, ' ');
        w += w != NULL;
    }
    options_nearest(name, TRAIN_OPTIMIZERS, near);
    return err_set(e, TUG_EUSAGE, "--%s: '%.*s' is not one of: %s%s%s%s", option,
                   (int)(n < 200 ? n : 200), text, TRAIN_OPTIMIZERS,
                   *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

static int adjust(const char *option, const char *text, struct rule_params *p,
                  struct err *e)
{
    const char *numbers = strchr(text, ':');
    struct rule_params before = *p;
    if (numbers == NULL)
        return 0;
    if (rule_adjust(numbers + 1, p, e) != 0)
        return err_wrap(e, "--%s", option);
    before.n0 = p->n0;
    before.beta = p->beta;
    before.beta1 = p->beta1;
    before.beta2 = p->beta2;
    return rule_same(&before, p)
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "--%s: '%.100s': only n0, beta, beta1 and beta2 can be given "
                         "here; rates and penalties have options of their own, and other "
                         "numbers belong to tables (--table)",
                         option, numbers + 1);
}

static int set_layers(struct model_options *to, const struct train_options *t,
                      const struct options *o, struct err *e)
{
    const char *given = options_given_of_group(o, TRAIN_OF_LAYERS);
    if (given != NULL && to->ops->dense == NULL)
        return err_set(e, TUG_EUSAGE, "--%s: an %s model has no layers", given,
                       to->ops->name);
    enum rule_kind rule;
    bool crosses = to->cross > 0; // whether the model has cross layers by default
    LAYER_SETTINGS(TRAIN_TAKE)
    if (options_given(o, "hidden"))
        TRY(err_in(model_hidden_parse(t->hidden, to->hidden, e), "--hidden", e));
    if (options_given(o, "tower"))
        TRY(err_in(model_hidden_parse(t->tower, to->tower, e), "--tower", e));
    if (options_given(o, "task-weights"))
        TRY(err_in(model_weights_parse(t->task_weights, to->task_weight, e),
                   "--task-weights", e));
    if (t->label != NULL && strchr(t->label, ',') != NULL && t->fields != 0)
        return err_set(e, TUG_EUSAGE,
                       "several --label and --fields cannot be used together: the "
                       "columns decide the number of fields");
    if (options_given(o, "cross") && !crosses)
        return err_set(e, TUG_EUSAGE, "--cross: an %s model has no layers of products",
                       to->ops->name);
    if (to->data_norm && t->fields != 0)
        return err_set(e, TUG_EUSAGE,
                       "--data-norm and --fields cannot be used together: --data-norm "
                       "is for columns of numbers, which are the fields then");
    if (options_given(o, "dense-optimizer")) {
        TRY(find_optimizer("dense-optimizer", t->dense_optimizer, &rule, e));
        to->dense = rule_defaults(rule);
        TRY(adjust("dense-optimizer", t->dense_optimizer, &to->dense, e));
    }
    if (options_given(o, "dense-lr"))
        to->dense.lr = (float)t->dense_lr;
    if (to->ops->dense != NULL && !(to->dense.lr > 0))
        return err_set(e, TUG_EUSAGE, "--dense-lr: a learning rate of 0 learns nothing");
    return 0;
}

int train_set_model(struct model_options *to, const struct train_options *t,
                    const struct options *o, struct err *e)
{
    char name[OPTION_NAME_MAX];
    enum rule_kind rule;
    const struct model_ops *ops;
    TRY(find_optimizer("optimizer", t->optimizer, &rule, e));
    TRY(model_find(options_word(TRAIN_MODELS, t->model, name), &ops, e));
    model_defaults(to, ops, rule);
    TRY(adjust("optimizer", t->optimizer, &to->linear, e));
    TRY(adjust("optimizer", t->optimizer, &to->latent, e));
    bool normalizes = to->normalize; // whether the model normalizes by default
    MODEL_SETTINGS(TRAIN_TAKE)
    to->normalize &= normalizes;
    to->fields = ops->needs_fields ? to->fields : 0;
    float ratio = to->linear.lr > 0 ? to->latent.lr / to->linear.lr : 1;
    if (options_given(o, "lr"))
        to->linear.lr = (float)t->lr;
    to->latent.lr = options_given(o, "latent-lr") ? (float)t->latent_lr
                                                  : to->linear.lr * ratio;
    set_penalties(&to->linear, t, o);
    set_penalties(&to->latent, t, o);
    if (t->dims != NULL)
        TRY(model_check_dims_by_field(ops, e));
    TRY(set_layers(to, t, o, e));
    if (!(to->linear.lr > 0 && to->latent.lr > 0))
        return err_set(e, TUG_EUSAGE, "--lr: a learning rate of 0 learns nothing");
    return 0;
}

// Warns only, because programs give one set of options to several models.
void train_warn_of_unused(const struct model_ops *ops, const struct options *o)
{
    static const char *const of_vectors[] = {"dim", "init", "latent-lr"};
    for (size_t i = 0; i < sizeof(of_vectors) / sizeof(*of_vectors); i++)
        if (ops->layout == NULL && options_said(o, of_vectors[i]))
            log_warn("--%s has no effect: an %s model has no vectors", of_vectors[i],
                     ops->name);
    if (!ops->needs_fields && options_said(o, "fields"))
        log_warn("--fields has no effect: an %s model does not use fields", ops->name);
}
