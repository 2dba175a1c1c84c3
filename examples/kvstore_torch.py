#!/usr/bin/env python3
"""Several workers train a torch model with tug.kvstore: it has layers, and an embedding of which each batch uses only
some rows.

    tug launch --servers 2 --workers 2 -- python3 examples/kvstore_torch.py

Each worker has a part of the clicks. Before a batch it pulls the layers and the batch's rows of the embedding;
afterwards it pushes their gradients, those of the embedding as a sparse torch tensor. The servers add up the gradients
of all workers and apply the optimizer. Worker 0 prints the AUC on test clicks. Without tug launch the program is one
process.

SPDX-License-Identifier: Apache-2.0
"""

import os

import tug.kvstore as kvstore  # the scheduler and servers stay in here, without torch

import torch
from torch import nn

ROWS, DIM, SLOTS, CLICKS, TEST, BATCH, EPOCHS = 3000, 8, 3, 20000, 4000, 100, 3

kv = kvstore.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")

torch.manual_seed(1)  # every worker generates the same data and the same initial layers
truth = torch.randn(ROWS)
ids = (ROWS * torch.rand(CLICKS + TEST, SLOTS) ** 2).long()  # a few ids are frequent, most are rare
clicked = (torch.rand(CLICKS + TEST) < torch.sigmoid(truth[ids].sum(1))).float()

embedding = nn.Embedding(ROWS, DIM, sparse=True)
layers = nn.Sequential(nn.Linear(SLOTS * DIM, 16), nn.ReLU(), nn.Linear(16, 1))
names, weights = zip(*layers.named_parameters())
names = list(names)

kv.init(names, list(weights))
kv.init("embedding", kvstore.RowSparse.of(embedding.weight))
kv.set_optimizer(kvstore.optimizer.create("adam", learning_rate=0.03, rescale_grad=1 / kv.num_workers))


def pull(batch):
    rows = kvstore.RowSparse.zeros((ROWS, DIM))
    kv.pull(names, out=list(weights))
    kv.row_sparse_pull("embedding", out=rows, row_ids=batch)
    with torch.no_grad():
        embedding.weight[rows.indices] = torch.from_numpy(rows.data)


def scores(batch):
    return layers(embedding(batch).flatten(1)).squeeze(1)


def auc(score, label):
    ranks = score.argsort().argsort().double() + 1
    n = label.sum().double()
    return (ranks[label == 1].sum() - n * (n + 1) / 2) / (n * (len(label) - n))


# the same number for each worker, because a round waits for a push of every worker
steps = CLICKS // (BATCH * kv.num_workers)
for epoch in range(EPOCHS):
    for step in range(steps):
        at = (step * kv.num_workers + kv.rank) * BATCH
        batch = ids[at:at + BATCH]
        pull(batch)
        loss = nn.functional.binary_cross_entropy_with_logits(scores(batch), clicked[at:at + BATCH])
        layers.zero_grad()
        embedding.zero_grad()
        loss.backward()
        kv.push("embedding", embedding.weight.grad, priority=-1)
        kv.push(names, [w.grad for w in weights])
    if kv.rank == 0:
        pull(ids[CLICKS:])
        with torch.no_grad():
            print(f"epoch {epoch}: test AUC {auc(scores(ids[CLICKS:]), clicked[CLICKS:]):.3f}", flush=True)
