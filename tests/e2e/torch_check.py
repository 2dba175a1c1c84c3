"""Trains models with layers by tug and by PyTorch, from the same weights on the same batches, and
compares the scores and all weights after each batch. PyTorch gets only the formulas of the scores:
it computes the gradients itself and updates with its own optimizers. torch_test.sh runs this file.

SPDX-License-Identifier: Apache-2.0
"""

import os
import random
import subprocess
import sys
from itertools import combinations

import torch

MODELS = ("mlp", "wide_deep", "deepfm", "dcn")
FIELDS, DIM, HIDDEN, CROSS, KEYS = 4, 3, (7, 5), 2, 40  # no two layers have the same width
# Kinds of data, with the number of examples in each batch: multiples of eight, which shuffles keep
# together. A model computes 256 examples at a time; a batch of `large` has many more.
KINDS = {"logistic": (248, 184, 256), "squared": (248, 184), "once": (248, 256), "large": (4224,)}
SCORES, STEPS = 1e-5, 1e-5  # differences that rounding explains
ROUNDED = 2e-7  # rounding error of a weight in one step, relative to the weight

# ---------------------------------------------------------------- tug


def tug(words):
    run = subprocess.run([os.environ["TUG_BINARY"], *words.split()], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"tug {words}\nended with {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout


def export(save, table):
    """Returns the rows as key -> floats, and the line that describes the columns."""
    lines = tug(f"table export --from {save} --table {table}").splitlines()
    rows = [line.split() for line in lines[2:]]
    return {int(row[0]): [float(x) for x in row[1:]] for row in rows}, lines[1]


def tables_of(save):
    """Returns w and v of each key, and the dense parameters: all blocks, one after the other."""
    rows, head = export(save, "sparse")
    assert head == f"# key weight count embedx:{DIM}", head
    dense, _ = export(save, "dense")
    assert sorted(dense) == list(range(len(dense))), "numbers of blocks"
    return ({key: row[0] for key, row in rows.items()},
            {key: row[2:] for key, row in rows.items()},
            [x for block in sorted(dense) for x in dense[block]])


# ---------------------------------------------------------------- data


def write_data(path, rows, seed, keys, kind):
    """Writes random examples, and returns the label and the (field, key, value)s of each. A field has up
    to three features, with values of both signs; one key in ten occurs in two fields. With the kind
    `once`, no key occurs twice in an example: where tug updates rows example by example, it makes
    only one update of a key that occurs twice."""
    r = random.Random(seed)
    examples = []
    for _ in range(rows):
        features = [(field, r.choice([k for k in keys if k % FIELDS == field or k % 10 == 0]),
                     round(r.choice((1, r.uniform(-1, 1))), 3))
                    for field in range(FIELDS) for _ in range(r.choice((0, 1, 1, 2, 3)))]
        features = [f for f in features if f[2] != 0] or [(0, keys[0], 1)]
        if kind == "once":
            features = list({f[1]: f for f in features}.values())
        tilt = 0.3 * sum(x * (key % 7 - 3) for _, key, x in features) + r.gauss(0, 1)
        examples.append((round(tilt, 3) if kind == "squared" else float(tilt > 0), features))
    with open(path, "w") as out:
        for label, features in examples:
            print(f"{label:g}", *(f"{f}:{k}:{x:g}" for f, k, x in features), file=out)
    return examples


def matrices(examples, dtype):
    """Returns the labels, and the values as a tensor of examples x fields x keys."""
    x = torch.zeros(len(examples), FIELDS, KEYS, dtype=dtype)
    for i, (_, features) in enumerate(examples):
        for field, key, value in features:
            x[i, field, key] += value
    return torch.tensor([label for label, _ in examples], dtype=dtype), x


# ---------------------------------------------------------------- the models


BLOCK = 256  # floats of a row of the dense table


def shapes_of(model, norm):
    """Returns name -> shape of the dense parameters, in tug's order."""
    sizes = (FIELDS * DIM, *HIDDEN)
    shapes = {"bias": (1,)}
    for n, (a, b) in enumerate(zip(sizes, HIDDEN)):
        shapes |= {f"W{n}": (a, b), f"b{n}": (b,)}
        if norm:
            shapes[f"scale{n}"] = (b,)
    shapes["unit"] = (HIDDEN[-1],)
    if model == "dcn":
        for n in range(CROSS):
            shapes |= {f"cross W{n}": (sizes[0], sizes[0]), f"cross b{n}": (sizes[0],)}
        shapes["cross unit"] = (sizes[0],)
    return shapes


def summaries_of(floats):
    """Reads a count, means and variances of each layer from the last blocks; returns them and the rest."""
    ret = {}
    for n, units in enumerate(HIDDEN):
        count = floats[0] if floats[0] > 0 else 1
        ret[f"mean{n}"] = floats[1:1 + units] / count
        ret[f"variance{n}"] = floats[1 + units:1 + 2 * units] / count
        floats = floats[1 + 2 * units:]
    return ret, floats


def parameters_of(model, save, norm=False):
    """Returns name -> tensor of all parameters (w and v are zeros for keys without a row), the keys that
    have rows, and the running means and variances of batch_norm."""
    w, v, dense = tables_of(save)
    p = {"w": torch.zeros(KEYS), "v": torch.zeros(KEYS, DIM)}
    for key in w:
        p["w"][key], p["v"][key] = w[key], torch.tensor(v[key])
    dense, running = torch.tensor(dense), {}
    block = min(BLOCK, sum(torch.Size(x).numel() for x in shapes_of(model, norm).values()))
    for name, shape in shapes_of(model, norm).items():
        n = torch.Size(shape).numel()
        p[name], dense = dense[:n].reshape(shape).clone(), dense[n:]
    if norm:
        used = sum(t.numel() for name, t in p.items() if name not in ("w", "v"))
        assert not dense[:-used % block].any(), "floats behind the last layer"
        running, dense = summaries_of(dense[-used % block:])
    assert not dense.any(), "floats behind the last layer"
    return p, set(w), running


def of_type(p, dtype):
    return {name: t.detach().to(dtype, copy=True) for name, t in p.items()}


def normalise(p, n, z, norms):
    """Normalises z by PyTorch's layers, which compute and record the batch's statistics, or by given ones."""
    if isinstance(norms, dict):
        z = (z - norms[f"mean{n}"]) / (norms[f"variance{n}"] + 1e-5).sqrt()
    else:
        z = norms[n](z)
    return z * p[f"scale{n}"] + p[f"b{n}"]


def scores(model, p, x, norms=None, mean=False):
    of = x / (x != 0).sum(2, keepdim=True).clamp_min(1) if mean else x
    e = torch.einsum("nfk,kd->nfd", of, p["v"])  # the sum of the vectors of each field's features
    flat = e.reshape(len(x), FIELDS * DIM)
    hidden = flat
    for n in range(len(HIDDEN)):
        z = hidden @ p[f"W{n}"]
        hidden = torch.relu(normalise(p, n, z, norms) if norms else z + p[f"b{n}"])
    ret = p["bias"] + hidden @ p["unit"]
    if model in ("wide_deep", "deepfm"):
        ret = ret + x.sum(1) @ p["w"]
    if model == "deepfm":
        pairs = combinations(range(FIELDS), 2)
        ret = ret + sum((e[:, f] * e[:, g]).sum(1) for f, g in pairs) / FIELDS
    if model == "dcn":
        cross = flat
        for n in range(CROSS):
            cross = flat * (cross @ p[f"cross W{n}"] + p[f"cross b{n}"]) + cross
        ret = ret + cross @ p["cross unit"]
    return ret


def loss_of(loss, score, label):
    if loss == "squared":
        return (score - label) ** 2 / 2
    return torch.nn.functional.binary_cross_entropy_with_logits(score, label, reduction="none")


# ---------------------------------------------------------------- PyTorch's steps


class Trainer:
    """Updates rows and layers with PyTorch's optimizers."""

    def __init__(self, model, p, run, dtype):
        self.model, self.run, self.dtype = model, run, dtype
        self.steps = self.roundings = 0
        self.p = {name: t.requires_grad_() for name, t in of_type(p, dtype).items()}
        self.least = {name: torch.full_like(t, float("inf")) for name, t in self.p.items()}
        self.moved = dict.fromkeys(p, 0)  # sum over the steps of the largest change
        rows = [{"params": [self.p["w"]], "lr": run.lr},
                {"params": [self.p["v"]], "lr": run.latent_lr}]
        layers = [t for name, t in self.p.items() if name not in ("w", "v")]
        # The scale and shift are parameters of tug. In PyTorch, running means begin at 0, so they are
        # divided by 1 - 0.99 ** steps (see running()).
        self.norms = [torch.nn.BatchNorm1d(n, momentum=0.01, affine=False, dtype=dtype)
                      for n in HIDDEN] if run.norm else []
        for norm in self.norms:
            norm.running_var.zero_()
        if run.rule == "sgd":
            self.rows = torch.optim.SGD(rows)
            self.layers = torch.optim.SGD(layers, lr=run.dense_lr)
        else:
            self.rows = torch.optim.Adagrad(rows, initial_accumulator_value=1, eps=0)
            self.layers = torch.optim.Adam(layers, lr=run.dense_lr)

    def gradients(self, label, x):
        """Computes gradients: of rows for the sum or the mean of the examples' losses, of layers for the mean."""
        for t in self.p.values():
            t.grad = None
        losses = loss_of(self.run.loss, scores(self.model, self.p, x, self.norms, self.run.pool),
                         label)
        losses.sum().backward()
        for name, t in self.p.items():
            t.grad = torch.zeros_like(t) if t.grad is None else t.grad
            if self.run.mean or name not in ("w", "v"):
                t.grad /= len(label)

    def step(self, label, x):
        before = of_type(self.p, torch.double)
        self.gradients(label, x)
        for name, t in self.p.items():  # for each coordinate, its least gradient relative to the largest of its tensor
            size = t.grad.abs() / t.grad.abs().max().clamp_min(1e-30)
            self.least[name] = torch.where(size > 0, torch.minimum(size, self.least[name]),
                                           self.least[name])
        self.rows.step()
        self.step_layers()
        after = of_type(self.p, torch.double)
        for name in after:
            self.moved[name] += (after[name] - before[name]).abs().max().item()
        return after

    def running(self):
        come = 1 - 0.99 ** self.steps
        return {f"{name}{n}": t.double() / come for n, norm in enumerate(self.norms)
                for name, t in (("mean", norm.running_mean), ("variance", norm.running_var))}

    def step_layers(self):
        """Updates the layers as tug does: a coordinate without a gradient keeps its value and its state of
        adam, and adam adds epsilon before the root of v is corrected, not after."""
        self.steps += 1
        self.roundings += 4 if self.run.data == "once" else 1  # with `once`, tug rounds after each example
        kept = []
        for group in self.layers.param_groups:
            if "betas" in group:
                group["eps"] = 1e-8 / (1 - group["betas"][1] ** self.steps) ** 0.5
            for t in group["params"]:
                state = self.layers.state[t]
                kept += [(t.grad == 0, s, s.clone())
                         for s in (t.data, state.get("exp_avg"), state.get("exp_avg_sq"))
                         if s is not None]
        self.layers.step()
        for still, now, before in kept:
            now[still] = before[still]


class Run:
    """Settings of a run: rules and rates, as options of tug and for PyTorch. The rates are so large that
    the rounding of the weights is small relative to their changes."""

    def __init__(self, rule, reduce="mean", data="logistic", norm=False, pool=False):
        hogwild = data == "once"
        self.rule, self.data, self.norm, self.pool = rule, data, norm, pool  # pool: mean pooling
        self.loss = "squared" if data == "squared" else "logistic"
        self.mean = reduce == "mean" and not hogwild
        rows = 1 if self.mean else 1 / 250
        self.lr, self.latent_lr, self.dense_lr = {
            "sgd": (0.5 * rows, 2 * rows, 0.3), "adagrad": (0.2, 0.1, 0.01)}[rule]
        self.name = f"{rule}, {reduce}, {data}{', norm' if norm else ''}{', mean' if pool else ''}"
        self.rules = f"--optimizer {rule} --dense-optimizer {'sgd' if rule == 'sgd' else 'adam'}"
        self.words = (f"{self.rules} --lr {self.lr} --latent-lr {self.latent_lr}"
                      f" --dense-lr {self.dense_lr}"
                      + (" --threads 1" if hogwild else f" --deterministic --reduce {reduce}"))


RUNS = (Run("sgd", "sum"), Run("sgd", "mean"), Run("adagrad", "sum"), Run("adagrad", "mean"),
        Run("sgd", data="squared"), Run("sgd", data="once"), Run("sgd", data="large"),
        Run("sgd", data="once", norm=True),
        Run("sgd", data="once", pool=True))


# ---------------------------------------------------------------- comparisons

failures, worst = [], {}


def compare(what, got, wanted, allowed):
    """Records a failure if a difference exceeds `allowed`, which is one number or one for each value."""
    share = ((got - wanted).abs() / allowed).max().item()
    kind = what[0] if isinstance(what, tuple) else what
    worst[kind] = max(worst.get(kind, 0), share)
    if not share <= 1:
        failures.append(f"{what}: off by {share:.2g} times what rounding explains")


def compare_step(what, got, after, trainer):
    """Compares all weights. The allowed difference is relative to the largest changes of the weight's tensor,
    but at least to a tenth of the largest change of all tensors: small sums of errors may be less
    than their rounding. Adam divides a gradient by its own size, so the rounding of a small gradient
    counts more there."""
    most = max(trainer.moved.values())
    for name, wanted in after.items():
        allowed = STEPS * max(trainer.moved[name], most / 10)
        allowed = allowed + ROUNDED * trainer.roundings * wanted.abs()
        if trainer.run.rule != "sgd" and name not in ("w", "v"):
            allowed *= (0.1 / trainer.least[name]).clamp_min(1)
        compare((trainer.run.name, name, what), got[name], wanted, allowed)


def check_scores(what, model, run, p, running, save, path, examples):
    out = torch.tensor([float(line) for line in tug(
        f"predict --from {save} --data {path} --raw").split()], dtype=torch.double)
    for dtype in (torch.float, torch.double):
        wanted = scores(model, of_type(p, dtype), matrices(examples, dtype)[1],
                        of_type(running, dtype), run.pool).double()
        assert wanted.std() > 0.01, "scores say something"
        compare(("scores", what, dtype), out, wanted, SCORES * (1 + wanted.abs()))


def check_run(model, run, batches, test):
    """Compares a run from its first weights on, batch after batch: each batch is a whole file."""
    words = (f"train --format libffm --fields {FIELDS} --model {model} --dim {DIM}"
             + (f" --cross {CROSS}" if model == "dcn" else "") +
             f" --init 0.5 --hidden {','.join(map(str, HIDDEN))} --loss {run.loss}"
             " --l2 0 --prior 0 --epochs 1 --data-in memory --quiet"
             + (" --batch-norm" if run.norm else "") + (" --pooling mean" if run.pool else ""))
    still = run.rules + " --lr 1e-30 --latent-lr 1e-30 --dense-lr 1e-30"  # rates that keep the first weights
    name = f"{model}.{RUNS.index(run)}"
    files = [f"{run.data}.{n}" for n in range(len(batches))]
    tug(f"{words} --data {' '.join(files)} {still} --out {name}.first")
    first, _, running = parameters_of(model, f"{name}.first", run.norm)
    for t in first.values():
        t[t.abs() < 1e-20] = 0  # exactly 0 as before the step: a unit at 0 behaves differently from one slightly above
    check_scores(f"{model}, no batch", model, run, first, running, f"{name}.first",
                 f"{run.data}.test", test)
    trainers = [Trainer(model, first, run, dtype) for dtype in (torch.double, torch.float)]
    seen, before = set(), ""
    for n, examples in enumerate(batches):
        save = f"{name}.{n}"
        tug(f"{words} --data {files[n]} --batch {len(examples)} {run.words} --out {save} {before}")
        before = f"--init-from {save}"
        seen |= {key for _, features in examples for _, key, _ in features}
        got, keys, running = parameters_of(model, save, run.norm)
        assert keys == seen, "rows of the keys that were seen, and no others"
        for trainer in trainers:
            after = trainer.step(*matrices(examples, trainer.dtype))
            for part in ("w", "v"):  # a key that was not seen has no row in tug
                unseen = [key for key in range(KEYS) if key not in seen]
                assert torch.equal(after[part][unseen], first[part][unseen].double())
                after[part][unseen] = 0
            compare_step(f"{model}, batch {n + 1}, {trainer.dtype}", got, after, trainer)
            for what, wanted in trainer.running().items():
                compare((run.name, what, f"{model}, batch {n + 1}, {trainer.dtype}"),
                        running[what], wanted, SCORES * (1 + wanted.abs()))
    check_scores(f"{model}, {run.name}", model, run, got, running, save, f"{run.data}.test",
                 test)


def main():
    torch.set_num_threads(1)
    for kind, sizes in KINDS.items():
        batches = [write_data(f"{kind}.{n}", rows, n, range(5 * n, KEYS - 10 + 5 * n), kind)
                   for n, rows in enumerate(sizes)]
        test = write_data(f"{kind}.test", 100, 9, range(KEYS), kind)
        for model in MODELS:
            for run in RUNS:
                if run.data == kind:
                    check_run(model, run, batches, test)
    for kind, share in worst.items():
        print(f"{kind}: {share:.2g} of what rounding explains")
    if failures:
        sys.exit("\n".join(failures[:20]))  # the first failures tell most


main()
