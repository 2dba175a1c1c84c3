"""Compares optimizers and schedulers of tug.kvstore with models of MXNet's updates in numpy, step by step, in double
precision.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import tug
from tug import kvstore
from tug.kvstore import RowSparse, lr_scheduler, optimizer

from stores import SHAPE, pulled


class Model:
    """A model of MXNet's optimizers for one array: prepared() scales and clips the gradient, step() applies the
    update."""

    def __init__(self, weight, lr=0.01, wd=0.0, rescale_grad=1.0, clip_gradient=None, **own):
        self.w, self.lr, self.wd, self.rescale, self.clip = weight.copy(), lr, wd, rescale_grad, clip_gradient
        self.o, self.t, self.s = own, 0, [np.zeros_like(weight) for _ in range(3)]
        self.schedule, self.was = 1.0, weight.copy()

    def prepared(self, g, decay=True):
        g = g * self.rescale
        if self.clip is not None:
            g = np.clip(g, -self.clip, self.clip)
        return g + self.wd * self.w if decay else g

    def means(self, g, b1, b2):
        self.s[0] = b1 * self.s[0] + (1 - b1) * g
        self.s[1] = b2 * self.s[1] + (1 - b2) * g * g
        return self.s[0], self.s[1]

    def update(self, g):
        self.t += 1
        getattr(self, self.o["name"])(g, **{k: v for k, v in self.o.items() if k != "name"})

    def sgd(self, g, momentum=0.0):
        self.s[0] = momentum * self.s[0] - self.lr * self.prepared(g)
        self.w = self.w + self.s[0]

    def nag(self, g, momentum=0.9):
        g = self.prepared(g)
        self.s[0] = momentum * self.s[0] - self.lr * g
        self.w = self.w + momentum * self.s[0] - self.lr * g

    def corrected(self, b1, b2):
        return self.lr * np.sqrt(1 - b2 ** self.t) / (1 - b1 ** self.t)

    def adam(self, g, beta1=0.9, beta2=0.999, epsilon=1e-8):
        mean, var = self.means(self.prepared(g), beta1, beta2)
        self.w = self.w - self.corrected(beta1, beta2) * mean / (np.sqrt(var) + epsilon)

    def adamw(self, g, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True):
        lr = self.corrected(beta1, beta2) if correct_bias else self.lr
        mean, var = self.means(self.prepared(g, decay=False), beta1, beta2)
        self.w = self.w - lr * (mean / (np.sqrt(var) + epsilon) + self.wd * self.w)

    def adagrad(self, g, epsilon=1e-6):
        g = self.prepared(g)
        self.s[0] = self.s[0] + g * g
        self.w = self.w - self.lr * g / (np.sqrt(self.s[0]) + epsilon)

    def adadelta(self, g, rho=0.9, epsilon=1e-6):
        g = self.prepared(g)
        self.s[0] = rho * self.s[0] + (1 - rho) * g * g
        d = np.sqrt(self.s[1] + epsilon) / np.sqrt(self.s[0] + epsilon) * g
        self.s[1] = rho * self.s[1] + (1 - rho) * d * d
        self.w = self.w - self.lr * d

    def rmsprop(self, g, rho=0.9, momentum=0.9, epsilon=1e-8, centered=False, clip_weights=None):
        g = self.prepared(g)
        self.s[0] = rho * self.s[0] + (1 - rho) * g * g
        if centered:
            self.s[1] = rho * self.s[1] + (1 - rho) * g
            self.s[2] = momentum * self.s[2] - self.lr * g / np.sqrt(self.s[0] - self.s[1] ** 2 + epsilon)
            self.w = self.w + self.s[2]
        else:
            self.w = self.w - self.lr * g / (np.sqrt(self.s[0]) + epsilon)
        if clip_weights is not None:
            self.w = np.clip(self.w, -clip_weights, clip_weights)

    def ftrl(self, g, lamda1=0.01, beta=1.0):
        g, before = self.prepared(g, decay=False), np.sqrt(self.s[1])
        self.s[1] = self.s[1] + g * g
        self.s[0] = self.s[0] + g - (np.sqrt(self.s[1]) - before) / self.lr * self.w
        self.w = -np.sign(self.s[0]) * np.maximum(np.abs(self.s[0]) - lamda1, 0) / \
            ((beta + np.sqrt(self.s[1])) / self.lr + self.wd)

    def signum(self, g, momentum=0.9, wd_lh=0.0):
        if momentum == 0:
            self.w = self.w * (1 - self.lr * (self.wd + wd_lh)) - self.lr * np.sign(g)
            return
        self.s[0] = momentum * self.s[0] - (1 - momentum) * self.prepared(g)
        self.w = self.w * (1 - self.lr * wd_lh) + self.lr * np.sign(self.s[0])

    def lamb(self, g, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None, bias_correction=True):
        mean, var = self.means(self.prepared(g, decay=False), beta1, beta2)
        if bias_correction:
            mean, var = mean / (1 - beta1 ** self.t), var / (1 - beta2 ** self.t)
        d = mean / (np.sqrt(var) + epsilon) + self.wd * self.w
        r1, r2 = np.linalg.norm(self.w), np.linalg.norm(d)
        r1 = max(r1, lower_bound or 0)
        r1 = r1 if upper_bound is None else min(r1, upper_bound)
        self.w = self.w - self.lr * (1 if r1 == 0 or r2 == 0 else r1 / r2) * d

    def lars(self, g, momentum=0.0, eta=0.001, epsilon=1e-8):
        w_norm, g_norm = np.linalg.norm(self.w), np.linalg.norm(self.rescale * g)
        scale = 1 if 0 in (w_norm, g_norm) else eta * w_norm / (g_norm + self.wd * w_norm + epsilon)
        self.s[0] = momentum * self.s[0] - self.lr * scale * self.prepared(g)
        self.w = self.w + self.s[0]

    def ftml(self, g, beta1=0.6, beta2=0.999, epsilon=1e-8):
        g, before = self.prepared(g), self.s[0]
        self.s[1] = beta2 * self.s[1] + (1 - beta2) * g * g
        self.s[0] = (1 - beta1 ** self.t) / self.lr * (np.sqrt(self.s[1] / (1 - beta2 ** self.t)) + epsilon)
        self.s[2] = beta1 * self.s[2] + (1 - beta1) * g - (self.s[0] - beta1 * before) * self.w
        self.w = -self.s[2] / self.s[0]

    def nadam(self, g, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004):
        g = self.prepared(g)
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * schedule_decay)) for t in (self.t, self.t + 1))
        self.schedule *= now
        mean, var = self.means(g, beta1, beta2)
        bar = following * mean / (1 - self.schedule * following) + (1 - now) * g / (1 - self.schedule)
        self.w = self.w - self.lr * bar / (np.sqrt(var / (1 - beta2 ** self.t)) + epsilon)

    def adamax(self, g, beta1=0.9, beta2=0.999, epsilon=1e-8):
        g = self.prepared(g)
        self.s[0] = beta1 * self.s[0] + (1 - beta1) * g
        self.s[1] = np.maximum(beta2 * self.s[1], np.abs(g))
        self.w = self.w - self.lr / (1 - beta1 ** self.t) * self.s[0] / (self.s[1] + epsilon)

    def dcasgd(self, g, momentum=0.0, lamda=0.04):
        g = self.prepared(g)
        self.s[0] = momentum * self.s[0] - self.lr * (g + lamda * g * g * (self.w - self.was))
        self.was = self.w
        self.w = self.w + self.s[0]

    def test(self, g):
        self.w = self.w - self.lr * (self.rescale * g + self.wd * self.w)


FORMS = [("sgd", {}), ("sgd", {"momentum": 0.9}), ("nag", {}), ("nag", {"momentum": 0.5}), ("adam", {}),
         ("adam", {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}), ("adagrad", {}), ("adadelta", {}),
         ("rmsprop", {}), ("rmsprop", {"centered": True, "momentum": 0.5, "epsilon": 1e-2}),
         ("rmsprop", {"clip_weights": 0.4}), ("ftrl", {}), ("ftrl", {"lamda1": 0.3, "beta": 0.5}), ("signum", {}),
         ("signum", {"momentum": 0.0, "wd_lh": 0.02}), ("signum", {"wd_lh": 0.02}), ("adamw", {}),
         ("adamw", {"correct_bias": False, "beta1": 0.5}), ("lamb", {}), ("lamb", {"bias_correction": False}),
         ("lamb", {"lower_bound": 3.0, "upper_bound": 4.0}), ("lamb", {"upper_bound": 0.5}), ("lars", {}),
         ("lars", {"momentum": 0.9, "eta": 0.5, "epsilon": 0.1}), ("ftml", {}), ("ftml", {"beta1": 0.9}), ("nadam", {}),
         ("nadam", {"schedule_decay": 0.4}), ("adamax", {}), ("dcasgd", {}),
         ("dcasgd", {"momentum": 0.9, "lamda": 0.5}), ("test", {})]
COMMON = [{}, {"wd": 0.05, "rescale_grad": 0.25, "clip_gradient": 0.2}]


@pytest.mark.parametrize("common", COMMON, ids=["plain", "all"])
@pytest.mark.parametrize("name,own", FORMS, ids=lambda x: x if isinstance(x, str) else "-".join(x) or "defaults")
def test_formulas(name, own, common):
    if name == "test":
        common = {k: v for k, v in common.items() if k != "clip_gradient"}
    rng = np.random.default_rng(3)
    start = rng.standard_normal((6, 4))
    model = Model(start, lr=0.05, name=name, **common, **own)
    with kvstore.create() as kv:
        kv.init("w", start)
        kv.set_optimizer(optimizer.create(name, learning_rate=0.05, **common, **own))
        for _ in range(12):
            g = rng.standard_normal((6, 4))
            kv.push("w", g)
            model.update(g)
        assert np.allclose(pulled(kv, "w", (6, 4), np.float64), model.w, rtol=1e-9, atol=1e-12)


def test_defaults():
    """The default learning rates are those of MXNet."""
    rates = {"sgd": 0.1, "nag": 0.1, "adam": 1e-3, "adagrad": 0.01, "adadelta": 1.0, "rmsprop": 1e-3, "ftrl": 0.1,
             "signum": 0.01, "adamw": 1e-3, "lamb": 1e-3, "lars": 0.1, "ftml": 0.0025, "nadam": 1e-3, "adamax": 0.002,
             "dcasgd": 0.1, "sgld": 0.1}
    for name, rate in rates.items():
        made = optimizer.create(name.upper())
        assert (made.learning_rate, made.wd, made.rescale_grad, made.clip_gradient) == (rate, 0, 1, None)
        assert made.multi_precision is False and made.begin_num_update == 0 and made.name == name
    assert optimizer.create("signsgd").text() == "signsgd" and optimizer.create("ccsgd").momentum == 0
    assert optimizer.Adam(0.1, 0.8).text() == "adam:learning_rate=0.1,beta1=0.8"


def test_zero_arrays():
    """lamb and lars do not divide by the norm if an array or a gradient is all zeros."""
    for name, start, g in (("lars", 0.0, 1.0), ("lars", 1.0, 0.0), ("lamb", 0.0, 1.0), ("lamb", 1.0, 0.0)):
        model = Model(np.full(SHAPE, start), lr=0.1, name=name)
        with kvstore.create() as kv:
            kv.init(0, np.full(SHAPE, start))
            kv.set_optimizer(optimizer.create(name, learning_rate=0.1))
            kv.push(0, np.full(SHAPE, g))
            model.update(np.full(SHAPE, g))
            assert np.allclose(pulled(kv, 0, dtype=np.float64), model.w, atol=1e-12)


def test_sgld():
    """sgld makes steps of half the learning rate, and adds noise whose variance is the learning rate."""
    start, g = np.full(20000, 2.0), np.full(20000, 3.0)
    found = []
    for seed in (0, 0, 1):
        with kvstore.create() as kv:
            kv.init("w", start)
            kv.set_optimizer(optimizer.SGLD(0.25, seed=seed, wd=0.5))
            kv.push("w", g)
            found.append(pulled(kv, "w", start.shape, np.float64) - (start - 0.25 / 2 * (g + 0.5 * start)))
    assert np.array_equal(found[0], found[1]) and not np.any(found[0] == found[2])
    assert abs(found[0].mean()) < 5 * 0.5 / np.sqrt(20000) and abs(found[0].var() - 0.25) < 5 * 0.25 * 0.01


# Schedulers. The functions below model MXNet's schedulers, whose state changes with each call.

def factor_rates(n, step, factor, stop, base):
    rates, count = [], 0
    for update in range(1, n + 1):
        while update > count + step:
            count += step
            base = max(base * factor, stop)
        rates.append(base)
    return rates


def test_schedulers():
    n, pi = 40, np.pi
    schedule = lr_scheduler.FactorScheduler(step=4, factor=0.5, stop_factor_lr=0.03, base_lr=0.8)
    assert np.allclose([schedule(i) for i in range(1, n + 1)], factor_rates(n, 4, 0.5, 0.03, 0.8))
    schedule = lr_scheduler.MultiFactorScheduler([3, 9], 0.1, base_lr=2)
    assert np.allclose([schedule(i) for i in range(1, 12)], [2] * 3 + [0.2] * 6 + [0.02] * 2)
    schedule = lr_scheduler.PolyScheduler(20, base_lr=1, pwr=2, final_lr=0.25)
    assert np.allclose([schedule(i) for i in range(n)], [0.25 + 0.75 * (1 - min(i, 20) / 20) ** 2 for i in range(n)])
    schedule = lr_scheduler.CosineScheduler(20, base_lr=1, final_lr=0.25, warmup_steps=5, warmup_begin_lr=0.5)
    after = [0.25 + 0.75 * (1 + np.cos(pi * (min(i, 20) - 5) / 15)) / 2 for i in range(5, n)]
    assert np.allclose([schedule(i) for i in range(n)], [0.5 + 0.1 * i for i in range(5)] + after)
    schedule = lr_scheduler.PolyScheduler(20, base_lr=1, warmup_steps=3, warmup_begin_lr=0.1, warmup_mode="constant")
    assert [schedule(i) for i in range(4)] == [0.1, 0.1, 0.1, 1]


def test_scheduler_in_store():
    rng = np.random.default_rng(5)
    schedule = lr_scheduler.FactorScheduler(step=2, factor=0.5)
    made = optimizer.SGD(0.8, momentum=0.9, lr_scheduler=schedule, begin_num_update=1)
    assert schedule(1) == 0.01 and made.learning_rate == 0.8  # learning_rate replaces base_lr
    start = rng.standard_normal(SHAPE)
    model = Model(start, name="sgd", momentum=0.9)
    with kvstore.create() as kv:
        kv.init(["w", "v"], [start, start])
        kv.set_optimizer(made)
        for step in range(7):
            g = rng.standard_normal(SHAPE)
            model.lr = 0.8 * 0.5 ** ((step + 2 - 1) // 2)
            kv.push("w", g)
            model.update(g)
        assert np.allclose(pulled(kv, "w", dtype=np.float64), model.w, rtol=1e-12)
        assert made.num_update == 8 and made.learning_rate == 0.1
        kv.push("v", np.ones(SHAPE))  # the key's first update, while num_update of the other key is 8
        assert np.allclose(pulled(kv, "v", dtype=np.float64), start - 0.1)
    with pytest.raises(tug.Error, match="lr_scheduler"):
        made.set_learning_rate(0.5)
    with pytest.warns(tug.Warning, match="begins with its base_lr=0.3"):
        poly = optimizer.SGD(0.5, lr_scheduler=lr_scheduler.PolyScheduler(10, base_lr=0.3))
    assert poly.learning_rate == 0.3 and "learning_rate" not in poly.text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.SGD(0.3, lr_scheduler=lr_scheduler.PolyScheduler(10, base_lr=0.3))
        optimizer.SGD(lr_scheduler=lr_scheduler.PolyScheduler(10, base_lr=0.3))


class OwnScheduler(lr_scheduler.LRScheduler):
    def __call__(self, num_update):
        return 1 / num_update


def test_wrong_schedulers():
    wrong = [
        (lambda: lr_scheduler.FactorScheduler(0), "step"),
        (lambda: lr_scheduler.FactorScheduler(5, factor=2), "factor cannot be '2.0'"),
        (lambda: lr_scheduler.MultiFactorScheduler([5, 3]), "ascend"),
        (lambda: lr_scheduler.MultiFactorScheduler(5), "list"),
        (lambda: lr_scheduler.PolyScheduler(0), "max_update"),
        (lambda: lr_scheduler.CosineScheduler(5, warmup_steps=5), "more than warmup_steps"),
        (lambda: lr_scheduler.CosineScheduler(5, warmup_begin_lr=2), "not be more than base_lr"),
        (lambda: lr_scheduler.CosineScheduler(5, warmup_mode="slow"), "linear or constant"),
        (lambda: lr_scheduler.CosineScheduler(5, warmup_mode="a,b"), "'linear' or 'constant'"),
        (lambda: lr_scheduler.CosineScheduler("5"), "number"),
        (lambda: lr_scheduler.CosineScheduler(5)(-1), "num_update"),
        (lambda: optimizer.SGD(lr_scheduler=OwnScheduler()), "OwnScheduler is the program's own.*set_optimizer again"),
        (lambda: optimizer.SGD(lr_scheduler=lambda n: 0.1), "a scheduler of tug.kvstore.lr_scheduler"),
    ]
    for call, why in wrong:
        with pytest.raises(tug.Error, match=why):
            call()


# ---------------------------------------------------------------- multipliers

class Parameter:
    lr_mult, wd_mult = 3.0, 0.5


@pytest.mark.parametrize("named", [False, True])
def test_multipliers(named):
    names = {0: "fc_weight", 1: "fc_bias", 2: "it's", 3: "other"}
    made = optimizer.SGD(0.5, wd=0.25, param_idx2name=names, param_dict={3: Parameter()})
    made.set_lr_mult({"fc_bias": 2.0, 2: 0.0})
    made.set_wd_mult({0: 0.0, "fc_bias": 4})
    start = np.ones(SHAPE)
    with kvstore.create() as kv:
        keys = list(names.values() if named else names)
        kv.init(keys, [start] * 4)
        kv.set_optimizer(made)
        kv.push(keys, [start] * 4)
        found = [pulled(kv, key, dtype=np.float64)[0, 0] for key in keys]
    assert found == [1 - 0.5, 1 - 0.5 * 2 * (1 + 4 * 0.25), 1, 1 - 0.5 * 3 * (1 + 0.5 * 0.25)]
    made.set_lr_mult({})
    assert made.lr_mult == {} and made.idx2name == names


def test_names_of_lars():
    """lars does not scale arrays whose names end in gamma, beta or bias, even if their keys are numbers."""
    made = optimizer.LARS(0.5, param_idx2name={0: "fc_weight", 1: "fc_bias"})
    with kvstore.create() as kv:
        kv.init([0, 1], [np.ones(SHAPE)] * 2)
        kv.set_optimizer(made)
        kv.push([0, 1], [np.ones(SHAPE)] * 2)
        assert np.allclose(pulled(kv, 0), 1 - 0.5 * 0.001) and np.all(pulled(kv, 1) == 0.5)


# --------------------------------------------------------------- the other names of mxnet.optimizer

def test_lists():
    """The attributes in Python and the fields of the library are the same, and each class is in the library's list."""
    with kvstore.create() as kv:
        with pytest.raises(tug.Error) as error:
            kv.set_optimizer("nosuch")
        names = re.split(", | and ", str(error.value).split("there are ")[1])
        assert {cls.__name__.lower() for cls in optimizer.Optimizer.__subclasses__()[0].__subclasses__()} == set(names)
        for name in names:
            with pytest.raises(tug.Error, match="does not take 'nosuch'; it takes learning_rate"):
                optimizer.create(name, nosuch=1)


