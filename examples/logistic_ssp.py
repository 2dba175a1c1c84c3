#!/usr/bin/env python3
"""Logistic regression in numpy on a cluster, with bounded delay (mode ssp).

    python3 -m tug launch --servers 2 --workers 2 -- python3 examples/logistic_ssp.py
    tug launch --servers 2 --workers 2 -- python3 examples/logistic_ssp.py

Each worker has a part of the examples. For each batch it pulls the weights of the batch's features, computes, and
pushes gradients. It never gets more than two batches ahead of the slowest worker (mode ssp:2). The servers apply
Adagrad.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np

import tug

FEATURES, NONZERO, EXAMPLES, BATCH, PASSES = 10_000, 20, 20_000, 500, 3


def some_data(seed):
    """Returns examples of 20 features each, with labels drawn by true weights that training does not know."""
    true = np.random.default_rng(1).normal(size=FEATURES)
    rng = np.random.default_rng(seed)
    keys = rng.integers(FEATURES, size=(EXAMPLES, NONZERO)).astype(np.uint64)
    labels = rng.random(EXAMPLES) < 1 / (1 + np.exp(-true[keys].sum(axis=1)))
    return keys, labels.astype(np.float32)


def probabilities(table, keys):
    return 1 / (1 + np.exp(-table.pull(keys)[..., 0].sum(axis=1)))


def train(client, table, keys, labels):
    table.tick(0)
    client.barrier()  # all workers are at clock 0 before one starts
    for clock, at in enumerate(list(range(0, len(labels), BATCH)) * PASSES):
        k, y = keys[at:at + BATCH], labels[at:at + BATCH]
        gradient = (probabilities(table, k) - y) / BATCH
        table.push(k, np.broadcast_to(gradient[:, None, None], k.shape + (1,)))
        table.tick(clock + 1)
    table.finish()


def main():
    if tug.role() in ("scheduler", "server"):  # tug launch starts the script in these roles, too
        tug.serve()
        return 0
    with tug.connect() as client:
        table = client.table("w", dim=1, rule="adagrad:lr=0.5", mode="ssp:2")
        auc = client.table("auc", accessor="counter", dim=2)
        keys, labels = some_data(seed=2)
        train(client, table, keys[client.rank::client.workers], labels[client.rank::client.workers])
        client.barrier()
        keys, labels = some_data(seed=3)  # the test data
        mine = slice(client.rank, None, client.workers)
        auc.auc_add(probabilities(table, keys[mine]), labels[mine])
        client.barrier()
        if client.rank == 0:
            value, n = auc.auc()
            print(f"{client.workers} workers, {client.servers} servers: test AUC {value:.4f} of {n} examples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
