#!/usr/bin/env python3
"""Data-parallel logistic regression with tug.kvstore, in the form of a program for MXNet's KVStore.

    tug launch --servers 2 --workers 2 -- python3 examples/kvstore_data_parallel.py

Each worker has a part of the examples. It pushes the sum of the gradients of a batch, and pulls the weights that the
servers have updated with the sums of all workers. Worker 0 prints the loss and the accuracy. Without tug launch the
program is one process with a local store.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np

import tug.kvstore as kvstore  # servers and the scheduler do not return from this import

FEATURES, EXAMPLES, BATCH, EPOCHS = 20, 4000, 50, 5

kv = kvstore.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")

rng = np.random.default_rng(1)  # every worker generates the same data
truth = rng.standard_normal(FEATURES)
x = rng.standard_normal((EXAMPLES, FEATURES)).astype(np.float32)
y = (x @ truth + 0.5 * rng.standard_normal(EXAMPLES) > 0).astype(np.float32)
mine = slice(kv.rank, EXAMPLES, kv.num_workers)

weights, bias = np.zeros(FEATURES, np.float32), np.zeros(1, np.float32)
kv.init(["weights", "bias"], [weights, bias])
kv.set_optimizer(kvstore.optimizer.create("sgd", learning_rate=0.1, momentum=0.9,
                                          rescale_grad=1 / (BATCH * kv.num_workers)))


def probability(rows):
    return 1 / (1 + np.exp(-(rows @ weights + bias[0])))


for epoch in range(EPOCHS):
    for at in range(0, len(x[mine]), BATCH):
        rows, labels = x[mine][at:at + BATCH], y[mine][at:at + BATCH]
        error = probability(rows) - labels
        kv.push(["weights", "bias"], [rows.T @ error, error.sum(keepdims=True)])
        kv.pull(["weights", "bias"], out=[weights, bias])
    if kv.rank == 0:
        p = np.clip(probability(x), 1e-7, 1 - 1e-7)
        loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
        print(f"epoch {epoch}: loss {loss:.4f}, {np.mean((p > 0.5) == y):.1%} right", flush=True)
