"""Helpers of the tests that train with tug.fleet: a net's slots, lines of clicks, and datasets.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import tug.fleet as fluid


def slots():
    return [fluid.data("a", [None, 1], "int64", 1), fluid.data("b", [None, 1], "int64", 1),
            fluid.data("x", [2], "float32"), fluid.data("label", [1], "int64")]


def lines_of(n, seed=0):
    """Yields n lines whose click depends on slot a, slot b and the first number of slot x."""
    r = np.random.default_rng(seed)
    for _ in range(n):
        a, b, x = r.integers(0, 20), r.integers(0, 10, r.integers(1, 4)), r.normal(size=2)
        p = 1 / (1 + np.exp(-(2.0 * (a % 2) - 1 + 0.8 * x[0] + 0.5 * (b[0] % 3 == 0))))
        yield f"1 {a} {len(b)} {' '.join(map(str, b))} 2 {x[0]:.4f} {x[1]:.4f} 1 {int(r.random() < p)}\n"


def dataset_of(kind, files, use, batch=64):
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var(use)
    made.set_batch_size(batch)
    made.set_filelist([str(f) for f in files])
    return made


def value(name):
    return float(np.asarray(fluid.global_scope().find_var(name).get_tensor())[0])


def zero():
    for state in ("stat_pos", "stat_neg", "batch_stat_pos", "batch_stat_neg"):
        tensor = fluid.global_scope().find_var(f"auc.{state}").get_tensor()
        tensor.set(np.zeros(tensor._get_dims()), fluid.CPUPlace())


def loss_of(exe, data):
    exe.infer_from_dataset(dataset=data)
    return value("loss")
