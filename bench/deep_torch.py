"""The peer of bench/deep and bench/deep_tuned: trains DeepFM or Wide & Deep with PyTorch on train.ffm, tests it on
test.ffm, and prints a report with the names of `tug train --json`. Only training is timed: batches are tensors before
the clock starts, and a pass shuffles batches instead of examples, unless --each-pass is given.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import time

import numpy as np
import torch
import trainers
from torch import nn

CHUNK = 64 << 20  # bytes of text that are read at a time


def chunks(path):
    """Yields the text of a file in parts of whole lines, about CHUNK bytes each."""
    with open(path, "rb") as f:
        while text := f.read(CHUNK) + f.readline():
            yield text if text.endswith(b"\n") else text + b"\n"


def read(path):
    """Reads libffm text. Returns the labels, the number n of features of each example, and the field, key and value of
    each feature."""
    parts = []
    for text in chunks(path):
        symbols = np.frombuffer(text, np.uint8)
        colons = np.cumsum(symbols == ord(":"))[symbols == ord("\n")]
        n = np.diff(colons, prepend=0) // 2
        numbers = np.fromstring(text.replace(b":", b" "), sep=" ")
        at = np.cumsum(3 * n + 1) - 3 * n - 1  # the positions of the labels
        assert len(numbers) == 3 * n.sum() + len(n), f"{path} is not libffm's text"
        field, key, value = np.delete(numbers, at).reshape(-1, 3).T
        parts.append(((numbers[at] > 0).astype(np.float32), n, field.astype(np.int16),
                      key.astype(np.int64), value.astype(np.float32)))
    return [np.concatenate(part) for part in zip(*parts)]


def batches_of(data, keys, fields, size):
    """Yields for each batch its labels, rows of embeddings, the offset of each field of each example, and values (None
    if all are 1). A key that is not in the training data has row 0, which stays 0."""
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
    """DeepFM (pairs) or Wide & Deep. The last float of a feature's row is its linear weight, so that one lookup gives
    vector and weight."""

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
        if self.pairs:  # half of the square of the sum, less the sum of squares
            pairs = (v.sum(1).square().sum(1) - v.square().sum((1, 2))) / 2
            score = score + pairs / self.fields  # scaled as in tug
        return score


def order_of(data, examples):
    """Returns the data with its examples in the order `examples`."""
    labels, n, *features = data
    first = (np.cumsum(n) - n)[examples]
    n = n[examples]
    moved = np.repeat(first - (np.cumsum(n) - n), n) + np.arange(n.sum())
    return [labels[examples], n, *(column[moved] for column in features)]


def steps_of(model, o):
    rows, layers = list(model.rows.parameters()), list(model.layers.parameters())
    if o.rule == "sparse":
        return [torch.optim.SparseAdam(rows, o.lr), torch.optim.Adam(layers, o.lr)]
    return [torch.optim.Adam([{"params": rows, "weight_decay": o.decay}, {"params": layers}], o.lr)]


def train(model, batches, steps):
    """Trains for one pass over the batches."""
    loss = nn.BCEWithLogitsLoss()
    for i in torch.randperm(len(batches)).tolist():
        label, *features = batches[i]
        for step in steps:
            step.zero_grad(set_to_none=True)
        loss(model(*features), label).backward()
        for step in steps:
            step.step()


def auc_of(model, batches):
    with torch.no_grad():
        tested = [(label, model(*features)) for label, *features in batches]
    return trainers.auc(*(torch.cat(part).tolist() for part in zip(*tested)))


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=("deepfm", "wide_deep"))
    parser.add_argument("rule", choices=("sparse", "dense"), help="the kind of Adam for the embeddings")
    for name, default in (("passes", 1), ("threads", 2), ("dim", 16), ("batch", 2048), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--hidden", type=lambda x: [int(n) for n in x.split(",")],
                        default=[400, 400, 400])
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--decay", type=float, default=0, help="L2 penalty of the embeddings, for the rule dense")
    parser.add_argument("--each-pass", action="store_true",
                        help="shuffle examples before each pass, and test after it")
    return parser.parse_args()


def main():
    o = options_of()
    torch.set_num_threads(o.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(o.seed)
    random = np.random.default_rng(o.seed)
    begin = time.monotonic()
    data, test = read("train.ffm"), read("test.ffm")
    keys, fields = np.unique(data[3]), int(data[2].max()) + 1

    def batches(examples):
        return list(batches_of(examples, keys, fields, o.batch))
    passed, tested = batches(data), batches(test)
    model = Model(o.model == "deepfm", len(keys) + 1, fields, o.dim, o.hidden, o.rule == "sparse")
    steps, aucs, seconds = steps_of(model, o), [], {"read": time.monotonic() - begin, "train": 0}
    for _ in range(o.passes):
        if o.each_pass:
            passed = batches(order_of(data, random.permutation(len(data[0]))))
        begin = time.monotonic()
        train(model, passed, steps)
        seconds["train"] += time.monotonic() - begin
        if o.each_pass:
            aucs.append(auc_of(model, tested))
    begin = time.monotonic()
    auc = aucs[-1] if aucs else auc_of(model, tested)
    seconds["test"] = time.monotonic() - begin
    print(json.dumps({
        "seconds": seconds, "keys": len(keys), "bytes_per_key": 3 * 4 * (o.dim + 1),
        "examples_per_second": len(data[0]) * o.passes / seconds["train"],
        "auc": auc, "aucs": aucs,
        "data_bytes": sum(t.numel() * t.element_size()
                          for batch in passed for t in batch if t is not None)}))


main()
