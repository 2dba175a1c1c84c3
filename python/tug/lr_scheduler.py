"""Schedules of the learning rate for optimizers of tug.kvstore, as in mxnet.lr_scheduler (2.0).

    schedule = kvstore.lr_scheduler.FactorScheduler(step=1000, factor=0.5, base_lr=0.1, warmup_steps=100)
    kv.set_optimizer(kvstore.optimizer.create("sgd", lr_scheduler=schedule))

The store computes the rate before each update; on a cluster each server does so by itself. The rate is
schedule(num_update), where num_update is the number of pushes to the key with the most pushes.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any, Sequence

import numpy as np

from tug._abi import ffi
from tug._arrays import whole, word
from tug._errors import ArgumentTypeError, UsageError
from tug._kvnames import of_module
from tug._library import check, lib

__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]


def learning_rate(optimizer: str, num_update: int) -> float:
    """Returns the learning rate of an optimizer, given as text, at update num_update. Raises UsageError if the text has
    an unknown optimizer or a wrong number."""
    ret = ffi.new("double *")
    check(lib.tug_kvstore_learning_rate(ffi.new("char[]", word(optimizer, "optimizer")),
                                        whole(num_update, "num_update", 0, 2 ** 62), ret))
    return float(ret[0])


def number_text(value: Any, what: str) -> str:
    """Returns a number in the form that an optimizer's text has. `what` names it in an error."""
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        raise ArgumentTypeError(f"{what} is a number, not {type(value).__name__}")
    return repr(float(value))


class LRScheduler:
    """The base of all schedulers. In the first warmup_steps updates the rate rises from warmup_begin_lr to base_lr
    (warmup_mode "linear"), or stays at warmup_begin_lr ("constant"). A program can derive a class of its own from it to
    compute rates, but cannot give it to an optimizer."""

    _name = ""
    _fields: Sequence[str] = ()

    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear") -> None:
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def _begun(self) -> None:
        learning_rate("sgd:" + self.text(), 0)  # raises for wrong arguments

    def text(self) -> str:
        """Returns this schedule as part of an optimizer's text."""
        if type(self).__call__ is not LRScheduler.__call__ or not self._name:
            raise UsageError(f"the lr_scheduler {type(self).__name__} is the program's own, and servers run no code of "
                             "workers: use FactorScheduler, MultiFactorScheduler, PolyScheduler or CosineScheduler, "
                             "or change learning_rate and call set_optimizer again")
        parts = [f"lr_scheduler={self._name}"]
        for field in (*self._fields, "base_lr", "warmup_steps", "warmup_begin_lr"):
            value = getattr(self, field)
            if field == "step" and isinstance(value, (list, tuple)):
                parts.append("step=" + "|".join(number_text(one, "step") for one in value))
            else:
                parts.append(f"{field}={number_text(value, field)}")
        if not isinstance(self.warmup_mode, str) or not self.warmup_mode.isalpha():
            raise UsageError(f"warmup_mode must be 'linear' or 'constant', not {self.warmup_mode!r}")
        return ",".join([*parts, f"warmup_mode={self.warmup_mode}"])

    def __call__(self, num_update: int) -> float:
        """Returns the learning rate at update num_update; the first update has number 1."""
        return learning_rate("sgd:" + self.text(), num_update)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text()!r})"


class FactorScheduler(LRScheduler):
    """Multiplies the rate, first base_lr, by `factor` after every `step` updates, but not below stop_factor_lr."""

    _name, _fields = "factor", ("step", "factor", "stop_factor_lr")

    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.step, self.factor, self.stop_factor_lr = step, factor, stop_factor_lr
        self._begun()


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate, first base_lr, by `factor` after each of the updates in the list `step`."""

    _name, _fields = "multifactor", ("step", "factor")

    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, (list, tuple)) or not step:
            raise ArgumentTypeError(f"step of MultiFactorScheduler is a list of updates, not {step!r}")
        self.step, self.factor = list(step), factor
        self._begun()


class PolyScheduler(LRScheduler):
    """Lowers the rate from base_lr to final_lr at update max_update, in proportion to (1 - n / max_update) to the power
    pwr."""

    _name, _fields = "poly", ("max_update", "pwr", "final_lr")

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.pwr, self.final_lr = max_update, pwr, final_lr
        self._begun()


class CosineScheduler(LRScheduler):
    """Lowers the rate from base_lr to final_lr at update max_update, along half a period of the cosine."""

    _name, _fields = "cosine", ("max_update", "final_lr")

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.final_lr = max_update, final_lr
        self._begun()


def __getattr__(name: str) -> Any:
    raise of_module(sys.modules[__name__], name)