def test_misuse():
    wrong = [
        (lambda: optimizer.create("lbsgd"), "there is no optimizer 'lbsgd'"),
        (lambda: optimizer.create(3), "no optimizer"),
        (lambda: optimizer.SGD("0.1"), "learning_rate of optimizer sgd is a number, not str"),
        (lambda: optimizer.SGD(0.1, learning_rate=0.1), "twice"),
        (lambda: optimizer.NAG(0.1, 0.9, 1), "takes 2 arguments in order, not 3"),
        (lambda: optimizer.SGD(-1), "learning_rate cannot be -1"),
        (lambda: optimizer.SGD(sym="x"), "sym is not supported"),
        (lambda: optimizer.SGD().set_lr_mult({2.5: 1}), "an int or a str"),
        (lambda: optimizer.SGD().set_lr_mult({2: "x"}), "lr_mult is a number"),
        (lambda: optimizer.register(Parameter), "Parameter, cannot be registered"),
        (lambda: optimizer.get_updater("sgd"), "optimizer, not str"),
    ]
    for call, why in wrong:
        with pytest.raises(tug.Error, match=why):
            call()
    with pytest.raises(AttributeError, match="it has sgd, nag"):
        optimizer.LANS  # pylint: disable=pointless-statement
    with pytest.raises(AttributeError, match="has no momentum"):
        optimizer.Adam().momentum = 0.5
    optimizer.SGD(aggregate_num=4, use_fused_step=False, sym=None, clip_gradient=None)


