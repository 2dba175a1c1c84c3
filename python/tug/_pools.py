"""Autograd functions that pool a batch's rows into bags, for tug.torch's modules. The backward pass gives the gradients
of the rows to the module.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Optional

import numpy as np
import torch

from tug._arrays import Floats, Keys
from tug._bags import Bags
from tug._errors import UsageError


def _learnt(module: Any, batch: Any, by_rows: Any) -> None:
    """Adds the gradients of a batch's rows (by_rows, a tensor) to the module's gradients."""
    if module.scale_grad_by_freq:
        counts = np.bincount(batch.which, minlength=len(batch.rows)).astype(np.float32)
        by_rows = by_rows / torch.from_numpy(np.maximum(counts, 1)[:, None])
    module.gradients.add(batch.keys, by_rows[batch.padded:])


class _Sums(torch.autograd.Function):
    """Sums or means of rows. The first input, `anchor`, has no value; it only makes this a node of the autograd graph,
    so that backward() is called and gives the gradients to the module."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, weights: Any, module: Any, batch: Any, offsets: Optional[Keys],
                lengths: Optional[Floats]) -> Any:
        given = None if weights is None else np.ascontiguousarray(weights.detach().reshape(-1).numpy(), np.float32)
        ctx.bags = Bags(batch.which, offsets, given, module.embedding_dim)
        ctx.module, ctx.batch, ctx.lengths = module, batch, lengths
        ctx.weights = None if weights is None else (weights.shape, weights.dtype)
        sums = ctx.bags.pool(batch.rows)
        return torch.from_numpy(sums if lengths is None else sums / lengths)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if torch.is_grad_enabled() and ctx.needs_input_grad[1]:
            raise UsageError("per_sample_weights: create_graph=True needs second derivatives with respect to weights "
                             "and rows, which tug does not compute: detach the weights, or the rows")
        given = np.ascontiguousarray(gradient.detach().numpy(), np.float32)
        if ctx.lengths is not None:
            given = given / ctx.lengths
        batch, by_weights = ctx.batch, None
        if ctx.needs_input_grad[0]:
            _learnt(ctx.module, batch, torch.from_numpy(ctx.bags.spread(given, len(batch.rows))))
        if ctx.needs_input_grad[1]:
            shape, dtype = ctx.weights
            by_weights = torch.from_numpy(ctx.bags.weigh(batch.rows, given)).reshape(shape).to(dtype)
        return None, by_weights, None, None, None, None


class _Rows(torch.autograd.Function):
    """The rows of a batch as a tensor, with which PyTorch continues to compute."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, module: Any, batch: Any) -> Any:
        ctx.module, ctx.batch = module, batch
        return torch.from_numpy(batch.rows)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.needs_input_grad[0]:
            _learnt(ctx.module, ctx.batch, gradient.detach())
        return None, None, None


def _lengths(batch: Any, offsets: Keys) -> Floats:
    """Returns the number of entries of each bag without padding, at least 1, as a column."""
    before = np.zeros(batch.which.size + 1, np.int64)
    np.cumsum(batch.which >= batch.padded, out=before[1:])
    return np.maximum(np.diff(before[offsets]), 1).astype(np.float32)[:, None]


def _greatest(anchor: Any, module: Any, batch: Any, offsets: Keys) -> Any:
    if batch.which.size == 0:
        return torch.zeros((offsets.size - 1, module.embedding_dim))
    return torch.nn.functional.embedding_bag(
        torch.from_numpy(batch.which.astype(np.int64)), _Rows.apply(anchor, module, batch),
        torch.from_numpy(offsets.astype(np.int64)), mode="max", include_last_offset=True,
        padding_idx=0 if batch.padded else None)


def pooled(anchor: Any, weights: Any, module: Any, batch: Any, offsets: Optional[Keys], mode: str) -> Any:
    """Returns the bags of a batch, pooled by one of torch's modes ("sum", "mean", "max"). offsets None: each id is a
    bag of its own, and mode is "sum"."""
    if mode == "max" and offsets is not None:
        return _greatest(anchor, module, batch, offsets)
    lengths = _lengths(batch, offsets) if mode == "mean" and offsets is not None else None
    return _Sums.apply(anchor, weights, module, batch, offsets, lengths)
