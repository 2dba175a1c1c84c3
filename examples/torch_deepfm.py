#!/usr/bin/env python3
"""DeepFM in PyTorch, with the vectors of features in a tug table and the layers in PyTorch.

    python3 examples/torch_deepfm.py                                     # data of its own, in this process
    tug synth --rows 2000 --format libffm --out train.ffm --test-rows 1000 --test-out test.ffm
    python3 examples/torch_deepfm.py --train train.ffm --test test.ffm   # libffm's text; .zst and .gz, too
    tug launch --servers 2 --workers 2 -- python3 examples/torch_deepfm.py --train train.ffm --test test.ffm

On a cluster the servers hold the rows and apply Adam to them; each worker computes a part of every batch, and
DistributedDataParallel averages the gradients of the layers. The AUC covers the predictions of all workers.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import subprocess
import sys

import numpy as np

import tug

if tug.role() in ("scheduler", "server"):  # tug launch starts the script in these roles, too; they do not need PyTorch
    tug.serve()
    sys.exit()

import torch  # noqa: E402
from torch import nn  # noqa: E402

import tug.torch  # noqa: E402

UNPACK = {".zst": "zstd", ".gz": "gzip"}


class Examples:
    """Examples in memory: labels, and the field and id of each feature. Example i has the features from start[i] up to
    start[i + 1], sorted by field."""

    def __init__(self, labels, start, field, ids):
        self.labels, self.start, self.field, self.ids = labels, start, field, ids

    def batch(self, chosen, fields):
        """Returns the labels and ids of the chosen examples, and the offset of each field of each example among the ids
        (one bag for each field)."""
        n = self.start[chosen + 1] - self.start[chosen]
        first = np.repeat(self.start[chosen] - np.concatenate(([0], np.cumsum(n)[:-1])), n)
        at = first + np.arange(n.sum())
        bag = np.repeat(np.arange(len(chosen)) * fields, n) + self.field[at]
        offsets = np.searchsorted(bag, np.arange(len(chosen) * fields))
        return tuple(torch.from_numpy(a) for a in (self.labels[chosen], self.ids[at], offsets))


def read(path):
    """Reads libffm text, "label field:id:1 field:id:1 ...", also compressed."""
    unpack = next((program for end, program in UNPACK.items() if path.endswith(end)), None)
    command = [unpack, "-dc", path] if unpack else ["cat", path]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    symbols = np.frombuffer(text, np.uint8)
    n = np.diff(np.cumsum(symbols == ord(":"))[symbols == ord("\n")], prepend=0) // 2
    numbers = np.fromstring(text.replace(b":", b" "), sep=" ")
    label = np.cumsum(3 * n + 1) - 3 * n - 1
    features = np.delete(numbers, label).reshape(-1, 3)
    order = np.lexsort((features[:, 0], np.repeat(np.arange(len(n)), n)))
    return Examples((numbers[label] > 0).astype(np.float32), np.concatenate(([0], np.cumsum(n))),
                    features[order, 0].astype(np.int64), features[order, 1].astype(np.int64))


def invented(n, seed):
    """Returns n made-up examples: a user, a film and its genre. Hidden vectors determine who likes which film."""
    hidden = np.random.default_rng(1).normal(size=(2, 200, 2))
    users, films = np.random.default_rng(seed).integers(0, 200, (2, n))
    ids = np.stack([users, 1000 + films, 2000 + films % 7], axis=1)
    liked = (hidden[0][users] * hidden[1][films]).sum(axis=1) > 0.5
    return Examples(liked.astype(np.float32), np.arange(n + 1) * 3, np.tile([0, 1, 2], n), ids.reshape(-1))


class DeepFM(nn.Module):
    """DeepFM (Guo et al. 2017). A row of the table has the weight of a feature, then its vector; several ids of a field
    are added up."""

    def __init__(self, table, fields, hidden):
        super().__init__()
        self.rows = tug.torch.EmbeddingBag(table, mode="sum")
        self.fields = fields
        sizes = [fields * (table.pull_width - 1), *hidden]
        layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, ids, offsets):
        rows = self.rows(ids, offsets).view(-1, self.fields, self.rows.embedding_dim)
        weights, vectors = rows[..., 0], rows[..., 1:]
        pairs = (vectors.sum(1) ** 2 - (vectors ** 2).sum(1)).sum(1) / 2 / self.fields
        return weights.sum(1) + pairs + self.layers(vectors.flatten(1)).squeeze(1)


def train(client, model, rows, optimizers, data, o):
    """Trains for o.epochs passes. All workers use the same order of the examples, and each computes its part of every
    batch."""
    steps = o.epochs * max(len(data.labels) // o.batch, 1) + 1
    schedules = [torch.optim.lr_scheduler.LambdaLR(one, lambda step: 1 - step / steps) for one in optimizers]
    random, share = np.random.default_rng(o.seed), o.batch // client.workers
    for epoch in range(o.epochs):
        order, total, coming = random.permutation(len(data.labels)), 0.0, None
        parts = [order[at:at + share] for at in range(client.rank * share, len(order), o.batch)]
        parts = parts[:len(order) // o.batch]  # the same number for each worker
        for part, following in zip(parts, [*parts[1:], None]):
            labels, ids, offsets = coming or data.batch(part, rows.fields)
            coming = None if following is None else data.batch(following, rows.fields)
            if coming is not None and o.prefetch:
                rows.rows.prefetch(coming[1])
            loss = nn.functional.binary_cross_entropy_with_logits(model(ids, offsets), labels)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            for schedule in schedules:
                schedule.step()
            total += float(loss)
        if client.rank == 0:
            print(f"pass {epoch + 1}: loss {total / max(len(parts), 1):.4f}", flush=True)


def test(client, model, rows, data, o):
    """Returns the AUC of all workers' predictions and their number; each worker predicts a part of the examples."""
    model.eval()
    auc = client.table("auc", accessor="counter", dim=2)
    mine = np.arange(client.rank, len(data.labels), client.workers)
    with torch.no_grad():
        for begin in range(0, len(mine), 4096):
            labels, ids, offsets = data.batch(mine[begin:begin + 4096], rows.fields)
            auc.auc_add(torch.sigmoid(rows(ids, offsets)).numpy(), labels.numpy())
    client.barrier()
    return auc.auc()