def test_changed_optimizer():
    """In a store of one process, a changed attribute of an optimizer takes effect at the next push."""
    made = optimizer.SGD(0.5)
    with kvstore.create() as kv:
        kv.init("w", np.ones(SHAPE))
        kv.set_optimizer(made)
        expected = 1.0
        for change, step in ((lambda: None, 0.5), (lambda: made.set_learning_rate(0.25), 0.25),
                             (lambda: setattr(made, "rescale_grad", 2), 0.5), (lambda: made.set_lr_mult({"w": 3}), 1.5),
                             (lambda: setattr(made, "lr", 1), 6)):
            change()
            kv.push("w", np.ones(SHAPE))
            expected -= step
            assert np.all(pulled(kv, "w") == expected)
        made.momentum = -1
        with pytest.raises(tug.Error, match="momentum cannot be -1"):
            kv.push("w", np.ones(SHAPE))


def test_copies():
    made = optimizer.LARS(0.5, momentum=0.9, param_idx2name={0: "a_bias"},
                          lr_scheduler=lr_scheduler.FactorScheduler(5, base_lr=0.5))
    with kvstore.create() as kv:
        kv.set_optimizer(made)
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert other.text() == made.text() and other.num_update == 0
            kv.set_optimizer(other)
        with pytest.raises(tug.Error, match="a pickled optimizer is refused"):
            kv.set_optimizer(pickle.dumps(made))


