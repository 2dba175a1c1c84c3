"""The peer of bench/deep: trains DeepFM or Wide & Deep with PyTorch on train.ffm, tests it on
test.ffm, and prints a report with the names that `tug train --json` has. Whatever is not training
is spared it: its batches are tensors before the clock starts, and a pass shuffles batches, not
examples.

SPDX-License-Identifier: Apache-2.0
"""

import json
import sys
import time

import numpy as np
import torch
import trainers
from torch import nn

CHUNK = 64 << 20  # bytes of text read at a time


def chunks(path):
    """Whole lines, about CHUNK bytes at a time."""
    with open(path, "rb") as f:
        while text := f.read(CHUNK) + f.readline():
            yield text if text.endswith(b"\n") else text + b"\n"


def read(path):
    """libffm's text: labels, and field, key and value of all features, n of each example."""
    parts = []
    for text in chunks(path):
        symbols = np.frombuffer(text, np.uint8)
        colons = np.cumsum(symbols == ord(":"))[symbols == ord("\n")]
        n = np.diff(colons, prepend=0) // 2
        numbers = np.fromstring(text.replace(b":", b" "), sep=" ")
        at = np.cumsum(3 * n + 1) - 3 * n - 1  # of labels
        assert len(numbers) == 3 * n.sum() + len(n), f"{path} is not libffm's text"
        field, key, value = np.delete(numbers, at).reshape(-1, 3).T
        parts.append(((numbers[at] > 0).astype(np.float32), n, field.astype(np.int16),
                      key.astype(np.int64), value.astype(np.float32)))
    return [np.concatenate(part) for part in zip(*parts)]


def batches_of(data, keys, fields, size):
    """(labels, rows of embeddings, where each field of each example begins, values) of each batch.
    A key that training has not seen is row 0, which stays 0. Values that are all 1: None."""
    labels, n, field, key, value = data
    row = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    row = np.where(keys[row] == key, row + 1, 0).astype(np.int32)
    ends = np.concatenate(([0], np.cumsum(n)))
    for first in range(0, len(labels), size):
        label = labels[first:first + size]
        part = slice(ends[first], ends[first + len(label)])
        bag = np.repeat(np.arange(len(label)), n[first:first + size]) * fields + field[part]
        order = np.argsort(bag, kind="stable")
        offsets = np.searchsorted(bag[order], np.arange(len(label) * fields)).astype(np.int32)
        values = None if (value == 1).all() else torch.from_numpy(value[part][order])
        yield (torch.from_numpy(label), torch.from_numpy(row[part][order]),
               torch.from_numpy(offsets), values)


class Model(nn.Module):
    """w of a feature is the last float of its row: one lookup does for both."""

    def __init__(self, pairs, rows, fields, dim, hidden, sparse):
        super().__init__()
        self.pairs, self.fields, self.dim = pairs, fields, dim
        self.rows = nn.EmbeddingBag(rows, dim + 1, mode="sum", sparse=sparse)
        with torch.no_grad():
            self.rows.weight.uniform_(-0.01, 0.01)
            self.rows.weight[:, dim] = 0
            self.rows.weight[0] = 0
        widths = (fields * dim, *hidden)
        layers = [x for a, b in zip(widths, hidden) for x in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden[-1], 1))

    def forward(self, rows, offsets, values):
        e = self.rows(rows, offsets, per_sample_weights=values)
        e = e.view(-1, self.fields, self.dim + 1)
        v = e[:, :, :self.dim]
        score = self.layers(v.flatten(1)).squeeze(1) + e[:, :, self.dim].sum(1)
        if self.pairs:  # half of the sum's square without the fields' own
            pairs = (v.sum(1).square().sum(1) - v.square().sum((1, 2))) / 2
            score = score + pairs / self.fields  # as tug's
        return score


def train(model, batches, sparse, passes):
    """Seconds that the passes took."""
    rows, layers = model.rows.parameters(), model.layers.parameters()
    steps = ([torch.optim.SparseAdam(list(rows)), torch.optim.Adam(layers)] if sparse
             else [torch.optim.Adam(model.parameters())])
    loss = nn.BCEWithLogitsLoss()
    begin = time.monotonic()
    for _ in range(passes):
        for i in torch.randperm(len(batches)).tolist():
            label, *features = batches[i]
            for step in steps:
                step.zero_grad(set_to_none=True)
            loss(model(*features), label).backward()
            for step in steps:
                step.step()
    return time.monotonic() - begin


def main():
    """MODEL sparse|dense PASSES THREADS DIM HIDDEN BATCH"""
    name, rule, *rest = sys.argv[1:]
    passes, threads, dim, hidden, size = (list(map(int, x.split(","))) for x in rest)
    torch.set_num_threads(threads[0])
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    begin = time.monotonic()
    data = read("train.ffm")
    keys, fields = np.unique(data[3]), int(data[2].max()) + 1
    batches = list(batches_of(data, keys, fields, size[0]))
    model = Model(name == "deepfm", len(keys) + 1, fields, dim[0], hidden, rule == "sparse")
    seconds = {"read": time.monotonic() - begin,
               "train": train(model, batches, rule == "sparse", passes[0])}
    begin = time.monotonic()
    with torch.no_grad():
        tested = [(label, model(*features))
                  for label, *features in batches_of(read("test.ffm"), keys, fields, size[0])]
    labels, scores = (torch.cat(part).tolist() for part in zip(*tested))
    seconds["test"] = time.monotonic() - begin
    print(json.dumps({
        "seconds": seconds, "keys": len(keys), "bytes_per_key": 3 * 4 * (dim[0] + 1),
        "examples_per_second": len(data[0]) * passes[0] / seconds["train"],
        "auc": trainers.auc(labels, scores),
        "data_bytes": sum(t.numel() * t.element_size()
                          for batch in batches for t in batch if t is not None)}))


main()
