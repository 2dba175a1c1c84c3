"""Rules and accessors with Paddle's names give Paddle's numbers: compares them with Paddle's formulas in double
precision.

SPDX-License-Identifier: Apache-2.0
"""

import math

import numpy as np
import pytest

import tug

LR, DIM, PUSHES = 0.05, 3, 12


class Naive:
    """w -= lr g; the number of shows has no effect."""

    def __init__(self, n):
        pass

    def step(self, w, g, shows):
        return w - LR * g


class AdaGrad:
    """AdaGrad with one sum of squares for the vector; a step uses the sum before the present gradient is added."""

    def __init__(self, n):
        self.n = 0.0

    def step(self, w, g, shows):
        g = g / shows
        w = w - LR * g * math.sqrt(3 / (3 + self.n))
        self.n += float(np.mean(g * g))
        return w


class StdAdaGrad:
    """AdaGrad with a sum of squares for each weight."""

    def __init__(self, n):
        self.n = np.zeros(n)

    def step(self, w, g, shows):
        g = g / shows
        w = w - LR * g * np.sqrt(3 / (3 + self.n))
        self.n += g * g
        return w


class AdaGradV2:
    """AdaGrad with one sum of squares for the vector; the present gradient is added before the step."""

    def __init__(self, n):
        self.n = 0.0

    def step(self, w, g, shows):
        g = g / shows
        self.n += float(np.mean(g * g))
        return w - (LR * g / (math.sqrt(self.n) + 1e-8) if self.n > 0 else 0)


class Adam:
    """Adam, which also updates weights with a gradient of 0; the number of shows has no effect."""

    shared = False

    def __init__(self, n):
        self.m, self.v, self.pows = np.zeros(n), np.zeros(n), [0.9, 0.999]

    def step(self, w, g, shows):
        rate = LR * math.sqrt(1 - self.pows[1]) / (1 - self.pows[0])
        m, v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g * g
        self.pows = [self.pows[0] * 0.9, self.pows[1] * 0.999]
        self.m, self.v = (m.mean(), v.mean()) if self.shared else (m, v)
        return w - rate * m / (np.sqrt(v) + 1e-8)


class SharedAdam(Adam):
    """Adam with one pair of moments for the vector: the means over its weights."""

    shared = True

    def __init__(self, n):
        super().__init__(n)
        self.m = self.v = 0.0


RULES = {"SparseNaiveSGDRule": Naive, "naive": Naive, "SparseAdaGradSGDRule": AdaGrad,
         "StdAdaGradSGDRule": StdAdaGrad, "std_adagrad": StdAdaGrad, "SparseAdaGradV2SGDRule": AdaGradV2,
         "adagrad_v2": AdaGradV2, "SparseAdamSGDRule": Adam, "SparseSharedAdamSGDRule": SharedAdam,
         "shared_adam": SharedAdam}
# For each accessor, the number of statistics at the start of a pulled row, and whether gradients are divided by shows.
ACCESSORS = {"SparseAccessor": (0, True), "DownpourSparseValueAccessor": (0, True), "CtrCommonAccessor": (2, True),
             "DownpourCtrAccessor": (2, True), "DownpourUnitAccessor": (2, False), "CtrDoubleAccessor": (2, True),
             "DownpourCtrDoubleAccessor": (2, True), "DownpourDoubleUnitAccessor": (2, False)}


def pushes(seed):
    """Yields pushes: gradients of embed and embedx, some of them 0, the number of shows, and the number of clicks."""
    r = np.random.default_rng(seed)
    for i in range(PUSHES):
        g = r.normal(size=1 + DIM).astype(np.float32)
        g[r.random(1 + DIM) < 0.3] = 0
        if i in (5, 6):
            g[:] = 0
        shows = float(r.integers(1, 6))
        yield g, shows, float(r.integers(0, int(shows) + 1))


@pytest.mark.parametrize("accessor", ACCESSORS)
@pytest.mark.parametrize("rule", RULES)
def test_rules_of_accessors(rule, accessor):
    """Rows have embedx from the first push (which does not train it) with threshold 0, or earn it later with threshold
    6."""
    stats, scales = ACCESSORS[accessor]
    for threshold in (0, 6):
        with tug.local() as client:
            table = client.table("t", accessor=accessor, dim=DIM, rule=f"{rule}:lr={LR}", embedx_rule=f"{rule}:lr={LR}",
                                 init=0, embedx_init=0, embedx_threshold=threshold)
            embed, embedx, w, x = RULES[rule](1), None, np.zeros(1), np.zeros(DIM)
            score = 0.0
            for g, shows, clicks in pushes(7):
                by = shows if scales else 1
                table.push([1], [[*g, shows, clicks, 0]])
                w = embed.step(w, g[:1].astype(np.float64), by)
                if embedx is not None:
                    x = embedx.step(x, g[1:].astype(np.float64), by)
                score += 0.1 * (shows - clicks) + clicks
                if embedx is None and score >= threshold:
                    embedx = RULES[rule](DIM)
                got = table.pull([1])[0][stats:]
                np.testing.assert_allclose(got, [*w, *x], rtol=1e-5, atol=1e-6)
            assert embedx is not None and np.abs(x).max() > 0


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_plain_rows(rule):
    """Rows of accessor plain, which have no shows, follow the same formulas."""
    with tug.local() as client:
        table = client.table("t", dim=DIM, rule=f"{rule}:lr={LR}", init=0)
        mine, w = RULES[rule](DIM), np.zeros(DIM)
        for g, _, _ in pushes(8):
            table.push([1], [g[1:]])
            w = mine.step(w, g[1:].astype(np.float64), 1)
            np.testing.assert_allclose(table.pull([1])[0], w, rtol=1e-5, atol=1e-6)


def test_names_of_our_own_mean_what_they_did():
    """Rules with tug's own names keep tug's semantics: gradients are divided by shows, adam leaves weights with
    gradient 0 unchanged, and the push that earns embedx trains it."""
    with tug.local() as client:
        table = client.table("t", accessor="ctr", dim=1, rule="sgd:lr=0.1", embedx_rule="sgd:lr=0.1", init=0,
                             embedx_init=0, embedx_threshold=0)
        table.push([1], [[4, 4, 4, 4, 0]])
        np.testing.assert_allclose(table.pull([1])[0][2:], [-0.1, -0.1], rtol=1e-6)
        adam = client.table("a", dim=2, rule="adam:lr=0.1", init=0)
        adam.push([1], [[1, 1]])
        before = adam.pull([1])[0][1]
        adam.push([1], [[1, 0]])
        assert adam.pull([1])[0][1] == before