def test_updater():
    """get_updater(optimizer) applies the optimizer, to arrays that the program changes itself and to those of a
    store."""
    rng = np.random.default_rng(7)
    weight = rng.standard_normal(SHAPE)
    model = Model(weight, lr=0.1, name="adam")
    update = optimizer.get_updater(optimizer.Adam(0.1))
    with kvstore.create() as kv:
        kv.init("w", weight)
        kv.set_updater(optimizer.get_updater(optimizer.Adam(0.1)))
        for _ in range(5):
            g = rng.standard_normal(SHAPE)
            kv.push("w", g)
            update(0, g, weight)
            model.update(g)
        assert np.allclose(weight, model.w, rtol=1e-12)
        assert np.allclose(pulled(kv, "w", dtype=np.float64), model.w, rtol=1e-12)
    weight += 1
    model.w = model.w + 1
    update([0], [g], [weight])
    model.update(g)
    assert np.allclose(weight, model.w, rtol=1e-12)


@pytest.mark.parametrize("lazy", [True, False])
def test_lazy_update(lazy):
    start = np.ones((5, 2))
    rows = RowSparse([1, 3], np.ones((2, 2)), (5, 2))
    with kvstore.create() as kv:
        kv.init("w", RowSparse.of(start))
        kv.set_optimizer(optimizer.SGD(0.5, wd=0.5, lazy_update=lazy))
        kv.push("w", rows)
        expected = start - 0.5 * (rows.dense() + 0.5 * (start if not lazy else start * (rows.dense() > 0)))
        assert np.allclose(pulled(kv, "w", (5, 2), np.float64), expected)