def run(client, o):
    data, tests = (read(o.train), read(o.test)) if o.train else (invented(40000, 2), invented(5000, 3))
    fields = int(max(data.field.max(), tests.field.max())) + 1
    table = client.table("vectors", dim=1 + o.dim, rule=f"adam:lr={o.lr},l2={o.l2}", init=0.01, seed=o.seed,
                         mode="sync" if o.sync else "async")
    torch.manual_seed(o.seed)
    rows = DeepFM(table, fields, o.hidden)
    model = rows
    if client.workers > 1:
        tug.torch.init_process_group(client)
        model = nn.parallel.DistributedDataParallel(rows)
    optimizers = tug.torch.Optimizer(rows), torch.optim.Adam(rows.parameters(), lr=o.dense_lr)
    train(client, model, rows, optimizers, data, o)
    client.barrier()
    value, n = test(client, model, rows, tests, o)
    if client.rank == 0:
        print(f"{client.workers} workers, {table.stat().rows} rows: test AUC {value:.4f} of {n} examples")
    if client.workers > 1:
        torch.distributed.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--train", help="training data, a file in libffm format")
    p.add_argument("--test", help="test data, a file in libffm format")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch", type=int, default=1024, help="examples in a batch of all workers together")
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--hidden", type=int, nargs="*", default=[64, 32])
    p.add_argument("--lr", type=float, default=0.03, help="learning rate of the rows, which falls to 0")
    p.add_argument("--l2", type=float, default=1e-6, help="L2 penalty of the rows")
    p.add_argument("--dense-lr", type=float, default=0.003, help="learning rate of the layers, which falls to 0")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--sync", action="store_true", help="update a batch's rows once, when all workers have finished it")
    p.add_argument("--prefetch", action="store_true", help="request the rows of the next batch before each step")
    o = p.parse_args()
    if (o.train is None) != (o.test is None):
        p.error("--train and --test go together")
    torch.set_num_threads(1)
    with tug.connect() if tug.role() == "worker" else tug.local() as client:
        run(client, o)


if __name__ == "__main__":
    main()