def test_init_optimizer():
    """init_optimizer works like Module's: keys have the names of the arrays, and gradients are divided by the batch
    size."""
    params = {"w": np.ones(SHAPE, np.float32), "b": np.zeros(3, np.float32)}
    with kvstore.init_optimizer("local", "sgd", {"learning_rate": 0.5, "momentum": 0.9}, params=params,
                                batch_size=4) as kv:
        kv.push("w", np.ones(SHAPE, np.float32))
        assert np.all(pulled(kv, "w") == 1 - 0.5 / 4) and np.all(pulled(kv, "b", (3,)) == 0)
    with pytest.warns(UserWarning, match="rescale_grad=1, but 1 / "):
        kvstore.init_optimizer(optimizer=optimizer.SGD(), params=params.items(), batch_size=4).close()
    for wrong, why in (({"kvstore": None}, "get_updater"), ({}, "params"), ({"params": params, "batch_size": 0}, "0"),
                       ({"params": params, "optimizer": 3}, "int")):
        with pytest.raises(tug.Error, match=why):
            kvstore.init_optimizer(**wrong)


@pytest.mark.parametrize("name", ["sgd:momentum=0.9", "adam", "adadelta", "ftrl", "rmsprop", "lamb"])
def test_states_of_float64_are_exact(name, tmp_path):
    """A run that goes on from saved states has the bits of one that was not interrupted."""
    ends = []
    for stop in (8, 4):
        rng = np.random.default_rng(3)
        weight = rng.standard_normal((4, 3))
        for begin in range(0, 8, stop):
            with tug.kvstore.create() as kv:
                kv.set_optimizer(f"{name}{',' if ':' in name else ':'}learning_rate=0.1")
                kv.init("w", weight)
                if begin > 0:
                    kv.load_optimizer_states(tmp_path / "states")
                for _ in range(stop):
                    kv.push("w", rng.standard_normal((4, 3)))
                weight = pulled(kv, "w", (4, 3), np.float64)
                kv.save_optimizer_states(tmp_path / "states")
        ends.append(weight)
    np.testing.assert_array_equal(*ends)
